/* Lines, JSONL, CSV: good input, and bad input with the exact line in the message. */
#include "support/check.h"
#include "support/folder.h"

#include "base/utf8.h"
#include "model/corpus/records.h"

#include <string.h>
#include <sys/stat.h>

/* All records of the bytes, each followed by '|'; the status of the last call. */
static sefl_status all(sefl_buf *out, corpus_format format, const char *field, const void *p,
                       size_t n)
{
    record_reader r;
    corpus_file f = { .path = "f", .format = format, .field = field };
    sefl_span text;
    bool more = true;
    buf_reset(out);
    sefl_status st = records_over(&r, &f, span_of(p, n));
    while (st == SEFL_OK && (st = records_next(&r, &text, &more)) == SEFL_OK && more) {
        CHECK_OK(wr_raw(out, text.p, text.n));
        CHECK_OK(wr_u8(out, '|'));
    }
    records_close(&r);
    return st;
}

static void good(corpus_format format, const char *in, const char *want)
{
    sefl_buf b = { 0 };
    CHECK_OK(all(&b, format, "text", in, strlen(in)));
    CHECK_OK(wr_u8(&b, 0));
    assert_string_equal((char *)b.p, want);
    buf_clear(&b);
}

static void bad(corpus_format format, const char *in, size_t n, const char *why)
{
    sefl_buf b = { 0 };
    sefl_status st = all(&b, format, "text", in, n ? n : strlen(in));
    if (st != SEFL_EPROTO || !strstr(sefl_last_error(), why))
        fail_msg("%s: %s, wanted \"%s\"", in, st ? sefl_last_error() : "accepted", why);
    buf_clear(&b);
}

static void text_lines(void **state)
{
    (void)state;
    good(CORPUS_TEXT, "a b\n\nc", "a b||c|");
    good(CORPUS_TEXT, "a\r\nb\rc\n", "a|b\rc|");
    good(CORPUS_TEXT, "\xef\xbb\xbfx\n\xef\xbb\xbfy\n", "x|\xef\xbb\xbfy|"); /* the mark is first */
    good(CORPUS_TEXT, "", "");
    good(CORPUS_TEXT, "\n", "|");
    bad(CORPUS_TEXT, "ok\nok\n\xc3(\n", 0, "f:3: byte 1 (0xc3) is not UTF-8");
    bad(CORPUS_TEXT, "ok\nab\xed\xa0\x80\n", 0, "f:2: byte 3 (0xed) is not UTF-8"); /* surrogate */
    bad(CORPUS_TEXT, "\xc0\xaf", 0, "f:1: byte 1");                                 /* overlong */
    bad(CORPUS_TEXT, "ok\nx\0y\n", 7, "f:2: byte 2 is NUL");
    bad(CORPUS_TEXT, "0123456789\xf4\x90\x80\x80", 0, "f:1: byte 11"); /* above U+10FFFF */
}

static void json_lines(void **state)
{
    (void)state;
    good(CORPUS_JSONL, "{\"text\":\"a b\"}\n{\"id\":7,\"text\":\"c\"}", "a b|c|");
    good(CORPUS_JSONL, "{\"x\":[{\"text\":1},null,true,false,-0.5e+3],\"text\":\"q\"}\n", "q|");
    good(CORPUS_JSONL, " { \"text\" : \"\\u00e9\\ud83d\\ude00\\n\\t\\\"\\\\\\/\" } ",
         "\xc3\xa9\xf0\x9f\x98\x80\n\t\"\\/|");
    good(CORPUS_JSONL, "{\"te\\u0078t\":\"z\"}\n", "z|"); /* an escaped key is the same key */
    good(CORPUS_JSONL, "{\"text\":\"\"}\n", "|");
    bad(CORPUS_JSONL, "{\"text\":\"a\"}\n{\"tekst\":\"b\"}\n", 0,
        "f:2: no member is named \"text\"");
    bad(CORPUS_JSONL, "{\"text\":\"a\"}\n\n{\"text\":\"a\"}", 0, "f:2: byte 1: expected an object");
    bad(CORPUS_JSONL, "{\"text\":1}", 0, "f:1: \"text\" is not a string");
    bad(CORPUS_JSONL, "{\"text\":\"a\",\"text\":\"b\"}", 0, "f:1: \"text\" occurs twice");
    bad(CORPUS_JSONL, "{\"text\":\"\\ud83d\"}", 0, "f:1: byte 16: high surrogate without");
    bad(CORPUS_JSONL, "{\"text\":\"\\ud83d\\u0041\"}", 0, "high surrogate without");
    bad(CORPUS_JSONL, "{\"text\":\"\\ude00\"}", 0, "low surrogate without");
    bad(CORPUS_JSONL, "{\"text\":\"\\u0000\"}", 0, "NUL in a string");
    bad(CORPUS_JSONL, "{\"text\":\"\\x\"}", 0, "unknown escape");
    bad(CORPUS_JSONL, "{\"text\":\"\\u12g4\"}", 0, "four hex digits");
    bad(CORPUS_JSONL, "{\"text\":\"a\tb\"}", 0, "control character");
    bad(CORPUS_JSONL, "{\"text\":\"a", 0, "does not end");
    bad(CORPUS_JSONL, "{\"text\":\"a\\", 0, "does not end");
    bad(CORPUS_JSONL, "{\"text\":\"a\",}", 0, "comma before the closing bracket");
    bad(CORPUS_JSONL, "{\"text\":\"a\"} x", 0, "unexpected data after");
    bad(CORPUS_JSONL, "{\"text\":\"a\"", 0, "ends too early");
    bad(CORPUS_JSONL, "{\"n\":01,\"text\":\"a\"}", 0, "a leading zero");
    bad(CORPUS_JSONL, "{\"n\":1.,\"text\":\"a\"}", 0, "expected a digit");
    bad(CORPUS_JSONL, "{\"n\":tru,\"text\":\"a\"}", 0, "expected a value");
    bad(CORPUS_JSONL, "{text:\"a\"}", 0, "a key in quotes");
    bad(CORPUS_JSONL, "{\"text\" \"a\"}", 0, "expected ':'");
    bad(CORPUS_JSONL, "[1]", 0, "expected an object");
    char deep[128];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"d\":", 5);
    deep[sizeof deep - 1] = 0;
    bad(CORPUS_JSONL, deep, 0, "nested too deep");
}

static void csv_rows(void **state)
{
    (void)state;
    good(CORPUS_CSV, "text\na\nb", "a|b|");
    good(CORPUS_CSV, "id,text,n\n1,a b,2\r\n2,,3\n", "a b||");
    good(CORPUS_CSV, "id,text\n1,\"a,b\"\n2,\"say \"\"hi\"\"\"\n", "a,b|say \"hi\"|");
    good(CORPUS_CSV, "text,id\n\"two\r\nlines\n\n\",1\nx,2\n", "two\nlines\n\n|x|");
    good(CORPUS_CSV, "\"text\"\n\"\"\n", "|");
    good(CORPUS_CSV, "\xef\xbb\xbftext\nx\n", "x|");
    good(CORPUS_CSV, "a,\"te\"\"xt\",text\n1,2,3\n", "3|");
    bad(CORPUS_CSV, "", 0, "f: is empty");
    bad(CORPUS_CSV, "id,txt\n1,2\n", 0, "f:1: no column is named \"text\"");
    bad(CORPUS_CSV, "text,text\n1,2\n", 0, "f:1: two columns are named");
    bad(CORPUS_CSV, "id,text\n1,a\n2\n", 0, "f:3: 1 fields, the first row has 2");
    bad(CORPUS_CSV, "id,text\n1,a\n2,b,c\n", 0, "f:3: 3 fields");
    bad(CORPUS_CSV, "id,text\n1,\"a\nb\"\n2\n", 0, "f:4: 1 fields"); /* counts physical lines */
    bad(CORPUS_CSV, "id,text\n1,a\"b\n", 0, "f:2: a quote inside a field");
    bad(CORPUS_CSV, "id,text\n1,\"a\"b\n", 0, "f:2: text after a closing quote");
    bad(CORPUS_CSV, "id,text\n1,\"a\nb\nc\n", 0, "f:2: the quote opened here is never closed");
    bad(CORPUS_CSV, "id,text\n1,\"", 0, "f:2: the quote opened here");
    bad(CORPUS_CSV, "id,text\n1,\"a\n\xff\"\n", 0, "f:3: byte 1 (0xff) is not UTF-8");
}

static void words(void **state)
{
    (void)state;
    /* no-break space, ideographic space, line separator and ASCII 1F separate; U+200B does not */
    sefl_span text = span_of_str(" a\t\xc2\xa0"
                                 "bc\xe3\x80\x80"
                                 "d\xe2\x80\xa8\xc3\xa9\x1f"
                                 "f\xe2\x80\x8bg ");
    const char *want[] = { "a", "bc", "d", "\xc3\xa9", "f\xe2\x80\x8bg" };
    sefl_span w;
    for (size_t i = 0; i < 5; i++) {
        assert_true(utf8_word(&text, &w));
        assert_int_equal(w.n, strlen(want[i]));
        assert_memory_equal(w.p, want[i], w.n);
    }
    assert_false(utf8_word(&text, &w));
    for (uint32_t c = 1; c < 0x110000; c++) { /* every code point there and back */
        uint8_t b[4];
        uint32_t back = 0;
        if (c >= 0xd800 && c < 0xe000)
            continue;
        size_t n = utf8_encode(b, c);
        assert_int_equal(utf8_decode(b, 4 < n ? 4 : n, &back), n);
        assert_int_equal(back, c);
        assert_int_equal(utf8_good(span_of(b, n)), n);
        if (n > 1)
            assert_int_equal(utf8_good(span_of(b, n - 1)), 0); /* cut */
    }
}

static void files(void **state)
{
    (void)state;
    record_reader r;
    sefl_span text;
    bool more;
    CHECK_STATUS(records_open(&r, &(corpus_file){ .path = folder_path("none") }), SEFL_ENOTFOUND);
    assert_non_null(strstr(sefl_last_error(), "none"));
    CHECK_STATUS(records_open(&r, &(corpus_file){ .path = folder_path("") }), SEFL_EINVAL);
    CHECK_STATUS(records_open(&r, &(corpus_file){ .path = "/dev/zero" }), SEFL_EINVAL);

    /* lines longer than the window, across its borders */
    size_t n = 3 << 20;
    sefl_buf b = { 0 };
    uint8_t *p;
    CHECK_OK(buf_extend(&b, &p, n));
    memset(p, 'x', n);
    for (size_t i = 0, step = 1; i < n; i += step, step = step * 3 / 2 + 1)
        p[i] = '\n';
    folder_put("long.txt", p, n);
    record_reader mem;
    corpus_file f = { .path = folder_path("long.txt") };
    CHECK_OK(records_open(&r, &f));
    CHECK_OK(records_over(&mem, &f, buf_span(&b)));
    for (;;) {
        sefl_span other;
        bool more_mem;
        CHECK_OK(records_next(&r, &text, &more));
        CHECK_OK(records_next(&mem, &other, &more_mem));
        assert_int_equal(more, more_mem);
        assert_int_equal(r.line, mem.line);
        if (!more)
            break;
        assert_int_equal(text.n, other.n);
        assert_memory_equal(text.p, other.p, text.n);
    }
    records_close(&r);
    records_close(&mem);
    buf_clear(&b);
}

static sefl_status read_through(const char *path)
{
    sefl_status st = SEFL_OK;
    record_reader r;
    sefl_span text;
    bool more = true;
    SEFL_TRY(records_open(&r, &(corpus_file){ .path = path, .field = "t" }));
    while (more)
        SEFL_TRY(records_next(&r, &text, &more));
done:
    records_close(&r);
    return st;
}

static void faults(void **state)
{
    (void)state;
    const char csv[] = "a,t\n1,\"x\ny\"\n", jsonl[] = "{\"t\":\"x\"}\n";
    folder_put("f.csv", csv, sizeof csv - 1);
    folder_put("f.jsonl", jsonl, sizeof jsonl - 1);
    TEST_FAULTS(FAULT_ALLOC, st = read_through(folder_path("f.csv")), (void)0);
    TEST_FAULTS(FAULT_READ, st = read_through(folder_path("f.csv")), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = read_through(folder_path("f.jsonl")), (void)0);
    TEST_FAULTS(FAULT_READ, st = read_through(folder_path("f.jsonl")), (void)0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_lines), cmocka_unit_test(json_lines), cmocka_unit_test(csv_rows),
        cmocka_unit_test(words),      cmocka_unit_test(files),      cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
