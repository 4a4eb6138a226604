#include "paper/limit.h"

#include "paper/points.h"
#include "paper/reference.h"
#include "privacy/accountant/accountant.h"
#include "protocol/modes/mode.h"
#include "simulate/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double z_of(const run_record *r)
{
    return strtod(r->z, NULL);
}

/* ---- the limit ------------------------------------------------------------------------------- */

/* True if the record differs from the run in z and seed at most. */
static bool is_like(const run_record *r, const paper_run *run)
{
    paper_run same = *run;
    same.z = r->z;
    return points_is_of(r, &same);
}

/* A run without a test perplexity, whose rounds were all blocked, does not hold. */
static bool holds(const run_record *r, double want)
{
    return r->best_test <= want;
}

limit limit_of(const records *all, const paper_run *run)
{
    const double want = reference_dropout(run->body, run->dropout);
    limit l = { 0 };
    for (size_t i = 0; i < all->n; i++) {
        const run_record *r = &all->at[i];
        if (is_like(r, run) && !holds(r, want) && (!l.fails || z_of(r) < z_of(l.fails)))
            l.fails = r;
    }
    for (size_t i = 0; i < all->n; i++) {
        const run_record *r = &all->at[i];
        if (is_like(r, run) && holds(r, want) && (!l.fails || z_of(r) < z_of(l.fails)) &&
            (!l.holds || z_of(r) > z_of(l.holds)))
            l.holds = r;
    }
    return l;
}

bool limit_is_known(const records *all, const paper_run *run)
{
    const limit l = limit_of(all, run);
    const double z = strtod(run->z, NULL);
    return z > 0 && ((l.holds && z <= z_of(l.holds)) || (l.fails && z >= z_of(l.fails)));
}

/* ---- clients for a total epsilon ------------------------------------------------------------- */

typedef struct need {
    double z, clients; /* NAN: unknown */
    const char *how;
} need;

/* Returns the smallest number of clients of a finished run whose total is at most PLAN_EPSILON and
 * which holds; NAN: there is none. */
static double simulated(const records *all, const paper_run *run)
{
    const double want = reference_dropout(run->body, run->dropout);
    double clients = NAN;
    for (size_t i = 0; i < all->n; i++) {
        const run_record *r = &all->at[i];
        if (strcmp(r->body, paper_body_names[run->body]) == 0 && r->dropout == run->dropout &&
            strcmp(r->protection, "sefl") == 0 && !*r->variant &&
            r->epsilon_server <= PLAN_EPSILON && holds(r, want))
            clients = fmin(clients, r->clients); /* ignores NAN */
    }
    return clients;
}

static need need_of(const records *all, const paper_run *run, const run_record *r)
{
    need n = { .z = NAN, .clients = simulated(all, run), .how = "simulated" };
    const dp_event e = { .noise = release_mode_named(span_of_str(PAPER_RELEASE))->source->law,
                         .rate = 1,
                         .count = (uint64_t)(r->rounds - r->skipped),
                         .dim = (uint64_t)r->values };
    double z;
    if (r->rounds > r->skipped && r->values > 0 &&
        dp_find_z(&z, &e, PLAN_EPSILON, &(dp_question){ .delta = r->delta }) == SEFL_OK)
        n.z = z;
    if (isnan(n.clients)) {
        n.clients = z_of(r) > 0 ? ceil(r->clients * n.z / z_of(r)) : NAN;
        n.how = isnan(n.clients) ? "unknown" : "extrapolated";
    }
    return n;
}

/* ---- output ---------------------------------------------------------------------------------- */

static sefl_status put(sefl_buf *out, double v)
{
    return isfinite(v) ? wr_fmt(out, ",%.10g", v) : wr_fmt(out, ",");
}

/* If no z holds, l->holds is NULL and l->fails is not. */
static sefl_status put_csv(sefl_buf *out, const paper_options *o, const paper_run *run,
                           const limit *l, const need *n)
{
    const run_record *r = l->holds;
    SEFL_PASS(wr_fmt(out, "%s,%s,%u,%u,%" PRIu32 ",%.2f,%s", paper_scale(o),
                     paper_body_names[run->body], run->block, run->dropout, run->clients,
                     reference_dropout(run->body, run->dropout), r ? r->z : "none"));
    SEFL_PASS(put(out, r ? r->best_test : NAN));
    SEFL_PASS(put(out, r ? r->noise_ratio : NAN));
    SEFL_PASS(put(out, r ? r->classic_epsilon : NAN));
    if (!r || isfinite(r->epsilon_server))
        SEFL_PASS(put(out, r ? r->epsilon_server : NAN));
    else
        SEFL_PASS(wr_fmt(out, ",none claimed"));
    SEFL_PASS(wr_fmt(out, ",%s", l->fails ? l->fails->z : ""));
    SEFL_PASS(put(out, l->fails ? l->fails->best_test : NAN));
    SEFL_PASS(put(out, n->z));
    SEFL_PASS(put(out, n->clients));
    return wr_fmt(out, ",%s\n", n->how);
}

static sefl_status put_md(sefl_buf *md, const paper_run *run, const limit *l, const need *n)
{
    const run_record *r = l->holds;
    SEFL_PASS(wr_fmt(md, "| %s, %u %% | %.2f |", paper_body_names[run->body], run->dropout,
                     reference_dropout(run->body, run->dropout)));
    if (!r)
        return wr_fmt(md, " none | - | - | - | %s (%.5g) | unknown |\n", l->fails->z,
                      l->fails->best_test);
    SEFL_PASS(wr_fmt(md, " %s | %.2f |", r->z, r->best_test));
    SEFL_PASS(isfinite(r->classic_epsilon) ? wr_fmt(md, " %.4g |", r->classic_epsilon)
                                           : wr_fmt(md, " - |"));
    SEFL_PASS(isfinite(r->epsilon_server) ? wr_fmt(md, " %.4g |", r->epsilon_server)
                                          : wr_fmt(md, " none claimed |"));
    SEFL_PASS(l->fails ? wr_fmt(md, " %s (%.5g) |", l->fails->z, l->fails->best_test)
                       : wr_fmt(md, " - |"));
    return isfinite(n->clients) ? wr_fmt(md, " %.0f (%s) |\n", n->clients, n->how)
                                : wr_fmt(md, " unknown |\n");
}

sefl_status limit_draw(const paper_options *o, sefl_buf *md)
{
    static const unsigned percent[] = { 0, 25, 50, 75 };
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    records all = { 0 };
    size_t rows = 0;
    SEFL_TRY(records_read(&all, o));
    SEFL_TRY(wr_fmt(&b, "scale,model,block,dropout_percent,clients,paper_test,z,test,noise_ratio,"
                        "classic_epsilon_of_a_round,epsilon_server,z_that_fails,test_that_fails,"
                        "z_for_epsilon_8,clients_for_epsilon_8,how\n"));
    SEFL_TRY(wr_fmt(md,
                    "\n## The most noise at which the paper's figures hold\n\nOne seed, 10 "
                    "clients, %u rounds.\n\n| model, dropout | the paper | "
                    "largest z | test | classic epsilon of a round | true total against a server | "
                    "smallest z that fails (test) | clients for a total epsilon of 8 "
                    "|\n|---|---|---|---|---|---|---|---|\n",
                    paper_rounds(o->quick, PAPER_ROUNDS_SHORT)));
    for (unsigned body = 0; body < PAPER_BODIES; body++)
        for (size_t i = 0; i < sizeof percent / sizeof *percent; i++) {
            const paper_run run = { .body = body,
                                    .protection = "sefl",
                                    .block = paper_block(body),
                                    .dropout = percent[i],
                                    .z = "0",
                                    .clients = 10,
                                    .rounds = paper_rounds(o->quick, PAPER_ROUNDS_SHORT) };
            const limit l = limit_of(&all, &run);
            if (!l.fails && (!l.holds || z_of(l.holds) == 0)) /* no run with noise */
                continue;
            const need n = l.holds ? need_of(&all, &run, l.holds)
                                   : (need){ .z = NAN, .clients = NAN, .how = "unknown" };
            SEFL_TRY(put_csv(&b, o, &run, &l, &n));
            SEFL_TRY(put_md(md, &run, &l, &n));
            rows++;
        }
    if (rows > 0)
        SEFL_TRY(paper_write(o, "noise.csv", buf_span(&b)));
done:
    buf_clear(&b);
    records_clear(&all);
    return st;
}
