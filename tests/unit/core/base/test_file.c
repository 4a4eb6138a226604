#include "support/check.h"

#include "base/outfile.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/sefl-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static const char *path_in(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static size_t files_in_dir(void)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path_in("a"));
    unlink(path_in("b"));
    return rmdir(dir);
}

/* A copy has the wanted hash, or does not appear. */
static void copies(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    uint8_t hash[SHA256_BYTES];
    struct stat sb;
    const char *from = "/proc/self/exe"; /* more than one piece */
    char to[128];
    snprintf(to, sizeof to, "%s", path_in("copy"));
    CHECK_OK(file_write_atomic(path_in("a"), span_of_str("text"), 0600));
    sha256_of(hash, span_of_str("text"));
    CHECK_OK(outfile_copy(to, path_in("a"), 0640, hash));
    assert_int_equal(stat(to, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0640);
    CHECK_OK(file_read(&b, to, 4));
    assert_memory_equal(b.p, "text", 4);
    hash[0] ^= 1;
    assert_int_equal(unlink(to), 0);
    CHECK_STATUS(outfile_copy(to, path_in("a"), 0640, hash), SEFL_EIO);
    CHECK_STATUS(outfile_copy(to, path_in("no"), 0640, NULL), SEFL_ENOTFOUND);
    assert_false(file_exists(to));
    CHECK_OK(outfile_copy(to, from, 0600, NULL));
    uint8_t there[SHA256_BYTES];
    CHECK_OK(file_sha256(hash, NULL, from));
    CHECK_OK(file_sha256(there, NULL, to));
    assert_memory_equal(hash, there, sizeof hash);
    assert_int_equal(unlink(to), 0);
    buf_clear(&b);
}

static void write_and_read(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    struct stat sb;
    CHECK_OK(file_write_atomic(path_in("a"), span_of_str("first"), 0600));
    CHECK_OK(file_write_atomic(path_in("a"), span_of_str("second"), 0600));
    assert_int_equal(stat(path_in("a"), &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    CHECK_OK(file_read(&b, path_in("a"), 6));
    assert_int_equal(b.n, 6);
    assert_memory_equal(b.p, "second", 6);
    buf_reset(&b);
    CHECK_OK(file_read(&b, path_in("a"), SIZE_MAX)); /* no limit: not an empty file */
    assert_int_equal(b.n, 6);
    CHECK_STATUS(file_read(&b, path_in("a"), 5), SEFL_ERANGE);
    assert_int_equal(b.n, 6); /* untouched */
    CHECK_STATUS(file_read(&b, path_in("none"), 5), SEFL_ENOTFOUND);
    CHECK_STATUS(file_read(&b, dir, 5), SEFL_EINVAL);
    CHECK_STATUS(file_write_new(path_in("a"), span_of_str("x"), 0600), SEFL_EEXIST);
    CHECK_OK(file_write_new(path_in("b"), span_of(NULL, 0), 0644));
    assert_true(file_exists(path_in("b")));
    buf_reset(&b);
    CHECK_OK(file_read(&b, path_in("b"), 0));
    assert_int_equal(b.n, 0);
    CHECK_STATUS(file_write_atomic("/proc/none/x", span_of_str("x"), 0600), SEFL_ENOTFOUND);
    assert_int_equal(files_in_dir(), 2); /* no temporary file is left */
    CHECK_STATUS(file_write_atomic(dir, span_of_str("x"), 0600), SEFL_EEXIST);
    char link[160];
    snprintf(link, sizeof link, "%s/link", dir);
    assert_int_equal(symlink("a", link), 0);
    CHECK_STATUS(file_write_atomic(link, span_of_str("x"), 0600), SEFL_EEXIST);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(mkfifo(link, 0600), 0);
    CHECK_STATUS(file_write_atomic(link, span_of_str("x"), 0600), SEFL_EEXIST);
    assert_int_equal(unlink(link), 0);
    buf_clear(&b);
}

/* Whatever fails, the old content stays intact and no temporary file remains. */
static void faults_leave_the_old_file(void **state)
{
    (void)state;
    static const fault_kind kinds[] = { FAULT_WRITE, FAULT_SYNC };
    sefl_buf b = { 0 };
    for (size_t k = 0; k < 2; k++) {
        CHECK_OK(file_write_atomic(path_in("a"), span_of_str("old"), 0600));
        TEST_FAULTS(
            kinds[k],
            {
                st = file_write_atomic(path_in("a"), span_of_str("new"), 0600);
                buf_reset(&b);
                CHECK_OK(file_read(&b, path_in("a"), 3));
                assert_true(memcmp(b.p, "old", 3) == 0 || memcmp(b.p, "new", 3) == 0);
                assert_int_equal(files_in_dir(), 2);
            },
            assert_memory_equal(b.p, "new", 3));
    }
    buf_reset(&b);
    TEST_FAULTS(FAULT_READ, st = file_read(&b, path_in("a"), 100), (void)0);
    buf_clear(&b);
    TEST_FAULTS(FAULT_ALLOC, st = file_read(&b, path_in("a"), 100), buf_clear(&b));
}

static void folders(void **state)
{
    (void)state;
    struct stat sb;
    CHECK_OK(file_make_folder(path_in("folder"), 0700));
    CHECK_OK(file_make_folder(path_in("folder"), 0700)); /* there already */
    assert_int_equal(stat(path_in("folder"), &sb), 0);
    assert_true(S_ISDIR(sb.st_mode) && (sb.st_mode & 0777) == 0700);
    CHECK_OK(file_sync_folder(path_in("folder")));
    CHECK_STATUS(file_sync_folder(path_in("none")), SEFL_ENOTFOUND);
    CHECK_STATUS(file_make_folder(path_in("none/deeper"), 0700), SEFL_ENOTFOUND);
    CHECK_OK(file_write_new(path_in("plain"), span_of_str("x"), 0600));
    CHECK_STATUS(file_make_folder(path_in("plain"), 0700), SEFL_EEXIST);
    CHECK_STATUS(file_sync_folder(path_in("plain")), SEFL_EIO);
    CHECK_STATUS(file_sync(-1, "nothing"), SEFL_EIO);
    TEST_FAULTS(FAULT_SYNC, st = file_sync_folder(path_in("folder")), (void)0);
#if SEFL_FAULTS
    file_sync_skip(true); /* nothing is synced, so no sync fails */
    fault_arm(FAULT_SYNC, 1);
    CHECK_OK(file_write_atomic(path_in("unsynced"), span_of_str("x"), 0600));
    assert_false(fault_was_hit());
    fault_disarm();
    file_sync_skip(false);
    assert_true(file_exists(path_in("unsynced")));
    unlink(path_in("unsynced"));
#endif
    assert_int_equal(rmdir(path_in("folder")), 0);
    assert_int_equal(unlink(path_in("plain")), 0);
}

/* An unnamed file is not visible in the folder; where the file system does not support that, it has
 * a name at once. Either way a writer that gives up leaves nothing. */
static void unfinished_files(void **state)
{
    (void)state;
    const size_t before = files_in_dir();
    for (int named = 0; named < 2; named++) {
        file_tmp t = { 0 };
#if SEFL_FAULTS
        fault_arm(FAULT_NAMELESS, named ? 1 : 0);
#else
        if (named)
            continue;
#endif
        CHECK_OK(file_tmp_open(&t, path_in("a"), 0600));
        CHECK_OK(file_write_all(t.fd, span_of_str("half")));
        if (!t.named && named == 0)
            assert_int_equal(files_in_dir(), before);
        file_tmp_clear(&t);
        file_tmp_clear(&t);
        assert_int_equal(files_in_dir(), before);
        CHECK_OK(file_tmp_open(&t, path_in("fresh"), 0600));
        CHECK_OK(file_tmp_publish(&t, path_in("fresh"), false));
        assert_int_equal(files_in_dir(), before + 1);
        CHECK_OK(file_tmp_open(&t, path_in("fresh"), 0600));
        CHECK_STATUS(file_tmp_publish(&t, path_in("fresh"), false), SEFL_EEXIST);
        assert_int_equal(files_in_dir(), before + 1);
        assert_int_equal(unlink(path_in("fresh")), 0);
#if SEFL_FAULTS
        fault_arm(FAULT_NAMELESS, named ? 1 : 0);
        CHECK_OK(file_write_atomic(path_in("a"), span_of_str("whole"), 0600));
        assert_int_equal(fault_was_hit(), named);
        fault_disarm();
        assert_int_equal(files_in_dir(), before);
#endif
    }
}

static void temporary_folders(void **state)
{
    (void)state;
    char a[128], b[128], short_one[8];
    assert_int_equal(setenv("TMPDIR", dir, 1), 0);
    CHECK_OK(file_temp_folder(a, sizeof a, "mine"));
    CHECK_OK(file_temp_folder(b, sizeof b, "mine"));
    assert_true(strncmp(a, dir, strlen(dir)) == 0 && strstr(a, "/mine-") && strcmp(a, b) != 0);
    assert_int_equal(rmdir(a) | rmdir(b), 0);
    CHECK_STATUS(file_temp_folder(short_one, sizeof short_one, "mine"), SEFL_ERANGE);
    assert_string_equal(short_one, "");
    assert_int_equal(setenv("TMPDIR", path_in("nowhere"), 1), 0);
    CHECK_STATUS(file_temp_folder(a, sizeof a, "mine"), SEFL_EIO);
    assert_non_null(strstr(sefl_last_error(), "nowhere"));
    assert_int_equal(unsetenv("TMPDIR"), 0);
    CHECK_OK(file_temp_folder(a, sizeof a, "mine"));
    assert_true(strncmp(a, "/tmp/mine-", 10) == 0);
    assert_int_equal(rmdir(a), 0);
}

/* Nobody writes to the pipe: a caller that refuses pipes must not wait for a writer. */
static void a_pipe_does_not_block(void **state)
{
    (void)state;
    int fd;
    uint64_t size;
    uint8_t hash[SHA256_BYTES];
    sefl_buf b = { 0 };
    assert_int_equal(mkfifo(path_in("a"), 0600), 0);
    CHECK_STATUS(file_open(&fd, &size, path_in("a"), false), SEFL_EINVAL);
    CHECK_STATUS(file_read_plain(&b, path_in("a"), 10), SEFL_EINVAL);
    CHECK_STATUS(file_need_plain(path_in("a")), SEFL_EINVAL);
    CHECK_STATUS(file_sha256(hash, NULL, path_in("a")), SEFL_EINVAL);
    CHECK_STATUS(file_sha256(hash, NULL, "/dev/zero"), SEFL_EINVAL);
    unlink(path_in("a"));
    CHECK_STATUS(file_need_plain(path_in("a")), SEFL_ENOTFOUND);
    CHECK_OK(file_write_new(path_in("a"), span_of_str("abc"), 0600));
    CHECK_OK(file_need_plain(path_in("a")));
    CHECK_OK(file_read_plain(&b, path_in("a"), 3));
    assert_int_equal(b.n, 3);
    unlink(path_in("a"));
    buf_clear(&b);
}

/* What an owner of a file that only grows does after a crash: find the last good line, cut, go on. */
static void torn_tails(void **state)
{
    (void)state;
    static const struct {
        const char *file, *line;
        size_t window;
        uint64_t end;
    } c[] = {
        { "", "", 9, 0 },           { "a", "", 9, 0 },        { "\n", "", 9, 1 },
        { "ab\n", "ab", 9, 3 },     { "ab\ncd", "ab", 9, 3 }, { "ab\ncd\n", "cd", 9, 6 },
        { "ab\ncd\n", "cd", 3, 6 }, { "ab\ncd", "", 2, 3 },   { "ab\ncde", "", 2, 4 },
    };
    sefl_buf line = { 0 };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        const char *path = path_in("grows");
        uint64_t size, end;
        CHECK_OK(file_write_atomic(path, span_of_str(c[i].file), 0600));
        int fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        CHECK_OK(file_size(&size, fd, path));
        assert_int_equal(size, strlen(c[i].file));
        end = size;
        CHECK_OK(file_last_line(&line, &end, fd, path, c[i].window));
        assert_int_equal(end, c[i].end);
        assert_int_equal(line.n, strlen(c[i].line));
        assert_true(line.n == 0 || memcmp(line.p, c[i].line, line.n) == 0);
        CHECK_OK(file_cut(fd, path, end));
        CHECK_OK(file_write_at(fd, path, end, span_of_str("on")));
        CHECK_OK(file_size(&size, fd, path));
        assert_int_equal(size, c[i].end + 2);
        TEST_FAULTS(FAULT_WRITE, st = file_write_at(fd, path, end, span_of_str("on")), (void)0);
        TEST_FAULTS(FAULT_READ, end = size; st = file_last_line(&line, &end, fd, path, 9), (void)0);
        close(fd);
        CHECK_STATUS(file_write_at(fd, path, 0, span_of_str("x")), SEFL_EIO);
        CHECK_STATUS(file_cut(fd, path, 0), SEFL_EIO);
    }
    int folder = open(dir, O_RDONLY);
    uint64_t size;
    CHECK_STATUS(file_size(&size, folder, dir), SEFL_EINVAL);
    close(folder);
    buf_clear(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_does_not_block),
        cmocka_unit_test(write_and_read),
        cmocka_unit_test(copies),
        cmocka_unit_test(faults_leave_the_old_file),
        cmocka_unit_test(folders),
        cmocka_unit_test(torn_tails),
        cmocka_unit_test(unfinished_files),
        cmocka_unit_test(temporary_folders),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
