/* Sites that enrol, between the server's threads and the link (rounds.h). */
#include "roles/aggregator/rounds_inside.h"

#include "base/alloc.h"

#include <string.h>

sefl_status rounds_enrol(rounds *r, rounds_enrolment **out, const enrol_claim *c,
                         const enrol_proof *p)
{
    rounds_enrolment *e;
    *out = NULL;
    sefl_status st = sefl_new(&e, 1, sizeof *e);
    if (st != SEFL_OK)
        return st;
    e->claim = *c;
    e->proof = *p;
    pthread_mutex_lock(&r->lock);
    e->next = r->enrolments;
    r->enrolments = e;
    r->events++;
    pthread_cond_signal(&r->event);
    pthread_mutex_unlock(&r->lock);
    *out = e;
    return SEFL_OK;
}

bool rounds_enrol_done(rounds *r, const rounds_enrolment *e, sefl_status *st,
                       uint8_t sig[SIGN_BYTES])
{
    pthread_mutex_lock(&r->lock);
    bool done = e->state == ENROL_DONE;
    if (done) {
        *st = e->st;
        memcpy(sig, e->sig, SIGN_BYTES);
    }
    pthread_mutex_unlock(&r->lock);
    return done;
}

void rounds_enrol_end(rounds *r, rounds_enrolment *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&r->lock);
    for (rounds_enrolment **at = &r->enrolments; *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    bool asked = e->state == ENROL_ASKED;
    e->left = true; /* whoever asks frees it */
    pthread_mutex_unlock(&r->lock);
    if (!asked)
        sefl_free(e);
}

static rounds_enrolment *take_one(rounds *r)
{
    pthread_mutex_lock(&r->lock);
    rounds_enrolment *e = r->enrolments;
    if (e) {
        r->enrolments = e->next;
        e->next = NULL;
        e->state = ENROL_ASKED;
    }
    pthread_mutex_unlock(&r->lock);
    return e;
}

sefl_status rounds_carry_enrolments(rounds *r)
{
    sefl_status st = SEFL_OK;
    for (rounds_enrolment *e; st == SEFL_OK && (e = take_one(r)) != NULL;) {
        uint8_t sig[SIGN_BYTES] = { 0 };
        sefl_status one = SEFL_EIO;
        if (r->link) {
            one = as_link_enrol(r->link, sig, &e->claim, &e->proof);
            if (as_link_dead(r->link)) {
                one = SEFL_EIO;
                st = rounds_link_down(r, "enrolment");
            }
        }
        pthread_mutex_lock(&r->lock);
        bool left = e->left;
        e->state = ENROL_DONE;
        e->st = one;
        memcpy(e->sig, sig, sizeof sig);
        pthread_mutex_unlock(&r->lock);
        if (left)
            sefl_free(e);
        else if (r->c.enrolled)
            r->c.enrolled(r->c.ctx);
    }
    return st;
}
