/* Known answers; every implementation for this processor against the definition, in any pieces. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/blake3.h"

#include "blake3.h"

#include <string.h>

enum { MANY = 5 << 20 };

static void check_hex(const uint8_t *digest, const char *hex)
{
    char got[65];
    for (int i = 0; i < 32; i++)
        snprintf(got + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(got, hex);
}

static void hash_by(unsigned path, uint8_t out[BLAKE3_BYTES], sefl_span in)
{
    blake3 h;
    blake3_init_path(&h, path);
    blake3_add(&h, in);
    blake3_end(&h, out);
}

static void known_answers(void **state)
{
    (void)state;
    uint8_t *in, d[BLAKE3_BYTES];
    CHECK_OK(sefl_new(&in, MANY, 1));
    for (size_t i = 0; i < MANY; i++)
        in[i] = (uint8_t)(i % 251);
    for (size_t i = 0; i < sizeof blake3_known / sizeof blake3_known[0]; i++) {
        sefl_span s = span_of(in, blake3_known[i].n);
        blake3_of_ref(d, s);
        check_hex(d, blake3_known[i].hex);
        blake3_of(d, s);
        check_hex(d, blake3_known[i].hex);
        for (unsigned k = 0; blake3_path_name(k); k++) {
            hash_by(k, d, s);
            check_hex(d, blake3_known[i].hex);
        }
    }
    sefl_free(in);
}

/* One byte around every chunk boundary, until each level of the tree has been full. */
static void lengths_around_chunks(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "blake3 lengths");
    uint8_t *in, want[BLAKE3_BYTES], got[BLAKE3_BYTES];
    CHECK_OK(sefl_new(&in, MANY, 1));
    seeded_fill(&g, in, MANY);
    for (size_t chunks = 0; chunks <= MANY / BLAKE3_CHUNK;
         chunks += chunks < 70 ? 1 : 1 + seeded_below(&g, 1600))
        for (int off = -1; off <= 1; off++) {
            if ((chunks == 0 && off < 0) || (chunks == MANY / BLAKE3_CHUNK && off > 0))
                continue;
            sefl_span s = span_of(in, chunks * BLAKE3_CHUNK + (size_t)off);
            blake3_of_ref(want, s);
            for (unsigned k = 0; blake3_path_name(k); k++) {
                hash_by(k, got, s);
                assert_memory_equal(want, got, sizeof want);
            }
        }
    sefl_free(in);
}

static void any_pieces_give_the_same(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "blake3 pieces");
    static const size_t sizes[] = { 3, 64, 1024, 1025, 5000, 16384, 70000, 300000 };
    uint8_t *in, want[BLAKE3_BYTES], got[BLAKE3_BYTES];
    CHECK_OK(sefl_new(&in, MANY, 1));
    seeded_fill(&g, in, MANY);
    for (unsigned long i = 0; i < test_count(24, 3000); i++) {
        size_t n = seeded_below(&g, i % 4 == 0 ? MANY + 1 : i % 4 == 1 ? 3000 : 100000);
        size_t most = sizes[seeded_below(&g, sizeof sizes / sizeof sizes[0])];
        if (n / most > 100000)
            most = 64;
        blake3_of_ref(want, span_of(in, n));
        for (unsigned k = 0; blake3_path_name(k); k++) {
            blake3 h;
            blake3_init_path(&h, k);
            for (size_t at = 0; at < n;) {
                size_t piece = 1 + seeded_below(&g, most);
                piece = piece < n - at ? piece : n - at;
                blake3_add(&h, span_of(in + at, piece));
                blake3_add(&h, span_of(NULL, 0));
                at += piece;
            }
            blake3_end(&h, got);
            assert_memory_equal(want, got, sizeof want);
        }
    }
    sefl_free(in);
}

/* Every byte of a long input counts. */
static void one_bit_changes_it(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "blake3 bits");
    static uint8_t in[200000];
    uint8_t first[BLAKE3_BYTES], other[BLAKE3_BYTES];
    seeded_fill(&g, in, sizeof in);
    blake3_of(first, span_of(in, sizeof in));
    for (int i = 0; i < 200; i++) {
        size_t at = seeded_below(&g, sizeof in);
        in[at] ^= (uint8_t)(1u << seeded_below(&g, 8));
        blake3_of(other, span_of(in, sizeof in));
        assert_memory_not_equal(first, other, sizeof first);
        memcpy(first, other, sizeof first);
    }
}

static void state_is_wiped(void **state)
{
    (void)state;
    static const uint8_t in[3000] = { 1 };
    blake3 h;
    uint8_t d[BLAKE3_BYTES];
    blake3_init(&h);
    blake3_add(&h, span_of(in, sizeof in));
    blake3_end(&h, d);
    for (size_t i = 0; i < sizeof h; i++)
        assert_int_equal(((const uint8_t *)&h)[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(lengths_around_chunks),
        cmocka_unit_test(any_pieces_give_the_same),
        cmocka_unit_test(one_bit_changes_it),
        cmocka_unit_test(state_is_wiped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
