#include "base/span.h"

#include <string.h>

sefl_span span_of_str(const char *s)
{
    return span_of(s, strlen(s));
}

static sefl_status too_short(const rd *r, size_t wanted)
{
    return sefl_fail(SEFL_EPROTO, "message too short: %zu bytes expected, %zu left", wanted,
                     r->left);
}

sefl_status rd_view(rd *r, sefl_span *out, size_t n)
{
    if (n > r->left)
        return too_short(r, n);
    *out = span_of(r->p, n);
    r->p += n;
    r->left -= n;
    return SEFL_OK;
}

sefl_status rd_raw(rd *r, void *out, size_t n)
{
    sefl_span s;
    sefl_status st = rd_view(r, &s, n);
    if (st == SEFL_OK && n > 0)
        memcpy(out, s.p, n);
    return st;
}

sefl_status rd_u8(rd *r, uint8_t *out)
{
    return rd_raw(r, out, 1);
}

sefl_status rd_u16(rd *r, uint16_t *out)
{
    sefl_span s;
    SEFL_PASS(rd_view(r, &s, 2));
    *out = (uint16_t)(s.p[0] | s.p[1] << 8);
    return SEFL_OK;
}

sefl_status rd_u32(rd *r, uint32_t *out)
{
    sefl_span s;
    SEFL_PASS(rd_view(r, &s, 4));
    *out = load_u32(s.p);
    return SEFL_OK;
}

sefl_status rd_u64(rd *r, uint64_t *out)
{
    sefl_span s;
    SEFL_PASS(rd_view(r, &s, 8));
    *out = load_u64(s.p);
    return SEFL_OK;
}

sefl_status rd_varint(rd *r, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < 10; i++) {
        if (i >= r->left)
            return too_short(r, i + 1);
        uint64_t b = r->p[i];
        if (i == 9 && b > 1)
            return sefl_fail(SEFL_EPROTO, "varint exceeds 64 bits");
        v |= (b & 0x7f) << (7 * i);
        if (!(b & 0x80)) {
            if (b == 0 && i > 0)
                return sefl_fail(SEFL_EPROTO, "varint is not in its shortest form");
            r->p += i + 1;
            r->left -= i + 1;
            *out = v;
            return SEFL_OK;
        }
    }
    return sefl_fail(SEFL_EPROTO, "varint exceeds 64 bits");
}

sefl_status rd_bytes(rd *r, sefl_span *out, size_t max)
{
    rd probe = *r; /* the reader moves only if the whole field is there */
    uint64_t n;
    SEFL_PASS(rd_varint(&probe, &n));
    SEFL_NEED(n <= max, SEFL_EPROTO, "field of %llu bytes, at most %zu allowed",
              (unsigned long long)n, max);
    SEFL_PASS(rd_view(&probe, out, (size_t)n));
    *r = probe;
    return SEFL_OK;
}

sefl_status rd_expect(rd *r, const void *bytes, size_t n, const char *what)
{
    if (r->left < n || memcmp(r->p, bytes, n) != 0)
        return sefl_fail(SEFL_EPROTO, "this is not %s", what);
    r->p += n;
    r->left -= n;
    return SEFL_OK;
}

sefl_status rd_end(const rd *r)
{
    if (r->left != 0)
        return sefl_fail(SEFL_EPROTO, "%zu stray bytes after the message", r->left);
    return SEFL_OK;
}
