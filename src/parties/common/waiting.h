/* waiting: what AS's operator sees while a round is open: how many updates have arrived, how many
 * are needed, and the time left.
 *
 *     if (rounds_waiting(r, &v) && waiting_due(&w, &v, now_ms))        // at any interval
 *         waiting_log(&v, log);
 *
 * A line is due once a round has been open for WAITING_EVERY_MS, and then after each change, but
 * not more often than that. So quick rounds add nothing to the log.
 * Threads: one owner.   Secrets: none; the line is for AS's own terminal and log, and clients do
 * not get it. */
#ifndef ROLES_WAITING_H
#define ROLES_WAITING_H

#include "base/log.h"

#include <stdbool.h>

enum { WAITING_EVERY_MS = 10000 };

typedef struct waiting_view {
    uint64_t round, rounds;
    uint32_t arrived;     /* updates */
    uint32_t needed;      /* the task's threshold: with fewer, the round is skipped */
    uint32_t enough;      /* the round closes at once with this many; 0: only at its deadline */
    uint32_t waits, left; /* sites that it waits for; that it does not wait for any more */
    char who[160];        /* names of the former; "": not known */
    uint32_t extensions;  /* how often the deadline was extended */
    uint64_t deadline_ms; /* wall clock */
    uint64_t left_ms;     /* until the deadline */
    bool linked;          /* CSP is connected */
} waiting_view;

typedef struct waiting { /* initialise with zeros */
    uint64_t round, since_ms;
    bool told; /* in this round: */
    uint32_t arrived, waits;
    bool linked;
} waiting;

bool waiting_due(waiting *w, const waiting_view *v, uint64_t now_ms);
void waiting_log(const waiting_view *v, sefl_log *log);

enum { WAITING_LINE = 384 };
/* Writes one line for a terminal: "round 3/40  5 updates, 3 needed, closes at 8; 42 s left; waits
 * for ward-2 and ward-5". */
void waiting_line(char out[WAITING_LINE], const waiting_view *v);

#endif
