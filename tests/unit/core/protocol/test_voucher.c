/* voucher: round trip, truncated, with each length out of range, under another client's name.
 * tests/unit/parties/test_vouch.c checks its signature. */
#include "support/check.h"

#include "base/sha256.h"
#include "protocol/voucher.h"

#include <string.h>

static uint8_t spki[91], sig[71];

static voucher sample(void)
{
    voucher v = { .serial = 1763270000000 };
    memset(spki, 7, sizeof spki), memset(sig, 8, sizeof sig);
    memset(v.key, 1, 32), memset(v.servers.as, 2, 32), memset(v.servers.csp, 3, 32);
    v.spki = span_of(spki, sizeof spki);
    v.signature = span_of(sig, sizeof sig);
    v.chain = span_of("pem", 3);
    sha256_of(v.client, v.spki);
    return v;
}

static void there_and_back(void **state)
{
    voucher v = sample(), got;
    sefl_buf b = { 0 }, s = { 0 };
    (void)state;
    CHECK_OK(voucher_write(&b, &v));
    assert_int_equal(b.n, 4 + 4 * 32 + 8 + 2 + 91 + 2 + 71 + 4 + 3);
    CHECK_OK(voucher_read(&got, buf_span(&b)));
    assert_memory_equal(got.client, v.client, 32);
    assert_memory_equal(got.key, v.key, 32);
    assert_memory_equal(&got.servers, &v.servers, sizeof v.servers);
    assert_true(got.serial == v.serial);
    assert_int_equal(got.spki.n, 91);
    assert_int_equal(got.signature.n, 71);
    assert_memory_equal(got.chain.p, "pem", 3);
    /* what is signed: a purpose, and all before the signature's length */
    CHECK_OK(voucher_to_sign(&s, &got));
    assert_memory_equal(s.p, "sefl voucher 1\n", 15);
    assert_int_equal(s.n, 15 + 4 + 4 * 32 + 8 + 2 + 91);
    assert_memory_equal(s.p + 15, b.p, s.n - 15);
    buf_clear(&b), buf_clear(&s);
}

static void bad_bytes(void **state)
{
    voucher v = sample(), got;
    sefl_buf b = { 0 };
    const size_t serial = 132, spki_at = 140, sig_at = 142 + 91, chain_at = sig_at + 2 + 71;
    (void)state;
    CHECK_OK(voucher_write(&b, &v));
    for (size_t n = 0; n < b.n; n++)
        CHECK_STATUS(voucher_read(&got, span_of(b.p, n)), SEFL_EPROTO);
    for (size_t at = 0; at < 4 + 32; at++) { /* form and name */
        b.p[at] ^= 1;
        CHECK_STATUS(voucher_read(&got, buf_span(&b)), SEFL_EPROTO);
        b.p[at] ^= 1;
    }
    static const struct {
        uint8_t at; /* 0 serial, 1 SPKI, 2 signature, 3 chain */
        uint32_t value;
    } bad[] = { { 0, 0 },  { 1, 0 },  { 1, 90 },    { 1, 92 }, { 1, 65535 }, { 2, 0 },
                { 2, 70 }, { 2, 72 }, { 2, 65535 }, { 3, 2 },  { 3, 4 },     { 3, 0xffffffff } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint8_t kept[8];
        const size_t at[] = { serial, spki_at, sig_at, chain_at };
        uint8_t *p = b.p + at[bad[i].at];
        memcpy(kept, p, 8 < b.n - at[bad[i].at] ? 8 : b.n - at[bad[i].at]);
        size_t wide = bad[i].at == 0 ? 8 : bad[i].at == 3 ? 4 : 2;
        for (size_t k = 0; k < wide; k++)
            p[k] = k < 4 ? (uint8_t)(bad[i].value >> 8 * k) : 0;
        CHECK_STATUS(voucher_read(&got, buf_span(&b)), SEFL_EPROTO);
        memcpy(p, kept, wide);
    }
    CHECK_OK(voucher_read(&got, buf_span(&b)));
    CHECK_OK(wr_u8(&b, 0));
    CHECK_STATUS(voucher_read(&got, buf_span(&b)), SEFL_EPROTO);
    buf_clear(&b);
}

static void limits(void **state)
{
    static uint8_t chain[VOUCHER_MAX + 1];
    voucher v = sample(), got;
    sefl_buf b = { 0 };
    (void)state;
    v.chain = span_of(chain, sizeof chain);
    CHECK_STATUS(voucher_write(&b, &v), SEFL_ERANGE);
    buf_reset(&b);
    v.chain.n = VOUCHER_MAX - (4 + 4 * 32 + 8 + 2 + 91 + 2 + 71 + 4);
    CHECK_OK(voucher_write(&b, &v));
    assert_int_equal(b.n, VOUCHER_MAX);
    CHECK_OK(voucher_read(&got, buf_span(&b)));
    buf_reset(&b);
    v.chain.n++;
    CHECK_STATUS(voucher_write(&b, &v), SEFL_ERANGE);
    CHECK_STATUS(voucher_read(&got, buf_span(&b)), SEFL_EPROTO);
    buf_reset(&b);
    v = sample(), v.spki = span_of(chain, VOUCHER_SPKI_MAX + 1);
    CHECK_STATUS(voucher_write(&b, &v), SEFL_ERANGE);
    v = sample(), v.spki.n = 0;
    CHECK_STATUS(voucher_to_sign(&b, &v), SEFL_ERANGE);
    v = sample(), v.signature = span_of(chain, VOUCHER_SIGNATURE_MAX + 1);
    CHECK_STATUS(voucher_write(&b, &v), SEFL_ERANGE);
    v = sample(), v.signature.n = 0;
    CHECK_STATUS(voucher_write(&b, &v), SEFL_ERANGE);
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(bad_bytes),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
