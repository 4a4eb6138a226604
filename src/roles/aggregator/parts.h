/* parts: who has left an unfinished body in the open round, and who vouches for it.
 *
 * A client has one part a round (ingest.h), but a CA whose members are not listed makes as many clients as
 * it likes: so its clients together have `most`. A member of the list has its one part, whatever others
 * have.
 *
 *     SEFL_TRY(parts_begin(p, round, bodies, client, issuer, u, &fits));   // before a byte is written
 *     parts_end(p, u, true);                                               // it broke off: its part stays
 *     parts_sweep(p, still, ctx);                              // away with those of clients that were put out
 *
 * What an earlier process left is read from the round's folder when the first body of a round begins: a
 * client's folder there has a link ".issuer" that names its CA, unless it is a member or there is no list.
 *
 * Threads: any; a lock of its own, inside which only `still` may take another.   Secrets: none.
 * Memory: 80 bytes a part.   Cost: O(parts) a call. */
#ifndef ROLES_AGGREGATOR_PARTS_H
#define ROLES_AGGREGATOR_PARTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct parts parts;

/* most: of one issuer; 0: no limit. */
sefl_status parts_new(parts **out, unsigned most) SEFL_MUST_CHECK;
void parts_free(parts *p);

/* A body of this client begins, in bodies/CLIENT, and is `owner`'s until parts_end; what the client had
 * before is the same part. issuer: NULL for a member, and where there is no list. *fits is false, and
 * nothing has changed, if that issuer has its share. */
sefl_status parts_begin(parts *p, uint64_t round, const char *bodies, const uint8_t client[32],
                        const uint8_t *issuer, const void *owner, bool *fits) SEFL_MUST_CHECK;
/* stays: bytes of it may be on the disk, and are no update. An owner of nothing is fine. */
void parts_end(parts *p, const void *owner, bool stays);

/* Is this client still welcome? issuer: NULL for a member. */
typedef bool parts_still(void *ctx, const uint8_t client[32], const uint8_t *issuer);
/* Deletes the parts of those who are not, unless they are arriving just now: the next sweep finds them. */
void parts_sweep(parts *p, parts_still *still, void *ctx);

#endif
