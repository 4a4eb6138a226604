/* ledger: records the privacy charges of a population in an append-only file.
 *
 * A server charges every release before any part of it leaves the process; ledger_charge makes the
 * charge durable. Each server computes a charge from the signed task and its own round number,
 * never from a message, so two servers with the same rounds have identical ledgers and can compare
 * their heads. A client keeps a ledger for its text in the same format (text_ledger.h).
 *
 *     SEFL_TRY(ledger_create(path, "hospital-notes"));              // once per population
 *     SEFL_TRY(ledger_open(&l, path, "hospital-notes", NULL));
 *     SEFL_TRY(ledger_charge(l, &terms, round, &already));          // SEFL_OK: durable
 *     ...release; if `already`: only the same bytes that were released (or kept) before...
 *
 * Rules
 *   - A charge pays for one release of a (task, round). Charging it again is SEFL_OK, sets
 *     `already` and writes nothing; only the same bytes may be sent again. Fresh noise or another
 *     aggregate in a charged round would be a second, uncharged release.
 *   - The ledger refuses a known task with different terms. A term that the kind of noise does not
 *     use is 0.
 *   - A population has one ledger; new tasks continue it. The budget check composes all charges. A
 *     charge beyond the target of the current task fails with SEFL_EBUDGET and writes nothing.
 *   - The budget check bounds epsilon against a server, which sees who takes part. It counts the
 *     rounds in which one client may have taken part (max_rounds_per_client, separation). Sampling
 *     amplifies only against others.
 *   - A task with a filter (privacy/dp_filter.h) is one release with noise z / S. A server's ledger
 *     takes S(n) of the worst pattern, n being the highest round charged, so a charge costs what S
 *     grows by. A client's ledger (horizon > 0) takes S of the rounds that it charged, up to the
 *     horizon, the task's last round: an update acts on all later rounds, and the client cannot
 *     stop those.
 *   - In a task whose records take turns, a charge costs one release only when some record may be
 *     used once more: min(rounds charged, dp_record_uses(lowest charged, highest charged)).
 *   - A task with `claim: none` (no noise) is charged without a target. From then on the population
 *     has no epsilon, and the ledger refuses a task that claims one.
 *   - Tasks that protect clients and tasks that protect records have no common epsilon, so a ledger
 *     with tasks of one kind refuses the other kind.
 *
 * Tampering. A changed, missing, repeated or reordered record breaks the hash chain, and
 * ledger_open refuses the file. It also refuses a changed length, since each length is stored twice
 * and must fit the record's type. At most one append may be unfinished. A truncated file looks like
 * an older one, and so does a file whose last append was overwritten with zeros. Heads stored
 * elsewhere detect both: `remembered` at open (the caller's database), and the other server's head,
 * exchanged every round. ledger_open compares the heads before it changes the file. Two attacks go
 * undetected: rolling back the ledger together with the stored heads, and rewriting it from the
 * first record while also controlling the other server's head.
 *
 * Crashes. An incomplete record was never acknowledged: ledger_open truncates it (ledger_ignored
 * returns its size). A record that was written but perhaps not synced is valid: ledger_open writes
 * the last append again and syncs it before anything relies on it. So a crash never loses the
 * charge of a release that left the process. It may leave a charge without a release, which is
 * safe. After a failed write or sync the ledger refuses further work until it is reopened.
 *
 * File format (little-endian): "SEFLLDG4", then records
 *     u32 n | u32 ~n | body, n bytes | 32 bytes: SHA-256(previous 32 bytes | u32 n | body)
 * where the first "previous 32 bytes" are SHA-256("SEFLLDG4"), and a body is a type byte and
 *     1 population  varint length, name                                    the first record, once
 *     2 task        32 bytes id | u8 noise | u8 unit | f64 z | f64 rate | u64 dim
 *                   | f64 sigma_steps | u64 max_rounds_per_client | f64 epsilon | f64 delta
 *                   | u64 separation | 4 u16 gamma | u64 horizon | f64 units
 *                   | u64 turns | u64 turn_rounds | 32 bytes list
 *     3 charge      varint number of the task (in order of appearance, from 0) | varint round
 *
 * Threads: one owner; flock(2) excludes other processes. Secrets: none. */
#ifndef STORE_LEDGER_H
#define STORE_LEDGER_H

#include "base/buf.h"
#include "base/span.h"
#include "privacy/accountant/accountant.h"
#include "privacy/dp_filter.h"
#include "privacy/record_turns.h"

enum {
    LEDGER_HASH_BYTES = 32,
    LEDGER_HEAD_BYTES = 8 + LEDGER_HASH_BYTES, /* written by ledger_head_write */
    LEDGER_CHARGE_RECORDS = 2,                 /* appended by a task's first charge; later: 1 */
    LEDGER_TASK_BYTES = 32,
    LEDGER_NAME_MAX = 200,
    LEDGER_TASKS_MAX = 4096
};

typedef struct ledger ledger;

typedef enum ledger_unit {
    LEDGER_UNIT_CLIENT = 0, /* all data of a client */
    LEDGER_UNIT_RECORD = 1, /* one record of one client */
} ledger_unit;

/* The privacy terms of a signed task. */
typedef struct ledger_terms {
    uint8_t task[LEDGER_TASK_BYTES]; /* hash of the signed document */
    dp_noise noise;                  /* none: the task makes no claim */
    double z, rate;                  /* as in dp_event */
    ledger_unit unit;                /* what the claim protects */
    uint64_t dim;
    double sigma_steps;
    uint64_t max_rounds_per_client; /* 0: no limit */
    double epsilon_max, delta;      /* the target; 0 if the task makes no claim */
    uint64_t separation;            /* rounds from one upload of a client to the next; 0: any */
    dp_filter filter;               /* correlated noise; the members below are 0 without it */
    uint64_t horizon;               /* the ledger of a client: the task's rounds; a server's: 0 */
    double units;                   /* dp_filter_units */
    uint64_t turns;       /* records take turns (privacy/record_turns.h): k; 0: in every round */
    uint64_t turn_rounds; /* R; the members from turns on are 0 without turns */
    uint8_t list[LEDGER_HASH_BYTES]; /* the ledger of a client: its records (record_list.h) */
} ledger_terms;

/* The state of a ledger: two ledgers with equal heads have the same bytes. */
typedef struct ledger_head {
    uint64_t records;
    uint8_t hash[LEDGER_HASH_BYTES];
} ledger_head;

typedef enum ledger_order {
    LEDGER_SAME,
    LEDGER_PEER_BEHIND, /* the peer's head is one of our earlier heads */
    LEDGER_PEER_AHEAD,  /* the peer has more records than we do: we may have lost some */
    LEDGER_FORKED,      /* the histories differ */
    LEDGER_UNREADABLE,  /* of a ledger_port: our own ledger cannot be read now */
} ledger_order;

typedef enum ledger_total_unit {
    LEDGER_TOTAL_CLIENT,
    LEDGER_TOTAL_RECORD, /* all tasks with a claim protect records: no claim for clients */
    LEDGER_TOTAL_MIXED,  /* tasks of both kinds: no claim */
} ledger_total_unit;

/* The claims composed over all tasks, for one delta. */
typedef struct ledger_total {
    double delta;
    dp_claim server, server_replace; /* against a server, or anyone who sees participation */
    dp_claim others, others_replace; /* against everyone else */
    ledger_total_unit unit;          /* what the claims protect */
    uint64_t tasks, rounds;
} ledger_total;

/* Creates an empty ledger; SEFL_EEXIST if the path exists. population has 1 to 200 printable ASCII
 * characters. */
sefl_status ledger_create(const char *path, const char *population) SEFL_MUST_CHECK;

/* Opens a ledger for charging; population NULL: any. SEFL_ENOTFOUND if the file does not exist
 * (creating it silently would reset the budget), SEFL_EPROTO if it was changed, SEFL_ESTATE if
 * another process uses it, it belongs to another population, or it does not contain the remembered
 * head (NULL: none). */
sefl_status ledger_open(ledger **out, const char *path, const char *population,
                        const ledger_head *remembered) SEFL_MUST_CHECK;

/* A ledger in a store that several processes share, instead of a file. */
typedef struct ledger_medium {
    void *ctx;
    const char *place; /* for messages */
    /* Appends the whole ledger to out; SEFL_ENOTFOUND if there is none. */
    sefl_status (*read)(void *ctx, const char *name, sefl_buf *out);
    /* SEFL_OK: durable. SEFL_ESTATE if the ledger does not end at byte `at`, or if this process may
     * no longer write. Anything else: unknown, the ledger must be opened again. */
    sefl_status (*append)(void *ctx, const char *name, uint64_t at, sefl_span bytes);
} ledger_medium;

/* Like ledger_open, but the medium has the ledger, named after the population. `path` is a copy,
 * which ledger_open_shared and each charge bring up to date: for people and commands that read a
 * file, and as evidence. SEFL_ESTATE if the copy has charges that the medium lacks: the medium was
 * restored from an old backup. A medium without this ledger takes over the file at `path`
 * (SEFL_ENOTFOUND if there is none), so the first process brings the ledger along, and no budget is
 * reset silently. */
sefl_status ledger_open_shared(ledger **out, const ledger_medium *m, const char *path,
                               const char *population,
                               const ledger_head *remembered) SEFL_MUST_CHECK;

/* Opens a ledger of any population read-only: takes no lock and changes nothing. */
sefl_status ledger_open_read(ledger **out, const char *path) SEFL_MUST_CHECK;

void ledger_close(ledger *l);

/* Charges one round; on SEFL_OK the charge is durable. Sets *already (may be NULL) to whether the
 * round was charged before. SEFL_ERANGE if the ledger is full (4096 tasks, 256 MiB). */
sefl_status ledger_charge(ledger *l, const ledger_terms *terms, uint64_t round,
                          bool *already) SEFL_MUST_CHECK;

/* Checks whether ledger_charge would succeed, and fails if not. Writes nothing. */
sefl_status ledger_may_charge(const ledger *l, const ledger_terms *terms,
                              uint64_t round) SEFL_MUST_CHECK;

/* Computes the head that a charge of this round would give (the current head if it is charged
 * already), for comparison with the peer's. Fails if ledger_charge would; writes nothing. */
sefl_status ledger_head_after(const ledger *l, const ledger_terms *terms, uint64_t round,
                              ledger_head *out) SEFL_MUST_CHECK;

/* Checks only the budget check, with epsilon_max in place of the task's target: the limit that a
 * client's owner sets. SEFL_EBUDGET with the numbers if the total would exceed it; SEFL_OK for a
 * round that is already charged, and for terms without a claim. Writes nothing. */
sefl_status ledger_allows(const ledger *l, const ledger_terms *terms, uint64_t round,
                          double epsilon_max) SEFL_MUST_CHECK;

/* Returns the size of the incomplete record that open found at the end of the file. ledger_open
 * truncates such a record; ledger_open_read leaves it. */
size_t ledger_ignored(const ledger *l);

/* True if this round is charged. */
bool ledger_has(const ledger *l, const uint8_t task[LEDGER_TASK_BYTES], uint64_t round);
/* True if another round of this task is charged that is less than `apart` rounds away. */
bool ledger_has_near(const ledger *l, const uint8_t task[LEDGER_TASK_BYTES], uint64_t round,
                     uint64_t apart);
/* Returns the number of charged rounds of this task. */
uint64_t ledger_rounds(const ledger *l, const uint8_t task[LEDGER_TASK_BYTES]);

/* Computes the total spent. If delta is 0, uses the delta of the latest task with a claim. */
sefl_status ledger_spent(const ledger *l, double delta, ledger_total *out) SEFL_MUST_CHECK;

/* Computes the claim against a server after the first `rounds` rounds of a new task with these
 * terms, at its delta. */
sefl_status ledger_would_spend(const ledger *l, const ledger_terms *terms, uint64_t rounds,
                               dp_claim *out) SEFL_MUST_CHECK;

/* Counts the further rounds of this task, at most `most`, that keep its target. The task may be new
 * or have charges already. A task without a claim has no target: `most`. */
sefl_status ledger_rounds_left(const ledger *l, const ledger_terms *terms, uint64_t most,
                               uint64_t *out) SEFL_MUST_CHECK;

/* Returns S of the charges of task number i, which must have a filter: it is one release with noise
 * z / S. */
double ledger_task_s(const ledger *l, size_t i);

const char *ledger_population(const ledger *l);

/* Returns the terms of task number i and its number of charged rounds; NULL if there is no task
 * i. */
const ledger_terms *ledger_task(const ledger *l, size_t i, uint64_t *rounds);

void ledger_get_head(const ledger *l, ledger_head *out);
ledger_order ledger_compare(const ledger *l, const ledger_head *peer);

bool ledger_head_equal(const ledger_head *a, const ledger_head *b);
/* Write and read a head as it is encoded in messages and in a role's database: the number of
 * records (u64), then the hash. */
sefl_status ledger_head_write(sefl_buf *out, const ledger_head *h) SEFL_MUST_CHECK;
sefl_status ledger_head_read(rd *r, ledger_head *out) SEFL_MUST_CHECK;

#endif
