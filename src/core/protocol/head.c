#include "protocol/head.h"

#include <string.h>

static const char mark[4] = "SFH2", place[11] = "sefl head 2";

enum {
    SEALED = HEAD_SEED + SEAL_TAG,
    INFO = sizeof place + 32 + 8,
    AD_AT = 8, /* client and units are adjacent: the associated data */
    SIGNED_MAX = 32 + 8 + HEAD_MAX - SIGN_BYTES,
};
_Static_assert(AD_AT + 64 == HEAD_PREFIX, "client and units end the prefix");
#define SIZE_OF(name, bytes) +(bytes)
_Static_assert(sizeof mark HEAD_FIELDS(SIZE_OF) == HEAD_MAX, "the list has every field");

size_t head_bytes(const seal_suite *s)
{
    return s == NULL ? 0 : HEAD_PREFIX + s->enc_bytes + SEALED + SIGN_BYTES;
}

sefl_status head_next(head *out, const seal_suite *want, rd *r)
{
    head h = { 0 };
    uint16_t suite = 0, zero = 0;
    rd p = *r;
    *out = h;
    SEFL_NEED(want != NULL, SEFL_EINVAL, "this task's updates have no head");
    h.bytes.p = p.p;
    SEFL_PASS(rd_expect(&p, mark, sizeof mark, "the head of an update"));
    SEFL_PASS(rd_u16(&p, &suite));
    SEFL_PASS(rd_u16(&p, &zero));
    SEFL_NEED(zero == 0, SEFL_EPROTO, "the head of an update: reserved field is %u", zero);
    SEFL_NEED(suite == want->id || suite == 0, SEFL_EPROTO,
              "the head of an update is sealed with suite 0x%04x, but this task uses %s (0x%04x)",
              suite, want->name, want->id);
    SEFL_PASS(rd_raw(&p, h.client, sizeof h.client));
    SEFL_PASS(rd_raw(&p, h.units, sizeof h.units));
    h.suite = suite == 0 ? NULL : want;
    h.bytes.n = suite == 0 ? HEAD_PREFIX : head_bytes(want);
    sefl_span rest;
    SEFL_PASS(rd_view(&p, &rest, h.bytes.n - HEAD_PREFIX));
    *out = h, *r = p;
    return SEFL_OK;
}

sefl_status head_read(head *out, const seal_suite *want, sefl_span in)
{
    head h = { 0 };
    rd r = rd_over(in);
    *out = h;
    SEFL_PASS(head_next(&h, want, &r));
    SEFL_NEED(h.suite != NULL, SEFL_EPROTO, "the head of an update has no seal");
    SEFL_PASS(rd_end(&r));
    *out = h;
    return SEFL_OK;
}

/* Writes what is signed: task, round, and the head before the signature. Returns its length. */
static size_t to_sign(uint8_t out[SIGNED_MAX], const uint8_t task[32], uint64_t round,
                      const uint8_t *h, size_t bytes)
{
    size_t n = bytes - SIGN_BYTES;
    memcpy(out, task, 32);
    store_u64(out + 32, round);
    memcpy(out + 40, h, n);
    return 40 + n;
}

static void info_of(uint8_t out[INFO], const uint8_t task[32], uint64_t round)
{
    memcpy(out, place, sizeof place);
    memcpy(out + sizeof place, task, 32);
    store_u64(out + sizeof place + 32, round);
}

sefl_status head_check(const head *h, const uint8_t task[32], uint64_t round,
                       const uint8_t upload_key[SIGN_PUB_BYTES])
{
    uint8_t message[SIGNED_MAX];
    SEFL_NEED(h->suite != NULL, SEFL_EAUTH, "the head of an update has no signature");
    size_t n = to_sign(message, task, round, h->bytes.p, h->bytes.n);
    return sign_check(h->bytes.p + h->bytes.n - SIGN_BYTES, upload_key, SIGN_UPLOAD,
                      span_of(message, n));
}

static void prefix_write(uint8_t out[HEAD_PREFIX], uint16_t suite, const uint8_t client[32],
                         const uint8_t units[32])
{
    memcpy(out, mark, sizeof mark);
    store_u32(out + 4, suite);
    memcpy(out + AD_AT, client, 32);
    memcpy(out + AD_AT + 32, units, 32);
}

void head_short(uint8_t out[HEAD_PREFIX], const uint8_t client[32], const uint8_t units[32])
{
    prefix_write(out, 0, client, units);
}

sefl_status head_make(uint8_t *out, const head_facts *f, sefl_span csp_pub,
                      const uint8_t seed[HEAD_SEED], const sign_key *upload_key,
                      const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    size_t bytes = head_bytes(f->suite);
    uint8_t info[INFO], message[SIGNED_MAX];
    uint8_t *enc = out + HEAD_PREFIX, *sealed = out + bytes - SIGN_BYTES - SEALED;
    prefix_write(out, f->suite->id, f->client, f->units);
    info_of(info, f->task, f->round);
    SEFL_TRY(seal_make(enc, sealed, f->suite, csp_pub, span_of(info, sizeof info),
                       span_of(out + AD_AT, 64), span_of(seed, HEAD_SEED), rng));
    size_t n = to_sign(message, f->task, f->round, out, bytes);
    SEFL_TRY(sign_make(out + bytes - SIGN_BYTES, upload_key, SIGN_UPLOAD, span_of(message, n)));
done:
    if (st != SEFL_OK)
        memset(out, 0, bytes);
    return st;
}

sefl_status head_open(uint8_t seed[HEAD_SEED], const head *h, const seal_key *key,
                      const uint8_t task[32], uint64_t round)
{
    uint8_t info[INFO];
    memset(seed, 0, HEAD_SEED);
    SEFL_NEED(h->suite != NULL, SEFL_EAUTH, "the head of an update has no seal");
    info_of(info, task, round);
    return seal_open(seed, key, h->bytes.p + HEAD_PREFIX, span_of(info, sizeof info),
                     span_of(h->bytes.p + AD_AT, 64),
                     span_of(h->bytes.p + h->bytes.n - SIGN_BYTES - SEALED, SEALED));
}
