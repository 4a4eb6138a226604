/* Audits of CSP's sessions: an honest CSP passes every audit, every audit catches a CSP that
 * garbles something else, and a record shows offline what it showed AS. The cheating CSP is
 * shares.c with some lower-level calls replaced. */
#include "unit/core/mpc/shares_pair.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/span.h"
#include "crypto/prg/prg.h"
#include "mpc/garble/garble.h"
#include "mpc/ot/base.h"

#include <limits.h>
#include <unistd.h>

typedef enum cheat {
    HONEST,
    NO_NOISE,    /* rows that give 0 for either colour */
    ONE_ROW,     /* a bit of one row */
    ONE_TABLE,   /* a bit of one table */
    OTHER_DELTA, /* Delta is not that of the seed */
    OTHER_COINS, /* its halves of the coins are zeros */
    LANE_KEYS,   /* lane keys of zeros */
    CHECK_SEEDS, /* seeds of the OT check of zeros */
    REFUSES,     /* shows no seed */
    OTHER_SEED,  /* shows another one */
    BREAKS,      /* reads AUDIT and breaks the stream before AS's send has returned */
    CHEATS,
} cheat;

static cheat how; /* of the next session; set before its threads start */
static uint64_t *csp_x;
static bool x_was_wiped, was_dropped;
static bool is_silent;
static _Thread_local bool said_verdict; /* AS's thread */

static sefl_status cheat_rows(gc *g, uint8_t *rows, uint64_t *share, const gc_label *zero,
                              unsigned bits, uint64_t first_tweak, uint64_t first_block,
                              size_t blocks)
{
    const size_t first = first_block;
    sefl_status st = gc_rows_garble(g, rows, share, zero, bits, first_tweak, first_block, blocks);
    if (how == ONE_ROW && first == 0)
        rows[77] ^= 4;
    if (how == NO_NOISE) /* the terms of the wire's value taken off again; K = 32, 7 outputs */
        for (size_t b = 0; b < blocks; b++)
            for (unsigned i = 0; i < 7; i++)
                for (unsigned l = 0; l < GC_LANES; l++) {
                    size_t at = (b * 7 + i) * GC_LANES + l;
                    uint32_t d = zero[at].w[0] & 1, weight = 1u << i, row = load_u32(rows + 4 * at);
                    store_u32(rows + 4 * at, row - (d ? 0 - weight : weight));
                    share[b * GC_LANES + l] = (uint32_t)(share[b * GC_LANES + l] - weight * d);
                }
    return st;
}

static sefl_status cheat_tables(gc *g, uint8_t *tables, size_t n, gc_label *out, const gc_label *in,
                                uint64_t first, size_t blocks)
{
    sefl_status st = gc_garble(g, tables, n, out, in, first, blocks);
    if (how == ONE_TABLE && first > 0)
        tables[n - 1] ^= 0x80;
    return st;
}

static sefl_status cheat_delta(gc_label *delta, const sefl_rng *rng)
{
    sefl_status st = gc_delta_draw(delta, rng);
    if (how == OTHER_DELTA)
        delta->w[1] ^= 1;
    return st;
}

static void cheat_prg(prg *g, const uint8_t seed[PRG_SEED], const char *name)
{
    static const uint8_t zero[PRG_SEED] = { 0 };
    prg_init(g, how == OTHER_COINS && strcmp(name, "shares CSP bits") == 0 ? zero : seed, name);
}

static sefl_status cheat_fill(const sefl_rng *rng, void *out, size_t n)
{
    sefl_status st = rng_fill(rng, out, n);
    if ((how == LANE_KEYS && n == GC_LANES * sizeof(gc_label)) ||
        (how == CHECK_SEEDS && n == OT_KEY))
        memset(out, 0, n);
    return st;
}

static sefl_status cheat_send(channel *ch, uint32_t kind, uint32_t index, const void *body,
                              size_t n)
{
    uint8_t copy[AUDIT_SEED];
    said_verdict = kind == 0x53480009;
    if (kind != 0x5348000a) /* the seed */
        return msg_send(ch, kind, index, body, n);
    x_was_wiped = csp_x && csp_x[0] == 0 && csp_x[1] == 0;
    if (is_silent || how == REFUSES || how == BREAKS)
        return sefl_fail(SEFL_ECLOSED, "would rather not");
    memcpy(copy, body, sizeof copy);
    copy[3] ^= how == OTHER_SEED;
    return msg_send(ch, kind, index, copy, n);
}

static sefl_status cheat_flush(channel *ch)
{
    sefl_status st = channel_flush(ch);
    return how == BREAKS && said_verdict ? sefl_fail(SEFL_ECLOSED, "reset by the peer") : st;
}

shares_fn cheat_garble, cheat_evaluate;
sefl_status cheat_replay(audit_finding *out, const audit_record *r);
sefl_status cheat_judge(shares_result *out, const audit_record *r);
sefl_status cheat_recorded(shares_params *p, const audit_record *r);
sefl_status cheat_named(uint8_t id[SHARES_ID], shares_params *filled, const shares_params *p,
                        const uint8_t csp_nonce[32], const uint8_t as_nonce[32]);

#define shares_garble   cheat_garble
#define shares_evaluate cheat_evaluate
#define shares_replay   cheat_replay
#define shares_judge    cheat_judge
#define shares_recorded cheat_recorded
#define shares_named    cheat_named
#define gc_rows_garble  cheat_rows
#define gc_garble       cheat_tables
#define gc_delta_draw   cheat_delta
#define prg_init        cheat_prg
#define rng_fill        cheat_fill
#define msg_send        cheat_send
#define channel_flush   cheat_flush
#include "mpc/noise/shares.c"
#undef shares_garble
#undef shares_evaluate
#undef shares_replay
#undef shares_judge
#undef shares_recorded
#undef shares_named
#undef rng_fill
#undef msg_send
#undef channel_flush
#undef prg_init

static sign_key *key;
static const shares_params small = { .count = 300, .chunk = 128 };

static int setup(void **state)
{
    (void)state;
    uint8_t seed[SIGN_SEED_BYTES] = { 9 };
    return sign_key_from(&key, seed) == SEFL_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    sign_key_free(key);
    return 0;
}

static void run(two *t, const shares_params *p, uint64_t audit, cheat c, uint64_t seed)
{
    how = c;
    t->csp.p.sign = t->as.p.sign = key; /* one for both */
    t->csp.p.as = t->as.p.csp = sign_key_pub(key);
    t->as.p.audit = audit;
    t->csp.fn = c == HONEST ? NULL : cheat_garble;
    two_run(t, p, seed);
}

static audit_verdict shown(const audit_record *r)
{
    audit_finding f;
    CHECK_OK(shares_replay(&f, r));
    assert_non_null(f.why);
    return f.verdict;
}

static void honest(void **state)
{
    (void)state;
    const shares_params all[] = {
        { .count = 1 },
        small,
        { .count = 700, .bits = 40, .chunk = 256 },
        { .count = 130, .ot_k = 8, .chunk = 128 },
        { .count = 129, .ot_k = 1, .chunk = 128, .pair = { 1, 2, 3 } },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        two t = { 0 };
        run(&t, &all[i], 1, HONEST, i);
        CHECK_OK(t.csp.st);
        CHECK_OK(t.as.st);
        assert_int_equal(t.csp.r.outcome, SHARES_AUDITED);
        assert_int_equal(t.as.r.outcome, SHARES_AUDITED);
        assert_memory_equal(t.csp.r.id, t.as.r.id, SHARES_ID);
        assert_true(all_zero(&t.csp) && all_zero(&t.as));
        assert_int_equal(shown(&t.as.r.record), AUDIT_HONEST);
        two_clear(&t);
    }
}

/* A record exists only for an audited session; otherwise it would contain the seed of values in
 * use. */
static void kept(void **state)
{
    (void)state;
    two t = { 0 };
    static const audit_record none;
    run(&t, &small, 0, HONEST, 1);
    CHECK_OK(t.csp.st);
    CHECK_OK(t.as.st);
    assert_int_equal(t.csp.r.outcome, SHARES_KEPT);
    assert_int_equal(t.as.r.outcome, SHARES_KEPT);
    assert_memory_equal(&t.as.r.record, &none, sizeof none);
    assert_memory_equal(&t.csp.r.record, &none, sizeof none);
    two_clear(&t);
}

static void cheats(void **state)
{
    (void)state;
    for (cheat c = NO_NOISE; c < REFUSES; c++) {
        two t = { 0 }, unseen = { 0 };
        run(&t, &small, 1, c, c);
        CHECK_STATUS(t.as.st, SEFL_ECRYPTO);
        assert_int_equal(t.as.r.outcome, SHARES_CAUGHT);
        assert_true(all_zero(&t.as) && all_zero(&t.csp));
        assert_int_equal(t.as.r.found.verdict, AUDIT_CHEATED);
        assert_int_equal(shown(&t.as.r.record), AUDIT_CHEATED);
        two_clear(&t);

        run(&unseen, &small, 0, c, c); /* nothing else sees it */
        CHECK_OK(unseen.as.st);
        assert_int_equal(unseen.as.r.outcome, SHARES_KEPT);
        for (size_t i = 0; c == NO_NOISE && i < small.count; i++)
            assert_int_equal((uint32_t)(unseen.as.x[i] + unseen.csp.x[i]), 0);
        two_clear(&unseen);
    }
}

/* No seed: AS knows that it asked and got no answer. A seed without the right commitment: the task
 * ends, but the record proves nothing. */
static void refuses(void **state)
{
    (void)state;
    two t = { 0 }, other = { 0 };
    run(&t, &small, 1, REFUSES, 1);
    assert_true(t.as.st != SEFL_OK && t.csp.st != SEFL_OK);
    assert_int_equal(t.as.r.outcome, SHARES_UNANSWERED);
    assert_true(all_zero(&t.as) && all_zero(&t.csp));
    two_clear(&t);

    two gone = { .as.fn = cheat_evaluate }; /* asked, whatever happened to the stream since */
    run(&gone, &small, 1, BREAKS, 1);
    assert_true(gone.as.st != SEFL_OK && gone.csp.st != SEFL_OK);
    assert_int_equal(gone.as.r.outcome, SHARES_UNANSWERED);
    assert_true(all_zero(&gone.as) && all_zero(&gone.csp));
    two_clear(&gone);

    run(&other, &small, 1, OTHER_SEED, 1);
    CHECK_STATUS(other.as.st, SEFL_ECRYPTO);
    assert_int_equal(other.as.r.outcome, SHARES_CAUGHT);
    assert_int_equal(other.as.r.found.verdict, AUDIT_SHOWS_NOTHING);
    assert_non_null(strstr(other.as.r.found.why, "the seed is not the one"));
    assert_int_equal(shown(&other.as.r.record), AUDIT_SHOWS_NOTHING);
    two_clear(&other);
}

static sefl_status watch_drop(void *ctx, const uint8_t id[SHARES_ID])
{
    (void)ctx, (void)id;
    assert_true(csp_x[0] == 0 && !x_was_wiped); /* the seed has not left */
    was_dropped = true;
    return SEFL_OK;
}

/* What AS keeps of an audit that CSP does not answer, and CSP's seed. */
static audit_record owed;
static unsigned owed_n;
static uint8_t drawn[AUDIT_SEED];

static sefl_status keep_owed(void *ctx, const audit_record *r, const uint8_t signature[SIGN_BYTES])
{
    uint8_t id[AUDIT_ID];
    (void)ctx;
    assert_false(said_verdict); /* AUDIT has not left */
    audit_id(id, r->hello[0], r->hello[1]);
    CHECK_OK(audit_decided(signature, sign_key_pub(key), id, VERDICT_AUDIT));
    CHECK_STATUS(audit_decided(signature, sign_key_pub(key), id, VERDICT_KEEP), SEFL_EAUTH);
    owed = *r;
    owed_n++;
    return SEFL_OK;
}

static sefl_status draw(void *ctx, const uint8_t id[SHARES_ID], uint8_t seed[AUDIT_SEED])
{
    (void)ctx;
    sha256_of(drawn, span_of(id, SHARES_ID));
    memcpy(seed, drawn, AUDIT_SEED);
    return SEFL_OK;
}

/* A CSP that is silent at AUDIT: with the seed that it must show later, AS judges the session as if
 * CSP had answered. After KEEP nothing is owed. */
static void silence(void **state)
{
    (void)state;
    static const uint8_t none[AUDIT_SEED];
    static const cheat how_made[] = { REFUSES, NO_NOISE }; /* honest, and without noise */
    for (int i = 0; i < 2; i++) {
        two t = { .csp.p.draw = draw, .as = { .p.owe = keep_owed, .fn = cheat_evaluate } };
        owed_n = 0;
        said_verdict = false;
        is_silent = true;
        run(&t, &small, 1, how_made[i], 7);
        is_silent = false;
        assert_int_equal(t.as.r.outcome, SHARES_UNANSWERED);
        assert_true(all_zero(&t.as) && all_zero(&t.csp));
        assert_int_equal(owed_n, 1);
        assert_memory_equal(owed.csp_seed, none, sizeof none);
        shares_result r;
        memcpy(owed.csp_seed, drawn, sizeof drawn);
        CHECK_STATUS(shares_judge(&r, &owed), i == 0 ? SEFL_OK : SEFL_ECRYPTO);
        assert_int_equal(r.outcome, i == 0 ? SHARES_AUDITED : SHARES_CAUGHT);
        assert_int_equal(r.found.verdict, i == 0 ? AUDIT_HONEST : AUDIT_CHEATED);
        assert_memory_equal(r.id, t.as.r.id, SHARES_ID);
        two_clear(&t);
    }
    two kept = { .as.p.owe = keep_owed };
    run(&kept, &small, 0, HONEST, 7);
    CHECK_OK(kept.as.st);
    assert_int_equal(owed_n, 1); /* as before */
    two_clear(&kept);
}

/* CSP's values are gone, and the session is dropped, before its seed leaves. */
static void order_csp(void **state)
{
    (void)state;
    two t = { .csp = { .p = { .sign = key, .as = sign_key_pub(key), .drop = watch_drop },
                       .fn = cheat_garble },
              .as.p = { .sign = key, .csp = sign_key_pub(key), .audit = 1 } };
    csp_x = t.csp.x = malloc(small.count * sizeof *csp_x);
    x_was_wiped = false;
    how = HONEST;
    two_run(&t, &small, 5);
    csp_x = NULL;
    assert_true(was_dropped);
    CHECK_OK(t.csp.st);
    CHECK_OK(t.as.st);
    assert_int_equal(t.csp.r.outcome, SHARES_AUDITED);
    assert_true(x_was_wiped);
    two_clear(&t);
}

/* AS's coins: nonce and seed; the audit coin once everything from CSP has arrived. */
typedef struct watch {
    sefl_rng inner;
    const channel *ch;
    uint64_t received[8];
    size_t n[8], calls;
} watch;

static sefl_status watch_fill(void *self, void *out, size_t n)
{
    watch *w = self;
    assert_true(w->calls < 8);
    w->received[w->calls] = w->ch->received;
    w->n[w->calls++] = n;
    return rng_fill(&w->inner, out, n);
}

static void order_as(void **state)
{
    (void)state;
    two t = { 0 };
    seeded gen;
    seeded_init(&gen, 4, "watched");
    watch w = { .inner = seeded_rng(&gen), .ch = &t.as.ch };
    t.as.rng = (sefl_rng){ watch_fill, &w };
    run(&t, &small, 1000000, HONEST, 1);
    CHECK_OK(t.as.st);
    assert_int_equal(t.as.r.outcome, SHARES_KEPT);
    assert_true(w.calls >= 3 && w.n[0] == 32 && w.n[1] == AUDIT_SEED);
    assert_int_equal(w.received[0], 0);
    for (size_t i = 2; i < w.calls; i++)
        assert_int_equal(w.received[i], t.as.ch.received);
    two_clear(&t);
}

/* One in `audit`: both outcomes occur, about as often as configured. */
static void odds(void **state)
{
    (void)state;
    const unsigned n = (unsigned)test_count(24, 400);
    const shares_params one = { .count = 1, .chunk = 128 };
    unsigned audited = 0;
    for (unsigned i = 0; i < n; i++) {
        two t = { 0 };
        run(&t, &one, 3, HONEST, i);
        CHECK_OK(t.as.st);
        assert_int_equal(t.as.r.outcome, t.csp.r.outcome);
        audited += t.as.r.outcome == SHARES_AUDITED;
        two_clear(&t);
    }
    assert_true(audited > n / 8 && audited < n * 2 / 3);
}

static void keys(void **state)
{
    (void)state;
    sign_key *other;
    uint8_t seed[SIGN_SEED_BYTES] = { 1 };
    CHECK_OK(sign_key_from(&other, seed));
    two t = { 0 };
    t.csp.p.sign = other, t.as.p.csp = sign_key_pub(key), t.as.p.audit = 1;
    t.as.p.sign = key, t.csp.p.as = sign_key_pub(key);
    two_run(&t, &small, 1);
    CHECK_STATUS(t.as.st, SEFL_EAUTH);
    assert_int_equal(t.as.r.outcome, SHARES_FAILED);
    assert_true(t.csp.st != SEFL_OK && all_zero(&t.as) && all_zero(&t.csp));
    two_clear(&t);

    for (unsigned audit = 0; audit < 2; audit++) { /* AS's verdict is somebody else's */
        two forged = { .csp.p = { .sign = key, .as = sign_key_pub(key) },
                       .as.p = { .sign = other, .csp = sign_key_pub(key), .audit = audit } };
        two_run(&forged, &small, 1);
        CHECK_STATUS(forged.csp.st, SEFL_EAUTH);
        assert_int_equal(forged.csp.r.outcome, SHARES_FAILED);
        assert_true(all_zero(&forged.csp));
        two_clear(&forged);
    }

    two none = { .as.p = { .sign = key, .csp = sign_key_pub(key) } }; /* CSP would not sign */
    two_run(&none, &small, 1);
    CHECK_STATUS(none.as.st, SEFL_EPROTO);
    two_clear(&none);

    two blind = { .csp.p.sign = key, .as.p = { .audit = 2 } };
    two_run(&blind, &small, 1);
    CHECK_STATUS(blind.as.st, SEFL_EINVAL);
    two_clear(&blind);
    sign_key_free(other);
}

/* AS's last message is neither KEEP nor AUDIT. */
static void verdicts(void **state)
{
    (void)state;
    two good = { 0 };
    run(&good, &small, 0, HONEST, 1);
    for (unsigned bit = 0; bit < 8; bit++) {
        two t = { .as.wire = { .nth = good.as.wire.seen, .bit = bit } };
        run(&t, &small, 0, HONEST, 1);
        assert_true(t.csp.st == SEFL_EPROTO || t.csp.st == SEFL_EAUTH);
        assert_true(all_zero(&t.csp));
        two_clear(&t);
    }
    two_clear(&good);
}

static void records(void **state)
{
    (void)state;
    for (int lied = 0; lied < 2; lied++) {
        two t = { 0 };
        uint8_t bytes[AUDIT_RECORD + 1] = { 0 };
        audit_record r;
        run(&t, &small, 1, lied ? ONE_ROW : HONEST, 2);
        audit_record_write(bytes, &t.as.r.record);
        CHECK_OK(audit_record_read(&r, span_of(bytes, AUDIT_RECORD)));
        assert_memory_equal(&r, &t.as.r.record, sizeof r);
        assert_int_equal(shown(&r), lied ? AUDIT_CHEATED : AUDIT_HONEST);
        CHECK_STATUS(audit_record_read(&r, span_of(bytes, AUDIT_RECORD + 1)), SEFL_EPROTO);
        CHECK_STATUS(audit_record_read(&r, span_of(bytes, AUDIT_RECORD - 1)), SEFL_EPROTO);
        for (size_t i = 0; i < AUDIT_RECORD; i++) {
            if (i + AUDIT_SEED > AUDIT_RECORD && i % 11 != 0)
                continue; /* AS's seed: each costs a replay */
            bytes[i] ^= 1;
            if (audit_record_read(&r, span_of(bytes, AUDIT_RECORD)) == SEFL_OK)
                assert_int_equal(shown(&r), AUDIT_SHOWS_NOTHING);
            bytes[i] ^= 1;
        }
        two_clear(&t);
    }
}

static void files(void **state)
{
    (void)state;
    two t = { 0 };
    char folder[PATH_MAX], path[PATH_MAX];
    sefl_buf b = { 0 };
    audit_record r;
    run(&t, &small, 1, HONEST, 3);
    CHECK_OK(file_temp_folder(folder, sizeof folder, "sefl-audit"));
    CHECK_OK(audit_record_save(path, &t.as.r.record, folder));
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(audit_record_read(&r, buf_span(&b)));
    assert_int_equal(shown(&r), AUDIT_HONEST);
    buf_clear(&b);
    unlink(path);
    rmdir(folder);
    CHECK_STATUS(audit_record_save(path, &r, folder), SEFL_ENOTFOUND);
    two_clear(&t);
}

/* Any failure ends a session on both sides with zeros, and a replay with an error. */
static void faults(void **state)
{
    (void)state;
#if SEFL_FAULTS
    const shares_params tiny = { .count = 1, .chunk = 128 };
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_SEND, FAULT_RECV };
    two good = { 0 };
    const unsigned step = (unsigned)test_count(11, 1);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint64_t nth = 1;; nth += step) {
            two t = { .fault = kinds[k], .nth = nth };
            run(&t, &tiny, 1, HONEST, nth);
            bool hit = fault_was_hit();
            fault_disarm();
            if (hit) {
                assert_true(t.csp.st != SEFL_OK || t.as.st != SEFL_OK);
                assert_true(t.as.st == SEFL_OK || t.as.r.outcome == SHARES_FAILED ||
                            t.as.r.outcome == SHARES_UNANSWERED);
                assert_true(all_zero(&t.csp) && all_zero(&t.as));
            }
            two_clear(&t);
            if (!hit)
                break;
        }
    run(&good, &tiny, 1, HONEST, 1);
    CHECK_OK(good.as.st);
    for (uint64_t nth = 1;; nth += step) {
        audit_finding f;
        fault_arm(FAULT_ALLOC, nth);
        sefl_status st = shares_replay(&f, &good.as.r.record);
        bool hit = fault_was_hit();
        fault_disarm();
        if (!hit) {
            CHECK_OK(st);
            break;
        }
        assert_true(st != SEFL_OK && f.verdict == AUDIT_SHOWS_NOTHING);
    }
    two_clear(&good);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest),  cmocka_unit_test(kept),      cmocka_unit_test(cheats),
        cmocka_unit_test(refuses), cmocka_unit_test(order_csp), cmocka_unit_test(order_as),
        cmocka_unit_test(odds),    cmocka_unit_test(keys),      cmocka_unit_test(verdicts),
        cmocka_unit_test(records), cmocka_unit_test(files),     cmocka_unit_test(faults),
        cmocka_unit_test(silence),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
