/* journal: a role's record of its rounds, in one folder that survives kill -9, or in a database
 * that several processes share (journal_place).
 *
 *     folder/lock              the process that uses the folder locks this and writes its id here
 *     folder/journal.db        SQLite (store/db/db.h): rounds, updates, small facts
 *     folder/task-T/round-N/   large files of round N of the T-th task, synced before they count:
 *         key                  32 bytes: the round file key, created with the round's first secret
 *         NAME                 encrypted under it (store/journal/roundkey.h), or public bytes
 *         bodies/HASH          AS: updates (store/journal/spool.h)
 *     folder/task-T/round-N.kem  CSP: the 32 bytes from which it derives the key of round N
 *     folder/task-T/round-N.past/  a secret that outlives the wipe of round N: key, kept
 *     folder/task-T/lane-N.seed  CSP: 32 secret bytes of lane N's last noise session, and its id
 *
 *     SEFL_TRY(journal_open(&j, folder, "csp", task_id));        // creates the folder, mode 0700
 *     SEFL_TRY(journal_round_put(j, &r));                         // durable on return
 *     SEFL_TRY(journal_secret_put(j, round, "mask", bytes, &rng)); // durable too
 *     SEFL_TRY(journal_round_wipe(j, round));                     // destroys the round's files
 *
 * Only one process may open a folder (flock); a second one gets an error that names the first.
 * Round numbers, 0 to 2^63 - 1, belong to the task given at open. Each task has its own rounds; to
 * read older ones, open the journal with their task. If the folder has rounds that its database
 * does not contain, somebody deleted the database or restored an older copy: SEFL_ESTATE. A failing
 * disk (full, read-only) is SEFL_EIO with the system's reason and changes nothing, with one
 * exception: after a failed *sync* of the database, the complete change may be present after the
 * next start. On flash memory or a copy-on-write file system, an overwritten key may survive as a
 * copy: docs/THREATS.md. Names of facts: 1 to 255 bytes. Names of files: at most 64 letters,
 * digits, '.', '_' and '-', no leading point; "key" is reserved.
 * Threads: calls lock internally; one process.   Secrets: the encrypted files, the keys. */
#ifndef STORE_JOURNAL_JOURNAL_H
#define STORE_JOURNAL_JOURNAL_H

#include "base/buf.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/span.h"

#include <stdbool.h>

typedef struct journal journal;

/* Where a journal lives.
 *   store NULL       in `folder` alone, as drawn above; one process.
 *   store a URL      in a PostgreSQL database (store/pg/pg.h), which several processes may open at
 *                    once. Rows, facts, keys and all files that the journal writes itself are in
 *                    the database: one place to back up, one transaction to fence, and a process
 *                    needs no shared disk to take over. Files are stored in pieces of 1 MiB, at
 *                    most 1 GiB each. `folder` then only holds what callers stream
 *                    (journal_path: the bodies of uploads), without a lock: a folder that the
 *                    processes share, or each process's own.
 * A deleted row survives in the database's files, its log and its backups for a while. So the
 * database never holds a usable key: the round file key is derived from the stored bytes and from
 * `root`, 32 secret bytes that are kept outside the database and are the same for all processes.
 * A database serves one owner: the first journal_open_at with an `owner` binds it before anything
 * else is stored, and one with another owner fails (SEFL_ESTATE). */
typedef struct journal_place {
    const char *folder;
    const char *store;    /* NULL, or postgresql://... */
    const uint8_t *root;  /* 32 bytes, copied; only with a store */
    const uint8_t *owner; /* 32 bytes: with a store, whom it serves; NULL: does not matter */
    const char *owner_is; /* with an owner, for messages: "task", "CSP with the signing key" */
    const sefl_progress *going; /* with a store: as in db_open_while; may be NULL */
} journal_place;

/* SEFL_EUNSUPPORTED if this build has no PostgreSQL, SEFL_EINVAL if the URL is refused. */
sefl_status journal_check_store(const char *url) SEFL_MUST_CHECK;
/* Also connects, once, and checks the server's settings; creates nothing. */
sefl_status journal_reach_store(const char *url) SEFL_MUST_CHECK;

/* If task is NULL, the journal has no task: use only journal_kem_sweep, journal_past_keep and
 * lasting facts. */
sefl_status journal_open_at(journal **out, const journal_place *at, const char *role,
                            const uint8_t task[32]) SEFL_MUST_CHECK;
/* journal_open_at without a store. */
sefl_status journal_open(journal **out, const char *folder, const char *role,
                         const uint8_t task[32]) SEFL_MUST_CHECK;
void journal_close(journal *j);
const char *journal_folder(const journal *j);
/* For messages: the folder, or the server and database. */
const char *journal_place_name(const journal *j);
/* True if other processes may use this journal at the same time. */
bool journal_is_shared(const journal *j);

/* ---- rounds ------------------------------------------------------------------------------- */

typedef struct journal_round {
    uint64_t round;
    unsigned state; /* the role's own stable number: agg_phase at AS, csp_round_state at CSP */
    uint64_t attempt;
    uint64_t opened_ms, deadline_ms, closed_ms; /* wall clock; 0: not yet */
    uint32_t clients, extensions;
    bool skipped;
    bool charged; /* skipped after its charge: its updates count in journal_client_rounds */
    bool has_set, has_model;
    uint8_t set[SHA256_BYTES];   /* hash of the frozen set */
    uint8_t model[SHA256_BYTES]; /* hash of the model that the round began with */
} journal_round;

/* Inserts or replaces a row. */
sefl_status journal_round_put(journal *j, const journal_round *r) SEFL_MUST_CHECK;
/* SEFL_ENOTFOUND if there is none. */
sefl_status journal_round_get(journal *j, uint64_t round, journal_round *out) SEFL_MUST_CHECK;
/* Loads the highest round; SEFL_ENOTFOUND if there is none. */
sefl_status journal_round_last(journal *j, journal_round *out) SEFL_MUST_CHECK;
/* Sets *out to the highest round in this state, or to 0 if there is none. */
sefl_status journal_round_highest(journal *j, unsigned state, uint64_t *out) SEFL_MUST_CHECK;

/* ---- facts: named bytes per round (0: of the whole task), at most 8 MiB ---------------------- */

/* Inserts or replaces a fact. */
sefl_status journal_fact_put(journal *j, uint64_t round, const char *name,
                             sefl_span value) SEFL_MUST_CHECK;
/* Appends the fact to out (NULL: only looks for it); SEFL_ENOTFOUND if there is none. */
sefl_status journal_fact_get(journal *j, uint64_t round, const char *name,
                             sefl_buf *out) SEFL_MUST_CHECK;
/* Reads a fact of exactly n bytes; SEFL_EPROTO if it has another length. */
sefl_status journal_fact_fixed(journal *j, uint64_t round, const char *name, void *out,
                               size_t n) SEFL_MUST_CHECK;
sefl_status journal_fact_has(journal *j, uint64_t round, const char *name,
                             bool *out) SEFL_MUST_CHECK;

/* Write and read facts of the whole folder, independent of the task (such as a ledger's head). */
sefl_status journal_lasting_put(journal *j, const char *name, sefl_span value) SEFL_MUST_CHECK;
sefl_status journal_lasting_get(journal *j, const char *name, sefl_buf *out) SEFL_MUST_CHECK;

/* Logs: named bytes of the whole folder that only grow (a shared ledger), at most 256 MiB. append
 * fails with SEFL_ESTATE unless the log has `at` bytes, so of two writers one succeeds. read:
 * SEFL_ENOTFOUND if nothing was appended. */
sefl_status journal_log_append(journal *j, const char *name, uint64_t at,
                               sefl_span bytes) SEFL_MUST_CHECK;
sefl_status journal_log_read(journal *j, const char *name, sefl_buf *out) SEFL_MUST_CHECK;

/* Transactions: several puts (rounds, facts, updates) take effect together or not at all.
 *
 *     SEFL_TRY(journal_begin(j));               // other threads wait until commit or rollback
 *     SEFL_TRY(journal_round_put(j, &r));
 *     SEFL_TRY(journal_commit(j));
 * done:
 *     if (st != SEFL_OK)
 *         journal_rollback(j);                  // does nothing after a failed begin or commit
 *
 * Files are not part of a transaction: write them first. Transactions do not nest (SEFL_ESTATE). */
sefl_status journal_begin(journal *j) SEFL_MUST_CHECK;
/* Like journal_begin, which excludes every other writer, but does not wait for other processes'
 * journal_begin_shared: for frequent small transactions. What they rely on, they lock: lease_check
 * (store/journal/lease.h). With SQLite the two are the same. */
sefl_status journal_begin_shared(journal *j) SEFL_MUST_CHECK;
sefl_status journal_commit(journal *j) SEFL_MUST_CHECK;
void journal_rollback(journal *j);

/* ---- large files of a round ------------------------------------------------------------------ */

/* Writes or replaces the file completely and durably, or changes nothing. */
sefl_status journal_secret_put(journal *j, uint64_t round, const char *name, sefl_span bytes,
                               const sefl_rng *rng) SEFL_MUST_CHECK;
/* Appends the secret to out. SEFL_ENOTFOUND if there is none; SEFL_ECRYPTO if the file was changed,
 * truncated or moved, or its key is gone. */
sefl_status journal_secret_get(journal *j, uint64_t round, const char *name,
                               sefl_buf *out) SEFL_MUST_CHECK;
sefl_status journal_file_put(journal *j, uint64_t round, const char *name,
                             sefl_span bytes) SEFL_MUST_CHECK;
/* Appends the file to out; SEFL_ENOTFOUND if there is none. */
sefl_status journal_file_get(journal *j, uint64_t round, const char *name,
                             sefl_buf *out) SEFL_MUST_CHECK;
/* Appends folder/task-T/round-N/NAME, for a caller that streams the file; creates the round's
 * folder. out->p is a C string (out->n does not count the terminator). */
sefl_status journal_path(journal *j, sefl_buf *out, uint64_t round,
                         const char *name) SEFL_MUST_CHECK;
/* Overwrites and syncs the round file key, then deletes the round's folder. May be called again;
 * the next journal_open completes a wipe that a crash interrupted. Rows and facts stay. In a shared
 * store: deletes key and files in one transaction, and vacuums the table of keys. */
sefl_status journal_round_wipe(journal *j, uint64_t round) SEFL_MUST_CHECK;

/* ---- a secret that outlives its round -------------------------------------------------------- */

/* Like journal_secret_put and journal_secret_get, under a key of its own: journal_round_wipe leaves
 * it. A round has one such secret. */
sefl_status journal_past_put(journal *j, uint64_t round, sefl_span bytes,
                             const sefl_rng *rng) SEFL_MUST_CHECK;
sefl_status journal_past_get(journal *j, uint64_t round, sefl_buf *out) SEFL_MUST_CHECK;
/* Destroys these secrets of every other task in the folder, and those of this task outside the
 * rounds from .. to (from > to: all), as journal_round_wipe does. Without a task all. */
sefl_status journal_past_keep(journal *j, uint64_t from, uint64_t to) SEFL_MUST_CHECK;

/* ---- CSP: the bytes of a round key ----------------------------------------------------------- */

enum { JOURNAL_KEM = 32 };

/* Stores the bytes durably, wiping earlier ones. SEFL_EINVAL for zeros, which mark a wiped key. */
sefl_status journal_kem_put(journal *j, uint64_t round,
                            const uint8_t bytes[JOURNAL_KEM]) SEFL_MUST_CHECK;
/* SEFL_ENOTFOUND if the bytes were never stored or are wiped. */
sefl_status journal_kem_get(journal *j, uint64_t round, uint8_t bytes[JOURNAL_KEM]) SEFL_MUST_CHECK;
/* Overwrites the bytes with zeros, syncs and deletes them; does nothing if there are none. A crash
 * before the deletion leaves zeros, which count as wiped. */
sefl_status journal_kem_wipe(journal *j, uint64_t round) SEFL_MUST_CHECK;
/* Wipes the bytes of every other task in the folder, and those of this task that `keep` rejects.
 * Without a task all are wiped, and keep is not called. */
sefl_status journal_kem_sweep(journal *j, sefl_status (*keep)(void *ctx, uint64_t round, bool *yes),
                              void *ctx) SEFL_MUST_CHECK;

/* ---- CSP: the secret of a noise session ----------------------------------------------------- */

/* In the folder even with a store, whose old rows survive. put stores the secret of session `id`,
 * the last one of this lane, durably; it wipes an earlier one. wipe overwrites the secret with
 * zeros, syncs and deletes the file. get, wipe: SEFL_ENOTFOUND if the lane's last session is
 * another one, or was wiped. */
sefl_status journal_seed_put(journal *j, unsigned lane, const uint8_t id[32],
                             const uint8_t secret[32]) SEFL_MUST_CHECK;
sefl_status journal_seed_get(journal *j, unsigned lane, const uint8_t id[32],
                             uint8_t secret[32]) SEFL_MUST_CHECK;
sefl_status journal_seed_wipe(journal *j, unsigned lane, const uint8_t id[32]) SEFL_MUST_CHECK;

/* ---- AS: updates ----------------------------------------------------------------------------- */

typedef struct journal_update {
    uint64_t round;
    uint8_t client[32]; /* fingerprint of the client's key */
    char name[65];      /* name in its certificate, for operators */
    uint8_t body[32];   /* the update's name (crypto/update_name.h) */
    uint64_t bytes, when_ms;
} journal_update;

/* Records an update whose body is durable. SEFL_EEXIST if the client has one in this round. */
sefl_status journal_update_put(journal *j, const journal_update *u) SEFL_MUST_CHECK;
/* SEFL_ENOTFOUND if there is none. */
sefl_status journal_update_get(journal *j, uint64_t round, const uint8_t client[32],
                               journal_update *out) SEFL_MUST_CHECK;
typedef sefl_status journal_update_fn(void *ctx, const journal_update *u);
/* Calls fn for each update of a round, sorted by fingerprint. */
sefl_status journal_updates(journal *j, uint64_t round, journal_update_fn *fn,
                            void *ctx) SEFL_MUST_CHECK;
sefl_status journal_update_count(journal *j, uint64_t round, uint32_t *out) SEFL_MUST_CHECK;
/* Counts this task's rounds with an update from this client, except rounds skipped before their
 * charge. *last becomes the last of them, 0 if there is none. */
sefl_status journal_client_rounds(journal *j, const uint8_t client[32], uint64_t *out,
                                  uint64_t *last) SEFL_MUST_CHECK;
/* Sets *out to whether any client uploaded the same units in another round of this task. */
sefl_status journal_body_before(journal *j, uint64_t round, const uint8_t body[32],
                                bool *out) SEFL_MUST_CHECK;

#endif
