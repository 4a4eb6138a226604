/* Sums of sealed rounds through as_link: early heads, refused clients, thousands of clients. */
#include "link_sets.h"

/* ---- EARLY and the sum ----------------------------------------------------------------------- */

/* The sum does not depend on which heads were sent early, nor on which of those were not in the
 * set. */
static void early_changes_nothing(void **state)
{
    (void)state;
    world *w = sealed_world();
    int64_t got[W_VALUES];
    connection c;
    bool kept;
    for (uint32_t early = 0; early < 16; early++) {
        world_reset(w);
        w->early = early & 7;
        if (early == 8)
            CHECK_OK(pool_new(&w->pool, 3));
        connect_(&c, w, NULL, false);
        CHECK_OK(world_round(w, &c, 1, &kept, got));
        disconnect(&c);
        assert_memory_equal(got, w->total, SEALED_VALUES * sizeof *got);
    }
    pool_free(w->pool);
    world_free(w);

    /* five heads are sent early, one of them twice with another upload; the set has the other two
     * and one of these, and the task allows at most four at once */
    w = sealed_world();
    w->t.clients_max = 5, w->t.ahe.pack.clients = 5;
    for (int i = W_CLIENTS; i < W_ALL; i++)
        memset(w->client[i].units, i, 32);
    sefl_buf heads = { 0 };
    head_refusal refused[8];
    size_t refused_n;
    as_verdict v;
    as_link *l = world_link(w, &c);
    round_header h = world_signed(w, l, 1);
    w_client second = w->client[1];
    memset(w->client[1].units, 0x55, 32); /* an upload that is replaced */
    w->client[1].seed.seed[0] ^= 1;
    for (int i = 1; i < W_ALL; i++)
        put_head(&heads, w, i, &h);
    CHECK_OK(as_link_early(l, 1, buf_span(&heads), refused, &refused_n));
    assert_int_equal(refused_n, 0);
    w->client[1] = second;
    buf_reset(&heads);
    put_head(&heads, w, 1, &h);
    put_head(&heads, w, 1, &h); /* the same again changes nothing */
    CHECK_OK(as_link_early(l, 1, buf_span(&heads), refused, &refused_n));
    assert_int_equal(refused_n, 0);
    w_heads x = { .w = w, .h = h };
    round_entry leaves[W_CLIENTS];
    as_set set = world_set(&x, leaves);
    CHECK_OK(as_link_set(l, &set, &v));
    assert_int_equal(v.kept, 3);
    memcpy(w->set, v.root, 32);
    CHECK_OK(world_reveal(w, &c, l, 1, 3, NULL, &kept, got));
    assert_memory_equal(got, w->total, SEALED_VALUES * sizeof *got);
    as_verdict_clear(&v);
    as_link_free(l);
    disconnect(&c);
    buf_clear(&heads);
    world_free(w);
}

/* A refused client: AS subtracts its body, and the sum is that of the others. */
static void refused_bodies_come_off(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        world *w = sealed_world();
        int64_t got[W_VALUES];
        connection c;
        bool kept;
        sefl_buf counted = { 0 }, path = { 0 }, heads = { 0 };
        as_verdict v;
        head_refusal refused[4];
        size_t n;
        envelope env;
        counted_statement said;
        as_link *l = world_link(w, &c);
        round_header h = world_signed(w, l, 1);
        if (early) {
            put_heads(&heads, w, &h, 3);
            CHECK_OK(as_link_early(l, 1, buf_span(&heads), refused, &n));
            assert_int_equal(n, 0);
        }
        w->revoked = 2; /* between EARLY and SET */
        w_heads x = { .w = w, .h = h };
        round_entry leaves[W_CLIENTS];
        as_set set = world_set(&x, leaves);
        CHECK_OK(as_link_set(l, &set, &v));
        assert_true(v.kept == 2 && v.refused_n == 1);
        assert_true(v.refused[0].index == 1 && v.refused[0].reason == HEAD_MEMBER);
        CHECK_OK(ahe_sum_take(&w->t.ahe, w->sum, 0, w->client[1].body, w->t.ahe.units, NULL));
        memcpy(w->set, v.root, 32);
        CHECK_OK(world_reveal(w, &c, l, 1, 2, &counted, &kept, got));
        /* the other two are the sum, whatever the third was */
        int64_t first = 0;
        for (size_t i = 0; i < SEALED_VALUES; i++)
            first |= got[i] ^ w->total[i];
        assert_int_not_equal(first, 0);
        for (size_t i = 0; i < SEALED_VALUES; i++)
            assert_true(got[i] <= 2 * w->t.ahe.pack.value_max &&
                        got[i] >= -2 * w->t.ahe.pack.value_max);

        /* CSP signed who is in it, and a client can check it */
        CHECK_OK(envelope_read(&env, buf_span(&counted)));
        CHECK_OK(envelope_check_one(&env, SIGN_COUNTED, SIGNER_CSP, w->t.servers.csp));
        CHECK_OK(counted_statement_read(&said, env.content));
        assert_memory_equal(said.root, v.root, 32);
        round_entry two[2] = { leaves[0], leaves[2] };
        counted_tree *tree;
        CHECK_OK(counted_tree_new(&tree, &(counted_facts){ .task = w->t.id,
                                                           .round = 1,
                                                           .tree_seed = w->tree_seed,
                                                           .clients_max = w->t.clients_max,
                                                           .leaves = two,
                                                           .n = 2 }));
        CHECK_OK(counted_tree_path(&path, tree, two[1].client));
        counted_tree_free(tree);
        unsigned depth = counted_depth(w->t.clients_max);
        CHECK_OK(counted_check(said.root, w->t.id, 1, depth, &leaves[2], buf_span(&path)));
        CHECK_STATUS(counted_check(said.root, w->t.id, 1, depth, &leaves[1], buf_span(&path)),
                     SEFL_EAUTH);
        as_verdict_clear(&v);
        as_link_free(l);
        disconnect(&c);
        buf_clear(&counted);
        buf_clear(&path);
        buf_clear(&heads);
        world_free(w);
    }
}

/* ---- thousands ------------------------------------------------------------------------------- */

enum { MANY = 5200, MANY_VALUES = 4 }; /* more heads than fit one HEADS, and many batches */

typedef struct population {
    const world *w;
    round_header h;
    round_entry *leaf;
    ahe_seed *seed;
    uint8_t *body;
    sign_key *key; /* in the test one key signs for all: CSP requires one voucher per client */
    seeded gen;
} population;

static bool not_every_seventh(void *ctx, const uint8_t client[32])
{
    (void)ctx;
    return client[31] % 7 != 0;
}

static sefl_status population_head(void *ctx, uint32_t i, uint8_t *out)
{
    population *x = ctx;
    sefl_rng rng = seeded_rng(&x->gen);
    return head_make(out,
                     &(head_facts){ .suite = x->w->t.seal,
                                    .task = x->w->t.id,
                                    .round = x->h.round,
                                    .client = x->leaf[i].client,
                                    .units = x->leaf[i].body },
                     span_of(x->h.key, x->h.key_bytes), x->seed[i].seed, x->key, &rng);
}

/* CSP's journal, but every client has the same upload key. */
static const uint8_t *one_key;

static sefl_status same_key(void *ctx, const uint8_t client[32], uint64_t *serial, uint8_t key[32])
{
    (void)ctx, (void)client;
    *serial = 1;
    memcpy(key, one_key, 32);
    return SEFL_OK;
}

static bool everybody(void *ctx, const uint8_t client[32])
{
    (void)ctx, (void)client;
    return true;
}

static int by_client(const void *a, const void *b)
{
    return memcmp(a, b, 32);
}

/* A third of the heads are sent early, and CSP refuses a seventh at the end: the sum is exactly
 * that of the others. */
static void a_crowd(void **state)
{
    (void)state;
    world *w = world_new("pad", TASK_NOISE_NONE, MANY_VALUES);
    pack p;
    CHECK_OK(pack_init(
        &p, &(pack_config){
                .scheme = PACK_PAD, .clients = MANY, .dimension = MANY_VALUES, .clip = PACK_ONE }));
    CHECK_OK(ahe_params_init(&w->t.ahe, &ahe_pad, &p, NULL, MANY_VALUES));
    w->t.clients_max = MANY;
    CHECK_OK(pool_new(&w->pool, 2));
    const ahe_params *a = &w->t.ahe;
    const size_t bytes = a->units * a->unit_bytes;
    population x = { .w = w,
                     .leaf = calloc(MANY, sizeof *x.leaf),
                     .seed = calloc(MANY, sizeof *x.seed),
                     .body = malloc(MANY * bytes),
                     .key = w->client[0].key };
    int64_t total[MANY_VALUES] = { 0 }, got[MANY_VALUES];
    seeded_init(&x.gen, 9, "a population");
    sefl_rng rng = seeded_rng(&x.gen);
    one_key = sign_key_pub(x.key);
    for (uint32_t i = 0; i < MANY; i++)
        seeded_fill(&x.gen, x.leaf[i].client, 32);
    qsort(x.leaf, MANY, sizeof *x.leaf, by_client);
    CHECK_OK(ahe_enc_new(&w->enc, NULL, a, NULL, NULL));
    CHECK_OK(ahe_sum_new(&w->sum, a, NULL));
    for (uint32_t i = 0; i < MANY; i++) {
        ahe_upload *up;
        uint8_t context[AHE_CONTEXT_BYTES], *body = x.body + i * bytes;
        int64_t v[2048] = { (int64_t)i % 9 - 4, -3, 5, (int64_t)(i % 3) };
        task_upload_context(context, &w->t, 1, x.leaf[i].client);
        CHECK_OK(ahe_upload_new(&up, a, w->enc, context, &rng));
        ahe_upload_seed(a, up, &x.seed[i]);
        CHECK_OK(ahe_upload_units(a, up, body, v, a->units, NULL, NULL));
        ahe_upload_free(a, up);
        blake3_of(x.leaf[i].body, span_of(body, bytes));
        CHECK_OK(ahe_sum_begin(a, w->sum));
        CHECK_OK(ahe_sum_add_units(a, w->sum, 0, body, a->units, NULL));
        for (int k = 0; k < MANY_VALUES && not_every_seventh(NULL, x.leaf[i].client); k++)
            total[k] += v[k];
    }
    connection c;
    as_link *l;
    sefl_buf early = { 0 };
    head_refusal *refused = calloc(MANY, sizeof *refused);
    size_t n;
    as_verdict v;
    bool kept;
    connect_(&c, w, NULL, false);
    c.journal.voucher_get = same_key;
    w->member = everybody;
    as_link_config cfg = world_as(w);
    CHECK_OK(as_link_new(&l, &c.ch[0], &cfg));
    x.h = world_signed(w, l, 1);
    for (uint32_t i = 0; i < MANY; i += 3) {
        uint8_t *at;
        CHECK_OK(buf_extend(&early, &at, head_bytes(w->t.seal)));
        CHECK_OK(population_head(&x, i, at));
    }
    CHECK_OK(as_link_early(l, 1, buf_span(&early), refused, &n));
    assert_int_equal(n, 0);
    w->member = not_every_seventh; /* what CSP asks from now on */
    as_set set = { .round = 1,
                   .clients = MANY,
                   .leaves = x.leaf,
                   .tree_seed = w->tree_seed,
                   .head = population_head,
                   .ctx = &x };
    CHECK_OK(as_link_set(l, &set, &v));
    assert_true(v.refused_n > MANY / 14 && v.refused_n < MANY / 3);
    for (uint32_t i = 0; i < v.refused_n; i++) {
        assert_true(v.refused[i].reason == HEAD_MEMBER);
        assert_int_equal(x.leaf[v.refused[i].index].client[31] % 7, 0);
        CHECK_OK(ahe_sum_take(a, w->sum, 0, x.body + v.refused[i].index * bytes, a->units, NULL));
    }
    CHECK_OK(ahe_sum_close(a, w->sum));
    memcpy(w->set, v.root, 32);
    CHECK_OK(world_reveal(w, &c, l, 1, v.kept, NULL, &kept, got));
    assert_memory_equal(got, total, sizeof got);
    as_verdict_clear(&v);
    as_link_free(l);
    disconnect(&c);
    buf_clear(&early);
    free(refused), free(x.leaf), free(x.seed), free(x.body);
    pool_free(w->pool);
    world_free(w);
}

/* Below the threshold: AS learns the reason, and the link continues. */
static void too_few_is_told(void **state)
{
    (void)state;
    world *w = sealed_world();
    connection c;
    as_verdict v;
    as_link *l = world_link(w, &c);
    round_header h = world_signed(w, l, 1);
    w->revoked = 6;
    w_heads x = { .w = w, .h = h };
    round_entry leaves[W_CLIENTS];
    as_set set = world_set(&x, leaves);
    CHECK_OUTCOME(l, as_link_set(l, &set, &v), AS_LOST);
    assert_false(as_link_dead(l));
    CHECK_OK(as_link_skip(l, 1, 1));
    assert_int_equal(w->book.charges, 0);
    as_link_free(l);
    disconnect(&c);
    world_free(w);
}

/* xwing, whole. */
static void the_other_suite(void **state)
{
    (void)state;
    world *w = sealed_world();
    int64_t got[W_VALUES];
    connection c;
    bool kept;
    w->t.seal = seal_suite_named("xwing");
    connect_(&c, w, NULL, false);
    CHECK_OK(world_round(w, &c, 1, &kept, got));
    disconnect(&c);
    assert_memory_equal(got, w->total, SEALED_VALUES * sizeof *got);
    assert_int_equal(csp_seen_at(&w->c, 1).r.header.key_bytes, 1216);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(early_changes_nothing),
        cmocka_unit_test(refused_bodies_come_off),
        cmocka_unit_test(a_crowd),
        cmocka_unit_test(too_few_is_told),
        cmocka_unit_test(the_other_suite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
