/* The grid of the page: who took part in which round (turnout.h). */
#include "roles/aggregator/turnout_inside.h"

#include "base/alloc.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHYS_MAX = 500 };

typedef struct ranked {
    uint32_t good, bad, client;
} ranked;

static int worst_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->bad != y->bad)
        return x->bad < y->bad ? 1 : -1;
    if (x->good != y->good)
        return x->good > y->good ? 1 : -1;
    return (x->client > y->client) - (x->client < y->client);
}

/* The clients and rounds of an answer. */
typedef struct selection {
    uint32_t client[PAGE_GRID_CLIENTS];
    char cells[PAGE_GRID_CLIENTS][PAGE_GRID_ROUNDS + 1];
    unsigned clients, rounds, whys;
    uint64_t first;
    sefl_buf why, counts; /* JSON, without brackets */
} selection;

/* Under the lock, which it leaves while it sorts. */
static sefl_status select_clients(turnout *t, selection *s, const page_grid_ask *ask)
{
    ranked *all = NULL;
    const size_t n = t->n;
    if (ask->worst && n > 0) {
        SEFL_PASS(sefl_new(&all, n, sizeof *all));
        for (size_t i = 0; i < n; i++)
            all[i] = (ranked){ t->who[i].good, t->who[i].bad, (uint32_t)i };
        pthread_mutex_unlock(&t->lock);
        qsort(all, n, sizeof *all, worst_first);
        pthread_mutex_lock(&t->lock);
    }
    for (uint64_t i = ask->from; i < n && s->clients < ask->clients; i++)
        s->client[s->clients++] = all ? all[i].client : (uint32_t)i;
    sefl_free(all);
    return SEFL_OK;
}

static void label(char out[NAME_MAX_BYTES + 16], const someone *s)
{
    snprintf(out, NAME_MAX_BYTES + 16, "%s / %02x%02x%02x%02x", s->name, s->key[0], s->key[1],
             s->key[2], s->key[3]);
}

static sefl_status write_why(const turnout *t, selection *s, uint64_t round, uint32_t client,
                             sefl_span text)
{
    char who[NAME_MAX_BYTES + 16];
    if (s->whys++ >= WHYS_MAX)
        return SEFL_OK;
    label(who, &t->who[client]);
    if (s->why.n > 0)
        SEFL_PASS(wr_u8(&s->why, ','));
    json j = json_into(&s->why);
    json_open(&j, '{');
    json_key(&j, "round"), json_u64(&j, round);
    json_key(&j, "client"), json_str(&j, who);
    json_key(&j, "reason"), json_span(&j, text);
    json_close(&j, '}');
    return json_end(&j);
}

/* Adds the recorded reasons of the selected clients. A client that dropped out without a word has
 * none. */
static sefl_status add_why(const turnout *t, selection *s, uint64_t round, unsigned column,
                           record *r)
{
    bool told[PAGE_GRID_CLIENTS] = { 0 };
    while (rd_left(&r->why) > 0) {
        uint32_t client;
        sefl_span text;
        unsigned i = 0;
        SEFL_PASS(turnout_record_why(r, &client, &text));
        while (i < s->clients && s->client[i] != client)
            i++;
        if (i == s->clients)
            continue;
        told[i] = true;
        SEFL_PASS(write_why(t, s, round, client, text));
    }
    for (unsigned i = 0; i < s->clients && round < t->last; i++)
        if (s->cells[i][column] == 'd' && !told[i])
            SEFL_PASS(write_why(t, s, round, s->client[i],
                                span_of_str("fetched the model and sent no update in time")));
    return SEFL_OK;
}

static sefl_status add_round(turnout *t, selection *s, unsigned column, sefl_buf *bytes)
{
    const uint64_t round = s->first + column;
    record r;
    SEFL_PASS(turnout_record(t, round, bytes, &r));
    const bool known = r.cells.p != NULL;
    for (unsigned i = 0; i < s->clients; i++) {
        const uint32_t client = s->client[i];
        s->cells[i][column] = !known ? ' ' : client < r.cells.n ? (char)r.cells.p[client] : '.';
    }
    if (!known)
        return SEFL_OK;
    const turnout_counts c = turnout_count(r.cells);
    SEFL_PASS(wr_fmt(&s->counts,
                     "%s{\"round\":%" PRIu64 ",\"arrived\":%u,\"late\":%u,\"dropped\":%u,"
                     "\"refused\":%u}",
                     s->counts.n > 0 ? "," : "", round, c.arrived, c.late, c.dropped, c.refused));
    return add_why(t, s, round, column, &r);
}

static sefl_status write_grid(const turnout *t, const selection *s, sefl_buf *out)
{
    char who[NAME_MAX_BYTES + 16];
    json j = json_into(out);
    json_open(&j, '{');
    json_key(&j, "enrolled"), json_u64(&j, t->of->enrolled);
    json_key(&j, "seen"), json_u64(&j, t->n);
    json_key(&j, "rounds"), json_open(&j, '[');
    for (unsigned i = 0; i < s->rounds; i++)
        json_u64(&j, s->first + i);
    json_close(&j, ']');
    json_key(&j, "clients"), json_open(&j, '[');
    for (unsigned i = 0; i < s->clients; i++) {
        label(who, &t->who[s->client[i]]);
        json_open(&j, '{');
        json_key(&j, "name"), json_str(&j, who);
        json_key(&j, "cells"), json_str(&j, s->cells[i]);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    SEFL_PASS(json_end(&j));
    out->n--;
    SEFL_PASS(wr_fmt(out, ",\"why\":["));
    SEFL_PASS(wr_raw(out, s->why.p, s->why.n));
    SEFL_PASS(wr_fmt(out, "],\"counts\":["));
    SEFL_PASS(wr_raw(out, s->counts.p, s->counts.n));
    return wr_fmt(out, "]}");
}

/* The rounds to show, as far as there are any. */
static void select_rounds(const turnout *t, selection *s, const page_grid_ask *ask)
{
    const uint64_t last = t->last;
    s->first = ask->first > 0 ? ask->first : last > ask->rounds ? last - ask->rounds + 1 : 1;
    if (s->first <= last)
        s->rounds = last - s->first < ask->rounds ? (unsigned)(last - s->first + 1) : ask->rounds;
}

sefl_status turnout_grid(turnout *t, sefl_buf *out, const page_grid_ask *ask)
{
    sefl_status st = SEFL_OK;
    selection *s = NULL;
    sefl_buf bytes = { 0 };
    SEFL_PASS(sefl_new(&s, 1, sizeof *s));
    pthread_mutex_lock(&t->lock);
    SEFL_TRY(select_clients(t, s, ask));
    select_rounds(t, s, ask);
    for (unsigned i = 0; i < s->rounds; i++) {
        SEFL_TRY(add_round(t, s, i, &bytes));
        pthread_mutex_unlock(&t->lock); /* an upload must not wait for the whole answer */
        pthread_mutex_lock(&t->lock);
    }
    SEFL_TRY(write_grid(t, s, out));
done:
    pthread_mutex_unlock(&t->lock);
    buf_clear(&bytes);
    buf_clear(&s->why);
    buf_clear(&s->counts);
    sefl_free(s);
    return st;
}
