/* Design. Epsilon is the minimum over Renyi orders of a conversion of the summed divergences. The
 * search for the minimum uses a grid of orders, then the interval around the best one.
 * Invariants:
 *  1. every order tried is one for which the rule of every event is proven; an order for which it
 *     is not has divergence INFINITY, so the search cannot pick it;
 *  2. the result is the value of the bound at one order, so it is valid whether or not the search
 *     found the best one. */
#include "privacy/accountant/accountant.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sefl_status dp_delta_check(double delta)
{
    SEFL_NEED(delta > 0 && delta < 1, SEFL_EINVAL, "delta is %g: it must be between 0 and 1",
              delta);
    return SEFL_OK;
}

sefl_status dp_epsilon_check(double epsilon)
{
    if (!(epsilon > 0 && isfinite(epsilon)))
        return sefl_fail(SEFL_EINVAL, "epsilon is %g: it must be a finite number above 0", epsilon);
    return SEFL_OK;
}

sefl_status dp_event_check(const dp_event *ev)
{
    const dp_law *law = dp_law_of(ev->noise);
    SEFL_NEED(law, SEFL_EINVAL, "noise is %d: unknown", (int)ev->noise);
    if (!law->claims)
        return SEFL_OK;
    SEFL_NEED(ev->z > 0 && isfinite(ev->z), SEFL_EINVAL,
              "z (noise multiplier) is %g: it must be a finite number above 0", ev->z);
    SEFL_NEED(ev->z >= 1e-3 && ev->z <= 1e6, SEFL_EINVAL,
              "z (noise multiplier) is %g: the accountant supports 0.001 to 1e6", ev->z);
    SEFL_NEED(ev->rate > 0 && ev->rate <= 1, SEFL_EINVAL,
              "rate (sampling) is %g: it must be above 0 and at most 1", ev->rate);
    SEFL_NEED(ev->count <= UINT64_C(1) << 40, SEFL_EINVAL,
              "count (rounds) is %" PRIu64 ": at most 2^40", ev->count);
    if (law->uses_dim)
        SEFL_NEED(ev->dim > 0 && ev->dim <= UINT64_C(1) << 40, SEFL_EINVAL,
                  "dim (coordinates) is %" PRIu64 ": it must be in 1..2^40", ev->dim);
    if (law->uses_sigma_steps)
        SEFL_NEED(ev->sigma_steps >= DP_SIGMA_STEPS_MIN && isfinite(ev->sigma_steps), SEFL_EINVAL,
                  "sigma_steps is %g: discrete noise needs a standard deviation of at least %g "
                  "grid steps",
                  ev->sigma_steps, DP_SIGMA_STEPS_MIN);
    return SEFL_OK;
}

/* ---- divergences of one release ------------------------------------------------------------ */

/* An event under its law: a Gaussian multiplier, and where it is valid. */
typedef struct rule {
    const dp_law *law;
    double z, rate;
    bool half; /* it holds for z / 2 too: the whole vector may be replaced */
} rule;

static bool holds_at(const rule *r, double a)
{
    return r->law->order_max == 0 || (a >= 1.01 && a <= r->law->order_max);
}

static double zero_out(const rule *r, double a)
{
    if (!holds_at(r, a))
        return INFINITY;
    if (r->rate >= 1)
        return rdp_gauss(a, r->z);
    /* A bounded order means that only the unsampled divergences are known. Below 0.1 the integral
     * would take minutes for an epsilon of hundreds: the bound will do. */
    if (r->law->order_max > 0 || r->z < 0.1)
        return rdp_sampled_bound(a, r->z, r->rate);
    return rdp_sampled(a, r->z, r->rate);
}

static double replaced(const rule *r, double a)
{
    /* the whole vector changes: shift 2D, no amplification claimed */
    double full = r->half && holds_at(r, a) ? rdp_gauss(a, r->z / 2) : INFINITY;
    double hop = (a - 0.5) / (a - 1) * zero_out(r, 2 * a) + zero_out(r, 2 * a - 1);
    return fmin(full, hop);
}

double dp_divergence(const dp_event *events, size_t n, dp_neighbours neighbours, double order)
{
    double tau = 0;
    for (const dp_event *ev = events; ev < events + n; ev++) {
        const dp_law *law = dp_law_of(ev->noise);
        if (ev->count == 0)
            continue;
        if (!law || !law->claims || ev->z < law->z_min)
            return INFINITY;
        rule r = { law, law->gauss_z(ev), ev->rate, ev->z / 2 >= law->z_min };
        tau += (double)ev->count *
               (neighbours == DP_REPLACE ? replaced(&r, order) : zero_out(&r, order));
    }
    return tau;
}

/* ---- epsilon ------------------------------------------------------------------------------- */

typedef struct search {
    const dp_event *events;
    size_t n;
    const dp_question *q;
    double delta; /* what is left for the conversion */
} search;

/* epsilon as a function of b = log(order - 1) */
static double at(const search *s, double b)
{
    double a = 1 + exp(b), whole = nearbyint(a);
    if (whole >= 2 && fabs(a - whole) < 1e-9 * a)
        a = whole;
    double tau = dp_divergence(s->events, s->n, s->q->neighbours, a);
    return isfinite(tau) ? rdp_to_epsilon(s->q->conversion, a, tau, s->delta) : INFINITY;
}

static void minimise(const search *s, double order_max, dp_claim *out)
{
    enum { POINTS = 64 };
    double lo = log(0.01), hi = log(order_max - 1), best = INFINITY, best_b = hi;
    double step = (hi - lo) / (POINTS - 1);
    for (int i = 0; i < POINTS; i++) {
        double b = i == POINTS - 1 ? hi : lo + i * step, e = at(s, b);
        if (e < best)
            best = e, best_b = b;
    }
    double l = fmax(best_b - step, lo), r = fmin(best_b + step, hi), g = (sqrt(5) - 1) / 2;
    for (int i = 0; i < 30; i++) {
        double m1 = r - g * (r - l), m2 = l + g * (r - l);
        double e1 = at(s, m1), e2 = at(s, m2);
        if (e1 < best)
            best = e1, best_b = m1;
        if (e2 < best)
            best = e2, best_b = m2;
        if (e1 < e2)
            r = m2;
        else
            l = m1;
    }
    /* sampled joint noise has its sharpest bound at whole orders: try those around */
    double near = floor(exp(best_b));
    for (int i = 0; i < 4; i++) {
        double a = near + i;
        if (a < 2 || a > order_max)
            continue;
        double e = at(s, log(a - 1));
        if (e < best)
            best = e, best_b = log(a - 1);
    }
    out->claimed = isfinite(best);
    out->epsilon = best;
    out->order = 1 + exp(best_b);
    if (!out->claimed)
        out->why_not = "the Renyi rule covers these releases at no order";
}

/* Sets *out to "no claim": a result, not a failure. */
static sefl_status no_claim(dp_claim *out, const char *why)
{
    *out = (dp_claim){ .claimed = false, .epsilon = INFINITY, .why_not = why };
    return SEFL_OK;
}

sefl_status dp_epsilon(dp_claim *out, const dp_event *events, size_t n, const dp_question *q)
{
    double order_max = 1e5, cut = 0;
    bool any = false;

    SEFL_PASS(no_claim(out, "it was not computed"));
    SEFL_PASS(dp_delta_check(q->delta));
    for (size_t i = 0; i < n; i++) {
        const dp_event *ev = &events[i];
        SEFL_PASS(dp_event_check(ev));
        if (ev->count == 0)
            continue;
        any = true;
        const dp_law *law = dp_law_of(ev->noise);
        if (!law->claims)
            return no_claim(out, "a release has 'claim: none'");
        if (ev->z < law->z_min)
            return no_claim(out, law->below);
        if (law->order_max > 0) {
            order_max = fmin(order_max, law->order_max);
            cut += (double)ev->count * (double)ev->dim * law->cut;
        } else if (ev->rate < 1) {
            /* the cost of the integral grows as order / z^2, and little noise needs small orders */
            double most = 20000 * fmin(ev->z / 4, ev->z * ev->z / 2);
            order_max = fmin(order_max, fmax(8, fmin(1024, most)));
        }
    }
    if (cut >= q->delta)
        return no_claim(out, "delta is smaller than the mass that the proof leaves out");
    if (any)
        minimise(&(search){ events, n, q, q->delta - cut }, order_max, out);
    else
        *out = (dp_claim){ .claimed = true };
    return SEFL_OK;
}

sefl_status dp_search_z(double *z, const dp_search *s)
{
    dp_claim c = { 0 };
    double lo = fmax(1, s->least), hi = lo;
    SEFL_PASS(dp_epsilon_check(s->epsilon));
    for (;; lo = hi, hi *= 2) { /* until hi is enough noise */
        SEFL_NEED(hi <= 1e6 || !c.claimed, SEFL_EBUDGET,
                  "no noise multiplier up to 1e6 keeps epsilon %g: the least that the accountant "
                  "can show is %.3g; use a larger epsilon or delta, or fewer rounds",
                  s->epsilon, c.epsilon);
        SEFL_NEED(hi <= 1e6, SEFL_EBUDGET, "no noise multiplier up to 1e6 keeps epsilon %g (%s)",
                  s->epsilon, c.why_not);
        SEFL_PASS(s->price(s->ctx, hi, &c));
        if (c.epsilon <= s->epsilon)
            break;
    }
    while (lo >= hi && hi > s->least) { /* until lo is not enough, or the least */
        lo = fmax(lo / 2, s->least);
        SEFL_PASS(s->price(s->ctx, lo, &c));
        if (c.epsilon > s->epsilon)
            break;
        hi = lo;
    }
    while (hi - lo > 1e-7 * hi) {
        const double mid = (lo + hi) / 2;
        SEFL_PASS(s->price(s->ctx, mid, &c));
        *(c.epsilon <= s->epsilon ? &hi : &lo) = mid;
    }
    /* six places, upwards; the quotient itself may be rounded down */
    for (double places = ceil(hi * 1e6);; places++) {
        *z = places / 1e6;
        SEFL_PASS(s->price(s->ctx, *z, &c));
        if (c.epsilon <= s->epsilon && *z >= hi)
            return SEFL_OK;
    }
}

typedef struct probe {
    dp_event ev;
    const dp_question *q;
} probe;

static sefl_status price(void *ctx, double z, dp_claim *out)
{
    probe *p = ctx;
    p->ev.z = z;
    return dp_epsilon(out, &p->ev, 1, p->q);
}

sefl_status dp_find_z(double *z, const dp_event *ev, double epsilon, const dp_question *q)
{
    probe p = { *ev, q };
    p.ev.sigma_steps = DP_SIGMA_STEPS;
    SEFL_NEED(dp_noise_claims(ev->noise), SEFL_EINVAL, "noise is none: it has no multiplier");
    return dp_search_z(z, &(dp_search){ price, &p, epsilon, dp_law_of(ev->noise)->z_search_min });
}
double dp_classic(double delta)
{
    return sqrt(2 * log(1.25 / delta));
}

double dp_four_digits(double v, bool up)
{
    if (!(v > 0) || !isfinite(v))
        return v;
    char text[32];
    int e = (int)floor(log10(v)) - 3;
    double unit = pow(10, abs(e)), steps = e < 0 ? v * unit : v / unit;
    double whole = up ? ceil(steps) : floor(steps);
    for (int i = 0; i < 3; i++, whole += up ? 1 : -1) { /* the printed text is what counts */
        snprintf(text, sizeof text, "%.4g", e < 0 ? whole / unit : whole * unit);
        double printed = strtod(text, NULL);
        if (up ? printed >= v : printed <= v)
            return printed;
    }
    return v;
}
