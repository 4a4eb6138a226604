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

/* ---- lines of metrics ------------------------------------------------------------------------- */

/* Name, member, and whether it is left out at zero (R, 0: always there). */
#define ROUND_COUNTS(X)   \
    X("clients", clients) \
    X("asked", asked)     \
    X("late", late)       \
    X("dropped", dropped) \
    X("diverged", diverged)
#define ROUND_REALS(X)            \
    X("seconds", seconds)         \
    X("train_seconds", train)     \
    X("encrypt_seconds", encrypt) \
    X("sum_seconds", sum)         \
    X("2pc_seconds", twopc)       \
    X("step_seconds", step)       \
    X("eval_seconds", eval)       \
    X("cpu_seconds", cpu)         \
    X("virtual_seconds", virtual_seconds)

sefl_status run_round_write(sefl_buf *out, const run_round *r)
{
    json j = json_into(out);
    json_open(&j, '{');
    json_key(&j, "round"), json_u64(&j, r->round);
    json_key(&j, "skipped"), json_bool(&j, r->skipped);
    if (r->blocked)
        json_key(&j, "blocked"), json_bool(&j, true);
#define WRITE(name, member) json_key(&j, name), json_u64(&j, r->member);
    ROUND_COUNTS(WRITE)
#undef WRITE
    if (r->perplexity > 0) {
        json_key(&j, "perplexity"), json_real(&j, r->perplexity);
        json_key(&j, "loss"), json_real(&j, r->loss);
    }
    if (r->has_epsilon) {
        json_key(&j, "epsilon_server"), json_real(&j, r->epsilon_server);
        json_key(&j, "epsilon_others"), json_real(&j, r->epsilon_others);
        json_key(&j, "epsilon_target"), json_real(&j, r->epsilon_target);
    }
#define WRITE(name, member) json_key(&j, name), json_real(&j, r->member);
    ROUND_REALS(WRITE)
#undef WRITE
    json_key(&j, "up_bytes"), json_u64(&j, r->up);
    json_key(&j, "down_bytes"), json_u64(&j, r->down);
    if (r->link != UINT64_MAX)
        json_key(&j, "link_bytes"), json_u64(&j, r->link);
    json_close(&j, '}');
    return json_end(&j);
}

static sefl_status read_count(jread *j, uint32_t *out)
{
    uint64_t v;
    sefl_status st = jread_u64(j, &v);
    *out = (uint32_t)v;
    return st;
}

static sefl_status read_member(jread *j, const sefl_buf *key, run_round *r)
{
    if (jread_is(key, "round"))
        return jread_u64(j, &r->round);
    if (jread_is(key, "skipped")) {
        r->skipped = jread_peek(j) == 't';
        return jread_skip(j);
    }
    if (jread_is(key, "blocked")) {
        r->blocked = jread_peek(j) == 't';
        return jread_skip(j);
    }
    if (jread_is(key, "up_bytes"))
        return jread_u64(j, &r->up);
    if (jread_is(key, "down_bytes"))
        return jread_u64(j, &r->down);
    if (jread_is(key, "link_bytes"))
        return jread_u64(j, &r->link);
    if (jread_is(key, "epsilon_server")) {
        r->has_epsilon = true;
        return jread_real(j, &r->epsilon_server);
    }
#define READ(name, member)   \
    if (jread_is(key, name)) \
        return read_count(j, &r->member);
    ROUND_COUNTS(READ)
#undef READ
#define READ(name, member)   \
    if (jread_is(key, name)) \
        return jread_real(j, &r->member);
    ROUND_REALS(READ)
    READ("perplexity", perplexity)
    READ("loss", loss)
    READ("epsilon_others", epsilon_others)
    READ("epsilon_target", epsilon_target)
#undef READ
    return jread_skip(j);
}

sefl_status run_round_read(run_round *out, sefl_span line)
{
    sefl_status st = SEFL_OK;
    sefl_buf key = { 0 };
    jread j = jread_over(line);
    run_round r = { .link = UINT64_MAX };
    bool more;
    SEFL_TRY(jread_open(&j, '{'));
    for (;;) {
        SEFL_TRY(jread_key(&j, &key, &more));
        if (!more)
            break;
        SEFL_TRY(read_member(&j, &key, &r));
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

/* Numbers, in this order; the best perplexity as the bits of its double, so that nothing is lost. */
#define STATE_FIELDS(X)                                            \
    X("phase", (uint64_t)s->agg.phase)                             \
    X("round", s->agg.round)                                       \
    X("skipped_in_row", (uint64_t)s->agg.skipped_in_row)           \
    X("blocked_in_row", (uint64_t)s->agg.blocked_in_row)           \
    X("rounds_without_gain", (uint64_t)s->agg.rounds_without_gain) \
    X("why", (uint64_t)s->agg.why)                                 \
    X("best_perplexity_bits", bits_of(s->agg.best_perplexity))     \
    X("over", (uint64_t)s->over)                                   \
    X("model_round", s->model_round)                               \
    X("best_round", s->best_round)                                 \
    X("opened", s->opened)                                         \
    X("skipped", s->skipped)                                       \
    X("now_ms", s->now_ms)                                         \
    X("metrics_bytes", s->metrics_bytes)                           \
    X("text", s->text)                                             \
    X("first_perplexity_bits", bits_of(s->first_perplexity))

static uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

sefl_status run_state_write(const run_state *s, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
#define WRITE(name, value) json_key(&j, name), json_u64(&j, value);
    STATE_FIELDS(WRITE)
#undef WRITE
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
    sefl_status st = SEFL_OK;
    bool more;
    uint64_t v;
    size_t room = 0;
    SEFL_CHECK(!s->taken, SEFL_EPROTO, "\"taken\" is there twice");
    SEFL_TRY(jread_open(j, '['));
    for (;;) {
        SEFL_TRY(jread_item(j, &more));
        if (!more)
            break;
        SEFL_TRY(jread_u64(j, &v));
        SEFL_TRY(sefl_room(&s->taken, &room, s->clients + 1, sizeof v));
        s->taken[s->clients++] = v;
    }
done:
    return st;
}

sefl_status run_state_read(run_state *out, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 }, key = { 0 };
    run_state tmp = { 0 }, *s = &tmp;
    uint64_t phase = 0, in_row = 0, blocked = 0, without = 0, why = 0, bits = 0, over = 0,
             first = 0;
    bool more;
    *out = (run_state){ 0 };
    SEFL_TRY(file_read(&b, path, STATE_MAX));
    jread j = jread_over(buf_span(&b));
    const struct {
        const char *name;
        uint64_t *to;
    } fields[] = { { "phase", &phase },
                   { "round", &s->agg.round },
                   { "skipped_in_row", &in_row },
                   { "blocked_in_row", &blocked },
                   { "rounds_without_gain", &without },
                   { "why", &why },
                   { "best_perplexity_bits", &bits },
                   { "over", &over },
                   { "model_round", &s->model_round },
                   { "best_round", &s->best_round },
                   { "opened", &s->opened },
                   { "skipped", &s->skipped },
                   { "now_ms", &s->now_ms },
                   { "metrics_bytes", &s->metrics_bytes },
                   { "text", &s->text },
                   { "first_perplexity_bits", &first } };
    SEFL_TRY(jread_open(&j, '{'));
    for (;;) {
        SEFL_TRY(jread_key(&j, &key, &more));
        if (!more)
            break;
        bool known = false;
        for (size_t i = 0; i < sizeof fields / sizeof *fields && !known; i++)
            if ((known = jread_is(&key, fields[i].name)))
                SEFL_TRY(jread_u64(&j, fields[i].to));
        if (!known && jread_is(&key, "taken"))
            SEFL_TRY(read_taken(&j, s));
        else if (!known)
            SEFL_TRY(jread_skip(&j));
    }
    SEFL_TRY(jread_end(&j));
    SEFL_CHECK(phase < AGG_PHASES && s->agg.round >= 1, SEFL_EPROTO, "%s is no state of a run",
               path);
    s->agg.phase = (agg_phase)phase;
    s->agg.skipped_in_row = (uint32_t)in_row;
    s->agg.blocked_in_row = (uint32_t)blocked;
    s->agg.rounds_without_gain = (uint32_t)without;
    s->agg.why = (agg_why)why;
    memcpy(&s->agg.best_perplexity, &bits, sizeof bits);
    memcpy(&s->first_perplexity, &first, sizeof first);
    s->over = over != 0;
    *out = tmp, tmp = (run_state){ 0 };
done:
    run_state_clear(&tmp);
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
    sefl_status st = SEFL_OK;
    const char *tmp = run_path(f, "model/%s.tmp", name), *to = run_path(f, "model/%s", name);
    (void)unlink(tmp);
    SEFL_CHECK(link(run_path(f, "model/%s", target), tmp) == 0 && rename(tmp, to) == 0, SEFL_EIO,
               "%s: %s", to, strerror(errno));
    (void)unlink(tmp); /* rename does nothing where both are one file already */
done:
    return st;
}
