#include "base/cond.h"

#include <string.h>

void cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

struct timespec cond_after(uint64_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t ns = (uint64_t)t.tv_nsec + ms % 1000 * 1000000;
    t.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    t.tv_nsec = (long)(ns % 1000000000);
    return t;
}

void cond_wait_ms(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t ms)
{
    struct timespec until = cond_after(ms);
    pthread_cond_timedwait(c, lock, &until);
}

sefl_status thread_start(pthread_t *out, void *(*run)(void *), void *arg)
{
    int rc = pthread_create(out, NULL, run, arg);
    return rc == 0 ? SEFL_OK : sefl_fail(SEFL_ENOMEM, "cannot start a thread: %s", strerror(rc));
}
