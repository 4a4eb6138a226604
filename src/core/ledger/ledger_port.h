/* ledger_port: the operations on a ledger that the secure sum of one task needs.
 *
 * The two servers compare heads in every round and charge a round before they release any part of
 * it. This interface offers only that; account_port (sum/account.h) implements it.
 *
 *     ledger_port port = account_port(account);
 *     SEFL_TRY(port.charge(port.ctx, round));                  // SEFL_OK: the charge is durable
 *
 * Threads: one owner.   Secrets: none. */
#ifndef STORE_LEDGER_PORT_H
#define STORE_LEDGER_PORT_H

#include "store/ledger.h"

typedef struct ledger_port {
    void *ctx;
    sefl_status (*head)(void *ctx, ledger_head *out);
    /* LEDGER_UNREADABLE: sefl_last_error says why. */
    ledger_order (*compare)(void *ctx, const ledger_head *peer);
    /* Like ledger_head_after: fails whenever `charge` would fail, and writes nothing. */
    sefl_status (*head_after)(void *ctx, uint64_t round, ledger_head *out);
    /* Like ledger_charge: SEFL_OK once the charge is durable, SEFL_EBUDGET if it is refused. */
    sefl_status (*charge)(void *ctx, uint64_t round);
    /* Sets *out to whether the round is charged, even if a new charge would be refused. */
    sefl_status (*has)(void *ctx, uint64_t round, bool *out);
} ledger_port;

#endif
