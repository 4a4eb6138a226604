#include "paper/reference.h"

#include <math.h>

/* Table "Comparison of the impact of dropout rate" (section Result Analysis of the paper). */
static const struct {
    unsigned percent;
    double perplexity[PAPER_BODIES];
} dropout[] = {
    { 0, { 177.41, 263.78 } },
    { 25, { 178.45, 279.81 } },
    { 50, { 187.64, 301.04 } },
    { 75, { 194.82, 310.12 } },
};

double reference_dropout(unsigned body, unsigned percent)
{
    for (size_t i = 0; i < sizeof dropout / sizeof *dropout; i++)
        if (dropout[i].percent == percent)
            return dropout[i].perplexity[body];
    return NAN;
}

/* Section Result Analysis of the paper: "improves the accuracy by up to 11% and 15% over the CDP-FL
 * method", "19.3%, and 12.8% accuracy improvement ... in contrast to the unoptimized". */
const reference_claim reference_claims[] = {
    { "SEFL with BHM against CDP-FL", "cdp", { 11, 15 } },
    { "SEFL with BHM against unpruned SEFL", "sefl", { 19.3, 12.8 } },
};
const size_t reference_claim_count = sizeof reference_claims / sizeof *reference_claims;
