/* Requests of clients and sites to CSP, between the server's threads and the link (rounds.h). */
#include "roles/aggregator/rounds_inside.h"

#include "base/alloc.h"
#include "protocol/voucher.h"
#include "store/disk/upload_keys.h"

#include <string.h>

typedef enum request_state { WAITING, ASKED, ANSWERED } request_state;

struct csp_request { /* under the lock */
    csp_request *next;
    request_state state;
    bool left;        /* nobody needs the answer any more */
    sefl_buf voucher; /* empty: an enrolment */
    enrol_claim claim;
    enrol_proof proof;
    sefl_status st;
    uint8_t sig[SIGN_BYTES];
    uint64_t id;   /* several processes: the number of the request in the store; 0: none */
    bool of_other; /* another process waits for the answer */
};

/* What another process asks the leader for (share.h). */
enum { ASK_ENROL = 1, ASK_VOUCH = 2, ASK_COMMAND = 3 };

static void free_request(csp_request *e)
{
    buf_clear(&e->voucher);
    sefl_free(e);
}

rounds_queues rounds_queues_of(rounds *r)
{
    rounds_queues q = { 0 };
    uint32_t given, summed;
    pthread_mutex_lock(r->lock);
    for (const csp_request *e = r->requests; e; e = e->next)
        q.requests++;
    pthread_mutex_unlock(r->lock);
    collect_counts(r->collect, &given, &summed);
    q.unsummed = given > summed ? given - summed : 0;
    q.rooms_most = r->body_pool ? body_pool_most(r->body_pool) : 0;
    q.rooms = r->body_pool ? body_pool_taken(r->body_pool) : 0;
    return q;
}

static void queue(rounds *r, csp_request *e)
{
    pthread_mutex_lock(r->lock);
    csp_request **at = e->id > 0 && !e->of_other ? &r->away : &r->requests;
    while (*at)
        at = &(*at)->next;
    *at = e;
    as_rounds_wake(r->driver);
    pthread_mutex_unlock(r->lock);
}

/* Several processes: if another one leads, asks it. */
static sefl_status ask_leader(rounds *r, csp_request *e, unsigned kind, sefl_span bytes)
{
    return rounds_leads(r) ? SEFL_OK : share_ask(r->share, kind, bytes, &e->id);
}

sefl_status rounds_enrol(rounds *r, csp_request **out, const enrol_claim *c, const enrol_proof *p)
{
    sefl_status st = SEFL_OK;
    csp_request *e = NULL;
    sefl_buf question = { 0 };
    *out = NULL;
    SEFL_TRY(sefl_new(&e, 1, sizeof *e));
    e->claim = *c;
    e->proof = *p;
    SEFL_TRY(enrol_question_write(&question, c, p));
    SEFL_TRY(ask_leader(r, e, ASK_ENROL, buf_span(&question)));
    queue(r, e);
    *out = e, e = NULL;
done:
    if (e)
        free_request(e);
    buf_clear(&question);
    return st;
}

sefl_status rounds_vouch(rounds *r, csp_request **out, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    csp_request *e = NULL;
    voucher v;
    *out = NULL;
    SEFL_TRY(voucher_read(&v, bytes));
    SEFL_TRY(upload_key_fits(r->c.journal, v.client, v.serial, v.key));
    SEFL_TRY(sefl_new(&e, 1, sizeof *e));
    SEFL_TRY(wr_raw(&e->voucher, bytes.p, bytes.n));
    SEFL_TRY(ask_leader(r, e, ASK_VOUCH, bytes));
    queue(r, e);
    *out = e, e = NULL;
done:
    if (e)
        free_request(e);
    return st;
}

bool rounds_request_done(rounds *r, const csp_request *e, sefl_status *st, uint8_t sig[SIGN_BYTES])
{
    pthread_mutex_lock(r->lock);
    bool done = e->state == ANSWERED;
    if (done) {
        *st = e->st;
        if (sig)
            memcpy(sig, e->sig, SIGN_BYTES);
    }
    pthread_mutex_unlock(r->lock);
    return done;
}

void rounds_request_end(rounds *r, csp_request *e)
{
    if (!e)
        return;
    pthread_mutex_lock(r->lock);
    for (int away = 0; away < 2; away++)
        for (csp_request **at = away ? &r->away : &r->requests; *at; at = &(*at)->next)
            if (*at == e) {
                *at = e->next;
                break;
            }
    bool asked = e->state == ASKED;
    e->left = true; /* the thread that asks CSP frees it */
    pthread_mutex_unlock(r->lock);
    if (!asked)
        free_request(e);
}

static csp_request *take_one(rounds *r)
{
    pthread_mutex_lock(r->lock);
    csp_request *e = r->requests;
    if (e) {
        r->requests = e->next;
        e->next = NULL;
        e->state = ASKED;
    }
    pthread_mutex_unlock(r->lock);
    return e;
}

/* Asks CSP first: a voucher that only we keep would admit updates that CSP refuses. A client may
 * post its voucher again and again: only a new one is an event. */
static sefl_status vouch(rounds *r, as_link *link, sefl_span bytes)
{
    voucher v;
    uint8_t key[SIGN_PUB_BYTES];
    uint64_t serial;
    SEFL_PASS(voucher_read(&v, bytes));
    SEFL_PASS(as_link_vouch(link, bytes));
    if (upload_key_get(r->c.journal, v.client, &serial, key) == SEFL_OK && serial == v.serial &&
        memcmp(key, v.key, sizeof key) == 0)
        return SEFL_OK;
    SEFL_PASS(upload_key_put(r->c.journal, v.client, v.serial, v.key));
    audit_add(r->c.audit, "vouched", lf_key("client", v.client), lf_u64("serial", v.serial));
    return SEFL_OK;
}

/* SEFL_EAUTH: CSP refused; another failure: CSP could not be asked, or we could not store it. */
static sefl_status ask(rounds *r, as_link *link, csp_request *e, uint8_t sig[SIGN_BYTES])
{
    if (e->voucher.n == 0)
        return as_link_enrol(link, sig, &e->claim, &e->proof);
    sefl_status st = vouch(r, link, buf_span(&e->voucher));
    if (st != SEFL_OK && st != SEFL_EAUTH)
        log_warn(r->c.as.log, "voucher not accepted", lf_str("why", sefl_last_error()));
    return st;
}

void rounds_run_requests(void *ctx, as_link *link)
{
    rounds *r = ctx;
    for (csp_request *e; (e = take_one(r)) != NULL;) {
        uint8_t sig[SIGN_BYTES] = { 0 };
        sefl_status st = SEFL_EIO;
        if (link && !as_link_dead(link)) {
            st = ask(r, link, e, sig);
            if (as_link_dead(link))
                st = SEFL_EIO;
        }
        if (e->of_other)
            share_answer(r->share, e->id, st, span_of(sig, sizeof sig));
        pthread_mutex_lock(r->lock);
        bool left = e->left || e->of_other;
        e->state = ANSWERED;
        e->st = st;
        memcpy(e->sig, sig, sizeof sig);
        pthread_mutex_unlock(r->lock);
        if (left)
            free_request(e);
        else if (r->c.answered)
            r->c.answered(r->c.ctx);
    }
}

/* ---- several processes ----------------------------------------------------------------------- */

static sefl_status read_request(csp_request *e, unsigned kind, sefl_span bytes)
{
    if (kind == ASK_ENROL)
        return enrol_question_read(&e->claim, &e->proof, bytes);
    return wr_raw(&e->voucher, bytes.p, bytes.n);
}

/* An order of another process's operator: event u8, now u8, round u64. */
static sefl_status command_from(rounds *r, uint64_t id, sefl_span bytes)
{
    rd in = rd_over(bytes);
    uint8_t event, now;
    uint64_t round;
    SEFL_PASS(rd_u8(&in, &event));
    SEFL_PASS(rd_u8(&in, &now));
    SEFL_PASS(rd_u64(&in, &round));
    SEFL_PASS(rd_end(&in));
    SEFL_NEED(event == AGG_PAUSE || event == AGG_RESUME || event == AGG_STOP || event == AGG_CLOSE,
              SEFL_EPROTO, "store: order %u", event);
    as_rounds_command(
        r->driver,
        &(as_command){ .id = id, .event = (agg_event_kind)event, .round = round, .now = now != 0 });
    return SEFL_OK;
}

void rounds_request_from(rounds *r, uint64_t id, unsigned kind, sefl_span bytes)
{
    csp_request *e = NULL;
    sefl_status st = SEFL_EPROTO;
    if (kind == ASK_COMMAND) {
        st = command_from(r, id, bytes);
        share_answer(r->share, id, st, (sefl_span){ 0 });
        return;
    }
    if (kind == ASK_ENROL || kind == ASK_VOUCH)
        st = sefl_new(&e, 1, sizeof *e);
    if (st == SEFL_OK)
        st = read_request(e, kind, bytes);
    if (st != SEFL_OK) {
        share_answer(r->share, id, SEFL_EIO, (sefl_span){ 0 });
        if (e)
            free_request(e);
        return;
    }
    e->id = id;
    e->of_other = true;
    queue(r, e);
}

void rounds_request_look(rounds *r)
{
    uint64_t ids[16];
    size_t n = 0;
    pthread_mutex_lock(r->lock);
    for (const csp_request *e = r->away; e && n < sizeof ids / sizeof *ids; e = e->next)
        if (e->state == WAITING)
            ids[n++] = e->id;
    pthread_mutex_unlock(r->lock);
    for (size_t i = 0; i < n; i++) {
        sefl_buf answer = { 0 };
        sefl_status st;
        if (share_answered(r->share, ids[i], &st, &answer)) {
            pthread_mutex_lock(r->lock);
            for (csp_request *e = r->away; e; e = e->next)
                if (e->id == ids[i]) {
                    e->state = ANSWERED;
                    e->st = st == SEFL_OK && answer.n != SIGN_BYTES ? SEFL_EIO : st;
                    if (answer.n == SIGN_BYTES)
                        memcpy(e->sig, answer.p, SIGN_BYTES);
                }
            pthread_mutex_unlock(r->lock);
            if (r->c.answered)
                r->c.answered(r->c.ctx);
        }
        buf_clear(&answer);
    }
}

void rounds_command_away(rounds *r, const as_command *c)
{
    uint8_t bytes[10] = { (uint8_t)c->event, c->now };
    uint64_t id;
    store_u64(bytes + 2, c->round);
    if (share_ask(r->share, ASK_COMMAND, span_of(bytes, sizeof bytes), &id) != SEFL_OK) {
        log_error(r->c.as.log, "the operator's order is lost", lf_str("why", sefl_last_error()));
        return;
    }
    pthread_mutex_lock(r->lock);
    r->commanded = c->id;
    pthread_mutex_unlock(r->lock);
}
