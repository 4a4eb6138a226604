/* Key files: round trips, wrong locks, every byte changed, every length, forged labels, faults. */
#include "crypto/keyfile.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/hex.h"
#include "support/check.h"

#include <string.h>

static const sealed_cost cheap = { .passes = 1, .kib = SEALED_KIB_MIN };
static const sealed_lock lock = { SEALED_BY_KEY_FILE,
                                  { (const uint8_t *)"thirty-two bytes of a key file..", 32 } };

static seeded gen;
static sefl_rng rng;
static paillier_sec *key;
static sefl_buf sec_file, pub_file;

static int make(void **state)
{
    (void)state;
    test_seed(&gen, "keyfile");
    rng = seeded_rng(&gen);
    CHECK_OK(paillier_keygen_vartime(&key, 2048, &rng, NULL));
    CHECK_OK(keyfile_sec_write(&sec_file, key, &lock, &cheap, &rng));
    CHECK_OK(keyfile_pub_write(&pub_file, paillier_sec_pub(key)));
    assert_true(sec_file.n <= KEYFILE_BYTES_MAX && pub_file.n <= KEYFILE_BYTES_MAX);
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    paillier_sec_free(key);
    buf_clear(&sec_file);
    buf_clear(&pub_file);
    return 0;
}

static void test_round_trip(void **state)
{
    paillier_sec *sec = NULL;
    paillier_pub *pub = NULL;
    sefl_buf a = { 0 }, b = { 0 };
    bool locked = false;
    (void)state;
    CHECK_OK(keyfile_sec_read(&sec, buf_span(&sec_file), &lock, &locked));
    CHECK_OK(keyfile_pub_read(&pub, buf_span(&pub_file)));
    assert_true(paillier_pub_equal(pub, paillier_sec_pub(sec)));
    CHECK_OK(paillier_sec_write(key, &a));
    CHECK_OK(paillier_sec_write(sec, &b));
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.p, b.p, a.n);
    CHECK_OK(keyfile_check(sec, &rng));
    buf_reset(&a);
    CHECK_OK(keyfile_pub_write(&a, pub)); /* one key has one text form */
    assert_int_equal(a.n, pub_file.n);
    assert_memory_equal(a.p, pub_file.p, a.n);
    paillier_sec_free(sec);
    paillier_pub_free(pub);
    buf_clear(&a);
    buf_clear(&b);
}

static void test_info(void **state)
{
    keyfile_info sec, pub;
    uint8_t fingerprint[PAILLIER_FINGERPRINT_BYTES];
    char hex[65];
    (void)state;
    paillier_pub_fingerprint(paillier_sec_pub(key), fingerprint);
    CHECK_OK(keyfile_info_read(&sec, buf_span(&sec_file)));
    CHECK_OK(keyfile_info_read(&pub, buf_span(&pub_file)));
    assert_true(sec.secret && !pub.secret);
    assert_true(sec.bits == 2048 && pub.bits == 2048);
    assert_memory_equal(sec.fingerprint, fingerprint, 32);
    assert_memory_equal(pub.fingerprint, fingerprint, 32);
    assert_int_equal(sec.by, SEALED_BY_KEY_FILE);
    assert_int_equal(sec.cost.kib, 1024);
    hex_write(hex, fingerprint, sizeof fingerprint);
    assert_int_equal(strlen(hex), 64);
    CHECK_OK(wr_u8(&pub_file, 0)), pub_file.n--;
    assert_non_null(strstr((const char *)pub_file.p, hex));
    CHECK_STATUS(keyfile_info_read(&sec, span_of_str("hello")), SEFL_EPROTO);
    CHECK_STATUS(keyfile_info_read(&sec, span_of_str("hello, this is no key")), SEFL_EPROTO);
    CHECK_STATUS(keyfile_info_read(&sec, span_of(NULL, 0)), SEFL_EPROTO);
}

static void test_wrong_lock(void **state)
{
    paillier_sec *sec = key;
    sealed_lock l = { SEALED_BY_KEY_FILE, span_of_str("thirty-two bytes of a key file.,") };
    (void)state;
    CHECK_STATUS(keyfile_sec_read(&sec, buf_span(&sec_file), &l, NULL), SEFL_EAUTH);
    assert_null(sec);
    l = lock, l.by = SEALED_BY_PASSPHRASE;
    CHECK_STATUS(keyfile_sec_read(&sec, buf_span(&sec_file), &l, NULL), SEFL_EINVAL);
    /* mixed-up files */
    CHECK_STATUS(keyfile_sec_read(&sec, buf_span(&pub_file), &lock, NULL), SEFL_EPROTO);
    paillier_pub *pub = NULL;
    CHECK_STATUS(keyfile_pub_read(&pub, buf_span(&sec_file)), SEFL_EPROTO);
    assert_null(pub);
}

static void test_sec_changed(void **state)
{
    paillier_sec *sec = NULL;
    (void)state;
    for (size_t i = 0; i < sec_file.n; i++) {
        uint8_t bit = (uint8_t)(1u << seeded_below(&gen, 8));
        if (i >= 12 && i < 20) /* the cost: small changes only, test_sealed.c tries the rest */
            bit = 1;
        sec_file.p[i] ^= bit;
        sefl_status st = keyfile_sec_read(&sec, buf_span(&sec_file), &lock, NULL);
        if (st != SEFL_EAUTH && st != SEFL_EPROTO && st != SEFL_EUNSUPPORTED &&
            !(st == SEFL_EINVAL && i == 10))
            fail_msg("byte %zu, bit %u: %s", i, bit, sefl_status_name(st));
        assert_null(sec);
        sec_file.p[i] ^= bit;
    }
    for (size_t n = 0; n < sec_file.n; n++)
        CHECK_STATUS(keyfile_sec_read(&sec, span_of(sec_file.p, n), &lock, NULL), SEFL_EPROTO);
}

static void test_pub_changed(void **state)
{
    paillier_pub *pub = NULL;
    keyfile_info info;
    sefl_buf b = { 0 };
    (void)state;
    for (size_t i = 0; i < pub_file.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            pub_file.p[i] ^= (uint8_t)(1 << bit);
            sefl_status st = keyfile_pub_read(&pub, buf_span(&pub_file));
            if (st != SEFL_EPROTO && st != SEFL_EUNSUPPORTED)
                fail_msg("byte %zu, bit %d: %s", i, bit, sefl_status_name(st));
            assert_null(pub);
            assert_true(keyfile_info_read(&info, buf_span(&pub_file)) != SEFL_OK);
            pub_file.p[i] ^= (uint8_t)(1 << bit);
        }
    for (size_t n = 0; n < pub_file.n; n++) {
        sefl_status st = keyfile_pub_read(&pub, span_of(pub_file.p, n));
        assert_true(st == SEFL_EPROTO || st == SEFL_EUNSUPPORTED);
    }
    CHECK_OK(wr_raw(&b, pub_file.p, pub_file.n));
    CHECK_OK(wr_u8(&b, '\n'));
    CHECK_STATUS(keyfile_pub_read(&pub, buf_span(&b)), SEFL_EPROTO);
    buf_clear(&b);
    CHECK_OK(keyfile_pub_read(&pub, buf_span(&pub_file))); /* the changes caused the failures */
    paillier_pub_free(pub);
}

/* A file whose fingerprint is right but whose key is bad: the key's own checks report it. */
static void test_bad_keys_in_good_files(void **state)
{
    paillier_sec *sec = NULL;
    sefl_buf raw = { 0 }, file = { 0 };
    uint8_t label[35] = { 1, 0x00, 0x08 };
    (void)state;
    CHECK_OK(paillier_sec_write(key, &raw));
    paillier_pub_fingerprint(paillier_sec_pub(key), label + 3);

    CHECK_OK(sealed_write(&file, span_of(label, 35), buf_span(&raw), &lock, &cheap, &rng));
    CHECK_OK(keyfile_sec_read(&sec, buf_span(&file), &lock, NULL)); /* the label is right so far */
    paillier_sec_free(sec);

    for (size_t at = 0; at < 4; at++) { /* kind, bits (two bytes), fingerprint */
        buf_reset(&file);
        label[at] ^= 1;
        CHECK_OK(sealed_write(&file, span_of(label, 35), buf_span(&raw), &lock, &cheap, &rng));
        CHECK_STATUS(keyfile_sec_read(&sec, buf_span(&file), &lock, NULL), SEFL_EPROTO);
        assert_null(sec);
        label[at] ^= 1;
    }
    assert_non_null(strstr(sefl_last_error(), "does not match the key"));
    buf_reset(&file); /* a key of the other size under this label */
    label[2] = 0x0c;
    CHECK_OK(sealed_write(&file, span_of(label, 35), buf_span(&raw), &lock, &cheap, &rng));
    CHECK_STATUS(keyfile_sec_read(&sec, buf_span(&file), &lock, NULL), SEFL_EPROTO);
    label[2] = 0x08;
    buf_reset(&file); /* a short label */
    CHECK_OK(sealed_write(&file, span_of(label, 34), buf_span(&raw), &lock, &cheap, &rng));
    CHECK_STATUS(keyfile_sec_read(&sec, buf_span(&file), &lock, NULL), SEFL_EPROTO);
    buf_reset(&file); /* no key inside */
    memset(raw.p + 2, 0x55, raw.n - 2);
    CHECK_OK(sealed_write(&file, span_of(label, 35), buf_span(&raw), &lock, &cheap, &rng));
    sefl_status st = keyfile_sec_read(&sec, buf_span(&file), &lock, NULL);
    assert_true(st == SEFL_EPROTO || st == SEFL_ECRYPTO);
    assert_null(sec);
    buf_clear(&raw);
    buf_clear(&file);
}

/* The trial decryption detects a fault in the key's memory. */
static void test_check_finds_a_fault(void **state)
{
    paillier_sec *sec = NULL;
    unsigned found = 0;
    (void)state;
    for (size_t i = 1; i <= 8; i++) { /* in the second half: numbers, not pointers */
        CHECK_OK(keyfile_sec_read(&sec, buf_span(&sec_file), &lock, NULL));
        sefl_span block = paillier_sec_memory(sec);
        *(uint8_t *)((uintptr_t)block.p + block.n - block.n / 16 * i) ^= 2;
        found += keyfile_check(sec, &rng) != SEFL_OK;
        paillier_sec_free(sec);
    }
    assert_true(found >= 2); /* not every byte of the block is part of a number */
}

static void test_faults(void **state)
{
    paillier_sec *sec = NULL;
    paillier_pub *pub = NULL;
    sefl_buf b = { 0 };
    (void)state;
    TEST_FAULTS(FAULT_ALLOC, buf_clear(&b); st = keyfile_sec_write(&b, key, &lock, &cheap, &rng);
                assert_true(st == SEFL_OK || b.n == 0), buf_clear(&b));
    TEST_FAULTS(FAULT_ALLOC, buf_clear(&b); st = keyfile_pub_write(&b, paillier_sec_pub(key));
                assert_true(st == SEFL_OK || b.n == 0), buf_clear(&b));
    TEST_FAULTS(FAULT_ALLOC, st = keyfile_sec_read(&sec, buf_span(&sec_file), &lock, NULL);
                assert_true(st == SEFL_OK || !sec), paillier_sec_free(sec));
    TEST_FAULTS(FAULT_ALLOC, st = keyfile_pub_read(&pub, buf_span(&pub_file));
                assert_true(st == SEFL_OK || !pub), paillier_pub_free(pub));
    TEST_FAULTS(FAULT_ALLOC, st = keyfile_check(key, &rng), (void)0);
}

/* ---- root ------------------------------------------------------------------------------------- */

static void test_root(void **state)
{
    uint8_t root[KEYFILE_ROOT_BYTES], got[KEYFILE_ROOT_BYTES];
    static const uint8_t zeros[KEYFILE_ROOT_BYTES];
    sefl_buf file = { 0 };
    keyfile_info info;
    paillier_sec *sec = NULL;
    sealed_lock wrong = { SEALED_BY_KEY_FILE, span_of_str("thirty-two bytes of a key file.,") };
    (void)state;
    CHECK_OK(rng_fill(&rng, root, sizeof root));
    CHECK_OK(keyfile_root_write(&file, root, &lock, &cheap, &rng));
    CHECK_OK(keyfile_root_read(got, buf_span(&file), &lock));
    assert_memory_equal(got, root, sizeof root);
    CHECK_OK(keyfile_info_read(&info, buf_span(&file)));
    assert_true(info.kind == KEYFILE_ROOT && info.secret && info.bits == 256);
    assert_int_equal(info.by, SEALED_BY_KEY_FILE);

    CHECK_STATUS(keyfile_root_read(got, buf_span(&file), &wrong), SEFL_EAUTH);
    assert_memory_equal(got, zeros, sizeof got);
    CHECK_STATUS(keyfile_sec_read(&sec, buf_span(&file), &lock, NULL), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "--scheme paillier"));
    CHECK_STATUS(keyfile_root_read(got, buf_span(&sec_file), &lock), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "need a root"));
    CHECK_STATUS(keyfile_root_read(got, buf_span(&pub_file), &lock), SEFL_EPROTO);

    for (size_t i = 0; i < file.n; i++) {
        uint8_t bit = i >= 12 && i < 20 ? 1 : (uint8_t)(1u << seeded_below(&gen, 8));
        memset(got, 1, sizeof got);
        file.p[i] ^= bit;
        sefl_status st = keyfile_root_read(got, buf_span(&file), &lock);
        if (st != SEFL_EAUTH && st != SEFL_EPROTO && st != SEFL_EUNSUPPORTED &&
            !(st == SEFL_EINVAL && i == 10))
            fail_msg("byte %zu, bit %u: %s", i, bit, sefl_status_name(st));
        assert_memory_equal(got, zeros, sizeof got);
        file.p[i] ^= bit;
    }
    for (size_t n = 0; n < file.n; n++)
        CHECK_STATUS(keyfile_root_read(got, span_of(file.p, n), &lock), SEFL_EPROTO);
    buf_clear(&file);
}

/* A label that does not match the content. */
static void test_root_labels(void **state)
{
    uint8_t root[KEYFILE_ROOT_BYTES + 1] = { 7 }, got[KEYFILE_ROOT_BYTES], label[35];
    sefl_buf file = { 0 };
    sealed_info info;
    (void)state;
    CHECK_OK(keyfile_root_write(&file, root, &lock, &cheap, &rng));
    CHECK_OK(sealed_peek(&info, buf_span(&file)));
    assert_int_equal(info.label.n, sizeof label);
    memcpy(label, info.label.p, sizeof label);
    for (size_t at = 0; at < 4; at++) { /* kind, bits (two bytes), fingerprint */
        buf_reset(&file);
        label[at] ^= 4;
        CHECK_OK(sealed_write(&file, span_of(label, 35), span_of(root, 32), &lock, &cheap, &rng));
        CHECK_STATUS(keyfile_root_read(got, buf_span(&file), &lock), SEFL_EPROTO);
        label[at] ^= 4;
    }
    assert_non_null(strstr(sefl_last_error(), "does not match the root"));
    for (size_t n = 31; n <= 33; n += 2) { /* a root of another length */
        buf_reset(&file);
        CHECK_OK(sealed_write(&file, span_of(label, 35), span_of(root, n), &lock, &cheap, &rng));
        CHECK_STATUS(keyfile_root_read(got, buf_span(&file), &lock), SEFL_EPROTO);
    }
    buf_clear(&file);
}

static void test_root_faults(void **state)
{
    uint8_t root[KEYFILE_ROOT_BYTES] = { 9 }, got[KEYFILE_ROOT_BYTES];
    static const uint8_t zeros[KEYFILE_ROOT_BYTES];
    sefl_buf b = { 0 };
    (void)state;
    TEST_FAULTS(FAULT_ALLOC, buf_clear(&b); st = keyfile_root_write(&b, root, &lock, &cheap, &rng);
                assert_true(st == SEFL_OK || b.n == 0), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = keyfile_root_read(got, buf_span(&b), &lock);
                assert_memory_equal(got, st == SEFL_OK ? root : zeros, sizeof got), (void)0);
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_wrong_lock),
        cmocka_unit_test(test_sec_changed),
        cmocka_unit_test(test_pub_changed),
        cmocka_unit_test(test_bad_keys_in_good_files),
        cmocka_unit_test(test_check_finds_a_fault),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_root),
        cmocka_unit_test(test_root_labels),
        cmocka_unit_test(test_root_faults),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
