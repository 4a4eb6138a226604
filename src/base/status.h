/* status: the internal half of include/sefl/status.h: one way for functions to fail.
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
 * SEFL_TRY and SEFL_CHECK are the only macros with a jump in them: both need a local `st` and a
 * label `done`. A sentence is written once, where the failure is found; SEFL_TRY leaves it alone.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "sefl/status.h"

#define SEFL_MUST_CHECK   __attribute__((warn_unused_result))
#define SEFL_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Records the sentence (cut at 511 bytes) and evaluates to the code: `return sefl_fail(SEFL_EPROTO,
 * "...")`. A macro, so that the compiler sees that the code is a failure. */
#define sefl_fail(code, ...) (sefl_note(__VA_ARGS__), (code))
void sefl_note(const char *fmt, ...) SEFL_PRINTF(1, 2);

/* Puts "prefix: " before the present sentence, for callers that know the file or peer concerned. */
#define sefl_fail_at(code, ...) (sefl_note_before(__VA_ARGS__), (code))
void sefl_note_before(const char *fmt, ...) SEFL_PRINTF(1, 2);
/* The same if st is a failure; returns st: SEFL_TRY(sefl_at(read(&b), "%s", path)). */
sefl_status sefl_at(sefl_status st, const char *fmt, ...) SEFL_PRINTF(2, 3) SEFL_MUST_CHECK;

/* For the names of an X-macro list of (name, text) pairs: { LIST(SEFL_TEXT) }. */
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

#endif
