/* serve: the web page (page/page.h) of a simulation, from the files of its run folder.
 *
 *     serve_folder(&s, "runs/a", false, "runs", &at); // begins; again for the next run of a sweep
 *     serve_progress(s, 3, 17, 100);                  // round 3: 17 of 100 clients have trained
 *     serve_on(s);                                    // after the last run: until Ctrl-C
 *     serve_stop(s);
 *
 * The page reads only files that the run has written, so it never delays the run. Its token and
 * address are in the folder of all runs.
 * Threads: one owner. */
#ifndef CLI_FULL_SERVE_H
#define CLI_FULL_SERVE_H

#include "config/address.h"

typedef struct serve serve;

/* Shows the run in this folder; full: with real cryptography (crypto: full). The first call starts
 * the page and prints its address; if it cannot start, prints why and leaves *s NULL: the run goes
 * on. */
void serve_folder(serve **s, const char *folder, bool full, const char *runs, const host_port *at);
void serve_progress(serve *s, uint64_t round, uint64_t done, uint64_t total);
/* Keeps serving until SIGINT or SIGTERM (cli/interrupt.h). */
void serve_on(serve *s);
void serve_stop(serve *s); /* NULL is allowed */

#endif
