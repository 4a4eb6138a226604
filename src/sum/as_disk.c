#include "sum/as_disk.h"

#include "base/alloc.h"
#include "base/ct.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct journal_as {
    journal *j;
    const sefl_coins *coins;
};

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

static sefl_status masked(void *ctx, uint64_t round, as_mask *out)
{
    sefl_status st = SEFL_OK;
    journal_as *ja = ctx;
    sefl_buf b = { 0 };
    as_mask m = { 0 };
    SEFL_TRY(journal_secret_get(ja->j, round, "mask", &b));
    rd r = rd_over(buf_span(&b));
    SEFL_TRY(rd_u64(&r, &m.attempt));
    SEFL_TRY(rd_raw(&r, m.set, sizeof m.set));
    SEFL_TRY(rd_raw(&r, m.seed, sizeof m.seed));
    SEFL_TRY(rd_raw(&r, m.coins, sizeof m.coins));
    SEFL_TRY(rd_raw(&r, m.slice, sizeof m.slice));
    SEFL_TRY(wr_raw(&m.x, r.p, rd_left(&r)));
    *out = m, m = (as_mask){ 0 };
done:
    as_mask_clear(&m);
    buf_clear(&b);
    return st;
}

static sefl_status mask(void *ctx, uint64_t round, const as_mask *m)
{
    sefl_status st = SEFL_OK;
    journal_as *ja = ctx;
    as_mask before = { 0 };
    sefl_buf b = { 0 };
    st = masked(ja, round, &before);
    if (st == SEFL_OK) {
        SEFL_CHECK(m->attempt > before.attempt, SEFL_ESTATE,
                   "round %" PRIu64 ": attempt %" PRIu64 " comes after %" PRIu64, round, m->attempt,
                   before.attempt);
        SEFL_CHECK(memcmp(m->set, before.set, sizeof before.set) == 0, SEFL_ESTATE,
                   "round %" PRIu64 ": a mask was drawn for another set", round);
        SEFL_CHECK(!ct_eq_bytes(m->seed, before.seed, sizeof before.seed) &&
                       !ct_eq_bytes(m->coins, before.coins, sizeof before.coins),
                   SEFL_ESTATE, "round %" PRIu64 ": a seed came twice", round);
        SEFL_CHECK(m->x.n == 0 || memcmp(m->slice, before.slice, sizeof before.slice) != 0,
                   SEFL_ESTATE, "round %" PRIu64 ": noise shares came twice", round);
    } else if (st != SEFL_ENOTFOUND) {
        goto done;
    }
    SEFL_TRY(buf_reserve(&b, 8 + sizeof m->set + sizeof m->seed + sizeof m->coins +
                                 sizeof m->slice + m->x.n));
    SEFL_TRY(wr_u64(&b, m->attempt));
    SEFL_TRY(wr_raw(&b, m->set, sizeof m->set));
    SEFL_TRY(wr_raw(&b, m->seed, sizeof m->seed));
    SEFL_TRY(wr_raw(&b, m->coins, sizeof m->coins));
    SEFL_TRY(wr_raw(&b, m->slice, sizeof m->slice));
    SEFL_TRY(wr_raw(&b, m->x.p, m->x.n));
    SEFL_TRY(put_secret(ja, round, m->attempt, "mask", &b));
done:
    as_mask_clear(&before);
    buf_clear(&b);
    return st;
}

/* ---- reply --------------------------------------------------------------------------------- */

static sefl_status replied(void *ctx, uint64_t round, uint64_t attempt,
                           const uint8_t digest[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    journal_as *ja = ctx;
    sefl_buf b = { 0 };
    uint64_t noted;
    st = journal_secret_get(ja->j, round, "reply", &b);
    if (st == SEFL_OK) {
        rd r = rd_over(buf_span(&b));
        SEFL_TRY(rd_u64(&r, &noted));
        SEFL_CHECK(noted <= attempt, SEFL_ESTATE, "round %" PRIu64 ": a reply to an older attempt",
                   round);
        SEFL_CHECK(noted != attempt ||
                       (rd_left(&r) == SHA256_BYTES && memcmp(r.p, digest, SHA256_BYTES) == 0),
                   SEFL_ESTATE, "round %" PRIu64 ": another reply to attempt %" PRIu64, round,
                   attempt);
        if (noted == attempt)
            goto done;
    } else if (st != SEFL_ENOTFOUND) {
        goto done;
    }
    buf_clear(&b);
    SEFL_TRY(wr_u64(&b, attempt));
    SEFL_TRY(wr_raw(&b, digest, SHA256_BYTES));
    SEFL_TRY(put_secret(ja, round, attempt, "reply", &b));
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

as_store journal_as_table(journal_as *ja)
{
    return (as_store){ .ctx = ja, .mask = mask, .masked = masked, .replied = replied };
}
