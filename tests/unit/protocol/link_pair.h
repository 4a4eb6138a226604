/* link_pair: AS and CSP as two threads over a pair in memory, with journals and ledgers in memory and
 * coins that can be replayed by name. A world is a task, its keys and a closed set of updates; a run is
 * one connection. Wires watch every message: what must be durable before it leaves is checked there. */
#ifndef TESTS_LINK_PAIR_H
#define TESTS_LINK_PAIR_H

#ifdef LINK_PAIR_FUZZ /* a fuzz harness: no cmocka, small journals, a toy key, toy signatures */
#include "fuzz/toy_key.h"
#include "fuzz/toy_sign.h"
#include "seeded/seeded.h"

#include <stdio.h>
#include <stdlib.h>
#define MUST(ok)     \
    do {             \
        if (!(ok))   \
            abort(); \
    } while (0)
#define CHECK_OK(call)                   MUST((call) == SEFL_OK)
#define assert_true(x)                   MUST(x)
#define assert_false(x)                  MUST(!(x))
#define assert_int_equal(a, b)           MUST((a) == (b))
#define assert_memory_not_equal(a, b, n) MUST(memcmp((a), (b), (n)) != 0)
#define test_seed(g, stream)             seeded_init((g), 1, (stream))
#else
#include "support/check.h"
#endif

#include "base/alloc.h"
#include "base/buf.h"
#include "crypto/ahe/paillier.h"
#include "mpc/noise/session.h"
#include "protocol/as_link.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef LINK_PAIR_FUZZ
enum { W_VALUES = 10, W_MARKS = 24, W_MASKS = 4 };
#else
enum { W_VALUES = 300, W_MARKS = 64, W_MASKS = 64 };
#endif
enum { W_ROUNDS = 8, W_CLIENTS = 3, W_COINS = 256 };

/* ---- ledger -------------------------------------------------------------------------------- */

typedef struct mem_ledger {
    ledger_mark mark[W_MARKS]; /* [0]: empty */
    uint64_t round[W_MARKS];   /* that the record charges */
    size_t n;                  /* records */
    uint64_t budget;           /* rounds that may be charged; 0: no limit */
    size_t charges;
} mem_ledger;

static inline void ledger_append(mem_ledger *l, uint64_t round)
{
    uint8_t bytes[48];
    ledger_mark *m = &l->mark[l->n + 1];
    memcpy(bytes, l->mark[l->n].hash, 32);
    store_u64(bytes + 32, l->n + 1);
    store_u64(bytes + 40, round);
    sha256_of(m->hash, span_of(bytes, sizeof bytes));
    m->records = l->n + 1;
    l->round[++l->n] = round;
}

static inline bool ledger_charged(const mem_ledger *l, uint64_t round)
{
    for (size_t i = 1; i <= l->n; i++)
        if (l->round[i] == round)
            return true;
    return false;
}

static inline sefl_status ledger_may(const mem_ledger *l, uint64_t round)
{
    if (!ledger_charged(l, round) && l->budget > 0 && l->charges >= l->budget)
        return sefl_fail(SEFL_EBUDGET, "test: no budget for round %llu", (unsigned long long)round);
    return SEFL_OK;
}

/* The first charge of a task is two records. */
static inline sefl_status ledger_pay(mem_ledger *l, uint64_t round)
{
    sefl_status st = ledger_may(l, round);
    if (st != SEFL_OK || ledger_charged(l, round))
        return st;
    if (l->n == 0)
        ledger_append(l, 0);
    ledger_append(l, round);
    l->charges++;
    return SEFL_OK;
}

/* The head that ledger_pay would lead to. */
static inline sefl_status ledger_after(const mem_ledger *l, uint64_t round, ledger_mark *out)
{
    mem_ledger copy = *l;
    sefl_status st = ledger_pay(&copy, round);
    *out = copy.mark[copy.n];
    return st;
}

static inline ledger_verdict ledger_look(const mem_ledger *l, const ledger_mark *peer)
{
    if (peer->records > l->n)
        return LEDGERS_PEER_AHEAD;
    if (memcmp(peer->hash, l->mark[peer->records].hash, 32) != 0)
        return LEDGERS_FORKED;
    return peer->records == l->n ? LEDGERS_AGREE : LEDGERS_PEER_BEHIND;
}

/* ---- journals ------------------------------------------------------------------------------ */

typedef struct mem_csp {
    mem_ledger ledger;
    csp_round round[W_ROUNDS];
    sefl_buf statement[W_ROUNDS], output[W_ROUNDS];
    uint8_t id[W_ROUNDS][NOISE_ID], digest[W_ROUNDS][SHA256_BYTES];
    unsigned opened[W_ROUNDS]; /* how often */
    bool forgotten[W_ROUNDS];
    unsigned fail; /* the n-th writing call fails; 0: none */
    unsigned calls;
} mem_csp;

static inline sefl_status csp_hit(mem_csp *m)
{
    m->calls++;
    return m->fail > 0 && --m->fail == 0 ? sefl_fail(SEFL_EIO, "test: disk") : SEFL_OK;
}

static inline sefl_status mc_get(void *ctx, uint64_t round, csp_round *out)
{
    mem_csp *m = ctx;
    *out = round < W_ROUNDS ? m->round[round] : (csp_round){ 0 };
    return SEFL_OK;
}

static inline sefl_status mc_highest(void *ctx, uint64_t *signed_, uint64_t *opened,
                                     uint64_t *skipped)
{
    mem_csp *m = ctx;
    *signed_ = *opened = *skipped = 0;
    for (uint64_t r = 1; r < W_ROUNDS; r++) {
        if (m->round[r].state != CSP_NEW)
            *signed_ = r;
        if (m->round[r].state == CSP_OPENED)
            *opened = r;
        if (m->round[r].state == CSP_SKIPPED)
            *skipped = r;
    }
    return SEFL_OK;
}

static inline sefl_status mc_sign(void *ctx, const csp_round *r)
{
    mem_csp *m = ctx;
    sefl_status st = csp_hit(m);
    assert_int_equal(m->round[r->round].state, CSP_NEW);
    if (st == SEFL_OK)
        m->round[r->round] = *r;
    return st;
}

static inline sefl_status mc_charge(void *ctx, uint64_t round)
{
    mem_csp *m = ctx;
    sefl_status st = csp_hit(m);
    return st == SEFL_OK ? ledger_pay(&m->ledger, round) : st;
}

static inline sefl_status mc_may(void *ctx, uint64_t round)
{
    return ledger_may(&((mem_csp *)ctx)->ledger, round);
}

static inline sefl_status mc_open(void *ctx, uint64_t round, sefl_span statement,
                                  const uint8_t id[NOISE_ID], sefl_span output,
                                  const uint8_t digest[SHA256_BYTES])
{
    mem_csp *m = ctx;
    sefl_status st = csp_hit(m);
    if (st != SEFL_OK)
        return st;
    assert_int_equal(m->round[round].state, CSP_SIGNED);
    assert_true(ledger_charged(&m->ledger, round)); /* charge durable before */
    buf_reset(&m->statement[round]);
    buf_reset(&m->output[round]);
    if ((st = wr_raw(&m->statement[round], statement.p, statement.n)) != SEFL_OK ||
        (st = wr_raw(&m->output[round], output.p, output.n)) != SEFL_OK)
        return st;
    m->opened[round]++;
    memcpy(m->id[round], id, NOISE_ID);
    memcpy(m->digest[round], digest, SHA256_BYTES);
    m->round[round].state = CSP_OPENED;
    return SEFL_OK;
}

static inline sefl_status mc_kept(void *ctx, uint64_t round, uint8_t id[NOISE_ID], sefl_buf *output,
                                  uint8_t digest[SHA256_BYTES])
{
    mem_csp *m = ctx;
    if (m->opened[round] == 0 || m->forgotten[round])
        return sefl_fail(SEFL_ENOTFOUND, "test: nothing kept");
    memcpy(id, m->id[round], NOISE_ID);
    memcpy(digest, m->digest[round], SHA256_BYTES);
    return wr_raw(output, m->output[round].p, m->output[round].n);
}

static inline sefl_status mc_skip(void *ctx, uint64_t round, unsigned reason)
{
    mem_csp *m = ctx;
    sefl_status st = csp_hit(m);
    (void)reason;
    assert_int_equal(m->round[round].state, CSP_SIGNED);
    if (st == SEFL_OK)
        m->round[round].state = CSP_SKIPPED;
    return st;
}

static inline sefl_status mc_forget(void *ctx, uint64_t round)
{
    ((mem_csp *)ctx)->forgotten[round] = true;
    return SEFL_OK;
}

static inline sefl_status mc_ledger(void *ctx, ledger_mark *out)
{
    mem_csp *m = ctx;
    *out = m->ledger.mark[m->ledger.n];
    return SEFL_OK;
}

static inline ledger_verdict mc_compare(void *ctx, const ledger_mark *peer)
{
    return ledger_look(&((mem_csp *)ctx)->ledger, peer);
}

static inline sefl_status mc_charge_head(void *ctx, uint64_t round, ledger_mark *out)
{
    return ledger_after(&((mem_csp *)ctx)->ledger, round, out);
}

static inline csp_journal mem_csp_journal(mem_csp *m)
{
    return (csp_journal){ .ctx = m,
                          .get = mc_get,
                          .highest = mc_highest,
                          .sign = mc_sign,
                          .charge = mc_charge,
                          .may_charge = mc_may,
                          .charge_head = mc_charge_head,
                          .open = mc_open,
                          .kept = mc_kept,
                          .skip = mc_skip,
                          .forget = mc_forget,
                          .ledger = mc_ledger,
                          .compare = mc_compare };
}

typedef struct mem_as {
    mem_ledger ledger;
    struct {
        uint64_t round;
        as_mask m;
        bool replied;
        uint8_t digest[SHA256_BYTES];
    } mask[W_MASKS];
    size_t masks;
    bool lose; /* what was masked is gone */
    unsigned fail;
} mem_as;

static inline sefl_status as_hit(mem_as *m)
{
    return m->fail > 0 && --m->fail == 0 ? sefl_fail(SEFL_EIO, "test: disk") : SEFL_OK;
}

static inline sefl_status ma_copy(as_mask *out, const as_mask *m)
{
    *out = *m;
    out->x = (sefl_buf){ 0 };
    return wr_raw(&out->x, m->x.p, m->x.n);
}

static inline sefl_status ma_mask(void *ctx, uint64_t round, const as_mask *now)
{
    mem_as *m = ctx;
    sefl_status st = as_hit(m);
    if (st != SEFL_OK)
        return st;
    for (size_t i = 0; i < m->masks; i++) { /* nothing twice */
        const as_mask *before = &m->mask[i].m;
        assert_false(m->mask[i].round == round && before->attempt >= now->attempt);
        assert_memory_not_equal(before->seed, now->seed, sizeof now->seed);
        assert_memory_not_equal(before->coins, now->coins, sizeof now->coins);
        if (now->x.n > 0) {
            assert_memory_not_equal(before->slice, now->slice, sizeof now->slice);
            assert_memory_not_equal(before->x.p, now->x.p, now->x.n);
        }
    }
    assert_true(m->masks < W_MASKS);
    m->mask[m->masks].round = round;
    m->mask[m->masks].replied = false;
    return ma_copy(&m->mask[m->masks++].m, now);
}

static inline sefl_status ma_masked(void *ctx, uint64_t round, as_mask *out)
{
    mem_as *m = ctx;
    for (size_t i = m->masks; i-- > 0 && !m->lose;)
        if (m->mask[i].round == round)
            return ma_copy(out, &m->mask[i].m);
    return sefl_fail(SEFL_ENOTFOUND, "test: no mask");
}

static inline sefl_status ma_replied(void *ctx, uint64_t round, uint64_t attempt,
                                     const uint8_t digest[SHA256_BYTES])
{
    mem_as *m = ctx;
    sefl_status st = as_hit(m);
    for (size_t i = m->masks; st == SEFL_OK && i-- > 0;)
        if (m->mask[i].round == round && m->mask[i].m.attempt == attempt) {
            if (m->mask[i].replied && memcmp(m->mask[i].digest, digest, SHA256_BYTES) != 0)
                return sefl_fail(SEFL_ESTATE, "test: another reply");
            m->mask[i].replied = true;
            memcpy(m->mask[i].digest, digest, SHA256_BYTES);
            return SEFL_OK;
        }
    return st != SEFL_OK ? st : sefl_fail(SEFL_ESTATE, "test: a reply without a mask");
}

static inline sefl_status ma_ledger(void *ctx, ledger_mark *out)
{
    mem_as *m = ctx;
    *out = m->ledger.mark[m->ledger.n];
    return SEFL_OK;
}

static inline ledger_verdict ma_compare(void *ctx, const ledger_mark *peer)
{
    return ledger_look(&((mem_as *)ctx)->ledger, peer);
}

static inline as_journal mem_as_journal(mem_as *m)
{
    return (as_journal){ .ctx = m, .mask = ma_mask, .masked = ma_masked, .replied = ma_replied };
}

/* ---- coins that can be replayed by name ------------------------------------------------------- */

typedef struct named_coins {
    const char *who;
    uint64_t seed;
    seeded *gen[W_COINS];
    size_t n;
} named_coins;

static inline void named_init(seeded *g, const char *who, uint64_t seed, const char *purpose,
                              uint64_t round, uint64_t attempt)
{
    char name[96];
    snprintf(name, sizeof name, "%s %s %llu %llu", who, purpose, (unsigned long long)round,
             (unsigned long long)attempt);
    seeded_init(g, seed, name);
}

static inline sefl_status named_get(void *self, sefl_rng *out, const char *purpose, uint64_t round,
                                    uint64_t attempt)
{
    named_coins *c = self;
    assert_true(c->n < W_COINS);
    seeded *g = c->gen[c->n++] = malloc(sizeof *g);
    named_init(g, c->who, c->seed, purpose, round, attempt);
    *out = seeded_rng(g);
    return SEFL_OK;
}

static inline void named_clear(named_coins *c)
{
    while (c->n > 0)
        free(c->gen[--c->n]);
}

/* ---- a world ----------------------------------------------------------------------------------- */

typedef struct world {
    task t;
    sefl_buf envelope;
    paillier_sec *sec;
    sign_key *as, *csp;
    ahe_enc *enc;
    ahe_sum *sum;
    int64_t total[W_VALUES]; /* the plain sum */
    uint8_t set[32];
    mem_as a;
    mem_csp c;
    named_coins coins[2]; /* 0: AS, 1: CSP */
    uint64_t attempt;
    uint64_t
        members;    /* that CSP has approved; 0: it keeps no list, UINT64_MAX: it cannot be read */
    uint64_t began; /* of which round CSP was told that it begins */
} world;

/* One key for all worlds of a program: making one takes most of a second. */
static inline paillier_sec *world_key(void)
{
    static paillier_sec *sec;
    if (!sec) {
#ifdef LINK_PAIR_FUZZ
        sec = toy_key();
#else
        seeded gen;
        seeded_init(&gen, 7, "key of the link tests");
        sefl_rng rng = seeded_rng(&gen);
        CHECK_OK(paillier_keygen_vartime(&sec, 2048, &rng, NULL));
#endif
    }
    return sec;
}

static inline void world_task(world *w, const char *scheme, task_noise noise, size_t values)
{
    task *t = &w->t;
    const ahe_scheme *s;
    pack p;
    pack_config c = { .scheme = strcmp(scheme, "lwe") == 0 ? PACK_LWE : PACK_PAILLIER,
                      .clients = 10,
                      .dimension = values,
                      .clip = PACK_ONE,
                      .noise = noise == TASK_NOISE_NONE ? 0 : PACK_ONE };
    CHECK_OK(pack_init(&p, &c));
    CHECK_OK(ahe_scheme_find(&s, scheme));
    CHECK_OK(paillier_pub_from_sec(&t->pub, w->sec));
    CHECK_OK(ahe_params_init(&t->ahe, s, &p, t->pub, values));
    if (noise != TASK_NOISE_NONE)
        CHECK_OK(dp_grid_init(
            &t->grid, &(dp_grid_config){ .z = 1, .clip = 1, .dim = values, .clients = 10 }));
    t->noise = noise;
    t->params = t->values = values;
    t->rounds = W_ROUNDS - 2;
    t->threshold = 2, t->clients_max = 10;
    memcpy(t->servers.as, sign_key_pub(w->as), SIGN_PUB_BYTES);
    memcpy(t->servers.csp, sign_key_pub(w->csp), SIGN_PUB_BYTES);
    envelope env = { .kind = SIGN_TASK, .content = span_of_str("{\"a task\": \"of the tests\"}") };
    sha256_of(t->id, env.content);
    CHECK_OK(envelope_sign(&env, SIGNER_AS, w->as));
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, w->csp));
    CHECK_OK(envelope_write(&w->envelope, &env));
}

/* The updates of W_CLIENTS clients for `round`, closed. */
static inline void world_sum(world *w, uint64_t round)
{
    const ahe_params *p = &w->t.ahe;
    seeded gen;
    test_seed(&gen, "updates");
    sefl_rng rng = seeded_rng(&gen);
    uint8_t *body = malloc(ahe_body_bytes(p)), context[AHE_CONTEXT_BYTES];
    int64_t x[W_VALUES];
    ahe_sum_free(p, w->sum), w->sum = NULL;
    memset(w->total, 0, sizeof w->total);
    if (!w->enc)
        CHECK_OK(ahe_enc_new(&w->enc, w->t.pub, p, NULL, NULL));
    CHECK_OK(ahe_sum_new(&w->sum, p, w->t.pub));
    task_context(context, &w->t, round);
    for (int c = 0; c < W_CLIENTS; c++) {
        ahe_upload *up;
        for (size_t i = 0; i < w->t.values; i++) {
            x[i] = (int64_t)seeded_below(&gen, 2 * (uint64_t)p->pack.value_max + 1) -
                   p->pack.value_max;
            w->total[i] += x[i];
        }
        CHECK_OK(ahe_upload_new(&up, p, w->enc, context, &rng));
        CHECK_OK(ahe_upload_head(p, up, body, NULL));
        CHECK_OK(ahe_upload_units(p, up, body + p->head_bytes, x, p->units, NULL, NULL));
        ahe_upload_free(p, up);
        CHECK_OK(ahe_sum_add_head(p, w->sum, body));
        CHECK_OK(ahe_sum_add_units(p, w->sum, 0, body + p->head_bytes, p->units, NULL));
    }
    CHECK_OK(ahe_sum_close(p, w->sum));
    free(body);
}

static inline world *world_new(const char *scheme, task_noise noise, size_t values)
{
    world *w = calloc(1, sizeof *w);
    seeded gen;
    seeded_init(&gen, 3, "signing keys");
    sefl_rng rng = seeded_rng(&gen);
    w->sec = world_key();
    CHECK_OK(sign_key_new(&w->as, &rng));
    CHECK_OK(sign_key_new(&w->csp, &rng));
    world_task(w, scheme, noise, values);
    sha256_of(w->set, span_of_str("the set"));
    w->coins[0] = (named_coins){ .who = "AS", .seed = 1 };
    w->coins[1] = (named_coins){ .who = "CSP", .seed = 1 };
    return w;
}

/* Journals and ledgers as if nothing had happened; keys, task and sum stay. */
static inline void world_reset(world *w)
{
    for (size_t i = 0; i < W_MASKS; i++)
        as_mask_clear(&w->a.mask[i].m);
    for (size_t i = 0; i < W_ROUNDS; i++)
        buf_clear(&w->c.statement[i]), buf_clear(&w->c.output[i]);
    memset(&w->a, 0, sizeof w->a);
    memset(&w->c, 0, sizeof w->c);
    w->attempt = 0;
    named_clear(&w->coins[0]);
    named_clear(&w->coins[1]);
}

static inline void world_free(world *w)
{
    world_reset(w);
    ahe_sum_free(&w->t.ahe, w->sum);
    ahe_enc_free(&w->t.ahe, w->enc);
    paillier_pub_free(w->t.pub);
    sign_key_free(w->as);
    sign_key_free(w->csp);
    buf_clear(&w->envelope);
    free(w);
}

/* ---- a connection ------------------------------------------------------------------------------ */

typedef struct wire {
    channel inner;
    world *w;
    int side;     /* 0: AS, 1: CSP */
    uint8_t *msg; /* being put together */
    size_t n;
    uint64_t count, cut; /* messages sent; the one that does not leave (1: the first), 0: none */
    bool half;           /* of it, all but its last byte leaves */
    bool was_cut;
    sha256 transcript;
} wire;

/* What must be durable before this message leaves. */
static inline void wire_watch(wire *x, uint32_t kind)
{
    world *w = x->w;
    if (x->side == 1 && (kind == LINK_REPLY || kind == LINK_PLAIN)) {
        uint64_t s, opened, k;
        mc_highest(&w->c, &s, &opened, &k);
        assert_true(opened > 0 && w->c.opened[opened] == 1);
    }
    if (x->side == 0 && kind == LINK_SUM)
        assert_true(w->a.masks > 0 && w->a.mask[w->a.masks - 1].m.attempt == w->attempt);
}

static inline sefl_status wire_send(void *self, const void *p, size_t n)
{
    wire *x = self;
    x->msg = realloc(x->msg, x->n + n + 1);
    memcpy(x->msg + x->n, p, n);
    x->n += n;
    if (x->n < MSG_HEADER || x->n < MSG_HEADER + load_u64(x->msg + 8))
        return SEFL_OK;
    size_t whole = x->n;
    x->n = 0;
    if (++x->count == x->cut) {
        x->was_cut = true;
        if (x->half && channel_send(&x->inner, x->msg, whole - 1) == SEFL_OK)
            (void)!channel_flush(&x->inner);
        return sefl_fail(SEFL_ECLOSED, "test: cut");
    }
    wire_watch(x, load_u32(x->msg));
    sha256_add(&x->transcript, span_of(x->msg, whole));
    return channel_send(&x->inner, x->msg, whole);
}

static inline sefl_status wire_recv(void *self, void *p, size_t n)
{
    return channel_recv(&((wire *)self)->inner, p, n);
}

static inline sefl_status wire_flush(void *self)
{
    return channel_flush(&((wire *)self)->inner);
}

static const channel_ops wire_ops = { wire_send, wire_recv, wire_flush };

typedef struct connection {
    world *w;
    wire wire[2];
    channel ch[2];
    pthread_t thread;
    csp *server;
    sefl_status st;
    char said[300];
    bool over;
    csp_journal journal;
    sefl_coins coins[2];
    as_journal as;
} connection;

static inline void *serve(void *arg)
{
    connection *c = arg;
    c->st = csp_serve(c->server, &c->ch[1]);
    snprintf(c->said, sizeof c->said, "%s", c->st == SEFL_OK ? "" : sefl_last_error());
    c->over = csp_is_over(c->server);
    channel_pair_close(&c->wire[1].inner);
    return NULL;
}

static inline sefl_status world_members(void *ctx, uint64_t round, bool begins, uint64_t *most)
{
    world *w = ctx;
    if (begins)
        w->began = round;
    *most = w->members;
    return w->members == UINT64_MAX ? sefl_fail(SEFL_EIO, "no list") : SEFL_OK;
}

/* CSP serves; the test speaks on c->ch[0]. cut[side]: see wire. */
static inline void connect_(connection *c, world *w, const uint64_t cut[2], bool half)
{
    *c = (connection){ .w = w };
    c->journal = mem_csp_journal(&w->c);
    c->as = mem_as_journal(&w->a);
    for (int i = 0; i < 2; i++)
        c->coins[i] = (sefl_coins){ .get = named_get, .self = &w->coins[i] };
    CHECK_OK(channel_pair_new(&c->wire[0].inner, &c->wire[1].inner, 60000));
    for (int i = 0; i < 2; i++) {
        c->wire[i].w = w, c->wire[i].side = i, c->wire[i].half = half;
        c->wire[i].cut = cut ? cut[i] : 0;
        sha256_init(&c->wire[i].transcript);
        c->ch[i] = (channel){ .ops = &wire_ops, .self = &c->wire[i] };
    }
    CHECK_OK(csp_new(&c->server, &(csp_config){ .task = &w->t,
                                                .envelope = buf_span(&w->envelope),
                                                .sec = w->sec,
                                                .key = w->csp,
                                                .journal = &c->journal,
                                                .coins = &c->coins[1],
                                                .enrol_ctx = w,
                                                .members = w->members ? world_members : NULL }));
    assert_int_equal(pthread_create(&c->thread, NULL, serve, c), 0);
}

/* Closes our end and waits for CSP; c->st is how its stream ended. */
static inline void disconnect(connection *c)
{
    channel_pair_close(&c->wire[0].inner);
    pthread_join(c->thread, NULL);
    csp_free(c->server);
    for (int i = 0; i < 2; i++)
        free(c->wire[i].msg);
}

static inline as_link_config world_as(connection *c)
{
    world *w = c->w;
    return (as_link_config){ .task = &w->t,
                             .envelope = buf_span(&w->envelope),
                             .key = w->as,
                             .coins = &c->coins[0],
                             .ledger = ma_ledger,
                             .compare = ma_compare,
                             .ledger_ctx = &w->a };
}

static inline round_header world_header(const world *w, uint64_t round)
{
    round_header h = { .round = round, .step_nano = 1000000000, .model = { (uint8_t)round } };
    memcpy(h.task, w->t.id, sizeof h.task);
    return h;
}

/* All that AS does for one round on one connection: greet, header, charge, open. */
static inline sefl_status world_round(world *w, connection *c, uint64_t round, bool *kept,
                                      int64_t *result)
{
    sefl_status st = SEFL_OK;
    as_link *l = NULL;
    as_link_config cfg = world_as(c);
    sefl_buf both = { 0 };
    round_header h = world_header(w, round);
    *kept = false;
    memset(result, 0, w->t.values * sizeof *result);
    SEFL_TRY(as_link_new(&l, &c->ch[0], &cfg));
    SEFL_TRY(as_link_header(l, &both, &h));
    SEFL_TRY(ledger_pay(&w->a.ledger, round));
    as_open o = { .round = round,
                  .attempt = ++w->attempt,
                  .clients = W_CLIENTS,
                  .sum = w->sum,
                  .journal = &c->as };
    memcpy(o.set, w->set, sizeof o.set);
    SEFL_TRY(as_link_open(l, &o, kept, result));
done:
    as_link_free(l);
    buf_clear(&both);
    return st;
}

#endif
