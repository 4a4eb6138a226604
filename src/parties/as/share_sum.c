/* Partial sums: the worker, which makes them, and the driver's port to uploads, which adds them. */
#include "roles/aggregator/share_inside.h"

#include "base/alloc.h"
#include "base/file.h"
#include "protocol/update.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AGAIN_MAX = 3, FAILURES_MAX = 60 };

/* ---- where uploads are ----------------------------------------------------------------------- */

/* Loads the frozen set, sorted by client. */
static sefl_status load_set(share *s, uint64_t round)
{
    if (s->set.round == round)
        return SEFL_OK;
    share_arrivals_clear(&s->set);
    SEFL_PASS(shared_uploads(s->c.own, round, 0, 0, share_add_arrival, &s->set));
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

/* ---- parts: the worker ----------------------------------------------------------------------- */

/* Renews the lease of the part at times. */
static bool part_goes_on(void *self, uint64_t done, uint64_t total)
{
    share *s = self;
    bool still = true;
    (void)done, (void)total;
    if (share_mono_ms(s) >= s->part_renew_ms) {
        s->part_renew_ms = share_mono_ms(s) + s->c.lease_ms / 3;
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
        same = share_add_arrival(&sum, s->me, m.client, m.body) == SEFL_OK;
    same = same && sum.n == rows->n;
    if (same && sum.n > 0) {
        qsort(sum.at, sum.n, sizeof *sum.at, by_client);
        qsort(rows->at, rows->n, sizeof *rows->at, by_client);
    }
    for (size_t i = 0; same && i < sum.n; i++)
        same = memcmp(&sum.at[i].m, &rows->at[i].m, sizeof sum.at[i].m) == 0;
    share_arrivals_clear(&sum);
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
                                               .front = update_front_bytes(t->seal),
                                               .clients_max = t->clients_max,
                                               .threads = s->r->c.threads,
                                               .path = path,
                                               .ctx = s,
                                               .log = share_log(s) });
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
    const uint64_t began = share_mono_ms(s);
    arrivals rows = { 0 };
    uint8_t *bytes = NULL, hash[SHA256_BYTES];
    sefl_buf path = { 0 };
    s->part_renew_ms = began + s->c.lease_ms / 3;
    SEFL_TRY(shared_uploads(s->c.own, s->part.round, s->part.holder, 0, share_add_arrival, &rows));
    SEFL_CHECK(rows.n == s->part.uploads, SEFL_EPROTO,
               "store: a part of round %" PRIu64 " has %zu uploads, not %" PRIu64, s->part.round,
               rows.n, s->part.uploads);
    SEFL_TRY(sefl_new(&bytes, n, 1));
    bool running = s->part.holder == s->me && is_running(s, &rows);
    st = running ? collect_partial(s->r->collect, s->part.round, bytes, &going) : SEFL_ESTATE;
    if (st != SEFL_OK && st != SEFL_ECANCELLED) /* also if the running sum was used before */
        st = sum_again(s, &rows, bytes, &going), running = false;
    if (st != SEFL_OK && st != SEFL_ECANCELLED && st != SEFL_ENOMEM) {
        char why[200];
        snprintf(why, sizeof why, "%s", sefl_last_error());
        (void)!shared_part_failed(s->c.own, &s->part, s->me);
        st = sefl_fail(st, "%s", why);
    }
    SEFL_TRY(st);
    SEFL_TRY(part_path(s, &path, &s->part, s->me));
    SEFL_TRY(file_write_atomic((const char *)path.p, span_of(bytes, n), 0600));
    sha256_of(hash, span_of(bytes, n));
    SEFL_TRY(shared_part_done(s->c.own, &s->part, s->me, hash));
    log_info(share_log(s), "partial sum", lf_u64("round", s->part.round), lf_u64("uploads", rows.n),
             lf_u64("holder", s->part.holder), lf_bool("from_files", !running),
             lf_u64("ms", share_mono_ms(s) - began));
done:
    share_arrivals_clear(&rows);
    sefl_free(bytes);
    buf_clear(&path);
    return st;
}

void *share_work(void *arg)
{
    share *s = arg;
    uint64_t round;
    bool found = false, told = false;
    while (!atomic_load(&s->stop)) {
        agg_phase p = share_phase(s, &round);
        sefl_status st = SEFL_OK;
        found = false;
        if (p == AGG_FREEZING || p == AGG_REVEALING)
            st = shared_part_take(s->c.own, round, s->me, s->c.lease_ms, &s->part, &found);
        if (st == SEFL_OK && found)
            st = make_part(s);
        if (st != SEFL_OK && !told && !atomic_load(&s->stop))
            log_warn(share_log(s), "no partial sum", lf_u64("round", round),
                     lf_str("why", sefl_last_error()));
        told = st != SEFL_OK;
        if (!found || st != SEFL_OK)
            share_pause_ms(s, st == SEFL_OK ? POLL_MS : RETRY_MS);
    }
    return NULL;
}

/* ---- the driver's port to the uploads -------------------------------------------------------- */

void share_only_round(share *s, uint64_t round)
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
    share_only_round(of(ctx), h->round);
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
    share_arrivals_clear(&r->share->set); /* whatever was loaded before */
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
    bool lost;
} part_list;

static sefl_status add_part(void *ctx, const shared_part *p)
{
    part_list *l = ctx;
    SEFL_PASS(sefl_room(&l->at, &l->room, l->n + 1, sizeof *l->at));
    l->at[l->n++] = *p;
    l->undone += p->maker == 0;
    l->lost = l->lost || (p->maker == 0 && p->failures >= FAILURES_MAX);
    return SEFL_OK;
}

/* Waits until every part is done. A part that no process can make, for half a minute, is lost: its
 * bodies are gone or damaged. */
static sefl_status wait_for_parts(share *s, uint64_t round, part_list *l)
{
    for (;;) {
        l->n = l->undone = 0;
        SEFL_PASS(shared_parts(s->c.own, round, add_part, l));
        if (l->undone == 0)
            return SEFL_OK;
        SEFL_NEED(!l->lost, SEFL_ECRYPTO, "no process can read all uploads of round %" PRIu64,
                  round);
        SEFL_NEED(!as_rounds_stopping(s->r->driver), SEFL_ECANCELLED, "stopped on request");
        share_pause_ms(s, POLL_MS / 4);
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
        log_warn(share_log(s), "partial sum is made again", lf_str("why", sefl_last_error()));
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
        st = collect_subtract(s->reader, sum, round, &s->set.at[v.refused[i].index].m);
        if (st == SEFL_EIO || st == SEFL_ENOTFOUND) /* a file, not the store */
            st = sefl_fail(SEFL_ECRYPTO, "%s", sefl_last_error());
        SEFL_TRY(st);
    }
done:
    as_verdict_clear(&v);
    return st;
}

void share_drop_sum(share *s)
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
        SEFL_CHECK(i < AGAIN_MAX, SEFL_ECRYPTO, "the partial sums of round %" PRIu64 " get lost",
                   round);
        share_drop_sum(s);
        SEFL_TRY(ahe_sum_new(&s->sum, &t->ahe, t->pub));
        SEFL_TRY(add_parts(s, round, s->sum, &again));
    }
    SEFL_TRY(subtract_refused(s, round, s->sum));
    SEFL_TRY(ahe_sum_close(&t->ahe, s->sum));
    s->sum_round = round;
    *out = s->sum;
done:
    if (st != SEFL_OK)
        share_drop_sum(s);
    return st;
}

static sefl_status up_forget(void *ctx, uint64_t round)
{
    rounds *r = ctx;
    share_drop_sum(r->share);
    share_arrivals_clear(&r->share->set);
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
