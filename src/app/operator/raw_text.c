#include "operator/raw_text.h"

#include "base/json.h"
#include "base/outfile.h"
#include "base/utf8.h"
#include "model/corpus/records.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

typedef struct gather {
    const raw_text_settings *s;
    const sefl_progress *progress;
    outfile train, valid;
    sefl_buf document; /* being collected from plain text */
    sefl_buf held;     /* the latest document as a line of JSON; written when the next one comes */
    raw_text_report report;
} gather;

/* ---- documents ----------------------------------------------------------------------------- */

static sefl_status write_held(gather *g, bool hold_out)
{
    if (g->held.n == 0)
        return SEFL_OK;
    g->report.held_out += hold_out;
    SEFL_PASS(outfile_put(hold_out ? &g->valid : &g->train, g->held.p, g->held.n));
    buf_reset(&g->held);
    return SEFL_OK;
}

/* Takes a document; one without words is dropped. */
static sefl_status put_document(gather *g, sefl_span text)
{
    sefl_span rest = text, word;
    if (!utf8_word(&rest, &word))
        return SEFL_OK;
    uint64_t before = g->report.documents++;
    SEFL_PASS(write_held(g, before > 0 && before % RAW_TEXT_HELD_OUT == 0));
    json j = json_into(&g->held);
    json_open(&j, '{');
    json_key(&j, "text"), json_span(&j, text);
    json_close(&j, '}');
    SEFL_PASS(json_end(&j));
    return wr_u8(&g->held, '\n');
}

static sefl_status end_document(gather *g)
{
    size_t n = g->document.n;
    while (n > 0 && (g->document.p[n - 1] == '\n' || g->document.p[n - 1] == ' '))
        n--;
    SEFL_PASS(put_document(g, span_of(g->document.p, n)));
    buf_reset(&g->document);
    return SEFL_OK;
}

static sefl_status put_line(gather *g, sefl_span line)
{
    sefl_span rest = line, word;
    bool blank = !utf8_word(&rest, &word);
    if (g->document.n >= 8 * RAW_TEXT_PIECE || (g->document.n >= RAW_TEXT_PIECE && blank))
        SEFL_PASS(end_document(g));
    if (g->document.n == 0 && blank)
        return SEFL_OK;
    SEFL_PASS(wr_raw(&g->document, line.p, line.n));
    return wr_u8(&g->document, '\n');
}

/* ---- files --------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n > k && strcmp(name + n - k, end) == 0;
}

static sefl_status unpack(sefl_buf *out, const char *path)
{
    sefl_status st = SEFL_OK;
    uint8_t piece[64 << 10];
    int got = 0, error = Z_OK;
    gzFile f = gzopen(path, "rb");
    SEFL_NEED(f, SEFL_EIO, "cannot open %s: %s", path, strerror(errno));
    out->max = RAW_TEXT_UNPACKED;
    while ((got = gzread(f, piece, sizeof piece)) > 0) {
        SEFL_CHECK(out->n + (size_t)got <= RAW_TEXT_UNPACKED, SEFL_ERANGE,
                   "%s: unpacks to more than 1 GiB: unpack it with gunzip first", path);
        SEFL_TRY(wr_raw(out, piece, (size_t)got));
    }
    const char *why = gzerror(f, &error);
    SEFL_CHECK(got == 0 && (error == Z_OK || error == Z_STREAM_END), SEFL_EPROTO,
               "%s: cannot be unpacked: %s", path, error == Z_ERRNO ? strerror(errno) : why);
    SEFL_CHECK(!gzdirect(f), SEFL_EPROTO, "%s: is not a gzip file", path);
done:
    (void)gzclose(f);
    return st;
}

static sefl_status read_records(gather *g, record_reader *in)
{
    sefl_span text;
    bool more = true;
    for (;;) {
        SEFL_PASS(records_next(in, &text, &more));
        if (!more)
            break;
        SEFL_PASS(in->format == CORPUS_TEXT ? put_line(g, text) : put_document(g, text));
    }
    SEFL_PASS(end_document(g));
    g->report.files++;
    g->report.bytes += in->in.bytes;
    SEFL_NEED(g->report.bytes <= RAW_TEXT_MAX, SEFL_ERANGE,
              "%s: the text has more than 8 GiB so far: choose a part of it", in->in.path);
    SEFL_NEED(progress_report(g->progress, g->report.bytes, 0), SEFL_ECANCELLED, "stopped");
    return SEFL_OK;
}

static sefl_status read_file(gather *g, const char *path)
{
    sefl_status st = SEFL_OK;
    record_reader in = { 0 };
    sefl_buf bytes = { 0 };
    char name[PATH_MAX]; /* without .gz: its extension names the format */
    SEFL_TRY(file_path(name, "%s", path));
    if (ends_with(path, ".gz")) {
        name[strlen(name) - 3] = '\0';
        SEFL_TRY(unpack(&bytes, path));
    }
    const corpus_file f = { .path = name, .field = g->s->field };
    SEFL_TRY(ends_with(path, ".gz") ? records_over(&in, &f, buf_span(&bytes))
                                    : records_open(&in, &f));
    SEFL_TRY(read_records(g, &in));
done:
    records_close(&in);
    buf_clear(&bytes);
    return st;
}

/* True if the file begins like something that is not text. */
static bool is_binary(const char *path)
{
    uint8_t start[4096];
    int fd = -1;
    size_t got = 0;
    uint64_t size;
    bool binary = file_open(&fd, &size, path, false) != SEFL_OK ||
                  file_read_at(fd, path, 0, start, sizeof start, &got) != SEFL_OK ||
                  memchr(start, 0, got) != NULL;
    if (fd >= 0)
        close(fd);
    return binary;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool is_skipped(const gather *g, const struct stat *folder)
{
    struct stat skip;
    return g->s->skip && stat(g->s->skip, &skip) == 0 && skip.st_dev == folder->st_dev &&
           skip.st_ino == folder->st_ino;
}

static sefl_status read_entry(gather *g, FTS *tree, FTSENT *e)
{
    bool named = e->fts_level == FTS_ROOTLEVEL; /* the path that the caller gave */
    bool hidden = !named && e->fts_name[0] == '.';
    if (e->fts_info == FTS_DP)
        return SEFL_OK;
    if (e->fts_info == FTS_D) {
        if (hidden || is_skipped(g, e->fts_statp))
            (void)fts_set(tree, e, FTS_SKIP);
        return SEFL_OK;
    }
    SEFL_NEED(e->fts_info != FTS_DNR && e->fts_info != FTS_ERR && e->fts_info != FTS_NS, SEFL_EIO,
              "cannot read %s: %s", e->fts_path, strerror(e->fts_errno));
    bool gz = ends_with(e->fts_name, ".gz");
    if (!named && (hidden || e->fts_info != FTS_F || (!gz && is_binary(e->fts_path)))) {
        g->report.skipped++;
        return SEFL_OK;
    }
    return read_file(g, e->fts_path);
}

static sefl_status read_tree(gather *g, const char *from)
{
    sefl_status st = SEFL_OK;
    char root[PATH_MAX];
    SEFL_NEED(*from, SEFL_EINVAL, "an empty path names no text");
    SEFL_PASS(file_path(root, "%s", from));
    SEFL_NEED(access(root, R_OK) == 0, errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO,
              "cannot read %s: %s", root, strerror(errno));
    FTS *tree =
        fts_open((char *[]){ root, NULL }, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    SEFL_NEED(tree, SEFL_EIO, "cannot read %s: %s", root, strerror(errno));
    for (FTSENT *e; (e = fts_read(tree));)
        SEFL_TRY(read_entry(g, tree, e));
done:
    (void)fts_close(tree);
    return st;
}

sefl_status raw_text_gather(raw_text_report *out, const char *to, const char *from,
                            const raw_text_settings *s, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    gather g = { .s = s, .progress = progress };
    char path[PATH_MAX];
    SEFL_TRY(file_path(path, "%s/train.jsonl", to));
    SEFL_TRY(outfile_open(&g.train, path, 0600));
    SEFL_TRY(file_path(path, "%s/valid.jsonl", to));
    SEFL_TRY(outfile_open(&g.valid, path, 0600));
    SEFL_TRY(read_tree(&g, from));
    SEFL_CHECK(g.report.documents >= 2, SEFL_EPROTO,
               "%s: %s (files read: %" PRIu64 ", skipped: %" PRIu64
               "); a document is a JSONL or CSV record, or about %d bytes of plain text",
               from, g.report.documents ? "has only one document" : "has no text", g.report.files,
               g.report.skipped, RAW_TEXT_PIECE);
    SEFL_TRY(write_held(&g, g.report.documents % RAW_TEXT_HELD_OUT == 0 || !g.report.held_out));
    SEFL_TRY(outfile_publish(&g.train));
    SEFL_TRY(outfile_publish(&g.valid));
    *out = g.report;
done:
    outfile_abort(&g.train);
    outfile_abort(&g.valid);
    buf_clear(&g.document);
    buf_clear(&g.held);
    return st;
}
