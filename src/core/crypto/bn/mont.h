/* mont: Montgomery arithmetic modulo an odd number of up to 8192 bits, on several numbers at once.
 *
 * A *batch* holds `lanes` numbers (8 in AVX-512 IFMA, 1 in the portable kernel), word by word:
 * x[word * lanes + lane]. To callers, a batch is an opaque 64-byte-aligned array of
 * mont_batch_words(m) words. A row (mont_gather, mont_scatter) is a single lane, for use in tables.
 *
 *     mont_init(&m, modulus, limbs, NULL, NULL);
 *     mont_load(&m, x, bytes, stride, n, count);   // ordinary form, any value below 2^(64*limbs)
 *     mont_mul(&m, z, x, y);                       // z = x*y/R mod m in every lane
 *     mont_store(&m, bytes, stride, n, z, count);  // fully reduced
 *
 * R is 2^(64*limbs) or 2^(52*words), depending on the kernel. Ordinary form and stored bytes are
 * the same for all kernels; values that still contain a power of R differ. Results of mont_mul,
 * mont_sqr and mont_to are valid inputs of every function. Loaded numbers are too, but at least one
 * factor of a product must be such a result or below the modulus. Secret: numbers and the modulus.
 * Public: sizes, lane counts, the kernel. Constant-time. Threads: a mont is read-only once made. */
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
    /* mul that also prefetches one row per lane, a few cache lines at a time, since many prefetches
     * would fill the queue */
    void (*mul_fetch)(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y,
                      const uint64_t *const *rows);
    void (*sqr)(const mont *m, uint64_t *z, const uint64_t *x);
    /* For pair.h. To divide by R, mul_rest adds q*m; it also returns rest = (R - 1 - q) + fix, a
     * batch with one extra word, where fix = 1 - R mod m. So rest = -q modulo m. mul_add: z =
     * (x*y + rest)/R mod m. */
    void (*mul_rest)(const mont *m, uint64_t *z, uint64_t *rest, const uint64_t *x,
                     const uint64_t *y);
    void (*mul_add)(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y,
                    const uint64_t *rest);
    void (*add)(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y);
    /* loads numbers of byte_count bytes, but only their words from first_word on */
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
    unsigned lanes, words; /* lanes of the kernel; words per lane */
    unsigned limbs;        /* 64-bit limbs of the modulus */
    uint64_t k;            /* -1/modulus mod 2^64 (or its low 52 bits) */
    uint64_t *block;       /* memory of the pointers below; mont_clear wipes it */
    size_t block_words;
    bool owned;         /* mont_clear frees the block */
    uint64_t *limb;     /* modulus in limbs */
    uint64_t *word;     /* modulus in words, one lane */
    uint64_t *one;      /* batch of ones in ordinary form */
    uint64_t *rr, *rrr; /* batches: R^2, R^3 mod m */
    uint64_t *fix;      /* 1 - R mod m, in words, one lane */
};

/* Returns a NULL-terminated list of this machine's kernels, from the portable to the best one. */
const mont_kernel *const *mont_kernels(void);
/* Returns the fastest kernel that this machine supports. */
const mont_kernel *mont_kernel_best(void);

/* Returns the number of 64-bit words for the constants of a modulus, a multiple of 8. */
size_t mont_memory(unsigned limbs, const mont_kernel *kernel);

/* modulus is odd and greater than 1; its top limb is not 0. A NULL kernel means the best one.
 * memory is NULL (heap), or mont_memory() zeroed words, 64-byte-aligned, that outlive m. */
sefl_status mont_init(mont *m, const uint64_t *modulus, unsigned limbs, const mont_kernel *kernel,
                      uint64_t *memory) SEFL_MUST_CHECK;
/* Like mont_init, for a public modulus; about 100 times as fast. */
sefl_status mont_init_vartime(mont *m, const uint64_t *modulus, unsigned limbs,
                              const mont_kernel *kernel, uint64_t *memory) SEFL_MUST_CHECK;
/* Sets z = 1/x modulo 2^(64*limbs), x odd. Constant-time. */
void mont_inverse(uint64_t *z, const uint64_t *x, unsigned limbs);

/* Sets z = 2^exp mod `modulus`; both have `limbs` limbs. Constant-time. */
void mont_power_of_two(uint64_t *z, const uint64_t *modulus, unsigned limbs, unsigned exp);

/* Wipes and frees the constants; m may be all zero. */
void mont_clear(mont *m);

static inline size_t mont_batch_words(const mont *m)
{
    return (size_t)m->words * m->lanes;
}

/* Loads count <= lanes numbers of byte_count <= 8*limbs little-endian bytes, `stride` bytes apart;
 * the other lanes become 0. */
void mont_load(const mont *m, uint64_t *z, const uint8_t *bytes, size_t stride, size_t byte_count,
               unsigned count);

/* Loads numbers of up to twice the length (byte_count <= 16*limbs) into Montgomery form: z = x*R
 * mod m. tmp: one batch. */
void mont_load_wide(const mont *m, uint64_t *z, const uint8_t *bytes, size_t stride,
                    size_t byte_count, unsigned count, uint64_t *tmp);

/* Stores the first count lanes, fully reduced; byte_count <= 8*limbs, enough for the modulus. */
void mont_store(const mont *m, uint8_t *bytes, size_t stride, size_t byte_count, const uint64_t *x,
                unsigned count);

static inline void mont_mul(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y)
{
    m->kernel->mul(m, z, x, y); /* z may be x or y */
}

/* mont_mul that also prefetches the rows of a later mont_gather. */
static inline void mont_mul_fetch(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *y,
                                  const uint64_t *const *rows)
{
    m->kernel->mul_fetch(m, z, x, y, rows);
}

static inline void mont_sqr(const mont *m, uint64_t *z, const uint64_t *x)
{
    m->kernel->sqr(m, z, x);
}

/* Converts to Montgomery form: z = x*R mod m. mont_mul(z, x, m->one) converts back. */
static inline void mont_to(const mont *m, uint64_t *z, const uint64_t *x)
{
    m->kernel->mul(m, z, x, m->rr);
}

/* Gather one row per lane into a batch; scatter a batch into rows. A row has m->words words, starts
 * at a cache line and is padded to a multiple of 8 words. */
static inline void mont_gather(const mont *m, uint64_t *z, const uint64_t *const *rows)
{
    m->kernel->gather(m, z, rows);
}
void mont_scatter(const mont *m, uint64_t *const *rows, const uint64_t *x, unsigned count);

/* Sets z = x^e in Montgomery form (x = a*R gives a^e * R), with one exponent of exp_limbs limbs for
 * all lanes. Reads the whole table for each 5-bit window. scratch: MONT_POW_BATCHES batches. */
enum { MONT_POW_WINDOW = 5, MONT_POW_BATCHES = (1 << MONT_POW_WINDOW) + 1 };
void mont_pow(const mont *m, uint64_t *z, const uint64_t *x, const uint64_t *e, unsigned exp_limbs,
              uint64_t *scratch);

/* Returns window `i` of an exponent, counted from its low end. Secret: the result. */
static inline uint64_t mont_pow_digit(const uint64_t *e, unsigned exp_limbs, unsigned i)
{
    unsigned at = i * MONT_POW_WINDOW / 64, shift = i * MONT_POW_WINDOW % 64;
    uint64_t digit = e[at] >> shift;
    if (shift + MONT_POW_WINDOW > 64 && at + 1 < exp_limbs)
        digit |= e[at + 1] << (64 - shift);
    return digit & ((1 << MONT_POW_WINDOW) - 1);
}

/* Returns a public mask: bit i is set if number i is 0 modulo m. The numbers are below m^2 and have
 * byte_count <= 16*limbs bytes, `stride` apart. tmp: two batches. Cost: one mont_mul. */
unsigned mont_multiples(const mont *m, const uint8_t *bytes, size_t stride, size_t byte_count,
                        unsigned count, uint64_t *tmp);

#endif
