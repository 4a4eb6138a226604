/* The demo grows with the program. For now: the self-test of the base layer on this machine. */
#include "cli/cli.h"

#include "base/buf.h"
#include "base/ct.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/sha256.h"

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

static int run(int argc, char **argv)
{
    static const struct {
        const char *name;
        sefl_status (*fn)(void);
    } steps[] = {
        { "SHA-256 against its vector and its plain version", test_sha256 },
        { "system randomness", test_random },
        { "bounded message readers", test_readers },
        { "thread pool", test_threads },
    };
    if (argc > 1)
        return cli_misuse(&cmd_demo, "no argument \"%.64s\" is taken", argv[1]);
    printf("sefl demo: self-test of the base layer\n");
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        sefl_status st = steps[i].fn();
        printf("  %-52s %s\n", steps[i].name, st == SEFL_OK ? "ok" : "FAILED");
        if (st != SEFL_OK) {
            cli_failed(&cmd_demo, st);
            return CLI_FAILED;
        }
    }
    printf("not there yet: encryption, joint noise, training, the federation itself\n");
    return CLI_DONE;
}

const cli_command cmd_demo = {
    .name = "demo",
    .summary = "show what works on this machine, end to end",
    .usage = "",
    .details = "",
    .example = "sefl demo",
    .run = run,
};
