/* circ_blocks: circuits that only tests build: arithmetic modulo 2^k on numbers of k bits, least
 * significant bit first, and the sampler with an addend. z may equal x or y everywhere. Costs are
 * numbers of ANDs for inputs that are not constant. */
#ifndef SUPPORT_CIRC_BLOCKS_H
#define SUPPORT_CIRC_BLOCKS_H

#include "mpc/circuits/arith.h"
#include "mpc/circuits/sampler.h"

enum { SAMPLER_MAX_RING = 32 };

/* z = x + y + carry; if neg, inverts y first. Returns the carry out (0 unless carry_out). */
static inline circ_wire circ_ripple(circ_builder *b, circ_wire *z, const circ_wire *x,
                                    const circ_wire *y, size_t k, circ_wire carry, bool neg,
                                    bool carry_out)
{
    for (size_t i = 0; i < k; i++) {
        circ_wire v = neg ? circ_not(b, y[i]) : y[i], u = x[i], next = circ_const(b, false);
        bool want = i + 1 < k || carry_out;
        /* carry first: if it is a constant, the AND becomes x & y or x | y, still one gate */
        circ_wire sum = circ_full_add(b, want ? &next : NULL, carry, u, v);
        if (z)
            z[i] = sum;
        carry = next;
    }
    return carry;
}

/* z = x + y: k - 1. */
static inline void circ_add(circ_builder *b, circ_wire *z, const circ_wire *x, const circ_wire *y,
                            size_t k)
{
    circ_ripple(b, z, x, y, k, circ_const(b, false), false, false);
}

/* z = x - y: k - 1. */
static inline void circ_sub(circ_builder *b, circ_wire *z, const circ_wire *x, const circ_wire *y,
                            size_t k)
{
    circ_ripple(b, z, x, y, k, circ_const(b, true), true, false);
}

/* x < y, unsigned: k. */
static inline circ_wire circ_less(circ_builder *b, const circ_wire *x, const circ_wire *y, size_t k)
{
    return circ_not(b, circ_ripple(b, NULL, x, y, k, circ_const(b, true), true, true));
}

/* z = sel ? x : y, bit by bit: k. */
static inline void circ_mux(circ_builder *b, circ_wire *z, circ_wire sel, const circ_wire *x,
                            const circ_wire *y, size_t k)
{
    for (size_t i = 0; i < k; i++)
        z[i] = circ_xor(b, y[i], circ_and(b, sel, circ_xor(b, x[i], y[i])));
}

/* z = n + X mod 2^k, sampler_bits(p) <= k <= SAMPLER_MAX_RING; G44 at k = 16: 44 ANDs.
 * Inputs: n[0..k-1] (evaluator), r (joint); outputs: z[0..k-1]. */
static inline sefl_status sampler_circuit(circuit **out, const sampler_profile *p, unsigned k)
{
    sefl_status st = SEFL_OK;
    circ_builder *b = NULL;
    circ_columns *cols = NULL;
    circ_wire n[SAMPLER_MAX_RING], z[SAMPLER_MAX_RING], r[SAMPLER_MAX_COINS];
    *out = NULL;
    SEFL_TRY(sampler_check(p));
    SEFL_CHECK(k >= sampler_bits(p) && k <= SAMPLER_MAX_RING, SEFL_EINVAL,
               "sampler %s: ring of %u bits, %u to %d wanted", p->name, k, sampler_bits(p),
               SAMPLER_MAX_RING);
    SEFL_TRY(circ_builder_new(&b));
    SEFL_TRY(circ_columns_new(&cols, k));
    circ_inputs(b, n, k, CIRC_EVALUATOR);
    circ_inputs(b, r, sampler_random_bits(p), CIRC_JOINT);
    for (unsigned c = 0; c < k; c++)
        circ_columns_put(cols, c, n[c]);
    sampler_put(b, cols, r, p);
    circ_columns_sum(b, cols, z);
    circ_outputs(b, z, k);
    st = circ_finish(b, out);
    b = NULL;
done:
    circ_builder_free(b);
    circ_columns_free(cols);
    return st;
}

#endif
