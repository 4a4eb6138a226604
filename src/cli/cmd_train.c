/* sefl train: one machine, no federation: text in, a trained language model out. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/best.h"
#include "cli/interrupt.h"
#include "cli/meter.h"
#include "cli/print.h"
#include "config/settings.h"
#include "model/corpus/corpus.h"
#include "model/file/model_file.h"
#include "model/train.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const setting_def schema[] = {
    { "data.path", SETTING_TEXT, NULL,
      .help = "folder with train, valid and test text, or a file" },
    { "data.format", SETTING_WORD, "guess", .words = "guess text jsonl csv" },
    { "data.field", SETTING_TEXT, "text", .help = "the text's name in JSONL and CSV" },
    { "data.vocab", SETTING_TEXT, "", .help = "word list; empty: the words of the training text" },
    { "data.order", SETTING_WORD, "interleaved", .words = "interleaved appearance frequency" },
    { "data.max_words", SETTING_U64, "0", .max = VOCAB_WORDS_MAX },
    { "model.kind", SETTING_WORD, "lstm", .words = "lstm transformer" },
    { "model.block", SETTING_U64, "32", .min = 1, .max = BHM_MAX_BLOCK },
    { "model.embed", SETTING_U64, "200", .min = 1, .max = 65536 },
    { "model.hidden", SETTING_U64, "200", .min = 1, .max = 65536 },
    { "model.layers", SETTING_U64, "2", .min = 1, .max = LM_MAX_LAYERS },
    { "model.heads", SETTING_U64, "2", .min = 1, .max = 65536 },
    { "model.tied", SETTING_BOOL, "false" },
    { "train.epochs", SETTING_U64, "5", .min = 1, .max = 1000000 },
    { "train.max_steps", SETTING_U64, "0", .help = "stop here, resume later; 0: no limit" },
    { "train.lr", SETTING_DECIMAL, "0", .help = "0: by optimiser and model" },
    { "train.lr_decay", SETTING_DECIMAL, "0.9", .max = 1, .help = "after each epoch" },
    { "train.clip", SETTING_DECIMAL, "0.25" },
    { "train.dropout", SETTING_DECIMAL, "0.2", .max = 1 },
    { "train.optimiser", SETTING_WORD, "sgd", .words = "sgd momentum adam" },
    { "train.batch", SETTING_U64, "20", .min = 1, .max = 65536 },
    { "train.bptt", SETTING_U64, "35", .min = 1, .max = 65536 },
    { "train.seed", SETTING_U64, "1" },
    { "train.threads", SETTING_U64, "0", .max = 256, .help = "0: one a core" },
    { "train.checkpoint_steps", SETTING_U64, "0", .help = "0: after each epoch" },
    { 0 },
};

/* Options that are short for a setting. */
enum { O_SET = 256, O_SET_FILE, O_OUT, O_RESUME, O_JSON, O_QUIET, O_SHORT };

static const char *const shorthand[] = { "data.path",    "model.kind",      "model.block",
                                         "train.epochs", "train.max_steps", "train.lr",
                                         "train.seed",   "train.threads",   "data.vocab" };

static const struct option longopts[] = {
    { "set", required_argument, NULL, O_SET },
    { "set-file", required_argument, NULL, O_SET_FILE },
    { "out", required_argument, NULL, O_OUT },
    { "resume", no_argument, NULL, O_RESUME },
    { "json", no_argument, NULL, O_JSON },
    { "quiet", no_argument, NULL, O_QUIET },
    { "data", required_argument, NULL, O_SHORT },
    { "model", required_argument, NULL, O_SHORT + 1 },
    { "block", required_argument, NULL, O_SHORT + 2 },
    { "epochs", required_argument, NULL, O_SHORT + 3 },
    { "max-steps", required_argument, NULL, O_SHORT + 4 },
    { "lr", required_argument, NULL, O_SHORT + 5 },
    { "seed", required_argument, NULL, O_SHORT + 6 },
    { "threads", required_argument, NULL, O_SHORT + 7 },
    { "vocab", required_argument, NULL, O_SHORT + 8 },
    { 0 },
};

typedef struct session {
    settings set;
    const char *out;
    bool resume, json, quiet, terminal;
    bool interrupted; /* after a step, its checkpoint saved */
    vocab *words;
    corpus text[CORPUS_SPLITS];
    double best; /* perplexity of the source on the test text; 0: not known */
    pool *pool;
    lm *m;
    trainer *t;
    model_meta meta;
    uint64_t epochs;
    double loss_sum; /* of this epoch, as far as this process saw it */
    size_t loss_words;
    uint64_t began_ns, epoch_ns, shown_ns;
    uint64_t steps_here; /* taken by this process */
    size_t words_here, words_epoch;
} session;

static double decimal(const settings *s, const char *key)
{
    return strtod(settings_text(s, key), NULL); /* the schema checked it; the locale is C */
}

static uint32_t u32(const settings *s, const char *key)
{
    return (uint32_t)settings_u64(s, key);
}

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
    const char *list = settings_text(&s->set, "data.vocab");
    corpus_file file = { .field = settings_text(&s->set, "data.field") };
    vocab_settings words = { .block = u32(&s->set, "model.block"),
                             .max_words = u32(&s->set, "data.max_words") };
    meter m;
    interrupt_progress stop;
    sefl_progress p = interrupt_with(&stop, meter_start(&m, "reading text"));
    if (strcmp(settings_text(&s->set, "data.format"), "guess") != 0)
        SEFL_TRY(corpus_format_parse(&file.format, settings_text(&s->set, "data.format")));
    SEFL_TRY(vocab_order_parse(&words.order, settings_text(&s->set, "data.order")));
    SEFL_TRY(corpus_paths_find(&paths, settings_text(&s->set, "data.path")));
    file.path = paths.path[CORPUS_TRAIN];
    if (*list) {
        SEFL_TRY(vocab_read(&s->words, list, &words));
    } else {
        SEFL_TRY(vocab_new(&s->words));
        SEFL_TRY(corpus_count(s->words, &file, &p));
        SEFL_TRY(vocab_finish(s->words, &words));
    }
    for (size_t i = 0; i < CORPUS_SPLITS; i++)
        if (paths.path[i]) {
            file.path = paths.path[i];
            SEFL_TRY(corpus_read(&s->text[i], s->words, &file, &p));
        }
    s->best = best_perplexity(settings_text(&s->set, "data.path"), "test");
done:
    meter_stop(&m);
    corpus_paths_clear(&paths);
    return st;
}

/* ---- model ----------------------------------------------------------------------------------- */

static sefl_status build(session *s)
{
    sefl_status st = SEFL_OK;
    const settings *c = &s->set;
    lm_config cfg = { .body = settings_text(c, "model.kind"),
                      .vocab = vocab_size(s->words),
                      .embed = u32(c, "model.embed"),
                      .hidden = u32(c, "model.hidden"),
                      .layers = u32(c, "model.layers"),
                      .heads = u32(c, "model.heads"),
                      .block = u32(c, "model.block"),
                      .tied = settings_bool(c, "model.tied"),
                      .batch = u32(c, "train.batch"),
                      .steps = u32(c, "train.bptt") };
    train_config tc = { .lr = decimal(c, "train.lr"),
                        .lr_decay = decimal(c, "train.lr_decay"),
                        .clip = decimal(c, "train.clip"),
                        .dropout = decimal(c, "train.dropout"),
                        .seed = settings_u64(c, "train.seed") };
    SEFL_TRY(optim_kind_parse(&tc.optim.kind, settings_text(c, "train.optimiser")));
    if (tc.lr == 0) /* the rates of PyTorch's examples */
        tc.lr = tc.optim.kind == OPTIM_ADAM ? 0.001 : strcmp(cfg.body, "lstm") == 0 ? 20 : 5;
    SEFL_TRY(pool_new(&s->pool, u32(c, "train.threads")));
    SEFL_TRY(lm_new(&s->m, &cfg, s->pool));
    lm_init(s->m, tc.seed);
    const corpus *text = &s->text[CORPUS_TRAIN];
    SEFL_TRY(trainer_new(&s->t, s->m, s->pool, &tc, text->token, text->tokens));
    s->meta = (model_meta){ .cfg = *lm_get_config(s->m) };
    model_meta_set_vocab(&s->meta, s->words);
    s->epochs = settings_u64(c, "train.epochs");
done:
    return st;
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
                   "%s holds a checkpoint: --resume goes on with it, or take another folder",
                   s->out);
        path_in(path, s->out, "model.safetensors");
        SEFL_CHECK(!file_exists(path), SEFL_EEXIST, "%s exists: take another folder for --out",
                   path);
    }
    path_in(path, s->out, "vocab.txt");
    if (s->resume || regular(path)) { /* other words there may be somebody's: never written over */
        uint8_t a[SHA256_BYTES], h[SHA256_BYTES];
        SEFL_TRY(vocab_read(&old, path, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
        vocab_hash(old, a);
        vocab_hash(s->words, h);
        SEFL_CHECK(memcmp(a, h, sizeof a) == 0 || s->resume, SEFL_EEXIST,
                   "%s exists, with other words: take another folder for --out", path);
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

/* ---- talk ------------------------------------------------------------------------------------ */

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

static void greet(const session *s)
{
    const lm_config *c = lm_get_config(s->m);
    if (s->quiet)
        return;
    fprintf(stderr,
            "sefl train: %s, %u words, embed %u, hidden %u, layers %u, block %u: %zu values  "
            "(%u thread%s, seed %llu)\n",
            c->body, c->vocab, c->embed, c->hidden, c->layers, c->block, lm_count(s->m),
            pool_threads(s->pool), pool_threads(s->pool) == 1 ? "" : "s",
            (unsigned long long)settings_u64(&s->set, "train.seed"));
    fprintf(stderr,
            "text: %zu words to train on, %zu to validate, %zu to test; %.0f MB of memory\n",
            s->text[CORPUS_TRAIN].tokens, s->text[CORPUS_VALID].tokens, s->text[CORPUS_TEST].tokens,
            (double)lm_memory(s->m) / 1e6);
    if (s->resume)
        fprintf(stderr, "resumed after step %llu\n", (unsigned long long)trainer_steps(s->t));
}

static sefl_status farewell(session *s)
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
    uint64_t limit = settings_u64(&s->set, "train.max_steps");
    uint64_t every = settings_u64(&s->set, "train.checkpoint_steps");
    SEFL_TRY(read_text(s));
    SEFL_TRY(build(s));
    SEFL_TRY(open_out(s));
    greet(s);
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
                    s->out ? "; --resume goes on" : "");
    }
    SEFL_TRY(farewell(s));
done:
    if (st != SEFL_OK && s->terminal)
        meter_line("%s", "");
    return st;
}

/* The command line that goes on, ready to paste. */
static void print_resume(const session *s, int argc, char **argv)
{
    fprintf(stderr, "go on with: sefl");
    for (int i = 0; i < argc; i++) {
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789-_=./,:+@%";
        if (argv[i][0] && argv[i][strspn(argv[i], plain)] == 0) {
            fprintf(stderr, " %s", argv[i]);
            continue;
        }
        fprintf(stderr, " '");
        for (const char *c = argv[i]; *c; c++)
            if (*c == '\'')
                fputs("'\\''", stderr);
            else
                fputc(*c, stderr);
        fprintf(stderr, "'");
    }
    fprintf(stderr, "%s\n", s->resume ? "" : " --resume");
}

static int run(int argc, char **argv)
{
    session s = { .terminal = meter_terminal() };
    sefl_status st = SEFL_OK;
    int rc = CLI_DONE;
    settings_init(&s.set, schema);
    opterr = 0;
    for (int c; rc == CLI_DONE && (c = getopt_long(argc, argv, ":", longopts, NULL)) != -1;) {
        char assignment[4200];
        if (c == O_SET) {
            st = settings_set(&s.set, optarg, "--set");
        } else if (c == O_SET_FILE) {
            st = settings_set_file(&s.set, optarg);
        } else if (c == O_OUT) {
            s.out = optarg;
        } else if (c == O_RESUME) {
            s.resume = true;
        } else if (c == O_JSON) {
            s.json = true;
        } else if (c == O_QUIET) {
            s.quiet = true;
        } else if (c >= O_SHORT) {
            const char *key = shorthand[c - O_SHORT];
            char origin[64];
            for (size_t i = 0; longopts[i].name; i++)
                if (longopts[i].val == c)
                    snprintf(origin, sizeof origin, "--%s", longopts[i].name);
            snprintf(assignment, sizeof assignment, "%s=%s", key, optarg);
            st = settings_set(&s.set, assignment, origin);
        } else {
            rc = cli_bad_option(&cmd_train, argc, argv, c, longopts);
        }
        if (st != SEFL_OK)
            rc = cli_failed(&cmd_train, st);
    }
    if (rc == CLI_DONE && optind < argc)
        rc = cli_misuse(&cmd_train, "no argument \"%.64s\" is taken", argv[optind]);
    if (rc == CLI_DONE && !settings_given(&s.set, "data.path"))
        rc = cli_misuse(&cmd_train, "--data says which text to train on");
    if (rc == CLI_DONE) {
        interrupt_catch();
        st = train(&s);
        if (st != SEFL_OK)
            rc = cli_failed(&cmd_train, st);
        if (s.interrupted && s.out)
            print_resume(&s, argc, argv);
    }
    trainer_free(s.t);
    lm_free(s.m);
    pool_free(s.pool);
    for (size_t i = 0; i < CORPUS_SPLITS; i++)
        corpus_clear(&s.text[i]);
    vocab_free(s.words);
    settings_clear(&s.set);
    return rc;
}

const cli_command cmd_train = {
    .name = "train",
    .summary = "train a language model on this machine alone, without a federation",
    .usage = "--data WHERE [options]",
    .details = "  --data WHERE     folder with train, valid and test text (.txt, .jsonl, .csv),\n"
               "                   or a file\n"
               "  --model KIND     lstm (default) or transformer\n"
               "  --block L        block size of the Hankel matrices (default 32; 1 is dense)\n"
               "  --epochs N       passes over the text (default 5)\n"
               "  --max-steps N    stop after so many batches\n"
               "  --lr RATE        default: sgd 20 (lstm) or 5 (transformer), adam 0.001\n"
               "  --vocab FILE     word list; default: the words of the training text\n"
               "  --seed N         of initial values and dropout (default 1)\n"
               "  --threads N      0 (default): all cores; the result does not depend on it\n"
               "  --out DIR        writes model.safetensors, vocab.txt and a checkpoint there\n"
               "  --resume         goes on with the checkpoint in --out, to the same bytes;\n"
               "                   Ctrl-C writes one after the present step\n"
               "  --set KEY=VALUE  any setting: data.{path,format,field,vocab,order,max_words},\n"
               "                   model.{kind,block,embed,hidden,layers,heads,tied},\n"
               "                   train.{epochs,max_steps,lr,lr_decay,clip,dropout,optimiser,\n"
               "                   batch,bptt,seed,threads,checkpoint_steps}\n"
               "  --set-file FILE  settings, one KEY=VALUE a line\n"
               "  --json           one object an epoch\n"
               "  --quiet          no talk on standard error",
    .example = "sefl data synth --out demo-text && sefl train --data demo-text --epochs 3",
    .run = run,
};
