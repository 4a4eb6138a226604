/* 2pc: the parts of `sefl bench 2pc`, each a table of its own; 2pc.c reads the options and calls
 * them. */
#ifndef BENCH_MICRO_2PC_H
#define BENCH_MICRO_2PC_H

#include "bench/bench.h"
#include "mpc/noise/shares.h"

/* Garbling and evaluating the G44 sampler of ring width k in memory, one core, on the best path
 * and, if all_paths, on each one this processor has: M AND/s, beside the floor (the AES blocks of
 * the same hash in a tight loop, measured in the same run), and coordinates/s of the offline and
 * online parts. */
sefl_status bench_2pc_garble(bench *b, bool all_paths) SEFL_MUST_CHECK;

/* Correlated OT extension in memory, one core: M OT/s of sender and receiver (expansion, check,
 * rows) for every k of SoftSpoken; per value: bytes an OT. Floor: the AES blocks alone. */
sefl_status bench_2pc_ot(bench *b) SEFL_MUST_CHECK;

/* Sessions of noise shares between processes on loopback, over TCP and over TLS: values/s of all
 * lanes together, CPU and bytes a value. floor_s: seconds a value of the side with more AES to
 * do. */
sefl_status bench_2pc_shares(bench *b, const shares_params *p, unsigned lanes,
                             double floor_s) SEFL_MUST_CHECK;

#endif
