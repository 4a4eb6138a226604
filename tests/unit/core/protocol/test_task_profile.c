/* Profiles: what a task gets that its maker does not set, and that nothing given changes. */
#include "protocol/task_make.h"
#include "protocol/task_profile.h"
#include "support/check.h"

#include <string.h>

/* Fills a profile over the given settings, which end with NULL. */
static void fill(settings *s, task_profile p, ...)
{
    va_list ap;
    const char *set;
    settings_init(s, task_schema);
    va_start(ap, p);
    while ((set = va_arg(ap, const char *)))
        CHECK_OK(settings_set(s, set, "test"));
    va_end(ap);
    CHECK_OK(task_profile_fill(s, p));
}

static void every_profile_fits_the_schema(void **state)
{
    settings s;
    (void)state;
    for (int p = 0; p < TASK_PROFILES; p++) {
        fill(&s, (task_profile)p, "rounds.enrolled=8", NULL);
        for (const setting_def *d = task_schema; d->key; d++) {
            const char *value = task_profile_value((task_profile)p, d->key);
            if (value)
                assert_string_equal(settings_text(&s, d->key), value);
        }
        settings_clear(&s);
    }
    assert_null(task_profile_value(TASK_OF_PROVISION, "no.such"));
}

static void given_values_stay(void **state)
{
    settings s;
    (void)state;
    fill(&s, TASK_OF_PROVISION, "rounds.enrolled=40", "rounds.threshold=3", "rounds.enough=9",
         "model.embed=16", "privacy.z=2", "privacy.claim=dp", NULL);
    assert_int_equal(settings_u64(&s, "rounds.threshold"), 3);
    assert_int_equal(settings_u64(&s, "rounds.enough"), 9);
    assert_int_equal(settings_u64(&s, "model.embed"), 16);
    assert_string_equal(settings_text(&s, "privacy.z"), "2");
    settings_clear(&s);
}

/* A claim finds its z, steps leave no epochs, an external model has neither, sampling no early
 * end. */
static void what_follows_is_left_out(void **state)
{
    static const struct {
        const char *set, *key;
        bool stays;
    } c[] = {
        { "privacy.claim=none", "privacy.z", true },
        { "privacy.claim=dp", "privacy.z", false },
        { "privacy.noise=none", "privacy.z", false },
        { "privacy.classic_epsilon=0.5", "privacy.z", false },
        { "training.steps=3", "training.epochs", false },
        { "privacy.unit=record", "training.epochs", false },
        { "model.body=external", "training.epochs", false },
        { "model.body=external", "model.embed", false },
        { "model.body=external", "rounds.count", true },
        { "privacy.sampling=open", "rounds.enough", false },
        { "privacy.sampling=open", "rounds.threshold", false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        settings s;
        fill(&s, TASK_OF_PROVISION, "rounds.enrolled=8", c[i].set, NULL);
        if (settings_given(&s, c[i].key) != c[i].stays)
            fail_msg("%s: %s", c[i].set, c[i].key);
        settings_clear(&s);
    }
}

/* docs/OPERATING.md: 3 of 5, 4 of 6, 5 of 7, half of more; a trial: a quarter of those who have a
 * turn. */
static void thresholds(void **state)
{
    static const unsigned sites[][2] = { { 2, 2 }, { 3, 3 },  { 4, 3 },  { 5, 3 },  { 6, 4 },
                                         { 7, 5 }, { 10, 5 }, { 12, 6 }, { 40, 20 } };
    char enrolled[40];
    settings s;
    (void)state;
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        snprintf(enrolled, sizeof enrolled, "rounds.enrolled=%u", sites[i][0]);
        fill(&s, i % 2 ? TASK_OF_OPERATOR : TASK_OF_REHEARSAL, enrolled, NULL);
        assert_int_equal(settings_u64(&s, "rounds.threshold"), sites[i][1]);
        assert_int_equal(settings_u64(&s, "rounds.enough"), sites[i][0]);
        settings_clear(&s);
    }
    fill(&s, TASK_OF_EXPERIMENT, "rounds.enrolled=40", "rounds.separation=2",
         "rounds.clients_max=30", NULL);
    assert_int_equal(settings_u64(&s, "rounds.threshold"), 5);
    assert_int_equal(settings_u64(&s, "rounds.enough"), 30);
    settings_clear(&s);
    fill(&s, TASK_OF_TRY, "rounds.enrolled=40", NULL); /* provision chooses */
    assert_false(settings_given(&s, "rounds.threshold"));
    settings_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_profile_fits_the_schema),
        cmocka_unit_test(given_values_stay),
        cmocka_unit_test(what_follows_is_left_out),
        cmocka_unit_test(thresholds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
