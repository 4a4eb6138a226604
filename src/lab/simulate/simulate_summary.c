#include "base/hex.h"
#include "base/json.h"
#include "base/log.h"
#include "metrics/metrics.h"
#include "simulate/simulate.h"

#include <math.h>
#include <stdio.h>

sefl_status simulate_log(uint64_t *bytes, const char *path, run_line *l, const task *t,
                         const experiment *e)
{
    run_facts f = metrics_facts(t);
    const protection *p = e->protection;
    l->time = metrics_time();
    f.simulated = true;
    snprintf(f.name, sizeof f.name, "%s", e->name);
    snprintf(f.protection, sizeof f.protection, "%s", p->name);
    if (!p->quantises)
        *f.filter = 0;
    if (p->shown) {
        snprintf(f.noise, sizeof f.noise, "%s", p->shown);
        *f.mode = 0; /* there is one server */
    }
    return run_log_append(bytes, path, l, &f);
}

/* Returns 0 if no round has the number. */
static double sum(double v)
{
    return isnan(v) ? 0 : v;
}

sefl_status simulate_summary_write(sefl_buf *out, const simulate_result *r, const experiment *e)
{
    json j = json_into(out);
    const run_line *all = &r->t.all;
    bool claimed = !isnan(all->epsilon_server);
    char hex[65];
    hex_write(hex, r->model, 32);
    json_open(&j, '{');
    json_fields(
        &j, lf_str("name", e->name), lf_str("folder", r->folder),
        lf_str("protection", e->protection->name), lf_str("crypto", e->full ? "full" : "clear"),
        lf_u64("clients", e->clients), lf_u64("seed", e->seed), lf_u64("rounds", r->t.rounds),
        lf_u64("skipped", r->t.skipped), lf_u64("diverged", (uint64_t)sum(all->diverged)),
        lf_u64("blocked", r->t.blocked), lf_str("why", r->why), lf_bool("was_there", r->was_there),
        lf_if(r->first_perplexity > 0, lf_real("first_perplexity", r->first_perplexity)),
        lf_if(r->t.best > 0, lf_real("last_perplexity", all->perplexity)),
        lf_if(all->word_perplexity > 0, lf_real("last_word_perplexity", all->word_perplexity)),
        lf_if(r->t.best > 0, lf_real("best_perplexity", r->t.best)),
        lf_if(r->t.best > 0, lf_u64("best_round", r->t.best_round)),
        lf_if(r->best_possible > 0, lf_real("best_possible_perplexity", r->best_possible)),
        lf_if(r->test_best > 0, lf_real("best_test_perplexity", r->test_best)),
        lf_if(r->test_last > 0, lf_real("last_test_perplexity", r->test_last)),
        lf_str("model_sha256", hex), lf_str("claim", r->claim ? "dp" : "none"),
        lf_if(claimed, lf_real("epsilon_server", all->epsilon_server)),
        lf_if(claimed, lf_real("epsilon_others", all->epsilon_others)),
        lf_if(claimed, lf_real("epsilon_target", r->epsilon_target)),
        lf_if(claimed, lf_real("delta", r->delta)), lf_if(r->z > 0, lf_real("z", r->z)),
        lf_if(*r->filter, lf_str("filter", r->filter)),
        lf_if(r->weight_cap > 0, lf_u64("weight_cap", r->weight_cap)),
        lf_real("seconds", sum(all->seconds)), lf_real("train_seconds", sum(all->train_seconds)),
        lf_real("encrypt_seconds", sum(all->encrypt_seconds)),
        lf_real("sum_seconds", sum(all->sum_seconds)),
        lf_real("2pc_seconds", sum(all->twopc_seconds)),
        lf_real("step_seconds", sum(all->step_seconds)),
        lf_real("eval_seconds", sum(all->eval_seconds)),
        lf_real("cpu_seconds", sum(all->cpu_seconds)),
        lf_u64("up_bytes", (uint64_t)sum(all->up_bytes)),
        lf_u64("down_bytes", (uint64_t)sum(all->down_bytes)),
        lf_u64("link_bytes", (uint64_t)sum(all->link_bytes)),
        lf_u64("memory_bytes", r->memory_bytes), lf_u64("threads", r->threads),
        lf_if(*r->device, lf_str("device", r->device)));
    plan_classic_json(&j, &r->classic);
    plan_warnings_json(&j, &r->warnings);
    json_close(&j, '}');
    return json_end(&j);
}
