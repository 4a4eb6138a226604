/* The CSP as it runs: TLS, journals and ledgers on a disk, started again in between. */
#define _GNU_SOURCE
#include "support/check.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "net/tls.h"
#include "protocol/as_link.h"
#include "roles/csp.h"
#include "roles/journal_as.h"
#include "roles/journal_csp.h"
#include "store/ledger.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
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

/* ---- a federation's two servers in a folder ------------------------------------------------------- */

typedef struct site {
    char dir[64]; /* name in the scratch folder */
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
    journal_as *ja;
    as_journal table;
    sefl_coins coins;
    uint64_t attempt;
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

static void make_task(site *s, const char *noise)
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
        "crypto.scheme=lwe",
    };
    settings set;
    char mode[64];
    sefl_buf doc = { 0 };
    pinned servers;
    memcpy(servers.as, sign_key_pub(as_key), SIGN_PUB_BYTES);
    memcpy(servers.csp, sign_key_pub(csp_key), SIGN_PUB_BYTES);
    snprintf(mode, sizeof mode, "privacy.noise=%s", noise);
    settings_init(&set, task_schema);
    for (size_t i = 0; i < sizeof base / sizeof base[0]; i++)
        CHECK_OK(settings_set(&set, base[i], "test"));
    CHECK_OK(settings_set(&set, mode, "test"));
    CHECK_OK(task_make(&doc, &set, paillier_sec_pub(sec), &servers));
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

static void make_sum(site *s, uint64_t round)
{
    const ahe_params *p = &s->t.ahe;
    sefl_rng rng = rng_system();
    size_t n = p->units * p->unit_values;
    int64_t *x = calloc(n, sizeof *x);
    uint8_t *body = malloc(ahe_body_bytes(p)), context[AHE_CONTEXT_BYTES];
    ahe_enc *enc;
    ahe_sum_free(p, s->sum);
    memset(s->total, 0, s->t.values * sizeof *s->total);
    CHECK_OK(ahe_enc_new(&enc, s->t.pub, p, NULL, NULL));
    CHECK_OK(ahe_sum_new(&s->sum, p, s->t.pub));
    task_context(context, &s->t, round);
    for (int c = 0; c < CLIENTS; c++) {
        ahe_upload *up;
        for (size_t i = 0; i < s->t.values; i++)
            s->total[i] += x[i] = (int64_t)((i * 7 + (size_t)c * 13 + round) % 101) - 50;
        CHECK_OK(ahe_upload_new(&up, p, enc, context, &rng));
        CHECK_OK(ahe_upload_head(p, up, body, NULL));
        CHECK_OK(ahe_upload_units(p, up, body + p->head_bytes, x, p->units, NULL, NULL));
        ahe_upload_free(p, up);
        CHECK_OK(ahe_sum_add_head(p, s->sum, body));
        CHECK_OK(ahe_sum_add_units(p, s->sum, 0, body + p->head_bytes, p->units, NULL));
    }
    CHECK_OK(ahe_sum_close(p, s->sum));
    ahe_enc_free(p, enc);
    free(x), free(body);
}

static void site_open_as(site *s)
{
    char *folder = in(s, "as"), *path = in(s, "as.ledger");
    CHECK_OK(journal_open(&s->j, folder, "aggregator", s->t.id));
    CHECK_OK(account_open(&s->a, s->j, path, &s->t));
    CHECK_OK(journal_as_new(&s->ja, s->j, &s->coins));
    s->table = journal_as_table(s->ja);
    free(folder), free(path);
}

static void site_close_as(site *s)
{
    journal_as_free(s->ja);
    account_close(s->a);
    journal_close(s->j);
}

static void site_begin(site *s, const char *dir, const char *noise)
{
    *s = (site){ .coins = coins_system() };
    snprintf(s->dir, sizeof s->dir, "%s", dir);
    CHECK_OK(file_make_folder(folder_path(dir), 0700));
    make_cert(s, "ca-as", NULL, NULL);
    make_cert(s, "ca-csp", NULL, NULL);
    make_cert(s, "as", "aggregator", "ca-as");
    make_cert(s, "client", "client", "ca-as");
    make_cert(s, "csp", "csp", "ca-csp");
    make_cert(s, "stranger", "aggregator", "ca-csp");
    make_task(s, noise);
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

    static const char *const lines[] = {
        "listen=127.0.0.1:0", "tls.cert=csp.pem", "tls.key=csp.key",  "tls.peers=ca-as.pem",
        "sign_key=sign.key",  "key=unused",       "task=task.signed", "state=csp",
        "ledger=csp.ledger",  "ready_file=ready", "threads=1",        "log=off"
    };
    settings set;
    settings_init(&set, csp_schema);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        CHECK_OK(settings_set(&set, lines[i], "test"));
    CHECK_OK(csp_settings_make(&s->cfg, &set, folder_path(dir)));
    settings_clear(&set);
    p[0] = in(s, "as.pem"), p[1] = in(s, "as.key"), p[2] = in(s, "ca-csp.pem");
    CHECK_OK(tls_id_read(&s->id, p[0], p[1], p[2]));
    for (int i = 0; i < 3; i++)
        free(p[i]);
    site_open_as(s);
}

static void site_end(site *s)
{
    site_close_as(s);
    ahe_sum_free(&s->t.ahe, s->sum);
    tls_id_free(s->id);
    task_clear(&s->t);
    buf_clear(&s->envelope);
    csp_settings_clear(&s->cfg);
    free(s->total), free(s->got), free(s->again);
}

static void *run_role(void *arg)
{
    site *s = arg;
    s->st = csp_role_run(s->role);
    return NULL;
}

static void csp_up(site *s)
{
    CHECK_OK(csp_role_new(&s->role,
                          &(csp_role_options){ .settings = &s->cfg, .sec = sec, .log = s->log }));
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

static sefl_status greet(site *s, as_link **l, tls *t)
{
    return as_link_new(l, tls_channel(t),
                       &(as_link_config){ .task = &s->t,
                                          .envelope = buf_span(&s->envelope),
                                          .key = as_key,
                                          .coins = &s->coins,
                                          .ledger = account_mark_fn,
                                          .compare = account_compare_fn,
                                          .ledger_ctx = s->a });
}

static void sign_header(site *s, as_link *l, uint64_t round)
{
    sefl_buf both = { 0 };
    round_header h = { .round = round, .step_nano = 1, .model = { (uint8_t)round } };
    memcpy(h.task, s->t.id, sizeof h.task);
    CHECK_OK(as_link_header(l, &both, &h));
    buf_clear(&both);
}

static void open_round(site *s, as_link *l, uint64_t round, bool want_kept, int64_t *w)
{
    bool kept;
    as_open o = { .round = round,
                  .attempt = ++s->attempt,
                  .clients = CLIENTS,
                  .set = { 9 },
                  .sum = s->sum,
                  .journal = &s->table };
    CHECK_OK(account_charge(s->a, round));
    CHECK_OK(as_link_open(l, &o, &kept, w));
    assert_int_equal(kept, want_kept);
}

/* ---- tests ---------------------------------------------------------------------------------------- */

/* Opened once; both servers die and come back: the same numbers from what both kept. */
static void rounds_survive_both(void **state)
{
    (void)state;
    static const char *const modes[] = { "none", "joint" };
    for (int m = 0; m < 2; m++) {
        site s;
        as_link *l;
        tls *t;
        ledger_mark a, c = { 0 };
        site_begin(&s, modes[m], modes[m]);
        make_sum(&s, 1);
        csp_up(&s);
        char *ready = in(&s, "ready");
        t = dial(&s, s.id);
        CHECK_OK(greet(&s, &l, t));
        assert_true(file_exists(ready));
        sign_header(&s, l, 1);
        open_round(&s, l, 1, false, s.got);
        if (m == 0)
            assert_memory_equal(s.got, s.total, s.t.values * sizeof *s.got);
        as_link_free(l);
        tls_close(t);
        csp_down(&s, true);
        assert_false(file_exists(ready));
        site_close_as(&s);

        site_open_as(&s);
        csp_up(&s);
        t = dial(&s, s.id);
        CHECK_OK(greet(&s, &l, t));
        sign_header(&s, l, 1);
        open_round(&s, l, 1, true, s.again);
        assert_memory_equal(s.got, s.again, s.t.values * sizeof *s.got);
        sign_header(&s, l, 2); /* the release of round 1 is out */
        CHECK_OK(as_link_skip(l, 2, 1));
        as_link_free(l);
        tls_close(t);

        t = dial(&s, s.id); /* the task is over: CSP ends by itself */
        CHECK_OK(greet(&s, &l, t));
        CHECK_OK(as_link_bye(l, true));
        CHECK_OK(channel_flush(tls_channel(t)));
        as_link_free(l);
        tls_close(t);
        csp_down(&s, false);
        csp_up(&s); /* it remembers: nobody will come any more */
        csp_down(&s, false);
        CHECK_OK(account_mark(s.a, &a));
        journal *j;
        account *other;
        CHECK_OK(journal_open(&j, s.cfg.state, "csp", s.t.id));
        CHECK_OK(account_open(&other, j, s.cfg.ledger, &s.t));
        CHECK_OK(account_mark(other, &c));
        assert_true(a.records == c.records && a.records == 3); /* population, task, one charge */
        assert_memory_equal(a.hash, c.hash, sizeof a.hash);
        account_close(other);
        journal_close(j);
        free(ready);
        site_end(&s);
    }
}

/* A peer that hangs does not keep the next one out; nor do those whom CSP does not know. */
static void the_newest_connection_is_served(void **state)
{
    (void)state;
    site s;
    as_link *l[2], *none;
    tls *t[2], *wrong;
    tls_id *id;
    site_begin(&s, "newest", "none");
    make_sum(&s, 1);
    csp_up(&s);
    t[0] = dial(&s, s.id);
    CHECK_OK(greet(&s, &l[0], t[0]));
    sign_header(&s, l[0], 1); /* and says nothing more */
    t[1] = dial(&s, s.id);
    CHECK_OK(greet(&s, &l[1], t[1]));
    open_round(&s, l[1], 1, false, s.got);
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
        CHECK_OK(as_link_ping(l[1])); /* the one that is served stays */
    }
    csp_role_reload(s.role);
    usleep(500000);
    CHECK_OK(as_link_ping(l[1]));
    for (int i = 0; i < 2; i++)
        as_link_free(l[i]), tls_close(t[i]);
    csp_down(&s, true);
    site_end(&s);
}

/* What does not belong together does not start. */
/* Strangers at the port, one after the other: a few lines, not one each. */
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
        while (recv(fd, answer, sizeof answer, 0) > 0) /* until it hangs up */
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

/* No descriptor is left: it waits instead of turning round and round, says so once, and goes on. */
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
    for (size_t i = 0; i + 26 < b.n; i++)
        lines += memcmp(b.p + i, "nobody can be accepted now", 26) == 0;
    assert_int_equal(lines, 1);
    buf_clear(&b);
    free(path);
    site_end(&s);
}

static void wrong_keys_do_not_start(void **state)
{
    (void)state;
    site s;
    csp_role *r;
    paillier_sec *other;
    sefl_rng rng = rng_system();
    site_begin(&s, "wrong", "none");
    CHECK_OK(paillier_keygen_vartime(&other, 2048, &rng, NULL));
    CHECK_STATUS(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .sec = other }),
                 SEFL_EINVAL);
    paillier_sec_free(other);

    char *path = in(&s, "other.key"), *kept = s.cfg.sign_key;
    CHECK_OK(sign_key_write(as_key, path));
    s.cfg.sign_key = path;
    CHECK_STATUS(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .sec = sec }),
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
    CHECK_STATUS(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .sec = sec }),
                 SEFL_EAUTH);
    s.cfg.task = kept;
    free(path);

    path = in(&s, "no.ledger"), kept = s.cfg.ledger; /* a ledger is never made silently */
    s.cfg.ledger = path;
    CHECK_STATUS(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .sec = sec }),
                 SEFL_ENOTFOUND);
    s.cfg.ledger = kept;
    free(path);
    CHECK_OK(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .sec = sec }));
    csp_role_free(r);
    buf_clear(&one);
    site_end(&s);
}

/* The same state folder and secret key, another task. */
static void a_key_serves_one_task(void **state)
{
    (void)state;
    site s, next;
    csp_role *r;
    site_begin(&s, "first", "none");
    site_begin(&next, "next", "own");
    for (int i = 0; i < 2; i++) { /* the same task may begin again */
        CHECK_OK(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .sec = sec }));
        csp_role_free(r);
    }
    char *state_ = next.cfg.state, *ledger_ = next.cfg.ledger;
    next.cfg.state = s.cfg.state, next.cfg.ledger = s.cfg.ledger;
    CHECK_STATUS(csp_role_new(&r, &(csp_role_options){ .settings = &next.cfg, .sec = sec }),
                 SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "a key serves one task: make a new one"));
    next.cfg.state = state_, next.cfg.ledger = ledger_;
    CHECK_OK(csp_role_new(&r, &(csp_role_options){ .settings = &s.cfg, .sec = sec }));
    csp_role_free(r);
    site_end(&next);
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
            CHECK_STATUS(csp_settings_make(&c, &set, NULL), SEFL_EINVAL); /* listen must be given */
        snprintf(line, sizeof line, "listen=%s", address[i].listen);
        CHECK_OK(settings_set(&set, line, "test"));
        CHECK_STATUS(csp_settings_make(&c, &set, i % 2 ? NULL : "/etc/sefl"),
                     address[i].host ? SEFL_OK : SEFL_EINVAL);
        if (address[i].host) {
            assert_string_equal(c.host, address[i].host);
            assert_int_equal(c.port, address[i].port);
            assert_string_equal(c.ledger, i % 2 ? "l" : "/etc/sefl/l");
            assert_null(c.key_lock);
            csp_settings_clear(&c);
            CHECK_OK(settings_set(&set, "key_lock=a", "test"));
            CHECK_OK(settings_set(&set, "passphrase_file=b", "test"));
            CHECK_STATUS(csp_settings_make(&c, &set, NULL), SEFL_EINVAL);
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
        cmocka_unit_test(strangers_do_not_fill_the_disk),
        cmocka_unit_test(descriptors_run_out),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
