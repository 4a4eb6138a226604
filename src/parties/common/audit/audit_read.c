#include "roles/audit/audit_read.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/json_read.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 256 << 10, HEX_HASH = 2 * SHA256_BYTES };

static const char before_hash[] = ",\"hash\":\"", after_hash[] = "\"}";

/* ---- one line -------------------------------------------------------------------------------- */

void audit_entry_clear(audit_entry *e)
{
    buf_clear(&e->text);
    *e = (audit_entry){ 0 };
}

static sefl_status read_text(jread *j, audit_entry *e, audit_member *m)
{
    m->is_text = true;
    m->from = e->text.n;
    SEFL_PASS(jread_str(j, &e->text));
    m->length = e->text.n - m->from;
    return SEFL_OK;
}

static sefl_status read_hash(jread *j, const char *key, uint8_t out[SHA256_BYTES])
{
    sefl_buf b = { 0 };
    sefl_status st = jread_str(j, &b);
    char text[HEX_HASH + 1] = "";
    if (st == SEFL_OK && b.n == HEX_HASH)
        memcpy(text, b.p, HEX_HASH);
    if (st == SEFL_OK && !hex_read(out, SHA256_BYTES, text))
        st = sefl_fail(SEFL_EPROTO, "\"%s\" is not 64 hex digits", key);
    buf_clear(&b);
    return st;
}

static sefl_status read_kind(jread *j, audit_entry *e)
{
    sefl_buf b = { 0 };
    sefl_status st = jread_str(j, &b);
    if (st == SEFL_OK && (b.n == 0 || b.n > AUDIT_KIND_MAX))
        st = sefl_fail(SEFL_EPROTO, "\"kind\" has %zu bytes", b.n);
    if (st == SEFL_OK) {
        memset(e->kind, 0, sizeof e->kind);
        memcpy(e->kind, b.p, b.n);
    }
    buf_clear(&b);
    return st;
}

static sefl_status read_member(void *ctx, jread *j, const sefl_buf *key)
{
    audit_entry *e = ctx;
    bool yes = false;
    if (jread_is(key, "n"))
        return jread_u64(j, &e->n);
    if (jread_is(key, "time"))
        return jread_u64(j, &e->time);
    if (jread_is(key, "kind"))
        return read_kind(j, e);
    if (jread_is(key, "prev"))
        return read_hash(j, "prev", e->prev);
    if (jread_is(key, "hash"))
        return read_hash(j, "hash", e->hash);
    SEFL_NEED(e->members < AUDIT_MEMBERS_MAX, SEFL_EPROTO, "it has more than %d members",
              AUDIT_MEMBERS_MAX);
    SEFL_NEED(key->n > 0 && key->n <= AUDIT_KEY_MAX, SEFL_EPROTO, "a key has %zu bytes", key->n);
    audit_member *m = &e->member[e->members];
    *m = (audit_member){ 0 };
    memcpy(m->key, key->p, key->n);
    char what = jread_peek(j);
    if (what == '"') {
        SEFL_PASS(read_text(j, e, m));
    } else if (what == 't' || what == 'f') {
        SEFL_PASS(jread_bool(j, &yes));
        m->number = yes;
    } else {
        SEFL_PASS(jread_u64(j, &m->number));
    }
    e->members++;
    return SEFL_OK;
}

sefl_status audit_entry_read(audit_entry *out, sefl_span line)
{
    const size_t tail = sizeof before_hash - 1 + HEX_HASH + sizeof after_hash - 1;
    uint8_t is[SHA256_BYTES];
    sefl_buf text = out->text;
    buf_reset(&text);
    *out = (audit_entry){ .text = text };
    SEFL_NEED(line.n > tail && line.n < AUDIT_LINE_MAX, SEFL_EPROTO, "it is no entry: %zu bytes",
              line.n);
    SEFL_NEED(memcmp(line.p + line.n - tail, before_hash, sizeof before_hash - 1) == 0 &&
                  memcmp(line.p + line.n - 2, after_hash, 2) == 0,
              SEFL_EPROTO, "it was changed: it does not end with its hash");
    SEFL_PASS(sefl_at(jread_document(line, read_member, out), "it was changed"));
    sha256_of(is, span_of(line.p, line.n - tail));
    SEFL_NEED(memcmp(is, out->hash, sizeof is) == 0, SEFL_EPROTO,
              "it was changed: its hash is not that of its bytes");
    SEFL_NEED(out->n > 0 && out->kind[0], SEFL_EPROTO, "it has no number or no kind");
    return SEFL_OK;
}

static const audit_member *audit_read_find(const audit_entry *e, const char *key, bool text)
{
    for (unsigned i = 0; i < e->members; i++)
        if (e->member[i].is_text == text && strcmp(e->member[i].key, key) == 0)
            return &e->member[i];
    return NULL;
}

bool audit_number(const audit_entry *e, const char *key, uint64_t *out)
{
    const audit_member *m = audit_read_find(e, key, false);
    if (m)
        *out = m->number;
    return m != NULL;
}

bool audit_text(const audit_entry *e, const char *key, sefl_span *out)
{
    const audit_member *m = audit_read_find(e, key, true);
    if (m)
        *out = span_of(m->length ? e->text.p + m->from : NULL, m->length);
    return m != NULL;
}

bool audit_hash(const audit_entry *e, const char *key, uint8_t out[SHA256_BYTES])
{
    sefl_span s;
    char text[HEX_HASH + 1] = "";
    if (!audit_text(e, key, &s) || s.n != HEX_HASH)
        return false;
    memcpy(text, s.p, HEX_HASH);
    return hex_read(out, SHA256_BYTES, text);
}

sefl_status audit_bytes(const audit_entry *e, const char *key, sefl_buf *out)
{
    sefl_span s;
    uint8_t *to;
    SEFL_NEED(audit_text(e, key, &s) && s.n > 0 && s.n % 2 == 0, SEFL_EPROTO,
              "\"%s\" is missing or not hex digits", key);
    SEFL_PASS(buf_extend(out, &to, s.n / 2));
    SEFL_NEED(hex_read_any(to, s.n / 2, s), SEFL_EPROTO, "\"%s\" is not hex digits", key);
    return SEFL_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

enum { DIGITS = 20, BEFORE = 6 }; /* audit- 20 digits .jsonl */

sefl_status audit_older_path(char out[PATH_MAX], const char *path, uint64_t last)
{
    const char *slash = strrchr(path, '/');
    const int n = slash ? (int)(slash - path) : 1;
    return file_path(out, "%.*s/audit-%0*" PRIu64 ".jsonl", n, slash ? path : ".", DIGITS, last);
}

static bool is_older(const char *name)
{
    return strlen(name) == BEFORE + DIGITS + 6 && strncmp(name, "audit-", BEFORE) == 0 &&
           strspn(name + BEFORE, "0123456789") == DIGITS &&
           strcmp(name + BEFORE + DIGITS, ".jsonl") == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

sefl_status audit_older(sefl_buf *out, size_t *n, const char *path, const struct stat *latest)
{
    sefl_status st = SEFL_OK;
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX], one[PATH_MAX], **names = NULL;
    size_t found = 0, room = 0;
    struct stat sb;
    *n = 0;
    SEFL_PASS(file_path(folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : "."));
    DIR *d = opendir(folder);
    SEFL_CHECK(d, SEFL_EIO, "cannot read %s: %s", folder, strerror(errno));
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (!is_older(e->d_name))
            continue;
        SEFL_TRY(file_path(one, "%s/%s", folder, e->d_name));
        if (stat(one, &sb) == 0 && sb.st_ino == latest->st_ino && sb.st_dev == latest->st_dev)
            continue;
        SEFL_TRY(sefl_room(&names, &room, found + 1, sizeof *names));
        SEFL_TRY(sefl_strdup(&names[found], one));
        found++;
    }
    if (found > 1)
        qsort(names, found, sizeof *names, by_name);
    for (size_t i = 0; i < found; i++)
        SEFL_TRY(wr_raw(out, names[i], strlen(names[i]) + 1));
    *n = found;
done:
    for (size_t i = 0; i < found; i++)
        sefl_free(names[i]);
    sefl_free(names);
    if (d)
        closedir(d);
    return st;
}

struct audit_reader {
    char *latest; /* the log's path */
    int latest_fd;
    sefl_buf older;   /* paths of the older files */
    size_t left;      /* of them, not read yet */
    const char *path; /* of the present file */
    int fd;
    uint64_t size, offset; /* of the latest file; of the next read in the present one */
    sefl_buf window;
    size_t at;      /* in the window: the next line */
    sefl_span line; /* the last line, in the window */
    uint64_t lines, in_file;
    bool joins; /* the next line must be the last one again */
    bool ended;
    uint8_t hash[SHA256_BYTES]; /* of the last line */
};

static sefl_status next_file(audit_reader *r)
{
    uint64_t size;
    if (r->fd >= 0 && r->fd != r->latest_fd)
        close(r->fd);
    r->fd = -1;
    r->path = r->left == 0 ? r->latest
              : r->path    ? r->path + strlen(r->path) + 1
                           : (const char *)r->older.p;
    buf_reset(&r->window);
    r->at = 0, r->offset = 0, r->in_file = 0;
    r->joins = r->lines > 0;
    if (r->left == 0) {
        r->fd = r->latest_fd;
        return SEFL_OK;
    }
    r->left--;
    return file_open(&r->fd, &size, r->path, false);
}

sefl_status audit_reader_open(audit_reader **out, const char *path)
{
    struct stat sb;
    SEFL_MAKE(audit_reader, r, out);
    r->fd = r->latest_fd = -1;
    SEFL_TRY(sefl_strdup(&r->latest, path));
    SEFL_TRY(
        file_open(&r->latest_fd, &r->size, path, false)); /* first: it may become an older one */
    SEFL_CHECK(fstat(r->latest_fd, &sb) == 0, SEFL_EIO, "cannot stat %s: %s", path,
               strerror(errno));
    SEFL_TRY(audit_older(&r->older, &r->left, path, &sb));
    SEFL_TRY(next_file(r));
    SEFL_HAND_OVER(out, r, audit_reader_close);
}

void audit_reader_close(audit_reader *r)
{
    if (!r)
        return;
    if (r->fd >= 0 && r->fd != r->latest_fd)
        close(r->fd);
    if (r->latest_fd >= 0)
        close(r->latest_fd);
    buf_clear(&r->window);
    buf_clear(&r->older);
    sefl_free(r->latest);
    sefl_free(r);
}

/* Finds the end of the next line in the window, and reads on until there is one. NULL: the file
 * ends without a line feed. */
static sefl_status next_end(audit_reader *r, const uint8_t **end)
{
    *end = NULL;
    for (size_t seen = 0;;) {
        const size_t have = r->window.n - r->at;
        if (have > seen)
            *end = memchr(r->window.p + r->at + seen, '\n', have - seen);
        if (*end)
            return SEFL_OK;
        seen = have;
        SEFL_NEED(have < AUDIT_LINE_MAX, SEFL_EPROTO, "it has more than %d bytes", AUDIT_LINE_MAX);
        uint8_t *to;
        size_t got;
        if (r->at > 0) {
            memmove(r->window.p, r->window.p + r->at, have);
            r->window.n = have, r->at = 0;
        }
        SEFL_PASS(buf_extend(&r->window, &to, PIECE));
        r->window.n -= PIECE;
        SEFL_PASS(file_read_at(r->fd, r->path, r->offset, to, PIECE, &got));
        r->window.n += got, r->offset += got;
        if (got == 0)
            return SEFL_OK;
    }
}

/* The line's own hash is right; does it continue the line before? */
static sefl_status check_place(const audit_reader *r, const audit_entry *e)
{
    if (r->joins) {
        SEFL_NEED(e->n == r->lines && memcmp(e->hash, r->hash, sizeof r->hash) == 0 &&
                      strcmp(e->kind, "checkpoint") == 0,
                  SEFL_EPROTO,
                  "it is not the checkpoint that ends the file before: one of the "
                  "two files was replaced, or one between them is missing");
        return SEFL_OK;
    }
    SEFL_NEED(e->n <= r->lines + 1, SEFL_EPROTO,
              "it is entry %" PRIu64 ": entry %" PRIu64 " is missing or was moved", e->n,
              r->lines + 1);
    SEFL_NEED(e->n == r->lines + 1, SEFL_EPROTO,
              "it is entry %" PRIu64 ": it was moved or occurs a second time", e->n);
    SEFL_NEED(memcmp(e->prev, r->hash, sizeof r->hash) == 0, SEFL_EPROTO,
              "it does not continue line %" PRIu64 ": one of the two was replaced", r->in_file);
    return SEFL_OK;
}

/* Reads one line; *more is false at the end of the present file. */
static sefl_status next_line(audit_reader *r, audit_entry *e, bool *more)
{
    const uint8_t *end = NULL;
    SEFL_PASS(next_end(r, &end));
    *more = end != NULL;
    if (!end)
        return SEFL_OK;
    r->line = span_of(r->window.p + r->at, (size_t)(end - (r->window.p + r->at)));
    SEFL_PASS(audit_entry_read(e, r->line));
    SEFL_PASS(check_place(r, e));
    r->at += r->line.n + 1;
    r->in_file++;
    return SEFL_OK;
}

sefl_status audit_reader_next(audit_reader *r, audit_entry *e, bool *more)
{
    sefl_status st = SEFL_OK;
    *more = false;
    while (!r->ended && !*more) {
        SEFL_TRY(next_line(r, e, more));
        if (*more && r->joins) { /* it was returned as the last one of the file before */
            r->joins = *more = false;
        } else if (*more) {
            r->lines++;
            memcpy(r->hash, e->hash, sizeof r->hash);
        } else if (r->fd == r->latest_fd) {
            r->ended = true;
        } else {
            SEFL_CHECK(audit_reader_rest(r) == 0, SEFL_EPROTO, "it is incomplete");
            SEFL_TRY(next_file(r));
        }
    }
done:
    if (st != SEFL_OK)
        r->ended = true, *more = false;
    return sefl_at(st, "%s line %" PRIu64, r->path, r->in_file + 1);
}

const char *audit_reader_path(const audit_reader *r)
{
    return r->path;
}

uint64_t audit_reader_line_number(const audit_reader *r)
{
    return r->in_file;
}

uint64_t audit_reader_lines(const audit_reader *r)
{
    return r->lines;
}

size_t audit_reader_rest(const audit_reader *r)
{
    return r->window.n - r->at;
}

uint64_t audit_reader_size(const audit_reader *r)
{
    return r->size;
}

uint64_t audit_reader_at(const audit_reader *r)
{
    return r->fd == r->latest_fd ? r->offset - (r->window.n - r->at) : 0;
}

sefl_span audit_reader_line(const audit_reader *r)
{
    return r->line;
}
