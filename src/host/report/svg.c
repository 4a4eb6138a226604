#include "report/svg.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    TICKS = 5,
    X_TICKS = 8,
    KEY_TOP = 42, /* page: baseline of the first row of the legend */
    KEY_ROW = 22,
    KEY_SAMPLE = 34, /* room for the sample of an entry */
    PLOT = 170,      /* page: height without the text around it */
    BAND = 30,       /* page: room for marks */
    MARKS_TEXT = 16,
    MARKS_LINE = 8,
    MARKS_LARGE = 40,
    POINTS_LARGE = 60,
    BARS_GAP = 80, /* page: more bars have no gaps between them */
    POINTS_MAX = 200,
};

/* ---- text ---------------------------------------------------------------------------------- */

sefl_status html_text(sefl_buf *out, const char *text)
{
    const uint8_t *p = (const uint8_t *)text, *end = p + strlen(text);
    while (p < end) {
        uint32_t code;
        size_t n = utf8_decode(p, (size_t)(end - p), &code);
        const char *ref = *p == '&'    ? "&amp;"
                          : *p == '<'  ? "&lt;"
                          : *p == '>'  ? "&gt;"
                          : *p == '"'  ? "&quot;"
                          : *p == '\'' ? "&#39;"
                                       : NULL;
        if (ref)
            SEFL_PASS(wr_fmt(out, "%s", ref));
        else if (n == 0 || (*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f)
            SEFL_PASS(wr_fmt(out, "\xef\xbf\xbd"));
        else
            SEFL_PASS(wr_raw(out, p, n));
        p += n ? n : 1;
    }
    return SEFL_OK;
}

void svg_number(char out[32], double v, const char *unit)
{
    static const char *const prefix[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    unsigned i = 0;
    const char *gap = *unit ? " " : "";
    if (strcmp(unit, "bytes") == 0) {
        for (; v >= 999.5 && i < 5; i++)
            v /= 1000;
        unit = prefix[i];
    }
    if (v != 0 && fabs(v) < 0.001)
        snprintf(out, 32, "%.1e%s%.8s", v, gap, unit);
    else if (fabs(v) >= 1e7)
        snprintf(out, 32, "%.3g%s%.8s", v, gap, unit);
    else if (fabs(v) >= 99.95 || v == floor(v))
        snprintf(out, 32, "%.0f%s%.8s", v, gap, unit);
    else
        snprintf(out, 32,
                 fabs(v) >= 9.995 ? "%.1f%s%.8s"
                 : fabs(v) >= 0.1 ? "%.2f%s%.8s"
                                  : "%.3f%s%.8s",
                 v, gap, unit);
}

/* ---- coordinates ----------------------------------------------------------------------------- */

typedef struct frame {
    const svg_chart *c;
    int width, height;            /* of the picture */
    int left, right, top, bottom; /* edges of the plot */
    int inset;                    /* lines start and end this far inside it */
    double low, high;             /* range of the axis */
    bool log;
    size_t marks;
    size_t columns, rows; /* page: the legend, with an entry for the marks */
} frame;

static bool find_range(frame *f)
{
    const svg_chart *c = f->c;
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < c->n; i++) {
        double sum = 0;
        for (size_t k = 0; k < c->count; k++) {
            double v = c->series[k].y[i];
            if (!isfinite(v))
                continue;
            sum += v;
            low = fmin(low, c->bars ? 0 : v);
            high = fmax(high, c->bars ? sum : v);
            if (!c->bars && c->series[k].low) { /* fmin and fmax ignore NAN */
                low = fmin(low, c->series[k].low[i]);
                high = fmax(high, c->series[k].high[i]);
            }
        }
    }
    if (!(low <= high) || !isfinite(high))
        return false;
    const double room = low > 0 ? pow(high / low, 0.06) : 1; /* between outer lines and edges */
    f->log = c->log && !c->bars && low > 0 && high >= 8 * low && isnormal(low / room) &&
             isfinite(high * room);
    if (f->log)
        low /= room, high *= room;
    else
        low = fmin(low, 0);
    if (high <= low)
        high = low + 1;
    f->low = low, f->high = high;
    return true;
}

static double y_of(const frame *f, double v)
{
    double share =
        f->log ? log(v / f->low) / log(f->high / f->low) : (v - f->low) / (f->high - f->low);
    return f->top + (1 - share) * (f->bottom - f->top);
}

/* Returns the remark on a series whose bars are all lower than a pixel, or "". */
static const char *remark(const frame *f, size_t k)
{
    double most = 0;
    for (size_t i = 0; i < f->c->n; i++)
        most = fmax(most, f->c->series[k].y[i]); /* fmax ignores NAN */
    if (!f->c->bars || !(most > 0) || y_of(f, 0) - y_of(f, most) >= 1)
        return "";
    return f->c->page ? " (too small)" : " (too small to show)";
}

/* Returns the number of entries in the legend; a single series needs none. Bars show what the marks
 * above them count. */
static size_t keys(const frame *f)
{
    size_t n = f->c->count + (f->marks > 0 && !f->c->bars);
    return n > 1 && !f->c->no_key ? n : 0;
}

/* Returns the next larger step of 1, 2 or 5 times a power of ten. */
static double nice_step(double span, int ticks)
{
    double raw = span / ticks, unit = pow(10, floor(log10(raw))), m = raw / unit;
    return unit * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

/* Returns the distance of the ticks on a linear axis. */
static double y_step(const frame *f)
{
    double step = nice_step(f->high - f->low, TICKS);
    bool counts = f->c->page && f->c->bars && !*f->c->unit;
    return counts && step < 1 ? 1 : step;
}

static int key_sample(const frame *f)
{
    return f->c->bars ? 18 : KEY_SAMPLE;
}

/* Arranges the text around the plot, for the largest font that the page may use. */
static void lay_out_page(frame *f)
{
    const svg_chart *c = f->c;
    size_t most = 0;
    for (size_t i = 0; i < c->n && c->mark; i++)
        f->marks += c->mark[i] > 0;
    if (!f->log) /* the axis ends at a tick */
        f->high = ceil(f->high / y_step(f) - 1e-9) * y_step(f);
    f->bottom = PLOT; /* for the remarks */
    for (size_t k = 0; k < c->count; k++) {
        size_t n = strlen(c->series[k].name) + strlen(remark(f, k));
        most = n > most ? n : most;
    }
    if (f->marks > 0 && strlen(c->mark_name) > most)
        most = strlen(c->mark_name);
    f->width = SVG_PAGE_WIDTH;
    double column = key_sample(f) + 8 + 0.6 * SVG_PAGE_FONT * (double)most;
    f->columns = column * 2 > f->width ? 1 : (size_t)(f->width / column);
    f->rows = (keys(f) + f->columns - 1) / f->columns;
    f->left = 70, f->right = f->width - 14, f->inset = 8;
    f->top = KEY_TOP + KEY_ROW * (int)f->rows + 26 + (f->marks > 0 ? BAND - 6 : 0);
    f->bottom = f->top + PLOT;
    f->height = f->bottom + 44;
}

static void lay_out(frame *f)
{
    if (f->c->page) {
        lay_out_page(f);
        return;
    }
    f->width = SVG_WIDTH, f->height = SVG_HEIGHT;
    f->left = 62, f->right = SVG_WIDTH - 14, f->top = 34, f->bottom = SVG_HEIGHT - 42;
}

static double x_of(const frame *f, size_t i)
{
    const svg_chart *c = f->c;
    double left = f->left, wide = f->right - f->left;
    if (c->bars || c->x_text)
        return left + wide * ((double)i + 0.5) / (double)c->n;
    left += f->inset, wide -= 2 * f->inset;
    double first = c->x[0], last = c->x[c->n - 1];
    return last > first ? left + wide * (c->x[i] - first) / (last - first) : left + wide / 2;
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* Removes the zeros at the end of a fraction: "0.50 s" becomes "0.5 s". */
static void trim(char text[32])
{
    char *point = strchr(text, '.');
    if (!point || strchr(text, 'e'))
        return;
    char *end = point + 1 + strspn(point + 1, "0123456789"), *to = end;
    while (to > point && (to[-1] == '0' || to[-1] == '.'))
        if (*--to == '.')
            break;
    memmove(to, end, strlen(end) + 1);
}

static sefl_status tick(sefl_buf *out, const frame *f, double v)
{
    char text[32];
    double y = y_of(f, v);
    svg_number(text, v, f->c->unit);
    if (f->c->page)
        trim(text);
    return wr_fmt(out,
                  "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
                  "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                  f->left, y, f->right, y, f->left - 6, y + 4, text);
}

static sefl_status log_axis(sefl_buf *out, const frame *f)
{
    static const double steps[] = { 1, 2, 5 };
    bool few = f->high / f->low > 300;
    int first = (int)floor(log10(f->low)), last = (int)ceil(log10(f->high));
    int every = f->c->page ? (last - first) / (TICKS + 2) + 1 : 1;
    if (few && f->c->page && last - first <= 3)
        few = false; /* three decades have room for 1, 2 and 5 */
    for (int e = first; e <= last; e += every)
        for (size_t k = 0; k < (few ? 1 : 3); k++) {
            double v = steps[k] * pow(10, e);
            if (v >= f->low && v <= f->high)
                SEFL_PASS(tick(out, f, v));
        }
    return SEFL_OK;
}

static sefl_status y_axis(sefl_buf *out, const frame *f)
{
    const svg_chart *c = f->c;
    if (c->page && c->y_name) {
        SEFL_PASS(wr_fmt(out, "<text class=\"tick\" x=\"2\" y=\"%d\">",
                         f->top - (f->marks > 0 ? BAND + 4 : 18)));
        SEFL_PASS(html_text(out, c->y_name));
        SEFL_PASS(wr_fmt(out, "%s</text>\n", f->log ? ", log scale" : ""));
    }
    if (f->log)
        return log_axis(out, f);
    double step = y_step(f);
    long first = (long)ceil(f->low / step - 1e-9), last = (long)floor(f->high / step + 1e-9);
    for (long i = first; i <= last; i++)
        SEFL_PASS(tick(out, f, (double)i * step));
    return SEFL_OK;
}

static const char *x_name(const svg_chart *c)
{
    return c->x_name ? c->x_name : "round";
}

static sefl_status x_value(sefl_buf *out, const svg_chart *c, size_t i)
{
    return c->x_text ? html_text(out, c->x_text[i]) : wr_fmt(out, "%.0f", c->x[i]);
}

static sefl_status x_axis(sefl_buf *out, const frame *f)
{
    const svg_chart *c = f->c;
    size_t every = c->x_text || c->page ? 1 : (c->n + 9) / 10;
    double step = 0; /* page: labels the multiples of this step */
    if (c->page && !c->x_text && c->x[c->n - 1] > c->x[0])
        step = fmax(1, nice_step(c->x[c->n - 1] - c->x[0], X_TICKS));
    for (size_t i = 0; i < c->n; i += every) {
        if (step > 0 && fmod(c->x[i], step) != 0)
            continue;
        SEFL_PASS(wr_fmt(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                         x_of(f, i), f->bottom + (c->page ? 18 : 16)));
        SEFL_PASS(x_value(out, c, i));
        SEFL_PASS(wr_fmt(out, "</text>\n"));
    }
    SEFL_PASS(wr_fmt(out, "<text class=\"tick\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                     (f->left + f->right) / 2, f->height - (c->page ? 6 : 8)));
    SEFL_PASS(html_text(out, x_name(c)));
    SEFL_PASS(wr_fmt(out, "</text>\n"));
    return wr_fmt(out, "<line class=\"axis\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", f->left,
                  f->bottom, f->right, f->bottom);
}

/* ---- values ---------------------------------------------------------------------------------- */

static sefl_status hint(sefl_buf *out, const frame *f, const char *name, double v, size_t i)
{
    char text[32];
    svg_number(text, v, f->c->unit);
    SEFL_PASS(wr_fmt(out, "<title>"));
    SEFL_PASS(html_text(out, x_name(f->c)));
    SEFL_PASS(wr_fmt(out, " "));
    SEFL_PASS(x_value(out, f->c, i));
    SEFL_PASS(wr_fmt(out, ", "));
    SEFL_PASS(html_text(out, name));
    return wr_fmt(out, ": %s</title>", text);
}

/* Draws the vertical bars of a series that has them. */
static sefl_status draw_spread(sefl_buf *out, const frame *f, size_t k)
{
    const svg_series *s = &f->c->series[k];
    for (size_t i = 0; i < f->c->n && s->low; i++)
        if (isfinite(s->y[i]) && isfinite(s->low[i]) && isfinite(s->high[i]) &&
            (!f->log || s->low[i] > 0))
            SEFL_PASS(wr_fmt(
                out,
                "<line class=\"line s%zu\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                k % SVG_COLOURS, x_of(f, i), y_of(f, s->low[i]), x_of(f, i), y_of(f, s->high[i])));
    return SEFL_OK;
}

/* Writes the classes of a line: its colour and its dashes. */
static sefl_status line_class(sefl_buf *out, const svg_chart *c, size_t k)
{
    SEFL_PASS(wr_fmt(out, "line s%zu", k % SVG_COLOURS));
    if (c->series[k].dashed)
        return wr_fmt(out, " dash");
    return c->dashes && k % SVG_DASHES > 0 ? wr_fmt(out, " d%zu", k % SVG_DASHES) : SEFL_OK;
}

sefl_status svg_key(sefl_buf *out, size_t k)
{
    static const svg_chart any = { .dashes = true };
    SEFL_PASS(wr_fmt(out, "<svg class=\"key\" viewBox=\"0 0 28 10\" aria-hidden=\"true\">"
                          "<line class=\""));
    SEFL_PASS(line_class(out, &any, k));
    return wr_fmt(out, "\" x1=\"0\" y1=\"5\" x2=\"28\" y2=\"5\"/></svg>");
}

static sefl_status draw_points(sefl_buf *out, const frame *f, size_t k)
{
    const svg_chart *c = f->c;
    const svg_series *s = &c->series[k];
    const char *radius = c->page && c->n * c->count > POINTS_LARGE ? "1.5" : "3";
    for (size_t i = 0; i < c->n && c->n <= POINTS_MAX && !s->dashed; i++)
        if (isfinite(s->y[i])) {
            SEFL_PASS(wr_fmt(out, "<circle class=\"c%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\">",
                             k % SVG_COLOURS, x_of(f, i), y_of(f, s->y[i]), radius));
            SEFL_PASS(hint(out, f, s->name, s->y[i], i));
            SEFL_PASS(wr_fmt(out, "</circle>\n"));
        }
    return SEFL_OK;
}

static sefl_status draw_line(sefl_buf *out, const frame *f, size_t k)
{
    const svg_chart *c = f->c;
    const double *y = c->series[k].y;
    bool open = false;
    for (size_t i = 0; i < c->n; i++) {
        if (!isfinite(y[i]))
            continue; /* the line continues over rounds without a value */
        if (!open) {
            SEFL_PASS(wr_fmt(out, "<polyline class=\""));
            SEFL_PASS(line_class(out, c, k));
            SEFL_PASS(wr_fmt(out, "\" points=\""));
        }
        SEFL_PASS(wr_fmt(out, "%s%.1f,%.1f", open ? " " : "", x_of(f, i), y_of(f, y[i])));
        open = true;
    }
    if (open)
        SEFL_PASS(wr_fmt(out, "\"/>\n"));
    SEFL_PASS(draw_spread(out, f, k));
    return draw_points(out, f, k);
}

static sefl_status draw_bars(sefl_buf *out, const frame *f)
{
    const svg_chart *c = f->c;
    double share = c->page && c->n > BARS_GAP ? 1 : 0.8;
    double width = share * (f->right - f->left) / (double)c->n;
    if (width > 40)
        width = 40;
    for (size_t i = 0; i < c->n; i++) {
        double sum = 0;
        for (size_t k = 0; k < c->count; k++) {
            double v = c->series[k].y[i];
            if (!isfinite(v) || v <= 0)
                continue;
            double y0 = y_of(f, sum), y1 = y_of(f, sum + v);
            sum += v;
            SEFL_PASS(wr_fmt(
                out, "<rect class=\"c%zu\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\">",
                k % SVG_COLOURS, x_of(f, i) - width / 2, y1, width, y0 - y1));
            SEFL_PASS(hint(out, f, c->series[k].name, v, i));
            SEFL_PASS(wr_fmt(out, "</rect>\n"));
        }
    }
    return SEFL_OK;
}

/* Draws a triangle above the plot for each mark and, if there are few, its value and a line. */
static sefl_status draw_marks(sefl_buf *out, const frame *f)
{
    const svg_chart *c = f->c;
    const double half = f->marks > MARKS_LARGE ? 2 : 5;
    for (size_t i = 0; i < c->n && f->marks > 0; i++) {
        double x = x_of(f, i);
        if (!(c->mark[i] > 0))
            continue;
        if (f->marks <= MARKS_LINE)
            SEFL_PASS(wr_fmt(
                out, "<line class=\"marked\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", x,
                f->top, x, f->bottom));
        SEFL_PASS(wr_fmt(out, "<path class=\"mark\" d=\"M%.1f %dh%.0fl-%.0f 8z\">", x - half,
                         f->top - 10, 2 * half, half));
        SEFL_PASS(hint(out, f, c->mark_name, c->mark[i], i));
        SEFL_PASS(wr_fmt(out, "</path>\n"));
        if (f->marks <= MARKS_TEXT)
            SEFL_PASS(wr_fmt(
                out,
                "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", x,
                f->top - 14, c->mark[i]));
    }
    return SEFL_OK;
}

/* ---- title and legend ------------------------------------------------------------------------ */

/* Draws the sample of an entry: a triangle for marks, a piece of the line, or a square. */
static sefl_status sample(sefl_buf *out, const frame *f, size_t k, int x, int y)
{
    if (k == f->c->count)
        return wr_fmt(out, "<path class=\"mark\" d=\"M%d %dh10l-5 8z\"/>", x + 9, y - 9);
    if (f->c->bars)
        return wr_fmt(out, "<rect class=\"c%zu\" x=\"%d\" y=\"%d\" width=\"11\" height=\"11\"/>",
                      k % SVG_COLOURS, x, y - 10);
    SEFL_PASS(wr_fmt(out, "<line class=\""));
    SEFL_PASS(line_class(out, f->c, k));
    return wr_fmt(out, "\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>", x, y - 5, x + KEY_SAMPLE - 6,
                  y - 5);
}

static sefl_status page_legend(sefl_buf *out, const frame *f)
{
    const svg_chart *c = f->c;
    SEFL_PASS(wr_fmt(out, "<text class=\"title\" x=\"2\" y=\"18\">"));
    SEFL_PASS(html_text(out, c->title));
    SEFL_PASS(wr_fmt(out, "</text>\n"));
    for (size_t k = 0; k < keys(f); k++) {
        int x = 2 + (int)(k % f->columns) * (f->width / (int)f->columns);
        int y = KEY_TOP + KEY_ROW * (int)(k / f->columns);
        SEFL_PASS(sample(out, f, k, x, y));
        SEFL_PASS(wr_fmt(out, "<text class=\"tick\" x=\"%d\" y=\"%d\">", x + key_sample(f), y));
        SEFL_PASS(html_text(out, k < c->count ? c->series[k].name : c->mark_name));
        SEFL_PASS(wr_fmt(out, "%s</text>\n", k < c->count ? remark(f, k) : ""));
    }
    return SEFL_OK;
}

static sefl_status legend(sefl_buf *out, const frame *f)
{
    const svg_chart *c = f->c;
    double x = f->left, letters = 0;
    for (size_t k = 0; k < c->count; k++)
        letters += (double)strlen(c->series[k].name);
    const bool tight = f->left + 30 * (double)c->count + 6.2 * letters > f->width;
    SEFL_PASS(wr_fmt(out, "<text class=\"title\" x=\"%d\" y=\"15\">", f->left));
    SEFL_PASS(html_text(out, c->title));
    SEFL_PASS(wr_fmt(out, "%s</text>\n", f->log ? " (log scale)" : ""));
    for (size_t k = 0; k < c->count && c->count > 1; k++) {
        SEFL_PASS(wr_fmt(out, "<rect class=\"c%zu\" x=\"%.0f\" y=\"21\" width=\"9\" height=\"9\"/>",
                         k % SVG_COLOURS, x));
        SEFL_PASS(wr_fmt(out, "<text class=\"tick\" x=\"%.0f\" y=\"29\">", x + 13));
        const char *note = remark(f, k);
        SEFL_PASS(html_text(out, c->series[k].name));
        SEFL_PASS(wr_fmt(out, "%s</text>\n", note));
        x += (tight ? 21 : 30) +
             (tight ? 5.9 : 6.2) * (double)(strlen(c->series[k].name) + strlen(note));
    }
    return SEFL_OK;
}

/* Describes the chart for screen readers: first and last value of each series, and the marks. */
static sefl_status describe(sefl_buf *out, const frame *f)
{
    const svg_chart *c = f->c;
    SEFL_PASS(wr_fmt(out, "<desc>"));
    for (size_t k = 0; k < c->count; k++) {
        const double *y = c->series[k].y;
        size_t first = 0, last = c->n;
        char from[32], to[32];
        while (first < c->n && !isfinite(y[first]))
            first++;
        while (last > first && !isfinite(y[last - 1]))
            last--;
        if (first == last)
            continue;
        svg_number(from, y[first], c->unit);
        svg_number(to, y[last - 1], c->unit);
        SEFL_PASS(html_text(out, c->series[k].name));
        SEFL_PASS(wr_fmt(out, ": %s in %s ", from, x_name(c)));
        SEFL_PASS(x_value(out, c, first));
        SEFL_PASS(wr_fmt(out, ", %s in %s ", to, x_name(c)));
        SEFL_PASS(x_value(out, c, last - 1));
        SEFL_PASS(wr_fmt(out, ". "));
    }
    if (f->marks > 0) {
        SEFL_PASS(html_text(out, c->mark_name));
        SEFL_PASS(wr_fmt(out, " in %zu of %zu. ", f->marks, c->n));
    }
    return wr_fmt(out, "</desc>\n");
}

sefl_status svg_write(sefl_buf *out, const svg_chart *c)
{
    frame f = { .c = c };
    if (c->n == 0 || !find_range(&f))
        return SEFL_OK;
    lay_out(&f);
    SEFL_PASS(
        wr_fmt(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", f.width, f.height));
    SEFL_PASS(html_text(out, c->title));
    SEFL_PASS(wr_fmt(out, "\">\n"));
    if (c->page)
        SEFL_PASS(describe(out, &f));
    SEFL_PASS(c->page ? page_legend(out, &f) : legend(out, &f));
    SEFL_PASS(y_axis(out, &f));
    SEFL_PASS(draw_marks(out, &f));
    if (c->bars)
        SEFL_PASS(draw_bars(out, &f));
    for (size_t k = 0; k < c->count && !c->bars; k++)
        SEFL_PASS(draw_line(out, &f, k));
    SEFL_PASS(x_axis(out, &f));
    return wr_fmt(out, "</svg>\n");
}
