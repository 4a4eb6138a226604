#include "net/local_http.h"

#include "base/alloc.h"
#include "net/https_inside.h"
#include "net/socket.h"

#include <string.h>
#include <unistd.h>

enum { CONNECTIONS = 16, IDLE_S = 5, CONNECTION_BYTES = 8 << 10 };

struct local_http {
    local_http_config c;
    struct MHD_Daemon *daemon;
    uint16_t port;
};

static enum MHD_Result answer(struct MHD_Connection *conn, unsigned status, const char *type,
                              sefl_span body)
{
    /* libmicrohttpd only copies it */
    struct MHD_Response *r =
        MHD_create_response_from_buffer(body.n, (void *)(uintptr_t)body.p, MHD_RESPMEM_MUST_COPY);
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "Cache-Control", "no-store");
    MHD_add_response_header(r, "Connection", "close");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, "Allow", "GET, HEAD");
    enum MHD_Result rc = MHD_queue_response(conn, status, r);
    MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result answer_text(struct MHD_Connection *conn, unsigned status, const char *line)
{
    return answer(conn, status, "text/plain; charset=utf-8", span_of_str(line));
}

static enum MHD_Result answer_page(local_http *h, const local_page *p, struct MHD_Connection *conn)
{
    sefl_buf body = { 0 };
    unsigned status = MHD_HTTP_OK;
    enum MHD_Result rc;
    if (p->make(h->c.ctx, &body, &status) == SEFL_OK) {
        rc = answer(conn, status, p->type, buf_span(&body));
    } else {
        log_error(h->c.log, "page not created", lf_str("path", p->path),
                  lf_str("why", sefl_last_error()));
        rc = answer_text(conn, MHD_HTTP_INTERNAL_SERVER_ERROR, "failed; see the server's log\n");
    }
    buf_clear(&body);
    return rc;
}

static const local_page *find(const local_http *h, const char *path)
{
    for (size_t i = 0; i < h->c.pages_n; i++)
        if (strcmp(h->c.pages[i].path, path) == 0)
            return &h->c.pages[i];
    return NULL;
}

/* Answers in the first call: libmicrohttpd then closes the connection and reads no body. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_n, void **ctx)
{
    local_http *h = cls;
    (void)version, (void)data, (void)data_n, (void)ctx;
    const local_page *p = find(h, path);
    if (!p)
        return answer_text(conn, MHD_HTTP_NOT_FOUND, "no such path\n");
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return answer_text(conn, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only\n");
    return answer_page(h, p, conn);
}

sefl_status local_http_check(const char *address)
{
    SEFL_NEED(socket_is_loopback(address), SEFL_EINVAL,
              "\"%.64s\" is not a loopback address: these pages need no certificate, so only this "
              "machine may read them; use 127.0.0.1:PORT or [::1]:PORT",
              address);
    return SEFL_OK;
}

sefl_status local_http_start(local_http **out, const local_http_config *c)
{
    int fd = -1;
    SEFL_MAKE(local_http, h, out);
    SEFL_TRY(local_http_check(c->address));
    h->c = *c;
    SEFL_TRY(socket_listen(&fd, c->address, c->port, &h->port));
    h->daemon = MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, h,
        MHD_OPTION_EXTERNAL_LOGGER, https_mhd_log, c->log, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    SEFL_CHECK(h->daemon, SEFL_EIO, "the health page cannot start on %s port %u", c->address,
               h->port);
    fd = -1; /* the daemon's now */
    log_info(c->log, "health", lf_str("host", c->address), lf_u64("port", h->port));
    *out = h, h = NULL;
done:
    if (fd >= 0)
        close(fd);
    local_http_stop(h);
    return st;
}

uint16_t local_http_port(const local_http *h)
{
    return h->port;
}

void local_http_stop(local_http *h)
{
    if (!h)
        return;
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    sefl_free(h);
}
