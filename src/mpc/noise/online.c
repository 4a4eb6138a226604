#include "mpc/noise/online.h"

#include "base/ct.h"
#include "mpc/noise/quantise.h"

#include <string.h>

enum { GROUP = JUMP_GROUP, MEAN = 62, SEED_AT = NOISE_REPLY_HEAD - PRG_SEED };

/* Unpacks n numbers of `bytes` bytes each. A ring of 16 bits has two bytes. */
static void unpack(uint64_t *out, const uint8_t *p, size_t n, unsigned bytes)
{
    if (bytes == 2) {
        for (size_t i = 0; i < n; i++)
            out[i] = (uint64_t)p[2 * i] | (uint64_t)p[2 * i + 1] << 8;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint8_t value[8] = { 0 };
        memcpy(value, p + i * bytes, bytes);
        out[i] = load_u64(value);
    }
}

static void repack(uint8_t *p, const uint64_t *in, size_t n, unsigned bytes)
{
    if (bytes == 2) {
        for (size_t i = 0; i < n; i++)
            p[2 * i] = (uint8_t)in[i], p[2 * i + 1] = (uint8_t)(in[i] >> 8);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint8_t value[8];
        store_u64(value, in[i]);
        memcpy(p + i * bytes, value, bytes);
    }
}

static sefl_status from_taken(void *ctx, int64_t *e, size_t first, size_t n)
{
    const noise_taken *t = ctx;
    unpack((uint64_t *)e, t->x + first * t->bytes, n, t->bytes);
    return SEFL_OK;
}

noise_source noise_taken_of(noise_taken *t)
{
    return (noise_source){ .get = from_taken, .ctx = t };
}

static unsigned value_bits(const noise_params *p)
{
    return p->own ? p->k + p->t : p->k;
}

unsigned noise_value_bytes(const noise_params *p)
{
    return (value_bits(p) + 7) / 8;
}

sefl_status noise_reply_bytes(size_t *bytes, const noise_params *p)
{
    *bytes = 0;
    SEFL_NEED(p->count >= 1 && p->count <= (uint64_t)1 << 32, SEFL_EINVAL,
              "noise: %llu coordinates: must be 1 to 2^32", (unsigned long long)p->count);
    SEFL_NEED(p->k >= sampler_bits(&sampler_g44) && p->k <= 32 && p->t <= 32 && p->g <= 62 &&
                  p->k + p->t + p->g <= 62,
              SEFL_EINVAL,
              "noise: k = %u, t = %u, g = %u: must have %u <= k <= 32, t <= 32, k + t + g <= 62",
              p->k, p->t, p->g, sampler_bits(&sampler_g44));
    *bytes = NOISE_REPLY_HEAD + p->count * noise_value_bytes(p);
    return SEFL_OK;
}

/* Writes the head except the dither seed, which is its last part. */
static void head(uint8_t out[NOISE_REPLY_HEAD], const noise_params *p)
{
    memset(out, 0, NOISE_REPLY_HEAD);
    memcpy(out, p->task, 32);
    store_u64(out + 32, p->round);
    store_u64(out + 40, p->attempt);
    store_u64(out + 48, p->count);
    store_u32(out + 56, p->k | p->t << 8 | p->g << 16 | (uint32_t)p->own << 24);
    if (!p->own)
        memcpy(out + 60, p->slice, sizeof p->slice);
}

/* How both servers quantise their digits. */
typedef struct rounding {
    const noise_params *p;
    prg coins, dither;
} rounding;

static void rounding_init(rounding *r, const noise_params *p, const uint8_t coins[NOISE_COINS],
                          const uint8_t dither[PRG_SEED])
{
    r->p = p;
    prg_init(&r->coins, coins, p->own ? "noise own" : "noise joint");
    prg_init(&r->dither, dither, "dither");
}

static void rounding_clear(rounding *r)
{
    prg_clear(&r->coins);
    prg_clear(&r->dither);
}

/* own: digit = (digit + U) >> g, U uniform on g bits. */
static void round_guard(uint64_t *digit, size_t n, unsigned g, prg *coins)
{
    uint64_t u[GROUP], low = ((uint64_t)1 << g) - 1;
    prg_fill(coins, u, n * sizeof *u);
    for (size_t i = 0; i < n; i++)
        digit[i] = (digit[i] + (load_u64(&u[i]) & low)) >> g;
    sefl_wipe(u, sizeof u);
}

/* joint: digit = SR(digit + J) + sign Y. */
static void round_joint(rounding *r, uint64_t *digit, size_t at, size_t n, int sign)
{
    const noise_params *p = r->p;
    uint32_t rounded[GROUP], j[GROUP], low = (uint32_t)(((uint64_t)1 << p->t) - 1);
    int32_t jump[GROUP];
    prg_read(&r->dither, j, n * sizeof *j, 0, at * sizeof *j);
    for (size_t i = 0; i < n; i++)
        digit[i] += (uint64_t)(load_u32(&j[i]) & low) << p->g;
    noise_quantise(rounded, digit, n, p->k, p->t, p->g, &r->coins);
    noise_jumps(jump, n, &r->coins);
    for (size_t i = 0; i < n; i++)
        digit[i] = rounded[i] + (uint64_t)(int64_t)(sign * jump[i]);
    sefl_wipe(rounded, sizeof rounded);
    sefl_wipe(j, sizeof j);
    sefl_wipe(jump, sizeof jump);
}

/* Gets n quantised digits, starting at `at`, and the values to add to them. */
static sefl_status next(rounding *r, uint64_t *digit, int64_t *e, const noise_digits *from,
                        const noise_source *add, size_t at, size_t n, int sign)
{
    SEFL_PASS(from->get(from->ctx, digit, at, n));
    SEFL_PASS(add->get(add->ctx, e, at, n));
    if (r->p->own)
        round_guard(digit, n, r->p->g, &r->coins);
    else
        round_joint(r, digit, at, n, sign);
    return SEFL_OK;
}

sefl_status noise_reply_make(uint8_t *reply, const noise_params *p, const noise_digits *masked,
                             const noise_source *add, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint64_t digit[GROUP], ring;
    int64_t e[GROUP];
    uint8_t coins[NOISE_COINS] = { 0 };
    unsigned bytes;
    size_t total;
    rounding r = { 0 };
    SEFL_TRY(noise_reply_bytes(&total, p));
    bytes = noise_value_bytes(p);
    ring = ((uint64_t)1 << value_bits(p)) - 1;
    head(reply, p);
    SEFL_TRY(rng_fill(rng, coins, sizeof coins));
    if (!p->own)
        SEFL_TRY(rng_fill(rng, reply + SEED_AT, PRG_SEED));
    rounding_init(&r, p, coins, reply + SEED_AT);
    for (size_t at = 0; at < p->count; at += GROUP) {
        size_t n = p->count - at < GROUP ? p->count - at : GROUP;
        uint8_t *to = reply + NOISE_REPLY_HEAD + at * bytes;
        SEFL_TRY(next(&r, digit, e, masked, add, at, n, 1));
        for (size_t i = 0; i < n; i++)
            digit[i] = (digit[i] + (uint64_t)e[i]) & ring;
        repack(to, digit, n, bytes);
    }
done:
    rounding_clear(&r);
    sefl_wipe(coins, sizeof coins);
    sefl_wipe(digit, sizeof digit);
    sefl_wipe(e, sizeof e);
    if (st != SEFL_OK && total > 0)
        sefl_wipe(reply, total);
    return st;
}

sefl_status noise_reply_check(const noise_params *p, sefl_span reply)
{
    uint8_t want[NOISE_REPLY_HEAD];
    size_t total;
    SEFL_PASS(noise_reply_bytes(&total, p));
    head(want, p);
    SEFL_NEED(reply.n == total && memcmp(reply.p, want, p->own ? sizeof want : SEED_AT) == 0,
              SEFL_EPROTO,
              "noise reply: for another task, round, attempt, size, or other noise shares");
    return SEFL_OK;
}

sefl_status noise_reply_finish(int64_t *w, const noise_params *p, sefl_span reply,
                               const noise_digits *mask, const noise_source *add,
                               const uint8_t coins[NOISE_COINS])
{
    sefl_status st = SEFL_OK;
    uint64_t digit[GROUP], got[GROUP];
    int64_t e[GROUP];
    unsigned bytes, up;
    size_t total;
    rounding r = { 0 };
    SEFL_TRY(noise_reply_bytes(&total, p));
    SEFL_TRY(noise_reply_check(p, reply));
    bytes = noise_value_bytes(p);
    up = 64 - value_bits(p); /* signed in that many bits: arithmetic shift */
    rounding_init(&r, p, coins, reply.p + SEED_AT);
    for (size_t at = 0; at < p->count; at += GROUP) {
        size_t n = p->count - at < GROUP ? p->count - at : GROUP;
        const uint8_t *m = reply.p + NOISE_REPLY_HEAD + at * bytes;
        SEFL_TRY(next(&r, digit, e, mask, add, at, n, -1));
        unpack(got, m, n, bytes);
        if (p->own)
            for (size_t i = 0; i < n; i++)
                w[at + i] = ((int64_t)((got[i] - digit[i]) << up) >> up) + e[i];
        else /* shares are inside the ring */
            for (size_t i = 0; i < n; i++)
                w[at + i] = (int64_t)((got[i] - digit[i] + (uint64_t)e[i] - MEAN) << up) >> up;
    }
done:
    rounding_clear(&r);
    sefl_wipe(digit, sizeof digit);
    sefl_wipe(e, sizeof e);
    if (st != SEFL_OK && total > 0)
        sefl_wipe(w, p->count * sizeof *w);
    return st;
}
