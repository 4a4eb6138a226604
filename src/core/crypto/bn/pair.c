/* Layout: a pair is two consecutive batches. Ranges are those of mont.h: results of products, and
 * sums of a few of them, may be factors again. The first digit of a pair may be p or more; the pair
 * then is another representation of the same number. */
#include "crypto/bn/pair.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/span.h"

#include <assert.h>
#include <gmp.h>
#include <string.h>

enum {
    W = MONT_POW_WINDOW,
    WORK = 8,   /* batches beside the table */
    APART = 40, /* words between batches: those of 32 digits (3072-bit keys) have 2 KiB, and a load
                 * waits for a store that is a multiple of 4 KiB away: a fifth of the time */
};

/* Words from one batch to the next; each begins a cache line. */
static size_t batch(const mont *m)
{
    return (mont_batch_words(m) + 7) / 8 * 8 + APART;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* z = x*y/R. work: 4 batches, one of them with a word a lane more. z may be x or y. */
static void mul(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y, uint64_t *work)
{
    const size_t n = batch(m);
    uint64_t *z0 = work, *z1 = z0 + n, *other = z1 + n, *rest = other + n;
    m->kernel->mul_rest(m, z0, rest, x, y);
    m->kernel->mul_add(m, z1, x, y + n, rest);
    m->kernel->mul(m, other, x + n, y);
    m->kernel->add(m, z + n, z1, other);
    memcpy(z, z0, mont_batch_words(m) * sizeof *z);
}

static void sqr(const mont *m, uint64_t *z, uint64_t *work)
{
    const size_t n = batch(m);
    uint64_t *z0 = work, *twice = z0 + n, *rest = twice + n;
    m->kernel->mul_rest(m, z0, rest, z, z);
    m->kernel->add(m, twice, z + n, z + n);
    m->kernel->mul_add(m, z + n, z, twice, rest);
    memcpy(z, z0, mont_batch_words(m) * sizeof *z);
}

/* z = x*y/R for x with the second digit 0. */
static void mul_low(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y,
                    uint64_t *work)
{
    const size_t n = batch(m);
    uint64_t *z0 = work, *rest = z0 + n;
    m->kernel->mul_rest(m, z0, rest, x, y);
    m->kernel->mul_add(m, z + n, x, y + n, rest);
    memcpy(z, z0, mont_batch_words(m) * sizeof *z);
}

/* z += x. If the kernel keeps numbers below p, a sum that it reduced (then it is smaller than z
 * was) carries into the second digit. */
static void pair_add(const mont *m, uint64_t *z, const uint64_t *x, uint64_t *work)
{
    const size_t n = batch(m);
    m->kernel->add(m, z + n, z + n, x + n);
    if (m->lanes > 1) { /* the vector kernel does not reduce */
        m->kernel->add(m, z, z, x);
        return;
    }
    uint64_t *sum = work, *spare = sum + n;
    m->kernel->add(m, sum, z, x);
    memset(spare, 0, n * sizeof *spare);
    spare[0] =
        mpn_sub_n((mp_limb_t *)(spare + n), (mp_limb_t *)sum, (mp_limb_t *)z, (mp_size_t)m->limbs);
    m->kernel->add(m, z + n, z + n, spare);
    memcpy(z, sum, n * sizeof *z);
}

/* ---- set-up ---------------------------------------------------------------------------------- */

size_t pair_memory(unsigned limbs, const mont_kernel *kernel)
{
    const mont_kernel *k = kernel ? kernel : mont_kernel_best();
    unsigned words = k->radix_bits == 64 ? limbs : ((limbs * 64 + 8 + 51) / 52 + 3) / 4 * 4;
    return mont_memory(limbs, kernel) +
           2 * (size_t)PAIR_POWERS * (((size_t)words * k->lanes + 7) / 8 * 8 + APART);
}

/* x (2n limbs, below p^2) as x0 + x1*p. */
static void split(const mont *m, uint64_t *x0, uint64_t *x1, const uint64_t *x)
{
    const mp_size_t n = (mp_size_t)m->limbs;
    mp_limb_t tmp[4 * MONT_LIMBS_MAX];
    uint64_t inv[MONT_LIMBS_MAX];
    uint8_t bytes[MONT_LIMBS_MAX * 8];
    uint64_t a[MONT_BATCH_MAX] __attribute__((aligned(64)));
    uint64_t b[MONT_BATCH_MAX] __attribute__((aligned(64)));
    for (mp_size_t i = 0; i < 2 * n; i++)
        store_u64(bytes + 8 * i, x[i]);
    mont_load_wide(m, a, bytes, 0, 16 * (size_t)n, 1, b);
    mont_mul(m, a, a, m->one);
    mont_store(m, bytes, 0, 8 * (size_t)n, a, 1);
    for (mp_size_t i = 0; i < n; i++)
        x0[i] = load_u64(bytes + 8 * i);
    mont_inverse(inv, m->limb, m->limbs); /* (x - x0) / p, from the low half alone */
    mp_limb_t low[MONT_LIMBS_MAX], quotient[2 * MONT_LIMBS_MAX];
    mpn_sub_n(low, (const mp_limb_t *)x, (const mp_limb_t *)x0, n);
    mpn_sec_mul(quotient, low, n, (const mp_limb_t *)inv, n, tmp);
    memcpy(x1, quotient, (size_t)n * sizeof *x1);
    sefl_wipe(inv, sizeof inv);
    sefl_wipe(tmp, sizeof tmp);
    sefl_wipe(bytes, sizeof bytes);
    sefl_wipe(a, sizeof a);
    sefl_wipe(b, sizeof b);
    sefl_wipe(low, sizeof low);
    sefl_wipe(quotient, sizeof quotient);
}

/* A number below p in every lane. */
static void spread(const mont *m, uint64_t *z, const uint64_t *limbs)
{
    uint8_t bytes[MONT_LIMBS_MAX * 8];
    for (unsigned i = 0; i < m->limbs; i++)
        store_u64(bytes + 8 * i, limbs[i]);
    mont_load(m, z, bytes, 0, 8 * (size_t)m->limbs, m->lanes);
    sefl_wipe(bytes, sizeof bytes);
}

sefl_status pair_init(mont_pair *p, const uint64_t *modulus, unsigned limbs,
                      const mont_kernel *kernel, uint64_t *memory)
{
    sefl_status st = SEFL_OK;
    mont_pair out = { 0 };
    mp_limb_t square[MONT_LIMBS_MAX], tmp[4 * MONT_LIMBS_MAX];
    uint64_t rr[MONT_LIMBS_MAX], x0[MONT_LIMBS_MAX], x1[MONT_LIMBS_MAX], *work = NULL;
    size_t mont_words = mont_memory(limbs, kernel), words = pair_memory(limbs, kernel), n = 0;
    assert(2 * limbs <= MONT_LIMBS_MAX && mpn_sec_mul_itch(limbs, limbs) <= 4 * MONT_LIMBS_MAX);
    if (!memory) {
        SEFL_TRY(sefl_new(&out.own, words, sizeof *out.own));
        out.own_words = words;
        memory = out.own;
    }
    SEFL_TRY(mont_init(&out.m, modulus, limbs, kernel, memory));
    n = batch(&out.m);
    SEFL_TRY(sefl_new(&work, WORK, n * sizeof *work));
    for (int i = 0; i < PAIR_POWERS; i++)
        out.power[i] = memory + mont_words + 2 * n * (size_t)i;
    mpn_sec_mul(square, (const mp_limb_t *)modulus, (mp_size_t)limbs, (const mp_limb_t *)modulus,
                (mp_size_t)limbs, tmp);
    mont_power_of_two(rr, (const uint64_t *)square, 2 * limbs,
                      2 * out.m.kernel->radix_bits * out.m.words);
    split(&out.m, x0, x1, rr);
    spread(&out.m, out.power[0], x0);
    spread(&out.m, out.power[0] + n, x1);
    for (int i = 1; i < PAIR_POWERS; i++)
        mul(&out.m, out.power[i], out.power[i - 1], out.power[0], work);
    *p = out, out = (mont_pair){ 0 };
done:
    sefl_wipe(square, sizeof square);
    sefl_wipe(tmp, sizeof tmp);
    sefl_wipe(rr, sizeof rr);
    sefl_wipe(x0, sizeof x0);
    sefl_wipe(x1, sizeof x1);
    sefl_free_secret(work, WORK * n * sizeof *work);
    pair_clear(&out);
    return st;
}

void pair_clear(mont_pair *p)
{
    mont_clear(&p->m);
    sefl_free_secret(p->own, p->own_words * sizeof *p->own);
    *p = (mont_pair){ 0 };
}

/* ---- powers ---------------------------------------------------------------------------------- */

size_t pair_scratch(const mont_pair *p)
{
    return (2 * ((size_t)1 << W) + 4 + WORK) * batch(&p->m);
}

/* z = c*R modulo p^2, c in pieces below R: c = sum of c_i R^i. */
static void load(const mont_pair *p, uint64_t *z, const uint8_t *c, size_t c_bytes, unsigned count,
                 uint64_t *part, uint64_t *work)
{
    const mont *m = &p->m;
    for (unsigned i = 0; i < PAIR_POWERS; i++) {
        m->kernel->load(m, part, c, c_bytes, c_bytes, i * m->words, count);
        mul_low(m, i == 0 ? z : part, part, p->power[i], work);
        if (i > 0)
            pair_add(m, z, part, work);
    }
}

void pair_pow(const mont_pair *p, uint8_t *lo, uint8_t *hi, size_t stride, size_t n,
              const uint8_t *c, size_t c_bytes, unsigned count, const uint64_t *e,
              unsigned exp_limbs, uint64_t *scratch)
{
    const mont *m = &p->m;
    const size_t one = 2 * batch(m); /* words of a pair */
    uint64_t *table = scratch, *z = table + (one << W), *pick = z + one, *work = pick + one;
    assert(c_bytes <= (size_t)m->limbs * 32 && count <= m->lanes);
    memset(pick, 0, one * sizeof *pick); /* 1*R */
    mul_low(m, table, m->one, p->power[0], work);
    load(p, table + one, c, c_bytes, count, pick, work);
    for (unsigned i = 2; i < 1 << W; i++)
        mul(m, table + i * one, table + (i - 1) * one, table + one, work);
    unsigned windows = (64 * exp_limbs + W - 1) / W;
    for (unsigned i = windows; i-- > 0;) {
        uint64_t digit = mont_pow_digit(e, exp_limbs, i);
        m->kernel->select(m, pick, table, 1 << W, one, digit);
        m->kernel->select(m, pick + one / 2, table + one / 2, 1 << W, one, digit);
        if (i == windows - 1) {
            memcpy(z, pick, one * sizeof *z);
            continue;
        }
        for (int k = 0; k < W; k++)
            sqr(m, z, work);
        mul(m, z, z, pick, work);
    }
    memcpy(pick, m->one, mont_batch_words(m) * sizeof *pick); /* out of Montgomery's form */
    mul_low(m, pick, pick, z, work);
    if (lo)
        mont_store(m, lo, stride, n, pick, count);
    mont_store(m, hi, stride, n, pick + one / 2, count);
}
