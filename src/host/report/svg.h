/* svg: draws small charts, with lines or stacked bars over rounds or labels, as inline SVG.
 *
 *     svg_chart c = { .title = "Perplexity", .unit = "", .n = n, .x = round,
 *                     .series = { { "validation", y } }, .count = 1, .log = true };
 *     SEFL_TRY(svg_write(&out, &c));
 *
 * Charts skip NAN values. Colours and dashes are classes (c0, s0, d0, ...), which the page's style
 * defines. Each point or bar has a <title>, which browsers show as a tooltip. The SVG has no
 * external references. `page` selects the layout of reports: narrower, with room for a font of
 * SVG_PAGE_FONT units, so that the chart stays readable on a telephone.
 * Threads: any; these are plain values.   Secrets: none. */
#ifndef REPORT_SVG_H
#define REPORT_SVG_H

#include "base/buf.h"

#include <stdbool.h>

enum {
    SVG_SERIES_MAX = 12,
    SVG_COLOURS = 6,
    SVG_DASHES = 4,
    SVG_WIDTH = 640,
    SVG_HEIGHT = 260,
    SVG_PAGE_WIDTH = 480,
    SVG_PAGE_FONT = 16,
};

typedef struct svg_series {
    const char *name;
    const double *y; /* n values */
    bool dashed;
    const double *low, *high; /* lines: ends of a vertical bar at each point, n values; or NULL */
} svg_series;

typedef struct svg_chart {
    const char *title;
    const char *unit; /* shown after the numbers, such as "s"; "bytes" becomes kB, MB, ... */
    size_t n;
    const double *x;           /* ascending; may be NULL if x_text is set */
    const char *x_name;        /* what x counts; NULL: "round" */
    const char *const *x_text; /* n labels at equal distances, instead of the numbers x; or NULL */
    svg_series series[SVG_SERIES_MAX];
    size_t count;
    bool bars; /* draws stacked bars instead of lines */
    bool log;  /* lines: uses a logarithmic axis if the values span a factor of 8 or more */
    bool page; /* the layout of reports */
    /* the layout of reports only: */
    const char *y_name;    /* what the y axis shows */
    const double *mark;    /* values > 0 are marked above the chart, n values; or NULL */
    const char *mark_name; /* what the marks count */
    bool dashes;           /* each line has its own dashes, so that colour is not needed */
    bool no_key;           /* the page shows the legend elsewhere (svg_key) */
} svg_chart;

/* Appends the chart, or nothing if there is no value to draw. */
sefl_status svg_write(sefl_buf *out, const svg_chart *c) SEFL_MUST_CHECK;

/* Appends a picture of line k of a chart with `dashes`. */
sefl_status svg_key(sefl_buf *out, size_t k) SEFL_MUST_CHECK;

/* Appends a string to HTML: & < > " ' become references; control characters and invalid UTF-8
 * become U+FFFD. */
sefl_status html_text(sefl_buf *out, const char *text) SEFL_MUST_CHECK;

/* Formats a number to about three digits, such as "1.2 MB" (unit "bytes"), "0.35 s" or "107". */
void svg_number(char out[32], double v, const char *unit);

#endif
