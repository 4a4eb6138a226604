/* Text as people have it: kinds of files, folders, what is skipped and what is refused. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "operator/raw_text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static sefl_status gather(raw_text_report *r, const char *from)
{
    mkdir(folder_path("out"), 0700);
    return raw_text_gather(r, folder_path("out"), from, &(raw_text_settings){ 0 }, NULL);
}

static const char *result(const char *name)
{
    static sefl_buf b;
    char path[64];
    buf_clear(&b);
    snprintf(path, sizeof path, "out/%s", name);
    CHECK_OK(file_read(&b, folder_path(path), 1 << 24));
    CHECK_OK(wr_u8(&b, 0));
    return (const char *)b.p;
}

static size_t lines_of(const char *name)
{
    size_t n = 0;
    for (const char *p = result(name); *p; p++)
        n += *p == '\n';
    return n;
}

static void put(const char *name, const char *text)
{
    folder_put(name, text, strlen(text));
}

static void put_gz(const char *name, const char *text)
{
    gzFile f = gzopen(folder_path(name), "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, text, (unsigned)strlen(text)), (int)strlen(text));
    assert_int_equal(gzclose(f), Z_OK);
}

/* Paragraphs of 600 bytes: two make a document. */
static void put_paragraphs(const char *name, unsigned n, char letter)
{
    char text[65536], *p = text;
    for (unsigned i = 0; i < n; i++) {
        memset(p, letter, 599);
        p += 599, *p++ = '\n', *p++ = '\n';
    }
    folder_put(name, text, (size_t)(p - text));
}

static void plain_text_is_cut_at_empty_lines(void **state)
{
    (void)state;
    raw_text_report r;
    put_paragraphs("a.txt", 40, 'a');
    CHECK_OK(gather(&r, folder_path("a.txt")));
    assert_int_equal(r.files, 1);
    assert_int_equal(r.bytes, 40 * 601);
    assert_int_equal(r.documents, 20);
    assert_int_equal(r.held_out, 2);
    assert_int_equal(lines_of("train.jsonl"), 18);
    assert_int_equal(lines_of("valid.jsonl"), 2);
    assert_non_null(strstr(result("train.jsonl"), "aaa\\u000a\\u000aaaa"));
    assert_null(strstr(result("train.jsonl"), "\\u000a\"}")); /* no empty line at the end */
}

static void text_without_empty_lines_is_cut_at_lines(void **state)
{
    (void)state;
    raw_text_report r;
    char text[40000];
    memset(text, 'x', sizeof text);
    for (size_t i = 99; i < sizeof text; i += 100)
        text[i] = '\n';
    folder_put("b.txt", text, sizeof text);
    CHECK_OK(gather(&r, folder_path("b.txt")));
    assert_int_equal(r.documents, 5);
    assert_int_equal(r.held_out, 1); /* fewer than ten: the last one */
    assert_int_equal(lines_of("valid.jsonl"), 1);
}

static void records_and_folders(void **state)
{
    (void)state;
    raw_text_report r;
    mkdir(folder_path("f"), 0700), mkdir(folder_path("f/sub"), 0700);
    mkdir(folder_path("f/.git"), 0700);
    put("f/a.jsonl", "{\"text\":\"first record\"}\n{\"text\":\"  \"}\n{\"text\":\"M\xc3\xbcller, "
                     "said \\\"no\\\"\"}\n");
    put("f/b.csv", "id,text\n1,\"two\nlines\"\n");
    put_gz("f/sub/c.txt.gz", "a short letter\n");
    put_gz("f/sub/d.jsonl.gz", "{\"text\":\"packed record\"}\n");
    put("f/.hidden", "secret of an editor\n");
    put("f/.git/x", "not text of the user\n");
    folder_put("f/p.png", "\x89PNG\0\0", 6);
    assert_int_equal(symlink("/etc/passwd", folder_path("f/link")), 0);
    CHECK_OK(gather(&r, folder_path("f")));
    assert_int_equal(r.files, 4);
    assert_int_equal(r.skipped, 3);
    assert_int_equal(r.documents, 5);
    assert_string_equal(result("train.jsonl"),
                        "{\"text\":\"first record\"}\n"
                        "{\"text\":\"M\xc3\xbcller, said \\\"no\\\"\"}\n"
                        "{\"text\":\"two\\u000alines\"}\n{\"text\":\"a short letter\"}\n");
    assert_string_equal(result("valid.jsonl"), "{\"text\":\"packed record\"}\n");
}

static void what_is_refused(void **state)
{
    (void)state;
    raw_text_report r;
    mkdir(folder_path("empty"), 0700);
    CHECK_STATUS(gather(&r, folder_path("nothing")), SEFL_ENOTFOUND);
    CHECK_STATUS(gather(&r, ""), SEFL_EINVAL);
    CHECK_STATUS(gather(&r, folder_path("empty")), SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "has no text"));
    put("one.txt", "one line\n");
    CHECK_STATUS(gather(&r, folder_path("one.txt")), SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "only one document"));
    put("latin.txt", "good\nM\xfcller\n");
    CHECK_STATUS(gather(&r, folder_path("latin.txt")), SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "latin.txt:2"));
    put("plain.txt.gz", "this is not compressed\n");
    CHECK_STATUS(gather(&r, folder_path("plain.txt.gz")), SEFL_EPROTO);
    put_gz("cut.txt.gz", "some text that will be cut in the middle of the file\n");
    assert_int_equal(truncate(folder_path("cut.txt.gz"), 30), 0);
    CHECK_STATUS(gather(&r, folder_path("cut.txt.gz")), SEFL_EPROTO);
    put("bad.jsonl", "{\"text\":1}\n");
    CHECK_STATUS(gather(&r, folder_path("bad.jsonl")), SEFL_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_is_cut_at_empty_lines),
        cmocka_unit_test(text_without_empty_lines_is_cut_at_lines),
        cmocka_unit_test(records_and_folders),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
