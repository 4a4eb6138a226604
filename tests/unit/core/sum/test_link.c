/* Whole rounds over the link: results, replay, cuts. Refusals are in test_link_refusals.c. */
#include "link_pair.h"
#include "sum/csp_internal.h"

#include "crypto/prg/prg.h"
#include "mpc/noise/online.h"
#include "mpc/noise/shares_plain.h"
#include "privacy/mechanism/dgauss.h"
#include "protocol/modes/mode.h"
#include "protocol/modes/own.h"
#include "support/digits.h"

#include <math.h>

static const char *const schemes[] = { "pad", "paillier" };
static const task_noise modes[] = { TASK_NOISE_NONE, TASK_NOISE_OWN, TASK_NOISE_JOINT };

/* Mean and standard deviation of the noise against the law; exact without noise. */
static void check_result(const world *w, const int64_t *got)
{
    size_t n = w->t.values;
    double sum = 0, squares = 0, unit = 1, sigma = 0;
    if (w->t.noise == TASK_NOISE_NONE) {
        assert_memory_equal(got, w->total, n * sizeof *got);
        return;
    }
    if (w->t.noise == TASK_NOISE_JOINT) {
        unit = (double)(1 << w->t.ahe.pack.t);
        sigma = DP_G44_SIGMA;
    } else {
        dgauss g;
        CHECK_OK(own_law(&g, &w->t));
        sigma = sqrt(2 * (double)g.num / (double)g.den);
    }
    for (size_t i = 0; i < n; i++) {
        double e = (double)got[i] + (unit > 1 ? 0.5 : 0) - (double)w->total[i] / unit;
        sum += e, squares += e * e;
    }
    double mean = sum / (double)n, sd = sqrt(squares / (double)n - mean * mean);
    if (fabs(mean) > 6 * sigma / sqrt((double)n) ||
        fabs(sd / sigma - 1) > 6 / sqrt(2.0 * (double)n))
        fail_msg("%s, mode %d: mean %.3g, standard deviation %.4g, wanted %.4g",
                 w->t.ahe.scheme->name, (int)w->t.noise, mean, sd, sigma);
}

/* The result of the same coins in the clear: no encryption, no link, no journal. */
static void replay(const world *w, uint64_t round, uint64_t attempt, int64_t *out);

static sefl_status replay_draw(void *ctx, int64_t *e, size_t first, size_t n)
{
    struct {
        dgauss law;
        prg coins;
    } *o = ctx;
    prg_at(&o->coins, first / NOISE_PIECE, 0);
    sefl_rng rng = prg_rng(&o->coins);
    return dgauss_fill_vartime(&o->law, e, n, &rng);
}

static void replay(const world *w, uint64_t round, uint64_t attempt, int64_t *out)
{
    const ahe_params *p = &w->t.ahe;
    size_t n = p->units * p->unit_values;
    uint64_t *v = calloc(n, sizeof *v), *m = calloc(n, sizeof *m);
    int64_t *sum = calloc(n, sizeof *sum);
    uint8_t *plain = calloc(p->units, p->plain_bytes), mask[AHE_SEED_BYTES], coins[NOISE_COINS];
    seeded gen;
    named_init(&gen, "AS", 1, "mask", round, attempt);
    seeded_fill(&gen, mask, sizeof mask);
    if (!task_mode(&w->t)->shares) /* the same for every attempt */
        named_init(&gen, "AS", 1, "noise", round, 0);
    seeded_fill(&gen, coins, sizeof coins);
    memcpy(sum, w->total, w->t.values * sizeof *sum);
    CHECK_OK(ahe_mask_units(p, plain, 0, p->units, mask));
    ahe_plain_digits(p, v, plain, p->units);
    ahe_plain_add(p, plain, sum, p->units);
    ahe_plain_digits(p, m, plain, p->units);
    noise_params np = task_noise_params(&w->t, round, attempt);
    noise_digits dn = noise_digits_of(m), dv = noise_digits_of(v);
    unsigned each = noise_value_bytes(&np);
    uint8_t *x[2] = { calloc(w->t.values, each), calloc(w->t.values, each) };
    noise_taken taken[2] = { { x[0], each }, { x[1], each } };
    struct {
        dgauss law;
        prg coins;
    } own;
    noise_source add[2];
    uint8_t seed[PRG_SEED];
    size_t bytes;
    const bool shares = task_mode(&w->t)->shares;
    CHECK_OK(own_law(&own.law, &w->t));
    for (int i = 0; i < 2; i++)
        add[i] =
            shares ? noise_taken_of(&taken[i]) : (noise_source){ .get = replay_draw, .ctx = &own };
    if (shares) {
        seeded g[2];
        sefl_rng rng[2];
        for (int i = 0; i < 2; i++) {
            named_init(&g[i], i ? "CSP" : "AS", 1, "noise", round, attempt);
            rng[i] = seeded_rng(&g[i]);
        }
        CHECK_OK(shares_fill_plain(x[1], each, 0, np.count, NULL, &rng[0], &rng[1]));
    }
    CHECK_OK(noise_reply_bytes(&bytes, &np));
    uint8_t *reply = calloc(bytes, 1);
    named_init(&gen, "CSP", 1, "reply", round, attempt);
    sefl_rng csp_rng = seeded_rng(&gen);
    if (!shares && task_is_sealed(&w->t)) {
        named_init(&gen, "CSP", 1, "noise", round, 0);
        seeded_fill(&gen, seed, sizeof seed);
    } else if (!shares) {
        seeded_fill(&gen, seed, sizeof seed);
    }
    if (!shares)
        prg_init(&own.coins, seed, "own noise");
    CHECK_OK(noise_reply_make(reply, &np, &dn, &add[1], NULL, NULL, &csp_rng));
    prg_init(&own.coins, coins, "own noise");
    CHECK_OK(noise_reply_finish(out, &np, span_of(reply, bytes), &dv, &add[0], NULL, NULL, coins));
    free(reply), free(x[0]), free(x[1]);
    free(v), free(m), free(sum), free(plain);
}

static void one_round(const char *scheme, task_noise mode)
{
    world *w = world_new(scheme, mode, W_VALUES);
    int64_t got[W_VALUES], again[W_VALUES];
    connection c;
    bool kept;
    world_sum(w, 1);
    connect_(&c, w, NULL, false);
    CHECK_OK(world_round(w, &c, 1, &kept, got));
    disconnect(&c);
    assert_false(kept);
    assert_int_equal(csp_seen_at(&w->c, 1).reveals, 1);
    check_result(w, got);
    if (mode != TASK_NOISE_NONE) {
        replay(w, 1, 1, again);
        assert_memory_equal(got, again, sizeof got);
    }
    /* a second reveal: the same bytes, and the same numbers from stored state */
    connect_(&c, w, NULL, false);
    CHECK_OK(world_round(w, &c, 1, &kept, again));
    disconnect(&c);
    assert_true(kept);
    assert_int_equal(csp_seen_at(&w->c, 1).reveals, 1);
    assert_int_equal(w->a.masks, 1);
    assert_memory_equal(got, again, sizeof got);
    assert_int_equal(w->a.ledger.n, 2); /* the task and one charge, on both sides */
    assert_memory_equal(&w->a.ledger.mark[2], &w->book.mark[2], sizeof(ledger_head));
    world_free(w);
}

/* Two drivers on one store: A draws noise and loses the lease; B draws its own, stores the mask
 * and dies; A leads again. The store decides: the noise is B's, and the round is not lost. */
static void the_store_has_the_noise(void **state)
{
    (void)state;
    static const uint8_t seed[AHEAD_SEED] = { 7 };
    world *w = world_new("pad", TASK_NOISE_OWN, W_VALUES);
    noise_ahead a = { 0 };
    int64_t got[W_VALUES], want[W_VALUES];
    connection c;
    bool kept;
    world_sum(w, 1);
    CHECK_OK(ahead_draw(&a, &w->t, 1, seed, NULL));
    for (unsigned n = 1; w->a.masks == 0; n++) { /* the first write of CSP after the mask */
        world_reset(w);
        w->c.fail = n;
        connect_(&c, w, NULL, false);
        assert_int_not_equal(world_round(w, &c, 1, &kept, got), SEFL_OK);
        disconnect(&c);
    }
    assert_int_equal(csp_seen_at(&w->c, 1).reveals, 0);
    w->ahead = &a;
    connect_(&c, w, NULL, false);
    CHECK_OK(world_round(w, &c, 1, &kept, got));
    disconnect(&c);
    assert_false(kept);
    assert_int_equal(w->a.masks, 2);
    replay(w, 1, 2, want);
    assert_memory_equal(got, want, sizeof got);
    ahead_drop(&a, &w->t);
    world_free(w);
}

/* A write that ends in an error: of the output (at = 1); of the mark, before (2) or after (3) its
 * row is there; of the wipe of the key (4). */
static struct {
    csp_store under;
    int at;
} late;

static sefl_status late_put(void *ctx, csp_record what, uint64_t round, sefl_span bytes)
{
    if (what != CSP_OUTPUT || late.at != 1)
        return late.under.put(ctx, what, round, bytes);
    late.at = 0;
    return sefl_fail(SEFL_EIO, "test: the output");
}

static sefl_status late_row_put(void *ctx, const csp_row *row)
{
    const int at = row->state == CSP_REVEALED && (late.at & 2) ? late.at : 0;
    if (at > 0)
        late.at = 0;
    if (at != 2)
        SEFL_PASS(late.under.row_put(ctx, row));
    return at > 0 ? sefl_fail(SEFL_EIO, "test: the mark") : SEFL_OK;
}

static sefl_status late_wipe(void *ctx, csp_record what, uint64_t round)
{
    return what == CSP_KEY && late.at == 4 ? sefl_fail(SEFL_EIO, "test: the key")
                                           : late.under.wipe(ctx, what, round);
}

static csp_store late_store(world *w, int at)
{
    csp_store s = csp_memory_store(&w->c);
    late.under = s, late.at = at;
    s.put = late_put, s.row_put = late_row_put, s.wipe = late_wipe;
    return s;
}

/* One CSP, two streams: its noise stays over the attempts, and goes when the round is over, also if
 * the mark is durable and CSP could not see it. Once an output is stored no other attempt replaces
 * it: the next REVEAL writes the mark. */
static void noise_stays_and_goes(void **state)
{
    (void)state;
    for (int at = 1; at < 4; at++) {
        world *w = world_new("pad", TASK_NOISE_OWN, W_VALUES);
        int64_t got[W_VALUES], want[W_VALUES];
        connection c;
        bool kept;
        world_sum(w, 1);
        csp_store disk = late_store(w, at);
        w->disk = &disk;
        connect_(&c, w, NULL, false);
        assert_int_not_equal(world_round(w, &c, 1, &kept, got), SEFL_OK);
        stream_end(&c);
        assert_int_equal(c.server->ahead.round, 1);
        w->coins[1].seed = 8; /* what CSP draws from here on is other noise */
        stream_begin(&c, NULL, false);
        CHECK_OK(world_round(w, &c, 1, &kept, got));
        stream_end(&c);
        assert_int_equal(kept, at >= 2);
        assert_int_equal(w->c.round[1]->reveals, 1);
        assert_int_equal(c.server->ahead.round, 0);
        assert_null(c.server->ahead.e);
        csp_free(c.server);
        replay(w, 1, w->attempt, want);
        assert_memory_equal(got, want, sizeof got);
        world_free(w);
    }
}

static void rounds_are_right(void **state)
{
    (void)state;
    for (int s = 0; s < 2; s++)
        for (int m = 0; m < 3; m++)
            one_round(schemes[s], modes[m]);
}

/* Two rounds on one stream; the stored reply is erased with the next header, the last one at the
 * end of the task. */
/* What cannot be read after the mark: damage is NO REVEALED, and AS skips the round; a disk that does
 * not answer is a FAULT, and AS tries again. */
static sefl_status unread(void *ctx, csp_record what, uint64_t round, sefl_buf *out)
{
    SEFL_PASS(late.under.get(ctx, what, round, out));
    if (late.at == 5 && what == CSP_OUTPUT)
        return sefl_fail(SEFL_EIO, "test: the disk");
    if ((late.at == 6 && what == CSP_OUTPUT) || (late.at == 7 && what == CSP_REVEAL))
        out->p[NOISE_ID] ^= 1;
    if (late.at == 8 && what == CSP_SET)
        out->n--;
    return SEFL_OK;
}

static void damage_after_the_mark(void **state)
{
    (void)state;
    for (int at = 5; at < 9; at++) {
        world *w = world_new("pad", TASK_NOISE_OWN, W_VALUES);
        int64_t got[W_VALUES];
        connection c;
        bool kept;
        world_sum(w, 1);
        csp_store disk = late_store(w, 0);
        disk.get = unread;
        w->disk = &disk;
        connect_(&c, w, NULL, false);
        CHECK_OK(world_round(w, &c, 1, &kept, got));
        disconnect(&c);
        late.at = at;
        connect_(&c, w, NULL, false);
        CHECK_STATUS(world_round(w, &c, 1, &kept, got), at == 5 ? SEFL_EIO : SEFL_ESTATE);
        assert_int_equal(w->outcome, at == 5 ? AS_AGAIN : AS_LOST);
        disconnect(&c);
        late.at = 0;
        connect_(&c, w, NULL, false);
        CHECK_OK(world_round(w, &c, 1, &kept, got));
        disconnect(&c);
        assert_true(kept);
        world_free(w);
    }
}

/* A key whose wipe fails stays live: it is wiped at its expiry, or before the next header, whatever
 * AS asks. */
static void a_key_that_cannot_be_wiped(void **state)
{
    (void)state;
    for (int expires = 0; expires < 2; expires++) {
        world *w = world_new("pad", TASK_NOISE_OWN, W_VALUES);
        int64_t got[W_VALUES];
        connection c;
        bool kept;
        sefl_buf both = { 0 };
        world_sum(w, 1);
        csp_store disk = late_store(w, 4);
        w->disk = &disk;
        connect_(&c, w, NULL, false);
        assert_int_not_equal(world_round(w, &c, 1, &kept, got), SEFL_OK);
        stream_end(&c);
        assert_true(csp_seen_at(&w->c, 1).has_key);
        assert_int_not_equal(csp_expires_ms(c.server), 0);
        if (expires) {
            w->wall_ms += UINT64_C(100000000), w->boot_ms += UINT64_C(100000000);
            CHECK_STATUS(csp_expire(c.server), SEFL_EIO);
            late.at = 0;
            CHECK_OK(csp_expire(c.server));
            assert_int_equal(csp_expires_ms(c.server), 0);
        } else {
            as_link_config cfg = world_as(w);
            as_link *l;
            round_header h = world_header(w, 2);
            stream_begin(&c, NULL, false);
            CHECK_OK(as_link_new(&l, &c.ch[0], &cfg));
            CHECK_STATUS(world_sign(w, l, &h, &both), SEFL_EIO);
            as_link_free(l);
            stream_end(&c);
            late.at = 0;
            stream_begin(&c, NULL, false);
            CHECK_OK(as_link_new(&l, &c.ch[0], &cfg));
            h = world_header(w, 2);
            CHECK_OK(world_sign(w, l, &h, &both));
            as_link_free(l);
            stream_end(&c);
        }
        assert_false(csp_seen_at(&w->c, 1).has_key);
        csp_free(c.server);
        buf_clear(&both);
        world_free(w);
    }
}

static void rounds_follow(void **state)
{
    (void)state;
    world *w = world_new("pad", TASK_NOISE_JOINT, 40);
    int64_t got[W_VALUES];
    connection c;
    sefl_buf both = { 0 };
    w->attempt = 5;
    as_link *l = world_link(w, &c);
    for (uint64_t r = 1; r <= 3; r++) {
        round_header h = world_header(w, r);
        bool kept;
        world_sum(w, r);
        CHECK_OK(world_sign(w, l, &h, &both));
        envelope env;
        CHECK_OK(envelope_read(&env, buf_span(&both)));
        CHECK_OK(envelope_check(&env, SIGN_HEADER, &w->t.servers));
        CHECK_OK(as_link_ping(l));
        if (r == 2) { /* too few clients */
            CHECK_OK(as_link_skip(l, r, 1));
            CHECK_OK(as_link_skip(l, r, 1));
            continue;
        }
        CHECK_OK(world_verdict(w, l, &h));
        CHECK_OK(world_reveal(w, &c, l, r, W_CLIENTS, NULL, &kept, got));
        assert_false(kept);
        check_result(w, got);
        assert_int_equal(csp_seen_at(&w->c, 1).forgotten, r > 1);
    }
    assert_int_equal(csp_seen_at(&w->c, 2).r.state, CSP_SKIPPED);
    assert_true(csp_seen_at(&w->c, 1).forgotten && !csp_seen_at(&w->c, 3).forgotten);
    CHECK_OK(as_link_bye(l, true));
    CHECK_STATUS(as_link_ping(l), SEFL_ECLOSED);
    as_link_free(l);
    disconnect(&c);
    CHECK_OK(c.st);
    assert_true(c.over && csp_seen_at(&w->c, 3).forgotten);
    buf_clear(&both);
    world_free(w);
}

/* The stream is cut at every message of either side, between two and inside one. Then a new
 * connection completes with one reveal and one result; nothing is used twice (the journals
 * check). */
static void any_cut_is_survived(void **state)
{
    (void)state;
    static const struct {
        const char *scheme;
        task_noise mode;
    } kind[] = { { "paillier", TASK_NOISE_JOINT },
                 { "pad", TASK_NOISE_OWN },
                 { "paillier", TASK_NOISE_NONE },
                 { "pad", TASK_NOISE_NONE },
                 { "pad", TASK_NOISE_JOINT } };
    for (int k = 0; k < 5; k++) {
        world *w = world_new(kind[k].scheme, kind[k].mode, 40);
        int64_t got[W_VALUES], again[W_VALUES];
        unsigned kept_runs = 0, cuts = 0;
        world_sum(w, 1);
        for (int side = 0; side < 2; side++)
            for (uint64_t at = 1;; at++) {
                connection c;
                bool kept, cut;
                world_reset(w);
                uint64_t where[2] = { side == 0 ? at : 0, side == 1 ? at : 0 };
                connect_(&c, w, where, at % 2);
                sefl_status st = world_round(w, &c, 1, &kept, got);
                disconnect(&c);
                cut = c.wire[side].was_cut;
                if (!cut) {
                    CHECK_OK(st);
                    break;
                }
                cuts++;
                assert_int_not_equal(st, SEFL_OK);
                assert_int_not_equal(w->outcome, AS_LOST);
                for (size_t i = 0; i < w->t.values; i++)
                    assert_int_equal(got[i], 0);
                unsigned open_before = csp_seen_at(&w->c, 1).reveals;
                connect_(&c, w, NULL, false);
                CHECK_OK(world_round(w, &c, 1, &kept, got));
                disconnect(&c);
                assert_int_equal(kept, open_before == 1);
                kept_runs += kept;
                assert_int_equal(csp_seen_at(&w->c, 1).reveals, 1);
                check_result(w, got);
                if (kind[k].mode == TASK_NOISE_OWN) { /* both servers' noise is that of attempt 1 */
                    replay(w, 1, 1, again);
                    assert_memory_equal(got, again, w->t.values * sizeof *got);
                }
                if (at % 3 > 0)
                    continue;
                connect_(&c, w, NULL, false);
                CHECK_OK(world_round(w, &c, 1, &kept, again));
                disconnect(&c);
                assert_true(kept);
                assert_int_equal(csp_seen_at(&w->c, 1).reveals, 1);
                assert_memory_equal(got, again, w->t.values * sizeof *got);
                assert_int_equal(w->a.ledger.charges, 1);
                assert_int_equal(w->book.charges, 1);
            }
        assert_true(kept_runs >= 1 && cuts > 8);
        world_free(w);
    }
}

/* AS refuses an output that changes in transit, at any byte; CSP's stored reply is still
 * correct. */
static void changed_outputs_are_refused(void **state)
{
    (void)state;
    for (int m = 0; m < 3; m++) {
        world *w = world_new("paillier", modes[m], 40);
        int64_t got[W_VALUES];
        size_t bytes;
        world_sum(w, 1);
        CHECK_OK(task_output_bytes(&bytes, &w->t));
        for (size_t at = 0; at < bytes; at += at < 130 ? 7 : 61) {
            connection c;
            bool kept;
            world_reset(w);
            connect_(&c, w, NULL, false);
            c.wire[1].flip = 1 + at;
            CHECK_STATUS(world_round(w, &c, 1, &kept, got), SEFL_EPROTO);
            disconnect(&c);
            for (size_t i = 0; i < w->t.values; i++)
                assert_int_equal(got[i], 0);
            assert_true(w->a.mask[0].replied);
            connect_(&c, w, NULL, false);
            CHECK_OK(world_round(w, &c, 1, &kept, got));
            disconnect(&c);
            assert_true(kept);
            check_result(w, got);
        }
        world_free(w);
    }
}

/* CSP states another digest than that of its output: AS asks for what CSP has not announced, and
 * then refuses what CSP has. */
static void a_wrong_digest(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_OWN, 40);
    int64_t got[W_VALUES];
    connection c;
    bool kept;
    world_sum(w, 1);
    connect_(&c, w, NULL, false);
    c.wire[1].flip = 1, c.wire[1].rehash = true;
    CHECK_STATUS(world_round(w, &c, 1, &kept, got), SEFL_EPROTO);
    disconnect(&c);
    for (int i = 0; i < 2; i++) {
        connect_(&c, w, NULL, false);
        CHECK_STATUS(world_round(w, &c, 1, &kept, got), SEFL_ESTATE);
        assert_int_equal(w->outcome, AS_LOST);
        disconnect(&c);
        assert_true(kept);
    }
    assert_int_equal(csp_seen_at(&w->c, 1).reveals, 1);
    world_free(w);
}

/* CSP's store is an old copy: the output may have left, and CSP's mark is gone. AS, which has
 * acknowledged it, makes no other attempt, whatever CSP would do. */
static void no_attempt_after_an_acknowledged_output(void **state)
{
    (void)state;
    for (int m = 0; m < 3; m++) {
        world *w = world_new("paillier", modes[m], 40);
        int64_t got[W_VALUES];
        connection c;
        bool kept;
        world_sum(w, 1);
        connect_(&c, w, NULL, false);
        CHECK_OK(world_round(w, &c, 1, &kept, got));
        disconnect(&c);
        csp_store j = csp_memory_store(&w->c);
        csp_row row;
        CHECK_OK(j.row_get(j.ctx, 1, &row));
        row.state = CSP_SIGNED;
        CHECK_OK(j.row_put(j.ctx, &row));
        connect_(&c, w, NULL, false);
        CHECK_STATUS(world_round(w, &c, 1, &kept, got), SEFL_ESTATE);
        assert_int_equal(w->outcome, AS_LOST);
        disconnect(&c);
        assert_false(kept);
        assert_int_equal(w->a.masks, 1);
        for (size_t i = 0; i < w->t.values; i++)
            assert_int_equal(got[i], 0);
        world_free(w);
    }
}

/* A CSP that contradicts itself: AS refuses facts of another reveal at once, and never uses other
 * numbers after it has used some. */
static void lie(connection *c, uint64_t flip)
{
    for (int i = 0; i < 2; i++)
        c->wire[i].flip = flip, c->wire[i].rehash = true;
}

static void one_reply_to_an_attempt(void **state)
{
    (void)state;
    for (int m = 1; m < 3; m++) {
        world *w = world_new("paillier", modes[m], 40);
        int64_t got[W_VALUES];
        connection c;
        bool kept;
        size_t dither = NOISE_REPLY_HEAD - 32;
        world_sum(w, 1);
        for (size_t at = 0; at < (modes[m] == TASK_NOISE_OWN ? NOISE_REPLY_HEAD : dither); at++) {
            world_reset(w);
            connect_(&c, w, NULL, false);
            lie(&c, 1 + at);
            CHECK_STATUS(world_round(w, &c, 1, &kept, got), SEFL_EPROTO);
            disconnect(&c);
            for (size_t i = 0; i < w->t.values; i++)
                assert_int_equal(got[i], 0);
        }
        for (int again = 0; again < 2; again++) {
            world_reset(w);
            connect_(&c, w, NULL, false);
            lie(&c, 1 + NOISE_REPLY_HEAD);
            CHECK_OK(world_round(w, &c, 1, &kept, got));
            disconnect(&c);
            connect_(&c, w, NULL, false);
            lie(&c, again ? 1 + NOISE_REPLY_HEAD : 0);
            CHECK_STATUS(world_round(w, &c, 1, &kept, got), again ? SEFL_OK : SEFL_ESTATE);
            assert_int_equal(w->outcome, again ? AS_GOT : AS_LOST);
            disconnect(&c);
            assert_true(kept);
            assert_int_equal(w->a.masks, 1);
        }
        world_free(w);
    }
}

/* AS has shares that CSP lost or never had: AS uses others, with one charge and one reveal. */
static void shares_that_csp_does_not_have(void **state)
{
    (void)state;
    world *w = world_new("pad", TASK_NOISE_JOINT, 40);
    sefl_rng rng = rng_system();
    shares_pool *pools[3];
    int64_t got[W_VALUES];
    connection c;
    bool kept;
    for (int i = 0; i < 3; i++)
        CHECK_OK(shares_pool_new(&pools[i], 0, &rng));
    world_sum(w, 1);
    w->shares[0] = pools[0], w->shares[1] = pools[1];
    CHECK_OK(shares_fill_pair(pools[0], pools[2], 50, &rng, &rng)); /* somebody else has them */
    CHECK_OK(shares_fill_pair(pools[0], pools[1], 100, &rng, &rng));
    connect_(&c, w, NULL, false);
    CHECK_OK(world_round(w, &c, 1, &kept, got));
    disconnect(&c);
    assert_false(kept);
    check_result(w, got);
    assert_int_equal(w->book.charges, 1);
    assert_int_equal(w->a.masks, 1);
    assert_int_equal(shares_pool_have(pools[0]), 60); /* of the session that both have */
    assert_int_equal(shares_pool_have(pools[1]), 60);
    /* no more shares are made: the round cannot be revealed, and is not charged */
    world_sum(w, 2);
    shares_pool_clear(pools[1]);
    connect_(&c, w, NULL, false);
    CHECK_STATUS(world_round(w, &c, 2, &kept, got), SEFL_ESTATE);
    disconnect(&c);
    assert_int_equal(w->book.charges, 1);
    assert_int_equal(shares_pool_have(pools[0]), 0);
    world_free(w);
    for (int i = 0; i < 3; i++)
        shares_pool_free(pools[i]);
}

/* AS lost what a reveal needs: the round is lost, the link continues, and AS can skip the round. */
static void a_lost_mask_loses_the_round(void **state)
{
    (void)state;
    for (int m = 0; m < 3; m++) {
        world *w = world_new("pad", modes[m], 40);
        int64_t got[W_VALUES];
        connection c;
        bool kept;
        world_sum(w, 1);
        connect_(&c, w, NULL, false);
        CHECK_OK(world_round(w, &c, 1, &kept, got));
        disconnect(&c);
        w->a.lose = true;
        as_link *l = world_link(w, &c);
        const as_peer *p = as_link_peer(l);
        assert_true(p->signed_ == 1 && p->revealed == 1 && p->skipped == 0 && !p->behind);
        as_reveal o = { .round = 1, .attempt = ++w->attempt, .clients = 3, .store = &c.as };
        memcpy(o.set, w->set, 32);
        CHECK_OUTCOME(l, as_link_reveal(l, &o, &kept, got), AS_LOST);
        for (size_t i = 0; i < w->t.values; i++)
            assert_int_equal(got[i], 0);
        assert_false(as_link_dead(l));
        CHECK_OK(as_link_skip(l, 1, 2));
        (void)world_signed(w, l, 2);
        assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_REVEALED); /* forever the same */
        CHECK_OUTCOME(l, as_link_reveal(l, &o, &kept, got), AS_LOST);  /* erased by now */
        as_link_free(l);
        disconnect(&c);
        world_free(w);
    }
}

/* CSP restarts with another key file: no head of the round opens, which CSP reports as a lost key;
 * AS can skip the round, and the next one has a key from the new root. */
static void a_lost_root_loses_the_round(void **state)
{
    (void)state;
    world *w = world_new("pad", TASK_NOISE_NONE, 40);
    int64_t got[W_VALUES];
    connection c;
    bool kept;
    round_header again = world_header(w, 1);
    uint8_t early[HEAD_MAX];
    head_refusal refused[1];
    size_t n;
    world_sum(w, 1);
    as_link *l = world_link(w, &c);
    round_header h = world_signed(w, l, 1);
    as_link_free(l);
    disconnect(&c);

    w->root[0] ^= 1;
    l = world_link(w, &c);
    CHECK_OUTCOME(l, as_link_key(l, &again), AS_LOST);
    world_head(w, 0, &h, early);
    CHECK_OUTCOME(l, as_link_early(l, 1, span_of(early, head_bytes(w->t.seal)), refused, &n),
                  AS_LOST);
    CHECK_OUTCOME(l, world_verdict(w, l, &h), AS_LOST);
    CHECK_OK(as_link_skip(l, 1, 2));
    as_link_free(l);
    disconnect(&c);

    world_sum(w, 2);
    connect_(&c, w, NULL, false);
    CHECK_OK(world_round(w, &c, 2, &kept, got));
    check_result(w, got);
    disconnect(&c);
    world_free(w);
}

/* A disk failure at any moment, on either side: no result, and the next attempt succeeds. */
static void a_failing_disk_opens_nothing(void **state)
{
    (void)state;
    for (int m = 0; m < 3; m++) {
        world *w = world_new("pad", modes[m], 40);
        int64_t got[W_VALUES];
        world_sum(w, 1);
        for (int side = 0; side < 2; side++)
            for (unsigned n = 1; n <= 12; n++) {
                connection c;
                bool kept;
                world_reset(w);
                *(side == 0 ? &w->a.fail : &w->c.fail) = n;
                connect_(&c, w, NULL, false);
                sefl_status st = world_round(w, &c, 1, &kept, got);
                disconnect(&c);
                if (*(side == 0 ? &w->a.fail : &w->c.fail) > 0) {
                    CHECK_OK(st);
                    break;
                }
                assert_int_not_equal(st, SEFL_OK);
                /* the reply had come; CSP's last writes are REVEAL, the mark and the key's wipe */
                const unsigned mask = task_mode(&w->t)->shares ? 2 : 1; /* after the shares */
                bool replied = side == 0 ? n == mask + 1 : n >= 9;
                assert_int_equal(csp_seen_at(&w->c, 1).reveals, replied && !(side == 1 && n == 9));
                connect_(&c, w, NULL, false);
                CHECK_OK(world_round(w, &c, 1, &kept, got));
                disconnect(&c);
                assert_int_equal(kept, replied);
                assert_int_equal(csp_seen_at(&w->c, 1).reveals, 1);
                check_result(w, got);
            }
        world_free(w);
    }
}

/* Any allocation on either side fails: at most one reveal, and the next connection gets the
 * result. */
static void a_failing_allocation_opens_once(void **state)
{
    (void)state;
#if SEFL_FAULTS
    for (int m = 0; m < 3; m++) {
        world *w = world_new("pad", modes[m], 40);
        int64_t got[W_VALUES];
        unsigned long step = test_count(m == 2 ? 29 : 7, 1);
        world_sum(w, 1);
        for (uint64_t n = 1;; n += step) {
            connection c;
            bool kept, hit;
            world_reset(w);
            connect_(&c, w, NULL, false);
            fault_arm(FAULT_ALLOC, n);
            sefl_status st = world_round(w, &c, 1, &kept, got);
            disconnect(&c);
            hit = fault_was_hit();
            fault_disarm();
            if (!hit) {
                CHECK_OK(st);
                break;
            }
            assert_true(csp_seen_at(&w->c, 1).reveals <= 1);
            unsigned before = csp_seen_at(&w->c, 1).reveals;
            connect_(&c, w, NULL, false);
            CHECK_OK(world_round(w, &c, 1, &kept, got));
            disconnect(&c);
            assert_int_equal(kept, before == 1);
            assert_int_equal(csp_seen_at(&w->c, 1).reveals, 1);
            check_result(w, got);
        }
        world_free(w);
    }
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_right),
        cmocka_unit_test(the_store_has_the_noise),
        cmocka_unit_test(noise_stays_and_goes),
        cmocka_unit_test(damage_after_the_mark),
        cmocka_unit_test(a_key_that_cannot_be_wiped),
        cmocka_unit_test(rounds_follow),
        cmocka_unit_test(any_cut_is_survived),
        cmocka_unit_test(a_lost_mask_loses_the_round),
        cmocka_unit_test(changed_outputs_are_refused),
        cmocka_unit_test(one_reply_to_an_attempt),
        cmocka_unit_test(a_wrong_digest),
        cmocka_unit_test(no_attempt_after_an_acknowledged_output),
        cmocka_unit_test(shares_that_csp_does_not_have),
        cmocka_unit_test(a_lost_root_loses_the_round),
        cmocka_unit_test(a_failing_disk_opens_nothing),
        cmocka_unit_test(a_failing_allocation_opens_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
