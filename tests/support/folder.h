/* folder: a scratch folder for one test program, removed with its contents.
 *
 *     return cmocka_run_group_tests(tests, folder_make, folder_remove);
 *     const char *p = folder_path("a.txt");              // valid until the fourth next call
 *     folder_put("a.txt", "text", 4); */
#ifndef SUPPORT_FOLDER_H
#define SUPPORT_FOLDER_H

#include <stddef.h>

int folder_make(void **state);
/* Like folder_make, but in memory if the system has /dev/shm, for tests that sync very often. */
int folder_make_quick(void **state);
int folder_remove(void **state);
const char *folder_path(const char *name);
/* Writes a file and returns its path. */
const char *folder_put(const char *name, const void *bytes, size_t n);
/* Replaces a file or folder by a copy of another; both arguments are paths. */
void folder_copy(const char *to, const char *from);
/* Returns the number of files and folders in the scratch folder, without hidden ones. */
size_t folder_count(void);

#endif
