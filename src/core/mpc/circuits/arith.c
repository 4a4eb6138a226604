#include "mpc/circuits/arith.h"

#include "base/alloc.h"

#include <assert.h>

/* maj(a,b,d) = a ^ (a^b)(a^d) */
circ_wire circ_full_add(circ_builder *b, circ_wire *carry, circ_wire x, circ_wire y, circ_wire d)
{
    circ_wire xy = circ_xor(b, x, y);
    if (carry && d == circ_const(b, false))
        *carry = circ_and(b, x, y);
    else if (carry)
        *carry = circ_xor(b, x, circ_and(b, xy, circ_xor(b, x, d)));
    return circ_xor(b, xy, d);
}

/* ---- columns ------------------------------------------------------------------------------ */

enum { COLUMN_MAX = 512 };

typedef struct column {
    circ_wire w[COLUMN_MAX]; /* a queue: nothing is ever moved */
    size_t head, tail;
} column;

struct circ_columns {
    size_t k;
    column col[];
};

sefl_status circ_columns_new(circ_columns **out, size_t k)
{
    *out = NULL;
    SEFL_NEED(k >= 1 && k <= 64, SEFL_EINVAL, "%zu columns: must be 1 to 64", k);
    SEFL_PASS(sefl_new(out, 1, sizeof **out + k * sizeof(column)));
    (*out)->k = k;
    return SEFL_OK;
}

void circ_columns_free(circ_columns *c)
{
    sefl_free(c);
}

void circ_columns_put(circ_columns *c, size_t i, circ_wire w)
{
    assert(i < c->k && c->col[i].tail < COLUMN_MAX);
    c->col[i].w[c->col[i].tail++] = w;
}

void circ_columns_sum(circ_builder *b, circ_columns *c, circ_wire *z)
{
    for (size_t i = 0; i < c->k; i++) {
        column *q = &c->col[i];
        bool top = i + 1 == c->k;
        while (q->tail - q->head >= 3) {
            circ_wire x = q->w[q->head], y = q->w[q->head + 1], d = q->w[q->head + 2], carry;
            q->head += 3;
            circ_columns_put(c, i, circ_full_add(b, top ? NULL : &carry, x, y, d));
            if (!top)
                circ_columns_put(c, i + 1, carry);
        }
        if (q->tail - q->head == 2) {
            circ_wire x = q->w[q->head], y = q->w[q->head + 1];
            if (!top)
                circ_columns_put(c, i + 1, circ_and(b, x, y));
            z[i] = circ_xor(b, x, y);
        } else {
            z[i] = q->tail > q->head ? q->w[q->head] : circ_const(b, false);
        }
        q->head = q->tail = 0;
    }
}
