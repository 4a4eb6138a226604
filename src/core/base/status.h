/* status: macros to report failures and clean up: the internal half of include/sefl/status.h.
 *
 *     sefl_status thing_read(thing *out, sefl_span in)
 *     {
 *         sefl_status st = SEFL_OK;
 *         thing tmp = { 0 };
 *         SEFL_TRY(rd_u32(&r, &tmp.n));
 *         SEFL_CHECK(tmp.n <= 64, SEFL_EPROTO, "thing: %u parts, at most 64", tmp.n);
 *     done:
 *         thing_clear(&tmp);
 *         return st;
 *     }
 *
 * A function with nothing to release returns immediately on failure:
 *
 *     sefl_status pair_write(sefl_buf *out, const pair *p)
 *     {
 *         SEFL_NEED(p->a <= p->b, SEFL_ERANGE, "pair: %u above %u", p->a, p->b);
 *         SEFL_PASS(wr_u32(out, p->a));
 *         return wr_u32(out, p->b);
 *     }
 *
 * SEFL_TRY and SEFL_CHECK need a local `st` and jump to a label `done`; use them in any function
 * that has something to release. SEFL_PASS and SEFL_NEED return. The code that detects a failure
 * writes the error message; SEFL_TRY and SEFL_PASS keep it. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "sefl/status.h"

#define SEFL_MUST_CHECK   __attribute__((warn_unused_result))
#define SEFL_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Records the error message (truncated to 511 bytes) and evaluates to the code:
 * `return sefl_fail(SEFL_EPROTO, "...")`. As a macro, it lets the compiler see the code. */
#define sefl_fail(code, ...) (sefl_note(__VA_ARGS__), (code))
void sefl_note(const char *fmt, ...) SEFL_PRINTF(1, 2);

/* Puts "prefix: " before the current error message, for callers that know the file or the peer. */
#define sefl_fail_at(code, ...) (sefl_note_before(__VA_ARGS__), (code))
void sefl_note_before(const char *fmt, ...) SEFL_PRINTF(1, 2);
/* Adds a prefix to the message if st is a failure; returns st: SEFL_TRY(sefl_at(f(), "%s",
 * path)). */
sefl_status sefl_at(sefl_status st, const char *fmt, ...) SEFL_PRINTF(2, 3) SEFL_MUST_CHECK;

/* Expands an X-macro list of (name, string) pairs to its strings: { LIST(SEFL_TEXT) }. */
#define SEFL_TEXT(name, text) text,

#define SEFL_TRY(call)     \
    do {                   \
        st = (call);       \
        if (st != SEFL_OK) \
            goto done;     \
    } while (0)

#define SEFL_CHECK(ok, code, ...)                \
    do {                                         \
        if (!(ok)) {                             \
            st = sefl_fail((code), __VA_ARGS__); \
            goto done;                           \
        }                                        \
    } while (0)

#define SEFL_PASS(call)              \
    do {                             \
        sefl_status passed = (call); \
        if (passed != SEFL_OK)       \
            return passed;           \
    } while (0)

#define SEFL_NEED(ok, code, ...)                   \
    do {                                           \
        if (!(ok))                                 \
            return sefl_fail((code), __VA_ARGS__); \
    } while (0)

#endif
