#include "simulate/servers.h"

#include "base/alloc.h"
#include "base/file.h"
#include "simulate/clear.h"
#include "simulate/named_coins.h"
#include "sum/as_memory.h"
#include "sum/csp_memory.h"

#include <inttypes.h>
#include <string.h>

enum { TIMEOUT_MS = 600000, UNDER_WAY = 4 << 20 };

struct servers {
    as_uploads_memory up; /* first: the driver's ports share ctx */
    as_uploads uploads;
    servers_config c;
    const federation *f;
    sefl_clock wall, mono; /* virtual; real */
    named_coins *as_named, *csp_named;
    sefl_coins as_coins, csp_coins;
    account *as_account, *csp_account;
    as_memory as_memory;
    as_store as_store;
    as_rounds *rounds;
    round_header header; /* header of the current round */
    work_got got;        /* its uploads */
    /* crypto full */
    channel as_end, csp_end;
    channel watched; /* as_end, but `stop` can end it */
    bool dialled, running;
    pthread_t thread;
    uint64_t hello; /* bytes before the first round */
    pool *csp_pool;
    csp_memory csp_memory;
    csp_store csp_store;
    csp *csp;
    shares_twins twins; /* joint noise */
    double shares_seconds;
    as_times as_times; /* of the latest round */
    past *past;        /* in the clear: correlated noise */
};

static uint64_t virtual_ns(void *self)
{
    return ((const servers *)self)->c.now_ms * 1000000;
}

/* ---- a stream that can be stopped ------------------------------------------------------------ */

/* If CSP aborts because of `stop`, AS stops too. */
static sefl_status unless_stopped(const servers *v, sefl_status st)
{
    return progress_report(v->c.stop, 0, 0) ? st : sefl_fail(SEFL_ECANCELLED, "stopped");
}

static sefl_status watched_send(void *self, const void *p, size_t n)
{
    servers *v = self;
    return unless_stopped(v, channel_send(&v->as_end, p, n));
}

static sefl_status watched_recv(void *self, void *p, size_t n)
{
    servers *v = self;
    return unless_stopped(v, channel_recv(&v->as_end, p, n));
}

static sefl_status watched_flush(void *self)
{
    servers *v = self;
    return unless_stopped(v, channel_flush(&v->as_end));
}

static const channel_ops watched_ops = { watched_send, watched_recv, watched_flush };

/* ---- the driver's ports: channel ------------------------------------------------------------- */

static void *serve(void *arg)
{
    servers *v = arg;
    (void)!csp_serve(v->csp, &v->csp_end);
    channel_pair_close(&v->csp_end);
    return NULL;
}

static sefl_status dial(void *ctx, channel **out)
{
    servers *v = ctx;
    SEFL_PASS(channel_pair_new(&v->as_end, &v->csp_end, TIMEOUT_MS));
    v->dialled = true;
    sefl_status st = channel_pair_limit(&v->as_end, UNDER_WAY);
    if (st == SEFL_OK && pthread_create(&v->thread, NULL, serve, v) != 0)
        st = sefl_fail(SEFL_ENOMEM, "no thread for CSP");
    v->running = st == SEFL_OK;
    v->watched = (channel){ .ops = &watched_ops, .self = v };
    if (v->running)
        *out = &v->watched;
    else
        channel_pair_close(&v->csp_end);
    return st;
}

static void hang_up(void *ctx)
{
    servers *v = ctx;
    if (v->dialled)
        channel_pair_close(&v->as_end);
    if (v->running)
        pthread_join(v->thread, NULL);
    v->dialled = v->running = false;
}

static void link_up(void *ctx, const as_peer *peer)
{
    servers *v = ctx;
    (void)peer;
    v->hello = v->as_end.sent + v->as_end.received;
}

static sefl_status shares_wait(void *ctx, uint64_t round, uint64_t attempt, uint64_t count)
{
    servers *v = ctx;
    uint64_t began = clock_now_ns();
    SEFL_PASS(shares_twins_wait(&v->twins, round, attempt, count));
    v->shares_seconds += clock_since(began);
    return SEFL_OK;
}

static const as_channel in_memory = {
    .dial = dial, .hang_up = hang_up, .up = link_up, .shares_wait = shares_wait
};

/* ---- the driver's ports: uploads ------------------------------------------------------------- */

static sefl_status accept_uploads(void *ctx, const round_header *h, sefl_span both)
{
    servers *v = ctx;
    v->header = *h;
    v->got = (work_got){ 0 };
    v->up = (as_uploads_memory){ 0 };
    if (v->c.accept)
        return v->c.accept(v->c.ctx, h, both);
    return agg_on(
        as_rounds_agg(v->rounds),
        &(agg_event){ .kind = AGG_UPDATE, .round = h->round, .clients = v->f->task.threshold },
        v->c.now_ms);
}

/* The set is known: its clients train now. CSP gets the heads as if clients were uploading. */
static sefl_status freeze(void *ctx, uint64_t round)
{
    servers *v = ctx;
    SEFL_PASS(v->c.upload(v->c.ctx, &v->header, &v->got));
    log_info(v->c.log, "clients trained", lf_u64("round", round), lf_u64("clients", v->got.clients),
             lf_u64("diverged", v->got.diverged));
    v->up = (as_uploads_memory){ .clients = v->got.clients,
                                 .set = v->got.set,
                                 .heads = v->got.heads,
                                 .head_bytes = head_bytes(v->f->task.seal),
                                 .closed = v->got.closed };
    return as_rounds_send_heads(v->rounds);
}

static sefl_status forget_uploads(void *ctx, uint64_t round)
{
    servers *v = ctx;
    return v->c.forget ? v->c.forget(v->c.ctx, round) : SEFL_OK;
}

/* ---- the driver's ports: model, time, CSP in the clear --------------------------------------- */

static sefl_status release(void *ctx, const release_from *from, uint64_t round, const int64_t *w,
                           uint32_t clients, release_made *out)
{
    servers *v = ctx;
    return v->c.release(v->c.ctx, from, round, w, clients, out);
}

static const as_model model = { .release = release };

static void report(void *ctx, const rounds_report *r)
{
    servers *v = ctx;
    const as_link *link = as_rounds_link(v->rounds);
    if (link)
        v->as_times = *as_link_times(link);
    if (r->blocked) /* the model does not contain its noise */
        past_drop(v->past, r->round);
    if (v->c.report)
        v->c.report(v->c.ctx, r);
}

/* Advances virtual time to the next event. */
static sefl_status wait_until(void *ctx, uint64_t until_ms)
{
    servers *v = ctx;
    uint64_t to = until_ms;
    if (v->c.next)
        SEFL_PASS(v->c.next(v->c.ctx, &to));
    SEFL_NEED(to != UINT64_MAX, SEFL_ESTATE,
              "the simulation waits for an event that never comes, in round %" PRIu64,
              agg_round(as_rounds_agg(v->rounds)));
    v->c.now_ms = to > v->c.now_ms ? to : v->c.now_ms;
    return v->c.at ? v->c.at(v->c.ctx, v->c.now_ms) : SEFL_OK;
}

static sefl_status clear_sign(void *ctx, sefl_buf *both, round_header *h)
{
    const federation *f = ((servers *)ctx)->f;
    uint8_t bytes[HEADER_MAX];
    SEFL_PASS(federation_round_key(f, h));
    envelope env = { .kind = SIGN_HEADER, .content = span_of(bytes, round_header_write(bytes, h)) };
    SEFL_PASS(envelope_sign(&env, SIGNER_AS, f->as_key));
    SEFL_PASS(envelope_sign(&env, SIGNER_CSP, f->csp_key));
    return envelope_write(both, &env);
}

static sefl_status clear_reveal(void *ctx, uint64_t round, uint64_t attempt, int64_t *w)
{
    const servers *v = ctx;
    const experiment *e = v->f->e;
    const clear_facts c = { .task = &v->f->task,
                            .seed = e->seed,
                            .round = round,
                            .attempt = attempt,
                            .pool = v->c.pool,
                            .past = v->past };
    if (v->got.noisy) {
        memcpy(w, v->got.sum, v->f->task.values * sizeof *w);
        return SEFL_OK;
    }
    if (!e->protection->quantises)
        return SEFL_OK;
    return e->protection->central ? clear_central(w, &c, v->got.sum)
                                  : clear_release(w, &c, v->got.sum);
}

static const as_clear in_the_clear = { .sign = clear_sign, .reveal = clear_reveal };

/* ---- CSP ------------------------------------------------------------------------------------- */

/* Every client of the federation is a member, and CSP has its voucher. */
static bool is_member(void *ctx, const uint8_t client[32])
{
    (void)ctx, (void)client;
    return true;
}

static sefl_status no_more_vouchers(void *ctx, const voucher *v)
{
    (void)ctx, (void)v;
    return sefl_fail(SEFL_EAUTH, "a simulated CSP has all vouchers from the start");
}

static sefl_status put_vouchers(servers *v)
{
    sefl_status st = SEFL_OK;
    const federation *f = v->f;
    const csp_store *j = &v->csp_store;
    sign_key *key = NULL;
    for (uint32_t i = 0; i < f->clients && task_is_sealed(&f->task); i++) {
        SEFL_TRY(federation_upload_key(&key, f, i));
        SEFL_TRY(j->voucher_put(j->ctx, f->client[i], 1, sign_key_pub(key)));
        sign_key_free(key), key = NULL;
    }
done:
    sign_key_free(key);
    return st;
}

static sefl_status make_csp(servers *v)
{
    const federation *f = v->f;
    const servers_config *c = &v->c;
    SEFL_PASS(named_coins_new(&v->csp_named, "CSP", f->e->seed));
    v->csp_coins = named_coins_of(v->csp_named);
    SEFL_PASS(shares_twins_init(&v->twins, &v->as_coins, &v->csp_coins));
    v->twins.bits = task_share_bits(&f->task);
    SEFL_PASS(pool_new(&v->csp_pool, pool_threads(c->pool)));
    SEFL_PASS(account_open(&v->csp_account, NULL, c->csp_ledger, &f->task));
    v->csp_memory = (csp_memory){ .ledger = account_port(v->csp_account),
                                  .revealed_before = c->revealed,
                                  .skipped_before = c->skipped };
    v->csp_store = csp_memory_store(&v->csp_memory);
    SEFL_PASS(csp_new(&v->csp, &(csp_config){ .task = &f->task,
                                              .envelope = buf_span(&f->envelope),
                                              .sec = f->sec,
                                              .root = task_is_sealed(&f->task) ? f->root : NULL,
                                              .key = f->csp_key,
                                              .store = &v->csp_store,
                                              .coins = &v->csp_coins,
                                              .pool = v->csp_pool,
                                              .stop = c->stop,
                                              .clock = &v->mono,
                                              .shares = v->twins.csp,
                                              .vouch = no_more_vouchers,
                                              .member = is_member }));
    return put_vouchers(v);
}

/* ---- public ---------------------------------------------------------------------------------- */

sefl_status servers_new(servers **out, const servers_config *c)
{
    const federation *f = c->federation;
    SEFL_MAKE(servers, v, out);
    v->c = *c;
    v->f = f;
    v->wall = (sefl_clock){ .now_ns = virtual_ns, .self = v };
    v->mono = clock_monotonic();
    SEFL_TRY(named_coins_new(&v->as_named, "AS", f->e->seed));
    v->as_coins = named_coins_of(v->as_named);
    if (f->e->full)
        SEFL_TRY(make_csp(v));
    else
        SEFL_TRY(past_new(&v->past, &f->task));
    SEFL_TRY(account_open(&v->as_account, NULL, c->as_ledger, &f->task));
    v->as_store = as_memory_store(&v->as_memory);
    v->uploads = as_uploads_memory_calls(
        (as_uploads){ .accept = accept_uploads, .freeze = freeze, .forget = forget_uploads });
    SEFL_TRY(as_store_step(&v->as_store, &(as_row){ 0 }, &c->memory, &c->model));
    SEFL_TRY(
        as_rounds_new(&v->rounds, &(as_rounds_config){ .task = &f->task,
                                                       .envelope = buf_span(&f->envelope),
                                                       .key = f->as_key,
                                                       .coins = &v->as_coins,
                                                       .store = &v->as_store,
                                                       .account = v->as_account,
                                                       .ctx = v,
                                                       .channel = &in_memory,
                                                       .uploads = &v->uploads,
                                                       .model = &model,
                                                       .clear = f->e->full ? NULL : &in_the_clear,
                                                       .wait = wait_until,
                                                       .report = report,
                                                       .strict = true,
                                                       .stop = c->stop,
                                                       .shares = v->twins.as,
                                                       .pool = c->pool,
                                                       .wall = &v->wall,
                                                       .mono = &v->mono,
                                                       .log = c->log }));
    SEFL_HAND_OVER(out, v, servers_free);
}

void servers_free(servers *v)
{
    if (!v)
        return;
    hang_up(v);
    as_rounds_free(v->rounds);
    csp_free(v->csp);
    shares_twins_clear(&v->twins);
    pool_free(v->csp_pool);
    account_close(v->as_account);
    account_close(v->csp_account);
    named_coins_free(v->as_named);
    named_coins_free(v->csp_named);
    csp_memory_clear(&v->csp_memory);
    as_memory_clear(&v->as_memory);
    past_free(v->past);
    sefl_free(v);
}

sefl_status servers_run(servers *v)
{
    return as_rounds_run(v->rounds);
}

/* Both servers store the record of a round only after its release. CSP's thread answers PING after
 * it has done so, and rests until the next question. */
static sefl_status store_histories(const servers *v)
{
    as_link *link = as_rounds_link(v->rounds);
    SEFL_PASS(as_rounds_keep_history(v->rounds));
    return link ? as_link_ping(link) : SEFL_OK;
}

/* crypto full: the records HISTORY of both servers, each after its length u64; 0: there is none. */
static sefl_status write_histories(const servers *v, uint64_t round, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf both = { 0 }, one = { 0 };
    SEFL_TRY(store_histories(v));
    for (int i = 0; i < 2; i++) {
        buf_clear(&one);
        st = i ? v->csp_store.get(v->csp_store.ctx, CSP_HISTORY, round, &one)
               : v->as_store.get(v->as_store.ctx, AS_HISTORY, round, &one);
        SEFL_TRY(st == SEFL_ENOTFOUND ? SEFL_OK : st);
        SEFL_TRY(wr_u64(&both, one.n));
        SEFL_TRY(wr_raw(&both, one.p, one.n));
    }
    SEFL_TRY(file_write_atomic(path, buf_span(&both), 0666));
done:
    buf_clear(&both);
    buf_clear(&one);
    return st;
}

static sefl_status read_histories(servers *v, uint64_t round, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf both = { 0 };
    sefl_span one;
    uint64_t n;
    SEFL_TRY(file_read(&both, path, 2 * (8 + NOISE_ID + v->f->task.values * NOISE_KEPT)));
    rd r = rd_over(buf_span(&both));
    for (int i = 0; i < 2; i++) {
        SEFL_TRY(rd_u64(&r, &n));
        SEFL_TRY(rd_view(&r, &one, n));
        if (n > 0)
            SEFL_TRY(i ? v->csp_store.put(v->csp_store.ctx, CSP_HISTORY, round, one)
                       : v->as_store.put(v->as_store.ctx, AS_HISTORY, round, 0, one));
    }
    SEFL_TRY(rd_end(&r));
done:
    buf_clear(&both);
    return st;
}

sefl_status servers_keep(const servers *v, uint64_t round, const char *path)
{
    if (v->f->task.filter.b == 0)
        return SEFL_OK;
    return v->past ? past_write(v->past, round, path) : write_histories(v, round, path);
}

sefl_status servers_kept(servers *v, uint64_t round, const char *path)
{
    if (v->f->task.filter.b == 0)
        return SEFL_OK;
    return v->past ? past_read(v->past, round, path) : read_histories(v, round, path);
}

agg *servers_agg(servers *v)
{
    return as_rounds_agg(v->rounds);
}

uint64_t servers_now_ms(const servers *v)
{
    return v->c.now_ms;
}

uint64_t servers_bytes(const servers *v)
{
    return v->as_end.sent + v->as_end.received - v->hello;
}

servers_times servers_get_times(const servers *v)
{
    servers_times t = { .as = v->as_times,
                        .shares_seconds = v->shares_seconds,
                        .shares_bytes = v->twins.bytes };
    if (v->csp)
        t.csp = *csp_get_times(v->csp);
    return t;
}
