/* account: charges one task in a server's ledger, and remembers the ledger's head outside it.
 *
 * Both servers charge only through account_charge, which makes the charge durable (store/ledger.h).
 *
 *     SEFL_TRY(account_open(&a, &memory, "state/../ledger", &task));
 *     SEFL_TRY(account_charge(a, round));                  // durable; or SEFL_EBUDGET
 *
 * The ledger must exist: `sefl provision` or the operator creates it, because creating one silently
 * would reset the budget. It must contain the head that the server's store remembers, so
 * account_open refuses a ledger that was rolled back or replaced. account_charge stores the new
 * head there before it returns. A crash before that leaves an older head, which the ledger contains
 * too. The store itself may be an old copy, which nothing in it shows. So an account compares the
 * server's progress with two records outside the store: the ledger's charges (account_knows), and
 * the latest step of each task in a small file beside the ledger, PATH.latest (account_note). A
 * note of one task never replaces that of another, because AS may go back to an earlier task.
 * After a failed write or sync the next call reloads the ledger, so work continues once the disk
 * has room again.
 * Threads: one owner.   Secrets: none. */
#ifndef SUM_ACCOUNT_H
#define SUM_ACCOUNT_H

#include "base/buf.h"
#include "protocol/task.h"
#include "store/ledger_port.h"

typedef struct account account;

/* The end of error messages about an old copy: what the operator can do. */
#define ACCOUNT_REMEDY                                                                        \
    "first compare both logs and ledgers, since the other server may be wrong; then put the " \
    "newest state of that server in place, or, if it is lost, end the task and create a new " \
    "one (docs/OPERATING.md, section 11)"

/* Where the account remembers heads: named bytes that outlive the task. store/disk/account_disk.h
 * keeps them in a server's journal. */
typedef struct account_memory {
    void *ctx;
    const char *place; /* for error messages: a folder */
    /* Inserts or replaces durably. */
    sefl_status (*put)(void *ctx, const char *name, sefl_span value);
    /* Appends to out; SEFL_ENOTFOUND if there is none. */
    sefl_status (*get)(void *ctx, const char *name, sefl_buf *out);
    /* Where the ledger itself is, if several processes share the store; read is NULL: the file. */
    ledger_medium ledger;
    /* Processes charge the ledger in turn (account_rest): account_open does not read it. */
    bool in_turn;
} account_memory;

/* What m refers to must outlive the account. The simulator, whose state ends with the process,
 * passes NULL; the account then remembers neither head nor step. Fails as ledger_open does. */
sefl_status account_open(account **out, const account_memory *m, const char *ledger_path,
                         const task *t) SEFL_MUST_CHECK;
void account_close(account *a);

/* Forgets what was read: the next call reads the ledger again, after another process charged it. */
void account_rest(account *a);

/* On SEFL_OK the charge is durable. Writes nothing if the round is already charged. */
sefl_status account_charge(account *a, uint64_t round) SEFL_MUST_CHECK;
sefl_status account_has(account *a, uint64_t round, bool *out) SEFL_MUST_CHECK;
/* SEFL_ESTATE if a round after `last` is charged: a store that ends with `last` is an old copy. */
sefl_status account_knows(account *a, uint64_t last) SEFL_MUST_CHECK;
/* Replace durably, and read, the note of this task's latest step. Each server numbers its own steps
 * in increasing order: a lower step than the noted one is SEFL_ESTATE. If hash is NULL, zeros are
 * stored. Step 0 means that there is no note. A damaged file is SEFL_EPROTO. */
sefl_status account_note(account *a, uint64_t step,
                         const uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;
sefl_status account_noted(account *a, uint64_t *step, uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;
/* Computes the population's privacy loss so far at this delta (0: that of its latest task). */
sefl_status account_spent(account *a, double delta, ledger_total *out) SEFL_MUST_CHECK;

/* Returns a port for csp_store and as_link_config, valid as long as the account is. */
ledger_port account_port(account *a);

#endif
