/* Messages that are spoiled on the way, and every operation that can fail. */
#include "noise_pair.h"

static uint64_t zeros[4096];

static pair_run small(int32_t *w)
{
    pair_run r = { .seed = 5, .mask = zeros, .masked = zeros, .w = w };
    r.p = (noise_params){ .count = 200, .k = 16, .t = 12, .g = 16, .chunk = 128, .ot_k = 4 };
    return r;
}

static void spoiled_messages_are_found(void **state)
{
    (void)state;
    static const tamper kinds[] = { DROP, REPEAT, SWAP, CUT, FLIP };
    int32_t want[200], w[200];
    pair_run honest = small(want);
    uint64_t messages[2];
    seeded gen;
    unsigned harmless = 0, found = 0, late = 0;
    test_seed(&gen, "tamper");
    CHECK_OK(pair_go(&honest));
    /* AS: hello, key, base OT, 2 x (seed, tables), begin, 2 x tables
     * CSP: hello, base OT, trees, 2 x (corrections, answer), begin, 2 x correction bits, output */
    messages[0] = 1 + 1 + 1 + 2 * 2 + 1 + 2;
    messages[1] = 1 + 1 + 1 + 2 * 2 + 1 + 2 + 1;
    for (int side = 0; side < 2; side++)
        assert_int_equal(honest.messages[side], messages[side]);
    for (int side = 0; side < 2; side++)
        for (uint64_t at = 0; at < messages[side]; at++)
            for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
                for (unsigned trial = 0; trial < (kinds[i] == FLIP ? 2 : 1); trial++) {
                    /* quick: a bit of every body, and one in eleven of the rest */
                    bool body = kinds[i] == FLIP && trial == 0;
                    if (!body && (at + i + trial) % test_count(11, 1) != 0)
                        continue;
                    pair_run r = small(w);
                    memset(w, 0x55, sizeof w);
                    /* a flipped bit makes nobody wait; a missing message does */
                    r.timeout_ms = kinds[i] == FLIP ? 5000 : 400;
                    r.wire[side].what = kinds[i];
                    r.wire[side].at = at;
                    /* the body if there is one, the frame in the second trial */
                    r.wire[side].bit = trial ? seeded_below(&gen, 8 * MSG_HEADER)
                                             : 8 * MSG_HEADER + seeded_below(&gen, 1 << 17);
                    sefl_status st = pair_go(&r);
                    if (!r.wire[side].hit) { /* a slow machine: timed out before */
                        assert_int_not_equal(st, SEFL_OK);
                        late++;
                        continue;
                    }
                    if (st == SEFL_OK && kinds[i] == REPEAT &&
                        at + 1 == messages[side]) /* nobody reads behind the last one */
                        continue;
                    if (r.st[0] == SEFL_OK) { /* a result is right, or there is none */
                        assert_true(kinds[i] == FLIP || kinds[i] == REPEAT);
                        assert_memory_equal(w, want, sizeof w);
                        harmless++;
                        continue;
                    }
                    found++;
                    for (int s = 0; s < 2; s++) /* a broken attempt is wiped */
                        if (r.st[s] != SEFL_OK &&
                            (strcmp(r.step[s], "output") != 0 || r.st[s] == SEFL_ECRYPTO))
                            assert_int_equal(r.holds[s], 0);
                    sefl_status first = r.st[0];
                    if (first != SEFL_EPROTO && first != SEFL_ECRYPTO && first != SEFL_ECLOSED &&
                        first != SEFL_ETIMEOUT)
                        fail_msg("%s", sefl_status_name(first));
                    if (strcmp(r.step[0], "output") == 0)
                        for (size_t j = 0; j < 200; j++)
                            assert_int_equal(w[j], 0);
                }
    printf("%u spoiled runs ended with a status, %u had no effect\n", found, harmless);
    assert_true(harmless < found / 4 && late < found / 2);
}

static void flipped_outputs_are_found(void **state)
{
    (void)state;
    int32_t w[200];
    for (size_t bit = 0; bit < 8 * (512 + 32); bit += test_count(607, 61)) {
        pair_run r = small(w);
        r.wire[1] = (wire){ .what = FLIP, .at = 10, .bit = 8 * (MSG_HEADER + NOISE_ID) + bit };
        CHECK_STATUS(pair_go(&r), SEFL_ECRYPTO);
        assert_string_equal(r.step[0], "output");
        assert_non_null(strstr(r.said[0], "digest is wrong"));
    }
}

#if SEFL_FAULTS
static sefl_status with_store(const char *dir)
{
    int32_t w[200];
    pair_run r = small(w);
    r.p.store_dir = dir;
    sefl_status st = pair_go(&r);
    if (st == SEFL_OK)
        st = r.st[1];
    return st;
}

/* Every n-th operation fails; quick runs take every 47th n. */
static void faults_are_seen(void **state)
{
    (void)state;
    static const fault_kind kinds[] = { FAULT_SEND,  FAULT_RECV, FAULT_ALLOC,
                                        FAULT_WRITE, FAULT_READ, FAULT_RANDOM };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (uint64_t nth = 1;; nth += test_count(47, 1)) {
            fault_arm(kinds[i], nth);
            sefl_status st = with_store("/tmp");
            bool hit = fault_was_hit();
            fault_disarm();
            if (!hit) {
                CHECK_OK(st);
                break;
            }
            if (st == SEFL_OK)
                fail_msg("fault %d of kind %d was swallowed", (int)nth, (int)kinds[i]);
        }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spoiled_messages_are_found),
        cmocka_unit_test(flipped_outputs_are_found),
#if SEFL_FAULTS
        cmocka_unit_test(faults_are_seen),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
