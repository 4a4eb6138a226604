/* Every kernel against GMP's mpz, at every size in use and some odd ones, at random and extreme
 * values. */
#include "support/check.h"

#include "base/alloc.h"
#include "crypto/bn/mont.h"
#include "crypto/bn/pair.h"

#include <gmp.h>
#include <string.h>

enum { BYTES = MONT_LIMBS_MAX * 8, SCRATCH = MONT_POW_BATCHES + 4 };

static const unsigned limb_counts[] = { 1, 2, 3, 12, 13, 16, 24, 32, 48, 64, 96, 128 };

typedef struct fixture {
    mont m;
    mpz_t mod;
    seeded gen;
    uint64_t *batch[4], *scratch;
    uint8_t in[2][MONT_LANES_MAX][2 * BYTES], out[MONT_LANES_MAX][BYTES];
} fixture;

static void draw(seeded *g, mpz_t x, unsigned bytes)
{
    uint8_t tmp[2 * BYTES];
    seeded_fill(g, tmp, bytes);
    mpz_import(x, bytes, -1, 1, 0, 0, tmp);
}

static void put(uint8_t *out, size_t n, const mpz_t x)
{
    memset(out, 0, n);
    mpz_export(out, NULL, -1, 1, 0, 0, x);
}

static void open_fixture(fixture *f, const mont_kernel *kernel, unsigned limbs, int kind)
{
    uint64_t words[MONT_LIMBS_MAX] = { 0 };
    mpz_init(f->mod);
    if (kind == 0) { /* the largest modulus, the smallest, then random ones */
        mpz_setbit(f->mod, 64 * limbs);
        mpz_sub_ui(f->mod, f->mod, 1);
    } else if (kind == 1) {
        mpz_setbit(f->mod, 64 * limbs - 64);
        mpz_add_ui(f->mod, f->mod, 2);
        mpz_setbit(f->mod, 0);
    } else {
        draw(&f->gen, f->mod, 8 * limbs);
        mpz_setbit(f->mod, 64 * limbs - 1);
        mpz_setbit(f->mod, 0);
    }
    mpz_export(words, NULL, -1, 8, 0, 0, f->mod);
    CHECK_OK(mont_init(&f->m, words, limbs, kernel, NULL));
    mont fast; /* the same constants, made in variable time */
    CHECK_OK(mont_init_vartime(&fast, words, limbs, kernel, NULL));
    assert_true(fast.block_words == f->m.block_words && fast.k == f->m.k);
    assert_memory_equal(fast.block, f->m.block, fast.block_words * sizeof *fast.block);
    mont_clear(&fast);
    for (int i = 0; i < 4; i++)
        CHECK_OK(sefl_new(&f->batch[i], mont_batch_words(&f->m), 8));
    CHECK_OK(sefl_new(&f->scratch, SCRATCH * mont_batch_words(&f->m), 8));
}

static void close_fixture(fixture *f)
{
    for (int i = 0; i < 4; i++)
        sefl_free(f->batch[i]);
    sefl_free(f->scratch);
    mont_clear(&f->m);
    mpz_clear(f->mod);
}

enum { OPERANDS = 12 };

/* 0, 1, m-1, m-2, random below m; then unreduced numbers of the modulus' length: all ones, m, m+1,
 * random; alternating words of ones and zeros; every digit of 52 bits 2^52-1 but its lowest bit;
 * only the top bit. */
static void operand(fixture *f, mpz_t x, unsigned which)
{
    unsigned bits = 64 * f->m.limbs;
    switch (which) {
    case 0:
    case 1:
        mpz_set_ui(x, which);
        break;
    case 2:
    case 3:
        mpz_sub_ui(x, f->mod, which - 1);
        break;
    case 4:
        draw(&f->gen, x, 8 * f->m.limbs + 8);
        mpz_mod(x, x, f->mod);
        break;
    case 5:
        mpz_set_ui(x, 0);
        mpz_setbit(x, bits);
        mpz_sub_ui(x, x, 1);
        break;
    case 6:
    case 7:
        mpz_add_ui(x, f->mod, which - 6);
        break;
    case 8:
        draw(&f->gen, x, 8 * f->m.limbs);
        break;
    case 9:
    case 10:
        mpz_set_ui(x, 0);
        for (unsigned i = 0; i < bits; i++)
            if (which == 9 ? i / 64 % 2 == 0 : i % 52 != 0)
                mpz_setbit(x, i);
        break;
    default:
        mpz_set_ui(x, 0);
        mpz_setbit(x, bits - 1);
    }
    mpz_fdiv_r_2exp(x, x, bits); /* m + 1 may be one bit too long */
}

static void check_products(fixture *f)
{
    size_t n = (size_t)f->m.limbs * 8;
    mpz_t a, b, c;
    mpz_inits(a, b, c, NULL);
    for (unsigned round = 0; round < OPERANDS; round++) {
        for (unsigned lane = 0; lane < f->m.lanes; lane++) {
            operand(f, a, (5 * round + lane) % OPERANDS);
            operand(f, b, round);
            put(f->in[0][lane], n, a);
            put(f->in[1][lane], n, b);
        }
        mont_load(&f->m, f->batch[0], f->in[0][0], 2 * BYTES, n, f->m.lanes);
        mont_load(&f->m, f->batch[1], f->in[1][0], 2 * BYTES, n, f->m.lanes);
        mont_to(&f->m, f->batch[2], f->batch[0]);
        mont_mul(&f->m, f->batch[3], f->batch[2], f->batch[1]); /* a*b */
        mont_store(&f->m, f->out[0], BYTES, n, f->batch[3], f->m.lanes);
        for (unsigned lane = 0; lane < f->m.lanes; lane++) {
            mpz_import(a, n, -1, 1, 0, 0, f->in[0][lane]);
            mpz_import(b, n, -1, 1, 0, 0, f->in[1][lane]);
            mpz_import(c, n, -1, 1, 0, 0, f->out[lane]);
            mpz_mul(a, a, b);
            mpz_mod(a, a, f->mod);
            assert_int_equal(mpz_cmp(a, c), 0);
        }
        mont_sqr(&f->m, f->batch[2], f->batch[2]); /* in place */
        mont_mul(&f->m, f->batch[2], f->batch[2], f->m.one);
        mont_store(&f->m, f->out[0], BYTES, n, f->batch[2], f->m.lanes);
        for (unsigned lane = 0; lane < f->m.lanes; lane++) {
            mpz_import(a, n, -1, 1, 0, 0, f->in[0][lane]);
            mpz_import(c, n, -1, 1, 0, 0, f->out[lane]);
            mpz_mul(a, a, a);
            mpz_mod(a, a, f->mod);
            assert_int_equal(mpz_cmp(a, c), 0);
        }
    }
    mpz_clears(a, b, c, NULL);
}

static void check_power(fixture *f)
{
    size_t n = (size_t)f->m.limbs * 8;
    uint64_t e[2];
    mpz_t a, b, c;
    mpz_inits(a, b, c, NULL);
    for (int kind = 0; kind < 3; kind++) {
        e[0] = kind == 0 ? 0 : kind == 1 ? UINT64_MAX : seeded_u64(&f->gen);
        e[1] = kind == 0 ? 0 : kind == 1 ? UINT64_MAX : seeded_u64(&f->gen);
        for (unsigned lane = 0; lane < f->m.lanes; lane++) {
            seeded_fill(&f->gen, f->in[0][lane], 2 * n);
            if (lane == 0)
                memset(f->in[0][lane], 0xff, 2 * n);
        }
        mont_load_wide(&f->m, f->batch[0], f->in[0][0], 2 * BYTES, 2 * n, f->m.lanes, f->batch[1]);
        mont_pow(&f->m, f->batch[2], f->batch[0], e, 2, f->scratch);
        mont_mul(&f->m, f->batch[2], f->batch[2], f->m.one);
        mont_store(&f->m, f->out[0], BYTES, n, f->batch[2], f->m.lanes);
        mpz_import(b, 2, -1, 8, 0, 0, e);
        for (unsigned lane = 0; lane < f->m.lanes; lane++) {
            mpz_import(a, 2 * n, -1, 1, 0, 0, f->in[0][lane]);
            mpz_import(c, n, -1, 1, 0, 0, f->out[lane]);
            mpz_powm(a, a, b, f->mod);
            assert_int_equal(mpz_cmp(a, c), 0);
        }
    }
    mpz_clears(a, b, c, NULL);
}

/* Powers modulo the square, whose two digits are numbers below the modulus. */
static void check_pair(fixture *f, const mont_kernel *kernel)
{
    size_t n = (size_t)f->m.limbs * 8;
    uint8_t lo[MONT_LANES_MAX][BYTES / 2], *c = NULL;
    uint64_t *scratch = NULL, e[2];
    mont_pair p;
    mpz_t a, b, x, square;
    mpz_inits(a, b, x, square, NULL);
    mpz_mul(square, f->mod, f->mod);
    CHECK_OK(pair_init(&p, f->m.limb, f->m.limbs, kernel, NULL));
    CHECK_OK(sefl_new(&scratch, pair_scratch(&p), 8));
    CHECK_OK(sefl_new(&c, MONT_LANES_MAX, 4 * n));
    for (int kind = 0; kind < 4; kind++) {
        e[0] = kind == 0 ? 1 : kind == 1 ? UINT64_MAX : seeded_u64(&f->gen);
        e[1] = kind == 0 ? 0 : kind == 1 ? UINT64_MAX : seeded_u64(&f->gen);
        for (unsigned lane = 0; lane < f->m.lanes; lane++) {
            unsigned short_by = kind == 3 ? 3 : 0; /* numbers below the modulus too */
            memset(c + lane * 4 * n, lane == 0 ? 0xff : 0, 4 * n);
            if (lane > 0 || kind > 1)
                seeded_fill(&f->gen, c + lane * 4 * n, (4 - short_by) * n);
        }
        pair_pow(&p, lo[0], f->out[0], BYTES / 2, n, c, 4 * n, f->m.lanes, e, 2, scratch);
        mpz_import(b, 2, -1, 8, 0, 0, e);
        for (unsigned lane = 0; lane < f->m.lanes; lane++) {
            mpz_import(a, 4 * n, -1, 1, 0, 0, c + lane * 4 * n);
            mpz_import(x, n, -1, 1, 0, 0, f->out[0] + lane * (BYTES / 2));
            mpz_mul(x, x, f->mod);
            mpz_t low;
            mpz_init(low);
            mpz_import(low, n, -1, 1, 0, 0, lo[lane]);
            mpz_add(x, x, low);
            mpz_clear(low);
            bool divides = mpz_divisible_p(a, f->mod) != 0; /* not promised */
            mpz_powm(a, a, b, square);
            assert_true(divides || mpz_cmp(a, x) == 0);
        }
    }
    pair_clear(&p);
    sefl_free(scratch);
    sefl_free(c);
    mpz_clears(a, b, x, square, NULL);
}

static void check_multiples(fixture *f)
{
    size_t n = (size_t)f->m.limbs * 8;
    unsigned want = 0;
    mpz_t a;
    mpz_init(a);
    for (unsigned lane = 0; lane < f->m.lanes; lane++) {
        switch (lane) {
        case 0: /* (m-1)*m, the largest multiple below m^2 */
            mpz_sub_ui(a, f->mod, 1);
            mpz_mul(a, a, f->mod);
            want |= 1;
            break;
        case 1: /* and its neighbour */
            mpz_sub_ui(a, f->mod, 1);
            mpz_mul(a, a, f->mod);
            mpz_add_ui(a, a, 1);
            break;
        case 2:
            mpz_set(a, f->mod);
            want |= 4;
            break;
        case 3:
            mpz_mul_ui(a, f->mod, 2);
            want |= 8;
            break;
        case 4:
            mpz_set_ui(a, 1);
            break;
        case 5:
            mpz_set_ui(a, 0);
            want |= 32;
            break;
        default:
            draw(&f->gen, a, 8 * f->m.limbs);
            mpz_mod(a, a, f->mod);
            mpz_add_ui(a, a, mpz_sgn(a) == 0);
        }
        put(f->in[0][lane], 2 * n, a);
    }
    assert_int_equal(mont_multiples(&f->m, f->in[0][0], 2 * BYTES, 2 * n, f->m.lanes, f->scratch),
                     want);
    mpz_clear(a);
}

/* Rows: scattering and gathering gives the same values; a short load leaves zeros. */
static void check_rows(fixture *f)
{
    size_t n = mont_batch_words(&f->m), row = (f->m.words + 7) / 8 * 8;
    uint64_t *rows = NULL, *to[MONT_LANES_MAX];
    const uint64_t *from[MONT_LANES_MAX];
    CHECK_OK(sefl_new(&rows, MONT_LANES_MAX * row, 8));
    for (unsigned lane = 0; lane < f->m.lanes; lane++)
        from[lane] = to[lane] = rows + lane * row;
    mont_scatter(&f->m, to, f->batch[2], f->m.lanes);
    mont_gather(&f->m, f->batch[3], from);
    assert_memory_equal(f->batch[2], f->batch[3], n * 8);
    mont_load(&f->m, f->batch[0], f->in[0][0], 2 * BYTES, 1, 1);
    assert_int_equal(f->batch[0][0], f->in[0][0][0]);
    for (size_t i = 1; i < n; i++)
        assert_int_equal(f->batch[0][i], 0);
    sefl_free(rows);
}

static void against_gmp(void **state)
{
    static fixture f;
    seeded start;
    (void)state;
    test_seed(&start, "mont");
    for (const mont_kernel *const *k = mont_kernels(); *k; k++) {
        printf("kernel %s\n", (*k)->name);
        for (size_t i = 0; i < sizeof limb_counts / sizeof limb_counts[0]; i++)
            for (int kind = 0; kind < 3; kind++) {
                memset(&f, 0, sizeof f);
                f.gen = start;
                open_fixture(&f, *k, limb_counts[i], kind);
                check_products(&f);
                check_power(&f);
                if (kind > (i == 0) && limb_counts[i] <= MONT_LIMBS_MAX / 2)
                    check_pair(&f, *k);
                check_multiples(&f);
                check_rows(&f);
                close_fixture(&f);
            }
    }
}

static void faults(void **state)
{
    uint64_t modulus[4] = { 3, 4, 5, 6 };
    (void)state;
    TEST_FAULTS(FAULT_ALLOC, mont m = { 0 }; st = mont_init(&m, modulus, 4, NULL, NULL);
                if (st == SEFL_OK) mont_clear(&m), (void)0);
    TEST_FAULTS(FAULT_ALLOC, mont_pair p = { 0 }; st = pair_init(&p, modulus, 4, NULL, NULL);
                if (st == SEFL_OK) pair_clear(&p), (void)0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_gmp),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
