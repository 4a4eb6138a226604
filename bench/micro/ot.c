/* OT extension in memory, beside the AES blocks that it needs at least. */
#include "bench/micro/2pc.h"

#if !SEFL_CORE_ONLY

#include "base/alloc.h"
#include "crypto/prg/aes.h"
#include "mpc/ot/ext.h"
#include "seeded/seeded.h"

#include <pthread.h>
#include <string.h>

enum { N = 50 * 1024 }; /* the transfers of 1024 coordinates */

typedef struct job {
    unsigned k;
    channel ch[2];
    uint8_t session[OT_SESSION], delta[OT_LABEL], seed[OT_KEY], answer[OT_CHECK_BYTES];
    ot_sender *s;
    ot_receiver *r;
    ot_block sb, rb;
    uint8_t *c, *rows;
    uint64_t number;
    aes128 key;
    sefl_status st;
} job;

static sefl_status receive(void *ctx)
{
    job *j = ctx;
    ot_receiver_extend(j->r, &j->rb, j->number++, N, j->c);
    ot_receiver_answer(j->r, j->answer, &j->rb, j->seed);
    ot_block_rows(&j->rb, j->rows, 0, N);
    return SEFL_OK;
}

static sefl_status send(void *ctx)
{
    job *j = ctx;
    /* always the batch of the last receive() */
    sefl_status st = ot_sender_extend(j->s, &j->sb, j->number - 1, N, j->c);
    if (st == SEFL_OK)
        st = ot_sender_check(j->s, &j->sb, j->seed, j->answer);
    ot_block_rows(&j->sb, j->rows, 0, N);
    return st;
}

/* 16 KB of key stream: 1024 blocks. */
static sefl_status aes(void *ctx)
{
    job *j = ctx;
    aes128_ctr(&j->key, j->rows, 16384, 0, j->number++);
    return SEFL_OK;
}

static void *other(void *arg)
{
    job *j = arg;
    seeded g;
    seeded_init(&g, 1, "receiver");
    sefl_rng rng = seeded_rng(&g);
    j->st = ot_receiver_new(&j->r, &j->ch[1], j->k, j->session, &rng);
    return NULL;
}

static sefl_status setup(job *j)
{
    sefl_status st = SEFL_OK;
    seeded g;
    pthread_t t;
    seeded_init(&g, 1, "sender");
    sefl_rng rng = seeded_rng(&g);
    seeded_fill(&g, j->delta, sizeof j->delta);
    j->delta[0] |= 1;
    SEFL_TRY(channel_pair_new(&j->ch[0], &j->ch[1], 10000));
    SEFL_CHECK(pthread_create(&t, NULL, other, j) == 0, SEFL_ENOMEM, "no thread");
    st = ot_sender_new(&j->s, &j->ch[0], j->k, j->delta, j->session, &rng);
    pthread_join(t, NULL);
    SEFL_TRY(st);
    SEFL_TRY(j->st);
done:
    return st;
}

static sefl_status measure(bench *b, unsigned k, double aes_blocks_s)
{
    sefl_status st = SEFL_OK;
    job j = { .k = k };
    bench_timing t;
    char name[64];
    double bytes = (double)ot_correction_bytes(k, N) / N;
    double leaves = (double)ot_trees(k) * (1 << k) / OT_BITS; /* AES blocks per OT */
    SEFL_TRY(setup(&j));
    SEFL_TRY(ot_block_init(&j.sb, N));
    SEFL_TRY(ot_block_init(&j.rb, N));
    SEFL_TRY(sefl_new(&j.c, ot_correction_bytes(k, N), 1));
    SEFL_TRY(sefl_new(&j.rows, N, OT_LABEL));
    SEFL_TRY(bench_time(b, &t, receive, &j));
    snprintf(name, sizeof name, "OT receiver, k = %u", k);
    bench_row(b, &(bench_result){ .name = name,
                                  .value = N / t.median_s * 1e-6,
                                  .unit = "M OT/s",
                                  .per_value = bytes,
                                  .floor = aes_blocks_s / leaves * 1e-6,
                                  .rate = true });
    SEFL_TRY(bench_time(b, &t, send, &j));
    snprintf(name, sizeof name, "OT sender, k = %u", k);
    leaves = (double)ot_trees(k) * ((1 << k) - 1) / OT_BITS;
    bench_row(b, &(bench_result){ .name = name,
                                  .value = N / t.median_s * 1e-6,
                                  .unit = "M OT/s",
                                  .per_value = bytes,
                                  .floor = aes_blocks_s / leaves * 1e-6,
                                  .rate = true });
done:
    ot_sender_free(j.s);
    ot_receiver_free(j.r);
    ot_block_clear(&j.sb);
    ot_block_clear(&j.rb);
    sefl_free(j.c);
    sefl_free(j.rows);
    for (int i = 0; i < 2; i++)
        channel_pair_close(&j.ch[i]);
    return st;
}

sefl_status bench_2pc_ot(bench *b)
{
    sefl_status st = SEFL_OK;
    job j = { 0 };
    bench_timing t;
    uint8_t key[AES_KEY] = { 1 };
    SEFL_TRY(sefl_new(&j.rows, 16384, 1));
    aes128_init(&j.key, key);
    SEFL_TRY(bench_time(b, &t, aes, &j));
    bench_note(b, "OT extension, batches of %d; per value: bytes an OT; AES-CTR %.0f M blocks/s", N,
               1024 / t.median_s * 1e-6);
    for (unsigned k = 1; k <= 8; k *= 2)
        SEFL_TRY(measure(b, k, 1024 / t.median_s));
done:
    sefl_free(j.rows);
    return st;
}

#endif
