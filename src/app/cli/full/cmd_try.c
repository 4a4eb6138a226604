/* sefl try: a whole secure federation over the caller's own raw text, on this machine.
 *
 *     out/text/{train,valid}.jsonl    the text as documents (operator/raw_text.h)
 *     out/model.safetensors           the last model; model-pytorch.safetensors: the same, dense
 *     out/vocab.txt                   its vocabulary, made from the held-out text alone
 *     out/sample.txt                  text that the model wrote
 *     out/task.settings               the task's settings, for `sefl provision --set-file`
 *
 * fed_run.h lists the other files. */
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/clock.h"
#include "base/outfile.h"
#include "cli/full/fed_run.h"
#include "cli/options.h"
#include "cli/print.h"
#include "model/corpus/corpus.h"
#include "model/file/model_file.h"
#include "operator/provision.h"
#include "operator/raw_text.h"
#include "privacy/accountant/accountant.h"
#include "protocol/task_make.h"
#include "protocol/task_profile.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CLIENTS_MAX = 64,
    /* a text of this many bytes or more is not read in full in each round: a round trains on this
     * many batches, of all clients together, and takes some seconds */
    LONG_TEXT = 1200000,
    ROUND_BATCHES = 2000,
};

typedef struct wish {
    const char *from, *out, *field;
    uint32_t clients, rounds;
    settings task; /* the caller's */
    bool json;
} wish;

typedef struct trial {
    const wish *w;
    fed_run run;
    char fresh[PATH_MAX]; /* the text, before the output folder is touched */
    raw_text_report text;
    double unknown;         /* share of the training words that the held-out text lacks */
    double tokens_per_word; /* of the training text */
    settings terms;
    provision_report made;
    task t;
    const run_line *last; /* the last released round */
} trial;

/* Files beside those of fed_run.h. */
static const char *const files[] = {
    "text",          "vocab.txt", "model.safetensors", "model-pytorch.safetensors", "sample.txt",
    "task.settings", NULL
};

static const char *in(trial *t, const char *name)
{
    return dir_in(&t->run.at, "%s", name);
}

/* ---- text ------------------------------------------------------------------------------------ */

static sefl_status read_train(corpus *out, trial *t, const vocab *v)
{
    return corpus_read(out, v, &(corpus_file){ .path = in(t, "text/train.jsonl") }, NULL);
}

/* Compares the words of the training text with those of the held-out text. */
static sefl_status count_unknown(trial *t)
{
    sefl_status st = SEFL_OK;
    vocab *v = NULL;
    corpus train = { 0 };
    SEFL_TRY(vocab_new(&v, VOCAB_WORDS));
    SEFL_TRY(corpus_count(v, &(corpus_file){ .path = in(t, "text/valid.jsonl") }, NULL));
    SEFL_TRY(vocab_finish(v, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    SEFL_TRY(read_train(&train, t, v));
    t->unknown = (double)train.unknown / fmax(1, (double)(train.tokens - train.lines));
done:
    corpus_clear(&train);
    vocab_free(v);
    return st;
}

/* A trial replaces what an earlier one left in its folder, so the text must be elsewhere. */
static sefl_status check_input(const char *from, const char *to)
{
    char text[PATH_MAX], out[PATH_MAX];
    SEFL_NEED(realpath(from, text), errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO,
              "cannot read %s: %s", from, strerror(errno));
    if (!realpath(to, out))
        return SEFL_OK; /* a new folder */
    size_t n = strlen(out);
    SEFL_NEED(strncmp(text, out, n) != 0 || (text[n] && text[n] != '/' && out[n - 1] != '/'),
              SEFL_EINVAL, "the text %s is in the output folder %s: choose another with --out",
              from, to);
    return SEFL_OK;
}

/* Gathers the text elsewhere first, so that wrong text leaves an earlier trial alone. */
static sefl_status gather(trial *t, const char *to)
{
    const wish *w = t->w;
    meter line = { 0 };
    SEFL_PASS(file_temp_folder(t->fresh, sizeof t->fresh, "sefl-try"));
    sefl_progress p = meter_start(&line, "reading");
    sefl_status st = raw_text_gather(&t->text, t->fresh, w->from,
                                     &(raw_text_settings){ .field = w->field, .skip = to }, &p);
    meter_stop(&line);
    SEFL_PASS(st);
    const uint64_t train = t->text.documents - t->text.held_out;
    SEFL_NEED(train >= w->clients, SEFL_EINVAL,
              "%s has %" PRIu64 " documents to train on, too few for %" PRIu32
              " clients: give more text, or fewer clients with --clients",
              w->from, train, w->clients);
    return SEFL_OK;
}

static sefl_status copy_text(trial *t, const char *name)
{
    char path[PATH_MAX];
    SEFL_PASS(file_path(path, "%s/%s", t->fresh, name));
    return outfile_copy(dir_in(&t->run.at, "text/%s", name), path, 0600, NULL);
}

static sefl_status make_text(trial *t)
{
    const uint64_t n = t->text.files;
    SEFL_PASS(file_make_folder(in(t, "text"), 0700));
    SEFL_PASS(copy_text(t, "train.jsonl"));
    SEFL_PASS(copy_text(t, "valid.jsonl"));
    SEFL_PASS(count_unknown(t));
    fed_run_talk(&t->run,
                 "text      %" PRIu64 " file%s, %s: %" PRIu64 " documents for %" PRIu32
                 " clients, %" PRIu64 " held out as public text\n",
                 n, n == 1 ? "" : "s", human_bytes((double)t->text.bytes).text,
                 t->text.documents - t->text.held_out, t->w->clients, t->text.held_out);
    if (t->text.skipped)
        fed_run_talk(&t->run, "          %" PRIu64 " file%s skipped: hidden, links, or not text\n",
                     t->text.skipped, t->text.skipped == 1 ? "" : "s");
    return SEFL_OK;
}

/* ---- the federation -------------------------------------------------------------------------- */

static sefl_status choose_settings(trial *t)
{
    settings_init(&t->terms, task_schema);
    SEFL_PASS(settings_setf(&t->terms, "try", "rounds.count=%" PRIu32, t->w->rounds));
    SEFL_PASS(settings_overlay(&t->terms, &t->w->task));
    if (!settings_given(&t->terms, "training.epochs") &&
        !settings_given(&t->terms, "training.steps") && t->text.bytes >= LONG_TEXT)
        SEFL_PASS(settings_setf(&t->terms, "try", "training.steps=%d",
                                ROUND_BATCHES / (int)t->w->clients + 1));
    return task_profile_fill(&t->terms, TASK_OF_TRY);
}

/* Chooses the settings, and writes them for a federation on several machines. */
static sefl_status make_settings(trial *t)
{
    sefl_status st = SEFL_OK;
    sefl_buf lines = { 0 };
    SEFL_TRY(choose_settings(t));
    for (const setting_def *d = task_schema; d->key; d++)
        if (settings_given(&t->terms, d->key))
            SEFL_TRY(wr_fmt(&lines, "%s=%s\n", d->key, settings_text(&t->terms, d->key)));
    SEFL_TRY(file_write_atomic(in(t, "task.settings"), buf_span(&lines), 0644));
done:
    buf_clear(&lines);
    return st;
}

/* Reads what provision_make made: the task, and the vocabulary with the training text. */
static sefl_status read_made(trial *t)
{
    sefl_status st = SEFL_OK;
    sefl_buf document = { 0 };
    vocab *v = NULL;
    corpus train = { 0 };
    SEFL_TRY(file_read(&document, in(t, "federation/public/task.json"), TASK_BYTES_MAX));
    SEFL_TRY(task_read(&t->t, buf_span(&document)));
    SEFL_TRY(vocab_read(&v, in(t, "federation/public/vocab.txt"),
                        &(vocab_settings){ .order = VOCAB_APPEARANCE, .kind = t->t.kind }));
    SEFL_TRY(vocab_write(v, in(t, "vocab.txt"), false));
    SEFL_TRY(read_train(&train, t, v));
    t->tokens_per_word = (double)train.tokens / (double)train.words;
done:
    corpus_clear(&train);
    vocab_free(v);
    buf_clear(&document);
    return st;
}

static void tell_made(trial *t)
{
    fed_run_talk(&t->run, "words     %.1f %% of the training words are not in the public text",
                 100 * t->unknown);
    if (t->t.kind == VOCAB_BPE)
        fed_run_talk(
            &t->run,
            ";\n          %" PRIu32
            " sub-word tokens, made from the public text, spell every word: %.2f per word\n",
            t->made.words, t->tokens_per_word);
    else
        fed_run_talk(&t->run, " and become <unk>\n");
    fed_run_talk(&t->run,
                 "model     %s, block-Hankel l = %" PRIu32
                 ", %zu values; keys and task signed by both servers\n",
                 t->t.model.body, t->t.model.block, t->made.values);
}

static sefl_status make_federation(trial *t)
{
    SEFL_PASS(make_settings(t));
    sefl_progress p = meter_start(&t->run.line, "creating keys and task");
    sefl_status st = provision_make(&t->made,
                                    &(provision_config){ .folder = in(t, "federation"),
                                                         .clients = t->w->clients,
                                                         .data = in(t, "text"),
                                                         .seed = 1,
                                                         .task = &t->terms },
                                    &p);
    meter_stop(&t->run.line);
    SEFL_PASS(st);
    SEFL_PASS(read_made(t));
    t->run.clients = t->w->clients;
    t->run.rounds = (uint32_t)t->t.rounds;
    t->run.deadline_ms = t->t.deadline_ms;
    tell_made(t);
    return SEFL_OK;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Copies the last released model, also in PyTorch's form, and lets it write a text. */
static sefl_status keep_model(trial *t)
{
    sefl_status st = SEFL_OK;
    model_meta meta = { 0 };
    nn_real *theta = NULL;
    size_t count = 0;
    for (size_t i = 0; i < t->run.log.n; i++)
        if (!t->run.log.at[i].skipped && !t->run.log.at[i].blocked)
            t->last = &t->run.log.at[i];
    SEFL_CHECK(t->last, SEFL_ESTATE, "no round was released: see %s", in(t, "log"));
    SEFL_TRY(
        model_read(&meta, &theta, &count,
                   dir_in(&t->run.at, "federation/aggregator/models/round-%" PRIu64 ".safetensors",
                          t->last->round)));
    SEFL_TRY(model_write(in(t, "model.safetensors"), &meta, theta));
    SEFL_TRY(model_export(in(t, "model-pytorch.safetensors"), &meta, theta));
done:
    sefl_free(theta);
    return st;
}

static sefl_status say_json(trial *t)
{
    return print_fields(
        lf_str("folder", t->run.at.root), lf_u64("files", t->text.files),
        lf_u64("skipped", t->text.skipped), lf_u64("documents", t->text.documents),
        lf_u64("held_out", t->text.held_out), lf_u64("clients", t->run.clients),
        lf_real("unknown_words", t->unknown), lf_real("tokens_per_word", t->tokens_per_word),
        lf_u64("rounds", t->run.log.n), lf_real("perplexity", t->last->perplexity),
        lf_real("word_perplexity", t->last->word_perplexity),
        lf_str("model", in(t, "model.safetensors")),
        lf_str("pytorch", in(t, "model-pytorch.safetensors")),
        lf_str("vocabulary", in(t, "vocab.txt")), lf_str("report", in(t, "report.html")),
        lf_real("seconds", clock_since(t->run.began_ns)));
}

/* Prints the text; a model may write control bytes. */
static void tell_sample(const char *text)
{
    printf("\nthe model writes\n  ");
    for (const char *p = text; *p; p++)
        printf(*p == '\n' ? "\n  " : "%c", (unsigned char)*p < 32 || *p == 127 ? '?' : *p);
    printf("\n");
}

static void tell_result(trial *t)
{
    const char *o = t->run.at.root, *me = program_invocation_name;
    if (!isnan(t->last->word_perplexity))
        printf("\nperplexity on the public text: %.1f per token, %.1f per word\n",
               t->last->perplexity, t->last->word_perplexity);
    if (t->run.sample)
        tell_sample(t->run.sample);
    if (isnan(t->last->epsilon_server))
        printf("\nprivacy   none claimed: %" PRIu32
               " clients are too few for noise that hides one of them\n",
               t->run.clients);
    else
        printf("\nprivacy   epsilon %.4g at delta %g, against a server, for a %s\n",
               dp_four_digits(t->last->epsilon_server, true), t->t.delta,
               t->t.unit == TASK_UNIT_RECORD ? "record, not for a client" : "client");
    printf("          For trials only: %s/federation holds the keys of all parties.\n"
           "model     %s/model.safetensors, vocabulary %s/vocab.txt\n"
           "pytorch   %s/model-pytorch.safetensors (docs/LIBRARY.md)\n"
           "report    %s/report.html\n"
           "time      %.0f s\n",
           o, o, o, o, o, clock_since(t->run.began_ns));
    printf("\nnext\n"
           "  %s model generate %s/model.safetensors --vocab %s/vocab.txt --prompt \"...\"\n"
           "  # the same on several machines: one kit for each\n"
           "  %s provision trial --hosts as.example,csp.example --clients %" PRIu32
           " --data %s/text \\\n"
           "      --set-file %s/task.settings\n",
           me, o, o, me, t->run.clients, o, o);
}

static sefl_status run_trial(trial *t)
{
    const wish *w = t->w;
    const char *to = w->out ? w->out : "runs/try";
    SEFL_PASS(check_input(w->from, to));
    SEFL_PASS(gather(t, to));
    SEFL_PASS(fed_run_open(
        &t->run, &(fed_run_config){ .out = to, .kind = "try", .files = files, .quiet = w->json }));
    fed_run_talk(&t->run, "sefl try: a federation over %s on this machine, in %s\n", w->from,
                 t->run.at.root);
    SEFL_PASS(make_text(t));
    SEFL_PASS(make_federation(t));
    SEFL_PASS(fed_run_start(&t->run));
    SEFL_PASS(fed_run_watch(&t->run));
    SEFL_PASS(fed_run_end(&t->run));
    SEFL_PASS(keep_model(t));
    SEFL_PASS(fed_run_report(&t->run, &(fed_run_baselines){ NAN, NAN, NAN }));
    if (t->run.sample)
        SEFL_PASS(file_write_atomic(in(t, "sample.txt"), span_of_str(t->run.sample), 0600));
    if (w->json)
        return say_json(t);
    tell_result(t);
    return SEFL_OK;
}

static sefl_status work(void *options)
{
    trial *t = NULL;
    SEFL_PASS(sefl_new(&t, 1, sizeof *t));
    t->w = options;
    t->run.lock = -1;
    sefl_status st = run_trial(t);
    fed_run_close(&t->run);
    if (*t->fresh)
        dir_remove(t->fresh);
    task_clear(&t->t);
    settings_clear(&t->terms);
    sefl_free(t);
    return st;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "clients", SETTING_U64, "4", TO(clients), .min = 2, .max = CLIENTS_MAX,
      .help = "Number of clients among which the text is split" },
    { "rounds", SETTING_U64, "10", TO(rounds), .min = 1, .max = 1000000,
      .help = "Number of rounds" },
    { "out", SETTING_PATH, "", .arg = "DIR", TO(out),
      .help = "Output folder: new, empty or from an earlier trial; default runs/try" },
    { "field", SETTING_TEXT, "text", TO(field), .arg = "NAME",
      .help = "JSON member or CSV column that contains the text" },
    OPTION_SET,
    OPTION_JSON(wish),
    { 0 },
};

const cli_command cmd_try = {
    .name = "try",
    .about =
        "Reads a file or a folder of raw text (UTF-8, JSONL or CSV, also compressed with gzip), "
        "holds out a tenth of it as public text, makes a sub-word vocabulary from that tenth, "
        "splits the rest among clients, and runs a whole secure federation of separate processes. "
        "It leaves the model in its own form and in PyTorch's, a report, and a sample of text that "
        "the model wrote. --set changes settings of the task as in 'sefl task new'. For trials "
        "only: one folder holds all keys.",
    .example = "sefl synth --out text --tokens 20000\n"
               "  sefl try text/train.txt --rounds 2",
    CLI_OPTIONS(wish),
    .schema = task_schema,
    CLI_SETTINGS(wish, task),
    CLI_WORK(work, "PATH", "a file or folder of text", offsetof(wish, from)),
    .interruptible = true,
    .handles_keys = true,
};
