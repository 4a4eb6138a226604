#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "paper/limit.h"
#include "simulate/simulate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { FIGURES = 10 };
_Static_assert(PAPER_ALL == (1 << FIGURES) - 1, "one bit per figure");

typedef struct session {
    const paper_options *o;
    char name[PAPER_NAME_BYTES]; /* of the current run */
    uint64_t rounds;
    size_t busy, late; /* runs of other processes; runs that would end too late */
    bool split;        /* paper_split is done */
} session;

/* ---- time ------------------------------------------------------------------------------------ */

/* Returns how alike the costs of two runs are: 0: unrelated models or devices. */
static int alike(const sheet_cell *r, const paper_run *run, bool cpu)
{
    if (strcmp(record_text(r, "body"), paper_body_names[run->body]) != 0 ||
        !(record_number(r, "rounds") > 0 && record_number(r, "seconds") >= 0) ||
        (strcmp(record_text(r, "device"), "cpu") == 0) != cpu)
        return 0;
    return 1 + (record_number(r, "block") == run->block) +
           (record_number(r, "clients") == run->clients) +
           (strcmp(record_text(r, "protection"), run->protection) == 0) +
           (record_number(r, "dropout") == run->dropout) +
           (strcmp(record_text(r, "variant"), run->variant ? run->variant->name : "") == 0);
}

/* Returns the expected seconds of a run, from the rounds of the most similar finished run; 0:
 * unknown. */
static double expected(const paper_options *o, const sheet *all, const paper_run *run)
{
    int best = 0;
    double seconds = 0; /* of a round */
    const bool cpu = o->device && strcmp(o->device, "cpu") == 0;
    for (size_t i = 0; i < all->rows; i++) {
        const sheet_cell *r = all->cell + i * RECORD_WIDTH;
        const int how = alike(r, run, cpu);
        const double each = record_number(r, "seconds") / record_number(r, "rounds");
        if (how > best || (how == best && how > 0 && each > seconds)) {
            best = how;
            seconds = each;
        }
    }
    return best ? 1.1 * seconds * run->rounds + 5 : 0; /* reading text takes seconds */
}

/* Returns the seconds that a run takes on an H200 of its own, going by 35 s for 40 rounds of 10
 * clients; 1,000 clients take longer. */
static double gpu_seconds(const paper_run *run)
{
    return 35.0 / 40 * run->rounds * (100 - run->dropout) / 100;
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

/* Sets *wanted to false if there is no need for the run now: its limit is known, or it would end
 * too late. */
static sefl_status is_wanted(session *s, const paper_run *run, bool *wanted)
{
    sefl_status st = SEFL_OK;
    sheet all = { 0 };
    if (s->o->minutes > 0 || run->figures == PAPER_NOISE)
        SEFL_TRY(records_read(&all, s->o));
    *wanted = run->figures != PAPER_NOISE || !limit_is_known(&all, run);
    if (!*wanted || !paper_too_late(s->o, expected(s->o, &all, run)))
        goto done;
    SEFL_CHECK(progress_report(s->o->stop, 0, 0), SEFL_ECANCELLED, "stopped");
    *wanted = false;
    s->late++;
done:
    sheet_clear(&all);
    return st;
}

/* Does the run unless its result is there. */
static sefl_status one_run(session *s, const paper_run *run)
{
    sefl_status st = SEFL_OK;
    settings set;
    char path[PATH_MAX];
    bool wanted;
    SEFL_PASS(paper_run_settings(&set, run, s->o));
    paper_run_name(s->name, run);
    SEFL_TRY(paper_path(path, s->o, "runs/%s.json", s->name));
    if (file_exists(path)) {
        SEFL_TRY(record_check(path, &set));
        goto done;
    }
    SEFL_TRY(is_wanted(s, run, &wanted));
    if (!wanted)
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
    if (s.late > 0)
        paper_say(o, "%zu run%s left: %s would end after %g minutes", s.late,
                  s.late == 1 ? "" : "s", s.late == 1 ? "it" : "they", o->minutes);
    if (s.busy > 0)
        paper_say(o, "other processes had %zu of the runs", s.busy);
    return SEFL_OK;
}

/* Says for each figure how many runs of the table are left. */
static void say_left(const paper_options *o, const paper_table *t)
{
    char name[SETTING_WORD_BYTES];
    for (unsigned bit = 0; bit < FIGURES; bit++) {
        size_t left = 0;
        double seconds = 0;
        for (const paper_run *run = t->run; run < t->run + t->n; run++)
            if (run->figures >> bit & 1)
                left++, seconds += gpu_seconds(run);
        if (left > 0)
            paper_say(o, "%s: %zu left, about %.0f s of an H200%s",
                      setting_word_at(name, PAPER_FIGURES, bit), left, seconds,
                      1U << bit == PAPER_NOISE ? "; the bisection skips most of them" : "");
    }
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
    for (paper_run *run = t.run; run < t.run + t.n; run++) {
        const sheet_cell *r = records_find(&all, run);
        const bool known = !r && run->figures == PAPER_NOISE && limit_is_known(&all, run);
        if (r)
            say_result(o, r);
        else if (!known)
            paper_run_name(name, run), paper_say(o, "%s", name);
        done_runs += r != NULL, unneeded += known;
        if (r || known)
            run->figures = 0; /* nothing is left */
    }
    if (!o->quick)
        say_left(o, &t);
    paper_say(o, "%zu of %zu runs are done", done_runs, t.n - unneeded);
done:
    sheet_clear(&all);
    return st;
}
