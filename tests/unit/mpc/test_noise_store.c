#include "support/check.h"

#include "mpc/noise/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
        cmocka_unit_test(gives_back_once_and_in_order),
        cmocka_unit_test(the_disk_sees_noise_only),
        cmocka_unit_test(no_folder_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
