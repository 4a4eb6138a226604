#include "roles/aggregator/as_http.h"

#include "base/alloc.h"
#include "base/hex.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OCTETS "application/octet-stream"

const char *agg_http_event_name(agg_http_event e)
{
    static const char *const event_names[] = { AGG_HTTP_EVENTS(SEFL_TEXT) };
    return (unsigned)e < AGG_HTTP_EVENTS_N ? event_names[e] : "?";
}

void agg_http_count(const https_request *r, agg_http_event e)
{
    agg_http *h = r->server_ctx;
    atomic_fetch_add(&h->counts[e], 1);
}

void agg_http_later(https_request *r, unsigned status, const char *line)
{
    https_answer(r, status, "text/plain; charset=utf-8", "Retry-After: 10\n", span_of_str(line));
}

/* Counts, logs and answers. */
static void SEFL_PRINTF(4, 5)
    refuse(https_request *r, agg_http_event e, unsigned status, const char *fmt, ...)
{
    char why[VERSION_SENTENCE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    agg_http_count(r, e);
    https_log_refused(r, "request refused", agg_http_event_name(e), why);
    https_answer_text(r, status, "%s", why);
}

/* Returns a field of the request; NULL if it is missing. */
static const char *field(const https_request *r, http_field f)
{
    const char *name = http_field_name(f);
    return http_field_is_query(f) ? https_query(r, name) : https_header(r, name);
}

/* Reads a number from a field; false if the field is missing or is not a number. */
static bool number(const https_request *r, http_field f, uint64_t *out)
{
    const char *text = field(r, f);
    return text && http_number_read(out, text, strlen(text));
}

static void bad_numbers(https_request *r, http_field a, http_field b)
{
    refuse(r, AGG_HTTP_NUMBERS, 400, "%s and %s must be whole numbers", http_field_name(a),
           http_field_name(b));
}

/* Answers 404 or 429 with the reason; any other status is our own failure: 500. */
static void answer_failed(https_request *r, sefl_status st)
{
    const agg_http *h = r->server_ctx;
    if (st == SEFL_ENOTFOUND || st == SEFL_EBUDGET) {
        https_answer_text(r, st == SEFL_ENOTFOUND ? 404 : 429, "%s", sefl_last_error());
        return;
    }
    log_error(h->log, "not answered", lf_str("path", r->path), lf_str("why", sefl_last_error()));
    agg_http_count(r, AGG_HTTP_FAILED);
    https_answer_text(r, 500, "the server failed");
}

/* ---- documents ------------------------------------------------------------------------------- */

static void get_health(https_request *r)
{
    https_answer_text(r, 200, "ok");
}

static void get_task(https_request *r)
{
    const agg_http *h = r->server_ctx;
    char hex[65], headers[96];
    hex_write(hex, h->task->id, 32);
    snprintf(headers, sizeof headers, "ETag: \"%s\"\n", hex);
    https_answer(r, 200, OCTETS, headers, h->envelope);
}

static void answer_file(https_request *r, const char *path, const uint8_t hash[32],
                        const char *type)
{
    char hex[65];
    hex_write(hex, hash, 32);
    https_answer_file(r, path, type, hex);
}

static void get_vocab(https_request *r)
{
    const agg_http *h = r->server_ctx;
    if (h->vocab)
        answer_file(r, h->vocab, h->task->vocab_hash, "text/plain; charset=utf-8");
    else
        https_answer_text(r, 404, "the task has no word list: its model is external");
}

static void get_init(https_request *r)
{
    const agg_http *h = r->server_ctx;
    answer_file(r, h->init, h->task->init_hash, OCTETS);
}

/* The model of a round, or the latest one. */
static void get_model(https_request *r, const http_target *t)
{
    agg_http *h = r->server_ctx;
    char path[PATH_MAX];
    uint8_t hash[SHA256_BYTES];
    sefl_status st = rounds_model(h->rounds, t->round, t->call == HTTP_MODEL, path, hash);
    if (t->call == HTTP_MODEL)
        atomic_store(&h->model_ms, clock_ms(h->mono));
    if (st != SEFL_OK) {
        answer_failed(r, st);
        return;
    }
    if (t->call == HTTP_ROUND_MODEL)
        turnout_fetched(h->turnout, t->round, r->peer.fingerprint, r->peer.name);
    answer_file(r, path, hash, OCTETS);
}

/* The proof that the client's update was counted. */
static void get_counted(https_request *r, const http_target *t)
{
    const agg_http *h = r->server_ctx;
    sefl_buf proof = { 0 };
    sefl_status st = rounds_counted(h->rounds, t->round, r->peer.fingerprint, &proof);
    if (st == SEFL_OK)
        https_answer(r, 200, OCTETS, "Cache-Control: no-store\n", buf_span(&proof));
    else
        answer_failed(r, st);
    buf_clear(&proof);
}

/* ---- the current round ----------------------------------------------------------------------- */

typedef struct poll_state {
    uint64_t after, until_ms;
} poll_state;

static void answer_news(https_request *r)
{
    agg_http *h = r->server_ctx;
    const poll_state *p = r->state;
    round_news n;
    sefl_buf header = { 0 }, body = { 0 };
    sefl_status st = rounds_news(h->rounds, p->after, &n, &header);
    if (st == SEFL_OK && n.state == ROUND_OPEN &&
        turnout_told(h->turnout, n.round, r->peer.fingerprint, r->peer.name) && h->back)
        h->back(h);
    if (st == SEFL_OK)
        st = round_news_write(&body, &n);
    if (st == SEFL_OK)
        https_answer(r, 200, "application/json", "Cache-Control: no-store\n", buf_span(&body));
    else
        answer_failed(r, st);
    buf_clear(&header);
    buf_clear(&body);
}

/* The request was woken or timed out: answers, or keeps waiting if there is no news for this
 * client. */
static void resume_round(https_request *r)
{
    const agg_http *h = r->server_ctx;
    const poll_state *p = r->state;
    if (!h->closing && !rounds_has_news(h->rounds, p->after) && clock_ms(h->mono) < p->until_ms)
        https_park(r, p->until_ms);
    else
        answer_news(r);
}

static void drop_state(https_request *r)
{
    sefl_free(r->state);
    r->state = NULL;
}

static void get_round(https_request *r)
{
    const agg_http *h = r->server_ctx;
    uint64_t wait_s = 0;
    poll_state *p;
    if (sefl_new(&p, 1, sizeof *p) != SEFL_OK) {
        answer_failed(r, SEFL_ENOMEM);
        return;
    }
    r->state = p;
    r->drop = drop_state;
    if ((field(r, HTTP_AFTER_FIELD) && !number(r, HTTP_AFTER_FIELD, &p->after)) ||
        (field(r, HTTP_WAIT_FIELD) && !number(r, HTTP_WAIT_FIELD, &wait_s))) {
        bad_numbers(r, HTTP_AFTER_FIELD, HTTP_WAIT_FIELD);
        return;
    }
    if (wait_s > AGG_HTTP_WAIT_MAX_S)
        wait_s = AGG_HTTP_WAIT_MAX_S;
    p->until_ms = clock_ms(h->mono) + 1000 * wait_s;
    r->resume = resume_round;
    if (wait_s == 0)
        answer_news(r);
    else
        resume_round(r);
}

/* ---- updates --------------------------------------------------------------------------------- */

/* Resuming and reconnecting are normal; a failure of our disk is logged already. */
static void log_reply(const https_request *r, const ingest_reply *reply)
{
    const agg_http *h = r->server_ctx;
    char reason[32];
    if (reply->status < 400 || reply->end == INGEST_OFFSET || reply->end == INGEST_REPLACED ||
        reply->end == INGEST_DISK)
        return;
    snprintf(reason, sizeof reason, "upload.%s", ingest_end_name(reply->end));
    audit_refused(h->audit, lf_str("by", "aggregator"), lf_key("client", r->peer.fingerprint),
                  lf_str("reason", reason));
    /* a round that needs fewer updates than there are clients always refuses some */
    if (reply->end == INGEST_LATE || reply->end == INGEST_FULL) {
        log_debug(h->log, "round has enough", lf_str("reason", reason),
                  lf_str("name", r->peer.name));
        return;
    }
    https_log_refused(r, "upload refused", reason, reply->text);
}

/* The path names the round. */
static void note_turnout(const https_request *r, const ingest_reply *reply)
{
    const agg_http *h = r->server_ctx;
    http_target t;
    if (http_find(&t, r->method, r->path) == HTTP_FOUND && t.call == HTTP_UPDATE)
        turnout_upload(h->turnout, t.round, r->peer.fingerprint, r->peer.name, reply->end,
                       reply->text);
}

static void send_reply(https_request *r, ingest_reply *reply)
{
    char headers[96];
    size_t n = 0;
    headers[0] = 0;
    log_reply(r, reply);
    note_turnout(r, reply);
    if (reply->offset != UINT64_MAX)
        n += (size_t)snprintf(headers + n, sizeof headers - n, "%s: %" PRIu64 "\n",
                              http_field_name(HTTP_OFFSET_FIELD), reply->offset);
    if (reply->retry_s > 0)
        snprintf(headers + n, sizeof headers - n, "Retry-After: %u\n", reply->retry_s);
    if (reply->receipt.n > 0) {
        https_answer(r, reply->status, OCTETS, headers, buf_span(&reply->receipt));
    } else {
        char line[sizeof reply->text + 1];
        snprintf(line, sizeof line, "%s\n", reply->text);
        https_answer(r, reply->status, "text/plain; charset=utf-8", headers, span_of_str(line));
    }
    buf_clear(&reply->receipt);
}

static sefl_status put_bytes(https_request *r, sefl_span bytes)
{
    return upload_bytes(r->state, bytes);
}

static void put_end(https_request *r, sefl_status st)
{
    ingest_reply reply;
    if (st == SEFL_ECLOSED) { /* disconnected: its part stays, drop counts it */
        reply = (ingest_reply){ .end = INGEST_CUT, .text = "its upload broke off" };
        note_turnout(r, &reply);
        return;
    }
    upload_end(r->state, &reply);
    send_reply(r, &reply);
}

static void put_drop(https_request *r)
{
    upload_free(r->state);
    r->state = NULL;
}

/* Returns the peer's CA if only that vouches for it; NULL if the peer is listed, or there is no
 * list. */
static const uint8_t *issuer_of(const x509_peer *p)
{
    static const uint8_t nobody[sizeof p->issuer];
    return p->listed || memcmp(p->issuer, nobody, sizeof nobody) == 0 ? NULL : p->issuer;
}

static ingest_ask ask_of(const https_request *r, const http_target *t)
{
    ingest_ask ask = { .client = r->peer.fingerprint,
                       .issuer = issuer_of(&r->peer),
                       .name = r->peer.name,
                       .round = t->round };
    memcpy(ask.body, t->hash, sizeof ask.body);
    return ask;
}

static void put_update(https_request *r, const http_target *t)
{
    const agg_http *h = r->server_ctx;
    ingest_ask ask = ask_of(r, t);
    ingest_reply reply;
    upload *u;
    ask.length = r->body_bytes;
    if (!number(r, HTTP_TOTAL_FIELD, &ask.total) ||
        (field(r, HTTP_OFFSET_FIELD) && !number(r, HTTP_OFFSET_FIELD, &ask.offset))) {
        bad_numbers(r, HTTP_TOTAL_FIELD, HTTP_OFFSET_FIELD);
        return;
    }
    /* AS hashes and checks the stored part again, so a client pays for resuming byte by byte */
    if (!https_take_bytes(r, ask.offset))
        return;
    ingest_begin(h->ingest, &u, &ask, &reply);
    if (!u) {
        send_reply(r, &reply);
        return;
    }
    r->state = u;
    r->drop = put_drop;
    if (ask.length == 0) { /* everything is stored already */
        upload_end(u, &reply);
        send_reply(r, &reply);
        return;
    }
    r->body = put_bytes;
    r->end = put_end;
}

static void head_update(https_request *r, const http_target *t)
{
    const agg_http *h = r->server_ctx;
    ingest_ask ask = ask_of(r, t);
    ingest_reply reply;
    ingest_offset(h->ingest, &ask, &reply);
    send_reply(r, &reply);
}

/* ---- posts that need CSP's decision ---------------------------------------------------------- */

static sefl_status post_bytes(https_request *r, sefl_span bytes)
{
    agg_post *p = r->state;
    return wr_raw(&p->body, bytes.p, bytes.n);
}

static void post_drop(https_request *r)
{
    const agg_http *h = r->server_ctx;
    agg_post *p = r->state;
    rounds_request_end(h->rounds, p->asked);
    buf_clear(&p->body);
    drop_state(r);
}

/* Answers, or keeps waiting for CSP. */
static void post_resume(https_request *r)
{
    const agg_http *h = r->server_ctx;
    const agg_post *p = r->state;
    const agg_post_kind *k = p->kind;
    uint8_t sig[SIGN_BYTES];
    sefl_status st = SEFL_EIO;
    bool done = rounds_request_done(h->rounds, p->asked, &st, sig);
    if (!done && !atomic_load(&h->closing) && clock_ms(h->mono) < p->until_ms)
        https_park(r, p->until_ms);
    else if (done && st == SEFL_OK)
        k->yes(r, sig);
    else if (done && st == SEFL_EAUTH)
        k->refuse(r, k->no, 403, "CSP refused it");
    else
        k->refuse(r, k->no_csp, 503, done ? "CSP is not connected" : "CSP did not answer in time");
}

bool agg_post_begin(https_request *r, const agg_post_kind *k)
{
    agg_post *p;
    if (sefl_new(&p, 1, k->bytes) != SEFL_OK)
        return false;
    p->kind = k;
    p->body.max = k->max;
    r->state = p;
    r->body = post_bytes, r->end = k->end, r->resume = post_resume, r->drop = post_drop;
    return true;
}

void agg_post_wait(https_request *r)
{
    const agg_http *h = r->server_ctx;
    agg_post *p = r->state;
    p->until_ms = clock_ms(h->mono) + p->kind->wait_ms;
    post_resume(r);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

/* True if AS accepts the client's version. */
static bool version_fits(https_request *r)
{
    version_number v;
    const int ours = VERSION_MINOR;
    char why[VERSION_SENTENCE];
    if (version_read(&v, field(r, HTTP_VERSION_FIELD)) != SEFL_OK)
        snprintf(why, sizeof why, "%s", sefl_last_error());
    else if (version_takes(v, why)) {
        if (v.minor < ours)
            agg_http_count(r, AGG_HTTP_OLDER);
        return true;
    }
    refuse(r, AGG_HTTP_VERSION, 426, "%s", why);
    return false;
}

void agg_http_begin(https_request *r)
{
    static const struct {
        void (*plain)(https_request *r); /* or: */
        void (*of_round)(https_request *r, const http_target *t);
    } handlers[HTTP_CALLS_N] = {
        [HTTP_HEALTH] = { .plain = get_health },
        [HTTP_TASK] = { .plain = get_task },
        [HTTP_ROUND] = { .plain = get_round },
        [HTTP_ROUND_MODEL] = { .of_round = get_model },
        [HTTP_MODEL] = { .of_round = get_model },
        [HTTP_VOCAB] = { .plain = get_vocab },
        [HTTP_INIT] = { .plain = get_init },
        [HTTP_UPDATE_STATE] = { .of_round = head_update },
        [HTTP_UPDATE] = { .of_round = put_update },
        [HTTP_COUNTED] = { .of_round = get_counted },
        [HTTP_VOUCHER] = { .plain = agg_voucher_begin },
        [HTTP_CERTIFICATE] = { .plain = agg_certificate },
        [HTTP_ENROL] = { .plain = agg_enrol_begin },
    };
    const agg_http *h = r->server_ctx;
    http_target t;
    if (!version_fits(r))
        return;
    switch (http_find(&t, r->method, r->path)) {
    case HTTP_NO_PATH:
        refuse(r, AGG_HTTP_NO_PATH, 404, "no such path");
        break;
    case HTTP_NO_METHOD:
        refuse(r, AGG_HTTP_METHOD, 405, "this path does not accept %.16s", r->method);
        break;
    case HTTP_FOUND:
        if (!h->task && t.call != HTTP_HEALTH && t.call != HTTP_CERTIFICATE)
            agg_http_later(r, 503, "no task now; ask again later\n");
        else if (handlers[t.call].plain)
            handlers[t.call].plain(r);
        else
            handlers[t.call].of_round(r, &t);
        break;
    }
}
