/* OT: Delta at the sender, choice bits and columns at the receiver are secret. */
#include "base/ct.h"
#include "mpc/ot/ext.h"
#include "seeded/seeded.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N = 512 };

static channel end[2];
static uint8_t session[OT_SESSION], t[N][OT_LABEL], q[N][OT_LABEL], bits[N / 8];
static ot_receiver *r;
static sefl_status st_r;

static void *receiver(void *arg)
{
    seeded g;
    (void)arg;
    seeded_init(&g, 1, "receiver");
    sefl_rng rng = seeded_rng(&g);
    st_r = ot_receiver_new(&r, &end[1], 4, session, &rng);
    return NULL;
}

/* One batch: the receiver's expanded streams are secret, its messages are not. */
static sefl_status batch(ot_sender *s)
{
    sefl_status st = SEFL_OK;
    ot_block sb = { 0 }, rb = { 0 };
    static uint8_t c[1 << 14];
    uint8_t seed[OT_KEY] = { 3 }, answer[OT_CHECK_BYTES];
    if (ot_correction_bytes(4, N) > sizeof c)
        return sefl_fail(SEFL_EINVAL, "no room");
    SEFL_TRY(ot_block_init(&sb, N));
    SEFL_TRY(ot_block_init(&rb, N));
    ot_receiver_extend(r, &rb, 0, N, c);
    CT_SECRET(rb.u, rb.stride);
    CT_SECRET(rb.columns, OT_BITS * rb.stride);
    SEFL_TRY(ot_sender_extend(s, &sb, 0, N, c));
    ot_receiver_answer(r, answer, &rb, seed);
    CT_PUBLIC(answer, sizeof answer); /* sent */
    SEFL_TRY(ot_sender_check(s, &sb, seed, answer));
    ot_block_rows(&sb, q[0], 0, N);
    ot_block_rows(&rb, t[0], 0, N);
    memcpy(bits, rb.u, sizeof bits);
done:
    ot_block_clear(&sb);
    ot_block_clear(&rb);
    return st;
}

int main(void)
{
    sefl_status st = SEFL_OK;
    ot_sender *s = NULL;
    pthread_t thread;
    seeded g;
    uint8_t delta[OT_LABEL];
    seeded_init(&g, 1, "sender");
    sefl_rng rng = seeded_rng(&g);
    seeded_fill(&g, delta, sizeof delta);
    delta[0] |= 1;
    SEFL_TRY(channel_pair_new(&end[0], &end[1], 60000));
    if (pthread_create(&thread, NULL, receiver, NULL) != 0)
        return 1;
    CT_SECRET(delta + 1, sizeof delta - 1); /* byte 0: its lowest bit is the public 1 */
    st = ot_sender_new(&s, &end[0], 4, delta, session, &rng);
    pthread_join(thread, NULL);
    SEFL_TRY(st);
    SEFL_TRY(st_r);
    SEFL_TRY(batch(s));
#ifdef LEAK
    if (q[0][1] & 1) /* a label, before it is declared public */
        fputs("leak", stderr);
#endif
    CT_PUBLIC(delta, sizeof delta); /* the test inspects the result */
    CT_PUBLIC(q, sizeof q);
    CT_PUBLIC(t, sizeof t);
    CT_PUBLIC(bits, sizeof bits);
    for (size_t i = 0; i < N; i++)
        for (size_t x = 0; x < OT_LABEL; x++)
            if ((q[i][x] ^ t[i][x]) != (bits[i / 8] >> (i % 8) & 1 ? delta[x] : 0))
                return 2;
done:
    ot_sender_free(s);
    ot_receiver_free(r);
    channel_pair_close(&end[0]);
    channel_pair_close(&end[1]);
    if (st != SEFL_OK)
        fprintf(stderr, "%s\n", sefl_last_error());
    return st != SEFL_OK;
}
