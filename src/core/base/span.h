/* span: a view of bytes, and the only functions that parse integers from them.
 *
 *     rd r = rd_over(in);
 *     SEFL_TRY(rd_u16(&r, &version));
 *     SEFL_TRY(rd_bytes(&r, &name, 64));        // varint length (at most 64), then the bytes
 *     SEFL_TRY(rd_end(&r));                     // no bytes may follow the message
 *
 * Integers are little-endian. Varints are LEB128 with at most 10 bytes, in shortest form only (each
 * value has one encoding). No function reads past the end: if too few bytes are left, it returns
 * SEFL_EPROTO and the reader does not move. The bytes must outlive the reader and its spans.
 *
 * Threads: any; these are plain values. */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* 1 if this machine stores integers and floats in the byte order of files and messages, so that
 * whole arrays need no conversion. */
#define SEFL_LITTLE_ENDIAN (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

typedef struct sefl_span {
    const uint8_t *p;
    size_t n;
} sefl_span;

static inline sefl_span span_of(const void *p, size_t n)
{
    return (sefl_span){ .p = p, .n = n };
}

/* Returns a view of a string without its terminator. */
sefl_span span_of_str(const char *s);

typedef struct rd {
    const uint8_t *p;
    size_t left;
} rd;

static inline rd rd_over(sefl_span in)
{
    return (rd){ .p = in.p, .left = in.n };
}

static inline size_t rd_left(const rd *r)
{
    return r->left;
}

sefl_status rd_u8(rd *r, uint8_t *out) SEFL_MUST_CHECK;
sefl_status rd_u16(rd *r, uint16_t *out) SEFL_MUST_CHECK;
sefl_status rd_u32(rd *r, uint32_t *out) SEFL_MUST_CHECK;
sefl_status rd_u64(rd *r, uint64_t *out) SEFL_MUST_CHECK;
sefl_status rd_varint(rd *r, uint64_t *out) SEFL_MUST_CHECK;

/* Copies exactly n bytes to out. */
sefl_status rd_raw(rd *r, void *out, size_t n) SEFL_MUST_CHECK;

/* Sets out to a view of exactly n bytes. */
sefl_status rd_view(rd *r, sefl_span *out, size_t n) SEFL_MUST_CHECK;

/* Reads a varint length of at most max, then sets out to a view of that many bytes. */
sefl_status rd_bytes(rd *r, sefl_span *out, size_t max) SEFL_MUST_CHECK;

/* SEFL_EPROTO unless the next n bytes equal `bytes` (such as a tag). `what` names the format. */
sefl_status rd_expect(rd *r, const void *bytes, size_t n, const char *what) SEFL_MUST_CHECK;

/* SEFL_EPROTO if bytes are left. */
sefl_status rd_end(const rd *r) SEFL_MUST_CHECK;

/* Load and store little-endian integers at any address. */
static inline uint32_t load_u32(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t load_u64(const void *p)
{
    const uint8_t *b = p;
    return (uint64_t)load_u32(b) | (uint64_t)load_u32(b + 4) << 32;
}

static inline void store_u32(void *p, uint32_t v)
{
    uint8_t *b = p;
    for (int i = 0; i < 4; i++)
        b[i] = (uint8_t)(v >> (8 * i));
}

static inline void store_u64(void *p, uint64_t v)
{
    uint8_t *b = p;
    for (int i = 0; i < 8; i++)
        b[i] = (uint8_t)(v >> (8 * i));
}

#endif
