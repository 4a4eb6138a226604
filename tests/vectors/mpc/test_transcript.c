/* Known answer: with seeded coins every byte both servers send is fixed, on every path of every
 * primitive, and so are v' and the result. The digests were printed by this program
 * (SEFL_PRINT_DIGESTS=1). Those of the bytes pin the wire format: a change of them is a change of
 * the protocol and wants a new hello version. Those of v' and w pin what never travels: AS's
 * rounding and jumps.
 *
 * Run without arguments the program runs itself again with SEFL_CPU narrowed, so that the portable
 * and the AVX2 paths must give the same bytes. */
#include "unit/mpc/noise_pair.h"

#include "base/cpu.h"

static void hex(char out[65], const uint8_t d[SHA256_BYTES])
{
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", d[i]);
}

static void transcript_is_known(void **state)
{
    (void)state;
    static const struct {
        unsigned ot_k;
        const char *digest[4]; /* bytes of AS, bytes of CSP, v', w */
    } known[] = {
        { 4,
          { "6cc75d6fd8ed7931d5488c3091dfbbfe642d26f173ef63b91dd0d761d60e8dac",
            "a032a4eb3ff562f75b8dad27dae5c45b58ad572808f3592bf035885a56498965",
            "c0d69e1c63791e3a666090852068e3959256df3f92ae6b8300fbe9a0f9e84399",
            "fce979ff9a41ca766da391bf331b3443b900b4f58b5f7cbf7e65798c02ab81fb" } },
        { 1,
          { "eb0a80372ba6cb9034f74ff8de25bb89d861199c7040bfc54bfdfeea4eebfcb6",
            "85c0e20d9e6fb7aa9bd32f8fd63a8374181a5a1a022f488f88043b32f7c66819",
            "c0d69e1c63791e3a666090852068e3959256df3f92ae6b8300fbe9a0f9e84399",
            "383a9552e9bcad6aaf55ebbe71700507ee2ce5b800354d80e107cc8a95c75f69" } },
    };
    for (size_t x = 0; x < sizeof known / sizeof *known; x++) {
        enum { N = 300 };
        uint64_t mask[N], masked[N];
        int32_t w[N];
        uint32_t v[N];
        pair_run r = { .seed = 2024, .mask = mask, .masked = masked, .w = w, .v = v };
        for (size_t i = 0; i < N; i++) {
            mask[i] = i * 0x9e3779b97f4a7c15u >> 20;
            masked[i] = (mask[i] + ((uint64_t)i << 28)) & (((uint64_t)1 << 44) - 1);
        }
        r.p = (noise_params){ .task = { 1, 2, 3 },
                              .round = 12,
                              .attempt = 1,
                              .count = N,
                              .k = 16,
                              .t = 12,
                              .g = 16,
                              .chunk = 128,
                              .ot_k = known[x].ot_k };
        CHECK_OK(pair_go(&r));
        uint8_t digest[4][SHA256_BYTES], raw[2][4 * N];
        memcpy(digest, r.digest, sizeof r.digest);
        for (size_t i = 0; i < N; i++) {
            store_u32(raw[0] + 4 * i, v[i]);
            store_u32(raw[1] + 4 * i, (uint32_t)w[i]);
        }
        sha256_of(digest[2], span_of(raw[0], sizeof raw[0]));
        sha256_of(digest[3], span_of(raw[1], sizeof raw[1]));
        for (int d = 0; d < 4; d++) {
            char text[65];
            hex(text, digest[d]);
            if (getenv("SEFL_PRINT_DIGESTS"))
                printf("%u %d %s\n", known[x].ot_k, d, text);
            else
                assert_string_equal(text, known[x].digest[d]);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(transcript_is_known) };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    if (argc > 1)
        return rc;
    static const char *const narrow[] = { "portable", "aes,avx2,pclmul" };
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow && rc == 0; i++) {
        char line[4200];
        snprintf(line, sizeof line, "SEFL_CPU=%s '%s' again", narrow[i], argv[0]);
        rc = system(line) == 0 ? 0 : 1;
    }
    return rc;
}
