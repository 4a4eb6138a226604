/* Any text as a trust list, with a corrected last line: an accepted list prints as the same
 * bytes. */
#include "base/sha256.h"
#include "support/must.h"
#include "trust/trust.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sefl_buf text = { 0 }, again = { 0 };
    uint8_t hash[SHA256_BYTES];
    trust *t;
    MUST(wr_raw(&text, data, size) == SEFL_OK);
    sha256_of(hash, buf_span(&text));
    MUST(wr_fmt(&text, "end ") == SEFL_OK);
    for (size_t i = 0; i < sizeof hash; i++)
        MUST(wr_fmt(&text, "%02x", hash[i]) == SEFL_OK);
    MUST(wr_fmt(&text, "\n") == SEFL_OK);
    if (trust_parse(&t, buf_span(&text)) == SEFL_OK) {
        MUST(trust_print(&again, t) == SEFL_OK);
        MUST(again.n == text.n && memcmp(again.p, text.p, text.n) == 0);
        for (size_t i = 0; i < t->members; i++)
            MUST(trust_find(t, t->member[i].key) == &t->member[i]);
        for (size_t i = 0; i < t->tokens; i++)
            MUST(trust_find_token(t, t->token[i].id) == &t->token[i]);
        trust_free(t);
    }
    if (trust_parse(&t, span_of(data, size)) == SEFL_OK)
        trust_free(t);
    buf_clear(&text);
    buf_clear(&again);
    return 0;
}
