/* Training speed: words per second for gradient and update, beside the time that SGEMM alone would
 * need for the same shapes on as many threads (OpenBLAS's own threading, measured in the same run).
 * With blocks larger than 1 the floor is still the dense one: a ratio below 1 beats it.
 *
 * On a GPU: words per second of all clients, and for each kernel its share of the time and its
 * rates, compared with those of a large product and a long copy. scripts/bench-pytorch.py measures
 * PyTorch. */
#include "bench/bench.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "model/engine/engine.h"
#include "model/train.h"
#include "seeded/seeded.h"

#include <cblas.h>
#include <string.h>
#include <sys/resource.h>

#pragma weak openblas_set_num_threads
void openblas_set_num_threads(int n);

enum { WORDS = 200000 };

typedef struct shape {
    int m, n, k;
    bool ta, tb;
    int times; /* per step */
} shape;

typedef struct options {
    bench b;
    const char *model;                   /* NULL: all */
    uint32_t block, vocab, batch, steps; /* block 0: 1 and 32 */
    bool adam;
    const char *device, *precision;
    uint32_t clients;
} options;

/* Prints a row with the name "WHAT: NAME". */
static void row(bench *b, const char *what, const char *name, bench_result r)
{
    char label[128];
    snprintf(label, sizeof label, "%s: %s", what, name);
    r.name = label;
    bench_row(b, &r);
}

static double now(void)
{
    sefl_clock c = clock_monotonic();
    return (double)clock_ns(&c) * 1e-9;
}

/* The matrix products of a dense training step: linear layers, with their backward passes, and
 * others. */
typedef struct products {
    const lm_config *c;
    shape *out;
    size_t n;
} products;

static void linear(products *p, uint32_t rows, uint32_t cols, uint32_t times)
{
    const int n = (int)(p->c->batch * p->c->steps), r = (int)rows, q = (int)cols;
    if (times == 0)
        return;
    p->out[p->n++] = (shape){ n, r, q, false, true, (int)times };
    p->out[p->n++] = (shape){ n, q, r, false, false, (int)times };
    p->out[p->n++] = (shape){ r, q, n, true, false, (int)times };
}

static void shapes_lstm(products *p)
{
    const lm_config *c = p->c;
    const int b = (int)c->batch, h = (int)c->hidden, t = (int)c->steps, layers = (int)c->layers;
    linear(p, c->vocab, c->hidden, 1);
    linear(p, 4 * c->hidden, c->embed, 1);
    linear(p, 4 * c->hidden, c->hidden, c->layers - 1);
    /* the recurrence, and its weight gradient */
    p->out[p->n++] = (shape){ b, 4 * h, h, false, true, t * layers };
    p->out[p->n++] = (shape){ b, h, 4 * h, false, false, t * layers };
    p->out[p->n++] = (shape){ 4 * h, h, b * t, true, false, layers };
}

static void shapes_transformer(products *p)
{
    const lm_config *c = p->c;
    const uint32_t e = c->embed, h = c->hidden;
    const int t = (int)c->steps, d = (int)(e / c->heads);
    const int many = (int)(c->layers * c->batch * c->heads);
    linear(p, c->vocab, e, 1);
    linear(p, 3 * e, e, c->layers);
    linear(p, e, e, c->layers);
    linear(p, h, e, c->layers);
    linear(p, e, h, c->layers);
    p->out[p->n++] = (shape){ t, t, d, false, true, 2 * many };  /* q k^T, dctx v^T */
    p->out[p->n++] = (shape){ t, d, t, false, false, 2 * many }; /* att v, datt k */
    p->out[p->n++] = (shape){ t, d, t, true, false, 2 * many };  /* dv, dk */
}

static size_t shapes_of(const lm_config *c, shape *out)
{
#define SHAPES(NAME, name) shapes_##name,
    static void (*const shapes[])(products * p) = { LM_BODIES(SHAPES) };
    products p = { .c = c, .out = out };
    shapes[lm_body_named(c->body)](&p);
    return p.n;
}

/* Seconds that SGEMM takes for all of them: the best of several passes each. */
static sefl_status gemm_floor(const lm_config *c, unsigned threads, double *out, double *flop)
{
    sefl_status st = SEFL_OK;
    shape s[40];
    size_t n = shapes_of(c, s), largest = 0;
    float *a = NULL, *b = NULL, *y = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t sides[3] = { (size_t)s[i].m * (size_t)s[i].k, (size_t)s[i].n * (size_t)s[i].k,
                            (size_t)s[i].m * (size_t)s[i].n };
        for (int k = 0; k < 3; k++)
            largest = sides[k] > largest ? sides[k] : largest;
    }
    SEFL_TRY(sefl_new(&a, largest, sizeof *a));
    SEFL_TRY(sefl_new(&b, largest, sizeof *b));
    SEFL_TRY(sefl_new(&y, largest, sizeof *y));
    for (size_t i = 0; i < largest; i++)
        a[i] = b[i] = (float)(i % 7) - 3;
    *out = *flop = 0;
    if (openblas_set_num_threads)
        openblas_set_num_threads((int)threads);
    for (size_t i = 0; i < n; i++) {
        double best = 1e9, work = 2.0 * s[i].m * s[i].n * s[i].k;
        int inner = work < 5e7 ? 20 : 1;
        for (int r = 0; r < 5; r++) {
            double t0 = now();
            for (int q = 0; q < inner; q++)
                cblas_sgemm(CblasRowMajor, s[i].ta ? CblasTrans : CblasNoTrans,
                            s[i].tb ? CblasTrans : CblasNoTrans, s[i].m, s[i].n, s[i].k, 1, a,
                            s[i].ta ? s[i].m : s[i].k, b, s[i].tb ? s[i].k : s[i].n, 0, y, s[i].n);
            double t = (now() - t0) / inner;
            best = t < best ? t : best;
        }
        *out += best * s[i].times;
        *flop += work * s[i].times;
    }
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
done:
    sefl_free(a), sefl_free(b), sefl_free(y);
    return st;
}

typedef struct job {
    lm *m;
    train_run *t;
    double update_s;
    unsigned long steps;
} job;

static sefl_status one_step(void *ctx)
{
    job *j = ctx;
    sefl_status st = SEFL_OK;
    train_info info;
    SEFL_TRY(train_gradient(j->t, &info));
    double t0 = now();
    SEFL_TRY(train_update(j->t, &info));
    j->update_s += now() - t0;
    j->steps++;
done:
    return st;
}

/* Draws many small numbers and few large ones, as in text. */
static sefl_status make_words(uint32_t **out, uint32_t vocab, uint64_t seed)
{
    seeded g;
    SEFL_PASS(sefl_new(out, WORDS, sizeof **out));
    seeded_init(&g, seed, "bench train");
    for (size_t i = 0; i < WORDS; i++) {
        double u = seeded_unit(&g);
        (*out)[i] = (uint32_t)(u * u * u * vocab);
    }
    return SEFL_OK;
}

/* Prints each part's share of the time, and the memory. values: words in a step. */
static void part_rows(bench *b, const job *j, const char *what, double values)
{
    const lm_times t = lm_get_times(j->m);
    const struct {
        const char *name;
        double s;
    } parts[] = { { "embedding", t.embed },
                  { "body forward", t.body_forward },
                  { "decoder and softmax, both ways", t.head },
                  { "body backward", t.body_backward },
                  { "clip and update", j->update_s } };
    double all = 0;
    struct rusage use;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        all += parts[i].s;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        row(b, what, parts[i].name,
            (bench_result){ .value = 100 * parts[i].s / all,
                            .unit = "% of it",
                            .per_value = parts[i].s / (double)j->steps / values,
                            .threads = b->threads });
    getrusage(RUSAGE_SELF, &use);
    row(b, what, "model memory",
        (bench_result){ .value = (double)lm_memory(j->m) / 1e6, .unit = "MB" });
    row(b, what, "peak of the process",
        (bench_result){ .value = (double)use.ru_maxrss / 1e3, .unit = "MB" });
}

static sefl_status measure(bench *b, const options *o, const lm_config *cfg, const char *what)
{
    sefl_status st = SEFL_OK;
    pool *p = NULL;
    uint32_t *words = NULL;
    job j = { 0 };
    bench_timing time;
    double floor_s, flop;
    SEFL_TRY(gemm_floor(cfg, b->threads, &floor_s, &flop));
    SEFL_TRY(pool_new(&p, b->threads));
    SEFL_TRY(lm_new(&j.m, cfg, p));
    lm_init(j.m, 1);
    SEFL_TRY(make_words(&words, cfg->vocab, 1));
    SEFL_TRY(train_new(&j.t, j.m, p, &(optim_config){ .kind = o->adam ? OPTIM_ADAM : OPTIM_SGD },
                       &(train_steps){ .words = words,
                                       .n = WORDS,
                                       .lr = o->adam ? 0.001 : 1,
                                       .clip = 0.25,
                                       .dropout.rate = 0.2 }));
    SEFL_TRY(bench_time(b, &time, one_step, &j));
    double n = (double)cfg->batch * cfg->steps, step_s = time.median_s;
    row(b, what, "training step",
        (bench_result){ .value = n / step_s,
                        .unit = "words/s",
                        .per_value = step_s / n,
                        .floor = n / floor_s,
                        .rate = true,
                        .threads = b->threads });
    row(b, what, "dense-equivalent products",
        (bench_result){ .value = flop / step_s * 1e-9,
                        .unit = "GFLOP/s",
                        .floor = flop / floor_s * 1e-9,
                        .rate = true,
                        .threads = b->threads });
    part_rows(b, &j, what, n);
done:
    train_free(j.t);
    lm_free(j.m);
    sefl_free(words);
    pool_free(p);
    return st;
}

/* ---- on a GPU -------------------------------------------------------------------------------- */

enum { RUN_STEPS = 16, KERNELS_MAX = 64 };

typedef struct gpu_job {
    engine *e;
    uint32_t clients;
    engine_progress *out;
} gpu_job;

static sefl_status some_steps(void *ctx)
{
    gpu_job *j = ctx;
    SEFL_PASS(engine_run(j->e, j->clients, RUN_STEPS, j->out));
    for (uint32_t i = 0; i < j->clients; i++)
        SEFL_NEED(!j->out[i].diverged, SEFL_ERANGE, "client %u diverged: its steps do not count",
                  i);
    return SEFL_OK;
}

static double rate_of(const engine_time *t, double amount)
{
    return t->seconds > 0 ? amount / t->seconds : 0;
}

/* Prints each kernel's share of the time, its FLOP rate and its byte rate, with their ceilings. */
static sefl_status kernel_rows(bench *b, gpu_job *j, const char *what)
{
    engine_time t[KERNELS_MAX];
    uint32_t n = KERNELS_MAX;
    double all = 0, flop = 0, bytes = 0;
    SEFL_PASS(engine_times(j->e, true, t, &n));
    SEFL_PASS(some_steps(j));
    n = KERNELS_MAX;
    SEFL_PASS(engine_times(j->e, false, t, &n));
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(t[i].name, "ceiling: products") == 0)
            flop = rate_of(&t[i], t[i].flop);
        else if (strcmp(t[i].name, "ceiling: memory") == 0)
            bytes = rate_of(&t[i], t[i].bytes);
        else
            all += t[i].seconds;
    for (uint32_t i = 0; i < n; i++) {
        if (strncmp(t[i].name, "ceiling: ", 9) == 0)
            continue;
        row(b, what, t[i].name,
            (bench_result){ .value = 100 * t[i].seconds / all, .unit = "% of it" });
        if (t[i].flop > 0)
            row(b, what, t[i].name,
                (bench_result){ .value = 1e-12 * rate_of(&t[i], t[i].flop),
                                .unit = "TFLOP/s",
                                .floor = 1e-12 * flop,
                                .rate = true });
        if (t[i].bytes > 0)
            row(b, what, t[i].name,
                (bench_result){ .value = 1e-9 * rate_of(&t[i], t[i].bytes),
                                .unit = "GB/s",
                                .floor = 1e-9 * bytes,
                                .rate = true });
    }
    return SEFL_OK;
}

static sefl_status start_clients(gpu_job *j, const options *o, const lm_config *cfg)
{
    sefl_status st = SEFL_OK;
    uint32_t *words = NULL;
    for (uint32_t i = 0; i < j->clients; i++) {
        train_steps client = {
            .n = WORDS, .text = 1 + i, .lr = o->adam ? 0.001 : 1, .clip = 0.25, .dropout.rate = 0.2
        };
        SEFL_TRY(make_words(&words, cfg->vocab, i));
        client.words = words;
        lm_dropout_key(client.dropout.key, i);
        SEFL_TRY(engine_start(j->e, i, &client));
        sefl_free(words);
        words = NULL;
    }
done:
    sefl_free(words);
    return st;
}

static sefl_status measure_gpu(bench *b, const options *o, const lm_config *cfg, const char *what)
{
    sefl_status st = SEFL_OK;
    gpu_job j = { 0 };
    lm *m = NULL;
    bench_timing time;
    char name[64];
    SEFL_TRY(engine_new(&j.e, &(engine_config){ .device = o->device,
                                                .precision = o->precision,
                                                .model = cfg,
                                                .optim.kind = o->adam ? OPTIM_ADAM : OPTIM_SGD,
                                                .slots = o->clients }));
    const engine_facts *facts = engine_get_facts(j.e);
    if (engine_fallback(j.e))
        bench_note(b, "running on the CPU: %s", engine_fallback(j.e));
    j.clients = o->clients < facts->slots ? o->clients : facts->slots;
    SEFL_TRY(sefl_new(&j.out, j.clients, sizeof *j.out));
    lm_config small = *cfg;
    small.batch = small.steps = 1;
    SEFL_TRY(lm_new(&m, &small, NULL));
    lm_init(m, 1);
    SEFL_TRY(engine_theta(j.e, lm_theta(m)));
    SEFL_TRY(start_clients(&j, o, cfg));
    bench_note(b, "%s: %s, %u clients at once", what, engine_name(j.e), j.clients);
    SEFL_TRY(some_steps(&j));
    SEFL_TRY(bench_time(b, &time, some_steps, &j));
    shape s[40];
    double flop = 0, tokens = (double)RUN_STEPS * cfg->batch * cfg->steps * j.clients;
    for (size_t i = 0, n = shapes_of(cfg, s); i < n; i++)
        flop += 2.0 * s[i].m * s[i].n * s[i].k * s[i].times;
    snprintf(name, sizeof name, "training, %u clients", j.clients);
    row(b, what, name,
        (bench_result){ .value = tokens / time.median_s,
                        .unit = "words/s",
                        .per_value = time.median_s / tokens,
                        .rate = true });
    row(b, what, "dense-equivalent products",
        (bench_result){ .value = 1e-12 * flop * RUN_STEPS * j.clients / time.median_s,
                        .unit = "TFLOP/s",
                        .rate = true });
    SEFL_TRY(kernel_rows(b, &j, what));
    row(b, what, "memory on the device",
        (bench_result){ .value = (double)facts->memory / 1e6, .unit = "MB" });
done:
    lm_free(m);
    engine_free(j.e);
    sefl_free(j.out);
    return st;
}

static sefl_status train_bench(void *ctx)
{
    static const uint32_t blocks[] = { 1, 32 };
    options *o = ctx;
    bench *b = &o->b;
    const bool cpu = strcmp(o->device, "cpu") == 0;
    if (cpu)
        bench_note(b, "batch %u x %u, vocabulary %u, %u thread%s; floor: SGEMM of the dense shapes",
                   o->batch, o->steps, o->vocab, b->threads, b->threads == 1 ? "" : "s");
    else
        bench_note(b, "batch %u x %u, vocabulary %u; floor: a large product, a long copy", o->batch,
                   o->steps, o->vocab);
    for (unsigned i = 0; i < 2 * LM_BODY_KINDS; i++) {
        char what[64];
        lm_config cfg = { .body = lm_body_name((lm_body_kind)(i / 2)),
                          .vocab = o->vocab,
                          .block = o->block ? o->block : blocks[i % 2],
                          .batch = o->batch,
                          .steps = o->steps };
        if ((o->model && strcmp(o->model, cfg.body) != 0) || (o->block && i % 2 > 0))
            continue;
        SEFL_PASS(lm_config_check(&cfg));
        snprintf(what, sizeof what, "%s l=%u", cfg.body, cfg.block);
        SEFL_PASS((cpu ? measure : measure_gpu)(b, o, &cfg, what));
    }
    return SEFL_OK;
}

#define TO(member) SETTING_TO(options, member)
static const setting_def table[] = {
    { "model", SETTING_WORD, "", TO(model), .words = KIND_WORDS(LM_BODIES),
      .help = "Model to train; all if not given" },
    { "block", SETTING_U64, "0", TO(block), .min = 1, .max = BHM_MAX_BLOCK,
      .help = "Block size of the Hankel matrices; 1 and 32 if not given" },
    { "vocab", SETTING_U64, "33278", TO(vocab), .min = 1, .max = BHM_MAX_SIDE,
      .help = "Number of words in the vocabulary" },
    { "batch", SETTING_U64, "20", TO(batch), .min = 1, .max = 65536,
      .help = "Batch size in sequences" },
    { "steps", SETTING_U64, "35", TO(steps), .min = 1, .max = 65536,
      .help = "Sequence length in words" },
    { "adam", SETTING_FLAG, TO(adam), .help = "Use Adam instead of SGD" },
    /* clang-format off */
    ENGINE_DEVICE(SETTING_ROW)
    /* clang-format on */
    { "clients", SETTING_U64, "10", TO(clients), .min = 1, .max = 65536,
      .help = "Number of clients that train at once on a GPU" },
    BENCH_OPTIONS,
    { 0 },
};

const cli_command bench_train = {
    .name = "bench train",
    .summary = "one training step of each model, compared with dense SGEMM",
    .example = "sefl bench train --model lstm --threads 2",
    BENCH_COMMAND(options, table, train_bench),
};
