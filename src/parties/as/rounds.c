#include "roles/aggregator/rounds_inside.h"

#include "base/alloc.h"
#include "base/file.h"
#include "protocol/update.h"
#include "store/disk/upload_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUSPECTS_MAX = 1000 };

/* ---- admission ------------------------------------------------------------------------------ */

static agg_verdict admission_admit(void *ctx, const agg_upload *u)
{
    rounds *r = ctx;
    return agg_admit(as_rounds_agg(r->driver), u, clock_ms(r->c.as.wall));
}

static bool admission_has_body(void *ctx, const round_entry *m)
{
    rounds *r = ctx;
    bool before = false;
    if (journal_body_before(r->c.journal, agg_round(as_rounds_agg(r->driver)), m->body, &before) !=
        SEFL_OK)
        log_error(r->c.as.log, "cannot look up stored bodies", lf_str("why", sefl_last_error()));
    return before || collect_has_body(r->collect, m);
}

static void audit_upload(rounds *r, uint64_t round, const round_entry *m)
{
    audit_add(r->c.audit, "upload", lf_u64("round", round), lf_key("client", m->client),
              lf_key("body", m->body));
}

/* The update is acknowledged: from here on it counts. If the list cannot grow (memory), freeze
 * computes the sum from the journal. */
static void admission_took(void *ctx, uint64_t round, const round_entry *m, body_room *body)
{
    rounds *r = ctx;
    uint32_t given, summed;
    audit_upload(r, round, m);
    if (collect_add(r->collect, round, m, false, body) != SEFL_OK)
        log_error(r->c.as.log, "update not queued", lf_str("why", sefl_last_error()));
    collect_counts(r->collect, &given, &summed);
    agg_event e = { .kind = AGG_UPDATE, .round = round, .clients = given };
    if (agg_on(as_rounds_agg(r->driver), &e, clock_ms(r->c.as.wall)) != SEFL_OK)
        log_error(r->c.as.log, "update not counted", lf_str("why", sefl_last_error()));
    as_rounds_wake(r->driver);
}

ingest_admission rounds_admission(rounds *r)
{
    if (r->share)
        return share_admission(r->share);
    return (ingest_admission){ .ctx = r,
                               .lock = r->lock,
                               .body_pool = r->body_pool,
                               .admit = admission_admit,
                               .has_body = admission_has_body,
                               .took = admission_took };
}

void rounds_set_ingest(rounds *r, ingest *in)
{
    pthread_mutex_lock(r->lock);
    agg *a = as_rounds_agg(r->driver);
    r->ingest = in;
    if (in)
        ingest_only_round(in, agg_get_phase(a) == AGG_COLLECTING ? agg_round(a) : 0);
    pthread_mutex_unlock(r->lock);
}

/* ---- the driver's callbacks: uploads --------------------------------------------------------- */

static sefl_status accept_uploads(void *ctx, const round_header *h, sefl_span both)
{
    rounds *r = ctx;
    (void)both;
    collect_begin(r->collect, h->round);
    if (r->ingest)
        ingest_only_round(r->ingest, h->round);
    return SEFL_OK;
}

static void close_uploads(void *ctx)
{
    rounds *r = ctx;
    if (r->ingest)
        ingest_only_round(r->ingest, 0);
}

typedef struct upload_list {
    round_entry *at;
    size_t n, room;
    uint32_t index;            /* of the next update in the set */
    const as_verdict *without; /* may be NULL */
    uint32_t left_out;
} upload_list;

static sefl_status list_one(void *ctx, const journal_update *u)
{
    upload_list *l = ctx;
    uint32_t index = l->index++;
    if (l->without && l->left_out < l->without->refused_n &&
        l->without->refused[l->left_out].index == index) {
        l->left_out++;
        return SEFL_OK;
    }
    SEFL_PASS(sefl_room(&l->at, &l->room, l->n + 1, sizeof *l->at));
    memcpy(l->at[l->n].client, u->client, sizeof u->client);
    memcpy(l->at[l->n].body, u->body, sizeof u->body);
    l->n++;
    return SEFL_OK;
}

sefl_status rounds_uploads(rounds *r, uint64_t round, const as_verdict *without, round_entry **out,
                           uint32_t *n)
{
    upload_list l = { .without = without };
    sefl_status st = journal_updates(r->c.journal, round, list_one, &l);
    if (st != SEFL_OK)
        sefl_free(l.at), l.at = NULL;
    *out = l.at;
    *n = (uint32_t)l.n;
    return st;
}

static sefl_status upload_set(void *ctx, uint64_t round, round_entry **set, uint32_t *n)
{
    return rounds_uploads(ctx, round, NULL, set, n);
}

/* Starts an empty sum and queues the acknowledged uploads that no verdict has refused. */
static sefl_status refill(rounds *r, uint64_t round)
{
    sefl_status st = SEFL_OK;
    as_verdict v = { 0 };
    round_entry *set = NULL;
    uint32_t n;
    st = as_store_verdict_get(r->c.as.store, round, &v);
    SEFL_TRY(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    SEFL_TRY(rounds_uploads(r, round, &v, &set, &n));
    collect_begin(r->collect, round);
    for (uint32_t i = 0; i < n; i++)
        SEFL_TRY(collect_add(r->collect, round, &set[i], true, NULL));
done:
    sefl_free(set);
    as_verdict_clear(&v);
    return st;
}

/* A crash may have lost the latest entries about uploads: the log gets those of the round again. */
static sefl_status restore_uploads(void *ctx, uint64_t round, uint32_t *clients)
{
    rounds *r = ctx;
    round_entry *set = NULL;
    uint32_t n = 0;
    sefl_status st = journal_update_count(r->c.journal, round, clients);
    if (st == SEFL_OK)
        st = rounds_uploads(r, round, NULL, &set, &n);
    for (uint32_t i = 0; st == SEFL_OK && i < n; i++)
        audit_upload(r, round, &set[i]);
    sefl_free(set);
    return st == SEFL_OK ? refill(r, round) : st;
}

/* Makes the running sum match the journal, which has exactly the acknowledged updates. */
static sefl_status freeze(void *ctx, uint64_t round)
{
    rounds *r = ctx;
    uint32_t rows, given, summed;
    as_verdict v;
    SEFL_PASS(journal_update_count(r->c.journal, round, &rows));
    collect_counts(r->collect, &given, &summed);
    if (as_store_verdict_get(r->c.as.store, round, &v) == SEFL_OK) {
        rows -= v.refused_n;
        as_verdict_clear(&v);
    }
    if (rows != given)
        SEFL_PASS(refill(r, round));
    return SEFL_OK;
}

static bool upload_arrived(void *ctx, uint64_t round, uint32_t i, round_entry *out)
{
    return collect_entry(((rounds *)ctx)->collect, round, i, out);
}

sefl_status rounds_read_head(const rounds *r, const char *path, uint8_t *out)
{
    sefl_status st = SEFL_OK;
    size_t got, want = head_bytes(r->c.as.task->seal);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    SEFL_CHECK(fd >= 0, errno == ENOENT ? SEFL_ECRYPTO : SEFL_EIO, "cannot open %s: %s", path,
               strerror(errno));
    SEFL_TRY(file_read_at(fd, path, 0, out, want, &got));
    SEFL_CHECK(got == want, SEFL_ECRYPTO, "%s is shorter than it was", path);
done:
    if (fd >= 0)
        close(fd);
    return st;
}

/* Reads the head of an acknowledged upload. */
static sefl_status upload_head(void *ctx, uint64_t round, const round_entry *e, uint8_t *out)
{
    rounds *r = ctx;
    sefl_buf path = { 0 };
    sefl_status st = ingest_body_path(r->c.journal, &path, round, e);
    if (st == SEFL_OK)
        st = rounds_read_head(r, (const char *)path.p, out);
    buf_clear(&path);
    return st;
}

/* Logs why CSP refuses a head. If CSP has lost a voucher that we have, we forget it too, and the
 * client posts it again with its next upload. */
void rounds_upload_refused(void *ctx, uint64_t round, const char *when, const head_refusal *why,
                           const uint8_t client[32], bool named)
{
    rounds *r = ctx;
    journal_update u;
    audit_refused(r->c.audit, lf_str("by", "csp"), lf_u64("round", round), lf_key("client", client),
                  lf_str("reason", head_reason_text(why->reason)), lf_str("at", when));
    if (named) {
        bool known = journal_update_get(r->c.journal, round, client, &u) == SEFL_OK;
        log_warn(r->c.as.log, "CSP refuses a client's head", lf_u64("round", round),
                 lf_str("at", when), lf_key("key", client), lf_str("name", known ? u.name : ""),
                 lf_str("why", head_reason_text(why->reason)));
    }
    if (r->c.counted_out)
        r->c.counted_out(r->c.ctx, round, client, head_reason_text(why->reason));
    if (why->reason == HEAD_VOUCHER && upload_key_forget(r->c.journal, client) != SEFL_OK)
        log_error(r->c.as.log, "voucher not deleted", lf_str("why", sefl_last_error()));
}

static bool keep_waiting(void *self, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    return !as_rounds_stopping(((const rounds *)self)->driver);
}

static sefl_status take_off(void *ctx, uint64_t round, const uint8_t client[32])
{
    rounds *r = ctx;
    return collect_take(r->collect, round, client,
                        &(sefl_progress){ .report = keep_waiting, .self = r });
}

static sefl_status closed_sum(void *ctx, uint64_t round, ahe_sum **sum)
{
    rounds *r = ctx;
    sefl_status st = freeze(r, round);
    return st == SEFL_OK ? collect_close(r->collect, round, sum,
                                         &(sefl_progress){ .report = keep_waiting, .self = r })
                         : st;
}

static sefl_status forget_uploads(void *ctx, uint64_t round)
{
    (void)round;
    collect_begin(((rounds *)ctx)->collect, 0);
    return SEFL_OK;
}

static const as_uploads uploads = { .accept = accept_uploads,
                                    .close = close_uploads,
                                    .restore = restore_uploads,
                                    .freeze = freeze,
                                    .set = upload_set,
                                    .arrived = upload_arrived,
                                    .head = upload_head,
                                    .refused = rounds_upload_refused,
                                    .take_off = take_off,
                                    .sum = closed_sum,
                                    .forget = forget_uploads };

/* ---- the driver's callbacks: model, channel -------------------------------------------------- */

static sefl_status make_release(void *ctx, const release_from *from, uint64_t round,
                                const int64_t *w, uint32_t clients, release_made *out)
{
    static const uint8_t none[SHA256_BYTES];
    rounds *r = ctx;
    SEFL_PASS(release_make(r->c.releases, from, round, w, clients, out));
    if (out->blocked)
        return SEFL_OK; /* the driver stores why */
    audit_add(
        r->c.audit, "released", lf_u64("round", round), lf_u64("from", from->round),
        lf_key("from_model", from->hash), lf_key("model", out->hash),
        lf_if(memcmp(out->integers, none, sizeof none) != 0, lf_key("integers", out->integers)),
        lf_if(memcmp(out->optimiser, none, sizeof none) != 0, lf_key("optimiser", out->optimiser)));
    return audit_log_sync(r->c.audit);
}

static void settle_models(void *ctx, uint64_t latest)
{
    release_settle(((rounds *)ctx)->c.releases, latest);
}

static const as_model model = { .release = make_release, .settle = settle_models };

static sefl_status dial(void *ctx, channel **out)
{
    const rounds *r = ctx;
    const csp_dial *d = &r->c.dial;
    if (r->share)
        SEFL_PASS(share_still(r->share, true));
    return d->dial(d->ctx, LANES_LINK, out);
}

static void hang_up(void *ctx)
{
    rounds *r = ctx;
    r->c.dial.hang_up(r->c.dial.ctx, LANES_LINK);
    if (r->c.lanes)
        lanes_bind(r->c.lanes, NULL);
}

static void link_up(void *ctx, const as_peer *peer)
{
    lanes_bind(((rounds *)ctx)->c.lanes, peer->pair);
}

static void revealing(void *ctx, bool on)
{
    lanes_hold(((rounds *)ctx)->c.lanes, on);
}

static bool ended(void *ctx)
{
    return lanes_ended(((rounds *)ctx)->c.lanes);
}

static sefl_status wait_for_shares(void *ctx, uint64_t round, uint64_t attempt, uint64_t count)
{
    (void)round, (void)attempt;
    return lanes_wait(((rounds *)ctx)->c.lanes, count);
}

static const as_channel no_lanes = { .dial = dial, .hang_up = hang_up };
static const as_channel with_lanes = { .dial = dial,
                                       .hang_up = hang_up,
                                       .up = link_up,
                                       .revealing = revealing,
                                       .ended = ended,
                                       .shares_wait = wait_for_shares };

/* ---- reports --------------------------------------------------------------------------------- */

/* Keeps those entries of `kept` that are also in the uploads of a round; both are sorted by
 * client. */
static sefl_status keep_common(rounds *r, uint64_t round, round_entry *kept, uint32_t *n)
{
    round_entry *set = NULL;
    uint32_t of, m = 0;
    sefl_status st = rounds_uploads(r, round, NULL, &set, &of);
    for (uint32_t i = 0; st == SEFL_OK && i < *n; i++)
        if (bsearch(&kept[i], set, of, sizeof *set, round_entry_order))
            kept[m++] = kept[i];
    *n = m;
    sefl_free(set);
    return st;
}

/* Logs the clients that are in all of the latest three blocked rounds, consecutive or not: a client
 * that spoiled them is among these. All may be honest: settings can make the validation loss
 * explode, and hostile clients can take turns. */
static sefl_status name_suspects(rounds *r, uint64_t latest)
{
    sefl_status st = SEFL_OK;
    round_entry *kept = NULL;
    sefl_buf why = { 0 };
    unsigned found = 0;
    uint32_t count = 0;
    journal_update u;
    for (uint64_t n = latest; n >= 1 && found < AGG_BLOCKED_IN_ROW_MAX; n--) {
        buf_reset(&why);
        st = r->c.as.store->get(r->c.as.store->ctx, AS_BLOCKED, n, &why);
        if (st == SEFL_ENOTFOUND) {
            st = SEFL_OK;
            continue;
        }
        SEFL_TRY(st);
        SEFL_TRY(found++ == 0 ? rounds_uploads(r, n, NULL, &kept, &count)
                              : keep_common(r, n, kept, &count));
    }
    if (found < AGG_BLOCKED_IN_ROW_MAX)
        goto done;
    log_error(r->c.as.log,
              "clients that took part in the latest three blocked rounds: read why each was "
              "blocked before you revoke any (docs/OPERATING.md, incidents)",
              lf_u64("clients", count));
    for (uint32_t i = 0; i < count && i < SUSPECTS_MAX; i++) {
        SEFL_TRY(journal_update_get(r->c.journal, latest, kept[i].client, &u));
        log_error(r->c.as.log, "client in all blocked rounds", lf_key("key", u.client),
                  lf_str("name", u.name));
    }
    if (count > SUSPECTS_MAX)
        log_error(r->c.as.log, "more clients in all blocked rounds",
                  lf_u64("not_listed", count - SUSPECTS_MAX));
done:
    sefl_free(kept);
    buf_clear(&why);
    return st;
}

/* Logs the suspects of a blocked round; after a read error it tries again before the next order. */
static void tell_suspects(rounds *r)
{
    bool failed = r->blocked > 0 && name_suspects(r, r->blocked) != SEFL_OK;
    if (failed && !r->blocked_told)
        log_error(r->c.as.log, "cannot read the clients of blocked rounds; trying again",
                  lf_str("why", sefl_last_error()));
    r->blocked_told = failed;
    r->blocked = failed ? r->blocked : 0;
}

static void between(void *ctx, as_link *link)
{
    rounds *r = ctx;
    if (r->share && share_still(r->share, false) != SEFL_OK)
        return; /* the driver stops, or the store is away */
    tell_suspects(r);
    rounds_run_requests(r, link);
}

static void report(void *ctx, const rounds_report *p)
{
    rounds *r = ctx;
    rounds_report all = *p;
    if (p->blocked) {
        r->blocked = p->round;
        tell_suspects(r);
    }
    if (r->c.lanes && !p->skipped) {
        lanes_work ahead = lanes_done(r->c.lanes);
        all.ahead_seconds = ahead.seconds, all.ahead_bytes = ahead.bytes;
    }
    if (r->c.report)
        r->c.report(r->c.ctx, &all);
}

static void changed(void *ctx)
{
    rounds *r = ctx;
    if (r->c.changed)
        r->c.changed(r->c.ctx);
}

/* ---- start and end --------------------------------------------------------------------------- */

static sefl_status body_path(void *ctx, sefl_buf *out, uint64_t round, const round_entry *m)
{
    const rounds *r = ctx;
    return ingest_body_in(r->c.journal, out, round,
                          r->share ? share_bodies(r->share) : INGEST_BODIES, m);
}

/* Several processes are one AS. */
static sefl_status join_others(rounds *r)
{
    SEFL_PASS(
        share_new(&r->share, r, &(share_config){ .own = r->c.own, .lease_ms = r->c.lease_ms }));
    r->lease_going = (sefl_progress){ .report = share_may_go_on, .self = r->share };
    r->c.as.shared = true;
    r->c.as.stop = &r->lease_going;
    r->c.as.uploads = &share_uploads;
    return SEFL_OK;
}

sefl_status rounds_new(rounds **out, const rounds_config *c)
{
    const task *t = c->as.task;
    SEFL_MAKE(rounds, r, out);
    r->c = *c;
    r->c.as.ctx = r;
    r->c.as.channel = c->lanes ? &with_lanes : &no_lanes;
    r->c.as.uploads = &uploads;
    r->c.as.model = &model;
    r->c.as.between = between;
    r->c.as.changed = changed;
    r->c.as.report = report;
    pthread_mutex_init(&r->tree_lock, NULL);
    SEFL_TRY(buckets_new(&r->tree_rate, &(buckets_rule){ .burst = 8, .per_s = 0.2 }));
    SEFL_TRY(body_pool_new(&r->body_pool, task_body_bytes(t), BODY_POOL_BUDGET));
    SEFL_TRY(collect_new(&r->collect, &(collect_config){ .ahe = &t->ahe,
                                                         .pub = t->pub,
                                                         .front = update_front_bytes(t->seal),
                                                         .clients_max = t->clients_max,
                                                         .threads = c->threads,
                                                         .path = body_path,
                                                         .ctx = r,
                                                         .body_pool = r->body_pool,
                                                         .log = c->as.log }));
    if (c->own)
        SEFL_TRY(join_others(r));
    SEFL_TRY(as_rounds_new(&r->driver, &r->c.as));
    r->lock = as_rounds_lock(r->driver);
    if (r->share)
        SEFL_TRY(share_start(r->share));
    SEFL_HAND_OVER(out, r, rounds_free);
}

void rounds_free(rounds *r)
{
    if (!r)
        return;
    share_free(r->share);
    collect_free(r->collect);
    body_pool_free(r->body_pool);
    as_rounds_free(r->driver);
    counted_tree_free(r->tree);
    buf_clear(&r->tree_envelope);
    buckets_free(r->tree_rate);
    pthread_mutex_destroy(&r->tree_lock);
    sefl_free(r);
}

sefl_status rounds_run(rounds *r)
{
    return r->share ? share_run(r->share) : as_rounds_run(r->driver);
}

void rounds_stop(rounds *r)
{
    if (r->share)
        share_stop(r->share);
    as_rounds_stop(r->driver);
    if (r->c.dial.interrupt)
        r->c.dial.interrupt(r->c.dial.ctx, LANES_LINK);
    if (r->c.lanes)
        lanes_stop(r->c.lanes);
}

/* ---- questions ------------------------------------------------------------------------------- */

/* With the lock. */
static round_word word_of(const rounds *r, uint64_t after)
{
    const agg *a = as_rounds_agg(r->driver);
    agg_phase phase = agg_get_phase(a);
    if (phase == AGG_DONE)
        return ROUND_OVER;
    if (phase == AGG_COLLECTING)
        return agg_round(a) > after ? ROUND_OPEN : ROUND_WAITING;
    if (agg_is_paused(a, NULL))
        return ROUND_PAUSED;
    return phase < AGG_COLLECTING ? ROUND_WAITING : ROUND_CLOSED;
}

bool rounds_has_news(rounds *r, uint64_t after)
{
    pthread_mutex_lock(r->lock);
    round_word w = word_of(r, after);
    pthread_mutex_unlock(r->lock);
    return w == ROUND_OPEN || w == ROUND_OVER;
}

/* Signs that the task is over and which model is the final one (round 0: no round was released).
 * Under the lock. */
static sefl_status sign_end(rounds *r, sefl_buf *out)
{
    const release_from from = as_rounds_model(r->driver);
    const task *t = r->c.as.task;
    round_end e = { .round = from.round };
    uint8_t bytes[END_BYTES];
    envelope env = { .kind = SIGN_END, .content = span_of(bytes, sizeof bytes) };
    memcpy(e.task, t->id, sizeof e.task);
    memcpy(e.model, from.hash, sizeof e.model);
    round_end_write(bytes, &e);
    SEFL_PASS(envelope_sign(&env, SIGNER_AS, r->c.as.key));
    return envelope_write(out, &env);
}

sefl_status rounds_news(rounds *r, uint64_t after, round_news *out, sefl_buf *header)
{
    sefl_status st = SEFL_OK;
    *out = (round_news){ 0 };
    pthread_mutex_lock(r->lock);
    const agg *a = as_rounds_agg(r->driver);
    out->state = word_of(r, after);
    out->round = agg_round(a);
    if (out->state == ROUND_OPEN) {
        uint64_t now = clock_ms(r->c.as.wall), end = agg_deadline_ms(a);
        sefl_span both = as_rounds_header(r->driver);
        out->left_ms = end > now ? end - now : 0;
        SEFL_TRY(wr_raw(header, both.p, both.n));
        out->header = buf_span(header);
    } else if (out->state == ROUND_OVER) {
        snprintf(out->why, sizeof out->why, "%s", agg_why_text(agg_remember(a).why));
        SEFL_TRY(sign_end(r, header));
        out->header = buf_span(header);
    }
done:
    pthread_mutex_unlock(r->lock);
    return st;
}

sefl_status rounds_model(rounds *r, uint64_t round, bool latest, char path[PATH_MAX],
                         uint8_t hash[SHA256_BYTES])
{
    pthread_mutex_lock(r->lock);
    uint64_t now = agg_round(as_rounds_agg(r->driver));
    release_from from = as_rounds_model(r->driver);
    pthread_mutex_unlock(r->lock);
    SEFL_NEED(latest || round == now, SEFL_ENOTFOUND, "round %" PRIu64 " is %s", round,
              round < now ? "over" : "not open yet");
    SEFL_PASS(release_path(r->c.releases, path, from.round));
    memcpy(hash, from.hash, SHA256_BYTES);
    return SEFL_OK;
}

uint64_t rounds_released(rounds *r)
{
    pthread_mutex_lock(r->lock);
    const uint64_t round = as_rounds_model(r->driver).round;
    pthread_mutex_unlock(r->lock);
    return round;
}

/* Returns the current state of the machine. */
static agg_memory memory_of(rounds *r)
{
    pthread_mutex_lock(r->lock);
    agg_memory m = agg_remember(as_rounds_agg(r->driver));
    pthread_mutex_unlock(r->lock);
    return m;
}

agg_phase rounds_phase(rounds *r, uint64_t *round, uint32_t *clients)
{
    agg_memory m = memory_of(r);
    if (round)
        *round = m.round;
    if (clients)
        *clients = m.clients;
    return m.phase;
}

void rounds_expect(rounds *r, uint64_t round, uint32_t clients)
{
    const agg_event e = { .kind = AGG_EXPECT, .round = round, .clients = clients };
    pthread_mutex_lock(r->lock);
    agg *a = as_rounds_agg(r->driver);
    const agg_phase before = agg_get_phase(a);
    if (agg_on(a, &e, clock_ms(r->c.as.wall)) == SEFL_OK && agg_get_phase(a) != before)
        as_rounds_wake(r->driver);
    pthread_mutex_unlock(r->lock);
}

bool rounds_waiting(rounds *r, waiting_view *out)
{
    const task *t = r->c.as.task;
    pthread_mutex_lock(r->lock);
    agg_memory m = agg_remember(as_rounds_agg(r->driver));
    const uint32_t closes_at = agg_closes_at(as_rounds_agg(r->driver));
    pthread_mutex_unlock(r->lock);
    const bool linked = rounds_linked(r);
    uint64_t now = clock_ms(r->c.as.wall);
    *out = (waiting_view){ .round = m.round,
                           .rounds = t->rounds,
                           .arrived = m.clients,
                           .needed = t->threshold,
                           .enough = closes_at,
                           .extensions = m.extensions,
                           .deadline_ms = m.deadline_ms,
                           .left_ms = m.deadline_ms > now ? m.deadline_ms - now : 0,
                           .linked = linked };
    return m.phase == AGG_COLLECTING;
}

rounds_hold rounds_held(rounds *r)
{
    rounds_hold h = { .commanded = as_rounds_commanded(r->driver) };
    pthread_mutex_lock(r->lock);
    if (!rounds_leads(r))
        h.commanded = r->commanded;
    const agg *a = as_rounds_agg(r->driver);
    const agg_memory m = agg_remember(a);
    h.paused = agg_is_paused(a, &h.by_csp);
    h.deadline_ms = agg_deadline_ms(a);
    pthread_mutex_unlock(r->lock);
    h.pausing = m.paused && !h.paused && m.phase != AGG_DONE;
    h.ending = m.why != AGG_WHY_NONE && m.phase != AGG_DONE;
    return h;
}

void rounds_command(rounds *r, const as_command *c)
{
    if (rounds_leads(r))
        as_rounds_command(r->driver, c);
    else
        rounds_command_away(r, c);
}

bool rounds_leads(const rounds *r)
{
    return !r->share || share_leads(r->share);
}

uint64_t rounds_away(const rounds *r)
{
    return r->share ? share_away(r->share) : 0;
}

const char *rounds_bodies(const rounds *r)
{
    return r->share ? share_bodies(r->share) : NULL;
}

bool rounds_linked(rounds *r)
{
    if (!rounds_leads(r)) /* the leader has the link */
        return share_led(r->share);
    pthread_mutex_lock(r->lock);
    bool linked = agg_is_linked(as_rounds_agg(r->driver));
    pthread_mutex_unlock(r->lock);
    return linked;
}

void rounds_trouble(rounds *r, char out[AS_TROUBLE])
{
    *out = 0;
    if (rounds_leads(r))
        as_rounds_trouble(r->driver, out);
}

bool rounds_over(rounds *r, agg_why *why)
{
    agg_memory m = memory_of(r);
    *why = m.why;
    return m.phase == AGG_DONE;
}
