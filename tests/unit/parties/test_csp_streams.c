/* The CSP role: its connections. Peers that hang, cheat or are strangers, and lanes. */
#define _GNU_SOURCE
#include "csp_site.h"

#include "roles/control.h"
#include "support/bent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

/* A peer that hangs does not block the next one; nor do unknown peers. */
static void the_newest_connection_is_served(void **state)
{
    (void)state;
    site s;
    as_link *l[2], *none;
    tls *t[2], *wrong;
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
        tls_id *id = identity(&s, names[i]);
        sefl_status st = tls_dial(&wrong, "127.0.0.1", csp_role_port(s.role), id,
                                  &(tls_peer){ .role = "csp", .protocols = { LINK_ALPN } },
                                  &(tls_limits){ .idle_ms = 20000 });
        if (st == SEFL_OK) { /* told at the first receive: TLS 1.3 */
            st = greet(&s, &none, wrong);
            tls_close(wrong);
        }
        assert_int_not_equal(st, SEFL_OK);
        tls_id_free(id);
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
    boot_ahead_ns = UINT64_C(1000000) * (s->t.deadline_ms + s->t.extensions * s->t.extend_ms) +
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
    boot_ahead_ns = 0;
    site_end(&s);
}

static bool says(const char *path, const char *text)
{
    sefl_buf b = { 0 };
    bool is = file_read(&b, path, 1 << 16) == SEFL_OK && wr_u8(&b, 0) == SEFL_OK &&
              strstr((char *)b.p, text);
    buf_clear(&b);
    return is;
}

static sefl_status greets_csp(site *s)
{
    as_link *l = NULL;
    tls *t = dial(s, s->id);
    sefl_status st = greet(s, &l, t);
    as_link_free(l);
    tls_close(t);
    return st;
}

/* CSP's machine restarts in the middle of a round, with a clock that is three years wrong: CSP serves
 * nobody, says why on its pages, and obeys only a new order to resume. */
static void a_wrong_clock_after_a_reboot(void **state)
{
    (void)state;
    site s;
    journal *j;
    bool has;
    site_begin(&s, "clock", "none");
    char *folder = in(&s, "csp"), *status = in(&s, "csp/status.json");
    char *kem = in(&s, "csp/task-1/round-1.kem");
    control_order o = { .id = 5, .word = CONTROL_RESUME };
    memcpy(o.task, s.t.id, sizeof o.task);
    csp_up(&s);
    run_to_crash(&s, AS_SET);
    CHECK_OK(control_write(folder, &o)); /* before the restart: it confirms nothing */
    csp_down(&s, true);
    CHECK_OK(journal_open(&j, folder, "csp", s.t.id));
    CHECK_OK(journal_fact_has(j, 0, "clock", &has));
    assert_true(has);
    static const uint8_t other_boot[40];
    CHECK_OK(journal_fact_put(j, 0, "clock", span_of(other_boot, sizeof other_boot)));
    journal_close(j);
    wall_ahead_ns = INT64_C(3) * 365 * 86400 * 1000000000;
    csp_up(&s);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(greets_csp(&s), SEFL_EIO);
        assert_non_null(strstr(sefl_last_error(), "ahead of AS's"));
    }
    for (int i = 0; i < 500 && !says(status, "check this clock"); i++)
        usleep(10000);
    assert_true(says(status, "\"healthy\":false") && says(status, "sefl task resume"));
    assert_true(file_exists(kem));
    o.id = 6;
    wall_ahead_ns = -wall_ahead_ns; /* its operator's word counts, even so */
    CHECK_OK(control_write(folder, &o));
    sefl_status st = SEFL_EIO;
    for (int i = 0; i < 50 && st != SEFL_OK; i++, usleep(100000))
        st = greets_csp(&s);
    CHECK_OK(st);
    assert_true(file_exists(kem));
    CHECK_OK(as_run_until(&s.run, 2, AGG_SIGNING)); /* the round goes on */
    check_counted(&s, 1);
    assert_memory_equal(s.got, s.total, s.t.values * sizeof *s.got);
    csp_down(&s, true);
    wall_ahead_ns = 0;
    free(folder), free(status), free(kem);
    site_end(&s);
}

/* ---- a folder of tasks ----------------------------------------------------------------------- */

/* Another task of the same servers, in this folder of the site's. */
static site another_task(const site *s, const char *dir, const char *noise)
{
    site o = { 0 };
    snprintf(o.dir, sizeof o.dir, "%s", dir);
    assert_int_equal(mkdir(folder_path(dir), 0700), 0);
    make_task(&o, "pad", noise);
    site both = *s; /* AS with this task */
    both.t = o.t, both.envelope = o.envelope;
    return both;
}

/* Opens a stream for this task and closes it; the message of a refusal must contain `says`. */
static void greets(site *s, const sign_key *key, sefl_status want, const char *says)
{
    as_link *l = NULL;
    tls *t = dial(s, s->id);
    CHECK_STATUS(greet_as(s, &l, t, key), want);
    if (want != SEFL_OK && !strstr(sefl_last_error(), says))
        fail_msg("\"%s\" does not say \"%s\"", sefl_last_error(), says);
    as_link_free(l);
    tls_close(t);
}

/* Opening another task wipes the round key of this one: AS must have signed that. */
static void only_a_signed_hello_changes_the_task(void **state)
{
    (void)state;
    site s;
    site_begin(&s, "tasks", "none");
    char *kem = in(&s, "csp/task-1/round-1.kem"), *tasks = in(&s, "tasks");
    assert_int_equal(mkdir(tasks, 0700), 0);
    assert_int_equal(mkdir(folder_path("tasks/tasks/a"), 0700), 0);
    folder_put("tasks/tasks/a/task.signed", s.envelope.p, s.envelope.n);
    site b = another_task(&s, "tasks/tasks/b", "own");
    site c = another_task(&s, "tasks/c", "joint"); /* CSP does not have it */
    s.cfg.task = NULL, s.cfg.tasks = tasks;
    csp_up(&s);
    b.role = c.role = s.role;
    CHECK_OK(as_run_until(&s.run, 1, AGG_COLLECTING));
    assert_true(file_exists(kem));
    greets(&c, as_key, SEFL_EAUTH, "folder of tasks");
    greets(&b, csp_key, SEFL_EAUTH, "signature");
    for (int i = 0; i < 2;
         i++) { /* what AS signed for another stream: another task, and this one */
        as_link *l = NULL;
        tls *one = dial(&s, s.id), *two = dial(&s, s.id);
        assert_memory_not_equal(tls_channel(one)->binding, tls_channel(two)->binding, 32);
        memcpy(tls_channel(two)->binding, tls_channel(one)->binding, CHANNEL_BINDING);
        CHECK_STATUS(greet(i == 0 ? &b : &s, &l, two), SEFL_EAUTH);
        assert_non_null(strstr(sefl_last_error(), "signature"));
        tls_close(one), tls_close(two);
    }
    assert_true(file_exists(kem));
    greets(&s, as_key, SEFL_OK, "");
    assert_true(file_exists(kem));
    greets(&b, as_key, SEFL_OK, "");
    assert_false(file_exists(kem));
    greets(&s, as_key, SEFL_OK, ""); /* and back: its rounds are still there */
    csp_down(&s, true);
    task_clear(&b.t), task_clear(&c.t);
    buf_clear(&b.envelope), buf_clear(&c.envelope);
    free(kem), free(tasks);
    site_end(&s);
}

/* AS names one task and then the other, for ever: CSP's audit log does not grow with it for ever. */
static void as_changes_the_task_too_often(void **state)
{
    (void)state;
    site s;
    unsigned changes = 0;
    sefl_status st = SEFL_OK;
    site_begin(&s, "often", "none");
    char *tasks = in(&s, "tasks");
    assert_int_equal(mkdir(tasks, 0700), 0);
    assert_int_equal(mkdir(folder_path("often/tasks/a"), 0700), 0);
    folder_put("often/tasks/a/task.signed", s.envelope.p, s.envelope.n);
    site b = another_task(&s, "often/tasks/b", "own");
    s.cfg.task = NULL, s.cfg.tasks = tasks;
    csp_up(&s);
    b.role = s.role;
    while (st == SEFL_OK && changes < 200) {
        as_link *l = NULL;
        site *as = changes % 2 ? &b : &s;
        tls *t = dial(as, as->id);
        st = greet(as, &l, t);
        changes += st == SEFL_OK;
        as_link_free(l);
        tls_close(t);
    }
    CHECK_STATUS(st, SEFL_EIO); /* AS tries again later */
    assert_in_range(changes, 30, 50);
    greets(changes % 2 ? &s : &b, as_key, SEFL_OK, ""); /* the task that CSP serves */
    csp_down(&s, true);
    task_clear(&b.t);
    buf_clear(&b.envelope);
    free(tasks);
    site_end(&s);
}

/* Without its task nothing counts the age of a round key, so CSP wipes it: after a change that
 * fails, or at a start without the task's folder. */
static void without_its_task(const char *dir, bool restart)
{
    site s;
    char other[64];
    site_begin(&s, dir, "none");
    char *kem = in(&s, "csp/task-1/round-1.kem"), *tasks = in(&s, "tasks"), *a = in(&s, "tasks/a");
    char *file = in(&s, "tasks/a/task.signed"), *book = in(&s, "csp.ledger"), *away = in(&s, "x");
    assert_int_equal(mkdir(tasks, 0700), 0);
    assert_int_equal(mkdir(a, 0700), 0);
    CHECK_OK(file_write_new(file, buf_span(&s.envelope), 0644));
    s.cfg.task = NULL, s.cfg.tasks = tasks;
    csp_up(&s);
    CHECK_OK(as_run_until(&s.run, 1, AGG_COLLECTING));
    if (restart) { /* the only task */
        csp_down(&s, true);
        assert_true(file_exists(kem));
        assert_int_equal(rename(a, away), 0);
        csp_up(&s);
    } else {
        snprintf(other, sizeof other, "%s/tasks/b", dir);
        site b = another_task(&s, other, "own");
        assert_true(file_exists(kem));
        assert_int_equal(rename(book, away), 0);
        greets(&b, as_key, SEFL_EIO, "");
        task_clear(&b.t);
        buf_clear(&b.envelope);
    }
    for (int i = 0; i < 500 && file_exists(kem); i++)
        usleep(10000);
    assert_false(file_exists(kem));
    assert_int_equal(rename(away, restart ? a : book), 0);
    greets(&s, as_key, SEFL_OK, ""); /* the task goes on */
    csp_down(&s, true);
    free(kem), free(tasks), free(a), free(file), free(book), free(away);
    site_end(&s);
}

static void without_its_task_no_key_stays(void **state)
{
    (void)state;
    without_its_task("orphan", false);
    without_its_task("folderless", true);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* Sends LANE with this identity; CSP's answer: 0 if it closes, LINK_YES, or a link_no. */
static unsigned ask_lane(site *s, const tls_id *id, const uint8_t pair[LINK_PAIR], tls **out)
{
    tls *t;
    uint16_t no = 0;
    CHECK_OK(tls_dial(&t, "127.0.0.1", csp_role_port(s->role), id,
                      &(tls_peer){ .role = "csp", .protocols = { LANE_ALPN } },
                      &(tls_limits){ .idle_ms = 20000 }));
    uint8_t hello[LINK_PAIR + 1] = { 0 };
    memcpy(hello, pair, LINK_PAIR);
    hello[LINK_PAIR] = 1; /* 0 is that of AS's own lane */
    sefl_status st = link_send(tls_channel(t), LINK_LANE, span_of(hello, sizeof hello));
    if (st == SEFL_OK)
        st = lane_hear(tls_channel(t), NULL, &no);
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

static void cheat(site *s)
{
    const uint8_t *pair = s->peer.pair;
    tls *lane;
    uint64_t count = lanes_session(&s->t), *x = calloc(count, sizeof *x);
    uint8_t bytes[8];
    uint16_t no;
    shares_result r;
    shares_params p = { .sign = as_key, .csp = s->t.servers.csp };
    sefl_rng rng = rng_system();
    assert_int_equal(ask_lane(s, s->id, pair, &lane), LINK_YES);
    store_u64(bytes, count);
    CHECK_OK(link_send(tls_channel(lane), LINK_FILL, span_of(bytes, sizeof bytes)));
    CHECK_OK(lane_hear(tls_channel(lane), NULL, &no));
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
    assert_int_equal(as_link_outcome(l, as_link_header(l, &both, &s.header)), AS_SPOILED);
    assert_non_null(strstr(sefl_last_error(), "too many failed checks"));
    as_link_free(l);
    tls_close(t);
    csp_down(&s, true);
    buf_clear(&both);
    site_end(&s);
}

/* ---- strangers ------------------------------------------------------------------------------- */

/* Begins with a log file, at *path; listens. */
static void begin_logged(site *s, const char *name, sefl_log *lg, char **path,
                         struct sockaddr_in *to)
{
    site_begin(s, name, "none");
    *path = in(s, "log");
    *lg = (sefl_log){ .level = LOG_INFO, .fd = open(*path, O_CREAT | O_WRONLY | O_APPEND, 0600) };
    s->log = lg;
    csp_up(s);
    *to = (struct sockaddr_in){ .sin_family = AF_INET,
                                .sin_port = htons(csp_role_port(s->role)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* Returns how often the log has this text. */
static unsigned times_logged(const char *path, const char *text)
{
    sefl_buf b = { 0 };
    unsigned n = 0;
    CHECK_OK(file_read(&b, path, 1 << 20));
    for (size_t i = 0; i + strlen(text) < b.n; i++)
        n += memcmp(b.p + i, text, strlen(text)) == 0;
    buf_clear(&b);
    return n;
}

static void end_logged(site *s, const sefl_log *lg, char *path)
{
    close(lg->fd);
    free(path);
    site_end(s);
}

/* Strangers at the port, one after the other: a few log lines, not one each. */
static void strangers_do_not_fill_the_disk(void **state)
{
    (void)state;
    site s;
    sefl_log lg;
    char *path;
    struct sockaddr_in to;
    begin_logged(&s, "strangers", &lg, &path, &to);
    for (int i = 0; i < 60; i++) {
        char answer[64];
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
        assert_int_equal(send(fd, "no handshake at all", 19, MSG_NOSIGNAL), 19);
        while (recv(fd, answer, sizeof answer, 0) > 0) /* until CSP closes the connection */
            ;
        close(fd);
    }
    csp_down(&s, true);
    assert_in_range(times_logged(path, "connection refused"), 5, 40);
    end_logged(&s, &lg, path);
}

/* No file descriptor is left: CSP waits instead of spinning, reports it once, and continues. */
static void descriptors_run_out(void **state)
{
    (void)state;
    site s;
    sefl_log lg;
    char *path;
    struct sockaddr_in to;
    begin_logged(&s, "descriptors", &lg, &path, &to);
    for (int i = 0; i < 500 && times_logged(path, "ready") == 0;
         i++) /* its files are closed then */
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    assert_int_equal(times_logged(path, "ready"), 1);
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
    for (int i = 0; i < 50; i++) { /* what CSP's threads have open yet, and close now */
        while (dup(fd) >= 0)
            ;
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    struct stat log_was, log_is;
    assert_int_equal(fstat(lg.fd, &log_was), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    for (int i = 0; i < 2000; i++) { /* until CSP reports it */
        assert_int_equal(fstat(lg.fd, &log_is), 0);
        if (log_is.st_size > log_was.st_size)
            break;
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    clock_t before = clock();
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
    assert_int_equal(times_logged(path, "no connection can be accepted now"), 1);
    end_logged(&s, &lg, path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_connection_is_served),
        cmocka_unit_test(a_slow_message_keeps_no_key),
        cmocka_unit_test(a_wrong_clock_after_a_reboot),
        cmocka_unit_test(only_a_signed_hello_changes_the_task),
        cmocka_unit_test(as_changes_the_task_too_often),
        cmocka_unit_test(without_its_task_no_key_stays),
        cmocka_unit_test(lanes_belong_to_the_link),
        cmocka_unit_test(three_failed_checks_end_the_task),
        cmocka_unit_test(strangers_do_not_fill_the_disk),
        cmocka_unit_test(descriptors_run_out),
    };
    return cmocka_run_group_tests(tests, site_keys, site_keys_free);
}
