/* Helpers of test_task.c and test_task_privacy.c. Define _GNU_SOURCE first. */
#ifndef TESTS_TASK_TESTS_H
#define TESTS_TASK_TESTS_H

#include "unit/core/protocol/task_sample.h"

static inline bool has(const sefl_buf *b, const char *text)
{
    return memmem(b->p, b->n, text, strlen(text)) != NULL;
}

static inline int setup(void **state)
{
    (void)state;
    sample_begin();
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    sample_end();
    return 0;
}

#endif
