/* Design. The file is the truth; memory holds what it says. Invariants:
 *  1. l->size is the length of the file up to which every record has been verified or written by
 *     us, and synced, unless l->broken;
 *  2. memory is changed only after the record is durable;
 *  3. nothing in a record depends on time, host or process: same rounds, same bytes.
 * What the charges add up to, and whether one more fits, is in ledger_total.c. */
#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/sha256.h"
#include "store/ledger_inside.h"
#include "store/ledger_terms.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "SEFLLDG4"

enum { MAGIC_BYTES = 8, HEAD_BYTES = 8 };
enum { REC_POPULATION = 1, REC_TASK = 2, REC_CHARGE = 3 };
enum {
    TASK_BODY = 1 + LEDGER_TERMS_BYTES,
    CHARGE_BODY_MIN = 1 + 1 + 1,
    CHARGE_BODY_MAX = 1 + 10 + 10,
    FRAME = HEAD_BYTES + LEDGER_HASH_BYTES,               /* of a record, around its body */
    APPEND_MAX = 2 * FRAME + TASK_BODY + CHARGE_BODY_MAX, /* one charge writes no more */
    SECTOR = 512,                                         /* what a disk writes whole */
};
#define FILE_MAX ((size_t)1 << 28)

/* ---- records ------------------------------------------------------------------------------- */

static bool name_ok(sefl_span name)
{
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] < 0x20 || name.p[i] > 0x7e)
            return false;
    return name.n >= 1 && name.n <= LEDGER_NAME_MAX;
}

static bool length_fits(uint8_t type, size_t n)
{
    return type == REC_POPULATION ? n >= 3 && n <= LEDGER_NAME_MAX + 3
           : type == REC_TASK     ? n == TASK_BODY
           : type == REC_CHARGE   ? n >= CHARGE_BODY_MIN && n <= CHARGE_BODY_MAX
                                  : false;
}

static void link_hash(uint8_t out[LEDGER_HASH_BYTES], const uint8_t prev[LEDGER_HASH_BYTES],
                      sefl_span body)
{
    sha256 h;
    uint8_t n[4];
    store_u32(n, (uint32_t)body.n);
    sha256_init(&h);
    sha256_add(&h, span_of(prev, LEDGER_HASH_BYTES));
    sha256_add(&h, span_of(n, sizeof n));
    sha256_add(&h, body);
    sha256_end(&h, out);
}

static void first_hash(uint8_t out[LEDGER_HASH_BYTES])
{
    sha256_of(out, span_of_str(MAGIC));
}

/* Returns the hash that precedes the next record. */
static void last_hash(const ledger *l, uint8_t out[LEDGER_HASH_BYTES])
{
    if (l->n_records)
        memcpy(out, l->hashes[l->n_records - 1], LEDGER_HASH_BYTES);
    else
        first_hash(out);
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Returns the first index in rounds with a value >= round. */
static size_t place_of(const ledger_entry *t, uint64_t round)
{
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->rounds[mid] < round)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool charged(const ledger_entry *t, uint64_t round)
{
    size_t at = place_of(t, round);
    return at < t->n && t->rounds[at] == round;
}

static size_t find_task(const ledger *l, const uint8_t id[LEDGER_TASK_BYTES])
{
    size_t i = 0;
    while (i < l->n_tasks && memcmp(l->tasks[i].terms.task, id, LEDGER_TASK_BYTES) != 0)
        i++;
    return i;
}

static sefl_status apply_population(ledger *l, rd *r)
{
    sefl_span name;
    char text[LEDGER_NAME_MAX + 1] = { 0 };
    SEFL_NEED(l->n_records == 0, SEFL_EPROTO, "a second population");
    SEFL_PASS(rd_bytes(r, &name, LEDGER_NAME_MAX));
    memcpy(text, name.p, name.n);
    SEFL_NEED(name_ok(name), SEFL_EPROTO, "a population name that is not printable");
    return sefl_strdup(&l->population, text);
}

static sefl_status apply_task(ledger *l, rd *r)
{
    ledger_entry t = { 0 };
    SEFL_PASS(ledger_terms_read(r, &t.terms));
    SEFL_PASS(ledger_terms_check(&t.terms));
    SEFL_NEED(find_task(l, t.terms.task) == l->n_tasks, SEFL_EPROTO, "it contains a task twice");
    SEFL_NEED(l->n_tasks < LEDGER_TASKS_MAX, SEFL_ERANGE, "more than %d tasks", LEDGER_TASKS_MAX);
    SEFL_PASS(sefl_room(&l->tasks, &l->cap_tasks, l->n_tasks + 1, sizeof *l->tasks));
    l->tasks[l->n_tasks++] = t;
    return SEFL_OK;
}

static sefl_status apply_charge(ledger *l, rd *r)
{
    uint64_t number, round;
    SEFL_PASS(rd_varint(r, &number));
    SEFL_PASS(rd_varint(r, &round));
    SEFL_NEED(number < l->n_tasks, SEFL_EPROTO, "a charge of task %" PRIu64 ", there are %zu",
              number, l->n_tasks);
    ledger_entry *t = &l->tasks[number];
    SEFL_PASS(ledger_terms_round(&t->terms, round));
    SEFL_NEED(!charged(t, round), SEFL_EPROTO, "round %" PRIu64 " is charged twice", round);
    SEFL_PASS(sefl_room(&t->rounds, &t->cap, t->n + 1, sizeof *t->rounds));
    size_t at = place_of(t, round);
    memmove(t->rounds + at + 1, t->rounds + at, (t->n - at) * sizeof *t->rounds);
    t->rounds[at] = round;
    t->n++;
    return SEFL_OK;
}

/* Applies a verified record to memory; on failure nothing changes. */
static sefl_status apply(ledger *l, sefl_span body, const uint8_t hash[LEDGER_HASH_BYTES])
{
    rd r = rd_over(body);
    uint8_t type;
    SEFL_PASS(sefl_room(&l->hashes, &l->cap_records, l->n_records + 1, sizeof *l->hashes));
    SEFL_PASS(rd_u8(&r, &type));
    SEFL_NEED((l->n_records == 0) == (type == REC_POPULATION), SEFL_EPROTO,
              "a record of type %u at place %zu", type, l->n_records);
    SEFL_PASS(type == REC_POPULATION ? apply_population(l, &r)
              : type == REC_TASK     ? apply_task(l, &r)
              : type == REC_CHARGE   ? apply_charge(l, &r)
                                     : sefl_fail(SEFL_EPROTO, "a record of type %u", type));
    SEFL_PASS(rd_end(&r));
    memcpy(l->hashes[l->n_records++], hash, LEDGER_HASH_BYTES);
    return SEFL_OK;
}

/* ---- file ---------------------------------------------------------------------------------- */

static bool all_zero(const uint8_t *p, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= p[i];
    return any == 0;
}

typedef enum found { FOUND_RECORD, FOUND_UNFINISHED, FOUND_WRONG } found;

/* What the first n bytes at p are, if nothing follows: a whole record with its frame, or the
 * beginning of one. The length stands there twice (once inverted) and belongs to the type, so a
 * changed length is wrong and never an unfinished record. */
static found look_at(const uint8_t *p, size_t n, bool first, size_t *body_n)
{
    uint8_t head[HEAD_BYTES], type;
    if (n == 0)
        return FOUND_UNFINISHED;
    bool fits = first ? length_fits(REC_POPULATION, p[0])
                      : length_fits(REC_TASK, p[0]) || length_fits(REC_CHARGE, p[0]);
    store_u32(head, p[0]);
    store_u32(head + 4, ~(uint32_t)p[0]);
    if (!fits || memcmp(head, p, n < HEAD_BYTES ? n : HEAD_BYTES) != 0)
        return FOUND_WRONG;
    if (n <= HEAD_BYTES)
        return FOUND_UNFINISHED;
    *body_n = p[0], type = p[HEAD_BYTES];
    if ((type == REC_POPULATION) != first || !length_fits(type, *body_n))
        return FOUND_WRONG;
    return n < FRAME + *body_n ? FOUND_UNFINISHED : FOUND_RECORD;
}

static found look_and_hash(const ledger *l, sefl_span at, sefl_span *body,
                           uint8_t hash[LEDGER_HASH_BYTES])
{
    uint8_t prev[LEDGER_HASH_BYTES];
    size_t n = 0;
    found f = look_at(at.p, at.n, l->n_records == 0, &n);
    if (f != FOUND_RECORD)
        return f;
    *body = span_of(at.p + HEAD_BYTES, n);
    last_hash(l, prev);
    link_hash(hash, prev, *body);
    return memcmp(hash, body->p + n, LEDGER_HASH_BYTES) == 0 ? FOUND_RECORD : FOUND_WRONG;
}

/* A power cut can leave the file with its new size but without its new bytes: zeros from the end of
 * the old records, or from the border of a sector. Such a tail was not synced, so nothing relied on
 * it. Where in it the zeros begin; at.n: nowhere. `from`: its place in the file. */
static size_t unwritten(sefl_span at, size_t from)
{
    size_t border = (SECTOR - from % SECTOR) % SECTOR;
    if (all_zero(at.p, at.n))
        return 0;
    return border < at.n && all_zero(at.p + border, at.n - border) ? border : at.n;
}

/* Verifies and loads the whole file; l->size is then where the complete records end. */
static sefl_status replay(ledger *l, sefl_span file)
{
    bool task_before = false;
    SEFL_NEED(file.n >= MAGIC_BYTES && memcmp(file.p, MAGIC, MAGIC_BYTES) == 0, SEFL_EPROTO,
              "it is not a ledger of this format (" MAGIC ")");
    l->size = MAGIC_BYTES;
    while (l->size < file.n) {
        sefl_span at = span_of(file.p + l->size, file.n - l->size), body = { 0 };
        uint8_t hash[LEDGER_HASH_BYTES];
        found f = look_and_hash(l, at, &body, hash);
        if (f == FOUND_WRONG && at.n <= APPEND_MAX) {
            sefl_span written = span_of(at.p, unwritten(at, l->size));
            if (written.n < at.n && look_and_hash(l, written, &body, hash) == FOUND_UNFINISHED)
                f = FOUND_UNFINISHED;
        }
        SEFL_NEED(f != FOUND_WRONG, SEFL_EPROTO,
                  "record %zu does not continue the chain: it was changed", l->n_records);
        if (f == FOUND_UNFINISHED)
            break;
        SEFL_PASS(apply(l, body, hash));
        if (!task_before) /* a task and its first charge are written together */
            l->last_append = l->size;
        assert(body.p && body.n > 0); /* found records have a type */
        task_before = body.p[0] == REC_TASK;
        l->size += FRAME + body.n;
    }
    SEFL_NEED(l->n_records > 0, SEFL_EPROTO, "it has no first record");
    l->ignored = file.n - l->size;
    return SEFL_OK;
}

/* through the descriptor that is locked, not through the name */
static sefl_status read_all(sefl_buf *out, int fd, const char *path)
{
    uint64_t size;
    uint8_t *at;
    SEFL_PASS(file_size(&size, fd, path));
    SEFL_NEED(size <= FILE_MAX, SEFL_ERANGE, "%s is too large for a ledger", path);
    SEFL_NEED(size > 0, SEFL_EPROTO, "%s is empty", path);
    SEFL_PASS(buf_extend(out, &at, (size_t)size));
    return file_read_at(fd, path, 0, at, (size_t)size, &out->n);
}

static sefl_status sync_file(ledger *l)
{
    if (fault_hit(FAULT_SYNC) ? (errno = EIO, true) : fsync(l->fd) != 0) {
        l->broken = true; /* what is on disk is unknown: only a new open can tell */
        return sefl_fail(SEFL_EIO, "cannot sync %s: %s", l->path, strerror(errno));
    }
    return SEFL_OK;
}

/* Brings the copy of a shared ledger up to date. */
static sefl_status write_copy(const ledger *l)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(l->m.read(l->m.ctx, l->population, &b));
    SEFL_TRY(file_write_atomic(l->path, buf_span(&b), 0600));
done:
    buf_clear(&b);
    return st;
}

static sefl_status append_shared(ledger *l, sefl_span bytes)
{
    l->broken = true; /* until we know better */
    SEFL_PASS(l->m.append(l->m.ctx, l->population, l->size, bytes));
    l->size += bytes.n;
    SEFL_PASS(write_copy(l));
    l->broken = false;
    return SEFL_OK;
}

static sefl_status append(ledger *l, sefl_span bytes)
{
    struct stat sb;
    if (l->shared)
        return append_shared(l, bytes);
    SEFL_NEED(fstat(l->fd, &sb) == 0, SEFL_EIO, "cannot stat %s: %s", l->path, strerror(errno));
    l->broken = (uintmax_t)sb.st_size != l->size || sb.st_nlink == 0;
    SEFL_NEED(!l->broken, SEFL_ESTATE, "%s was changed or removed by another program", l->path);
    sefl_status st = file_write_at(l->fd, l->path, l->size, bytes);
    if (st != SEFL_OK) {
        l->broken = ftruncate(l->fd, (off_t)l->size) != 0; /* remove an incomplete record */
        return st;
    }
    SEFL_PASS(sync_file(l));
    l->size += bytes.n;
    return SEFL_OK;
}

static sefl_status put_record(sefl_buf *out, uint8_t prev[LEDGER_HASH_BYTES], sefl_span body)
{
    uint8_t hash[LEDGER_HASH_BYTES];
    link_hash(hash, prev, body);
    memcpy(prev, hash, sizeof hash);
    SEFL_PASS(wr_u32(out, (uint32_t)body.n));
    SEFL_PASS(wr_u32(out, ~(uint32_t)body.n));
    SEFL_PASS(wr_raw(out, body.p, body.n));
    return wr_raw(out, hash, sizeof hash);
}

sefl_status ledger_create(const char *path, const char *population)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 }, body = { 0 };
    uint8_t prev[LEDGER_HASH_BYTES];
    size_t n = strlen(population);
    SEFL_CHECK(n >= 1 && n <= LEDGER_NAME_MAX, SEFL_EINVAL,
               "population name has %zu bytes: it must have 1 to %d", n, LEDGER_NAME_MAX);
    SEFL_CHECK(name_ok(span_of_str(population)), SEFL_EINVAL,
               "population name: only printable ASCII characters are allowed");
    first_hash(prev);
    SEFL_TRY(wr_u8(&body, REC_POPULATION));
    SEFL_TRY(wr_bytes(&body, span_of_str(population)));
    SEFL_TRY(wr_raw(&file, MAGIC, MAGIC_BYTES));
    SEFL_TRY(put_record(&file, prev, buf_span(&body)));
    SEFL_TRY(file_write_new(path, buf_span(&file), 0600));
done:
    buf_clear(&file);
    buf_clear(&body);
    return st;
}

/* Checks that this is the caller's ledger. */
static sefl_status check_identity(const ledger *l, const char *population,
                                  const ledger_head *remembered)
{
    SEFL_NEED(!population || strcmp(l->population, population) == 0, SEFL_ESTATE,
              "ledger %s belongs to population \"%s\", not \"%s\"", l->path, l->population,
              population);
    if (remembered) {
        ledger_order o = ledger_compare(l, remembered);
        SEFL_NEED(o == LEDGER_SAME || o == LEDGER_PEER_BEHIND, SEFL_ESTATE,
                  "ledger %s has %zu records and %s the head remembered at record %" PRIu64
                  ": it was rolled back or replaced",
                  l->path, l->n_records, o == LEDGER_PEER_AHEAD ? "does not reach" : "contradicts",
                  remembered->records);
    }
    return SEFL_OK;
}

/* Cuts an unfinished record off, then makes sure that what we just read is on disk: it may stem
 * from a process that died between write and sync, or whose sync failed. After a failed sync the
 * kernel may call the pages clean without having written them, so the bytes are written again. */
static sefl_status settle(ledger *l, sefl_span file)
{
    if (l->ignored > 0)
        SEFL_PASS(file_cut(l->fd, l->path, l->size));
    SEFL_PASS(file_write_at(l->fd, l->path, l->last_append,
                            span_of(file.p + l->last_append, l->size - l->last_append)));
    return sync_file(l);
}

static sefl_status open_common(ledger **out, const char *path, bool charging,
                               const char *population, const ledger_head *remembered)
{
    sefl_buf file = { 0 };
    SEFL_MAKE(ledger, l, out);
    l->fd = -1;
    SEFL_TRY(sefl_strdup(&l->path, path));
    int how = charging ? O_RDWR | O_NOFOLLOW : O_RDONLY | O_NONBLOCK; /* it may be a pipe */
    l->fd = open(path, how | O_CLOEXEC | O_NOCTTY);
    SEFL_CHECK(l->fd >= 0, errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO, "cannot open %s: %s", path,
               strerror(errno));
    if (charging) {
        SEFL_CHECK(flock(l->fd, LOCK_EX | LOCK_NB) == 0, SEFL_ESTATE,
                   "%s is in use by another process", path);
    }
    SEFL_TRY(read_all(&file, l->fd, path));
    SEFL_TRY(sefl_at(replay(l, buf_span(&file)), "ledger %s", path));
    if (charging) {
        SEFL_TRY(check_identity(l, population, remembered)); /* before anything is changed */
        SEFL_TRY(settle(l, buf_span(&file)));
    } else {
        close(l->fd);
        l->fd = -1;
    }
    *out = l, l = NULL;
done:
    buf_clear(&file);
    ledger_close(l);
    return st;
}

sefl_status ledger_open(ledger **out, const char *path, const char *population,
                        const ledger_head *remembered)
{
    return open_common(out, path, true, population, remembered);
}

/* Gives the medium the ledger of a file, which must be sound and of this population. */
static sefl_status take_over(const ledger_medium *m, const char *path, const char *population)
{
    sefl_status st = SEFL_OK;
    ledger *l = NULL;
    sefl_buf b = { 0 };
    SEFL_TRY(ledger_open_read(&l, path));
    SEFL_TRY(check_identity(l, population, NULL));
    SEFL_TRY(file_read(&b, path, FILE_MAX));
    SEFL_CHECK(b.n >= l->size, SEFL_ESTATE, "%s was changed by another program", path);
    SEFL_TRY(m->append(m->ctx, population, 0, span_of(b.p, l->size)));
done:
    buf_clear(&b);
    ledger_close(l);
    return st;
}

/* The copy must be the ledger, or an earlier state of it. */
static sefl_status check_copy(const ledger *l)
{
    ledger *copy = NULL;
    ledger_head head;
    sefl_status st = ledger_open_read(&copy, l->path);
    if (st == SEFL_ENOTFOUND)
        return SEFL_OK; /* the first time on this machine */
    SEFL_PASS(st);
    ledger_get_head(copy, &head);
    ledger_close(copy);
    ledger_order o = ledger_compare(l, &head);
    SEFL_NEED(o == LEDGER_SAME || o == LEDGER_PEER_BEHIND, SEFL_ESTATE,
              "the copy %s has %" PRIu64 " records, and the ledger in %s %s: the store was rolled "
              "back, or an old copy was put back",
              l->path, head.records, l->m.place,
              o == LEDGER_PEER_AHEAD ? "has fewer" : "contradicts it");
    return SEFL_OK;
}

sefl_status ledger_open_shared(ledger **out, const ledger_medium *m, const char *path,
                               const char *population, const ledger_head *remembered)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    ledger *l = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&l, 1, sizeof *l));
    l->fd = -1;
    l->shared = true;
    l->m = *m;
    SEFL_TRY(sefl_strdup(&l->path, path));
    st = m->read(m->ctx, population, &b);
    if (st == SEFL_ENOTFOUND) {
        SEFL_TRY(take_over(m, path, population));
        st = m->read(m->ctx, population, &b);
    }
    SEFL_TRY(st);
    SEFL_TRY(sefl_at(replay(l, buf_span(&b)), "ledger in %s", m->place));
    SEFL_CHECK(l->ignored == 0, SEFL_EPROTO, "ledger in %s: its last record is incomplete",
               m->place);
    SEFL_TRY(check_identity(l, population, remembered));
    SEFL_TRY(check_copy(l));
    SEFL_TRY(write_copy(l));
    *out = l, l = NULL;
done:
    buf_clear(&b);
    ledger_close(l);
    return st;
}

sefl_status ledger_open_read(ledger **out, const char *path)
{
    return open_common(out, path, false, NULL, NULL);
}

void ledger_close(ledger *l)
{
    if (!l)
        return;
    if (l->fd >= 0)
        close(l->fd);
    for (size_t i = 0; i < l->n_tasks; i++)
        sefl_free(l->tasks[i].rounds);
    sefl_free(l->tasks);
    sefl_free(l->hashes);
    sefl_free(l->path);
    sefl_free(l->population);
    sefl_free(l);
}

/* ---- charging ------------------------------------------------------------------------------ */

/* Checks everything that can refuse a charge. *at: the task's number (n_tasks: a new task). */
static sefl_status consider(const ledger *l, const ledger_terms *terms, uint64_t round, size_t *at,
                            bool *already)
{
    *already = false;
    const bool reading = l->fd < 0 && !l->shared;
    SEFL_NEED(!reading && !l->broken, SEFL_ESTATE, "ledger %s: %s", l->path,
              reading ? "opened for reading only" : "it failed before: open it again");
    SEFL_PASS(ledger_terms_check(terms));
    SEFL_PASS(ledger_terms_round(terms, round));
    *at = find_task(l, terms->task);
    bool is_new = *at == l->n_tasks;
    if (!is_new) {
        bool equal;
        SEFL_PASS(ledger_terms_equal(&equal, &l->tasks[*at].terms, terms));
        SEFL_NEED(equal, SEFL_ESTATE, "the task was charged before with other terms");
        *already = charged(&l->tasks[*at], round);
        if (*already)
            return SEFL_OK;
    }
    /* the ledger writes nothing that it could not read again */
    SEFL_NEED(!is_new || l->n_tasks < LEDGER_TASKS_MAX, SEFL_ERANGE,
              "population \"%s\" has had %d tasks: no more fit into its ledger", l->population,
              LEDGER_TASKS_MAX);
    SEFL_NEED(l->size + APPEND_MAX <= FILE_MAX, SEFL_ERANGE, "ledger %s is full", l->path);
    return ledger_check_budget(l, *at, terms, round);
}

sefl_status ledger_may_charge(const ledger *l, const ledger_terms *terms, uint64_t round)
{
    size_t at;
    bool already;
    return consider(l, terms, round, &at, &already);
}

/* The records of one charge, before they are written. */
typedef struct charge {
    sefl_buf bytes, task_body, body; /* task_body: empty unless the task is new */
    uint8_t task_hash[LEDGER_HASH_BYTES], hash[LEDGER_HASH_BYTES];
} charge;

static void charge_clear(charge *c)
{
    buf_clear(&c->bytes);
    buf_clear(&c->task_body);
    buf_clear(&c->body);
}

static sefl_status charge_make(charge *c, const ledger *l, const ledger_terms *terms,
                               uint64_t round, size_t at)
{
    last_hash(l, c->hash);
    if (at == l->n_tasks) {
        SEFL_PASS(wr_u8(&c->task_body, REC_TASK));
        SEFL_PASS(ledger_terms_write(&c->task_body, terms));
        SEFL_PASS(put_record(&c->bytes, c->hash, buf_span(&c->task_body)));
        memcpy(c->task_hash, c->hash, sizeof c->hash);
    }
    SEFL_PASS(wr_u8(&c->body, REC_CHARGE));
    SEFL_PASS(wr_varint(&c->body, at));
    SEFL_PASS(wr_varint(&c->body, round));
    return put_record(&c->bytes, c->hash, buf_span(&c->body));
}

sefl_status ledger_head_after(const ledger *l, const ledger_terms *terms, uint64_t round,
                              ledger_head *out)
{
    sefl_status st = SEFL_OK;
    charge c = { 0 };
    size_t at;
    bool before;
    ledger_get_head(l, out);
    SEFL_TRY(consider(l, terms, round, &at, &before));
    if (before)
        goto done;
    SEFL_TRY(charge_make(&c, l, terms, round, at));
    out->records += 1 + (c.task_body.n > 0);
    memcpy(out->hash, c.hash, sizeof out->hash);
done:
    charge_clear(&c);
    return st;
}

sefl_status ledger_charge(ledger *l, const ledger_terms *terms, uint64_t round, bool *already)
{
    sefl_status st = SEFL_OK;
    charge c = { 0 };
    size_t at;
    bool before;
    st = consider(l, terms, round, &at, &before);
    if (already)
        *already = st == SEFL_OK && before;
    if (st != SEFL_OK || before)
        goto done;
    SEFL_TRY(charge_make(&c, l, terms, round, at));
    SEFL_TRY(append(l, buf_span(&c.bytes)));

    /* durable; if memory runs out now, the file is ahead of memory: reopen */
    l->broken = true;
    if (c.task_body.n > 0)
        SEFL_TRY(apply(l, buf_span(&c.task_body), c.task_hash));
    SEFL_TRY(apply(l, buf_span(&c.body), c.hash));
    l->broken = false;
done:
    charge_clear(&c);
    return st;
}

sefl_status ledger_allows(const ledger *l, const ledger_terms *terms, uint64_t round,
                          double epsilon_max)
{
    ledger_terms limited = *terms;
    SEFL_PASS(ledger_terms_check(terms));
    SEFL_PASS(ledger_terms_round(terms, round));
    size_t at = find_task(l, terms->task);
    if (at < l->n_tasks && charged(&l->tasks[at], round))
        return SEFL_OK;
    limited.epsilon_max = epsilon_max;
    return ledger_check_budget(l, at, &limited, round);
}

bool ledger_has(const ledger *l, const uint8_t id[LEDGER_TASK_BYTES], uint64_t round)
{
    size_t at = find_task(l, id);
    return at < l->n_tasks && charged(&l->tasks[at], round);
}

bool ledger_has_near(const ledger *l, const uint8_t id[LEDGER_TASK_BYTES], uint64_t round,
                     uint64_t apart)
{
    const size_t task = find_task(l, id);
    if (task == l->n_tasks)
        return false;
    const ledger_entry *t = &l->tasks[task];
    size_t at = place_of(t, round);
    const bool before = at > 0 && round - t->rounds[at - 1] < apart;
    at += at < t->n && t->rounds[at] == round;
    return before || (at < t->n && t->rounds[at] - round < apart);
}

uint64_t ledger_rounds(const ledger *l, const uint8_t id[LEDGER_TASK_BYTES])
{
    uint64_t rounds = 0;
    (void)ledger_task(l, find_task(l, id), &rounds);
    return rounds;
}

size_t ledger_ignored(const ledger *l)
{
    return l->ignored;
}

const char *ledger_population(const ledger *l)
{
    return l->population;
}

const ledger_terms *ledger_task(const ledger *l, size_t i, uint64_t *rounds)
{
    if (i >= l->n_tasks)
        return NULL;
    *rounds = l->tasks[i].n;
    return &l->tasks[i].terms;
}

void ledger_get_head(const ledger *l, ledger_head *out)
{
    out->records = l->n_records;
    last_hash(l, out->hash);
}

ledger_order ledger_compare(const ledger *l, const ledger_head *peer)
{
    if (peer->records > l->n_records)
        return LEDGER_PEER_AHEAD;
    if (peer->records == 0 ||
        memcmp(l->hashes[peer->records - 1], peer->hash, LEDGER_HASH_BYTES) != 0)
        return LEDGER_FORKED;
    return peer->records == l->n_records ? LEDGER_SAME : LEDGER_PEER_BEHIND;
}

bool ledger_head_equal(const ledger_head *a, const ledger_head *b)
{
    return a->records == b->records && memcmp(a->hash, b->hash, sizeof a->hash) == 0;
}

sefl_status ledger_head_write(sefl_buf *out, const ledger_head *h)
{
    sefl_status st = wr_u64(out, h->records);
    return st == SEFL_OK ? wr_raw(out, h->hash, sizeof h->hash) : st;
}

sefl_status ledger_head_read(rd *r, ledger_head *out)
{
    sefl_status st = rd_u64(r, &out->records);
    return st == SEFL_OK ? rd_raw(r, out->hash, sizeof out->hash) : st;
}
