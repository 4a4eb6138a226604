#include "cli/full/signals.h"

#include "base/alloc.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAKE = SIGUSR1 }; /* ends the thread */

struct signals {
    sigset_t set, before;
    pthread_t thread;
    signals_fn *fn;
    void *ctx;
};

static void *listen_on(void *arg)
{
    signals *s = arg;
    bool ending = false;
    for (int sig; sigwait(&s->set, &sig) == 0 && sig != WAKE;) {
        if (ending && sig != SIGHUP)
            _exit(128 + sig);
        ending = ending || sig != SIGHUP;
        s->fn(s->ctx, sig);
    }
    return NULL;
}

sefl_status signals_start(signals **out, signals_fn *fn, void *ctx)
{
    static const int wanted[] = { SIGTERM, SIGINT, SIGHUP };
    sefl_status st = SEFL_OK;
    signals *s = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&s, 1, sizeof *s));
    s->fn = fn, s->ctx = ctx;
    sigemptyset(&s->set);
    sigaddset(&s->set, WAKE);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct sigaction old;
        if (sigaction(wanted[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaddset(&s->set, wanted[i]);
    }
    pthread_sigmask(SIG_BLOCK, &s->set, &s->before);
    int rc = pthread_create(&s->thread, NULL, listen_on, s);
    if (rc != 0) {
        pthread_sigmask(SIG_SETMASK, &s->before, NULL);
        st = sefl_fail(SEFL_ENOMEM, "cannot start a thread: %s", strerror(rc));
        goto done;
    }
    *out = s, s = NULL;
done:
    sefl_free(s);
    return st;
}

void signals_end(signals *s)
{
    if (!s)
        return;
    pthread_kill(s->thread, WAKE);
    pthread_join(s->thread, NULL);
    pthread_sigmask(SIG_SETMASK, &s->before, NULL);
    sefl_free(s);
}
