/* Design.
 *  1. Three threads: the owner of share_run follows, or leads inside as_rounds_run; the keeper
 *     renews the lease and counts uploads while this process leads; the worker makes parts.
 *  2. Order of locks: the driver's, then `lock`, then those of collect and the journals. No query
 *     runs under the driver's lock, except those of as_rounds_follow.
 *  3. `early` and `asked` belong to one term of leading. The keeper may be in the middle of a query
 *     when a new term begins: it stores nothing about another term than the one it asked in.
 *  4. `leads` is false whenever as_rounds_follow runs. After a lost lease the guard of the leader's
 *     journal stays: it refuses every write until the next lease. */
#include "roles/aggregator/share_inside.h"

#include "base/alloc.h"
#include "base/cond.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { AHEAD_OF = 64, AHEAD_MOST = 256 };
static const char lease_name[] = "aggregator";

uint64_t share_mono_ms(const share *s)
{
    return clock_ms(s->r->c.as.mono);
}

sefl_log *share_log(const share *s)
{
    return s->r->c.as.log;
}

void share_pause_ms(share *s, unsigned ms)
{
    pthread_mutex_lock(&s->lock);
    if (!atomic_load(&s->stop))
        cond_wait_ms(&s->wake, &s->lock, ms);
    pthread_mutex_unlock(&s->lock);
}

bool share_may_go_on(void *self, uint64_t done, uint64_t total)
{
    const share *s = self;
    (void)done, (void)total;
    return !atomic_load(&s->stop) && !atomic_load(&s->lost);
}

bool share_leads(const share *s)
{
    return atomic_load(&s->leads);
}

bool share_led(const share *s)
{
    return atomic_load(&s->led);
}

uint64_t share_away(const share *s)
{
    return pulse_away(&s->pulse, s->r->c.as.mono, s->r->c.as.wall);
}

const char *share_bodies(const share *s)
{
    return s->bodies;
}

agg_phase share_phase(share *s, uint64_t *round)
{
    pthread_mutex_lock(s->r->lock);
    const agg *a = as_rounds_agg(s->r->driver);
    agg_phase p = agg_get_phase(a);
    *round = agg_round(a);
    pthread_mutex_unlock(s->r->lock);
    return p;
}

/* ---- lists of uploads ------------------------------------------------------------------------ */

sefl_status share_add_arrival(void *ctx, uint64_t holder, const uint8_t client[32],
                              const uint8_t body[32])
{
    arrivals *a = ctx;
    SEFL_PASS(sefl_room(&a->at, &a->room, a->n + 1, sizeof *a->at));
    arrival *e = &a->at[a->n++];
    e->holder = holder;
    memcpy(e->m.client, client, 32);
    memcpy(e->m.body, body, 32);
    return SEFL_OK;
}

void share_arrivals_clear(arrivals *a)
{
    sefl_free(a->at);
    *a = (arrivals){ 0 };
}

/* ---- admission: on the server's threads ------------------------------------------------------ */

static agg_verdict admit(void *ctx, const agg_upload *u)
{
    const rounds *r = ((share *)ctx)->r;
    return agg_admit(as_rounds_agg(r->driver), u, clock_ms(r->c.as.wall));
}

static sefl_status know(void *ctx, const round_entry *m, agg_upload *u, journal_update *had,
                        bool *copied)
{
    const share *s = ctx;
    shared_known k;
    SEFL_PASS(shared_know(s->c.own, u->round, m->client, m->body, &k));
    u->have = k.have;
    u->rounds_taken = k.rounds;
    u->last_taken = k.last;
    *copied = k.copied;
    *had = (journal_update){ .round = u->round, .bytes = k.bytes };
    memcpy(had->client, m->client, 32);
    memcpy(had->body, k.body, 32);
    memcpy(u->have_body, k.body, 32);
    return SEFL_OK;
}

static sefl_status share_put(void *ctx, const journal_update *u)
{
    const share *s = ctx;
    const uint64_t most = s->r->c.as.task->clients_max, ahead = most / AHEAD_OF;
    const shared_rule rule = { .collecting = AGG_COLLECTING,
                               .most = most,
                               .ahead = ahead < 1            ? 1
                                        : ahead > AHEAD_MOST ? AHEAD_MOST
                                                             : ahead };
    return shared_put(s->c.own, &rule, s->me, u);
}

/* If the list cannot grow, the worker makes the part from the store. */
static void took(void *ctx, uint64_t round, const round_entry *m, body_room *body)
{
    share *s = ctx;
    audit_add(s->r->c.audit, "upload", lf_u64("round", round), lf_key("client", m->client),
              lf_key("body", m->body));
    if (collect_add(s->r->collect, round, m, false, body) != SEFL_OK)
        log_warn(share_log(s), "update not queued", lf_str("why", sefl_last_error()));
}

ingest_admission share_admission(share *s)
{
    return (ingest_admission){ .ctx = s,
                               .lock = s->r->lock,
                               .body_pool = s->r->body_pool,
                               .admit = admit,
                               .took = took,
                               .know = know,
                               .put = share_put };
}

/* ---- the leader's keeper --------------------------------------------------------------------- */

static sefl_status note_holder(void *ctx, uint64_t holder, uint64_t uploads)
{
    share *s = ctx;
    size_t i = 0;
    while (i < s->held_n && s->held[i].holder != holder)
        i++;
    if (i == s->held_n) {
        SEFL_PASS(sefl_room(&s->held, &s->held_room, i + 1, sizeof *s->held));
        s->held[s->held_n++] = (holding){ .holder = holder };
    }
    s->held[i].uploads = uploads;
    return SEFL_OK;
}

/* Returns the term. What the keeper knows of another term or round is forgotten. */
static uint64_t begin_look(share *s, uint64_t round)
{
    pthread_mutex_lock(&s->lock);
    const uint64_t term = s->term;
    const bool other = s->early.round != round || s->held_term != term;
    if (other) {
        share_arrivals_clear(&s->early);
        s->early.round = round;
        s->early_at = 0;
    }
    pthread_mutex_unlock(&s->lock);
    if (other) {
        s->held_term = term;
        s->held_n = 0;
        s->counted = UINT32_MAX;
    }
    return term;
}

static sefl_status add_early(share *s, uint64_t term, const arrivals *more)
{
    sefl_status st = SEFL_OK;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < more->n && st == SEFL_OK && s->term == term; i++)
        st = share_add_arrival(&s->early, more->at[i].holder, more->at[i].m.client,
                               more->at[i].m.body);
    pthread_mutex_unlock(&s->lock);
    return st;
}

/* Loads the uploads that have arrived since the last call, and tells the machine. */
static sefl_status look_at_uploads(share *s)
{
    sefl_status st = SEFL_OK;
    uint64_t round;
    arrivals more = { 0 };
    uint32_t total = 0;
    if (share_phase(s, &round) != AGG_COLLECTING)
        return SEFL_OK;
    const uint64_t term = begin_look(s, round);
    SEFL_TRY(shared_holders(s->c.own, round, note_holder, s));
    for (size_t i = 0; i < s->held_n; i++) {
        holding *h = &s->held[i];
        const size_t before = more.n;
        total += (uint32_t)h->uploads;
        if (h->seen >= h->uploads)
            continue;
        SEFL_TRY(shared_uploads(s->c.own, round, h->holder, h->seen, share_add_arrival, &more));
        h->seen += more.n - before;
    }
    SEFL_TRY(add_early(s, term, &more));
    if (total == s->counted)
        goto done;
    pthread_mutex_lock(s->r->lock);
    agg *a = as_rounds_agg(s->r->driver);
    if (agg_get_phase(a) == AGG_COLLECTING && agg_round(a) == round)
        st = agg_on(a, &(agg_event){ .kind = AGG_UPDATE, .round = round, .clients = total },
                    clock_ms(s->r->c.as.wall));
    as_rounds_wake(s->r->driver);
    pthread_mutex_unlock(s->r->lock);
    s->counted = total;
done:
    share_arrivals_clear(&more);
    return st;
}

/* The lease is lost, or may be: stops the driver. */
static void lose(share *s, const char *why)
{
    const csp_dial *d = &s->r->c.dial;
    if (atomic_exchange(&s->lost, true))
        return;
    log_warn(share_log(s), "this process no longer leads", lf_str("why", why));
    pthread_mutex_lock(s->r->lock);
    as_rounds_wake(s->r->driver);
    pthread_mutex_unlock(s->r->lock);
    if (d->interrupt)
        d->interrupt(d->ctx, LANES_LINK);
}

sefl_status share_still(share *s, bool now)
{
    const uint64_t began = share_mono_ms(s);
    SEFL_NEED(share_leads(s), SEFL_ECANCELLED, "this process does not lead");
    if (!now && began - atomic_load(&s->still_ms) < s->c.lease_ms / 10)
        return SEFL_OK;
    sefl_status st = journal_begin_shared(s->r->c.journal); /* checks the guard, which is s->l */
    if (st == SEFL_OK) {
        journal_rollback(s->r->c.journal);
        atomic_store(&s->still_ms, began);
    } else if (st == SEFL_ESTATE) {
        char why[200];
        snprintf(why, sizeof why, "%s", sefl_last_error());
        lose(s, why);
        st = sefl_fail(SEFL_ECANCELLED, "%s", why);
    }
    return st;
}

static void keep_lease(share *s)
{
    pthread_mutex_lock(&s->lock);
    const lease l = s->l;
    const uint64_t renew = s->renew_ms, until = s->until_ms;
    pthread_mutex_unlock(&s->lock);
    const uint64_t now = share_mono_ms(s);
    if (now >= until) {
        lose(s, "the store did not answer in time");
        return;
    }
    if (now < renew)
        return;
    sefl_status st = lease_renew(s->c.own, &l);
    if (st == SEFL_ESTATE) {
        pthread_mutex_lock(&s->lock);
        const bool still = s->l.fence == l.fence; /* not of an earlier term */
        pthread_mutex_unlock(&s->lock);
        if (still)
            lose(s, sefl_last_error());
    } else if (st == SEFL_OK) {
        pthread_mutex_lock(&s->lock);
        s->renew_ms = now + s->c.lease_ms / 3;
        s->until_ms = now + s->c.lease_ms;
        pthread_mutex_unlock(&s->lock);
    }
}

static void take_requests(share *s)
{
    sefl_buf bytes = { 0 };
    uint64_t id = 0;
    unsigned kind;
    pthread_mutex_lock(&s->lock);
    const uint64_t term = s->term;
    uint64_t asked = s->asked;
    pthread_mutex_unlock(&s->lock);
    while (shared_asked(s->c.own, asked, &id, &kind, &bytes) == SEFL_OK && id > 0) {
        pthread_mutex_lock(&s->lock);
        const bool still = s->term == term;
        if (still)
            s->asked = asked = id;
        pthread_mutex_unlock(&s->lock);
        if (!still) /* the new term asks again */
            break;
        rounds_request_from(s->r, id, kind, buf_span(&bytes));
        buf_reset(&bytes);
    }
    buf_clear(&bytes);
}

/* Does the store answer? */
static void ask(share *s)
{
    lease_info info;
    sefl_status st = lease_look(s->c.own, lease_name, &info);
    if (st == SEFL_OK || st == SEFL_ENOTFOUND)
        pulse_heard(&s->pulse, s->r->c.as.mono);
}

static void *keep(void *arg)
{
    share *s = arg;
    bool told = false;
    uint64_t ask_ms = 0;
    while (!atomic_load(&s->stop)) {
        if (share_mono_ms(s) >= ask_ms) {
            ask(s);
            ask_ms = share_mono_ms(s) + PULSE_EVERY_MS;
        }
        if (share_leads(s) && !atomic_load(&s->lost)) {
            keep_lease(s);
            sefl_status st = look_at_uploads(s);
            if (st != SEFL_OK && !told)
                log_warn(share_log(s), "uploads not counted", lf_str("why", sefl_last_error()));
            told = st != SEFL_OK;
            take_requests(s);
        }
        share_pause_ms(s, POLL_MS);
    }
    return NULL;
}

/* ---- following and leading ------------------------------------------------------------------- */

static sefl_status follow(share *s)
{
    uint64_t round;
    uint32_t clients = 0;
    lease_info info;
    agg_phase p = share_phase(s, &round);
    if (p == AGG_COLLECTING)
        SEFL_PASS(shared_count(s->c.own, round, &clients));
    /* a connection that is dead is noticed here, and not under the driver's lock */
    sefl_status st = lease_look(s->r->c.journal, lease_name, &info);
    SEFL_PASS(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    SEFL_PASS(as_rounds_follow(s->r->driver, clients));
    pthread_mutex_lock(s->r->lock);
    const agg *a = as_rounds_agg(s->r->driver);
    share_only_round(s, agg_get_phase(a) == AGG_COLLECTING ? agg_round(a) : 0);
    pthread_mutex_unlock(s->r->lock);
    return SEFL_OK;
}

/* Takes the lease if no process has it. */
static sefl_status take_lease(share *s, bool *taken)
{
    lease_info info = { 0 };
    lease l;
    *taken = false;
    sefl_status st = lease_look(s->c.own, lease_name, &info);
    SEFL_PASS(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    atomic_store(&s->led, info.left_ms > 0);
    if (info.left_ms > 0)
        return SEFL_OK;
    const uint64_t now = share_mono_ms(s);
    st = lease_take(s->c.own, lease_name, s->holder, s->c.lease_ms, &l);
    if (st == SEFL_ESTATE)
        return SEFL_OK; /* another process was faster */
    SEFL_PASS(st);
    pthread_mutex_lock(&s->lock);
    s->l = l;
    s->renew_ms = now + s->c.lease_ms / 3;
    s->until_ms = now + s->c.lease_ms;
    pthread_mutex_unlock(&s->lock);
    *taken = true;
    return SEFL_OK;
}

/* Leads until the task is over or the lease is lost. *again: this process may lead again later. */
static sefl_status lead(share *s, bool *again)
{
    sefl_status st;
    char why[256];
    *again = false;
    log_info(share_log(s), "this process leads", lf_u64("fence", s->l.fence));
    journal_guard(s->r->c.journal, &s->l);
    share_arrivals_clear(&s->set);
    pthread_mutex_lock(&s->lock);
    share_arrivals_clear(&s->early);
    s->term++;
    s->asked = 0;
    pthread_mutex_unlock(&s->lock);
    atomic_store(&s->lost, false);
    atomic_store(&s->led, true);
    atomic_store(&s->leads, true);
    account_rest(s->r->c.as.account); /* another process may have charged it */
    st = as_rounds_run(s->r->driver);
    snprintf(why, sizeof why, "%s", sefl_last_error());
    atomic_store(&s->leads, false);
    share_drop_sum(s);
    if (st == SEFL_OK || atomic_load(&s->stop)) {
        (void)!lease_release(s->c.own, &s->l);
        return st;
    }
    /* a lost lease or a store that does not answer: another process goes on, or this one later */
    const bool lost = atomic_load(&s->lost) || lease_renew(s->c.own, &s->l) != SEFL_OK;
    *again = lost || st == SEFL_EIO || st == SEFL_ETIMEOUT;
    (void)!lease_release(s->c.own, &s->l);
    if (!lost)
        log_warn(share_log(s), "this process stops leading", lf_str("why", why));
    return sefl_fail(st, "%s", why);
}

/* True if another process has told CSP that the task is over. */
static bool said_goodbye(share *s)
{
    sefl_buf b = { 0 };
    const as_store *store = s->r->c.as.store;
    bool yes = store->get(store->ctx, AS_BYE, 0, &b) == SEFL_OK;
    buf_clear(&b);
    return yes;
}

sefl_status share_run(share *s)
{
    while (!atomic_load(&s->stop)) {
        uint64_t round;
        bool taken = false, again;
        sefl_status st = follow(s);
        if (st == SEFL_OK && share_phase(s, &round) == AGG_DONE && said_goodbye(s))
            return SEFL_OK;
        rounds_request_look(s->r);
        if (st == SEFL_OK)
            st = take_lease(s, &taken);
        if (taken) {
            st = lead(s, &again);
            if (!again)
                return st;
        } else if (st != SEFL_OK && !s->silent)
            log_warn(share_log(s), "the store does not answer", lf_str("why", sefl_last_error()));
        s->silent = st != SEFL_OK;
        share_pause_ms(s, st == SEFL_OK ? POLL_MS : RETRY_MS);
    }
    return sefl_fail(SEFL_ECANCELLED, "stopped on request");
}

void share_stop(share *s)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->stop, true);
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

/* ---- questions ------------------------------------------------------------------------------- */

enum { ASK_MS = 60000 };

sefl_status share_ask(share *s, unsigned kind, sefl_span bytes, uint64_t *id)
{
    return shared_ask(s->c.own, kind, bytes, ASK_MS, id);
}

bool share_answered(share *s, uint64_t id, sefl_status *st, sefl_buf *answer)
{
    bool done = false;
    unsigned status = 0;
    if (shared_answered(s->c.own, id, &done, &status, answer) != SEFL_OK)
        return false;
    *st = (sefl_status)status;
    return done;
}

void share_answer(share *s, uint64_t id, sefl_status st, sefl_span answer)
{
    if (shared_answer(s->c.own, id, (unsigned)st, answer) != SEFL_OK)
        log_warn(share_log(s), "a process gets no answer", lf_str("why", sefl_last_error()));
}

/* ---- start and end --------------------------------------------------------------------------- */

sefl_status share_new(share **out, rounds *r, const share_config *c)
{
    char host[80] = "";
    SEFL_MAKE(share, s, out);
    s->c = *c;
    s->r = r;
    pthread_mutex_init(&s->lock, NULL);
    cond_init(&s->wake);
    SEFL_TRY(shared_open(c->own, &s->me));
    pulse_heard(&s->pulse, r->c.as.mono);
    snprintf(s->bodies, sizeof s->bodies, INGEST_BODIES "-%" PRIu64, s->me);
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    snprintf(s->holder, sizeof s->holder, "%s:%ld", host, (long)getpid());
    SEFL_HAND_OVER(out, s, share_free);
}

sefl_status share_start(share *s)
{
    SEFL_PASS(follow(s));
    SEFL_PASS(thread_start(&s->keeper, keep, s));
    s->has_keeper = true;
    SEFL_PASS(thread_start(&s->worker, share_work, s));
    s->has_worker = true;
    return SEFL_OK;
}

void share_free(share *s)
{
    if (!s)
        return;
    share_stop(s);
    if (s->has_keeper)
        pthread_join(s->keeper, NULL);
    if (s->has_worker)
        pthread_join(s->worker, NULL);
    share_drop_sum(s);
    collect_free(s->spare);
    collect_free(s->reader);
    share_arrivals_clear(&s->early);
    share_arrivals_clear(&s->set);
    sefl_free(s->held);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    sefl_free(s);
}
