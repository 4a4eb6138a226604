/* All links of a run go through recording relays: the clients' secrets appear neither in the
 * recordings nor on either server's disk or logs. The same search does find them where they are in
 * the clear: on the clients' own disks, and in the recording of an upload without protection (plain
 * federated averaging: the update as floating-point numbers, no encryption). */
#include "fed.h"

#include "support/relay.h"
#include "support/seek.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

enum { CLIENTS = 3, ROUNDS = 2 };
static const char marker[] = "zanzibar quixotry flummox";

/* The marker is in the text of every client, as a separate line, many times. */
static void mark_text(const fed *f)
{
    for (unsigned i = 0; i < f->clients; i++) {
        FILE *out = fopen(fed_path(f, "clients/client-%02u/text/train.txt", i + 1), "a");
        assert_non_null(out);
        for (unsigned k = 0; k < 20; k++)
            fprintf(out, "the %s of client %u\n", marker, i + 1);
        assert_int_equal(fclose(out), 0);
    }
}

/* What each client encrypted in each round. */
static unsigned plant_updates(seek *s, const fed *f)
{
    unsigned windows = 0;
    for (unsigned i = 1; i <= f->clients; i++)
        for (unsigned round = 1; round <= ROUNDS; round++) {
            sefl_buf x = { 0 };
            char path[PATH_MAX], name[64];
            snprintf(path, sizeof path, "%s/client-%02u-%u", f->seen, i, round);
            snprintf(name, sizeof name, "update of client-%02u in round %u", i, round);
            CHECK_OK(file_read(&x, path, 1 << 28));
            windows += seek_plant_values(s, name, (const int64_t *)(const void *)x.p,
                                         x.n / sizeof(int64_t), f->t.ahe.pack.q);
            buf_clear(&x);
        }
    return windows;
}

/* The real program, with its output in a file. */
static pid_t start_program(const fed *f, const char *log, const char *const *argv)
{
    pid_t pid = fed_fork();
    if (pid == 0) {
        int fd = open(fed_path(f, "%s", log), O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
            _exit(9);
        execv(SEFL_PROGRAM, (char *const *)(uintptr_t)argv);
        _exit(9);
    }
    return pid;
}

static void start_servers(fed *f, relay **link, relay **front)
{
    char csp_yml[PATH_MAX], as_yml[PATH_MAX], csp_at[32], record[PATH_MAX];
    snprintf(csp_yml, sizeof csp_yml, "%s", fed_path(f, "csp/csp.yml"));
    snprintf(as_yml, sizeof as_yml, "%s", fed_path(f, "aggregator/aggregator.yml"));
    f->csp = start_program(
        f, "csp.log",
        (const char *[]){ "sefl", "csp", "--config", csp_yml, "--log", "debug", NULL });
    f->csp_port = fed_ready(f, "csp", f->csp);
    snprintf(record, sizeof record, "%s/link", f->seen);
    CHECK_OK(relay_start(link, "127.0.0.1", f->csp_port, record));
    snprintf(csp_at, sizeof csp_at, "127.0.0.1:%u", relay_port(*link));
    f->aggregator =
        start_program(f, "aggregator.log",
                      (const char *[]){ "sefl", "aggregator", "--config", as_yml, "--csp", csp_at,
                                        "--linger", "3", "--log", "debug", NULL });
    f->as_port = fed_ready(f, "aggregator", f->aggregator);
    snprintf(record, sizeof record, "%s/front", f->seen);
    CHECK_OK(relay_start(front, "127.0.0.1", f->as_port, record));
    f->dial_as = relay_port(*front);
}

/* ---- an upload without protection ------------------------------------------------------------ */

static void *sink(void *arg)
{
    int fd = accept(*(int *)arg, NULL, NULL);
    char piece[4096];
    while (fd >= 0 && read(fd, piece, sizeof piece) > 0)
        ;
    close(fd);
    return NULL;
}

static void send_all(int fd, const void *p, size_t n)
{
    CHECK_OK(file_write_all(fd, span_of(p, n)));
}

/* What plain federated averaging would send: text stays, the update travels as floats. The marker
 * follows it, to show that the search finds text on a link as well. */
static void plain_upload(const fed *f, const int64_t *x, size_t n, const char *record)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof a;
    pthread_t thread;
    relay *r;
    int ls = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(ls >= 0);
    assert_int_equal(bind(ls, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(ls, 1), 0);
    assert_int_equal(getsockname(ls, (struct sockaddr *)&a, &len), 0);
    CHECK_OK(relay_start(&r, "127.0.0.1", ntohs(a.sin_port), record));
    assert_int_equal(pthread_create(&thread, NULL, sink, &ls), 0);
    a.sin_port = htons(relay_port(r));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    for (size_t i = 0; i < n; i++) {
        float v = (float)((double)x[i] * f->t.ahe.pack.q);
        send_all(fd, &v, sizeof v);
    }
    send_all(fd, marker, strlen(marker));
    close(fd);
    pthread_join(thread, NULL);
    assert_true(relay_bytes(r) == 4 * n + strlen(marker));
    relay_stop(r);
    close(ls);
}

/* Snapshots both servers' disks, because files may be deleted later. */
static void snapshot(const fed *f, unsigned number)
{
    char command[4 * PATH_MAX], to[PATH_MAX];
    snprintf(to, sizeof to, "%s/snapshot-%u", f->seen, number);
    assert_int_equal(mkdir(to, 0700), 0);
    snprintf(command, sizeof command, "cp -r %s/aggregator %s/csp %s 2> /dev/null", f->folder,
             f->folder, to);
    (void)!system(command); /* files that vanish during the copy are in another snapshot */
}

static bool has_ended(const pid_t *pid)
{
    siginfo_t info = { 0 };
    assert_int_equal(waitid(P_PID, (id_t)*pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    return info.si_pid != 0;
}

/* Snapshots until the run is over; returns how many. */
static unsigned watch(const fed *f)
{
    unsigned n = 0;
    uint64_t end = fed_now_ms() + 120000 * FED_SLOW;
    while (!has_ended(&f->aggregator) && fed_now_ms() < end) {
        snapshot(f, ++n);
        for (uint64_t next = fed_now_ms() + 200; fed_now_ms() < next;)
            fed_pause();
    }
    return n;
}

static void nothing_of_a_client_is_seen(void **state)
{
    (void)state;
    fed f;
    relay *link = NULL, *front = NULL;
    fed_make(&f, "secret", "pad", CLIENTS, 300, "rounds.count=2");
    mark_text(&f);
    start_servers(&f, &link, &front);
    for (unsigned i = 0; i < CLIENTS; i++)
        fed_start_client(&f, i);
    unsigned snapshots = watch(&f);
    fed_finish(&f, 120 * FED_SLOW);
    uint64_t carried = relay_bytes(front);
    /* every client and both servers used the relays: each update is in the recording */
    assert_true(relay_connections(front) >= CLIENTS && relay_connections(link) >= 1);
    assert_true(carried > (uint64_t)CLIENTS * ROUNDS * ahe_body_bytes(&f.t.ahe));
    assert_true(relay_bytes(link) > ROUNDS * ahe_body_bytes(&f.t.ahe));
    relay_stop(link);
    relay_stop(front);

    seek *s = seek_new();
    seek_plant(s, "text of a client", marker, strlen(marker));
    seek_plant(s, "a word of the text", "flummox of client", 17);
    assert_true(plant_updates(s, &f) >= 3 * CLIENTS * ROUNDS);
    char path[PATH_MAX];
    for (int kind = 0; kind < 2; kind++)
        for (unsigned i = 1; i <= 1024; i++)
            for (int way = 0; way < 2; way++) {
                snprintf(path, sizeof path, "%s/%s-%04u.%s", f.seen, kind ? "link" : "front", i,
                         way ? "up" : "down");
                if (file_exists(path))
                    seek_file(s, path);
            }
    assert_true(seek_bytes(s) >= carried);
    for (unsigned i = 1; i <= snapshots; i++) {
        snprintf(path, sizeof path, "%s/snapshot-%u", f.seen, i);
        seek_folder(s, path);
    }
    assert_true(snapshots >= 3);
    seek_folder(s, fed_path(&f, "aggregator"));
    seek_folder(s, fed_path(&f, "csp"));
    seek_folder(s, fed_path(&f, "public"));
    seek_file(s, fed_path(&f, "aggregator.log"));
    seek_file(s, fed_path(&f, "csp.log"));
    if (seek_hits(s) > 0)
        fail_msg("found: %s (and %u more)", seek_first(s), seek_hits(s) - 1);
    printf("searched %u files, %llu bytes, for %u things\n", seek_files(s),
           (unsigned long long)seek_bytes(s), seek_planted(s));

    /* the same search where the secrets are in the clear */
    seek_forget(s);
    seek_folder(s, fed_path(&f, "clients/client-01/text"));
    assert_int_equal(seek_hits(s), 2);
    seek_forget(s);
    sefl_buf x = { 0 };
    snprintf(path, sizeof path, "%s/client-01-1", f.seen);
    seek_file(s, path);
    assert_true(seek_hits(s) >= 3); /* as 64-bit integers */
    CHECK_OK(file_read(&x, path, 1 << 28));
    snprintf(path, sizeof path, "%s/plain", f.seen);
    plain_upload(&f, (const int64_t *)(const void *)x.p, x.n / 8, path);
    seek_forget(s);
    snprintf(path, sizeof path, "%s/plain-0001.up", f.seen);
    seek_file(s, path);
    assert_true(seek_hits(s) >= 4); /* three windows of floats, and the text */
    assert_non_null(strstr(seek_first(s), "plain-0001.up"));
    buf_clear(&x);
    seek_free(s);
    fed_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_of_a_client_is_seen) };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
