/* Any text as a token, and any bytes encoded as a token: an accepted token prints as one that reads
 * back the same. */
#include "base/sha256.h"
#include "support/must.h"
#include "trust/token.h"

#include <sodium.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(sefl_span text)
{
    token a, b;
    sefl_buf s = { 0 };
    if (token_parse(&a, text) != SEFL_OK)
        return;
    MUST(trust_name_ok(a.name));
    MUST(token_print(&s, &a) == SEFL_OK);
    MUST(token_parse(&b, buf_span(&s)) == SEFL_OK);
    MUST(memcmp(&a, &b, sizeof a) == 0);
    buf_clear(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t raw[512], hash[SHA256_BYTES];
    char text[1024] = "sefl-token-1.";
    size_t n = size < 300 ? size : 300, mark = strlen(text);
    check(span_of(data, size));
    memcpy(raw, data, n);
    sha256_of(hash, span_of(raw, n));
    memcpy(raw + n, hash, 4);
    sodium_bin2base64(text + mark, sizeof text - mark, raw, n + 4,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    check(span_of_str(text));
    return 0;
}
