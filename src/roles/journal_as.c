#include "roles/journal_as.h"

#include "base/alloc.h"
#include "base/ct.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct journal_as {
    journal *j;
    const sefl_coins *coins;
};

typedef struct mask_record {
    uint64_t attempt;
    uint8_t set[32], seed[AHE_SEED_BYTES];
} mask_record;

static sefl_status put_secret(journal_as *ja, uint64_t round, uint64_t attempt, const char *name,
                              const sefl_buf *b)
{
    char purpose[32];
    sefl_rng rng;
    snprintf(purpose, sizeof purpose, "journal %s", name);
    sefl_status st = coins_for(ja->coins, &rng, purpose, round, attempt);
    return st == SEFL_OK ? journal_secret_put(ja->j, round, name, buf_span(b), &rng) : st;
}

/* ---- mask ---------------------------------------------------------------------------------- */

static sefl_status read_mask(journal_as *ja, uint64_t round, mask_record *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(journal_secret_get(ja->j, round, "mask", &b));
    rd r = rd_over(buf_span(&b));
    SEFL_TRY(rd_u64(&r, &out->attempt));
    SEFL_TRY(rd_raw(&r, out->set, sizeof out->set));
    SEFL_TRY(rd_raw(&r, out->seed, sizeof out->seed));
    SEFL_TRY(rd_end(&r));
done:
    buf_clear(&b);
    return st;
}

static sefl_status mask(void *ctx, uint64_t round, uint64_t attempt, const uint8_t set[32],
                        const uint8_t seed[AHE_SEED_BYTES])
{
    sefl_status st = SEFL_OK;
    journal_as *ja = ctx;
    mask_record before = { 0 };
    sefl_buf b = { 0 };
    st = read_mask(ja, round, &before);
    if (st == SEFL_OK) {
        SEFL_CHECK(attempt > before.attempt, SEFL_ESTATE,
                   "round %" PRIu64 ": attempt %" PRIu64 " comes after %" PRIu64, round, attempt,
                   before.attempt);
        SEFL_CHECK(memcmp(set, before.set, sizeof before.set) == 0, SEFL_ESTATE,
                   "round %" PRIu64 ": a mask was drawn for another set", round);
        SEFL_CHECK(!ct_eq_bytes(seed, before.seed, sizeof before.seed), SEFL_ESTATE,
                   "round %" PRIu64 ": a seed came twice", round);
    } else if (st != SEFL_ENOTFOUND) {
        goto done;
    }
    SEFL_TRY(wr_u64(&b, attempt));
    SEFL_TRY(wr_raw(&b, set, 32));
    SEFL_TRY(wr_raw(&b, seed, AHE_SEED_BYTES));
    SEFL_TRY(put_secret(ja, round, attempt, "mask", &b));
done:
    sefl_wipe(&before, sizeof before);
    buf_clear(&b);
    return st;
}

static sefl_status masked(void *ctx, uint64_t round, uint64_t *attempt,
                          uint8_t seed[AHE_SEED_BYTES])
{
    mask_record m = { 0 };
    sefl_status st = read_mask(ctx, round, &m);
    if (st == SEFL_OK) {
        *attempt = m.attempt;
        memcpy(seed, m.seed, AHE_SEED_BYTES);
    }
    sefl_wipe(&m, sizeof m);
    return st;
}

/* ---- decode bits and v' -------------------------------------------------------------------- */

typedef struct seal_record {
    uint8_t id[NOISE_ID];
    uint64_t count;
    sefl_span decode, v; /* into the buffer that was read */
} seal_record;

static sefl_status read_seal(journal_as *ja, uint64_t round, sefl_buf *b, seal_record *out)
{
    sefl_status st = SEFL_OK;
    uint64_t bytes;
    SEFL_TRY(journal_secret_get(ja->j, round, "sealed", b));
    rd r = rd_over(buf_span(b));
    SEFL_TRY(rd_raw(&r, out->id, sizeof out->id));
    SEFL_TRY(rd_u64(&r, &out->count));
    SEFL_TRY(rd_u64(&r, &bytes));
    SEFL_CHECK(bytes <= rd_left(&r) && out->count == (rd_left(&r) - bytes) / 4 &&
                   (rd_left(&r) - bytes) % 4 == 0,
               SEFL_EPROTO, "what was sealed of round %" PRIu64 " has a wrong size", round);
    SEFL_TRY(rd_view(&r, &out->decode, bytes));
    SEFL_TRY(rd_view(&r, &out->v, rd_left(&r)));
done:
    return st;
}

static sefl_status seal(void *ctx, uint64_t round, const uint8_t id[NOISE_ID], sefl_span decode,
                        const uint32_t *v, size_t n)
{
    sefl_status st = SEFL_OK;
    journal_as *ja = ctx;
    sefl_buf b = { 0 };
    seal_record before;
    mask_record m = { 0 };
    uint8_t *p;
    st = read_seal(ja, round, &b, &before);
    SEFL_CHECK(st != SEFL_OK || memcmp(before.id, id, NOISE_ID) != 0, SEFL_ESTATE,
               "round %" PRIu64 ": this attempt was sealed before", round);
    if (st != SEFL_OK && st != SEFL_ENOTFOUND)
        goto done;
    SEFL_TRY(read_mask(ja, round, &m)); /* every attempt has drawn one */
    buf_clear(&b);
    SEFL_TRY(buf_reserve(&b, NOISE_ID + 16 + decode.n + 4 * n));
    SEFL_TRY(wr_raw(&b, id, NOISE_ID));
    SEFL_TRY(wr_u64(&b, n));
    SEFL_TRY(wr_u64(&b, decode.n));
    SEFL_TRY(wr_raw(&b, decode.p, decode.n));
    SEFL_TRY(buf_extend(&b, &p, 4 * n));
    for (size_t i = 0; i < n; i++)
        store_u32(p + 4 * i, v[i]);
    SEFL_TRY(put_secret(ja, round, m.attempt, "sealed", &b));
done:
    sefl_wipe(&m, sizeof m);
    buf_clear(&b);
    return st;
}

static sefl_status sealed(void *ctx, uint64_t round, const uint8_t id[NOISE_ID], sefl_buf *decode,
                          uint32_t *v, size_t n)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    seal_record s;
    SEFL_TRY(read_seal(ctx, round, &b, &s));
    SEFL_CHECK(memcmp(s.id, id, NOISE_ID) == 0, SEFL_ENOTFOUND,
               "round %" PRIu64 ": another attempt was sealed", round);
    SEFL_CHECK(s.count == n, SEFL_EINVAL,
               "round %" PRIu64 ": %" PRIu64 " values were sealed, not %zu", round, s.count, n);
    SEFL_TRY(wr_raw(decode, s.decode.p, s.decode.n));
    for (size_t i = 0; i < n; i++)
        v[i] = load_u32(s.v.p + 4 * i);
done:
    buf_clear(&b);
    return st;
}

/* ---- public -------------------------------------------------------------------------------- */

sefl_status journal_as_new(journal_as **out, journal *j, const sefl_coins *coins)
{
    sefl_status st = sefl_new(out, 1, sizeof **out);
    if (st == SEFL_OK)
        **out = (journal_as){ j, coins };
    return st;
}

void journal_as_free(journal_as *ja)
{
    sefl_free(ja);
}

as_journal journal_as_table(journal_as *ja)
{
    return (
        as_journal){ .ctx = ja, .mask = mask, .seal = seal, .sealed = sealed, .masked = masked };
}
