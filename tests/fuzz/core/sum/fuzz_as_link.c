/* What CSP could answer. AS asks for a whole round (the first byte says how much CSP claims to have
 * revealed, and whether AS did so before); the rest is a list of answers, some of which the harness
 * frames and signs, selected by their first byte (modulo 9):
 *     0 raw message: kind, length, bytes    1 WELCOME: version, ledger     2 YES
 *     3 the header with both signatures: model byte      4 GO: ledger
 *     5 KEPT: id byte, ledger, the value of the units     6 the value of the units: DIGEST (unless
 *     KEPT came) and PLAIN                  7 NO: code, length, words      8 raw bytes
 * No crash, no hang; a result only after a complete exchange, else zeros; no mask is used twice
 * (the journal checks). */
#define LINK_PAIR_FUZZ
#include "unit/core/sum/link_pair.h"

#include "fuzz/tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static world *w;

static bool sum_sent;

static void begun(void *ctx, uint32_t kind)
{
    (void)ctx;
    if (kind != LINK_SUM)
        return;
    MUST(w->a.masks > 0);
    sum_sent = true;
}

/* Our ledger's head, an older one, or a foreign one. */
static ledger_head mark(unsigned which)
{
    const mem_ledger *l = &w->a.ledger;
    ledger_head m = l->mark[which % 8 <= l->n ? l->n - which % 8 : 0];
    if (which & 0x40)
        m.hash[0] ^= 1;
    if (which & 0x80)
        m.records += which;
    return m;
}

static void put_digest(sefl_buf *b, unsigned value)
{
    const size_t n = w->t.ahe.units * w->t.ahe.plain_bytes;
    uint8_t *units = malloc(n), digest[SHA256_BYTES];
    memset(units, (int)value, n);
    sha256_of(digest, span_of(units, n));
    CHECK_OK(wr_raw(b, digest, sizeof digest));
    free(units);
}

static void word(tape *t, rd *r, uint64_t opened, bool *kept)
{
    sefl_buf b = { 0 };
    uint8_t bytes[HEADER_MAX];
    const ahe_params *p = &w->t.ahe;
    sefl_span rest;
    ledger_head m;
    unsigned kind, n;
    switch (tape_take(r) % 9) {
    case 0:
        kind = tape_take(r), n = tape_take(r);
        if (rd_view(r, &rest, n < rd_left(r) ? n : rd_left(r)) == SEFL_OK)
            tape_frame(&t->in, LINK_HELLO - 1 + kind % (LINK_KINDS + 2), 0, rest);
        break;
    case 1:
        CHECK_OK(wr_u16(&b, (uint16_t)(LINK_VERSION - 1 + tape_take(r)))); /* 1: ours */
        m = mark(tape_take(r));
        CHECK_OK(ledger_head_write(&b, &m));
        CHECK_OK(wr_u64(&b, opened + 1));
        CHECK_OK(wr_u64(&b, opened));
        CHECK_OK(wr_u64(&b, 0));
        CHECK_OK(wr_raw(&b, (const uint8_t[LINK_PAIR]){ 0 }, LINK_PAIR));
        tape_frame(&t->in, LINK_WELCOME, 0, buf_span(&b));
        break;
    case 2:
        tape_frame(&t->in, LINK_YES, 0, span_of(NULL, 0));
        break;
    case 3: {
        round_header h = world_header(w, 1);
        h.model[1] = tape_take(r);
        size_t header = round_header_write(bytes, &h);
        envelope env = { .kind = SIGN_HEADER, .content = span_of(bytes, header) };
        CHECK_OK(envelope_sign(&env, SIGNER_AS, w->as));
        CHECK_OK(envelope_sign(&env, SIGNER_CSP, w->csp));
        m = mark(tape_take(r));
        CHECK_OK(ledger_head_write(&b, &m));
        CHECK_OK(envelope_write(&b, &env));
        tape_frame(&t->in, LINK_HEADER, 0, buf_span(&b));
        break;
    }
    case 4:
        m = mark(tape_take(r));
        CHECK_OK(ledger_head_write(&b, &m));
        CHECK_OK(wr_u8(&b, tape_take(r) % 8 == 0 ? (uint8_t)tape_take(r) : 0)); /* lags */
        tape_frame(&t->in, LINK_GO, 0, buf_span(&b));
        break;
    case 5: {
        uint8_t id[32];
        link_plain_id(id, tape_take(r), w->set);
        m = mark(tape_take(r));
        CHECK_OK(ledger_head_write(&b, &m));
        CHECK_OK(wr_raw(&b, id, sizeof id));
        *kept = true;
        put_digest(&b, tape_take(r));
        tape_frame(&t->in, LINK_KEPT, 0, buf_span(&b));
        break;
    }
    case 6: {
        uint8_t *units = calloc(p->units, p->plain_bytes);
        memset(units, n = tape_take(r), p->units * p->plain_bytes);
        put_digest(&b, n);
        if (!*kept)
            tape_frame(&t->in, LINK_DIGEST, 0, buf_span(&b));
        tape_frame(&t->in, LINK_PLAIN, 0, span_of(units, p->units * p->plain_bytes));
        free(units);
        break;
    }
    case 7:
        CHECK_OK(wr_u16(&b, tape_take(r)));
        n = tape_take(r);
        if (rd_view(r, &rest, n < rd_left(r) ? n : rd_left(r)) == SEFL_OK)
            CHECK_OK(wr_raw(&b, rest.p, rest.n));
        tape_frame(&t->in, LINK_NO, 0, buf_span(&b));
        break;
    default:
        n = tape_take(r);
        if (rd_view(r, &rest, n < rd_left(r) ? n : rd_left(r)) == SEFL_OK)
            CHECK_OK(wr_raw(&t->in, rest.p, rest.n));
    }
    buf_clear(&b);
}

/* The questions of a round; those that CSP refuses are skipped. */
static void talk(as_link *l, const as_store *j, bool opened_there)
{
    sefl_buf both = { 0 };
    round_header h = world_header(w, 1);
    int64_t got[W_VALUES];
    bool kept = false, any = false;
    if (as_link_header(l, &both, &h) == SEFL_OK)
        MUST(both.n > 0);
    as_reveal o = { .round = 1, .attempt = 9, .clients = 3, .sum = w->sum, .store = j };
    memcpy(o.set, w->set, 32);
    size_t masks = w->a.masks;
    sefl_status st = as_link_reveal(l, &o, &kept, got);
    for (size_t i = 0; i < w->t.values; i++)
        any |= got[i] != 0;
    MUST(st == SEFL_OK || !any);
    MUST(st != SEFL_OK || kept || (sum_sent && w->a.masks == masks + 1));
    MUST(!kept || w->a.masks == masks);
    MUST(!opened_there || w->a.masks == masks);
    if (as_link_ping(l) != SEFL_OK || as_link_skip(l, 1, 3) != SEFL_OK)
        any = false;
    st = as_link_bye(l, true);
    MUST(as_link_dead(l));
    buf_clear(&both);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!w) {
        w = world_new("paillier", TASK_NOISE_NONE, W_VALUES);
        world_sum(w, 1);
    }
    world_reset(w);
    tape t = { .begun = begun };
    sum_sent = false;
    channel ch = { .ops = &tape_ops, .self = &t };
    as_store j = mem_as_journal(&w->a);
    as_link_config cfg = world_as(w);
    as_link *l;
    rd r = rd_over(span_of(data, size));
    uint8_t how = tape_take(&r);
    bool kept = false;
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    if (how & 2)
        CHECK_OK(ma_mask(&w->a, 1, &(as_mask){ .attempt = 5, .seed = { 5 }, .coins = { 5 } }));
    for (int words = 0; rd_left(&r) > 0 && words < 64; words++)
        word(&t, &r, how & 1, &kept);
    if (as_link_new(&l, &ch, &cfg) == SEFL_OK) {
        talk(l, &j, how & 1);
        as_link_free(l);
    }
    tape_clear(&t);
    return 0;
}
