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
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20 };

run_record record_none(void)
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
    buf_clear(&r->valid);
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
    json j = json_into(out);
    json_open(&j, '{');
    for (size_t i = 0; i < s->count; i++)
        if (s->value[i] && !is_left_out(s->schema[i].key))
            json_key(&j, s->schema[i].key), json_str(&j, s->value[i]);
    json_close(&j, '}');
    return json_end(&j);
}

/* Returns the length of the member at an offset in a JSON object. */
static int member_at(const sefl_buf *b, size_t from)
{
    size_t n = from;
    while (n < b->n && b->p[n] != ',' && b->p[n] != '}')
        n++;
    return (int)(n - from);
}

sefl_status record_check(const run_record *r, const settings *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf now = { 0 };
    const sefl_buf *old = &r->settings;
    size_t at = 0, from = 0;
    SEFL_TRY(write_settings(&now, s));
    while (at < old->n && at < now.n && old->p[at] == now.p[at])
        if (old->p[at++] == ',')
            from = at;
    if (at == old->n && at == now.n)
        goto done;
    if (at < old->n && at < now.n && (old->p[at] == '}' || now.p[at] == '}'))
        from = at + 1; /* one has more */
    st = sefl_fail(SEFL_EEXIST,
                   "the result of %s has other settings (%.*s there, %.*s here): delete it to "
                   "repeat the run, or use another --results",
                   r->name, member_at(old, from), (const char *)old->p + from,
                   member_at(&now, from), (const char *)now.p + from);
done:
    buf_clear(&now);
    return st;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The members of a file, and other names of them in the summary.json of a run. */
static const struct field {
    const char *name;
    size_t at;
    bool text;
} fields[] = {
#define TEXT(member)   { #member, offsetof(run_record, member), true },
#define NUMBER(member) { #member, offsetof(run_record, member), false },
    RECORD_TEXTS(TEXT) RECORD_NUMBERS(NUMBER)
#undef TEXT
#undef NUMBER
    /* names in summary.json */
    { "first_perplexity", offsetof(run_record, first_valid), false },
    { "best_perplexity", offsetof(run_record, best_valid), false },
    { "last_perplexity", offsetof(run_record, last_valid), false },
    { "best_test_perplexity", offsetof(run_record, best_test), false },
    { "last_test_perplexity", offsetof(run_record, last_test), false },
};

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
    json_open(&j, '{');
#define PUT(member) \
    if (*r->member) \
        json_key(&j, #member), json_str(&j, r->member);
    RECORD_TEXTS(PUT)
#undef PUT
#define PUT(member) put_number(&j, #member, r->member);
    RECORD_NUMBERS(PUT)
#undef PUT
    json_close(&j, '}');
    SEFL_TRY(json_end(&j));
    b.n--; /* the bracket */
    SEFL_TRY(wr_fmt(&b, ",\"settings\":%.*s,\"valid\":%.*s}\n", (int)r->settings.n,
                    (const char *)r->settings.p, (int)r->valid.n, (const char *)r->valid.p));
    SEFL_TRY(paper_write(o, buf_span(&b), "runs/%s.json", r->name));
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

/* Keeps the JSON of a value. */
static sefl_status read_raw(jread *j, sefl_buf *out)
{
    (void)jread_peek(j); /* skips white space */
    const size_t from = j->at;
    SEFL_PASS(jread_skip(j));
    buf_reset(out);
    return wr_raw(out, j->p + from, j->at - from);
}

/* Skips what has another type: of a summary, only numbers and texts of a record count. */
static sefl_status read_member(void *ctx, jread *j, const sefl_buf *key)
{
    run_record *r = ctx;
    for (const struct field *f = fields; f < fields + sizeof fields / sizeof *fields; f++) {
        void *at = (char *)r + f->at;
        if (!jread_is(key, f->name))
            continue;
        if (f->text && jread_peek(j) == '"')
            return read_text(j, at);
        if (!f->text && jread_peek(j) == '0')
            return jread_real(j, at);
    }
    if (jread_is(key, "settings"))
        return read_raw(j, &r->settings);
    return jread_is(key, "valid") ? read_raw(j, &r->valid) : jread_skip(j);
}

static sefl_status read_file(run_record *r, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(file_read(&b, path, FILE_MAX));
    SEFL_TRY(sefl_at(jread_document(buf_span(&b), read_member, r), "%s", path));
done:
    buf_clear(&b);
    return st;
}

sefl_status record_read(run_record *out, const char *path)
{
    sefl_status st = SEFL_OK;
    run_record r = record_none();
    SEFL_TRY(read_file(&r, path));
    SEFL_CHECK(*r.name && *r.body && *r.protection, SEFL_EPROTO, "%s is not the result of a run",
               path);
    *out = r, r = (run_record){ 0 };
done:
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

const run_record *records_find(const records *all, const paper_run *run)
{
    char name[PAPER_NAME_BYTES];
    paper_run_name(name, run);
    for (const run_record *r = all->at; r < all->at + all->n; r++)
        if (strcmp(r->name, name) == 0)
            return r;
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

/* Takes the perplexity of each round; returns the mean number of clients in a sum. */
static sefl_status take_rounds(run_record *r, const char *folder, double *clients)
{
    sefl_status st = SEFL_OK;
    run_log log = { 0 };
    char path[PATH_MAX];
    json j = json_into(&r->valid);
    SEFL_TRY(file_path(path, "%s/metrics.jsonl", folder));
    SEFL_TRY(run_log_read(&log, path));
    json_open(&j, '[');
    for (size_t i = 0; i < log.n; i++)
        json_real(&j, log.at[i].perplexity); /* NAN becomes null */
    json_close(&j, ']');
    SEFL_TRY(json_end(&j));
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
    char path[PATH_MAX];
    SEFL_TRY(file_path(path, "%s/summary.json", folder));
    SEFL_TRY(read_file(&r, path));
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
    SEFL_TRY(take_rounds(&r, folder, &clients));
    SEFL_TRY(take_inputs(&r, run, s, clients));
    *out = r, r = (run_record){ 0 };
done:
    record_clear(&r);
    return st;
}
