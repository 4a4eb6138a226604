#include "roles/client/proof.h"

#include "protocol/counted.h"
#include "protocol/http.h"
#include "roles/vouch.h"

#include <stdio.h>
#include <string.h>

enum { ENVELOPE_MAX = 1024, ANSWER_MAX = 4 + ENVELOPE_MAX + COUNTED_PATH_MAX, VOUCH_S = 60 };

/* ---- voucher --------------------------------------------------------------------------------- */

sefl_status client_vouch(client *c, client_reply *a)
{
    sefl_status st = SEFL_OK;
    sefl_buf bytes = { 0 };
    *a = (client_reply){ .word = ANSWER_OK };
    if (!task_is_sealed(&c->t) || c->vouched)
        return SEFL_OK;
    client_show_doing(c, "sending the upload key to CSP for a voucher");
    SEFL_TRY(vouch_make(&bytes, c->cfg->cert, c->cfg->key, sign_key_pub(c->upload.key),
                        &c->cfg->servers, c->upload.serial));
    SEFL_TRY(
        client_post(c->net, a, &(http_target){ .call = HTTP_VOUCHER }, buf_span(&bytes), VOUCH_S));
    c->vouched = a->word == ANSWER_OK;
    if (c->vouched)
        log_debug(c->o.log, "CSP vouches for the upload key", lf_u64("serial", c->upload.serial));
done:
    buf_clear(&bytes);
    return st;
}

/* ---- counted? -------------------------------------------------------------------------------- */

sefl_status client_counted_check(const task *t, sefl_span answer, uint64_t round,
                                 const uint8_t me[32], const uint8_t units[BLAKE3_BYTES])
{
    rd r = rd_over(answer);
    uint32_t n;
    sefl_span bytes;
    envelope env;
    counted_statement s;
    round_entry leaf;
    SEFL_PASS(rd_u32(&r, &n));
    SEFL_PASS(rd_view(&r, &bytes, n));
    SEFL_PASS(envelope_read(&env, bytes));
    SEFL_PASS(envelope_check_one(&env, SIGN_COUNTED, SIGNER_CSP, t->servers.csp));
    SEFL_PASS(counted_statement_read(&s, env.content));
    SEFL_NEED(memcmp(s.task, t->id, TASK_ID) == 0 && s.round == round, SEFL_EAUTH,
              "the proof is for another task or round");
    SEFL_NEED(r.left > 0, SEFL_EAUTH, "the update is not among those that CSP signed as counted");
    memcpy(leaf.client, me, sizeof leaf.client);
    memcpy(leaf.body, units, sizeof leaf.body);
    return counted_check(s.root, t->id, round, counted_depth(t->clients_max), &leaf,
                         span_of(r.p, r.left));
}

/* Reads the receipt that AS signed for an update. */
static sefl_status receipt_of(client *c, round_receipt *out, uint64_t round)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    envelope env;
    SEFL_TRY(client_store_receipt_read(c->store, &b, round));
    SEFL_TRY(envelope_read(&env, buf_span(&b)));
    SEFL_TRY(round_receipt_read(out, env.content));
done:
    buf_clear(&b);
    return st;
}

/* Finds the round that was certainly released, since the next one starts from another model; 0:
 * none. */
static sefl_status released(const client *c, const round_news *n, uint64_t *round)
{
    round_header next;
    *round = 0;
    if (n->state != ROUND_OPEN || c->header.round == 0 || n->round != c->header.round + 1)
        return SEFL_OK;
    sefl_status st = participant_header_check(&c->t, &next, n->header, n->round);
    if (client_is_bad(st))
        return SEFL_OK; /* on_news reports what is wrong with it */
    if (st == SEFL_OK && memcmp(next.model, c->header.model, sizeof next.model) != 0)
        *round = c->header.round;
    return st;
}

static sefl_status keep(client *c, uint64_t round, client_counted what, sefl_span proof,
                        const char *why)
{
    unsigned misses;
    SEFL_PASS(client_store_counted(c->store, round, what, proof, &misses));
    if (what == CLIENT_COUNTED)
        log_info(c->o.log, "update counted", lf_u64("round", round));
    else if (what == CLIENT_SKIPPED)
        log_info(c->o.log, "the server reports that the round was skipped", lf_u64("round", round));
    else if (what == CLIENT_FORMER)
        log_info(c->o.log, "no proof requested: the receipt is for a former key of this client",
                 lf_u64("round", round));
    else
        log_warn(c->o.log, "update not counted, although the server gave a receipt",
                 lf_u64("round", round), lf_u64("in_a_row", misses), lf_str("why", why));
    SEFL_NEED(what != CLIENT_MISSED || misses < CLIENT_MISSES_MAX, SEFL_EAUTH,
              "the last %u updates of this client were not counted, although the server gave "
              "receipts for them: ask both operators why (state/receipts and state/counted are "
              "the evidence), then restart the client",
              misses);
    return SEFL_OK;
}

/* Requests one proof. *again: AS did not answer. sure: this round was certainly released. */
static sefl_status ask_one(client *c, uint64_t round, bool sure, bool *again)
{
    sefl_status st = SEFL_OK;
    sefl_buf answer = { 0 };
    client_reply a;
    round_receipt receipt;
    char why[320];
    *again = false;
    SEFL_TRY(receipt_of(c, &receipt, round));
    if (memcmp(receipt.client, c->me, sizeof c->me) != 0) {
        st = keep(c, round, CLIENT_FORMER, span_of(NULL, 0), "");
        goto done;
    }
    SEFL_TRY(client_get(c->net, &a, &answer, &(http_target){ .call = HTTP_COUNTED, .round = round },
                        ANSWER_MAX));
    if (a.word != ANSWER_OK && a.word != ANSWER_NOT_THERE) {
        *again = c->unproven < CLIENT_MISSES_MAX;
        snprintf(why, sizeof why, "no proof for %u rounds: %.255s", c->unproven, a.why);
        if (!*again)
            st = keep(c, round, CLIENT_MISSED, span_of_str(a.why), why);
        goto done;
    }
    c->unproven = 0;
    if (a.word == ANSWER_NOT_THERE) {
        bool skipped = strstr(a.why, HTTP_SKIPPED) != NULL, lie = skipped && sure;
        snprintf(why, sizeof why, "%.255s%s", a.why,
                 lie ? "; but the next round starts from another model" : "");
        SEFL_TRY(keep(c, round, skipped && !lie ? CLIENT_SKIPPED : CLIENT_MISSED,
                      span_of_str(a.why), why));
        goto done;
    }
    st = client_counted_check(&c->t, buf_span(&answer), round, c->me, receipt.body);
    if (st != SEFL_OK && !client_is_bad(st))
        goto done;
    snprintf(why, sizeof why, "%.255s", st == SEFL_OK ? "" : sefl_last_error());
    SEFL_TRY(
        keep(c, round, st == SEFL_OK ? CLIENT_COUNTED : CLIENT_MISSED, buf_span(&answer), why));
done:
    buf_clear(&answer);
    return st;
}

sefl_status client_ask_counted(client *c, const round_news *n)
{
    uint64_t before = n->state == ROUND_OVER ? UINT64_MAX : n->round, round, sure;
    bool again = false;
    if (!task_is_sealed(&c->t))
        return SEFL_OK;
    SEFL_PASS(released(c, n, &sure));
    for (;;) {
        SEFL_NEED(!client_stopped(c), SEFL_ECANCELLED, "stopped");
        SEFL_PASS(client_store_uncounted(c->store, before, &round));
        if (round == 0)
            break;
        SEFL_PASS(ask_one(c, round, round == sure, &again));
        if (again)
            break;
    }
    if (again && c->asked_in != before) { /* news of one round may come several times */
        c->unproven++, c->asked_in = before;
        log_warn(c->o.log, "no proof that the update was counted: the server gave no answer",
                 lf_u64("round", round), lf_u64("in_a_row", c->unproven));
    }
    return SEFL_OK;
}
