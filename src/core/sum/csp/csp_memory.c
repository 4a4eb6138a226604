#include "sum/csp_memory.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const csp_memory_round nothing;

const csp_memory_round *csp_memory_at(const csp_memory *m, uint64_t round)
{
    return round < m->rounds && m->round[round] ? m->round[round] : &nothing;
}

static sefl_status writing(csp_memory *m)
{
    m->calls++;
    return m->fail > 0 && --m->fail == 0 ? sefl_fail(SEFL_EIO, "csp memory: told to fail")
                                         : SEFL_OK;
}

/* The round's place for a write; makes it if necessary. */
static sefl_status place(csp_memory *m, uint64_t round, csp_memory_round **out)
{
    size_t n = m->rounds;
    SEFL_PASS(writing(m));
    SEFL_NEED(round < 1 << 24, SEFL_ERANGE, "round %" PRIu64 " is beyond this memory", round);
    SEFL_PASS(sefl_room(&m->round, &m->rounds, round + 1, sizeof(void *)));
    memset(m->round + n, 0, (m->rounds - n) * sizeof(void *));
    if (!m->round[round])
        SEFL_PASS(sefl_new(&m->round[round], 1, sizeof **m->round));
    *out = m->round[round];
    return SEFL_OK;
}

/* ---- records and rows ------------------------------------------------------------------------ */

static sefl_status put(void *ctx, csp_record what, uint64_t round, sefl_span bytes)
{
    csp_memory_round *at;
    SEFL_PASS(place(ctx, round, &at));
    at->has[what] = false;
    buf_clear(&at->record[what]);
    SEFL_PASS(wr_raw(&at->record[what], bytes.p, bytes.n));
    at->has[what] = true;
    return SEFL_OK;
}

static sefl_status get(void *ctx, csp_record what, uint64_t round, sefl_buf *out)
{
    const csp_memory_round *at = csp_memory_at(ctx, round);
    SEFL_NEED(at->has[what], SEFL_ENOTFOUND, "round %" PRIu64 " has no record %d", round,
              (int)what);
    return wr_raw(out, at->record[what].p, at->record[what].n);
}

static sefl_status wipe(void *ctx, csp_record what, uint64_t round)
{
    csp_memory_round *at;
    if (!csp_memory_at(ctx, round)->has[what])
        return SEFL_OK;
    SEFL_PASS(place(ctx, round, &at));
    buf_clear(&at->record[what]);
    at->has[what] = false;
    at->wiped[what]++;
    return SEFL_OK;
}

static sefl_status history_keep(void *ctx, uint64_t from, uint64_t to)
{
    const csp_memory *m = ctx;
    for (uint64_t r = 1; r < m->rounds; r++)
        if (r < from || r > to)
            SEFL_PASS(wipe(ctx, CSP_HISTORY, r));
    return SEFL_OK;
}

static sefl_status row_put(void *ctx, const csp_row *row)
{
    csp_memory_round *at;
    SEFL_PASS(place(ctx, row->round, &at));
    at->row = *row;
    at->reveals += row->state == CSP_REVEALED;
    return SEFL_OK;
}

static sefl_status row_get(void *ctx, uint64_t round, csp_row *out)
{
    const csp_memory *m = ctx;
    *out = csp_memory_at(m, round)->row;
    if (out->state != CSP_NEW)
        return SEFL_OK;
    if (round > 0 && round == m->skipped_before)
        out->state = CSP_SKIPPED;
    else if (round > 0 && (round <= m->revealed_before || round < m->skipped_before))
        out->state = CSP_REVEALED;
    return out->state != CSP_NEW ? SEFL_OK
                                 : sefl_fail(SEFL_ENOTFOUND, "round %" PRIu64 " has no row", round);
}

static sefl_status highest(void *ctx, csp_round_state state, uint64_t *out)
{
    const csp_memory *m = ctx;
    *out = state == CSP_REVEALED  ? m->revealed_before
           : state == CSP_SKIPPED ? m->skipped_before
                                  : 0;
    for (uint64_t r = 1; r < m->rounds; r++)
        if (csp_memory_at(m, r)->row.state == state)
            *out = r;
    return SEFL_OK;
}

/* ---- sealed tasks ---------------------------------------------------------------------------- */

static sefl_status set_put(void *ctx, uint64_t round, sefl_span set, const round_entry *kept,
                           uint32_t n)
{
    sefl_status st = SEFL_OK;
    sefl_buf leaves = { 0 };
    SEFL_TRY(wr_raw(&leaves, kept, n * sizeof *kept));
    SEFL_TRY(put(ctx, CSP_SET, round, set));
    csp_memory_round *at = ((csp_memory *)ctx)->round[round];
    buf_clear(&at->kept);
    at->kept = leaves, leaves = (sefl_buf){ 0 };
done:
    buf_clear(&leaves);
    return st;
}

static sefl_status set_kept(void *ctx, uint64_t round, round_entry *out, uint32_t n)
{
    const csp_memory_round *at = csp_memory_at(ctx, round);
    SEFL_NEED(at->kept.n == n * sizeof *out, SEFL_EPROTO, "the set of round %" PRIu64, round);
    if (n > 0)
        memcpy(out, at->kept.p, at->kept.n);
    return SEFL_OK;
}

static sefl_status taken(void *ctx, const uint8_t client[32], uint64_t *rounds, uint64_t *last)
{
    const csp_memory *m = ctx;
    round_entry of;
    memcpy(of.client, client, sizeof of.client);
    *rounds = *last = 0;
    for (uint64_t r = 1; r < m->rounds; r++) {
        const csp_memory_round *at = csp_memory_at(m, r);
        if (at->kept.n > 0 && (at->row.state != CSP_SKIPPED || at->row.charged) &&
            bsearch(&of, at->kept.p, at->kept.n / sizeof of, sizeof of, round_entry_order)) {
            ++*rounds;
            *last = r;
        }
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
    memcpy(key, m->vouched.leaf[at - 1].body, SIGN_PUB_BYTES);
    return SEFL_OK;
}

static sefl_status voucher_put(void *ctx, const uint8_t client[32], uint64_t serial,
                               const uint8_t key[SIGN_PUB_BYTES])
{
    csp_memory *m = ctx;
    size_t at = client_table_find(&m->vouched, client), owner = client_table_find(&m->keys, key);
    size_t ignored;
    bool same = owner > 0 && memcmp(m->keys.leaf[owner - 1].body, client, 32) == 0;
    if (at > 0 && m->serial[at - 1] == serial && same)
        return SEFL_OK;
    SEFL_PASS(writing(m));
    SEFL_NEED(at == 0 || serial > m->serial[at - 1], SEFL_ESTATE, "a voucher that is not newer");
    SEFL_NEED(owner == 0 || same, SEFL_ESTATE, "another client has this upload key");
    SEFL_PASS(sefl_room(&m->serial, &m->serials, m->vouched.n + 1, sizeof *m->serial));
    SEFL_PASS(client_table_put(&m->keys, key, client, &ignored));
    SEFL_PASS(client_table_put(&m->vouched, client, key, &at));
    m->serial[at] = serial;
    return SEFL_OK;
}

csp_store csp_memory_store(csp_memory *m)
{
    return (csp_store){ .ctx = m, .ledger = m->ledger, CSP_STORE_CALLS };
}

void csp_memory_clear(csp_memory *m)
{
    for (size_t i = 0; i < m->rounds; i++) {
        csp_memory_round *at = m->round[i];
        for (int what = 0; at && what < CSP_RECORDS; what++)
            buf_clear(&at->record[what]);
        if (at)
            buf_clear(&at->kept);
        sefl_free(at);
    }
    sefl_free(m->round);
    client_table_clear(&m->vouched);
    client_table_clear(&m->keys);
    sefl_free(m->serial);
    *m = (csp_memory){ .ledger = m->ledger,
                       .revealed_before = m->revealed_before,
                       .skipped_before = m->skipped_before };
}
