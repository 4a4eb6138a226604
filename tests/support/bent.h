/* bent: a channel that changes long outgoing messages, such as AS's OT corrections, and passes on
 * the rest.
 *
 *     bent b = { tls_channel(t) };
 *     channel ch = { .ops = &bent_ops, .self = &b };
 *
 * Threads: none. */
#ifndef SUPPORT_BENT_H
#define SUPPORT_BENT_H

#include "base/channel.h"

#include <stdlib.h>
#include <string.h>

typedef struct bent {
    channel *inner;
} bent;

static inline sefl_status bent_send(void *self, const void *p, size_t n)
{
    if (n < 10000) /* OT corrections are longer */
        return channel_send(((bent *)self)->inner, p, n);
    uint8_t *copy = malloc(n);
    memcpy(copy, p, n);
    for (size_t i = 0; i < n;
         i += 61) /* in every tree: a change in one passes where Delta has zeros */
        copy[i] ^= 4;
    sefl_status st = channel_send(((bent *)self)->inner, copy, n);
    free(copy);
    return st;
}

static inline sefl_status bent_recv(void *self, void *p, size_t n)
{
    return channel_recv(((bent *)self)->inner, p, n);
}

static inline sefl_status bent_flush(void *self)
{
    return channel_flush(((bent *)self)->inner);
}

static const channel_ops bent_ops = { bent_send, bent_recv, bent_flush };

#endif
