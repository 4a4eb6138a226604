/* check: what every test includes: cmocka, statuses that print both names, a printed seed.
 *
 *     CHECK_OK(buf_reserve(&b, 10));
 *     CHECK_STATUS(rd_u8(&r, &v), SEFL_EPROTO);
 *     seeded gen;
 *     test_seed(&gen, "round trip");            // SEFL_TEST_SEED replays what is printed
 *     TEST_FAULTS(FAULT_ALLOC, st = thing(&out), thing_clear(&out)); */
#ifndef SUPPORT_CHECK_H
#define SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/span.h"
#include "seeded/seeded.h"

#include <stdio.h>

#define CHECK_STATUS(call, want) check_status((call), (want), #call, __FILE__, __LINE__)
#define CHECK_OK(call)           CHECK_STATUS(call, SEFL_OK)

void check_status(sefl_status got, sefl_status want, const char *what, const char *file, int line);

/* Seeds a generator from SEFL_TEST_SEED, or from 1, and prints the seed. */
void test_seed(seeded *g, const char *stream);

/* How many times a long trial runs: `quick`, or `full` when SEFL_SOAK is set. */
unsigned long test_count(unsigned long quick, unsigned long full);

/* Makes the 1st, 2nd, ... operation of this kind fail until `body` (which sets the local `st`)
 * gets through without meeting the fault; each failing run must return a failure. `undo` releases
 * what a successful run made. Without SEFL_FAULTS it does nothing. */
#if SEFL_FAULTS
#define TEST_FAULTS(kind, body, undo)                                           \
    do {                                                                        \
        for (uint64_t nth_ = 1;; nth_++) {                                      \
            sefl_status st = SEFL_OK;                                           \
            fault_arm((kind), nth_);                                            \
            body;                                                               \
            bool hit_ = fault_was_hit();                                        \
            fault_disarm();                                                     \
            if (!hit_) {                                                        \
                CHECK_OK(st);                                                   \
                undo;                                                           \
                break;                                                          \
            }                                                                   \
            if (st == SEFL_OK)                                                  \
                fail_msg("fault %llu was swallowed", (unsigned long long)nth_); \
        }                                                                       \
    } while (0)
#else
#define TEST_FAULTS(kind, body, undo) ((void)0)
#endif

#endif
