/* kill -9 of the client at seeded moments: it always continues, and nothing is encrypted or drawn
 * twice. */
#include "crypto/ahe/ahe.h"
#include "unit/parties/client_scene.h"

#include <signal.h>
#include <sys/wait.h>

enum { KILLS = 15 }; /* a task; the last run is left alone */

/* The system's coins; every requested name is written to a file that all processes share. */
static int names_fd;

static sefl_status noted(void *self, sefl_rng *out, const char *purpose, uint64_t round,
                         uint64_t attempt)
{
    char line[96];
    int n = snprintf(line, sizeof line, "%s %llu %llu\n", purpose, (unsigned long long)round,
                     (unsigned long long)attempt);
    (void)self;
    *out = rng_system();
    return write(names_fd, line, (size_t)n) == n ? SEFL_OK : sefl_fail(SEFL_EIO, "names");
}

static _Noreturn void child(federation *s)
{
    sefl_coins coins = { .get = noted };
    client *c = NULL;
    alarm(60);
    configure(s);
    sefl_status st =
        client_new(&c, &(client_options){ .config = &s->cfg, .log = &s->log, .coins = &coins });
    if (st == SEFL_OK)
        st = client_run(c);
    _exit(st == SEFL_OK ? 0 : 1);
}

static void no_name_twice(const char *path)
{
    sefl_buf b = { 0 };
    unsigned lines = 0;
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    for (char *at = (char *)b.p; *at; lines++) {
        char *stop = strchr(at, '\n');
        char line[96];
        snprintf(line, sizeof line, "\n%.*s\n", (int)(stop - at), at);
        /* jitter has no name; a sampling coin that was not stored yet had no effect, and is drawn
         * again */
        bool once = strncmp(at, "jitter", 6) != 0 && strncmp(at, "sampling", 8) != 0;
        if (once && strstr(stop, line))
            fail_msg("drawn twice: %s", line);
        at = stop + 1;
    }
    assert_true(lines >= 3);
    buf_clear(&b);
}

static void one_task(seeded *gen)
{
    unsigned long died = 0, runs = 0;
    federation *s =
        begin(3, "privacy.epsilon=100", "privacy.sampling=open", "privacy.rate=0.999999");
    char path[512];
    snprintf(path, sizeof path, "%s", folder_path("names"));
    names_fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    assert_true(names_fd >= 0);
    s->as.rounds = 5;
    unsigned bytes = (unsigned)ahe_body_bytes(&s->as.t.ahe);
    for (;; runs++) {
        pthread_mutex_lock(&s->as.lock); /* no server thread holds it while we fork */
        if (seeded_below(gen, 3) == 0)
            s->as.cut_after = 1 + (unsigned)seeded_below(gen, bytes - 1);
        pid_t pid = fork();
        if (pid == 0)
            child(s);
        pthread_mutex_unlock(&s->as.lock);
        assert_true(pid > 0);
        int status = 0;
        if (died < KILLS) {
            usleep(
                (useconds_t)seeded_below(gen, 4000u << seeded_below(gen, 4))); /* 5 rounds: 0.1 s */
            kill(pid, SIGKILL);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        fake_quiet(&s->as);
        if (WIFEXITED(status)) {
            if (WEXITSTATUS(status) != 0)
                fail_msg("the client gave up:\n%s", log_of(s));
            if (s->as.round > s->as.rounds)
                break;
        }
        died += WIFSIGNALED(status);
    }
    print_message("%lu killed of %lu\n", died, runs + 1);
    assert_true(died >= 1);
    assert_int_equal(s->as.receipts, 5);
    assert_false(s->as.changed);
    assert_false(s->as.uncharged);
    assert_int_equal(charged(s), 5);
    no_name_twice(path);
    configure(s);
    client_store *st = store_of(s);
    assert_int_equal(client_store_mark(st)->phase, CLIENT_DONE);
    client_store_close(st);
    close(names_fd);
    unlink(path);
    end(s);
}

static void killed_at_many_moments(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "kill");
    for (unsigned long i = test_count(1, 20); i > 0; i--)
        one_task(&gen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_many_moments),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
