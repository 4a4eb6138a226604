#include "support/check.h"

#include "base/alloc.h"
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

static void integers_round_trip(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    CHECK_OK(wr_u8(&b, 0xab));
    CHECK_OK(wr_u16(&b, 0x1234));
    CHECK_OK(wr_u32(&b, 0xdeadbeef));
    CHECK_OK(wr_u64(&b, 0x0123456789abcdefu));
    assert_int_equal(b.n, 15);
    assert_int_equal(b.p[1], 0x34); /* little-endian */
    assert_int_equal(b.p[7], 0xef);
    rd r = rd_over(buf_span(&b));
    CHECK_OK(rd_u8(&r, &u8));
    CHECK_OK(rd_u16(&r, &u16));
    CHECK_OK(rd_u32(&r, &u32));
    CHECK_OK(rd_u64(&r, &u64));
    CHECK_OK(rd_end(&r));
    assert_int_equal(u8, 0xab);
    assert_int_equal(u16, 0x1234);
    assert_int_equal(u32, 0xdeadbeef);
    assert_true(u64 == 0x0123456789abcdefu);
    buf_clear(&b);
}

/* Every prefix of a message is refused as too short, and leaves reader and output unchanged. */
static void nothing_reads_past_the_end(void **state)
{
    (void)state;
    const uint8_t bytes[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    for (size_t n = 0; n < 8; n++) {
        uint8_t *exact = malloc(n ? n : 1); /* a sanitizer detects a read past this */
        memcpy(exact, bytes, n);
        rd r = rd_over(span_of(exact, n));
        uint64_t u64 = 77;
        uint32_t u32 = 77;
        uint16_t u16 = 77;
        uint8_t raw[8] = { 9 };
        sefl_span s = span_of(raw, 3);
        CHECK_STATUS(rd_u64(&r, &u64), SEFL_EPROTO);
        CHECK_STATUS(rd_raw(&r, raw, n + 1), SEFL_EPROTO);
        CHECK_STATUS(rd_view(&r, &s, n + 1), SEFL_EPROTO);
        CHECK_STATUS(rd_view(&r, &s, SIZE_MAX), SEFL_EPROTO);
        if (n < 4)
            CHECK_STATUS(rd_u32(&r, &u32), SEFL_EPROTO);
        if (n < 2)
            CHECK_STATUS(rd_u16(&r, &u16), SEFL_EPROTO);
        assert_int_equal(rd_left(&r), n);
        assert_true(u64 == 77 && u32 == 77 && u16 == 77 && raw[0] == 9 && s.n == 3);
        free(exact);
    }
}

static void varints(void **state)
{
    (void)state;
    static const struct {
        uint64_t v;
        size_t n;
    } cases[] = { { 0, 1 },          { 1, 1 },           { 127, 1 },
                  { 128, 2 },        { 16383, 2 },       { 16384, 3 },
                  { UINT32_MAX, 5 }, { 1ull << 63, 10 }, { UINT64_MAX, 10 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sefl_buf b = { 0 };
        uint64_t v = 0;
        CHECK_OK(wr_varint(&b, cases[i].v));
        assert_int_equal(b.n, cases[i].n);
        rd r = rd_over(buf_span(&b));
        CHECK_OK(rd_varint(&r, &v));
        assert_true(v == cases[i].v);
        for (size_t cut = 0; cut < b.n; cut++) {
            rd c = rd_over(span_of(b.p, cut));
            CHECK_STATUS(rd_varint(&c, &v), SEFL_EPROTO);
            assert_int_equal(rd_left(&c), cut);
        }
        buf_clear(&b);
    }
}

static void varints_have_one_form(void **state)
{
    (void)state;
    static const struct {
        uint8_t p[11];
        size_t n;
    } bad[] = {
        { { 0x80, 0x00 }, 2 },                                                        /* 0 in two */
        { { 0xff, 0x80, 0x00 }, 3 },                                                  /* long 127 */
        { { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02 }, 10 },       /* 2^65 - 1 */
        { { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 }, 11 }, /* 11 bytes */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t v = 5;
        rd r = rd_over(span_of(bad[i].p, bad[i].n));
        CHECK_STATUS(rd_varint(&r, &v), SEFL_EPROTO);
        assert_true(v == 5);
        assert_int_equal(rd_left(&r), bad[i].n);
    }
}

static void length_prefixed_bytes(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    sefl_span s = { 0 };
    CHECK_OK(wr_bytes(&b, span_of_str("hello")));
    CHECK_OK(wr_bytes(&b, span_of_str("")));
    rd r = rd_over(buf_span(&b));
    CHECK_STATUS(rd_bytes(&r, &s, 4), SEFL_EPROTO); /* longer than allowed: not consumed */
    CHECK_OK(rd_bytes(&r, &s, 5));
    assert_int_equal(s.n, 5);
    assert_memory_equal(s.p, "hello", 5);
    CHECK_OK(rd_bytes(&r, &s, 5));
    assert_int_equal(s.n, 0);
    CHECK_OK(rd_end(&r));
    /* a length that promises more than there is */
    rd cut = rd_over(span_of(b.p, 4));
    CHECK_STATUS(rd_bytes(&cut, &s, 100), SEFL_EPROTO);
    assert_int_equal(rd_left(&cut), 4);
    const uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0 };
    rd h = rd_over(span_of(huge, sizeof huge));
    CHECK_STATUS(rd_bytes(&h, &s, SIZE_MAX), SEFL_EPROTO);
    buf_clear(&b);
}

static void expect_and_end(void **state)
{
    (void)state;
    rd r = rd_over(span_of_str("SEFLx"));
    CHECK_STATUS(rd_expect(&r, "NOPE", 4, "a key file"), SEFL_EPROTO);
    assert_string_equal(sefl_last_error(), "this is not a key file");
    CHECK_OK(rd_expect(&r, "SEFL", 4, "a key file"));
    CHECK_STATUS(rd_end(&r), SEFL_EPROTO);
    CHECK_STATUS(rd_expect(&r, "xy", 2, "a key file"), SEFL_EPROTO);
}

static void buffer_respects_its_limit(void **state)
{
    (void)state;
    sefl_buf b = { .max = 100 };
    uint8_t big[101] = { 0 };
    CHECK_STATUS(wr_raw(&b, big, 101), SEFL_ERANGE);
    CHECK_OK(wr_raw(&b, big, 100));
    CHECK_STATUS(wr_u8(&b, 1), SEFL_ERANGE);
    CHECK_STATUS(buf_reserve(&b, SIZE_MAX), SEFL_ERANGE);
    assert_int_equal(b.n, 100);
    buf_clear(&b);
    assert_int_equal(b.max, 100);
    assert_null(b.p);
    CHECK_OK(wr_raw(&b, big, 98));
    CHECK_STATUS(wr_bytes(&b, span_of(big, 2)), SEFL_ERANGE);
    assert_int_equal(b.n, 98); /* all or nothing */
    buf_clear(&b);
}

static void formatted_text(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    CHECK_OK(wr_fmt(&b, "%d-%s", 42, "x"));
    CHECK_OK(wr_fmt(&b, "%s", ""));
    for (int i = 0; i < 100; i++)
        CHECK_OK(wr_fmt(&b, "%02d", i));
    assert_int_equal(b.n, 204);
    assert_memory_equal(b.p, "42-x000102", 10);
    buf_clear(&b);
}

static void random_messages_round_trip(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "messages");
    for (int i = 0; i < 2000; i++) {
        sefl_buf b = { 0 };
        uint8_t kinds[16], blob[64];
        uint64_t v[16];
        size_t n = seeded_below(&g, 16);
        seeded_fill(&g, blob, sizeof blob);
        for (size_t k = 0; k < n; k++) {
            kinds[k] = (uint8_t)seeded_below(&g, 3);
            v[k] = seeded_u64(&g) >> seeded_below(&g, 64);
            if (kinds[k] == 0)
                CHECK_OK(wr_varint(&b, v[k]));
            else if (kinds[k] == 1)
                CHECK_OK(wr_u64(&b, v[k]));
            else
                CHECK_OK(wr_bytes(&b, span_of(blob, v[k] %= 64)));
        }
        rd r = rd_over(buf_span(&b));
        for (size_t k = 0; k < n; k++) {
            uint64_t got = 0;
            sefl_span s = { 0 };
            if (kinds[k] == 0)
                CHECK_OK(rd_varint(&r, &got));
            else if (kinds[k] == 1)
                CHECK_OK(rd_u64(&r, &got));
            else {
                CHECK_OK(rd_bytes(&r, &s, 64));
                got = s.n;
                assert_memory_equal(s.p, blob, s.n);
            }
            assert_true(got == v[k]);
        }
        CHECK_OK(rd_end(&r));
        buf_clear(&b);
    }
}

static sefl_status write_much(sefl_buf *b)
{
    sefl_status st = SEFL_OK;
    for (int i = 0; i < 1000; i++)
        SEFL_TRY(wr_u64(b, 7));
done:
    return st;
}

static void allocation_faults(void **state)
{
    (void)state;
    TEST_FAULTS(
        FAULT_ALLOC,
        {
            sefl_buf b = { 0 };
            st = write_much(&b);
            if (st != SEFL_OK)
                assert_int_equal(st, SEFL_ENOMEM);
            buf_clear(&b);
        },
        (void)0);
    void *p = &p;
    CHECK_STATUS(sefl_new(&p, SIZE_MAX, 2), SEFL_ENOMEM);
    assert_null(p);
    CHECK_STATUS(sefl_new(&p, SIZE_MAX - 8, 1), SEFL_ENOMEM);
    CHECK_OK(sefl_new(&p, 0, 8));
    assert_non_null(p);
    sefl_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_round_trip),
        cmocka_unit_test(nothing_reads_past_the_end),
        cmocka_unit_test(varints),
        cmocka_unit_test(varints_have_one_form),
        cmocka_unit_test(length_prefixed_bytes),
        cmocka_unit_test(expect_and_end),
        cmocka_unit_test(buffer_respects_its_limit),
        cmocka_unit_test(formatted_text),
        cmocka_unit_test(random_messages_round_trip),
        cmocka_unit_test(allocation_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
