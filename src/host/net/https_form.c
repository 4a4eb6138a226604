#include "net/https_form.h"

#include <microhttpd.h>
#include <string.h>
#include <strings.h>

static void wrong(https_form *f, const char *why)
{
    if (!f->why)
        f->why = why;
}

static bool is_token(sefl_span s)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < s.n; i++) {
        const uint8_t c = s.p[i], low = c | 0x20;
        if (!(low >= 'a' && low <= 'z') && !(c >= '0' && c <= '9') &&
            !memchr(others, c, sizeof others - 1))
            return false;
    }
    return s.n > 0;
}

static bool has_control(sefl_span s, bool tab_too)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == 0x7f || (s.p[i] < 0x20 && (tab_too || s.p[i] != '\t')))
            return true;
    return false;
}

static bool is_name(sefl_span s, const char *name)
{
    return s.n == strlen(name) && strncasecmp((const char *)s.p, name, s.n) == 0;
}

static void once(https_form *f, bool *seen)
{
    if (*seen)
        wrong(f, "a field is repeated");
    *seen = true;
}

void https_form_field(https_form *f, sefl_span name, sefl_span value)
{
    if (!is_token(name))
        wrong(f, "bad field name");
    if (has_control(value, false))
        wrong(f, "control character in a field");
    if (is_name(name, "Host"))
        once(f, &f->host);
    if (is_name(name, "Content-Length")) /* libmicrohttpd would use the first, others the last */
        once(f, &f->length);
}

void https_form_argument(https_form *f, sefl_span name, sefl_span value)
{
    if (has_control(name, true) || has_control(value, true))
        wrong(f, "control character in the query");
}

static enum MHD_Result https_form_look(void *ctx, enum MHD_ValueKind kind, const char *name,
                                       size_t name_n, const char *value, size_t value_n)
{
    const sefl_span left = span_of(name, name_n), right = span_of(value, value ? value_n : 0);
    if (kind == MHD_HEADER_KIND)
        https_form_field(ctx, left, right);
    else
        https_form_argument(ctx, left, right);
    return MHD_YES;
}

const char *https_form_why(struct MHD_Connection *mhd)
{
    https_form f = { 0 };
    (void)MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, https_form_look, &f);
    (void)MHD_get_connection_values_n(mhd, MHD_GET_ARGUMENT_KIND, https_form_look, &f);
    return f.why;
}

size_t https_form_unescape(void *cls, struct MHD_Connection *mhd, char *s)
{
    (void)cls, (void)mhd;
    for (char *p = strstr(s, "%00"); p; p = strstr(p, "%00"))
        p[2] = '1';
    return MHD_http_unescape(s);
}
