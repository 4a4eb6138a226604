/* head: round trips with both suites; another task, round, client, units, key or any changed byte
 * fails; the short form. Known answer: tests/vectors/core/protocol. */
#include "support/check.h"

#include "protocol/head.h"

#include <string.h>

static const char *const suites[] = { "x25519", "xwing" };
static uint8_t task[32], other_task[32], client[32], units[32], seed[HEAD_SEED];
static sign_key *upload, *foreign;
static sefl_rng rng;

static int setup(void **state)
{
    (void)state;
    rng = rng_system();
    memset(task, 1, 32), memset(other_task, 2, 32), memset(client, 3, 32), memset(units, 4, 32);
    memset(seed, 5, 32);
    CHECK_OK(sign_key_new(&upload, &rng));
    CHECK_OK(sign_key_new(&foreign, &rng));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sign_key_free(upload), sign_key_free(foreign);
    return 0;
}

typedef struct made {
    const seal_suite *s;
    seal_key *csp;
    uint8_t bytes[HEAD_MAX + 1];
    size_t n;
} made;

static made make(const char *suite)
{
    made m = { .s = seal_suite_named(suite) };
    uint8_t key[SEAL_SEED] = { 9 };
    head_facts f = { .suite = m.s, .task = task, .round = 6, .client = client, .units = units };
    m.n = head_bytes(m.s);
    CHECK_OK(seal_key_from(&m.csp, m.s, key));
    CHECK_OK(head_make(m.bytes, &f, seal_key_pub(m.csp), seed, upload, &rng));
    return m;
}

static void sizes(void **state)
{
    (void)state;
    assert_int_equal(head_bytes(NULL), 0);
    assert_int_equal(head_bytes(seal_suite_named("x25519")), 216);
    assert_int_equal(head_bytes(seal_suite_named("xwing")), 1304);
    assert_int_equal(HEAD_MAX, 1304);
}

static void there_and_back(void **state)
{
    static const uint8_t zeros[HEAD_SEED] = { 0 };
    (void)state;
    for (int i = 0; i < 2; i++) {
        made m = make(suites[i]);
        head h;
        uint8_t got[HEAD_SEED];
        CHECK_OK(head_read(&h, m.s, span_of(m.bytes, m.n)));
        assert_ptr_equal(h.suite, m.s);
        assert_memory_equal(h.client, client, 32);
        assert_memory_equal(h.units, units, 32);
        assert_ptr_equal(h.bytes.p, m.bytes);
        assert_int_equal(h.bytes.n, m.n);
        CHECK_OK(head_check(&h, task, 6, sign_key_pub(upload)));
        CHECK_OK(head_open(got, &h, m.csp, task, 6));
        assert_memory_equal(got, seed, sizeof got);

        CHECK_STATUS(head_check(&h, other_task, 6, sign_key_pub(upload)), SEFL_EAUTH);
        CHECK_STATUS(head_check(&h, task, 7, sign_key_pub(upload)), SEFL_EAUTH);
        CHECK_STATUS(head_check(&h, task, 6, sign_key_pub(foreign)), SEFL_EAUTH);
        CHECK_STATUS(head_open(got, &h, m.csp, other_task, 6), SEFL_EAUTH);
        assert_memory_equal(got, zeros, sizeof got);
        CHECK_STATUS(head_open(got, &h, m.csp, task, 5), SEFL_EAUTH);
        seal_key *another = NULL;
        CHECK_OK(seal_key_from(&another, m.s, seed));
        CHECK_STATUS(head_open(got, &h, another, task, 6), SEFL_EAUTH);
        seal_key_free(another);
        seal_key_free(m.csp);
    }
}

/* Every byte is signed, and the seal covers every byte before the signature except format and
 * suite: a copied head fails under another name even if the thief signs it again. */
static void every_byte(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        made m = make(suites[i]);
        head h;
        uint8_t got[HEAD_SEED];
        size_t step = i == 0 ? 1 : 7;
        for (size_t at = 0; at < m.n; at += step) {
            m.bytes[at] ^= 0x10;
            sefl_status st = head_read(&h, m.s, span_of(m.bytes, m.n));
            if (at < 8) {
                assert_int_equal(st, SEFL_EPROTO);
            } else {
                assert_int_equal(st, SEFL_OK);
                CHECK_STATUS(head_check(&h, task, 6, sign_key_pub(upload)), SEFL_EAUTH);
                CHECK_STATUS(head_open(got, &h, m.csp, task, 6),
                             at < m.n - SIGN_BYTES ? SEFL_EAUTH : SEFL_OK);
            }
            m.bytes[at] ^= 0x10;
        }
        for (size_t n = 0; n <= m.n + 1; n++)
            CHECK_STATUS(head_read(&h, m.s, span_of(m.bytes, n)), n == m.n ? SEFL_OK : SEFL_EPROTO);
        CHECK_STATUS(head_read(&h, seal_suite_named(suites[1 - i]), span_of(m.bytes, m.n)),
                     SEFL_EPROTO);
        CHECK_STATUS(head_read(&h, NULL, span_of(m.bytes, m.n)), SEFL_EINVAL);
        seal_key_free(m.csp);
    }
}

/* A sequence of whole and short heads; a short head alone is not a head, and is neither signed nor
 * sealed. */
static void rows(void **state)
{
    made m = make("x25519");
    uint8_t row[2 * HEAD_PREFIX + 216 + 5], got[HEAD_SEED];
    head h;
    (void)state;
    head_short(row, client, units);
    memcpy(row + HEAD_PREFIX, m.bytes, m.n);
    head_short(row + HEAD_PREFIX + m.n, units, client);
    memset(row + 2 * HEAD_PREFIX + m.n, 'S', 5);
    rd r = rd_over(span_of(row, sizeof row));
    CHECK_OK(head_next(&h, m.s, &r));
    assert_null(h.suite);
    assert_int_equal(h.bytes.n, HEAD_PREFIX);
    assert_memory_equal(h.units, units, 32);
    CHECK_STATUS(head_check(&h, task, 6, sign_key_pub(upload)), SEFL_EAUTH);
    CHECK_STATUS(head_open(got, &h, m.csp, task, 6), SEFL_EAUTH);
    CHECK_OK(head_next(&h, m.s, &r));
    assert_ptr_equal(h.suite, m.s);
    CHECK_OK(head_check(&h, task, 6, sign_key_pub(upload)));
    CHECK_OK(head_next(&h, m.s, &r));
    assert_memory_equal(h.client, units, 32);
    assert_int_equal(rd_left(&r), 5);
    CHECK_STATUS(head_next(&h, m.s, &r), SEFL_EPROTO);
    assert_int_equal(rd_left(&r), 5); /* a failure consumes nothing */
    CHECK_STATUS(head_read(&h, m.s, span_of(row, HEAD_PREFIX)), SEFL_EPROTO);
    seal_key_free(m.csp);
}

static void failures(void **state)
{
    made m = make("xwing");
    uint8_t out[HEAD_MAX], zeros[HEAD_MAX] = { 0 };
    head_facts f = { .suite = m.s, .task = task, .round = 6, .client = client, .units = units };
    sefl_span pub = seal_key_pub(m.csp);
    (void)state;
    memset(out, 1, sizeof out);
    CHECK_STATUS(head_make(out, &f, span_of(pub.p, pub.n - 1), seed, upload, &rng), SEFL_EPROTO);
    assert_memory_equal(out, zeros, m.n);
    TEST_FAULTS(FAULT_RANDOM, st = head_make(out, &f, pub, seed, upload, &rng), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = head_make(out, &f, pub, seed, upload, &rng), (void)0);
    seal_key_free(m.csp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes), cmocka_unit_test(there_and_back), cmocka_unit_test(every_byte),
        cmocka_unit_test(rows),  cmocka_unit_test(failures),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
