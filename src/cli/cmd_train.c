/* sefl train: one machine, no federation: text in, a trained language model out. */
#include "cli/options.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/best.h"
#include "cli/interrupt.h"
#include "cli/meter.h"
#include "cli/print.h"
#include "model/corpus/corpus.h"
#include "model/file/model_file.h"
#include "model/lm_settings.h"
#include "model/train.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct session {
    settings set;
    const char *out;
    bool resume, json, quiet;

    /* settings */
    corpus_file file;
    const char *list; /* word list; NULL: the words of the training text */
    vocab_settings order;
    lm_config cfg;
    train_config how;
    uint64_t epochs, max_steps, checkpoint_steps;
    unsigned threads;

    bool terminal;
    bool interrupted; /* after a step, its checkpoint saved */
    vocab *words;
    corpus text[CORPUS_SPLITS];
    double best; /* perplexity of the source on the test text; 0: not known */
    pool *pool;
    lm *m;
    trainer *t;
    model_meta meta;
    double loss_sum; /* of this epoch, as far as this process saw it */
    size_t loss_words;
    uint64_t began_ns, epoch_ns, shown_ns;
    uint64_t steps_here; /* taken by this process */
    size_t words_here, words_epoch;
} session;

#define TO(member) SETTING_TO(session, member)

#define ROW_COUNT  SETTING_U64
#define ROW_BOOL   SETTING_BOOL
#define ROW(name, kind, member, value, least, most, choices, text) \
    {                                                              \
        name,         ROW_##kind,  value,        .words = choices, \
        .min = least, .max = most, .help = text, TO(member)        \
    },

/* The words of a task (protocol/task_fields.h) and of an experiment, where they have them too. */
static const setting_def schema[] = {
    { "data.path", SETTING_PATH, NULL, TO(file.path), .arg = "PATH",
      .help = "folder with train, valid and test text (.txt, .jsonl, .csv), or a file" },
    { "data.format", SETTING_CHOICE, "guess", TO(file.format), .words = "guess text jsonl csv",
      .help = "format of the text; guess: by the file's ending" },
    { "data.field", SETTING_TEXT, "text", TO(file.field), .arg = "NAME",
      .help = "the member of JSONL, or column of CSV, that holds the text" },
    { "data.vocab", SETTING_PATH, "", TO(list),
      .help = "word list; empty: the words of the training text" },
    { "data.vocab_words", SETTING_U64, "0", TO(order.max_words), .max = VOCAB_WORDS_MAX,
      .was = "data.max_words", .help = "most words; 0: all" },
    { "vocab.order", SETTING_CHOICE, "interleaved", TO(order.order), .was = "data.order",
      .words = "interleaved appearance frequency", .help = "order of the words" },
    { "model.body", SETTING_WORD, "lstm", TO(cfg.body), .words = MODEL_BODIES, .was = "model.kind",
      .help = MODEL_BODY_HELP },
    /* clang-format off */
    MODEL_SETTINGS(ROW, cfg)
    /* clang-format on */
    { "model.batch", SETTING_U64, "20", TO(cfg.batch), .min = 1, .max = 65536, .was = "train.batch",
      .help = "columns of text in a batch" },
    { "model.steps", SETTING_U64, "35", TO(cfg.steps), .min = 1, .max = 65536, .was = "train.bptt",
      .help = "words in a row of a batch" },
    { "training.epochs", SETTING_U64, "5", TO(epochs), .min = 1, .max = 1000000,
      .was = "train.epochs", .help = "passes over the text" },
    { "training.max_steps", SETTING_U64, "0", TO(max_steps), .was = "train.max_steps",
      .help = "stop after this many batches; --resume continues; 0: no limit" },
    { "training.lr", SETTING_REAL, "0", TO(how.lr), .was = "train.lr", .arg = "RATE",
      .help = "learning rate; 0: 20 (lstm) or 5 (transformer), with adam 0.001" },
    { "training.lr_decay", SETTING_REAL, "0.9", TO(how.lr_decay), .max = 1, .was = "train.lr_decay",
      .help = "factor of the learning rate after each epoch" },
    { "training.gradient_clip", SETTING_REAL, "0.25", TO(how.clip), .was = "train.clip",
      .help = "largest L2 norm of a batch's gradient; 0: no limit" },
    { "training.dropout", SETTING_REAL, "0.2", TO(how.dropout), .max = 1, .was = "train.dropout",
      .help = "share of values that a training step leaves out" },
    { "training.optimiser", SETTING_CHOICE, "sgd", TO(how.optim.kind), .was = "train.optimiser",
      .words = "sgd momentum adam", .help = "how a step follows the gradient" },
    { "training.checkpoint_steps", SETTING_U64, "0", TO(checkpoint_steps),
      .was = "train.checkpoint_steps", .help = "batches between checkpoints; 0: after each epoch" },
    { "seed", SETTING_U64, "1", TO(how.seed), .was = "train.seed",
      .help = "seed of the initial values and of dropout" },
    { "threads", SETTING_U64, "0", TO(threads), .max = 256, .was = "train.threads",
      .help = "0: one per core; the result does not depend on it" },
    { 0 },
};

static uint64_t now_ns(void)
{
    sefl_clock c = clock_monotonic();
    return clock_ns(&c);
}

static void path_in(char out[4096], const char *dir, const char *name)
{
    snprintf(out, 4096, "%s/%s", dir, name);
}

/* ---- text ------------------------------------------------------------------------------------ */

static sefl_status read_text(session *s)
{
    sefl_status st = SEFL_OK;
    corpus_paths paths = { 0 };
    corpus_file file = s->file;
    meter m;
    interrupt_progress stop;
    sefl_progress p = interrupt_with(&stop, meter_start(&m, "reading text"));
    s->order.block = s->cfg.block;
    SEFL_TRY(corpus_paths_find(&paths, s->file.path));
    file.path = paths.path[CORPUS_TRAIN];
    if (s->list) {
        SEFL_TRY(vocab_read(&s->words, s->list, &s->order));
    } else {
        SEFL_TRY(vocab_new(&s->words));
        SEFL_TRY(corpus_count(s->words, &file, &p));
        SEFL_TRY(vocab_finish(s->words, &s->order));
    }
    for (size_t i = 0; i < CORPUS_SPLITS; i++)
        if (paths.path[i]) {
            file.path = paths.path[i];
            SEFL_TRY(corpus_read(&s->text[i], s->words, &file, &p));
        }
    s->best = best_perplexity(s->file.path, "test");
done:
    meter_stop(&m);
    corpus_paths_clear(&paths);
    return st;
}

/* ---- model ----------------------------------------------------------------------------------- */

static sefl_status build(session *s)
{
    const corpus *text = &s->text[CORPUS_TRAIN];
    train_config *how = &s->how;
    s->cfg.vocab = vocab_size(s->words);
    if (how->lr == 0) /* the rates of PyTorch's examples */
        how->lr = how->optim.kind == OPTIM_ADAM ? 0.001 : strcmp(s->cfg.body, "lstm") == 0 ? 20 : 5;
    SEFL_PASS(pool_new(&s->pool, s->threads));
    SEFL_PASS(lm_new(&s->m, &s->cfg, s->pool));
    lm_init(s->m, how->seed);
    SEFL_PASS(trainer_new(&s->t, s->m, s->pool, how, text->token, text->tokens));
    s->meta = (model_meta){ .cfg = *lm_get_config(s->m) };
    model_meta_set_vocab(&s->meta, s->words);
    return SEFL_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool regular(const char *path)
{
    struct stat sb;
    return lstat(path, &sb) == 0 && S_ISREG(sb.st_mode);
}

static sefl_status open_out(session *s)
{
    sefl_status st = SEFL_OK;
    char path[4096];
    vocab *old = NULL;
    sefl_buf b = { 0 };
    SEFL_CHECK(s->out || !s->resume, SEFL_EINVAL, "--resume needs --out, where the checkpoint is");
    if (!s->out)
        goto done;
    SEFL_CHECK(strlen(s->out) < 4000, SEFL_EINVAL, "--out: a path of at most 4000 bytes");
    SEFL_CHECK(mkdir(s->out, 0777) == 0 || errno == EEXIST, SEFL_EIO, "cannot make %s: %s", s->out,
               strerror(errno));
    path_in(path, s->out, "checkpoint");
    if (s->resume) {
        SEFL_TRY(file_read(&b, path, SIZE_MAX / 4));
    } else {
        SEFL_CHECK(!file_exists(path), SEFL_EEXIST,
                   "%s holds a checkpoint: --resume continues it, or choose another folder",
                   s->out);
        path_in(path, s->out, "model.safetensors");
        SEFL_CHECK(!file_exists(path), SEFL_EEXIST, "%s exists: choose another folder for --out",
                   path);
    }
    path_in(path, s->out, "vocab.txt");
    if (s->resume || regular(path)) { /* never replaces a list of other words */
        uint8_t a[SHA256_BYTES], h[SHA256_BYTES];
        SEFL_TRY(vocab_read(&old, path, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
        vocab_hash(old, a);
        vocab_hash(s->words, h);
        SEFL_CHECK(memcmp(a, h, sizeof a) == 0 || s->resume, SEFL_EEXIST,
                   "%s exists, with other words: choose another folder for --out", path);
        SEFL_CHECK(memcmp(a, h, sizeof a) == 0, SEFL_EINVAL,
                   "the text has other words than those in %s: the data or its settings changed",
                   path);
    }
    if (s->resume)
        SEFL_TRY(trainer_load(s->t, buf_span(&b)));
    SEFL_TRY(vocab_write(s->words, path, false));
done:
    buf_clear(&b);
    vocab_free(old);
    return st;
}

static sefl_status save_checkpoint(session *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char path[4096];
    if (!s->out)
        goto done;
    path_in(path, s->out, "checkpoint");
    SEFL_TRY(trainer_save(s->t, &b));
    SEFL_TRY(file_write_atomic(path, buf_span(&b), 0666));
done:
    buf_clear(&b);
    return st;
}

static sefl_status save_model(session *s)
{
    char path[4096];
    if (!s->out)
        return SEFL_OK;
    path_in(path, s->out, "model.safetensors");
    return model_write(path, &s->meta, lm_theta(s->m));
}

/* ---- output ---------------------------------------------------------------------------------- */

static void print_time(char out[32], double s)
{
    unsigned long t = (unsigned long)(s + 0.5);
    if (t >= 3600)
        snprintf(out, 32, "%lu:%02lu:%02lu", t / 3600, t / 60 % 60, t % 60);
    else
        snprintf(out, 32, "%lu:%02lu", t / 60, t % 60);
}

static double rate(size_t words, uint64_t since_ns)
{
    double s = 1e-9 * (double)(now_ns() - since_ns);
    return s > 0 ? (double)words / s : 0;
}

static void show_progress(session *s, const train_info *info)
{
    uint64_t now = now_ns();
    if (!s->terminal || s->quiet || now - s->shown_ns < 250000000u)
        return;
    s->shown_ns = now;
    uint64_t per = trainer_steps_per_epoch(s->t), all = per * s->epochs;
    double left = (double)(all - trainer_steps(s->t)) * 1e-9 * (double)(now - s->began_ns) /
                  (double)s->steps_here;
    double mean = s->loss_words ? s->loss_sum / (double)s->loss_words : info->loss;
    char time[32];
    print_time(time, left);
    meter_line("epoch %llu/%llu  step %llu/%llu  loss %.3f  ppl %.1f  %.0f words/s  %s left",
               (unsigned long long)trainer_epochs(s->t) + 1, (unsigned long long)s->epochs,
               (unsigned long long)(trainer_steps(s->t) % per), (unsigned long long)per, mean,
               exp(mean), rate(s->words_here, s->began_ns), time);
}

static sefl_status evaluate(session *s, size_t split, double *mean)
{
    const corpus *c = &s->text[split];
    *mean = NAN;
    if (c->tokens < 2 * LM_EVAL_BATCH)
        return SEFL_OK;
    return lm_evaluate(s->m, c->token, c->tokens, mean, NULL);
}

static sefl_status end_of_epoch(session *s, const train_info *info)
{
    sefl_status st = SEFL_OK;
    double valid, train = s->loss_words ? s->loss_sum / (double)s->loss_words : NAN;
    double speed = rate(s->words_epoch, s->epoch_ns);
    char time[32];
    sefl_buf b = { 0 };
    print_time(time, 1e-9 * (double)(now_ns() - s->epoch_ns));
    if (s->terminal)
        meter_line("%s", "");
    SEFL_TRY(evaluate(s, CORPUS_VALID, &valid));
    if (s->json) {
        json j = json_into(&b);
        json_open(&j, '{');
        json_key(&j, "epoch"), json_u64(&j, trainer_epochs(s->t));
        json_key(&j, "steps"), json_u64(&j, trainer_steps(s->t));
        json_key(&j, "train_loss"), json_real(&j, train);
        json_key(&j, "valid_loss"), json_real(&j, valid);
        json_key(&j, "valid_perplexity"), json_real(&j, exp(valid));
        json_key(&j, "lr"), json_real(&j, info->lr);
        json_key(&j, "words_per_second"), json_real(&j, speed);
        json_close(&j, '}');
        SEFL_TRY(print_json(&j));
    } else {
        printf("epoch %llu/%llu  loss %.3f  train ppl %.2f",
               (unsigned long long)trainer_epochs(s->t), (unsigned long long)s->epochs, train,
               exp(train));
        if (!isnan(valid))
            printf("  valid ppl %.2f", exp(valid));
        printf("  lr %g  %.0f words/s  %s\n", info->lr, speed, time);
    }
    fflush(stdout);
    s->loss_sum = 0, s->loss_words = 0, s->words_epoch = 0;
    s->epoch_ns = now_ns();
    SEFL_TRY(save_checkpoint(s));
    SEFL_TRY(save_model(s));
done:
    buf_clear(&b);
    return st;
}

static void print_start(const session *s)
{
    const lm_config *c = lm_get_config(s->m);
    if (s->quiet)
        return;
    fprintf(stderr,
            "sefl train: %s, %u words, embed %u, hidden %u, layers %u, block %u: %zu values  "
            "(%u thread%s, seed %llu)\n",
            c->body, c->vocab, c->embed, c->hidden, c->layers, c->block, lm_count(s->m),
            pool_threads(s->pool), pool_threads(s->pool) == 1 ? "" : "s",
            (unsigned long long)s->how.seed);
    fprintf(stderr,
            "text: %zu words to train on, %zu to validate, %zu to test; %.0f MB of memory\n",
            s->text[CORPUS_TRAIN].tokens, s->text[CORPUS_VALID].tokens, s->text[CORPUS_TEST].tokens,
            (double)lm_memory(s->m) / 1e6);
    if (s->resume)
        fprintf(stderr, "resumed after step %llu\n", (unsigned long long)trainer_steps(s->t));
}

static sefl_status print_end(session *s)
{
    sefl_status st = SEFL_OK;
    double test;
    size_t unknown = s->text[CORPUS_TEST].unknown;
    sefl_buf b = { 0 };
    SEFL_TRY(evaluate(s, CORPUS_TEST, &test));
    if (s->json) {
        json j = json_into(&b);
        json_open(&j, '{');
        json_key(&j, "test_loss"), json_real(&j, test);
        json_key(&j, "test_perplexity"), json_real(&j, exp(test));
        json_key(&j, "test_unknown"), json_u64(&j, unknown);
        if (s->best > 0 && unknown == 0)
            json_key(&j, "best_possible_perplexity"), json_real(&j, s->best);
        json_close(&j, '}');
        SEFL_TRY(print_json(&j));
        goto done;
    }
    if (!isnan(test))
        printf("test ppl %.2f", exp(test));
    if (!isnan(test) && s->best > 0 && unknown > 0)
        printf("  best possible: not comparable: %.3g %% unknown words",
               100.0 * (double)unknown / (double)s->text[CORPUS_TEST].tokens);
    else if (!isnan(test) && s->best > 0)
        printf("  best possible %.2f (%.1f %% above it)", s->best, 100 * (exp(test) / s->best - 1));
    if (!isnan(test))
        printf("\n");
    if (s->out)
        printf("saved %s/model.safetensors, %s/vocab.txt\n", s->out, s->out);
done:
    buf_clear(&b);
    return st;
}

/* ---- the run --------------------------------------------------------------------------------- */

static sefl_status train(session *s)
{
    sefl_status st = SEFL_OK;
    const uint64_t limit = s->max_steps, every = s->checkpoint_steps;
    SEFL_TRY(read_text(s));
    SEFL_TRY(build(s));
    SEFL_TRY(open_out(s));
    print_start(s);
    s->began_ns = s->epoch_ns = now_ns();
    while (trainer_epochs(s->t) < s->epochs) {
        train_info info;
        if (interrupt_seen() || (limit > 0 && trainer_steps(s->t) >= limit))
            break;
        SEFL_TRY(trainer_step(s->t, &info));
        s->loss_sum += info.loss * (double)info.words;
        s->loss_words += info.words;
        s->words_here += info.words, s->words_epoch += info.words;
        s->steps_here++;
        if (info.epoch_ended)
            SEFL_TRY(end_of_epoch(s, &info));
        else if (every > 0 && trainer_steps(s->t) % every == 0)
            SEFL_TRY(save_checkpoint(s));
        show_progress(s, &info);
    }
    if (s->terminal && !s->quiet)
        meter_line("%s", "");
    if (trainer_epochs(s->t) < s->epochs) {
        SEFL_TRY(save_checkpoint(s));
        s->interrupted = interrupt_seen();
        SEFL_CHECK(!s->interrupted, SEFL_ECANCELLED,
                   "stopped by a signal after step %llu of %llu%s",
                   (unsigned long long)trainer_steps(s->t),
                   (unsigned long long)(trainer_steps_per_epoch(s->t) * s->epochs),
                   s->out ? "" : "; nothing is saved without --out");
        SEFL_TRY(save_model(s));
        if (!s->quiet)
            fprintf(stderr, "stopped after step %llu of %llu%s\n",
                    (unsigned long long)trainer_steps(s->t),
                    (unsigned long long)(trainer_steps_per_epoch(s->t) * s->epochs),
                    s->out ? "; --resume continues" : "");
    }
    SEFL_TRY(print_end(s));
done:
    if (st != SEFL_OK && s->terminal)
        meter_line("%s", "");
    return st;
}

/* Quotes what a shell would read in another way. */
static void print_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-_=./,:+@%";
    if (*word && word[strspn(word, plain)] == 0) {
        fputs(word, stderr);
        return;
    }
    fputc('\'', stderr);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (char[]){ *word, 0 }, stderr);
    fputc('\'', stderr);
}

/* The command line that continues the run, ready to paste. */
static void print_resume(const session *s)
{
    fprintf(stderr, "continue with: sefl train --resume --out ");
    print_word(s->out);
    for (size_t i = 0; i < s->set.count; i++)
        if (s->set.value[i]) {
            fprintf(stderr, " --set %s=", schema[i].key);
            print_word(s->set.value[i]);
        }
    fprintf(stderr, "%s%s\n", s->json ? " --json" : "", s->quiet ? " --quiet" : "");
}

static int run(void *options)
{
    session *s = options;
    int rc = CLI_DONE;
    if (!settings_given(&s->set, "data.path"))
        return cli_misuse(&cmd_train, "--data names the text to train on");
    s->terminal = meter_terminal();
    sefl_status st = settings_fill(&s->set, s);
    if (st == SEFL_OK)
        st = train(s);
    if (st != SEFL_OK)
        rc = cli_failed(&cmd_train, st);
    if (s->interrupted && s->out)
        print_resume(s);
    trainer_free(s->t);
    lm_free(s->m);
    pool_free(s->pool);
    for (size_t i = 0; i < CORPUS_SPLITS; i++)
        corpus_clear(&s->text[i]);
    vocab_free(s->words);
    return rc;
}

static const setting_def options[] = {
    { "out", SETTING_PATH, "", TO(out), .arg = "DIR",
      .help = "Write model.safetensors, vocab.txt and a checkpoint to DIR" },
    { "resume", SETTING_FLAG, TO(resume),
      .help = "Continue from the checkpoint in --out, to the same bytes; Ctrl-C writes one after "
              "the current step" },
    { "json", SETTING_FLAG, TO(json), .help = "Print one JSON object per epoch" },
    { "quiet", SETTING_FLAG, TO(quiet), .help = "Print nothing on standard error" },
    OPTION_SET,
    { 0 },
};

const cli_command cmd_train = {
    .name = "train",
    .summary = "train a language model on this machine alone, without a federation",
    .example = "sefl data synth --out demo-text && sefl train --data demo-text --epochs 3",
    CLI_OPTIONS(session),
    .schema = schema,
    CLI_SETTINGS(session, set),
    .shortcuts = (const cli_shortcut[]){ { "data", "data.path" },
                                         { "model", "model.body" },
                                         { "block", "model.block" },
                                         { "epochs", "training.epochs" },
                                         { "max-steps", "training.max_steps" },
                                         { "lr", "training.lr" },
                                         { "seed", "seed" },
                                         { "threads", "threads" },
                                         { "vocab", "data.vocab" },
                                         { 0 } },
    .list_settings = true,
    .interruptible = true,
    CLI_RUN(run, NULL, NULL, 0),
};
