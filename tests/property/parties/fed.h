/* fed: a whole federation for tests that link the roles: each role in its own process, over real
 * TLS on loopback, from a provisioned folder, with named coins (simulate/named_coins.h) or the
 * system's. An observer records what each client encrypts, beside the folder.
 *
 *     fed f;
 *     fed_make(&f, "pad", 4, "rounds.count=3 model.embed=16");
 *     f.seed = 7;                                      // named coins; 0: the system's
 *     fed_start_csp(&f); fed_start_aggregator(&f); fed_start_client(&f, 0); ...
 *     fed_await(&f, f.aggregator, 60);                   // SEFL_OK and exit code 0
 *     fed_end(&f);                                       // kills what is left
 *
 * Processes are children of the test, signalled by id until they have been waited for. */
#ifndef TESTS_ROLES_FED_H
#define TESTS_ROLES_FED_H

#include "protocol/task_make.h"
#include "support/check.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "config/yaml/yaml.h"
#include "crypto/keyfile.h"
#include "operator/provision.h"
#include "roles/aggregator/aggregator.h"
#include "roles/client/client.h"
#include "roles/csp/csp_role.h"
#include "simulate/named_coins.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Instrumented programs take longer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FED_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FED_SANITIZED 1
#endif
#endif
#ifdef FED_SANITIZED
enum { FED_SLOW = 5 };
#else
enum { FED_SLOW = 1 };
#endif

enum { FED_CLIENTS = 16 };

typedef struct fed {
    char name[64];
    char folder[PATH_MAX - 256]; /* provisioned */
    char seen[PATH_MAX - 256];   /* what clients encrypted: CLIENT-ROUND, int64 */
    unsigned clients;
    uint64_t seed;
    unsigned linger;          /* linger of AS in seconds; 0 means 1 */
    const char *link_silence; /* of both servers, "link_silence=SECONDS"; NULL: as always */
    task t;
    pinned servers;
    pid_t csp, aggregator, client[FED_CLIENTS];
    uint16_t csp_port, as_port;
    uint16_t dial_csp, dial_as; /* where others connect instead (a relay); 0: the port itself */
} fed;

static inline const char *fed_path(const fed *f, const char *fmt, ...) SEFL_PRINTF(2, 3);
static inline const char *fed_path(const fed *f, const char *fmt, ...)
{
    static char path[4][PATH_MAX];
    static unsigned next;
    char *p = path[next++ % 4];
    int n = snprintf(p, PATH_MAX, "%s/", f->folder);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p + n, (size_t)(PATH_MAX - n), fmt, ap);
    va_end(ap);
    return p;
}

static inline uint64_t fed_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline void fed_pause(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000 * 1000 }, NULL);
}

/* settings: assignments of the task, separated by spaces. */
static inline void fed_make(fed *f, const char *name, const char *scheme, unsigned clients,
                            uint64_t words, const char *task_settings)
{
    settings s;
    provision_report r;
    char text[1024], *save = NULL;
    *f = (fed){ .clients = clients };
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->folder, sizeof f->folder, "%s", folder_path(name));
    snprintf(f->seen, sizeof f->seen, "%.3000s.seen", f->folder);
    assert_int_equal(mkdir(f->seen, 0700), 0);
    settings_init(&s, task_schema);
    snprintf(text, sizeof text, "crypto.scheme=%s %s", scheme, task_settings);
    for (char *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
        CHECK_OK(settings_set(&s, one, "test"));
    CHECK_OK(provision_make(
        &r,
        &(provision_config){
            .folder = f->folder, .clients = clients, .words = words, .seed = 1, .task = &s },
        NULL));
    settings_clear(&s);
    sefl_buf b = { 0 };
    CHECK_OK(sign_pub_read(f->servers.as, fed_path(f, "public/aggregator.pub")));
    CHECK_OK(sign_pub_read(f->servers.csp, fed_path(f, "public/csp.pub")));
    CHECK_OK(file_read(&b, fed_path(f, "public/task.signed"), 1 << 20));
    CHECK_OK(task_open(&f->t, buf_span(&b), &f->servers));
    buf_clear(&b);
}

/* ---- processes ------------------------------------------------------------------------------- */

typedef struct fed_child {
    const fed *f;
    unsigned client;
    sefl_log log;
    sefl_clock wall;
    named_coins *named;
    sefl_coins inner, coins; /* coins: inner, and every name asked for is a line of coins.txt */
    char who[64];
    int asked;             /* that file */
    const sefl_coins *use; /* NULL: the system's */
    char folder[PATH_MAX];
} fed_child;

/* Writes "WHO PURPOSE-WITHOUT-BLANKS ROUND ATTEMPT", then asks for the coins. */
static inline sefl_status fed_coins_get(void *self, sefl_rng *out, const char *purpose,
                                        uint64_t round, uint64_t attempt)
{
    const fed_child *c = self;
    char line[256], word[64];
    snprintf(word, sizeof word, "%s", purpose);
    for (char *p = word; *p; p++)
        *p = *p == ' ' ? '-' : *p;
    int n = snprintf(line, sizeof line, "%s %s %" PRIu64 " %" PRIu64 "\n", c->who, word, round,
                     attempt);
    if (write(c->asked, line, (size_t)n) != n) /* one write: whole lines of several processes */
        return sefl_fail(SEFL_EIO, "the list of coins: %s", strerror(errno));
    return c->inner.get(c->inner.self, out, purpose, round, attempt);
}

/* In the child: its own log, its coins. */
static inline void fed_child_begin(fed_child *c, const char *who, const char *folder)
{
    const fed *f = c->f;
    snprintf(c->folder, sizeof c->folder, "%s", folder);
    int fd = open(fed_path(f, "%s.log", who), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        _exit(9);
    (void)dup2(fd, 2);
    c->wall = clock_wall();
    c->log = log_open(2, LOG_DEBUG, &c->wall);
    if (f->seed > 0) {
        snprintf(c->who, sizeof c->who, "%s", who);
        c->asked = open(fed_path(f, "coins.txt"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (named_coins_new(&c->named, who, f->seed) != SEFL_OK || c->asked < 0)
            _exit(7);
        c->inner = named_coins_of(c->named);
        c->coins = (sefl_coins){ .get = fed_coins_get, .self = c };
        c->use = &c->coins;
    }
}

static inline _Noreturn void fed_child_end(fed_child *c, sefl_status st)
{
    if (st != SEFL_OK)
        log_error(&c->log, "ended", lf_str("why", sefl_last_error()));
    _exit(st == SEFL_OK ? 0 : 1);
}

/* A child of a process with threads inherits every lock as it was, and a held lock stays held
 * forever, so a test has no threads when it forks. (OpenBLAS ends its own at a fork; a sanitizer
 * may keep one.) */
static inline void fed_is_alone(void)
{
#ifndef FED_SANITIZED
    struct stat s;
    for (uint64_t end = fed_now_ms() + 1000;;
         fed_pause()) { /* a joined thread may still be listed */
        assert_int_equal(stat("/proc/self/task", &s), 0);
        if (s.st_nlink - 2 == 1 || fed_now_ms() >= end)
            break;
    }
    assert_int_equal(s.st_nlink - 2, 1);
#endif
}

static inline pid_t fed_fork(void)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlives the test */
    else
        fed_is_alone();
    return pid;
}

static inline sefl_status fed_settings(settings *s, const setting_def *schema, const char *file,
                                       const char *key, const char *host, unsigned port)
{
    sefl_status st = SEFL_OK;
    char value[64];
    settings_init(s, schema);
    SEFL_TRY(yaml_read(s, file));
    if (key) {
        snprintf(value, sizeof value, "%s:%u", host, port);
        SEFL_TRY(settings_set_pair(s, span_of_str(key), span_of_str(value), "test"));
    }
done:
    return st;
}

/* CSP's secret: a pair of keys for paillier, else the root of its round keys. */
static inline sefl_status fed_open_key(paillier_sec **sec, uint8_t root[KEYFILE_ROOT_BYTES],
                                       const fed *f)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 }, lock = { 0 };
    SEFL_TRY(file_read(&file, fed_path(f, "csp/key.sealed"), KEYFILE_BYTES_MAX));
    SEFL_TRY(file_read(&lock, fed_path(f, "csp/key.lock"), 1024));
    sealed_lock by = { SEALED_BY_KEY_FILE, buf_span(&lock) };
    if (task_is_sealed(&f->t))
        SEFL_TRY(keyfile_root_read(root, buf_span(&file), &by));
    else
        SEFL_TRY(keyfile_sec_read(sec, buf_span(&file), &by, NULL));
done:
    buf_clear(&file);
    buf_clear(&lock);
    return st;
}

static inline sefl_status fed_run_csp(fed_child *c)
{
    sefl_status st = SEFL_OK;
    settings s;
    csp_settings cfg = { 0 };
    csp_role *role = NULL;
    paillier_sec *sec = NULL;
    uint8_t root[KEYFILE_ROOT_BYTES];
    fed_child_begin(c, "CSP", fed_path(c->f, "csp"));
    SEFL_TRY(fed_settings(&s, csp_schema, fed_path(c->f, "csp/csp.yml"), "listen", "127.0.0.1",
                          c->f->csp_port));
    if (c->f->link_silence)
        SEFL_TRY(settings_set(&s, c->f->link_silence, "test"));
    SEFL_TRY(csp_settings_make(&cfg, &s));
    SEFL_TRY(fed_open_key(&sec, root, c->f));
    SEFL_TRY(csp_role_new(&role, &(csp_role_options){ .settings = &cfg,
                                                      .sec = sec,
                                                      .root = sec ? NULL : root,
                                                      .log = &c->log,
                                                      .coins = c->use }));
    SEFL_TRY(csp_role_run(role));
done:
    csp_role_free(role);
    return st;
}

static inline void fed_observe(void *ctx, uint64_t round, const int64_t *X, size_t n)
{
    const fed_child *c = ctx;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/client-%02u-%" PRIu64, c->f->seen, c->client + 1, round);
    if (file_write_atomic(path, span_of(X, n * sizeof *X), 0600) != SEFL_OK)
        _exit(8);
}

static inline sefl_status fed_run_client(fed_child *c)
{
    sefl_status st = SEFL_OK;
    settings s;
    client_config cfg = { 0 };
    client *cl = NULL;
    char who[32];
    snprintf(who, sizeof who, "client-%02u", c->client + 1);
    fed_child_begin(c, who, fed_path(c->f, "clients/%s", who));
    SEFL_TRY(fed_settings(&s, client_schema, fed_path(c->f, "clients/%s/client.yml", who), "server",
                          "127.0.0.1", c->f->dial_as ? c->f->dial_as : c->f->as_port));
    SEFL_TRY(client_config_make(&cfg, &s));
    SEFL_TRY(client_new(&cl, &(client_options){ .config = &cfg,
                                                .log = &c->log,
                                                .coins = c->use,
                                                .observe = fed_observe,
                                                .observe_ctx = c }));
    SEFL_TRY(client_run(cl));
done:
    client_free(cl);
    return st;
}

static inline sefl_status fed_run_aggregator(fed_child *c)
{
    sefl_status st = SEFL_OK;
    const fed *f = c->f;
    settings s;
    aggregator_settings cfg = { 0 };
    aggregator *role = NULL;
    char at[32];
    fed_child_begin(c, "AS", fed_path(f, "aggregator"));
    SEFL_TRY(fed_settings(&s, aggregator_schema, fed_path(f, "aggregator/aggregator.yml"), "listen",
                          "127.0.0.1", f->as_port));
    snprintf(at, sizeof at, "127.0.0.1:%u", f->dial_csp ? f->dial_csp : f->csp_port);
    SEFL_TRY(settings_set_pair(&s, span_of_str("csp"), span_of_str(at), "test"));
    char linger[32];
    snprintf(linger, sizeof linger, "linger=%u", f->linger ? f->linger : 1);
    SEFL_TRY(settings_set(&s, linger, "test"));
    if (f->link_silence)
        SEFL_TRY(settings_set(&s, f->link_silence, "test"));
    SEFL_TRY(aggregator_settings_make(&cfg, &s));
    SEFL_TRY(aggregator_new(
        &role, &(aggregator_options){ .settings = &cfg, .log = &c->log, .coins = c->use }));
    SEFL_TRY(aggregator_run(role));
done:
    aggregator_free(role);
    return st;
}

/* The port in a ready file, when it is there; the process must be alive. */
static inline uint16_t fed_ready(const fed *f, const char *role, pid_t pid)
{
    for (uint64_t end = fed_now_ms() + 30000 * FED_SLOW; fed_now_ms() < end; fed_pause()) {
        sefl_buf b = { 0 };
        unsigned port = 0;
        if (file_read(&b, fed_path(f, "%s/ready", role), 256) == SEFL_OK &&
            wr_u8(&b, 0) == SEFL_OK) {
            const char *colon = strrchr((const char *)b.p, ':');
            port = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
        }
        buf_clear(&b);
        if (port > 0)
            return (uint16_t)port;
        siginfo_t info = { 0 };
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
            break;
        if (info.si_pid != 0) /* ended already; the waiter gets the status */
            return strcmp(role, "csp") == 0 ? f->csp_port : f->as_port;
    }
    fail_msg("%s does not come up; see %s", role, f->folder);
    return 0;
}

static inline void fed_start_csp(fed *f)
{
    (void)unlink(fed_path(f, "csp/ready"));
    if ((f->csp = fed_fork()) == 0) {
        static fed_child c;
        c = (fed_child){ .f = f };
        sefl_status st = fed_run_csp(&c);
        fed_child_end(&c, st);
    }
    f->csp_port = fed_ready(f, "csp", f->csp);
}

static inline void fed_start_aggregator(fed *f)
{
    (void)unlink(fed_path(f, "aggregator/ready"));
    if ((f->aggregator = fed_fork()) == 0) {
        static fed_child c;
        c = (fed_child){ .f = f };
        sefl_status st = fed_run_aggregator(&c);
        fed_child_end(&c, st);
    }
    f->as_port = fed_ready(f, "aggregator", f->aggregator);
}

static inline void fed_start_client(fed *f, unsigned i)
{
    if ((f->client[i] = fed_fork()) == 0) {
        static fed_child c;
        c = (fed_child){ .f = f, .client = i };
        sefl_status st = fed_run_client(&c);
        fed_child_end(&c, st);
    }
}

static inline void fed_kill(pid_t *pid)
{
    if (*pid > 0) {
        (void)kill(*pid, SIGKILL);
        (void)waitpid(*pid, NULL, 0);
    }
    *pid = 0;
}

static inline void fed_show(const fed *f)
{
    char command[PATH_MAX + 64];
    snprintf(command, sizeof command, "tail -n 12 %s/*.log >&2", f->folder);
    (void)!system(command);
}

/* Until it ends with 0. */
static inline void fed_await(fed *f, pid_t *pid, const char *what, unsigned seconds)
{
    int status = 0;
    for (uint64_t end = fed_now_ms() + 1000 * (uint64_t)seconds; fed_now_ms() < end; fed_pause())
        if (waitpid(*pid, &status, WNOHANG) == *pid) {
            *pid = 0;
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return;
            fed_show(f);
            fail_msg("%s ended with %d", what,
                     WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
        }
    fed_show(f);
    fail_msg("%s is not done after %u s", what, seconds);
}

/* All processes, in the order in which they stop. */
static inline void fed_finish(fed *f, unsigned seconds)
{
    for (unsigned i = 0; i < f->clients; i++)
        if (f->client[i] > 0)
            fed_await(f, &f->client[i], "a client", seconds);
    fed_await(f, &f->aggregator, "the aggregator", seconds);
    fed_await(f, &f->csp, "the CSP", seconds);
}

static inline void fed_end(fed *f)
{
    for (unsigned i = 0; i < f->clients; i++)
        fed_kill(&f->client[i]);
    fed_kill(&f->aggregator);
    fed_kill(&f->csp);
    task_clear(&f->t);
}

#endif
