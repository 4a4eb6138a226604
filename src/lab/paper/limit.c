#include "paper/limit.h"

#include "privacy/accountant/accountant.h"
#include "protocol/modes/mode.h"
#include "simulate/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* A run without a test perplexity, whose rounds were all blocked, does not hold. */
static bool holds(const sheet_cell *r, double want)
{
    return record_number(r, "best_test") <= want;
}

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
        if (r && holds(r, want))
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

/* ---- clients for a total epsilon ------------------------------------------------------------- */

typedef struct need {
    double z, clients; /* NAN: unknown */
    const char *how;
} need;

/* Returns the smallest number of clients of a finished run whose total is at most PLAN_EPSILON and
 * which holds; NAN: there is none. */
static double simulated(const sheet *all, const paper_run *run)
{
    const double want = limit_paper(run->body, run->dropout);
    double clients = NAN;
    for (size_t i = 0; i < all->rows; i++) {
        const sheet_cell *r = all->cell + i * RECORD_WIDTH;
        if (strcmp(record_text(r, "body"), paper_body_names[run->body]) == 0 &&
            record_number(r, "dropout") == run->dropout &&
            strcmp(record_text(r, "protection"), "sefl") == 0 && *record_text(r, "variant") == 0 &&
            record_number(r, "epsilon_server") <= PLAN_EPSILON && holds(r, want))
            clients = fmin(clients, record_number(r, "clients")); /* ignores NAN */
    }
    return clients;
}

static need need_of(const sheet *all, const paper_run *run, const sheet_cell *r)
{
    need n = { .z = NAN, .clients = simulated(all, run), .how = "simulated" };
    const dp_event e = { .noise = release_mode_named(span_of_str(PAPER_RELEASE))->source->law,
                         .rate = 1,
                         .count =
                             (uint64_t)(record_number(r, "rounds") - record_number(r, "skipped")),
                         .dim = (uint64_t)record_number(r, "values") };
    double z;
    if (record_number(r, "rounds") > record_number(r, "skipped") &&
        record_number(r, "values") > 0 &&
        dp_find_z(&z, &e, PLAN_EPSILON, &(dp_question){ .delta = record_number(r, "delta") }) ==
            SEFL_OK)
        n.z = z;
    if (isnan(n.clients)) {
        n.clients = z_of(r) > 0 ? ceil(record_number(r, "clients") * n.z / z_of(r)) : NAN;
        n.how = isnan(n.clients) ? "unknown" : "extrapolated";
    }
    return n;
}

/* ---- output ---------------------------------------------------------------------------------- */

const char limit_head[] = "scale,model,block,dropout_percent,clients,paper_test,z,test,noise_ratio,"
                          "classic_epsilon_of_a_round,epsilon_server,z_that_fails,test_that_fails,"
                          "z_for_epsilon_8,clients_for_epsilon_8,how\n";

/* If no z holds, l->holds is NULL and l->fails is not. */
static void put_limit(drawing *d, const paper_run *run, const limit *l, const need *n)
{
    const sheet_cell *r = l->holds, *fails = l->fails;
    const char *body = paper_body_names[run->body];
    const double paper = limit_paper(run->body, run->dropout);
    draw_text *csv = &d->csv, *md = &d->md;
    draw_put(csv, "%s,%s,%u,%u,%" PRIu32 ",%.2f,%s", paper_scale(d->o), body, run->block,
             run->dropout, run->clients, paper, l->holds ? record_text(r, "z") : "none");
    draw_number(csv, record_number(r, "best_test"));
    draw_number(csv, record_number(r, "noise_ratio"));
    draw_number(csv, record_number(r, "classic_epsilon"));
    if (l->holds && !isfinite(record_number(r, "epsilon_server")))
        draw_put(csv, ",none claimed");
    else
        draw_number(csv, record_number(r, "epsilon_server"));
    draw_put(csv, ",%s", record_text(fails, "z"));
    draw_number(csv, record_number(fails, "best_test"));
    draw_number(csv, n->z);
    draw_number(csv, n->clients);
    draw_put(csv, ",%s\n", n->how);
    draw_put(md, "| %s, %u %% | %.2f |", body, run->dropout, paper);
    if (l->holds)
        draw_put(md, " %s | %.2f |", record_text(r, "z"), record_number(r, "best_test"));
    else
        draw_put(md, " none | - |");
    draw_cell(md, record_number(r, "classic_epsilon"), 4, "-");
    draw_cell(md, record_number(r, "epsilon_server"), 4, l->holds ? "none claimed" : "-");
    if (l->fails)
        draw_put(md, " %s (%.5g) |", record_text(fails, "z"), record_number(fails, "best_test"));
    else
        draw_put(md, " - |");
    if (isfinite(n->clients))
        draw_put(md, " %.0f (%s) |\n", n->clients, n->how);
    else
        draw_put(md, " unknown |\n");
}

sefl_status limit_draw(drawing *d)
{
    const unsigned rounds = paper_rounds(d->o->quick, PAPER_ROUNDS_SHORT);
    draw_put(&d->md,
             "\n## The most noise at which the paper's figures hold\n\nOne seed, 10 "
             "clients, %u rounds.\n\n| model, dropout | the paper | "
             "largest z | test | classic epsilon of a round | true total against a server | "
             "smallest z that fails (test) | clients for a total epsilon of 8 "
             "|\n|---|---|---|---|---|---|---|---|\n",
             rounds);
    for (unsigned body = 0; body < PAPER_BODIES; body++)
        for (unsigned percent = 0; percent <= 75; percent += 25) {
            const paper_run run = { .body = body,
                                    .protection = "sefl",
                                    .block = paper_block(body),
                                    .dropout = percent,
                                    .z = "0",
                                    .clients = 10,
                                    .rounds = rounds };
            const limit l = limit_of(&d->all, &run);
            if (!l.fails && (!l.holds || z_of(l.holds) == 0)) /* no run with noise */
                continue;
            const need n = l.holds ? need_of(&d->all, &run, l.holds)
                                   : (need){ .z = NAN, .clients = NAN, .how = "unknown" };
            put_limit(d, &run, &l, &n);
        }
    return SEFL_OK;
}
