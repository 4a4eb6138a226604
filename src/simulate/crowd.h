/* crowd: every client's decisions (protocol/member.h) in virtual time, over a seeded network.
 *
 *     SEFL_TRY(crowd_new(&c, scene, agg));
 *     crowd_open(c, round, header);                       // AS announces a round
 *     next = crowd_next_ms(c);                            // when something happens; UINT64_MAX: never
 *     SEFL_TRY(crowd_run(c, now_ms));                     // all that is due by now
 *     SEFL_TRY(crowd_close(c, now_ms));                   // AS closed it
 *     n = crowd_set(c, &members);                         // who was admitted, in order of their numbers
 *
 * A client needs network.client_ms for a round, times a number drawn from [0.5, 1.5) and, for the share
 * of stragglers (always the same clients), slowdown; four fifths of it before its upload begins. A share
 * `dropout` dies in a round, at a moment drawn from that time, and is back when the next one opens: it
 * leaves no trace, as a process that was killed before its receipt. Nothing is computed here: whose
 * update counts is known before anybody trains, so that nobody trains in vain.
 *
 * Coins: of sampling as the role draws them (named coins "client-00001", purpose "sampling"); of the
 * network from seeded streams. Threads: one owner.   Secrets: none. */
#ifndef SIMULATE_CROWD_H
#define SIMULATE_CROWD_H

#include "protocol/agg.h"
#include "simulate/scene.h"

enum { CROWD_WHO_MAX = 24 };

typedef struct crowd crowd;

typedef struct crowd_member {
    uint32_t client;
    bool zeros; /* hidden sampling, not drawn */
} crowd_member;

typedef struct crowd_counts {
    uint32_t asked, late, dropped; /* of this round: began it; came too late; died */
} crowd_counts;

/* The coins' name of a client. */
void crowd_who(char out[CROWD_WHO_MAX], uint32_t client);

/* taken: rounds that each client is in already, scene->clients numbers; NULL: none. */
sefl_status crowd_new(crowd **out, const scene *s, agg *a, const uint64_t *taken) SEFL_MUST_CHECK;
void crowd_free(crowd *c);

/* A round that takes updates, or one that was extended. header: signed by both, kept by the caller
 * until the next round. */
sefl_status crowd_open(crowd *c, uint64_t round, sefl_span header, uint64_t now_ms) SEFL_MUST_CHECK;

/* The round takes no more updates: whoever is still at work hears so and waits for the next. So a round
 * does not depend on what was under way in the one before. */
sefl_status crowd_close(crowd *c, uint64_t now_ms) SEFL_MUST_CHECK;

uint64_t crowd_next_ms(const crowd *c);
sefl_status crowd_run(crowd *c, uint64_t now_ms) SEFL_MUST_CHECK;

/* Of the present round. */
uint32_t crowd_set(crowd *c, const crowd_member **out);
crowd_counts crowd_count(const crowd *c);
/* Rounds that each client is in, for a later crowd_new. */
const uint64_t *crowd_taken(const crowd *c);

#endif
