/* buf: bytes that grow, and the writers that mirror span.h's readers.
 *
 *     sefl_buf b = { .max = 1 << 20 };          // grows up to 1 MiB; zero means no limit
 *     SEFL_TRY(wr_u16(&b, version));
 *     SEFL_TRY(wr_bytes(&b, span_of_str(name)));
 *     send(buf_span(&b));
 * done:
 *     buf_clear(&b);
 *
 * Threads: one owner.   Secrets: old blocks are wiped when the buffer moves, and on clear. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/span.h"

typedef struct sefl_buf {
    uint8_t *p;
    size_t n;   /* bytes in use */
    size_t cap; /* bytes owned */
    size_t max; /* never grows beyond this; 0: no limit */
} sefl_buf;

static inline sefl_span buf_span(const sefl_buf *b)
{
    return span_of(b->p, b->n);
}

/* Room for n more bytes; SEFL_ERANGE beyond max. */
sefl_status buf_reserve(sefl_buf *b, size_t n) SEFL_MUST_CHECK;

/* n more bytes in use, not initialised; *out points at them until the buffer next grows. */
sefl_status buf_extend(sefl_buf *b, uint8_t **out, size_t n) SEFL_MUST_CHECK;

/* Empties it, keeps the memory. */
static inline void buf_reset(sefl_buf *b)
{
    b->n = 0;
}

/* Wipes and frees; the buffer is empty and usable again. */
void buf_clear(sefl_buf *b);

sefl_status wr_u8(sefl_buf *b, uint8_t v) SEFL_MUST_CHECK;
sefl_status wr_u16(sefl_buf *b, uint16_t v) SEFL_MUST_CHECK;
sefl_status wr_u32(sefl_buf *b, uint32_t v) SEFL_MUST_CHECK;
sefl_status wr_u64(sefl_buf *b, uint64_t v) SEFL_MUST_CHECK;
sefl_status wr_varint(sefl_buf *b, uint64_t v) SEFL_MUST_CHECK;

/* The bytes alone. */
sefl_status wr_raw(sefl_buf *b, const void *p, size_t n) SEFL_MUST_CHECK;

/* A varint length, then the bytes. */
sefl_status wr_bytes(sefl_buf *b, sefl_span s) SEFL_MUST_CHECK;

/* Formatted text, without a terminator. */
sefl_status wr_fmt(sefl_buf *b, const char *fmt, ...) SEFL_MUST_CHECK SEFL_PRINTF(2, 3);

#endif
