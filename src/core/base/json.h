/* json: writes one JSON value into a buffer, and adds the commas and quotes.
 *
 *     json j = json_into(&buf);
 *     json_open(&j, '{');
 *     json_key(&j, "bench"), json_str(&j, "ahe");
 *     json_key(&j, "value"), json_real(&j, 1.25);
 *     json_close(&j, '}');
 *     SEFL_TRY(json_end(&j));                   // the first failure of all these calls
 *
 * Strings are escaped; bytes that are not UTF-8 become U+FFFD, so the result always parses.
 * Numbers that are not finite become null. The nesting limit is 31. Threads: one owner. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

#include <stdbool.h>

typedef struct json {
    sefl_buf *out;
    sefl_status st;
    unsigned depth;
    uint32_t has_item; /* bit d: level d already has an item */
    bool after_key;
} json;

json json_into(sefl_buf *out);
void json_open(json *j, char bracket);  /* '{' or '[' */
void json_close(json *j, char bracket); /* '}' or ']' */
void json_key(json *j, const char *key);
void json_str(json *j, const char *s);
void json_span(json *j, sefl_span s);
void json_u64(json *j, uint64_t v);
void json_i64(json *j, int64_t v);
void json_real(json *j, double v); /* shortest form that parses back to the same value */
void json_bool(json *j, bool v);
sefl_status json_end(json *j) SEFL_MUST_CHECK;

#endif
