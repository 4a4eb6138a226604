#include "base/file.h"
#include "base/json.h"
#include "cli/meter.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/print.h"
#include "model/corpus/partition.h"
#include "model/corpus/synth.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct wish {
    const char *out;
    uint32_t clients;
    uint64_t tokens, seed;
    double alpha;
    bool json, force;
} wish;

static sefl_status check_synth(const wish *o)
{
    static const char *const names[] = { "train.txt", "valid.txt", "test.txt", "vocab.txt",
                                         "meta.json" };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        SEFL_PASS(file_path(path, "%s/%s", o->out, names[i]));
        SEFL_PASS(output_check(path, NULL, o->force));
    }
    return output_check_folder(o->out, "client-", o->force);
}

static sefl_status synth_json(const synth_settings *s, const synth_report *r)
{
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    json_fields(&j, lf_u64("clients", s->clients), lf_u64("seed", s->seed),
                lf_u64("vocabulary_words", r->words), lf_real("entropy_nats_per_token", r->entropy),
                lf_real("best_perplexity", r->best_perplexity));
    for (int i = 0; i < CORPUS_SPLITS; i++)
        json_object(&j, corpus_split_names[i], lf_u64("tokens", r->tokens[i]),
                    lf_u64("lines", r->lines[i]), lf_real("source_perplexity", r->perplexity[i]));
    json_close(&j, '}');
    return print_json(&j);
}

static sefl_status run_synth(void *options)
{
    const wish *o = options;
    const synth_settings set = { .clients = o->clients,
                                 .tokens = o->tokens,
                                 .alpha = o->alpha,
                                 .seed = o->seed },
                         *s = &set;
    synth_report r;
    meter m;
    SEFL_NEED(s->clients <= SYNTH_CLIENTS_MAX, SEFL_EINVAL,
              "synth generates text for at most %d clients", SYNTH_CLIENTS_MAX);
    SEFL_NEED(s->alpha >= 0.001, SEFL_EINVAL, "--alpha is %g: the minimum is 0.001", s->alpha);
    SEFL_PASS(check_synth(o));
    sefl_progress p = meter_start(&m, "writing");
    sefl_status st = synth_write(o->out, s, &r, &p);
    meter_stop(&m);
    SEFL_NEED(st != SEFL_ECANCELLED, st, "stopped: %s is incomplete; run again with --force",
              o->out);
    SEFL_PASS(st);
    if (o->json)
        return synth_json(s, &r);
    printf("%s: %" PRIu32 " clients, %" PRIu32 " words, seed %" PRIu64 "\n", o->out, s->clients,
           r.words, s->seed);
    printf("%-6s %12s %10s %22s\n", "split", "tokens", "lines", "source perplexity");
    for (int i = 0; i < CORPUS_SPLITS; i++)
        printf("%-6s %12" PRIu64 " %10" PRIu64 " %22.4f\n", corpus_split_names[i], r.tokens[i],
               r.lines[i], r.perplexity[i]);
    printf("exact entropy rate %.6f nats per token: best possible perplexity %.4f\n", r.entropy,
           r.best_perplexity);
    return SEFL_OK;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "out", SETTING_PATH, "", TO(out), .arg = "OUT", .help = "Folder to write" },
    { "clients", SETTING_U64, "4", TO(clients), .min = 1, .max = PARTITION_CLIENTS_MAX,
      .help = "Number of clients" },
    { "tokens", SETTING_U64, "200000", TO(tokens), .min = 1, .max = SYNTH_TOKENS_MAX,
      .help = "Total number of training tokens across all clients" },
    { "alpha", SETTING_REAL, "0.5", TO(alpha), .max = 1000,
      .help = "Dirichlet parameter; smaller values make clients differ more" },
    { "seed", SETTING_U64, "0", TO(seed), .help = "The same seed gives the same output" },
    OPTION_FORCE(wish),
    OPTION_JSON(wish),
    { 0 },
};

const cli_command cmd_synth = {
    .name = "synth",
    .about = "Writes train.txt, valid.txt, test.txt, client-000/, ..., vocab.txt and meta.json to "
             "OUT.",
    .example = "sefl synth --out text --clients 4 --tokens 100000 --seed 1",
    CLI_OPTIONS(wish),
    .interruptible = true,
    CLI_ONLY(NULL, NULL, 0, .needs = "out", .work = run_synth),
};
