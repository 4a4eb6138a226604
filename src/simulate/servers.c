#include "simulate/servers.h"

#include "base/alloc.h"
#include "simulate/named_coins.h"
#include "sum/as_memory.h"
#include "sum/csp_memory.h"
#include "sum/terms.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

enum { TIMEOUT_MS = 600000, UNDER_WAY = 4 << 20 };

struct servers {
    servers_config c;
    channel as_end, csp_end;
    channel watched; /* as_end, which may be stopped */
    bool dialled, running;
    pthread_t thread;
    sefl_status ended;
    named_coins *as_named, *csp_named;
    sefl_coins as_coins, csp_coins;
    pool *csp_pool;
    csp_store csp_store;
    as_store as_store;
    ledger_book as_book, csp_book;
    csp_memory csp_memory;
    csp *csp;
    as_link *link;
    shares_twins twins; /* joint noise */
    as_memory as_memory;
};

/* ---- a stream that can be stopped --------------------------------------------------------------- */

/* What CSP breaks off when it is stopped is our stop too. */
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

/* ---- the object ------------------------------------------------------------------------------- */

static void *serve(void *arg)
{
    servers *v = arg;
    v->ended = csp_serve(v->csp, &v->csp_end);
    channel_pair_close(&v->csp_end);
    return NULL;
}

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
    const federation *s = v->c.federation;
    const csp_store *j = &v->csp_store;
    sign_key *key = NULL;
    for (uint32_t i = 0; i < s->clients && task_is_sealed(&s->task); i++) {
        SEFL_TRY(federation_upload_key(&key, s, i));
        SEFL_TRY(j->voucher_put(j->ctx, s->client[i], 1, sign_key_pub(key)));
        sign_key_free(key), key = NULL;
    }
done:
    sign_key_free(key);
    return st;
}

static sefl_status dial(servers *v)
{
    sefl_status st = SEFL_OK;
    const federation *s = v->c.federation;
    SEFL_TRY(channel_pair_new(&v->as_end, &v->csp_end, TIMEOUT_MS));
    v->dialled = true;
    st = channel_pair_limit(&v->as_end, UNDER_WAY);
    if (st == SEFL_OK && pthread_create(&v->thread, NULL, serve, v) != 0)
        st = sefl_fail(SEFL_ENOMEM, "no thread for CSP");
    if (st != SEFL_OK) {
        channel_pair_close(&v->csp_end);
        goto done;
    }
    v->running = true;
    v->watched = (channel){ .ops = &watched_ops, .self = v };
    SEFL_TRY(as_link_new(&v->link, &v->watched,
                         &(as_link_config){ .task = &s->task,
                                            .envelope = buf_span(&s->envelope),
                                            .key = s->as_key,
                                            .coins = &v->as_coins,
                                            .ledger = ledger_port_of(&v->as_book),
                                            .pool = v->c.pool,
                                            .log = v->c.log,
                                            .shares = v->twins.as,
                                            .shares_wait = shares_twins_wait,
                                            .shares_ctx = &v->twins }));
done:
    return st;
}

sefl_status servers_new(servers **out, const servers_config *c)
{
    sefl_status st = SEFL_OK;
    servers *v = NULL;
    const federation *s = c->federation;
    *out = NULL;
    SEFL_TRY(sefl_new(&v, 1, sizeof *v));
    v->c = *c;
    v->as_book = (ledger_book){ .ledger = c->as_ledger, .terms = terms_of_task(&s->task) };
    v->csp_book = (ledger_book){ .ledger = c->csp_ledger, .terms = v->as_book.terms };
    v->csp_memory = (csp_memory){ .ledger = ledger_port_of(&v->csp_book),
                                  .revealed_before = c->opened,
                                  .skipped_before = c->skipped };
    SEFL_TRY(named_coins_new(&v->as_named, "AS", s->e->seed));
    SEFL_TRY(named_coins_new(&v->csp_named, "CSP", s->e->seed));
    v->as_coins = named_coins_of(v->as_named);
    v->csp_coins = named_coins_of(v->csp_named);
    SEFL_TRY(shares_twins_init(&v->twins, &v->as_coins, &v->csp_coins));
    SEFL_TRY(pool_new(&v->csp_pool, pool_threads(c->pool)));
    v->csp_store = csp_memory_store(&v->csp_memory);
    v->as_store = as_memory_store(&v->as_memory);
    SEFL_TRY(csp_new(&v->csp, &(csp_config){ .task = &s->task,
                                             .envelope = buf_span(&s->envelope),
                                             .sec = s->sec,
                                             .root = task_is_sealed(&s->task) ? s->root : NULL,
                                             .key = s->csp_key,
                                             .store = &v->csp_store,
                                             .coins = &v->csp_coins,
                                             .pool = v->csp_pool,
                                             .stop = c->stop,
                                             .log = c->log,
                                             .shares = v->twins.csp,
                                             .vouch = no_more_vouchers,
                                             .member = is_member }));
    SEFL_TRY(put_vouchers(v));
    SEFL_TRY(dial(v));
    *out = v, v = NULL;
done:
    servers_free(v);
    return st;
}

void servers_free(servers *v)
{
    if (!v)
        return;
    if (v->link && !as_link_dead(v->link))
        (void)!as_link_bye(v->link, true);
    as_link_free(v->link);
    if (v->dialled)
        channel_pair_close(&v->as_end);
    if (v->running)
        pthread_join(v->thread, NULL);
    csp_free(v->csp);
    shares_twins_clear(&v->twins);
    pool_free(v->csp_pool);
    named_coins_free(v->as_named);
    named_coins_free(v->csp_named);
    csp_memory_clear(&v->csp_memory);
    as_memory_clear(&v->as_memory);
    sefl_free(v);
}

sefl_status servers_header(servers *v, sefl_buf *both, round_header *h)
{
    sefl_status st = SEFL_OK;
    if (task_is_sealed(&v->c.federation->task))
        SEFL_TRY(as_link_key(v->link, h));
    SEFL_TRY(as_link_header(v->link, both, h));
done:
    return st;
}

typedef struct heads {
    const uint8_t *at;
    size_t bytes; /* of one */
} heads;

static sefl_status one_head(void *ctx, uint32_t i, uint8_t *out)
{
    const heads *h = ctx;
    memcpy(out, h->at + i * h->bytes, h->bytes);
    return SEFL_OK;
}

/* Heads as they would come while clients upload, then the set; root: what CSP says of it. */
static sefl_status settle_set(servers *v, uint64_t round, const work_got *got, uint8_t root[32])
{
    sefl_status st = SEFL_OK;
    heads h = { .at = got->heads, .bytes = head_bytes(v->c.federation->task.seal) };
    head_refusal *refused = NULL;
    as_verdict verdict = { 0 };
    uint8_t tree_seed[COUNTED_SEED];
    sefl_rng rng;
    size_t n = 0;
    SEFL_TRY(sefl_new(&refused, got->clients, sizeof *refused));
    SEFL_TRY(coins_for(&v->as_coins, &rng, "tree", round, 0));
    SEFL_TRY(rng_fill(&rng, tree_seed, sizeof tree_seed));
    SEFL_TRY(as_link_early(v->link, round, span_of(h.at, got->clients * h.bytes), refused, &n));
    SEFL_TRY(as_link_set(v->link,
                         &(as_set){ .round = round,
                                    .clients = got->clients,
                                    .leaves = got->leaves,
                                    .tree_seed = tree_seed,
                                    .head = one_head,
                                    .ctx = &h },
                         &verdict, NULL));
    SEFL_CHECK(verdict.refused_n == 0, SEFL_ECRYPTO, "round %" PRIu64 ": CSP refuses an upload: %s",
               round, head_reason_text(verdict.refused[0].reason));
    memcpy(root, verdict.root, 32);
done:
    as_verdict_clear(&verdict);
    sefl_free(refused);
    return st;
}

sefl_status servers_reveal(servers *v, uint64_t round, uint64_t attempt, const work_got *got,
                           int64_t *w)
{
    sefl_status st = SEFL_OK;
    bool kept;
    as_reveal o = { .round = round,
                    .attempt = attempt,
                    .clients = got->clients,
                    .sum = got->closed,
                    .store = &v->as_store };
    if (got->leaves)
        SEFL_TRY(settle_set(v, round, got, o.set));
    else
        memcpy(o.set, got->set, sizeof o.set);
    SEFL_TRY(ledger_charge(v->c.as_ledger, &v->as_book.terms, round, NULL));
    SEFL_TRY(as_link_reveal(v->link, &o, &kept, w));
done:
    return st;
}

sefl_status servers_skip(servers *v, uint64_t round)
{
    return as_link_skip(v->link, round, 0);
}

uint64_t servers_bytes(const servers *v)
{
    return v->as_end.sent + v->as_end.received;
}
