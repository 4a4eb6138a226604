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
 * A function that owns nothing has nothing to release, so it returns a failure at once:
 *
 *     sefl_status pair_write(sefl_buf *out, const pair *p)
 *     {
 *         SEFL_NEED(p->a <= p->b, SEFL_ERANGE, "pair: %u above %u", p->a, p->b);
 *         SEFL_PASS(wr_u32(out, p->a));
 *         return wr_u32(out, p->b);
 *     }
 *
 * These four are the only macros with a jump in them. SEFL_TRY and SEFL_CHECK need a local `st` and a
 * label `done`; a function that gets its first local to release moves from PASS and NEED to them. A
 * sentence is written once, where the failure is found; SEFL_TRY and SEFL_PASS leave it alone. */
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
