/* partition: splits one corpus among K clients. The same corpus, settings and seed give the same
 * clients on every machine.
 *
 *     SEFL_TRY(partition_make(&p, &c, &(partition_settings){ .kind = PARTITION_ARTICLE,
 *                                                           .clients = 10, .seed = 7 }));
 *     SEFL_TRY(partition_take(&mine, &c, &p, 3));         // client 3's own corpus
 *
 *   contiguous   line k goes to client floor(K * t / N), where t is the number of its first token
 *                and N the number of tokens: shares are equal to within a line (a client whose part
 *                is inside one long line is empty); documents may be cut. Nothing is random
 *   round-robin  line k goes to client k mod K. Nothing is random
 *   article      documents go in a random order (Fisher-Yates) to the client with the fewest tokens
 *                so far (on a tie, to the lowest number): documents stay whole, shares are nearly
 *                equal
 *   dirichlet    shares are (p_1 .. p_K) ~ Dirichlet(alpha, ..., alpha). Documents are in a random
 *                order: the first K go to one client each, so that none is empty; each later one
 *                goes to a client drawn by these shares. A small alpha favours few clients
 *
 * Every line goes to exactly one client; lines keep their order. Streams of the seed
 * (src/core/seeded): "partition order", "partition shares", "partition deal".
 *
 * Threads: a finished partition may be shared. */
#ifndef MODEL_CORPUS_PARTITION_H
#define MODEL_CORPUS_PARTITION_H

#include "model/corpus/corpus.h"

enum { PARTITION_CLIENTS_MAX = 1000000 };

#define PARTITIONS "contiguous article round-robin dirichlet"
typedef enum partition_kind {
    PARTITION_CONTIGUOUS,
    PARTITION_ARTICLE,
    PARTITION_ROUND_ROBIN,
    PARTITION_DIRICHLET
} partition_kind;

typedef struct partition_settings {
    partition_kind kind;
    uint32_t clients;
    double alpha; /* dirichlet: 0.001 to 1000 */
    uint64_t seed;
} partition_settings;

typedef struct partition {
    uint32_t clients;
    uint32_t *owner; /* client of each line */
    size_t lines;
    size_t *order; /* the lines, sorted by client and then by number */
    size_t *first; /* clients + 1: where each client's lines begin in `order`, then `lines` */
} partition;

/* SEFL_EINVAL if there are more clients than lines (or documents, if these stay whole). */
sefl_status partition_make(partition *out, const corpus *c,
                           const partition_settings *s) SEFL_MUST_CHECK;
void partition_clear(partition *p);

/* Copies one client's lines, with the documents that contain them. */
sefl_status partition_take(corpus *out, const corpus *c, const partition *p,
                           uint32_t client) SEFL_MUST_CHECK;

/* Computes the Jensen-Shannon divergence between the token distributions of a client's text and of
 * the whole corpus, in bits (0: equal, 1: nothing in common). */
sefl_status partition_divergence(double *bits, const corpus *client, const corpus *whole,
                                 const vocab *v) SEFL_MUST_CHECK;

#endif
