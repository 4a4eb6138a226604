#include "support/check.h"

#include <stdlib.h>

void check_status(sefl_status got, sefl_status want, const char *what, const char *file, int line)
{
    if (got == want)
        return;
    print_error("%s\n  got %s, want %s; last error: %s\n", what, sefl_status_name(got),
                sefl_status_name(want), sefl_last_error());
    _fail(file, line);
}

void test_seed(seeded *g, const char *stream)
{
    const char *text = getenv("SEFL_TEST_SEED");
    unsigned long long seed = text && *text ? strtoull(text, NULL, 10) : 1;
    print_message("SEFL_TEST_SEED=%llu (%s)\n", seed, stream);
    seeded_init(g, seed, stream);
}

unsigned long test_count(unsigned long quick, unsigned long full)
{
    const char *soak = getenv("SEFL_SOAK");
    return soak && *soak ? full : quick;
}

unsigned test_ms(unsigned ms)
{
    const char *slow = getenv("SEFL_TEST_SLOW");
    const unsigned long times = slow ? strtoul(slow, NULL, 10) : 1;
    return times >= 1 && times <= 1000 ? ms * (unsigned)times : ms;
}
