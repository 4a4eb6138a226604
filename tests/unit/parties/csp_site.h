/* csp_site: the CSP role with sealed updates: TLS, journals, ledgers and a trust list in a folder,
 * and AS's driver (support/as_run.h) against it. A program that includes it defines _GNU_SOURCE
 * first. */
#ifndef TESTS_CSP_SITE_H
#define TESTS_CSP_SITE_H

#include "crypto/ahe/paillier.h"
#include "protocol/task_make.h"
#include "support/as_run.h"
#include "support/check.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "net/tls.h"
#include "protocol/update.h"
#include "roles/aggregator/lanes.h"
#include "roles/csp/csp_role.h"
#include "roles/lane_words.h"
#include "roles/vouch.h"
#include "store/disk/as_disk.h"
#include "store/disk/csp_disk.h"
#include "store/ledger.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS = 3 };

static paillier_sec *sec; /* only tasks with Paillier need it */
static sign_key *as_key, *csp_key;
static const uint8_t root[CSP_KEY_BYTES] = { 0x55 };

/* ---- a federation's two servers in a folder -------------------------------------------------- */

/* A client and its update of the current round. */
typedef struct member {
    char name[24];
    uint8_t key[32]; /* fingerprint */
    sign_key *upload;
    uint8_t *body, units[32];
    bool counts; /* its values are in the sum and in `total` */
} member;

typedef struct site {
    as_run run;             /* first: AS's driver */
    char dir[64];           /* name in the scratch folder */
    member client[CLIENTS]; /* sorted by fingerprint */
    round_header header;
    uint64_t made; /* the round of their updates */
    round_entry leaves[CLIENTS];
    uint8_t heads[CLIENTS * HEAD_MAX];
    settings set; /* owns the texts of cfg */
    csp_settings cfg;
    task t;
    sefl_buf envelope;
    ahe_sum *sum;
    int64_t *total, *got, *again;
    /* CSP */
    csp_role *role;
    pthread_t thread;
    sefl_status st;
    sefl_log *log; /* NULL: none */
    /* AS */
    tls_id *id;
    journal *j;
    account *a;
    sefl_rng rng;
    sefl_clock mono;
    shares_pool *shares; /* these: joint noise */
    lanes *lanes;
    pthread_mutex_t lock;
    tls *lane;
    as_disk disk;
    as_store table;
    sefl_coins coins;
    tls *tls;
    as_peer peer; /* at the latest dial */
    bool vouched;
    head_refusal refused; /* the latest in a set */
    unsigned refusals, refused_early;
    /* what AS does wrong */
    as_record crash;                   /* before it stores this record; 0: never */
    void (*misbehave)(struct site *s); /* when round 1 collects, or before the crash */
    bool hangs;                        /* instead of closing its stream */
} site;

static inline char *in(const site *s, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder_path(s->dir), name) < 0)
        abort();
    return path;
}

static inline void make_cert(const site *s, const char *name, const char *role, const char *ca)
{
    char file[4][64];
    snprintf(file[0], 64, "%s.pem", name), snprintf(file[1], 64, "%s.key", name);
    snprintf(file[2], 64, "%s.pem", ca ? ca : ""), snprintf(file[3], 64, "%s.key", ca ? ca : "");
    char *p[4];
    for (int i = 0; i < 4; i++)
        p[i] = in(s, file[i]);
    x509_subject subject = { .name = name, .role = role, .hosts = "127.0.0.1", .days = 10 };
    CHECK_OK(x509_make(p[0], p[1], &subject, ca ? p[2] : NULL, ca ? p[3] : NULL));
    for (int i = 0; i < 4; i++)
        free(p[i]);
}

/* The TLS identity of a server with this certificate, which trusts CSP's CA. */
static inline tls_id *identity(const site *s, const char *name)
{
    char cert[32], key[32];
    tls_id *id;
    snprintf(cert, sizeof cert, "%s.pem", name), snprintf(key, sizeof key, "%s.key", name);
    char *p[3] = { in(s, cert), in(s, key), in(s, "ca-csp.pem") };
    CHECK_OK(tls_id_read(&id, p[0], p[1], p[2]));
    for (int k = 0; k < 3; k++)
        free(p[k]);
    return id;
}

static inline void make_task(site *s, const char *scheme, const char *noise)
{
    static const char *const base[] = {
        "name=link",
        "population=testers",
        "model.vocab=20",
        "model.embed=4",
        "model.hidden=4",
        "model.layers=1",
        "model.block=4",
        "vocab.sha256=0000000000000000000000000000000000000000000000000000000000000001",
        "init.sha256=00000000000000000000000000000000000000000000000000000000000000ff",
        "rounds.enrolled=8",
        "rounds.threshold=2",
        "rounds.count=5",
        "privacy.claim=none",
    };
    settings set;
    char mode[64], with[64];
    bool sealed = strcmp(scheme, "pad") == 0;
    sefl_buf doc = { 0 };
    pinned servers;
    memcpy(servers.as, sign_key_pub(as_key), SIGN_PUB_BYTES);
    memcpy(servers.csp, sign_key_pub(csp_key), SIGN_PUB_BYTES);
    snprintf(mode, sizeof mode, "privacy.noise=%s", noise);
    settings_init(&set, task_schema);
    for (size_t i = 0; i < sizeof base / sizeof base[0]; i++)
        CHECK_OK(settings_set(&set, base[i], "test"));
    CHECK_OK(settings_set(&set, mode, "test"));
    snprintf(with, sizeof with, "crypto.scheme=%s", scheme);
    CHECK_OK(settings_set(&set, with, "test"));
    if (sealed)
        CHECK_OK(settings_set(&set, "crypto.seal=x25519", "test"));
    CHECK_OK(task_make(&doc, &set, sealed ? NULL : paillier_sec_pub(sec), &servers));
    CHECK_OK(task_read(&s->t, buf_span(&doc)));
    envelope env = { .kind = SIGN_TASK, .content = buf_span(&doc) };
    CHECK_OK(envelope_sign(&env, SIGNER_AS, as_key));
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, csp_key));
    CHECK_OK(envelope_write(&s->envelope, &env));
    char *path = in(s, "task.signed");
    CHECK_OK(file_write_new(path, buf_span(&s->envelope), 0644));
    free(path);
    buf_clear(&doc);
    settings_clear(&set);
}

static inline int64_t value_of(const site *s, int client, size_t i)
{
    return (int64_t)((i * 7 + (size_t)client * 13 + s->header.round) % 101) - 50;
}

/* Each client's update of this round, for CSP's key in s->header. */
static inline void make_updates(site *s)
{
    const ahe_params *p = &s->t.ahe;
    const size_t front = head_bytes(s->t.seal);
    sefl_rng rng = rng_system();
    int64_t *x = calloc(p->units * p->unit_values, sizeof *x);
    ahe_enc *enc;
    CHECK_OK(ahe_enc_new(&enc, s->t.pub, p, NULL, NULL));
    for (int c = 0; c < CLIENTS; c++) {
        member *m = &s->client[c];
        for (size_t i = 0; i < s->t.values; i++)
            x[i] = value_of(s, c, i);
        free(m->body);
        m->body = malloc(task_body_bytes(&s->t));
        CHECK_OK(update_make(m->body, m->units,
                             &(update_facts){ .task = &s->t,
                                              .header = &s->header,
                                              .enc = enc,
                                              .client = m->key,
                                              .upload_key = m->upload },
                             x, NULL, NULL, &rng));
        memcpy(s->leaves[c].client, m->key, 32);
        memcpy(s->leaves[c].body, m->units, 32);
        memcpy(s->heads + (size_t)c * front, m->body, front);
    }
    s->made = s->header.round;
    ahe_enc_free(p, enc);
    free(x);
}

/* The sum of those that count. */
static inline void make_sum(site *s)
{
    const ahe_params *p = &s->t.ahe;
    ahe_sum_free(p, s->sum);
    CHECK_OK(ahe_sum_new(&s->sum, p, s->t.pub));
    memset(s->total, 0, s->t.values * sizeof *s->total);
    for (int c = 0; c < CLIENTS; c++)
        if (s->client[c].counts) {
            for (size_t i = 0; i < s->t.values; i++)
                s->total[i] += value_of(s, c, i);
            CHECK_OK(ahe_sum_begin(p, s->sum));
            CHECK_OK(ahe_sum_add_units(
                p, s->sum, 0, s->client[c].body + update_front_bytes(s->t.seal), p->units, NULL));
        }
    CHECK_OK(ahe_sum_close(p, s->sum));
    s->run.up.closed = s->sum;
}

/* ---- CSP's list ------------------------------------------------------------------------------ */

static inline void trust_ca(trust *t, const site *s, const char *name, trust_role role)
{
    char file[40];
    snprintf(file, sizeof file, "%s.pem", name);
    char *path = in(s, file);
    sefl_buf pem = { 0 }, der = { 0 };
    x509_info info;
    trust_issuer i = { .role = role, .state = TRUST_ACTIVE };
    CHECK_OK(x509_info_file(&info, &pem, path));
    buf_reset(&pem);
    CHECK_OK(file_read(&pem, path, 1 << 16));
    CHECK_OK(x509_info_read(&info, buf_span(&pem), &der));
    memcpy(i.key, info.fingerprint, sizeof i.key);
    snprintf(i.name, sizeof i.name, "%s", name);
    i.der = buf_span(&der);
    CHECK_OK(trust_issuer_put(t, &i));
    buf_clear(&pem), buf_clear(&der);
    free(path);
}

typedef void change_fn(trust *t, const site *s, int arg);

static inline void change_list(const site *s, change_fn *fn, int arg)
{
    char *path = in(s, "ca/trust");
    trust_edit e;
    CHECK_OK(trust_edit_begin(&e, path));
    fn(e.t, s, arg);
    CHECK_OK(trust_edit_commit(&e));
    trust_edit_end(&e);
    free(path);
}

static inline void first_list(trust *t, const site *s, int arg)
{
    (void)arg;
    t->self.role = TRUST_CSP;
    memcpy(t->self.sign, sign_key_pub(csp_key), 32);
    snprintf(t->self.name, sizeof t->self.name, "csp");
    trust_ca(t, s, "ca-as", TRUST_AGGREGATOR);
}

static inline void set_member(trust *t, const site *s, int which, trust_state to)
{
    trust_member m = { .role = TRUST_CLIENT, .state = to };
    memcpy(m.key, s->client[which].key, 32);
    snprintf(m.name, sizeof m.name, "%s", s->client[which].name);
    CHECK_OK(trust_member_put(t, &m));
}

static inline void admit(trust *t, const site *s, int which)
{
    set_member(t, s, which, TRUST_ACTIVE);
}

static inline void put_out(trust *t, const site *s, int which)
{
    set_member(t, s, which, TRUST_REVOKED);
}

static inline int by_key(const void *a, const void *b)
{
    return memcmp(((const member *)a)->key, ((const member *)b)->key, 32);
}

static inline void make_clients(site *s)
{
    sefl_rng rng = rng_system();
    for (int c = 0; c < CLIENTS; c++) {
        member *m = &s->client[c];
        char file[40];
        x509_info info;
        sefl_buf pem = { 0 };
        snprintf(m->name, sizeof m->name, "client-%d", c);
        snprintf(file, sizeof file, "%s.pem", m->name);
        make_cert(s, m->name, "client", "ca-sites");
        char *path = in(s, file);
        CHECK_OK(x509_info_file(&info, &pem, path));
        memcpy(m->key, info.fingerprint, 32);
        CHECK_OK(sign_key_new(&m->upload, &rng));
        m->counts = true;
        buf_clear(&pem);
        free(path);
    }
    qsort(s->client, CLIENTS, sizeof s->client[0], by_key);
}

/* The client's voucher, as its site creates it. */
static inline void voucher_of(sefl_buf *out, const site *s, int which, uint64_t serial)
{
    char file[2][40];
    snprintf(file[0], 40, "%s.pem", s->client[which].name);
    snprintf(file[1], 40, "%s.key", s->client[which].name);
    char *cert = in(s, file[0]), *key = in(s, file[1]);
    buf_reset(out);
    CHECK_OK(
        vouch_make(out, cert, key, sign_key_pub(s->client[which].upload), &s->t.servers, serial));
    free(cert), free(key);
}

/* As AS's: with heartbeats, because noise shares take a slow machine longer than CSP bears silence. */
static const tls_limits as_limits = { .idle_ms = LINK_IDLE_MS, .silent_ms = 30000 };

/* A lane of AS: the only one. */
static inline sefl_status dial_lane(void *ctx, unsigned lane, channel **out)
{
    site *s = ctx;
    tls *t = NULL;
    (void)lane;
    sefl_status st = tls_dial(&t, "127.0.0.1", csp_role_port(s->role), s->id,
                              &(tls_peer){ .role = "csp", .protocols = { LANE_ALPN } }, &as_limits);
    pthread_mutex_lock(&s->lock);
    s->lane = t;
    if (t)
        *out = tls_channel(t);
    pthread_mutex_unlock(&s->lock);
    return st;
}

static inline void hang_up_lane(void *ctx, unsigned lane)
{
    site *s = ctx;
    (void)lane;
    pthread_mutex_lock(&s->lock);
    tls *t = s->lane;
    s->lane = NULL;
    pthread_mutex_unlock(&s->lock);
    tls_close(t);
}

static inline void interrupt_lane(void *ctx, unsigned lane)
{
    site *s = ctx;
    (void)lane;
    pthread_mutex_lock(&s->lock);
    if (s->lane)
        tls_interrupt(s->lane);
    pthread_mutex_unlock(&s->lock);
}

static inline void open_lanes(site *s)
{
    pthread_mutex_init(&s->lock, NULL);
    s->rng = rng_system();
    s->mono = clock_monotonic();
    CHECK_OK(shares_pool_new(&s->shares, 0, &s->rng));
    CHECK_OK(lanes_new(&s->lanes, &(lanes_config){ .task = &s->t,
                                                   .pool = s->shares,
                                                   .dial = { .ctx = s,
                                                             .dial = dial_lane,
                                                             .hang_up = hang_up_lane,
                                                             .interrupt = interrupt_lane },
                                                   .key = as_key,
                                                   .coins = &s->coins,
                                                   .mono = &s->mono,
                                                   .wall = &s->mono }));
}

static inline void site_open_as(site *s)
{
    if (s->t.noise == TASK_NOISE_JOINT)
        open_lanes(s);
    char *folder = in(s, "as"), *path = in(s, "as.ledger");
    CHECK_OK(journal_open(&s->j, folder, "aggregator", s->t.id));
    CHECK_OK(account_disk_open(&s->a, s->j, path, &s->t));
    s->disk = (as_disk){ .j = s->j, .coins = &s->coins };
    s->table = as_disk_store(&s->disk);
    s->run.under = s->table;
    s->run.c.account = s->a;
    s->run.c.shares = s->shares;
    free(folder), free(path);
}

static inline void site_close_as(site *s)
{
    if (s->lanes) {
        lanes_free(s->lanes);
        shares_pool_free(s->shares);
        pthread_mutex_destroy(&s->lock);
        s->lanes = NULL, s->shares = NULL;
    }
    account_close(s->a);
    journal_close(s->j);
}

static inline void driver_begin(site *s);

static inline void site_begin_with(site *s, const char *dir, const char *scheme, const char *noise)
{
    *s = (site){ .coins = coins_system() };
    snprintf(s->dir, sizeof s->dir, "%s", dir);
    CHECK_OK(file_make_folder(folder_path(dir), 0700));
    make_cert(s, "ca-as", NULL, NULL);
    make_cert(s, "ca-csp", NULL, NULL);
    make_cert(s, "ca-sites", NULL, NULL);
    make_cert(s, "as", "aggregator", "ca-as");
    make_cert(s, "client", "client", "ca-as");
    make_cert(s, "csp", "csp", "ca-csp");
    make_cert(s, "stranger", "aggregator", "ca-csp");
    make_clients(s);
    make_task(s, scheme, noise);
    char *ca = in(s, "ca"), *list = in(s, "ca/trust");
    CHECK_OK(file_make_folder(ca, 0700));
    CHECK_OK(trust_create(list));
    free(ca), free(list);
    change_list(s, first_list, 0);
    for (int c = 0; c < CLIENTS; c++)
        change_list(s, admit, c);
    size_t n = s->t.values;
    s->total = calloc(n, sizeof *s->total);
    s->got = calloc(n, sizeof *s->got);
    s->again = calloc(n, sizeof *s->again);
    char *p[3] = { in(s, "csp.ledger"), in(s, "as.ledger"), in(s, "sign.key") };
    CHECK_OK(ledger_create(p[0], "testers"));
    CHECK_OK(ledger_create(p[1], "testers"));
    CHECK_OK(sign_key_write(csp_key, p[2]));
    for (int i = 0; i < 3; i++)
        free(p[i]);

    static const char *const lines[] = { "listen=127.0.0.1:0",
                                         "tls.cert=csp.pem",
                                         "tls.key=csp.key",
                                         "tls.peers=ca-as.pem",
                                         "sign_key=sign.key",
                                         "key=unused",
                                         "task=task.signed",
                                         "state=csp",
                                         "ledger=csp.ledger",
                                         "ready_file=ready",
                                         "threads=1",
                                         "log=off",
                                         "ca=ca" };
    settings_init(&s->set, csp_schema);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        CHECK_OK(settings_set(&s->set, lines[i], "test"));
    CHECK_OK(settings_resolve(&s->set, folder_path(dir)));
    CHECK_OK(csp_settings_make(&s->cfg, &s->set));
    s->id = identity(s, "as");
    driver_begin(s);
    site_open_as(s);
}

static inline void site_begin(site *s, const char *dir, const char *noise)
{
    site_begin_with(s, dir, "pad", noise);
}

static inline void site_end(site *s)
{
    site_close_as(s);
    for (int c = 0; c < CLIENTS; c++) {
        sign_key_free(s->client[c].upload);
        free(s->client[c].body);
    }
    ahe_sum_free(&s->t.ahe, s->sum);
    tls_id_free(s->id);
    task_clear(&s->t);
    buf_clear(&s->envelope);
    settings_clear(&s->set);
    free(s->total), free(s->got), free(s->again);
}

static inline void *run_role(void *arg)
{
    site *s = arg;
    s->st = csp_role_run(s->role);
    return NULL;
}

static _Atomic uint64_t boot_ahead_ns; /* CSP's boot time, before the true one */

static inline uint64_t boot_ns(void *self)
{
    sefl_clock true_one = clock_boot();
    (void)self;
    return clock_ns(&true_one) + boot_ahead_ns;
}

static _Atomic int64_t wall_ahead_ns; /* CSP's wall clock, before the true one */

static inline uint64_t wall_ns(void *self)
{
    sefl_clock true_one = clock_wall();
    (void)self;
    return clock_ns(&true_one) + (uint64_t)wall_ahead_ns;
}

static inline void csp_up(site *s)
{
    static const sefl_clock boot = { boot_ns, NULL }, wall = { wall_ns, NULL };
    CHECK_OK(csp_role_new(
        &s->role,
        &(csp_role_options){
            .settings = &s->cfg, .root = root, .log = s->log, .wall = &wall, .boot = &boot }));
    assert_int_equal(pthread_create(&s->thread, NULL, run_role, s), 0);
}

static inline void csp_down(site *s, bool stop)
{
    if (stop)
        csp_role_stop(s->role);
    pthread_join(s->thread, NULL);
    CHECK_OK(s->st);
    csp_role_free(s->role);
}

static inline tls *dial(site *s, const tls_id *id)
{
    tls *t;
    CHECK_OK(tls_dial(&t, "127.0.0.1", csp_role_port(s->role), id,
                      &(tls_peer){ .role = "csp", .protocols = { LINK_ALPN } }, &as_limits));
    return t;
}

static inline sefl_status greet_as(site *s, as_link **l, tls *t, const sign_key *key)
{
    static sefl_clock now;
    now = clock_wall();
    sefl_status st = as_link_new(l, tls_channel(t),
                                 &(as_link_config){ .task = &s->t,
                                                    .envelope = buf_span(&s->envelope),
                                                    .key = key,
                                                    .wall = &now,
                                                    .coins = &s->coins,
                                                    .ledger = account_port(s->a),
                                                    .shares = s->shares });
    if (st == SEFL_OK && s->lanes)
        lanes_bind(s->lanes, as_link_peer(*l)->pair);
    return st;
}

static inline sefl_status greet(site *s, as_link **l, tls *t)
{
    return greet_as(s, l, t, as_key);
}

static inline void vouch_all(site *s, as_link *l)
{
    sefl_buf b = { 0 };
    for (int c = 0; c < CLIENTS; c++) {
        voucher_of(&b, s, c, 1);
        CHECK_OK(as_link_vouch(l, buf_span(&b)));
    }
    buf_clear(&b);
}

/* ---- the driver's ports and hooks ------------------------------------------------------------ */

static inline sefl_status dial_csp(void *ctx, channel **out)
{
    site *s = ctx;
    s->tls = dial(s, s->id);
    *out = tls_channel(s->tls);
    return SEFL_OK;
}

static inline void hang_up(void *ctx)
{
    site *s = ctx;
    if (s->hangs)
        return;
    tls_close(s->tls);
    s->tls = NULL;
}

static inline void link_up(void *ctx, const as_peer *peer)
{
    site *s = ctx;
    s->peer = *peer;
    if (s->lanes)
        lanes_bind(s->lanes, peer->pair);
}

static inline sefl_status wait_for_shares(void *ctx, uint64_t round, uint64_t attempt,
                                          uint64_t count)
{
    (void)round, (void)attempt;
    return lanes_wait(((site *)ctx)->lanes, count);
}

static inline void open_round(void *me, const round_header *h)
{
    site *s = me;
    s->header = *h;
    if (s->made != h->round) {
        for (int c = 0; c < CLIENTS; c++)
            s->client[c].counts = true;
        make_updates(s);
    }
    make_sum(s);
    s->run.up.clients = CLIENTS, s->run.up.set = s->leaves;
    s->run.up.heads = s->heads, s->run.up.head_bytes = head_bytes(s->t.seal);
}

static inline void between(void *me, as_link *link)
{
    site *s = me;
    if (link && !s->vouched) {
        vouch_all(s, link);
        s->vouched = true;
    }
    if (link && s->misbehave && as_run_is_at(&s->run, 1, AGG_COLLECTING))
        s->misbehave(s);
}

static inline void refused(void *me, uint64_t round, const char *when, const head_refusal *r,
                           const uint8_t client[32], bool named)
{
    site *s = me;
    (void)round, (void)client, (void)named;
    if (strcmp(when, "set") != 0) {
        s->refused_early++;
        return;
    }
    s->refused = *r;
    s->refusals++;
}

static inline sefl_status crash(void)
{
    return sefl_fail(SEFL_EIO, "test: crash");
}

static inline sefl_status take_off(void *me, uint64_t round, const uint8_t client[32])
{
    site *s = me;
    (void)round;
    for (int c = 0; c < CLIENTS; c++)
        if (memcmp(s->client[c].key, client, 32) == 0)
            s->client[c].counts = false;
    make_sum(s);
    return s->crash == AS_VERDICT ? crash() : SEFL_OK; /* it is stored */
}

static inline sefl_status before_record(void *me, as_record what, uint64_t round, uint64_t attempt,
                                        sefl_span bytes)
{
    site *s = me;
    (void)round, (void)attempt;
    if (what == AS_HEADER)
        CHECK_OK(as_run_header(&s->header, bytes));
    if (what != s->crash || what == AS_VERDICT)
        return SEFL_OK;
    for (size_t i = 0; what == AS_RELEASE && i < s->t.values; i++)
        s->got[i] = (int64_t)load_u64(bytes.p + 8 * i);
    if (s->misbehave)
        s->misbehave(s);
    return crash();
}

static inline void driver_begin(site *s)
{
    static const as_channel to_csp = {
        .dial = dial_csp, .hang_up = hang_up, .up = link_up, .shares_wait = wait_for_shares
    };
    s->run.c = (as_rounds_config){ .task = &s->t,
                                   .envelope = buf_span(&s->envelope),
                                   .key = as_key,
                                   .coins = &s->coins,
                                   .channel = &to_csp,
                                   .strict = true };
    s->run.w = s->got;
    s->run.open = open_round;
    s->run.put = before_record;
    s->run.between = between;
    s->run.refused = refused;
    s->run.take_off = take_off;
}

/* Until AS dies before it stores this record; AS_VERDICT: after. */
static inline void run_to_crash(site *s, as_record before)
{
    s->crash = before;
    CHECK_STATUS(as_run_all(&s->run), SEFL_EIO);
    assert_string_equal(sefl_last_error(), "test: crash");
    s->crash = 0;
}

/* CSP kept those that count, and signed that. */
static inline void check_counted(const site *s, uint64_t round)
{
    as_verdict v;
    counted_statement said;
    envelope env;
    sefl_buf counted = { 0 };
    uint32_t n = 0;
    for (int c = 0; c < CLIENTS; c++)
        n += s->client[c].counts;
    CHECK_OK(as_store_verdict_get(&s->table, round, &v));
    assert_int_equal(v.kept, n);
    CHECK_OK(s->table.get(s->table.ctx, AS_COUNTED, round, &counted));
    CHECK_OK(envelope_read(&env, buf_span(&counted)));
    CHECK_OK(envelope_check_one(&env, SIGN_COUNTED, SIGNER_CSP, s->t.servers.csp));
    CHECK_OK(counted_statement_read(&said, env.content));
    assert_memory_equal(said.root, v.root, sizeof v.root);
    as_verdict_clear(&v);
    buf_clear(&counted);
}

/* ---- a group of tests ------------------------------------------------------------------------ */

static inline int site_keys(void **state)
{
    sefl_rng rng = rng_system();
    CHECK_OK(sign_key_new(&as_key, &rng));
    CHECK_OK(sign_key_new(&csp_key, &rng));
    return folder_make(state);
}

static inline int site_keys_free(void **state)
{
    sign_key_free(as_key);
    sign_key_free(csp_key);
    return folder_remove(state);
}

#endif
