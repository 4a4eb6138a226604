#define _GNU_SOURCE
#include "support/seek.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHORTEST = 8, WINDOW = 8, WINDOWS = 4 };

typedef struct planted {
    char name[96];
    uint8_t *p;
    size_t n;
    bool found;
} planted;

struct seek {
    planted *list;
    size_t count;
    unsigned hits, files;
    uint64_t bytes;
    char first[512];
};

static void need(bool ok, const char *what)
{
    if (!ok) {
        perror(what);
        abort();
    }
}

seek *seek_new(void)
{
    seek *s = calloc(1, sizeof *s);
    need(s != NULL, "seek");
    return s;
}

void seek_free(seek *s)
{
    for (size_t i = 0; s && i < s->count; i++)
        free(s->list[i].p);
    if (s)
        free(s->list);
    free(s);
}

void seek_plant(seek *s, const char *name, const void *bytes, size_t n)
{
    need(n >= SHORTEST, "seek: too short");
    s->list = realloc(s->list, (s->count + 1) * sizeof *s->list);
    need(s->list != NULL, "seek");
    planted *x = &s->list[s->count++];
    *x = (planted){ .p = malloc(n), .n = n };
    need(x->p != NULL, "seek");
    snprintf(x->name, sizeof x->name, "%s", name);
    memcpy(x->p, bytes, n);
}

/* Eight consecutive numbers of which at least five differ, so that zeros never match. */
static bool telling(const int64_t *x)
{
    unsigned different = 0;
    for (unsigned i = 0; i < WINDOW; i++) {
        bool is_new = x[i] != 0;
        for (unsigned j = 0; j < i; j++)
            is_new = is_new && x[j] != x[i];
        different += is_new;
    }
    return different >= 5;
}

static void plant_window(seek *s, const char *name, const int64_t *x, double unit)
{
    char label[96], text[WINDOW * 24];
    uint8_t little[WINDOW * 8], big[WINDOW * 8];
    for (unsigned size = 2; size <= 8; size *= 2) {
        for (unsigned i = 0; i < WINDOW; i++)
            for (unsigned b = 0; b < size; b++) {
                little[i * size + b] = (uint8_t)((uint64_t)x[i] >> (8 * b));
                big[i * size + size - 1 - b] = little[i * size + b];
            }
        snprintf(label, sizeof label, "%s, %u-bit integers", name, 8 * size);
        seek_plant(s, label, little, WINDOW * size);
        seek_plant(s, label, big, WINDOW * size);
    }
    size_t n = 0;
    for (unsigned i = 0; i < WINDOW; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", i ? "," : "", (long long)x[i]);
    snprintf(label, sizeof label, "%s, decimal", name);
    seek_plant(s, label, text, n);
    float f[WINDOW];
    double d[WINDOW];
    for (unsigned i = 0; i < WINDOW; i++)
        d[i] = (double)x[i] * unit, f[i] = (float)d[i];
    snprintf(label, sizeof label, "%s, reals", name);
    seek_plant(s, label, f, sizeof f);
    seek_plant(s, label, d, sizeof d);
}

unsigned seek_plant_values(seek *s, const char *name, const int64_t *x, size_t n, double unit)
{
    unsigned windows = 0;
    for (unsigned k = 0; k < WINDOWS && n >= WINDOW; k++) {
        size_t at = (n - WINDOW) / WINDOWS * k, end = (n - WINDOW) / WINDOWS * (k + 1);
        while (at < end && !telling(x + at))
            at++;
        if (at == end)
            continue;
        plant_window(s, name, x + at, unit);
        windows++;
    }
    return windows;
}

void seek_memory(seek *s, const char *name, const void *bytes, size_t n)
{
    s->files++;
    s->bytes += n;
    for (size_t i = 0; i < s->count; i++) {
        planted *x = &s->list[i];
        const uint8_t *at = n >= x->n ? memmem(bytes, n, x->p, x->n) : NULL;
        if (!at)
            continue;
        if (!s->first[0])
            snprintf(s->first, sizeof s->first, "%s in %s at %zu", x->name, name,
                     (size_t)(at - (const uint8_t *)bytes));
        s->hits += !x->found;
        x->found = true;
    }
}

void seek_file(seek *s, const char *path)
{
    struct stat sb;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    need(fd >= 0 && fstat(fd, &sb) == 0, path);
    if (sb.st_size > 0) {
        void *p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        need(p != MAP_FAILED, path);
        seek_memory(s, path, p, (size_t)sb.st_size);
        munmap(p, (size_t)sb.st_size);
    } else {
        s->files++;
    }
    close(fd);
}

void seek_folder(seek *s, const char *path)
{
    DIR *d = opendir(path);
    need(d != NULL, path);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char below[4096];
        struct stat sb;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        need((size_t)snprintf(below, sizeof below, "%s/%s", path, e->d_name) < sizeof below, path);
        need(lstat(below, &sb) == 0, below);
        if (S_ISDIR(sb.st_mode))
            seek_folder(s, below);
        else if (S_ISREG(sb.st_mode))
            seek_file(s, below);
    }
    closedir(d);
}

unsigned seek_planted(const seek *s)
{
    return (unsigned)s->count;
}

unsigned seek_hits(const seek *s)
{
    return s->hits;
}

const char *seek_first(const seek *s)
{
    return s->first;
}

uint64_t seek_bytes(const seek *s)
{
    return s->bytes;
}

unsigned seek_files(const seek *s)
{
    return s->files;
}

void seek_forget(seek *s)
{
    for (size_t i = 0; i < s->count; i++)
        s->list[i].found = false;
    s->hits = s->files = 0;
    s->bytes = 0;
    s->first[0] = 0;
}
