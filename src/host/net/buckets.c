#include "net/buckets.h"

#include "base/alloc.h"

#include <pthread.h>
#include <string.h>

enum { WAYS = 8, SETS = BUCKETS_PLACES / WAYS };

typedef struct place {
    uint8_t key[BUCKETS_KEY];
    double left;
    uint64_t seen_ms;
    bool used;
} place;

struct buckets {
    buckets_rule rule;
    pthread_mutex_t lock;
    place places[BUCKETS_PLACES];
};

sefl_status buckets_new(buckets **out, const buckets_rule *rule)
{
    SEFL_MAKE(buckets, b, out);
    b->rule = *rule;
    pthread_mutex_init(&b->lock, NULL);
    SEFL_CHECK(rule->burst > 0 && rule->per_s >= 0, SEFL_EINVAL,
               "rate limit: a burst of %g, it must be above 0", rule->burst);
    SEFL_HAND_OVER(out, b, buckets_free);
}

void buckets_free(buckets *b)
{
    if (!b)
        return;
    pthread_mutex_destroy(&b->lock);
    sefl_free(b);
}

/* FNV-1a. A peer that targets one set of slots can evict the others in that set: they return with
 * full buckets, which costs an honest peer nothing. */
static size_t set_of(const uint8_t key[BUCKETS_KEY])
{
    uint64_t h = 14695981039346656037u;
    for (int i = 0; i < BUCKETS_KEY; i++)
        h = (h ^ key[i]) * 1099511628211u;
    return (size_t)((h ^ h >> 32) % SETS);
}

static place *buckets_find(buckets *b, const uint8_t key[BUCKETS_KEY], uint64_t now_ms)
{
    place *set = &b->places[set_of(key) * WAYS], *oldest = set;
    for (int i = 0; i < WAYS; i++) {
        if (set[i].used && memcmp(set[i].key, key, BUCKETS_KEY) == 0)
            return &set[i];
        if (!set[i].used || (oldest->used && set[i].seen_ms < oldest->seen_ms))
            oldest = &set[i];
    }
    *oldest = (place){ .left = b->rule.burst, .seen_ms = now_ms, .used = true };
    memcpy(oldest->key, key, BUCKETS_KEY);
    return oldest;
}

bool buckets_take(buckets *b, const uint8_t key[BUCKETS_KEY], double cost, uint64_t now_ms)
{
    pthread_mutex_lock(&b->lock);
    place *p = buckets_find(b, key, now_ms);
    if (now_ms > p->seen_ms) {
        p->left += b->rule.per_s * (double)(now_ms - p->seen_ms) / 1000;
        if (p->left > b->rule.burst)
            p->left = b->rule.burst;
        p->seen_ms = now_ms;
    }
    bool fits = p->left >= cost;
    if (fits)
        p->left -= cost;
    pthread_mutex_unlock(&b->lock);
    return fits;
}
