/* The list of calls: every path is built and found again, and nothing else is found. */
#include "protocol/http.h"

#include "support/check.h"

#include <stdio.h>
#include <string.h>

#define HASH "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static const struct {
    const char *method, *path;
} calls[] = {
#define CALL(name, method, path, answer) { method, path },
    HTTP_CALLS(CALL)
};

static void test_there_and_back(void **state)
{
    (void)state;
    for (int i = 0; i < HTTP_CALLS_N; i++) {
        http_target t = { .call = (http_call)i, .round = 18 }, got;
        char path[HTTP_PATH_MAX];
        memset(t.hash, 0xa5, sizeof t.hash);
        assert_ptr_equal(http_path(path, &t), path);
        assert_int_equal(http_find(&got, calls[i].method, path), HTTP_FOUND);
        assert_int_equal(got.call, t.call);
        assert_int_equal(got.round, strstr(calls[i].path, "/N/") ? 18 : 0);
        if (strstr(calls[i].path, "HASH"))
            assert_memory_equal(got.hash, t.hash, sizeof t.hash);
        assert_int_equal(http_find(&got, "DELETE", path), HTTP_NO_METHOD);
        strcat(path, "x");
        assert_int_equal(http_find(&got, calls[i].method, path), HTTP_NO_PATH);
    }
}

static void test_examples(void **state)
{
    (void)state;
    http_target t;
    char path[HTTP_PATH_MAX];
    assert_string_equal(http_path(path, &(http_target){ .call = HTTP_ROUND_MODEL, .round = 3 }),
                        "/v1/round/3/model");
    assert_int_equal(http_find(&t, "HEAD", "/v1/task"), HTTP_FOUND); /* as GET */
    assert_int_equal(t.call, HTTP_TASK);
    assert_int_equal(http_find(&t, "HEAD", "/v1/round/7/update/" HASH), HTTP_FOUND);
    assert_int_equal(t.call, HTTP_UPDATE_STATE);
    assert_int_equal(http_find(&t, "PUT", "/v1/round/9999999999999999999/update/" HASH),
                     HTTP_FOUND);
    assert_true(t.call == HTTP_UPDATE && t.round == 9999999999999999999u);
    assert_int_equal(http_find(&t, "GET", "/v1/round/7/update/" HASH), HTTP_NO_METHOD);
    static const char *const bad[] = {
        "",
        "/",
        "v1/task",
        "/v1",
        "/v1/",
        "/v1/loss",
        "/v1/task/",
        "/v1/Task",
        "/v1/round/",
        "/v1/round/N/model",
        "/v1/round/0/model",
        "/v1/round/01/model",
        "/v1/round/-1/model",
        "/v1/round/10000000000000000000/model",
        "/v1/round//model",
        "/v1/round/1/model/",
        "/v1/round/1/update/HASH",
        "/v1/round/1/update/" HASH "0",
        "/v1/round/1/update/" HASH "/",
        "/v1/round/1/update/0011",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(http_find(&t, "GET", bad[i]), HTTP_NO_PATH);
}

static void test_fields(void **state)
{
    (void)state;
    uint64_t n = 5;
    assert_string_equal(http_field_name(HTTP_OFFSET_FIELD), "Sefl-Offset");
    assert_true(http_field_is_query(HTTP_AFTER_FIELD) && !http_field_is_query(HTTP_TOTAL_FIELD));
    assert_true(http_is_header("Sefl-Total: 3", 10) && !http_is_header("Sefl-Totals", 11));
    assert_false(http_is_header("after", 5) || http_is_header("Sefl-", 5) || http_is_header("", 0));
    assert_true(http_number_read(&n, "0", 1) && n == 0);
    assert_true(http_number_read(&n, "120/x", 3) && n == 120);
    static const char *const bad[] = { "", "01", "-1", "+1", "1 ", "x", "10000000000000000000" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(http_number_read(&n, bad[i], strlen(bad[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
