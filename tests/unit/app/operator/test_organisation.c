/* Two organisations from empty folders to a task that both have signed; what each refuses. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "operator/organisation.h"
#include "protocol/task_make.h"
#include "roles/ca.h"

#include <string.h>
#include <unistd.h>

#define CARD "north/aggregator.card"
static char signed_path[PATH_MAX];
#define HALF "north/tasks/task/task.half"

static org_report founded[2];

static void make(const char *folder, trust_role role, org_report *r)
{
    CHECK_OK(org_init(
        &(org_config){ .folder = folder_path(folder),
                       .role = role,
                       .name = folder,
                       .at = { .host = "127.0.0.1", .port = role == TRUST_CSP ? 7001 : 7000 },
                       .population = "wards",
                       .sites = "a,b,c" },
        r));
}

static void two_folders(void **state)
{
    (void)state;
    make("north", TRUST_AGGREGATOR, &founded[0]);
    make("south", TRUST_CSP, &founded[1]);
    assert_int_equal(founded[0].tokens, 3);
    assert_true(file_exists(folder_path("south/key.lock")));
    assert_true(file_exists(folder_path("north/tokens/c")));
    assert_false(file_exists(folder_path("north/key.key")));
    org_report r;
    CHECK_STATUS(org_init(&(org_config){ .folder = folder_path("north"),
                                         .role = TRUST_CSP,
                                         .name = "x",
                                         .at = { "a", 1 },
                                         .population = "p" },
                          &r),
                 SEFL_EEXIST);
}

static size_t issuers(const char *folder)
{
    trust *t = NULL;
    CHECK_OK(ca_read(&t, folder_path(folder)));
    const size_t n = t->issuers;
    trust_free(t);
    return n;
}

/* Digits that nobody compared, the wrong role, another operator: no trust. */
static void trust_needs_digits(void **state)
{
    (void)state;
    uint8_t wrong[SHA256_BYTES];
    org_report other;
    memcpy(wrong, founded[0].digits, sizeof wrong);
    wrong[31] ^= 1;
    const size_t before = issuers("south/ca");
    CHECK_STATUS(org_trust(folder_path("south"), folder_path(CARD), wrong), SEFL_EAUTH);
    CHECK_STATUS(org_trust(folder_path("north"), folder_path(CARD), founded[0].digits),
                 SEFL_EINVAL);
    CHECK_STATUS(org_trust(folder_path("none"), folder_path(CARD), founded[0].digits),
                 SEFL_ENOTFOUND);
    assert_int_equal(issuers("south/ca"), before);
    CHECK_OK(org_trust(folder_path("south"), folder_path(CARD), founded[0].digits));
    assert_int_equal(issuers("south/ca"), before + 1);
    CHECK_OK(org_trust(folder_path("south"), folder_path(CARD),
                       founded[0].digits)); /* once more: the same */
    assert_int_equal(issuers("south/ca"), before + 1);
    make("nord", TRUST_AGGREGATOR, &other);
    CHECK_STATUS(org_trust(folder_path("south"), folder_path("nord/aggregator.card"), other.digits),
                 SEFL_EEXIST);
    assert_int_equal(issuers("south/ca"), before + 1);
}

typedef struct answer {
    bool yes;
    unsigned asked;
} answer;

static sefl_status agree(void *ctx, const task *t)
{
    answer *a = ctx;
    assert_string_equal(t->population, "wards");
    a->asked++;
    return a->yes ? SEFL_OK : SEFL_ECANCELLED;
}

static sefl_status draft(org_task_report *r, const char *folder, const char *set)
{
    settings s;
    settings_init(&s, task_schema);
    if (set)
        CHECK_OK(settings_set(&s, set, "--set"));
    const sefl_status st = org_task(&(org_task_config){ .folder = folder_path(folder),
                                                        .text = folder_path("public.txt"),
                                                        .task = &s },
                                    r);
    settings_clear(&s);
    return st;
}

static void a_task_of_both(void **state)
{
    (void)state;
    org_task_report r;
    answer a = { .yes = false };
    CHECK_OK(file_write_new(folder_path("public.txt"),
                            span_of_str("the cat sat on the mat\nthe dog ate the cat\n"), 0644));
    CHECK_STATUS(draft(&r, "north", NULL), SEFL_ESTATE); /* no CSP yet */
    CHECK_OK(org_trust(folder_path("north"), folder_path("south/csp.card"), founded[1].digits));
    assert_true(file_exists(folder_path("north/aggregator.yml")));
    CHECK_STATUS(draft(&r, "south", NULL), SEFL_EINVAL); /* AS drafts */
    CHECK_STATUS(draft(&r, "north", "model.body=external"), SEFL_EINVAL);
    CHECK_STATUS(draft(&r, "north", "privacy.sampling=open"), SEFL_EINVAL); /* no rate */
    assert_false(file_exists(folder_path("north/tasks/task"))); /* a failure leaves nothing */
    CHECK_OK(draft(&r, "north", NULL));
    assert_int_equal(r.enrolled, 3);
    assert_int_equal(r.threshold, 3);
    assert_true(r.claim && r.epsilon == 3 && r.z > 1);
    CHECK_STATUS(draft(&r, "north", NULL), SEFL_EEXIST);

    CHECK_STATUS(org_sign(folder_path("north"), folder_path(HALF), agree, &a, signed_path),
                 SEFL_EINVAL);
    CHECK_STATUS(org_sign(folder_path("south"), folder_path("north/tasks/task/task.json"), agree,
                          &a, signed_path),
                 SEFL_EAUTH);
    assert_int_equal(a.asked, 0); /* nobody is asked about a task that AS has not signed */
    CHECK_STATUS(org_sign(folder_path("south"), folder_path(HALF), agree, &a, signed_path),
                 SEFL_ECANCELLED);
    assert_int_equal(a.asked, 1);
    assert_false(file_exists(folder_path("south/tasks/task/task.signed")));
    a.yes = true;
    CHECK_OK(org_sign(folder_path("south"), folder_path(HALF), agree, &a, signed_path));
    assert_true(file_exists(folder_path("south/tasks/task/task.signed")));
    CHECK_STATUS(org_sign(folder_path("south"), folder_path(HALF), agree, &a, signed_path),
                 SEFL_EEXIST);
}

/* A task of another AS, with a valid signature, for this CSP. */
static void a_stranger_s_task(void **state)
{
    (void)state;
    org_task_report r;
    answer a = { .yes = true };
    CHECK_OK(org_trust(folder_path("nord"), folder_path("south/csp.card"), founded[1].digits));
    CHECK_OK(draft(&r, "nord", "privacy.epsilon=0"));
    assert_false(r.claim);
    CHECK_OK(file_write_atomic(folder_path("south/old"), span_of_str(""), 0600));
    assert_int_equal(rename(folder_path("south/tasks/task/task.signed"), folder_path("south/old")),
                     0);
    CHECK_STATUS(org_sign(folder_path("south"), folder_path("nord/tasks/task/task.half"), agree, &a,
                          signed_path),
                 SEFL_EAUTH);
    assert_int_equal(a.asked, 0);
}

static void a_failure_leaves_nothing(void **state)
{
    (void)state;
    org_report r;
    char lock[PATH_MAX], west[PATH_MAX];
    CHECK_OK(file_path(lock, "%s", folder_path("lock")));
    CHECK_OK(file_path(west, "%s", folder_path("west")));
    const org_config c = { .folder = west,
                           .role = TRUST_CSP,
                           .name = "West",
                           .at = { "west.example", 7001 },
                           .population = "wards",
                           .sites = "a",
                           .lock = lock };
    const size_t before = folder_count();
#if SEFL_FAULTS
    for (uint64_t n = 1; n < 40; n += 5) {
        fault_arm(FAULT_WRITE, n);
        sefl_status st = org_init(&c, &r);
        const bool hit = fault_was_hit();
        fault_disarm();
        if (!hit) {
            CHECK_OK(st);
            return;
        }
        assert_true(st != SEFL_OK);
        assert_int_equal(folder_count(), before);
    }
#endif
    (void)before;
    CHECK_OK(org_init(&c, &r));
    assert_true(file_exists(lock));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_folders),
        cmocka_unit_test(trust_needs_digits),
        cmocka_unit_test(a_task_of_both),
        cmocka_unit_test(a_stranger_s_task),
        cmocka_unit_test(a_failure_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
