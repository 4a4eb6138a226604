/* Design.
 *  1. Three threads: the owner of share_run follows, or leads inside as_rounds_run; the keeper renews
 *     the lease and counts uploads while this process leads; the worker makes parts.
 *  2. Order of locks: the driver's, then `lock`, then those of collect and the journals. No query
 *     runs under the driver's lock, except those of as_rounds_follow.
 *  3. `leads` is false whenever as_rounds_follow runs. After a lost lease the guard of the leader's
 *     journal stays: it refuses every write until the next lease. */
#include "roles/aggregator/share.h"

#include "base/alloc.h"
#include "base/cond.h"
#include "base/file.h"
#include "protocol/head.h"
#include "roles/aggregator/rounds_inside.h"
#include "store/journal/lease.h"
#include "store/journal/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POLL_MS = 100, RETRY_MS = 500, AGAIN_MAX = 3, AHEAD_OF = 64, AHEAD_MOST = 256 };
static const char lease_name[] = "aggregator";

typedef struct arrival {
    round_entry m; /* first: round_entry_order */
    uint64_t holder;
} arrival;

typedef struct arrivals {
    uint64_t round; /* 0: none */
    arrival *at;
    size_t n, room;
} arrivals;

typedef struct holding {
    uint64_t holder, uploads, seen;
} holding;

struct share {
    share_config c;
    rounds *r;
    uint64_t me;
    char bodies[32], holder[LEASE_NAME_MAX + 1];
    pthread_t keeper, worker;
    bool has_keeper, has_worker;
    atomic_bool stop, leads, lost;
    atomic_bool led; /* some process leads */

    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t wake;
    lease l;
    uint64_t renew_ms, until_ms; /* monotonic: when to renew the lease, and when it may be over */
    arrivals early;              /* in the order of arrival, for EARLY */
    size_t early_at;             /* the entry that share_uploads.arrived returned last */

    /* the keeper's */
    holding *held;
    size_t held_n, held_room;
    uint32_t counted; /* the number of uploads that the machine knows */
    uint64_t asked;   /* the latest request of another process */

    /* the thread of share_run */
    arrivals set; /* the frozen set, sorted by client */
    ahe_sum *sum;
    uint64_t sum_round;
    collect *reader; /* reads bodies of any process; NULL: not made yet */
    bool silent;     /* it is logged that the store does not answer */

    /* the worker's */
    collect *spare; /* sums the uploads of another process; NULL: not made yet */
    uint64_t spare_holder;
    shared_part part;
    uint64_t part_renew_ms;
};

static uint64_t mono_ms(const share *s)
{
    return clock_ms(s->r->c.as.mono);
}

static sefl_log *log_of(const share *s)
{
    return s->r->c.as.log;
}

static void pause_ms(share *s, unsigned ms)
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

const char *share_bodies(const share *s)
{
    return s->bodies;
}

/* ---- lists of uploads ------------------------------------------------------------------------ */

static sefl_status add_arrival(void *ctx, uint64_t holder, const uint8_t client[32],
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

static void arrivals_clear(arrivals *a)
{
    sefl_free(a->at);
    *a = (arrivals){ 0 };
}

/* Loads the frozen set, sorted by client. */
static sefl_status load_set(share *s, uint64_t round)
{
    if (s->set.round == round)
        return SEFL_OK;
    arrivals_clear(&s->set);
    SEFL_PASS(shared_uploads(s->c.own, round, 0, 0, add_arrival, &s->set));
    s->set.round = round;
    return SEFL_OK;
}

static int by_client(const void *a, const void *b)
{
    return memcmp(a, b, 32); /* both begin with the client */
}

/* The process that has this upload; on the thread of share_run. */
static sefl_status find_holder(share *s, uint64_t round, const round_entry *m, uint64_t *out)
{
    pthread_mutex_lock(&s->lock);
    const arrival *e =
        s->early.round == round && s->early_at < s->early.n ? &s->early.at[s->early_at] : NULL;
    bool found = e && memcmp(e->m.client, m->client, 32) == 0;
    if (found)
        *out = e->holder;
    pthread_mutex_unlock(&s->lock);
    if (found)
        return SEFL_OK;
    SEFL_PASS(load_set(s, round));
    e = bsearch(m->client, s->set.at, s->set.n, sizeof *s->set.at, by_client);
    SEFL_NEED(e, SEFL_ENOTFOUND, "round %" PRIu64 " has no upload of this client", round);
    *out = e->holder;
    return SEFL_OK;
}

static sefl_status body_of(const share *s, sefl_buf *out, uint64_t round, uint64_t holder,
                           const round_entry *m)
{
    char bodies[32];
    snprintf(bodies, sizeof bodies, INGEST_BODIES "-%" PRIu64, holder);
    return ingest_body_in(s->c.own, out, round, bodies, m);
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
    *copied = k.copied;
    *had = (journal_update){ .round = u->round, .bytes = k.bytes };
    memcpy(had->client, m->client, 32);
    memcpy(had->body, k.body, 32);
    memcpy(u->have_body, k.body, 32);
    return SEFL_OK;
}

static sefl_status put(void *ctx, const journal_update *u)
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
        log_warn(log_of(s), "update not queued", lf_str("why", sefl_last_error()));
}

ingest_admission share_admission(share *s)
{
    return (ingest_admission){ .ctx = s,
                               .lock = s->r->lock,
                               .body_pool = s->r->body_pool,
                               .admit = admit,
                               .took = took,
                               .know = know,
                               .put = put };
}

/* ---- parts: the worker ----------------------------------------------------------------------- */

/* Renews the lease of the part at times. */
static bool part_goes_on(void *self, uint64_t done, uint64_t total)
{
    share *s = self;
    bool still = true;
    (void)done, (void)total;
    if (mono_ms(s) >= s->part_renew_ms) {
        s->part_renew_ms = mono_ms(s) + s->c.lease_ms / 3;
        if (shared_part_renew(s->c.own, &s->part, s->me, s->c.lease_ms, &still) != SEFL_OK)
            still = true; /* the store does not answer: at worst two processes make it */
    }
    return still && !atomic_load(&s->stop);
}

/* True if the running sum of this process is about exactly these uploads. Sorts them. */
static bool is_running(share *s, arrivals *rows)
{
    arrivals sum = { 0 };
    round_entry m;
    bool same = true;
    for (uint32_t i = 0; same && collect_entry(s->r->collect, s->part.round, i, &m); i++)
        same = add_arrival(&sum, s->me, m.client, m.body) == SEFL_OK;
    same = same && sum.n == rows->n;
    if (same && sum.n > 0) {
        qsort(sum.at, sum.n, sizeof *sum.at, by_client);
        qsort(rows->at, rows->n, sizeof *rows->at, by_client);
    }
    for (size_t i = 0; same && i < sum.n; i++)
        same = memcmp(&sum.at[i].m, &rows->at[i].m, sizeof sum.at[i].m) == 0;
    arrivals_clear(&sum);
    return same;
}

static sefl_status spare_path(void *ctx, sefl_buf *out, uint64_t round, const round_entry *m)
{
    const share *s = ctx;
    return body_of(s, out, round, s->spare_holder, m);
}

static sefl_status make_collect(share *s, collect **out,
                                sefl_status (*path)(void *, sefl_buf *, uint64_t,
                                                    const round_entry *))
{
    const task *t = s->r->c.as.task;
    if (*out)
        return SEFL_OK;
    return collect_new(out, &(collect_config){ .ahe = &t->ahe,
                                               .pub = t->pub,
                                               .skip = head_bytes(t->seal),
                                               .clients_max = t->clients_max,
                                               .threads = s->r->c.threads,
                                               .path = path,
                                               .ctx = s,
                                               .log = log_of(s) });
}

/* Adds the bodies from their files. */
static sefl_status sum_again(share *s, const arrivals *rows, uint8_t *out,
                             const sefl_progress *going)
{
    sefl_status st = SEFL_OK;
    SEFL_PASS(make_collect(s, &s->spare, spare_path));
    s->spare_holder = s->part.holder;
    collect_begin(s->spare, s->part.round);
    for (size_t i = 0; i < rows->n; i++)
        SEFL_TRY(collect_add(s->spare, s->part.round, &rows->at[i].m, true, NULL));
    SEFL_TRY(collect_partial(s->spare, s->part.round, out, going));
done:
    collect_begin(s->spare, 0);
    return st;
}

static sefl_status part_path(const share *s, sefl_buf *out, const shared_part *p, uint64_t maker)
{
    char name[64];
    snprintf(name, sizeof name, "part-%" PRIu64 ".%" PRIu64, p->holder, maker);
    return journal_path(s->c.own, out, p->round, name);
}

static sefl_status make_part(share *s)
{
    sefl_status st = SEFL_ESTATE;
    const size_t n = ahe_body_bytes(&s->r->c.as.task->ahe);
    const sefl_progress going = { .report = part_goes_on, .self = s };
    const uint64_t began = mono_ms(s);
    arrivals rows = { 0 };
    uint8_t *bytes = NULL, hash[SHA256_BYTES];
    sefl_buf path = { 0 };
    s->part_renew_ms = began + s->c.lease_ms / 3;
    SEFL_TRY(shared_uploads(s->c.own, s->part.round, s->part.holder, 0, add_arrival, &rows));
    SEFL_CHECK(rows.n == s->part.uploads, SEFL_EPROTO,
               "store: a part of round %" PRIu64 " has %zu uploads, not %" PRIu64, s->part.round,
               rows.n, s->part.uploads);
    SEFL_TRY(sefl_new(&bytes, n, 1));
    bool running = s->part.holder == s->me && is_running(s, &rows);
    st = running ? collect_partial(s->r->collect, s->part.round, bytes, &going) : SEFL_ESTATE;
    if (st != SEFL_OK && st != SEFL_ECANCELLED) /* also if the running sum was used before */
        st = sum_again(s, &rows, bytes, &going), running = false;
    SEFL_TRY(st);
    SEFL_TRY(part_path(s, &path, &s->part, s->me));
    SEFL_TRY(file_write_atomic((const char *)path.p, span_of(bytes, n), 0600));
    sha256_of(hash, span_of(bytes, n));
    SEFL_TRY(shared_part_done(s->c.own, &s->part, s->me, hash));
    log_info(log_of(s), "partial sum", lf_u64("round", s->part.round), lf_u64("uploads", rows.n),
             lf_u64("of", s->part.holder), lf_bool("from_files", !running),
             lf_u64("ms", mono_ms(s) - began));
done:
    arrivals_clear(&rows);
    sefl_free(bytes);
    buf_clear(&path);
    return st;
}

static agg_phase phase_of(share *s, uint64_t *round)
{
    pthread_mutex_lock(s->r->lock);
    const agg *a = as_rounds_agg(s->r->driver);
    agg_phase p = agg_get_phase(a);
    *round = agg_round(a);
    pthread_mutex_unlock(s->r->lock);
    return p;
}

static void *work(void *arg)
{
    share *s = arg;
    uint64_t round;
    bool found = false, told = false;
    while (!atomic_load(&s->stop)) {
        agg_phase p = phase_of(s, &round);
        sefl_status st = SEFL_OK;
        found = false;
        if (p == AGG_FREEZING || p == AGG_REVEALING)
            st = shared_part_take(s->c.own, round, s->me, s->c.lease_ms, &s->part, &found);
        if (st == SEFL_OK && found)
            st = make_part(s);
        if (st != SEFL_OK && !told && !atomic_load(&s->stop))
            log_warn(log_of(s), "no partial sum", lf_u64("round", round),
                     lf_str("why", sefl_last_error()));
        told = st != SEFL_OK;
        if (!found || st != SEFL_OK)
            pause_ms(s, st == SEFL_OK ? POLL_MS : RETRY_MS);
    }
    return NULL;
}

/* ---- the driver's port to the uploads -------------------------------------------------------- */

/* With the driver's lock: accepts uploads of this round, or of none. */
static void only_round(share *s, uint64_t round)
{
    rounds *r = s->r;
    if (round > 0 && collect_round(r->collect) != round)
        collect_begin(r->collect, round);
    if (r->ingest)
        ingest_only_round(r->ingest, round);
}

static share *of(void *ctx)
{
    return ((rounds *)ctx)->share;
}

static sefl_status up_accept(void *ctx, const round_header *h, sefl_span both)
{
    (void)both;
    only_round(of(ctx), h->round);
    return SEFL_OK;
}

static void up_close(void *ctx)
{
    rounds *r = ctx;
    if (r->ingest)
        ingest_only_round(r->ingest, 0);
}

static sefl_status up_restore(void *ctx, uint64_t round, uint32_t *clients)
{
    return shared_count(of(ctx)->c.own, round, clients);
}

/* The round is closed in the store: its rows do not change any more. */
static sefl_status up_freeze(void *ctx, uint64_t round)
{
    const rounds *r = ctx;
    return shared_freeze(r->c.journal, round, r->share->c.lease_ms);
}

static sefl_status up_set(void *ctx, uint64_t round, round_entry **out, uint32_t *n)
{
    share *s = of(ctx);
    round_entry *set = NULL;
    *out = NULL, *n = 0;
    SEFL_PASS(load_set(s, round));
    SEFL_PASS(sefl_new(&set, s->set.n, sizeof *set));
    for (size_t i = 0; i < s->set.n; i++)
        set[i] = s->set.at[i].m;
    *out = set;
    *n = (uint32_t)s->set.n;
    return SEFL_OK;
}

static bool up_arrived(void *ctx, uint64_t round, uint32_t i, round_entry *out)
{
    share *s = of(ctx);
    pthread_mutex_lock(&s->lock);
    bool there = s->early.round == round && i < s->early.n;
    if (there) {
        *out = s->early.at[i].m;
        s->early_at = i;
    }
    pthread_mutex_unlock(&s->lock);
    return there;
}

static sefl_status up_head(void *ctx, uint64_t round, const round_entry *e, uint8_t *out)
{
    sefl_status st = SEFL_OK;
    share *s = of(ctx);
    sefl_buf path = { 0 };
    uint64_t holder;
    SEFL_TRY(find_holder(s, round, e, &holder));
    SEFL_TRY(body_of(s, &path, round, holder, e));
    SEFL_TRY(rounds_read_head(s->r, (const char *)path.p, out));
done:
    buf_clear(&path);
    return st;
}

/* up_sum subtracts what the stored verdict refuses. */
static sefl_status up_take_off(void *ctx, uint64_t round, const uint8_t client[32])
{
    (void)ctx, (void)round, (void)client;
    return SEFL_OK;
}

static sefl_status reader_path(void *ctx, sefl_buf *out, uint64_t round, const round_entry *m)
{
    share *s = ctx;
    uint64_t holder;
    SEFL_PASS(find_holder(s, round, m, &holder));
    return body_of(s, out, round, holder, m);
}

typedef struct part_list {
    shared_part *at;
    size_t n, room, undone;
} part_list;

static sefl_status add_part(void *ctx, const shared_part *p)
{
    part_list *l = ctx;
    SEFL_PASS(sefl_room(&l->at, &l->room, l->n + 1, sizeof *l->at));
    l->at[l->n++] = *p;
    l->undone += p->maker == 0;
    return SEFL_OK;
}

/* Waits until every part is done. */
static sefl_status wait_for_parts(share *s, uint64_t round, part_list *l)
{
    for (;;) {
        l->n = l->undone = 0;
        SEFL_PASS(shared_parts(s->c.own, round, add_part, l));
        if (l->undone == 0)
            return SEFL_OK;
        SEFL_NEED(!as_rounds_stopping(s->r->driver), SEFL_ECANCELLED, "stopped on request");
        pause_ms(s, POLL_MS / 4);
    }
}

static sefl_status add_file(share *s, ahe_sum *sum, const shared_part *p)
{
    sefl_status st = SEFL_OK;
    const ahe_params *ahe = &s->r->c.as.task->ahe;
    sefl_buf path = { 0 }, bytes = { 0 };
    uint8_t hash[SHA256_BYTES];
    SEFL_TRY(part_path(s, &path, p, p->maker));
    SEFL_TRY(file_read(&bytes, (const char *)path.p, ahe_body_bytes(ahe)));
    sha256_of(hash, buf_span(&bytes));
    SEFL_CHECK(bytes.n == ahe_body_bytes(ahe) && memcmp(hash, p->hash, sizeof hash) == 0, SEFL_EIO,
               "%s has changed since it was written", (const char *)path.p);
    SEFL_TRY(ahe_sum_add_partial(ahe, sum, bytes.p, (uint32_t)p->uploads, s->r->c.as.pool));
done:
    buf_clear(&path);
    buf_clear(&bytes);
    return st;
}

/* Adds all parts. *again: one has to be made anew first. */
static sefl_status add_parts(share *s, uint64_t round, ahe_sum *sum, bool *again)
{
    sefl_status st = SEFL_OK;
    part_list l = { 0 };
    uint64_t uploads = 0;
    *again = false;
    SEFL_TRY(wait_for_parts(s, round, &l));
    for (size_t i = 0; i < l.n; i++) {
        uploads += l.at[i].uploads;
        st = add_file(s, sum, &l.at[i]);
        if (st != SEFL_EIO && st != SEFL_ENOTFOUND) {
            SEFL_TRY(st);
            continue;
        }
        log_warn(log_of(s), "partial sum is made again", lf_str("why", sefl_last_error()));
        SEFL_TRY(shared_part_again(s->c.own, &l.at[i]));
        *again = true;
        goto done;
    }
    SEFL_CHECK(uploads == s->set.n, SEFL_EPROTO,
               "store: the parts of round %" PRIu64 " have %" PRIu64 " uploads, not %zu", round,
               uploads, s->set.n);
done:
    sefl_free(l.at);
    return st;
}

static sefl_status subtract_refused(share *s, uint64_t round, ahe_sum *sum)
{
    as_verdict v = { 0 };
    sefl_status st = as_store_verdict_get(s->r->c.as.store, round, &v);
    if (st == SEFL_ENOTFOUND)
        return SEFL_OK;
    SEFL_TRY(st);
    if (v.refused_n > 0)
        SEFL_TRY(make_collect(s, &s->reader, reader_path));
    for (uint32_t i = 0; i < v.refused_n; i++) {
        SEFL_CHECK(v.refused[i].index < s->set.n, SEFL_EPROTO, "store: a verdict on no upload");
        SEFL_TRY(collect_subtract(s->reader, sum, round, &s->set.at[v.refused[i].index].m));
    }
done:
    as_verdict_clear(&v);
    return st;
}

static void drop_sum(share *s)
{
    ahe_sum_free(&s->r->c.as.task->ahe, s->sum);
    s->sum = NULL;
    s->sum_round = 0;
}

static sefl_status up_sum(void *ctx, uint64_t round, ahe_sum **out)
{
    sefl_status st = SEFL_OK;
    rounds *r = ctx;
    share *s = r->share;
    const task *t = r->c.as.task;
    bool again = true;
    *out = NULL;
    if (s->sum && s->sum_round == round) {
        *out = s->sum;
        return SEFL_OK;
    }
    SEFL_TRY(shared_freeze(r->c.journal, round, s->c.lease_ms)); /* another leader's round */
    SEFL_TRY(load_set(s, round));
    for (int i = 0; again; i++) {
        SEFL_CHECK(i < AGAIN_MAX, SEFL_EIO, "the partial sums of round %" PRIu64 " get lost",
                   round);
        drop_sum(s);
        SEFL_TRY(ahe_sum_new(&s->sum, &t->ahe, t->pub));
        SEFL_TRY(add_parts(s, round, s->sum, &again));
    }
    SEFL_TRY(subtract_refused(s, round, s->sum));
    SEFL_TRY(ahe_sum_close(&t->ahe, s->sum));
    s->sum_round = round;
    *out = s->sum;
done:
    if (st != SEFL_OK)
        drop_sum(s);
    return st;
}

static sefl_status up_forget(void *ctx, uint64_t round)
{
    rounds *r = ctx;
    drop_sum(r->share);
    arrivals_clear(&r->share->set);
    SEFL_PASS(shared_forget(r->c.journal, round));
    /* a process that noticed the end of an earlier round late may have left a file there */
    return round > 1 ? r->c.as.store->wipe(r->c.as.store->ctx, round - 1) : SEFL_OK;
}

const as_uploads share_uploads = { .accept = up_accept,
                                   .close = up_close,
                                   .restore = up_restore,
                                   .freeze = up_freeze,
                                   .set = up_set,
                                   .arrived = up_arrived,
                                   .head = up_head,
                                   .refused = rounds_upload_refused,
                                   .take_off = up_take_off,
                                   .sum = up_sum,
                                   .forget = up_forget };

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

/* Loads the uploads that have arrived since the last call, and tells the machine. */
static sefl_status look_at_uploads(share *s)
{
    sefl_status st = SEFL_OK;
    uint64_t round;
    arrivals more = { 0 };
    uint32_t total = 0;
    if (phase_of(s, &round) != AGG_COLLECTING)
        return SEFL_OK;
    if (s->early.round != round) {
        pthread_mutex_lock(&s->lock);
        arrivals_clear(&s->early);
        s->early.round = round;
        s->early_at = 0;
        pthread_mutex_unlock(&s->lock);
        s->held_n = 0;
        s->counted = UINT32_MAX;
    }
    SEFL_TRY(shared_holders(s->c.own, round, note_holder, s));
    for (size_t i = 0; i < s->held_n; i++) {
        holding *h = &s->held[i];
        const size_t before = more.n;
        total += (uint32_t)h->uploads;
        if (h->seen >= h->uploads)
            continue;
        SEFL_TRY(shared_uploads(s->c.own, round, h->holder, h->seen, add_arrival, &more));
        h->seen += more.n - before;
    }
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < more.n && st == SEFL_OK; i++)
        st = add_arrival(&s->early, more.at[i].holder, more.at[i].m.client, more.at[i].m.body);
    pthread_mutex_unlock(&s->lock);
    SEFL_TRY(st);
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
    arrivals_clear(&more);
    return st;
}

/* The lease is lost, or may be: stops the driver. */
static void lose(share *s, const char *why)
{
    const csp_dial *d = &s->r->c.dial;
    if (atomic_exchange(&s->lost, true))
        return;
    log_warn(log_of(s), "this process no longer leads", lf_str("why", why));
    pthread_mutex_lock(s->r->lock);
    as_rounds_wake(s->r->driver);
    pthread_mutex_unlock(s->r->lock);
    if (d->interrupt)
        d->interrupt(d->ctx, LANES_LINK);
}

static void keep_lease(share *s)
{
    pthread_mutex_lock(&s->lock);
    const lease l = s->l;
    const uint64_t renew = s->renew_ms, until = s->until_ms;
    pthread_mutex_unlock(&s->lock);
    const uint64_t now = mono_ms(s);
    if (now >= until) {
        lose(s, "the store did not answer in time");
        return;
    }
    if (now < renew)
        return;
    sefl_status st = lease_renew(s->c.own, &l);
    if (st == SEFL_ESTATE) {
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
    while (shared_asked(s->c.own, s->asked, &id, &kind, &bytes) == SEFL_OK && id > 0) {
        s->asked = id;
        rounds_request_from(s->r, id, kind, buf_span(&bytes));
        buf_reset(&bytes);
    }
    buf_clear(&bytes);
}

static void *keep(void *arg)
{
    share *s = arg;
    bool told = false;
    while (!atomic_load(&s->stop)) {
        if (share_leads(s) && !atomic_load(&s->lost)) {
            keep_lease(s);
            sefl_status st = look_at_uploads(s);
            if (st != SEFL_OK && !told)
                log_warn(log_of(s), "uploads not counted", lf_str("why", sefl_last_error()));
            told = st != SEFL_OK;
            take_requests(s);
        }
        pause_ms(s, POLL_MS);
    }
    return NULL;
}

/* ---- following and leading ------------------------------------------------------------------- */

static sefl_status follow(share *s)
{
    uint64_t round;
    uint32_t clients = 0;
    agg_phase p = phase_of(s, &round);
    if (p == AGG_COLLECTING)
        SEFL_PASS(shared_count(s->c.own, round, &clients));
    SEFL_PASS(as_rounds_follow(s->r->driver, clients));
    pthread_mutex_lock(s->r->lock);
    const agg *a = as_rounds_agg(s->r->driver);
    only_round(s, agg_get_phase(a) == AGG_COLLECTING ? agg_round(a) : 0);
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
    const uint64_t now = mono_ms(s);
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
    log_info(log_of(s), "this process leads", lf_u64("fence", s->l.fence));
    journal_guard(s->r->c.journal, &s->l);
    arrivals_clear(&s->set);
    pthread_mutex_lock(&s->lock);
    arrivals_clear(&s->early);
    pthread_mutex_unlock(&s->lock);
    s->asked = 0;
    atomic_store(&s->lost, false);
    atomic_store(&s->led, true);
    atomic_store(&s->leads, true);
    st = as_rounds_run(s->r->driver);
    snprintf(why, sizeof why, "%s", sefl_last_error());
    atomic_store(&s->leads, false);
    drop_sum(s);
    if (st == SEFL_OK || atomic_load(&s->stop)) {
        (void)!lease_release(s->c.own, &s->l);
        return st;
    }
    /* a lost lease or a store that does not answer: another process goes on, or this one later */
    const bool lost = atomic_load(&s->lost) || lease_renew(s->c.own, &s->l) != SEFL_OK;
    *again = lost || st == SEFL_EIO || st == SEFL_ETIMEOUT;
    (void)!lease_release(s->c.own, &s->l);
    if (!lost)
        log_warn(log_of(s), "this process stops leading", lf_str("why", why));
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
        if (st == SEFL_OK && phase_of(s, &round) == AGG_DONE && said_goodbye(s))
            return SEFL_OK;
        rounds_request_look(s->r);
        if (st == SEFL_OK)
            st = take_lease(s, &taken);
        if (taken) {
            st = lead(s, &again);
            if (!again)
                return st;
        } else if (st != SEFL_OK && !s->silent)
            log_warn(log_of(s), "the store does not answer", lf_str("why", sefl_last_error()));
        s->silent = st != SEFL_OK;
        pause_ms(s, st == SEFL_OK ? POLL_MS : RETRY_MS);
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
        log_warn(log_of(s), "a process gets no answer", lf_str("why", sefl_last_error()));
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
    SEFL_PASS(thread_start(&s->worker, work, s));
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
    drop_sum(s);
    collect_free(s->spare);
    collect_free(s->reader);
    arrivals_clear(&s->early);
    arrivals_clear(&s->set);
    sefl_free(s->held);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    sefl_free(s);
}
