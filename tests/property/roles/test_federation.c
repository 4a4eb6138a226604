/* Whole federations with seeded coins, each role a process, over real TLS: every released model is,
 * bit for bit, the one that the same integers and the same noise give in the clear. */
#include "clear.h"
#include "fed.h"

#include "model/file/model_file.h"
#include "protocol/round.h"
#include "store/journal/journal.h"

enum { SEED = 11 };

typedef struct ledger_book {
    const fed *f;
    uint64_t round;
    int64_t *sum; /* t.values */
    uint32_t clients;
} ledger_book;

/* Adds what this client encrypted. */
static sefl_status add_client(void *ctx, const journal_update *u)
{
    ledger_book *b = ctx;
    const fed *f = b->f;
    sefl_buf x = { 0 };
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s-%" PRIu64, f->seen, u->name, b->round);
    CHECK_OK(file_read(&x, path, 1 << 28));
    assert_int_equal(x.n, f->t.values * sizeof(int64_t));
    for (size_t i = 0; i < f->t.values; i++)
        b->sum[i] += (int64_t)load_u64(x.p + 8 * i);
    b->clients++;
    buf_clear(&x);
    return SEFL_OK;
}

static uint64_t attempt_of(journal *csp_journal_, const fed *f, uint64_t round, uint32_t clients)
{
    sefl_buf b = { 0 };
    envelope env;
    round_statement s;
    CHECK_OK(journal_fact_get(csp_journal_, round, "statement", &b));
    CHECK_OK(envelope_read(&env, buf_span(&b)));
    CHECK_OK(envelope_check_one(&env, SIGN_STATEMENT, SIGNER_AS, f->servers.as));
    CHECK_OK(round_statement_read(&s, env.content));
    assert_int_equal(s.clients, clients);
    buf_clear(&b);
    return s.attempt;
}

static void same_file(const char *a, const char *b, uint64_t round)
{
    sefl_buf x = { 0 }, y = { 0 };
    CHECK_OK(file_read(&x, a, 1 << 28));
    CHECK_OK(file_read(&y, b, 1 << 28));
    if (x.n != y.n || memcmp(x.p, y.p, x.n) != 0)
        fail_msg("round %" PRIu64 ": the released model is not the one of the clear", round);
    buf_clear(&x);
    buf_clear(&y);
}

/* Every round again, in the clear. Returns how many were released; *least, *most: clients in one. */
static unsigned verify(const fed *f, uint32_t *least, uint32_t *most)
{
    journal *as = NULL, *other = NULL;
    journal_round last;
    model_meta meta;
    float *theta = NULL;
    size_t n;
    unsigned released = 0;
    char clear_path[PATH_MAX];
    *least = UINT32_MAX, *most = 0;
    CHECK_OK(journal_open(&as, fed_path(f, "aggregator/state"), "aggregator", f->t.id));
    CHECK_OK(journal_open(&other, fed_path(f, "csp/state"), "csp", f->t.id));
    CHECK_OK(journal_round_last(other, &last));
    CHECK_OK(model_read(&meta, &theta, &n, fed_path(f, "public/init.safetensors")));
    assert_int_equal(n, f->t.params);
    int64_t *w = calloc(f->t.values, sizeof *w);
    snprintf(clear_path, sizeof clear_path, "%s/clear.safetensors", f->seen);
    for (uint64_t round = 1; round <= last.round; round++) {
        journal_round row;
        CHECK_OK(journal_round_get(as, round, &row));
        if (row.skipped)
            continue;
        ledger_book b = { .f = f, .round = round, .sum = calloc(f->t.values, sizeof *b.sum) };
        CHECK_OK(journal_updates(as, round, add_client, &b));
        uint64_t attempt = attempt_of(other, f, round, b.clients);
        clear_release(w, &f->t, SEED, round, attempt, b.sum);
        clear_step(theta, &f->t, w, b.clients);
        CHECK_OK(model_write(clear_path, &meta, theta));
        same_file(clear_path, fed_path(f, "aggregator/models/round-%" PRIu64 ".safetensors", round),
                  round);
        *least = b.clients < *least ? b.clients : *least;
        *most = b.clients > *most ? b.clients : *most;
        released++;
        free(b.sum);
    }
    free(w);
    sefl_free(theta);
    journal_close(as);
    journal_close(other);
    same_file(fed_path(f, "aggregator/ledger"), fed_path(f, "csp/ledger"), 0);
    return released;
}

static void start_all(fed *f)
{
    f->seed = SEED;
    fed_start_csp(f);
    fed_start_aggregator(f);
    for (unsigned i = 0; i < f->clients; i++)
        fed_start_client(f, i);
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
    fed_finish(&f, 120);
    assert_int_equal(verify(&f, &least, &most), rounds);
    assert_int_equal(least, clients);
    assert_int_equal(most, clients);
    fed_end(&f);
}

static void lwe_is_exact(void **state)
{
    (void)state;
    bit_for_bit("lwe", "lwe", 8, 5, "");
}

static void paillier_is_exact(void **state)
{
    (void)state;
    bit_for_bit("paillier", "paillier", 8, 5, "");
}

/* With a claim: the circuit's noise at z = 1, and each server's own. */
static void noise_is_exact(void **state)
{
    (void)state;
    static const char claim[] = "privacy.claim=dp privacy.z=1 privacy.clip=1 privacy.epsilon=60 "
                                "privacy.delta=1e-5 ";
    char text[256];
    bit_for_bit("z1", "lwe", 3, 3, claim);
    snprintf(text, sizeof text, "%sprivacy.noise=own", claim);
    bit_for_bit("own", "paillier", 3, 2, text);
    bit_for_bit("none", "lwe", 3, 2, "privacy.noise=none");
}

static bool released(const fed *f, uint64_t round)
{
    return file_exists(fed_path(f, "aggregator/models/round-%" PRIu64 ".safetensors", round));
}

/* Six of eight clients die in round 2: it closes and is exactly right for those who came. */
static void survivors_are_exact(void **state)
{
    (void)state;
    fed f;
    uint32_t least, most;
    fed_make(&f, "survivors", "lwe", 8, 1500,
             "rounds.count=3 rounds.deadline_ms=5000 rounds.threshold=2");
    start_all(&f);
    for (uint64_t end = fed_now_ms() + 60000; !released(&f, 1); fed_pause())
        assert_true(fed_now_ms() < end);
    for (unsigned i = 0; i < 6; i++)
        fed_kill(&f.client[i]);
    fed_finish(&f, 120);
    assert_int_equal(verify(&f, &least, &most), 3);
    assert_int_equal(least, 2);
    assert_int_equal(most, 8);
    fed_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lwe_is_exact),
        cmocka_unit_test(paillier_is_exact),
        cmocka_unit_test(noise_is_exact),
        cmocka_unit_test(survivors_are_exact),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
