/* Handlers write to a pipe that the thread reads. Waiting with sigwait and blocked signals would be
 * shorter, but OpenBLAS starts threads before main with no signal blocked: the kernel would deliver
 * the signal to one of those and end the process. */
#define _GNU_SOURCE /* pipe2 */
#include "cli/full/signals.h"

#include "base/alloc.h"
#include "base/cond.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static const int wanted[] = { SIGTERM, SIGINT, SIGHUP };
enum { WANTED = sizeof wanted / sizeof *wanted };

struct signals {
    pthread_t thread;
    signals_fn *fn;
    void *ctx;
    struct sigaction before[WANTED];
};

static int pipe_fd[2] = { -1, -1 }; /* global, because a handler has no argument */

static void on_signal(int sig)
{
    int e = errno;
    uint8_t byte = (uint8_t)sig;
    (void)!write(pipe_fd[1], &byte, 1); /* a full pipe already holds enough signals */
    errno = e;
}

static void *listen_on(void *arg)
{
    signals *s = arg;
    bool ending = false;
    for (uint8_t sig;;) {
        ssize_t n = read(pipe_fd[0], &sig, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != 1 || sig == 0)
            return NULL;
        if (ending && sig != SIGHUP)
            _exit(128 + sig);
        ending = ending || sig != SIGHUP;
        s->fn(s->ctx, sig);
    }
}

static void restore(signals *s)
{
    for (int i = 0; i < WANTED; i++)
        sigaction(wanted[i], &s->before[i], NULL);
    for (int i = 0; i < 2; i++) {
        close(pipe_fd[i]);
        pipe_fd[i] = -1;
    }
}

sefl_status signals_start(signals **out, signals_fn *fn, void *ctx)
{
    struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    SEFL_MAKE(signals, s, out);
    SEFL_CHECK(pipe_fd[0] < 0, SEFL_ESTATE, "another thread handles signals already");
    s->fn = fn, s->ctx = ctx;
    SEFL_CHECK(pipe2(pipe_fd, O_CLOEXEC) == 0, SEFL_EIO, "cannot create a pipe: %s",
               strerror(errno));
    fcntl(pipe_fd[1], F_SETFL, O_NONBLOCK);
    sigemptyset(&sa.sa_mask);
    for (int i = 0; i < WANTED; i++) {
        sigaction(wanted[i], NULL, &s->before[i]);
        if (s->before[i].sa_handler != SIG_IGN)
            sigaction(wanted[i], &sa, NULL);
    }
    st = thread_start(&s->thread, listen_on, s);
    if (st == SEFL_OK)
        *out = s, s = NULL;
    else
        restore(s);
done:
    sefl_free(s);
    return st;
}

void signals_end(signals *s)
{
    if (!s)
        return;
    uint8_t end = 0;
    while (write(pipe_fd[1], &end, 1) < 0 && (errno == EINTR || errno == EAGAIN))
        ;
    pthread_join(s->thread, NULL);
    restore(s);
    sefl_free(s);
}
