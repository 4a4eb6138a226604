/* Any bytes as a head or a sequence of heads: a head that is read points into the input, and no
 * foreign head has a valid signature. Signatures are toys; crypto.seal covers the seal. The first
 * byte selects the suite. */
#include "fuzz/toy_sign.h"
#include "protocol/head.h"
#include "support/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t task[32] = { 1 }, key[SIGN_PUB_BYTES] = { 2 };
    uint8_t prefix[HEAD_PREFIX];
    head h;
    if (size == 0)
        return 0;
    const seal_suite *s = seal_suite_named(data[0] & 1 ? "xwing" : "x25519");
    sefl_span in = span_of(data + 1, size - 1);
    if (head_read(&h, s, in) == SEFL_OK) {
        MUST(h.suite == s && in.n == head_bytes(s));
        MUST(h.bytes.p == in.p && h.bytes.n == in.n);
        MUST(head_check(&h, task, 1, key) == SEFL_EAUTH);
    }
    rd r = rd_over(in);
    while (rd_left(&r) > 0) {
        size_t before = rd_left(&r);
        if (head_next(&h, s, &r) != SEFL_OK) {
            MUST(rd_left(&r) == before);
            break;
        }
        MUST(before - rd_left(&r) == h.bytes.n);
        MUST(h.bytes.n == (h.suite ? head_bytes(s) : HEAD_PREFIX));
        head_short(prefix, h.client, h.units);
        MUST(memcmp(prefix + 8, h.bytes.p + 8, sizeof prefix - 8) == 0);
    }
    return 0;
}
