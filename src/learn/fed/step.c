#include "fed/step.h"

#include "base/alloc.h"
#include "base/outfile.h"
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
    return (unsigned)optim_state_count(task_server_optims[kind], 1);
}

sefl_status step_new(step_state *s, const task *t)
{
    sefl_status st = SEFL_OK;
    *s = (step_state){ .kind = t->server };
    s->n = vectors(t->server) > 0 ? task_trained(t) : 0;
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

enum { PIECE = 1 << 16 }; /* values per piece of pool_run */

typedef struct averaging {
    double *out, divisor;
    const task *t;
    const int64_t *w;
} averaging;

static sefl_status average_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const averaging *a = ctx;
    bool good = true;
    (void)lane;
    task_values(a->out + begin, a->t, a->w + begin, end - begin);
    for (size_t i = begin; i < end; i++) {
        a->out[i] /= a->divisor;
        good &= fabs(a->out[i]) <= DBL_MAX;
    }
    SEFL_NEED(good, SEFL_ERANGE, "a value of the average is not finite");
    return SEFL_OK;
}

sefl_status step_average(double *out, const task *t, uint64_t clip, const int64_t *w,
                         uint32_t clients, pool *workers)
{
    const size_t n = task_trained(t);
    double divisor = 0;
    if (t->weights == TASK_CAPPED) {
        pack_nano full;
        SEFL_PASS(pack_decimal(&full, t->clip));
        divisor = dp_weight_total(task_value(t, w[n]), (double)full / (double)PACK_ONE, 1);
    } else {
        divisor = task_divisor(t, clients);
    }
    SEFL_NEED(isfinite(divisor) && divisor > 0, SEFL_ERANGE,
              "the sum of the round cannot be divided by %g", divisor);
    averaging a = { .out = out, .divisor = divisor * task_clip_scale(t, clip), .t = t, .w = w };
    return pool_run(workers, n, PIECE, average_piece, &a, NULL);
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

typedef struct stepping {
    step_state *s;
    double mu, b1, b2, eps, c1, c2;
    double lr;
    float *theta;
    const double *average;
    layout_range range; /* of trainable values */
} stepping;

/* The steps of TASK_SERVERS: d, the directions of n values from `at` on, from their averages a. */
static void average(const stepping *p, double *d, size_t at, const double *a, size_t n)
{
    (void)p, (void)at;
    memcpy(d, a, n * sizeof *d);
}

static void momentum(const stepping *p, double *d, size_t at, const double *a, size_t n)
{
    double *m = p->s->m + at;
    for (size_t i = 0; i < n; i++)
        d[i] = m[i] = p->mu * m[i] + a[i];
}

static void adam(const stepping *p, double *d, size_t at, const double *a, size_t n)
{
    double *m = p->s->m + at, *v = p->s->v + at;
    for (size_t i = 0; i < n; i++) {
        m[i] = p->b1 * m[i] + (1 - p->b1) * a[i];
        v[i] = p->b2 * v[i] + (1 - p->b2) * (a[i] * a[i]);
        d[i] = (m[i] / p->c1) / (sqrt(v[i] / p->c2) + p->eps);
    }
}

#define STEP(NAME, name, optim) name,
static void (*const steps[])(const stepping *p, double *d, size_t at, const double *a,
                             size_t n) = { TASK_SERVERS(STEP) };

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

static sefl_status step_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    enum { SOME = 1024 };
    const stepping *p = ctx;
    double d[SOME];
    bool good = true;
    (void)lane;
    for (size_t done = begin; done < end; done += SOME) {
        const size_t n = end - done < SOME ? end - done : SOME, at = p->range.update + done;
        steps[p->s->kind](p, d, at, p->average + at, n);
        good &= add_step(p->theta + p->range.model + done, p->lr, d, n);
    }
    SEFL_NEED(good, SEFL_ERANGE, "a value of the model is not finite after this round");
    return SEFL_OK;
}

sefl_status step_apply(step_state *s, const task *t, float *theta, const double *values,
                       pool *workers)
{
    const optim_config o = optim_filled(&t->server_optim);
    SEFL_NEED(s->kind == t->server && (vectors(s->kind) == 0 || s->n == task_trained(t)),
              SEFL_EINVAL, "the optimiser's state belongs to another task");
    SEFL_NEED(t->layout.trained == task_trained(t), SEFL_EINVAL,
              "the task trains %zu values, its layout %zu", task_trained(t), t->layout.trained);
    s->steps++;
    stepping p = { .s = s,
                   .mu = o.momentum,
                   .b1 = o.beta1,
                   .b2 = o.beta2,
                   .eps = o.epsilon,
                   .c1 = 1 - power(o.beta1, s->steps),
                   .c2 = 1 - power(o.beta2, s->steps),
                   .lr = t->server_lr,
                   .theta = theta,
                   .average = values };
    while (layout_next(&t->layout, &p.range))
        SEFL_PASS(pool_run(workers, p.range.n, PIECE, step_piece, &p, NULL));
    return SEFL_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Writes bytes to the file and to its hash. */
static sefl_status step_put(outfile *o, sha256 *h, sefl_span bytes)
{
    sha256_add(h, bytes);
    return outfile_put(o, bytes.p, bytes.n);
}

static sefl_status put_doubles(outfile *o, sha256 *h, const double *x, size_t n)
{
    enum { SOME = 4096 };
    uint8_t some[8 * SOME];
    for (size_t at = 0; at < n; at += SOME) {
        const size_t m = n - at < SOME ? n - at : SOME;
        for (size_t i = 0; i < m; i++) {
            uint64_t u;
            memcpy(&u, &x[at + i], 8);
            store_u64(some + 8 * i, u);
        }
        SEFL_PASS(step_put(o, h, span_of(some, 8 * m)));
    }
    return SEFL_OK;
}

sefl_status step_write(const step_state *s, const char *path)
{
    sefl_status st = SEFL_OK;
    outfile o = { 0 };
    sefl_buf b = { 0 };
    sha256 h;
    uint8_t hash[SHA256_BYTES];
    sha256_init(&h);
    SEFL_TRY(wr_raw(&b, magic, sizeof magic));
    SEFL_TRY(wr_u8(&b, (uint8_t)s->kind));
    SEFL_TRY(wr_u64(&b, s->round));
    SEFL_TRY(wr_u64(&b, s->steps));
    SEFL_TRY(wr_u64(&b, s->n));
    SEFL_TRY(outfile_open(&o, path, 0600));
    SEFL_TRY(step_put(&o, &h, buf_span(&b)));
    if (s->m)
        SEFL_TRY(put_doubles(&o, &h, s->m, s->n));
    if (s->v)
        SEFL_TRY(put_doubles(&o, &h, s->v, s->n));
    sha256_end(&h, hash);
    SEFL_TRY(outfile_put(&o, hash, sizeof hash));
    SEFL_TRY(outfile_commit(&o));
done:
    outfile_abort(&o);
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
    SEFL_TRY(file_read_plain(&b, path, want));
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
