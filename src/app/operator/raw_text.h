/* raw_text: turns text as people have it into a data set: documents to train on, and some that are
 * held out.
 *
 *     raw_text_report r;
 *     SEFL_TRY(raw_text_gather(&r, "runs/try/text", "letters/", &(raw_text_settings){ 0 }, NULL));
 *
 * `from` is a file, or a folder that is read with all its sub-folders, in the order of names. Each
 * file is UTF-8 text, JSONL or CSV (model/corpus/records.h), by its extension; with the extension
 * .gz after that, it is compressed. In a folder, hidden files, links and files with a NUL byte at
 * their start (pictures, archives) are skipped and counted. Any other file that is not valid text
 * is an error with its name and line.
 *
 * A document is a JSONL or CSV record. Plain text is cut into documents of at least
 * RAW_TEXT_PIECE bytes at blank lines, or at any line once a document has eight times as many.
 * Every tenth document is held out, the first of them being the tenth; from fewer than ten
 * documents the last one is held out.
 *
 * All text together has at most RAW_TEXT_MAX bytes. The folder `to`, which must exist, gets
 * train.jsonl and valid.jsonl.
 *
 * Memory: one document; a compressed file is unpacked in memory, at most RAW_TEXT_UNPACKED bytes.
 * Threads: any.   Secrets: the text is its owner's; messages name files and lines, never words. */
#ifndef OPERATOR_RAW_TEXT_H
#define OPERATOR_RAW_TEXT_H

#include "base/progress.h"
#include "base/status.h"

#include <stdint.h>

enum { RAW_TEXT_PIECE = 1000, RAW_TEXT_HELD_OUT = 10, RAW_TEXT_UNPACKED = 1 << 30 };
#define RAW_TEXT_MAX (UINT64_C(8) << 30) /* bytes of all text */

typedef struct raw_text_settings {
    const char *field; /* JSON member or CSV column with the text; NULL: "text" */
    const char *skip;  /* a folder that is not read, such as one for results; NULL: none */
} raw_text_settings;

typedef struct raw_text_report {
    uint64_t files, skipped; /* files read; files and links skipped */
    uint64_t bytes;          /* of text, after unpacking */
    uint64_t documents;      /* all of them */
    uint64_t held_out;
} raw_text_report;

/* SEFL_EPROTO if the text has fewer than two documents. progress counts bytes. */
sefl_status raw_text_gather(raw_text_report *out, const char *to, const char *from,
                            const raw_text_settings *s,
                            const sefl_progress *progress) SEFL_MUST_CHECK;

#endif
