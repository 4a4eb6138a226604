/* Design. A shared store keeps the files of a round in two tables:
 *     file(task, round, name, piece, bytes)     pieces of 1 MiB, numbered from 0
 *     round_key(task, round, kind, bytes)       KIND_FILES: 32 random bytes, from which and from
 *                                               the root the round file key is derived; KIND_KEM:
 *                                               CSP's; KIND_PAST: like KIND_FILES, for the secret
 *                                               that outlives the round (name PAST)
 * A file is replaced in one transaction. A wipe deletes rows; what the server keeps of them opens
 * nothing without the root. All statements use j->big, under the lock `files`. */
#include "base/alloc.h"
#include "base/ct.h"
#include "store/journal/journal_inside.h"
#include "store/journal/roundkey.h"

#include <inttypes.h>
#include <string.h>

enum { KIND_FILES = 0, KIND_KEM = 1, KIND_PAST = 2, PIECE = 1 << 20 };
#define PAST    "past/kept" /* no name of another file has a slash */
#define GET_MAX ((size_t)1 << 30)

/* ---- transactions -------------------------------------------------------------------------- */

static sefl_status begin(journal *j)
{
    SEFL_PASS(db_begin_shared(j->big));
    sefl_status st = guard_check(j, j->big);
    if (st != SEFL_OK)
        db_rollback(j->big);
    return st;
}

/* Ends the transaction of begin: commits if st is SEFL_OK. */
static sefl_status end(journal *j, sefl_status st)
{
    if (st == SEFL_OK)
        return db_commit(j->big);
    db_rollback(j->big);
    return st;
}

/* ---- keys ---------------------------------------------------------------------------------- */

typedef struct key_found {
    bool found;
    uint8_t bytes[ROUNDKEY_BYTES];
} key_found;

static sefl_status take_key(void *ctx, const db_row *row)
{
    key_found *k = ctx;
    sefl_span s = db_col_bytes(row, 0);
    SEFL_NEED(s.n == sizeof k->bytes, SEFL_ECRYPTO, "a round's key has %zu bytes", s.n);
    memcpy(k->bytes, s.p, s.n);
    k->found = true;
    return SEFL_OK;
}

static sefl_status stored_key(journal *j, uint64_t round, int kind, key_found *k)
{
    k->found = false;
    return db_each(j->big, take_key, k,
                   "SELECT bytes FROM round_key WHERE task = ? AND round = ? AND kind = ?",
                   db_u64(j->number), db_u64(round), db_u64((uint64_t)kind));
}

static sefl_status key_of(journal *j, uint64_t round, round_part part, uint8_t key[ROUNDKEY_BYTES],
                          const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    const int kind = part == ROUND_PAST ? KIND_PAST : KIND_FILES;
    key_found k = { .found = false };
    sha256 h;
    SEFL_TRY(stored_key(j, round, kind, &k));
    if (!k.found && rng) {
        SEFL_TRY(rng_fill(rng, k.bytes, sizeof k.bytes));
        SEFL_TRY(begin(j));
        SEFL_TRY(
            end(j, db_run(j->big, "INSERT INTO round_key VALUES(?,?,?,?) ON CONFLICT DO NOTHING",
                          db_u64(j->number), db_u64(round), db_u64((uint64_t)kind),
                          db_blob(span_of(k.bytes, sizeof k.bytes)))));
        SEFL_TRY(stored_key(j, round, kind, &k)); /* perhaps another process's */
    }
    SEFL_CHECK(k.found, SEFL_ENOTFOUND, "round %" PRIu64 " has no file key", round);
    sha256_init(&h);
    sha256_add(&h, span_of_str("sefl store key 1"));
    sha256_add(&h, span_of(j->root, sizeof j->root));
    sha256_add(&h, span_of(k.bytes, sizeof k.bytes));
    sha256_end(&h, key);
done:
    sefl_wipe(&k, sizeof k);
    sefl_wipe(&h, sizeof h);
    return st;
}

/* ---- files --------------------------------------------------------------------------------- */

static sefl_status write_pieces(journal *j, uint64_t round, const char *name, sefl_span bytes)
{
    SEFL_PASS(db_run(j->big, "DELETE FROM file WHERE task = ? AND round = ? AND name = ?",
                     db_u64(j->number), db_u64(round), db_text(name)));
    for (size_t at = 0, i = 0; i == 0 || at < bytes.n; at += PIECE, i++) {
        size_t n = bytes.n - at < PIECE ? bytes.n - at : PIECE;
        SEFL_PASS(db_run(j->big, "INSERT INTO file VALUES(?,?,?,?,?)", db_u64(j->number),
                         db_u64(round), db_text(name), db_u64(i),
                         db_blob(n ? span_of(bytes.p + at, n) : (sefl_span){ 0 })));
    }
    return SEFL_OK;
}

static sefl_status db_files_put(journal *j, uint64_t round, round_part part, const char *name,
                                sefl_span bytes)
{
    SEFL_PASS(begin(j));
    return end(j, write_pieces(j, round, part == ROUND_PAST ? PAST : name, bytes));
}

typedef struct piece_found {
    sefl_buf *out;
    bool found;
    size_t n;
} piece_found;

static sefl_status take_piece(void *ctx, const db_row *row)
{
    piece_found *p = ctx;
    sefl_span s = db_col_bytes(row, 0);
    p->found = true;
    p->n = s.n;
    return wr_raw(p->out, s.p, s.n);
}

/* Piece by piece: another process that replaced the file in between is noticed by its seal. */
static sefl_status db_files_get(journal *j, uint64_t round, round_part part, const char *file,
                                sefl_buf *out)
{
    sefl_status st = SEFL_OK;
    const char *name = part == ROUND_PAST ? PAST : file;
    const size_t before = out->n;
    piece_found p = { .out = out, .n = PIECE };
    for (uint64_t i = 0; st == SEFL_OK && p.n == PIECE; i++) {
        p.found = false, p.n = 0;
        st = db_each(j->big, take_piece, &p,
                     "SELECT bytes FROM file WHERE task = ? AND round = ? AND name = ? AND "
                     "piece = ?",
                     db_u64(j->number), db_u64(round), db_text(name), db_u64(i));
        if (st == SEFL_OK && i == 0 && !p.found)
            st = sefl_fail(SEFL_ENOTFOUND, "round %" PRIu64 " has no file %s", round, name);
        if (st == SEFL_OK && out->n - before > GET_MAX)
            st = sefl_fail(SEFL_ERANGE, "file %s of round %" PRIu64 " is too long", name, round);
    }
    if (st != SEFL_OK)
        out->n = before;
    return st;
}

static sefl_status delete_round(journal *j, uint64_t round)
{
    SEFL_PASS(db_run(j->big, "DELETE FROM round_key WHERE task = ? AND round = ? AND kind = ?",
                     db_u64(j->number), db_u64(round), db_u64(KIND_FILES)));
    return db_run(j->big, "DELETE FROM file WHERE task = ? AND round = ? AND name <> '" PAST "'",
                  db_u64(j->number), db_u64(round));
}

static sefl_status count_round(journal *j, uint64_t round, uint64_t *out)
{
    return db_each(j->big, db_take_u64, out,
                   "SELECT (SELECT count(*) FROM round_key WHERE task = ?1 AND round = ?2 AND "
                   "kind = 0) + (SELECT count(*) FROM file WHERE task = ?1 AND round = ?2 AND "
                   "name <> '" PAST "')",
                   db_u64(j->number), db_u64(round));
}

static sefl_status wipe(journal *j, uint64_t round)
{
    uint64_t n = 0;
    SEFL_PASS(count_round(j, round, &n));
    if (n > 0) {
        SEFL_PASS(begin(j));
        SEFL_PASS(end(j, delete_round(j, round)));
        SEFL_PASS(db_tidy(j->big, "round_key"));
    }
    return folder_wipe_round(j, round);
}

/* ---- a secret that outlives its round -------------------------------------------------------- */

typedef struct key_list {
    uint64_t (*at)[2]; /* task, round */
    size_t n, cap;
} key_list;

static sefl_status take_place(void *ctx, const db_row *row)
{
    key_list *l = ctx;
    SEFL_PASS(sefl_room(&l->at, &l->cap, l->n + 1, sizeof *l->at));
    l->at[l->n][0] = db_col_u64(row, 0);
    l->at[l->n++][1] = db_col_u64(row, 1);
    return SEFL_OK;
}

static sefl_status delete_past(journal *j, uint64_t task, uint64_t round)
{
    SEFL_PASS(db_run(j->big, "DELETE FROM round_key WHERE task = ? AND round = ? AND kind = ?",
                     db_u64(task), db_u64(round), db_u64(KIND_PAST)));
    return db_run(j->big, "DELETE FROM file WHERE task = ? AND round = ? AND name = ?",
                  db_u64(task), db_u64(round), db_text(PAST));
}

static sefl_status past_keep(journal *j, uint64_t from, uint64_t to)
{
    sefl_status st = SEFL_OK;
    key_list l = { 0 };
    bool any = false;
    SEFL_TRY(db_each(j->big, take_place, &l, "SELECT task, round FROM round_key WHERE kind = ?",
                     db_u64(KIND_PAST)));
    for (size_t i = 0; i < l.n; i++) {
        if (l.at[i][0] == j->number && l.at[i][1] >= from && l.at[i][1] <= to)
            continue;
        SEFL_TRY(begin(j));
        SEFL_TRY(end(j, delete_past(j, l.at[i][0], l.at[i][1])));
        any = true;
    }
    if (any)
        SEFL_TRY(db_tidy(j->big, "round_key"));
done:
    sefl_free(l.at);
    return st;
}

/* ---- CSP: the bytes of a round's sealing key ------------------------------------------------- */

static sefl_status replace_kem(journal *j, uint64_t task, uint64_t round, const uint8_t *bytes)
{
    SEFL_PASS(db_run(j->big, "DELETE FROM round_key WHERE task = ? AND round = ? AND kind = ?",
                     db_u64(task), db_u64(round), db_u64(KIND_KEM)));
    return bytes ? db_run(j->big, "INSERT INTO round_key VALUES(?,?,?,?)", db_u64(task),
                          db_u64(round), db_u64(KIND_KEM), db_blob(span_of(bytes, JOURNAL_KEM)))
                 : SEFL_OK;
}

static sefl_status set_kem(journal *j, uint64_t task, uint64_t round, const uint8_t *bytes)
{
    SEFL_PASS(begin(j));
    SEFL_PASS(end(j, replace_kem(j, task, round, bytes)));
    return bytes ? SEFL_OK : db_tidy(j->big, "round_key");
}

static sefl_status kem_put(journal *j, uint64_t round, const uint8_t *bytes)
{
    key_found k = { .found = false };
    if (!bytes) { /* mostly there is none: then nothing to write */
        sefl_status st = stored_key(j, round, KIND_KEM, &k);
        sefl_wipe(&k.bytes, sizeof k.bytes);
        if (st != SEFL_OK || !k.found)
            return st;
    }
    return set_kem(j, j->number, round, bytes);
}

static sefl_status kem_get(journal *j, uint64_t round, uint8_t bytes[JOURNAL_KEM])
{
    key_found k = { .found = false };
    sefl_status st = stored_key(j, round, KIND_KEM, &k);
    if (st == SEFL_OK && k.found)
        memcpy(bytes, k.bytes, JOURNAL_KEM);
    sefl_wipe(&k, sizeof k);
    SEFL_NEED(st != SEFL_OK || !roundkey_is_zero(bytes), SEFL_ENOTFOUND,
              "round %" PRIu64 " has no sealing key", round);
    return st;
}

/* Not under the lock during `keep`, which reads rows. */
static sefl_status kem_sweep(journal *j, kem_keep_fn *keep, void *ctx)
{
    sefl_status st = SEFL_OK;
    key_list l = { 0 };
    pthread_mutex_lock(&j->files);
    st = db_each(j->big, take_place, &l, "SELECT task, round FROM round_key WHERE kind = ?",
                 db_u64(KIND_KEM));
    pthread_mutex_unlock(&j->files);
    SEFL_TRY(st);
    for (size_t i = 0; i < l.n; i++) {
        bool yes = false;
        if (l.at[i][0] == j->number)
            SEFL_TRY(keep(ctx, l.at[i][1], &yes));
        if (yes)
            continue;
        pthread_mutex_lock(&j->files);
        st = set_kem(j, l.at[i][0], l.at[i][1], NULL);
        pthread_mutex_unlock(&j->files);
        SEFL_TRY(st);
    }
done:
    sefl_free(l.at);
    return st;
}

const round_files db_files = {
    .key = key_of,
    .put = db_files_put,
    .get = db_files_get,
    .wipe = wipe,
    .past_keep = past_keep,
    .kem_put = kem_put,
    .kem_get = kem_get,
    .kem_sweep = kem_sweep,
};
