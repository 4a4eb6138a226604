#include "roles/client/receipts.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HEAD = 4 + RECEIPTS_TASK + 8, AROUND = HEAD + SHA256_BYTES };

typedef struct entry {
    uint64_t offset, round;
} entry;

struct receipts {
    int fd;
    char *path;
    uint64_t end; /* of the last good record */
    entry *at;
    size_t n, room;
};

static uint64_t record_bytes(const uint8_t head[HEAD])
{
    return AROUND + (uint64_t)load_u32(head);
}

/* Reads a record into out, which is emptied first; *good: the record is valid. */
static sefl_status read_record(const receipts *r, uint64_t offset, sefl_buf *out, bool *good)
{
    uint8_t head[HEAD], digest[SHA256_BYTES], *p;
    size_t got;
    *good = false;
    buf_reset(out);
    SEFL_PASS(file_read_at(r->fd, r->path, offset, head, HEAD, &got));
    if (got < HEAD || load_u32(head) > RECEIPTS_ENVELOPE_MAX)
        return SEFL_OK;
    size_t bytes = (size_t)record_bytes(head);
    SEFL_PASS(buf_extend(out, &p, bytes));
    SEFL_PASS(file_read_at(r->fd, r->path, offset, p, bytes, &got));
    if (got < bytes)
        return SEFL_OK;
    sha256_of(digest, span_of(p, bytes - SHA256_BYTES));
    *good = memcmp(digest, p + bytes - SHA256_BYTES, SHA256_BYTES) == 0;
    return SEFL_OK;
}

static sefl_status take_entry(receipts *r, uint64_t offset, uint64_t round)
{
    SEFL_PASS(sefl_room(&r->at, &r->room, r->n + 1, sizeof *r->at));
    r->at[r->n++] = (entry){ offset, round };
    return SEFL_OK;
}

/* *torn: a crash may have left these last bytes of one append: the record's head says that it
 * reaches to the end or beyond, or the system extended the file and wrote none of it; and no valid
 * record follows. */
static sefl_status is_torn(const receipts *r, uint64_t offset, uint64_t size, bool *torn)
{
    sefl_status st = SEFL_OK;
    uint8_t tail[AROUND + RECEIPTS_ENVELOPE_MAX];
    size_t got, zeros = 0;
    sefl_buf b = { 0 };
    bool good = false;
    *torn = false;
    if (size - offset > sizeof tail)
        return SEFL_OK;
    SEFL_TRY(file_read_at(r->fd, r->path, offset, tail, (size_t)(size - offset), &got));
    while (zeros < got && tail[zeros] == 0)
        zeros++;
    for (uint64_t at = offset + 1; zeros < got && !good && at + AROUND <= size; at++)
        SEFL_TRY(read_record(r, at, &b, &good));
    *torn = !good && (zeros == got || got < HEAD || record_bytes(tail) >= got);
done:
    buf_clear(&b);
    return st;
}

static sefl_status walk(receipts *r)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    bool good, torn;
    uint64_t size;
    SEFL_TRY(file_size(&size, r->fd, r->path));
    while (r->end < size) {
        SEFL_TRY(read_record(r, r->end, &b, &good));
        if (!good) {
            SEFL_TRY(is_torn(r, r->end, size, &torn));
            SEFL_CHECK(torn, SEFL_EPROTO,
                       "%s: the receipt at byte %" PRIu64
                       " was changed; rename the file to keep it "
                       "as evidence, then restart: the client creates a new one",
                       r->path, r->end);
            SEFL_TRY(file_cut(r->fd, r->path, r->end));
            SEFL_TRY(file_sync(r->fd, r->path));
            break;
        }
        SEFL_TRY(take_entry(r, r->end, load_u64(b.p + 4 + RECEIPTS_TASK)));
        r->end += b.n;
    }
done:
    buf_clear(&b);
    return st;
}

sefl_status receipts_open(receipts **out, const char *path)
{
    SEFL_MAKE(receipts, r, out);
    r->fd = -1;
    SEFL_TRY(sefl_strdup(&r->path, path));
    r->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    SEFL_CHECK(r->fd >= 0 || errno != EISDIR, SEFL_ESTATE,
               "%s is a folder: an earlier version kept each receipt in a file there; rename it, "
               "then restart (its receipts stay valid)",
               path);
    SEFL_CHECK(r->fd >= 0, SEFL_EIO, "cannot open %s: %s", path, strerror(errno));
    SEFL_TRY(walk(r));
    SEFL_HAND_OVER(out, r, receipts_close);
}

void receipts_close(receipts *r)
{
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    sefl_free(r->at);
    sefl_free(r->path);
    sefl_free(r);
}

/* Drops the last record if it is of this task and round: the new one replaces it. */
static sefl_status drop_same(receipts *r, const uint8_t task[RECEIPTS_TASK], uint64_t round)
{
    uint8_t head[HEAD];
    size_t got;
    if (r->n == 0 || r->at[r->n - 1].round != round)
        return SEFL_OK;
    SEFL_PASS(file_read_at(r->fd, r->path, r->at[r->n - 1].offset, head, HEAD, &got));
    if (got == HEAD && memcmp(head + 4, task, RECEIPTS_TASK) == 0)
        r->end = r->at[--r->n].offset;
    return SEFL_OK;
}

sefl_status receipts_add(receipts *r, const uint8_t task[RECEIPTS_TASK], uint64_t round,
                         sefl_span envelope)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    uint8_t digest[SHA256_BYTES];
    SEFL_CHECK(envelope.n <= RECEIPTS_ENVELOPE_MAX, SEFL_ERANGE,
               "a receipt of %zu bytes, at most %d are allowed", envelope.n, RECEIPTS_ENVELOPE_MAX);
    SEFL_TRY(wr_u32(&b, (uint32_t)envelope.n));
    SEFL_TRY(wr_raw(&b, task, RECEIPTS_TASK));
    SEFL_TRY(wr_u64(&b, round));
    SEFL_TRY(wr_raw(&b, envelope.p, envelope.n));
    sha256_of(digest, buf_span(&b));
    SEFL_TRY(wr_raw(&b, digest, sizeof digest));
    SEFL_TRY(drop_same(r, task, round));
    SEFL_TRY(take_entry(r, r->end, round));
    st = file_write_at(r->fd, r->path, r->end, buf_span(&b));
    if (st == SEFL_OK)
        st = file_cut(r->fd, r->path, r->end + b.n); /* an earlier, longer attempt */
    if (st == SEFL_OK)
        st = file_sync(r->fd, r->path);
    if (st == SEFL_OK) {
        r->end += b.n;
    } else { /* the next record overwrites what was written, or the next start truncates it */
        r->n--;
        (void)!ftruncate(r->fd, (off_t)r->end);
    }
done:
    buf_clear(&b);
    return st;
}

size_t receipts_count(const receipts *r)
{
    return r->n;
}

static sefl_status good_record(const receipts *r, size_t i, sefl_buf *record)
{
    bool good;
    SEFL_PASS(read_record(r, r->at[i].offset, record, &good));
    SEFL_NEED(good, SEFL_EPROTO, "%s: the receipt at byte %" PRIu64 " was changed", r->path,
              r->at[i].offset);
    return SEFL_OK;
}

sefl_status receipts_at(const receipts *r, size_t i, uint8_t task[RECEIPTS_TASK], uint64_t *round,
                        sefl_buf *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_CHECK(i < r->n, SEFL_ENOTFOUND, "%s has %zu receipts", r->path, r->n);
    SEFL_TRY(good_record(r, i, &b));
    if (task)
        memcpy(task, b.p + 4, RECEIPTS_TASK);
    if (round)
        *round = r->at[i].round;
    SEFL_TRY(wr_raw(out, b.p + HEAD, b.n - AROUND));
done:
    buf_clear(&b);
    return st;
}

sefl_status receipts_find(const receipts *r, sefl_buf *out, const uint8_t task[RECEIPTS_TASK],
                          uint64_t round)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    for (size_t i = r->n; i-- > 0;) {
        if (r->at[i].round != round)
            continue;
        SEFL_TRY(good_record(r, i, &b));
        if (memcmp(b.p + 4, task, RECEIPTS_TASK) != 0)
            continue;
        SEFL_TRY(wr_raw(out, b.p + HEAD, b.n - AROUND));
        goto done;
    }
    st = sefl_fail(SEFL_ENOTFOUND, "%s has no receipt of round %" PRIu64, r->path, round);
done:
    buf_clear(&b);
    return st;
}

sefl_status receipts_next(rd *r, sefl_span *envelope, bool *more)
{
    uint32_t n;
    uint8_t hash[SHA256_BYTES];
    const uint8_t *from = r->p;
    sefl_span head, sum;
    *more = false;
    if (r->left < 4)
        return SEFL_OK;
    SEFL_PASS(rd_u32(r, &n));
    SEFL_NEED(n <= RECEIPTS_ENVELOPE_MAX, SEFL_EPROTO, "it was changed: its length is %u", n);
    if (r->left < RECEIPTS_TASK + 8 + n + sizeof hash)
        return SEFL_OK;
    SEFL_PASS(rd_view(r, &head, RECEIPTS_TASK + 8));
    SEFL_PASS(rd_view(r, envelope, n));
    sha256_of(hash, span_of(from, (size_t)(r->p - from)));
    SEFL_PASS(rd_view(r, &sum, sizeof hash));
    SEFL_NEED(memcmp(hash, sum.p, sizeof hash) == 0, SEFL_EPROTO, "it was changed");
    *more = true;
    return SEFL_OK;
}
