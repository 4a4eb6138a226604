/* Runs a libFuzzer harness without libFuzzer: every file of the corpus, then seeded mutations of
 * them, bounded in time (SEFL_FUZZ_SECONDS, default 0.75) and count. Same seed, same inputs. */
#include "seeded/seeded.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_FILES = 256, INPUT_MAX = 1 << 16 };

static struct {
    uint8_t *p;
    size_t n;
} file[MAX_FILES];
static size_t files;

static void load(const char *path)
{
    static uint8_t tmp[INPUT_MAX];
    FILE *f = fopen(path, "rb");
    if (!f || files == MAX_FILES)
        return;
    size_t n = fread(tmp, 1, sizeof tmp, f);
    fclose(f);
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        return;
    memcpy(copy, tmp, n);
    file[files].p = copy;
    file[files++].n = n;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void load_folder(const char *dir)
{
    struct dirent **list;
    int n = scandir(dir, &list, NULL, by_name);
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
        if (list[i]->d_name[0] != '.')
            load(path);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
}

static size_t mutate(seeded *g, uint8_t *p, size_t n)
{
    unsigned steps = 1 + (unsigned)seeded_below(g, 8);
    while (steps-- > 0) {
        size_t at = n ? (size_t)seeded_below(g, n) : 0;
        switch (seeded_below(g, 6)) {
        case 0: /* flip a bit */
            if (n)
                p[at] ^= (uint8_t)(1u << seeded_below(g, 8));
            break;
        case 1: /* a byte with an interesting value */
            if (n)
                p[at] = (uint8_t[]){ 0, 1, 0x7f, 0x80, 0xff, 0xfe }[seeded_below(g, 6)];
            break;
        case 2: /* cut */
            n = at;
            break;
        case 3: /* insert random bytes */
            if (n < INPUT_MAX - 16) {
                size_t k = 1 + (size_t)seeded_below(g, 16);
                memmove(p + at + k, p + at, n - at);
                seeded_fill(g, p + at, k);
                n += k;
            }
            break;
        case 4: /* remove a piece */
            if (n) {
                size_t k = 1 + (size_t)seeded_below(g, n - at);
                memmove(p + at, p + at + k, n - at - k);
                n -= k;
            }
            break;
        default: /* the end of another file */
            if (files) {
                size_t o = (size_t)seeded_below(g, files);
                size_t k = file[o].n - (file[o].n ? (size_t)seeded_below(g, file[o].n) : 0);
                if (at + k <= INPUT_MAX) {
                    memcpy(p + at, file[o].p + file[o].n - k, k);
                    n = at + k;
                }
            }
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    static uint8_t input[INPUT_MAX + 64];
    const char *text = getenv("SEFL_FUZZ_SECONDS"), *seed = getenv("SEFL_TEST_SEED");
    double seconds = text && *text ? atof(text) : 0.75;
    unsigned long runs = 0, most = 20000000;
    seeded g;
    seeded_init(&g, seed && *seed ? strtoull(seed, NULL, 10) : 1, "fuzz");
    for (int i = 1; i < argc; i++)
        load_folder(argv[i]);
    for (size_t i = 0; i < files; i++, runs++)
        LLVMFuzzerTestOneInput(file[i].p, file[i].n);
    struct timespec t0, t;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    do {
        for (int i = 0; i < 16; i++, runs++) {
            size_t n = 0;
            if (files) {
                size_t o = (size_t)seeded_below(&g, files);
                memcpy(input, file[o].p, n = file[o].n);
            }
            n = mutate(&g, input, n);
            uint8_t *exact = malloc(n ? n : 1); /* so that a read past the end is detected */
            if (!exact)
                return 1;
            memcpy(exact, input, n);
            LLVMFuzzerTestOneInput(exact, n);
            free(exact);
        }
        clock_gettime(CLOCK_MONOTONIC, &t);
    } while (runs < most &&
             (double)(t.tv_sec - t0.tv_sec) + 1e-9 * (double)(t.tv_nsec - t0.tv_nsec) < seconds);
    printf("%lu inputs from %zu corpus files\n", runs, files);
    if (files == 0) {
        fprintf(stderr, "no corpus\n");
        return 1;
    }
    for (size_t i = 0; i < files; i++)
        free(file[i].p);
    return 0;
}
