/* buckets: rate limits: one token bucket per key, in a table of fixed size.
 *
 *     buckets *b;
 *     SEFL_TRY(buckets_new(&b, &(buckets_rule){ .burst = 100, .per_s = 20 }));
 *     if (!buckets_take(b, fingerprint, 1, now_ms)) ...         // refused: nothing was taken
 *
 * A new key has a full bucket. When the table is full, the key seen longest ago is replaced (its
 * bucket would soon be full again), so memory does not grow with the number of keys that strangers
 * show. Threads: any (own lock).   Secrets: none.   Cost: O(1) per call; 8 places per hash. */
#ifndef NET_BUCKETS_H
#define NET_BUCKETS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { BUCKETS_KEY = 32, BUCKETS_PLACES = 4096 };

typedef struct buckets buckets;

typedef struct buckets_rule {
    double burst; /* what a full bucket holds */
    double per_s; /* what comes back in a second */
} buckets_rule;

sefl_status buckets_new(buckets **out, const buckets_rule *rule) SEFL_MUST_CHECK;
void buckets_free(buckets *b);
/* False: there is less than `cost` in it. A cost above the burst never fits. */
bool buckets_take(buckets *b, const uint8_t key[BUCKETS_KEY], double cost, uint64_t now_ms);

#endif
