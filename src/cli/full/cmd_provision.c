/* sefl provision: a whole federation in one folder, for trials and tests. */
#include "base/hex.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/meter.h"
#include "cli/print.h"

#include "base/json.h"
#include "crypto/keyfile.h"
#include "operator/provision.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum {
    O_CLIENTS = 256,
    O_SCHEME,
    O_BITS,
    O_DATA,
    O_VOCAB,
    O_WORDS,
    O_SEED,
    O_PORT,
    O_SET,
    O_SET_FILE,
    O_JSON
};

static const struct option longopts[] = {
    { "clients", required_argument, NULL, O_CLIENTS },
    { "scheme", required_argument, NULL, O_SCHEME },
    { "bits", required_argument, NULL, O_BITS },
    { "data", required_argument, NULL, O_DATA },
    { "vocab", required_argument, NULL, O_VOCAB },
    { "words", required_argument, NULL, O_WORDS },
    { "seed", required_argument, NULL, O_SEED },
    { "port-base", required_argument, NULL, O_PORT },
    { "set", required_argument, NULL, O_SET },
    { "set-file", required_argument, NULL, O_SET_FILE },
    { "json", no_argument, NULL, O_JSON },
    { 0 },
};

static const struct range {
    int option;
    unsigned long long min, max;
} ranges[] = {
    { O_CLIENTS, 2, PROVISION_CLIENTS_MAX },
    { O_BITS, 2048, 4096 },
    { O_WORDS, 100, 10000000 },
    { O_SEED, 0, UINT64_MAX },
    { O_PORT, 0, 65534 },
};

/* A number within the option's range; CLI_MISUSE after saying which. */
static int number(int c, const char *name, unsigned long long *out)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].option == c && !cli_parse_u64(optarg, ranges[i].min, ranges[i].max, out))
            return cli_misuse(&cmd_provision, "--%s is a number from %llu to %llu, not \"%.64s\"",
                              name, ranges[i].min, ranges[i].max, optarg);
    return CLI_DONE;
}

static int take(provision_config *c, settings *terms, bool *as_json, int opt, const char *name)
{
    unsigned long long v = 0;
    sefl_status st = SEFL_OK;
    int rc = number(opt, name, &v);
    if (rc != CLI_DONE)
        return rc;
    switch (opt) {
    case O_CLIENTS:
        c->clients = (uint32_t)v;
        break;
    case O_BITS:
        if (!paillier_bits_ok((unsigned)v))
            return cli_misuse(&cmd_provision, "--bits is 2048, 3072 or 4096, not %llu", v);
        c->key_bits = (unsigned)v;
        break;
    case O_WORDS:
        c->words = v;
        break;
    case O_SEED:
        c->seed = v;
        break;
    case O_PORT:
        c->port_base = (uint16_t)v;
        break;
    case O_DATA:
        c->data = optarg;
        break;
    case O_VOCAB:
        c->vocab = optarg;
        break;
    case O_SCHEME:
        st =
            settings_set_pair(terms, span_of_str("crypto.scheme"), span_of_str(optarg), "--scheme");
        break;
    case O_SET:
        st = settings_set(terms, optarg, "--set");
        break;
    case O_SET_FILE:
        st = settings_set_file(terms, optarg);
        break;
    case O_JSON:
        *as_json = true;
        break;
    default:
        break;
    }
    return st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_provision, st);
}

/* ---- what was made, and what to do with it ----------------------------------------------------- */

static sefl_status say_json(const provision_config *c, const provision_report *r, const char *id)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "folder"), json_str(&j, c->folder);
    json_key(&j, "task"), json_str(&j, id);
    json_key(&j, "clients"), json_u64(&j, r->clients);
    json_key(&j, "vocabulary_words"), json_u64(&j, r->words);
    json_key(&j, "values"), json_u64(&j, r->values);
    json_key(&j, "update_bytes"), json_u64(&j, r->update_bytes);
    json_key(&j, "tokens_least"), json_u64(&j, r->tokens_least);
    json_key(&j, "tokens_most"), json_u64(&j, r->tokens_most);
    json_close(&j, '}');
    SEFL_TRY(print_json(&j));
done:
    buf_clear(&b);
    return st;
}

static void print_text(const provision_config *c, const provision_report *r, const char *id)
{
    const char *f = c->folder;
    bool fixed = c->port_base != 0;
    const char *zeros = r->clients < 100 ? "" : r->clients < 1000 ? "0" : "00";
    printf("%s: an aggregation server, a CSP and %" PRIu32 " clients\n", f, r->clients);
    printf("task      %s\n", id);
    printf("model     %zu values, %" PRIu32 " words; an update has %" PRIu64 " bytes\n", r->values,
           r->words, r->update_bytes);
    printf("text      %s, %" PRIu64 " to %" PRIu64 " tokens a client\n",
           c->data ? c->data : "generated", r->tokens_least, r->tokens_most);
    printf("\nWhat it promises to whom:\n"
           "  sefl task show %s/public/task.signed --explain\n"
           "Start it, each in a terminal of its own:\n"
           "  sefl csp --config %s/csp/csp.yml\n"
           "  sefl aggregator --config %s/aggregator/aggregator.yml%s%s%s\n"
           "  sefl client --config %s/clients/client-%s01/client.yml%s%s%s     # and so on\n",
           f, f, f, fixed ? "" : " --csp \"$(cat ", fixed ? "" : f, fixed ? "" : "/csp/ready)\"", f,
           zeros, fixed ? "" : " --server \"$(cat ", fixed ? "" : f,
           fixed ? "" : "/aggregator/ready)\"");
}

static void warn_trial(const char *folder)
{
    fprintf(stderr,
            "sefl: FOR TRIALS ONLY: the keys of all parties lie in %s. Whoever reads that folder\n"
            "      can read every update. In earnest each operator makes its own keys on its own "
            "machine.\n",
            folder);
}

static int run(int argc, char **argv)
{
    provision_config c = { .seed = 1, .port_base = 7000 };
    provision_report r;
    settings terms;
    bool as_json = false;
    int rc = CLI_DONE, index = 0;
    sefl_status st = SEFL_OK;

    settings_init(&terms, task_schema);
    opterr = 0;
    for (int o; rc == CLI_DONE && (o = getopt_long(argc, argv, ":", longopts, &index)) != -1;)
        rc = o == '?' || o == ':' ? cli_bad_option(&cmd_provision, argc, argv, o, longopts)
                                  : take(&c, &terms, &as_json, o, longopts[index].name);
    if (rc == CLI_DONE && optind == argc)
        rc = cli_misuse(&cmd_provision, "which folder?");
    if (rc == CLI_DONE && optind + 1 < argc)
        rc = cli_misuse(&cmd_provision, "one folder, not \"%.64s\" too", argv[optind + 1]);
    if (rc != CLI_DONE)
        goto done;
    c.folder = argv[optind];
    c.task = &terms;
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 }); /* no key in a core file */
    interrupt_catch();
    meter m;
    interrupt_progress stop;
    sefl_progress p = interrupt_with(&stop, meter_start(&m, "making keys, text and task"));
    st = provision_make(&r, &c, &p);
    meter_stop(&m);
    if (st != SEFL_OK) {
        rc = cli_failed(&cmd_provision, st);
        goto done;
    }
    char id[2 * PAILLIER_FINGERPRINT_BYTES + 1];
    hex_write(id, r.task, sizeof r.task);
    if (as_json)
        st = say_json(&c, &r, id);
    else
        print_text(&c, &r, id);
    rc = st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_provision, st);
    warn_trial(c.folder);
done:
    settings_clear(&terms);
    return rc;
}

const cli_command cmd_provision = {
    .name = "provision",
    .summary = "make a whole federation in one folder, for trials on one machine",
    .usage = "FOLDER [options]",
    .details = "Makes two certificate authorities, keys and configuration of an aggregation\n"
               "server, a CSP and clients, text, a vocabulary, an initial model and a task that\n"
               "both servers have signed. FOLDER must be empty or not there; when something\n"
               "fails nothing is left. All keys lie in one place: for trials and tests only.\n"
               "  --clients N       how many, 2 to 1000 (8)\n"
               "  --scheme S        pad (default) or paillier\n"
               "  --bits N          paillier: CSP's key, 2048, 3072 (default) or 4096\n"
               "  --words N         generated text: tokens a client (2000)\n"
               "  --data PATH       deal this text out instead (a folder with train.txt and\n"
               "                    valid.txt, or a file). The validation text becomes public,\n"
               "                    and its words the vocabulary\n"
               "  --vocab FILE      public word list\n"
               "  --seed N          of text, shares and initial values; public, no key depends\n"
               "                    on it (1)\n"
               "  --port-base P     AS listens on 127.0.0.1:P, CSP on P + 1 (7000); 0: the\n"
               "                    system chooses, see the files aggregator/ready and csp/ready\n"
               "  --set KEY=VALUE   any setting of the task, as in 'sefl task new'; without: a\n"
               "                    small LSTM, 5 rounds, too little noise for any claim (claim\n"
               "                    none)\n"
               "  --set-file FILE   settings, one KEY=VALUE a line\n"
               "  --json            one JSON object",
    .example = "sefl provision trial --clients 4 --set rounds.count=3",
    .run = run,
};
