#include "base/buf.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

sefl_status buf_reserve(sefl_buf *b, size_t n)
{
    size_t want, cap;
    if (__builtin_add_overflow(b->n, n, &want) || (b->max && want > b->max))
        return sefl_fail(SEFL_ERANGE, "buffer of %zu bytes cannot hold %zu more (limit %zu)", b->n,
                         n, b->max);
    if (want <= b->cap)
        return SEFL_OK;
    cap = b->cap < 64 ? 64 : b->cap;
    while (cap < want)
        cap = cap > SIZE_MAX / 2 ? want : cap * 2;
    if (b->max && cap > b->max)
        cap = b->max;
    SEFL_PASS(sefl_grow(&b->p, b->n, cap));
    b->cap = cap;
    return SEFL_OK;
}

sefl_status buf_extend(sefl_buf *b, uint8_t **out, size_t n)
{
    SEFL_PASS(buf_reserve(b, n));
    assert(b->p || n == 0);
    *out = b->p ? b->p + b->n : NULL; /* no arithmetic on NULL */
    b->n += n;
    return SEFL_OK;
}

void buf_clear(sefl_buf *b)
{
    sefl_free_secret(b->p, b->cap);
    *b = (sefl_buf){ .max = b->max };
}

sefl_status wr_raw(sefl_buf *b, const void *p, size_t n)
{
    uint8_t *at;
    sefl_status st = buf_extend(b, &at, n);
    if (st == SEFL_OK && n > 0)
        memcpy(at, p, n);
    return st;
}

static sefl_status wr_le(sefl_buf *b, uint64_t v, size_t n)
{
    uint8_t tmp[8];
    store_u64(tmp, v);
    return wr_raw(b, tmp, n);
}

sefl_status wr_u8(sefl_buf *b, uint8_t v)
{
    return wr_le(b, v, 1);
}

sefl_status wr_u16(sefl_buf *b, uint16_t v)
{
    return wr_le(b, v, 2);
}

sefl_status wr_u32(sefl_buf *b, uint32_t v)
{
    return wr_le(b, v, 4);
}

sefl_status wr_u64(sefl_buf *b, uint64_t v)
{
    return wr_le(b, v, 8);
}

sefl_status wr_varint(sefl_buf *b, uint64_t v)
{
    uint8_t tmp[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        tmp[n++] = (uint8_t)(v | 0x80);
    tmp[n++] = (uint8_t)v;
    return wr_raw(b, tmp, n);
}

sefl_status wr_bytes(sefl_buf *b, sefl_span s)
{
    size_t before = b->n;
    sefl_status st = wr_varint(b, s.n);
    if (st == SEFL_OK)
        st = wr_raw(b, s.p, s.n);
    if (st != SEFL_OK)
        b->n = before;
    return st;
}

sefl_status wr_fmt(sefl_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    uint8_t *at;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    sefl_status st = n < 0 ? sefl_fail(SEFL_EINVAL, "cannot format the text")
                           : buf_reserve(b, (size_t)n + 1); /* vsnprintf writes a terminator */
    if (st == SEFL_OK)
        st = buf_extend(b, &at, (size_t)n);
    if (st == SEFL_OK)
        vsnprintf((char *)at, (size_t)n + 1, fmt, again);
    va_end(again);
    return st;
}
