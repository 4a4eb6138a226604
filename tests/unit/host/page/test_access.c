/* Who may see the page: token, cookie, Host, list of viewers. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "base/random.h"
#include "page/access.h"

#include <string.h>
#include <sys/stat.h>

static void tokens(void **state)
{
    (void)state;
    access_rule a, b;
    sefl_rng rng = rng_system();
    struct stat s;
    char folder[300];
    snprintf(folder, sizeof folder, "%s", folder_path("state"));
    CHECK_OK(file_new_folder(folder, 0700));
    CHECK_OK(access_open(&a, folder, &rng));
    assert_int_equal(strlen(a.token), ACCESS_TOKEN);
    assert_int_equal(stat(folder_path("state/page.token"), &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    CHECK_OK(access_listens(&a, "127.0.0.1", 7020));
    assert_int_equal(stat(folder_path("state/page.url"), &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    CHECK_OK(access_open(&b, folder, &rng)); /* a restart */
    assert_string_equal(a.token, b.token);
    assert_string_equal(a.cookie, b.cookie);
    assert_string_not_equal(a.token, a.cookie);
    assert_true(access_token_fits(&a, b.token) && access_cookie_fits(&a, b.cookie));
    assert_false(access_token_fits(&a, b.cookie) || access_cookie_fits(&a, b.token));
    assert_false(access_token_fits(&a, NULL) || access_token_fits(&a, ""));
    for (size_t i = 0; i < ACCESS_TOKEN; i++) {
        char wrong[ACCESS_TOKEN + 8];
        snprintf(wrong, sizeof wrong, "%s", a.token);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        assert_false(access_token_fits(&a, wrong));
        snprintf(wrong, sizeof wrong, "%.*s", (int)i, a.token);
        assert_false(access_token_fits(&a, wrong));
    }
    char longer[ACCESS_TOKEN + 8];
    snprintf(longer, sizeof longer, "%s0", a.token);
    assert_false(access_token_fits(&a, longer));
    folder_put("state/page.token", "too short\n", 10);
    CHECK_STATUS(access_open(&b, folder, &rng), SEFL_EPROTO);
    memset(longer, 'z', sizeof longer);
    longer[ACCESS_TOKEN] = '\n';
    folder_put("state/page.token", longer, ACCESS_TOKEN + 1);
    CHECK_STATUS(access_open(&b, folder, &rng), SEFL_EPROTO);
    folder_put("state/page.token", longer, sizeof longer);
    CHECK_STATUS(access_open(&b, folder, &rng), SEFL_EPROTO);
}

static void hosts(void **state)
{
    (void)state;
    static const char *const good[] = { "127.0.0.1:7020", "localhost:7020", "[::1]:7020",
                                        "127.8.9.1:7020" };
    static const char *const bad[] = { "",
                                       "127.0.0.1",
                                       "127.0.0.1:7021",
                                       "evil.example:7020",
                                       "127.0.0.1.evil.example:7020",
                                       "localhost.evil.example:7020",
                                       "127.evil:7020",
                                       "10.0.0.1:7020",
                                       "[::2]:7020",
                                       "localhost:7020@evil",
                                       "localhost: 7020" };
    access_rule a = { .port = 7020 };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!access_host_fits(&a, good[i]))
            fail_msg("%s is refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (access_host_fits(&a, bad[i]))
            fail_msg("%s is accepted", bad[i]);
    assert_false(access_host_fits(&a, NULL));
}

#define ONE "0101010101010101010101010101010101010101010101010101010101010101"

static void viewers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int fits; /* -1: an error */
    } lists[] = {
        { "", 0 },
        { ONE, 1 },
        { "# nobody\n\n  " ONE "  Ann, office\r\n", 1 },
        { "#" ONE "\n", 0 },
        { "0202020202020202020202020202020202020202020202020202020202020202\n" ONE "\n", 1 },
        { ONE "00\n", -1 },
        { ONE "\nnot a key\n", -1 },
        { "01\n", -1 },
    };
    uint8_t key[32];
    bool fits;
    memset(key, 1, sizeof key);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const char *path = folder_put("viewers", lists[i].text, strlen(lists[i].text));
        sefl_status st = access_viewer_fits(&fits, path, key);
        if ((st != SEFL_OK) != (lists[i].fits < 0) || fits != (lists[i].fits == 1))
            fail_msg("list %zu: %s, %d", i, sefl_status_name(st), fits);
    }
    CHECK_STATUS(access_viewer_fits(&fits, folder_path("none"), key), SEFL_ENOTFOUND);
    assert_false(fits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens),
        cmocka_unit_test(hosts),
        cmocka_unit_test(viewers),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
