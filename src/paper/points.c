#include "paper/points.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

spread spread_of(const double *x, size_t n)
{
    spread s = { .mean = NAN, .sd = NAN, .low = NAN, .high = NAN };
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i])) {
            s.n++;
            sum += x[i];
            s.low = fmin(s.low, x[i]); /* ignores NAN */
            s.high = fmax(s.high, x[i]);
        }
    if (s.n == 0)
        return s;
    s.mean = sum / (double)s.n;
    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i]))
            squares += (x[i] - s.mean) * (x[i] - s.mean);
    s.sd = s.n > 1 ? sqrt(squares / (double)(s.n - 1)) : 0;
    return s;
}

bool points_is_of(const run_record *r, const paper_run *run)
{
    return strcmp(r->body, paper_body_names[run->body]) == 0 &&
           strcmp(r->protection, run->protection) == 0 && r->block == run->block &&
           r->dropout == run->dropout && strcmp(r->z, run->z) == 0 && r->clients == run->clients &&
           (run->rounds == 0 || r->planned == run->rounds) &&
           strcmp(r->variant, run->variant ? run->variant->name : "") == 0;
}

/* Summarises the records of the run's settings; false if there is none. */
static bool summarise(point *out, const paper_run *run, const records *all)
{
    double test[PAPER_RUNS_MAX], valid[PAPER_RUNS_MAX];
    size_t n = 0;
    *out = (point){ .run = *run };
    for (size_t i = 0; i < all->n; i++) {
        const run_record *r = &all->at[i];
        if (!points_is_of(r, run))
            continue;
        test[n] = r->best_test, valid[n++] = r->best_valid;
        out->last = r;
    }
    out->test = spread_of(test, n);
    out->valid = spread_of(valid, n);
    return n > 0;
}

const point *points_find(const points *p, paper_run run)
{
    run.protection = run.protection ? run.protection : "sefl";
    run.block = run.block ? run.block : paper_block(run.body);
    run.z = run.z ? run.z : "0";
    run.clients = run.clients ? run.clients : 10;
    for (size_t i = 0; i < p->n; i++)
        if (points_is_of(p->at[i].last, &run))
            return &p->at[i];
    return NULL;
}

sefl_status points_of(points *out, const records *all, bool quick, unsigned figures)
{
    sefl_status st = SEFL_OK;
    points p = { 0 };
    paper_table t = { 0 };
    SEFL_TRY(paper_table_make(&t, quick, figures));
    SEFL_TRY(sefl_new(&p.at, t.n + 1, sizeof *p.at));
    for (size_t i = 0; i < t.n; i++)
        if (!points_find(&p, t.run[i]))
            p.n += summarise(&p.at[p.n], &t.run[i], all);
    *out = p, p = (points){ 0 };
done:
    points_clear(&p);
    paper_table_clear(&t);
    return st;
}

void points_clear(points *p)
{
    sefl_free(p->at);
    *p = (points){ 0 };
}
