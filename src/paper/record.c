#include "paper/record.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_read.h"
#include "privacy/accountant/accountant.h"
#include "simulate/plan.h"
#include "simulate/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20 };

static run_record record_none(void)
{
    run_record r = { 0 };
#define NONE(name) r.name = NAN;
    RECORD_NUMBERS(NONE)
#undef NONE
    return r;
}

void record_clear(run_record *r)
{
    buf_clear(&r->settings);
    sefl_free(r->valid);
    *r = (run_record){ 0 };
}

/* ---- settings -------------------------------------------------------------------------------- */

/* Settings that do not change the result, or that the record states elsewhere. */
static bool is_left_out(const char *key)
{
    return setting_word("name seed threads device models.keep data.path data.vocab model.init",
                        key) >= 0;
}

static sefl_status write_settings(sefl_buf *out, const settings *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->value[i] && !is_left_out(s->schema[i].key))
            SEFL_PASS(wr_fmt(out, "%s=%s\n", s->schema[i].key, s->value[i]));
    return SEFL_OK;
}

/* Returns the length of the line at p, and of its key. */
static size_t line_at(const char *p, const char *end, size_t *key)
{
    const char *stop = memchr(p, '\n', (size_t)(end - p)), *is;
    size_t n = (size_t)((stop ? stop : end) - p);
    is = memchr(p, '=', n);
    *key = is ? (size_t)(is - p) : n;
    return n;
}

sefl_status record_check(const run_record *r, const settings *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf now = { 0 };
    SEFL_TRY(write_settings(&now, s));
    SEFL_TRY(wr_u8(&now, '\n')); /* so that neither buffer is empty */
    const char *a = (const char *)r->settings.p, *a_end = a + r->settings.n;
    const char *b = (const char *)now.p, *b_end = b + now.n - 1;
    while (a < a_end && b < b_end) {
        size_t ka, kb, na = line_at(a, a_end, &ka), nb = line_at(b, b_end, &kb);
        SEFL_CHECK(na == nb && memcmp(a, b, na) == 0, SEFL_EEXIST,
                   "the result of %s has other settings (%.*s there, %.*s here): delete it to "
                   "repeat the run, or use another --results",
                   r->name, (int)na, a, (int)nb, b);
        a += na + 1, b += nb + 1;
    }
    SEFL_CHECK(
        a >= a_end && b >= b_end, SEFL_EEXIST,
        "the result of %s has %s settings than this run: delete it to repeat the run, or use "
        "another --results",
        r->name, a >= a_end ? "fewer" : "more");
done:
    buf_clear(&now);
    return st;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void put_settings(json *j, const sefl_buf *lines)
{
    const char *p = (const char *)lines->p, *end = p + lines->n;
    char key[64];
    json_key(j, "settings"), json_open(j, '{');
    while (p < end) {
        size_t k, n = line_at(p, end, &k), from = k < n ? k + 1 : n;
        snprintf(key, sizeof key, "%.*s", (int)k, p);
        json_key(j, key), json_span(j, span_of(p + from, n - from));
        p += n + 1;
    }
    json_close(j, '}');
}

/* Writes nothing for NAN. */
static void put_number(json *j, const char *key, double v)
{
    if (isnan(v))
        return;
    json_key(j, key);
    if (v >= 0 && v < 0x1p53 && v == floor(v))
        json_u64(j, (uint64_t)v);
    else
        json_real(j, v);
}

sefl_status record_write(const paper_options *o, const run_record *r)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    char name[PAPER_NAME_BYTES + 16];
    json_open(&j, '{');
#define PUT(member) \
    if (*r->member) \
        json_key(&j, #member), json_str(&j, r->member);
    RECORD_TEXTS(PUT)
#undef PUT
#define PUT(member) put_number(&j, #member, r->member);
    RECORD_NUMBERS(PUT)
#undef PUT
    put_settings(&j, &r->settings);
    json_key(&j, "valid"), json_open(&j, '[');
    for (size_t i = 0; i < r->valid_n; i++)
        json_real(&j, r->valid[i]); /* NAN becomes null */
    json_close(&j, ']');
    json_close(&j, '}');
    SEFL_TRY(json_end(&j));
    SEFL_TRY(wr_u8(&b, '\n'));
    snprintf(name, sizeof name, "runs/%.*s.json", PAPER_NAME_BYTES, r->name);
    SEFL_TRY(paper_write(o, name, buf_span(&b)));
done:
    buf_clear(&b);
    return st;
}

static sefl_status read_text(jread *j, char out[RECORD_TEXT])
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(jread_str(j, &b));
    SEFL_CHECK(b.n < RECORD_TEXT, SEFL_EPROTO, "a string is longer than %d bytes", RECORD_TEXT - 1);
    snprintf(out, RECORD_TEXT, "%.*s", (int)b.n, b.n ? (const char *)b.p : "");
done:
    buf_clear(&b);
    return st;
}

static sefl_status read_number(jread *j, double *out)
{
    *out = NAN;
    return jread_peek(j) == 'n' ? jread_skip(j) : jread_real(j, out);
}

static sefl_status read_settings(jread *j, sefl_buf *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf key = { 0 };
    bool more;
    SEFL_TRY(jread_open(j, '{'));
    for (;;) {
        SEFL_TRY(jread_key(j, &key, &more));
        if (!more)
            break;
        SEFL_TRY(wr_raw(out, key.p, key.n));
        SEFL_TRY(wr_u8(out, '='));
        SEFL_TRY(jread_str(j, out));
        SEFL_TRY(wr_u8(out, '\n'));
    }
done:
    buf_clear(&key);
    return st;
}

static sefl_status read_valid(jread *j, run_record *r)
{
    bool more;
    sefl_free(r->valid);
    r->valid = NULL, r->valid_n = 0;
    SEFL_PASS(sefl_new(&r->valid, FILE_MAX / 64, sizeof *r->valid));
    SEFL_PASS(jread_open(j, '['));
    for (;;) {
        SEFL_PASS(jread_item(j, &more));
        if (!more)
            return SEFL_OK;
        SEFL_NEED(r->valid_n < FILE_MAX / 64, SEFL_EPROTO, "too many rounds");
        SEFL_PASS(read_number(j, &r->valid[r->valid_n++]));
    }
}

static sefl_status read_member(void *ctx, jread *j, const sefl_buf *key)
{
    run_record *r = ctx;
#define GET(member)             \
    if (jread_is(key, #member)) \
        return read_text(j, r->member);
    RECORD_TEXTS(GET)
#undef GET
#define GET(member)             \
    if (jread_is(key, #member)) \
        return read_number(j, &r->member);
    RECORD_NUMBERS(GET)
#undef GET
    if (jread_is(key, "settings"))
        return read_settings(j, &r->settings);
    if (jread_is(key, "valid"))
        return read_valid(j, r);
    return jread_skip(j);
}

sefl_status record_read(run_record *out, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    run_record r = record_none();
    SEFL_TRY(file_read(&b, path, FILE_MAX));
    SEFL_TRY(sefl_at(jread_document(buf_span(&b), read_member, &r), "%s", path));
    SEFL_CHECK(*r.name && *r.body && *r.protection, SEFL_EPROTO, "%s is not the result of a run",
               path);
    *out = r, r = (run_record){ 0 };
done:
    buf_clear(&b);
    record_clear(&r);
    return st;
}

/* ---- all records ----------------------------------------------------------------------------- */

void records_clear(records *r)
{
    for (size_t i = 0; i < r->n; i++)
        record_clear(&r->at[i]);
    sefl_free(r->at);
    *r = (records){ 0 };
}

const run_record *records_find(const records *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->at[i].name, name) == 0)
            return &r->at[i];
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const run_record *)a)->name, ((const run_record *)b)->name);
}

static sefl_status read_all(records *out, const paper_options *o, DIR *d)
{
    char path[PATH_MAX];
    for (struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n < 6 || strcmp(e->d_name + n - 5, ".json") != 0)
            continue;
        SEFL_NEED(out->n < PAPER_RUNS_MAX, SEFL_ERANGE, "%s has more than %d runs", o->results,
                  PAPER_RUNS_MAX);
        SEFL_PASS(paper_path(path, o, "runs/%s", e->d_name));
        SEFL_PASS(record_read(&out->at[out->n], path));
        const run_record *r = &out->at[out->n++];
        SEFL_NEED(strcmp(r->scale, paper_scale(o)) == 0, SEFL_EPROTO,
                  "%s is a %s result among %s results", path, r->scale, paper_scale(o));
    }
    return SEFL_OK;
}

sefl_status records_read(records *out, const paper_options *o)
{
    sefl_status st = SEFL_OK;
    records all = { 0 };
    char path[PATH_MAX];
    DIR *d = NULL;
    SEFL_TRY(paper_path(path, o, "runs"));
    d = opendir(path);
    SEFL_CHECK(d, SEFL_EIO, "%s: %s", path, strerror(errno));
    SEFL_TRY(sefl_new(&all.at, PAPER_RUNS_MAX, sizeof *all.at));
    SEFL_TRY(read_all(&all, o, d));
    qsort(all.at, all.n, sizeof *all.at, by_name);
    *out = all, all = (records){ 0 };
done:
    if (d)
        closedir(d);
    records_clear(&all);
    return st;
}

/* ---- collecting ------------------------------------------------------------------------------ */

/* Copies the text named `key` of the object `bytes` (summary.json); "" if there is none. */
static void text_of(char out[RECORD_TEXT], sefl_span bytes, const char *key)
{
    jread j = jread_over(bytes);
    sefl_buf name = { 0 };
    bool more;
    sefl_status st = jread_open(&j, '{');
    while (st == SEFL_OK && (st = jread_key(&j, &name, &more)) == SEFL_OK && more) {
        if (jread_is(&name, key) && jread_peek(&j) == '"')
            st = read_text(&j, out);
        else
            st = jread_skip(&j);
    }
    buf_clear(&name);
}

static sefl_status take_summary(run_record *r, const char *folder)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char path[PATH_MAX];
    SEFL_TRY(file_path(path, "%s/summary.json", folder));
    SEFL_TRY(file_read(&b, path, FILE_MAX));
    const sefl_span all = buf_span(&b);
    text_of(r->device, all, "device");
    text_of(r->why, all, "why");
    text_of(r->model_sha256, all, "model_sha256");
    r->rounds = run_number(all, "rounds");
    r->skipped = run_number(all, "skipped");
    r->blocked = run_number(all, "blocked");
    r->diverged = run_number(all, "diverged");
    r->first_valid = run_number(all, "first_perplexity");
    r->best_valid = run_number(all, "best_perplexity");
    r->best_round = run_number(all, "best_round");
    r->last_valid = run_number(all, "last_perplexity");
    r->best_test = run_number(all, "best_test_perplexity");
    r->last_test = run_number(all, "last_test_perplexity");
    r->threads = run_number(all, "threads");
    r->seconds = run_number(all, "seconds");
    r->train_seconds = run_number(all, "train_seconds");
    r->eval_seconds = run_number(all, "eval_seconds");
    r->up_bytes = run_number(all, "up_bytes");
    r->down_bytes = run_number(all, "down_bytes");
    r->memory_bytes = run_number(all, "memory_bytes");
done:
    buf_clear(&b);
    return st;
}

/* Takes the perplexity of each round; returns the mean number of clients in a sum. */
static sefl_status take_rounds(run_record *r, const char *folder, double *clients)
{
    sefl_status st = SEFL_OK;
    run_log log = { 0 };
    char path[PATH_MAX];
    SEFL_TRY(file_path(path, "%s/metrics.jsonl", folder));
    SEFL_TRY(run_log_read(&log, path));
    SEFL_TRY(sefl_new(&r->valid, log.n + 1, sizeof *r->valid));
    for (; r->valid_n < log.n; r->valid_n++)
        r->valid[r->valid_n] = log.at[r->valid_n].perplexity;
    run_totals t = run_log_totals(&log);
    *clients = t.rounds > t.skipped ? t.all.clients / (double)(t.rounds - t.skipped) : 0;
done:
    run_log_clear(&log);
    return st;
}

/* Takes what the inputs of the run determine: its text, size and privacy. */
static sefl_status take_inputs(run_record *r, const paper_run *run, settings *s, double clients)
{
    sefl_status st = SEFL_OK;
    experiment e;
    federation *f = NULL;
    plan_spent spent;
    const double z = strtod(run->z, NULL);
    SEFL_TRY(experiment_make(&e, s));
    SEFL_TRY(federation_new(&f, &(federation_config){ .experiment = &e, .settings = s }));
    snprintf(r->text, sizeof r->text, "%016" PRIx64, federation_text(f));
    r->values = (double)f->task.values;
    SEFL_TRY(plan_spend(&spent, f, (uint64_t)(r->rounds - r->skipped)));
    r->delta = spent.delta;
    if (z > 0) {
        r->noise_ratio = clients > 0 ? plan_noise_ratio(f, clients) : NAN;
        r->classic_epsilon = dp_classic(spent.delta) / z;
    }
    if (spent.known)
        r->epsilon_server = spent.server, r->epsilon_others = spent.others;
    else
        snprintf(r->epsilon_why, sizeof r->epsilon_why, "%s", spent.why);
done:
    federation_free(f);
    return st;
}

sefl_status record_collect(run_record *out, const paper_options *o, const paper_run *run,
                           settings *s, const char *folder)
{
    sefl_status st = SEFL_OK;
    run_record r = record_none();
    double clients;
    paper_run_name(r.name, run);
    snprintf(r.scale, sizeof r.scale, "%s", paper_scale(o));
    snprintf(r.body, sizeof r.body, "%s", paper_body_names[run->body]);
    snprintf(r.protection, sizeof r.protection, "%s", run->protection);
    snprintf(r.z, sizeof r.z, "%s", run->z);
    snprintf(r.variant, sizeof r.variant, "%s", run->variant ? run->variant->name : "");
    snprintf(r.version, sizeof r.version, "%s", o->version ? o->version : "");
    snprintf(r.commit, sizeof r.commit, "%s", o->commit ? o->commit : "");
    r.block = (double)settings_u64(s, "model.block"); /* --set may have changed it */
    r.clients = (double)settings_u64(s, "clients");
    r.planned = run->rounds;
    r.seed = (double)settings_u64(s, "seed");
    r.dropout = run->dropout;
    SEFL_TRY(write_settings(&r.settings, s));
    SEFL_TRY(take_summary(&r, folder));
    SEFL_TRY(take_rounds(&r, folder, &clients));
    SEFL_TRY(take_inputs(&r, run, s, clients));
    *out = r, r = (run_record){ 0 };
done:
    record_clear(&r);
    return st;
}
