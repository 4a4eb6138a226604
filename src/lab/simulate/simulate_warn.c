#include "simulate/simulate_warn.h"

#include "model/lm.h"

#include <inttypes.h>
#include <stdio.h>

void simulate_warn_early(plan_warnings *w, const federation *f)
{
    const experiment *e = f->e;
    const corpus *v = &f->valid, *t = &f->test;
    if (*e->init && f->task.claim && !e->data_public)
        plan_warn(w, "no epsilon covers the text that model.init was trained on: it must be public "
                     "text, and never text of these clients");
    if (t->tokens > 0 && t->tokens < 2 * LM_EVAL_BATCH)
        plan_warn(
            w, "the test text has only %zu words, so test perplexity is not measured: it needs %d",
            t->tokens, 2 * LM_EVAL_BATCH);
    if (f->task.external)
        return; /* perplexity is of words */
    if (v->tokens == 0)
        plan_warn(w,
                  "%s has no validation text, so perplexity is not measured: use a folder with "
                  "train.txt and valid.txt",
                  e->data);
    else if (v->tokens < 2 * LM_EVAL_BATCH)
        plan_warn(
            w, "the validation text has only %zu words, so perplexity is not measured: it needs %d",
            v->tokens, 2 * LM_EVAL_BATCH);
    else if (f->task.claim && !e->data_public)
        plan_warn(
            w,
            "the validation text decides which model is best.safetensors%s, and no epsilon covers "
            "that choice: use last.safetensors, or set data.public: true if the text is public",
            f->task.patience > 0 ? " and when rounds.patience ends the run" : "");
}

void simulate_warn_late(simulate_result *r, const federation *f)
{
    plan_warnings *w = &r->warnings;
    const run_totals *t = &r->t;
    const double first = r->first_perplexity, last = t->all.perplexity;
    char what[96];
    bool all = t->all.diverged > 0 && t->all.diverged == t->all.clients;
    if (t->all.diverged > 0)
        plan_warn(w,
                  "local training diverged in %s%.0f of %.0f updates, which are zeros%s: try a "
                  "smaller training.lr or a tighter training.gradient_clip",
                  all ? "all " : "", t->all.diverged, t->all.clients,
                  all ? "; nothing was learned" : "");
    if (all)
        return;
    if (t->blocked > 0)
        snprintf(what, sizeof what, "the release check blocked %" PRIu64 " of %" PRIu64 " rounds",
                 t->blocked, t->rounds);
    else if (first > 0 && last > first)
        snprintf(what, sizeof what, "perplexity %.6g at the start, %.6g at the end", first, last);
    else
        return;
    double clients = t->all.clients / (double)(t->rounds - t->skipped);
    double ratio = plan_noise_ratio(f, clients);
    if (ratio > PLAN_RATIO_GOOD)
        plan_warn(w,
                  "the noise drowned the model: %s. The noise is %.3g times the largest signal of "
                  "%.0f clients, and learning needs less than a third: use more clients per round, "
                  "%s or a smaller privacy.z ('sefl plan' computes it)",
                  what, ratio, clients, plan_fewer_values(f));
    else
        plan_warn(w, "training made the model worse: %s: try a smaller training.lr or server.lr",
                  what);
}
