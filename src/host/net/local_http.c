#include "net/local_http.h"

#include "base/alloc.h"
#include "net/web_server.h"

#include <string.h>

struct local_http {
    local_http_config c;
    web_server *server;
};

static const local_page *local_http_find(const local_http *h, const char *path)
{
    for (size_t i = 0; i < h->c.pages_n; i++)
        if (strcmp(h->c.pages[i].path, path) == 0)
            return &h->c.pages[i];
    return NULL;
}

/* An empty answer if memory runs out. */
static void answer_text(web_answer *a, unsigned status, const char *line)
{
    buf_reset(&a->body);
    a->status = status;
    (void)!wr_fmt(&a->body, "%s", line);
}

static void handle(void *ctx, const web_request *r, web_answer *a)
{
    const local_http *h = ctx;
    const local_page *p = local_http_find(h, r->path);
    if (!web_host_fits(web_header(r, "Host"), r->port)) {
        answer_text(a, 403, "only the name localhost or a loopback address, with the port\n");
    } else if (!p) {
        answer_text(a, 404, "no such path\n");
    } else if (p->make(h->c.ctx, &a->body, &a->status) == SEFL_OK) {
        a->type = p->type;
    } else {
        log_error(h->c.log, "page not created", lf_str("path", p->path),
                  lf_str("why", sefl_last_error()));
        answer_text(a, 500, "failed; see the server's log\n");
    }
}

sefl_status local_http_check(const char *address)
{
    return web_server_check_loopback(address);
}

sefl_status local_http_start(local_http **out, const local_http_config *c)
{
    SEFL_MAKE(local_http, h, out);
    h->c = *c;
    SEFL_TRY(web_server_start(
        &h->server,
        &(web_server_config){
            .address = c->address, .port = c->port, .handle = handle, .ctx = h, .log = c->log }));
    log_info(c->log, "health", lf_str("host", c->address),
             lf_u64("port", web_server_port(h->server)));
    SEFL_HAND_OVER(out, h, local_http_stop);
}

uint16_t local_http_port(const local_http *h)
{
    return web_server_port(h->server);
}

void local_http_stop(local_http *h)
{
    if (!h)
        return;
    web_server_stop(h->server);
    sefl_free(h);
}
