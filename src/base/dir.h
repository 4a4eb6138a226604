/* dir: paths below one folder, and whole folders.
 *
 *     dir_tree d;
 *     SEFL_TRY(dir_root(&d, "fed"));
 *     SEFL_TRY(file_write_new(dir_in(&d, "clients/%s/cert.pem", name), bytes, 0644));
 *
 * Threads: one owner of a dir_tree.   Secrets: none. */
#ifndef BASE_DIR_H
#define BASE_DIR_H

#include "base/status.h"

#include <limits.h>
#include <stdbool.h>

enum { DIR_RING = 8, DIR_SPARE = 160 };

typedef struct dir_tree {
    char root[PATH_MAX - DIR_SPARE];
    char path[DIR_RING][PATH_MAX];
    unsigned next;
} dir_tree;

/* Without slashes at its end. SEFL_EINVAL if it is empty, or so long that no path fits below it. */
sefl_status dir_root(dir_tree *d, const char *root) SEFL_MUST_CHECK;

/* A path below the root, of at most DIR_SPARE - 1 more bytes; valid until the eighth next call. */
const char *dir_in(dir_tree *d, const char *fmt, ...) SEFL_PRINTF(2, 3);

/* Is it a folder without entries? False also for one that is not there. */
bool dir_is_empty(const char *path);

/* SEFL_EEXIST unless nothing is there, or an empty folder. */
sefl_status dir_check_free(const char *path) SEFL_MUST_CHECK;

/* Deletes a file, or a folder with everything in it; follows no link. Best effort. */
void dir_remove(const char *path);

#endif
