/* OT: Delta at the sender, choice bits and columns at the receiver are secret. */
#include "base/ct.h"
#include "mpc/ot/ext.h"
#include "seeded/seeded.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N = 512 };

static channel end[2];
static uint8_t session[OT_SESSION], t[N][OT_LABEL], q[N][OT_LABEL];
static sefl_status st_r;

static void *receiver(void *arg)
{
    sefl_status st = SEFL_OK;
    ot_receiver *r = NULL;
    seeded g;
    uint8_t bits[N / 8];
    (void)arg;
    seeded_init(&g, 1, "receiver");
    sefl_rng rng = seeded_rng(&g);
    memset(bits, 0x3c, sizeof bits);
    CT_SECRET(bits, sizeof bits);
    SEFL_TRY(ot_receiver_new(&r, &end[1], 4, session, &rng));
    SEFL_TRY(ot_receive_chosen(r, &end[1], t[0], bits, N));
done:
    ot_receiver_free(r);
    st_r = st;
    return NULL;
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
    if (st == SEFL_OK)
        st = ot_send_chosen(s, &end[0], q[0], N, &rng);
    pthread_join(thread, NULL);
    SEFL_TRY(st);
    SEFL_TRY(st_r);
#ifdef LEAK
    if (q[0][1] & 1) /* a label, before it is declared public */
        fputs("leak", stderr);
#endif
    CT_PUBLIC(delta, sizeof delta); /* the test looks at the result */
    CT_PUBLIC(q, sizeof q);
    CT_PUBLIC(t, sizeof t);
    for (size_t i = 0; i < N; i++)
        for (size_t x = 0; x < OT_LABEL; x++)
            if ((q[i][x] ^ t[i][x]) != (0x3c >> (i % 8) & 1 ? delta[x] : 0))
                return 2;
done:
    ot_sender_free(s);
    channel_pair_close(&end[0]);
    channel_pair_close(&end[1]);
    if (st != SEFL_OK)
        fprintf(stderr, "%s\n", sefl_last_error());
    return st != SEFL_OK;
}
