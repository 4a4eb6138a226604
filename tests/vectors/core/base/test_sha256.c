/* Known answers of FIPS 180-4 / NIST's example values; and the fast path against the plain one. */
#include "support/check.h"

#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

static void check_hex(const uint8_t *digest, const char *hex)
{
    char got[65];
    for (int i = 0; i < 32; i++)
        snprintf(got + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(got, hex);
}

static void nist_examples(void **state)
{
    (void)state;
    static const struct {
        const char *in, *hex;
    } cases[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
          "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
          "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t d[32];
        sha256_of(d, span_of_str(cases[i].in));
        check_hex(d, cases[i].hex);
    }
}

static void a_million_a(void **state)
{
    (void)state;
    uint8_t piece[1000], d[32];
    sha256 h;
    memset(piece, 'a', sizeof piece);
    sha256_init(&h);
    for (int i = 0; i < 1000; i++)
        sha256_add(&h, span_of(piece, sizeof piece));
    sha256_end(&h, d);
    check_hex(d, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Every length up to four blocks, split at every position: the same answer. */
static void any_split_gives_the_same(void **state)
{
    (void)state;
    uint8_t in[256], whole[32], parts[32];
    for (int i = 0; i < 256; i++)
        in[i] = (uint8_t)(i * 7 + 3);
    for (size_t n = 0; n <= 256; n++) {
        sha256_of(whole, span_of(in, n));
        for (size_t cut = 0; cut <= n; cut += 1 + n / 16) {
            sha256 h;
            sha256_init(&h);
            sha256_add(&h, span_of(in, cut));
            sha256_add(&h, span_of(NULL, 0));
            sha256_add(&h, span_of(in + cut, n - cut));
            sha256_end(&h, parts);
            assert_memory_equal(whole, parts, 32);
        }
    }
}

static void fast_path_equals_plain(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "sha256");
    uint8_t in[64 * 9];
    for (int i = 0; i < 500; i++) {
        uint32_t a[8], b[8];
        size_t blocks = seeded_below(&g, 10);
        seeded_fill(&g, in, sizeof in);
        seeded_fill(&g, a, sizeof a);
        memcpy(b, a, sizeof a);
        sha256_blocks(a, in, blocks);
        sha256_blocks_ref(b, in, blocks);
        assert_memory_equal(a, b, sizeof a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nist_examples),
        cmocka_unit_test(a_million_a),
        cmocka_unit_test(any_split_gives_the_same),
        cmocka_unit_test(fast_path_equals_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
