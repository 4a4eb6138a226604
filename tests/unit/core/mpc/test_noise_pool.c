/* The pool of noise shares: every value comes out once, in the order of the slice, and is erased; a
 * skipped value never comes back. */
#include "support/check.h"

#include "mpc/noise/shares_plain.h"
#include "mpc/noise/shares_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static uint64_t value(unsigned session, uint64_t i)
{
    return (0x9e3779b97f4a7c15u * (session * 1000003u + i + 1)) >> 24;
}

static void add(shares_pool *p, unsigned session, size_t n, unsigned bits)
{
    uint8_t id[SHARES_ID] = { (uint8_t)session, (uint8_t)(session >> 8), 7 };
    uint64_t *x = malloc(n * sizeof *x), ring = ((uint64_t)1 << bits) - 1;
    for (size_t i = 0; i < n; i++)
        x[i] = value(session, i) & ring;
    CHECK_OK(shares_pool_add(p, id, x, n, bits));
    for (size_t i = 0; i < n; i++)
        assert_int_equal(x[i], 0);
    free(x);
}

static shares_slice one(unsigned session, uint64_t first, uint64_t count)
{
    shares_slice s = { .n = 1 };
    s.part[0].id[0] = (uint8_t)session, s.part[0].id[1] = (uint8_t)(session >> 8),
    s.part[0].id[2] = 7;
    s.part[0].first = first, s.part[0].count = count;
    return s;
}

static void check_values(const shares_slice *s, const uint8_t *x, unsigned bytes)
{
    for (uint32_t i = 0; i < s->n; i++)
        for (uint64_t j = 0; j < s->part[i].count; j++, x += bytes) {
            unsigned session = s->part[i].id[0] | (unsigned)s->part[i].id[1] << 8;
            uint64_t want = value(session, s->part[i].first + j);
            for (unsigned b = 0; b < bytes; b++)
                assert_int_equal(x[b], (uint8_t)(want >> (8 * b)));
        }
}

static shares_pool *pool_of(uint64_t max)
{
    static const sefl_rng *rng;
    static sefl_rng system_rng;
    shares_pool *p;
    system_rng = rng_system(), rng = &system_rng;
    CHECK_OK(shares_pool_new(&p, max, rng));
    return p;
}

static void picked_and_taken(void **state)
{
    (void)state;
    shares_pool *p = pool_of(0);
    shares_slice s, t;
    uint8_t x[5 * 400];
    CHECK_STATUS(shares_pool_pick(p, &s, 1), SEFL_ENOTFOUND);
    add(p, 1, 100, 32);
    add(p, 2, 200, 40);
    assert_int_equal(shares_pool_have(p), 300);
    CHECK_STATUS(shares_pool_pick(p, &s, 301), SEFL_ENOTFOUND);
    CHECK_STATUS(shares_pool_pick(p, &s, 0), SEFL_ENOTFOUND);
    CHECK_OK(shares_pool_pick(p, &s, 150)); /* the oldest first, over the border */
    assert_int_equal(s.n, 2);
    assert_int_equal(s.part[1].first, 0);
    assert_int_equal(s.part[1].count, 50);
    assert_int_equal(shares_slice_count(&s), 150);
    assert_int_equal(shares_pool_have(p), 150);
    CHECK_OK(shares_pool_pick(p, &t, 100)); /* no value twice */
    assert_int_equal(t.n, 1);
    assert_int_equal(t.part[0].first, 50);
    CHECK_STATUS(shares_pool_take(p, &s, x, 5), SEFL_EINVAL); /* session 1 has 4 bytes */
    CHECK_OK(shares_pool_take(p, &s, x, 3));
    check_values(&s, x, 3);
    CHECK_STATUS(shares_pool_take(p, &s, x, 3), SEFL_ENOTFOUND);
    CHECK_OK(shares_pool_take(p, &t, x, 5));
    check_values(&t, x, 5);
    CHECK_STATUS(shares_pool_take(p, &t, x, 5), SEFL_ENOTFOUND);
    assert_int_equal(shares_pool_have(p), 50);
    shares_pool_clear(p);
    assert_int_equal(shares_pool_have(p), 0);
    CHECK_STATUS(shares_pool_pick(p, &s, 1), SEFL_ENOTFOUND);
    shares_pool_free(p);
    shares_pool_free(NULL);
}

/* The cursor: values that a slice skips are gone for every later request. */
static void cursor_passes(void **state)
{
    (void)state;
    shares_pool *p = pool_of(0);
    uint8_t x[4 * 100], none[4 * 100];
    shares_slice s = one(1, 60, 20), before[] = { one(1, 0, 60), one(1, 59, 1), one(1, 79, 1) };
    memset(none, 0x55, sizeof none);
    add(p, 1, 100, 32);
    CHECK_OK(shares_pool_take(p, &s, x, 4));
    check_values(&s, x, 4);
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        memset(x, 0x55, sizeof x);
        CHECK_STATUS(shares_pool_take(p, &before[i], x, 4), SEFL_ENOTFOUND);
        assert_memory_equal(x, none, sizeof x); /* nothing came out */
    }
    assert_int_equal(shares_pool_have(p), 20);
    /* all or nothing: a valid part before a missing one stays */
    s = one(1, 80, 10);
    s.n = 2;
    s.part[1].id[0] = 9, s.part[1].count = 1;
    CHECK_STATUS(shares_pool_take(p, &s, x, 4), SEFL_ENOTFOUND);
    s.n = 1;
    CHECK_OK(shares_pool_take(p, &s, x, 4));
    shares_pool_free(p);
}

static void bad_slices(void **state)
{
    (void)state;
    shares_pool *p = pool_of(0);
    uint8_t x[4 * 100];
    add(p, 1, 100, 32);
    const shares_slice bad[] = { one(1, 0, 101),        one(1, 100, 1), one(1, UINT64_MAX, 1),
                                 one(1, 1, UINT64_MAX), one(1, 5, 0),   one(2, 0, 1) };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_STATUS(shares_pool_take(p, &bad[i], x, 4), SEFL_ENOTFOUND);
    shares_slice s = one(1, 0, 10);
    s.n = 2; /* one value twice in one slice, then in the wrong order */
    s.part[1] = s.part[0];
    s.part[1].first = 9;
    CHECK_STATUS(shares_pool_take(p, &s, x, 4), SEFL_ENOTFOUND);
    s.part[0].first = 20, s.part[1].first = 0;
    CHECK_STATUS(shares_pool_take(p, &s, x, 4), SEFL_ENOTFOUND);
    s.n = 0;
    CHECK_STATUS(shares_pool_take(p, &s, x, 4), SEFL_EINVAL);
    s.n = SLICE_PARTS_MAX + 1;
    CHECK_STATUS(shares_pool_take(p, &s, x, 4), SEFL_EINVAL);
    assert_int_equal(shares_pool_have(p), 100);
    s.n = 2; /* two parts of one session, in order */
    s.part[0].first = 0, s.part[1].first = 50;
    CHECK_OK(shares_pool_take(p, &s, x, 4));
    check_values(&s, x, 4);
    shares_pool_drop(p, &s);
    assert_int_equal(shares_pool_have(p), 0);
    shares_pool_free(p);
}

static void adding(void **state)
{
    (void)state;
    shares_pool *p = pool_of(250);
    uint8_t id[SHARES_ID] = { 1, 0, 7 };
    uint64_t x[300] = { 5, 6 };
    shares_slice s;
    add(p, 1, 100, 32);
    CHECK_STATUS(shares_pool_add(p, id, x, 2, 32), SEFL_ESTATE); /* the same session again */
    assert_int_equal(x[0] | x[1], 0);                            /* wiped in any case */
    id[0] = 2;
    CHECK_STATUS(shares_pool_add(p, id, x, 0, 32), SEFL_EINVAL);
    CHECK_STATUS(shares_pool_add(p, id, x, 2, 33), SEFL_EINVAL);
    CHECK_STATUS(shares_pool_add(p, id, x, 251, 32), SEFL_EINVAL);
    add(p, 2, 100, 32);
    add(p, 3, 100, 32); /* over the limit: the oldest go */
    assert_int_equal(shares_pool_have(p), 200);
    CHECK_OK(shares_pool_pick(p, &s, 1));
    assert_int_equal(s.part[0].id[0], 2);
    shares_pool_free(p);
    /* more sessions than a slice may name: the oldest go */
    p = pool_of(0);
    for (unsigned i = 0; i < SLICE_PARTS_MAX + 6; i++)
        add(p, i, 1 + i, 32);
    uint64_t most = 0;
    for (unsigned i = 6; i < SLICE_PARTS_MAX + 6; i++)
        most += 1 + i;
    CHECK_OK(shares_pool_pick(p, &s, most));
    assert_int_equal(s.n, SLICE_PARTS_MAX);
    assert_int_equal(s.part[0].id[0], 6);
    assert_int_equal(shares_pool_have(p), 0);
    shares_pool_free(p);
}

static void slices_travel(void **state)
{
    (void)state;
    shares_slice s = one(3, 5, 7), t;
    uint8_t b[SLICE_BYTES_MAX], h[32], g[32];
    rd r;
    for (unsigned n = 1; n <= SLICE_PARTS_MAX; n++)
        s.part[n - 1] = one(n, n, SHARES_COUNT_MAX - n).part[0];
    for (uint32_t n = 0; n <= SLICE_PARTS_MAX; n++) {
        s.n = n;
        size_t bytes = shares_slice_write(b, &s);
        assert_int_equal(bytes, 4 + n * SLICE_PART);
        r = rd_over(span_of(b, bytes));
        CHECK_OK(shares_slice_read(&r, &t));
        CHECK_OK(rd_end(&r));
        assert_int_equal(t.n, n);
        assert_memory_equal(t.part, s.part, n * sizeof s.part[0]);
        shares_slice_hash(h, &s);
        sha256_of(g, span_of(b, bytes));
        assert_memory_equal(h, g, 32);
        for (size_t cut = 0; cut < bytes; cut += 1 + cut / 3) {
            r = rd_over(span_of(b, cut));
            CHECK_STATUS(shares_slice_read(&r, &t), SEFL_EPROTO);
        }
    }
    store_u32(b, SLICE_PARTS_MAX + 1);
    r = rd_over(span_of(b, sizeof b));
    CHECK_STATUS(shares_slice_read(&r, &t), SEFL_EPROTO);
    static const uint64_t bad[][2] = { { 0, 0 },
                                       { 0, SHARES_COUNT_MAX + 1ULL },
                                       { SHARES_COUNT_MAX, 1 },
                                       { UINT64_MAX, 1 },
                                       { 1, UINT64_MAX } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        s = one(1, bad[i][0], bad[i][1]);
        r = rd_over(span_of(b, shares_slice_write(b, &s)));
        CHECK_STATUS(shares_slice_read(&r, &t), SEFL_EPROTO);
        assert_int_equal(t.n, 0);
    }
}

/* Two producers, two consumers: no value twice, none lost. */
enum { SESSIONS = 40, EACH = 500, PIECE = 130 };

typedef struct shared {
    shares_pool *pool;
    uint8_t seen[2 * SESSIONS][EACH];
    pthread_mutex_t lock;
} shared;

typedef struct worker {
    shared *s;
    unsigned n;
} worker;

static void *producer(void *arg)
{
    worker *w = arg;
    for (unsigned i = 0; i < SESSIONS; i++)
        add(w->s->pool, w->n * SESSIONS + i, EACH, 32);
    return NULL;
}

static void *taker(void *arg)
{
    shared *s = ((worker *)arg)->s;
    uint8_t x[4 * PIECE];
    shares_slice sl;
    for (unsigned idle = 0; idle < 2000;) {
        if (shares_pool_pick(s->pool, &sl, PIECE) != SEFL_OK) {
            struct timespec t = { .tv_nsec = 100000 };
            nanosleep(&t, NULL);
            idle++;
            continue;
        }
        pthread_mutex_lock(&s->lock); /* slices of one session are taken in the order of picking */
        sefl_status st = shares_pool_take(s->pool, &sl, x, 4);
        if (st == SEFL_OK) {
            check_values(&sl, x, 4);
            for (uint32_t i = 0; i < sl.n; i++)
                for (uint64_t j = 0; j < sl.part[i].count; j++)
                    s->seen[sl.part[i].id[0]][sl.part[i].first + j]++;
        }
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

static void threads(void **state)
{
    (void)state;
    static shared s;
    pthread_t t[4];
    worker w[4];
    size_t used = 0;
    memset(&s, 0, sizeof s);
    pthread_mutex_init(&s.lock, NULL);
    s.pool = pool_of(0);
    for (unsigned i = 0; i < 4; i++) {
        w[i] = (worker){ &s, i };
        assert_int_equal(pthread_create(&t[i], NULL, i < 2 ? producer : taker, &w[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    for (unsigned i = 0; i < 2 * SESSIONS; i++)
        for (unsigned j = 0; j < EACH; j++) {
            assert_true(s.seen[i][j] <= 1);
            used += s.seen[i][j];
        }
    assert_true(used >
                SESSIONS * EACH); /* a slice that was overtaken between pick and take is lost */
    assert_true(shares_pool_have(s.pool) < PIECE);
    shares_pool_free(s.pool);
    pthread_mutex_destroy(&s.lock);
}

/* Both sides in one process: the values taken add up to the noise. */
static void filled_by_a_pair(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "pool");
    sefl_rng rng = seeded_rng(&gen);
    shares_pool *as, *csp;
    shares_slice s;
    uint8_t a[2 * 3000], c[2 * 3000];
    CHECK_OK(shares_pool_new(&as, 0, &rng));
    CHECK_OK(shares_pool_new(&csp, 0, &rng));
    sefl_rng sys = rng_system();
    CHECK_OK(shares_fill_pair(as, csp, 2000, &sys, &sys));
    CHECK_OK(shares_fill_pair(as, csp, 1500, &sys, &sys));
    CHECK_OK(shares_pool_pick(as, &s, 3000));
    CHECK_OK(shares_pool_take(as, &s, a, 2));
    CHECK_OK(shares_pool_take(csp, &s, c, 2));
    for (size_t i = 0; i < 3000; i++) { /* shares of the noise: 0 to 123 */
        uint16_t x = (uint16_t)((a[2 * i] | a[2 * i + 1] << 8) + (c[2 * i] | c[2 * i + 1] << 8));
        assert_true(x < 124);
    }
    assert_int_equal(shares_pool_have(as), 500);
    assert_int_equal(shares_pool_have(csp), 500);
    CHECK_OK(shares_fill_pair(as, csp, 0, &sys, &sys));
    shares_pool_free(as);
    shares_pool_free(csp);
}

/* The same coins in the clear: the same noise, at every size, session after session. */
static void plain_is_the_sum(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1, 16, 127, 128, 129, 511, 512, 513, 2000, 2049, 20000 };
    seeded g[2][2];
    sefl_rng rng[2][2], keys = rng_system();
    shares_pool *as, *csp;
    pool *threads;
    CHECK_OK(pool_new(&threads, 3));
    for (int i = 0; i < 4; i++) {
        seeded_init(&g[i / 2][i % 2], 5, i % 2 ? "CSP" : "AS");
        rng[i / 2][i % 2] = seeded_rng(&g[i / 2][i % 2]);
    }
    CHECK_OK(shares_pool_new(&as, 0, &keys));
    CHECK_OK(shares_pool_new(&csp, 0, &keys));
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        enum { BYTES = 3 };
        size_t n = sizes[s];
        uint8_t *x[3];
        shares_slice slice;
        for (int i = 0; i < 3; i++)
            x[i] = calloc(n, BYTES);
        CHECK_OK(shares_fill_pair(as, csp, n, &rng[0][0], &rng[0][1]));
        CHECK_OK(shares_pool_pick(as, &slice, n));
        CHECK_OK(shares_pool_take(as, &slice, x[0], BYTES));
        CHECK_OK(shares_pool_take(csp, &slice, x[1], BYTES));
        CHECK_OK(
            shares_fill_plain(x[2], BYTES, 0, n, s % 2 ? threads : NULL, &rng[1][0], &rng[1][1]));
        for (size_t i = 0; i < n; i++) {
            uint32_t v[3];
            for (int j = 0; j < 3; j++)
                v[j] =
                    x[j][3 * i] | (uint32_t)x[j][3 * i + 1] << 8 | (uint32_t)x[j][3 * i + 2] << 16;
            assert_int_equal((v[0] + v[1]) & 0xffffff, v[2]);
        }
        for (int i = 0; i < 3; i++)
            free(x[i]);
    }
    shares_pool_free(as);
    pool_free(threads);
    shares_pool_free(csp);
}

typedef struct garbling {
    channel ch;
    const shares_params *p;
    uint64_t *x;
    sefl_rng rng;
    sefl_status st;
} garbling;

static void *garble_side(void *arg)
{
    garbling *g = arg;
    shares_result r;
    g->st = shares_garble(&r, g->x, &g->ch, g->p, &g->rng);
    return NULL;
}

/* Profiles, widths, trees and chunks other than the defaults. */
static void plain_at_other_parameters(void **state)
{
    (void)state;
    enum { N = 700 };
    static const sampler_profile small = {
        .name = "small", .columns = 2, .column = { 3, 2 }, .kick_a = 2, .kick_m = 1
    };
    const shares_params params[] = {
        { .count = N, .bits = 40, .ot_k = 8, .chunk = 128 },
        { .count = N, .ot_k = 1, .chunk = 256, .pair = { 7 } },
        { .count = N, .ot_k = 2, .profile = &small },
    };
    for (size_t i = 0; i < sizeof params / sizeof params[0]; i++) {
        static uint64_t x[3][N];
        uint64_t ring = params[i].bits == 40 ? ((uint64_t)1 << 40) - 1 : UINT32_MAX;
        seeded gen[4];
        sefl_rng rng[4];
        channel ch;
        pthread_t thread;
        shares_result r;
        for (int j = 0; j < 4; j++) {
            seeded_init(&gen[j], i, j % 2 ? "CSP" : "AS");
            rng[j] = seeded_rng(&gen[j]);
        }
        garbling g = { .p = &params[i], .x = x[1], .rng = rng[1] };
        CHECK_OK(channel_pair_new(&ch, &g.ch, 60000));
        assert_int_equal(pthread_create(&thread, NULL, garble_side, &g), 0);
        CHECK_OK(shares_evaluate(&r, x[0], &ch, &params[i], &rng[0]));
        pthread_join(thread, NULL);
        CHECK_OK(g.st);
        channel_pair_close(&ch);
        channel_pair_close(&g.ch);
        CHECK_OK(shares_plain(x[2], &params[i], NULL, &rng[2], &rng[3]));
        for (size_t j = 0; j < N; j++)
            assert_int_equal((x[0][j] + x[1][j]) & ring, x[2][j]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(picked_and_taken),
        cmocka_unit_test(cursor_passes),
        cmocka_unit_test(bad_slices),
        cmocka_unit_test(adding),
        cmocka_unit_test(slices_travel),
        cmocka_unit_test(threads),
        cmocka_unit_test(filled_by_a_pair),
        cmocka_unit_test(plain_is_the_sum),
        cmocka_unit_test(plain_at_other_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
