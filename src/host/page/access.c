#include "page/access.h"

#include "base/ct.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "config/address.h"
#include "net/web_server.h"

#include <stdio.h>
#include <string.h>

enum { TOKEN_BYTES = ACCESS_TOKEN / 2 };

/* True if the n characters are lower-case hex digits. */
static bool is_hex(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr("0123456789abcdef", p[i]) || p[i] == 0)
            return false;
    return true;
}

static sefl_status make_token(const char *path, char out[ACCESS_TOKEN + 1], const sefl_rng *rng)
{
    uint8_t bytes[TOKEN_BYTES];
    char line[ACCESS_TOKEN + 2];
    sefl_status st = rng_fill(rng, bytes, sizeof bytes);
    if (st == SEFL_OK) {
        hex_write(out, bytes, sizeof bytes);
        snprintf(line, sizeof line, "%s\n", out);
        st = file_write_new(path, span_of_str(line), 0600);
    }
    sefl_wipe(bytes, sizeof bytes);
    sefl_wipe(line, sizeof line);
    return st;
}

static void make_cookie(access_rule *a)
{
    static const char label[] = "sefl page cookie ";
    char text[sizeof label + ACCESS_TOKEN];
    uint8_t hash[SHA256_BYTES];
    snprintf(text, sizeof text, "%s%s", label, a->token);
    sha256_of(hash, span_of_str(text));
    hex_write(a->cookie, hash, sizeof hash);
    sefl_wipe(text, sizeof text);
}

sefl_status access_open(access_rule *a, const char *folder, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char path[PATH_MAX];
    *a = (access_rule){ 0 };
    SEFL_TRY(file_path(a->folder, "%s", folder));
    SEFL_TRY(file_path(path, "%s/page.token", folder));
    st = file_read_plain(&b, path, ACCESS_TOKEN + 1);
    if (st == SEFL_ENOTFOUND) {
        SEFL_TRY(make_token(path, a->token, rng));
    } else {
        SEFL_CHECK(st == SEFL_OK || st == SEFL_ERANGE, st, "%s", sefl_last_error());
        SEFL_CHECK(b.n == ACCESS_TOKEN + 1 && b.p[ACCESS_TOKEN] == '\n' &&
                       is_hex((const char *)b.p, ACCESS_TOKEN),
                   SEFL_EPROTO, "%s is not a token of %d hex digits: delete it to get a new one",
                   path, ACCESS_TOKEN);
        memcpy(a->token, b.p, ACCESS_TOKEN);
    }
    make_cookie(a);
done:
    buf_clear(&b);
    return st;
}

void access_clear(access_rule *a)
{
    sefl_wipe(a, sizeof *a);
}

sefl_status access_listens(access_rule *a, const char *host, uint16_t port)
{
    sefl_status st = SEFL_OK;
    sefl_buf url = { 0 };
    char path[PATH_MAX];
    a->port = port;
    snprintf(a->name, sizeof a->name, "sefl-page-%u", port);
    SEFL_TRY(wr_fmt(&url, "http://"));
    SEFL_TRY(address_write(&url, host, port));
    SEFL_TRY(wr_fmt(&url, "/?token=%s\n", a->token));
    SEFL_TRY(file_path(path, "%s/page.url", a->folder));
    SEFL_TRY(file_write_atomic(path, buf_span(&url), 0600));
done:
    buf_clear(&url);
    return st;
}

static bool fits(const char *secret, const char *given)
{
    return given && strlen(given) == ACCESS_TOKEN && ct_eq_bytes(secret, given, ACCESS_TOKEN);
}

bool access_token_fits(const access_rule *a, const char *token)
{
    return fits(a->token, token);
}

bool access_cookie_fits(const access_rule *a, const char *cookie)
{
    return fits(a->cookie, cookie);
}

bool access_host_fits(const access_rule *a, const char *host)
{
    return web_host_fits(host, a->port);
}

sefl_status access_viewer_fits(bool *out, const char *path, const uint8_t key[32])
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char want[HEX_CHARS(32)];
    unsigned line = 0;
    *out = false;
    hex_write(want, key, 32);
    SEFL_TRY(file_read_plain(&b, path, ACCESS_VIEWERS_BYTES));
    SEFL_TRY(wr_raw(&b, "\n", 2)); /* with a NUL */
    for (char *p = (char *)b.p, *next; *p; p = next) {
        next = p + strcspn(p, "\n");
        next += *next == '\n';
        line++;
        p += strspn(p, " \t\r");
        if (*p == '\n' || *p == '#')
            continue;
        const size_t n = strcspn(p, " \t\r\n");
        SEFL_CHECK(n == 64 && is_hex(p, n), SEFL_EINVAL,
                   "%s:%u: a line begins with the fingerprint of a key: 64 hex digits", path, line);
        *out |= memcmp(p, want, 64) == 0;
    }
done:
    if (st != SEFL_OK)
        *out = false;
    buf_clear(&b);
    return st;
}
