/* Reads a message whose shape the input itself chooses, with every reader, and checks that what
 * was read stays inside the input and that a writer gives the same bytes back. */
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rd r = rd_over(span_of(data, size));
    sefl_buf again = { 0 };
    uint8_t shape;
    while (rd_u8(&r, &shape) == SEFL_OK) {
        const uint8_t *before = r.p;
        size_t left = r.left;
        uint64_t v = 0;
        uint32_t u32 = 0;
        uint16_t u16 = 0;
        sefl_span s = { 0 };
        sefl_status st = SEFL_OK;
        buf_reset(&again);
        switch (shape % 6) {
        case 0:
            if ((st = rd_u16(&r, &u16)) == SEFL_OK)
                must(wr_u16(&again, u16) == SEFL_OK);
            break;
        case 1:
            if ((st = rd_u32(&r, &u32)) == SEFL_OK)
                must(wr_u32(&again, u32) == SEFL_OK);
            break;
        case 2:
            if ((st = rd_u64(&r, &v)) == SEFL_OK)
                must(wr_u64(&again, v) == SEFL_OK);
            break;
        case 3:
            if ((st = rd_varint(&r, &v)) == SEFL_OK)
                must(wr_varint(&again, v) == SEFL_OK);
            break;
        case 4:
            if ((st = rd_bytes(&r, &s, shape)) == SEFL_OK) {
                must(s.n <= shape);
                must(wr_bytes(&again, s) == SEFL_OK);
            }
            break;
        default:
            if ((st = rd_view(&r, &s, shape)) == SEFL_OK)
                must(wr_raw(&again, s.p, s.n) == SEFL_OK);
        }
        if (st != SEFL_OK) { /* nothing was consumed */
            must(r.p == before && r.left == left);
            break;
        }
        must((size_t)(r.p - before) == again.n && left - r.left == again.n);
        must(again.n == 0 || memcmp(before, again.p, again.n) == 0); /* one value, one encoding */
    }
    buf_clear(&again);
    return 0;
}
