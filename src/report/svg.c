#include "report/svg.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEFT = 62, RIGHT = 14, TOP = 34, BOTTOM = 42, TICKS = 5 };

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
    double low, high; /* range of the axis */
    bool log;
    double bar; /* width */
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
    if (!(low <= high))
        return false;
    f->log = c->log && !c->bars && low > 0 && high >= 8 * low;
    if (f->log) { /* keeps the outer lines away from axis and legend */
        double room = pow(high / low, 0.06);
        low /= room, high *= room;
    } else
        low = fmin(low, 0);
    if (high <= low)
        high = low + 1;
    f->low = low, f->high = high;
    return true;
}

/* Returns the next larger step of 1, 2 or 5 times a power of ten. */
static double nice_step(double span)
{
    double raw = span / TICKS, unit = pow(10, floor(log10(raw))), m = raw / unit;
    return unit * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

static double y_of(const frame *f, double v)
{
    double share =
        f->log ? log(v / f->low) / log(f->high / f->low) : (v - f->low) / (f->high - f->low);
    return TOP + (1 - share) * (SVG_HEIGHT - TOP - BOTTOM);
}

static double x_of(const frame *f, size_t i)
{
    const svg_chart *c = f->c;
    double wide = SVG_WIDTH - LEFT - RIGHT;
    if (c->bars || c->x_text)
        return LEFT + wide * ((double)i + 0.5) / (double)c->n;
    double first = c->x[0], last = c->x[c->n - 1];
    return last > first ? LEFT + wide * (c->x[i] - first) / (last - first) : LEFT + wide / 2;
}

/* ---- parts --------------------------------------------------------------------------------- */

static sefl_status tick(sefl_buf *out, const frame *f, double v)
{
    char text[32];
    double y = y_of(f, v);
    svg_number(text, v, f->c->unit);
    return wr_fmt(out,
                  "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
                  "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                  LEFT, y, SVG_WIDTH - RIGHT, y, LEFT - 6, y + 4, text);
}

static sefl_status y_axis(sefl_buf *out, const frame *f)
{
    if (f->log) {
        static const double steps[] = { 1, 2, 5 };
        bool few = f->high / f->low > 300;
        for (int e = (int)floor(log10(f->low)); e <= (int)ceil(log10(f->high)); e++)
            for (size_t k = 0; k < (few ? 1 : 3); k++) {
                double v = steps[k] * pow(10, e);
                if (v >= f->low && v <= f->high)
                    SEFL_PASS(tick(out, f, v));
            }
        return SEFL_OK;
    }
    double step = nice_step(f->high - f->low);
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
    size_t every = c->x_text ? 1 : (c->n + 9) / 10;
    for (size_t i = 0; i < c->n; i += every) {
        SEFL_PASS(wr_fmt(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                         x_of(f, i), SVG_HEIGHT - BOTTOM + 16));
        SEFL_PASS(x_value(out, c, i));
        SEFL_PASS(wr_fmt(out, "</text>\n"));
    }
    SEFL_PASS(wr_fmt(out, "<text class=\"tick\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                     (LEFT + SVG_WIDTH - RIGHT) / 2, SVG_HEIGHT - 8));
    SEFL_PASS(html_text(out, x_name(c)));
    SEFL_PASS(wr_fmt(out, "</text>\n"));
    return wr_fmt(out, "<line class=\"axis\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", LEFT,
                  SVG_HEIGHT - BOTTOM, SVG_WIDTH - RIGHT, SVG_HEIGHT - BOTTOM);
}

static sefl_status hint(sefl_buf *out, const frame *f, size_t k, size_t i)
{
    char text[32];
    svg_number(text, f->c->series[k].y[i], f->c->unit);
    SEFL_PASS(wr_fmt(out, "<title>"));
    SEFL_PASS(html_text(out, x_name(f->c)));
    SEFL_PASS(wr_fmt(out, " "));
    SEFL_PASS(x_value(out, f->c, i));
    SEFL_PASS(wr_fmt(out, ", "));
    SEFL_PASS(html_text(out, f->c->series[k].name));
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
                "<line class=\"line s%zu\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", k,
                x_of(f, i), y_of(f, s->low[i]), x_of(f, i), y_of(f, s->high[i])));
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
        if (!open)
            SEFL_PASS(wr_fmt(out, "<polyline class=\"line s%zu%s\" points=\"", k,
                             c->series[k].dashed ? " dash" : ""));
        SEFL_PASS(wr_fmt(out, "%s%.1f,%.1f", open ? " " : "", x_of(f, i), y_of(f, y[i])));
        open = true;
    }
    if (open)
        SEFL_PASS(wr_fmt(out, "\"/>\n"));
    SEFL_PASS(draw_spread(out, f, k));
    for (size_t i = 0; i < c->n && c->n <= 200 && !c->series[k].dashed; i++)
        if (isfinite(y[i])) {
            SEFL_PASS(wr_fmt(out, "<circle class=\"c%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\">", k,
                             x_of(f, i), y_of(f, y[i])));
            SEFL_PASS(hint(out, f, k, i));
            SEFL_PASS(wr_fmt(out, "</circle>\n"));
        }
    return SEFL_OK;
}

static sefl_status draw_bars(sefl_buf *out, const frame *f)
{
    const svg_chart *c = f->c;
    double width = 0.8 * (SVG_WIDTH - LEFT - RIGHT) / (double)c->n;
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
                k, x_of(f, i) - width / 2, y1, width, y0 - y1));
            SEFL_PASS(hint(out, f, k, i));
            SEFL_PASS(wr_fmt(out, "</rect>\n"));
        }
    }
    return SEFL_OK;
}

/* True if series k has bars and all of them are lower than a pixel. */
static bool too_small(const frame *f, size_t k)
{
    double most = 0;
    for (size_t i = 0; i < f->c->n; i++)
        most = fmax(most, f->c->series[k].y[i]); /* fmax ignores NAN */
    return f->c->bars && most > 0 && y_of(f, 0) - y_of(f, most) < 1;
}

static sefl_status legend(sefl_buf *out, const frame *f)
{
    const svg_chart *c = f->c;
    double x = LEFT, letters = 0;
    for (size_t k = 0; k < c->count; k++)
        letters += (double)strlen(c->series[k].name);
    const bool tight = LEFT + 30 * (double)c->count + 6.2 * letters > SVG_WIDTH;
    SEFL_PASS(wr_fmt(out, "<text class=\"title\" x=\"%d\" y=\"15\">", LEFT));
    SEFL_PASS(html_text(out, c->title));
    SEFL_PASS(wr_fmt(out, "%s</text>\n", f->log ? " (log scale)" : ""));
    for (size_t k = 0; k < c->count && c->count > 1; k++) {
        SEFL_PASS(wr_fmt(out, "<rect class=\"c%zu\" x=\"%.0f\" y=\"21\" width=\"9\" height=\"9\"/>",
                         k, x));
        SEFL_PASS(wr_fmt(out, "<text class=\"tick\" x=\"%.0f\" y=\"29\">", x + 13));
        const char *note = too_small(f, k) ? " (too small to show)" : "";
        SEFL_PASS(html_text(out, c->series[k].name));
        SEFL_PASS(wr_fmt(out, "%s</text>\n", note));
        x += (tight ? 21 : 30) +
             (tight ? 5.9 : 6.2) * (double)(strlen(c->series[k].name) + strlen(note));
    }
    return SEFL_OK;
}

sefl_status svg_write(sefl_buf *out, const svg_chart *c)
{
    frame f = { .c = c };
    if (c->n == 0 || !find_range(&f))
        return SEFL_OK;
    SEFL_PASS(wr_fmt(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", SVG_WIDTH,
                     SVG_HEIGHT));
    SEFL_PASS(html_text(out, c->title));
    SEFL_PASS(wr_fmt(out, "\">\n"));
    SEFL_PASS(legend(out, &f));
    SEFL_PASS(y_axis(out, &f));
    if (c->bars)
        SEFL_PASS(draw_bars(out, &f));
    for (size_t k = 0; k < c->count && !c->bars; k++)
        SEFL_PASS(draw_line(out, &f, k));
    SEFL_PASS(x_axis(out, &f));
    return wr_fmt(out, "</svg>\n");
}
