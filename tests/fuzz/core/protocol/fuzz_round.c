/* What a client reads about a round, and the fixed layouts that are signed; the first byte selects
 * one. */
#include "protocol/participant.h"
#include "protocol/round.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

static void try_news(sefl_span in)
{
    sefl_buf scratch = { 0 }, json = { 0 }, scratch2 = { 0 };
    round_news n, again;
    sefl_status st = round_news_read(&n, &scratch, in);
    must(st == SEFL_OK || st == SEFL_EPROTO);
    if (st == SEFL_OK) {
        must(n.state <= ROUND_OVER && strlen(n.why) < sizeof n.why);
        must((n.header.n > 0) == (n.state == ROUND_OPEN || n.state == ROUND_OVER));
        must(round_news_write(&json, &n) == SEFL_OK);
        must(round_news_read(&again, &scratch2, buf_span(&json)) == SEFL_OK);
        must(again.state == n.state && again.round == n.round && again.left_ms == n.left_ms);
        must(again.header.n == n.header.n && strcmp(again.why, n.why) == 0);
        must(n.header.n == 0 || memcmp(again.header.p, n.header.p, n.header.n) == 0);
    } else {
        must(scratch.n == 0);
    }
    buf_clear(&scratch);
    buf_clear(&scratch2);
    buf_clear(&json);
}

/* read, write: the functions by name, so that one finds them here; zero: a round 0 is read */
#define TRY_LAYOUT(type, read, write, bytes, zero)                                               \
    do {                                                                                         \
        type v;                                                                                  \
        uint8_t out[bytes];                                                                      \
        sefl_status st = (read)(&v, in);                                                         \
        must(st == SEFL_OK || st == SEFL_EPROTO);                                                \
        if (st == SEFL_OK) {                                                                     \
            (write)(out, &v);                                                                    \
            must(in.n <= sizeof out && memcmp(out, in.p, in.n) == 0 && (v.round > 0 || (zero))); \
        }                                                                                        \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    sefl_span in = span_of(data + 1, size - 1);
    switch (data[0] % 5) {
    case 0:
        try_news(in);
        break;
    case 1:
        TRY_LAYOUT(round_header, round_header_read, round_header_write, HEADER_MAX, false);
        break;
    case 2:
        TRY_LAYOUT(round_receipt, round_receipt_read, round_receipt_write, RECEIPT_BYTES, false);
        break;
    case 3:
        TRY_LAYOUT(round_statement, round_statement_read, round_statement_write, STATEMENT_MAX,
                   false);
        break;
    default:
        TRY_LAYOUT(round_end, round_end_read, round_end_write, END_BYTES, true);
        break;
    }
    return 0;
}
