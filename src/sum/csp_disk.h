/* csp_disk: CSP's journal (sum/csp.h: csp_store) on a disk.
 *
 *     SEFL_TRY(journal_open(&j, folder, "csp", task.id));
 *     SEFL_TRY(account_open(&a, j, ledger_path, &task));
 *     SEFL_TRY(csp_disk_new(&jc, j, a, &coins));
 *     csp_store table = csp_disk_store(jc);
 *
 * A round's row has csp_round_state and when its header was signed; its facts are header, set, statement, id,
 * digest, skip (the reason); its one secret is `output`, sealed under the round's key. `forget` wipes key and
 * output; the state stays. What a crash kept from being forgotten is wiped by csp_disk_new.
 *
 * A sealed round has 32 more secret bytes, task-T/round-N.kem, of which its sealing key is made (with the
 * root in CSP's key file). They are wiped once the round is opened or skipped, at the latest by
 * csp_disk_new, which also wipes those of other tasks: a folder serves one task at a time. The kept
 * clients of a set stay as rows: they tell in how many rounds a client took part. Vouchers outlive the task.
 *
 * Journal and ledger are written in turn, so that neither can be put back alone without being found.
 * An opening is, each step durable before the next:
 *     1. fact "charging" in the journal      2. the charge in the ledger
 *     3. output, statement, id, digest       4. round and digest noted beside the ledger
 *     5. state CSP_REVEALED                    (only then the first byte of the output leaves)
 * csp_disk_new looks at the last round, if that is signed and not open:
 *     not charged, no note      nothing happened
 *     1, 2                      a crash before the opening: AS asks again
 *     1 to 4, the digests fit   a crash after it: the round is open, with the output that lies there
 *     2 without 1, 4 without 3  the journal is an old copy and the round may have been opened before:
 *                               it is skipped for good (CSP_SKIP_OLD_STATE)
 * Charges of rounds that the journal has no header of: the whole task is refused (SEFL_ESTATE).
 * The rules are checked here once more: sign only a new round, open and skip only a signed one:
 * anything else is SEFL_ESTATE.
 * Threads: one owner.   Secrets: output. */
#ifndef ROLES_JOURNAL_CSP_H
#define ROLES_JOURNAL_CSP_H

#include "store/journal/journal.h"
#include "sum/account.h"
#include "sum/csp.h"

typedef struct csp_disk csp_disk;

/* Borrows all three. coins: purpose "journal output". */
sefl_status csp_disk_new(csp_disk **out, journal *j, account *a,
                         const sefl_coins *coins) SEFL_MUST_CHECK;
void csp_disk_free(csp_disk *jc);

/* A Paillier key serves one task; a sealed task needs no such rule, since CSP makes a key for each round
 * and wipes it (nothing is done then). The first task that comes with a key is remembered for as long as the
 * folder exists; SEFL_ESTATE for another one: AS could add an upload of the old task to a sum of the new
 * one and get a second noisy view of it, and one stolen key would open both. */
sefl_status csp_disk_bind_key(csp_disk *jc, const task *t) SEFL_MUST_CHECK;

/* Valid as long as jc. */
csp_store csp_disk_store(csp_disk *jc);

#endif
