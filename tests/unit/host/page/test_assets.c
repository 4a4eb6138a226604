#include "page/assets.h"
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_files_as_in_the_tree(void **state)
{
    (void)state;
    assert_true(page_assets_n >= 4);
    for (size_t i = 0; i < page_assets_n; i++) {
        const page_asset *a = &page_assets[i];
        const char *name = strcmp(a->path, "/") == 0 ? "/page.html" : a->path;
        char path[4096];
        snprintf(path, sizeof path, "%s/src/host/page/web%s", SEFL_SOURCE_DIR, name);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        unsigned char *bytes = malloc(a->n + 1);
        assert_non_null(bytes);
        assert_true(fread(bytes, 1, a->n + 1, f) == a->n); /* no byte more, no byte less */
        assert_memory_equal(bytes, a->bytes, a->n);
        free(bytes);
        fclose(f);
    }
}

static void test_types_and_lookup(void **state)
{
    (void)state;
    assert_string_equal(page_asset_of("/")->type, "text/html; charset=utf-8");
    assert_string_equal(page_asset_of("/page.css")->type, "text/css; charset=utf-8");
    assert_string_equal(page_asset_of("/page.js")->type, "text/javascript; charset=utf-8");
    assert_string_equal(page_asset_of("/icon.svg")->type, "image/svg+xml");
    assert_null(page_asset_of("/page.html"));
    assert_null(page_asset_of(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_as_in_the_tree),
        cmocka_unit_test(test_types_and_lookup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
