/* ct: constant-time operations: no branch, index or early exit depends on a secret.
 *
 *     uint64_t mask = ct_mask_u64(bit);                  // bit is 0 or 1, secret
 *     label = ct_select_u64(mask, one, zero);
 *     CT_PUBLIC(&ok, sizeof ok);                         // the peer learns ok from our answer
 *
 * A value barrier hides from the compiler that a mask is 0 or -1; otherwise the compiler could turn
 * the selection back into a branch. CT_SECRET and CT_PUBLIC do nothing in normal builds. In the
 * `ctime` build they mark memory as undefined or defined for valgrind, which then reports every
 * branch or address that depends on a secret. A comment justifies every CT_PUBLIC.
 *
 * Secret: all values. Public: all lengths. */
#ifndef BASE_CT_H
#define BASE_CT_H

#include <stddef.h>
#include <stdint.h>

#if SEFL_CTIME
#include <valgrind/memcheck.h>
#define CT_SECRET(p, n) ((void)VALGRIND_MAKE_MEM_UNDEFINED((p), (n)))
#define CT_PUBLIC(p, n) ((void)VALGRIND_MAKE_MEM_DEFINED((p), (n)))
#else
#define CT_SECRET(p, n) ((void)(p), (void)(n))
#define CT_PUBLIC(p, n) ((void)(p), (void)(n))
#endif

static inline uint64_t ct_barrier_u64(uint64_t x)
{
    __asm__("" : "+r"(x));
    return x;
}

/* Returns all ones if bit is 1, zero if bit is 0. */
static inline uint64_t ct_mask_u64(uint64_t bit)
{
    return 0 - ct_barrier_u64(bit);
}

/* Returns a if mask is all ones, b if mask is zero. */
static inline uint64_t ct_select_u64(uint64_t mask, uint64_t a, uint64_t b)
{
    return (a & mask) | (b & ~mask);
}

/* Returns 1 if x is zero, else 0. */
static inline uint64_t ct_is_zero_u64(uint64_t x)
{
    x = ct_barrier_u64(x);
    return 1 ^ ((x | (0 - x)) >> 63);
}

/* Returns 1 if a == b, else 0. */
static inline uint64_t ct_eq_u64(uint64_t a, uint64_t b)
{
    return ct_is_zero_u64(a ^ b);
}

/* Returns 1 if the n bytes are equal, else 0; the time depends only on n. */
uint64_t ct_eq_bytes(const void *a, const void *b, size_t n);

/* Copies n bytes from src to dst if bit is 1; leaves dst unchanged if bit is 0. */
void ct_copy_if(uint64_t bit, void *dst, const void *src, size_t n);

/* Swaps the n bytes of a and b if bit is 1. */
void ct_swap_if(uint64_t bit, void *a, void *b, size_t n);

/* Zeroes memory; the compiler cannot optimise this away. */
void sefl_wipe(void *p, size_t n);

#endif
