/* A real secure round at small scale: what it measures must fit the model and the scheme. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "model/lm.h"
#include "paper/cost.h"
#include "paper/sheet.h"

#include <math.h>
#include <string.h>

static void means(void **state)
{
    (void)state;
    spread s = spread_of((double[]){ 1, 2, 3, 6 }, 4);
    assert_true(s.mean == 3 && fabs(s.sd - sqrt(14.0 / 3)) < 1e-15);
    s = spread_of((double[]){ 5 }, 1);
    assert_true(s.mean == 5 && s.sd == 0);
    assert_true(isnan(spread_of(NULL, 0).mean));
}

static double read_back(const paper_options *o, size_t row, const char *column, size_t *rows)
{
    static const char columns[] =
        "model block scheme key_bits values clients threads run seed quantise_s encrypt_s upload_s "
        "add_s open_s shares_s reveal_s decrypt_s total_s run_s up_bytes down_bytes link_bytes "
        "shares_bytes " SHEET_ORIGIN;
    sheet s = { 0 };
    CHECK_OK(sheet_open(&s, o, columns, "cost/lstm-8-pad"));
    *rows = s.rows;
    double v = row < s.rows ? sheet_get(&s, row, column) : NAN;
    sheet_clear(&s);
    return v;
}

static bool stops(void *self, uint64_t done, uint64_t total)
{
    (void)self, (void)done, (void)total;
    return false;
}

static void one_case(void **state)
{
    (void)state;
    char path[PATH_MAX], file[PATH_MAX];
    layout l;
    size_t rows;
    federation_key key = { 0 };
    snprintf(path, sizeof path, "%s", folder_path("results"));
    paper_options o = {
        .quick = true, .results = path, .version = "1", .commit = "abc", .threads = 2
    };
    const cost_case c = { "lstm", 8, "pad" };
    CHECK_OK(paper_open(&o));
    CHECK_OK(paper_path(file, &o, "cost"));
    CHECK_OK(file_make_folder(file, 0700));
    CHECK_OK(cost_measure(&o, &c, 1, &key));
    CHECK_OK(lm_config_layout(
        &(lm_config){ .vocab = 300, .embed = 32, .hidden = 32, .layers = 1, .block = 8 }, &l));
    const size_t values = l.count;
    layout_clear(&l);
    assert_true(read_back(&o, 0, "values", &rows) == (double)values);
    assert_int_equal(rows, 1);
    assert_true(read_back(&o, 0, "down_bytes", &rows) == 4 * (double)values);
    assert_true(read_back(&o, 0, "up_bytes", &rows) >= 3.5 * (double)values);
    assert_true(read_back(&o, 0, "shares_bytes", &rows) > 1000 * (double)values);
    static const char *const seconds[] = { "quantise_s", "encrypt_s", "upload_s", "add_s",
                                           "open_s",     "shares_s",  "reveal_s" };
    double sum = 0;
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        double s = read_back(&o, 0, seconds[i], &rows);
        assert_true(s > 0 && s < 100);
        sum += s;
    }
    assert_true(fabs(read_back(&o, 0, "total_s", &rows) - sum) < 1e-9);
    CHECK_OK(cost_measure(&o, &c, 1, &key)); /* resumes: nothing is left to do */
    CHECK_OK(cost_measure(&o, &c, 2, &key));
    assert_true(read_back(&o, 1, "run", &rows) == 2);
    const sefl_progress stop = { .report = stops };
    o.stop = &stop;
    CHECK_STATUS(cost_measure(&o, &c, 3, &key), SEFL_ECANCELLED);
    (void)read_back(&o, 0, "run", &rows);
    assert_int_equal(rows, 2);
    CHECK_OK(paper_cost_draw(&o)); /* without block 1 there is no speed-up */
    CHECK_OK(paper_path(file, &o, "cost.csv"));
    assert_true(file_exists(file));
    federation_key_clear(&key);
}

static void bad_case(void **state)
{
    (void)state;
    federation_key key = { 0 };
    paper_options o = { .quick = true, .results = folder_path("."), .threads = 1 };
    CHECK_STATUS(cost_measure(&o, &(cost_case){ "gru", 8, "pad" }, 1, &key), SEFL_EINVAL);
    CHECK_STATUS(cost_measure(&o, &(cost_case){ "lstm", 8, "lwe" }, 1, &key), SEFL_EINVAL);
    CHECK_STATUS(cost_measure(&o, &(cost_case){ "lstm", 0, "pad" }, 1, &key), SEFL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means),
        cmocka_unit_test(one_case),
        cmocka_unit_test(bad_case),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
