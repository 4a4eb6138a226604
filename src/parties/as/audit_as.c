#include "roles/aggregator/audit_as.h"

#include "base/alloc.h"

#include <string.h>

static sefl_status as_closed(const audit_as *d, uint64_t round, sefl_span set)
{
    sefl_status st = SEFL_OK;
    round_entry *at = NULL;
    uint8_t hash[SHA256_BYTES];
    const size_t n = set.n / sizeof *at;
    SEFL_TRY(sefl_new(&at, n > 0 ? n : 1, sizeof *at));
    if (n > 0)
        memcpy(at, set.p, n * sizeof *at);
    SEFL_TRY(round_set_hash(hash, d->task->id, round, at, (uint32_t)n));
    audit_add(d->log, "round_closed", lf_u64("round", round), lf_u64("clients", n),
              lf_key("set", hash));
done:
    sefl_free(at);
    return st;
}

/* The charge of this round, once; nothing if it is not charged. */
static sefl_status as_charged(audit_as *d, uint64_t round)
{
    bool charged;
    ledger_head h;
    ledger_port l = account_port(d->account);
    if (d->charged == round)
        return SEFL_OK;
    SEFL_PASS(account_has(d->account, round, &charged));
    if (!charged)
        return SEFL_OK;
    SEFL_PASS(l.head(l.ctx, &h));
    audit_add_charge(d->log, round, &h);
    d->charged = round;
    return SEFL_OK;
}

/* The bytes are those of as_store.h. */
static sefl_status as_verdict_given(const audit_as *d, uint64_t round, sefl_span bytes)
{
    rd r = rd_over(bytes);
    uint8_t root[SHA256_BYTES];
    uint32_t kept, refused;
    SEFL_PASS(rd_raw(&r, root, sizeof root));
    SEFL_PASS(rd_u32(&r, &kept));
    SEFL_PASS(rd_u32(&r, &refused));
    audit_add(d->log, "verdict", lf_u64("round", round), lf_u64("kept", kept),
              lf_u64("refused", refused), lf_key("root", root));
    return SEFL_OK;
}

/* The bytes are those of as_store.h. The digest is of CSP's masked output. */
static sefl_status as_replied(const audit_as *d, uint64_t round, sefl_span bytes)
{
    rd r = rd_over(bytes);
    uint64_t attempt;
    uint8_t digest[SHA256_BYTES];
    SEFL_PASS(rd_u64(&r, &attempt));
    SEFL_PASS(rd_raw(&r, digest, sizeof digest));
    audit_add(d->log, "replied", lf_u64("round", round), lf_u64("attempt", attempt),
              lf_key("digest", digest));
    return SEFL_OK;
}

static sefl_status as_fact(audit_as *d, as_record what, uint64_t round, sefl_span bytes)
{
    char why[200] = "";
    switch (what) {
    case AS_HEADER:
        return audit_add_bytes(d->log, "round_opened", round, NULL, "header", bytes);
    case AS_SET:
        return as_closed(d, round, bytes);
    case AS_VERDICT:
        return as_verdict_given(d, round, bytes);
    case AS_MASK:
        return as_charged(d, round);
    case AS_REPLY:
        return as_replied(d, round, bytes);
    case AS_COUNTED:
        return audit_add_bytes(d->log, "counted", round, NULL, "statement", bytes);
    case AS_RELEASE: /* the integers stay secret until the release */
        SEFL_PASS(as_charged(d, round));
        audit_add(d->log, "revealed", lf_u64("round", round));
        return SEFL_OK;
    case AS_BLOCKED:
        memcpy(why, bytes.p, bytes.n < sizeof why - 1 ? bytes.n : sizeof why - 1);
        audit_add(d->log, "blocked", lf_u64("round", round), lf_str("why", why));
        return SEFL_OK;
    default:
        return SEFL_OK;
    }
}

static sefl_status as_put(void *ctx, as_record what, uint64_t round, uint64_t attempt,
                          sefl_span bytes)
{
    audit_as *d = ctx;
    SEFL_PASS(as_fact(d, what, round, bytes));
    SEFL_PASS(audit_log_sync(d->log));
    return d->inner.put(d->inner.ctx, what, round, attempt, bytes);
}

static sefl_status as_get(void *ctx, as_record what, uint64_t round, sefl_buf *out)
{
    const audit_as *d = ctx;
    return d->inner.get(d->inner.ctx, what, round, out);
}

static sefl_status as_row_put(void *ctx, const as_row *row)
{
    audit_as *d = ctx;
    if (row->skipped) {
        SEFL_PASS(as_charged(d, row->round));
        audit_add(d->log, "skipped", lf_u64("round", row->round), lf_u64("clients", row->clients),
                  lf_bool("charged", row->charged));
    }
    SEFL_PASS(audit_log_sync(d->log));
    return d->inner.row_put(d->inner.ctx, row);
}

static sefl_status as_row_get(void *ctx, uint64_t round, as_row *out)
{
    const audit_as *d = ctx;
    return d->inner.row_get(d->inner.ctx, round, out);
}

static sefl_status as_step(void *ctx, const as_row *row, sefl_span memory, sefl_span model)
{
    const audit_as *d = ctx;
    SEFL_PASS(audit_log_sync(d->log));
    return d->inner.step(d->inner.ctx, row, memory, model);
}

/* The driver wipes a round that is durably over. */
static sefl_status as_wipe(void *ctx, uint64_t round)
{
    const audit_as *d = ctx;
    SEFL_PASS(audit_log_sign(d->log));
    return d->inner.wipe(d->inner.ctx, round);
}

static sefl_status as_history_keep(void *ctx, uint64_t from, uint64_t to)
{
    const audit_as *d = ctx;
    return d->inner.history_keep(d->inner.ctx, from, to);
}

as_store audit_as_store(audit_as *d)
{
    return (as_store){ .ctx = d,
                       .place = d->inner.place,
                       .put = as_put,
                       .get = as_get,
                       .row_put = as_row_put,
                       .row_get = as_row_get,
                       .step = as_step,
                       .wipe = as_wipe,
                       .history_keep = as_history_keep };
}
