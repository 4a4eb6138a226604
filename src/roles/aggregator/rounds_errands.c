/* What clients and sites want of CSP, between the server's threads and the link (rounds.h). */
#include "roles/aggregator/rounds_inside.h"

#include "base/alloc.h"
#include "sum/upload_keys.h"

#include <string.h>

static void free_errand(rounds_errand *e)
{
    buf_clear(&e->voucher);
    sefl_free(e);
}

static void queue(rounds *r, rounds_errand *e)
{
    pthread_mutex_lock(&r->lock);
    rounds_errand **at = &r->errands;
    while (*at)
        at = &(*at)->next;
    *at = e;
    r->events++;
    pthread_cond_signal(&r->event);
    pthread_mutex_unlock(&r->lock);
}

sefl_status rounds_enrol(rounds *r, rounds_errand **out, const enrol_claim *c, const enrol_proof *p)
{
    rounds_errand *e;
    *out = NULL;
    sefl_status st = sefl_new(&e, 1, sizeof *e);
    if (st != SEFL_OK)
        return st;
    e->claim = *c;
    e->proof = *p;
    queue(r, e);
    *out = e;
    return SEFL_OK;
}

sefl_status rounds_vouch(rounds *r, rounds_errand **out, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    rounds_errand *e = NULL;
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
        free_errand(e);
    return st;
}

bool rounds_errand_done(rounds *r, const rounds_errand *e, sefl_status *st, uint8_t sig[SIGN_BYTES])
{
    pthread_mutex_lock(&r->lock);
    bool done = e->state == ERRAND_DONE;
    if (done) {
        *st = e->st;
        if (sig)
            memcpy(sig, e->sig, SIGN_BYTES);
    }
    pthread_mutex_unlock(&r->lock);
    return done;
}

void rounds_errand_end(rounds *r, rounds_errand *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&r->lock);
    for (rounds_errand **at = &r->errands; *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    bool asked = e->state == ERRAND_ASKED;
    e->left = true; /* the thread that asks CSP frees it */
    pthread_mutex_unlock(&r->lock);
    if (!asked)
        free_errand(e);
}

static rounds_errand *take_one(rounds *r)
{
    pthread_mutex_lock(&r->lock);
    rounds_errand *e = r->errands;
    if (e) {
        r->errands = e->next;
        e->next = NULL;
        e->state = ERRAND_ASKED;
    }
    pthread_mutex_unlock(&r->lock);
    return e;
}

/* CSP's word first: what we keep and CSP does not would let in updates that CSP refuses. */
static sefl_status vouch(rounds *r, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    voucher v;
    SEFL_TRY(voucher_read(&v, bytes));
    SEFL_TRY(as_link_vouch(r->link, bytes));
    SEFL_TRY(upload_key_put(r->c.journal, v.client, v.serial, v.key));
done:
    return st;
}

/* SEFL_EAUTH: no; another failure: it could not be asked, or kept. */
static sefl_status ask(rounds *r, rounds_errand *e, uint8_t sig[SIGN_BYTES])
{
    if (e->voucher.n == 0)
        return as_link_enrol(r->link, sig, &e->claim, &e->proof);
    sefl_status st = vouch(r, buf_span(&e->voucher));
    if (st != SEFL_OK && st != SEFL_EAUTH)
        log_warn(r->c.log, "voucher not taken", lf_str("why", sefl_last_error()));
    return st;
}

sefl_status rounds_run_errands(rounds *r)
{
    sefl_status st = SEFL_OK;
    for (rounds_errand *e; st == SEFL_OK && (e = take_one(r)) != NULL;) {
        uint8_t sig[SIGN_BYTES] = { 0 };
        sefl_status one = SEFL_EIO;
        if (r->link) {
            one = ask(r, e, sig);
            if (as_link_dead(r->link)) {
                one = SEFL_EIO;
                st = rounds_link_down(r, "errand");
            }
        }
        pthread_mutex_lock(&r->lock);
        bool left = e->left;
        e->state = ERRAND_DONE;
        e->st = one;
        memcpy(e->sig, sig, sizeof sig);
        pthread_mutex_unlock(&r->lock);
        if (left)
            free_errand(e);
        else if (r->c.answered)
            r->c.answered(r->c.ctx);
    }
    return st;
}
