/* A self-test of the base layer on this machine, then a whole federation (cli/full/demo_fed.h) or, with
 * --sum, one secure sum under each encryption scheme. A core-only build has the self-test alone. */
#include "cli/cli.h"
#if !SEFL_CORE_ONLY
#include "cli/full/demo_fed.h"
#include "cli/full/demo_sum.h"
#endif

#include "base/buf.h"
#include "base/ct.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/sha256.h"
#if !SEFL_CORE_ONLY
#include "crypto/ahe/pack.h"
#include "crypto/ahe/paillier.h"
#endif

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static sefl_status test_sha256(void)
{
    static const uint8_t want[4] = { 0xba, 0x78, 0x16, 0xbf }; /* FIPS 180-4, "abc" */
    uint8_t got[SHA256_BYTES], ref[SHA256_BYTES];
    uint8_t text[4096] = { 0 };
    uint32_t a[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, b[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    sha256_of(got, span_of_str("abc"));
    sha256_blocks(a, text, sizeof text / 64);
    sha256_blocks_ref(b, text, sizeof text / 64);
    memcpy(ref, b, sizeof ref);
    return memcmp(got, want, sizeof want) == 0 && memcmp(a, b, sizeof a) == 0
               ? SEFL_OK
               : sefl_fail(SEFL_ECRYPTO, "SHA-256 gives a wrong digest on this machine");
}

static sefl_status test_random(void)
{
    uint8_t a[64], b[64];
    sefl_rng rng = rng_system();
    sefl_status st = SEFL_OK;
    SEFL_TRY(rng_fill(&rng, a, sizeof a));
    SEFL_TRY(rng_fill(&rng, b, sizeof b));
    SEFL_CHECK(!ct_eq_bytes(a, b, sizeof a), SEFL_ERANDOM, "two random draws are the same");
done:
    return st;
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
    SEFL_CHECK(v == UINT64_MAX && s.n == 4, SEFL_EPROTO, "a message did not read back");
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
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        sefl_status st = steps[i].fn();
        if (st != SEFL_OK)
            return sefl_fail_at(st, "self-test of %s", steps[i].name);
    }
    if (!quiet)
        printf("self-test of the base layer: SHA-256, system randomness, message readers, threads: "
               "ok\n");
    return SEFL_OK;
}

#if !SEFL_CORE_ONLY
enum {
    O_SCHEME = 256,
    O_BITS,
    O_CLIENTS,
    O_VALUES,
    O_NOISE,
    O_SUM,
    O_OUT,
    O_ROUNDS,
    O_WORDS,
    O_JSON
};

static const struct option longopts[] = {
    { "scheme", required_argument, NULL, O_SCHEME },
    { "bits", required_argument, NULL, O_BITS },
    { "clients", required_argument, NULL, O_CLIENTS },
    { "noise", required_argument, NULL, O_NOISE },
    { "out", required_argument, NULL, O_OUT },
    { "rounds", required_argument, NULL, O_ROUNDS },
    { "words", required_argument, NULL, O_WORDS },
    { "json", no_argument, NULL, O_JSON },
    { "sum", no_argument, NULL, O_SUM },
    { "values", required_argument, NULL, O_VALUES },
    { 0 },
};

typedef struct options {
    const char *scheme, *noise, *out;
    unsigned long long bits, clients, values, rounds, words; /* 0: not given */
    bool sum, json;
} options;

/* CLI_MISUSE after saying why. */
static int take(options *o, int c, const char *name)
{
    static const struct {
        int option;
        unsigned long long min, max;
    } ranges[] = {
        { O_CLIENTS, 1, 1000 },    { O_VALUES, 1, 20000000 }, { O_ROUNDS, 2, 1000 },
        { O_WORDS, 200, 1000000 }, { O_BITS, 2048, 4096 },
    };
    unsigned long long v = 0;
    pack_nano z;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].option == c && !cli_parse_u64(optarg, ranges[i].min, ranges[i].max, &v))
            return cli_misuse(&cmd_demo, "--%s is a number from %llu to %llu, not \"%.32s\"", name,
                              ranges[i].min, ranges[i].max, optarg);
    switch (c) {
    case O_SCHEME:
        o->scheme = optarg;
        if (strcmp(optarg, "pad") != 0 && strcmp(optarg, "paillier") != 0)
            return cli_misuse(&cmd_demo, "--scheme is pad or paillier, not \"%.32s\"", optarg);
        break;
    case O_NOISE:
        o->noise = optarg;
        if (pack_decimal(&z, optarg) != SEFL_OK || z == 0)
            return cli_misuse(&cmd_demo, "--noise is a decimal number above 0, not \"%.32s\"",
                              optarg);
        break;
    case O_BITS:
        if (!paillier_bits_ok((unsigned)v))
            return cli_misuse(&cmd_demo, "--bits is 2048, 3072 or 4096, not %llu", v);
        o->bits = v;
        break;
    case O_CLIENTS:
        o->clients = v;
        break;
    case O_VALUES:
        o->values = v;
        break;
    case O_ROUNDS:
        o->rounds = v;
        break;
    case O_WORDS:
        o->words = v;
        break;
    case O_OUT:
        o->out = optarg;
        break;
    case O_SUM:
        o->sum = true;
        break;
    case O_JSON:
        o->json = true;
        break;
    default:
        break;
    }
    return CLI_DONE;
}

static int secure_sums(const options *o)
{
    const char *schemes[] = { "pad", "paillier", NULL };
    demo_sum d = { .bits = o->bits ? (unsigned)o->bits : 3072,
                   .clients = o->clients ? (unsigned)o->clients : 8,
                   .values = o->values ? (size_t)o->values : 20000,
                   .noise = o->noise ? o->noise : "1" };
    sefl_status st = SEFL_OK;
    if (o->out || o->rounds || o->words || o->json)
        return cli_misuse(&cmd_demo, "--out, --rounds, --words and --json do not go with --sum");
    if (o->scheme)
        schemes[0] = o->scheme, schemes[1] = NULL;
    printf("sefl demo --sum\n");
    SEFL_TRY(self_test(false));
    for (size_t i = 0; schemes[i]; i++) {
        printf("\n");
        d.scheme = schemes[i];
        SEFL_TRY(demo_sum_run(&d));
    }
    printf(
        "\nWho saw what: AS saw encrypted vectors, its own mask and the noisy sums above; CSP saw "
        "sums under\nthat mask and, with pad, who took part; neither saw a vector, the plain sum "
        "or the noise.\n(The plain sum is known here only because this program played all "
        "clients.)\n");
done:
    return st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_demo, st);
}

static int federation(const options *o)
{
    demo_fed d = { .out = o->out ? o->out : "runs/demo",
                   .scheme = o->scheme ? o->scheme : "pad",
                   .noise = o->noise ? o->noise : "0.02",
                   .bits = o->bits ? (unsigned)o->bits : 3072,
                   .clients = o->clients ? (uint32_t)o->clients : 8,
                   .rounds = o->rounds ? o->rounds : 12,
                   .words = o->words ? o->words : 4000,
                   .json = o->json };
    sefl_status st = SEFL_OK;
    if (o->values)
        return cli_misuse(&cmd_demo, "--values goes with --sum");
    if (o->bits && strcmp(d.scheme, "paillier") != 0)
        return cli_misuse(&cmd_demo, "--bits goes with --scheme paillier");
    if (d.clients < 4 || d.clients > DEMO_CLIENTS_MAX)
        return cli_misuse(&cmd_demo, "--clients is 4 to %d, not %u", DEMO_CLIENTS_MAX, d.clients);
    SEFL_TRY(self_test(true));
    SEFL_TRY(demo_fed_run(&d));
done:
    return st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_demo, st) == CLI_DONE ? CLI_DONE : CLI_FAILED;
}

static int run(int argc, char **argv)
{
    options o = { 0 };
    int rc = CLI_DONE, index = 0;
    opterr = 0, optind = 1;
    for (int c; rc == CLI_DONE && (c = getopt_long(argc, argv, ":", longopts, &index)) != -1;)
        rc = c == '?' || c == ':' ? cli_bad_option(&cmd_demo, argc, argv, c, longopts)
                                  : take(&o, c, longopts[index].name);
    if (rc == CLI_DONE && optind < argc)
        rc = cli_misuse(&cmd_demo, "no argument \"%.64s\" is taken", argv[optind]);
    if (rc != CLI_DONE)
        return rc;
    return o.sum ? secure_sums(&o) : federation(&o);
}

#else
static int run(int argc, char **argv)
{
    if (argc > 1)
        return cli_misuse(&cmd_demo, "no argument \"%.64s\" is taken", argv[1]);
    printf("sefl demo\n");
    sefl_status st = self_test(false);
    if (st != SEFL_OK)
        return cli_failed(&cmd_demo, st);
    printf("this build is core only: no encryption, no joint noise, no federation\n");
    return CLI_DONE;
}
#endif

const cli_command cmd_demo = {
    .name = "demo",
    .summary = "show a whole secure federation at work on this machine",
#if SEFL_CORE_ONLY
    .usage = "",
    .details = "",
#else
    .usage = "[--out DIR] [--clients N] [--rounds N] [options]",
    .details = "Makes keys and text, starts CSP, AS and the clients as processes of their own,\n"
               "trains a small LSTM in secure rounds, kills some clients on the way and compares\n"
               "with plain FedAvg.\n"
               "  --out DIR       folder for all of it (runs/demo): empty, or an earlier demo's\n"
               "  --clients N     4 to 64 (8)\n"
               "  --rounds N      2 or more (12)\n"
               "  --words N       text of a client, in tokens (4000)\n"
               "  --scheme NAME   pad (default) or paillier\n"
               "  --noise Z       noise over sensitivity (0.02); from 0.25 on its true epsilon\n"
               "                  is claimed\n"
               "  --bits N        Paillier key: 2048, 3072 (default) or 4096\n"
               "  --json          one JSON object at the end, no other talk\n"
               "\n"
               "  --sum           only one secure sum of random vectors, AS and CSP as two\n"
               "                  threads; with --scheme (both), --clients (8), --noise (1),\n"
               "                  --bits and\n"
               "  --values N      numbers in each vector (20000)",
#endif
    .example = "sefl demo",
    .run = run,
};
