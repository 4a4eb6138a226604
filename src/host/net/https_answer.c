/* Answers: the request keeps its answer until the handler returns, then libmicrohttpd gets it. */
#define _GNU_SOURCE
#include "base/alloc.h"
#include "net/https_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BLOCK = 64 << 10, EARLY_MAX = 16 << 10 };

static void set(https_inner *in, unsigned status, const char *type, const char *headers)
{
    in->status = status;
    if ((type && sefl_strdup(&in->type, type) != SEFL_OK) ||
        (headers && sefl_strdup(&in->headers, headers) != SEFL_OK))
        in->status = 500;
}

void https_answer(https_request *r, unsigned status, const char *type, const char *headers,
                  sefl_span body)
{
    https_inner *in = r->inner;
    if (in->status != 0)
        return;
    set(in, status, type, headers);
    if (body.n > 0 && wr_raw(&in->body, body.p, body.n) != SEFL_OK)
        in->status = 500;
}

void https_answer_line(https_request *r, unsigned status, const char *headers, const char *line)
{
    char text[512];
    int n = snprintf(text, sizeof text, "%.*s\n", (int)sizeof text - 2, line);
    for (int i = 0; i < n - 1; i++) /* one line, even if it quotes a peer */
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = ' ';
    https_answer(r, status, "text/plain; charset=utf-8", headers, span_of_str(text));
}

void https_answer_text(https_request *r, unsigned status, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    https_answer_line(r, status, NULL, line);
}

/* ---- files ------------------------------------------------------------------------------- */

/* True if the etag is in a list such as `"a", W/"b"`, or the list is `*`. */
static bool lists_etag(const char *list, const char *etag)
{
    size_t n = strlen(etag);
    if (!list)
        return false;
    if (strcmp(list, "*") == 0)
        return true;
    for (const char *p = strchr(list, '"'); p; p = strchr(p, '"')) {
        const char *end = strchr(++p, '"');
        if (!end)
            return false;
        if ((size_t)(end - p) == n && memcmp(p, etag, n) == 0)
            return true;
        p = end + 1;
    }
    return false;
}

static bool digits(const char **p, uint64_t *out)
{
    char *end;
    if (**p < '0' || **p > '9')
        return false;
    errno = 0;
    *out = strtoull(*p, &end, 10);
    *p = end;
    return errno == 0;
}

typedef enum range_kind { RANGE_NONE, RANGE_GOOD, RANGE_OUTSIDE } range_kind;

/* Parses a single byte range; for anything else the answer is the whole file. */
static range_kind range_parse(const char *s, uint64_t size, uint64_t *at, uint64_t *n)
{
    uint64_t a, b = UINT64_MAX;
    if (!s || strncmp(s, "bytes=", 6) != 0)
        return RANGE_NONE;
    s += 6;
    if (*s == '-') {
        s++;
        if (!digits(&s, &b) || *s)
            return RANGE_NONE;
        if (b == 0 || size == 0)
            return RANGE_OUTSIDE;
        *n = b < size ? b : size;
        *at = size - *n;
        return RANGE_GOOD;
    }
    if (!digits(&s, &a) || *s++ != '-' || (*s && !digits(&s, &b)) || *s || b < a)
        return RANGE_NONE;
    if (a >= size)
        return RANGE_OUTSIDE;
    *at = a;
    *n = b < size - 1 ? b - a + 1 : size - a;
    return RANGE_GOOD;
}

void https_answer_file(https_request *r, const char *path, const char *type, const char *etag)
{
    https_inner *in = r->inner;
    struct stat sb;
    char headers[256];
    if (in->status != 0)
        return;
    snprintf(headers, sizeof headers, "ETag: \"%.80s\"\n", etag);
    if (lists_etag(https_header(r, "If-None-Match"), etag)) {
        https_answer(r, 304, NULL, headers, (sefl_span){ 0 });
        return;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &sb) != 0 || !S_ISREG(sb.st_mode)) {
        bool gone = fd < 0 && errno == ENOENT;
        if (fd >= 0)
            close(fd);
        https_answer_text(r, gone ? 404 : 500,
                          gone ? "no such file" : "the file cannot be read here");
        return;
    }
    uint64_t size = (uint64_t)sb.st_size, at = 0, n = size;
    const char *only_if = https_header(r, "If-Range");
    range_kind kind = RANGE_NONE;
    if (!only_if || lists_etag(only_if, etag))
        kind = range_parse(https_header(r, "Range"), size, &at, &n);
    size_t used = strlen(headers);
    if (kind == RANGE_OUTSIDE) {
        close(fd);
        snprintf(headers + used, sizeof headers - used, "Content-Range: bytes */%llu\n",
                 (unsigned long long)size);
        https_answer(r, 416, NULL, headers, (sefl_span){ 0 });
        return;
    }
    used += (size_t)snprintf(headers + used, sizeof headers - used, "Accept-Ranges: bytes\n");
    if (kind == RANGE_GOOD)
        snprintf(headers + used, sizeof headers - used, "Content-Range: bytes %llu-%llu/%llu\n",
                 (unsigned long long)at, (unsigned long long)(at + n - 1),
                 (unsigned long long)size);
    set(in, kind == RANGE_GOOD ? 206 : 200, type, headers);
    in->fd = fd, in->file_at = at, in->file_n = n;
}

typedef struct file_source {
    int fd;
    uint64_t at;
} file_source;

static ssize_t file_piece(void *ctx, uint64_t pos, char *to, size_t max)
{
    const file_source *f = ctx;
    ssize_t n;
    do
        n = pread(f->fd, to, max, (off_t)(f->at + pos));
    while (n < 0 && errno == EINTR);
    return n > 0 ? n : MHD_CONTENT_READER_END_WITH_ERROR; /* it became shorter: abort */
}

static void file_done(void *ctx)
{
    file_source *f = ctx;
    close(f->fd);
    sefl_free(f);
}

/* ---- to libmicrohttpd -------------------------------------------------------------------- */

static struct MHD_Response *response_of(https_inner *in)
{
    struct MHD_Response *resp = NULL;
    if (in->fd >= 0) {
        file_source *f;
        if (sefl_new(&f, 1, sizeof *f) != SEFL_OK)
            return NULL;
        *f = (file_source){ .fd = in->fd, .at = in->file_at };
        /* a callback with large blocks: with TLS libmicrohttpd has no sendfile, and would itself
         * read the file in pieces of 4 KiB */
        resp = MHD_create_response_from_callback(in->file_n, FILE_BLOCK, file_piece, f, file_done);
        if (resp)
            in->fd = -1;
        else
            sefl_free(f);
    } else if (in->body.n > 0) {
        resp = MHD_create_response_from_buffer_with_free_callback_cls(in->body.n, in->body.p,
                                                                      sefl_free, in->body.p);
        if (resp)
            in->body = (sefl_buf){ 0 };
    } else {
        resp = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    }
    return resp;
}

static bool add_headers(struct MHD_Response *resp, const char *lines)
{
    for (const char *p = lines; p && *p;) {
        const char *end = strchr(p, '\n'), *colon = strchr(p, ':');
        char name[64], value[512];
        size_t n = end ? (size_t)(end - p) : strlen(p);
        if (!colon || (size_t)(colon - p) >= n || (size_t)(colon - p) >= sizeof name ||
            n - (size_t)(colon - p) > sizeof value)
            return false;
        snprintf(name, sizeof name, "%.*s", (int)(colon - p), p);
        for (colon++; *colon == ' '; colon++)
            ;
        snprintf(value, sizeof value, "%.*s", (int)(p + n - colon), colon);
        if (MHD_add_response_header(resp, name, value) != MHD_YES)
            return false;
        p += n + (end != NULL);
    }
    return true;
}

enum MHD_Result https_answer_queue(https_inner *in)
{
    const uint64_t bytes = in->fd >= 0 ? in->file_n : in->body.n;
    struct MHD_Response *resp = response_of(in);
    if (!resp)
        return MHD_NO;
    bool good = (!in->type || MHD_add_response_header(resp, "Content-Type", in->type) == MHD_YES) &&
                add_headers(resp, in->headers) && add_headers(resp, in->conn->server->c.headers);
    /* makes a stranger open a new connection per request: connections are limited by address */
    if (in->conn->surplus || in->conn->crowded || in->conn->peer.code != X509_OK)
        good = good && MHD_add_response_header(resp, "Connection", "close") == MHD_YES;
    enum MHD_Result ok = good ? MHD_queue_response(in->conn->mhd, in->status, resp) : MHD_NO;
    MHD_destroy_response(resp);
    if (ok == MHD_YES && strcmp(in->r.method, "HEAD") != 0)
        atomic_fetch_add(&in->conn->server->sent, bytes);
    return ok;
}

static sefl_status early_lines(sefl_buf *b, const char *lines)
{
    for (const char *p = lines; p && *p;) {
        size_t n = strcspn(p, "\n");
        SEFL_PASS(wr_fmt(b, "%.*s\r\n", (int)n, p));
        p += n + (p[n] == '\n');
    }
    return SEFL_OK;
}

static sefl_status early_bytes(const https_inner *in, sefl_buf *b)
{
    const char *phrase = MHD_get_reason_phrase_for(in->status);
    SEFL_PASS(wr_fmt(b, "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Length: %zu\r\n",
                     in->status, phrase ? phrase : "", in->body.n));
    if (in->type)
        SEFL_PASS(wr_fmt(b, "Content-Type: %s\r\n", in->type));
    SEFL_PASS(early_lines(b, in->headers));
    SEFL_PASS(early_lines(b, in->conn->server->c.headers));
    SEFL_PASS(wr_fmt(b, "\r\n"));
    return wr_raw(b, in->body.p, in->body.n);
}

void https_answer_early(https_inner *in)
{
    sefl_buf b = { .max = EARLY_MAX };
    /* a few hundred bytes into an idle send buffer: if it does not accept them, the peer only sees
     * the close */
    if (in->fd < 0 && early_bytes(in, &b) == SEFL_OK)
        (void)!gnutls_record_send(in->conn->tls, b.p, b.n);
    buf_clear(&b);
}

void https_answer_clear(https_inner *in)
{
    if (in->fd >= 0)
        close(in->fd);
    in->fd = -1;
    buf_clear(&in->body);
    sefl_free(in->type);
    sefl_free(in->headers);
}
