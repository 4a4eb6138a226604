#include "store/disk/account_disk.h"

static sefl_status account_disk_put(void *ctx, const char *name, sefl_span value)
{
    return journal_lasting_put(ctx, name, value);
}

static sefl_status account_disk_get(void *ctx, const char *name, sefl_buf *out)
{
    return journal_lasting_get(ctx, name, out);
}

static sefl_status log_read(void *ctx, const char *name, sefl_buf *out)
{
    return journal_log_read(ctx, name, out);
}

static sefl_status log_append(void *ctx, const char *name, uint64_t at, sefl_span bytes)
{
    return journal_log_append(ctx, name, at, bytes);
}

static sefl_status open_account(account **out, journal *j, const char *ledger_path, const task *t,
                                bool in_turn)
{
    account_memory m = { .ctx = j,
                         .place = journal_place_name(j),
                         .put = account_disk_put,
                         .get = account_disk_get,
                         .in_turn = in_turn };
    if (journal_is_shared(j))
        m.ledger = (ledger_medium){ j, journal_place_name(j), log_read, log_append };
    return account_open(out, &m, ledger_path, t);
}

sefl_status account_disk_open(account **out, journal *j, const char *ledger_path, const task *t)
{
    return open_account(out, j, ledger_path, t, false);
}

sefl_status account_disk_open_in_turn(account **out, journal *j, const char *ledger_path,
                                      const task *t)
{
    return open_account(out, j, ledger_path, t, true);
}
