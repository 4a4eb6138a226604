/* kernel: the implementations that garble.c chooses from; internal to garble/. */
#ifndef MPC_GARBLE_KERNEL_H
#define MPC_GARBLE_KERNEL_H

#include "mpc/garble/garble.h"
#include "mpc/garble/program.h"

typedef struct gc_job {
    const circuit *c;
    const gc_program *program; /* made from c; the plain kernel uses c instead */
    const uint8_t **slot;  /* (slots): address of each wire's 16 labels; the caller owns inputs */
    uint8_t *scratch;      /* slot i > inputs starts at byte 256 * (i - inputs - 1) */
    const gc_label *key;   /* S */
    const gc_label *lane;  /* (16): the lane keys */
    const gc_label *delta; /* garbler only */
} gc_job;

enum { GC_WIRE = GC_LANES * GC_LABEL };

/* The default lane keys: entry l is l as a 128-bit number. */
extern const gc_label gc_lane_number[GC_LANES];

/* Process one block. slot[0] has the constant 1; the inputs follow. The first AND uses `tweak`. */
typedef void gc_garble_fn(const gc_job *j, uint8_t *tables, uint64_t tweak);
typedef void gc_evaluate_fn(const gc_job *j, const uint8_t *tables, uint64_t tweak);
/* Hashes `groups` wires, wire i with tweak + i: h0 = H(in), h1 = H(in ^ delta); h1 may be NULL. */
typedef void gc_hash_fn(const gc_job *j, gc_label *h0, gc_label *h1, const gc_label *in,
                        uint64_t tweak, size_t groups);
typedef void gc_floor_fn(gc_label *x, const gc_label *key, uint64_t tweak, size_t groups,
                         unsigned per_key);

gc_garble_fn gc_garble_ref, gc_garble_128, gc_garble_256, gc_garble_512;
gc_evaluate_fn gc_evaluate_ref, gc_evaluate_128, gc_evaluate_256, gc_evaluate_512;
gc_hash_fn gc_hash_groups_ref, gc_hash_128, gc_hash_256, gc_hash_512;
/* The version of gc_encode for a multiple of 64 labels. */
void gc_encode_512(gc_label *out, const gc_label *zero, const uint8_t *bits, size_t n,
                   const gc_label *delta);
gc_floor_fn gc_floor_ref, gc_floor_128, gc_floor_256, gc_floor_512;

#endif
