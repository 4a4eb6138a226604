#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "store/text_ledger.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void one_text_one_ledger(void **state)
{
    (void)state;
    ledger *l = NULL;
    assert_int_equal(mkdir(folder_path("text"), 0700), 0);
    CHECK_OK(text_ledger_create(folder_path("first"), folder_path("text")));
    assert_true(file_exists(folder_path("text/.sefl-ledger")));
    CHECK_OK(text_ledger_open(&l, folder_path("first"), folder_path("text")));
    ledger_close(l);

    /* a second ledger is refused, whatever path names the text */
    CHECK_STATUS(text_ledger_create(folder_path("second"), folder_path("text")), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "one text has one ledger"));
    assert_false(file_exists(folder_path("second")));
    assert_int_equal(symlink(folder_path("text"), folder_path("link")), 0);
    CHECK_STATUS(text_ledger_create(folder_path("second"), folder_path("link/")), SEFL_ESTATE);
    CHECK_STATUS(text_ledger_create(folder_path("first"), folder_path("text")), SEFL_EEXIST);

    /* another text's ledger, a new ledger, a server's ledger */
    folder_put("notes.txt", "a\n", 2);
    CHECK_OK(text_ledger_create(folder_path("second"), folder_path("notes.txt")));
    assert_true(file_exists(folder_path("notes.txt.sefl-ledger")));
    CHECK_STATUS(text_ledger_open(&l, folder_path("second"), folder_path("text")), SEFL_ESTATE);
    CHECK_STATUS(text_ledger_check(folder_path("second"), folder_path("text")), SEFL_ESTATE);
    CHECK_OK(ledger_create(folder_path("server"), "people"));
    CHECK_STATUS(text_ledger_open(&l, folder_path("server"), folder_path("text")), SEFL_ESTATE);
    CHECK_STATUS(text_ledger_check(folder_path("server"), folder_path("text")), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "not of a text"));
    assert_null(l);

    /* a text without a mark gets the first ledger; a mark must be valid */
    assert_int_equal(unlink(folder_path("text/.sefl-ledger")), 0);
    CHECK_OK(text_ledger_check(folder_path("second"), folder_path("text")));
    assert_false(file_exists(folder_path("text/.sefl-ledger"))); /* a check writes nothing */
    CHECK_OK(text_ledger_open(&l, folder_path("second"), folder_path("text")));
    ledger_close(l);
    CHECK_STATUS(text_ledger_open(&l, folder_path("first"), folder_path("text")), SEFL_ESTATE);
    folder_put("text/.sefl-ledger", "text-\n", 6);
    CHECK_STATUS(text_ledger_open(&l, folder_path("second"), folder_path("text")), SEFL_EPROTO);
    CHECK_STATUS(text_ledger_open(&l, folder_path("second"), folder_path("none")), SEFL_ENOTFOUND);
    CHECK_STATUS(text_ledger_create(folder_path("third"), folder_path("none")), SEFL_ENOTFOUND);
    assert_false(file_exists(folder_path("third")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_text_one_ledger),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
