#include "roles/client/store.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/file.h"
#include "base/hex.h"
#include "roles/client/receipts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define MAGIC CLIENT_MARK_MAGIC
#define FINAL "final-"

enum { MAGIC_BYTES = 8, BODY_BYTES = MAGIC_BYTES + 32 + 8 + 8 + 1 + 1 + 32 + 32 + 8 + 32 };

struct client_store {
    int lock;
    char *folder;
    receipts *receipts, *counted;
    uint8_t task[TASK_ID];
    size_t head_bytes;
    client_mark mark;
    bool lost;
    uint64_t counted_round; /* the last round of this task with a known outcome */
    unsigned misses;        /* consecutive misses up to that round */
    char mark_path[PATH_MAX], path[CLIENT_FILES][PATH_MAX];
};

static sefl_status set_paths(client_store *s)
{
    char id[HEX_CHARS(TASK_ID)];
    SEFL_PASS(
        file_path(s->path[CLIENT_BODY], "%s/round-%" PRIu64 ".body", s->folder, s->mark.round));
    SEFL_PASS(file_path(s->path[CLIENT_MODEL], "%s/model-%" PRIu64, s->folder, s->mark.round));
    SEFL_PASS(
        file_path(s->path[CLIENT_FINAL], "%s/" FINAL "%016" PRIx64, s->folder, load_u64(s->task)));
    SEFL_PASS(file_path(s->mark_path, "%s/mark-%s", s->folder, hex_write(id, s->task, TASK_ID)));
    SEFL_PASS(file_path(s->path[CLIENT_VOCAB], "%s/vocab.txt", s->folder));
    return file_path(s->path[CLIENT_UPLOAD_KEY], "%s/upload.key", s->folder);
}

/* ---- the mark -------------------------------------------------------------------------------- */

static sefl_status write_mark(client_store *s, const client_mark *m)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    uint8_t digest[SHA256_BYTES];
    SEFL_TRY(wr_raw(&b, MAGIC, MAGIC_BYTES));
    SEFL_TRY(wr_raw(&b, s->task, TASK_ID));
    SEFL_TRY(wr_u64(&b, m->round));
    SEFL_TRY(wr_u64(&b, m->attempt));
    SEFL_TRY(wr_u8(&b, (uint8_t)(m->phase | (m->charged ? CLIENT_MARK_CHARGED : 0))));
    SEFL_TRY(wr_u8(&b, m->drawn));
    SEFL_TRY(wr_raw(&b, m->body.hash, sizeof m->body.hash));
    SEFL_TRY(wr_raw(&b, m->body.head, sizeof m->body.head));
    SEFL_TRY(wr_u64(&b, m->body.bytes));
    SEFL_TRY(wr_raw(&b, m->list, sizeof m->list));
    sha256_of(digest, buf_span(&b));
    SEFL_TRY(wr_raw(&b, digest, sizeof digest));
    SEFL_TRY(file_write_atomic(s->mark_path, buf_span(&b), 0600));
    s->mark = *m;
    SEFL_TRY(set_paths(s));
done:
    buf_clear(&b);
    return st;
}

/* Reads this task's mark, if there is one. */
static sefl_status read_mark(client_store *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    const char *path = s->mark_path;
    uint8_t digest[SHA256_BYTES], id[TASK_ID], phase, drawn;
    client_mark m = { 0 };
    st = file_read(&b, path, 4096);
    if (st == SEFL_ENOTFOUND)
        return SEFL_OK;
    SEFL_TRY(st);
    SEFL_CHECK(b.n == BODY_BYTES + SHA256_BYTES, SEFL_EPROTO, "%s is not a client's state", path);
    sha256_of(digest, span_of(b.p, BODY_BYTES));
    SEFL_CHECK(memcmp(digest, b.p + BODY_BYTES, SHA256_BYTES) == 0, SEFL_EPROTO,
               "%s was changed: its hash does not match", path);
    rd r = rd_over(span_of(b.p, BODY_BYTES));
    SEFL_TRY(rd_expect(&r, MAGIC, MAGIC_BYTES, "a client's mark"));
    SEFL_TRY(rd_raw(&r, id, TASK_ID));
    SEFL_TRY(rd_u64(&r, &m.round));
    SEFL_TRY(rd_u64(&r, &m.attempt));
    SEFL_TRY(rd_u8(&r, &phase));
    SEFL_TRY(rd_u8(&r, &drawn));
    SEFL_TRY(rd_raw(&r, m.body.hash, sizeof m.body.hash));
    SEFL_TRY(rd_raw(&r, m.body.head, sizeof m.body.head));
    SEFL_TRY(rd_u64(&r, &m.body.bytes));
    SEFL_TRY(rd_raw(&r, m.list, sizeof m.list));
    m.charged = (phase & CLIENT_MARK_CHARGED) != 0, phase &= CLIENT_MARK_CHARGED - 1;
    SEFL_CHECK(phase <= CLIENT_DONE && drawn <= 1, SEFL_EPROTO, "%s: phase %u", path, phase);
    m.phase = (client_phase)phase, m.drawn = drawn;
    SEFL_CHECK(memcmp(id, s->task, TASK_ID) == 0, SEFL_EPROTO, "%s is of another task", path);
    s->mark = m;
done:
    buf_clear(&b);
    return st;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* Deletes all round files that the mark does not name: temporary files, bodies and models of other
 * rounds or another task. Parts of this task's final model stay. */
static sefl_status sweep(client_store *s)
{
    sefl_status st = SEFL_OK;
    char body[64] = "", model[64] = "", path[PATH_MAX];
    DIR *d = opendir(s->folder);
    SEFL_CHECK(d, SEFL_EIO, "cannot read %s: %s", s->folder, strerror(errno));
    if (s->mark.phase == CLIENT_MAKING || s->mark.phase == CLIENT_FINISHED)
        snprintf(body, sizeof body, "round-%" PRIu64 ".body", s->mark.round);
    if (s->mark.phase == CLIENT_DRAWN || s->mark.phase == CLIENT_MAKING)
        snprintf(model, sizeof model, "model-%" PRIu64, s->mark.round);
    for (struct dirent *e; (errno = 0, e = readdir(d));) {
        const char *name = e->d_name;
        bool ours = begins(name, "round-") || begins(name, "model-") || begins(name, FINAL);
        bool keep = strcmp(name, body) == 0 ||
                    begins(name, s->path[CLIENT_FINAL] + strlen(s->folder) + 1) ||
                    (*model && begins(name, model) && !strstr(name, ".tmp-") &&
                     (name[strlen(model)] == 0 || name[strlen(model)] == '.'));
        if ((ours && !keep) || strstr(name, ".tmp-")) {
            SEFL_TRY(file_path(path, "%s/%s", s->folder, name));
            SEFL_CHECK(unlink(path) == 0 || errno == ENOENT, SEFL_EIO, "cannot delete %s: %s", path,
                       strerror(errno));
        }
    }
done:
    if (d)
        closedir(d);
    return st;
}

/* Settles what a killed process left behind. */
static sefl_status settle(client_store *s)
{
    client_mark m = s->mark;
    client_body there;
    const char *path = s->path[CLIENT_BODY];
    if (m.phase == CLIENT_MAKING && file_exists(path)) { /* complete, since it has its name */
        SEFL_PASS(client_body_of(&m.body, path, s->head_bytes));
        m.phase = CLIENT_FINISHED;
        return write_mark(s, &m);
    }
    if (m.phase != CLIENT_FINISHED)
        return SEFL_OK;
    sefl_status st = client_body_of(&there, path, s->head_bytes);
    if (st != SEFL_ENOTFOUND && st != SEFL_EPROTO)
        SEFL_PASS(st);
    s->lost = st != SEFL_OK || !client_body_same(&there, &m.body);
    m.phase = CLIENT_DONE;
    return s->lost ? write_mark(s, &m) : SEFL_OK;
}

/* Reads the latest outcomes of this task, newest first: the last known round and the consecutive
 * misses. */
static sefl_status look_at_counted(client_store *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    uint8_t of[RECEIPTS_TASK];
    uint64_t round;
    bool more = true;
    for (size_t i = receipts_count(s->counted); more && i-- > 0;) {
        buf_reset(&b);
        SEFL_TRY(receipts_at(s->counted, i, of, &round, &b));
        if (memcmp(of, s->task, TASK_ID) != 0)
            continue;
        if (s->counted_round == 0)
            s->counted_round = round;
        more = b.n > 0 && b.p[0] != CLIENT_COUNTED;
        s->misses += b.n > 0 && b.p[0] == CLIENT_MISSED;
    }
done:
    buf_clear(&b);
    return st;
}

sefl_status client_store_open(client_store **out, const char *folder, const uint8_t id[TASK_ID],
                              size_t head_bytes)
{
    char path[PATH_MAX];
    SEFL_MAKE(client_store, s, out);
    s->lock = -1;
    SEFL_TRY(sefl_strdup(&s->folder, folder));
    memcpy(s->task, id, TASK_ID);
    s->head_bytes = head_bytes;
    SEFL_TRY(file_make_folder(folder, 0700));
    SEFL_TRY(file_path(path, "%s/lock", s->folder));
    s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    SEFL_CHECK(s->lock >= 0, SEFL_EIO, "cannot open %s: %s", path, strerror(errno));
    SEFL_CHECK(flock(s->lock, LOCK_EX | LOCK_NB) == 0, SEFL_ESTATE,
               "%s is in use by another client", folder);
    SEFL_TRY(file_path(path, "%s/receipts", s->folder));
    SEFL_TRY(receipts_open(&s->receipts, path));
    SEFL_TRY(file_path(path, "%s/counted", s->folder));
    SEFL_TRY(receipts_open(&s->counted, path));
    SEFL_TRY(look_at_counted(s));
    SEFL_TRY(file_sync_folder(folder)); /* their names */
    SEFL_TRY(file_path(path, "%s/mark", s->folder));
    SEFL_CHECK(!file_exists(path), SEFL_ESTATE,
               "an earlier version wrote %s: delete it, then restart; the client does not repeat "
               "rounds that its ledger has charged",
               path);
    SEFL_TRY(set_paths(s)); /* of the mark */
    SEFL_TRY(read_mark(s));
    SEFL_TRY(set_paths(s)); /* of its round */
    SEFL_TRY(settle(s));
    SEFL_TRY(sweep(s));
    SEFL_HAND_OVER(out, s, client_store_close);
}

void client_store_close(client_store *s)
{
    if (!s)
        return;
    receipts_close(s->receipts);
    receipts_close(s->counted);
    if (s->lock >= 0)
        close(s->lock);
    sefl_free(s->folder);
    sefl_free(s);
}

const client_mark *client_store_mark(const client_store *s)
{
    return &s->mark;
}

bool client_store_lost(const client_store *s)
{
    return s->lost;
}

const char *client_store_path(client_store *s, client_file file)
{
    return s->path[file];
}

/* ---- steps ----------------------------------------------------------------------------------- */

static sefl_status in_phase(const client_store *s, bool ok, const char *what)
{
    SEFL_NEED(ok, SEFL_ESTATE, "round %" PRIu64 " cannot be %s in phase %d", s->mark.round, what,
              (int)s->mark.phase);
    return SEFL_OK;
}

sefl_status client_store_draw(client_store *s, uint64_t round, bool drawn)
{
    client_mark m = { .round = round, .phase = CLIENT_DRAWN, .drawn = drawn };
    SEFL_NEED(round > s->mark.round, SEFL_ESTATE,
              "round %" PRIu64 " is not after round %" PRIu64 ": its coin was drawn before", round,
              s->mark.round);
    (void)unlink(s->path[CLIENT_BODY]); /* of the old round, if it was left behind */
    (void)unlink(s->path[CLIENT_MODEL]);
    return write_mark(s, &m);
}

sefl_status client_store_begin(client_store *s, const uint8_t *list)
{
    static const uint8_t none[SHA256_BYTES];
    client_mark m = s->mark;
    SEFL_PASS(in_phase(s, m.phase == CLIENT_DRAWN || m.phase == CLIENT_MAKING, "begun"));
    m.attempt++; /* from 1 */
    m.phase = CLIENT_MAKING;
    memcpy(m.list, list ? list : none, sizeof m.list);
    return write_mark(s, &m);
}

sefl_status client_store_finish(client_store *s, const client_body *body)
{
    client_mark m = s->mark;
    SEFL_PASS(in_phase(s, m.phase == CLIENT_MAKING, "finished"));
    m.phase = CLIENT_FINISHED;
    m.body = *body;
    SEFL_PASS(write_mark(s, &m));
    (void)unlink(s->path[CLIENT_MODEL]);
    return SEFL_OK;
}

sefl_status client_store_drop(client_store *s)
{
    client_mark m = s->mark;
    SEFL_PASS(in_phase(s, m.phase != CLIENT_NOWHERE, "dropped"));
    m.phase = CLIENT_DONE;
    if (s->mark.phase != CLIENT_DONE)
        SEFL_PASS(write_mark(s, &m));
    (void)unlink(s->path[CLIENT_BODY]);
    (void)unlink(s->path[CLIENT_MODEL]);
    return SEFL_OK;
}

sefl_status client_store_charged(client_store *s)
{
    client_mark m = s->mark;
    SEFL_PASS(in_phase(s, m.phase == CLIENT_FINISHED, "charged"));
    if (m.charged)
        return SEFL_OK;
    m.charged = true;
    return write_mark(s, &m);
}

sefl_status client_store_receipt(client_store *s, sefl_span receipt)
{
    SEFL_PASS(in_phase(s, s->mark.phase == CLIENT_FINISHED, "acknowledged"));
    SEFL_PASS(receipts_add(s->receipts, s->task, s->mark.round, receipt));
    return client_store_drop(s);
}

const receipts *client_store_receipts(const client_store *s)
{
    return s->receipts;
}

sefl_status client_store_receipt_read(const client_store *s, sefl_buf *out, uint64_t round)
{
    return receipts_find(s->receipts, out, s->task, round);
}

/* ---- counted? -------------------------------------------------------------------------------- */

sefl_status client_store_uncounted(const client_store *s, uint64_t before, uint64_t *round)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    uint8_t of[RECEIPTS_TASK];
    uint64_t r;
    *round = 0;
    for (size_t i = receipts_count(s->receipts); i-- > 0;) { /* ascending: newest first */
        buf_reset(&b);
        SEFL_TRY(receipts_at(s->receipts, i, of, &r, &b));
        if (memcmp(of, s->task, TASK_ID) != 0)
            continue;
        if (r <= s->counted_round)
            break;
        if (r < before)
            *round = r;
    }
done:
    buf_clear(&b);
    return st;
}

sefl_status client_store_counted(client_store *s, uint64_t round, client_counted what,
                                 sefl_span proof, unsigned *misses)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_CHECK(round > s->counted_round, SEFL_ESTATE,
               "the outcome of round %" PRIu64 " is already known", round);
    SEFL_TRY(wr_u8(&b, (uint8_t)what));
    SEFL_TRY(wr_raw(&b, proof.p, proof.n));
    SEFL_TRY(receipts_add(s->counted, s->task, round, buf_span(&b)));
    s->counted_round = round;
    s->misses = what == CLIENT_COUNTED ? 0 : s->misses + (what == CLIENT_MISSED);
    *misses = s->misses;
done:
    buf_clear(&b);
    return st;
}
