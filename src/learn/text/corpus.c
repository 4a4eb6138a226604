#include "model/corpus/corpus.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/outfile.h"
#include "base/utf8.h"
#include "model/corpus/bpe.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* ---- every line of a file, with the record it belongs to ----------------------------------- */

typedef struct walker {
    record_reader in;
    const sefl_progress *progress;
    uint64_t told; /* bytes, at the latest report */
    sefl_span text;
    bool inside; /* a record: text is what is left of it */
} walker;

/* The next line; a record's lines are read as if it were a file, an empty record is one line.
 * *first: the line begins a record. */
static sefl_status next_line(walker *w, sefl_span *line, bool *first, bool *more)
{
    *more = true;
    *first = !w->inside;
    if (*first) {
        SEFL_PASS(records_next(&w->in, &w->text, more));
        if (!*more) {
            progress_report(w->progress, w->in.in.bytes, w->in.in.bytes);
            return SEFL_OK;
        }
    }
    const uint8_t *end = w->text.n ? memchr(w->text.p, '\n', w->text.n) : NULL;
    size_t n = end ? (size_t)(end - w->text.p) : w->text.n, taken = n + (end != NULL);
    *line = span_of(w->text.p, n);
    w->text = span_of(w->text.p + taken, w->text.n - taken);
    w->inside = w->text.n > 0;
    if (!w->inside && w->in.in.bytes - w->told >= 1 << 20) {
        w->told = w->in.in.bytes;
        SEFL_NEED(progress_report(w->progress, w->told, w->in.in.size), SEFL_ECANCELLED,
                  "stopped while reading %s", w->in.in.path);
    }
    return SEFL_OK;
}

/* ---- counting ------------------------------------------------------------------------------ */

/* Counts the words; the line then ends with its last word. */
static size_t trim(sefl_span *line)
{
    sefl_span rest = *line, word;
    size_t n = 0, end = 0;
    for (; utf8_word(&rest, &word); n++)
        end = (size_t)(word.p + word.n - line->p);
    *line = span_of(line->p, end);
    return n;
}

sefl_status corpus_count_line(vocab *v, sefl_span line, uint64_t *words)
{
    sefl_span word;
    if (vocab_kind_of(v) == VOCAB_BPE)
        for (*words += trim(&line); bpe_piece(&line, &word);)
            SEFL_PASS(vocab_count(v, word));
    else
        for (; utf8_word(&line, &word); ++*words)
            SEFL_PASS(vocab_count(v, word));
    return vocab_count(v, span_of_str("<eos>"));
}

sefl_status corpus_count(vocab *v, const corpus_file *f, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    walker w = { .progress = progress };
    uint64_t words = 0;
    sefl_span line;
    bool first, more = true;
    SEFL_TRY(records_open(&w.in, f));
    for (;;) {
        SEFL_TRY(next_line(&w, &line, &first, &more));
        if (!more)
            break;
        SEFL_TRY(corpus_count_line(v, line, &words));
    }
    SEFL_CHECK(words > 0, SEFL_EPROTO, "%s: has no words", f->path);
done:
    records_close(&w.in);
    return st;
}

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct reader {
    const vocab *v;
    bpe_encoder *bpe; /* NULL: words */
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

/* Encodes a line whose last word ends it. */
static sefl_status put_line(reader *r, sefl_span line)
{
    const uint32_t *ids;
    size_t n;
    SEFL_PASS(bpe_encode(r->bpe, line, &ids, &n));
    SEFL_PASS(sefl_room(&r->c.token, &r->token_cap, r->c.tokens + n, sizeof *r->c.token));
    if (n > 0)
        memcpy(r->c.token + r->c.tokens, ids, n * sizeof *ids);
    r->c.tokens += n;
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

/* The latest line was a heading; the first heading also gets the lines before it. */
static sefl_status put_heading(reader *r)
{
    size_t k = r->c.lines - 1;
    r->title = false;
    return put_document(r, r->c.docs == 0 ? 0 : k - (k > 0 && is_blank(&r->c, k - 1)));
}

/* Recognises headings by the words as written, even if the vocabulary lacks "=". */
static sefl_status read_line(reader *r, sefl_span line, bool first)
{
    sefl_span word, rest = line;
    const uint8_t *end = line.p; /* of the last word */
    bool edge[4] = { 0 }; /* is "=": the first word, the second, the last but one, the last */
    size_t n = 0;
    if (first && !r->text)
        SEFL_PASS(put_document(r, r->c.lines));
    SEFL_PASS(sefl_room(&r->c.line, &r->line_cap, r->c.lines + 2, sizeof *r->c.line));
    r->c.line[r->c.lines] = r->c.tokens;
    while (utf8_word(&rest, &word)) {
        uint32_t id = vocab_unk(r->v);
        bool equals = word.n == 1 && word.p[0] == '=';
        if (!r->bpe) {
            r->c.unknown += !vocab_find(r->v, word, &id);
            SEFL_PASS(put_token(r, id));
        }
        end = word.p + word.n;
        if (n < 2)
            edge[n] = equals;
        edge[2] = edge[3], edge[3] = equals;
        n++;
    }
    if (r->bpe)
        SEFL_PASS(put_line(r, span_of(line.p, (size_t)(end - line.p))));
    SEFL_PASS(put_token(r, vocab_eos(r->v)));
    r->c.words += n + 1;
    if (r->title && n == 0)
        SEFL_PASS(put_heading(r));
    r->title = r->text && (r->c.lines == 0 || r->blank) && n >= 3 && edge[0] && !edge[1] &&
               !edge[2] && edge[3];
    r->blank = n == 0;
    r->c.lines++;
    return SEFL_OK;
}

/* At the end of the text: the last line may be a heading, or there may be none. */
static sefl_status end_documents(reader *r)
{
    if (r->title)
        SEFL_PASS(put_heading(r));
    r->c.marked = r->c.docs > 0;
    for (size_t k = 0; !r->c.marked && k < r->c.lines; k++)
        SEFL_PASS(put_document(r, k));
    return SEFL_OK;
}

static sefl_status read_records(corpus *out, const vocab *v, walker *w)
{
    sefl_status st = SEFL_OK;
    reader r = { .v = v, .text = w->in.format == CORPUS_TEXT };
    sefl_span line = { 0 };
    bool first, more = true;
    if (vocab_kind_of(v) == VOCAB_BPE)
        SEFL_TRY(bpe_encoder_new(&r.bpe, v));
    for (;;) {
        SEFL_TRY(next_line(w, &line, &first, &more));
        if (!more)
            break;
        SEFL_TRY(read_line(&r, line, first));
    }
    SEFL_CHECK(r.c.tokens > r.c.lines, SEFL_EPROTO, "%s: has no words", w->in.in.path);
    r.c.line[r.c.lines] = r.c.tokens;
    r.c.marked = true;
    if (r.text)
        SEFL_TRY(end_documents(&r));
    r.c.doc[r.c.docs] = r.c.lines;
    *out = r.c;
    r.c = (corpus){ 0 };
done:
    bpe_encoder_free(r.bpe);
    corpus_clear(&r.c);
    records_close(&w->in);
    return st;
}

sefl_status corpus_read(corpus *out, const vocab *v, const corpus_file *f,
                        const sefl_progress *progress)
{
    walker w = { .progress = progress };
    SEFL_PASS(records_open(&w.in, f));
    return read_records(out, v, &w);
}

sefl_status corpus_read_over(corpus *out, const vocab *v, const corpus_file *f, sefl_span bytes)
{
    walker w = { 0 };
    SEFL_PASS(records_over(&w.in, f, bytes));
    return read_records(out, v, &w);
}

void corpus_clear(corpus *c)
{
    sefl_free(c->token);
    sefl_free(c->line);
    sefl_free(c->doc);
    *c = (corpus){ 0 };
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Line k as words with single spaces, or the bytes of its tokens; <eos> is the line's end. */
static sefl_status line_text(sefl_buf *b, const corpus *c, const vocab *v, size_t k)
{
    if (vocab_kind_of(v) == VOCAB_BPE)
        return bpe_decode(b, v, c->token + c->line[k], c->line[k + 1] - c->line[k] - 1);
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
    SEFL_CHECK(corpus_format_of(to) != CORPUS_CSV, SEFL_EUNSUPPORTED,
               "%s: cannot write CSV; use text or JSONL", to->path);
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
    char path[PATH_MAX];
    struct stat sb;
    for (size_t s = 0; s < 2; s++)
        for (size_t e = 0; e < 5; e++) {
            SEFL_PASS(file_path(path, "%s/%s%s%s", dir, starts[s], split, ends[e]));
            if (stat(path, &sb) != 0)
                continue;
            SEFL_NEED(!*out, SEFL_EINVAL, "%s and %s both exist: remove one, or name the file",
                      *out, path);
            SEFL_PASS(sefl_strdup(out, path));
        }
    return SEFL_OK;
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

double corpus_word_perplexity(const corpus *c, double mean)
{
    return exp(mean * ((double)c->tokens / (double)c->words));
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
    s.words = c->words - c->lines;
    s.unk = vocab_unk(v) == VOCAB_NO_UNK ? 0 : seen[vocab_unk(v)];
    s.unknown = c->unknown;
    *out = s;
done:
    sefl_free(seen);
    return st;
}
