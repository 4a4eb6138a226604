#include "sum/csp_memory.h"

#include "base/alloc.h"
#include "base/ct.h"

#include <inttypes.h>
#include <string.h>

static const csp_memory_round nothing;

const csp_memory_round *csp_memory_at(const csp_memory *m, uint64_t round)
{
    return round < m->rounds && m->round[round] ? m->round[round] : &nothing;
}

/* Its place, made if need be. */
static sefl_status place(csp_memory *m, uint64_t round, csp_memory_round **out)
{
    size_t n = m->rounds;
    SEFL_NEED(round < 1 << 24, SEFL_ERANGE, "round %" PRIu64 " is beyond this memory", round);
    if (round >= n) {
        size_t more = round + 1 > 2 * n ? round + 1 : 2 * n;
        const size_t one = sizeof(csp_memory_round *);
        SEFL_PASS(sefl_grow(&m->round, n * one, more * one));
        memset(m->round + n, 0, (more - n) * one);
        m->rounds = more;
    }
    if (!m->round[round])
        SEFL_PASS(sefl_new(&m->round[round], 1, sizeof **m->round));
    *out = m->round[round];
    return SEFL_OK;
}

static sefl_status writing(csp_memory *m)
{
    m->calls++;
    return m->fail > 0 && --m->fail == 0 ? sefl_fail(SEFL_EIO, "csp memory: told to fail")
                                         : SEFL_OK;
}

/* The round's place, for writing; SEFL_ESTATE unless it is in this state. */
static sefl_status change(csp_memory *m, uint64_t round, csp_round_state want,
                          csp_memory_round **out)
{
    SEFL_PASS(writing(m));
    SEFL_PASS(place(m, round, out));
    (*out)->r.round = round;
    return csp_round_must_be(&(*out)->r, want);
}

static sefl_status copy(void *out, const void *from, size_t n, size_t size)
{
    sefl_status st = sefl_new(out, n, size);
    if (st == SEFL_OK && n > 0)
        memcpy(*(void **)out, from, n * size);
    return st;
}

static sefl_status copy_set(csp_set *out, const csp_set *s)
{
    sefl_status st = SEFL_OK;
    csp_set c = *s;
    c.kept = NULL, c.refused = NULL;
    *out = (csp_set){ 0 };
    SEFL_TRY(copy(&c.kept, s->kept, s->kept_n, sizeof *s->kept));
    SEFL_TRY(copy(&c.refused, s->refused, s->refused_n, sizeof *s->refused));
    *out = c, c = (csp_set){ 0 };
done:
    csp_set_clear(&c);
    return st;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static sefl_status get(void *ctx, uint64_t round, csp_round *out)
{
    const csp_memory *m = ctx;
    *out = csp_memory_at(m, round)->r;
    out->round = round;
    if (out->state == CSP_NEW && round > 0 && round == m->skipped_before)
        out->state = CSP_SKIPPED;
    else if (out->state == CSP_NEW && round > 0 &&
             (round <= m->revealed_before || round < m->skipped_before))
        out->state = CSP_REVEALED;
    return SEFL_OK;
}

static sefl_status highest(void *ctx, csp_highest *out)
{
    const csp_memory *m = ctx;
    *out = (csp_highest){ .revealed = m->revealed_before, .skipped = m->skipped_before };
    out->header = out->revealed > out->skipped ? out->revealed : out->skipped;
    for (uint64_t r = 1; r < m->rounds; r++) {
        csp_round_state s = csp_memory_at(m, r)->r.state;
        if (s != CSP_NEW)
            out->header = r;
        if (s == CSP_REVEALED)
            out->revealed = r;
        if (s == CSP_SKIPPED)
            out->skipped = r;
    }
    return SEFL_OK;
}

static sefl_status sign(void *ctx, const csp_round *r)
{
    csp_memory_round *at;
    SEFL_PASS(change(ctx, r->round, CSP_NEW, &at));
    at->r = *r;
    return SEFL_OK;
}

static sefl_status reveal(void *ctx, uint64_t round, sefl_span statement,
                          const uint8_t id[NOISE_ID], sefl_span output,
                          const uint8_t digest[SHA256_BYTES])
{
    csp_memory_round *at;
    SEFL_PASS(change(ctx, round, CSP_SIGNED, &at));
    SEFL_NEED(at->charged, SEFL_ESTATE, "round %" PRIu64 " is not charged", round);
    buf_reset(&at->statement);
    buf_reset(&at->output);
    SEFL_PASS(wr_raw(&at->statement, statement.p, statement.n));
    SEFL_PASS(wr_raw(&at->output, output.p, output.n));
    memcpy(at->id, id, NOISE_ID);
    memcpy(at->digest, digest, SHA256_BYTES);
    at->reveals++;
    at->r.state = CSP_REVEALED;
    return SEFL_OK;
}

static sefl_status kept(void *ctx, uint64_t round, uint8_t id[NOISE_ID], sefl_buf *output,
                        uint8_t digest[SHA256_BYTES])
{
    const csp_memory_round *at = csp_memory_at(ctx, round);
    if (at->reveals == 0 || at->forgotten)
        return sefl_fail(SEFL_ENOTFOUND, "nothing is kept of round %" PRIu64, round);
    memcpy(id, at->id, NOISE_ID);
    memcpy(digest, at->digest, SHA256_BYTES);
    return wr_raw(output, at->output.p, at->output.n);
}

static sefl_status skip(void *ctx, uint64_t round, unsigned reason)
{
    csp_memory_round *at;
    SEFL_PASS(change(ctx, round, CSP_SIGNED, &at));
    at->r.state = CSP_SKIPPED;
    at->r.skip = reason;
    return SEFL_OK;
}

static sefl_status forget(void *ctx, uint64_t round)
{
    csp_memory_round *at;
    SEFL_PASS(place(ctx, round, &at));
    at->forgotten = true;
    buf_clear(&at->output);
    return SEFL_OK;
}

static sefl_status end(void *ctx)
{
    csp_memory *m = ctx;
    sefl_status st = writing(m);
    m->ended |= st == SEFL_OK;
    return st;
}

static sefl_status ended(void *ctx, bool *out)
{
    *out = ((const csp_memory *)ctx)->ended;
    return SEFL_OK;
}

/* ---- the ledger ------------------------------------------------------------------------------ */

static sefl_status charge(void *ctx, uint64_t round)
{
    csp_memory *m = ctx;
    csp_memory_round *at;
    SEFL_PASS(writing(m));
    SEFL_PASS(place(m, round, &at));
    SEFL_PASS(m->ledger.charge(m->ledger.ctx, round));
    at->charged = true;
    return SEFL_OK;
}

/* ---- sealed rounds --------------------------------------------------------------------------- */

static sefl_status key_make(void *ctx, uint64_t round, const uint8_t bytes[CSP_KEY_BYTES])
{
    csp_memory_round *at;
    SEFL_PASS(change(ctx, round, CSP_NEW, &at));
    memcpy(at->key, bytes, CSP_KEY_BYTES);
    at->has_key = true;
    return SEFL_OK;
}

static sefl_status key_get(void *ctx, uint64_t round, uint8_t bytes[CSP_KEY_BYTES])
{
    const csp_memory_round *at = csp_memory_at(ctx, round);
    if (!at->has_key)
        return sefl_fail(SEFL_ENOTFOUND, "no key of round %" PRIu64, round);
    memcpy(bytes, at->key, CSP_KEY_BYTES);
    return SEFL_OK;
}

static sefl_status key_wipe(void *ctx, uint64_t round)
{
    csp_memory *m = ctx;
    if (!csp_memory_at(m, round)->has_key)
        return SEFL_OK;
    sefl_status st = writing(m);
    if (st == SEFL_OK) {
        sefl_wipe(m->round[round]->key, CSP_KEY_BYTES);
        m->round[round]->has_key = false;
        m->round[round]->wiped++;
    }
    return st;
}

static sefl_status set_put(void *ctx, uint64_t round, const csp_set *s)
{
    csp_memory_round *at;
    SEFL_PASS(change(ctx, round, CSP_SIGNED, &at));
    SEFL_NEED(!at->has_set, SEFL_ESTATE, "round %" PRIu64 " has its set", round);
    SEFL_PASS(copy_set(&at->set, s));
    at->has_set = true;
    return SEFL_OK;
}

static sefl_status set_get(void *ctx, uint64_t round, csp_set *out)
{
    const csp_memory_round *at = csp_memory_at(ctx, round);
    *out = (csp_set){ 0 };
    return at->has_set ? copy_set(out, &at->set)
                       : sefl_fail(SEFL_ENOTFOUND, "no set of round %" PRIu64, round);
}

static bool has_client(const csp_set *s, const uint8_t client[32])
{
    uint32_t low = 0, high = s->kept_n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int c = memcmp(s->kept[middle].client, client, 32);
        if (c == 0)
            return true;
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static sefl_status taken(void *ctx, const uint8_t client[32], uint64_t *rounds)
{
    const csp_memory *m = ctx;
    *rounds = 0;
    for (uint64_t r = 1; r < m->rounds; r++) {
        const csp_memory_round *at = csp_memory_at(m, r);
        *rounds += at->charged && at->has_set && has_client(&at->set, client);
    }
    return SEFL_OK;
}

static sefl_status voucher_get(void *ctx, const uint8_t client[32], uint64_t *serial,
                               uint8_t key[SIGN_PUB_BYTES])
{
    const csp_memory *m = ctx;
    size_t at = client_table_find(&m->vouched, client);
    if (at == 0)
        return sefl_fail(SEFL_ENOTFOUND, "this client has no voucher");
    *serial = m->serial[at - 1];
    memcpy(key, m->vouched.leaf[at - 1].units, SIGN_PUB_BYTES);
    return SEFL_OK;
}

static sefl_status voucher_put(void *ctx, const uint8_t client[32], uint64_t serial,
                               const uint8_t key[SIGN_PUB_BYTES])
{
    sefl_status st = SEFL_OK;
    csp_memory *m = ctx;
    size_t at = client_table_find(&m->vouched, client), owner = client_table_find(&m->keys, key);
    size_t ignored;
    SEFL_TRY(writing(m));
    bool same = owner > 0 && memcmp(m->keys.leaf[owner - 1].units, client, 32) == 0;
    if (at > 0 && m->serial[at - 1] == serial && same)
        goto done;
    SEFL_CHECK(at == 0 || serial > m->serial[at - 1], SEFL_ESTATE, "a voucher that is not newer");
    SEFL_CHECK(owner == 0 || same, SEFL_ESTATE, "another client has this upload key");
    size_t n = m->vouched.n;
    if (at == 0 && (n & (n - 1)) == 0) /* full at 0, 1, 2, 4, ... */
        SEFL_TRY(sefl_grow(&m->serial, n * sizeof *m->serial, (n ? 2 * n : 1) * sizeof *m->serial));
    SEFL_TRY(client_table_put(&m->keys, key, client, &ignored));
    SEFL_TRY(client_table_put(&m->vouched, client, key, &at));
    m->serial[at] = serial;
done:
    return st;
}

csp_store csp_memory_store(csp_memory *m)
{
    return (csp_store){ .ctx = m,
                        .get = get,
                        .highest = highest,
                        .sign = sign,
                        .charge = charge,
                        .reveal = reveal,
                        .kept = kept,
                        .skip = skip,
                        .forget = forget,
                        .end = end,
                        .ended = ended,
                        .ledger = m->ledger,
                        .key_make = key_make,
                        .key_get = key_get,
                        .key_wipe = key_wipe,
                        .set_put = set_put,
                        .set_get = set_get,
                        .taken = taken,
                        .voucher_get = voucher_get,
                        .voucher_put = voucher_put };
}

void csp_memory_clear(csp_memory *m)
{
    for (size_t i = 0; i < m->rounds; i++) {
        csp_memory_round *at = m->round[i];
        if (!at)
            continue;
        if (at->output.n > 0)
            sefl_wipe(at->output.p, at->output.n);
        buf_clear(&at->statement);
        buf_clear(&at->output);
        csp_set_clear(&at->set);
        sefl_free_secret(at, sizeof *at);
    }
    sefl_free(m->round);
    client_table_clear(&m->vouched);
    client_table_clear(&m->keys);
    sefl_free(m->serial);
    *m = (csp_memory){ .ledger = m->ledger,
                       .revealed_before = m->revealed_before,
                       .skipped_before = m->skipped_before };
}
