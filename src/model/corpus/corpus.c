#include "model/corpus/corpus.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/outfile.h"
#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- every line of a file, with the record it belongs to ----------------------------------- */

typedef struct walker {
    sefl_status (*on_line)(void *ctx, sefl_span line, bool first_of_record);
    void *ctx;
    const sefl_progress *progress;
} walker;

/* The lines of one record, as if it were a file; an empty record is one line. */
static sefl_status walk_record(const walker *w, sefl_span text)
{
    bool first = true;
    do {
        const uint8_t *end = text.n ? memchr(text.p, '\n', text.n) : NULL;
        size_t n = end ? (size_t)(end - text.p) : text.n;
        SEFL_PASS(w->on_line(w->ctx, span_of(text.p, n), first));
        first = false;
        n += end != NULL;
        text = span_of(text.p + n, text.n - n);
    } while (text.n > 0);
    return SEFL_OK;
}

static sefl_status walk(record_reader *r, const walker *w)
{
    uint64_t told = 0;
    for (;;) {
        sefl_span text;
        bool more;
        SEFL_PASS(records_next(r, &text, &more));
        if (!more)
            break;
        SEFL_PASS(walk_record(w, text));
        if (r->in.bytes - told >= 1 << 20) {
            told = r->in.bytes;
            SEFL_NEED(progress_report(w->progress, told, r->in.size), SEFL_ECANCELLED,
                      "stopped while reading %s", r->in.path);
        }
    }
    progress_report(w->progress, r->in.bytes, r->in.bytes);
    return SEFL_OK;
}

/* ---- counting ------------------------------------------------------------------------------ */

typedef struct counter {
    vocab *v;
    uint64_t words;
} counter;

static sefl_status count_line(void *ctx, sefl_span line, bool first)
{
    counter *c = ctx;
    sefl_span word;
    (void)first;
    while (utf8_word(&line, &word)) {
        SEFL_PASS(vocab_count(c->v, word));
        c->words++;
    }
    return vocab_count(c->v, span_of_str("<eos>"));
}

sefl_status corpus_count(vocab *v, const corpus_file *f, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    record_reader r;
    counter c = { .v = v };
    SEFL_TRY(records_open(&r, f));
    SEFL_TRY(walk(&r, &(walker){ count_line, &c, progress }));
    SEFL_CHECK(c.words > 0, SEFL_EPROTO, "%s: holds no words", f->path);
done:
    records_close(&r);
    return st;
}

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct reader {
    const vocab *v;
    corpus c;
    size_t token_cap, line_cap, doc_cap;
    bool text;         /* documents begin at headings */
    bool title, blank; /* the latest line: a heading if an empty line follows; empty */
} reader;

static sefl_status put_token(reader *r, uint32_t id)
{
    SEFL_PASS(sefl_room(&r->c.token, &r->token_cap, r->c.tokens + 1, sizeof *r->c.token));
    r->c.token[r->c.tokens++] = id;
    return SEFL_OK;
}

static bool is_blank(const corpus *c, size_t k)
{
    return c->line[k + 1] - c->line[k] == 1;
}

static sefl_status put_document(reader *r, size_t line)
{
    SEFL_PASS(sefl_room(&r->c.doc, &r->doc_cap, r->c.docs + 2, sizeof *r->c.doc));
    r->c.doc[r->c.docs++] = line;
    return SEFL_OK;
}

/* The latest line was a heading; the first one takes in the lines before it. */
static sefl_status put_heading(reader *r)
{
    size_t k = r->c.lines - 1;
    r->title = false;
    return put_document(r, r->c.docs == 0 ? 0 : k - (k > 0 && is_blank(&r->c, k - 1)));
}

/* Headings are known by the words as written: whether the vocabulary has "=" makes no
 * difference. */
static sefl_status read_line(void *ctx, sefl_span line, bool first)
{
    reader *r = ctx;
    sefl_span word;
    bool edge[4] = { 0 }; /* is "=": the first word, the second, the last but one, the last */
    size_t n = 0;
    if (first && !r->text)
        SEFL_PASS(put_document(r, r->c.lines));
    SEFL_PASS(sefl_room(&r->c.line, &r->line_cap, r->c.lines + 2, sizeof *r->c.line));
    r->c.line[r->c.lines] = r->c.tokens;
    while (utf8_word(&line, &word)) {
        uint32_t id = vocab_unk(r->v);
        bool equals = word.n == 1 && word.p[0] == '=';
        r->c.unknown += !vocab_find(r->v, word, &id);
        SEFL_PASS(put_token(r, id));
        if (n < 2)
            edge[n] = equals;
        edge[2] = edge[3], edge[3] = equals;
        n++;
    }
    SEFL_PASS(put_token(r, vocab_eos(r->v)));
    if (r->title && n == 0)
        SEFL_PASS(put_heading(r));
    r->title = r->text && (r->c.lines == 0 || r->blank) && n >= 3 && edge[0] && !edge[1] &&
               !edge[2] && edge[3];
    r->blank = n == 0;
    r->c.lines++;
    return SEFL_OK;
}

/* The text has ended, line[] is complete: a heading may be its last line, or there is none. */
static sefl_status end_documents(reader *r)
{
    if (r->title)
        SEFL_PASS(put_heading(r));
    r->c.marked = r->c.docs > 0;
    for (size_t k = 0; !r->c.marked && k < r->c.lines; k++)
        SEFL_PASS(put_document(r, k));
    return SEFL_OK;
}

static sefl_status read_records(corpus *out, const vocab *v, record_reader *in,
                                const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    reader r = { .v = v, .text = in->format == CORPUS_TEXT };
    SEFL_TRY(walk(in, &(walker){ read_line, &r, progress }));
    SEFL_CHECK(r.c.tokens > r.c.lines, SEFL_EPROTO, "%s: holds no words", in->in.path);
    r.c.line[r.c.lines] = r.c.tokens;
    r.c.marked = true;
    if (r.text)
        SEFL_TRY(end_documents(&r));
    r.c.doc[r.c.docs] = r.c.lines;
    *out = r.c;
    r.c = (corpus){ 0 };
done:
    corpus_clear(&r.c);
    return st;
}

sefl_status corpus_read(corpus *out, const vocab *v, const corpus_file *f,
                        const sefl_progress *progress)
{
    record_reader in;
    sefl_status st = records_open(&in, f);
    if (st == SEFL_OK)
        st = read_records(out, v, &in, progress);
    records_close(&in);
    return st;
}

sefl_status corpus_read_over(corpus *out, const vocab *v, const corpus_file *f, sefl_span bytes)
{
    record_reader in;
    sefl_status st = records_over(&in, f, bytes);
    if (st == SEFL_OK)
        st = read_records(out, v, &in, NULL);
    records_close(&in);
    return st;
}

void corpus_clear(corpus *c)
{
    sefl_free(c->token);
    sefl_free(c->line);
    sefl_free(c->doc);
    *c = (corpus){ 0 };
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Line k as words with single spaces; the <eos> is the line's end. */
static sefl_status line_text(sefl_buf *b, const corpus *c, const vocab *v, size_t k)
{
    for (size_t i = c->line[k]; i + 1 < c->line[k + 1]; i++) {
        sefl_span w = vocab_word(v, c->token[i]);
        if (i > c->line[k])
            SEFL_PASS(wr_u8(b, ' '));
        SEFL_PASS(wr_raw(b, w.p, w.n));
    }
    return SEFL_OK;
}

sefl_status corpus_write(const corpus *c, const vocab *v, const corpus_file *to)
{
    sefl_status st = SEFL_OK;
    outfile o = { 0 };
    sefl_buf text = { 0 }, object = { 0 };
    bool jsonl = corpus_format_of(to) == CORPUS_JSONL;
    SEFL_CHECK(corpus_format_of(to) != CORPUS_CSV, SEFL_EUNSUPPORTED, "%s: CSV is not written",
               to->path);
    SEFL_TRY(outfile_open(&o, to->path, 0644));
    for (size_t d = 0; d < c->docs; d++) {
        buf_reset(&text);
        for (size_t k = c->doc[d]; k < c->doc[d + 1]; k++) {
            SEFL_TRY(line_text(&text, c, v, k));
            /* inside a string: between lines, and after the last if it is empty among others */
            bool last = k + 1 == c->doc[d + 1];
            if (!jsonl || !last || (is_blank(c, k) && k > c->doc[d]))
                SEFL_TRY(wr_u8(&text, '\n'));
        }
        if (jsonl) {
            buf_reset(&object);
            json j = json_into(&object);
            json_open(&j, '{');
            json_key(&j, to->field ? to->field : "text");
            json_span(&j, text.n ? buf_span(&text) : span_of("", 0));
            json_close(&j, '}');
            SEFL_TRY(json_end(&j));
            SEFL_TRY(wr_u8(&object, '\n'));
        }
        sefl_buf *from = jsonl ? &object : &text;
        SEFL_TRY(outfile_put(&o, from->p, from->n));
    }
    SEFL_TRY(outfile_publish(&o));
done:
    outfile_abort(&o);
    buf_clear(&text);
    buf_clear(&object);
    return st;
}

/* ---- data sets ----------------------------------------------------------------------------- */

const char *const corpus_split_names[CORPUS_SPLITS] = { "train", "valid", "test" };

static sefl_status find_split(char **out, const char *dir, const char *split)
{
    static const char *const starts[] = { "", "wiki." };
    static const char *const ends[] = { ".txt", ".tokens", ".jsonl", ".ndjson", ".csv" };
    sefl_status st = SEFL_OK;
    size_t n = strlen(dir) + 64;
    char *path = NULL;
    struct stat sb;
    SEFL_TRY(sefl_new(&path, n, 1));
    for (size_t s = 0; s < 2; s++)
        for (size_t e = 0; e < 5; e++) {
            snprintf(path, n, "%s/%s%s%s", dir, starts[s], split, ends[e]);
            if (stat(path, &sb) != 0)
                continue;
            SEFL_CHECK(!*out, SEFL_EINVAL, "%s and %s are both there: which one is it?", *out,
                       path);
            SEFL_TRY(sefl_strdup(out, path));
        }
done:
    sefl_free(path);
    return st;
}

sefl_status corpus_paths_find(corpus_paths *out, const char *where)
{
    sefl_status st = SEFL_OK;
    corpus_paths p = { 0 };
    struct stat sb;
    if (stat(where, &sb) != 0)
        return sefl_fail(errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO, "cannot open %s: %s", where,
                         strerror(errno));
    if (S_ISDIR(sb.st_mode)) {
        for (int i = 0; i < CORPUS_SPLITS; i++)
            SEFL_TRY(find_split(&p.path[i], where, corpus_split_names[i]));
        SEFL_CHECK(p.path[CORPUS_TRAIN], SEFL_ENOTFOUND,
                   "%s: no training text (train.txt, train.jsonl, train.csv or wiki.train.tokens)",
                   where);
    } else {
        SEFL_TRY(sefl_strdup(&p.path[CORPUS_TRAIN], where));
    }
    *out = p;
    p = (corpus_paths){ 0 };
done:
    corpus_paths_clear(&p);
    return st;
}

void corpus_paths_clear(corpus_paths *p)
{
    for (int i = 0; i < CORPUS_SPLITS; i++)
        sefl_free(p->path[i]);
    *p = (corpus_paths){ 0 };
}

/* ---- statistics ---------------------------------------------------------------------------- */

sefl_status corpus_stats_of(corpus_stats *out, const corpus *c, const vocab *v)
{
    sefl_status st = SEFL_OK;
    uint64_t *seen = NULL;
    corpus_stats s = { .tokens = c->tokens, .lines = c->lines, .docs = c->docs };
    SEFL_TRY(sefl_new(&seen, vocab_size(v), sizeof *seen));
    for (size_t i = 0; i < c->tokens; i++)
        seen[c->token[i]]++;
    for (uint32_t i = 0; i < vocab_size(v); i++) {
        double p = c->tokens ? (double)seen[i] / (double)c->tokens : 0;
        s.types += seen[i] > 0;
        s.unigram_bits -= seen[i] ? p * log2(p) : 0;
    }
    for (size_t k = 0; k < c->lines; k++) {
        size_t n = c->line[k + 1] - c->line[k];
        s.longest_line = n > s.longest_line ? n : s.longest_line;
    }
    for (size_t d = 0; d < c->docs; d++) {
        size_t n = c->line[c->doc[d + 1]] - c->line[c->doc[d]];
        s.longest_doc = n > s.longest_doc ? n : s.longest_doc;
    }
    s.words = c->tokens - seen[vocab_eos(v)];
    s.unk = seen[vocab_unk(v)];
    s.unknown = c->unknown;
    *out = s;
done:
    sefl_free(seen);
    return st;
}
