#include "roles/csp/audit_csp.h"

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
    SEFL_TRY(audit_add_bytes(d->log, "revealed", round, b.p + NOISE_ID, "statement",
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
    audit_add_charge(d->log, round, &h);
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
        SEFL_TRY(audit_add_bytes(d->log, "round_opened", row->round, NULL, "header", buf_span(&b)));
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
