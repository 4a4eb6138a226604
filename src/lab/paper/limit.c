#include "paper/limit.h"

#include "privacy/accountant/accountant.h"
#include "protocol/modes/mode.h"
#include "simulate/plan.h"

#include <math.h>
#include <stdlib.h>

static double z_of(const sheet_cell *r)
{
    return strtod(record_text(r, "z"), NULL);
}

double limit_paper(unsigned body, unsigned percent)
{
    /* section Result Analysis: "Comparison of the impact of dropout rate", at 0, 25, 50, 75 % */
    static const double perplexity[PAPER_BODIES][4] = { { 177.41, 178.45, 187.64, 194.82 },
                                                        { 263.78, 279.81, 301.04, 310.12 } };
    return percent % 25 == 0 && percent < 100 ? perplexity[body][percent / 25] : NAN;
}

/* ---- the limit ------------------------------------------------------------------------------- */

limit limit_of(const sheet *all, const paper_run *run)
{
    static const char *const z[] = { "0",    "0.001", "0.002", "0.003", "0.005",
                                     "0.01", "0.02",  "0.03",  "0.1",   "1" };
    const double want = limit_paper(run->body, run->dropout);
    limit l = { 0 };
    paper_run like = *run;
    like.seed = 1;
    for (size_t i = 0; i < sizeof z / sizeof *z && !l.fails; i++) {
        like.z = z[i];
        const sheet_cell *r = records_find(all, &like);
        if (record_number(r, "best_test") <= want) /* NAN: all rounds were blocked */
            l.holds = r;
        else
            l.fails = r;
    }
    return l;
}

bool limit_is_known(const sheet *all, const paper_run *run)
{
    const limit l = limit_of(all, run);
    const double z = strtod(run->z, NULL);
    return z > 0 && ((l.holds && z <= z_of(l.holds)) || (l.fails && z >= z_of(l.fails)));
}

/* ---- the figure ------------------------------------------------------------------------------ */

/* Returns the z with which the rounds of a run have a total of PLAN_EPSILON; NAN: unknown. */
static double z_of_total(const sheet_cell *r)
{
    const double released = record_number(r, "rounds") - record_number(r, "skipped");
    const double values = record_number(r, "values");
    double z;
    if (!(released > 0 && values > 0))
        return NAN;
    const dp_event e = { .noise = release_mode_named(span_of_str(PAPER_RELEASE))->source->law,
                         .rate = 1,
                         .count = (uint64_t)released,
                         .dim = (uint64_t)values };
    const dp_question q = { .delta = record_number(r, "delta") };
    return dp_find_z(&z, &e, PLAN_EPSILON, &q) == SEFL_OK ? z : NAN;
}

const char limit_columns[] =
    "scale model block dropout_percent clients paper_test z test noise_ratio "
    "classic_epsilon_of_a_round "
    "epsilon_server z_that_fails test_that_fails z_for_epsilon_8 clients_for_epsilon_8";

sefl_status limit_add(sheet *out, const sheet *all)
{
    for (unsigned body = 0; body < PAPER_BODIES; body++)
        for (unsigned percent = 0; percent <= 75; percent += 25) {
            const paper_run run = { .body = body,
                                    .protection = "sefl",
                                    .block = paper_block(body),
                                    .dropout = percent,
                                    .clients = 10,
                                    .rounds = paper_rounds(out->o->quick, PAPER_ROUNDS_SHORT) };
            const limit l = limit_of(all, &run);
            const sheet_cell *r = l.holds;
            if (!l.fails && (!r || z_of(r) == 0)) /* no run with noise */
                continue;
            const double total = z_of_total(r), noise = r ? z_of(r) : 0;
            SEFL_PASS(sheet_add(
                out,
                (const char *[]){ paper_body_names[body], r ? record_text(r, "z") : "none",
                                  record_text(l.fails, "z") },
                (double[]){ run.block, percent, run.clients, limit_paper(body, percent),
                            record_number(r, "best_test"), record_number(r, "noise_ratio"),
                            record_number(r, "classic_epsilon"), record_number(r, "epsilon_server"),
                            record_number(l.fails, "best_test"), total,
                            noise > 0 ? ceil(run.clients * total / noise) : NAN }));
        }
    return SEFL_OK;
}
