#include "simulate/run_folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RING = 4, METRICS_MAX = 1 << 30, STATE_MAX = 1 << 20, LINE_MOST = 4096 };

const char *run_path(const run_folder *f, const char *fmt, ...)
{
    static _Thread_local char path[RING][PATH_MAX];
    static _Thread_local unsigned next;
    char *p = path[next++ % RING];
    va_list ap;
    int n = snprintf(p, PATH_MAX, "%s/", f->root);
    va_start(ap, fmt);
    vsnprintf(p + n, (size_t)(PATH_MAX - n), fmt, ap);
    va_end(ap);
    return p;
}

/* ---- structs as JSON objects ------------------------------------------------------------------ */

typedef enum kind {
    NUMBER, /* an unsigned integer, enum or bool of 1, 4 or 8 bytes */
    FLAG,   /* bool: true or false */
    REAL,
    BITS, /* a double as the number of its bits, so that nothing is lost */
} kind;

typedef struct field {
    const char *name;
    kind kind;
    size_t at, size;
    bool optional; /* left out where it is zero (a NUMBER: UINT64_MAX) */
    size_t when;   /* offset of a bool that is true where the field is there; 0: none */
} field;

#define FIELD(type, name, kind, member, ...)                                           \
    {                                                                                  \
        name, kind, offsetof(type, member), sizeof(((type *)0)->member), ##__VA_ARGS__ \
    }

static uint64_t number_at(const void *p, size_t size)
{
    uint32_t four;
    uint64_t eight;
    if (size == sizeof eight)
        return memcpy(&eight, p, sizeof eight), eight;
    if (size == sizeof four)
        return memcpy(&four, p, sizeof four), four;
    return *(const uint8_t *)p;
}

static void number_put(void *p, size_t size, uint64_t v)
{
    uint32_t four = (uint32_t)v;
    uint8_t one = (uint8_t)v;
    memcpy(p, size == sizeof v ? (void *)&v : size == sizeof four ? (void *)&four : &one, size);
}

static void write_fields(json *j, const field *f, const void *from)
{
    for (; f->name; f++) {
        const uint8_t *at = (const uint8_t *)from + f->at;
        uint64_t v = number_at(at, f->size);
        double real;
        memcpy(&real, &v, sizeof real);
        if ((f->optional && v == (f->kind == NUMBER ? UINT64_MAX : 0)) ||
            (f->when && !*((const bool *)from + f->when)))
            continue;
        json_key(j, f->name);
        if (f->kind == FLAG)
            json_bool(j, v != 0);
        else if (f->kind == REAL)
            json_real(j, real);
        else
            json_u64(j, v);
    }
}

/* The value of `key` into its field; *known false: no field has this name. */
static sefl_status read_field(jread *j, const field *f, const sefl_buf *key, void *to, bool *known)
{
    sefl_status st = SEFL_OK;
    uint64_t v = 0;
    double real;
    bool flag;
    while (f->name && !jread_is(key, f->name))
        f++;
    *known = f->name != NULL;
    if (!f->name)
        goto done;
    if (f->kind == REAL) {
        SEFL_TRY(jread_real(j, &real));
        memcpy(&v, &real, sizeof v);
    } else if (f->kind == FLAG) {
        SEFL_TRY(jread_bool(j, &flag));
        v = flag;
    } else {
        SEFL_TRY(jread_u64(j, &v));
    }
    SEFL_CHECK(f->size == sizeof v || v >> (8 * f->size) == 0, SEFL_EPROTO, "\"%s\" is too large",
               f->name);
    number_put((uint8_t *)to + f->at, f->size, v);
    if (f->when)
        *((bool *)to + f->when) = true;
done:
    return st;
}

/* ---- lines of metrics ------------------------------------------------------------------------- */

#define R(...) FIELD(run_round, __VA_ARGS__)
static const field round_fields[] = {
    R("round", NUMBER, round),
    R("skipped", FLAG, skipped),
    R("blocked", FLAG, blocked, true),
    R("clients", NUMBER, clients),
    R("asked", NUMBER, asked),
    R("late", NUMBER, late),
    R("dropped", NUMBER, dropped),
    R("diverged", NUMBER, diverged),
    R("perplexity", REAL, perplexity, true),
    R("loss", REAL, loss, true),
    R("epsilon_server", REAL, epsilon_server, false, offsetof(run_round, has_epsilon)),
    R("epsilon_others", REAL, epsilon_others, false, offsetof(run_round, has_epsilon)),
    R("epsilon_target", REAL, epsilon_target, false, offsetof(run_round, has_epsilon)),
    R("seconds", REAL, seconds),
    R("train_seconds", REAL, train),
    R("encrypt_seconds", REAL, encrypt),
    R("sum_seconds", REAL, sum),
    R("2pc_seconds", REAL, twopc),
    R("step_seconds", REAL, step),
    R("eval_seconds", REAL, eval),
    R("cpu_seconds", REAL, cpu),
    R("virtual_seconds", REAL, virtual_seconds),
    R("up_bytes", NUMBER, up),
    R("down_bytes", NUMBER, down),
    R("link_bytes", NUMBER, link, true),
    { 0 },
};
#undef R

sefl_status run_round_write(sefl_buf *out, const run_round *r)
{
    json j = json_into(out);
    json_open(&j, '{');
    write_fields(&j, round_fields, r);
    json_close(&j, '}');
    return json_end(&j);
}

sefl_status run_round_read(run_round *out, sefl_span line)
{
    sefl_status st = SEFL_OK;
    sefl_buf key = { 0 };
    jread j = jread_over(line);
    run_round r = { .link = UINT64_MAX };
    bool more, known;
    SEFL_TRY(jread_open(&j, '{'));
    for (;;) {
        SEFL_TRY(jread_key(&j, &key, &more));
        if (!more)
            break;
        SEFL_TRY(read_field(&j, round_fields, &key, &r, &known));
        if (!known)
            SEFL_TRY(jread_skip(&j));
    }
    SEFL_TRY(jread_end(&j));
    SEFL_CHECK(r.round >= 1, SEFL_EPROTO, "a line without its round");
    *out = r;
done:
    buf_clear(&key);
    return st;
}

sefl_status run_metrics_read(run_round **out, size_t *n, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    run_round *list = NULL;
    size_t count = 0, lines = 0;
    *out = NULL, *n = 0;
    SEFL_TRY(file_read(&b, path, METRICS_MAX));
    for (size_t i = 0; i < b.n; i++)
        lines += b.p[i] == '\n';
    SEFL_TRY(sefl_new(&list, lines ? lines : 1, sizeof *list));
    for (size_t at = 0; count < lines; count++) {
        const uint8_t *end = memchr(b.p + at, '\n', b.n - at);
        size_t length = (size_t)(end - (b.p + at));
        st = run_round_read(&list[count], span_of(b.p + at, length));
        if (st != SEFL_OK) {
            char why[256];
            snprintf(why, sizeof why, "%s", sefl_last_error());
            st = sefl_fail(st, "%s:%zu: %s", path, count + 1, why);
            goto done;
        }
        at += length + 1;
    }
    *out = list, *n = count, list = NULL;
done:
    buf_clear(&b);
    sefl_free(list);
    return st;
}

sefl_status run_metrics_cut(const run_folder *f, uint64_t bytes)
{
    sefl_status st = SEFL_OK;
    struct stat sb;
    const char *path = run_path(f, "metrics.jsonl");
    int fd = open(path, O_WRONLY | (bytes ? 0 : O_CREAT) | O_CLOEXEC | O_NOFOLLOW, 0666);
    SEFL_CHECK(fd >= 0 && fstat(fd, &sb) == 0, SEFL_EIO, "%s: %s", path, strerror(errno));
    SEFL_CHECK(
        (uint64_t)sb.st_size >= bytes, SEFL_EPROTO,
        "%s has %lld bytes where the run left %llu: rounds are missing; put it back, or remove "
        "the run's folder to begin anew",
        path, (long long)sb.st_size, (unsigned long long)bytes);
    SEFL_CHECK(ftruncate(fd, (off_t)bytes) == 0, SEFL_EIO, "%s: %s", path, strerror(errno));
    SEFL_TRY(file_sync(fd, path));
done:
    if (fd >= 0)
        close(fd);
    return st;
}

sefl_status run_metrics_append(const run_folder *f, const run_round *r, uint64_t *bytes)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    struct stat sb;
    const char *path = run_path(f, "metrics.jsonl");
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "%s: %s", path, strerror(errno));
    SEFL_TRY(run_round_write(&b, r));
    SEFL_TRY(wr_u8(&b, '\n'));
    SEFL_TRY(file_write_all(fd, buf_span(&b)));
    SEFL_TRY(file_sync(fd, path));
    SEFL_CHECK(fstat(fd, &sb) == 0, SEFL_EIO, "%s: %s", path, strerror(errno));
    *bytes = (uint64_t)sb.st_size;
done:
    if (fd >= 0)
        close(fd);
    buf_clear(&b);
    return st;
}

/* ---- state ------------------------------------------------------------------------------------ */

#define S(...) FIELD(run_state, __VA_ARGS__)
static const field state_fields[] = {
    S("phase", NUMBER, agg.phase),
    S("round", NUMBER, agg.round),
    S("skipped_in_row", NUMBER, agg.skipped_in_row),
    S("blocked_in_row", NUMBER, agg.blocked_in_row),
    S("rounds_without_gain", NUMBER, agg.rounds_without_gain),
    S("why", NUMBER, agg.why),
    S("best_perplexity_bits", BITS, agg.best_perplexity),
    S("over", NUMBER, over),
    S("model_round", NUMBER, model_round),
    S("best_round", NUMBER, best_round),
    S("opened", NUMBER, opened),
    S("skipped", NUMBER, skipped),
    S("now_ms", NUMBER, now_ms),
    S("metrics_bytes", NUMBER, metrics_bytes),
    S("text", NUMBER, text),
    S("first_perplexity_bits", BITS, first_perplexity),
    { 0 },
};
#undef S

sefl_status run_state_write(const run_state *s, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    write_fields(&j, state_fields, s);
    json_key(&j, "taken"), json_open(&j, '[');
    for (uint32_t i = 0; i < s->clients; i++)
        json_u64(&j, s->taken[i]);
    json_close(&j, ']');
    json_close(&j, '}');
    SEFL_TRY(json_end(&j));
    SEFL_TRY(file_write_atomic(path, buf_span(&b), 0666));
done:
    buf_clear(&b);
    return st;
}

static sefl_status read_taken(jread *j, run_state *s)
{
    bool more;
    uint64_t v;
    size_t room = 0;
    SEFL_NEED(!s->taken, SEFL_EPROTO, "\"taken\" is there twice");
    SEFL_PASS(jread_open(j, '['));
    for (;;) {
        SEFL_PASS(jread_item(j, &more));
        if (!more)
            break;
        SEFL_PASS(jread_u64(j, &v));
        SEFL_PASS(sefl_room(&s->taken, &room, s->clients + 1, sizeof v));
        s->taken[s->clients++] = v;
    }
    return SEFL_OK;
}

sefl_status run_state_read(run_state *out, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 }, key = { 0 };
    run_state s = { 0 };
    bool more, known;
    *out = (run_state){ 0 };
    SEFL_TRY(file_read(&b, path, STATE_MAX));
    jread j = jread_over(buf_span(&b));
    SEFL_TRY(jread_open(&j, '{'));
    for (;;) {
        SEFL_TRY(jread_key(&j, &key, &more));
        if (!more)
            break;
        SEFL_TRY(read_field(&j, state_fields, &key, &s, &known));
        if (!known && jread_is(&key, "taken"))
            SEFL_TRY(read_taken(&j, &s));
        else if (!known)
            SEFL_TRY(jread_skip(&j));
    }
    SEFL_TRY(jread_end(&j));
    SEFL_CHECK(s.agg.phase < AGG_PHASES && s.agg.round >= 1, SEFL_EPROTO, "%s is no state of a run",
               path);
    *out = s, s = (run_state){ 0 };
done:
    run_state_clear(&s);
    buf_clear(&b);
    buf_clear(&key);
    return st;
}

void run_state_clear(run_state *s)
{
    sefl_free(s->taken);
    *s = (run_state){ 0 };
}

/* ---- the folder -------------------------------------------------------------------------------- */

/* "key" of the first line in which two files differ. */
static void first_difference(char *out, size_t n, sefl_span a, sefl_span b)
{
    size_t at = 0, line = 0;
    while (at < a.n && at < b.n && a.p[at] == b.p[at])
        if (a.p[at++] == '\n')
            line = at;
    sefl_span s = line < b.n ? b : a;
    size_t m = 0;
    while (line < s.n && (s.p[line] == '#' || s.p[line] == ' '))
        line++;
    while (line + m < s.n && s.p[line + m] != ':' && s.p[line + m] != '\n')
        m++;
    snprintf(out, n, "%.*s", (int)m, (const char *)s.p + line);
}

/* One process at a time. Where the file system knows no locks on folders, the ledger's has to do. */
static sefl_status lock_folder(run_folder *f)
{
    sefl_status st = SEFL_OK;
    int fd = open(f->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "%s: %s", f->root, strerror(errno));
    SEFL_CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK, SEFL_ESTATE,
               "%s is in use by another process", f->root);
    f->lock = fd, fd = -1;
done:
    if (fd >= 0)
        close(fd);
    return st;
}

/* Nothing in it but what a first config.yml leaves that was not finished. */
static sefl_status must_be_empty(const run_folder *f)
{
    sefl_status st = SEFL_OK;
    DIR *d = opendir(f->root);
    SEFL_CHECK(d, SEFL_EIO, "%s: %s", f->root, strerror(errno));
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        SEFL_CHECK(
            strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
                strncmp(e->d_name, "config.yml.tmp-", 15) == 0,
            SEFL_EEXIST,
            "%s is there and holds no simulated run (%.64s, no config.yml): take another name",
            f->root, e->d_name);
done:
    if (d)
        closedir(d);
    return st;
}

/* A run whose settings were refused, or that was stopped in its first round: nothing is lost with it. */
static bool never_began(const run_folder *f)
{
    struct stat sb;
    return stat(run_path(f, "model"), &sb) == 0 && S_ISDIR(sb.st_mode) &&
           !file_exists(run_path(f, "state")) &&
           (stat(run_path(f, "metrics.jsonl"), &sb) != 0 || sb.st_size == 0);
}

sefl_status run_folder_open(run_folder *f, const char *runs, const char *name, sefl_span config,
                            bool *fresh)
{
    sefl_status st = SEFL_OK;
    sefl_buf old = { 0 };
    char key[64];
    *fresh = false;
    f->lock = -1;
    int n = snprintf(f->root, sizeof f->root, "%s/%s", runs, name);
    SEFL_CHECK(n > 0 && (size_t)n < sizeof f->root, SEFL_EINVAL, "the folder's name is too long");
    SEFL_TRY(file_make_folder(runs, 0777));
    SEFL_TRY(file_make_folder(f->root, 0777));
    SEFL_TRY(lock_folder(f));
    st = file_read(&old, run_path(f, "config.yml"), 1 << 20);
    if (st == SEFL_OK) {
        if (old.n == config.n && memcmp(old.p, config.p, old.n) == 0)
            goto done;
        if (!never_began(f)) {
            first_difference(key, sizeof key, buf_span(&old), config);
            st = sefl_fail(SEFL_EEXIST,
                           "%s holds another run (%s differs): take another name, or remove it",
                           f->root, key);
            goto done;
        }
    } else if (st == SEFL_ENOTFOUND) {
        SEFL_TRY(must_be_empty(f));
    } else {
        goto done;
    }
    *fresh = true;
    SEFL_TRY(file_write_atomic(run_path(f, "config.yml"), config, 0666));
    SEFL_TRY(file_make_folder(run_path(f, "model"), 0777));
done:
    if (st != SEFL_OK)
        run_folder_close(f);
    buf_clear(&old);
    return st;
}

void run_folder_close(run_folder *f)
{
    if (f->lock >= 0)
        close(f->lock);
    f->lock = -1;
}

sefl_status run_folder_link(const run_folder *f, const char *name, const char *target)
{
    const char *tmp = run_path(f, "model/%s.tmp", name), *to = run_path(f, "model/%s", name);
    (void)unlink(tmp);
    SEFL_NEED(link(run_path(f, "model/%s", target), tmp) == 0 && rename(tmp, to) == 0, SEFL_EIO,
              "%s: %s", to, strerror(errno));
    (void)unlink(tmp); /* rename does nothing where both are one file already */
    return SEFL_OK;
}
