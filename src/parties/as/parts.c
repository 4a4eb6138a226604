#include "roles/aggregator/parts.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/hex.h"
#include "store/journal/spool.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { HEX = 64 };

typedef struct part {
    uint8_t client[32], issuer[32];
    bool member;       /* listed: no issuer */
    const void *owner; /* NULL: not arriving now */
} part;

void parts_init(parts *p, unsigned most)
{
    *p = (parts){ .most = most };
    pthread_mutex_init(&p->lock, NULL);
}

void parts_clear(parts *p)
{
    pthread_mutex_destroy(&p->lock);
    sefl_free(p->bodies);
    sefl_free(p->at);
}

/* ---- the disk -------------------------------------------------------------------------------- */

static sefl_status path_of(char out[PATH_MAX], const char *bodies, const uint8_t client[32],
                           const char *tail)
{
    char hex[HEX + 1];
    hex_write(hex, client, 32);
    return file_path(out, "%s/%s%s", bodies, hex, tail);
}

static sefl_status write_issuer(const char *bodies, const uint8_t client[32],
                                const uint8_t issuer[32])
{
    char path[PATH_MAX], hex[HEX + 1];
    SEFL_PASS(file_make_folder(bodies, 0700));
    SEFL_PASS(path_of(path, bodies, client, ""));
    SEFL_PASS(file_make_folder(path, 0700));
    SEFL_PASS(path_of(path, bodies, client, "/.issuer"));
    hex_write(hex, issuer, 32);
    SEFL_NEED(symlink(hex, path) == 0 || errno == EEXIST, SEFL_EIO, "cannot make %s: %s", path,
              strerror(errno));
    return SEFL_OK;
}

/* False for a listed member. */
static bool read_issuer(uint8_t out[32], const char *bodies, const uint8_t client[32])
{
    char path[PATH_MAX], hex[HEX + 2];
    if (path_of(path, bodies, client, "/.issuer") != SEFL_OK)
        return false;
    ssize_t n = readlink(path, hex, sizeof hex - 1);
    hex[n < 0 ? 0 : n] = 0;
    return hex_read(out, 32, hex);
}

/* ---- the table; all of it under the lock ----------------------------------------------------- */

static part *parts_find(parts *p, const uint8_t client[32])
{
    for (size_t i = 0; i < p->n; i++)
        if (memcmp(p->at[i].client, client, 32) == 0)
            return &p->at[i];
    return NULL;
}

static sefl_status parts_add(parts *p, part **out, const uint8_t client[32])
{
    SEFL_PASS(sefl_room(&p->at, &p->room, p->n + 1, sizeof *p->at));
    *out = &p->at[p->n++];
    **out = (part){ .member = true };
    memcpy((*out)->client, client, 32);
    return SEFL_OK;
}

/* Reads the parts in the folder of a round that is new to this process. */
static sefl_status look_back(parts *p, uint64_t round, const char *bodies)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX], *folder = NULL;
    DIR *d = NULL;
    SEFL_TRY(sefl_strdup(&folder, bodies));
    sefl_free(p->bodies);
    p->bodies = folder;
    p->round = p->n = 0;
    d = opendir(bodies);
    SEFL_CHECK(d || errno == ENOENT, SEFL_EIO, "cannot read %s: %s", bodies, strerror(errno));
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        uint8_t client[32];
        size_t left = 0;
        uint64_t bytes;
        part *one;
        if (!hex_read(client, 32, e->d_name))
            continue;
        SEFL_TRY(path_of(path, bodies, client, ""));
        SEFL_TRY(spool_sweep(path, UINT64_MAX, &left, &bytes)); /* none is that old */
        if (left == 0)
            continue;
        SEFL_TRY(parts_add(p, &one, client));
        one->member = !read_issuer(one->issuer, bodies, client);
    }
    p->round = round; /* only now: after a failure the next body tries again */
done:
    if (d)
        closedir(d);
    return st;
}

/* Returns the number of parts of other clients for which only this issuer vouches. */
static unsigned count(const parts *p, const uint8_t issuer[32], const part *but)
{
    unsigned n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += &p->at[i] != but && !p->at[i].member && memcmp(p->at[i].issuer, issuer, 32) == 0;
    return n;
}

sefl_status parts_begin(parts *p, uint64_t round, const char *bodies, const uint8_t client[32],
                        const uint8_t *issuer, const void *owner, bool *fits)
{
    sefl_status st = SEFL_OK;
    *fits = true;
    pthread_mutex_lock(&p->lock);
    if (round < p->round) /* closed meanwhile: no byte will be accepted */
        goto done;
    if (round > p->round)
        SEFL_TRY(look_back(p, round, bodies));
    part *one = parts_find(p, client);
    if (issuer && p->most > 0 && count(p, issuer, one) >= p->most) {
        *fits = false;
        goto done;
    }
    if (!one)
        SEFL_TRY(parts_add(p, &one, client));
    one->owner = owner;
    one->member = issuer == NULL;
    if (issuer)
        memcpy(one->issuer, issuer, 32);
done:
    pthread_mutex_unlock(&p->lock);
    /* outside: a new folder is synced */
    return st == SEFL_OK && *fits && issuer ? write_issuer(bodies, client, issuer) : st;
}

void parts_end(parts *p, const void *owner, bool stays)
{
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->n; i++)
        if (p->at[i].owner == owner) {
            p->at[i].owner = NULL;
            if (!stays)
                p->at[i] = p->at[--p->n];
            break;
        }
    pthread_mutex_unlock(&p->lock);
}

void parts_sweep(parts *p, parts_still *still, void *ctx)
{
    char path[PATH_MAX];
    size_t left = 0;
    uint64_t bytes;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->n;) {
        const part *one = &p->at[i];
        if (!one->owner && !still(ctx, one->client, one->member ? NULL : one->issuer) &&
            path_of(path, p->bodies, one->client, "") == SEFL_OK &&
            spool_sweep(path, 0, &left, &bytes) == SEFL_OK && left == 0)
            p->at[i] = p->at[--p->n];
        else
            i++;
    }
    pthread_mutex_unlock(&p->lock);
}
