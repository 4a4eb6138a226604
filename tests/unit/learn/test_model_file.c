/* Model files: what is written reads back the same; mismatches are refused with a reason. */
#include "support/check.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "model/file/safetensors.h"
#include "model/model_open.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static vocab *some_words(unsigned n)
{
    vocab *v = NULL;
    sefl_buf b = { 0 };
    for (unsigned i = 2; i < n; i++)
        CHECK_OK(wr_fmt(&b, "w%u\n", i));
    CHECK_OK(vocab_read_over(&v, buf_span(&b), "words", &(vocab_settings){ .block = 4 }));
    buf_clear(&b);
    return v;
}

static lm *some_model(model_meta *meta, const char *body, uint32_t block, bool tied)
{
    lm *m = NULL;
    lm_config cfg = { .body = body,
                      .vocab = 37,
                      .embed = 10,
                      .hidden = 10,
                      .layers = 2,
                      .heads = 2,
                      .block = block,
                      .tied = tied,
                      .batch = 2,
                      .steps = 3 };
    CHECK_OK(lm_new(&m, &cfg, NULL));
    lm_init(m, 5);
    *meta = (model_meta){ .cfg = *lm_get_config(m) };
    return m;
}

static void round_trips(void **state)
{
    (void)state;
    static const uint32_t blocks[] = { 1, 2, 4, 7, 32 };
    vocab *v = some_words(37);
    for (int kind = 0; kind < 2; kind++)
        for (int tied = 0; tied < 2; tied++)
            for (int i = 0; i < 5; i++) {
                model_meta meta, back;
                lm *m = some_model(&meta, kind ? "transformer" : "lstm", blocks[i], tied), *copy;
                nn_real *theta = NULL;
                size_t count = 0;
                double distance = -1;
                uint8_t hash[SHA256_BYTES], want[SHA256_BYTES];
                model_meta_set_vocab(&meta, v);
                const char *path = folder_path("m"), *dense = folder_path("d");
                CHECK_OK(model_write_hash(path, &meta, lm_theta(m), hash));
                sha256_of(want, span_of(lm_theta(m), lm_count(m) * sizeof(float)));
                assert_memory_equal(hash, want, sizeof hash);
                CHECK_OK(model_read(&back, &theta, &count, path));
                assert_int_equal(count, lm_count(m));
                assert_memory_equal(theta, lm_theta(m), count * sizeof *theta);
                assert_string_equal(back.cfg.body, meta.cfg.body);
                assert_int_equal(back.cfg.block, blocks[i]);
                assert_int_equal(back.cfg.tied, tied);
                assert_int_equal(back.order, VOCAB_INTERLEAVED);
                CHECK_OK(model_check_vocab(&back, v));
                sefl_free(theta);
                CHECK_OK(model_open(&copy, &back, path, 2, 3, NULL));
                assert_memory_equal(lm_theta(copy), lm_theta(m), count * sizeof *theta);
                lm_free(copy);

                /* to PyTorch's names and back: the same values, bit by bit */
                CHECK_OK(model_export(dense, &meta, lm_theta(m)));
                back = (model_meta){ .cfg = { .block = blocks[i], .tied = tied } };
                CHECK_OK(model_import(&back, &theta, &count, &distance, dense));
                assert_int_equal(count, lm_count(m));
                assert_memory_equal(theta, lm_theta(m), count * sizeof *theta);
                assert_true(distance == 0);
                assert_int_equal(back.cfg.vocab, 37);
                assert_int_equal(back.cfg.layers, 2);
                CHECK_OK(model_check_vocab(&back, v));
                sefl_free(theta);
                CHECK_STATUS(model_read(&back, &theta, &count, dense), SEFL_EPROTO);
                assert_non_null(strstr(sefl_last_error(), "not a SEFL model"));
                lm_free(m);
            }
    vocab_free(v);
}

/* Embedding and decoder with block sizes of their own: to a file and back, to PyTorch and back. */
static void mixed_blocks(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++)
        for (int tied = 0; tied < 2; tied++) {
            lm_config cfg = { .body = kind ? "transformer" : "lstm",
                              .vocab = 37,
                              .embed = 10,
                              .hidden = 10,
                              .block = 2,
                              .block_embed = 7,
                              .block_decoder = tied ? 7 : 1,
                              .tied = tied };
            model_meta meta, back;
            lm *m = NULL;
            nn_real *theta = NULL;
            size_t count = 0;
            double distance = -1;
            CHECK_OK(lm_new(&m, &cfg, NULL));
            lm_init(m, 5);
            const layout_tensor *p = lm_layout(m)->tensor;
            assert_int_equal(p[0].block, 7);
            assert_int_equal(p[1].block, 2);
            assert_true(tied || p[lm_layout(m)->n - 2].block == 1);
            meta = (model_meta){ .cfg = *lm_get_config(m) };
            CHECK_OK(model_write(folder_path("m"), &meta, lm_theta(m)));
            CHECK_OK(model_read(&back, &theta, &count, folder_path("m")));
            assert_int_equal(count, lm_count(m));
            assert_memory_equal(theta, lm_theta(m), count * sizeof *theta);
            CHECK_OK(model_check_shape(&back, &cfg));
            sefl_free(theta);
            CHECK_OK(model_export(folder_path("d"), &meta, lm_theta(m)));
            back = (model_meta){ .cfg = { .block = 2,
                                          .block_embed = 7,
                                          .block_decoder = cfg.block_decoder,
                                          .tied = tied } };
            CHECK_OK(model_import(&back, &theta, &count, &distance, folder_path("d")));
            assert_int_equal(count, lm_count(m));
            assert_memory_equal(theta, lm_theta(m), count * sizeof *theta);
            assert_true(distance == 0);
            sefl_free(theta);
            lm_free(m);
        }
}

/* Names and shapes that PyTorch's example has, and values where they belong. */
static void dense_names(void **state)
{
    (void)state;
    static const struct {
        const char *body, *name;
        uint64_t rows, cols;
    } want[] = {
        { "lstm", "encoder.weight", 37, 10 },
        { "lstm", "rnn.weight_ih_l0", 40, 10 },
        { "lstm", "rnn.weight_hh_l1", 40, 10 },
        { "lstm", "rnn.bias_hh_l1", 40, 0 },
        { "lstm", "decoder.weight", 37, 10 },
        { "lstm", "decoder.bias", 37, 0 },
        { "transformer", "transformer_encoder.layers.0.self_attn.in_proj_weight", 30, 10 },
        { "transformer", "transformer_encoder.layers.1.self_attn.out_proj.weight", 10, 10 },
        { "transformer", "transformer_encoder.layers.1.linear1.weight", 10, 10 },
        { "transformer", "transformer_encoder.layers.1.norm2.bias", 10, 0 },
        { "transformer", "decoder.weight", 37, 10 },
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        model_meta meta;
        lm *m = some_model(&meta, want[i].body, 4, true);
        tensors *t = NULL;
        CHECK_OK(model_export(folder_path("d"), &meta, lm_theta(m)));
        CHECK_OK(tensors_open(&t, folder_path("d")));
        const tensor *x = tensors_find(t, want[i].name);
        assert_non_null(x);
        assert_int_equal(x->rank, want[i].cols ? 2 : 1);
        assert_int_equal(x->shape[0], want[i].rows);
        if (want[i].cols)
            assert_int_equal(x->shape[1], want[i].cols);
        float e[370];
        CHECK_OK(tensors_read_f32(t, tensors_find(t, "encoder.weight"), e, 370));
        assert_true(e[1] == (float)lm_theta(m)[1] && e[10] == e[1]); /* Hankel: (1,0) is (0,1) */
        CHECK_OK(tensors_read_f32(t, tensors_find(t, "decoder.weight"), e, 370));
        assert_true(e[1] == (float)lm_theta(m)[1]); /* tied: written twice */
        const tensor *pe = tensors_find(t, "pos_encoder.pe");
        assert_int_equal(pe != NULL, want[i].body[0] == 't');
        if (pe) {
            float *p = malloc(pe->count * sizeof *p);
            assert_non_null(p);
            CHECK_OK(tensors_read_f32(t, pe, p, pe->count));
            assert_true(p[0] == 0 && p[1] == 1 && p[10] == sinf(1) && p[11] == cosf(1));
            free(p);
        }
        tensors_close(t);
        lm_free(m);
    }
}

/* Writes the model file again with one change. */
typedef struct change {
    const char *key, *value; /* metadata; NULL value drops it */
    const char *drop, *rename, *reshape;
    bool flip, nan, more;
} change;

static sefl_status read_changed(const change *c)
{
    sefl_status st = SEFL_OK;
    model_meta meta;
    lm *m = some_model(&meta, "lstm", 4, false);
    tensors *t = NULL;
    tensor_out out[32] = { 0 };
    tensor_meta metas[32];
    float *values[32] = { 0 };
    size_t n = 0, mn = 0, count;
    nn_real *theta = NULL;
    const char *key, *value;
    bool there = false;
    CHECK_OK(model_write(folder_path("base"), &meta, lm_theta(m)));
    CHECK_OK(tensors_open(&t, folder_path("base")));
    for (size_t i = 0; tensors_meta_at(t, i, &key, &value); i++) {
        if (c->key && strcmp(key, c->key) == 0)
            value = c->value, there = true;
        if (value)
            metas[mn++] = (tensor_meta){ key, value };
    }
    if (c->key && c->value && !there)
        metas[mn++] = (tensor_meta){ c->key, c->value };
    for (size_t i = 0; i < tensors_count(t); i++) {
        const tensor *x = tensors_at(t, i);
        if (c->drop && strcmp(x->name, c->drop) == 0)
            continue;
        values[n] = malloc(x->count * sizeof **values + 4);
        assert_non_null(values[n]);
        CHECK_OK(tensors_read_f32(t, x, values[n], x->count));
        if (c->nan && n == 3)
            values[n][2] = NAN;
        if (c->flip && n == 3)
            values[n][2] = -values[n][2];
        out[n] = (tensor_out){ x->name, x->rank, { 0 }, values[n] };
        memcpy(out[n].shape, x->shape, sizeof out[n].shape);
        if (c->rename && strcmp(x->name, c->rename) == 0)
            out[n].name = "other";
        if (c->reshape && strcmp(x->name, c->reshape) == 0)
            out[n].rank = 2, out[n].shape[1] = 1;
        n++;
    }
    static const float one[1];
    if (c->more)
        out[n++] = (tensor_out){ "more", 1, { 1 }, one };
    CHECK_OK(tensors_write(folder_path("changed"), out, n, metas, mn));
    st = model_read(&meta, &theta, &count, folder_path("changed"));
    sefl_free(theta);
    for (size_t i = 0; i < 32; i++)
        free(values[i]);
    tensors_close(t);
    lm_free(m);
    return st;
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        change c;
        sefl_status st;
        const char *why;
    } bad[] = {
        { { .key = "sefl", .value = "model 2" },
          SEFL_EUNSUPPORTED,
          "this program reads \"model 1\"" },
        { { .key = "sefl" }, SEFL_EPROTO, "not a SEFL model" },
        { { .key = "model", .value = "gru" }, SEFL_EPROTO, "one of: lstm transformer" },
        { { .key = "model" }, SEFL_EPROTO, "kind of model is missing" },
        { { .key = "vocab", .value = "38" }, SEFL_EPROTO, "is not a vector of" },
        { { .key = "vocab", .value = "0" }, SEFL_EPROTO, "\"vocab\" is not a number" },
        { { .key = "embed", .value = "-1" }, SEFL_EPROTO, "\"embed\" is not a number" },
        { { .key = "hidden", .value = "4294967296" }, SEFL_EPROTO, "\"hidden\" is not a number" },
        { { .key = "hidden", .value = "999999999" }, SEFL_EPROTO, "at most 65536" },
        { { .key = "block" }, SEFL_EPROTO, "\"block\" is not a number" },
        { { .key = "block", .value = "5" }, SEFL_EPROTO, "is not a vector of" },
        { { .key = "block_embed", .value = "0" }, SEFL_EPROTO, "\"block_embed\" is not a number" },
        { { .key = "block_decoder", .value = "5" }, SEFL_EPROTO, "is not a vector of" },
        { { .key = "block_decoder", .value = "99999" }, SEFL_EPROTO, "at most" },
        { { .key = "layers", .value = "3" }, SEFL_EPROTO, "arrays, this model has" },
        { { .key = "tied", .value = "yes" }, SEFL_EPROTO, "\"tied\"" },
        { { .key = "vocab_sha256", .value = "12" }, SEFL_EPROTO, "64 hex digits" },
        { { .drop = "decoder.bias" }, SEFL_EPROTO, "10 arrays, this model has 11" },
        { { .rename = "decoder.bias" }, SEFL_EPROTO, "\"decoder.bias\" is missing" },
        { { .reshape = "decoder.bias" }, SEFL_EPROTO, "not a vector of 37 values" },
        { { .nan = true }, SEFL_EPROTO, "value 2 is not finite" },
        { { .flip = true }, SEFL_EPROTO, "damaged: its values do not match their hash" },
        { { .more = true }, SEFL_EPROTO, "12 arrays" },
    };
    CHECK_OK(read_changed(&(change){ 0 }));
    CHECK_OK(read_changed(&(change){ .key = "values_sha256" })); /* saved by another program */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sefl_status st = read_changed(&bad[i].c);
        if (st != bad[i].st || !strstr(sefl_last_error(), bad[i].why))
            fail_msg("case %zu: %s, wanted \"%s\"", i, st ? sefl_last_error() : "accepted",
                     bad[i].why);
    }
}

static void other_words(void **state)
{
    (void)state;
    vocab *v = some_words(37), *fewer = some_words(36), *order = NULL;
    model_meta meta;
    lm *m = some_model(&meta, "lstm", 4, false);
    CHECK_OK(model_check_vocab(&meta, v)); /* unknown: only the size counts */
    CHECK_STATUS(model_check_vocab(&meta, fewer), SEFL_EINVAL);
    assert_string_equal(sefl_last_error(), "the vocabulary has 36 words, the model 37");
    model_meta_set_vocab(&meta, v);
    CHECK_OK(model_check_vocab(&meta, v));
    CHECK_OK(vocab_write(v, folder_path("v"), false));
    CHECK_OK(vocab_read(&order, folder_path("v"), &(vocab_settings){ .block = 4 }));
    CHECK_STATUS(model_check_vocab(&meta, order), SEFL_EINVAL); /* the same words, shuffled */
    assert_non_null(strstr(sefl_last_error(), "another vocabulary"));
    vocab_free(v);
    vocab_free(fewer);
    vocab_free(order);
    lm_free(m);
}

static void other_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        lm_config cfg;
    } k[] = {
        { "model.body is transformer, but the model has lstm", { .body = "transformer" } },
        { "model.vocab is 38, but the model has 37", { .vocab = 38 } },
        { "model.embed is 99, but the model has ", { .embed = 99 } },
        { "model.hidden is 99, but the model has ", { .hidden = 99 } },
        { "model.layers is 9, but the model has ", { .layers = 9 } },
        { "model.block is 5, but the model has 4", { .block = 5 } },
        { "model.block_embed is 5, but the model has 4", { .block_embed = 5 } },
        { "model.block_decoder is 1, but the model has 4", { .block_decoder = 1 } },
        { "model.tied is true, but the model has false", { .tied = true } },
    };
    model_meta meta;
    lm *m = some_model(&meta, "lstm", 4, false);
    CHECK_OK(model_check_shape(&meta, lm_get_config(m)));
    lm_config more = *lm_get_config(m);
    more.heads = 7, more.batch = 3, more.steps = 5; /* not the shape of an LSTM */
    CHECK_OK(model_check_shape(&meta, &more));
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        lm_config c = *lm_get_config(m), d = k[i].cfg;
        c.body = d.body ? d.body : c.body;
        c.vocab = d.vocab ? d.vocab : c.vocab;
        c.embed = d.embed ? d.embed : d.tied ? c.hidden : c.embed;
        c.hidden = d.hidden ? d.hidden : c.hidden;
        c.layers = d.layers ? d.layers : c.layers;
        c.block = d.block ? d.block : c.block;
        c.block_embed = d.block_embed ? d.block_embed : c.block_embed;
        c.block_decoder = d.block_decoder ? d.block_decoder : c.block_decoder;
        c.tied = d.tied;
        model_meta mine = meta;
        if (d.tied)
            mine.cfg.embed = mine.cfg.hidden;
        CHECK_STATUS(model_check_shape(&mine, &c), SEFL_EINVAL);
        if (strncmp(sefl_last_error(), k[i].says, strlen(k[i].says)) != 0)
            fail_msg("%s", sefl_last_error());
    }
    lm_free(m);
}

static void bad_imports(void **state)
{
    (void)state;
    model_meta meta, in;
    nn_real *theta = NULL;
    size_t count;
    double distance;
    lm *m = some_model(&meta, "transformer", 4, false);
    CHECK_OK(model_export(folder_path("d"), &meta, lm_theta(m)));
    in = (model_meta){ .cfg.tied = true };
    CHECK_STATUS(model_import(&in, &theta, &count, &distance, folder_path("d")), SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "not tied"));
    in = (model_meta){ .cfg.heads = 3 };
    CHECK_STATUS(model_import(&in, &theta, &count, &distance, folder_path("d")), SEFL_EINVAL);
    in = (model_meta){ .cfg.block = 8 };
    CHECK_OK(model_import(&in, &theta, &count, &distance, folder_path("d")));
    assert_true(distance > 0.1 && distance < 1); /* another block size cannot be exact */
    sefl_free(theta);
    lm_free(m);

    static const float w[64];
    tensor_out out[2] = { { "encoder.weight", 2, { 4, 4 }, w }, { "x", 1, { 1 }, w } };
    in = (model_meta){ 0 };
    CHECK_OK(tensors_write(folder_path("d"), out, 2, NULL, 0));
    CHECK_STATUS(model_import(&in, &theta, &count, &distance, folder_path("d")), SEFL_EPROTO);
    out[1] = (tensor_out){ "rnn.weight_hh_l0", 1, { 16 }, w };
    CHECK_OK(tensors_write(folder_path("d"), out, 2, NULL, 0));
    CHECK_STATUS(model_import(&in, &theta, &count, &distance, folder_path("d")), SEFL_EPROTO);
    out[1] = (tensor_out){ "rnn.weight_hh_l0", 2, { 16, 4 }, w };
    CHECK_OK(tensors_write(folder_path("d"), out, 2, NULL, 0));
    CHECK_STATUS(model_import(&in, &theta, &count, &distance, folder_path("d")), SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "missing"));
}

/* ---- external models ----------------------------------------------------------------------- */

static layout tensors_of(const char *text)
{
    layout l = { 0 };
    CHECK_OK(layout_parse(&l, text, 1));
    return l;
}

/* Writes a model of this layout with the values 1, 2, 3, ... and returns its path. */
static const char *external(const layout *l, uint8_t hash[SHA256_BYTES])
{
    nn_real theta[64];
    assert_true(l->count <= 64);
    for (size_t i = 0; i < l->count; i++)
        theta[i] = (nn_real)i + 1;
    CHECK_OK(model_write_tensors(folder_path("x"), l, theta, hash));
    return folder_path("x");
}

static void external_round_trip(void **state)
{
    (void)state;
    static const char *const texts[] = { "a=1", "s=scalar", "a=10,b=17",
                                         "w=4x6/2,b=4,s=scalar,deep/w:0=1x2x2x3" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        layout l = tensors_of(texts[i]), back = { 0 };
        uint8_t hash[SHA256_BYTES], again[SHA256_BYTES];
        nn_real *theta = NULL;
        model_meta meta;
        size_t count;
        sefl_buf text = { 0 };
        const char *path = external(&l, hash);
        CHECK_OK(model_read_hash(again, path));
        assert_memory_equal(again, hash, sizeof hash);
        CHECK_OK(model_list_tensors(&back, path)); /* with its blocks */
        CHECK_OK(layout_write(&back, &text));
        CHECK_OK(wr_u8(&text, 0));
        assert_string_equal((const char *)text.p, texts[i]);
        CHECK_OK(model_read_tensors(&theta, &back, path));
        for (size_t k = 0; k < l.count; k++)
            assert_true(theta[k] == (nn_real)k + 1);
        CHECK_STATUS(model_read(&meta, &theta, &count, path), SEFL_EUNSUPPORTED);
        assert_non_null(strstr(sefl_last_error(), "only its own program"));
        sefl_free(theta);
        buf_clear(&text);
        layout_clear(&l);
        layout_clear(&back);
    }
}

/* A model of one task may start another with block-Hankel matrices: the values are projected, and
 * the hash is that of the file. */
static void external_to_blocks(void **state)
{
    (void)state;
    layout dense = tensors_of("w=2x2,b=1"), blocks = tensors_of("b=1,w=2x2/2");
    uint8_t hash[SHA256_BYTES];
    nn_real *theta = NULL;
    CHECK_OK(model_read_tensors(&theta, &blocks, external(&dense, hash)));
    assert_int_equal(blocks.count, 4);
    assert_true(theta[0] == 5 && theta[1] == 1 && theta[2] == 2.5 && theta[3] == 4);
    sefl_free(theta);
    layout_clear(&dense);
    layout_clear(&blocks);
}

static void external_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "w=2x3", "tensor b is not part of the model" },
        { "w=2x3,b=1,c=1", "tensor c is missing" },
        { "w=3x2,b=1", "tensor w does not have the shape 3x2" },
        { "w=6,b=1", "tensor w does not have the shape 6" },
        { "w=2x3,b=scalar", "tensor b does not have the shape scalar" },
    };
    layout l = tensors_of("w=2x3,b=1");
    uint8_t hash[SHA256_BYTES];
    nn_real *theta = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        layout other = tensors_of(bad[i].text);
        CHECK_STATUS(model_read_tensors(&theta, &other, external(&l, hash)), SEFL_EPROTO);
        if (!strstr(sefl_last_error(), bad[i].why))
            fail_msg("%s: %s", bad[i].text, sefl_last_error());
        assert_null(theta);
        layout_clear(&other);
    }
    float w[7] = { 1, 2, 3, 4, 5, 6, 7 };
    tensor_out out[2] = { { "w", 2, { 2, 3 }, w }, { "b", 1, { 1 }, w + 6 } };
    const tensor_meta metas[] = { { "sefl", "model 1" },
                                  { "model", "external" },
                                  { "values_sha256", "00" } };
    CHECK_OK(tensors_write(folder_path("x"), out, 2, NULL, 0)); /* of another program */
    CHECK_OK(model_read_tensors(&theta, &l, folder_path("x")));
    assert_true(theta[6] == 7);
    sefl_free(theta);
    CHECK_OK(tensors_write(folder_path("x"), out, 2, metas, 3));
    CHECK_STATUS(model_read_tensors(&theta, &l, folder_path("x")), SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "damaged"));
    CHECK_STATUS(model_read_hash(hash, folder_path("x")), SEFL_EPROTO);
    w[4] = (float)INFINITY;
    CHECK_OK(tensors_write(folder_path("x"), out, 2, NULL, 0));
    CHECK_STATUS(model_read_tensors(&theta, &l, folder_path("x")), SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "\"w\": value 4 is not finite"));
    layout_clear(&l);
}

/* Files whose tensors a task cannot have. */
static void external_not_listed(void **state)
{
    (void)state;
    static const float w[4];
    static const struct {
        tensor_out out;
        const char *blocks, *why;
        sefl_status st;
    } bad[] = {
        { { "w", 5, { 1, 1, 1, 1, 1 }, w }, NULL, "dimensions", SEFL_EUNSUPPORTED },
        { { "w", 1, { 0 }, w }, NULL, "dimension of 0", SEFL_EINVAL },
        { { "a b", 1, { 1 }, w }, NULL, "a name has", SEFL_EINVAL },
        { { "w", 1, { 3 }, w }, "w=2x", "\"blocks\"", SEFL_EINVAL },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        layout l = { 0 };
        const tensor_meta metas[] = { { "model", "external" }, { "blocks", bad[i].blocks } };
        CHECK_OK(tensors_write(folder_path("x"), &bad[i].out, 1, metas, bad[i].blocks ? 2 : 1));
        sefl_status st = model_list_tensors(&l, folder_path("x"));
        if (st != bad[i].st || !strstr(sefl_last_error(), bad[i].why))
            fail_msg("case %zu: %d, %s", i, (int)st, sefl_last_error());
        assert_null(l.tensor);
    }
}

static void faults(void **state)
{
    (void)state;
    model_meta meta, in;
    nn_real *theta = NULL;
    size_t count;
    double distance;
    lm *m = some_model(&meta, "lstm", 4, false), *copy = NULL;
    const char *path = folder_path("f"), *dense = folder_path("fd");
    TEST_FAULTS(FAULT_ALLOC, st = model_write(path, &meta, lm_theta(m)), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = model_export(dense, &meta, lm_theta(m)), (void)0);
    CHECK_OK(model_write(path, &meta, lm_theta(m)));
    CHECK_OK(model_export(dense, &meta, lm_theta(m)));
    TEST_FAULTS(FAULT_ALLOC, st = model_open(&copy, &in, path, 2, 2, NULL), lm_free(copy));
    TEST_FAULTS(FAULT_READ, st = model_open(&copy, &in, path, 2, 2, NULL), lm_free(copy));
    TEST_FAULTS(FAULT_ALLOC,
                (in = (model_meta){ .cfg.block = 4 },
                 st = model_import(&in, &theta, &count, &distance, dense)),
                sefl_free(theta));
    lm_free(m);

    layout l = tensors_of("w=4x6/2,b=4"), back = { 0 };
    uint8_t hash[SHA256_BYTES];
    nn_real some[64] = { 0 };
    TEST_FAULTS(FAULT_ALLOC, st = model_write_tensors(path, &l, some, hash), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = model_read_tensors(&theta, &l, path), sefl_free(theta));
    TEST_FAULTS(FAULT_READ, st = model_read_tensors(&theta, &l, path), sefl_free(theta));
    TEST_FAULTS(FAULT_ALLOC, st = model_list_tensors(&back, path), layout_clear(&back));
    layout_clear(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(dense_names),
        cmocka_unit_test(refused),
        cmocka_unit_test(other_words),
        cmocka_unit_test(other_shapes),
        cmocka_unit_test(mixed_blocks),
        cmocka_unit_test(bad_imports),
        cmocka_unit_test(external_round_trip),
        cmocka_unit_test(external_to_blocks),
        cmocka_unit_test(external_refused),
        cmocka_unit_test(external_not_listed),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
