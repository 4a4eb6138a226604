#include "store/journal/shared.h"

#include "store/journal/journal_inside.h"

#include <inttypes.h>
#include <string.h>

enum { TRIES = 4 };

/* Every table is new: an empty database, or that of an aggregator that was alone. */
static const char *const tables[] = {
    "CREATE SEQUENCE holder_number",
    "ALTER TABLE body ADD COLUMN holder BIGINT NOT NULL DEFAULT 0, "
    "ADD COLUMN place BIGINT NOT NULL DEFAULT 0",
    "CREATE INDEX body_arrivals ON body(task, round, holder, place)",
    "CREATE UNIQUE INDEX body_once ON body(task, hash)",
    "CREATE TABLE quota(task BIGINT NOT NULL, round BIGINT NOT NULL, holder BIGINT NOT NULL,"
    " granted BIGINT NOT NULL, used BIGINT NOT NULL, PRIMARY KEY(task, round, holder))",
    "CREATE TABLE request(id BIGSERIAL PRIMARY KEY, task BIGINT NOT NULL, kind BIGINT NOT NULL,"
    " bytes BYTEA NOT NULL, until TIMESTAMPTZ NOT NULL, status BIGINT, answer BYTEA)",
    "CREATE TABLE part(task BIGINT NOT NULL, round BIGINT NOT NULL, holder BIGINT NOT NULL,"
    " uploads BIGINT NOT NULL, owner BIGINT NOT NULL, until TIMESTAMPTZ NOT NULL,"
    " maker BIGINT NOT NULL DEFAULT 0, hash BYTEA, failures BIGINT NOT NULL DEFAULT 0, PRIMARY "
    "KEY(task, round, holder))",
};
#define LATER "now() + CAST(? AS BIGINT) * INTERVAL '1 millisecond'"

/* ---- statements ------------------------------------------------------------------------------ */

#define each(j, fn, ctx, sql, ...) journal_rows((j), 0, (fn), (ctx), sql, ##__VA_ARGS__)
#define run(j, sql, ...)           each((j), NULL, NULL, sql, ##__VA_ARGS__)

static db_value bytes32(const uint8_t p[32])
{
    return db_blob(span_of(p, 32));
}

/* ---- opening --------------------------------------------------------------------------------- */

static sefl_status make_tables(journal *j)
{
    sefl_status st = SEFL_OK;
    uint64_t there = 0;
    SEFL_PASS(journal_begin(j)); /* one process at a time */
    SEFL_TRY(each(j, db_take_u64, &there,
                  "SELECT count(*) FROM pg_class WHERE oid = to_regclass('part')"));
    for (size_t i = 0; there == 0 && i < sizeof tables / sizeof *tables; i++)
        SEFL_TRY(run(j, tables[i]));
    SEFL_TRY(journal_commit(j));
done:
    if (st != SEFL_OK)
        journal_rollback(j);
    return st;
}

sefl_status shared_open(journal *j, uint64_t *me)
{
    *me = 0;
    SEFL_PASS(make_tables(j));
    SEFL_PASS(each(j, db_take_u64, me, "SELECT nextval('holder_number')"));
    SEFL_NEED(*me > 0, SEFL_EPROTO, "store: no number for this process");
    return SEFL_OK;
}

/* ---- uploads --------------------------------------------------------------------------------- */

static sefl_status put_once(journal *j, const shared_rule *r, uint64_t me, const journal_update *u,
                            uint64_t *place)
{
    *place = 0;
    return each(j, db_take_u64, place,
                "WITH open AS (SELECT 1 FROM round WHERE task = ? AND round = ? AND state = ? "
                "FOR SHARE), "
                "slot AS (UPDATE quota SET used = used + 1 FROM open WHERE quota.task = ? AND "
                "quota.round = ? AND holder = ? AND used < granted RETURNING used) "
                "INSERT INTO body(task, round, client, name, hash, bytes, when_ms, holder, place) "
                "SELECT CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS BYTEA), CAST(? AS TEXT), "
                "CAST(? AS BYTEA), CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS BIGINT), used "
                "FROM slot RETURNING place",
                db_u64(j->number), db_u64(u->round), db_u64(r->collecting), db_u64(j->number),
                db_u64(u->round), db_u64(me), db_u64(j->number), db_u64(u->round),
                bytes32(u->client), db_text(u->name), bytes32(u->body), db_u64(u->bytes),
                db_u64(u->when_ms), db_u64(me));
}

/* Gets slots for this process; *granted is 0 if the round is full. */
static sefl_status grant(journal *j, const shared_rule *r, uint64_t me, uint64_t round,
                         uint64_t *granted)
{
    sefl_status st = SEFL_OK;
    uint64_t taken = 0;
    SEFL_PASS(journal_begin(j)); /* one process at a time */
    SEFL_TRY(run(j, "INSERT INTO quota VALUES(?, ?, ?, 0, 0) ON CONFLICT DO NOTHING",
                 db_u64(j->number), db_u64(round), db_u64(me)));
    for (int steal = 0; steal < 2; steal++) {
        if (steal)
            SEFL_TRY(run(j, "UPDATE quota SET granted = used WHERE task = ? AND round = ?",
                         db_u64(j->number), db_u64(round)));
        SEFL_TRY(each(j, db_take_u64, &taken,
                      "SELECT CAST(sum(granted) AS BIGINT) FROM quota WHERE task = ? AND "
                      "round = ?",
                      db_u64(j->number), db_u64(round)));
        if (taken + r->ahead <= r->most)
            break;
    }
    *granted = taken >= r->most ? 0 : r->most - taken < r->ahead ? r->most - taken : r->ahead;
    SEFL_TRY(run(j,
                 "UPDATE quota SET granted = granted + ? WHERE task = ? AND round = ? AND "
                 "holder = ?",
                 db_u64(*granted), db_u64(j->number), db_u64(round), db_u64(me)));
    SEFL_TRY(journal_commit(j));
done:
    if (st != SEFL_OK)
        journal_rollback(j);
    return st;
}

static sefl_status is_open(journal *j, const shared_rule *r, uint64_t round, bool *out)
{
    uint64_t n = 0;
    SEFL_PASS(each(j, db_take_u64, &n,
                   "SELECT count(*) FROM round WHERE task = ? AND round = ? AND state = ?",
                   db_u64(j->number), db_u64(round), db_u64(r->collecting)));
    *out = n > 0;
    return SEFL_OK;
}

sefl_status shared_put(journal *j, const shared_rule *r, uint64_t me, const journal_update *u)
{
    SEFL_NEED(memchr(u->name, 0, sizeof u->name) != NULL, SEFL_EINVAL,
              "the client's name is too long");
    for (int i = 0; i < TRIES; i++) {
        uint64_t place, granted;
        bool open;
        SEFL_PASS(put_once(j, r, me, u, &place));
        if (place > 0)
            return SEFL_OK;
        SEFL_PASS(is_open(j, r, u->round, &open));
        SEFL_NEED(open, SEFL_ESTATE, "round %" PRIu64 " does not accept uploads", u->round);
        SEFL_PASS(grant(j, r, me, u->round, &granted));
        SEFL_NEED(granted > 0, SEFL_ERANGE, "round %" PRIu64 " is full", u->round);
    } /* other processes took the slots back each time */
    return sefl_fail(SEFL_ERANGE, "round %" PRIu64 " is full", u->round);
}

static sefl_status take_known(void *ctx, const db_row *row)
{
    shared_known *k = ctx;
    k->have = !db_col_null(row, 0);
    if (k->have) {
        SEFL_PASS(journal_take(row, 0, k->body, 32));
        k->bytes = db_col_u64(row, 1);
    }
    k->rounds = db_col_u64(row, 2);
    k->last = db_col_u64(row, 3);
    k->copied = db_col_u64(row, 4) > 0;
    return SEFL_OK;
}

sefl_status shared_know(journal *j, uint64_t round, const uint8_t client[32],
                        const uint8_t body[32], shared_known *out)
{
    const db_value task = db_u64(j->number), n = db_u64(round), who = bytes32(client);
    *out = (shared_known){ 0 };
    return each(j, take_known, out,
                "SELECT m.hash, coalesce(m.bytes, 0), t.rounds, t.last, "
                "(SELECT count(*) FROM body c WHERE c.task = ? AND c.hash = ? AND NOT "
                "(c.round = ? AND c.client = ?)) "
                "FROM (SELECT count(*) AS rounds, coalesce(max(b.round), 0) AS last FROM body b "
                "LEFT JOIN round r ON r.task = b.task AND r.round = b.round WHERE b.task = ? AND "
                "b.client = ? AND coalesce(r.skipped, 0) != 1) t "
                "LEFT JOIN body m ON m.task = ? AND m.round = ? AND m.client = ?",
                task, bytes32(body), n, who, task, who, task, n, who);
}

sefl_status shared_count(journal *j, uint64_t round, uint32_t *out)
{
    uint64_t n = 0;
    sefl_status st = each(j, db_take_u64, &n,
                          "SELECT CAST(coalesce(sum(used), 0) AS BIGINT) FROM quota WHERE task = ? "
                          "AND round = ?",
                          db_u64(j->number), db_u64(round));
    *out = (uint32_t)n;
    return st;
}

typedef struct walk {
    shared_holder_fn *holder;
    shared_upload_fn *upload;
    shared_part_fn *part;
    void *ctx;
    uint64_t round;
} walk;

static sefl_status walk_holder(void *ctx, const db_row *row)
{
    const walk *w = ctx;
    return w->holder(w->ctx, db_col_u64(row, 0), db_col_u64(row, 1));
}

sefl_status shared_holders(journal *j, uint64_t round, shared_holder_fn *fn, void *ctx)
{
    return each(j, walk_holder, (&(walk){ .holder = fn, .ctx = ctx }),
                "SELECT holder, used FROM quota WHERE task = ? AND round = ? AND used > 0 "
                "ORDER BY holder",
                db_u64(j->number), db_u64(round));
}

static sefl_status walk_upload(void *ctx, const db_row *row)
{
    const walk *w = ctx;
    uint8_t client[32], body[32];
    SEFL_PASS(journal_take(row, 1, client, 32));
    SEFL_PASS(journal_take(row, 2, body, 32));
    return w->upload(w->ctx, db_col_u64(row, 0), client, body);
}

#define SELECT_UPLOAD "SELECT holder, client, hash FROM body WHERE task = ? AND round = ? "

sefl_status shared_uploads(journal *j, uint64_t round, uint64_t holder, uint64_t after,
                           shared_upload_fn *fn, void *ctx)
{
    walk w = { .upload = fn, .ctx = ctx };
    if (holder == 0)
        return each(j, walk_upload, &w, SELECT_UPLOAD "ORDER BY client", db_u64(j->number),
                    db_u64(round));
    return each(j, walk_upload, &w, SELECT_UPLOAD "AND holder = ? AND place > ? ORDER BY place",
                db_u64(j->number), db_u64(round), db_u64(holder), db_u64(after));
}

/* ---- partial sums ---------------------------------------------------------------------------- */

sefl_status shared_freeze(journal *j, uint64_t round, uint64_t lease_ms)
{
    return run(j,
               "INSERT INTO part(task, round, holder, uploads, owner, until) "
               "SELECT task, round, holder, used, holder, " LATER " FROM quota WHERE task = ? AND "
               "round = ? AND used > 0 ON CONFLICT DO NOTHING",
               db_u64(lease_ms), db_u64(j->number), db_u64(round));
}

static sefl_status walk_part(void *ctx, const db_row *row)
{
    const walk *w = ctx;
    shared_part p = { .round = w->round,
                      .holder = db_col_u64(row, 0),
                      .uploads = db_col_u64(row, 1),
                      .maker = db_col_u64(row, 2),
                      .failures = db_col_u64(row, 4) };
    if (p.maker > 0)
        SEFL_PASS(journal_take(row, 3, p.hash, 32));
    return w->part(w->ctx, &p);
}

static sefl_status keep_part(void *ctx, const shared_part *p)
{
    *(shared_part *)ctx = *p;
    return SEFL_OK;
}

sefl_status shared_part_take(journal *j, uint64_t round, uint64_t me, uint64_t lease_ms,
                             shared_part *out, bool *found)
{
    walk w = { .part = keep_part, .ctx = out, .round = round };
    *out = (shared_part){ 0 };
    SEFL_PASS(each(j, walk_part, &w,
                   "UPDATE part SET owner = ?, until = " LATER " WHERE task = ? AND round = ? AND "
                   "holder = (SELECT holder FROM part WHERE task = ? AND round = ? AND maker = 0 "
                   "AND (owner = ? OR until < now()) ORDER BY holder = ? DESC LIMIT 1 FOR UPDATE "
                   "SKIP LOCKED) AND maker = 0 RETURNING holder, uploads, maker, hash, failures",
                   db_u64(me), db_u64(lease_ms), db_u64(j->number), db_u64(round),
                   db_u64(j->number), db_u64(round), db_u64(me), db_u64(me)));
    *found = out->holder > 0;
    return SEFL_OK;
}

sefl_status shared_part_renew(journal *j, const shared_part *p, uint64_t me, uint64_t lease_ms,
                              bool *still)
{
    uint64_t holder = 0;
    SEFL_PASS(each(j, db_take_u64, &holder,
                   "UPDATE part SET until = " LATER " WHERE task = ? AND round = ? AND holder = ? "
                   "AND owner = ? AND maker = 0 RETURNING holder",
                   db_u64(lease_ms), db_u64(j->number), db_u64(p->round), db_u64(p->holder),
                   db_u64(me)));
    *still = holder > 0;
    return SEFL_OK;
}

sefl_status shared_part_done(journal *j, const shared_part *p, uint64_t me,
                             const uint8_t hash[SHA256_BYTES])
{
    return run(j,
               "UPDATE part SET maker = ?, hash = ? WHERE task = ? AND round = ? AND holder = ? "
               "AND maker = 0",
               db_u64(me), bytes32(hash), db_u64(j->number), db_u64(p->round), db_u64(p->holder));
}

sefl_status shared_part_failed(journal *j, const shared_part *p, uint64_t me)
{
    return run(
        j,
        "UPDATE part SET failures = failures + 1, owner = 0, until = now() WHERE task = ? AND "
        "round = ? AND holder = ? AND owner = ? AND maker = 0",
        db_u64(j->number), db_u64(p->round), db_u64(p->holder), db_u64(me));
}

sefl_status shared_part_again(journal *j, const shared_part *p)
{
    return run(j,
               "UPDATE part SET maker = 0, hash = NULL, until = now() WHERE task = ? AND "
               "round = ? AND holder = ? AND maker = ?",
               db_u64(j->number), db_u64(p->round), db_u64(p->holder), db_u64(p->maker));
}

sefl_status shared_parts(journal *j, uint64_t round, shared_part_fn *fn, void *ctx)
{
    return each(
        j, walk_part, (&(walk){ .part = fn, .ctx = ctx, .round = round }),
        "SELECT holder, uploads, maker, hash, failures FROM part WHERE task = ? AND round = ? "
        "ORDER BY holder",
        db_u64(j->number), db_u64(round));
}

sefl_status shared_forget(journal *j, uint64_t round)
{
    SEFL_PASS(
        run(j, "DELETE FROM part WHERE task = ? AND round <= ?", db_u64(j->number), db_u64(round)));
    return run(j, "DELETE FROM quota WHERE task = ? AND round <= ?", db_u64(j->number),
               db_u64(round));
}

/* ---- questions to the leader ----------------------------------------------------------------- */

sefl_status shared_ask(journal *j, unsigned kind, sefl_span bytes, uint64_t wait_ms, uint64_t *id)
{
    *id = 0;
    SEFL_PASS(run(j, "DELETE FROM request WHERE until < now()"));
    return each(j, db_take_u64, id,
                "INSERT INTO request(task, kind, bytes, until) VALUES(?, ?, ?, " LATER
                ") RETURNING id",
                db_u64(j->number), db_u64(kind), db_blob(bytes), db_u64(wait_ms));
}

typedef struct reply {
    bool found;
    uint64_t id;
    unsigned word;
    sefl_buf *bytes;
} reply;

static sefl_status take_reply(void *ctx, const db_row *row)
{
    reply *r = ctx;
    sefl_span s = db_col_bytes(row, 2);
    r->found = true;
    r->id = db_col_u64(row, 0);
    r->word = (unsigned)db_col_u64(row, 1);
    return s.n > 0 ? wr_raw(r->bytes, s.p, s.n) : SEFL_OK;
}

sefl_status shared_answered(journal *j, uint64_t id, bool *done, unsigned *status, sefl_buf *answer)
{
    reply r = { .bytes = answer };
    *done = false;
    SEFL_PASS(each(j, take_reply, &r,
                   "DELETE FROM request WHERE id = ? AND status IS NOT NULL RETURNING id, status, "
                   "answer",
                   db_u64(id)));
    *done = r.found;
    *status = r.word;
    return SEFL_OK;
}

sefl_status shared_asked(journal *j, uint64_t after, uint64_t *id, unsigned *kind, sefl_buf *bytes)
{
    reply r = { .bytes = bytes };
    *id = 0;
    SEFL_PASS(each(j, take_reply, &r,
                   "SELECT id, kind, bytes FROM request WHERE task = ? AND status IS NULL AND "
                   "id > ? AND until >= now() ORDER BY id LIMIT 1",
                   db_u64(j->number), db_u64(after)));
    *id = r.id;
    *kind = r.word;
    return SEFL_OK;
}

sefl_status shared_answer(journal *j, uint64_t id, unsigned status, sefl_span answer)
{
    return run(j, "UPDATE request SET status = ?, answer = ? WHERE id = ?", db_u64(status),
               db_blob(answer), db_u64(id));
}
