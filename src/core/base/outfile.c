#include "base/outfile.h"

#include "base/alloc.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WINDOW = 1 << 18 };

sefl_status outfile_open(outfile *o, const char *path, mode_t mode)
{
    sefl_status st = SEFL_OK;
    struct stat sb;
    *o = (outfile){ .tmp.fd = -1 };
    /* The final rename would replace a device, a pipe or a link with a file. */
    SEFL_CHECK(lstat(path, &sb) != 0 || S_ISREG(sb.st_mode), SEFL_EINVAL,
               "%s is not a regular file", path);
    SEFL_TRY(sefl_strdup(&o->path, path));
    SEFL_TRY(buf_reserve(&o->window, WINDOW));
    SEFL_TRY(file_tmp_open(&o->tmp, path, mode));
done:
    if (st != SEFL_OK)
        outfile_abort(o);
    return st;
}

static sefl_status flush(outfile *o)
{
    sefl_status st = file_write_all(o->tmp.fd, buf_span(&o->window));
    buf_reset(&o->window);
    return sefl_at(st, "%s", o->path);
}

sefl_status outfile_put(outfile *o, const void *p, size_t n)
{
    if (n > WINDOW - o->window.n)
        SEFL_PASS(flush(o));
    o->bytes += n;
    return n < WINDOW ? wr_raw(&o->window, p, n)
                      : sefl_at(file_write_all(o->tmp.fd, span_of(p, n)), "%s", o->path);
}

sefl_status outfile_patch(outfile *o, uint64_t at, const void *p, size_t n)
{
    assert(at <= o->bytes && n <= o->bytes - at);
    SEFL_PASS(flush(o));
    SEFL_NEED(lseek(o->tmp.fd, (off_t)at, SEEK_SET) >= 0, SEFL_EIO, "%s: %s", o->path,
              strerror(errno));
    SEFL_PASS(sefl_at(file_write_all(o->tmp.fd, span_of(p, n)), "%s", o->path));
    SEFL_NEED(lseek(o->tmp.fd, 0, SEEK_END) >= 0, SEFL_EIO, "%s: %s", o->path, strerror(errno));
    return SEFL_OK;
}

static sefl_status outfile_finish(outfile *o, bool durable)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(flush(o));
    if (durable)
        SEFL_TRY(file_sync(o->tmp.fd, o->path));
    SEFL_TRY(file_tmp_publish(&o->tmp, o->path, true));
    if (durable)
        SEFL_TRY(file_sync_parent(o->path));
done:
    outfile_abort(o);
    return st;
}

sefl_status outfile_commit(outfile *o)
{
    return outfile_finish(o, true);
}

sefl_status outfile_publish(outfile *o)
{
    return outfile_finish(o, false);
}

void outfile_abort(outfile *o)
{
    if (!o->path)
        return;
    file_tmp_clear(&o->tmp);
    sefl_free(o->path);
    buf_clear(&o->window);
    *o = (outfile){ .tmp.fd = -1 };
}

sefl_status outfile_copy(const char *to, const char *from, mode_t mode,
                         const uint8_t hash[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    outfile o = { 0 };
    uint8_t piece[1 << 14], there[SHA256_BYTES];
    uint64_t size, at = 0;
    size_t got = sizeof piece;
    int fd = -1;
    sha256 h;
    sha256_init(&h);
    SEFL_TRY(file_open(&fd, &size, from, false));
    SEFL_TRY(outfile_open(&o, to, mode));
    for (; got == sizeof piece; at += got) {
        SEFL_TRY(file_read_at(fd, from, at, piece, sizeof piece, &got));
        sha256_add(&h, span_of(piece, got));
        SEFL_TRY(outfile_put(&o, piece, got));
    }
    sha256_end(&h, there);
    SEFL_CHECK(!hash || memcmp(there, hash, SHA256_BYTES) == 0, SEFL_EIO,
               "%s changed on disk: its hash does not match", from);
    SEFL_TRY(outfile_commit(&o));
done:
    outfile_abort(&o);
    if (fd >= 0)
        close(fd);
    return st;
}
