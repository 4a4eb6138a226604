/* client_text: reads a client's text, a file or a folder of files, with the public word list.
 *
 *     SEFL_TRY(client_text_read(&text, words, &(corpus_file){ .path = "text" }));
 *
 * In a folder, it reads train.txt (or .tokens, .jsonl, .ndjson, .csv, as in corpus.h) if there is
 * one; otherwise every file with one of these extensions, sorted by name. It ignores subfolders and
 * other files. Threads: any.   Secrets: the text; messages name files and lines, never words. */
#ifndef ROLES_CLIENT_TEXT_H
#define ROLES_CLIENT_TEXT_H

#include "model/corpus/corpus.h"

sefl_status client_text_read(corpus *out, const vocab *words, const corpus_file *where,
                             const sefl_progress *progress) SEFL_MUST_CHECK;

#endif
