/* Design. One job at a time; workers sleep on `wake` between jobs; a new job has a new generation
 * number. Threads claim pieces under the mutex: a piece is at least tens of microseconds of work,
 * so the cost of the lock is negligible, and the invariants are simple:
 *  1. next..pieces are unclaimed; `running` counts the claimed pieces that are not finished.
 *  2. The job is over when next has reached the end (or a failure moved it there) and running is 0.
 *  3. fail_piece is the lowest failed piece so far; fail_text is its message. */
#define _GNU_SOURCE
#include "base/pool.h"

#include "base/alloc.h"
#include "base/cond.h"
#include "base/float_mode.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>

enum { MAX_THREADS = 256 };

typedef struct job {
    pool_fn *fn;
    void *ctx;
    const sefl_progress *progress;
    float_mode floats; /* the caller's */
    size_t n, grain, pieces, next, running, items_done;
    size_t fail_piece;
    sefl_status st;
    char fail_text[512];
} job;

struct pool {
    unsigned threads; /* number of threads, including the caller */
    unsigned lanes;   /* number of lanes given out; the caller has lane 0 */
    pthread_t id[MAX_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t wake, over;
    unsigned long generation;
    int stop;
    job *job;
};

static void note_failure(job *j, size_t piece, sefl_status st)
{
    if (piece < j->fail_piece) {
        j->fail_piece = piece;
        j->st = st;
        snprintf(j->fail_text, sizeof j->fail_text, "%s", sefl_last_error());
    }
    j->next = j->pieces; /* no new pieces */
}

/* Claims and runs pieces until none is left. The caller holds the lock, before and after. */
static void work(pthread_mutex_t *lock, job *j, unsigned lane)
{
    while (j->next < j->pieces) {
        size_t piece = j->next++;
        size_t begin = piece * j->grain;
        size_t end = j->n - begin > j->grain ? begin + j->grain : j->n;
        j->running++;
        pthread_mutex_unlock(lock);
        sefl_status st = j->fn(j->ctx, lane, begin, end);
        pthread_mutex_lock(lock);
        j->running--;
        if (st != SEFL_OK) {
            note_failure(j, piece, st);
            continue;
        }
        j->items_done += end - begin;
        if (!progress_report(j->progress, j->items_done, j->n))
            note_failure(j, piece, sefl_fail(SEFL_ECANCELLED, "stopped on request"));
    }
}

static void *worker_main(void *arg)
{
    pool *p = arg;
    unsigned long seen = 0;
    pthread_mutex_lock(&p->lock);
    unsigned lane = p->lanes++;
    for (;;) {
        while (!p->stop && (p->generation == seen || !p->job))
            pthread_cond_wait(&p->wake, &p->lock);
        if (p->stop)
            break;
        seen = p->generation;
        const float_mode was = float_mode_get();
        float_mode_set(p->job->floats);
        work(&p->lock, p->job, lane);
        float_mode_set(was);
        if (p->job && p->job->running == 0)
            pthread_cond_signal(&p->over);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

unsigned pool_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (unsigned)n;
}

sefl_status pool_new(pool **out, unsigned threads)
{
    SEFL_MAKE(pool, p, out);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->over, NULL);
    p->threads = p->lanes = 1;
    SEFL_CHECK(threads <= MAX_THREADS, SEFL_EINVAL, "%u threads requested, at most %d", threads,
               MAX_THREADS);
    if (threads == 0)
        threads = pool_cores();
    for (; p->threads < threads; p->threads++)
        SEFL_TRY(thread_start(&p->id[p->threads], worker_main, p));
    SEFL_HAND_OVER(out, p, pool_free);
}

void pool_free(pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 1; i < p->threads; i++)
        pthread_join(p->id[i], NULL);
    pthread_cond_destroy(&p->over);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    sefl_free(p);
}

unsigned pool_threads(const pool *p)
{
    return p ? p->threads : 1;
}

sefl_status pool_run(pool *p, size_t n, size_t grain, pool_fn *fn, void *ctx,
                     const sefl_progress *progress)
{
    assert(grain >= 1);
    job j = { .fn = fn,
              .ctx = ctx,
              .progress = progress,
              .floats = float_mode_get(),
              .n = n,
              .grain = grain,
              .pieces = n / grain + (n % grain != 0),
              .fail_piece = (size_t)-1 };
    if (!p) {
        pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
        pthread_mutex_lock(&alone);
        work(&alone, &j, 0);
        pthread_mutex_unlock(&alone);
    } else {
        pthread_mutex_lock(&p->lock);
        p->job = &j;
        p->generation++;
        if (j.pieces > 1)
            pthread_cond_broadcast(&p->wake);
        work(&p->lock, &j, 0);
        while (j.running > 0)
            pthread_cond_wait(&p->over, &p->lock);
        p->job = NULL;
        pthread_mutex_unlock(&p->lock);
    }
    return j.st == SEFL_OK ? SEFL_OK : sefl_fail(j.st, "%s", j.fail_text);
}
