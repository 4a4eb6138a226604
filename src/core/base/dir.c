#define _GNU_SOURCE
#include "base/dir.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

sefl_status dir_root(dir_tree *d, const char *root)
{
    size_t n = strlen(root);
    while (n > 1 && root[n - 1] == '/')
        n--;
    SEFL_NEED(n > 0 && n < sizeof d->root, SEFL_EINVAL,
              "a folder's name must have 1 to %zu bytes, not %zu", sizeof d->root - 1, n);
    d->next = 0;
    snprintf(d->root, sizeof d->root, "%.*s", (int)n, root);
    return SEFL_OK;
}

const char *dir_in(dir_tree *d, const char *fmt, ...)
{
    char *p = d->path[d->next++ % DIR_RING];
    va_list ap;
    size_t n = strlen(d->root);
    memcpy(p, d->root, n);
    p[n++] = '/';
    va_start(ap, fmt);
    int more = vsnprintf(p + n, PATH_MAX - n, fmt, ap);
    va_end(ap);
    assert(more >= 0 && (size_t)more < PATH_MAX - n);
    (void)more;
    return p;
}

bool dir_is_empty(const char *path)
{
    DIR *d = opendir(path);
    bool empty = d != NULL;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        empty = empty && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0);
    if (d)
        closedir(d);
    return empty;
}

sefl_status dir_check_free(const char *path)
{
    struct stat sb;
    if (lstat(path, &sb) != 0)
        return errno == ENOENT ? SEFL_OK : sefl_fail(SEFL_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(sb.st_mode))
        return sefl_fail(SEFL_EEXIST, "%s exists and is not a folder", path);
    return dir_is_empty(path)
               ? SEFL_OK
               : sefl_fail(SEFL_EEXIST, "%s is not empty: choose another folder", path);
}

static int remove_one(const char *path, const struct stat *sb, int flag, struct FTW *ftw)
{
    (void)sb, (void)flag, (void)ftw;
    return remove(path);
}

void dir_remove(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
