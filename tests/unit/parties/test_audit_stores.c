/* The audit log of a reveal at CSP: whatever write or sync fails, a round has one reveal in it. */
#include "support/check.h"
#include "support/csp_desk.h"
#include "support/folder.h"

#include "base/file.h"
#include "roles/aggregator/audit_as.h"
#include "roles/audit/audit_read.h"
#include "roles/csp/audit_csp.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct site {
    desk d;
    audit_log *log;
    audit_csp audit;
    csp_store t;
    char state[300];
} site;

static sign_key *key;
static const sefl_clock *wall(void)
{
    static sefl_clock c;
    c = clock_wall();
    return &c;
}

static void open_site(site *s, const char *name)
{
    char book[320];
    task t = desk_task();
    snprintf(s->state, sizeof s->state, "%s", folder_path(name));
    snprintf(book, sizeof book, "%s.ledger", s->state);
    if (!file_exists(book))
        CHECK_OK(ledger_create(book, t.population));
    CHECK_OK(desk_open_task(&s->d, s->state, book, &t));
    CHECK_OK(audit_log_open(
        &s->log, &(audit_log_config){ .folder = s->state, .key = key, .clock = wall() }));
    s->audit = (audit_csp){ .inner = s->d.t, .log = s->log };
    s->t = audit_csp_store(&s->audit);
}

static void close_site(site *s)
{
    audit_log_close(s->log);
    desk_close(&s->d);
}

/* As csp_reveal.c: a revealed round is only repeated. */
static sefl_status reveal(const csp_store *t, uint64_t round, uint8_t attempt)
{
    sefl_status st = SEFL_OK;
    csp_round now, r = signed_round(round);
    const uint8_t id[NOISE_ID] = { attempt };
    uint8_t digest[32], kept[32], kept_id[NOISE_ID];
    sefl_buf output = { 0 };
    sha256_of(digest, span_of(&attempt, 1));
    SEFL_TRY(csp_store_get(t, round, &now));
    if (now.state == CSP_NEW)
        SEFL_TRY(csp_store_sign(t, &r));
    SEFL_TRY(csp_store_resume(t, &now));
    SEFL_TRY(csp_store_charge(t, round));
    if (now.state != CSP_REVEALED)
        st = csp_store_reveal(t, round, span_of(&attempt, 1), id, span_of(&attempt, 1), digest);
    else
        st = csp_store_kept(t, round, kept_id, &output, kept);
done:
    buf_clear(&output);
    return st;
}

/* The number of entries about the reveal of this round; all must have the statement of one attempt,
 * and the digest of its output, and be followed by a checkpoint. */
static unsigned reveals(site *s, uint64_t round)
{
    audit_reader *r = NULL;
    audit_entry e = { 0 };
    char path[320];
    bool more = true, owed = false;
    unsigned n = 0;
    sefl_buf first = { 0 }, b = { 0 };
    uint8_t digest[32], want[32];
    CHECK_OK(audit_log_sync(s->log));
    snprintf(path, sizeof path, "%s/" AUDIT_LOG_NAME, s->state);
    CHECK_OK(audit_reader_open(&r, path));
    while (more) {
        uint64_t of = 0;
        CHECK_OK(audit_reader_next(r, &e, &more));
        assert_true(!owed || (more && strcmp(e.kind, "checkpoint") == 0));
        owed = false;
        if (!more || strcmp(e.kind, "revealed") != 0 || !audit_number(&e, "round", &of) ||
            of != round)
            continue;
        buf_reset(&b);
        CHECK_OK(audit_bytes(&e, "statement", n++ == 0 ? &first : &b));
        if (n > 1)
            assert_memory_equal(first.p, b.p, first.n);
        assert_true(audit_hash(&e, "digest", digest));
        sha256_of(want, span_of(first.p, 1));
        assert_memory_equal(digest, want, sizeof want);
        owed = true;
    }
    audit_entry_clear(&e);
    audit_reader_close(r);
    buf_clear(&first);
    buf_clear(&b);
    return n;
}

static void one_reveal(void **unused)
{
    (void)unused;
#if SEFL_FAULTS
    static const fault_kind kinds[] = { FAULT_WRITE, FAULT_SYNC };
    site s;
    uint64_t round = 1;
    open_site(&s, "faults");
    for (unsigned k = 0; k < 2; k++)
        for (uint64_t nth = 1, hit = 1; hit; nth++, round++) {
            fault_arm(kinds[k], nth);
            sefl_status st = reveal(&s.t, round, 1);
            hit = fault_was_hit();
            fault_disarm();
            if (st != SEFL_OK)
                CHECK_OK(reveal(&s.t, round, 2)); /* AS tries again */
            assert_int_equal(reveals(&s, round), 1);
        }
    assert_true(round > 15);
    close_site(&s);
#endif
}

/* The mark is durable and the process dies before the entry: the next one writes it. */
static void entry_lost(void **unused)
{
    site s;
    (void)unused;
    open_site(&s, "lost");
    CHECK_OK(reveal(&s.d.t, 1, 1)); /* past the log */
    assert_int_equal(reveals(&s, 1), 0);
    close_site(&s);
    open_site(&s, "lost");
    CHECK_OK(reveal(&s.t, 1, 2)); /* AS asks for the output */
    assert_int_equal(reveals(&s, 1), 1);
    close_site(&s);
    open_site(&s, "lost");
    CHECK_OK(audit_csp_revealed(&s.audit, 1)); /* a start */
    CHECK_OK(audit_csp_revealed(&s.audit, 1));
    assert_int_equal(reveals(&s, 1), 2);
    CHECK_STATUS(audit_csp_revealed(&s.audit, 2), SEFL_ENOTFOUND);
    close_site(&s);
}

/* AS may end a task as often as it likes: that is one entry. */
static void one_end(void **unused)
{
    site s;
    struct stat before, after;
    char path[320];
    (void)unused;
    open_site(&s, "end");
    snprintf(path, sizeof path, "%s/" AUDIT_LOG_NAME, s.state);
    for (unsigned i = 0; i < 2; i++) {
        CHECK_OK(s.t.put(s.t.ctx, CSP_OVER, 0, span_of("1", 1)));
        CHECK_OK(audit_log_sync(s.log));
        assert_int_equal(stat(path, i == 0 ? &before : &after), 0);
    }
    assert_true(before.st_size > 0);
    assert_int_equal(before.st_size, after.st_size);
    close_site(&s);
}

static int clean_up(void **unused)
{
    sign_key_free(key);
    return folder_remove(unused);
}

static int set_up(void **unused)
{
    static const uint8_t seed[SIGN_SEED_BYTES] = { 7 };
    return sign_key_from(&key, seed) == SEFL_OK ? folder_make(unused) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_reveal), cmocka_unit_test(entry_lost),
                                        cmocka_unit_test(one_end) };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
