/* mont: Montgomery arithmetic modulo an odd number of up to 8192 bits, several numbers side by
 * side.
 *
 * A *batch* holds `lanes` numbers (8 in AVX-512 IFMA, 1 in the portable kernel), word by word:
 * x[word * lanes + lane]. Callers hold batches as 64-byte aligned arrays of mont_batch_words(m)
 * words and never look inside; rows (mont_gather, mont_scatter) are single lanes, for tables.
 *
 *     mont_init(&m, modulus, limbs, NULL, NULL);
 *     mont_load(&m, x, bytes, stride, n, count);   // ordinary form, any value below 2^(64*limbs)
 *     mont_mul(&m, z, x, y);                       // z = x*y/R mod m in every lane
 *     mont_store(&m, bytes, stride, n, z, count);  // fully reduced
 *
 * R is 2^(64*limbs) or 2^(52*words), by kernel: ordinary form, rows and stored bytes are the same
 * for all kernels, anything that still carries a power of R is not.
 * Range: results of mul, sqr and to are valid inputs of every function here; so are loaded numbers,
 * of which at least one factor must be a result or below the modulus.
 * Secret: numbers, the modulus too. Public: sizes, lane counts, which kernel. Constant-time.
 * Threads: a mont is read-only once made. */
#ifndef CRYPTO_BN_MONT_H
#define CRYPTO_BN_MONT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MONT_LIMBS_MAX = 128, /* 8192 bits */
    MONT_LANES_MAX = 8,
    MONT_WORDS_MAX = 160, /* 52-bit digits of 8192 bits, rounded up to a multiple of 4 */
    MONT_BATCH_MAX = MONT_WORDS_MAX * MONT_LANES_MAX,
};

typedef struct mont mont;

typedef struct mont_kernel {
    const char *name;
    unsigned lanes;
    unsigned radix_bits; /* 64 or 52 */
    void (*mul)(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y);
    /* the same; meanwhile prefetches one row per lane, a few cache lines at a time: more at once
     * would wait for each other */
    void (*mul_fetch)(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y,
                      const uint64_t *const *rows);
    void (*sqr)(const mont *m, uint64_t *z, const uint64_t *x);
    /* For pair.h. To divide by R, mul_rest adds q*m; it returns rest = (R - 1 - q) + fix, as a
     * batch with one word more, fix = 1 - R mod m. So rest = -q modulo m. mul_add: z = (x*y +
     * rest)/R mod m. */
    void (*mul_rest)(const mont *m, uint64_t *z, uint64_t *rest, const uint64_t *x,
                     const uint64_t *y);
    void (*mul_add)(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y,
                    const uint64_t *rest);
    void (*add)(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y);
    /* words first_word... of numbers of byte_count bytes */
    void (*load)(const mont *m, uint64_t *z, const uint8_t *bytes, size_t stride, size_t byte_count,
                 unsigned first_word, unsigned count);
    void (*store)(const mont *m, uint8_t *bytes, size_t stride, size_t byte_count,
                  const uint64_t *x, unsigned count);
    void (*gather)(const mont *m, uint64_t *z, const uint64_t *const *rows);
    /* z = entry `index` of a table of batches, `stride` words apart; reads all of it */
    void (*select)(const mont *m, uint64_t *z, const uint64_t *table, unsigned entries,
                   size_t stride, uint64_t index);
} mont_kernel;

struct mont {
    const mont_kernel *kernel;
    unsigned lanes, words; /* of the kernel; words a lane */
    unsigned limbs;        /* 64-bit limbs of the modulus */
    uint64_t k;            /* -1/modulus mod 2^64 (or its low 52 bits) */
    uint64_t *block;       /* everything below, one block, wiped by mont_clear */
    size_t block_words;
    bool owned;         /* the block is ours to free */
    uint64_t *limb;     /* modulus in limbs */
    uint64_t *word;     /* modulus in words, one lane */
    uint64_t *one;      /* batch: 1 (ordinary) */
    uint64_t *rr, *rrr; /* batches: R^2, R^3 mod m */
    uint64_t *fix;      /* 1 - R mod m, in words, one lane */
};

/* The kernels of this machine, best last; NULL-terminated list. The first is portable. */
const mont_kernel *const *mont_kernels(void);
/* The best one. */
const mont_kernel *mont_kernel_best(void);

/* 64-bit words of memory that the constants for a modulus of this length take; a multiple of 8. */
size_t mont_memory(unsigned limbs, const mont_kernel *kernel);

/* modulus: odd, above 1, top limb non-zero. kernel NULL: the best. memory NULL: on the heap; else
 * mont_memory() words of the caller's, zeroed, 64-byte aligned, that outlive m. */
sefl_status mont_init(mont *m, const uint64_t *modulus, unsigned limbs, const mont_kernel *kernel,
                      uint64_t *memory) SEFL_MUST_CHECK;
/* The same for a modulus that is public: 100 times as fast. */
sefl_status mont_init_vartime(mont *m, const uint64_t *modulus, unsigned limbs,
                              const mont_kernel *kernel, uint64_t *memory) SEFL_MUST_CHECK;
/* z = 1/x modulo 2^(64*limbs), x odd. Constant-time. */
void mont_inverse(uint64_t *z, const uint64_t *x, unsigned limbs);

/* z = 2^exp mod `modulus`, limbs limbs. Constant-time. */
void mont_power_of_two(uint64_t *z, const uint64_t *modulus, unsigned limbs, unsigned exp);

/* Wipes. A zeroed mont is fine. */
void mont_clear(mont *m);

static inline size_t mont_batch_words(const mont *m)
{
    return (size_t)m->words * m->lanes;
}

/* count <= lanes numbers of byte_count <= 8*limbs little-endian bytes, `stride` bytes apart; the
 * other lanes become 0. */
void mont_load(const mont *m, uint64_t *z, const uint8_t *bytes, size_t stride, size_t byte_count,
               unsigned count);

/* Numbers of up to twice the length (byte_count <= 16*limbs), into Montgomery form: z = x*R mod m.
 * tmp: one batch. */
void mont_load_wide(const mont *m, uint64_t *z, const uint8_t *bytes, size_t stride,
                    size_t byte_count, unsigned count, uint64_t *tmp);

/* The first count lanes, fully reduced; byte_count holds the modulus and is at most 8*limbs. */
void mont_store(const mont *m, uint8_t *bytes, size_t stride, size_t byte_count, const uint64_t *x,
                unsigned count);

static inline void mont_mul(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y)
{
    m->kernel->mul(m, z, x, y); /* z may be x or y */
}

/* mont_mul, prefetching the rows of a later mont_gather. */
static inline void mont_mul_fetch(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y,
                                  const uint64_t *const *rows)
{
    m->kernel->mul_fetch(m, z, x, y, rows);
}

static inline void mont_sqr(const mont *m, uint64_t *z, const uint64_t *x)
{
    m->kernel->sqr(m, z, x);
}

/* z = x*R mod m: into Montgomery form. mont_mul(z, x, m->one) is the way out. */
static inline void mont_to(const mont *m, uint64_t *z, const uint64_t *x)
{
    m->kernel->mul(m, z, x, m->rr);
}

/* One row per lane into a batch; a batch into rows. A row has m->words words, begins a cache line
 * and is padded to a multiple of 8 words. */
static inline void mont_gather(const mont *m, uint64_t *z, const uint64_t *const *rows)
{
    m->kernel->gather(m, z, rows);
}
void mont_scatter(const mont *m, uint64_t *const *rows, const uint64_t *x, unsigned count);

/* z = x^e in Montgomery form (x = a*R gives a^e * R), the same exponent of exp_limbs limbs in every
 * lane, 5-bit windows, table scanned whole. scratch: MONT_POW_BATCHES batches. */
enum { MONT_POW_WINDOW = 5, MONT_POW_BATCHES = (1 << MONT_POW_WINDOW) + 1 };
void mont_pow(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *e, unsigned exp_limbs,
              uint64_t *scratch);

/* Window `i` of an exponent, counted from its low end. The position is public, the digit is not. */
static inline uint64_t mont_pow_digit(const uint64_t *e, unsigned exp_limbs, unsigned i)
{
    unsigned at = i * MONT_POW_WINDOW / 64, shift = i * MONT_POW_WINDOW % 64;
    uint64_t digit = e[at] >> shift;
    if (shift + MONT_POW_WINDOW > 64 && at + 1 < exp_limbs)
        digit |= e[at + 1] << (64 - shift);
    return digit & ((1 << MONT_POW_WINDOW) - 1);
}

/* Bit i is set if number i is 0 modulo m. count numbers below m^2 of byte_count <= 16*limbs bytes,
 * `stride` apart. tmp: two batches. Costs about one mont_mul. The answer is public. */
unsigned mont_multiples(const mont *m, const uint8_t *bytes, size_t stride, size_t byte_count,
                        unsigned count, uint64_t *tmp);

#endif
