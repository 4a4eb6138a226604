#include "support/check.h"

#include "base/file.h"
#include "store/ledger.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[96];

static int setup(void **state)
{
    (void)state;
    /* thousands of syncs: in memory where there is such a place */
    bool shm = access("/dev/shm", W_OK) == 0;
    snprintf(dir, sizeof dir, "%s/sefl-ledger-XXXXXX", shm ? "/dev/shm" : "/tmp");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/ledger", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static ledger_terms terms(uint8_t id)
{
    ledger_terms t = {
        .noise = DP_NOISE_JOINT, .z = 4, .rate = 0.1, .dim = 1000, .epsilon_max = 3, .delta = 1e-6
    };
    memset(t.task, id, sizeof t.task);
    return t;
}

static void fresh(ledger **l)
{
    unlink(path);
    CHECK_OK(ledger_create(path, "people"));
    CHECK_OK(ledger_open(l, path, "people", NULL));
}

static ledger *reopen(ledger *l)
{
    ledger *again = NULL;
    ledger_close(l);
    CHECK_OK(ledger_open(&again, path, "people", NULL));
    return again;
}

static long size_now(void)
{
    struct stat sb;
    return stat(path, &sb) == 0 ? (long)sb.st_size : -1;
}

/* Charges, and checks that the head was predicted correctly without writing. */
static void charge_as_foretold(ledger *l, const ledger_terms *t, uint64_t round, uint64_t records)
{
    ledger_head before, want, after;
    long size = size_now();
    ledger_get_head(l, &before);
    CHECK_OK(ledger_head_after(l, t, round, &want));
    ledger_get_head(l, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(size_now(), size);
    CHECK_OK(ledger_charge(l, t, round, NULL));
    ledger_get_head(l, &after);
    assert_memory_equal(&want, &after, sizeof want);
    assert_int_equal(after.records - before.records, records);
}

static void charges_and_continues(void **state)
{
    (void)state;
    ledger *l = NULL, *other = NULL;
    ledger_terms t = terms(1), u = terms(2);
    ledger_total total;
    fresh(&l);
    CHECK_STATUS(ledger_create(path, "people"), SEFL_EEXIST);
    CHECK_STATUS(ledger_open(&other, path, "people", NULL), SEFL_ESTATE); /* locked */
    CHECK_OK(ledger_spent(l, 0, &total));
    assert_true(total.server.claimed && total.server.epsilon == 0 && total.rounds == 0);

    charge_as_foretold(l, &t, 7, 2);
    charge_as_foretold(l, &t, 3, 1);
    charge_as_foretold(l, &t, 3, 0);
    long size = size_now();
    CHECK_OK(ledger_charge(l, &t, 7, NULL)); /* again: nothing */
    assert_int_equal(size_now(), size);
    assert_true(ledger_has(l, t.task, 3) && ledger_has(l, t.task, 7) && !ledger_has(l, t.task, 4));

    l = reopen(l);
    assert_true(ledger_has(l, t.task, 3) && ledger_has(l, t.task, 7));
    CHECK_OK(ledger_charge(l, &t, 3, NULL));
    assert_int_equal(size_now(), size);
    ledger_head head;
    t.z = 5; /* the same task cannot have other terms */
    CHECK_STATUS(ledger_head_after(l, &t, 8, &head), SEFL_ESTATE);
    CHECK_STATUS(ledger_charge(l, &t, 8, NULL), SEFL_ESTATE);
    t.z = 4;

    /* a second task adds to the first */
    CHECK_OK(ledger_spent(l, 0, &total));
    double before = total.server.epsilon;
    charge_as_foretold(l, &u, 0, 2);
    CHECK_OK(ledger_spent(l, 0, &total));
    assert_true(total.server.epsilon > before && total.tasks == 2 && total.rounds == 3);
    dp_event three = { .noise = DP_NOISE_JOINT, .z = 4, .rate = 1, .count = 3, .dim = 1000 };
    dp_claim want;
    CHECK_OK(dp_epsilon(&want, &three, 1, &(dp_question){ .delta = 1e-6 }));
    assert_true(fabs(total.server.epsilon - want.epsilon) < 1e-6);
    three.rate = 0.1;
    CHECK_OK(dp_epsilon(&want, &three, 1, &(dp_question){ .delta = 1e-6 }));
    assert_true(fabs(total.others.epsilon - want.epsilon) < 1e-6);
    assert_true(total.others_replace.epsilon > total.others.epsilon &&
                total.server_replace.epsilon > total.server.epsilon);

    /* reading needs no lock and changes nothing */
    CHECK_OK(ledger_open_read(&other, path));
    assert_string_equal(ledger_population(other), "people");
    CHECK_STATUS(ledger_charge(other, &u, 1, NULL), SEFL_ESTATE);
    ledger_close(other);
    ledger_close(l);
    CHECK_STATUS(ledger_open(&l, path, "others", NULL), SEFL_ESTATE);
    CHECK_STATUS(ledger_open(&l, "/tmp/sefl-no-such-ledger", "people", NULL), SEFL_ENOTFOUND);
    CHECK_STATUS(ledger_create(path, ""), SEFL_EINVAL);
}

static void stops_at_the_target(void **state)
{
    (void)state;
    ledger *l = NULL;
    ledger_terms t = terms(1);
    sefl_status st = SEFL_OK;
    ledger_total total;
    uint64_t round = 0;
    fresh(&l);
    while (round < 1000 && (st = ledger_charge(l, &t, round, NULL)) == SEFL_OK) {
        ledger_head before, after;
        ledger_get_head(l, &before);
        st = ledger_may_charge(l, &t, round + 1); /* asks, writes nothing */
        ledger_get_head(l, &after);
        assert_memory_equal(&before, &after, sizeof before);
        CHECK_OK(ledger_may_charge(l, &t, round));
        round++;
        if (st != SEFL_OK)
            break;
    }
    CHECK_STATUS(st, SEFL_EBUDGET); /* ledger_may_charge said so ... */
    CHECK_STATUS(ledger_charge(l, &t, round, NULL), SEFL_EBUDGET); /* ... and was right */
    CHECK_STATUS(ledger_head_after(l, &t, round, &(ledger_head){ 0 }), SEFL_EBUDGET);
    assert_true(round > 2);
    assert_non_null(strstr(sefl_last_error(), "the target is 3"));
    assert_non_null(strstr(sefl_last_error(), "spent"));
    CHECK_OK(ledger_spent(l, 0, &total));
    assert_true(total.server.epsilon <= 3 && total.server.epsilon > 2);
    assert_int_equal(total.rounds, round); /* the refused one left no trace */
    assert_true(!ledger_has(l, t.task, round));
    l = reopen(l);
    CHECK_STATUS(ledger_charge(l, &t, round, NULL), SEFL_EBUDGET);
    CHECK_OK(ledger_charge(l, &t, 0, NULL)); /* charged already: may be released again */
    /* a new task does not start from zero */
    ledger_terms u = terms(2);
    CHECK_STATUS(ledger_charge(l, &u, 0, NULL), SEFL_EBUDGET);

    ledger_close(l);

    /* a cap on rounds per client bounds what a server can see of one */
    fresh(&l);
    t.max_rounds_per_client = 2;
    for (round = 0; round < 50; round++)
        CHECK_OK(ledger_charge(l, &t, round, NULL));
    CHECK_OK(ledger_spent(l, 0, &total));
    dp_event two = { .noise = DP_NOISE_JOINT, .z = 4, .rate = 1, .count = 2, .dim = 1000 };
    dp_claim want;
    CHECK_OK(dp_epsilon(&want, &two, 1, &(dp_question){ .delta = 1e-6 }));
    assert_true(fabs(total.server.epsilon - want.epsilon) < 1e-6);
    assert_true(total.others.epsilon <= total.server.epsilon);
    ledger_close(l);
}

/* ---- correlated noise ---------------------------------------------------------------------- */

static ledger_terms filter_terms(uint8_t id, uint64_t horizon)
{
    ledger_terms t = terms(id);
    t.z = 5, t.rate = 1;
    t.max_rounds_per_client = 3, t.separation = horizon ? 0 : 4;
    t.filter = (dp_filter){ 1, { 3000 } };
    t.horizon = horizon;
    t.units = dp_filter_units(36);
    return t;
}

/* The total must be that of one release with noise z / s, for n rounds. */
static void one_release(const ledger *l, const ledger_terms *t, double s, uint64_t n)
{
    ledger_total total;
    dp_claim want;
    const double slack = dp_filter_slack(&t->filter, n, t->dim, t->z, t->units);
    dp_event ev = { .noise = t->noise, .z = t->z / (s + slack), .rate = 1, .count = 1 };
    ev.dim = t->dim * n;
    CHECK_OK(ledger_spent(l, 0, &total));
    CHECK_OK(dp_epsilon(&want, &ev, 1, &(dp_question){ .delta = t->delta }));
    assert_true(total.server.claimed && fabs(total.server.epsilon - want.epsilon) < 1e-9);
    assert_true(total.others.epsilon == total.server.epsilon);
    assert_true(ledger_task_s(l, 0) == s + slack);
}

static void correlated_noise(void **state)
{
    (void)state;
    ledger *l = NULL;
    ledger_terms t = filter_terms(1, 0), bad;
    const dp_turns turns = { 3, 4 };
    fresh(&l);
    charge_as_foretold(l, &t, 1, 2);
    one_release(l, &t, dp_filter_s(&t.filter, 1, &turns), 1);
    charge_as_foretold(l, &t, 6, 1); /* rounds 2 to 5 were skipped: round numbers count */
    one_release(l, &t, dp_filter_s(&t.filter, 6, &turns), 6);
    charge_as_foretold(l, &t, 3, 1); /* below the highest: S stays */
    one_release(l, &t, dp_filter_s(&t.filter, 6, &turns), 6);
    l = reopen(l);
    one_release(l, &t, dp_filter_s(&t.filter, 6, &turns), 6);

    /* further rounds: from the highest on */
    uint64_t left, n = 0;
    dp_claim c;
    CHECK_OK(ledger_rounds_left(l, &t, 100, &left));
    assert_true(left > 0 && left < 100);
    CHECK_OK(ledger_may_charge(l, &t, 6 + left));
    CHECK_STATUS(ledger_charge(l, &t, 7 + left, NULL), SEFL_EBUDGET);
    CHECK_OK(ledger_charge(l, &t, 6 + left, NULL));
    CHECK_STATUS(ledger_charge(l, &t, 7 + left, NULL), SEFL_EBUDGET);
    CHECK_OK(ledger_charge(l, &t, 5, NULL)); /* costs nothing more */
    ledger_close(l);
    fresh(&l);
    for (n = 0; n < 100; n++) {
        CHECK_OK(ledger_would_spend(l, &t, n + 1, &c));
        if (!(c.claimed && c.epsilon <= t.epsilon_max))
            break;
    }
    assert_int_equal(n, 6 + left);

    /* what the terms must not be */
    CHECK_STATUS(ledger_charge(l, &t, 0, NULL), SEFL_EINVAL);
    CHECK_STATUS(ledger_charge(l, &t, DP_FILTER_ROUNDS_MAX + 1, NULL), SEFL_EINVAL);
    bad = t, bad.filter.gamma[0] = 4097;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = t, bad.rate = 0.5;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = t, bad.units = 0;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = t, bad.dim = 0;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = t, bad.separation = 1;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = terms(3), bad.horizon = 4;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = terms(3), bad.units = 4;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    CHECK_OK(ledger_charge(l, &t, 1, NULL));
    bad = t, bad.filter.gamma[0]--; /* the same task cannot have another filter */
    CHECK_STATUS(ledger_charge(l, &bad, 2, NULL), SEFL_ESTATE);
    ledger_close(l);

    /* a client pays for its own rounds up to the horizon */
    t = filter_terms(2, 40);
    fresh(&l);
    CHECK_STATUS(ledger_charge(l, &t, 41, NULL), SEFL_EINVAL);
    charge_as_foretold(l, &t, 23, 2);
    one_release(l, &t, dp_filter_s_of(&t.filter, 40, (uint64_t[]){ 23 }, 1), 40);
    charge_as_foretold(l, &t, 3, 1);
    one_release(l, &t, dp_filter_s_of(&t.filter, 40, (uint64_t[]){ 3, 23 }, 2), 40);
    charge_as_foretold(l, &t, 40, 1);
    one_release(l, &t, dp_filter_s_of(&t.filter, 40, (uint64_t[]){ 3, 23, 40 }, 3), 40);
    assert_true(ledger_has_near(l, t.task, 20, 4) && !ledger_has_near(l, t.task, 20, 3));
    assert_true(ledger_has_near(l, t.task, 25, 4) && !ledger_has_near(l, t.task, 26, 3));
    assert_true(!ledger_has_near(l, t.task, 23, 17) && ledger_has_near(l, t.task, 23, 18));
    assert_false(ledger_has_near(l, (const uint8_t[32]){ 9 }, 23, 18));
    CHECK_OK(ledger_allows(l, &t, 8, 100));
    CHECK_STATUS(ledger_allows(l, &t, 8, 0.5), SEFL_EBUDGET);
    CHECK_OK(ledger_allows(l, &t, 23, 0.5)); /* it is charged */
    ledger_close(l);

    /* separation without a filter: as many releases as one client has turns, by round number */
    t = terms(4);
    t.separation = 5, t.epsilon_max = 4;
    fresh(&l);
    const struct {
        uint64_t round, count;
    } steps[] = { { 1, 1 }, { 2, 1 }, { 3, 1 }, { 6, 2 }, { 11, 3 }, { 15, 3 }, { 26, 6 } };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        ledger_total total;
        dp_claim want;
        dp_event ev = { DP_NOISE_JOINT, 4, 1, steps[i].count, 1000, 0 };
        CHECK_OK(ledger_charge(l, &t, steps[i].round, NULL));
        CHECK_OK(ledger_spent(l, 0, &total));
        CHECK_OK(dp_epsilon(&want, &ev, 1, &(dp_question){ .delta = t.delta }));
        assert_true(fabs(total.server.epsilon - want.epsilon) < 1e-9);
    }
    ledger_close(l);
}

/* ---- records that take turns --------------------------------------------------------------- */

/* The total must be that of so many releases, without amplification, against everybody. */
static void releases(const ledger *l, const ledger_terms *t, uint64_t count)
{
    ledger_total total;
    dp_claim want;
    const dp_event ev = { t->noise, t->z, 1, count, t->dim, 0 };
    CHECK_OK(ledger_spent(l, 0, &total));
    CHECK_OK(dp_epsilon(&want, &ev, 1, &(dp_question){ .delta = t->delta }));
    assert_true(total.server.claimed && fabs(total.server.epsilon - want.epsilon) < 1e-9);
    assert_true(total.others.epsilon == total.server.epsilon);
}

static void records_take_turns(void **state)
{
    (void)state;
    ledger *l = NULL;
    ledger_terms t = terms(1), bad;
    uint64_t left;
    t.rate = 1, t.unit = LEDGER_UNIT_RECORD, t.turns = 5, t.turn_rounds = 50, t.epsilon_max = 4;
    fresh(&l);
    const struct {
        uint64_t round, count;
    } steps[] = { { 1, 1 }, { 2, 1 }, { 10, 1 }, { 11, 2 }, { 30, 3 }, { 25, 3 }, { 50, 5 } };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        charge_as_foretold(l, &t, steps[i].round, i == 0 ? 2 : 1);
        releases(l, &t, steps[i].count);
        l = reopen(l);
        releases(l, &t, steps[i].count);
    }
    CHECK_STATUS(ledger_charge(l, &t, 51, NULL), SEFL_EINVAL);
    CHECK_STATUS(ledger_charge(l, &t, 0, NULL), SEFL_EINVAL);
    ledger_close(l);

    /* a client that begins late, and one that takes part rarely */
    fresh(&l);
    for (uint64_t r = 36; r <= 46; r++) {
        charge_as_foretold(l, &t, r, r == 36 ? 2 : 1);
        releases(l, &t, r <= 45 ? 1 : 2);
    }
    ledger_close(l);
    fresh(&l);
    CHECK_OK(ledger_charge(l, &t, 50, NULL));
    releases(l, &t, 1);
    CHECK_OK(ledger_charge(l, &t, 1, NULL));
    releases(l, &t, 2); /* two rounds, although 50 rounds have five turns */
    ledger_close(l);

    /* the budget ends the task only where a record would be used once more */
    fresh(&l);
    t.epsilon_max = 2.5;
    CHECK_OK(ledger_rounds_left(l, &t, 100, &left));
    assert_true(left % 10 == 0 && left > 0 && left < 50);
    for (uint64_t r = 1; r <= left; r++)
        CHECK_OK(ledger_charge(l, &t, r, NULL));
    CHECK_STATUS(ledger_may_charge(l, &t, left + 1), SEFL_EBUDGET);
    releases(l, &t, left / 10);

    /* what the terms must not be */
    bad = t, bad.turns = 4; /* the same task */
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_ESTATE);
    bad = t, bad.list[31] = 1;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_ESTATE);
    bad = t, bad.unit = LEDGER_UNIT_CLIENT;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = t, bad.turns = 50;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = t, bad.turn_rounds = UINT64_C(1) << 32;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = t, bad.separation = 2;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = t, bad.max_rounds_per_client = 4;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = t, bad.rate = 0.5;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = t, bad.filter = (dp_filter){ 1, { 3000 } }, bad.units = 4;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = t, bad.turns = 0;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    bad = t, bad.turns = bad.turn_rounds = 0, bad.list[0] = 1;
    CHECK_STATUS(ledger_charge(l, &bad, 1, NULL), SEFL_EINVAL);
    ledger_close(l);
}

static void without_a_claim(void **state)
{
    (void)state;
    ledger *l = NULL;
    ledger_terms t = terms(1), none = { .noise = DP_NOISE_NONE };
    ledger_total total;
    fresh(&l);
    CHECK_OK(ledger_charge(l, &t, 0, NULL));
    CHECK_OK(ledger_charge(l, &none, 0, NULL));
    CHECK_OK(ledger_spent(l, 0, &total));
    assert_true(!total.server.claimed && !total.others.claimed &&
                total.server.epsilon == INFINITY && total.delta == 1e-6);
    CHECK_STATUS(ledger_charge(l, &t, 1, NULL), SEFL_EBUDGET);
    assert_non_null(strstr(sefl_last_error(), "claimed"));
    CHECK_OK(ledger_charge(l, &none, 1, NULL));
    ledger_close(l);
    fresh(&l);
    static const struct {
        size_t field;
        double value;
        const char *name;
    } bad[] = {
        { offsetof(ledger_terms, z), 0.2, "z " },
        { offsetof(ledger_terms, z), -1, "z " },
        { offsetof(ledger_terms, rate), 1.5, "rate" },
        { offsetof(ledger_terms, delta), 0, "delta" },
        { offsetof(ledger_terms, delta), 1, "delta" },
        { offsetof(ledger_terms, z), NAN, "z " },
        { offsetof(ledger_terms, epsilon_max), 0, "epsilon" },
        { offsetof(ledger_terms, epsilon_max), INFINITY, "epsilon" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        t = terms(1);
        memcpy((uint8_t *)&t + bad[i].field, &bad[i].value, sizeof(double));
        CHECK_STATUS(ledger_charge(l, &t, 0, NULL), SEFL_EINVAL);
        assert_non_null(strstr(sefl_last_error(), bad[i].name));
    }
    ledger_close(l);
}

static void write_file(sefl_span s)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(s.p, 1, s.n, f), s.n);
    assert_int_equal(fclose(f), 0);
}

/* Every single-bit change, every truncation and every swap of records. */
static void tampering(void **state)
{
    (void)state;
    ledger *l = NULL;
    ledger_terms t = terms(1);
    ledger_head head, early;
    sefl_buf file = { 0 };
    fresh(&l);
    size_t ends[8], n = 0;
    for (uint64_t r = 0; r < 4; r++) {
        CHECK_OK(ledger_charge(l, &t, r, NULL));
        ends[n++] = (size_t)size_now();
        if (r == 1)
            ledger_get_head(l, &early);
    }
    ledger_get_head(l, &head);
    assert_int_equal(head.records, 6); /* population, task, four charges */
    assert_int_equal(ledger_compare(l, &head), LEDGER_SAME);
    assert_int_equal(ledger_compare(l, &early), LEDGER_PEER_BEHIND);
    early.hash[0] ^= 1;
    assert_int_equal(ledger_compare(l, &early), LEDGER_FORKED);
    head.records++;
    assert_int_equal(ledger_compare(l, &head), LEDGER_PEER_AHEAD);
    head.records--;
    assert_int_equal(ledger_compare(l, &(ledger_head){ 0 }), LEDGER_FORKED);
    ledger_close(l);
    CHECK_OK(file_read(&file, path, 1 << 20));

    for (size_t i = 0; i < file.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            file.p[i] ^= (uint8_t)(1 << bit);
            write_file(buf_span(&file));
            CHECK_STATUS(ledger_open_read(&l, path), SEFL_EPROTO); /* lengths too */
            CHECK_STATUS(ledger_open(&l, path, "people", NULL), SEFL_EPROTO);
            assert_int_equal(size_now(), (long)file.n);
            file.p[i] ^= (uint8_t)(1 << bit);
        }
    for (size_t cut = 0; cut < file.n; cut++) { /* rollback by truncation: any length */
        write_file(span_of(file.p, cut));
        sefl_status st = ledger_open(&l, path, "people", &head);
        assert_true(st == SEFL_EPROTO || st == SEFL_ESTATE);
        assert_int_equal(size_now(), (long)cut); /* refused: not touched */
        if (cut >= ends[0]) { /* without a remembered head the complete records count */
            CHECK_STATUS(ledger_open(&l, path, "others", NULL), SEFL_ESTATE);
            assert_int_equal(size_now(), (long)cut);
            CHECK_OK(ledger_open(&l, path, "people", NULL));
            uint64_t want = 0;
            while (want < n && ends[want] <= cut)
                want++;
            ledger_total total;
            CHECK_OK(ledger_spent(l, 0, &total));
            assert_int_equal(total.rounds, want);
            assert_int_equal(size_now(), (long)ends[want - 1]); /* the torn rest is gone */
            assert_int_equal(ledger_ignored(l), cut - ends[want - 1]);
            ledger_close(l);
        }
    }
    /* a tail of zeros, as some file systems leave after a power cut */
    sefl_buf tail = { 0 };
    CHECK_OK(wr_raw(&tail, file.p, ends[2]));
    for (int i = 0; i < 43; i++)
        CHECK_OK(wr_u8(&tail, 0));
    write_file(buf_span(&tail));
    CHECK_OK(ledger_open(&l, path, "people", NULL));
    assert_true(ledger_has(l, t.task, 2) && !ledger_has(l, t.task, 3));
    ledger_close(l);
    /* two records exchanged */
    size_t len = ends[3] - ends[2];
    assert_int_equal(len, ends[2] - ends[1]);
    buf_reset(&tail);
    CHECK_OK(wr_raw(&tail, file.p, ends[1]));
    CHECK_OK(wr_raw(&tail, file.p + ends[2], len));
    CHECK_OK(wr_raw(&tail, file.p + ends[1], len));
    write_file(buf_span(&tail));
    CHECK_STATUS(ledger_open(&l, path, "people", NULL), SEFL_EPROTO);
    /* another valid history of the same length */
    unlink(path);
    fresh(&l);
    for (uint64_t r = 10; r < 14; r++)
        CHECK_OK(ledger_charge(l, &t, r, NULL));
    assert_int_equal(ledger_compare(l, &head), LEDGER_FORKED);
    ledger_close(l);
    CHECK_STATUS(ledger_open(&l, path, "people", &head), SEFL_ESTATE);
    buf_clear(&tail);
    buf_clear(&file);
}

/* Lengths that point past the end, both copies changed, and tails longer than one append. */
static void no_false_torn_records(void **state)
{
    (void)state;
    ledger *l = NULL;
    ledger_terms t = terms(1);
    sefl_buf file = { 0 }, tail = { 0 };
    enum { CHARGE = 8 + 3 + 32 };
    fresh(&l);
    t.max_rounds_per_client = 1;
    for (uint64_t r = 0; r < 10; r++)
        CHECK_OK(ledger_charge(l, &t, r, NULL));
    ledger_close(l);
    CHECK_OK(file_read(&file, path, 1 << 20));
    for (size_t back = 1; back <= 10; back++)
        for (uint32_t n = 0; n < 600; n += n == 255 ? 2 : 1) {
            uint8_t *p = file.p + file.n - back * CHARGE, was[8];
            if (n == 3)
                continue;
            memcpy(was, p, 8);
            store_u32(p, n);
            write_file(buf_span(&file)); /* the length alone */
            CHECK_STATUS(ledger_open(&l, path, "people", NULL), SEFL_EPROTO);
            store_u32(p + 4, ~n); /* both, as an accident would not */
            write_file(buf_span(&file));
            sefl_status st = ledger_open(&l, path, "people", NULL);
            if (st == SEFL_OK) { /* as if the last charge were cut off: no more than that */
                assert_int_equal(back, 1);
                assert_true(ledger_has(l, t.task, 8) && ledger_ignored(l) == CHARGE);
                ledger_close(l);
            } else {
                assert_int_equal(st, SEFL_EPROTO);
                assert_int_equal(size_now(), (long)file.n);
            }
            memcpy(p, was, 8);
        }
    /* zeros: as many as one append has, and no more */
    for (size_t zeros = 1; zeros < 400; zeros++) {
        buf_reset(&tail);
        CHECK_OK(wr_raw(&tail, file.p, file.n));
        for (size_t i = 0; i < zeros; i++)
            CHECK_OK(wr_u8(&tail, 0));
        write_file(buf_span(&tail));
        sefl_status st = ledger_open_read(&l, path);
        assert_int_equal(st, zeros <= 272 ? SEFL_OK : SEFL_EPROTO);
        if (st == SEFL_OK) {
            assert_int_equal(ledger_ignored(l), zeros);
            ledger_close(l);
        }
    }
    /* a record of which only the first sector was written */
    fresh(&l);
    for (uint64_t r = 0; size_now() < 512; r++)
        CHECK_OK(ledger_charge(l, &t, r, NULL));
    ledger_close(l);
    buf_reset(&file);
    CHECK_OK(file_read(&file, path, 1 << 20));
    memset(file.p + 512, 0, file.n - 512);
    write_file(buf_span(&file));
    CHECK_OK(ledger_open(&l, path, "people", NULL));
    assert_true(ledger_ignored(l) > 0);
    ledger_close(l);
    buf_clear(&tail);
    buf_clear(&file);
}

static void limits_come_first(void **state)
{
    (void)state;
    ledger *l = NULL;
    ledger_terms none = { .noise = DP_NOISE_NONE };
    fresh(&l);
    for (uint32_t i = 0; i < LEDGER_TASKS_MAX; i++) {
        store_u32(none.task, i);
        CHECK_OK(ledger_charge(l, &none, 0, NULL));
    }
    long size = size_now();
    store_u32(none.task, LEDGER_TASKS_MAX);
    CHECK_STATUS(ledger_charge(l, &none, 0, NULL), SEFL_ERANGE);
    assert_int_equal(size_now(), size);
    store_u32(none.task, 0);
    CHECK_OK(ledger_charge(l, &none, 1, NULL)); /* a round of an old one still fits */
    l = reopen(l);
    ledger_close(l);
}

static void terms_have_one_form(void **state)
{
    (void)state;
    ledger *l = NULL;
    ledger_terms t = terms(1);
    fresh(&l);
    t.sigma_steps = NAN;
    CHECK_STATUS(ledger_charge(l, &t, 0, NULL), SEFL_EINVAL);
    t.sigma_steps = -0.0;
    CHECK_STATUS(ledger_charge(l, &t, 0, NULL), SEFL_EINVAL);
    t = terms(1), t.noise = DP_NOISE_DISCRETE, t.sigma_steps = 38662;
    CHECK_STATUS(ledger_charge(l, &t, 0, NULL), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "dim"));
    t = terms(1), t.noise = DP_NOISE_GAUSS, t.dim = 0;
    CHECK_STATUS(ledger_charge(l, &t, 0, NULL), SEFL_EINVAL);
    t = terms(1), t.noise = DP_NOISE_NONE;
    CHECK_STATUS(ledger_charge(l, &t, 0, NULL), SEFL_EINVAL);
    t = terms(1), t.unit = (ledger_unit)2;
    CHECK_STATUS(ledger_charge(l, &t, 0, NULL), SEFL_EINVAL);
    bool already = true;
    t = terms(1);
    CHECK_OK(ledger_charge(l, &t, 0, &already));
    assert_false(already);
    CHECK_OK(ledger_charge(l, &t, 0, &already));
    assert_true(already);
    ledger_close(l);
    static const char *const bad[] = { "a\nb", "\x1b[2J", "caf\xc3\xa9", "a\tb", "\x7f" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        unlink(path);
        CHECK_STATUS(ledger_create(path, bad[i]), SEFL_EINVAL);
    }
}

static void units_do_not_mix(void **state)
{
    (void)state;
    ledger *l = NULL;
    ledger_terms t = terms(1), u = terms(2);
    ledger_total total;
    fresh(&l);
    u.unit = LEDGER_UNIT_RECORD;
    CHECK_STATUS(ledger_charge(l, &u, 0, NULL), SEFL_EINVAL); /* no sampling amplifies it */
    u.rate = 1;
    CHECK_OK(ledger_charge(l, &u, 0, NULL));
    l = reopen(l);
    CHECK_OK(ledger_spent(l, 0, &total));
    assert_true(total.unit == LEDGER_TOTAL_RECORD && total.server.claimed);
    CHECK_STATUS(ledger_charge(l, &t, 0, NULL), SEFL_EBUDGET);
    assert_non_null(strstr(sefl_last_error(), "no common total"));
    u.unit = LEDGER_UNIT_CLIENT; /* the unit is one of the terms */
    CHECK_STATUS(ledger_charge(l, &u, 1, NULL), SEFL_ESTATE);
    ledger_close(l);
    fresh(&l);
    CHECK_OK(ledger_charge(l, &t, 0, NULL));
    CHECK_OK(ledger_spent(l, 0, &total));
    assert_true(total.unit == LEDGER_TOTAL_CLIENT && total.server.claimed);
    ledger_close(l);
}

static void two_servers_agree(void **state)
{
    (void)state;
    ledger *l = NULL;
    ledger_terms t = terms(1), u = terms(2);
    sefl_buf a = { 0 }, b = { 0 };
    for (int server = 0; server < 2; server++) {
        fresh(&l);
        CHECK_OK(ledger_charge(l, &t, 0, NULL));
        CHECK_OK(ledger_charge(l, &u, 0, NULL));
        if (server) /* one of them restarts in between */
            l = reopen(l);
        CHECK_OK(ledger_charge(l, &t, 1, NULL));
        ledger_close(l);
        CHECK_OK(file_read(server ? &b : &a, path, 1 << 20));
    }
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.p, b.p, a.n);
    buf_clear(&a);
    buf_clear(&b);
}

/* Every failing write, sync, read and allocation is reported; after reopening, a charge that
 * returned success is there, and any other may or may not be. */
static void failing_system(void **state)
{
    (void)state;
#if SEFL_FAULTS
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC, FAULT_READ };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (uint64_t nth = 1;; nth++) {
            ledger *l = NULL;
            ledger_terms t = terms(1);
            fresh(&l);
            CHECK_OK(ledger_charge(l, &t, 0, NULL));
            ledger_close(l);
            l = NULL;
            fault_arm(kinds[k], nth);
            sefl_status st = ledger_open(&l, path, "people", NULL);
            if (st == SEFL_OK)
                st = ledger_charge(l, &t, 1, NULL);
            bool hit = fault_was_hit();
            fault_disarm();
            if (hit)
                assert_true(st != SEFL_OK);
            bool usable = l && ledger_charge(l, &t, 2, NULL) == SEFL_OK;
            ledger_close(l);
            CHECK_OK(ledger_open(&l, path, "people", NULL));
            assert_true(ledger_has(l, t.task, 0));
            assert_true(ledger_has(l, t.task, 2) == usable);
            if (st == SEFL_OK)
                assert_true(ledger_has(l, t.task, 1));
            CHECK_OK(ledger_charge(l, &t, 1, NULL));
            ledger_close(l);
            if (!hit)
                break;
        }
    /* pages of a failed sync may count as clean: opening rewrites the last append before it
     * syncs */
    ledger *l = NULL;
    fault_arm(FAULT_WRITE, 1);
    CHECK_STATUS(ledger_open(&l, path, "people", NULL), SEFL_EIO);
    fault_disarm();
    unlink(path);
    TEST_FAULTS(FAULT_SYNC, st = ledger_create(path, "people"); if (st != SEFL_OK) unlink(path);
                , unlink(path));
#endif
}

/* somebody else's limit below the target of the task: asked, nothing written */
static void another_limit(void **state)
{
    (void)state;
    ledger *l = NULL;
    ledger_terms t = terms(1), none = { 0 };
    fresh(&l);
    uint64_t round = 1;
    sefl_status st;
    while ((st = ledger_allows(l, &t, round, 1.5)) == SEFL_OK) {
        long before = size_now();
        CHECK_OK(ledger_allows(l, &t, round, 1.5));
        assert_int_equal(size_now(), before);
        CHECK_OK(ledger_charge(l, &t, round++, NULL));
    }
    CHECK_STATUS(st, SEFL_EBUDGET);
    assert_true(round > 1);
    ledger_total total;
    CHECK_OK(ledger_spent(l, t.delta, &total));
    assert_true(total.server.epsilon <= 1.5);
    CHECK_OK(ledger_allows(l, &t, round - 1, 1e-9)); /* it is charged */
    ledger_terms u = terms(2);                       /* a new task has the same limit */
    CHECK_STATUS(ledger_allows(l, &u, 1, 1.5), SEFL_EBUDGET);
    CHECK_OK(ledger_charge(l, &t, round, NULL)); /* the task's own target is higher */
    memset(none.task, 9, sizeof none.task);
    CHECK_OK(ledger_allows(l, &none, 1, 1.5));
    t.z = -1;
    CHECK_STATUS(ledger_allows(l, &t, 1, 1.5), SEFL_EINVAL);
    ledger_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(charges_and_continues), cmocka_unit_test(stops_at_the_target),
        cmocka_unit_test(correlated_noise),      cmocka_unit_test(records_take_turns),
        cmocka_unit_test(without_a_claim),       cmocka_unit_test(tampering),
        cmocka_unit_test(no_false_torn_records), cmocka_unit_test(limits_come_first),
        cmocka_unit_test(terms_have_one_form),   cmocka_unit_test(units_do_not_mix),
        cmocka_unit_test(two_servers_agree),     cmocka_unit_test(failing_system),
        cmocka_unit_test(another_limit),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
