/* Random arrays through a file and back, bit by bit; changed bytes never crash the reader. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "model/file/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 12 };

static void round_trip(void **state)
{
    (void)state;
    seeded g;
    static float values[MOST][4096], back[4096];
    static char names[MOST][32], keys[MOST][32], texts[MOST][32];
    test_seed(&g, "safetensors round trip");
    for (unsigned long trial = test_count(80, 30000); trial > 0; trial--) {
        tensor_out out[MOST] = { 0 };
        tensor_meta meta[MOST];
        size_t n = (size_t)seeded_below(&g, MOST + 1), mn = (size_t)seeded_below(&g, MOST + 1);
        for (size_t i = 0; i < n; i++) {
            uint64_t count = 1;
            snprintf(names[i], sizeof names[i], "l%zu.\"w\xc3\xa9\\%llx", i,
                     (unsigned long long)seeded_u64(&g));
            out[i].name = names[i];
            out[i].rank = (unsigned)seeded_below(&g, 5);
            for (unsigned k = 0; k < out[i].rank; k++)
                count *= out[i].shape[k] = seeded_below(&g, 9);
            seeded_fill(&g, values[i], count * 4); /* NaN and Inf among them */
            out[i].values = values[i];
        }
        for (size_t i = 0; i < mn; i++) {
            snprintf(keys[i], sizeof keys[i], "key%zu", i);
            snprintf(texts[i], sizeof texts[i], "\t%llu\n", (unsigned long long)seeded_u64(&g));
            meta[i] = (tensor_meta){ keys[i], texts[i] };
        }
        const char *path = folder_path("r.safetensors");
        tensors *t = NULL;
        CHECK_OK(tensors_write(path, out, n, meta, mn));
        CHECK_OK(tensors_open(&t, path));
        assert_int_equal(tensors_count(t), n);
        for (size_t i = 0; i < n; i++) {
            const tensor *x = tensors_find(t, names[i]);
            assert_non_null(x);
            assert_int_equal(x->rank, out[i].rank);
            assert_memory_equal(x->shape, out[i].shape, x->rank * sizeof *x->shape);
            CHECK_OK(tensors_read_f32(t, x, back, x->count));
            assert_memory_equal(back, values[i], x->count * 4);
            assert_int_equal((x->begin & 3), 0);
        }
        for (size_t i = 0; i < mn; i++)
            assert_string_equal(tensors_meta(t, keys[i]), texts[i]);
        tensors_close(t);

        sefl_buf b = { 0 };
        CHECK_OK(file_read(&b, path, 1 << 22));
        for (int k = 0; k < 20; k++) { /* one changed byte: refused, or other values or names */
            size_t at = (size_t)seeded_below(&g, b.n);
            uint8_t old = b.p[at];
            b.p[at] ^= (uint8_t)(1 + seeded_below(&g, 255));
            t = NULL;
            if (tensors_over(&t, buf_span(&b), "m") == SEFL_OK)
                for (size_t i = 0; i < tensors_count(t); i++) {
                    const tensor *x = tensors_at(t, i);
                    assert_true(x->count <= 4096);
                    (void)!tensors_read_f32(t, x, back, x->count);
                }
            tensors_close(t);
            b.p[at] = old;
        }
        buf_clear(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(round_trip) };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
