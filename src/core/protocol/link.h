/* link: the messages between AS and CSP. AS asks and CSP answers on one stream; the long parts
 * (heads and the masked sum; on a lane, the two-party computation) travel on the same stream
 * between a question and its answer.
 *
 * Every message has the frame of base/channel.h (kind u32, index u32, length u64). Control messages
 * have index 0 and bodies of at most LINK_BODY_MAX bytes; the reader refuses a longer body without
 * reading it. `head` is a ledger's head: records u64, hash 32.
 *
 *   AS asks                                     CSP answers
 *   HELLO   u16 lowest, u16 highest version,    WELCOME  version u16, head, then the highest rounds
 *           head, task id 32, AS's clock                 (u64 each; 0: none) whose header CSP
 *           (u64, ms since 1970),                        signed, that it revealed, that it skipped;
 *           signature 64                                 pair 32
 *   TASK    the signed envelope                 YES
 *   KEY     round u64                           KEY      round u64, suite u16, CSP's round key
 *   HEADER  head, envelope with AS's signature  HEADER   head, envelope with both signatures
 *   VOUCH   a voucher (voucher.h)               YES
 *   EARLY   round u64, whole heads (head.h)     EARLY    per refused head: index u32, reason u8
 *   SET     round u64, clients u32, tree seed   VERDICT  root 32, kept u32, refused u32, then per
 *           32, digest 32 (zeros, or AS has              refused head: index u32 (in the SET),
 *           acknowledged this output before);            reason u8
 *           then HEADS 0, 1, ...: heads sorted
 *           by client
 *   REVEAL  head, envelope of AS's statement    GO       head, lags u8 (correlated noise: the
 *                                                        rounds of the statement that CSP has
 *                                                        too); AS sends SUM: the masked sum's
 *                                                        units, as many as fit 1 MiB, index 1, 2,
 *                                                        ...; then CSP sends DIGEST, the SHA-256
 *                                                        of its output, which is durable
 *                                               or KEPT  (CSP has already revealed this round):
 *                                                        head, id 32, digest 32 of the stored
 *                                                        output
 *   ACK     round u64, digest 32: AS has        joint, own: REPLY, the output (noise/online.h)
 *           stored the digest                   none: PLAIN, the masked plain units
 *                                               and in a sealed task COUNTED: CSP's envelope
 *                                                        (counted.h)
 *   SKIP    head, envelope of AS's order        YES
 *   ENROL   a site's claim, its proof with      APPROVED CSP's signature on the claim, 64
 *           CSP's token (enrol.h)
 *   PING                                        PONG
 *   LANE    pair 32, number u8                  YES; only on a lane, first and once
 *                                                        (roles/aggregator/lanes.h)
 *   FILL    count u64                           YES; shares_garble and shares_evaluate run; YES:
 *                                                        CSP has its shares in the pool
 *   SEED    session id 32, AS's signature on    SEED     the session's seed, 32; only on a lane
 *           its verdict AUDIT (noise/noise_audit.h)
 *   BYE     over u8; if over, the envelope of   YES if over; then CSP closes
 *           AS's order
 *   any                                         NO       code u16 (link_no), message
 *
 * AS signs all of HELLO before the signature, and the binding of the stream (SIGN_LINK; the binding
 * is in base/channel.h), so a HELLO is valid on one stream. An attacker who has only AS's TLS key
 * learns nothing, cannot determine a set, and gets no lane on which it could fail checks. `pair` is
 * 32 fresh random bytes that bind lanes (roles/aggregator/lanes.h) to their stream.
 *
 * A CSP with several tasks (roles/csp/csp_queue.c) changes to the task that HELLO names, after it
 * has checked the signature. It answers NO TASK if it does not have that task; AS tries again
 * later.
 *
 * NO refuses one question; a malformed message ends the stream. HELLO comes first and once, then
 * TASK, then the rest in any order that CSP's rules allow (csp.h); PING and BYE may come at any
 * time after HELLO. BYE with over = 1 means that the task is over and every release is published.
 *
 * An order (SIGN_ORDER, AS alone): task 32 | round u64 | what u8 (1 skip, 2 over) | reason u8;
 * round and reason are 0 for over. CSP obeys an order only if AS's signature is valid, so a peer
 * that has only the TLS key cannot change any state.
 *
 * Sealed tasks (task.h: task_is_sealed). The messages of a round are KEY, HEADER, any number of
 * EARLY, SET and REVEAL, in this order. Each EARLY and each HEADS carries at most LINK_HEADS_PIECE
 * bytes of heads. HEADS may contain the short form of a head that AS sent with EARLY on this stream
 * and CSP did not refuse. CSP checks all heads before it answers SET; the answer is durable, final,
 * and the same for the same SET on any stream. If fewer clients than the threshold are left, CSP
 * answers NO FEW and skips the round. CSP refuses a SET only after its last HEADS has arrived.
 * REVEAL needs a VERDICT on the same stream, and its statement names that verdict's root and count.
 *
 * No output leaves before AS has stored its digest. So a round whose output may have left has a
 * durable trace at AS, which repeats it in every later SET: a CSP that has signed the round and did
 * not mark it as revealed is an old copy of itself then, and skips the round (NO SKIPPED).
 *
 * id of a revealed output: attempt u64, then the first 24 bytes of the set's hash.
 *
 * The two ledgers. AS charges a round durably before it sends REVEAL, and CSP charges it in REVEAL
 * before GO. So CSP's ledger equals AS's or lacks only AS's last charge. That charge is then for
 * the highest round that CSP signed, which CSP has neither revealed nor skipped. (A charge is one
 * record; a task's first charge is two.) Each message requires:
 *     HELLO, HEADER   equal; or AS ahead by one charge, and the highest signed round not revealed
 *     GO, KEPT        equal (CSP charges first)
 *     SKIP            equal, after CSP also makes AS's charge of that round: a charge without a
 *                     release is safe
 * In REVEAL and SKIP, CSP computes the head after its charge and compares it with AS's before it
 * writes the charge. A round that CSP skipped because its key expired (csp.h) counts here as not
 * revealed. If the heads do not meet these requirements, CSP answers NO LEDGER and does nothing. AS
 * checks the head of every WELCOME, HEADER, GO and KEPT by the same rules and ends the stream if
 * one fails (SEFL_ESTATE). If CSP is ahead, or the ledgers fork, one ledger was lost, rolled back
 * or changed; the operators must find out which. AS also compares the rounds in WELCOME with its
 * own journal. A server with fewer rounds than it once reported is running on an old copy of its
 * state.
 *
 * Waiting. A server that is computing sends no message: decrypting one piece of the sum takes CSP
 * about ten seconds (Paillier on two cores). Meanwhile the TLS layer sends heartbeats (net/tls.h),
 * so every wait has two limits. The link is lost if no byte arrives for `link_silence` seconds (a
 * setting of both servers, default 30). LINK_IDLE_MS limits the time that a live peer may take for
 * one step. An idle AS tests the link with PING every 10 s, or more often if link_silence is
 * shorter.
 *
 * Secret: the contents of the long parts. Threads: one owner at each end. */
#ifndef PROTOCOL_LINK_H
#define PROTOCOL_LINK_H

#include "base/buf.h"
#include "base/channel.h"
#include "base/span.h"
#include "crypto/ahe/ahe.h"
#include "protocol/version.h"

#include <stdbool.h>

/* ALPN names of this stream, and of a lane, a stream on which the servers make noise shares. */
#define LINK_ALPN "sefl-link"
#define LANE_ALPN "sefl-lane"

enum {
    LINK_BODY_MAX = 1 << 18,
    LINK_SUM_PIECE = 1 << 20,
    LINK_HEADS_PIECE = 1 << 20,
    LINK_SET_MAX = 1 << 20, /* clients in one SET */
    LINK_IDLE_MS = 600000,  /* longest time that a live peer may take for one step */
    LINK_PAIR = 32,
};

/* The kinds of messages, in the order of their numbers from 0x4c4b0001. */
/* clang-format off */
#define LINK_KIND_LIST(X)                                                      \
    X(HELLO) X(WELCOME) X(TASK) X(YES) X(HEADER) X(REVEAL) X(GO) X(KEPT)       \
    X(SUM) X(PLAIN) X(SKIP) X(PING) X(PONG) X(BYE) X(NO) X(ENROL) X(APPROVED)  \
    X(LANE) X(FILL) X(REPLY) X(KEY) X(VOUCH) X(EARLY) X(SET) X(HEADS)          \
    X(VERDICT) X(COUNTED) X(DIGEST) X(ACK) X(SEED)
/* clang-format on */

typedef enum link_kind {
    LINK_BEFORE = 0x4c4b0000, /* not a kind */
#define LINK_KIND_ENUM(name) LINK_##name,
    LINK_KIND_LIST(LINK_KIND_ENUM)
#undef LINK_KIND_ENUM
        LINK_AFTER, /* not a kind */
} link_kind;
enum { LINK_KINDS = LINK_AFTER - LINK_HELLO };

/* The codes of NO: why CSP refuses a question. */
#define LINK_NO_LIST(X)                                                               \
    X(VERSION, 1, "no common version")                                                \
    X(ORDER, 2, "not now")                                                            \
    X(TASK, 3, "another task, or one that this server did not sign")                  \
    X(HEADER, 4, "another header of this round was signed, or it is out of turn")     \
    X(FEW, 5, "fewer clients than the threshold, or more than the maximum")           \
    X(BUDGET, 6, "the privacy budget does not allow it")                              \
    X(REVEALED, 7, "this round was revealed before, and its stored output is erased") \
    X(SKIPPED, 8, "this round was skipped")                                           \
    X(LEDGER, 9, "the two ledgers do not agree")                                      \
    X(SIGNATURE, 10, "a signature is invalid")                                        \
    X(FAULT, 11, "an error at CSP; see CSP's log")                                    \
    X(ENROL, 12, "this site is not enrolled here; see this server's log")             \
    X(MEMBERS, 13, "more clients than this server has approved")                      \
    X(KEY, 14, "CSP no longer has the key of this round")                             \
    X(SLICE, 15, "CSP does not have these noise shares")                              \
    X(CHECKS, 16, "too many failed checks of noise shares: this task has ended")      \
    X(PAIR, 17, "this lane belongs to another stream")                                \
    X(PAUSED, 18, "CSP's operator has paused the task")                               \
    X(ENDED, 19, "CSP's operator has ended the task")                                 \
    X(CLOCK, 20, "CSP restarted in a round, and its clock is in doubt")               \
    X(LOST, 21, "CSP does not have the seed of this noise session")

typedef enum link_no {
#define LINK_NO_ENUM(name, value, text) LINK_NO_##name = value,
    LINK_NO_LIST(LINK_NO_ENUM)
#undef LINK_NO_ENUM
} link_no;

/* Why CSP left a head out of a round (EARLY, VERDICT). */
#define HEAD_REASON_LIST(X)                                               \
    X(FORM, 1, "not a head of this task, or not the one sent with EARLY") \
    X(MEMBER, 2, "not a client that CSP's operator has approved")         \
    X(VOUCHER, 3, "CSP has no voucher for the client's upload key")       \
    X(SIGNATURE, 4, "its signature is invalid")                           \
    X(TWICE, 5, "a client's second head")                                 \
    X(LIMIT, 6, "the client has reached its maximum number of rounds")    \
    X(SEAL, 7, "its seal does not open")                                  \
    X(NORM, 8, "its vector is too long")

typedef enum head_reason {
    HEAD_KEPT = 0,
#define HEAD_REASON_ENUM(name, value, text) HEAD_##name = value,
    HEAD_REASON_LIST(HEAD_REASON_ENUM)
#undef HEAD_REASON_ENUM
} head_reason;

typedef struct head_refusal {
    uint32_t index; /* in the EARLY or SET */
    uint8_t reason; /* head_reason, not HEAD_KEPT */
} head_refusal;

/* Return the message from the list above, or "an unknown reason" for an unknown number. */
const char *head_reason_text(unsigned reason);
const char *link_no_text(unsigned code);
/* Returns a name such as "HELLO"; "?" for an unknown kind. */
const char *link_kind_name(uint32_t kind);

/* ---- messages ------------------------------------------------------------------------------ */

typedef struct link_msg {
    uint32_t kind;
    uint32_t index; /* number of a piece; 0 in control messages */
    sefl_buf body;  /* owned by the caller; free it with buf_clear */
} link_msg;

/* Receives the next control message. SEFL_EPROTO, and a dead stream, for a kind that is not one
 * (SUM, PLAIN, REPLY, HEADS), an index other than 0, or a body above the limit (LINK_BODY_MAX;
 * EARLY and VERDICT have their own). */
sefl_status link_recv(channel *ch, link_msg *m) SEFL_MUST_CHECK;
/* Receives the next piece of a long part, of this kind (SUM, HEADS; REPLY and PLAIN are one piece)
 * and at most `max` bytes, with any index. For any other message, returns SEFL_EPROTO, and the
 * stream is dead. */
sefl_status link_recv_piece(channel *ch, link_msg *m, uint32_t kind, uint64_t max) SEFL_MUST_CHECK;
/* Sends a message, or a control message of this kind, and flushes. */
sefl_status link_send_msg(channel *ch, const link_msg *m) SEFL_MUST_CHECK;
sefl_status link_send(channel *ch, uint32_t kind, sefl_span body) SEFL_MUST_CHECK;
/* Writes the body of NO. If sentence is NULL, uses the list's message; cuts it after 400 bytes. */
sefl_status link_no_write(sefl_buf *out, link_no code, const char *sentence) SEFL_MUST_CHECK;
sefl_status link_send_no(channel *ch, link_no code, const char *sentence) SEFL_MUST_CHECK;

/* ---- orders -------------------------------------------------------------------------------- */

enum { LINK_ORDER_BYTES = 42, LINK_ORDER_SKIP = 1, LINK_ORDER_OVER = 2 };

typedef struct link_order {
    uint8_t task[32];
    uint64_t round;
    uint8_t what, reason;
} link_order;

void link_order_write(uint8_t out[LINK_ORDER_BYTES], const link_order *o);
/* SEFL_EPROTO if the length is wrong or the order is unknown. */
sefl_status link_order_read(link_order *out, sefl_span in) SEFL_MUST_CHECK;

/* ---- refusals ------------------------------------------------------------------------------ */

sefl_status link_refusals_write(sefl_buf *out, const head_refusal *r, size_t n) SEFL_MUST_CHECK;
/* Reads refusals up to the end of the input. SEFL_EPROTO unless there are at most `room`, sorted by
 * index, with indices below `heads` and reasons above 0. */
sefl_status link_refusals_read(rd *r, head_refusal *out, size_t room, size_t *n,
                               uint32_t heads) SEFL_MUST_CHECK;

/* ---- the masked sum in pieces ---------------------------------------------------------------- */

/* Returns the number of units in one SUM message; the last message may have fewer. */
size_t link_sum_units(const ahe_params *p);

/* Writes the id of a revealed output (defined above). */
void link_plain_id(uint8_t id[32], uint64_t attempt, const uint8_t set[32]);

#endif
