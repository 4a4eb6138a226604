/* What a server receives from the other in a reveal: CSP's reply at AS, AS's slice at CSP. The
 * first byte selects: bit 0 mode own, bit 1 the slice instead. Nothing may crash; an accepted reply
 * gives a result, a refused one gives zeros; a slice is written back as the same bytes, and a pool
 * gives out no value twice. */
#include "mpc/noise/online.h"
#include "mpc/noise/shares_pool.h"
#include "support/digits.h"
#include "support/must.h"

#include <string.h>

enum { N = 20, MADE = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static sefl_status no_noise(void *ctx, int64_t *e, size_t first, size_t n)
{
    (void)ctx, (void)first;
    memset(e, 0, n * sizeof *e);
    return SEFL_OK;
}

/* The input after a valid head if bit 7 is set, else the input alone. */
static void reply(bool own, bool filter, bool right, sefl_span in)
{
    static const uint8_t coins[NOISE_COINS] = { 1 };
    noise_params p = { .task = "task",
                       .round = 1,
                       .attempt = 2,
                       .count = N,
                       .k = 16,
                       .t = 12,
                       .g = 16,
                       .shape = own ? &noise_own : &noise_joint,
                       .slice = "slice" };
    uint64_t v[N] = { 0 };
    uint8_t memory[N * NOISE_KEPT];
    int64_t w[N];
    uint8_t bytes[NOISE_REPLY_HEAD + 4 * N] = { 0 };
    size_t want, n = in.n < sizeof bytes ? in.n : sizeof bytes;
    noise_digits d = noise_digits_of(v);
    noise_source add = { no_noise, NULL };
    memset(memory, 0x5a, sizeof memory);
    if (filter && !own)
        p.gamma[0] = 3000, p.lags = 1;
    MUST(noise_reply_bytes(&want, &p) == SEFL_OK && want <= sizeof bytes);
    if (in.n > 0)
        memcpy(bytes, in.p, n);
    if (right) {
        sefl_rng rng = rng_system();
        uint8_t made[sizeof bytes];
        MUST(noise_reply_make(made, &p, &d, &add, memory, NULL, &rng) == SEFL_OK);
        memcpy(bytes, made, NOISE_REPLY_HEAD);
        if (!own && n > 0) /* CSP chooses the dither */
            memcpy(bytes + NOISE_REPLY_HEAD - 32, in.p, n < 32 ? n : 32);
        n = want;
    }
    sefl_status check = noise_reply_check(&p, span_of(bytes, n));
    MUST(!right || check == SEFL_OK);
    MUST(noise_reply_finish(w, &p, span_of(bytes, n), &d, &add, memory, NULL, coins) == check);
    for (size_t i = 0; i < N; i++)
        MUST(check == SEFL_OK ? own || (w[i] >= -(1 << 15) && w[i] < 1 << 15) : w[i] == 0);
}

/* Slices from the input, removed one after the other from sessions "0" and "1" of MADE values. */
static void slices(sefl_span in)
{
    sefl_rng rng = rng_system();
    shares_pool *p;
    rd r = rd_over(in);
    shares_slice s;
    uint8_t seen[2][MADE] = { { 0 } };
    MUST(shares_pool_new(&p, 0, &rng) == SEFL_OK);
    for (uint8_t i = 0; i < 2; i++) {
        uint8_t id[SHARES_ID] = { '0' };
        uint64_t x[MADE];
        id[0] = (uint8_t)(id[0] + i);
        for (unsigned j = 0; j < MADE; j++)
            x[j] = (uint64_t)i << 8 | j;
        MUST(shares_pool_add(p, id, x, MADE, 32) == SEFL_OK);
    }
    for (const uint8_t *at = r.p; shares_slice_read(&r, &s) == SEFL_OK; at = r.p) {
        uint8_t again[SLICE_BYTES_MAX], x[2 * 2 * MADE];
        size_t n = shares_slice_write(again, &s);
        MUST(n == (size_t)(r.p - at) && memcmp(again, at, n) == 0);
        if (shares_slice_count(&s) > 2 * MADE || shares_pool_take(p, &s, x, 2) != SEFL_OK)
            continue;
        for (size_t i = 0; i < shares_slice_count(&s); i++)
            MUST(x[2 * i + 1] < 2 && x[2 * i] < MADE && seen[x[2 * i + 1]][x[2 * i]]++ == 0);
    }
    shares_pool_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    sefl_span rest = span_of(data + 1, size - 1);
    if (data[0] & 2)
        slices(rest);
    else
        reply(data[0] & 1, data[0] & 4, data[0] & 128, rest);
    return 0;
}
