/* buf: a growing byte buffer, and writers that mirror the readers of span.h.
 *
 *     sefl_buf b = { .max = 1 << 20 };          // grows up to 1 MiB; zero means no limit
 *     SEFL_TRY(wr_u16(&b, version));
 *     SEFL_TRY(wr_bytes(&b, span_of_str(name)));
 *     send(buf_span(&b));
 * done:
 *     buf_clear(&b);
 *
 * Threads: one owner.   Secrets: the buffer wipes its old memory when it grows or is cleared. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/span.h"

typedef struct sefl_buf {
    uint8_t *p;
    size_t n;   /* bytes in use */
    size_t cap; /* bytes allocated */
    size_t max; /* maximum size; 0: no limit */
} sefl_buf;

static inline sefl_span buf_span(const sefl_buf *b)
{
    return span_of(b->p, b->n);
}

/* Makes room for n more bytes; SEFL_ERANGE if the buffer would exceed max. */
sefl_status buf_reserve(sefl_buf *b, size_t n) SEFL_MUST_CHECK;

/* Appends n uninitialised bytes; *out points to them until the buffer grows again. */
sefl_status buf_extend(sefl_buf *b, uint8_t **out, size_t n) SEFL_MUST_CHECK;

/* Empties the buffer but keeps its memory. */
static inline void buf_reset(sefl_buf *b)
{
    b->n = 0;
}

/* Wipes and frees the memory; the buffer is then empty and usable. */
void buf_clear(sefl_buf *b);

sefl_status wr_u8(sefl_buf *b, uint8_t v) SEFL_MUST_CHECK;
sefl_status wr_u16(sefl_buf *b, uint16_t v) SEFL_MUST_CHECK;
sefl_status wr_u32(sefl_buf *b, uint32_t v) SEFL_MUST_CHECK;
sefl_status wr_u64(sefl_buf *b, uint64_t v) SEFL_MUST_CHECK;
sefl_status wr_varint(sefl_buf *b, uint64_t v) SEFL_MUST_CHECK;

/* Writes the bytes alone, without their length. */
sefl_status wr_raw(sefl_buf *b, const void *p, size_t n) SEFL_MUST_CHECK;

/* Writes a varint length, then the bytes. */
sefl_status wr_bytes(sefl_buf *b, sefl_span s) SEFL_MUST_CHECK;

/* Writes a formatted string without its terminator. */
sefl_status wr_fmt(sefl_buf *b, const char *fmt, ...) SEFL_MUST_CHECK SEFL_PRINTF(2, 3);

#endif
