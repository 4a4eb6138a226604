/* prom: writes metrics in Prometheus' text format (version 0.0.4), and keeps histograms.
 *
 *     static const prom_def uploads = { "sefl_uploads_total", PROM_COUNTER, "By outcome." };
 *     prom p = prom_into(&out);
 *     prom_family(&p, &uploads);                                   // # HELP, # TYPE
 *     prom_u64(&p, PROM_LABELS({ "outcome", "late" }), 3);  // sefl_uploads_total{outcome="late"} 3
 *     prom_family(&p, &steps);
 *     prom_histogram_write(&p, PROM_LABELS({ "step", "reveal" }), &h);
 *     SEFL_TRY(prom_end(&p));
 *
 * All samples of a family follow its prom_family. Values of labels may contain any bytes: the
 * writer escapes backslashes, quotes and line feeds. A histogram counts durations in the fixed
 * buckets of PROM_BOUNDS. After the first failure the other calls do nothing, and prom_end returns
 * it.
 * Threads: a writer has one owner; any thread may add to a histogram while another writes it.
 * Secrets: none. */
#ifndef BASE_PROM_H
#define BASE_PROM_H

#include "base/buf.h"

#include <stdatomic.h>
#include <stdint.h>

#define PROM_TYPE "text/plain; version=0.0.4; charset=utf-8" /* the Content-Type of a page */

typedef enum prom_type { PROM_COUNTER, PROM_GAUGE, PROM_HISTOGRAM } prom_type;

typedef struct prom_def {
    const char *name;
    prom_type type;
    const char *help; /* one line */
} prom_def;

/* A list of labels ends with a label without a name. */
typedef struct prom_label {
    const char *name, *value;
} prom_label;
#define PROM_LABELS(...) ((const prom_label[]){ __VA_ARGS__, { NULL, NULL } })
#define PROM_NO_LABELS   ((const prom_label[]){ { NULL, NULL } })

/* The upper bounds of the buckets: X(milliseconds, text in seconds). */
#define PROM_BOUNDS(X) \
    X(1, "0.001")      \
    X(5, "0.005")      \
    X(10, "0.01")      \
    X(50, "0.05")      \
    X(100, "0.1")      \
    X(500, "0.5")      \
    X(1000, "1")       \
    X(5000, "5")       \
    X(10000, "10")     \
    X(30000, "30")     \
    X(60000, "60")     \
    X(300000, "300")   \
    X(1800000, "1800") \
    X(7200000, "7200") \
    X(43200000, "43200")

enum {
#define PROM_ONE(ms, text) +1
    PROM_BUCKETS = 1 PROM_BOUNDS(PROM_ONE) /* with the one without a bound */
#undef PROM_ONE
};

typedef struct prom_histogram { /* initialise with zeros */
    _Atomic uint64_t bucket[PROM_BUCKETS];
    _Atomic uint64_t sum_ns;
} prom_histogram;

void prom_histogram_add(prom_histogram *h, uint64_t ns);
void prom_histogram_add_seconds(prom_histogram *h, double seconds); /* below 0 and NAN: 0 */

typedef struct prom {
    sefl_buf *out;
    const prom_def *family;
    sefl_status st;
} prom;

prom prom_into(sefl_buf *out);
void prom_family(prom *p, const prom_def *d);
void prom_u64(prom *p, const prom_label *labels, uint64_t v);
void prom_real(prom *p, const prom_label *labels, double v);
void prom_histogram_write(prom *p, const prom_label *labels, const prom_histogram *h);
sefl_status prom_end(prom *p) SEFL_MUST_CHECK;

#endif
