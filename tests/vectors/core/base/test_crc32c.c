/* CRC-32C: the check value of the catalogue of CRCs, and the vectors of RFC 3720 (iSCSI), B.4. */
#include "support/check.h"

#include "base/crc32c.h"

#include <string.h>

static void known(void **state)
{
    (void)state;
    uint8_t b[32] = { 0 };
    assert_int_equal(crc32c(span_of("", 0)), 0);
    assert_int_equal(crc32c(span_of("123456789", 9)), 0xe3069283u);
    assert_int_equal(crc32c(span_of(b, sizeof b)),
                     0x8a9136aau); /* bytes on the wire: aa 36 91 8a */
    memset(b, 0xff, sizeof b);
    assert_int_equal(crc32c(span_of(b, sizeof b)), 0x62a8ab43u);
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (uint8_t)i;
    assert_int_equal(crc32c(span_of(b, sizeof b)), 0x46dd794eu);
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (uint8_t)(31 - i);
    assert_int_equal(crc32c(span_of(b, sizeof b)), 0x113fdb5cu);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(known) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
