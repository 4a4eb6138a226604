/* Whole federations with seeded coins, each role a process, over real TLS: every released model
 * equals, bit for bit, the one that the same integers and the same noise give in the clear. */
#include "verify.h"

#include "base/hex.h"
#include "protocol/update.h"
#include "support/seek.h"

enum { SEED = 11, ROUNDS = FED_SLOW > 1 ? 3 : 5 };

static void start_all(fed *f)
{
    f->seed = SEED;
    fed_start_csp(f);
    fed_start_aggregator(f);
    for (unsigned i = 0; i < f->clients; i++)
        fed_start_client(f, i);
}

/* ---- a curious CSP --------------------------------------------------------------------------- */

typedef struct curious {
    const fed *f;
    uint64_t round;
    seek *seek;
    unsigned uploads;
} curious;

/* Names of units that CSP could compute if it guessed this client's vector. */
static void plant_names(const curious *c, sefl_span units)
{
    uint8_t name[BLAKE3_BYTES], first[BLAKE3_BYTES];
    char hex[2 * BLAKE3_BYTES + 1];
    blake3_of(name, units);
    seek_plant(c->seek, "the unsalted name of an update", name, sizeof name);
    seek_plant(c->seek, "the same in hex", hex_write(hex, name, sizeof name), 64);
    blake3_of(first, span_of(units.p, BLAKE3_CHUNK));
    seek_plant(c->seek, "the hash of its first chunk", first, sizeof first);
    seek_plant(c->seek, "its units", units.p, 64);
}

/* Makes the client's units and salt once more, from its coins: the right guess. */
static sefl_status guess_right(void *ctx, const journal_update *u)
{
    curious *c = ctx;
    const task *t = &c->f->t;
    char path[PATH_MAX], hex[65];
    uint8_t context[AHE_CONTEXT_BYTES], name[BLAKE3_BYTES], *body;
    sefl_buf x = { 0 };
    ahe_enc *enc = NULL;
    bool found = false;
    snprintf(path, sizeof path, "%s/%s-%" PRIu64, c->f->seen, u->name, c->round);
    CHECK_OK(file_read(&x, path, 1 << 28));
    CHECK_OK(ahe_enc_new(&enc, t->pub, &t->ahe, NULL, NULL));
    const size_t bytes = UPDATE_SALT + ahe_body_bytes(&t->ahe);
    CHECK_OK(sefl_new(&body, bytes, 1));
    int64_t *X = calloc(t->ahe.units * t->ahe.unit_values, sizeof *X);
    assert_non_null(X);
    memcpy(X, x.p, x.n);
    for (uint64_t attempt = 0; attempt < 8 && !found; attempt++) {
        seeded coins, salts;
        ahe_upload *up = NULL;
        named_coins_replay(&coins, u->name, c->f->seed, "encrypt", c->round, attempt);
        named_coins_replay(&salts, u->name, c->f->seed, "salt", c->round, attempt);
        sefl_rng rng = seeded_rng(&coins);
        task_upload_context(context, t, c->round, u->client);
        CHECK_OK(ahe_upload_new(&up, &t->ahe, enc, context, &rng));
        CHECK_OK(ahe_upload_units(&t->ahe, up, body + UPDATE_SALT, X, t->ahe.units, NULL, NULL));
        ahe_upload_free(&t->ahe, up);
        seeded_fill(&salts, body, UPDATE_SALT);
        update_name_of(name, span_of(body, bytes));
        found = memcmp(name, u->body, sizeof name) == 0;
    }
    assert_true(found); /* CSP would find it too, if it had the salt */
    plant_names(c, span_of(body + UPDATE_SALT, bytes - UPDATE_SALT));
    seek_plant(c->seek, "the salt of an update", body, UPDATE_SALT);
    seek_plant(c->seek, "the same in hex", hex_write(hex, body, UPDATE_SALT), 64);
    c->uploads++;
    ahe_enc_free(&t->ahe, enc);
    sefl_free(body);
    free(X);
    buf_clear(&x);
    return SEFL_OK;
}

/* After a run: neither what CSP keeps nor what both servers log confirms a right guess. */
static void csp_confirms_nothing(const fed *f, unsigned rounds)
{
    journal *as = NULL;
    curious c = { .f = f, .seek = seek_new() };
    CHECK_OK(journal_open(&as, fed_path(f, "aggregator/state"), "aggregator", f->t.id));
    for (c.round = 1; c.round <= rounds; c.round++)
        CHECK_OK(journal_updates(as, c.round, guess_right, &c));
    journal_close(as);
    assert_int_equal(c.uploads, rounds * f->clients);
    seek_folder(c.seek, fed_path(f, "csp"));
    seek_folder(c.seek, fed_path(f, "aggregator"));
    seek_folder(c.seek, fed_path(f, "public"));
    seek_file(c.seek, fed_path(f, "CSP.log"));
    seek_file(c.seek, fed_path(f, "AS.log"));
    if (seek_hits(c.seek) > 0)
        fail_msg("found: %s (and %u more)", seek_first(c.seek), seek_hits(c.seek) - 1);
    seek_free(c.seek);
}

static void bit_for_bit(const char *name, const char *scheme, unsigned clients, unsigned rounds,
                        const char *more)
{
    fed f;
    uint32_t least, most;
    char text[256];
    snprintf(text, sizeof text, "rounds.count=%u %s", rounds, more);
    fed_make(&f, name, scheme, clients, 400, text);
    start_all(&f);
    fed_finish(&f, 120 * FED_SLOW);
    assert_int_equal(verify(&f, &least, &most), rounds);
    verify_coins(&f);
    if (task_is_sealed(&f.t))
        csp_confirms_nothing(&f, rounds);
    assert_int_equal(least, clients);
    assert_int_equal(most, clients);
    fed_end(&f);
}

static void pad_is_exact(void **state)
{
    (void)state;
    bit_for_bit("pad", "pad", 8, ROUNDS, "");
}

static void paillier_is_exact(void **state)
{
    (void)state;
    bit_for_bit("paillier", "paillier", 8, ROUNDS, "");
}

/* With a claim: the circuit's noise at z = 1, and each server's own. */
static void noise_is_exact(void **state)
{
    (void)state;
    static const char claim[] = "privacy.claim=dp privacy.z=1 privacy.clip=1 privacy.epsilon=60 "
                                "privacy.delta=1e-5 ";
    char text[256];
    bit_for_bit("z1", "pad", 3, 3, claim);
    snprintf(text, sizeof text, "%sprivacy.noise=own", claim);
    bit_for_bit("own", "paillier", 3, 2, text);
    bit_for_bit("none", "pad", 3, 2, "privacy.noise=none");
}

static unsigned released(const fed *f)
{
    unsigned n = 0;
    for (uint64_t r = 1; r <= f->t.rounds; r++)
        n += file_exists(fed_path(f, "aggregator/models/round-%" PRIu64 ".safetensors", r));
    return n;
}

/* Six of eight clients die in a round: it closes, and the sum is exact for those that arrived. */
static void survivors_are_exact(void **state)
{
    (void)state;
    fed f;
    uint32_t least, most;
    char text[128];
    snprintf(text, sizeof text, "rounds.count=%u rounds.deadline_ms=%u rounds.threshold=2",
             FED_SLOW > 1 ? 3 : 2, 4000 + 2000 * FED_SLOW);
    fed_make(&f, "survivors", "pad", 8, 1500, text);
    start_all(&f);
    for (uint64_t end = fed_now_ms() + 60000 * FED_SLOW; released(&f) == 0; fed_pause())
        assert_true(fed_now_ms() < end);
    for (unsigned i = 0; i < 6; i++)
        fed_kill(&f.client[i]);
    fed_finish(&f, 120 * FED_SLOW);
    assert_true(verify(&f, &least, &most) >= 2); /* a very busy machine may skip the first */
    assert_true(least >= 2 && least < 8 && most > least);
    fed_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pad_is_exact),
        cmocka_unit_test(paillier_is_exact),
        cmocka_unit_test(noise_is_exact),
        cmocka_unit_test(survivors_are_exact),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
