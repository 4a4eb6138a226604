/* arith: builds circuits that add bits.
 *
 * Costs are numbers of ANDs, for inputs that are not constant.   Threads: as for the builder. */
#ifndef MPC_CIRCUITS_ARITH_H
#define MPC_CIRCUITS_ARITH_H

#include "mpc/circuits/circuit.h"

/* Adds three bits of one weight: returns the sum bit and sets *carry unless it is NULL. Cost: 1. */
circ_wire circ_full_add(circ_builder *b, circ_wire *carry, circ_wire x, circ_wire y, circ_wire d);

/* The bits to be added, by weight: column c holds bits of weight 2^c. */
typedef struct circ_columns circ_columns;

sefl_status circ_columns_new(circ_columns **out, size_t k) SEFL_MUST_CHECK;
void circ_columns_free(circ_columns *c);

/* Appends a bit of weight 2^column, column < k; at most 128 bits in one column. */
void circ_columns_put(circ_columns *c, size_t column, circ_wire w);

/* Sets z[0..k-1] to the sum of all bits mod 2^k by carry-save reduction, column by column. While a
 * column has three bits or more, its first three become a sum bit at its end and a carry in the
 * next column (1 AND each). Two bits are added in the same way. This order is part of the sampler's
 * definition, because garbled tables depend on it. Empties the columns. */
void circ_columns_sum(circ_builder *b, circ_columns *c, circ_wire *z);

#endif
