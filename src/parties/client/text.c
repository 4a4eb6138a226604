#include "roles/client/text.h"

#include "base/alloc.h"
#include "base/file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The joined files, and the capacities of the arrays, so that many small files cost no more than
 * one. */
typedef struct joined {
    corpus c;
    size_t tokens, lines, docs;
} joined;

/* Appends b. There is one border more than lines (documents): the last one is the end. */
static sefl_status append(joined *j, const corpus *b)
{
    corpus *a = &j->c;
    SEFL_PASS(sefl_room(&a->token, &j->tokens, a->tokens + b->tokens, sizeof *a->token));
    SEFL_PASS(sefl_room(&a->line, &j->lines, a->lines + b->lines + 1, sizeof *a->line));
    SEFL_PASS(sefl_room(&a->doc, &j->docs, a->docs + b->docs + 1, sizeof *a->doc));
    assert(a->line && a->doc); /* at least the last border */
    if (b->tokens > 0)         /* otherwise there may be no array yet */
        memcpy(a->token + a->tokens, b->token, b->tokens * sizeof *a->token);
    for (size_t i = 0; i <= b->lines; i++)
        a->line[a->lines + i] = a->tokens + b->line[i];
    for (size_t i = 0; i <= b->docs; i++)
        a->doc[a->docs + i] = a->lines + b->doc[i];
    a->tokens += b->tokens, a->lines += b->lines, a->docs += b->docs;
    a->words += b->words, a->unknown += b->unknown;
    a->marked = a->marked || b->marked;
    return SEFL_OK;
}

static int only_text(const struct dirent *e)
{
    static const char *const endings[] = { ".txt", ".tokens", ".jsonl", ".ndjson", ".csv" };
    size_t n = strlen(e->d_name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t k = strlen(endings[i]);
        if (n > k && e->d_name[0] != '.' && strcmp(e->d_name + n - k, endings[i]) == 0)
            return 1;
    }
    return 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* not the locale's order */
}

static sefl_status read_folder(corpus *out, const vocab *words, const corpus_file *where,
                               const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    struct dirent **names = NULL;
    corpus one = { 0 };
    joined all = { 0 };
    char path[PATH_MAX];
    struct stat sb;
    corpus_file f = *where;
    int n = scandir(where->path, &names, only_text, by_bytes), files = 0;
    SEFL_CHECK(n >= 0, SEFL_EIO, "cannot read %s: %s", where->path, strerror(errno));
    for (int i = 0; i < n; i++) {
        SEFL_TRY(file_path(path, "%s/%s", where->path, names[i]->d_name));
        if (stat(path, &sb) != 0 || !S_ISREG(sb.st_mode))
            continue;
        f.path = path;
        SEFL_TRY(corpus_read(&one, words, &f, progress));
        SEFL_TRY(append(&all, &one));
        corpus_clear(&one);
        files++;
    }
    SEFL_CHECK(files > 0, SEFL_ENOTFOUND,
               "%s contains no text files (.txt, .tokens, .jsonl, .ndjson or .csv)", where->path);
    *out = all.c, all.c = (corpus){ 0 };
done:
    corpus_clear(&one);
    corpus_clear(&all.c);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free((void *)names);
    return st;
}

sefl_status client_text_read(corpus *out, const vocab *words, const corpus_file *where,
                             const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    struct stat sb;
    corpus_paths paths = { 0 };
    corpus_file f = *where;
    SEFL_CHECK(stat(where->path, &sb) == 0, errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO,
               "cannot open %s: %s", where->path, strerror(errno));
    st = corpus_paths_find(&paths, where->path);
    if (st == SEFL_OK) {
        f.path = paths.path[CORPUS_TRAIN];
        SEFL_TRY(corpus_read(out, words, &f, progress));
    } else if (st == SEFL_ENOTFOUND && S_ISDIR(sb.st_mode)) {
        SEFL_TRY(read_folder(out, words, where, progress));
    }
done:
    corpus_paths_clear(&paths);
    return st;
}
