/* Rows of numbers packed without gaps: every width, length and path against the definition, bit by bit. */
#include "crypto/ahe/rowbits.h"
#include "support/check.h"

#include <stdlib.h>

static uint64_t low(unsigned bits)
{
    return ((uint64_t)1 << bits) - 1;
}

static void rows(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "rows");
    for (unsigned bits = ROWBITS_MIN; bits <= ROWBITS_MAX; bits++)
        for (size_t n = 8; n <= 64; n += 8)
            for (unsigned path = 0; path < ROWBITS_PATHS; path++) {
                if (!rowbits_path_has(path))
                    continue;
                rowbits b;
                uint64_t in[64], out[64], sum[64];
                uint8_t *row =
                    malloc(n / 8 * bits); /* exact size, so that a sanitizer detects an overrun */
                uint8_t plain[64 * 8] = { 0 };
                assert_non_null(row);
                rowbits_init(&b, bits, path);
                assert_int_equal(rowbits_bytes(&b, n), n * bits / 8);
                for (size_t i = 0; i < n; i++) {
                    in[i] = seeded_u64(&gen);
                    sum[i] = seeded_u64(&gen);
                    for (unsigned j = 0; j < bits; j++) { /* the definition, bit by bit */
                        uint64_t bit = in[i] >> j & 1;
                        plain[(i * bits + j) / 8] |= (uint8_t)(bit << (i * bits + j) % 8);
                    }
                }
                rowbits_pack(&b, row, in, n);
                assert_memory_equal(row, plain, n * bits / 8);
                rowbits_unpack(&b, out, row, n);
                for (size_t i = 0; i < n; i++) {
                    assert_true(out[i] == (in[i] & low(bits)));
                    out[i] = sum[i];
                }
                rowbits_add(&b, out, row, n);
                for (size_t i = 0; i < n; i++)
                    assert_true(out[i] == sum[i] + (in[i] & low(bits)));
                free(row);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
