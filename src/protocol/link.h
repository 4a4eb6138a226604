/* link: what AS and CSP say to each other: one stream, AS asks, CSP answers, and the long parts (the
 * masked sum, the two-party computation) run on the same stream between a question and its answer.
 *
 * Every message has the frame of mpc/channel.h (kind u32, index u32, length u64), index 0. Control
 * bodies are at most LINK_BODY_MAX bytes; the reader refuses a longer one before it reads it.
 *
 *     AS asks                                      CSP answers
 *     HELLO    version u16 lowest, u16 highest,    WELCOME  version u16, ledger head, opened u64,
 *              ledger head (u64, 32), task id               skipped u64 (highest rounds of either)
 *     TASK     the signed envelope                 YES
 *     HEADER   envelope, AS's signature            HEADER   the envelope with both signatures
 *     PREPARE  round u64, attempt u64              YES, then noise_*_new and _offline run
 *     OPEN     envelope of AS's statement          GO, and AS sends SUM: head and units in pieces
 *                                                    of 1 MiB; then the mode's own exchange:
 *                                                    joint: online and output of noise.h
 *                                                    own:   noise_own_send
 *                                                    none:  PLAIN, the masked plain units
 *                                                  or KEPT: (this round is open) the stored bytes
 *                                                    of that output follow at once
 *     SKIP     round u64, reason u8                YES
 *     PING                                         PONG
 *     BYE                                          (closes)
 *     any                                          NO code u16 (link_no), sentence
 *
 * NO ends the question, not the stream; whatever breaks the format ends the stream.
 * Every question but HELLO comes after a WELCOME; PREPARE and OPEN after TASK.
 *
 * Secret: what the long parts carry. Threads: one owner a side. */
#ifndef PROTOCOL_LINK_H
#define PROTOCOL_LINK_H

#include "base/buf.h"
#include "base/span.h"
#include "mpc/channel.h"

enum {
    LINK_VERSION = 1,
    LINK_BODY_MAX = 1 << 18,
    LINK_SUM_PIECE = 1 << 20,
};

typedef enum link_kind {
    LINK_HELLO = 0x4c4b0001,
    LINK_WELCOME,
    LINK_TASK,
    LINK_YES,
    LINK_HEADER,
    LINK_PREPARE,
    LINK_OPEN,
    LINK_GO,
    LINK_KEPT,
    LINK_SUM,
    LINK_PLAIN,
    LINK_SKIP,
    LINK_PING,
    LINK_PONG,
    LINK_BYE,
    LINK_NO,
} link_kind;

/* Why CSP said no. */
#define LINK_NO_LIST(X)                                                           \
    X(VERSION, 1, "no common version")                                            \
    X(ORDER, 2, "not now")                                                        \
    X(TASK, 3, "another task, or one that this server did not sign")              \
    X(HEADER, 4, "another header of this round was signed, or it is out of turn") \
    X(FEW, 5, "fewer clients than the threshold, or more than the most")          \
    X(BUDGET, 6, "the privacy budget does not allow it")                          \
    X(OPENED, 7, "this round is open already")                                    \
    X(SKIPPED, 8, "this round was skipped")                                       \
    X(LEDGER, 9, "the two ledgers do not agree")                                  \
    X(SIGNATURE, 10, "a signature does not hold")                                 \
    X(FAULT, 11, "it failed here; see this server's log")

typedef enum link_no {
#define LINK_NO_ENUM(name, value, text) LINK_NO_##name = value,
    LINK_NO_LIST(LINK_NO_ENUM)
#undef LINK_NO_ENUM
} link_no;

const char *link_no_text(unsigned code);

typedef struct link_msg {
    uint32_t kind;
    sefl_buf body; /* the caller's; cleared with buf_clear */
} link_msg;

/* Any control message that comes next; SEFL_EPROTO for an unknown kind or a body over the limit. */
sefl_status link_recv(channel *ch, link_msg *m) SEFL_MUST_CHECK;
sefl_status link_send(channel *ch, uint32_t kind, sefl_span body) SEFL_MUST_CHECK;
sefl_status link_send_no(channel *ch, link_no code, const char *sentence) SEFL_MUST_CHECK;

#endif
