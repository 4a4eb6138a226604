/* Set-up, the kernels for one number at a time and what is common to all.
 *
 * The portable kernel is built on GMP's mpn_addmul_1, the adx kernel on rows of mulx with two carry
 * chains (1.6 times as fast); neither has a branch or address that depends on data; tests/ctime
 * checks that. Their numbers are always below m. */
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

/* ---- one number at a time -------------------------------------------------------------------- */

static mp_limb_t *mp(uint64_t *p)
{
    return (mp_limb_t *)(void *)p;
}

static const mp_limb_t *mpc(const uint64_t *p)
{
    return (const mp_limb_t *)(const void *)p;
}

/* t += x*y over n words; returns the word carried out. */
typedef uint64_t row_fn(uint64_t *t, const uint64_t *x, size_t n, uint64_t y);

static uint64_t row_portable(uint64_t *t, const uint64_t *x, size_t n, uint64_t y)
{
    return n > 0 ? mpn_addmul_1(mp(t), mpc(x), (mp_size_t)n, y) : 0;
}

#if defined(__x86_64__)
/* Two carry chains: CF adds the high half of one product to the low half of the next, OF adds t.
 * The loop counts with lea and jrcxz, which leave both flags alone. */
static uint64_t row_adx(uint64_t *t, const uint64_t *x, size_t n, uint64_t y)
{
    uint64_t lo, hi, carry = 0, zero = 0;
    size_t eights = n / 8, ones = n % 8;
#define STEP(at)                           \
    "mulx " #at "(%[x]), %[lo], %[hi]\n\t" \
    "adcx %[carry], %[lo]\n\t"             \
    "adox " #at "(%[t]), %[lo]\n\t"        \
    "mov %[lo], " #at "(%[t])\n\t"
#define STEP2(a, b)                          \
    STEP(a)                                  \
    "mulx " #b "(%[x]), %[lo], %[carry]\n\t" \
    "adcx %[hi], %[lo]\n\t"                  \
    "adox " #b "(%[t]), %[lo]\n\t"           \
    "mov %[lo], " #b "(%[t])\n\t"
    __asm__ volatile("test %[count], %[count]\n\t"
                     "jz 5f\n\t"
                     "xor %k[zero], %k[zero]\n\t" /* clears CF and OF */
                     "1:\n\t" STEP2(0, 8) STEP2(16, 24) STEP2(32, 40)
                         STEP2(48, 56) "lea 64(%[x]), %[x]\n\t"
                                       "lea 64(%[t]), %[t]\n\t"
                                       "lea -1(%[count]), %[count]\n\t"
                                       "jrcxz 2f\n\t"
                                       "jmp 1b\n\t"
                                       "5:\n\t"
                                       "xor %k[zero], %k[zero]\n\t"
                                       "2:\n\t"
                                       "mov %[ones], %[count]\n\t"
                                       "3:\n\t"
                                       "jrcxz 4f\n\t" STEP(0) "mov %[hi], %[carry]\n\t"
                                                              "lea 8(%[x]), %[x]\n\t"
                                                              "lea 8(%[t]), %[t]\n\t"
                                                              "lea -1(%[count]), %[count]\n\t"
                                                              "jmp 3b\n\t"
                                                              "4:\n\t"
                                                              "adcx %[zero], %[carry]\n\t"
                                                              "adox %[zero], %[carry]\n\t"
                     : [x] "+r"(x), [t] "+r"(t), [count] "+c"(eights), [lo] "=&r"(lo),
                       [hi] "=&r"(hi), [carry] "+&r"(carry), [zero] "+&r"(zero)
                     : [ones] "r"(ones), "d"(y)
                     : "cc", "memory");
#undef STEP
#undef STEP2
    return carry;
}
#endif

/* z = t / R mod m; t has 2n words, below m*R, and is spent. rest: NULL, or as in mont.h; a
 * subtraction of m at the end is one R more in it. */
static inline __attribute__((always_inline)) void redc(const mont *m, uint64_t *z, uint64_t *t,
                                                       uint64_t *rest, row_fn *row)
{
    size_t n = m->limbs;
    for (size_t i = 0; i < n; i++) { /* row i clears t[i], which then keeps the row's carry */
        uint64_t q = t[i] * m->k;
        if (rest)
            rest[i] = ~q;
        t[i] = row(t + i, m->limb, n, q);
    }
    mp_limb_t carry = mpn_add_n(mp(t), mp(t + n), mp(t), (mp_size_t)n);
    mp_limb_t borrow = mpn_sub_n(mp(t + n), mp(t), mpc(m->limb), (mp_size_t)n);
    uint64_t keep = ct_mask_u64(borrow & (carry ^ 1)); /* below m already */
    for (size_t i = 0; i < n; i++)
        z[i] = ct_select_u64(keep, t[i], t[n + i]);
    if (rest)
        rest[n] = mpn_add_n(mp(rest), mp(rest), mpc(m->fix), (mp_size_t)n) + 1 + keep;
}

/* add: NULL, or a rest that is added. x*y + rest < m^2 + 3R, below m*R for every m that is not
 * within 6 of R. */
static inline __attribute__((always_inline)) void mul_rows(const mont *m, uint64_t *z,
                                                           uint64_t *rest, const uint64_t *x,
                                                           const uint64_t *y, const uint64_t *add,
                                                           row_fn *row)
{
    uint64_t t[2 * MONT_LIMBS_MAX];
    size_t n = m->limbs;
    if (add)
        memcpy(t, add, n * sizeof *t);
    else
        memset(t, 0, n * sizeof *t);
    for (size_t i = 0; i < n; i++)
        t[n + i] = row(t + i, x, n, y[i]);
    if (add) {
        mp_limb_t tmp[MONT_LIMBS_MAX];
        mpn_sec_add_1(mp(t + n), mp(t + n), (mp_size_t)n, add[n], tmp);
    }
    redc(m, z, t, rest, row);
}

/* x^2: the products of different words once, doubled, then the squares. */
static inline __attribute__((always_inline)) void sqr_rows(const mont *m, uint64_t *z,
                                                           const uint64_t *x, row_fn *row)
{
    uint64_t t[2 * MONT_LIMBS_MAX], carry = 0, top = 0;
    size_t n = m->limbs;
    memset(t, 0, (n + 1) * sizeof *t);
    for (size_t i = 0; i < n; i++)
        t[n + i] = row(t + 2 * i + 1, x + i + 1, n - 1 - i, x[i]);
    for (size_t i = 0; i < n; i++) {
        unsigned __int128 s = (unsigned __int128)x[i] * x[i];
        uint64_t lo = t[2 * i] << 1 | top, hi = t[2 * i + 1] << 1 | t[2 * i] >> 63;
        top = t[2 * i + 1] >> 63;
        unsigned __int128 a = (unsigned __int128)lo + (uint64_t)s + carry;
        unsigned __int128 b = (unsigned __int128)hi + (uint64_t)(s >> 64) + (uint64_t)(a >> 64);
        t[2 * i] = (uint64_t)a;
        t[2 * i + 1] = (uint64_t)b;
        carry = (uint64_t)(b >> 64);
    }
    redc(m, z, t, NULL, row);
}

/* Products by one of the row functions. */
#define ROW_PRODUCTS(name)                                                                       \
    static void name##_mul(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y)     \
    {                                                                                            \
        mul_rows(m, z, NULL, x, y, NULL, row_##name);                                            \
    }                                                                                            \
    static void name##_mul_rest(const mont *m, uint64_t *z, uint64_t *rest, const uint64_t *x,   \
                                const uint64_t *y)                                               \
    {                                                                                            \
        mul_rows(m, z, rest, x, y, NULL, row_##name);                                            \
    }                                                                                            \
    static void name##_mul_add(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y, \
                               const uint64_t *rest)                                             \
    {                                                                                            \
        mul_rows(m, z, NULL, x, y, rest, row_##name);                                            \
    }                                                                                            \
    static void name##_sqr(const mont *m, uint64_t *z, const uint64_t *x)                        \
    {                                                                                            \
        sqr_rows(m, z, x, row_##name);                                                           \
    }

ROW_PRODUCTS(portable)
#if defined(__x86_64__)
ROW_PRODUCTS(adx)
#endif

static void rows_mul_fetch(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y,
                           const uint64_t *const *rows)
{
    for (unsigned i = 0; i < m->words; i += 8)
        __builtin_prefetch(rows[0] + i);
    m->kernel->mul(m, z, x, y);
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
                            size_t stride, uint64_t index)
{
    size_t n = mont_batch_words(m);
    memset(z, 0, n * 8);
    for (unsigned e = 0; e < entries; e++) {
        uint64_t mask = ct_mask_u64(ct_eq_u64(e, index));
        for (size_t i = 0; i < n; i++)
            z[i] |= table[e * stride + i] & mask;
    }
}

#define ROW_KERNEL(row)              \
    static const mont_kernel row = { \
        .name = #row,                \
        .lanes = 1,                  \
        .radix_bits = 64,            \
        .mul = row##_mul,            \
        .mul_fetch = rows_mul_fetch, \
        .sqr = row##_sqr,            \
        .mul_rest = row##_mul_rest,  \
        .mul_add = row##_mul_add,    \
        .add = portable_add,         \
        .load = portable_load,       \
        .store = portable_store,     \
        .gather = portable_gather,   \
        .select = portable_select,   \
    };

ROW_KERNEL(portable)
#if defined(__x86_64__)
ROW_KERNEL(adx)
#endif

/* ---- kernels --------------------------------------------------------------------------------- */

const mont_kernel *const *mont_kernels(void)
{
    static const mont_kernel *const plain[] = { &portable, NULL };
#if defined(__x86_64__)
    static const mont_kernel *const with_adx[] = { &portable, &adx, NULL };
    static const mont_kernel *const with_ifma[] = { &portable, &mont_kernel_ifma, NULL };
    static const mont_kernel *const with_both[] = { &portable, &adx, &mont_kernel_ifma, NULL };
    bool has_adx = cpu_get()->bmi2 && cpu_get()->adx;
    bool has_ifma = cpu_get()->avx512 && cpu_get()->avx512ifma;
    if (has_ifma)
        return has_adx ? with_both : with_ifma;
    if (has_adx)
        return with_adx;
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

/* z = 2^exp mod m as 8*limbs bytes, by doubling: mpn_sec_div_r would be faster, but looks up a
 * table and branches by the divisor's top bits, which may be a secret's. */
static void power_of_two(const mont *m, uint8_t *z, unsigned exp)
{
    uint64_t x[MONT_LIMBS_MAX] = { 1 };
    for (unsigned i = 0; i < exp; i++)
        portable_add(m, x, x, x);
    for (unsigned i = 0; i < m->limbs; i++)
        store_u64(z + 8 * i, x[i]);
    sefl_wipe(x, sizeof x);
}

/* By Newton's iteration on the whole number. */
void mont_inverse(uint64_t *z, const uint64_t *x, unsigned limbs)
{
    mp_limb_t t[2 * MONT_LIMBS_MAX], u[2 * MONT_LIMBS_MAX], tmp[4 * MONT_LIMBS_MAX];
    const mp_size_t n = (mp_size_t)limbs;
    assert(mpn_sec_mul_itch(n, n) <= 4 * MONT_LIMBS_MAX);
    memset(z, 0, limbs * sizeof *z);
    z[0] = 1;
    for (unsigned bits = 1; bits < 64 * limbs; bits *= 2) { /* z = z*(2 - x*z) */
        mpn_sec_mul(t, mpc(x), n, mp(z), n, tmp);
        mpn_com(t, t, n); /* -t - 1 */
        mpn_sec_add_1(t, t, n, 3, tmp);
        mpn_sec_mul(u, mp(z), n, t, n, tmp);
        memcpy(z, u, limbs * sizeof *z);
    }
    sefl_wipe(t, sizeof t);
    sefl_wipe(u, sizeof u);
    sefl_wipe(tmp, sizeof tmp);
}

void mont_power_of_two(uint64_t *z, const uint64_t *modulus, unsigned limbs, unsigned exp)
{
    uint64_t m[MONT_LIMBS_MAX];
    uint8_t bytes[MONT_LIMBS_MAX * 8];
    memcpy(m, modulus, limbs * sizeof *m);
    const mont tmp = { .limb = m, .limbs = limbs };
    power_of_two(&tmp, bytes, exp);
    for (unsigned i = 0; i < limbs; i++)
        z[i] = load_u64(bytes + 8 * i);
    sefl_wipe(m, sizeof m);
    sefl_wipe(bytes, sizeof bytes);
}

/* The same by one division. */
static void power_of_two_vartime(const mont *m, uint8_t *z, unsigned exp)
{
    mp_limb_t x[2 * MONT_LIMBS_MAX + 8] = { 0 }, q[2 * MONT_LIMBS_MAX + 8], r[MONT_LIMBS_MAX];
    mp_size_t n = (mp_size_t)m->limbs, words = (mp_size_t)exp / 64 + 1;
    assert((size_t)words <= sizeof x / sizeof *x && words >= n);
    x[exp / 64] = (mp_limb_t)1 << exp % 64;
    mpn_tdiv_qr(q, r, 0, x, words, mpc(m->limb), n);
    for (unsigned i = 0; i < m->limbs; i++)
        store_u64(z + 8 * i, r[i]);
}

typedef void power_fn(const mont *m, uint8_t *z, unsigned exp);

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
    m.block_words = 3 * ((mont_batch_words(&m) + line) & ~line) + 2 * ((m.words + line) & ~line) +
                    ((limbs + line) & ~line);
    return m;
}

size_t mont_memory(unsigned limbs, const mont_kernel *kernel)
{
    return layout(limbs, kernel).block_words;
}

static sefl_status init(mont *m, const uint64_t *modulus, unsigned limbs, const mont_kernel *kernel,
                        uint64_t *memory, power_fn *power)
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
    tmp.fix = tmp.word + (size_t)(tmp.words + 7) / 8 * 8;
    tmp.limb = tmp.fix + (size_t)(tmp.words + 7) / 8 * 8;
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
    power(&tmp, bytes, radix * tmp.words); /* R mod m, and m - R + 1: 1 to m */
    uint64_t r[MONT_LIMBS_MAX];
    for (unsigned i = 0; i < limbs; i++)
        r[i] = load_u64(bytes + 8 * i);
    mpn_sub_n(mp(r), mpc(modulus), mp(r), (mp_size_t)limbs);
    mp_limb_t spare[MONT_LIMBS_MAX];
    mpn_sec_add_1(mp(r), mp(r), (mp_size_t)limbs, 1, spare);
    for (unsigned i = 0; i < limbs; i++)
        store_u64(bytes + 8 * i, r[i]);
    sefl_wipe(r, sizeof r);
    tmp.kernel->load(&tmp, tmp.rr, bytes, 0, n, 0, tmp.lanes);
    for (unsigned i = 0; i < tmp.words; i++)
        tmp.fix[i] = tmp.rr[(size_t)i * tmp.lanes];
    memset(bytes, 0, n);
    bytes[0] = 1;
    tmp.kernel->load(&tmp, tmp.one, bytes, 0, n, 0, tmp.lanes);
    power(&tmp, bytes, 2 * radix * tmp.words);
    tmp.kernel->load(&tmp, tmp.rr, bytes, 0, n, 0, tmp.lanes);
    tmp.kernel->mul(&tmp, tmp.rrr, tmp.rr, tmp.rr);
    *m = tmp, tmp = (mont){ 0 };
done:
    sefl_wipe(bytes, sizeof bytes);
    mont_clear(&tmp);
    return st;
}

sefl_status mont_init(mont *m, const uint64_t *modulus, unsigned limbs, const mont_kernel *kernel,
                      uint64_t *memory)
{
    return init(m, modulus, limbs, kernel, memory, power_of_two);
}

sefl_status mont_init_vartime(mont *m, const uint64_t *modulus, unsigned limbs,
                              const mont_kernel *kernel, uint64_t *memory)
{
    return init(m, modulus, limbs, kernel, memory, power_of_two_vartime);
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
    enum { W = MONT_POW_WINDOW };
    size_t n = mont_batch_words(m);
    uint64_t *table = scratch, *pick = scratch + ((size_t)n << W);
    mont_to(m, table, m->one);
    memcpy(table + n, x, n * sizeof *x);
    for (unsigned i = 2; i < 1 << W; i++)
        mont_mul(m, table + i * n, table + (i - 1) * n, table + n);
    unsigned windows = (64 * exp_limbs + W - 1) / W;
    for (unsigned i = windows; i-- > 0;) {
        m->kernel->select(m, pick, table, 1 << W, n, mont_pow_digit(e, exp_limbs, i));
        if (i == windows - 1) {
            memcpy(z, pick, n * sizeof *z);
            continue;
        }
        for (int k = 0; k < W; k++)
            mont_sqr(m, z, z);
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
