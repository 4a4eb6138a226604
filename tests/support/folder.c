#define _GNU_SOURCE
#include "support/folder.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[64];

int folder_make(void **state)
{
    (void)state;
    strcpy(root, "/tmp/sefl-test-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

int folder_make_quick(void **state)
{
    strcpy(root, "/dev/shm/sefl-test-XXXXXX");
    return access("/dev/shm", W_OK) == 0 && mkdtemp(root) ? 0 : folder_make(state);
}

static int remove_one(const char *path, const struct stat *sb, int type, struct FTW *ftw)
{
    (void)sb, (void)type, (void)ftw;
    return remove(path);
}

int folder_remove(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *folder_path(const char *name)
{
    static char path[4][256];
    static unsigned next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", root, name);
    return p;
}

const char *folder_put(const char *name, const void *bytes, size_t n)
{
    const char *path = folder_path(name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        abort();
    return path;
}

void folder_copy(const char *to, const char *from)
{
    char line[1200];
    snprintf(line, sizeof line, "rm -rf '%s' && cp -a '%s' '%s'", to, from, to);
    if (system(line) != 0)
        abort();
}

size_t folder_count(void)
{
    size_t n = 0;
    DIR *d = opendir(root);
    if (!d)
        abort();
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}
