#include "base/coins.h"

static sefl_status from_system(void *self, sefl_rng *out, const char *purpose, uint64_t round,
                               uint64_t attempt)
{
    (void)self, (void)purpose, (void)round, (void)attempt;
    *out = rng_system();
    return SEFL_OK;
}

sefl_coins coins_system(void)
{
    return (sefl_coins){ .get = from_system };
}

sefl_status coins_for(const sefl_coins *c, sefl_rng *out, const char *purpose, uint64_t round,
                      uint64_t attempt)
{
    return c->get(c->self, out, purpose, round, attempt);
}
