/* Any bytes as the file that a trainer gives back: refused with a reason, or every trained value is
 * finite, the others are untouched, and the weight is in its range. */
#include "model/file/exchange.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

/* The layout of tests/unit/learn/test_exchange.c: w 2 x 3, b 2 values, not trained, s one
 * number. */
static const layout *toy(void)
{
    static layout l;
    if (l.n == 0)
        must(layout_add(&l, "w", 2, (uint32_t[]){ 2, 3 }, 1) == SEFL_OK &&
             layout_add(&l, "b", 1, (uint32_t[]){ 2 }, 1) == SEFL_OK &&
             layout_add(&l, "s", 0, NULL, 1) == SEFL_OK && layout_only(&l, "w,s") == SEFL_OK);
    return &l;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { VALUES = 9 };
    float dense[VALUES];
    uint64_t weight = 0;
    tensors *t = NULL;
    if (tensors_over(&t, span_of(data, size), "fuzz") != SEFL_OK)
        return 0;
    for (int i = 0; i < VALUES; i++)
        dense[i] = 0.5F;
    sefl_status st = exchange_read(t, toy(), dense, &weight);
    must(dense[6] == 0.5F && dense[7] == 0.5F);
    must(weight <= UINT64_C(1) << 53);
    if (st == SEFL_OK)
        for (int i = 0; i < VALUES; i++)
            must(isfinite(dense[i]));
    else
        must(st == SEFL_EPROTO && weight == 0 && *sefl_last_error());
    tensors_close(t);
    return 0;
}
