#include "support/check.h"
#include "support/folder.h"
#include "support/store_place.h"

#include "base/buf.h"
#include "base/file.h"
#include "store/journal/journal.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t task_a[32] = { 1 }, task_b[32] = { 2 };

/* A separate folder for every test, with an open journal and a generator. */
typedef struct place {
    char folder[256];
    seeded gen;
    sefl_rng rng;
} place;

static void place_make(place *p, const char *name)
{
    snprintf(p->folder, sizeof p->folder, "%s", folder_path(name));
    test_seed(&p->gen, name);
    p->rng = seeded_rng(&p->gen);
}

static journal *opened(const place *p, const uint8_t task[32])
{
    journal *j;
    CHECK_OK(store_open(&j, p->folder, "aggregator", task));
    return j;
}

static const char *inside(const place *p, const char *name)
{
    static char path[2][512];
    static unsigned next;
    char *out = path[next++ % 2];
    snprintf(out, sizeof path[0], "%s/%s", p->folder, name);
    return out;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static void rounds(void **state)
{
    (void)state;
    place p;
    place_make(&p, "rounds");
    journal *j = opened(&p, task_a);
    journal_round r = { .round = 7,
                        .state = 3,
                        .attempt = 2,
                        .opened_ms = 11,
                        .deadline_ms = UINT64_MAX,
                        .closed_ms = 13,
                        .clients = 14,
                        .extensions = 15,
                        .has_set = true,
                        .set = { 0xaa },
                        .has_model = true,
                        .model = { 0xbb } };
    journal_round got;
    CHECK_STATUS(journal_round_get(j, 7, &got), SEFL_ENOTFOUND);
    CHECK_STATUS(journal_round_last(j, &got), SEFL_ENOTFOUND);
    CHECK_OK(journal_round_put(j, &r));
    CHECK_OK(journal_round_get(j, 7, &got));
    assert_memory_equal(&got, &r, sizeof r);
    r.has_set = false, memset(r.set, 0, sizeof r.set), r.skipped = true, r.state = 6;
    CHECK_OK(journal_round_put(j, &r));
    CHECK_OK(journal_round_put(j, &(journal_round){ .round = 5, .state = 6 }));
    CHECK_OK(journal_round_put(j, &(journal_round){ .round = 8, .state = 1 }));
    uint64_t highest = 99;
    CHECK_OK(journal_round_highest(j, 6, &highest));
    assert_int_equal(highest, 7);
    CHECK_OK(journal_round_highest(j, 2, &highest));
    assert_int_equal(highest, 0);
    journal_close(j);

    j = opened(&p, task_a);
    CHECK_OK(journal_round_get(j, 7, &got));
    assert_memory_equal(&got, &r, sizeof r);
    CHECK_OK(journal_round_last(j, &got));
    assert_int_equal(got.round, 8);
    CHECK_STATUS(journal_round_put(j, &(journal_round){ .round = 1ULL << 63 }), SEFL_ERANGE);
    CHECK_STATUS(journal_round_get(j, UINT64_MAX, &got), SEFL_ERANGE);
    journal_close(j);

    /* a new task has its own rounds; the older ones stay */
    j = opened(&p, task_b);
    CHECK_STATUS(journal_round_get(j, 7, &got), SEFL_ENOTFOUND);
    CHECK_OK(journal_round_put(j, &(journal_round){ .round = 1, .state = 9 }));
    journal_close(j);
    j = opened(&p, task_a);
    CHECK_OK(journal_round_last(j, &got));
    assert_int_equal(got.round, 8);
    CHECK_STATUS(journal_round_get(j, 1, &got), SEFL_ENOTFOUND);
    assert_string_equal(journal_folder(j), p.folder);
    journal_close(j);
}

static void check_fact(journal *j, uint64_t round, const char *name, const void *want, size_t n)
{
    sefl_buf b = { 0 };
    CHECK_OK(wr_u8(&b, '>'));
    CHECK_OK(journal_fact_get(j, round, name, &b));
    assert_int_equal(b.n, n + 1);
    if (n)
        assert_memory_equal(b.p + 1, want, n);
    buf_clear(&b);
}

static void facts(void **state)
{
    (void)state;
    place p;
    place_make(&p, "facts");
    journal *j = opened(&p, task_a);
    sefl_buf b = { 0 };
    uint8_t *big;
    CHECK_OK(buf_extend(&b, &big, (1 << 23) + 1));
    memset(big, 7, b.n);
    CHECK_OK(journal_fact_put(j, 3, "header", span_of_str("one")));
    CHECK_OK(journal_fact_put(j, 3, "header", span_of_str("two")));
    CHECK_OK(journal_fact_put(j, 0, "header", span_of(NULL, 0)));
    CHECK_OK(journal_fact_put(j, 3, "big", span_of(big, 1 << 23)));
    CHECK_STATUS(journal_fact_put(j, 3, "big", span_of(big, (1 << 23) + 1)), SEFL_ERANGE);
    CHECK_STATUS(journal_fact_put(j, 3, "", span_of_str("x")), SEFL_EINVAL);
    CHECK_OK(journal_lasting_put(j, "head", span_of_str("of all")));
    journal_close(j);
    j = opened(&p, task_a);
    check_fact(j, 3, "header", "two", 3);
    check_fact(j, 0, "header", "", 0);
    check_fact(j, 3, "big", big, 1 << 23);
    CHECK_STATUS(journal_fact_get(j, 4, "header", &b), SEFL_ENOTFOUND);
    journal_close(j);
    j = opened(&p, task_b);
    buf_reset(&b);
    CHECK_STATUS(journal_fact_get(j, 3, "header", &b), SEFL_ENOTFOUND);
    CHECK_OK(journal_lasting_get(j, "head", &b));
    assert_int_equal(b.n, 6);
    CHECK_STATUS(journal_lasting_get(j, "tail", &b), SEFL_ENOTFOUND);
    journal_close(j);
    buf_clear(&b);
}

typedef struct seen {
    unsigned n;
    uint8_t last;
    bool nested;
    journal *j;
} seen;

static sefl_status see(void *ctx, const journal_update *u)
{
    seen *s = ctx;
    journal_update again;
    assert_true(s->n == 0 || u->client[0] > s->last);
    assert_int_equal(u->body[0], u->client[0] ^ 0xff);
    /* a row function may use the journal */
    CHECK_OK(journal_update_get(s->j, u->round, u->client, &again));
    CHECK_OK(journal_fact_put(s->j, u->round, "seen", span_of(u->client, 32)));
    s->last = u->client[0], s->n++;
    return s->nested && s->n == 2 ? sefl_fail(SEFL_ECANCELLED, "enough") : SEFL_OK;
}

static journal_update update_of(uint64_t round, uint8_t client)
{
    journal_update u = { .round = round,
                         .client = { client },
                         .body = { client ^ 0xff },
                         .bytes = 1000u + client,
                         .when_ms = 5 };
    snprintf(u.name, sizeof u.name, "client-%u", client);
    return u;
}

static void updates(void **state)
{
    (void)state;
    place p;
    place_make(&p, "updates");
    journal *j = opened(&p, task_a);
    static const uint8_t order[] = { 200, 3, 250, 17, 129 };
    for (size_t i = 0; i < sizeof order; i++) {
        journal_update u = update_of(4, order[i]);
        CHECK_OK(journal_update_put(j, &u));
    }
    journal_update u = update_of(4, 17), got;
    u.body[0] = 1; /* another body of the same client */
    CHECK_STATUS(journal_update_put(j, &u), SEFL_EEXIST);
    u.round = 5;
    CHECK_OK(journal_update_put(j, &u));
    memset(u.name, 'x', sizeof u.name);
    u.round = 6;
    CHECK_STATUS(journal_update_put(j, &u), SEFL_EINVAL);
    journal_close(j);

    j = opened(&p, task_a);
    CHECK_OK(journal_update_get(j, 4, (const uint8_t[32]){ 17 }, &got));
    assert_int_equal(got.bytes, 1017);
    assert_int_equal(got.body[0], 17 ^ 0xff);
    assert_string_equal(got.name, "client-17");
    CHECK_OK(journal_update_get(j, 4, (const uint8_t[32]){ 3 }, &got));
    CHECK_STATUS(journal_update_get(j, 4, (const uint8_t[32]){ 4 }, &got), SEFL_ENOTFOUND);
    seen s = { .j = j };
    CHECK_OK(journal_updates(j, 4, see, &s));
    assert_int_equal(s.n, 5);
    s = (seen){ .j = j, .nested = true };
    CHECK_STATUS(journal_updates(j, 4, see, &s), SEFL_ECANCELLED);
    uint32_t n;
    CHECK_OK(journal_update_count(j, 4, &n));
    assert_int_equal(n, 5);
    CHECK_OK(journal_update_count(j, 40, &n));
    assert_int_equal(n, 0);
    uint64_t taken, last;
    CHECK_OK(journal_client_rounds(j, (const uint8_t[32]){ 17 }, &taken, &last));
    assert_int_equal(taken, 2);
    CHECK_OK(
        journal_round_put(j, &(journal_round){ .round = 5, .skipped = true, .charged = true }));
    CHECK_OK(journal_client_rounds(j, (const uint8_t[32]){ 17 }, &taken, &last));
    assert_int_equal(taken, 2); /* its charge stands */
    assert_int_equal(last, 5);
    CHECK_OK(journal_round_put(j, &(journal_round){ .round = 5, .skipped = true }));
    CHECK_OK(journal_client_rounds(j, (const uint8_t[32]){ 17 }, &taken, &last));
    assert_int_equal(taken, 1);
    assert_int_equal(last, 4);
    CHECK_OK(journal_client_rounds(j, (const uint8_t[32]){ 99 }, &taken, &last));
    assert_true(taken == 0 && last == 0);
    journal_close(j);
}

/* True if an earlier round has accepted these units. */
static void bodies_before(void **state)
{
    (void)state;
    place p;
    place_make(&p, "bodies");
    journal *j = opened(&p, task_a);
    journal_update one = update_of(1, 1), two = update_of(2, 2);
    CHECK_OK(journal_update_put(j, &one));
    CHECK_OK(journal_update_put(j, &two));
    journal_close(j);
    j = opened(&p, task_a);
    static const uint8_t other[32] = { 77 };
    const struct {
        uint64_t round;
        const uint8_t *body;
        bool there;
    } asks[] = {
        { 9, one.body, true }, { 9, two.body, true },  { 1, two.body, true },
        { 9, other, false },   { 1, one.body, false }, /* the caller checks this round */
    };
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        bool there;
        CHECK_OK(journal_body_before(j, asks[i].round, asks[i].body, &there));
        if (there != asks[i].there)
            fail_msg("question %zu: %d", i, there);
    }
    journal_close(j);
}

static void transactions(void **state)
{
    (void)state;
    place p;
    place_make(&p, "transactions");
    journal *j = opened(&p, task_a);
    journal_round got;
    sefl_buf b = { 0 };
    CHECK_STATUS(journal_commit(j), SEFL_ESTATE);
    journal_rollback(j); /* nothing to do */
    CHECK_OK(journal_begin(j));
    CHECK_STATUS(journal_begin(j), SEFL_ESTATE);
    CHECK_OK(journal_round_put(j, &(journal_round){ .round = 1 }));
    CHECK_OK(journal_fact_put(j, 1, "a", span_of_str("b")));
    journal_rollback(j);
    journal_rollback(j);
    CHECK_STATUS(journal_round_get(j, 1, &got), SEFL_ENOTFOUND);
    CHECK_STATUS(journal_fact_get(j, 1, "a", &b), SEFL_ENOTFOUND);
    CHECK_OK(journal_begin(j));
    CHECK_OK(journal_round_put(j, &(journal_round){ .round = 1 }));
    CHECK_OK(journal_fact_put(j, 1, "a", span_of_str("b")));
    CHECK_OK(journal_commit(j));
    CHECK_OK(journal_begin(j)); /* closed without a commit: rolled back */
    CHECK_OK(journal_round_put(j, &(journal_round){ .round = 2 }));
    journal_close(j);
    j = opened(&p, task_a);
    CHECK_OK(journal_round_get(j, 1, &got));
    check_fact(j, 1, "a", "b", 1);
    CHECK_STATUS(journal_round_get(j, 2, &got), SEFL_ENOTFOUND);
    journal_close(j);
}

/* ---- files --------------------------------------------------------------------------------- */

static mode_t mode_of(const char *path)
{
    struct stat sb;
    assert_int_equal(stat(path, &sb), 0);
    return sb.st_mode & 0777;
}

static void files(void **state)
{
    (void)state;
    place p;
    place_make(&p, "files");
    journal *j = opened(&p, task_a);
    static const size_t sizes[] = { 0, 1, 65535, 65536, 65537, 131072, 200000 };
    sefl_buf b = { 0 }, want = { 0 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char name[32];
        uint8_t *at;
        snprintf(name, sizeof name, "mask-%zu", i);
        buf_reset(&want);
        CHECK_OK(buf_extend(&want, &at, sizes[i]));
        CHECK_OK(rng_fill(&p.rng, at, sizes[i]));
        CHECK_OK(journal_secret_put(j, 3, name, span_of_str("older"), &p.rng));
        CHECK_OK(journal_secret_put(j, 3, name, buf_span(&want), &p.rng));
        buf_reset(&b);
        CHECK_OK(journal_secret_get(j, 3, name, &b));
        assert_int_equal(b.n, want.n);
        assert_true(want.n == 0 || memcmp(b.p, want.p, b.n) == 0);
    }
    assert_int_equal(mode_of(p.folder), 0700);
    if (!store_is_pg()) {
        assert_int_equal(mode_of(inside(&p, "journal.db")), 0600);
        assert_int_equal(mode_of(inside(&p, "task-1/round-3")), 0700);
        assert_int_equal(mode_of(inside(&p, "task-1/round-3/key")), 0600);
        assert_int_equal(mode_of(inside(&p, "task-1/round-3/mask-6")), 0600);
    }

    CHECK_OK(journal_file_put(j, 3, "model", span_of_str("public")));
    buf_reset(&b);
    CHECK_OK(journal_file_get(j, 3, "model", &b));
    assert_memory_equal(b.p, "public", 6);
    CHECK_STATUS(journal_file_get(j, 3, "other", &b), SEFL_ENOTFOUND);
    CHECK_STATUS(journal_secret_get(j, 3, "other", &b), SEFL_ENOTFOUND);
    CHECK_STATUS(journal_secret_get(j, 4, "other", &b), SEFL_ENOTFOUND);
    static const char *const bad[] = {
        "", "key", "..", ".x", "a/b", "a b", "key.tmp-1", "\xc3\xa9"
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(journal_file_put(j, 3, bad[i], span_of_str("x")), SEFL_EINVAL);
        CHECK_STATUS(journal_secret_put(j, 3, bad[i], span_of_str("x"), &p.rng), SEFL_EINVAL);
        CHECK_STATUS(journal_secret_get(j, 3, bad[i], &b), SEFL_EINVAL);
        CHECK_STATUS(journal_path(j, &b, 3, bad[i]), SEFL_EINVAL);
    }
    CHECK_STATUS(journal_file_put(j, 1ULL << 63, "x", span_of_str("x")), SEFL_ERANGE);

    buf_reset(&b);
    CHECK_OK(journal_path(j, &b, 9, "bodies"));
    assert_string_equal((char *)b.p, inside(&p, "task-1/round-9/bodies"));
    assert_int_equal(b.n, strlen((char *)b.p));
    journal_close(j);
    buf_clear(&b);
    buf_clear(&want);
}

static void wiped(void **state)
{
    (void)state;
    place p;
    place_make(&p, "wiped");
    journal *j = opened(&p, task_a);
    sefl_buf b = { 0 };
    CHECK_OK(journal_secret_put(j, 3, "mask", span_of_str("secret"), &p.rng));
    CHECK_OK(journal_secret_put(j, 4, "mask", span_of_str("other"), &p.rng));
    CHECK_OK(journal_path(j, &b, 3, "bodies"));
    assert_int_equal(mkdir((char *)b.p, 0700), 0);
    close(open(inside(&p, "task-1/round-3/bodies/a"), O_CREAT | O_WRONLY, 0600));
    CHECK_OK(journal_round_put(j, &(journal_round){ .round = 3, .state = 2 }));

    /* the key is overwritten in place, not only unlinked */
    int key = open(inside(&p, "task-1/round-3/key"), O_RDONLY);
    uint8_t bytes[32], zeros[32] = { 0 };
    if (store_is_pg()) {
        assert_int_equal(store_count(p.folder, "round_key"), 2);
        CHECK_OK(journal_round_wipe(j, 3));
        assert_int_equal(store_count(p.folder, "round_key WHERE round = 4"), 1);
        assert_int_equal(store_count(p.folder, "round_key WHERE round = 3"), 0);
        assert_int_equal(store_count(p.folder, "file WHERE round = 3"), 0);
    } else {
        assert_int_equal(pread(key, bytes, 32, 0), 32);
        assert_memory_not_equal(bytes, zeros, 32);
        CHECK_OK(journal_round_wipe(j, 3));
        assert_int_equal(pread(key, bytes, 32, 0), 32);
        assert_memory_equal(bytes, zeros, 32);
        close(key);
    }
    assert_false(file_exists(inside(&p, "task-1/round-3")));
    assert_false(file_exists(inside(&p, "task-1/round-3.wipe")));
    CHECK_OK(journal_round_wipe(j, 3));
    CHECK_OK(journal_round_wipe(j, 12345));
    CHECK_STATUS(journal_secret_get(j, 3, "mask", &b), SEFL_ENOTFOUND);
    journal_round r;
    CHECK_OK(journal_round_get(j, 3, &r)); /* stored facts stay */
    buf_reset(&b);
    CHECK_OK(journal_secret_get(j, 4, "mask", &b));
    assert_memory_equal(b.p, "other", 5);
    journal_close(j);
    buf_clear(&b);
}

static sefl_status failing(void *self, void *out, size_t n)
{
    (void)self;
    memset(out, 0, n);
    return sefl_fail(SEFL_ERANDOM, "no coins today");
}

static sefl_status keep_even(void *ctx, uint64_t round, bool *yes)
{
    (*(unsigned *)ctx)++;
    *yes = round % 2 == 0;
    return SEFL_OK;
}

/* The same bytes as files: overwritten before they are replaced or deleted. */
static void kem_files(place *p, journal *j)
{
    uint8_t one[32] = { 1 }, two[32] = { 2 }, got[32], zeros[32] = { 0 };
    struct stat sb;
    assert_int_equal(stat(inside(p, "task-1/round-1.kem"), &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    for (int i = 0; i < 2; i++) { /* replaced, wiped */
        int fd = open(inside(p, "task-1/round-1.kem"), O_RDONLY);
        if (i == 0)
            CHECK_OK(journal_kem_put(j, 1, two));
        else
            CHECK_OK(journal_kem_wipe(j, 1));
        assert_int_equal(pread(fd, got, 32, 0), 32);
        assert_memory_equal(got, zeros, 32);
        close(fd);
        CHECK_STATUS(journal_kem_get(j, 1, got), i == 0 ? SEFL_OK : SEFL_ENOTFOUND);
        assert_memory_equal(got, i == 0 ? two : zeros, 32);
    }
    assert_false(file_exists(inside(p, "task-1/round-1.kem")));
    /* an interrupted wipe, a truncated file, and an unfinished file */
    CHECK_OK(file_write_new(inside(p, "task-1/round-1.kem"), span_of(zeros, 32), 0600));
    CHECK_STATUS(journal_kem_get(j, 1, got), SEFL_ENOTFOUND);
    CHECK_OK(file_write_atomic(inside(p, "task-1/round-1.kem"), span_of(one, 5), 0600));
    CHECK_STATUS(journal_kem_get(j, 1, got), SEFL_ENOTFOUND);
    CHECK_OK(file_write_new(inside(p, "task-1/round-1.kem.tmp-77"), span_of(one, 32), 0600));
}

/* Bytes of a sealing key are overwritten in place before they are deleted, even when they are
 * replaced; zeros are not a key; a sweep keeps only the needed keys of this task. */
static void kems(void **state)
{
    (void)state;
    place p;
    place_make(&p, "kems");
    journal *j = opened(&p, task_a);
    uint8_t one[32] = { 1 }, two[32] = { 2 }, got[32], zeros[32] = { 0 };
    unsigned asked = 0;
    CHECK_STATUS(journal_kem_get(j, 1, got), SEFL_ENOTFOUND);
    CHECK_OK(journal_kem_wipe(j, 1));
    CHECK_STATUS(journal_kem_put(j, 1, zeros), SEFL_EINVAL);
    CHECK_STATUS(journal_kem_put(j, UINT64_MAX, one), SEFL_ERANGE);
    CHECK_OK(journal_kem_put(j, 1, one));
    journal_close(j);
    j = opened(&p, task_a);
    CHECK_OK(journal_kem_get(j, 1, got));
    assert_memory_equal(got, one, 32);
    if (store_is_pg()) {
        CHECK_OK(journal_kem_put(j, 1, two));
        CHECK_OK(journal_kem_get(j, 1, got));
        assert_memory_equal(got, two, 32);
        CHECK_OK(journal_kem_wipe(j, 1));
        CHECK_STATUS(journal_kem_get(j, 1, got), SEFL_ENOTFOUND);
        assert_memory_equal(got, zeros, 32);
        assert_int_equal(store_count(p.folder, "round_key"), 0);
        CHECK_OK(journal_kem_put(j, 1, one));
    } else {
        kem_files(&p, j);
    }
    journal_close(j);
    j = opened(&p, task_b);
    assert_false(file_exists(inside(&p, "task-1/round-1.kem.tmp-77")));
    for (uint64_t r = 2; r <= 5; r++)
        CHECK_OK(journal_kem_put(j, r, two));
    CHECK_OK(journal_kem_sweep(j, keep_even, &asked));
    assert_int_equal(asked, 4); /* keys of the other task are wiped without asking */
    assert_false(file_exists(inside(&p, "task-1/round-1.kem")));
    for (uint64_t r = 2; r <= 5; r++)
        CHECK_STATUS(journal_kem_get(j, r, got), r % 2 ? SEFL_ENOTFOUND : SEFL_OK);
    journal_close(j);
    j = opened(&p, NULL); /* no task: nothing is kept */
    CHECK_OK(journal_kem_sweep(j, NULL, NULL));
    journal_close(j);
    j = opened(&p, task_b);
    for (uint64_t r = 2; r <= 5; r++)
        CHECK_STATUS(journal_kem_get(j, r, got), SEFL_ENOTFOUND);
    journal_close(j);
}

/* The secret of a lane's last session: in the folder, overwritten in place before it goes, of this
 * session and this task alone. */
static void seeds(void **state)
{
    (void)state;
    place p;
    place_make(&p, "seeds");
    journal *j = opened(&p, task_a);
    const uint8_t a[32] = { 1 }, b[32] = { 2 }, one[32] = { 3 }, zeros[32] = { 0 };
    uint8_t got[32], file[64] = { 0 };
    CHECK_STATUS(journal_seed_get(j, 3, a, got), SEFL_ENOTFOUND);
    CHECK_STATUS(journal_seed_wipe(j, 3, a), SEFL_ENOTFOUND);
    CHECK_STATUS(journal_seed_put(j, 3, a, zeros), SEFL_EINVAL);
    for (int i = 0; i < 3; i++) { /* replaced, wiped, half wiped */
        CHECK_OK(journal_seed_put(j, 3, a, one));
        journal_close(j);
        j = opened(&p, task_a);
        CHECK_OK(journal_seed_get(j, 3, a, got));
        assert_memory_equal(got, one, 32);
        CHECK_STATUS(journal_seed_get(j, 3, b, got), SEFL_ENOTFOUND);
        CHECK_STATUS(journal_seed_get(j, 2, a, got), SEFL_ENOTFOUND);
        CHECK_STATUS(journal_seed_wipe(j, 3, b), SEFL_ENOTFOUND);
        int fd = open(inside(&p, "task-1/lane-3.seed"), O_RDWR);
        if (i == 0)
            CHECK_OK(journal_seed_put(j, 3, b, one));
        else if (i == 1)
            CHECK_OK(journal_seed_wipe(j, 3, a));
        else
            assert_int_equal(pwrite(fd, zeros, 32, 0), 32); /* a crash before the file is deleted */
        assert_int_equal(pread(fd, file, 64, 0), 64);
        assert_memory_equal(file, zeros, 32);
        close(fd);
        assert_int_equal(file_exists(inside(&p, "task-1/lane-3.seed")), i != 1);
        CHECK_STATUS(journal_seed_get(j, 3, a, got), SEFL_ENOTFOUND);
        CHECK_STATUS(journal_seed_wipe(j, 3, a), SEFL_ENOTFOUND);
    }
    CHECK_OK(journal_seed_put(j, 3, a, one));
    journal_close(j);
    j = opened(&p, task_b);
    CHECK_STATUS(journal_seed_get(j, 3, a, got), SEFL_ENOTFOUND);
    CHECK_OK(journal_seed_put(j, 3, b, one));
    journal_close(j);
    j = opened(&p, task_a);
    CHECK_OK(journal_seed_get(j, 3, a, got));
    journal_close(j);
}

/* The state after an interrupted wipe, built by hand; property.journal.kill reaches all states for
 * real. */
static void wipe_is_finished(void **state)
{
    (void)state;
    SQLITE_ONLY();
    place p;
    place_make(&p, "finished");
    journal *j = opened(&p, task_a);
    for (uint64_t r = 1; r <= 4; r++)
        CHECK_OK(journal_secret_put(j, r, "mask", span_of_str("secret"), &p.rng));
    sefl_rng none = { failing, NULL };
    CHECK_STATUS(journal_secret_put(j, 5, "mask", span_of_str("x"), &none), SEFL_ERANDOM);
    assert_false(file_exists(inside(&p, "task-1/round-5/key")));
    journal_close(j);
    uint8_t zeros[32] = { 0 };
    CHECK_OK(file_write_atomic(inside(&p, "task-1/round-1/key"), span_of(zeros, 32), 0600));
    assert_int_equal(rename(inside(&p, "task-1/round-2"), inside(&p, "task-1/round-2.wipe")), 0);
    CHECK_OK(
        file_write_atomic(inside(&p, "task-1/round-3/mask.tmp-77"), span_of_str("half"), 0600));
    CHECK_OK(file_write_atomic(inside(&p, "task-1/round-3/key.tmp-77"), span_of_str("half"), 0600));
    j = opened(&p, task_b); /* another task's wipes too */
    assert_false(file_exists(inside(&p, "task-1/round-1")));
    assert_false(file_exists(inside(&p, "task-1/round-2.wipe")));
    assert_false(file_exists(inside(&p, "task-1/round-3/mask.tmp-77")));
    assert_false(file_exists(inside(&p, "task-1/round-3/key.tmp-77")));
    journal_close(j);
    j = opened(&p, task_a);
    sefl_buf b = { 0 };
    CHECK_STATUS(journal_secret_get(j, 1, "mask", &b), SEFL_ENOTFOUND);
    CHECK_OK(journal_secret_get(j, 3, "mask", &b));
    CHECK_OK(journal_secret_get(j, 4, "mask", &b));
    journal_close(j);
    buf_clear(&b);
}

static void refused(void **state)
{
    (void)state;
    place p;
    place_make(&p, "refused");
    journal *j = opened(&p, task_a), *k;
    char pid[32];
    if (store_is_pg()) { /* several processes may */
        CHECK_OK(store_open(&k, p.folder, "aggregator", task_a));
        journal_close(k);
    } else {
        CHECK_STATUS(store_open(&k, p.folder, "aggregator", task_a), SEFL_ESTATE);
        snprintf(pid, sizeof pid, "process %ld", (long)getpid());
        assert_non_null(strstr(sefl_last_error(), pid));
    }
    CHECK_OK(journal_file_put(j, 1, "model", span_of_str("x")));
    sefl_buf b = { 0 };
    CHECK_OK(journal_path(j, &b, 1, "bodies")); /* makes the round's folder in either case */
    buf_clear(&b);
    journal_close(j);
    CHECK_STATUS(store_open(&k, p.folder, "csp", task_a), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "aggregator"));
    CHECK_STATUS(store_open(&k, inside(&p, "no/such"), "csp", task_a), SEFL_ENOTFOUND);
    if (!store_is_pg())
        CHECK_STATUS(store_open(&k, inside(&p, "lock"), "csp", task_a), SEFL_EEXIST);
    assert_null(k);
    j = opened(&p, task_a);
    journal_close(j);
    /* rounds without the database that knows them */
    if (store_is_pg())
        store_drop(p.folder);
    else
        assert_int_equal(unlink(inside(&p, "journal.db")), 0);
    CHECK_STATUS(store_open(&k, p.folder, "aggregator", task_a), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "does not know"));
#ifndef SEFL_PG
    journal_place at = { .folder = p.folder, .store = "postgresql://localhost/x" };
    CHECK_STATUS(journal_open_at(&k, &at, "csp", task_a), SEFL_EUNSUPPORTED);
    assert_non_null(strstr(sefl_last_error(), "no PostgreSQL"));
    CHECK_STATUS(journal_check_store(at.store), SEFL_EUNSUPPORTED);
#endif
}

#define ZEROS "00000000000000000000000000000000000000000000000000000000000000" /* 31 bytes */

/* Version 1 as its first program wrote it, kept as text: every later version must open it. */
static const char version_1[] =
    "PRAGMA journal_mode=WAL; BEGIN;"
    "CREATE TABLE sefl_role(name TEXT NOT NULL);"
    "INSERT INTO sefl_role VALUES('aggregator');"
    "CREATE TABLE task(number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE);"
    "CREATE TABLE round(task INTEGER NOT NULL REFERENCES task, round INTEGER NOT NULL,"
    " state INTEGER NOT NULL, attempt INTEGER NOT NULL, opened_ms INTEGER NOT NULL,"
    " deadline_ms INTEGER NOT NULL, closed_ms INTEGER NOT NULL, clients INTEGER NOT NULL,"
    " extensions INTEGER NOT NULL, skipped INTEGER NOT NULL, set_hash BLOB, model BLOB,"
    " PRIMARY KEY(task, round)) WITHOUT ROWID;"
    "CREATE TABLE fact(task INTEGER NOT NULL REFERENCES task, round INTEGER NOT NULL,"
    " name TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY(task, round, name));"
    "CREATE TABLE lasting(name TEXT PRIMARY KEY, value BLOB NOT NULL);"
    "CREATE TABLE body(task INTEGER NOT NULL REFERENCES task, round INTEGER NOT NULL,"
    " client BLOB NOT NULL, name TEXT NOT NULL, hash BLOB NOT NULL, bytes INTEGER NOT NULL,"
    " when_ms INTEGER NOT NULL, receipt BLOB NOT NULL,"
    " PRIMARY KEY(task, round, client)) WITHOUT ROWID;"
    "CREATE INDEX body_of_client ON body(task, client);"
    "INSERT INTO task VALUES(1, x'01" ZEROS "');"
    "INSERT INTO round VALUES(1, 7, 3, 2, 11, 12, 13, 14, 15, 0, NULL, x'bb" ZEROS "');"
    "INSERT INTO fact VALUES(1, 7, 'fact', x'76');"
    "INSERT INTO lasting VALUES('head', x'77');"
    "INSERT INTO body VALUES(1, 7, x'09" ZEROS "', 'client-9', x'f6" ZEROS "', 1009, "
    "5,"
    " x'616761696e');"
    "PRAGMA application_id=1397048908; PRAGMA user_version=1; COMMIT";

static void kept_version(void **state)
{
    (void)state;
    SQLITE_ONLY();
    place p;
    sqlite3 *s;
    sefl_buf b = { 0 };
    place_make(&p, "kept");
    assert_int_equal(mkdir(p.folder, 0700), 0);
    assert_int_equal(sqlite3_open(inside(&p, "journal.db"), &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s, version_1, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(s), SQLITE_OK);
    journal *j = opened(&p, (const uint8_t[32]){ 1 });
    journal_round r;
    CHECK_OK(journal_round_last(j, &r));
    assert_true(r.round == 7 && r.state == 3 && r.attempt == 2 && r.opened_ms == 11);
    assert_true(r.deadline_ms == 12 && r.closed_ms == 13 && r.clients == 14 && r.extensions == 15);
    assert_true(!r.skipped && !r.has_set && r.has_model && r.model[0] == 0xbb);
    check_fact(j, 7, "fact", "v", 1);
    CHECK_OK(journal_lasting_get(j, "head", &b));
    seen found = { .j = j };
    CHECK_OK(journal_updates(j, 7, see, &found));
    assert_int_equal(found.n, 1);
    journal_close(j);
    /* a later version than this program knows */
    assert_int_equal(sqlite3_open(inside(&p, "journal.db"), &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s, "PRAGMA user_version=99", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(s), SQLITE_OK);
    CHECK_STATUS(store_open(&j, p.folder, "aggregator", task_a), SEFL_EUNSUPPORTED);
    buf_clear(&b);
}

/* ---- trouble ------------------------------------------------------------------------------- */

static sefl_status everything(const char *folder, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    journal *j = NULL;
    sefl_buf b = { 0 };
    journal_update u = update_of(2, 9), got;
    SEFL_TRY(store_open(&j, folder, "aggregator", task_a));
    SEFL_TRY(journal_begin(j));
    SEFL_TRY(journal_round_put(j, &(journal_round){ .round = 2, .state = 1 }));
    SEFL_TRY(journal_fact_put(j, 2, "fact", span_of_str("value")));
    SEFL_TRY(journal_commit(j));
    SEFL_TRY(journal_secret_put(j, 2, "mask", span_of_str("secret"), rng));
    SEFL_TRY(journal_file_put(j, 2, "model", span_of_str("public")));
    st = journal_update_put(j, &u);
    if (st != SEFL_EEXIST)
        SEFL_TRY(st);
    SEFL_TRY(journal_update_get(j, 2, u.client, &got));
    SEFL_TRY(journal_fact_get(j, 2, "fact", &b));
    SEFL_TRY(journal_secret_get(j, 2, "mask", &b));
    SEFL_TRY(journal_file_get(j, 2, "model", &b));
    SEFL_TRY(journal_path(j, &b, 2, "bodies"));
    SEFL_TRY(journal_kem_put(j, 2, u.client));
    SEFL_TRY(journal_kem_get(j, 2, u.client));
    SEFL_TRY(journal_kem_wipe(j, 2));
    SEFL_TRY(journal_round_wipe(j, 2));
done:
    if (j)
        journal_rollback(j);
    journal_close(j);
    buf_clear(&b);
    return st;
}

static void faults(void **state)
{
    (void)state;
    place p;
    place_make(&p, "faults");
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC, FAULT_READ };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        TEST_FAULTS(kinds[i], st = everything(p.folder, &p.rng), (void)0);
    CHECK_OK(everything(p.folder, &p.rng));
}

typedef struct worker {
    journal *j;
    uint8_t id;
    unsigned rounds;
    sefl_rng rng;
} worker;

static sefl_status work(worker *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    for (unsigned i = 0; i < w->rounds; i++) {
        uint64_t round = 10 * i + w->id;
        journal_update u = update_of(1, w->id), got;
        u.round = i;
        SEFL_TRY(journal_update_put(w->j, &u));
        /* two facts of one transaction */
        uint8_t value[8];
        store_u64(value, round);
        SEFL_TRY(journal_begin(w->j));
        SEFL_TRY(journal_fact_put(w->j, 0, "one", span_of(value, 8)));
        SEFL_TRY(journal_fact_put(w->j, 0, "two", span_of(value, 8)));
        SEFL_TRY(journal_commit(w->j));
        SEFL_TRY(journal_secret_put(w->j, round, "mask", span_of(value, 8), &w->rng));
        buf_reset(&b);
        SEFL_TRY(journal_secret_get(w->j, round, "mask", &b));
        SEFL_CHECK(b.n == 8 && memcmp(b.p, value, 8) == 0, SEFL_ESTATE, "not mine");
        SEFL_TRY(journal_round_wipe(w->j, round));
        SEFL_TRY(journal_begin(w->j));
        buf_reset(&b);
        SEFL_TRY(journal_fact_get(w->j, 0, "one", &b));
        SEFL_TRY(journal_fact_get(w->j, 0, "two", &b));
        SEFL_CHECK(b.n == 16 && memcmp(b.p, b.p + 8, 8) == 0, SEFL_ESTATE, "half a transaction");
        journal_rollback(w->j);
        SEFL_TRY(journal_update_get(w->j, i, u.client, &got));
    }
done:
    if (st != SEFL_OK)
        journal_rollback(w->j);
    buf_clear(&b);
    return st;
}

static void *work_thread(void *arg)
{
    return (void *)(uintptr_t)work(arg);
}

static void threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    place p;
    place_make(&p, "threads");
    journal *j = opened(&p, task_a);
    pthread_t t[THREADS];
    worker w[THREADS];
    unsigned rounds = (unsigned)test_count(10, 200);
    for (uint8_t i = 0; i < THREADS; i++) {
        w[i] = (worker){ j, i, rounds, rng_system() };
        assert_int_equal(pthread_create(&t[i], NULL, work_thread, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *st;
        assert_int_equal(pthread_join(t[i], &st), 0);
        assert_int_equal((uintptr_t)st, SEFL_OK);
    }
    for (unsigned i = 0; i < rounds; i++) {
        uint32_t n;
        CHECK_OK(journal_update_count(j, i, &n));
        assert_int_equal(n, THREADS);
    }
    journal_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds),       cmocka_unit_test(facts),
        cmocka_unit_test(updates),      cmocka_unit_test(bodies_before),
        cmocka_unit_test(transactions), cmocka_unit_test(files),
        cmocka_unit_test(wiped),        cmocka_unit_test(wipe_is_finished),
        cmocka_unit_test(refused),      cmocka_unit_test(kept_version),
        cmocka_unit_test(kems),         cmocka_unit_test(seeds),
        cmocka_unit_test(faults),       cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
