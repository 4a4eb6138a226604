#include "paper/cost.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "fed/fed_train.h"
#include "paper/loop.h"
#include "paper/sheet.h"
#include "protocol/modes/mode.h"
#include "protocol/update.h"
#include "seeded/seeded.h"
#include "simulate/servers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WORDS = 33278, /* of WikiText-2 */
    QUICK_WORDS = 300,
    CLIENTS = 10,
    PAILLIER_CLIENTS = 2, /* each needs minutes at block size 1 */
    QUICK_CLIENTS = 2,
    RUNS = 10, /* as in the paper */
    SLOW_RUNS = 3,
    QUICK_RUNS = 2,
    SEED = 1,
    RUNS_MAX = 1000,
};

static const char columns[] =
    "model block scheme key_bits values clients threads run seed quantise_s encrypt_s upload_s "
    "add_s open_s shares_s reveal_s decrypt_s total_s run_s up_bytes down_bytes link_bytes "
    "shares_bytes " SHEET_ORIGIN;

/* One run: the last columns, which cost.h describes. */
typedef struct parts {
    double quantise, encrypt, upload, add, open, shares, reveal, decrypt, total, run;
    double up_bytes, down_bytes, link_bytes, shares_bytes;
} parts;

typedef struct cost_run {
    const paper_options *o;
    settings set;
    experiment e;
    federation *f;
    pool *pool;
    char folder[256]; /* scratch */
    char ledger[2][300];
    loop loop;
    ahe_enc *enc;
    ahe_sum *sum;
    round_entry *entry; /* the uploads, sorted by client */
    uint8_t *heads, *body, *there;
    float *update;
    int64_t *X, *total;
    servers *servers;
    parts p;
    double collecting; /* seconds that the clients and AS's additions took */
    uint64_t link_before;
} cost_run;

/* ---- the federation -------------------------------------------------------------------------- */

/* A word list of the wanted size, and a line of text for each client, which nobody trains on. */
static sefl_status make_text(const cost_run *g, unsigned words, unsigned clients)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char path[PATH_MAX];
    for (unsigned i = 2; i < words; i++) /* <unk> and <eos> are added automatically */
        SEFL_TRY(wr_fmt(&b, "w%u\n", i));
    SEFL_TRY(file_path(path, "%s/words.txt", g->folder));
    SEFL_TRY(file_write_new(path, buf_span(&b), 0600));
    buf_reset(&b);
    for (unsigned i = 0; i < 4 * clients; i++)
        SEFL_TRY(wr_fmt(&b, " w2 w3 w4 w5 w6 w7 w8 w9 \n"));
    SEFL_TRY(file_path(path, "%s/train.txt", g->folder));
    SEFL_TRY(file_write_new(path, buf_span(&b), 0600));
done:
    buf_clear(&b);
    return st;
}

static sefl_status make_federation(cost_run *g, const cost_case *c, federation_key *key)
{
    const bool quick = g->o->quick, pad = strcmp(c->scheme, "pad") == 0;
    const unsigned clients = quick ? QUICK_CLIENTS : pad ? CLIENTS : PAILLIER_CLIENTS;
    const unsigned side = quick ? 32 : 200;
    SEFL_PASS(make_text(g, quick ? QUICK_WORDS : WORDS, clients));
    SEFL_PASS(paper_set(&g->set, "crypto=full crypto.key_bits=3072 model.tied=false "
                                 "data.partition=contiguous privacy.clip=1 privacy.noise=joint "
                                 "privacy.z=1 privacy.claim=none rounds.count=1"));
    SEFL_PASS(paper_set(&g->set,
                        "seed=%d clients=%u rounds.threshold=%u model.body=%s model.embed=%u "
                        "model.hidden=%u model.layers=%d model.block=%u crypto.scheme=%s "
                        "crypto.seal=%s",
                        SEED, clients, clients, c->model, side, side, quick ? 1 : 2, c->block,
                        c->scheme, pad ? "xwing" : "none"));
    SEFL_PASS(settings_setf(&g->set, "sefl paper", "data.path=%s", g->folder));
    SEFL_PASS(settings_setf(&g->set, "sefl paper", "data.vocab=%s/words.txt", g->folder));
    SEFL_PASS(experiment_make(&g->e, &g->set));
    return federation_new(
        &g->f, &(federation_config){
                   .experiment = &g->e, .settings = &g->set, .key = key, .stop = g->o->stop });
}

static int by_fingerprint(const void *a, const void *b)
{
    return memcmp(a, b, 32);
}

static sefl_status cost_run_open(cost_run *g, const cost_case *c, federation_key *key)
{
    SEFL_PASS(file_temp_folder(g->folder, sizeof g->folder, "sefl-paper"));
    for (int i = 0; i < 2; i++)
        snprintf(g->ledger[i], sizeof g->ledger[i], "%s/ledger-%d", g->folder, i);
    SEFL_PASS(make_federation(g, c, key));
    const task *t = &g->f->task;
    const uint32_t n = g->f->clients;
    SEFL_PASS(pool_new(&g->pool, g->o->threads));
    SEFL_PASS(loop_open(&g->loop, g->folder));
    SEFL_PASS(ahe_enc_new(&g->enc, t->pub, &t->ahe, g->pool, g->o->stop));
    SEFL_PASS(sefl_new(&g->entry, n, sizeof *g->entry));
    SEFL_PASS(sefl_new(&g->heads, n, HEAD_MAX));
    SEFL_PASS(sefl_new(&g->body, task_body_bytes(t), 1));
    SEFL_PASS(sefl_new(&g->there, task_body_bytes(t), 1));
    SEFL_PASS(sefl_new(&g->update, t->params, sizeof *g->update));
    SEFL_PASS(sefl_new(&g->X, t->ahe.units * t->ahe.unit_values, sizeof *g->X));
    SEFL_PASS(sefl_new(&g->total, t->values, sizeof *g->total));
    qsort(g->f->client, n, sizeof *g->f->client, by_fingerprint); /* the order of a set */
    return SEFL_OK;
}

static void cost_run_close(cost_run *g)
{
    servers_free(g->servers);
    if (g->f) {
        ahe_enc_free(&g->f->task.ahe, g->enc);
        ahe_sum_free(&g->f->task.ahe, g->sum);
    }
    loop_close(&g->loop);
    sefl_free(g->entry), sefl_free(g->heads), sefl_free(g->body), sefl_free(g->there);
    sefl_free(g->update), sefl_free(g->X), sefl_free(g->total);
    federation_free(g->f);
    pool_free(g->pool);
    settings_clear(&g->set);
    if (g->folder[0])
        dir_remove(g->folder);
}

/* ---- one run --------------------------------------------------------------------------------- */

/* Draws an update whose norm is about the clip, 1: uniform values. */
static void draw_update(cost_run *g, uint32_t client)
{
    const size_t n = g->f->task.params;
    const double side = sqrt(3 / (double)n);
    seeded gen;
    char name[48];
    snprintf(name, sizeof name, "paper update %u", client);
    seeded_init(&gen, SEED, name);
    for (size_t i = 0; i < n; i++)
        g->update[i] = (float)(side * (2 * seeded_unit(&gen) - 1));
}

static sefl_status one_client(cost_run *g, const round_header *h, uint32_t i)
{
    sefl_status st = SEFL_OK;
    const task *t = &g->f->task;
    const ahe_params *p = &t->ahe;
    const size_t head_n = head_bytes(t->seal), front = update_front_bytes(t->seal);
    sefl_rng rng = rng_system();
    sign_key *key = NULL;
    double upload;
    draw_update(g, i);
    SEFL_TRY(federation_upload_key(&key, g->f, i));
    uint64_t clock = clock_now_ns();
    SEFL_TRY(client_train_round(g->X, t, 0, g->f->text[i].tokens, g->update, &rng));
    g->p.quantise += clock_lap(&clock);
    SEFL_TRY(update_make(
        g->body, g->entry[i].body,
        &(update_facts){
            .task = t, .header = h, .enc = g->enc, .client = g->f->client[i], .upload_key = key },
        g->X, g->pool, g->o->stop, &rng));
    g->p.encrypt += clock_lap(&clock);
    SEFL_TRY(loop_send(&g->loop, &upload, g->there, g->body, task_body_bytes(t)));
    g->p.upload += upload;
    memcpy(g->entry[i].client, g->f->client[i], sizeof g->entry[i].client);
    memcpy(g->heads + i * head_n, g->there, head_n);
    clock_lap(&clock);
    SEFL_TRY(ahe_sum_check_units(p, g->sum, g->there + front, p->units));
    SEFL_TRY(ahe_sum_begin(p, g->sum));
    SEFL_TRY(ahe_sum_add_units(p, g->sum, 0, g->there + front, p->units, g->pool));
    g->p.add += clock_lap(&clock);
    for (size_t v = 0; v < t->values; v++)
        g->total[v] += g->X[v];
done:
    sign_key_free(key);
    return st;
}

static sefl_status upload_all(void *ctx, const round_header *h, work_got *got)
{
    cost_run *g = ctx;
    const task *t = &g->f->task;
    const uint32_t n = g->f->clients;
    uint64_t began = clock_now_ns();
    ahe_sum_free(&t->ahe, g->sum), g->sum = NULL;
    SEFL_PASS(ahe_sum_new(&g->sum, &t->ahe, t->pub));
    memset(g->total, 0, t->values * sizeof *g->total);
    for (uint32_t i = 0; i < n; i++)
        SEFL_PASS(one_client(g, h, i));
    uint64_t clock = clock_now_ns();
    SEFL_PASS(ahe_sum_close(&t->ahe, g->sum));
    g->p.add += clock_lap(&clock);
    *got = (work_got){ .clients = n,
                       .closed = g->sum,
                       .set = g->entry,
                       .heads = task_is_sealed(t) ? g->heads : NULL };
    g->link_before = servers_bytes(g->servers);
    g->collecting = clock_since(began);
    return SEFL_OK;
}

/* Checks that the release is the sum plus the claimed noise. */
static sefl_status take_sum(void *ctx, const release_from *from, uint64_t round, const int64_t *w,
                            uint32_t clients, release_made *made)
{
    const cost_run *g = ctx;
    const task *t = &g->f->task;
    const double sigma = task_mode(t)->deviation(t), n = (double)t->values;
    const double slack = 0.02 + 6 * sqrt(2 / n);
    double squares = 0;
    (void)from, (void)round, (void)clients, (void)made;
    for (size_t i = 0; i < t->values; i++) {
        double e = (task_value(t, w[i]) - (double)g->total[i] * t->ahe.pack.q) / sigma;
        squares += e * e;
    }
    SEFL_NEED(fabs(squares / n - 1) <= slack, SEFL_ECRYPTO,
              "the variance of the noise is %.3f times the variance claimed", squares / n);
    return SEFL_OK;
}

static void on_report(void *ctx, const rounds_report *r)
{
    cost_run *g = ctx;
    g->p.open = 1e-9 * (double)(r->parts.freeze + r->parts.set) - g->collecting;
    g->p.reveal = 1e-9 * (double)r->parts.reveal;
    g->p.link_bytes = (double)(servers_bytes(g->servers) - g->link_before);
}

static sefl_status one_run(cost_run *g)
{
    const double n = g->f->clients;
    const uint64_t began = clock_now_ns();
    g->p = (parts){ 0 };
    for (int i = 0; i < 2; i++) {
        (void)unlink(g->ledger[i]);
        SEFL_PASS(ledger_create(g->ledger[i], g->f->task.population));
    }
    servers_free(g->servers), g->servers = NULL;
    SEFL_PASS(servers_new(&g->servers, &(servers_config){ .federation = g->f,
                                                          .as_ledger = g->ledger[0],
                                                          .csp_ledger = g->ledger[1],
                                                          .pool = g->pool,
                                                          .stop = g->o->stop,
                                                          .ctx = g,
                                                          .upload = upload_all,
                                                          .release = take_sum,
                                                          .report = on_report }));
    SEFL_PASS(servers_run(g->servers));
    const servers_times t = servers_get_times(g->servers);
    parts *p = &g->p;
    p->shares = t.shares_seconds;
    p->shares_bytes = (double)t.shares_bytes;
    p->reveal -= p->shares; /* the driver makes the shares when the reveal asks for them */
    p->decrypt = 1e-9 * (double)t.csp.decrypt;
    p->quantise /= n, p->encrypt /= n, p->upload /= n;
    p->up_bytes = (double)task_body_bytes(&g->f->task);
    p->down_bytes = 4 * (double)g->f->task.params;
    p->run = clock_since(began);
    p->total = p->quantise + p->encrypt + p->upload + p->add + p->open + p->shares + p->reveal;
    return SEFL_OK;
}

static sefl_status add_row(sheet *s, const cost_run *g, const cost_case *c)
{
    enum { BEFORE = 7 }; /* numbers before the parts */
    const task *t = &g->f->task;
    double v[BEFORE + sizeof g->p / sizeof(double)] = {
        c->block,
        task_is_sealed(t) ? NAN : g->e.key_bits,
        (double)t->values,
        g->f->clients,
        pool_threads(g->pool),
        (double)s->rows + 1,
        SEED,
    };
    memcpy(v + BEFORE, &g->p, sizeof g->p);
    return sheet_add(s, (const char *[]){ c->model, c->scheme }, v);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static sefl_status case_open(sheet *s, const paper_options *o, const cost_case *c)
{
    return sheet_open(s, o, columns, "cost/%s-%u-%s", c->model, c->block, c->scheme);
}

sefl_status cost_measure(const paper_options *o, const cost_case *c, unsigned runs,
                         federation_key *key)
{
    sefl_status st = SEFL_OK;
    sheet s = { 0 };
    cost_run g = { .o = o };
    settings_init(&g.set, experiment_schema());
    SEFL_TRY(case_open(&s, o, c));
    while (s.rows < runs) {
        SEFL_CHECK(progress_report(o->stop, 0, 0), SEFL_ECANCELLED, "stopped");
        if (!g.f)
            SEFL_TRY(cost_run_open(&g, c, key));
        SEFL_TRY(one_run(&g));
        SEFL_TRY(add_row(&s, &g, c));
        SEFL_TRY(sheet_csv(&s));
        paper_say(o, "cost  %-11s l = %-2u %-8s run %zu/%u  total %.3f s, encrypt %.3f s", c->model,
                  c->block, c->scheme, s.rows, runs, g.p.total, g.p.encrypt);
    }
done:
    cost_run_close(&g);
    sheet_clear(&s);
    return st;
}

static unsigned runs_of(const paper_options *o, const cost_case *c)
{
    if (o->quick)
        return QUICK_RUNS;
    return c->block < 32 && strcmp(c->scheme, "paillier") == 0 ? SLOW_RUNS : RUNS;
}

/* The cases that take longest are last. */
sefl_status paper_cost(const paper_options *o)
{
    sefl_status st = SEFL_OK;
    federation_key key = { 0 };
    for (size_t scheme = 0, i = 0; scheme < 2; scheme++)
        for (size_t b = PAPER_BLOCK_SIZES; b-- > 0;)
            for (size_t model = 0; model < 2; model++) {
                const cost_case c = { model ? "transformer" : "lstm", paper_block_sizes[b],
                                      scheme ? "paillier" : "pad" };
                if (paper_has_block(o, c.block) && paper_is_mine(o, i++))
                    SEFL_TRY(cost_measure(o, &c, runs_of(o, &c), &key));
            }
done:
    federation_key_clear(&key);
    return st;
}

/* ---- the figure ------------------------------------------------------------------------------ */

static const char summary_columns[] =
    "model block scheme runs clients threads values quantise_s encrypt_s encrypt_sd upload_s add_s "
    "open_s shares_s reveal_s decrypt_s total_s total_sd speedup encrypt_speedup values_ratio "
    "up_bytes down_bytes link_bytes shares_bytes scale";

static spread spread_in(const sheet *s, const char *column)
{
    double v[RUNS_MAX] = { 0 };
    size_t n = s->rows < RUNS_MAX ? s->rows : RUNS_MAX;
    for (size_t i = 0; i < n; i++)
        v[i] = sheet_get(s, i, column);
    return spread_of(v, n);
}

/* Returns a column's mean over the same case with block 1 divided by its mean; NAN if the former
 * was not measured. */
static double gain(const sheet *s, const sheet *base, const char *column)
{
    return spread_in(base, column).mean / spread_in(s, column).mean;
}

/* Adds the means of a case. */
static sefl_status summarise(sheet *out, const sheet *s, const sheet *base)
{
    const struct {
        const char *name;
        double value;
    } others[] = {
        { "runs", (double)s->rows },
        { "encrypt_sd", spread_in(s, "encrypt_s").sd },
        { "total_sd", spread_in(s, "total_s").sd },
        { "speedup", gain(s, base, "total_s") },
        { "encrypt_speedup", gain(s, base, "encrypt_s") },
        { "values_ratio", gain(s, base, "values") },
    };
    double v[SHEET_COLUMNS_MAX];
    char name[SETTING_WORD_BYTES];
    size_t n = 0, other = 0;
    for (unsigned i = 0; i < out->width; i++) {
        setting_word_at(name, out->columns, i);
        if (other < sizeof others / sizeof *others && strcmp(name, others[other].name) == 0)
            v[n++] = others[other++].value;
        else if (setting_word(SHEET_TEXTS, name) < 0)
            v[n++] = spread_in(s, name).mean;
    }
    return sheet_add(
        out, (const char *[]){ sheet_get_text(s, 0, "model"), sheet_get_text(s, 0, "scheme") }, v);
}

enum { SERIES = 4, BLOCKS = PAPER_BLOCK_SIZES };
static const struct {
    const char *name, *of[2]; /* model, scheme */
} series[SERIES] = {
    { "LSTM, pad", { "lstm", "pad" } },
    { "LSTM, paillier", { "lstm", "paillier" } },
    { "Transformer, pad", { "transformer", "pad" } },
    { "Transformer, paillier", { "transformer", "paillier" } },
};

static void collect(double y[BLOCKS], const sheet *all, int k, const char *column)
{
    sheet_line(y, all, series[k].of, "block", paper_block_sizes, BLOCKS, column);
}

static sefl_status draw(const paper_options *o, const sheet *all)
{
    static const struct {
        const char *column, *title, *unit;
    } charts[] = {
        { "total_s", "Seconds of a secure round", "s" },
        { "speedup", "Speed-up of the round over block size 1", "x" },
        { "encrypt_s", "Seconds to encrypt one update", "s" },
        { "up_bytes", "Bytes of one upload", "bytes" },
    };
    enum { CHARTS = sizeof charts / sizeof *charts };
    static const double paper_best[BLOCKS] = { NAN, NAN, NAN, NAN, 13.7 }; /* "up to" */
    double y[CHARTS][SERIES][BLOCKS], ratio[BLOCKS], low[SERIES][BLOCKS], high[SERIES][BLOCKS];
    svg_chart c[CHARTS];
    for (int i = 0; i < CHARTS; i++) {
        svg_series s[SERIES];
        for (int k = 0; k < SERIES; k++) {
            collect(y[i][k], all, k, charts[i].column);
            s[k] = (svg_series){ .name = series[k].name, .y = y[i][k] };
        }
        c[i] = paper_block_chart(charts[i].title, charts[i].unit, s, SERIES);
    }
    for (int k = 0; k < SERIES; k++) {
        collect(high[k], all, k, "total_sd");
        for (int b = 0; b < BLOCKS; b++) {
            low[k][b] = y[0][k][b] - high[k][b];
            high[k][b] += y[0][k][b];
        }
        c[0].series[k].low = low[k], c[0].series[k].high = high[k];
    }
    collect(ratio, all, 0, "values_ratio");
    c[1].log = false;
    c[1].series[c[1].count++] = (svg_series){ .name = "value counts", .y = ratio, .dashed = true };
    if (!o->quick)
        c[1].series[c[1].count++] = (svg_series){ .name = "paper", .y = paper_best };
    return paper_svg(o, "cost", c, CHARTS);
}

/* Adds the cases of series k to the summary. */
static sefl_status summarise_all(sheet *all, const paper_options *o, int k)
{
    sefl_status st = SEFL_OK;
    sheet s = { 0 }, base = { 0 };
    cost_case c = { series[k].of[0], 1, series[k].of[1] };
    SEFL_TRY(case_open(&base, o, &c));
    for (int b = 0; b < BLOCKS; b++) {
        c.block = paper_block_sizes[b];
        SEFL_TRY(case_open(&s, o, &c));
        if (s.rows > 0)
            SEFL_TRY(summarise(all, &s, &base));
    }
done:
    sheet_clear(&s);
    sheet_clear(&base);
    return st;
}

sefl_status paper_cost_draw(const paper_options *o)
{
    sefl_status st = SEFL_OK;
    sheet all;
    sheet_new(&all, o, summary_columns, "cost");
    for (int k = 0; k < SERIES; k++)
        SEFL_TRY(summarise_all(&all, o, k));
    SEFL_TRY(sheet_csv(&all));
    if (all.rows > 0)
        SEFL_TRY(draw(o, &all));
done:
    sheet_clear(&all);
    return st;
}
