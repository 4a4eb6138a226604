/* client_counted: what a client's store recorded about a round, read from the file itself. */
#ifndef TESTS_CLIENT_COUNTED_H
#define TESTS_CLIENT_COUNTED_H

#include "base/file.h"
#include "roles/client/receipts.h"
#include "roles/client/store.h"

/* SEFL_ENOTFOUND if there is no record of the round. proof: appended; may be NULL. */
static inline sefl_status counted_read(const char *folder, const uint8_t *id, client_counted *out,
                                       sefl_buf *proof, uint64_t round)
{
    sefl_status st = SEFL_OK;
    receipts *r = NULL;
    sefl_buf b = { 0 };
    char path[PATH_MAX];
    SEFL_TRY(file_path(path, "%s/counted", folder));
    SEFL_TRY(receipts_open(&r, path));
    SEFL_TRY(receipts_find(r, &b, id, round));
    SEFL_CHECK(b.n >= 1 && b.p[0] >= CLIENT_COUNTED && b.p[0] <= CLIENT_FORMER, SEFL_EPROTO,
               "no outcome");
    *out = (client_counted)b.p[0];
    if (proof)
        SEFL_TRY(wr_raw(proof, b.p + 1, b.n - 1));
done:
    receipts_close(r);
    buf_clear(&b);
    return st;
}

#endif
