#include "simulate/named_coins.h"

#include "base/alloc.h"

#include <pthread.h>
#include <stdio.h>

typedef struct named {
    struct named *next;
    seeded gen;
} named;

struct named_coins {
    char who[64];
    uint64_t seed;
    pthread_mutex_t lock;
    named *list; /* all generators handed out: callers keep them */
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
    SEFL_PASS(sefl_new(out, 1, sizeof **out));
    snprintf((*out)->who, sizeof(*out)->who, "%s", who);
    (*out)->seed = seed;
    pthread_mutex_init(&(*out)->lock, NULL);
    return SEFL_OK;
}

void named_coins_free(named_coins *n)
{
    while (n && n->list) {
        named *next = n->list->next;
        sefl_free(n->list);
        n->list = next;
    }
    if (n)
        pthread_mutex_destroy(&n->lock);
    sefl_free(n);
}

static sefl_status named_coins_get(void *self, sefl_rng *out, const char *purpose, uint64_t round,
                                   uint64_t attempt)
{
    named_coins *n = self;
    named *x = NULL;
    SEFL_PASS(sefl_new(&x, 1, sizeof *x));
    named_coins_replay(&x->gen, n->who, n->seed, purpose, round, attempt);
    *out = seeded_rng(&x->gen);
    pthread_mutex_lock(&n->lock);
    x->next = n->list;
    n->list = x;
    pthread_mutex_unlock(&n->lock);
    return SEFL_OK;
}

sefl_coins named_coins_of(named_coins *n)
{
    return (sefl_coins){ .get = named_coins_get, .self = n };
}
