/* check: included by every test: cmocka, checks that print status names, seeded generators.
 *
 *     CHECK_OK(buf_reserve(&b, 10));
 *     CHECK_STATUS(rd_u8(&r, &v), SEFL_EPROTO);
 *     seeded gen;
 *     test_seed(&gen, "round trip");            // prints the seed; SEFL_TEST_SEED sets it
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

/* True if this processor has vector kernels that SEFL_CPU can switch off; other processors than x86-64
 * always run the portable ones. */
#if defined(__x86_64__)
#define TEST_KERNELS 1
#else
#define TEST_KERNELS 0
#endif

/* Seeds a generator from SEFL_TEST_SEED, or from 1, and prints the seed. */
void test_seed(seeded *g, const char *stream);

/* Returns the number of repetitions of a long test: `quick`, or `full` if SEFL_SOAK is set. */
unsigned long test_count(unsigned long quick, unsigned long full);

/* Returns a time limit, multiplied by SEFL_TEST_SLOW if that is set: for emulators. */
unsigned test_ms(unsigned ms);

/* Runs `body`, which sets the local `st`, with the 1st, 2nd, ... operation of this kind failing,
 * until a run does not reach the fault. Every run that reaches it must fail. `undo` releases the
 * result of the successful run. Without SEFL_FAULTS the macro does nothing. */
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
