#include "paper/points.h"

#include <math.h>

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

point point_of(const records *all, paper_run run)
{
    double test[PAPER_SEEDS], valid[PAPER_SEEDS];
    size_t n = 0;
    run.protection = run.protection ? run.protection : "sefl";
    run.block = run.block ? run.block : paper_block(run.body);
    run.z = run.z ? run.z : "0";
    run.clients = run.clients ? run.clients : 10;
    point p = { .run = run };
    for (run.seed = 1; run.seed <= PAPER_SEEDS; run.seed++) {
        const run_record *r = records_find(all, &run);
        if (r) {
            test[n] = r->best_test, valid[n++] = r->best_valid;
            p.last = r;
        }
    }
    p.test = spread_of(test, n);
    p.valid = spread_of(valid, n);
    return p;
}
