/* Design:
 *  1. CSP checks heads in batches and three steps: member list and store, one head at a time;
 *     signature and seal, on all threads; the outcome, in order.
 *  2. The sum of pads contains the pads of the entries that are `on` and, after a SET, of its kept
 *     heads that did not come with EARLY. At the verdict it contains exactly the kept ones.
 *  3. A SET has one of four modes: FRESH (check all heads), AGAIN (the store has the verdict:
 *     unseal the kept heads without a check), SAME (this stream has the verdict, or the round is
 *     revealed: only compare), DRAIN (refused: only read). In each mode the digest identifies the
 *     set.
 *  4. Answers are functions of heads and state, never of a sum. */
#include "sum/csp_set.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/sha256.h"
#include "crypto/secmem.h"
#include "sum/client_table.h"

#include <assert.h>
#include <string.h>

#define OTHER_SET "another set of this round was sent before"

enum { BATCH = 256, REFUSED_ERROR = 100 /* more than one in 100 */ };

/* A head from EARLY, beside table.leaf[i] and seed[i]. */
typedef struct early {
    uint8_t hash[SHA256_BYTES];
    bool on;     /* its pad is in the sum */
    bool in_set; /* the current SET contains it, and CSP keeps it */
} early;

/* One head under examination. Secret: the seed. */
typedef struct look {
    head h;
    uint8_t hash[SHA256_BYTES];
    uint8_t key[SIGN_PUB_BYTES];
    ahe_seed seed;
    size_t known; /* index + 1 of the early entry that it is; 0: none */
    uint8_t reason;
    bool open; /* signature and seal are still to be checked */
} look;

struct csp_gather {
    uint64_t round; /* 0: none */
    seal_key *key;
    ahe_dec *dec;
    uint32_t in_sum; /* pads */
    client_table table;
    early *e;
    ahe_seed *seed; /* locked */
    size_t room;    /* of e and seed */
    look *looks;    /* BATCH of them, locked */
    ahe_seed *batch;
    bool decided;
    csp_set set;
};

void gather_drop(csp *c)
{
    csp_gather *g = c->gather;
    if (!g)
        return;
    c->gather = NULL;
    seal_key_free(g->key);
    ahe_dec_free(&c->c.task->ahe, g->dec);
    sefl_free(g->e);
    secmem_free(g->seed);
    client_table_clear(&g->table);
    secmem_free(g->looks);
    secmem_free(g->batch);
    csp_set_clear(&g->set);
    sefl_free(g);
}

const csp_set *gather_verdict(const csp *c, uint64_t round)
{
    const csp_gather *g = c->gather;
    return g && g->decided && g->round == round && g->dec ? &g->set : NULL;
}

ahe_dec *gather_dec(const csp *c)
{
    return c->gather->dec;
}

sefl_status csp_key_done(csp *c, uint64_t round)
{
    if (!task_is_sealed(c->c.task))
        return SEFL_OK;
    if (c->gather && c->gather->round == round) {
        seal_key_free(c->gather->key);
        c->gather->key = NULL;
    }
    return csp_store_key_wipe(c->c.store, round);
}

/* ---- heads from EARLY ------------------------------------------------------------------------ */

/* Returns the index + 1 of this upload's entry; 0: it did not come with EARLY. */
static size_t find_early(const csp_gather *g, const head *h)
{
    size_t at = client_table_find(&g->table, h->client);
    return at > 0 && memcmp(g->table.leaf[at - 1].body, h->units, 32) == 0 ? at : 0;
}

/* Gives entries and seeds as much room as the table. */
static sefl_status grow(csp_gather *g)
{
    sefl_status st = SEFL_OK;
    size_t room = g->table.room;
    ahe_seed *seed = NULL;
    if (g->room >= room)
        return SEFL_OK;
    SEFL_TRY(secmem_new(&seed, room * sizeof *seed, NULL));
    SEFL_TRY(sefl_grow(&g->e, g->room * sizeof *g->e, room * sizeof *g->e));
    memset(g->e + g->room, 0, (room - g->room) * sizeof *g->e);
    if (g->room > 0)
        memcpy(seed, g->seed, g->room * sizeof *seed);
    secmem_free(g->seed);
    g->seed = seed, seed = NULL;
    g->room = room;
done:
    secmem_free(seed);
    return st;
}

static sefl_status add_pads(csp *c, const ahe_seed *seeds, size_t n)
{
    if (n > 0)
        SEFL_PASS(ahe_dec_add(&c->c.task->ahe, c->gather->dec, seeds, n, c->c.pool));
    c->gather->in_sum += (uint32_t)n;
    return SEFL_OK;
}

static sefl_status take_pad(csp *c, const ahe_seed *seed)
{
    SEFL_PASS(ahe_dec_take(&c->c.task->ahe, c->gather->dec, seed, 1, c->c.pool));
    c->gather->in_sum--;
    return SEFL_OK;
}

/* Removes the pads that no kept head uses. */
static sefl_status take_unused(csp *c)
{
    csp_gather *g = c->gather;
    for (size_t i = 0; i < g->table.n; i++)
        if (g->e[i].on && !g->e[i].in_set) {
            SEFL_PASS(take_pad(c, &g->seed[i]));
            g->e[i].on = false;
        }
    return SEFL_OK;
}

/* Makes room for n more pads: removing the unused ones is always enough. */
static sefl_status make_room(csp *c, size_t n)
{
    return n > c->c.task->ahe.pack.clients - c->gather->in_sum ? take_unused(c) : SEFL_OK;
}

/* Prepares the gatherer of this round; a new round drops the previous one. SEFL_ENOTFOUND: the
 * round key is gone. */
static sefl_status gather_for(csp *c, uint64_t round)
{
    sefl_status st = SEFL_OK;
    const task *t = c->c.task;
    csp_gather *g = c->gather;
    uint8_t context[AHE_CONTEXT_BYTES];
    if (g && g->round == round && g->key)
        return SEFL_OK;
    gather_drop(c);
    SEFL_TRY(sefl_new(&c->gather, 1, sizeof *c->gather));
    g = c->gather;
    g->round = round;
    SEFL_TRY(csp_key_load(c, &g->key, round));
    SEFL_TRY(secmem_new(&g->looks, BATCH * sizeof *g->looks, NULL));
    SEFL_TRY(secmem_new(&g->batch, BATCH * sizeof *g->batch, NULL));
    task_context(context, t, round);
    SEFL_TRY(ahe_dec_new(&g->dec, &t->ahe, NULL, context));
done:
    if (st != SEFL_OK)
        gather_drop(c);
    return st;
}

/* ---- checking -------------------------------------------------------------------------------- */

/* Step one: the member list and the store. */
static sefl_status look_first(csp *c, look *l)
{
    const csp_store *s = c->c.store;
    uint64_t serial;
    if (!c->c.member(c->c.enrol_ctx, l->h.client)) {
        l->reason = HEAD_MEMBER;
        return SEFL_OK;
    }
    if (l->known)
        return SEFL_OK;
    sefl_status st = s->voucher_get(s->ctx, l->h.client, &serial, l->key);
    if (st == SEFL_ENOTFOUND) {
        l->reason = HEAD_VOUCHER;
        return SEFL_OK;
    }
    l->open = st == SEFL_OK;
    return st;
}

typedef struct open_job {
    const csp *c;
    look *l;
    bool judged; /* AGAIN: the signature was verified for the stored verdict */
} open_job;

/* Step two, on any thread. */
static sefl_status look_closely(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const open_job *job = ctx;
    const task *t = job->c->c.task;
    const csp_gather *g = job->c->gather;
    uint8_t context[AHE_CONTEXT_BYTES];
    (void)lane;
    for (size_t i = begin; i < end; i++) {
        look *l = &job->l[i];
        sefl_status st = SEFL_OK;
        if (!l->open)
            continue;
        if (!job->judged && (st = head_check(&l->h, t->id, g->round, l->key)) == SEFL_EAUTH)
            l->reason = HEAD_SIGNATURE;
        if (st == SEFL_OK &&
            (st = head_open(l->seed.seed, &l->h, g->key, t->id, g->round)) == SEFL_EAUTH)
            l->reason = HEAD_SEAL;
        if (st == SEFL_EAUTH)
            continue;
        if (st != SEFL_OK)
            return st;
        task_upload_context(context, t, g->round, l->h.client);
        l->seed.stream = ahe_seed_stream(context);
    }
    return SEFL_OK;
}

static sefl_status open_looks(csp *c, size_t n, bool judged)
{
    open_job job = { .c = c, .l = c->gather->looks, .judged = judged };
    return pool_run(c->c.pool, n, 4, look_closely, &job, NULL);
}

static void tell_refused(csp *c, const look *l)
{
    log_warn(c->c.log, "head refused", lf_u64("round", c->gather->round),
             lf_hash("client", l->h.client), lf_str("why", head_reason_text(l->reason)));
}

/* ---- EARLY ----------------------------------------------------------------------------------- */

/* Puts a valid head into the table; add_early adds its pad. A client's later head replaces its
 * earlier one. */
static sefl_status keep_early(csp *c, const look *l)
{
    csp_gather *g = c->gather;
    size_t i, before = client_table_find(&g->table, l->h.client);
    if (find_early(g, &l->h))
        return SEFL_OK; /* the table has it */
    SEFL_NEED(before || g->table.n < c->c.task->clients_max, SEFL_ERANGE,
              "more heads than the task has room for");
    if (before && g->e[before - 1].on) {
        g->e[before - 1].on = false;
        SEFL_PASS(take_pad(c, &g->seed[before - 1]));
    }
    SEFL_PASS(client_table_put(&g->table, l->h.client, l->h.units, &i));
    SEFL_PASS(grow(g));
    g->e[i] = (early){ 0 };
    memcpy(g->e[i].hash, l->hash, sizeof l->hash);
    g->seed[i] = l->seed;
    return SEFL_OK;
}

/* Adds the pads of all entries that are not in the sum yet. */
static sefl_status add_early(csp *c)
{
    csp_gather *g = c->gather;
    size_t n = 0;
    for (size_t i = 0; i < g->table.n; i++)
        if (!g->e[i].on) {
            g->batch[n++] = g->seed[i];
            g->e[i].on = true;
            if (n == BATCH) {
                SEFL_PASS(add_pads(c, g->batch, n));
                n = 0;
            }
        }
    return add_pads(c, g->batch, n);
}

static sefl_status early_batch(csp *c, rd *r, uint32_t first, size_t n, sefl_buf *refused)
{
    sefl_status st = SEFL_OK;
    csp_gather *g = c->gather;
    const seal_suite *suite = c->c.task->seal;
    for (size_t i = 0; i < n; i++) {
        look *l = &g->looks[i];
        sefl_span bytes;
        *l = (look){ 0 };
        SEFL_TRY(rd_view(r, &bytes, head_bytes(suite)));
        sha256_of(l->hash, bytes);
        if (head_read(&l->h, suite, bytes) != SEFL_OK)
            l->reason = HEAD_FORM;
        else
            SEFL_TRY(look_first(c, l));
    }
    SEFL_TRY(open_looks(c, n, false));
    for (size_t i = 0; i < n; i++) {
        look *l = &g->looks[i];
        if (l->reason == HEAD_KEPT) {
            SEFL_TRY(keep_early(c, l));
        } else {
            tell_refused(c, l);
            SEFL_TRY(link_refusals_write(
                refused, &(head_refusal){ .index = first + (uint32_t)i, .reason = l->reason }, 1));
        }
    }
done:
    sefl_wipe(g->looks, BATCH * sizeof *g->looks);
    return st;
}

sefl_status csp_on_early(csp *c, rd *r)
{
    csp_round now;
    uint64_t round;
    if (!task_is_sealed(c->c.task))
        return csp_no(c, LINK_NO_ORDER, "the uploads of this task have no heads");
    size_t one = head_bytes(c->c.task->seal);
    SEFL_PASS(rd_u64(r, &round));
    SEFL_NEED(r->left > 0 && r->left % one == 0 && r->left <= LINK_HEADS_PIECE, SEFL_EPROTO,
              "link: EARLY with %zu bytes of heads of %zu", r->left, one);
    SEFL_PASS(csp_must_have(c, round, &now));
    if (now.state == CSP_REVEALED)
        return csp_no(c, LINK_NO_REVEALED, "this round is already revealed");
    if (c->gather && c->gather->round == round && c->gather->decided)
        return csp_no(c, LINK_NO_ORDER, "the set of this round is already fixed");
    sefl_status st = gather_for(c, round);
    if (st == SEFL_ENOTFOUND)
        return csp_no(c, LINK_NO_KEY, NULL);
    SEFL_PASS(csp_own(c, st));
    sefl_buf *refused = csp_reply(c, LINK_EARLY);
    size_t count = r->left / one;
    for (size_t i = 0; i < count && st == SEFL_OK; i += BATCH)
        st = early_batch(c, r, (uint32_t)i, count - i < BATCH ? count - i : BATCH, refused);
    if (st == SEFL_OK)
        st = add_early(c);
    if (st != SEFL_OK)
        gather_drop(c); /* some of these pads may be in the sum */
    return csp_own(c, st);
}

/* ---- SET ------------------------------------------------------------------------------------- */

typedef enum set_mode { SET_FRESH, SET_AGAIN, SET_SAME, SET_DRAIN } set_mode;

struct csp_reading {
    csp *c;
    uint64_t round;
    uint32_t clients;
    uint8_t tree_seed[COUNTED_SEED];
    set_mode mode;
    sha256 digest;
    uint32_t seen;                /* heads so far */
    uint8_t last[32];             /* client of the head before */
    csp_set set;                  /* FRESH: being made; AGAIN, SAME: the store's */
    uint32_t kept_at, refused_at; /* AGAIN: heads compared so far */
    bool differs;                 /* AGAIN, SAME: this is another set */
    bool replied;                 /* AS has acknowledged an output of this round */
    uint32_t pieces;              /* HEADS so far */
    csp_round now;
    link_no no; /* DRAIN: the answer, and why; NULL: the code's text */
    const char *why;
};

void csp_reading_drop(csp *c)
{
    csp_reading *s = c->reading;
    if (!s)
        return;
    c->reading = NULL;
    csp_set_clear(&s->set);
    sefl_wipe(s->tree_seed, sizeof s->tree_seed);
    sefl_free(s);
}

/* The next head, whole or short; its bytes stay where they are. */
static sefl_status next_head(csp_reading *s, rd *r, look *l)
{
    csp *c = s->c;
    const seal_suite *suite = c->c.task->seal;
    const csp_gather *g = c->gather;
    sefl_span bytes;
    *l = (look){ 0 };
    SEFL_NEED(r->left >= HEAD_PREFIX, SEFL_EPROTO, "link: a head is truncated");
    bool shortened = r->p[4] == 0 && r->p[5] == 0;
    SEFL_PASS(rd_view(r, &bytes, shortened ? HEAD_PREFIX : head_bytes(suite)));
    SEFL_NEED(s->seen == 0 || memcmp(bytes.p + 8, s->last, 32) >= 0, SEFL_EPROTO,
              "link: heads are not sorted by client");
    bool twice = s->seen > 0 && memcmp(bytes.p + 8, s->last, 32) == 0;
    memcpy(s->last, bytes.p + 8, 32);
    sha256_of(l->hash, bytes);
    rd one = rd_over(bytes);
    if (head_next(&l->h, suite, &one) != SEFL_OK) {
        l->reason = HEAD_FORM;
        memcpy(l->h.client, bytes.p + 8, 32);
    } else if (g && g->round == s->round) {
        size_t at = find_early(g, &l->h);
        if (at > 0 && (shortened || memcmp(g->e[at - 1].hash, l->hash, sizeof l->hash) == 0)) {
            l->known = at;
            memcpy(l->hash, g->e[at - 1].hash, sizeof l->hash);
        }
    }
    if (l->reason == HEAD_KEPT && shortened && !l->known)
        l->reason = HEAD_FORM; /* it did not come with EARLY */
    if (twice)
        l->reason = HEAD_TWICE;
    sha256_add(&s->digest, span_of(l->hash, sizeof l->hash));
    s->seen++;
    return SEFL_OK;
}

/* Judges rounds.max_per_client and rounds.separation by CSP's own store. */
static sefl_status look_limit(csp *c, uint64_t round, look *l)
{
    const csp_store *s = c->c.store;
    const task *t = c->c.task;
    uint64_t rounds, last;
    const uint64_t most = t->max_rounds_per_client;
    if ((most == 0 && t->separation <= 1) || l->reason != HEAD_KEPT)
        return SEFL_OK;
    SEFL_PASS(s->taken(s->ctx, l->h.client, &rounds, &last));
    if ((most > 0 && rounds >= most) || task_is_soon(t, last, round))
        l->reason = HEAD_LIMIT, l->open = false;
    return SEFL_OK;
}

/* Adds the pads of kept heads that are not in the sum: they did not come with EARLY, or were
 * removed. */
static sefl_status sum_up(csp *c, size_t n)
{
    sefl_status st = SEFL_OK;
    csp_gather *g = c->gather;
    size_t more = 0;
    for (size_t i = 0; i < n; i++) /* before room is made */
        if (g->looks[i].reason == HEAD_KEPT && g->looks[i].known)
            g->e[g->looks[i].known - 1].in_set = true;
    SEFL_TRY(make_room(c, n));
    for (size_t i = 0; i < n; i++) {
        const look *l = &g->looks[i];
        if (l->reason != HEAD_KEPT || (l->known && g->e[l->known - 1].on))
            continue;
        g->batch[more++] = l->known ? g->seed[l->known - 1] : l->seed;
        if (l->known)
            g->e[l->known - 1].on = true;
    }
    SEFL_TRY(add_pads(c, g->batch, more));
done:
    sefl_wipe(g->batch, BATCH * sizeof *g->batch);
    return st;
}

static sefl_status fresh_batch(csp_reading *s, size_t n)
{
    csp *c = s->c;
    csp_gather *g = c->gather;
    for (size_t i = 0; i < n; i++)
        if (g->looks[i].reason == HEAD_KEPT) {
            SEFL_PASS(look_first(c, &g->looks[i]));
            SEFL_PASS(look_limit(c, s->round, &g->looks[i]));
        }
    SEFL_PASS(open_looks(c, n, false));
    for (size_t i = 0; i < n; i++) {
        const look *l = &g->looks[i];
        uint32_t index = s->seen - (uint32_t)(n - i);
        if (l->reason == HEAD_KEPT) {
            round_entry *leaf = &s->set.kept[s->set.kept_n++];
            memcpy(leaf->client, l->h.client, 32);
            memcpy(leaf->body, l->h.units, 32);
        } else {
            s->set.refused[s->set.refused_n++] =
                (head_refusal){ .index = index, .reason = l->reason };
            tell_refused(c, l);
        }
    }
    return sum_up(c, n);
}

/* The store has the kept heads: the heads must be the same, and their seals must open. */
static sefl_status again_batch(csp_reading *s, size_t n)
{
    csp *c = s->c;
    csp_gather *g = c->gather;
    const csp_set *set = &s->set;
    for (size_t i = 0; i < n; i++) {
        look *l = &g->looks[i];
        uint32_t index = s->seen - (uint32_t)(n - i);
        if (s->refused_at < set->refused_n && set->refused[s->refused_at].index == index) {
            l->reason = set->refused[s->refused_at++].reason;
            continue;
        }
        const round_entry *leaf = s->kept_at < set->kept_n ? &set->kept[s->kept_at++] : NULL;
        if (l->reason != HEAD_KEPT || !leaf || memcmp(leaf->client, l->h.client, 32) != 0 ||
            memcmp(leaf->body, l->h.units, 32) != 0) {
            s->differs = true;
            l->reason = HEAD_FORM;
        }
        l->open = l->reason == HEAD_KEPT && !l->known;
    }
    SEFL_PASS(open_looks(c, n, true));
    for (size_t i = 0; i < n; i++)
        s->differs |= g->looks[i].open && g->looks[i].reason != HEAD_KEPT;
    if (!s->differs)
        SEFL_PASS(sum_up(c, n));
    return SEFL_OK;
}

static sefl_status set_piece(csp_reading *s, rd *r)
{
    look spare, *looks = s->c->gather ? s->c->gather->looks : NULL;
    bool only_read = s->mode == SET_SAME || s->mode == SET_DRAIN || s->differs;
    assert(only_read || looks); /* gather_for made them */
    while (r->left > 0) {
        size_t n = 0;
        while (r->left > 0 && n < BATCH) {
            SEFL_NEED(s->seen < s->clients, SEFL_EPROTO, "link: more heads than SET announced");
            SEFL_PASS(next_head(s, r, only_read ? &spare : &looks[n]));
            n++;
        }
        if (only_read)
            continue;
        sefl_status st = s->mode == SET_FRESH ? fresh_batch(s, n) : again_batch(s, n);
        sefl_wipe(looks, BATCH * sizeof *looks);
        SEFL_PASS(st);
        only_read = s->differs;
    }
    return SEFL_OK;
}

static sefl_status reply_verdict(csp *c, const csp_set *s)
{
    sefl_buf *out = csp_reply(c, LINK_VERDICT);
    SEFL_PASS(wr_raw(out, s->root, sizeof s->root));
    SEFL_PASS(wr_u32(out, s->kept_n));
    SEFL_PASS(wr_u32(out, s->refused_n));
    return link_refusals_write(out, s->refused, s->refused_n);
}

/* FRESH: computes the root and makes the set durable. */
static sefl_status decide(csp_reading *s)
{
    csp *c = s->c;
    const task *t = c->c.task;
    csp_set *set = &s->set;
    SEFL_PASS(take_unused(c));
    SEFL_PASS(counted_root(set->root, &(counted_facts){ .task = t->id,
                                                        .round = s->round,
                                                        .tree_seed = s->tree_seed,
                                                        .clients_max = t->clients_max,
                                                        .leaves = set->kept,
                                                        .n = set->kept_n }));
    SEFL_PASS(csp_store_set_put(c->c.store, s->round, set));
    log_info(c->c.log, "set decided", lf_u64("round", s->round), lf_u64("kept", set->kept_n),
             lf_u64("refused", set->refused_n));
    if ((uint64_t)set->refused_n * REFUSED_ERROR > set->clients)
        log_error(c->c.log, "many heads refused", lf_u64("round", s->round),
                  lf_u64("refused", set->refused_n), lf_u64("clients", set->clients),
                  lf_str("remedy", "compare the client lists of both servers; an aggregator that "
                                   "spoils heads excludes clients"));
    return SEFL_OK;
}

static sefl_status drain(csp_reading *s, link_no no, const char *why)
{
    s->mode = SET_DRAIN;
    s->no = no, s->why = why;
    return SEFL_OK;
}

/* Chooses the mode of this SET. */
static sefl_status choose_mode(csp_reading *s)
{
    csp *c = s->c;
    const csp_store *store = c->c.store;
    const task *t = c->c.task;
    SEFL_PASS(csp_store_get(store, s->round, &s->now));
    if (s->now.state == CSP_NEW)
        return drain(s, LINK_NO_HEADER, CSP_NEVER_SIGNED);
    if (s->now.state == CSP_SKIPPED)
        return drain(s, LINK_NO_SKIPPED, csp_skip_text(s->now.skip));
    if (s->now.state == CSP_SIGNED && s->replied)
        return drain(s, LINK_NO_SKIPPED, csp_skip_text(CSP_SKIP_OLD_STATE));
    sefl_status st = csp_store_set_get(store, s->round, &s->set);
    bool known = st == SEFL_OK;
    const bool damaged = st == SEFL_EPROTO && s->now.state == CSP_REVEALED; /* for good */
    if (st != SEFL_OK && st != SEFL_ENOTFOUND && !damaged)
        return st;
    if (known && s->set.clients != s->clients)
        return drain(s, LINK_NO_ORDER, OTHER_SET);
    if (s->now.state == CSP_REVEALED && !known)
        return drain(s, LINK_NO_REVEALED, NULL);
    const bool few = s->clients < t->threshold || s->clients > t->clients_max;
    if (s->now.state != CSP_REVEALED && few)
        return drain(s, LINK_NO_FEW, NULL);
    if (s->now.state == CSP_REVEALED)
        s->mode = SET_SAME;
    else if (known && c->gather && c->gather->round == s->round && c->gather->decided)
        s->mode = SET_SAME;
    else
        s->mode = known ? SET_AGAIN : SET_FRESH;
    return SEFL_OK;
}

/* Prepares memory and pads for a SET that CSP checks, or sums up again. */
static sefl_status get_ready(csp_reading *s)
{
    csp *c = s->c;
    if (s->mode != SET_FRESH && s->mode != SET_AGAIN)
        return SEFL_OK;
    sefl_status st = gather_for(c, s->round);
    if (st == SEFL_ENOTFOUND)
        return drain(s, LINK_NO_KEY, NULL);
    SEFL_PASS(st);
    for (size_t i = 0; i < c->gather->table.n; i++)
        c->gather->e[i].in_set = false;
    if (s->mode == SET_FRESH) {
        s->set.clients = s->clients;
        SEFL_PASS(sefl_new(&s->set.kept, s->clients, sizeof *s->set.kept));
        SEFL_PASS(sefl_new(&s->set.refused, s->clients, sizeof *s->set.refused));
    }
    return st;
}

sefl_status csp_on_set(csp *c, rd *r)
{
    static const uint8_t none[SHA256_BYTES];
    csp_reading *s;
    uint8_t number[8], replied[SHA256_BYTES];
    SEFL_NEED(task_is_sealed(c->c.task), SEFL_EPROTO,
              "link: SET in a task whose uploads have no heads");
    SEFL_PASS(sefl_new(&c->reading, 1, sizeof *c->reading));
    s = c->reading;
    s->c = c;
    SEFL_PASS(rd_u64(r, &s->round));
    SEFL_PASS(rd_u32(r, &s->clients));
    SEFL_PASS(rd_raw(r, s->tree_seed, sizeof s->tree_seed));
    SEFL_PASS(rd_raw(r, replied, sizeof replied));
    SEFL_PASS(rd_end(r));
    s->replied = memcmp(replied, none, sizeof none) != 0;
    SEFL_NEED(s->clients >= 1 && s->clients <= LINK_SET_MAX, SEFL_EPROTO,
              "link: a SET of %u clients", s->clients);
    SEFL_PASS(csp_own(c, choose_mode(s)));
    SEFL_PASS(csp_own(c, get_ready(s)));
    sha256_init(&s->digest);
    sha256_add(&s->digest, span_of_str("sefl csp set 1"));
    store_u64(number, s->round);
    sha256_add(&s->digest, span_of(number, 8));
    store_u32(number, s->clients);
    sha256_add(&s->digest, span_of(number, 4));
    sha256_add(&s->digest, span_of(s->tree_seed, sizeof s->tree_seed));
    c->phase = CSP_HEADS;
    return SEFL_OK;
}

/* Below the threshold: skips the round and wipes its key; nothing is charged. */
static sefl_status too_few(csp_reading *s)
{
    csp *c = s->c;
    SEFL_PASS(csp_own(c, csp_skip(c, s->round, CSP_SKIP_FEW)));
    SEFL_PASS(csp_own(c, csp_round_over(c, s->round)));
    log_info(c->c.log, "round skipped", lf_u64("round", s->round),
             lf_str("why", csp_skip_text(CSP_SKIP_FEW)));
    return csp_no(c, LINK_NO_FEW, NULL);
}

/* An output of this round may have left, and the store does not have it: revealing the round again
 * would be a second release. */
static sefl_status old_copy(csp_reading *s)
{
    csp *c = s->c;
    SEFL_PASS(csp_own(c, csp_skip(c, s->round, CSP_SKIP_OLD_STATE)));
    SEFL_PASS(csp_own(c, csp_round_over(c, s->round)));
    csp_log_old_state(c, s->round);
    return csp_no(c, LINK_NO_SKIPPED, csp_skip_text(CSP_SKIP_OLD_STATE));
}

/* Answers a SET after its last head. */
static sefl_status answer_set(csp_reading *s)
{
    csp *c = s->c;
    csp_gather *g = c->gather;
    uint8_t digest[SHA256_BYTES];
    sha256_end(&s->digest, digest);
    if (s->mode == SET_DRAIN && s->no == LINK_NO_FEW && s->clients < c->c.task->threshold)
        return too_few(s);
    if (s->mode == SET_DRAIN && s->now.state == CSP_SIGNED && s->replied)
        return old_copy(s);
    if (s->mode == SET_DRAIN)
        return csp_no(c, s->no, s->why);
    if (s->mode != SET_FRESH && (s->differs || memcmp(digest, s->set.digest, sizeof digest) != 0)) {
        if (s->mode == SET_AGAIN)
            gather_drop(c); /* its sum may contain wrong pads */
        return csp_no(c, LINK_NO_ORDER, OTHER_SET);
    }
    if (s->mode == SET_SAME)
        return reply_verdict(c, &s->set);
    if (s->mode == SET_FRESH) {
        memcpy(s->set.digest, digest, sizeof digest);
        if (s->set.kept_n < c->c.task->threshold)
            return too_few(s);
        SEFL_PASS(csp_own(c, decide(s)));
    } else {
        SEFL_PASS(csp_own(c, take_unused(c)));
    }
    g->set = s->set, s->set = (csp_set){ 0 };
    g->decided = true;
    return reply_verdict(c, &g->set);
}

/* A piece of a SET. Bytes that break the format are SEFL_EPROTO; any other failure is CSP's own. */
sefl_status csp_on_heads(csp *c, rd *r)
{
    sefl_status st = SEFL_OK;
    csp_reading *s = c->reading;
    SEFL_CHECK(c->index == s->pieces++ && r->left > 0, SEFL_EPROTO,
               "link: HEADS %u of %zu bytes, wanted HEADS %u", c->index, r->left, s->pieces - 1);
    st = set_piece(s, r);
    SEFL_TRY(st == SEFL_EPROTO ? st : csp_own(c, st));
    if (s->seen == s->clients) {
        c->phase = CSP_READY;
        SEFL_TRY(answer_set(s));
        csp_reading_drop(c);
    }
done:
    if (st != SEFL_OK && !c->refused)
        gather_drop(c);
    return st;
}
