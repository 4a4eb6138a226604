#define _GNU_SOURCE
#include "simulate/calibrate.h"

#include "base/alloc.h"
#include "base/blake3.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "config/settings.h"
#include "model/file/model_file.h"
#include "roles/aggregator/step.h"
#include "roles/client/train.h"
#include "simulate/clear.h"
#include "simulate/named_coins.h"
#include "simulate/servers.h"

#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SMALL = 16384, LARGE = 131072, SMALL_PAILLIER = 2048, LARGE_PAILLIER = 16384 };

typedef struct bench {
    const federation *s;
    const task *t;
    pool *pool;
    double seconds; /* for all of it */
    char folder[PATH_MAX];
    sefl_clock mono;
} bench;

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double wall_seconds(const bench *b)
{
    return 1e-9 * (double)clock_ns(&b->mono);
}

/* ---- training -------------------------------------------------------------------------------- */

uint64_t calibrate_words(const task *t, const corpus *text)
{
    if (t->unit == TASK_UNIT_RECORD) {
        uint64_t words = 0;
        for (size_t d = 0; d < text->docs && d < t->records_max; d++)
            words += text->line[text->doc[d + 1]] - text->line[text->doc[d]];
        return words;
    }
    uint64_t columns = t->model.batch, n = text->tokens;
    if (n / 2 < columns)
        columns = n / 2;
    uint64_t rows = n / columns - 1; /* predicted words in a column and epoch */
    if (t->local_epochs > 0)
        return t->local_epochs * columns * rows;
    uint64_t per_epoch = (rows + t->model.steps - 1) / t->model.steps;
    uint64_t epochs = t->local_steps / per_epoch, left = t->local_steps % per_epoch;
    uint64_t rest = left * t->model.steps < rows ? left * t->model.steps : rows;
    return columns * (epochs * rows + rest);
}

typedef struct stopwatch {
    double until; /* processor time */
    uint64_t done, total;
} stopwatch;

static bool on_step(void *self, uint64_t done, uint64_t total)
{
    stopwatch *w = self;
    w->done = done, w->total = total;
    return cpu_seconds() < w->until;
}

/* One thread's part of the training, beside the others': they share memory and caches, as in a run. */
typedef struct trainee {
    const bench *b;
    double words, seconds, rounding;
} trainee;

static sefl_status time_rounding(const bench *b, double *ns, int64_t *X, float *v, seeded *gen)
{
    const task *t = b->t;
    sefl_rng rng = seeded_rng(gen);
    unsigned times = 0;
    double took, began;
    for (size_t i = 0; i < t->params; i++)
        v[i] = (float)(1e-3 * (seeded_unit(gen) - 0.5));
    memset(X, 0, t->values * sizeof *X); /* memory that is there, as in every round but the first */
    began = cpu_seconds();
    do {
        SEFL_PASS(client_train_round(X, t, &b->s->text[0], v, &rng));
        times++;
    } while ((took = cpu_seconds() - began) < 0.03 * b->seconds);
    *ns = 1e9 * took / times / (double)t->values;
    return SEFL_OK;
}

static sefl_status one_thread(void *ctx, unsigned lane, size_t begin, size_t end)
{
    sefl_status st = SEFL_OK;
    trainee *me = (trainee *)ctx + begin;
    const bench *b = me->b;
    const task *t = b->t;
    lm *m = NULL;
    float *v = NULL;
    int64_t *X = NULL, *one = NULL;
    size_t zeroed;
    double limit = 0.4 * b->seconds;
    seeded gen;
    sefl_rng rng = seeded_rng(&gen);
    (void)lane, (void)end;
    seeded_init(&gen, begin, "calibration");
    SEFL_TRY(lm_new(&m, &t->model, NULL));
    SEFL_TRY(sefl_new(&v, t->params, sizeof *v));
    SEFL_TRY(sefl_new(&X, t->values, sizeof *X));
    if (t->unit == TASK_UNIT_RECORD)
        SEFL_TRY(sefl_new(&one, t->params, sizeof *one));
    for (uint32_t n = 0; me->seconds < limit && n < 100; n++) {
        uint32_t i = (uint32_t)((begin + n * 7) % b->s->clients);
        stopwatch w = { .until = cpu_seconds() + limit - me->seconds };
        sefl_progress p = { .report = on_step, .self = &w };
        client_train job = { .task = t,
                             .text = &b->s->text[i],
                             .eos = vocab_eos(b->s->words),
                             .client = b->s->client[i],
                             .round = 1,
                             .m = m,
                             .progress = &p };
        double began = cpu_seconds();
        if (one)
            memset(X, 0, t->values * sizeof *X);
        memcpy(lm_theta(m), b->s->theta, t->params * sizeof *v);
        memcpy(v, b->s->theta, t->params * sizeof *v);
        lm_state_reset(m);
        st = one ? client_train_records(&job, X, &zeroed, one, v, &rng)
                 : client_train_local(&job, v);
        if (st == SEFL_ERANGE || st == SEFL_ECANCELLED)
            st = SEFL_OK; /* diverged, or time is up: what was done was timed */
        SEFL_TRY(st);
        if (n == 0 && w.done == w.total)
            continue; /* the first one warms up */
        me->seconds += cpu_seconds() - began;
        double share = w.total > 0 ? (double)w.done / (double)w.total : 0;
        me->words += share * (double)calibrate_words(t, job.text);
    }
    if (!one)
        SEFL_TRY(time_rounding(b, &me->rounding, X, v, &gen));
done:
    lm_free(m);
    sefl_free(v);
    sefl_free(X);
    sefl_free(one);
    return st;
}

static sefl_status time_training(const bench *b, rates *r)
{
    sefl_status st = SEFL_OK;
    unsigned n =
        pool_threads(b->pool) < b->s->e->clients ? pool_threads(b->pool) : b->s->e->clients;
    trainee *all = NULL;
    double words = 0, seconds = 0;
    SEFL_TRY(sefl_new(&all, n, sizeof *all));
    for (unsigned i = 0; i < n; i++)
        all[i].b = b;
    SEFL_TRY(pool_run(b->pool, n, 1, one_thread, all, NULL));
    for (unsigned i = 0; i < n; i++) {
        words += all[i].words, seconds += all[i].seconds;
        r->round_ns_value += all[i].rounding / n;
    }
    r->train_us_token = words > 0 ? 1e6 * seconds / words : 0;
done:
    sefl_free(all);
    return st;
}

/* ---- some of the values ---------------------------------------------------------------------- */

/* The task of the same federation with fewer values. Its document is the old one: nobody looks. */
static sefl_status fewer(federation *out, const federation *s, size_t values)
{
    *out = *s;
    out->task.values = out->task.params = values;
    out->task.threshold = 2;
    out->task.rounds = 1;
    return ahe_params_init(&out->task.ahe, s->task.ahe.scheme, &s->task.ahe.pack, s->task.pub,
                           values);
}

static size_t sizes(const task *t, size_t *small)
{
    bool paillier = t->ahe.scheme == &ahe_paillier;
    size_t large = paillier ? LARGE_PAILLIER : LARGE;
    *small = paillier ? SMALL_PAILLIER : SMALL;
    if (t->values < large)
        large = t->values;
    if (*small > large / 2)
        *small = large / 2 > 0 ? large / 2 : 1;
    return large;
}

/* y = fixed + slope * x through two points; never negative. */
static void line_through(double *fixed, double *slope, double x1, double y1, double x2, double y2)
{
    *slope = x2 > x1 && y2 > y1 ? (y2 - y1) / (x2 - x1) : 0;
    *fixed = y1 - *slope * x1;
    if (*fixed < 0)
        *fixed = 0, *slope = y2 / x2;
}

typedef struct cost {
    double encrypt, add, close;
} cost;

/* Adds one update to a sum that holds one already (the first is cheaper), and closes the sum. */
static sefl_status time_sum(cost *out, const ahe_params *p, const ahe_pub *pub, const uint8_t *unit)
{
    sefl_status st = SEFL_OK;
    ahe_sum *sum = NULL;
    SEFL_TRY(ahe_sum_new(&sum, p, pub));
    SEFL_TRY(ahe_sum_begin(p, sum));
    SEFL_TRY(ahe_sum_add_units(p, sum, 0, unit, p->units, NULL));
    double t0 = cpu_seconds();
    SEFL_TRY(ahe_sum_check_units(p, sum, unit, p->units));
    SEFL_TRY(ahe_sum_begin(p, sum));
    SEFL_TRY(ahe_sum_add_units(p, sum, 0, unit, p->units, NULL));
    double t1 = cpu_seconds();
    SEFL_TRY(ahe_sum_close(p, sum));
    out->add += t1 - t0, out->close += cpu_seconds() - t1;
done:
    if (sum)
        ahe_sum_free(p, sum);
    return st;
}

/* One update of `values` numbers: encrypted with the tables of the whole task, added, closed. */
static sefl_status time_update(const bench *b, cost *out, const ahe_enc *enc, size_t values)
{
    sefl_status st = SEFL_OK;
    federation part;
    ahe_upload *up = NULL;
    sign_key *key = NULL;
    round_header h = { .round = 1 };
    uint8_t *body = NULL, context[AHE_CONTEXT_BYTES], units[32];
    int64_t *X = NULL;
    ahe_seed seed;
    seeded gen;
    sefl_rng rng = seeded_rng(&gen);
    const ahe_params *whole = &b->t->ahe;
    unsigned times = 0;
    *out = (cost){ 0 };
    SEFL_TRY(fewer(&part, b->s, values));
    const ahe_params *p = &part.task.ahe;
    const seal_suite *seal = part.task.seal;
    const head_facts facts = {
        .suite = seal, .task = b->t->id, .round = 1, .client = part.client[0], .units = units
    };
    SEFL_TRY(federation_round_key(&part, &h));
    SEFL_TRY(federation_upload_key(&key, &part, 0));
    SEFL_TRY(sefl_new(&body, task_body_bytes(&part.task), 1));
    SEFL_TRY(sefl_new(&X, p->units * p->unit_values, sizeof *X));
    task_context(context, b->t, 1);
    uint8_t *unit = body + head_bytes(seal);
    do {
        seeded_init(&gen, times, "calibration");
        double t0 = cpu_seconds();
        SEFL_TRY(ahe_upload_new(&up, whole, enc, context, &rng));
        SEFL_TRY(ahe_upload_units(whole, up, unit, X, p->units, NULL, NULL));
        blake3_of(units, span_of(unit, p->units * p->unit_bytes));
        if (seal) {
            ahe_upload_seed(whole, up, &seed);
            SEFL_TRY(head_make(body, &facts, span_of(h.key, h.key_bytes), seed.seed, key, &rng));
        }
        out->encrypt += cpu_seconds() - t0;
        ahe_upload_free(whole, up), up = NULL;
        SEFL_TRY(time_sum(out, p, part.task.pub, unit));
        times++;
    } while (out->encrypt + out->add + out->close < 0.05 * b->seconds && times < 1000);
    out->encrypt /= times, out->add /= times, out->close /= times;
done:
    ahe_upload_free(whole, up);
    sign_key_free(key);
    sefl_free(body);
    sefl_free(X);
    return st;
}

static sefl_status time_updates(const bench *b, rates *r)
{
    sefl_status st = SEFL_OK;
    ahe_enc *enc = NULL;
    cost c1, c2;
    double fixed, slope;
    size_t small, large = sizes(b->t, &small);
    size_t before = sefl_heap_live();
    SEFL_TRY(ahe_enc_new(&enc, b->t->pub, &b->t->ahe, b->pool, NULL));
    r->tables_bytes = (double)(sefl_heap_live() - before);
    SEFL_TRY(time_update(b, &c1, enc, small));
    SEFL_TRY(time_update(b, &c2, enc, large));
    line_through(&fixed, &slope, (double)small, c1.encrypt, (double)large, c2.encrypt);
    r->encrypt_ms_update = 1e3 * fixed, r->encrypt_ns_value = 1e9 * slope;
    r->sum_ns_value = 1e9 * c2.add / (double)large;
    r->sum_ms_round = 1e3 * c2.close * (double)b->t->values / (double)large;
done:
    ahe_enc_free(&b->t->ahe, enc);
    return st;
}

/* ---- CSP, a client ------------------------------------------------------------------------------- */

/* What CSP does for one client of a sealed round: its head, and its pad at `values`. */
static sefl_status time_pad(const bench *b, double *head_s, double *pad_s, size_t values)
{
    sefl_status st = SEFL_OK;
    federation part;
    ahe_dec *dec = NULL;
    sign_key *key = NULL;
    seal_key *round_key = NULL;
    round_header h = { .round = 1 };
    uint8_t bytes[HEAD_MAX], context[AHE_CONTEXT_BYTES] = { 0 };
    ahe_seed seed = { .stream = 1 };
    head read;
    seeded gen;
    sefl_rng rng = seeded_rng(&gen);
    unsigned times = 0;
    seeded_init(&gen, 1, "calibration");
    SEFL_TRY(fewer(&part, b->s, values));
    const task *t = &part.task;
    const head_facts f = { .suite = t->seal,
                           .task = t->id,
                           .round = 1,
                           .client = part.client[0],
                           .units = part.client[0] };
    SEFL_TRY(federation_round_key(&part, &h));
    SEFL_TRY(federation_upload_key(&key, &part, 0));
    SEFL_TRY(seal_key_from(&round_key, t->seal, part.root));
    SEFL_TRY(head_make(bytes, &f, span_of(h.key, h.key_bytes), seed.seed, key, &rng));
    SEFL_TRY(ahe_dec_new(&dec, &t->ahe, NULL, context));
    *head_s = *pad_s = 0;
    do {
        double t0 = wall_seconds(b);
        SEFL_TRY(head_read(&read, t->seal, span_of(bytes, head_bytes(t->seal))));
        SEFL_TRY(head_check(&read, t->id, 1, sign_key_pub(key)));
        SEFL_TRY(head_open(seed.seed, &read, round_key, t->id, 1));
        double t1 = wall_seconds(b);
        SEFL_TRY(ahe_dec_add(&t->ahe, dec, &seed, 1, b->pool));
        SEFL_TRY(ahe_dec_take(&t->ahe, dec, &seed, 1, b->pool));
        *head_s += t1 - t0, *pad_s += 0.5 * (wall_seconds(b) - t1);
        times++;
    } while (*head_s + *pad_s < 0.02 * b->seconds && times < 1000);
    *head_s /= times, *pad_s /= times;
done:
    ahe_dec_free(&part.task.ahe, dec);
    seal_key_free(round_key);
    sign_key_free(key);
    return st;
}

static sefl_status time_pads(const bench *b, rates *r)
{
    sefl_status st = SEFL_OK;
    double head_s[2], pad_s[2], fixed, slope;
    size_t small, large = sizes(b->t, &small);
    if (!task_is_sealed(b->t))
        goto done;
    SEFL_TRY(time_pad(b, &head_s[0], &pad_s[0], small));
    SEFL_TRY(time_pad(b, &head_s[1], &pad_s[1], large));
    line_through(&fixed, &slope, (double)small, pad_s[0], (double)large, pad_s[1]);
    r->open_ms_client = 1e3 * (head_s[1] + fixed), r->open_ns_value = 1e9 * slope;
done:
    return st;
}

/* ---- the servers ------------------------------------------------------------------------------- */

typedef struct opening {
    double seconds, bytes, heap;
} opening;

/* The two updates of a small round, of so many values each, and their sum. */
typedef struct pair_of_updates {
    round_entry entry[2]; /* by rising client */
    uint8_t heads[2 * HEAD_MAX], *body;
    ahe_enc *enc;
    ahe_sum *sum;
    int64_t *X;
} pair_of_updates;

static void pair_clear(pair_of_updates *u, const ahe_params *p)
{
    ahe_enc_free(p, u->enc);
    if (u->sum)
        ahe_sum_free(p, u->sum);
    sefl_free(u->body);
    sefl_free(u->X);
}

static sefl_status pair_make(pair_of_updates *u, work_got *got, const bench *b,
                             const federation *part, const round_header *h)
{
    sefl_status st = SEFL_OK;
    const task *t = &part->task;
    const ahe_params *p = &t->ahe;
    const size_t head_n = head_bytes(t->seal);
    const bool swap = memcmp(part->client[0], part->client[1], 32) > 0;
    sign_key *key = NULL;
    seeded gen;
    sefl_rng rng = seeded_rng(&gen);
    seeded_init(&gen, 1, "calibration");
    SEFL_TRY(sefl_new(&u->body, task_body_bytes(t), 1));
    SEFL_TRY(sefl_new(&u->X, p->units * p->unit_values, sizeof *u->X));
    SEFL_TRY(ahe_enc_new(&u->enc, t->pub, p, b->pool, NULL));
    SEFL_TRY(ahe_sum_new(&u->sum, p, t->pub));
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t client = i ^ (uint32_t)swap;
        round_entry *entry = &u->entry[i];
        memcpy(entry->client, part->client[client], 32);
        SEFL_TRY(federation_upload_key(&key, part, client));
        SEFL_TRY(update_make(
            u->body, entry->body,
            &(update_facts){
                .task = t, .header = h, .enc = u->enc, .client = entry->client, .upload_key = key },
            u->X, b->pool, NULL, &rng));
        sign_key_free(key), key = NULL;
        memcpy(u->heads + i * head_n, u->body, head_n);
        SEFL_TRY(ahe_sum_begin(p, u->sum));
        SEFL_TRY(ahe_sum_add_units(p, u->sum, 0, u->body + head_n, p->units, b->pool));
    }
    SEFL_TRY(ahe_sum_close(p, u->sum));
    *got = (work_got){ .clients = 2,
                       .closed = u->sum,
                       .set = u->entry,
                       .heads = task_is_sealed(t) ? u->heads : NULL };
done:
    sign_key_free(key);
    return st;
}

/* One round of two uploads of few values, by both servers. */
typedef struct one_round {
    const bench *b;
    const federation *part;
    pair_of_updates u;
    servers *v;
    size_t live;
    double began;
    opening *out;
} one_round;

static sefl_status upload_pair(void *ctx, const round_header *h, work_got *got)
{
    one_round *r = ctx;
    size_t servers_only = sefl_heap_live();
    sefl_status st = pair_make(&r->u, got, r->b, r->part, h);
    r->live += sefl_heap_live() - servers_only;
    sefl_heap_mark();
    r->began = wall_seconds(r->b);
    return st;
}

static sefl_status revealed(void *ctx, const release_from *from, uint64_t round, const int64_t *w,
                            uint32_t clients, release_made *made)
{
    one_round *r = ctx;
    (void)from, (void)round, (void)w, (void)clients, (void)made;
    r->out->seconds = wall_seconds(r->b) - r->began;
    r->out->bytes = (double)servers_bytes(r->v);
    r->out->heap = (double)(sefl_heap_peak() - r->live);
    return SEFL_OK;
}

static sefl_status time_servers(const bench *b, opening *out, const federation *part, unsigned turn)
{
    sefl_status st = SEFL_OK;
    const task *t = &part->task;
    char path[2][PATH_MAX];
    one_round r = { .b = b, .part = part, .out = out };
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%.4000s/ledger-%u-%d", b->folder, turn, i);
        SEFL_TRY(ledger_create(path[i], t->population));
    }
    r.live = sefl_heap_live();
    SEFL_TRY(servers_new(&r.v, &(servers_config){ .federation = part,
                                                  .as_ledger = path[0],
                                                  .csp_ledger = path[1],
                                                  .pool = b->pool,
                                                  .ctx = &r,
                                                  .upload = upload_pair,
                                                  .release = revealed }));
    SEFL_TRY(servers_run(r.v));
done:
    servers_free(r.v);
    pair_clear(&r.u, &t->ahe);
    return st;
}

static sefl_status time_release(const bench *b, opening *out, size_t values, unsigned turn)
{
    sefl_status st = SEFL_OK;
    federation part;
    int64_t *sum = NULL, *w = NULL;
    const experiment *e = b->s->e;
    *out = (opening){ 0 };
    if (!e->protection->release)
        goto done;
    SEFL_TRY(fewer(&part, b->s, values));
    if (e->full) {
        SEFL_TRY(time_servers(b, out, &part, turn));
        goto done;
    }
    SEFL_TRY(sefl_new(&sum, values, sizeof *sum));
    SEFL_TRY(sefl_new(&w, values, sizeof *w));
    size_t live = sefl_heap_live();
    sefl_heap_mark();
    double began = wall_seconds(b);
    SEFL_TRY(e->protection->release(w, &part.task, 1, 1, 1, sum));
    out->seconds = wall_seconds(b) - began;
    out->heap = (double)(sefl_heap_peak() - live);
done:
    sefl_free(sum);
    sefl_free(w);
    return st;
}

static sefl_status time_releases(const bench *b, rates *r)
{
    opening o, one = { 0 }, two = { 0 }; /* sums */
    double fixed, slope, began = wall_seconds(b);
    size_t small, large = sizes(b->t, &small);
    unsigned turn = 0, times = 0;
    do {
        SEFL_PASS(time_release(b, &o, small, turn++));
        one.seconds += o.seconds, one.bytes = o.bytes, one.heap = fmax(one.heap, o.heap);
        SEFL_PASS(time_release(b, &o, large, turn++));
        two.seconds += o.seconds, two.bytes = o.bytes, two.heap = fmax(two.heap, o.heap);
    } while (++times < 5 && wall_seconds(b) - began < 0.25 * b->seconds);
    line_through(&fixed, &slope, (double)small, one.seconds / times, (double)large,
                 two.seconds / times);
    r->release_ms_round = 1e3 * fixed, r->release_ns_value = 1e9 * slope;
    line_through(&fixed, &slope, (double)small, one.bytes, (double)large, two.bytes);
    r->link_bytes_round = fixed, r->link_bytes_value = slope;
    line_through(&fixed, &slope, (double)small, one.heap, (double)large, two.heap);
    r->release_bytes_round = fixed, r->release_bytes_value = slope;
    return SEFL_OK;
}

/* ---- step and validation ------------------------------------------------------------------------- */

static sefl_status time_step(const bench *b, rates *r)
{
    sefl_status st = SEFL_OK;
    const task *t = b->t;
    float *theta = NULL;
    int64_t *w = NULL;
    double *average = NULL;
    step_state step = { 0 };
    char path[PATH_MAX];
    struct stat sb;
    SEFL_TRY(step_new(&step, t));
    SEFL_TRY(sefl_new(&theta, t->params, sizeof *theta));
    SEFL_TRY(sefl_new(&w, t->values, sizeof *w));
    SEFL_TRY(sefl_new(&average, t->params, sizeof *average));
    memcpy(theta, b->s->theta, t->params * sizeof *theta);
    w[t->values - 1] = 1000; /* the weight slot, if there is one */
    snprintf(path, sizeof path, "%.4000s/model", b->folder);
    double began = wall_seconds(b);
    SEFL_TRY(step_average(average, t, w, 2));
    SEFL_TRY(step_apply(&step, t, theta, average));
    SEFL_TRY(model_write(path, &b->s->meta, theta));
    r->step_ms_round = 1e3 * (wall_seconds(b) - began);
    SEFL_CHECK(stat(path, &sb) == 0, SEFL_EIO, "%s: gone", path);
    r->model_bytes = (double)sb.st_size;
done:
    step_clear(&step);
    sefl_free(theta);
    sefl_free(w);
    sefl_free(average);
    return st;
}

static sefl_status time_validation(const bench *b, rates *r)
{
    sefl_status st = SEFL_OK;
    const corpus *v = &b->s->valid;
    lm *m = NULL;
    double loss;
    if (v->tokens < 2 * LM_EVAL_BATCH)
        goto done;
    SEFL_TRY(lm_new(&m, &b->t->model, b->pool));
    memcpy(lm_theta(m), b->s->theta, b->t->params * sizeof(float));
    size_t n = v->tokens;
    if (r->train_us_token > 0) { /* no more than a tenth of the time */
        double most = 0.1 * b->seconds / (1e-6 * r->train_us_token);
        n = (double)n > most ? (size_t)most : n;
    }
    n = n < 2 * LM_EVAL_BATCH ? 2 * LM_EVAL_BATCH : n;
    double began = wall_seconds(b);
    SEFL_TRY(lm_evaluate(m, v->token, n, &loss, NULL));
    r->eval_us_token = 1e6 * (wall_seconds(b) - began) / (double)n;
done:
    lm_free(m);
    return st;
}

/* What is resident and did not come through base/alloc.h: the program, its libraries and what they took
 * while they trained, stacks. Freed memory is given back first. */
static double program_bytes(void)
{
    long pages = 0;
    FILE *f;
    malloc_trim(0);
    f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%*s %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return fmax(0, (double)pages * (double)sysconf(_SC_PAGE_SIZE) - (double)sefl_heap_live());
}

sefl_status calibrate(rates *out, const federation *s, pool *p, double seconds)
{
    sefl_status st = SEFL_OK;
    bench b = { .s = s, .t = &s->task, .pool = p, .seconds = seconds, .mono = clock_monotonic() };
    rates r = { 0 };
    SEFL_TRY(file_temp_folder(b.folder, sizeof b.folder, "sefl-plan"));
    SEFL_TRY(time_training(&b, &r));
    if (s->e->full) {
        SEFL_TRY(time_updates(&b, &r));
        SEFL_TRY(time_pads(&b, &r));
    }
    r.program_bytes = program_bytes();
    SEFL_TRY(time_releases(&b, &r)); /* its threads leave memory behind that the allocator keeps */
    SEFL_TRY(time_step(&b, &r));
    SEFL_TRY(time_validation(&b, &r));
    *out = r;
done:
    if (b.folder[0])
        dir_remove(b.folder);
    return st;
}

/* ---- files ----------------------------------------------------------------------------------------- */

sefl_status rates_write(sefl_buf *out, const rates *r)
{
#define WRITE(name, text) SEFL_PASS(wr_fmt(out, "# %s\n%s=%.6g\n", text, #name, r->name));
    RATES_LIST(WRITE)
#undef WRITE
    return SEFL_OK;
}

sefl_status rates_read(rates *out, const char *path)
{
    static const setting_def schema[] = {
#define DEF(name, text) { #name, SETTING_DECIMAL, NULL, .help = text },
        RATES_LIST(DEF)
#undef DEF
            { 0 }
    };
    sefl_status st = SEFL_OK;
    settings s;
    settings_init(&s, schema);
    SEFL_TRY(settings_set_file(&s, path));
    SEFL_TRY(settings_complete(&s));
#define READ(name, text) out->name = strtod(settings_text(&s, #name), NULL);
    RATES_LIST(READ)
#undef READ
done:
    settings_clear(&s);
    return st;
}
