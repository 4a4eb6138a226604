/* Design: the owner's thread accepts connections; a separate thread serves the stream, so that a
 * new connection can replace one that hangs. Journal, account and csp belong to the serving thread
 * while it runs; the owner uses them only before it starts and after it is joined. The health
 * page's thread reads the journal, which has its own lock, and atomics. */
#include "roles/csp/csp_inside.h"

#include "base/alloc.h"
#include "base/cond.h"
#include "base/hex.h"
#include "crypto/ahe/paillier.h"
#include "protocol/http.h"
#include "protocol/modes/mode.h"
#include "roles/ca.h"
#include "roles/health.h"
#include "roles/server.h"
#include "roles/vouch.h"
#include "store/disk/upload_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ACCEPT_MS = 200,   /* how soon a stop or a changed list is noticed */
    LINES_PER_S = 10,  /* log lines about strangers, who must not fill the disk */
    CONNECT_MS = 5000, /* a handshake */
    EXPIRE_MS = 10000, /* between checks of a round key's age, without a stream */
};

/* ---- who may connect ------------------------------------------------------------------------- */

/* Reloads the trust list if it has changed. */
static sefl_status read_list(csp_role *r)
{
    allowlist *g = NULL;
    bool older;
    if (!r->o.settings->ca)
        return SEFL_OK;
    sefl_status st =
        server_read_list(&g, &older, &r->list, !r->allowlist, TRUST_CSP, r->key, r->o.log);
    if (g) {
        pthread_mutex_lock(&r->list_lock);
        allowlist *old = r->allowlist;
        r->allowlist = g, g = old;
        pthread_mutex_unlock(&r->list_lock);
        if (older)
            counters_add(&r->counters, COUNT_TRUST_OLDER);
    }
    allowlist_free(g);
    return st;
}

static void refused(void *ctx, const x509_peer *p)
{
    csp_role *r = ctx;
    counters_peer(&r->counters, p->code);
    audit_peer_refused(r->audit, "csp", p);
    log_debug(r->o.log, "peer refused", lf_str("reason", x509_verdict_text(p->code)),
              lf_str("name", p->name), lf_key("key", p->fingerprint)); /* say_refused has why */
}

/* A callback of csp_config, on the serving thread. */
static sefl_status enrol(void *ctx, const enrol_claim *c, const enrol_proof *p)
{
    sefl_status st = SEFL_OK;
    csp_role *r = ctx;
    trust_edit e = { .lock = -1 };
    int64_t now = (int64_t)(clock_ms(&r->wall) / 1000);
    SEFL_TRY(ca_edit(&e, r->o.settings->ca));
    SEFL_TRY(ca_check(e.t, c, p, now));
    SEFL_TRY(ca_admit(e.t, c, p, 0, NULL, now));
    SEFL_TRY(trust_edit_commit(&e));
done:
    trust_edit_end(&e);
    if (st == SEFL_OK || st == SEFL_EAUTH) /* any other failure is ours, and logged */
        counters_add(&r->counters, st == SEFL_OK ? COUNT_ENROLLED : COUNT_ENROL_TOKEN);
    if (st == SEFL_OK)
        audit_once(r->audit, "enrolled", lf_str("name", c->name), lf_key("client", c->key));
    else if (st == SEFL_EAUTH)
        audit_refused(r->audit, lf_str("by", "csp"), lf_str("name", c->name),
                      lf_str("reason", "enrol.refused"));
    return st;
}

/* Reads the current list, on the serving thread: an enrolment may be newer than the owner's copy.
 * If it cannot be read, the last good one stays in force. */
static sefl_status list_now(csp_role *r, trust **out)
{
    if (trust_read(out, r->list_path) == SEFL_OK)
        return SEFL_OK;
    pthread_mutex_lock(&r->list_lock);
    *out = r->allowlist ? trust_hold(allowlist_list(r->allowlist)) : NULL;
    pthread_mutex_unlock(&r->list_lock);
    return *out ? SEFL_OK : sefl_fail(SEFL_ESTATE, "csp: no trust list could be read yet");
}

/* A callback of csp_config, on the serving thread. A client that was revoked after the round began
 * still counts. */
static sefl_status members(void *ctx, uint64_t round, bool begins, uint64_t *most)
{
    csp_role *r = ctx;
    trust *t = NULL;
    if (begins) /* unknown for a round whose header an earlier run of the process signed */
        r->round = round, r->round_since = (int64_t)(clock_ms(&r->wall) / 1000);
    sefl_status st = list_now(r, &t);
    if (st != SEFL_OK)
        return st;
    *most = ca_most_clients(t, r->round == round ? r->round_since : 0);
    trust_free(t);
    return SEFL_OK;
}

/* A callback of csp_config, on the serving thread. */
static void paired(void *ctx, const uint8_t pair[LINK_PAIR])
{
    lane_host_bind(((csp_role *)ctx)->lanes, pair);
}

static unsigned checks(void *ctx)
{
    return lane_host_checks(((csp_role *)ctx)->lanes);
}

/* On a lane's thread. */
static void check_failed(void *ctx)
{
    counters_add(&((csp_role *)ctx)->counters, COUNT_NOISE_CHECK);
}

static sefl_status make_lanes(csp_role *r)
{
    if (!task_mode(&r->task)->shares)
        return SEFL_OK;
    SEFL_PASS(coins_for(&r->coins, &r->shares_rng, "shares pool", 0, 0));
    SEFL_PASS(shares_pool_new(&r->shares, lanes_pool_max(&r->task), &r->shares_rng));
    return lane_host_new(&r->lanes, &(lane_host_config){ .task = &r->task,
                                                         .pool = r->shares,
                                                         .key = r->key,
                                                         .root = r->o.root,
                                                         .journal = r->journal,
                                                         .coins = &r->coins,
                                                         .log = r->o.log,
                                                         .ctx = r,
                                                         .failed = check_failed,
                                                         .worked = csp_monitor_noise });
}

/* ---- vouchers ----------------------------------------------------------------------------
 *
 * The lasting fact "vouched CLIENT" is for a client that only a CA vouches for: issuer 32 |
 * certificate's expiry u64. A key in CSP's own list needs no such fact. "vouching CA" counts the
 * clients of a CA that have one, u64: a CA can create any number of clients, and each of them costs
 * both servers some bytes for ever. */

enum { VOUCHED_BYTES = 40, VOUCHED_NAME = 80, VOUCHING_LEAST = 256, VOUCHING_TIMES = 16 };

static void fact_name(char out[VOUCHED_NAME], const char *what, const uint8_t key[32])
{
    char hex[HEX_CHARS(32)];
    snprintf(out, VOUCHED_NAME, "%s %s", what, hex_write(hex, key, 32));
}

/* SEFL_ESTATE if the CA has vouched for too many clients. With the journal's transaction. */
static sefl_status count_vouched(csp_role *r, const uint8_t issuer[32])
{
    char name[VOUCHED_NAME];
    uint8_t count[8] = { 0 };
    sefl_buf b = { 0 };
    const uint64_t times = VOUCHING_TIMES * (uint64_t)r->task.enrolled;
    const uint64_t most = times > VOUCHING_LEAST ? times : VOUCHING_LEAST;
    fact_name(name, "vouching", issuer);
    sefl_status st = journal_lasting_get(r->journal, name, &b);
    if (st == SEFL_OK && b.n == sizeof count)
        memcpy(count, b.p, sizeof count);
    buf_clear(&b);
    if (st != SEFL_ENOTFOUND)
        SEFL_PASS(st);
    const uint64_t clients = load_u64(count);
    SEFL_NEED(clients < most, SEFL_ESTATE,
              "voucher: its CA has vouched for %" PRIu64 " clients already, the maximum", clients);
    store_u64(count, clients + 1);
    return journal_lasting_put(r->journal, name, span_of(count, sizeof count));
}

/* Notes a client that only its CA vouches for. */
static sefl_status note_vouched(csp_role *r, const x509_peer *who, const uint8_t client[32])
{
    sefl_status st = SEFL_OK;
    char name[VOUCHED_NAME];
    uint8_t fact[VOUCHED_BYTES];
    sefl_buf b = { 0 };
    fact_name(name, "vouched", client);
    memcpy(fact, who->issuer, 32);
    store_u64(fact + 32, (uint64_t)who->until);
    SEFL_PASS(journal_begin(r->journal));
    st = journal_lasting_get(r->journal, name, &b);
    if (st == SEFL_ENOTFOUND)
        st = count_vouched(r, who->issuer);
    SEFL_TRY(st);
    SEFL_TRY(journal_lasting_put(r->journal, name, span_of(fact, sizeof fact)));
    SEFL_TRY(journal_commit(r->journal));
done:
    if (st != SEFL_OK)
        journal_rollback(r->journal);
    buf_clear(&b);
    return st;
}

/* A callback of csp_config, on the serving thread. */
static sefl_status vouch(void *ctx, const voucher *v)
{
    sefl_status st = SEFL_OK;
    csp_role *r = ctx;
    trust *t = NULL;
    allowlist *g = NULL;
    x509_peer who;
    SEFL_TRY(vouch_check(v, &r->task.servers));
    SEFL_TRY(list_now(r, &t));
    SEFL_TRY(allowlist_new(&g, t));
    SEFL_TRY(vouch_admit(&who, g, v));
    /* an old voucher must store nothing */
    SEFL_TRY(upload_key_fits(r->journal, v->client, v->serial, v->key));
    if (!who.listed)
        SEFL_TRY(note_vouched(r, &who, v->client));
    allowlist_free(r->young);
    r->young = g, g = NULL;
done:
    allowlist_free(g);
    trust_free(t);
    return st;
}

/* Returns the list to check heads against: the owner's, or that of the last voucher if it is
 * newer. */
static allowlist *newest_allowlist(csp_role *r)
{
    pthread_mutex_lock(&r->list_lock);
    allowlist *g = allowlist_hold(r->allowlist);
    pthread_mutex_unlock(&r->list_lock);
    if (r->young && (!g || allowlist_list(r->young)->change > allowlist_list(g)->change)) {
        allowlist_free(g);
        g = allowlist_hold(r->young);
    }
    return g;
}

/* A callback of csp_config, on the serving thread. */
static bool member(void *ctx, const uint8_t client[32])
{
    csp_role *r = ctx;
    x509_peer who = { .role = "client" };
    char name[VOUCHED_NAME];
    sefl_buf b = { 0 };
    bool noted = false;
    allowlist *g = newest_allowlist(r);
    if (g && !trust_find(allowlist_list(g), client)) {
        fact_name(name, "vouched", client);
        noted = journal_lasting_get(r->journal, name, &b) == SEFL_OK && b.n == VOUCHED_BYTES;
    }
    if (noted) {
        memcpy(who.fingerprint, client, sizeof who.fingerprint);
        memcpy(who.issuer, b.p, sizeof who.issuer);
        who.until = (int64_t)load_u64(b.p + 32);
    }
    bool still = g && vouch_still(g, client, noted ? &who : NULL);
    allowlist_free(g);
    buf_clear(&b);
    return still;
}

/* A callback of csp_config, on the serving thread. */
static csp_hold hold(void *ctx)
{
    return atomic_load(&((csp_role *)ctx)->hold);
}

static const local_page pages[] = { { HTTP_HEALTH_PATH, "application/json", csp_status_page },
                                    { MONITOR_PATH, PROM_TYPE, csp_monitor_page } };

static bool goes_on(void *self, uint64_t done, uint64_t total)
{
    csp_role *r = self;
    (void)done, (void)total;
    return !atomic_load(&r->ending) && !atomic_load(&r->stop);
}

static bool is_running(void *self, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    return !atomic_load(&((csp_role *)self)->stop);
}

sefl_status csp_task_fits(void *ctx, const task *t)
{
    const csp_role_options *o = &((const csp_role *)ctx)->o;
    const csp_settings *c = o->settings;
    SEFL_NEED(t->pub ? o->sec != NULL : o->root != NULL, SEFL_EINVAL,
              t->pub ? "%s is a root: a Paillier task needs its key pair"
                     : "%s is a Paillier key: sealed updates need a root ('sefl key new')",
              c->key ? c->key : "the key");
    SEFL_NEED(!t->pub || paillier_pub_equal(paillier_sec_pub(o->sec), t->pub), SEFL_EINVAL,
              "the task's public key does not belong to %s", c->key ? c->key : "the key");
    SEFL_NEED(c->ca || !task_is_sealed(t), SEFL_EINVAL,
              "this task's updates are sealed, so CSP needs its own list of clients: set `ca` to a "
              "folder of 'sefl ca new'");
    return SEFL_OK;
}

static sefl_status read_task(csp_role *r)
{
    SEFL_PASS(own_task_read(&r->task, &r->envelope, r->o.settings->task, r->key, OWN_TASK_CSP));
    return csp_task_fits(r, &r->task);
}

/* Reads the identity: keys, the task unless there is a folder of them, certificates and the trust
 * list. */
static sefl_status read_identity(csp_role *r)
{
    const csp_role_options *o = &r->o;
    const csp_settings *c = o->settings;
    SEFL_PASS(sign_key_read(&r->key, c->sign_key));
    if (!c->tasks)
        SEFL_PASS(read_task(r));
    SEFL_PASS(tls_id_read(&r->id, c->cert, c->tls_key, c->peers));
    if (!c->ca)
        log_warn(o->log, "no trust list (ca): certificates cannot be revoked, sites cannot enrol");
    SEFL_PASS(file_path(r->list_path, "%s/trust", c->ca ? c->ca : ""));
    SEFL_PASS(file_path(r->counters_path, "%s/counters.json", c->state));
    r->list.path = r->list_path;
    return read_list(r);
}

/* With task_lock. */
static sefl_status make_csp(csp_role *r)
{
    const csp_role_options *o = &r->o;
    const csp_settings *c = o->settings;
    SEFL_PASS(csp_journal_open(r, &r->journal, r->task.id));
    SEFL_PASS(account_disk_open(&r->account, r->journal, c->ledger, &r->task));
    SEFL_PASS(csp_disk_open(&r->disk, r->journal, r->account, &r->coins));
    SEFL_PASS(csp_status_restore(r));
    SEFL_PASS(csp_audit_open(r));
    monitor_task(&r->monitor, r->account, &r->task);
    SEFL_PASS(make_lanes(r));
    r->goes_on = (sefl_progress){ .report = goes_on, .self = r };
    csp_config machine = { .task = &r->task,
                           .envelope = buf_span(&r->envelope),
                           .sec = o->sec,
                           .root = o->root,
                           .key = r->key,
                           .store = &r->store,
                           .coins = &r->coins,
                           .pool = r->pool,
                           .log = o->log,
                           .clock = &r->clock,
                           .wall = &r->wall,
                           .boot = &r->boot,
                           .stop = &r->goes_on,
                           .enrol = c->ca ? enrol : NULL,
                           .enrol_ctx = r,
                           .hold = hold,
                           .members = c->ca ? members : NULL,
                           .vouch = c->ca ? vouch : NULL,
                           .member = c->ca ? member : NULL,
                           .shares = r->shares,
                           .paired = r->lanes ? paired : NULL,
                           .checks = r->lanes ? checks : NULL,
                           .lanes_ctx = r,
                           .round_over = csp_monitor_round };
    memcpy(machine.boot_id, r->boot_id, sizeof machine.boot_id);
    SEFL_PASS(csp_new(&r->csp, &machine));
    return csp_disk_bind_key(&r->disk, &r->task);
}

sefl_status csp_task_open(csp_role *r)
{
    pthread_mutex_lock(&r->task_lock);
    sefl_status st = make_csp(r);
    pthread_mutex_unlock(&r->task_lock);
    return st;
}

void csp_task_close(csp_role *r)
{
    pthread_mutex_lock(&r->task_lock);
    csp_free(r->csp);
    lane_host_free(r->lanes);
    shares_pool_free(r->shares);
    account_close(r->account);
    audit_end(r->audit);
    journal_close(r->journal);
    task_clear(&r->task);
    buf_clear(&r->envelope);
    r->csp = NULL, r->lanes = NULL, r->shares = NULL, r->account = NULL, r->journal = NULL;
    r->audit = NULL;
    r->round = 0;
    r->expire_ms = 0;
    r->swept = false;
    control_forget(&r->control);
    pthread_mutex_unlock(&r->task_lock);
}

static sefl_status listen_at(csp_role *r)
{
    const csp_settings *c = r->o.settings;
    SEFL_PASS(tls_listen(&r->fd, c->listen.host, c->listen.port, &r->port));
    return handshakes_new(&r->handshakes, r->fd);
}

static sefl_status open_all(csp_role *r)
{
    const csp_settings *c = r->o.settings;
    SEFL_PASS(c->tasks ? csp_queue_open(r) : csp_task_open(r));
    SEFL_PASS(
        health_start(&r->local, &c->health, pages, sizeof pages / sizeof *pages, r, r->o.log));
    return csp_page_start(r);
}

sefl_status csp_role_new(csp_role **out, const csp_role_options *o)
{
    const csp_settings *c = o->settings;
    SEFL_MAKE(csp_role, r, out);
    r->o = *o;
    r->fd = -1;
    r->served = true;
    r->running = (sefl_progress){ .report = is_running, .self = r };
    pthread_mutex_init(&r->list_lock, NULL);
    pthread_mutex_init(&r->task_lock, NULL);
    pthread_mutex_init(&r->seen_lock, NULL);
    r->coins = o->coins ? *o->coins : coins_system();
    r->clock = clock_monotonic();
    r->wall = o->wall ? *o->wall : clock_wall();
    r->boot = o->boot ? *o->boot : clock_boot();
    if (!clock_boot_id(r->boot_id))
        log_warn(o->log, "this machine's boot id cannot be read: after a restart in the middle of "
                         "a round CSP needs AS's clock");
    monitor_init(&r->monitor, &r->wall);
    if (!c->store)
        SEFL_TRY(listen_at(r));
    if (o->bound)
        SEFL_TRY(o->bound(o->ctx));
    server_forget_ready(c->ready_file);
    SEFL_TRY(read_identity(r));
    SEFL_TRY(pool_new(&r->pool, c->threads));
    SEFL_TRY(control_open(&r->control, c->state));
    if (!c->store)
        SEFL_TRY(open_all(r));
    SEFL_HAND_OVER(out, r, csp_role_free);
}

/* Waits for the lease; then does what csp_role_new leaves to the active process. */
static sefl_status become_active(csp_role *r)
{
    SEFL_PASS(csp_active_wait(r));
    if (atomic_load(&r->stop))
        return SEFL_OK;
    SEFL_PASS(listen_at(r));
    return open_all(r);
}

/* ---- one stream --------------------------------------------------------------------------- */

static void *serve(void *arg)
{
    csp_role *r = arg;
    sefl_status st = SEFL_OK;
    if (r->queue && r->hello.kind == 0)
        st = csp_queue_hear(r);
    if (st == SEFL_OK && r->other) { /* the owner changes the task and goes on */
        atomic_store(&r->served, true);
        return NULL;
    }
    if (st == SEFL_OK)
        st = csp_serve_from(r->csp, tls_channel(r->t), r->queue ? &r->hello : NULL);
    if (st == SEFL_OK)
        log_info(r->o.log, "aggregator ended the connection");
    else if (!atomic_load(&r->stop))
        log_warn(r->o.log, "aggregator disconnected", lf_str("status", sefl_status_name(st)),
                 lf_str("why", sefl_last_error()));
    atomic_store(&r->served, true);
    return NULL;
}

/* Ends the current stream, if there is one, and waits for its thread. */
static void end_stream(csp_role *r)
{
    if (r->serving) {
        atomic_store(&r->ending, true);
        tls_interrupt(r->t);
        pthread_join(r->thread, NULL);
        atomic_store(&r->ending, false);
        r->serving = false;
    }
    if (r->lanes)
        lane_host_unbind(r->lanes);
    tls_close(r->t);
    r->t = NULL;
    buf_clear(&r->hello.body);
    r->hello.kind = 0;
    r->other = false;
}

static sefl_status start_serving(csp_role *r)
{
    atomic_store(&r->served, false);
    sefl_status st = thread_start(&r->thread, serve, r);
    r->serving = st == SEFL_OK;
    return st;
}

/* AS has named another task on this stream. */
static sefl_status change_task(csp_role *r)
{
    pthread_join(r->thread, NULL);
    r->serving = false;
    r->other = false;
    if (csp_queue_change(r) == SEFL_OK)
        return start_serving(r);
    log_warn(r->o.log, "aggregator's task not served", lf_str("why", sefl_last_error()));
    end_stream(r);
    return SEFL_OK;
}

static sefl_status begin_stream(csp_role *r, tls *t)
{
    if (r->serving && !atomic_load(&r->served))
        log_info(r->o.log, "a new connection replaces the old one");
    end_stream(r);
    r->t = t;
    log_info(r->o.log, "aggregator connected", lf_str("name", tls_peer_info(t)->name),
             lf_key("key", tls_peer_info(t)->fingerprint));
    return start_serving(r);
}

/* A lane of the current stream: it has the same peer. (Its own thread checks its pair.) */
static sefl_status begin_lane(csp_role *r, tls *t)
{
    sefl_status st = SEFL_OK;
    SEFL_CHECK(r->lanes && r->serving && !atomic_load(&r->served), SEFL_ESTATE,
               "a lane was opened without a link");
    SEFL_CHECK(memcmp(tls_peer_info(t)->fingerprint, tls_peer_info(r->t)->fingerprint, 32) == 0,
               SEFL_EAUTH, "a lane comes from another peer than the link");
    return lane_host_take(r->lanes, t); /* it owns the stream, even after a failure */
done:
    tls_close(t);
    return st;
}

/* ---- accepting ---------------------------------------------------------------------------- */

static void read_identity_again(csp_role *r)
{
    const csp_settings *c = r->o.settings;
    tls_id *id = NULL;
    if (tls_id_read(&id, c->cert, c->tls_key, c->peers) != SEFL_OK) {
        log_error(r->o.log, "certificates not reloaded", lf_str("why", sefl_last_error()));
        return;
    }
    tls_id_free(r->id);
    r->id = id;
    page_set_id(r->page, id);
    log_info(r->o.log, "certificates reloaded");
}

/* Disconnects a peer that a changed list revokes; writes counters that changed. */
static void look_around(csp_role *r)
{
    uint64_t now = clock_ms(&r->clock);
    if (now - r->looked_ms < ACCEPT_MS) /* every connection of a stranger leads here */
        return;
    r->looked_ms = now;
    pulse_log(&r->away_told, csp_away(r), r->o.log);
    csp_status_look(r);
    if (r->queue)
        task_queue_look(r->queue);
    if (read_list(r) != SEFL_OK && trust_watch_failed(&r->list)) {
        counters_add(&r->counters, COUNT_TRUST_UNREADABLE);
        log_error(r->o.log, "trust list not reloaded", lf_str("why", sefl_last_error()));
    }
    if (r->serving && r->allowlist) {
        x509_peer who = *tls_peer_info(r->t);
        if (!allowlist_still(r->allowlist, &who)) {
            refused(r, &who);
            log_warn(r->o.log, "aggregator disconnected: it was revoked", lf_str("name", who.name),
                     lf_str("why", who.why));
            end_stream(r);
        }
    }
    atomic_store(&r->monitor.cert_ends, tls_id_expires(r->id));
    (void)own_cert_look(&r->own, tls_id_expires(r->id), (int64_t)(clock_ms(&r->wall) / 1000),
                        r->o.log);
    audit_log_tick(r->audit);
    if (counters_write(&r->counters, r->counters_path) != SEFL_OK && !r->counters_failed) {
        r->counters_failed = true; /* logs it once */
        log_error(r->o.log, "counters.json not written", lf_str("why", sefl_last_error()));
    }
    csp_status_save(r);
}

/* Checks the age of the round key; without a task, wipes all that earlier tasks left. A task's
 * stream does the same at each request, and the state machine belongs to its thread. */
static void expire(csp_role *r)
{
    sefl_status st;
    uint64_t now = clock_ms(&r->clock);
    if (r->csp ? r->serving || !task_is_sealed(&r->task) : r->swept)
        return;
    if (r->expire_ms != 0 && now - r->expire_ms < EXPIRE_MS)
        return;
    r->expire_ms = now;
    st = r->csp ? csp_expire(r->csp) : csp_queue_sweep(r);
    r->swept = !r->csp && st == SEFL_OK;
    if (st != SEFL_OK)
        log_error(r->o.log,
                  r->csp ? "cannot check the age of the round key"
                         : "cannot wipe the round keys of earlier tasks",
                  lf_str("why", sefl_last_error()));
}

/* Disconnects an AS that neither revealed nor skipped the round within the lifetime of its key
 * while the serving thread still waits for a complete request: AS must not keep a key alive by
 * sending slowly. */
static void put_out_late(csp_role *r)
{
    uint64_t until = r->csp ? csp_expires_ms(r->csp) : 0;
    if (!r->serving || until == 0 || csp_key_time_ms(r->csp) <= until + EXPIRE_MS)
        return;
    log_error(r->o.log, "the round key expired in the middle of a message: stream ended");
    end_stream(r);
    r->expire_ms = 0; /* check at once */
}

/* Logs a refused connection. */
static void say_refused(csp_role *r, sefl_status st)
{
    uint64_t now = clock_ms(&r->clock);
    if (now - r->lines_ms >= 1000) {
        if (r->lines > LINES_PER_S)
            log_warn(r->o.log, "more connections refused", lf_u64("count", r->lines - LINES_PER_S));
        r->lines_ms = now, r->lines = 0;
    }
    if (++r->lines <= LINES_PER_S)
        log_warn(r->o.log, "connection refused", lf_str("status", sefl_status_name(st)),
                 lf_str("why", sefl_last_error()));
}

/* Pauses if there is no descriptor or memory for a new connection, which waits in the queue. Logs
 * it once. */
static void wait_for_room(csp_role *r)
{
    if (!r->starved)
        log_error(r->o.log, "no connection can be accepted now", lf_str("why", sefl_last_error()));
    nanosleep(&(struct timespec){ .tv_nsec = ACCEPT_MS * 1000000L }, NULL);
}

/* True if the process has nothing more to do. */
static bool is_over(const csp_role *r)
{
    return !r->queue && csp_is_over(r->csp) && !r->o.settings->stay;
}

sefl_status csp_role_run(csp_role *r)
{
    sefl_status st = SEFL_OK;
    const tls_limits limits = { .connect_ms = CONNECT_MS,
                                .idle_ms = LINK_IDLE_MS,
                                .silent_ms = 1000 * r->o.settings->link_silence_s };
    if (r->o.settings->store)
        st = become_active(r);
    SEFL_PASS(st == SEFL_ECANCELLED && atomic_load(&r->stop) ? SEFL_OK : st);
    if (atomic_load(&r->stop) && !r->csp && !r->queue)
        return SEFL_OK; /* a standby that was not needed */
    if (is_over(r)) {   /* AS ended it in an earlier run */
        log_info(r->o.log, "the task is over");
        return SEFL_OK;
    }
    SEFL_TRY(server_announce(r->o.settings->ready_file, r->o.settings->listen.host, r->port,
                             r->queue ? NULL : &r->task, r->o.log));
    while (!atomic_load(&r->stop)) {
        tls *t = NULL;
        if (atomic_exchange(&r->reload, false))
            read_identity_again(r);
        if (r->serving && atomic_load(&r->served) && r->other) {
            SEFL_TRY(change_task(r));
        } else if (r->serving && atomic_load(&r->served)) {
            end_stream(r);
            if (is_over(r))
                break;
        }
        look_around(r);
        put_out_late(r);
        expire(r);
        const tls_peer want = { .role = "aggregator",
                                .protocols = { LINK_ALPN, LANE_ALPN },
                                .allowlist = r->allowlist,
                                .refused = refused,
                                .ctx = r };
        st = handshakes_accept(&t, r->handshakes, r->id, &want, ACCEPT_MS, &limits);
        if (t && strcmp(tls_protocol(t), LANE_ALPN) == 0)
            st = begin_lane(r, t);
        else if (t)
            SEFL_TRY(begin_stream(r, t));
        if (st == SEFL_ENOMEM)
            wait_for_room(r);
        else if (st != SEFL_OK && st != SEFL_ETIMEOUT)
            say_refused(r, st);
        r->starved = st == SEFL_ENOMEM;
        st = SEFL_OK;
    }
    end_stream(r); /* the state machine belongs to its thread until then */
    log_info(r->o.log, is_over(r) ? "the task is over" : "stopped");
done:
    end_stream(r);
    if (counters_write(&r->counters, r->counters_path) != SEFL_OK)
        log_error(r->o.log, "counters.json not written", lf_str("why", sefl_last_error()));
    csp_status_save(r);
    server_forget_ready(r->o.settings->ready_file);
    if (st == SEFL_OK && atomic_load(&r->lease_lost))
        st = sefl_fail(SEFL_ESTATE, "another process is the active CSP now");
    return st;
}

void csp_role_stop(csp_role *r)
{
    atomic_store(&r->stop, true);
}

void csp_role_reload(csp_role *r)
{
    atomic_store(&r->reload, true);
}

uint16_t csp_role_port(const csp_role *r)
{
    return r->port;
}

const csp_times *csp_role_times(const csp_role *r)
{
    return csp_get_times(r->csp);
}

void csp_role_free(csp_role *r)
{
    if (!r)
        return;
    local_http_stop(r->local);
    page_stop(r->page);
    end_stream(r);
    csp_task_close(r);
    csp_active_end(r);
    control_close(&r->control);
    task_queue_free(r->queue);
    buckets_free(r->changes);
    pool_free(r->pool);
    tls_id_free(r->id);
    handshakes_free(r->handshakes);
    allowlist_free(r->allowlist);
    allowlist_free(r->young);
    pthread_mutex_destroy(&r->list_lock);
    pthread_mutex_destroy(&r->seen_lock);
    pthread_mutex_destroy(&r->task_lock);
    sign_key_free(r->key);
    if (r->fd >= 0)
        close(r->fd);
    sefl_free(r);
}
