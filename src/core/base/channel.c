#include "base/channel.h"

#include "base/fault.h"
#include "base/span.h"

#include <string.h>

static sefl_status dead(void)
{
    return sefl_fail(SEFL_ECLOSED, "channel: used after it failed");
}

sefl_status channel_send(channel *ch, const void *p, size_t n)
{
    if (ch->dead)
        return dead();
    sefl_status st = fault_hit(FAULT_SEND) ? sefl_fail(SEFL_EIO, "channel: injected send fault")
                                           : ch->ops->send(ch->self, p, n);
    ch->dead = st != SEFL_OK;
    SEFL_PASS(st);
    ch->sent += n;
    ch->was_sending = true;
    return SEFL_OK;
}

sefl_status channel_recv(channel *ch, void *p, size_t n)
{
    sefl_status st = ch->dead ? dead()
                     : fault_hit(FAULT_RECV)
                         ? sefl_fail(SEFL_EIO, "channel: injected receive fault")
                         : ch->ops->recv(ch->self, p, n);
    if (st != SEFL_OK) {
        memset(p, 0, n);
        ch->dead = true;
        return st;
    }
    ch->received += n;
    ch->turns += ch->was_sending;
    ch->was_sending = false;
    return SEFL_OK;
}

sefl_status channel_flush(channel *ch)
{
    if (ch->dead)
        return dead();
    sefl_status st = ch->ops->flush(ch->self);
    ch->dead = st != SEFL_OK;
    return st;
}

sefl_status msg_begin(channel *ch, uint32_t kind, uint32_t index, uint64_t n)
{
    uint8_t head[MSG_HEADER];
    store_u32(head, kind);
    store_u32(head + 4, index);
    store_u64(head + 8, n);
    return channel_send(ch, head, sizeof head);
}

sefl_status msg_send(channel *ch, uint32_t kind, uint32_t index, const void *body, size_t n)
{
    SEFL_PASS(msg_begin(ch, kind, index, n));
    return channel_send(ch, body, n);
}

sefl_status msg_expect(channel *ch, uint32_t kind, uint32_t index, uint64_t n, const char *what)
{
    sefl_status st = SEFL_OK;
    uint8_t head[MSG_HEADER];
    SEFL_TRY(channel_recv(ch, head, sizeof head));
    SEFL_CHECK(load_u32(head) == kind, SEFL_EPROTO, "%s: message kind %u, expected %u", what,
               load_u32(head), kind);
    SEFL_CHECK(load_u32(head + 4) == index, SEFL_EPROTO, "%s: message number %u, expected %u", what,
               load_u32(head + 4), index);
    SEFL_CHECK(load_u64(head + 8) == n, SEFL_EPROTO, "%s: %llu bytes, expected %llu", what,
               (unsigned long long)load_u64(head + 8), (unsigned long long)n);
done:
    if (st == SEFL_EPROTO)
        ch->dead = true; /* out of step: nothing after this can be trusted */
    return st;
}

sefl_status msg_recv(channel *ch, uint32_t kind, uint32_t index, void *body, size_t n,
                     const char *what)
{
    sefl_status st = msg_expect(ch, kind, index, n, what);
    if (st != SEFL_OK) {
        memset(body, 0, n);
        return st;
    }
    return channel_recv(ch, body, n);
}
