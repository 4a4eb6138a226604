#include "base/file.h"
#include "base/hex.h"
#include "cli/meter.h"
#include "cli/options.h"
#include "cli/print.h"

#include "crypto/keyfile.h"
#include "operator/provision.h"
#include "protocol/task_make.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct wish {
    provision_config c;
    settings task;
    bool json;
} wish;

/* ---- output ---------------------------------------------------------------------------------- */

static sefl_status say_json(const provision_config *c, const provision_report *r, const char *id)
{
    char kits[PATH_MAX];
    SEFL_PASS(file_path(kits, "%s/kits", c->folder));
    return print_fields(
        lf_str("folder", c->folder), lf_str("task", id), lf_u64("clients", r->clients),
        lf_u64("vocabulary_words", r->words), lf_u64("values", r->values),
        lf_u64("update_bytes", r->update_bytes), lf_u64("tokens_least", r->tokens_least),
        lf_u64("tokens_most", r->tokens_most), lf_if(c->hosts, lf_str("kits", kits)));
}

static const char *zeros_of(const provision_report *r)
{
    return r->clients < 100 ? "" : r->clients < 1000 ? "0" : "00";
}

static void print_start(const char *f, const provision_report *r, bool fixed)
{
    printf("Start each party in its own terminal:\n"
           "  sefl csp --config %s/csp/csp.yml\n"
           "  sefl aggregator --config %s/aggregator/aggregator.yml%s%s%s\n"
           "  sefl client --config %s/clients/client-%s01/client.yml%s%s%s     # and so on\n",
           f, f, fixed ? "" : " --csp \"$(cat ", fixed ? "" : f, fixed ? "" : "/csp/ready)\"", f,
           zeros_of(r), fixed ? "" : " --server \"$(cat ", fixed ? "" : f,
           fixed ? "" : "/aggregator/ready)\"");
}

static void print_kits(const char *f, const provision_report *r)
{
    printf("One kit per machine. Copy each to its machine; each contains private keys:\n"
           "  %s/kits/aggregator.tar  to %s; the clients must reach its port %u\n"
           "  %s/kits/csp.tar  to %s; only %s must reach its port %u\n"
           "  %s/kits/client-%s01.tar  to the first client's machine, and so on\n"
           "Install sefl on each machine ('make install'). Then, on each, with the kit's NAME:\n"
           "  tar -xf NAME.tar && sefl-trial-NAME/start\n",
           f, r->as.host, r->as.port, f, r->csp.host, r->as.host, r->csp.port, f, zeros_of(r));
}

static void print_text(const provision_config *c, const provision_report *r, const char *id)
{
    const char *f = c->folder;
    printf("%s: an aggregation server, a CSP and %" PRIu32 " clients\n", f, r->clients);
    printf("task      %s\nmodel     ", id);
    if (r->words > 0)
        printf("%zu values, %" PRIu32 " %s", r->params, r->words,
               r->tokens ? "sub-word tokens" : "words");
    else
        printf("external, %zu values", r->params);
    printf("; an update has %" PRIu64 " bytes", r->update_bytes);
    if (r->values != r->params)
        printf(" for %zu values", r->values);
    printf("\n");
    if (r->words > 0)
        printf("text      %s, %" PRIu64 " to %" PRIu64 " tokens per client\n",
               c->data ? c->data : "generated", r->tokens_least, r->tokens_most);
    printf("%s\nWhat it protects, and from whom:\n"
           "  sefl task show %s/public/task.signed --explain\n",
           r->mode, f);
    if (c->hosts)
        print_kits(f, r);
    else
        print_start(f, r, c->port_base != 0);
}

static sefl_status work(void *options)
{
    wish *w = options;
    provision_config *c = &w->c;
    provision_report r;
    meter m;
    char id[HEX_CHARS(PAILLIER_FINGERPRINT_BYTES)];
    c->task = &w->task;
    sefl_progress p = meter_start(&m, "creating keys, text and task");
    sefl_status st = provision_make(&r, c, &p);
    meter_stop(&m);
    SEFL_PASS(st);
    hex_write(id, r.task, sizeof r.task);
    if (*r.turns_warning)
        fprintf(stderr, "sefl provision: warning: %s\n", r.turns_warning);
    if (w->json)
        st = say_json(c, &r, id);
    else
        print_text(c, &r, id);
    fprintf(stderr,
            "sefl: FOR TRIALS ONLY: the keys of all parties are in %s. Anyone who can read that "
            "folder\n"
            "      can decrypt every upload. In production each operator creates its own keys on "
            "its own machine.\n",
            c->folder);
    return st;
}

#define TO(member) SETTING_TO(wish, c.member)
static const setting_def options[] = {
    { "clients", SETTING_U64, "8", TO(clients), .min = 2, .max = PROVISION_CLIENTS_MAX,
      .help = "Number of clients" },
    { "bits", SETTING_U64, "0", PAILLIER_SIZES, TO(key_bits), .min = 1, .arg = "N",
      .help = "Size of CSP's Paillier key; default 3072" },
    { "words", SETTING_U64, "2000", TO(words), .min = 100, .max = 10000000,
      .help = "Number of tokens of generated text per client" },
    { "data", SETTING_PATH, "", TO(data), .arg = "PATH",
      .help = "Text to split among the clients instead of generated text: a folder with train.txt "
              "and valid.txt, or a file. The validation text becomes public, and its words become "
              "the vocabulary" },
    { "vocab", SETTING_PATH, "", TO(vocab),
      .help = "Public vocabulary: a word list, or a BPE vocabulary with --set vocab.kind=bpe" },
    { "init", SETTING_PATH, "", TO(init),
      .help =
          "Public initial model, a safetensors file. If model.body is external, the model has "
          "its tensors; without the file, it has those of model.tensors and starts from zeros" },
    { "seed", SETTING_U64, "1", TO(seed),
      .help = "Seed of the text, its split and the initial model; the seed is public, and no key "
              "depends on it" },
    { "hosts", SETTING_TEXT, "", TO(hosts), .arg = "AS,CSP",
      .help = "Host names or addresses of the servers' machines, each with or without :PORT. The "
              "command then also writes one kit per machine to FOLDER/kits" },
    { "port-base", SETTING_U64, "7000", TO(port_base), .max = 65534, .arg = "P",
      .help = "The aggregation server listens on port P, CSP on P + 1, both on 127.0.0.1 unless "
              "--hosts is given. If P is 0, the system chooses the ports and the servers write "
              "them to aggregator/ready and csp/ready" },
    OPTION_SET,
    OPTION_JSON(wish),
    { 0 },
};
static const cli_shortcut shortcuts[] = { { "scheme", "crypto.scheme" }, { 0 } };

const cli_command cmd_provision = {
    .name = "provision",
    .about =
        "Creates keys, certificates and settings files for an aggregation server, a CSP and "
        "clients; two certificate authorities; and text, a vocabulary, an initial model and a task "
        "signed by both servers. "
        "FOLDER must be empty or not exist; if the command fails, it leaves nothing there. One "
        "folder holds the keys of all parties, so use it for trials only. With --hosts, the "
        "parties run on several machines: a kit is an archive with one party's files, a script "
        "that starts the party, a systemd unit and a README. --set changes settings "
        "of the task as in 'sefl task new'; by default, it trains a small LSTM for 5 rounds, with "
        "too little noise to claim privacy.",
    .example = "sefl provision trial --clients 4 --set rounds.count=3\n"
               "  sefl provision trial3 --clients 2 --hosts as.example,csp.example",
    CLI_OPTIONS(wish),
    .actions =
        (const cli_action[]){
            { "", "FOLDER", "a folder", .arg_at = offsetof(wish, c.folder), .work = work }, { 0 } },
    .schema = task_schema,
    .shortcuts = shortcuts,
    CLI_SETTINGS(wish, task),
    .interruptible = true,
    .handles_keys = true,
};
