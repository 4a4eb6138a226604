/* https_text: checks the head of a request, which a stranger may have written, by its text alone.
 *
 *     https_refusal no;
 *     const https_said said = { .bytes = n, .path = path, .length = length };
 *     if (!https_said_check(&no, &body_bytes, &said, most))
 *         ... answer no.status, count no.event, say no.why
 *
 * libmicrohttpd has cut the head into pieces and decoded the path (%2e is a dot by now); what the
 * pieces mean is decided here. No connection, no clock, no state: so a fuzz harness can try all of
 * it (tests/fuzz/net/fuzz_https_text.c).
 *
 * Threads: any.   Secrets: none.   Cost: one pass over the path. */
#ifndef NET_HTTPS_TEXT_H
#define NET_HTTPS_TEXT_H

#include "base/span.h"
#include "net/https_server.h"

#include <stdbool.h>

enum {
    HTTPS_HEAD_MAX = 32 << 10, /* bytes of request line and fields */
    HTTPS_PATH_MAX = 1024,
    HTTPS_DIGITS_MAX = 19, /* all such numbers are below 2^64 - 1, which may mean "none" */
};

/* 1 to 19 decimal digits and nothing else: no sign, no space. False: out is untouched. */
bool https_number_read(uint64_t *out, sefl_span text);

/* Begins with '/', at most 1,024 characters, all printable ASCII (no space), and none of "..", "//"
 * and backslash anywhere: appended to a folder's name it stays in the folder. */
bool https_path_check(sefl_span path);

/* Is it a POST to the one path that needs no certificate? open_path NULL: there is none. Byte for
 * byte: no other spelling of method or path is open. */
bool https_is_open(const char *method, const char *path, const char *open_path);

typedef struct https_said {
    size_t bytes;     /* of the whole head */
    sefl_span path;   /* decoded, without the query */
    sefl_span coding; /* Transfer-Encoding; p NULL: not there */
    sefl_span length; /* Content-Length; p NULL: not there, no body */
} https_said;

typedef struct https_refusal {
    unsigned status;
    https_event event;
    char why[80]; /* a line without its end */
} https_refusal;

/* True: it may go on, with a body of *body_bytes <= most. False: the first of these that is wrong,
 * in this order: size of the head (431), path (400), a body without a length (411), a length that
 * is no number (400), one above `most` (413). *no is written then only, *body_bytes if all is
 * good. */
bool https_said_check(https_refusal *no, uint64_t *body_bytes, const https_said *h, uint64_t most);

#endif
