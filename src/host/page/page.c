/* Design. Up to two web servers (local and TLS) share the handler; a ticker thread publishes the
 * state to their streams; a sampler thread exists only while it generates a text.
 *  1. The handler runs on a web server's thread and never waits for the ticker or the sampler: the
 *     lock guards only copies of the last sample and times.
 *  2. The ticker compares the source's bytes, which have no time, with the last ones. */
#include "page/page.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/file.h"
#include "base/json.h"
#include "net/buckets.h"
#include "net/web_server.h"
#include "page/access.h"
#include "report/assets.h"
#include "report/server_view.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CONNECTIONS = 64,
    STREAMS = 32,
    IDLE_S = 20,
    TICK_MS = 1000,
    BEAT_TICKS = 15,
    WATCHED_MS = 30000, /* after a request without a stream */
    TOKEN_BURST = 5,
    SAMPLE_MAX = 16 << 10,
    SAMPLE_MODEL = 256 << 20, /* a larger model would need too much memory beside the server */
};

static const char headers[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\n"
    "X-Content-Type-Options: nosniff\n"
    "Referrer-Policy: no-referrer\n"
    "Cross-Origin-Resource-Policy: same-origin\n"
    "Cross-Origin-Opener-Policy: same-origin\n";

struct page {
    page_config c;
    char viewers[PATH_MAX];
    struct stat viewers_seen; /* the ticker's: the file when it last looked */
    access_rule access;
    buckets *token_rate, *line_rate;
    web_server *local, *tls;
    sefl_clock wall, mono;
    _Atomic uint64_t asked_ms; /* time of the last request */

    pthread_mutex_t lock; /* the members below */
    pthread_cond_t wake;
    bool over;
    pthread_t ticker;
    bool ticking;
    pthread_t sampler;
    bool has_sampler;      /* the thread must be joined */
    atomic_bool sampling;  /* it still works */
    page_model sampled;    /* its model; round 0: none */
    sefl_buf sample;       /* its text */
    uint64_t sample_round; /* of that text; 0: none */
};

/* ---- answers --------------------------------------------------------------------------------- */

/* Answers with a line, and an empty body if memory runs out. */
static void SEFL_PRINTF(3, 4) answer_line(web_answer *a, unsigned status, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    a->status = status;
    a->type = "text/plain; charset=utf-8";
    a->stream = false;
    buf_reset(&a->body);
    (void)!wr_fmt(&a->body, "%s\n", line);
}

static void answer_failed(const page *p, const web_request *r, web_answer *a, sefl_status st)
{
    if (st == SEFL_ENOTFOUND) {
        answer_line(a, 404, "%s", sefl_last_error());
        return;
    }
    log_error(p->c.log, "page not created", lf_str("path", r->path),
              lf_str("why", sefl_last_error()));
    answer_line(a, 500, "failed; see the server's log");
}

static sefl_status not_here(const char *what)
{
    return sefl_fail(SEFL_ENOTFOUND, "this page has no %s", what);
}

/* Reads a whole number of the query; `otherwise` if it is not there. */
static sefl_status number_of(const web_request *r, const char *name, uint64_t most,
                             uint64_t otherwise, uint64_t *out)
{
    const char *text = web_query(r, name);
    uint64_t v = 0;
    *out = otherwise;
    if (!text)
        return SEFL_OK;
    const size_t n = strlen(text);
    for (size_t i = 0; i < n && i < 20; i++)
        v = 10 * v + (uint64_t)(text[i] - '0');
    SEFL_NEED(n >= 1 && n <= 10 && strspn(text, "0123456789") == n && v <= most, SEFL_EINVAL,
              "%s must be a whole number of at most %" PRIu64, name, most);
    *out = v;
    return SEFL_OK;
}

/* ---- the paths ------------------------------------------------------------------------------- */

/* Appends the state with the time as its first member. */
static sefl_status write_state(page *p, sefl_buf *out, sefl_span state)
{
    SEFL_PASS(wr_fmt(out, "{\"time\":%" PRIu64 ",", clock_ms(&p->wall) / 1000));
    return wr_raw(out, state.p + 1, state.n - 1);
}

/* Appends the source's object with what the page itself knows: its sample of text. */
static sefl_status make_state(page *p, sefl_buf *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf of_source = { .max = STATE_BYTES - 256 };
    pthread_mutex_lock(&p->lock);
    const uint64_t round = p->sample_round;
    pthread_mutex_unlock(&p->lock);
    SEFL_TRY(p->c.source->state(p->c.ctx, &of_source));
    SEFL_CHECK(of_source.n > 2 && of_source.p[0] == '{', SEFL_ESTATE,
               "the page's state is not an object");
    SEFL_TRY(wr_fmt(out, "{\"sample\":%s,", round > 0 ? "true" : "false"));
    if (round > 0)
        SEFL_TRY(wr_fmt(out, "\"sample_round\":%" PRIu64 ",", round));
    SEFL_TRY(wr_raw(out, of_source.p + 1, of_source.n - 1));
done:
    buf_clear(&of_source);
    return st;
}

static sefl_status get_state(page *p, const web_request *r, web_answer *a)
{
    sefl_buf state = { 0 };
    (void)r;
    sefl_status st = make_state(p, &state);
    if (st == SEFL_OK)
        st = write_state(p, &a->body, buf_span(&state));
    buf_clear(&state);
    return st;
}

/* Appends the state as an event of this kind. */
static sefl_status write_event(page *p, sefl_buf *out, const char *kind, sefl_span state)
{
    SEFL_PASS(wr_fmt(out, "event: %s\ndata: ", kind));
    SEFL_PASS(write_state(p, out, state));
    return wr_fmt(out, "\n\n");
}

static sefl_status get_events(page *p, const web_request *r, web_answer *a)
{
    sefl_buf state = { 0 };
    (void)r;
    a->stream = true;
    sefl_status st = make_state(p, &state);
    if (st == SEFL_OK)
        st = wr_fmt(&a->body, "retry: 2000\n\n");
    if (st == SEFL_OK)
        st = write_event(p, &a->body, "state", buf_span(&state));
    buf_clear(&state);
    return st;
}

static sefl_status get_rounds(page *p, const web_request *r, web_answer *a)
{
    uint64_t after;
    SEFL_PASS(number_of(r, "after", PAGE_ROUND_MAX, 0, &after));
    return p->c.source->rounds ? p->c.source->rounds(p->c.ctx, &a->body, after)
                               : not_here("list of rounds");
}

static sefl_status get_grid(page *p, const web_request *r, web_answer *a)
{
    page_grid_ask ask = { 0 };
    uint64_t rounds, clients;
    const char *sort = web_query(r, "sort");
    SEFL_PASS(number_of(r, "first", PAGE_ROUND_MAX, 0, &ask.first));
    SEFL_PASS(number_of(r, "rounds", PAGE_GRID_ROUNDS, PAGE_GRID_ROUNDS, &rounds));
    SEFL_PASS(number_of(r, "from", PAGE_ROUND_MAX, 0, &ask.from));
    SEFL_PASS(number_of(r, "clients", PAGE_GRID_CLIENTS, PAGE_GRID_CLIENTS, &clients));
    SEFL_NEED(!sort || strcmp(sort, "worst") == 0, SEFL_EINVAL, "sort can only be worst");
    ask.rounds = (unsigned)rounds, ask.clients = (unsigned)clients, ask.worst = sort != NULL;
    return p->c.source->grid ? p->c.source->grid(p->c.ctx, &a->body, &ask)
                             : not_here("grid of clients");
}

static sefl_status get_sample(page *p, const web_request *r, web_answer *a)
{
    json j = json_into(&a->body);
    (void)r;
    pthread_mutex_lock(&p->lock);
    const uint64_t round = p->sample_round;
    json_open(&j, '{');
    json_key(&j, "round"), json_u64(&j, round);
    json_key(&j, "text"), json_span(&j, buf_span(&p->sample));
    json_close(&j, '}');
    pthread_mutex_unlock(&p->lock);
    SEFL_PASS(json_end(&j));
    if (round == 0) {
        buf_reset(&a->body);
        return sefl_fail(SEFL_ENOTFOUND, "there is no sample of text yet");
    }
    return SEFL_OK;
}

static sefl_status get_download(page *p, web_answer *a, page_download what)
{
    sefl_status st = SEFL_OK;
    page_file f = { 0 };
    SEFL_CHECK(p->c.source->download, SEFL_ENOTFOUND, "this page has no downloads");
    SEFL_TRY(p->c.source->download(p->c.ctx, &f, what));
    SEFL_TRY(wr_fmt(&a->headers, "Content-Disposition: attachment; filename=\"%s\"\n", f.name));
    if (*f.path) {
        st = file_open(&a->fd, &a->fd_bytes, f.path, false);
        SEFL_CHECK(st != SEFL_ENOTFOUND, st, "this file does not exist (any more)");
    } else {
        a->body = f.bytes, f.bytes = (sefl_buf){ 0 };
    }
done:
    if (st != SEFL_OK)
        buf_reset(&a->headers); /* the browser must not save the message as the file */
    buf_clear(&f.bytes);
    return st;
}

static sefl_status get_model(page *p, const web_request *r, web_answer *a)
{
    (void)r;
    return get_download(p, a, PAGE_MODEL);
}

static sefl_status get_report(page *p, const web_request *r, web_answer *a)
{
    (void)r;
    return get_download(p, a, PAGE_REPORT);
}

static sefl_status get_ledger(page *p, const web_request *r, web_answer *a)
{
    (void)r;
    return get_download(p, a, PAGE_LEDGER);
}

static void answer_path(page *p, const web_request *r, web_answer *a)
{
    static const struct {
        const char *path, *type;
        sefl_status (*get)(page *p, const web_request *r, web_answer *a);
    } paths[] = {
        { "/state.json", "application/json", get_state },
        { "/events", "text/event-stream", get_events },
        { "/rounds.json", "application/json", get_rounds },
        { "/grid.json", "application/json", get_grid },
        { "/sample.json", "application/json", get_sample },
        { "/model", "application/octet-stream", get_model },
        { "/report", "text/html; charset=utf-8", get_report },
        { "/ledger", "application/octet-stream", get_ledger },
    };
    const page_asset *file = page_asset_of(r->path);
    sefl_status st = SEFL_ENOTFOUND;
    size_t i = 0;
    while (i < sizeof paths / sizeof *paths && strcmp(paths[i].path, r->path) != 0)
        i++;
    if (file) {
        a->type = file->type;
        st = wr_raw(&a->body, file->bytes, file->n);
    } else if (i < sizeof paths / sizeof *paths) {
        a->type = paths[i].type;
        st = paths[i].get(p, r, a);
    } else {
        sefl_note("no such path");
    }
    if (st == SEFL_EINVAL)
        answer_line(a, 400, "%s", sefl_last_error());
    else if (st != SEFL_OK)
        answer_failed(p, r, a, st);
}

/* ---- access ---------------------------------------------------------------------------------- */

static const uint8_t everybody[BUCKETS_KEY] = { 0 }; /* one bucket for all */

/* The token is right: gives the browser its cookie and sends it to the page. */
static void let_in(const page *p, web_answer *a)
{
    if (wr_fmt(&a->headers,
               "Set-Cookie: %s=%s; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000\n"
               "Location: /\n",
               p->access.name, p->access.cookie) == SEFL_OK)
        answer_line(a, 303, "this way to the page: /");
    else
        answer_line(a, 500, "out of memory");
}

static void handle_local(void *ctx, const web_request *r, web_answer *a)
{
    page *p = ctx;
    const char *token = web_query(r, "token");
    if (!access_host_fits(&p->access, web_header(r, "Host"))) {
        answer_line(a, 403, "this page answers only to the name localhost or a loopback address");
    } else if (token && strcmp(r->path, "/") == 0) {
        if (access_token_fits(&p->access, token)) /* others' wrong tokens do not lock it out */
            let_in(p, a);
        else if (!buckets_take(p->token_rate, everybody, 1, clock_ms(&p->mono)))
            answer_line(a, 429, "too many wrong tokens in a short time: wait some seconds");
        else
            answer_line(a, 401,
                        "wrong token: the address to open is in page.url, in the server's "
                        "state folder");
    } else if (!access_cookie_fits(&p->access, web_cookie(r, p->access.name))) {
        answer_line(a, 401,
                    "open the address in the file page.url, in the server's state folder: "
                    "it contains the token");
    } else {
        atomic_store(&p->asked_ms, clock_ms(&p->mono));
        answer_path(p, r, a);
    }
}

/* The log helps an operator to add a viewer; strangers must not fill it. */
static void say_refused(page *p, const x509_peer *who)
{
    if (who->code != X509_NONE && buckets_take(p->line_rate, everybody, 1, clock_ms(&p->mono)))
        log_warn(p->c.log, "viewer refused", lf_str("name", who->name),
                 lf_key("key", who->fingerprint),
                 lf_str("why", who->code == X509_OK ? "its key is not in page_viewers" : who->why));
}

static void handle_tls(void *ctx, const web_request *r, web_answer *a)
{
    page *p = ctx;
    bool fits = false;
    if (r->peer.code == X509_OK &&
        access_viewer_fits(&fits, p->viewers, r->peer.fingerprint) != SEFL_OK &&
        buckets_take(p->line_rate, everybody, 1, clock_ms(&p->mono)))
        log_error(p->c.log, "viewers not read", lf_str("why", sefl_last_error()));
    if (!fits)
        say_refused(p, &r->peer);
    if (fits) {
        atomic_store(&p->asked_ms, clock_ms(&p->mono));
        answer_path(p, r, a);
    } else if (r->peer.code == X509_NONE) {
        answer_line(a, 401, "this page needs a client certificate");
    } else {
        answer_line(a, 401,
                    "the key of this certificate is not in the list of viewers, or the "
                    "certificate is not valid");
    }
}

/* ---- the ticker and the sampler -------------------------------------------------------------- */

static unsigned streams(page *p)
{
    return (p->local ? web_server_streams(p->local) : 0) +
           (p->tls ? web_server_streams(p->tls) : 0);
}

static void *make_sample(void *arg)
{
    page *p = arg;
    sefl_buf text = { .max = SAMPLE_MAX };
    (void)!setpriority(PRIO_PROCESS, 0, 19); /* Linux: of this thread */
    sefl_status st = p->c.sample(&text, p->sampled.path, p->sampled.words);
    if (st != SEFL_OK)
        log_debug(p->c.log, "no sample of text", lf_str("why", sefl_last_error()));
    pthread_mutex_lock(&p->lock);
    if (st == SEFL_OK) {
        buf_clear(&p->sample);
        p->sample = text, text = (sefl_buf){ 0 };
        p->sample_round = p->sampled.round;
    }
    pthread_mutex_unlock(&p->lock);
    buf_clear(&text);
    atomic_store(&p->sampling, false);
    return NULL;
}

static void end_sampler(page *p)
{
    if (p->has_sampler)
        pthread_join(p->sampler, NULL);
    p->has_sampler = false;
}

static bool is_small(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && s.st_size <= SAMPLE_MODEL;
}

/* Forgets the sample of another task. */
static void drop_sample(page *p)
{
    pthread_mutex_lock(&p->lock);
    buf_clear(&p->sample);
    p->sample_round = 0;
    pthread_mutex_unlock(&p->lock);
    p->sampled = (page_model){ 0 };
}

/* On the ticker's thread: drops the sample of a task that is no longer the current one, and, while
 * somebody looks, starts the sampler if there is a model that it has not seen. */
static void look_for_sample(page *p, bool watched)
{
    page_model m = { 0 };
    if (!p->c.sample || !p->c.source->model || atomic_load(&p->sampling) ||
        (!watched && p->sampled.round == 0))
        return;
    const sefl_status st = p->c.source->model(p->c.ctx, &m);
    if (p->sampled.round > 0 && strcmp(m.task, p->sampled.task) != 0)
        drop_sample(p);
    if (!watched || st != SEFL_OK || m.round == p->sampled.round || !is_small(m.path))
        return;
    end_sampler(p);
    p->sampled = m;
    atomic_store(&p->sampling, true);
    p->has_sampler = pthread_create(&p->sampler, NULL, make_sample, p) == 0;
    if (!p->has_sampler)
        atomic_store(&p->sampling, false);
}

static void publish(page *p, sefl_buf *last)
{
    sefl_buf state = { 0 }, event = { 0 };
    if (make_state(p, &state) == SEFL_OK &&
        !(last->p && state.n == last->n && memcmp(state.p, last->p, state.n) == 0) &&
        write_event(p, &event, "state", buf_span(&state)) == SEFL_OK) {
        if (p->local)
            web_server_publish(p->local, buf_span(&event));
        if (p->tls)
            web_server_publish(p->tls, buf_span(&event));
        buf_clear(last);
        *last = state, state = (sefl_buf){ 0 };
    }
    buf_clear(&state);
    buf_clear(&event);
}

/* Ends all streams over TLS if the list of viewers has changed: those who may still look ask
 * again at once. */
static void look_at_viewers(page *p)
{
    struct stat s = { 0 };
    if (!p->tls)
        return;
    (void)!stat(p->viewers, &s); /* zeros: it is gone */
    const struct stat *old = &p->viewers_seen;
    if (s.st_ino == old->st_ino && s.st_size == old->st_size &&
        s.st_mtim.tv_sec == old->st_mtim.tv_sec && s.st_mtim.tv_nsec == old->st_mtim.tv_nsec)
        return;
    p->viewers_seen = s;
    web_server_end_streams(p->tls);
}

static void tick(page *p, sefl_buf *last, uint64_t ticks)
{
    look_at_viewers(p);
    const unsigned open = streams(p);
    const uint64_t asked = atomic_load(&p->asked_ms), now = clock_ms(&p->mono);
    const bool watched = open > 0 || (asked > 0 && now - asked <= WATCHED_MS);
    look_for_sample(p, watched);
    if (!watched)
        return;
    if (p->c.source->watched)
        p->c.source->watched(p->c.ctx);
    if (open == 0)
        return;
    publish(p, last);
    if (ticks % BEAT_TICKS == 0 && p->local)
        web_server_beat(p->local);
    if (ticks % BEAT_TICKS == 0 && p->tls)
        web_server_beat(p->tls);
}

static void *run_ticker(void *arg)
{
    page *p = arg;
    sefl_buf last = { 0 };
    pthread_mutex_lock(&p->lock);
    for (uint64_t ticks = 1; !p->over; ticks++) {
        cond_wait_ms(&p->wake, &p->lock, TICK_MS);
        if (p->over)
            break;
        pthread_mutex_unlock(&p->lock);
        tick(p, &last, ticks);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    buf_clear(&last);
    return NULL;
}

/* ---- start and stop -------------------------------------------------------------------------- */

static web_server_config server_config(page *p, const host_port *at)
{
    return (web_server_config){ .address = at->host,
                                .port = at->port,
                                .connections = CONNECTIONS,
                                .streams = STREAMS,
                                .idle_s = IDLE_S,
                                .headers = headers,
                                .ctx = p,
                                .log = p->c.log };
}

static sefl_status start_local(page *p)
{
    sefl_rng rng = rng_system();
    web_server_config c = server_config(p, &p->c.local);
    c.handle = handle_local;
    SEFL_PASS(access_open(&p->access, p->c.folder, &rng));
    SEFL_PASS(web_server_start(&p->local, &c));
    SEFL_PASS(access_listens(&p->access, p->c.local.host, web_server_port(p->local)));
    log_info(p->c.log, "page", lf_str("host", p->c.local.host),
             lf_u64("port", web_server_port(p->local)), lf_str("address_in", p->access.folder),
             lf_str("file", "page.url"));
    return SEFL_OK;
}

static sefl_status start_tls(page *p)
{
    bool fits;
    const uint8_t nobody[32] = { 0 };
    web_server_config c = server_config(p, &p->c.tls);
    c.handle = handle_tls;
    c.id = p->c.id;
    SEFL_PASS(file_path(p->viewers, "%s", p->c.viewers));
    (void)!stat(p->viewers, &p->viewers_seen);
    SEFL_PASS(access_viewer_fits(&fits, p->viewers, nobody)); /* a wrong file ends the start */
    SEFL_PASS(web_server_start(&p->tls, &c));
    log_info(p->c.log, "page for viewers with a certificate", lf_str("host", p->c.tls.host),
             lf_u64("port", web_server_port(p->tls)));
    return SEFL_OK;
}

sefl_status page_start(page **out, const page_config *c)
{
    SEFL_MAKE(page, p, out);
    if (!*c->local.host && !*c->tls.host)
        goto done;
    p->c = *c;
    p->wall = clock_wall(), p->mono = clock_monotonic();
    pthread_mutex_init(&p->lock, NULL);
    cond_init(&p->wake);
    SEFL_TRY(buckets_new(&p->token_rate, &(buckets_rule){ .burst = TOKEN_BURST, .per_s = 1 }));
    SEFL_TRY(buckets_new(&p->line_rate, &(buckets_rule){ .burst = TOKEN_BURST, .per_s = 1 }));
    if (*c->local.host)
        SEFL_TRY(start_local(p));
    if (*c->tls.host)
        SEFL_TRY(start_tls(p));
    p->ticking = pthread_create(&p->ticker, NULL, run_ticker, p) == 0;
    SEFL_CHECK(p->ticking, SEFL_EIO, "page: no thread");
    SEFL_HAND_OVER(out, p, page_stop);
}

/* Tells the open pages that the server stops: they must not wait for an answer. */
static void say_over(page *p)
{
    sefl_buf state = { 0 }, event = { 0 };
    if (streams(p) > 0 && make_state(p, &state) == SEFL_OK &&
        write_event(p, &event, "over", buf_span(&state)) == SEFL_OK) {
        if (p->local)
            web_server_finish(p->local, buf_span(&event));
        if (p->tls)
            web_server_finish(p->tls, buf_span(&event));
    }
    buf_clear(&state);
    buf_clear(&event);
}

void page_stop(page *p)
{
    if (!p)
        return;
    if (!p->token_rate) { /* it never began */
        sefl_free(p);
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->over = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    if (p->ticking)
        pthread_join(p->ticker, NULL);
    end_sampler(p);
    say_over(p);
    web_server_stop(p->local);
    web_server_stop(p->tls);
    buckets_free(p->token_rate);
    buckets_free(p->line_rate);
    buf_clear(&p->sample);
    access_clear(&p->access);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    sefl_free(p);
}

uint16_t page_port(const page *p)
{
    return web_server_port(p->local ? p->local : p->tls);
}

void page_set_id(page *p, const tls_id *id)
{
    if (p && p->tls)
        web_server_set_id(p->tls, id);
}

void page_file_name(page_file *f, const char *name, uint64_t round, const char *ending)
{
    size_t n = 0;
    for (; *name && n < 64; name++) {
        const bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
                           (*name >= '0' && *name <= '9') || *name == '-' || *name == '_';
        f->name[n++] = plain ? *name : '_';
    }
    if (round > 0)
        n += (size_t)snprintf(f->name + n, sizeof f->name - n, "-round-%" PRIu64, round);
    snprintf(f->name + n, sizeof f->name - n, "%s", ending);
}
