/* Measures index formats (paper/csr.h) on real local updates, in two rounds: the first gives the
 * public mask, the second is measured. */
#include "base/alloc.h"
#include "base/clock.h"
#include "fed/trainer.h"
#include "paper/csr.h"
#include "paper/locals.h"
#include "paper/sheet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY_BITS = 3072, FEW = 10, STEPS = 11 };

/* Numbers of clients at which the union is counted. */
static const unsigned steps[STEPS] = { 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000 };

static const char format_columns[] =
    "size format seed clients params numbers index_bytes pad_bytes paillier_bytes sum_error energy "
    "positions_seen support_bits words_seen words " SHEET_ORIGIN;
static const char union_columns[] =
    "size seed params kept clients union share random_share " SHEET_ORIGIN;

static const locals_size quick = {
    "quick", "clients=30 data.words=200 model.embed=16 model.hidden=16 model.layers=1 "
             "model.batch=5 model.steps=20 model.block=8 training.lr=10"
};
static const locals_size small = {
    "small", "clients=1000 data.words=2000 data.vocab_words=2000 model.embed=32 model.hidden=32 "
             "model.layers=1 model.batch=10 model.steps=35 model.block=32 training.lr=20"
};
/* the paper's model; local training is limited so that a CPU can do it */
static const locals_size whole = {
    "paper", "clients=10 model.embed=200 model.hidden=200 model.layers=2 model.batch=20 "
             "model.steps=35 model.block=32 training.lr=20 training.dropout=0.2 training.steps=100"
};
typedef struct measure {
    const paper_options *o;
    const locals_size *size;
    locals l;
    const layout *c;
    size_t n, k; /* entries of an update; entries kept */
    sheet formats, unions;
    float *theta, *scratch, *wide, *v; /* in one piece, as are the next three and `seen` */
    double *average;
    uint8_t *mask, *all, *shared; /* a client's support; the union; AS's mask */
    uint8_t *seen;                /* words of a client's text */
    csr_blind blind;
    size_t few_union; /* union of the first FEW clients */
    uint32_t few;
    /* sums over the clients of the second round */
    double kept, index_bytes, bits, own, common, bhm, words_seen, words;
} measure;

static sefl_status open_all(measure *m)
{
    SEFL_PASS(locals_open(&m->l, m->o, m->size, 0, 1));
    m->c = &m->l.f->task.layout;
    m->n = m->c->dense, m->k = m->c->count;
    m->few = m->l.f->clients < FEW ? m->l.f->clients : FEW;
    SEFL_PASS(sefl_new(&m->theta, 3 * m->n + m->k, sizeof *m->theta));
    m->scratch = m->theta + m->n, m->wide = m->scratch + m->n, m->v = m->wide + m->n;
    SEFL_PASS(sefl_new(&m->mask, 3 * m->n + m->l.t.model.vocab, 1));
    m->all = m->mask + m->n, m->shared = m->all + m->n, m->seen = m->shared + m->n;
    SEFL_PASS(sefl_new(&m->average, m->n, sizeof *m->average));
    return csr_blind_init(&m->blind, m->n, m->k);
}

static void close_all(measure *m)
{
    locals_close(&m->l);
    sheet_clear(&m->formats);
    sheet_clear(&m->unions);
    sefl_free(m->theta), sefl_free(m->mask), sefl_free(m->average);
    csr_blind_clear(&m->blind);
}

/* ---- clients --------------------------------------------------------------------------------- */

static sefl_status first_round(void *ctx, uint32_t client, const float *u)
{
    measure *m = ctx;
    (void)client;
    for (size_t i = 0; i < m->n; i++)
        m->average[i] += (double)u[i] / m->l.f->clients;
    return SEFL_OK;
}

/* Counts the words of the client's text, and those of them whose row of the embedding (the first
 * parameter) has an entry in the support: the gradient of every other row is zero. */
static void count_words(measure *m, uint32_t client)
{
    const corpus *text = &m->l.f->text[client];
    const layout_tensor *e = &m->c->tensor[0];
    memset(m->seen, 0, e->shape[0]);
    for (size_t i = 0; i < text->tokens; i++)
        m->seen[text->token[i]] = 1;
    for (uint32_t w = 0; w < e->shape[0]; w++) {
        const uint8_t *row = m->mask + e->dense_offset + (size_t)w * e->shape[1];
        m->words += m->seen[w];
        m->words_seen += memchr(row, 1, e->shape[1]) != NULL;
    }
}

static sefl_status add_union(measure *m, uint32_t clients, size_t count)
{
    const double kept = m->kept / clients;
    return sheet_add(&m->unions, &m->size->name,
                     (double[]){ LOCALS_SEED, (double)m->n, kept, clients, (double)count,
                                 (double)count / (double)m->n,
                                 csr_random_union(m->n, kept, clients) });
}

static sefl_status second_round(void *ctx, uint32_t client, const float *u)
{
    measure *m = ctx;
    const double norm = compress_norm(u, m->n);
    const size_t kept = csr_support(m->mask, u, m->n, m->k, m->scratch);
    SEFL_NEED(norm > 0, SEFL_ERANGE, "a client's update is zero");
    m->kept += (double)kept;
    m->index_bytes += (double)csr_index_bytes(m->mask, m->c);
    m->bits += csr_support_bits(m->n, kept);
    m->own += csr_energy(u, m->mask, m->n);
    m->common += csr_energy(u, m->shared, m->n);
    compress_project(m->c, m->v, u);
    trainer_expand(m->wide, m->c, m->v);
    const double left = compress_norm(m->wide, m->n) / norm;
    m->bhm += left * left;
    count_words(m, client);
    if (client < m->few)
        csr_blind_add(&m->blind, u, m->mask);
    const size_t count = csr_union(m->all, m->mask, m->n);
    if (client + 1 == m->few)
        m->few_union = count;
    for (int i = 0; i < STEPS; i++)
        if (client + 1 == steps[i])
            SEFL_PASS(add_union(m, steps[i], count));
    return SEFL_OK;
}

/* ---- formats --------------------------------------------------------------------------------- */

typedef struct format {
    const char *name;
    double numbers, index, pad, paillier, error, energy, positions, bits, words;
} format;

/* Fills in the bytes of an upload of f->numbers numbers, all packed. */
static sefl_status packed(format *f, uint32_t clients)
{
    SEFL_PASS(csr_pad_bytes(&f->pad, (size_t)f->numbers, clients));
    return csr_paillier_bytes(&f->paillier, (size_t)f->numbers, clients, KEY_BITS);
}

static sefl_status add_formats(measure *m)
{
    const uint32_t clients = m->l.f->clients;
    const double n = clients, kept = round(m->kept / n), words = m->words_seen / n;
    const double index = m->index_bytes / n;
    format f[] = {
        { .name = "dense", .numbers = (double)m->n, .energy = 1 },
        { .name = "csr-clear",
          .numbers = kept,
          .index = index,
          .energy = m->own / n,
          .positions = kept,
          .bits = m->bits / n,
          .words = words },
        { .name = "csr-hidden",
          .numbers = 2 * kept, /* an index is encrypted like a value */
          .error = csr_blind_error(&m->blind),
          .energy = NAN },
        { .name = "union",
          .numbers = (double)m->few_union,
          .energy = NAN,
          .positions = kept, /* the party that computes the union sees each support */
          .bits = m->bits / n,
          .words = words },
        { .name = "mask", .numbers = (double)m->k, .energy = m->common / n },
        { .name = "bhm", .numbers = (double)m->k, .energy = m->bhm / n },
    };
    for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
        SEFL_PASS(packed(&f[i], clients));
        if (strcmp(f[i].name, "csr-clear") ==
            0) { /* CSP needs the indices too; nothing is packed */
            f[i].pad += 2 * index;
            f[i].paillier = csr_paillier_single_bytes((size_t)kept, KEY_BITS) + index;
        }
        SEFL_PASS(sheet_add(&m->formats, (const char *[]){ m->size->name, f[i].name },
                            (double[]){ LOCALS_SEED, n, (double)m->n, f[i].numbers, f[i].index,
                                        f[i].pad, f[i].paillier, f[i].error, f[i].energy,
                                        f[i].positions, f[i].bits, f[i].words, m->words / n }));
    }
    return SEFL_OK;
}

/* ---- public ---------------------------------------------------------------------------------- */

static sefl_status sheets_open(sheet *formats, sheet *unions, const paper_options *o,
                               const locals_size *z)
{
    SEFL_PASS(sheet_open(unions, o, union_columns, "csr/%s-union", z->name));
    return sheet_open(formats, o, format_columns, "csr/%s", z->name);
}

static sefl_status measure_size(const paper_options *o, const locals_size *z)
{
    sefl_status st = SEFL_OK;
    measure m = { .o = o, .size = z };
    const uint64_t began = clock_now_ns();
    SEFL_TRY(sheets_open(&m.formats, &m.unions, o, z));
    if (m.formats.rows > 0)
        goto done;
    sheet_clear(&m.unions); /* an interrupted measurement starts again */
    SEFL_TRY(open_all(&m));
    trainer_expand(m.theta, m.c, m.l.f->theta);
    SEFL_TRY(locals_round(&m.l, 1, m.theta, first_round, &m));
    for (size_t i = 0; i < m.n; i++) {
        m.wide[i] = (float)m.average[i];
        m.theta[i] += m.wide[i];
    }
    (void)csr_support(m.shared, m.wide, m.n, m.k, m.scratch);
    SEFL_TRY(locals_round(&m.l, 2, m.theta, second_round, &m));
    SEFL_TRY(add_formats(&m));
    SEFL_TRY(sheet_csv(&m.unions));
    SEFL_TRY(sheet_csv(&m.formats));
    paper_say(o, "csr  %s: %zu of %zu values kept; the union of %u clients has %.0f %%; %.1f s",
              z->name, m.k, m.n, m.few, 100 * (double)m.few_union / (double)m.n,
              clock_since(began));
done:
    close_all(&m);
    return st;
}

sefl_status paper_csr(const paper_options *o)
{
    if (o->shard != 0)
        return SEFL_OK;
    SEFL_PASS(measure_size(o, o->quick ? &quick : &small));
    /* generated text has too few words for the paper's model */
    return o->data && !o->quick ? measure_size(o, &whole) : SEFL_OK;
}

/* Draws the union of the small model beside that of the paper's, and the formats of the larger. */
static sefl_status draw(const paper_options *o, const sheet *formats, const sheet *unions)
{
    enum { FORMATS = 6 };
    static const char *const clients[STEPS] = { "1",  "2",   "3",   "5",   "10",  "20",
                                                "50", "100", "200", "500", "1000" };
    static const char *const names[FORMATS] = { "dense", "csr-clear", "csr-hidden",
                                                "union", "mask",      "bhm" };
    static const char *const titles[FORMATS] = { "dense",    "CSR, clear", "CSR, hidden",
                                                 "union 10", "mask",       "BHM" };
    static const unsigned seed = LOCALS_SEED;
    const char *const first = o->quick ? "quick" : "small";
    const char *const name = o->quick ? "measured" : "measured, small model";
    double share[2][STEPS], random[STEPS], pad[2][FORMATS], paillier[2][FORMATS];
    for (int k = 0; k < 2; k++) {
        const char *size = k == 0 ? first : "paper";
        sheet_line(share[k], unions, &size, "clients", steps, STEPS, "share");
        for (int i = 0; i < FORMATS; i++) {
            const char *const texts[] = { size, names[i] };
            sheet_line(&pad[k][i], formats, texts, "seed", &seed, 1, "pad_bytes");
            sheet_line(&paillier[k][i], formats, texts, "seed", &seed, 1, "paillier_bytes");
        }
    }
    sheet_line(random, unions, &first, "clients", steps, STEPS, "random_share");
    for (int i = 0; i < STEPS; i++)
        share[0][i] *= 100, share[1][i] *= 100, random[i] *= 100;
    const int largest = !isnan(pad[1][0]);
    const svg_chart c[] = {
        { .title = "Share of all positions in the union of the clients' supports",
          .unit = "%",
          .n = STEPS,
          .x_name = "clients",
          .x_text = clients,
          .series = { { .name = name, .y = share[0] },
                      { .name = "measured, the paper's LSTM", .y = share[1] },
                      { .name = "random supports", .y = random, .dashed = true } },
          .count = 3 },
        { .title = "Bytes of one upload by format",
          .unit = "bytes",
          .n = FORMATS,
          .x_name = "format",
          .x_text = titles,
          .series = { { .name = "pad", .y = pad[largest] },
                      { .name = "paillier", .y = paillier[largest] } },
          .count = 2,
          .log = true },
    };
    return paper_svg(o, "csr", c, sizeof c / sizeof *c);
}

sefl_status paper_csr_draw(const paper_options *o)
{
    sefl_status st = SEFL_OK;
    const locals_size *const sizes[3] = { &quick, &small, &whole };
    sheet formats = { 0 }, unions = { 0 }, all_formats, all_unions;
    sheet_new(&all_formats, o, format_columns, "csr");
    sheet_new(&all_unions, o, union_columns, "csr-union");
    for (size_t i = 0; i < 3; i++) {
        SEFL_TRY(sheets_open(&formats, &unions, o, sizes[i]));
        SEFL_TRY(sheet_append(&all_formats, &formats));
        SEFL_TRY(sheet_append(&all_unions, &unions));
    }
    if (all_formats.rows == 0)
        goto done;
    SEFL_TRY(sheet_csv(&all_formats));
    SEFL_TRY(sheet_csv(&all_unions));
    SEFL_TRY(draw(o, &all_formats, &all_unions));
done:
    sheet_clear(&formats);
    sheet_clear(&unions);
    sheet_clear(&all_formats);
    sheet_clear(&all_unions);
    return st;
}
