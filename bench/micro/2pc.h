/* 2pc: the parts of `sefl bench 2pc`, one table each; 2pc.c reads the options and calls them. */
#ifndef BENCH_MICRO_2PC_H
#define BENCH_MICRO_2PC_H

#include "bench/bench.h"
#include "mpc/noise/shares.h"

enum { BENCH_2PC_LANES_MAX = 64 };

/* Garbles and evaluates the G44 sampler in memory on one core, on the best path or, with all_paths,
 * on every path of this processor. Reports M AND/s beside the floor: the AES blocks of the same
 * hash in a tight loop, measured in the same run. */
sefl_status bench_2pc_garble(bench *b, bool all_paths) SEFL_MUST_CHECK;

/* Runs correlated OT extension in memory on one core. Reports M OT/s of sender and receiver
 * (expansion, check, rows) and bytes per OT for every k of SoftSpoken. The floor is AES alone. */
sefl_status bench_2pc_ot(bench *b) SEFL_MUST_CHECK;

/* Runs sessions of noise shares between processes on loopback, over TLS. Reports values/s of all
 * lanes together, and CPU time and bytes per value. floor_s is the AES time per value, in seconds,
 * of the side with more AES work. */
sefl_status bench_2pc_shares(bench *b, const shares_params *p, unsigned lanes,
                             double floor_s) SEFL_MUST_CHECK;

#endif
