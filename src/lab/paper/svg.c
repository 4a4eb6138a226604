#include "paper/svg.h"

#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TICKS = 5, LEFT = 62, RIGHT = SVG_WIDTH - 14, TOP = 34, BOTTOM = SVG_HEIGHT - 42 };

static sefl_status text(sefl_buf *out, const char *s)
{
    for (; *s; s++) {
        const char *ref = *s == '&'    ? "&amp;"
                          : *s == '<'  ? "&lt;"
                          : *s == '>'  ? "&gt;"
                          : *s == '"'  ? "&quot;"
                          : *s == '\'' ? "&#39;"
                                       : NULL;
        SEFL_PASS(ref ? wr_fmt(out, "%s", ref) : wr_raw(out, s, 1));
    }
    return SEFL_OK;
}

/* ---- coordinates ----------------------------------------------------------------------------- */

typedef struct frame {
    const svg_chart *c;
    double low, high; /* range of the axis */
    bool log;
} frame;

static bool find_range(frame *f)
{
    const svg_chart *c = f->c;
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < c->n; i++) {
        for (size_t k = 0; k < c->count; k++) {
            const svg_series *s = &c->series[k];
            if (!isfinite(s->y[i]))
                continue;
            low = fmin(low, s->y[i]);
            high = fmax(high, s->y[i]);
            if (s->low) { /* fmin and fmax ignore NAN */
                low = fmin(low, s->low[i]);
                high = fmax(high, s->high[i]);
            }
        }
    }
    if (!(low <= high) || !isfinite(high))
        return false;
    const double room = low > 0 ? pow(high / low, 0.06) : 1; /* between outer lines and edges */
    f->log = c->log && low > 0 && high >= 8 * low && isnormal(low / room) && isfinite(high * room);
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
    return TOP + (1 - share) * (BOTTOM - TOP);
}

static double x_of(const frame *f, size_t i)
{
    return LEFT + (double)(RIGHT - LEFT) * ((double)i + 0.5) / (double)f->c->n;
}

/* ---- axes ------------------------------------------------------------------------------------ */

static sefl_status tick(sefl_buf *out, const frame *f, double v)
{
    char number[32];
    double y = y_of(f, v);
    report_number(number, v, f->c->unit);
    return wr_fmt(out,
                  "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
                  "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                  LEFT, y, RIGHT, y, LEFT - 6, y + 4, number);
}

static sefl_status log_axis(sefl_buf *out, const frame *f)
{
    static const double steps[] = { 1, 2, 5 };
    bool few = f->high / f->low > 300;
    int first = (int)floor(log10(f->low)), last = (int)ceil(log10(f->high));
    for (int e = first; e <= last; e++)
        for (size_t k = 0; k < (few ? 1 : 3); k++) {
            double v = steps[k] * pow(10, e);
            if (v >= f->low && v <= f->high)
                SEFL_PASS(tick(out, f, v));
        }
    return SEFL_OK;
}

static sefl_status y_axis(sefl_buf *out, const frame *f)
{
    if (f->log)
        return log_axis(out, f);
    /* the next larger step of 1, 2 or 5 times a power of ten */
    double raw = (f->high - f->low) / TICKS, unit = pow(10, floor(log10(raw))), m = raw / unit;
    double step = unit * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
    long first = (long)ceil(f->low / step - 1e-9), last = (long)floor(f->high / step + 1e-9);
    for (long i = first; i <= last; i++)
        SEFL_PASS(tick(out, f, (double)i * step));
    return SEFL_OK;
}

static sefl_status x_axis(sefl_buf *out, const frame *f)
{
    const svg_chart *c = f->c;
    for (size_t i = 0; i < c->n; i++) {
        SEFL_PASS(wr_fmt(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                         x_of(f, i), BOTTOM + 16));
        SEFL_PASS(text(out, c->x_text[i]));
        SEFL_PASS(wr_fmt(out, "</text>\n"));
    }
    SEFL_PASS(wr_fmt(out, "<text class=\"tick\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                     (LEFT + RIGHT) / 2, SVG_HEIGHT - 8));
    SEFL_PASS(text(out, c->x_name));
    SEFL_PASS(wr_fmt(out, "</text>\n"));
    return wr_fmt(out, "<line class=\"axis\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", LEFT,
                  BOTTOM, RIGHT, BOTTOM);
}

/* ---- values ---------------------------------------------------------------------------------- */

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

static sefl_status draw_points(sefl_buf *out, const frame *f, size_t k)
{
    const svg_chart *c = f->c;
    const svg_series *s = &c->series[k];
    char number[32];
    for (size_t i = 0; i < c->n && !s->dashed; i++)
        if (isfinite(s->y[i])) {
            SEFL_PASS(wr_fmt(out, "<circle class=\"c%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>",
                             k % SVG_COLOURS, x_of(f, i), y_of(f, s->y[i])));
            SEFL_PASS(text(out, c->x_name));
            SEFL_PASS(wr_fmt(out, " "));
            SEFL_PASS(text(out, c->x_text[i]));
            SEFL_PASS(wr_fmt(out, ", "));
            SEFL_PASS(text(out, s->name));
            report_number(number, s->y[i], c->unit);
            SEFL_PASS(wr_fmt(out, ": %s</title></circle>\n", number));
        }
    return SEFL_OK;
}

static sefl_status draw_line(sefl_buf *out, const frame *f, size_t k)
{
    const svg_series *s = &f->c->series[k];
    bool open = false;
    for (size_t i = 0; i < f->c->n; i++) {
        if (!isfinite(s->y[i]))
            continue; /* the line continues over places without a value */
        if (!open)
            SEFL_PASS(wr_fmt(out, "<polyline class=\"line s%zu%s\" points=\"", k % SVG_COLOURS,
                             s->dashed ? " dash" : ""));
        SEFL_PASS(wr_fmt(out, "%s%.1f,%.1f", open ? " " : "", x_of(f, i), y_of(f, s->y[i])));
        open = true;
    }
    if (open)
        SEFL_PASS(wr_fmt(out, "\"/>\n"));
    SEFL_PASS(draw_spread(out, f, k));
    return draw_points(out, f, k);
}

static sefl_status legend(sefl_buf *out, const frame *f)
{
    const svg_chart *c = f->c;
    double x = LEFT, letters = 0;
    for (size_t k = 0; k < c->count; k++)
        letters += (double)strlen(c->series[k].name);
    const bool tight = LEFT + 30 * (double)c->count + 6.2 * letters > SVG_WIDTH;
    SEFL_PASS(wr_fmt(out, "<text class=\"title\" x=\"%d\" y=\"15\">", LEFT));
    SEFL_PASS(text(out, c->title));
    SEFL_PASS(wr_fmt(out, "%s</text>\n", f->log ? " (log scale)" : ""));
    for (size_t k = 0; k < c->count && c->count > 1; k++) {
        SEFL_PASS(wr_fmt(out, "<rect class=\"c%zu\" x=\"%.0f\" y=\"21\" width=\"9\" height=\"9\"/>",
                         k % SVG_COLOURS, x));
        SEFL_PASS(wr_fmt(out, "<text class=\"tick\" x=\"%.0f\" y=\"29\">", x + 13));
        SEFL_PASS(text(out, c->series[k].name));
        SEFL_PASS(wr_fmt(out, "</text>\n"));
        x += (tight ? 21 : 30) + (tight ? 5.9 : 6.2) * (double)strlen(c->series[k].name);
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
    SEFL_PASS(text(out, c->title));
    SEFL_PASS(wr_fmt(out, "\">\n"));
    SEFL_PASS(legend(out, &f));
    SEFL_PASS(y_axis(out, &f));
    for (size_t k = 0; k < c->count; k++)
        SEFL_PASS(draw_line(out, &f, k));
    SEFL_PASS(x_axis(out, &f));
    return wr_fmt(out, "</svg>\n");
}
