/* Design.
 *  1. A step gives cells: intervals of outcomes ordered by loss, with mass under P and under Q.
 *     Continuous noise: cells between the outcomes whose loss is a grid point, cut from integrals
 *     of the normal density. Discrete noise: one cell an integer.
 *  2. The window [lo, hi] holds all but `tail` of the composed loss on either side, by Chernoff's
 *     inequality with the moments of a coarse grid (slightly enlarged for its coarseness).
 *  3. The grid step is window / 2^bits; bits grow until the step resolves one release and the sum
 *     of second-order errors is small.
 *  4. Masses are laid out modulo the transform's length: what lies outside the window wraps, at
 *     most 2 * tail of it, which is added to (upper) or taken from (lower) delta. */
#include "privacy/accountant/pld.h"

#include "base/alloc.h"
#include "privacy/accountant/fft.h"
#include "privacy/accountant/special.h"

#include <math.h>
#include <string.h>

enum { BITS_MIN = 14, BITS_MAX = 22, COARSE = 4096, STEPS_MAX = 64 };

#define ROUNDOFF_MOST 0.01 /* of delta */

typedef enum direction { UNIT_THERE, UNIT_GONE } direction; /* P is the mixture; Q is */

typedef struct cell {
    double p, q;   /* masses under P and Q */
    double lo, hi; /* range of its losses */
} cell;

/* ---- losses of one step -------------------------------------------------------------------- */

/* log(mixture / without) at outcome x; for continuous noise in units of the sensitivity */
static double log_ratio(const pld_step *s, double x)
{
    double l = s->noise == PLD_GAUSS ? (2 * x - 1) / (2 * s->z * s->z)
                                     : s->shift * (2 * x - s->shift) / (2 * s->sigma * s->sigma);
    if (s->rate >= 1)
        return l;
    if (l > 30)
        return l + log(s->rate) + log1p((1 - s->rate) / s->rate * exp(-l));
    return log1p(s->rate * expm1(l));
}

/* the outcome where log_ratio is r; -INFINITY where r is below its infimum */
static double outcome_at(const pld_step *s, double r)
{
    double l = r;
    if (s->rate < 1) {
        double rest = expm1(r) / s->rate; /* e^l - 1 */
        if (rest <= -1)
            return -INFINITY;
        l = r > 30 ? r - log(s->rate) : log1p(rest);
    }
    return s->z * s->z * l + 0.5;
}

static cell cell_between(const pld_step *s, direction dir, double a, double b, double lo, double hi)
{
    double without = normal_mass(a / s->z, b / s->z);
    double with = normal_mass((a - 1) / s->z, (b - 1) / s->z);
    double mix = (1 - s->rate) * without + s->rate * with;
    return dir == UNIT_THERE ? (cell){ mix, without, lo, hi } : (cell){ without, mix, -hi, -lo };
}

/* range of outcomes that holds all but e^-c2/2 or so of either distribution */
static void outcome_range(const pld_step *s, double c, double *from, double *to)
{
    double width = s->noise == PLD_GAUSS ? s->z : s->sigma;
    double shift = s->noise == PLD_GAUSS ? 1 : s->shift;
    *from = -c * width;
    *to = shift + c * width;
    if (s->noise == PLD_DISCRETE)
        *from = floor(*from), *to = ceil(*to);
}

typedef void cell_fn(void *ctx, const cell *c);

/* Calls fn for every cell of the step with borders at multiples of h; outcomes
 * outside the range form one cell on each side. */
static void each_cell(const pld_step *s, direction dir, double h, double c, cell_fn *fn, void *ctx)
{
    double from, to;
    outcome_range(s, c, &from, &to);
    if (s->noise == PLD_DISCRETE) {
        double total = 0;
        for (long i = (long)from - (long)s->shift; i <= (long)to; i++)
            total += exp(-(double)(i * i) / (2 * s->sigma * s->sigma));
        for (long i = (long)from; i <= (long)to; i++) {
            double x = (double)i, y = x - s->shift;
            double without = exp(-x * x / (2 * s->sigma * s->sigma)) / total;
            double with = exp(-y * y / (2 * s->sigma * s->sigma)) / total;
            double mix = (1 - s->rate) * without + s->rate * with, l = log_ratio(s, x);
            cell one =
                dir == UNIT_THERE ? (cell){ mix, without, l, l } : (cell){ without, mix, -l, -l };
            fn(ctx, &one);
        }
        return;
    }
    long k = (long)ceil(log_ratio(s, from) / h), last = (long)floor(log_ratio(s, to) / h);
    double a = -INFINITY, lo = s->rate < 1 ? log1p(-s->rate) : -INFINITY; /* the infimum */
    for (; k <= last; k++) {
        double hi = (double)k * h, b = outcome_at(s, hi);
        cell one = cell_between(s, dir, a, b, lo, hi);
        fn(ctx, &one);
        a = b, lo = hi;
    }
    cell top = cell_between(s, dir, a, INFINITY, lo, INFINITY);
    fn(ctx, &top);
}

/* ---- how wide, how fine -------------------------------------------------------------------- */

enum { LAMBDAS = 80 };

typedef struct moments {
    double up[LAMBDAS], down[LAMBDAS]; /* log E e^{+-lambda loss}, summed over steps and rounds */
    double var;                        /* of the sum */
    double step_sd_min;                /* smallest standard deviation of one release */
    double count;
} moments;

static double lambda_at(int i)
{
    return 1e-3 * pow(10, i * 0.08); /* 0.001 .. 2000 */
}

static sefl_status add_moments(moments *m, const pld_step *s, direction dir, double c)
{
    sefl_status st = SEFL_OK;
    double from, to, *loss = NULL, *mass = NULL, mean = 0, sq = 0, total = 0;
    outcome_range(s, c, &from, &to);
    size_t n = s->noise == PLD_DISCRETE ? (size_t)(to - from) + 1 : COARSE;
    double dx = s->noise == PLD_DISCRETE ? 1 : (to - from) / COARSE;
    SEFL_TRY(sefl_new(&loss, n, sizeof *loss));
    SEFL_TRY(sefl_new(&mass, n, sizeof *mass));
    for (size_t i = 0; i < n; i++) {
        double x = from + (double)i * dx, w = s->noise == PLD_GAUSS ? s->z : s->sigma;
        double shift = s->noise == PLD_GAUSS ? 1 : s->shift;
        double l0, l1, without = normal_mass(x / w, (x + dx) / w);
        double with = normal_mass((x - shift) / w, (x + dx - shift) / w);
        l0 = log_ratio(s, x), l1 = log_ratio(s, x + dx);
        mass[i] = dir == UNIT_THERE ? (1 - s->rate) * without + s->rate * with : without;
        loss[i] = dir == UNIT_THERE ? (l0 + l1) / 2 : -(l0 + l1) / 2;
        total += mass[i], mean += mass[i] * loss[i];
    }
    mean /= total;
    for (size_t i = 0; i < n; i++)
        sq += mass[i] * (loss[i] - mean) * (loss[i] - mean);
    sq /= total;
    for (int i = 0; i < LAMBDAS; i++) {
        double up = -INFINITY, down = -INFINITY, lam = lambda_at(i);
        for (size_t j = 0; j < n; j++)
            if (mass[j] > 0) {
                double lm = log(mass[j]);
                up = log_add(up, lm + lam * loss[j]);
                down = log_add(down, lm - lam * loss[j]);
            }
        m->up[i] += (double)s->count * up;
        m->down[i] += (double)s->count * down;
    }
    m->var += (double)s->count * sq;
    m->step_sd_min = fmin(m->step_sd_min, sqrt(sq));
    m->count += (double)s->count;
done:
    sefl_free(loss);
    sefl_free(mass);
    return st;
}

/* smallest t with Pr[loss >= t] <= tail by Chernoff */
static double chernoff(const double *log_mgf, double tail)
{
    double best = INFINITY;
    for (int i = 0; i < LAMBDAS; i++)
        best = fmin(best, (log_mgf[i] - log(tail)) / lambda_at(i));
    return best;
}

/* ---- one direction ------------------------------------------------------------------------- */

typedef struct layout {
    double h;
    double offset; /* grid points are k * h + offset; 0 for the upper bound */
    size_t n;
    cplx *x;
    double infinite; /* upper: mass at loss infinity, for one release */
} layout;

static size_t slot(const layout *to, double k)
{
    double r = fmod(k, (double)to->n);
    return (size_t)(r < 0 ? r + (double)to->n : r);
}

static void put_upper(void *ctx, const cell *c)
{
    layout *to = ctx;
    if (c->p <= 0)
        return;
    if (c->hi == INFINITY) { /* beyond the last grid point */
        to->infinite += c->p;
        return;
    }
    double k1 = ceil(c->hi / to->h - 1e-9);
    if (c->lo == -INFINITY) {
        to->x[slot(to, k1)].re += c->p;
        return;
    }
    double k0 = fmin(floor(c->lo / to->h + 1e-9), k1 - 1);
    double e0 = exp(-k0 * to->h), e1 = exp(-k1 * to->h);
    double low = (c->q - c->p * e1) / (e0 - e1); /* keeps both masses */
    if (!(low > 0))
        low = 0;
    if (low > c->p)
        low = c->p;
    to->x[slot(to, k0)].re += low;
    to->x[slot(to, k1)].re += c->p - low;
}

/* Lower bound. A full cell's merged loss lies `sag` below its middle; the grid is put at the
 * middles lowered by some c. A cell with sag <= c then moves down by c - sag, another by h more.
 * The c with the smallest mean move is taken from a list of both signs. */
enum { SAGS = 41 };

typedef struct sag_search {
    double h, cost[SAGS];
} sag_search;

static double sag_at(double h, int i)
{
    return i == SAGS / 2  ? 0
           : i > SAGS / 2 ? h * ldexp(1, SAGS / 2 - i)
                          : -h * ldexp(1, i - SAGS / 2);
}

static void weigh_sag(void *ctx, const cell *c)
{
    sag_search *s = ctx;
    if (c->p <= 0 || c->q <= 0 || !isfinite(c->hi - c->lo) || c->hi <= c->lo)
        return;
    double sag = (c->lo + c->hi) / 2 - log(c->p / c->q);
    for (int i = 0; i < SAGS; i++) {
        double move = sag_at(s->h, i) - sag;
        s->cost[i] += c->p * (move >= 0 ? move : move + s->h);
    }
}

static double best_offset(const pld_step *step, direction dir, double h, double c)
{
    sag_search s = { .h = h };
    int best = SAGS / 2;
    if (step->noise == PLD_DISCRETE) /* single losses anywhere: no middle to aim at */
        return 0;
    each_cell(step, dir, h, c, weigh_sag, &s);
    for (int i = 0; i < SAGS; i++)
        if (s.cost[i] < s.cost[best])
            best = i;
    return h / 2 - sag_at(h, best);
}

static void put_lower(void *ctx, const cell *c)
{
    layout *to = ctx;
    if (c->p <= 0)
        return;
    double l = c->q > 0 ? log(c->p / c->q) : c->lo;
    if (!isfinite(l) || l > c->hi)
        l = c->lo;
    if (l < c->lo)
        l = c->lo;
    if (!isfinite(l))
        return; /* loss minus infinity: it never counts */
    double k = floor((l - to->offset) / to->h + 1e-9);
    to->x[slot(to, k)].re += c->p;
}

static cplx power(cplx b, uint64_t e)
{
    cplx r = { 1, 0 };
    for (; e; e >>= 1, b = cplx_mul(b, b))
        if (e & 1)
            r = cplx_mul(r, b);
    return r;
}

/* epsilon at which the masses x over losses base + k*h, k < n, give delta */
static double epsilon_of(const double *mass, size_t n, double base, double h, double delta)
{
    /* over the losses above the present one, l: sum of mass, and of mass e^{l-loss}; relative to l,
     * since e^{base-loss} would leave the range of doubles */
    double a = 0, b = 0, down = exp(-h);
    if (delta <= 0)
        return INFINITY;
    for (size_t k = n; k-- > 0;) {
        double l = base + (double)k * h;
        b *= down;
        if (a - b > delta) /* the answer lies between l and the point above */
            return fmax(0, l + log((a - delta) / b));
        if (l < -h)
            break;
        double m = mass[k] > 0 ? mass[k] : 0;
        a += m, b += m;
    }
    return 0;
}

/* Round-off of a composition, as mass: first the norms |F_i| of the transforms with what each may
 * be wrong by (the worst case of a transform's relative error in the 2-norm, taken as spread evenly
 * over the frequencies), then what becomes of it under powers, products and the way back. By
 * Parseval and Cauchy-Schwarz the sum of all errors of the masses is at most the 2-norm of the
 * errors of their transform. */
typedef struct roundoff {
    double *size;     /* bound on the product so far, for each frequency */
    double *relative; /* its relative error */
    double each;      /* relative error of one transform */
} roundoff;

static void follow_step(roundoff *r, const cplx *f, size_t n, double norm2, double count)
{
    double e = r->each * norm2;
    for (size_t k = 0; k < n; k++) {
        double most = fmin(hypot(f[k].re, f[k].im) + e, 1 + e);
        r->size[k] *= pow(most, count);
        r->relative[k] += count * (e / most + 3 * 0x1p-53);
    }
}

static double roundoff_total(const roundoff *r, size_t n)
{
    double wrong = 0, all = 0;
    for (size_t k = 0; k < n; k++) {
        double w = r->size[k] * r->relative[k];
        wrong += w * w, all += r->size[k] * r->size[k];
    }
    return sqrt(wrong) + r->each * sqrt(all);
}

static sefl_status compose(const fft_plan *plan, layout *work, const pld_step *steps, size_t n,
                           direction dir, double c, bool upper, double lo, double tail,
                           double delta, double *eps)
{
    sefl_status st = SEFL_OK;
    cplx *sum = NULL;
    double *mass = NULL, shift = 0, infinite = 0;
    roundoff off = { .each = 6.5 * 0x1p-53 * log2((double)plan->n) };
    SEFL_TRY(sefl_new(&sum, plan->n, sizeof *sum));
    SEFL_TRY(sefl_new(&mass, plan->n, sizeof *mass));
    SEFL_TRY(sefl_new(&off.size, plan->n, sizeof *off.size));
    SEFL_TRY(sefl_new(&off.relative, plan->n, sizeof *off.relative));
    for (size_t k = 0; k < plan->n; k++)
        sum[k].re = off.size[k] = 1;
    for (size_t i = 0; i < n; i++) {
        memset(work->x, 0, plan->n * sizeof *work->x);
        work->offset = 0, work->infinite = 0;
        if (upper) {
            each_cell(&steps[i], dir, work->h, c, put_upper, work);
        } else {
            work->offset = best_offset(&steps[i], dir, work->h, c);
            each_cell(&steps[i], dir, work->h, c, put_lower, work);
        }
        shift += (double)steps[i].count * work->offset;
        infinite += (double)steps[i].count * work->infinite;
        double squares = 0;
        for (size_t k = 0; k < plan->n; k++)
            squares += work->x[k].re * work->x[k].re;
        fft_forward(plan, work->x);
        follow_step(&off, work->x, plan->n, sqrt(squares), (double)steps[i].count);
        for (size_t k = 0; k < plan->n; k++)
            sum[k] = cplx_mul(sum[k], power(work->x[k], steps[i].count));
    }
    fft_inverse(plan, sum);
    double first = floor((lo - shift) / work->h);
    for (size_t k = 0; k < plan->n; k++)
        mass[k] = sum[slot(work, first + (double)k)].re;
    double lost = roundoff_total(&off, plan->n);
    SEFL_CHECK(lost <= delta * ROUNDOFF_MOST, SEFL_ERANGE,
               "privacy-loss grid: round-off of up to %.2g is too much for delta %g", lost, delta);
    *eps = epsilon_of(mass, plan->n, first * work->h + shift, work->h,
                      upper ? delta - infinite - 2 * tail - lost : delta + 2 * tail + lost);
done:
    sefl_free(off.size);
    sefl_free(off.relative);
    sefl_free(sum);
    sefl_free(mass);
    return st;
}

static sefl_status one_direction(pld_interval *eps, const pld_step *steps, size_t n, direction dir,
                                 double delta)
{
    sefl_status st = SEFL_OK;
    moments m = { .step_sd_min = INFINITY };
    fft_plan plan = { 0 };
    layout work = { 0 };
    double count = 0, tail = delta * 1e-5;
    for (size_t i = 0; i < n; i++)
        count += (double)steps[i].count;
    double c = sqrt(-2 * log(tail / count * 0.1)); /* one release, outside: tail/10/count */
    for (size_t i = 0; i < n; i++)
        SEFL_TRY(add_moments(&m, &steps[i], dir, c));
    /* a tenth more, and a few cells, for the coarseness of the moments */
    double hi = chernoff(m.up, tail / 4), lo = -chernoff(m.down, tail / 4), sd = sqrt(m.var);
    double middle = (hi + lo) / 2, width = (hi - lo) * 1.1 + 8 * m.step_sd_min;
    /* errors: count * h^2/12 above; about count * h^2/(4 sd of one) below, against an epsilon that
     * is about var/2 + 3 sd */
    double want = fmin(m.step_sd_min / 12, sqrt(0.006 * sd / m.count));
    want = fmin(want, sqrt(0.003 * m.step_sd_min * (m.var / 2 + 3 * sd) / m.count));
    unsigned bits = BITS_MIN;
    while (bits < BITS_MAX && width / (double)(1u << bits) > want)
        bits++;
    double h = width / (double)(1u << bits);
    SEFL_CHECK(h <= 4 * want, SEFL_ERANGE,
               "privacy-loss grid: a step of %.3g over a width of %.3g needs more than 2^%d points",
               want, width, BITS_MAX);
    SEFL_TRY(fft_init(&plan, bits));
    work.h = h, work.n = plan.n;
    SEFL_TRY(sefl_new(&work.x, plan.n, sizeof *work.x));
    double e[2];
    for (int upper = 0; upper < 2; upper++)
        SEFL_TRY(compose(&plan, &work, steps, n, dir, c, upper, middle - width / 2, tail, delta,
                         &e[upper]));
    SEFL_CHECK(e[0] <= e[1] && isfinite(e[1]), SEFL_ERANGE,
               "privacy-loss grid: the bounds %g and %g do not form an interval", e[0], e[1]);
    eps->lower = fmax(eps->lower, e[0]);
    eps->upper = fmax(eps->upper, e[1]);
done:
    fft_clear(&plan);
    sefl_free(work.x);
    return st;
}

sefl_status pld_epsilon(pld_interval *eps, const pld_step *steps, size_t n, double delta)
{
    pld_interval both = { 0 };
    pld_step kept[STEPS_MAX];
    size_t used = 0;
    *eps = (pld_interval){ 0, INFINITY };
    SEFL_PASS(dp_delta_check(delta));
    SEFL_NEED(delta >= 1e-12, SEFL_EINVAL,
              "delta is %g: the numerical accountant needs at least 1e-12", delta);
    for (size_t i = 0; i < n; i++) {
        const pld_step *s = &steps[i];
        double width = s->noise == PLD_GAUSS ? s->z : s->sigma / s->shift;
        SEFL_NEED(s->noise == PLD_GAUSS || s->noise == PLD_DISCRETE, SEFL_EINVAL,
                  "noise is %d: unknown", (int)s->noise);
        SEFL_NEED(width >= 0.05 * (1 - 1e-6) && width <= 1e4, SEFL_EINVAL,
                  "%s is %g: noise over sensitivity must be in 0.05..10000",
                  s->noise == PLD_GAUSS ? "z" : "sigma", s->noise == PLD_GAUSS ? s->z : s->sigma);
        SEFL_NEED(s->noise == PLD_GAUSS || s->sigma <= 1e4, SEFL_EINVAL,
                  "sigma is %g: at most 1e4 steps", s->sigma);
        SEFL_NEED(s->rate > 0 && s->rate <= 1, SEFL_EINVAL,
                  "rate (sampling) is %g: it must be above 0 and at most 1", s->rate);
        SEFL_NEED(s->count <= 100000000, SEFL_EINVAL, "count (rounds) is too large: at most 1e8");
        if (s->count == 0)
            continue;
        SEFL_NEED(used < STEPS_MAX, SEFL_EINVAL, "more than %d kinds of release", STEPS_MAX);
        kept[used++] = *s;
    }
    if (used > 0) {
        SEFL_PASS(one_direction(&both, kept, used, UNIT_THERE, delta));
        SEFL_PASS(one_direction(&both, kept, used, UNIT_GONE, delta));
    }
    *eps = both;
    return SEFL_OK;
}

sefl_status dp_pld_epsilon(pld_interval *eps, const dp_event *events, size_t n, double delta)
{
    pld_step steps[STEPS_MAX];
    *eps = (pld_interval){ 0, INFINITY };
    SEFL_NEED(n <= STEPS_MAX, SEFL_EINVAL, "more than %d kinds of release", STEPS_MAX);
    for (size_t i = 0; i < n; i++) {
        const dp_event *ev = &events[i];
        SEFL_PASS(dp_event_check(ev));
        const dp_law *law = dp_law_of(ev->noise);
        SEFL_NEED(law->numerical, SEFL_EUNSUPPORTED,
                  "%s noise has no privacy-loss accountant: only the Renyi rule is proven for it",
                  dp_noise_name(ev->noise));
        steps[i] = (pld_step){
            .noise = PLD_GAUSS, .z = law->gauss_z(ev), .rate = ev->rate, .count = ev->count
        };
    }
    return pld_epsilon(eps, steps, n, delta);
}
