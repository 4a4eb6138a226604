/* What AS and CSP could send each other on a lane. Byte 0, bit 0: the receiver (0: CSP, 1: AS,
 * which gets one answer). The rest is a list of messages, by their first byte (modulo 8):
 *     0 raw message: kind, length, bytes    1 LANE of this link      2 LANE of another one
 *     3 FILL of the right count             4 FILL: count byte       5 raw bytes: length, bytes
 *     6 the hello of a session              7 NO: code
 * No crash, no hang. CSP answers YES only to the pair of its link and to the count of its task;
 * nothing enters the pool, since the harness cannot complete a session. */
#include "roles/lane_words.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SESSION = 128, HELLO_KIND = 0x53480001, HELLO_BYTES = 128 };

static task t = { .values = 50, .noise = TASK_NOISE_JOINT }; /* the only fields that a lane uses */
static lane_host *host;
static shares_pool *waiting;
#define MUST(so)     \
    do {             \
        if (!(so))   \
            abort(); \
    } while (0)
#define MUST_OK(call) MUST((call) == SEFL_OK)

static const uint8_t pair[LINK_PAIR] = { 7 }, other[LINK_PAIR] = { 8 };

typedef struct tape {
    sefl_buf in;
    size_t at;
    unsigned yes, lane, fill; /* sent; requested in valid form */
} tape;

static sefl_status tape_send(void *self, const void *p, size_t n)
{
    tape *x = self;
    x->yes += n == MSG_HEADER && load_u32(p) == LINK_YES;
    return SEFL_OK;
}

static sefl_status tape_recv(void *self, void *p, size_t n)
{
    tape *x = self;
    if (x->in.n - x->at < n)
        return sefl_fail(SEFL_ECLOSED, "the end");
    memcpy(p, x->in.p + x->at, n);
    x->at += n;
    return SEFL_OK;
}

static sefl_status tape_flush(void *self)
{
    (void)self;
    return SEFL_OK;
}

static const channel_ops tape_ops = { tape_send, tape_recv, tape_flush };

static void frame(sefl_buf *out, uint32_t kind, sefl_span body)
{
    MUST_OK(wr_u32(out, kind));
    MUST_OK(wr_u32(out, 0));
    MUST_OK(wr_u64(out, body.n));
    MUST_OK(wr_raw(out, body.p, body.n));
}

static uint8_t take(rd *r)
{
    uint8_t b = 0;
    return rd_u8(r, &b) == SEFL_OK ? b : 0;
}

static void put_message(tape *x, rd *r)
{
    sefl_span rest;
    uint8_t bytes[8], hello[HELLO_BYTES] = { 0 };
    unsigned kind, n;
    switch (take(r) % 8) {
    case 0:
        kind = take(r), n = take(r);
        if (rd_view(r, &rest, n < rd_left(r) ? n : rd_left(r)) == SEFL_OK)
            frame(&x->in, LINK_HELLO - 1 + kind % (LINK_KINDS + 2), rest);
        break;
    case 1:
        frame(&x->in, LINK_LANE, span_of(pair, sizeof pair));
        x->lane++;
        break;
    case 2:
        frame(&x->in, LINK_LANE, span_of(other, sizeof other));
        break;
    case 3:
        store_u64(bytes, SESSION);
        frame(&x->in, LINK_FILL, span_of(bytes, 8));
        x->fill++;
        break;
    case 4:
        store_u64(bytes, SESSION + (uint64_t)take(r));
        frame(&x->in, LINK_FILL, span_of(bytes, 8));
        x->fill++; /* the byte may be 0 */
        break;
    case 5:
        n = take(r);
        if (rd_view(r, &rest, n < rd_left(r) ? n : rd_left(r)) == SEFL_OK)
            MUST_OK(wr_raw(&x->in, rest.p, rest.n));
        x->lane++, x->fill++; /* whatever it is */
        break;
    case 6:
        hello[0] = take(r);
        frame(&x->in, HELLO_KIND, span_of(hello, sizeof hello));
        break;
    default:
        bytes[0] = take(r), bytes[1] = 0;
        frame(&x->in, LINK_NO, span_of(bytes, 2));
        break;
    }
}

static void begin(void)
{
    static sefl_coins coins;
    static sefl_rng rng;
    uint8_t seed[SIGN_SEED_BYTES] = { 1 };
    sign_key *key;
    MUST_OK(sign_key_from(&key, seed));
    coins = coins_system();
    rng = rng_system();
    MUST_OK(shares_pool_new(&waiting, 1 << 20, &rng));
    MUST_OK(lane_host_new(
        &host, &(lane_host_config){
                   .task = &t, .pool = waiting, .key = key, .coins = &coins, .session = SESSION }));
    lane_host_bind(host, pair);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tape x = { 0 };
    rd r = rd_over(span_of(data, size));
    channel ch = { .ops = &tape_ops, .self = &x };
    if (!host)
        begin();
    bool as = take(&r) & 1;
    while (rd_left(&r) > 0)
        put_message(&x, &r);
    if (as) {
        uint16_t no = 1;
        sefl_status st = lane_hear(&ch, &no);
        MUST(st != SEFL_OK || no == 0 || (x.in.n >= MSG_HEADER + 2 && load_u32(x.in.p) == LINK_NO));
        MUST(st == SEFL_OK || x.yes == 0);
    } else {
        sefl_status st = lane_host_serve(host, &ch);
        MUST(x.yes == 0 || x.lane > 0);
        MUST(x.yes <= 1 || x.fill > 0);
        MUST(x.yes <= 2); /* no session succeeds here */
        MUST(x.yes == 1 || st != SEFL_OK);
        MUST(shares_pool_have(waiting) == 0);
        MUST(lane_host_checks(host) == 0); /* and none reaches a check */
    }
    buf_clear(&x.in);
    return 0;
}
