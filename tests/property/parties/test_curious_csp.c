/* A CSP that follows the protocol and tests guesses: it has each client's head and, from the seal,
 * its seed, so it can compute the units of any guessed vector. It compares every name that it can
 * make of them with the name in the head. The heads are those of the real client. */
#include "unit/parties/update_fixture.h"

#include <unistd.h>

enum { GUESSES = 12 };

static fixture fx;

static int setup(void **state)
{
    static const shape sealed = { .scheme = "pad", .noise = TASK_NOISE_OWN };
    int rc = folder_make(state);
    fixture_make(&fx);
    fixture_task(&fx, &sealed);
    fixture_model(&fx, 3);
    return rc;
}

static int teardown(void **state)
{
    fixture_clear(&fx);
    return folder_remove(state);
}

/* Vectors that occur: no update at all, one value only, few values. */
static void guess_at(int64_t *X, unsigned i)
{
    memset(X, 0, fx.t.ahe.units * fx.t.ahe.unit_values * sizeof *X);
    if (i >= 1 && i <= 3)
        for (size_t k = 0; k < fx.t.values; k++)
            X[k] = i == 1 ? 1 : i == 2 ? -1 : (int64_t)(k % 2);
    if (i > 3)
        X[(i - 4) / 2] = i % 2 ? 1 : -1;
}

static sefl_status known_seed(void *self, void *out, size_t n)
{
    assert_true(n <= HEAD_SEED);
    memcpy(out, self, n);
    return SEFL_OK;
}

/* The units of X under this seed, as any client would make them: salt 32 | units. */
static sefl_buf units_of(const int64_t *X, uint8_t seed[HEAD_SEED])
{
    const ahe_params *p = &fx.t.ahe;
    const sefl_rng rng = { .fill = known_seed, .self = seed };
    uint8_t context[AHE_CONTEXT_BYTES], *at;
    sefl_buf b = { 0 };
    ahe_enc *enc = NULL;
    ahe_upload *up = NULL;
    task_upload_context(context, &fx.t, fx.header.round, fx.client);
    CHECK_OK(ahe_enc_new(&enc, NULL, p, NULL, NULL));
    CHECK_OK(ahe_upload_new(&up, p, enc, context, &rng));
    CHECK_OK(buf_extend(&b, &at, UPDATE_SALT + ahe_body_bytes(p)));
    CHECK_OK(ahe_upload_units(p, up, at + UPDATE_SALT, X, p->units, NULL, NULL));
    ahe_upload_free(p, up);
    ahe_enc_free(p, enc);
    return b;
}

static bool named(sefl_buf *units, const uint8_t *salt, const uint8_t name[32])
{
    uint8_t got[32];
    memcpy(units->p, salt, UPDATE_SALT);
    update_name_of(got, buf_span(units));
    return memcmp(got, name, 32) == 0;
}

/* True if these units explain the name: unsalted hashes, and as salt zeros, the seed, what a hash
 * or a generator makes of it, and any 32 bytes of the head. */
static bool explained(sefl_buf *units, const head *h, const uint8_t seed[HEAD_SEED])
{
    uint8_t got[32], salt[UPDATE_SALT] = { 0 };
    sefl_span bare = span_of(units->p + UPDATE_SALT, units->n - UPDATE_SALT);
    blake3_of(got, bare);
    bool found = memcmp(got, h->units, 32) == 0;
    sha256_of(got, bare);
    found = found || memcmp(got, h->units, 32) == 0;
    found = found || named(units, salt, h->units) || named(units, seed, h->units);
    sha256_of(salt, span_of(seed, HEAD_SEED));
    found = found || named(units, salt, h->units);
    blake3_of(salt, span_of(seed, HEAD_SEED));
    found = found || named(units, salt, h->units);
    for (size_t i = 0; i + UPDATE_SALT <= h->bytes.n && !found; i++)
        found = named(units, h->bytes.p + i, h->units);
    return found;
}

/* Plays CSP against one body, which is an upload of guess `truth`. Returns how many guesses its
 * name explains; *known: how many to somebody who has the salt, as AS has. */
static unsigned tested(sefl_span body, unsigned truth, unsigned *known)
{
    head h;
    uint8_t seed[HEAD_SEED];
    int64_t *X;
    unsigned found = 0;
    const size_t n = head_bytes(fx.t.seal);
    *known = 0;
    CHECK_OK(head_read(&h, fx.t.seal, span_of(body.p, n)));
    CHECK_OK(head_open(seed, &h, fx.csp, fx.t.id, fx.header.round));
    CHECK_OK(sefl_new(&X, fx.t.ahe.units * fx.t.ahe.unit_values, sizeof *X));
    for (unsigned i = 0; i < GUESSES; i++) {
        guess_at(X, i);
        sefl_buf units = units_of(X, seed);
        found += explained(&units, &h, seed);
        if (named(&units, body.p + n, h.units)) {
            assert_int_equal(i, truth);
            ++*known;
        }
        buf_clear(&units);
    }
    sefl_free(X);
    return found;
}

/* The one that the simulator, the demo and the benchmarks use. */
static void bodies_in_memory(void **state)
{
    (void)state;
    sefl_rng rng = rng_system();
    uint8_t *body, name[32];
    int64_t *X;
    unsigned found = 0, known;
    ahe_enc *enc = NULL;
    const update_facts facts = {
        .task = &fx.t, .header = &fx.header, .client = fx.client, .upload_key = fx.upload
    };
    CHECK_OK(sefl_new(&body, task_body_bytes(&fx.t), 1));
    CHECK_OK(sefl_new(&X, fx.t.ahe.units * fx.t.ahe.unit_values, sizeof *X));
    CHECK_OK(ahe_enc_new(&enc, NULL, &fx.t.ahe, NULL, NULL));
    for (unsigned truth = 0; truth < GUESSES; truth++) {
        update_facts f = facts;
        f.enc = enc;
        guess_at(X, truth);
        CHECK_OK(update_make(body, name, &f, X, NULL, NULL, &rng));
        found += tested(span_of(body, task_body_bytes(&fx.t)), truth, &known);
        assert_int_equal(known, 1); /* the salt decides, nothing else */
    }
    if (found > 0)
        fail_msg("CSP recognises %u of %u vectors by their names", found, GUESSES);
    ahe_enc_free(&fx.t.ahe, enc);
    sefl_free(X);
    sefl_free(body);
}

/* "salt" differs for each body, everything else repeats. */
typedef struct salted_coins {
    seeded gen[16];
    unsigned n, salts;
} salted_coins;

static sefl_status salted_get(void *self, sefl_rng *out, const char *purpose, uint64_t round,
                              uint64_t attempt)
{
    salted_coins *c = self;
    (void)round, (void)attempt;
    assert_true(c->n < 16);
    seeded_init(&c->gen[c->n], strcmp(purpose, "salt") == 0 ? ++c->salts : 0, purpose);
    *out = seeded_rng(&c->gen[c->n++]);
    return SEFL_OK;
}

static sefl_status diverges(void *self, const train_job *job, float *v, uint64_t *weight)
{
    (void)self, (void)job, (void)v, (void)weight;
    return sefl_fail(SEFL_ERANGE, "no usable update");
}

/* The role's own writer, with zeros: what a client without an update sends. The salt does not
 * depend on the seed: with the same seed and the same units another salt gives another name. */
static void bodies_of_the_role(void **state)
{
    (void)state;
    salted_coins from = { 0 };
    const sefl_coins coins = { .get = salted_get, .self = &from };
    client_update *u = NULL;
    sefl_buf made[2] = { 0 };
    const size_t front = update_front_bytes(fx.t.seal);
    unsigned known;
    CHECK_OK(client_update_new(&u, &(client_update_config){ .task = &fx.t,
                                                            .port = { .train = diverges },
                                                            .upload_key = fx.upload,
                                                            .coins = &coins }));
    for (unsigned i = 0; i < 2; i++) {
        const char *path = folder_path("body");
        client_body body;
        CHECK_OK(client_update_make(
            u, &body, path, &fx.header,
            &(train_job){
                .task = &fx.t, .round = fx.header.round, .client = fx.client, .model = fx.model }));
        assert_true(client_update_diverged(u));
        CHECK_OK(file_read(&made[i], path, 1 << 24));
        if (tested(buf_span(&made[i]), 0, &known) > 0)
            fail_msg("CSP recognises a client that uploads zeros by the name of its body");
        assert_int_equal(known, 1);
        unlink(path);
    }
    assert_int_equal(from.salts, 2);
    assert_int_equal(made[0].n, made[1].n);
    assert_memory_equal(made[0].p + front, made[1].p + front, made[0].n - front);
    assert_memory_not_equal(made[0].p + front - UPDATE_SALT, made[1].p + front - UPDATE_SALT,
                            UPDATE_SALT);
    assert_memory_not_equal(made[0].p + 40, made[1].p + 40, 32); /* the names */
    client_update_free(u);
    buf_clear(&made[0]), buf_clear(&made[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_in_memory),
        cmocka_unit_test(bodies_of_the_role),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
