/* Round trip, wrong locks, every byte changed, every length, bounds on the cost, faults. */
#include "crypto/sealed.h"

#include "base/alloc.h"
#include "crypto/secmem.h"
#include "support/check.h"

#include <string.h>
#include <sys/resource.h>

static const sealed_cost cheap = { .passes = 1, .kib = SEALED_KIB_MIN };
static const sealed_lock lock = { SEALED_BY_PASSPHRASE, { (const uint8_t *)"correct horse", 13 } };
static const sefl_span secret = { (const uint8_t *)"the secret of the day", 21 };
static const sefl_span label = { (const uint8_t *)"a label", 7 };

static sefl_buf file;
static seeded gen;
static sefl_rng rng;

static int seal(void **state)
{
    (void)state;
    test_seed(&gen, "sealed");
    rng = seeded_rng(&gen);
    CHECK_OK(sealed_write(&file, label, secret, &lock, &cheap, &rng));
    return 0;
}

static int clear(void **state)
{
    (void)state;
    buf_clear(&file);
    return 0;
}

static sefl_status open_file(uint8_t out[64], sefl_span bytes, const sealed_lock *with)
{
    sealed_info info;
    sefl_status st = SEFL_OK;
    SEFL_TRY(sealed_peek(&info, bytes));
    SEFL_CHECK(info.bytes <= 64, SEFL_ERANGE, "test: more than was sealed");
    SEFL_TRY(sealed_open(out, &info, with));
done:
    return st;
}

static void test_round_trip(void **state)
{
    sealed_info info;
    uint8_t out[64];
    (void)state;
    CHECK_OK(sealed_peek(&info, buf_span(&file)));
    assert_int_equal(info.by, SEALED_BY_PASSPHRASE);
    assert_int_equal(info.cost.passes, 1);
    assert_int_equal(info.cost.kib, 1024);
    assert_int_equal(info.bytes, 21);
    assert_int_equal(info.label.n, 7);
    assert_memory_equal(info.label.p, "a label", 7);
    CHECK_OK(sealed_open(out, &info, &lock));
    assert_memory_equal(out, secret.p, 21);
    assert_int_equal(file.n, 8 + 2 + 1 + 1 + 4 + 4 + 16 + 24 + 1 + 7 + 4 + 21 + 16);
    for (size_t i = 0; i + secret.n <= file.n; i++) /* and the secret is not in the file */
        assert_true(memcmp(file.p + i, secret.p, 8) != 0);
}

static void test_empty_and_largest(void **state)
{
    sefl_buf b = { 0 };
    uint8_t *big = NULL, *out = NULL;
    sealed_info info;
    (void)state;
    CHECK_OK(sefl_new(&big, SEALED_BYTES_MAX + 1, 1));
    CHECK_OK(sefl_new(&out, SEALED_BYTES_MAX, 1));
    memset(big, 7, SEALED_BYTES_MAX);
    CHECK_OK(sealed_write(&b, span_of(NULL, 0), span_of(NULL, 0), &lock, &cheap, &rng));
    CHECK_OK(sealed_peek(&info, buf_span(&b)));
    assert_int_equal(info.bytes, 0);
    CHECK_OK(sealed_open(out, &info, &lock));
    buf_reset(&b);
    CHECK_OK(sealed_write(&b, span_of(big, SEALED_LABEL_MAX), span_of(big, SEALED_BYTES_MAX), &lock,
                          &cheap, &rng));
    CHECK_OK(sealed_peek(&info, buf_span(&b)));
    CHECK_OK(sealed_open(out, &info, &lock));
    assert_memory_equal(out, big, SEALED_BYTES_MAX);
    buf_reset(&b);
    CHECK_STATUS(sealed_write(&b, label, span_of(big, SEALED_BYTES_MAX + 1), &lock, &cheap, &rng),
                 SEFL_EINVAL);
    CHECK_STATUS(sealed_write(&b, span_of(big, SEALED_LABEL_MAX + 1), secret, &lock, &cheap, &rng),
                 SEFL_EINVAL);
    assert_int_equal(b.n, 0);
    sefl_free(big);
    sefl_free(out);
    buf_clear(&b);
}

static void test_wrong_lock(void **state)
{
    static const char *const wrong[] = { "correct horsf", "correct hors", "correct horse ", "x" };
    uint8_t out[64];
    sealed_lock l = lock;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        l.secret = span_of_str(wrong[i]);
        memset(out, 0xaa, sizeof out);
        CHECK_STATUS(open_file(out, buf_span(&file), &l), SEFL_EAUTH);
        for (size_t j = 0; j < secret.n; j++)
            assert_int_equal(out[j], 0);
    }
    assert_non_null(strstr(sefl_last_error(), "wrong passphrase"));
    l = lock, l.by = SEALED_BY_KEY_FILE; /* the same bytes, but as a key file */
    CHECK_STATUS(open_file(out, buf_span(&file), &l), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "locked with a passphrase, not with a key file"));
    l = lock, l.secret.n = 0;
    CHECK_STATUS(open_file(out, buf_span(&file), &l), SEFL_EINVAL);
    l.by = (sealed_by)3, l.secret.n = 3;
    CHECK_STATUS(open_file(out, buf_span(&file), &l), SEFL_EINVAL);
}

/* Every bit of the file: nothing opens. */
static void test_changed(void **state)
{
    uint8_t out[64];
    unsigned eauth = 0, eproto = 0;
    (void)state;
    for (size_t i = 0; i < file.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            sealed_info info;
            file.p[i] ^= (uint8_t)(1 << bit);
            sefl_status st = sealed_peek(&info, buf_span(&file));
            if (st == SEFL_OK && (info.cost.kib > 4096 || info.cost.passes > 4))
                eauth++; /* a valid header of great cost: see test_cost_is_bound */
            else if (st == SEFL_OK) {
                st = open_file(out, buf_span(&file), &lock);
                /* one bit of the lock kind gives another valid header */
                if (st != SEFL_EAUTH && !(st == SEFL_EINVAL && i == 10))
                    fail_msg("bit %d of byte %zu: %s", bit, i, sefl_status_name(st));
                eauth++;
            } else {
                assert_true(st == SEFL_EPROTO || st == SEFL_EUNSUPPORTED);
                eproto++;
            }
            file.p[i] ^= (uint8_t)(1 << bit);
        }
    assert_true(eauth > 8 * (16 + 24 + 7 + 21 + 16) - 1 && eproto >= 8 * (8 + 2 + 1));
    CHECK_OK(open_file(out, buf_span(&file), &lock)); /* the changes caused the failures */
}

static void test_lengths(void **state)
{
    sealed_info info;
    sefl_buf b = { 0 };
    (void)state;
    for (size_t n = 0; n < file.n; n++) {
        uint8_t *exact = NULL;
        CHECK_OK(sefl_new(&exact, n, 1));
        memcpy(exact, file.p, n);
        CHECK_STATUS(sealed_peek(&info, span_of(exact, n)), SEFL_EPROTO);
        assert_null(info.body.p);
        sefl_free(exact);
    }
    CHECK_OK(wr_raw(&b, file.p, file.n));
    CHECK_OK(wr_u8(&b, 0));
    CHECK_STATUS(sealed_peek(&info, buf_span(&b)), SEFL_EPROTO);
    buf_clear(&b);
}

/* Neither a hostile file nor a writer can request more than 512 MiB and 16 passes. */
static void test_cost_is_bound(void **state)
{
    static const sealed_cost bad[] = { { 0, 1024 },       { 17, 1024 },      { UINT32_MAX, 1024 },
                                       { 1, 1023 },       { 1, 0 },          { 1, 512 * 1024 + 1 },
                                       { 1, UINT32_MAX }, { 16, 0x80000000 } };
    static const sealed_cost good[] = { { 1, 1024 }, { 16, 512 * 1024 } };
    sealed_info info;
    sefl_buf b = { 0 };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        store_u32(file.p + 12, bad[i].passes);
        store_u32(file.p + 16, bad[i].kib);
        CHECK_STATUS(sealed_peek(&info, buf_span(&file)), SEFL_EPROTO);
        CHECK_STATUS(sealed_write(&b, label, secret, &lock, &bad[i], &rng), SEFL_EINVAL);
        assert_int_equal(b.n, 0);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        store_u32(file.p + 12, good[i].passes);
        store_u32(file.p + 16, good[i].kib);
        CHECK_OK(sealed_peek(&info, buf_span(&file)));
    }
    assert_true(sealed_cost_default.kib <= SEALED_KIB_MAX);
    assert_true(sealed_cost_default.kib >= 64 * 1024);
}

static void test_version(void **state)
{
    sealed_info info;
    (void)state;
    file.p[8] = 2;
    CHECK_STATUS(sealed_peek(&info, buf_span(&file)), SEFL_EUNSUPPORTED);
    assert_non_null(strstr(sefl_last_error(), "version 2"));
}

/* Salt, nonce and so the whole body differ with every write. */
static void test_fresh(void **state)
{
    sefl_buf b = { 0 };
    (void)state;
    CHECK_OK(sealed_write(&b, label, secret, &lock, &cheap, &rng));
    assert_int_equal(b.n, file.n);
    assert_true(memcmp(b.p + 20, file.p + 20, 16) != 0);
    assert_true(memcmp(b.p + 36, file.p + 36, 24) != 0);
    assert_true(memcmp(b.p + b.n - 37, file.p + file.n - 37, 21) != 0);
    buf_clear(&b);
}

static sefl_status no_coins(void *self, void *out, size_t n)
{
    (void)self;
    memset(out, 0, n);
    return sefl_fail(SEFL_ERANDOM, "test: no coins");
}

static void test_faults(void **state)
{
    sefl_buf b = { 0 };
    uint8_t out[64];
    sefl_rng none = { .fill = no_coins };
    (void)state;
    TEST_FAULTS(
        FAULT_ALLOC,
        {
            buf_clear(&b);
            st = sealed_write(&b, label, secret, &lock, &cheap, &rng);
            assert_true(st == SEFL_OK || (st == SEFL_ENOMEM && b.n == 0));
        },
        buf_clear(&b));
    TEST_FAULTS(FAULT_ALLOC, st = open_file(out, buf_span(&file), &lock), (void)0);
    CHECK_STATUS(sealed_write(&b, label, secret, &lock, &cheap, &none), SEFL_ERANDOM);
    assert_int_equal(b.n, 0);
    buf_clear(&b);
}

static void test_secmem(void **state)
{
    uint64_t *p = NULL;
    bool locked = true;
    (void)state;
    for (size_t n = 0; n < 40; n++) {
        CHECK_OK(secmem_new(&p, n, &locked));
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 8, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(((uint8_t *)p)[i], 0);
        memset(p, 1, n);
        secmem_free(p);
    }
    secmem_free(NULL);
    CHECK_STATUS(secmem_new(&p, SIZE_MAX, &locked), SEFL_ENOMEM);
    assert_null(p);

    /* a system that does not lock memory: the memory is usable, and the flag says so */
    struct rlimit was, none;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &was), 0);
    none = was, none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    locked = true;
    CHECK_OK(secmem_new(&p, 100, &locked));
    bool could = true;
    CHECK_OK(secmem_lock(p, 100, &could));
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &was), 0);
    assert_int_equal(locked, could); /* a privileged user is not limited */
    memset(p, 1, 100);
    secmem_free(p);

    /* a process that requires locking: no memory at all, and the message names the remedy */
    for (int required = 0; required < 2; required++) {
        secmem_require(required == 1);
        fault_arm(FAULT_LOCK, 1);
        locked = true;
        CHECK_STATUS(secmem_new(&p, 100, &locked), required ? SEFL_ENOMEM : SEFL_OK);
        assert_false(locked);
        if (required)
            assert_non_null(strstr(sefl_last_error(), "LimitMEMLOCK="));
        assert_int_equal(p == NULL, required);
        secmem_free(p);
        fault_arm(FAULT_LOCK, 1);
        CHECK_STATUS(secmem_lock(&was, sizeof was, NULL), required ? SEFL_ENOMEM : SEFL_OK);
        fault_disarm();
        CHECK_OK(secmem_new(&p, 100, NULL));
        secmem_free(p);
    }
    secmem_require(false);
}

int main(void)
{
#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, seal, clear)
    const struct CMUnitTest tests[] = {
        WITH_FILE(test_round_trip), WITH_FILE(test_empty_and_largest),
        WITH_FILE(test_wrong_lock), WITH_FILE(test_changed),
        WITH_FILE(test_lengths),    WITH_FILE(test_cost_is_bound),
        WITH_FILE(test_version),    WITH_FILE(test_fresh),
        WITH_FILE(test_faults),     cmocka_unit_test(test_secmem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
