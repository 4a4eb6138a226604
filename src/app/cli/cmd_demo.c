/* sefl demo: a self-test of the base layer, then a whole federation (cli/full/demo_fed.h) or, with
 * --sum, one secure sum for each encryption scheme. A core-only build has only the self-test. */
#include "cli/options.h"
#if !SEFL_CORE_ONLY
#include "cli/full/demo_sum.h"
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

static void usual(uint32_t *value, uint32_t if_not_given)
{
    if (*value == 0)
        *value = if_not_given;
}

static sefl_status secure_sums(demo *d)
{
    const char *schemes[] = { "pad", "paillier", NULL };
    SEFL_NEED(!d->out && !d->rounds && !d->words && !d->json && !d->open, SEFL_EINVAL,
              "--out, --rounds, --words, --open and --json cannot be used with --sum");
    if (d->scheme)
        schemes[0] = d->scheme, schemes[1] = NULL;
    d->noise = d->noise ? d->noise : "1";
    usual(&d->bits, PAILLIER_BITS_DEFAULT), usual(&d->values, 20000);
    printf("sefl demo --sum\n");
    SEFL_PASS(self_test(false));
    for (size_t i = 0; schemes[i]; i++) {
        printf("\n");
        d->scheme = schemes[i];
        SEFL_PASS(demo_sum_run(d));
    }
    printf(
        "\nWho saw what: AS saw encrypted vectors, its own mask and the noisy sums above. CSP saw "
        "sums under\nthat mask and, with pad, who took part. Neither saw a vector, the plain sum "
        "or the noise.\n(This program knows the plain sum only because it played all "
        "clients.)\n");
    return SEFL_OK;
}

static sefl_status federation(demo *d, bool *accepted)
{
    d->out = d->out ? d->out : "runs/demo";
    d->scheme = d->scheme ? d->scheme : "pad";
    d->noise = d->noise ? d->noise : "0.02";
    SEFL_NEED(!d->values, SEFL_EINVAL, "--values requires --sum");
    SEFL_NEED(!d->bits || strcmp(d->scheme, "paillier") == 0, SEFL_EINVAL,
              "--bits requires --scheme paillier");
    usual(&d->bits, PAILLIER_BITS_DEFAULT), usual(&d->rounds, 12), usual(&d->words, 4000);
    SEFL_NEED(d->clients >= 4 && d->clients <= DEMO_CLIENTS_MAX, SEFL_EINVAL,
              "--clients must be 4 to %d, not %u", DEMO_CLIENTS_MAX, d->clients);
    *accepted = true;
    SEFL_PASS(self_test(true));
    return demo_fed_run(d);
}

static int run(void *options)
{
    demo *d = options;
    pack_nano z;
    bool accepted = false;
    if (d->noise && (pack_decimal(&z, d->noise) != SEFL_OK || z == 0))
        return cli_misuse(&cmd_demo, "--noise must be a decimal number above 0, not \"%.32s\"",
                          d->noise);
    sefl_status st = d->sum ? secure_sums(d) : federation(d, &accepted);
    int rc = st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_demo, st);
    return accepted && rc != CLI_DONE ? CLI_FAILED : rc;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "out", SETTING_PATH, "", .arg = "DIR", TO(out),
      .help = "Output folder: new, empty or from an earlier demo; default runs/demo" },
    { "clients", SETTING_U64, "8", TO(clients), .min = 1, .max = 1000,
      .help = "Number of clients; without --sum, at least 4 and at most 64" },
    { "rounds", SETTING_U64, "0", TO(rounds), .min = 2, .max = 1000,
      .help = "Number of rounds; default 12" },
    { "words", SETTING_U64, "0", TO(words), .min = 200, .max = 1000000,
      .help = "Number of tokens per client; default 4000" },
    { "scheme", SETTING_WORD, "", AHE_SCHEMES, TO(scheme),
      .help = "Encryption scheme; default pad, or both schemes with --sum" },
    { "noise", SETTING_DECIMAL, "", .arg = "Z", TO(noise),
      .help = "Noise multiplier; default 0.02, or 1 with --sum. With " DP_JOINT_Z_TEXT
              " or more, the demo claims "
              "differential privacy and reports its epsilon" },
    { "bits", SETTING_U64, "0", PAILLIER_SIZES, TO(bits), .min = 1, .arg = "N",
      .help = "Size of a Paillier key; default 3072" },
    { "sum", SETTING_FLAG, TO(sum),
      .help = "Instead of training, compute one secure sum of random vectors in one process" },
    { "values", SETTING_U64, "0", TO(values), .min = 1, .max = 20000000,
      .help = "Number of values in each vector that --sum adds; default 20000" },
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

static int run(void *options)
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
    CLI_RUN(run, NULL, NULL, 0),
};
