#include "support/check.h"

#include <string.h>

/* RFC 8439 section 2.3.2: key 00..1f, counter 1, nonce 000000090000004a00000000. The RFC's 32-bit
 * counter and 96-bit nonce are our 64-bit counter (low word 1, high word 0x09000000) and nonce. */
static void rfc8439_block(void **state)
{
    (void)state;
    static const uint8_t want[64] = { 0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f,
                                      0xdd, 0x1f, 0xa3, 0x20, 0x71, 0xc4, 0xc7, 0xd1, 0xf4, 0xc7,
                                      0x33, 0xc0, 0x68, 0x03, 0x04, 0x22, 0xaa, 0x9a, 0xc3, 0xd4,
                                      0x6c, 0x4e, 0xd2, 0x82, 0x64, 0x46, 0x07, 0x9f, 0xaa, 0x09,
                                      0x14, 0xc2, 0xd7, 0x05, 0xd9, 0x8b, 0x02, 0xa2, 0xb5, 0x12,
                                      0x9c, 0xd1, 0xde, 0x16, 0x4e, 0xb9, 0xcb, 0xd0, 0x83, 0xe8,
                                      0xa2, 0x50, 0x3c, 0x4e };
    uint32_t key[8];
    uint8_t bytes[32], got[64];
    const uint32_t nonce[2] = { 0x4a000000, 0 };
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    for (int i = 0; i < 8; i++)
        key[i] = load_u32(bytes + 4 * i);
    seeded_chacha20_block(got, key, 1 | (uint64_t)0x09000000 << 32, nonce);
    assert_memory_equal(got, want, 64);
}

static void same_seed_same_coins(void **state)
{
    (void)state;
    seeded a, b;
    uint8_t x[1000], y[1000];
    seeded_init(&a, 42, "dropout");
    seeded_init(&b, 42, "dropout");
    seeded_fill(&a, x, sizeof x);
    for (size_t i = 0; i < sizeof y; i += 50)
        seeded_fill(&b, y + i, 50); /* splitting makes no difference */
    assert_memory_equal(x, y, sizeof x);
    seeded_init(&b, 42, "init");
    seeded_fill(&b, y, sizeof y);
    assert_memory_not_equal(x, y, sizeof x);
    seeded_init(&b, 43, "dropout");
    seeded_fill(&b, y, sizeof y);
    assert_memory_not_equal(x, y, sizeof x);
}

/* Long pieces use eight blocks at a time: the same bytes, even where the counter's low word
 * overflows. */
static void long_pieces(void **state)
{
    (void)state;
    static uint8_t x[5000], y[5000];
    for (size_t skip = 0; skip < 130; skip += 13) {
        seeded a, b;
        seeded_init(&a, 7, "long");
        a.counter = UINT32_MAX - 20;
        b = a;
        seeded_fill(&a, x, skip);
        seeded_fill(&b, y, skip);
        seeded_fill(&a, x, sizeof x);
        for (size_t i = 0; i < sizeof y; i += 100)
            seeded_fill(&b, y + i, 100);
        assert_memory_equal(x, y, sizeof x);
        assert_int_equal(seeded_u64(&a), seeded_u64(&b));
    }
}

/* Pinned (computed once with Python integers): a change of these values changes every recorded
 * experiment. */
static void pinned_stream(void **state)
{
    (void)state;
    seeded g;
    seeded_init(&g, 1, "pinned");
    uint64_t first = seeded_u64(&g), second = seeded_u64(&g);
    assert_true(first == 0xc672e2abaf148b3cu && second == 0xf2f90f5815efd59cu);
}

/* A piece is ChaCha20 with the generator's key and the piece's number as its nonce. */
static void pieces(void **state)
{
    (void)state;
    static const uint64_t number[] = { 1, 2, UINT64_C(0x100000001) };
    seeded g, piece;
    uint8_t got[1000], want[1000];
    test_seed(&g, "pieces");
    (void)seeded_u64(&g); /* the generator's position does not matter */
    for (int i = 0; i < 3; i++) {
        const uint32_t nonce[2] = { (uint32_t)number[i], (uint32_t)(number[i] >> 32) };
        seeded_piece(&piece, &g, number[i]);
        seeded_fill(&piece, got, 7);
        seeded_fill(&piece, got + 7, sizeof got - 7);
        seeded_at(want, sizeof want, g.key, nonce, 0);
        assert_memory_equal(got, want, sizeof got);
    }
}

static void ranges(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "ranges");
    double sum = 0;
    for (int i = 0; i < 10000; i++) {
        double u = seeded_unit(&g);
        assert_true(u >= 0 && u < 1);
        sum += u;
        assert_true(seeded_below(&g, 3) < 3);
    }
    assert_true(sum > 4800 && sum < 5200); /* seven deviations */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc8439_block), cmocka_unit_test(same_seed_same_coins),
        cmocka_unit_test(long_pieces),   cmocka_unit_test(pinned_stream),
        cmocka_unit_test(pieces),        cmocka_unit_test(ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
