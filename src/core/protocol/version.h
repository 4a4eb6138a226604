/* version: the versions of the wire formats, and which versions work together.
 *
 * Clients and AS (HTTPS). A client sends `Sefl-Version: MAJOR.MINOR` with each request; a client
 * that sends no version speaks 1.0, which had no such field. The major number must equal AS's. The
 * minor number may be anything from VERSION_MINOR_LOWEST, the oldest one whose requests the tests
 * replay, to AS's plus one: a new minor version adds only optional features. To any other version
 * AS answers 426 with the accepted versions, and it does not read the body. AS sends its own
 * version in each answer.
 *     upgrade order: both servers first, then the clients, in any order and at any time
 *
 *     3.0   the calls of protocol/http.h. An update has a salt, and its name is a salted hash. If
 *           the task seals seeds, it also has a sealed and signed head, and its client a voucher
 *
 * AS refuses 1.x and 2.x clients: the name of their updates, which CSP gets, is a hash without salt
 * that CSP could compare with guesses.
 *
 * AS and CSP (the link). HELLO offers a range of version numbers. CSP chooses the highest that both
 * support, or answers NO VERSION with its own range.
 *
 * Threads: constants and pure functions.   Secrets: none. */
#ifndef PROTOCOL_VERSION_H
#define PROTOCOL_VERSION_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define VERSION_TEXT "3.0"
enum {
    VERSION_MAJOR = 3,
    VERSION_MINOR = 0,
    VERSION_MINOR_LOWEST = 0, /* oldest minor version that AS accepts */
    /* 5: salted names in heads; 6: AS acknowledges the digest of an output before CSP sends it;
     * 7: AS's clock in HELLO; 8: signed verdicts on noise sessions, and SEED */
    LINK_VERSION_LOWEST = 8,
    LINK_VERSION = 8,
    VERSION_SENTENCE = 160,
};

typedef struct version_number {
    uint16_t major, minor;
} version_number;

/* Reads a version such as "3.0": two numbers of at most 4 digits, without leading zeros, separated
 * by a point. NULL means 1.0. SEFL_EPROTO for anything else. */
sefl_status version_read(version_number *out, const char *text) SEFL_MUST_CHECK;
/* True if a client with this version may take part; otherwise `why` names the accepted versions. */
bool version_takes(version_number v, char why[VERSION_SENTENCE]);

/* Returns the link version for a peer that offers this range, or 0, with both ranges in `why`. */
uint16_t version_link(uint16_t lowest, uint16_t highest, char why[VERSION_SENTENCE]);

#endif
