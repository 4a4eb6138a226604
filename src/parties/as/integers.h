/* integers: keeps the integers that a round released, so that anybody can compute the model again.
 *
 *     SEFL_TRY(integers_write(path, &task, round, clients, w));
 *     SEFL_TRY(integers_read(path, &task, round, &clients, w));         // task.values integers
 *
 *     bytes
 *     8     "SEFLINT1"
 *     32    the task's id
 *     8     round
 *     4     clients in the sum; 0 if the number of participants is not public
 *     8     number of values n
 *     1     bits per value b, 1 to 64: those of the largest value
 *     ...   n times b bits, the lowest bit first: v as 2 v, or as -2 v - 1 if v is negative
 *     32    SHA-256 of all before
 *
 * The model that the round released contains the same numbers, up to its rounding to floats, so
 * the file reveals nothing that the model does not, except the noisy total of the weight slot.
 * Threads: any.   Secrets: none (released numbers). */
#ifndef ROLES_AGGREGATOR_INTEGERS_H
#define ROLES_AGGREGATOR_INTEGERS_H

#include "protocol/task.h"

/* Writes the file atomically and durably. */
sefl_status integers_write(const char *path, const task *t, uint64_t round, uint32_t clients,
                           const int64_t *w) SEFL_MUST_CHECK;
/* Fills w with t->values integers. SEFL_EPROTO if the file is damaged or belongs to another task or
 * round. */
sefl_status integers_read(const char *path, const task *t, uint64_t round, uint32_t *clients,
                          int64_t *w) SEFL_MUST_CHECK;
/* The same over bytes in memory, for `values` values. */
sefl_status integers_read_over(sefl_span bytes, const uint8_t of_task[TASK_ID], uint64_t round,
                               uint32_t *clients, int64_t *w, size_t values) SEFL_MUST_CHECK;

#endif
