/* version: which versions can talk to each other; all rules about versions of the wire formats.
 *
 * Clients and AS (HTTPS). A client sends `Sefl-Version: MAJOR.MINOR` with each request; one that
 * sends none speaks 1.0, which had no such field. The major number must be ours. The minor number
 * may be any from VERSION_MINOR_LOWEST, the oldest whose requests are kept and replayed in tests,
 * to one above ours: a minor version only adds, and what it adds must not be needed by those
 * before. Any other client gets 426 and a sentence that says which versions are taken, whatever it
 * asked for, and before a byte of a body is read. AS says its own version in each answer.
 *     upgrade order: both servers, then the clients, in any order and at leisure
 *
 *     2.0   the calls of protocol/http.h: an update is called by the BLAKE3 of its units, has a sealed and
 *           signed head where the task seals seeds, and its client a voucher
 *
 * Clients of 1.x (other updates, other names for them) are refused.
 *
 * AS and CSP (the link). HELLO offers a range of whole versions, CSP takes the highest that both
 * have, or says NO VERSION with its own range.
 *
 * Threads: constants and pure functions.   Secrets: none. */
#ifndef PROTOCOL_VERSION_H
#define PROTOCOL_VERSION_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define VERSION_TEXT "2.0"
enum {
    VERSION_MAJOR = 2,
    VERSION_MINOR = 0,
    VERSION_MINOR_LOWEST = 0, /* of clients that are taken */
    LINK_VERSION_LOWEST = 3,  /* 3: sealed rounds, signed orders, lanes */
    LINK_VERSION = 3,
    VERSION_SENTENCE = 160,
};

typedef struct version_number {
    uint16_t major, minor;
} version_number;

/* "2.0": digits, a point, digits, at most 4 each, no leading zeros. text NULL: 1.0. SEFL_EPROTO. */
sefl_status version_read(version_number *out, const char *text) SEFL_MUST_CHECK;
/* May a client of this version take part? If not, why says what it needs. */
bool version_takes(version_number v, char why[VERSION_SENTENCE]);

/* The link's version for a peer that has these; 0: none, and why says what is needed. */
uint16_t version_link(uint16_t lowest, uint16_t highest, char why[VERSION_SENTENCE]);

#endif
