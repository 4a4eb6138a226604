/* Known answers of head, counted and voucher: sealed.h, made by make_sealed.py. */
#include "support/check.h"

#include "protocol/counted.h"
#include "protocol/head.h"
#include "protocol/voucher.h"

#include <stdlib.h>
#include <string.h>

#include "vectors/core/protocol/sealed.h"

static size_t unhex(uint8_t *out, const char *hex)
{
    size_t n = 0;
    for (; hex[0] && hex[1]; hex += 2, n++) {
        unsigned v;
        assert_int_equal(sscanf(hex, "%2x", &v), 1);
        out[n] = (uint8_t)v;
    }
    return n;
}

static void same(const uint8_t got[32], const char *want)
{
    uint8_t w[32];
    assert_int_equal(unhex(w, want), 32);
    assert_memory_equal(got, w, 32);
}

static void trees(void **state)
{
    uint8_t task[32], seed[COUNTED_SEED], root[32], digest[32];
    round_entry *leaves = calloc(700, sizeof *leaves);
    (void)state;
    assert_non_null(leaves);
    memset(task, 0x11, sizeof task);
    for (unsigned i = 0; i < sizeof seed; i++)
        seed[i] = (uint8_t)i;
    for (unsigned i = 0; i < 700; i++) {
        leaves[i].client[30] = (uint8_t)((i + 1) >> 8);
        leaves[i].client[31] = (uint8_t)(i + 1);
        sha256_of(leaves[i].body, span_of(leaves[i].client, 32));
    }
    for (size_t i = 0; i < sizeof counted_known / sizeof counted_known[0]; i++) {
        counted_facts f = { .task = task,
                            .round = 7,
                            .tree_seed = seed,
                            .clients_max = counted_known[i].clients_max,
                            .leaves = leaves,
                            .n = counted_known[i].n };
        counted_tree *t = NULL;
        sefl_buf all = { 0 };
        CHECK_OK(counted_root(root, &f));
        same(root, counted_known[i].root);
        CHECK_OK(counted_tree_new(&t, &f));
        same(counted_tree_root(t), counted_known[i].root);
        for (uint32_t k = 0; k < f.n; k++)
            CHECK_OK(counted_tree_path(&all, t, leaves[k].client));
        sha256_of(digest, buf_span(&all));
        same(digest, counted_known[i].paths);
        counted_tree_free(t);
        buf_clear(&all);
    }
    free(leaves);
}

static void one_head(void **state)
{
    const seal_suite *s = seal_suite_named("x25519");
    uint8_t bytes[HEAD_MAX], task[32], seed[32], of[32];
    sign_key *upload = NULL;
    seal_key *csp = NULL;
    head h;
    (void)state;
    size_t n = unhex(bytes, head_known);
    memset(task, 0x11, sizeof task);
    memset(seed, 0x55, sizeof seed);
    CHECK_OK(sign_key_from(&upload, seed));
    memset(seed, 0x42, sizeof seed);
    CHECK_OK(seal_key_from(&csp, s, seed));
    assert_int_equal(n, 216);
    CHECK_OK(head_read(&h, s, span_of(bytes, n)));
    memset(of, 0xc1, sizeof of);
    assert_memory_equal(h.client, of, 32);
    memset(of, 0xb3, sizeof of);
    assert_memory_equal(h.units, of, 32);
    CHECK_OK(head_check(&h, task, 9, sign_key_pub(upload)));
    CHECK_OK(head_open(seed, &h, csp, task, 9));
    same(seed, head_known_seed);
    sign_key_free(upload);
    seal_key_free(csp);
}

static void vouchers(void **state)
{
    static const struct {
        const char *hex;
        size_t spki, signature, chain; /* 0: not always the same */
    } known[] = { { voucher_ed25519, 44, 64, 5 },    { voucher_p256, 91, 0, 0 },
                  { voucher_p384, 120, 0, 0 },       { voucher_rsa, 294, 256, 0 },
                  { voucher_rsa_1024, 162, 128, 0 }, { voucher_p192, 75, 0, 0 },
                  { voucher_sha1, 294, 256, 0 } };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint8_t bytes[4096];
        sefl_buf b = { 0 };
        voucher v;
        size_t n = unhex(bytes, known[i].hex);
        CHECK_OK(voucher_read(&v, span_of(bytes, n)));
        assert_int_equal(v.spki.n, known[i].spki);
        if (known[i].signature)
            assert_int_equal(v.signature.n, known[i].signature);
        assert_int_equal(v.chain.n, known[i].chain);
        assert_int_equal(v.serial, 5);
        CHECK_OK(voucher_write(&b, &v));
        assert_int_equal(b.n, n);
        assert_memory_equal(b.p, bytes, n);
        buf_clear(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees),
        cmocka_unit_test(one_head),
        cmocka_unit_test(vouchers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
