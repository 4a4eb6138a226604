#include "sum/own_noise.h"

#include <string.h>

static sefl_status draw(void *ctx, int64_t *e, size_t first, size_t n)
{
    own_noise *o = ctx;
    (void)first;
    return dgauss_fill_vartime(&o->law, e, n, &o->rng);
}

sefl_status own_noise_init(own_noise *o, const task *t)
{
    memset(o, 0, sizeof *o);
    return dgauss_for_grid(&o->law, &t->grid);
}

noise_source own_noise_of(own_noise *o)
{
    return (noise_source){ .get = draw, .ctx = o };
}
