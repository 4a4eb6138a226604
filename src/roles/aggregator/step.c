#include "roles/aggregator/step.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/sha256.h"
#include "model/optim.h"
#include "privacy/mechanism/quantise.h"
#include "protocol/modes/mode.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* GCC may fuse a product and a sum if the target has such an instruction; here every operation must
 * be rounded separately. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("-ffp-contract=off")
#endif

enum { HEADER = 8 + 1 + 8 + 8 + 8 };
static const char magic[8] = { 'S', 'E', 'F', 'L', 'O', 'P', 'T', '1' };

static unsigned vectors(task_server kind)
{
    return kind == TASK_ADAM ? 2 : kind == TASK_MOMENTUM ? 1 : 0;
}

sefl_status step_new(step_state *s, const task *t)
{
    sefl_status st = SEFL_OK;
    *s = (step_state){ .kind = t->server };
    s->n = vectors(t->server) > 0 ? t->params : 0;
    if (vectors(t->server) > 0)
        SEFL_TRY(sefl_new(&s->m, s->n, sizeof *s->m));
    if (vectors(t->server) > 1)
        SEFL_TRY(sefl_new(&s->v, s->n, sizeof *s->v));
done:
    if (st != SEFL_OK)
        step_clear(s);
    return st;
}

void step_clear(step_state *s)
{
    sefl_free(s->m);
    sefl_free(s->v);
    *s = (step_state){ 0 };
}

/* ---- the average ----------------------------------------------------------------------------- */

sefl_status step_average(double *out, const task *t, const int64_t *w, uint32_t clients)
{
    double divisor = 0;
    if (t->weights == TASK_CAPPED) {
        pack_nano clip;
        SEFL_NEED(t->values == t->params + 1, SEFL_EINVAL, "task: no slot for the weight");
        SEFL_PASS(pack_decimal(&clip, t->clip));
        divisor = dp_weight_total(task_value(t, w[t->params]), (double)clip / (double)PACK_ONE, 1);
    } else {
        divisor = task_divisor(t, clients);
    }
    SEFL_NEED(isfinite(divisor) && divisor > 0, SEFL_ERANGE,
              "the sum of the round cannot be divided by %g", divisor);
    task_values(out, t, w, t->params);
    bool good = true;
    for (size_t i = 0; i < t->params; i++) {
        out[i] /= divisor;
        good &= fabs(out[i]) <= DBL_MAX;
    }
    SEFL_NEED(good, SEFL_ERANGE, "a value of the average is not finite");
    return SEFL_OK;
}

/* ---- the step -------------------------------------------------------------------------------- */

/* Computes b^n by squaring: only products, so the result has the same bits everywhere. */
static double power(double b, uint64_t n)
{
    double r = 1;
    for (; n > 0; n >>= 1) {
        if (n & 1)
            r *= b;
        b *= b;
    }
    return r;
}

/* What a step needs; d: directions of some values, from average a. */
typedef struct rates {
    double mu, b1, b2, eps, c1, c2;
} rates;

static void momentum(const rates *r, double *d, double *m, const double *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = m[i] = r->mu * m[i] + a[i];
}

static void adam(const rates *r, double *d, double *m, double *v, const double *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        m[i] = r->b1 * m[i] + (1 - r->b1) * a[i];
        v[i] = r->b2 * v[i] + (1 - r->b2) * (a[i] * a[i]);
        d[i] = (m[i] / r->c1) / (sqrt(v[i] / r->c2) + r->eps);
    }
}

/* Adds lr d to some values; false if one is no longer finite. */
static bool add_step(float *theta, double lr, const double *d, size_t n)
{
    bool good = true;
    for (size_t i = 0; i < n; i++) {
        double next = (double)theta[i] + lr * d[i];
        good &= fabs(next) <= FLT_MAX;
        theta[i] = (float)next;
    }
    return good;
}

sefl_status step_apply(step_state *s, const task *t, float *theta, const double *average)
{
    enum { SOME = 1024 };
    const optim_config o = optim_filled(&t->server_optim);
    double d[SOME] = { 0 }, lr = t->server_lr;
    SEFL_NEED(s->kind == t->server && (vectors(s->kind) == 0 || s->n == t->params), SEFL_EINVAL,
              "the optimiser's state belongs to another task");
    s->steps++;
    rates r = { .mu = o.momentum, .b1 = o.beta1, .b2 = o.beta2, .eps = o.epsilon };
    r.c1 = 1 - power(r.b1, s->steps), r.c2 = 1 - power(r.b2, s->steps);
    bool good = true;
    for (size_t at = 0; at < t->params; at += SOME) {
        const size_t n = t->params - at < SOME ? t->params - at : SOME;
        if (s->kind == TASK_MOMENTUM)
            momentum(&r, d, s->m + at, average + at, n);
        else if (s->kind == TASK_ADAM)
            adam(&r, d, s->m + at, s->v + at, average + at, n);
        good &= add_step(theta + at, lr, s->kind == TASK_AVERAGE ? average + at : d, n);
    }
    SEFL_NEED(good, SEFL_ERANGE, "a value of the model is not finite after this round");
    return SEFL_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static sefl_status wr_doubles(sefl_buf *b, const double *x, size_t n)
{
    uint8_t *p;
    sefl_status st = buf_extend(b, &p, 8 * n);
    for (size_t i = 0; st == SEFL_OK && i < n; i++) {
        uint64_t u;
        memcpy(&u, &x[i], 8);
        store_u64(p + 8 * i, u);
    }
    return st;
}

sefl_status step_write(const step_state *s, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    uint8_t hash[SHA256_BYTES];
    SEFL_TRY(wr_raw(&b, magic, sizeof magic));
    SEFL_TRY(wr_u8(&b, (uint8_t)s->kind));
    SEFL_TRY(wr_u64(&b, s->round));
    SEFL_TRY(wr_u64(&b, s->steps));
    SEFL_TRY(wr_u64(&b, s->n));
    if (s->m)
        SEFL_TRY(wr_doubles(&b, s->m, s->n));
    if (s->v)
        SEFL_TRY(wr_doubles(&b, s->v, s->n));
    sha256_of(hash, buf_span(&b));
    SEFL_TRY(wr_raw(&b, hash, sizeof hash));
    SEFL_TRY(file_write_atomic(path, buf_span(&b), 0600));
done:
    buf_clear(&b);
    return st;
}

static void take_doubles(double *x, size_t n, const uint8_t *p)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t u = load_u64(p + 8 * i);
        memcpy(&x[i], &u, 8);
    }
}

sefl_status step_read(step_state *s, const char *path, const task *t, uint64_t round)
{
    sefl_status st = SEFL_OK;
    step_state tmp = { 0 };
    sefl_buf b = { 0 };
    uint8_t hash[SHA256_BYTES], kind;
    uint64_t n;
    size_t want;
    *s = (step_state){ 0 };
    SEFL_TRY(step_new(&tmp, t));
    want = HEADER + 8 * vectors(tmp.kind) * tmp.n + SHA256_BYTES;
    SEFL_TRY(file_read(&b, path, want));
    SEFL_CHECK(b.n == want, SEFL_EPROTO, "%s: %zu bytes, not %zu", path, b.n, want);
    sha256_of(hash, span_of(b.p, b.n - SHA256_BYTES));
    SEFL_CHECK(memcmp(hash, b.p + b.n - SHA256_BYTES, SHA256_BYTES) == 0, SEFL_EPROTO,
               "%s was changed", path);
    rd r = rd_over(buf_span(&b));
    SEFL_TRY(rd_expect(&r, magic, sizeof magic, "optimiser state"));
    SEFL_TRY(rd_u8(&r, &kind));
    SEFL_TRY(rd_u64(&r, &tmp.round));
    SEFL_TRY(rd_u64(&r, &tmp.steps));
    SEFL_TRY(rd_u64(&r, &n));
    SEFL_CHECK(kind == (uint8_t)t->server && n == tmp.n, SEFL_EPROTO, "%s: belongs to another task",
               path);
    SEFL_CHECK(tmp.round == round, SEFL_ESTATE, "%s: belongs to round %llu, not %llu", path,
               (unsigned long long)tmp.round, (unsigned long long)round);
    if (tmp.m)
        take_doubles(tmp.m, tmp.n, b.p + HEADER);
    if (tmp.v)
        take_doubles(tmp.v, tmp.n, b.p + HEADER + 8 * tmp.n);
    *s = tmp, tmp = (step_state){ 0 };
done:
    step_clear(&tmp);
    buf_clear(&b);
    return st;
}
