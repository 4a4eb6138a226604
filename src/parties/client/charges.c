#include "roles/client/charges.h"

#include "base/file.h"
#include "roles/client/store.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* ---- the marks ------------------------------------------------------------------------------- */

/* Reads what every mark begins with. *charged is false if this is no mark of this version. */
static sefl_status read_mark(const char *path, uint8_t of[LEDGER_TASK_BYTES], uint64_t *round,
                             bool *charged)
{
    sefl_buf b = { 0 };
    uint8_t digest[SHA256_BYTES], phase;
    uint64_t attempt;
    *charged = false;
    sefl_status st = file_read_plain(&b, path, 4096);
    if (st == SEFL_OK && b.n > sizeof digest) {
        const size_t n = b.n - sizeof digest;
        rd r = rd_over(span_of(b.p, n));
        sha256_of(digest, span_of(b.p, n));
        *charged =
            memcmp(digest, b.p + n, sizeof digest) == 0 &&
            rd_expect(&r, CLIENT_MARK_MAGIC, strlen(CLIENT_MARK_MAGIC), "a mark") == SEFL_OK &&
            rd_raw(&r, of, LEDGER_TASK_BYTES) == SEFL_OK && rd_u64(&r, round) == SEFL_OK &&
            rd_u64(&r, &attempt) == SEFL_OK && rd_u8(&r, &phase) == SEFL_OK &&
            (phase & CLIENT_MARK_CHARGED) != 0;
    }
    buf_clear(&b);
    return st == SEFL_EINVAL || st == SEFL_ERANGE ? SEFL_OK : st;
}

sefl_status charges_of_marks(const char *state, void *ctx, charges_each *each)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    uint8_t of[LEDGER_TASK_BYTES];
    uint64_t round;
    bool charged;
    DIR *d = opendir(state);
    SEFL_CHECK(d, SEFL_EIO, "cannot read %s: %s", state, strerror(errno));
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, "mark-", 5) != 0 || strstr(e->d_name, ".tmp-"))
            continue;
        SEFL_TRY(file_path(path, "%s/%s", state, e->d_name));
        SEFL_TRY(read_mark(path, of, &round, &charged));
        if (charged)
            SEFL_TRY(each(ctx, path, of, round));
    }
done:
    if (d)
        closedir(d);
    return st;
}

/* ---- the check ------------------------------------------------------------------------------- */

typedef struct pair {
    const ledger *book;
    const char *path, *state;
} pair;

static sefl_status need(void *ctx, const char *mark, const uint8_t of[LEDGER_TASK_BYTES],
                        uint64_t round)
{
    const pair *p = ctx;
    (void)mark;
    SEFL_NEED(ledger_has(p->book, of, round), SEFL_ESTATE,
              "the ledger %s lacks a charge: %s shows that this client uploaded to round %" PRIu64
              ". The ledger is an old copy, or another text's: put the newest copy in place; for "
              "another text, set `state` to another folder",
              p->path, p->state, round);
    return SEFL_OK;
}

sefl_status charges_check(const ledger *book, const char *path, const receipts *r,
                          const char *state)
{
    sefl_status st = SEFL_OK;
    pair p = { .book = book, .path = path, .state = state };
    uint8_t of[RECEIPTS_TASK];
    uint64_t round;
    sefl_buf b = { 0 };
    for (size_t i = 0; i < receipts_count(r); i++) {
        buf_reset(&b);
        SEFL_TRY(receipts_at(r, i, of, &round, &b));
        SEFL_TRY(need(&p, NULL, of, round));
    }
    SEFL_TRY(charges_of_marks(state, &p, need));
done:
    buf_clear(&b);
    return st;
}
