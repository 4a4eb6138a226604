/* An entry is a header of one block, the bytes, and zeros up to the next block; two blocks of zeros
 * end the archive. Header fields: name 100, mode 8, uid 8, gid 8, size 12, mtime 12, checksum 8,
 * type 1, link 100, magic 6, version 2, user 32, group 32, device 16, prefix 155. */
#define _GNU_SOURCE
#include "base/tar.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 512, NAME = 100, PREFIX = 155, PREFIX_AT = 345, CHECKSUM_AT = 148, PIECE = 1 << 16 };
#define SIZE_MAX_BYTES (UINT64_C(1) << 33) /* eleven octal digits */

sefl_status tar_open(tar *t, const char *path, mode_t mode)
{
    return outfile_open(&t->out, path, mode);
}

/* Writes the name, split at a slash if it is long: PREFIX/NAME. */
static sefl_status put_name(uint8_t h[BLOCK], const char *name)
{
    const size_t n = strlen(name);
    size_t cut = 0; /* length of the prefix */
    if (n > NAME) {
        const char *slash = strchr(name, '/');
        while (slash && name + n - slash - 1 > NAME)
            slash = strchr(slash + 1, '/');
        SEFL_NEED(slash && slash[1] && slash - name <= PREFIX, SEFL_ERANGE,
                  "%s: too long for a name in a tar archive", name);
        cut = (size_t)(slash - name);
    }
    memcpy(h + PREFIX_AT, name, cut);
    memcpy(h, name + cut + (cut > 0), n - cut - (cut > 0));
    return SEFL_OK;
}

static sefl_status put_header(tar *t, const char *name, char type, mode_t mode, uint64_t size,
                              time_t when)
{
    uint8_t h[BLOCK] = { 0 };
    char *c = (char *)h;
    unsigned sum = 0;
    SEFL_NEED(size < SIZE_MAX_BYTES, SEFL_ERANGE, "%s: larger than the 8 GiB of a tar entry", name);
    SEFL_PASS(put_name(h, name));
    snprintf(c + 100, 8, "%07o", (unsigned)(mode & 0777));
    snprintf(c + 108, 8, "%07o", 0U);
    snprintf(c + 116, 8, "%07o", 0U);
    snprintf(c + 124, 12, "%011" PRIo64, size);
    snprintf(c + 136, 12, "%011" PRIo64, (uint64_t)(when > 0 ? when : 0) % SIZE_MAX_BYTES);
    c[156] = type;
    memcpy(c + 257, "ustar\00000", 8);
    memset(c + CHECKSUM_AT, ' ', 8);
    for (int i = 0; i < BLOCK; i++)
        sum += h[i];
    snprintf(c + CHECKSUM_AT, 8, "%06o", sum);
    return outfile_put(&t->out, h, sizeof h);
}

static sefl_status pad(tar *t)
{
    static const uint8_t zeros[BLOCK];
    return outfile_put(&t->out, zeros, (BLOCK - t->out.bytes % BLOCK) % BLOCK);
}

sefl_status tar_put(tar *t, const char *name, sefl_span bytes, mode_t mode)
{
    SEFL_PASS(put_header(t, name, '0', mode, bytes.n, time(NULL)));
    SEFL_PASS(outfile_put(&t->out, bytes.p, bytes.n));
    return pad(t);
}

static sefl_status copy_file(tar *t, const char *name, const char *path, const struct stat *sb)
{
    sefl_status st = SEFL_OK;
    uint64_t size, at = 0;
    uint8_t piece[PIECE];
    int fd = -1;
    SEFL_TRY(file_open(&fd, &size, path, false));
    SEFL_TRY(put_header(t, name, '0', sb->st_mode, size, sb->st_mtime));
    while (at < size) {
        size_t got, n = size - at < sizeof piece ? (size_t)(size - at) : sizeof piece;
        SEFL_TRY(file_read_at(fd, path, at, piece, n, &got));
        SEFL_CHECK(got == n, SEFL_EIO, "%s: the file shrank while it was copied", path);
        SEFL_TRY(outfile_put(&t->out, piece, n));
        at += n;
    }
    SEFL_TRY(pad(t));
done:
    if (fd >= 0)
        close(fd);
    return st;
}

static int is_entry(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static sefl_status copy_folder(tar *t, const char *name, const char *path, const struct stat *sb)
{
    sefl_status st = SEFL_OK;
    struct dirent **entry = NULL;
    char inside[PATH_MAX], from[PATH_MAX];
    SEFL_PASS(file_path(inside, "%s/", name));
    SEFL_PASS(put_header(t, inside, '5', sb->st_mode, 0, sb->st_mtime));
    const int n = scandir(path, &entry, is_entry, alphasort);
    SEFL_NEED(n >= 0, SEFL_EIO, "%s: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (st == SEFL_OK)
            st = file_path(inside, "%s/%s", name, entry[i]->d_name);
        if (st == SEFL_OK)
            st = file_path(from, "%s/%s", path, entry[i]->d_name);
        if (st == SEFL_OK)
            st = tar_copy(t, inside, from);
        free(entry[i]);
    }
    free(entry);
    return st;
}

sefl_status tar_copy(tar *t, const char *name, const char *path)
{
    struct stat sb;
    SEFL_NEED(lstat(path, &sb) == 0, errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO, "%s: %s", path,
              strerror(errno));
    if (S_ISDIR(sb.st_mode))
        return copy_folder(t, name, path, &sb);
    SEFL_NEED(S_ISREG(sb.st_mode), SEFL_EINVAL, "%s is neither a file nor a folder", path);
    return copy_file(t, name, path, &sb);
}

sefl_status tar_commit(tar *t)
{
    static const uint8_t end[2 * BLOCK];
    SEFL_PASS(outfile_put(&t->out, end, sizeof end));
    return outfile_commit(&t->out);
}

void tar_abort(tar *t)
{
    outfile_abort(&t->out);
}
