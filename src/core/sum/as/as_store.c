#include "sum/as_store.h"

#include "base/alloc.h"
#include "base/ct.h"

#include <inttypes.h>
#include <string.h>

enum { MEMORY_VERSION = 5, MODEL_BYTES = 8 + SHA256_BYTES, SIGNAL_BYTES = 16 };

#define DAMAGED(what) "store: the " what " of round %" PRIu64 " is damaged"

static sefl_status as_store_put(const as_store *s, as_record what, uint64_t round, uint64_t attempt,
                                const sefl_buf *b)
{
    return s->put(s->ctx, what, round, attempt, buf_span(b));
}

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- one reveal ------------------------------------------------------------------------------ */

void as_mask_clear(as_mask *m)
{
    sefl_wipe(m, sizeof *m);
}

sefl_status as_mask_read(as_mask *out, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    as_mask m = { 0 };
    rd r = rd_over(bytes);
    SEFL_TRY(rd_u64(&r, &m.attempt));
    SEFL_TRY(rd_raw(&r, m.set, sizeof m.set));
    SEFL_TRY(rd_raw(&r, m.seed, sizeof m.seed));
    SEFL_TRY(rd_raw(&r, m.coins, sizeof m.coins));
    SEFL_TRY(rd_raw(&r, m.slice, sizeof m.slice));
    SEFL_TRY(rd_u8(&r, &m.lags));
    SEFL_TRY(rd_end(&r));
    *out = m;
done:
    as_mask_clear(&m);
    return st;
}

sefl_status as_mask_write(sefl_buf *out, const as_mask *m)
{
    SEFL_PASS(wr_u64(out, m->attempt));
    SEFL_PASS(wr_raw(out, m->set, sizeof m->set));
    SEFL_PASS(wr_raw(out, m->seed, sizeof m->seed));
    SEFL_PASS(wr_raw(out, m->coins, sizeof m->coins));
    SEFL_PASS(wr_raw(out, m->slice, sizeof m->slice));
    return wr_u8(out, m->lags);
}

sefl_status as_store_masked(const as_store *s, uint64_t round, as_mask *out)
{
    sefl_buf b = { 0 };
    sefl_status st = s->get(s->ctx, AS_MASK, round, &b);
    if (st == SEFL_OK)
        st = as_mask_read(out, buf_span(&b));
    buf_clear(&b);
    return st;
}

sefl_status as_store_mask(const as_store *s, uint64_t round, const as_mask *m)
{
    sefl_status st = SEFL_OK;
    static const uint8_t none[SHA256_BYTES];
    as_mask before = { 0 };
    sefl_buf b = { 0 };
    st = as_store_masked(s, round, &before);
    if (st == SEFL_OK) {
        SEFL_CHECK(m->attempt > before.attempt, SEFL_ESTATE,
                   "round %" PRIu64 ": attempt %" PRIu64 " comes after %" PRIu64, round, m->attempt,
                   before.attempt);
        SEFL_CHECK(memcmp(m->set, before.set, sizeof before.set) == 0, SEFL_ESTATE,
                   "round %" PRIu64 ": a mask was drawn for another set", round);
        const bool shares = memcmp(m->slice, none, sizeof none) != 0;
        SEFL_CHECK(!ct_eq_bytes(m->seed, before.seed, sizeof before.seed), SEFL_ESTATE,
                   "round %" PRIu64 ": a seed came twice", round);
        SEFL_CHECK(ct_eq_bytes(m->coins, before.coins, sizeof before.coins) != shares, SEFL_ESTATE,
                   "round %" PRIu64 ": %s", round,
                   shares ? "a seed came twice" : "AS's noise was drawn twice");
        SEFL_CHECK(!shares || memcmp(m->slice, before.slice, sizeof before.slice) != 0, SEFL_ESTATE,
                   "round %" PRIu64 ": noise shares came twice", round);
    } else if (st != SEFL_ENOTFOUND) {
        goto done;
    }
    SEFL_TRY(as_mask_write(&b, m));
    SEFL_TRY(as_store_put(s, AS_MASK, round, m->attempt, &b));
done:
    as_mask_clear(&before);
    buf_clear(&b);
    return st;
}

sefl_status as_store_coins(const as_store *s, uint64_t round, const noise_ahead *ahead,
                           const sefl_coins *coins, uint8_t out[NOISE_COINS])
{
    as_mask before = { 0 };
    sefl_rng rng;
    sefl_status st = as_store_masked(s, round, &before);
    if (st == SEFL_OK)
        memcpy(out, before.coins, NOISE_COINS);
    as_mask_clear(&before);
    if (st != SEFL_ENOTFOUND)
        return st;
    if (ahead && ahead->round == round) {
        memcpy(out, ahead->seed, NOISE_COINS);
        return SEFL_OK;
    }
    SEFL_PASS(coins_for(coins, &rng, "noise", round, 0));
    return rng_fill(&rng, out, NOISE_COINS);
}

sefl_status as_store_shares(const as_store *s, uint64_t round, const as_mask *m, sefl_buf *out)
{
    buf_clear(out);
    SEFL_PASS(s->get(s->ctx, AS_SHARES, round, out));
    if (out->n >= sizeof m->slice && memcmp(out->p, m->slice, sizeof m->slice) == 0)
        return SEFL_OK;
    buf_clear(out);
    return sefl_fail(SEFL_ENOTFOUND, "round %" PRIu64 ": the shares are of another slice", round);
}

static sefl_status get_reply(const as_store *s, uint64_t round, uint64_t *attempt,
                             uint8_t digest[SHA256_BYTES])
{
    sefl_buf b = { 0 };
    sefl_status st = s->get(s->ctx, AS_REPLY, round, &b);
    rd r = rd_over(buf_span(&b));
    if (st == SEFL_OK)
        st = rd_u64(&r, attempt);
    if (st == SEFL_OK)
        st = rd_raw(&r, digest, SHA256_BYTES);
    if (st == SEFL_OK)
        st = rd_end(&r);
    buf_clear(&b);
    return st;
}

sefl_status as_store_reply(const as_store *s, uint64_t round, uint8_t digest[SHA256_BYTES])
{
    uint64_t attempt;
    return get_reply(s, round, &attempt, digest);
}

sefl_status as_store_replied(const as_store *s, uint64_t round, uint64_t attempt,
                             const uint8_t digest[SHA256_BYTES], bool *same)
{
    uint64_t noted;
    uint8_t before[SHA256_BYTES], bytes[8 + SHA256_BYTES];
    sefl_status st = get_reply(s, round, &noted, before);
    *same = st != SEFL_OK || (noted == attempt && memcmp(before, digest, sizeof before) == 0);
    if (st != SEFL_ENOTFOUND)
        return st;
    store_u64(bytes, attempt);
    memcpy(bytes + 8, digest, SHA256_BYTES);
    return s->put(s->ctx, AS_REPLY, round, attempt, span_of(bytes, sizeof bytes));
}

sefl_status as_store_release(const as_store *s, uint64_t round, uint64_t attempt, const int64_t *w,
                             size_t values)
{
    sefl_status st = SEFL_OK;
    uint8_t *bytes = NULL;
    if (SEFL_LITTLE_ENDIAN)
        return s->put(s->ctx, AS_RELEASE, round, attempt, span_of(w, 8 * values));
    SEFL_TRY(sefl_new(&bytes, values, 8));
    for (size_t i = 0; i < values; i++)
        store_u64(bytes + 8 * i, (uint64_t)w[i]);
    SEFL_TRY(s->put(s->ctx, AS_RELEASE, round, attempt, span_of(bytes, 8 * values)));
done:
    sefl_free_secret(bytes, 8 * values);
    return st;
}

sefl_status as_store_released(const as_store *s, uint64_t round, int64_t *w, size_t values)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(s->get(s->ctx, AS_RELEASE, round, &b));
    SEFL_CHECK(b.n == 8 * values, SEFL_EPROTO, DAMAGED("release"), round);
    for (size_t i = 0; i < values; i++)
        w[i] = (int64_t)load_u64(b.p + 8 * i);
done:
    buf_clear(&b);
    return st;
}

/* ---- sealed tasks ---------------------------------------------------------------------------- */

void as_verdict_clear(as_verdict *v)
{
    sefl_free(v->refused);
    *v = (as_verdict){ 0 };
}

sefl_status as_store_verdict_get(const as_store *s, uint64_t round, as_verdict *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    as_verdict v = { 0 };
    size_t refused;
    *out = v;
    SEFL_TRY(s->get(s->ctx, AS_VERDICT, round, &b));
    rd in = rd_over(buf_span(&b));
    SEFL_TRY(rd_raw(&in, v.root, sizeof v.root));
    SEFL_TRY(rd_u32(&in, &v.kept));
    SEFL_TRY(rd_u32(&in, &v.refused_n));
    SEFL_CHECK(v.refused_n <= rd_left(&in), SEFL_EPROTO, DAMAGED("verdict"), round);
    SEFL_TRY(sefl_new(&v.refused, v.refused_n, sizeof *v.refused));
    SEFL_TRY(link_refusals_read(&in, v.refused, v.refused_n, &refused, UINT32_MAX));
    SEFL_CHECK(refused == v.refused_n, SEFL_EPROTO, DAMAGED("verdict"), round);
    *out = v, v = (as_verdict){ 0 };
done:
    as_verdict_clear(&v);
    buf_clear(&b);
    return st;
}

sefl_status as_store_verdict(const as_store *s, uint64_t round, const as_verdict *v, bool *is_new)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 }, before = { 0 };
    SEFL_TRY(wr_raw(&b, v->root, sizeof v->root));
    SEFL_TRY(wr_u32(&b, v->kept));
    SEFL_TRY(wr_u32(&b, v->refused_n));
    SEFL_TRY(link_refusals_write(&b, v->refused, v->refused_n));
    st = s->get(s->ctx, AS_VERDICT, round, &before);
    *is_new = st == SEFL_ENOTFOUND;
    SEFL_TRY(*is_new ? as_store_put(s, AS_VERDICT, round, 0, &b) : st);
    SEFL_CHECK(*is_new || (b.n == before.n && memcmp(b.p, before.p, b.n) == 0), SEFL_ECRYPTO,
               "CSP's verdict on round %" PRIu64 " differs from its earlier one", round);
done:
    buf_clear(&b);
    buf_clear(&before);
    return st;
}

sefl_status as_store_tree(const as_store *s, uint64_t round, const sefl_coins *coins,
                          uint8_t seed[COUNTED_SEED])
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    sefl_rng rng;
    st = s->get(s->ctx, AS_TREE, round, &b);
    if (st == SEFL_ENOTFOUND) {
        SEFL_TRY(coins_for(coins, &rng, "tree", round, 0));
        SEFL_TRY(rng_fill(&rng, seed, COUNTED_SEED));
        SEFL_TRY(s->put(s->ctx, AS_TREE, round, 0, span_of(seed, COUNTED_SEED)));
        goto done;
    }
    SEFL_TRY(st);
    SEFL_CHECK(b.n == COUNTED_SEED, SEFL_EPROTO, DAMAGED("tree seed"), round);
    memcpy(seed, b.p, COUNTED_SEED);
done:
    buf_clear(&b);
    return st;
}

/* ---- the whole task -------------------------------------------------------------------------- */

static sefl_status memory_write(sefl_buf *b, const agg_memory *m)
{
    SEFL_PASS(wr_u8(b, MEMORY_VERSION));
    SEFL_PASS(wr_u8(b, (uint8_t)m->phase));
    SEFL_PASS(wr_u8(b, (uint8_t)m->why));
    SEFL_PASS(wr_u64(b, m->round));
    SEFL_PASS(wr_u64(b, m->attempt));
    SEFL_PASS(wr_u64(b, m->deadline_ms));
    SEFL_PASS(wr_u32(b, m->extensions));
    SEFL_PASS(wr_u32(b, m->clients));
    SEFL_PASS(wr_u32(b, m->skipped_in_row));
    SEFL_PASS(wr_u32(b, m->blocked_in_row));
    SEFL_PASS(wr_u32(b, m->rounds_without_gain));
    SEFL_PASS(wr_u64(b, bits_of(m->best_perplexity)));
    return wr_u8(b, (uint8_t)(m->paused | m->drop << 1));
}

static sefl_status memory_read(agg_memory *m, sefl_span in)
{
    rd r = rd_over(in);
    uint8_t version, phase, why, flags;
    uint64_t best;
    *m = (agg_memory){ 0 };
    SEFL_PASS(rd_u8(&r, &version));
    SEFL_NEED(version == MEMORY_VERSION, SEFL_EUNSUPPORTED,
              "store: another version of SEFL began this task (memory %u, not %d): finish it with "
              "that version",
              version, MEMORY_VERSION);
    SEFL_PASS(rd_u8(&r, &phase));
    SEFL_PASS(rd_u8(&r, &why));
    SEFL_PASS(rd_u64(&r, &m->round));
    SEFL_PASS(rd_u64(&r, &m->attempt));
    SEFL_PASS(rd_u64(&r, &m->deadline_ms));
    SEFL_PASS(rd_u32(&r, &m->extensions));
    SEFL_PASS(rd_u32(&r, &m->clients));
    SEFL_PASS(rd_u32(&r, &m->skipped_in_row));
    SEFL_PASS(rd_u32(&r, &m->blocked_in_row));
    SEFL_PASS(rd_u32(&r, &m->rounds_without_gain));
    SEFL_PASS(rd_u64(&r, &best));
    SEFL_PASS(rd_u8(&r, &flags));
    SEFL_PASS(rd_end(&r));
    SEFL_NEED(flags <= 3, SEFL_EPROTO, "store: memory of a round: flags %u", flags);
    m->paused = flags & 1, m->drop = flags & 2;
    m->phase = (agg_phase)phase, m->why = (agg_why)why;
    m->best_perplexity = double_of(best);
    return SEFL_OK;
}

sefl_status as_store_step(const as_store *s, const as_row *row, const agg_memory *m,
                          const release_from *model)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    uint8_t latest[MODEL_BYTES];
    store_u64(latest, model->round);
    memcpy(latest + 8, model->hash, SHA256_BYTES);
    SEFL_TRY(memory_write(&b, m));
    SEFL_TRY(s->step(s->ctx, row, buf_span(&b), span_of(latest, sizeof latest)));
done:
    buf_clear(&b);
    return st;
}

sefl_status as_store_memory(const as_store *s, agg_memory *out)
{
    sefl_buf b = { 0 };
    sefl_status st = s->get(s->ctx, AS_MEMORY, 0, &b);
    if (st == SEFL_OK)
        st = memory_read(out, buf_span(&b));
    buf_clear(&b);
    return st;
}

sefl_status as_store_model(const as_store *s, release_from *out, const uint8_t init[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    st = s->get(s->ctx, AS_MODEL, 0, &b);
    bool is_new = st == SEFL_ENOTFOUND;
    SEFL_TRY(is_new ? SEFL_OK : st);
    SEFL_CHECK(is_new || b.n == MODEL_BYTES, SEFL_EPROTO, "store: no mark of the latest model");
    out->round = is_new ? 0 : load_u64(b.p);
    memcpy(out->hash, is_new ? init : b.p + 8, SHA256_BYTES);
done:
    buf_clear(&b);
    return st;
}

sefl_status as_store_signals_put(const as_store *s, const release_signals *v)
{
    uint8_t bytes[SIGNAL_BYTES * RELEASE_SIGNALS];
    for (uint32_t i = 0; i < v->n; i++) {
        store_u64(bytes + SIGNAL_BYTES * i, v->round[i]);
        store_u64(bytes + SIGNAL_BYTES * i + 8, bits_of(v->signal[i]));
    }
    return s->put(s->ctx, AS_SIGNALS, 0, 0, span_of(bytes, (size_t)SIGNAL_BYTES * v->n));
}

sefl_status as_store_signals(const as_store *s, release_signals *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    *out = (release_signals){ 0 };
    st = s->get(s->ctx, AS_SIGNALS, 0, &b);
    SEFL_TRY(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    SEFL_CHECK(b.n % SIGNAL_BYTES == 0 && b.n / SIGNAL_BYTES <= RELEASE_SIGNALS, SEFL_EPROTO,
               "store: %zu bytes of signals", b.n);
    for (; out->n < b.n / SIGNAL_BYTES; out->n++) {
        out->round[out->n] = load_u64(b.p + SIGNAL_BYTES * out->n);
        out->signal[out->n] = double_of(load_u64(b.p + SIGNAL_BYTES * out->n + 8));
    }
done:
    buf_clear(&b);
    return st;
}
