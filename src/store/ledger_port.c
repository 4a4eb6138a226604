#include "store/ledger_port.h"

static sefl_status head(void *ctx, ledger_head *out)
{
    ledger_get_head(((ledger_book *)ctx)->ledger, out);
    return SEFL_OK;
}

static ledger_order compare(void *ctx, const ledger_head *peer)
{
    return ledger_compare(((ledger_book *)ctx)->ledger, peer);
}

static sefl_status head_after(void *ctx, uint64_t round, ledger_head *out)
{
    const ledger_book *b = ctx;
    return ledger_head_after(b->ledger, &b->terms, round, out);
}

static sefl_status charge(void *ctx, uint64_t round)
{
    const ledger_book *b = ctx;
    return ledger_charge(b->ledger, &b->terms, round, NULL);
}

ledger_port ledger_port_of(ledger_book *book)
{
    return (ledger_port){ book, head, compare, head_after, charge };
}
