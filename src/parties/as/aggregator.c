#include "roles/aggregator/as_inside.h"

#include "base/alloc.h"
#include "base/cond.h"
#include "base/ct.h"
#include "base/file.h"
#include "metrics/metrics.h"
#include "protocol/enrol.h"
#include "protocol/http.h"
#include "protocol/modes/mode.h"
#include "roles/aggregator/tally.h"
#include "roles/health.h"
#include "roles/own_task.h"
#include "roles/pulse.h"
#include "roles/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The threads of the HTTPS server; with a shared store most of them wait for it, or for a sync. */
enum { CONNECT_MS = 10000, SERVER_THREADS = 2, SHARED_THREADS = 8 };
/* A client may send BODIES_BURST bodies at once, and one more per second (rounds of small models
 * take no longer): it resends a body after an interruption, and sends another one after a refusal.
 * Bodies below BODY_LEAST count as BODY_LEAST bytes. */
enum { BODIES_BURST = 8, BODY_LEAST = 1 << 20 };
/* Enrolment requests: burst and rate per second over all sites; burst and interval per address. */
enum { ENROL_BURST = 30, ENROL_RATE = 1, ORIGIN_BURST = 10, ORIGIN_EVERY_S = 5 };
/* Honest clients of a CA leave no more unfinished updates than there are clients; some may have new
 * keys. */
enum { PARTS_SPARE = 8 };

/* ---- what rounds.h asks for ------------------------------------------------------------------ */

static void refused(void *ctx, const x509_peer *p)
{
    agg_http *h = ctx; /* the server's context */
    atomic_fetch_add(&h->certificates[p->code], 1);
    turnout_barred(h->turnout, p->fingerprint, x509_verdict_text(p->code));
    audit_peer_refused(h->audit, "aggregator", p);
    log_debug(h->log, "peer refused", lf_str("why", x509_verdict_text(p->code)),
              lf_str("name", p->name), lf_key("key", p->fingerprint));
}

/* True if the list names a CA for CSP, even a revoked one. Otherwise tls.csp_peers authenticates
 * CSP, and the list only revokes keys. */
static bool names_csp(const allowlist *g)
{
    const trust *t = g ? allowlist_list(g) : NULL;
    for (size_t i = 0; t && i < t->issuers; i++)
        if (t->issuer[i].role == TRUST_CSP)
            return true;
    return false;
}

/* True if the connected CSP may stay. One that no list has checked may, until a list names CSP's
 * CA. */
static bool csp_still(const allowlist *g, x509_peer *who)
{
    static const uint8_t nobody[sizeof who->issuer];
    if (memcmp(who->issuer, nobody, sizeof nobody) == 0 && names_csp(g)) {
        snprintf(who->why, sizeof who->why, "the list now names CSP's CA: CSP must connect again");
        return false;
    }
    return allowlist_still(g, who);
}

/* Connects to CSP and stores the stream in its slot. A lane must reach the same CSP as the link. */
static sefl_status dial(void *ctx, unsigned slot, channel **out)
{
    aggregator *a = ctx;
    sefl_status st = SEFL_OK;
    const aggregator_settings *c = a->o.settings;
    uint8_t linked[32];
    pthread_mutex_lock(&a->lock);
    allowlist *g = names_csp(a->allowlist) ? allowlist_hold(a->allowlist) : NULL;
    bool same = slot != LANES_LINK && a->stream[LANES_LINK];
    if (same)
        memcpy(linked, tls_peer_info(a->stream[LANES_LINK])->fingerprint, sizeof linked);
    pthread_mutex_unlock(&a->lock);
    const tls_peer want = { .role = "csp",
                            .protocols = { slot == LANES_LINK ? LINK_ALPN : LANE_ALPN },
                            .fingerprint = same ? linked : NULL,
                            .allowlist = g,
                            .refused = refused,
                            .ctx = &a->http };
    const tls_limits limits = { .connect_ms = CONNECT_MS,
                                .idle_ms = LINK_IDLE_MS,
                                .silent_ms = 1000 * c->link_silence_s };
    tls *t = NULL;
    tls_id *id = NULL;
    /* reads the files for each connection, so the next one uses a new certificate */
    SEFL_TRY(tls_id_read(&id, c->cert, c->tls_key, c->csp_peers));
    SEFL_TRY(sefl_at(tls_dial(&t, c->csp.host, c->csp.port, id, &want, &limits),
                     "cannot reach CSP at %s:%u", c->csp.host, c->csp.port));
    pthread_mutex_lock(&a->lock);
    x509_peer who = *tls_peer_info(t);
    bool welcome = !a->allowlist || csp_still(a->allowlist, &who);
    if (welcome) {
        a->stream[slot] = t;
        if (atomic_load(&a->stop))
            tls_interrupt(t);
        *out = tls_channel(t), t = NULL;
    }
    pthread_mutex_unlock(&a->lock);
    SEFL_CHECK(welcome, SEFL_EAUTH, "CSP at %s:%u: %s", c->csp.host, c->csp.port, who.why);
done:
    if (slot == LANES_LINK)
        agg_page_link(a, st == SEFL_OK, st == SEFL_OK ? "" : sefl_last_error());
    tls_close(t);
    tls_id_free(id);
    allowlist_free(g);
    return st;
}

static void hang_up(void *ctx, unsigned slot)
{
    aggregator *a = ctx;
    pthread_mutex_lock(&a->lock);
    tls *t = a->stream[slot];
    a->stream[slot] = NULL;
    pthread_mutex_unlock(&a->lock);
    if (t && slot == LANES_LINK)
        agg_page_link(a, false, "");
    tls_close(t);
}

static void interrupt(void *ctx, unsigned slot)
{
    aggregator *a = ctx;
    pthread_mutex_lock(&a->lock);
    if (a->stream[slot])
        tls_interrupt(a->stream[slot]);
    pthread_mutex_unlock(&a->lock);
}

static csp_dial dial_of(aggregator *a)
{
    return (csp_dial){ .ctx = a, .dial = dial, .hang_up = hang_up, .interrupt = interrupt };
}

bool agg_missing(aggregator *a, uint64_t round, turnout_missing *out)
{
    pthread_mutex_lock(&a->lock);
    allowlist *g = allowlist_hold(a->allowlist);
    pthread_mutex_unlock(&a->lock);
    const bool known = a->turnout && !a->sights; /* otherwise each process knows its own clients */
    turnout_look(known ? a->turnout : NULL, round, g ? allowlist_list(g) : NULL, out);
    allowlist_free(g);
    return known;
}

/* The open round waits for no more clients than can send an update. */
static void look_at_missing(aggregator *a)
{
    uint64_t round;
    turnout_missing m;
    if (a->rounds && rounds_phase(a->rounds, &round, NULL) == AGG_COLLECTING &&
        agg_missing(a, round, &m))
        rounds_expect(a->rounds, round, m.expected);
}

bool agg_waiting(aggregator *a, waiting_view *out)
{
    turnout_missing m;
    size_t n = 0;
    const bool open = rounds_waiting(a->rounds, out);
    if (!open || !agg_missing(a, out->round, &m))
        return open;
    out->waits = m.waits.all;
    out->left = m.left.all;
    for (uint32_t i = 0; i < m.waits.named && n < sizeof out->who; i++)
        n += (size_t)snprintf(out->who + n, sizeof out->who - n, "%s%s", i > 0 ? ", " : "",
                              m.waits.at[i].name);
    if (m.waits.all > m.waits.named && n < sizeof out->who)
        snprintf(out->who + n, sizeof out->who - n, "%s%u %s", n > 0 ? " and " : "",
                 m.waits.all - m.waits.named, n > 0 ? "more" : "sites that have not connected");
    return open;
}

/* Polling clients wait for an open round or the end of the task; other phases are no news. */
static void changed(void *ctx)
{
    aggregator *a = ctx;
    uint64_t round;
    if (!a->rounds)
        return; /* rounds_new reads the state of a shared store */
    agg_phase p = rounds_phase(a->rounds, &round, NULL);
    if (p == AGG_COLLECTING) {
        turnout_open(a->turnout, round);
        look_at_missing(a);
    }
    if (a->server && (p == AGG_COLLECTING || p == AGG_DONE))
        https_wake(a->server);
}

static void report(void *ctx, const rounds_report *r)
{
    aggregator *a = ctx;
    agg_monitor_round(&a->monitor, r);
    if (metrics_append(a->metrics, r, &a->task) != SEFL_OK)
        log_error(a->o.log, "metrics.jsonl not written", lf_str("why", sefl_last_error()));
    pthread_mutex_lock(&a->lock);
    a->last = metrics_line(r);
    a->measured = r->has_perplexity ? a->last : a->measured;
    pthread_mutex_unlock(&a->lock);
    turnout_close(a->turnout, r->round,
                  r->early     ? TURNOUT_CUT
                  : r->skipped ? TURNOUT_SKIPPED
                               : TURNOUT_RELEASED);
    if (a->o.round)
        a->o.round(a->o.ctx, r, a->task.rounds);
}

static void answered(void *ctx)
{
    aggregator *a = ctx;
    if (a->server)
        https_wake(a->server);
}

/* Reads the trust list if it has changed, and disconnects peers that it no longer allows. A list
 * that cannot be read leaves the previous one in force. */
static sefl_status read_list(aggregator *a)
{
    sefl_status st = SEFL_OK;
    allowlist *g = NULL;
    bool older;
    if (!a->o.settings->ca)
        return SEFL_OK;
    pthread_mutex_lock(&a->list_lock);
    SEFL_TRY(
        server_read_list(&g, &older, &a->list, !a->allowlist, TRUST_AGGREGATOR, a->key, a->o.log));
    if (!g)
        goto done;
    pthread_mutex_lock(&a->lock);
    allowlist *old = a->allowlist;
    a->allowlist = allowlist_hold(g);
    tls *link = a->stream[LANES_LINK];
    if (link) {
        x509_peer who = *tls_peer_info(link);
        if (!csp_still(g, &who)) {
            log_warn(a->o.log, "CSP disconnected", lf_str("why", who.why));
            tls_interrupt(link);
        }
    }
    pthread_mutex_unlock(&a->lock);
    allowlist_free(old);
    if (a->server)
        https_server_set_allowlist(a->server, g);
    if (older)
        atomic_fetch_add(&a->http.counts[AGG_HTTP_LIST_OLDER], 1);
done:
    pthread_mutex_unlock(&a->list_lock);
    allowlist_free(g);
    return st;
}

static void look_at_list(aggregator *a)
{
    if (read_list(a) == SEFL_OK)
        return;
    pthread_mutex_lock(&a->list_lock);
    bool first = trust_watch_failed(&a->list);
    pthread_mutex_unlock(&a->list_lock);
    if (!first)
        return;
    atomic_fetch_add(&a->http.counts[AGG_HTTP_LIST], 1);
    log_error(a->o.log, "trust list not reloaded", lf_str("why", sefl_last_error()));
}

static void save_tally(aggregator *a)
{
    char path[PATH_MAX];
    pthread_mutex_lock(&a->tally_lock);
    if (a->server &&
        (file_path(path, "%s/counters.json", a->o.settings->state) != SEFL_OK ||
         tally_save(path, &a->tally, a->server, &a->http) != SEFL_OK) &&
        !a->tally_failed) {
        a->tally_failed = true; /* logs it once */
        log_error(a->o.log, "counters.json not written", lf_str("why", sefl_last_error()));
    }
    pthread_mutex_unlock(&a->tally_lock);
}

static aggregator *of_http(void *http)
{
    return (aggregator *)(void *)((char *)http - offsetof(aggregator, http));
}

static void look_at_certificate(aggregator *a)
{
    pthread_mutex_lock(&a->lock);
    int64_t ends = tls_id_expires(a->id);
    pthread_mutex_unlock(&a->lock);
    atomic_store(&a->monitor.cert_ends, ends);
    (void)own_cert_look(&a->own, ends, (int64_t)(clock_ms(&a->wall) / 1000), a->o.log);
}

static bool still_welcome(void *ctx, const uint8_t client[32], const uint8_t *issuer)
{
    aggregator *a = ctx;
    x509_peer p = { .role = "client", .until = INT64_MAX };
    memcpy(p.fingerprint, client, sizeof p.fingerprint);
    if (issuer)
        memcpy(p.issuer, issuer, sizeof p.issuer);
    pthread_mutex_lock(&a->lock);
    bool yes = !a->allowlist || allowlist_still(a->allowlist, &p);
    pthread_mutex_unlock(&a->lock);
    return yes;
}

static void look_at_round(aggregator *a)
{
    waiting_view v;
    look_at_missing(a);
    if (!agg_waiting(a, &v))
        return;
    if (a->o.waiting)
        a->o.waiting(a->o.ctx, &v);
    else if (waiting_due(&a->waiting, &v, clock_ms(&a->mono)))
        waiting_log(&v, a->o.log);
}

static void every_second(void *ctx)
{
    aggregator *a = of_http(ctx);
    const uint64_t away = a->rounds ? rounds_away(a->rounds) : 0;
    pulse_log(&a->away_told, away, a->o.log);
    if (away == 0)
        agg_status_look(a);
    audit_log_tick(a->audit);
    look_at_list(a);
    look_at_certificate(a);
    if (a->queue)
        agg_queue_tick(a);
    if (a->rounds && away == 0) {
        ingest_sweep(a->ingest, still_welcome, a);
        look_at_round(a);
    }
    save_tally(a);
    agg_status_save(a);
}

static void back(void *ctx)
{
    look_at_missing(of_http(ctx));
}

static void listed(void *ctx)
{
    look_at_list(of_http(ctx));
}

/* ---- start ----------------------------------------------------------------------------------- */

static bool is_running(void *self, uint64_t done, uint64_t total)
{
    const aggregator *a = self;
    return !atomic_load(&a->stop) && progress_report(a->o.going, done, total);
}

/* Several processes: two connections, so that the rounds do not wait for uploads. */
static sefl_status open_shared(aggregator *a)
{
    sefl_status st = SEFL_OK;
    const aggregator_settings *c = a->o.settings;
    uint8_t root[32];
    const journal_place at = { .folder = c->shared,
                               .store = c->store,
                               .root = root,
                               .owner = a->task.id,
                               .owner_is = "task",
                               .going = &a->running };
    sign_key_derive(a->key, "sefl shared store 1", root);
    SEFL_TRY(file_make_folder(c->state, 0700));
    SEFL_TRY(journal_open_at(&a->journal, &at, "aggregator", a->task.id));
    SEFL_TRY(journal_open_at(&a->uploads, &at, "aggregator", a->task.id));
done:
    sefl_wipe(root, sizeof root);
    return st;
}

static sefl_status open_store(aggregator *a)
{
    const aggregator_settings *c = a->o.settings;
    SEFL_PASS(c->store ? open_shared(a)
                       : journal_open(&a->journal, c->state, "aggregator", a->task.id));
    SEFL_PASS((a->uploads ? account_disk_open_in_turn : account_disk_open)(&a->account, a->journal,
                                                                           c->ledger, &a->task));
    /* each process has a log of its own, and the shared journal names none of them */
    SEFL_PASS(audit_log_open(&a->audit,
                             &(audit_log_config){ .folder = c->state,
                                                  .key = a->key,
                                                  .clock = &a->wall,
                                                  .log = a->o.log,
                                                  .journal = a->uploads ? NULL : a->journal }));
    a->disk = (as_disk){ .j = a->journal, .coins = &a->coins };
    a->audited = (audit_as){
        .inner = as_disk_store(&a->disk), .log = a->audit, .account = a->account, .task = &a->task
    };
    a->store = audit_as_store(&a->audited);
    return audit_started(a->audit, "aggregator", &a->task);
}

static sefl_status make_lanes(aggregator *a)
{
    const aggregator_settings *c = a->o.settings;
    if (!task_mode(&a->task)->shares)
        return SEFL_OK;
    SEFL_PASS(file_path(a->records, "%s/audits", c->state));
    SEFL_PASS(file_make_folder(a->records, 0700));
    SEFL_PASS(coins_for(&a->coins, &a->shares_rng, "shares pool", 0, 0));
    SEFL_PASS(shares_pool_new(&a->shares, lanes_pool_max(&a->task), &a->shares_rng));
    return lanes_new(&a->lanes, &(lanes_config){ .task = &a->task,
                                                 .pool = a->shares,
                                                 .count = c->lanes,
                                                 .dial = dial_of(a),
                                                 .key = a->key,
                                                 .journal = a->journal,
                                                 .coins = &a->coins,
                                                 .audit = c->audit,
                                                 .records = a->records,
                                                 .entries = a->audit,
                                                 .log = a->o.log,
                                                 .mono = &a->mono,
                                                 .wall = &a->wall });
}

static sefl_status make_rounds(aggregator *a)
{
    const aggregator_settings *c = a->o.settings;
    SEFL_PASS(rounds_new(
        &a->rounds,
        &(rounds_config){
            .as = { .task = &a->task,
                    .envelope = buf_span(&a->envelope),
                    .key = a->key,
                    .store = &a->store,
                    .account = a->account,
                    .coins = &a->coins,
                    .shares = a->shares,
                    .pool = a->pool,
                    .wall = &a->wall,
                    .mono = &a->mono,
                    .log = a->o.log,
                    .ping_ms = c->link_silence_s < 30 ? 1000 * c->link_silence_s / 3 : 0 },
            .journal = a->journal,
            .own = a->uploads,
            .lease_ms = 1000 * c->lease_s,
            .releases = a->releases,
            .audit = a->audit,
            .dial = dial_of(a),
            .lanes = a->lanes,
            .threads = c->threads,
            .ctx = a,
            .changed = changed,
            .report = report,
            .answered = answered,
            .counted_out = agg_page_counted_out }));
    SEFL_PASS(
        ingest_new(&a->ingest, &(ingest_config){ .task = a->task.id,
                                                 .seal = a->task.seal,
                                                 .ahe = &a->task.ahe,
                                                 .pub = a->task.pub,
                                                 .journal = a->uploads ? a->uploads : a->journal,
                                                 .bodies = rounds_bodies(a->rounds),
                                                 .key = a->key,
                                                 .admission = rounds_admission(a->rounds),
                                                 .parts_most = a->task.enrolled + PARTS_SPARE,
                                                 .wall = &a->wall,
                                                 .log = a->o.log }));
    rounds_set_ingest(a->rounds, a->ingest);
    return SEFL_OK;
}

static sefl_status serve(aggregator *a)
{
    const aggregator_settings *c = a->o.settings;
    const uint64_t body = a->has_task ? task_body_bytes(&a->task) : ENROL_REQUEST_MAX;
    const double rate = body > BODY_LEAST ? (double)body : BODY_LEAST;
    a->http = (agg_http){ .task = a->has_task ? &a->task : NULL,
                          .envelope = buf_span(&a->envelope),
                          .rounds = a->rounds,
                          .ingest = a->ingest,
                          .turnout = a->turnout,
                          .vocab = a->files.vocab,
                          .init = a->files.init,
                          .wall = &a->wall,
                          .mono = &a->mono,
                          .ca = c->ca,
                          .key = a->key,
                          .listed = listed,
                          .back = back,
                          .audit = a->audit,
                          .log = a->o.log };
    SEFL_PASS(buckets_new(&a->http.enrol_rate,
                          &(buckets_rule){ .burst = ENROL_BURST, .per_s = ENROL_RATE }));
    SEFL_PASS(buckets_new(&a->http.enrol_origin,
                          &(buckets_rule){ .burst = ORIGIN_BURST, .per_s = 1.0 / ORIGIN_EVERY_S }));
    int listener = fcntl(a->listener, F_DUPFD_CLOEXEC, 0);
    SEFL_NEED(listener >= 0, SEFL_EIO, "cannot copy the listening socket: %s", strerror(errno));
    return https_server_start(
        &a->server, &(https_server_config){ .listener = &listener,
                                            .port = a->port,
                                            .id = a->id,
                                            .peer_role = "client",
                                            .allowlist = a->allowlist,
                                            .open_path = c->ca ? HTTP_ENROL_PATH : NULL,
                                            .open_max = ENROL_REQUEST_MAX,
                                            .threads = c->store ? SHARED_THREADS : SERVER_THREADS,
                                            .limits = c->limits,
                                            .bytes_burst = BODIES_BURST * rate,
                                            .bytes_rate = rate,
                                            .body_max = body,
                                            .headers = HTTP_VERSION_LINE,
                                            .tick = every_second,
                                            .begin = agg_http_begin,
                                            .refused = refused,
                                            .ctx = &a->http,
                                            .log = a->o.log });
}

static sefl_status begin(aggregator *a)
{
    a->has_task = true;
    SEFL_PASS(releases_new(
        &a->releases, &(releases_config){ .task = &a->task, .files = a->files, .pool = a->pool }));
    SEFL_PASS(open_store(a));
    if (!a->uploads) /* otherwise the ledger is the leader's */
        monitor_task(&a->monitor, a->account, &a->task);
    SEFL_PASS(make_lanes(a));
    SEFL_PASS(make_rounds(a));
    agg_status_look(a); /* before the first round */
    SEFL_PASS(agg_page_task(a));
    agg_status_save(a); /* instead of that of an earlier run */
    return serve(a);
}

sefl_status agg_task_begin(aggregator *a)
{
    pthread_mutex_lock(&a->task_lock);
    sefl_status st = begin(a);
    pthread_mutex_unlock(&a->task_lock);
    return st;
}

sefl_status agg_idle_begin(aggregator *a)
{
    pthread_mutex_lock(&a->task_lock);
    sefl_status st = serve(a);
    pthread_mutex_unlock(&a->task_lock);
    return st;
}

void agg_task_end(aggregator *a)
{
    pthread_mutex_lock(&a->task_lock);
    a->http.closing = true;
    agg_page_keep(a);
    save_tally(a);
    https_server_stop(a->server);
    if (a->server)
        agg_status_save(a); /* what it was at the end */
    buf_clear(&a->tally);
    if (a->rounds)
        rounds_set_ingest(a->rounds, NULL);
    ingest_free(a->ingest);
    rounds_free(a->rounds);
    lanes_free(a->lanes);
    agg_page_task_end(a); /* a lane reports refused peers to it */
    shares_pool_free(a->shares);
    releases_free(a->releases);
    account_close(a->account);
    audit_end(a->audit);
    journal_close(a->journal);
    journal_close(a->uploads);
    buckets_free(a->http.enrol_rate);
    buckets_free(a->http.enrol_origin);
    task_clear(&a->task);
    buf_clear(&a->envelope);
    a->server = NULL, a->ingest = NULL, a->rounds = NULL, a->lanes = NULL, a->shares = NULL;
    a->releases = NULL, a->account = NULL, a->journal = NULL, a->uploads = NULL, a->audit = NULL;
    a->http.enrol_rate = a->http.enrol_origin = NULL;
    a->has_task = false;
    a->withdrawn = false;
    a->waiting = (waiting){ 0 };
    a->last = a->measured = run_line_of(0);
    control_forget(&a->control);
    pthread_mutex_unlock(&a->task_lock);
}

static const local_page pages[] = { { HTTP_HEALTH_PATH, "application/json", agg_status_page },
                                    { MONITOR_PATH, PROM_TYPE, agg_monitor_page } };

static sefl_status open_task(aggregator *a)
{
    const aggregator_settings *c = a->o.settings;
    a->files = c->files;
    SEFL_PASS(file_path(a->metrics, "%s/metrics.jsonl", c->shared ? c->shared : c->state));
    return agg_task_begin(a);
}

static sefl_status open_queue(aggregator *a)
{
    const aggregator_settings *c = a->o.settings;
    return task_queue_new(&a->queue, &(task_queue_config){ .folder = c->tasks,
                                                           .ledger = c->ledger,
                                                           .key = a->key,
                                                           .side = OWN_TASK_AGGREGATOR,
                                                           .log = a->o.log });
}

sefl_status aggregator_new(aggregator **out, const aggregator_options *o)
{
    const aggregator_settings *c = o->settings;
    SEFL_MAKE(aggregator, a, out);
    a->o = *o;
    a->wall = clock_wall(), a->mono = clock_monotonic();
    monitor_init(&a->monitor, &a->wall);
    a->coins = o->coins ? *o->coins : coins_system();
    pthread_mutex_init(&a->lock, NULL);
    pthread_mutex_init(&a->tally_lock, NULL);
    pthread_mutex_init(&a->list_lock, NULL);
    pthread_mutex_init(&a->task_lock, NULL);
    cond_init(&a->wake);
    a->listener = -1;
    a->running = (sefl_progress){ .report = is_running, .self = a };
    SEFL_TRY(tls_listen(&a->listener, c->listen.host, c->listen.port, &a->port));
    if (o->bound)
        SEFL_TRY(o->bound(o->ctx));
    server_forget_ready(c->ready_file);
    SEFL_TRY(sign_key_read(&a->key, c->sign_key));
    if (!c->tasks)
        SEFL_TRY(own_task_read(&a->task, &a->envelope, c->task, a->key, OWN_TASK_AGGREGATOR));
    SEFL_TRY(tls_id_read(&a->id, c->cert, c->tls_key, c->peers));
    if (c->ca) {
        SEFL_TRY(file_path(a->list_path, "%s/trust", c->ca));
        a->list.path = a->list_path;
        SEFL_TRY(read_list(a));
    } else {
        log_warn(o->log, "no trust list (ca): certificates cannot be revoked, sites cannot enrol");
    }
    SEFL_TRY(pool_new(&a->pool, c->threads));
    SEFL_TRY(control_open(&a->control, c->state));
    SEFL_TRY(c->tasks ? open_queue(a) : open_task(a));
    SEFL_TRY(health_start(&a->local, &c->health, pages, sizeof pages / sizeof *pages, a, o->log));
    SEFL_TRY(agg_page_start(a));
    SEFL_HAND_OVER(out, a, aggregator_free);
}

void aggregator_free(aggregator *a)
{
    if (!a)
        return;
    local_http_stop(a->local);
    page_stop(a->page);
    agg_task_end(a);
    tail_free(a->tail);
    control_close(&a->control);
    task_queue_free(a->queue);
    if (a->listener >= 0)
        close(a->listener);
    pool_free(a->pool);
    tls_id_free(a->id);
    allowlist_free(a->allowlist);
    sign_key_free(a->key);
    pthread_cond_destroy(&a->wake);
    pthread_mutex_destroy(&a->task_lock);
    pthread_mutex_destroy(&a->list_lock);
    pthread_mutex_destroy(&a->tally_lock);
    pthread_mutex_destroy(&a->lock);
    sefl_free(a);
}

/* ---- at work --------------------------------------------------------------------------------- */

void agg_pause(aggregator *a, uint64_t ms)
{
    struct timespec ts = cond_after(ms);
    pthread_mutex_lock(&a->lock);
    while (!atomic_load(&a->stop) && pthread_cond_timedwait(&a->wake, &a->lock, &ts) == 0)
        ;
    pthread_mutex_unlock(&a->lock);
}

/* Clients that keep asking cannot keep AS alive, nor the next task waiting for long. */
enum { LINGER_MOST = 10, LINGER_MOST_NEXT = 2, LINGER_LOOK_MS = 1000 };

/* Keeps answering for a while, so that clients learn that the task is over and fetch its final
 * model. */
static void linger(aggregator *a)
{
    const uint64_t most = a->o.settings->linger_s * UINT64_C(1000), start = clock_ms(&a->mono);
    pthread_mutex_lock(&a->lock);
    for (;;) {
        const uint64_t asked = atomic_load(&a->http.model_ms), now = clock_ms(&a->mono);
        const uint64_t last =
            start + (agg_queue_others(a) > 0 ? LINGER_MOST_NEXT : LINGER_MOST) * most;
        uint64_t end = (asked > start ? asked : start) + most;
        end = end < last ? end : last;
        if (atomic_load(&a->stop) || now >= end)
            break;
        cond_wait_ms(&a->wake, &a->lock, end - now < LINGER_LOOK_MS ? end - now : LINGER_LOOK_MS);
    }
    pthread_mutex_unlock(&a->lock);
}

sefl_status agg_task_run(aggregator *a)
{
    if (!task_mode(&a->task)->noisy)
        log_warn(a->o.log, "no noise: this server learns the exact average of every round");
    if (atomic_load(&a->stop)) /* while the task began */
        rounds_stop(a->rounds);
    agg_why why;
    sefl_status st = rounds_run(a->rounds);
    if (st == SEFL_OK && rounds_over(a->rounds, &why)) {
        audit_add(a->audit, "task_ended", lf_str("why", agg_why_text(why)));
        st = audit_log_sign(a->audit);
    }
    if (st == SEFL_OK)
        linger(a);
    return st;
}

sefl_status aggregator_run(aggregator *a)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(server_announce(a->o.settings->ready_file, a->o.settings->listen.host, a->port,
                             a->queue ? NULL : &a->task, a->o.log));
    st = a->queue ? agg_queue_run(a) : agg_task_run(a);
    if (st == SEFL_ECANCELLED && atomic_load(&a->stop))
        st = SEFL_OK; /* stopped cleanly; a restart continues */
    log_info(a->o.log, "stopped");
done:
    server_forget_ready(a->o.settings->ready_file);
    return st;
}

void aggregator_stop(aggregator *a)
{
    pthread_mutex_lock(&a->lock);
    atomic_store(&a->stop, true);
    pthread_cond_broadcast(&a->wake);
    pthread_mutex_unlock(&a->lock);
    pthread_mutex_lock(&a->task_lock);
    if (a->rounds)
        rounds_stop(a->rounds);
    pthread_mutex_unlock(&a->task_lock);
}

void aggregator_reload(aggregator *a)
{
    const aggregator_settings *c = a->o.settings;
    tls_id *id = NULL;
    if (tls_id_read(&id, c->cert, c->tls_key, c->peers) != SEFL_OK) {
        log_error(a->o.log, "certificates not reloaded", lf_str("why", sefl_last_error()));
        return;
    }
    pthread_mutex_lock(&a->task_lock);
    pthread_mutex_lock(&a->lock);
    tls_id *old = a->id;
    if (a->server)
        https_server_set_id(a->server, id);
    page_set_id(a->page, id);
    a->id = id;
    pthread_mutex_unlock(&a->lock);
    pthread_mutex_unlock(&a->task_lock);
    tls_id_free(old);
    log_info(a->o.log, "certificates reloaded");
}

uint16_t aggregator_port(const aggregator *a)
{
    return a->port;
}
