/* Requests as AS's handler gets them, without sockets: method, path, query and header fields are
 * the input's lines; the harness replaces everything around the handler (rounds, uploads, the HTTP
 * server). Input: METHOD \n PATH \n after \n wait \n Sefl-Offset \n Sefl-Total \n Sefl-Version \n
 * body bytes; a field that is "-" is absent. Exactly one answer, or the body is accepted, or the
 * request waits; and the handler's interpretation must match a plain reading of the text. An
 * enrolment request uses a real operator's folder with an open token. Its body may begin with "@":
 * then triples of bytes (position u16, value) overwrite bytes of a valid request. Only that exact
 * claim is admitted. In the same way a body of /v1/voucher may be a valid voucher with changed
 * bytes; CSP refuses it if there is an `after`. */
#include "base/alloc.h"
#include "base/file.h"
#include "protocol/http.h"
#include "protocol/version.h"
#include "roles/aggregator/as_http.h"
#include "roles/ca.h"
#include "roles/vouch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { METHOD, PATH, AFTER, WAIT, OFFSET, TOTAL, VERSION, FIELDS };

struct upload {
    size_t got;
};

static struct {
    char *field[FIELDS]; /* NULL: not there */
    unsigned answers, parks, uploads, asked;
    unsigned status;
    struct upload up;
    ingest_ask ask;
} now;

static void must(int ok)
{
    if (!ok)
        abort();
}

/* ---- the HTTP server ---- */

const char *https_query(const https_request *r, const char *name)
{
    (void)r;
    return strcmp(name, "after") == 0  ? now.field[AFTER]
           : strcmp(name, "wait") == 0 ? now.field[WAIT]
                                       : NULL;
}

const char *https_header(const https_request *r, const char *name)
{
    (void)r;
    return strcmp(name, "Sefl-Offset") == 0    ? now.field[OFFSET]
           : strcmp(name, "Sefl-Total") == 0   ? now.field[TOTAL]
           : strcmp(name, "Sefl-Version") == 0 ? now.field[VERSION]
                                               : NULL;
}

void https_answer(https_request *r, unsigned status, const char *type, const char *headers,
                  sefl_span body)
{
    (void)r, (void)type, (void)headers, (void)body;
    now.status = status;
    now.answers++;
}

void https_answer_text(https_request *r, unsigned status, const char *fmt, ...)
{
    (void)fmt;
    https_answer(r, status, NULL, NULL, (sefl_span){ 0 });
}

void https_answer_file(https_request *r, const char *path, const char *type, const char *etag)
{
    must(path && strlen(etag) == 64);
    https_answer(r, 200, type, NULL, (sefl_span){ 0 });
}

void https_park(https_request *r, uint64_t until_ms)
{
    (void)r;
    must(until_ms <= 1000 * AGG_HTTP_WAIT_MAX_S + 5000);
    now.parks++;
}

bool https_may_log(const https_request *r)
{
    (void)r;
    return true;
}

void https_log_refused(const https_request *r, const char *event, const char *reason,
                       const char *why)
{
    must(r && event && reason && why);
}

bool https_take_bytes(https_request *r, uint64_t n)
{
    (void)r, (void)n;
    return true;
}

/* ---- rounds and uploads ---- */

sefl_status rounds_model(rounds *r, uint64_t round, bool latest, char path[PATH_MAX],
                         uint8_t hash[SHA256_BYTES])
{
    (void)r;
    memset(hash, 7, SHA256_BYTES);
    must(latest || round > 0);
    if (round > 3)
        return sefl_fail(SEFL_ENOTFOUND, "no such model");
    memcpy(path, "m", 2);
    return SEFL_OK;
}

bool rounds_has_news(rounds *r, uint64_t after)
{
    (void)r;
    return after < 3;
}

sefl_status rounds_news(rounds *r, uint64_t after, round_news *out, sefl_buf *header)
{
    (void)r, (void)header;
    *out = (round_news){ .state = ROUND_WAITING, .round = after < 3 ? 3 : 0 };
    return SEFL_OK;
}

/* CSP accepts any token. It answers late if the request has a `wait`. */
static struct {
    char root[128], as[192];
    sign_key *as_key, *csp_key;
    sefl_buf good; /* a request */
    enrol_claim claim;
    enrol_claim asked; /* what CSP was asked */
    bool proved, vouching;
    sefl_buf voucher; /* a good one */
    uint8_t client[32];
} op;

sefl_status rounds_enrol(rounds *r, csp_request **out, const enrol_claim *c, const enrol_proof *p)
{
    (void)r;
    *out = NULL;
    op.vouching = false;
    op.asked = *c;
    op.proved = enrol_proof_check(p, c) == SEFL_OK;
    now.asked++;
    return SEFL_OK;
}

/* Only a voucher that the client's own key signed for these servers gets here; the chain is not
 * signed. */
sefl_status rounds_vouch(rounds *r, csp_request **out, sefl_span bytes)
{
    voucher v, good;
    (void)r;
    *out = NULL;
    op.vouching = true;
    must(voucher_read(&v, bytes) == SEFL_OK);
    must(voucher_read(&good, buf_span(&op.voucher)) == SEFL_OK);
    must(memcmp(v.client, op.client, 32) == 0 && memcmp(v.key, good.key, 32) == 0 &&
         v.serial == good.serial && memcmp(&v.servers, &good.servers, sizeof v.servers) == 0);
    now.asked++;
    return SEFL_OK;
}

sefl_status rounds_counted(rounds *r, uint64_t round, const uint8_t client[32], sefl_buf *out)
{
    (void)r, (void)client;
    return round == 1 ? wr_u32(out, 0) : sefl_fail(SEFL_ENOTFOUND, "not counted yet");
}

bool rounds_request_done(rounds *r, const csp_request *e, sefl_status *st, uint8_t sig[SIGN_BYTES])
{
    (void)r, (void)e;
    if (now.field[WAIT] && now.parks < 2)
        return false;
    if (op.vouching)
        *st = now.field[AFTER] ? SEFL_EAUTH : SEFL_OK;
    else
        *st = op.proved ? enrol_approve(sig, &op.asked, op.csp_key) : SEFL_EAUTH;
    return true;
}

void rounds_request_end(rounds *r, csp_request *e)
{
    (void)r, (void)e;
}

bool rounds_over(rounds *r, agg_why *why)
{
    (void)r, (void)why;
    return false;
}

const char *ingest_end_name(ingest_end e)
{
    must((unsigned)e < INGEST_ENDS);
    return "end";
}

void ingest_begin(ingest *in, upload **out, const ingest_ask *ask, ingest_reply *r)
{
    (void)in;
    now.ask = *ask;
    now.uploads++;
    *out = NULL;
    *r = (ingest_reply){ .status = 410, .offset = UINT64_MAX };
    if (ask->round == 1 && ask->offset <= ask->total)
        *out = &now.up;
}

sefl_status upload_bytes(upload *u, sefl_span piece)
{
    u->got += piece.n;
    return piece.n > 64 ? sefl_fail(SEFL_EPROTO, "not a ciphertext") : SEFL_OK;
}

void upload_end(upload *u, ingest_reply *r)
{
    (void)u;
    *r = (ingest_reply){ .status = 200, .offset = 9 };
}

void upload_free(upload *u)
{
    u->got = 0;
}

void ingest_offset(ingest *in, const ingest_ask *ask, ingest_reply *r)
{
    (void)in;
    now.ask = *ask;
    *r = (ingest_reply){ .status = 200, .offset = ask->round };
}

/* ---- an operator's folder, and a site with tokens ---- */

static void remove_root(void)
{
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", op.root);
    must(system(command) == 0);
}

static void a_token(token *out, trust *t, const char *name, int64_t at, const sefl_rng *rng)
{
    sefl_buf text = { 0 };
    must(ca_token(t, &text, name, at + 86400 * 365, at, rng) == SEFL_OK);
    must(token_parse(out, buf_span(&text)) == SEFL_OK);
    buf_clear(&text);
}

static void make_folder(task *t)
{
    char path[3][192];
    int64_t at = (int64_t)time(NULL);
    sefl_rng rng = rng_system();
    sefl_buf csr = { 0 };
    enrol_request q = { 0 };
    trust_edit e;
    trust *other;
    token as_token, csp_token;
    must(file_temp_folder(op.root, sizeof op.root, "fuzz-enrol") == SEFL_OK &&
         atexit(remove_root) == 0);
    snprintf(op.as, sizeof op.as, "%s/as", op.root);
    snprintf(path[0], sizeof path[0], "%s/cert.pem", op.root);
    snprintf(path[1], sizeof path[1], "%s/key.pem", op.root);
    snprintf(path[2], sizeof path[2], "%s/as/sign.key", op.root);
    must(ca_new(op.as, "fuzz", 30, NULL) == SEFL_OK);
    must(sign_key_read(&op.as_key, path[2]) == SEFL_OK);
    must(sign_key_new(&op.csp_key, &rng) == SEFL_OK);
    must(ca_edit(&e, op.as) == SEFL_OK);
    must(ca_server(e.t, op.as,
                   &(ca_server_config){ .role = TRUST_AGGREGATOR,
                                        .name = "as",
                                        .hosts = "localhost",
                                        .cert = path[0],
                                        .key = path[1] },
                   at) == SEFL_OK);
    a_token(&as_token, e.t, "site", at, &rng);
    must(trust_edit_commit(&e) == SEFL_OK);
    trust_edit_end(&e);
    must(trust_new(&other) == SEFL_OK); /* CSP's own list, which is not used here */
    other->self.role = TRUST_CSP;
    memcpy(other->self.sign, sign_key_pub(op.csp_key), SIGN_PUB_BYTES);
    strcpy(other->self.name, "csp");
    a_token(&csp_token, other, "site", at, &rng);
    trust_free(other);
    snprintf(path[1], sizeof path[1], "%s/site.pem", op.root);
    must(x509_request_make(&csr, path[1], "site") == SEFL_OK);
    must(x509_request_read(q.claim.key, buf_span(&csr)) == SEFL_OK);
    memcpy(q.claim.servers.as, as_token.sign, SIGN_PUB_BYTES);
    memcpy(q.claim.servers.csp, csp_token.sign, SIGN_PUB_BYTES);
    strcpy(q.claim.name, "site");
    must(enrol_prove(&q.as, &q.claim, &as_token) == SEFL_OK);
    must(enrol_prove(&q.csp, &q.claim, &csp_token) == SEFL_OK);
    q.csr = buf_span(&csr);
    must(enrol_request_write(&op.good, &q) == SEFL_OK);
    op.claim = q.claim;
    t->servers = q.claim.servers;
    t->seal = seal_suite_named("x25519");
    voucher v;
    snprintf(path[1], sizeof path[1], "%s/key.pem", op.root);
    must(vouch_make(&op.voucher, path[0], path[1], sign_key_pub(op.csp_key), &t->servers, 5) ==
         SEFL_OK);
    must(voucher_read(&v, buf_span(&op.voucher)) == SEFL_OK);
    memcpy(op.client, v.client, sizeof op.client);
    strcpy(t->population, "us");
    buf_clear(&csr);
    token_clear(&as_token), token_clear(&csp_token);
}

/* "@": a good request with some bytes changed; else the bytes as they are. */
static sefl_span changed_body(sefl_buf *room, const sefl_buf *good, sefl_span in)
{
    if (in.n == 0 || in.p[0] != '@')
        return in;
    must(wr_raw(room, good->p, good->n) == SEFL_OK);
    for (size_t i = 1; i + 3 <= in.n; i += 3)
        room->p[(in.p[i] | (size_t)in.p[i + 1] << 8) % room->n] = in.p[i + 2];
    return buf_span(room);
}

static void check_enrolment(const agg_http *h, sefl_span body)
{
    bool in = now.status == 200;
    if (body.n == op.good.n &&
        memcmp(body.p, op.good.p, body.n) == 0) /* the valid one is accepted */
        must(in || now.status == 426 || now.status == 405);
    must(in == (h->counts[AGG_HTTP_ENROLLED] == 1));
    must(now.asked <= 1 && (!in || now.asked == 1));
    must(!in || (memcmp(op.asked.key, op.claim.key, TRUST_KEY) == 0 &&
                 memcmp(&op.asked.servers, &op.claim.servers, sizeof op.claim.servers) == 0 &&
                 strcmp(op.asked.name, op.claim.name) == 0));
}

static void check_voucher(const agg_http *h, sefl_span body)
{
    bool in = now.status == 200,
         good = body.n == op.voucher.n && memcmp(body.p, op.voucher.p, body.n) == 0;
    must(!good || in || now.status == 426 || now.status == 405 || now.field[AFTER]);
    must(in == (h->counts[AGG_HTTP_VOUCHED] == 1));
    must(now.asked <= 1 && (!in || now.asked == 1));
}

/* ---- a plain reading of the text ---- */

static bool says(const char *text, uint64_t n)
{
    char want[32];
    snprintf(want, sizeof want, "%" PRIu64, n);
    return text && strcmp(text, want) == 0;
}

static void check_ask(void)
{
    char path[160];
    int n = snprintf(path, sizeof path, "/v1/round/%" PRIu64 "/update/", now.ask.round);
    for (int i = 0; i < 32; i++)
        n += snprintf(path + n, sizeof path - (size_t)n, "%02x", now.ask.body[i]);
    must(strcmp(path, now.field[PATH]) == 0 && now.ask.round > 0);
    if (now.uploads > 0) {
        must(says(now.field[TOTAL], now.ask.total));
        must(now.field[OFFSET] ? says(now.field[OFFSET], now.ask.offset) : now.ask.offset == 0);
    }
}

static uint64_t zero_ns(void *self)
{
    (void)self;
    return 0;
}

static void one(https_request *r, agg_http *h, sefl_span body)
{
    r->server_ctx = h;
    agg_http_begin(r);
    if (now.uploads > 0 ||
        (now.status == 200 && strcmp(r->method, "HEAD") == 0 && strstr(r->path, "/update/")))
        check_ask();
    if (now.answers == 0 && now.parks == 0) { /* it accepts a body */
        must(r->body && r->end && r->drop &&
             (now.uploads == 1 || h->ca || strcmp(r->path, "/v1/voucher") == 0));
        sefl_status st = r->body(r, body);
        must(now.answers == 0);
        r->end(r, st);
    }
    for (unsigned i = 0; now.answers == 0 && i < 3; i++) {
        must(now.parks == i + 1 && r->resume);
        h->closing = i == 2; /* no request waits forever */
        r->resume(r);
    }
    must(now.answers == 1 && now.status >= 200 && now.status < 600);
    if (r->drop)
        r->drop(r);
    uint64_t refused = h->counts[AGG_HTTP_VERSION] + h->counts[AGG_HTTP_NO_PATH] +
                       h->counts[AGG_HTTP_METHOD] + h->counts[AGG_HTTP_NUMBERS] +
                       h->counts[AGG_HTTP_ENROL_FORM] + h->counts[AGG_HTTP_VOUCHER_FORM];
    bool ours = now.status == 426 || now.status == 405 || now.status == 400;
    must(!ours || refused == 1); /* each refusal is counted once */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static task t;
    sefl_clock mono = { .now_ns = zero_ns };
    char *text, *p, *next;
    if (!op.as[0])
        make_folder(&t);
    if (size > 16384 || sefl_new(&text, size + 1, 1) != SEFL_OK)
        return 0;
    memcpy(text, data, size);
    memset(&now, 0, sizeof now);
    p = text;
    for (int i = 0; i < FIELDS && p; i++, p = next) {
        next = memchr(p, '\n', size - (size_t)(p - text));
        if (next)
            *next++ = 0;
        now.field[i] = strcmp(p, "-") == 0 ? NULL : p;
    }
    if (now.field[METHOD] && now.field[PATH] && now.field[PATH][0] == '/') {
        sefl_span body = p ? span_of(p, size - (size_t)(p - text)) : (sefl_span){ 0 };
        bool joins = strcmp(now.field[PATH], "/v1/enroll") == 0;
        bool vouches = strcmp(now.field[PATH], "/v1/voucher") == 0;
        sefl_clock wall = clock_wall();
        sefl_buf room = { 0 };
        agg_http h = { .task = &t, .vocab = "v", .init = "i", .mono = &mono, .wall = &wall };
        if (joins) {
            h.ca = op.as, h.key = op.as_key;
            body = changed_body(&room, &op.good, body);
        } else if (vouches) {
            body = changed_body(&room, &op.voucher, body);
        }
        https_request r = { .method = now.field[METHOD],
                            .path = now.field[PATH],
                            .body_bytes = body.n };
        memcpy(r.peer.fingerprint, op.client, sizeof op.client);
        one(&r, &h, body);
        if (joins)
            check_enrolment(&h, body);
        if (vouches)
            check_voucher(&h, body);
        buf_clear(&room);
    }
    sefl_free(text);
    return 0;
}
