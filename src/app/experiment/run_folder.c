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

enum { RING = 4, STATE_MAX = 1 << 20 };

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

/* ---- metrics.jsonl --------------------------------------------------------------------------- */

sefl_status run_metrics_cut(const run_folder *f, uint64_t bytes)
{
    sefl_status st = SEFL_OK;
    struct stat sb;
    const char *path = run_path(f, "metrics.jsonl");
    int fd = open(path, O_WRONLY | (bytes ? 0 : O_CREAT) | O_CLOEXEC | O_NOFOLLOW, 0666);
    SEFL_CHECK(fd >= 0 && fstat(fd, &sb) == 0, SEFL_EIO, "%s: %s", path, strerror(errno));
    SEFL_CHECK((uint64_t)sb.st_size >= bytes, SEFL_EPROTO,
               "%s has %lld bytes, but the run wrote %llu: rounds are missing; restore the file, "
               "or remove the run folder to start over",
               path, (long long)sb.st_size, (unsigned long long)bytes);
    SEFL_CHECK(ftruncate(fd, (off_t)bytes) == 0, SEFL_EIO, "%s: %s", path, strerror(errno));
    SEFL_TRY(file_sync(fd, path));
done:
    if (fd >= 0)
        close(fd);
    return st;
}

/* ---- state ----------------------------------------------------------------------------------- */

/* Integers of a state: name in the file, member. */
#define STATE(X)                                      \
    X("phase", agg.phase)                             \
    X("round", agg.round)                             \
    X("skipped_in_row", agg.skipped_in_row)           \
    X("blocked_in_row", agg.blocked_in_row)           \
    X("rounds_without_gain", agg.rounds_without_gain) \
    X("why", agg.why)                                 \
    X("over", over)                                   \
    X("model_round", model_round)                     \
    X("best_round", best_round)                       \
    X("revealed", revealed)                           \
    X("skipped", skipped)                             \
    X("now_ms", now_ms)                               \
    X("metrics_bytes", metrics_bytes)                 \
    X("text", text)                                   \
    X("init", init)

/* Doubles are stored as the integer of their bits, so that nothing is lost. */
#define STATE_BITS(X)                              \
    X("best_perplexity_bits", agg.best_perplexity) \
    X("first_perplexity_bits", first_perplexity)   \
    X("test_best_bits", test_best)                 \
    X("test_last_bits", test_last)

sefl_status run_state_write(const run_state *s, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    uint64_t v;
    json_open(&j, '{');
#define PUT(name, member) json_key(&j, name), json_u64(&j, s->member);
#define PUT_BITS(name, member) \
    memcpy(&v, &s->member, sizeof v), json_key(&j, name), json_u64(&j, v);
    STATE(PUT)
    STATE_BITS(PUT_BITS)
#undef PUT
#undef PUT_BITS
    json_key(&j, "device"), json_str(&j, s->device);
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
    SEFL_NEED(!s->taken, SEFL_EPROTO, "\"taken\" occurs twice");
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

static sefl_status read_device(jread *j, run_state *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { .max = sizeof s->device - 1 };
    SEFL_TRY(jread_str(j, &b));
    memcpy(s->device, b.p ? b.p : (const uint8_t *)"", b.n);
    s->device[b.n] = '\0';
done:
    buf_clear(&b);
    return st;
}

static sefl_status read_member(void *ctx, jread *j, const sefl_buf *key)
{
    run_state *s = ctx;
    uint64_t v;
#define GET(name, member)                                                              \
    if (jread_is(key, name)) {                                                         \
        SEFL_PASS(jread_u64(j, &v));                                                   \
        s->member = v;                                                                 \
        SEFL_NEED((uint64_t)s->member == v, SEFL_EPROTO, "\"%s\" is too large", name); \
        return SEFL_OK;                                                                \
    }
#define GET_BITS(name, member)            \
    if (jread_is(key, name)) {            \
        SEFL_PASS(jread_u64(j, &v));      \
        memcpy(&s->member, &v, sizeof v); \
        return SEFL_OK;                   \
    }
    STATE(GET)
    STATE_BITS(GET_BITS)
#undef GET
#undef GET_BITS
    if (jread_is(key, "device"))
        return read_device(j, s);
    return jread_is(key, "taken") ? read_taken(j, s) : jread_skip(j);
}

sefl_status run_state_read(run_state *out, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    run_state s = { 0 };
    *out = (run_state){ 0 };
    SEFL_TRY(file_read(&b, path, STATE_MAX));
    SEFL_TRY(jread_document(buf_span(&b), read_member, &s));
    SEFL_CHECK(s.agg.phase < AGG_PHASES && s.agg.round >= 1, SEFL_EPROTO,
               "%s is not the state of a run", path);
    *out = s, s = (run_state){ 0 };
done:
    run_state_clear(&s);
    buf_clear(&b);
    return st;
}

void run_state_clear(run_state *s)
{
    sefl_free(s->taken);
    *s = (run_state){ 0 };
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Writes the key of the first line in which two files differ. */
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

/* On file systems without locks on folders the ledger's lock remains. */
sefl_status run_folder_lock(int *lock, const char *folder)
{
    *lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    SEFL_NEED(*lock >= 0, SEFL_EIO, "%s: %s", folder, strerror(errno));
    SEFL_NEED(flock(*lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK, SEFL_ESTATE,
              "%s is in use by another process: wait for it, or choose another folder", folder);
    return SEFL_OK;
}

/* Fails unless the folder is empty, apart from an unfinished first config.yml. */
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
            "%s exists but is not a run folder (it has %.64s, no config.yml): choose another name",
            f->root, e->d_name);
done:
    if (d)
        closedir(d);
    return st;
}

/* True if the run failed its checks or stopped in its first round: replacing it loses nothing. */
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
    SEFL_CHECK(n > 0 && (size_t)n < sizeof f->root, SEFL_EINVAL,
               "the path of the run folder is too long");
    SEFL_TRY(file_make_folder(runs, 0777));
    SEFL_TRY(file_make_folder(f->root, 0777));
    SEFL_TRY(run_folder_lock(&f->lock, f->root));
    st = file_read(&old, run_path(f, "config.yml"), 1 << 20);
    if (st == SEFL_OK) {
        if (old.n == config.n && memcmp(old.p, config.p, old.n) == 0)
            goto done;
        if (!never_began(f)) {
            first_difference(key, sizeof key, buf_span(&old), config);
            st = sefl_fail(SEFL_EEXIST,
                           "%s holds another run (%s differs): choose another name, or remove it",
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

const char *run_model_path(const run_folder *f, uint64_t round)
{
    return run_path(f, "model/round-%llu.safetensors", (unsigned long long)round);
}

sefl_status run_folder_link(const run_folder *f, const char *name, uint64_t round)
{
    const char *tmp = run_path(f, "model/%s.tmp", name), *to = run_path(f, "model/%s", name);
    (void)unlink(tmp);
    SEFL_NEED(link(run_model_path(f, round), tmp) == 0 && rename(tmp, to) == 0, SEFL_EIO, "%s: %s",
              to, strerror(errno));
    (void)unlink(tmp); /* rename does nothing if both are already the same file */
    return SEFL_OK;
}
