/* access: decides who may see the page: a browser on this machine with the token or its cookie, or
 * a browser anywhere with a client certificate whose key is listed.
 *
 *     SEFL_TRY(access_open(&a, "state", &rng));              // state/page.token
 *     access_listens(&a, "127.0.0.1", 7020);                 // and writes state/page.url
 *     if (access_host_fits(&a, host) && access_cookie_fits(&a, cookie)) ...
 *
 * The token is 32 random bytes as 64 hex digits, in a file of mode 0600 in the server's state
 * folder. A restart uses it again, so open pages stay open; to revoke it, delete the file and
 * restart. page.url, also 0600, is the whole address to open. The cookie is a hash of the token: it
 * opens the page but does not show the token. Browsers send cookies to every port of a host, so its
 * name contains the port.
 *
 * The file of viewers has one fingerprint of a key per line (64 hex digits, the SHA-256 of the
 * public key, as everywhere in SEFL), optionally a name after it; `#` begins a comment. It is read
 * again for each request, so a removed line takes effect at once.
 * Threads: any, after access_listens.   Secrets: the token and the cookie, compared in constant
 * time. */
#ifndef PAGE_ACCESS_H
#define PAGE_ACCESS_H

#include "base/random.h"
#include "base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { ACCESS_TOKEN = 64, ACCESS_VIEWERS_BYTES = 64 << 10 };

typedef struct access_rule {
    char token[ACCESS_TOKEN + 1], cookie[ACCESS_TOKEN + 1];
    char name[32]; /* of the cookie */
    char folder[PATH_MAX];
    uint16_t port;
} access_rule;

/* Reads the token of the folder, or makes one. SEFL_EPROTO if the file has other contents. */
sefl_status access_open(access_rule *a, const char *folder, const sefl_rng *rng) SEFL_MUST_CHECK;
/* Wipes the token. */
void access_clear(access_rule *a);
/* Stores the address of the server and writes page.url. */
sefl_status access_listens(access_rule *a, const char *host, uint16_t port) SEFL_MUST_CHECK;

/* False for NULL and for any other string than the token, or its cookie. */
bool access_token_fits(const access_rule *a, const char *token);
bool access_cookie_fits(const access_rule *a, const char *cookie);
/* True if the Host field names this machine by a loopback address or as localhost, with our port
 * (web_host_fits). */
bool access_host_fits(const access_rule *a, const char *host);

/* True if the file lists this key. Fails if the file cannot be read or has an invalid line. */
sefl_status access_viewer_fits(bool *out, const char *path, const uint8_t key[32]) SEFL_MUST_CHECK;

#endif
