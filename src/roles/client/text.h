/* client_text: a client's own text, a file or a folder of files, under the public words.
 *
 *     SEFL_TRY(client_text_read(&text, words, &(corpus_file){ .path = "text" }));
 *
 * A folder: train.txt (or .tokens, .jsonl, .ndjson, .csv, as in corpus.h) if there is one; else
 * every file of it with one of these endings, in order of their names, one after the other. Folders
 * inside it and other files are left alone. Threads: any.   Secrets: the text; messages name files
 * and lines, never words. */
#ifndef ROLES_CLIENT_TEXT_H
#define ROLES_CLIENT_TEXT_H

#include "model/corpus/corpus.h"

sefl_status client_text_read(corpus *out, const vocab *words, const corpus_file *where,
                             const sefl_progress *progress) SEFL_MUST_CHECK;

#endif
