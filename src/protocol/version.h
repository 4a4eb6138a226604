/* version: who can talk to whom. All rules about versions of what travels stand here.
 *
 * Clients and AS (HTTPS). A client sends `Sefl-Version: MAJOR.MINOR` with each request; one that sends
 * none speaks 1.0, which had no such field. The major number must be ours. The minor number may be one
 * below ours or one above: a minor version only adds, and what it adds must not be needed by the one
 * before. Any other client gets 426 and a sentence that says which versions are taken, whatever it
 * asked for, and before a byte of a body is read.
 *     upgrade order: both servers, then the clients, in any order and at leisure; the next minor
 *     version is installed when no client of the one before the present is left (AS counts them)
 *
 *     1.0   the calls of protocol/http.h
 *     1.1   the field Sefl-Version, status 426; 429 where a limit per client is passed
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

#define VERSION_TEXT "1.1"
enum {
    VERSION_MAJOR = 1,
    VERSION_MINOR = 1,
    LINK_VERSION_LOWEST = 1,
    LINK_VERSION = 1,
    VERSION_SENTENCE = 160,
};

typedef struct version_number {
    uint16_t major, minor;
} version_number;

/* "1.1": digits, a point, digits, at most 4 each, no leading zeros. text NULL: 1.0. SEFL_EPROTO. */
sefl_status version_read(version_number *out, const char *text) SEFL_MUST_CHECK;
/* May a client of this version take part? If not, why says what it needs. */
bool version_takes(version_number v, char why[VERSION_SENTENCE]);

/* The link's version for a peer that has these; 0: none, and why says what is needed. */
uint16_t version_link(uint16_t lowest, uint16_t highest, char why[VERSION_SENTENCE]);

#endif
