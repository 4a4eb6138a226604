/* Whole federations with seeded coins, each role a process, over real TLS: every released model
 * equals, bit for bit, the one that the same integers and the same noise give in the clear. */
#include "verify.h"

enum { SEED = 11, ROUNDS = FED_SLOW > 1 ? 3 : 5 };

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
    fed_finish(&f, 120 * FED_SLOW);
    assert_int_equal(verify(&f, &least, &most), rounds);
    verify_coins(&f);
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
