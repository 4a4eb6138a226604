/* What a server, a proxy and the network do to a client: requests with a fake libcurl, which calls
 * back with header lines, bytes, pauses, failures and a TLS peer as the input says. Input: a byte of
 * settings, then calls; the steps of each call follow it. An answer is within the caller's limit,
 * header values are bounded and unambiguous, a request leaves only after the peer was verified, a
 * download that succeeds has the server's bytes from the first on, and an upload sends the file's. */
#define _GNU_SOURCE
#include "base/file.h"
#include "base/span.h"
#include "net/socket.h"
#include "net/tls_inside.h"
#include "support/must.h"

#include <curl/curl.h>

static uint64_t fake_now_ms(void);
static void check_session(x509_peer *p, const x509_want *want);

#define socket_now_ms()                    fake_now_ms()
#define x509_check_session(p, s, cas, ...) ((void)(s), (void)(cas), check_session(p, __VA_ARGS__))
#include "net/https_client.c"

#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX = 64, FILE_MAX = 200, SENT = 150 };

static struct {
    rd *in;
    uint64_t ms;
    long status;
    bool trusted, running, told, ready, upload, nobody, interrupts;
    CURLcode result;
    uint64_t at, up, down; /* at: the next byte of the server's file */
    uint64_t from;         /* upload: where it starts */
    curl_off_t length;
    char *error;
    struct curl_slist *lines;
    void *ready_ctx, *header_ctx, *write_ctx, *read_ctx, *seek_ctx, *progress_ctx;
    curl_prereq_callback on_ready;
    curl_write_callback on_header, on_bytes;
    curl_read_callback on_read;
    curl_seek_callback on_seek;
    curl_xferinfo_callback on_progress;
    char range[40];
    uint64_t sent; /* upload: the next byte to be read */
} net;

static uint8_t next(void)
{
    uint8_t b = 0;
    return rd_u8(net.in, &b) == SEFL_OK ? b : 0;
}

static uint64_t fake_now_ms(void)
{
    return net.ms;
}

static uint8_t byte_at(uint64_t i)
{
    return (uint8_t)(i * 7 + 1);
}

static void check_session(x509_peer *p, const x509_want *want)
{
    MUST(want->server && strcmp(want->role, "aggregator") == 0);
    MUST(want->pin_only == (want->fingerprint != NULL));
    *p = (x509_peer){ .code = net.trusted ? X509_OK : X509_WRONG_ROLE, .why = "the wrong role" };
}

/* ---- libcurl --------------------------------------------------------------------------------- */

CURLcode curl_easy_setopt(CURL *easy, CURLoption o, ...)
{
    va_list ap;
    MUST(easy == &net);
    va_start(ap, o);
    if (o < CURLOPTTYPE_OBJECTPOINT) { /* a long */
        const long v = va_arg(ap, long);
        net.upload = net.upload || (o == CURLOPT_UPLOAD && v);
        net.nobody = net.nobody || (o == CURLOPT_NOBODY && v);
        MUST(o != CURLOPT_FOLLOWLOCATION || v == 0);
        MUST(o != CURLOPT_POSTFIELDSIZE || v <= EXPECT_FROM);
    } else if (o >= CURLOPTTYPE_OFF_T) {
        const curl_off_t v = va_arg(ap, curl_off_t);
        MUST(o != CURLOPT_INFILESIZE_LARGE || v <= SENT);
    } else if (o >= CURLOPTTYPE_FUNCTIONPOINT) {
        switch (o) {
        case CURLOPT_PREREQFUNCTION:
            net.on_ready = va_arg(ap, curl_prereq_callback);
            break;
        case CURLOPT_HEADERFUNCTION:
            net.on_header = va_arg(ap, curl_write_callback);
            break;
        case CURLOPT_WRITEFUNCTION:
            net.on_bytes = va_arg(ap, curl_write_callback);
            break;
        case CURLOPT_READFUNCTION:
            net.on_read = va_arg(ap, curl_read_callback);
            break;
        case CURLOPT_SEEKFUNCTION:
            net.on_seek = va_arg(ap, curl_seek_callback);
            break;
        case CURLOPT_XFERINFOFUNCTION:
            net.on_progress = va_arg(ap, curl_xferinfo_callback);
            break;
        default:
            MUST(false);
        }
    } else {
        void *v = va_arg(ap, void *);
        net.ready_ctx = o == CURLOPT_PREREQDATA ? v : net.ready_ctx;
        net.header_ctx = o == CURLOPT_HEADERDATA ? v : net.header_ctx;
        net.write_ctx = o == CURLOPT_WRITEDATA ? v : net.write_ctx;
        net.read_ctx = o == CURLOPT_READDATA ? v : net.read_ctx;
        net.seek_ctx = o == CURLOPT_SEEKDATA ? v : net.seek_ctx;
        net.progress_ctx = o == CURLOPT_XFERINFODATA ? v : net.progress_ctx;
        net.error = o == CURLOPT_ERRORBUFFER ? v : net.error;
        net.lines = o == CURLOPT_HTTPHEADER ? v : net.lines;
        if (o == CURLOPT_RANGE)
            snprintf(net.range, sizeof net.range, "%s", (const char *)v);
    }
    va_end(ap);
    return CURLE_OK;
}

CURLcode curl_easy_getinfo(CURL *easy, CURLINFO what, ...)
{
    static struct curl_tlssessioninfo info = { .backend = CURLSSLBACKEND_GNUTLS,
                                               .internals = &info };
    va_list ap;
    MUST(easy == &net);
    va_start(ap, what);
    if (what == CURLINFO_RESPONSE_CODE)
        *va_arg(ap, long *) = net.status;
    else if (what == CURLINFO_SIZE_UPLOAD_T)
        *va_arg(ap, curl_off_t *) = (curl_off_t)net.up;
    else if (what == CURLINFO_SIZE_DOWNLOAD_T)
        *va_arg(ap, curl_off_t *) = (curl_off_t)net.down;
    else if (what == CURLINFO_CONTENT_LENGTH_DOWNLOAD_T)
        *va_arg(ap, curl_off_t *) = net.length;
    else
        *va_arg(ap, struct curl_tlssessioninfo **) = &info;
    va_end(ap);
    return CURLE_OK;
}

CURL *curl_easy_init(void)
{
    return &net;
}

void curl_easy_cleanup(CURL *easy)
{
    MUST(easy == &net);
}

void curl_easy_reset(CURL *easy)
{
    MUST(easy == &net);
}

CURLM *curl_multi_init(void)
{
    return &net;
}

CURLMcode curl_multi_cleanup(CURLM *m)
{
    MUST(m == &net);
    return CURLM_OK;
}

CURLMcode curl_multi_setopt(CURLM *m, CURLMoption o, ...)
{
    MUST(m == &net && o == CURLMOPT_MAXCONNECTS);
    return CURLM_OK;
}

CURLMcode curl_multi_add_handle(CURLM *m, CURL *easy)
{
    MUST(m == easy && !net.running);
    net.running = true, net.told = false;
    return CURLM_OK;
}

CURLMcode curl_multi_remove_handle(CURLM *m, CURL *easy)
{
    MUST(m == easy);
    net.running = false;
    return CURLM_OK;
}

CURLMcode curl_multi_poll(CURLM *m, struct curl_waitfd *fds, unsigned n, int ms, int *seen)
{
    MUST(m == &net && !fds && n == 0 && ms > 0 && !seen);
    net.ms += (unsigned)ms;
    return CURLM_OK;
}

CURLMcode curl_multi_wakeup(CURLM *m)
{
    MUST(m == &net);
    return CURLM_OK;
}

CURLMsg *curl_multi_info_read(CURLM *m, int *left)
{
    static CURLMsg msg;
    MUST(m == &net);
    if (net.told)
        return NULL;
    net.told = true;
    msg = (CURLMsg){ .msg = CURLMSG_DONE, .easy_handle = &net, .data.result = net.result };
    *left = 0;
    return &msg;
}

/* ---- the network ----------------------------------------------------------------------------- */

static void over(CURLcode how)
{
    net.result = how;
    net.running = false;
}

static void a_line(void)
{
    char text[128];
    size_t n = 0;
    uint8_t b;
    while (n < sizeof text && rd_u8(net.in, &b) == SEFL_OK) {
        text[n++] = (char)b;
        if (b == '\n')
            break;
    }
    char *exact = malloc(n ? n : 1); /* no terminator after it, as libcurl promises none */
    MUST(exact);
    memcpy(exact, text, n);
    const https_reply *r = ((call *)net.header_ctx)->r;
    MUST(net.on_header(exact, 1, n, net.header_ctx) == n);
    free(exact);
    MUST(memchr(r->etag, 0, sizeof r->etag) && !strchr(r->etag, '"'));
    MUST(r->number == UINT64_MAX || r->number <= UINT64_C(9999999999999999999));
}

/* The server's file from `at` on; or text, which is no file. */
static void bytes(size_t n)
{
    char p[256];
    const bool file = net.status == 200 || net.status == 206;
    for (size_t i = 0; i < n; i++)
        p[i] = (char)byte_at(net.at + i);
    net.at += file ? n : 0;
    net.down += n;
    if (net.on_bytes(p, 1, n, net.write_ctx) != n)
        over(CURLE_WRITE_ERROR);
}

static void reads(size_t n)
{
    char p[256];
    const size_t got = net.on_read(p, 1, n, net.read_ctx);
    if (got == CURL_READFUNC_ABORT) {
        over(CURLE_ABORTED_BY_CALLBACK);
        return;
    }
    MUST(got <= n && got <= SENT - net.sent && (got > 0 || n == 0 || net.sent == SENT));
    for (size_t i = 0; i < got; i++)
        MUST((uint8_t)p[i] == byte_at(net.sent + i));
    net.sent += got, net.up += got;
}

static void said(uint8_t b)
{
    static const long statuses[] = { 200, 206, 404, 409, 410, 416, 503, 100 };
    if (net.status >= 200)
        return; /* one answer, but for 100 Continue */
    net.status = statuses[b % 8];
    net.at = net.status == 206 ? strtoull(net.range, NULL, 10) : 0;
}

CURLMcode curl_multi_perform(CURLM *m, int *running)
{
    static const CURLcode ends[] = { CURLE_OK,
                                     CURLE_COULDNT_CONNECT,
                                     CURLE_OPERATION_TIMEDOUT,
                                     CURLE_PEER_FAILED_VERIFICATION,
                                     CURLE_SSL_CERTPROBLEM,
                                     CURLE_OUT_OF_MEMORY,
                                     CURLE_COULDNT_RESOLVE_PROXY,
                                     CURLE_OK };
    const uint8_t b = next(), more = b / 8;
    MUST(m == &net);
    if (!net.ready && b % 8 < 5) {
        net.trusted = more != 31;
        net.ready = net.on_ready(net.ready_ctx, NULL, NULL, 0, 0) == CURL_PREREQFUNC_OK;
        MUST(net.ready == net.trusted);
        if (!net.ready)
            over(CURLE_ABORTED_BY_CALLBACK);
    } else {
        switch (b % 8) {
        case 0:
            a_line();
            break;
        case 1:
            said(more);
            break;
        case 2:
            if (!net.nobody && net.status != 0)
                bytes(more + 1u);
            break;
        case 3:
            if (net.upload)
                reads(8u * more);
            break;
        case 4:
            if (net.upload && net.on_seek(net.seek_ctx, more * 8,
                                          more == 9 ? SEEK_CUR : SEEK_SET) == CURL_SEEKFUNC_OK) {
                MUST(net.from + more * 8u <= SENT && more != 9);
                net.sent = net.from + more * 8u;
            }
            break;
        case 5:
            net.ms += 1000u * more;
            if (net.on_progress(net.progress_ctx, 0, 0, 0, 0) != 0)
                over(CURLE_ABORTED_BY_CALLBACK);
            break;
        case 6:
            net.length = more * 8 - 1;
            snprintf(net.error, CURL_ERROR_SIZE, "%s", more % 2 ? "" : "bad Proxy u:p@h");
            if (more == 30)
                net.interrupts = true;
            break;
        default:
            over(net.ready ? ends[more % 8] : CURLE_COULDNT_CONNECT);
        }
    }
    if (net.in->left == 0 && net.running)
        over(CURLE_OPERATION_TIMEDOUT);
    *running = net.running;
    return CURLM_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static char folder[128], to[160], part[168], side[176], up[160];

static void remove_all(void)
{
    unlink(to), unlink(part), unlink(side);
}

static void remove_folder(void)
{
    remove_all();
    unlink(up);
    rmdir(folder);
}

static void make_folder(void)
{
    uint8_t p[SENT];
    MUST_OK(file_temp_folder(folder, sizeof folder, "fuzz-client"));
    MUST(atexit(remove_folder) == 0);
    file_sync_skip(true);
    snprintf(to, sizeof to, "%s/f", folder);
    snprintf(part, sizeof part, "%s.part", to);
    snprintf(side, sizeof side, "%s.part.etag", to);
    snprintf(up, sizeof up, "%s/up", folder);
    for (size_t i = 0; i < sizeof p; i++)
        p[i] = byte_at(i);
    MUST_OK(file_write_atomic(up, span_of(p, sizeof p), 0600));
}

/* A file that the client calls complete is the beginning of the server's. */
static void check_file(const https_reply *r, uint64_t max)
{
    sefl_buf b = { 0 };
    if (r->status != 200 && r->status != 206)
        return;
    MUST_OK(file_read(&b, to, FILE_MAX));
    MUST(b.n <= max);
    for (size_t i = 0; i < b.n; i++)
        MUST(b.p[i] == byte_at(i));
    MUST(!file_exists(part) && !file_exists(side));
    buf_clear(&b);
}

static bool may_send(const char *name, size_t n)
{
    return n > 5 && memcmp(name, "Sefl-", 5) == 0;
}

static bool watched(void *ctx, uint64_t done, uint64_t all)
{
    (void)ctx, (void)done, (void)all;
    return next() != 77;
}

static void one_call(https_client *c)
{
    https_reply r;
    const uint8_t b = next();
    const sefl_progress progress = { .report = watched };
    sefl_status st;
    net.status = 0, net.up = net.down = net.at = net.sent = net.from = 0, net.length = -1;
    net.ready = net.upload = net.nobody = net.interrupts = false;
    net.range[0] = 0;
    switch (b % 6) {
    case 0:
        st = https_get(c, b & 0x40 ? "bad" : "/v1/task", MAX, b / 8, &r);
        MUST(b & 0x40 ? st != SEFL_OK : r.body.n <= MAX);
        break;
    case 1:
        st = https_head(c, "/v1/x", b & 0x40 ? "Other: 1\n" : "Sefl-Offset: 1\n", &r);
        MUST(r.body.n == 0 && (!(b & 0x40) || st != SEFL_OK));
        break;
    case 2:
        st = https_post(c, "/v1/y", span_of("abc", b / 8 % 4), MAX, 1, &r);
        MUST(r.body.n <= MAX);
        break;
    case 3:
    case 4:
        st = https_get_file(c, "/v1/model", to, b / 8 * 8u, b & 8 ? &progress : NULL, &r);
        if (st == SEFL_OK)
            check_file(&r, b / 8 * 8u);
        MUST(st != SEFL_ERANGE || !file_exists(part));
        break;
    default:
        net.from = net.sent = b / 6 * 4u;
        st = https_put_file(c, "/v1/up", up, net.from, "Sefl-Offset: 1\nSefl-Total: 150\n",
                            b & 8 ? &progress : NULL, &r);
        MUST(st != SEFL_OK || net.from <= SENT);
    }
    MUST(st != SEFL_OK || (net.ready && net.result == CURLE_OK && r.status == net.status));
    MUST(st == SEFL_OK || *sefl_last_error());
    MUST(!strstr(sefl_last_error(), "u:p@h")); /* a password */
    if (net.interrupts)
        https_client_interrupt(c);
    https_reply_clear(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tls_id id = { .holders = 1000000 };
    static const uint8_t pin[32] = { 1 };
    rd in = rd_over(span_of(data, size));
    https_client *c;
    if (!folder[0])
        make_folder();
    memset(&net, 0, sizeof net);
    net.in = &in, net.ms = 1000;
    id.holders = 1000000;
    const uint8_t b = next();
    MUST_OK(https_client_new(&c, &(https_client_config){ .host = b & 2 ? "::1" : "as.example",
                                                         .port = 7000,
                                                         .id = b & 1 ? &id : NULL,
                                                         .pin = b & 1 ? NULL : pin,
                                                         .proxy = b & 4 ? "" : NULL,
                                                         .headers = "Sefl-Version: 0.2\n",
                                                         .may_send = may_send,
                                                         .number_field = "Sefl-Offset",
                                                         .stall_s = 5 }));
    for (int i = 0; i < 16 && in.left > 0; i++)
        one_call(c);
    https_client_free(c);
    remove_all();
    return 0;
}
