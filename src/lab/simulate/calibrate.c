#define _GNU_SOURCE
#include "simulate/calibrate.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "config/settings.h"
#include "fed/step.h"
#include "protocol/task_model.h"
#include "simulate/servers.h"

#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL = 16384, LARGE = 131072, SMALL_PAILLIER = 2048, LARGE_PAILLIER = 16384 };
enum { FEW = 2, MANY = 16, MANY_PAILLIER = 3 }; /* number of clients in a measured round */
enum { ROUNDS_MAX = 5 };

typedef struct bench {
    const federation *s;
    const task *t;
    pool *pool;
    double seconds; /* time for the whole measurement */
    char folder[PATH_MAX];
} bench;

/* ---- training and validation ----------------------------------------------------------------- */

uint64_t calibrate_words(const task *t, const corpus *text)
{
    if (t->unit == TASK_UNIT_RECORD) {
        const dp_record_turns turns = task_record_turns(t);
        const uint64_t n = dp_record_most(&turns, text->docs);
        return (uint64_t)text->line[text->doc[n < t->records_max ? n : t->records_max]];
    }
    uint64_t columns = t->model.batch, n = text->tokens;
    if (t->external)
        return 0;
    if (n / 2 < columns)
        columns = n / 2;
    uint64_t rows = n / columns - 1; /* predicted words per column and epoch */
    if (t->local_epochs > 0)
        return t->local_epochs * columns * rows;
    uint64_t per_epoch = (rows + t->model.steps - 1) / t->model.steps;
    uint64_t epochs = t->local_steps / per_epoch, left = t->local_steps % per_epoch;
    uint64_t rest = left * t->model.steps < rows ? left * t->model.steps : rows;
    return columns * (epochs * rows + rest);
}

static sefl_status time_validation(const bench *b, rates *r, work *w, corpus *valid)
{
    double loss, most = 0.1 * b->seconds / (1e-6 * r->train_us_token);
    uint64_t began = clock_now_ns();
    if (valid->tokens < 2 * LM_EVAL_BATCH)
        return SEFL_OK;
    if ((double)valid->tokens > most) /* validation gets at most a tenth of the time */
        valid->tokens = most < 2 * LM_EVAL_BATCH ? 2 * LM_EVAL_BATCH : (size_t)most;
    SEFL_PASS(work_evaluate(w, &loss, b->s->theta));
    r->eval_us_token = 1e6 * clock_since(began) / (double)valid->tokens;
    return SEFL_OK;
}

/* Runs rounds in the clear, one client per thread, and doubles the steps (records) each time. The
 * last round counts; the others warm up. Clients share memory and caches as in a run. */
static sefl_status time_training(const bench *b, rates *r)
{
    sefl_status st = SEFL_OK;
    experiment e = *b->s->e;
    federation s = *b->s;
    work *w = NULL;
    work_got got;
    population_member *set = NULL;
    double words, whole;
    uint64_t began = clock_now_ns();
    uint32_t n = pool_threads(b->pool) < s.clients ? pool_threads(b->pool) : s.clients;
    bool records = s.task.unit == TASK_UNIT_RECORD;
    e.full = false;
    s.e = &e;
    s.task.local_epochs = 0;
    s.task.record_turns = records ? s.task.rounds : 0; /* as many records as records_max */
    SEFL_TRY(work_new(&w, &s, b->pool, NULL, NULL, NULL));
    SEFL_TRY(sefl_new(&set, n, sizeof *set));
    for (uint32_t i = 0; i < n; i++)
        set[i].client = i;
    for (uint32_t steps = 1;; steps *= 2) {
        if (!records)
            s.task.local_steps = steps;
        else if (steps < b->t->records_max)
            s.task.records_max = steps;
        else
            s.task.records_max = b->t->records_max;
        SEFL_TRY(work_round(w, &got, &(round_header){ .round = 1 }, s.theta, set, n, NULL));
        words = whole = 0;
        for (uint32_t i = 0; i < n; i++) {
            words += (double)calibrate_words(&s.task, &s.text[i]);
            whole += (double)calibrate_words(b->t, &s.text[i]);
        }
        if ((words >= whole && steps > 1) || clock_since(began) > 0.2 * b->seconds)
            break;
    }
    r->train_us_token = words > 0 ? 1e6 * got.train / words : 0;
    r->round_ns_value = 1e9 * got.encrypt / n / (double)s.task.values;
    SEFL_TRY(time_validation(b, r, w, &s.valid));
done:
    work_free(w);
    sefl_free(set);
    return st;
}

/* ---- rounds of few values -------------------------------------------------------------------- */

/* Cost of a round: CPU time of the clients, wall time of the servers, and the servers' traffic and
 * memory. */
typedef struct cost {
    double encrypt, add; /* all clients; add includes closing the sum */
    double heads,
        release; /* CSP decrypts heads and expands pads; then up to the released integers */
    double bytes, heap;
    double rounds; /* number of rounds in these means */
} cost;

/* The federation with fewer values. The signed task keeps the full size: nobody reads it. */
typedef struct part {
    federation s;
    ahe_params tables;
    ahe_enc *enc; /* crypto full */
    cost few, many;
} part;

typedef struct one_round {
    const bench *b;
    work *w;
    servers *v;
    uint32_t clients;
    size_t live;   /* memory in use besides the servers' */
    double upload; /* seconds */
    cost got;
} one_round;

/* All clients upload zeros, so that nobody trains. */
static sefl_status upload_zeros(void *ctx, const round_header *h, work_got *got)
{
    one_round *r = ctx;
    population_member set[MANY];
    size_t before = sefl_heap_live();
    uint64_t began = clock_now_ns();
    for (uint32_t i = 0; i < r->clients; i++)
        set[i] = (population_member){ .client = i, .zeros = true };
    SEFL_PASS(work_round(r->w, got, h, r->b->s->theta, set, r->clients, NULL));
    r->got.encrypt = got->encrypt, r->got.add = got->add;
    r->live += sefl_heap_live() - before;
    sefl_heap_mark();
    r->upload = clock_since(began);
    return SEFL_OK;
}

static sefl_status revealed(void *ctx, const release_from *from, uint64_t round, const int64_t *w,
                            uint32_t clients, release_made *made)
{
    one_round *r = ctx;
    (void)from, (void)round, (void)w, (void)clients, (void)made;
    r->got.heap = (double)(sefl_heap_peak() - r->live);
    return SEFL_OK;
}

static void reported(void *ctx, const rounds_report *p)
{
    one_round *r = ctx;
    r->got.heads = fmax(0, 1e-9 * (double)(p->parts.freeze + p->parts.set) - r->upload);
    r->got.release =
        1e-9 * (double)(p->parts.sum + p->parts.charge + p->parts.reveal + p->parts.store);
    r->got.bytes = (double)servers_bytes(r->v);
}

/* Encryption tables keep the size for all units of the whole task. */
static sefl_status part_init(part *p, const bench *b, size_t values, rates *r)
{
    task *t = &p->s.task;
    size_t before = sefl_heap_live();
    p->s = *b->s;
    t->values = t->params = values;
    t->rounds = 1;
    SEFL_PASS(ahe_params_init(&t->ahe, t->ahe.scheme, &b->t->ahe.pack, t->pub, values));
    if (!p->s.e->full)
        return SEFL_OK;
    p->tables = t->ahe;
    p->tables.units = b->t->ahe.units;
    SEFL_PASS(ahe_enc_new(&p->enc, t->pub, &p->tables, b->pool, NULL));
    r->tables_bytes = (double)(sefl_heap_live() - before);
    return SEFL_OK;
}

/* Updates the means over rounds and the largest heap. */
static void add_round(cost *mean, const cost *c)
{
    double n = ++mean->rounds;
    mean->encrypt += (c->encrypt - mean->encrypt) / n;
    mean->add += (c->add - mean->add) / n;
    mean->heads += (c->heads - mean->heads) / n;
    mean->release += (c->release - mean->release) / n;
    mean->bytes = c->bytes;
    mean->heap = fmax(mean->heap, c->heap);
}

/* Runs one round of the driver with uploads from this number of clients. */
static sefl_status time_round(const bench *b, part *p, uint32_t clients)
{
    sefl_status st = SEFL_OK;
    one_round r = { .b = b, .clients = clients };
    char path[2][PATH_MAX];
    p->s.task.threshold = p->s.clients = clients;
    SEFL_TRY(work_new(&r.w, &p->s, b->pool, p->enc, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%.4000s/ledger-%d", b->folder, i);
        (void)unlink(path[i]);
        SEFL_TRY(ledger_create(path[i], p->s.task.population));
    }
    r.live = sefl_heap_live();
    SEFL_TRY(servers_new(&r.v, &(servers_config){ .federation = &p->s,
                                                  .as_ledger = path[0],
                                                  .csp_ledger = path[1],
                                                  .pool = b->pool,
                                                  .ctx = &r,
                                                  .upload = upload_zeros,
                                                  .release = revealed,
                                                  .report = reported }));
    SEFL_TRY(servers_run(r.v));
    add_round(clients > FEW ? &p->many : &p->few, &r.got);
done:
    servers_free(r.v);
    work_free(r.w);
    return st;
}

/* Fits y = fixed + slope * x to two points; neither is negative. */
static void line_through(double *fixed, double *slope, double x1, double y1, double x2, double y2)
{
    *slope = x2 > x1 && y2 > y1 ? (y2 - y1) / (x2 - x1) : 0;
    *fixed = y1 - *slope * x1;
    if (*fixed < 0)
        *fixed = 0, *slope = y2 / x2;
}

/* Separates the cost of a round, a client and a value: clients[0] and clients[1] uploaded in rounds
 * of small->s.task.values and large->s.task.values values. */
static void fit(rates *r, const bench *b, const part *small, const part *large,
                const uint32_t clients[2])
{
    const part *p[2] = { small, large };
    double n[2] = { clients[0], clients[1] }, x[2], encrypt[2], heads[2], release[2];
    double round, each, close, add;
    for (int i = 0; i < 2; i++) {
        x[i] = (double)p[i]->s.task.values;
        encrypt[i] = (p[i]->few.encrypt + p[i]->many.encrypt) / (n[0] + n[1]);
        line_through(&round, &heads[i], n[0], p[i]->few.heads, n[1], p[i]->many.heads);
        release[i] = p[i]->few.release + round;
    }
    line_through(&round, &each, x[0], release[0], x[1], release[1]);
    r->release_ms_round = 1e3 * round, r->release_ns_value = 1e9 * each;
    line_through(&r->link_bytes_round, &r->link_bytes_value, x[0], small->few.bytes, x[1],
                 large->few.bytes);
    line_through(&r->release_bytes_round, &r->release_bytes_value, x[0], small->few.heap, x[1],
                 large->few.heap);
    if (!b->s->e->full)
        return;
    line_through(&round, &each, x[0], encrypt[0], x[1], encrypt[1]);
    r->encrypt_ms_update = 1e3 * round, r->encrypt_ns_value = 1e9 * each;
    line_through(&close, &add, n[0], large->few.add, n[1], large->many.add);
    r->sum_ns_value = 1e9 * add / x[1];
    r->sum_ms_round = 1e3 * close * (double)b->t->values / x[1];
    if (!task_is_sealed(b->t))
        return;
    line_through(&round, &each, x[0], heads[0], x[1], heads[1]);
    r->open_ms_client = 1e3 * round, r->open_ns_value = 1e9 * each;
}

static sefl_status time_rounds(const bench *b, rates *r)
{
    sefl_status st = SEFL_OK;
    part small = { 0 }, large = { 0 };
    bool paillier = b->t->ahe.scheme == &ahe_paillier;
    size_t most = paillier ? LARGE_PAILLIER : LARGE, least = paillier ? SMALL_PAILLIER : SMALL;
    uint32_t clients[2] = { FEW, paillier ? MANY_PAILLIER : MANY };
    uint64_t began = clock_now_ns();
    if (!b->s->e->protection->quantises)
        return SEFL_OK;
    most = b->t->values < most ? b->t->values : most;
    least = least > most / 2 ? most / 2 : least;
    for (int i = 0; i < 2; i++)
        clients[i] = b->s->clients < clients[i] ? b->s->clients : clients[i];
    SEFL_TRY(part_init(&small, b, least > 0 ? least : 1, r));
    SEFL_TRY(part_init(&large, b, most, r));
    for (int turn = 0; turn < ROUNDS_MAX; turn++) {
        for (int i = 0; i < 2; i++) {
            SEFL_TRY(time_round(b, &small, clients[i]));
            SEFL_TRY(time_round(b, &large, clients[i]));
        }
        if (clock_since(began) > 0.25 * b->seconds)
            break;
    }
    if (clients[1] <= FEW)
        small.many = small.few, large.many = large.few;
    fit(r, b, &small, &large, clients);
done:
    ahe_enc_free(&small.tables, small.enc);
    ahe_enc_free(&large.tables, large.enc);
    return st;
}

/* ---- the server's step ----------------------------------------------------------------------- */

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
    uint8_t hash[SHA256_BYTES];
    SEFL_TRY(step_new(&step, t));
    SEFL_TRY(sefl_new(&theta, t->params, sizeof *theta));
    SEFL_TRY(sefl_new(&w, t->values, sizeof *w));
    SEFL_TRY(sefl_new(&average, task_trained(t), sizeof *average));
    memcpy(theta, b->s->theta, t->params * sizeof *theta);
    w[t->values - 1] = 1000; /* the weight slot, if there is one */
    snprintf(path, sizeof path, "%.4000s/model", b->folder);
    uint64_t began = clock_now_ns();
    SEFL_TRY(step_average(average, t, t->clip_nano, w, 2, NULL));
    SEFL_TRY(step_apply(&step, t, theta, average, NULL));
    SEFL_TRY(task_model_write(path, t, theta, 0, hash));
    r->step_ms_round = 1e3 * clock_since(began);
    SEFL_CHECK(stat(path, &sb) == 0, SEFL_EIO, "%s: cannot read its size", path);
    r->model_bytes = (double)sb.st_size;
done:
    step_clear(&step);
    sefl_free(theta);
    sefl_free(w);
    sefl_free(average);
    return st;
}

/* Returns the resident memory that base/alloc.h does not count: the program, its libraries and what
 * they allocated during training, and stacks. malloc_trim returns freed memory first. */
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
    bench b = { .s = s, .t = &s->task, .pool = p, .seconds = seconds };
    rates r = { 0 };
    SEFL_TRY(file_temp_folder(b.folder, sizeof b.folder, "sefl-plan"));
    SEFL_TRY(time_training(&b, &r));
    SEFL_TRY(time_step(&b, &r));
    r.program_bytes = program_bytes();
    SEFL_TRY(time_rounds(&b, &r)); /* last: the allocator keeps memory of its threads */
    *out = r;
done:
    if (b.folder[0])
        dir_remove(b.folder);
    return st;
}

/* ---- files ----------------------------------------------------------------------------------- */

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
