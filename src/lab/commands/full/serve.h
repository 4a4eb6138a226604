/* serve: the web page (page/page.h) of a simulation, from the files of its run folder.
 *
 *     serve_folder(&s, &run, "runs", &at);            // begins; again for the next run of a sweep
 *     serve_progress(s, 3, 17, 100);                  // round 3: 17 of 100 clients have trained
 *     serve_turnout(s, 3, fates, 100);                // round 3 is over
 *     serve_on(s);                                    // after the last run: until Ctrl-C
 *     serve_stop(s);
 *
 * The page reads files that the run has written, so it hardly delays the run. Who took part in
 * which round is in no such file: while the page is served, a temporary folder keeps it, in AS's
 * form and within AS's bounds (roles/aggregator/turnout.h). The token and the address are in the
 * folder of all runs.
 * Threads: one owner. */
#ifndef COMMANDS_FULL_SERVE_H
#define COMMANDS_FULL_SERVE_H

#include "config/address.h"

typedef struct serve serve;

typedef struct serve_run {
    const char *folder;
    bool full;        /* with real cryptography (crypto: full) */
    uint32_t clients; /* 0: the run is over, and nothing shows who took part */
} serve_run;

/* Shows a run. The first call starts the page and prints its address; if it cannot start, prints
 * why and leaves *s NULL: the run goes on. */
void serve_folder(serve **s, const serve_run *r, const char *runs, const host_port *at);
/* What became of each client in a round (simulate/population.h). */
void serve_turnout(serve *s, uint64_t round, const char *fates, uint32_t clients);
void serve_progress(serve *s, uint64_t round, uint64_t done, uint64_t total);
/* Keeps serving until SIGINT or SIGTERM (cli/interrupt.h). */
void serve_on(serve *s);
void serve_stop(serve *s); /* NULL is allowed */

#endif
