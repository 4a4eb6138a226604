#include "roles/control.h"

#include "base/file.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/json_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ORDER_MAX = 1024, LOCK_TRIES = 20, LOCK_MS = 10 };

static const char *const words[] = { [CONTROL_PAUSE] = "pause",
                                     [CONTROL_RESUME] = "resume",
                                     [CONTROL_END] = "end",
                                     [CONTROL_CLOSE] = "close" };
enum { WORDS = sizeof words / sizeof *words };

/* ---- the order ------------------------------------------------------------------------------- */

typedef struct reading {
    control_order o;
    unsigned got; /* one bit per member */
} reading;

static sefl_status read_word(jread *j, control_word *out)
{
    sefl_buf b = { 0 };
    sefl_status st = jread_str(j, &b);
    size_t i = 0;
    while (st == SEFL_OK && i < WORDS && !jread_is(&b, words[i]))
        i++;
    buf_clear(&b);
    SEFL_PASS(st);
    SEFL_NEED(i < WORDS, SEFL_EPROTO, "an order is pause, resume, end or close");
    *out = (control_word)i;
    return SEFL_OK;
}

static sefl_status read_task(jread *j, uint8_t out[32])
{
    sefl_buf b = { 0 };
    sefl_status st = jread_str(j, &b);
    bool good = st == SEFL_OK && hex_read_any(out, 32, buf_span(&b));
    buf_clear(&b);
    SEFL_PASS(st);
    SEFL_NEED(good, SEFL_EPROTO, "an order needs a task's id in hex");
    return SEFL_OK;
}

static sefl_status read_member(void *ctx, jread *j, const sefl_buf *key)
{
    static const char *const members[] = { "id", "task", "order", "now", "round" };
    reading *r = ctx;
    unsigned i = 0;
    while (i < 5 && !jread_is(key, members[i]))
        i++;
    SEFL_NEED(i < 5 && !(r->got & 1u << i), SEFL_EPROTO, "an unknown or repeated member");
    r->got |= 1u << i;
    return i == 0   ? jread_u64(j, &r->o.id)
           : i == 1 ? read_task(j, r->o.task)
           : i == 2 ? read_word(j, &r->o.word)
           : i == 3 ? jread_bool(j, &r->o.now)
                    : jread_u64(j, &r->o.round);
}

sefl_status control_parse(control_order *out, sefl_span text)
{
    reading r = { 0 };
    *out = (control_order){ 0 };
    SEFL_PASS(jread_document(text, read_member, &r));
    SEFL_NEED(r.got == (r.o.word == CONTROL_CLOSE ? 31u : 15u) && r.o.id != 0, SEFL_EPROTO,
              "a member is missing, or does not belong to this order");
    *out = r.o;
    return SEFL_OK;
}

sefl_status control_read(const char *state, control_order *out)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    uint8_t bytes[ORDER_MAX + 1];
    struct stat s, folder;
    size_t n;
    *out = (control_order){ 0 };
    SEFL_PASS(file_path(path, "%s/" CONTROL_FILE, state));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    SEFL_NEED(fd >= 0, errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO, "cannot open %s: %s", path,
              strerror(errno));
    SEFL_CHECK(fstat(fd, &s) == 0 && S_ISREG(s.st_mode), SEFL_EAUTH, "%s is not a file", path);
    SEFL_CHECK(stat(state, &folder) == 0, SEFL_EIO, "cannot read %s: %s", state, strerror(errno));
    SEFL_CHECK((s.st_uid == folder.st_uid || s.st_uid == 0) && (s.st_mode & 022) == 0, SEFL_EAUTH,
               "%s belongs to another user, or others may write it: it is ignored; delete it",
               path);
    SEFL_TRY(file_read_at(fd, path, 0, bytes, sizeof bytes, &n));
    SEFL_CHECK(n <= ORDER_MAX, SEFL_EPROTO, "%s has more than %d bytes: delete it", path,
               ORDER_MAX);
    SEFL_TRY(
        sefl_at(control_parse(out, span_of(bytes, n)), "delete %s, which is not an order", path));
done:
    close(fd);
    return st;
}

/* A command of root writes it for a server that has dropped its rights. */
static sefl_status write_file(const char *state, const char *path, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    file_tmp t = { 0 };
    struct stat s;
    SEFL_NEED(stat(state, &s) == 0, SEFL_ENOTFOUND,
              "cannot read the state folder %s: %s (has the server ever started?)", state,
              strerror(errno));
    SEFL_TRY(file_tmp_open(&t, path, 0600));
    SEFL_CHECK(s.st_uid == geteuid() || fchown(t.fd, s.st_uid, s.st_gid) == 0, SEFL_EIO,
               "%s belongs to another user: run this as that user, or as root", state);
    SEFL_TRY(file_write_all(t.fd, bytes));
    SEFL_TRY(file_sync(t.fd, path));
    SEFL_TRY(file_tmp_publish(&t, path, true));
    SEFL_TRY(file_sync_folder(state));
done:
    file_tmp_clear(&t);
    return st;
}

sefl_status control_allows(const char *state, const control_order *o)
{
    control_order before;
    sefl_status st = control_read(state, &before);
    SEFL_PASS(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    SEFL_NEED(st != SEFL_OK || before.word != CONTROL_END || o->word == CONTROL_END ||
                  memcmp(before.task, o->task, sizeof o->task) != 0,
              SEFL_ESTATE, "this task was ended: that is final%s",
              o->word == CONTROL_CLOSE ? ". Its last round goes on to its deadline; 'sefl task end "
                                         "--now' drops it"
                                       : "");
    return SEFL_OK;
}

sefl_status control_write(const char *state, const control_order *o)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX], hex[HEX_CHARS(32)];
    sefl_buf b = { 0 };
    json j = json_into(&b);
    int one = open(state, O_RDONLY | O_CLOEXEC | O_DIRECTORY); /* locked: one writer at a time */
    if (one >= 0)
        (void)!flock(one, LOCK_EX);
    SEFL_TRY(control_allows(state, o));
    SEFL_TRY(file_path(path, "%s/" CONTROL_FILE, state));
    json_open(&j, '{');
    json_fields(&j, lf_u64("id", o->id), lf_str("task", hex_write(hex, o->task, 32)),
                lf_str("order", words[o->word]), lf_bool("now", o->now),
                lf_if(o->word == CONTROL_CLOSE, lf_u64("round", o->round)));
    json_close(&j, '}');
    SEFL_TRY(json_end(&j));
    SEFL_TRY(wr_u8(&b, '\n'));
    SEFL_TRY(write_file(state, path, buf_span(&b)));
done:
    if (one >= 0)
        close(one);
    buf_clear(&b);
    return st;
}

/* ---- the server ------------------------------------------------------------------------------ */

static int open_lock(const char *state, int flags)
{
    char path[PATH_MAX];
    if (file_path(path, "%s/running", state) != SEFL_OK)
        return -1;
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

bool control_is_running(const char *state)
{
    int fd = open_lock(state, O_RDONLY);
    bool taken = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0;
    if (fd >= 0)
        close(fd);
    return taken;
}

sefl_status control_open(control *c, const char *state)
{
    *c = (control){ .lock = -1 };
    SEFL_PASS(file_path(c->state, "%s", state));
    SEFL_PASS(file_make_folder(state, 0700));
    c->lock = open_lock(state, O_RDWR | O_CREAT);
    /* `sefl status` holds it for a moment; the journal's lock refuses a second server */
    for (int i = 0; c->lock >= 0 && i < LOCK_TRIES && flock(c->lock, LOCK_EX | LOCK_NB) != 0; i++)
        nanosleep(&(struct timespec){ .tv_nsec = LOCK_MS * 1000000L }, NULL);
    return SEFL_OK;
}

void control_close(control *c)
{
    if (!c || !*c->state)
        return;
    if (c->lock >= 0)
        close(c->lock);
    buf_clear(&c->status);
    *c = (control){ .lock = -1 };
}

bool control_look(control *c, const uint8_t task[32], control_order *out, sefl_log *log)
{
    sefl_status st = control_read(c->state, out);
    if (st != SEFL_OK && st != SEFL_ENOTFOUND && !c->refused) {
        c->refused = true;
        log_error(log, "the operator's order is refused", lf_str("why", sefl_last_error()));
    }
    if (st != SEFL_OK || out->id == c->seen || memcmp(out->task, task, sizeof out->task) != 0)
        return false;
    c->seen = out->id;
    c->refused = false;
    return true;
}

void control_forget(control *c)
{
    c->seen = 0;
}

void control_status(control *c, sefl_span page, sefl_log *log)
{
    char path[PATH_MAX];
    if (c->status.n == page.n && memcmp(c->status.p, page.p, page.n) == 0)
        return;
    buf_reset(&c->status);
    file_sync_skip(true); /* the next one replaces it */
    bool good = wr_raw(&c->status, page.p, page.n) == SEFL_OK &&
                file_path(path, "%s/" CONTROL_STATUS, c->state) == SEFL_OK &&
                file_write_atomic(path, page, 0600) == SEFL_OK;
    file_sync_skip(false);
    if (!good && !c->unwritten)
        log_error(log, "status.json not written", lf_str("why", sefl_last_error()));
    c->unwritten = !good;
}
