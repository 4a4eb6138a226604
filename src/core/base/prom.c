#include "base/prom.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t bound_ms[] = {
#define BOUND(ms, text) ms,
    PROM_BOUNDS(BOUND)
#undef BOUND
};

static const char *const bound_text[] = {
#define BOUND(ms, text) text,
    PROM_BOUNDS(BOUND)
#undef BOUND
        "+Inf"
};

/* ---- histograms ------------------------------------------------------------------------------ */

void prom_histogram_add(prom_histogram *h, uint64_t ns)
{
    size_t i = 0;
    while (i + 1 < PROM_BUCKETS && ns > bound_ms[i] * 1000000)
        i++;
    atomic_fetch_add(&h->sum_ns, ns);
    atomic_fetch_add(&h->bucket[i], 1);
}

void prom_histogram_add_seconds(prom_histogram *h, double seconds)
{
    const double most = 1e9; /* 31 years: the sum has room for many of these */
    prom_histogram_add(h, seconds > 0 ? (uint64_t)(1e9 * fmin(seconds, most)) : 0);
}

/* ---- the writer ------------------------------------------------------------------------------ */

prom prom_into(sefl_buf *out)
{
    return (prom){ .out = out };
}

static void prom_put(prom *p, const char *text)
{
    if (p->st == SEFL_OK)
        p->st = wr_raw(p->out, text, strlen(text));
}

/* Escapes what the format cannot contain: quotes only in values of labels. */
static void put_escaped(prom *p, const char *text, bool quotes)
{
    for (; *text; text++) {
        const char one[2] = { *text, 0 };
        prom_put(p, *text == '\\'            ? "\\\\"
                    : *text == '\n'          ? "\\n"
                    : *text == '"' && quotes ? "\\\""
                                             : one);
    }
}

void prom_family(prom *p, const prom_def *d)
{
    static const char *const types[] = { "counter", "gauge", "histogram" };
    p->family = d;
    prom_put(p, "# HELP "), prom_put(p, d->name), prom_put(p, " ");
    put_escaped(p, d->help, false);
    prom_put(p, "\n# TYPE "), prom_put(p, d->name), prom_put(p, " "), prom_put(p, types[d->type]),
        prom_put(p, "\n");
}

/* Writes the name of a sample and its labels; le NULL: no such label. */
static void put_name(prom *p, const char *suffix, const prom_label *labels, const char *le)
{
    bool any = false;
    assert(p->family);
    prom_put(p, p->family->name), prom_put(p, suffix);
    for (; labels->name; labels++, any = true) {
        prom_put(p, any ? "," : "{"), prom_put(p, labels->name), prom_put(p, "=\"");
        put_escaped(p, labels->value, true);
        prom_put(p, "\"");
    }
    if (le)
        prom_put(p, any ? ",le=\"" : "{le=\""), prom_put(p, le), prom_put(p, "\"");
    prom_put(p, any || le ? "} " : " ");
}

static void put_u64(prom *p, uint64_t v)
{
    if (p->st == SEFL_OK)
        p->st = wr_fmt(p->out, "%" PRIu64 "\n", v);
}

/* The fewest digits that give the same number again. */
static void put_real(prom *p, double v)
{
    char t[32];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(t, sizeof t, "%.*g", digits, v);
        if (strtod(t, NULL) == v)
            break;
    }
    prom_put(p, isnan(v) ? "NaN" : !isinf(v) ? t : v > 0 ? "+Inf" : "-Inf");
    prom_put(p, "\n");
}

void prom_u64(prom *p, const prom_label *labels, uint64_t v)
{
    put_name(p, "", labels, NULL);
    put_u64(p, v);
}

void prom_real(prom *p, const prom_label *labels, double v)
{
    put_name(p, "", labels, NULL);
    put_real(p, v);
}

/* The count is the last bucket, so the two agree even while another thread adds. */
void prom_histogram_write(prom *p, const prom_label *labels, const prom_histogram *h)
{
    uint64_t below = 0;
    for (size_t i = 0; i < PROM_BUCKETS; i++) {
        below += atomic_load(&h->bucket[i]);
        put_name(p, "_bucket", labels, bound_text[i]);
        put_u64(p, below);
    }
    put_name(p, "_sum", labels, NULL);
    put_real(p, 1e-9 * (double)atomic_load(&h->sum_ns));
    put_name(p, "_count", labels, NULL);
    put_u64(p, below);
}

sefl_status prom_end(prom *p)
{
    return p->st;
}
