/* The noise that the protection of single records needs, without sampling. */
#include "support/check.h"

#include "privacy/dp_plan.h"

/* The first row of docs/PRIVACY.md, section 9: 140 rounds that may all use a record, epsilon 8 and
 * delta 1e-5, 945,510 values. Sampling the clients amplifies nothing; a limit on rounds counts. */
static void planned(void **state)
{
    (void)state;
    dp_plan p = { .source = DP_SOURCE_JOINT,
                  .clients = 10,
                  .rate = 0.1,
                  .rounds = 140,
                  .dim = 945510,
                  .delta = 1e-5,
                  .epsilon = 8,
                  .unit_record = true,
                  .records = 1000 };
    CHECK_OK(dp_plan_compute(&p));
    assert_true(p.z <= 7.568044 && p.z > 7.54);
    assert_true(p.server[0].epsilon == p.others[0].epsilon && p.server[0].epsilon <= 8);
    assert_true(p.signals == 1000);
    p.z = 0, p.max_rounds = 70;
    CHECK_OK(dp_plan_compute(&p));
    const dp_event server = dp_plan_event(&p, true), others = dp_plan_event(&p, false);
    assert_true(server.count == 70 && server.rate == 1 && p.z < 5.5);
    assert_true(others.count == 70 && others.rate == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(planned) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
