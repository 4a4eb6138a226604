/* Known answer: with seeded coins every byte both servers send is fixed, on every path of every
 * primitive. The digests were printed by this program
 * (SEFL_PRINT_DIGESTS=1) and pin the wire format:
 * a change of them is a change of the protocol and wants a new hello version.
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
        const char *digest[2];
    } known[] = {
        { 4,
          { "74dbb8096aed2447215aaa8a9a3d5dcd0fe3078295e2b9e25b1fedc45e9acdfb",
            "78225c44f9f3da2b56ef0cc25bfe47206a604e987bb38f6e859075abc5b3c79b" } },
        { 1,
          { "c83aee9f4d2ce4d184ba628292f203f2b61df10a722e774960001cbd247d17bd",
            "23489b812c1c7652cd838f932d3f19a4be05ec1b4e6284927ed0351c2e4f8b1d" } },
    };
    for (size_t x = 0; x < sizeof known / sizeof *known; x++) {
        enum { N = 300 };
        uint64_t mask[N], masked[N];
        int32_t w[N];
        pair_run r = { .seed = 2024, .mask = mask, .masked = masked, .w = w };
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
        for (int side = 0; side < 2; side++) {
            char text[65];
            hex(text, r.digest[side]);
            if (getenv("SEFL_PRINT_DIGESTS"))
                printf("%u %d %s\n", known[x].ot_k, side, text);
            else
                assert_string_equal(text, known[x].digest[side]);
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
