#include "cli/best.h"

#include "base/file.h"
#include "base/json_read.h"

#include <stdio.h>

double best_perplexity(const char *dir, const char *split)
{
    sefl_buf b = { 0 }, key = { 0 };
    double best = 0, own = 0;
    char path[4096];
    bool more, in_split;
    int n = snprintf(path, sizeof path, "%s/meta.json", dir);
    if (n < 0 || (size_t)n >= sizeof path || file_read(&b, path, 1 << 24) != SEFL_OK)
        goto done;
    jread j = jread_over(buf_span(&b));
    if (jread_open(&j, '{') != SEFL_OK)
        goto done;
    while (jread_key(&j, &key, &more) == SEFL_OK && more) {
        if (jread_is(&key, "best_perplexity")) {
            if (jread_real(&j, &best) != SEFL_OK)
                goto done;
        } else if (jread_is(&key, "splits")) {
            if (jread_open(&j, '{') != SEFL_OK)
                goto done;
            while (jread_key(&j, &key, &more) == SEFL_OK && more) {
                in_split = jread_is(&key, split);
                if (jread_open(&j, '{') != SEFL_OK)
                    goto done;
                while (jread_key(&j, &key, &more) == SEFL_OK && more)
                    if (in_split && jread_is(&key, "source_perplexity")
                            ? jread_real(&j, &own) != SEFL_OK
                            : jread_skip(&j) != SEFL_OK)
                        goto done;
            }
        } else if (jread_skip(&j) != SEFL_OK) {
            goto done;
        }
    }
done:
    buf_clear(&b);
    buf_clear(&key);
    return own > 0 ? own : best;
}
