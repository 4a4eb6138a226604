/* A whole client against a server and a network that fail and lie: task, rounds, models, uploads,
 * receipts, proofs and the end, over a transport without sockets and a clock that runs when the
 * client waits. The server is that of the unit tests (unit/roles/fake_as.h), with toy signatures.
 * Input: two bytes of settings, four of the server's troubles, then one for each request: what
 * happens to it. Whatever happens, no byte of an update leaves before its charge, a round has one
 * body with a good head, no coin is drawn twice, and the client ends. */
#include "fuzz/toy_sign.h"

/* The server that the client meets, beside the real one in the library. */
#define https_server_start fuzz_server_start
#define https_server_port  fuzz_server_port
#define https_server_stop  fuzz_server_stop
#define https_query        fuzz_query
#define https_header       fuzz_header
#define https_answer       fuzz_answer
#define https_answer_text  fuzz_answer_text
#define https_answer_file  fuzz_answer_file
#define https_park         fuzz_park
#define folder_make        folder_make_quick /* in memory: it syncs often */
#include "unit/parties/client_scene.h"

#include "base/cond.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CALLS_MOST = 300, PIECE = 900 };

static struct {
    rd in;
    federation *s;
    unsigned calls;
    uint64_t ns; /* the time */
    /* the answer to the request in progress */
    unsigned status;
    uint64_t offset;
    sefl_buf body;
    const char *query, *lines;
    char value[64];
} play;

static uint8_t next(void)
{
    uint8_t b = 0;
    return rd_u8(&play.in, &b) == SEFL_OK ? b : 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t now_ns(void *self)
{
    (void)self;
    return play.ns;
}

void cond_init(pthread_cond_t *c)
{
    pthread_cond_init(c, NULL);
}

struct timespec cond_after(uint64_t ms)
{
    (void)ms;
    return (struct timespec){ 0 };
}

void cond_wait_ms(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t ms)
{
    (void)c, (void)lock;
    play.ns += ms * 1000000;
}

sefl_status thread_start(pthread_t *out, void *(*run)(void *), void *arg)
{
    int rc = pthread_create(out, NULL, run, arg);
    return rc == 0 ? SEFL_OK : sefl_fail(SEFL_ENOMEM, "no thread");
}

/* ---- the server's side ----------------------------------------------------------------------- */

sefl_status https_server_start(https_server **out, const https_server_config *c)
{
    (void)c;
    *out = NULL;
    return SEFL_OK;
}

uint16_t https_server_port(const https_server *s)
{
    (void)s;
    return 7000;
}

void https_server_stop(https_server *s)
{
    (void)s;
}

/* "name=value" in the query, "name: value" in the lines. */
static const char *value_of(const char *text, const char *name, const char *sign, char end)
{
    char want[40];
    snprintf(want, sizeof want, "%s%s", name, sign);
    const char *p = text ? strstr(text, want) : NULL;
    if (!p)
        return NULL;
    p += strlen(want);
    snprintf(play.value, sizeof play.value, "%.*s", (int)strcspn(p, (char[]){ end, 0 }), p);
    return play.value;
}

const char *https_query(const https_request *r, const char *name)
{
    (void)r;
    return value_of(play.query, name, "=", '&');
}

const char *https_header(const https_request *r, const char *name)
{
    static char kept[4][64]; /* the server looks at two at a time */
    static unsigned turn;
    (void)r;
    const char *v = value_of(play.lines, name, ": ", '\n');
    return v ? strcpy(kept[turn++ % 4], v) : NULL;
}

void https_answer(https_request *r, unsigned status, const char *type, const char *headers,
                  sefl_span body)
{
    (void)r, (void)type;
    play.status = status;
    play.offset = UINT64_MAX;
    if (headers && strncmp(headers, "Sefl-Offset: ", 13) == 0)
        play.offset = strtoull(headers + 13, NULL, 10);
    buf_reset(&play.body);
    CHECK_OK(wr_raw(&play.body, body.p, body.n));
}

void https_answer_text(https_request *r, unsigned status, const char *fmt, ...)
{
    char line[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    https_answer(r, status, NULL, NULL, span_of_str(line));
}

void https_answer_file(https_request *r, const char *path, const char *type, const char *etag)
{
    sefl_buf b = { 0 };
    (void)etag;
    CHECK_OK(file_read(&b, path, 1 << 20));
    https_answer(r, 200, type, NULL, buf_span(&b));
    buf_clear(&b);
}

void https_park(https_request *r, uint64_t until_ms)
{
    (void)until_ms;
    play.ns += UINT64_C(1000000000) * 3;
    r->resume(r);
}

/* ---- the network ----------------------------------------------------------------------------- */

struct https_client {
    bool interrupted;
};

/* Passes the request to the server. `lost`: the connection breaks after so many bytes of it. */
static void serve(const char *method, const char *target, sefl_span body, bool lost)
{
    char path[512];
    fake_as *as = &play.s->as;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(target, "?"), target);
    play.query = strchr(target, '?');
    https_request r = { .method = method, .path = path, .body_bytes = body.n, .server_ctx = as };
    memcpy(r.peer.fingerprint, me, sizeof r.peer.fingerprint);
    fake_begin(&r);
    if (r.body) {
        sefl_status st = SEFL_OK;
        const size_t all = lost ? body.n / 2 : body.n;
        for (size_t at = 0; at < all && st == SEFL_OK; at += PIECE)
            st = r.body(&r, span_of(body.p + at, all - at < PIECE ? all - at : PIECE));
        r.end(&r, st == SEFL_OK && lost ? SEFL_ECLOSED : st);
    }
    r.drop(&r);
}

/* What happens to an answer; b selects. */
static sefl_status spoil(uint8_t b)
{
    static const unsigned statuses[] = { 401, 403, 404, 409, 410, 413, 422, 425,
                                         426, 429, 500, 503, 200, 206, 301, 418 };
    const unsigned more = b / 16;
    switch (b % 16) {
    case 2:
        return sefl_fail(SEFL_ETIMEOUT, "the answer is lost");
    case 3:
        play.status = statuses[more];
        break;
    case 4:
        for (unsigned i = 0; i <= more && play.body.n > 0; i++) {
            const size_t low = next(), high = next();
            play.body.p[(low | high << 8) % play.body.n] ^= next();
        }
        break;
    case 5:
        play.body.n = play.body.n * more / 16;
        break;
    case 6:
        play.offset = more == 15 ? UINT64_MAX : 100u * more;
        break;
    case 7:
        play.ns += UINT64_C(1) << (20 + more);
        break;
    default:
        break;
    }
    return SEFL_OK;
}

static sefl_status call(https_client *c, const char *method, const char *target, const char *lines,
                        sefl_span body, size_t max, https_reply *r)
{
    const uint8_t b = next();
    *r = (https_reply){ .number = UINT64_MAX, .body.max = max };
    if (++play.calls > CALLS_MOST)
        client_stop(play.s->c);
    if (c->interrupted)
        return sefl_fail(SEFL_ECANCELLED, "https: stopped on request");
    if (b % 16 == 1)
        return sefl_fail(b / 16 == 9 ? SEFL_EAUTH : SEFL_EIO, "not connected");
    play.lines = lines;
    play.status = 0, play.offset = UINT64_MAX;
    serve(method, target, body, b % 16 == 2);
    SEFL_PASS(spoil(b));
    r->status = play.status;
    r->number = play.offset;
    if (play.body.n > max)
        return sefl_fail(SEFL_ERANGE, "https: the answer has more than %zu bytes", max);
    return wr_raw(&r->body, play.body.p, play.body.n);
}

sefl_status https_client_new(https_client **out, const https_client_config *c)
{
    (void)c;
    return sefl_new(out, 1, sizeof **out);
}

void https_client_free(https_client *c)
{
    sefl_free(c);
}

void https_client_interrupt(https_client *c)
{
    c->interrupted = true;
}

sefl_status https_proxy_check(const char *proxy)
{
    (void)proxy;
    return SEFL_OK;
}

sefl_status https_get(https_client *c, const char *path, size_t max, unsigned wait_s,
                      https_reply *r)
{
    play.ns += UINT64_C(1000000) * wait_s; /* a poll takes a little */
    return call(c, "GET", path, NULL, span_of(NULL, 0), max, r);
}

sefl_status https_head(https_client *c, const char *path, const char *headers, https_reply *r)
{
    return call(c, "HEAD", path, headers, span_of(NULL, 0), 1 << 20, r);
}

bool https_ahead(const https_client *c, int64_t *seconds)
{
    (void)c;
    *seconds = 0;
    return false;
}

sefl_status https_ask_date(https_client *c, const char *path)
{
    (void)c, (void)path;
    return sefl_fail(SEFL_EIO, "no answer");
}

sefl_status https_post(https_client *c, const char *path, sefl_span body, size_t max,
                       unsigned wait_s, https_reply *r)
{
    (void)wait_s;
    return call(c, "POST", path, NULL, body, max, r);
}

sefl_status https_get_file(https_client *c, const char *path, const char *to, uint64_t max,
                           const sefl_progress *progress, https_reply *r)
{
    (void)progress;
    SEFL_PASS(call(c, "GET", path, NULL, span_of(NULL, 0), (size_t)max, r));
    return r->status == 200 || r->status == 206 ? file_write_atomic(to, buf_span(&r->body), 0600)
                                                : SEFL_OK;
}

sefl_status https_put_file(https_client *c, const char *path, const char *from, uint64_t offset,
                           const char *headers, const sefl_progress *progress, https_reply *r)
{
    sefl_buf b = { 0 };
    (void)progress;
    CHECK_OK(file_read(&b, from, 1 << 22));
    sefl_status st = SEFL_EINVAL;
    if (offset <= b.n)
        st = call(c, "PUT", path, headers, span_of(b.p + offset, b.n - (size_t)offset), 1 << 20, r);
    else
        *r = (https_reply){ .number = UINT64_MAX };
    buf_clear(&b);
    return st;
}

void https_reply_clear(https_reply *r)
{
    buf_clear(&r->body);
    *r = (https_reply){ .number = UINT64_MAX };
}

/* ---- one federation -------------------------------------------------------------------------- */

static void *made;

static void remove_all(void)
{
    teardown(&made);
}

static void troubles(fake_as *as, uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    as->busy_task = a & 3, as->garbled_task = a >> 2 & 3, as->refuse_task = a >> 4 & 3;
    as->bad_header = b & 3, as->bad_model = b >> 2 & 3, as->bad_receipt = b >> 4 & 3;
    as->replay = b >> 6;
    as->refuse_polls = c & 3, as->refuse_updates = c >> 2 & 3, as->refuse_vouchers = c >> 4 & 3;
    as->cut_after = c & 0x80 ? 700 : 0;
    as->busy_counted = d & 3, as->missed = d >> 2 & 1, as->none_counted = d >> 3 & 1;
    as->skipped_ = d >> 4 & 1, as->bare_end = d >> 5 & 1, as->bad_end = d >> 6 & 1;
    as->forget_voucher = d >> 7;
}

static void run_once(federation *s)
{
    open_client(s);
    s->c->clock = (sefl_clock){ .now_ns = now_ns };
    const sefl_status st = client_run(s->c);
    const bool known = st == SEFL_OK || st == SEFL_EAUTH || st == SEFL_EIO || st == SEFL_EINVAL ||
                       st == SEFL_EPROTO || st == SEFL_EUNSUPPORTED || st == SEFL_ERANGE ||
                       st == SEFL_EBUDGET;
    assert_true(known && (st == SEFL_OK || *sefl_last_error()));
    assert_false(s->as.uncharged);
    assert_false(s->as.changed);
    assert_false(s->as.bad_head);
    assert_false(s->coins.repeated);
    client_free(s->c);
    s->c = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!made) {
        assert_int_equal(setup(&made), 0);
        made = &made;
        atexit(remove_all);
        file_sync_skip(true);
    }
    play.in = rd_over(span_of(data, size));
    play.calls = 0, play.ns = UINT64_C(1000000000000);
    const uint8_t set = next(), rounds = next(), a = next(), b = next(), c = next(), d = next();
    federation *s = begin(3, set & 1 ? "crypto.scheme=paillier" : "crypto.seal=x25519", NULL, NULL);
    play.s = s;
    s->as.rounds = 1 + rounds % 3;
    s->as.moves = set & 2, s->as.no_end = set & 4, s->as.wrong_key = set & 8;
    s->as.late_round = rounds & 0x10, s->as.late_bodies = rounds >> 5 & 1;
    s->patience_ms = set & 0x10 ? 30000 : 0;
    troubles(&s->as, a, b, c, d);
    run_once(s);
    if (set & 0x20) { /* again, with what is on disk */
        play.calls = 0;
        run_once(s);
    }
    end(s);
    buf_clear(&play.body);
    return 0;
}
