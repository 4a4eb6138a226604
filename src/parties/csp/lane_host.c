/* CSP's lanes. `lock` guards the current link; a lane of another link adds nothing to the pool and
 * gets NO PAIR at its next request.
 *
 * The seed of a lane's last session is SHA-256(root, 32 bytes of lane-N.seed, id). With `lock`
 * held, each step durable before the next:
 *     hello        only on the newest stream of the lane: store the 32 bytes
 *     KEEP         refuse a dropped session; destroy its 32 bytes, which must be there; only then
 *                  add it to the pool
 *     SEED, AUDIT  drop the session (fact 0 "dropped ID"); only then reveal the seed
 * So whichever comes first, the other finds no seed, or a dropped session, also after a crash. */
#define _GNU_SOURCE
#include "roles/csp/lane_host.h"

#include "base/alloc.h"
#include "base/cond.h"
#include "base/ct.h"
#include "base/hex.h"
#include "sum/csp.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef struct guest {
    lane_host *h;
    tls *t; /* NULL: a free slot */
    pthread_t thread;
    atomic_bool done; /* the thread has finished */
} guest;

struct lane_host {
    lane_host_config c;
    guest guest[LANES_MAX]; /* the owner's */
    uint64_t session;
    pthread_mutex_t lock;
    bool bound;
    uint8_t pair[LINK_PAIR];
    uint64_t sessions;
    uint64_t streams, newest[LANES_MAX]; /* accepted so far; the latest one of each lane */
    unsigned checks; /* failed checks in this task; after a failed write more than in the journal */
    unsigned unsaved; /* of these, failed checks that the journal does not have */
};

sefl_status lane_host_new(lane_host **out, const lane_host_config *c)
{
    SEFL_MAKE(lane_host, h, out);
    h->c = *c;
    h->session = c->session ? c->session : lanes_session(c->task);
    pthread_mutex_init(&h->lock, NULL);
    if (c->journal)
        SEFL_TRY(lane_count(c->journal, "checks", 0, &h->checks));
    SEFL_HAND_OVER(out, h, lane_host_free);
}

void lane_host_free(lane_host *h)
{
    if (!h)
        return;
    lane_host_unbind(h);
    pthread_mutex_destroy(&h->lock);
    sefl_free(h);
}

void lane_host_bind(lane_host *h, const uint8_t *pair)
{
    pthread_mutex_lock(&h->lock);
    h->bound = pair != NULL;
    memset(h->pair, 0, sizeof h->pair);
    if (pair)
        memcpy(h->pair, pair, sizeof h->pair);
    shares_pool_clear(h->c.pool);
    pthread_mutex_unlock(&h->lock);
}

static bool is_bound(lane_host *h)
{
    pthread_mutex_lock(&h->lock);
    bool bound = h->bound;
    pthread_mutex_unlock(&h->lock);
    return bound;
}

static void leave(guest *g)
{
    pthread_join(g->thread, NULL);
    tls_close(g->t);
    g->t = NULL;
}

void lane_host_unbind(lane_host *h)
{
    lane_host_bind(h, NULL);
    for (int i = 0; i < LANES_MAX; i++)
        if (h->guest[i].t)
            tls_interrupt(h->guest[i].t);
    for (int i = 0; i < LANES_MAX; i++)
        if (h->guest[i].t)
            leave(&h->guest[i]);
}

static void *serve_guest(void *arg)
{
    guest *g = arg;
    lane_host *h = g->h;
    lane_low_priority();
    sefl_status st = lane_host_serve(h, tls_channel(g->t));
    if (st != SEFL_OK && is_bound(h)) /* AS hangs up when it stops, and when the task is over */
        LOG_AT(h->c.log, st == SEFL_ECLOSED ? LOG_INFO : LOG_WARN, "a lane ended within a session",
               lf_str("why", sefl_last_error()));
    tls_interrupt(g->t); /* so that AS learns at once */
    atomic_store(&g->done, true);
    return NULL;
}

sefl_status lane_host_take(lane_host *h, tls *t)
{
    sefl_status st = SEFL_OK;
    guest *g = NULL;
    for (int i = 0; i < LANES_MAX; i++) {
        if (h->guest[i].t && atomic_load(&h->guest[i].done))
            leave(&h->guest[i]);
        if (!h->guest[i].t)
            g = &h->guest[i];
    }
    SEFL_CHECK(g, SEFL_ESTATE, "lane: %d lanes are running already", LANES_MAX);
    g->h = h;
    atomic_store(&g->done, false);
    g->t = t;
    st = thread_start(&g->thread, serve_guest, g);
    if (st != SEFL_OK)
        g->t = NULL;
    else
        t = NULL;
done:
    tls_close(t);
    return st;
}

unsigned lane_host_checks(lane_host *h)
{
    pthread_mutex_lock(&h->lock);
    unsigned failed = h->checks;
    pthread_mutex_unlock(&h->lock);
    return failed;
}

/* With the lock: true if this pair is the current link's. */
static bool is_current(const lane_host *h, const uint8_t pair[LINK_PAIR])
{
    return h->bound && ct_eq_bytes(h->pair, pair, LINK_PAIR);
}

sefl_status lane_host_save(lane_host *h)
{
    sefl_status st = SEFL_OK;
    unsigned count;
    pthread_mutex_lock(&h->lock);
    if (h->unsaved > 0)
        st = lane_count(h->c.journal, "checks", h->unsaved, &count);
    if (st == SEFL_OK)
        h->unsaved = 0;
    pthread_mutex_unlock(&h->lock);
    return st;
}

/* Counts a failed check of AS's transfers before the lane ends. If the journal cannot be written,
 * the task is over until the process restarts: the count must not be lost. CSP changes to another
 * task only after lane_host_save. */
static void note_failed(lane_host *h)
{
    unsigned count = 0;
    char why[200];
    snprintf(why, sizeof why, "%s", sefl_last_error());
    pthread_mutex_lock(&h->lock);
    sefl_status st = h->c.journal ? lane_count(h->c.journal, "checks", 1, &count) : SEFL_OK;
    if (st != SEFL_OK) {
        log_error(h->c.log, "a failed check could not be recorded: the task ends here",
                  lf_str("why", sefl_last_error()));
        count = CSP_CHECKS_MAX;
        h->unsaved++;
    }
    h->checks = h->c.journal ? count : h->checks + 1;
    count = h->checks;
    shares_pool_clear(h->c.pool);
    pthread_mutex_unlock(&h->lock);
    log_error(h->c.log, "the aggregation server failed a check of its noise shares",
              lf_u64("count", count), lf_u64("most", CSP_CHECKS_MAX), lf_str("why", why));
    if (count >= CSP_CHECKS_MAX)
        log_error(h->c.log, "too many failed checks: this task is over");
    if (h->c.failed)
        h->c.failed(h->c.ctx);
}

/* Sends YES, or NO (*ok is false). */
static sefl_status answer(lane_host *h, channel *ch, const uint8_t pair[LINK_PAIR], bool *ok)
{
    pthread_mutex_lock(&h->lock);
    bool current = is_current(h, pair), spoiled = h->checks >= CSP_CHECKS_MAX;
    pthread_mutex_unlock(&h->lock);
    *ok = current && !spoiled;
    if (*ok)
        return link_send(ch, LINK_YES, span_of(NULL, 0));
    return link_send_no(ch, spoiled ? LINK_NO_CHECKS : LINK_NO_PAIR, NULL);
}

/* ---- seeds ----------------------------------------------------------------------------------- */

typedef struct seed_source {
    lane_host *h;
    unsigned lane;
    uint64_t stream;
    const sefl_rng *rng;
} seed_source;

enum { DROPPED_NAME = 80 };

static const char *dropped_name(char out[DROPPED_NAME], const uint8_t id[SHARES_ID])
{
    char hex[HEX_CHARS(SHARES_ID)];
    snprintf(out, DROPPED_NAME, "dropped %s", hex_write(hex, id, SHARES_ID));
    return out;
}

/* A seed file alone reveals nothing without CSP's key. */
static void seed_of(const lane_host *h, const uint8_t id[SHARES_ID],
                    const uint8_t secret[AUDIT_SEED], uint8_t seed[AUDIT_SEED])
{
    uint8_t own[AUDIT_SEED]; /* paillier: there is no root */
    const uint8_t *root = h->c.root ? h->c.root : own;
    if (!h->c.root)
        sign_key_derive(h->c.key, "noise seeds 1", own);
    sha256_join(seed, span_of_str("sefl noise seed 1"), span_of(root, AUDIT_SEED),
                span_of(secret, AUDIT_SEED), span_of(id, SHARES_ID));
    sefl_wipe(own, sizeof own);
}

/* A stream that AS has replaced by a newer one of this lane stores no seed: the file may have the
 * seed of an audited session, whose stream broke too. */
static sefl_status put_seed(const seed_source *s, const uint8_t id[SHARES_ID],
                            const uint8_t secret[AUDIT_SEED])
{
    pthread_mutex_lock(&s->h->lock);
    sefl_status st = s->h->newest[s->lane] == s->stream
                         ? journal_seed_put(s->h->c.journal, s->lane, id, secret)
                         : sefl_fail(SEFL_ECLOSED, "lane: AS has opened a newer stream");
    pthread_mutex_unlock(&s->h->lock);
    return st;
}

/* shares_params.draw: the file is durable before CSP commits to the seed. */
static sefl_status draw_seed(void *ctx, const uint8_t id[SHARES_ID], uint8_t seed[AUDIT_SEED])
{
    const seed_source *s = ctx;
    uint8_t secret[AUDIT_SEED];
    sefl_status st = rng_fill(s->rng, secret, sizeof secret);
    if (st == SEFL_OK)
        st = put_seed(s, id, secret);
    if (st == SEFL_OK)
        seed_of(s->h, id, secret, seed);
    sefl_wipe(secret, sizeof secret);
    return st;
}

/* shares_params.drop */
static sefl_status drop(void *ctx, const uint8_t id[SHARES_ID])
{
    const seed_source *s = ctx;
    char name[DROPPED_NAME];
    return journal_fact_put(s->h->c.journal, 0, dropped_name(name, id), span_of("", 1));
}

/* With the lock: fails if the session was dropped, and destroys its seed. */
static sefl_status forget_seed(const seed_source *s, const uint8_t id[SHARES_ID])
{
    char name[DROPPED_NAME];
    bool dropped;
    SEFL_PASS(journal_fact_has(s->h->c.journal, 0, dropped_name(name, id), &dropped));
    SEFL_NEED(!dropped, SEFL_ESTATE, "lane: AS keeps a session whose seed it has");
    return journal_seed_wipe(s->h->c.journal, s->lane, id);
}

/* With the lock: SEFL_ENOTFOUND if CSP does not have the seed. */
static sefl_status reveal_seed(lane_host *h, const uint8_t id[SHARES_ID], uint8_t seed[AUDIT_SEED])
{
    uint8_t secret[AUDIT_SEED];
    seed_source s = { .h = h };
    sefl_status st = SEFL_ENOTFOUND;
    for (unsigned lane = 0; h->c.journal && lane < LANES_MAX && st == SEFL_ENOTFOUND; lane++)
        st = journal_seed_get(h->c.journal, lane, id, secret);
    if (st == SEFL_OK)
        st = drop(&s, id);
    if (st == SEFL_OK)
        seed_of(h, id, secret, seed);
    sefl_wipe(secret, sizeof secret);
    return st;
}

/* AS audits a session whose lane broke. */
static sefl_status show_seed(lane_host *h, channel *ch, const uint8_t pair[LINK_PAIR], rd *r)
{
    sefl_status st = SEFL_OK;
    uint8_t id[SHARES_ID], signature[SIGN_BYTES], seed[AUDIT_SEED] = { 0 };
    bool ok;
    SEFL_TRY(rd_raw(r, id, sizeof id));
    SEFL_TRY(rd_raw(r, signature, sizeof signature));
    SEFL_TRY(rd_end(r));
    SEFL_TRY(audit_decided(signature, h->c.task->servers.as, id, VERDICT_AUDIT));
    pthread_mutex_lock(&h->lock);
    ok = is_current(h, pair);
    st = ok ? reveal_seed(h, id, seed) : SEFL_OK;
    pthread_mutex_unlock(&h->lock);
    if (!ok)
        SEFL_TRY(link_send_no(ch, LINK_NO_PAIR, NULL));
    SEFL_CHECK(ok, SEFL_ESTATE, "lane: its link is over");
    if (st == SEFL_ENOTFOUND) {
        log_error(h->c.log, "CSP no longer has the seed of a noise session that is audited",
                  lf_hash("id", id));
        st = link_send_no(ch, LINK_NO_LOST, NULL);
        goto done;
    }
    SEFL_TRY(st);
    log_info(h->c.log, "noise session audited by the aggregation server", lf_hash("id", id));
    st = link_send(ch, LINK_SEED, span_of(seed, sizeof seed));
done:
    sefl_wipe(seed, sizeof seed);
    return st;
}

/* ---- sessions -------------------------------------------------------------------------------- */

static sefl_status session(lane_host *h, channel *ch, const uint8_t pair[LINK_PAIR], unsigned lane,
                           uint64_t stream, uint64_t *values)
{
    sefl_status st = SEFL_OK;
    shares_result got = { 0 };
    sefl_rng rng;
    seed_source source = { h, lane, stream, &rng };
    shares_params p = { .sign = h->c.key, .as = h->c.task->servers.as, .ctx = &source };
    if (h->c.journal)
        p.draw = draw_seed, p.drop = drop;
    lane_params(&p, h->c.task, pair, h->session);
    pthread_mutex_lock(&h->lock); /* coins may be a table of generators */
    st = coins_for(h->c.coins, &rng, "shares", h->sessions++, 0);
    pthread_mutex_unlock(&h->lock);
    SEFL_TRY(st);
    const uint64_t began = clock_now_ns(), bytes = ch->sent + ch->received;
    st = shares_garble(&got, values, ch, &p, &rng);
    if (h->c.worked)
        h->c.worked(h->c.ctx, ch->sent + ch->received - bytes, clock_now_ns() - began);
    if (st == SEFL_ECRYPTO)
        note_failed(h);
    SEFL_TRY(st);
    if (got.outcome == SHARES_AUDITED)
        log_info(h->c.log, "noise session audited by the aggregation server",
                 lf_hash("id", got.id));
    pthread_mutex_lock(&h->lock);
    if (got.outcome == SHARES_KEPT) {
        st = is_current(h, pair) && h->checks < CSP_CHECKS_MAX
                 ? SEFL_OK
                 : sefl_fail(SEFL_ECLOSED, "lane: its link or the task is over");
        if (st == SEFL_OK && h->c.journal)
            st = forget_seed(&source, got.id);
        if (st == SEFL_OK)
            st = shares_pool_add(h->c.pool, got.id, values, p.count, p.bits);
    }
    pthread_mutex_unlock(&h->lock);
    SEFL_TRY(st);
    SEFL_TRY(link_send(ch, LINK_YES, span_of(NULL, 0)));
done:
    sefl_wipe(&got, sizeof got);
    return st;
}

sefl_status lane_host_serve(lane_host *h, channel *ch)
{
    sefl_status st = SEFL_OK;
    uint8_t pair[LINK_PAIR], lane;
    uint64_t *values = NULL;
    link_msg m = { 0 };
    bool ok = false;
    SEFL_TRY(link_recv(ch, &m));
    rd r = rd_over(buf_span(&m.body));
    SEFL_CHECK(m.kind == LINK_LANE, SEFL_EPROTO, "lane: the first message is %s, expected LANE",
               link_kind_name(m.kind));
    SEFL_TRY(rd_raw(&r, pair, sizeof pair));
    SEFL_TRY(rd_u8(&r, &lane));
    SEFL_TRY(rd_end(&r));
    SEFL_CHECK(lane < LANES_MAX, SEFL_EPROTO, "lane: its number is %u, at most %d are possible",
               lane, LANES_MAX);
    SEFL_TRY(answer(h, ch, pair, &ok));
    SEFL_CHECK(ok, SEFL_ESTATE, "lane: it belongs to another link, or the task is over");
    pthread_mutex_lock(&h->lock);
    const uint64_t stream = h->newest[lane] = ++h->streams;
    pthread_mutex_unlock(&h->lock);
    SEFL_TRY(sefl_new(&values, h->session, sizeof *values));
    for (;;) {
        uint64_t count;
        st = link_recv(ch, &m);
        if (st == SEFL_ECLOSED) {
            st = SEFL_OK; /* AS has enough shares */
            break;
        }
        SEFL_TRY(st);
        r = rd_over(buf_span(&m.body));
        if (m.kind == LINK_SEED) {
            SEFL_TRY(show_seed(h, ch, pair, &r));
            continue;
        }
        SEFL_CHECK(m.kind == LINK_FILL, SEFL_EPROTO, "lane: unexpected message %s from AS",
                   link_kind_name(m.kind));
        SEFL_TRY(rd_u64(&r, &count));
        SEFL_TRY(rd_end(&r));
        SEFL_CHECK(count == h->session, SEFL_EPROTO, "lane: %llu values requested, expected %llu",
                   (unsigned long long)count, (unsigned long long)h->session);
        SEFL_TRY(answer(h, ch, pair, &ok));
        SEFL_CHECK(ok, SEFL_ESTATE, "lane: its link or the task is over");
        SEFL_TRY(session(h, ch, pair, lane, stream, values));
    }
done:
    if (st == SEFL_EPROTO) { /* the peer violates the protocol */
        pthread_mutex_lock(&h->lock);
        if (ok && is_current(h, pair))
            shares_pool_clear(h->c.pool);
        pthread_mutex_unlock(&h->lock);
    }
    sefl_free_secret(values, values ? h->session * sizeof *values : 0);
    buf_clear(&m.body);
    return st;
}
