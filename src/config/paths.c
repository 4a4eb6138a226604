#include "config/paths.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sefl_status settings_path(char **out, const settings *s, const char *key, const char *folder)
{
    sefl_status st = SEFL_OK;
    const char *value = settings_text(s, key);
    size_t n = strlen(value) + (folder ? strlen(folder) : 0) + 2;
    bool as_it_is = *value == '/' || !folder || !*folder;
    *out = NULL;
    SEFL_CHECK(*value || settings_may_lack(s, key), SEFL_EINVAL, "%s is empty: it wants a path",
               key);
    if (!*value)
        goto done;
    SEFL_TRY(sefl_new(out, n, 1));
    snprintf(*out, n, "%s%s%s", as_it_is ? "" : folder, as_it_is ? "" : "/", value);
done:
    return st;
}

sefl_status place_address(char **host, uint16_t *port, const char *text, const char *what,
                          unsigned least)
{
    sefl_status st = SEFL_OK;
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
    char *stop = NULL;
    unsigned long n = 65536;
    *host = NULL;
    if (text[0] == '[') { /* an IPv6 address: [::1]:7000 */
        begin = text + 1, end = strchr(text, ']');
        colon = end && end[1] == ':' ? end + 1 : NULL;
    } else if (colon && memchr(text, ':', (size_t)(colon - text))) {
        end = NULL; /* without brackets: where does the port begin? */
    }
    if (colon && end && colon[1] >= '0' && colon[1] <= '9')
        n = strtoul(colon + 1, &stop, 10);
    SEFL_CHECK(stop && *stop == 0 && n >= least && n <= 65535 && end > begin, SEFL_EINVAL,
               "%s: wants host:port or [address]:port, not \"%.64s\"", what, text);
    SEFL_TRY(sefl_new(host, (size_t)(end - begin) + 1, 1));
    memcpy(*host, begin, (size_t)(end - begin));
    *port = (uint16_t)n;
done:
    return st;
}

sefl_status settings_address(char **host, uint16_t *port, const settings *s, const char *key,
                             unsigned least)
{
    return place_address(host, port, settings_text(s, key), key, least);
}
