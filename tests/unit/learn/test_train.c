/* Optimisers, the training loop, records, and what happens when training diverges. */
#include "rule_text.h"

#include "base/alloc.h"
#include "model/train.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct recipe {
    train_steps how;
    optim_config optim;
} recipe;

static const recipe recipes[] = {
    { .how = { .lr = 2, .clip = 0.25, .dropout = { 0.2, { 3 } }, .lr_decay = 0.5 } },
    { .how = { .lr = 0.1, .clip = 0.5, .dropout.rate = 0.1 }, .optim.kind = OPTIM_MOMENTUM },
    { .how = { .lr = 0.01, .clip = 1, .dropout.rate = 0.2 }, .optim.kind = OPTIM_ADAM },
};
#define RECIPES (sizeof recipes / sizeof recipes[0])

typedef struct run {
    pool *p;
    lm *m;
    train_run *t;
} run;

/* Begins training on the first n words of the text. */
static sefl_status begin(train_run **t, lm *m, pool *p, recipe how, size_t n)
{
    how.how.words = text, how.how.n = n;
    return train_new(t, m, p, &how.optim, &how.how);
}

static sefl_status run_open(run *r, const lm_config *cfg, const recipe *how, unsigned threads)
{
    sefl_status st = SEFL_OK;
    *r = (run){ 0 };
    SEFL_TRY(pool_new(&r->p, threads));
    SEFL_TRY(lm_new(&r->m, cfg, r->p));
    lm_init(r->m, 11);
    SEFL_TRY(begin(&r->t, r->m, r->p, *how, WORDS));
done:
    return st;
}

static void run_close(run *r)
{
    train_free(r->t);
    lm_free(r->m);
    pool_free(r->p);
    *r = (run){ 0 };
}

static void steps(run *r, int n)
{
    train_info info;
    for (int i = 0; i < n; i++)
        CHECK_OK(train_step(r->t, &info));
}

/* One step of each optimiser on three numbers, by hand. */
static void test_optimisers(void **state)
{
    const lm_span span = { 0, 2 };
    nn_real g[3] = { 1, -2, 0 };
    (void)state;
    for (int kind = OPTIM_SGD; kind <= OPTIM_ADAM; kind++) {
        nn_real x[3] = { 1, 1, 1 };
        optim o;
        layout l = { 0 };
        double norm;
        CHECK_OK(layout_parse(&l, "x=3", 1));
        CHECK_OK(optim_init(&o, &(optim_config){ .kind = (optim_kind)kind }, &l));
        layout_clear(&l);
        CHECK_OK(optim_norm(&o, NULL, &norm, g, &span, 1));
        assert_true(fabs(norm - sqrt(5)) < 1e-6);
        for (int i = 0; i < 2; i++)
            CHECK_OK(optim_step(&o, NULL, x, g, &span, 1, 0.1, 0.5));
        double want = kind == OPTIM_SGD        ? 1 - 0.1
                      : kind == OPTIM_MOMENTUM ? 1 - 0.05 - 0.05 * 1.9
                                               : 1 - 0.2; /* Adam: each step is lr long */
        assert_true(fabs(x[0] - want) < 1e-5);
        assert_true(fabs(x[1] - (kind == OPTIM_ADAM ? 1.2 : 1 + 2 * (1 - want))) < 1e-5);
        assert_true(x[2] == 1);
        nn_real bad[3] = { 1, NAN, 0 };
        CHECK_STATUS(optim_norm(&o, NULL, &norm, bad, &span, 1), SEFL_ERANGE);
        optim_clear(&o);
    }
    assert_string_equal(optim_kind_name(OPTIM_ADAM), "adam");
}

/* Tensors that are not trained keep every bit, with every optimiser and with weight decay; the
 * first gradient of the others is that of a model that trains everything. */
static void test_only(void **state)
{
    static const char *const only[] = { "decoder.*", "encoder.weight" };
    (void)state;
    for (size_t i = 0; i < SIZES; i++)
        for (size_t k = 0; k < RECIPES * 2; k++) {
            run all, some;
            lm_config cfg = sizes[i];
            recipe tc = recipes[k % RECIPES];
            train_info info;
            tc.optim.weight_decay = 0.01;
            cfg.only = cfg.tied ? only[1] : only[k % 2];
            CHECK_OK(run_open(&all, &sizes[i], &tc, 1));
            CHECK_OK(run_open(&some, &cfg, &tc, 1));
            CHECK_OK(train_gradient(all.t, &info));
            CHECK_OK(train_gradient(some.t, &info));
            const layout *l = lm_layout(some.m);
            assert_true(l->trained > 0 && l->trained < l->count);
            for (size_t t = 0; t < l->n; t++) {
                const layout_tensor *x = &l->tensor[t];
                for (size_t v = x->offset; v < x->offset + x->count; v++)
                    assert_true(lm_grad(some.m)[v] == (x->trainable ? lm_grad(all.m)[v] : 0));
            }
            run_close(&all);
            CHECK_OK(lm_new(&all.m, &cfg, NULL)); /* the initial values */
            lm_init(all.m, 11);
            steps(&some, 20);
            for (size_t t = 0; t < l->n; t++) {
                const layout_tensor *x = &l->tensor[t];
                bool same = memcmp(lm_theta(some.m) + x->offset, lm_theta(all.m) + x->offset,
                                   x->count * sizeof(nn_real)) == 0;
                assert_int_equal(same, !x->trainable);
            }
            run_close(&all);
            run_close(&some);
        }
}

/* Decoupled weight decay, against plain loops in double: every value decays, also those without a
 * gradient; neither the gradient nor the state sees it; threads do not matter. */
static void test_weight_decay(void **state)
{
    enum { N = 70000 }; /* several chunks */
    static nn_real x[N], g[N];
    static double want[N], m[N], v[N];
    const lm_span span = { 100, 40000 };
    const double lr = 0.05, wd = 0.3, scale = 0.5;
    (void)state;
    for (unsigned job = 0; job < 6; job++) {
        optim_kind kind = (optim_kind)(job % 3);
        pool *p = NULL;
        optim o;
        layout l = { 0 };
        if (job >= 3)
            CHECK_OK(pool_new(&p, 3));
        for (size_t i = 0; i < N; i++) {
            bool in = i >= span.offset && i < span.offset + span.count;
            x[i] = (nn_real)sin((double)i), g[i] = in ? (nn_real)cos((double)i) : 0;
            want[i] = x[i], m[i] = v[i] = 0;
        }
        CHECK_OK(layout_parse(&l, "x=70000", 1));
        CHECK_OK(optim_init(&o, &(optim_config){ .kind = kind, .weight_decay = wd }, &l));
        layout_clear(&l);
        for (int s = 1; s <= 3; s++) {
            CHECK_OK(optim_step(&o, p, x, g, &span, 1, lr, scale));
            for (size_t i = 0; i < N; i++) {
                double d = scale * g[i];
                m[i] = kind == OPTIM_MOMENTUM ? 0.9 * m[i] + d : 0.9 * m[i] + 0.1 * d;
                v[i] = 0.999 * v[i] + 0.001 * d * d;
                double adam = m[i] / (1 - pow(0.9, s)) / (sqrt(v[i] / (1 - pow(0.999, s))) + 1e-8);
                want[i] = want[i] * (1 - lr * wd) - lr * (kind == OPTIM_SGD        ? d
                                                          : kind == OPTIM_MOMENTUM ? m[i]
                                                                                   : adam);
            }
        }
        for (size_t i = 0; i < N; i++)
            if (fabs(x[i] - want[i]) > 2e-6)
                fail_msg("optimiser %d, value %zu: %.9g, not %.9g", kind, i, (double)x[i], want[i]);
        optim_clear(&o);
        pool_free(p);
    }
}

/* Training learns with every model and optimiser. */
static void test_learning(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++)
        for (size_t k = 0; k < RECIPES; k++) {
            run r;
            double before, after;
            recipe tc = recipes[k];
            tc.how.lr_decay = 1, tc.how.dropout.rate = 0, tc.how.lr *= 2;
            CHECK_OK(run_open(&r, &sizes[i], &tc, 1));
            CHECK_OK(lm_evaluate(r.m, text, WORDS, &before, NULL));
            assert_true(fabs(before - log(VOCAB)) < 0.3);
            steps(&r, 400);
            CHECK_OK(lm_evaluate(r.m, text, WORDS, &after, NULL));
            if (!(after < before - 0.7))
                fail_msg("model %zu, recipe %zu: loss %g, then %g", i, k, before, after);
            run_close(&r);
        }
}

static void test_threads_and_seed(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        nn_real *first = NULL;
        for (unsigned threads = 1; threads <= 3; threads++) {
            run r;
            CHECK_OK(run_open(&r, &sizes[i], &recipes[i % RECIPES], threads));
            size_t bytes = lm_count(r.m) * sizeof *first;
            steps(&r, 15);
            if (!first) {
                CHECK_OK(sefl_new(&first, bytes, 1));
                memcpy(first, lm_theta(r.m), bytes);
            }
            assert_memory_equal(first, lm_theta(r.m), bytes);
            run_close(&r);
        }
        run r;
        recipe other = recipes[i % RECIPES];
        other.how.dropout.key[0] = 99; /* other masks */
        CHECK_OK(run_open(&r, &sizes[i], &other, 1));
        steps(&r, 15);
        assert_memory_not_equal(first, lm_theta(r.m), lm_count(r.m) * sizeof *first);
        run_close(&r);
        sefl_free(first);
    }
}

/* Diverging training stops with a message; parameters stay those of the last good step. */
static void test_divergence(void **state)
{
    run r;
    train_info info;
    sefl_status st = SEFL_OK;
    (void)state;
    CHECK_OK(run_open(&r, &sizes[0], &(recipe){ .how.lr = 1e30 }, 1));
    for (int i = 0; i < 5 && st == SEFL_OK; i++)
        st = train_step(r.t, &info);
    assert_int_equal(st, SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "diverged"));
    assert_non_null(strstr(sefl_last_error(), "step"));
    run_close(&r);

    for (size_t i = 0; i < SIZES; i++) /* a NaN in any parameter is detected */
        for (size_t k = 0;; k++) {
            CHECK_OK(run_open(&r, &sizes[i], &recipes[0], 1));
            const layout_tensor *p = lm_layout(r.m)->tensor;
            if (k == lm_layout(r.m)->n) {
                run_close(&r);
                break;
            }
            for (size_t j = 0; j < p[k].count; j++)
                lm_theta(r.m)[p[k].offset + j] = NAN;
            nn_real kept = lm_theta(r.m)[p[k == 0 ? 1 : 0].offset];
            sefl_status got = train_step(r.t, &info);
            if (got != SEFL_ERANGE)
                fail_msg("model %zu: NaN in %s passed", i, p[k].name);
            assert_true(lm_theta(r.m)[p[k == 0 ? 1 : 0].offset] == kept);
            run_close(&r);
        }
}

/* A decoder of denormals, as a hostile model may have: the gradient of everything below it is 0,
 * in one thread and in several, and the caller's own arithmetic stays as it was. */
static void test_denormals(void **state)
{
    (void)state;
    static const lm_config small[] = {
        { .vocab = 40, .embed = 8, .hidden = 8, .layers = 1, .block = 4, .batch = 9, .steps = 4 },
        { .body = "transformer",
          .vocab = 40,
          .embed = 8,
          .hidden = 8,
          .layers = 1,
          .heads = 2,
          .block = 4,
          .batch = 9,
          .steps = 4 },
    };
    uint32_t word[36];
    for (size_t i = 0; i < 36; i++)
        word[i] = (uint32_t)i;
    for (size_t i = 0; i < 2 * 2; i++) {
        volatile float least = FLT_MIN;
        lm_config cfg = small[i / 2];
        double loss;
        pool *p = NULL;
        lm *m;
        CHECK_OK(pool_new(&p, i % 2 ? 3 : 1));
        CHECK_OK(lm_new(&m, &cfg, p));
        lm_init(m, 3);
        const layout *l = lm_layout(m);
        for (size_t k = 0; k < l->n; k++)
            if (strcmp(l->tensor[k].name, "decoder.weight") == 0)
                for (size_t j = 0; j < l->tensor[k].count; j++)
                    lm_theta(m)[l->tensor[k].offset + j] = least / 16 * (nn_real)(j % 7);
        const lm_batch b = { word, word, 4, 9, .scale = 1 };
        CHECK_OK(lm_gradient(m, &b, &(nn_dropout){ 0 }, &loss));
        for (size_t k = 0; k < l->n; k++)
            for (size_t j = 0; j < l->tensor[k].count; j++)
                if (strncmp(l->tensor[k].name, "decoder", 7) != 0)
                    assert_true(lm_grad(m)[l->tensor[k].offset + j] == 0);
        assert_true(least / 2 > 0);
        lm_free(m);
        pool_free(p);
    }
}

/* Each record's gradient is that of the record alone: the sum over records of equal length equals
 * that of one batch with one record per column; order and other records do not matter. */
static void test_records(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        enum { LEN = 4, RECORDS = 5 };
        lm *m;
        size_t spans, n;
        uint32_t input[LEN * RECORDS], target[LEN * RECORDS];
        double loss, losses = 0, *sum;
        const uint32_t *first = text + 10;
        CHECK_OK(lm_new(&m, &sizes[i], NULL));
        lm_init(m, 4);
        n = lm_count(m);
        CHECK_OK(sefl_new(&sum, n, sizeof *sum));
        for (size_t r = 0; r < RECORDS; r++) {
            CHECK_OK(train_record(m, &loss, first + r * LEN, LEN, 0, 0, 0, r));
            const lm_span *at = lm_spans(m, &spans);
            for (size_t j = 0; j < spans; j++)
                for (size_t k = at[j].offset; k < at[j].offset + at[j].count; k++)
                    sum[k] += lm_grad(m)[k];
            losses += loss;
        }
        for (size_t t = 0; t < LEN; t++)
            for (size_t r = 0; r < RECORDS; r++) {
                target[t * RECORDS + r] = first[r * LEN + t];
                input[t * RECORDS + r] = t == 0 ? 0 : first[r * LEN + t - 1];
            }
        lm_state_reset(m);
        CHECK_OK(lm_gradient(m, &(lm_batch){ input, target, LEN, RECORDS, .scale = 1.0 / LEN },
                             &(nn_dropout){ 0 }, &loss));
        assert_true(fabs(loss / LEN - losses) < 1e-4);
        double scale = 0;
        for (size_t k = 0; k < n; k++)
            scale = fmax(scale, fabs(sum[k]));
        for (size_t k = 0; k < n; k++)
            assert_true(fabs(lm_grad(m)[k] - sum[k]) < 1e-5 * scale);
        CHECK_STATUS(train_record(m, &loss, text, 0, 0, 0, 0, 0), SEFL_EINVAL);
        /* longer than a batch's steps: read in parts, state carried */
        CHECK_OK(train_record(m, &loss, text, 3 * sizes[i].steps + 1, 0, 0.2, 0, 0));
        assert_true(isfinite(loss));
        sefl_free(sum);
        lm_free(m);
    }
}

enum { OTHERS = 4, LEN = 4, RARE = VOCAB - 1 }; /* RARE is alone in its block of the encoder */

typedef struct taken {
    nn_real *grad[OTHERS + 1];
    double loss[OTHERS + 1];
    size_t bytes;
} taken;

static void take_records(taken *k, lm *m, const uint32_t *words, const size_t *border)
{
    for (size_t r = 0; r <= OTHERS; r++) {
        size_t n;
        CHECK_OK(train_record(m, &k->loss[r], words + border[r], border[r + 1] - border[r], 0, 0.2,
                              9, r));
        const lm_span *spans = lm_spans(m, &n);
        memset(k->grad[r], 0, k->bytes);
        for (size_t i = 0; i < n; i++)
            memcpy(k->grad[r] + spans[i].offset, lm_grad(m) + spans[i].offset,
                   spans[i].count * sizeof(nn_real));
    }
}

/* A record without a finite loss or gradient is reported, and leaves no trace: the records after it
 * have the same bytes as after a harmless one. */
static void test_poisoned_record(void **state)
{
    static const nn_real poison[] = { NAN, (nn_real)3e38, (nn_real)-1e30 };
    (void)state;
    for (size_t i = 0; i < SIZES; i++)
        for (size_t kind = 0; kind < 3; kind++) {
            lm *m;
            size_t border[OTHERS + 2], at = 0, count = 1;
            uint32_t words[(OTHERS + 3) * LEN];
            taken with = { 0 }, without = { 0 };
            if (sizes[i].tied && kind < 2)
                continue; /* every word's softmax sees that row */
            CHECK_OK(lm_new(&m, &sizes[i], NULL));
            lm_init(m, 4);
            const layout_tensor *p =
                layout_find(lm_layout(m), kind < 2 ? "encoder.weight" : "decoder.bias");
            at = p->offset +
                 (kind < 2 ? bhm_block_row(layout_matrix(p), RARE / p->block, &count) : RARE);
            assert_true(at > 0 || kind < 2);
            for (size_t k = 0; k < count; k++)
                lm_theta(m)[at + k] = poison[kind];
            with.bytes = without.bytes = lm_count(m) * sizeof(nn_real);
            for (size_t r = 0; r <= OTHERS; r++) {
                CHECK_OK(sefl_new(&with.grad[r], with.bytes, 1));
                CHECK_OK(sefl_new(&without.grad[r], with.bytes, 1));
            }
            /* the middle one is longer than a window, and rare in the first of its windows */
            for (size_t r = 0; r <= OTHERS + 1; r++)
                border[r] = r * LEN + (r > 2 ? 2 * LEN : 0);
            for (size_t k = 0; k < border[OTHERS + 1]; k++)
                words[k] = text[k] % RARE;
            take_records(&without, m, words, border);
            words[border[2] + 1] = RARE;
            take_records(&with, m, words, border);
            for (size_t r = 0; r <= OTHERS; r++) {
                bool same = memcmp(with.grad[r], without.grad[r], with.bytes) == 0;
                assert_true(isfinite(without.loss[r]));
                if (same == (r == 2) || (r != 2 && with.loss[r] != without.loss[r]))
                    fail_msg("model %zu, poison %zu: record %zu", i, kind, r);
            }
            assert_true(kind == 1 || with.loss[2] == INFINITY);
            for (size_t k = 0; kind != 1 && k < lm_count(m); k++)
                assert_true(with.grad[2][k] == 0);
            for (size_t r = 0; r <= OTHERS; r++)
                sefl_free(with.grad[r]), sefl_free(without.grad[r]);
            lm_free(m);
        }
}

/* Evaluation is the mean over ten columns with carried state, independent of what was read
 * before. */
static void test_evaluate(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        run r;
        double a, b, sum = 0, loss;
        CHECK_OK(run_open(&r, &sizes[i], &recipes[0], 1));
        steps(&r, 5);
        size_t n;
        nn_real kept = lm_state(r.m, &n)[0];
        CHECK_OK(lm_evaluate(r.m, text, 203, &a, NULL));
        CHECK_OK(lm_evaluate(r.m, text, 200, &b, NULL));
        assert_true(a == b); /* three words are left over and cut off */
        assert_true(lm_state(r.m, &n)[0] == kept || n == 0);
        lm_state_reset(r.m); /* 19 rows to predict, in windows of `steps` */
        for (size_t at = 0; at < 19; at += sizes[i].steps) {
            uint32_t in[200], out[200], len = 0;
            for (size_t t = at; t < 19 && t < at + sizes[i].steps; t++, len++)
                for (size_t c = 0; c < 10; c++) {
                    in[len * 10 + c] = text[c * 20 + t];
                    out[len * 10 + c] = text[c * 20 + t + 1];
                }
            CHECK_OK(lm_loss(r.m, &(lm_batch){ in, out, len, 10 }, &loss));
            sum += loss;
        }
        assert_true(fabs(sum / 190 - a) < 1e-6);
        CHECK_STATUS(lm_evaluate(r.m, text, 19, &a, NULL), SEFL_EINVAL);
        run_close(&r);
    }
}

static void test_generate(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        run r;
        uint32_t a[30], b[30];
        seeded g;
        CHECK_OK(run_open(&r, &sizes[i], &recipes[2], 1));
        steps(&r, 50);
        seeded_init(&g, 1, "words");
        CHECK_OK(lm_generate(r.m, a, 30, text, 12, 1, 7, &g));
        seeded_init(&g, 1, "words");
        CHECK_OK(lm_generate(r.m, b, 30, text, 12, 1, 7, &g));
        assert_memory_equal(a, b, sizeof a);
        for (size_t k = 0; k < 30; k++)
            assert_true(a[k] < VOCAB && a[k] != 7);
        /* nearly zero temperature: the likeliest word, so no other word has a smaller loss */
        CHECK_OK(lm_generate(r.m, a, 1, text, 5, 1e-4, UINT32_MAX, &g));
        double least = INFINITY;
        uint32_t likeliest = 0;
        for (uint32_t w = 0; w < VOCAB; w++) {
            uint32_t next[5] = { text[1], text[2], text[3], text[4], w };
            double loss;
            lm_state_reset(r.m);
            CHECK_OK(lm_loss(r.m, &(lm_batch){ text, next, 5, 1 }, &loss));
            if (loss < least)
                least = loss, likeliest = w;
        }
        assert_int_equal(a[0], likeliest);
        CHECK_STATUS(lm_generate(r.m, a, 3, text, 0, 1, 7, &g), SEFL_EINVAL);
        CHECK_STATUS(lm_generate(r.m, a, 3, text, 1, 0, 7, &g), SEFL_EINVAL);
        run_close(&r);
    }
}

static void test_bad_settings(void **state)
{
    static const lm_config bad[] = {
        { .body = "gru", .vocab = 10 },
        { .vocab = 1 },
        { .vocab = 10, .block = 5000 },
        { .vocab = 10, .block_embed = 5000 },
        { .vocab = 10, .block_decoder = 5000 },
        { .vocab = 10, .block = 4, .block_embed = 2, .tied = true },
        { .vocab = 10, .layers = 33 },
        { .vocab = 10, .embed = 8, .hidden = 9, .tied = true },
        { .vocab = 10, .body = "transformer", .embed = 9, .heads = 2 },
        { .vocab = 10, .batch = 1 << 20, .steps = 2 },
        { .vocab = 10, .embed = 70000 },
        { .vocab = 10, .body = "transformer", .embed = 65536, .batch = 1 << 19, .steps = 1 },
    };
    lm *m = NULL;
    static const recipe wrong[] = {
        { .how.lr = -1 },
        { .how = { .lr = 1, .clip = -1 } },
        { .how = { .lr = 1, .dropout.rate = 1 } },
        { .how = { .lr = 1, .columns = 99 } },
        { .how.lr = 1, .optim.weight_decay = -1 },
        { .how.lr = 2, .optim.weight_decay = 0.5 },
    };
    train_run *t = NULL;
    double loss;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_STATUS(lm_new(&m, &bad[i], NULL), SEFL_EINVAL);
    CHECK_OK(lm_new(&m, &sizes[0], NULL));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_STATUS(begin(&t, m, NULL, wrong[i], WORDS), SEFL_EINVAL);
    CHECK_STATUS(begin(&t, m, NULL, (recipe){ .how.lr = 1 }, 1), SEFL_EINVAL);
    uint32_t word = VOCAB;
    CHECK_STATUS(lm_loss(m, &(lm_batch){ &word, text, 1, 1 }, &loss), SEFL_EINVAL);
    CHECK_STATUS(lm_loss(m, &(lm_batch){ text, &word, 1, 1 }, &loss), SEFL_EINVAL);
    CHECK_STATUS(lm_loss(m, &(lm_batch){ text, text, 99, 1 }, &loss), SEFL_EINVAL);
    lm_free(m);
    /* a text shorter than the batch is wide: fewer columns */
    CHECK_OK(lm_new(&m, &sizes[0], NULL));
    CHECK_OK(begin(&t, m, NULL, (recipe){ .how.lr = 1 }, 5));
    train_info info;
    CHECK_OK(train_step(t, &info));
    assert_int_equal(info.words, 2); /* one step of two columns */
    assert_true(info.epoch_ended);
    train_free(t);
    lm_free(m);
}

static sefl_status whole_life(run *r)
{
    sefl_status st = SEFL_OK;
    train_info info;
    double mean;
    SEFL_TRY(run_open(r, &sizes[0], &recipes[2], 2));
    SEFL_TRY(train_step(r->t, &info));
    SEFL_TRY(lm_evaluate(r->m, text, WORDS, &mean, NULL));
done:
    run_close(r);
    return st;
}

static void test_faults(void **state)
{
    run r;
    (void)state, (void)r;
    TEST_FAULTS(FAULT_ALLOC, st = whole_life(&r), (void)0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimisers),
        cmocka_unit_test(test_weight_decay),
        cmocka_unit_test(test_only),
        cmocka_unit_test(test_learning),
        cmocka_unit_test(test_threads_and_seed),
        cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_denormals),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_poisoned_record),
        cmocka_unit_test(test_evaluate),
        cmocka_unit_test(test_generate),
        cmocka_unit_test(test_bad_settings),
        cmocka_unit_test(test_faults),
    };
    make_text();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
