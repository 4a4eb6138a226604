/* The engine on the CPU, its checkpoints, and opening a GPU plugin. */
#include "rule_text.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/sha256.h"
#include "model/engine/engine.h"
#include "model/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct recipe {
    double lr, clip, dropout, decay;
    optim_kind kind;
    double weight_decay;
} recipe;

static const recipe recipes[] = {
    { 2, 0.25, 0.2, 0.5, OPTIM_SGD },
    { 0.1, 0.5, 0.1, 0, OPTIM_MOMENTUM },
    { 0.01, 1, 0.2, 0, OPTIM_ADAM },
    { 2, 0.25, 0.2, 0.5, OPTIM_SGD, 0.01 },
};
#define RECIPES (sizeof recipes / sizeof recipes[0])

typedef struct run {
    pool *p;
    engine *e;
    train_steps how;
    float *theta; /* the initial values */
    size_t bytes;
} run;

static sefl_status run_open(run *r, size_t size, size_t how, unsigned threads)
{
    sefl_status st = SEFL_OK;
    lm *m = NULL;
    const recipe *k = &recipes[how];
    *r = (run){ .how = { .words = text,
                         .n = WORDS,
                         .columns = sizes[size].batch,
                         .steps = sizes[size].steps,
                         .lr = k->lr,
                         .lr_decay = k->decay,
                         .clip = k->clip,
                         .dropout.rate = k->dropout } };
    lm_dropout_key(r->how.dropout.key, 3);
    SEFL_TRY(pool_new(&r->p, threads));
    optim_config steps_by = { .kind = k->kind, .weight_decay = k->weight_decay };
    SEFL_TRY(engine_new(
        &r->e, &(engine_config){ .model = &sizes[size], .optim = steps_by, .pool = r->p }));
    r->bytes = engine_count(r->e) * sizeof *r->theta;
    SEFL_TRY(sefl_new(&r->theta, r->bytes, 1));
    SEFL_TRY(lm_new(&m, &sizes[size], NULL));
    lm_init(m, 11);
    memcpy(r->theta, lm_theta(m), r->bytes);
    SEFL_TRY(engine_theta(r->e, r->theta));
    SEFL_TRY(engine_start(r->e, 0, &r->how));
done:
    lm_free(m);
    return st;
}

static void run_close(run *r)
{
    engine_free(r->e);
    pool_free(r->p);
    sefl_free(r->theta);
    *r = (run){ 0 };
}

static engine_progress steps(run *r, uint64_t n)
{
    engine_progress p;
    CHECK_OK(engine_run(r->e, 1, n, &p));
    return p;
}

static float *theta_of(run *r, uint32_t part)
{
    float *v;
    CHECK_OK(sefl_new(&v, r->bytes, 1));
    CHECK_OK(engine_read(r->e, 0, part, v, r->bytes));
    return v;
}

/* Every number equals that of model/train.h. */
static void test_is_train(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++)
        for (size_t k = 0; k < RECIPES; k++) {
            enum { STEPS = 30 };
            run r;
            lm *m;
            train_run *t;
            train_info info;
            double loss = 0, mean, want;
            uint64_t words = 0;
            CHECK_OK(run_open(&r, i, k, 2));
            CHECK_OK(lm_new(&m, &sizes[i], NULL));
            memcpy(lm_theta(m), r.theta, r.bytes);
            train_steps how = { .words = text,
                                .n = WORDS,
                                .lr = recipes[k].lr,
                                .lr_decay = recipes[k].decay,
                                .clip = recipes[k].clip,
                                .dropout.rate = recipes[k].dropout };
            lm_dropout_key(how.dropout.key, 3);
            CHECK_OK(train_new(
                &t, m, NULL,
                &(optim_config){ .kind = recipes[k].kind, .weight_decay = recipes[k].weight_decay },
                &how));
            for (int s = 0; s < STEPS; s++) {
                CHECK_OK(train_step(t, &info));
                loss += info.loss * (double)info.words;
                words += info.words;
            }
            steps(&r, STEPS - 7);
            engine_progress p = steps(&r, 7);
            const train_cursor *at = train_at(t);
            assert_true(p.at.done == STEPS && p.at.epoch == at->epoch && p.at.row == at->row);
            assert_true(p.norm == info.norm && !p.finished && !p.diverged);
            float *theta = theta_of(&r, ENGINE_THETA), *delta = theta_of(&r, ENGINE_DELTA);
            assert_memory_equal(theta, lm_theta(m), r.bytes);
            for (size_t j = 0; j < engine_count(r.e); j++)
                assert_true(delta[j] == theta[j] - r.theta[j]);
            /* a limit, and sums over the whole call */
            r.how.limit = STEPS;
            CHECK_OK(engine_start(r.e, 0, &r.how));
            CHECK_OK(engine_train(r.e, 1, &p, NULL));
            assert_true(p.finished && p.at.done == STEPS && p.words == words);
            assert_true(fabs(p.loss - loss) < 1e-9 * loss);
            assert_memory_equal(theta, lm_theta(m), r.bytes);
            assert_true(steps(&r, 5).words == 0); /* finished: it stands still */
            /* evaluation of either, which changes nothing */
            CHECK_OK(engine_evaluate(r.e, 0, text, WORDS, 0, &mean, NULL));
            CHECK_OK(lm_evaluate(m, text, WORDS, &want, NULL));
            assert_true(fabs(mean - want) < 1e-12);
            CHECK_OK(engine_evaluate(r.e, ENGINE_BASE, text, WORDS, 0, &mean, NULL));
            memcpy(lm_theta(m), r.theta, r.bytes);
            CHECK_OK(lm_evaluate(m, text, WORDS, &want, NULL));
            assert_true(fabs(mean - want) < 1e-12);
            float *after = theta_of(&r, ENGINE_THETA);
            assert_memory_equal(theta, after, r.bytes);
            sefl_free(theta), sefl_free(delta), sefl_free(after);
            train_free(t);
            lm_free(m);
            run_close(&r);
        }
}

static void test_misuse(void **state)
{
    run r;
    float x[4] = { 0 };
    double mean;
    train_steps how;
    engine_progress p;
    (void)state;
    CHECK_OK(run_open(&r, 0, 0, 1));
    CHECK_STATUS(engine_read(r.e, 0, ENGINE_THETA, x, sizeof x), SEFL_EINVAL);
    CHECK_STATUS(engine_write(r.e, 0, ENGINE_DELTA, r.theta, r.bytes), SEFL_EINVAL);
    CHECK_STATUS(engine_evaluate(r.e, 0, text, 19, 0, &mean, NULL), SEFL_EINVAL);
    for (int i = 0; i < 5; i++) {
        how = r.how;
        *(i == 0 ? &how.lr : i == 1 ? &how.clip : &how.dropout.rate) = i == 2 ? 1 : i < 2 ? -1 : 0;
        how.n = i == 3 ? 1 : how.n;
        how.columns = i == 4 ? 99 : how.columns;
        CHECK_STATUS(engine_start(r.e, 0, &how), SEFL_EINVAL);
    }
    how = r.how, how.lr = 1e30, how.clip = 0;
    CHECK_OK(engine_start(r.e, 0, &how));
    CHECK_OK(engine_train(r.e, 1, &p, NULL));
    assert_true(p.diverged && !p.finished && p.at.done < 10);
    engine *e;
    CHECK_STATUS(engine_new(&e, &(engine_config){ .model = &sizes[0], .device = "tpu" }),
                 SEFL_EINVAL);
    CHECK_STATUS(engine_new(&e, &(engine_config){ .model = &sizes[0], .precision = "fp8" }),
                 SEFL_EINVAL);
    CHECK_STATUS(engine_new(&e, &(engine_config){ .model = &(lm_config){ .vocab = 1 } }),
                 SEFL_EINVAL);
    CHECK_OK(engine_new(&e, &(engine_config){ .model = &sizes[0] }));
    CHECK_STATUS(engine_read(e, 0, ENGINE_THETA, r.theta, r.bytes), SEFL_ESTATE);
    assert_false(engine_can_sum(e));
    assert_string_equal(engine_name(e), "cpu");
    assert_null(engine_fallback(e));
    engine_free(e);
    run_close(&r);
}

static bool third(void *self, uint64_t done, uint64_t total)
{
    (void)total;
    *(uint64_t *)self = done;
    return done < 3;
}

static void test_stop(void **state)
{
    run r;
    engine_progress p;
    uint64_t seen = 0;
    (void)state;
    CHECK_OK(run_open(&r, 0, 0, 1));
    CHECK_STATUS(engine_train(r.e, 1, &p, &(sefl_progress){ third, &seen }), SEFL_ECANCELLED);
    assert_int_equal(seen, 3);
    double mean;
    CHECK_STATUS(engine_evaluate(r.e, 0, text, WORDS, 0, &mean, &(sefl_progress){ third, &seen }),
                 SEFL_ECANCELLED);
    run_close(&r);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* Stopped after any step and resumed in a fresh engine: the same bytes. */
static void test_resume(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++)
        for (size_t k = 0; k < RECIPES; k++) {
            run a, b;
            sefl_buf at = { 0 }, end[2] = { 0 };
            CHECK_OK(run_open(&a, i, k, 1));
            uint64_t stop = train_layout_of(&a.how).steps_per_epoch + 2;
            steps(&a, stop);
            CHECK_OK(engine_save(a.e, 0, &at, &a.how, 3));
            steps(&a, 9);
            CHECK_OK(run_open(&b, i, k, 2));
            steps(&b, 1);
            CHECK_OK(engine_load(b.e, 0, buf_span(&at), &b.how, 3));
            engine_progress p = steps(&b, 9);
            assert_true(p.at.done == stop + 9 && p.at.epoch == 1);
            CHECK_OK(engine_save(a.e, 0, &end[0], &a.how, 3)); /* all parts */
            CHECK_OK(engine_save(b.e, 0, &end[1], &b.how, 3));
            assert_int_equal(end[0].n, end[1].n);
            assert_memory_equal(end[0].p, end[1].p, end[0].n);
            run_close(&a), run_close(&b);
            buf_clear(&at), buf_clear(&end[0]), buf_clear(&end[1]);
        }
}

/* Returns the offset of a checkpoint's row: after magic, settings and epoch. */
static size_t row_at(const sefl_buf *b)
{
    rd r = rd_over(buf_span(b));
    sefl_span s;
    uint64_t epoch;
    CHECK_OK(rd_view(&r, &s, 8));
    CHECK_OK(rd_bytes(&r, &s, 1024));
    CHECK_OK(rd_u64(&r, &epoch));
    return b->n - rd_left(&r);
}

/* Damaged, truncated and foreign checkpoints are refused and change nothing. */
static void test_bad_checkpoints(void **state)
{
    run r;
    sefl_buf at = { 0 };
    (void)state;
    CHECK_OK(run_open(&r, 0, 2, 1));
    steps(&r, 3);
    CHECK_OK(engine_save(r.e, 0, &at, &r.how, 3));
    float *before = theta_of(&r, ENGINE_THETA);
    for (size_t n = 0; n < at.n; n += n < 200 ? 1 : 997)
        CHECK_STATUS(engine_load(r.e, 0, span_of(at.p, n), &r.how, 3), SEFL_EPROTO);
    for (size_t i = 0; i < at.n; i += i < 200 ? 1 : 997) {
        at.p[i] ^= 4;
        CHECK_STATUS(engine_load(r.e, 0, buf_span(&at), &r.how, 3), SEFL_EPROTO);
        at.p[i] ^= 4;
    }
    train_steps how = r.how;
    how.lr = 0.02;
    CHECK_STATUS(engine_load(r.e, 0, buf_span(&at), &how, 3), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "lr is "));
    CHECK_STATUS(engine_load(r.e, 0, buf_span(&at), &r.how, 4), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "seed is "));
    text[WORDS / 2] ^= 1; /* another text of the same length */
    CHECK_STATUS(engine_load(r.e, 0, buf_span(&at), &r.how, 3), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "text is "));
    text[WORDS / 2] ^= 1;
    static const uint64_t rows[] = { UINT64_MAX, UINT64_MAX - 1, WORDS };
    for (size_t i = 0; i < 3; i++) { /* a row outside the text, with the right hash */
        sefl_buf forged = { 0 };
        CHECK_OK(wr_raw(&forged, at.p, at.n - SHA256_BYTES));
        store_u64(forged.p + row_at(&at), rows[i]);
        uint8_t digest[SHA256_BYTES];
        sha256_of(digest, buf_span(&forged));
        CHECK_OK(wr_raw(&forged, digest, sizeof digest));
        CHECK_STATUS(engine_load(r.e, 0, buf_span(&forged), &r.how, 3), SEFL_EPROTO);
        assert_non_null(strstr(sefl_last_error(), "checkpoint: row "));
        buf_clear(&forged);
    }
    float *after = theta_of(&r, ENGINE_THETA);
    assert_memory_equal(before, after, r.bytes);
    CHECK_OK(engine_load(r.e, 0, buf_span(&at), &r.how, 3));
    sefl_free(before), sefl_free(after);
    buf_clear(&at);
    run_close(&r);
}

static sefl_status whole_life(void)
{
    sefl_status st = SEFL_OK;
    run r;
    engine_progress p;
    sefl_buf b = { 0 };
    double mean;
    SEFL_TRY(run_open(&r, 0, 2, 2));
    SEFL_TRY(engine_run(r.e, 1, 1, &p));
    SEFL_TRY(engine_evaluate(r.e, 0, text, WORDS, 0, &mean, NULL));
    SEFL_TRY(engine_save(r.e, 0, &b, &r.how, 3));
    SEFL_TRY(engine_load(r.e, 0, buf_span(&b), &r.how, 3));
done:
    buf_clear(&b);
    run_close(&r);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    TEST_FAULTS(FAULT_ALLOC, st = whole_life(), (void)0);
}

/* ---- the plugin ------------------------------------------------------------------------------ */

static void refused(sefl_status want, const char *why)
{
    engine *e = NULL;
    CHECK_STATUS(engine_new(&e, &(engine_config){ .model = &sizes[0], .device = "cuda" }), want);
    assert_null(e);
    if (!strstr(sefl_last_error(), why) || strncmp(sefl_last_error(), "device cuda: ", 13) != 0)
        fail_msg("\"%s\" does not say \"%s\"", sefl_last_error(), why);
    CHECK_OK(engine_new(&e, &(engine_config){ .model = &sizes[0], .device = "auto" }));
    assert_false(engine_is_device(e));
    assert_string_equal(engine_name(e), "cpu");
    assert_non_null(strstr(engine_fallback(e), why));
    engine_free(e);
}

static void test_plugin(void **state)
{
    engine *e = NULL;
    (void)state;
    unsetenv("SEFL_CUDA_PLUGIN");
    refused(SEFL_EUNSUPPORTED, "libsefl_cuda.so is not installed");
    setenv("SEFL_CUDA_PLUGIN", folder_path("absent.so"), 1);
    refused(SEFL_EUNSUPPORTED, "cannot open");
    setenv("SEFL_CUDA_PLUGIN", folder_put("garbage.so", "no library", 10), 1);
    refused(SEFL_EUNSUPPORTED, "garbage.so");
    assert_int_equal(chmod(folder_path("garbage.so"), 0666), 0);
    refused(SEFL_EUNSUPPORTED, "can be written by every user");
    setenv("SEFL_CUDA_PLUGIN", "libm.so.6", 1); /* a name without a folder is of this folder */
    refused(SEFL_EUNSUPPORTED, "./libm.so.6");
    setenv("SEFL_CUDA_PLUGIN", FAKE_ENGINE, 1);
    setenv("SEFL_FAKE", "abi", 1);
    refused(SEFL_EUNSUPPORTED, "another version");
    setenv("SEFL_FAKE", "none", 1);
    refused(SEFL_ENOTFOUND, "no GPU was found");
    unsetenv("SEFL_FAKE");
    setenv("SEFL_FAKE_SLOTS", "3", 1);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(engine_new(&e, &(engine_config){ .model = &sizes[0],
                                                  .device = i ? "auto" : "cuda",
                                                  .precision = i ? "fp32" : NULL,
                                                  .slots = 10 }));
        assert_true(engine_is_device(e) && engine_can_sum(e));
        assert_int_equal(engine_get_facts(e)->slots, 3);
        assert_string_equal(engine_name(e), i ? "a pretended GPU, fp32" : "a pretended GPU, bf16");
        assert_null(engine_fallback(e));
        engine_free(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_train),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_bad_checkpoints),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_plugin),
    };
    make_text();
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
