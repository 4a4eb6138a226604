/* sealed_world: a tiny sealed task for harnesses of the link: two servers, six clients (five with a
 * voucher), CSP's journal in memory (sum/csp_memory.h), a ledger of hashes, toy signatures, coins
 * by name. The heads of round 1 are made once: CSP's coins, and so its key, are the same in every
 * run. */
#ifndef TESTS_FUZZ_SEALED_WORLD_H
#define TESTS_FUZZ_SEALED_WORLD_H

#include "fuzz/tape.h"
#include "fuzz/toy_sign.h"
#include "protocol/head.h"
#include "protocol/signed.h"
#include "seeded/seeded.h"
#include "sum/as_link.h"
#include "sum/csp.h"
#include "support/csp_seen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { Z_CLIENTS = 6, Z_STRANGER = 5, Z_VALUES = 10, Z_MARKS = 12, Z_COINS = 64, Z_HEAD = 216 };

/* ---- a ledger: each charge is a record, the first one two ------------------------------------------ */

typedef struct z_ledger {
    ledger_head mark[Z_MARKS];
    uint64_t round[Z_MARKS];
    size_t n;
} z_ledger;

static inline bool z_charged(const z_ledger *l, uint64_t round)
{
    for (size_t i = 1; i <= l->n; i++)
        if (l->round[i] == round)
            return true;
    return false;
}

static inline void z_append(z_ledger *l, uint64_t round)
{
    uint8_t bytes[40];
    memcpy(bytes, l->mark[l->n].hash, 32);
    store_u64(bytes + 32, round);
    sha256_of(l->mark[l->n + 1].hash, span_of(bytes, sizeof bytes));
    l->mark[l->n + 1].records = l->n + 1;
    l->round[++l->n] = round;
}

static inline sefl_status z_charge(void *ctx, uint64_t round)
{
    z_ledger *l = ctx;
    if (z_charged(l, round))
        return SEFL_OK;
    if (l->n + 2 >= Z_MARKS)
        return sefl_fail(SEFL_EBUDGET, "full");
    if (l->n == 0)
        z_append(l, 0);
    z_append(l, round);
    return SEFL_OK;
}

static inline sefl_status z_charge_head(void *ctx, uint64_t round, ledger_head *out)
{
    z_ledger copy = *(z_ledger *)ctx;
    sefl_status st = z_charge(&copy, round);
    *out = copy.mark[copy.n];
    return st;
}

static inline sefl_status z_mark(void *ctx, ledger_head *out)
{
    z_ledger *l = ctx;
    *out = l->mark[l->n];
    return SEFL_OK;
}

static inline ledger_order z_compare(void *ctx, const ledger_head *peer)
{
    z_ledger *l = ctx;
    if (peer->records > l->n)
        return LEDGER_PEER_AHEAD;
    if (memcmp(peer->hash, l->mark[peer->records].hash, 32) != 0)
        return LEDGER_FORKED;
    return peer->records == l->n ? LEDGER_SAME : LEDGER_PEER_BEHIND;
}

static inline sefl_status z_has(void *ctx, uint64_t round, bool *out)
{
    ledger_head after;
    sefl_status st = z_charge_head(ctx, round, &after);
    *out = st == SEFL_OK && z_compare(ctx, &after) == LEDGER_SAME;
    return st;
}

static inline ledger_port z_port(z_ledger *l)
{
    return (ledger_port){ .ctx = l,
                          .head = z_mark,
                          .compare = z_compare,
                          .head_after = z_charge_head,
                          .charge = z_charge,
                          .has = z_has };
}

/* ---- coins by name --------------------------------------------------------------------------------- */

typedef struct z_coins {
    seeded gen[Z_COINS];
    size_t n;
} z_coins;

static inline sefl_status z_coins_get(void *self, sefl_rng *out, const char *purpose,
                                      uint64_t round, uint64_t attempt)
{
    z_coins *c = self;
    char name[96];
    if (c->n == Z_COINS)
        return sefl_fail(SEFL_ERANDOM, "enough");
    snprintf(name, sizeof name, "%s %llu %llu", purpose, (unsigned long long)round,
             (unsigned long long)attempt);
    seeded_init(&c->gen[c->n], 1, name);
    *out = seeded_rng(&c->gen[c->n++]);
    return SEFL_OK;
}

/* ---- the world --------------------------------------------------------------------------------------- */

typedef struct z_world {
    task t;
    sefl_buf envelope;
    sign_key *as, *csp;
    sign_key *upload[Z_CLIENTS];
    round_entry leaf[Z_CLIENTS];     /* sorted by client */
    uint8_t head[Z_CLIENTS][Z_HEAD]; /* of round 1 */
    round_header header;             /* of round 1, with CSP's key */
    uint8_t tree_seed[COUNTED_SEED];
    uint8_t root[CSP_KEY_BYTES];
    csp_memory m;
    csp_store journal;
    z_ledger as_book, csp_book;
    z_coins coins;
} z_world;

static inline bool z_member(void *ctx, const uint8_t client[32])
{
    (void)ctx;
    return client[0] != 0xee;
}

static inline sefl_status z_vouch(void *ctx, const voucher *v)
{
    (void)ctx;
    return v->client[0] & 1 ? SEFL_OK : sefl_fail(SEFL_EAUTH, "test: no");
}

/* Resets journals, ledgers and coins; five clients have a voucher. */
static inline void z_reset(z_world *w)
{
    csp_memory_clear(&w->m);
    memset(&w->m, 0, sizeof w->m);
    memset(&w->as_book, 0, sizeof w->as_book);
    memset(&w->csp_book, 0, sizeof w->csp_book);
    w->coins.n = 0;
    w->m.ledger = z_port(&w->csp_book);
    w->journal = csp_memory_store(&w->m);
    for (int i = 0; i < Z_STRANGER; i++)
        MUST_OK(w->journal.voucher_put(w->journal.ctx, w->leaf[i].client, 1,
                                       sign_key_pub(w->upload[i])));
}

static inline csp *z_csp(z_world *w, sefl_coins *coins)
{
    csp *c;
    *coins = (sefl_coins){ .get = z_coins_get, .self = &w->coins };
    MUST_OK(csp_new(&c, &(csp_config){ .task = &w->t,
                                       .envelope = buf_span(&w->envelope),
                                       .root = w->root,
                                       .key = w->csp,
                                       .store = &w->journal,
                                       .coins = coins,
                                       .enrol_ctx = w,
                                       .vouch = z_vouch,
                                       .member = z_member }));
    return c;
}

static inline void z_put_hello(z_world *w, sefl_buf *in)
{
    uint8_t signature[SIGN_BYTES];
    sefl_buf b = { 0 };
    MUST_OK(wr_u16(&b, LINK_VERSION));
    MUST_OK(wr_u16(&b, LINK_VERSION));
    MUST_OK(ledger_head_write(&b, &w->as_book.mark[w->as_book.n]));
    MUST_OK(wr_raw(&b, w->t.id, 32));
    MUST_OK(wr_u64(&b, 0));
    MUST_OK(sign_make(signature, w->as, SIGN_LINK, buf_span(&b)));
    MUST_OK(wr_raw(&b, signature, sizeof signature));
    tape_frame(in, LINK_HELLO, 0, buf_span(&b));
    tape_frame(in, LINK_TASK, 0, buf_span(&w->envelope));
    buf_clear(&b);
}

static inline void z_put_key(sefl_buf *in, uint64_t round)
{
    uint8_t number[8];
    store_u64(number, round);
    tape_frame(in, LINK_KEY, 0, span_of(number, sizeof number));
}

static inline void z_note_key(void *ctx, uint32_t kind, sefl_span body)
{
    z_world *w = ctx;
    if (kind != LINK_KEY)
        return;
    MUST(body.n == 10 + w->t.seal->pub_bytes);
    w->header.suite = w->t.seal->id;
    w->header.key_bytes = (uint16_t)w->t.seal->pub_bytes;
    memcpy(w->header.key, body.p + 10, w->t.seal->pub_bytes);
}

/* Asks CSP for the key of round 1 and makes each client's head for it. */
static inline void z_make_heads(z_world *w)
{
    seeded g;
    seeded_init(&g, 5, "heads");
    sefl_rng rng = seeded_rng(&g);
    sefl_coins coins;
    tape t = { .said = z_note_key, .ctx = w };
    channel ch = { .ops = &tape_ops, .self = &t };
    z_put_hello(w, &t.in);
    z_put_key(&t.in, 1);
    csp *c = z_csp(w, &coins);
    MUST(csp_serve(c, &ch) != SEFL_OK); /* the tape ends */
    csp_free(c);
    buf_clear(&t.in), buf_clear(&t.out);
    MUST(w->header.key_bytes > 0 && head_bytes(w->t.seal) == Z_HEAD);
    for (int i = 0; i < Z_CLIENTS; i++) {
        uint8_t seed[HEAD_SEED] = { (uint8_t)(i + 1) };
        MUST_OK(head_make(w->head[i],
                          &(head_facts){ .suite = w->t.seal,
                                         .task = w->t.id,
                                         .round = 1,
                                         .client = w->leaf[i].client,
                                         .units = w->leaf[i].body },
                          span_of(w->header.key, w->header.key_bytes), seed, w->upload[i], &rng));
    }
}

static inline z_world *z_world_new(void)
{
    z_world *w = calloc(1, sizeof *w);
    task *t = &w->t;
    const ahe_scheme *s;
    pack p;
    seeded g;
    seeded_init(&g, 3, "signing keys");
    sefl_rng rng = seeded_rng(&g);
    MUST(w);
    MUST_OK(sign_key_new(&w->as, &rng));
    MUST_OK(sign_key_new(&w->csp, &rng));
    for (int i = 0; i < Z_CLIENTS; i++) {
        MUST_OK(sign_key_new(&w->upload[i], &rng));
        w->leaf[i].client[0] = (uint8_t)(0x10 * (i + 1));
        w->leaf[i].body[0] = (uint8_t)(i + 1);
    }
    MUST_OK(pack_init(
        &p, &(pack_config){
                .scheme = PACK_PAD, .clients = 10, .dimension = Z_VALUES, .clip = PACK_ONE }));
    MUST_OK(ahe_scheme_find(&s, "pad"));
    MUST_OK(ahe_params_init(&t->ahe, s, &p, NULL, Z_VALUES));
    t->seal = seal_suite_named("x25519");
    t->noise = TASK_NOISE_NONE;
    t->params = t->values = Z_VALUES;
    t->rounds = 4;
    t->threshold = 2, t->clients_max = 9;
    memcpy(t->servers.as, sign_key_pub(w->as), 32);
    memcpy(t->servers.csp, sign_key_pub(w->csp), 32);
    envelope env = { .kind = SIGN_TASK, .content = span_of_str("{\"a task\": \"sealed\"}") };
    sha256_of(t->id, env.content);
    MUST_OK(envelope_sign(&env, SIGNER_AS, w->as));
    MUST_OK(envelope_sign(&env, SIGNER_CSP, w->csp));
    MUST_OK(envelope_write(&w->envelope, &env));
    w->header = (round_header){ .round = 1, .step_nano = 1, .model = { 1 } };
    memcpy(w->header.task, t->id, 32);
    z_reset(w);
    z_make_heads(w);
    return w;
}

#endif
