/* garble: garbles and evaluates many copies of one circuit in lockstep, with half-gates.
 *
 * A block is sixteen copies. A call garbles (or evaluates) whole blocks: it walks the gate list
 * once per block and processes each gate for all sixteen copies, so that AES stays pipelined. If
 * the number of copies is not a multiple of 16, the caller pads the last block with copies that it
 * ignores.
 *
 *     gc_config cfg = { .hash_key = s, .tweak_base = 0 };      // s: drawn by the garbler, public
 *     SEFL_TRY(gc_new(&g, circuit, &cfg, &delta));             // delta: gc_delta_draw or OT
 *     SEFL_TRY(gc_garble(g, tables, n, out_zero, in_zero, first_block, blocks));
 *     ...                                                      // send tables, and labels by OT
 *     SEFL_TRY(gc_new(&e, circuit, &cfg, NULL));
 *     SEFL_TRY(gc_evaluate(e, out_active, tables, n, in_active, first_block, blocks));
 *
 * Labels have 128 bits; bit 0 of byte 0 is the colour. The label of value v is zero ^ v*delta; the
 * colour of delta is 1. The evaluator's label of the constant 1 is 0^128 (the garbler's zero label
 * is delta). XOR and NOT are free; an AND costs 32 bytes.
 *
 * Labels in arrays are ordered by block, wire and lane: [(block * wires + wire) * 16 + lane].
 * Tables: for each block, for each AND gate in the circuit's order, TG of lanes 0..15, then TE of
 * lanes 0..15, 16 bytes each: 512 bytes per gate and block.
 *
 * THE GATE [ZRE15]. AND gate i (of A gates) in block n has tweaks T = tweak_base + 2 (n A + i) and
 * T + 1. A0, B0 are the inputs' zero labels, p is the colour, l the lane, D = delta:
 *     TG = H(A0, T, l)   ^ H(A0 ^ D, T, l)   ^ p(B0) D
 *     TE = H(B0, T+1, l) ^ H(B0 ^ D, T+1, l) ^ A0
 *     W0 = H(A0, T, l) ^ p(A0) TG  ^  H(B0, T+1, l) ^ p(B0) (TE ^ A0)
 *     W  = H(A, T, l)  ^ p(A) TG   ^  H(B, T+1, l)  ^ p(B) (TE ^ A)          (evaluation)
 *
 * THE HASH. H(x, T, l) = E(S ^ T, y) ^ y with y = s(x) ^ l; E is AES-128 (key, block), S the hash
 * key, T and l are 128-bit little-endian numbers, s(hi, lo) = (hi ^ lo, hi) on 64-bit halves (a
 * linear orthomorphism: s and s ^ identity are both invertible). This is the re-keyed hash of
 * [GKWWY20] with one key for the sixteen lanes of a half-gate, which share one key schedule; mixing
 * in the lane makes equal labels in two lanes harmless.
 *
 * THE BOUND. Let E be an ideal cipher and delta uniform with colour 1 (127 bits). With p cipher
 * calls, an adversary's advantage over q answers H(w ^ delta, T, l) ^ b delta is at most
 *     2 u p / 2^127 + (u - 1) q / 2^129,    u = 16 answers under one key
 * (proof in docs/PROTOCOL.md; [GKWWY20] has a similar theorem). With 2^80 calls the advantage is at
 * most 2^-42, whatever the number of gates. The bound of a fixed-key hash such as TMMO grows with
 * p*q; with the 2^30 half-gates of a large round it is void from 2^97 calls on. Requirements: delta
 * and S are fresh per session; each T is used once under one delta (give each circuit its own
 * range: gc_tweaks); the input labels of two copies are independent or equal.
 *
 * LANE KEYS. A lane may mix in its own key instead of its number: y = s(x) ^ kappa_l. The garbler
 * draws the 16 uniform keys after the input labels are fixed and sends them with the tables. A
 * malicious evaluator that builds its own OT trees can choose labels for which two lanes give equal
 * hashes, which reveals delta; it cannot do so before it knows kappa (docs/PROTOCOL.md).
 * gc_set_lanes sets the keys for all later calls.
 *
 * ROWS. A row converts an output wire of weight 2^e into shares modulo 2^K of its value, instead of
 * decoding it [BMR16, projection gates]. d is the colour of its zero label, L_c its label of colour
 * c, T a tweak used for nothing else, G_c the low K bits of H(L_c, T, l):
 *     garbler     sends row = G_0 - G_1 + 2^e (1 - 2d)           adds  2^e d - G_0   to its share
 *     evaluator   holds L_c, c its colour                        adds  G_c + c row   to its share
 * The two add up to 2^e (c ^ d). The evaluator cannot compute the other hash, G_(1-c), so row and c
 * look uniform to it.
 *
 * A garbler never garbles a block twice (SEFL_ESTATE unless first_block is beyond all earlier
 * blocks), because garbling one block for two sets of inputs would reveal delta.
 *
 * Secret: labels, delta, colours.   Public: circuit, hash key, tweaks, tables once sent, all sizes.
 * Constant time.   Threads: one owner per gc; several garblers may share a circuit and split the
 * blocks. */
#ifndef MPC_GARBLE_GARBLE_H
#define MPC_GARBLE_GARBLE_H

#include "base/random.h"
#include "crypto/prg/aes.h"
#include "mpc/circuits/circuit.h"

enum { GC_LANES = 16, GC_LABEL = 16, GC_AND_BYTES = 2 * GC_LABEL };

/* 16 bytes, little-endian; the colour is bit 0 of w[0]. */
typedef struct gc_label {
    _Alignas(16) uint64_t w[2];
} gc_label;

typedef struct gc_config {
    gc_label hash_key;   /* S: uniform, drawn by the garbler per attempt, sent to the evaluator */
    uint64_t tweak_base; /* first tweak of block 0; even */
} gc_config;

/* Draws a uniform delta with colour 1. */
sefl_status gc_delta_draw(gc_label *delta, const sefl_rng *rng) SEFL_MUST_CHECK;

/* Compute the number of tweaks and of table bytes for `blocks` blocks. SEFL_ERANGE on overflow. */
sefl_status gc_tweaks(uint64_t *tweaks, const circuit *c, uint64_t blocks) SEFL_MUST_CHECK;
sefl_status gc_table_bytes(size_t *bytes, const circuit *c, size_t blocks) SEFL_MUST_CHECK;

typedef struct gc gc; /* one side: garbler or evaluator */

/* Creates a garbler with this delta, or an evaluator if delta is NULL. The circuit must outlive it.
 * SEFL_EINVAL if the colour of delta is 0, the tweak base is odd, or the circuit is not valid. */
sefl_status gc_new(gc **out, const circuit *c, const gc_config *cfg,
                   const gc_label *delta) SEFL_MUST_CHECK;
void gc_free(gc *g);

/* Garbles `blocks` blocks from first_block on. in_zero (blocks, inputs, 16), out_zero (blocks,
 * outputs, 16): zero labels; tables: exactly gc_table_bytes. The arrays must not overlap.
 * SEFL_EINVAL: wrong table_bytes. SEFL_ERANGE: a tweak would exceed 2^64. SEFL_ESTATE: a block was
 * already garbled. */
sefl_status gc_garble(gc *g, uint8_t *tables, size_t table_bytes, gc_label *out_zero,
                      const gc_label *in_zero, uint64_t first_block, size_t blocks) SEFL_MUST_CHECK;

/* Evaluates with active labels and the peer's tables. SEFL_EPROTO: wrong table_bytes. */
sefl_status gc_evaluate(gc *g, gc_label *out_active, const uint8_t *tables, size_t table_bytes,
                        const gc_label *in_active, uint64_t first_block,
                        size_t blocks) SEFL_MUST_CHECK;

/* ---- lane keys and rows ------------------------------------------------------------------- */

void gc_set_lanes(gc *g, const gc_label kappa[GC_LANES]);

/* Garble and evaluate the rows of the circuit's outputs for `blocks` blocks. Output i has weight
 * 2^i; its labels are in `zero` or `active` (blocks, outputs, 16). Both functions set share
 * (blocks, 16) modulo 2^bits; bits is a multiple of 8, up to 64. Rows have bits/8 bytes each, in
 * the order block, output, lane. Wire i of block n has tweak first_tweak + n * outputs + i, where
 * first_tweak is beyond the tweaks of all ANDs. Garble the rows of a block only once. */
size_t gc_row_bytes(const circuit *c, size_t blocks, unsigned bits);
sefl_status gc_rows_garble(gc *g, uint8_t *rows, uint64_t *share, const gc_label *zero,
                           unsigned bits, uint64_t first_tweak, uint64_t first_block,
                           size_t blocks) SEFL_MUST_CHECK;
void gc_rows_evaluate(gc *g, uint64_t *share, const uint8_t *rows, const gc_label *active,
                      unsigned bits, uint64_t first_tweak, uint64_t first_block, size_t blocks);

/* ---- labels ----------------------------------------------------------------------------- */

/* Sets out[i] = zero[i] ^ bit i * delta; bit i is bit i%8 of byte i/8. out may equal zero. */
void gc_encode(gc_label *out, const gc_label *zero, const uint8_t *bits, size_t n,
               const gc_label *delta);

/* ---- paths, for tests and benchmarks ------------------------------------------------------ */

/* Selects a path of aes.h that this processor supports. */
void gc_set_path(gc *g, aes_path path);

/* Computes H on the sixteen lanes of one tweak in plain C, exactly as defined above. */
void gc_hash_ref(gc_label out[GC_LANES], const gc_label in[GC_LANES], const gc_label *hash_key,
                 uint64_t tweak);

/* Performs only the hashing, as a lower bound for benchmarks: `groups` times 16 lanes of cached
 * labels, with `per_key` groups per key (evaluation 1, garbling 2). It expands keys in batches as
 * the kernels do. x has per_key * 16 labels, hashed in place. groups is a multiple of 32. */
void gc_hash_floor(aes_path path, gc_label *x, const gc_label *hash_key, uint64_t tweak,
                   size_t groups, unsigned per_key);

#endif
