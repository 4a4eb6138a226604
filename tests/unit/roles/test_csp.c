/* The CSP role with sealed updates: TLS, journals, ledgers and a trust list on disk, with
 * restarts. */
#define _GNU_SOURCE
#include "crypto/ahe/paillier.h"
#include "protocol/task_make.h"
#include "support/as_run.h"
#include "support/check.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "net/tls.h"
#include "protocol/update.h"
#include "roles/csp/csp_role.h"
#include "roles/csp/vouch.h"
#include "roles/lane_words.h"
#include "store/ledger.h"
#include "sum/as_disk.h"
#include "sum/csp_disk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 3 };

static paillier_sec *sec;
static sign_key *as_key, *csp_key;
static const uint8_t root[CSP_KEY_BYTES] = { 0x55 };

/* ---- a federation's two servers in a folder ------------------------------------------------------- */

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

static char *in(const site *s, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder_path(s->dir), name) < 0)
        abort();
    return path;
}

static void make_cert(const site *s, const char *name, const char *role, const char *ca)
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

static void make_task(site *s, const char *scheme, const char *noise)
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

static int64_t value_of(const site *s, int client, size_t i)
{
    return (int64_t)((i * 7 + (size_t)client * 13 + s->header.round) % 101) - 50;
}

/* Each client's update of this round, for CSP's key in s->header. */
static void make_updates(site *s)
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
static void make_sum(site *s)
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
            CHECK_OK(ahe_sum_add_units(p, s->sum, 0, s->client[c].body + head_bytes(s->t.seal),
                                       p->units, NULL));
        }
    CHECK_OK(ahe_sum_close(p, s->sum));
    s->run.up.closed = s->sum;
}

/* ---- CSP's list ------------------------------------------------------------------------------------ */

static void trust_ca(trust *t, const site *s, const char *name, trust_role role)
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

static void change_list(const site *s, change_fn *fn, int arg)
{
    char *path = in(s, "ca/trust");
    trust_edit e;
    CHECK_OK(trust_edit_begin(&e, path));
    fn(e.t, s, arg);
    CHECK_OK(trust_edit_commit(&e));
    trust_edit_end(&e);
    free(path);
}

static void first_list(trust *t, const site *s, int arg)
{
    (void)arg;
    t->self.role = TRUST_CSP;
    memcpy(t->self.sign, sign_key_pub(csp_key), 32);
    snprintf(t->self.name, sizeof t->self.name, "csp");
    trust_ca(t, s, "ca-as", TRUST_AGGREGATOR);
}

static void set_member(trust *t, const site *s, int which, trust_state to)
{
    trust_member m = { .role = TRUST_CLIENT, .state = to };
    memcpy(m.key, s->client[which].key, 32);
    snprintf(m.name, sizeof m.name, "%s", s->client[which].name);
    CHECK_OK(trust_member_put(t, &m));
}

static void admit(trust *t, const site *s, int which)
{
    set_member(t, s, which, TRUST_ACTIVE);
}

static void put_out(trust *t, const site *s, int which)
{
    set_member(t, s, which, TRUST_REVOKED);
}

static int by_key(const void *a, const void *b)
{
    return memcmp(((const member *)a)->key, ((const member *)b)->key, 32);
}

static void make_clients(site *s)
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
static void voucher_of(sefl_buf *out, const site *s, int which, uint64_t serial)
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

/* A lane of AS: the only one. */
static sefl_status dial_lane(void *ctx, unsigned lane, channel **out)
{
    site *s = ctx;
    tls *t = NULL;
    (void)lane;
    sefl_status st = tls_dial(&t, "127.0.0.1", csp_role_port(s->role), s->id,
                              &(tls_peer){ .role = "csp", .protocols = { LANE_ALPN } },
                              &(tls_limits){ .idle_ms = 20000 });
    pthread_mutex_lock(&s->lock);
    s->lane = t;
    if (t)
        *out = tls_channel(t);
    pthread_mutex_unlock(&s->lock);
    return st;
}

static void hang_up_lane(void *ctx, unsigned lane)
{
    site *s = ctx;
    (void)lane;
    pthread_mutex_lock(&s->lock);
    tls *t = s->lane;
    s->lane = NULL;
    pthread_mutex_unlock(&s->lock);
    tls_close(t);
}

static void interrupt_lane(void *ctx, unsigned lane)
{
    site *s = ctx;
    (void)lane;
    pthread_mutex_lock(&s->lock);
    if (s->lane)
        tls_interrupt(s->lane);
    pthread_mutex_unlock(&s->lock);
}

static void open_lanes(site *s)
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
                                                   .coins = &s->coins,
                                                   .mono = &s->mono }));
}

static void site_open_as(site *s)
{
    if (s->t.noise == TASK_NOISE_JOINT)
        open_lanes(s);
    char *folder = in(s, "as"), *path = in(s, "as.ledger");
    CHECK_OK(journal_open(&s->j, folder, "aggregator", s->t.id));
    CHECK_OK(account_open(&s->a, s->j, path, &s->t));
    s->disk = (as_disk){ .j = s->j, .coins = &s->coins };
    s->table = as_disk_store(&s->disk);
    s->run.under = s->table;
    s->run.c.account = s->a;
    s->run.c.shares = s->shares;
    free(folder), free(path);
}

static void site_close_as(site *s)
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

static void driver_begin(site *s);

static void site_begin_with(site *s, const char *dir, const char *scheme, const char *noise)
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
    p[0] = in(s, "as.pem"), p[1] = in(s, "as.key"), p[2] = in(s, "ca-csp.pem");
    CHECK_OK(tls_id_read(&s->id, p[0], p[1], p[2]));
    for (int i = 0; i < 3; i++)
        free(p[i]);
    driver_begin(s);
    site_open_as(s);
}

static void site_begin(site *s, const char *dir, const char *noise)
{
    site_begin_with(s, dir, "pad", noise);
}

static void site_end(site *s)
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

static void *run_role(void *arg)
{
    site *s = arg;
    s->st = csp_role_run(s->role);
    return NULL;
}

static _Atomic uint64_t wall_ahead_ns; /* CSP's clock, before the true one */

static uint64_t wall_ns(void *self)
{
    sefl_clock true_one = clock_wall();
    (void)self;
    return clock_ns(&true_one) + wall_ahead_ns;
}

static void csp_up(site *s)
{
    static const sefl_clock wall = { wall_ns, NULL };
    CHECK_OK(csp_role_new(
        &s->role,
        &(csp_role_options){ .settings = &s->cfg, .root = root, .log = s->log, .wall = &wall }));
    assert_int_equal(pthread_create(&s->thread, NULL, run_role, s), 0);
}

static void csp_down(site *s, bool stop)
{
    if (stop)
        csp_role_stop(s->role);
    pthread_join(s->thread, NULL);
    CHECK_OK(s->st);
    csp_role_free(s->role);
}

static tls *dial(site *s, const tls_id *id)
{
    tls *t;
    CHECK_OK(tls_dial(&t, "127.0.0.1", csp_role_port(s->role), id,
                      &(tls_peer){ .role = "csp", .protocols = { LINK_ALPN } },
                      &(tls_limits){ .idle_ms = 20000 }));
    return t;
}

static sefl_status greet_as(site *s, as_link **l, tls *t, const sign_key *key)
{
    sefl_status st = as_link_new(l, tls_channel(t),
                                 &(as_link_config){ .task = &s->t,
                                                    .envelope = buf_span(&s->envelope),
                                                    .key = key,
                                                    .coins = &s->coins,
                                                    .ledger = account_port(s->a),
                                                    .shares = s->shares });
    if (st == SEFL_OK && s->lanes)
        lanes_bind(s->lanes, as_link_peer(*l)->pair);
    return st;
}

static sefl_status greet(site *s, as_link **l, tls *t)
{
    return greet_as(s, l, t, as_key);
}

static void vouch_all(site *s, as_link *l)
{
    sefl_buf b = { 0 };
    for (int c = 0; c < CLIENTS; c++) {
        voucher_of(&b, s, c, 1);
        CHECK_OK(as_link_vouch(l, buf_span(&b)));
    }
    buf_clear(&b);
}

/* ---- the driver's ports and hooks ------------------------------------------------------------ */

static sefl_status dial_csp(void *ctx, channel **out)
{
    site *s = ctx;
    s->tls = dial(s, s->id);
    *out = tls_channel(s->tls);
    return SEFL_OK;
}

static void hang_up(void *ctx)
{
    site *s = ctx;
    if (s->hangs)
        return;
    tls_close(s->tls);
    s->tls = NULL;
}

static void link_up(void *ctx, const as_peer *peer)
{
    site *s = ctx;
    s->peer = *peer;
    if (s->lanes)
        lanes_bind(s->lanes, peer->pair);
}

static sefl_status wait_for_shares(void *ctx, uint64_t round, uint64_t attempt, uint64_t count)
{
    (void)round, (void)attempt;
    return lanes_wait(((site *)ctx)->lanes, count);
}

static void open_round(void *me, const round_header *h)
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

static void between(void *me, as_link *link)
{
    site *s = me;
    if (link && !s->vouched) {
        vouch_all(s, link);
        s->vouched = true;
    }
    if (link && s->misbehave && as_run_is_at(&s->run, 1, AGG_COLLECTING))
        s->misbehave(s);
}

static void refused(void *me, uint64_t round, const char *when, const head_refusal *r,
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

static sefl_status crash(void)
{
    return sefl_fail(SEFL_EIO, "test: crash");
}

static sefl_status take_off(void *me, uint64_t round, const uint8_t client[32])
{
    site *s = me;
    (void)round;
    for (int c = 0; c < CLIENTS; c++)
        if (memcmp(s->client[c].key, client, 32) == 0)
            s->client[c].counts = false;
    make_sum(s);
    return s->crash == AS_VERDICT ? crash() : SEFL_OK; /* it is stored */
}

static sefl_status before_record(void *me, as_record what, uint64_t round, uint64_t attempt,
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

static void driver_begin(site *s)
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
static void run_to_crash(site *s, as_record before)
{
    s->crash = before;
    CHECK_STATUS(as_run_all(&s->run), SEFL_EIO);
    assert_string_equal(sefl_last_error(), "test: crash");
    s->crash = 0;
}

/* CSP kept those that count, and signed that. */
static void check_counted(const site *s, uint64_t round)
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

/* ---- tests ---------------------------------------------------------------------------------------- */

/* Round 2 is signed, and its key there: the operator ends the task. */
static void end_in_round_2(void *me, as_link *link)
{
    site *s = me;
    if (!link || !as_run_is_at(&s->run, 2, AGG_COLLECTING))
        return;
    char *kem = in(s, "csp/task-1/round-2.kem");
    assert_true(file_exists(kem));
    CHECK_OK(as_run_event(&s->run, AGG_STOP));
    free(kem);
}

/* CSP's ledger has the records of AS's. */
static void check_ledgers(const site *s)
{
    ledger_head a, c = { 0 };
    journal *j;
    account *other;
    CHECK_OK(account_port(s->a).head(s->a, &a));
    CHECK_OK(journal_open(&j, s->cfg.state, "csp", s->t.id));
    CHECK_OK(account_open(&other, j, s->cfg.ledger, &s->t));
    CHECK_OK(account_port(other).head(other, &c));
    assert_true(a.records == c.records && a.records == 3); /* population, task, one charge */
    assert_memory_equal(a.hash, c.hash, sizeof a.hash);
    account_close(other);
    journal_close(j);
}

/* Revealed once; both servers die and restart: the same numbers from their stored state. */
static void rounds_survive_both(void **state)
{
    (void)state;
    static const char *const modes[] = { "none", "own", "joint" };
    for (int m = 0; m < 3; m++) {
        site s;
        site_begin(&s, modes[m], modes[m]);
        char *ready = in(&s, "ready"), *kem = in(&s, "csp/task-1/round-1.kem");
        char *kem2 = in(&s, "csp/task-1/round-2.kem");
        csp_up(&s);
        s.run.early = 2;
        run_to_crash(&s, AS_RELEASE);
        assert_true(file_exists(ready));
        assert_int_equal(s.peer.revealed, 0);
        assert_int_equal(s.refused_early, 0);
        assert_false(file_exists(kem)); /* wiped before the output left */
        check_counted(&s, 1);
        if (m == 0)
            assert_memory_equal(s.got, s.total, s.t.values * sizeof *s.got);
        for (size_t i = 0; m == 2 && i < s.t.values;
             i++) { /* steps of 2^t; the noise is below 62 */
            double off = (double)s.got[i] + 0.5 - ldexp((double)s.total[i], -(int)s.t.ahe.pack.t);
            assert_true(off > -66 && off < 66);
        }
        csp_down(&s, true);
        assert_false(file_exists(ready));
        site_close_as(&s);

        site_open_as(&s);
        csp_up(&s);
        s.run.w = s.again;
        s.run.between = end_in_round_2;
        CHECK_OK(as_run_all(&s.run));
        assert_int_equal(s.peer.revealed, 1); /* CSP sent what it had kept */
        assert_memory_equal(s.got, s.again, s.t.values * sizeof *s.got);
        check_counted(&s, 1);
        assert_false(file_exists(kem2));
        csp_down(&s, false); /* the task is over: CSP ends by itself */
        csp_up(&s);          /* it remembers that the task is over */
        csp_down(&s, false);
        check_ledgers(&s);
        free(ready), free(kem), free(kem2);
        site_end(&s);
    }
}

/* A peer that hangs does not block the next one; nor do unknown peers. */
static void the_newest_connection_is_served(void **state)
{
    (void)state;
    site s;
    as_link *l[2], *none;
    tls *t[2], *wrong;
    tls_id *id;
    uint8_t byte;
    site_begin(&s, "newest", "none");
    csp_up(&s);
    s.run.early = 3;
    s.hangs = true;
    run_to_crash(&s, AS_SET); /* all heads are sent; and AS says nothing more */
    tls *old = s.tls;
    s.run.early = 0;
    s.hangs = false;
    CHECK_OK(as_run_until(&s.run, 2, AGG_SIGNING)); /* CSP discards heads of the other stream */
    check_counted(&s, 1);
    assert_memory_equal(s.got, s.total, s.t.values * sizeof *s.got);
    assert_int_not_equal(channel_recv(tls_channel(old), &byte, 1), SEFL_OK);
    tls_close(old);

    for (int i = 0; i < 2; i++) {
        t[i] = dial(&s, s.id);
        CHECK_OK(greet(&s, &l[i], t[i]));
    }
    assert_int_not_equal(as_link_ping(l[0]), SEFL_OK);
    assert_true(as_link_dead(l[0]));
    CHECK_OK(as_link_ping(l[1]));

    static const char *const names[] = { "client", "stranger" };
    for (int i = 0; i < 2; i++) { /* another role; another CA */
        char cert[32], key[32];
        snprintf(cert, sizeof cert, "%s.pem", names[i]),
            snprintf(key, sizeof key, "%s.key", names[i]);
        char *p[3] = { in(&s, cert), in(&s, key), in(&s, "ca-csp.pem") };
        CHECK_OK(tls_id_read(&id, p[0], p[1], p[2]));
        sefl_status st = tls_dial(&wrong, "127.0.0.1", csp_role_port(s.role), id,
                                  &(tls_peer){ .role = "csp", .protocols = { LINK_ALPN } },
                                  &(tls_limits){ .idle_ms = 20000 });
        if (st == SEFL_OK) { /* told at the first receive: TLS 1.3 */
            st = greet(&s, &none, wrong);
            tls_close(wrong);
        }
        assert_int_not_equal(st, SEFL_OK);
        tls_id_free(id);
        for (int k = 0; k < 3; k++)
            free(p[k]);
        CHECK_OK(as_link_ping(l[1])); /* the current connection stays */
    }
    csp_role_reload(s.role);
    usleep(500000);
    CHECK_OK(as_link_ping(l[1]));
    for (int i = 0; i < 2; i++)
        as_link_free(l[i]), tls_close(t[i]);
    csp_down(&s, true);
    site_end(&s);
}

/* ---- lanes ---------------------------------------------------------------------------------------- */

static tls_id *identity(const site *s, const char *name)
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

/* Sends LANE with this identity; CSP's answer: 0 if it closes, LINK_YES, or a link_no. */
static unsigned ask_lane(site *s, const tls_id *id, const uint8_t pair[LINK_PAIR], tls **out)
{
    tls *t;
    uint16_t no = 0;
    CHECK_OK(tls_dial(&t, "127.0.0.1", csp_role_port(s->role), id,
                      &(tls_peer){ .role = "csp", .protocols = { LANE_ALPN } },
                      &(tls_limits){ .idle_ms = 20000 }));
    sefl_status st = link_send(tls_channel(t), LINK_LANE, span_of(pair, LINK_PAIR));
    if (st == SEFL_OK)
        st = lane_hear(tls_channel(t), &no);
    unsigned said = st != SEFL_OK ? 0 : no ? no : LINK_YES;
    if (said == LINK_YES && out)
        *out = t;
    else
        tls_close(t);
    return said;
}

static void lanes_belong_to_the_link(void **state)
{
    (void)state;
    site s;
    as_link *l;
    tls *t, *lane;
    uint8_t pair[LINK_PAIR] = { 0 }, byte;
    site_begin(&s, "lanes", "joint");
    make_cert(&s, "as2", "aggregator", "ca-as");
    tls_id *other = identity(&s, "as2");
    site_close_as(&s); /* its own lanes would be in the way */
    task_noise real = s.t.noise;
    s.t.noise = TASK_NOISE_NONE;
    site_open_as(&s);
    s.t.noise = real;
    csp_up(&s);
    assert_int_equal(ask_lane(&s, s.id, pair, NULL), 0); /* no link */
    t = dial(&s, s.id);
    assert_int_equal(ask_lane(&s, s.id, pair, NULL), LINK_NO_PAIR); /* it has sent nothing yet */
    CHECK_STATUS(greet_as(&s, &l, t, csp_key),
                 SEFL_EAUTH); /* AS's TLS key without its signing key */
    assert_int_equal(ask_lane(&s, s.id, pair, NULL), LINK_NO_PAIR);
    CHECK_OK(greet(&s, &l, t));
    memcpy(pair, as_link_peer(l)->pair, sizeof pair);
    assert_int_equal(ask_lane(&s, other, pair, NULL),
                     0); /* another peer, though it knows the pair */
    pair[31] ^= 1;
    assert_int_equal(ask_lane(&s, s.id, pair, NULL), LINK_NO_PAIR);
    pair[31] ^= 1;
    assert_int_equal(ask_lane(&s, s.id, pair, &lane), LINK_YES);
    CHECK_OK(as_link_ping(l)); /* lanes do not affect it */
    as_link_free(l);
    tls_close(t);
    assert_int_not_equal(channel_recv(tls_channel(lane), &byte, 1), SEFL_OK); /* closed with it */
    tls_close(lane);
    t = dial(&s, s.id);
    CHECK_OK(greet(&s, &l, t));
    assert_memory_not_equal(as_link_peer(l)->pair, pair, sizeof pair);
    assert_int_equal(ask_lane(&s, s.id, pair, NULL), LINK_NO_PAIR); /* of the link before */
    as_link_free(l);
    tls_close(t);
    csp_down(&s, true);
    tls_id_free(other);
    site_end(&s);
}

/* AS's OT corrections, changed in transit. */
typedef struct bent {
    channel *inner;
} bent;

static sefl_status bent_send(void *self, const void *p, size_t n)
{
    if (n < 10000)
        return channel_send(((bent *)self)->inner, p, n);
    uint8_t *copy = malloc(n);
    memcpy(copy, p, n);
    for (size_t i = 0; i < n;
         i += 61) /* in every tree: a change in one passes where Delta has zeros */
        copy[i] ^= 1;
    sefl_status st = channel_send(((bent *)self)->inner, copy, n);
    free(copy);
    return st;
}

static sefl_status bent_recv(void *self, void *p, size_t n)
{
    return channel_recv(((bent *)self)->inner, p, n);
}

static sefl_status bent_flush(void *self)
{
    return channel_flush(((bent *)self)->inner);
}

static const channel_ops bent_ops = { bent_send, bent_recv, bent_flush };

static void cheat(site *s)
{
    const uint8_t *pair = s->peer.pair;
    tls *lane;
    uint64_t count = lanes_session(&s->t), *x = calloc(count, sizeof *x);
    uint8_t bytes[8];
    uint16_t no;
    shares_result r;
    shares_params p = { .csp = s->t.servers.csp };
    sefl_rng rng = rng_system();
    assert_int_equal(ask_lane(s, s->id, pair, &lane), LINK_YES);
    store_u64(bytes, count);
    CHECK_OK(link_send(tls_channel(lane), LINK_FILL, span_of(bytes, sizeof bytes)));
    CHECK_OK(lane_hear(tls_channel(lane), &no));
    assert_int_equal(no, 0);
    lane_params(&p, &s->t, pair, count);
    bent b = { tls_channel(lane) };
    channel ch = { .ops = &bent_ops, .self = &b };
    assert_int_not_equal(shares_evaluate(&r, x, &ch, &p, &rng), SEFL_OK);
    tls_close(lane);
    free(x);
}

/* Counted over restarts; the third one ends the task at both. */
static void three_failed_checks_end_the_task(void **state)
{
    (void)state;
    site s;
    as_link *l;
    tls *t;
    sefl_buf both = { 0 };
    site_begin(&s, "checks", "joint");
    s.misbehave = cheat;
    for (int i = 0; i < CSP_CHECKS_MAX; i++) {
        csp_up(&s);
        run_to_crash(&s, AS_HEADER); /* CSP signs the same one each time */
        csp_down(&s, true);
    }
    csp_up(&s);
    t = dial(&s, s.id);
    CHECK_OK(greet(&s, &l, t));
    assert_int_equal(ask_lane(&s, s.id, as_link_peer(l)->pair, NULL), LINK_NO_CHECKS);
    CHECK_STATUS(lanes_wait(s.lanes, s.t.values), SEFL_ESTATE);
    assert_non_null(lanes_ended(s.lanes));
    assert_false(as_link_ended(l));
    CHECK_STATUS(as_link_header(l, &both, &s.header), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "too many failed checks"));
    assert_true(as_link_ended(l));
    as_link_free(l);
    tls_close(t);
    csp_down(&s, true);
    buf_clear(&both);
    site_end(&s);
}

/* Strangers at the port, one after the other: a few log lines, not one each. */
static void strangers_do_not_fill_the_disk(void **state)
{
    (void)state;
    site s;
    sefl_buf b = { 0 };
    unsigned lines = 0;
    site_begin(&s, "strangers", "none");
    char *path = in(&s, "log");
    sefl_log lg = { .level = LOG_INFO, .fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600) };
    s.log = &lg;
    csp_up(&s);
    for (int i = 0; i < 60; i++) {
        struct sockaddr_in to = { .sin_family = AF_INET,
                                  .sin_port = htons(csp_role_port(s.role)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        char answer[64];
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
        assert_int_equal(send(fd, "no handshake at all", 19, MSG_NOSIGNAL), 19);
        while (recv(fd, answer, sizeof answer, 0) > 0) /* until CSP closes the connection */
            ;
        close(fd);
    }
    csp_down(&s, true);
    close(lg.fd);
    CHECK_OK(file_read(&b, path, 1 << 20));
    for (size_t i = 0; i + 18 < b.n; i++)
        lines += memcmp(b.p + i, "connection refused", 18) == 0;
    assert_in_range(lines, 5, 40);
    buf_clear(&b);
    free(path);
    site_end(&s);
}

/* No file descriptor is left: CSP waits instead of spinning, reports it once, and continues. */
static void descriptors_run_out(void **state)
{
    (void)state;
    site s;
    sefl_buf b = { 0 };
    unsigned lines = 0;
    site_begin(&s, "descriptors", "none");
    char *path = in(&s, "log");
    sefl_log lg = { .level = LOG_INFO, .fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600) };
    s.log = &lg;
    csp_up(&s);
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(csp_role_port(s.role)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    for (int i = 0; i < 500 && b.n == 0; i++) { /* its files are closed when it says "ready" */
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
        CHECK_OK(file_read(&b, path, 1 << 20));
        if (!memmem(b.p, b.n, "ready", 5))
            buf_reset(&b);
    }
    assert_true(b.n > 0);
    buf_reset(&b);
    int fd = socket(AF_INET, SOCK_STREAM, 0), next = dup(fd);
    struct rlimit was, low;
    char answer[64];
    assert_true(fd >= 0 && next >= 0 && getrlimit(RLIMIT_NOFILE, &was) == 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ .tv_sec = 20 },
                                sizeof(struct timeval)),
                     0);
    close(next);
    low = (struct rlimit){ .rlim_cur = (rlim_t)next, .rlim_max = was.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    clock_t before = clock();
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    nanosleep(&(struct timespec){ .tv_sec = 1, .tv_nsec = 200000000 }, NULL);
    double spent = (double)(clock() - before) / CLOCKS_PER_SEC;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_true(spent < 0.6); /* of 1.2 s */
    assert_int_equal(send(fd, "no handshake at all", 19, MSG_NOSIGNAL), 19);
    ssize_t n;
    do { /* it is accepted now, and refused */
        n = recv(fd, answer, sizeof answer, 0);
    } while (n > 0);
    assert_true(n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK));
    close(fd);
    csp_down(&s, true);
    close(lg.fd);
    CHECK_OK(file_read(&b, path, 1 << 20));
    for (size_t i = 0; i + 33 < b.n; i++)
        lines += memcmp(b.p + i, "no connection can be accepted now", 33) == 0;
    assert_int_equal(lines, 1);
    buf_clear(&b);
    free(path);
    site_end(&s);
}

/* Inconsistent files prevent the start. */
static void wrong_keys_do_not_start(void **state)
{
    (void)state;
    site s;
    csp_role *r;
    site_begin(&s, "wrong", "none");
    CHECK_STATUS(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .sec = sec }),
                 SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "root"));
    const char *ca = s.cfg.ca; /* sealed updates without a list of clients */
    s.cfg.ca = NULL;
    CHECK_STATUS(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .root = root }),
                 SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "set `ca`"));
    s.cfg.ca = ca;

    const char *kept = s.cfg.sign_key;
    char *path = in(&s, "other.key");
    CHECK_OK(sign_key_write(as_key, path));
    s.cfg.sign_key = path;
    CHECK_STATUS(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .root = root }),
                 SEFL_EAUTH);
    s.cfg.sign_key = kept;
    free(path);

    sefl_buf one = { 0 }; /* AS's signature is missing */
    envelope env;
    CHECK_OK(envelope_read(&env, buf_span(&s.envelope)));
    env.by[0] = env.by[1], env.count = 1;
    CHECK_OK(envelope_write(&one, &env));
    path = in(&s, "one.signed"), kept = s.cfg.task;
    CHECK_OK(file_write_new(path, buf_span(&one), 0644));
    s.cfg.task = path;
    CHECK_STATUS(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .root = root }),
                 SEFL_EAUTH);
    s.cfg.task = kept;
    free(path);

    path = in(&s, "no.ledger"), kept = s.cfg.ledger; /* CSP never creates a ledger silently */
    s.cfg.ledger = path;
    CHECK_STATUS(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .root = root }),
                 SEFL_ENOTFOUND);
    s.cfg.ledger = kept;
    free(path);
    CHECK_OK(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .root = root }));
    csp_role_free(r);
    buf_clear(&one);
    site_end(&s);
}

/* The same state folder and secret key with another Paillier task. */
static void a_key_serves_one_task(void **state)
{
    (void)state;
    site s, next;
    csp_role *r;
    site_begin_with(&s, "first", "paillier", "none");
    site_begin_with(&next, "next", "paillier", "own");
    for (int i = 0; i < 2; i++) { /* the same task may start again */
        CHECK_OK(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .sec = sec }));
        csp_role_free(r);
    }
    const char *state_ = next.cfg.state, *ledger_ = next.cfg.ledger;
    next.cfg.state = s.cfg.state, next.cfg.ledger = s.cfg.ledger;
    CHECK_STATUS(csp_role_new(&r, &(csp_role_options){ .settings = &next.cfg, .sec = sec }),
                 SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "a key serves one task: create a new key"));
    next.cfg.state = state_, next.cfg.ledger = ledger_;
    CHECK_OK(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .sec = sec }));
    csp_role_free(r);
    site_end(&next);
    site_end(&s);
}

/* ---- whose heads count ------------------------------------------------------------------------------ */

static void trust_sites(trust *t, const site *s, int which)
{
    trust_ca(t, s, "ca-sites", TRUST_CLIENT);
    trust_member_drop(t, trust_find(t, s->client[which].key));
}

static void distrust_sites(trust *t, const site *s, int arg)
{
    (void)s, (void)arg;
    for (size_t i = 0; i < t->issuers; i++)
        if (t->issuer[i].role == TRUST_CLIENT)
            t->issuer[i].state = TRUST_REVOKED;
}

static void drop_member(trust *t, const site *s, int which)
{
    trust_member_drop(t, trust_find(t, s->client[which].key));
}

/* CSP refused one client of the latest set. */
static void refused_is(site *s, uint32_t index, head_reason why)
{
    assert_int_equal(s->refusals, 1);
    assert_int_equal(s->refused.index, index);
    assert_int_equal(s->refused.reason, why);
    s->refusals = 0;
}

/* CSP accepts a voucher from a member, immediately after the list changes, or from a client whose
 * CA it trusts; it refuses others, old serials and a key that another client has. */
static void vouchers(void **state)
{
    (void)state;
    site s;
    as_link *l;
    sefl_buf b = { 0 };
    site_begin(&s, "vouchers", "none");
    change_list(&s, drop_member, 0);
    csp_up(&s);
    tls *t = dial(&s, s.id);
    CHECK_OK(greet(&s, &l, t));
    voucher_of(&b, &s, 0, 5);
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH);
    change_list(&s, admit, 0);
    CHECK_OK(as_link_vouch(l, buf_span(&b)));
    CHECK_OK(as_link_vouch(l, buf_span(&b))); /* sent again */
    b.p[100] ^= 1;
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH);
    sign_key *mine = s.client[0].upload;
    s.client[0].upload = s.client[1].upload; /* another key */
    voucher_of(&b, &s, 0, 4);
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH); /* an old serial */
    s.client[0].upload = mine;
    sign_key *hers = s.client[1].upload;
    s.client[1].upload = mine;
    voucher_of(&b, &s, 1, 9);
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH); /* another client's key */
    s.client[1].upload = hers;

    change_list(&s, drop_member, 2);
    voucher_of(&b, &s, 2, 1);
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH);
    change_list(&s, admit, 2);
    change_list(&s, trust_sites, 2);
    CHECK_OK(as_link_vouch(l, buf_span(&b)));
    CHECK_OK(as_link_ping(l));

    /* a client that a CA vouches for: an old voucher does not change what the newest one's certificate said */
    sefl_buf newer = { 0 }, noted = { 0 };
    voucher_of(&newer, &s, 2, 3);
    CHECK_OK(as_link_vouch(l, buf_span(&newer)));
    as_link_free(l);
    tls_close(t);
    csp_down(&s, true);
    char name[80] = "vouched ";
    static const uint8_t mark[40] = { 1, 2, 3 };
    for (int i = 0; i < 32; i++)
        snprintf(name + 8 + 2 * i, 3, "%02x", s.client[2].key[i]);
    journal *j;
    CHECK_OK(journal_open(&j, s.cfg.state, "csp", s.t.id));
    CHECK_OK(journal_lasting_get(j, name, &noted)); /* it was recorded */
    CHECK_OK(journal_lasting_put(j, name, span_of(mark, sizeof mark)));
    journal_close(j);
    csp_up(&s);
    t = dial(&s, s.id);
    CHECK_OK(greet(&s, &l, t));
    CHECK_STATUS(as_link_vouch(l, buf_span(&b)), SEFL_EAUTH);
    as_link_free(l);
    tls_close(t);
    csp_down(&s, true);
    CHECK_OK(journal_open(&j, s.cfg.state, "csp", s.t.id));
    buf_clear(&noted);
    CHECK_OK(journal_lasting_get(j, name, &noted));
    assert_int_equal(noted.n, sizeof mark);
    assert_memory_equal(noted.p, mark, sizeof mark);
    journal_close(j);
    buf_clear(&newer);
    buf_clear(&noted);
    buf_clear(&b);
    site_end(&s);
}

static void revoke_1(void *me)
{
    change_list(me, put_out, 1);
    usleep(700000); /* reloaded several times per second */
}

static void lose_round_1(void *me, as_link *link)
{
    site *s = me;
    if (link && as_run_is_at(&s->run, 1, AGG_REVEALING))
        CHECK_OK(as_run_event(&s->run, AGG_LOST));
}

/* Revoked between EARLY and SET: the list in force at SET decides. A client of a trusted CA counts
 * as long as the CA is trusted. */
static void members_are_asked_for_each_head(void **state)
{
    (void)state;
    site s;
    site_begin(&s, "members", "none");
    change_list(&s, trust_sites, 2); /* client 2 is not a member: its CA vouches for it */
    csp_up(&s);
    s.run.early = 3;
    s.run.frozen = revoke_1;
    run_to_crash(&s, AS_VERDICT);
    assert_int_equal(s.refused_early, 0);
    refused_is(&s, 1, HEAD_MEMBER);
    csp_down(&s, true);

    csp_up(&s); /* the verdict stands: another set for the round is refused */
    s.made = 0; /* other bodies */
    s.run.frozen = NULL;
    CHECK_STATUS(as_run_until(&s.run, 2, AGG_SIGNING), SEFL_ESTATE);

    change_list(&s, admit, 1);
    change_list(&s, distrust_sites, 0);
    usleep(700000);
    s.run.early = 0;
    s.run.between = lose_round_1;
    CHECK_OK(as_run_until(&s.run, 3, AGG_SIGNING));
    refused_is(&s, 2, HEAD_MEMBER);
    check_counted(&s, 2);
    assert_true(s.client[1].counts && !s.client[2].counts);
    assert_memory_equal(s.got, s.total, s.t.values * sizeof *s.got);
    csp_down(&s, true);
    site_end(&s);
}

/* A round whose key is gone or has expired is skipped: nobody can open its heads any more. */
static void keys_that_are_gone(void **state)
{
    (void)state;
    site s;
    site_begin(&s, "gone", "none");
    char *kem = in(&s, "csp/task-1/round-1.kem"), *kem2 = in(&s, "csp/task-1/round-2.kem");
    csp_up(&s);
    CHECK_OK(as_run_until(&s.run, 1, AGG_COLLECTING));
    csp_down(&s, true);
    assert_int_equal(unlink(kem), 0);
    csp_up(&s);
    CHECK_STATUS(as_run_until(&s.run, 2, AGG_COLLECTING), SEFL_ECRYPTO);
    s.run.c.strict = false; /* AS skips the round */
    CHECK_OK(as_run_until(&s.run, 2, AGG_COLLECTING));
    assert_true(file_exists(kem2));
    csp_down(&s, true);

    journal *j; /* signed long ago */
    journal_round row;
    CHECK_OK(journal_open(&j, s.cfg.state, "csp", s.t.id));
    CHECK_OK(journal_round_get(j, 2, &row));
    assert_true(row.opened_ms > 0);
    row.opened_ms = 1;
    CHECK_OK(journal_round_put(j, &row));
    journal_close(j);
    csp_up(&s); /* CSP checks even if AS asks nothing */
    for (int i = 0; i < 500 && file_exists(kem2); i++)
        usleep(10000);
    assert_false(file_exists(kem2));
    CHECK_OK(as_run_until(&s.run, 3, AGG_COLLECTING));
    assert_int_equal(s.peer.skipped, 2);
    csp_down(&s, true);
    free(kem), free(kem2);
    site_end(&s);
}

/* A message that never ends: a byte now and then, until round 1's key is gone. */
static void talk_slowly(site *s)
{
    uint8_t frame[MSG_HEADER] = { 0 }, byte = 0;
    char *kem = in(s, "csp/task-1/round-1.kem");
    channel *ch = tls_channel(s->tls);
    assert_true(file_exists(kem));
    store_u32(frame, LINK_EARLY);
    store_u64(frame + 8, LINK_HEADS_PIECE);
    CHECK_OK(channel_send(ch, frame, sizeof frame));
    CHECK_OK(channel_flush(ch));
    wall_ahead_ns = UINT64_C(1000000) * (s->t.deadline_ms + s->t.extensions * s->t.extend_ms) +
                    UINT64_C(25) * 3600 * 1000000000;
    for (int i = 0; i < 500 && file_exists(kem); i++) {
        if (channel_send(ch, &byte, 1) == SEFL_OK)
            (void)!channel_flush(ch);
        usleep(10000);
    }
    assert_false(file_exists(kem));
    free(kem);
}

/* AS cannot keep a key alive by a message that never ends. */
static void a_slow_message_keeps_no_key(void **state)
{
    (void)state;
    site s;
    as_link *l;
    site_begin(&s, "slow", "none");
    csp_up(&s);
    s.misbehave = talk_slowly;
    CHECK_OK(as_run_until(&s.run, 1, AGG_COLLECTING));
    tls *t = dial(&s, s.id);
    CHECK_OK(greet(&s, &l, t));
    assert_int_equal(as_link_peer(l)->skipped, 1);
    as_link_free(l);
    tls_close(t);
    csp_down(&s, true);
    wall_ahead_ns = 0;
    site_end(&s);
}

static void settings_are_checked(void **state)
{
    (void)state;
    static const char *const must[] = { "tls.cert=c", "tls.key=k", "tls.peers=p", "sign_key=s",
                                        "key=x",      "task=t",    "state=d",     "ledger=l" };
    static const struct {
        const char *listen, *host;
        unsigned port;
    } address[] = { { "127.0.0.1:0", "127.0.0.1", 0 },
                    { "[::1]:7001", "::1", 7001 },
                    { "csp.example:65535", "csp.example", 65535 },
                    { "::1:7001", NULL, 0 },
                    { "host", NULL, 0 },
                    { ":7001", NULL, 0 },
                    { "host:65536", NULL, 0 },
                    { "host:", NULL, 0 },
                    { "host:-1", NULL, 0 },
                    { "[::1]7001", NULL, 0 },
                    { "host:70x", NULL, 0 } };
    for (size_t i = 0; i < sizeof address / sizeof address[0]; i++) {
        settings set;
        csp_settings c;
        char line[64];
        settings_init(&set, csp_schema);
        for (size_t k = 0; k < sizeof must / sizeof must[0]; k++)
            CHECK_OK(settings_set(&set, must[k], "test"));
        if (i == 0)
            CHECK_STATUS(csp_settings_make(&c, &set), SEFL_EINVAL); /* listen is required */
        snprintf(line, sizeof line, "listen=%s", address[i].listen);
        CHECK_STATUS(settings_set(&set, line, "test"), address[i].host ? SEFL_OK : SEFL_EINVAL);
        CHECK_OK(settings_resolve(&set, i % 2 ? NULL : "/etc/sefl"));
        CHECK_STATUS(csp_settings_make(&c, &set), address[i].host ? SEFL_OK : SEFL_EINVAL);
        if (address[i].host) {
            assert_string_equal(c.listen.host, address[i].host);
            assert_int_equal(c.listen.port, address[i].port);
            assert_string_equal(c.ledger, i % 2 ? "l" : "/etc/sefl/l");
            assert_null(c.key_lock);
            CHECK_OK(settings_set(&set, "key_lock=a", "test"));
            CHECK_OK(settings_set(&set, "passphrase_file=b", "test"));
            CHECK_STATUS(csp_settings_make(&c, &set), SEFL_EINVAL);
        }
        settings_clear(&set);
    }
}

static int begin(void **state)
{
    sefl_rng rng = rng_system();
    CHECK_OK(paillier_keygen_vartime(&sec, 2048, &rng, NULL));
    CHECK_OK(sign_key_new(&as_key, &rng));
    CHECK_OK(sign_key_new(&csp_key, &rng));
    return folder_make(state);
}

static int end(void **state)
{
    paillier_sec_free(sec);
    sign_key_free(as_key);
    sign_key_free(csp_key);
    return folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(wrong_keys_do_not_start),
        cmocka_unit_test(a_key_serves_one_task),
        cmocka_unit_test(rounds_survive_both),
        cmocka_unit_test(the_newest_connection_is_served),
        cmocka_unit_test(lanes_belong_to_the_link),
        cmocka_unit_test(three_failed_checks_end_the_task),
        cmocka_unit_test(vouchers),
        cmocka_unit_test(members_are_asked_for_each_head),
        cmocka_unit_test(keys_that_are_gone),
        cmocka_unit_test(a_slow_message_keeps_no_key),
        cmocka_unit_test(strangers_do_not_fill_the_disk),
        cmocka_unit_test(descriptors_run_out),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
