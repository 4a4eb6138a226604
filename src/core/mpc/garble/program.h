/* program: a circuit's gate list with adders fused, for the fast kernels.
 *
 * A full adder is five consecutive gates (x^y, x^d, AND, two XORs), and a half adder is two. A
 * fused step reads the inputs once and keeps intermediate values in registers. The order and number
 * of ANDs stay the same, so tables and tweaks do not change. The plain kernel processes the unfused
 * gates, and tests compare the other kernels with it.
 *
 * Threads: may be shared once made. */
#ifndef MPC_GARBLE_PROGRAM_H
#define MPC_GARBLE_PROGRAM_H

#include "mpc/circuits/circuit.h"

typedef enum gc_step_kind {
    GC_XOR, /* dst = a ^ b */
    GC_AND, /* dst = a & b */
    GC_HA,  /* dst = a & b, sum = a ^ b */
    GC_FA,  /* dst = a ^ (first & second), sum = a ^ b ^ d; first = a ^ b, second = a ^ d */
    GC_FA2, /* GC_FA with the inputs of its AND swapped */
} gc_step_kind;

typedef struct gc_step {
    uint16_t kind, dst, sum, a, b, d;
} gc_step;

typedef struct gc_program {
    gc_step *step;
    uint32_t steps;
} gc_program;

sefl_status gc_program_init(gc_program *p, const circuit *c) SEFL_MUST_CHECK;
void gc_program_clear(gc_program *p);

#endif
