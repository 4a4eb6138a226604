/* fault: makes the n-th allocation, random read, file write, ... fail, so that tests walk every
 * error path.
 *
 *     for (uint64_t n = 1; fault_arm(FAULT_ALLOC, n), st = thing(), fault_was_hit(); n++)
 *         assert(st == SEFL_ENOMEM);
 *
 * Compiled in only when SEFL_FAULTS is 1 (the dev, asan, tsan and fuzz builds); in a release build
 * fault_hit() is the constant false and the rest does not exist.
 * Threads: counters are atomic; arm and disarm from one thread while no other one works. */
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
    FAULT_NAMELESS, /* pretends that the file system has no unnamed files; nothing fails */
    FAULT_LOCK,     /* pretends that the system locks no memory */
    FAULT_COMPUTE,  /* an intermediate result is silently wrong */
    FAULT_KINDS
} fault_kind;

#if SEFL_FAULTS
/* The nth operation of this kind from now fails (1 = the next); 0 disarms. Resets the counters. */
void fault_arm(fault_kind kind, uint64_t nth);
/* Disarms everything. */
void fault_disarm(void);
/* Did the armed fault strike since fault_arm? */
bool fault_was_hit(void);
/* Called by the module that is about to do the operation: true means "fail now". */
bool fault_hit(fault_kind kind);
#else
#define fault_hit(kind) (false)
#endif

#endif
