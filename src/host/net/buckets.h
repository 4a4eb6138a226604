/* buckets: limits rates with one token bucket per key, in a table of fixed size.
 *
 *     buckets *b;
 *     SEFL_TRY(buckets_new(&b, &(buckets_rule){ .burst = 100, .per_s = 20 }));
 *     if (!buckets_take(b, fingerprint, 1, now_ms)) ...         // over the limit
 *
 * A new key starts with a full bucket. A key hashes to 8 slots; if all are in use, it replaces the
 * least recently seen of their keys, whose bucket has had the most time to refill. So memory does
 * not grow with the number of keys that unknown peers present. Threads: any; calls lock internally.
 * Secrets: none. Cost: O(1) per call. */
#ifndef NET_BUCKETS_H
#define NET_BUCKETS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { BUCKETS_KEY = 32, BUCKETS_PLACES = 4096 };

typedef struct buckets buckets;

typedef struct buckets_rule {
    double burst; /* tokens in a full bucket */
    double per_s; /* tokens added per second */
} buckets_rule;

sefl_status buckets_new(buckets **out, const buckets_rule *rule) SEFL_MUST_CHECK;
void buckets_free(buckets *b);
/* Takes `cost` tokens. If the bucket has fewer, takes none and returns false; a cost above the
 * burst therefore never succeeds. */
bool buckets_take(buckets *b, const uint8_t key[BUCKETS_KEY], double cost, uint64_t now_ms);

#endif
