/* AS's HTTP interface: real TLS, real client, a task of two rounds. */
#include "agg_world.h"

#include "net/https_client.h"
#include "net/https_server.h"
#include "protocol/http.h"
#include "roles/aggregator/as_http.h"
#include "roles/aggregator/audit_as.h"
#include "roles/client/proof.h"
#include "roles/csp/audit_csp.h"
#include "roles/vouch.h"
#include "unit/host/net/net_ids.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

typedef struct site {
    agg_world w;
    agg_http http;
    https_server *server;
    tls_id *id, *ann_id, *bob_id;
    https_client *ann, *bob;
    uint8_t ann_key[32], bob_key[32];
    sefl_log log;
    audit_csp csp_audit;
} site;

static site s;

static void wake(void *ctx)
{
    aw_changed(ctx);
    if (s.server)
        https_wake(s.server);
}

static https_client *client_of(const tls_id *id)
{
    https_client *c;
    CHECK_OK(https_client_new(&c, &(https_client_config){ .host = "127.0.0.1",
                                                          .port = https_server_port(s.server),
                                                          .id = id,
                                                          .proxy = "",
                                                          .headers = HTTP_VERSION_LINE,
                                                          .number_field = "Sefl-Offset" }));
    return c;
}

static audit_log *audited(const char *name, const sign_key *key)
{
    audit_log *a;
    char folder[300];
    snprintf(folder, sizeof folder, "%s", folder_path(name));
    assert_int_equal(mkdir(folder, 0700), 0);
    CHECK_OK(audit_log_open(
        &a,
        &(audit_log_config){ .folder = folder, .key = key, .clock = &s.w.wall, .log = &s.log }));
    return a;
}

/* The number of entries of this kind. */
static unsigned entries(audit_log *a, const char *name, const char *kind)
{
    sefl_buf b = { 0 };
    char path[300], want[60];
    unsigned n = 0;
    CHECK_OK(audit_log_sync(a));
    snprintf(path, sizeof path, "%s/" AUDIT_LOG_NAME, folder_path(name));
    snprintf(want, sizeof want, "\"kind\":\"%s\"", kind);
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    for (const char *at = (const char *)b.p; (at = strstr(at, want)) != NULL; at++)
        n++;
    buf_clear(&b);
    return n;
}

static int setup(void **state)
{
    if (folder_make(state) != 0)
        return -1;
    net_ca("ca");
    net_ca("stranger");
    net_cert("server", "aggregator", "127.0.0.1", "ca");
    net_cert("ann", "client", NULL, "ca");
    net_cert("bob", "client", NULL, "ca");
    net_cert("eve", "client", NULL, "stranger");
    s.id = net_id("server", "ca");
    s.ann_id = net_id("ann", "ca");
    s.bob_id = net_id("bob", "ca");
    aw_make(&s.w, (const char *const[]){ "rounds.enough=2", NULL });
    memcpy(s.ann_key, tls_id_fingerprint(s.ann_id), 32);
    memcpy(s.bob_key, tls_id_fingerprint(s.bob_id), 32);
    s.w.id[0] = s.ann_key, s.w.id[1] = s.bob_key;
    s.w.no_vouchers = true;
    s.w.audit = audited("aggregator", s.w.as);
    s.csp_audit = (audit_csp){ .inner = s.w.csp_store, .log = audited("csp", s.w.csp) };
    s.w.csp_store = audit_csp_store(&s.csp_audit);
    CHECK_OK(aw_try_open(&s.w));
    s.w.also_changed = wake;
    s.http = (agg_http){ .task = &s.w.t,
                         .envelope = buf_span(&s.w.envelope),
                         .rounds = s.w.r,
                         .ingest = s.w.in,
                         .vocab = s.w.words,
                         .init = s.w.init,
                         .audit = s.w.audit,
                         .mono = &s.w.mono };
    s.log = log_open(open(folder_path("log"), O_WRONLY | O_CREAT | O_APPEND, 0600), LOG_INFO, NULL);
    assert_true(s.log.fd >= 0);
    CHECK_OK(
        https_server_start(&s.server, &(https_server_config){ .id = s.id,
                                                              .peer_role = "client",
                                                              .begin = agg_http_begin,
                                                              .body_max = task_body_bytes(&s.w.t),
                                                              .ctx = &s.http,
                                                              .log = &s.log }));
    s.ann = client_of(s.ann_id);
    s.bob = client_of(s.bob_id);
    return 0;
}

static int teardown(void **state)
{
    https_client_free(s.ann);
    https_client_free(s.bob);
    s.http.closing = true;
    https_server_stop(s.server);
    s.server = NULL;
    close(s.log.fd);
    audit_log_close(s.w.audit);
    audit_log_close(s.csp_audit.log);
    aw_free(&s.w);
    tls_id_free(s.id);
    tls_id_free(s.ann_id);
    tls_id_free(s.bob_id);
    return folder_remove(state);
}

static unsigned get(https_client *c, const char *path, https_reply *r)
{
    CHECK_OK(https_get(c, path, 1 << 20, 70, r));
    return r->status;
}

static unsigned status_of(https_client *c, const char *path)
{
    https_reply r = { 0 };
    unsigned status = get(c, path, &r);
    if (status >= 400) { /* one line of text */
        assert_true(r.body.n > 1 && r.body.p[r.body.n - 1] == '\n');
        assert_ptr_equal(memchr(r.body.p, '\n', r.body.n), r.body.p + r.body.n - 1);
    }
    https_reply_clear(&r);
    return status;
}

static void news_of(https_client *c, const char *query, round_news *n, sefl_buf *scratch)
{
    https_reply r = { 0 };
    char path[64];
    snprintf(path, sizeof path, "/v1/round%s", query);
    assert_int_equal(get(c, path, &r), 200);
    buf_reset(scratch);
    CHECK_OK(round_news_read(n, scratch, buf_span(&r.body)));
    https_reply_clear(&r);
}

/* The update of `k` as a file, to be put from there. */
static void update_file(unsigned k, uint64_t round, char path[300], char url[160])
{
    uint8_t hash[32], *body = aw_body(&s.w, k, round, hash);
    char hex[65], name[32];
    hex_into(hex, hash);
    snprintf(name, sizeof name, "update-%u", k);
    snprintf(path, 300, "%s", folder_put(name, body, task_body_bytes(&s.w.t)));
    snprintf(url, 160, "/v1/round/%" PRIu64 "/update/%s", round, hex);
    sefl_free(body);
}

static unsigned put(https_client *c, const char *url, const char *path, uint64_t offset,
                    const char *headers, https_reply *r)
{
    char usual[96];
    snprintf(usual, sizeof usual, "Sefl-Offset: %" PRIu64 "\nSefl-Total: %zu\n", offset,
             task_body_bytes(&s.w.t));
    https_reply_clear(r);
    CHECK_OK(https_put_file(c, url, path, offset, headers ? headers : usual, NULL, r));
    return r->status;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void documents(void **state)
{
    (void)state;
    https_reply r = { 0 };
    char hex[65];
    assert_int_equal(get(s.ann, "/healthz", &r), 200);
    assert_memory_equal(r.body.p, "ok", 2);
    https_reply_clear(&r);
    assert_int_equal(get(s.ann, "/v1/task", &r), 200);
    assert_int_equal(r.body.n, s.w.envelope.n);
    assert_memory_equal(r.body.p, s.w.envelope.p, r.body.n);
    hex_into(hex, s.w.t.id);
    assert_non_null(strstr(r.etag, hex));
    https_reply_clear(&r);
    uint8_t hash[32];
    assert_int_equal(get(s.ann, "/v1/vocab", &r), 200);
    sha256_of(hash, buf_span(&r.body));
    assert_memory_equal(hash, s.w.t.vocab_hash, 32);
    https_reply_clear(&r);
    const char *const same[] = { "/v1/init", "/v1/model", "/v1/round/1/model" };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(get(s.ann, same[i], &r), 200);
        sha256_of(hash, buf_span(&r.body));
        assert_memory_equal(hash, s.w.t.init_hash, 32);
        hex_into(hex, hash);
        assert_non_null(strstr(r.etag, hex));
        https_reply_clear(&r);
    }
}

/* An aggregator that waits for its next task. */
static void without_a_task_clients_wait(void **state)
{
    (void)state;
    static const char *const paths[] = { "/v1/task",           "/v1/round?after=0&wait=9",
                                         "/v1/model",          "/v1/round/1/model",
                                         "/v1/vocab",          "/v1/init",
                                         "/v1/round/1/counted" };
    const task *t = s.http.task;
    rounds *r = s.http.rounds;
    ingest *in = s.http.ingest;
    s.http.task = NULL, s.http.rounds = NULL, s.http.ingest = NULL;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_int_equal(status_of(s.ann, paths[i]), 503);
    assert_int_equal(status_of(s.ann, "/healthz"), 200);
    assert_int_equal(status_of(s.ann, "/v1/certificate"), 404);
    assert_int_equal(status_of(s.ann, "/v1/nothing"), 404);
    s.http.task = t, s.http.rounds = r, s.http.ingest = in;
    assert_int_equal(status_of(s.ann, "/v1/task"), 200);
}

static void nothing_else(void **state)
{
    (void)state;
    const char *const none[] = {
        "/",
        "/v1",
        "/v1/tasks",
        "/v1/task/",
        "/v1/round/",
        "/v1/round/1",
        "/v1/round/0/model",
        "/v1/round/01/model",
        "/v1/round/-1/model",
        "/v1/round/99999999999999999999/model",
        "/v1/round/2/model",
        "/v1/round/1/models",
        "/v1/round/1/update/",
        "/v1/round/1/update/xyz",
        "/v1/clients",
        "/metrics",
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(status_of(s.ann, none[i]), 404);
    char url[160];
    snprintf(url, sizeof url, "/v1/round/1/update/%064d", 0);
    assert_int_equal(status_of(s.ann, url), 405);
    assert_int_equal(status_of(s.ann, "/v1/round?after=x"), 400);
    assert_int_equal(status_of(s.ann, "/v1/round?wait=-1"), 400);

    https_reply r = { 0 };
    char file[300];
    update_file(0, 1, file, url);
    assert_int_equal(put(s.ann, "/v1/task", file, 0, NULL, &r), 405);
    assert_int_equal(put(s.ann, "/v1/round/1/model", file, 0, NULL, &r), 405);
    https_reply_clear(&r);

    tls_id *eve = net_id("eve", "ca"); /* a client of another CA gets only 403 */
    https_client *c = client_of(eve);
    sefl_status st = https_get(c, "/v1/task", 1 << 20, 5, &r);
    assert_true(st != SEFL_OK || r.status == 403);
    https_reply_clear(&r);
    https_client_free(c);
    tls_id_free(eve);
}

typedef struct waiter {
    pthread_t id;
    https_client *c;
    const char *query;
    round_news n;
    double seconds;
} waiter;

static void *wait_news(void *arg)
{
    waiter *me = arg;
    sefl_buf scratch = { 0 };
    sefl_clock mono = clock_monotonic();
    uint64_t t0 = clock_ns(&mono);
    news_of(me->c, me->query, &me->n, &scratch);
    me->seconds = 1e-9 * (double)(clock_ns(&mono) - t0);
    buf_clear(&scratch);
    return NULL;
}

/* The latest log line is about this refusal and has the client's whole key. */
static void said_of(const uint8_t who[32], const char *event, const char *reason)
{
    sefl_buf b = { 0 };
    char hex[65], want[160];
    hex_into(hex, who);
    CHECK_OK(file_read(&b, folder_path("log"), 1 << 20));
    assert_true(b.n > 1 && b.p[b.n - 1] == '\n');
    b.p[b.n - 1] = 0;
    const char *line = strrchr((const char *)b.p, '\n');
    line = line ? line + 1 : (const char *)b.p;
    snprintf(want, sizeof want, "\"event\":\"%s\",\"reason\":\"%s\"", event, reason);
    if (!strstr(line, want) || !strstr(line, hex) || !strstr(line, "\"level\":\"warn\""))
        fail_msg("no %s of %s in %s", want, hex, line);
    buf_clear(&b);
}

/* What a hostile client sends: nothing, noise, bytes that do not match their hash. */
static void hostile_uploads(const char *url)
{
    https_reply r = { 0 };
    char path[300], other[300], other_url[160];
    uint64_t total = task_body_bytes(&s.w.t);
    uint8_t *bytes;
    CHECK_OK(sefl_new(&bytes, total, 1));
    snprintf(path, sizeof path, "%s", folder_put("zeros", bytes, total));
    assert_int_equal(put(s.ann, url, path, 0, NULL, &r), 422);
    said_of(s.ann_key, "upload refused", "upload.head");
    memset(bytes, 0xff, total);
    snprintf(path, sizeof path, "%s", folder_put("noise", bytes, total));
    assert_int_equal(put(s.ann, url, path, 0, NULL, &r), 422);
    said_of(s.ann_key, "upload refused", "upload.head");
    update_file(2, 1, other, other_url);
    assert_int_equal(put(s.ann, url, other, 0, NULL, &r), 422);
    said_of(s.ann_key, "upload refused", "upload.head");
    uint8_t hash[32], *mine = aw_body(&s.w, 0, 1, hash);
    mine[total - 1] ^= 1; /* her own head, other units */
    snprintf(path, sizeof path, "%s", folder_put("changed", mine, total));
    assert_int_equal(put(s.ann, url, path, 0, NULL, &r), 422);
    said_of(s.ann_key, "upload refused", "upload.hash");
    sefl_free(mine);
    https_reply_clear(&r);
    sefl_free(bytes);
}

static unsigned post(https_client *c, sefl_span bytes)
{
    https_reply r = { 0 };
    CHECK_OK(https_post(c, "/v1/voucher", bytes, 1 << 16, 60, &r));
    unsigned status = r.status;
    https_reply_clear(&r);
    return status;
}

/* A voucher from this certificate for client k's upload key. */
static void voucher_of(sefl_buf *out, const char *who, unsigned k, uint64_t serial)
{
    char cert[300], key[300];
    net_path(cert, who, ".pem");
    net_path(key, who, ".key");
    buf_reset(out);
    CHECK_OK(vouch_make(out, cert, key, sign_key_pub(s.w.upload_key[k]), &s.w.t.servers, serial));
}

/* Ann has one of serial 5, Bob one of serial 9. */
static void vouchers(void)
{
    sefl_buf v = { 0 };
    pinned others = s.w.t.servers;
    char cert[300], key[300];
    uint64_t serial;
    uint8_t got[SIGN_PUB_BYTES];
    /* malformed, another client's, for other servers, an invalid signature */
    assert_int_equal(post(s.ann, span_of("x", 1)), 400);
    assert_int_equal(post(s.ann, span_of("", 0)), 400);
    voucher_of(&v, "ann", 2, 6);
    assert_int_equal(post(s.ann, span_of(v.p, v.n - 1)), 400);
    assert_int_equal(post(s.bob, buf_span(&v)), 403);
    v.p[40] ^= 1; /* in the upload key */
    assert_int_equal(post(s.ann, buf_span(&v)), 403);
    others.csp[0] ^= 1;
    net_path(cert, "ann", ".pem");
    net_path(key, "ann", ".key");
    buf_reset(&v);
    CHECK_OK(vouch_make(&v, cert, key, sign_key_pub(s.w.upload_key[2]), &others, 6));
    assert_int_equal(post(s.ann, buf_span(&v)), 403);
    assert_int_equal(s.http.counts[AGG_HTTP_VOUCHER_FORM], 3);
    assert_int_equal(s.http.counts[AGG_HTTP_VOUCHER_REFUSED], 3);
    /* CSP refuses: the previous one stays */
    voucher_of(&v, "ann", 2, 6);
    s.w.no_vouch = true;
    assert_int_equal(post(s.ann, buf_span(&v)), 403);
    assert_int_equal(s.http.counts[AGG_HTTP_VOUCHER_CSP], 1);
    s.w.no_vouch = false;
    CHECK_OK(upload_key_get(s.w.j, s.ann_key, &serial, got));
    assert_int_equal(serial, 5);
    assert_memory_equal(got, sign_key_pub(s.w.upload_key[0]), sizeof got);
    /* the same one again is accepted; an older one, the same serial for another key, and another
     * client's key are refused */
    voucher_of(&v, "ann", 0, 5);
    unsigned at_as = entries(s.w.audit, "aggregator", "vouched");
    unsigned at_csp = entries(s.csp_audit.log, "csp", "vouched");
    assert_true(at_as > 0 && at_csp > 0);
    for (int i = 0; i < 20; i++) /* is no event: a member cannot fill the disks with it */
        assert_int_equal(post(s.ann, buf_span(&v)), 200);
    assert_int_equal(entries(s.w.audit, "aggregator", "vouched"), at_as);
    assert_int_equal(entries(s.csp_audit.log, "csp", "vouched"), at_csp);
    voucher_of(&v, "ann", 2, 4);
    assert_int_equal(post(s.ann, buf_span(&v)), 403);
    voucher_of(&v, "ann", 2, 5);
    assert_int_equal(post(s.ann, buf_span(&v)), 403);
    voucher_of(&v, "bob", 0, 10);
    assert_int_equal(post(s.bob, buf_span(&v)), 403);
    assert_int_equal(s.http.counts[AGG_HTTP_VOUCHER_REFUSED], 6);
    assert_int_equal(s.http.counts[AGG_HTTP_VOUCHED], 22);
    assert_int_equal(status_of(s.ann, "/v1/voucher"), 405);
    buf_clear(&v);
}

/* The proof that client k was counted in round 1. */
static void counted(https_client *c, unsigned k, const uint8_t me[32])
{
    https_reply r = { 0 };
    uint8_t units[32];
    sefl_free(aw_body(&s.w, k, 1, units));
    assert_int_equal(get(c, "/v1/round/1/counted", &r), 200);
    CHECK_OK(client_counted_check(&s.w.t, buf_span(&r.body), 1, me, units));
    units[0] ^= 1;
    CHECK_STATUS(client_counted_check(&s.w.t, buf_span(&r.body), 1, me, units), SEFL_EAUTH);
    https_reply_clear(&r);
}

static void a_whole_task(void **state)
{
    (void)state;
    https_reply r = { 0 };
    round_news n;
    sefl_buf scratch = { 0 };
    char file[300], url[160], other[300], other_url[160];
    waiter a = { .c = s.ann, .query = "?after=0&wait=30" };
    uint64_t total = task_body_bytes(&s.w.t);

    news_of(s.bob, "", &n, &scratch); /* before CSP is connected */
    assert_int_equal(n.state, ROUND_WAITING);
    update_file(0, 1, file, url);
    assert_int_equal(put(s.bob, url, file, 0, NULL, &r), 425);
    https_reply_clear(&r);
    assert_int_equal(pthread_create(&a.id, NULL, wait_news, &a), 0);
    usleep(300000); /* it is parked now */
    s.w.unreachable = true;
    aw_drive_start(&s.w);
    sefl_buf v = { 0 };
    voucher_of(&v, "bob", 1, 9);
    assert_int_equal(post(s.bob, buf_span(&v)), 503); /* CSP cannot be asked */
    assert_int_equal(s.http.counts[AGG_HTTP_VOUCHER_LINK], 1);
    s.w.unreachable = false;
    pthread_join(a.id, NULL);
    assert_int_equal(a.n.state, ROUND_OPEN); /* woken, not timed out */
    assert_int_equal(a.n.round, 1);
    assert_true(a.seconds > 0.25 && a.seconds < 20);

    news_of(s.ann, "?after=1&wait=1", &n, &scratch); /* nothing new: answered after a second */
    assert_int_equal(n.state, ROUND_WAITING);

    /* an interrupted upload resumes by offset; its receipt names the certificate's key */
    CHECK_OK(https_head(s.ann, url, NULL, &r));
    assert_int_equal(r.status, 200);
    assert_int_equal(r.number, 0);
    assert_int_equal(put(s.ann, url, file, 0, "Sefl-Total: 7\n", &r), 413);
    assert_int_equal(put(s.ann, url, file, 0, "Sefl-Total: x\n", &r), 400);
    update_file(0, 1, file, url); /* CSP's round key exists now */
    assert_int_equal(put(s.ann, url, file, 0, NULL, &r), 403);
    assert_non_null(strstr((const char *)r.body.p, "no voucher"));
    said_of(s.ann_key, "upload refused", "upload.no_voucher");
    voucher_of(&v, "ann", 0, 5);
    assert_int_equal(post(s.ann, buf_span(&v)), 200);
    voucher_of(&v, "bob", 1, 9);
    assert_int_equal(post(s.bob, buf_span(&v)), 200);
    buf_clear(&v);
    assert_int_equal(status_of(s.ann, "/v1/round/1/counted"), 404);
    hostile_uploads(url);
    assert_int_equal(put(s.ann, url, file, 100, NULL, &r), 409);
    assert_int_equal(r.number, 0);
    ingest_ask ask = {
        .round = 1, .client = s.ann_key, .name = "ann", .total = total, .length = total
    };
    upload *u;
    ingest_reply half;
    uint8_t *body = aw_body(&s.w, 0, 1, ask.body);
    ingest_begin(s.w.in, &u, &ask, &half);
    assert_non_null(u);
    CHECK_OK(upload_bytes(u, span_of(body, 300)));
    upload_free(u);
    sefl_free(body);
    https_reply_clear(&r);
    CHECK_OK(https_head(s.ann, url, NULL, &r));
    assert_int_equal(r.number, 300);
    https_reply_clear(&r);
    CHECK_OK(https_head(s.bob, url, NULL, &r));
    assert_int_equal(r.number, 0);
    assert_int_equal(put(s.ann, url, file, 300, NULL, &r), 200);
    envelope env;
    round_receipt receipt;
    CHECK_OK(envelope_read(&env, buf_span(&r.body)));
    CHECK_OK(envelope_check_one(&env, SIGN_RECEIPT, SIGNER_AS, s.w.t.servers.as));
    CHECK_OK(round_receipt_read(&receipt, env.content));
    assert_memory_equal(receipt.client, s.ann_key, 32);
    assert_int_equal(put(s.ann, url, file, 0, NULL, &r), 200);     /* again */
    assert_int_equal(put(s.ann, url, file, total, NULL, &r), 200); /* nothing left to send */
    assert_int_equal(put(s.bob, url, file, 0, NULL, &r), 409);     /* a copy of hers */
    said_of(s.bob_key, "upload refused", "upload.copied");
    update_file(1, 1, other, other_url);
    assert_int_equal(put(s.ann, other_url, other, 0, NULL, &r), 409); /* another one of hers */
    assert_int_equal(put(s.bob, other_url, other, 0, NULL, &r), 200);

    news_of(s.bob, "?after=1&wait=30", &n, &scratch);
    assert_int_equal(n.state, ROUND_OPEN);
    assert_int_equal(n.round, 2);
    assert_int_equal(put(s.bob, other_url, other, 0, NULL, &r), 200); /* its receipt, at any time */
    assert_int_equal(status_of(s.ann, "/v1/round/1/model"), 404);
    counted(s.ann, 0, s.ann_key);
    counted(s.bob, 1, s.bob_key);
    counted(s.ann, 0, s.ann_key);
    assert_int_equal(status_of(s.ann, "/v1/round/2/counted"), 404); /* not yet */
    assert_int_equal(status_of(s.ann, "/v1/round/9/counted"), 404);
    https_reply_clear(&r);
    assert_int_equal(get(s.ann, "/v1/round/2/model", &r), 200);
    uint8_t hash[32];
    sha256_of(hash, buf_span(&r.body));
    assert_memory_not_equal(hash, s.w.t.init_hash, 32);
    https_reply_clear(&r);

    vouchers();
    update_file(0, 2, file, url);
    assert_int_equal(put(s.ann, url, file, 0, NULL, &r), 200);
    update_file(1, 2, other, other_url);
    assert_int_equal(put(s.bob, other_url, other, 0, NULL, &r), 200);
    https_reply_clear(&r);
    news_of(s.ann, "?after=2&wait=30", &n, &scratch);
    assert_int_equal(n.state, ROUND_OVER);
    assert_string_equal(n.why, agg_why_text(AGG_WHY_ROUNDS));
    aw_drive_join(&s.w);
    CHECK_OK(s.w.st);
    uint64_t others = ingest_count(s.w.in, INGEST_OTHER);
    update_file(3, 2, other, other_url);
    assert_int_equal(put(s.bob, other_url, other, 0, NULL, &r), 409);
    assert_int_equal(put(s.bob,
                         "/v1/round/1/update/"
                         "00000000000000000000000000000000"
                         "00000000000000000000000000000000",
                         other, 0, NULL, &r),
                     409); /* he is in round 1 with another body */
    assert_int_equal(ingest_count(s.w.in, INGEST_OTHER), others + 2);
    update_file(0, 3, other, other_url);
    assert_int_equal(put(s.ann, other_url, other, 0, NULL, &r), 410);
    assert_int_equal(ingest_count(s.w.in, INGEST_LATE), 1);
    https_reply_clear(&r);
    assert_int_equal(get(s.ann, "/v1/model", &r), 200);
    https_reply_clear(&r);
    buf_clear(&scratch);
}

/* Every entry of the list has a handler. */
static void every_call_is_answered(void **state)
{
    (void)state;
    static const char *const methods[] = {
#define METHOD(name, method, path, answer) method,
        HTTP_CALLS(METHOD)
    };
    uint64_t before = s.http.counts[AGG_HTTP_NO_PATH];
    char file[300];
    snprintf(file, sizeof file, "%s", folder_put("one", (const uint8_t *)"x", 1));
    for (int i = 0; i < HTTP_CALLS_N; i++) {
        https_reply r = { 0 };
        char path[HTTP_PATH_MAX];
        http_path(path, &(http_target){ .call = (http_call)i, .round = 1 });
        if (strcmp(methods[i], "PUT") == 0)
            CHECK_OK(https_put_file(s.ann, path, file, 0, NULL, NULL, &r));
        else if (strcmp(methods[i], "POST") == 0)
            CHECK_OK(https_post(s.ann, path, span_of("x", 1), 1 << 10, 5, &r));
        else if (strcmp(methods[i], "HEAD") == 0)
            CHECK_OK(https_head(s.ann, path, NULL, &r));
        else
            CHECK_OK(https_get(s.ann, path, 1 << 20, 5, &r));
        assert_true(r.status >= 200 && r.status < 500 && r.status != 405);
        https_reply_clear(&r);
    }
    assert_int_equal(s.http.counts[AGG_HTTP_NO_PATH], before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents),
        cmocka_unit_test(without_a_task_clients_wait),
        cmocka_unit_test(nothing_else),
        cmocka_unit_test(a_whole_task),
        cmocka_unit_test(every_call_is_answered),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
