/* parts: tracks which clients have an unfinished body (a part) in the open round, and which CA
 * certified each of them.
 *
 * A client has one part per round (ingest.h). A CA whose members are not listed can create any
 * number of clients, so its clients together may have at most `most` parts. A listed member may
 * always have its own part.
 *
 *     SEFL_TRY(parts_begin(p, round, bodies, client, issuer, u, &fits));   // before writing a byte
 *     parts_end(p, u, true);                                  // interrupted: its part stays
 *     parts_sweep(p, still, ctx);                             // deletes revoked clients' parts
 *
 * When the first body of a round begins, the module reads the round's folder for parts that an
 * earlier process left. A client's folder has a symbolic link ".issuer" that names its CA, unless
 * the client is a listed member or there is no list.
 *
 * Threads: any; calls lock internally (only `still` may take another lock). Secrets: none.
 * Memory: 80 bytes per part.   Cost: O(parts) per call. */
#ifndef ROLES_AGGREGATOR_PARTS_H
#define ROLES_AGGREGATOR_PARTS_H

#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct parts {
    pthread_mutex_t lock;
    unsigned most;
    uint64_t round;
    char *bodies; /* the round's folder */
    struct part *at;
    size_t n, room;
} parts;

/* An issuer may have at most `most` parts; 0 means no limit. */
void parts_init(parts *p, unsigned most);
void parts_clear(parts *p);

/* Registers a body from this client, in bodies/CLIENT, for `owner` until parts_end. An earlier body
 * from the same client belongs to the same part. issuer is NULL for a listed member, or if there is
 * no list. If the issuer has reached its limit, sets *fits to false and changes nothing. */
sefl_status parts_begin(parts *p, uint64_t round, const char *bodies, const uint8_t client[32],
                        const uint8_t *issuer, const void *owner, bool *fits) SEFL_MUST_CHECK;
/* Ends the owner's body. If stays is true, the part remains registered: it may have bytes on disk
 * and is not an update yet. Does nothing for an unknown owner. */
void parts_end(parts *p, const void *owner, bool stays);

/* True if this client may still connect. issuer is NULL for a listed member. */
typedef bool parts_still(void *ctx, const uint8_t client[32], const uint8_t *issuer);
/* Deletes the parts of clients that may no longer connect, except parts that are arriving now: a
 * later sweep deletes those. */
void parts_sweep(parts *p, parts_still *still, void *ctx);

#endif
