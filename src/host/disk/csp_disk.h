/* csp_disk: implements CSP's store (sum/csp_store.h) on disk.
 *
 *     SEFL_TRY(journal_open(&j, folder, "csp", task.id));
 *     SEFL_TRY(account_disk_open(&a, j, ledger_path, &task));
 *     csp_disk d;
 *     SEFL_TRY(csp_disk_open(&d, j, a, &coins));
 *     csp_store store = csp_disk_store(&d);
 *
 * The store encrypts OUTPUT under the journal's round file key, HISTORY (correlated noise) under a
 * key of its own, which outlives the round, and keeps KEY in a file of its own;
 * every other record is a fact. csp_disk_open wipes secrets that a crash left behind.
 *
 * A sealed round has 32 more secret bytes, task-T/round-N.kem. CSP derives the round key from them
 * and from the root in its key file. CSP wipes the bytes once the round is revealed or skipped, at
 * the latest in csp_disk_open. That also wipes the bytes of other tasks, because a folder serves
 * one task at a time; roles/csp/csp_queue.c does so while there is no task. The kept clients of a
 * set stay in the database, so that CSP can count each client's rounds. Vouchers outlive the task.
 *
 * CSP writes to the journal and the ledger alternately, so that csp_disk_open detects an old copy
 * of either one. A reveal has five steps, each durable before the next:
 *     1. CHARGING in the journal             2. the charge in the ledger: account_charge
 *     3. OUTPUT, then REVEAL                 4. round and digest noted beside the ledger
 *     5. state CSP_REVEALED                  (only then the first byte of the output leaves)
 * HISTORY comes after the output has left, because losing it is safe (sum/history.h).
 * If the last round is signed but not revealed, csp_disk_open checks which steps were completed:
 *     not charged, no note      no reveal had started
 *     1, 2                      a crash before the reveal: AS will ask again
 *     1 to 4, digests match     a crash after the reveal: the round is revealed, with its output
 *                               (the note's digest, REVEAL's and that of OUTPUT itself)
 *     2 without 1, 4 without 3  the journal is an old copy, and the round may have been revealed:
 *                               CSP skips it permanently (CSP_SKIP_OLD_STATE)
 * If the ledger has charged rounds whose header the journal does not have, csp_disk_open refuses
 * the task (SEFL_ESTATE). SEFL_EUNSUPPORTED if an earlier version wrote the last round.
 * Threads: one owner.   Secrets: output. */
#ifndef STORE_DISK_CSP_DISK_H
#define STORE_DISK_CSP_DISK_H

#include "store/disk/account_disk.h"
#include "sum/csp_store.h"

typedef struct csp_disk {
    journal *j;
    account *a;
    const sefl_coins *coins;
} csp_disk;

/* The journal, the account and the coins (purposes "journal output" and
 * "journal history") must outlive d. */
sefl_status csp_disk_open(csp_disk *d, journal *j, account *a,
                          const sefl_coins *coins) SEFL_MUST_CHECK;

/* Binds a Paillier key to one task. The folder records the first task of each key permanently; any
 * other task is SEFL_ESTATE. Otherwise AS could add an upload of the old task to a sum of the new
 * one and get a second noisy view of it, and one stolen key would decrypt both tasks. Does nothing
 * in a sealed task, where each key serves one round. */
sefl_status csp_disk_bind_key(const csp_disk *d, const task *t) SEFL_MUST_CHECK;

/* Returns the store, which is valid as long as d is. */
csp_store csp_disk_store(csp_disk *d);

#endif
