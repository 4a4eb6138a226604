#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "model/corpus/vocab.h"
#include "paper/paper.h"
#include "simulate/run_folder.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static sefl_buf read_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    sefl_buf b = { 0 };
    CHECK_OK(file_path(path, "%s/%s", folder, name));
    CHECK_OK(file_read(&b, path, 1 << 20));
    return b;
}

/* The two parts are the training text; the words are those of all of it. */
static void splits(void **state)
{
    (void)state;
    char data[PATH_MAX], runs[PATH_MAX], path[PATH_MAX];
    sefl_buf text = { 0 };
    vocab *v = NULL;
    for (int i = 0; i < 100; i++)
        CHECK_OK(wr_fmt(&text, "line %d of the text\n", i));
    snprintf(data, sizeof data, "%s", folder_path("data"));
    snprintf(runs, sizeof runs, "%s", folder_path("runs"));
    CHECK_OK(paper_make_folder(data));
    folder_put("data/train.txt", text.p, text.n);
    folder_put("data/valid.txt", "of the text\n", 12);
    folder_put("data/test.txt", "the text\n", 9);
    const paper_options o = { .data = data, .runs = runs };
    for (int again = 0; again < 2; again++)
        CHECK_OK(paper_split(&o));
    sefl_buf first = read_file(runs, "split/public/train.txt");
    sefl_buf rest = read_file(runs, "split/rest/train.txt");
    assert_true(first.n >= text.n / 10 && first.n < text.n / 9 && first.p[first.n - 1] == '\n');
    assert_int_equal(first.n + rest.n, text.n);
    assert_memory_equal(first.p, text.p, first.n);
    assert_memory_equal(rest.p, text.p + first.n, rest.n);
    buf_clear(&first), buf_clear(&rest);
    for (int k = 0; k < 2; k++) {
        sefl_buf valid = read_file(runs, k ? "split/rest/valid.txt" : "split/public/valid.txt");
        assert_int_equal(valid.n, 12);
        buf_clear(&valid);
    }
    CHECK_OK(file_path(path, "%s/split/words.txt", runs));
    CHECK_OK(vocab_read(&v, path, &(vocab_settings){ .order = VOCAB_FREQUENCY }));
    assert_int_equal(vocab_size(v), 100 + 6); /* numbers; line of the text <eos> <unk> */
    vocab_free(v);
    buf_clear(&text);
}

/* The second part of a table would have no header. */
static void refuses_tables(void **state)
{
    (void)state;
    static const char *const names[] = { "table/train.csv", "table/valid.csv", "table/test.csv" };
    char data[PATH_MAX], runs[PATH_MAX];
    snprintf(data, sizeof data, "%s", folder_path("table"));
    snprintf(runs, sizeof runs, "%s", folder_path("table-runs"));
    CHECK_OK(paper_make_folder(data));
    for (int i = 0; i < 3; i++)
        folder_put(names[i], "text\na b c\n", 11);
    CHECK_STATUS(paper_split(&(paper_options){ .data = data, .runs = runs }), SEFL_EINVAL);
}

/* Without data, there is generated text. */
static void generates(void **state)
{
    (void)state;
    char runs[PATH_MAX];
    snprintf(runs, sizeof runs, "%s", folder_path("generated"));
    CHECK_OK(paper_split(&(paper_options){ .runs = runs }));
    sefl_buf first = read_file(runs, "split/public/train.txt");
    sefl_buf rest = read_file(runs, "split/rest/train.txt");
    assert_true(first.n > 100 && rest.n > 8 * first.n);
    buf_clear(&first), buf_clear(&rest);
}

static sefl_status count(const paper_options *o)
{
    ++*(int *)o->ctx;
    return SEFL_OK;
}

static void heard(void *ctx, const char *text)
{
    (void)ctx;
    assert_non_null(strstr(text, "cost: another process"));
}

/* One process at a time measures. */
static void alone(void **state)
{
    (void)state;
    int calls = 0, lock;
    char folder[PATH_MAX], path[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", folder_path("results"));
    paper_options o = { .results = folder, .ctx = &calls, .say = heard };
    CHECK_OK(paper_open(&o));
    CHECK_OK(paper_alone(&o, "cost", count));
    assert_int_equal(calls, 1);
    CHECK_OK(paper_path(path, &o, "cost"));
    CHECK_OK(run_folder_lock(&lock, path));
    CHECK_OK(paper_alone(&o, "cost", count));
    assert_int_equal(calls, 1);
    close(lock);
    CHECK_OK(paper_alone(&o, "cost", count));
    assert_int_equal(calls, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits),
        cmocka_unit_test(refuses_tables),
        cmocka_unit_test(generates),
        cmocka_unit_test(alone),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
