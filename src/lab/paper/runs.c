#include "base/alloc.h"
#include "base/file.h"
#include "paper/limit.h"
#include "simulate/simulate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct session {
    const paper_options *o;
    char name[PAPER_NAME_BYTES]; /* of the current run */
    uint64_t rounds;
    size_t busy; /* runs of other processes */
    bool split;  /* paper_split is done */
} session;

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

static void say_result(const paper_options *o, const sheet_cell *r)
{
    paper_say(o, "%-36s test %.2f  valid %.2f (round %.0f of %.0f)  %.0f s", record_text(r, "name"),
              record_number(r, "best_test"), record_number(r, "best_valid"),
              record_number(r, "best_round"), record_number(r, "rounds"),
              record_number(r, "seconds"));
}

/* Executes the run, and writes its record if it has none. */
static sefl_status do_run(session *s, const paper_run *run, settings *set)
{
    sefl_status st = SEFL_OK;
    simulate_result *result = NULL;
    run_record r;
    char path[PATH_MAX];
    paper_run_name(s->name, run);
    SEFL_TRY(paper_path(path, s->o, "runs/%s.json", s->name));
    SEFL_TRY(sefl_new(&result, 1, sizeof *result));
    SEFL_TRY(simulate_run(&(simulate_config){ .settings = set,
                                              .runs = s->o->runs,
                                              .ctx = s,
                                              .begin = on_begin,
                                              .round = on_round,
                                              .progress = s->o->stop,
                                              .stop = s->o->stop },
                          result));
    if (file_exists(path))
        goto done;
    SEFL_TRY(record_make(r, s->o, run, set, result->folder));
    say_result(s->o, r);
done:
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

/* Sets the part of the text that a variant trains on, with the words of the whole text. */
static sefl_status put_text(session *s, const paper_run *run, settings *set)
{
    const paper_part part = run->variant ? run->variant->text : PAPER_TEXT_ALL;
    if (part == PAPER_TEXT_ALL)
        return SEFL_OK;
    if (!s->split)
        SEFL_PASS(paper_split(s->o));
    s->split = true;
    SEFL_PASS(settings_setf(set, "sefl paper", "data.path=%s/split/%s", s->o->runs,
                            part == PAPER_TEXT_PUBLIC ? "public" : "rest"));
    return settings_setf(set, "sefl paper", "data.vocab=%s/split/words.txt", s->o->runs);
}

/* Sets the initial model of a variant. It stays in its run folder, so that another machine makes it
 * again. */
static sefl_status put_start(session *s, const paper_run *run, settings *set)
{
    sefl_status st = SEFL_OK;
    char model[PATH_MAX], name[PAPER_NAME_BYTES];
    settings of_public;
    if (!run->variant || !run->variant->start)
        return SEFL_OK;
    const paper_run public = paper_run_public(run);
    paper_run_name(name, &public);
    SEFL_PASS(paper_run_settings(&of_public, &public, s->o));
    SEFL_TRY(put_text(s, &public, &of_public));
    SEFL_TRY(do_run(s, &public, &of_public)); /* does nothing if it is finished */
    SEFL_TRY(file_path(model, "%s/%s/model/best.safetensors", s->o->runs, name));
    SEFL_TRY(settings_setf(set, "sefl paper", "model.init=%s", model));
done:
    settings_clear(&of_public);
    return st;
}

static sefl_status make_run(session *s, const paper_run *run, settings *set)
{
    SEFL_PASS(put_text(s, run, set));
    SEFL_PASS(put_start(s, run, set));
    return do_run(s, run, set);
}

/* Sets *known if finished runs decide what this run would show. */
static sefl_status is_known(const session *s, const paper_run *run, bool *known)
{
    sheet all = { 0 };
    const sefl_status st = records_read(&all, s->o);
    *known = st == SEFL_OK && limit_is_known(&all, run);
    sheet_clear(&all);
    return st;
}

/* Does the run unless its result is there. */
static sefl_status one_run(session *s, const paper_run *run)
{
    sefl_status st = SEFL_OK;
    settings set;
    char path[PATH_MAX];
    bool known = false;
    SEFL_PASS(paper_run_settings(&set, run, s->o));
    paper_run_name(s->name, run);
    SEFL_TRY(paper_path(path, s->o, "runs/%s.json", s->name));
    if (file_exists(path)) {
        SEFL_TRY(record_check(path, &set));
        goto done;
    }
    if (run->figures == PAPER_NOISE)
        SEFL_TRY(is_known(s, run, &known));
    if (known)
        goto done;
    for (int tries = 0; tries < 2; tries++) {
        st = make_run(s, run, &set);
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
    settings_clear(&set);
    return st;
}

/* ---- all runs -------------------------------------------------------------------------------- */

sefl_status paper_runs(const paper_options *o, unsigned figures)
{
    char text[PATH_MAX];
    paper_options with_text = *o;
    session s = { .o = &with_text };
    paper_table t;
    SEFL_PASS(paper_text(text, o));
    with_text.data = *text ? text : NULL;
    paper_table_make(&t, o->quick, figures);
    SEFL_PASS(paper_make_folder(o->runs));
    for (size_t i = 0; i < t.n; i++)
        if (paper_is_mine(o, o->shards ? i + i / o->shards : i)) /* so that shards mix models */
            SEFL_PASS(one_run(&s, &t.run[i]));
    if (s.busy > 0)
        paper_say(o, "other processes had %zu of the runs", s.busy);
    return SEFL_OK;
}

sefl_status paper_list(const paper_options *o, unsigned figures)
{
    sefl_status st = SEFL_OK;
    paper_table t;
    sheet all = { 0 };
    char name[PAPER_NAME_BYTES], path[PATH_MAX];
    size_t done_runs = 0, unneeded = 0;
    SEFL_TRY(paper_path(path, o, "runs"));
    if (file_exists(path))
        SEFL_TRY(records_read(&all, o));
    paper_table_make(&t, o->quick, figures);
    for (const paper_run *run = t.run; run < t.run + t.n; run++) {
        const sheet_cell *r = records_find(&all, run);
        const bool known = !r && run->figures == PAPER_NOISE && limit_is_known(&all, run);
        if (r)
            say_result(o, r);
        else if (!known)
            paper_run_name(name, run), paper_say(o, "%s", name);
        done_runs += r != NULL, unneeded += known;
    }
    paper_say(o, "%zu of %zu runs are done", done_runs, t.n - unneeded);
done:
    sheet_clear(&all);
    return st;
}
