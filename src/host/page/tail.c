#include "page/tail.h"

#include "base/alloc.h"
#include "base/file.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 64 << 10, LINE_MAX_BYTES = 16 << 10, EVERY = 256, RECENT = 5 };

typedef struct place {
    uint64_t round; /* of the line at this offset */
    uint64_t offset;
} place;

struct tail {
    pthread_mutex_t lock;
    char *path;
    uint64_t at; /* bytes read: the end of the last complete line */
    ino_t inode;
    run_view v;
    uint64_t lines; /* of this task */
    place *places;  /* of every EVERY-th line */
    size_t places_n, places_room;
    double recent[RECENT]; /* seconds of the last rounds */
    size_t recent_n;       /* of all rounds */
};

static void start_again(tail *t)
{
    t->v = (run_view){ .facts = run_facts_none(),
                       .totals = run_totals_none(),
                       .last = run_line_of(0),
                       .seconds_a_round = NAN };
    t->lines = 0;
    t->places_n = 0;
    t->recent_n = 0;
}

sefl_status tail_new(tail **out, const char *path)
{
    SEFL_MAKE(tail, t, out);
    pthread_mutex_init(&t->lock, NULL);
    start_again(t);
    SEFL_TRY(sefl_strdup(&t->path, path));
    SEFL_HAND_OVER(out, t, tail_free);
}

void tail_free(tail *t)
{
    if (!t)
        return;
    sefl_free(t->places);
    sefl_free(t->path);
    pthread_mutex_destroy(&t->lock);
    sefl_free(t);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Gets each complete line, without its line feed, and the offset at which it begins; sets *done to
 * stop. */
typedef sefl_status line_fn(void *ctx, sefl_span line, uint64_t offset, bool *done);

/* Reads the complete lines from *at to `end`; *at becomes the end of the last one. */
static sefl_status each_line(int fd, const char *path, uint64_t *at, uint64_t end, line_fn *fn,
                             void *ctx)
{
    sefl_status st = SEFL_OK;
    uint8_t *piece = NULL;
    bool done = false;
    SEFL_TRY(sefl_new(&piece, PIECE, 1));
    while (!done && *at < end) {
        size_t got, used = 0;
        const uint64_t left = end - *at;
        SEFL_TRY(file_read_at(fd, path, *at, piece, left < PIECE ? (size_t)left : PIECE, &got));
        for (const uint8_t *stop;
             !done && used < got && (stop = memchr(piece + used, '\n', got - used)) != NULL;) {
            const size_t n = (size_t)(stop - piece) - used;
            SEFL_TRY(fn(ctx, span_of(piece + used, n), *at + used, &done));
            used += n + 1;
        }
        *at += used;
        if (used == 0) {
            SEFL_CHECK(got < LINE_MAX_BYTES, SEFL_EPROTO, "%s: a line of over %d bytes", path,
                       LINE_MAX_BYTES);
            break; /* its end is not written yet */
        }
    }
done:
    sefl_free(piece);
    return st;
}

/* Opens the file and finds its size; *fd is -1 if it does not exist. */
static sefl_status open_file(tail *t, int *fd, uint64_t *size)
{
    struct stat s;
    sefl_status st = file_open(fd, size, t->path, false);
    if (st == SEFL_ENOTFOUND) {
        *fd = -1, *size = 0;
        st = SEFL_OK;
    }
    SEFL_PASS(st);
    const ino_t inode = *fd >= 0 && fstat(*fd, &s) == 0 ? s.st_ino : 0;
    if (*size < t->at || inode != t->inode) {
        start_again(t);
        t->at = 0;
        t->inode = inode;
    }
    return SEFL_OK;
}

/* ---- what is new ----------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const tail *t)
{
    double sorted[RECENT];
    const size_t n = t->recent_n < RECENT ? t->recent_n : RECENT;
    if (n == 0)
        return NAN;
    memcpy(sorted, t->recent, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    return sorted[n / 2];
}

static sefl_status take_line(void *ctx, sefl_span line, uint64_t offset, bool *done)
{
    tail *t = ctx;
    run_facts f = run_facts_none();
    run_line l = run_line_of(0);
    (void)done;
    SEFL_PASS(sefl_at(run_line_read(&l, &f, line), "%s", t->path));
    if (f.known && l.round <= t->v.last.round)
        start_again(t); /* another task */
    SEFL_NEED(l.round > t->v.last.round, SEFL_EPROTO, "%s: rounds are not in order", t->path);
    if (f.known)
        t->v.facts = f;
    if (t->lines % EVERY == 0) {
        SEFL_PASS(sefl_room(&t->places, &t->places_room, t->places_n + 1, sizeof *t->places));
        t->places[t->places_n++] = (place){ .round = l.round, .offset = offset };
    }
    t->lines++;
    t->v.last = l;
    run_totals_add(&t->v.totals, &l);
    if (!l.skipped && !l.blocked)
        t->v.released = l.round;
    if (!isnan(l.seconds))
        t->recent[t->recent_n++ % RECENT] = l.seconds;
    return SEFL_OK;
}

/* Under the lock. */
static sefl_status tail_look_one(tail *t)
{
    int fd = -1;
    uint64_t size;
    SEFL_PASS(open_file(t, &fd, &size));
    sefl_status st = fd >= 0 ? each_line(fd, t->path, &t->at, size, take_line, t) : SEFL_OK;
    if (fd >= 0)
        close(fd);
    t->v.seconds_a_round = median(t);
    return st;
}

sefl_status tail_look(tail *t, run_view *out)
{
    pthread_mutex_lock(&t->lock);
    sefl_status st = tail_look_one(t);
    *out = t->v;
    pthread_mutex_unlock(&t->lock);
    return st;
}

/* ---- the rounds as JSON ---------------------------------------------------------------------- */

typedef struct listing {
    sefl_buf *out;
    uint64_t after;
    unsigned n;
    bool more;
} listing;

static sefl_status list_line(void *ctx, sefl_span line, uint64_t offset, bool *done)
{
    listing *c = ctx;
    run_facts f = run_facts_none();
    run_line l = run_line_of(0);
    (void)offset;
    SEFL_PASS(run_line_read(&l, &f, line));
    if (l.round <= c->after)
        return SEFL_OK;
    *done = c->more = c->n == TAIL_ROUNDS;
    if (c->more)
        return SEFL_OK;
    if (c->n++ > 0)
        SEFL_PASS(wr_u8(c->out, ','));
    return run_line_write(c->out, &l, NULL);
}

/* Returns the offset of a line that is not after the first round to list. */
static uint64_t place_of(const tail *t, uint64_t after)
{
    size_t low = 0, high = t->places_n;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (t->places[middle].round <= after)
            low = middle;
        else
            high = middle;
    }
    return t->places_n > 0 ? t->places[low].offset : t->at;
}

sefl_status tail_rounds(tail *t, sefl_buf *out, uint64_t after)
{
    sefl_status st = SEFL_OK;
    listing c = { .out = out, .after = after };
    int fd = -1;
    uint64_t size;
    pthread_mutex_lock(&t->lock);
    SEFL_TRY(tail_look_one(t));
    SEFL_TRY(wr_fmt(out, "{\"facts\":"));
    SEFL_TRY(run_facts_write(out, &t->v.facts));
    SEFL_TRY(wr_fmt(out, ",\"rounds\":["));
    uint64_t at = place_of(t, after);
    if (after < t->v.last.round)
        SEFL_TRY(open_file(t, &fd, &size));
    if (fd >= 0)
        SEFL_TRY(each_line(fd, t->path, &at, t->at, list_line, &c));
    SEFL_TRY(wr_fmt(out, "]%s}\n", c.more ? ",\"more\":true" : ""));
done:
    pthread_mutex_unlock(&t->lock);
    if (fd >= 0)
        close(fd);
    return st;
}
