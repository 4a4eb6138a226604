#include "sum/csp_store.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <string.h>

const char *csp_state_name(unsigned state)
{
    static const char *const names[] = { [CSP_NEW] = "new",
                                         [CSP_SIGNED] = "signed",
                                         [CSP_REVEALED] = "revealed",
                                         [CSP_SKIPPED] = "skipped" };
    return state < sizeof names / sizeof *names ? names[state] : "?";
}

const char *csp_skip_text(unsigned reason)
{
    switch (reason) {
    case CSP_SKIP_OLD_STATE:
        return "CSP's store is an old copy and does not show whether it was revealed";
    case CSP_SKIP_EXPIRED:
        return "AS neither revealed nor skipped it within a day of its last possible deadline, so "
               "its key is wiped";
    case CSP_SKIP_FEW:
        return "fewer heads of its set than the threshold were valid";
    default:
        return NULL;
    }
}

void csp_set_clear(csp_set *s)
{
    sefl_free(s->kept);
    sefl_free(s->refused);
    *s = (csp_set){ 0 };
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Loads a record of exactly n bytes. */
static sefl_status get_fixed(const csp_store *s, csp_record what, uint64_t round, void *out,
                             size_t n)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(s->get(s->ctx, what, round, &b));
    SEFL_CHECK(b.n == n, SEFL_EPROTO, "record %d of round %" PRIu64 " has %zu bytes, not %zu",
               (int)what, round, b.n, n);
    memcpy(out, b.p, n);
done:
    buf_clear(&b);
    return st;
}

static sefl_status get_header(const csp_store *s, uint64_t round, round_header *out)
{
    sefl_buf b = { 0 };
    sefl_status st = s->get(s->ctx, CSP_HEADER, round, &b);
    if (st == SEFL_OK)
        st = round_header_read(out, buf_span(&b));
    buf_clear(&b);
    return st;
}

/* A store may have only the state of a resumed task's earlier rounds (csp_memory.h). */
static sefl_status unless_missing(sefl_status st)
{
    return st == SEFL_ENOTFOUND ? SEFL_OK : st;
}

sefl_status csp_store_get(const csp_store *s, uint64_t round, csp_round *out)
{
    csp_row row;
    csp_round got = { .round = round };
    uint8_t why[4] = { 0 };
    *out = got;
    if (round > INT64_MAX) /* from a peer's message: there is no such round */
        return SEFL_OK;
    sefl_status st = s->row_get(s->ctx, round, &row);
    if (st != SEFL_OK)
        return unless_missing(st);
    SEFL_NEED(row.state >= CSP_SIGNED && row.state <= CSP_SKIPPED, SEFL_EPROTO,
              "round %" PRIu64 " has state %u", round, row.state);
    got.state = (csp_round_state)row.state;
    got.signed_ms = row.signed_ms;
    st = get_header(s, round, &got.header);
    SEFL_PASS(got.state == CSP_SIGNED ? st : unless_missing(st));
    if (got.state == CSP_SKIPPED)
        SEFL_PASS(unless_missing(get_fixed(s, CSP_SKIP, round, why, sizeof why)));
    got.skip = load_u32(why);
    *out = got;
    return SEFL_OK;
}

sefl_status csp_store_highest(const csp_store *s, csp_highest *out)
{
    csp_highest top = { 0 };
    SEFL_PASS(s->highest(s->ctx, CSP_SIGNED, &top.header));
    SEFL_PASS(s->highest(s->ctx, CSP_REVEALED, &top.revealed));
    SEFL_PASS(s->highest(s->ctx, CSP_SKIPPED, &top.skipped));
    if (top.header < top.revealed) /* that round was signed too */
        top.header = top.revealed;
    if (top.header < top.skipped)
        top.header = top.skipped;
    *out = top;
    return SEFL_OK;
}

/* SEFL_ESTATE unless the round is in this state. */
static sefl_status must_be(const csp_store *s, uint64_t round, csp_round_state want, csp_round *out)
{
    SEFL_PASS(csp_store_get(s, round, out));
    SEFL_NEED(out->state == want, SEFL_ESTATE, "round %" PRIu64 " is %s, not %s", round,
              csp_state_name(out->state), csp_state_name(want));
    return SEFL_OK;
}

/* Writes the row of a round in its next state. A round that is skipped after its charge counts for
 * the clients in its set. */
static sefl_status put_state(const csp_store *s, const csp_round *now, csp_round_state state)
{
    csp_row row = { .round = now->round, .state = state, .signed_ms = now->signed_ms };
    if (state == CSP_SKIPPED)
        SEFL_PASS(s->ledger.has(s->ledger.ctx, now->round, &row.charged));
    memcpy(row.model, now->header.model, sizeof row.model);
    return s->row_put(s->ctx, &row);
}

sefl_status csp_store_sign(const csp_store *s, const csp_round *r)
{
    csp_round now;
    uint8_t bytes[HEADER_MAX];
    SEFL_PASS(must_be(s, r->round, CSP_NEW, &now));
    SEFL_NEED(r->header.round == r->round, SEFL_EINVAL, "the header of another round");
    size_t n = round_header_write(bytes, &r->header);
    SEFL_PASS(s->put(s->ctx, CSP_HEADER, r->round, span_of(bytes, n)));
    return put_state(s, r, CSP_SIGNED);
}

sefl_status csp_store_charge(const csp_store *s, uint64_t round)
{
    SEFL_PASS(s->put(s->ctx, CSP_CHARGING, round, span_of("1", 1)));
    return s->ledger.charge(s->ledger.ctx, round);
}

sefl_status csp_store_mark(const csp_store *s, csp_round *now)
{
    SEFL_PASS(put_state(s, now, CSP_REVEALED));
    now->state = CSP_REVEALED;
    return SEFL_OK;
}

sefl_status csp_store_reveal(const csp_store *s, uint64_t round, sefl_span statement,
                             const uint8_t id[NOISE_ID], sefl_span output,
                             const uint8_t digest[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    csp_round now;
    sefl_buf b = { 0 };
    bool charged;
    SEFL_TRY(must_be(s, round, CSP_SIGNED, &now));
    SEFL_TRY(s->ledger.has(s->ledger.ctx, round, &charged));
    SEFL_CHECK(charged, SEFL_ESTATE, "round %" PRIu64 " is not charged", round);
    SEFL_TRY(wr_raw(&b, id, NOISE_ID));
    SEFL_TRY(wr_raw(&b, digest, SHA256_BYTES));
    SEFL_TRY(wr_raw(&b, statement.p, statement.n));
    SEFL_TRY(s->put(s->ctx, CSP_OUTPUT, round, output));
    SEFL_TRY(s->put(s->ctx, CSP_REVEAL, round, buf_span(&b)));
    if (s->note)
        SEFL_TRY(s->note(s->ctx, round, digest));
    SEFL_TRY(csp_store_mark(s, &now));
done:
    buf_clear(&b);
    return st;
}

/* Loads REVEAL and OUTPUT. SEFL_ENOTFOUND if one is missing or damaged, which no second attempt to
 * read changes; the output of another attempt, which a crash left before its REVEAL, is damage. */
static sefl_status get_output(const csp_store *s, uint64_t round, uint8_t id[NOISE_ID],
                              sefl_buf *output, uint8_t digest[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    uint8_t is[SHA256_BYTES];
    sefl_buf b = { 0 };
    SEFL_TRY(s->get(s->ctx, CSP_REVEAL, round, &b));
    rd r = rd_over(buf_span(&b));
    SEFL_TRY(rd_raw(&r, id, NOISE_ID));
    SEFL_TRY(rd_raw(&r, digest, SHA256_BYTES));
    SEFL_TRY(s->get(s->ctx, CSP_OUTPUT, round, output));
    sha256_of(is, buf_span(output));
    SEFL_CHECK(memcmp(is, digest, sizeof is) == 0, SEFL_EPROTO, "it has changed");
done:
    buf_clear(&b);
    if (st != SEFL_OK)
        buf_clear(output);
    return st == SEFL_EPROTO || st == SEFL_ECRYPTO
               ? sefl_fail(SEFL_ENOTFOUND, "the stored output of round %" PRIu64 ": %s", round,
                           sefl_last_error())
               : st;
}

sefl_status csp_store_whole(const csp_store *s, uint64_t round, uint8_t digest[SHA256_BYTES],
                            bool *whole)
{
    uint8_t id[NOISE_ID];
    sefl_buf output = { 0 };
    sefl_status st = get_output(s, round, id, &output, digest);
    *whole = st == SEFL_OK;
    buf_clear(&output);
    return unless_missing(st);
}

sefl_status csp_store_resume(const csp_store *s, csp_round *now)
{
    uint8_t digest[SHA256_BYTES];
    bool whole = false;
    if (now->state == CSP_SIGNED)
        SEFL_PASS(csp_store_whole(s, now->round, digest, &whole));
    if (!whole)
        return SEFL_OK;
    if (s->note)
        SEFL_PASS(s->note(s->ctx, now->round, digest));
    return csp_store_mark(s, now);
}

sefl_status csp_store_kept(const csp_store *s, uint64_t round, uint8_t id[NOISE_ID],
                           sefl_buf *output, uint8_t digest[SHA256_BYTES])
{
    csp_round now;
    SEFL_PASS(csp_store_get(s, round, &now));
    SEFL_NEED(now.state == CSP_REVEALED, SEFL_ENOTFOUND, "round %" PRIu64 " was never revealed",
              round);
    return get_output(s, round, id, output, digest);
}

sefl_status csp_store_skip(const csp_store *s, uint64_t round, unsigned reason)
{
    csp_round now;
    uint8_t why[4];
    store_u32(why, reason);
    SEFL_PASS(must_be(s, round, CSP_SIGNED, &now));
    /* first the output that a broken attempt may have left */
    SEFL_PASS(s->wipe(s->ctx, CSP_OUTPUT, round));
    SEFL_PASS(s->put(s->ctx, CSP_SKIP, round, span_of(why, sizeof why)));
    return put_state(s, &now, CSP_SKIPPED);
}

sefl_status csp_store_forget(const csp_store *s, uint64_t round)
{
    csp_round now;
    SEFL_PASS(must_be(s, round, CSP_REVEALED, &now));
    return s->wipe(s->ctx, CSP_OUTPUT, round);
}

sefl_status csp_store_has(const csp_store *s, csp_record what, uint64_t round, bool *out)
{
    sefl_buf b = { 0 };
    sefl_status st = s->get(s->ctx, what, round, &b);
    *out = st == SEFL_OK;
    buf_clear(&b);
    return unless_missing(st);
}

/* ---- sealed tasks ---------------------------------------------------------------------------- */

sefl_status csp_store_key_make(const csp_store *s, uint64_t round,
                               const uint8_t bytes[CSP_KEY_BYTES])
{
    csp_round now;
    SEFL_PASS(must_be(s, round, CSP_NEW, &now));
    return s->put(s->ctx, CSP_KEY, round, span_of(bytes, CSP_KEY_BYTES));
}

sefl_status csp_store_key_get(const csp_store *s, uint64_t round, uint8_t bytes[CSP_KEY_BYTES])
{
    return get_fixed(s, CSP_KEY, round, bytes, CSP_KEY_BYTES);
}

sefl_status csp_store_key_wipe(const csp_store *s, uint64_t round)
{
    return s->wipe(s->ctx, CSP_KEY, round);
}

sefl_status csp_store_set_put(const csp_store *s, uint64_t round, const csp_set *v)
{
    sefl_status st = SEFL_OK;
    csp_round now;
    sefl_buf b = { 0 };
    bool there;
    SEFL_TRY(must_be(s, round, CSP_SIGNED, &now));
    SEFL_TRY(csp_store_has(s, CSP_SET, round, &there));
    SEFL_CHECK(!there, SEFL_ESTATE, "round %" PRIu64 " already has its set", round);
    SEFL_TRY(wr_raw(&b, v->digest, sizeof v->digest));
    SEFL_TRY(wr_raw(&b, v->root, sizeof v->root));
    SEFL_TRY(wr_u32(&b, v->clients));
    SEFL_TRY(wr_u32(&b, v->kept_n));
    SEFL_TRY(wr_u32(&b, v->refused_n));
    SEFL_TRY(link_refusals_write(&b, v->refused, v->refused_n));
    SEFL_TRY(s->set_put(s->ctx, round, buf_span(&b), v->kept, v->kept_n));
done:
    buf_clear(&b);
    return st;
}

sefl_status csp_store_set_get(const csp_store *s, uint64_t round, csp_set *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    csp_set v = { 0 };
    size_t refused;
    *out = v;
    SEFL_TRY(s->get(s->ctx, CSP_SET, round, &b));
    rd r = rd_over(buf_span(&b));
    SEFL_TRY(rd_raw(&r, v.digest, sizeof v.digest));
    SEFL_TRY(rd_raw(&r, v.root, sizeof v.root));
    SEFL_TRY(rd_u32(&r, &v.clients));
    SEFL_TRY(rd_u32(&r, &v.kept_n));
    SEFL_TRY(rd_u32(&r, &v.refused_n));
    SEFL_TRY(sefl_new(&v.kept, v.kept_n, sizeof *v.kept));
    SEFL_TRY(sefl_new(&v.refused, v.refused_n, sizeof *v.refused));
    SEFL_TRY(link_refusals_read(&r, v.refused, v.refused_n, &refused, v.clients));
    SEFL_CHECK(refused == v.refused_n, SEFL_EPROTO, "the set of round %" PRIu64 " is damaged",
               round);
    SEFL_TRY(s->set_kept(s->ctx, round, v.kept, v.kept_n));
    *out = v, v = (csp_set){ 0 };
done:
    csp_set_clear(&v);
    buf_clear(&b);
    return st;
}
