#include "protocol/round.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- fixed layouts: all from the lists of fields --------------------------------------------- */

#define SIZE_u16            2
#define SIZE_u32            4
#define SIZE_u64            8
#define SIZE_hash           SHA256_BYTES
#define SIZE_OF(type, name) +SIZE_##type
_Static_assert(0 ROUND_HEADER_FIELDS(SIZE_OF) == HEADER_FIXED, "header");
_Static_assert(0 ROUND_RECEIPT_FIELDS(SIZE_OF) == RECEIPT_BYTES, "receipt");
_Static_assert(0 ROUND_STATEMENT_FIELDS(SIZE_OF) == STATEMENT_FIXED, "statement");
_Static_assert(0 ROUND_END_FIELDS(SIZE_OF) == END_BYTES, "end");

#define WRITE_u16(x)      p[0] = (uint8_t)(x), p[1] = (uint8_t)((x) >> 8)
#define WRITE_u32(x)      store_u32(p, x)
#define WRITE_u64(x)      store_u64(p, x)
#define WRITE_hash(x)     memcpy(p, x, SHA256_BYTES)
#define WRITE(type, name) WRITE_##type(v->name), p += SIZE_##type;

#define READ_u16(x)       x = (uint16_t)(p[0] | p[1] << 8)
#define READ_u32(x)       x = load_u32(p)
#define READ_u64(x)       x = load_u64(p)
#define READ_hash(x)      memcpy(x, p, SHA256_BYTES)
#define READ(type, name)  READ_##type(v.name), p += SIZE_##type;

size_t round_header_write(uint8_t out[HEADER_MAX], const round_header *v)
{
    uint8_t *p = out;
    assert(v->key_bytes <= SEAL_PUB_MAX);
    ROUND_HEADER_FIELDS(WRITE)
    memcpy(p, v->key, v->key_bytes);
    return HEADER_FIXED + (size_t)v->key_bytes;
}

void round_receipt_write(uint8_t out[RECEIPT_BYTES], const round_receipt *v)
{
    uint8_t *p = out;
    ROUND_RECEIPT_FIELDS(WRITE)
}

size_t round_statement_write(uint8_t out[STATEMENT_MAX], const round_statement *v)
{
    uint8_t *p = out;
    ROUND_STATEMENT_FIELDS(WRITE)
    p += shares_slice_write(p, &v->slice);
    *p++ = v->lags;
    for (unsigned j = 0; j < NOISE_LAGS; j++)
        if (v->lags >> j & 1)
            memcpy(p, v->past[j], SHA256_BYTES), p += SHA256_BYTES;
    return (size_t)(p - out);
}

void round_end_write(uint8_t out[END_BYTES], const round_end *v)
{
    uint8_t *p = out;
    ROUND_END_FIELDS(WRITE)
}

sefl_status round_header_read(round_header *out, sefl_span in)
{
    round_header v = { 0 };
    const uint8_t *p = in.p;
    *out = v;
    SEFL_NEED(in.n >= HEADER_FIXED && in.n <= HEADER_MAX, SEFL_EPROTO,
              "round header: %zu bytes, but it must have %d to %d", in.n, HEADER_FIXED, HEADER_MAX);
    ROUND_HEADER_FIELDS(READ)
    const seal_suite *s = v.suite ? seal_suite_of(v.suite) : NULL;
    SEFL_NEED(s || v.suite == 0, SEFL_EPROTO, "round header: unknown seal 0x%04x", v.suite);
    SEFL_NEED(v.key_bytes == (s ? s->pub_bytes : 0) && in.n == HEADER_FIXED + (size_t)v.key_bytes,
              SEFL_EPROTO, "round header: %zu bytes with a key of %u", in.n, v.key_bytes);
    if (v.key_bytes > 0)
        memcpy(v.key, p, v.key_bytes);
    SEFL_NEED(v.round >= 1, SEFL_EPROTO, "round header: rounds count from 1");
    *out = v;
    return SEFL_OK;
}

sefl_status round_receipt_read(round_receipt *out, sefl_span in)
{
    round_receipt v = { 0 };
    const uint8_t *p = in.p;
    *out = v;
    SEFL_NEED(in.n == RECEIPT_BYTES, SEFL_EPROTO, "receipt: %zu bytes instead of %d", in.n,
              RECEIPT_BYTES);
    ROUND_RECEIPT_FIELDS(READ)
    SEFL_NEED(v.round >= 1, SEFL_EPROTO, "receipt: rounds count from 1");
    *out = v;
    return SEFL_OK;
}

sefl_status round_statement_read(round_statement *out, sefl_span in)
{
    round_statement v = { 0 };
    const uint8_t *p = in.p;
    *out = v;
    SEFL_NEED(in.n >= STATEMENT_FIXED, SEFL_EPROTO, "statement: %zu bytes instead of %d", in.n,
              STATEMENT_FIXED);
    ROUND_STATEMENT_FIELDS(READ)
    rd r = rd_over(span_of(p, in.n - STATEMENT_FIXED));
    SEFL_PASS(shares_slice_read(&r, &v.slice));
    SEFL_PASS(rd_u8(&r, &v.lags));
    SEFL_NEED(v.lags >> NOISE_LAGS == 0, SEFL_EPROTO, "statement: lags %u", v.lags);
    for (unsigned j = 0; j < NOISE_LAGS; j++)
        if (v.lags >> j & 1)
            SEFL_PASS(rd_raw(&r, v.past[j], sizeof v.past[j]));
    SEFL_PASS(rd_end(&r));
    SEFL_NEED(v.round >= 1, SEFL_EPROTO, "statement: rounds count from 1");
    *out = v;
    return SEFL_OK;
}

sefl_status round_end_read(round_end *out, sefl_span in)
{
    round_end v = { 0 };
    const uint8_t *p = in.p;
    *out = v;
    SEFL_NEED(in.n == END_BYTES, SEFL_EPROTO, "end: %zu bytes instead of %d", in.n, END_BYTES);
    ROUND_END_FIELDS(READ)
    *out = v;
    return SEFL_OK;
}

/* ---- the set --------------------------------------------------------------------------------- */

_Static_assert(sizeof(round_entry) == 64, "an entry is its two hashes and nothing else");

int round_entry_order(const void *a, const void *b)
{
    return memcmp(((const round_entry *)a)->client, ((const round_entry *)b)->client,
                  sizeof((const round_entry *)a)->client);
}

sefl_status round_set_hash(uint8_t out[SHA256_BYTES], const uint8_t task[32], uint64_t round,
                           round_entry *members, uint32_t n)
{
    uint8_t number[8];
    sha256 h;

    memset(out, 0, SHA256_BYTES);
    if (n > 0)
        qsort(members, n, sizeof *members, round_entry_order);
    for (uint32_t i = 1; i < n; i++)
        SEFL_NEED(round_entry_order(&members[i - 1], &members[i]) != 0, SEFL_EINVAL,
                  "the set of round %llu has a client twice", (unsigned long long)round);
    sha256_init(&h);
    sha256_add(&h, span_of_str("sefl set 1"));
    sha256_add(&h, span_of(task, 32));
    store_u64(number, round);
    sha256_add(&h, span_of(number, 8));
    store_u32(number, n);
    sha256_add(&h, span_of(number, 4));
    sha256_add(&h, span_of(members, n * sizeof *members));
    sha256_end(&h, out);
    return SEFL_OK;
}
