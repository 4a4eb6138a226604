/* population: every client's decisions (protocol/participant.h) in virtual time, over a seeded network.
 *
 *     SEFL_TRY(population_new(&c, federation, agg));
 *     population_open(c, round, header);                       // AS announces a round
 *     next = population_next_ms(c);                            // when something happens; UINT64_MAX: never
 *     SEFL_TRY(population_run(c, now_ms));                     // all that is due by now
 *     SEFL_TRY(population_close(c, now_ms));                   // AS closed it
 *     n = population_set(c, &members);                         // who was admitted, in order of their numbers
 *
 * A client needs network.client_ms for a round, times a number drawn from [0.5, 1.5) and, for the share
 * of stragglers (always the same clients), slowdown; four fifths of it before its upload begins. A share
 * `dropout` dies in a round, at a moment drawn from that time, and is back when the next one opens: it
 * leaves no trace, as a process that was killed before its receipt. Nothing is computed here: whose
 * update counts is known before anybody trains, so that nobody trains in vain.
 *
 * Coins: of sampling as the role draws them (named coins "client-00001", purpose "sampling"); of the
 * network from seeded streams. Threads: one owner.   Secrets: none. */
#ifndef SIMULATE_POPULATION_H
#define SIMULATE_POPULATION_H

#include "simulate/federation.h"
#include "sum/agg.h"

enum { POPULATION_WHO_MAX = 24 };

typedef struct population population;

typedef struct population_member {
    uint32_t client;
    bool zeros; /* hidden sampling, not drawn */
} population_member;

typedef struct population_counts {
    uint32_t asked, late, dropped; /* of this round: began it; came too late; died */
} population_counts;

/* The coins' name of a client. */
void population_who(char out[POPULATION_WHO_MAX], uint32_t client);

/* taken: rounds that each client is in already, federation->clients numbers; NULL: none. */
sefl_status population_new(population **out, const federation *s, agg *a,
                           const uint64_t *taken) SEFL_MUST_CHECK;
void population_free(population *c);

/* A round that takes updates, or one that was extended. header: signed by both, kept by the caller
 * until the next round. */
sefl_status population_open(population *c, uint64_t round, sefl_span header,
                            uint64_t now_ms) SEFL_MUST_CHECK;

/* The round takes no more updates: a client still at work hears so and waits for the next. So a round
 * does not depend on what was under way in the one before. */
sefl_status population_close(population *c, uint64_t now_ms) SEFL_MUST_CHECK;

uint64_t population_next_ms(const population *c);
sefl_status population_run(population *c, uint64_t now_ms) SEFL_MUST_CHECK;

/* Of the present round. */
uint32_t population_set(population *c, const population_member **out);
population_counts population_count(const population *c);
/* Rounds that each client is in, for a later population_new. */
const uint64_t *population_taken(const population *c);

#endif
