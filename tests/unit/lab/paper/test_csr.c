#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "crypto/ahe/ahe.h"
#include "paper/csr.h"
#include "paper/paper.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the paper's Figure 2: two clients, equal sparsity, different positions ------------------ */

static const float one[9] = { 5, 0, 0, 0, 0, 3, 0, 0, 0 };
static const float two[9] = { 0, 0, 4, 0, 0, 0, 0, 1, 0 };

static void supports(void **state)
{
    (void)state;
    float scratch[9];
    uint8_t mask[9], all[9] = { 0 };
    assert_int_equal(csr_support(mask, one, 9, 2, scratch), 2);
    assert_memory_equal(mask, ((uint8_t[]){ 1, 0, 0, 0, 0, 1, 0, 0, 0 }), 9);
    assert_int_equal(csr_union(all, mask, 9), 2);
    assert_int_equal(csr_support(mask, one, 9, 1, scratch), 1);
    assert_memory_equal(mask, ((uint8_t[]){ 1, 0, 0, 0, 0, 0, 0, 0, 0 }), 9);
    assert_true(fabs(csr_energy(one, mask, 9) - 25.0 / 34) < 1e-15);
    assert_int_equal(csr_support(mask, two, 9, 5, scratch), 2); /* zeros are never kept */
    assert_true(csr_energy(two, mask, 9) == 1);
    assert_int_equal(csr_union(all, mask, 9), 4);
    assert_int_equal(csr_support(mask, two, 9, 0, scratch), 0);
    const float equal[4] = { -1, 1, -1, 1 }; /* the lower index goes first */
    assert_int_equal(csr_support(mask, equal, 4, 3, scratch), 3);
    assert_memory_equal(mask, ((uint8_t[]){ 1, 1, 1, 0 }), 4);
}

/* Encrypts `n` numbers of each of two clients, adds, decrypts. */
static void add_encrypted(int64_t *out, const int64_t *a, const int64_t *b, size_t n)
{
    const int64_t *const in[2] = { a, b };
    static const uint8_t mask_seed[AHE_SEED_BYTES] = { 7 };
    sefl_rng rng = rng_system();
    pack p;
    ahe_params ahe;
    ahe_enc *enc;
    ahe_sum *sum;
    ahe_dec *dec;
    CHECK_OK(pack_init(&p, &(pack_config){ .scheme = PACK_PAD,
                                           .clients = 2,
                                           .dimension = n,
                                           .clip = 10 * PACK_ONE,
                                           .fraction_bits = 8 }));
    CHECK_OK(ahe_params_init(&ahe, &ahe_pad, &p, NULL, n));
    CHECK_OK(ahe_enc_new(&enc, NULL, &ahe, NULL, NULL));
    CHECK_OK(ahe_sum_new(&sum, &ahe, NULL));
    CHECK_OK(ahe_dec_new(&dec, &ahe, NULL, (uint8_t[AHE_CONTEXT_BYTES]){ 0 }));
    uint8_t *body = calloc(1, ahe_body_bytes(&ahe));
    uint8_t *plain = calloc(ahe.units, ahe.plain_bytes), *mask = calloc(ahe.units, ahe.plain_bytes);
    int64_t *wide = calloc(ahe.units * ahe.unit_values, sizeof *wide);
    for (uint8_t i = 0; i < 2; i++) {
        const uint8_t context[AHE_CONTEXT_BYTES] = { 1, i };
        ahe_upload *up;
        ahe_seed seed;
        memcpy(wide, in[i], n * sizeof *wide);
        CHECK_OK(ahe_upload_new(&up, &ahe, enc, context, &rng));
        CHECK_OK(ahe_upload_units(&ahe, up, body, wide, ahe.units, NULL, NULL));
        ahe_upload_seed(&ahe, up, &seed);
        CHECK_OK(ahe_sum_begin(&ahe, sum));
        CHECK_OK(ahe_sum_add_units(&ahe, sum, 0, body, ahe.units, NULL));
        CHECK_OK(ahe_dec_add(&ahe, dec, &seed, 1, NULL));
        ahe_upload_free(&ahe, up);
    }
    CHECK_OK(ahe_sum_close(&ahe, sum));
    CHECK_OK(ahe_sum_write_units(&ahe, sum, body, 0, ahe.units, mask_seed, NULL));
    CHECK_OK(ahe_dec_units(&ahe, dec, plain, 0, body, ahe.units, NULL, NULL));
    CHECK_OK(ahe_mask_units(&ahe, mask, 0, ahe.units, mask_seed));
    ahe_plain_unmask(&ahe, wide, plain, mask, ahe.units);
    memcpy(out, wide, n * sizeof *out);
    free(body), free(plain), free(mask), free(wide);
    ahe_enc_free(&ahe, enc), ahe_sum_free(&ahe, sum), ahe_dec_free(&ahe, dec);
}

/* Additive encryption adds the CSR values slot by slot. The result, read with either client's
 * indices, is not the sum of the updates; the same addition of block-Hankel values is. */
static void blind_sum(void **state)
{
    (void)state;
    float scratch[9];
    uint8_t mask[9];
    csr_blind b;
    int64_t sum[5];
    CHECK_OK(csr_blind_init(&b, 9, 2));
    csr_support(mask, one, 9, 2, scratch);
    csr_blind_add(&b, one, mask);
    assert_true(csr_blind_error(&b) == 0); /* one client alone is right */
    csr_support(mask, two, 9, 2, scratch);
    csr_blind_add(&b, two, mask);
    add_encrypted(sum, (int64_t[]){ 5, 3 }, (int64_t[]){ 4, 1 }, 2);
    assert_true(b.by_rank[0] == (double)sum[0] && b.by_rank[1] == (double)sum[1]);
    assert_int_equal(sum[0], 9);
    assert_int_equal(sum[1], 4);
    /* read as { 9 at 0, 4 at 5 }; right: { 5 at 0, 4 at 2, 3 at 5, 1 at 7 } */
    assert_true(fabs(csr_blind_error(&b) - sqrt((16.0 + 16 + 1 + 1) / (25 + 16 + 9 + 1))) < 1e-15);
    csr_blind_clear(&b);
    /* two 3 x 3 Hankel updates, five values each: the sum's expansion is the sum of expansions */
    const bhm s = { .rows = 3, .cols = 3, .block = 3 };
    const nn_real v[2][5] = { { 1, 2, 3, 4, 5 }, { -2, 0, 7, 1, 1 } };
    nn_real dense[2][9], both[9], values[5];
    add_encrypted(sum, (int64_t[]){ 1, 2, 3, 4, 5 }, (int64_t[]){ -2, 0, 7, 1, 1 }, 5);
    for (int i = 0; i < 5; i++)
        values[i] = (nn_real)sum[i];
    bhm_expand(s, both, 3, values, 0, 3);
    for (int i = 0; i < 2; i++)
        bhm_expand(s, dense[i], 3, v[i], 0, 3);
    for (int i = 0; i < 9; i++)
        assert_true(both[i] == dense[0][i] + dense[1][i]);
}

static int descending(const void *a, const void *b)
{
    const float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return (x < y) - (x > y);
}

/* Compares with a full sort, with many equal magnitudes. */
static void supports_random(void **state)
{
    (void)state;
    seeded gen;
    enum { MOST = 300 };
    float u[MOST], sorted[MOST], scratch[MOST];
    uint8_t mask[MOST];
    test_seed(&gen, "supports");
    for (int trial = 0; trial < 2000; trial++) {
        const size_t n = 1 + seeded_below(&gen, MOST), k = seeded_below(&gen, n + 1);
        const uint64_t kinds = 1 + seeded_below(&gen, 40);
        size_t nonzero = 0, kept = 0;
        for (size_t i = 0; i < n; i++) {
            u[i] = (float)seeded_below(&gen, kinds) * (seeded_below(&gen, 2) ? 1.f : -1.f);
            nonzero += u[i] != 0;
        }
        memcpy(sorted, u, n * sizeof *u);
        qsort(sorted, n, sizeof *sorted, descending);
        const size_t want = k < nonzero ? k : nonzero;
        assert_int_equal(csr_support(mask, u, n, k, scratch), want);
        double got = 0, best = 0;
        for (size_t i = 0; i < n; i++) {
            kept += mask[i];
            got += mask[i] ? fabs((double)u[i]) : 0;
            best += i < want ? fabs((double)sorted[i]) : 0;
            assert_true(!mask[i] || u[i] != 0);
        }
        assert_int_equal(kept, want);
        assert_true(got == best);
    }
}

static void sizes(void **state)
{
    (void)state;
    layout l = { 0 };
    uint8_t mask[905] = { 0 };
    double bytes;
    CHECK_OK(layout_parse(&l, "m=3x300, v=5", 1));
    assert_int_equal(csr_index_bytes(mask, &l), 4 * 4 + 4 * 2);
    mask[0] = mask[899] = mask[902] = 1; /* two columns of 2 bytes, one of 1 byte */
    assert_int_equal(csr_index_bytes(mask, &l), 4 * 4 + 4 * 2 + 2 * 2 + 1);
    layout_clear(&l);
    assert_true(fabs(csr_support_bits(4, 2) - log2(6)) < 1e-12);
    assert_true(fabs(csr_support_bits(5, 0)) < 1e-12);
    assert_true(fabs(csr_random_union(100, 10, 2) - 0.19) < 1e-12);
    CHECK_OK(csr_pad_bytes(&bytes, 945510, 3000));
    assert_true(bytes >= 3.5 * 945510 && bytes < 3.5 * (945510 + 4096));
    CHECK_OK(csr_paillier_bytes(&bytes, 945510, 3000, 3072)); /* 106 numbers in a ciphertext */
    assert_true(bytes == 768.0 * 8920);
    assert_true(csr_paillier_single_bytes(3, 3072) == 2304);
    CHECK_STATUS(csr_pad_bytes(&bytes, 0, 10), SEFL_EINVAL);
}

/* ---- the measurement at small scale ---------------------------------------------------------- */

static void figure(void **state)
{
    (void)state;
    char results[PATH_MAX];
    snprintf(results, sizeof results, "%s", folder_path("results"));
    paper_options o = {
        .quick = true, .results = results, .version = "1", .commit = "abc", .threads = 2
    };
    sefl_buf csv = { 0 };
    char path[PATH_MAX];
    CHECK_OK(paper_open(&o));
    CHECK_OK(paper_csr_draw(&o)); /* nothing is there: nothing is written */
    CHECK_OK(paper_path(path, &o, "csr.csv"));
    assert_false(file_exists(path));
    CHECK_OK(paper_alone(&o, "csr", paper_csr));
    CHECK_OK(paper_alone(&o, "csr", paper_csr)); /* nothing is left to do */
    CHECK_OK(paper_csr_draw(&o));
    CHECK_OK(file_read(&csv, path, 100000));
    CHECK_OK(wr_u8(&csv, 0));
    char *text = (char *)csv.p, *line = strstr(text, "quick,csr-hidden");
    double error, energy, positions, bits, seen, words;
    assert_non_null(line);
    assert_int_equal(sscanf(line,
                            "quick,csr-hidden,%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%lf",
                            &error),
                     1);
    assert_true(error > 0.2); /* the sum is useless */
    line = strstr(text, "quick,csr-clear");
    assert_non_null(line);
    assert_int_equal(
        sscanf(line,
               "quick,csr-clear,%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%lf,%lf,%lf,"
               "%lf,%lf,%lf",
               &error, &energy, &positions, &bits, &seen, &words),
        6);
    assert_true(error == 0 && energy > 0.5 && energy <= 1 && positions > 0 && bits > positions);
    assert_true(seen > 0 && seen <= words); /* only words of the text are seen */
    buf_clear(&csv);
    CHECK_OK(paper_path(path, &o, "csr.svg"));
    assert_true(file_exists(path));
    o.data = "/nonexistent";
    o.results = folder_path("other");
    CHECK_OK(paper_open(&o));
    CHECK_STATUS(paper_csr(&o), SEFL_ENOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(supports), cmocka_unit_test(supports_random), cmocka_unit_test(blind_sum),
        cmocka_unit_test(sizes),    cmocka_unit_test(figure),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
