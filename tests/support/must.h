/* must: MUST(condition) ends the process if the condition is false, in every build. */
#ifndef SUPPORT_MUST_H
#define SUPPORT_MUST_H

#include <stdlib.h>

#define MUST(ok)     \
    do {             \
        if (!(ok))   \
            abort(); \
    } while (0)
#define MUST_OK(call) MUST((call) == SEFL_OK)

#endif
