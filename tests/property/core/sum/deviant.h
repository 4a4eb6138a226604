/* deviant: AS's real driver (support/as_run.h), whose CSP does whatever a test wants, on a ring of
 * 2^7. CSP is a function behind the channel. It hears a message; `acts` may answer in its place, or
 * change what it is about to say; otherwise it says what an honest CSP says, but adds no noise. It
 * knows every pad. Each of the D values of a round is one run of the mechanism.
 *
 * In every round the harness checks the premises of the proof (docs/PROTOCOL.md):
 *   KEY arrives     nothing is left of the secrets of the round before
 *   SET arrives     AS's noise is drawn; if AS did not crash, before the round closed
 *   REVEAL arrives  the round is charged
 *   SUM arrives     mask and coins of this attempt are durable; the mask is new, the coins are those
 *                   of the round's other attempts; AS has acknowledged no output of this round; the
 *                   sum is that of the clients that CSP keeps
 *   ACK arrives     the digest is durable
 *   a release       has the same integers as before a crash, at least LEAST clients, and AS was told
 *                   of each client that CSP dropped
 *
 * With `crashes` AS dies, or its store fails, at random between any two writes and messages. */
#ifndef TESTS_DEVIANT_H
#define TESTS_DEVIANT_H

#include "mpc/noise/online.h"
#include "privacy/mechanism/dgauss.h"
#include "protocol/head.h"
#include "protocol/modes/mode.h"
#include "sum/as_rounds_internal.h"
#include "support/as_run.h"
#include "support/check.h"
#include "support/digits.h"
#include "support/folder.h"

#include <stdlib.h>

enum {
    D = 2048,
    BITS = 7,
    RING = 1 << BITS,
    SHIFT = 4, /* the victim's value, all of its norm */
    CLIENTS = 5,
    VICTIM = 0,
    HOSTILE = CLIENTS - 1,
    LEAST = 3,
    ROUNDS = 8,
    GAMMA = 3000, /* of the filter, in 1/4096 */
};

/* What became of a round. Digits are modulo RING. */
typedef struct result {
    unsigned sums;             /* masked sums that CSP got */
    bool released, known;      /* known: CSP got the masked sum of this release */
    uint8_t lags;              /* earlier rounds whose noise AS took back */
    unsigned told;             /* bit i: AS knows that CSP dropped client i */
    uint8_t first[D], last[D]; /* n = sum + v of the first and the last attempt */
    uint8_t off[D];            /* CSP's answer less n */
    uint8_t noise[D];          /* e': what AS released, less answer and mask */
    int64_t w[D];
} result;

typedef struct deviant deviant;

/* A deviation. */
typedef struct way {
    const char *name;
    enum { RELEASES, SKIPS, STOPS, ANY } ends; /* what AS does in every round without a crash */
    bool (*acts)(deviant *d, uint32_t kind);   /* true: it has answered. NULL: no */
    unsigned plus, spread, more; /* the answer for value i is (1 + more) n + plus + i spread */
    unsigned hostile;            /* every value of the hostile client */
    unsigned drops;              /* bit i: the verdict leaves client i out */
    uint16_t no;                 /* the answer to SET */
    uint32_t cuts;               /* hangs up at this message, up to the first REVEAL */
} way;

struct deviant {
    as_run run; /* first */
    const way *way;
    bool filter, crashes;
    unsigned neighbour; /* 1: the victim has SHIFT everywhere, 0: zeros */
    seeded gen;
    task t;
    sefl_buf envelope;
    sign_key *key[2]; /* AS, CSP */
    sefl_coins coins;
    as_memory memory;
    account *book;
    bool dead;   /* AS has crashed */
    bool failed; /* so did its store, or AS itself, in this round */

    uint64_t made; /* round of the bodies */
    uint8_t pad[CLIENTS][D];
    uint8_t units[CLIENTS][D * BITS / 8];
    round_entry set[CLIENTS];
    uint8_t heads[CLIENTS * HEAD_MAX];
    ahe_sum *sum;
    unsigned off_sum; /* bit i: client i is taken off it */

    channel ch;
    bool cut; /* CSP hangs up: what it has said still arrives */
    sefl_buf in, out, b;
    size_t at; /* in `out` */

    /* what CSP heard */
    sefl_span body;
    uint8_t mark[LEDGER_HEAD_BYTES], tree_seed[COUNTED_SEED];
    round_statement s;
    uint64_t round;
    unsigned tries; /* REVEALs of this round */
    unsigned sums;  /* and SUMs */
    /* what CSP is about to say */
    uint64_t signed_, revealed, skipped;
    unsigned drops; /* bit i: its verdict leaves client i out */
    uint8_t root[32], id[NOISE_ID], lags;
    uint64_t digit[D]; /* the answer */
    uint8_t *output;   /* made of it */
    size_t output_n;
    uint8_t round_key[SEAL_PUB_MAX];

    as_mask mask; /* of this round's latest attempt */
    uint64_t v[D];
    uint8_t given[D];
    result at_round[ROUNDS + 1];
};

/* ---- AS ---------------------------------------------------------------------------------------- */

static inline sefl_status deviant_coins(void *self, sefl_rng *out, const char *purpose,
                                        uint64_t round, uint64_t attempt)
{
    (void)purpose, (void)round, (void)attempt;
    *out = seeded_rng(&((deviant *)self)->gen); /* never the same twice, as a system's */
    return SEFL_OK;
}

/* Dies, or its disk fails once. */
static inline sefl_status deviant_trouble(deviant *d, bool disk)
{
    if (!d->dead && d->crashes && seeded_below(&d->gen, 30) == 0)
        d->dead = d->failed = true;
    if (d->dead)
        return sefl_fail(SEFL_ECANCELLED, "test: a crash");
    if (disk && d->crashes && seeded_below(&d->gen, 30) == 0) {
        d->failed = true;
        return sefl_fail(SEFL_EIO, "test: the disk is full");
    }
    return SEFL_OK;
}

static inline sefl_status deviant_put(void *me, as_record what, uint64_t round, uint64_t attempt,
                                      sefl_span bytes)
{
    (void)what, (void)round, (void)attempt, (void)bytes;
    return deviant_trouble(me, true);
}

static inline sefl_status deviant_step(void *me, const as_row *row)
{
    (void)row;
    return deviant_trouble(me, true);
}

static inline void deviant_between(void *me, as_link *link)
{
    deviant *d = me;
    (void)link;
    if (d->dead)
        as_rounds_stop(d->run.rounds);
}

static inline result *deviant_result(deviant *d)
{
    assert_true(d->round >= 1 && d->round <= ROUNDS);
    return &d->at_round[d->round];
}

static inline void deviant_refused(void *me, uint64_t round, const char *when,
                                   const head_refusal *r, const uint8_t client[32], bool named)
{
    deviant *d = me;
    (void)r, (void)named;
    if (strcmp(when, "set") == 0)
        d->at_round[round].told |= 1u << (client[0] - 1);
}

static inline sefl_status deviant_take_off(void *me, uint64_t round, const uint8_t client[32])
{
    deviant *d = me;
    const unsigned i = client[0] - 1u;
    (void)round;
    if (d->off_sum >> i & 1)
        return SEFL_ENOTFOUND;
    d->off_sum |= 1u << i;
    return ahe_sum_take(&d->t.ahe, d->sum, 0, d->units[i], d->t.ahe.units, NULL);
}

static inline void deviant_frozen(void *me)
{
    const deviant *d = me;
    assert_true(d->failed || (d->run.rounds->ahead.round == d->made && d->run.rounds->ahead.e));
}

static inline sefl_status deviant_release(void *me, uint64_t round, const int64_t *w)
{
    deviant *d = me;
    result *x = &d->at_round[round];
    uint32_t kept = 0;
    for (int i = 0; i < CLIENTS; i++)
        kept += !(d->drops >> i & 1);
    assert_int_equal(d->run.clients, kept);
    assert_true(kept >= LEAST && (x->told & d->drops) == d->drops);
    if (x->released)
        assert_memory_equal(x->w, w, sizeof x->w);
    x->released = true;
    memcpy(x->w, w, sizeof x->w);
    for (int i = 0; i < D; i++) {
        x->off[i] = (uint8_t)((d->given[i] - x->last[i]) % RING);
        x->noise[i] = (uint8_t)((uint64_t)(w[i] - d->given[i] + d->v[i]) % RING);
    }
    return SEFL_OK;
}

/* ---- uploads ----------------------------------------------------------------------------------- */

/* With a filter the victim takes part in odd rounds. */
static inline unsigned deviant_x(const deviant *d, int client, uint64_t round)
{
    if (client == HOSTILE)
        return d->way->hostile;
    return client == VICTIM && d->neighbour && (!d->filter || round % 2 == 1) ? SHIFT : 0;
}

/* Heads and names tell nothing: property.roles.curious_csp is about them. */
static inline void deviant_bodies(deviant *d, uint64_t round)
{
    const ahe_params *p = &d->t.ahe;
    const size_t one = head_bytes(d->t.seal);
    int64_t v[D];
    for (int c = 0; c < CLIENTS; c++) {
        seeded_fill(&d->gen, d->pad[c], D);
        for (int i = 0; i < D; i++) {
            d->pad[c][i] %= RING;
            v[i] = (d->pad[c][i] + deviant_x(d, c, round)) % RING;
        }
        memset(d->units[c], 0, sizeof d->units[c]);
        ahe_plain_add(p, d->units[c], v, p->units);
        d->set[c].client[0] = (uint8_t)(c + 1);
        seeded_fill(&d->gen, d->set[c].body, sizeof d->set[c].body);
        memset(d->heads + c * one, 7, one);
        memcpy(d->heads + c * one + 8, &d->set[c], sizeof d->set[c]);
    }
    d->made = round;
}

static inline void deviant_open(void *me, const round_header *h)
{
    deviant *d = me;
    const ahe_params *p = &d->t.ahe;
    if (d->made != h->round)
        deviant_bodies(d, h->round);
    ahe_sum_free(p, d->sum), d->sum = NULL;
    CHECK_OK(ahe_sum_new(&d->sum, p, NULL));
    for (int c = 0; c < CLIENTS; c++) {
        CHECK_OK(ahe_sum_begin(p, d->sum));
        CHECK_OK(ahe_sum_add_units(p, d->sum, 0, d->units[c], p->units, NULL));
    }
    CHECK_OK(ahe_sum_close(p, d->sum));
    d->off_sum = 0;
    d->run.up = (as_uploads_memory){ .clients = CLIENTS,
                                     .set = d->set,
                                     .heads = d->heads,
                                     .head_bytes = head_bytes(d->t.seal),
                                     .closed = d->sum };
}

/* ---- CSP: what it says ------------------------------------------------------------------------- */

static inline void deviant_say(deviant *d, uint32_t kind, sefl_span body)
{
    CHECK_OK(wr_u32(&d->out, kind));
    CHECK_OK(wr_u32(&d->out, 0));
    CHECK_OK(wr_u64(&d->out, body.n));
    CHECK_OK(wr_raw(&d->out, body.p, body.n));
}

/* Says what is in d->b. */
static inline void deviant_say_it(deviant *d, uint32_t kind)
{
    deviant_say(d, kind, buf_span(&d->b));
    buf_reset(&d->b);
}

static inline void deviant_no(deviant *d, uint16_t code)
{
    deviant_say(d, LINK_NO, span_of((const uint8_t[2]){ (uint8_t)code, (uint8_t)(code >> 8) }, 2));
}

static inline void deviant_signed(deviant *d, sign_kind kind, sefl_span content, bool both,
                                  const sign_key *key)
{
    envelope env = { .kind = kind, .content = content };
    if (both)
        CHECK_OK(envelope_sign(&env, SIGNER_AS, d->key[0]));
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, key));
    CHECK_OK(envelope_write(&d->b, &env));
}

static inline void deviant_header(deviant *d, const sign_key *key)
{
    envelope env;
    CHECK_OK(envelope_read(&env, span_of(d->body.p + sizeof d->mark, d->body.n - sizeof d->mark)));
    CHECK_OK(wr_raw(&d->b, d->mark, sizeof d->mark));
    deviant_signed(d, SIGN_HEADER, env.content, true, key);
    d->signed_ = d->round;
    deviant_say_it(d, LINK_HEADER);
}

/* lie: the root is that of all clients but the first. */
static inline void deviant_verdict(deviant *d, bool lie)
{
    head_refusal refused[CLIENTS];
    round_entry kept[CLIENTS];
    uint32_t n = 0, out = 0;
    for (uint32_t i = 0; i < CLIENTS; i++)
        if (d->drops >> i & 1)
            refused[out++] = (head_refusal){ .index = i, .reason = HEAD_SEAL };
        else
            kept[n++] = d->set[i];
    CHECK_OK(counted_root(d->root, &(counted_facts){ .task = d->t.id,
                                                     .round = d->round,
                                                     .tree_seed = d->tree_seed,
                                                     .clients_max = d->t.clients_max,
                                                     .leaves = kept + lie,
                                                     .n = n - lie }));
    CHECK_OK(wr_raw(&d->b, d->root, 32));
    CHECK_OK(wr_u32(&d->b, n));
    CHECK_OK(wr_u32(&d->b, out));
    CHECK_OK(link_refusals_write(&d->b, refused, out));
    deviant_say_it(d, LINK_VERDICT);
}

static inline void deviant_go(deviant *d)
{
    CHECK_OK(wr_raw(&d->b, d->mark, sizeof d->mark));
    CHECK_OK(wr_u8(&d->b, d->lags));
    deviant_say_it(d, LINK_GO);
}

static inline sefl_status deviant_silent(void *ctx, int64_t *e, size_t first, size_t n)
{
    (void)ctx, (void)first;
    memset(e, 0, n * sizeof *e);
    return SEFL_OK;
}

/* The answer of the digits, and CSP's mark. */
static inline void deviant_answers(deviant *d, uint64_t attempt, uint64_t named)
{
    noise_params p = task_noise_params(&d->t, d->round, named);
    noise_digits digits = noise_digits_of(d->digit);
    noise_source none = { .get = deviant_silent };
    sefl_rng rng = seeded_rng(&d->gen);
    CHECK_OK(noise_reply_bytes(&d->output_n, &p));
    free(d->output);
    d->output = malloc(d->output_n);
    for (unsigned i = 0; i < D; i++)
        d->digit[i] = (d->digit[i] * (1 + d->way->more) + d->way->plus + i * d->way->spread) % RING;
    CHECK_OK(noise_reply_make(d->output, &p, &digits, &none, NULL, NULL, &rng));
    link_plain_id(d->id, attempt, d->root);
    d->revealed = d->round;
}

/* DIGEST, or KEPT with AS's mark. */
static inline void deviant_digest(deviant *d, uint32_t kind)
{
    uint8_t digest[SHA256_BYTES];
    sha256_of(digest, span_of(d->output, d->output_n));
    if (kind == LINK_KEPT) {
        CHECK_OK(wr_raw(&d->b, d->mark, sizeof d->mark));
        CHECK_OK(wr_raw(&d->b, d->id, sizeof d->id));
    }
    CHECK_OK(wr_raw(&d->b, digest, sizeof digest));
    deviant_say_it(d, kind);
}

static inline void deviant_counted(deviant *d, bool lie)
{
    counted_statement s = { .round = d->round };
    uint8_t bytes[COUNTED_STATEMENT_BYTES];
    memcpy(s.task, d->t.id, 32), memcpy(s.root, d->root, 32), memcpy(s.id, d->id, 32);
    s.root[0] ^= lie;
    counted_statement_write(bytes, &s);
    deviant_signed(d, SIGN_COUNTED, span_of(bytes, sizeof bytes), false, d->key[1]);
    deviant_say_it(d, LINK_COUNTED);
}

/* What an honest CSP says, but that it adds no noise. */
static inline void deviant_says(deviant *d, uint32_t kind)
{
    uint8_t b[2 + LEDGER_HEAD_BYTES + 24 + LINK_PAIR] = { LINK_VERSION };
    const size_t key = d->t.seal->pub_bytes;
    switch (kind) {
    case LINK_HELLO:
        memcpy(b + 2, d->mark, sizeof d->mark);
        store_u64(b + 42, d->signed_), store_u64(b + 50, d->revealed),
            store_u64(b + 58, d->skipped);
        return deviant_say(d, LINK_WELCOME, span_of(b, sizeof b));
    case LINK_KEY:
        store_u64(b, d->round), store_u32(b + 8, d->t.seal->id);
        memcpy(b + 10, d->round_key, key);
        return deviant_say(d, LINK_KEY, span_of(b, 10 + key));
    case LINK_HEADER:
        return deviant_header(d, d->key[1]);
    case LINK_EARLY:
        return deviant_say(d, LINK_EARLY, span_of("", 0));
    case LINK_SET:
        return; /* HEADS follow */
    case LINK_HEADS:
        return d->way->no ? deviant_no(d, d->way->no) : deviant_verdict(d, false);
    case LINK_REVEAL:
        return d->revealed >= d->round ? deviant_digest(d, LINK_KEPT) : deviant_go(d);
    case LINK_SUM:
        deviant_answers(d, d->s.attempt, d->s.attempt);
        return deviant_digest(d, LINK_DIGEST);
    case LINK_ACK:
        deviant_say(d, LINK_REPLY, span_of(d->output, d->output_n));
        return deviant_counted(d, false);
    case LINK_SKIP:
        d->skipped = d->round;
    }
    deviant_say(d, kind == LINK_PING ? LINK_PONG : LINK_YES, span_of("", 0));
}

/* ---- CSP: what it hears ------------------------------------------------------------------------ */

/* A new round: AS has destroyed what it had of the one before. */
static inline void deviant_hears_key(deviant *d)
{
    const uint64_t round = load_u64(d->body.p);
    for (int i = AS_SHARES; i <= AS_RELEASE; i++)
        assert_false(d->memory.record[i].there);
    assert_true(d->run.rounds->ahead.round == 0 || d->run.rounds->ahead.round == round);
    if (round == d->round)
        return;
    d->round = round, d->failed = false;
    d->tries = d->sums = d->drops = 0;
    seeded_fill(&d->gen, d->round_key, sizeof d->round_key);
    as_mask_clear(&d->mask);
}

static inline void deviant_hears_reveal(deviant *d)
{
    envelope env;
    bool charged;
    CHECK_OK(envelope_read(&env, span_of(d->body.p + sizeof d->mark, d->body.n - sizeof d->mark)));
    CHECK_OK(round_statement_read(&d->s, env.content));
    CHECK_OK(account_has(d->book, d->round, &charged));
    assert_true(charged && d->s.round == d->round && d->s.clients >= LEAST);
    assert_memory_equal(d->s.set, d->root, 32);
    d->lags = d->round % 2 == 0 ? d->s.lags : 0; /* pairs of rounds: see deviant_x */
    d->tries++;
}

/* Loads the latest mask, which must be durable; its digits go to d->v. */
static inline as_mask deviant_mask(deviant *d)
{
    as_mask m;
    uint8_t plain[D * BITS / 8];
    CHECK_OK(as_store_masked(&d->run.under, d->round, &m));
    CHECK_OK(ahe_mask_units(&d->t.ahe, plain, 0, 1, m.seed));
    ahe_plain_digits(&d->t.ahe, d->v, plain, 1);
    return m;
}

static inline void deviant_hears_sum(deviant *d)
{
    result *x = deviant_result(d);
    uint8_t digest[SHA256_BYTES];
    const as_mask m = deviant_mask(d);
    CHECK_STATUS(as_store_reply(&d->run.under, d->round, digest), SEFL_ENOTFOUND);
    assert_true(m.attempt == d->s.attempt && m.attempt > d->mask.attempt);
    assert_memory_not_equal(m.seed, d->mask.seed, sizeof m.seed);
    assert_true(d->sums == 0 || memcmp(m.coins, d->mask.coins, sizeof m.coins) == 0);
    d->mask = m;
    ahe_plain_digits(&d->t.ahe, d->digit, d->body.p, 1);
    for (int i = 0; i < D; i++) {
        unsigned kept = 0;
        for (int c = 0; c < CLIENTS; c++)
            if (!(d->drops >> c & 1))
                kept += deviant_x(d, c, d->round), d->digit[i] += RING - d->pad[c][i];
        x->last[i] = (uint8_t)(d->digit[i] %= RING);
        assert_int_equal(x->last[i], (kept + d->v[i]) % RING);
    }
    if (d->sums++ == 0)
        memcpy(x->first, x->last, sizeof x->first);
    x->sums = d->sums;
}

static inline void deviant_hears_ack(deviant *d)
{
    result *x = deviant_result(d);
    uint8_t digest[SHA256_BYTES];
    const as_mask m = deviant_mask(d);
    CHECK_OK(as_store_reply(&d->run.under, d->round, digest));
    assert_memory_equal(digest, d->body.p + 8, sizeof digest);
    memcpy(d->given, d->output + NOISE_REPLY_HEAD, D);
    x->lags = m.lags;
    x->known = m.attempt == d->mask.attempt; /* else AS sent no SUM for it */
}

static inline void deviant_hears(deviant *d, uint32_t kind, sefl_span body)
{
    const way *y = d->way;
    d->body = body;
    if (kind == LINK_HELLO)
        memcpy(d->mark, body.p + 4, sizeof d->mark);
    if (kind == LINK_HEADER || kind == LINK_REVEAL)
        memcpy(d->mark, body.p, sizeof d->mark);
    if (kind == LINK_KEY)
        deviant_hears_key(d);
    if (kind == LINK_SET) {
        memcpy(d->tree_seed, body.p + 12, COUNTED_SEED);
        assert_true(d->run.rounds->ahead.round == d->round && d->run.rounds->ahead.e);
    }
    if (kind == LINK_REVEAL)
        deviant_hears_reveal(d);
    if (kind == LINK_SUM)
        deviant_hears_sum(d);
    if (kind == LINK_ACK)
        deviant_hears_ack(d);
    d->cut = kind == y->cuts && d->tries <= 1;
    if (kind == LINK_HEADS)
        d->drops = y->drops;
    if (!d->cut && (!y->acts || !y->acts(d, kind)))
        deviant_says(d, kind);
}

/* ---- the stream -------------------------------------------------------------------------------- */

static inline sefl_status deviant_send(void *self, const void *p, size_t n)
{
    deviant *d = self;
    if (d->cut)
        return sefl_fail(SEFL_ECLOSED, "test: CSP has hung up");
    CHECK_OK(wr_raw(&d->in, p, n));
    if (d->in.n < MSG_HEADER || d->in.n < MSG_HEADER + load_u64(d->in.p + 8))
        return SEFL_OK;
    sefl_status st = deviant_trouble(d, false);
    if (st == SEFL_OK)
        deviant_hears(d, load_u32(d->in.p), span_of(d->in.p + MSG_HEADER, d->in.n - MSG_HEADER));
    buf_reset(&d->in);
    return st;
}

static inline sefl_status deviant_recv(void *self, void *p, size_t n)
{
    deviant *d = self;
    if (d->dead || d->out.n - d->at < n)
        return sefl_fail(SEFL_ECLOSED, "test: CSP says no more");
    memcpy(p, d->out.p + d->at, n);
    d->at += n;
    return SEFL_OK;
}

static inline sefl_status deviant_flush(void *self)
{
    (void)self;
    return SEFL_OK;
}

static inline sefl_status deviant_dial(void *ctx, channel **out)
{
    static const channel_ops ops = { deviant_send, deviant_recv, deviant_flush };
    deviant *d = ctx;
    if (d->dead)
        as_rounds_stop(d->run.rounds); /* else the end of a task waits for CSP */
    d->ch = (channel){ .ops = &ops, .self = d };
    d->cut = false, d->at = 0;
    buf_reset(&d->in), buf_reset(&d->out);
    *out = &d->ch;
    return SEFL_OK;
}

static inline void deviant_hang_up(void *ctx)
{
    (void)ctx;
}

/* ---- a task ------------------------------------------------------------------------------------ */

static inline void deviant_task(deviant *d)
{
    task *t = &d->t;
    const pack p = { .scheme = PACK_PAD,
                     .k = BITS,
                     .w = BITS,
                     .clients = CLIENTS,
                     .value_max = SHIFT,
                     .s2 = SHIFT * SHIFT,
                     .q = 1,
                     .h = 1 };
    envelope env = { .kind = SIGN_TASK, .content = span_of_str("{\"a task\": \"of the tests\"}") };
    t->noise = TASK_NOISE_OWN;
    t->seal = seal_suite_named("x25519");
    CHECK_OK(ahe_params_init(&t->ahe, &ahe_pad, &p, NULL, D));
    t->grid = (dp_grid){ .z = 1, .k = BITS, .s2 = SHIFT * SHIFT, .q = 1, .h = 1 };
    if (d->filter) {
        t->filter = (dp_filter){ .b = 1, .gamma = { GAMMA } };
        t->filter_bits = DP_FILTER_OWN_BITS;
    }
    t->params = t->values = D;
    t->rounds = ROUNDS, t->threshold = LEAST, t->clients_max = CLIENTS;
    t->deadline_ms = 1000;
    snprintf(t->population, sizeof t->population, "people");
    memcpy(t->servers.as, sign_key_pub(d->key[0]), SIGN_PUB_BYTES);
    memcpy(t->servers.csp, sign_key_pub(d->key[1]), SIGN_PUB_BYTES);
    sha256_of(t->id, env.content);
    CHECK_OK(envelope_sign(&env, SIGNER_AS, d->key[0]));
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, d->key[1]));
    CHECK_OK(envelope_write(&d->envelope, &env));
}

static inline deviant *deviant_new(const way *y, bool filter, bool crashes, unsigned neighbour,
                                   uint64_t seed)
{
    static const as_channel to_csp = { .dial = deviant_dial, .hang_up = deviant_hang_up };
    deviant *d = calloc(1, sizeof *d);
    char name[64];
    *d = (deviant){ .way = y, .filter = filter, .crashes = crashes, .neighbour = neighbour };
    snprintf(name, sizeof name, "%d %d %u %s", filter, crashes, neighbour, y->name);
    seeded_init(&d->gen, seed, name);
    sefl_rng rng = seeded_rng(&d->gen);
    d->coins = (sefl_coins){ .get = deviant_coins, .self = d };
    for (int i = 0; i < 2; i++)
        CHECK_OK(sign_key_new(&d->key[i], &rng));
    deviant_task(d);
    d->run = (as_run){ .under = as_memory_store(&d->memory),
                       .early = 1,
                       .open = deviant_open,
                       .put = deviant_put,
                       .step = deviant_step,
                       .between = deviant_between,
                       .frozen = deviant_frozen,
                       .release = deviant_release,
                       .refused = deviant_refused,
                       .take_off = deviant_take_off };
    d->run.c = (as_rounds_config){ .task = &d->t,
                                   .envelope = buf_span(&d->envelope),
                                   .key = d->key[0],
                                   .coins = &d->coins,
                                   .channel = &to_csp };
    return d;
}

/* Runs a task to its end, with a new AS after every crash. False: AS stopped for good. */
static inline bool deviant_run(deviant *d)
{
    static unsigned books;
    char name[32];
    sefl_status st;
    snprintf(name, sizeof name, "book-%u", ++books);
    CHECK_OK(ledger_create(folder_path(name), d->t.population));
    CHECK_OK(account_open(&d->book, NULL, folder_path(name), &d->t));
    d->run.c.account = d->book;
    d->made = d->round = d->signed_ = d->revealed = d->skipped = 0;
    memset(d->at_round, 0, sizeof d->at_round);
    for (int lives = 0;; lives++) {
        assert_true(lives < 1000);
        d->dead = false;
        st = as_run_all(&d->run);
        if (st == SEFL_OK || st == SEFL_ESTATE)
            break;
        if (!d->crashes || (st != SEFL_ECANCELLED && st != SEFL_EIO))
            fail_msg("%s: AS fails: %s", d->way->name, sefl_last_error());
    }
    as_memory_clear(&d->memory);
    account_close(d->book);
    return st == SEFL_OK;
}

static inline void deviant_free(deviant *d)
{
    for (int i = 0; i < 2; i++)
        sign_key_free(d->key[i]);
    ahe_sum_free(&d->t.ahe, d->sum);
    buf_clear(&d->envelope), buf_clear(&d->in), buf_clear(&d->out), buf_clear(&d->b);
    free(d->output);
    free(d);
}

#endif
