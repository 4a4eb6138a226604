/* AS's store in memory follows the rules of as_store.h, which test_journals.c tests on disk. */
#include "support/check.h"

#include "sum/as_memory.h"

#include <string.h>

static as_mask a_mask(uint64_t attempt, uint8_t set, uint8_t seed)
{
    as_mask m = { .attempt = attempt };
    memset(m.set, set, sizeof m.set);
    memset(m.seed, seed, sizeof m.seed);
    memset(m.coins, seed + 1, sizeof m.coins);
    return m;
}

static void reveals(void **state)
{
    (void)state;
    as_memory m = { 0 };
    as_store s = as_memory_store(&m);
    as_mask got = { 0 }, one = a_mask(5, 1, 9);
    const uint8_t reply[32] = { 1 }, other[32] = { 2 };
    int64_t w[2] = { -3, 4 }, back[2];
    bool same;
    CHECK_STATUS(as_store_masked(&s, 3, &got), SEFL_ENOTFOUND);
    CHECK_OK(as_store_mask(&s, 3, &one));
    CHECK_STATUS(as_store_mask(&s, 3, &one),
                 SEFL_ESTATE); /* the attempt number does not increase */
    one = a_mask(6, 2, 11);
    CHECK_STATUS(as_store_mask(&s, 3, &one), SEFL_ESTATE); /* another set */
    one = a_mask(6, 1, 9);
    CHECK_STATUS(as_store_mask(&s, 3, &one), SEFL_ESTATE); /* a seed comes twice */
    CHECK_OK(as_store_replied(&s, 3, 5, reply, &same));
    assert_true(same);
    CHECK_OK(as_store_replied(&s, 3, 5, reply, &same));
    assert_true(same);
    CHECK_OK(as_store_replied(&s, 3, 5, other, &same));
    assert_false(same);
    CHECK_OK(as_store_release(&s, 3, 5, w, 2));
    CHECK_OK(as_store_released(&s, 3, back, 2));
    assert_memory_equal(w, back, sizeof w);
    CHECK_STATUS(as_store_released(&s, 3, back, 1), SEFL_EPROTO);
    CHECK_OK(s.wipe(s.ctx, 3));
    CHECK_STATUS(as_store_masked(&s, 3, &got), SEFL_ENOTFOUND);
    CHECK_STATUS(as_store_released(&s, 3, back, 2), SEFL_ENOTFOUND);
    as_memory_clear(&m);
}

/* Without shares AS's noise comes from the coins: they are drawn once a round and stay the same in
 * every attempt. With shares they are new in every attempt. */
static void noise_once_a_round(void **state)
{
    (void)state;
    as_memory m = { 0 };
    as_store s = as_memory_store(&m);
    const sefl_coins coins = coins_system();
    uint8_t first[NOISE_COINS], again[NOISE_COINS];
    as_mask one = a_mask(1, 1, 9), two = a_mask(2, 1, 20);
    CHECK_OK(as_store_coins(&s, 3, NULL, &coins, first));
    CHECK_OK(as_store_coins(&s, 3, NULL, &coins, again));
    assert_memory_not_equal(first, again, sizeof first); /* nothing is stored: nothing was sent */
    memcpy(one.coins, first, sizeof first);
    CHECK_OK(as_store_mask(&s, 3, &one));
    CHECK_OK(as_store_coins(&s, 3, NULL, &coins, again));
    assert_memory_equal(first, again, sizeof first);
    CHECK_STATUS(as_store_mask(&s, 3, &two), SEFL_ESTATE); /* a second noise */
    memcpy(two.coins, first, sizeof first);
    CHECK_OK(as_store_mask(&s, 3, &two));
    CHECK_OK(s.wipe(s.ctx, 3));
    CHECK_OK(as_store_coins(&s, 3, NULL, &coins, again)); /* wiped with the round */
    assert_memory_not_equal(first, again, sizeof first);
    one.slice[0] = 1, two.slice[0] = 2;
    CHECK_OK(as_store_mask(&s, 4, &one));
    CHECK_STATUS(as_store_mask(&s, 4, &two), SEFL_ESTATE);
    two.coins[0] ^= 1;
    CHECK_OK(as_store_mask(&s, 4, &two));
    as_memory_clear(&m);
}

static void verdicts(void **state)
{
    (void)state;
    as_memory m = { 0 };
    as_store s = as_memory_store(&m);
    head_refusal refused[2] = { { .index = 1, .reason = 3 }, { .index = 4, .reason = 1 } };
    as_verdict v = { .kept = 3, .refused_n = 2, .refused = refused }, got;
    bool is_new;
    CHECK_STATUS(as_store_verdict_get(&s, 2, &got), SEFL_ENOTFOUND);
    CHECK_OK(as_store_verdict(&s, 2, &v, &is_new));
    assert_true(is_new);
    CHECK_OK(as_store_verdict(&s, 2, &v, &is_new));
    assert_false(is_new);
    v.kept = 4; /* CSP may not change its verdict */
    CHECK_STATUS(as_store_verdict(&s, 2, &v, &is_new), SEFL_ECRYPTO);
    CHECK_OK(as_store_verdict_get(&s, 2, &got));
    assert_int_equal(got.kept, 3);
    assert_int_equal(got.refused_n, 2);
    for (int i = 0; i < 2; i++)
        assert_true(got.refused[i].index == refused[i].index &&
                    got.refused[i].reason == refused[i].reason);
    as_verdict_clear(&got);
    as_memory_clear(&m);
}

static void whole_task(void **state)
{
    (void)state;
    as_memory m = { 0 };
    as_store s = as_memory_store(&m);
    const uint8_t init[SHA256_BYTES] = { 7 };
    agg_memory want = { .phase = AGG_REVEALING,
                        .round = 4,
                        .attempt = 2,
                        .clients = 9,
                        .best_perplexity = 1.5 },
               got;
    release_from model, of = { .round = 3, .hash = { 8 } };
    release_signals signals = { .n = 1, .round = { 3 }, .signal = { 0.25 } }, read;
    as_row row = { .round = 4, .clients = 9 }, there;
    CHECK_STATUS(as_store_memory(&s, &got), SEFL_ENOTFOUND);
    CHECK_OK(as_store_model(&s, &model, init));
    assert_true(model.round == 0 && model.hash[0] == 7);
    CHECK_OK(as_store_step(&s, &row, &want, &of));
    CHECK_OK(as_store_memory(&s, &got));
    assert_true(got.phase == want.phase && got.round == 4 && got.attempt == 2 && got.clients == 9 &&
                got.best_perplexity == 1.5);
    CHECK_OK(as_store_model(&s, &model, init));
    assert_true(model.round == 3 && model.hash[0] == 8);
    CHECK_OK(s.row_get(s.ctx, 4, &there));
    assert_int_equal(there.clients, 9);
    CHECK_STATUS(s.row_get(s.ctx, 3, &there), SEFL_ENOTFOUND);
    CHECK_OK(as_store_signals(&s, &read));
    assert_int_equal(read.n, 0);
    CHECK_OK(as_store_signals_put(&s, &signals));
    CHECK_OK(as_store_signals(&s, &read));
    assert_true(read.n == 1 && read.round[0] == 3 && read.signal[0] == 0.25);
    as_memory_clear(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reveals),
        cmocka_unit_test(noise_once_a_round),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(whole_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
