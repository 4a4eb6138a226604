/* Sealed tasks at CSP: round keys, and vouchers for clients' upload keys. */
#include "base/ct.h"
#include "base/sha256.h"
#include "sum/csp_set.h"

#include <string.h>

/* ---- the round key --------------------------------------------------------------------------- */

static sefl_status key_of(const csp *c, seal_key **out, uint64_t round,
                          const uint8_t bytes[CSP_KEY_BYTES])
{
    uint8_t seed[SHA256_BYTES], number[8];
    _Static_assert(sizeof seed == SEAL_SEED, "a hash is a seed");
    store_u64(number, round);
    sha256_join(seed, span_of_str("sefl kem 1"), span_of(c->c.root, CSP_KEY_BYTES),
                span_of(bytes, CSP_KEY_BYTES), span_of(c->c.task->id, TASK_ID),
                span_of(number, sizeof number));
    sefl_status st = seal_key_from(out, c->c.task->seal, seed);
    sefl_wipe(seed, sizeof seed);
    return st;
}

sefl_status csp_key_load(const csp *c, seal_key **out, uint64_t round)
{
    sefl_status st = SEFL_OK;
    const csp_store *s = c->c.store;
    uint8_t bytes[CSP_KEY_BYTES] = { 0 };
    seal_key *key = NULL;
    csp_round now;
    *out = NULL;
    SEFL_TRY(csp_store_key_get(s, round, bytes));
    SEFL_TRY(key_of(c, &key, round, bytes));
    SEFL_TRY(csp_store_get(s, round, &now));
    sefl_span pub = seal_key_pub(key);
    if (now.state == CSP_SIGNED &&
        (pub.n != now.header.key_bytes || memcmp(pub.p, now.header.key, pub.n) != 0)) {
        log_error(c->c.log, "this round key belongs to another key file: start CSP with that file",
                  lf_u64("round", round));
        st = sefl_fail(SEFL_ENOTFOUND, "another key file");
        goto done;
    }
    *out = key, key = NULL;
done:
    seal_key_free(key);
    sefl_wipe(bytes, sizeof bytes);
    return st;
}

static sefl_status key_new(const csp *c, seal_key **out, uint64_t round)
{
    sefl_status st = SEFL_OK;
    uint8_t bytes[CSP_KEY_BYTES] = { 0 };
    sefl_rng rng;
    SEFL_TRY(coins_for(c->c.coins, &rng, "kem", round, 0));
    SEFL_TRY(rng_fill(&rng, bytes, sizeof bytes));
    SEFL_TRY(csp_store_key_make(c->c.store, round, bytes));
    SEFL_TRY(key_of(c, out, round, bytes));
done:
    sefl_wipe(bytes, sizeof bytes);
    return st;
}

sefl_status csp_on_key(csp *c, rd *r)
{
    sefl_status st = SEFL_OK;
    csp_round now;
    seal_key *key = NULL;
    uint64_t round;
    SEFL_TRY(rd_u64(r, &round));
    SEFL_TRY(rd_end(r));
    if (!task_is_sealed(c->c.task))
        return csp_no(c, LINK_NO_ORDER, "this task has no round keys");
    SEFL_TRY(csp_own(c, csp_store_get(c->c.store, round, &now)));
    if (now.state == CSP_REVEALED || now.state == CSP_SKIPPED)
        return csp_no(c, now.state == CSP_REVEALED ? LINK_NO_REVEALED : LINK_NO_SKIPPED,
                      "CSP has wiped the key of this round");
    if (now.state == CSP_NEW)
        SEFL_TRY(csp_in_turn(c, round));
    st = csp_key_load(c, &key, round);
    if (st == SEFL_ENOTFOUND &&
        now.state == CSP_SIGNED) /* never a new key once the header is signed */
        return csp_no(c, LINK_NO_KEY, NULL);
    if (st == SEFL_ENOTFOUND)
        st = key_new(c, &key, round);
    SEFL_TRY(csp_own(c, st));
    sefl_span pub = seal_key_pub(key);
    sefl_buf *out = csp_reply(c, LINK_KEY);
    SEFL_TRY(wr_u64(out, round));
    SEFL_TRY(wr_u16(out, c->c.task->seal->id));
    SEFL_TRY(wr_raw(out, pub.p, pub.n));
done:
    seal_key_free(key);
    return st;
}

sefl_status csp_header_key(csp *c, const round_header *h)
{
    const task *t = c->c.task;
    seal_key *key = NULL;
    if (h->suite != (t->seal ? t->seal->id : 0))
        return csp_no(c, LINK_NO_HEADER, "its seal suite is not the task's");
    if (!t->seal)
        return SEFL_OK;
    sefl_status st = csp_key_load(c, &key, h->round);
    if (st == SEFL_ENOTFOUND)
        return csp_no(c, LINK_NO_ORDER, "AS must ask for the KEY before the header");
    if (st != SEFL_OK)
        return csp_own(c, st);
    sefl_span pub = seal_key_pub(key);
    bool same = pub.n == h->key_bytes && memcmp(pub.p, h->key, pub.n) == 0;
    seal_key_free(key);
    return same ? SEFL_OK : csp_no(c, LINK_NO_HEADER, "it does not carry the key that CSP sent");
}

/* ---- vouchers -------------------------------------------------------------------------------- */

/* *again: it is the client's latest one, which a client posts at each start, or as often as it
 * likes. */
static sefl_status take_voucher(csp *c, const voucher *v, bool *again)
{
    const csp_store *s = c->c.store;
    uint8_t key[SIGN_PUB_BYTES];
    uint64_t serial;
    if (memcmp(&v->servers, &c->c.task->servers, sizeof v->servers) != 0)
        return sefl_fail(SEFL_EAUTH, "the voucher names other servers than this task");
    SEFL_PASS(c->c.vouch(c->c.enrol_ctx, v));
    *again = s->voucher_get(s->ctx, v->client, &serial, key) == SEFL_OK && serial == v->serial &&
             memcmp(key, v->key, sizeof key) == 0;
    return *again ? SEFL_OK : s->voucher_put(s->ctx, v->client, v->serial, v->key);
}

/* AS learns only yes or no; the reason is for this operator and the site. */
sefl_status csp_on_vouch(csp *c, rd *r)
{
    voucher v;
    bool again = false;
    if (!task_is_sealed(c->c.task))
        return csp_no(c, LINK_NO_ORDER, "this task has no vouchers");
    sefl_status st = voucher_read(&v, span_of(r->p, r->left));
    if (st == SEFL_EPROTO) {
        log_warn(c->c.log, "voucher refused", lf_str("why", sefl_last_error()));
        return csp_no(c, LINK_NO_ENROL, NULL);
    }
    if (st == SEFL_OK)
        st = take_voucher(c, &v, &again);
    if (st == SEFL_EAUTH || st == SEFL_ESTATE) {
        log_warn(c->c.log, "voucher refused", lf_hash("client", v.client),
                 lf_str("why", sefl_last_error()));
        return csp_no(c, LINK_NO_ENROL, NULL);
    }
    if (st != SEFL_OK)
        return csp_own(c, st);
    if (!again)
        log_info(c->c.log, "voucher taken", lf_hash("client", v.client),
                 lf_u64("serial", v.serial));
    return csp_reply_yes(c);
}
