#include "protocol/version.h"

#include <stdio.h>

enum { DIGITS = 4 };

static const char *digits(uint16_t *out, const char *p)
{
    unsigned v = 0, n = 0;
    for (; n < DIGITS && *p >= '0' && *p <= '9'; n++, p++)
        v = 10 * v + (unsigned)(*p - '0');
    if (n == 0 || (n > 1 && p[-(int)n] == '0'))
        return NULL;
    *out = (uint16_t)v;
    return p;
}

sefl_status version_read(version_number *out, const char *text)
{
    version_number v = { .major = 1, .minor = 0 };
    const char *p = text;
    *out = (version_number){ 0 };
    if (text) {
        p = digits(&v.major, p);
        if (p)
            p = *p == '.' ? digits(&v.minor, p + 1) : NULL;
        if (!p || *p)
            return sefl_fail(SEFL_EPROTO, "a version looks like %s", VERSION_TEXT);
    }
    *out = v;
    return SEFL_OK;
}

bool version_takes(version_number v, char why[VERSION_SENTENCE])
{
    int lowest = VERSION_MINOR_LOWEST;
    why[0] = 0;
    if (v.major == VERSION_MAJOR && v.minor >= lowest && v.minor <= VERSION_MINOR + 1)
        return true;
    snprintf(why, VERSION_SENTENCE,
             "this client speaks version %u.%u; this server needs %d.%d and takes %d.%d to %d.%d",
             v.major, v.minor, VERSION_MAJOR, VERSION_MINOR, VERSION_MAJOR, lowest, VERSION_MAJOR,
             VERSION_MINOR + 1);
    return false;
}

uint16_t version_link(uint16_t lowest, uint16_t highest, char why[VERSION_SENTENCE])
{
    why[0] = 0;
    uint16_t common = highest < LINK_VERSION ? highest : LINK_VERSION;
    if (lowest <= highest && common >= LINK_VERSION_LOWEST && common >= lowest)
        return common;
    snprintf(why, VERSION_SENTENCE,
             "no common version: AS speaks %u to %u of the link, this CSP %d to %d", lowest,
             highest, LINK_VERSION_LOWEST, LINK_VERSION);
    return 0;
}
