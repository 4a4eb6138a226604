#include "crypto/prg/prg.h"
#include "privacy/dp_plan.h"
#include "privacy/mechanism/quantise.h"
#include "support/squares.h"
#include "unit/parties/update_fixture.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static fixture fx;
static builtin *own; /* what the latest update trains with */

static int setup(void **state)
{
    int rc = folder_make(state);
    fixture_make(&fx);
    setenv("SEFL_CUDA_PLUGIN", FAKE_ENGINE, 1);
    return rc;
}

static int teardown(void **state)
{
    builtin_free(own);
    fixture_clear(&fx);
    return folder_remove(state);
}

static builtin_config trains(const corpus *text)
{
    return (builtin_config){ .task = &fx.t, .words = fx.words, .text = text };
}

/* An update of the built-in training. */
static client_update *update_with(const builtin_config *how, client_update_config c)
{
    client_update *u = NULL;
    builtin_free(own);
    CHECK_OK(builtin_new(&own, how));
    c.task = &fx.t, c.port = builtin_port(own), c.upload_key = fx.upload;
    CHECK_OK(client_update_new(&u, &c));
    return u;
}

static client_update *update_of(const sefl_coins *coins)
{
    builtin_config how = trains(&fx.text);
    return update_with(&how, (client_update_config){ .coins = coins });
}

static train_job job_of(uint64_t round, const corpus *text)
{
    fx.header.round = round;
    return (train_job){ .task = &fx.t,
                        .round = round,
                        .client = fx.client,
                        .model = fx.model,
                        .text = text,
                        .eos = vocab_eos(fx.words) };
}

/* ---- the same integers, from the manual alone ------------------------------------------------ */

static uint64_t seed_of(uint64_t round)
{
    uint8_t b[14 + 32 + 8 + 32], digest[32];
    memcpy(b, "sefl dropout 1", 14);
    memcpy(b + 14, fx.t.id, 32);
    store_u64(b + 46, round);
    memcpy(b + 54, fx.client, 32);
    sha256_of(digest, span_of(b, sizeof b));
    return load_u64(digest);
}

static float *theta_of(void)
{
    model_meta meta;
    float *theta = NULL;
    size_t n;
    CHECK_OK(model_read(&meta, &theta, &n, fx.model));
    assert_int_equal(n, fx.t.params);
    return theta;
}

static void round_as_said(int64_t *X, const float *v, const dp_weight *w, const sefl_rng *rng)
{
    const task *t = &fx.t;
    if (t->noise == TASK_NOISE_NONE) {
        dp_plain_grid g = { .clip = 0.5, .q = t->ahe.pack.q, .value_max = t->ahe.pack.value_max };
        if (t->unit == TASK_UNIT_RECORD)
            g.value_max /= t->records_max;
        CHECK_OK(dp_quantise_plain(X, &g, v, t->params, w, rng));
    } else {
        CHECK_OK(dp_quantise(X, NULL, &t->grid, v, t->params, w, rng));
    }
}

/* The learning rate of round 3 of 5: halfway under both schedules. */
static double lr_of(uint64_t round)
{
    const task *t = &fx.t;
    assert_true(t->schedule == TASK_CONSTANT || round == 3);
    return t->schedule == TASK_CONSTANT ? t->lr : (t->lr + t->lr_last) / 2;
}

static void expected_client(int64_t *X, uint64_t round, const sefl_rng *rng)
{
    const task *t = &fx.t;
    lm *m = NULL;
    train_run *tr = NULL;
    train_info info;
    float *v = theta_of();
    CHECK_OK(model_open(&m, &(model_meta){ 0 }, fx.model, t->model.batch, t->model.steps, NULL));
    train_steps how = { .words = fx.text.token,
                        .n = fx.text.tokens,
                        .lr = lr_of(round),
                        .clip = t->gradient_clip,
                        .dropout.rate = t->dropout };
    lm_dropout_key(how.dropout.key, seed_of(round));
    CHECK_OK(train_new(&tr, m, NULL, &(optim_config){ 0 }, &how));
    while (t->local_epochs ? train_at(tr)->epoch < t->local_epochs
                           : train_at(tr)->done < t->local_steps)
        CHECK_OK(train_step(tr, &info));
    for (size_t i = 0; i < t->params; i++)
        v[i] = lm_theta(m)[i] - v[i];
    dp_weight w = { fx.text.tokens, 100 };
    round_as_said(X, v, t->weights == TASK_CAPPED ? &w : NULL, rng);
    train_free(tr);
    lm_free(m);
    sefl_free(v);
}

/* One record at a time, each on a fresh model. */
static void expected_records(int64_t *X, uint64_t round, const sefl_rng *rng)
{
    const task *t = &fx.t;
    size_t docs = fx.text.docs, n = docs < t->records_max ? docs : t->records_max;
    int64_t *one = NULL;
    float *v = NULL;
    CHECK_OK(sefl_new(&one, t->params, sizeof *one));
    CHECK_OK(sefl_new(&v, t->params, sizeof *v));
    for (size_t k = 0; k < n; k++) {
        size_t d = ((round - 1) * n + k) % docs;
        size_t from = fx.text.line[fx.text.doc[d]], len = fx.text.line[fx.text.doc[d + 1]] - from;
        lm *m = NULL;
        double loss, norm = 0;
        uint32_t input[5] = { vocab_eos(fx.words) };
        CHECK_OK(
            model_open(&m, &(model_meta){ 0 }, fx.model, t->model.batch, t->model.steps, NULL));
        for (size_t at = 0; at < len; at += 5) {
            size_t part = len - at < 5 ? len - at : 5;
            for (size_t i = 0; i < part; i++)
                input[i] = at + i == 0 ? vocab_eos(fx.words) : fx.text.token[from + at + i - 1];
            lm_batch b = { input, fx.text.token + from + at, (uint32_t)part,
                           1,     1 / (double)len,           at > 0 };
            nn_dropout drop = { .rate = t->dropout, .step = k };
            lm_dropout_key(drop.key, seed_of(round) + at);
            CHECK_OK(lm_gradient(m, &b, &drop, &loss));
        }
        const nn_real *g = lm_grad(m);
        for (size_t i = 0; i < t->params; i++)
            norm += (double)g[i] * (double)g[i];
        norm = sqrt(norm);
        double scale = lr_of(round) * (norm > t->gradient_clip ? t->gradient_clip / norm : 1);
        for (size_t i = 0; i < t->params; i++)
            v[i] = (float)(-scale * (double)g[i]);
        round_as_said(one, v, NULL, rng);
        for (size_t i = 0; i < t->params; i++)
            X[i] += one[i];
        lm_free(m);
    }
    sefl_free(one);
    sefl_free(v);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const shape shapes[] = {
    { .scheme = "paillier", .noise = TASK_NOISE_JOINT },
    { .scheme = "pad", .noise = TASK_NOISE_JOINT },
    { .scheme = "pad", .noise = TASK_NOISE_OWN, .weights = TASK_CAPPED },
    { .scheme = "paillier", .noise = TASK_NOISE_JOINT, .weights = TASK_CAPPED, .steps = 7 },
    { .scheme = "pad", .seal = "xwing", .noise = TASK_NOISE_NONE },
    { .scheme = "paillier", .noise = TASK_NOISE_NONE, .weights = TASK_CAPPED },
    { .scheme = "pad", .noise = TASK_NOISE_JOINT, .unit = TASK_UNIT_RECORD },
    { .scheme = "pad", .noise = TASK_NOISE_NONE, .unit = TASK_UNIT_RECORD },
    { .scheme = "paillier", .noise = TASK_NOISE_OWN, .unit = TASK_UNIT_RECORD },
    { .scheme = "pad", .noise = TASK_NOISE_NONE, .schedule = TASK_LINEAR },
    { .scheme = "pad",
      .noise = TASK_NOISE_JOINT,
      .unit = TASK_UNIT_RECORD,
      .schedule = TASK_COSINE },
};

typedef struct seen {
    int64_t *X;
    uint64_t round;
    unsigned times;
} seen;

static void look(void *ctx, uint64_t round, const int64_t *X, size_t n)
{
    seen *s = ctx;
    assert_int_equal(n, fx.t.values);
    memcpy(s->X, X, n * sizeof *X);
    s->round = round, s->times++;
}

static void body_holds_the_integers(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        static test_coins coins, again;
        static const char *const devices[] = { NULL, "auto", "cuda" }; /* a pretended GPU */
        int64_t *want = NULL, *got = NULL;
        seen watched = { 0 };
        client_body body, on_disk;
        sefl_rng rng;
        uint64_t round = 3;
        fixture_task(&fx, &shapes[k]);
        fixture_model(&fx, k);
        coins.n = again.n = 0, coins.repeated = false;
        sefl_coins c = test_coins_of(&coins), c2 = test_coins_of(&again);
        CHECK_OK(sefl_new(&want, fx.t.values, sizeof *want));
        CHECK_OK(sefl_new(&got, fx.t.values, sizeof *got));
        CHECK_OK(sefl_new(&watched.X, fx.t.values, sizeof *got));
        builtin_config how = trains(&fx.text);
        how.device = devices[k % 3];
        client_update *u = update_with(
            &how, (client_update_config){ .coins = &c, .observe = look, .observe_ctx = &watched });
        const char *path = folder_path("body");
        train_job job = job_of(round, &fx.text);
        job.attempt = 2;
        CHECK_OK(client_update_make(u, &body, path, &fx.header, &job));

        CHECK_OK(coins_for(&c2, &rng, "round", round, 2));
        if (shapes[k].unit == TASK_UNIT_RECORD)
            expected_records(want, round, &rng);
        else
            expected_client(want, round, &rng);
        fixture_open(&fx, got, path, round);
        bool any = false;
        for (size_t i = 0; i < fx.t.values; i++) {
            any = any || want[i] != 0;
            if (got[i] != want[i])
                fail_msg("%s, shape %zu: value %zu is %lld, not %lld", shapes[k].scheme, k, i,
                         (long long)got[i], (long long)want[i]);
        }
        assert_true(any);
        assert_int_equal(watched.times, 1);
        assert_int_equal(watched.round, round);
        assert_memory_equal(watched.X, want, fx.t.values * sizeof *want);

        CHECK_OK(client_body_of(&on_disk, path, head_bytes(fx.t.seal)));
        assert_true(client_body_same(&on_disk, &body));
        assert_int_equal(body.bytes, task_body_bytes(&fx.t));
        assert_false(coins.repeated);

        /* never a second time, whatever the attempt */
        job.attempt = 3;
        CHECK_STATUS(client_update_make(u, &body, path, &fx.header, &job), SEFL_EEXIST);
        CHECK_OK(client_body_of(&body, path, head_bytes(fx.t.seal)));
        assert_true(client_body_same(&on_disk, &body));

        /* the next attempt of the same round has other coins: another body */
        const char *other = folder_path("body2");
        CHECK_OK(client_update_make(u, &body, other, &fx.header, &job));
        assert_memory_not_equal(&on_disk.hash, body.hash, SHA256_BYTES);
        assert_int_equal(memcmp(on_disk.head, body.head, SHA256_BYTES) != 0, fx.t.seal != NULL);
        unlink(path), unlink(other);
        client_update_free(u);
        sefl_free(want), sefl_free(got), sefl_free(watched.X);
    }
}

static void all_zeros(const char *path, uint64_t round)
{
    int64_t *got = NULL;
    CHECK_OK(sefl_new(&got, fx.t.values, sizeof *got));
    memset(got, 1, fx.t.values * sizeof *got);
    fixture_open(&fx, got, path, round);
    for (size_t i = 0; i < fx.t.values; i++)
        assert_int_equal(got[i], 0);
    sefl_free(got);
}

static size_t files_beside(const char *begin)
{
    size_t n = 0;
    DIR *d = opendir(folder_path(""));
    for (struct dirent *e; (e = readdir(d));)
        n += strncmp(e->d_name, begin, strlen(begin)) == 0;
    closedir(d);
    return n;
}

static void wrong_inputs_are_refused(void **state)
{
    (void)state;
    sefl_coins c = coins_system();
    client_update *u = NULL;
    client_body body;
    fixture_task(&fx, &shapes[1]);
    fixture_model(&fx, 1);

    fx.t.vocab_hash[0] ^= 1;
    builtin_config how = trains(&fx.text);
    builtin *refused = NULL;
    CHECK_STATUS(builtin_new(&refused, &how), SEFL_EAUTH);
    fx.t.vocab_hash[0] ^= 1;
    corpus none = { 0 };
    how.text = &none;
    CHECK_STATUS(builtin_new(&refused, &how), SEFL_EINVAL);

    client_update_config cfg = { .task = &fx.t, .coins = &c };
    CHECK_STATUS(client_update_new(&u, &cfg), SEFL_EINVAL);

    u = update_of(&c);
    const char *path = folder_path("refused");
    train_job job = job_of(1, &fx.text);
    fx.header.model[31] ^= 0x80;
    CHECK_STATUS(client_update_make(u, &body, path, &fx.header, &job), SEFL_EAUTH);
    fx.header.model[31] ^= 0x80;

    /* an invalid round key */
    memset(fx.header.key, 0, sizeof fx.header.key);
    CHECK_STATUS(client_update_make(u, &body, path, &fx.header, &job), SEFL_EPROTO);
    memcpy(fx.header.key, seal_key_pub(fx.csp).p, fx.header.key_bytes);
    CHECK_STATUS(client_body_of(&body, folder_put("brief", "brief", 5), 6), SEFL_EPROTO);
    CHECK_OK(client_body_of(&body, folder_path("brief"), 5));
    assert_int_equal(body.bytes, 5);

    /* signed, but not the task's model */
    lm_config keep = fx.t.model;
    fx.t.model.hidden = 8, fx.t.model.embed = 8;
    CHECK_STATUS(client_update_make(u, &body, path, &fx.header, &job), SEFL_EPROTO);
    fx.t.model = keep;
    uint8_t signed_model[SHA256_BYTES];
    memcpy(signed_model, fx.header.model, SHA256_BYTES);
    sefl_buf b = { 0 };
    CHECK_OK(file_read(&b, fx.model, 1 << 20));
    const char *cut = folder_put("cut", b.p, b.n - 4);
    CHECK_OK(file_sha256(fx.header.model, NULL, cut));
    job.model = cut;
    CHECK_STATUS(client_update_make(u, &body, path, &fx.header, &job), SEFL_EPROTO);
    job.model = folder_path("nowhere");
    CHECK_STATUS(client_update_make(u, &body, path, &fx.header, &job), SEFL_ENOTFOUND);
    assert_int_equal(files_beside("refused"), 0);
    buf_clear(&b);
    client_update_free(u);
}

/* The weight slot is zero too. */
static void diverged_training_uploads_zeros(void **state)
{
    (void)state;
    sefl_coins c = coins_system();
    client_body body;
    static const shape wild[] = {
        { .scheme = "pad", .noise = TASK_NOISE_JOINT, .lr = 1e30, .epochs = 3 },
        { .scheme = "pad", .noise = TASK_NOISE_JOINT, .lr = 1e38, .steps = 1 },
        { .scheme = "pad", .noise = TASK_NOISE_OWN, .weights = TASK_CAPPED, .lr = 1e30 },
        { .scheme = "pad", .noise = TASK_NOISE_JOINT, .unit = TASK_UNIT_RECORD },
    };
    for (size_t k = 0; k < sizeof wild / sizeof *wild; k++) {
        fixture_task(&fx, &wild[k]);
        fx.t.gradient_clip = k == 1 ? 1e30 : 0;
        if (k == 1 || k == 3)
            fx.t.lr = 1e308; /* the step itself has no finite value */
        fixture_model(&fx, 1);
        client_update *u = update_of(&c);
        const char *path = folder_path("wild");
        train_job job = job_of(4, &fx.text);
        CHECK_OK(client_update_make(u, &body, path, &fx.header, &job));
        assert_true(client_update_diverged(u));
        assert_int_equal(body.bytes, task_body_bytes(&fx.t));
        all_zeros(path, 4);
        unlink(path);
        fx.t.lr = 0.1; /* the next round is normal */
        job = job_of(5, &fx.text);
        CHECK_OK(client_update_make(u, &body, path, &fx.header, &job));
        assert_false(client_update_diverged(u));
        unlink(path);
        client_update_free(u);
    }
}

/* A hostile model: an embedding of denormals below a decoder of zeros, through which no gradient
 * comes down. The rows of the words that the text has would become 0 - a denormal. */
static void has_denormals(lm *m)
{
    const layout *l = lm_layout(m);
    for (size_t k = 0; k < l->n; k++)
        for (size_t i = 0; i < l->tensor[k].count; i++)
            if (strcmp(l->tensor[k].name, "encoder.weight") == 0)
                lm_theta(m)[l->tensor[k].offset + i] = (nn_real)1e-39;
            else if (strcmp(l->tensor[k].name, "decoder.weight") == 0)
                lm_theta(m)[l->tensor[k].offset + i] = 0;
}

static void an_update_has_no_denormals(void **state)
{
    (void)state;
    const shape one = { .scheme = "pad", .noise = TASK_NOISE_JOINT, .steps = 1 };
    uint64_t weight = 0;
    float *v = NULL;
    fixture_task(&fx, &one);
    fixture_model_as(&fx, 1, has_denormals);
    float *theta = theta_of();
    const builtin_config how = trains(&fx.text);
    builtin_free(own);
    CHECK_OK(builtin_new(&own, &how));
    const train_port port = builtin_port(own);
    CHECK_OK(sefl_new(&v, fx.t.params, sizeof *v));
    train_job job = job_of(1, &fx.text);
    job.theta = theta;
    CHECK_OK(port.train(port.self, &job, v, &weight));
    for (size_t i = 0; i < fx.t.params; i++)
        if (fpclassify(v[i]) == FP_SUBNORMAL)
            fail_msg("value %zu of %zu is a denormal: %g", i, fx.t.params, (double)v[i]);
    assert_int_equal(fpclassify(theta[0]), FP_SUBNORMAL); /* the caller's mode stays */
    assert_true(theta[0] > 0);
    sefl_free(theta);
    sefl_free(v);
}

/* ---- unit record: what one record can do ----------------------------------------------------- */

static nn_real *value_of(lm *m, const char *name, size_t at)
{
    return lm_theta(m) + layout_find(lm_layout(m), name)->offset + at;
}

/* Models on which <unk> (word 0) ruins a record: a loss above 1,000 nats per word; a gradient that
 * is not finite (the first value of each block of the embedding is that of word 0 alone). */
static void hates_unk(lm *m)
{
    *value_of(m, "decoder.bias", 0) = (nn_real)-1e30;
}

static void bursts_on_unk(lm *m)
{
    const nn_real huge = (nn_real)3e38;
    const layout_tensor *p = lm_layout(m)->tensor;
    for (size_t k = 0; k < 3; k++) /* 6 columns in blocks of 2: three values each */
        *value_of(m, "encoder.weight", 3 * k) = huge;
    for (size_t k = 0; k < lm_layout(m)->n; k++) /* gates that a large input does not saturate */
        if (strstr(p[k].name, "weight_ih"))
            for (size_t i = 0; i < p[k].count; i++)
                lm_theta(m)[p[k].offset + i] *= (nn_real)1e-38;
}

static void made_of(const corpus *text, int64_t *X, bool *diverged, uint64_t round)
{
    static test_coins coins;
    seen watched = { .X = X };
    client_body body;
    coins.n = 0;
    sefl_coins c = test_coins_of(&coins);
    builtin_config how = trains(text);
    client_update *u = update_with(
        &how, (client_update_config){ .coins = &c, .observe = look, .observe_ctx = &watched });
    const char *path = folder_path("record");
    train_job job = job_of(round, text);
    CHECK_OK(client_update_make(u, &body, path, &fx.header, &job)); /* it uploads for any record */
    assert_int_equal(body.bytes, task_body_bytes(&fx.t));
    *diverged = client_update_diverged(u);
    unlink(path);
    client_update_free(u);
}

/* The same text with and without one poisonous record (another one in its place), the same coins:
 * the integers differ by one record's vector, whose norm is within the bound that epsilon depends
 * on. */
static void one_record_moves_the_sum_by_its_bound(void **state)
{
    static const char harmless[] = "the cat sat on the mat\n"
                                   "a dog ran to the cat\n"
                                   "\n"
                                   "the dog sat and the cat ran\n"
                                   "on a mat sat a dog on\n" /* was: zanzibar, <unk> */
                                   "to the mat ran the dog and a cat and a dog\n";
    void (*const models[])(lm *) = { hates_unk, bursts_on_unk };
    corpus other = { 0 };
    (void)state;
    CHECK_OK(corpus_read_over(&other, fx.words, &(corpus_file){ .path = "text" },
                              span_of_str(harmless)));
    for (size_t k = 0; k < 4; k++) {
        int64_t *with = NULL, *without = NULL;
        fixture_task(&fx, &shapes[k % 2 ? 6 : 8]);
        fx.t.gradient_clip = k < 2 ? 0.25 : 0;
        fixture_model_as(&fx, 1, models[k / 2 % 2]);
        CHECK_OK(sefl_new(&with, fx.t.values, sizeof *with));
        CHECK_OK(sefl_new(&without, fx.t.values, sizeof *without));
        for (uint64_t round = 1; round <= 3;
             round++) { /* 4 of 6 records: it is in rounds 2 (first) and 3 (third) */
            const bool in = round > 1;
            bool zeroed, clean, any = false;
            made_of(&fx.text, with, &zeroed, round);
            made_of(&other, without, &clean, round);
            assert_true(zeroed == in);
            assert_false(clean);
            for (size_t i = 0; i < fx.t.values; i++) {
                any = any || with[i] != 0; /* the other records are there */
                without[i] -= with[i];
            }
            assert_true(any);
            uint64_t hi, square = sum_of_squares(&hi, without, fx.t.values);
            assert_true(in == (square > 0));
            assert_true(hi == 0 && square <= fx.t.grid.s2);
        }
        sefl_free(with), sefl_free(without);
    }
    corpus_clear(&other);
}

/* What a record has after its first record_words words changes nothing. */
static void a_long_record_is_cut(void **state)
{
    static const char longer[] = "the cat sat on the mat\n"
                                 "a dog ran to the cat\n"
                                 "\n"
                                 "the dog sat and the cat ran\n"
                                 "on a mat sat a dog zanzibar\n"
                                 "to the mat ran the dog and a cat and a dog sat on the mat\n";
    corpus other = { 0 };
    (void)state;
    CHECK_OK(
        corpus_read_over(&other, fx.words, &(corpus_file){ .path = "text" }, span_of_str(longer)));
    for (uint32_t words = 12; words <= 13; words++) { /* the shorter one has 12 and <eos> */
        int64_t *one = NULL, *two = NULL;
        bool bad;
        fixture_task(&fx, &shapes[6]);
        fx.t.record_words = words;
        fixture_model(&fx, 1);
        CHECK_OK(sefl_new(&one, fx.t.values, sizeof *one));
        CHECK_OK(sefl_new(&two, fx.t.values, sizeof *two));
        made_of(&fx.text, one, &bad, 3); /* its records 2 to 5, the last of which differs */
        made_of(&other, two, &bad, 3);
        assert_int_equal(memcmp(one, two, fx.t.values * sizeof *one) == 0, words == 12);
        sefl_free(one), sefl_free(two);
    }
    corpus_clear(&other);
}

/* ---- interruptions --------------------------------------------------------------------------- */

typedef struct stopper {
    uint64_t at;
    bool die;
} stopper;

static bool stop_at(void *self, uint64_t done_so_far, uint64_t total)
{
    stopper *s = self;
    assert_true(done_so_far <= total);
    if (s->die && done_so_far == total) /* the last unit is written, nothing is synced */
        _exit(9);
    return done_so_far < s->at;
}

static void stopped_at_any_step(void **state)
{
    (void)state;
    sefl_coins c = coins_system();
    client_body body;
    fixture_task(&fx, &shapes[0]); /* several units */
    fixture_model(&fx, 1);
    client_update *u = update_of(&c);
    char path[512];
    snprintf(path, sizeof path, "%s", folder_path("stopped"));
    uint64_t at = 0;
    for (;; at++) {
        stopper s = { .at = at };
        sefl_progress p = { stop_at, &s };
        train_job job = job_of(1, &fx.text);
        job.progress = &p;
        sefl_status st = client_update_make(u, &body, path, &fx.header, &job);
        if (st == SEFL_OK)
            break;
        CHECK_STATUS(st, SEFL_ECANCELLED);
        assert_int_equal(files_beside("stopped"), 0);
    }
    assert_true(at > 5);
    assert_int_equal(files_beside("stopped"), 1);
    unlink(path);
    client_update_free(u);
}

/* Died between the unfinished file and its name: the name does not exist. */
static void killed_before_the_end(void **state)
{
    (void)state;
    sefl_coins c = coins_system();
    client_body body;
    fixture_task(&fx, &shapes[0]);
    fixture_model(&fx, 1);
    client_update *u = update_of(&c);
    char path[512];
    snprintf(path, sizeof path, "%s", folder_path("killed"));
    stopper s = { .at = UINT64_MAX, .die = false };
    sefl_progress p = { stop_at, &s };
    train_job job = job_of(1, &fx.text);
    job.progress = &p;
    pid_t pid = fork();
    if (pid == 0) {
        s.die = true;
        if (client_update_make(u, &body, path, &fx.header, &job) == SEFL_OK)
            _exit(0);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 9) {
        assert_false(file_exists(path));
        assert_true(files_beside("killed.tmp-") <= 1); /* none where files can be nameless */
    } else {
        fail_msg("the child ended with %d", WEXITSTATUS(status));
    }
    CHECK_OK(client_update_make(u, &body, path, &fx.header, &job));
    assert_true(file_exists(path));
    client_update_free(u);
}

static sefl_status once(const char *path)
{
    sefl_coins c = coins_system();
    client_update *u = NULL;
    client_body body;
    builtin *b = NULL;
    builtin_config how = trains(&fx.text);
    train_job job = job_of(1, &fx.text);
    unlink(path);
    sefl_status st = builtin_new(&b, &how);
    client_update_config cfg = {
        .task = &fx.t, .port = builtin_port(b), .upload_key = fx.upload, .coins = &c
    };
    if (st == SEFL_OK)
        st = client_update_new(&u, &cfg);
    if (st == SEFL_OK)
        st = client_update_make(u, &body, path, &fx.header, &job);
    client_update_free(u);
    builtin_free(b);
    return st;
}

static void every_fault_is_told(void **state)
{
    (void)state;
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_RANDOM, FAULT_WRITE, FAULT_SYNC,
                                        FAULT_READ };
    char path[512];
    fixture_task(&fx, &shapes[2]);
    fixture_model(&fx, 1);
    snprintf(path, sizeof path, "%s", folder_path("faults"));
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        TEST_FAULTS(kinds[k], st = once(path), unlink(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(body_holds_the_integers),
        cmocka_unit_test(wrong_inputs_are_refused),
        cmocka_unit_test(diverged_training_uploads_zeros),
        cmocka_unit_test(an_update_has_no_denormals),
        cmocka_unit_test(one_record_moves_the_sum_by_its_bound),
        cmocka_unit_test(a_long_record_is_cut),
        cmocka_unit_test(stopped_at_any_step),
        cmocka_unit_test(killed_before_the_end),
        cmocka_unit_test(every_fault_is_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
