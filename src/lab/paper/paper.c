#include "paper/paper.h"

#include "base/dir.h"
#include "base/file.h"
#include "simulate/run_folder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the results folder ---------------------------------------------------------------------- */

enum { SCALE_BYTES = 16 };
#define SCALE_FILE "SCALE" /* contains paper_scale and a line feed */

const char *paper_scale(const paper_options *o)
{
    return o->quick ? "QUICK" : "full";
}

sefl_status paper_make_folder(const char *folder)
{
    char parent[PATH_MAX];
    SEFL_PASS(file_path(parent, "%s", folder));
    char *slash = *parent ? strrchr(parent + 1, '/') : NULL;
    if (slash) {
        *slash = 0;
        SEFL_PASS(paper_make_folder(parent));
    }
    return file_make_folder(folder, 0777);
}

/* Reads the scale of an existing folder, or marks a new one. */
static sefl_status check_scale(const paper_options *o)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char path[PATH_MAX];
    const char *scale = paper_scale(o), *other = o->quick ? "full" : "QUICK";
    SEFL_TRY(paper_path(path, o, SCALE_FILE));
    if (file_exists(path)) {
        SEFL_TRY(file_read(&b, path, SCALE_BYTES));
        SEFL_CHECK(b.n == strlen(scale) + 1 && memcmp(b.p, scale, b.n - 1) == 0, SEFL_EEXIST,
                   "%s has %s results; %s results need a folder of their own (--results)",
                   o->results, other, scale);
    } else {
        SEFL_CHECK(dir_is_empty(o->results), SEFL_EEXIST,
                   "%s is not a results folder: it has files, but no file " SCALE_FILE, o->results);
        SEFL_TRY(wr_fmt(&b, "%s\n", scale));
        SEFL_TRY(file_write_atomic(path, buf_span(&b), 0666));
    }
done:
    buf_clear(&b);
    return st;
}

sefl_status paper_open(const paper_options *o)
{
    char path[PATH_MAX];
    SEFL_PASS(paper_make_folder(o->results));
    SEFL_PASS(check_scale(o));
    SEFL_PASS(paper_path(path, o, "runs"));
    return file_make_folder(path, 0777);
}

sefl_status paper_path(char out[PATH_MAX], const paper_options *o, const char *fmt, ...)
{
    char name[PATH_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    SEFL_NEED(n >= 0 && (size_t)n < sizeof name, SEFL_EINVAL, "a path is too long");
    return file_path(out, "%s/%s", o->results, name);
}

sefl_status paper_write(const paper_options *o, sefl_span bytes, const char *fmt, ...)
{
    char name[PATH_MAX], path[PATH_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    SEFL_PASS(paper_path(path, o, "%s", name));
    return file_write_atomic(path, bytes, 0666);
}

sefl_status paper_alone(const paper_options *o, const char *name,
                        sefl_status (*work)(const paper_options *o))
{
    char folder[PATH_MAX];
    int lock;
    SEFL_PASS(paper_path(folder, o, "%s", name));
    SEFL_PASS(file_make_folder(folder, 0777));
    sefl_status st = run_folder_lock(&lock, folder);
    if (st == SEFL_OK) {
        st = work(o);
    } else if (st == SEFL_ESTATE) {
        paper_say(o, "%s: another process measures it", name);
        st = SEFL_OK;
    }
    if (lock >= 0)
        close(lock);
    return st;
}

/* ---- the user -------------------------------------------------------------------------------- */

void paper_say(const paper_options *o, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    if (!o->say)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    o->say(o->ctx, line);
}

/* ---- settings -------------------------------------------------------------------------------- */

sefl_status paper_set(settings *s, const char *fmt, ...)
{
    char words[1024], *rest = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    SEFL_NEED(n >= 0 && (size_t)n < sizeof words, SEFL_ERANGE, "too many settings");
    for (const char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        if (!settings_is(s, "protection", "none") || strncmp(w, "privacy.", 8) != 0)
            SEFL_PASS(settings_set(s, w, "sefl paper"));
    return SEFL_OK;
}

/* ---- figures --------------------------------------------------------------------------------- */

static const char style[] =
    "<style>\n"
    ".grid{stroke:#dfe3e8}.axis{stroke:#66707b}.bg{fill:#fff}\n"
    ".tick{fill:#66707b;font-size:12px}.title{fill:#1b1f24;font-size:13px;font-weight:600}\n"
    ".line{fill:none;stroke-width:2}.dash{stroke-dasharray:5 4}\n"
    ".c0{fill:#2166ac}.c1{fill:#d6604d}.c2{fill:#4d9221}.c3{fill:#8073ac}.c4{fill:#b8860b}"
    ".c5{fill:#35978f}\n"
    ".s0{stroke:#2166ac}.s1{stroke:#d6604d}.s2{stroke:#4d9221}.s3{stroke:#8073ac}"
    ".s4{stroke:#b8860b}.s5{stroke:#35978f}\n"
    "</style>\n<rect width=\"100%\" height=\"100%\" class=\"bg\"/>\n";

bool paper_is_mine(const paper_options *o, size_t piece)
{
    return o->shards == 0 || piece % o->shards == o->shard;
}

const unsigned paper_block_sizes[PAPER_BLOCK_SIZES] = { 1, 4, 8, 16, 32 };

bool paper_has_block(const paper_options *o, unsigned block)
{
    return !o->quick || block == 1 || block == 8;
}

svg_chart paper_block_chart(const char *title, const char *unit, const svg_series *series, size_t n)
{
    static const char *const labels[PAPER_BLOCK_SIZES] = { "1", "4", "8", "16", "32" };
    svg_chart c = { .title = title,
                    .unit = unit,
                    .n = PAPER_BLOCK_SIZES,
                    .x_name = "block size",
                    .x_text = labels,
                    .count = n,
                    .log = true };
    memcpy(c.series, series, n * sizeof *series);
    return c;
}

sefl_status paper_svg(const paper_options *o, const char *name, const svg_chart *c, size_t n)
{
    sefl_status st = SEFL_OK;
    sefl_buf charts = { 0 }, page = { 0 };
    char title[256];
    int height = 10;
    for (const svg_chart *end = c + n; c < end; c++) {
        svg_chart marked = *c;
        snprintf(title, sizeof title, "%s%s", o->quick ? "QUICK: " : "", c->title);
        marked.title = title;
        buf_reset(&page);
        SEFL_TRY(svg_write(&page, &marked));
        if (page.n == 0)
            continue;
        SEFL_TRY(wr_fmt(&charts, "<svg x=\"10\" y=\"%d\" width=\"%d\" height=\"%d\">\n", height,
                        SVG_WIDTH, SVG_HEIGHT));
        SEFL_TRY(wr_raw(&charts, page.p, page.n));
        SEFL_TRY(wr_fmt(&charts, "</svg>\n"));
        height += SVG_HEIGHT + 15;
    }
    if (charts.n == 0)
        goto done;
    buf_reset(&page);
    SEFL_TRY(wr_fmt(&page,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                    "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n%s",
                    SVG_WIDTH + 20, height, SVG_WIDTH + 20, height, style));
    SEFL_TRY(wr_raw(&page, charts.p, charts.n));
    SEFL_TRY(wr_fmt(&page, "</svg>\n"));
    SEFL_TRY(paper_write(o, buf_span(&page), "%s.svg", name));
done:
    buf_clear(&charts);
    buf_clear(&page);
    return st;
}
