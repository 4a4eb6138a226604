/* Constant-time check of the base layer: valgrind reports any branch or address that depends on
 * memory marked secret. */
#include "base/blake3.h"
#include "base/buf.h"
#include "base/ct.h"
#include "base/sha256.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    uint8_t a[96], b[96], digest[32];
    memset(a, 1, sizeof a);
    memset(b, 2, sizeof b);
    CT_SECRET(a, sizeof a);
    CT_SECRET(b, sizeof b);

    uint64_t x, y;
    memcpy(&x, a, 8);
    memcpy(&y, b, 8);
    uint64_t r = ct_eq_u64(x, y) + ct_is_zero_u64(x);
    r += ct_select_u64(ct_mask_u64(ct_eq_u64(x, y)), x, y);
    uint64_t same = ct_eq_bytes(a, b, sizeof a);
    ct_copy_if(same, a, b, sizeof a);
    ct_swap_if(1 ^ same, a, b, sizeof a);
    sha256_of(digest, span_of(a, sizeof a));
    static uint8_t large[40 * BLAKE3_CHUNK + 7]; /* several at once, one alone, and part of one */
    uint8_t digest3[BLAKE3_BYTES];
    CT_SECRET(large, sizeof large);
    for (unsigned i = 0; blake3_path_name(i); i++) {
        blake3 h;
        blake3_init_path(&h, i);
        blake3_add(&h, span_of(large, sizeof large));
        blake3_end(&h, digest3);
    }

    sefl_buf buf = { 0 }; /* growing and wiping must not look at the bytes */
    for (int i = 0; i < 10; i++)
        if (wr_bytes(&buf, span_of(b, sizeof b)) != SEFL_OK)
            return 1;
    buf_clear(&buf);

    CT_PUBLIC(&r, sizeof r);          /* the test prints it */
    CT_PUBLIC(digest, sizeof digest); /* likewise */
    CT_PUBLIC(digest3, sizeof digest3);
    printf("%llu %02x %02x\n", (unsigned long long)r, digest[0], digest3[0]);
    return 0;
}
