/* reference: the numbers that the paper states about perplexity (docs/REFERENCES.md names it).
 *
 * The figures of the paper are images without numbers; only its table and sentences can be quoted.
 * Threads: any.   Secrets: none. */
#ifndef PAPER_REFERENCE_H
#define PAPER_REFERENCE_H

#include "paper/table.h"

/* Returns the test perplexity in the paper's dropout table; NAN for a rate that is not there. */
double reference_dropout(unsigned body, unsigned percent);

/* The paper's claims of the form "up to ... % better", for each model. */
typedef struct reference_claim {
    const char *what;
    const char *protection; /* compared with SEFL and BHM; itself unpruned */
    double percent[PAPER_BODIES];
} reference_claim;
extern const reference_claim reference_claims[];
extern const size_t reference_claim_count;

#endif
