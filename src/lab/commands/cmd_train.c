#include "cli/options.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "cli/best.h"
#include "cli/interrupt.h"
#include "cli/meter.h"
#include "cli/print.h"
#include "model/corpus/corpus.h"
#include "model/engine/engine.h"
#include "model/lm_settings.h"
#include "model/model_open.h"
#include "model/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct session {
    settings set;
    const char *out;
    bool resume, json, quiet;

    /* settings */
    corpus_file file;
    const char *list; /* word list; NULL: all words of the training text */
    vocab_settings order;
    lm_config cfg;
    struct {
        optim_config optim;
        double lr, gradient_clip, dropout;
        unsigned schedule;
    } how;
    train_steps steps;
    const char *device, *precision;
    uint64_t seed, epochs, max_steps, checkpoint_steps;
    unsigned threads;

    dir_tree at;      /* --out */
    meter line;       /* the progress line */
    bool interrupted; /* by a signal; the checkpoint is saved */
    vocab *words;
    corpus text[CORPUS_SPLITS];
    double best; /* perplexity of the source on the test text; 0: not known */
    pool *pool;
    engine *e;
    engine_cursor at_step;
    float *theta; /* initial values, later a copy for the model file */
    model_meta meta;
    /* counted by this process, in total and in this epoch; per_epoch: steps in an epoch */
    uint64_t began_ns, epoch_ns, steps_here, per_epoch;
    size_t words_here, words_epoch;
    double loss_sum; /* over words_epoch */
} session;

#define TO(member) SETTING_TO(session, member)

/* Tasks and experiments share most settings (model/lm_settings.h). */
static const setting_def schema[] = {
    /* clang-format off */
    RUN_SEED(SETTING_ROW)
    ENGINE_SETTINGS(SETTING_ROW)
    DATA_SETTINGS(SETTING_ROW, file.path, NULL, list, order.max_words)
    TEXT_FORMAT(SETTING_ROW, "data.", file.format, file.field)
    VOCAB_KIND(SETTING_ROW, order.kind)
    VOCAB_ORDER(SETTING_ROW, order.order)
    MODEL_BODY(SETTING_ROW, WORD, cfg.body, MODEL_BODIES)
    MODEL_SETTINGS(SETTING_ROW, cfg)
    TRAINING_RATE(SETTING_ROW, how)
    TRAINING_OPTIMISER(SETTING_ROW, how)
    TRAINING_EPOCHS(SETTING_ROW, how, epochs, "5", 1)
    /* clang-format on */
    { "training.max_steps", SETTING_U64, "0", TO(max_steps), .was = "train.max_steps",
      .help = "stop after this many batches (--resume continues the run); 0 means no limit" },
    { "training.lr_decay", SETTING_REAL, "0.9", TO(steps.lr_decay), .max = 1,
      .was = "train.lr_decay",
      .help = "factor that multiplies the learning rate after each epoch" },
    { "training.checkpoint_steps", SETTING_U64, "0", TO(checkpoint_steps),
      .was = "train.checkpoint_steps", .help = "batches between checkpoints; 0 means one epoch" },
    { 0 },
};

/* ---- text and model -------------------------------------------------------------------------- */

static sefl_status read_text(session *s)
{
    sefl_status st = SEFL_OK;
    corpus_paths paths = { 0 };
    corpus_file file = s->file;
    sefl_progress p = meter_start(&s->line, "reading text");
    s->order.block = lm_config_word_block(&s->cfg);
    SEFL_TRY(corpus_paths_find(&paths, s->file.path));
    file.path = paths.path[CORPUS_TRAIN];
    if (s->list) {
        SEFL_TRY(vocab_read(&s->words, s->list, &s->order));
    } else {
        SEFL_TRY(vocab_new(&s->words, s->order.kind));
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
    meter_stop(&s->line);
    corpus_paths_clear(&paths);
    return st;
}

/* Sets the initial values that the run starts from. */
static sefl_status first_values(session *s)
{
    lm *m = NULL;
    lm_config small = s->cfg;
    small.batch = small.steps = 1; /* this model only draws the values */
    SEFL_PASS(lm_new(&m, &small, NULL));
    lm_init(m, s->seed);
    memcpy(s->theta, lm_theta(m), lm_count(m) * sizeof *s->theta);
    lm_free(m);
    return engine_theta(s->e, s->theta);
}

static sefl_status build(session *s)
{
    const corpus *text = &s->text[CORPUS_TRAIN];
    train_steps *how = &s->steps;
    s->cfg.vocab = vocab_size(s->words);
    how->lr = s->how.lr;
    if (how->lr == 0)
        how->lr = atof(optim_usual_lr(optim_kind_name(s->how.optim.kind), s->cfg.body));
    how->clip = s->how.gradient_clip, how->dropout.rate = s->how.dropout;
    SEFL_PASS(pool_new(&s->pool, s->threads));
    SEFL_PASS(engine_new(&s->e, &(engine_config){ .device = s->device,
                                                  .precision = s->precision,
                                                  .model = &s->cfg,
                                                  .optim = s->how.optim,
                                                  .pool = s->pool }));
    SEFL_PASS(lm_config_check(&s->cfg));
    SEFL_PASS(sefl_new(&s->theta, engine_count(s->e), sizeof *s->theta));
    SEFL_PASS(first_values(s));
    how->words = text->token, how->n = text->tokens, how->text = 1 + CORPUS_TRAIN;
    how->columns = s->cfg.batch, how->steps = s->cfg.steps;
    how->lr_decay = how->lr_decay > 0 ? how->lr_decay : 1;
    lm_dropout_key(how->dropout.key, s->seed);
    SEFL_PASS(engine_start(s->e, 0, how));
    s->per_epoch = train_layout_of(how).steps_per_epoch;
    s->meta = (model_meta){ .cfg = s->cfg };
    model_meta_set_vocab(&s->meta, s->words);
    return SEFL_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* SEFL_EINVAL or SEFL_EEXIST if the word list at path has different words than this run. */
static sefl_status check_words(const session *s, const char *path)
{
    uint8_t a[SHA256_BYTES], b[SHA256_BYTES];
    vocab *old = NULL;
    SEFL_PASS(
        vocab_read(&old, path, &(vocab_settings){ .order = VOCAB_APPEARANCE, .kind = VOCAB_ANY }));
    vocab_hash(old, a);
    vocab_hash(s->words, b);
    vocab_free(old);
    if (memcmp(a, b, sizeof a) == 0)
        return SEFL_OK;
    return s->resume
               ? sefl_fail(SEFL_EINVAL,
                           "the text has other words than %s: the data or its settings have "
                           "changed",
                           path)
               : sefl_fail(SEFL_EEXIST,
                           "%s exists with other words: choose another folder for --out", path);
}

static bool is_regular(const char *path)
{
    struct stat sb;
    return lstat(path, &sb) == 0 && S_ISREG(sb.st_mode);
}

static sefl_status open_out(session *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_CHECK(s->out || !s->resume, SEFL_EINVAL,
               "--resume needs --out, the folder of the checkpoint");
    if (!s->out)
        goto done;
    SEFL_TRY(sefl_at(dir_root(&s->at, s->out), "--out"));
    SEFL_TRY(file_make_folder(s->at.root, 0777));
    const char *saved = dir_in(&s->at, "checkpoint"), *words = dir_in(&s->at, "vocab.txt");
    const char *model = dir_in(&s->at, "model.safetensors");
    if (s->resume)
        SEFL_TRY(file_read(&b, saved, SIZE_MAX / 4));
    SEFL_CHECK(s->resume || !file_exists(saved), SEFL_EEXIST,
               "%s has a checkpoint: use --resume to continue it, or choose another folder",
               s->out);
    SEFL_CHECK(s->resume || !file_exists(model), SEFL_EEXIST,
               "%s exists: choose another folder for --out", model);
    if (s->resume || is_regular(words))
        SEFL_TRY(check_words(s, words));
    if (s->resume)
        SEFL_TRY(engine_load(s->e, 0, buf_span(&b), &s->steps, s->seed));
    if (s->resume)
        SEFL_TRY(engine_read(s->e, 0, ENGINE_CURSOR, &s->at_step, sizeof s->at_step));
    SEFL_TRY(vocab_write(s->words, words, false));
done:
    buf_clear(&b);
    return st;
}

static sefl_status save_checkpoint(session *s)
{
    sefl_buf b = { 0 };
    if (!s->out)
        return SEFL_OK;
    sefl_status st = engine_save(s->e, 0, &b, &s->steps, s->seed);
    if (st == SEFL_OK)
        st = file_write_atomic(dir_in(&s->at, "checkpoint"), buf_span(&b), 0666);
    buf_clear(&b);
    return st;
}

static sefl_status save_model(session *s)
{
    if (!s->out)
        return SEFL_OK;
    SEFL_PASS(engine_read(s->e, 0, ENGINE_THETA, s->theta, engine_count(s->e) * sizeof *s->theta));
    return model_write(dir_in(&s->at, "model.safetensors"), &s->meta, s->theta);
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
    double s = clock_since(since_ns);
    return s > 0 ? (double)words / s : 0;
}

/* Returns the mean loss of this epoch's steps in this process. */
static double epoch_loss(const session *s)
{
    return s->words_epoch ? s->loss_sum / (double)s->words_epoch : NAN;
}

static uint64_t all_steps(const session *s)
{
    return s->per_epoch * s->epochs;
}

static void show_progress(session *s, const engine_progress *now)
{
    if (!meter_due(&s->line))
        return;
    uint64_t per = s->per_epoch, steps = s->at_step.done;
    double mean = s->words_epoch ? epoch_loss(s) : now->loss / (double)now->words;
    char time[32];
    print_time(time,
               (double)(all_steps(s) - steps) * clock_since(s->began_ns) / (double)s->steps_here);
    meter_line("epoch %" PRIu64 "/%" PRIu64 "  step %" PRIu64 "/%" PRIu64
               "  loss %.3f  ppl %.1f  %.0f words/s  %s left",
               s->at_step.epoch + 1, s->epochs, steps % per, per, mean, exp(mean),
               rate(s->words_here, s->began_ns), time);
}

/* Sets *mean to the mean loss; NAN if the text is too short. */
static sefl_status evaluate(session *s, size_t split, double *mean)
{
    const corpus *c = &s->text[split];
    *mean = NAN;
    if (c->tokens < 2 * LM_EVAL_BATCH)
        return SEFL_OK;
    return engine_evaluate(s->e, 0, c->token, c->tokens, 1 + split, mean, NULL);
}

static bool is_bpe(const session *s)
{
    return s->order.kind == VOCAB_BPE;
}

static sefl_status end_of_epoch(session *s)
{
    double valid, train = epoch_loss(s), speed = rate(s->words_epoch, s->epoch_ns);
    const double lr = s->steps.lr * pow(s->steps.lr_decay, (double)(s->at_step.epoch - 1));
    char time[32];
    print_time(time, clock_since(s->epoch_ns));
    meter_stop(&s->line);
    SEFL_PASS(evaluate(s, CORPUS_VALID, &valid));
    const double per_word = corpus_word_perplexity(&s->text[CORPUS_VALID], valid);
    if (s->json) {
        SEFL_PASS(print_fields(lf_u64("epoch", s->at_step.epoch), lf_u64("steps", s->at_step.done),
                               lf_real("train_loss", train), lf_real("valid_loss", valid),
                               lf_real("valid_perplexity", exp(valid)),
                               lf_if(is_bpe(s), lf_real("valid_word_perplexity", per_word)),
                               lf_real("lr", lr), lf_real("words_per_second", speed)));
    } else {
        printf("epoch %" PRIu64 "/%" PRIu64 "  loss %.3f  train ppl %.2f", s->at_step.epoch,
               s->epochs, train, exp(train));
        if (!isnan(valid))
            printf("  valid ppl %.2f", exp(valid));
        if (!isnan(valid) && is_bpe(s))
            printf(" (%.2f per word)", per_word);
        printf("  lr %g  %.0f words/s  %s\n", lr, speed, time);
    }
    fflush(stdout);
    s->loss_sum = 0, s->words_epoch = 0;
    s->epoch_ns = clock_now_ns();
    SEFL_PASS(save_checkpoint(s));
    return save_model(s);
}

static void print_start(const session *s)
{
    const lm_config *c = &s->cfg;
    const unsigned threads = pool_threads(s->pool);
    char where[160];
    if (engine_fallback(s->e))
        fprintf(stderr, "sefl train: training on the CPU: %s\n", engine_fallback(s->e));
    if (s->quiet)
        return;
    if (engine_is_device(s->e))
        snprintf(where, sizeof where, "%s", engine_name(s->e));
    else
        snprintf(where, sizeof where, "%u thread%s", threads, threads == 1 ? "" : "s");
    fprintf(
        stderr,
        "sefl train: %s, %u %s, embed %u, hidden %u, layers %u, block %u: %zu values  "
        "(%s, seed %" PRIu64 ")\n"
        "text: %zu tokens for training, %zu for validation, %zu for testing; %.0f MB of memory\n",
        c->body, c->vocab, is_bpe(s) ? "BPE tokens" : "words", c->embed, c->hidden, c->layers,
        c->block, engine_count(s->e), where, s->seed, s->text[CORPUS_TRAIN].tokens,
        s->text[CORPUS_VALID].tokens, s->text[CORPUS_TEST].tokens,
        (double)engine_get_facts(s->e)->memory / 1e6);
    if (is_bpe(s) && !s->list)
        fprintf(stderr,
                "the tokens were trained on the training text: vocab.txt contains parts of it\n");
    if (s->resume)
        fprintf(stderr, "resumed after step %" PRIu64 "\n", s->at_step.done);
}

static sefl_status print_end(session *s)
{
    double test;
    const corpus *text = &s->text[CORPUS_TEST];
    SEFL_PASS(evaluate(s, CORPUS_TEST, &test));
    const double per_word = corpus_word_perplexity(text, test);
    if (s->json)
        return print_fields(
            lf_real("test_loss", test), lf_real("test_perplexity", exp(test)),
            lf_if(is_bpe(s), lf_real("test_word_perplexity", per_word)),
            lf_u64("test_unknown", text->unknown),
            lf_if(s->best > 0 && text->unknown == 0, lf_real("best_possible_perplexity", s->best)));
    if (!isnan(test)) {
        printf("test ppl %.2f", exp(test));
        if (is_bpe(s))
            printf(" per token, %.2f per word", per_word);
        if (s->best > 0 && text->unknown > 0)
            printf("  best possible: not comparable, because %.3g %% of the words are unknown",
                   100.0 * (double)text->unknown / (double)text->tokens);
        else if (s->best > 0)
            printf("  best possible %.2f (%.1f %% above it)", s->best,
                   100 * (per_word / s->best - 1));
        printf("\n");
    }
    if (s->out)
        printf("saved %s/model.safetensors, %s/vocab.txt\n", s->out, s->out);
    return SEFL_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Returns the number of steps until something else is due; a GPU runs several at once. */
static uint64_t next_steps(const session *s)
{
    const uint64_t done = s->at_step.done, every = s->checkpoint_steps;
    uint64_t n = engine_is_device(s->e) ? ENGINE_PIECE : 1,
             left = s->per_epoch - done % s->per_epoch;
    n = n < left ? n : left;
    if (every > 0 && every - done % every < n)
        n = every - done % every;
    if (s->max_steps > 0 && s->max_steps - done < n)
        n = s->max_steps - done;
    return n;
}

static sefl_status steps(session *s)
{
    engine_progress now;
    s->line.on = !s->quiet && meter_terminal();
    s->began_ns = s->epoch_ns = clock_now_ns();
    while (s->at_step.epoch < s->epochs && !interrupt_seen() &&
           (s->max_steps == 0 || s->at_step.done < s->max_steps)) {
        SEFL_PASS(engine_run(s->e, 1, next_steps(s), &now));
        SEFL_NEED(!now.diverged, SEFL_ERANGE,
                  "step %" PRIu64
                  ": loss or gradient is not a finite number: training has diverged "
                  "(a smaller learning rate or a tighter gradient clip may help)",
                  now.at.done + 1);
        const bool epoch_ended = now.at.epoch > s->at_step.epoch;
        s->loss_sum += now.loss;
        s->words_here += now.words, s->words_epoch += now.words;
        s->steps_here += now.at.done - s->at_step.done;
        s->at_step = now.at;
        if (epoch_ended)
            SEFL_PASS(end_of_epoch(s));
        else if (s->checkpoint_steps > 0 && s->at_step.done % s->checkpoint_steps == 0)
            SEFL_PASS(save_checkpoint(s));
        show_progress(s, &now);
    }
    return SEFL_OK;
}

static sefl_status cmd_train_train(session *s)
{
    SEFL_NEED(s->how.schedule == 0, SEFL_EINVAL,
              "training.schedule: only tasks and experiments have rounds; here training.lr_decay "
              "changes the learning rate after each epoch");
    SEFL_PASS(optim_config_check(&s->how.optim, "training"));
    SEFL_PASS(read_text(s));
    SEFL_PASS(build(s));
    SEFL_PASS(open_out(s));
    print_start(s);
    sefl_status st = steps(s);
    meter_stop(&s->line);
    SEFL_PASS(st);
    if (s->at_step.epoch < s->epochs) {
        SEFL_PASS(save_checkpoint(s));
        s->interrupted = interrupt_seen();
        SEFL_NEED(!s->interrupted, SEFL_ECANCELLED,
                  "stopped by a signal after step %" PRIu64 " of %" PRIu64 "%s", s->at_step.done,
                  all_steps(s), s->out ? "" : "; without --out nothing is saved");
        SEFL_PASS(save_model(s));
        if (!s->quiet)
            fprintf(stderr, "stopped after step %" PRIu64 " of %" PRIu64 "%s\n", s->at_step.done,
                    all_steps(s), s->out ? "; --resume continues" : "");
    }
    return print_end(s);
}

/* Prints a word, quoted if the shell would change it. */
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

/* Prints the command line that continues the run. */
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

static int cmd_train_run(void *options)
{
    session *s = options;
    int rc = CLI_DONE;
    if (!settings_given(&s->set, "data.path"))
        return cli_misuse(&cmd_train, "train requires --data, the text to train on");
    sefl_status st = settings_fill(&s->set, s);
    if (st == SEFL_OK)
        st = cmd_train_train(s);
    if (st != SEFL_OK)
        rc = cli_failed(&cmd_train, st);
    if (s->interrupted && s->out)
        print_resume(s);
    engine_free(s->e);
    sefl_free(s->theta);
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
      .help = "Continue from the checkpoint in --out, with the same result as one long run; Ctrl-C "
              "writes a checkpoint after the current step" },
    { "json", SETTING_FLAG, TO(json), .help = "Print each epoch as one JSON object" },
    { "quiet", SETTING_FLAG, TO(quiet), .help = "Print nothing on standard error" },
    OPTION_SET,
    { 0 },
};

const cli_command cmd_train = {
    .name = "train",
    .example = "sefl synth --out demo-text && sefl train --data demo-text --epochs 3",
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
                                         { "device", "device" },
                                         { "precision", "precision" },
                                         { "vocab", "data.vocab" },
                                         { 0 } },
    .list_settings = true,
    .interruptible = true,
    CLI_RUN(cmd_train_run, NULL, NULL, 0),
};
