#include "store/db/db.h"

#include <stdio.h>

sefl_status db_open(db **out, const db_driver *driver, const char *place, const char *role,
                    const char *const *steps, unsigned nsteps)
{
    return driver->open(out, place, role, steps, nsteps, NULL);
}

sefl_status db_open_while(db **out, const db_driver *driver, const char *place, const char *role,
                          const char *const *steps, unsigned nsteps, const sefl_progress *going)
{
    return driver->open(out, place, role, steps, nsteps, going);
}

void db_close(db *d)
{
    if (d)
        d->driver->close(d);
}

const char *db_place(const db *d)
{
    return d->place;
}

sefl_status db_begin(db *d)
{
    return d->driver->begin(d, true);
}

sefl_status db_begin_shared(db *d)
{
    return d->driver->begin(d, false);
}

sefl_status db_commit(db *d)
{
    return d->driver->commit(d);
}

void db_rollback(db *d)
{
    d->driver->rollback(d);
}

sefl_status db_each_args(db *d, const char *sql, const db_value *args, db_row_fn *fn, void *ctx)
{
    return d->driver->each(d, sql, args, fn, ctx);
}

uint64_t db_col_u64(const db_row *r, int col)
{
    return r->driver->col_u64(r, col);
}

sefl_span db_col_bytes(const db_row *r, int col)
{
    return r->driver->col_bytes(r, col);
}

bool db_col_null(const db_row *r, int col)
{
    return r->driver->col_null(r, col);
}

sefl_status db_take_u64(void *ctx, const db_row *row)
{
    *(uint64_t *)ctx = db_col_u64(row, 0);
    return SEFL_OK;
}

sefl_status db_take_word(void *ctx, const db_row *row)
{
    db_word *w = ctx;
    sefl_span s = db_col_bytes(row, 0);
    snprintf(w->text, sizeof w->text, "%.*s", (int)(s.n < 60 ? s.n : 60), (const char *)s.p);
    return SEFL_OK;
}

sefl_status db_now_ms(db *d, uint64_t *out)
{
    return d->driver->now_ms(d, out);
}

sefl_status db_tidy(db *d, const char *table)
{
    return d->driver->tidy(d, table);
}
