#include "sum/ahead.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "crypto/prg/prg.h"
#include "protocol/modes/mode.h"

#include <string.h>

_Static_assert((int)AHEAD_SEED == (int)PRG_SEED, "a seed of a generator");

sefl_status ahead_draw(noise_ahead *a, const task *t, uint64_t round,
                       const uint8_t seed[AHEAD_SEED], pool *threads)
{
    const release_mode *mode = task_mode(t);
    if (!mode->draw || ahead_of(a, round, seed))
        return SEFL_OK;
    ahead_drop(a, t);
    a->round = round;
    memcpy(a->seed, seed, sizeof a->seed);
    SEFL_PASS(sefl_new(&a->e, t->values, sizeof *a->e));
    sefl_status st = mode->draw(a->e, t, seed, threads);
    if (st != SEFL_OK) {
        sefl_free_secret(a->e, t->values * sizeof *a->e);
        a->e = NULL;
    }
    return st;
}

const int64_t *ahead_of(const noise_ahead *a, uint64_t round, const uint8_t seed[AHEAD_SEED])
{
    return a->round == round && a->e && ct_eq_bytes(a->seed, seed, sizeof a->seed) ? a->e : NULL;
}

void ahead_drop(noise_ahead *a, const task *t)
{
    if (a->e)
        sefl_free_secret(a->e, t->values * sizeof *a->e);
    sefl_wipe(a, sizeof *a);
}
