#include "store/journal/lease.h"

#include "store/journal/journal_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct held {
    bool found;
    lease_info l;
    uint64_t expires_ms;
} held;

static void take_text(char out[LEASE_NAME_MAX + 1], sefl_span s)
{
    snprintf(out, LEASE_NAME_MAX + 1, "%.*s", (int)(s.n < LEASE_NAME_MAX ? s.n : LEASE_NAME_MAX),
             (const char *)s.p);
}

static sefl_status take_held(void *ctx, const db_row *row)
{
    held *h = ctx;
    h->found = true;
    take_text(h->l.name, db_col_bytes(row, 0));
    take_text(h->l.holder, db_col_bytes(row, 1));
    h->l.fence = db_col_u64(row, 2);
    h->expires_ms = db_col_u64(row, 3);
    return SEFL_OK;
}

#define SELECT_LEASE "SELECT name, holder, fence, expires_ms FROM lease WHERE name = ?"

static sefl_status check_names(const char *name, const char *holder)
{
    SEFL_NEED(strlen(name) >= 1 && strlen(name) <= LEASE_NAME_MAX, SEFL_EINVAL,
              "a lease's name has 1 to %d bytes", LEASE_NAME_MAX);
    SEFL_NEED(strlen(holder) <= LEASE_NAME_MAX, SEFL_EINVAL, "a holder has at most %d bytes",
              LEASE_NAME_MAX);
    return SEFL_OK;
}

/* In a transaction that excludes all others: two processes cannot both insert a first row. */
static sefl_status take(db *d, const char *name, const char *holder, uint64_t ttl_ms, lease *out)
{
    held h = { .found = false };
    uint64_t now = 0;
    SEFL_PASS(db_each(d, take_held, &h, SELECT_LEASE " FOR UPDATE", db_text(name)));
    SEFL_PASS(db_now_ms(d, &now)); /* after the wait for the lock */
    SEFL_NEED(!h.found || h.expires_ms <= now, SEFL_ESTATE,
              "%s has the lease \"%s\" for %" PRIu64 " ms more", h.l.holder, name,
              h.expires_ms - now);
    SEFL_PASS(db_run(d,
                     "INSERT INTO lease VALUES(?,?,?,?) ON CONFLICT(name) DO UPDATE SET "
                     "holder = excluded.holder, fence = excluded.fence, "
                     "expires_ms = excluded.expires_ms",
                     db_text(name), db_text(holder), db_u64(h.l.fence + 1), db_u64(now + ttl_ms)));
    snprintf(out->name, sizeof out->name, "%s", name);
    out->fence = h.l.fence + 1;
    out->ttl_ms = ttl_ms;
    return SEFL_OK;
}

sefl_status lease_take(journal *j, const char *name, const char *holder, uint64_t ttl_ms,
                       lease *out)
{
    sefl_status st = SEFL_OK;
    lease l = { .fence = 0 };
    *out = l;
    SEFL_PASS(check_names(name, holder));
    pthread_mutex_lock(&j->rows);
    SEFL_CHECK(!j->in_transaction, SEFL_ESTATE, "lease: inside a transaction");
    SEFL_TRY(db_begin(j->d));
    st = take(j->d, name, holder, ttl_ms, &l);
    if (st == SEFL_OK)
        st = db_commit(j->d);
    else
        db_rollback(j->d);
    if (st == SEFL_OK)
        *out = l;
done:
    pthread_mutex_unlock(&j->rows);
    return st;
}

/* Sets the time of expiry to ttl_ms from now, in a transaction of its own. */
static sefl_status set_expiry(journal *j, const lease *l, uint64_t ttl_ms)
{
    sefl_status st = SEFL_OK;
    held h = { .found = false };
    uint64_t now = 0;
    pthread_mutex_lock(&j->rows);
    SEFL_CHECK(!j->in_transaction, SEFL_ESTATE, "lease: inside a transaction");
    SEFL_TRY(db_begin_shared(j->d));
    /* does not wait for check, which may be in a long transaction of this process; take does */
    SEFL_TRY(db_each(j->d, take_held, &h, SELECT_LEASE " FOR NO KEY UPDATE", db_text(l->name)));
    SEFL_CHECK(h.found && h.l.fence == l->fence && h.expires_ms > 0, SEFL_ESTATE,
               "the lease \"%s\" was lost: %s has it", l->name, h.found ? h.l.holder : "nobody");
    SEFL_TRY(db_now_ms(j->d, &now));
    SEFL_TRY(db_run(j->d, "UPDATE lease SET expires_ms = ? WHERE name = ?",
                    db_u64(ttl_ms ? now + ttl_ms : 0), db_text(l->name)));
    SEFL_TRY(db_commit(j->d));
done:
    if (st != SEFL_OK && !j->in_transaction)
        db_rollback(j->d);
    pthread_mutex_unlock(&j->rows);
    return st;
}

sefl_status lease_renew(journal *j, const lease *l)
{
    return set_expiry(j, l, l->ttl_ms);
}

sefl_status lease_release(journal *j, const lease *l)
{
    sefl_status st = l->fence ? set_expiry(j, l, 0) : SEFL_OK;
    return st == SEFL_ESTATE ? SEFL_OK : st;
}

static sefl_status check(db *d, const lease *l)
{
    held h = { .found = false };
    SEFL_PASS(db_each(d, take_held, &h, SELECT_LEASE " FOR KEY SHARE", db_text(l->name)));
    SEFL_NEED(h.found && h.l.fence == l->fence && h.expires_ms > 0, SEFL_ESTATE,
              "the lease \"%s\" was lost: %s has it", l->name, h.found ? h.l.holder : "nobody");
    return SEFL_OK;
}

sefl_status lease_check(journal *j, const lease *l)
{
    pthread_mutex_lock(&j->rows);
    sefl_status st =
        j->in_transaction ? check(j->d, l) : sefl_fail(SEFL_ESTATE, "lease: outside a transaction");
    pthread_mutex_unlock(&j->rows);
    return st;
}

sefl_status guard_check(const journal *j, db *d)
{
    return j->guard.name[0] ? check(d, &j->guard) : SEFL_OK;
}

void journal_guard(journal *j, const lease *l)
{
    pthread_mutex_lock(&j->rows);
    pthread_mutex_lock(&j->files);
    j->guard = l ? *l : (lease){ .fence = 0 };
    pthread_mutex_unlock(&j->files);
    pthread_mutex_unlock(&j->rows);
}

/* ---- looking ------------------------------------------------------------------------------- */

sefl_status lease_look(journal *j, const char *name, lease_info *out)
{
    sefl_status st = SEFL_OK;
    held h = { .found = false };
    uint64_t now = 0;
    pthread_mutex_lock(&j->rows);
    SEFL_TRY(db_now_ms(j->d, &now));
    SEFL_TRY(db_each(j->d, take_held, &h, SELECT_LEASE, db_text(name)));
    SEFL_CHECK(h.found, SEFL_ENOTFOUND, "nobody has taken the lease \"%s\"", name);
    *out = h.l;
    out->left_ms = h.expires_ms > now ? h.expires_ms - now : 0;
done:
    pthread_mutex_unlock(&j->rows);
    return st;
}
