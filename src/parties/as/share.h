/* share: several aggregator processes, on any machines, that are one aggregation server (AS).
 *
 *     aggregator.yml     store: postgresql://sefl@db.example/sefl?sslmode=verify-full
 *                        shared: /srv/sefl              # a folder that every process sees
 *
 * Each process is the whole role: it terminates TLS, checks and spools uploads, acknowledges them
 * and answers every question of a client. A TCP load balancer may send a connection to any of them.
 * One process leads: it runs the driver of the rounds (sum/as_rounds.h) and owns the link to CSP.
 *
 * What the processes have in common
 *     deployed to each one   sign.key, the TLS key and certificate, task, init, vocab, valid: one
 *                            AS has one identity, so every process has the same files
 *     the database           rounds, records of the task, the encrypted secrets of a round (mask,
 *                            shares, integers), uploads, vouchers, the ledger, the leader's lease,
 *                            and the tables of store/journal/shared.h
 *     the folder `shared`    bodies (round-N/bodies-ME/CLIENT/HASH), partial sums
 *                            (round-N/part-HOLDER.MAKER), metrics.jsonl; and the folders `models`
 *                            (with the optimiser's state) and `ca`, which must be in a place that
 *                            every process sees
 *     one process only       `state`: audit log, counters, status, audit records of noise sessions;
 *                            the running sum; the pool of noise shares, which dies with its process
 *
 * Who writes what
 *   - Only the leader writes records of the task and the ledger. Each of its transactions checks
 *     the fencing number of its lease: once another process leads, every write of the former leader
 *     fails, and it follows. (journal_guard; secrets and the ledger are rows, so it covers them.) A
 *     model file is written again with the same bytes by a successor, so two writers do no harm.
 *   - Every process writes upload rows for bodies in its own folder. The row, its slot and its
 *     place are one statement that also requires that the round's row says "collecting".
 *   - Every process may make a partial sum; the first one stored stays.
 *
 * One round
 *   1. The leader opens it: header, row "collecting". The others see the row within POLL_MS and
 *      accept uploads.
 *   2. A process that receives an upload makes the body durable in `shared`, inserts the row, signs
 *      the receipt and adds the body to its running sum. It counts from the row on.
 *   3. The leader reads the number of rows and closes the round: the row's state changes in a
 *      fenced transaction, which waits for insertions in progress. From here on the rows of the
 *      round are the frozen set, the same for everyone who asks.
 *   4. The leader enters one part per process with uploads, leased to that process. It writes the
 *      sum of exactly its rows, checked against the database, and its SHA-256. A part whose lease
 *      expired is made by any other process from the bodies. So each row is in exactly one part.
 *   5. The leader adds the parts, subtracts what CSP's verdict refused, and goes on alone: charge,
 *      mask, reveal, release. Then it deletes the round's folder.
 *
 * A crash of a process (kill -9, a lost machine, a process that hangs)
 *   - while it receives an upload: the client continues at another process. That one takes over the
 *     part on disk, or, if the dead process still holds its lock, answers 503 for a while.
 *   - between the body and its row: the client has no receipt and sends the body again. The first
 *     body is deleted with the round.
 *   - between the row and the receipt: the other process finds the row and signs the same receipt.
 *   - while it makes a part: its lease expires after `lease` seconds, another process makes it. If
 *     no process can, because a body is missing or damaged, the leader skips the round after half a
 *     minute.
 *   - as leader, at any step: after `lease` seconds another process becomes leader and does what a
 *     restarted single aggregator does: it continues from the records. A reveal in progress gets
 *     the next attempt, a new mask and new noise shares; after CSP's mark CSP sends the same
 *     bytes, and the stored mask and shares finish them.
 *   - A former leader that wakes up cannot write. It asks the store before it dials CSP and before
 *     each order, and then follows. What it can still send is what it had begun to send: CSP takes
 *     messages only from the newest connection, and reveals each round once.
 *   - The database: uploads get 503 and clients repeat them; the leader steps down and takes the
 *     lease again when the database is back. No round is skipped for that. If the outcome of an
 *     insertion is unknown, the client repeats the upload, and the process reads its rows before
 *     it makes its part.
 *
 * The shared folder must not lose a synced file, and a file must be visible to all processes once
 * it is synced: NFS 4, exported with `sync` and mounted with lookupcache=positive, should do that
 * (not tested).
 * Threads: share_run has one owner; the module has two threads of its own.   Secrets: none. */
#ifndef ROLES_AGGREGATOR_SHARE_H
#define ROLES_AGGREGATOR_SHARE_H

#include "roles/aggregator/ingest.h"
#include "store/journal/journal.h"
#include "sum/as_rounds.h"

typedef struct share share;
struct rounds;

typedef struct share_config {
    journal *own; /* this process's connection for uploads, parts and questions; never fenced */
    uint64_t lease_ms;
} share_config;

sefl_status share_new(share **out, struct rounds *r, const share_config *c) SEFL_MUST_CHECK;
/* Reads the state and starts the threads; the driver of r must be ready. */
sefl_status share_start(share *s) SEFL_MUST_CHECK;
/* Ends its threads; call it before the driver is freed. */
void share_free(share *s);

/* Follows, and leads whenever the lease is free, until the task is over (SEFL_OK), share_stop
 * (SEFL_ECANCELLED) or a failure that waiting does not repair. */
sefl_status share_run(share *s) SEFL_MUST_CHECK;
void share_stop(share *s);
bool share_leads(const share *s);
bool share_led(const share *s); /* this process or another one leads */
/* Asks the store whether this process leads: SEFL_ECANCELLED if not, and then it stops leading.
 * Call it before anything goes to CSP; `now`: even if it asked a tenth of the lease ago. A process
 * may be stopped after the answer, so this saves CSP work and protects nothing (above, "A
 * crash"). */
sefl_status share_still(share *s, bool now) SEFL_MUST_CHECK;
/* As pulse_away. */
uint64_t share_away(const share *s);

/* The folder of this process's bodies in a round: "bodies-7". */
const char *share_bodies(const share *s);
/* The driver's port to the uploads; its ctx is the rounds. */
extern const as_uploads share_uploads;
ingest_admission share_admission(share *s);

/* Stops the driver's current run because the lease is lost; for as_rounds_config.stop. */
bool share_may_go_on(void *self, uint64_t done, uint64_t total);

/* Forwards a request to the leader, and asks for its answer (rounds_requests.c). */
sefl_status share_ask(share *s, unsigned kind, sefl_span bytes, uint64_t *id) SEFL_MUST_CHECK;
bool share_answered(share *s, uint64_t id, sefl_status *st, sefl_buf *answer);
void share_answer(share *s, uint64_t id, sefl_status st, sefl_span answer);

#endif
