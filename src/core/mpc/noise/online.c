#include "mpc/noise/online.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "mpc/noise/noise_quantise.h"

#include <string.h>

enum { GROUP = JUMP_GROUP, SEED_AT = NOISE_REPLY_HEAD - PRG_SEED };

/* These two are compiled once per width that matters, so that they run on vectors. */
static inline void unpack_as(uint64_t *out, const uint8_t *p, size_t n, unsigned bytes)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t value[8] = { 0 };
        memcpy(value, p + i * bytes, bytes);
        out[i] = load_u64(value);
    }
}

static inline void repack_as(uint8_t *p, const uint64_t *in, size_t n, unsigned bytes)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t value[8];
        store_u64(value, in[i]);
        memcpy(p + i * bytes, value, bytes);
    }
}

/* Unpacks n numbers of `bytes` bytes each. A ring of 16 bits has two bytes, four with a filter. */
static void unpack(uint64_t *out, const uint8_t *p, size_t n, unsigned bytes)
{
    if (bytes == 2)
        unpack_as(out, p, n, 2);
    else if (bytes == 4)
        unpack_as(out, p, n, 4);
    else
        unpack_as(out, p, n, bytes);
}

static void repack(uint8_t *p, const uint64_t *in, size_t n, unsigned bytes)
{
    if (bytes == 2)
        repack_as(p, in, n, 2);
    else
        repack_as(p, in, n, bytes);
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
    return p->shape->fraction ? p->k + p->t : p->k;
}

bool noise_has_filter(const noise_params *p)
{
    unsigned any = 0;
    for (unsigned j = 0; j < NOISE_LAGS; j++)
        any |= p->gamma[j];
    return any != 0;
}

unsigned noise_value_bytes(const noise_params *p)
{
    return (value_bits(p) + 7) / 8;
}

unsigned noise_share_bytes(const noise_params *p)
{
    return (value_bits(p) + (noise_has_filter(p) ? NOISE_GAMMA_BITS : 0) + 7) / 8;
}

static sefl_status check_filter(const noise_params *p)
{
    unsigned sum = 0;
    for (unsigned j = 0; j < NOISE_LAGS; j++) {
        sum += p->gamma[j];
        SEFL_NEED(!(p->lags >> j & 1) || p->gamma[j] > 0, SEFL_EINVAL,
                  "noise: the filter does not use lag %u", j + 1);
    }
    SEFL_NEED(p->lags >> NOISE_LAGS == 0 && sum <= NOISE_GAMMA_ONE, SEFL_EINVAL,
              "noise: a filter takes back %u / 4096 of the noise", sum);
    SEFL_NEED(sum == 0 || (p->k + p->t + p->g <= NOISE_PLACE_BITS && !p->shape->fraction),
              SEFL_EINVAL, "noise: k = %u, t = %u, g = %u: a filter needs k + t + g <= %d", p->k,
              p->t, p->g, NOISE_PLACE_BITS);
    return SEFL_OK;
}

sefl_status noise_reply_bytes(size_t *bytes, const noise_params *p)
{
    *bytes = 0;
    SEFL_NEED(p->shape, SEFL_EINVAL, "noise: the params have no shape");
    SEFL_NEED(p->count >= 1 && p->count <= (uint64_t)1 << 32, SEFL_EINVAL,
              "noise: %llu coordinates: must be 1 to 2^32", (unsigned long long)p->count);
    SEFL_NEED(p->k >= sampler_bits(&sampler_g44) && p->k <= 32 && p->t <= 32 && p->g <= 62 &&
                  p->k + p->t + p->g <= 62,
              SEFL_EINVAL,
              "noise: k = %u, t = %u, g = %u: must have %u <= k <= 32, t <= 32, k + t + g <= 62",
              p->k, p->t, p->g, sampler_bits(&sampler_g44));
    SEFL_PASS(check_filter(p));
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
    store_u32(out + 56, p->k | p->t << 8 | p->g << 16 | (uint32_t)p->shape->wire << 24 |
                            (uint32_t)p->lags << 28);
    if (p->shape->slice)
        memcpy(out + 60, p->slice, sizeof p->slice);
}

/* One server's half, for any number of threads: the coins of a group depend only on its number. */
typedef struct half {
    const noise_params *p;
    const noise_digits *digits;
    const noise_source *add;
    uint8_t *memory; /* NULL: no filter */
    unsigned cut;    /* bits that quantise drops */
    prg coins, dither;
    uint8_t *reply;     /* CSP */
    const uint8_t *got; /* AS */
    int64_t *w;
} half;

/* Bits below the grid of the values; with a filter, digits are finer. */
static unsigned cut_bits(const noise_params *p)
{
    if (noise_has_filter(p))
        return NOISE_PLACE_BITS - p->k;
    return p->shape->fraction ? p->g : p->t + p->g;
}

static sefl_status half_init(half *h, uint8_t *memory, const uint8_t coins[NOISE_COINS],
                             const uint8_t dither[PRG_SEED])
{
    h->cut = cut_bits(h->p);
    h->memory = noise_has_filter(h->p) ? memory : NULL;
    SEFL_NEED(!noise_has_filter(h->p) || memory, SEFL_EINVAL, "noise: a filter needs a memory");
    prg_init(&h->coins, coins, h->p->shape->coins);
    prg_init(&h->dither, dither, "dither");
    return SEFL_OK;
}

static void half_clear(half *h)
{
    prg_clear(&h->coins);
    prg_clear(&h->dither);
}

/* Adds J above the guard bits. */
static void add_dither(const half *h, uint64_t *digit, size_t at, size_t n)
{
    uint32_t j[GROUP], low = (uint32_t)(((uint64_t)1 << h->p->t) - 1);
    prg_read(&h->dither, j, n * sizeof *j, 0, at * sizeof *j);
    for (size_t i = 0; i < n; i++)
        digit[i] += (uint64_t)(load_u32(&j[i]) & low) << h->p->g;
    sefl_wipe(j, sizeof j);
}

/* Quantises n <= GROUP digits, starting at coordinate `at`, a multiple of GROUP; e is the noise
 * that this server adds. */
static void quantise(const half *h, uint64_t *digit, const int64_t *e, size_t at, size_t n)
{
    const noise_params *p = h->p;
    const noise_shape *shape = p->shape;
    const noise_filter f = { .up = NOISE_PLACE_BITS - p->k - p->t - p->g,
                             .F = h->cut,
                             .sign = h->w ? -1 : 1,
                             .mean2 = shape->mean2 };
    prg coins = h->coins;
    prg_at(&coins, 0, (uint64_t)at * shape->coin_bytes);
    if (shape->dither)
        add_dither(h, digit, at, n);
    uint8_t *memory = h->memory ? h->memory + at * NOISE_KEPT : NULL;
    if (memory)
        noise_filter_place(&f, digit, memory, e, n);
    shape->quantise(digit, n, h->cut, f.sign, &coins);
    if (memory)
        noise_filter_keep(&f, memory, digit, n);
    prg_clear(&coins);
}

/* CSP: writes n values of the reply. */
static void put_reply(const half *h, size_t at, uint64_t *digit, const int64_t *e, size_t n)
{
    const unsigned bytes = noise_value_bytes(h->p);
    const uint64_t ring = ((uint64_t)1 << value_bits(h->p)) - 1;
    for (size_t i = 0; i < n; i++)
        digit[i] = (digit[i] + (uint64_t)e[i]) & ring;
    repack(h->reply + at * bytes, digit, n, bytes);
}

/* AS: computes n values of w. */
static void put_result(const half *h, size_t at, const uint64_t *digit, const int64_t *e, size_t n)
{
    const unsigned bytes = noise_value_bytes(h->p), up = 64 - value_bits(h->p);
    const uint64_t less = h->p->shape->less;
    uint64_t got[GROUP];
    unpack(got, h->got + at * bytes, n, bytes);
    for (size_t i = 0; i < n; i++) /* in the ring; then signed */
        h->w[at + i] = (int64_t)((got[i] - digit[i] + (uint64_t)e[i] - less) << up) >> up;
}

/* A piece of pool_run: coordinates [begin, end); begin is a multiple of NOISE_PIECE. */
static sefl_status half_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    sefl_status st = SEFL_OK;
    const half *h = ctx;
    uint64_t *digit = NULL;
    int64_t *e = NULL;
    const size_t all = end - begin;
    (void)lane;
    SEFL_TRY(sefl_new(&digit, all, sizeof *digit));
    SEFL_TRY(sefl_new(&e, all, sizeof *e));
    SEFL_TRY(h->digits->get(h->digits->ctx, digit, begin, all));
    SEFL_TRY(h->add->get(h->add->ctx, e, begin, all));
    for (size_t i = 0; i < all; i += GROUP) {
        size_t n = all - i < GROUP ? all - i : GROUP;
        quantise(h, digit + i, e + i, begin + i, n);
        if (h->w)
            put_result(h, begin + i, digit + i, e + i, n);
        else
            put_reply(h, begin + i, digit + i, e + i, n);
    }
done:
    sefl_free_secret(digit, all * sizeof *digit);
    sefl_free_secret(e, all * sizeof *e);
    return st;
}

sefl_status noise_reply_make(uint8_t *reply, const noise_params *p, const noise_digits *masked,
                             const noise_source *add, uint8_t *memory, pool *threads,
                             const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t coins[NOISE_COINS] = { 0 };
    size_t total;
    half h = { .p = p, .digits = masked, .add = add, .reply = reply + NOISE_REPLY_HEAD };
    SEFL_TRY(noise_reply_bytes(&total, p));
    head(reply, p);
    SEFL_TRY(rng_fill(rng, coins, sizeof coins));
    if (p->shape->dither)
        SEFL_TRY(rng_fill(rng, reply + SEED_AT, PRG_SEED));
    SEFL_TRY(half_init(&h, memory, coins, reply + SEED_AT));
    SEFL_TRY(pool_run(threads, p->count, NOISE_PIECE, half_piece, &h, NULL));
done:
    half_clear(&h);
    sefl_wipe(coins, sizeof coins);
    if (st != SEFL_OK && total > 0)
        sefl_wipe(reply, total);
    if (st != SEFL_OK && h.memory)
        sefl_wipe(h.memory, p->count * NOISE_KEPT);
    return st;
}

sefl_status noise_reply_check(const noise_params *p, sefl_span reply)
{
    uint8_t want[NOISE_REPLY_HEAD];
    size_t total;
    SEFL_PASS(noise_reply_bytes(&total, p));
    head(want, p);
    const size_t known = p->shape->dither ? SEED_AT : NOISE_REPLY_HEAD; /* CSP chooses the seed */
    SEFL_NEED(reply.n == total && memcmp(reply.p, want, known) == 0, SEFL_EPROTO,
              "the noise reply is for another task, round, attempt, size or slice of noise shares, "
              "or uses the noise of other rounds");
    return SEFL_OK;
}

sefl_status noise_reply_finish(int64_t *w, const noise_params *p, sefl_span reply,
                               const noise_digits *mask, const noise_source *add, uint8_t *memory,
                               pool *threads, const uint8_t coins[NOISE_COINS])
{
    sefl_status st = SEFL_OK;
    size_t total;
    half h = { .p = p, .digits = mask, .add = add, .w = w };
    SEFL_TRY(noise_reply_bytes(&total, p));
    SEFL_TRY(noise_reply_check(p, reply));
    h.got = reply.p + NOISE_REPLY_HEAD;
    SEFL_TRY(half_init(&h, memory, coins, reply.p + SEED_AT));
    SEFL_TRY(pool_run(threads, p->count, NOISE_PIECE, half_piece, &h, NULL));
done:
    half_clear(&h);
    if (st != SEFL_OK && total > 0)
        sefl_wipe(w, p->count * sizeof *w);
    if (st != SEFL_OK && h.memory)
        sefl_wipe(h.memory, p->count * NOISE_KEPT);
    return st;
}
