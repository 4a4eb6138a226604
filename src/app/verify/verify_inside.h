/* verify_inside: what the files of verify.h share. */
#ifndef ROLES_AUDIT_VERIFY_INSIDE_H
#define ROLES_AUDIT_VERIFY_INSIDE_H

#include "protocol/round.h"
#include "protocol/task.h"
#include "roles/audit/audit_read.h"
#include "roles/audit/verify.h"
#include "store/ledger.h"

#include <limits.h>

typedef struct verify_task {
    task t;
    char init[PATH_MAX], models[PATH_MAX]; /* AS: its files; "" otherwise */
    verify_role role;                      /* whose files these are */
    uint64_t keep, every;                  /* AS: which models the settings keep */
} verify_task;

/* What a log says about a round. A line number is 0 if there is no such entry; its upper bits are
 * the number of the file (verify_line_of, verify_file_of). */
typedef struct verify_round {
    uint8_t task[TASK_ID];
    uint64_t round;
    size_t process; /* number of the latest process with an entry about it, from 1 */
    uint64_t opened, closed, charged, replied, revealed, released, ended; /* line numbers */
    bool skipped;
    bool has_root;
    uint8_t header[SHA256_BYTES]; /* hash of the header's bytes */
    uint8_t model[SHA256_BYTES];  /* the model that it begins with */
    uint8_t set[SHA256_BYTES];    /* AS: of the uploads; CSP: of the statement */
    uint8_t root[SHA256_BYTES];   /* of the counted clients */
    uint8_t id[SHA256_BYTES];     /* of the reveal: AS has it from CSP's statement */
    uint64_t attempt;             /* of the reveal */
    uint8_t digest[SHA256_BYTES]; /* of its output: AS has it from the reply that it used */
    ledger_head ledger;           /* after the charge */
    /* AS: the release */
    uint64_t from;
    uint8_t made[SHA256_BYTES], integers[SHA256_BYTES], optimiser[SHA256_BYTES];
    bool has_integers, has_optimiser;
} verify_round;

typedef struct verify_served {
    uint8_t id[TASK_ID];
} verify_served;

/* An entry "audited": an audit of CSP by AS (mpc/noise/noise_audit.h). */
typedef struct verify_audit {
    uint64_t line;
    uint8_t session[SHA256_BYTES];
    uint8_t record[SHA256_BYTES]; /* hash of the file; unless is_unanswered */
    bool is_unanswered, is_honest, found;
} verify_audit;

/* The log of a server. If several processes were CSP in turn, each has a file of its own, and this
 * is all of them together: rounds are sorted within a task. */
typedef struct verify_log {
    verify_role role;
    char path[PATH_MAX], head[PATH_MAX]; /* the present file */
    char **files;                        /* all that were read, older ones included */
    size_t n_files, room_files;
    char *current[VERIFY_PROCESSES], *ledgers[VERIFY_PROCESSES];
    uint64_t sizes[VERIFY_PROCESSES];          /* of the current files when they were read */
    size_t n_processes, n_ledgers, first_file; /* of the present process */
    bool there, broken;                        /* the log was read; its chain is wrong */
    verify_round *rounds;
    size_t n, room;
    verify_served *served; /* the tasks of the entries "started" */
    size_t n_served, room_served;
    verify_audit *audits;
    size_t n_audits, room_audits;
    uint64_t lines, checkpoints, uploads, refusals, after; /* after the last checkpoint */

    /* while it is read */
    const verify_task *task; /* NULL: not known */
    uint8_t id[TASK_ID];     /* of the current task */
    bool has_id;
    bool restarted;   /* there was a "started" since the last new entry of a round */
    round_entry *set; /* uploads of round set_round */
    size_t set_n, set_room;
    uint64_t set_round;
    uint8_t latest[SHA256_BYTES]; /* the last released model of the task */
    uint64_t latest_round;
    bool has_latest;
    uint64_t line; /* the present one, in its file */
    bool acted;    /* there was an entry other than those of a start */
    /* the line after which a checkpoint must follow (0: none), and its round (0: a start) */
    uint64_t owed, owed_round;
} verify_log;

typedef struct verify_receipt {
    uint8_t task[TASK_ID];
    uint64_t round;
    round_entry who;
    uint64_t number; /* in its file, from 1 */
    size_t file;     /* index into verify.receipt_files */
    bool found;
} verify_receipt;

struct verify {
    verify_config c;
    size_t wrong, told; /* told: of the present check */
    bool has_keys;
    pinned keys; /* of the task of verify_trust, or of the first task in a log */
    verify_task *tasks;
    size_t n_tasks, room_tasks;
    verify_log logs[2]; /* by role */
    verify_receipt *receipts;
    size_t n_receipts, room_receipts;
    char **receipt_files;
    size_t n_files, room_files;
    char **client_models; /* folders */
    size_t n_clients, room_clients;
};

void verify_say(verify *v, verify_verdict verdict, const char *what, const char *fmt, ...)
    SEFL_PRINTF(4, 5);
/* A finding with the message of the last error. */
void verify_failed(verify *v, const char *what);

const verify_task *verify_find_task(const verify *v, const uint8_t id[TASK_ID], verify_role role);
/* From now on the servers' keys must be those of this task. */
void verify_keys(verify *v, const task *t);
enum { VERIFY_FILE_SHIFT = 48 };
static inline uint64_t verify_line_of(uint64_t at)
{
    return at & ((UINT64_C(1) << VERIFY_FILE_SHIFT) - 1);
}
static inline const char *verify_file_of(const verify_log *l, uint64_t at)
{
    return l->files[at >> VERIFY_FILE_SHIFT];
}
/* The round of a log; NULL if there is none. `hint` is where the search begins; may be NULL. */
verify_round *verify_find_round(const verify_log *l, const uint8_t id[TASK_ID], uint64_t round,
                                size_t *hint);
/* The receipt of this upload; NULL if there is none. */
verify_receipt *verify_find_receipt(const verify *v, const uint8_t id[TASK_ID], uint64_t round,
                                    const round_entry *who);

/* Reads the log of a server (verify_log.c). */
sefl_status verify_read_log(verify *v, verify_log *l) SEFL_MUST_CHECK;
/* Compares the models of AS with its log (verify_models.c). */
sefl_status verify_models(verify *v, const verify_log *l, const verify_task *t) SEFL_MUST_CHECK;
void verify_kept_models(verify *v);
/* Replays the records of AS's audits in this folder (verify_audits.c). */
sefl_status verify_audits(verify *v, verify_log *l, const char *folder) SEFL_MUST_CHECK;
/* True if the log has a round of this task; its last round (0: none). */
bool verify_has_task(const verify_log *l, const uint8_t id[TASK_ID]);
uint64_t verify_last_round(const verify_log *l, const uint8_t id[TASK_ID]);
/* True if the server serves this task: its log or its folder names it. */
bool verify_serves(const verify *v, const verify_log *l, const uint8_t id[TASK_ID]);
/* True if the server has continued its log since it was read: what is newer than the log's last
 * round then proves nothing. */
bool verify_grew(const verify_log *l);
/* True if the server has continued its log since it was read, and this round may be in what is new:
 * it is later than the log's rounds of its task, or it is the log's last one and not over there. */
bool verify_is_newer(const verify_log *l, const uint8_t id[TASK_ID], uint64_t round);
/* Compares a server's ledger with its log; and the logs of both servers (verify_both.c). */
sefl_status verify_ledger(verify *v, const verify_log *l) SEFL_MUST_CHECK;
void verify_both(verify *v);

#endif
