#include "mpc/noise/own.h"

#include "base/ct.h"
#include "base/span.h"

#include <string.h>

enum { NOISE_MSG_OWN = 0x4e5a0101, HEAD = 32 + 8 + 8 + 8 + 4, GROUP = 512 };

static unsigned width(const noise_params *p)
{
    return p->k + p->t + p->g;
}

sefl_status noise_own_bytes(size_t *bytes, const noise_params *p)
{
    size_t unused;
    sefl_status st = noise_output_bytes(&unused, p); /* the same limits */
    *bytes = st == SEFL_OK ? p->count * ((width(p) + 7) / 8) : 0;
    return st;
}

static void head(uint8_t out[HEAD], const noise_params *p)
{
    memcpy(out, p->task, 32);
    store_u64(out + 32, p->round);
    store_u64(out + 40, p->attempt);
    store_u64(out + 48, p->count);
    store_u32(out + 56, p->k | p->t << 8 | p->g << 16);
}

sefl_status noise_own_make(uint8_t *reply, const noise_params *p, const noise_digits *masked,
                           const noise_source *noise)
{
    sefl_status st = SEFL_OK;
    uint64_t digit[GROUP], mask = ((uint64_t)1 << width(p)) - 1;
    int64_t e[GROUP];
    unsigned bytes = (width(p) + 7) / 8;
    size_t total;
    SEFL_TRY(noise_own_bytes(&total, p));
    for (size_t at = 0; at < p->count; at += GROUP) {
        size_t n = p->count - at < GROUP ? p->count - at : GROUP;
        SEFL_TRY(masked->get(masked->ctx, digit, at, n));
        SEFL_TRY(noise->get(noise->ctx, e, at, n));
        for (size_t i = 0; i < n; i++) {
            uint8_t value[8];
            store_u64(value, (digit[i] + ((uint64_t)e[i] << p->g)) & mask);
            memcpy(reply + (at + i) * bytes, value, bytes);
        }
    }
done:
    sefl_wipe(digit, sizeof digit);
    sefl_wipe(e, sizeof e);
    if (st != SEFL_OK && total > 0)
        sefl_wipe(reply, total);
    return st;
}

sefl_status noise_own_send(channel *ch, const noise_params *p, const uint8_t *reply)
{
    sefl_status st = SEFL_OK;
    uint8_t bound[HEAD];
    size_t total;
    SEFL_TRY(noise_own_bytes(&total, p));
    head(bound, p);
    SEFL_TRY(msg_begin(ch, NOISE_MSG_OWN, 0, HEAD + total));
    SEFL_TRY(channel_send(ch, bound, HEAD));
    SEFL_TRY(channel_send(ch, reply, total));
    SEFL_TRY(channel_flush(ch));
done:
    return st;
}

sefl_status noise_own_receive(channel *ch, const noise_params *p, uint8_t *reply)
{
    sefl_status st = SEFL_OK;
    uint8_t want[HEAD], got[HEAD];
    size_t total;
    SEFL_TRY(noise_own_bytes(&total, p));
    head(want, p);
    SEFL_TRY(msg_expect(ch, NOISE_MSG_OWN, 0, HEAD + total, "noise reply"));
    SEFL_TRY(channel_recv(ch, got, HEAD));
    SEFL_CHECK(memcmp(got, want, HEAD) == 0, SEFL_EPROTO,
               "noise reply: for another task, round, attempt or size");
    SEFL_TRY(channel_recv(ch, reply, total));
done:
    return st;
}

sefl_status noise_own_finish(int64_t *w, const noise_params *p, const uint8_t *reply,
                             const noise_digits *mask, const noise_source *noise)
{
    sefl_status st = SEFL_OK;
    uint64_t digit[GROUP], half = p->g ? (uint64_t)1 << (p->g - 1) : 0;
    int64_t e[GROUP];
    unsigned bytes = (width(p) + 7) / 8, up = 64 - width(p);
    size_t total;
    SEFL_TRY(noise_own_bytes(&total, p));
    for (size_t at = 0; at < p->count; at += GROUP) {
        size_t n = p->count - at < GROUP ? p->count - at : GROUP;
        SEFL_TRY(mask->get(mask->ctx, digit, at, n));
        SEFL_TRY(noise->get(noise->ctx, e, at, n));
        for (size_t i = 0; i < n; i++) {
            uint8_t value[8] = { 0 };
            memcpy(value, reply + (at + i) * bytes, bytes);
            uint64_t diff = load_u64(value) - digit[i] + half;
            /* signed in k + t + g bits, then the guard bits off: arithmetic shifts */
            w[at + i] = ((int64_t)(diff << up) >> up >> p->g) + e[i];
        }
    }
done:
    sefl_wipe(digit, sizeof digit);
    sefl_wipe(e, sizeof e);
    if (st != SEFL_OK)
        memset(w, 0, p->count * sizeof *w);
    return st;
}
