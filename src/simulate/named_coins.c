#include "simulate/named_coins.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct named {
    struct named *next;
    char purpose[32];
    uint64_t round, attempt;
    seeded gen;
} named;

struct named_coins {
    char who[64];
    uint64_t seed;
    pthread_mutex_t lock;
    named *list; /* latest first */
    int log;     /* -1: none */
};

void named_coins_replay(seeded *out, const char *who, uint64_t seed, const char *purpose,
                        uint64_t round, uint64_t attempt)
{
    char name[160];
    snprintf(name, sizeof name, "%s %s %llu %llu", who, purpose, (unsigned long long)round,
             (unsigned long long)attempt);
    seeded_init(out, seed, name);
}

sefl_status named_coins_new(named_coins **out, const char *who, uint64_t seed)
{
    sefl_status st = SEFL_OK;
    named_coins *n = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&n, 1, sizeof *n));
    snprintf(n->who, sizeof n->who, "%s", who);
    n->seed = seed;
    n->log = -1;
    pthread_mutex_init(&n->lock, NULL);
    *out = n;
done:
    return st;
}

void named_coins_free(named_coins *n)
{
    while (n && n->list) {
        named *next = n->list->next;
        sefl_free(n->list);
        n->list = next;
    }
    if (n && n->log >= 0)
        close(n->log);
    if (n)
        pthread_mutex_destroy(&n->lock);
    sefl_free(n);
}

sefl_status named_coins_log(named_coins *n, const char *path)
{
    n->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return n->log >= 0 ? SEFL_OK : sefl_fail(SEFL_EIO, "%s: %s", path, strerror(errno));
}

static sefl_status write_down(const named_coins *n, const named *x)
{
    char line[256];
    int len = snprintf(line, sizeof line, "%s %s %llu %llu\n", n->who, x->purpose,
                       (unsigned long long)x->round, (unsigned long long)x->attempt);
    for (char *c = line + strlen(n->who) + 1; c < line + strlen(n->who) + 1 + strlen(x->purpose);
         c++)
        *c = *c == ' ' ? '-' : *c;
    if (write(n->log, line, (size_t)len) != len) /* one write: whole lines of several processes */
        return sefl_fail(SEFL_EIO, "the list of coins: %s", strerror(errno));
    return SEFL_OK;
}

static sefl_status get(void *self, sefl_rng *out, const char *purpose, uint64_t round,
                       uint64_t attempt)
{
    sefl_status st = SEFL_OK;
    named_coins *n = self;
    named *x = NULL;
    SEFL_TRY(sefl_new(&x, 1, sizeof *x));
    snprintf(x->purpose, sizeof x->purpose, "%s", purpose);
    x->round = round, x->attempt = attempt;
    named_coins_replay(&x->gen, n->who, n->seed, purpose, round, attempt);
    *out = seeded_rng(&x->gen);
    if (n->log >= 0)
        st = write_down(n, x);
    pthread_mutex_lock(&n->lock);
    x->next = n->list;
    n->list = x;
    pthread_mutex_unlock(&n->lock);
done:
    return st;
}

sefl_coins named_coins_of(named_coins *n)
{
    return (sefl_coins){ .get = get, .self = n };
}

bool named_coins_latest(named_coins *n, const char *purpose, uint64_t round, uint64_t *attempt)
{
    bool found = false;
    pthread_mutex_lock(&n->lock);
    for (const named *x = n->list; x; x = x->next)
        if (x->round == round && strcmp(x->purpose, purpose) == 0 &&
            (!found || x->attempt > *attempt))
            *attempt = x->attempt, found = true;
    pthread_mutex_unlock(&n->lock);
    return found;
}

static bool listed(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; p && *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (strcspn(p, " ") == n && strncmp(p, word, n) == 0)
            return true;
    return false;
}

unsigned named_coins_repeated(named_coins *n, const char *except)
{
    unsigned repeated = 0;
    pthread_mutex_lock(&n->lock);
    for (const named *a = n->list; a; a = a->next)
        for (const named *b = a->next; b && !listed(except, a->purpose); b = b->next)
            repeated += a->round == b->round && a->attempt == b->attempt &&
                        strcmp(a->purpose, b->purpose) == 0;
    pthread_mutex_unlock(&n->lock);
    return repeated;
}
