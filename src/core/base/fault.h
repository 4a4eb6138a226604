/* fault: makes the n-th allocation, random read, file write and so on fail, so that tests reach
 * every error path.
 *
 *     for (uint64_t n = 1; fault_arm(FAULT_ALLOC, n), st = thing(), fault_was_hit(); n++)
 *         assert(st == SEFL_ENOMEM);
 *
 * Faults exist only if SEFL_FAULTS is 1 (the dev, asan, tsan and fuzz builds). In a release build
 * fault_hit() is the constant false, and there are no other functions.
 * Threads: the counters are atomic; arm and disarm only while no other thread runs. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum fault_kind {
    FAULT_ALLOC,
    FAULT_RANDOM,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_SYNC,
    FAULT_SEND,
    FAULT_RECV,
    FAULT_NAMELESS, /* the file system appears to lack unnamed files; no call fails */
    FAULT_LOCK,     /* the system appears unable to lock memory */
    FAULT_COMPUTE,  /* an intermediate result is silently corrupted */
    FAULT_KINDS
} fault_kind;

#if SEFL_FAULTS
/* Makes the nth operation of this kind from now fail; 0 disarms. Resets all counters. */
void fault_arm(fault_kind kind, uint64_t nth);
/* Disarms the fault. */
void fault_disarm(void);
/* True if the fault armed by the last fault_arm has occurred. */
bool fault_was_hit(void);
/* A module calls this before an operation of this kind, which must fail if the result is true. */
bool fault_hit(fault_kind kind);
#else
#define fault_hit(kind) (false)
#endif

#endif
