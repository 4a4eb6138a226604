#include "paper/table.h"

#include "simulate/experiment.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const paper_body_names[PAPER_BODIES] = { "lstm", "transformer" };

/* ---- hyper-parameters ------------------------------------------------------------------------ */

/* The settings of both models. The text is public: its words are the vocabulary, and its validation
 * part chooses the round that is tested. */
static const char common[] =
    "crypto=clear data.partition=contiguous data.public=true model.embed=200 model.hidden=200 "
    "model.layers=2 model.batch=20 model.steps=35 training.epochs=1 training.dropout=0.2 "
    "rounds.threshold=2 privacy.claim=none models.keep=1 network.exact=true";

/* One list per model: it applies to every run of the model. Of 1,000 clients, each has a hundredth
 * of the text of one of 10, and takes about 3 steps a round: its update is shorter. */
enum { MANY_CLIENTS = 40 };
static const struct {
    unsigned block; /* of the dropout table */
    const char *set, *many;
} models[PAPER_BODIES] = {
    [PAPER_LSTM] = { 8,
                     "training.optimiser=sgd training.lr=20 training.schedule=cosine "
                     "training.lr_last=2 training.gradient_clip=0.25 privacy.clip=60 "
                     "server.step=momentum server.momentum=0.7 server.lr=1",
                     "privacy.clip=10" },
    [PAPER_TRANSFORMER] = { 8,
                            "model.heads=2 training.optimiser=adam training.lr=0.001 "
                            "training.gradient_clip=0.25 privacy.clip=60 server.step=average "
                            "server.lr=1",
                            "privacy.clip=4" },
};

/* What a quick run changes: it takes well below a second. */
static const char quick_set[] = "data.words=400 data.vocab_words=800 model.embed=16 "
                                "model.hidden=16 model.layers=1 model.batch=4 model.steps=10";
enum { QUICK_ROUNDS = 3 };

unsigned paper_block(unsigned body)
{
    return models[body].block;
}

unsigned paper_rounds(bool quick, unsigned rounds)
{
    return quick ? QUICK_ROUNDS : rounds;
}

/* ---- variants -------------------------------------------------------------------------------- */

#define BOTH(words)  \
    {                \
        words, words \
    }

/* A variant that has settings for one model only has no run of the other. */
static const paper_variant variants[] = {
    /* the public start */
    { "public", PAPER_TEXT_PUBLIC },
    { "rest", PAPER_TEXT_REST },
    { "start", PAPER_TEXT_REST, .start = true },
    /* much noise ruins the start unless the clip, and so the noise, is small */
    { "start-clip1", PAPER_TEXT_REST, .start = true, BOTH("privacy.clip=1") },
    /* the real cryptography, and the same run in the clear */
    { "clear" },
    { "full", .set = BOTH("crypto=full") },
    /* better models */
    { "tied", .set = BOTH("model.tied=true") },
    { "server-adam", .set = BOTH("server.step=adam server.lr=0.01") },
    { "linear",
      .set = { "training.schedule=linear", "training.schedule=linear training.lr_last=0.0001" } },
    { "constant", .set = { "training.schedule=constant training.lr_last=0" } },
    { "cosine", .set = { [PAPER_TRANSFORMER] = "training.schedule=cosine "
                                               "training.lr_last=0.0001" } },
    { "warmup", .set = BOTH("training.warmup=2") },
    /* block sizes of the embedding and the decoder; the body has the run's block size */
    { "words32", .set = BOTH("model.block_embed=32 model.block_decoder=32") },
    { "embed32", .set = BOTH("model.block_embed=32") },
    { "decoder32", .set = BOTH("model.block_decoder=32") },
    { "words8", .set = BOTH("model.block_embed=8 model.block_decoder=8") },
    { "frequency", .set = BOTH("vocab.order=frequency") },
    { "appearance", .set = BOTH("vocab.order=appearance") },
};

const paper_variant *paper_variant_named(const char *name)
{
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (strcmp(variants[i].name, name) == 0)
            return &variants[i];
    return NULL;
}

paper_run paper_run_public(const paper_run *r)
{
    return (paper_run){ .figures = PAPER_START,
                        .body = r->body,
                        .protection = "none",
                        .block = r->block,
                        .z = "0",
                        .clients = 1,
                        .rounds = r->rounds,
                        .seed = r->seed,
                        .variant = paper_variant_named("public") };
}

static bool is_for(const paper_variant *v, unsigned body)
{
    return !v || v->set[body] || !v->set[PAPER_BODIES - 1 - body];
}

/* ---- runs ------------------------------------------------------------------------------------ */

enum { BHM = 9999 }; /* paper_block */

/* Every combination of the lists, which end with 0 or NULL, is a run. Seeds vary slowest, then the
 * lists from left to right, then the models. */
typedef struct sweep {
    unsigned figures;
    uint64_t seed, last_seed;
    uint32_t clients, quick_clients; /* quick_clients 0: not in quick mode */
    unsigned rounds;
    const char *protection;
    const unsigned *block;
    const int *dropout; /* percent, ends with -1 */
    const char *const *z;
    const char *variants; /* names; NULL: no variant */
} sweep;

static const unsigned bhm[] = { BHM, 0 }, dense[] = { 1, 0 }, largest[] = { 32, 0 },
                      blocks[] = { 1, 4, 8, 16, 32, 0 }, both[] = { BHM, 1, 0 },
                      larger[] = { BHM, 32, 0 };
static const int all[] = { 0, -1 }, rates[] = { 0, 25, 50, 75, -1 }, most[] = { 90, -1 },
                 fewest[] = { 0, 75, -1 };
/* Noise multipliers. With 10 clients the noise norm exceeds the largest sum from about z = 0.005 on
 * (plan.h), so z_10 is below the range in which noise `joint` has an epsilon (z >= 0.25), but for
 * its last value. z_8 is that of a total epsilon of 8 over 20 rounds at delta = 1e-6 (dp_find_z:
 * 3.089998). z_first to z_last are a bisection. */
static const char *const
    z_0[] = { "0", NULL },
    *const z_10[] = { "0.002", "0.005", "0.001", "0.01", "0.02", "1", NULL },
    *const z_1000[] = { "0.1", "1", NULL }, *const z_8[] = { "3.09", NULL },
    *const z_first[] = { "0.005", NULL }, *const z_next[] = { "0.02", "0.002", NULL },
    *const z_then[] = { "0.03", "0.01", "0.003", "0.001", NULL }, *const z_last[] = { "0.1", NULL },
    *const z_full[] = { "0.01", NULL }, *const z_start[] = { "0", "0.002", "0.01", NULL };
static const char better[] = "tied server-adam linear constant cosine warmup words32 embed32 "
                             "decoder32 frequency appearance";

/* clang-format off */
enum { LONG = PAPER_ROUNDS, SHORT = PAPER_ROUNDS_SHORT };
static const sweep sweeps[] = {
    /* the dropout table; at 90 %, 10 clients would leave one, whose sum is its update */
    { PAPER_DROPOUT, 1, 3, 10, 10, LONG, "sefl", bhm, rates, z_0 },
    { PAPER_DROPOUT, 1, 3, 20, 20, LONG, "sefl", bhm, most, z_0 },
    { PAPER_BLOCKS, 1, 1, 10, 10, LONG, "sefl", blocks, all, z_0 },
    /* perplexity against noise */
    { PAPER_EPSILON, 1, 1, 10, 10, SHORT, "sefl", bhm, all, z_0 },
    { PAPER_EPSILON, 1, 1, 10, 10, SHORT, "sefl", bhm, all, z_10 },
    { PAPER_EPSILON, 1, 1, 10, 10, SHORT, "sefl", dense, all, z_0 },
    { PAPER_EPSILON, 1, 1, 10, 10, SHORT, "sefl", dense, all, z_10 },
    { PAPER_EPSILON, 1, 1, 10, 10, SHORT, "none", dense, all, z_0 },
    { PAPER_EPSILON, 1, 1, 10, 10, SHORT, "cdp", dense, all, z_10 },
    /* the most noise of each cell of the dropout table, by bisection: a run that finished runs
     * decide is not made (limit.h) */
    { PAPER_NOISE, 1, 1, 10, 10, SHORT, "sefl", bhm, rates, z_first },
    { PAPER_NOISE, 1, 1, 10, 10, SHORT, "sefl", bhm, rates, z_next },
    { PAPER_NOISE, 1, 1, 10, 0, SHORT, "sefl", bhm, rates, z_then },
    { PAPER_NOISE, 1, 1, 10, 0, SHORT, "sefl", bhm, rates, z_last },
    /* the real cryptography */
    { PAPER_FULL, 1, 1, 10, 10, 2, "sefl", bhm, fewest, z_0, "clear full" },
    { PAPER_FULL, 1, 1, 10, 10, 2, "sefl", bhm, all, z_full, "clear full" },
    /* a public start */
    { PAPER_START, 1, 1, 1, 1, SHORT, "none", bhm, all, z_0, "public" },
    { PAPER_START, 1, 1, 10, 10, SHORT, "sefl", bhm, all, z_start, "rest start" },
    { PAPER_START, 1, 1, 1000, 40, SHORT, "sefl", bhm, all, z_8, "rest start start-clip1" },
    /* better models */
    { PAPER_MODELS, 1, 1, 10, 10, SHORT, "sefl", larger, all, z_0 },
    { PAPER_MODELS, 1, 1, 10, 10, SHORT, "sefl", bhm, all, z_0, better },
    { PAPER_MODELS, 1, 1, 10, 10, SHORT, "sefl", largest, all, z_0, "words8" },
    { PAPER_MODELS, 1, 1, 10, 10, LONG, "sefl", bhm, all, z_0 },
    { PAPER_MODELS, 1, 1, 10, 10, 2 * LONG, "sefl", bhm, all, z_0 },
    /* many clients */
    { PAPER_EPSILON, 1, 1, 1000, 40, SHORT, "sefl", bhm, all, z_8 },
    { PAPER_EPSILON, 1, 1, 1000, 40, SHORT, "sefl", bhm, all, z_0 },
    { PAPER_EPSILON, 1, 1, 1000, 40, SHORT, "none", dense, all, z_0 },
    { PAPER_EPSILON, 1, 1, 1000, 40, SHORT, "sefl", both, all, z_1000 },
    { PAPER_EPSILON, 1, 1, 1000, 40, SHORT, "cdp", dense, all, z_1000 },
    { PAPER_EPSILON, 1, 1, 1000, 40, SHORT, "sefl", dense, all, z_0 },
    /* the spread of the block sizes */
    { PAPER_BLOCKS, 2, 3, 10, 10, LONG, "sefl", blocks, all, z_0 },
};
/* clang-format on */

/* Adds a run, or its figures to those of the run that has its name. */
static void table_add(paper_table *t, const paper_run *r)
{
    char left[PAPER_NAME_BYTES], right[PAPER_NAME_BYTES];
    size_t i = 0;
    paper_run_name(left, r);
    for (; i < t->n; i++) {
        paper_run_name(right, &t->run[i]);
        if (strcmp(left, right) == 0)
            break;
    }
    assert(i < PAPER_RUNS_MAX);
    if (i == t->n)
        t->run[t->n++] = *r;
    t->run[i].figures |= r->figures;
}

static unsigned words_in(const char *words)
{
    unsigned n = 1;
    for (; *words; words++)
        n += *words == ' ';
    return n;
}

/* Adds a run of each model with each variant that the model has. */
static void add_variants(paper_table *t, const sweep *s, paper_run run)
{
    const unsigned block = run.block;
    const char *names = s->variants;
    char name[SETTING_WORD_BYTES];
    for (unsigned i = 0; i == 0 || (names && i < words_in(names)); i++) {
        run.variant = names ? paper_variant_named(setting_word_at(name, names, i)) : NULL;
        assert(!names || run.variant);
        for (run.body = 0; run.body < PAPER_BODIES; run.body++) {
            run.block = block == BHM ? paper_block(run.body) : block;
            if (is_for(run.variant, run.body))
                table_add(t, &run);
        }
    }
}

static void add_sweep(paper_table *t, const sweep *s, bool quick, uint64_t seed)
{
    paper_run run = { .figures = s->figures,
                      .protection = s->protection,
                      .clients = quick ? s->quick_clients : s->clients,
                      .rounds = paper_rounds(quick, s->rounds),
                      .seed = seed };
    for (const unsigned *block = s->block; *block; block++)
        for (const int *dropout = s->dropout; *dropout >= 0; dropout++)
            for (const char *const *z = s->z; *z; z++) {
                run.block = *block, run.dropout = (unsigned)*dropout, run.z = *z;
                add_variants(t, s, run);
            }
}

void paper_table_make(paper_table *out, bool quick, unsigned figures)
{
    out->n = 0;
    for (const sweep *s = sweeps; s < sweeps + sizeof sweeps / sizeof *sweeps; s++)
        for (uint64_t seed = s->seed; seed <= s->last_seed && (s->figures & figures); seed++)
            if (!quick || (seed <= 2 && s->quick_clients > 0)) /* two seeds show a spread */
                add_sweep(out, s, quick, seed);
}

/* ---- one run --------------------------------------------------------------------------------- */

void paper_run_name(char out[PAPER_NAME_BYTES], const paper_run *r)
{
    snprintf(out, PAPER_NAME_BYTES, "%s-%s-b%u-d%u-z%s-n%" PRIu32 "-r%u-s%" PRIu64 "%s%s",
             paper_body_names[r->body], r->protection, r->block, r->dropout, r->z, r->clients,
             r->rounds, r->seed, r->variant ? "-" : "", r->variant ? r->variant->name : "");
}

static sefl_status put_run(settings *s, const paper_run *r)
{
    char name[PAPER_NAME_BYTES];
    paper_run_name(name, r);
    SEFL_PASS(paper_set(s,
                        "protection=%s name=%s model.body=%s model.block=%u "
                        "network.dropout=%u.%02u clients=%" PRIu32 " rounds.count=%u seed=%" PRIu64,
                        r->protection, name, paper_body_names[r->body], r->block, r->dropout / 100,
                        r->dropout % 100, r->clients, r->rounds, r->seed));
    if (strcmp(r->z, "0") == 0)
        return paper_set(s, "privacy.noise=none");
    /* noise can ruin a model, and further rounds do not help it */
    return paper_set(s, "rounds.patience=8 privacy.noise=" PAPER_RELEASE " privacy.z=%s", r->z);
}

sefl_status paper_run_settings(settings *out, const paper_run *r, const paper_options *o)
{
    sefl_status st = SEFL_OK;
    settings_init(out, experiment_schema());
    SEFL_TRY(put_run(out, r));
    SEFL_TRY(paper_set(out, "%s %s", common, models[r->body].set));
    if (r->clients >= MANY_CLIENTS)
        SEFL_TRY(paper_set(out, "%s", models[r->body].many));
    if (r->variant && r->variant->set[r->body])
        SEFL_TRY(paper_set(out, "%s", r->variant->set[r->body]));
    if (o->quick)
        SEFL_TRY(paper_set(out, "%s", quick_set));
    if (o->over)
        SEFL_TRY(settings_overlay(out, o->over));
    if (o->data)
        SEFL_TRY(settings_setf(out, "--data", "data.path=%s", o->data));
    if (o->device)
        SEFL_TRY(settings_setf(out, "--device", "device=%s", o->device));
    SEFL_TRY(settings_setf(out, "--threads", "threads=%u", o->threads));
done:
    if (st != SEFL_OK)
        settings_clear(out);
    return st;
}
