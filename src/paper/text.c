#include "base/file.h"
#include "model/corpus/corpus.h"
#include "paper/paper.h"

#include <string.h>
#include <unistd.h>

/* Bytes of each part that a quick run uses. */
static const size_t quick_bytes[CORPUS_SPLITS] = { 60000, 10000, 10000 };

/* Copies whole lines from the beginning of a file. */
static sefl_status copy_head(const char *folder, const char *name, const char *from, size_t most)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    uint8_t *p = NULL;
    uint64_t size;
    size_t got;
    int fd = -1;
    char path[PATH_MAX];
    const char *dot = strrchr(from, '.');
    SEFL_TRY(file_open(&fd, &size, from, false));
    SEFL_TRY(buf_extend(&b, &p, most));
    SEFL_TRY(file_read_at(fd, from, 0, p, most, &got));
    while (got == most && got > 0 && p[got - 1] != '\n' && most > 0)
        most = --got;
    SEFL_TRY(file_path(path, "%s/%s%s", folder, name, dot ? dot : ".txt"));
    SEFL_TRY(file_write_atomic(path, span_of(p, got), 0666));
done:
    if (fd >= 0)
        close(fd);
    buf_clear(&b);
    return st;
}

sefl_status paper_text(char out[PATH_MAX], const paper_options *o)
{
    sefl_status st = SEFL_OK;
    corpus_paths paths = { 0 };
    *out = 0;
    if (!o->data)
        return SEFL_OK;
    SEFL_TRY(corpus_paths_find(&paths, o->data));
    for (int k = 0; k < CORPUS_SPLITS; k++)
        SEFL_CHECK(paths.path[k], SEFL_EINVAL,
                   "--data: %s has no %s text: the figures show test perplexity at the round with "
                   "the best validation perplexity",
                   o->data, corpus_split_names[k]);
    if (!o->quick) {
        SEFL_TRY(file_path(out, "%s", o->data));
        goto done;
    }
    SEFL_TRY(file_path(out, "%s/text", o->runs));
    SEFL_TRY(paper_make_folder(out));
    for (int k = 0; k < CORPUS_SPLITS; k++)
        SEFL_TRY(copy_head(out, corpus_split_names[k], paths.path[k], quick_bytes[k]));
done:
    corpus_paths_clear(&paths);
    return st;
}
