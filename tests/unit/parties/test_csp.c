/* The CSP role over restarts: its start, rounds that survive, keys that are gone. */
#define _GNU_SOURCE
#include "csp_site.h"

#include "roles/csp/csp_inside.h"

#include <math.h>

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
    CHECK_OK(account_disk_open(&other, j, s->cfg.ledger, &s->t));
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
    CHECK_STATUS(as_run_until(&s.run, 2, AGG_COLLECTING), SEFL_ESTATE);
    s.run.c.strict = false; /* AS skips the round */
    CHECK_OK(as_run_until(&s.run, 2, AGG_COLLECTING));
    assert_true(file_exists(kem2));
    assert_int_equal(s.role->monitor.rounds[MONITOR_SKIPPED], 1); /* for /metrics */
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
    assert_int_equal(s.role->monitor.rounds[MONITOR_SKIPPED], 1);
    assert_int_equal(s.role->monitor.rounds[MONITOR_REVEALED], 0);
    assert_int_equal(s.peer.skipped, 2);
    csp_down(&s, true);
    free(kem), free(kem2);
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
    return site_keys(state);
}

static int end(void **state)
{
    paillier_sec_free(sec);
    return site_keys_free(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_checked),  cmocka_unit_test(wrong_keys_do_not_start),
        cmocka_unit_test(a_key_serves_one_task), cmocka_unit_test(rounds_survive_both),
        cmocka_unit_test(keys_that_are_gone),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
