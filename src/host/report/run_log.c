#include "report/run_log.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAIL = 8192 }; /* maximum length of a line */
#define WHOLE_MAX 9007199254740992.0

static const struct number {
    enum { COUNT, REAL, LAST } kind;
    const char *key;
    size_t offset;
} numbers[] = {
#define ENTRY(kind, name, key) { kind, key, offsetof(run_line, name) },
    RUN_NUMBERS(ENTRY)
#undef ENTRY
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static double *at(run_line *l, size_t i)
{
    return (void *)((char *)l + numbers[i].offset);
}

static double value(const run_line *l, size_t i)
{
    return run_number_at(l, numbers[i].offset);
}

/* ---- facts ----------------------------------------------------------------------------------- */

static const struct fact {
    const char *key;
    size_t offset, most; /* most 0: a number */
} fact_table[] = {
#define TEXT(name, most) { #name, offsetof(run_facts, name), most },
#define NUMBER(name)     { #name, offsetof(run_facts, name), 0 },
    RUN_TEXTS(TEXT) RUN_FACT_NUMBERS(NUMBER)
#undef TEXT
#undef NUMBER
};
enum { FACTS = sizeof fact_table / sizeof *fact_table };

static void *fact_at(run_facts *f, size_t i)
{
    return (char *)f + fact_table[i].offset;
}

run_facts run_facts_none(void)
{
    run_facts f = { 0 };
#define UNKNOWN(name) f.name = NAN;
    RUN_FACT_NUMBERS(UNKNOWN)
#undef UNKNOWN
    return f;
}

static void write_number(json *j, double v)
{
    if (v >= 0 && v <= WHOLE_MAX && v == floor(v))
        json_u64(j, (uint64_t)v);
    else
        json_real(j, v);
}

static void write_facts(json *j, const run_facts *f)
{
    json_open(j, '{');
    if (f->simulated)
        json_key(j, "simulated"), json_bool(j, true);
    for (size_t i = 0; i < FACTS; i++) {
        const char *text = (const char *)f + fact_table[i].offset;
        double v = fact_table[i].most ? NAN : run_number_at(f, fact_table[i].offset);
        if (fact_table[i].most && *text)
            json_key(j, fact_table[i].key), json_str(j, text);
        else if (!isnan(v))
            json_key(j, fact_table[i].key), write_number(j, v);
    }
    json_close(j, '}');
}

sefl_status run_facts_write(sefl_buf *out, const run_facts *f)
{
    json j = json_into(out);
    write_facts(&j, f);
    return json_end(&j);
}

static sefl_status read_fact(jread *j, run_facts *f, const sefl_buf *key)
{
    sefl_status st = SEFL_OK;
    size_t i = 0;
    double v;
    if (jread_is(key, "simulated"))
        return jread_bool(j, &f->simulated);
    while (i < FACTS && !jread_is(key, fact_table[i].key))
        i++;
    if (i == FACTS || jread_peek(j) == 'n')
        return jread_skip(j);
    if (fact_table[i].most == 0) {
        SEFL_PASS(jread_real(j, &v));
        SEFL_NEED(v >= 0, SEFL_EPROTO, "\"%s\" is negative", fact_table[i].key);
        memcpy(fact_at(f, i), &v, sizeof v);
        return SEFL_OK;
    }
    sefl_buf b = { 0 };
    SEFL_TRY(jread_str(j, &b));
    SEFL_CHECK(b.n <= fact_table[i].most, SEFL_EPROTO, "\"%s\" has more than %zu bytes",
               fact_table[i].key, fact_table[i].most);
    memset(fact_at(f, i), 0, fact_table[i].most + 1);
    if (b.n > 0)
        memcpy(fact_at(f, i), b.p, b.n);
done:
    buf_clear(&b);
    return st;
}

static sefl_status read_facts(jread *j, run_facts *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf key = { 0 };
    run_facts f = run_facts_none();
    bool more;
    f.known = true;
    SEFL_TRY(jread_open(j, '{'));
    for (;;) {
        SEFL_TRY(jread_key(j, &key, &more));
        if (!more)
            break;
        SEFL_TRY(read_fact(j, &f, &key));
    }
    *out = f;
done:
    buf_clear(&key);
    return st;
}

/* ---- one line ------------------------------------------------------------------------------ */

run_line run_line_of(uint64_t round)
{
    run_line l = { .round = round };
    for (size_t i = 0; i < NUMBERS; i++)
        *at(&l, i) = NAN;
    return l;
}

sefl_status run_line_write(sefl_buf *out, const run_line *l, const run_facts *facts)
{
    json j = json_into(out);
    json_open(&j, '{');
    json_key(&j, "round"), json_u64(&j, l->round);
    json_key(&j, "skipped"), json_bool(&j, l->skipped);
    if (l->blocked)
        json_key(&j, "blocked"), json_bool(&j, true);
    if (l->dropped_by_operator)
        json_key(&j, "dropped_by_operator"), json_bool(&j, true);
    for (size_t i = 0; i < NUMBERS; i++) {
        double v = value(l, i);
        if (isnan(v))
            continue;
        json_key(&j, numbers[i].key);
        write_number(&j, v);
    }
    if (facts)
        json_key(&j, "run"), write_facts(&j, facts);
    json_close(&j, '}');
    return json_end(&j);
}

static sefl_status read_whole(jread *j, const char *key, double least, double *v)
{
    SEFL_PASS(jread_real(j, v));
    SEFL_NEED(*v >= least && *v <= WHOLE_MAX && *v == floor(*v), SEFL_EPROTO,
              "\"%s\" is not a whole number of at least %.0f", key, least);
    return SEFL_OK;
}

struct reading {
    run_line *line;
    run_facts *facts;
};

/* The file has null for a number that is not finite. */
static sefl_status read_member(void *ctx, jread *j, const sefl_buf *key)
{
    run_line *r = ((struct reading *)ctx)->line;
    double v;
    if (jread_is(key, "run") && jread_peek(j) == '{')
        return read_facts(j, ((struct reading *)ctx)->facts);
    if (jread_is(key, "skipped"))
        return jread_bool(j, &r->skipped);
    if (jread_is(key, "blocked"))
        return jread_bool(j, &r->blocked);
    if (jread_is(key, "dropped_by_operator"))
        return jread_bool(j, &r->dropped_by_operator);
    if (jread_is(key, "round")) {
        SEFL_PASS(read_whole(j, "round", 1, &v));
        r->round = (uint64_t)v;
        return SEFL_OK;
    }
    size_t i = 0;
    while (i < NUMBERS && !jread_is(key, numbers[i].key))
        i++;
    if (i == NUMBERS || jread_peek(j) == 'n')
        return jread_skip(j);
    if (numbers[i].kind == COUNT)
        return read_whole(j, numbers[i].key, 0, at(r, i));
    SEFL_PASS(jread_real(j, at(r, i)));
    SEFL_NEED(value(r, i) >= 0, SEFL_EPROTO, "\"%s\" is negative", numbers[i].key);
    return SEFL_OK;
}

sefl_status run_line_read(run_line *out, run_facts *facts, sefl_span line)
{
    jread j = jread_over(line);
    run_line r = run_line_of(0);
    run_facts f = *facts;
    SEFL_NEED(jread_peek(&j) == '{', SEFL_EPROTO,
              "not a line of metrics.jsonl, which has one JSON object per round: pass a run "
              "folder or that file");
    SEFL_PASS(jread_document(line, read_member, &(struct reading){ &r, &f }));
    SEFL_NEED(r.round > 0, SEFL_EPROTO, "\"round\" is missing");
    *out = r, *facts = f;
    return SEFL_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* What an append finds at the end of the file. */
struct tail {
    uint64_t end; /* of the last complete line */
    bool there;   /* that line is the one to append */
    bool first;   /* the line to append is the first one of its task */
};

static sefl_status look_back(struct tail *out, int fd, const char *path, uint64_t round,
                             const run_facts *facts)
{
    sefl_status st = SEFL_OK;
    sefl_buf line = { 0 };
    run_line last = run_line_of(0);
    run_facts f = run_facts_none();
    *out = (struct tail){ 0 };
    SEFL_TRY(file_size(&out->end, fd, path));
    SEFL_TRY(file_last_line(&line, &out->end, fd, path, TAIL));
    out->first = line.n == 0;
    if (out->first || run_line_read(&last, &f, buf_span(&line)) != SEFL_OK)
        goto done;
    bool other = facts && *f.task && strcmp(f.task, facts->task) != 0;
    out->there = last.round == round && !other;
    out->first = last.round >= round && !out->there;
done:
    buf_clear(&line);
    return st;
}

sefl_status run_log_append(uint64_t *bytes, const char *path, const run_line *l,
                           const run_facts *facts)
{
    sefl_status st = SEFL_OK;
    sefl_buf line = { .max = TAIL / 2 };
    struct tail t;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "cannot open %s: %s", path, strerror(errno));
    SEFL_TRY(look_back(&t, fd, path, l->round, facts));
    SEFL_TRY(run_line_write(&line, l, t.first ? facts : NULL));
    SEFL_TRY(wr_u8(&line, '\n'));
    SEFL_TRY(file_cut(fd, path, t.end));
    if (!t.there)
        SEFL_TRY(file_write_at(fd, path, t.end, buf_span(&line)));
    SEFL_TRY(file_sync(fd, path));
    *bytes = t.end + (t.there ? 0 : line.n);
done:
    if (fd >= 0)
        close(fd);
    buf_clear(&line);
    return st;
}

/* ---- all of them --------------------------------------------------------------------------- */

sefl_status run_log_read_over(run_log *out, sefl_span bytes, const char *name)
{
    sefl_status st = SEFL_OK;
    run_log l = { .facts = run_facts_none() };
    size_t lines = 0;
    const char *p = (const char *)bytes.p, *end = p + bytes.n;
    *out = (run_log){ 0 };
    for (size_t i = 0; i < bytes.n; i++)
        lines += bytes.p[i] == '\n';
    if (lines > 0)
        SEFL_TRY(sefl_new(&l.at, lines, sizeof *l.at));
    for (size_t i = 0; i < lines; i++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        run_facts f = run_facts_none();
        run_line r = run_line_of(0);
        SEFL_TRY(
            sefl_at(run_line_read(&r, &f, span_of(p, (size_t)(stop - p))), "%s:%zu", name, i + 1));
        bool lower = l.n > 0 && r.round <= l.at[l.n - 1].round;
        if (lower && f.known)
            l.n = 0, lower = false; /* another task */
        SEFL_CHECK(!lower, SEFL_EPROTO, "%s:%zu: round %llu after round %llu", name, i + 1,
                   (unsigned long long)r.round, (unsigned long long)l.at[l.n - 1].round);
        if (f.known)
            l.facts = f;
        l.at[l.n++] = r;
        p = stop + 1;
    }
    *out = l, l = (run_log){ 0 };
done:
    run_log_clear(&l);
    return st;
}

sefl_status run_log_read(run_log *out, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    *out = (run_log){ 0 };
    SEFL_TRY(file_read(&b, path, RUN_LOG_BYTES_MAX));
    SEFL_TRY(run_log_read_over(out, buf_span(&b), path));
done:
    buf_clear(&b);
    return st;
}

void run_log_clear(run_log *l)
{
    sefl_free(l->at);
    *l = (run_log){ 0 };
}

double run_lost(const run_log *l, size_t i)
{
    const run_line *r = &l->at[i];
    if (!isnan(r->dropped) || !isnan(r->late))
        return (isnan(r->dropped) ? 0 : r->dropped) + (isnan(r->late) ? 0 : r->late);
    double lost = l->facts.expected - r->clients;
    return lost < 0 ? 0 : lost;
}

/* ---- totals -------------------------------------------------------------------------------- */

run_totals run_totals_none(void)
{
    return (run_totals){ .all = run_line_of(0),
                         .best = NAN,
                         .collect = NAN,
                         .clients_least = NAN,
                         .clients_most = NAN };
}

static void run_log_add(double *sum, double v)
{
    if (!isnan(v))
        *sum = isnan(*sum) ? v : *sum + v;
}

void run_totals_add(run_totals *t, const run_line *l)
{
    run_line own = *l;
    t->rounds++;
    t->skipped += l->skipped, t->blocked += l->blocked;
    t->released += !l->skipped && !l->blocked;
    if (l->skipped)
        own.clients = own.diverged = NAN;
    for (size_t i = 0; i < NUMBERS; i++)
        if (numbers[i].kind != LAST)
            run_log_add(at(&t->all, i), value(&own, i));
        else if (!isnan(value(&own, i)))
            *at(&t->all, i) = value(&own, i);
    run_log_add(&t->collect, l->seconds - l->open_seconds - l->release_seconds);
    t->clients_least = fmin(t->clients_least, own.clients); /* fmin and fmax ignore NAN */
    t->clients_most = fmax(t->clients_most, own.clients);
    if (!isnan(l->perplexity) && !(l->perplexity >= t->best))
        t->best = l->perplexity, t->best_round = l->round;
}

run_totals run_log_totals(const run_log *l)
{
    run_totals t = run_totals_none();
    for (size_t i = 0; i < l->n; i++)
        run_totals_add(&t, &l->at[i]);
    return t;
}

double run_number(sefl_span bytes, const char *key)
{
    jread j = jread_over(bytes);
    sefl_buf name = { 0 };
    double v = NAN;
    bool more;
    sefl_status st = jread_open(&j, '{');
    while (st == SEFL_OK && (st = jread_key(&j, &name, &more)) == SEFL_OK && more) {
        if (jread_is(&name, key)) {
            if (jread_peek(&j) != '0' || jread_real(&j, &v) != SEFL_OK)
                v = NAN;
            break;
        }
        st = jread_skip(&j);
    }
    buf_clear(&name);
    return v;
}
