/* The trust list: what is written reads back the same, manual changes are refused, writers wait for
 * each other, and a reader detects changes. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "trust/trust.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void key_of(uint8_t out[TRUST_KEY], unsigned n)
{
    memset(out, 0, TRUST_KEY);
    out[0] = (uint8_t)(n * 151);
    out[1] = (uint8_t)n;
}

static trust_member member(unsigned n, const char *name)
{
    trust_member m = {
        .role = TRUST_CLIENT, .state = TRUST_ACTIVE, .since = 100 + n, .until = 999
    };
    key_of(m.key, n);
    key_of(m.issuer, 77);
    snprintf(m.name, sizeof m.name, "%s", name);
    return m;
}

static trust *sample(unsigned many)
{
    trust *t;
    CHECK_OK(trust_new(&t));
    t->change = 41;
    t->self = (trust_self){ .role = TRUST_AGGREGATOR, .name = "as one" };
    key_of(t->self.tls, 5);
    key_of(t->self.sign, 6);
    trust_issuer i = { .role = TRUST_CLIENT,
                       .state = TRUST_ACTIVE,
                       .listed = true,
                       .since = 9,
                       .unit = "*",
                       .name = "Hospital, CA 100%",
                       .der = span_of("der bytes", 9) };
    key_of(i.key, 77);
    CHECK_OK(trust_issuer_put(t, &i));
    i.role = TRUST_CSP, i.listed = false, i.unit[0] = 0, strcpy(i.name, "-");
    CHECK_OK(trust_issuer_put(t, &i));
    for (unsigned n = 0; n < many; n++) {
        char name[32];
        snprintf(name, sizeof name, "client %u", n);
        trust_member m = member(n, n == 3 ? "" : name);
        if (n == 7)
            m.state = TRUST_REVOKED;
        CHECK_OK(trust_member_put(t, &m));
        trust_token k = { .state = 1 + n % 3, .made = 3, .expires = 4 + n };
        key_of(k.id, 100 + n);
        snprintf(k.name, sizeof k.name, "%s", name);
        CHECK_OK(trust_token_put(t, &k));
    }
    return t;
}

static void round_trip(void **state)
{
    trust *t = sample(40), *u;
    sefl_buf a = { 0 }, b = { 0 };
    uint8_t key[TRUST_KEY];
    (void)state;
    CHECK_OK(trust_print(&a, t));
    CHECK_OK(trust_parse(&u, buf_span(&a)));
    CHECK_OK(trust_print(&b, u));
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.p, b.p, a.n);
    assert_int_equal(u->members, 40);
    assert_int_equal(u->tokens, 40);
    assert_int_equal(u->issuers, 2);
    assert_string_equal(u->issuer[0].name, "Hospital, CA 100%");
    assert_string_equal(u->issuer[1].name, "-");
    assert_memory_equal(u->issuer[0].der.p, "der bytes", 9);
    assert_int_equal(trust_count(u, TRUST_CLIENT), 39);
    assert_int_equal(trust_count(u, TRUST_CSP), 0);
    key_of(key, 7);
    assert_int_equal(trust_find(u, key)->state, TRUST_REVOKED);
    assert_null(trust_find_name(u, "client 7")); /* revoked */
    assert_non_null(trust_find_name(u, "client 8"));
    key_of(key, 50);
    assert_null(trust_find(u, key));
    /* replaced, not doubled */
    trust_member m = member(8, "other");
    CHECK_OK(trust_member_put(u, &m));
    assert_int_equal(u->members, 40);
    assert_string_equal(trust_find(u, m.key)->name, "other");
    trust_free(t), trust_free(u);
    buf_clear(&a), buf_clear(&b);
}

/* Every byte changed, and every cut: refused. */
static void damage(void **state)
{
    trust *t = sample(4), *u;
    sefl_buf a = { 0 };
    (void)state;
    CHECK_OK(trust_print(&a, t));
    for (size_t i = 0; i < a.n; i++) {
        uint8_t old = a.p[i];
        a.p[i] = (uint8_t)(old == 'a' ? 'b' : 'a');
        if (trust_parse(&u, buf_span(&a)) != SEFL_EPROTO)
            fail_msg("byte %zu changed from %c and taken", i, old);
        a.p[i] = old;
        if (trust_parse(&u, span_of(a.p, i)) != SEFL_EPROTO)
            fail_msg("cut at byte %zu and taken", i);
    }
    CHECK_OK(wr_fmt(&a, "\n"));
    CHECK_STATUS(trust_parse(&u, buf_span(&a)), SEFL_EPROTO);
    trust_free(t);
    buf_clear(&a);
}

enum { WRITERS = 4, EACH = 8 };
static char path[300];

static void *writer(void *arg)
{
    unsigned first = *(unsigned *)arg;
    for (unsigned i = 0; i < EACH; i++) {
        trust_edit e;
        trust_member m = member(first + i, "x");
        if (trust_edit_begin(&e, path) != SEFL_OK || trust_member_put(e.t, &m) != SEFL_OK ||
            trust_edit_commit(&e) != SEFL_OK)
            abort();
        trust_edit_end(&e);
    }
    return NULL;
}

static void files(void **state)
{
    trust *t;
    trust_edit e;
    pthread_t thread[WRITERS];
    unsigned first[WRITERS];
    (void)state;
    snprintf(path, sizeof path, "%s", folder_path("list"));
    trust_watch w = { .path = path };
    CHECK_STATUS(trust_edit_begin(&e, path), SEFL_ENOTFOUND);
    CHECK_STATUS(trust_read(&t, path), SEFL_ENOTFOUND);
    assert_true(trust_watch_changed(&w)); /* a missing file is reported */
    CHECK_OK(trust_create(path));
    CHECK_STATUS(trust_create(path), SEFL_EEXIST);
    assert_true(trust_watch_changed(&w));
    assert_false(trust_watch_changed(&w));
    for (unsigned i = 0; i < WRITERS; i++) {
        first[i] = i * EACH;
        assert_int_equal(pthread_create(&thread[i], NULL, writer, &first[i]), 0);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(thread[i], NULL);
    assert_true(trust_watch_changed(&w));
    CHECK_OK(trust_read(&t, path));
    assert_int_equal(t->members, WRITERS * EACH); /* nobody's change is lost */
    assert_int_equal(t->change, WRITERS * EACH);
    trust_free(t);
    /* not committed: nothing changes */
    CHECK_OK(trust_edit_begin(&e, path));
    trust_member m = member(200, "y");
    CHECK_OK(trust_member_put(e.t, &m));
    trust_edit_end(&e);
    assert_false(trust_watch_changed(&w));
    CHECK_OK(file_write_atomic(path, span_of_str("sefl trust 1\n"), 0600));
    CHECK_STATUS(trust_read(&t, path), SEFL_EPROTO);
    assert_true(trust_watch_changed(&w));
    assert_true(trust_watch_failed(&w));
    assert_true(trust_watch_changed(&w)); /* tried again, though the file is the same */
    assert_false(trust_watch_failed(&w));
    assert_true(trust_watch_changed(&w));
    assert_true(trust_watch_good(&w, 7));
    assert_true(trust_watch_good(&w, 7)); /* the same again */
    assert_true(trust_watch_good(&w, 9));
    assert_false(trust_watch_good(&w, 8)); /* a copy was put back */
    assert_false(trust_watch_good(&w, 8)); /* until it is newer than all */
    assert_false(trust_watch_changed(&w));
    assert_true(trust_watch_failed(&w));
}

static void faults(void **state)
{
    trust *t = sample(4), *u = NULL;
    sefl_buf a = { 0 };
    (void)state;
    CHECK_OK(trust_print(&a, t));
    TEST_FAULTS(FAULT_ALLOC, st = trust_parse(&u, buf_span(&a)), trust_free(u));
    trust_free(t);
    buf_clear(&a);
}

#if SEFL_FAULTS
/* After a failed commit, in_force says which list is in the file: both cases occur. */
static void failed_commits(void **state)
{
    (void)state;
    const char *list = folder_path("doubtful");
    unsigned old = 0, new = 0;
    CHECK_OK(trust_create(list));
    for (uint64_t nth = 1;; nth++) {
        trust_edit e;
        trust *now;
        trust_member m = { .role = TRUST_CLIENT, .state = TRUST_ACTIVE, .name = "site" };
        CHECK_OK(trust_edit_begin(&e, list));
        const uint64_t before = e.t->change;
        m.key[0] = (uint8_t)nth;
        CHECK_OK(trust_member_put(e.t, &m));
        fault_arm(FAULT_SYNC, nth);
        sefl_status st = trust_edit_commit(&e);
        bool hit = fault_was_hit();
        fault_disarm();
        assert_int_equal(st == SEFL_OK, !hit);
        CHECK_OK(trust_read(&now, list));
        assert_int_equal(now->change == before, !e.in_force);
        assert_int_equal(trust_find(now, m.key) != NULL, e.in_force);
        if (hit)
            assert_int_equal(strstr(sefl_last_error(), "power failure") != NULL, e.in_force);
        old += hit && !e.in_force, new += hit &&e.in_force;
        trust_free(now);
        trust_edit_end(&e);
        if (!hit)
            break;
    }
    assert_true(old > 0 && new > 0);
}
#endif

/* A list that could not be read back is not written; a sleeping writer does not block others
 * forever. */
static void commits(void **state)
{
    (void)state;
    const char *list = folder_path("commits");
    sefl_buf before = { 0 }, after = { 0 };
    trust_edit e;
    trust_member m = { .role = TRUST_CLIENT, .state = TRUST_ACTIVE, .name = "K\xc3\xb6ln" };
    CHECK_OK(trust_create(list));
    CHECK_OK(file_read(&before, list, 1 << 16));
    CHECK_OK(trust_edit_begin(&e, list));
    CHECK_OK(trust_member_put(e.t, &m));
    CHECK_STATUS(trust_edit_commit(&e), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "nothing was changed"));
    CHECK_OK(file_read(&after, list, 1 << 16));
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.p, after.p, before.n);
    trust_edit second; /* flock distinguishes open files, not processes */
    CHECK_STATUS(trust_edit_begin(&second, list), SEFL_ETIMEOUT);
    assert_non_null(strstr(sefl_last_error(), "held by another process"));
    trust_edit_end(&e);
    CHECK_OK(trust_edit_begin(&second, list));
    trust_edit_end(&second);
    buf_clear(&before), buf_clear(&after);
}

static void names(void **state)
{
    char most[TRUST_NAME_MAX + 2];
    (void)state;
    memset(most, 'a', sizeof most);
    most[TRUST_NAME_MAX + 1] = 0;
    assert_false(trust_name_ok(most));
    most[TRUST_NAME_MAX] = 0;
    assert_true(trust_name_ok(most));
    assert_true(trust_name_ok("client-01"));
    static const char *const bad[] = { "", "-a", ".a", "a b", "a/b", "a\n", "\xc3\xa4", "a%20" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(trust_name_ok(bad[i]));
    for (trust_role r = TRUST_CLIENT; r <= TRUST_CSP; r++)
        assert_int_equal(trust_role_of(trust_role_name(r)), r);
    assert_int_equal(trust_role_of("root"), 0);
    assert_null(trust_role_name((trust_role)9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(damage),
        cmocka_unit_test(files),
        cmocka_unit_test(faults),
        cmocka_unit_test(names),
        cmocka_unit_test(commits),
#if SEFL_FAULTS
        cmocka_unit_test(failed_commits),
#endif
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
