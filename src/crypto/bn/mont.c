/* Set-up, the portable kernel and what is common to the kernels.
 *
 * The portable kernel is built on GMP's mpn rows (mpn_addmul_1, mpn_sec_sqr), which have no branch
 * or address that depends on data; tests/ctime watches that. Its numbers are always below m. */
#include "crypto/bn/mont.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/ct.h"
#include "base/span.h"
#if defined(__x86_64__)
#include "crypto/bn/mont_ifma.h"
#endif

#include <assert.h>
#include <gmp.h>
#include <string.h>

_Static_assert(sizeof(mp_limb_t) == sizeof(uint64_t) && GMP_NUMB_BITS == 64, "64-bit limbs");

/* ---- portable kernel ------------------------------------------------------------------------- */

static const mp_limb_t *mpc(const uint64_t *p)
{
    return (const mp_limb_t *)(const void *)p;
}

/* z = t / R mod m; t has 2n limbs, below m*R, and is spent. */
static void redc(const mont *m, uint64_t *z, mp_limb_t *t)
{
    const mp_limb_t *mod = mpc(m->limb);
    mp_size_t n = (mp_size_t)m->limbs;
    for (mp_size_t i = 0; i < n; i++) /* row i clears t[i], which then keeps the row's carry */
        t[i] = mpn_addmul_1(t + i, mod, n, t[i] * m->k);
    mp_limb_t carry = mpn_add_n(t, t + n, t, n);
    mp_limb_t borrow = mpn_sub_n(t + n, t, mod, n);
    uint64_t keep = ct_mask_u64(borrow & (carry ^ 1)); /* below m already */
    for (mp_size_t i = 0; i < n; i++)
        z[i] = ct_select_u64(keep, t[i], t[n + i]);
}

static void portable_mul(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y)
{
    mp_limb_t t[2 * MONT_LIMBS_MAX];
    mp_size_t n = (mp_size_t)m->limbs;
    t[n] = mpn_mul_1(t, mpc(x), n, y[0]);
    for (mp_size_t i = 1; i < n; i++)
        t[n + i] = mpn_addmul_1(t + i, mpc(x), n, y[i]);
    redc(m, z, t);
}

static void portable_sqr(const mont *m, uint64_t *z, const uint64_t *x)
{
    mp_limb_t t[2 * MONT_LIMBS_MAX], tmp[4 * MONT_LIMBS_MAX];
    mp_size_t n = (mp_size_t)m->limbs;
    assert(mpn_sec_sqr_itch(n) <= 4 * MONT_LIMBS_MAX);
    mpn_sec_sqr(t, mpc(x), n, tmp);
    redc(m, z, t);
}

static void portable_add(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y)
{
    mp_limb_t s[MONT_LIMBS_MAX], d[MONT_LIMBS_MAX];
    mp_size_t n = (mp_size_t)m->limbs;
    mp_limb_t carry = mpn_add_n(s, mpc(x), mpc(y), n);
    mp_limb_t borrow = mpn_sub_n(d, s, mpc(m->limb), n);
    uint64_t keep = ct_mask_u64(borrow & (carry ^ 1));
    for (mp_size_t i = 0; i < n; i++)
        z[i] = ct_select_u64(keep, s[i], d[i]);
}

static void portable_load(const mont *m, uint64_t *z, const uint8_t *bytes, size_t stride,
                          size_t byte_count, unsigned first_word, unsigned count)
{
    (void)stride;
    size_t skip = (size_t)first_word * 8, want = (size_t)m->limbs * 8;
    uint8_t tmp[MONT_LIMBS_MAX * 8] = { 0 };
    if (count > 0 && byte_count > skip)
        memcpy(tmp, bytes + skip, byte_count - skip < want ? byte_count - skip : want);
    for (unsigned i = 0; i < m->limbs; i++)
        z[i] = load_u64(tmp + 8 * i);
}

static void portable_store(const mont *m, uint8_t *bytes, size_t stride, size_t byte_count,
                           const uint64_t *x, unsigned count)
{
    (void)stride;
    uint8_t tmp[MONT_LIMBS_MAX * 8];
    for (unsigned i = 0; i < m->limbs; i++)
        store_u64(tmp + 8 * i, x[i]);
    if (count > 0)
        memcpy(bytes, tmp, byte_count);
}

static void portable_gather(const mont *m, uint64_t *z, const uint64_t *const *rows)
{
    memcpy(z, rows[0], (size_t)m->words * 8);
}

static void portable_select(const mont *m, uint64_t *z, const uint64_t *table, unsigned entries,
                            uint64_t index)
{
    size_t n = mont_batch_words(m);
    memset(z, 0, n * 8);
    for (unsigned e = 0; e < entries; e++) {
        uint64_t mask = ct_mask_u64(ct_eq_u64(e, index));
        for (size_t i = 0; i < n; i++)
            z[i] |= table[e * n + i] & mask;
    }
}

static const mont_kernel portable = {
    .name = "portable",
    .lanes = 1,
    .radix_bits = 64,
    .mul = portable_mul,
    .sqr = portable_sqr,
    .add = portable_add,
    .load = portable_load,
    .store = portable_store,
    .gather = portable_gather,
    .select = portable_select,
};

/* ---- kernels --------------------------------------------------------------------------------- */

const mont_kernel *const *mont_kernels(void)
{
    static const mont_kernel *const plain[] = { &portable, NULL };
#if defined(__x86_64__)
    static const mont_kernel *const all[] = { &portable, &mont_kernel_ifma, NULL };
    if (cpu_get()->avx512 && cpu_get()->avx512ifma)
        return all;
#endif
    return plain;
}

const mont_kernel *mont_kernel_best(void)
{
    const mont_kernel *const *k = mont_kernels();
    while (k[1])
        k++;
    return *k;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

/* -1/m mod 2^64 by Newton's iteration; each step doubles the number of right bits. */
static uint64_t neg_inverse(uint64_t m)
{
    uint64_t x = m; /* 3 bits: m*m = 1 mod 8 */
    for (int i = 0; i < 5; i++)
        x *= 2 - m * x;
    return 0 - x;
}

/* z = 2^exp mod m as 8*limbs bytes. */
static sefl_status power_of_two(const mont *m, uint8_t *z, unsigned exp)
{
    sefl_status st = SEFL_OK;
    mp_size_t nn = (mp_size_t)(exp / 64 + 1), dn = (mp_size_t)m->limbs;
    if (nn < dn)
        nn = dn;
    mp_size_t itch = mpn_sec_div_r_itch(nn, dn);
    mp_limb_t *np = NULL;
    size_t words = (size_t)(nn + itch);
    SEFL_TRY(sefl_new(&np, words, sizeof *np));
    np[exp / 64] = (mp_limb_t)1 << (exp % 64);
    mpn_sec_div_r(np, nn, mpc(m->limb), dn, np + nn);
    for (mp_size_t i = 0; i < dn; i++)
        store_u64(z + 8 * i, np[i]);
done:
    sefl_free_secret(np, words * sizeof *np);
    return st;
}

static mont layout(unsigned limbs, const mont_kernel *kernel)
{
    mont m = { .kernel = kernel ? kernel : mont_kernel_best(), .limbs = limbs };
    unsigned radix = m.kernel->radix_bits;
    m.lanes = m.kernel->lanes;
    /* eight bits of slack at least, so that vector kernels need no final subtraction */
    m.words = radix == 64 ? limbs : (limbs * 64 + 8 + 51) / 52;
    if (radix == 52)
        m.words = (m.words + 3) / 4 * 4;
    size_t line = 7; /* every part begins a cache line */
    m.block_words = 3 * ((mont_batch_words(&m) + line) & ~line) + ((m.words + line) & ~line) +
                    ((limbs + line) & ~line);
    return m;
}

size_t mont_memory(unsigned limbs, const mont_kernel *kernel)
{
    return layout(limbs, kernel).block_words;
}

sefl_status mont_init(mont *m, const uint64_t *modulus, unsigned limbs, const mont_kernel *kernel,
                      uint64_t *memory)
{
    sefl_status st = SEFL_OK;
    uint8_t bytes[MONT_LIMBS_MAX * 8];
    mont tmp = { 0 };
    assert(limbs > 0 && limbs <= MONT_LIMBS_MAX);
    tmp = layout(limbs, kernel);
    unsigned radix = tmp.kernel->radix_bits;
    size_t batch = (mont_batch_words(&tmp) + 7) / 8 * 8;
    tmp.owned = !memory;
    tmp.block = memory;
    if (!memory)
        SEFL_TRY(sefl_new(&tmp.block, tmp.block_words, sizeof *tmp.block));
    tmp.one = tmp.block;
    tmp.rr = tmp.one + batch;
    tmp.rrr = tmp.rr + batch;
    tmp.word = tmp.rrr + batch;
    tmp.limb = tmp.word + (size_t)(tmp.words + 7) / 8 * 8;
    memcpy(tmp.limb, modulus, limbs * sizeof *modulus);
    tmp.k = neg_inverse(modulus[0]);
    if (radix == 52)
        tmp.k &= ((uint64_t)1 << 52) - 1;

    size_t n = (size_t)limbs * 8;
    for (unsigned i = 0; i < limbs; i++)
        store_u64(bytes + 8 * i, modulus[i]);
    tmp.kernel->load(&tmp, tmp.rr, bytes, 0, n, 0, tmp.lanes); /* rr as scratch */
    for (unsigned i = 0; i < tmp.words; i++)
        tmp.word[i] = tmp.rr[(size_t)i * tmp.lanes];
    memset(bytes, 0, n);
    bytes[0] = 1;
    tmp.kernel->load(&tmp, tmp.one, bytes, 0, n, 0, tmp.lanes);
    SEFL_TRY(power_of_two(&tmp, bytes, 2 * radix * tmp.words));
    tmp.kernel->load(&tmp, tmp.rr, bytes, 0, n, 0, tmp.lanes);
    tmp.kernel->mul(&tmp, tmp.rrr, tmp.rr, tmp.rr);
    *m = tmp, tmp = (mont){ 0 };
done:
    sefl_wipe(bytes, sizeof bytes);
    mont_clear(&tmp);
    return st;
}

void mont_clear(mont *m)
{
    if (m->block)
        sefl_wipe(m->block, m->block_words * sizeof *m->block);
    if (m->owned)
        sefl_free(m->block);
    *m = (mont){ 0 };
}

/* ---- common ---------------------------------------------------------------------------------- */

void mont_load(const mont *m, uint64_t *z, const uint8_t *bytes, size_t stride, size_t byte_count,
               unsigned count)
{
    assert(byte_count <= (size_t)m->limbs * 8 && count <= m->lanes);
    m->kernel->load(m, z, bytes, stride, byte_count, 0, count);
}

void mont_load_wide(const mont *m, uint64_t *z, const uint8_t *bytes, size_t stride,
                    size_t byte_count, unsigned count, uint64_t *tmp)
{
    assert(byte_count <= (size_t)m->limbs * 16 && count <= m->lanes);
    /* x = lo + hi*R;  x*R = lo*R^2/R + hi*R^3/R */
    m->kernel->load(m, tmp, bytes, stride, byte_count, m->words, count);
    m->kernel->mul(m, z, tmp, m->rrr);
    m->kernel->load(m, tmp, bytes, stride, byte_count, 0, count);
    m->kernel->mul(m, tmp, tmp, m->rr);
    m->kernel->add(m, z, z, tmp);
}

void mont_store(const mont *m, uint8_t *bytes, size_t stride, size_t byte_count, const uint64_t *x,
                unsigned count)
{
    assert(byte_count <= (size_t)m->limbs * 8 && count <= m->lanes);
    m->kernel->store(m, bytes, stride, byte_count, x, count);
}

void mont_scatter(const mont *m, uint64_t *const *rows, const uint64_t *x, unsigned count)
{
    for (unsigned lane = 0; lane < count; lane++)
        for (unsigned i = 0; i < m->words; i++)
            rows[lane][i] = x[(size_t)i * m->lanes + lane];
}

void mont_pow(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *e, unsigned exp_limbs,
              uint64_t *scratch)
{
    size_t n = mont_batch_words(m);
    uint64_t *table = scratch, *pick = scratch + 16 * n;
    mont_to(m, table, m->one);
    memcpy(table + n, x, n * sizeof *x);
    for (unsigned i = 2; i < 16; i++)
        mont_mul(m, table + i * n, table + (i - 1) * n, table + n);
    for (unsigned i = exp_limbs * 16; i-- > 0;) {
        uint64_t digit = e[i / 16] >> (4 * (i % 16)) & 15;
        if (i == exp_limbs * 16 - 1) { /* public: the first window */
            m->kernel->select(m, z, table, 16, digit);
            continue;
        }
        for (int k = 0; k < 4; k++)
            mont_sqr(m, z, z);
        m->kernel->select(m, pick, table, 16, digit);
        mont_mul(m, z, z, pick);
    }
}

unsigned mont_multiples(const mont *m, const uint8_t *bytes, size_t stride, size_t byte_count,
                        unsigned count, uint64_t *tmp)
{
    uint8_t out[MONT_LANES_MAX][MONT_LIMBS_MAX * 8];
    uint64_t *lo = tmp, *hi = tmp + mont_batch_words(m);
    unsigned zero = 0;
    /* x/R = lo/R + hi, and x < m^2 makes hi < m */
    m->kernel->load(m, hi, bytes, stride, byte_count, m->words, count);
    m->kernel->load(m, lo, bytes, stride, byte_count, 0, count);
    m->kernel->mul(m, lo, lo, m->one);
    m->kernel->add(m, lo, lo, hi);
    size_t n = (size_t)m->limbs * 8;
    m->kernel->store(m, out[0], sizeof out[0], n, lo, count);
    for (unsigned lane = 0; lane < count; lane++) {
        uint8_t any = 0;
        for (size_t i = 0; i < n; i++)
            any |= out[lane][i];
        zero |= (unsigned)(any == 0) << lane;
    }
    return zero;
}
