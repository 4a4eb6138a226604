/* Base OT, trees and extension: two threads over a pair in memory. */
#include "support/check.h"

#include "base/ct.h"
#include "mpc/ot/ext.h"
#include "mpc/ot/kernels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT = 5000 };

/* One side of a run; the other one is in a thread. */
typedef struct side {
    channel ch;
    seeded gen;
    sefl_rng rng;
    uint8_t session[OT_SESSION], delta[OT_LABEL];
    unsigned k;
    size_t n;
    bool chosen;
    uint8_t *rows, *bits;
    void (*spoil)(struct side *, ot_block *, uint8_t *); /* a cheating receiver */
    sefl_status st;
    char said[256];
} side;

static void side_init(side *s, const char *name, unsigned k, size_t n)
{
    memset(s, 0, sizeof *s);
    seeded_init(&s->gen, 7 + k, name);
    s->rng = seeded_rng(&s->gen);
    s->k = k, s->n = n;
    memset(s->session, 0x5e, sizeof s->session);
    seeded_fill(&s->gen, s->delta, OT_LABEL);
    s->delta[0] |= 1;
    s->rows = calloc(n + 1, OT_LABEL);
    s->bits = calloc(n / 8 + 1, 1);
    seeded_fill(&s->gen, s->bits, n / 8 + 1);
}

static void side_clear(side *s)
{
    channel_pair_close(&s->ch);
    free(s->rows);
    free(s->bits);
}

static void side_end(side *s, sefl_status st)
{
    s->st = st;
    snprintf(s->said, sizeof s->said, "%s", st == SEFL_OK ? "" : sefl_last_error());
    channel_pair_close(&s->ch); /* so that the peer does not wait for its deadline */
}

static void *sender(void *arg)
{
    side *s = arg;
    ot_sender *o = NULL;
    sefl_status st = SEFL_OK;
    SEFL_TRY(ot_sender_new(&o, &s->ch, s->k, s->delta, s->session, &s->rng));
    SEFL_TRY(s->chosen ? ot_send_chosen(o, &s->ch, s->rows, s->n, &s->rng)
                       : ot_send_random(o, &s->ch, s->rows, s->n, &s->rng));
done:
    ot_sender_free(o);
    side_end(s, st);
    return NULL;
}

static void *receiver(void *arg)
{
    side *s = arg;
    ot_receiver *o = NULL;
    sefl_status st = SEFL_OK;
    SEFL_TRY(ot_receiver_new(&o, &s->ch, s->k, s->session, &s->rng));
    SEFL_TRY(s->chosen ? ot_receive_chosen(o, &s->ch, s->rows, s->bits, s->n)
                       : ot_receive_random(o, &s->ch, s->rows, s->bits, s->n));
done:
    ot_receiver_free(o);
    side_end(s, st);
    return NULL;
}

/* One batch by hand, with a chance to spoil it. */
static void *cheat(void *arg)
{
    side *s = arg;
    ot_receiver *o = NULL;
    ot_block b = { 0 };
    uint8_t *c = NULL, seed[OT_KEY], answer[OT_CHECK_BYTES];
    size_t bytes = ot_correction_bytes(s->k, s->n, true);
    sefl_status st = SEFL_OK;
    SEFL_TRY(ot_receiver_new(&o, &s->ch, s->k, s->session, &s->rng));
    SEFL_TRY(ot_block_init(&b, s->n));
    c = malloc(bytes);
    ot_receiver_extend(o, &b, 0, s->n, c);
    if (s->spoil)
        s->spoil(s, &b, c);
    SEFL_TRY(msg_send(&s->ch, OT_MSG_EXTEND, 0, c, bytes));
    SEFL_TRY(msg_recv(&s->ch, OT_MSG_SEED, 0, seed, sizeof seed, "seed"));
    ot_receiver_answer(o, answer, &b, seed);
    SEFL_TRY(msg_send(&s->ch, OT_MSG_CHECK, 0, answer, sizeof answer));
done:
    free(c);
    ot_block_clear(&b);
    ot_receiver_free(o);
    s->st = st;
    return NULL;
}

static void run(side *s, side *r, void *(*other)(void *))
{
    pthread_t t;
    CHECK_OK(channel_pair_new(&s->ch, &r->ch, TIMEOUT));
    assert_int_equal(pthread_create(&t, NULL, other, r), 0);
    sender(s);
    pthread_join(t, NULL);
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
    if (s->n > 1000)
        assert_in_range(ones, s->n / 2 - 3 * s->n / 40, s->n / 2 + 3 * s->n / 40);
}

static void rows_are_correlated(void **state)
{
    (void)state;
    static const unsigned ks[] = { 1, 2, 4, 8 };
    static const size_t ns[] = { 1, 512, 40000 };
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 3; j++)
            for (int chosen = 0; chosen < 2; chosen++) {
                side s, r;
                side_init(&s, "sender", ks[i], ns[j]);
                side_init(&r, "receiver", ks[i], ns[j]);
                uint8_t *mine = malloc(ns[j] / 8 + 1);
                memcpy(mine, r.bits, ns[j] / 8 + 1);
                s.chosen = r.chosen = chosen;
                run(&s, &r, receiver);
                CHECK_OK(s.st);
                CHECK_OK(r.st);
                check_correlated(&s, &r);
                if (chosen)
                    assert_memory_equal(mine, r.bits, ns[j] / 8 + 1);
                free(mine);
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
    static const unsigned ks[] = { 1, 4 };
    for (size_t i = 0; i < 2; i++) {
        side s, r;
        side_init(&s, "sender", ks[i], 512);
        side_init(&r, "receiver", ks[i], 512);
        r.session[31] ^= 1;
        run(&s, &r, receiver);
        CHECK_STATUS(s.st, SEFL_ECRYPTO);
        assert_non_null(strstr(s.said, "another session"));
        assert_int_not_equal(r.st, SEFL_OK);
        side_clear(&s);
        side_clear(&r);
    }
}

static void flip_correction(side *s, ot_block *b, uint8_t *c)
{
    (void)b;
    c[seeded_below(&s->gen, ot_correction_bytes(s->k, s->n, true))] ^=
        (uint8_t)(1u << seeded_below(&s->gen, 8));
}

static void flip_column(side *s, ot_block *b, uint8_t *c)
{
    (void)c;
    b->columns[seeded_below(&s->gen, OT_BITS) * b->stride + seeded_below(&s->gen, s->n / 8)] ^= 4;
}

static void flip_choice(side *s, ot_block *b, uint8_t *c)
{
    (void)c;
    b->u[seeded_below(&s->gen, s->n / 8)] ^= 16;
}

/* A receiver that guesses nothing about Delta and is caught. A flipped correction in tree i shows
 * unless delta_i = 0, so at k = 1 half of the flips pass: that is the guess of the header's
 * soundness argument, not a miss. k = 8 leaves 2^-8. */
static void cheating_receivers_are_caught(void **state)
{
    (void)state;
    struct {
        void (*spoil)(side *, ot_block *, uint8_t *);
        unsigned k;
        int least;
    } cases[] = { { NULL, 4, 0 },
                  { flip_correction, 8, 18 },
                  { flip_correction, 4, 15 },
                  { flip_correction, 1, 2 },
                  { flip_column, 4, 20 },
                  { flip_choice, 4, 20 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int caught = 0, trials = (int)test_count(6, 20);
        for (int trial = 0; trial < trials; trial++) {
            side s, r;
            side_init(&s, "sender", cases[i].k, 1024);
            side_init(&r, "cheat", cases[i].k, 1024);
            seeded_init(&r.gen, (uint64_t)trial, "cheat");
            seeded_init(&s.gen, (uint64_t)trial, "caught");
            seeded_fill(&s.gen, s.delta, OT_LABEL);
            s.delta[0] |= 1;
            r.spoil = cases[i].spoil;
            run(&s, &r, cheat);
            assert_true(s.st == SEFL_OK || s.st == SEFL_ECRYPTO);
            caught += s.st == SEFL_ECRYPTO;
            side_clear(&s);
            side_clear(&r);
            if (!cases[i].spoil)
                break;
        }
        if (caught * 20 < cases[i].least * trials || (!cases[i].spoil && caught > 0))
            fail_msg("case %zu: caught %d of %d", i, caught, trials);
    }
}

static void parts_can_be_had_again(void **state)
{
    (void)state;
    enum { N = 4096 + 512, FIRST = 1024, PART = 1536 };
    side s, r;
    pthread_t t;
    ot_sender *o;
    ot_block b, again;
    uint8_t *c = malloc(ot_correction_bytes(4, N, true));
    uint8_t *part = malloc(ot_correction_bytes(4, PART, false));
    uint8_t *rows = malloc(N * OT_LABEL), *rows2 = malloc(PART * OT_LABEL);
    side_init(&s, "sender", 4, N);
    side_init(&r, "receiver", 4, N);
    CHECK_OK(channel_pair_new(&s.ch, &r.ch, TIMEOUT));
    assert_int_equal(pthread_create(&t, NULL, cheat, &r), 0);
    CHECK_OK(ot_sender_new(&o, &s.ch, 4, s.delta, s.session, &s.rng));
    CHECK_OK(ot_block_init(&b, N));
    CHECK_OK(ot_block_init(&again, PART));
    CHECK_OK(msg_recv(&s.ch, OT_MSG_EXTEND, 0, c, ot_correction_bytes(4, N, true), "c"));
    ot_sender_extend(o, &b, 0, N, c);
    ot_block_rows(&b, rows, 0, N);
    ot_sender_keep(o, part, c, N, FIRST, PART);
    ot_sender_again(o, &again, 0, FIRST, PART, part);
    ot_block_rows(&again, rows2, FIRST, PART);
    assert_memory_equal(rows + FIRST * OT_LABEL, rows2, PART * OT_LABEL);
    channel_pair_close(&s.ch);
    pthread_join(t, NULL);
    ot_block_clear(&b);
    ot_block_clear(&again);
    ot_sender_free(o);
    free(c);
    free(part);
    free(rows);
    free(rows2);
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
    sefl_status st;
    pthread_t t;
    side_init(&s, "sender", 8, 600);
    side_init(&r, "receiver", 8, 600);
    st = channel_pair_new(&s.ch, &r.ch, TIMEOUT);
    if (st == SEFL_OK) {
        assert_int_equal(pthread_create(&t, NULL, receiver, &r), 0);
        sender(&s);
        pthread_join(t, NULL);
        st = s.st != SEFL_OK ? s.st : r.st;
    }
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
        for (uint64_t nth = 1;; nth += test_count(3, 1)) {
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
        cmocka_unit_test(the_field_is_a_field),   cmocka_unit_test(paths_agree),
        cmocka_unit_test(rows_are_correlated),    cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(another_session_fails),  cmocka_unit_test(cheating_receivers_are_caught),
        cmocka_unit_test(parts_can_be_had_again), cmocka_unit_test(faults_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
