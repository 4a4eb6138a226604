#include "roles/client_proof.h"

#include "protocol/counted.h"
#include "protocol/http.h"
#include "roles/vouch.h"

#include <inttypes.h>
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
    client_show_doing(c, "showing the upload key");
    SEFL_TRY(vouch_make(&bytes, c->cfg->cert, c->cfg->key, sign_key_pub(c->upload.key),
                        &c->cfg->servers, c->upload.serial));
    SEFL_TRY(client_post(c->net, a, HTTP_VOUCHER, buf_span(&bytes), VOUCH_S));
    c->vouched = a->word == ANSWER_OK;
    if (c->vouched)
        log_debug(c->o.log, "upload key vouched for", lf_u64("serial", c->upload.serial));
done:
    buf_clear(&bytes);
    return st;
}

/* ---- counted? -------------------------------------------------------------------------------- */

sefl_status client_counted_check(const task *t, sefl_span answer, uint64_t round,
                                 const uint8_t me[32], const uint8_t units[BLAKE3_BYTES])
{
    sefl_status st = SEFL_OK;
    rd r = rd_over(answer);
    uint32_t n;
    sefl_span bytes;
    envelope env;
    counted_statement s;
    counted_leaf leaf;
    SEFL_TRY(rd_u32(&r, &n));
    SEFL_TRY(rd_view(&r, &bytes, n));
    SEFL_TRY(envelope_read(&env, bytes));
    SEFL_TRY(envelope_check_one(&env, SIGN_COUNTED, SIGNER_CSP, t->servers.csp));
    SEFL_TRY(counted_statement_read(&s, env.content));
    SEFL_CHECK(memcmp(s.task, t->id, TASK_ID) == 0 && s.round == round, SEFL_EAUTH,
               "the proof is of another task or round");
    memcpy(leaf.client, me, sizeof leaf.client);
    memcpy(leaf.units, units, sizeof leaf.units);
    SEFL_TRY(counted_check(s.root, t->id, round, counted_depth(t->clients_max), &leaf,
                           span_of(r.p, r.left)));
done:
    return st;
}

/* The units' hash that AS signed. */
static sefl_status units_of(client *c, uint8_t units[BLAKE3_BYTES], uint64_t round)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    envelope env;
    round_receipt r;
    SEFL_TRY(client_store_receipt_read(c->store, &b, round));
    SEFL_TRY(envelope_read(&env, buf_span(&b)));
    SEFL_TRY(round_receipt_read(&r, env.content));
    memcpy(units, r.body, BLAKE3_BYTES);
done:
    buf_clear(&b);
    return st;
}

static sefl_status keep(client *c, uint64_t round, client_counted what, sefl_span proof,
                        const char *why)
{
    sefl_status st = SEFL_OK;
    unsigned misses;
    SEFL_TRY(client_store_counted(c->store, round, what, proof, &misses));
    if (what == CLIENT_COUNTED)
        log_info(c->o.log, "update counted", lf_u64("round", round));
    else if (what == CLIENT_SKIPPED)
        log_info(c->o.log, "the server says that the round was skipped", lf_u64("round", round));
    else
        log_warn(c->o.log, "update not counted, although the server gave a receipt",
                 lf_u64("round", round), lf_u64("in_a_row", misses), lf_str("why", why));
    SEFL_CHECK(what != CLIENT_MISSED || misses < CLIENT_MISSES_MAX, SEFL_EAUTH,
               "the last %u updates of this client were not counted, although the server gave "
               "receipts for them: ask both operators why (state/receipts and state/counted are "
               "the evidence), then start the client again",
               misses);
done:
    return st;
}

/* *again: it could not be asked. */
static sefl_status ask_one(client *c, uint64_t round, bool *again)
{
    sefl_status st = SEFL_OK;
    sefl_buf answer = { 0 };
    client_reply a;
    uint8_t units[BLAKE3_BYTES];
    char path[96], why[256];
    *again = false;
    SEFL_TRY(units_of(c, units, round));
    snprintf(path, sizeof path, "/v1/round/%" PRIu64 "/counted", round);
    SEFL_TRY(client_get(c->net, &a, &answer, path, ANSWER_MAX, 0));
    if (a.word != ANSWER_OK && !a.not_there) {
        *again = true;
        goto done;
    }
    if (a.not_there) {
        bool skipped = strstr(a.why, HTTP_SKIPPED) != NULL;
        SEFL_TRY(
            keep(c, round, skipped ? CLIENT_SKIPPED : CLIENT_MISSED, span_of_str(a.why), a.why));
        goto done;
    }
    st = client_counted_check(&c->t, buf_span(&answer), round, c->me, units);
    if (st != SEFL_OK && st != SEFL_EAUTH && st != SEFL_EPROTO)
        goto done;
    snprintf(why, sizeof why, "%.255s", st == SEFL_OK ? "" : sefl_last_error());
    SEFL_TRY(
        keep(c, round, st == SEFL_OK ? CLIENT_COUNTED : CLIENT_MISSED, buf_span(&answer), why));
done:
    buf_clear(&answer);
    return st;
}

sefl_status client_ask_counted(client *c, uint64_t before)
{
    sefl_status st = SEFL_OK;
    uint64_t round;
    bool again = false;
    while (task_is_sealed(&c->t) && !again) {
        SEFL_CHECK(!client_stopped(c), SEFL_ECANCELLED, "stopped");
        SEFL_TRY(client_store_uncounted(c->store, before, &round));
        if (round == 0)
            break;
        SEFL_TRY(ask_one(c, round, &again));
    }
done:
    return st;
}
