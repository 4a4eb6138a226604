/* https_form: refuses requests that libmicrohttpd accepts although another reader of the same bytes
 * could understand them differently.
 *
 *     https_form f = { 0 };
 *     https_form_field(&f, name, value);          for each field of the header
 *     https_form_argument(&f, name, value);       for each argument of the query
 *     if (f.why)
 *         ... answer 400 with it
 *
 * libmicrohttpd has split the header. Its strict mode still hands over a field name that contains
 * spaces ("Content-Length : 5", of which it reads no body), control characters, a repeated field,
 * and %00, which it decodes to the end of the string ("/a%00b" is then "/a"). What it hides (a line
 * that ends in a bare LF, a folded line, a NUL in the request line) is in docs/THREATS.md.
 *
 * Threads: any.   Secrets: none.   Cost: one pass over the header. */
#ifndef NET_HTTPS_FORM_H
#define NET_HTTPS_FORM_H

#include "base/span.h"

#include <stdbool.h>

struct MHD_Connection;

typedef struct https_form {
    const char *why; /* what is wrong with the first malformed part, one line; NULL: nothing */
    bool host, length;
} https_form;

/* A name is a token (RFC 9110, 5.6.2), a value has no control character but tab; Host and
 * Content-Length come once. */
void https_form_field(https_form *f, sefl_span name, sefl_span value);
/* The parts are decoded; neither may contain a control character. */
void https_form_argument(https_form *f, sefl_span name, sefl_span value);

/* Checks all fields and arguments of a request. NULL, or what is wrong, one line. */
const char *https_form_why(struct MHD_Connection *mhd);
/* MHD_OPTION_UNESCAPE_CALLBACK: decodes a path or a part of the query in place, but %00 to the
 * character 1, which https_path_check and https_form_argument refuse. Returns the length. */
size_t https_form_unescape(void *cls, struct MHD_Connection *mhd, char *s);

#endif
