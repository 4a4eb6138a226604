#include "roles/aggregator/step.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/sha256.h"
#include "privacy/mechanism/quantise.h"

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
    for (size_t i = 0; i < t->params; i++) {
        out[i] = task_value(t, w[i]) / divisor;
        SEFL_NEED(isfinite(out[i]), SEFL_ERANGE, "value %zu of the average is not finite", i);
    }
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

static double or_else(double v, double usual)
{
    return v == 0 ? usual : v;
}

sefl_status step_apply(step_state *s, const task *t, float *theta, const double *average)
{
    const optim_config *o = &t->server_optim;
    double lr = t->server_lr, mu = or_else(o->momentum, 0.9);
    double b1 = or_else(o->beta1, 0.9), b2 = or_else(o->beta2, 0.999);
    double eps = or_else(o->epsilon, 1e-8);
    SEFL_NEED(s->kind == t->server && (vectors(s->kind) == 0 || s->n == t->params), SEFL_EINVAL,
              "the optimiser's state belongs to another task");
    s->steps++;
    double c1 = 1 - power(b1, s->steps), c2 = 1 - power(b2, s->steps);
    for (size_t i = 0; i < t->params; i++) {
        double a = average[i], d = 0;
        switch (s->kind) {
        case TASK_AVERAGE:
            d = a;
            break;
        case TASK_MOMENTUM:
            d = s->m[i] = mu * s->m[i] + a;
            break;
        case TASK_ADAM:
            s->m[i] = b1 * s->m[i] + (1 - b1) * a;
            s->v[i] = b2 * s->v[i] + (1 - b2) * (a * a);
            d = (s->m[i] / c1) / (sqrt(s->v[i] / c2) + eps);
            break;
        }
        double next = (double)theta[i] + lr * d;
        SEFL_NEED(isfinite(next) && fabs(next) <= FLT_MAX, SEFL_ERANGE,
                  "value %zu of the model is not finite after this round", i);
        theta[i] = (float)next;
    }
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
