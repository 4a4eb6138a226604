#include "mpc/ot/choices.h"

#include "base/ct.h"
#include "mpc/ot/ot_kernels.h"

sefl_status ot_choices_init(ot_choices *c, unsigned k, const uint8_t session[OT_SESSION],
                            const sefl_rng *rng)
{
    uint8_t leaf[1 << OT_K_MAX][OT_KEY];
    sefl_status st = ot_first_tree(leaf, k, session, rng);
    c->k = k;
    for (size_t y = 0; y < (size_t)1 << k && st == SEFL_OK; y++)
        aes128_init(&c->leaf[y], leaf[y]);
    sefl_wipe(leaf, sizeof leaf);
    return st;
}

void ot_choices_of(const ot_choices *c, uint8_t *bits, uint8_t *scratch, uint64_t number, size_t n)
{
    aes128_ctr(&c->leaf[0], bits, n / 8, number, 0);
    for (size_t y = 1; y < (size_t)1 << c->k; y++) {
        aes128_ctr(&c->leaf[y], scratch, n / 8, number, 0);
        ot_kernels_best()->add_masked(bits, scratch, ~(uint64_t)0, n / 8);
    }
}
