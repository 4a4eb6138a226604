/* lane_words: the functions that both ends of a lane (roles/aggregator/lanes.h) share. */
#ifndef ROLES_LANE_WORDS_H
#define ROLES_LANE_WORDS_H

#include "roles/aggregator/lanes.h"

/* Sets the pair, count and bits of a session, which must be equal at both ends. */
void lane_params(shares_params *p, const task *t, const uint8_t pair[LINK_PAIR], uint64_t count);

/* Receives CSP's answer: YES, or SEED if `seed` is not NULL. *no is 0, or NO's link_no code. */
sefl_status lane_hear(channel *ch, uint8_t *seed, uint16_t *no) SEFL_MUST_CHECK;

/* Lowers the priority of the calling thread. */
void lane_low_priority(void);

/* Adds `more` durably to the count in the journal's fact 0 `name`; with 0, only reads it. */
sefl_status lane_count(journal *j, const char *name, unsigned more,
                       unsigned *count) SEFL_MUST_CHECK;

#endif
