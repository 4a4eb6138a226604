#include "config/address.h"

#include <stdio.h>
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

sefl_status address_read_host(host_port *out, sefl_span text, unsigned usual)
{
    char with[ADDRESS_HOST_MAX + 16];
    const char *p = (const char *)text.p, *colon = text.n > 0 ? memchr(p, ':', text.n) : NULL;
    const char *next = colon ? colon + 1 : p;
    const bool v6 = colon && p[0] != '[' && memchr(next, ':', text.n - (size_t)(next - p));
    const int n = (int)text.n;
    SEFL_NEED(text.n <= ADDRESS_HOST_MAX + 8, SEFL_EINVAL, "an address of %zu characters", text.n);
    if (colon && !v6 && p[text.n - 1] != ']')
        snprintf(with, sizeof with, "%.*s", n, p);
    else
        snprintf(with, sizeof with, v6 ? "[%.*s]:%u" : "%.*s:%u", n, n > 0 ? p : "", usual);
    SEFL_PASS(address_read(out, with, usual > 0));
    SEFL_NEED(address_is_host(out->host), SEFL_EINVAL,
              "\"%.64s\" is neither a host name nor an address", out->host);
    return SEFL_OK;
}

sefl_status address_write(sefl_buf *out, const char *host, unsigned port)
{
    return wr_fmt(out, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}
