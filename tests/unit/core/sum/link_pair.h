/* link_pair: AS and CSP as two threads over a pair in memory, with journals and ledgers in memory
 * and coins that can be replayed by name. A world is a task, its keys and a closed set of updates;
 * a run is one connection. Wires inspect every message and check what must be durable before it
 * leaves. */
#ifndef TESTS_LINK_PAIR_H
#define TESTS_LINK_PAIR_H

#include "link_books.h"

/* ---- a world --------------------------------------------------------------------------------- */

typedef struct w_client {
    uint8_t id[32];
    sign_key *key; /* signs uploads */
    ahe_seed seed;
    uint8_t units[32];
    uint8_t *body; /* its units */
} w_client;

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
    csp_memory c;
    mem_ledger book;      /* CSP's */
    csp_store *disk;      /* CSP's store instead of c; then wires check nothing */
    named_coins coins[2]; /* 0: AS, 1: CSP */
    uint64_t attempt;
    uint64_t members;       /* that CSP has approved; 0: no list, UINT64_MAX: it cannot be read */
    uint64_t began;         /* the round whose start CSP was told */
    sefl_coins named[2];    /* of coins */
    shares_twins twins;     /* makes noise shares as they are needed */
    shares_pool *shares[2]; /* of AS and CSP: those of twins, unless a test has others */

    /* sealed tasks: clients sorted by fingerprint, and what each has uploaded */
    w_client client[W_ALL];
    uint8_t root[CSP_KEY_BYTES];                         /* of CSP's keys */
    uint32_t revoked;                                    /* bit i: client i is no longer a member */
    uint32_t early;                                      /* bit i: its head is sent early */
    uint64_t wall_ms, boot_ms;                           /* CSP's clocks */
    uint64_t as_ms;                                      /* AS's clock */
    sefl_clock as_clock;                                 /* the same */
    uint8_t boot_id;                                     /* first byte of CSP's */
    pool *pool;                                          /* CSP's; NULL: one thread */
    bool (*member)(void *ctx, const uint8_t client[32]); /* instead of world_member */
    uint8_t tree_seed[COUNTED_SEED];
    uint8_t replied[SHA256_BYTES]; /* in raw SETs */
    history_fresh fresh;           /* AS has it in memory at the next reveal */
    const noise_ahead *ahead;      /* mode own: AS has drawn it */
    as_outcome outcome;            /* of world_round's latest question */
} world;

/* One key for all worlds of a program: generating one takes most of a second. */
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
    bool sealed = strcmp(scheme, "pad") == 0;
    pack_config c = { .scheme = sealed ? PACK_PAD : PACK_PAILLIER,
                      .clients = LINK_PAIR_CLIENTS,
                      .dimension = values,
                      .clip = PACK_ONE,
                      .noise = noise == TASK_NOISE_NONE ? 0 : PACK_ONE };
    CHECK_OK(pack_init(&p, &c));
    CHECK_OK(ahe_scheme_find(&s, scheme));
    if (sealed)
        t->seal = seal_suite_named("x25519");
    else
        CHECK_OK(paillier_pub_copy(&t->pub, w->sec));
    CHECK_OK(ahe_params_init(&t->ahe, s, &p, t->pub, values));
    if (noise != TASK_NOISE_NONE)
        CHECK_OK(dp_grid_init(
            &t->grid,
            &(dp_grid_config){ .z = 1, .clip = 1, .dim = values, .clients = LINK_PAIR_CLIENTS }));
    t->noise = noise;
    t->params = t->values = values;
    t->rounds = W_ROUNDS - 2;
    t->threshold = 2, t->clients_max = LINK_PAIR_CLIENTS;
    t->deadline_ms = 1000, t->extensions = 2, t->extend_ms = 500;
    memcpy(t->servers.as, sign_key_pub(w->as), SIGN_PUB_BYTES);
    memcpy(t->servers.csp, sign_key_pub(w->csp), SIGN_PUB_BYTES);
    envelope env = { .kind = SIGN_TASK, .content = span_of_str("{\"a task\": \"of the tests\"}") };
    sha256_of(t->id, env.content);
    CHECK_OK(envelope_sign(&env, SIGNER_AS, w->as));
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, w->csp));
    CHECK_OK(envelope_write(&w->envelope, &env));
}

/* Correlated noise. */
static inline void world_filter(world *w, dp_filter f)
{
    w->t.filter = f;
    w->t.filter_bits =
        w->t.noise == TASK_NOISE_JOINT ? 52 - w->t.ahe.pack.k : (unsigned)DP_FILTER_OWN_BITS;
}

/* Sealed tasks: clients with upload keys that CSP knows. */
static inline int by_id(const void *a, const void *b)
{
    return memcmp(((const w_client *)a)->id, ((const w_client *)b)->id, 32);
}

static inline void world_clients(world *w, const sefl_rng *rng)
{
    for (int i = 0; i < W_ALL; i++) {
        CHECK_OK(rng_fill(rng, w->client[i].id, 32));
        CHECK_OK(sign_key_new(&w->client[i].key, rng));
    }
    qsort(w->client, W_ALL, sizeof w->client[0], by_id);
    CHECK_OK(rng_fill(rng, w->root, sizeof w->root));
    CHECK_OK(rng_fill(rng, w->tree_seed, sizeof w->tree_seed));
    w->early = 1;
    w->wall_ms = w->as_ms = 1000000, w->boot_ms = 5000, w->boot_id = 1;
}

static inline void world_vouch(world *w)
{
    csp_store j = csp_memory_store(&w->c);
    for (int i = 0; i < W_ALL && task_is_sealed(&w->t); i++)
        CHECK_OK(j.voucher_put(j.ctx, w->client[i].id, 7, sign_key_pub(w->client[i].key)));
    w->c.calls = 0;
}

/* Client i's head for a round with this header. */
static inline sefl_status world_head_try(const world *w, int i, const round_header *h, uint8_t *out)
{
    seeded gen;
    seeded_init(&gen, 5 + (uint64_t)i, "heads");
    sefl_rng rng = seeded_rng(&gen);
    const w_client *c = &w->client[i];
    return head_make(out,
                     &(head_facts){ .suite = w->t.seal,
                                    .task = w->t.id,
                                    .round = h->round,
                                    .client = c->id,
                                    .units = c->units },
                     span_of(h->key, h->key_bytes), c->seed.seed, c->key, &rng);
}

static inline void world_head(const world *w, int i, const round_header *h, uint8_t *out)
{
    CHECK_OK(world_head_try(w, i, h, out));
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
    for (int c = 0; c < W_CLIENTS; c++) {
        ahe_upload *up;
        for (size_t i = 0; i < w->t.values; i++) {
            x[i] = (int64_t)seeded_below(&gen, 2 * (uint64_t)p->pack.value_max + 1) -
                   p->pack.value_max;
            w->total[i] += x[i];
        }
        task_upload_context(context, &w->t, round, w->client[c].id);
        CHECK_OK(ahe_upload_new(&up, p, w->enc, context, &rng));
        CHECK_OK(ahe_upload_units(p, up, body, x, p->units, NULL, NULL));
        if (task_is_sealed(&w->t)) {
            ahe_upload_seed(p, up, &w->client[c].seed);
            blake3_of(w->client[c].units, span_of(body, ahe_body_bytes(p)));
            free(w->client[c].body);
            w->client[c].body = malloc(ahe_body_bytes(p));
            memcpy(w->client[c].body, body, ahe_body_bytes(p));
        }
        ahe_upload_free(p, up);
        CHECK_OK(ahe_sum_begin(p, w->sum));
        CHECK_OK(ahe_sum_add_units(p, w->sum, 0, body, p->units, NULL));
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
    if (strcmp(scheme, "pad") != 0)
        w->sec = world_key();
    CHECK_OK(sign_key_new(&w->as, &rng));
    CHECK_OK(sign_key_new(&w->csp, &rng));
    world_task(w, scheme, noise, values);
    w->c.ledger = mem_port(&w->book);
    if (!w->sec)
        world_clients(w, &rng);
    world_vouch(w);
    sha256_of(w->set, span_of_str("the set"));
    w->coins[0] = (named_coins){ .who = "AS", .seed = 1 };
    w->coins[1] = (named_coins){ .who = "CSP", .seed = 1 };
    for (int i = 0; i < 2; i++)
        w->named[i] = (sefl_coins){ .get = named_get, .self = &w->coins[i] };
    CHECK_OK(shares_twins_init(&w->twins, &w->named[0], &w->named[1]));
    w->shares[0] = w->twins.as, w->shares[1] = w->twins.csp;
    return w;
}

/* Resets journals and ledgers; keys, task and sum stay. */
static inline void world_reset(world *w)
{
    ma_clear(&w->a);
    memset(&w->book, 0, sizeof w->book);
    csp_memory_clear(&w->c);
    world_vouch(w);
    w->attempt = 0;
    shares_pool_clear(w->twins.as);
    shares_pool_clear(w->twins.csp);
    named_clear(&w->coins[0]);
    named_clear(&w->coins[1]);
}

static inline void world_free(world *w)
{
    world_reset(w);
    shares_twins_clear(&w->twins);
    csp_memory_clear(&w->c);
    for (int i = 0; i < W_ALL; i++) {
        sign_key_free(w->client[i].key);
        free(w->client[i].body);
    }
    ahe_sum_free(&w->t.ahe, w->sum);
    ahe_enc_free(&w->t.ahe, w->enc);
    paillier_pub_free(w->t.pub);
    sign_key_free(w->as);
    sign_key_free(w->csp);
    buf_clear(&w->envelope);
    free(w);
}

/* ---- a connection ---------------------------------------------------------------------------- */

typedef struct wire {
    channel inner;
    world *w;
    int side;     /* 0: AS, 1: CSP */
    uint8_t *msg; /* message under construction */
    size_t n;
    uint64_t count, cut; /* messages sent; the one that does not leave (1: the first), 0: none */
    bool half;           /* all but its last byte leaves */
    bool was_cut;
    uint64_t flip; /* 1 + the byte of CSP's output that is changed; 0: none */
    bool rehash;   /* and its digest with it: CSP deceives AS, but not itself (both wires) */
    sha256 transcript;
} wire;

/* What must be durable before this message leaves. */
static inline void wire_watch(wire *x, uint32_t kind)
{
    world *w = x->w;
    if (w->disk)
        return;
    if (x->side == 1 && (kind == LINK_REPLY || kind == LINK_PLAIN)) {
        csp_store j = csp_memory_store(&w->c);
        csp_highest top;
        CHECK_OK(csp_store_highest(&j, &top));
        assert_true(top.revealed > 0 && csp_seen_at(&w->c, top.revealed).reveals == 1);
        assert_false(csp_seen_at(&w->c, top.revealed).has_key);
        bool acknowledged = false;
        for (size_t i = 0; i < w->a.masks; i++)
            acknowledged |= w->a.mask[i].round == top.revealed && w->a.mask[i].replied;
        assert_true(acknowledged);
    }
    if (x->side == 1 && kind == LINK_VERDICT) {
        bool stored = false;
        for (uint64_t r = 1; r < w->c.rounds; r++)
            stored |= csp_seen_at(&w->c, r).has_set;
        assert_true(stored);
    }
    if (x->side == 0 && kind == LINK_SUM)
        assert_true(w->a.masks > 0 && w->a.mask[w->a.masks - 1].m.attempt == w->attempt);
}

/* The output that CSP has stored, with the change. */
static inline void wire_digest(wire *x, bool changed, uint8_t out[SHA256_BYTES])
{
    csp_store j = csp_memory_store(&x->w->c);
    csp_highest top;
    sefl_buf b = { 0 };
    CHECK_OK(csp_store_highest(&j, &top));
    CHECK_OK(j.get(j.ctx, CSP_OUTPUT, top.revealed, &b));
    if (changed)
        b.p[(x->flip - 1) % b.n] ^= 1;
    sha256_of(out, buf_span(&b));
    buf_clear(&b);
}

static inline void wire_change(wire *x, uint32_t kind, size_t whole)
{
    uint8_t *end = x->msg + whole - SHA256_BYTES;
    if (kind == LINK_REPLY || kind == LINK_PLAIN)
        x->msg[MSG_HEADER + (x->flip - 1) % (whole - MSG_HEADER)] ^= 1;
    else if (x->rehash && (kind == LINK_DIGEST || kind == LINK_KEPT || kind == LINK_ACK))
        wire_digest(x, kind != LINK_ACK, end);
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
    if (x->flip > 0)
        wire_change(x, load_u32(x->msg), whole);
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
    csp_store journal;
    as_store as;
    sefl_clock wall, boot;
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

static inline bool world_member(void *ctx, const uint8_t client[32])
{
    const world *w = ctx;
    if (w->member)
        return w->member(ctx, client);
    for (int i = 0; i < W_ALL; i++)
        if (memcmp(w->client[i].id, client, 32) == 0)
            return !(w->revoked >> i & 1);
    return false;
}

/* The upload key must be the client's own. */
static inline sefl_status world_voucher(void *ctx, const voucher *v)
{
    (void)ctx;
    return v->signature.n > 0 && v->signature.p[0] == 1 ? SEFL_OK
                                                        : sefl_fail(SEFL_EAUTH, "test: no member");
}

static inline uint64_t world_wall(void *self)
{
    return ((const world *)self)->wall_ms * 1000000;
}

static inline uint64_t world_boot(void *self)
{
    return ((const world *)self)->boot_ms * 1000000;
}

static inline uint64_t world_as_ms(void *self)
{
    return ((const world *)self)->as_ms * 1000000;
}

/* Both servers' stores and coins, and CSP's machine. */
static inline void connection_init(connection *c, world *w)
{
    *c = (connection){ .w = w, .wall = { world_wall, w }, .boot = { world_boot, w } };
    c->journal = w->disk ? *w->disk : csp_memory_store(&w->c);
    c->as = mem_as_journal(&w->a);
    CHECK_OK(csp_new(&c->server, &(csp_config){ .task = &w->t,
                                                .envelope = buf_span(&w->envelope),
                                                .sec = w->sec,
                                                .root = w->sec ? NULL : w->root,
                                                .wall = &c->wall,
                                                .boot = &c->boot,
                                                .boot_id = { w->boot_id },
                                                .pool = w->pool,
                                                .vouch = world_voucher,
                                                .member = world_member,
                                                .key = w->csp,
                                                .store = &c->journal,
                                                .coins = &w->named[1],
                                                .shares = w->shares[1],
                                                .enrol_ctx = w,
                                                .members = w->members ? world_members : NULL }));
}

/* A stream to c->server, which serves; the test uses c->ch[0]. cut[side]: see wire. */
static inline void stream_begin(connection *c, const uint64_t cut[2], bool half)
{
    world *w = c->w;
    memset(c->wire, 0, sizeof c->wire);
    CHECK_OK(channel_pair_new(&c->wire[0].inner, &c->wire[1].inner, 60000));
    for (int i = 0; i < 2; i++) {
        c->wire[i].w = w, c->wire[i].side = i, c->wire[i].half = half;
        c->wire[i].cut = cut ? cut[i] : 0;
        sha256_init(&c->wire[i].transcript);
        c->ch[i] = (channel){ .ops = &wire_ops, .self = &c->wire[i] };
    }
    assert_int_equal(pthread_create(&c->thread, NULL, serve, c), 0);
}

static inline void connect_(connection *c, world *w, const uint64_t cut[2], bool half)
{
    connection_init(c, w);
    stream_begin(c, cut, half);
}

/* Closes our end and waits for CSP, which goes on; c->st is how its stream ended. */
static inline void stream_end(connection *c)
{
    channel_pair_close(&c->wire[0].inner);
    pthread_join(c->thread, NULL);
    for (int i = 0; i < 2; i++)
        free(c->wire[i].msg);
}

/* The same, and CSP ends too. */
static inline void disconnect(connection *c)
{
    stream_end(c);
    csp_free(c->server);
}

static inline as_link_config world_as(world *w)
{
    w->as_clock = (sefl_clock){ world_as_ms, w };
    return (as_link_config){ .task = &w->t,
                             .envelope = buf_span(&w->envelope),
                             .key = w->as,
                             .coins = &w->named[0],
                             .shares = w->shares[0],
                             .shares_wait = w->shares[0] == w->twins.as ? shares_twins_wait : NULL,
                             .shares_ctx = &w->twins,
                             .wall = &w->as_clock,
                             .ledger = mem_port(&w->a.ledger) };
}

static inline round_header world_header(const world *w, uint64_t round)
{
    round_header h = { .round = round, .step_nano = 1000000000, .model = { (uint8_t)round } };
    memcpy(h.task, w->t.id, sizeof h.task);
    return h;
}

typedef struct w_heads {
    const world *w;
    round_header h;
} w_heads;

static inline sefl_status w_head_of(void *ctx, uint32_t i, uint8_t *out)
{
    const w_heads *x = ctx;
    return world_head_try(x->w, (int)i, &x->h, out);
}

static inline as_set world_set(w_heads *x, round_entry leaves[W_CLIENTS])
{
    for (int i = 0; i < W_CLIENTS; i++) {
        memcpy(leaves[i].client, x->w->client[i].id, 32);
        memcpy(leaves[i].body, x->w->client[i].units, 32);
    }
    return (as_set){ .round = x->h.round,
                     .clients = W_CLIENTS,
                     .leaves = leaves,
                     .tree_seed = x->w->tree_seed,
                     .head = w_head_of,
                     .ctx = x };
}

/* A sealed round up to CSP's verdict, which must keep all clients: some heads early, then the
 * set. */
static inline sefl_status world_verdict(world *w, as_link *l, const round_header *h)
{
    sefl_status st = SEFL_OK;
    w_heads x = { .w = w, .h = *h };
    round_entry leaves[W_CLIENTS];
    as_set set = world_set(&x, leaves);
    as_verdict v = { 0 };
    uint8_t early[W_CLIENTS * HEAD_MAX];
    head_refusal refused[W_CLIENTS];
    size_t n = 0, refused_n;
    for (int i = 0; i < W_CLIENTS; i++)
        if (w->early >> i & 1) {
            SEFL_TRY(world_head_try(w, i, h, early + n));
            n += head_bytes(w->t.seal);
        }
    if (n > 0) {
        SEFL_TRY(as_link_early(l, h->round, span_of(early, n), refused, &refused_n));
        assert_int_equal(refused_n, 0);
    }
    SEFL_TRY(as_link_set(l, &set, &v));
    assert_int_equal(v.kept, W_CLIENTS);
    memcpy(w->set, v.root, 32);
done:
    as_verdict_clear(&v);
    return st;
}

/* ---- AS's questions, for tests of as_link; whole rounds are in link_rounds.h ----------------- */

/* A link on a new connection. */
static inline as_link *world_link(world *w, connection *c)
{
    as_link *l;
    as_link_config cfg = world_as(w);
    connect_(c, w, NULL, false);
    CHECK_OK(as_link_new(&l, &c->ch[0], &cfg));
    return l;
}

/* KEY and HEADER; both gets the header as the servers signed it. */
static inline sefl_status world_sign(const world *w, as_link *l, round_header *h, sefl_buf *both)
{
    if (task_is_sealed(&w->t))
        SEFL_PASS(as_link_key(l, h));
    buf_reset(both);
    return as_link_header(l, both, h);
}

static inline round_header world_signed(const world *w, as_link *l, uint64_t round)
{
    round_header h = world_header(w, round);
    sefl_buf both = { 0 };
    CHECK_OK(world_sign(w, l, &h, &both));
    buf_clear(&both);
    return h;
}

/* Charges the round and reveals the sum of w->set, with the next attempt. */
static inline sefl_status world_reveal(world *w, connection *c, as_link *l, uint64_t round,
                                       uint32_t clients, sefl_buf *counted, bool *kept,
                                       int64_t *result)
{
    history_fresh fresh = w->fresh;
    w->fresh = (history_fresh){ 0 };
    SEFL_PASS(ledger_pay(&w->a.ledger, round));
    as_reveal o = { .round = round,
                    .attempt = ++w->attempt,
                    .clients = clients,
                    .sum = w->sum,
                    .store = &c->as,
                    .counted = counted,
                    .ahead = w->ahead,
                    .fresh = &fresh };
    memcpy(o.set, w->set, sizeof o.set);
    sefl_status st = as_link_reveal(l, &o, kept, result);
    if (st == SEFL_OK && fresh.round > 0) /* as after a release */
        st = c->as.put(c->as.ctx, AS_HISTORY, round, fresh.attempt, buf_span(&fresh.record));
    history_drop(&fresh);
    return st;
}

/* All questions of one round on this connection. */
static inline sefl_status world_round(world *w, connection *c, uint64_t round, bool *kept,
                                      int64_t *result)
{
    sefl_status st = SEFL_OK;
    as_link *l = NULL;
    as_link_config cfg = world_as(w);
    sefl_buf both = { 0 };
    round_header h = world_header(w, round);
    *kept = false;
    memset(result, 0, w->t.values * sizeof *result);
    SEFL_TRY(as_link_new(&l, &c->ch[0], &cfg));
    bool sealed = task_is_sealed(&w->t), is_open = as_link_peer(l)->revealed >= round;
    if (!sealed || !is_open)
        SEFL_TRY(world_sign(w, l, &h, &both));
    if (sealed && !is_open)
        SEFL_TRY(world_verdict(w, l, &h));
    buf_reset(&both);
    SEFL_TRY(world_reveal(w, c, l, round, W_CLIENTS, &both, kept, result));
    if (sealed)
        assert_true(both.n > COUNTED_STATEMENT_BYTES);
done:
    w->outcome = l ? as_link_outcome(l, st) : AS_FATAL;
    as_link_free(l);
    buf_clear(&both);
    return st;
}

#define CHECK_OUTCOME(l, call, want) assert_int_equal(as_link_outcome(l, call), want)

#endif
