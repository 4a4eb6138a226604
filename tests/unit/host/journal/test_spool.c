#define _GNU_SOURCE
#include "support/check.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "store/journal/spool.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
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
    update_name_of(hash, span_of(body, TOTAL));
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
    CHECK_OK(spool_open(&s, f, hash, 0, TOTAL, NULL));
    assert_int_equal(spool_offset(s), 0);
    CHECK_OK(spool_write(s, piece(0, 1000)));
    CHECK_OK(spool_write(s, span_of(NULL, 0)));
    CHECK_STATUS(spool_finish(s), SEFL_ESTATE);
    CHECK_STATUS(spool_open(&t, f, hash, 0, TOTAL, NULL), SEFL_ESTATE); /* on another connection */
    CHECK_OK(spool_write(s, piece(1000, 100000)));
    spool_close(s);
    assert_int_equal(spool_have(f, hash, TOTAL), 100000);

    CHECK_OK(spool_open(&s, f, hash, 0, TOTAL, NULL)); /* continues */
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

    CHECK_OK(spool_open(&s, f, hash, 0, TOTAL, NULL)); /* the same again: nothing to do */
    assert_int_equal(spool_offset(s), TOTAL);
    CHECK_OK(spool_finish(s));
    spool_close(s);
    CHECK_STATUS(spool_open(&s, f, hash, 0, TOTAL - 1, NULL), SEFL_EINVAL);
    assert_null(s);
    spool_close(NULL);
}

/* The hash excludes the head, for any pieces and any point of interruption. */
static void a_head_in_front(void **state)
{
    (void)state;
    static const size_t skips[] = { 1, 72, 216, 1304, 70001, TOTAL - 1, TOTAL };
    char f[256];
    uint8_t name[BLAKE3_BYTES];
    spool *s;
    for (size_t i = 0; i < sizeof skips / sizeof *skips; i++) {
        size_t skip = skips[i];
        snprintf(f, sizeof f, "%s", folder_path("heads"));
        update_name_of(name, span_of(body + skip, TOTAL - skip));
        CHECK_OK(spool_open(&s, f, name, skip, TOTAL, NULL));
        CHECK_OK(spool_write(s, piece(0, 50)));
        CHECK_OK(spool_write(s, piece(50, 70001)));
        spool_close(s); /* in two parts: the second opening reads the first */
        CHECK_OK(spool_open(&s, f, name, skip, TOTAL, NULL));
        assert_int_equal(spool_offset(s), 70001);
        CHECK_OK(spool_write(s, piece(70001, TOTAL)));
        CHECK_OK(spool_finish(s));
        spool_close(s);
        CHECK_OK(spool_open(&s, f, name, skip, TOTAL, NULL)); /* found there */
        assert_int_equal(spool_offset(s), TOTAL);
        spool_close(s);
        if (skip < TOTAL) { /* the same bytes with another head's length are not these */
            CHECK_STATUS(spool_open(&s, f, name, skip - 1, TOTAL, NULL), SEFL_EAUTH);
            assert_null(s);
            assert_int_equal(spool_have(f, name, TOTAL), 0);
        }
    }
}

static void wrong_bytes(void **state)
{
    (void)state;
    char f[256];
    snprintf(f, sizeof f, "%s", folder_path("wrong"));
    spool *s;
    body[TOTAL / 2] ^= 1;
    CHECK_OK(spool_open(&s, f, hash, 0, TOTAL, NULL));
    CHECK_OK(spool_write(s, piece(0, TOTAL)));
    body[TOTAL / 2] ^= 1;
    CHECK_STATUS(spool_finish(s), SEFL_EAUTH);
    CHECK_STATUS(spool_finish(s), SEFL_ESTATE);
    CHECK_STATUS(spool_write(s, piece(0, 1)), SEFL_ESTATE);
    spool_close(s);
    assert_false(file_exists(named(f, "")) || file_exists(named(f, ".part")));

    /* a part that was changed on the disk, and one that is too long */
    for (int i = 0; i < 2; i++) {
        CHECK_OK(spool_open(&s, f, hash, 0, TOTAL, NULL));
        CHECK_OK(spool_write(s, piece(0, 5000)));
        spool_close(s);
        int fd = open(named(f, ".part"), O_WRONLY);
        if (i == 0)
            assert_int_equal(pwrite(fd, "x", 1, 4000), 1);
        else
            assert_int_equal(ftruncate(fd, TOTAL + 1), 0);
        close(fd);
        CHECK_OK(spool_open(&s, f, hash, 0, TOTAL, NULL));
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
    update_name_of(h, span_of(NULL, 0));
    CHECK_OK(spool_open(&s, folder_path("empty"), h, 0, 0, NULL));
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
        CHECK_OK(spool_open(&s, f, h, 0, TOTAL, NULL));
        CHECK_OK(spool_write(s, piece(0, 100)));
        spool_close(s);
    }
    CHECK_OK(spool_open(&s, f, hash, 0, TOTAL, NULL));
    CHECK_OK(spool_write(s, piece(0, TOTAL)));
    CHECK_OK(spool_finish(s));
    spool_close(s);
    CHECK_OK(spool_sweep(f, 1000, &parts, &bytes));
    assert_true(parts == 5 && bytes == 500);
    memset(h, 1, sizeof h);
    CHECK_OK(spool_open(&busy, f, h, 0, TOTAL, NULL));
    CHECK_OK(spool_sweep(f, 0, &parts, &bytes)); /* one is being written */
    assert_true(parts == 1 && bytes == 100);
    assert_int_equal(spool_offset(busy), 100);
    spool_close(busy);
    CHECK_OK(spool_sweep(f, 0, &parts, &bytes));
    assert_true(parts == 0 && bytes == 0);
    check_whole(f);
}

/* A full disk: a file size limit gives EFBIG, the fault hook ENOSPC. */
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
    CHECK_OK(spool_open(&s, f, hash, 0, TOTAL, NULL));
    CHECK_OK(spool_write(s, piece(0, 100000)));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_STATUS(spool_write(s, piece(100000, TOTAL)), SEFL_EIO); /* half of it fits */
    assert_int_equal(spool_have(f, hash, TOTAL), 100000);
    CHECK_STATUS(spool_write(s, piece(100000, TOTAL)), SEFL_EIO);
    CHECK_OK(spool_write(s, piece(100000, 150000))); /* what fits continues */
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
    SEFL_TRY(spool_open(&s, f, hash, 0, TOTAL, NULL));
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
            CHECK_OK(spool_open(&s, f, hash, 0, TOTAL, NULL));
            CHECK_OK(spool_write(s, piece(0, 140000)));
            spool_close(s);
        }
        TEST_FAULTS(kinds[i], st = everything(f), (void)0);
        CHECK_OK(everything(f));
        check_whole(f);
    }
}

/* ---- in a room --------------------------------------------------------------------------------- */

enum { HEAD = 1304, LARGE = (5 << 19) + 1234, ROOM = SPOOL_ROOM(LARGE) };

typedef struct large {
    char f[256], part[400], whole[400];
    uint8_t *bytes, *memory, *room, hash[BLAKE3_BYTES];
} large;

static void large_make(large *l, const char *name, seeded *g)
{
    sefl_rng rng = seeded_rng(g);
    snprintf(l->f, sizeof l->f, "%s", folder_path(name));
    CHECK_OK(sefl_new(&l->bytes, LARGE, 1));
    CHECK_OK(sefl_new(&l->memory, ROOM + SPOOL_BLOCK, 1));
    l->room = l->memory + SPOOL_BLOCK - (uintptr_t)l->memory % SPOOL_BLOCK;
    CHECK_OK(rng_fill(&rng, l->bytes, LARGE));
    update_name_of(l->hash, span_of(l->bytes + HEAD, LARGE - HEAD));
    int n = snprintf(l->whole, sizeof l->whole, "%s/", l->f);
    for (int i = 0; i < BLAKE3_BYTES; i++)
        n += snprintf(l->whole + n, sizeof l->whole - (size_t)n, "%02x", l->hash[i]);
    snprintf(l->part, sizeof l->part, "%.300s.part", l->whole);
}

static void large_free(large *l)
{
    sefl_free(l->bytes);
    sefl_free(l->memory);
}

static sefl_status large_open(large *l, spool **s)
{
    return spool_open(s, l->f, l->hash, HEAD, LARGE, l->room);
}

static void check_large(const large *l, const char *path, size_t n)
{
    sefl_buf b = { 0 };
    CHECK_OK(file_read(&b, path, LARGE));
    assert_int_equal(b.n, n);
    assert_memory_equal(b.p, l->bytes, n);
    buf_clear(&b);
}

/* Pieces of any size: in the file and in the room. */
static void in_a_room(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "room");
    large l;
    spool *s;
    large_make(&l, "room", &g);
    for (int trial = 0; trial < 8; trial++) {
        static const size_t most[] = { LARGE, 1 << 20, 16384, 70000 };
        memset(l.room, 0, ROOM);
        CHECK_OK(large_open(&l, &s));
        for (uint64_t at = 0; at < LARGE;) {
            size_t n = trial < 4 ? most[trial] : 1 + (size_t)seeded_below(&g, most[trial - 4]);
            n = n < LARGE - at ? n : LARGE - at;
            CHECK_OK(spool_write(s, span_of(l.bytes + at, n)));
            at += n;
            assert_int_equal(spool_offset(s), at);
        }
        CHECK_STATUS(spool_write(s, span_of(l.bytes, 1)), SEFL_EPROTO);
        CHECK_OK(spool_finish(s));
        assert_true(spool_in_room(s));
        spool_close(s);
        check_large(&l, l.whole, LARGE);
        assert_memory_equal(l.room, l.bytes, LARGE);
        assert_int_equal(unlink(l.whole), 0);
    }
    l.bytes[LARGE - 1] ^= 1; /* other bytes than the hash says */
    CHECK_OK(large_open(&l, &s));
    CHECK_OK(spool_write(s, span_of(l.bytes, LARGE)));
    CHECK_STATUS(spool_finish(s), SEFL_EAUTH);
    spool_close(s);
    assert_false(file_exists(l.whole) || file_exists(l.part));
    large_free(&l);
}

/* Bytes of the file that the system keeps in its cache. */
static size_t cached(const char *path, size_t bytes)
{
    static unsigned char here[ROOM / SPOOL_BLOCK];
    size_t n = 0;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    void *p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(mincore(p, bytes, here), 0);
    for (size_t i = 0; i < (bytes + SPOOL_BLOCK - 1) / SPOOL_BLOCK; i++)
        n += here[i] & 1;
    munmap(p, bytes);
    close(fd);
    return n * SPOOL_BLOCK;
}

/* If the file system supports direct writes, a body in a room uses them. */
static void a_room_passes_the_cache(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "direct");
    large l;
    spool *s;
    large_make(&l, "direct", &g);
    const char *probe = folder_path("probe");
    int fd = open(probe, O_WRONLY | O_CREAT | O_DIRECT, 0600);
    bool can = fd >= 0 && write(fd, l.room, 1 << 20) == 1 << 20 && cached(probe, 1 << 20) == 0;
    if (fd >= 0)
        close(fd);
    if (!can) {
        print_message("no such writes here\n");
        large_free(&l);
        return;
    }
    CHECK_OK(large_open(&l, &s));
    CHECK_OK(spool_write(s, span_of(l.bytes, LARGE)));
    CHECK_OK(spool_finish(s));
    spool_close(s);
    assert_true(cached(l.whole, LARGE) <= SPOOL_BLOCK); /* the last bytes, less than a block */
    large_free(&l);
}

/* An interrupted upload resumes without the room: some of the bytes were never in it. */
static void a_room_breaks_off(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "break");
    large l;
    spool *s;
    large_make(&l, "break", &g);
    for (int trial = 0; trial < 12; trial++) {
        static const size_t cuts[] = { 0, 1, 4096, 1 << 20, (1 << 20) + 1, LARGE - 1, LARGE };
        size_t cut = trial < 7 ? cuts[trial] : (size_t)seeded_below(&g, LARGE);
        CHECK_OK(large_open(&l, &s));
        CHECK_OK(spool_write(s, span_of(l.bytes, cut)));
        spool_close(s);
        check_large(&l, l.part, cut);
        CHECK_OK(large_open(&l, &s));
        assert_int_equal(spool_offset(s), cut);
        CHECK_OK(spool_write(s, span_of(l.bytes + cut, LARGE - cut)));
        CHECK_OK(spool_finish(s));
        assert_int_equal(spool_in_room(s), cut == 0);
        spool_close(s);
        check_large(&l, l.whole, LARGE);
        CHECK_OK(large_open(&l, &s)); /* it is there already */
        assert_int_equal(spool_offset(s), LARGE);
        assert_false(spool_in_room(s));
        spool_close(s);
        assert_int_equal(unlink(l.whole), 0);
    }
    large_free(&l);
}

/* A full disk: the part file has the start of the body, and the upload resumes from there. */
static void a_room_and_a_full_disk(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "full");
    large l;
    spool *s;
    struct rlimit old, small;
    large_make(&l, "room-full", &g);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (int trial = 0; trial < 3; trial++) {
        static const rlim_t limits[] = { 4096, (1 << 20) + 512, LARGE - 1 };
        small = (struct rlimit){ limits[trial], old.rlim_max };
        CHECK_OK(large_open(&l, &s));
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        sefl_status st = spool_write(s, span_of(l.bytes, LARGE));
        if (st == SEFL_OK)
            st = spool_finish(s);
        CHECK_STATUS(st, SEFL_EIO);
        CHECK_STATUS(spool_write(s, span_of(l.bytes, 1)), SEFL_ESTATE);
        spool_close(s);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        uint64_t have = spool_have(l.f, l.hash, LARGE);
        assert_true(have <= limits[trial]);
        check_large(&l, l.part, (size_t)have);
        CHECK_OK(large_open(&l, &s));
        assert_int_equal(spool_offset(s), have);
        CHECK_OK(spool_write(s, span_of(l.bytes + have, LARGE - have)));
        CHECK_OK(spool_finish(s));
        spool_close(s);
        check_large(&l, l.whole, LARGE);
        assert_int_equal(unlink(l.whole), 0);
    }
    large_free(&l);
}

#if SEFL_FAULTS
static sefl_status large_all(large *l)
{
    sefl_status st = SEFL_OK;
    spool *s = NULL;
    SEFL_TRY(large_open(l, &s));
    for (uint64_t at = spool_offset(s); at < LARGE;) {
        size_t n = LARGE - at < 300000 ? LARGE - (size_t)at : 300000;
        SEFL_TRY(spool_write(s, span_of(l->bytes + at, n)));
        at += n;
    }
    SEFL_TRY(spool_finish(s));
done:
    spool_close(s);
    return st;
}

/* Every direct write may fail (not every file system supports them), and so may any other. */
static void room_faults(void **state)
{
    (void)state;
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC };
    seeded g;
    test_seed(&g, "room faults");
    large l;
    large_make(&l, "room-faults", &g);
    for (unsigned k = 0; k < 3; k++)
        for (uint64_t nth = 1;; nth++) {
            fault_arm(kinds[k], nth);
            sefl_status st = large_all(&l);
            bool hit = fault_was_hit();
            fault_disarm();
            if (st != SEFL_OK)
                CHECK_OK(large_all(&l));
            check_large(&l, l.whole, LARGE);
            assert_int_equal(unlink(l.whole), 0);
            if (!hit)
                break;
        }
    large_free(&l);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_pieces),
        cmocka_unit_test(a_head_in_front),
        cmocka_unit_test(wrong_bytes),
        cmocka_unit_test(empty_body),
        cmocka_unit_test(sweep),
        cmocka_unit_test(full),
        cmocka_unit_test(faults),
        cmocka_unit_test(in_a_room),
        cmocka_unit_test(a_room_passes_the_cache),
        cmocka_unit_test(a_room_breaks_off),
        cmocka_unit_test(a_room_and_a_full_disk),
#if SEFL_FAULTS
        cmocka_unit_test(room_faults),
#endif
    };
    return cmocka_run_group_tests(tests, setup, folder_remove);
}
