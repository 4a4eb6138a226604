/* The schedule of records: every small case is enumerated, and large numbers stay exact. */
#include "support/check.h"

#include "privacy/record_turns.h"

#include <string.h>

enum { N = 24, R = 25 };

/* The rounds in which each record is used, in order. */
typedef struct uses {
    unsigned count[N];
    unsigned round[N][R];
} uses;

static void use_all(uses *u, const dp_record_turns *t, unsigned n)
{
    uint64_t next = 0;
    memset(u, 0, sizeof *u);
    for (unsigned r = 1; r <= t->rounds; r++) {
        const dp_record_places p = dp_record_round(t, n, r);
        assert_true(p.count <= t->records_max && p.count <= n);
        for (uint64_t i = 0; i < p.count; i++) {
            const uint64_t place = dp_record_place(&p, i);
            assert_int_equal(place, next); /* consecutive, so none twice in a round */
            next = (next + 1) % n;
            assert_true(u->count[place] < R);
            u->round[place][u->count[place]++] = r;
        }
    }
}

/* A window of rounds that begins and ends with a use is the shortest with so many uses. */
static void check_windows(const uses *u, const dp_record_turns *t, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        assert_true(u->count[i] <= t->turns);
        for (unsigned x = 0; x < u->count[i]; x++)
            for (unsigned y = x; y < u->count[i]; y++) {
                const unsigned first = u->round[i][x], last = u->round[i][y];
                assert_true(y - x + 1 <= dp_record_uses(t, first, last));
                assert_true(y - x + 1 <= last - first + 1);
            }
        for (unsigned x = 1; x < u->count[i]; x++)
            assert_true(u->round[i][x] - u->round[i][x - 1] >= t->rounds / t->turns);
    }
}

/* The limits are reached: k turns where records_max allows them, and what the other functions
 * say. */
static void check_sums(const uses *u, const dp_record_turns *t, unsigned n)
{
    unsigned used = 0, unused = 0, empty = 0;
    for (unsigned i = 0; i < n; i++)
        used += u->count[i], unused += u->count[i] == 0;
    for (unsigned r = 1; r <= t->rounds; r++)
        empty += dp_record_round(t, n, r).count == 0;
    assert_int_equal(unused, dp_record_unused(t, n));
    assert_int_equal(empty, dp_record_empty(t, n));
    const uint64_t most = dp_record_most(t, n);
    assert_true(most * t->rounds >= t->turns * n && (most - 1) * t->rounds < t->turns * n);
    if (t->records_max >= most)
        assert_int_equal(used, t->turns * n);
    else
        assert_true(used < t->turns * n && used >= t->rounds * (t->records_max - 1));
}

static void every_small_case(void **state)
{
    (void)state;
    uses u;
    for (unsigned n = 1; n <= N; n++)
        for (unsigned rounds = 1; rounds <= R; rounds++)
            for (unsigned k = 1; k <= rounds; k++)
                for (unsigned most = 1; most <= n + 1; most++) {
                    const dp_record_turns t = { k, rounds, most };
                    use_all(&u, &t, n);
                    check_windows(&u, &t, n);
                    check_sums(&u, &t, n);
                }
}

/* Without a limit, each round uses the next records_max records, or all of them. */
static void no_limit(void **state)
{
    (void)state;
    const dp_record_turns t = { 1000, 1000, 7 };
    for (unsigned n = 1; n <= N; n++)
        for (unsigned r = 1; r <= 1000; r++) {
            const dp_record_places p = dp_record_round(&t, n, r);
            assert_int_equal(p.count, n < 7 ? n : 7);
            assert_int_equal(p.from, n < 7 ? 0 : (r - 1) * 7 % n);
        }
    assert_int_equal(dp_record_uses(&t, 1, 1000), 1000);
    assert_int_equal(dp_record_uses(&t, 12, 12), 1);
}

/* Numbers whose products need up to 128 bits. A double would put some borders elsewhere. */
static void exact(void **state)
{
    (void)state;
    static const struct {
        dp_record_turns t;
        uint64_t n;
    } cases[] = {
        { { 38, 1440, 1000 }, 1000 },
        { { UINT32_MAX - 1, UINT32_MAX, UINT64_MAX }, UINT64_MAX },
        { { UINT32_MAX / 3, UINT32_MAX, UINT64_MAX }, UINT64_C(1) << 63 },
        { { 1, UINT32_MAX, 1 }, UINT32_MAX - 1 },
        { { 7, 4000000007, 1u << 22 }, UINT64_C(999999999999989) },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const dp_record_turns *t = &cases[c].t;
        const uint64_t n = cases[c].n, rounds = t->rounds, k = t->turns;
        const unsigned __int128 all = (unsigned __int128)k * n;
        for (unsigned i = 0; i < 4000; i++) {
            const uint64_t r = i < 2000 ? 1 + i * (rounds / 2000) : rounds - (i - 2000);
            if (r < 1 || r > rounds)
                continue;
            const dp_record_places p = dp_record_round(t, n, r);
            /* floor(r all / R) in parts: no product beyond 128 bits whatever r is */
            const unsigned __int128 from =
                (all / rounds) * (r - 1) + (all % rounds) * (r - 1) / rounds;
            const unsigned __int128 to = (all / rounds) * r + (all % rounds) * r / rounds;
            assert_true(p.from == (uint64_t)(from % n));
            assert_true(p.count == (uint64_t)(to - from));
            assert_true(dp_record_uses(t, 1, r) <= k && dp_record_uses(t, 1, r) <= r);
        }
        assert_int_equal(dp_record_uses(t, 1, rounds), k);
        assert_int_equal(dp_record_unused(t, n), 0);
    }
    /* a site that is too large, and one that is too small */
    assert_int_equal(dp_record_unused(&(dp_record_turns){ 10, 140, 68 }, 10000), 10000 - 140 * 68);
    assert_int_equal(dp_record_empty(&(dp_record_turns){ 10, 140, 68 }, 5), 140 - 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_case),
        cmocka_unit_test(no_limit),
        cmocka_unit_test(exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
