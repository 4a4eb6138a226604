#include "store/disk/account_disk.h"

static sefl_status put(void *ctx, const char *name, sefl_span value)
{
    return journal_lasting_put(ctx, name, value);
}

static sefl_status get(void *ctx, const char *name, sefl_buf *out)
{
    return journal_lasting_get(ctx, name, out);
}

sefl_status account_disk_open(account **out, journal *j, const char *ledger_path, const task *t)
{
    account_memory m = { .ctx = j,
                         .place = journal_folder(j),
                         .shared = journal_is_shared(j),
                         .put = put,
                         .get = get };
    return account_open(out, &m, ledger_path, t);
}
