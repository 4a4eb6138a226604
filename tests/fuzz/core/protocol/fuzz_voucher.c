/* Any bytes as a voucher: what is read is written as the same bytes. */
#include "base/sha256.h"
#include "protocol/voucher.h"
#include "support/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sefl_buf b = { 0 };
    voucher v;
    if (size >= 144) { /* mutations rarely hit a hash, so the name is derived from the key */
        uint8_t copy[4096];
        size_t n = load_u32(data + 140) & 0xffff;
        if (size <= sizeof copy && n <= size - 142) {
            memcpy(copy, data, size);
            sha256_of(copy + 4, span_of(copy + 142, n));
            if (voucher_read(&v, span_of(copy, size)) == SEFL_OK) {
                MUST(v.spki.n == n && v.serial > 0);
                MUST(voucher_write(&b, &v) == SEFL_OK);
                MUST(b.n == size && memcmp(b.p, copy, size) == 0);
                buf_reset(&b);
                MUST(voucher_to_sign(&b, &v) == SEFL_OK && b.n < size + 16);
            }
        }
    }
    buf_reset(&b);
    if (voucher_read(&v, span_of(data, size)) == SEFL_OK) {
        MUST(voucher_write(&b, &v) == SEFL_OK);
        MUST(b.n == size && memcmp(b.p, data, size) == 0);
    }
    buf_clear(&b);
    return 0;
}
