/* Design. One easy handle of libcurl, driven through a multi handle, which another thread can wake
 * and which keeps the connection between requests. The certificate is checked twice: by libcurl in
 * the handshake (chain, dates, host), and by us after the handshake and before the request leaves
 * (CURLOPT_PREREQFUNCTION): all of net/x509.h, including the role. Both drive and libcurl's
 * progress callback check the time limits: libcurl reads a proxy's answer to CONNECT byte by byte
 * in a single call, as long as bytes arrive, and calls only the callback meanwhile. */
#define _GNU_SOURCE
#include "net/https_client.h"

#include "base/alloc.h"
#include "base/file.h"
#include "net/https_text.h"
#include "net/socket.h"
#include "net/tls_inside.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    REPLY_MAX = 1 << 20,
    PATH_BYTES = 4096,
    BUFFER_BYTES = 512 << 10,
    EXPECT_FROM = 64 << 10,
    RATE_MIN = 1024,
    CONNECT_GRACE_MS = 1000 /* libcurl mostly enforces connect_ms itself, with a better message */
};

struct https_client {
    char *host, *proxy, *role;
    const char *number_field;
    bool (*may_send)(const char *name, size_t n);
    struct curl_slist *always; /* lines for every request */
    uint16_t port;
    tls_id *id; /* NULL: pinned */
    uint8_t pin[32];
    unsigned connect_ms, stall_s;
    CURL *easy;
    CURLM *multi;
    atomic_bool interrupted;
    bool failed;     /* the last request failed: its handle is not reused */
    bool any_date;   /* https_ask_date is under way */
    bool dated;      /* an answer had a Date; then */
    int64_t ahead_s; /* our clock less the server's */
    char error[CURL_ERROR_SIZE];
    x509_peer peer;
};

/* A request in progress. */
typedef struct call {
    https_client *c;
    https_reply *r;
    sefl_status st;    /* of a callback of ours */
    char why[512];     /* its message */
    bool ready;        /* connected, through the proxy too, and the server is verified */
    unsigned silent_s; /* maximum time without a byte */
    uint64_t began_ms, seen, since_ms, first_ms; /* seen: bytes so far; times of last, first byte */
    uint64_t content_from;
    /* download into a file */
    const char *to;
    char part[PATH_BYTES], side[PATH_BYTES];
    int fd;
    uint64_t at, max;
    bool begun;
    struct curl_slist *lines; /* headers */
    /* upload of a file: bytes [from, size) */
    uint64_t from, size;
    const sefl_progress *progress;
} call;

static sefl_status call_fail(call *k, sefl_status st)
{
    if (k->st == SEFL_OK) {
        k->st = st;
        snprintf(k->why, sizeof k->why, "%s", sefl_last_error());
    }
    return st;
}

static sefl_status add_line(struct curl_slist **list, const char *line)
{
    struct curl_slist *more = curl_slist_append(*list, line);
    SEFL_NEED(more, SEFL_ENOMEM, "https: libcurl");
    *list = more;
    return SEFL_OK;
}

/* "Name: value\n" lines. */
static sefl_status add_lines(const https_client *c, struct curl_slist **list, const char *text)
{
    for (const char *p = text; p && *p;) {
        char line[512];
        size_t n = strcspn(p, "\n");
        SEFL_NEED(n < sizeof line, SEFL_EINVAL, "https: a header of %zu bytes", n);
        snprintf(line, sizeof line, "%.*s", (int)n, p);
        SEFL_NEED(!c->may_send || c->may_send(line, strcspn(line, ":")), SEFL_EINVAL,
                  "https: the protocol has no header \"%.*s\"", (int)strcspn(line, ":"), line);
        SEFL_PASS(add_line(list, line));
        p += n + (p[n] == '\n');
    }
    return SEFL_OK;
}

/* ---- callbacks of libcurl ---------------------------------------------------------------- */

static int on_ready(void *ctx, char *ip, char *local, int port, int local_port)
{
    call *k = ctx;
    https_client *c = k->c;
    struct curl_tlssessioninfo *info = NULL;
    (void)ip, (void)local, (void)port, (void)local_port;
    c->peer = (x509_peer){ .code = X509_NONE };
    if (curl_easy_getinfo(c->easy, CURLINFO_TLS_SSL_PTR, &info) == CURLE_OK && info &&
        info->backend == CURLSSLBACKEND_GNUTLS && info->internals)
        x509_check_session(&c->peer, info->internals, c->id ? c->id->trust : NULL,
                           &(x509_want){ .role = c->role,
                                         .host = c->host,
                                         .server = true,
                                         .fingerprint = c->id ? NULL : c->pin,
                                         .pin_only = !c->id,
                                         .any_date = c->any_date });
    else
        snprintf(c->peer.why, sizeof c->peer.why, "no TLS session to verify");
    k->ready = c->peer.code == X509_OK;
    if (k->ready)
        return CURL_PREREQFUNC_OK;
    call_fail(k, sefl_fail(SEFL_EAUTH, "%.128s port %u: %s", c->host, c->port, c->peer.why));
    return CURL_PREREQFUNC_ABORT;
}

static bool header_is(const char *line, size_t n, const char *name, const char **value,
                      size_t *value_n)
{
    size_t k = strlen(name);
    if (n <= k || strncasecmp(line, name, k) != 0 || line[k] != ':')
        return false;
    for (k++; k < n && (line[k] == ' ' || line[k] == '\t'); k++)
        ;
    while (n > k && (line[n - 1] == '\r' || line[n - 1] == '\n' || line[n - 1] == ' '))
        n--;
    *value = line + k;
    *value_n = n - k;
    return true;
}

static void take_date(https_client *c, const char *value, size_t n)
{
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), value);
    const time_t then = curl_getdate(text, NULL);
    if (then > 0)
        c->dated = true, c->ahead_s = (int64_t)time(NULL) - (int64_t)then;
}

static size_t on_header(char *line, size_t one, size_t n, void *ctx)
{
    call *k = ctx;
    https_reply *r = k->r;
    const char *v;
    size_t vn;
    (void)one;
    if (n > 5 && strncmp(line, "HTTP/", 5) == 0) { /* a new answer: 100 Continue came before it */
        r->number = UINT64_MAX;
        r->etag[0] = 0;
        k->content_from = UINT64_MAX;
    } else if (k->c->number_field && header_is(line, n, k->c->number_field, &v, &vn)) {
        if (!https_number_read(&r->number, span_of(v, vn)))
            r->number = UINT64_MAX;
    } else if (header_is(line, n, "ETag", &v, &vn)) {
        if (vn >= 2 && v[0] == '"' && v[vn - 1] == '"' && vn - 2 < sizeof r->etag &&
            !memchr(v + 1, '"', vn - 2))
            snprintf(r->etag, sizeof r->etag, "%.*s", (int)(vn - 2), v + 1);
    } else if (header_is(line, n, "Date", &v, &vn)) {
        take_date(k->c, v, vn);
    } else if (header_is(line, n, "Content-Range", &v, &vn)) {
        if (vn > 6 && strncasecmp(v, "bytes ", 6) == 0) {
            const char *dash = memchr(v, '-', vn);
            if (!dash ||
                !https_number_read(&k->content_from, span_of(v + 6, (size_t)(dash - v) - 6)))
                k->content_from = UINT64_MAX;
        }
    }
    return n;
}

static unsigned status_of(const https_client *c)
{
    long code = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &code);
    return (unsigned)code;
}

/* Called before the first bytes of a file: continues our part (206), or starts over. */
static sefl_status file_begin(call *k)
{
    if (status_of(k->c) == 206) {
        SEFL_NEED(k->at > 0 && k->content_from == k->at, SEFL_EPROTO,
                  "https: the server sent a range from byte %llu instead of %llu",
                  (unsigned long long)k->content_from, (unsigned long long)k->at);
    } else {
        SEFL_NEED(ftruncate(k->fd, 0) == 0 && lseek(k->fd, 0, SEEK_SET) == 0, SEFL_EIO,
                  "cannot truncate %s: %s", k->part, strerror(errno));
        k->at = 0;
        if (k->r->etag[0])
            SEFL_PASS(file_write_atomic(k->side, span_of_str(k->r->etag), 0644));
        else
            unlink(k->side);
    }
    k->begun = true;
    return SEFL_OK;
}

static sefl_status take(call *k, sefl_span bytes)
{
    unsigned status = status_of(k->c);
    if (!k->to || (status != 200 && status != 206)) {
        SEFL_NEED(bytes.n <= k->r->body.max - k->r->body.n, SEFL_ERANGE,
                  "https: the answer has more than %zu bytes", k->r->body.max);
        return wr_raw(&k->r->body, bytes.p, bytes.n);
    }
    if (!k->begun)
        SEFL_PASS(file_begin(k));
    SEFL_NEED(bytes.n <= k->max && k->at <= k->max - bytes.n, SEFL_ERANGE,
              "https: the file has more than %llu bytes", (unsigned long long)k->max);
    SEFL_PASS(file_write_all(k->fd, bytes));
    k->at += bytes.n;
    return SEFL_OK;
}

static size_t on_bytes(char *p, size_t one, size_t n, void *ctx)
{
    call *k = ctx;
    (void)one;
    sefl_status st = take(k, span_of(p, n));
    if (st != SEFL_OK)
        call_fail(k, st);
    return st == SEFL_OK ? n : 0;
}

static size_t on_read(char *to, size_t one, size_t n, void *ctx)
{
    call *k = ctx;
    uint64_t left = k->size - k->at;
    size_t room = one * n;
    ssize_t got;
    if (room > left)
        room = (size_t)left;
    do
        got = room ? pread(k->fd, to, room, (off_t)k->at) : 0;
    while (got < 0 && errno == EINTR);
    if (got < 0 || (got == 0 && room > 0)) {
        call_fail(k, sefl_fail(SEFL_EIO, "cannot read the file to send: %s",
                               got < 0 ? strerror(errno) : "the file became shorter"));
        return CURL_READFUNC_ABORT;
    }
    k->at += (uint64_t)got;
    return (size_t)got;
}

static int on_seek(void *ctx, curl_off_t offset, int origin)
{
    call *k = ctx;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > k->size - k->from)
        return CURL_SEEKFUNC_FAIL;
    k->at = k->from + (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* ---- one request ------------------------------------------------------------------------- */

static sefl_status code_of(CURLcode rc)
{
    switch (rc) {
    case CURLE_OUT_OF_MEMORY:
        return SEFL_ENOMEM;
    case CURLE_OPERATION_TIMEDOUT:
        return SEFL_ETIMEOUT;
    case CURLE_SSL_CERTPROBLEM: /* our own files */
    case CURLE_SSL_CACERT_BADFILE:
        return SEFL_EINVAL;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
        return SEFL_EAUTH;
    default:
        return SEFL_EIO;
    }
}

static sefl_status curl_fail(const call *k, CURLcode rc)
{
    const https_client *c = k->c;
    const char *text = c->error[0] ? c->error : curl_easy_strerror(rc), *more = "";
    SEFL_NEED(k->st == SEFL_OK, k->st, "%s", k->why);
    /* libcurl's message may contain the proxy's whole address, including a password */
    if (rc == CURLE_COULDNT_RESOLVE_PROXY || (strstr(text, "roxy") && strchr(text, '@')))
        text = "the proxy's address is malformed, or its name cannot be resolved";
    if (rc == CURLE_PEER_FAILED_VERIFICATION) /* libcurl does not say which of these it is */
        more = " (another host, an unknown issuer, expired, or our clock is wrong)";
    return sefl_fail(code_of(rc), "%.128s port %u: %.200s%s", c->host, c->port, text, more);
}

static uint64_t moved(const https_client *c)
{
    curl_off_t up = 0, down = 0;
    curl_easy_getinfo(c->easy, CURLINFO_SIZE_UPLOAD_T, &up);
    curl_easy_getinfo(c->easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
    return (uint64_t)up + (uint64_t)down;
}

/* Fails if a limit is exceeded. drive calls it, and libcurl does through on_progress. */
static sefl_status within_limits(call *k)
{
    const https_client *c = k->c;
    uint64_t now = socket_now_ms(), n = moved(c);
    SEFL_NEED(!atomic_load(&c->interrupted), SEFL_ECANCELLED, "https: stopped on request");
    if (n != k->seen) {
        k->first_ms = k->seen ? k->first_ms : now;
        k->seen = n, k->since_ms = now;
    }
    SEFL_NEED(k->ready || now - k->began_ms <= c->connect_ms + CONNECT_GRACE_MS, SEFL_ETIMEOUT,
              "%.128s port %u: not connected after %u ms", c->host, c->port, c->connect_ms);
    /* until the first byte, the time to connect comes on top */
    SEFL_NEED(now - k->since_ms <= 1000ull * k->silent_s + (k->seen ? 0 : c->connect_ms),
              SEFL_ETIMEOUT, "%.128s port %u: silent for %u s", c->host, c->port, k->silent_s);
    /* a trickle counts as silence; one pause of the allowed length is tolerated */
    uint64_t took = k->seen ? now - k->first_ms : 0;
    SEFL_NEED(took <= 2000ull * k->silent_s || k->seen >= took / 1000 * RATE_MIN, SEFL_ETIMEOUT,
              "%.128s port %u: slower than %d bytes per second", c->host, c->port, RATE_MIN);
    return SEFL_OK;
}

static int on_progress(void *ctx, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
                       curl_off_t up)
{
    call *k = ctx;
    (void)down_all, (void)down, (void)up_all, (void)up;
    sefl_status st = within_limits(k);
    if (st != SEFL_OK)
        call_fail(k, st);
    return st != SEFL_OK;
}

static uint64_t total_of(const call *k)
{
    curl_off_t n = 0;
    if (k->size > 0)
        return k->size;
    if (curl_easy_getinfo(k->c->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &n) != CURLE_OK || n < 0)
        return 0;
    return (uint64_t)n + (k->content_from != UINT64_MAX ? k->content_from : 0);
}

/* Drives the transfer to its end; silent_s: maximum time without a byte. */
static sefl_status drive(call *k, unsigned silent_s)
{
    https_client *c = k->c;
    sefl_status st = SEFL_OK;
    uint64_t reported = 0;
    int running = 1, left = 0;
    k->silent_s = silent_s;
    k->began_ms = k->since_ms = socket_now_ms();
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, k->lines);
    SEFL_CHECK(curl_multi_add_handle(c->multi, c->easy) == CURLM_OK, SEFL_ENOMEM, "https: libcurl");
    while (running) {
        SEFL_TRY(within_limits(k));
        SEFL_CHECK(curl_multi_perform(c->multi, &running) == CURLM_OK, SEFL_EIO, "https: libcurl");
        if (moved(c) != reported) {
            reported = moved(c);
            SEFL_CHECK(progress_report(k->progress, k->at, total_of(k)), SEFL_ECANCELLED,
                       "https: stopped on request");
        }
        if (running)
            curl_multi_poll(c->multi, NULL, 0, 250, NULL);
    }
    for (CURLMsg *m; (m = curl_multi_info_read(c->multi, &left));)
        if (m->msg == CURLMSG_DONE && m->data.result != CURLE_OK)
            SEFL_TRY(curl_fail(k, m->data.result));
    SEFL_CHECK(k->st == SEFL_OK, k->st, "%s", k->why);
done:
    curl_multi_remove_handle(c->multi, c->easy);
    c->failed = st != SEFL_OK;
    k->r->status = status_of(c);
    curl_off_t v = 0;
    if (curl_easy_getinfo(c->easy, CURLINFO_SIZE_UPLOAD_T, &v) == CURLE_OK)
        k->r->sent = (uint64_t)v;
    if (curl_easy_getinfo(c->easy, CURLINFO_SIZE_DOWNLOAD_T, &v) == CURLE_OK)
        k->r->received = (uint64_t)v;
    return st;
}

/* Replaces the handle after a failure: libcurl 7.88 keeps the buffers of a request whose host was
 * not found, and then always refuses CURLOPT_BUFFERSIZE. The multi handle keeps the connection. */
static sefl_status clean_handle(https_client *c)
{
    if (!c->failed) {
        curl_easy_reset(c->easy);
        return SEFL_OK;
    }
    CURL *easy = curl_easy_init();
    SEFL_NEED(easy, SEFL_ENOMEM, "https: libcurl");
    curl_easy_cleanup(c->easy);
    c->easy = easy;
    c->failed = false;
    return SEFL_OK;
}

/* Sets every option: none is left over from the previous request. */
static sefl_status set_options(call *k, const char *url)
{
    https_client *c = k->c;
    CURLcode rc = CURLE_OK;
#define SET(option, value) rc = rc ? rc : curl_easy_setopt(c->easy, option, value)
    SET(CURLOPT_URL, url);
    SET(CURLOPT_ERRORBUFFER, c->error);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3 | CURL_SSLVERSION_MAX_TLSv1_3);
    SET(CURLOPT_SSL_SESSIONID_CACHE, 0L);
    SET(CURLOPT_CAPATH, NULL);
    const bool both = c->id && !c->any_date; /* otherwise only on_ready verifies */
    SET(CURLOPT_SSL_VERIFYPEER, both ? 1L : 0L);
    SET(CURLOPT_SSL_VERIFYHOST, both ? 2L : 0L);
    SET(CURLOPT_FRESH_CONNECT, c->any_date ? 1L : 0L);
    SET(CURLOPT_FORBID_REUSE, c->any_date ? 1L : 0L);
    if (c->id) {
        SET(CURLOPT_CAINFO, c->id->ca_path);
        SET(CURLOPT_SSLCERT, c->id->cert_path);
        SET(CURLOPT_SSLKEY, c->id->key_path);
    } else {
        SET(CURLOPT_CAINFO, NULL);
    }
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)c->connect_ms);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_USERAGENT, "sefl");
    SET(CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    SET(CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER_BYTES);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, on_progress);
    SET(CURLOPT_XFERINFODATA, k);
    if (c->proxy)
        SET(CURLOPT_PROXY, c->proxy); /* NULL: libcurl looks at the environment */
    SET(CURLOPT_PREREQFUNCTION, on_ready);
    SET(CURLOPT_PREREQDATA, k);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, k);
    SET(CURLOPT_WRITEFUNCTION, on_bytes);
    SET(CURLOPT_WRITEDATA, k);
#undef SET
    return rc == CURLE_OK ? SEFL_OK : curl_fail(k, rc);
}

/* Prepares a call with these headers ("Name: value\n" lines or NULL); call_end must follow in any
 * case. */
static sefl_status prepare(call *k, https_client *c, const char *path, const char *headers,
                           https_reply *r, size_t max)
{
    char url[PATH_BYTES];
    bool v6 = strchr(c->host, ':') != NULL;
    *r = (https_reply){ .number = UINT64_MAX, .body.max = max };
    *k = (call){ .c = c, .r = r, .fd = -1, .content_from = UINT64_MAX };
    SEFL_NEED(path[0] == '/' &&
                  snprintf(url, sizeof url, v6 ? "https://[%s]:%u%s" : "https://%s:%u%s", c->host,
                           c->port, path) < (int)sizeof url,
              SEFL_EINVAL, "https: bad path \"%.64s\"", path);
    SEFL_NEED(!atomic_load(&c->interrupted), SEFL_ECANCELLED, "https: stopped on request");
    SEFL_PASS(clean_handle(c));
    c->error[0] = 0;
    for (const struct curl_slist *l = c->always; l; l = l->next)
        SEFL_PASS(add_line(&k->lines, l->data));
    SEFL_PASS(add_lines(c, &k->lines, headers));
    return set_options(k, url);
}

static sefl_status call_end(call *k, sefl_status st)
{
    if (k->fd >= 0)
        close(k->fd);
    k->fd = -1;
    curl_slist_free_all(k->lines);
    k->lines = NULL;
    return st;
}

sefl_status https_get(https_client *c, const char *path, size_t max, unsigned wait_s,
                      https_reply *r)
{
    call k;
    sefl_status st = prepare(&k, c, path, NULL, r, max);
    return call_end(&k, st == SEFL_OK ? drive(&k, c->stall_s + wait_s) : st);
}

sefl_status https_post(https_client *c, const char *path, sefl_span body, size_t max,
                       unsigned wait_s, https_reply *r)
{
    call k;
    sefl_status st = SEFL_OK;
    SEFL_TRY(prepare(&k, c, path, NULL, r, max));
    SEFL_TRY(add_line(&k.lines, "Content-Type: application/octet-stream"));
    SEFL_CHECK(body.n <= EXPECT_FROM, SEFL_EINVAL,
               "https: a request body of %zu bytes is too large", body.n);
    curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE, (long)body.n);
    curl_easy_setopt(c->easy, CURLOPT_COPYPOSTFIELDS, body.n ? (const char *)body.p : "");
    SEFL_TRY(drive(&k, c->stall_s + wait_s));
done:
    return call_end(&k, st);
}

sefl_status https_head(https_client *c, const char *path, const char *headers, https_reply *r)
{
    call k;
    sefl_status st = prepare(&k, c, path, headers, r, 0);
    curl_easy_setopt(c->easy, CURLOPT_NOBODY, 1L);
    return call_end(&k, st == SEFL_OK ? drive(&k, c->stall_s) : st);
}

bool https_ahead(const https_client *c, int64_t *seconds)
{
    *seconds = c->ahead_s;
    return c->dated;
}

sefl_status https_ask_date(https_client *c, const char *path)
{
    https_reply r;
    c->any_date = true;
    sefl_status st = https_get(c, path, REPLY_MAX, 0, &r);
    c->any_date = false;
    https_reply_clear(&r);
    return st;
}

/* Returns the size of an earlier part if its version (etag) is known, otherwise 0. */
static uint64_t part_size(const call *k, char etag[80])
{
    struct stat sb;
    sefl_buf b = { 0 };
    etag[0] = 0;
    bool good = fstat(k->fd, &sb) == 0 && sb.st_size > 0 && file_exists(k->side) &&
                file_read(&b, k->side, 79) == SEFL_OK && b.n > 0 && !memchr(b.p, '"', b.n) &&
                !memchr(b.p, '\n', b.n);
    if (good)
        snprintf(etag, 80, "%.*s", (int)b.n, (const char *)b.p);
    buf_clear(&b);
    return good ? (uint64_t)sb.st_size : 0;
}

/* The part is complete: syncs it, renames it and syncs the folder. */
static sefl_status file_finish(call *k)
{
    SEFL_PASS(file_sync(k->fd, k->part));
    SEFL_NEED(rename(k->part, k->to) == 0, SEFL_EIO, "cannot rename %s: %s", k->part,
              strerror(errno));
    unlink(k->side);
    return file_sync_parent(k->to);
}

static sefl_status get_file_once(call *k, https_client *c, const char *path, const char *to,
                                 uint64_t max, const sefl_progress *progress, https_reply *r)
{
    sefl_status st = SEFL_OK;
    char etag[80], range[40], line[100];
    SEFL_TRY(prepare(k, c, path, NULL, r, REPLY_MAX));
    k->to = to, k->max = max, k->progress = progress;
    SEFL_CHECK(snprintf(k->part, sizeof k->part, "%s.part", to) < (int)sizeof k->part &&
                   snprintf(k->side, sizeof k->side, "%s.part.etag", to) < (int)sizeof k->side,
               SEFL_EINVAL, "https: the path is too long");
    k->fd = open(k->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    SEFL_CHECK(k->fd >= 0, SEFL_EIO, "cannot open %s: %s", k->part, strerror(errno));
    k->at = part_size(k, etag);
    if (k->at > 0) {
        SEFL_CHECK(lseek(k->fd, (off_t)k->at, SEEK_SET) >= 0, SEFL_EIO, "%s: %s", k->part,
                   strerror(errno));
        snprintf(range, sizeof range, "%llu-", (unsigned long long)k->at);
        snprintf(line, sizeof line, "If-Range: \"%s\"", etag);
        SEFL_TRY(add_line(&k->lines, line));
        curl_easy_setopt(c->easy, CURLOPT_RANGE, range);
    }
    SEFL_TRY(drive(k, c->stall_s));
    if (r->status == 200 && !k->begun) /* an empty file */
        SEFL_TRY(file_begin(k));
    if (r->status == 200 || r->status == 206)
        SEFL_TRY(file_finish(k));
done:
    return call_end(k, st);
}

sefl_status https_get_file(https_client *c, const char *path, const char *to, uint64_t max,
                           const sefl_progress *progress, https_reply *r)
{
    call k;
    sefl_status st = get_file_once(&k, c, path, to, max, progress, r);
    if (st == SEFL_OK && r->status == 416) { /* our part is longer than their file: start over */
        unlink(k.part), unlink(k.side);
        https_reply_clear(r);
        st = get_file_once(&k, c, path, to, max, progress, r);
    }
    if (st == SEFL_ERANGE)
        unlink(k.part), unlink(k.side);
    return st;
}

sefl_status https_put_file(https_client *c, const char *path, const char *from, uint64_t offset,
                           const char *headers, const sefl_progress *progress, https_reply *r)
{
    sefl_status st = SEFL_OK;
    struct stat sb;
    call k;
    SEFL_TRY(prepare(&k, c, path, headers, r, REPLY_MAX));
    k.fd = open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    SEFL_CHECK(k.fd >= 0, errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO, "cannot open %s: %s", from,
               strerror(errno));
    SEFL_CHECK(fstat(k.fd, &sb) == 0 && S_ISREG(sb.st_mode), SEFL_EINVAL, "%s is not a file", from);
    k.size = (uint64_t)sb.st_size;
    SEFL_CHECK(offset <= k.size, SEFL_EINVAL, "%s: offset %llu beyond its %llu bytes", from,
               (unsigned long long)offset, (unsigned long long)k.size);
    k.from = k.at = offset;
    k.progress = progress;
    /* lets the server refuse before the body is sent */
    SEFL_TRY(
        add_line(&k.lines, k.size - offset >= EXPECT_FROM ? "Expect: 100-continue" : "Expect:"));
    curl_easy_setopt(c->easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(c->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)(k.size - offset));
    curl_easy_setopt(c->easy, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(c->easy, CURLOPT_READDATA, &k);
    curl_easy_setopt(c->easy, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(c->easy, CURLOPT_SEEKDATA, &k);
    curl_easy_setopt(c->easy, CURLOPT_EXPECT_100_TIMEOUT_MS, 5000L);
    SEFL_TRY(drive(&k, c->stall_s));
done:
    return call_end(&k, st);
}

void https_reply_clear(https_reply *r)
{
    buf_clear(&r->body);
    *r = (https_reply){ .number = UINT64_MAX };
}

/* ---- the client -------------------------------------------------------------------------- */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void curl_begin(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

sefl_status https_proxy_check(const char *proxy)
{
    SEFL_NEED(!proxy || !strstr(proxy, "://") || strncasecmp(proxy, "http://", 7) == 0, SEFL_EINVAL,
              "a proxy must be http://host:port");
    return SEFL_OK;
}

sefl_status https_client_new(https_client **out, const https_client_config *config)
{
    SEFL_MAKE(https_client, c, out);
    SEFL_CHECK(config->host && config->host[0] && config->port && !config->id == !!config->pin,
               SEFL_EINVAL,
               "https: a client needs a host, a port, and an identity or a pinned server key");
    SEFL_CHECK(!strpbrk(config->host, "/@?#[] \t\r\n") && strlen(config->host) <= 253, SEFL_EINVAL,
               "https: bad host \"%.64s\"", config->host);
    SEFL_TRY(https_proxy_check(config->proxy));
    pthread_once(&curl_once, curl_begin);
    SEFL_CHECK(curl_ready == CURLE_OK, SEFL_EUNSUPPORTED, "https: libcurl cannot be initialised");
    SEFL_TRY(sefl_strdup(&c->host, config->host));
    SEFL_TRY(sefl_strdup(&c->role, config->server_role ? config->server_role : "aggregator"));
    if (config->proxy)
        SEFL_TRY(sefl_strdup(&c->proxy, config->proxy));
    c->may_send = config->may_send;
    SEFL_TRY(add_lines(c, &c->always, config->headers));
    c->number_field = config->number_field;
    c->port = config->port;
    c->connect_ms = config->connect_ms ? config->connect_ms : 10000;
    c->stall_s = config->stall_s ? config->stall_s : 30;
    if (config->id)
        c->id = tls_id_hold(config->id);
    else
        memcpy(c->pin, config->pin, sizeof c->pin);
    c->easy = curl_easy_init();
    c->multi = curl_multi_init();
    SEFL_CHECK(c->easy && c->multi, SEFL_ENOMEM, "https: out of memory");
    /* one server, one connection */
    curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, 1L);
    SEFL_HAND_OVER(out, c, https_client_free);
}

void https_client_free(https_client *c)
{
    if (!c)
        return;
    if (c->easy)
        curl_easy_cleanup(c->easy);
    if (c->multi)
        curl_multi_cleanup(c->multi);
    curl_slist_free_all(c->always);
    tls_id_free(c->id);
    sefl_free(c->host);
    sefl_free(c->proxy);
    sefl_free(c->role);
    sefl_free(c);
}

void https_client_interrupt(https_client *c)
{
    atomic_store(&c->interrupted, true);
    curl_multi_wakeup(c->multi);
}
