#include "base/suggest.h"

#include <stddef.h>
#include <string.h>

enum { LONGEST = 32 };

/* Returns the number of letters to insert, delete, change or swap with a neighbour to get from a to
 * b (optimal string alignment); LONGEST if either is longer than that. */
static unsigned distance(const char *a, const char *b)
{
    unsigned d[LONGEST + 1][LONGEST + 1];
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = (unsigned)(i + j);
                continue;
            }
            unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

const char *suggest_name(const char *word, const char *const *names)
{
    const char *best = NULL;
    size_t n = strlen(word);
    unsigned limit = n <= 3 ? 2 : 3; /* must be strictly closer than this */
    for (; *names; names++) {
        size_t m = strlen(*names);
        unsigned d = limit;
        if ((n > m ? n - m : m - n) < limit) /* the distance is at least this difference */
            d = distance(word, *names);
        if (n >= 3 && strncmp(word, *names, n) == 0 && d > 1)
            d = 1; /* a prefix of the name counts as one wrong letter */
        if (d < limit) {
            limit = d;
            best = *names;
        }
    }
    return best;
}
