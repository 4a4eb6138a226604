/* verify: replays what two servers recorded, offline and read-only: `sefl verify`.
 *
 *     SEFL_TRY(verify_new(&v, &(verify_config){ .ctx = me, .say = say }));
 *     SEFL_TRY(verify_client(v, &(verify_client_files){ .state = "site-1/state", ... }));
 *     SEFL_TRY(verify_server(v, &(verify_files){ .role = VERIFY_AGGREGATOR, ... }));
 *     SEFL_TRY(verify_server(v, &(verify_files){ .role = VERIFY_CSP, ... }));
 *     SEFL_TRY(verify_finish(v));               // compares the two, and the receipts
 *     wrong = verify_wrong(v);
 *
 * What it checks, by file:
 *     task.signed   the signatures of both servers; all tasks of the logs must name the same keys
 *     audit.jsonl   the chain, the checkpoints' signatures, audit.head; the header of each round
 *                   (both signatures, and that it begins with the last released model), the hash
 *                   of the set of uploads, AS's statement and CSP's statement about the counted
 *                   clients, the order of the steps of a round
 *     ledger        its chain; each charge in the log is in it, and each charge of the log's tasks
 *                   in it is in the log
 *     models/       each model and each file of integers has the hash in the log, and each model
 *                   follows from the one before and the integers by AS's own step (step.h); the
 *                   latest two, which AS never deletes, are there. A client's models have the hash
 *                   in AS's log
 *     audits/       each record of an audit has the hash in AS's log, CSP signed it, and a replay
 *                   of its session (shares_replay) has the outcome in the log
 *     receipts      AS's signature; AS's log has the upload, and the client's ledger the charge,
 *                   also of a round that only the client's mark shows
 * and, with both servers' files, that their logs have the same headers, charges, sets and reveals.
 *
 * A failed check is a finding with the exact line or file, not a failure of the call. Memory: some
 * hundred bytes per round, 64 per client of one round, 136 per receipt, 80 per audit, and two
 * models (20 MB while it replays an audit, which takes as long as the session did). The servers
 * may be running: it reads the log first, and files that are newer than the log count as
 * unfinished. Threads: one owner.   Secrets: none. */
#ifndef ROLES_AUDIT_VERIFY_H
#define ROLES_AUDIT_VERIFY_H

#include "base/progress.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef enum verify_verdict { VERIFY_OK, VERIFY_NOTE, VERIFY_WRONG } verify_verdict;
typedef enum verify_role { VERIFY_AGGREGATOR, VERIFY_CSP } verify_role;
enum { VERIFY_PROCESSES = 16 };

typedef struct verify verify;

typedef struct verify_config {
    void *ctx;
    /* Gets every result: the file or part that was checked, and a sentence. */
    void (*say)(void *ctx, verify_verdict v, const char *what, const char *text);
    const sefl_progress *progress; /* bytes of logs and models; may be NULL */
} verify_config;

/* The files of a server, as in its settings; NULL: not there. */
typedef struct verify_files {
    verify_role role;
    const char *state, *ledger;
    const char *task, *tasks;  /* one of them, or neither */
    const char *init, *models; /* AS only */
    uint64_t keep, every;      /* AS only: its settings models_keep and models_every */
} verify_files;

sefl_status verify_new(verify **out, const verify_config *c) SEFL_MUST_CHECK;
void verify_free(verify *v);

/* The servers' keys must be those of this task. Call it first. */
sefl_status verify_trust(verify *v, const char *task) SEFL_MUST_CHECK;
/* Checks a client's receipts, and its ledger (NULL: not there); pub is the file of AS's key. Call
 * it before verify_server. */
typedef struct verify_client_files {
    const char *state, *pub, *ledger;
} verify_client_files;
sefl_status verify_client(verify *v, const verify_client_files *f) SEFL_MUST_CHECK;
/* Compares the models that a client keeps (roles/client/models.h) with AS's log. Call it before
 * verify_finish. */
sefl_status verify_client_models(verify *v, const char *folder) SEFL_MUST_CHECK;
/* AS once. CSP up to VERIFY_PROCESSES times: several processes may have been active in turn
 * (roles/csp/active.c). Each one's chain is checked, and all together must have every round, charge
 * and reveal; a reveal in two logs must be the same. Of their ledgers the longest counts, and the
 * others must be beginnings of it. */
sefl_status verify_server(verify *v, const verify_files *f) SEFL_MUST_CHECK;
sefl_status verify_finish(verify *v) SEFL_MUST_CHECK;

/* Returns the number of failed checks. */
size_t verify_wrong(const verify *v);

#endif
