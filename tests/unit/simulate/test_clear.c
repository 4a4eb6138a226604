/* Releases in the clear: the number of threads changes no integer. */
#include "small_federation.h"

#include "model/engine/engine_ops.h"
#include "mpc/noise/online.h"
#include "privacy/mechanism/dgauss.h"
#include "seeded/seeded.h"
#include "simulate/clear.h"
#include "simulate/named_coins.h"

#include <stdlib.h>

typedef sefl_status release_fn(int64_t *out, const clear_facts *c, const int64_t *sum);

static void same_with_threads(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        release_fn *release;
    } all[] = { { "protection=cdp", clear_central },
                { "protection=sefl privacy.noise=none", clear_release },
                { "protection=sefl privacy.noise=joint", clear_release },
                { "protection=sefl privacy.noise=own", clear_release },
                { "protection=sefl privacy.noise=own crypto.scheme=paillier", clear_release } };
    pool *three;
    CHECK_OK(pool_new(&three, 3));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        small_federation f;
        char more[256];
        snprintf(more, sizeof more, "%s model.embed=32 model.hidden=32 model.block=1",
                 all[i].settings);
        small_federation_make(&f, more);
        const task *t = &f.s->task;
        assert_true(t->values > 2 * NOISE_PIECE);
        int64_t *sum = calloc(t->values, sizeof *sum), *one = calloc(t->values, sizeof *one),
                *many = calloc(t->values, sizeof *many);
        assert_true(sum && one && many);
        for (size_t k = 0; k < t->values; k++)
            sum[k] = (int64_t)(k % 7) - 3;
        clear_facts c = { .task = t, .seed = 5, .round = 2, .attempt = 1 };
        CHECK_OK(all[i].release(one, &c, sum));
        c.pool = three;
        CHECK_OK(all[i].release(many, &c, sum));
        assert_memory_equal(one, many, t->values * sizeof *one);
        if (strstr(all[i].settings, "none"))
            assert_memory_equal(one, sum, t->values * sizeof *one);
        c.round = 3;
        CHECK_OK(all[i].release(many, &c, sum));
        assert_true(strstr(all[i].settings, "none") ||
                    memcmp(one, many, t->values * sizeof *one) != 0);
        free(sum), free(one), free(many);
        small_federation_clear(&f);
    }
    pool_free(three);
    federation_key_clear(&small_key);
}

/* A trusted server's noise, piece by piece as clear.h describes it. */
static void central_pieces(void **state)
{
    (void)state;
    small_federation f;
    dgauss law;
    engine_noise noise;
    seeded coins, piece;
    small_federation_make(&f, "protection=cdp");
    const task *t = &f.s->task;
    clear_facts c = { .task = t, .seed = 9, .round = 4, .attempt = 3 };
    int64_t *zeros = calloc(t->values, sizeof *zeros), *got = calloc(t->values, sizeof *got),
            x[ENGINE_NOISE_PIECE];
    assert_true(zeros && got);
    CHECK_OK(clear_central(got, &c, zeros));
    CHECK_OK(clear_central_noise(&noise, &c));
    CHECK_OK(dgauss_for_grid(&law, &t->grid));
    assert_true(noise.num == law.num && noise.den == law.den && noise.t == law.t);
    named_coins_replay(&coins, "AS", 9, "cdp", 4, 1);
    assert_memory_equal(noise.key, coins.key, sizeof noise.key);
    for (size_t p = 0; p * ENGINE_NOISE_PIECE < t->values; p++) {
        size_t left = t->values - p * ENGINE_NOISE_PIECE,
               n = left < ENGINE_NOISE_PIECE ? left : ENGINE_NOISE_PIECE;
        seeded_piece(&piece, &coins, 1 + p);
        sefl_rng rng = seeded_rng(&piece);
        CHECK_OK(dgauss_fill_vartime(&law, x, n, &rng));
        assert_memory_equal(got + p * ENGINE_NOISE_PIECE, x, n * sizeof *x);
    }
    free(zeros), free(got);
    small_federation_clear(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_with_threads),
        cmocka_unit_test(central_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
