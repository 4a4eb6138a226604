#include "mpc/circuits/sampler.h"

const sampler_profile sampler_g44 = {
    .name = "G44", .columns = 3, .column = { 3, 4, 20 }, .kick_a = 4, .kick_m = 6
};

sefl_status sampler_check(const sampler_profile *p)
{
    SEFL_NEED(p->columns >= 1 && p->columns <= SAMPLER_MAX_COLUMNS, SEFL_EINVAL,
              "sampler %s: %u columns: must be 1 to %d", p->name, p->columns, SAMPLER_MAX_COLUMNS);
    for (unsigned c = 0; c < p->columns; c++)
        SEFL_NEED(p->column[c] <= SAMPLER_MAX_COLUMN_BITS, SEFL_EINVAL,
                  "sampler %s: %u bits in column %u, at most %d", p->name, p->column[c], c,
                  SAMPLER_MAX_COLUMN_BITS);
    SEFL_NEED(p->kick_a < 16 && p->kick_m >= 1 && p->kick_m <= 16, SEFL_EINVAL,
              "sampler %s: kick (%u, %u)", p->name, p->kick_a, p->kick_m);
    return SEFL_OK;
}

unsigned sampler_random_bits(const sampler_profile *p)
{
    unsigned n = p->kick_m + 1;
    for (unsigned c = 0; c < p->columns; c++)
        n += p->column[c];
    return n;
}

unsigned sampler_max(const sampler_profile *p)
{
    unsigned x = 2u << p->kick_a;
    for (unsigned c = 0; c < p->columns; c++)
        x += p->column[c] << c;
    return x;
}

unsigned sampler_bits(const sampler_profile *p)
{
    unsigned bits = 0;
    for (unsigned x = sampler_max(p); x > 0; x >>= 1)
        bits++;
    return bits;
}

void sampler_put(circ_builder *b, circ_columns *cols, const circ_wire *r, const sampler_profile *p)
{
    for (unsigned c = 0; c < p->columns; c++)
        for (unsigned i = 0; i < p->column[c]; i++)
            circ_columns_put(cols, c, *r++);
    circ_wire kick = r[0];
    for (unsigned i = 1; i < p->kick_m; i++)
        kick = circ_and(b, kick, r[i]);
    circ_wire up = circ_and(b, kick, r[p->kick_m]);
    /* up + NOT(kick ^ up) = 1 + (+1 | 0 | -1) */
    circ_columns_put(cols, p->kick_a, up);
    circ_columns_put(cols, p->kick_a, circ_not(b, circ_xor(b, kick, up)));
}

sefl_status sampler_offline(circuit **out, const sampler_profile *p)
{
    sefl_status st = SEFL_OK;
    circ_builder *b = NULL;
    circ_columns *cols = NULL;
    circ_wire z[SAMPLER_MAX_BITS], r[SAMPLER_MAX_COINS];
    *out = NULL;
    SEFL_TRY(sampler_check(p));
    SEFL_TRY(circ_builder_new(&b));
    SEFL_TRY(circ_columns_new(&cols, sampler_bits(p)));
    circ_inputs(b, r, sampler_random_bits(p), CIRC_JOINT);
    sampler_put(b, cols, r, p);
    circ_columns_sum(b, cols, z);
    circ_outputs(b, z, sampler_bits(p));
    st = circ_finish(b, out);
    b = NULL;
done:
    circ_builder_free(b);
    circ_columns_free(cols);
    return st;
}
