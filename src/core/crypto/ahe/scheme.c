/* The schemes by name. In a separate file: a program with its own table (a test) does not
 * pull in both. */
#include "crypto/ahe/ahe.h"

#include <string.h>

sefl_status ahe_scheme_find(const ahe_scheme **out, const char *name)
{
    static const ahe_scheme *const all[] = { &ahe_pad, &ahe_paillier };
    *out = NULL;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i]->name, name) == 0) {
            *out = all[i];
            return SEFL_OK;
        }
    return sefl_fail(SEFL_EINVAL, "unknown encryption scheme \"%.32s\": pad or paillier", name);
}
