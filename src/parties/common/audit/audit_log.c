/* Design. `lines` has the entries after the first `synced` bytes of the file, and the file has the
 * first `written` bytes of them; n and hash are of the last entry, written or not. After a failed
 * write or sync the kernel may have dropped what it had taken, and a later sync would not tell: so
 * all of `lines` is written again, from `synced`. If the file has another size than these say, or
 * was deleted, another program has changed it, and we write nothing more. */
#include "roles/audit/audit_log.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/sha256.h"
#include "protocol/task.h"
#include "roles/audit/audit_read.h"
#include "sefl/sefl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORD(x) #x
#define TEXT(x) WORD(x)
#define VERSION TEXT(SEFL_VERSION_MAJOR) "." TEXT(SEFL_VERSION_MINOR) "." TEXT(SEFL_VERSION_PATCH)

enum {
    WRITE_AT = 1 << 20, /* bytes not written from which audit_add writes them, without a sync */
    UNSYNCED_MAX = 64 << 20, /* a disk that fails for so long: further entries are lost */
    PIECE = 1 << 20,
    SEEN_PLACES = 1 << 16,
    POINT_BYTES = 8 + SHA256_BYTES + 8 /* what the journal keeps: n, hash, where its line ends */
};
/* The fact in the journal. Processes that share the journal have a log each, in their own folder:
 * the name of the machine and of the folder tell their facts apart. */
enum { POINT_NAME = 64 };

static void name_point(char out[POINT_NAME], const audit_log_config *c)
{
    char host[256] = "", hex[HEX_CHARS(16)];
    uint8_t hash[SHA256_BYTES];
    sha256 h;
    snprintf(out, POINT_NAME, "audit checkpoint");
    if (!c->journal || !journal_is_shared(c->journal))
        return;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    sha256_init(&h);
    sha256_add(&h, span_of(host, sizeof host));
    sha256_add(&h, span_of_str(c->folder));
    sha256_end(&h, hash);
    snprintf(out, POINT_NAME, "audit checkpoint %s", hex_write(hex, hash, 16));
}

struct audit_log {
    audit_log_config c;
    char path[PATH_MAX], head[PATH_MAX], point[POINT_NAME];
    atomic_bool told;        /* a failure was logged */
    pthread_mutex_t signing; /* taken before lock: one checkpoint and its record at a time */
    pthread_mutex_t lock;    /* guards the rest */
    int fd;
    uint64_t synced, n;
    uint8_t hash[SHA256_BYTES];
    bool is_signed; /* the last entry is a checkpoint */
    bool unsure;    /* a write or sync failed: the file has some of `lines`, or zeros */
    bool unnamed;   /* a new file has begun, and its name is not durable yet */
    size_t written;
    sefl_status failed; /* an entry is missing: nothing more is written */
    sefl_buf lines;
    uint64_t second, refused; /* entries about refusals in this second */
    /* since the last checkpoint: */
    uint64_t more;  /* refusals without an entry */
    uint64_t *seen; /* hash set of entries that must not repeat; 0 is an empty place */
    size_t n_seen;
    size_t n_strange[X509_VERDICTS]; /* of no client; from 1 on: certificates, by verdict */
};

/* ---- entries --------------------------------------------------------------------------------- */

static sefl_status put_line(audit_log *a, const char *kind, const log_field *fields)
{
    char hex[HEX_CHARS(SHA256_BYTES)];
    uint8_t hash[SHA256_BYTES];
    const size_t from = a->lines.n;
    json j = json_into(&a->lines);
    json_open(&j, '{');
    json_fields(&j, lf_u64("n", a->n + 1), lf_u64("time", clock_ms(a->c.clock) / 1000),
                lf_str("kind", kind));
    log_fields_json(&j, fields);
    json_key(&j, "prev"), json_str(&j, hex_write(hex, a->hash, sizeof a->hash));
    json_close(&j, '}');
    SEFL_PASS(json_end(&j));
    a->lines.n--; /* the bracket */
    sha256_of(hash, span_of(a->lines.p + from, a->lines.n - from));
    SEFL_PASS(wr_fmt(&a->lines, ",\"hash\":\"%s\"}\n", hex_write(hex, hash, sizeof hash)));
    SEFL_NEED(a->lines.n - from < AUDIT_LINE_MAX, SEFL_ERANGE, "an entry of %zu bytes",
              a->lines.n - from);
    a->n++;
    memcpy(a->hash, hash, sizeof hash);
    return SEFL_OK;
}

/* With the lock. */
static sefl_status check_size(const audit_log *a)
{
    struct stat sb;
    SEFL_NEED(fstat(a->fd, &sb) == 0, SEFL_EIO, "cannot stat %s: %s", a->path, strerror(errno));
    const uint64_t size = (uint64_t)sb.st_size, least = a->synced + a->written;
    const uint64_t most = a->unsure ? a->synced + a->lines.n : least;
    SEFL_NEED(size >= least && size <= most && sb.st_nlink > 0, SEFL_ESTATE,
              "%s was changed or removed by another program", a->path);
    return SEFL_OK;
}

/* With the lock: the file may have lost what it had of `lines`. */
static sefl_status begin_again(audit_log *a, sefl_status st)
{
    if (st != SEFL_OK)
        a->unsure = true, a->written = 0;
    return st;
}

/* With the lock. Writes the lines to the file. */
static sefl_status write_lines(audit_log *a)
{
    SEFL_PASS(a->failed);
    if (a->written == a->lines.n)
        return SEFL_OK;
    SEFL_PASS(check_size(a));
    SEFL_PASS(
        begin_again(a, file_write_at(a->fd, a->path, a->synced + a->written,
                                     span_of(a->lines.p + a->written, a->lines.n - a->written))));
    a->written = a->lines.n;
    return SEFL_OK;
}

/* With the lock. */
static void audit_log_enter(audit_log *a, const char *kind, const log_field *fields)
{
    const size_t from = a->lines.n;
    if (a->failed != SEFL_OK)
        return;
    sefl_status st = a->lines.n < UNSYNCED_MAX
                         ? put_line(a, kind, fields)
                         : sefl_fail(SEFL_EIO, "%s cannot be written for too long", a->path);
    if (st != SEFL_OK) {
        a->lines.n = from;
        a->failed = st;
        log_error(a->c.log, "audit log: an entry is lost", lf_str("kind", kind),
                  lf_str("why", sefl_last_error()));
        return;
    }
    a->is_signed = strcmp(kind, "checkpoint") == 0;
    if (a->lines.n - a->written >= WRITE_AT && write_lines(a) != SEFL_OK)
        log_error(a->c.log, "audit log not written", lf_str("why", sefl_last_error()));
}

/* With the lock, before a checkpoint: counts the refusals without an entry and begins again. */
static void add_more(audit_log *a)
{
    if (a->more > 0)
        audit_log_enter(a, "more_refused", LOG_FIELDS(lf_u64("count", a->more)));
    if (a->n_seen > 0)
        memset(a->seen, 0, SEEN_PLACES * sizeof *a->seen);
    a->more = a->n_seen = 0;
    memset(a->n_strange, 0, sizeof a->n_strange);
}

/* With the lock: finds the place of these fields in the set, which has `mark` if they have an entry
 * already, and else 0. NULL: the set is full. */
static uint64_t *place_of(audit_log *a, const log_field *fields, uint64_t *mark)
{
    uint8_t hash[SHA256_BYTES];
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    log_fields_json(&j, fields);
    json_close(&j, '}');
    const bool good = json_end(&j) == SEFL_OK;
    sha256_of(hash, buf_span(&b));
    buf_clear(&b);
    *mark = load_u64(hash) | 1;
    if (!good || a->n_seen >= SEEN_PLACES / 2 ||
        (!a->seen && sefl_new(&a->seen, SEEN_PLACES, sizeof *a->seen) != SEFL_OK))
        return NULL;
    size_t at = load_u64(hash + 8) % SEEN_PLACES;
    while (a->seen[at] != 0 && a->seen[at] != *mark)
        at = (at + 1) % SEEN_PLACES;
    return &a->seen[at];
}

/* With the lock: true if this refusal gets an entry. code: of a certificate, otherwise X509_OK. */
static bool may_tell(audit_log *a, const log_field *fields, x509_verdict_code code)
{
    const uint64_t now = clock_ms(a->c.clock) / 1000;
    const size_t most = code == X509_OK ? AUDIT_REFUSED_STRANGE : AUDIT_REFUSED_CERTS;
    uint64_t mark, *place;
    bool client = false;
    for (const log_field *f = fields; f->key; f++)
        client = client || strcmp(f->key, "client") == 0;
    if (now != a->second)
        a->second = now, a->refused = 0;
    if (a->refused >= AUDIT_REFUSED_PER_S || (!client && a->n_strange[code] >= most) ||
        !(place = place_of(a, fields, &mark)) || *place == mark)
        return false;
    *place = mark;
    a->n_seen++;
    a->n_strange[code] += !client;
    a->refused++;
    return true;
}

void audit_log_add(audit_log *a, const char *kind, const log_field *fields)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    audit_log_enter(a, kind, fields);
    pthread_mutex_unlock(&a->lock);
}

void audit_log_once(audit_log *a, const char *kind, const log_field *fields)
{
    uint64_t mark;
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    uint64_t *place = place_of(a, fields, &mark);
    if (!place || *place != mark)
        audit_log_enter(a, kind, fields);
    if (place && *place == 0)
        *place = mark, a->n_seen++;
    pthread_mutex_unlock(&a->lock);
}

static void refused(audit_log *a, const log_field *fields, x509_verdict_code code)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    if (may_tell(a, fields, code))
        audit_log_enter(a, "refused", fields);
    else
        a->more++;
    pthread_mutex_unlock(&a->lock);
}

void audit_log_refused(audit_log *a, const log_field *fields)
{
    refused(a, fields, X509_OK);
}

/* The member "client" is for a key of the trust list: others make new keys at will. */
void audit_peer_refused(audit_log *a, const char *by, const x509_peer *p)
{
    char reason[48];
    snprintf(reason, sizeof reason, "certificate.%s", x509_verdict_text(p->code));
    for (char *c = reason; *c; c++)
        if (*c == ' ')
            *c = '_'; /* as in counters.json */
    refused(a,
            LOG_FIELDS(lf_str("by", by), lf_key(p->listed ? "client" : "key", p->fingerprint),
                       lf_str("name", p->name), lf_str("reason", reason)),
            p->code);
}

/* With the lock. */
static sefl_status sync_lines(audit_log *a)
{
    if (a->unnamed)
        SEFL_PASS(file_sync_parent(a->path));
    a->unnamed = false;
    SEFL_PASS(write_lines(a));
    if (a->lines.n == 0)
        return SEFL_OK;
    SEFL_PASS(begin_again(a, file_sync(a->fd, a->path)));
    a->synced += a->lines.n;
    a->unsure = false, a->written = 0;
    buf_reset(&a->lines);
    return SEFL_OK;
}

/* A field with bytes in hex; text owns the digits. */
static sefl_status hex_field(log_field *out, sefl_buf *text, const char *key, sefl_span bytes)
{
    SEFL_PASS(wr_hex(text, bytes.p, bytes.n));
    SEFL_PASS(wr_u8(text, 0));
    *out = lf_str(key, (const char *)text->p);
    return SEFL_OK;
}

sefl_status audit_add_bytes(audit_log *log, const char *kind, uint64_t round, const uint8_t *digest,
                            const char *key, sefl_span bytes)
{
    sefl_buf text = { 0 };
    log_field f = { 0 };
    sefl_status st = hex_field(&f, &text, key, bytes);
    if (st == SEFL_OK && digest)
        audit_add(log, kind, lf_u64("round", round), lf_key("digest", digest), f);
    else if (st == SEFL_OK)
        audit_add(log, kind, lf_u64("round", round), f);
    buf_clear(&text);
    return st;
}

void audit_add_charge(audit_log *log, uint64_t round, const ledger_head *h)
{
    audit_add(log, "charged", lf_u64("round", round), lf_u64("records", h->records),
              lf_key("ledger", h->hash));
}

sefl_status audit_log_sync(audit_log *a)
{
    if (!a)
        return SEFL_OK;
    pthread_mutex_lock(&a->lock);
    sefl_status st = sync_lines(a);
    pthread_mutex_unlock(&a->lock);
    return st;
}

void audit_log_tick(audit_log *a)
{
    if (!a)
        return;
    bool good = audit_log_sync(a) == SEFL_OK;
    pthread_mutex_lock(&a->lock);
    const bool large = a->synced >= 2 * (a->c.file_max > 0 ? a->c.file_max : AUDIT_FILE_MAX);
    pthread_mutex_unlock(&a->lock);
    if (good && large) /* a long round */
        good = audit_log_sign(a) == SEFL_OK;
    if (atomic_exchange(&a->told, !good) == !good)
        return;
    if (good)
        log_info(a->c.log, "audit log written again: nothing is lost");
    else
        log_error(a->c.log, "audit log not written", lf_str("why", sefl_last_error()));
}

sefl_status audit_started(audit_log *a, const char *role, const task *t)
{
    audit_add(a, "started", lf_str("role", role), lf_key("task", t->id), lf_str("name", t->name),
              lf_str("version", VERSION));
    return audit_log_sign(a);
}

void audit_end(audit_log *a)
{
    audit_add(a, "stopped");
    if (audit_log_sign(a) != SEFL_OK)
        log_error(a->c.log, "audit log not signed", lf_str("why", sefl_last_error()));
    audit_log_close(a);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

void audit_signed_bytes(uint8_t out[AUDIT_SIGNED_BYTES], uint64_t n, const uint8_t hash[32])
{
    store_u64(out, n);
    memcpy(out + 8, hash, 32);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Opens the next file, with the last checkpoint as its first line: in audit.head. */
static sefl_status next_open(const audit_log *a, const char *path, int *fd, uint64_t *size)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    audit_entry e = { 0 };
    SEFL_TRY(file_read(&b, a->head, AUDIT_LINE_MAX));
    SEFL_TRY(audit_entry_read(&e, span_of(b.p, b.n > 0 ? b.n - 1 : 0)));
    SEFL_CHECK(e.n == a->n && memcmp(e.hash, a->hash, sizeof e.hash) == 0, SEFL_ESTATE,
               "%s is not the last entry", a->head);
    *fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    SEFL_CHECK(*fd >= 0, SEFL_EIO, "cannot open %s: %s", path, strerror(errno));
    SEFL_CHECK(flock(*fd, LOCK_EX | LOCK_NB) == 0, SEFL_ESTATE, "another process uses %s", path);
    SEFL_TRY(file_write_all(*fd, buf_span(&b)));
    SEFL_TRY(file_sync(*fd, path));
    *size = b.n;
done:
    audit_entry_clear(&e);
    buf_clear(&b);
    return st;
}

/* With the lock, after a checkpoint. The old file has both names for a moment: a crash there leaves
 * one file, and drop_name removes the new name. */
static sefl_status rotate(audit_log *a)
{
    sefl_status st = SEFL_OK;
    char older[PATH_MAX], next[PATH_MAX];
    int fd = -1;
    uint64_t size;
    SEFL_PASS(audit_older_path(older, a->path, a->n));
    SEFL_PASS(file_path(next, "%s.next", a->path));
    SEFL_TRY(next_open(a, next, &fd, &size));
    SEFL_CHECK(link(a->path, older) == 0, SEFL_EIO, "cannot name %s: %s", older, strerror(errno));
    if (rename(next, a->path) != 0) {
        st = sefl_fail(SEFL_EIO, "cannot rename %s: %s", next, strerror(errno));
        (void)unlink(older);
        goto done;
    }
    close(a->fd);
    a->fd = fd, fd = -1;
    a->synced = size;
    a->unnamed = true;
    log_info(a->c.log, "audit log: a new file begins", lf_str("older", older));
    if (sync_lines(a) != SEFL_OK) /* the next sync tries again */
        log_warn(a->c.log, "audit log: the name of the new file is not durable yet",
                 lf_str("why", sefl_last_error()));
done:
    if (fd >= 0) {
        (void)unlink(next);
        close(fd);
    }
    return st;
}

/* With the lock. */
static void rotate_if_large(audit_log *a)
{
    const uint64_t max = a->c.file_max > 0 ? a->c.file_max : AUDIT_FILE_MAX;
    if (a->failed == SEFL_OK && a->is_signed && a->lines.n == 0 && a->synced >= max &&
        rotate(a) != SEFL_OK) /* at the next checkpoint */
        log_warn(a->c.log, "audit log: no new file", lf_str("why", sefl_last_error()));
}

/* With the lock: the checkpoint is the only line in memory. point: what the journal keeps of it. */
static sefl_status sign(audit_log *a, uint8_t point[POINT_BYTES], bool *made)
{
    sefl_status st = SEFL_OK;
    uint8_t bytes[AUDIT_SIGNED_BYTES], sig[SIGN_BYTES];
    char hex[HEX_CHARS(SIGN_BYTES)];
    sefl_buf line = { 0 };
    add_more(a);
    SEFL_TRY(sync_lines(a));
    if (a->is_signed || a->n == 0)
        goto done;
    audit_signed_bytes(bytes, a->n, a->hash);
    SEFL_TRY(sign_make(sig, a->c.key, SIGN_AUDIT, span_of(bytes, sizeof bytes)));
    audit_log_enter(a, "checkpoint",
                    LOG_FIELDS(lf_str("signature", hex_write(hex, sig, sizeof sig))));
    SEFL_TRY(a->failed);
    SEFL_TRY(wr_raw(&line, a->lines.p, a->lines.n));
    SEFL_TRY(sync_lines(a));
    SEFL_TRY(file_write_atomic(a->head, buf_span(&line), 0600));
    audit_signed_bytes(point, a->n, a->hash);
    store_u64(point + AUDIT_SIGNED_BYTES, a->synced);
    *made = true;
done:
    if (st != SEFL_OK)
        a->is_signed = false; /* audit.head lacks it: the next call adds another */
    buf_clear(&line);
    return st;
}

/* The journal names a checkpoint before the next one is made or a new file begins. */
sefl_status audit_log_sign(audit_log *a)
{
    uint8_t point[POINT_BYTES];
    bool made = false;
    if (!a)
        return SEFL_OK;
    pthread_mutex_lock(&a->signing);
    pthread_mutex_lock(&a->lock);
    sefl_status st = sign(a, point, &made);
    pthread_mutex_unlock(&a->lock);
    if (st == SEFL_OK && made && a->c.journal)
        st = journal_lasting_put(a->c.journal, a->point, span_of(point, sizeof point));
    if (st == SEFL_OK && made) { /* the journal knows the new file's first line */
        pthread_mutex_lock(&a->lock);
        rotate_if_large(a);
        pthread_mutex_unlock(&a->lock);
    }
    pthread_mutex_unlock(&a->signing);
    return st;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Finds the last complete line, whose number and hash the next one continues; truncates what
 * follows it. */
static sefl_status read_tail(audit_log *a)
{
    sefl_status st = SEFL_OK;
    sefl_buf line = { 0 };
    audit_entry e = { 0 };
    uint64_t size;
    SEFL_TRY(file_size(&size, a->fd, a->path));
    a->synced = size;
    SEFL_TRY(file_last_line(&line, &a->synced, a->fd, a->path, 2 * AUDIT_LINE_MAX));
    SEFL_CHECK(line.n > 0 || a->synced == 0, SEFL_EPROTO,
               "%s: its end is not a line of an audit log", a->path);
    if (a->synced < size) {
        log_warn(a->c.log, "audit log: incomplete last line removed",
                 lf_u64("bytes", size - a->synced));
        SEFL_TRY(file_cut(a->fd, a->path, a->synced));
    }
    if (a->synced == 0)
        goto done;
    SEFL_TRY(sefl_at(audit_entry_read(&e, buf_span(&line)), "%s: the last line", a->path));
    a->n = e.n;
    a->is_signed = strcmp(e.kind, "checkpoint") == 0;
    memcpy(a->hash, e.hash, sizeof a->hash);
done:
    audit_entry_clear(&e);
    buf_clear(&line);
    return st;
}

#define NEW_LOG                                                                                  \
    "put the newest log and its audit.head in place; if they are lost, move audit.head and all " \
    "audit*.jsonl away: the server begins a new log, which says so"

/* The log must reach the last checkpoint. */
static sefl_status check_head(const audit_log *a)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    audit_entry e = { 0 };
    if (!file_exists(a->head))
        goto done;
    SEFL_TRY(file_read(&b, a->head, AUDIT_LINE_MAX));
    SEFL_TRY(sefl_at(audit_entry_read(&e, span_of(b.p, b.n > 0 ? b.n - 1 : 0)), "%s", a->head));
    SEFL_CHECK(a->n >= e.n, SEFL_ESTATE,
               "%s ends with entry %" PRIu64 ", but %s is entry %" PRIu64 " of it: " NEW_LOG,
               a->path, a->n, a->head, e.n);
done:
    audit_entry_clear(&e);
    buf_clear(&b);
    return st;
}

/* Sets *found to whether a line with this number and hash ends at `end`. */
static sefl_status find_line(const audit_log *a, uint64_t end, uint64_t n, const uint8_t *hash,
                             bool *found)
{
    sefl_status st = SEFL_OK;
    audit_entry e = { 0 };
    sefl_buf line = { 0 };
    uint64_t at = end;
    *found = false;
    if (end > a->synced)
        goto done;
    SEFL_TRY(file_last_line(&line, &at, a->fd, a->path, AUDIT_LINE_MAX));
    *found = at == end && audit_entry_read(&e, buf_span(&line)) == SEFL_OK && e.n == n &&
             memcmp(e.hash, hash, SHA256_BYTES) == 0;
done:
    audit_entry_clear(&e);
    buf_clear(&line);
    return st;
}

static sefl_status first_end(const audit_log *a, uint64_t *end)
{
    sefl_status st = SEFL_OK;
    uint8_t *head = NULL;
    size_t got;
    SEFL_TRY(sefl_new(&head, AUDIT_LINE_MAX, 1));
    SEFL_TRY(file_read_at(a->fd, a->path, 0, head, AUDIT_LINE_MAX, &got));
    const uint8_t *feed = got > 0 ? memchr(head, '\n', got) : NULL;
    *end = feed ? (uint64_t)(feed - head) + 1 : 0;
done:
    sefl_free(head);
    return st;
}

/* The line that the journal names must be in the log, at its place and with its hash; or it is the
 * first line, if the file began after the journal was written. */
static sefl_status find_point(const audit_log *a, const uint8_t *point)
{
    const uint64_t n = load_u64(point);
    uint64_t end = load_u64(point + AUDIT_SIGNED_BYTES);
    bool found;
    SEFL_PASS(find_line(a, end, n, point + 8, &found));
    if (!found) {
        SEFL_PASS(first_end(a, &end));
        SEFL_PASS(find_line(a, end, n, point + 8, &found));
    }
    SEFL_NEED(found, SEFL_ESTATE,
              "%s is not the log that this server signed: it lacks the checkpoint %" PRIu64
              " that the journal names: " NEW_LOG,
              a->path, n);
    return SEFL_OK;
}

/* After a crash in rotate the file may have an older file's name as well. A new log does not begin
 * beside older files. */
static sefl_status drop_name(const audit_log *a)
{
    sefl_status st = SEFL_OK;
    struct stat sb, other;
    char older[PATH_MAX];
    sefl_buf names = { 0 };
    size_t n = 0;
    SEFL_CHECK(fstat(a->fd, &sb) == 0, SEFL_EIO, "cannot stat %s: %s", a->path, strerror(errno));
    SEFL_TRY(audit_older_path(older, a->path, a->n));
    if (sb.st_nlink > 1 && stat(older, &other) == 0 && other.st_ino == sb.st_ino)
        (void)unlink(older);
    SEFL_TRY(audit_older(&names, &n, a->path, &sb));
    SEFL_CHECK(n == 0 || a->n > 0, SEFL_ESTATE, "%s is empty and older files of it exist: " NEW_LOG,
               a->path);
done:
    buf_clear(&names);
    return st;
}

/* The journal names the last checkpoint: a log that somebody wrote anew does not contain it. */
static sefl_status check_journal(audit_log *a)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    journal_round last;
    const bool empty = a->n == 0 && !file_exists(a->head);
    if (!a->c.journal)
        goto done;
    st = journal_lasting_get(a->c.journal, a->point, &b);
    if (st == SEFL_ENOTFOUND) { /* the first checkpoint precedes the first round */
        st = journal_round_last(a->c.journal, &last);
        const bool rounds = st == SEFL_OK;
        SEFL_TRY(st == SEFL_ENOTFOUND ? SEFL_OK : st);
        SEFL_CHECK(!rounds || empty, SEFL_ESTATE,
                   "the journal has rounds and names no checkpoint of %s: " NEW_LOG, a->path);
        if (rounds)
            audit_log_enter(a, "log_lost", LOG_FIELDS(lf_u64("checkpoint", 0)));
        goto done;
    }
    SEFL_TRY(st);
    SEFL_CHECK(b.n == POINT_BYTES, SEFL_EPROTO, "journal: a checkpoint of %zu bytes", b.n);
    if (empty) {
        log_error(a->c.log, "audit log lost: a new one begins", lf_str("file", a->path));
        audit_log_enter(a, "log_lost",
                        LOG_FIELDS(lf_u64("checkpoint", load_u64(b.p)), lf_key("head", b.p + 8)));
        goto done;
    }
    SEFL_TRY(find_point(a, b.p));
    SEFL_CHECK(file_exists(a->head), SEFL_ESTATE, "%s is missing: " NEW_LOG, a->head);
done:
    buf_clear(&b);
    return st;
}

/* Writes the file's bytes again and syncs them: a process that died after a failed sync may have
 * left lines that only the kernel's memory has. */
static sefl_status settle(const audit_log *a)
{
    sefl_status st = SEFL_OK;
    uint8_t *piece = NULL;
    size_t got;
    SEFL_TRY(sefl_new(&piece, PIECE, 1));
    for (uint64_t at = 0; at < a->synced; at += got) {
        const uint64_t left = a->synced - at;
        const size_t want = left < PIECE ? (size_t)left : PIECE;
        SEFL_TRY(file_read_at(a->fd, a->path, at, piece, want, &got));
        SEFL_CHECK(got == want, SEFL_EIO, "%s became shorter", a->path);
        SEFL_TRY(file_write_at(a->fd, a->path, at, span_of(piece, got)));
    }
    SEFL_TRY(file_sync(a->fd, a->path));
done:
    sefl_free(piece);
    return st;
}

/* False if another process has begun a new file since we opened this one. */
static bool is_named(const audit_log *a)
{
    struct stat sb, named;
    return fstat(a->fd, &sb) == 0 && stat(a->path, &named) == 0 && sb.st_ino == named.st_ino;
}

sefl_status audit_log_open(audit_log **out, const audit_log_config *c)
{
    SEFL_MAKE(audit_log, a, out);
    a->c = *c;
    a->fd = -1;
    name_point(a->point, c);
    pthread_mutex_init(&a->signing, NULL);
    pthread_mutex_init(&a->lock, NULL);
    SEFL_TRY(file_path(a->path, "%s/" AUDIT_LOG_NAME, c->folder));
    SEFL_TRY(file_path(a->head, "%s/" AUDIT_HEAD_NAME, c->folder));
    a->fd = open(a->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    SEFL_CHECK(a->fd >= 0, SEFL_EIO, "cannot open %s: %s", a->path, strerror(errno));
    SEFL_CHECK(flock(a->fd, LOCK_EX | LOCK_NB) == 0 && is_named(a), SEFL_ESTATE,
               "another process uses %s", a->path);
    SEFL_TRY(file_sync_parent(a->path));
    SEFL_TRY(read_tail(a));
    SEFL_TRY(settle(a));
    SEFL_TRY(check_head(a));
    SEFL_TRY(drop_name(a));
    SEFL_TRY(check_journal(a));
    SEFL_HAND_OVER(out, a, audit_log_close);
}

void audit_log_close(audit_log *a)
{
    if (!a)
        return;
    if (a->fd >= 0) {
        if (sync_lines(a) != SEFL_OK)
            log_error(a->c.log, "audit log not written", lf_str("why", sefl_last_error()));
        close(a->fd);
    }
    buf_clear(&a->lines);
    sefl_free(a->seen);
    pthread_mutex_destroy(&a->lock);
    pthread_mutex_destroy(&a->signing);
    sefl_free(a);
}
