/* Design.
 *  1. member[0..given) is the set; [0..summed) is in the sum. Only the worker touches the sum until
 *     collect_close has seen summed == given and set `closed`.
 *  2. `epoch` changes with every begin: a worker that was busy with the sum of another epoch
 *     discards its result (it owns that sum by then).
 *  3. A failed addition spoils the sum: the worker restarts it from 0, at most TRIES times. */
#include "roles/aggregator/collect.h"

#include "base/alloc.h"
#include "base/cond.h"
#include "crypto/update_name.h"
#include "roles/aggregator/readback.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PIECE = 1 << 20, TRIES = 3, BATCH = 4, BEHIND = 2 * BATCH, GATHER_MS = 100, LOOK_MS = 200 };

typedef struct entry {
    round_entry m;
    bool check_hash;
    body_room *body; /* until it is in the sum; NULL: in its file only */
} entry;

/* Finds members by client or by body: slot i has 1 + the index of a member, or 0. */
typedef struct finder {
    uint32_t *at;
    size_t slots; /* a power of two, or 0 */
    size_t key;   /* where the 32 bytes are in a round_entry */
} finder;

struct collect {
    collect_config c;
    pool *pool;
    uint8_t *piece; /* the worker's, for what cannot be mapped */
    size_t piece_bytes;

    pthread_mutex_t lock;
    pthread_cond_t work, progress;
    pthread_t thread;
    bool has_thread, stop;

    uint32_t batch; /* number of bodies in rooms that are worth waiting for */
    uint64_t round, epoch;
    entry *member; /* grows to clients_max */
    uint32_t given, summed;
    size_t room; /* capacity of `member` */
    finder by_client, by_body;
    ahe_sum *sum;
    bool busy, closed;
    bool hurry; /* a thread waits in collect_close */
    unsigned failures;
    sefl_status st; /* after TRIES failures */
    char why[256];
};

/* ---- the members ----------------------------------------------------------------------------- */

static const uint8_t *key_of(const finder *f, const round_entry *m)
{
    return (const uint8_t *)m + f->key;
}

/* Returns the slot of this key, or the empty one where it belongs. */
static size_t slot_of(const collect *c, const finder *f, const uint8_t key[32])
{
    size_t i = load_u64(key) & (f->slots - 1); /* keys are hashes */
    while (f->at[i] != 0 && memcmp(key_of(f, &c->member[f->at[i] - 1].m), key, 32) != 0)
        i = (i + 1) & (f->slots - 1);
    return i;
}

static bool is_there(const collect *c, const finder *f, const uint8_t key[32])
{
    if (f->slots > 0)
        return f->at[slot_of(c, f, key)] != 0;
    for (uint32_t i = 0; i < c->given; i++)
        if (memcmp(key_of(f, &c->member[i].m), key, 32) == 0)
            return true;
    return false;
}

/* Enters all members into a table of at least twice as many slots. */
static sefl_status fill_finder(const collect *c, finder *f, size_t members)
{
    size_t slots = 64;
    while (slots < 4 * members)
        slots *= 2;
    sefl_free(f->at);
    f->at = NULL, f->slots = 0;
    SEFL_PASS(sefl_new(&f->at, slots, sizeof *f->at));
    f->slots = slots;
    for (uint32_t i = 0; i < c->given; i++)
        f->at[slot_of(c, f, key_of(f, &c->member[i].m))] = i + 1;
    return SEFL_OK;
}

/* Makes room for one more member. */
static sefl_status finder_room(const collect *c, finder *f)
{
    return 2 * ((size_t)c->given + 1) > f->slots ? fill_finder(c, f, (size_t)c->given + 1)
                                                 : SEFL_OK;
}

static void clear_finder(finder *f)
{
    sefl_free(f->at);
    f->at = NULL, f->slots = 0;
}

/* ---- one body -------------------------------------------------------------------------------- */

typedef sefl_status units_fn(const ahe_params *p, ahe_sum *sum, size_t first, const uint8_t *bytes,
                             size_t units, pool *threads);

/* Reads a body and adds it to the sum or takes it off (ahe_sum_add_units, ahe_sum_take). */
static sefl_status walk_body(collect *c, ahe_sum *sum, uint64_t round, const entry *e,
                             units_fn *units, pool *threads)
{
    sefl_status st = SEFL_OK;
    const ahe_params *p = c->c.ahe;
    sefl_buf path = { 0 };
    update_name name;
    uint8_t got[BLAKE3_BYTES];
    readback r = { 0 };
    const uint8_t *bytes = c->piece;
    size_t per_piece = c->piece_bytes / p->unit_bytes;
    update_name_init(&name);
    SEFL_TRY(c->c.path(c->c.ctx, &path, round, &e->m));
    /* a file that may have changed since it was written is not mapped */
    SEFL_TRY(
        readback_open(&r, (const char *)path.p, c->c.front + ahe_body_bytes(p), e->check_hash));
    SEFL_TRY(readback_next(&r, &bytes, c->c.front, c->piece));
    update_name_add(&name, span_of(bytes + c->c.front - UPDATE_SALT, UPDATE_SALT));
    if (units == ahe_sum_add_units)
        SEFL_TRY(ahe_sum_begin(p, sum));
    for (size_t u = 0; u < p->units;) {
        size_t n = p->units - u < per_piece ? p->units - u : per_piece;
        SEFL_TRY(readback_next(&r, &bytes, n * p->unit_bytes, c->piece));
        if (e->check_hash)
            update_name_add(&name, span_of(bytes, n * p->unit_bytes));
        SEFL_TRY(units(p, sum, u, bytes, n, threads));
        u += n;
    }
    if (e->check_hash) {
        update_name_end(&name, got);
        SEFL_CHECK(memcmp(got, e->m.body, sizeof got) == 0, SEFL_ECRYPTO,
                   "%s has changed since it was acknowledged", r.path);
    }
done:
    readback_close(&r);
    buf_clear(&path);
    return st;
}

/* ---- the worker ------------------------------------------------------------------------------ */

static void give_rooms(collect *c)
{
    for (uint32_t i = 0; i < c->given; i++) {
        room_give(c->member[i].body);
        c->member[i].body = NULL;
    }
    body_pool_trim(c->c.body_pool);
}

/* Returns how many waiting updates to add next: consecutive ones in rooms, up to BATCH, or one from
 * its file. */
static uint32_t next_batch(const collect *c)
{
    uint32_t n = 0;
    while (n < BATCH && c->summed + n < c->given && c->member[c->summed + n].body)
        n++;
    return n > 0 ? n : 1;
}

static sefl_status add_rooms(const collect *c, ahe_sum *sum, const entry *e, uint32_t n,
                             pool *threads)
{
    const uint8_t *bodies[BATCH];
    for (uint32_t i = 0; i < n; i++)
        bodies[i] = room_bytes(e[i].body) + c->c.front;
    return ahe_sum_add_bodies(c->c.ahe, sum, bodies, n, threads);
}

/* Called and left with the lock held. */
static void add_next(collect *c)
{
    sefl_status st = SEFL_OK;
    uint64_t epoch = c->epoch, round = c->round;
    entry e[BATCH] = { 0 };
    uint32_t n = next_batch(c);
    ahe_sum *sum = c->sum;
    /* a worker that keeps up needs no helpers: waking them costs time that uploads could use */
    pool *threads = c->hurry || c->given - c->summed > BEHIND ? c->pool : NULL;
    for (uint32_t i = 0; i < n; i++) {
        e[i] = c->member[c->summed + i];
        c->member[c->summed + i].body = NULL; /* ours now; if this fails, the file has it */
    }
    c->sum = NULL, c->busy = true;
    pthread_mutex_unlock(&c->lock);
    if (!sum)
        SEFL_TRY(ahe_sum_new(&sum, c->c.ahe, c->c.pub));
    if (e[0].body)
        SEFL_TRY(add_rooms(c, sum, e, n, threads));
    else
        SEFL_TRY(walk_body(c, sum, round, &e[0], ahe_sum_add_units, threads));
done:
    for (uint32_t i = 0; i < n; i++)
        room_give(e[i].body);
    pthread_mutex_lock(&c->lock);
    c->busy = false;
    if (st == SEFL_OK && epoch == c->epoch) {
        c->sum = sum, sum = NULL;
        c->summed += n;
    } else if (epoch == c->epoch) { /* the sum is spoiled: restart from the first body */
        c->summed = 0;
        if (++c->failures >= TRIES) {
            give_rooms(c); /* they will not be added */
            c->st = st;
            snprintf(c->why, sizeof c->why, "%s", sefl_last_error());
        }
        log_warn(c->c.log, "running sum restarted", lf_u64("round", round),
                 lf_str("why", sefl_last_error()));
    }
    ahe_sum_free(c->c.ahe, sum);
    pthread_cond_broadcast(&c->progress);
}

/* Waits a short time for more bodies in rooms: adding several at once is cheaper. */
static void wait_for_more(collect *c)
{
    struct timespec until = cond_after(GATHER_MS);
    uint64_t epoch = c->epoch;
    int rc = 0;
    while (rc == 0 && !c->stop && !c->hurry && epoch == c->epoch &&
           c->given - c->summed < c->batch && c->member[c->given - 1].body)
        rc = pthread_cond_timedwait(&c->work, &c->lock, &until);
}

static void *worker(void *arg)
{
    collect *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        if (c->closed || c->st != SEFL_OK || c->summed == c->given) {
            pthread_cond_wait(&c->work, &c->lock);
            continue;
        }
        wait_for_more(c);
        if (!c->stop && c->summed < c->given) /* the round may have changed */
            add_next(c);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- from outside ---------------------------------------------------------------------------- */

sefl_status collect_new(collect **out, const collect_config *cfg)
{
    SEFL_MAKE(collect, c, out);
    c->c = *cfg;
    c->by_client.key = offsetof(round_entry, client);
    c->by_body.key = offsetof(round_entry, body);
    size_t most = cfg->body_pool ? body_pool_most(cfg->body_pool) : 0;
    c->batch = most < BATCH ? (uint32_t)most : BATCH;
    pthread_mutex_init(&c->lock, NULL);
    cond_init(&c->work);
    cond_init(&c->progress);
    c->piece_bytes = PIECE;
    if (c->piece_bytes < cfg->ahe->unit_bytes)
        c->piece_bytes = cfg->ahe->unit_bytes;
    if (c->piece_bytes < cfg->front)
        c->piece_bytes = cfg->front;
    SEFL_TRY(sefl_new(&c->piece, 1, c->piece_bytes));
    SEFL_TRY(pool_new(&c->pool, cfg->threads));
    SEFL_TRY(thread_start(&c->thread, worker, c));
    c->has_thread = true;
    SEFL_HAND_OVER(out, c, collect_free);
}

void collect_free(collect *c)
{
    if (!c)
        return;
    if (c->has_thread) {
        pthread_mutex_lock(&c->lock);
        c->stop = true;
        c->epoch++;
        pthread_cond_broadcast(&c->work);
        pthread_mutex_unlock(&c->lock);
        pthread_join(c->thread, NULL);
    }
    give_rooms(c);
    ahe_sum_free(c->c.ahe, c->sum);
    pool_free(c->pool);
    sefl_free(c->piece);
    sefl_free(c->member);
    clear_finder(&c->by_client);
    clear_finder(&c->by_body);
    pthread_cond_destroy(&c->work);
    pthread_cond_destroy(&c->progress);
    pthread_mutex_destroy(&c->lock);
    sefl_free(c);
}

void collect_begin(collect *c, uint64_t round)
{
    pthread_mutex_lock(&c->lock);
    c->epoch++;
    c->round = round;
    give_rooms(c);
    c->given = c->summed = 0;
    clear_finder(&c->by_client);
    clear_finder(&c->by_body);
    ahe_sum_free(c->c.ahe, c->sum); /* NULL while the worker has it: then the worker frees it */
    c->sum = NULL;
    c->closed = false;
    c->failures = 0;
    c->st = SEFL_OK;
    pthread_cond_broadcast(&c->progress);
    pthread_mutex_unlock(&c->lock);
}

uint64_t collect_round(collect *c)
{
    pthread_mutex_lock(&c->lock);
    uint64_t round = c->round;
    pthread_mutex_unlock(&c->lock);
    return round;
}

sefl_status collect_add(collect *c, uint64_t round, const round_entry *m, bool check_hash,
                        body_room *body)
{
    sefl_status st = SEFL_OK;
    pthread_mutex_lock(&c->lock);
    SEFL_CHECK(round != 0 && round == c->round && !c->closed, SEFL_ESTATE,
               "the sum of round %llu is not open", (unsigned long long)round);
    SEFL_CHECK(c->given < c->c.clients_max, SEFL_ERANGE,
               "the sum already has %u clients, the maximum", c->given);
    SEFL_CHECK(!is_there(c, &c->by_client, m->client), SEFL_EEXIST,
               "this client is already in the sum");
    SEFL_TRY(sefl_room(&c->member, &c->room, c->given + 1, sizeof *c->member));
    SEFL_TRY(finder_room(c, &c->by_client));
    SEFL_TRY(finder_room(c, &c->by_body));
    c->by_client.at[slot_of(c, &c->by_client, m->client)] = c->given + 1;
    c->by_body.at[slot_of(c, &c->by_body, m->body)] = c->given + 1;
    c->member[c->given++] = (entry){ .m = *m, .check_hash = check_hash };
    if (c->st == SEFL_OK)
        c->member[c->given - 1].body = body, body = NULL;
    pthread_cond_signal(&c->work);
done:
    pthread_mutex_unlock(&c->lock);
    room_give(body);
    return st;
}

bool collect_has_body(collect *c, const round_entry *m)
{
    pthread_mutex_lock(&c->lock);
    bool found = is_there(c, &c->by_body, m->body);
    pthread_mutex_unlock(&c->lock);
    return found;
}

void collect_counts(collect *c, uint32_t *given, uint32_t *summed)
{
    pthread_mutex_lock(&c->lock);
    *given = c->given;
    *summed = c->summed;
    pthread_mutex_unlock(&c->lock);
}

/* With the lock: waits until the worker has added every queued update. */
static sefl_status wait_for_sum(collect *c, uint64_t round, const sefl_progress *stop)
{
    sefl_status st = SEFL_OK;
    SEFL_CHECK(round != 0 && round == c->round && c->given > 0, SEFL_ESTATE,
               "no updates of round %llu", (unsigned long long)round);
    c->hurry = true;
    if (c->st == SEFL_EIO) /* the disk may answer now */
        c->st = SEFL_OK, c->failures = 0;
    pthread_cond_signal(&c->work);
    while (!c->closed && c->st == SEFL_OK && (c->busy || c->summed < c->given)) {
        SEFL_CHECK(progress_report(stop, c->summed, c->given), SEFL_ECANCELLED,
                   "stopped on request");
        cond_wait_ms(&c->progress, &c->lock, LOOK_MS);
        SEFL_CHECK(round == c->round, SEFL_ESTATE, "round %llu was given up",
                   (unsigned long long)round);
    }
    SEFL_CHECK(c->st == SEFL_OK, c->st, "%s", c->why);
done:
    c->hurry = false;
    return st;
}

sefl_status collect_close(collect *c, uint64_t round, ahe_sum **sum, const sefl_progress *stop)
{
    sefl_status st = SEFL_OK;
    *sum = NULL;
    pthread_mutex_lock(&c->lock);
    SEFL_TRY(wait_for_sum(c, round, stop));
    if (!c->closed) {
        SEFL_TRY(ahe_sum_close(c->c.ahe, c->sum));
        c->closed = true;
        body_pool_trim(c->c.body_pool);
    }
    *sum = c->sum;
done:
    pthread_mutex_unlock(&c->lock);
    return st;
}

sefl_status collect_partial(collect *c, uint64_t round, uint8_t *out, const sefl_progress *stop)
{
    sefl_status st = SEFL_OK;
    pthread_mutex_lock(&c->lock);
    SEFL_TRY(wait_for_sum(c, round, stop));
    SEFL_CHECK(!c->closed, SEFL_ESTATE, "the sum of round %llu is closed",
               (unsigned long long)round);
    c->closed = true; /* a failure spoils the sum */
    SEFL_TRY(ahe_sum_write_partial(c->c.ahe, c->sum, out, c->pool));
    body_pool_trim(c->c.body_pool);
done:
    pthread_mutex_unlock(&c->lock);
    return st;
}

sefl_status collect_subtract(collect *c, ahe_sum *sum, uint64_t round, const round_entry *m)
{
    const entry e = { .m = *m, .check_hash = true };
    return walk_body(c, sum, round, &e, ahe_sum_take, c->pool);
}

bool collect_entry(collect *c, uint64_t round, uint32_t i, round_entry *out)
{
    pthread_mutex_lock(&c->lock);
    bool there = round == c->round && i < c->given;
    if (there)
        *out = c->member[i].m;
    pthread_mutex_unlock(&c->lock);
    return there;
}

sefl_status collect_take(collect *c, uint64_t round, const uint8_t client[32],
                         const sefl_progress *stop)
{
    sefl_status st = SEFL_OK, took;
    uint32_t i = 0;
    pthread_mutex_lock(&c->lock);
    SEFL_TRY(wait_for_sum(c, round, stop));
    while (i < c->given && memcmp(c->member[i].m.client, client, 32) != 0)
        i++;
    SEFL_CHECK(i < c->given, SEFL_ENOTFOUND, "this client is not in the sum");
    SEFL_CHECK(!c->closed, SEFL_ESTATE, "the sum of round %llu is closed",
               (unsigned long long)round);
    /* the worker sleeps while summed == given, and a closed round gets no more updates */
    took = walk_body(c, c->sum, round, &c->member[i], ahe_sum_take, c->pool);
    memmove(&c->member[i], &c->member[i + 1], (c->given - i - 1) * sizeof *c->member);
    c->given--;
    clear_finder(&c->by_client); /* the next collect_add fills them again */
    clear_finder(&c->by_body);
    if (took == SEFL_OK) {
        c->summed--;
    } else { /* the body may be partly taken off */
        log_warn(c->c.log, "running sum restarted", lf_u64("round", round),
                 lf_str("why", sefl_last_error()));
        ahe_sum_free(c->c.ahe, c->sum);
        c->sum = NULL;
        c->summed = 0;
        pthread_cond_signal(&c->work);
    }
done:
    pthread_mutex_unlock(&c->lock);
    return st;
}
