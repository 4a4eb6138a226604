/* sign: a signature verifies only for its bytes, kind and key; key files are strict. */
#include "support/check.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "crypto/sign.h"

#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

static sefl_rng rng;
static seeded gen;

/* RFC 8032 has no test vectors with our prefix, so the reference is libsodium over the bytes
 * assembled by hand, with the key derived from the seed in the file. */
static void test_is_ed25519_over_prefix(void **state)
{
    (void)state;
    static const struct {
        sign_kind kind;
        const char *prefix;
    } kinds[] = { { SIGN_TASK, "sefl task 1\n" },
                  { SIGN_HEADER, "sefl round header 1\n" },
                  { SIGN_RECEIPT, "sefl receipt 1\n" },
                  { SIGN_STATEMENT, "sefl statement 1\n" },
                  { SIGN_ENROLMENT, "sefl enrolment 1\n" },
                  { SIGN_APPROVAL, "sefl approval 1\n" },
                  { SIGN_UPLOAD, "sefl upload 1\n" },
                  { SIGN_COUNTED, "sefl counted 1\n" },
                  { SIGN_SESSION, "sefl noise session 1\n" },
                  { SIGN_ORDER, "sefl order 1\n" },
                  { SIGN_LINK, "sefl link 1\n" },
                  { SIGN_END, "sefl end 1\n" },
                  { SIGN_AUDIT, "sefl audit log 1\n" },
                  { SIGN_VERDICT, "sefl noise verdict 1\n" } };
    const size_t n_kinds = sizeof kinds / sizeof kinds[0];
    sign_key *k = NULL;
    uint8_t sig[SIGN_BYTES];
    CHECK_OK(sign_key_new(&k, &rng));
    for (size_t i = 0; i < n_kinds; i++) {
        char text[64];
        int n = snprintf(text, sizeof text, "%sbytes", kinds[i].prefix);
        CHECK_OK(sign_make(sig, k, kinds[i].kind, span_of_str("bytes")));
        assert_int_equal(crypto_sign_verify_detached(sig, (const uint8_t *)text,
                                                     (unsigned long long)n, sign_key_pub(k)),
                         0);
        for (size_t j = 0; j < n_kinds; j++)
            CHECK_STATUS(sign_check(sig, sign_key_pub(k), kinds[j].kind, span_of_str("bytes")),
                         i == j ? SEFL_OK : SEFL_EAUTH);
    }
    CHECK_STATUS(sign_make(sig, k, (sign_kind)15, span_of_str("bytes")), SEFL_EINVAL);
    sign_key_free(k);
}

static void test_every_changed_bit_is_found(void **state)
{
    (void)state;
    sign_key *k = NULL, *other = NULL;
    uint8_t sig[SIGN_BYTES], pub[SIGN_PUB_BYTES], text[] = "some bytes";
    CHECK_OK(sign_key_new(&k, &rng));
    CHECK_OK(sign_key_new(&other, &rng));
    memcpy(pub, sign_key_pub(k), sizeof pub);
    assert_memory_not_equal(pub, sign_key_pub(other), sizeof pub);
    sefl_span in = span_of(text, sizeof text);
    CHECK_OK(sign_make(sig, k, SIGN_TASK, in));
    CHECK_OK(sign_check(sig, pub, SIGN_TASK, in));
    CHECK_STATUS(sign_check(sig, sign_key_pub(other), SIGN_TASK, in), SEFL_EAUTH);
    for (size_t bit = 0; bit < 8 * sizeof sig; bit++) {
        sig[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK_STATUS(sign_check(sig, pub, SIGN_TASK, in), SEFL_EAUTH);
        sig[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof pub; bit++) {
        pub[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK_STATUS(sign_check(sig, pub, SIGN_TASK, in), SEFL_EAUTH);
        pub[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof text; bit++) {
        text[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK_STATUS(sign_check(sig, pub, SIGN_TASK, in), SEFL_EAUTH);
        text[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t n = 0; n < sizeof text; n++)
        CHECK_STATUS(sign_check(sig, pub, SIGN_TASK, span_of(text, n)), SEFL_EAUTH);
    sign_key_free(k);
    sign_key_free(other);
}

static void test_files(void **state)
{
    (void)state;
    const char *path = folder_path("a.key"), *pub_path = folder_path("a.pub");
    sign_key *k = NULL, *again = NULL;
    uint8_t pub[SIGN_PUB_BYTES], a[SIGN_BYTES], b[SIGN_BYTES];
    struct stat s;
    sefl_buf text = { 0 };
    CHECK_OK(sign_key_new(&k, &rng));
    CHECK_OK(sign_key_write(k, path));
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    CHECK_STATUS(sign_key_write(k, path), SEFL_EEXIST);
    CHECK_OK(sign_key_read(&again, path));
    assert_memory_equal(sign_key_pub(k), sign_key_pub(again), SIGN_PUB_BYTES);
    CHECK_OK(sign_make(a, k, SIGN_TASK, span_of_str("x")));
    CHECK_OK(sign_make(b, again, SIGN_TASK, span_of_str("x")));
    assert_memory_equal(a, b, sizeof a);
    sign_key_free(again);

    CHECK_OK(sign_pub_write(sign_key_pub(k), pub_path));
    CHECK_OK(sign_pub_read(pub, pub_path));
    assert_memory_equal(pub, sign_key_pub(k), sizeof pub);
    CHECK_STATUS(sign_pub_read(pub, path), SEFL_EPROTO);
    CHECK_STATUS(sign_key_read(&again, pub_path), SEFL_EPROTO);
    assert_null(again);
    CHECK_STATUS(sign_key_read(&again, "/nowhere/at/all"), SEFL_ENOTFOUND);

    /* cut short, longer, other digits */
    CHECK_OK(file_read(&text, path, 4096));
    for (size_t n = 0; n < text.n; n++) {
        CHECK_OK(file_write_atomic(path, span_of(text.p, n), 0600));
        CHECK_STATUS(sign_key_read(&again, path), SEFL_EPROTO);
    }
    size_t digits = strlen("-----BEGIN SEFL SIGNING KEY-----\n");
    static const char bad[] = "!-_ \n";
    for (size_t i = 0; bad[i]; i++) {
        uint8_t old = text.p[digits + 3];
        text.p[digits + 3] = (uint8_t)bad[i];
        CHECK_OK(file_write_atomic(path, buf_span(&text), 0600));
        CHECK_STATUS(sign_key_read(&again, path), SEFL_EPROTO);
        text.p[digits + 3] = old;
    }
    /* 43 digits hold 258 bits: the last two must be zero */
    text.p[digits + 42] = text.p[digits + 42] == 'B' ? 'C' : 'B';
    CHECK_OK(file_write_atomic(path, buf_span(&text), 0600));
    CHECK_STATUS(sign_key_read(&again, path), SEFL_EPROTO);

    CHECK_OK(file_read(&text, pub_path, 4096)); /* appended: two keys in one file */
    CHECK_OK(file_write_atomic(pub_path, buf_span(&text), 0644));
    CHECK_STATUS(sign_pub_read(pub, pub_path), SEFL_EPROTO);
    for (size_t i = 0; i < sizeof pub; i++)
        assert_int_equal(pub[i], 0);
    buf_clear(&text);
    sign_key_free(k);
}

static void test_faults(void **state)
{
    (void)state;
    const char *path = folder_path("b.key");
    sign_key *k = NULL, *again = NULL;
    uint8_t sig[SIGN_BYTES];
    sefl_rng sys = rng_system();
    CHECK_OK(sign_key_new(&k, &sys));
    CHECK_OK(sign_key_write(k, path));
    TEST_FAULTS(FAULT_ALLOC, st = sign_key_read(&again, path), sign_key_free(again));
    TEST_FAULTS(FAULT_ALLOC, st = sign_make(sig, k, SIGN_TASK, span_of_str("x")), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = sign_check(sig, sign_key_pub(k), SIGN_TASK, span_of_str("x")),
                (void)0);
    TEST_FAULTS(FAULT_RANDOM, st = sign_key_new(&again, &sys), sign_key_free(again));
    sign_key_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_ed25519_over_prefix),
        cmocka_unit_test(test_every_changed_bit_is_found),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_faults),
    };
    test_seed(&gen, "sign");
    rng = seeded_rng(&gen);
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
