/* audit_read: reads an audit log (audit_log.h) line by line and checks its chain, across all its
 * files.
 *
 *     SEFL_TRY(audit_reader_open(&r, "state/audit.jsonl"));
 *     while ((st = audit_reader_next(r, &e, &more)) == SEFL_OK && more)
 *         if (strcmp(e.kind, "released") == 0 && audit_hash(&e, "model", hash)) ...
 *
 * It reads the older files beside the log first (audit_older). The first line of each later file is
 * the last one of the file before, a checkpoint, and is not returned again.
 *
 * An error is SEFL_EPROTO and names the line: "state/audit.jsonl line 17: ...". The reader needs
 * memory for one line only. Bytes after the last line feed are still being written: it ignores
 * them (audit_reader_rest counts them). Threads: one owner.   Secrets: none. */
#ifndef ROLES_AUDIT_AUDIT_READ_H
#define ROLES_AUDIT_AUDIT_READ_H

#include "base/buf.h"
#include "base/sha256.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

enum { AUDIT_LINE_MAX = 64 << 10, AUDIT_MEMBERS_MAX = 24, AUDIT_KEY_MAX = 23, AUDIT_KIND_MAX = 23 };

typedef struct audit_member {
    char key[AUDIT_KEY_MAX + 1];
    bool is_text;
    uint64_t number;     /* a number; a bool is 0 or 1 */
    size_t from, length; /* of a text, in audit_entry.text */
} audit_member;

/* One line. Zero-initialise it; audit_entry_clear frees its memory. */
typedef struct audit_entry {
    uint64_t n, time;
    char kind[AUDIT_KIND_MAX + 1];
    uint8_t prev[SHA256_BYTES], hash[SHA256_BYTES];
    audit_member member[AUDIT_MEMBERS_MAX]; /* all others */
    unsigned members;
    sefl_buf text;
} audit_entry;

void audit_entry_clear(audit_entry *e);

/* Reads one line, without its line feed, and checks that its hash is that of its bytes. */
sefl_status audit_entry_read(audit_entry *out, sefl_span line) SEFL_MUST_CHECK;

/* Return a member; false if there is none of this type. audit_text's result lives as long as the
 * entry and is not terminated. audit_hash wants 64 hex digits. */
bool audit_number(const audit_entry *e, const char *key, uint64_t *out);
bool audit_text(const audit_entry *e, const char *key, sefl_span *out);
bool audit_hash(const audit_entry *e, const char *key, uint8_t out[SHA256_BYTES]);
/* Appends the bytes whose hex digits the member has. */
sefl_status audit_bytes(const audit_entry *e, const char *key, sefl_buf *out) SEFL_MUST_CHECK;

/* Older files of the log at `path`, "audit-N.jsonl" beside it, N being the number of the last
 * entry: appends their paths, each with a zero byte, in order. Leaves out the file `latest`, which
 * may have such a name too if the log is just being rotated. */
sefl_status audit_older(sefl_buf *out, size_t *n, const char *path,
                        const struct stat *latest) SEFL_MUST_CHECK;
/* The path of the older file with this last entry. */
sefl_status audit_older_path(char out[PATH_MAX], const char *path, uint64_t last) SEFL_MUST_CHECK;

typedef struct audit_reader audit_reader;

sefl_status audit_reader_open(audit_reader **out, const char *path) SEFL_MUST_CHECK;
void audit_reader_close(audit_reader *r);
/* Reads the next line; *more is false at the end. After a failure the reader is at its end. */
sefl_status audit_reader_next(audit_reader *r, audit_entry *e, bool *more) SEFL_MUST_CHECK;
/* The file of the last line, and its number there; the line may be the file's first. */
const char *audit_reader_path(const audit_reader *r);
uint64_t audit_reader_line_number(const audit_reader *r);
/* Number of entries so far; size of the incomplete last line, once *more is false; the size of the
 * latest file, and how much of it is read. */
uint64_t audit_reader_lines(const audit_reader *r);
size_t audit_reader_rest(const audit_reader *r);
uint64_t audit_reader_size(const audit_reader *r);
uint64_t audit_reader_at(const audit_reader *r);
/* The line that audit_reader_next read last, without its line feed. */
sefl_span audit_reader_line(const audit_reader *r);

#endif
