/* device_test: compares a GPU engine with the CPU engine, slot by slot: losses, parameters, states,
 * sums, checkpoints, evaluation, determinism. Plain C without a test library, because it runs by hand on
 * machines that have a GPU and little else:
 *
 *     scripts/build-cuda --test build/cuda && build/cuda/device_test
 *     device_test [--large] [--precision bf16] [NAME]      NAME: only cases whose name contains it
 *
 * SEFL_CUDA_PLUGIN names the plugin. Exit 0: all passed; 1: a case failed; 2: no device. */
#include "base/alloc.h"
#include "model/engine/engine.h"
#include "model/train.h"
#include "privacy/mechanism/dgauss.h"
#include "privacy/mechanism/quantise.h"
#include "seeded/seeded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLIENTS = 6, STEPS = 10 };

typedef struct kase {
    const char *name;
    lm_config model;
    optim_kind optim;
    double lr, dropout, clip;
    uint32_t n[CLIENTS]; /* words of each client; 0: no client */
    bool large;
    double weight_decay;
    uint32_t slots; /* requested; 0: one per client. More also run `many` */
} kase;

#define SOME                        \
    {                               \
        4000, 1500, 900, 700, 61, 5 \
    }

static const kase cases[] = {
    { "lstm dense",
      { .vocab = 500, .embed = 64, .hidden = 64, .batch = 8, .steps = 12 },
      OPTIM_SGD,
      5,
      0,
      0.25,
      SOME },
    { "lstm dense dropout",
      { .vocab = 500, .embed = 64, .hidden = 64, .batch = 8, .steps = 12 },
      OPTIM_SGD,
      5,
      0.2,
      0.25,
      SOME },
    { "lstm block 32",
      { .vocab = 500, .embed = 64, .hidden = 64, .block = 32, .batch = 8, .steps = 12 },
      OPTIM_SGD,
      5,
      0.2,
      0.25,
      SOME },
    { "lstm blocks 8, 32 and 4",
      { .vocab = 500,
        .embed = 64,
        .hidden = 64,
        .block = 8,
        .block_embed = 32,
        .block_decoder = 4,
        .batch = 8,
        .steps = 12 },
      OPTIM_SGD,
      5,
      0.2,
      0.25,
      SOME },
    { "lstm tied",
      { .vocab = 300,
        .embed = 48,
        .hidden = 48,
        .block = 4,
        .tied = true,
        .batch = 8,
        .steps = 12 },
      OPTIM_SGD,
      5,
      0.2,
      0.25,
      SOME },
    { "lstm odd sizes",
      { .vocab = 1003, .embed = 37, .hidden = 53, .layers = 3, .block = 7, .batch = 5, .steps = 9 },
      OPTIM_SGD,
      5,
      0.3,
      0.25,
      SOME },
    { "lstm odd dense",
      { .vocab = 77, .embed = 33, .hidden = 29, .layers = 1, .batch = 13, .steps = 3 },
      OPTIM_SGD,
      2,
      0.1,
      0,
      SOME },
    { "lstm adam",
      { .vocab = 500, .embed = 64, .hidden = 64, .block = 32, .batch = 8, .steps = 12 },
      OPTIM_ADAM,
      0.002,
      0.2,
      0.25,
      SOME },
    { "lstm momentum",
      { .vocab = 500, .embed = 64, .hidden = 64, .batch = 8, .steps = 12 },
      OPTIM_MOMENTUM,
      0.3,
      0.2,
      0.25,
      SOME },
    { "transformer dense",
      { .body = "transformer", .vocab = 500, .embed = 64, .hidden = 64, .batch = 8, .steps = 12 },
      OPTIM_SGD,
      1,
      0,
      0.25,
      SOME },
    { "transformer dense dropout",
      { .body = "transformer", .vocab = 500, .embed = 64, .hidden = 64, .batch = 8, .steps = 12 },
      OPTIM_SGD,
      1,
      0.2,
      0.25,
      SOME },
    { "transformer block 32",
      { .body = "transformer",
        .vocab = 500,
        .embed = 64,
        .hidden = 96,
        .block = 32,
        .batch = 8,
        .steps = 12 },
      OPTIM_SGD,
      1,
      0.2,
      0.25,
      SOME },
    { "transformer blocks 1, 8 and 32",
      { .body = "transformer",
        .vocab = 500,
        .embed = 64,
        .hidden = 96,
        .block = 1,
        .block_embed = 8,
        .block_decoder = 32,
        .batch = 8,
        .steps = 12 },
      OPTIM_SGD,
      1,
      0.2,
      0.25,
      SOME },
    { "transformer tied",
      { .body = "transformer",
        .vocab = 300,
        .embed = 48,
        .hidden = 30,
        .block = 4,
        .tied = true,
        .batch = 8,
        .steps = 12 },
      OPTIM_SGD,
      1,
      0.2,
      0.25,
      SOME },
    { "transformer odd sizes",
      { .body = "transformer",
        .vocab = 1003,
        .embed = 39,
        .heads = 3,
        .hidden = 53,
        .layers = 3,
        .block = 7,
        .batch = 5,
        .steps = 9 },
      OPTIM_SGD,
      1,
      0.3,
      0.25,
      SOME },
    { "transformer adam",
      { .body = "transformer",
        .vocab = 500,
        .embed = 64,
        .hidden = 64,
        .block = 32,
        .batch = 8,
        .steps = 12 },
      OPTIM_ADAM,
      0.002,
      0.2,
      0.25,
      SOME },
    { "lstm weight decay",
      { .vocab = 500, .embed = 64, .hidden = 64, .block = 4, .batch = 8, .steps = 12 },
      OPTIM_SGD,
      5,
      0.2,
      0.25,
      SOME,
      false,
      0.01 },
    { "lstm tied weight decay",
      { .vocab = 300, .embed = 48, .hidden = 48, .tied = true, .batch = 8, .steps = 12 },
      OPTIM_MOMENTUM,
      0.3,
      0.2,
      0.25,
      SOME,
      false,
      0.1 },
    { "transformer adam weight decay",
      { .body = "transformer", .vocab = 500, .embed = 64, .hidden = 64, .batch = 8, .steps = 12 },
      OPTIM_ADAM,
      0.002,
      0.2,
      0.25,
      SOME,
      false,
      1 },
    /* other shapes of the cluster kernels (bf16): one group of units, a partial tile of columns */
    { "lstm 8 units",
      { .vocab = 200, .embed = 16, .hidden = 8, .batch = 3, .steps = 6 },
      OPTIM_SGD,
      1,
      0.2,
      0.25,
      SOME },
    { "lstm 24 units, 26 columns",
      { .vocab = 200, .embed = 16, .hidden = 24, .batch = 26, .steps = 6 },
      OPTIM_SGD,
      1,
      0.2,
      0.25,
      SOME },
    { "lstm 216 units, 33 columns",
      { .vocab = 99,
        .embed = 24,
        .hidden = 216,
        .layers = 1,
        .block = 24,
        .batch = 33,
        .steps = 7 },
      OPTIM_SGD,
      1,
      0.2,
      0.25,
      { 1500, 300, 61 } },
    { "lstm 256 units, 64 columns",
      { .vocab = 99,
        .embed = 24,
        .hidden = 256,
        .layers = 1,
        .block = 32,
        .batch = 64,
        .steps = 5 },
      OPTIM_SGD,
      1,
      0.2,
      0.25,
      { 1500, 300, 61 } },
    { "lstm 264 units", /* too many for the cluster kernels */
      { .vocab = 99, .embed = 24, .hidden = 264, .layers = 1, .block = 24, .batch = 6, .steps = 5 },
      OPTIM_SGD,
      1,
      0.2,
      0.25,
      { 1500, 300, 61 } },
    { "lstm 40000 words", /* the softmax reads its row twice */
      { .vocab = 40000, .embed = 16, .hidden = 16, .block = 8, .batch = 3, .steps = 4 },
      OPTIM_SGD,
      1,
      0.2,
      0.25,
      { 900, 61 } },
    { "lstm, more slots than clients",
      { .vocab = 200, .embed = 16, .hidden = 16, .batch = 4, .steps = 5 },
      OPTIM_SGD,
      1,
      0.2,
      0.25,
      { 700, 61 },
      .slots = 9 },
    { "lstm of the paper",
      { .vocab = 33278, .batch = 20, .steps = 35 },
      OPTIM_SGD,
      20,
      0.2,
      0.25,
      { 21000, 14000, 12000 },
      true },
    { "lstm of the paper, block 32",
      { .vocab = 33278, .block = 32, .batch = 20, .steps = 35 },
      OPTIM_SGD,
      20,
      0.2,
      0.25,
      { 21000, 14000, 12000 },
      true },
    { "transformer of the paper",
      { .body = "transformer", .vocab = 33278, .batch = 20, .steps = 35 },
      OPTIM_SGD,
      0.5, /* at 5 two instruction sets of one CPU differ by up to 6e-3 after ten steps */
      0.2,
      0.25,
      { 21000, 14000, 12000 },
      true },
    { "transformer of the paper, block 32",
      { .body = "transformer", .vocab = 33278, .block = 32, .batch = 20, .steps = 35 },
      OPTIM_SGD,
      0.5, /* at 5 two instruction sets of one CPU differ by up to 6e-3 after ten steps */
      0.2,
      0.25,
      { 21000, 14000, 12000 },
      true },
    /* 2.3e9 parameters and, in an evaluation, 3.7e9 logits: an index of 32 bits would not do */
    { "lstm of the paper, many slots",
      { .vocab = 33278, .batch = 20, .steps = 35 },
      OPTIM_SGD,
      1,
      0.2,
      0.25,
      { 100000, 14000 },
      true,
      .slots = 160 },
};

typedef struct world {
    const kase *k;
    const char *precision;
    lm_config model;
    pool *pool;
    float *theta;
    size_t count;
    uint32_t clients;
    uint32_t *words[CLIENTS];
    train_steps how[CLIENTS];
    engine *gpu, *cpu; /* cpu: one slot, taken client by client */
    uint32_t first;    /* slot of client 0 in sums */
    int failed;
} world;

static void bad(world *w, const char *what, double got, double want)
{
    w->failed++;
    printf("    FAILED %s: %.9g, wanted %.9g\n", what, got, want);
}

static void broke(world *w, const char *what)
{
    w->failed++;
    printf("    FAILED %s: %s\n", what, sefl_last_error());
}

#define DO(call)                 \
    do {                         \
        if ((call) != SEFL_OK) { \
            broke(w, #call);     \
            return;              \
        }                        \
    } while (0)

/* bf16 products: three significant digits. */
static bool is_fp32(const world *w)
{
    return strcmp(w->precision, "fp32") == 0;
}

static void near(world *w, const char *what, double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fmax(fabs(want), 1e-6)))
        bad(w, what, got, want);
}

/* |a - b| as vectors; b may be NULL for zeros. */
static double apart(const float *a, const float *b, size_t n)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (b ? (double)b[i] : 0);
        squares += d * d;
    }
    return sqrt(squares);
}

/* |got - want| over |want| */
static double distance(const float *got, const float *want, size_t n)
{
    return apart(got, want, n) / (apart(want, NULL, n) + 1e-30);
}

static sefl_status world_open(world *w, const kase *k, const char *device, const char *precision)
{
    sefl_status st = SEFL_OK;
    lm *m = NULL;
    seeded g;
    *w = (world){ .k = k, .precision = precision, .model = k->model };
    SEFL_TRY(lm_config_check(&w->model));
    SEFL_TRY(pool_new(&w->pool, 0));
    lm_config small = w->model;
    small.batch = small.steps = 1;
    SEFL_TRY(lm_new(&m, &small, NULL));
    lm_init(m, 11);
    w->count = lm_count(m);
    SEFL_TRY(sefl_new(&w->theta, w->count, sizeof *w->theta));
    memcpy(w->theta, lm_theta(m), w->count * sizeof *w->theta);
    for (; w->clients < CLIENTS && k->n[w->clients]; w->clients++) {
        uint32_t c = w->clients, n = k->n[c];
        SEFL_TRY(sefl_new(&w->words[c], n, sizeof **w->words));
        seeded_init(&g, c, "text");
        for (uint32_t i = 0; i < n; i++) {
            double u = seeded_unit(&g);
            w->words[c][i] = i > 0 && u < 0.6 ? (w->words[c][i - 1] * 3 + 1) % w->model.vocab
                                              : (uint32_t)(u * u * u * w->model.vocab);
        }
        w->how[c] = (train_steps){ .words = w->words[c],
                                   .n = n,
                                   .text = c + 1,
                                   .columns = w->model.batch,
                                   .steps = w->model.steps,
                                   .limit = STEPS,
                                   .lr = k->lr,
                                   .lr_decay = 0.9,
                                   .clip = k->clip,
                                   .dropout.rate = k->dropout };
        lm_dropout_key(w->how[c].dropout.key, c);
    }
    engine_config ec = { .device = device,
                         .precision = precision,
                         .model = &w->model,
                         .optim = { .kind = k->optim, .weight_decay = k->weight_decay },
                         .slots = k->slots ? k->slots : w->clients,
                         .pool = w->pool };
    SEFL_TRY(engine_new(&w->gpu, &ec));
    ec.device = "cpu";
    SEFL_TRY(engine_new(&w->cpu, &ec));
    SEFL_TRY(engine_theta(w->gpu, w->theta));
    SEFL_TRY(engine_theta(w->cpu, w->theta));
done:
    lm_free(m);
    return st;
}

static void world_close(world *w)
{
    engine_free(w->gpu);
    engine_free(w->cpu);
    for (uint32_t c = 0; c < CLIENTS; c++)
        sefl_free(w->words[c]);
    sefl_free(w->theta);
    pool_free(w->pool);
}

static sefl_status part(engine *e, uint32_t slot, uint32_t which, float **out, size_t n)
{
    SEFL_PASS(sefl_new(out, n, sizeof **out));
    return n > 0 ? engine_read(e, slot, which, *out, n * sizeof **out) : SEFL_OK;
}

/* Compares a part of a client after its steps on both engines. */
static void compare_part(world *w, uint32_t slot, uint32_t which, const char *what, size_t n,
                         double most)
{
    float *a = NULL, *b = NULL;
    if (part(w->gpu, slot, which, &a, n) != SEFL_OK || part(w->cpu, 0, which, &b, n) != SEFL_OK)
        broke(w, what);
    else if (!(distance(a, b, n) <= most))
        bad(w, what, distance(a, b, n), 0);
    sefl_free(a), sefl_free(b);
}

/* Compares the update of each parameter alone: a wrong small one would not show in the whole. A
 * parameter that hardly changes is compared with 1 % of the whole. */
static void compare_params(world *w, uint32_t slot, uint32_t client, double most)
{
    layout l = { 0 };
    float *a = NULL, *b = NULL;
    char what[96];
    sefl_status st = SEFL_OK;
    SEFL_TRY(lm_config_layout(&w->model, &l));
    SEFL_TRY(part(w->gpu, slot, ENGINE_DELTA, &a, l.count));
    SEFL_TRY(part(w->cpu, 0, ENGINE_DELTA, &b, l.count));
    const double whole = apart(b, NULL, l.count);
    for (size_t i = 0; i < l.n; i++) {
        const layout_tensor *t = &l.tensor[i];
        const float *got = a + t->offset, *want = b + t->offset;
        const double size = apart(want, NULL, t->count);
        const double off = apart(got, want, t->count);
        snprintf(what, sizeof what, "client %u: delta of %.64s", client, t->name);
        if (!(off <= most * (size + 0.01 * whole)))
            bad(w, what, off, 0);
    }
done:
    if (st != SEFL_OK)
        broke(w, "parameters");
    layout_clear(&l);
    sefl_free(a), sefl_free(b);
}

/* Compares evaluations of a client's parameters and of the initial ones. */
static void evaluations(world *w, uint32_t client, uint32_t slot, double most)
{
    const size_t n = w->how[0].n - 3;
    char what[64];
    for (int base = 0; base < 2; base++) {
        double gpu, cpu;
        DO(engine_evaluate(w->gpu, base ? ENGINE_BASE : slot, w->words[0], n, 99, &gpu, NULL));
        DO(engine_evaluate(w->cpu, base ? ENGINE_BASE : 0, w->words[0], n, 99, &cpu, NULL));
        snprintf(what, sizeof what, "client %u: evaluation %d", client, base);
        near(w, what, gpu, cpu, most);
    }
}

/* Runs ten steps of all clients in parallel and compares each step's losses, then all parts. */
static void train(world *w)
{
    static engine_progress on_gpu[STEPS + 1][CLIENTS];
    const double loss_most = is_fp32(w) ? 1e-4 : 2e-2,
                 part_most = !is_fp32(w)   ? 0.2
                             : w->k->large ? 2e-2
                                           : 2e-3; /* rounding grows with steps */
    uint32_t slots = engine_get_facts(w->gpu)->slots;
    char what[64];
    for (uint32_t from = 0; from < w->clients; from += slots) {
        uint32_t n = w->clients - from < slots ? w->clients - from : slots;
        for (uint32_t i = 0; i < n; i++)
            DO(engine_start(w->gpu, i, &w->how[from + i]));
        for (uint32_t s = 0; s <= STEPS; s++) {
            double mean;
            DO(engine_run(w->gpu, n, 1, on_gpu[s]));
            if (s == STEPS / 2) /* an evaluation does not disturb training */
                DO(engine_evaluate(w->gpu, 0, w->words[0], w->how[0].n - 3, 99, &mean, NULL));
        }
        for (uint32_t i = 0; i < n; i++) {
            engine_progress p;
            DO(engine_start(w->cpu, 0, &w->how[from + i]));
            for (uint32_t s = 0; s <= STEPS; s++) {
                const engine_progress *g = &on_gpu[s][i];
                DO(engine_run(w->cpu, 1, 1, &p));
                snprintf(what, sizeof what, "client %u, step %u: loss", from + i, s + 1);
                near(w, what, g->loss, p.loss, loss_most);
                if (g->words != p.words || g->at.done != p.at.done || g->at.epoch != p.at.epoch ||
                    g->at.row != p.at.row || g->at.optimiser_steps != p.at.optimiser_steps ||
                    g->finished != p.finished || g->diverged != p.diverged) {
                    snprintf(what, sizeof what, "client %u, step %u: cursor", from + i, s + 1);
                    bad(w, what, (double)g->at.row, (double)p.at.row);
                }
                if (p.words > 0) {
                    snprintf(what, sizeof what, "client %u, step %u: norm", from + i, s + 1);
                    near(w, what, g->norm, p.norm, 20 * loss_most);
                }
            }
            snprintf(what, sizeof what, "client %u: theta", from + i);
            compare_part(w, i, ENGINE_THETA, what, w->count, part_most);
            snprintf(what, sizeof what, "client %u: delta", from + i);
            compare_part(w, i, ENGINE_DELTA, what, w->count, part_most);
            snprintf(what, sizeof what, "client %u: state", from + i);
            compare_part(w, i, ENGINE_STATE, what, lm_state_count(&w->model), 2 * part_most);
            snprintf(what, sizeof what, "client %u: optimiser", from + i);
            compare_part(w, i, ENGINE_OPTIM, what, optim_state_count(w->k->optim, w->count),
                         part_most);
            if (is_fp32(w))
                compare_params(w, i, from + i, 5 * part_most);
            evaluations(w, from + i, i, loss_most);
            compare_part(w, i, ENGINE_THETA, "theta after evaluation", w->count, part_most);
        }
    }
}

/* Trains n clients at once with engine_train and reads each theta into out. */
static sefl_status all_at_once(world *w, uint32_t n, float *out)
{
    engine_progress p[CLIENTS];
    for (uint32_t i = 0; i < n; i++)
        SEFL_PASS(engine_start(w->gpu, i, &w->how[i]));
    SEFL_PASS(engine_train(w->gpu, n, p, NULL));
    for (uint32_t i = 0; i < n; i++)
        SEFL_PASS(engine_read(w->gpu, i, ENGINE_THETA, out + i * w->count, w->count * sizeof *out));
    return SEFL_OK;
}

static void repeat(world *w)
{
    uint32_t slots = engine_get_facts(w->gpu)->slots, n = w->clients < slots ? w->clients : slots;
    float *a = NULL, *b = NULL;
    if (sefl_new(&a, n * w->count, sizeof *a) != SEFL_OK ||
        sefl_new(&b, n * w->count, sizeof *b) != SEFL_OK || all_at_once(w, n, a) != SEFL_OK ||
        all_at_once(w, n, b) != SEFL_OK)
        broke(w, "two runs");
    else if (memcmp(a, b, n * w->count * sizeof *a) != 0)
        bad(w, "two runs, same bytes", distance(a, b, n * w->count), 0);
    sefl_free(a), sefl_free(b);
}

/* Adds the noise that engine_noise describes. */
static sefl_status plain_noise(int64_t *sum, size_t total, const engine_noise *how)
{
    const dgauss law = { .num = how->num, .den = how->den, .t = how->t };
    seeded coins = { 0 }, piece;
    memcpy(coins.key, how->key, sizeof coins.key);
    for (size_t at = 0, p = 1; at < total; at += ENGINE_NOISE_PIECE, p++) {
        int64_t x[ENGINE_NOISE_PIECE];
        size_t n = total - at < ENGINE_NOISE_PIECE ? total - at : ENGINE_NOISE_PIECE;
        seeded_piece(&piece, &coins, p);
        sefl_rng rng = seeded_rng(&piece);
        SEFL_PASS(dgauss_fill_vartime(&law, x, n, &rng));
        for (size_t i = 0; i < n; i++)
            sum[at + i] += x[i];
    }
    return SEFL_OK;
}

/* Adds client i's update v as the CPU would: to want as doubles, or to sum as integers. `one` has
 * room for the integers. */
static sefl_status plain_update(const world *w, const engine_sum *how, const engine_share *share,
                                dp_weight weight, const float *v, int64_t *one, double *want,
                                int64_t *sum)
{
    const size_t total = w->count + how->has_weight;
    const dp_weight *slot = how->has_weight ? &weight : NULL;
    seeded g = { .used = 64 };
    memcpy(g.key, share->coins, sizeof g.key);
    sefl_rng rng = seeded_rng(&g);
    dp_grid grid = {
        .clip = how->clip, .dim = total, .q = how->q, .value_max = how->value_max, .s2 = how->s2
    };
    dp_plain_grid plain = { how->clip, how->q, how->value_max };
    if (!how->integers) {
        double norm;
        SEFL_PASS(dp_norm(&norm, v, w->count));
        const double scale = how->clip > 0 && norm > how->clip ? how->clip / norm : 1;
        for (size_t k = 0; k < w->count; k++)
            want[k] += share->weight * scale * v[k];
        return SEFL_OK;
    }
    SEFL_PASS(how->s2 > 0 ? dp_quantise(one, NULL, &grid, v, w->count, slot, &rng)
                          : dp_quantise_plain(one, &plain, v, w->count, slot, &rng));
    for (size_t k = 0; k < total; k++)
        sum[k] += one[k];
    return SEFL_OK;
}

/* Compares sums of the updates in the slots from w->first on; noise: NULL for none. */
static void add_up(world *w, const engine_sum *how, const engine_noise *noise, const char *what)
{
    uint32_t slots = engine_get_facts(w->gpu)->slots, n = w->clients < slots ? w->clients : slots;
    const size_t total = w->count + (how->integers ? how->has_weight : 0);
    engine_share share[CLIENTS] = { 0 };
    float *v = NULL;
    double *want = NULL, *got = NULL;
    int64_t *sum = NULL, *one = NULL;
    sefl_status st = SEFL_OK;
    if (!engine_can_sum(w->gpu)) {
        printf("    the engine has no sums\n");
        return;
    }
    SEFL_TRY(sefl_new(&v, w->count, sizeof *v));
    SEFL_TRY(sefl_new(&want, total, sizeof *want));
    SEFL_TRY(sefl_new(&got, total, sizeof *got));
    SEFL_TRY(sefl_new(&sum, total, sizeof *sum));
    SEFL_TRY(sefl_new(&one, total, sizeof *one));
    for (uint32_t i = 0; i < n; i++) {
        seeded g;
        share[i] = (engine_share){ .slot = w->first + i, .zeros = i == 1, .weight = (i + 1.0) / n };
        seeded_init(&g, i, "coins");
        memcpy(share[i].coins, g.key, sizeof g.key);
        if (share[i].zeros)
            continue;
        SEFL_TRY(engine_read(w->gpu, share[i].slot, ENGINE_DELTA, v, w->count * sizeof *v));
        SEFL_TRY(plain_update(w, how, &share[i], (dp_weight){ i + 1, n }, v, one, want, sum));
    }
    if (noise)
        SEFL_TRY(plain_noise(sum, total, noise));
    SEFL_TRY(engine_sum_begin(w->gpu, how));
    SEFL_TRY(engine_sum_add(w->gpu, share, n / 2)); /* in two groups */
    SEFL_TRY(engine_sum_add(w->gpu, share + n / 2, n - n / 2));
    if (noise)
        SEFL_TRY(engine_sum_noise(w->gpu, noise));
    SEFL_TRY(engine_sum_end(w->gpu, how->integers ? (void *)one : (void *)got, total * 8));
    for (size_t k = 0; k < total; k++) {
        bool same = how->integers ? one[k] == sum[k]
                                  : fabs(got[k] - want[k]) <= 1e-12 * fabs(want[k]) + 1e-18;
        if (!same) {
            bad(w, what, how->integers ? (double)one[k] : got[k],
                how->integers ? (double)sum[k] : want[k]);
            break;
        }
    }
done:
    if (st != SEFL_OK)
        broke(w, what);
    sefl_free(v), sefl_free(want), sefl_free(got), sefl_free(sum), sefl_free(one);
}

static void sums(world *w)
{
    add_up(w, &(engine_sum){ 0 }, NULL, "float sum");
    add_up(w, &(engine_sum){ .clip = 0.05 }, NULL, "float sum, clipped");
    engine_sum how = { .integers = 1, .clip = 0.5, .q = 0.5 / 65536, .value_max = 1 << 20 };
    add_up(w, &how, NULL, "integer sum");
    how.has_weight = 1;
    add_up(w, &how, NULL, "integer sum with weights");
    how.value_max = 40;
    add_up(w, &how, NULL, "integer sum, limited coordinates");
    how.value_max = 1 << 20;
    how.s2 = (uint64_t)65536 * 65536 + 65536ull * 40;
    add_up(w, &how, NULL, "integer sum under a bound");
    how.s2 = (uint64_t)(0.98 * 65536) * (uint64_t)(0.98 * 65536); /* retries with a smaller scale */
    how.has_weight = 0;
    add_up(w, &how, NULL, "integer sum under a tight bound");
    static const uint64_t variance[][2] = {
        { 1, 1 }, { 3, 65536 }, { 1000003, 1 }, { UINT64_C(1) << 50, 3 }
    };
    for (size_t i = 0; i < sizeof variance / sizeof variance[0]; i++) {
        dgauss law;
        engine_noise noise = { .key = { 1, 2, 3, 4, 5, 6, 7, (uint32_t)i } };
        how.has_weight = i % 2;
        if (dgauss_init(&law, variance[i][0], variance[i][1]) != SEFL_OK) {
            broke(w, "noise");
            return;
        }
        noise.num = law.num, noise.den = law.den, noise.t = law.t;
        add_up(w, &how, &noise, "integer sum with noise");
    }
}

/* Runs all slots with the clients' jobs in turn: the last slots end like the first ones. Then adds
 * up the last ones. */
static void many(world *w)
{
    const uint32_t slots = engine_get_facts(w->gpu)->slots;
    float *first = NULL, *other = NULL;
    engine_progress *p = NULL;
    char what[64];
    sefl_status st = SEFL_OK;
    SEFL_TRY(sefl_new(&p, slots, sizeof *p));
    for (uint32_t i = 0; i < slots; i++)
        SEFL_TRY(engine_start(w->gpu, i, &w->how[i % w->clients]));
    SEFL_TRY(engine_train(w->gpu, slots, p, NULL));
    for (uint32_t c = 0; c < w->clients; c++) {
        SEFL_TRY(part(w->gpu, c, ENGINE_DELTA, &first, w->count));
        for (uint32_t i = c + w->clients; i < slots; i += w->clients) {
            SEFL_TRY(part(w->gpu, i, ENGINE_DELTA, &other, w->count));
            snprintf(what, sizeof what, "slot %u like slot %u", i, c);
            if (!(distance(other, first, w->count) <= 1e-2))
                bad(w, what, distance(other, first, w->count), 0);
            sefl_free(other), other = NULL;
        }
        sefl_free(first), first = NULL;
    }
    w->first = slots - w->clients;
    add_up(w, &(engine_sum){ .clip = 0.05 }, NULL, "float sum of the last slots");
    add_up(w, &(engine_sum){ .integers = 1, .clip = 0.5, .q = 0.5 / 65536, .value_max = 1 << 20 },
           NULL, "integer sum of the last slots");
    w->first = 0;
done:
    if (st != SEFL_OK)
        broke(w, "many slots");
    sefl_free(first), sefl_free(other), sefl_free(p);
}

/* Runs half of the steps on the CPU and the rest on the GPU, through a checkpoint. */
static void checkpoint(world *w)
{
    sefl_buf b = { 0 };
    train_steps how = w->how[0];
    engine_progress p;
    sefl_status st = SEFL_OK;
    how.limit = STEPS / 2;
    SEFL_TRY(engine_start(w->cpu, 0, &how));
    SEFL_TRY(engine_train(w->cpu, 1, &p, NULL));
    SEFL_TRY(engine_save(w->cpu, 0, &b, &how, 0));
    how.limit = STEPS;
    SEFL_TRY(engine_start(w->cpu, 0, &how));
    SEFL_TRY(engine_load(w->cpu, 0, buf_span(&b), &how, 0));
    SEFL_TRY(engine_train(w->cpu, 1, &p, NULL));
    SEFL_TRY(engine_start(w->gpu, 0, &how));
    SEFL_TRY(engine_load(w->gpu, 0, buf_span(&b), &how, 0));
    double want = p.loss;
    SEFL_TRY(engine_train(w->gpu, 1, &p, NULL));
    near(w, "loss after a checkpoint", p.loss, want, is_fp32(w) ? 1e-4 : 2e-2);
    compare_part(w, 0, ENGINE_THETA, "theta after a checkpoint", w->count, is_fp32(w) ? 2e-3 : 0.2);
done:
    if (st != SEFL_OK)
        broke(w, "checkpoint");
    buf_clear(&b);
}

/* One slot diverges: it reports that, and the other slots' bytes do not change. */
static void diverge(world *w)
{
    engine_progress p[2];
    train_steps how[2] = { w->how[0], w->how[1] };
    float *alone = NULL, *beside = NULL;
    sefl_status st = SEFL_OK;
    if (engine_get_facts(w->gpu)->slots < 2 || w->k->weight_decay > 0) /* its lr is bounded */
        return;
    for (int with = 0; with < 2; with++) {
        how[1].lr = with ? 1e30 : w->k->lr;
        how[1].clip = 0;
        for (uint32_t i = 0; i < 2; i++)
            SEFL_TRY(engine_start(w->gpu, i, &how[i]));
        SEFL_TRY(engine_train(w->gpu, 2, p, NULL));
        SEFL_TRY(part(w->gpu, 0, ENGINE_THETA, with ? &beside : &alone, w->count));
    }
    if (!p[1].diverged || p[0].diverged || p[1].at.done >= STEPS)
        bad(w, "divergence noticed", p[1].diverged, 1);
    if (memcmp(alone, beside, w->count * sizeof *alone) != 0)
        bad(w, "the slot beside a diverged one", distance(beside, alone, w->count), 0);
done:
    if (st != SEFL_OK)
        broke(w, "divergence");
    sefl_free(alone), sefl_free(beside);
}

int main(int argc, char **argv)
{
    const char *only = "", *precision = "fp32";
    bool large = false;
    int failed = 0, ran = 0;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--large") == 0)
            large = true;
        else if (strcmp(argv[i], "--precision") == 0 && i + 1 < argc)
            precision = argv[++i];
        else
            only = argv[i];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const kase *k = &cases[i];
        world w;
        struct timespec a, b;
        if (!strstr(k->name, only) || (k->large && !large))
            continue;
        clock_gettime(CLOCK_MONOTONIC, &a);
        if (world_open(&w, k, "cuda", precision) != SEFL_OK) {
            printf("%s: %s\n", k->name, sefl_last_error());
            world_close(&w);
            return 2;
        }
        if (ran++ == 0)
            printf("%s\n", engine_name(w.gpu));
        printf("%s (%u slots, %.1f MB)\n", k->name, engine_get_facts(w.gpu)->slots,
               (double)engine_get_facts(w.gpu)->memory / 1e6);
        train(&w);
        repeat(&w);
        sums(&w);
        checkpoint(&w);
        diverge(&w);
        if (k->slots > 0)
            many(&w);
        clock_gettime(CLOCK_MONOTONIC, &b);
        printf("  %s  %.1f s\n", w.failed ? "FAILED" : "passed",
               (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
        failed += w.failed > 0;
        world_close(&w);
    }
    printf("%d cases, %d failed\n", ran, failed);
    return failed > 0 || ran == 0;
}
