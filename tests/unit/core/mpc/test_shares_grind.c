/* An AS that makes its own OT trees and searches for roots.
 *
 * It wants the labels of one AND input in two lanes of a block to differ by what those lanes mix
 * into the hash. Each tree decides four bits of a label, so 16 roots per tree are enough, and every
 * message is that of an honest AS with those roots: no check detects anything. If a lane mixes in
 * its number, the two rows of the gate then differ by Delta or by nothing, each with probability
 * 1/2. Lane keys, drawn when the labels are fixed, prevent this. */
#include "unit/core/mpc/shares_pair.h"

#include "base/sha256.h"
#include "base/span.h"
#include "crypto/prg/prg.h"
#include "mpc/garble/garble.h"
#include "mpc/ot/ext.h"

enum { LANE = 1, OTHER = 3, TREES = 32, LEAVES = 16 };

static bool lane_keys; /* of the next session */
static gc_label true_delta;

/* The order of CSP's steps in one session. */
static struct {
    size_t checks, draws; /* OT checks that passed; lane keys drawn */
    bool too_early;       /* keys were drawn before the chunk's check had passed */
    gc_label key[8][GC_LANES];
} order;

/* ---- CSP, unchanged except for the lanes ---- */

static void hook_lanes(gc *g, const gc_label kappa[GC_LANES])
{
    if (lane_keys)
        gc_set_lanes(g, kappa);
}

static sefl_status hook_check(ot_sender *s, const ot_block *b, const uint8_t seed[OT_KEY],
                              const uint8_t answer[OT_CHECK_BYTES])
{
    sefl_status st = ot_sender_check(s, b, seed, answer);
    order.checks += st == SEFL_OK;
    return st;
}

static sefl_status hook_fill(const sefl_rng *rng, void *out, size_t n)
{
    sefl_status st = rng_fill(rng, out, n);
    if (n == sizeof order.key[0]) {
        order.too_early |= order.draws >= order.checks;
        if (order.draws < 8)
            memcpy(order.key[order.draws], out, n);
        order.draws++;
    }
    return st;
}

static sefl_status hook_delta(gc_label *delta, const sefl_rng *rng)
{
    sefl_status st = gc_delta_draw(delta, rng);
    true_delta = *delta;
    return st;
}

/* ---- AS ---- */

typedef struct attacker {
    bool active;       /* this thread is AS */
    const uint8_t *id; /* of the session, after the hello */
    unsigned tree;     /* whose root is next */
    unsigned tries;
    uint64_t coins; /* the AND's first input is the XOR of these coins' wires */
    size_t gate;    /* its number among the ANDs */
    sefl_rng rng;   /* honest coins */
    gc_label read;  /* TG ^ TG' */
} attacker;
static _Thread_local attacker me;

static void node_hash(uint8_t out[32], const char *domain, unsigned level, unsigned number,
                      const uint8_t node[OT_KEY])
{
    uint8_t at[12];
    sha256 h;
    store_u32(at, me.tree);
    store_u32(at + 4, level);
    store_u32(at + 8, number);
    sha256_init(&h);
    sha256_add(&h, span_of_str(domain));
    sha256_add(&h, span_of(me.id, 32));
    sha256_add(&h, span_of(at, sizeof at));
    sha256_add(&h, span_of(node, OT_KEY));
    sha256_end(&h, out);
}

/* The four bits that this tree contributes to the label of a coin in batch 0, given all leaves'
 * streams. */
static unsigned nibble(uint8_t stream[LEAVES][1024], size_t transfer)
{
    unsigned v = 0;
    for (unsigned y = 0; y < LEAVES; y++)
        v ^= stream[y][transfer / 8] >> (transfer % 8) & 1 ? y : 0;
    return v;
}

/* By how much the labels of the AND's input differ between the two lanes of block 0, in this tree's
 * bits. */
static unsigned difference(const uint8_t root[OT_KEY])
{
    uint8_t node[LEAVES][OT_KEY], both[32], stream[LEAVES][1024];
    unsigned v = 0;
    memcpy(node[0], root, OT_KEY);
    for (unsigned level = 1; level <= 4; level++)
        for (unsigned i = 1u << (level - 1); i-- > 0;) {
            node_hash(both, "sefl ot node", level, i, node[i]);
            memcpy(node[2 * i], both, sizeof both);
        }
    for (unsigned y = 0; y < LEAVES; y++) {
        aes128 key;
        node_hash(both, "sefl ot leaf", 4, y, node[y]);
        aes128_init(&key, both);
        aes128_ctr(&key, stream[y], sizeof stream[y], 0, 0);
    }
    for (unsigned w = 0; w < 64; w++)
        if (me.coins >> w & 1)
            v ^= nibble(stream, w * GC_LANES + LANE) ^ nibble(stream, w * GC_LANES + OTHER);
    return v;
}

/* s(x, x) = (0, x): what the lanes' numbers differ by, in both halves of the label. */
static const gc_label wanted = { { LANE ^ OTHER, LANE ^ OTHER } };

static sefl_status grind(void *self, void *out, size_t n)
{
    (void)self;
    sefl_status st;
    unsigned want = (unsigned)(wanted.w[me.tree / 16] >> (4 * (me.tree % 16)) & 15);
    do {
        st = rng_fill(&me.rng, out, n);
        if (n != OT_KEY || st != SEFL_OK)
            return st; /* a coin of the base OT */
        me.tries++;
    } while (difference(out) != want);
    me.tree++;
    return SEFL_OK;
}

static sefl_rng hook_rng(prg *g)
{
    if (!me.active)
        return prg_rng(g);
    me.rng = prg_rng(g);
    return (sefl_rng){ grind, NULL };
}

static sefl_status hook_evaluate(gc *e, gc_label *out, const uint8_t *tables, size_t n,
                                 const gc_label *in, uint64_t first, size_t blocks)
{
    if (first == 0) {
        const gc_label *tg = (const gc_label *)(tables + me.gate * GC_LANES * GC_AND_BYTES);
        gc_label a = { { 0, 0 } };
        for (unsigned w = 0; w < 64; w++) /* the labels are as AS wants them */
            for (int i = 0; me.coins >> w & 1 && i < 2; i++) {
                a.w[i] ^= in[w * GC_LANES + LANE].w[i] ^ in[w * GC_LANES + OTHER].w[i];
            }
        assert_memory_equal(&a, &wanted, sizeof a);
        for (int i = 0; i < 2; i++)
            me.read.w[i] = tg[LANE].w[i] ^ tg[OTHER].w[i];
    }
    return gc_evaluate(e, out, tables, n, in, first, blocks);
}

shares_fn hooked_garble, hooked_evaluate;
sefl_status hooked_replay(audit_finding *out, const audit_record *r);
sefl_status hooked_judge(shares_result *out, const audit_record *r);
sefl_status hooked_recorded(shares_params *p, const audit_record *r);
sefl_status hooked_named(uint8_t id[SHARES_ID], shares_params *filled, const shares_params *p,
                         const uint8_t csp_nonce[32], const uint8_t as_nonce[32]);

#define shares_garble   hooked_garble
#define shares_evaluate hooked_evaluate
#define shares_replay   hooked_replay
#define shares_judge    hooked_judge
#define shares_recorded hooked_recorded
#define shares_named    hooked_named
#define gc_set_lanes    hook_lanes
#define gc_delta_draw   hook_delta
#define gc_evaluate     hook_evaluate
#define prg_rng         hook_rng
#define ot_sender_check hook_check
#define rng_fill        hook_fill
#include "mpc/noise/shares.c"
#undef rng_fill

/* The first AND with an input that is an XOR of coins. */
static void find_gate(attacker *a)
{
    circuit *c;
    CHECK_OK(sampler_offline(&c, &sampler_g44));
    uint64_t *sum = calloc(c->slots, sizeof *sum);
    bool *linear = calloc(c->slots, sizeof *linear);
    linear[0] = true;
    for (uint32_t i = 0; i < c->inputs; i++)
        sum[i + 1] = (uint64_t)1 << i, linear[i + 1] = true;
    a->gate = 0;
    for (uint32_t i = 0; i < c->gates; i++) {
        const circ_gate *g = &c->gate[i];
        if (g->op == CIRC_AND && linear[g->a] && sum[g->a])
            a->coins = sum[g->a];
        if (a->coins)
            break;
        a->gate += g->op == CIRC_AND;
        linear[g->dst] = g->op == CIRC_XOR && linear[g->a] && linear[g->b];
        sum[g->dst] = sum[g->a] ^ sum[g->b];
    }
    assert_true(a->coins != 0);
    free(sum);
    free(linear);
    circuit_free(c);
}

static sefl_status attack(shares_result *out, uint64_t *x, channel *ch, const shares_params *p,
                          const sefl_rng *rng)
{
    me.active = true;
    me.id = out->id;
    me.tree = 0;
    return hooked_evaluate(out, x, ch, p, rng);
}

static void trees(void **state)
{
    (void)state;
    const unsigned runs = (unsigned)test_count(12, 80);
    const shares_params p = { .count = 128, .chunk = 128 };
    for (int keys = 0; keys < 2; keys++) {
        unsigned read = 0, nothing = 0;
        for (unsigned i = 0; i < runs; i++) {
            two t = { .csp.fn = hooked_garble, .as.fn = attack };
            lane_keys = keys;
            me = (attacker){ 0 };
            find_gate(&me);
            two_run(&t, &p, i + 1000u * (unsigned)keys);
            CHECK_OK(t.csp.st); /* no check detected anything */
            CHECK_OK(t.as.st);
            assert_int_equal(me.tree, TREES);
            assert_true(me.tries > TREES);
            read += memcmp(&me.read, &true_delta, sizeof true_delta) == 0;
            nothing += me.read.w[0] == 0 && me.read.w[1] == 0;
            two_clear(&t);
        }
        if (keys) {
            assert_int_equal(read, 0);
            assert_int_equal(nothing, 0);
        } else {
            assert_int_equal(read + nothing, runs);
            assert_true(read > runs / 8 && read < runs * 7 / 8);
        }
        printf("lane %s: Delta read in %u of %u sessions\n", keys ? "keys" : "numbers", read, runs);
    }
    me = (attacker){ 0 };
}

/* Each chunk has its own keys, drawn when its labels are fixed; after a failed check there are
 * none. */
static void keys_after_check(void **state)
{
    (void)state;
    const shares_params p = { .count = 6 * 128, .chunk = 128 };
    two t = { .csp.fn = hooked_garble };
    memset(&order, 0, sizeof order);
    lane_keys = true;
    two_run(&t, &p, 1);
    CHECK_OK(t.as.st);
    assert_int_equal(order.checks, 6);
    assert_int_equal(order.draws, 6);
    assert_false(order.too_early);
    const gc_label *all = order.key[0];
    for (size_t i = 0; i < 6 * GC_LANES; i++)
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(all + i, all + j, sizeof *all);
    const size_t bytes = t.csp.ch.sent;
    two_clear(&t);

    two bad = { .csp.fn = hooked_garble, .as.wire = { .nth = 3 + 4 + 3 } }; /* answer 1 */
    memset(&order, 0, sizeof order);
    two_run(&bad, &p, 1);
    CHECK_STATUS(bad.csp.st, SEFL_ECRYPTO);
    assert_int_equal(order.draws, 1);
    assert_true(bad.csp.ch.sent < bytes / 3);
    two_clear(&bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(trees),
                                        cmocka_unit_test(keys_after_check) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
