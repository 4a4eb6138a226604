/* seek: searches for planted bytes in files and folders.
 *
 *     seek *s = seek_new();
 *     seek_plant(s, "client-01 text", "zebra zebra yak", 15);
 *     seek_plant_values(s, "client-01 update", X, n, 0.001);     // in many encodings
 *     seek_folder(s, "/tmp/x/server");                            // every file below it
 *     assert(seek_hits(s) == 0);                                   // seek_first: what and where
 *
 * A planted pattern is at least 8 bytes long, so that it does not occur by chance. Threads: one
 * owner. */
#ifndef SUPPORT_SEEK_H
#define SUPPORT_SEEK_H

#include <stddef.h>
#include <stdint.h>

typedef struct seek seek;

seek *seek_new(void); /* aborts if out of memory */
void seek_free(seek *s);

void seek_plant(seek *s, const char *name, const void *bytes, size_t n);

/* Plants windows from several places of a vector where neighbours differ: the integers as 16-, 32-
 * and 64-bit little- and big-endian numbers and as decimal text with commas, and multiplied by
 * `unit` as 32- and 64-bit floats. Returns the number of planted patterns. */
unsigned seek_plant_values(seek *s, const char *name, const int64_t *x, size_t n, double unit);

/* Aborts if a file cannot be read, because an unread file must not count as clean. */
void seek_file(seek *s, const char *path);
void seek_folder(seek *s, const char *path);
void seek_memory(seek *s, const char *name, const void *bytes, size_t n);

unsigned seek_planted(const seek *s);
unsigned seek_hits(const seek *s);     /* number of different patterns found */
const char *seek_first(const seek *s); /* "NAME in FILE at OFFSET", "" if none */
uint64_t seek_bytes(const seek *s);    /* number of bytes searched */
unsigned seek_files(const seek *s);
void seek_forget(seek *s); /* clears hits and counts, keeps the planted patterns */

#endif
