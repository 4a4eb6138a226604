/* Base OT, trees and extension: two threads over a pair in memory. */
#include "support/check.h"

#include "base/ct.h"
#include "mpc/ot/ext.h"
#include "mpc/ot/ot_kernels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT = 60000 };

/* One side of a run; the other one is in a thread. */
typedef struct side {
    channel ch;
    seeded gen;
    sefl_rng rng;
    uint8_t session[OT_SESSION], delta[OT_LABEL];
    unsigned k;
    ot_sender *s;
    ot_receiver *r;
    size_t n;             /* all transfers of a run */
    uint8_t *rows, *bits; /* q or t; choices */
    sefl_status st;
    char said[256];
} side;

/* A run: batches of these sizes, one after the other in one session. */
static const size_t plan[] = { 512, 1024, 512, 40448, 39936 };

enum { PLAN = sizeof plan / sizeof *plan, ALL = 512 + 1024 + 512 + 40448 + 39936, MOST = 40448 };

static void side_init(side *s, const char *name, unsigned k)
{
    memset(s, 0, sizeof *s);
    seeded_init(&s->gen, 7 + k, name);
    s->rng = seeded_rng(&s->gen);
    s->k = k, s->n = ALL;
    memset(s->session, 0x5e, sizeof s->session);
    seeded_fill(&s->gen, s->delta, OT_LABEL);
    s->delta[0] |= 1;
    s->rows = calloc(ALL, OT_LABEL);
    s->bits = calloc(ALL / 8, 1);
}

static void side_clear(side *s)
{
    ot_sender_free(s->s);
    ot_receiver_free(s->r);
    channel_pair_close(&s->ch);
    free(s->rows);
    free(s->bits);
}

static void *new_receiver(void *arg)
{
    side *s = arg;
    s->st = ot_receiver_new(&s->r, &s->ch, s->k, s->session, &s->rng);
    if (s->st != SEFL_OK)
        channel_pair_close(&s->ch); /* so that the peer does not wait for its time limit */
    return NULL;
}

/* All batches; both ends are here. */
static sefl_status transfer(side *s, side *r)
{
    sefl_status st = SEFL_OK;
    ot_block sb = { 0 }, rb = { 0 };
    uint8_t *c = malloc(ot_correction_bytes(s->k, MOST)), seed[OT_KEY], answer[OT_CHECK_BYTES];
    SEFL_TRY(ot_block_init(&sb, MOST));
    SEFL_TRY(ot_block_init(&rb, MOST));
    for (size_t i = 0, at = 0; i < PLAN; at += plan[i++]) {
        ot_receiver_extend(r->r, &rb, i, plan[i], c);
        SEFL_TRY(ot_sender_extend(s->s, &sb, i, plan[i], c));
        seeded_fill(&s->gen, seed, sizeof seed);
        ot_receiver_answer(r->r, answer, &rb, seed);
        SEFL_TRY(ot_sender_check(s->s, &sb, seed, answer));
        ot_block_rows(&sb, s->rows + at * OT_LABEL, 0, plan[i]);
        ot_block_rows(&rb, r->rows + at * OT_LABEL, 0, plan[i]);
        memcpy(r->bits + at / 8, rb.u, plan[i] / 8);
    }
done:
    free(c);
    ot_block_clear(&sb);
    ot_block_clear(&rb);
    return st;
}

static sefl_status run_plan(side *s, side *r)
{
    pthread_t t;
    sefl_status st = channel_pair_new(&s->ch, &r->ch, TIMEOUT);
    if (st != SEFL_OK)
        return st;
    assert_int_equal(pthread_create(&t, NULL, new_receiver, r), 0);
    s->st = ot_sender_new(&s->s, &s->ch, s->k, s->delta, s->session, &s->rng);
    snprintf(s->said, sizeof s->said, "%s", s->st == SEFL_OK ? "" : sefl_last_error());
    if (s->st != SEFL_OK)
        channel_pair_close(&s->ch);
    pthread_join(t, NULL);
    st = s->st != SEFL_OK ? s->st : r->st;
    return st == SEFL_OK ? transfer(s, r) : st;
}

/* Both ends, ready, in this thread. */
static void both(side *s, side *r, unsigned k)
{
    pthread_t t;
    side_init(s, "sender", k);
    side_init(r, "receiver", k);
    CHECK_OK(channel_pair_new(&s->ch, &r->ch, TIMEOUT));
    assert_int_equal(pthread_create(&t, NULL, new_receiver, r), 0);
    CHECK_OK(ot_sender_new(&s->s, &s->ch, k, s->delta, s->session, &s->rng));
    pthread_join(t, NULL);
    CHECK_OK(r->st);
}

static void check_correlated(const side *s, const side *r)
{
    size_t ones = 0;
    for (size_t i = 0; i < s->n; i++) {
        unsigned bit = r->bits[i / 8] >> (i % 8) & 1;
        ones += bit;
        for (unsigned x = 0; x < OT_LABEL; x++) {
            uint8_t want = s->rows[i * OT_LABEL + x] ^ (bit ? s->delta[x] : 0);
            if (want != r->rows[i * OT_LABEL + x])
                fail_msg("transfer %zu, k = %u: not q + b*Delta", i, s->k);
        }
    }
    assert_in_range(ones, s->n / 2 - s->n / 50, s->n / 2 + s->n / 50);
}

static void rows_are_correlated(void **state)
{
    (void)state;
    for (unsigned k = 1; k <= 8; k *= 2) {
        side s, r;
        side_init(&s, "sender", k);
        side_init(&r, "receiver", k);
        CHECK_OK(run_plan(&s, &r));
        check_correlated(&s, &r);
        side_clear(&s);
        side_clear(&r);
    }
}

static void bad_settings_are_refused(void **state)
{
    (void)state;
    static const unsigned ks[] = { 0, 3, 5, 16 };
    for (size_t i = 0; i < 4; i++) {
        channel ch = { .dead = true };
        ot_sender *s;
        ot_receiver *r;
        seeded g;
        seeded_init(&g, 1, "x");
        sefl_rng rng = seeded_rng(&g);
        uint8_t session[OT_SESSION] = { 0 }, delta[OT_LABEL] = { 1 };
        CHECK_STATUS(ot_sender_new(&s, &ch, ks[i], delta, session, &rng), SEFL_EINVAL);
        CHECK_STATUS(ot_receiver_new(&r, &ch, ks[i], session, &rng), SEFL_EINVAL);
    }
}

static void another_session_fails(void **state)
{
    (void)state;
    for (unsigned k = 1; k <= 4; k *= 4) {
        side s, r;
        side_init(&s, "sender", k);
        side_init(&r, "receiver", k);
        r.session[31] ^= 1;
        CHECK_STATUS(run_plan(&s, &r), SEFL_ECRYPTO);
        assert_non_null(strstr(s.said, "another session"));
        side_clear(&s);
        side_clear(&r);
    }
}

enum { BATCH_N = 1024 };

static void flip_correction(seeded *g, unsigned k, ot_block *b, uint8_t *c)
{
    (void)b;
    c[seeded_below(g, ot_correction_bytes(k, BATCH_N))] ^= (uint8_t)(1u << seeded_below(g, 8));
}

static void flip_column(seeded *g, unsigned k, ot_block *b, uint8_t *c)
{
    (void)c, (void)k;
    b->columns[seeded_below(g, OT_BITS) * b->stride + seeded_below(g, BATCH_N / 8)] ^= 4;
}

static void flip_choice(seeded *g, unsigned k, ot_block *b, uint8_t *c)
{
    (void)c, (void)k;
    b->u[seeded_below(g, BATCH_N / 8)] ^= 16;
}

static void nothing(seeded *g, unsigned k, ot_block *b, uint8_t *c)
{
    (void)g, (void)k, (void)b, (void)c;
}

/* A receiver that does not guess Delta is caught. A flipped correction in tree i is detected unless
 * delta_i = 0, so at k = 1 half of the flips pass: that is the guess in the header's soundness
 * argument, not a missed error. (A real session ends with the first failed check: below.) */
static void cheating_receivers_are_caught(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(seeded *, unsigned, ot_block *, uint8_t *);
        unsigned k;
        unsigned least, most; /* caught, of 400 */
    } cases[] = { { nothing, 4, 0, 0 },
                  { flip_correction, 8, 385, 400 },
                  { flip_correction, 4, 340, 400 },
                  { flip_correction, 1, 130, 270 },
                  { flip_column, 4, 400, 400 },
                  { flip_choice, 4, 400, 400 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        side s, r;
        ot_block sb, rb;
        unsigned caught = 0, k = cases[i].k;
        both(&s, &r, k);
        CHECK_OK(ot_block_init(&sb, BATCH_N));
        CHECK_OK(ot_block_init(&rb, BATCH_N));
        uint8_t *c = malloc(ot_correction_bytes(k, BATCH_N));
        for (unsigned trial = 0; trial < 400; trial++) {
            uint8_t seed[OT_KEY], answer[OT_CHECK_BYTES];
            ot_receiver_extend(r.r, &rb, trial, BATCH_N, c);
            cases[i].spoil(&r.gen, k, &rb, c);
            CHECK_OK(ot_sender_extend(s.s, &sb, trial, BATCH_N, c));
            seeded_fill(&s.gen, seed, sizeof seed);
            ot_receiver_answer(r.r, answer, &rb, seed);
            caught += !ot_sender_verify(s.s, &sb, seed, answer);
        }
        if (caught < cases[i].least || caught > cases[i].most)
            fail_msg("case %zu: caught %u of 400", i, caught);
        free(c);
        ot_block_clear(&sb);
        ot_block_clear(&rb);
        side_clear(&s);
        side_clear(&r);
    }
}

/* A receiver has one guess: after a failed check the sender accepts nothing more, not even a valid
 * batch. */
static void a_failed_check_is_the_end(void **state)
{
    (void)state;
    side s, r;
    ot_block sb, rb;
    uint8_t seed[OT_KEY] = { 1 }, good[OT_CHECK_BYTES], bad[OT_CHECK_BYTES];
    both(&s, &r, 4);
    CHECK_OK(ot_block_init(&sb, BATCH_N));
    CHECK_OK(ot_block_init(&rb, BATCH_N));
    uint8_t *c = malloc(ot_correction_bytes(4, BATCH_N));
    ot_receiver_extend(r.r, &rb, 0, BATCH_N, c);
    CHECK_OK(ot_sender_extend(s.s, &sb, 0, BATCH_N, c));
    ot_receiver_answer(r.r, good, &rb, seed);
    memcpy(bad, good, sizeof bad);
    bad[39] ^= 1;
    CHECK_OK(ot_sender_check(s.s, &sb, seed, good));
    CHECK_STATUS(ot_sender_check(s.s, &sb, seed, bad), SEFL_ECRYPTO);
    CHECK_STATUS(ot_sender_check(s.s, &sb, seed, good), SEFL_ESTATE);
    CHECK_STATUS(ot_sender_extend(s.s, &sb, 1, BATCH_N, c), SEFL_ESTATE);
    free(c);
    ot_block_clear(&sb);
    ot_block_clear(&rb);
    side_clear(&s);
    side_clear(&r);
}

static void paths_agree(void **state)
{
    (void)state;
    enum { BYTES = 576, STRIDE = BYTES + 64 };
    uint8_t *in = malloc(128 * STRIDE), *rows[2] = { malloc(BYTES * 128), malloc(BYTES * 128) };
    uint8_t v[2][BYTES], left[2][BYTES];
    uint64_t chi[BYTES / 8];
    unsigned end;
    seeded g;
    test_seed(&g, "kernels");
    const ot_kernels *ref = ot_kernels_at(0, &end);
    for (unsigned trial = 0; trial < 50; trial++) {
        seeded_fill(&g, in, 128 * STRIDE);
        seeded_fill(&g, chi, sizeof chi);
        size_t n = 64 * (1 + seeded_below(&g, BYTES / 64));
        ref->transpose(rows[0], in, STRIDE, n);
        for (size_t r = 0; r < 8 * n; r += 1 + seeded_below(&g, 40))
            for (unsigned c = 0; c < 128; c++)
                assert_int_equal(rows[0][r * 16 + c / 8] >> (c % 8) & 1,
                                 in[c * STRIDE + r / 8] >> (r % 8) & 1);
        for (unsigned i = 1; i < end; i++) {
            const ot_kernels *k = ot_kernels_at(i, &end);
            uint64_t acc[2][2] = { { 1, 2 }, { 1, 2 } };
            uint64_t mask = 0 - (uint64_t)(trial & 1);
            if (!k)
                continue;
            k->transpose(rows[1], in, STRIDE, n);
            assert_memory_equal(rows[0], rows[1], 128 * n);
            for (unsigned x = 0; x < 2; x++) {
                const ot_kernels *kk = x ? k : ref;
                memcpy(v[x], in, BYTES);
                memcpy(left[x], in + BYTES, BYTES);
                if (trial % 3 == 0)
                    kk->fold_first(v[x], left[x], in + 4 * BYTES, n);
                kk->fold(v[x], left[x], in + 2 * BYTES, n);
                kk->add_masked(v[x], in + 3 * BYTES, mask, n);
                kk->dot(acc[x], in + 5 * BYTES, chi, n);
            }
            assert_memory_equal(v[0], v[1], BYTES);
            assert_memory_equal(left[0], left[1], BYTES);
            assert_memory_equal(acc[0], acc[1], sizeof acc[0]);
        }
    }
    free(in);
    free(rows[0]);
    free(rows[1]);
}

/* Expanding a whole tree gives the sum of its leaves' key streams. */
static void kernels_tree(void **state)
{
    (void)state;
    enum { BYTES = 1024, STRIDE = BYTES + 64 };
    uint8_t u[BYTES], columns[4 * STRIDE], want[5][BYTES], stream[BYTES], bytes[AES_KEY];
    aes128 key[16];
    unsigned end;
    seeded g;
    test_seed(&g, "tree");
    ot_kernels_at(0, &end);
    for (unsigned i = 0; i < end; i++) {
        const ot_kernels *k = ot_kernels_at(i, &end);
        for (unsigned trial = 0; k && k->tree16 && trial < 40; trial++) {
            const bool hole = trial & 1;
            const size_t n = 256 * (1 + seeded_below(&g, BYTES / 256));
            const uint64_t nonce = seeded_u64(&g) >> (trial % 64),
                           at = seeded_u64(&g) >> (1 + trial);
            memset(want, 0, sizeof want);
            for (unsigned y = 0; y < 16; y++) {
                seeded_fill(&g, bytes, sizeof bytes);
                aes128_init(&key[y], bytes);
                aes128_ctr_on(AES_SOFT, &key[y], stream, n, nonce, at);
                for (size_t b = 0; b < n && !(hole && y == 0); b++)
                    for (unsigned j = 0; j < 5; j++)
                        want[j][b] ^= j == 4 || y >> j & 1 ? stream[b] : 0;
            }
            k->tree16(u, columns, STRIDE, key, hole, nonce, at, n);
            assert_memory_equal(u, want[4], n);
            for (unsigned j = 0; j < 4; j++)
                assert_memory_equal(columns + j * STRIDE, want[j], n);
        }
    }
}

/* x^64 = x^4 + x^3 + x + 1, and the field's multiplication is associative. */
static uint64_t mul(uint64_t a, uint64_t b)
{
    unsigned end;
    uint64_t wide[2] = { 0, 0 };
    uint8_t bytes[64] = { 0 };
    uint64_t chi[8] = { b };
    store_u64(bytes, a);
    ot_kernels_at(0, &end)->dot(wide, bytes, chi, 64);
    return ot_gf64_reduce(wide);
}

static void the_field_is_a_field(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "gf64");
    assert_int_equal(mul((uint64_t)1 << 63, 2), 0x1b);
    for (int i = 0; i < 200; i++) {
        uint64_t a = seeded_u64(&g), b = seeded_u64(&g), c = seeded_u64(&g);
        assert_int_equal(mul(a, mul(b, c)), mul(mul(a, b), c));
        assert_int_equal(mul(a, b ^ c), mul(a, b) ^ mul(a, c));
        assert_int_equal(mul(a, 1), a);
    }
    uint64_t x = 2; /* 2^(2^64) = 2: all non-zero elements have order dividing 2^64 - 1 */
    for (int i = 0; i < 64; i++)
        x = mul(x, x);
    assert_int_equal(x, 2);
}

static sefl_status whole(void)
{
    side s, r;
    side_init(&s, "sender", 8);
    side_init(&r, "receiver", 8);
    sefl_status st = run_plan(&s, &r);
    side_clear(&s);
    side_clear(&r);
    return st;
}

static void faults_are_seen(void **state)
{
    (void)state;
#if SEFL_FAULTS
    static const fault_kind kinds[] = { FAULT_SEND, FAULT_RECV, FAULT_ALLOC };
    for (size_t i = 0; i < 3; i++)
        for (uint64_t nth = 1;; nth += test_count(11, 1)) {
            fault_arm(kinds[i], nth);
            sefl_status st = whole();
            bool hit = fault_was_hit();
            fault_disarm();
            if (!hit) {
                CHECK_OK(st);
                break;
            }
            if (st == SEFL_OK)
                fail_msg("fault %d of kind %d was swallowed", (int)nth, (int)kinds[i]);
        }
#else
    CHECK_OK(whole());
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_field_is_a_field),
        cmocka_unit_test(paths_agree),
        cmocka_unit_test(kernels_tree),
        cmocka_unit_test(rows_are_correlated),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(another_session_fails),
        cmocka_unit_test(cheating_receivers_are_caught),
        cmocka_unit_test(a_failed_check_is_the_end),
        cmocka_unit_test(faults_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
