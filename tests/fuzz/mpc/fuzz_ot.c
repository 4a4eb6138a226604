/* What a peer can send in the base OTs and trees: the first byte selects the receiver, the rest is
 * the peer's stream.   0 base OT, sender   1 base OT, receiver   2 OT trees */
#include "base/span.h"
#include "fuzz/toy_group.h"
#include "mpc/ot/trees.h"
#include "seeded/seeded.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static sefl_status take(void *self, void *out, size_t n)
{
    rd *r = self;
    sefl_status st = rd_raw(r, out, n);
    return st == SEFL_OK ? st : sefl_fail(SEFL_ECLOSED, "end of input");
}

static sefl_status drop(void *self, const void *p, size_t n)
{
    (void)self, (void)p, (void)n;
    return SEFL_OK;
}

static sefl_status flush(void *self)
{
    (void)self;
    return SEFL_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const channel_ops ops = { drop, take, flush };
    if (size == 0)
        return 0;
    rd in = rd_over(span_of(data + 1, size - 1));
    channel ch = { .ops = &ops, .self = &in };
    seeded gen;
    seeded_init(&gen, 1, "fuzz");
    sefl_rng rng = seeded_rng(&gen);
    uint8_t session[OT_SESSION] = { 0 };
    switch (data[0] % 3) {
    case 0: {
        uint8_t keys[2][2][OT_KEY];
        (void)!ot_base_send(&ch, keys, 2, session, &rng);
        break;
    }
    case 1: {
        uint8_t keys[2][OT_KEY], choice[2] = { 0, 1 };
        (void)!ot_base_receive(&ch, keys, choice, 2, session, &rng);
        break;
    }
    default: {
        uint8_t leaf[32 << 4][OT_KEY], delta[OT_KEY] = { 1 };
        if (in.left < 8000) /* 128 base OTs are slow: only for inputs that may get past them */
            break;
        if (ot_trees_receive(&ch, leaf, delta, 4, session, &rng) == SEFL_OK)
            abort(); /* nobody guesses the digests */
        break;
    }
    }
    return 0;
}
