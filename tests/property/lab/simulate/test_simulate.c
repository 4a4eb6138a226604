/* The same model, bit for bit: with the real cryptography and without, on one thread and on two, in a
 * second run; and how a run ends. */
#include "protocol/modes/mode.h"
#include "runs.h"

#include "base/alloc.h"
#include "base/file.h"
#include "fed/fed_train.h"
#include "privacy/dp_filter.h"

#include <math.h>

static void full_is_clear(void **state)
{
    (void)state;
    static const char *const modes[][2] = {
        { "pad-joint", "crypto.scheme=pad privacy.noise=joint" },
        { "paillier-joint", "crypto.scheme=paillier privacy.noise=joint" },
        { "pad-own", "crypto.scheme=pad privacy.noise=own" },
        { "paillier-own", "crypto.scheme=paillier privacy.noise=own" },
        { "pad-own-filter", "privacy.noise=own privacy.filter=3000 rounds.count=3" },
        { "paillier-own-filter",
          "crypto.scheme=paillier privacy.noise=own privacy.filter=2500,900 rounds.count=3" },
        { "none", "privacy.noise=none" },
        { "claim", "privacy.claim=dp privacy.z=1 privacy.epsilon=40 privacy.clip=1" },
        { "capped",
          "privacy.weights=capped privacy.weight_cap=200 server.step=adam server.lr=0.01" },
        { "open", "privacy.sampling=open privacy.rate=0.6 rounds.threshold=2" },
        { "record", "privacy.unit=record privacy.records_max=3 training.lr=1" },
        { "record-turns", "privacy.unit=record privacy.records_max=3 privacy.record_turns=1 "
                          "training.lr=1 privacy.claim=dp privacy.z=1 privacy.epsilon=7" },
        { "quantile", "privacy.clip_quantile=0.5" },
        { "only", "training.only=rnn.weight_ih*,decoder.bias" },
        { "only-capped", "training.only=decoder.* privacy.weights=capped privacy.weight_cap=200 "
                         "server.step=adam server.lr=0.01 training.optimiser=adam "
                         "training.weight_decay=0.1" },
        { "only-record", "training.only=encoder.weight,rnn.bias* privacy.unit=record "
                         "privacy.records_max=3 training.lr=1" },
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char name[64], more[512];
        snprintf(name, sizeof name, "full-%s", modes[i][0]);
        snprintf(more, sizeof more, "%s crypto=full", modes[i][1]);
        simulate_result full = must(name, more);
        snprintf(name, sizeof name, "clear-%s", modes[i][0]);
        simulate_result clear = must(name, modes[i][1]);
        same(&full, &clear);
        assert_true(full.t.all.up_bytes == clear.t.all.up_bytes);
        assert_true(full.t.all.link_bytes > 0 && isnan(clear.t.all.link_bytes));
    }
    simulate_result a = must("other-1", "seed=2"), b = must("other-2", "privacy.z=0.021");
    assert_memory_not_equal(a.model, b.model, sizeof a.model); /* this can fail */
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    static const char *const modes[] = {
        "protection=none privacy.weights=capped privacy.weight_cap=200",
        "protection=cdp",
        "protection=sefl",
        "protection=sefl crypto=full",
        "protection=sefl network.dropout=0.2 network.stragglers=0.3 clients=12 rounds.threshold=2",
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        simulate_result r[3];
        for (unsigned k = 0; k < 3; k++) { /* twice with two: a repetition */
            char name[64], more[512];
            snprintf(name, sizeof name, "threads-%zu-%u", i, k);
            snprintf(more, sizeof more, "%s threads=%u", modes[i], k == 0 ? 1 : 2);
            r[k] = must(name, more);
        }
        same(&r[0], &r[1]);
        same(&r[0], &r[2]);
    }
}

/* The learning rate of the last round is tiny: that round changes nothing, on every path. */
static void schedule_ends_near_zero(void **state)
{
    (void)state;
    static const char *const modes[] = {
        "protection=none",
        "protection=sefl privacy.noise=none",
        "protection=sefl privacy.noise=none crypto=full training.optimiser=adam training.lr=0.01",
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char name[64], more[512];
        snprintf(name, sizeof name, "schedule-one-%zu", i);
        snprintf(more, sizeof more, "%s rounds.count=1", modes[i]);
        simulate_result one = must(name, more);
        snprintf(name, sizeof name, "schedule-two-%zu", i);
        snprintf(more, sizeof more, "%s rounds.count=2 training.schedule=cosine %s", modes[i],
                 "training.lr_last=1e-30"); /* too small to change a float */
        simulate_result two = must(name, more);
        assert_int_equal(two.t.rounds, 2);
        assert_memory_equal(one.model, two.model, sizeof one.model);
        snprintf(name, sizeof name, "schedule-small-%zu", i);
        snprintf(more, sizeof more, "%s rounds.count=2 training.schedule=cosine %s", modes[i],
                 "training.lr_last=0.001");
        two = must(name, more);
        assert_memory_not_equal(one.model, two.model, sizeof one.model); /* this can fail */
    }
}

static float *read_values(const char *run, const char *model, model_meta *meta, size_t *n)
{
    char path[256];
    float *theta = NULL;
    snprintf(path, sizeof path, "runs/%s/model/%s.safetensors", run, model);
    CHECK_OK(model_read(meta, &theta, n, folder_path(path)));
    return theta;
}

static float *values_of(const char *run, const char *model, model_meta *meta)
{
    size_t n;
    return read_values(run, model, meta, &n);
}

/* A clip that is found: from far above and from far below it comes to the same value. The noise that
 * a target epsilon needs is that of a fixed clip: the bit costs nothing. */
static void clip_is_found(void **state)
{
    (void)state;
    static const char *const from[] = { "privacy.clip=4", "privacy.clip=0.2" };
    double end[2];
    for (size_t i = 0; i < 2; i++) {
        char name[64], more[512];
        model_meta meta;
        snprintf(name, sizeof name, "clip-%zu", i);
        snprintf(more, sizeof more,
                 "%s privacy.clip_quantile=0.5 clients=40 data.words=200 rounds.count=30 "
                 "privacy.z=0.02 training.lr=2",
                 from[i]);
        (void)must(name, more);
        sefl_free(values_of(name, "last", &meta));
        end[i] = (double)meta.clip / 1e9;
    }
    print_message("clip from 4: %g, from 0.2: %g\n", end[0], end[1]);
    assert_true(end[0] < 2 && end[1] > 0.4);
    assert_true(fabs(log(end[0] / end[1])) < 0.3);
    simulate_result fixed = must("clip-fixed", "privacy.claim=dp privacy.z=0 privacy.epsilon=40"),
                    found = must("clip-found", "privacy.claim=dp privacy.z=0 privacy.epsilon=40 "
                                               "privacy.clip_quantile=0.5");
    assert_true(fixed.z > 0 && fabs(found.z / fixed.z - 1) < 1e-5);
}

/* The standard deviation of the noise in the last model of a run whose clients learn nothing. */
static double model_noise(const char *name, const char *filter)
{
    char more[512];
    model_meta meta;
    double sum = 0;
    snprintf(
        more, sizeof more,
        "clients=40 rounds.count=20 rounds.separation=2 rounds.max_per_client=0 rounds.threshold=2 "
        "privacy.z=1 privacy.clip=0.001 training.lr=1e-12 server.step=momentum "
        "server.momentum=0.5 privacy.filter=%s",
        filter);
    (void)must(name, more);
    size_t n;
    float *first = read_values(name, "round-0", &meta, &n),
          *last = read_values(name, "last", &meta, &n);
    for (size_t i = 0; i < n; i++)
        sum += ((double)last[i] - (double)first[i]) * ((double)last[i] - (double)first[i]);
    sefl_free(first);
    sefl_free(last);
    return sqrt(sum / (double)n);
}

/* A filter takes the noise back from the model, although the numbers of clients that have a turn
 * differ from round to round. */
static void a_filter_takes_noise_back(void **state)
{
    (void)state;
    const dp_filter f = { 1, { 3800 } };
    const double gain =
        dp_filter_models(&(dp_filter){ 0 }, 20, 0.5).last / dp_filter_models(&f, 20, 0.5).last;
    const double found = model_noise("plain-noise", "") / model_noise("noise-taken-back", "3800");
    print_message("noise of independent rounds over that of a filter: %g, expected %g\n", found,
                  gain);
    assert_true(gain > 4 && fabs(found / gain - 1) < 0.15);
}

/* training.only: the noise and the step change the named tensors; all others keep every bit. */
static void only_some_tensors(void **state)
{
    (void)state;
    static const char only[] = "rnn.weight_hh*,decoder.bias";
    static const char *const modes[] = {
        "protection=none server.step=momentum",
        "protection=cdp",
        "protection=sefl privacy.weights=capped privacy.weight_cap=200",
        "protection=sefl crypto=full training.optimiser=adam training.lr=0.01",
        "protection=sefl privacy.unit=record privacy.records_max=3 training.lr=1",
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char name[64], more[512];
        model_meta meta;
        layout l;
        snprintf(name, sizeof name, "only-%zu", i);
        snprintf(more, sizeof more, "%s training.only=%s", modes[i], only);
        (void)must(name, more);
        float *first = values_of(name, "round-0", &meta), *last = values_of(name, "last", &meta);
        CHECK_OK(lm_config_layout(&meta.cfg, &l));
        CHECK_OK(layout_only(&l, only));
        for (size_t k = 0; k < l.n; k++) {
            const layout_tensor *x = &l.tensor[k];
            size_t changed = 0;
            for (size_t v = x->offset; v < x->offset + x->count; v++)
                changed += first[v] != last[v];
            if (x->trainable ? changed < x->count / 2 : changed > 0)
                fail_msg("%s: %s: %zu of %zu values changed", modes[i], x->name, changed, x->count);
        }
        layout_clear(&l);
        sefl_free(first), sefl_free(last);
    }
    simulate_result r;
    CHECK_STATUS(run(&r, "only-nothing", "training.only=rnn", NULL), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "\"rnn\" fits no tensor"));
}

/* weight_cap 0: the average of the updates, weighted by the clients' numbers of words, against a
 * computation of its own; with quantised updates, within the error of quantising. */
typedef struct weighted {
    settings set;
    experiment e;
    federation *f;
    double *want; /* the average */
} weighted;

static void weighted_average(weighted *w, const char *more)
{
    char text[2048], *save = NULL;
    float *v = NULL;
    double total = 0;
    settings_init(&w->set, experiment_schema());
    snprintf(text, sizeof text, "%s %s", tiny, more);
    for (char *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
        CHECK_OK(settings_set(&w->set, one, "test"));
    CHECK_OK(experiment_make(&w->e, &w->set));
    CHECK_OK(federation_new(
        &w->f, &(federation_config){ .experiment = &w->e, .settings = &w->set, .key = &key }));
    const task *t = &w->f->task;
    engine *e = NULL;
    CHECK_OK(sefl_new(&v, t->params, sizeof *v));
    CHECK_OK(sefl_new(&w->want, t->params, sizeof *w->want));
    CHECK_OK(engine_new(&e, &(engine_config){ .model = &t->model, .optim = t->optim }));
    for (uint32_t c = 0; c < w->f->clients; c++) {
        const double words = (double)w->f->text[c].tokens;
        const train_job job = {
            .task = t, .round = 1, .client = w->f->client[c], .text = &w->f->text[c]
        };
        CHECK_OK(engine_theta(e, w->f->theta));
        CHECK_OK(client_train_local(&job, e, v));
        for (size_t i = 0; i < t->params; i++)
            w->want[i] += words * (double)v[i];
        total += words;
    }
    for (size_t i = 0; i < t->params; i++)
        w->want[i] /= total;
    engine_free(e);
    sefl_free(v);
}

/* Returns the largest difference between the model's change in the run's one round and `want`. */
static double off(const weighted *w, const char *run)
{
    char path[256];
    model_meta meta;
    float *theta = NULL;
    size_t n;
    double most = 0;
    snprintf(path, sizeof path, "runs/%s/model/last.safetensors", run);
    CHECK_OK(model_read(&meta, &theta, &n, folder_path(path)));
    assert_int_equal(n, w->f->task.params);
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)theta[i] - (double)w->f->theta[i] - w->want[i]));
    sefl_free(theta);
    return most;
}

static void exact_weights(void **state)
{
    (void)state;
    static const char base[] = "clients=4 data.partition=dirichlet data.alpha=0.7 data.public=true "
                               "rounds.count=1 training.lr=2 training.steps=5";
    weighted w = { 0 };
    sefl_buf b = { 0 };
    char more[512], text[1536];
    uint64_t words = 0, most = 0;
    for (int i = 0; i < 80; i++)
        CHECK_OK(wr_fmt(&b, "= %d =\n%s %s a%d b%d c%d\n", i, i % 3 ? "one two" : "three four five",
                        i % 7 ? "six" : "seven eight nine ten one six", i, i % 5, i % 11));
    CHECK_OK(file_write_atomic(folder_path("text.txt"), buf_span(&b), 0666));
    buf_clear(&b);
    snprintf(more, sizeof more, "%s data.path=%s", base, folder_path("text.txt"));
    snprintf(text, sizeof text, "%s privacy.noise=none privacy.weights=capped", more);
    weighted_average(&w, text);
    for (uint32_t c = 0; c < 4; c++) {
        const uint64_t n = w.f->text[c].tokens;
        words += n, most = n > most ? n : most;
    }
    assert_int_equal(w.f->task.weight_cap, most);
    assert_true(4 * most > 5 * (words / 4)); /* the clients' shares differ */

    simulate_result r = must("exact-sefl", text);
    assert_int_equal(r.weight_cap, most);
    /* every client rounds each value, and its weight, by less than one step */
    const double step = task_value(&w.f->task, 1), full = (double)words / (double)most;
    double largest = 0;
    for (size_t i = 0; i < w.f->task.params; i++)
        largest = fmax(largest, fabs(w.want[i]));
    double bound = 4 * step / full * (1 + largest / (0.1 * 8)) + 1e-6;
    assert_true(bound < largest / 20);
    if (off(&w, "exact-sefl") > bound)
        fail_msg("off by %g, not within %g", off(&w, "exact-sefl"), bound);
    snprintf(text, sizeof text, "%s protection=none privacy.weights=capped", more);
    (void)must("exact-none", text);
    assert_true(off(&w, "exact-none") < 1e-6);
    snprintf(text, sizeof text, "%s protection=none", more); /* this can fail */
    (void)must("exact-equal", text);
    assert_true(off(&w, "exact-equal") > bound);
    /* the summary has the cap */
    CHECK_OK(file_read(&b, folder_path("runs/exact-sefl/summary.json"), 1 << 16));
    CHECK_OK(wr_u8(&b, 0));
    snprintf(text, sizeof text, "\"weight_cap\":%d,", (int)most);
    assert_non_null(strstr((const char *)b.p, text));
    buf_clear(&b);
    /* the largest client's number of words is private */
    snprintf(text, sizeof text, "%s data.public=false data.vocab=%s privacy.weights=capped %s",
             more, folder_path("text.txt"), "privacy.claim=dp privacy.z=1 privacy.epsilon=40");
    CHECK_STATUS(run(&r, "exact-claim", text, NULL), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "privacy.weight_cap"));
    federation_free(w.f);
    settings_clear(&w.set);
    sefl_free(w.want);
}

/* The budget ends a run; both servers' ledgers agree. */
static void budget_ends_it(void **state)
{
    (void)state;
    static const char terms[] =
        "privacy.claim=dp privacy.z=1 privacy.epsilon=8 privacy.delta=1e-5 rounds.count=9 "
        "privacy.early_end=true";
    simulate_result clear = must("budget", terms), full;
    char more[256];
    assert_true(clear.t.rounds >= 1 && clear.t.rounds < 9);
    assert_string_equal(clear.why, "the privacy budget is spent");
    assert_true(clear.t.all.epsilon_server <= 8);
    snprintf(more, sizeof more, "%s crypto=full", terms);
    full = must("budget-full", more);
    same(&clear, &full);
    assert_true(full.t.all.epsilon_server == clear.t.all.epsilon_server);
}

/* ---- the account of correlated noise, computed apart ------------------------------------------ */

enum { ROUNDS = 6 };

/* The largest |C x| over all patterns x of at most `most` of the first n rounds, `apart` apart. C is
 * the inverse of B: a 1 in round c comes back as row r of C, which is 1 for r = c and minus the sum of
 * B[r][j] C[j][c] below. */
static double worst_pattern(const unsigned gamma[2], unsigned n, unsigned most, unsigned apart)
{
    double C[ROUNDS][ROUNDS] = { { 0 } }, worst = 0;
    for (unsigned c = 0; c < n; c++)
        for (unsigned r = c; r < n; r++) {
            C[r][c] = r == c;
            for (unsigned lag = 1; lag <= 2 && lag <= r; lag++)
                C[r][c] += gamma[lag - 1] / 4096.0 * C[r - lag][c];
        }
    for (unsigned x = 1; x < 1u << n; x++) {
        double sum = 0;
        bool near = false;
        for (unsigned i = 0; i < n; i++)
            for (unsigned j = i + 1; j < n && j < i + apart; j++)
                near |= x >> i & x >> j & 1;
        for (unsigned r = 0; r < n; r++) {
            double v = 0;
            for (unsigned c = 0; c < n; c++)
                v += x >> c & 1 ? C[r][c] : 0;
            sum += v * v;
        }
        if (!near && (unsigned)__builtin_popcount(x) <= most)
            worst = fmax(worst, sum);
    }
    return sqrt(worst);
}

/* Epsilon of one release (docs/PRIVACY.md, section 4, *Conversion*). */
static double epsilon_of(double z, double factor, double delta)
{
    double least = INFINITY;
    for (double a = 1.01; a <= 256; a *= 1.0005)
        least = fmin(least, factor * a / (2 * z * z) +
                                (a * log(1 - 1 / a) - log(a - 1) - log(delta)) / (a - 1));
    return least;
}

/* Both servers' ledgers charge what the definition says, to the highest round. */
static void account_of_the_filter(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        unsigned rounds, most, apart;
        double factor;
    } runs[] = {
        { "rounds.separation=2 rounds.count=4", 4, 9, 2, 1.0048 },
        { "rounds.separation=3 rounds.count=6 privacy.noise=own", 6, 9, 3, 1 },
        { "rounds.separation=2 rounds.count=6 protection=cdp", 6, 9, 2, 1 },
        { "rounds.max_per_client=2 rounds.count=5 network.dropout=0.6", 5, 2, 1, 1.0048 },
        { "rounds.separation=2 rounds.count=4 crypto=full", 4, 9, 2, 1.0048 },
    };
    static const unsigned gamma[2] = { 2500, 900 };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char name[64], more[512];
        snprintf(name, sizeof name, "account-%zu", i);
        snprintf(more, sizeof more,
                 "clients=24 rounds.threshold=2 privacy.filter=2500,900 privacy.claim=dp "
                 "privacy.z=3 privacy.epsilon=30 privacy.delta=1e-5 %s",
                 runs[i].more);
        simulate_result r = must(name, more);
        assert_int_equal(r.t.rounds, runs[i].rounds);
        const double s = worst_pattern(gamma, runs[i].rounds, runs[i].most, runs[i].apart);
        const double want = epsilon_of(3 / s, runs[i].factor, 1e-5);
        assert_true(s > 1.2);
        assert_true(r.t.all.epsilon_server > want * (1 - 1e-5));
        assert_true(r.t.all.epsilon_server < want * (1 + 1e-3));
    }
}

/* A single client learns in plain FedAvg; a secure sum of one client is refused. */
static void one_client(void **state)
{
    (void)state;
    simulate_result r = must("one", "clients=1 protection=none rounds.count=4");
    assert_true(r.t.all.perplexity > 0 && r.t.all.perplexity < r.first_perplexity);
    CHECK_STATUS(run(&r, "one-sefl", "clients=1", NULL), SEFL_EINVAL);
}

/* Noise that drowns the model: the run completes, and its metrics show it. */
static void drowned(void **state)
{
    (void)state;
    simulate_result r = must("drowned", "privacy.z=30 privacy.clip=100 rounds.count=2");
    assert_int_equal(r.t.rounds, 2);
    assert_true(isnan(r.t.best) || r.t.best > r.first_perplexity);
}

/* Every client's training diverges: they upload zeros, as real ones do. No round is skipped for
 * lack of clients, and the result reports the divergence. */
static void diverged(void **state)
{
#define CAPPED "privacy.weights=capped privacy.weight_cap=200"
    static const char *const more[] = { "crypto=full", CAPPED, "protection=none",
                                        ("protection=none " CAPPED) };
#undef CAPPED
    (void)state;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        char name[16], text[256];
        snprintf(name, sizeof name, "diverged-%zu", i);
        snprintf(text, sizeof text,
                 "training.lr=1000000 training.gradient_clip=0 training.epochs=4 %s", more[i]);
        simulate_result r = must(name, text);
        assert_int_equal(r.t.rounds, 2);
        assert_int_equal(r.t.skipped, 0);
        assert_int_equal(r.t.all.clients, 10);
        assert_int_equal(r.t.all.diverged, 10);
        if (i >= 2) /* no noise: the model has not moved */
            assert_true(r.t.all.perplexity == r.first_perplexity);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clip_is_found),
        cmocka_unit_test(a_filter_takes_noise_back),
        cmocka_unit_test(full_is_clear),
        cmocka_unit_test(only_some_tensors),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(schedule_ends_near_zero),
        cmocka_unit_test(exact_weights),
        cmocka_unit_test(budget_ends_it),
        cmocka_unit_test(account_of_the_filter),
        cmocka_unit_test(one_client),
        cmocka_unit_test(drowned),
        cmocka_unit_test(diverged),
    };
    return runs_end(cmocka_run_group_tests(tests, folder_make_quick, folder_remove));
}
