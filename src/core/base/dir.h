/* dir: builds paths below one folder, and removes whole folders.
 *
 *     dir_tree d;
 *     SEFL_TRY(dir_root(&d, "fed"));
 *     SEFL_TRY(file_write_new(dir_in(&d, "clients/%s/cert.pem", name), bytes, 0644));
 *
 * Threads: a dir_tree has one owner.   Secrets: none. */
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

/* Sets the root folder, without trailing slashes. SEFL_EINVAL if the path is empty or too long. */
sefl_status dir_root(dir_tree *d, const char *root) SEFL_MUST_CHECK;

/* Returns a path below the root, at most DIR_SPARE - 1 bytes longer than the root. The path stays
 * valid for the next seven calls. */
const char *dir_in(dir_tree *d, const char *fmt, ...) SEFL_PRINTF(2, 3);

/* True if path is a folder that exists and is empty. */
bool dir_is_empty(const char *path);

/* SEFL_EEXIST if path exists, unless it is an empty folder. */
sefl_status dir_check_free(const char *path) SEFL_MUST_CHECK;

/* Deletes a file, or a folder with all its contents, without following links. Ignores errors. */
void dir_remove(const char *path);

#endif
