#include "simulate/protection.h"

#include <string.h>

static const protection protections[] = {
    { .name = "none", .noise = "none", .shown = "none" },
    { .name = "cdp",
      .noise = "own", /* for its grid; the trusted server adds noise once, not twice */
      .shown = "central",
      .quantises = true,
      .central = true },
    { .name = "sefl", .quantises = true, .two_servers = true },
};

const protection *protection_named(const char *name)
{
    for (size_t i = 0; i < sizeof protections / sizeof *protections; i++)
        if (strcmp(protections[i].name, name) == 0)
            return &protections[i];
    return NULL;
}
