/* counted: for every small tree and leaf, its path leads to the root and no other does; a path does
 * not reveal the count. Known answers: tests/vectors/core/protocol. */
#include "support/check.h"

#include "base/buf.h"
#include "protocol/counted.h"

#include <string.h>

enum { SMALL = 9 };

static uint8_t task[32], seed[COUNTED_SEED];
static round_entry leaves[SMALL];

static int setup(void **state)
{
    seeded g;
    (void)state;
    seeded_init(&g, 1, "counted");
    seeded_fill(&g, task, sizeof task);
    seeded_fill(&g, seed, sizeof seed);
    seeded_fill(&g, leaves, sizeof leaves);
    for (unsigned i = 0; i < SMALL; i++)
        leaves[i].client[0] = (uint8_t)(20 * i);
    return 0;
}

static counted_facts facts(uint32_t most, uint32_t n)
{
    return (counted_facts){
        .task = task, .round = 3, .tree_seed = seed, .clients_max = most, .leaves = leaves, .n = n
    };
}

static void depths(void **state)
{
    static const struct {
        uint32_t most;
        unsigned depth;
    } known[] = { { 1, 0 },      { 2, 1 },      { 3, 2 },       { 4, 2 },
                  { 5, 3 },      { 8, 3 },      { 9, 4 },       { 10000, 14 },
                  { 16384, 14 }, { 16385, 15 }, { 131072, 17 }, { 1 << 24, 24 } };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(counted_depth(known[i].most), known[i].depth);
    assert_int_equal(counted_path_bytes(14), 448 + 4);
}

static void path_of(sefl_buf *out, const counted_facts *f, uint32_t i)
{
    counted_tree *t = NULL;
    buf_reset(out);
    CHECK_OK(counted_tree_new(&t, f));
    CHECK_OK(counted_tree_path(out, t, f->leaves[i].client));
    counted_tree_free(t);
}

static void small_trees(void **state)
{
    sefl_buf path = { 0 };
    (void)state;
    for (uint32_t most = 1; most <= SMALL; most++) {
        unsigned depth = counted_depth(most);
        for (uint32_t n = 0; n <= most; n++) {
            counted_facts f = facts(most, n);
            uint8_t root[32], other[32];
            uint32_t taken = 0;
            CHECK_OK(counted_root(root, &f));
            for (uint32_t i = 0; i < n; i++) {
                path_of(&path, &f, i);
                sefl_span p = buf_span(&path);
                uint32_t place = load_u32(path.p + path.n - 4);
                assert_int_equal(path.n, counted_path_bytes(depth));
                assert_true(place < 1u << depth);
                assert_false(taken & 1u << place); /* no other client is at that position */
                taken |= 1u << place;
                for (uint32_t k = 0; k < SMALL; k++)
                    CHECK_STATUS(counted_check(root, task, 3, depth, &leaves[k], p),
                                 k == i ? SEFL_OK : SEFL_EAUTH);
                CHECK_STATUS(counted_check(root, task, 4, depth, &leaves[i], p), SEFL_EAUTH);
                CHECK_STATUS(counted_check(root, seed, 3, depth, &leaves[i], p), SEFL_EAUTH);
                round_entry l = leaves[i];
                l.body[31] ^= 1;
                CHECK_STATUS(counted_check(root, task, 3, depth, &l, p), SEFL_EAUTH);
                memcpy(other, root, sizeof other);
                other[0] ^= 1;
                CHECK_STATUS(counted_check(other, task, 3, depth, &leaves[i], p), SEFL_EAUTH);
                for (size_t at = 0; at < path.n; at++) { /* every byte counts */
                    path.p[at] ^= 1;
                    assert_int_not_equal(counted_check(root, task, 3, depth, &leaves[i], p),
                                         SEFL_OK);
                    path.p[at] ^= 1;
                    CHECK_STATUS(
                        counted_check(root, task, 3, depth, &leaves[i], span_of(path.p, at)),
                        SEFL_EPROTO);
                }
            }
        }
    }
    buf_clear(&path);
}

/* An inner node is not a leaf: a path that starts one level up has another depth, and the hashes
 * have different first bytes. A position beyond the tree is refused. */
static void bad_paths(void **state)
{
    counted_facts f = facts(4, 4);
    uint8_t root[32];
    sefl_buf path = { 0 };
    (void)state;
    CHECK_OK(counted_root(root, &f));
    path_of(&path, &f, 1);
    CHECK_STATUS(counted_check(root, task, 3, 1, &leaves[1], buf_span(&path)), SEFL_EPROTO);
    CHECK_STATUS(counted_check(root, task, 3, 3, &leaves[1], buf_span(&path)), SEFL_EPROTO);
    store_u32(path.p + path.n - 4, load_u32(path.p + path.n - 4) + 4);
    CHECK_STATUS(counted_check(root, task, 3, 2, &leaves[1], buf_span(&path)), SEFL_EPROTO);
    buf_clear(&path);
}

/* The position of a leaf depends on the seed alone, not on the count; over many seeds every
 * position is equally likely. */
static void count_is_not_told(void **state)
{
    enum { PLACES = 8, SEEDS = 4000 };
    sefl_buf path = { 0 };
    unsigned seen[PLACES] = { 0 };
    seeded g;
    (void)state;
    test_seed(&g, "counted places");
    for (unsigned trial = 0; trial < SEEDS; trial++) {
        uint8_t s[COUNTED_SEED];
        uint32_t first = 0;
        seeded_fill(&g, s, sizeof s);
        for (uint32_t n = 2; n <= PLACES; n += 3) {
            counted_facts f = facts(PLACES, n);
            f.tree_seed = s;
            path_of(&path, &f, 1);
            uint32_t place = load_u32(path.p + path.n - 4);
            if (n == 2)
                first = place, seen[place]++;
            assert_int_equal(place, first);
        }
    }
    for (unsigned k = 0; k < PLACES; k++) { /* 500 expected, deviation 21: six of them */
        if (seen[k] < 374 || seen[k] > 626)
            fail_msg("place %u: %u of %d", k, seen[k], SEEDS);
    }
    buf_clear(&path);
}

static void bad_facts(void **state)
{
    counted_facts f = facts(9, 9);
    uint8_t root[32];
    counted_tree *t = NULL;
    sefl_buf path = { 0 };
    round_entry two[2] = { leaves[4], leaves[4] };
    (void)state;
    f.clients_max = 8;
    CHECK_STATUS(counted_root(root, &f), SEFL_EINVAL);
    CHECK_STATUS(counted_tree_new(&t, &f), SEFL_EINVAL);
    assert_null(t);
    f.clients_max = 0, f.n = 0;
    CHECK_STATUS(counted_root(root, &f), SEFL_EINVAL);
    f.clients_max = (1 << 24) + 1;
    CHECK_STATUS(counted_root(root, &f), SEFL_EINVAL);
    f = facts(9, 9);
    f.leaves = two, f.n = 2;
    CHECK_STATUS(counted_root(root, &f), SEFL_EINVAL); /* twice */
    two[1] = leaves[3];
    CHECK_STATUS(counted_root(root, &f), SEFL_EINVAL); /* descending */
    f = facts(9, 5);
    CHECK_OK(counted_tree_new(&t, &f));
    CHECK_STATUS(counted_tree_path(&path, t, leaves[5].client), SEFL_ENOTFOUND);
    counted_tree_free(t);
    counted_tree_free(NULL);
    assert_int_equal(path.n, 0);
    TEST_FAULTS(FAULT_ALLOC, st = counted_tree_new(&t, &f), counted_tree_free(t));
    TEST_FAULTS(FAULT_ALLOC, st = counted_root(root, &f), (void)0);
}

static void statement(void **state)
{
    uint8_t b[COUNTED_STATEMENT_BYTES + 1] = { 0 };
    counted_statement s = { .round = 7 }, got;
    (void)state;
    memset(s.task, 1, 32), memset(s.root, 2, 32), memset(s.id, 3, 32);
    counted_statement_write(b, &s);
    assert_int_equal(b[32], 7);
    CHECK_OK(counted_statement_read(&got, span_of(b, COUNTED_STATEMENT_BYTES)));
    assert_memory_equal(got.task, s.task, 32);
    assert_int_equal(got.round, 7);
    assert_memory_equal(got.root, s.root, 32);
    assert_memory_equal(got.id, s.id, 32);
    for (size_t n = 0; n < COUNTED_STATEMENT_BYTES; n++)
        CHECK_STATUS(counted_statement_read(&got, span_of(b, n)), SEFL_EPROTO);
    CHECK_STATUS(counted_statement_read(&got, span_of(b, sizeof b)), SEFL_EPROTO);
    b[32] = 0;
    CHECK_STATUS(counted_statement_read(&got, span_of(b, COUNTED_STATEMENT_BYTES)), SEFL_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depths),    cmocka_unit_test(small_trees),
        cmocka_unit_test(bad_paths), cmocka_unit_test(count_is_not_told),
        cmocka_unit_test(bad_facts), cmocka_unit_test(statement),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
