#include "store/journal/attendance.h"

#include "store/journal/journal_inside.h"

#include <stdio.h>

typedef struct walk {
    attendance_client_fn *client;
    attendance_fn *round;
    attendance_why_fn *why;
    void *ctx;
} walk;

sefl_status attendance_client_put(journal *j, uint64_t number, const uint8_t client[32],
                                  const char *name)
{
    return journal_rows(j, 0, NULL, NULL, "INSERT INTO attendee VALUES(?,?,?,?)", db_u64(j->number),
                        db_u64(number), db_blob(span_of(client, 32)), db_text(name));
}

static sefl_status walk_client(void *ctx, const db_row *row)
{
    const walk *w = ctx;
    uint8_t client[32];
    char name[65];
    const sefl_span s = db_col_bytes(row, 2);
    SEFL_PASS(journal_take(row, 1, client, sizeof client));
    SEFL_NEED(s.n < sizeof name, SEFL_EPROTO, "journal: a name of %zu bytes", s.n);
    snprintf(name, sizeof name, "%.*s", (int)s.n, s.n > 0 ? (const char *)s.p : "");
    return w->client(w->ctx, db_col_u64(row, 0), client, name);
}

sefl_status attendance_clients(journal *j, attendance_client_fn *fn, void *ctx)
{
    return journal_rows(j, 0, walk_client, (&(walk){ .client = fn, .ctx = ctx }),
                        "SELECT number, client, name FROM attendee WHERE task = ? ORDER BY number",
                        db_u64(j->number));
}

sefl_status attendance_put(journal *j, const attendance *a)
{
    SEFL_PASS(journal_rows(j, a->round, NULL, NULL,
                           "INSERT INTO attendance VALUES(?,?,?,?) ON CONFLICT(task, round) DO "
                           "UPDATE SET ended = excluded.ended, fates = excluded.fates",
                           db_u64(j->number), db_u64(a->round), db_u64(a->ended),
                           db_blob(a->fates)));
    return journal_rows(j, a->round, NULL, NULL,
                        "DELETE FROM attendance_why WHERE task = ? AND round = ?",
                        db_u64(j->number), db_u64(a->round));
}

sefl_status attendance_why_put(journal *j, uint64_t round, uint64_t client, const char *why)
{
    return journal_rows(j, round, NULL, NULL, "INSERT INTO attendance_why VALUES(?,?,?,?)",
                        db_u64(j->number), db_u64(round), db_u64(client), db_text(why));
}

sefl_status attendance_forget(journal *j, uint64_t round)
{
    SEFL_PASS(journal_rows(j, round, NULL, NULL,
                           "DELETE FROM attendance WHERE task = ? AND round <= ?",
                           db_u64(j->number), db_u64(round)));
    return journal_rows(j, round, NULL, NULL,
                        "DELETE FROM attendance_why WHERE task = ? AND round <= ?",
                        db_u64(j->number), db_u64(round));
}

static sefl_status walk_round(void *ctx, const db_row *row)
{
    const walk *w = ctx;
    return w->round(w->ctx, &(attendance){ .round = db_col_u64(row, 0),
                                           .ended = (unsigned)db_col_u64(row, 1),
                                           .fates = db_col_bytes(row, 2) });
}

sefl_status attendance_rounds(journal *j, uint64_t from, uint64_t to, attendance_fn *fn, void *ctx)
{
    return journal_rows(j, to, walk_round, (&(walk){ .round = fn, .ctx = ctx }),
                        "SELECT round, ended, fates FROM attendance WHERE task = ? AND round "
                        "BETWEEN ? AND ? ORDER BY round",
                        db_u64(j->number), db_u64(from), db_u64(to));
}

static sefl_status walk_why(void *ctx, const db_row *row)
{
    const walk *w = ctx;
    return w->why(w->ctx, db_col_u64(row, 0), db_col_u64(row, 1), db_col_bytes(row, 2));
}

sefl_status attendance_whys(journal *j, uint64_t from, uint64_t to, attendance_why_fn *fn,
                            void *ctx)
{
    return journal_rows(j, to, walk_why, (&(walk){ .why = fn, .ctx = ctx }),
                        "SELECT round, client, why FROM attendance_why WHERE task = ? AND round "
                        "BETWEEN ? AND ? ORDER BY round, client",
                        db_u64(j->number), db_u64(from), db_u64(to));
}
