#include "base/hex.h"
#include "base/json.h"
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
    json_key(&j, "name"), json_str(&j, e->name);
    json_key(&j, "folder"), json_str(&j, r->folder);
    json_key(&j, "protection"), json_str(&j, e->protection->name);
    json_key(&j, "crypto"), json_str(&j, e->full ? "full" : "clear");
    json_key(&j, "clients"), json_u64(&j, e->clients);
    json_key(&j, "seed"), json_u64(&j, e->seed);
    json_key(&j, "rounds"), json_u64(&j, r->rounds);
    json_key(&j, "skipped"), json_u64(&j, r->skipped);
    json_key(&j, "diverged"), json_u64(&j, r->diverged);
    json_key(&j, "blocked"), json_u64(&j, r->blocked);
    json_key(&j, "why"), json_str(&j, r->why);
    json_key(&j, "was_there"), json_bool(&j, r->was_there);
    if (r->first_perplexity > 0)
        json_key(&j, "first_perplexity"), json_real(&j, r->first_perplexity);
    if (r->last_perplexity > 0)
        json_key(&j, "last_perplexity"), json_real(&j, r->last_perplexity);
    if (r->best_perplexity > 0) {
        json_key(&j, "best_perplexity"), json_real(&j, r->best_perplexity);
        json_key(&j, "best_round"), json_u64(&j, r->best_round);
    }
    if (r->best_possible > 0)
        json_key(&j, "best_possible_perplexity"), json_real(&j, r->best_possible);
    json_key(&j, "model_sha256"), json_str(&j, hex);
    json_key(&j, "claim"), json_str(&j, r->claim ? "dp" : "none");
    if (r->has_epsilon) {
        json_key(&j, "epsilon_server"), json_real(&j, r->epsilon_server);
        json_key(&j, "epsilon_others"), json_real(&j, r->epsilon_others);
        json_key(&j, "epsilon_target"), json_real(&j, r->epsilon_target);
        json_key(&j, "delta"), json_real(&j, r->delta);
    }
    json_key(&j, "seconds"), json_real(&j, r->seconds);
    json_key(&j, "train_seconds"), json_real(&j, r->train);
    json_key(&j, "encrypt_seconds"), json_real(&j, r->encrypt);
    json_key(&j, "sum_seconds"), json_real(&j, r->sum);
    json_key(&j, "2pc_seconds"), json_real(&j, r->twopc);
    json_key(&j, "step_seconds"), json_real(&j, r->step);
    json_key(&j, "eval_seconds"), json_real(&j, r->eval);
    json_key(&j, "cpu_seconds"), json_real(&j, r->cpu);
    json_key(&j, "up_bytes"), json_u64(&j, r->up);
    json_key(&j, "down_bytes"), json_u64(&j, r->down);
    json_key(&j, "link_bytes"), json_u64(&j, r->link);
    json_key(&j, "memory_bytes"), json_u64(&j, r->memory_bytes);
    json_key(&j, "threads"), json_u64(&j, r->threads);
    json_key(&j, "warnings"), json_open(&j, '[');
    for (unsigned i = 0; i < r->warnings; i++)
        json_str(&j, r->warning[i]);
    json_close(&j, ']');
    json_close(&j, '}');
    return json_end(&j);
}
