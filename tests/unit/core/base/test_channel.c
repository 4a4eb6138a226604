#include "support/check.h"

#include "base/alloc.h"
#include "base/channel.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BIG = 5 << 20 };

static void *echo(void *arg)
{
    channel *ch = arg;
    uint8_t *p = malloc(BIG);
    assert_non_null(p);
    sefl_status st = channel_recv(ch, p, BIG);
    if (st == SEFL_OK)
        st = channel_send(ch, p, BIG);
    free(p);
    return (void *)(intptr_t)st;
}

static void carries_bytes_both_ways(void **state)
{
    (void)state;
    channel a, b;
    pthread_t t;
    void *peer;
    seeded g;
    uint8_t *p = malloc(BIG), *q = malloc(BIG);
    test_seed(&g, "channel");
    seeded_fill(&g, p, BIG);
    CHECK_OK(channel_pair_new(&a, &b, 5000));
    assert_int_equal(pthread_create(&t, NULL, echo, &b), 0);
    for (size_t at = 0; at < BIG; at += 1000)
        CHECK_OK(channel_send(&a, p + at, BIG - at < 1000 ? BIG - at : 1000));
    CHECK_OK(channel_recv(&a, q, BIG));
    pthread_join(t, &peer);
    assert_int_equal((intptr_t)peer, SEFL_OK);
    assert_memory_equal(p, q, BIG);
    assert_int_equal(a.sent, BIG);
    assert_int_equal(a.received, BIG);
    assert_int_equal(a.turns, 1);
    channel_pair_close(&a);
    channel_pair_close(&b);
    free(p);
    free(q);
}

static void silence_and_closing_end_a_wait(void **state)
{
    (void)state;
    channel a, b;
    uint8_t x[4] = { 1, 2, 3, 4 };
    CHECK_OK(channel_pair_new(&a, &b, 10));
    CHECK_STATUS(channel_recv(&a, x, 4), SEFL_ETIMEOUT);
    assert_int_equal(x[0] | x[3], 0);
    CHECK_STATUS(channel_send(&a, x, 4), SEFL_ECLOSED); /* dead after the failure */
    channel_pair_close(&a);
    CHECK_STATUS(channel_recv(&b, x, 1), SEFL_ECLOSED);
    channel_pair_close(&b);

    CHECK_OK(channel_pair_new(&a, &b, 1000));
    CHECK_OK(channel_send(&a, "xy", 2));
    channel_pair_close(&a);
    CHECK_OK(channel_recv(&b, x, 2)); /* what was sent still arrives */
    CHECK_STATUS(channel_recv(&b, x, 1), SEFL_ECLOSED);
    channel_pair_close(&b);
}

static void frames_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        uint32_t kind, index;
        uint64_t n;
        const char *says;
    } bad[] = { { 8, 3, 5, "kind 8, expected 7" },
                { 7, 2, 5, "number 2, expected 3" },
                { 7, 4, 5, "number 4, expected 3" },
                { 7, 3, UINT64_MAX, "18446744073709551615 bytes, expected 5" } };
    uint8_t body[5];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        channel a, b;
        CHECK_OK(channel_pair_new(&a, &b, 1000));
        CHECK_OK(msg_begin(&a, bad[i].kind, bad[i].index, bad[i].n));
        CHECK_OK(channel_send(&a, "hello", 5));
        CHECK_STATUS(msg_recv(&b, 7, 3, body, 5, "greeting"), SEFL_EPROTO);
        assert_non_null(strstr(sefl_last_error(), bad[i].says));
        CHECK_STATUS(channel_recv(&b, body, 5), SEFL_ECLOSED);
        channel_pair_close(&a);
        channel_pair_close(&b);
    }
    channel a, b;
    CHECK_OK(channel_pair_new(&a, &b, 1000));
    CHECK_OK(msg_send(&a, 7, 3, "hello", 5));
    CHECK_OK(msg_recv(&b, 7, 3, body, 5, "greeting"));
    assert_memory_equal(body, "hello", 5);
    channel_pair_close(&a);
    channel_pair_close(&b);
}

static sefl_status there_and_back(void)
{
    channel a, b;
    uint8_t body[5];
    sefl_status st = channel_pair_new(&a, &b, 1000);
    if (st != SEFL_OK)
        return st;
    SEFL_TRY(msg_send(&a, 1, 0, "hello", 5));
    SEFL_TRY(msg_recv(&b, 1, 0, body, 5, "greeting"));
done:
    channel_pair_close(&a);
    channel_pair_close(&b);
    return st;
}

static void faults_are_seen(void **state)
{
    (void)state;
    TEST_FAULTS(FAULT_SEND, st = there_and_back(), (void)0);
    TEST_FAULTS(FAULT_RECV, st = there_and_back(), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = there_and_back(), (void)0);
}

/* Both send more than the buffer holds: neither blocks the other. */
static void *floods(void *arg)
{
    channel *ch = arg;
    uint8_t *p = calloc(BIG, 1);
    assert_non_null(p);
    sefl_status st = channel_send(ch, p, BIG);
    if (st == SEFL_OK)
        st = channel_recv(ch, p, BIG);
    free(p);
    return (void *)(intptr_t)st;
}

static void room_is_what_was_asked_for(void **state)
{
    (void)state;
    enum { ROOM = 1 << 16 };
    channel a, b;
    pthread_t t;
    void *peer;
    uint8_t *p = calloc(BIG, 1);
    size_t before = sefl_heap_live();
    CHECK_OK(channel_pair_new(&a, &b, 5000));
    CHECK_OK(channel_pair_limit(&a, ROOM));
    sefl_heap_mark();
    assert_int_equal(pthread_create(&t, NULL, echo, &b), 0);
    CHECK_OK(
        channel_send(&a, p, BIG)); /* eighty times the buffer: the sender waits for the reader */
    CHECK_OK(channel_recv(&a, p, BIG));
    pthread_join(t, &peer);
    assert_int_equal((intptr_t)peer, SEFL_OK);
    assert_true(sefl_heap_peak() - before < 3 * ROOM);
    assert_int_equal(pthread_create(&t, NULL, floods, &b), 0);
    assert_int_equal((intptr_t)floods(&a), SEFL_OK);
    pthread_join(t, &peer);
    assert_int_equal((intptr_t)peer, SEFL_OK);
    channel_pair_close(&a);
    channel_pair_close(&b);
    assert_int_equal(sefl_heap_live(), before);
    CHECK_OK(channel_pair_new(&a, &b, 20)); /* no reader */
    CHECK_OK(channel_pair_limit(&b, ROOM));
    CHECK_STATUS(channel_send(&a, p, 2 * ROOM), SEFL_ETIMEOUT);
    channel_pair_close(&a);
    channel_pair_close(&b);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carries_bytes_both_ways),
        cmocka_unit_test(silence_and_closing_end_a_wait),
        cmocka_unit_test(frames_say_what_is_wrong),
        cmocka_unit_test(faults_are_seen),
        cmocka_unit_test(room_is_what_was_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
