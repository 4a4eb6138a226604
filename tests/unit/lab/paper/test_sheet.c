#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "paper/sheet.h"

#include <math.h>
#include <string.h>

static const char columns[] = "model block seconds " SHEET_ORIGIN;

static paper_options options(char path[PATH_MAX], bool quick)
{
    snprintf(path, PATH_MAX, "%s", folder_path("."));
    return (paper_options){ .quick = quick, .results = path, .version = "1.2", .commit = "abc" };
}

static void put(const paper_options *o, const char *text)
{
    CHECK_OK(paper_write(o, span_of_str(text), "t.csv"));
}

static void round_trip(void **state)
{
    (void)state;
    char path[PATH_MAX], file[PATH_MAX];
    paper_options o = options(path, false);
    sefl_buf csv = { 0 };
    sheet s = { 0 };
    CHECK_OK(sheet_open(&s, &o, columns, "t")); /* no file yet */
    assert_int_equal(s.rows, 0);
    CHECK_OK(sheet_add(&s, (const char *[]){ "lstm" }, (double[]){ 8, 0.1 }));
    CHECK_OK(sheet_add(&s, (const char *[]){ "lstm" }, (double[]){ 1, NAN }));
    CHECK_OK(sheet_csv(&s));
    sheet_clear(&s);
    o.commit = "def"; /* a later program adds a row */
    CHECK_OK(sheet_open(&s, &o, columns, "t"));
    assert_int_equal(s.rows, 2);
    assert_true(sheet_get(&s, 0, "seconds") == 0.1);
    assert_true(isnan(sheet_get(&s, 1, "seconds")));
    assert_string_equal(sheet_get_text(&s, 1, "model"), "lstm");
    CHECK_OK(sheet_add(&s, (const char *[]){ "lstm" }, (double[]){ 4, 2e-9 }));
    CHECK_OK(sheet_csv(&s));
    CHECK_OK(paper_path(file, &o, "t.csv"));
    CHECK_OK(file_read(&csv, file, 1000));
    const char want[] = "model,block,seconds,scale,version,commit\nlstm,8,0.1,full,1.2,abc\n"
                        "lstm,1,,full,1.2,abc\nlstm,4,2e-09,full,1.2,def\n";
    assert_int_equal(csv.n, sizeof want - 1);
    assert_memory_equal(csv.p, want, csv.n);
    double y;
    sheet_line(&y, &s, (const char *[]){ "lstm" }, "block", (unsigned[]){ 4 }, 1, "seconds");
    assert_true(y == 2e-9);
    buf_clear(&csv);
    sheet_clear(&s);
    o.quick = true; /* quick and full results never mix */
    CHECK_STATUS(sheet_open(&s, &o, columns, "t"), SEFL_EPROTO);
}

#define HEAD "model,block,seconds,scale,version,commit\n"
#define LONG "a string five of which are longer than a cell can be "

static void bad_files(void **state)
{
    (void)state;
    char path[PATH_MAX];
    paper_options o = options(path, false);
    static const char *const bad[] = {
        "",
        "model",
        "model,block,time,scale,version,commit\n",
        "model,block,seconds,x,scale,version,commit\n",
        HEAD "lstm,8,0.1,full,1.2,abc",
        HEAD "lstm,8,0.1,QUICK,1.2,abc\n",
        HEAD "lstm,8,0.1,full,1.2\n",
        HEAD "lstm,8,0.1,full,1.2,abc,\n",
        HEAD "\n",
        HEAD ",8,0.1,full,1.2,abc\n",
        HEAD "lstm,x,0.1,full,1.2,abc\n",
        HEAD "lstm,8,0.1 s,full,1.2,abc\n",
        HEAD "lstm,8,nan,full,1.2,abc\n",
        HEAD LONG LONG LONG LONG LONG ",8,0.1,full,1.2,abc\n",
        HEAD "lstm,8,0.1,full,1.2,abc\nx",
    };
    sheet s = { 0 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put(&o, bad[i]);
        CHECK_STATUS(sheet_open(&s, &o, columns, "t"), SEFL_EPROTO);
        assert_null(s.cell);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(bad_files),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
