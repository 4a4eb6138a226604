/* population: simulates every client's decisions (protocol/participant.h) in virtual time, over a
 * seeded network.
 *
 *     SEFL_TRY(population_new(&c, federation, agg, NULL));
 *     SEFL_TRY(population_open(c, round, header, now_ms));     // AS announces a round
 *     next = population_next_ms(c);                            // the next event; UINT64_MAX: none
 *     SEFL_TRY(population_run(c, now_ms));                     // handles events due by now
 *     SEFL_TRY(population_close(c, now_ms));                   // AS closed the round
 *     n = population_set(c, &members);                         // the admitted clients
 *
 * For a round, a client needs network.client_ms times a number drawn from [0.5, 1.5). Stragglers
 * (always the same clients) need `slowdown` times as long. The last fifth of that time is the
 * upload. In each round a client fails with probability `dropout`, at a random moment, and returns
 * when the next round opens. With network.exact, experiment_dropouts random clients fail instead.
 * Such a client has no effect on the round, like a process killed before its receipt.
 *
 * Clients do not train in this module. The simulator knows the set before training starts, so only
 * clients in the set train.
 *
 * Sampling draws each client's named coins ("client-00001", purpose "sampling") where a real client
 * would draw its own; the network uses seeded streams. Threads: one owner.   Secrets: none. */
#ifndef SIMULATE_POPULATION_H
#define SIMULATE_POPULATION_H

#include "simulate/federation.h"
#include "sum/agg.h"

enum { POPULATION_WHO_MAX = 24 };

typedef struct population population;

typedef struct population_member {
    uint32_t client;
    bool zeros; /* a measurement (calibrate.h): it uploads zeros and does not train */
} population_member;

typedef struct population_counts {
    uint32_t asked, late, dropped; /* clients that began, that were too late, that failed */
} population_counts;

/* Writes the name of a client's coins. */
void population_who(char out[POPULATION_WHO_MAX], uint32_t client);

/* taken has the number of rounds in which each of the s->clients took part; NULL: all 0. */
sefl_status population_new(population **out, const federation *s, agg *a,
                           const uint64_t *taken) SEFL_MUST_CHECK;
void population_free(population *c);

/* Announces that a round accepts updates, or is extended. Both servers have signed the header,
 * which the caller keeps until the next round. */
sefl_status population_open(population *c, uint64_t round, sefl_span header,
                            uint64_t now_ms) SEFL_MUST_CHECK;

/* Closes the round: clients that are still working stop and wait for the next round. So no round
 * depends on work left over from the previous one. */
sefl_status population_close(population *c, uint64_t now_ms) SEFL_MUST_CHECK;

uint64_t population_next_ms(const population *c);
sefl_status population_run(population *c, uint64_t now_ms) SEFL_MUST_CHECK;

/* Sets *out to the current round's set and returns its size. */
uint32_t population_set(population *c, const population_member **out);
population_counts population_count(const population *c);
/* Returns what became of each client in the current round: `a` admitted, `l` too late, `d` failed,
 * `r` refused for another reason, `.` did not begin. */
const char *population_fates(const population *c);
/* Returns the number of rounds in which each client took part, for a later population_new. */
const uint64_t *population_taken(const population *c);

#endif
