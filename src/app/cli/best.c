#include "cli/best.h"

#include "base/file.h"
#include "base/json_read.h"

/* Returns the number at a NULL-terminated path of keys; 0 if there is none. */
static double number_at(sefl_span text, const char *const *path)
{
    sefl_buf key = { 0 };
    double x = 0;
    bool found = true, more = true;
    jread j = jread_over(text);
    for (; found && *path; path++) {
        found = false;
        if (jread_open(&j, '{') != SEFL_OK)
            break;
        while (!found && jread_key(&j, &key, &more) == SEFL_OK && more) {
            found = jread_is(&key, *path);
            if (!found && jread_skip(&j) != SEFL_OK)
                break;
        }
    }
    buf_clear(&key);
    return found && jread_real(&j, &x) == SEFL_OK ? x : 0;
}

double best_perplexity(const char *dir, const char *split)
{
    sefl_buf b = { 0 };
    char path[PATH_MAX];
    double best = 0, own = 0;
    if (file_path(path, "%s/meta.json", dir) == SEFL_OK &&
        file_read(&b, path, 1 << 24) == SEFL_OK) {
        best = number_at(buf_span(&b), (const char *[]){ "best_perplexity", NULL });
        own =
            number_at(buf_span(&b), (const char *[]){ "splits", split, "source_perplexity", NULL });
    }
    buf_clear(&b);
    return own > 0 ? own : best;
}
