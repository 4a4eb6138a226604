#include "sefl/sefl.h"

#define TEXT2(x) #x
#define TEXT(x)  TEXT2(x)

const char *sefl_version(void)
{
    return TEXT(SEFL_VERSION_MAJOR) "." TEXT(SEFL_VERSION_MINOR) "." TEXT(SEFL_VERSION_PATCH);
}
