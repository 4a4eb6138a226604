#include "sum/account.h"

#include "base/alloc.h"
#include "base/file.h"
#include "sum/terms.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NOTE_BYTES = 32 + 8 + SHA256_BYTES,
    NOTES_MAX = 4 * LEDGER_TASKS_MAX /* AS also notes tasks that are never charged */
};

struct account {
    account_memory m;
    bool remembers;    /* false: neither head nor step */
    ledger *l;         /* NULL: must be reopened */
    char *path, *note; /* PATH.latest: each task 32, step u64, hash 32, sorted by task */
    char population[TASK_NAME_MAX + 1];
    char fact[TASK_NAME_MAX + 16]; /* name of the remembered head */
    ledger_terms terms;
};

/* ---- the remembered head ------------------------------------------------------------------- */

static sefl_status recall(const account *a, ledger_head *out, bool *any)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    *any = false;
    if (!a->remembers)
        return SEFL_OK;
    st = a->m.get(a->m.ctx, a->fact, &b);
    if (st == SEFL_ENOTFOUND) {
        st = SEFL_OK;
        goto done;
    }
    SEFL_TRY(st);
    rd r = rd_over(buf_span(&b));
    SEFL_TRY(ledger_head_read(&r, out));
    SEFL_TRY(rd_end(&r));
    *any = true;
done:
    buf_clear(&b);
    return st;
}

/* Writes only what has changed. */
static sefl_status remember(const account *a)
{
    sefl_status st = SEFL_OK;
    ledger_head now, before;
    bool any;
    sefl_buf b = { 0 };
    if (!a->remembers)
        return SEFL_OK;
    ledger_get_head(a->l, &now);
    SEFL_TRY(recall(a, &before, &any));
    if (any && before.records == now.records)
        goto done; /* the ledger contains it, so the hashes are equal */
    SEFL_TRY(ledger_head_write(&b, &now));
    SEFL_TRY(a->m.put(a->m.ctx, a->fact, buf_span(&b)));
done:
    buf_clear(&b);
    return st;
}

/* Reopens the ledger if it has failed. */
static sefl_status ready(account *a)
{
    ledger_head head;
    bool any;
    if (a->l)
        return SEFL_OK;
    SEFL_PASS(recall(a, &head, &any));
    const ledger_head *known = any ? &head : NULL;
    sefl_status st = a->m.ledger.read
                         ? ledger_open_shared(&a->l, &a->m.ledger, a->path, a->population, known)
                         : ledger_open(&a->l, a->path, a->population, known);
    if (st == SEFL_ESTATE && a->m.ledger.read)
        st = sefl_fail(st, "%s; " ACCOUNT_REMEDY, sefl_last_error());
    else if (st == SEFL_ESTATE) /* of another population, or older than the remembered head */
        st = sefl_fail(st,
                       "%s; put the newest ledger of population \"%s\" in place; if it is lost, "
                       "a copy of the other server's (docs/OPERATING.md, section 13)",
                       sefl_last_error(), a->population);
    return st;
}

static void drop(account *a)
{
    ledger_close(a->l);
    a->l = NULL;
}

/* ---- public -------------------------------------------------------------------------------- */

sefl_status account_open(account **out, const account_memory *m, const char *ledger_path,
                         const task *t)
{
    SEFL_MAKE(account, a, out);
    a->remembers = m;
    if (m)
        a->m = *m;
    a->terms = terms_of_task(t);
    snprintf(a->population, sizeof a->population, "%s", t->population);
    snprintf(a->fact, sizeof a->fact, "ledger of %s", t->population);
    SEFL_TRY(sefl_strdup(&a->path, ledger_path));
    size_t n = strlen(ledger_path) + sizeof ".latest";
    SEFL_TRY(sefl_new(&a->note, n, 1));
    snprintf(a->note, n, "%s.latest", ledger_path);
    if (!a->m.in_turn) {
        SEFL_TRY(ready(a));
        SEFL_TRY(remember(a));
    }
    SEFL_HAND_OVER(out, a, account_close);
}

void account_close(account *a)
{
    if (!a)
        return;
    drop(a);
    sefl_free(a->path);
    sefl_free(a->note);
    sefl_free(a);
}

void account_rest(account *a)
{
    drop(a);
}

sefl_status account_charge(account *a, uint64_t round)
{
    SEFL_PASS(ready(a));
    sefl_status st = ledger_charge(a->l, &a->terms, round, NULL);
    if (st == SEFL_EIO || st == SEFL_ENOMEM || (a->m.ledger.read && st != SEFL_OK))
        drop(a); /* it refuses everything until it is reopened */
    SEFL_PASS(st);
    return remember(a);
}

/* As ledger_port.head_after. */
static sefl_status head_after(void *ctx, uint64_t round, ledger_head *out)
{
    account *a = ctx;
    sefl_status st = ready(a);
    return st == SEFL_OK ? ledger_head_after(a->l, &a->terms, round, out) : st;
}

sefl_status account_has(account *a, uint64_t round, bool *out)
{
    sefl_status st = ready(a);
    *out = st == SEFL_OK && ledger_has(a->l, a->terms.task, round);
    return st;
}

sefl_status account_knows(account *a, uint64_t last)
{
    uint64_t charged, known = 0;
    SEFL_PASS(ready(a));
    charged = ledger_rounds(a->l, a->terms.task);
    for (uint64_t r = 1; r <= last; r++)
        known += ledger_has(a->l, a->terms.task, r);
    SEFL_NEED(known == charged, SEFL_ESTATE,
              "%s has charged %" PRIu64 " rounds of this task, but %s has only %" PRIu64
              " of them: it was deleted, or an old copy was put back. A round could be released "
              "twice: " ACCOUNT_REMEDY,
              a->path, charged, a->remembers ? a->m.place : "this process", known);
    return SEFL_OK;
}

/* ---- the notes ------------------------------------------------------------------------------- */

/* Reads all notes into out; *at is where this task's note is, or would be. */
static sefl_status read_notes(const account *a, sefl_buf *out, size_t *at, bool *any)
{
    sefl_status st = file_read(out, a->note, (size_t)NOTES_MAX * NOTE_BYTES);
    *at = 0, *any = false;
    if (st == SEFL_ENOTFOUND)
        return SEFL_OK;
    SEFL_PASS(st);
    SEFL_NEED(out->n > 0 && out->n % NOTE_BYTES == 0, SEFL_EPROTO,
              "%s has %zu bytes, not a multiple of %d: it is damaged", a->note, out->n, NOTE_BYTES);
    for (size_t i = 0; i < out->n; i += NOTE_BYTES) {
        SEFL_NEED(i == 0 || memcmp(out->p + i - NOTE_BYTES, out->p + i, 32) < 0, SEFL_EPROTO,
                  "the tasks in %s are not in order: it is damaged", a->note);
        const int order = memcmp(out->p + i, a->terms.task, 32);
        if (order < 0)
            *at = i + NOTE_BYTES;
        *any = *any || order == 0;
    }
    return SEFL_OK;
}

sefl_status account_note(account *a, uint64_t step, const uint8_t hash[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    uint8_t bytes[NOTE_BYTES] = { 0 };
    sefl_buf old = { 0 }, now = { 0 };
    size_t at;
    bool any;
    if (!a->remembers)
        return SEFL_OK;
    memcpy(bytes, a->terms.task, 32);
    store_u64(bytes + 32, step);
    if (hash)
        memcpy(bytes + 40, hash, SHA256_BYTES);
    SEFL_TRY(read_notes(a, &old, &at, &any));
    SEFL_CHECK(
        !any || load_u64(old.p + at + 32) <= step, SEFL_ESTATE,
        "%s has a later step of this task: an old copy of the state is in use; " ACCOUNT_REMEDY,
        a->note);
    SEFL_CHECK(
        any || old.n < (size_t)NOTES_MAX * NOTE_BYTES, SEFL_ERANGE,
        "%s has %d tasks, and no more fit in: go on with a new ledger, of another population",
        a->note, NOTES_MAX);
    const size_t rest = at + (any ? NOTE_BYTES : 0);
    SEFL_TRY(wr_raw(&now, old.p, at));
    SEFL_TRY(wr_raw(&now, bytes, sizeof bytes));
    if (rest < old.n)
        SEFL_TRY(wr_raw(&now, old.p + rest, old.n - rest));
    SEFL_TRY(file_write_atomic(a->note, buf_span(&now), 0600));
done:
    buf_clear(&old);
    buf_clear(&now);
    return st;
}

sefl_status account_noted(account *a, uint64_t *step, uint8_t hash[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    size_t at;
    bool any;
    *step = 0;
    memset(hash, 0, SHA256_BYTES);
    if (!a->remembers)
        return SEFL_OK;
    SEFL_TRY(read_notes(a, &b, &at, &any));
    if (any) {
        *step = load_u64(b.p + at + 32);
        memcpy(hash, b.p + at + 40, SHA256_BYTES);
    }
done:
    buf_clear(&b);
    return st;
}

/* ---- the port -------------------------------------------------------------------------------- */

sefl_status account_spent(account *a, double delta, ledger_total *out)
{
    sefl_status st = ready(a);
    return st == SEFL_OK ? ledger_spent(a->l, delta, out) : st;
}

static sefl_status head(void *ctx, ledger_head *out)
{
    account *a = ctx;
    sefl_status st = ready(a);
    if (st == SEFL_OK)
        ledger_get_head(a->l, out);
    return st;
}

static ledger_order compare(void *ctx, const ledger_head *peer)
{
    account *a = ctx;
    return ready(a) == SEFL_OK ? ledger_compare(a->l, peer) : LEDGER_UNREADABLE;
}

static sefl_status charge(void *ctx, uint64_t round)
{
    return account_charge(ctx, round);
}

static sefl_status has(void *ctx, uint64_t round, bool *out)
{
    return account_has(ctx, round, out);
}

ledger_port account_port(account *a)
{
    return (ledger_port){ a, head, compare, head_after, charge, has };
}
