/* verify: compares the results of a federation with named coins with the same rounds in the
 * clear. */
#ifndef TESTS_ROLES_VERIFY_H
#define TESTS_ROLES_VERIFY_H

#include "fed.h"

#include "model/file/model_file.h"
#include "protocol/round.h"
#include "simulate/clear.h"
#include "store/journal/journal.h"

#include <math.h>

typedef struct verify_round {
    const fed *f;
    uint64_t round;
    int64_t *sum; /* t.values */
    uint32_t clients;
} verify_round;

/* Adds what this client encrypted. */
static inline sefl_status verify_add(void *ctx, const journal_update *u)
{
    verify_round *b = ctx;
    const fed *f = b->f;
    sefl_buf x = { 0 };
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s-%" PRIu64, f->seen, u->name, b->round);
    CHECK_OK(file_read(&x, path, 1 << 28));
    assert_int_equal(x.n, f->t.values * sizeof(int64_t));
    for (size_t i = 0; i < f->t.values; i++)
        b->sum[i] += (int64_t)load_u64(x.p + 8 * i);
    b->clients++;
    buf_clear(&x);
    return SEFL_OK;
}

static inline uint64_t verify_attempt(journal *csp_journal_, const fed *f, uint64_t round,
                                      uint32_t clients)
{
    sefl_buf b = { 0 };
    envelope env;
    round_statement s;
    CHECK_OK(journal_fact_get(csp_journal_, round, "reveal", &b));
    assert_true(b.n > NOISE_ID + SHA256_BYTES);
    CHECK_OK(
        envelope_read(&env, span_of(b.p + NOISE_ID + SHA256_BYTES, b.n - NOISE_ID - SHA256_BYTES)));
    CHECK_OK(envelope_check_one(&env, SIGN_STATEMENT, SIGNER_AS, f->servers.as));
    CHECK_OK(round_statement_read(&s, env.content));
    assert_int_equal(s.clients, clients);
    buf_clear(&b);
    return s.attempt;
}

static inline void verify_same(const char *a, const char *b, uint64_t round)
{
    sefl_buf x = { 0 }, y = { 0 };
    CHECK_OK(file_read(&x, a, 1 << 28));
    CHECK_OK(file_read(&y, b, 1 << 28));
    if (x.n != y.n || memcmp(x.p, y.p, x.n) != 0)
        fail_msg("round %" PRIu64 ": the released model is not the one of the clear", round);
    buf_clear(&x);
    buf_clear(&y);
}

/* theta += lr * value / clients: `server: average` with equal weights, implemented a second time.
 * volatile: each step rounds separately, whatever the compiler would fuse. */
static inline void clear_step(float *theta, const task *t, const int64_t *w, uint32_t clients)
{
    for (size_t i = 0; i < t->params; i++) {
        volatile double value = t->noise == TASK_NOISE_JOINT ? ((double)w[i] + 0.5) * t->ahe.pack.h
                                                             : (double)w[i] * t->ahe.pack.q;
        volatile double step = t->server_lr * (value / clients);
        theta[i] = (float)((double)theta[i] + step);
    }
}

/* Joint noise: w is the release without X. Finds the X, 0 to 123, behind each parameter of the
 * released model and adds it to w; over all parameters X has the sampler's mean and variance. */
static inline void find_noise(const fed *f, const char *path, const float *theta, int64_t *w,
                              uint32_t clients, uint64_t round)
{
    const task *t = &f->t;
    model_meta meta;
    float *made = NULL;
    size_t n;
    double sum = 0, squares = 0;
    CHECK_OK(model_read(&meta, &made, &n, path));
    assert_int_equal(n, t->params);
    for (size_t i = 0; i < n; i++) {
        unsigned up = 64 - t->ahe.pack.k, x;
        int64_t base = w[i];
        for (x = 0; x < 124; x++) {
            task one = *t;
            float to = theta[i];
            one.params = 1;
            w[i] = (int64_t)((uint64_t)(base + x) << up) >> up;
            clear_step(&to, &one, &w[i], clients);
            if (memcmp(&to, &made[i], sizeof to) == 0)
                break;
        }
        if (x == 124)
            fail_msg("round %" PRIu64 ": parameter %zu is not the clear one with noise", round, i);
        sum += x, squares += ((double)x - 61.5) * ((double)x - 61.5);
    }
    double mean = sum / (double)n, var = squares / (double)n, sd = sqrt((double)n);
    if (fabs(mean - 61.5) > 6 * 9.42 / sd || fabs(var - 88.75) > 6 * 1.43 * 88.75 / sd)
        fail_msg("round %" PRIu64 ": joint noise of mean %.2f, variance %.2f", round, mean, var);
    sefl_free(made);
}

/* Recomputes every round in the clear. Returns how many were released; *least, *most: clients in
 * one. */
static inline unsigned verify(const fed *f, uint32_t *least, uint32_t *most)
{
    journal *as = NULL, *other = NULL;
    journal_round last;
    model_meta meta;
    float *theta = NULL;
    size_t n;
    unsigned released = 0;
    char clear_path[PATH_MAX];
    *least = UINT32_MAX, *most = 0;
    CHECK_OK(journal_open(&as, fed_path(f, "aggregator/state"), "aggregator", f->t.id));
    CHECK_OK(journal_open(&other, fed_path(f, "csp/state"), "csp", f->t.id));
    CHECK_OK(journal_round_last(other, &last));
    CHECK_OK(model_read(&meta, &theta, &n, fed_path(f, "public/init.safetensors")));
    assert_int_equal(n, f->t.params);
    int64_t *w = calloc(f->t.values, sizeof *w), *other_w = calloc(f->t.values, sizeof *other_w);
    assert_true(w && other_w);
    snprintf(clear_path, sizeof clear_path, "%s/clear.safetensors", f->seen);
    for (uint64_t round = 1; round <= last.round; round++) {
        journal_round row;
        CHECK_OK(journal_round_get(as, round, &row));
        if (row.skipped)
            continue;
        verify_round b = { .f = f, .round = round, .sum = calloc(f->t.values, sizeof *b.sum) };
        CHECK_OK(journal_updates(as, round, verify_add, &b));
        uint64_t attempt = verify_attempt(other, f, round, b.clients);
        bool joint = f->t.noise == TASK_NOISE_JOINT;
        clear_facts facts = { .task = &f->t, .seed = f->seed, .round = round, .attempt = attempt };
        if (round == 1 && f->t.noise != TASK_NOISE_NONE) { /* with other coins this does fail */
            facts.seed = f->seed + 1;
            CHECK_OK((joint ? clear_without_joint : clear_release)(w, &facts, b.sum));
            facts.seed = f->seed;
            memcpy(other_w, w, f->t.values * sizeof *w);
        }
        CHECK_OK((joint ? clear_without_joint : clear_release)(w, &facts, b.sum));
        assert_true(round > 1 || memcmp(w, other_w, f->t.values * sizeof *w) != 0);
        if (joint)
            find_noise(f, fed_path(f, "aggregator/models/round-%" PRIu64 ".safetensors", round),
                       theta, w, b.clients, round);
        clear_step(theta, &f->t, w, b.clients);
        CHECK_OK(model_write(clear_path, &meta, theta));
        verify_same(clear_path,
                    fed_path(f, "aggregator/models/round-%" PRIu64 ".safetensors", round), round);
        *least = b.clients < *least ? b.clients : *least;
        *most = b.clients > *most ? b.clients : *most;
        released++;
        free(b.sum);
    }
    free(w), free(other_w);
    sefl_free(theta);
    journal_close(as);
    journal_close(other);
    verify_same(fed_path(f, "aggregator/ledger"), fed_path(f, "csp/ledger"), 0);
    return released;
}

/* No coins of a release or an update were requested twice under one name, across all restarts of a
 * process. */
static inline void verify_coins(const fed *f)
{
    static const char *const once[] = { "mask", "reply", "encrypt", "salt", "round" };
    sefl_buf b = { 0 };
    CHECK_OK(file_read(&b, fed_path(f, "coins.txt"), 1 << 26));
    CHECK_OK(wr_u8(&b, 0));
    size_t n = 0;
    char **line = NULL, *save = NULL;
    for (char *l = strtok_r((char *)b.p, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        char purpose[64] = "";
        bool counts = false;
        assert_int_equal(sscanf(l, "%*s %63s", purpose), 1);
        for (size_t i = 0; i < sizeof once / sizeof *once; i++)
            counts = counts || strcmp(purpose, once[i]) == 0;
        for (size_t i = 0; i < n && counts; i++)
            if (strcmp(line[i], l) == 0)
                fail_msg("coins asked for twice: %s", l);
        line = realloc(line, (n + 1) * sizeof *line);
        assert_non_null(line);
        line[n++] = l;
    }
    assert_true(n > 0);
    free(line);
    buf_clear(&b);
}

#endif
