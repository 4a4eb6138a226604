#include "roles/audit/audit_stores.h"

#include "base/alloc.h"
#include "base/hex.h"

#include <string.h>

/* A field with bytes in hex; text owns the digits. */
static sefl_status hex_field(log_field *out, sefl_buf *text, const char *key, sefl_span bytes)
{
    SEFL_PASS(wr_hex(text, bytes.p, bytes.n));
    SEFL_PASS(wr_u8(text, 0));
    *out = lf_str(key, (const char *)text->p);
    return SEFL_OK;
}

/* Adds an entry about a round with some signed bytes, and a digest (NULL: none). */
static sefl_status add_both(audit_log *log, const char *kind, uint64_t round, const uint8_t *digest,
                            const char *key, sefl_span bytes)
{
    sefl_buf text = { 0 };
    log_field f = { 0 };
    sefl_status st = hex_field(&f, &text, key, bytes);
    if (st == SEFL_OK && digest)
        audit_add(log, kind, lf_u64("round", round), lf_key("digest", digest), f);
    else if (st == SEFL_OK)
        audit_add(log, kind, lf_u64("round", round), f);
    buf_clear(&text);
    return st;
}

static sefl_status add_bytes(audit_log *log, const char *kind, uint64_t round, const char *key,
                             sefl_span bytes)
{
    return add_both(log, kind, round, NULL, key, bytes);
}

static void add_charge(audit_log *log, uint64_t round, const ledger_head *h)
{
    audit_add(log, "charged", lf_u64("round", round), lf_u64("records", h->records),
              lf_key("ledger", h->hash));
}

/* ---- AS -------------------------------------------------------------------------------------- */

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
    add_charge(d->log, round, &h);
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
        return add_bytes(d->log, "round_opened", round, "header", bytes);
    case AS_SET:
        return as_closed(d, round, bytes);
    case AS_VERDICT:
        return as_verdict_given(d, round, bytes);
    case AS_MASK:
        return as_charged(d, round);
    case AS_REPLY:
        return as_replied(d, round, bytes);
    case AS_COUNTED:
        return add_bytes(d->log, "counted", round, "statement", bytes);
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

/* ---- CSP ------------------------------------------------------------------------------------- */

static sefl_status csp_put(void *ctx, csp_record what, uint64_t round, sefl_span bytes)
{
    const audit_csp *d = ctx;
    bool again = false;
    if (what == CSP_OVER) /* AS may say it as often as it likes */
        SEFL_PASS(csp_store_has(&d->inner, CSP_OVER, round, &again));
    if (what == CSP_OVER && !again)
        audit_add(d->log, "task_ended", lf_str("why", "AS ended the task"));
    SEFL_PASS(audit_log_sync(d->log));
    return d->inner.put(d->inner.ctx, what, round, bytes);
}

/* The entry of a reveal follows its mark, unlike the others. So a reveal that failed before the
 * mark leaves no entry, and two entries of one round with different digests are two reveals. */
sefl_status audit_csp_revealed(audit_csp *d, uint64_t round)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    const size_t at = NOISE_ID + SHA256_BYTES;
    if (d->revealed == round)
        return audit_log_sign(d->log); /* its checkpoint may have failed */
    SEFL_TRY(d->inner.get(d->inner.ctx, CSP_REVEAL, round, &b));
    SEFL_CHECK(b.n > at, SEFL_EPROTO, "journal: a record of a reveal with %zu bytes", b.n);
    SEFL_TRY(add_both(d->log, "revealed", round, b.p + NOISE_ID, "statement",
                      span_of(b.p + at, b.n - at)));
    d->revealed = round;
    st = audit_log_sign(d->log);
done:
    buf_clear(&b);
    return st;
}

/* A stored output leaves again: after a failure or a crash its mark may lack the entry. */
static sefl_status csp_get(void *ctx, csp_record what, uint64_t round, sefl_buf *out)
{
    audit_csp *d = ctx;
    csp_row row;
    if (what == CSP_OUTPUT && d->inner.row_get(d->inner.ctx, round, &row) == SEFL_OK &&
        row.state == CSP_REVEALED)
        SEFL_PASS(audit_csp_revealed(d, round));
    return d->inner.get(d->inner.ctx, what, round, out);
}

static sefl_status csp_wipe(void *ctx, csp_record what, uint64_t round)
{
    const audit_csp *d = ctx;
    return d->inner.wipe(d->inner.ctx, what, round);
}

static sefl_status csp_history_keep(void *ctx, uint64_t from, uint64_t to)
{
    const audit_csp *d = ctx;
    return d->inner.history_keep(d->inner.ctx, from, to);
}

static sefl_status port_head(void *ctx, ledger_head *out)
{
    const audit_csp *d = ctx;
    return d->inner.ledger.head(d->inner.ledger.ctx, out);
}

/* The charge of this round, once in this process. */
static sefl_status csp_charged(audit_csp *d, uint64_t round)
{
    ledger_head h;
    if (d->charged == round)
        return SEFL_OK;
    SEFL_PASS(port_head(d, &h));
    add_charge(d->log, round, &h);
    d->charged = round;
    return SEFL_OK;
}

/* A row makes the records before it count; the entry has what they contain. */
static sefl_status csp_entry(audit_csp *d, const csp_row *row)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    const char *why;
    if (row->state == CSP_SIGNED) {
        SEFL_TRY(d->inner.get(d->inner.ctx, CSP_HEADER, row->round, &b));
        SEFL_TRY(add_bytes(d->log, "round_opened", row->round, "header", buf_span(&b)));
    } else if (row->state == CSP_SKIPPED) {
        if (row->charged)
            SEFL_TRY(csp_charged(d, row->round)); /* a crash may have cost the entry */
        SEFL_TRY(d->inner.get(d->inner.ctx, CSP_SKIP, row->round, &b));
        why = b.n == 4 ? csp_skip_text(load_u32(b.p)) : NULL;
        audit_add(d->log, "skipped", lf_u64("round", row->round), lf_bool("charged", row->charged),
                  lf_str("why", why ? why : "AS skipped it"));
    }
done:
    buf_clear(&b);
    return st;
}

static sefl_status csp_row_put(void *ctx, const csp_row *row)
{
    audit_csp *d = ctx;
    SEFL_PASS(csp_entry(d, row));
    SEFL_PASS(audit_log_sync(d->log));
    SEFL_PASS(d->inner.row_put(d->inner.ctx, row));
    if (row->state == CSP_REVEALED)
        return audit_csp_revealed(d, row->round);
    return row->state == CSP_SIGNED ? SEFL_OK : audit_log_sign(d->log);
}

static sefl_status csp_row_get(void *ctx, uint64_t round, csp_row *out)
{
    const audit_csp *d = ctx;
    return d->inner.row_get(d->inner.ctx, round, out);
}

static sefl_status csp_highest_of(void *ctx, csp_round_state state, uint64_t *out)
{
    const audit_csp *d = ctx;
    return d->inner.highest(d->inner.ctx, state, out);
}

static sefl_status csp_note(void *ctx, uint64_t round, const uint8_t digest[SHA256_BYTES])
{
    const audit_csp *d = ctx;
    return d->inner.note(d->inner.ctx, round, digest);
}

/* The bytes of SET are those of csp_store.h. */
static sefl_status csp_set_put(void *ctx, uint64_t round, sefl_span set, const round_entry *kept,
                               uint32_t n)
{
    const audit_csp *d = ctx;
    rd r = rd_over(set);
    uint8_t digest[SHA256_BYTES], root[SHA256_BYTES];
    uint32_t clients;
    SEFL_PASS(rd_raw(&r, digest, sizeof digest));
    SEFL_PASS(rd_raw(&r, root, sizeof root));
    SEFL_PASS(rd_u32(&r, &clients));
    audit_add(d->log, "verdict", lf_u64("round", round), lf_u64("kept", n),
              lf_u64("refused", clients - n), lf_key("root", root));
    SEFL_PASS(audit_log_sync(d->log));
    return d->inner.set_put(d->inner.ctx, round, set, kept, n);
}

static sefl_status csp_set_kept(void *ctx, uint64_t round, round_entry *out, uint32_t n)
{
    const audit_csp *d = ctx;
    return d->inner.set_kept(d->inner.ctx, round, out, n);
}

static sefl_status csp_taken(void *ctx, const uint8_t client[32], uint64_t *rounds, uint64_t *last)
{
    const audit_csp *d = ctx;
    return d->inner.taken(d->inner.ctx, client, rounds, last);
}

static sefl_status csp_voucher_get(void *ctx, const uint8_t client[32], uint64_t *serial,
                                   uint8_t key[SIGN_PUB_BYTES])
{
    const audit_csp *d = ctx;
    return d->inner.voucher_get(d->inner.ctx, client, serial, key);
}

static sefl_status csp_voucher_put(void *ctx, const uint8_t client[32], uint64_t serial,
                                   const uint8_t key[SIGN_PUB_BYTES])
{
    const audit_csp *d = ctx;
    SEFL_PASS(d->inner.voucher_put(d->inner.ctx, client, serial, key));
    audit_add(d->log, "vouched", lf_key("client", client), lf_u64("serial", serial),
              lf_key("upload_key", key));
    return SEFL_OK;
}

/* ---- CSP's ledger ---------------------------------------------------------------------------- */

static ledger_order port_compare(void *ctx, const ledger_head *peer)
{
    const audit_csp *d = ctx;
    return d->inner.ledger.compare(d->inner.ledger.ctx, peer);
}

static sefl_status port_head_after(void *ctx, uint64_t round, ledger_head *out)
{
    const audit_csp *d = ctx;
    return d->inner.ledger.head_after(d->inner.ledger.ctx, round, out);
}

static sefl_status port_charge(void *ctx, uint64_t round)
{
    audit_csp *d = ctx;
    SEFL_PASS(d->inner.ledger.charge(d->inner.ledger.ctx, round));
    return csp_charged(d, round);
}

static sefl_status port_has(void *ctx, uint64_t round, bool *out)
{
    const audit_csp *d = ctx;
    return d->inner.ledger.has(d->inner.ledger.ctx, round, out);
}

csp_store audit_csp_store(audit_csp *d)
{
    return (csp_store){ .ctx = d,
                        .ledger = { .ctx = d,
                                    .head = port_head,
                                    .compare = port_compare,
                                    .head_after = port_head_after,
                                    .charge = port_charge,
                                    .has = port_has },
                        .put = csp_put,
                        .get = csp_get,
                        .wipe = csp_wipe,
                        .history_keep = csp_history_keep,
                        .row_put = csp_row_put,
                        .row_get = csp_row_get,
                        .highest = csp_highest_of,
                        .note = d->inner.note ? csp_note : NULL,
                        .set_put = csp_set_put,
                        .set_kept = csp_set_kept,
                        .taken = csp_taken,
                        .voucher_get = csp_voucher_get,
                        .voucher_put = csp_voucher_put };
}
