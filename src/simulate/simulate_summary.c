#include "base/hex.h"
#include "base/json.h"
#include "base/log.h"
#include "simulate/simulate.h"

#include <stdio.h>

void simulate_add(simulate_result *out, const run_round *r)
{
    out->rounds++;
    out->skipped += r->skipped;
    out->updates += r->clients;
    out->diverged += r->skipped ? 0 : r->diverged;
    out->blocked += r->blocked;
    out->seconds += r->seconds;
    out->train += r->train;
    out->encrypt += r->encrypt;
    out->sum += r->sum;
    out->twopc += r->twopc;
    out->step += r->step;
    out->eval += r->eval;
    out->cpu += r->cpu;
    out->up += r->up;
    out->down += r->down;
    out->link += r->link == UINT64_MAX ? 0 : r->link;
    if (r->perplexity > 0) {
        out->last_perplexity = r->perplexity;
        if (out->best_perplexity == 0 || r->perplexity < out->best_perplexity) {
            out->best_perplexity = r->perplexity;
            out->best_round = r->round;
        }
    }
    if (r->has_epsilon) {
        out->has_epsilon = true;
        out->epsilon_server = r->epsilon_server;
        out->epsilon_others = r->epsilon_others;
    }
}

sefl_status simulate_summary_write(sefl_buf *out, const simulate_result *r, const experiment *e)
{
    json j = json_into(out);
    char hex[65];
    hex_write(hex, r->model, 32);
    json_open(&j, '{');
    json_fields(&j, lf_str("name", e->name), lf_str("folder", r->folder),
                lf_str("protection", e->protection->name),
                lf_str("crypto", e->full ? "full" : "clear"), lf_u64("clients", e->clients),
                lf_u64("seed", e->seed), lf_u64("rounds", r->rounds), lf_u64("skipped", r->skipped),
                lf_u64("diverged", r->diverged), lf_u64("blocked", r->blocked),
                lf_str("why", r->why), lf_bool("was_there", r->was_there),
                lf_if(r->first_perplexity > 0, lf_real("first_perplexity", r->first_perplexity)),
                lf_if(r->last_perplexity > 0, lf_real("last_perplexity", r->last_perplexity)),
                lf_if(r->best_perplexity > 0, lf_real("best_perplexity", r->best_perplexity)),
                lf_if(r->best_perplexity > 0, lf_u64("best_round", r->best_round)),
                lf_if(r->best_possible > 0, lf_real("best_possible_perplexity", r->best_possible)),
                lf_str("model_sha256", hex), lf_str("claim", r->claim ? "dp" : "none"),
                lf_if(r->has_epsilon, lf_real("epsilon_server", r->epsilon_server)),
                lf_if(r->has_epsilon, lf_real("epsilon_others", r->epsilon_others)),
                lf_if(r->has_epsilon, lf_real("epsilon_target", r->epsilon_target)),
                lf_if(r->has_epsilon, lf_real("delta", r->delta)), lf_real("seconds", r->seconds),
                lf_real("train_seconds", r->train), lf_real("encrypt_seconds", r->encrypt),
                lf_real("sum_seconds", r->sum), lf_real("2pc_seconds", r->twopc),
                lf_real("step_seconds", r->step), lf_real("eval_seconds", r->eval),
                lf_real("cpu_seconds", r->cpu), lf_u64("up_bytes", r->up),
                lf_u64("down_bytes", r->down), lf_u64("link_bytes", r->link),
                lf_u64("memory_bytes", r->memory_bytes), lf_u64("threads", r->threads));
    json_key(&j, "warnings"), json_open(&j, '[');
    for (unsigned i = 0; i < r->warnings; i++)
        json_str(&j, r->warning[i]);
    json_close(&j, ']');
    json_close(&j, '}');
    return json_end(&j);
}
