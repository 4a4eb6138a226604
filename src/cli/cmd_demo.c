/* The demo grows with the program: a self-test of the base layer on this machine, then one secure
 * sum under each encryption scheme (not in a core-only build, which has none). */
#include "cli/cli.h"
#if !SEFL_CORE_ONLY
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

static sefl_status self_test(void)
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
    printf(
        "self-test of the base layer: SHA-256, system randomness, message readers, threads: ok\n");
    return SEFL_OK;
}

#if !SEFL_CORE_ONLY
static int secure_sums(int argc, char **argv)
{
    static const struct option longopts[] = {
        { "scheme", required_argument, NULL, 's' },  { "bits", required_argument, NULL, 'b' },
        { "clients", required_argument, NULL, 'c' }, { "values", required_argument, NULL, 'n' },
        { "noise", required_argument, NULL, 'z' },   { 0 },
    };
    demo_sum d = { .bits = 3072, .clients = 8, .values = 20000, .noise = "1" };
    const char *schemes[] = { "lwe", "paillier", NULL };
    unsigned long long v;
    pack_nano z;
    sefl_status st = SEFL_OK;
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":", longopts, NULL)) != -1;) {
        switch (c) {
        case 's':
            schemes[0] = optarg;
            schemes[1] = NULL;
            if (!(strcmp(optarg, "lwe") == 0 || strcmp(optarg, "paillier") == 0))
                return cli_misuse(&cmd_demo, "--scheme is lwe or paillier, not \"%.32s\"", optarg);
            break;
        case 'b':
            if (!(cli_parse_u64(optarg, 1, 65536, &v) && paillier_bits_ok((unsigned)v)))
                return cli_misuse(&cmd_demo, "--bits is 2048, 3072 or 4096, not \"%.32s\"", optarg);
            d.bits = (unsigned)v;
            break;
        case 'c':
            if (!cli_parse_u64(optarg, 1, 1000, &v))
                return cli_misuse(&cmd_demo, "--clients is 1 to 1000, not \"%.32s\"", optarg);
            d.clients = (unsigned)v;
            break;
        case 'n':
            if (!cli_parse_u64(optarg, 1, 20000000, &v))
                return cli_misuse(&cmd_demo, "--values is 1 to 20000000, not \"%.32s\"", optarg);
            d.values = (size_t)v;
            break;
        case 'z':
            if (pack_decimal(&z, optarg) != SEFL_OK || z == 0)
                return cli_misuse(&cmd_demo, "--noise is a decimal number above 0, not \"%.32s\"",
                                  optarg);
            d.noise = optarg;
            break;
        default:
            return cli_bad_option(&cmd_demo, argc, argv, c, longopts);
        }
    }
    if (optind < argc)
        return cli_misuse(&cmd_demo, "no argument \"%.64s\" is taken", argv[optind]);
    printf("sefl demo\n");
    SEFL_TRY(self_test());
    for (size_t i = 0; schemes[i]; i++) {
        printf("\n");
        d.scheme = schemes[i];
        SEFL_TRY(demo_sum_run(&d));
    }
    printf(
        "\nWho saw what: AS saw ciphertexts, its own mask and the noisy sums above; CSP saw sums "
        "under that\nmask; neither saw a vector, the plain sum or the noise. (The plain sum is "
        "known here only because\nthis program played all clients.)\n"
        "not there yet: the federation itself (sefl train trains on one machine)\n");
done:
    return st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_demo, st);
}
#endif

static int run(int argc, char **argv)
{
#if SEFL_CORE_ONLY
    if (argc > 1)
        return cli_misuse(&cmd_demo, "no argument \"%.64s\" is taken", argv[1]);
    printf("sefl demo\n");
    sefl_status st = self_test();
    if (st != SEFL_OK)
        return cli_failed(&cmd_demo, st);
    printf("this build is core only: no encryption, no joint noise\n");
    return CLI_DONE;
#else
    return secure_sums(argc, argv);
#endif
}

const cli_command cmd_demo = {
    .name = "demo",
    .summary = "show what works on this machine, end to end",
    .usage =
        SEFL_CORE_ONLY ? "" : "[--scheme NAME] [--clients N] [--values N] [--noise Z] [--bits N]",
    .details = SEFL_CORE_ONLY
                   ? ""
                   : "A secure sum of random vectors: AS and CSP as two processes over loopback, "
                     "full-size keys.\n"
                     "  --scheme NAME   lwe or paillier (default: one after the other)\n"
                     "  --clients N     how many vectors (default 8)\n"
                     "  --values N      numbers in each (default 20000)\n"
                     "  --noise Z       noise over sensitivity (default 1)\n"
                     "  --bits N        Paillier key: 2048, 3072 or 4096 (default 3072)",
    .example = "sefl demo",
    .run = run,
};
