/* kill -9 of either server or a client at seeded moments (SEFL_TEST_SEED), in federations with
 * named coins: every release equals, bit for bit, the acknowledged updates plus one attempt's
 * noise, and no coins of a mask, a noise, an encryption or a rounding are drawn twice, whichever
 * process dies. (e2e/test_kill.sh runs real programs with the system's coins.) */
#include "verify.h"

static bool over(const fed *f)
{
    siginfo_t info = { 0 };
    assert_int_equal(waitid(P_PID, (id_t)f->aggregator, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    return info.si_pid != 0 ||
           file_exists(fed_path(f, "aggregator/models/round-%" PRIu64 ".safetensors", f->t.rounds));
}

static void wait_ms(uint64_t ms)
{
    for (uint64_t end = fed_now_ms() + ms; fed_now_ms() < end;)
        nanosleep(&(struct timespec){ .tv_nsec = 1000 * 1000 }, NULL);
}

/* Number of times that a log has this event. */
static unsigned events(const fed *f, const char *log, const char *event)
{
    sefl_buf b = { 0 };
    char want[80];
    unsigned n = 0;
    snprintf(want, sizeof want, "\"event\":\"%s\"", event);
    if (file_read(&b, fed_path(f, "%s", log), 1 << 26) == SEFL_OK && wr_u8(&b, 0) == SEFL_OK)
        for (const char *p = (const char *)b.p; (p = strstr(p, want)) != NULL; p++)
            n++;
    buf_clear(&b);
    return n;
}

/* Every second kill comes just after a round has closed: masking, two-party computation, release. */
static void moment(const fed *f, unsigned long number, seeded *g)
{
    unsigned closed = events(f, "AS.log", "round closed");
    uint64_t end = fed_now_ms() + 20000;
    while (number % 2 == 0 && !over(f) && fed_now_ms() < end &&
           events(f, "AS.log", "round closed") == closed)
        wait_ms(5);
    wait_ms(seeded_below(g, number % 2 == 0 ? 400 : 1200));
}

static void restart(fed *f, unsigned who)
{
    if (who == 0)
        fed_start_aggregator(f);
    else if (who == 1)
        fed_start_csp(f);
    else
        fed_start_client(f, who - 2);
}

/* One federation; up to `kills` kills while its rounds run. Returns how many there were. */
static unsigned long one_run(unsigned run, unsigned long kills, seeded *g)
{
    static const char *const schemes[] = { "pad", "paillier" };
    fed f;
    uint32_t least, most;
    unsigned long done = 0;
    char name[32];
    snprintf(name, sizeof name, "crash-%u", run);
    fed_make(&f, name, schemes[run % 2], 3, 300,
             "rounds.count=6 rounds.deadline_ms=60000 model.embed=32 model.hidden=32");
    f.seed = 100 + run;
    f.linger = 60; /* a client that could not reach AS retries only after a while */
    fed_start_csp(&f);
    fed_start_aggregator(&f);
    for (unsigned i = 0; i < f.clients; i++)
        fed_start_client(&f, i);
    while (done < kills) {
        unsigned who = (unsigned)seeded_below(g, 3);
        who = who < 2 ? who : 2 + (unsigned)seeded_below(g, f.clients);
        moment(&f, done, g);
        if (over(&f))
            break;
        fed_kill(who == 0 ? &f.aggregator : who == 1 ? &f.csp : &f.client[who - 2]);
        wait_ms(seeded_below(g, 200));
        restart(&f, who);
        done++;
    }
    for (unsigned i = 0; i < f.clients; i++)
        fed_await(&f, &f.client[i], "a client", 120 * FED_SLOW);
    fed_await(&f, &f.csp, "the CSP", 120 * FED_SLOW);
    fed_kill(&f.aggregator); /* only late clients remain to wait for */
    assert_int_equal(verify(&f, &least, &most), f.t.rounds);
    verify_coins(&f);
    printf("run %u, %s: %lu kills; CSP revealed %u rounds, announced %u outputs again\n", run,
           schemes[run % 2], done, events(&f, "CSP.log", "round revealed"),
           events(&f, "CSP.log", "output announced again"));
    fed_end(&f);
    return done;
}

static void killed_at_any_moment(void **state)
{
    (void)state;
    seeded g;
    unsigned long left = test_count(6, 150);
    test_seed(&g, "kill");
    unsigned run = 0;
    for (unsigned long most_runs = 2 * left; left > 0; run++) {
        left -= one_run(run, left, &g);
        assert_true(run < most_runs); /* the test did kill processes */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(killed_at_any_moment) };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
