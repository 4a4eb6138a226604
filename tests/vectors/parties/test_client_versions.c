/* Clients of other versions against the present server.
 *
 * client-3.0.http: what a client of that version sends in the first round of a task whose uploads have no
 * sealed head (crypto.scheme=paillier). Lines end with CR LF on the wire; {HASH} and {TOTAL} stand for
 * the hash and size of the update, which are the task's and the coins'. Once clients of 3.0 are installed, do
 * not edit it: add a file for the next version. */
#include "unit/parties/agg_world.h"

#include "net/https_server.h"
#include "protocol/http.h"
#include "protocol/version.h"
#include "roles/aggregator/as_http.h"
#include "unit/host/net/net_ids.h"
#include "unit/host/net/net_raw.h"

#include <inttypes.h>

#define CLIENT_3_0 SEFL_SOURCE_DIR "/tests/vectors/parties/client-3.0.http"

enum { ROOM = 1 << 18 };

static struct {
    agg_world w;
    agg_http http;
    https_server *server;
    tls_id *id;
} s;

static void wake(void *ctx)
{
    aw_changed(ctx);
    if (s.server)
        https_wake(s.server);
}

static int setup(void **state)
{
    if (folder_make(state) != 0)
        return -1;
    net_ca("ca");
    net_cert("server", "aggregator", "127.0.0.1", "ca");
    net_cert("ann", "client", NULL, "ca");
    net_cert("bob", "client", NULL, "ca");
    net_cert("eve", "client", NULL, "ca");
    s.id = net_id("server", "ca");
    aw_make(&s.w, (const char *const[]){ "rounds.enough=3", "rounds.count=1",
                                         "crypto.scheme=paillier", NULL });
    CHECK_OK(aw_try_open(&s.w));
    s.w.also_changed = wake;
    s.http = (agg_http){ .task = &s.w.t,
                         .envelope = buf_span(&s.w.envelope),
                         .rounds = s.w.r,
                         .ingest = s.w.in,
                         .vocab = s.w.words,
                         .init = s.w.init,
                         .mono = &s.w.mono };
    CHECK_OK(
        https_server_start(&s.server, &(https_server_config){ .id = s.id,
                                                              .peer_role = "client",
                                                              .begin = agg_http_begin,
                                                              .headers = HTTP_VERSION_LINE,
                                                              .body_max = task_body_bytes(&s.w.t),
                                                              .ctx = &s.http }));
    aw_drive_start(&s.w);
    return 0;
}

static int teardown(void **state)
{
    s.http.closing = true;
    https_server_stop(s.server);
    s.server = NULL;
    aw_free(&s.w);
    tls_id_free(s.id);
    return folder_remove(state);
}

static void open_as(raw_tls *c, const char *who)
{
    char cert[300], key[300];
    net_path(cert, who, ".pem");
    net_path(key, who, ".key");
    assert_int_equal(raw_open(c, https_server_port(s.server), cert, key, NULL), 0);
}

/* One whole answer; its status. HEAD has no body. */
static unsigned answer_of(raw_tls *c, char *out, bool only_head)
{
    size_t n = 0;
    for (;;) {
        ssize_t k = gnutls_record_recv(c->s, out + n, ROOM - 1 - n);
        if (k == GNUTLS_E_INTERRUPTED || k == GNUTLS_E_AGAIN)
            continue;
        assert_true(k > 0);
        n += (size_t)k;
        out[n] = 0;
        if (strncmp(out, "HTTP/1.1 100", 12) == 0) { /* and the real one later */
            char *end = strstr(out, "\r\n\r\n");
            if (!end)
                continue;
            return 100;
        }
        const char *end = strstr(out, "\r\n\r\n"), *length = strstr(out, "Content-Length: ");
        if (!end)
            continue;
        size_t want = !only_head && length ? strtoul(length + 16, NULL, 10) : 0;
        if (n >= (size_t)(end + 4 - out) + want)
            return (unsigned)strtoul(out + 9, NULL, 10);
    }
}

/* The next request of the text, with CR LF, its places filled in; false at the end. version: instead of the
 * one it says; NULL: as it is. */
static bool next_request(const char **text, char *out, size_t room, const char *hash,
                         const char *version)
{
    static const char field[] = HTTP_VERSION_NAME ": ";
    size_t n = 0;
    const char *p = *text;
    if (!*p)
        return false;
    bool blank = false;
    while (!blank) {
        const char *end = strchr(p, '\n');
        assert_non_null(end);
        blank = end == p;
        if (version && strncmp(p, field, sizeof field - 1) == 0) {
            n += (size_t)snprintf(out + n, room - n, "%s%s", field, version);
            p = end;
        }
        while (p < end) {
            if (strncmp(p, "{HASH}", 6) == 0) {
                n += (size_t)snprintf(out + n, room - n, "%s", hash);
                p += 6;
            } else if (strncmp(p, "{TOTAL}", 7) == 0) {
                n += (size_t)snprintf(out + n, room - n, "%zu", task_body_bytes(&s.w.t));
                p += 7;
            } else {
                out[n++] = *p++;
            }
        }
        n += (size_t)snprintf(out + n, room - n, "\r\n");
        p = end + 1;
        assert_true(n + 256 < room);
    }
    *text = p;
    return true;
}

/* Client k takes part as the transcript says, but for its version if there is one here. */
static void take_part(const char *who, unsigned k, const char *transcript, const char *version,
                      bool to_the_end)
{
    sefl_buf file = { 0 };
    uint8_t hash[32], *body = aw_body(&s.w, k, 1, hash);
    char hex[65], request[4096], *out = malloc(ROOM);
    raw_tls c;
    assert_non_null(out);
    hex_into(hex, hash);
    CHECK_OK(file_read(&file, transcript, 1 << 16));
    CHECK_OK(wr_u8(&file, 0));
    const char *text = (const char *)file.p;
    open_as(&c, who);
    for (int i = 0; next_request(&text, request, sizeof request, hex, version); i++) {
        if (i == 6 && !to_the_end)
            break; /* would wait for the others */
        assert_true(raw_send(&c, request, strlen(request)));
        unsigned status = answer_of(&c, out, strncmp(request, "HEAD", 4) == 0);
        if (status == 100) {
            assert_true(strncmp(request, "PUT", 3) == 0);
            assert_true(raw_send(&c, body, task_body_bytes(&s.w.t)));
            status = answer_of(&c, out, false);
        }
        if (status != 200)
            fail_msg("%s is answered with %s", request, out);
        assert_non_null(strstr(out, HTTP_VERSION_NAME ": " VERSION_TEXT "\r\n"));
        if (i == 2)
            assert_non_null(strstr(out, "\"state\":\"open\""));
        if (i == 6)
            assert_non_null(strstr(out, "\"state\":\"over\""));
    }
    raw_close(&c);
    buf_clear(&file);
    sefl_free(body);
    free(out);
}

static void too_far_away(void **state)
{
    (void)state;
    static const char *const lines[] = { "2.0", "1.2", "3.9", "x", "1", NULL };
    char request[400], *out = malloc(ROOM);
    raw_tls c;
    assert_non_null(out);
    open_as(&c, "ann");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(request, sizeof request, "GET /v1/task HTTP/1.1\r\nHost: x\r\n%s%s%s\r\n",
                 lines[i] ? HTTP_VERSION_NAME ": " : "", lines[i] ? lines[i] : "",
                 lines[i] ? "\r\n" : ""); /* the first clients said none */
        assert_true(raw_send(&c, request, strlen(request)));
        assert_int_equal(answer_of(&c, out, false), 426);
        assert_non_null(strstr(out, HTTP_VERSION_NAME ": " VERSION_TEXT)); /* what it needs */
        if (i < 3 || !lines[i])
            assert_non_null(strstr(out, "needs " VERSION_TEXT));
    }
    assert_int_equal(s.http.counts[AGG_HTTP_VERSION], 6);
    raw_close(&c);
    /* refused before its body: the body is not read */
    uint64_t before = ingest_bytes(s.w.in);
    open_as(&c, "ann");
    snprintf(request, sizeof request,
             "PUT /v1/round/1/update/%064d HTTP/1.1\r\nHost: x\r\n%s: 1.2\r\nSefl-Total: %zu\r\n"
             "Content-Length: %zu\r\n\r\n",
             0, HTTP_VERSION_NAME, task_body_bytes(&s.w.t), task_body_bytes(&s.w.t));
    assert_true(raw_send(&c, request, strlen(request)));
    assert_int_equal(answer_of(&c, out, false), 426);
    raw_close(&c);
    assert_true(ingest_bytes(s.w.in) == before);
    free(out);
}

/* Ann's and Bob's programs are of version 3.0, Eve's one minor version newer than the server's; the round
 * is released with all of them. */
static void neighbours_take_part(void **state)
{
    (void)state;
    char newer[32];
    snprintf(newer, sizeof newer, "%d.%d", VERSION_MAJOR, VERSION_MINOR + 1);
    take_part("ann", 0, CLIENT_3_0, NULL, false);
    take_part("bob", 1, CLIENT_3_0, NULL, false);
    take_part("eve", 2, CLIENT_3_0, newer, true);
    assert_int_equal(s.http.counts[AGG_HTTP_OLDER], 0); /* none is older than 3.0 */
    assert_int_equal(ingest_count(s.w.in, INGEST_TAKEN), 3);
    assert_int_equal(s.w.reports, 1);
    assert_false(s.w.report[0].skipped);
    assert_int_equal(s.w.report[0].clients, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_far_away),
        cmocka_unit_test(neighbours_take_part),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
