/* Design. Two rounds are in memory: the open one and the one before it, for which late uploads
 * still come. Cells are letters, by the client's number; a client that appeared later has none. */
#include "roles/aggregator/turnout_inside.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACT "turnout"

enum { END_AT = 30 }; /* in a record's number of letters: how the round ended */

/* ---- clients --------------------------------------------------------------------------------- */

static size_t slot_of(const turnout *t, const uint8_t key[32])
{
    uint64_t h;
    memcpy(&h, key, sizeof h); /* a fingerprint is uniform */
    size_t at = (size_t)h & (t->slots_n - 1);
    while (t->slots[at] && memcmp(t->who[t->slots[at] - 1].key, key, 32) != 0)
        at = (at + 1) & (t->slots_n - 1);
    return at;
}

static sefl_status grow_slots(turnout *t)
{
    if (t->slots_n >= 2 * (t->n + 1))
        return SEFL_OK;
    uint32_t *old = t->slots, *slots = NULL;
    const size_t n = t->slots_n ? 2 * t->slots_n : 1024;
    SEFL_PASS(sefl_new(&slots, n, sizeof *slots));
    t->slots = slots;
    t->slots_n = n;
    for (size_t i = 0; i < t->n; i++)
        t->slots[slot_of(t, t->who[i].key)] = (uint32_t)i + 1;
    sefl_free(old);
    return SEFL_OK;
}

int64_t turnout_find(const turnout *t, const uint8_t key[32])
{
    return t->slots_n ? (int64_t)t->slots[slot_of(t, key)] - 1 : NONE;
}

/* Returns the client's number; NONE if there is no room for a new one. */
static int64_t find_or_add(turnout *t, const uint8_t key[32], const char *name)
{
    int64_t i = turnout_find(t, key);
    if (i != NONE)
        return i;
    if (t->n >= TURNOUT_CLIENTS || grow_slots(t) != SEFL_OK ||
        sefl_room(&t->who, &t->room, t->n + 1, sizeof *t->who) != SEFL_OK)
        return NONE;
    someone *s = &t->who[t->n];
    *s = (someone){ 0 };
    memcpy(s->key, key, sizeof s->key);
    s->group = task_group(t->of, key);
    snprintf(s->name, sizeof s->name, "%s", name ? name : "");
    const size_t slot = slot_of(t, key); /* before the client is in the table */
    t->slots[slot] = (uint32_t)++t->n;
    return (int64_t)t->n - 1;
}

bool turnout_is_turn(const turnout *t, const someone *s, uint64_t round)
{
    return t->of->separation <= 1 || s->group == round % t->of->separation;
}

static void chunk_name(char out[32], size_t chunk)
{
    snprintf(out, 32, "clients %zu", chunk);
}

static sefl_status write_chunk(const turnout *t, size_t chunk)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char name[32];
    for (size_t i = chunk * CHUNK; i < t->n && i < (chunk + 1) * CHUNK; i++) {
        const size_t len = strlen(t->who[i].name);
        SEFL_TRY(wr_raw(&b, t->who[i].key, 32));
        SEFL_TRY(wr_u8(&b, (uint8_t)len));
        SEFL_TRY(wr_raw(&b, t->who[i].name, len));
    }
    chunk_name(name, chunk);
    SEFL_TRY(journal_fact_put(t->j, 0, name, buf_span(&b)));
done:
    buf_clear(&b);
    return st;
}

static sefl_status write_clients(turnout *t)
{
    for (size_t chunk = t->written / CHUNK; t->written < t->n; chunk++) {
        SEFL_PASS(write_chunk(t, chunk));
        t->written = t->n < (chunk + 1) * CHUNK ? t->n : (chunk + 1) * CHUNK;
    }
    return SEFL_OK;
}

static sefl_status read_chunk(turnout *t, sefl_span bytes)
{
    rd r = rd_over(bytes);
    while (rd_left(&r) > 0) {
        sefl_span key, name;
        uint8_t len;
        char text[NAME_MAX_BYTES + 1];
        SEFL_PASS(rd_view(&r, &key, 32));
        SEFL_PASS(rd_u8(&r, &len));
        SEFL_NEED(len <= NAME_MAX_BYTES, SEFL_EPROTO, "a client's name of %u bytes", len);
        SEFL_PASS(rd_view(&r, &name, len));
        snprintf(text, sizeof text, "%.*s", (int)name.n, (const char *)name.p);
        SEFL_NEED(find_or_add(t, key.p, text) == (int64_t)t->n - 1, SEFL_EPROTO,
                  "a client is listed twice");
    }
    return SEFL_OK;
}

static sefl_status read_clients(turnout *t)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char name[32];
    for (size_t chunk = 0; chunk * CHUNK < TURNOUT_CLIENTS; chunk++) {
        buf_reset(&b);
        chunk_name(name, chunk);
        st = journal_fact_get(t->j, 0, name, &b);
        if (st == SEFL_ENOTFOUND)
            break;
        SEFL_TRY(st);
        SEFL_TRY(sefl_at(read_chunk(t, buf_span(&b)), "turnout"));
    }
    st = SEFL_OK;
    t->written = t->n;
done:
    buf_clear(&b);
    return st;
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

/* ---- records --------------------------------------------------------------------------------- */

static sefl_status round_write(sefl_buf *out, const turnout_round *r)
{
    SEFL_PASS(wr_u32(out, (uint32_t)r->n | (uint32_t)r->end << END_AT));
    SEFL_PASS(wr_raw(out, r->cells, r->n));
    for (size_t i = 0; i < r->why_n; i++) {
        const size_t len = strlen(r->why[i].text);
        SEFL_PASS(wr_u32(out, r->why[i].client));
        SEFL_PASS(wr_u8(out, (uint8_t)len));
        SEFL_PASS(wr_raw(out, r->why[i].text, len));
    }
    return SEFL_OK;
}

static sefl_status record_read(record *out, sefl_span bytes)
{
    uint32_t n;
    rd r = rd_over(bytes);
    SEFL_PASS(rd_u32(&r, &n));
    SEFL_PASS(rd_view(&r, &out->cells, n & ((1u << END_AT) - 1)));
    SEFL_NEED(n >> END_AT <= TURNOUT_CUT, SEFL_EPROTO, "an unknown end of a round");
    out->end = (turnout_end)(n >> END_AT);
    out->why = r;
    return SEFL_OK;
}

sefl_status turnout_record_why(record *r, uint32_t *client, sefl_span *text)
{
    uint8_t len;
    SEFL_PASS(rd_u32(&r->why, client));
    SEFL_PASS(rd_u8(&r->why, &len));
    return rd_view(&r->why, text, len);
}

sefl_status turnout_record(turnout *t, uint64_t round, sefl_buf *bytes, record *out)
{
    const turnout_round *r = turnout_round_of(t, round);
    *out = (record){ 0 };
    buf_reset(bytes);
    sefl_status st = r ? round_write(bytes, r) : journal_fact_get(t->j, round, FACT, bytes);
    if (st == SEFL_ENOTFOUND || (st == SEFL_OK && bytes->n == 0))
        return SEFL_OK;
    SEFL_PASS(st);
    return record_read(out, buf_span(bytes));
}

static void add_up(turnout *t, sefl_span cells, int by)
{
    for (size_t i = 0; i < cells.n && i < t->n; i++) {
        if (cells.p[i] == 'a')
            t->who[i].good += (uint32_t)by;
        else if (strchr("ldrx", cells.p[i]) && cells.p[i])
            t->who[i].bad += (uint32_t)by;
    }
}

/* A round is over: a client whose turn it was has missed it without an update in it. Under
 * sampling, nobody but the client knows whether it was drawn, so it has missed none. */
static void add_missed(turnout *t, uint64_t round, const record *r)
{
    if (round <= t->closed)
        return;
    t->closed = round;
    if (r->end == TURNOUT_CUT)
        return;
    t->full++;
    for (size_t i = 0; i < t->n; i++) {
        someone *s = &t->who[i];
        const char c = i < r->cells.n ? (char)r->cells.p[i] : '.';
        if (c == 'a' || c == 'x') {
            s->missed = s->idle = 0;
            s->spent += c == 'a' && r->end == TURNOUT_RELEASED;
        } else if (t->of->sampling == TASK_ALL && turnout_is_turn(t, s, round)) {
            s->missed++;
            s->idle = s->told >= round ? s->idle + 1 : 0;
        }
    }
}

/* Writes a round and the clients that are new in it; both are durable together. */
static sefl_status save(turnout *t, turnout_round *r)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    record old;
    const uint64_t gone = r->round > TURNOUT_ROUNDS ? r->round - TURNOUT_ROUNDS : 0;
    SEFL_TRY(write_clients(t)); /* first: letters without a client are ignored */
    if (journal_fact_get(t->j, r->round, FACT, &b) == SEFL_OK &&
        record_read(&old, buf_span(&b)) == SEFL_OK)
        add_up(t, old.cells, -1);
    buf_reset(&b);
    SEFL_TRY(round_write(&b, r));
    SEFL_TRY(journal_fact_put(t->j, r->round, FACT, buf_span(&b)));
    r->changed = false;
    add_up(t, span_of(r->cells, r->n), 1);
    if (gone > t->oldest && gone > 0) {
        SEFL_TRY(journal_fact_put(t->j, gone, FACT, (sefl_span){ 0 }));
        t->oldest = gone;
    }
done:
    buf_clear(&b);
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

/* Adds up the records of the latest rounds. */
static sefl_status read_rounds(turnout *t)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    journal_round last;
    record r;
    st = journal_round_last(t->j, &last);
    if (st == SEFL_ENOTFOUND)
        return SEFL_OK;
    SEFL_TRY(st);
    t->last = last.round;
    t->oldest = last.round > TURNOUT_ROUNDS ? last.round - TURNOUT_ROUNDS : 0;
    for (uint64_t n = t->oldest + 1; n <= last.round; n++) {
        SEFL_TRY(turnout_record(t, n, &b, &r));
        add_up(t, r.cells, 1);
        if (r.cells.p)
            add_missed(t, n, &r);
    }
done:
    buf_clear(&b);
    return st;
}

sefl_status turnout_new(turnout **out, journal *j, const task *of, sefl_log *log)
{
    SEFL_MAKE(turnout, t, out);
    pthread_mutex_init(&t->lock, NULL);
    t->j = j, t->of = of, t->log = log;
    SEFL_TRY(read_clients(t));
    SEFL_TRY(read_rounds(t));
    SEFL_HAND_OVER(out, t, turnout_free);
}

void turnout_free(turnout *t)
{
    if (!t)
        return;
    round_clear(&t->now);
    round_clear(&t->before);
    sefl_free(t->who);
    sefl_free(t->slots);
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
        add_missed(t, round, &(record){ .cells = span_of(r->cells, r->n), .end = end });
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
