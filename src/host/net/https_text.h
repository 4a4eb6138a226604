/* https_text: checks the strings in a request header, which may come from an unauthenticated peer.
 *
 *     https_refusal no;
 *     const https_said said = { .bytes = n, .path = path, .length = length };
 *     if (!https_said_check(&no, &body_bytes, &said, most))
 *         ... answer no.status, count no.event, log no.why
 *
 * libmicrohttpd has already split the header and decoded the path (%2e is now a dot); this module
 * interprets the parts. It needs no connection, clock or state, so a fuzz harness covers all of it
 * (tests/fuzz/host/net/fuzz_https_text.c).
 *
 * Threads: any.   Secrets: none.   Cost: one pass over the path. */
#ifndef NET_HTTPS_TEXT_H
#define NET_HTTPS_TEXT_H

#include "base/span.h"
#include "net/https_server.h"

#include <stdbool.h>

enum {
    HTTPS_HEAD_MAX = 32 << 10, /* bytes of the request line and all fields */
    HTTPS_PATH_MAX = 1024,
    HTTPS_DIGITS_MAX = 19, /* keeps numbers below 2^64 - 1, which callers use for "none" */
};

/* Reads 1 to 19 decimal digits and nothing else: no sign, no space. On false, out is unchanged. */
bool https_number_read(uint64_t *out, sefl_span text);

/* True if the path begins with '/', has at most 1,024 characters, all printable ASCII (no space),
 * and contains none of "..", "//" and backslash. Appended to a folder's name, such a path cannot
 * leave the folder. */
bool https_path_check(sefl_span path);

/* True for a POST to open_path, the one path that needs no certificate (NULL: there is none).
 * Compares byte by byte: no other spelling of method or path is open. */
bool https_is_open(const char *method, const char *path, const char *open_path);

typedef struct https_said {
    size_t bytes;     /* bytes of the whole header */
    sefl_span path;   /* decoded, without the query */
    sefl_span coding; /* Transfer-Encoding; p NULL: missing */
    sefl_span length; /* Content-Length; p NULL: missing, so there is no body */
    const char *form; /* what https_form_why has found; NULL: nothing */
} https_said;

typedef struct https_refusal {
    unsigned status;
    https_event event;
    char why[80]; /* a line without the newline */
} https_refusal;

/* True if the request may proceed, with a body of *body_bytes <= most. Otherwise *no has the first
 * failed check, in this order: header size (431), path (400), form (400), body without a length
 * (411), length that is not a number (400), length above `most` (413). Writes only one of *no and
 * *body_bytes. */
bool https_said_check(https_refusal *no, uint64_t *body_bytes, const https_said *h, uint64_t most);

#endif
