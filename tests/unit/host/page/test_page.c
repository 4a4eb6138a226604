/* The page over HTTP: access, paths, queries, events, downloads, samples. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "base/random.h"
#include "page/access.h"
#include "page/page.h"
#include "unit/host/net/net_raw.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct fake {
    _Atomic unsigned states, samples;
    _Atomic uint64_t round, task;
    page_grid_ask asked;
    uint64_t after;
} fake;

static fake *world; /* the sampler has no context */

static sefl_status state_of(void *ctx, sefl_buf *out)
{
    fake *f = ctx;
    f->states++;
    return wr_fmt(out, "{\"role\":\"csp\",\"n\":%llu}", (unsigned long long)f->round);
}

static sefl_status rounds_of(void *ctx, sefl_buf *out, uint64_t after)
{
    ((fake *)ctx)->after = after;
    return wr_fmt(out, "{}");
}

static sefl_status grid_of(void *ctx, sefl_buf *out, const page_grid_ask *ask)
{
    ((fake *)ctx)->asked = *ask;
    return wr_fmt(out, "{}");
}

static sefl_status download_of(void *ctx, page_file *out, page_download what)
{
    (void)ctx;
    page_file_name(out, "my task/..\"\r\n", what == PAGE_MODEL ? 7 : 0, ".bin");
    if (what == PAGE_MODEL)
        return file_path(out->path, "%s", folder_path("model"));
    SEFL_NEED(what == PAGE_REPORT, SEFL_EIO, "a secret of this server");
    return wr_fmt(&out->bytes, "<p>report");
}

static sefl_status model_of(void *ctx, page_model *out)
{
    out->round = ((fake *)ctx)->round;
    snprintf(out->task, sizeof out->task, "%llu", (unsigned long long)((fake *)ctx)->task);
    SEFL_NEED(out->round > 0, SEFL_ENOTFOUND, "none yet");
    return file_path(out->path, "%s", folder_put("m", "model", 5));
}

static sefl_status sample_of(sefl_buf *text, const char *model, const char *words)
{
    (void)words;
    world->samples++;
    return wr_fmt(text, "text of %s", strrchr(model, '/') + 1);
}

static page *start(fake *f, access_rule *a)
{
    static const page_source source = { .state = state_of,
                                        .rounds = rounds_of,
                                        .grid = grid_of,
                                        .download = download_of,
                                        .model = model_of };
    page *p;
    const sefl_rng rng = rng_system();
    *f = (fake){ 0 };
    world = f;
    CHECK_OK(page_start(&p, &(page_config){ .local = { .host = "127.0.0.1" },
                                            .folder = folder_path("."),
                                            .source = &source,
                                            .ctx = f,
                                            .sample = sample_of }));
    CHECK_OK(access_open(a, folder_path("."), &rng));
    CHECK_OK(access_listens(a, "127.0.0.1", page_port(p)));
    return p;
}

/* Sends a request with this line and these header lines. */
static int request(const page *p, const char *line, const char *host, const char *cookie)
{
    char text[4096], name[64];
    snprintf(name, sizeof name, "%s:%u", host, page_port(p));
    snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n\r\n", line, name,
             cookie ? "Cookie: " : "X: y", cookie ? cookie : "");
    int fd = raw_connect(page_port(p));
    assert_true(fd >= 0);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

static const char *ask(const page *p, const char *line, const char *host, const char *cookie)
{
    int fd = request(p, line, host, cookie);
    const char *got = raw_until(fd, NULL, 10000);
    close(fd);
    return got;
}

static void cookie_of(char out[128], const access_rule *a)
{
    snprintf(out, 128, "other=1; %s=%s", a->name, a->cookie);
}

static void access_rules(void **state)
{
    (void)state;
    fake f;
    access_rule a;
    page *p = start(&f, &a);
    char cookie[128], wrong[128], line[256];
    cookie_of(cookie, &a);
    snprintf(wrong, sizeof wrong, "%s=%s", a.name, a.token); /* the token is not the cookie */
    static const char *const paths[] = { "/",      "/state.json", "/events",       "/page.js",
                                         "/model", "/no",         "/../page.token" };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        snprintf(line, sizeof line, "GET %s", paths[i]);
        const char *got = ask(p, line, "127.0.0.1", NULL);
        assert_non_null(strstr(got, " 401 "));
        assert_non_null(strstr(got, "page.url"));
        assert_non_null(strstr(ask(p, line, "127.0.0.1", wrong), " 401 "));
        assert_non_null(strstr(ask(p, line, "evil.example", cookie), " 403 "));
    }
    assert_int_equal(f.states, 0);
    snprintf(line, sizeof line, "GET /?token=%s", a.token);
    assert_non_null(strstr(ask(p, line, "evil.example", NULL), " 403 "));
    const char *got = ask(p, line, "localhost", NULL);
    assert_non_null(strstr(got, " 303 "));
    assert_non_null(strstr(got, "\r\nLocation: /\r\n"));
    assert_non_null(strstr(got, a.cookie));
    assert_non_null(strstr(got, "; HttpOnly; SameSite=Strict; Path=/"));
    assert_null(strstr(got, a.token));
    line[20] = line[20] == '0' ? '1' : '0';
    assert_non_null(strstr(ask(p, line, "localhost", NULL), " 401 "));
    unsigned refused = 0;
    for (int i = 0; i < 10; i++)
        refused += strstr(ask(p, line, "localhost", NULL), " 429 ") != NULL;
    assert_true(refused >= 3);
    snprintf(line, sizeof line, "GET /?token=%s", a.token);
    assert_non_null(strstr(ask(p, line, "localhost", NULL), " 303 ")); /* nobody is locked out */
    got = ask(p, "GET /", "localhost", cookie);
    assert_non_null(strstr(got, " 200 "));
    assert_non_null(strstr(got, "<!doctype html>"));
    static const char *const headers[] = { "Content-Security-Policy: default-src 'none'; ",
                                           "frame-ancestors 'none'\r\n",
                                           "X-Content-Type-Options: nosniff\r\n",
                                           "Referrer-Policy: no-referrer\r\n",
                                           "Cache-Control: no-store\r\n" };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        assert_non_null(strstr(got, headers[i]));
    page_stop(p);
}

static void paths_and_queries(void **state)
{
    (void)state;
    static const struct {
        const char *line, *gets;
    } asks[] = {
        { "GET /state.json", " 200 " },
        { "HEAD /state.json", " 200 " },
        { "GET /page.css", "text/css" },
        { "POST /state.json", " 405 " },
        { "DELETE /", " 405 " },
        { "OPTIONS /state.json", " 405 " },
        { "GET /state.json/", " 404 " },
        { "GET //state.json", " 404 " },
        { "GET /../page.token", " 404 " },
        { "GET /%2e%2e/page.token", " 404 " },
        { "GET /page.token", " 404 " },
        { "GET /page.html", " 404 " },
        { "GET /State.json", " 404 " },
        { "GET /rounds.json?after=12", " 200 " },
        { "GET /rounds.json", " 200 " },
        { "GET /rounds.json?after=", " 400 " },
        { "GET /rounds.json?after=-1", " 400 " },
        { "GET /rounds.json?after=1x", " 400 " },
        { "GET /rounds.json?after=%20", " 400 " },
        { "GET /rounds.json?after=99999999999999999999999999", " 400 " },
        { "GET /grid.json?rounds=101", " 400 " },
        { "GET /grid.json?clients=201", " 400 " },
        { "GET /grid.json?sort=best", " 400 " },
        { "GET /grid.json?first=1e3", " 400 " },
        { "GET /grid.json?first=5&rounds=7&from=3&clients=9&sort=worst", " 200 " },
        { "GET /sample.json", " 404 " },
        { "GET /ledger", " 500 " },
    };
    fake f;
    access_rule a;
    page *p = start(&f, &a);
    char cookie[128];
    cookie_of(cookie, &a);
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        const char *got = ask(p, asks[i].line, "127.0.0.1", cookie);
        if (!strstr(got, asks[i].gets) || strstr(got, "secret") || strstr(got, a.token))
            fail_msg("to \"%s\" it says \"%.200s\"", asks[i].line, got);
    }
    assert_true(f.asked.first == 5 && f.asked.rounds == 7 && f.asked.from == 3);
    assert_true(f.asked.clients == 9 && f.asked.worst);
    char *longest = malloc(40000);
    memset(longest, '7', 40000);
    memcpy(longest, "GET /rounds.json?after=", 23);
    snprintf(longest + 39900, 100, " HTTP/1.1\r\nHost: x\r\n\r\n");
    int fd = raw_connect(page_port(p));
    (void)!send(fd, longest, strlen(longest), MSG_NOSIGNAL);
    assert_null(strstr(raw_until(fd, NULL, 10000), " 200 "));
    close(fd);
    free(longest);
    const char *got = ask(p, "GET /model", "127.0.0.1", cookie); /* it is deleted */
    assert_non_null(strstr(got, " 404 "));
    assert_non_null(strstr(got, "\r\n\r\nthis file does not exist"));
    assert_null(strstr(got, "attachment"));
    assert_null(strstr(got, folder_path("model")));
    folder_put("model", "tensors", 7);
    got = ask(p, "GET /model", "127.0.0.1", cookie);
    assert_non_null(strstr(got, "filename=\"my_task______-round-7.bin\"\r\n"));
    assert_non_null(strstr(got, "\r\n\r\ntensors"));
    got = ask(p, "GET /report", "127.0.0.1", cookie);
    assert_non_null(strstr(got, "\r\n\r\n<p>report"));
    page_stop(p);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static void events_and_samples(void **state)
{
    (void)state;
    fake f;
    access_rule a;
    page *p = start(&f, &a);
    char cookie[128];
    cookie_of(cookie, &a);
    f.round = 1;
    pause_ms(1500);
    assert_int_equal(f.samples, 0); /* nobody watches */
    assert_int_equal(f.states, 0);
    int fd = request(p, "GET /events", "127.0.0.1", cookie);
    const char *got = raw_until(fd, "\"n\":1}\n\n", 5000);
    assert_non_null(strstr(got, "text/event-stream"));
    assert_non_null(strstr(got, "retry: 2000\n\n"));
    assert_non_null(strstr(got, "event: state\ndata: {\"time\":"));
    got =
        raw_until(fd, "\"sample_round\":1,", 5000); /* the sample is ready: the state has changed */
    assert_non_null(strstr(got, "{\"sample\":true,") ? got : strstr(got, "\"sample\":true,"));
    assert_non_null(strstr(ask(p, "GET /sample.json", "127.0.0.1", cookie),
                           "{\"round\":1,\"text\":\"text of m\"}"));
    raw_until(fd, "\n\n", 500);
    assert_null(strstr(raw_until(fd, "event", 2500), "event")); /* no change, no event */
    f.round = 2;
    got = raw_until(fd, "\"n\":2}\n\n", 5000);
    assert_non_null(strstr(got, "\"n\":2}\n\n"));
    raw_until(fd, "\"sample_round\":2,", 5000);
    assert_int_equal(f.samples, 2); /* one for each model */
    f.task = 1;                     /* another task, whose round 2 is over too */
    for (int i = 0; i < 50 && f.samples < 3; i++)
        pause_ms(100);
    assert_int_equal(f.samples, 3);
    page_stop(p);
    got = raw_until(fd, NULL, 5000);
    assert_non_null(strstr(got, "event: over\ndata: {\"time\":"));
    close(fd);
    CHECK_OK(page_start(&p, &(page_config){ .folder = folder_path(".") })); /* no address */
    assert_null(p);
    page_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(access_rules),
        cmocka_unit_test(paths_and_queries),
        cmocka_unit_test(events_and_samples),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
