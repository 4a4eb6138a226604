#include "config/address.h"

#include <stdlib.h>
#include <string.h>

sefl_status address_read(host_port *out, const char *text, unsigned least)
{
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
    char *stop = NULL;
    unsigned long n = 65536;
    *out = (host_port){ 0 };
    if (text[0] == '[') { /* an IPv6 address: [::1]:7000 */
        begin = text + 1, end = strchr(text, ']');
        colon = end && end[1] == ':' ? end + 1 : NULL;
    } else if (colon && memchr(text, ':', (size_t)(colon - text))) {
        end = NULL; /* IPv6 without brackets is ambiguous */
    }
    if (colon && end && colon[1] >= '0' && colon[1] <= '9')
        n = strtoul(colon + 1, &stop, 10);
    SEFL_NEED(stop && *stop == 0 && n >= least && n <= 65535 && end > begin &&
                  end - begin <= ADDRESS_HOST_MAX,
              SEFL_EINVAL, "must be host:port or [address]:port, not \"%.64s\"", text);
    memcpy(out->host, begin, (size_t)(end - begin));
    out->port = (uint16_t)n;
    return SEFL_OK;
}

bool address_is_host(const char *host)
{
    static const char chars[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:";
    return *host && strspn(host, chars) == strlen(host);
}

sefl_status address_write(sefl_buf *out, const char *host, unsigned port)
{
    return wr_fmt(out, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}
