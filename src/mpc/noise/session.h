/* noise/session: what garbler.c and evaluator.c share; nobody else includes this (tests do).
 *
 * Layout. Sixteen coordinates make a block (GC_LANES), a chunk is a number of blocks, a multiple of
 * 8, the last one padded with coordinates nobody looks at. Bits of coordinates stand as
 * uint16[block][wire], little-endian, bit = lane: choice bits of OTs, corrections d, colours and
 * decode bits alike. Chunk c is OT batch c: transfers first of the k input bits, (block, wire,
 * lane), then of the random bits, same order, then padding to OT_GRAIN. */
#ifndef MPC_NOISE_SESSION_H
#define MPC_NOISE_SESSION_H

#include "crypto/prg/prg.h"
#include "mpc/garble/garble.h"
#include "mpc/noise/noise.h"
#include "mpc/noise/store.h"
#include "mpc/ot/ext.h"

enum {
    NOISE_MSG_HELLO = 0x4e5a0001,
    NOISE_MSG_KEY = 0x4e5a0002,
    NOISE_MSG_EXTEND = 0x4e5a0003,
    NOISE_MSG_SEED = 0x4e5a0004,
    NOISE_MSG_CHECK = 0x4e5a0005,
    NOISE_MSG_TABLES = 0x4e5a0006,
    NOISE_MSG_BEGIN = 0x4e5a0007,
    NOISE_MSG_CHOICE = 0x4e5a0008,
    NOISE_MSG_ONLINE = 0x4e5a0009,
    NOISE_MSG_OUTPUT = 0x4e5a000a,

    NOISE_HELLO_BYTES = 128 + 32,
};

typedef enum noise_state {
    NOISE_NEW,    /* keys agreed */
    NOISE_READY,  /* batch complete */
    NOISE_SENT,   /* AS: last table has left; CSP: opened */
    NOISE_DONE,   /* AS: result given */
    NOISE_BROKEN, /* for good */
} noise_state;

typedef struct noise_session {
    noise_params p; /* defaults filled in */
    noise_state state;
    uint8_t id[OT_SESSION];
    circuit *off, *on;
    unsigned wires_r, wires_x; /* random bits; bits of X */
    size_t chunks, chunk_blocks, blocks;
    gc_config off_cfg, on_cfg; /* hash key and tweaks */
    prg coins;                 /* U and Y */
    sefl_rng rng;
    sha256 choices; /* of all correction bits, as sent and as received */
} noise_session;

/* Params checked, circuits built, hello exchanged, id made. role: 'G' or 'E'. */
sefl_status noise_session_open(noise_session *s, channel *ch, const noise_params *p, char role,
                               const sefl_rng *rng) SEFL_MUST_CHECK;
void noise_session_clear(noise_session *s);

/* The garbler's hash key, known to both from here on. */
sefl_status noise_session_key(noise_session *s, const gc_label *hash_key) SEFL_MUST_CHECK;

/* SEFL_ESTATE with a sentence unless the state is `want`; sets NOISE_BROKEN, so that whatever fails
 * from here on ends the attempt. The step's end sets the next state. */
sefl_status noise_session_enter(noise_session *s, noise_state want,
                                const char *step) SEFL_MUST_CHECK;

/* Sizes of chunk c. */
size_t noise_chunk_blocks(const noise_session *s, size_t c);
size_t noise_chunk_coords(const noise_session *s, size_t c);
size_t noise_batch(const noise_session *s, size_t blocks);  /* OTs of a chunk */
size_t noise_inputs(const noise_session *s, size_t blocks); /* of them, expanded again: inputs */
size_t noise_bits_bytes(const noise_session *s, size_t blocks);

/* Bits of n <= 16*blocks values to the layout above and back; missing lanes are 0. */
void noise_planes(uint8_t *bits, const uint32_t *value, size_t n, unsigned k, size_t blocks);
void noise_values(uint32_t *value, const uint8_t *bits, size_t n, unsigned k);

/* The fold of output labels, one per coordinate, and what a value adds to it: see noise.h. */
void noise_fold(gc_label *fold, const gc_label *labels, unsigned k, size_t blocks);
void noise_fold_add(gc_label *fold, const uint32_t *value, size_t n, unsigned k,
                    const gc_label *delta);

/* Labels of the online circuit's inputs: the k of n', then those of X, block by block. */
void noise_join(gc_label *in, const gc_label *n, const gc_label *x, unsigned k, unsigned wires_x,
                size_t blocks);

/* Digits of chunk c from the caller, rounded, jump added (sign +1) or subtracted (-1), mod 2^k.
 * digit: room for a chunk. */
sefl_status noise_own_values(noise_session *s, uint32_t *out, uint64_t *digit,
                             const noise_digits *from, size_t c, int sign) SEFL_MUST_CHECK;

/* The digest of the output begins with what it is bound to and ends with the hash of all correction
 * bits, so that a bit spoiled on the way is found (it would only shift the input). */
void noise_digest_begin(const noise_session *s, sha256 *h);
void noise_digest_end(noise_session *s, sha256 *h, uint8_t out[SHA256_BYTES]);

/* w = (z - v - offset) mod 2^k, signed. */
void noise_results(int32_t *w, const uint32_t *z, const uint32_t *v, size_t n,
                   const noise_params *p);

/* ---- for tests: both sides' secrets ---- */

noise_session *noise_garbler_session(noise_garbler *g);
noise_session *noise_evaluator_session(noise_evaluator *e);

/* What an attempt still holds. */
enum {
    NOISE_HOLDS_WORK = 1,   /* OT leaves, labels, tables, coins, digits: until the end of online */
    NOISE_HOLDS_OUTPUT = 2, /* AS: folds, v', decode bits, Delta; CSP: colours */
};
unsigned noise_garbler_holds(const noise_garbler *g);
unsigned noise_evaluator_holds(const noise_evaluator *e);

/* Own halves of the random bits of chunk c, uint16[block][random bit]. */
void noise_garbler_coins(const noise_garbler *g, uint8_t *bits, size_t c);
void noise_evaluator_coins(noise_evaluator *e, uint8_t *bits, size_t c);

#endif
