/* Envelopes, and the fixed layouts that travel in them. */
#include "support/check.h"

#include "protocol/round.h"
#include "protocol/signed.h"

#include <string.h>

static seeded gen;
static sefl_rng rng;
static sign_key *as, *csp, *stranger;
static pinned keys;

static int setup(void **state)
{
    (void)state;
    test_seed(&gen, "signed");
    rng = seeded_rng(&gen);
    CHECK_OK(sign_key_new(&as, &rng));
    CHECK_OK(sign_key_new(&csp, &rng));
    CHECK_OK(sign_key_new(&stranger, &rng));
    memcpy(keys.as, sign_key_pub(as), SIGN_PUB_BYTES);
    memcpy(keys.csp, sign_key_pub(csp), SIGN_PUB_BYTES);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sign_key_free(as);
    sign_key_free(csp);
    sign_key_free(stranger);
    return 0;
}

static envelope make(sign_kind kind, const char *text)
{
    envelope env = { .kind = kind, .content = span_of_str(text) };
    CHECK_OK(envelope_sign(&env, SIGNER_AS, as));
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, csp));
    return env;
}

static void test_round_trip(void **state)
{
    (void)state;
    sefl_buf b = { 0 }, c = { 0 };
    envelope env = make(SIGN_TASK, "content"), got;
    CHECK_OK(envelope_write(&b, &env));
    assert_int_equal(b.n, 8 + 1 + 4 + 7 + 1 + 2 * 97);
    CHECK_OK(envelope_read(&got, buf_span(&b)));
    assert_ptr_equal(got.content.p,
                     b.p + 13); /* points into the input: nothing is serialised again */
    CHECK_OK(envelope_check(&got, SIGN_TASK, &keys));
    CHECK_OK(envelope_write(&c, &got));
    assert_int_equal(b.n, c.n);
    assert_memory_equal(b.p, c.p, b.n);
    buf_clear(&b);
    buf_clear(&c);
}

static void test_who_must_have_signed(void **state)
{
    (void)state;
    envelope env = { .kind = SIGN_HEADER, .content = span_of_str("x") };
    CHECK_STATUS(envelope_check(&env, SIGN_HEADER, &keys), SEFL_EAUTH);
    CHECK_OK(envelope_sign(&env, SIGNER_AS, as));
    CHECK_STATUS(envelope_sign(&env, SIGNER_AS, as), SEFL_EEXIST);
    CHECK_STATUS(envelope_sign(&env, (signer)3, csp), SEFL_EINVAL);
    CHECK_OK(envelope_check_one(&env, SIGN_HEADER, SIGNER_AS, keys.as));
    CHECK_STATUS(envelope_check_one(&env, SIGN_HEADER, SIGNER_CSP, keys.csp), SEFL_EAUTH);
    CHECK_STATUS(envelope_check(&env, SIGN_HEADER, &keys), SEFL_EAUTH);
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, stranger));
    CHECK_STATUS(envelope_check(&env, SIGN_HEADER, &keys), SEFL_EAUTH);
    assert_non_null(strstr(sefl_last_error(), "csp"));
    /* the stranger's signature under CSP's key */
    memcpy(env.by[1].pub, keys.csp, SIGN_PUB_BYTES);
    CHECK_STATUS(envelope_check(&env, SIGN_HEADER, &keys), SEFL_EAUTH);
    /* AS signed for both */
    env.count = 1;
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, as));
    CHECK_STATUS(envelope_check(&env, SIGN_HEADER, &keys), SEFL_EAUTH);
    /* roles exchanged */
    pinned turned;
    memcpy(turned.as, keys.csp, SIGN_PUB_BYTES);
    memcpy(turned.csp, keys.as, SIGN_PUB_BYTES);
    env = make(SIGN_HEADER, "x");
    CHECK_STATUS(envelope_check(&env, SIGN_HEADER, &turned), SEFL_EAUTH);
    /* the kind is under the signature too */
    CHECK_STATUS(envelope_check(&env, SIGN_RECEIPT, &keys), SEFL_EAUTH);
    env.kind = SIGN_RECEIPT;
    CHECK_STATUS(envelope_check(&env, SIGN_RECEIPT, &keys), SEFL_EAUTH);
}

static void test_truncation_and_tampering(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    envelope env = make(SIGN_RECEIPT, "some content"), got;
    CHECK_OK(envelope_write(&b, &env));
    for (size_t n = 0; n < b.n; n++)
        CHECK_STATUS(envelope_read(&got, span_of(b.p, n)), SEFL_EPROTO);
    CHECK_OK(wr_u8(&b, 0));
    CHECK_STATUS(envelope_read(&got, buf_span(&b)), SEFL_EPROTO);
    b.n--;
    for (size_t bit = 0; bit < 8 * b.n; bit++) {
        b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        sefl_status st = envelope_read(&got, buf_span(&b));
        if (st == SEFL_OK)
            CHECK_STATUS(envelope_check(&got, SIGN_RECEIPT, &keys), SEFL_EAUTH);
        else
            assert_int_equal(st, SEFL_EPROTO);
        b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    /* a length that points far beyond */
    store_u32(b.p + 9, UINT32_MAX);
    CHECK_STATUS(envelope_read(&got, buf_span(&b)), SEFL_EPROTO);
    store_u32(b.p + 9, ENVELOPE_CONTENT_MAX);
    CHECK_STATUS(envelope_read(&got, buf_span(&b)), SEFL_EPROTO);
    assert_int_equal(got.content.n, 0);
    /* the same signer twice */
    b.n = 0;
    env.by[1] = env.by[0];
    CHECK_OK(envelope_write(&b, &env));
    CHECK_STATUS(envelope_read(&got, buf_span(&b)), SEFL_EPROTO);
    buf_clear(&b);
}

static void test_limits(void **state)
{
    (void)state;
    static uint8_t big[ENVELOPE_CONTENT_MAX + 1];
    sefl_buf b = { 0 };
    envelope env = { .kind = SIGN_TASK, .content = span_of(big, ENVELOPE_CONTENT_MAX) }, got;
    CHECK_OK(envelope_write(&b, &env));
    CHECK_OK(envelope_read(&got, buf_span(&b)));
    assert_int_equal(got.content.n, ENVELOPE_CONTENT_MAX);
    b.n = 0;
    env.content.n++;
    CHECK_STATUS(envelope_write(&b, &env), SEFL_ERANGE);
    assert_int_equal(b.n, 0);
    buf_clear(&b);
    b = (sefl_buf){ .max = 40 };
    env = make(SIGN_TASK, "x");
    CHECK_STATUS(envelope_write(&b, &env), SEFL_ERANGE);
    assert_int_equal(b.n, 0); /* all or nothing */
    buf_clear(&b);
}

/* ---- fixed layouts --------------------------------------------------------------------------- */

static void test_layouts(void **state)
{
    (void)state;
    uint8_t out[HEADER_MAX + 1], want[HEADER_FIXED] = { 0 };
    size_t bytes;
    round_header h = { .round = 0x0102030405060708, .step_nano = 1000000000 }, h2;
    memset(h.task, 0xaa, 32);
    memset(h.model, 0xbb, 32);
    memset(want, 0xaa, 32);
    memcpy(want + 32, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
    memset(want + 40, 0xbb, 32);
    memcpy(want + 72, "\x00\xca\x9a\x3b\x00\x00\x00\x00", 8);
    assert_int_equal(round_header_write(out, &h), HEADER_FIXED);
    assert_memory_equal(out, want, sizeof want);
    CHECK_OK(round_header_read(&h2, span_of(out, HEADER_FIXED)));
    assert_memory_equal(&h, &h2, sizeof h);
    for (size_t n = 0; n < HEADER_FIXED; n++)
        CHECK_STATUS(round_header_read(&h2, span_of(out, n)), SEFL_EPROTO);
    CHECK_STATUS(round_header_read(&h2, span_of(out, HEADER_FIXED + 1)), SEFL_EPROTO);
    memset(out + 32, 0, 8);
    CHECK_STATUS(round_header_read(&h2, span_of(out, HEADER_FIXED)), SEFL_EPROTO);

    /* with CSP's round key, whose length follows from the suite */
    static const char *const suites[] = { "x25519", "xwing" };
    for (int i = 0; i < 2; i++) {
        const seal_suite *s = seal_suite_named(suites[i]);
        h.suite = s->id, h.key_bytes = (uint16_t)s->pub_bytes;
        memset(h.key, 0xcc, s->pub_bytes);
        bytes = round_header_write(out, &h);
        assert_int_equal(bytes, HEADER_FIXED + s->pub_bytes);
        assert_int_equal(out[80] | out[81] << 8, s->id);
        assert_int_equal(out[82] | out[83] << 8, s->pub_bytes);
        CHECK_OK(round_header_read(&h2, span_of(out, bytes)));
        assert_memory_equal(&h, &h2, sizeof h);
        for (size_t n = 0; n <= bytes + 1; n++)
            if (n != bytes && n <= sizeof out)
                CHECK_STATUS(round_header_read(&h2, span_of(out, n)), SEFL_EPROTO);
        out[82] ^= 1;
        CHECK_STATUS(round_header_read(&h2, span_of(out, bytes)), SEFL_EPROTO);
        out[82] ^= 1, out[80] ^= 0x40;
        CHECK_STATUS(round_header_read(&h2, span_of(out, bytes)), SEFL_EPROTO);
    }

    uint8_t rec[RECEIPT_BYTES + 1] = { 0 };
    round_receipt r = { .round = 7, .bytes = 4491267 }, r2;
    seeded_fill(&gen, r.task, 32);
    seeded_fill(&gen, r.client, 32);
    seeded_fill(&gen, r.body, 32);
    round_receipt_write(rec, &r);
    assert_memory_equal(rec, r.task, 32);
    assert_int_equal(load_u64(rec + 32), 7);
    assert_memory_equal(rec + 40, r.client, 32);
    assert_memory_equal(rec + 72, r.body, 32);
    assert_int_equal(load_u64(rec + 104), 4491267);
    CHECK_OK(round_receipt_read(&r2, span_of(rec, RECEIPT_BYTES)));
    assert_memory_equal(&r, &r2, sizeof r);
    CHECK_STATUS(round_receipt_read(&r2, span_of(rec, RECEIPT_BYTES + 1)), SEFL_EPROTO);
    CHECK_STATUS(round_receipt_read(&r2, span_of(rec, RECEIPT_BYTES - 1)), SEFL_EPROTO);

    uint8_t fin[END_BYTES + 1] = { 0 };
    round_end e = { .round = 12 }, e2;
    seeded_fill(&gen, e.task, 32);
    seeded_fill(&gen, e.model, 32);
    round_end_write(fin, &e);
    assert_memory_equal(fin, e.task, 32);
    assert_int_equal(load_u64(fin + 32), 12);
    assert_memory_equal(fin + 40, e.model, 32);
    CHECK_OK(round_end_read(&e2, span_of(fin, END_BYTES)));
    assert_memory_equal(&e, &e2, sizeof e);
    CHECK_STATUS(round_end_read(&e2, span_of(fin, END_BYTES + 1)), SEFL_EPROTO);
    CHECK_STATUS(round_end_read(&e2, span_of(fin, END_BYTES - 1)), SEFL_EPROTO);
    store_u64(fin + 32, 0); /* no round was released */
    CHECK_OK(round_end_read(&e2, span_of(fin, END_BYTES)));

    uint8_t sta[STATEMENT_MAX];
    round_statement s = { .round = 3, .attempt = 2, .clients = 31 }, s2;
    seeded_fill(&gen, s.task, 32);
    seeded_fill(&gen, s.set, 32);
    s.slice.n = 2;
    s.slice.part[0].count = 9, s.slice.part[1].first = 4, s.slice.part[1].count = 5;
    seeded_fill(&gen, s.slice.part[1].id, SHARES_ID);
    s.lags = 10; /* the second and the fourth round before */
    seeded_fill(&gen, s.past[1], 32), seeded_fill(&gen, s.past[3], 32);
    size_t sta_n = round_statement_write(sta, &s);
    assert_int_equal(sta_n, STATEMENT_FIXED + 4 + 2 * SLICE_PART + 1 + 2 * 32);
    assert_int_equal(sta[sta_n - 65], 10);
    assert_memory_equal(sta + sta_n - 64, s.past[1], 32);
    assert_memory_equal(sta + sta_n - 32, s.past[3], 32);
    assert_int_equal(load_u32(sta + 84), 2);
    assert_memory_equal(sta + 88 + 48, s.slice.part[1].id, 32);
    assert_memory_equal(sta, s.task, 32);
    assert_int_equal(load_u64(sta + 32), 3);
    assert_int_equal(load_u64(sta + 40), 2);
    assert_int_equal(load_u32(sta + 48), 31);
    assert_memory_equal(sta + 52, s.set, 32);
    CHECK_OK(round_statement_read(&s2, span_of(sta, sta_n)));
    assert_memory_equal(&s.slice, &s2.slice, sizeof s.slice);
    assert_int_equal(s2.lags, 10);
    assert_memory_equal(s.past, s2.past, sizeof s.past);
    assert_memory_equal(s.task, s2.task, 32);
    assert_memory_equal(s.set, s2.set, 32);
    assert_true(s2.round == 3 && s2.attempt == 2 && s2.clients == 31);
    CHECK_STATUS(round_statement_read(&s2, span_of(sta, sta_n + 1)), SEFL_EPROTO);
    for (size_t n = 0; n < sta_n; n++)
        CHECK_STATUS(round_statement_read(&s2, span_of(sta, n)), SEFL_EPROTO);
    sta[sta_n - 65] = 16 + 2; /* a fifth round */
    CHECK_STATUS(round_statement_read(&s2, span_of(sta, sta_n - 32)), SEFL_EPROTO);
}

/* The hash computed by hand, independent of the order of the members; a duplicate client is
 * refused. */
static void test_set_hash(void **state)
{
    (void)state;
    round_entry m[3] = { 0 };
    uint8_t task[32], raw[10 + 32 + 8 + 4 + 3 * 64], want[32], got[32], before[32];
    seeded_fill(&gen, task, sizeof task);
    for (size_t i = 0; i < 3; i++) {
        m[i].client[0] = (uint8_t)(3 - i);
        seeded_fill(&gen, m[i].body, 32);
    }
    memcpy(raw, "sefl set 1", 10);
    memcpy(raw + 10, task, 32);
    store_u64(raw + 42, 9);
    store_u32(raw + 50, 3);
    for (size_t i = 0; i < 3; i++)
        memcpy(raw + 54 + 64 * i, &m[2 - i], 64);
    sha256_of(want, span_of(raw, sizeof raw));
    CHECK_OK(round_set_hash(got, task, 9, m, 3));
    assert_memory_equal(got, want, 32);
    assert_true(m[0].client[0] == 1 && m[2].client[0] == 3);
    CHECK_OK(round_set_hash(got, task, 9, m, 3));
    assert_memory_equal(got, want, 32);

    memcpy(before, got, 32);
    CHECK_OK(round_set_hash(got, task, 10, m, 3));
    assert_memory_not_equal(got, before, 32);
    CHECK_OK(round_set_hash(got, task, 9, m, 2));
    assert_memory_not_equal(got, before, 32);
    m[0].body[5] ^= 1;
    CHECK_OK(round_set_hash(got, task, 9, m, 3));
    assert_memory_not_equal(got, before, 32);
    m[2].client[0] = 1;
    CHECK_STATUS(round_set_hash(got, task, 9, m, 3), SEFL_EINVAL);
    CHECK_OK(round_set_hash(got, task, 9, NULL, 0));
}

static sefl_status sign_and_write(void)
{
    sefl_buf b = { 0 };
    envelope env = { .kind = SIGN_TASK, .content = span_of_str("x") };
    sefl_status st = envelope_sign(&env, SIGNER_AS, as);
    if (st == SEFL_OK)
        st = envelope_write(&b, &env);
    buf_clear(&b);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    TEST_FAULTS(FAULT_ALLOC, st = sign_and_write(), (void)0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_who_must_have_signed),
        cmocka_unit_test(test_truncation_and_tampering),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_set_hash),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
