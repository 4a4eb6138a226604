/* A small federation's task, words, text and key, for tests of the client. */
#ifndef UPDATE_FIXTURE_H
#define UPDATE_FIXTURE_H

#include "crypto/ahe/ahe.h"
#include "crypto/ahe/paillier.h"
#include "support/check.h"
#include "support/folder.h"
#include "support/paillier_copy.h"

#include "base/alloc.h"
#include "base/file.h"
#include "model/model_open.h"
#include "model/train.h"
#include "protocol/update.h"
#include "roles/client/builtin.h"
#include "roles/client/client_update.h"

#include <string.h>

typedef struct shape {
    const char *scheme; /* "paillier", "pad" */
    const char *seal;   /* pad; NULL: "x25519" */
    task_noise noise;
    task_weights weights;
    task_unit unit;
    uint32_t epochs, steps; /* 0, 0: two epochs */
    double lr;              /* 0: 1 */
    task_schedule schedule; /* over 5 rounds, to a fifth of lr */
} shape;

typedef struct fixture {
    paillier_sec *sec;
    vocab *words;
    corpus text;
    task t;
    char model[512]; /* the round's model */
    round_header header;
    uint8_t client[32];
    sign_key *upload;
    seal_key *csp; /* of the round */
} fixture;

/* Coins by purpose, round and attempt, all different and reproducible. It records names that were
 * used before: no secret coin is drawn twice. */
typedef struct test_coins {
    seeded gen[64];
    char name[64][64];
    size_t n;
    bool repeated;
} test_coins;

static inline sefl_status test_coins_get(void *self, sefl_rng *out, const char *purpose,
                                         uint64_t round, uint64_t attempt)
{
    test_coins *c = self;
    char name[64];
    snprintf(name, sizeof name, "%s %llu %llu", purpose, (unsigned long long)round,
             (unsigned long long)attempt);
    for (size_t i = 0; i < c->n; i++)
        c->repeated = c->repeated || strcmp(c->name[i], name) == 0;
    assert_true(c->n < 64);
    strcpy(c->name[c->n], name);
    seeded_init(&c->gen[c->n], 7, name);
    *out = seeded_rng(&c->gen[c->n++]);
    return SEFL_OK;
}

static inline sefl_coins test_coins_of(test_coins *c)
{
    return (sefl_coins){ .get = test_coins_get, .self = c };
}

static const char fixture_text[] = "the cat sat on the mat\n"
                                   "a dog ran to the cat\n"
                                   "\n"
                                   "the dog sat and the cat ran\n"
                                   "on a mat sat a dog zanzibar\n"
                                   "to the mat ran the dog and a cat and a dog\n";
static const char fixture_words[] = "<unk>\n<eos>\nthe\na\ncat\ndog\nmat\nsat\nran\non\nto\nand\n";

static inline void fixture_words_and_text(fixture *f)
{
    CHECK_OK(vocab_read_over(&f->words, span_of_str(fixture_words), "words",
                             &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    CHECK_OK(corpus_read_over(&f->text, f->words, &(corpus_file){ .path = "text" },
                              span_of_str(fixture_text)));
}

static inline void fixture_task(fixture *f, const shape *s)
{
    task *t = &f->t;
    pack p;
    pack_config pc = { .scheme = strcmp(s->scheme, "pad") == 0 ? PACK_PAD : PACK_PAILLIER,
                       .clients = 10 };
    const ahe_scheme *scheme;
    task_clear(t);
    memset(t->id, 0x5a, sizeof t->id);
    strcpy(t->population, "cats");
    t->model = (lm_config){ .body = "lstm",
                            .vocab = vocab_size(f->words),
                            .embed = 6,
                            .hidden = 6,
                            .layers = 1,
                            .block = 2,
                            .batch = 2,
                            .steps = 5 };
    CHECK_OK(lm_config_layout(&t->model, &t->layout));
    t->params = t->layout.count;
    vocab_hash(f->words, t->vocab_hash);
    t->optim = (optim_config){ .kind = OPTIM_SGD };
    t->lr = s->lr > 0 ? s->lr : 1, t->gradient_clip = 0.25, t->dropout = 0.2;
    t->schedule = s->schedule, t->lr_last = s->schedule ? t->lr / 5 : 0;
    t->local_epochs = s->epochs || s->steps ? s->epochs : 2, t->local_steps = s->steps;
    strcpy(t->clip, "0.5"), strcpy(t->z, s->noise == TASK_NOISE_NONE ? "0" : "0.5");
    t->noise = s->noise, t->weights = s->weights, t->unit = s->unit;
    t->weight_cap = s->weights == TASK_CAPPED ? 100 : 0;
    t->records_max = s->unit == TASK_UNIT_RECORD ? 4 : 0;
    t->record_turns = s->unit == TASK_UNIT_RECORD ? 5 : 0;
    t->record_words = s->unit == TASK_UNIT_RECORD ? 100 : 0;
    t->rounds = 5, t->rate = 1, t->clients_max = 10, t->threshold = 2;
    t->values = t->params + (s->weights == TASK_CAPPED);
    CHECK_OK(pack_decimal(&pc.clip, t->clip));
    CHECK_OK(pack_decimal(&pc.noise, t->z));
    pc.dimension = t->values;
    if (s->unit == TASK_UNIT_RECORD) /* room for so many records a client */
        pc.clients *= t->records_max;
    CHECK_OK(pack_init(&p, &pc));
    if (s->noise != TASK_NOISE_NONE)
        CHECK_OK(dp_grid_init(
            &t->grid,
            &(dp_grid_config){ .z = 0.5, .clip = 0.5, .dim = t->values, .clients = pc.clients }));
    if (s->unit == TASK_UNIT_RECORD) {
        p.clients = 10;
        p.value_max *= t->records_max;
        CHECK_OK(pack_check(&p));
    }
    seal_key_free(f->csp);
    f->csp = NULL;
    f->header = (round_header){ .round = 1 };
    if (pc.scheme == PACK_PAD) {
        static const uint8_t seed[SEAL_SEED] = { 77 };
        t->seal = seal_suite_named(s->seal ? s->seal : "x25519");
        CHECK_OK(seal_key_from(&f->csp, t->seal, seed));
        f->header.suite = t->seal->id;
        f->header.key_bytes = (uint16_t)t->seal->pub_bytes;
        memcpy(f->header.key, seal_key_pub(f->csp).p, t->seal->pub_bytes);
    } else {
        CHECK_OK(paillier_pub_copy(&t->pub, f->sec));
    }
    CHECK_OK(ahe_scheme_find(&scheme, s->scheme));
    CHECK_OK(ahe_params_init(&t->ahe, scheme, &p, t->pub, t->values));
}

/* The model that the round starts from, as a file. change: values from lm_init to others; NULL: none. */
static inline void fixture_model_as(fixture *f, uint64_t seed, void (*change)(lm *m))
{
    lm *m = NULL;
    sefl_buf b = { 0 };
    CHECK_OK(lm_new(&m, &f->t.model, NULL));
    lm_init(m, seed);
    if (change)
        change(m);
    model_meta meta = { .cfg = *lm_get_config(m) };
    model_meta_set_vocab(&meta, f->words);
    snprintf(f->model, sizeof f->model, "%s", folder_path("model.safetensors"));
    CHECK_OK(model_write(f->model, &meta, lm_theta(m)));
    CHECK_OK(file_read(&b, f->model, 1 << 20));
    sha256_of(f->header.model, buf_span(&b));
    buf_clear(&b);
    lm_free(m);
}

static inline void fixture_model(fixture *f, uint64_t seed)
{
    fixture_model_as(f, seed, NULL);
}

/* The head before the units, read as AS and CSP do: returns the seed that it seals for CSP. */
static inline void fixture_head(const fixture *f, ahe_seed *seed, sefl_span body, uint64_t round)
{
    head h;
    uint8_t units[32], context[AHE_CONTEXT_BYTES];
    size_t n = head_bytes(f->t.seal);
    update_name_of(units, span_of(body.p + n, body.n - n));
    CHECK_OK(head_read(&h, f->t.seal, span_of(body.p, n)));
    assert_memory_equal(h.client, f->client, 32);
    assert_memory_equal(h.units, units, 32);
    CHECK_OK(head_check(&h, f->t.id, round, sign_key_pub(f->upload)));
    CHECK_STATUS(head_check(&h, f->t.id, round + 1, sign_key_pub(f->upload)), SEFL_EAUTH);
    CHECK_OK(head_open(seed->seed, &h, f->csp, f->t.id, round));
    task_upload_context(context, &f->t, round, f->client);
    seed->stream = ahe_seed_stream(context);
}

/* The integers in a body, with the secret key. */
static inline void fixture_open(const fixture *f, int64_t *X, const char *path, uint64_t round)
{
    const ahe_params *p = &f->t.ahe;
    sefl_buf b = { 0 };
    ahe_sum *s = NULL;
    ahe_dec *d = NULL;
    uint8_t seed[AHE_SEED_BYTES] = { 9 }, context[AHE_CONTEXT_BYTES];
    uint8_t *sum = NULL, *masked = NULL, *mask = NULL;
    int64_t *all = NULL;
    CHECK_OK(file_read(&b, path, 64 << 20));
    assert_int_equal(b.n, task_body_bytes(&f->t));
    const uint8_t *units = b.p + update_front_bytes(f->t.seal);
    CHECK_OK(sefl_new(&sum, p->units * p->unit_bytes, 1));
    CHECK_OK(sefl_new(&masked, p->units, p->plain_bytes));
    CHECK_OK(sefl_new(&mask, p->units, p->plain_bytes));
    CHECK_OK(sefl_new(&all, p->units * p->unit_values, sizeof *all));
    CHECK_OK(ahe_sum_new(&s, p, f->t.pub));
    CHECK_OK(ahe_sum_check_units(p, s, units, p->units));
    CHECK_OK(ahe_sum_begin(p, s));
    CHECK_OK(ahe_sum_add_units(p, s, 0, units, p->units, NULL));
    CHECK_OK(ahe_sum_close(p, s));
    CHECK_OK(ahe_sum_write_units(p, s, sum, 0, p->units, seed, NULL));
    task_context(context, &f->t, round);
    CHECK_OK(ahe_dec_new(&d, p, f->t.seal ? NULL : f->sec, context));
    if (f->t.seal) {
        ahe_seed one;
        fixture_head(f, &one, buf_span(&b), round);
        CHECK_OK(ahe_dec_add(p, d, &one, 1, NULL));
    }
    CHECK_OK(ahe_dec_units(p, d, masked, 0, sum, p->units, NULL, NULL));
    CHECK_OK(ahe_mask_units(p, mask, 0, p->units, seed));
    ahe_plain_unmask(p, all, masked, mask, p->units);
    memcpy(X, all, f->t.values * sizeof *X);
    ahe_dec_free(p, d);
    ahe_sum_free(p, s);
    sefl_free(sum), sefl_free(masked), sefl_free(mask), sefl_free(all);
    buf_clear(&b);
}

static inline void fixture_make(fixture *f)
{
    seeded gen;
    seeded_init(&gen, 3, "key");
    sefl_rng rng = seeded_rng(&gen);
    memset(f, 0, sizeof *f);
    memset(f->client, 0x21, sizeof f->client);
    CHECK_OK(paillier_keygen_vartime(&f->sec, 2048, &rng, NULL));
    CHECK_OK(sign_key_new(&f->upload, &rng));
    fixture_words_and_text(f);
}

static inline void fixture_clear(fixture *f)
{
    task_clear(&f->t);
    paillier_sec_free(f->sec);
    sign_key_free(f->upload);
    seal_key_free(f->csp);
    corpus_clear(&f->text);
    vocab_free(f->words);
}

#endif
