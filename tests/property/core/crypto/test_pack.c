/* Random settings over all their ranges: refused, or no sum can wrap, the norm test leaves room for
 * the clip, and the widths are the smallest that suffice. */
#include "crypto/ahe/pack.h"

#include "support/check.h"

#include <math.h>

typedef unsigned __int128 u128;

static uint64_t log_uniform(seeded *g, double lo, double hi)
{
    return (uint64_t)(lo * exp(seeded_unit(g) * log(hi / lo)));
}

/* sum X_i^2 <= S2 allows |X_i| up to sqrt(S2) and value_max never says less without a clip */
static void check_noise(const pack *p, const pack_config *c)
{
    u128 sum = (u128)c->clients * (uint64_t)p->value_max;
    u128 room = (((u128)1 << (p->k - 1)) - 128) << p->t;
    uint64_t v = (uint64_t)p->value_max;
    assert_true(sum < room);
    assert_true(sum < (u128)1 << (p->w - 1));
    assert_true((u128)v * v <= p->s2);
    assert_true(p->k >= PACK_K_MIN && p->k <= PACK_K_MAX);
    if (c->coordinate_clip == PACK_ONE)
        assert_true((u128)(v + 1) * (v + 1) > p->s2);
    if (c->coordinate_clip > 0 && c->k == 0 && p->k > PACK_K_MIN)
        assert_true(sum >= (((u128)1 << (p->k - 2)) - 128) << p->t); /* one bit less wraps */
    if (c->coordinate_clip == 0)
        assert_true((double)v >= 0.1699 * sqrt((double)p->s2) - 1);

    /* S2 is the floor: S2 z^2 <= (9.43919 2^t)^2 < (S2 + 1) z^2, all in integers */
    u128 n = (u128)9439190000u << p->t, zz = (u128)c->noise * c->noise;
    assert_true((u128)p->s2 <= n * n / zz && (u128)(p->s2 + 1) > n * n / zz);

    double R = (double)p->r_2p16 / 65536, d = (double)c->dimension, s2 = (double)p->s2;
    double lhs = R * R + 5.27 * R + d / 4 + 2.64 * sqrt(d);
    assert_true(lhs <= s2 * (1 + 1e-12) && lhs >= s2 - (2 * R + 6) / 65536 - 1 - s2 * 1e-12);
    if (c->scheme == PACK_PAILLIER)
        assert_true(sqrt(d) * ldexp(1, -(int)p->g) <= 1.0001e-5 * sqrt(s2));
}

static void check_plain(const pack *p, const pack_config *c)
{
    u128 sum = (u128)c->clients * (uint64_t)p->value_max;
    assert_true(sum < (u128)1 << (p->w - 1));
    assert_true(p->w <= 2 || sum >= (u128)1 << (p->w - 2)); /* one bit less wraps */
    assert_true(p->t == 0 && p->k == p->w);
    assert_true(p->q * (double)p->value_max == (double)c->clip / (double)PACK_ONE);
}

static void test_no_sum_wraps(void **state)
{
    seeded g;
    unsigned long made = 0, n = test_count(20000, 2000000);
    (void)state;
    test_seed(&g, "pack");
    for (unsigned long i = 0; i < n; i++) {
        pack p;
        pack_config c = {
            .scheme = seeded_below(&g, 2) ? PACK_PAD : PACK_PAILLIER,
            .clients = (uint32_t)log_uniform(&g, 1, 4e6),
            .dimension = log_uniform(&g, 1, 1e9),
            .clip = log_uniform(&g, 1, 9e15),
            .noise = seeded_below(&g, 4) ? log_uniform(&g, 1e6, 1e12) : 0,
        };
        if (c.noise > 0 && seeded_below(&g, 2))
            c.coordinate_clip = seeded_below(&g, 4) ? log_uniform(&g, 1e7, 1e9) : PACK_ONE;
        if (c.noise > 0 && seeded_below(&g, 4) == 0)
            c.k = 12 + (unsigned)seeded_below(&g, 13);
        sefl_status st = pack_init(&p, &c);
        if (st != SEFL_OK) {
            assert_true(st == SEFL_ERANGE || st == SEFL_EINVAL);
            assert_int_equal(p.w, 0);
            continue;
        }
        made++;
        assert_true(c.k == 0 || p.k == c.k);
        assert_true(p.w + p.g <= 64 && p.w <= PACK_W_MAX);
        CHECK_OK(pack_check(&p));
        if (c.noise)
            check_noise(&p, &c);
        else
            check_plain(&p, &c);
    }
    assert_true(made > n / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_no_sum_wraps) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
