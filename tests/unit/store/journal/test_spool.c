#include "support/check.h"
#include "support/folder.h"

#include "base/buf.h"
#include "base/file.h"
#include "store/journal/spool.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TOTAL = 300000 };
static uint8_t body[TOTAL], hash[SHA256_BYTES];

static int setup(void **state)
{
    seeded g;
    test_seed(&g, "spool");
    sefl_rng rng = seeded_rng(&g);
    if (rng_fill(&rng, body, sizeof body) != SEFL_OK)
        return -1;
    sha256_of(hash, span_of(body, TOTAL));
    return folder_make(state);
}

static const char *named(const char *folder, const char *tail)
{
    static char path[4][400];
    static unsigned next;
    char *out = path[next++ % 4];
    int n = snprintf(out, sizeof path[0], "%s/", folder);
    for (int i = 0; i < SHA256_BYTES; i++)
        n += snprintf(out + n, sizeof path[0] - (size_t)n, "%02x", hash[i]);
    snprintf(out + n, sizeof path[0] - (size_t)n, "%s", tail);
    return out;
}

static sefl_span piece(size_t from, size_t to)
{
    return span_of(body + from, to - from);
}

static void check_whole(const char *folder)
{
    sefl_buf b = { 0 };
    CHECK_OK(file_read(&b, named(folder, ""), TOTAL));
    assert_int_equal(b.n, TOTAL);
    assert_memory_equal(b.p, body, TOTAL);
    buf_clear(&b);
    assert_false(file_exists(named(folder, ".part")));
}

static void in_pieces(void **state)
{
    (void)state;
    char f[256];
    snprintf(f, sizeof f, "%s", folder_path("pieces"));
    spool *s, *t;
    assert_int_equal(spool_have(f, hash, TOTAL), 0);
    CHECK_OK(spool_open(&s, f, CONTENT_SHA256, hash, TOTAL));
    assert_int_equal(spool_offset(s), 0);
    CHECK_OK(spool_write(s, piece(0, 1000)));
    CHECK_OK(spool_write(s, span_of(NULL, 0)));
    CHECK_STATUS(spool_finish(s), SEFL_ESTATE);
    CHECK_STATUS(spool_open(&t, f, CONTENT_SHA256, hash, TOTAL),
                 SEFL_ESTATE); /* on another connection */
    CHECK_OK(spool_write(s, piece(1000, 100000)));
    spool_close(s);
    assert_int_equal(spool_have(f, hash, TOTAL), 100000);

    CHECK_OK(spool_open(&s, f, CONTENT_SHA256, hash, TOTAL)); /* goes on */
    assert_int_equal(spool_offset(s), 100000);
    CHECK_STATUS(spool_write(s, piece(0, TOTAL)), SEFL_EPROTO);
    CHECK_OK(spool_write(s, piece(100000, TOTAL)));
    CHECK_STATUS(spool_write(s, piece(0, 1)), SEFL_EPROTO);
    assert_true(file_exists(named(f, ".part")) && !file_exists(named(f, "")));
    CHECK_OK(spool_finish(s));
    CHECK_OK(spool_finish(s));
    spool_close(s);
    check_whole(f);
    assert_int_equal(spool_have(f, hash, TOTAL), TOTAL);

    CHECK_OK(spool_open(&s, f, CONTENT_SHA256, hash, TOTAL)); /* the same again: nothing to do */
    assert_int_equal(spool_offset(s), TOTAL);
    CHECK_OK(spool_finish(s));
    spool_close(s);
    CHECK_STATUS(spool_open(&s, f, CONTENT_SHA256, hash, TOTAL - 1), SEFL_EINVAL);
    assert_null(s);
    spool_close(NULL);
}

/* The same bytes by either name have one content; a name holds for the kind of hash that is said. */
static void by_either_name(void **state)
{
    (void)state;
    char f[256];
    uint8_t names[2][CONTENT_BYTES], content[CONTENT_BYTES];
    spool *s;
    snprintf(f, sizeof f, "%s", folder_path("names"));
    memcpy(names[CONTENT_SHA256], hash, sizeof hash);
    blake3_of(names[CONTENT_BLAKE3], span_of(body, TOTAL));
    for (unsigned again = 0; again < 2; again++) /* written, then found there */
        for (unsigned k = 0; k < 2; k++) {
            CHECK_OK(spool_open(&s, f, (content_kind)k, names[k], TOTAL));
            assert_int_equal(spool_offset(s), again ? TOTAL : 0);
            if (!again) { /* in two parts: the second opening reads the first */
                CHECK_OK(spool_write(s, piece(0, 70001)));
                spool_close(s);
                CHECK_OK(spool_open(&s, f, (content_kind)k, names[k], TOTAL));
                assert_int_equal(spool_offset(s), 70001);
                CHECK_OK(spool_write(s, piece(70001, TOTAL)));
            }
            CHECK_OK(spool_finish(s));
            spool_content(s, content);
            spool_close(s);
            assert_memory_equal(content, names[CONTENT_BLAKE3], CONTENT_BYTES);
            assert_int_equal(spool_have(f, names[k], TOTAL), TOTAL);
        }
    for (unsigned k = 0; k < 2; k++) { /* complete, but not by this kind of hash */
        CHECK_STATUS(spool_open(&s, f, (content_kind)!k, names[k], TOTAL), SEFL_EAUTH);
        assert_null(s);
        assert_int_equal(spool_have(f, names[k], TOTAL), 0);
    }
    CHECK_OK(spool_open(&s, f, CONTENT_BLAKE3, names[CONTENT_SHA256], TOTAL));
    CHECK_OK(spool_write(s, piece(0, TOTAL)));
    CHECK_STATUS(spool_finish(s), SEFL_EAUTH);
    spool_close(s);
}

static void wrong_bytes(void **state)
{
    (void)state;
    char f[256];
    snprintf(f, sizeof f, "%s", folder_path("wrong"));
    spool *s;
    body[TOTAL / 2] ^= 1;
    CHECK_OK(spool_open(&s, f, CONTENT_SHA256, hash, TOTAL));
    CHECK_OK(spool_write(s, piece(0, TOTAL)));
    body[TOTAL / 2] ^= 1;
    CHECK_STATUS(spool_finish(s), SEFL_EAUTH);
    CHECK_STATUS(spool_finish(s), SEFL_ESTATE);
    CHECK_STATUS(spool_write(s, piece(0, 1)), SEFL_ESTATE);
    spool_close(s);
    assert_false(file_exists(named(f, "")) || file_exists(named(f, ".part")));

    /* a part that was changed on the disk, and one that is too long */
    for (int i = 0; i < 2; i++) {
        CHECK_OK(spool_open(&s, f, CONTENT_SHA256, hash, TOTAL));
        CHECK_OK(spool_write(s, piece(0, 5000)));
        spool_close(s);
        int fd = open(named(f, ".part"), O_WRONLY);
        if (i == 0)
            assert_int_equal(pwrite(fd, "x", 1, 4000), 1);
        else
            assert_int_equal(ftruncate(fd, TOTAL + 1), 0);
        close(fd);
        CHECK_OK(spool_open(&s, f, CONTENT_SHA256, hash, TOTAL));
        assert_int_equal(spool_offset(s), i == 0 ? 5000 : 0);
        CHECK_OK(spool_write(s, piece(spool_offset(s), TOTAL)));
        CHECK_STATUS(spool_finish(s), i == 0 ? SEFL_EAUTH : SEFL_OK);
        spool_close(s);
    }
    check_whole(f);
}

static void empty_body(void **state)
{
    (void)state;
    uint8_t h[SHA256_BYTES];
    spool *s;
    sha256_of(h, span_of(NULL, 0));
    CHECK_OK(spool_open(&s, folder_path("empty"), CONTENT_SHA256, h, 0));
    CHECK_OK(spool_finish(s));
    spool_close(s);
}

static void sweep(void **state)
{
    (void)state;
    char f[256];
    snprintf(f, sizeof f, "%s", folder_path("sweep"));
    size_t parts = 9;
    uint64_t bytes = 9;
    CHECK_OK(spool_sweep(f, 0, &parts, &bytes)); /* no folder yet */
    assert_true(parts == 0 && bytes == 0);
    spool *s, *busy;
    uint8_t h[SHA256_BYTES];
    for (uint8_t i = 0; i < 5; i++) {
        memset(h, i, sizeof h);
        CHECK_OK(spool_open(&s, f, CONTENT_SHA256, h, TOTAL));
        CHECK_OK(spool_write(s, piece(0, 100)));
        spool_close(s);
    }
    CHECK_OK(spool_open(&s, f, CONTENT_SHA256, hash, TOTAL));
    CHECK_OK(spool_write(s, piece(0, TOTAL)));
    CHECK_OK(spool_finish(s));
    spool_close(s);
    CHECK_OK(spool_sweep(f, 1000, &parts, &bytes));
    assert_true(parts == 5 && bytes == 500);
    memset(h, 1, sizeof h);
    CHECK_OK(spool_open(&busy, f, CONTENT_SHA256, h, TOTAL));
    CHECK_OK(spool_sweep(f, 0, &parts, &bytes)); /* one is being written */
    assert_true(parts == 1 && bytes == 100);
    assert_int_equal(spool_offset(busy), 100);
    spool_close(busy);
    CHECK_OK(spool_sweep(f, 0, &parts, &bytes));
    assert_true(parts == 0 && bytes == 0);
    check_whole(f);
}

/* A disk that takes no more: a file size limit gives EFBIG, the fault hook ENOSPC. */
static void full(void **state)
{
    (void)state;
    char f[256];
    snprintf(f, sizeof f, "%s", folder_path("full"));
    spool *s;
    struct rlimit old, small = { 150000, 0 };
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    CHECK_OK(spool_open(&s, f, CONTENT_SHA256, hash, TOTAL));
    CHECK_OK(spool_write(s, piece(0, 100000)));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_STATUS(spool_write(s, piece(100000, TOTAL)), SEFL_EIO); /* half of it fits */
    assert_int_equal(spool_have(f, hash, TOTAL), 100000);
    CHECK_STATUS(spool_write(s, piece(100000, TOTAL)), SEFL_EIO);
    CHECK_OK(spool_write(s, piece(100000, 150000))); /* what fits goes on */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    CHECK_OK(spool_write(s, piece(150000, 200000)));
#if SEFL_FAULTS
    fault_arm(FAULT_WRITE, 1);
    CHECK_STATUS(spool_write(s, piece(200000, TOTAL)), SEFL_EIO);
    assert_non_null(strstr(sefl_last_error(), "No space left"));
    fault_disarm();
#endif
    CHECK_OK(spool_write(s, piece(200000, TOTAL)));
    CHECK_OK(spool_finish(s));
    spool_close(s);
    check_whole(f);
}

static sefl_status everything(const char *f)
{
    sefl_status st = SEFL_OK;
    spool *s = NULL;
    SEFL_TRY(spool_open(&s, f, CONTENT_SHA256, hash, TOTAL));
    uint64_t from = spool_offset(s);
    for (uint64_t to; from < TOTAL; from = to) {
        to = from + 70000 < TOTAL ? from + 70000 : TOTAL;
        SEFL_TRY(spool_write(s, piece(from, to)));
    }
    SEFL_TRY(spool_finish(s));
done:
    spool_close(s);
    return st;
}

static void faults(void **state)
{
    (void)state;
    char f[256];
    snprintf(f, sizeof f, "%s", folder_path("faults"));
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC, FAULT_READ };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        unlink(named(f, ""));
        unlink(named(f, ".part"));
        if (kinds[i] == FAULT_READ) { /* something to read again */
            spool *s;
            CHECK_OK(spool_open(&s, f, CONTENT_SHA256, hash, TOTAL));
            CHECK_OK(spool_write(s, piece(0, 140000)));
            spool_close(s);
        }
        TEST_FAULTS(kinds[i], st = everything(f), (void)0);
        CHECK_OK(everything(f));
        check_whole(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_pieces),   cmocka_unit_test(by_either_name),
        cmocka_unit_test(wrong_bytes), cmocka_unit_test(empty_body),
        cmocka_unit_test(sweep),       cmocka_unit_test(full),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, setup, folder_remove);
}
