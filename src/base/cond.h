/* cond: condition variables that follow the monotonic clock, and threads.
 *
 *     cond_init(&q->moved);
 *     struct timespec until = cond_after(timeout_ms);
 *     while (!ready(q) && pthread_cond_timedwait(&q->moved, &q->lock, &until) == 0)
 *         ;
 *
 * A change of the time of day moves no deadline.   Threads: any. */
#ifndef BASE_COND_H
#define BASE_COND_H

#include "base/status.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

void cond_init(pthread_cond_t *c);

/* The deadline that is ms milliseconds away. */
struct timespec cond_after(uint64_t ms);

/* Waits for a signal, at most ms milliseconds; the caller holds the lock. */
void cond_wait_ms(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t ms);

/* SEFL_ENOMEM, with the system's reason, if the system starts no thread. */
sefl_status thread_start(pthread_t *out, void *(*run)(void *), void *arg) SEFL_MUST_CHECK;

#endif
