#include "mpc/noise/shares_plain.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "crypto/prg/prg.h"
#include "mpc/circuits/plain.h"
#include "mpc/garble/garble.h"
#include "mpc/ot/choices.h"
#include "mpc/ot/ext.h"

#include <string.h>

/* What one thread needs. */
typedef struct clear_lane {
    plain *run;
    uint8_t *coins, *scratch; /* of a chunk: 16 lanes in two bytes, order block, wire */
} clear_lane;

typedef struct in_clear {
    shares_params p;
    uint8_t id[SHARES_ID];
    ot_choices as; /* AS's coins */
    prg csp;       /* CSP's */
    circuit *c;
    unsigned wires;
    size_t room; /* bytes of coins */
    clear_lane *lane;
    unsigned lanes;
    uint64_t *x;
} in_clear;

/* The coins of both sides, as their halves of a session draw them (shares.c): nonce, seed; and from
 * the seed all others. */
static sefl_status draw(in_clear *s, const shares_params *p, const sefl_rng *as_rng,
                        const sefl_rng *csp_rng)
{
    sefl_status st = SEFL_OK;
    uint8_t nonce[2][32], seed[2][AUDIT_SEED], bits[PRG_SEED];
    gc_label delta;
    prg coins = { 0 };
    sefl_rng rng = prg_rng(&coins);
    SEFL_TRY(rng_fill(csp_rng, nonce[0], sizeof nonce[0]));
    SEFL_TRY(rng_fill(csp_rng, seed[0], sizeof seed[0]));
    SEFL_TRY(rng_fill(as_rng, nonce[1], sizeof nonce[1]));
    SEFL_TRY(rng_fill(as_rng, seed[1], sizeof seed[1]));
    SEFL_TRY(shares_named(s->id, &s->p, p, nonce[0], nonce[1]));
    prg_init(&coins, seed[1], SHARES_AS_COINS);
    SEFL_TRY(ot_choices_init(&s->as, s->p.ot_k, s->id, &rng));
    prg_init(&coins, seed[0], SHARES_CSP_COINS);
    SEFL_TRY(gc_delta_draw(&delta, &rng));
    SEFL_TRY(rng_fill(&rng, bits, sizeof bits));
    prg_init(&s->csp, bits, SHARES_CSP_BITS);
done:
    prg_clear(&coins);
    sefl_wipe(seed, sizeof seed);
    sefl_wipe(bits, sizeof bits);
    sefl_wipe(&delta, sizeof delta);
    return st;
}

/* n values from their coins, 256 at a time. */
static void clear_values(const in_clear *s, const clear_lane *l, uint64_t *x, size_t n)
{
    const unsigned wires = s->wires;
    enum { BLOCKS = PLAIN_COPIES / GC_LANES, IN_WORD = 64 / GC_LANES };
    uint64_t in[SAMPLER_MAX_COINS][PLAIN_WORDS], out[SAMPLER_MAX_BITS][PLAIN_WORDS];
    for (size_t at = 0; at < n; at += PLAIN_COPIES) {
        const uint8_t *coin = l->coins + at / 8 * wires;
        size_t take = n - at < PLAIN_COPIES ? n - at : PLAIN_COPIES;
        size_t blocks = (take + GC_LANES - 1) / GC_LANES;
        memset(in, 0, wires * sizeof *in);
        for (size_t b = 0; b < blocks && b < BLOCKS; b++)
            for (unsigned i = 0; i < wires; i++)
                for (size_t half = 0; half < 2; half++)
                    in[i][b / IN_WORD] |= (uint64_t)coin[2 * (b * wires + i) + half]
                                          << (b % IN_WORD * GC_LANES + 8 * half);
        plain_run(l->run, out, (const uint64_t(*)[PLAIN_WORDS])in);
        for (size_t j = 0; j < take; j++) {
            uint64_t value = 0;
            for (uint32_t b = 0; b < s->c->outputs; b++)
                value |= (out[b][j / 64] >> j % 64 & 1) << b;
            x[at + j] = value;
        }
    }
}

/* A piece of pool_run: chunks [begin, end). The coins of a chunk depend only on its number. */
static sefl_status clear_chunks(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const in_clear *s = ctx;
    const clear_lane *l = &s->lane[lane];
    const size_t whole = (size_t)s->p.chunk * s->wires / 8;
    for (size_t c = begin; c < end; c++) {
        size_t at = c * s->p.chunk, n = s->p.count - at < s->p.chunk ? s->p.count - at : s->p.chunk;
        size_t bits = (n + SHARES_ALIGN - 1) / SHARES_ALIGN * SHARES_ALIGN * s->wires;
        ot_choices_of(&s->as, l->coins, l->scratch, c, (bits + OT_GRAIN - 1) / OT_GRAIN * OT_GRAIN);
        prg_read(&s->csp, l->scratch, bits / 8, 0, c * whole);
        for (size_t i = 0; i < bits / 8; i++)
            l->coins[i] ^= l->scratch[i];
        clear_values(s, l, s->x + at, n);
    }
    return SEFL_OK;
}

static sefl_status make_lanes(in_clear *s, unsigned lanes)
{
    SEFL_PASS(sefl_new(&s->lane, lanes, sizeof *s->lane));
    for (s->lanes = 0; s->lanes < lanes;) {
        clear_lane *l = &s->lane[s->lanes++];
        SEFL_PASS(plain_new(&l->run, s->c));
        SEFL_PASS(sefl_new(&l->coins, s->room, 1));
        SEFL_PASS(sefl_new(&l->scratch, s->room, 1));
    }
    return SEFL_OK;
}

static void free_lanes(in_clear *s)
{
    for (unsigned i = 0; i < s->lanes; i++) {
        plain_free(s->lane[i].run);
        sefl_free_secret(s->lane[i].coins, s->room);
        sefl_free_secret(s->lane[i].scratch, s->room);
    }
    sefl_free(s->lane);
}

sefl_status shares_plain(uint64_t *x, const shares_params *p, pool *threads, const sefl_rng *as_rng,
                         const sefl_rng *csp_rng)
{
    enum { GRAIN = 8 };
    sefl_status st = SEFL_OK;
    in_clear *s = NULL;
    SEFL_TRY(sefl_new(&s, 1, sizeof *s));
    SEFL_TRY(draw(s, p, as_rng, csp_rng));
    SEFL_TRY(sampler_offline(&s->c, s->p.profile));
    s->x = x;
    s->wires = sampler_random_bits(s->p.profile);
    s->room = ((size_t)s->p.chunk * s->wires + OT_GRAIN) / 8;
    SEFL_TRY(make_lanes(s, pool_threads(threads)));
    SEFL_TRY(pool_run(threads, (s->p.count + s->p.chunk - 1) / s->p.chunk, GRAIN, clear_chunks, s,
                      NULL));
done:
    if (s) {
        free_lanes(s);
        circuit_free(s->c);
        sefl_free_secret(s, sizeof *s);
    }
    return st;
}

typedef struct packing {
    uint8_t *to;
    const uint64_t *from;
    unsigned bytes;
} packing;

static sefl_status pack_some(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const packing *p = ctx;
    uint8_t *to = p->to + begin * p->bytes;
    (void)lane;
    for (size_t i = begin; i < end; i++)
        for (unsigned b = 0; b < p->bytes; b++)
            *to++ = (uint8_t)(p->from[i] >> 8 * b);
    return SEFL_OK;
}

sefl_status shares_fill_plain(uint8_t *x, unsigned bytes, unsigned bits, uint64_t count,
                              pool *threads, const sefl_rng *as_rng, const sefl_rng *csp_rng)
{
    enum { GRAIN = 1 << 14 };
    sefl_status st = SEFL_OK;
    uint64_t *v = NULL;
    size_t room = count < SHARES_COUNT_MAX ? count : SHARES_COUNT_MAX;
    SEFL_TRY(sefl_new(&v, room, sizeof *v));
    for (uint64_t done = 0; done < count;) {
        shares_params p = { .count = count - done < room ? count - done : room, .bits = bits };
        packing to = { x + done * bytes, v, bytes };
        SEFL_TRY(shares_plain(v, &p, threads, as_rng, csp_rng));
        SEFL_TRY(pool_run(threads, p.count, GRAIN, pack_some, &to, NULL));
        done += p.count;
    }
done:
    sefl_free_secret(v, room * sizeof *v);
    return st;
}
