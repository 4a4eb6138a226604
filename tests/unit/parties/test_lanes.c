/* Lanes over real TLS on loopback, with small sessions: AS's threads, CSP's host, two pools. */
#include "unit/core/protocol/task_sample.h"
#include "unit/host/net/net_ids.h"

#include "base/file.h"
#include "mpc/garble/garble.h"
#include "net/handshakes.h"
#include "roles/aggregator/lanes.h"
#include "roles/csp/lane_host.h"
#include "sum/csp.h"
#include "support/bent.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { SESSION = 2048, LANES = 2, WAIT_MS = 60000 };

static const tls_limits limits = { .connect_ms = 10000, .idle_ms = 30000, .silent_ms = 10000 };
static tls_id *as_id, *csp_id;
static task t;

/* ---- both servers ------------------------------------------------------------------------------ */

/* Everything that a lane of AS receives passes through here. */
typedef struct wire {
    struct federation *s;
    channel *inner, ch;
    _Atomic uint64_t got;
    _Atomic uint64_t at;          /* bytes after which `then` is called, once; 0: never */
    void (*then)(struct wire *w); /* on the lane's thread */
    unsigned lane;
} wire;

typedef struct federation {
    uint8_t pair[LINK_PAIR];
    sefl_coins coins;
    sefl_clock mono, wall;
    _Atomic uint64_t days; /* how far AS's wall clock is ahead */
    sefl_rng rng;
    sefl_log log;
    char state[300], as_state[320], log_path[320], records[320];

    /* CSP */
    shares_pool *csp_pool;
    journal *journal;
    lane_host *host;
    int fd;
    uint16_t port;
    pthread_t thread;
    atomic_bool stop;
    _Atomic unsigned accepted, failed;

    /* AS */
    shares_pool *as_pool;
    journal *as_journal;
    lanes *l;
    pthread_mutex_t lock;
    tls *lane[LANES];
    wire wire[LANES];
    _Atomic unsigned seen; /* calls of `then` */
    _Atomic unsigned dials;
    atomic_bool nobody; /* CSP does not answer */
    atomic_bool deaf;   /* AS gets no seed from CSP */
} federation;

static uint64_t now_ms(federation *s)
{
    return clock_ms(&s->mono);
}

static void failed(void *ctx)
{
    ((federation *)ctx)->failed++;
}

static void *csp_run(void *arg)
{
    federation *s = arg;
    handshakes *p;
    const tls_peer want = { .role = "aggregator", .protocols = { LINK_ALPN, LANE_ALPN } };
    CHECK_OK(handshakes_new(&p, s->fd));
    while (!s->stop) {
        tls *one;
        if (handshakes_accept(&one, p, csp_id, &want, 20, &limits) != SEFL_OK)
            continue;
        assert_string_equal(tls_protocol(one), LANE_ALPN);
        s->accepted += lane_host_take(s->host, one) == SEFL_OK;
    }
    handshakes_free(p);
    lane_host_unbind(s->host); /* its owner's thread */
    return NULL;
}

static void csp_up(federation *s)
{
    CHECK_OK(journal_open(&s->journal, s->state, "csp", t.id));
    CHECK_OK(shares_pool_new(&s->csp_pool, lanes_pool_max(&t), &s->rng));
    CHECK_OK(lane_host_new(&s->host, &(lane_host_config){ .task = &t,
                                                          .pool = s->csp_pool,
                                                          .key = sample_csp,
                                                          .journal = s->journal,
                                                          .coins = &s->coins,
                                                          .log = &s->log,
                                                          .session = SESSION,
                                                          .ctx = s,
                                                          .failed = failed }));
    s->stop = false;
    assert_int_equal(pthread_create(&s->thread, NULL, csp_run, s), 0);
}

static void csp_down(federation *s)
{
    s->stop = true;
    pthread_join(s->thread, NULL);
    lane_host_free(s->host);
    shares_pool_free(s->csp_pool);
    journal_close(s->journal);
}

static sefl_status dial_as(federation *s, tls **out)
{
    return tls_dial(out, "127.0.0.1", s->port, as_id,
                    &(tls_peer){ .role = "csp", .protocols = { LANE_ALPN } }, &limits);
}

static void interrupt(void *ctx, unsigned lane)
{
    federation *s = ctx;
    pthread_mutex_lock(&s->lock);
    if (s->lane[lane])
        tls_interrupt(s->lane[lane]);
    pthread_mutex_unlock(&s->lock);
}

static sefl_status wire_send(void *self, const void *p, size_t n)
{
    enum { MSG_VERDICT = 0x53480009 };
    wire *w = self;
    const uint32_t kind = n == MSG_HEADER && w->s->deaf ? load_u32(p) : 0;
    if (kind == MSG_VERDICT && w->lane == 0)
        interrupt(w->s, 0); /* AS has decided, and the stream breaks */
    if (kind == LINK_SEED)
        return sefl_fail(SEFL_EIO, "test: the stream broke");
    return channel_send(w->inner, p, n);
}

static sefl_status wire_recv(void *self, void *p, size_t n)
{
    wire *w = self;
    sefl_status st = channel_recv(w->inner, p, n);
    w->got += n;
    if (w->at > 0 && w->got >= w->at) {
        w->at = 0;
        w->then(w);
    }
    return st;
}

static sefl_status wire_flush(void *self)
{
    return channel_flush(((wire *)self)->inner);
}

static const channel_ops wire_ops = { wire_send, wire_recv, wire_flush };

static sefl_status dial(void *ctx, unsigned lane, channel **out)
{
    federation *s = ctx;
    tls *one = NULL;
    s->dials++;
    sefl_status st = s->nobody ? sefl_fail(SEFL_EIO, "test: nobody answers") : dial_as(s, &one);
    pthread_mutex_lock(&s->lock);
    s->lane[lane] = one;
    if (one) {
        wire *w = &s->wire[lane];
        w->s = s, w->lane = lane;
        w->got = 0;
        w->inner = tls_channel(one);
        w->ch = (channel){ .ops = &wire_ops, .self = w };
        *out = &w->ch;
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

static void hang_up(void *ctx, unsigned lane)
{
    federation *s = ctx;
    pthread_mutex_lock(&s->lock);
    tls *one = s->lane[lane];
    s->lane[lane] = NULL;
    pthread_mutex_unlock(&s->lock);
    tls_close(one);
}

static uint64_t wall_ns(void *self)
{
    const sefl_clock real = clock_wall();
    return clock_ns(&real) + ((federation *)self)->days * 24 * 3600 * 1000000000;
}

static void as_up(federation *s, unsigned count, uint64_t audit)
{
    CHECK_OK(journal_open(&s->as_journal, s->as_state, "aggregator", t.id));
    CHECK_OK(shares_pool_new(&s->as_pool, lanes_pool_max(&t), &s->rng));
    CHECK_OK(lanes_new(
        &s->l, &(lanes_config){
                   .task = &t,
                   .pool = s->as_pool,
                   .count = count,
                   .dial = { .ctx = s, .dial = dial, .hang_up = hang_up, .interrupt = interrupt },
                   .key = sample_as,
                   .journal = s->as_journal,
                   .coins = &s->coins,
                   .audit = audit,
                   .records = s->records,
                   .log = &s->log,
                   .mono = &s->mono,
                   .wall = &s->wall,
                   .retry_ms = 10,
                   .session = SESSION }));
}

static void as_down(federation *s)
{
    lanes_free(s->l);
    shares_pool_free(s->as_pool);
    journal_close(s->as_journal);
    for (int i = 0; i < LANES; i++)
        assert_null(s->lane[i]);
}

/* A new link: a new pair at both. */
static void link_up(federation *s)
{
    CHECK_OK(rng_fill(&s->rng, s->pair, sizeof s->pair));
    lane_host_bind(s->host, s->pair);
    lanes_bind(s->l, s->pair);
}

static void begin_scene(federation *s, const char *name, unsigned count, uint64_t audit)
{
    *s = (federation){ .coins = coins_system(), .mono = clock_monotonic(), .rng = rng_system() };
    pthread_mutex_init(&s->lock, NULL);
    snprintf(s->state, sizeof s->state, "%s", folder_path(name));
    s->wall = (sefl_clock){ wall_ns, s };
    snprintf(s->as_state, sizeof s->as_state, "%s-as", s->state);
    snprintf(s->records, sizeof s->records, "%s-records", s->state);
    snprintf(s->log_path, sizeof s->log_path, "%s-log", s->state);
    CHECK_OK(file_make_folder(s->records, 0700));
    FILE *f = fopen(s->log_path, "w");
    s->log = (sefl_log){ .level = LOG_DEBUG, .fd = dup(fileno(f)) };
    fclose(f);
    CHECK_OK(tls_listen(&s->fd, "127.0.0.1", 0, &s->port));
    csp_up(s);
    as_up(s, count, audit);
}

static void end_scene(federation *s)
{
    as_down(s);
    csp_down(s);
    close(s->fd);
    close(s->log.fd);
    pthread_mutex_destroy(&s->lock);
}

static bool log_has(const federation *s, const char *words)
{
    sefl_buf b = { 0 };
    CHECK_OK(file_read(&b, s->log_path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    bool has = strstr((const char *)b.p, words) != NULL;
    buf_clear(&b);
    return has;
}

/* The next `count` shares match: they add up to values in the sampler's range. */
static void take_both(federation *s, uint64_t count)
{
    shares_slice slice;
    uint8_t *x = malloc(4 * count), *y = malloc(4 * count);
    uint64_t sum = 0;
    CHECK_OK(shares_pool_pick(s->as_pool, &slice, count));
    CHECK_OK(shares_pool_take(s->as_pool, &slice, x, 4));
    CHECK_OK(shares_pool_take(s->csp_pool, &slice, y, 4));
    for (uint64_t i = 0; i < count; i++) {
        uint32_t v = load_u32(x + 4 * i) + load_u32(y + 4 * i);
        assert_in_range(v, 0, 123);
        sum += v;
    }
    assert_in_range(sum / count, 55, 68); /* the mean is 61.5, the deviation 9.4 */
    free(x), free(y);
}

/* ---- working lanes
 * ------------------------------------------------------------------------------ */

static void two_lanes_fill_two_pools(void **state)
{
    (void)state;
    federation s;
    begin_scene(&s, "two", LANES, 0);
    link_up(&s);
    CHECK_OK(lanes_wait(s.l, t.values));
    for (int i = 0; i < 8; i++) { /* they refill */
        CHECK_OK(lanes_wait(s.l, t.values));
        take_both(&s, t.values);
    }
    CHECK_OK(lanes_wait(s.l, 2 * t.values));
    usleep(100000); /* running sessions end */
    uint64_t have = shares_pool_have(s.as_pool);
    assert_in_range(have, 2 * t.values, 2 * t.values + LANES * SESSION);
    assert_int_equal(have, shares_pool_have(s.csp_pool));
    pthread_mutex_lock(&s.lock);
    assert_true(!s.lane[0] && !s.lane[1]); /* a full pool needs no stream */
    pthread_mutex_unlock(&s.lock);
    assert_in_range(s.dials, 1, 2 * 9 + 2);
    lanes_work w = lanes_done(s.l); /* 8 rounds were taken */
    assert_in_range(w.bytes, 8 * 500 * t.values, UINT32_MAX);
    assert_true(w.seconds > 0);
    assert_int_equal(lanes_done(s.l).bytes, 0);
    end_scene(&s);
}

static void sessions_have_sizes(void **state)
{
    (void)state;
    task x = t;
    static const uint64_t of[][2] = { { 1, 1 << 16 },       { 1 << 15, 1 << 16 },
                                      { 40000, 80000 },     { 1 << 19, 1 << 20 },
                                      { 945510, 1 << 20 },  { 14000000, 1 << 20 },
                                      { 64 << 20, 2097153 } };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        x.values = of[i][0];
        assert_int_equal(lanes_session(&x), of[i][1]);
        assert_true(x.values / lanes_session(&x) + 2 <= SLICE_PARTS_MAX);
        assert_true(lanes_pool_max(&x) <= SHARES_POOL_MAX);
    }
}

static void opening_begins(wire *w)
{
    lanes_hold(w->s->l, true);
    w->s->seen++;
}

/* During a reveal lanes pause, even in the middle of a session, unless the reveal waits for
 * shares. */
static void openings_are_not_disturbed(void **state)
{
    (void)state;
    federation s;
    begin_scene(&s, "held", LANES, 0);
    lanes_hold(s.l, true);
    link_up(&s);
    usleep(50000);
    assert_int_equal(s.dials, 0);
    s.wire[0].then = opening_begins;
    s.wire[0].at = 200000; /* in the middle of a session */
    lanes_hold(s.l, false);
    uint64_t end = now_ms(&s) + test_ms(WAIT_MS), n;
    while (s.seen == 0 && now_ms(&s) < end) {
        shares_pool_clear(s.as_pool); /* only the other lane may fill it */
        usleep(5000);
    }
    assert_int_equal(s.seen, 1);
    n = s.wire[0].got;
    usleep(100000);
    assert_int_equal(s.wire[0].got, n);
    CHECK_OK(lanes_wait(s.l, t.values)); /* on the driver's thread: the reveal needs them */
    take_both(&s, t.values);
    lanes_hold(s.l, false);
    end_scene(&s);
}

static void *wait_thread(void *arg)
{
    federation *s = arg;
    return (void *)(uintptr_t)lanes_wait(s->l, t.values);
}

static void stopping_ends_waits(void **state)
{
    (void)state;
    federation s;
    pthread_t waiter;
    void *st;
    begin_scene(&s, "stop", LANES, 0);
    s.nobody = true;
    CHECK_STATUS(lanes_wait(s.l, t.values), SEFL_ECLOSED); /* no link */
    link_up(&s);
    CHECK_STATUS(lanes_wait(s.l, t.values), SEFL_ECLOSED); /* no listener: three attempts each */
    assert_true(s.dials >= 3 * LANES);
    link_up(&s);
    assert_int_equal(pthread_create(&waiter, NULL, wait_thread, &s), 0);
    lanes_stop(s.l);
    pthread_join(waiter, &st);
    assert_int_equal((sefl_status)(uintptr_t)st, SEFL_ECANCELLED);
    end_scene(&s);
}

/* ---- lanes that break -------------------------------------------------------------------------- */

static void cut_off(wire *w)
{
    interrupt(w->s, w->lane);
    w->s->seen++;
}

/* One lane is cut repeatedly in the middle of a session: the pools still match. */
static void a_cut_lane_takes_its_session_alone(void **state)
{
    (void)state;
    federation s;
    enum { CUTS = 6 };
    begin_scene(&s, "cut", LANES, 0);
    s.wire[1].then = cut_off;
    link_up(&s);
    uint64_t end = now_ms(&s) + test_ms(WAIT_MS);
    for (unsigned cut = 0; cut < CUTS; cut++) {
        s.wire[1].at = 30000 + 300000 * cut; /* a session has 2 MB */
        while (s.seen == cut && now_ms(&s) < end) {
            CHECK_OK(lanes_wait(s.l, t.values));
            take_both(&s, t.values);
        }
    }
    assert_int_equal(s.seen, CUTS);
    CHECK_OK(lanes_wait(s.l, t.values));
    take_both(&s, t.values);
    assert_true(log_has(&s, "a lane to CSP failed"));
    assert_null(lanes_ended(s.l));
    assert_int_equal(lane_host_checks(s.host), 0);
    end_scene(&s);
}

/* A new link at either end: both pools are emptied and refilled. */
static void pools_end_with_their_link(void **state)
{
    (void)state;
    federation s;
    shares_slice old;
    uint8_t *x = malloc(4 * t.values);
    begin_scene(&s, "links", LANES, 0);
    link_up(&s);
    CHECK_OK(lanes_wait(s.l, t.values));
    CHECK_OK(shares_pool_pick(s.as_pool, &old, t.values));
    lanes_bind(s.l, NULL);
    assert_int_equal(shares_pool_have(s.as_pool), 0);
    CHECK_STATUS(shares_pool_take(s.as_pool, &old, x, 4), SEFL_ENOTFOUND);
    link_up(&s);
    CHECK_STATUS(shares_pool_take(s.csp_pool, &old, x, 4), SEFL_ENOTFOUND);
    CHECK_OK(lanes_wait(s.l, t.values));
    take_both(&s, t.values);

    /* CSP starts again; AS still has the link of before */
    CHECK_OK(lanes_wait(s.l, t.values));
    CHECK_OK(shares_pool_pick(s.as_pool, &old, t.values));
    csp_down(&s);
    csp_up(&s);
    CHECK_STATUS(shares_pool_take(s.csp_pool, &old, x, 4), SEFL_ENOTFOUND);
    uint8_t other[LINK_PAIR] = { 1 };
    lane_host_bind(s.host, other);
    shares_pool_clear(s.as_pool); /* as NO SLICE does */
    CHECK_STATUS(lanes_wait(s.l, t.values), SEFL_ECLOSED);
    link_up(&s);
    CHECK_OK(lanes_wait(s.l, t.values));
    take_both(&s, t.values);
    end_scene(&s);
    free(x);
}

/* ---- misbehaving peers
 * ------------------------------------------------------------------------------ */

static uint32_t ask(tls *one, uint32_t kind, sefl_span body, uint16_t *code)
{
    link_msg m = { 0 };
    sefl_status st = link_send(tls_channel(one), kind, body);
    if (st == SEFL_OK)
        st = link_recv(tls_channel(one), &m);
    uint32_t got = st == SEFL_OK ? m.kind : 0;
    *code = 0;
    if (got == LINK_NO) {
        rd r = rd_over(buf_span(&m.body));
        CHECK_OK(rd_u16(&r, code));
    }
    buf_clear(&m.body);
    return got;
}

static uint32_t ask_lane(tls *one, const uint8_t pair[LINK_PAIR], uint8_t number, uint16_t *code)
{
    uint8_t body[LINK_PAIR + 1];
    memcpy(body, pair, LINK_PAIR);
    body[LINK_PAIR] = number;
    return ask(one, LINK_LANE, span_of(body, sizeof body), code);
}

static uint32_t fill(tls *one, uint64_t count, uint16_t *code)
{
    uint8_t b[8];
    store_u64(b, count);
    return ask(one, LINK_FILL, span_of(b, sizeof b), code);
}

static void lanes_of_others_are_refused(void **state)
{
    (void)state;
    federation s;
    tls *one;
    uint16_t code;
    uint8_t other[LINK_PAIR] = { 2 }, nothing[LINK_PAIR] = { 0 };
    begin_scene(&s, "others", 1, 0);
    /* no link at all: not even the pair of zeros */
    CHECK_OK(dial_as(&s, &one));
    assert_int_equal(ask_lane(one, nothing, 0, &code), LINK_NO);
    assert_int_equal(code, LINK_NO_PAIR);
    tls_close(one);
    lane_host_bind(s.host, s.pair);
    CHECK_OK(dial_as(&s, &one));
    assert_int_equal(ask_lane(one, other, 0, &code), LINK_NO);
    assert_int_equal(code, LINK_NO_PAIR);
    tls_close(one);
    /* a good lane whose link changes: NO at its next question */
    CHECK_OK(dial_as(&s, &one));
    assert_int_equal(ask_lane(one, s.pair, 0, &code), LINK_YES);
    lane_host_bind(s.host, other);
    assert_int_equal(fill(one, SESSION, &code), LINK_NO);
    assert_int_equal(code, LINK_NO_PAIR);
    tls_close(one);
    /* messages that end the lane */
    CHECK_OK(dial_as(&s, &one)); /* a number that no lane has */
    assert_int_equal(ask_lane(one, other, LANES_MAX, &code), 0);
    tls_close(one);
    static const uint32_t kinds[] = { LINK_FILL, LINK_PING, LINK_HELLO, LINK_LANE, LINK_SEED };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        CHECK_OK(dial_as(&s, &one));
        assert_int_equal(ask(one, kinds[i], span_of(other, 31), &code), 0);
        tls_close(one);
    }
    for (int i = 0; i < 5; i++) {
        CHECK_OK(dial_as(&s, &one));
        assert_int_equal(ask_lane(one, other, 0, &code), LINK_YES);
        assert_int_equal(i == 0   ? fill(one, SESSION + 1, &code)
                         : i == 1 ? fill(one, 0, &code)
                         : i == 2 ? fill(one, UINT64_MAX, &code)
                         : i == 3 ? ask(one, LINK_FILL, span_of(other, 9), &code)
                                  : ask_lane(one, other, 0, &code),
                         0);
        tls_close(one);
    }
    end_scene(&s);
}

static void there_are_sixteen_at_most(void **state)
{
    (void)state;
    federation s;
    tls *one[LANES_MAX + 1];
    uint16_t code;
    begin_scene(&s, "sixteen", 1, 0);
    lane_host_bind(s.host, s.pair);
    for (int i = 0; i < LANES_MAX; i++) {
        CHECK_OK(dial_as(&s, &one[i]));
        assert_int_equal(ask_lane(one[i], s.pair, (uint8_t)i, &code), LINK_YES);
    }
    CHECK_OK(dial_as(&s, &one[LANES_MAX]));
    assert_int_equal(ask_lane(one[LANES_MAX], s.pair, 0, &code), 0);
    assert_int_equal(s.accepted, LANES_MAX);
    tls_close(one[LANES_MAX]);
    tls_close(one[3]); /* one leaves: there is room again once its thread has noticed */
    uint64_t end = now_ms(&s) + test_ms(WAIT_MS);
    uint32_t got = 0;
    while (got != LINK_YES && now_ms(&s) < end) {
        CHECK_OK(dial_as(&s, &one[3]));
        got = ask_lane(one[3], s.pair, 3, &code);
        if (got != LINK_YES)
            tls_close(one[3]);
    }
    assert_int_equal(got, LINK_YES);
    for (int i = 0; i < LANES_MAX; i++)
        tls_close(one[i]);
    end_scene(&s);
}

/* AS spoils its OT corrections, which CSP's check must detect. */
static void cheat(federation *s)
{
    tls *one;
    uint16_t code;
    uint64_t *x = malloc(SESSION * sizeof *x);
    shares_result got;
    CHECK_OK(dial_as(s, &one));
    assert_int_equal(ask_lane(one, s->pair, 1, &code), LINK_YES); /* 0 is that of AS's own lane */
    assert_int_equal(fill(one, SESSION, &code), LINK_YES);
    shares_params p = { .sign = sample_as, .csp = t.servers.csp };
    lane_params(&p, &t, s->pair, SESSION);
    bent b = { tls_channel(one) };
    channel ch = { .ops = &bent_ops, .self = &b };
    assert_int_not_equal(shares_evaluate(&got, x, &ch, &p, &s->rng), SEFL_OK);
    tls_close(one);
    free(x);
}

static void three_failed_checks_end_the_task(void **state)
{
    (void)state;
    federation s;
    tls *one;
    uint16_t code;
    begin_scene(&s, "cheat", 1, 0);
    link_up(&s);
    CHECK_OK(lanes_wait(s.l, t.values));
    for (unsigned i = 1; i <= CSP_CHECKS_MAX; i++) {
        uint64_t end = now_ms(&s) + test_ms(WAIT_MS);
        cheat(&s);
        while (s.failed < i && now_ms(&s) < end)
            usleep(500);
        assert_int_equal(s.failed, i);
        assert_int_equal(lane_host_checks(s.host), i);
        if (i == 2) { /* the count outlives CSP, and honest sessions do not lower it */
            csp_down(&s);
            csp_up(&s);
            link_up(&s);
            assert_int_equal(lane_host_checks(s.host), 2);
            CHECK_OK(lanes_wait(s.l, t.values));
            take_both(&s, t.values);
            assert_int_equal(lane_host_checks(s.host), 2);
        }
    }
    assert_int_equal(shares_pool_have(s.csp_pool), 0); /* erased after the failed check */
    assert_true(log_has(&s, "the aggregation server failed a check"));
    assert_true(log_has(&s, "this task is over"));
    CHECK_OK(dial_as(&s, &one));
    assert_int_equal(ask_lane(one, s.pair, 0, &code), LINK_NO);
    assert_int_equal(code, LINK_NO_CHECKS);
    tls_close(one);
    /* AS's own lanes learn it, perhaps already, and report it */
    shares_pool_clear(s.as_pool);
    CHECK_STATUS(lanes_wait(s.l, t.values), SEFL_ESTATE);
    assert_non_null(lanes_ended(s.l));
    assert_non_null(strstr(sefl_last_error(), "too many checks"));
    csp_down(&s);
    csp_up(&s);
    assert_int_equal(lane_host_checks(s.host), CSP_CHECKS_MAX);
    end_scene(&s);
}

/* A failed check that the journal does not take ends the task here, and is written before CSP goes
 * to another task: AS cannot make CSP forget it. */
static void a_failed_check_is_not_lost(void **state)
{
    (void)state;
    federation s;
    static const uint8_t none[4];
    begin_scene(&s, "unwritten", 1, 0);
    link_up(&s);
    CHECK_OK(lanes_wait(s.l, t.values));
    uint64_t end = now_ms(&s) + test_ms(WAIT_MS);
    CHECK_OK(journal_fact_put(s.journal, 0, "checks", span_of(none, 3))); /* damaged */
    cheat(&s);
    while (s.failed < 1 && now_ms(&s) < end)
        usleep(500);
    assert_int_equal(lane_host_checks(s.host), CSP_CHECKS_MAX);
    CHECK_STATUS(lane_host_save(s.host), SEFL_EPROTO);
    CHECK_OK(journal_fact_put(s.journal, 0, "checks", span_of(none, 4)));
    CHECK_OK(lane_host_save(s.host));
    CHECK_OK(lane_host_save(s.host)); /* once */
    assert_int_equal(lane_host_checks(s.host), CSP_CHECKS_MAX);
    csp_down(&s);
    csp_up(&s);
    assert_int_equal(lane_host_checks(s.host), 1);
    end_scene(&s);
}

/* ---- audits -------------------------------------------------------------------------------------- */

static unsigned files_in(const char *folder)
{
    unsigned n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void audited_sessions_are_not_used(void **state)
{
    (void)state;
    federation s;
    begin_scene(&s, "audit", LANES, 2);
    link_up(&s);
    uint64_t end = now_ms(&s) + test_ms(WAIT_MS);
    for (unsigned i = 0; (i < 4 || files_in(s.records) == 0) && now_ms(&s) < end; i++) {
        CHECK_OK(lanes_wait(s.l, t.values));
        take_both(&s, t.values);
    }
    assert_true(files_in(s.records) > 0);
    assert_true(log_has(&s, "noise session audited: CSP followed the protocol"));
    assert_true(log_has(&s, "noise session audited by the aggregation server"));
    assert_null(lanes_ended(s.l));
    end_scene(&s);
}

static bool has_seed(const federation *s, uint8_t id[SHARES_ID])
{
    char path[PATH_MAX];
    sefl_buf b = { 0 };
    snprintf(path, sizeof path, "%s/task-1/lane-0.seed", s->state);
    bool has = file_read(&b, path, 64) == SEFL_OK;
    if (has && id)
        memcpy(id, b.p + 32, SHARES_ID);
    buf_clear(&b);
    return has;
}

/* A CSP that serves one stream on which AS asks for a seed for each letter of its plan:
 *     s  breaks it instead of showing a seed after AUDIT
 *     d  breaks it instead of showing a seed after SEED
 *     l  shows another seed
 *     x  has lost its seed file
 *     h  is honest */
typedef struct shy {
    federation *s;
    pthread_t thread;
    const char *plan;
    bool no_noise;
} shy;

/* The linker calls this instead of gc_rows_garble: rows that give 0 for either colour. */
static _Thread_local bool no_noise;
sefl_status __real_gc_rows_garble(gc *g, uint8_t *rows, uint64_t *share, const gc_label *zero,
                                  unsigned bits, uint64_t first_tweak, uint64_t first_block,
                                  size_t blocks);
sefl_status __wrap_gc_rows_garble(gc *g, uint8_t *rows, uint64_t *share, const gc_label *zero,
                                  unsigned bits, uint64_t first_tweak, uint64_t first_block,
                                  size_t blocks);
sefl_status __wrap_gc_rows_garble(gc *g, uint8_t *rows, uint64_t *share, const gc_label *zero,
                                  unsigned bits, uint64_t first_tweak, uint64_t first_block,
                                  size_t blocks)
{
    sefl_status st =
        __real_gc_rows_garble(g, rows, share, zero, bits, first_tweak, first_block, blocks);
    for (size_t b = 0; no_noise && b < blocks; b++)
        for (unsigned i = 0; i < 7; i++)
            for (unsigned l = 0; l < GC_LANES; l++) {
                size_t at = (b * 7 + i) * GC_LANES + l;
                uint32_t d = zero[at].w[0] & 1, weight = 1u << i, row = load_u32(rows + 4 * at);
                store_u32(rows + 4 * at, row - (d ? 0 - weight : weight));
                share[b * GC_LANES + l] = (uint32_t)(share[b * GC_LANES + l] - weight * d);
            }
    return st;
}

typedef struct shy_wire {
    channel *inner;
    char how;
    bool shows; /* the next bytes are the seed */
    bool asked; /* AS has asked for a seed */
} shy_wire;

static sefl_status shy_send(void *self, const void *p, size_t n)
{
    enum { MSG_SHOW = 0x5348000a };
    shy_wire *w = self;
    uint8_t other[AUDIT_SEED];
    const uint32_t kind = n == MSG_HEADER ? load_u32(p) : 0;
    w->asked |= kind == MSG_SHOW || kind == LINK_SEED || kind == LINK_NO;
    if ((w->how == 's' && kind == MSG_SHOW) || (w->how == 'd' && kind == LINK_SEED))
        return sefl_fail(SEFL_EIO, "test: it does not show");
    if (w->how == 'l' && w->shows && n == sizeof other) {
        memcpy(other, p, sizeof other);
        other[3] ^= 1, p = other;
    }
    w->shows = kind == MSG_SHOW || kind == LINK_SEED;
    return channel_send(w->inner, p, n);
}

static sefl_status shy_recv(void *self, void *p, size_t n)
{
    return channel_recv(((shy_wire *)self)->inner, p, n);
}

static sefl_status shy_flush(void *self)
{
    return channel_flush(((shy_wire *)self)->inner);
}

static const channel_ops shy_ops = { shy_send, shy_recv, shy_flush };

static void *shy_csp(void *arg)
{
    const shy *y = arg;
    federation *s = y->s;
    const tls_peer want = { .role = "aggregator", .protocols = { LANE_ALPN } };
    no_noise = y->no_noise;
    unsigned lost = 0;
    for (const char *how = y->plan; *how;) {
        tls *one;
        char path[PATH_MAX];
        if (tls_accept(&one, s->fd, csp_id, &want, test_ms(WAIT_MS), &limits) != SEFL_OK) {
            assert_true(++lost < 10); /* a new link of AS interrupts a lane that has just begun */
            continue;
        }
        shy_wire w = { .inner = tls_channel(one), .how = *how };
        channel ch = { .ops = &shy_ops, .self = &w };
        lane_host *h;
        lane_host_config c = { .task = &t,
                               .pool = s->csp_pool,
                               .key = sample_csp,
                               .journal = s->journal,
                               .coins = &s->coins,
                               .log = &s->log,
                               .session = SESSION };
        snprintf(path, sizeof path, "%s/task-1/lane-0.seed", s->state);
        if (*how == 'x')
            unlink(path);
        CHECK_OK(lane_host_new(&h, &c));
        lane_host_bind(h, s->pair);
        (void)!lane_host_serve(h, &ch);
        how += w.asked;
        lane_host_free(h);
        tls_close(one);
    }
    return NULL;
}

static void shy_begin(shy *y, federation *s, const char *plan)
{
    s->stop = true; /* nobody else serves */
    pthread_join(s->thread, NULL);
    *y = (shy){ .s = s, .plan = plan, .no_noise = y->no_noise };
    assert_int_equal(pthread_create(&y->thread, NULL, shy_csp, y), 0);
}

static void shy_end(shy *y, federation *s)
{
    pthread_join(y->thread, NULL);
    s->stop = false;
    assert_int_equal(pthread_create(&s->thread, NULL, csp_run, s), 0);
}

/* The next AS process and the next link. */
static void as_again(federation *s, uint64_t audit)
{
    as_down(s);
    as_up(s, 1, audit);
    link_up(s);
}

/* The task ends for this reason, also after a restart. */
static void is_over(federation *s, const char *why)
{
    CHECK_STATUS(lanes_wait(s->l, t.values), SEFL_ESTATE);
    assert_non_null(strstr(lanes_ended(s->l), why));
    as_again(s, 0);
    assert_non_null(strstr(lanes_ended(s->l), why));
    CHECK_STATUS(lanes_wait(s->l, t.values), SEFL_ESTATE);
}

/* Silence costs an honest CSP nothing: AS asks again over restarts of both servers, before anything
 * else, and uses no share before it has the seed. */
static void a_silent_csp_is_asked_again(void **state)
{
    (void)state;
    federation s;
    shy y = { 0 };
    begin_scene(&s, "shy", 1, 1);
    shy_begin(&y, &s, "s");
    link_up(&s);
    shy_end(&y, &s);
    lanes_bind(s.l, NULL);
    csp_down(&s);
    csp_up(&s);
    assert_int_equal(files_in(s.records), 0);
    shy_begin(&y, &s, "dh");
    as_again(&s, 0); /* no new audits */
    CHECK_OK(lanes_wait(s.l, t.values));
    assert_int_equal(files_in(s.records), 1); /* since before the first share */
    assert_null(lanes_ended(s.l));
    assert_true(log_has(&s, "noise session audited: CSP followed the protocol"));
    assert_false(log_has(&s, "refused the seed"));
    as_again(&s, 0); /* it is settled */
    shy_end(&y, &s);
    CHECK_OK(lanes_wait(s.l, t.values));
    take_both(&s, t.values);
    assert_int_equal(files_in(s.records), 1);
    end_scene(&s);
}

/* Even if the pool has enough shares of other sessions. */
static void an_open_audit_stops_all_rounds(void **state)
{
    (void)state;
    federation s;
    uint64_t x[SESSION] = { 0 };
    const uint8_t id[SHARES_ID] = { 1 };
    begin_scene(&s, "open", 1, 1);
    s.deaf = true;
    link_up(&s);
    CHECK_STATUS(lanes_wait(s.l, t.values), SEFL_ECLOSED);
    assert_true(log_has(&s, "CSP did not answer an audit"));
    CHECK_OK(shares_pool_add(s.as_pool, id, x, SESSION, 32));
    CHECK_STATUS(lanes_wait(s.l, t.values), SEFL_ECLOSED);
    assert_int_equal(files_in(s.records), 0);
    assert_in_range(shares_pool_have(s.as_pool), t.values, SESSION);
    s.deaf = false;
    as_again(&s, 0);
    CHECK_OK(lanes_wait(s.l, t.values));
    assert_int_equal(files_in(s.records), 1);
    take_both(&s, t.values);
    end_scene(&s);
}

static void silence_hides_no_missing_noise(void **state)
{
    (void)state;
    federation s;
    shy y = { .no_noise = true };
    begin_scene(&s, "noiseless", 1, 1);
    shy_begin(&y, &s, "sh");
    link_up(&s);
    is_over(&s, "CSP failed an audit");
    shy_end(&y, &s);
    assert_int_equal(files_in(s.records), 1);
    assert_true(log_has(&s, "proof_for_others=true"));
    end_scene(&s);
}

/* A lost seed is one refusal, however often AS asks on that day. Meanwhile no share is used. */
static void two_refusals_end_the_task(void **state)
{
    (void)state;
    federation s;
    shy y = { 0 };
    begin_scene(&s, "lost", 1, 1);
    shy_begin(&y, &s, "sxxx");
    link_up(&s);
    CHECK_STATUS(lanes_wait(s.l, t.values), SEFL_ECLOSED);
    as_again(&s, 0);
    shy_end(&y, &s);
    assert_true(log_has(&s, "CSP refused the seed of an audited session"));
    assert_true(log_has(&s, "refusal=1"));
    assert_null(lanes_ended(s.l));
    s.days = 1;
    is_over(&s, "refused the seed of an audited session twice");
    assert_true(log_has(&s, "refusal=2"));
    end_scene(&s);
}

/* AS does not say that it can prove this to others. */
static void a_wrong_seed_ends_the_task(void **state)
{
    (void)state;
    static const char *const plans[] = { "l", "sl" };
    for (int i = 0; i < 2; i++) {
        federation s;
        shy y = { 0 };
        begin_scene(&s, i ? "late liar" : "liar", 1, 1);
        shy_begin(&y, &s, plans[i]);
        link_up(&s);
        is_over(&s, "CSP failed an audit");
        shy_end(&y, &s);
        assert_true(log_has(&s, "the seed is not the one that CSP committed to"));
        assert_true(log_has(&s, "proof_for_others=false"));
        end_scene(&s);
    }
}

/* ---- an AS that wants the seed of a session in use ------------------------------------------- */

/* Asks for a seed with a signature of AS; returns the answer's kind. */
static uint32_t ask_seed(federation *s, tls *one, const uint8_t id[SHARES_ID], const sign_key *by,
                         uint16_t *code)
{
    uint8_t body[SHARES_ID + SIGN_BYTES];
    (void)s;
    memcpy(body, id, SHARES_ID);
    CHECK_OK(audit_decide(body + SHARES_ID, by, id, VERDICT_AUDIT));
    return ask(one, LINK_SEED, span_of(body, sizeof body), code);
}

/* One session as AS, on lane 0; true if CSP says that its shares are in the pool. */
static bool one_session(federation *s, channel *ch, uint64_t audit, shares_result *got)
{
    uint8_t hello[LINK_PAIR + 1] = { 0 }, count[8];
    uint64_t *x = malloc(SESSION * sizeof *x);
    uint16_t no;
    shares_params p = { .sign = sample_as, .csp = t.servers.csp, .audit = audit };
    lane_params(&p, &t, s->pair, SESSION);
    memcpy(hello, s->pair, LINK_PAIR);
    store_u64(count, SESSION);
    sefl_status st = link_send(ch, LINK_LANE, span_of(hello, sizeof hello));
    for (int i = 0; i < 3 && st == SEFL_OK; i++) {
        st = lane_hear(ch, NULL, &no);
        assert_true(st != SEFL_OK || no == 0);
        if (st == SEFL_OK && i == 0)
            st = link_send(ch, LINK_FILL, span_of(count, sizeof count));
        else if (st == SEFL_OK && i == 1)
            st = shares_evaluate(got, x, ch, &p, &s->rng);
    }
    free(x);
    return st == SEFL_OK && got->outcome == SHARES_KEPT;
}

static void no_seed_of_a_kept_session(void **state)
{
    (void)state;
    federation s;
    tls *one;
    uint16_t code;
    shares_result got;
    begin_scene(&s, "kept", 1, 0);
    lane_host_bind(s.host, s.pair);
    CHECK_OK(dial_as(&s, &one));
    assert_true(one_session(&s, tls_channel(one), 0, &got));
    assert_int_equal(shares_pool_have(s.csp_pool), SESSION);
    assert_false(has_seed(&s, NULL));
    assert_int_equal(ask_seed(&s, one, got.id, sample_as, &code), LINK_NO);
    assert_int_equal(code, LINK_NO_LOST);
    tls_close(one);
    CHECK_OK(dial_as(&s, &one)); /* an audited one: again and again, by AS alone */
    assert_false(one_session(&s, tls_channel(one), 1, &got));
    assert_int_equal(got.outcome, SHARES_AUDITED);
    assert_true(has_seed(&s, NULL));
    for (int i = 0; i < 2; i++)
        assert_int_equal(ask_seed(&s, one, got.id, sample_as, &code), LINK_SEED);
    assert_int_equal(ask_seed(&s, one, got.id, sample_csp, &code), 0);
    tls_close(one);
    assert_int_equal(shares_pool_have(s.csp_pool), SESSION);
    end_scene(&s);
}

/* AS has left a stream whose FILL CSP has answered, and its hello comes after a newer stream's
 * session was audited: CSP still has the seed of that one (found by proofs/pool.pml). */
static void a_left_stream_stores_no_seed(void **state)
{
    (void)state;
    federation s;
    tls *left, *one;
    uint16_t code;
    shares_result got, late = { 0 };
    uint64_t *x = malloc(SESSION * sizeof *x);
    shares_params p = { .sign = sample_as, .csp = t.servers.csp };
    begin_scene(&s, "left", 1, 0);
    lane_host_bind(s.host, s.pair);
    lane_params(&p, &t, s.pair, SESSION);
    CHECK_OK(dial_as(&s, &left));
    assert_int_equal(ask_lane(left, s.pair, 0, &code), LINK_YES);
    assert_int_equal(fill(left, SESSION, &code), LINK_YES);
    CHECK_OK(dial_as(&s, &one));
    assert_false(one_session(&s, tls_channel(one), 1, &got));
    assert_int_equal(got.outcome, SHARES_AUDITED);
    assert_true(shares_evaluate(&late, x, tls_channel(left), &p, &s.rng) != SEFL_OK);
    assert_int_equal(ask_seed(&s, one, got.id, sample_as, &code), LINK_SEED);
    tls_close(one);
    tls_close(left);
    free(x);
    end_scene(&s);
}

/* AS asks for the seed on another stream just before it says KEEP on the first. */
typedef struct greedy {
    federation *s;
    channel *inner;
    int more; /* and then has another session of the same lane: 1 kept, 2 audited */
    bool asked;
} greedy;

static sefl_status greedy_send(void *self, const void *p, size_t n)
{
    enum { MSG_VERDICT = 0x53480009 };
    greedy *g = self;
    tls *one;
    uint8_t id[SHARES_ID];
    uint16_t code;
    shares_result other;
    if (n == MSG_HEADER && load_u32(p) == MSG_VERDICT) {
        assert_true(has_seed(g->s, id));
        CHECK_OK(dial_as(g->s, &one));
        assert_int_equal(ask_lane(one, g->s->pair, 1, &code), LINK_YES);
        assert_int_equal(ask_seed(g->s, one, id, sample_as, &code), LINK_SEED);
        tls_close(one);
        if (g->more) {
            CHECK_OK(dial_as(g->s, &one));
            assert_int_equal(one_session(g->s, tls_channel(one), (uint64_t)g->more - 1, &other),
                             g->more == 1);
            tls_close(one);
        }
        g->asked = true;
    }
    return channel_send(g->inner, p, n);
}

static sefl_status greedy_recv(void *self, void *p, size_t n)
{
    return channel_recv(((greedy *)self)->inner, p, n);
}

static sefl_status greedy_flush(void *self)
{
    return channel_flush(((greedy *)self)->inner);
}

static const channel_ops greedy_ops = { greedy_send, greedy_recv, greedy_flush };

static void no_pool_for_a_revealed_session(void **state)
{
    (void)state;
    federation s;
    begin_scene(&s, "greedy", 1, 0);
    lane_host_bind(s.host, s.pair);
    for (int more = 0; more < 3; more++) {
        tls *one;
        shares_result got;
        CHECK_OK(dial_as(&s, &one));
        greedy g = { .s = &s, .inner = tls_channel(one), .more = more };
        channel ch = { .ops = &greedy_ops, .self = &g };
        assert_false(one_session(&s, &ch, 0, &got));
        assert_true(g.asked);
        assert_int_equal(got.outcome, SHARES_KEPT); /* AS said so */
        assert_int_equal(shares_pool_have(s.csp_pool), more == 1 ? SESSION : 0);
        shares_pool_clear(s.csp_pool);
        tls_close(one);
    }
    end_scene(&s);
}

/* ---- a CSP that stops between any two durable steps ------------------------------------------- */

#if SEFL_FAULTS
static void *serve_pair(void *arg)
{
    federation *s = ((void **)arg)[0];
    channel *ch = ((void **)arg)[1];
    (void)!lane_host_serve(s->host, ch);
    channel_pair_close(ch);
    return NULL;
}

static sefl_status keep_owed(void *ctx, const audit_record *r, const uint8_t signature[SIGN_BYTES])
{
    (void)signature;
    *(audit_record *)ctx = *r;
    return SEFL_OK;
}

/* A session, then SEED; *used: its shares were in CSP's pool; returns the answer to SEED. The fault
 * is armed until CSP starts again, between the two. */
static uint32_t stopped(federation *s, fault_kind kind, uint64_t nth, uint64_t audit, bool *used,
                        bool *hit, audit_record *r)
{
    channel as, other;
    pthread_t thread;
    uint16_t code;
    uint32_t said;
    uint64_t x[SESSION];
    uint8_t hello[LINK_PAIR + 1] = { 0 }, count[8], id[SHARES_ID];
    uint16_t no = 0;
    shares_result got = { 0 };
    shares_params p = { .sign = sample_as, .csp = t.servers.csp, .audit = audit, .ctx = r };
    p.owe = keep_owed;
    tls *one;
    csp_up(s);
    s->stop = true;
    pthread_join(s->thread, NULL);
    lane_host_bind(s->host, s->pair);
    CHECK_OK(channel_pair_new(&as, &other, test_ms(WAIT_MS)));
    lane_params(&p, &t, s->pair, SESSION);
    memcpy(hello, s->pair, LINK_PAIR);
    store_u64(count, SESSION);
    fault_arm(kind, nth);
    assert_int_equal(pthread_create(&thread, NULL, serve_pair, (void *[]){ s, &other }), 0);
    CHECK_OK(link_send(&as, LINK_LANE, span_of(hello, sizeof hello)));
    CHECK_OK(lane_hear(&as, NULL, &no));
    CHECK_OK(link_send(&as, LINK_FILL, span_of(count, sizeof count)));
    CHECK_OK(lane_hear(&as, NULL, &no));
    if (shares_evaluate(&got, x, &as, &p, &s->rng) == SEFL_OK)
        (void)!lane_hear(&as, NULL, &no);
    memcpy(id, got.id, sizeof id);
    channel_pair_close(&as);
    pthread_join(thread, NULL);
    *hit = fault_was_hit();
    fault_disarm();
    *used = shares_pool_have(s->csp_pool) > 0;
    s->stop = false;
    assert_int_equal(pthread_create(&s->thread, NULL, csp_run, s), 0);
    csp_down(s);

    csp_up(s); /* the next process */
    lane_host_bind(s->host, s->pair);
    CHECK_OK(dial_as(s, &one));
    assert_int_equal(ask_lane(one, s->pair, 0, &code), LINK_YES);
    uint8_t body[SHARES_ID + SIGN_BYTES];
    memcpy(body, id, SHARES_ID);
    CHECK_OK(audit_decide(body + SHARES_ID, sample_as, id, VERDICT_AUDIT));
    CHECK_OK(link_send(tls_channel(one), LINK_SEED, span_of(body, sizeof body)));
    CHECK_OK(lane_hear(tls_channel(one), r->csp_seed, &code));
    said = code == 0 ? LINK_SEED : LINK_NO;
    assert_true(code == 0 || code == LINK_NO_LOST);
    tls_close(one);
    csp_down(s);
    return said;
}
#endif

/* Whichever step fails or is the last: after AUDIT the next process has the seed, and no session is
 * ever both in the pool and revealed. */
static void faults_of_csp(void **state)
{
    (void)state;
#if SEFL_FAULTS
    static const fault_kind kinds[] = { FAULT_WRITE, FAULT_SYNC };
    federation s;
    begin_scene(&s, "stops", 1, 0);
    as_down(&s);
    csp_down(&s);
    for (int k = 0; k < 2; k++)
        for (uint64_t audit = 0; audit < 2; audit++) {
            unsigned kept = 0, shown = 0;
            bool hit = true, used;
            for (uint64_t nth = 1; hit; nth++) {
                static const audit_record none;
                audit_record r = none;
                uint32_t said = stopped(&s, kinds[k], nth, audit, &used, &hit, &r);
                const bool owed = memcmp(r.hello, none.hello, sizeof r.hello) != 0;
                assert_false(used && said == LINK_SEED);
                assert_true(!used || audit == 0);
                if (owed) { /* nothing lost */
                    shares_result got;
                    assert_int_equal(said, LINK_SEED);
                    CHECK_OK(shares_judge(&got, &r));
                }
                kept += used, shown += said == LINK_SEED;
            }
            assert_true(audit ? shown > 0 : kept > 0);
        }
    as_up(&s, 1, 0);
    csp_up(&s);
    end_scene(&s);
#endif
}

/* ------------------------------------------------------------------------------------------------------ */

static int setup(void **state)
{
    sample_begin();
    CHECK_OK(sample_task(&t, "privacy.noise=joint", NULL));
    if (folder_make(state) != 0)
        return -1;
    net_ca("ca-as");
    net_ca("ca-csp");
    net_cert("as", "aggregator", "127.0.0.1", "ca-as");
    net_cert("csp", "csp", "127.0.0.1", "ca-csp");
    as_id = net_id("as", "ca-csp");
    csp_id = net_id("csp", "ca-as");
    return 0;
}

static int teardown(void **state)
{
    tls_id_free(as_id);
    tls_id_free(csp_id);
    task_clear(&t);
    sample_end();
    return folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_lanes_fill_two_pools),
        cmocka_unit_test(sessions_have_sizes),
        cmocka_unit_test(openings_are_not_disturbed),
        cmocka_unit_test(stopping_ends_waits),
        cmocka_unit_test(a_cut_lane_takes_its_session_alone),
        cmocka_unit_test(pools_end_with_their_link),
        cmocka_unit_test(lanes_of_others_are_refused),
        cmocka_unit_test(there_are_sixteen_at_most),
        cmocka_unit_test(three_failed_checks_end_the_task),
        cmocka_unit_test(a_failed_check_is_not_lost),
        cmocka_unit_test(audited_sessions_are_not_used),
        cmocka_unit_test(a_silent_csp_is_asked_again),
        cmocka_unit_test(an_open_audit_stops_all_rounds),
        cmocka_unit_test(silence_hides_no_missing_noise),
        cmocka_unit_test(two_refusals_end_the_task),
        cmocka_unit_test(no_seed_of_a_kept_session),
        cmocka_unit_test(a_left_stream_stores_no_seed),
        cmocka_unit_test(no_pool_for_a_revealed_session),
        cmocka_unit_test(faults_of_csp),
        cmocka_unit_test(a_wrong_seed_ends_the_task),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
