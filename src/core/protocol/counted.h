/* counted: proves to a client, with a Merkle tree, that its update is in a release. The leaves are
 * the clients whose pads CSP removed from the sum. CSP signs the root; each client gets its path.
 *
 *     leaf    SHA-256(0 u8, "sefl leaf 1", task 32, round u64, client 32, units 32)
 *     node    SHA-256(1 u8, left 32, right 32)
 *     depth   ceil(log2 clients_max): 2^depth places, independent of the number of clients
 *     places  leaf i, sorted by client, goes to place[i] of a shuffle by prg(tree seed, "counted
 *             places"): start with place[k] = k; for i = 0, 1, ... swap place[i] with
 *             place[i + floor(x_i (2^depth - i) / 2^64)], where x_i is the i-th u64 of stream 0
 *     filler  an empty place k gets bytes 32 k to 32 k + 31 of prg(tree seed, "counted
 *             fillers"), stream 0
 *     path    siblings from the leaf up, depth * 32 | place u32
 *
 * The place of a leaf does not depend on the number of leaves, and a filler looks like a hash, so a
 * path does not reveal the number of clients. Only the two servers know the tree seed.
 *
 *     SEFL_TRY(counted_root(root, &tree));                    // both servers
 *     SEFL_TRY(counted_tree_path(&out, tree, client));        // AS, which keeps the tree
 *     SEFL_TRY(counted_check(root, task, round, depth, &leaf, path));     // client
 *
 * counted_root needs 8 bytes and 2 hashes per place (a few ms for 10,000 clients); a counted_tree
 * needs 64 bytes per place.
 *
 *     statement  task 32 | round u64 | root 32 | id of the revealed output 32: SIGN_COUNTED, signed
 *                by CSP alone
 *
 * Secret: the tree seed, which clients must not learn. Public: the rest. Threads: any; a const
 * tree may be shared. */
#ifndef PROTOCOL_COUNTED_H
#define PROTOCOL_COUNTED_H

#include "protocol/round.h"

enum {
    COUNTED_SEED = 32,
    COUNTED_DEPTH_MAX = 24, /* a task's clients_max is at most 2^24 */
    COUNTED_PATH_MAX = COUNTED_DEPTH_MAX * SHA256_BYTES + 4,
    COUNTED_STATEMENT_BYTES = 104,
};

/* The inputs of a tree. */
typedef struct counted_facts {
    const uint8_t *task; /* 32 bytes */
    uint64_t round;
    const uint8_t *tree_seed;  /* COUNTED_SEED bytes */
    uint32_t clients_max;      /* 1 to 2^24 */
    const round_entry *leaves; /* sorted by client, each client once */
    uint32_t n;                /* at most clients_max */
} counted_facts;

unsigned counted_depth(uint32_t clients_max);
/* Returns the size of a path in bytes. */
size_t counted_path_bytes(unsigned depth);

/* SEFL_EINVAL if the facts are inconsistent. */
sefl_status counted_root(uint8_t root[SHA256_BYTES], const counted_facts *f) SEFL_MUST_CHECK;

/* A whole tree in memory, from which AS answers requests for paths. */
typedef struct counted_tree counted_tree;
sefl_status counted_tree_new(counted_tree **out, const counted_facts *f) SEFL_MUST_CHECK;
void counted_tree_free(counted_tree *t);
const uint8_t *counted_tree_root(const counted_tree *t);
/* Appends a client's path; SEFL_ENOTFOUND if the client is not in the tree. */
sefl_status counted_tree_path(sefl_buf *out, const counted_tree *t,
                              const uint8_t client[32]) SEFL_MUST_CHECK;

/* SEFL_EAUTH unless the path leads from this leaf to the root; SEFL_EPROTO if the path does not fit
 * this depth. */
sefl_status counted_check(const uint8_t root[SHA256_BYTES], const uint8_t task[32], uint64_t round,
                          unsigned depth, const round_entry *leaf, sefl_span path) SEFL_MUST_CHECK;

/* The statement that CSP signs once per round, after it has marked the round as revealed. */
typedef struct counted_statement {
    uint8_t task[32];
    uint64_t round;
    uint8_t root[SHA256_BYTES];
    uint8_t id[32]; /* id of the revealed output: link.h */
} counted_statement;

void counted_statement_write(uint8_t out[COUNTED_STATEMENT_BYTES], const counted_statement *s);
/* SEFL_EPROTO if the length is wrong or the round is 0. */
sefl_status counted_statement_read(counted_statement *out, sefl_span in) SEFL_MUST_CHECK;

#endif
