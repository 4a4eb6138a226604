/* page: the web page of a server or a simulation, for its operator's browser. Read-only.
 *
 *     SEFL_TRY(page_start(&p, &(page_config){ .local = a, .folder = "state", .source = &source,
 *                                             .ctx = me, .log = log }));
 *     page_stop(p);
 *
 * Paths
 *     /  /page.css  /page.js  /icon.svg   the page itself (report/assets.h)
 *     /state.json                         what happens now (report/server_view.h)
 *     /events                             the same as server-sent events, at most one a second
 *     /rounds.json?after=N                the rounds after N (page/tail.h)
 *     /grid.json?first=R&rounds=K&from=I&clients=M[&sort=worst]    who took part
 *     /sample.json                        text that the latest model wrote
 *     /model  /report  /ledger            downloads
 * A source that has no function for a path answers 404. Other paths: 404; other methods: 405; a
 * number that is none, or is too large: 400.
 *
 * Access (page/access.h). On `local`, a loopback address over plain HTTP, a browser opens
 * /?token=TOKEN and gets a cookie. Everything else without that cookie is 401, and a request whose
 * Host field names another host is 403. On `tls`, any address, the browser must present a
 * certificate whose key the file `viewers` lists. Wrong tokens are limited to one a second. Every
 * answer forbids scripts, styles, frames and requests of other origins.
 *
 * The source's functions run on the page's own threads, so they must lock for a short time only.
 * The page calls them only for a request, or while a stream is open. The sampler, if there is one,
 * runs on a thread of its own with the lowest priority, once for each released model, and only
 * while somebody watches, if the model's file has at most 256 MiB.
 * Threads: one owner; any thread may call page_set_id.   Secrets: the token. */
#ifndef PAGE_PAGE_H
#define PAGE_PAGE_H

#include "base/buf.h"
#include "base/log.h"
#include "config/address.h"
#include "net/tls.h"

#include <limits.h>
#include <stdbool.h>

typedef struct page page;

enum { PAGE_GRID_ROUNDS = 100, PAGE_GRID_CLIENTS = 200, PAGE_ROUND_MAX = 1 << 30 };

typedef struct page_grid_ask {
    uint64_t first; /* 0: the latest `rounds` rounds */
    unsigned rounds;
    uint64_t from; /* the first client, in the order of the answer */
    unsigned clients;
    bool worst; /* the clients with most failures first; otherwise in order of appearance */
} page_grid_ask;

typedef enum page_download { PAGE_MODEL, PAGE_REPORT, PAGE_LEDGER } page_download;

/* A download: a file, or bytes if path is "". */
typedef struct page_file {
    char path[PATH_MAX];
    sefl_buf bytes;
    char name[128]; /* letters, digits, '.', '_' and '-' */
} page_file;

/* A model to sample from. */
typedef struct page_model {
    char task[65];  /* its task or run, also if there is no model yet */
    uint64_t round; /* that released it */
    char path[PATH_MAX], words[PATH_MAX];
} page_model;

/* What the page shows. An entry may be NULL, except state. SEFL_ENOTFOUND gets 404 and its message;
 * any other failure is logged and gets 500. */
typedef struct page_source {
    sefl_status (*state)(void *ctx, sefl_buf *out); /* server_view_write */
    sefl_status (*rounds)(void *ctx, sefl_buf *out, uint64_t after);
    sefl_status (*grid)(void *ctx, sefl_buf *out, const page_grid_ask *ask);
    sefl_status (*download)(void *ctx, page_file *out, page_download what);
    sefl_status (*model)(void *ctx, page_model *out);
    /* Called about once a second while somebody watches, for work that takes longer than a request
     * may wait. */
    void (*watched)(void *ctx);
} page_source;

/* Appends a text that the model wrote. */
typedef sefl_status page_sampler(sefl_buf *text, const char *model, const char *words);

typedef struct page_config {
    host_port local, tls; /* host "": not served there */
    const char *viewers;  /* for tls: file of keys */
    const tls_id *id;     /* for tls: the server's certificate */
    const char *folder;   /* for page.token and page.url */
    const page_source *source;
    void *ctx;
    page_sampler *sample; /* NULL: no samples */
    sefl_log *log;
} page_config;

/* *out is NULL if both addresses are empty. */
sefl_status page_start(page **out, const page_config *c) SEFL_MUST_CHECK;
void page_stop(page *p); /* NULL is allowed */
uint16_t page_port(const page *p);
/* The server has a new certificate. NULL is allowed for p. */
void page_set_id(page *p, const tls_id *id);

/* Formats a name for a download from parts that may contain any character. */
void page_file_name(page_file *f, const char *name, uint64_t round, const char *ending);

#endif
