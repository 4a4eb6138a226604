/* A heap orders events by time and then by creation, so that every run is the same. A client has at
 * most one pending event; `turn` marks older ones as stale (the client has died since). */
#include "simulate/population.h"

#include "base/alloc.h"
#include "protocol/participant.h"
#include "simulate/named_coins.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum happening { WAKE, TRAINED, ARRIVED, DIED } happening;

typedef struct event {
    uint64_t at, order;
    uint32_t client, turn;
    happening what;
} event;

typedef struct person {
    participant *m; /* NULL: dead, until the next round */
    seeded jitter;
    uint32_t turn;
    bool waiting; /* for the next round */
    bool slow;
    bool dies;
    bool chosen;      /* network.exact: fails in this round */
    bool busy;        /* working on the open round */
    uint64_t busy_ms; /* time that it needs for this round */
    double dies_at;   /* time of death, as a share of busy_ms */
} person;

struct population {
    const federation *s;
    agg *a;
    person *p;
    uint64_t *taken;
    event *heap;
    size_t events, room;
    uint64_t made;
    uint64_t round, left_until; /* open round, 0: none; its deadline */
    sefl_span header;           /* checked once for all clients */
    population_member *set;
    uint32_t in_set;
    population_counts counts;
    char *fates;
};

void population_who(char out[POPULATION_WHO_MAX], uint32_t client)
{
    snprintf(out, POPULATION_WHO_MAX, "client-%05" PRIu32, client + 1);
}

/* ---- the heap -------------------------------------------------------------------------------- */

static bool before(const event *a, const event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static sefl_status push(population *c, uint32_t client, happening what, uint64_t at)
{
    SEFL_PASS(sefl_room(&c->heap, &c->room, c->events + 1, sizeof *c->heap));
    event e = { at, c->made++, client, c->p[client].turn, what };
    size_t i = c->events++;
    for (; i > 0 && before(&e, &c->heap[(i - 1) / 2]); i = (i - 1) / 2)
        c->heap[i] = c->heap[(i - 1) / 2];
    c->heap[i] = e;
    return SEFL_OK;
}

static event pop(population *c)
{
    event first = c->heap[0], last = c->heap[--c->events];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < c->events; i = child) {
        if (child + 1 < c->events && before(&c->heap[child + 1], &c->heap[child]))
            child++;
        if (!before(&c->heap[child], &last))
            break;
        c->heap[i] = c->heap[child];
    }
    if (c->events > 0)
        c->heap[i] = last;
    return first;
}

/* ---- one client ------------------------------------------------------------------------------ */

/* Draws the client's sampling coin as roles/client does; without one, decides whether it is the
 * client's turn. */
static bool draw(const population *c, uint32_t i)
{
    const task *t = &c->s->task;
    char who[POPULATION_WHO_MAX];
    seeded gen;
    population_who(who, i);
    if (t->sampling == TASK_ALL || t->rate >= 1) {
        uint8_t client[SHA256_BYTES]; /* in place of a certificate's fingerprint */
        sha256_of(client, span_of_str(who));
        return task_is_turn(t, client, c->round);
    }
    named_coins_replay(&gen, who, c->s->e->seed, "sampling", c->round, 0);
    uint8_t coin[8];
    seeded_fill(&gen, coin, sizeof coin);
    return load_u64(coin) < (uint64_t)(t->rate * 18446744073709551616.0);
}

/* Draws this client's speed and fate in this round. */
static void foresee(population *c, uint32_t i)
{
    const experiment *e = c->s->e;
    person *p = &c->p[i];
    seeded gen;
    char name[64];
    snprintf(name, sizeof name, "network %" PRIu32 " %" PRIu64, i, c->round);
    seeded_init(&gen, e->seed, name);
    double time = (double)e->client_ms * (0.5 + seeded_unit(&gen)) * (p->slow ? e->slowdown : 1);
    p->busy_ms = time < 1 ? 1 : time > 1e15 ? (uint64_t)1e15 : (uint64_t)time;
    p->dies = seeded_unit(&gen) < e->dropout;
    if (e->exact)
        p->dies = p->chosen;
    p->dies_at = seeded_unit(&gen);
}

/* network.exact: chooses the clients that fail in this round; every set of that size is equally
 * likely. */
static void choose(population *c)
{
    uint32_t left = experiment_dropouts(c->s->e), n = c->s->clients;
    seeded gen;
    char name[48];
    snprintf(name, sizeof name, "dropouts %" PRIu64, c->round);
    seeded_init(&gen, c->s->e->seed, name);
    for (uint32_t i = 0; i < n; i++) {
        c->p[i].chosen = seeded_unit(&gen) * (n - i) < left;
        left -= c->p[i].chosen;
    }
}

static sefl_status news(population *c, uint32_t i, uint64_t now)
{
    person *p = &c->p[i];
    bool over = agg_get_phase(c->a) == AGG_DONE;
    round_news n = { .state = over ? ROUND_OVER : ROUND_OPEN, .round = c->round };
    participant_event e = {
        .kind = PARTICIPANT_GOT_NEWS, .news = &n, .drawn = true, .checked = true
    };
    if (!over) {
        n.left_ms = c->left_until > now ? c->left_until - now : 0;
        n.header = c->header;
        e.drawn = draw(c, i);
        foresee(c, i);
    }
    p->waiting = false;
    return participant_on(p->m, &e, now);
}

static sefl_status tell(population *c, uint32_t i, participant_event_kind kind, uint64_t now)
{
    participant_event e = { .kind = kind };
    return participant_on(c->p[i].m, &e, now);
}

/* Follows the client's orders until it waits for something. */
static sefl_status act(population *c, uint32_t i, uint64_t now)
{
    person *p = &c->p[i];
    for (;;) {
        participant_order o = participant_next(p->m, now);
        uint64_t first = p->busy_ms - p->busy_ms / 5, rest = p->busy_ms / 5, at;
        switch (o.kind) {
        case PARTICIPANT_POLL:
            if (c->round > o.round && now < c->left_until) {
                SEFL_PASS(news(c, i, now));
                continue;
            }
            p->waiting = true;
            return SEFL_OK;
        case PARTICIPANT_SLEEP:
            return push(c, i, WAKE, o.until_ms);
        case PARTICIPANT_FETCH_MODEL:
            c->counts.asked++;
            c->fates[i] = 'd';
            p->busy = true;
            SEFL_PASS(tell(c, i, PARTICIPANT_GOT_MODEL, now));
            continue;
        case PARTICIPANT_TRAIN:
            if (p->dies && p->dies_at < 0.8)
                return push(c, i, DIED, now + (uint64_t)(p->dies_at * (double)p->busy_ms));
            return push(c, i, TRAINED, now + first);
        case PARTICIPANT_UPLOAD:
            at = now + rest;
            return push(c, i, p->dies ? DIED : ARRIVED, at);
        case PARTICIPANT_STOP:
            p->waiting = false;
            return SEFL_OK;
        }
    }
    return SEFL_OK;
}

static void too_late(population *c, uint32_t i)
{
    person *p = &c->p[i];
    c->counts.late += p->busy;
    if (p->busy)
        c->fates[i] = 'l';
    p->busy = false;
}

/* Handles a complete upload. */
static sefl_status arrive(population *c, uint32_t i, uint64_t now)
{
    agg_upload u = { .round = c->round,
                     .bytes = task_body_bytes(&c->s->task),
                     .rounds_taken = c->taken[i] };
    agg_verdict v = agg_admit(c->a, &u, now);
    if (v != AGG_ADMIT) {
        too_late(c, i);
        if (v != AGG_LATE && v != AGG_FULL && v != AGG_OVER)
            c->fates[i] = 'r';
        return tell(c, i, PARTICIPANT_REFUSED, now);
    }
    c->set[c->in_set++] = (population_member){ .client = i };
    c->taken[i]++;
    c->fates[i] = 'a';
    c->p[i].busy = false;
    SEFL_PASS(agg_on(
        c->a, &(agg_event){ .kind = AGG_UPDATE, .round = c->round, .clients = c->in_set }, now));
    return tell(c, i, PARTICIPANT_GOT_RECEIPT, now);
}

static sefl_status happen(population *c, const event *e, uint64_t now)
{
    person *p = &c->p[e->client];
    participant_order o =
        participant_next(p->m, now); /* may drop a round whose deadline has passed */
    switch (e->what) {
    case WAKE:
        break;
    case TRAINED:
        if (o.kind == PARTICIPANT_TRAIN)
            SEFL_PASS(tell(c, e->client, PARTICIPANT_TRAINED, now));
        else
            too_late(c, e->client);
        break;
    case ARRIVED:
        if (o.kind == PARTICIPANT_UPLOAD && o.round == c->round) {
            SEFL_PASS(arrive(c, e->client, now));
        } else if (o.kind == PARTICIPANT_UPLOAD) {
            too_late(c, e->client);
            SEFL_PASS(tell(c, e->client, PARTICIPANT_REFUSED, now));
        }
        break;
    case DIED:
        c->counts.dropped++;
        p->busy = false;
        participant_free(p->m);
        p->m = NULL;
        p->turn++;
        return SEFL_OK;
    }
    return act(c, e->client, now);
}

/* ---- public ---------------------------------------------------------------------------------- */

sefl_status population_new(population **out, const federation *s, agg *a, const uint64_t *taken)
{
    seeded gen;
    SEFL_MAKE(population, c, out);
    c->s = s;
    c->a = a;
    SEFL_TRY(sefl_new(&c->p, s->clients, sizeof *c->p));
    SEFL_TRY(sefl_new(&c->taken, s->clients, sizeof *c->taken));
    SEFL_TRY(sefl_new(&c->set, s->clients, sizeof *c->set));
    SEFL_TRY(sefl_new(&c->fates, s->clients, 1));
    if (taken)
        memcpy(c->taken, taken, s->clients * sizeof *taken);
    seeded_init(&gen, s->e->seed, "stragglers");
    for (uint32_t i = 0; i < s->clients; i++)
        c->p[i].slow = seeded_unit(&gen) < s->e->stragglers;
    SEFL_HAND_OVER(out, c, population_free);
}

void population_free(population *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; c->p && i < c->s->clients; i++)
        participant_free(c->p[i].m);
    sefl_free(c->p);
    sefl_free(c->taken);
    sefl_free(c->set);
    sefl_free(c->fates);
    sefl_free(c->heap);
    sefl_free(c);
}

sefl_status population_open(population *c, uint64_t round, sefl_span header, uint64_t now_ms)
{
    bool fresh = round != c->round;
    round_header h;
    SEFL_PASS(participant_header_check(&c->s->task, &h, header, round));
    if (fresh) {
        c->in_set = 0;
        c->counts = (population_counts){ 0 };
        memset(c->fates, '.', c->s->clients);
    }
    c->round = round;
    c->header = header;
    c->left_until = agg_deadline_ms(c->a);
    if (fresh && c->s->e->exact)
        choose(c);
    for (uint32_t i = 0; i < c->s->clients; i++) {
        person *p = &c->p[i];
        bool born = !p->m && fresh;
        char who[POPULATION_WHO_MAX];
        sefl_rng rng = seeded_rng(&p->jitter);
        population_who(who, i);
        if (fresh)
            named_coins_replay(&p->jitter, who, c->s->e->seed, "jitter", round, 0);
        p->turn += born;
        if (born)
            SEFL_PASS(participant_new(&p->m, &c->s->task, c->taken[i], &rng));
        if (born || p->waiting)
            SEFL_PASS(act(c, i, now_ms));
    }
    return SEFL_OK;
}

sefl_status population_close(population *c, uint64_t now_ms)
{
    c->left_until = 0;
    c->events = 0;
    for (uint32_t i = 0; i < c->s->clients; i++) {
        person *p = &c->p[i];
        if (!p->m || p->waiting)
            continue;
        participant_order o = participant_next(p->m, now_ms);
        too_late(c, i);
        if (o.kind == PARTICIPANT_FETCH_MODEL || o.kind == PARTICIPANT_TRAIN ||
            o.kind == PARTICIPANT_UPLOAD)
            SEFL_PASS(tell(c, i, PARTICIPANT_REFUSED, now_ms));
        p->turn++;
        p->waiting = o.kind != PARTICIPANT_STOP;
    }
    return SEFL_OK;
}

uint64_t population_next_ms(const population *c)
{
    return c->events > 0 ? c->heap[0].at : UINT64_MAX;
}

sefl_status population_run(population *c, uint64_t now_ms)
{
    while (c->events > 0 && c->heap[0].at <= now_ms) {
        event e = pop(c);
        if (c->p[e.client].m && e.turn == c->p[e.client].turn)
            SEFL_PASS(happen(c, &e, e.at > now_ms ? now_ms : e.at));
    }
    return SEFL_OK;
}

static int by_number(const void *a, const void *b)
{
    const population_member *x = a, *y = b;
    return x->client < y->client ? -1 : x->client > y->client;
}

uint32_t population_set(population *c, const population_member **out)
{
    qsort(c->set, c->in_set, sizeof *c->set, by_number);
    *out = c->set;
    return c->in_set;
}

population_counts population_count(const population *c)
{
    return c->counts;
}

const char *population_fates(const population *c)
{
    return c->fates;
}

const uint64_t *population_taken(const population *c)
{
    return c->taken;
}
