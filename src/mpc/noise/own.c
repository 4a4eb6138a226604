#include "mpc/noise/own.h"

#include "base/ct.h"
#include "base/span.h"
#include "crypto/prg/prg.h"

#include <string.h>

enum { NOISE_MSG_OWN = 0x4e5a0101, HEAD = 32 + 8 + 8 + 8 + 4, GROUP = 512 };

/* Bytes of one value, k + t bits. */
static unsigned value_bytes(const noise_params *p)
{
    return (p->k + p->t + 7) / 8;
}

sefl_status noise_own_bytes(size_t *bytes, const noise_params *p)
{
    size_t unused;
    sefl_status st = noise_output_bytes(&unused, p); /* the same limits */
    *bytes = st == SEFL_OK ? p->count * value_bytes(p) : 0;
    return st;
}

static void head(uint8_t out[HEAD], const noise_params *p)
{
    memcpy(out, p->task, 32);
    store_u64(out + 32, p->round);
    store_u64(out + 40, p->attempt);
    store_u64(out + 48, p->count);
    store_u32(out + 56, p->k | p->t << 8 | p->g << 16);
}

/* The guard bits off, with secret coins: digit = (digit + U) >> g, U uniform on g bits. */
static void round_guard(uint64_t *digit, size_t n, unsigned g, prg *coins)
{
    uint64_t u[GROUP], low = ((uint64_t)1 << g) - 1;
    prg_fill(coins, u, n * sizeof *u);
    for (size_t i = 0; i < n; i++)
        digit[i] = (digit[i] + (load_u64(&u[i]) & low)) >> g;
    sefl_wipe(u, sizeof u);
}

sefl_status noise_own_make(uint8_t *reply, const noise_params *p, const noise_digits *masked,
                           const noise_source *noise, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint64_t digit[GROUP], ring;
    int64_t e[GROUP];
    uint8_t seed[PRG_SEED] = { 0 };
    unsigned bytes;
    size_t total;
    prg coins = { 0 };
    SEFL_TRY(noise_own_bytes(&total, p));
    bytes = value_bytes(p);
    ring = ((uint64_t)1 << (p->k + p->t)) - 1;
    SEFL_TRY(rng_fill(rng, seed, sizeof seed));
    prg_init(&coins, seed, "noise own CSP");
    for (size_t at = 0; at < p->count; at += GROUP) {
        size_t n = p->count - at < GROUP ? p->count - at : GROUP;
        SEFL_TRY(masked->get(masked->ctx, digit, at, n));
        SEFL_TRY(noise->get(noise->ctx, e, at, n));
        round_guard(digit, n, p->g, &coins);
        for (size_t i = 0; i < n; i++) {
            uint8_t value[8];
            store_u64(value, (digit[i] + (uint64_t)e[i]) & ring);
            memcpy(reply + (at + i) * bytes, value, bytes);
        }
    }
done:
    prg_clear(&coins);
    sefl_wipe(seed, sizeof seed);
    sefl_wipe(digit, sizeof digit);
    sefl_wipe(e, sizeof e);
    if (st != SEFL_OK && total > 0)
        sefl_wipe(reply, total);
    return st;
}

sefl_status noise_own_send(channel *ch, const noise_params *p, const uint8_t *reply)
{
    sefl_status st = SEFL_OK;
    uint8_t bound[HEAD];
    size_t total;
    SEFL_TRY(noise_own_bytes(&total, p));
    head(bound, p);
    SEFL_TRY(msg_begin(ch, NOISE_MSG_OWN, 0, HEAD + total));
    SEFL_TRY(channel_send(ch, bound, HEAD));
    SEFL_TRY(channel_send(ch, reply, total));
    SEFL_TRY(channel_flush(ch));
done:
    return st;
}

sefl_status noise_own_receive(channel *ch, const noise_params *p, uint8_t *reply)
{
    sefl_status st = SEFL_OK;
    uint8_t want[HEAD], got[HEAD];
    size_t total;
    SEFL_TRY(noise_own_bytes(&total, p));
    head(want, p);
    SEFL_TRY(msg_expect(ch, NOISE_MSG_OWN, 0, HEAD + total, "noise reply"));
    SEFL_TRY(channel_recv(ch, got, HEAD));
    SEFL_CHECK(memcmp(got, want, HEAD) == 0, SEFL_EPROTO,
               "noise reply: for another task, round, attempt or size");
    SEFL_TRY(channel_recv(ch, reply, total));
done:
    return st;
}

sefl_status noise_own_finish(int64_t *w, const noise_params *p, const uint8_t *reply,
                             const noise_digits *mask, const noise_source *noise,
                             const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint64_t digit[GROUP];
    int64_t e[GROUP];
    uint8_t seed[PRG_SEED] = { 0 };
    unsigned bytes, up;
    size_t total;
    prg coins = { 0 };
    SEFL_TRY(noise_own_bytes(&total, p));
    bytes = value_bytes(p);
    up = 64 - (p->k + p->t);
    SEFL_TRY(rng_fill(rng, seed, sizeof seed));
    prg_init(&coins, seed, "noise own AS");
    for (size_t at = 0; at < p->count; at += GROUP) {
        size_t n = p->count - at < GROUP ? p->count - at : GROUP;
        SEFL_TRY(mask->get(mask->ctx, digit, at, n));
        SEFL_TRY(noise->get(noise->ctx, e, at, n));
        round_guard(digit, n, p->g, &coins);
        for (size_t i = 0; i < n; i++) {
            uint8_t value[8] = { 0 };
            memcpy(value, reply + (at + i) * bytes, bytes);
            /* signed in k + t bits: arithmetic shift */
            w[at + i] = ((int64_t)((load_u64(value) - digit[i]) << up) >> up) + e[i];
        }
    }
done:
    prg_clear(&coins);
    sefl_wipe(seed, sizeof seed);
    sefl_wipe(digit, sizeof digit);
    sefl_wipe(e, sizeof e);
    if (st != SEFL_OK && total > 0)
        sefl_wipe(w, p->count * sizeof *w);
    return st;
}
