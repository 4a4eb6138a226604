/* circuit: represents a Boolean function as a flat list of XOR and AND gates, and builds it.
 *
 *     circ_builder *b;
 *     SEFL_TRY(circ_builder_new(&b));
 *     circ_wire x[8], y[8], z[8];
 *     circ_inputs(b, x, 8, CIRC_GARBLER);
 *     circ_inputs(b, y, 8, CIRC_EVALUATOR);
 *     for (int i = 0; i < 8; i++)
 *         z[i] = circ_and(b, x[i], y[i]);
 *     circ_outputs(b, z, 8);
 *     SEFL_TRY(circ_finish(b, &circuit));            // frees b, reports the first error
 *
 * A circuit runs in the clear (plain.h) or is garbled and evaluated (mpc/garble). Garbled XOR and
 * NOT gates are free; an AND costs 32 bytes and a few AES calls, so `ands` measures the cost.
 *
 * A circuit works on slots, each of which holds one wire. Slot 0 holds the constant 1; slots 1 to
 * `inputs` hold the inputs and are never written. The other slots are reused when their wire is no
 * longer needed, so that many copies fit in the first-level cache. NOT is XOR with slot 0. Every
 * gate comes after the gates whose results it reads.
 *
 * Builder calls cannot fail: after an error every wire is the constant 0, and circ_finish returns
 * the error. Constants are folded (x^x, x&x, x&~x, x&0, ...), so no AND has a constant input. Gates
 * that reach no output are dropped.
 *
 * Secret: nothing; circuits are public.   Threads: a finished circuit may be shared. */
#ifndef MPC_CIRCUITS_CIRCUIT_H
#define MPC_CIRCUITS_CIRCUIT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who provides an input. */
typedef enum circ_kind {
    CIRC_GARBLER,   /* a bit from the garbler */
    CIRC_EVALUATOR, /* a bit from the evaluator */
    CIRC_JOINT,     /* random: the XOR of one bit from each side, known to neither */
    CIRC_KINDS
} circ_kind;

typedef enum circ_op { CIRC_XOR, CIRC_AND } circ_op;

typedef struct circ_gate {
    uint16_t op;  /* circ_op */
    uint16_t dst; /* slot > inputs */
    uint16_t a, b;
} circ_gate;

enum { CIRC_MAX_SLOTS = 65535 };

typedef struct circuit {
    uint32_t inputs, outputs, gates, ands;
    uint32_t slots;  /* constant, inputs and scratch */
    uint8_t *kind;   /* (inputs): circ_kind */
    uint16_t *out;   /* (outputs): slot of each output when all gates have run */
    circ_gate *gate; /* (gates) */
} circuit;

void circuit_free(circuit *c);

/* SEFL_EINVAL unless all slots are in range and are written before they are read, no gate writes an
 * input, and the counts match. A circuit from circ_finish is always valid. */
sefl_status circuit_validate(const circuit *c) SEFL_MUST_CHECK;

/* ---- building ----------------------------------------------------------------------------- */

typedef struct circ_builder circ_builder;
typedef uint32_t circ_wire; /* valid only in the builder that made it */

sefl_status circ_builder_new(circ_builder **out) SEFL_MUST_CHECK;
void circ_builder_free(circ_builder *b);

/* Inputs are numbered in the order of these calls. */
circ_wire circ_input(circ_builder *b, circ_kind kind);
void circ_inputs(circ_builder *b, circ_wire *w, size_t n, circ_kind kind);

circ_wire circ_const(circ_builder *b, bool one);
circ_wire circ_xor(circ_builder *b, circ_wire x, circ_wire y);
circ_wire circ_and(circ_builder *b, circ_wire x, circ_wire y);
circ_wire circ_not(circ_builder *b, circ_wire x);

/* Outputs are numbered in the order of these calls; a wire may be an output twice. */
void circ_output(circ_builder *b, circ_wire w);
void circ_outputs(circ_builder *b, const circ_wire *w, size_t n);

/* Builds the circuit and frees b, even on failure. */
sefl_status circ_finish(circ_builder *b, circuit **out) SEFL_MUST_CHECK;

#endif
