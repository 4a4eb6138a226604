/* Releases in the clear: the number of threads changes no integer. */
#include "small_federation.h"

#include "model/engine/engine_ops.h"
#include "mpc/noise/online.h"
#include "privacy/mechanism/dgauss.h"
#include "protocol/modes/mode.h"
#include "seeded/seeded.h"
#include "simulate/clear.h"
#include "simulate/named_coins.h"

#include <math.h>
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
                { "protection=sefl privacy.noise=own crypto.scheme=paillier", clear_release },
                { "protection=cdp privacy.filter=3000", clear_central },
                { "protection=sefl privacy.noise=joint privacy.filter=2000,500", clear_release },
                { "protection=sefl privacy.noise=own privacy.filter=3000", clear_release } };
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
        past *earlier[2];
        for (int k = 0; k < 2; k++) { /* with a filter, round 2 takes back noise of round 1 */
            CHECK_OK(past_new(&earlier[k], t));
            c.past = earlier[k], c.pool = k ? three : NULL;
            for (c.round = 1; c.round <= 2; c.round++)
                CHECK_OK(all[i].release(k ? many : one, &c, sum));
        }
        c.round = 2;
        assert_memory_equal(one, many, t->values * sizeof *one);
        if (strstr(all[i].settings, "none"))
            assert_memory_equal(one, sum, t->values * sizeof *one);
        c.round = 3;
        CHECK_OK(all[i].release(many, &c, sum));
        assert_true(strstr(all[i].settings, "none") ||
                    memcmp(one, many, t->values * sizeof *one) != 0);
        past_free(earlier[0]), past_free(earlier[1]);
        free(sum), free(one), free(many);
        small_federation_clear(&f);
    }
    pool_free(three);
    federation_key_clear(&small_key);
}

/* The released noise of round r is W_r - gamma / 4096 W_(r-1): neighbouring rounds have the
 * covariance -c and the variance 1 + c^2, of which the sum over rounds has little left. Round 4 is
 * blocked, so round 5 takes nothing back. */
static void noise_is_taken_back(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        release_fn *release;
    } all[] = { { "protection=cdp", clear_central },
                { "protection=sefl privacy.noise=own", clear_release },
                { "protection=sefl privacy.noise=joint", clear_release } };
    enum { ROUNDS = 6 };
    const double c = 3000.0 / 4096;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        small_federation f;
        char more[256];
        past *p;
        snprintf(more, sizeof more,
                 "%s privacy.filter=3000 model.embed=32 model.hidden=32 model.block=1",
                 all[i].settings);
        small_federation_make(&f, more);
        const task *t = &f.s->task;
        const double fresh = task_mode(t)->deviation(t) / task_noise_gain(t) /
                             (i == 0 ? sqrt(2) : 1); /* cdp: one server's noise */
        int64_t *sum = calloc(t->values, sizeof *sum), *w = calloc(t->values, sizeof *w);
        double *got[ROUNDS + 1];
        assert_true(sum && w);
        CHECK_OK(past_new(&p, t));
        for (unsigned r = 1; r <= ROUNDS; r++) {
            clear_facts facts = { .task = t, .seed = 7, .round = r, .attempt = 1, .past = p };
            CHECK_OK(all[i].release(w, &facts, sum));
            got[r] = calloc(t->values, sizeof **got);
            assert_true(got[r]);
            task_values(got[r], t, w, t->values);
            if (r == 4)
                past_drop(p, r);
        }
        for (unsigned r = 1; r <= ROUNDS; r++) {
            double squares = 0, cross = 0, n = (double)t->values;
            for (size_t k = 0; k < t->values; k++) {
                squares += got[r][k] * got[r][k];
                cross += r > 1 ? got[r][k] * got[r - 1][k] : 0;
            }
            squares /= n * fresh * fresh, cross /= n * fresh * fresh;
            const bool takes = r > 1 && r != 5;
            printf("%s round %u: variance %.3f, with the round before %.3f\n", all[i].settings, r,
                   squares, cross);
            assert_true(fabs(squares - (takes ? 1 + c * c : 1)) < 6 * 2.2 / sqrt(n));
            assert_true(fabs(cross + (takes ? c : 0)) < 6 * 2 / sqrt(n));
        }
        for (unsigned r = 1; r <= ROUNDS; r++)
            free(got[r]);
        past_free(p);
        free(sum), free(w);
        small_federation_clear(&f);
    }
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
        cmocka_unit_test(noise_is_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
