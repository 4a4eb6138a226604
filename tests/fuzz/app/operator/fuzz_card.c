/* Any bytes as a card, and any bytes after a card's first line: an accepted card is written as
 * exactly the bytes that were read. */
#include "operator/card.h"
#include "support/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(sefl_span bytes)
{
    card c;
    sefl_buf again = { 0 };
    if (card_parse(&c, bytes) != SEFL_OK)
        return;
    MUST(c.role == TRUST_AGGREGATOR || c.role == TRUST_CSP);
    MUST(address_is_host(c.at.host) && c.at.port > 0);
    MUST(*c.name && *c.population && c.ca.n > 0 && c.ca.p + c.ca.n == bytes.p + bytes.n);
    MUST(card_write(&again, &c) == SEFL_OK);
    MUST(again.n == bytes.n && memcmp(again.p, bytes.p, again.n) == 0);
    buf_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sefl_buf b = { 0 };
    check(span_of(data, size));
    if (wr_fmt(&b, "sefl card 1\n") == SEFL_OK && wr_raw(&b, data, size) == SEFL_OK)
        check(buf_span(&b));
    buf_clear(&b);
    return 0;
}
