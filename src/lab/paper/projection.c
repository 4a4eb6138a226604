/* Three ways to train one model in a federation with plain averages:
 *     dense        the model is dense (block size 1), and so is the update
 *     compressed   the model is block-Hankel; clients train its values directly
 *     projected    the model is block-Hankel; clients train it as a dense model, and each sends its
 *                  update projected onto block-Hankel matrices: means over the anti-diagonals
 * compressed and projected start from the same model and send the same number of values. */
#include "base/alloc.h"
#include "base/clock.h"
#include "fed/trainer.h"
#include "paper/locals.h"
#include "paper/sheet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char columns[] =
    "size block method seed clients round values perplexity kappa kappa_max "
    "kappa_sum kappa_sum_max energy " SHEET_ORIGIN;

static const locals_size quick = {
    "quick",
    "clients=2 data.words=1400 model.embed=16 model.hidden=16 model.layers=1 "
    "model.batch=5 model.steps=20 training.lr=10",
    2
};
static const locals_size small = {
    "small",
    "clients=4 data.words=50000 data.vocab_words=4000 model.embed=64 model.hidden=64 "
    "model.layers=2 model.batch=20 model.steps=35 training.steps=60 training.dropout=0.2 "
    "training.lr=20",
    5
};
/* the paper's model, on a GPU */
static const locals_size whole = {
    "paper",
    "clients=10 data.words=200000 model.embed=200 model.hidden=200 model.layers=2 "
    "model.batch=20 model.steps=35 training.epochs=1 training.dropout=0.2 training.lr=20",
    10
};
typedef struct run {
    const paper_options *o;
    const locals_size *size;
    unsigned block;
    const char *method;
    bool projected;
    locals l;
    const layout *c;
    sheet s;
    float *theta; /* of the model that trains: l.params values */
    float *v;     /* an update's block-Hankel values */
    float *wide;  /* a dense update */
    double *sum;  /* of the updates that clients send */
    size_t count; /* values that a client sends */
    /* over the clients of a round */
    double kappa, kappa_max, kappa_sum, kappa_sum_max, energy;
} run;

/* ---- one client ------------------------------------------------------------------------------ */

/* Measures a dense update u and leaves its projection in v. */
static void project(run *r, const float *u)
{
    const layout *c = r->c;
    const double norm = compress_norm(u, c->dense);
    compress_fold(c, r->v, u);
    const double sum = compress_norm(r->v, c->count) / norm;
    compress_project(c, r->v, u);
    const double mean = compress_norm(r->v, c->count) / norm;
    trainer_expand(r->wide, c, r->v);
    const double left = compress_norm(r->wide, c->dense) / norm;
    r->kappa += mean, r->kappa_max = fmax(r->kappa_max, mean);
    r->kappa_sum += sum, r->kappa_sum_max = fmax(r->kappa_sum_max, sum);
    r->energy += left * left;
}

static sefl_status on_update(void *ctx, uint32_t client, const float *u)
{
    run *r = ctx;
    const layout *c = r->c;
    const float *sent = u;
    (void)client;
    SEFL_NEED(compress_norm(u, r->l.params) > 0, SEFL_ERANGE, "a client's update is zero");
    if (r->projected) {
        project(r, u);
        sent = r->v;
    } else {
        trainer_expand(r->wide, c, u);
        const double kappa = compress_norm(u, c->count) / compress_norm(r->wide, c->dense);
        r->kappa += kappa, r->kappa_max = fmax(r->kappa_max, kappa);
        r->energy += 1;
    }
    for (size_t i = 0; i < r->count; i++)
        r->sum[i] += (double)sent[i];
    return SEFL_OK;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static sefl_status run_open(run *r)
{
    SEFL_PASS(locals_open(&r->l, r->o, r->size, r->block, r->projected ? 1 : r->block));
    r->c = &r->l.f->task.layout;
    r->count = r->c->count;
    SEFL_PASS(sefl_new(&r->theta, r->l.params, sizeof *r->theta));
    SEFL_PASS(sefl_new(&r->v, r->count, sizeof *r->v));
    SEFL_PASS(sefl_new(&r->wide, r->c->dense, sizeof *r->wide));
    SEFL_PASS(sefl_new(&r->sum, r->count, sizeof *r->sum));
    if (r->projected)
        trainer_expand(r->theta, r->c, r->l.f->theta);
    else
        memcpy(r->theta, r->l.f->theta, r->l.params * sizeof *r->theta);
    return SEFL_OK;
}

static void run_close(run *r)
{
    locals_close(&r->l);
    sefl_free(r->theta), sefl_free(r->v), sefl_free(r->wide), sefl_free(r->sum);
    sheet_clear(&r->s);
}

static sefl_status add_row(run *r, unsigned round)
{
    const double n = r->l.f->clients;
    double perplexity;
    SEFL_PASS(locals_perplexity(&r->l, &perplexity, r->theta));
    const bool any = round > 0;
    return sheet_add(&r->s, (const char *[]){ r->size->name, r->method },
                     (double[]){ r->block, LOCALS_SEED, n, round, (double)r->count, perplexity,
                                 any ? r->kappa / n : NAN, any ? r->kappa_max : NAN,
                                 any && r->projected ? r->kappa_sum / n : NAN,
                                 any && r->projected ? r->kappa_sum_max : NAN,
                                 any ? r->energy / n : NAN });
}

static sefl_status one_round(run *r, unsigned round)
{
    const double n = r->l.f->clients;
    r->kappa = r->kappa_max = r->kappa_sum = r->kappa_sum_max = r->energy = 0;
    memset(r->sum, 0, r->count * sizeof *r->sum);
    SEFL_PASS(locals_round(&r->l, round, r->theta, on_update, r));
    for (size_t i = 0; i < r->count; i++)
        r->v[i] = (float)(r->sum[i] / n);
    const float *step = r->v;
    if (r->projected) {
        trainer_expand(r->wide, r->c, r->v);
        step = r->wide;
    }
    for (size_t i = 0; i < r->l.params; i++)
        r->theta[i] += step[i];
    return add_row(r, round);
}

/* Runs and saves what the results folder lacks. */
static sefl_status one_run(const paper_options *o, const locals_size *z, unsigned block,
                           bool projected)
{
    sefl_status st = SEFL_OK;
    const uint64_t began = clock_now_ns();
    run r = { .o = o, .size = z, .block = block, .projected = projected };
    r.method = block == 1 ? "dense" : projected ? "projected" : "compressed";
    SEFL_TRY(sheet_open(&r.s, o, columns, "projection/%s-%u-%s", z->name, block, r.method));
    if (r.s.rows > 0)
        goto done;
    SEFL_TRY(run_open(&r));
    SEFL_TRY(add_row(&r, 0));
    for (unsigned i = 1; i <= z->rounds; i++)
        SEFL_TRY(one_round(&r, i));
    SEFL_TRY(sheet_csv(&r.s));
    paper_say(o, "projection  %s l = %-2u %-10s perplexity %.1f  kappa %.3f  %.1f s", z->name,
              block, r.method, sheet_get(&r.s, z->rounds, "perplexity"),
              sheet_get(&r.s, z->rounds, "kappa"), clock_since(began));
done:
    run_close(&r);
    return st;
}

/* ---- public ---------------------------------------------------------------------------------- */

sefl_status paper_projection(const paper_options *o)
{
    const locals_size *z = o->quick ? &quick : locals_has_gpu(o) ? &whole : &small;
    for (size_t i = 0; i < 2 * PAPER_BLOCK_SIZES - 1; i++) /* 1 is never projected */
        if (paper_has_block(o, paper_block_sizes[(i + 1) / 2]) && paper_is_mine(o, i))
            SEFL_PASS(one_run(o, z, paper_block_sizes[(i + 1) / 2], i > 0 && i % 2 == 0));
    return SEFL_OK;
}

enum { BLOCKS = PAPER_BLOCK_SIZES };

/* Adds the runs of a size to a sheet. */
static sefl_status collect(sheet *all, const paper_options *o, const locals_size *z)
{
    static const char *const methods[] = { "dense", "compressed", "projected" };
    sefl_status st = SEFL_OK;
    sheet s = { 0 };
    for (int b = 0; b < BLOCKS; b++)
        for (int m = 0; m < 3; m++) {
            SEFL_TRY(sheet_open(&s, o, columns, "projection/%s-%u-%s", z->name,
                                paper_block_sizes[b], methods[m]));
            SEFL_TRY(sheet_append(all, &s));
        }
done:
    sheet_clear(&s);
    return st;
}

/* Draws the last rounds of a size. */
static sefl_status draw(const paper_options *o, const sheet *all, const char *size)
{
    enum { LINES = 7 };
    static const struct {
        const char *method, *column, *name;
    } lines[LINES] = {
        { "dense", "perplexity", "dense" },
        { "compressed", "perplexity", "compressed" },
        { "projected", "perplexity", "projected" },
        { "compressed", "kappa", "compressed" },
        { "projected", "kappa", "projected: means" },
        { "projected", "kappa_sum", "sums" },
        { NULL, NULL, "bound of sums" },
    };
    double y[LINES][BLOCKS];
    svg_series s[LINES];
    char file[64];
    for (int i = 0; i < LINES; i++) {
        const char *const texts[] = { size, lines[i].method };
        if (lines[i].method)
            sheet_line(y[i], all, texts, "block", paper_block_sizes, BLOCKS, lines[i].column);
        s[i] = (svg_series){ .name = lines[i].name, .y = y[i] };
    }
    for (int b = 0; b < BLOCKS; b++) {
        y[0][b] = y[0][0]; /* a line across the chart */
        y[LINES - 1][b] = sqrt(paper_block_sizes[b]);
    }
    s[0].dashed = s[LINES - 1].dashed = true;
    const svg_chart c[] = {
        paper_block_chart("Perplexity after the last round", "", s, 3),
        paper_block_chart("Scaling factor kappa of an update, mean over the clients", "", s + 3,
                          LINES - 3),
    };
    snprintf(file, sizeof file, "projection-%s", size);
    return paper_svg(o, file, c, sizeof c / sizeof *c);
}

sefl_status paper_projection_draw(const paper_options *o)
{
    sefl_status st = SEFL_OK;
    const locals_size *const sizes[3] = { &quick, &small, &whole };
    sheet all = { 0 };
    sheet_new(&all, o, columns, "projection");
    for (size_t i = 0; i < 3; i++) {
        const size_t before = all.rows;
        SEFL_TRY(collect(&all, o, sizes[i]));
        if (all.rows > before)
            SEFL_TRY(draw(o, &all, sizes[i]->name));
    }
    SEFL_TRY(sheet_csv(&all));
done:
    sheet_clear(&all);
    return st;
}
