/* Requests of clients and sites to CSP, between the server's threads and the link (rounds.h). */
#include "roles/aggregator/rounds_inside.h"

#include "base/alloc.h"
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
};

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
    csp_request **at = &r->requests;
    while (*at)
        at = &(*at)->next;
    *at = e;
    as_rounds_wake(r->driver);
    pthread_mutex_unlock(r->lock);
}

sefl_status rounds_enrol(rounds *r, csp_request **out, const enrol_claim *c, const enrol_proof *p)
{
    csp_request *e;
    *out = NULL;
    SEFL_PASS(sefl_new(&e, 1, sizeof *e));
    e->claim = *c;
    e->proof = *p;
    queue(r, e);
    *out = e;
    return SEFL_OK;
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
    for (csp_request **at = &r->requests; *at; at = &(*at)->next)
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

/* Asks CSP first: a voucher that only we keep would admit updates that CSP refuses. */
static sefl_status vouch(rounds *r, as_link *link, sefl_span bytes)
{
    voucher v;
    SEFL_PASS(voucher_read(&v, bytes));
    SEFL_PASS(as_link_vouch(link, bytes));
    return upload_key_put(r->c.journal, v.client, v.serial, v.key);
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
        pthread_mutex_lock(r->lock);
        bool left = e->left;
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
