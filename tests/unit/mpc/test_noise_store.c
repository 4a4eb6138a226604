#include "support/check.h"

#include "mpc/noise/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 10000, RECORDS = 9 };

static sefl_status round_trip(const char *dir)
{
    sefl_status st = SEFL_OK;
    noise_store *s = NULL;
    uint8_t in[BYTES], out[BYTES];
    seeded g, again;
    seeded_init(&g, 1, "store");
    sefl_rng rng = seeded_rng(&g);
    SEFL_TRY(noise_store_new(&s, BYTES, RECORDS, dir, &rng));
    seeded_init(&g, 2, "records");
    seeded_init(&again, 2, "records");
    for (size_t i = 0; i < RECORDS; i++) {
        size_t n = i == RECORDS - 1 ? 17 : BYTES; /* the last one may be shorter */
        seeded_fill(&g, in, n);
        SEFL_TRY(noise_store_put(s, in, n));
    }
    CHECK_STATUS(noise_store_put(s, in, 1), SEFL_ESTATE);
    CHECK_STATUS(noise_store_take(s, out, BYTES - 1), SEFL_ESTATE);
    for (size_t i = 0; i < RECORDS; i++) {
        size_t n = i == RECORDS - 1 ? 17 : BYTES;
        seeded_fill(&again, in, n);
        SEFL_TRY(noise_store_take(s, out, n));
        assert_memory_equal(in, out, n);
    }
    CHECK_STATUS(noise_store_take(s, out, 17), SEFL_ESTATE); /* nothing is there twice */
done:
    noise_store_free(s);
    return st;
}

static void gives_back_once_and_in_order(void **state)
{
    (void)state;
    CHECK_OK(round_trip(NULL));
    CHECK_OK(round_trip("/tmp"));
    TEST_FAULTS(FAULT_ALLOC, st = round_trip(NULL), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = round_trip("/tmp"), (void)0);
    TEST_FAULTS(FAULT_WRITE, st = round_trip("/tmp"), (void)0);
    TEST_FAULTS(FAULT_READ, st = round_trip("/tmp"), (void)0);
}

/* The file has no name and does not hold the record in clear. */
static void the_disk_sees_noise_only(void **state)
{
    (void)state;
    noise_store *s;
    uint8_t in[BYTES];
    char dir[] = "/tmp/sefl-store-XXXXXX", line[300];
    sefl_rng rng = rng_system();
    assert_non_null(mkdtemp(dir));
    memset(in, 'S', sizeof in);
    CHECK_OK(noise_store_new(&s, BYTES, 2, dir, &rng));
    CHECK_OK(noise_store_put(s, in, BYTES));
    snprintf(line, sizeof line, "test -z \"$(ls -A %s)\"", dir);
    assert_int_equal(system(line), 0);
    for (int fd = 3; fd < 64; fd++) { /* our own descriptors: find the file and read it */
        char path[64];
        struct stat info;
        uint8_t raw[BYTES];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != BYTES)
            continue;
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        assert_int_equal(fread(raw, 1, BYTES, f), BYTES);
        fclose(f);
        size_t same = 0;
        for (size_t i = 0; i < BYTES; i++)
            same += raw[i] == 'S';
        assert_true(same < BYTES / 64);
        noise_store_free(s);
        snprintf(line, sizeof line, "rmdir %s", dir);
        assert_int_equal(system(line), 0);
        return;
    }
    fail_msg("the store's file was not found");
}

/* One bit on the disk, anywhere in a record: found, and nothing is given. */
static void changed_records_are_found(void **state)
{
    (void)state;
    sefl_rng rng = rng_system();
    static const size_t at[] = { 0, 4095, 4096, BYTES - 1 };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        for (unsigned swap = 0; swap < 2; swap++) {
            noise_store *s;
            uint8_t in[BYTES], out[BYTES], key[2][SHA256_BYTES], raw[2][BYTES];
            memset(in, 7, sizeof in);
            memset(out, 0x5a, sizeof out);
            CHECK_OK(noise_store_new(&s, BYTES, 2, "/tmp", &rng));
            CHECK_OK(noise_store_put(s, in, BYTES));
            CHECK_OK(noise_store_put(s, in, BYTES));
            int fd = noise_store_peek(s, key[0], key[1]);
            for (int r = 0; r < 2; r++)
                assert_int_equal(pread(fd, raw[r], BYTES, r * BYTES), BYTES);
            if (swap) { /* whole records change places */
                assert_int_equal(pwrite(fd, raw[1], BYTES, 0), BYTES);
            } else {
                uint8_t byte = raw[0][at[i]] ^ 1;
                assert_int_equal(pwrite(fd, &byte, 1, (off_t)at[i]), 1);
            }
            CHECK_STATUS(noise_store_take(s, out, BYTES), SEFL_ECRYPTO);
            for (size_t j = 0; j < BYTES; j++)
                assert_int_equal(out[j], 0x5a);
            noise_store_free(s);
        }
}

/* Equal records look different, and the key of a taken record is gone. */
static void keys_move_forward(void **state)
{
    (void)state;
    noise_store *s;
    sefl_rng rng = rng_system();
    uint8_t in[BYTES] = { 0 }, out[BYTES], raw[2][BYTES], put[SHA256_BYTES];
    uint8_t take[4][SHA256_BYTES];
    CHECK_OK(noise_store_new(&s, BYTES, 3, "/tmp", &rng));
    for (int i = 0; i < 3; i++) {
        uint8_t before[SHA256_BYTES];
        noise_store_peek(s, before, take[0]);
        CHECK_OK(noise_store_put(s, in, BYTES));
        noise_store_peek(s, put, take[0]);
        assert_memory_not_equal(before, put, SHA256_BYTES);
    }
    int fd = noise_store_peek(s, put, take[0]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pread(fd, raw[i], BYTES, i * BYTES), BYTES);
    size_t same = 0;
    for (size_t i = 0; i < BYTES; i++)
        same += raw[0][i] == raw[1][i];
    assert_true(same < BYTES / 128);
    for (int i = 1; i < 4; i++) {
        CHECK_OK(noise_store_take(s, out, BYTES));
        noise_store_peek(s, put, take[i]);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(take[j], take[i], SHA256_BYTES);
    }
    assert_memory_equal(put, take[3], SHA256_BYTES); /* both at the end of the same chain */
    noise_store_free(s);
}

static void no_folder_is_an_error(void **state)
{
    (void)state;
    noise_store *s;
    sefl_rng rng = rng_system();
    CHECK_STATUS(noise_store_new(&s, 10, 1, "/nonexistent/folder", &rng), SEFL_EIO);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_back_once_and_in_order), cmocka_unit_test(the_disk_sees_noise_only),
        cmocka_unit_test(changed_records_are_found),    cmocka_unit_test(keys_move_forward),
        cmocka_unit_test(no_folder_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
