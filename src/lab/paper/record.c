#include "paper/record.h"

#include "base/file.h"
#include "base/json.h"
#include "base/json_read.h"
#include "privacy/accountant/accountant.h"
#include "simulate/plan.h"
#include "simulate/run_folder.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20 };

static size_t place(const char *column)
{
    const int i = setting_word(RECORD_COLUMNS, column);
    assert(i >= 0);
    return (size_t)i;
}

double record_number(const sheet_cell *r, const char *column)
{
    return r ? r[place(column)].number : NAN;
}

const char *record_text(const sheet_cell *r, const char *column)
{
    return r ? r[place(column)].text : "";
}

void record_clear(run_record r)
{
    for (size_t i = 0; i < RECORD_WIDTH; i++)
        r[i] = (sheet_cell){ .number = NAN };
}

void record_put(run_record r, const char *column, double v)
{
    r[place(column)].number = v;
}

void record_put_text(run_record r, const char *column, const char *text)
{
    sheet_cell *c = &r[place(column)];
    snprintf(c->text, sizeof c->text, "%s", text);
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

sefl_status record_check(const char *path, const settings *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf old = { 0 }, now = { 0 };
    size_t at = 0, from = 0;
    run_record r;
    SEFL_TRY(record_read(r, &old, path));
    SEFL_TRY(write_settings(&now, s));
    while (at < old.n && at < now.n && old.p[at] == now.p[at])
        if (old.p[at++] == ',')
            from = at;
    if (at == old.n && at == now.n)
        goto done;
    if (at < old.n && at < now.n && (old.p[at] == '}' || now.p[at] == '}'))
        from = at + 1; /* one has more */
    st = sefl_fail(SEFL_EEXIST,
                   "the result of %s has other settings (%.*s there, %.*s here): delete it to "
                   "repeat the run, or use another --results",
                   record_text(r, "name"), member_at(&old, from), (const char *)old.p + from,
                   member_at(&now, from), (const char *)now.p + from);
done:
    buf_clear(&old);
    buf_clear(&now);
    return st;
}

/* ---- files ----------------------------------------------------------------------------------- */

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

sefl_status record_write(const paper_options *o, const run_record r, sefl_span set, sefl_span valid)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    char name[SETTING_WORD_BYTES];
    json_open(&j, '{');
    for (unsigned i = 0; i < RECORD_WIDTH; i++) {
        setting_word_at(name, RECORD_COLUMNS, i);
        if (r[i].text[0])
            json_key(&j, name), json_str(&j, r[i].text);
        else
            put_number(&j, name, r[i].number);
    }
    json_close(&j, '}');
    SEFL_TRY(json_end(&j));
    b.n--; /* the bracket */
    SEFL_TRY(wr_fmt(&b, ",\"settings\":%.*s,\"valid\":%.*s}\n", (int)set.n, (const char *)set.p,
                    (int)valid.n, (const char *)valid.p));
    SEFL_TRY(paper_write(o, buf_span(&b), "runs/%s.json", record_text(r, "name")));
done:
    buf_clear(&b);
    return st;
}

typedef struct reader {
    sheet_cell *row;
    sefl_buf *settings; /* NULL: not wanted */
} reader;

/* Reads a number, a string or null. */
static sefl_status read_cell(sheet_cell *out, jread *j)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { 0 };
    *out = (sheet_cell){ .number = NAN };
    if (jread_peek(j) == 'n')
        return jread_skip(j);
    if (jread_peek(j) != '"')
        return jread_real(j, &out->number);
    SEFL_TRY(jread_str(j, &text));
    SEFL_CHECK(text.n > 0 && text.n <= SHEET_TEXT_MAX, SEFL_EPROTO, "a string of %zu bytes",
               text.n);
    memcpy(out->text, text.p, text.n);
done:
    buf_clear(&text);
    return st;
}

/* Reads a member of a record, or of the summary.json of a run, which has other names for some. */
static sefl_status read_member(void *ctx, jread *j, const sefl_buf *key)
{
    static const char others[] = "first_perplexity best_perplexity last_perplexity "
                                 "best_test_perplexity last_test_perplexity";
    static const char ours[] = "first_valid best_valid last_valid best_test last_test";
    reader *r = ctx;
    char name[SETTING_WORD_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)key->n, key->n ? (const char *)key->p : "");
    const int other = setting_word(others, name);
    if (other >= 0)
        setting_word_at(name, ours, (unsigned)other);
    const int i = setting_word(RECORD_COLUMNS, name);
    if (i >= 0)
        return read_cell(&r->row[i], j);
    const char kind = jread_peek(j); /* skips white space */
    const size_t from = j->at;
    SEFL_PASS(jread_skip(j));
    if (!r->settings || kind != '{' || !jread_is(key, "settings"))
        return SEFL_OK;
    buf_reset(r->settings);
    return wr_raw(r->settings, j->p + from, j->at - from);
}

static sefl_status read_file(reader *r, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    record_clear(r->row);
    SEFL_TRY(file_read(&b, path, FILE_MAX));
    SEFL_TRY(sefl_at(jread_document(buf_span(&b), read_member, r), "%s", path));
done:
    buf_clear(&b);
    return st;
}

sefl_status record_read(run_record out, sefl_buf *set, const char *path)
{
    SEFL_PASS(read_file(&(reader){ out, set }, path));
    SEFL_NEED(*record_text(out, "name") && *record_text(out, "body") &&
                  *record_text(out, "protection"),
              SEFL_EPROTO, "%s is not the result of a run", path);
    return SEFL_OK;
}

/* ---- all records ----------------------------------------------------------------------------- */

const sheet_cell *records_find(const sheet *all, const paper_run *run)
{
    char name[PAPER_NAME_BYTES];
    paper_run_name(name, run);
    for (const sheet_cell *r = all->cell; r < all->cell + all->rows * RECORD_WIDTH;
         r += RECORD_WIDTH)
        if (strcmp(record_text(r, "name"), name) == 0)
            return r;
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(record_text(a, "name"), record_text(b, "name"));
}

static sefl_status read_all(sheet *out, const paper_options *o, DIR *d)
{
    char path[PATH_MAX];
    run_record r;
    for (struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n < 6 || strcmp(e->d_name + n - 5, ".json") != 0)
            continue;
        SEFL_PASS(paper_path(path, o, "runs/%s", e->d_name));
        SEFL_PASS(record_read(r, NULL, path));
        SEFL_NEED(strcmp(record_text(r, "scale"), paper_scale(o)) == 0, SEFL_EPROTO,
                  "%s is a %s result among %s results", path, record_text(r, "scale"),
                  paper_scale(o));
        SEFL_PASS(sheet_add_cells(out, r));
    }
    if (out->rows > 0)
        qsort(out->cell, out->rows, sizeof r, by_name);
    return SEFL_OK;
}

sefl_status records_read(sheet *out, const paper_options *o)
{
    char path[PATH_MAX];
    sheet_clear(out);
    sheet_new(out, o, RECORD_COLUMNS, "runs");
    assert(out->width == RECORD_WIDTH);
    out->quoted = true;
    SEFL_PASS(paper_path(path, o, "runs"));
    DIR *d = opendir(path);
    SEFL_NEED(d, SEFL_EIO, "%s: %s", path, strerror(errno));
    const sefl_status st = read_all(out, o, d);
    closedir(d);
    return st;
}

/* ---- collecting ------------------------------------------------------------------------------ */

/* Writes the perplexity of each round; returns the mean number of clients in a sum. */
static sefl_status take_rounds(sefl_buf *valid, const char *folder, double *clients)
{
    sefl_status st = SEFL_OK;
    run_log log = { 0 };
    char path[PATH_MAX];
    json j = json_into(valid);
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
static sefl_status take_inputs(run_record r, const paper_run *run, settings *s, double clients)
{
    sefl_status st = SEFL_OK;
    experiment e;
    federation *f = NULL;
    plan_spent spent;
    char text[20];
    const double z = strtod(run->z, NULL);
    const double released = record_number(r, "rounds") - record_number(r, "skipped");
    SEFL_TRY(experiment_make(&e, s));
    SEFL_TRY(federation_new(&f, &(federation_config){ .experiment = &e, .settings = s }));
    snprintf(text, sizeof text, "%016" PRIx64, federation_text(f));
    record_put_text(r, "text", text);
    record_put(r, "values", (double)f->task.values);
    SEFL_TRY(plan_spend(&spent, f, (uint64_t)released));
    record_put(r, "delta", spent.delta);
    if (z > 0) {
        record_put(r, "noise_ratio", clients > 0 ? plan_noise_ratio(f, clients) : NAN);
        record_put(r, "classic_epsilon", dp_classic(spent.delta) / z);
    }
    record_put(r, "epsilon_server", spent.known ? spent.server : NAN);
    record_put(r, "epsilon_others", spent.known ? spent.others : NAN);
    record_put_text(r, "epsilon_why", spent.known ? "" : spent.why);
done:
    federation_free(f);
    return st;
}

sefl_status record_make(run_record out, const paper_options *o, const paper_run *run, settings *s,
                        const char *folder)
{
    sefl_status st = SEFL_OK;
    sefl_buf set = { 0 }, valid = { 0 };
    double clients;
    char path[PATH_MAX], name[PAPER_NAME_BYTES];
    SEFL_TRY(file_path(path, "%s/summary.json", folder));
    SEFL_TRY(read_file(&(reader){ out, NULL }, path));
    paper_run_name(name, run);
    record_put_text(out, "name", name);
    record_put_text(out, "scale", paper_scale(o));
    record_put_text(out, "body", paper_body_names[run->body]);
    record_put_text(out, "protection", run->protection);
    record_put_text(out, "z", run->z);
    record_put_text(out, "variant", run->variant ? run->variant->name : "");
    record_put_text(out, "version", o->version ? o->version : "");
    record_put_text(out, "commit", o->commit ? o->commit : "");
    record_put(out, "block", (double)settings_u64(s, "model.block")); /* --set may change it */
    record_put(out, "clients", (double)settings_u64(s, "clients"));
    record_put(out, "planned", run->rounds);
    record_put(out, "seed", (double)settings_u64(s, "seed"));
    record_put(out, "dropout", run->dropout);
    SEFL_TRY(write_settings(&set, s));
    SEFL_TRY(take_rounds(&valid, folder, &clients));
    SEFL_TRY(take_inputs(out, run, s, clients));
    SEFL_TRY(record_write(o, out, buf_span(&set), buf_span(&valid)));
done:
    buf_clear(&set);
    buf_clear(&valid);
    return st;
}
