/* ledger: what a population's privacy has been charged, in a file that only grows.
 *
 * A server charges every release here, durably, before anything of it leaves the process:
 * ledger_charge is where a charge becomes durable. Each server computes a charge from the signed
 * task and its own round number, never from a message, so two servers that saw the same rounds hold
 * the same bytes and can compare heads. A client keeps a ledger for its text with the same module
 * (text_ledger.h).
 *
 *     SEFL_TRY(ledger_create(path, "hospital-notes"));              // once in a population's life
 *     SEFL_TRY(ledger_open(&l, path, "hospital-notes", NULL));
 *     SEFL_TRY(ledger_charge(l, &terms, round, &already));          // SEFL_OK: durable, go on
 *     ...release; if `already`: only the very bytes that were released (or kept) before...
 *
 * Rules
 *   - The key is (task, round). Charging it again is SEFL_OK, sets `already` and writes nothing. A
 *     charge pays for one release: only the same bytes may go out again. New noise, or another
 *     aggregate, in a round charged before is a second release without a charge.
 *   - The same task with other terms is refused. Terms without meaning must be 0.
 *   - One ledger per population; a new task continues it. The budget gate composes all charges
 *     there are. Past the target of the current task: SEFL_EBUDGET with the numbers, and nothing is
 *     written.
 *   - The gate is epsilon against a server that sees who takes part: min(rounds,
 *     max_rounds_per_client) releases of a task, without amplification; with `hidden` sampling all
 *     of its rounds, amplified.
 *   - A task under `claim: none` (noise none) is charged without a target; from then on the
 *     population has no epsilon, and a task that claims one is refused.
 *   - Tasks that protect clients and tasks that protect records have no common total: a ledger with
 *     tasks of one kind refuses the other.
 *
 * What is detected. A changed, missing, repeated or reordered record breaks the hash chain, and
 * ledger_open refuses the file. It also refuses a changed length, which the file has twice and
 * which belongs to the record's type; at most one append may be unfinished. A file cut at its end
 * looks like an older one, and so does one whose last append was overwritten with zeros. A head
 * kept elsewhere finds these: `remembered` at open (the caller's database), and the other server's
 * head, exchanged every round. These checks come before any change to the file. Not detected:
 * ledger and head rolled back together, or a ledger rewritten from its first record by an attacker
 * who also controls the other head.
 *
 * Crashes. A record that was not written to its end was never acknowledged: the next open cuts it
 * off (ledger_ignored gives its size). A record that was written but perhaps not synced counts;
 * open writes the last append once more and syncs it before anything relies on it. So a charge that
 * was followed by a release is never lost, and a charge without a release may stay, which is the
 * safe side. After a failed write or sync the ledger refuses further work until it is opened again.
 *
 * File format (little-endian): "SEFLLDG2", then records
 *     u32 n | u32 ~n | body, n bytes | 32 bytes: SHA-256(previous 32 bytes | u32 n | body)
 * where the first previous is SHA-256("SEFLLDG2"), and body is a type byte and
 *     1 population  varint length, name                                    the first record, once
 *     2 task        32 bytes id | u8 noise | u8 hidden | u8 unit | f64 z | f64 rate | u64 dim
 *                   | f64 sigma_steps | u64 max rounds a client | f64 epsilon | f64 delta
 *     3 charge      varint number of the task (in order of appearance, from 0) | varint round
 *
 * Threads: one owner; other processes are kept out by flock(2). Secrets: none. */
#ifndef STORE_LEDGER_H
#define STORE_LEDGER_H

#include "base/buf.h"
#include "base/span.h"
#include "privacy/accountant/accountant.h"

enum {
    LEDGER_HASH_BYTES = 32,
    LEDGER_HEAD_BYTES = 8 + LEDGER_HASH_BYTES, /* written */
    LEDGER_CHARGE_RECORDS = 2,                 /* of the first charge of a task; later ones: 1 */
    LEDGER_TASK_BYTES = 32,
    LEDGER_NAME_MAX = 200,
    LEDGER_TASKS_MAX = 4096
};

typedef struct ledger ledger;

typedef enum ledger_unit {
    LEDGER_UNIT_CLIENT = 0, /* all that a client uploads */
    LEDGER_UNIT_RECORD = 1, /* one record of one client */
} ledger_unit;

/* What the signed task says about privacy. */
typedef struct ledger_terms {
    uint8_t task[LEDGER_TASK_BYTES]; /* hash of the signed document */
    dp_noise noise;                  /* none: the task makes no claim */
    double z, rate;                  /* as in dp_event */
    bool hidden;                     /* sampling: hidden */
    ledger_unit unit;                /* what z is the noise for */
    uint64_t dim;
    double sigma_steps;
    uint64_t max_rounds_per_client; /* 0: no limit */
    double epsilon_max, delta;      /* the target; without meaning for claim none */
} ledger_terms;

/* The state of a ledger: two ledgers with equal heads hold the same bytes. */
typedef struct ledger_head {
    uint64_t records;
    uint8_t hash[LEDGER_HASH_BYTES];
} ledger_head;

typedef enum ledger_order {
    LEDGER_SAME,
    LEDGER_PEER_BEHIND, /* its head is one of our earlier ones */
    LEDGER_PEER_AHEAD,  /* it has more records than ours: did we lose some? */
    LEDGER_FORKED,      /* two histories */
} ledger_order;

typedef enum ledger_total_unit {
    LEDGER_TOTAL_CLIENT,
    LEDGER_TOTAL_RECORD, /* every task with a claim protects records: nothing holds for clients */
    LEDGER_TOTAL_MIXED,  /* both kinds: nothing is claimed */
} ledger_total_unit;

/* Composed over all tasks, for one delta. */
typedef struct ledger_total {
    double delta;
    dp_claim server, server_replace; /* against a server, or anyone who sees participation */
    dp_claim others, others_replace; /* against everyone else */
    ledger_total_unit unit;          /* whom they speak of */
    uint64_t tasks, rounds;
} ledger_total;

/* Makes an empty ledger; SEFL_EEXIST if the path exists. The name: printable ASCII, 1 to 200. */
sefl_status ledger_create(const char *path, const char *population) SEFL_MUST_CHECK;

/* For charging; population NULL: any. SEFL_ENOTFOUND if there is none (creating one silently would
 * be a reset), SEFL_EPROTO if it was changed, SEFL_ESTATE if another process has it, the population
 * is another one, or it does not contain the remembered head (NULL: none). */
sefl_status ledger_open(ledger **out, const char *path, const char *population,
                        const ledger_head *remembered) SEFL_MUST_CHECK;

/* For reading only: takes no lock, changes nothing, any population. */
sefl_status ledger_open_read(ledger **out, const char *path) SEFL_MUST_CHECK;

void ledger_close(ledger *l);

/* Charges one round: durable when it returns SEFL_OK. *already (may be NULL): it was charged
 * before. SEFL_ERANGE, with nothing written: the ledger is full (4096 tasks, 256 MiB). */
sefl_status ledger_charge(ledger *l, const ledger_terms *terms, uint64_t round,
                          bool *already) SEFL_MUST_CHECK;

/* Would it be charged (or was it)? The same refusals, and writes nothing. */
sefl_status ledger_may_charge(const ledger *l, const ledger_terms *terms,
                              uint64_t round) SEFL_MUST_CHECK;

/* The head that a charge of this round would lead to; the present one if it is charged already. The
 * same refusals; writes nothing. A server compares it with its peer's before it charges. */
sefl_status ledger_head_after(const ledger *l, const ledger_terms *terms, uint64_t round,
                              ledger_head *out) SEFL_MUST_CHECK;

/* Would the total stay within epsilon_max? The budget gate alone, for a limit that is not the
 * task's but the client owner's. SEFL_EBUDGET with the numbers if not; SEFL_OK for a round that is
 * charged already, and for terms without a claim. Writes nothing. */
sefl_status ledger_allows(const ledger *l, const ledger_terms *terms, uint64_t round,
                          double epsilon_max) SEFL_MUST_CHECK;

/* Bytes of an unfinished record behind the last whole one, at open: ledger_open cuts them off,
 * ledger_open_read leaves them. */
size_t ledger_ignored(const ledger *l);

bool ledger_has(const ledger *l, const uint8_t task[LEDGER_TASK_BYTES], uint64_t round);
/* How many rounds of this task are charged. */
uint64_t ledger_rounds(const ledger *l, const uint8_t task[LEDGER_TASK_BYTES]);

/* What has been spent. delta = 0: that of the latest task with a claim. */
sefl_status ledger_spent(const ledger *l, double delta, ledger_total *out) SEFL_MUST_CHECK;

const char *ledger_population(const ledger *l);

/* Task number i < tasks and how many of its rounds are charged; NULL beyond. */
const ledger_terms *ledger_task(const ledger *l, size_t i, uint64_t *rounds);

void ledger_get_head(const ledger *l, ledger_head *out);
ledger_order ledger_compare(const ledger *l, const ledger_head *peer);

bool ledger_head_equal(const ledger_head *a, const ledger_head *b);
/* On the wire and in a role's database: records u64, hash. */
sefl_status ledger_head_write(sefl_buf *out, const ledger_head *h) SEFL_MUST_CHECK;
sefl_status ledger_head_read(rd *r, ledger_head *out) SEFL_MUST_CHECK;

#endif
