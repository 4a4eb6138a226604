#include "report/assets.h"
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_web(const char *name, size_t *n)
{
    char path[4096], *text = malloc(1 << 20);
    assert_non_null(text);
    snprintf(path, sizeof path, "%s/src/host/page/web%s", SEFL_SOURCE_DIR, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *n = fread(text, 1, (1 << 20) - 1, f);
    text[*n] = '\0';
    fclose(f);
    return text;
}

static void test_files_as_in_the_tree(void **state)
{
    (void)state;
    size_t n;
    assert_int_equal(page_assets_n, 4);
    for (size_t i = 0; i < page_assets_n; i++) {
        const page_asset *a = &page_assets[i];
        if (strcmp(a->path, "/page.js") == 0)
            continue;
        char *bytes = read_web(strcmp(a->path, "/") == 0 ? "/page.html" : a->path, &n);
        assert_true(n == a->n); /* no byte more, no byte less */
        assert_memory_equal(bytes, a->bytes, n + 1);
        free(bytes);
    }
}

/* The script has every line of every module in order, but for the words import and export. */
static void test_script(void **state)
{
    (void)state;
    static const char *const modules[] = { "/format.js", "/charts.js", "/grid.js",
                                           "/words.js",  "/report.js", "/page.js" };
    const char *at = (const char *)page_asset_of("/page.js")->bytes;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        size_t n, lines = 0;
        char *text = read_web(modules[i], &n), *rest = text;
        for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
            if (strncmp(line, "export ", 7) == 0)
                line += 7;
            if (strncmp(line, "import ", 7) == 0 || strncmp(line, "} from", 6) == 0)
                continue;
            at = strstr(at, line);
            if (!at)
                fail_msg("%s: the script lacks %s", modules[i], line);
            at += strlen(line);
            lines++;
        }
        assert_true(lines > 50);
        free(text);
    }
    at = (const char *)page_asset_of("/page.js")->bytes;
    assert_true(!strstr(at, "\nimport ") && !strstr(at, "\nexport ") && !strstr(at, "</script"));
}

static void test_types_and_lookup(void **state)
{
    (void)state;
    assert_string_equal(page_asset_of("/")->type, "text/html; charset=utf-8");
    assert_string_equal(page_asset_of("/page.css")->type, "text/css; charset=utf-8");
    assert_string_equal(page_asset_of("/page.js")->type, "text/javascript; charset=utf-8");
    assert_string_equal(page_asset_of("/icon.svg")->type, "image/svg+xml");
    assert_null(page_asset_of("/page.html"));
    assert_null(page_asset_of("/words.js"));
    assert_null(page_asset_of(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_as_in_the_tree),
        cmocka_unit_test(test_script),
        cmocka_unit_test(test_types_and_lookup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
