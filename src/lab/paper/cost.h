/* cost: measures seconds and bytes of a secure round by block size, with full-size keys.
 *
 * One run is one round of the product's own driver (simulate/servers.h, crypto full). Every client
 * quantises and encrypts a random update of the largest permitted norm, alone on all threads, and
 * sends it over TLS 1.3 on loopback (paper/loop.h). AS adds the uploads. AS and CSP make noise
 * shares by two-party computation and reveal the noisy sum. The run fails unless the released
 * integers are the sum plus noise of the claimed variance.
 *
 *     cost_case c = { "lstm", 32, "pad" };
 *     SEFL_TRY(cost_measure(o, &c, runs));               // adds runs to results/cost/lstm-32-pad
 *
 * The columns of a run; seconds are elapsed time, with `threads` threads:
 *     quantise_s, encrypt_s, upload_s   one client: the mean over the clients of the run
 *     add_s         AS checks and adds all clients' uploads
 *     open_s        CSP opens the seeds of all clients and expands their pads (pad)
 *     shares_s      both servers make the noise shares: the two-party computation, before the data
 *     reveal_s      AS masks and sends the sum, CSP decrypts and replies, AS removes the mask
 *     decrypt_s     CSP's decryption, a part of reveal_s
 *     total_s       the sum of these, with one client's encryption and upload
 *     run_s         the whole run, with every client's encryption and upload in turn
 *     up_bytes, down_bytes     of one client: its upload, and the model it fetches as 32-bit floats
 *     link_bytes, shares_bytes between the servers: to reveal the sum, and for the noise shares
 *
 * Memory: about 80 bytes per value; the dense LSTM has 14 million. Threads: one owner.
 * Secrets: none. */
#ifndef PAPER_COST_H
#define PAPER_COST_H

#include "paper/paper.h"
#include "simulate/federation.h"

typedef struct cost_case {
    const char *model; /* lstm or transformer */
    unsigned block;
    const char *scheme; /* pad or paillier */
} cost_case;

/* Runs the case until its file has `runs` runs. Uses the Paillier key in `key`, or creates it
 * there. Keeps each run as soon as it is measured. */
sefl_status cost_measure(const paper_options *o, const cost_case *c, unsigned runs,
                         federation_key *key) SEFL_MUST_CHECK;

#endif
