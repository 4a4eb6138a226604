/* Base OTs against a peer with invalid points, in the real group (fuzz harnesses use a toy
 * group). */
#include "support/check.h"

#include "base/buf.h"
#include "mpc/ot/base.h"

#include <string.h>

enum { N = 2, POINT = 32 };

static sefl_status take(void *self, void *out, size_t n)
{
    return rd_raw(self, out, n);
}

static sefl_status drop(void *self, const void *p, size_t n)
{
    (void)self, (void)p, (void)n;
    return SEFL_OK;
}

static sefl_status flush(void *self)
{
    (void)self;
    return SEFL_OK;
}

static const channel_ops ops = { drop, take, flush };
static const uint8_t session[OT_SESSION] = { 1 };
/* The base point of ristretto255, RFC 9496, A.1. */
static const uint8_t base_point[POINT] = { 0xe2, 0xf2, 0xae, 0x0a, 0x6a, 0xbc, 0x4e, 0x71,
                                           0xa8, 0x84, 0xa9, 0x61, 0xc5, 0x00, 0x51, 0x5f,
                                           0x58, 0xe3, 0x0b, 0x6a, 0xa5, 0x82, 0xdd, 0x8d,
                                           0xb6, 0xa6, 0x59, 0x45, 0xe0, 0x8d, 0x2d, 0x76 };

/* One message of n points: all base points except number `at`, which is `bad`. */
static void message(sefl_buf *out, uint32_t kind, size_t n, size_t at, const uint8_t *bad)
{
    buf_reset(out);
    CHECK_OK(wr_u32(out, kind));
    CHECK_OK(wr_u32(out, 0));
    CHECK_OK(wr_u64(out, n * POINT));
    for (size_t i = 0; i < n; i++)
        CHECK_OK(wr_raw(out, i == at ? bad : base_point, POINT));
}

static sefl_status send_(sefl_span in)
{
    uint8_t keys[N][2][OT_KEY];
    static const uint8_t zero[sizeof keys];
    rd r = rd_over(in);
    channel ch = { .ops = &ops, .self = &r };
    seeded g;
    seeded_init(&g, 1, "base OT");
    sefl_rng rng = seeded_rng(&g);
    memset(keys, 1, sizeof keys);
    sefl_status st = ot_base_send(&ch, keys, N, session, &rng);
    assert_true(st == SEFL_OK || memcmp(keys, zero, sizeof keys) == 0);
    return st;
}

static sefl_status receive(sefl_span in)
{
    uint8_t keys[N][OT_KEY], choice[N] = { 0, 1 };
    static const uint8_t zero[sizeof keys];
    rd r = rd_over(in);
    channel ch = { .ops = &ops, .self = &r };
    seeded g;
    seeded_init(&g, 1, "base OT");
    sefl_rng rng = seeded_rng(&g);
    memset(keys, 1, sizeof keys);
    sefl_status st = ot_base_receive(&ch, keys, choice, N, session, &rng);
    assert_true(st == SEFL_OK || memcmp(keys, zero, sizeof keys) == 0);
    return st;
}

static void no_points_are_refused(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    uint8_t bad[POINT];
    memset(bad, 0xff, sizeof bad);
    message(&b, OT_MSG_BASE_R, 2 * N, 2 * N, bad);
    CHECK_OK(send_(buf_span(&b)));
    message(&b, OT_MSG_BASE_A, N, N, bad);
    CHECK_OK(receive(buf_span(&b)));
    for (size_t at = 0; at < 2 * N; at++) {
        message(&b, OT_MSG_BASE_R, 2 * N, at, bad);
        CHECK_STATUS(send_(buf_span(&b)), SEFL_EPROTO);
    }
    for (size_t at = 0; at < N; at++) {
        message(&b, OT_MSG_BASE_A, N, at, bad);
        CHECK_STATUS(receive(buf_span(&b)), SEFL_EPROTO);
    }
    buf_clear(&b);
}

static void odd_and_unmasked_encodings_are_refused(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    uint8_t bad[POINT];
    for (int bit = 0; bit < 8 * POINT; bit += 255) { /* a negative one; one with its top bit set */
        memcpy(bad, base_point, sizeof bad);
        bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
        message(&b, OT_MSG_BASE_A, N, 1, bad);
        CHECK_STATUS(receive(buf_span(&b)), SEFL_EPROTO);
        message(&b, OT_MSG_BASE_R, 2 * N, 3, bad);
        CHECK_STATUS(send_(buf_span(&b)), SEFL_EPROTO);
    }
    buf_clear(&b);
}

static void the_neutral_element_is_refused(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    static const uint8_t neutral[POINT];
    message(&b, OT_MSG_BASE_A, N, 1, neutral);
    CHECK_STATUS(receive(buf_span(&b)), SEFL_EPROTO);
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_points_are_refused),
        cmocka_unit_test(odd_and_unmasked_encodings_are_refused),
        cmocka_unit_test(the_neutral_element_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
