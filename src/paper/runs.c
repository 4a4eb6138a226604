#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "paper/record.h"
#include "simulate/simulate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct session {
    const paper_options *o;
    paper_table table;
    char name[PAPER_NAME_BYTES]; /* of the current run */
    uint64_t rounds;
    size_t busy, late; /* runs of other processes; runs that would end too late */
} session;

/* ---- time ------------------------------------------------------------------------------------ */

/* Returns how alike the costs of two runs are: 0: unrelated models or devices. */
static int alike(const run_record *r, const paper_run *run, bool cpu)
{
    if (strcmp(r->body, paper_body_names[run->body]) != 0 || isnan(r->seconds) ||
        (strcmp(r->device, "cpu") == 0) != cpu)
        return 0;
    return 1 + (r->block == run->block) + (r->clients == run->clients) +
           (strcmp(r->protection, run->protection) == 0) + (r->dropout == run->dropout);
}

/* Returns the expected seconds of a run: those of the most similar finished run; 0: unknown. */
static double expected(const paper_options *o, const paper_run *run)
{
    records all = { 0 };
    int best = 0;
    double seconds = 0;
    const bool cpu = o->device && strcmp(o->device, "cpu") == 0;
    if (o->minutes <= 0 || records_read(&all, o) != SEFL_OK)
        return 0;
    for (size_t i = 0; i < all.n; i++) {
        const int how = alike(&all.at[i], run, cpu);
        if (how > best || (how == best && how > 0 && all.at[i].seconds > seconds)) {
            best = how;
            seconds = all.at[i].seconds;
        }
    }
    records_clear(&all);
    return best ? 1.1 * seconds + 5 : 0; /* reading text takes seconds */
}

/* ---- one run --------------------------------------------------------------------------------- */

static void on_begin(void *ctx, const federation *f, const simulate_result *r)
{
    session *s = ctx;
    s->rounds = f->task.rounds;
    if (*r->fallback)
        paper_say(s->o, "training on the CPU: %s", r->fallback);
    if (r->t.rounds > 0)
        paper_say(s->o, "%s: resumes after round %" PRIu64, s->name, r->t.rounds);
}

static void on_round(void *ctx, const run_line *r)
{
    const session *s = ctx;
    if (s->o->round)
        s->o->round(s->o->ctx, s->name, r->round, s->rounds, r->perplexity > 0 ? r->perplexity : 0);
}

static void say_result(const paper_options *o, const run_record *r)
{
    paper_say(o, "%-36s test %.2f  valid %.2f (round %.0f of %.0f)  %.0f s", r->name, r->best_test,
              r->best_valid, r->best_round, r->rounds, r->seconds);
}

static sefl_status do_run(session *s, const paper_run *run, settings *set)
{
    sefl_status st = SEFL_OK;
    simulate_result *result = NULL;
    run_record r = { 0 };
    SEFL_TRY(sefl_new(&result, 1, sizeof *result));
    SEFL_TRY(simulate_run(&(simulate_config){ .settings = set,
                                              .runs = s->o->runs,
                                              .ctx = s,
                                              .begin = on_begin,
                                              .round = on_round,
                                              .progress = s->o->stop,
                                              .stop = s->o->stop },
                          result));
    SEFL_TRY(record_collect(&r, s->o, run, set, result->folder));
    SEFL_TRY(record_write(s->o, &r));
    say_result(s->o, &r);
done:
    record_clear(&r);
    sefl_free(result);
    return st;
}

/* True if another process works on the current run. */
static bool is_busy(const session *s)
{
    char folder[PATH_MAX];
    int lock = -1;
    if (file_path(folder, "%s/%s", s->o->runs, s->name) != SEFL_OK)
        return false;
    const bool busy = run_folder_lock(&lock, folder) == SEFL_ESTATE;
    if (lock >= 0)
        close(lock);
    return busy;
}

/* Does the run unless its result is there. */
static sefl_status one_run(session *s, const paper_run *run)
{
    sefl_status st = SEFL_OK;
    settings set;
    run_record r = { 0 };
    char path[PATH_MAX];
    SEFL_PASS(paper_run_settings(&set, run, s->o));
    paper_run_name(s->name, run);
    SEFL_TRY(paper_path(path, s->o, "runs/%s.json", s->name));
    if (file_exists(path)) {
        SEFL_TRY(record_read(&r, path));
        SEFL_TRY(record_check(&r, &set));
        goto done;
    }
    if (paper_too_late(s->o, expected(s->o, run))) {
        SEFL_CHECK(progress_report(s->o->stop, 0, 0), SEFL_ECANCELLED, "stopped");
        s->late++;
        goto done;
    }
    for (int tries = 0; tries < 2; tries++) {
        st = do_run(s, run, &set);
        if (st != SEFL_ESTATE)
            break;
        if (is_busy(s)) {
            s->busy++;
            st = SEFL_OK;
            break;
        } /* the other process has ended: its result is there; or the GPU failed: try once more */
    }
done:
    if (st != SEFL_OK)
        sefl_note_before("%s", s->name);
    record_clear(&r);
    settings_clear(&set);
    return st;
}

/* ---- all runs -------------------------------------------------------------------------------- */

/* Neighbours in the table differ in their model: the shards mix models. */
static bool is_mine(const paper_options *o, size_t i)
{
    return o->shards == 0 || (i + i / o->shards) % o->shards == o->shard;
}

sefl_status paper_runs(const paper_options *o, unsigned figures, size_t *left)
{
    sefl_status st = SEFL_OK;
    char text[PATH_MAX];
    paper_options with_text = *o;
    session s = { .o = &with_text };
    *left = 0;
    SEFL_TRY(paper_text(text, o));
    with_text.data = *text ? text : NULL;
    SEFL_TRY(paper_table_make(&s.table, o->quick, figures));
    SEFL_TRY(paper_make_folder(o->runs));
    for (size_t i = 0; i < s.table.n; i++)
        if (is_mine(o, i))
            SEFL_TRY(one_run(&s, &s.table.run[i]));
    if (s.late > 0)
        paper_say(o, "%zu run%s left: %s would end after %g minutes", s.late,
                  s.late == 1 ? "" : "s", s.late == 1 ? "it" : "they", o->minutes);
    if (s.busy > 0)
        paper_say(o, "other processes had %zu of the runs", s.busy);
    *left = s.late + s.busy;
done:
    paper_table_clear(&s.table);
    return st;
}

sefl_status paper_list(const paper_options *o, unsigned figures)
{
    sefl_status st = SEFL_OK;
    paper_table t = { 0 };
    char name[PAPER_NAME_BYTES], path[PATH_MAX];
    size_t done_runs = 0;
    SEFL_TRY(paper_table_make(&t, o->quick, figures));
    for (size_t i = 0; i < t.n; i++) {
        run_record r = { 0 };
        paper_run_name(name, &t.run[i]);
        SEFL_TRY(paper_path(path, o, "runs/%s.json", name));
        if (!file_exists(path)) {
            paper_say(o, "%s", name);
            continue;
        }
        SEFL_TRY(record_read(&r, path));
        say_result(o, &r);
        record_clear(&r);
        done_runs++;
    }
    paper_say(o, "%zu of %zu runs are done", done_runs, t.n);
done:
    paper_table_clear(&t);
    return st;
}
