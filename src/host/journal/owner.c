/* A shared database serves one owner. A lasting fact names it, so that a second task at AS, or
 * another CSP, never mixes its leases and rows with those of the first. */
#include "base/hex.h"
#include "store/journal/journal_inside.h"

#include <string.h>

typedef struct owner_found {
    bool found;
    uint8_t id[32];
} owner_found;

static sefl_status take_owner(void *ctx, const db_row *row)
{
    owner_found *o = ctx;
    o->found = true;
    sefl_span s = db_col_bytes(row, 0);
    SEFL_NEED(s.n == sizeof o->id, SEFL_EPROTO, "store: its owner has %zu bytes", s.n);
    memcpy(o->id, s.p, s.n);
    return SEFL_OK;
}

#define OWNER "owner" /* a lasting fact */

/* Takes a new database for this owner; in a transaction that excludes every other process. */
static sefl_status bind_new(db *d, const uint8_t id[32], owner_found *o)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(db_begin(d));
    SEFL_TRY(db_each(d, take_owner, o, "SELECT value FROM lasting WHERE name = ?", db_text(OWNER)));
    if (!o->found)
        SEFL_TRY(db_run(d, "INSERT INTO lasting VALUES(?, ?)", db_text(OWNER),
                        db_blob(span_of(id, 32))));
    SEFL_TRY(db_commit(d));
    if (!o->found)
        memcpy(o->id, id, sizeof o->id);
done:
    if (st != SEFL_OK)
        db_rollback(d);
    return st;
}

sefl_status owner_bind(db *d, const journal_place *at)
{
    owner_found o = { .found = false };
    char theirs[17], ours[17];
    if (!at->owner)
        return SEFL_OK;
    SEFL_PASS(
        db_each(d, take_owner, &o, "SELECT value FROM lasting WHERE name = ?", db_text(OWNER)));
    if (!o.found)
        SEFL_PASS(bind_new(d, at->owner, &o));
    SEFL_NEED(memcmp(o.id, at->owner, sizeof o.id) == 0, SEFL_ESTATE,
              "the database %s belongs to the %s %s..., not to %s...: each %s needs a database, or "
              "a schema, of its own",
              db_place(d), at->owner_is, hex_write(theirs, o.id, 8), hex_write(ours, at->owner, 8),
              at->owner_is);
    return SEFL_OK;
}
