#define _GNU_SOURCE
/* Merges the logs of several parties by time. Every source has one line in memory; the earliest is
 * printed next. A line that is not JSON (an error at the start, a crash) has the time of the line
 * before it. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log_line.h"
#include "cli/full/party.h"
#include "cli/interrupt.h"
#include "cli/options.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 65536, LOOK_MS = 250, NAME = 64, SOURCES_MAX = 256 };

typedef struct wish {
    const char *file, *where, *role, *since, *level, *client;
    uint64_t round;
    bool follow;
} wish;

typedef struct source {
    char name[NAME], path[PATH_MAX];
    int fd;
    bool named;      /* on the command line; otherwise found in a folder */
    uint64_t offset; /* of the file, after `bytes` */
    ino_t node;
    sefl_buf bytes; /* read, not yet taken */
    size_t taken;
    bool cut; /* the rest of a line that is too long is skipped */

    bool has;     /* the fields below are its next line */
    bool is_json; /* `line` has it; otherwise `raw` */
    log_line line;
    sefl_buf raw;
    uint64_t time_ms;
} source;

typedef struct merger {
    const wish *w;
    const char *role; /* the beginning of the names of its logs; NULL: any */
    source *at;
    size_t n, room;
    uint64_t since_ms;
    log_level level;
    bool colours;
    size_t width; /* of the longest name */
    bool any;     /* a line was printed */
} merger;

/* ---- sources --------------------------------------------------------------------------------- */

/* A file in a folder may be anything: a link there could lead anywhere. */
static int open_log(const char *path, bool named)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (named ? 0 : O_NOFOLLOW));
}

static sefl_status cmd_logs_add(merger *m, const char *path, const char *file, bool named)
{
    struct stat s;
    const char *dot = strrchr(file, '.');
    const size_t n = dot && strcmp(dot, ".log") == 0 ? (size_t)(dot - file) : strlen(file);
    char name[NAME];
    snprintf(name, sizeof name, "%.*s", (int)n, file);
    (void)cli_plain(name, sizeof name, name);
    const char *slash = strrchr(path, '/');
    const bool plain = slash && strcmp(slash, "/log") == 0; /* of the one party in its folder */
    if (m->role && !plain && strncmp(name, m->role, strlen(m->role)) != 0)
        return SEFL_OK;
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open_log(path, named);
    if (fd < 0 && !named) {
        const int why = errno;
        char shown[PATH_MAX];
        (void)fprintf(stderr, "left out: %s: %s\n", cli_plain(shown, sizeof shown, path),
                      why == ELOOP ? "it is a link" : strerror(why));
        return SEFL_OK;
    }
    SEFL_NEED(fd >= 0, SEFL_EIO, "cannot open %s: %s", path, strerror(errno));
    if (fd != STDIN_FILENO && (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode))) {
        close(fd);
        return SEFL_OK;
    }
    SEFL_NEED(m->n < SOURCES_MAX, SEFL_ERANGE, "more than %d logs: choose some with --role",
              SOURCES_MAX);
    SEFL_PASS(sefl_room(&m->at, &m->room, m->n + 1, sizeof *m->at));
    source *x = &m->at[m->n++];
    *x = (source){ .fd = fd, .named = named, .node = fd == STDIN_FILENO ? 0 : s.st_ino };
    snprintf(x->name, sizeof x->name, "%s", name);
    m->width = strlen(name) > m->width ? strlen(name) : m->width;
    return file_path(x->path, "%s", path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const source *)a)->name, ((const source *)b)->name);
}

/* The name of a log: that of its file, or of the folder if the file is just called `log`. */
static void log_name(char out[NAME_MAX + 1], const char *folder, const char *file)
{
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    size_t from = n;
    while (from > 0 && folder[from - 1] != '/')
        from--;
    if (strcmp(file, "log") == 0 && strncmp(folder + from, ".", 1) != 0)
        snprintf(out, NAME_MAX + 1, "%.*s", (int)(n - from < NAME_MAX ? n - from : NAME_MAX),
                 folder + from);
    else
        snprintf(out, NAME_MAX + 1, "%s", file);
}

/* Adds the logs of a folder: all its files, or only `log` and those named *.log. */
static sefl_status add_folder(merger *m, const char *folder, bool all)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX], name[NAME_MAX + 1];
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        const char *dot = strrchr(e->d_name, '.');
        if (e->d_name[0] == '.' ||
            !(all || (dot && strcmp(dot, ".log") == 0) || strcmp(e->d_name, "log") == 0))
            continue;
        SEFL_TRY(file_path(path, "%s/%s", folder, e->d_name));
        log_name(name, folder, e->d_name);
        SEFL_TRY(cmd_logs_add(m, path, name, false));
    }
done:
    if (d)
        closedir(d);
    return st;
}

/* A party's log is beside its settings, or in the folder `log` there or of the federation. */
static sefl_status add_near(merger *m, const char *folder)
{
    static const char *const places[] = { "%s", "%s/log", "%s/../log", "%s/../../log" };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof places / sizeof *places && m->n == 0; i++) {
        SEFL_PASS(file_path(path, places[i], folder));
        SEFL_PASS(add_folder(m, path, i > 0));
    }
    if (m->n > 0)
        qsort(m->at, m->n, sizeof *m->at, by_name);
    return SEFL_OK;
}

static sefl_status find_party(merger *m, const char *where)
{
    sefl_status st = SEFL_OK;
    party_list l = { 0 };
    SEFL_TRY(party_find(&l, where));
    if (!m->role && l.n == 1)
        m->role = party_role_name(l.at->role);
    SEFL_TRY(add_near(m, l.folder));
    SEFL_CHECK(m->n > 0, SEFL_ENOTFOUND,
               "no log files near %s: a server writes its log to standard error. Under systemd: "
               "journalctl -u sefl-%s -o cat | sefl logs -",
               l.folder, party_role_name(l.at->role));
done:
    party_clear(&l);
    return st;
}

static sefl_status cmd_logs_find(merger *m)
{
    struct stat s;
    const wish *w = m->w;
    const char *where = w->file ? w->file : w->where;
    if (where && strcmp(where, "-") == 0)
        return cmd_logs_add(m, where, "stdin", true);
    if (where && !w->file && stat(where, &s) == 0) { /* any folder with logs, or a log */
        const char *slash = strrchr(where, '/'), *dot = strrchr(where, '.');
        if (S_ISREG(s.st_mode) && !(dot && strcmp(dot, ".yml") == 0))
            return cmd_logs_add(m, where, slash ? slash + 1 : where, true);
        if (S_ISDIR(s.st_mode))
            SEFL_PASS(add_near(m, where));
        if (m->n > 0)
            return SEFL_OK;
    }
    return find_party(m, where);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Reads more; *any: there was something. A file that was replaced or cut is read from its start. */
static sefl_status fill(source *x, bool *any)
{
    struct stat s;
    uint8_t *to;
    *any = false;
    if (x->node != 0 && stat(x->path, &s) == 0 && S_ISREG(s.st_mode) &&
        (s.st_ino != x->node || (uint64_t)s.st_size < x->offset)) {
        int fd = open_log(x->path, x->named);
        if (fd >= 0) {
            close(x->fd);
            x->fd = fd, x->node = s.st_ino, x->offset = 0, x->cut = false;
            buf_reset(&x->bytes);
            x->taken = 0;
        }
    }
    if (x->taken > 0) { /* make room */
        memmove(x->bytes.p, x->bytes.p + x->taken, x->bytes.n - x->taken);
        x->bytes.n -= x->taken;
        x->taken = 0;
    }
    const size_t before = x->bytes.n;
    SEFL_PASS(buf_extend(&x->bytes, &to, PIECE));
    ssize_t n = read(x->fd, to, PIECE);
    x->bytes.n = before + (n > 0 ? (size_t)n : 0);
    SEFL_NEED(n >= 0 || errno == EINTR || errno == EAGAIN, SEFL_EIO, "cannot read %s: %s", x->path,
              strerror(errno));
    x->offset += n > 0 ? (uint64_t)n : 0;
    *any = n > 0;
    return SEFL_OK;
}

/* Takes the next line of the bytes. end: the last one need not end with a line feed. */
static bool next_line(source *x, sefl_span *out, bool end)
{
    while (x->taken < x->bytes.n) {
        uint8_t *p = x->bytes.p + x->taken;
        const size_t left = x->bytes.n - x->taken;
        const uint8_t *lf = memchr(p, '\n', left);
        if (!lf && left <= LOG_LINE_MAX && !end)
            return false;
        const bool skip = x->cut; /* the rest of a line that was cut */
        *out = span_of(p, lf ? (size_t)(lf - p) : left);
        x->taken += out->n + (lf != NULL);
        x->cut = !lf && !end;
        if (!skip)
            return true;
    }
    return false;
}

/* Gets the source's next line, if there is one. */
static sefl_status advance(source *x, bool end)
{
    sefl_span line = { 0 };
    bool any = true;
    while (!x->has && any) {
        if (next_line(x, &line, false)) {
            x->has = line.n > 0;
        } else {
            SEFL_PASS(fill(x, &any));
            if (!any && end && next_line(x, &line, true))
                x->has = line.n > 0;
        }
        if (!x->has)
            continue;
        x->is_json = log_line_read(&x->line, line) == SEFL_OK;
        buf_reset(&x->raw);
        if (!x->is_json)
            SEFL_PASS(log_wr_plain(&x->raw, line));
        if (x->is_json && x->line.time_ms > 0)
            x->time_ms = x->line.time_ms;
    }
    return SEFL_OK;
}

/* ---- printing -------------------------------------------------------------------------------- */

static bool passes(const merger *m, const source *x)
{
    const wish *w = m->w;
    if (x->time_ms < m->since_ms)
        return false;
    if (!x->is_json) /* says nothing about a round or a client */
        return w->round == 0 && !w->client;
    return x->line.level >= m->level &&
           (w->round == 0 || (x->line.has_round && x->line.round == w->round)) &&
           (!w->client || strcmp(x->name, w->client) == 0 || log_line_names(&x->line, w->client));
}

static void print(const merger *m, const source *x)
{
    static const char *const colours[] = {
        [LOG_DEBUG] = "\033[2m", [LOG_INFO] = "", [LOG_WARN] = "\033[33m", [LOG_ERROR] = "\033[31m"
    };
    char clock[32] = "             ";
    const time_t t = (time_t)(x->time_ms / 1000);
    const sefl_buf *text = x->is_json ? &x->line.text : &x->raw;
    const char *colour = m->colours && x->is_json ? colours[x->line.level] : "";
    struct tm tm;
    if (x->time_ms > 0 && gmtime_r(&t, &tm)) {
        const size_t n = strftime(clock, sizeof clock, "%H:%M:%S", &tm);
        snprintf(clock + n, sizeof clock - n, ".%03uZ", (unsigned)(x->time_ms % 1000));
    }
    printf("%s%s  %-*s  %-5s  %.*s%s\n", colour, clock, (int)m->width, x->name,
           x->is_json ? log_level_name(x->line.level) : "-", (int)text->n,
           text->n > 0 ? (const char *)text->p : "", *colour ? "\033[0m" : "");
}

/* Prints what there is, in order of time. */
static sefl_status drain(merger *m, bool end)
{
    for (;;) {
        source *first = NULL;
        for (size_t i = 0; i < m->n; i++) {
            source *x = &m->at[i];
            SEFL_PASS(advance(x, end));
            if (x->has && (!first || x->time_ms < first->time_ms))
                first = x;
        }
        if (!first || interrupt_seen())
            return SEFL_OK;
        if (passes(m, first)) {
            print(m, first);
            m->any = true;
        }
        first->has = false;
    }
}

/* ---- command line ---------------------------------------------------------------------------- */

/* Reads "90s", "10m", "2h", "1d", or a time as in the log. */
static sefl_status read_since(const char *text, uint64_t *ms)
{
    static const struct {
        char unit;
        uint64_t s;
    } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
    const sefl_clock wall = clock_wall();
    uint64_t n = 0, now = clock_ms(&wall);
    size_t i = 0;
    if (log_time_read(ms, span_of_str(text)))
        return SEFL_OK;
    for (; text[i] >= '0' && text[i] <= '9' && i < 9; i++)
        n = n * 10 + (uint64_t)(text[i] - '0');
    for (size_t k = 0; k < 4 && i > 0; k++)
        if (text[i] == units[k].unit && !text[i + 1]) {
            const uint64_t ago = n * units[k].s * 1000;
            *ms = now > ago ? now - ago : 0;
            return SEFL_OK;
        }
    return sefl_fail(SEFL_EINVAL, "--since is a time such as 90s, 10m, 2h, 1d or "
                                  "2026-01-01T12:00:00Z");
}

static void end(merger *m)
{
    for (size_t i = 0; i < m->n; i++) {
        source *x = &m->at[i];
        if (x->fd != STDIN_FILENO)
            close(x->fd);
        buf_clear(&x->bytes);
        buf_clear(&x->raw);
        log_line_clear(&x->line);
    }
    sefl_free(m->at);
}

static sefl_status work(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    merger m = { .w = w, .role = w->role, .level = LOG_DEBUG };
    const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");
    m.colours = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && !(plain && *plain);
    SEFL_TRY(!w->file || !w->where ? SEFL_OK
                                   : sefl_fail(SEFL_EINVAL, "pass -c FILE or a folder, not both"));
    for (int i = LOG_DEBUG; w->level && i < LOG_OFF; i++)
        if (strcmp(w->level, log_level_name((log_level)i)) == 0)
            m.level = (log_level)i;
    if (w->since)
        SEFL_TRY(read_since(w->since, &m.since_ms));
    SEFL_TRY(cmd_logs_find(&m));
    SEFL_TRY(drain(&m, !w->follow));
    if (!m.any && !w->follow)
        (void)fputs("no line matches\n", stderr);
    while (w->follow && !interrupt_seen()) {
        (void)fflush(stdout);
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000L }, NULL);
        SEFL_TRY(drain(&m, false));
    }
done:
    end(&m);
    return st;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "config", SETTING_PATH, "", TO(file), .letter = 'c',
      .help = "Settings file of one party: only its log" },
    { "role", SETTING_WORD, "", PARTY_WORDS, TO(role), .help = "Only logs of this role" },
    { "level", SETTING_WORD, "", "debug info warn error", TO(level),
      .help = "Only lines of at least this level" },
    { "round", SETTING_U64, "0", TO(round), .max = UINT64_MAX / 2,
      .help = "Only lines about this round; 0 means all" },
    { "client", SETTING_TEXT, "", TO(client), .arg = "ID",
      .help = "Only lines about this client: its name, or the first digits of its key" },
    { "since", SETTING_TEXT, "", TO(since), .arg = "TIME",
      .help = "Only lines from this time on: 90s, 10m, 2h or 1d ago, or 2026-01-01T12:00:00Z" },
    { "follow", SETTING_FLAG, TO(follow), .help = "Wait for more lines until ctrl-c" },
    { 0 },
};

const cli_command cmd_logs = {
    .name = "logs",
    .about = "Reads the logs that servers and clients wrote (they write to standard error; 'sefl "
             "demo' and 'sefl try' keep it in the folder log) and prints their lines in order of "
             "time. WHERE is a folder, a log file, or - for standard input; by default the current "
             "folder, or its newest run. Control characters are escaped. On a terminal, warnings "
             "and errors are coloured, unless NO_COLOR is set.",
    .notes = "Under systemd: journalctl -u sefl-aggregator -o cat | sefl logs -",
    .example = "sefl logs trial --level warn --since 10m\n"
               "sefl logs -c aggregator/aggregator.yml --follow",
    CLI_OPTIONS(wish),
    CLI_WORK(work, "[WHERE]", "a folder or a log", offsetof(wish, where)),
    .interruptible = true,
};
