#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t seen;

static void on_signal(int sig)
{
    (void)sig;
    seen = 1;
}

void interrupt_catch(void)
{
    static const int signals[] = { SIGINT, SIGTERM };
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction old, sa = { .sa_handler = on_signal };
        sigemptyset(&sa.sa_mask);
        sa.sa_flags = (int)(SA_RESTART | SA_RESETHAND);
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &sa, NULL);
    }
}

bool interrupt_seen(void)
{
    return seen != 0;
}
