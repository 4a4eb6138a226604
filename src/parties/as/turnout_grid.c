/* The grid of the page: who took part in which round (turnout.h). */
#include "roles/aggregator/turnout_inside.h"

#include "base/alloc.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHYS_MAX = 500 };

typedef struct ranked {
    uint32_t good, bad, client; /* rounds in which it arrived; was late, dropped or refused */
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
    uint64_t seen, last; /* clients; the latest round */
    ranked *all;         /* all clients */
    uint32_t client[PAGE_GRID_CLIENTS];
    char name[PAGE_GRID_CLIENTS][NAME_MAX_BYTES + 16];
    char cells[PAGE_GRID_CLIENTS][PAGE_GRID_ROUNDS + 1];
    bool told[PAGE_GRID_CLIENTS][PAGE_GRID_ROUNDS]; /* why */
    bool known[PAGE_GRID_ROUNDS];
    turnout_counts counts[PAGE_GRID_ROUNDS];
    unsigned clients, rounds, whys;
    uint64_t first;
    uint64_t memory[2]; /* rounds that are in memory, too: the journal's are older */
    json j;
} selection;

static sefl_status add_up(void *ctx, const attendance *r)
{
    const selection *s = ctx;
    for (size_t i = 0; i < r->fates.n && i < s->seen; i++) {
        const char c = (char)r->fates.p[i];
        s->all[i].good += c == 'a';
        s->all[i].bad += c == 'l' || c == 'd' || c == 'r' || c == 'x';
    }
    return SEFL_OK;
}

static sefl_status rank(turnout *t, selection *s)
{
    enum { AT_ONCE = 100 }; /* an upload must not wait for all of them */
    SEFL_PASS(sefl_new(&s->all, s->seen + 1, sizeof *s->all));
    for (uint32_t i = 0; i < s->seen; i++)
        s->all[i].client = i;
    for (uint64_t r = s->last > TURNOUT_ROUNDS ? s->last - TURNOUT_ROUNDS : 0; r <= s->last;
         r += AT_ONCE)
        SEFL_PASS(attendance_rounds(t->j, r, r + AT_ONCE - 1, add_up, s));
    qsort(s->all, s->seen, sizeof *s->all, worst_first);
    return SEFL_OK;
}

/* The clients and rounds to show, as far as there are any. */
static sefl_status select_all(turnout *t, selection *s, const page_grid_ask *ask)
{
    pthread_mutex_lock(&t->lock);
    s->seen = t->n;
    s->last = t->last;
    pthread_mutex_unlock(&t->lock);
    if (ask->worst)
        SEFL_PASS(rank(t, s));
    for (uint64_t i = ask->from; i < s->seen && s->clients < ask->clients; i++)
        s->client[s->clients++] = s->all ? s->all[i].client : (uint32_t)i;
    s->first = ask->first > 0 ? ask->first : s->last > ask->rounds ? s->last - ask->rounds + 1 : 1;
    if (s->first <= s->last)
        s->rounds =
            s->last - s->first < ask->rounds ? (unsigned)(s->last - s->first + 1) : ask->rounds;
    for (unsigned i = 0; i < s->clients; i++)
        memset(s->cells[i], ' ', s->rounds); /* nothing is known */
    return SEFL_OK;
}

static sefl_status add_round(void *ctx, const attendance *r)
{
    selection *s = ctx;
    const uint64_t column = r->round - s->first;
    s->known[column] = true;
    s->counts[column] = turnout_count(r->fates);
    for (unsigned i = 0; i < s->clients; i++)
        s->cells[i][column] = s->client[i] < r->fates.n ? (char)r->fates.p[s->client[i]] : '.';
    return SEFL_OK;
}

/* Names the clients, and adds the rounds in memory, which the journal does not have yet. */
static void add_present(turnout *t, selection *s)
{
    const turnout_round *const at[] = { &t->before, &t->now };
    pthread_mutex_lock(&t->lock);
    for (unsigned i = 0; i < s->clients; i++) {
        const someone *w = &t->who[s->client[i]];
        snprintf(s->name[i], sizeof s->name[i], "%s / %02x%02x%02x%02x", w->name, w->key[0],
                 w->key[1], w->key[2], w->key[3]);
    }
    for (int i = 0; i < 2; i++) {
        const attendance row = turnout_row(at[i]);
        s->memory[i] = row.round;
        if (row.round >= s->first && row.round < s->first + s->rounds)
            (void)!add_round(s, &row);
    }
    pthread_mutex_unlock(&t->lock);
}

static void write_why(selection *s, unsigned row, uint64_t round, sefl_span text)
{
    s->told[row][round - s->first] = true;
    if (s->whys++ >= WHYS_MAX)
        return;
    json_open(&s->j, '{');
    json_key(&s->j, "round"), json_u64(&s->j, round);
    json_key(&s->j, "client"), json_str(&s->j, s->name[row]);
    json_key(&s->j, "reason"), json_span(&s->j, text);
    json_close(&s->j, '}');
}

static sefl_status add_why(void *ctx, uint64_t round, uint64_t client, sefl_span text)
{
    selection *s = ctx;
    unsigned i = 0;
    while (i < s->clients && s->client[i] != client)
        i++;
    if (i < s->clients)
        write_why(s, i, round, text);
    return SEFL_OK;
}

static sefl_status add_stored_why(void *ctx, uint64_t round, uint64_t client, sefl_span text)
{
    const selection *s = ctx;
    return round == s->memory[0] || round == s->memory[1] ? SEFL_OK
                                                          : add_why(ctx, round, client, text);
}

/* Writes the reasons of the selected clients: those in memory, those in the journal, and those of
 * the clients that dropped out without a word. */
static sefl_status add_whys(turnout *t, selection *s)
{
    const turnout_round *const at[] = { &t->before, &t->now };
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < at[i]->why_n; k++)
            if (at[i]->round >= s->first && at[i]->round < s->first + s->rounds)
                (void)!add_why(s, at[i]->round, at[i]->why[k].client,
                               span_of_str(at[i]->why[k].text));
    pthread_mutex_unlock(&t->lock);
    SEFL_PASS(attendance_whys(t->j, s->first, s->first + s->rounds - 1, add_stored_why, s));
    for (unsigned c = 0; c < s->rounds && s->first + c < s->last; c++)
        for (unsigned i = 0; i < s->clients; i++)
            if (s->cells[i][c] == 'd' && !s->told[i][c])
                write_why(s, i, s->first + c,
                          span_of_str("fetched the model and sent no update in time"));
    return SEFL_OK;
}

static void write_counts(json *j, uint64_t round, const turnout_counts *c)
{
    json_open(j, '{');
    json_fields(j, lf_u64("round", round), lf_u64("arrived", c->arrived), lf_u64("late", c->late),
                lf_u64("dropped", c->dropped), lf_u64("refused", c->refused));
    json_close(j, '}');
}

static sefl_status write_grid(turnout *t, selection *s, sefl_buf *out)
{
    json *j = &s->j;
    *j = json_into(out);
    json_open(j, '{');
    json_fields(j, lf_u64("enrolled", t->of->enrolled), lf_u64("seen", s->seen));
    json_key(j, "rounds"), json_open(j, '[');
    for (unsigned i = 0; i < s->rounds; i++)
        json_u64(j, s->first + i);
    json_close(j, ']');
    json_key(j, "clients"), json_open(j, '[');
    for (unsigned i = 0; i < s->clients; i++) {
        json_open(j, '{');
        json_fields(j, lf_str("name", s->name[i]), lf_str("cells", s->cells[i]));
        json_close(j, '}');
    }
    json_close(j, ']');
    json_key(j, "why"), json_open(j, '[');
    if (s->rounds > 0)
        SEFL_PASS(add_whys(t, s));
    json_close(j, ']');
    json_key(j, "counts"), json_open(j, '[');
    for (unsigned i = 0; i < s->rounds; i++)
        if (s->known[i])
            write_counts(j, s->first + i, &s->counts[i]);
    json_close(j, ']');
    json_close(j, '}');
    return json_end(j);
}

sefl_status turnout_grid(turnout *t, sefl_buf *out, const page_grid_ask *ask)
{
    sefl_status st = SEFL_OK;
    selection *s = NULL;
    SEFL_PASS(sefl_new(&s, 1, sizeof *s));
    SEFL_TRY(select_all(t, s, ask));
    if (s->rounds > 0)
        SEFL_TRY(attendance_rounds(t->j, s->first, s->first + s->rounds - 1, add_round, s));
    add_present(t, s);
    SEFL_TRY(write_grid(t, s, out));
done:
    sefl_free(s->all);
    sefl_free(s);
    return st;
}
