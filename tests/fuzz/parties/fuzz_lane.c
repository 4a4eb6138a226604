/* What AS and CSP could send each other on a lane. Byte 0, bit 0: the receiver (0: CSP, 1: AS,
 * which gets one answer; with bit 1, to SEED). The rest is a list of messages, by their first byte
 * (modulo 10):
 *     0 raw message: kind, length, bytes    1 LANE of this link      2 LANE of another one
 *     3 FILL of the right count             4 FILL: count byte       5 raw bytes: length, bytes
 *     6 the hello of a session              7 NO: code
 *     8 SEED: first byte of the id, then bit 0: AS's valid signature; bit 1: a byte is missing
 *     9 LANE of this link, number byte
 * No crash, no hang. CSP answers YES only to the pair of its link and to the count of its task;
 * nothing enters the pool, since the harness cannot complete a session, and no seed leaves. */
#include "fuzz/tape.h"
#include "roles/csp/lane_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SESSION = 128, HELLO_KIND = 0x53480001, HELLO_BYTES = 128 };

static task t = { .values = 50, .noise = TASK_NOISE_JOINT }; /* and AS's key: all a lane uses */
static lane_host *host;
static sign_key *key;
static shares_pool *waiting;
static const uint8_t pair[LINK_PAIR + 1] = { 7 }, other[LINK_PAIR + 1] = { 8 };

static unsigned yes, lost, lane, fill, seed; /* answers; requests of valid form */

static void said(void *ctx, uint32_t kind, sefl_span body)
{
    (void)ctx;
    yes += kind == LINK_YES;
    lost += kind == LINK_NO && body.n >= 2 && body.p[0] == LINK_NO_LOST;
    MUST(kind != LINK_SEED);
}

static void put_message(tape *x, rd *r)
{
    sefl_span rest;
    uint8_t bytes[8], hello[HELLO_BYTES] = { 0 };
    uint8_t ask[SHARES_ID + SIGN_BYTES] = { 0 };
    unsigned kind, n;
    switch (tape_take(r) % 10) {
    case 0:
        kind = tape_take(r), n = tape_take(r);
        if (rd_view(r, &rest, n < rd_left(r) ? n : rd_left(r)) == SEFL_OK)
            tape_frame(&x->in, LINK_HELLO - 1 + kind % (LINK_KINDS + 2), 0, rest);
        break;
    case 1:
        tape_frame(&x->in, LINK_LANE, 0, span_of(pair, sizeof pair));
        lane++;
        break;
    case 2:
        tape_frame(&x->in, LINK_LANE, 0, span_of(other, sizeof other));
        break;
    case 3:
        store_u64(bytes, SESSION);
        tape_frame(&x->in, LINK_FILL, 0, span_of(bytes, 8));
        fill++;
        break;
    case 4:
        store_u64(bytes, SESSION + (uint64_t)tape_take(r));
        tape_frame(&x->in, LINK_FILL, 0, span_of(bytes, 8));
        fill++; /* the byte may be 0 */
        break;
    case 5:
        n = tape_take(r);
        if (rd_view(r, &rest, n < rd_left(r) ? n : rd_left(r)) == SEFL_OK)
            MUST_OK(wr_raw(&x->in, rest.p, rest.n));
        lane++, fill++, seed++; /* whatever it is */
        break;
    case 6:
        hello[0] = tape_take(r);
        tape_frame(&x->in, HELLO_KIND, 0, span_of(hello, sizeof hello));
        break;
    case 8:
        ask[0] = tape_take(r), n = tape_take(r);
        if (n & 1)
            MUST_OK(audit_decide(ask + SHARES_ID, key, ask, VERDICT_AUDIT));
        tape_frame(&x->in, LINK_SEED, 0, span_of(ask, sizeof ask - (n >> 1 & 1)));
        seed += n & 1;
        break;
    case 9:
        memcpy(hello, pair, LINK_PAIR);
        hello[LINK_PAIR] = tape_take(r);
        tape_frame(&x->in, LINK_LANE, 0, span_of(hello, sizeof pair));
        lane += hello[LINK_PAIR] < LANES_MAX;
        break;
    default:
        bytes[0] = tape_take(r), bytes[1] = 0;
        tape_frame(&x->in, LINK_NO, 0, span_of(bytes, 2));
        break;
    }
}

static void begin(void)
{
    static sefl_coins coins;
    static sefl_rng rng;
    const uint8_t of_key[SIGN_SEED_BYTES] = { 1 };
    MUST_OK(sign_key_from(&key, of_key));
    memcpy(t.servers.as, sign_key_pub(key), SIGN_PUB_BYTES);
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
    tape x = { .said = said };
    rd r = rd_over(span_of(data, size));
    channel ch = { .ops = &tape_ops, .self = &x };
    if (!host)
        begin();
    yes = lost = lane = fill = seed = 0;
    const unsigned first = tape_take(&r);
    bool as = first & 1;
    while (rd_left(&r) > 0)
        put_message(&x, &r);
    if (as) {
        uint16_t no = 1;
        uint8_t shown[AUDIT_SEED];
        sefl_status st = lane_hear(&ch, first & 2 ? shown : NULL, &no);
        MUST(st != SEFL_OK || no == 0 || (x.in.n >= MSG_HEADER + 2 && load_u32(x.in.p) == LINK_NO));
        MUST(st == SEFL_OK || yes == 0);
    } else {
        sefl_status st = lane_host_serve(host, &ch);
        MUST(yes == 0 || lane > 0);
        MUST(yes <= 1 || fill > 0);
        MUST(yes <= 2); /* no session succeeds here */
        MUST(lost <= seed);
        MUST(yes == 1 || st != SEFL_OK);
        MUST(shares_pool_have(waiting) == 0);
        MUST(lane_host_checks(host) == 0); /* and none reaches a check */
    }
    tape_clear(&x);
    return 0;
}
