/* ct: arithmetic on secrets without branches, secret indices or early exits.
 *
 *     uint64_t mask = ct_mask_u64(bit);                  // bit is 0 or 1, secret
 *     label = ct_select_u64(mask, one, zero);
 *     CT_PUBLIC(&ok, sizeof ok);                         // the peer learns ok from our answer
 *
 * A value barrier keeps the compiler from seeing that a mask is 0 or -1 and turning the selection
 * back into a branch. CT_SECRET and CT_PUBLIC are nothing in normal builds; in the `ctime` build
 * they mark memory undefined or defined for valgrind, which then reports every branch or address
 * that depends on a secret. Every CT_PUBLIC carries its reason.
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

/* 0 -> 0, 1 -> all ones. bit must be 0 or 1. */
static inline uint64_t ct_mask_u64(uint64_t bit)
{
    return 0 - ct_barrier_u64(bit);
}

/* mask all ones: a; mask zero: b. */
static inline uint64_t ct_select_u64(uint64_t mask, uint64_t a, uint64_t b)
{
    return (a & mask) | (b & ~mask);
}

/* 1 if x is zero, else 0. */
static inline uint64_t ct_is_zero_u64(uint64_t x)
{
    x = ct_barrier_u64(x);
    return 1 ^ ((x | (0 - x)) >> 63);
}

/* 1 if a == b, else 0. */
static inline uint64_t ct_eq_u64(uint64_t a, uint64_t b)
{
    return ct_is_zero_u64(a ^ b);
}

/* 1 if a < b (unsigned), else 0. */
static inline uint64_t ct_lt_u64(uint64_t a, uint64_t b)
{
    a = ct_barrier_u64(a);
    return (a ^ ((a ^ b) | ((a - b) ^ b))) >> 63;
}

/* 1 if the n bytes are equal, else 0; time depends on n only. */
uint64_t ct_eq_bytes(const void *a, const void *b, size_t n);

/* Copies n bytes of src over dst if bit is 1, leaves dst if bit is 0. */
void ct_copy_if(uint64_t bit, void *dst, const void *src, size_t n);

/* Swaps the n bytes of a and b if bit is 1. */
void ct_swap_if(uint64_t bit, void *a, void *b, size_t n);

/* Zeroes memory in a way the compiler cannot remove. */
void sefl_wipe(void *p, size_t n);

#endif
