/* A whole session of shares, kept and audited: all coins of both sides are secret, bytes from the
 * wire are public. */
#include "base/ct.h"
#include "mpc/noise/shares.h"

#include <pthread.h>
#include <string.h>

enum { N = 128 };

static sefl_status coins(void *self, void *out, size_t n)
{
    uint64_t *state = self;
    for (size_t i = 0; i < n; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        ((uint8_t *)out)[i] = (uint8_t)(*state >> 56);
    }
    if (n != 8) /* the audit coin, which AS tells CSP */
        CT_SECRET(out, n);
    return SEFL_OK;
}

static sefl_status wire_send(void *self, const void *p, size_t n)
{
    return channel_send(self, p, n);
}

static sefl_status wire_recv(void *self, void *p, size_t n)
{
    sefl_status st = channel_recv(self, p, n);
    CT_PUBLIC(p, n); /* the peer's bytes */
    return st;
}

static sefl_status wire_flush(void *self)
{
    return channel_flush(self);
}

typedef struct side {
    channel inner;
    shares_params p;
    shares_result r;
    uint64_t x[N], state;
    sefl_status st;
    sefl_status (*fn)(shares_result *, uint64_t *, channel *, const shares_params *,
                      const sefl_rng *);
} side;

static void *run(void *arg)
{
    static const channel_ops ops = { wire_send, wire_recv, wire_flush };
    side *s = arg;
    channel ch = { .ops = &ops, .self = &s->inner };
    sefl_rng rng = { coins, &s->state };
    s->st = s->fn(&s->r, s->x, &ch, &s->p, &rng);
    channel_pair_close(&s->inner);
    return NULL;
}

int main(void)
{
    uint8_t seed[SIGN_SEED_BYTES] = { 7 };
    sign_key *key;
    int bad = sign_key_from(&key, seed) != SEFL_OK;
    for (int audit = 0; audit < 2 && !bad; audit++) {
        side csp = { .fn = shares_garble,
                     .p = { .count = N, .chunk = N, .sign = key, .as = sign_key_pub(key) },
                     .state = 1 };
        side as = { .fn = shares_evaluate,
                    .p = { .count = N,
                           .chunk = N,
                           .sign = key,
                           .csp = sign_key_pub(key),
                           .audit = (unsigned)audit },
                    .state = 2 };
        pthread_t t;
        if (channel_pair_new(&csp.inner, &as.inner, 600000) != SEFL_OK ||
            pthread_create(&t, NULL, run, &csp) != 0)
            return 1;
        run(&as);
        pthread_join(t, NULL);
        CT_PUBLIC(csp.x, sizeof csp.x); /* the test inspects the result */
        CT_PUBLIC(as.x, sizeof as.x);
        bad |= csp.st != SEFL_OK || as.st != SEFL_OK;
        bad |= as.r.outcome != (audit ? SHARES_AUDITED : SHARES_KEPT);
        for (size_t i = 0; i < N; i++)
            bad |= (uint32_t)(csp.x[i] + as.x[i]) >= 124;
    }
    sign_key_free(key);
    return bad;
}
