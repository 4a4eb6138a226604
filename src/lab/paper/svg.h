/* svg: draws the paper's charts, with lines over labels, as inline SVG.
 *
 *     svg_chart c = { .title = "Perplexity", .unit = "", .n = n, .x_name = "clients", .x_text = x,
 *                     .series = { { "validation", y } }, .count = 1, .log = true };
 *     SEFL_TRY(svg_write(&out, &c));
 *
 * Charts skip NAN values. Colours are classes (c0, s0, ...), which the figure's style defines. Each
 * point has a <title>, which browsers show as a tooltip. The SVG has no external references.
 * Threads: any; these are plain values.   Secrets: none. */
#ifndef PAPER_SVG_H
#define PAPER_SVG_H

#include "base/buf.h"

#include <stdbool.h>

enum { SVG_SERIES_MAX = 12, SVG_COLOURS = 6, SVG_WIDTH = 640, SVG_HEIGHT = 260 };

typedef struct svg_series {
    const char *name;
    const double *y; /* n values */
    bool dashed;
    const double *low, *high; /* ends of a vertical bar at each point, n values; or NULL */
} svg_series;

typedef struct svg_chart {
    const char *title;
    const char *unit; /* shown after the numbers, such as "s"; "bytes" becomes kB, MB, ... */
    size_t n;
    const char *x_name;        /* what the labels count */
    const char *const *x_text; /* n labels at equal distances */
    svg_series series[SVG_SERIES_MAX];
    size_t count;
    bool log; /* a logarithmic axis if the values span a factor of 8 or more */
} svg_chart;

/* Appends the chart, or nothing if there is no value to draw. */
sefl_status svg_write(sefl_buf *out, const svg_chart *c) SEFL_MUST_CHECK;

#endif
