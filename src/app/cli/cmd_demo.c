/* sefl demo: a self-test of the base layer, then a whole federation (cli/full/demo_fed.h). A
 * core-only build has only the self-test. */
#include "cli/options.h"
#if !SEFL_CORE_ONLY
#include "cli/full/demo_fed.h"
#endif

#include "base/buf.h"
#include "base/ct.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/sha256.h"
#if !SEFL_CORE_ONLY
#include "crypto/ahe/paillier.h"
#include "crypto/ahe/params.h"
#include "privacy/accountant/law.h"
#endif

#include <stdio.h>
#include <string.h>

static sefl_status test_sha256(void)
{
    static const uint8_t want[4] = { 0xba, 0x78, 0x16, 0xbf }; /* FIPS 180-4, "abc" */
    uint8_t got[SHA256_BYTES], text[4096] = { 0 };
    uint32_t a[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, b[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    sha256_of(got, span_of_str("abc"));
    sha256_blocks(a, text, sizeof text / 64);
    sha256_blocks_ref(b, text, sizeof text / 64);
    return memcmp(got, want, sizeof want) == 0 && memcmp(a, b, sizeof a) == 0
               ? SEFL_OK
               : sefl_fail(SEFL_ECRYPTO, "SHA-256 computes a wrong digest on this machine");
}

static sefl_status test_random(void)
{
    uint8_t a[64], b[64];
    sefl_rng rng = rng_system();
    SEFL_PASS(rng_fill(&rng, a, sizeof a));
    SEFL_PASS(rng_fill(&rng, b, sizeof b));
    SEFL_NEED(!ct_eq_bytes(a, b, sizeof a), SEFL_ERANDOM, "two random draws are equal");
    return SEFL_OK;
}

static sefl_status test_readers(void)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { .max = 64 };
    uint64_t v = 0;
    sefl_span s;
    SEFL_TRY(wr_varint(&b, UINT64_MAX));
    SEFL_TRY(wr_bytes(&b, span_of_str("sefl")));
    rd r = rd_over(buf_span(&b));
    SEFL_TRY(rd_varint(&r, &v));
    SEFL_TRY(rd_bytes(&r, &s, 4));
    SEFL_TRY(rd_end(&r));
    SEFL_CHECK(v == UINT64_MAX && s.n == 4, SEFL_EPROTO, "a message does not read back correctly");
    SEFL_CHECK(rd_u8(&r, &(uint8_t){ 0 }) == SEFL_EPROTO, SEFL_EPROTO, "read past the end");
done:
    buf_clear(&b);
    return st;
}

static sefl_status add_up(void *ctx, unsigned lane, size_t begin, size_t end)
{
    (void)lane;
    uint64_t *parts = ctx;
    for (size_t i = begin; i < end; i++)
        parts[begin / 100] += i;
    return SEFL_OK;
}

static sefl_status test_threads(void)
{
    uint64_t parts[10] = { 0 }, sum = 0;
    pool *p = NULL;
    sefl_status st = SEFL_OK;
    SEFL_TRY(pool_new(&p, 0));
    SEFL_TRY(pool_run(p, 1000, 100, add_up, parts, NULL));
    for (int i = 0; i < 10; i++)
        sum += parts[i];
    SEFL_CHECK(sum == 499500, SEFL_ESTATE, "the thread pool lost work");
done:
    pool_free(p);
    return st;
}

static sefl_status self_test(bool quiet)
{
    static const struct {
        const char *name;
        sefl_status (*fn)(void);
    } steps[] = {
        { "SHA-256", test_sha256 },
        { "system randomness", test_random },
        { "message readers", test_readers },
        { "threads", test_threads },
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        SEFL_PASS(sefl_at(steps[i].fn(), "self-test of %s", steps[i].name));
    if (!quiet)
        printf("self-test of the base layer: SHA-256, system randomness, message readers, threads: "
               "ok\n");
    return SEFL_OK;
}

#if !SEFL_CORE_ONLY
typedef demo wish;

static int cmd_demo_run(void *options)
{
    const demo *d = options;
    pack_nano z;
    if (pack_decimal(&z, d->noise) != SEFL_OK || z == 0)
        return cli_misuse(&cmd_demo, "--noise must be a decimal number above 0, not \"%.32s\"",
                          d->noise);
    if (d->bits != PAILLIER_BITS_DEFAULT && strcmp(d->scheme, "paillier") != 0)
        return cli_misuse(&cmd_demo, "--bits requires --scheme paillier");
    sefl_status st = self_test(true);
    if (st == SEFL_OK)
        st = demo_fed_run(d);
    if (st == SEFL_OK)
        return CLI_DONE;
    (void)cli_failed(&cmd_demo, st);
    return CLI_FAILED;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "out", SETTING_PATH, "runs/demo", .arg = "DIR", TO(out),
      .help = "Output folder: new, empty or from an earlier demo" },
    { "clients", SETTING_U64, "8", TO(clients), .min = 4, .max = DEMO_CLIENTS_MAX,
      .help = "Number of clients" },
    { "rounds", SETTING_U64, "12", TO(rounds), .min = 2, .max = 1000, .help = "Number of rounds" },
    { "words", SETTING_U64, "4000", TO(words), .min = 200, .max = 1000000,
      .help = "Number of tokens per client" },
    { "scheme", SETTING_WORD, "pad", AHE_SCHEMES, TO(scheme), .help = "Encryption scheme" },
    { "noise", SETTING_DECIMAL, "0.02", .arg = "Z", TO(noise),
      .help = "Noise multiplier. With " DP_JOINT_Z_TEXT
              " or more, the demo claims differential privacy and reports its epsilon" },
    { "bits", SETTING_U64, "3072", PAILLIER_SIZES, TO(bits), .min = 1, .arg = "N",
      .help = "Size of a Paillier key" },
    { "open", SETTING_FLAG, TO(open),
      .help = "Serve the web page of the aggregation server while the demo runs, and print the "
              "address to open" },
    OPTION_JSON(wish),
    { 0 },
};

#else
typedef struct wish {
    bool none;
} wish;

static int cmd_demo_run(void *options)
{
    (void)options;
    printf("sefl demo\n");
    sefl_status st = self_test(false);
    if (st != SEFL_OK)
        return cli_failed(&cmd_demo, st);
    printf("this build is core only: no encryption, no joint noise, no federation\n");
    return CLI_DONE;
}

static const setting_def options[] = { { 0 } };
#endif

const cli_command cmd_demo = {
    .name = "demo",
    .about = SEFL_CORE_ONLY
                 ? "Tests the base layer on this machine. A core-only build has no federation."
                 : "Generates keys and text, starts CSP, the aggregation server and the clients as "
                   "separate processes, trains a small LSTM in secure rounds, kills some clients "
                   "during the run and compares the result with plain FedAvg.",
    .example = "sefl demo",
    CLI_OPTIONS(wish),
    CLI_RUN(cmd_demo_run, NULL, NULL, 0),
};
