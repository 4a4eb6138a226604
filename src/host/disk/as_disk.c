#include "store/disk/as_disk.h"

#include <stdio.h>
#include <string.h>

enum kind { FACT, A_FILE, SECRET, PAST };

static const struct {
    const char *name;
    enum kind kind;
} records[AS_RECORDS] = {
    [AS_MEMORY] = { "agg", FACT },      [AS_MODEL] = { "model", FACT },
    [AS_SIGNALS] = { "signals", FACT }, [AS_BYE] = { "bye", FACT },
    [AS_HEADER] = { "header", FACT },   [AS_SET] = { "set", A_FILE },
    [AS_TREE] = { "tree", FACT },       [AS_VERDICT] = { "verdict", FACT },
    [AS_COUNTED] = { "counted", FACT }, [AS_BLOCKED] = { "blocked", FACT },
    [AS_SHARES] = { "shares", SECRET }, [AS_MASK] = { "mask", SECRET },
    [AS_REPLY] = { "reply", SECRET },   [AS_RELEASE] = { "release", SECRET },
    [AS_HISTORY] = { "history", PAST },
};

static sefl_status put(void *ctx, as_record what, uint64_t round, uint64_t attempt, sefl_span bytes)
{
    const as_disk *d = ctx;
    const char *name = records[what].name;
    char purpose[32];
    sefl_rng rng;
    if (records[what].kind == FACT)
        return journal_fact_put(d->j, round, name, bytes);
    if (records[what].kind == A_FILE)
        return journal_file_put(d->j, round, name, bytes);
    snprintf(purpose, sizeof purpose, "journal %s", name);
    sefl_status st = coins_for(d->coins, &rng, purpose, round, attempt);
    SEFL_PASS(st);
    if (records[what].kind == PAST)
        return journal_past_put(d->j, round, bytes, &rng);
    return journal_secret_put(d->j, round, name, bytes, &rng);
}

static sefl_status get(void *ctx, as_record what, uint64_t round, sefl_buf *out)
{
    const as_disk *d = ctx;
    if (records[what].kind == A_FILE)
        return sefl_fail(SEFL_EUNSUPPORTED,
                         "AS reads the set of a round from its uploads, not from the file");
    if (records[what].kind == PAST)
        return journal_past_get(d->j, round, out);
    return (records[what].kind == FACT ? journal_fact_get
                                       : journal_secret_get)(d->j, round, records[what].name, out);
}

static sefl_status row_put(void *ctx, const as_row *row)
{
    journal_round to = { .round = row->round,
                         .state = row->state,
                         .attempt = row->attempt,
                         .opened_ms = row->opened_ms,
                         .deadline_ms = row->deadline_ms,
                         .closed_ms = row->closed_ms,
                         .clients = row->clients,
                         .extensions = row->extensions,
                         .skipped = row->skipped,
                         .charged = row->charged,
                         .has_set = row->has_set,
                         .has_model = row->has_model };
    memcpy(to.set, row->set, sizeof to.set);
    memcpy(to.model, row->model, sizeof to.model);
    return journal_round_put(((const as_disk *)ctx)->j, &to);
}

static sefl_status row_get(void *ctx, uint64_t round, as_row *out)
{
    journal_round from;
    SEFL_PASS(journal_round_get(((const as_disk *)ctx)->j, round, &from));
    *out = (as_row){ .round = from.round,
                     .state = (agg_phase)from.state,
                     .attempt = from.attempt,
                     .opened_ms = from.opened_ms,
                     .deadline_ms = from.deadline_ms,
                     .closed_ms = from.closed_ms,
                     .clients = from.clients,
                     .extensions = from.extensions,
                     .skipped = from.skipped,
                     .charged = from.charged,
                     .has_set = from.has_set,
                     .has_model = from.has_model };
    memcpy(out->set, from.set, sizeof out->set);
    memcpy(out->model, from.model, sizeof out->model);
    return SEFL_OK;
}

static sefl_status step(void *ctx, const as_row *row, sefl_span memory, sefl_span model)
{
    sefl_status st = SEFL_OK;
    journal *j = ((const as_disk *)ctx)->j;
    SEFL_TRY(journal_begin(j));
    SEFL_TRY(journal_fact_put(j, 0, records[AS_MEMORY].name, memory));
    SEFL_TRY(row_put(ctx, row));
    SEFL_TRY(journal_fact_put(j, 0, records[AS_MODEL].name, model));
    SEFL_TRY(journal_commit(j));
done:
    if (st != SEFL_OK)
        journal_rollback(j);
    return st;
}

static sefl_status wipe(void *ctx, uint64_t round)
{
    return journal_round_wipe(((const as_disk *)ctx)->j, round);
}

static sefl_status history_keep(void *ctx, uint64_t from, uint64_t to)
{
    return journal_past_keep(((const as_disk *)ctx)->j, from, to);
}

as_store as_disk_store(as_disk *d)
{
    return (as_store){ .ctx = d, .place = journal_folder(d->j), AS_STORE_CALLS };
}
