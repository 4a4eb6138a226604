/* What records that take turns cost, against values computed independently (make_turns.py beside
 * this file): the uses of a record were counted there, and epsilon follows from another program. */
#include "support/check.h"
#include "support/folder.h"

#include "store/ledger.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct row {
    char kind[16];
    uint64_t rounds, turns, first, last, values, uses;
    double delta, z, epsilon;
} row;

static ledger_terms terms_of(const row *r)
{
    ledger_terms t = { .task = { 1 },
                       .noise = DP_NOISE_JOINT,
                       .unit = LEDGER_UNIT_RECORD,
                       .z = r->z,
                       .rate = 1,
                       .dim = r->values,
                       .epsilon_max = 1e3,
                       .delta = r->delta };
    if (r->turns < r->rounds)
        t.turns = r->turns, t.turn_rounds = r->rounds;
    return t;
}

/* A ledger that charges the rounds first .. last. */
static void check_epsilon(const row *r)
{
    ledger *l = NULL;
    ledger_total total;
    const ledger_terms t = terms_of(r);
    CHECK_OK(ledger_create(folder_path("ledger"), "people"));
    CHECK_OK(ledger_open(&l, folder_path("ledger"), "people", NULL));
    for (uint64_t round = r->first; round <= r->last; round++)
        CHECK_OK(ledger_charge(l, &t, round, NULL));
    CHECK_OK(ledger_spent(l, 0, &total));
    ledger_close(l);
    assert_int_equal(unlink(folder_path("ledger")), 0);
    assert_true(total.server.claimed && total.server.epsilon == total.others.epsilon);
    if (fabs(total.server.epsilon / r->epsilon - 1) > 1e-5)
        fail_msg("%.10g, wanted %.10g", total.server.epsilon, r->epsilon);
}

static void check_z(const row *r)
{
    double z;
    const dp_event ev = { .noise = DP_NOISE_JOINT, .rate = 1, .count = r->uses, .dim = r->values };
    CHECK_OK(dp_find_z(&z, &ev, r->epsilon, &(dp_question){ .delta = r->delta }));
    if (fabs(z - r->z) > 3e-6)
        fail_msg("%.10g, wanted %.10g", z, r->z);
}

static void independent_values(void **state)
{
    (void)state;
    FILE *f = fopen(SEFL_SOURCE_DIR "/tests/vectors/core/ledger/turns.csv", "r");
    char line[256];
    unsigned epsilons = 0, zs = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        row r;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%15[a-z],%lu,%lu,%lu,%lu,%lu,%lf,%lu,%lf,%lf", r.kind,
                                &r.rounds, &r.turns, &r.first, &r.last, &r.values, &r.delta,
                                &r.uses, &r.z, &r.epsilon),
                         10);
        const dp_record_turns turns = { .turns = r.turns, .rounds = r.rounds };
        assert_int_equal(dp_record_uses(&turns, r.first, r.last), r.uses);
        if (strcmp(r.kind, "z") == 0)
            check_z(&r), zs++;
        else
            check_epsilon(&r), epsilons++;
    }
    fclose(f);
    assert_true(epsilons == 13 && zs == 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(independent_values) };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
