#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "store/disk/account_disk.h"
#include "store/ledger_terms.h"
#include "sum/terms.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

static task some_task(uint8_t id, task_noise noise, bool claim)
{
    task t = { .id = { id },
               .population = "people",
               .noise = noise,
               .claim = claim,
               .epsilon = claim ? 3 : 0,
               .delta = claim ? 1e-5 : 0,
               .rate = 1,
               .values = 1000,
               .max_rounds_per_client = 50,
               .sigma_steps = noise == TASK_NOISE_OWN ? 9000 : 0 };
    t.grid.z = 4;
    return t;
}

static void terms(void **state)
{
    (void)state;
    task t = some_task(1, TASK_NOISE_JOINT, true);
    ledger_terms l = terms_of_task(&t);
    CHECK_OK(ledger_terms_check(&l));
    assert_memory_equal(l.task, t.id, 32);
    assert_true(l.noise == DP_NOISE_JOINT && l.z == 4 && l.rate == 1 && l.dim == 1000);
    assert_true(l.sigma_steps == 0 && l.max_rounds_per_client == 50 && l.epsilon_max == 3);
    assert_true(l.delta == 1e-5 && l.unit == LEDGER_UNIT_CLIENT);

    t.sampling = TASK_OPEN, t.rate = 0.25, t.amplified = true;
    l = terms_of_task(&t);
    CHECK_OK(ledger_terms_check(&l));
    assert_true(l.rate == 0.25);
    l = terms_of_client(&t); /* every round that it charges costs something */
    assert_true(l.rate == 1 && l.max_rounds_per_client == 0);
    t.amplified = false;
    l = terms_of_task(&t);
    assert_true(l.rate == 1); /* visible sampling gives no amplification */

    t = some_task(1, TASK_NOISE_JOINT, true);
    t.unit = TASK_UNIT_RECORD;
    l = terms_of_task(&t);
    CHECK_OK(ledger_terms_check(&l));
    assert_true(l.rate == 1 && l.unit == LEDGER_UNIT_RECORD);

    /* records that take turns: the same on both servers; no limit when each round uses them all */
    t.rounds = t.record_turns = 50;
    l = terms_of_task(&t);
    CHECK_OK(ledger_terms_check(&l));
    assert_true(l.turns == 0 && l.turn_rounds == 0 && l.max_rounds_per_client == 50);
    t.record_turns = 10;
    for (int client = 0; client < 2; client++) {
        l = client ? terms_of_client(&t) : terms_of_task(&t);
        CHECK_OK(ledger_terms_check(&l));
        assert_true(l.turns == 10 && l.turn_rounds == 50 && l.max_rounds_per_client == 0);
    }

    t = some_task(2, TASK_NOISE_OWN, true);
    l = terms_of_task(&t);
    CHECK_OK(ledger_terms_check(&l));
    assert_true(l.noise == DP_NOISE_DISCRETE && l.sigma_steps == 9000 && l.dim == 0);

    /* correlated noise: a client's ledger charges up to the last round */
    for (task_noise n = TASK_NOISE_JOINT; n <= TASK_NOISE_OWN; n++) {
        t = some_task(4, n, true);
        t.filter = (dp_filter){ 1, { 3000 } };
        t.filter_bits = 21, t.separation = 4, t.rounds = 60;
        l = terms_of_task(&t);
        CHECK_OK(ledger_terms_check(&l));
        assert_true(l.z == 4 && l.dim == 1000 && l.separation == 4 && l.horizon == 0);
        assert_true(l.filter.gamma[0] == 3000 && l.units == dp_filter_units(21));
        l = terms_of_client(&t);
        CHECK_OK(ledger_terms_check(&l));
        assert_true(l.separation == 0 && l.horizon == 60 && l.z == 4);
        assert_int_equal(l.max_rounds_per_client, 0);
    }
    for (task_noise n = TASK_NOISE_NONE; n <= TASK_NOISE_OWN;
         n++) { /* claim: none, whatever noise */
        t = some_task(3, n, false);
        t.sampling = TASK_OPEN, t.unit = TASK_UNIT_RECORD;
        l = terms_of_task(&t);
        CHECK_OK(ledger_terms_check(&l));
        assert_true(l.noise == DP_NOISE_NONE);
        assert_memory_equal(l.task, t.id, 32);
    }
}

typedef struct books {
    journal *j;
    account *a;
} books;

static sefl_status books_open(books *b, const char *name, const task *t)
{
    sefl_status st = SEFL_OK;
    char path[300];
    snprintf(path, sizeof path, "%s.ledger", folder_path(name));
    *b = (books){ 0 };
    SEFL_TRY(journal_open(&b->j, folder_path(name), "csp", t->id));
    SEFL_TRY(account_disk_open(&b->a, b->j, path, t));
done:
    return st;
}

static void books_close(books *b)
{
    account_close(b->a);
    journal_close(b->j);
    *b = (books){ 0 };
}

static void make_ledger(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s.ledger", folder_path(name));
    CHECK_OK(ledger_create(path, "people"));
}

static void charging(void **state)
{
    (void)state;
    books b, c;
    task t = some_task(1, TASK_NOISE_JOINT, true);
    ledger_head m, first;
    CHECK_STATUS(books_open(&b, "a", &t), SEFL_ENOTFOUND); /* never made silently */
    books_close(&b);
    make_ledger("a");
    make_ledger("b");
    CHECK_OK(books_open(&b, "a", &t));
    CHECK_OK(account_port(b.a).head(b.a, &first));
    uint64_t round = 1;
    bool has;
    while (account_port(b.a).head_after(b.a, round, &m) == SEFL_OK && round < 1000) {
        CHECK_OK(account_has(b.a, round, &has));
        assert_false(has);
        CHECK_OK(account_charge(b.a, round));
        CHECK_OK(account_charge(b.a, round));
        CHECK_OK(account_has(b.a, round, &has));
        assert_true(has);
        round++;
    }
    assert_true(round > 3 && round < 1000);
    CHECK_STATUS(account_charge(b.a, round), SEFL_EBUDGET);
    ledger_total total;
    CHECK_OK(account_spent(b.a, 0, &total));
    assert_int_equal(total.rounds, round - 1);
    assert_true(total.server.claimed && total.server.epsilon <= 3);

    /* a second server that saw the same rounds */
    CHECK_OK(books_open(&c, "b", &t));
    for (uint64_t r = 1; r < round; r++) {
        CHECK_OK(account_port(b.a).head(b.a, &m));
        assert_int_equal(account_port(c.a).compare(c.a, &m), LEDGER_PEER_AHEAD);
        CHECK_OK(account_port(c.a).head(c.a, &m));
        assert_int_equal(account_port(b.a).compare(b.a, &m), LEDGER_PEER_BEHIND);
        CHECK_OK(account_charge(c.a, r));
    }
    CHECK_OK(account_port(b.a).head(b.a, &m));
    assert_int_equal(account_port(c.a).compare(c.a, &m), LEDGER_SAME);
    CHECK_OK(account_port(c.a).head(c.a, &m));
    assert_int_equal(account_port(b.a).compare(b.a, &m), LEDGER_SAME);
    m.hash[0] ^= 1;
    assert_int_equal(account_port(b.a).compare(b.a, &m), LEDGER_FORKED);
    books_close(&c);
    books_close(&b);

    /* another task continues where this one ended: same population, same ledger, same journal */
    task u = some_task(2, TASK_NOISE_JOINT, true);
    CHECK_OK(books_open(&b, "a", &u));
    CHECK_STATUS(account_charge(b.a, 1), SEFL_EBUDGET);
    u.epsilon = 30;
    books_close(&b);
    CHECK_OK(books_open(&b, "a", &u));
    CHECK_OK(account_charge(b.a, 1));
    books_close(&b);
    snprintf(u.population, sizeof u.population, "others");
    CHECK_STATUS(books_open(&b, "a", &u), SEFL_ESTATE);
    books_close(&b);
}

static void rolled_back(void **state)
{
    (void)state;
    books b;
    task t = some_task(1, TASK_NOISE_NONE, false), u = some_task(2, TASK_NOISE_NONE, false);
    char path[300];
    sefl_buf old = { 0 };
    make_ledger("r");
    snprintf(path, sizeof path, "%s.ledger", folder_path("r"));
    CHECK_OK(books_open(&b, "r", &t));
    CHECK_OK(account_charge(b.a, 1));
    CHECK_OK(file_read(&old, path, 10000));
    CHECK_OK(account_charge(b.a, 2));
    books_close(&b);
    sefl_buf now = { 0 };
    CHECK_OK(file_read(&now, path, 10000));
    CHECK_OK(file_write_atomic(path, buf_span(&old), 0600)); /* an older copy put back */
    CHECK_STATUS(books_open(&b, "r", &t), SEFL_ESTATE);
    books_close(&b);
    CHECK_STATUS(books_open(&b, "r", &u), SEFL_ESTATE); /* the next task detects it too */
    books_close(&b);
    remove(path);
    CHECK_OK(ledger_create(path, "people")); /* a new one in its place */
    CHECK_STATUS(books_open(&b, "r", &t), SEFL_ESTATE);
    books_close(&b);
    CHECK_OK(file_write_atomic(path, buf_span(&now), 0600));
    CHECK_OK(books_open(&b, "r", &t));
    books_close(&b);
    buf_clear(&old);
    buf_clear(&now);
}

static void check_note(const char *name, uint8_t id, uint64_t step, uint8_t first)
{
    books b;
    task t = some_task(id, TASK_NOISE_NONE, false);
    uint64_t got;
    uint8_t hash[SHA256_BYTES];
    CHECK_OK(books_open(&b, name, &t));
    CHECK_OK(account_noted(b.a, &got, hash));
    assert_int_equal(got, step);
    assert_int_equal(hash[0], first);
    books_close(&b);
}

static sefl_status note(const char *name, uint8_t id, uint64_t step)
{
    books b;
    task t = some_task(id, TASK_NOISE_NONE, false);
    uint8_t hash[SHA256_BYTES] = { (uint8_t)(id + step) };
    CHECK_OK(books_open(&b, name, &t));
    sefl_status st = account_note(b.a, step, hash);
    books_close(&b);
    return st;
}

/* Each task has its note, whatever the order of the tasks; a note only grows. */
static void notes(void **state)
{
    (void)state;
    static const uint8_t ids[] = { 5, 3, 9, 4, 1 };
    char path[300];
    sefl_buf b = { 0 }, old = { 0 };
    make_ledger("n");
    snprintf(path, sizeof path, "%s.ledger.latest", folder_path("n"));
    for (size_t i = 0; i < sizeof ids; i++) {
        check_note("n", ids[i], 0, 0);
        CHECK_OK(note("n", ids[i], 2 + i));
        for (size_t k = 0; k <= i; k++)
            check_note("n", ids[k], 2 + k, (uint8_t)(ids[k] + 2 + k));
    }
    CHECK_OK(note("n", 3, 7));
    CHECK_OK(note("n", 3, 7));
    CHECK_STATUS(note("n", 3, 6), SEFL_ESTATE);
    check_note("n", 3, 7, 10);
    check_note("n", 5, 2, 7);
    CHECK_OK(file_read(&old, path, 10000));
    assert_int_equal(old.n, 5 * 72);
#if SEFL_FAULTS
    static const fault_kind kinds[] = { FAULT_WRITE, FAULT_SYNC, FAULT_ALLOC, FAULT_READ };
    books c;
    task t = some_task(4, TASK_NOISE_NONE, false);
    CHECK_OK(books_open(&c, "n", &t));
    for (size_t k = 0; k < 4; k++)
        TEST_FAULTS(kinds[k], st = account_note(c.a, 100, NULL), (void)0);
    books_close(&c);
    check_note("n", 4, 100, 0);
    check_note("n", 9, 4, 13);
#endif
    /* damaged: cut, empty, out of order, a task twice */
    for (int how = 0; how < 4; how++) {
        books d;
        task u = some_task(3, TASK_NOISE_NONE, false);
        uint64_t step;
        uint8_t hash[SHA256_BYTES];
        buf_reset(&b);
        CHECK_OK(wr_raw(&b, old.p, how == 0 ? 100 : how == 1 ? 0 : 72));
        if (how >= 2)
            CHECK_OK(wr_raw(&b, old.p, 72));
        if (how == 2)
            b.p[72] = 0;
        CHECK_OK(file_write_atomic(path, buf_span(&b), 0600));
        CHECK_OK(books_open(&d, "n", &u));
        CHECK_STATUS(account_noted(d.a, &step, hash), SEFL_EPROTO);
        assert_non_null(strstr(sefl_last_error(), "damaged"));
        CHECK_STATUS(account_note(d.a, 8, hash), SEFL_EPROTO);
        books_close(&d);
    }
    buf_clear(&b);
    buf_clear(&old);
}

/* Whatever fails, the next attempt continues, and nothing is charged twice. */
static void failing_disk(void **state)
{
    (void)state;
#if SEFL_FAULTS
    static const fault_kind kinds[] = { FAULT_WRITE, FAULT_SYNC, FAULT_ALLOC };
    books b;
    task t = some_task(1, TASK_NOISE_NONE, false);
    make_ledger("f");
    CHECK_OK(books_open(&b, "f", &t));
    uint64_t round = 1;
    for (size_t k = 0; k < 3; k++)
        for (uint64_t nth = 1;; nth++, round++) {
            ledger_head m;
            fault_arm(kinds[k], nth);
            sefl_status st = account_charge(b.a, round);
            bool hit = fault_was_hit();
            fault_disarm();
            assert_int_equal(hit, st != SEFL_OK);
            assert_int_equal(account_port(b.a).compare(b.a, &(ledger_head){ .records = 99999 }),
                             LEDGER_PEER_AHEAD); /* readable at once */
            account_rest(b.a);
            fault_arm(FAULT_ALLOC, 1);
            assert_int_equal(account_port(b.a).compare(b.a, &(ledger_head){ .records = 99999 }),
                             LEDGER_UNREADABLE); /* no disagreement */
            fault_disarm();
            CHECK_OK(account_charge(b.a, round));
            CHECK_OK(account_port(b.a).head(b.a, &m));
            assert_int_equal(m.records, 2 + round);
            if (!hit)
                break;
        }
    books_close(&b);
    for (size_t k = 0; k < 3; k++)
        TEST_FAULTS(kinds[k], st = books_open(&b, "f", &t);
                    if (st != SEFL_OK) books_close(&b), books_close(&b));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms), cmocka_unit_test(charging),     cmocka_unit_test(rolled_back),
        cmocka_unit_test(notes), cmocka_unit_test(failing_disk),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
