/* Design. Two rounds are in memory: the open one and the one before it, for which late uploads
 * still come. Cells are letters, by the client's number; a client that appeared later has none. */
#include "roles/aggregator/turnout_inside.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- clients --------------------------------------------------------------------------------- */

int64_t turnout_find(const turnout *t, const uint8_t key[32])
{
    return (int64_t)client_table_find(&t->numbers, key) - 1; /* NONE is -1 */
}

/* Returns the client's number; NONE if there is no room for a new one. */
static int64_t find_or_add(turnout *t, const uint8_t key[32], const char *name)
{
    int64_t i = turnout_find(t, key);
    if (i != NONE)
        return i;
    size_t at;
    if (t->n >= TURNOUT_CLIENTS ||
        sefl_room(&t->who, &t->room, t->n + 1, sizeof *t->who) != SEFL_OK ||
        client_table_put(&t->numbers, key, key, &at) != SEFL_OK)
        return NONE;
    someone *s = &t->who[t->n++];
    *s = (someone){ 0 };
    memcpy(s->key, key, sizeof s->key);
    s->group = task_group(t->of, key);
    snprintf(s->name, sizeof s->name, "%s", name ? name : "");
    return (int64_t)at;
}

bool turnout_is_turn(const turnout *t, const someone *s, uint64_t round)
{
    return t->of->separation <= 1 || s->group == round % t->of->separation;
}

/* ---- one round ------------------------------------------------------------------------------- */

static void round_clear(turnout_round *r)
{
    sefl_free(r->cells);
    sefl_free(r->why);
    *r = (turnout_round){ 0 };
}

turnout_round *turnout_round_of(turnout *t, uint64_t round)
{
    return round == 0                 ? NULL
           : t->now.round == round    ? &t->now
           : t->before.round == round ? &t->before
                                      : NULL;
}

/* Returns the client's cell; NULL if memory runs out. */
static char *cell_of(turnout_round *r, size_t client)
{
    if (sefl_room(&r->cells, &r->room, client + 1, 1) != SEFL_OK)
        return NULL;
    for (; r->n <= client; r->n++)
        r->cells[r->n] = '.';
    return &r->cells[client];
}

static void drop_reason(turnout_round *r, uint32_t client)
{
    for (size_t i = 0; i < r->why_n; i++)
        if (r->why[i].client == client)
            r->why[i] = r->why[--r->why_n];
}

static void add_reason(turnout_round *r, uint32_t client, const char *why)
{
    drop_reason(r, client);
    if (!why || !*why || r->why_n >= TURNOUT_REASONS ||
        sefl_room(&r->why, &r->why_room, r->why_n + 1, sizeof *r->why) != SEFL_OK)
        return;
    reason *x = &r->why[r->why_n++];
    x->client = client;
    snprintf(x->text, sizeof x->text, "%s", why);
}

/* True if the new letter says more than the old one. An arrival is final, unless CSP counts the
 * client out. */
static bool replaces(char old, char new)
{
    if (old == 'a' || old == 'x')
        return new == 'x';
    return new != 'd' || old == '.';
}

static void set_cell(turnout *t, uint64_t round, int64_t client, char letter, const char *why)
{
    turnout_round *r = turnout_round_of(t, round);
    char *cell = r && client != NONE ? cell_of(r, (size_t)client) : NULL;
    if (!cell || (!replaces(*cell, letter) && !(letter == 'd' && *cell == 'd' && why)))
        return;
    *cell = letter;
    r->changed = true;
    if (why && strchr("rxd", letter))
        add_reason(r, (uint32_t)client, why);
    else
        drop_reason(r, (uint32_t)client);
}

/* ---- the journal ----------------------------------------------------------------------------- */

attendance turnout_row(const turnout_round *r)
{
    return (attendance){ .round = r->round, .ended = r->end, .fates = span_of(r->cells, r->n) };
}

/* A round is over: a client whose turn it was has missed it without an update in it. Under
 * sampling, nobody but the client knows whether it was drawn, so it has missed none. */
static void add_missed(turnout *t, const attendance *r)
{
    if (r->round <= t->closed)
        return;
    t->closed = r->round;
    if (r->ended == TURNOUT_CUT)
        return;
    t->full++;
    for (size_t i = 0; i < t->n; i++) {
        someone *s = &t->who[i];
        const char c = i < r->fates.n ? (char)r->fates.p[i] : '.';
        if (c == 'a' || c == 'x') {
            s->missed = s->idle = 0;
            s->spent += c == 'a' && r->ended == TURNOUT_RELEASED;
        } else if (t->of->sampling == TASK_ALL && turnout_is_turn(t, s, r->round)) {
            s->missed++;
            s->idle = s->told >= r->round ? s->idle + 1 : 0;
        }
    }
}

/* Writes a round and the clients that are new in it; both are durable together. */
static sefl_status save(turnout *t, turnout_round *r)
{
    sefl_status st = SEFL_OK;
    const attendance row = turnout_row(r);
    SEFL_PASS(journal_begin(t->j));
    for (size_t i = t->written; i < t->n; i++)
        SEFL_TRY(attendance_client_put(t->j, i, t->who[i].key, t->who[i].name));
    SEFL_TRY(attendance_put(t->j, &row));
    for (size_t i = 0; i < r->why_n; i++)
        SEFL_TRY(attendance_why_put(t->j, r->round, r->why[i].client, r->why[i].text));
    if (r->round > TURNOUT_ROUNDS)
        SEFL_TRY(attendance_forget(t->j, r->round - TURNOUT_ROUNDS));
    SEFL_TRY(journal_commit(t->j));
    t->written = t->n;
    r->changed = false;
done:
    if (st != SEFL_OK)
        journal_rollback(t->j);
    return st;
}

static void save_or_say(turnout *t, turnout_round *r)
{
    if (r->round > 0 && r->changed && save(t, r) != SEFL_OK)
        log_error(t->log, "turnout not written", lf_u64("round", r->round),
                  lf_str("why", sefl_last_error()));
}

static sefl_status restore_one(void *ctx, const journal_update *u)
{
    turnout *t = ctx;
    set_cell(t, u->round, find_or_add(t, u->client, u->name), 'a', NULL);
    return SEFL_OK;
}

static sefl_status restore_client(void *ctx, uint64_t number, const uint8_t client[32],
                                  const char *name)
{
    turnout *t = ctx;
    SEFL_NEED(number == t->n && find_or_add(t, client, name) == (int64_t)number, SEFL_EPROTO,
              "turnout: client %" PRIu64 " is listed twice, or the one before it is missing",
              number);
    return SEFL_OK;
}

static sefl_status restore_round(void *ctx, const attendance *r)
{
    turnout *t = ctx;
    SEFL_NEED(r->ended <= TURNOUT_CUT, SEFL_EPROTO, "turnout: an unknown end of a round");
    t->last = r->round;
    add_missed(t, r);
    return SEFL_OK;
}

sefl_status turnout_new(turnout **out, journal *j, const task *of, sefl_log *log)
{
    SEFL_MAKE(turnout, t, out);
    pthread_mutex_init(&t->lock, NULL);
    t->j = j, t->of = of, t->log = log;
    SEFL_TRY(attendance_clients(j, restore_client, t));
    t->written = t->n;
    SEFL_TRY(attendance_rounds(j, 1, INT64_MAX, restore_round, t));
    SEFL_HAND_OVER(out, t, turnout_free);
}

void turnout_free(turnout *t)
{
    if (!t)
        return;
    round_clear(&t->now);
    round_clear(&t->before);
    sefl_free(t->who);
    client_table_clear(&t->numbers);
    pthread_mutex_destroy(&t->lock);
    sefl_free(t);
}

/* ---- events ---------------------------------------------------------------------------------- */

void turnout_open(turnout *t, uint64_t round)
{
    if (!t || round == 0)
        return;
    pthread_mutex_lock(&t->lock);
    if (round != t->now.round) {
        save_or_say(t, &t->before);
        round_clear(&t->before);
        t->before = t->now;
        t->now = (turnout_round){ .round = round };
        t->last = round;
        if (journal_updates(t->j, round, restore_one, t) != SEFL_OK)
            log_error(t->log, "turnout not restored", lf_str("why", sefl_last_error()));
    }
    pthread_mutex_unlock(&t->lock);
}

bool turnout_told(turnout *t, uint64_t round, const uint8_t client[32], const char *name)
{
    bool is_back = false;
    if (!t)
        return false;
    pthread_mutex_lock(&t->lock);
    const size_t known = t->n;
    const int64_t i = round >= t->now.round ? find_or_add(t, client, name) : NONE;
    if (i != NONE) { /* the server may answer before turnout_open */
        is_back = t->who[i].told != round && t->full >= TURNOUT_MISSED &&
                  (t->n > known || t->who[i].missed >= TURNOUT_MISSED);
        t->who[i].told = round;
    }
    pthread_mutex_unlock(&t->lock);
    return is_back;
}

void turnout_fetched(turnout *t, uint64_t round, const uint8_t client[32], const char *name)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    if (turnout_round_of(t, round))
        set_cell(t, round, find_or_add(t, client, name), 'd', NULL);
    pthread_mutex_unlock(&t->lock);
}

/* Returns the letter for the end of an upload; 0: it says nothing about the client's round. */
static char letter_of(ingest_end end)
{
    switch (end) {
    case INGEST_TAKEN:
    case INGEST_AGAIN:
        return 'a';
    case INGEST_LATE:
    case INGEST_FULL:
        return 'l';
    case INGEST_CUT:
        return 'd'; /* until it comes again */
    case INGEST_EARLY:
    case INGEST_OFFSET:
    case INGEST_REPLACED:
    case INGEST_ENDS:
        return 0;
    default:
        return 'r';
    }
}

void turnout_upload(turnout *t, uint64_t round, const uint8_t client[32], const char *name,
                    ingest_end end, const char *why)
{
    const char letter = letter_of(end);
    if (!t || !letter)
        return;
    pthread_mutex_lock(&t->lock);
    if (turnout_round_of(t, round))
        set_cell(t, round, find_or_add(t, client, name), letter, why);
    pthread_mutex_unlock(&t->lock);
}

void turnout_counted_out(turnout *t, uint64_t round, const uint8_t client[32], const char *why)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    set_cell(t, round, turnout_find(t, client), 'x', why);
    pthread_mutex_unlock(&t->lock);
}

void turnout_barred(turnout *t, const uint8_t client[32], const char *why)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    set_cell(t, t->now.round, turnout_find(t, client), 'r', why);
    pthread_mutex_unlock(&t->lock);
}

void turnout_close(turnout *t, uint64_t round, turnout_end end)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    turnout_round *r = turnout_round_of(t, round);
    if (r) {
        r->changed = true; /* a round without clients gets a record too */
        r->end = end;
        save_or_say(t, &t->before);
        save_or_say(t, r);
        const attendance row = turnout_row(r);
        add_missed(t, &row);
    }
    pthread_mutex_unlock(&t->lock);
}

turnout_counts turnout_count(sefl_span cells)
{
    turnout_counts c = { 0 };
    for (size_t i = 0; i < cells.n; i++) {
        const char x = (char)cells.p[i];
        c.asked += x != '.' && x != ' ';
        c.arrived += x == 'a';
        c.late += x == 'l';
        c.dropped += x == 'd';
        c.refused += x == 'r' || x == 'x';
    }
    return c;
}

turnout_counts turnout_now(turnout *t, uint64_t round)
{
    turnout_counts c = { 0 };
    if (!t)
        return c;
    pthread_mutex_lock(&t->lock);
    const turnout_round *r = turnout_round_of(t, round);
    if (r)
        c = turnout_count(span_of(r->cells, r->n));
    pthread_mutex_unlock(&t->lock);
    return c;
}
