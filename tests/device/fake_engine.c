/* A GPU plugin without a GPU: every slot is a CPU engine, and sums are the plain loops of
 * simulate/work.c. Tests open it instead of libsefl_cuda.so (SEFL_CUDA_PLUGIN), so that the plugin
 * loader and the simulator's path for groups run on every machine.
 *
 * SEFL_FAKE_SLOTS: maximum number of slots (4). SEFL_FAKE: "abi" (another version), "none" (no
 * device), "lost" (the device fails at the third run). */
#include "base/alloc.h"
#include "model/engine/engine_inside.h"
#include "privacy/mechanism/dgauss.h"
#include "privacy/mechanism/quantise.h"
#include "seeded/seeded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MAX = 64 };

typedef struct fake {
    void *slot[SLOTS_MAX];
    uint32_t slots;
    uint64_t count, runs;
    void (*note)(const char *message);
    engine_sum how;
    double *floats;
    int64_t *integers, *one;
    float *delta;
} fake;

static bool mood(const char *word)
{
    const char *now = getenv("SEFL_FAKE");
    return now && strcmp(now, word) == 0;
}

/* The plugin has its own copy of the message; setup->note passes it to the host. */
static sefl_status told(const fake *f, sefl_status st)
{
    if (st != SEFL_OK)
        f->note(sefl_last_error());
    return st;
}

static void fake_close(void *self)
{
    fake *f = self;
    for (uint32_t i = 0; f && i < f->slots; i++)
        engine_cpu.close(f->slot[i]);
    if (f) {
        sefl_free(f->floats);
        sefl_free(f->integers);
        sefl_free(f->one);
        sefl_free(f->delta);
    }
    sefl_free(f);
}

static lm_config model_of(const engine_setup *s)
{
    const uint32_t dec = s->tied ? 0 : s->params - 2; /* after the body; its bias is last */
    return (lm_config){ .body = lm_body_name((lm_body_kind)s->body),
                        .vocab = s->vocab,
                        .embed = s->embed,
                        .hidden = s->hidden,
                        .layers = s->layers,
                        .heads = s->heads,
                        .block = s->param[1].block,
                        .block_embed = s->param[0].block,
                        .block_decoder = s->param[dec].block,
                        .tied = s->tied,
                        .batch = s->batch,
                        .steps = s->steps };
}

static optim_config optim_of(const engine_setup *s)
{
    return (optim_config){ .kind = (optim_kind)s->optimiser,
                           .momentum = s->momentum,
                           .beta1 = s->beta1,
                           .beta2 = s->beta2,
                           .epsilon = s->epsilon,
                           .weight_decay = s->weight_decay };
}

static sefl_status open_slots(fake *f, const engine_setup *setup, engine_facts *facts)
{
    const char *most = getenv("SEFL_FAKE_SLOTS");
    const uint32_t limit = most ? (uint32_t)strtoul(most, NULL, 10) : 4;
    const lm_config model = model_of(setup);
    const engine_cpu_setup own = { .setup = *setup, .model = &model, .optim = optim_of(setup) };
    SEFL_NEED(!mood("none"), SEFL_ENOTFOUND, "no GPU was found");
    SEFL_PASS(sefl_new(&f->floats, f->count, sizeof *f->floats));
    SEFL_PASS(sefl_new(&f->integers, f->count + 1, sizeof *f->integers));
    SEFL_PASS(sefl_new(&f->one, f->count + 1, sizeof *f->one));
    SEFL_PASS(sefl_new(&f->delta, f->count, sizeof *f->delta));
    engine_facts one = { 0 };
    for (; f->slots < setup->slots && f->slots < limit && f->slots < SLOTS_MAX; f->slots++)
        SEFL_PASS(engine_cpu.open(&f->slot[f->slots], &own.setup, &one));
    *facts = (engine_facts){ .slots = f->slots, .memory = f->slots * one.memory };
    snprintf(facts->device, sizeof facts->device, "a pretended GPU");
    return SEFL_OK;
}

static sefl_status fake_open(void **self, const engine_setup *setup, engine_facts *facts)
{
    fake *f = NULL;
    sefl_status st = sefl_new(&f, 1, sizeof *f);
    *self = NULL;
    if (st != SEFL_OK) {
        setup->note(sefl_last_error());
        return st;
    }
    f->note = setup->note;
    f->count = setup->count;
    st = told(f, open_slots(f, setup, facts));
    if (st == SEFL_OK)
        *self = f;
    else
        fake_close(f);
    return st;
}

static sefl_status fake_theta(void *self, const float *theta)
{
    fake *f = self;
    for (uint32_t i = 0; i < f->slots; i++)
        SEFL_PASS(told(f, engine_cpu.theta(f->slot[i], theta)));
    return SEFL_OK;
}

static sefl_status fake_start(void *self, uint32_t slot, const train_steps *how)
{
    fake *f = self;
    return told(f, engine_cpu.start(f->slot[slot], 0, how));
}

static sefl_status fake_run(void *self, uint32_t slots, uint64_t steps, engine_progress *out)
{
    fake *f = self;
    if (mood("lost") && ++f->runs == 3)
        return told(f, sefl_fail(SEFL_ESTATE, "the device was lost"));
    for (uint32_t i = 0; i < slots; i++)
        SEFL_PASS(told(f, engine_cpu.run(f->slot[i], 1, steps, &out[i])));
    return SEFL_OK;
}

static sefl_status fake_read(void *self, uint32_t slot, uint32_t part, void *out, size_t bytes)
{
    fake *f = self;
    return told(f, engine_cpu.read(f->slot[slot], 0, part, out, bytes));
}

static sefl_status fake_write(void *self, uint32_t slot, uint32_t part, const void *in,
                              size_t bytes)
{
    fake *f = self;
    return told(f, engine_cpu.write(f->slot[slot], 0, part, in, bytes));
}

static sefl_status fake_evaluate(void *self, uint32_t slot, const uint32_t *words, uint64_t n,
                                 uint64_t text, double *loss, uint64_t *counted)
{
    fake *f = self;
    void *on = f->slot[slot == ENGINE_BASE ? 0 : slot];
    return told(
        f, engine_cpu.evaluate(on, slot == ENGINE_BASE ? slot : 0, words, n, text, loss, counted));
}

static sefl_status fake_sum_begin(void *self, const engine_sum *how)
{
    fake *f = self;
    f->how = *how;
    memset(f->floats, 0, f->count * sizeof *f->floats);
    memset(f->integers, 0, (f->count + 1) * sizeof *f->integers);
    return SEFL_OK;
}

static void add_floats(fake *f, const engine_share *s)
{
    double scale = 1, norm;
    if (f->how.clip > 0 && dp_norm(&norm, f->delta, f->count) == SEFL_OK && norm > f->how.clip)
        scale = f->how.clip / norm;
    for (size_t i = 0; i < f->count; i++)
        f->floats[i] += s->weight * scale * (double)f->delta[i];
}

/* Finds the fraction with the smallest divisor whose quotient is w. */
static dp_weight fraction(double w)
{
    dp_weight f = { .items_cap = 1 };
    for (;; f.items_cap++) {
        f.items = (uint64_t)(w * (double)f.items_cap + 0.5);
        if ((double)f.items / (double)f.items_cap == w)
            return f;
    }
}

static sefl_status add_integers(fake *f, const engine_share *s)
{
    const engine_sum *how = &f->how;
    const size_t total = f->count + how->has_weight;
    const dp_weight weight = fraction(s->weight);
    seeded g = { .used = 64 };
    memcpy(g.key, s->coins, sizeof g.key);
    sefl_rng rng = seeded_rng(&g);
    if (how->s2 > 0)
        SEFL_PASS(dp_quantise(f->one, NULL,
                              &(dp_grid){ .clip = how->clip,
                                          .dim = total,
                                          .q = how->q,
                                          .value_max = how->value_max,
                                          .s2 = how->s2 },
                              f->delta, f->count, how->has_weight ? &weight : NULL, &rng));
    else
        SEFL_PASS(dp_quantise_plain(f->one, &(dp_plain_grid){ how->clip, how->q, how->value_max },
                                    f->delta, f->count, how->has_weight ? &weight : NULL, &rng));
    for (size_t i = 0; i < total; i++)
        f->integers[i] += f->one[i];
    return SEFL_OK;
}

static sefl_status fake_sum_add(void *self, const engine_share *share, uint32_t n)
{
    fake *f = self;
    for (uint32_t i = 0; i < n; i++) {
        if (share[i].zeros)
            continue;
        SEFL_PASS(fake_read(f, share[i].slot, ENGINE_DELTA, f->delta, f->count * sizeof(float)));
        for (size_t k = 0; k < f->count; k++)
            if (!isfinite(f->delta[k]))
                return told(f, sefl_fail(SEFL_ERANGE, "an update is not finite"));
    }
    for (uint32_t i = 0; i < n; i++) {
        if (share[i].zeros)
            continue;
        SEFL_PASS(fake_read(f, share[i].slot, ENGINE_DELTA, f->delta, f->count * sizeof(float)));
        if (f->how.integers)
            SEFL_PASS(told(f, add_integers(f, &share[i])));
        else
            add_floats(f, &share[i]);
    }
    return SEFL_OK;
}

static sefl_status fake_sum_noise(void *self, const engine_noise *how)
{
    fake *f = self;
    const dgauss law = { .num = how->num, .den = how->den, .t = how->t };
    const size_t total = f->count + f->how.has_weight;
    seeded coins = { 0 }, piece;
    memcpy(coins.key, how->key, sizeof coins.key);
    for (size_t at = 0, p = 1; at < total; at += ENGINE_NOISE_PIECE, p++) {
        int64_t x[ENGINE_NOISE_PIECE];
        size_t n = total - at < ENGINE_NOISE_PIECE ? total - at : ENGINE_NOISE_PIECE;
        seeded_piece(&piece, &coins, p);
        sefl_rng rng = seeded_rng(&piece);
        SEFL_PASS(told(f, dgauss_fill_vartime(&law, x, n, &rng)));
        for (size_t i = 0; i < n; i++)
            f->integers[at + i] += x[i];
    }
    return SEFL_OK;
}

static sefl_status fake_sum_end(void *self, void *out, size_t bytes)
{
    fake *f = self;
    size_t want = f->how.integers ? (f->count + f->how.has_weight) * sizeof *f->integers
                                  : f->count * sizeof *f->floats;
    if (bytes != want)
        return told(f, sefl_fail(SEFL_EINVAL, "a sum of %zu bytes, not %zu", want, bytes));
    memcpy(out, f->how.integers ? (const void *)f->integers : f->floats, bytes);
    return SEFL_OK;
}

static sefl_status fake_times(void *self, int on, engine_time *out, uint32_t *n)
{
    (void)self;
    *n = !on && *n > 0;
    if (*n)
        *out = (engine_time){ .name = "all", .seconds = 1, .flop = 2e9, .bytes = 1e9 };
    return SEFL_OK;
}

__attribute__((visibility("default"))) const engine_ops *sefl_engine(void);
const engine_ops *sefl_engine(void)
{
    static const engine_ops table = { .abi = ENGINE_ABI,
                                      .size = sizeof(engine_ops),
                                      .name = "cuda",
                                      .open = fake_open,
                                      .close = fake_close,
                                      .theta = fake_theta,
                                      .start = fake_start,
                                      .run = fake_run,
                                      .read = fake_read,
                                      .write = fake_write,
                                      .evaluate = fake_evaluate,
                                      .sum_begin = fake_sum_begin,
                                      .sum_add = fake_sum_add,
                                      .sum_noise = fake_sum_noise,
                                      .sum_end = fake_sum_end,
                                      .times = fake_times };
    static engine_ops other;
    if (!mood("abi"))
        return &table;
    other = table;
    other.abi = ENGINE_ABI + 1;
    return &other;
}
