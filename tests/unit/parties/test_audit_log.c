/* The audit log: written, continued, torn, and changed in every byte. */
#include "support/check.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "roles/audit/audit_log.h"
#include "roles/audit/audit_read.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINES_MAX = 16, LOG_MAX = 1 << 20 };

static uint64_t now_s = 1790000000;

static uint64_t now_ns(void *self)
{
    (void)self;
    return now_s * 1000000000u;
}

static const sefl_clock clock_here = { .now_ns = now_ns };
static sign_key *key;
static char state[200], path[260], head[260];

static void fresh(const char *name)
{
    static const uint8_t seed[SIGN_SEED_BYTES] = { 7 };
    if (!key)
        CHECK_OK(sign_key_from(&key, seed));
    snprintf(state, sizeof state, "%s", folder_path(name));
    snprintf(path, sizeof path, "%s/" AUDIT_LOG_NAME, state);
    snprintf(head, sizeof head, "%s/" AUDIT_HEAD_NAME, state);
    assert_int_equal(mkdir(state, 0700), 0);
}

static sefl_status try_open(audit_log **a)
{
    return audit_log_open(a,
                          &(audit_log_config){ .folder = state, .key = key, .clock = &clock_here });
}

static audit_log *opened(void)
{
    audit_log *a = NULL;
    CHECK_OK(try_open(&a));
    return a;
}

/* Entries of all shapes: eight lines, the last one a checkpoint. */
static void write_some(void)
{
    uint8_t who[32] = { 1, 2, 3 };
    audit_log *a = opened();
    audit_add(a, "started", lf_str("role", "aggregator"), lf_key("task", who));
    audit_add(a, "upload", lf_u64("round", 1), lf_key("client", who), lf_key("body", who));
    audit_add(a, "refused", lf_str("reason", "a \"quoted\"\nname \xc3\xa9"));
    CHECK_OK(audit_log_sign(a));
    audit_add(a, "skipped", lf_u64("round", 1), lf_bool("charged", false));
    audit_add(a, "stopped");
    CHECK_OK(audit_log_sign(a));
    CHECK_OK(audit_log_sign(a)); /* the last entry is a checkpoint already */
    audit_log_close(a);
}

static void read_log(sefl_buf *out)
{
    buf_reset(out);
    CHECK_OK(file_read(out, path, LOG_MAX));
}

static void write_log(sefl_span bytes)
{
    CHECK_OK(file_write_atomic(path, bytes, 0600));
}

/* Reads the log to its end; returns the number of good lines. *st: the first failure. */
static uint64_t good_lines(sefl_status *st, size_t *rest)
{
    audit_reader *r = NULL;
    audit_entry e = { 0 };
    bool more = true;
    CHECK_OK(audit_reader_open(&r, path));
    do
        *st = audit_reader_next(r, &e, &more);
    while (*st == SEFL_OK && more);
    uint64_t n = audit_reader_lines(r);
    *rest = audit_reader_rest(r);
    audit_entry_clear(&e);
    audit_reader_close(r);
    return n;
}

static void read_back(void **unused)
{
    audit_reader *r = NULL;
    audit_entry e = { 0 };
    bool more;
    uint64_t n;
    uint8_t who[32];
    sefl_span text;
    sefl_buf b = { 0 }, c = { 0 };
    (void)unused;
    fresh("back");
    write_some();
    CHECK_OK(audit_reader_open(&r, path));
    CHECK_OK(audit_reader_next(r, &e, &more));
    assert_string_equal(e.kind, "started");
    assert_int_equal(e.n, 1);
    assert_int_equal(e.time, now_s);
    CHECK_OK(audit_reader_next(r, &e, &more));
    assert_true(audit_number(&e, "round", &n) && n == 1);
    assert_true(audit_hash(&e, "client", who) && who[2] == 3);
    assert_false(audit_number(&e, "client", &n));
    assert_false(audit_hash(&e, "nothing", who));
    CHECK_OK(audit_reader_next(r, &e, &more));
    assert_true(audit_text(&e, "reason", &text));
    assert_memory_equal(text.p, "a \"quoted\"\nname \xc3\xa9", text.n);
    CHECK_OK(audit_reader_next(r, &e, &more));
    assert_string_equal(e.kind, "checkpoint");
    CHECK_OK(audit_bytes(&e, "signature", &b));
    uint8_t bytes[AUDIT_SIGNED_BYTES];
    audit_signed_bytes(bytes, e.n - 1, e.prev);
    CHECK_OK(sign_check(b.p, sign_key_pub(key), SIGN_AUDIT, span_of(bytes, sizeof bytes)));
    while (more)
        CHECK_OK(audit_reader_next(r, &e, &more));
    assert_int_equal(audit_reader_lines(r), 7);
    assert_int_equal(audit_reader_rest(r), 0);
    /* audit.head is the last line */
    CHECK_OK(file_read(&c, head, LOG_MAX));
    assert_memory_equal(c.p, audit_reader_line(r).p, c.n - 1);
    audit_reader_close(r);
    audit_entry_clear(&e);
    buf_clear(&b);
    buf_clear(&c);
}

static void continued(void **unused)
{
    sefl_status st;
    size_t rest;
    (void)unused;
    fresh("continued");
    for (int i = 0; i < 3; i++)
        write_some();
    assert_int_equal(good_lines(&st, &rest), 21);
    CHECK_OK(st);
}

/* A torn last line is removed, and the log goes on. */
static void torn(void **unused)
{
    sefl_buf b = { 0 };
    sefl_status st;
    size_t rest;
    (void)unused;
    fresh("torn");
    write_some();
    read_log(&b);
    const size_t whole = b.n;
    CHECK_OK(wr_fmt(&b, "{\"n\":8,\"time\":17900"));
    write_log(buf_span(&b));
    assert_int_equal(good_lines(&st, &rest), 7);
    CHECK_OK(st);
    assert_int_equal(rest, b.n - whole);
    write_some();
    assert_int_equal(good_lines(&st, &rest), 14);
    CHECK_OK(st);
    assert_int_equal(rest, 0);
    buf_clear(&b);
}

/* Every byte of every line: the reader names that line. */
static void every_byte(void **unused)
{
    static const uint8_t flips[] = { 1, 0x80 };
    sefl_buf b = { 0 };
    uint64_t line = 0;
    (void)unused;
    fresh("bytes");
    write_some();
    read_log(&b);
    for (size_t i = 0; i < b.n; i++) {
        for (size_t k = 0; k < sizeof flips; k++) {
            sefl_status st;
            size_t rest;
            char want[40];
            const uint8_t was = b.p[i];
            b.p[i] ^= flips[k];
            write_log(buf_span(&b));
            const uint64_t good = good_lines(&st, &rest);
            assert_int_equal(good, line);
            snprintf(want, sizeof want, "line %llu:", (unsigned long long)line + 1);
            if (i + 1 < b.n) {
                CHECK_STATUS(st, SEFL_EPROTO);
                assert_non_null(strstr(sefl_last_error(), want));
            } else { /* the last line feed: the line counts as incomplete, and is not the head */
                CHECK_OK(st);
                assert_true(rest > 0);
            }
            b.p[i] = was;
        }
        line += b.p[i] == '\n';
    }
    buf_clear(&b);
}

typedef struct lines {
    sefl_span at[LINES_MAX];
    size_t n;
} lines;

static lines split(const sefl_buf *b)
{
    lines l = { .n = 0 };
    for (size_t i = 0, from = 0; i < b->n; i++)
        if (b->p[i] == '\n') {
            l.at[l.n++] = span_of(b->p + from, i + 1 - from);
            from = i + 1;
        }
    return l;
}

static void write_lines(const lines *l)
{
    sefl_buf b = { 0 };
    for (size_t i = 0; i < l->n; i++)
        CHECK_OK(wr_raw(&b, l->at[i].p, l->at[i].n));
    write_log(buf_span(&b));
    buf_clear(&b);
}

/* Lines that are swapped, missing or repeated. */
static void moved(void **unused)
{
    sefl_buf b = { 0 };
    sefl_status st;
    size_t rest;
    (void)unused;
    fresh("moved");
    write_some();
    read_log(&b);
    const lines all = split(&b);
    assert_int_equal(all.n, 7);
    for (size_t i = 0; i + 1 < all.n; i++) {
        lines l = all;
        l.at[i] = all.at[i + 1], l.at[i + 1] = all.at[i];
        write_lines(&l);
        assert_int_equal(good_lines(&st, &rest), i);
        CHECK_STATUS(st, SEFL_EPROTO);

        l = all; /* without line i */
        memmove(&l.at[i], &l.at[i + 1], (all.n - i - 1) * sizeof *l.at);
        l.n--;
        write_lines(&l);
        assert_int_equal(good_lines(&st, &rest), i);
        CHECK_STATUS(st, SEFL_EPROTO);

        l = all; /* line i twice */
        memmove(&l.at[i + 1], &l.at[i], (all.n - i) * sizeof *l.at);
        l.n++;
        write_lines(&l);
        assert_int_equal(good_lines(&st, &rest), i + 1);
        CHECK_STATUS(st, SEFL_EPROTO);
    }
    buf_clear(&b);
}

/* A log that lost its end, or whose last line was changed, is not continued. */
static void refused_logs(void **unused)
{
    sefl_buf b = { 0 };
    audit_log *a = NULL, *second = NULL;
    (void)unused;
    fresh("refused");
    write_some();
    read_log(&b);
    lines l = split(&b);
    l.n--;
    write_lines(&l);
    CHECK_STATUS(try_open(&a), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "ends with entry 6"));
    b.p[b.n - 10] ^= 1;
    write_log(buf_span(&b));
    CHECK_STATUS(try_open(&a), SEFL_EPROTO);
    b.p[b.n - 10] ^= 1;
    write_log(buf_span(&b));
    a = opened();
    CHECK_STATUS(try_open(&second), SEFL_ESTATE); /* one process */
    write_log(buf_span(&b));                      /* another file of the same name */
    audit_add(a, "stopped");
    CHECK_STATUS(audit_log_sync(a), SEFL_ESTATE);
    audit_log_close(a);
    CHECK_OK(audit_log_sync(NULL));
    audit_log_close(NULL);
    buf_clear(&b);
}

#if SEFL_FAULTS
/* A sync or write fails, and the kernel drops what it had taken: as zeros, half of it, or all. */
static void dropped(void **unused)
{
    static const fault_kind kinds[] = { FAULT_WRITE, FAULT_SYNC };
    sefl_status st;
    size_t rest;
    (void)unused;
    for (unsigned i = 0; i < 6; i++) {
        struct stat before, after;
        char name[20];
        snprintf(name, sizeof name, "dropped %u", i);
        fresh(name);
        audit_log *a = opened();
        audit_add(a, "started", lf_str("role", "csp"));
        CHECK_OK(audit_log_sign(a));
        assert_int_equal(stat(path, &before), 0);
        audit_add(a, "skipped", lf_u64("round", 1));
        fault_arm(kinds[i % 2], 1);
        CHECK_STATUS(audit_log_sync(a), SEFL_EIO);
        fault_disarm();
        assert_int_equal(stat(path, &after), 0);
        const off_t grown = after.st_size - before.st_size;
        assert_int_equal(truncate(path, before.st_size + (i / 2 == 1 ? grown / 2 : 0)), 0);
        if (i / 2 == 0) /* the length stays */
            assert_int_equal(truncate(path, after.st_size), 0);
        audit_add(a, "skipped", lf_u64("round", 2));
        CHECK_OK(audit_log_sync(a));
        CHECK_OK(audit_log_sign(a));
        audit_log_close(a);
        assert_int_equal(good_lines(&st, &rest), 5);
        CHECK_OK(st);
        assert_int_equal(rest, 0);
    }
}
#endif

static bool log_has(const char *text)
{
    sefl_buf b = { 0 };
    read_log(&b);
    CHECK_OK(wr_u8(&b, 0));
    bool has = strstr((const char *)b.p, text) != NULL;
    buf_clear(&b);
    return has;
}

/* Equal refusals get one entry until the next checkpoint; the rest is counted there. */
static void many_refusals(void **unused)
{
    sefl_status st;
    size_t rest;
    uint8_t loud[32] = { 1 }, quiet[32] = { 2 };
    (void)unused;
    fresh("many");
    audit_log *a = opened();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 300; i++)
            audit_refused(a, lf_key("client", loud), lf_str("reason", "upload.head"));
        audit_refused(a, lf_key("client", loud), lf_str("reason", "upload.late"));
        audit_refused(a, lf_key("client", quiet), lf_str("reason", "upload.head"));
        CHECK_OK(audit_log_sync(a));
        assert_int_equal(good_lines(&st, &rest), 5 * round + 3);
        CHECK_OK(audit_log_sign(a)); /* the count and the checkpoint */
        assert_int_equal(good_lines(&st, &rest), 5 * round + 5);
        CHECK_OK(st);
        assert_true(log_has("\"kind\":\"more_refused\",\"count\":299"));
    }
    /* strangers share a few entries; the limit of a second holds for all */
    const uint64_t before = good_lines(&st, &rest);
    now_s++;
    for (unsigned i = 0; i < 100; i++) {
        char name[20];
        snprintf(name, sizeof name, "site %u", i);
        audit_refused(a, lf_str("name", name), lf_str("reason", "enrol.refused"));
    }
    CHECK_OK(audit_log_sync(a));
    assert_int_equal(good_lines(&st, &rest), before + AUDIT_REFUSED_STRANGE);
    for (unsigned i = 0; i < 100; i++) {
        uint8_t client[32] = { 3, (uint8_t)i };
        audit_refused(a, lf_key("client", client), lf_str("reason", "upload.head"));
    }
    CHECK_OK(audit_log_sync(a));
    assert_int_equal(good_lines(&st, &rest), before + AUDIT_REFUSED_PER_S);
    now_s++;
    audit_refused(a, lf_key("client", quiet), lf_str("reason", "upload.head"));
    CHECK_OK(audit_log_sync(a));
    assert_int_equal(good_lines(&st, &rest), before + AUDIT_REFUSED_PER_S + 1);
    audit_log_close(a);
}

/* A request that is accepted again and again gets one entry until the next checkpoint. */
static void repeated(void **unused)
{
    sefl_status st;
    size_t rest;
    uint8_t one[32] = { 1 }, other[32] = { 2 };
    (void)unused;
    fresh("repeated");
    audit_log *a = opened();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 50; i++) {
            audit_once(a, "enrolled", lf_str("name", "w-1"), lf_key("client", one));
            audit_once(a, "enrolled", lf_str("name", "w-2"), lf_key("client", other));
        }
        CHECK_OK(audit_log_sync(a));
        assert_int_equal(good_lines(&st, &rest), 3 * round + 2);
        CHECK_OK(audit_log_sign(a));
        assert_int_equal(good_lines(&st, &rest), 3 * round + 3);
        CHECK_OK(st);
    }
    audit_once(NULL, "enrolled", lf_str("name", "w-1"));
    audit_log_close(a);
}

/* Certificates: a stranger makes new keys at will; those of the list are not crowded out. */
static void many_certificates(void **unused)
{
    sefl_status st;
    size_t rest;
    x509_peer p = { .name = "ward" };
    (void)unused;
    fresh("certificates");
    audit_log *a = opened();
    now_s++;
    for (unsigned i = 0; i < 200; i++) {
        p.code = i % 2 ? X509_UNKNOWN_ISSUER : X509_NOT_LISTED;
        p.fingerprint[0] = (uint8_t)(i + 1);
        audit_peer_refused(a, "aggregator", &p);
    }
    CHECK_OK(audit_log_sync(a));
    assert_int_equal(good_lines(&st, &rest), 2 * AUDIT_REFUSED_CERTS);
    assert_true(log_has("\"name\":\"ward\",\"reason\":\"certificate.not_enrolled\""));
    p.code = X509_WITHDRAWN, p.listed = true;
    audit_peer_refused(a, "aggregator", &p);
    audit_peer_refused(a, "aggregator", &p);
    p = (x509_peer){ .code = X509_NONE };
    audit_peer_refused(a, "csp", &p);
    CHECK_OK(audit_log_sync(a));
    assert_int_equal(good_lines(&st, &rest), 2 * AUDIT_REFUSED_CERTS + 2);
    assert_true(log_has("\"by\":\"aggregator\",\"client\":\"c8"));
    assert_true(
        log_has("\"by\":\"csp\",\"key\":\"\",\"name\":\"\",\"reason\":\"certificate.no_certif"));
    audit_log_close(a);
}

static sefl_status open_with(audit_log **a, journal *j)
{
    return audit_log_open(
        a, &(audit_log_config){ .folder = state, .key = key, .clock = &clock_here, .journal = j });
}

/* The journal names the last checkpoint: a log written anew, or without a head, is refused. */
static void known_checkpoint(void **unused)
{
    static const uint8_t task[32] = { 9 };
    audit_log *a = NULL;
    journal *j = NULL;
    (void)unused;
    fresh("known");
    CHECK_OK(journal_open(&j, state, "aggregator", task));
    for (int i = 0; i < 2; i++) { /* entries may follow the checkpoint */
        CHECK_OK(open_with(&a, j));
        audit_add(a, "started", lf_key("task", task));
        CHECK_OK(audit_log_sign(a));
        audit_add(a, "upload", lf_u64("round", 1));
        audit_log_close(a);
    }
    assert_int_equal(unlink(head), 0);
    CHECK_STATUS(open_with(&a, j), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "audit.head is missing"));
    assert_int_equal(unlink(path), 0);
    write_some(); /* a chain that is right, and not ours */
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(open_with(&a, j), SEFL_ESTATE);
        assert_non_null(strstr(sefl_last_error(), "it lacks the checkpoint 5"));
        assert_int_equal(i == 0 ? unlink(head) : 0, 0);
    }
    assert_int_equal(unlink(path), 0);
    CHECK_OK(open_with(&a, j)); /* both are lost */
    audit_log_close(a);
    assert_true(log_has("\"kind\":\"log_lost\",\"checkpoint\":5,"));
    journal_close(j);
}

static sefl_status open_small(audit_log **a, journal *j)
{
    return audit_log_open(
        a, &(audit_log_config){
               .folder = state, .key = key, .clock = &clock_here, .journal = j, .file_max = 600 });
}

/* A long log has several files, which read as one; a crash in between leaves one that goes on. */
static void rotated(void **unused)
{
    static const uint8_t task[32] = { 9 };
    audit_log *a = NULL;
    journal *j = NULL;
    sefl_status st;
    size_t rest, files;
    struct stat none = { 0 };
    sefl_buf names = { 0 }, b = { 0 };
    char older[PATH_MAX];
    uint64_t total = 0;
    (void)unused;
    fresh("rotated");
    CHECK_OK(journal_open(&j, state, "aggregator", task));
    for (unsigned i = 1; i <= 20; i++) {
        CHECK_OK(open_small(&a, j));
        audit_add(a, "upload", lf_u64("round", i), lf_key("client", task));
        CHECK_OK(audit_log_sign(a));
        total += 2;
        if (i % 3 == 0) { /* lines without a checkpoint stay in the file */
            audit_add(a, "upload", lf_u64("round", i), lf_key("client", task));
            total++;
        }
        audit_log_close(a);
        assert_int_equal(good_lines(&st, &rest), total);
        CHECK_OK(st);
        if (i % 4 == 0) { /* a crash after the new name and before the new file */
            audit_log *c = NULL;
            CHECK_OK(open_small(&c, j));
            audit_add(c, "stopped");
            CHECK_OK(audit_log_sync(c));
            audit_log_close(c);
            CHECK_OK(audit_older_path(older, path, ++total));
            assert_int_equal(link(path, older), 0);
            assert_int_equal(good_lines(&st, &rest), total);
            CHECK_OK(st);
        }
    }
    CHECK_OK(audit_older(&names, &files, path, &none));
    assert_true(files > 3);
    assert_int_equal(good_lines(&st, &rest), total);
    CHECK_OK(st);
    CHECK_OK(file_read(&b, (const char *)names.p, LOG_MAX)); /* the first file */
    b.p[b.n - 100] ^= 1;
    CHECK_OK(file_write_atomic((const char *)names.p, buf_span(&b), 0600));
    assert_true(good_lines(&st, &rest) < 10);
    CHECK_STATUS(st, SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), (const char *)names.p));
    assert_int_equal(unlink((const char *)names.p), 0);
    assert_int_equal(good_lines(&st, &rest), 0);
    CHECK_STATUS(st, SEFL_EPROTO);
    /* no new log beside older files */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(head), 0);
    CHECK_STATUS(open_small(&a, j), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "older files"));
    journal_close(j);
    buf_clear(&names);
    buf_clear(&b);
}

static void *sign_log(void *log)
{
    CHECK_OK(audit_log_sign(log));
    return NULL;
}

/* Two threads sign: no checkpoint before the journal names the one before it. Otherwise a late name
 * could be of a checkpoint that is only in an older file, and no start would accept the log. */
static void one_checkpoint_after_another(void **unused)
{
    static const uint8_t task[32] = { 9 };
    audit_log *a = NULL;
    journal *j = NULL;
    pthread_t signer[2];
    sefl_buf first = { 0 }, now = { 0 };
    (void)unused;
    fresh("threads");
    CHECK_OK(journal_open(&j, state, "aggregator", task));
    CHECK_OK(open_small(&a, j));
    CHECK_OK(journal_begin(j)); /* the journal is busy */
    audit_add(a, "upload", lf_u64("round", 1));
    assert_int_equal(pthread_create(&signer[0], NULL, sign_log, a), 0);
    for (int i = 0; i < 5000 && !file_exists(head); i++)
        usleep(1000);
    CHECK_OK(file_read(&first, head, LOG_MAX));
    audit_add(a, "upload", lf_u64("round", 2), lf_str("text", head));
    assert_int_equal(pthread_create(&signer[1], NULL, sign_log, a), 0);
    for (int i = 0; i < 200; i++) {
        buf_reset(&now);
        CHECK_OK(file_read(&now, head, LOG_MAX));
        assert_true(now.n == first.n && memcmp(now.p, first.p, now.n) == 0);
        usleep(1000);
    }
    journal_rollback(j);
    for (int i = 0; i < 2; i++)
        pthread_join(signer[i], NULL);
    audit_log_close(a);
    CHECK_OK(open_small(&a, j));
    audit_log_close(a);
    journal_close(j);
    buf_clear(&first);
    buf_clear(&now);
}

#if SEFL_FAULTS
/* Whatever write or sync of a rotation fails, the log goes on. */
static void rotation_fails(void **unused)
{
    static const fault_kind kinds[] = { FAULT_WRITE, FAULT_SYNC };
    sefl_status st;
    size_t rest;
    unsigned unnamed = 0;
    struct stat was, is;
    (void)unused;
    fresh("fails");
    audit_log *a = NULL;
    CHECK_OK(open_small(&a, NULL));
    for (unsigned k = 0; k < 2; k++)
        for (uint64_t nth = 1, hit = 1; hit; nth++) {
            for (unsigned i = 0; i < 3; i++)
                audit_add(a, "upload", lf_u64("round", nth), lf_str("text", head));
            assert_int_equal(stat(path, &was), 0);
            fault_arm(kinds[k], nth);
            st = audit_log_sign(a);
            hit = fault_was_hit();
            fault_disarm();
            assert_int_equal(stat(path, &is), 0);
            if (hit && st == SEFL_OK && is.st_ino != was.st_ino) { /* the name of the new file */
                fault_arm(FAULT_SYNC, 1);
                CHECK_STATUS(audit_log_sync(a), SEFL_EIO);
                fault_disarm();
                unnamed++;
            }
            CHECK_OK(audit_log_sign(a));
            const uint64_t before = good_lines(&st, &rest);
            CHECK_OK(st);
            audit_log_close(a);
            CHECK_OK(open_small(&a, NULL));
            assert_int_equal(good_lines(&st, &rest), before);
        }
    assert_int_equal(unnamed, 1);
    audit_log_close(a);
}
#endif

/* A journal with rounds that names no checkpoint does not belong to a log. */
static void no_checkpoint(void **unused)
{
    static const uint8_t task[32] = { 9 };
    audit_log *a = NULL;
    journal *j = NULL;
    (void)unused;
    fresh("none");
    CHECK_OK(journal_open(&j, state, "aggregator", task));
    CHECK_OK(journal_round_put(j, &(journal_round){ .round = 1, .state = 1 }));
    write_some();
    CHECK_STATUS(open_with(&a, j), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "names no checkpoint"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(head), 0);
    CHECK_OK(open_with(&a, j));
    audit_log_close(a);
    assert_true(log_has("\"kind\":\"log_lost\",\"checkpoint\":0,"));
    journal_close(j);
}

static int clean_up(void **unused)
{
    sign_key_free(key);
    return folder_remove(unused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_back),
        cmocka_unit_test(continued),
        cmocka_unit_test(torn),
        cmocka_unit_test(every_byte),
        cmocka_unit_test(moved),
        cmocka_unit_test(refused_logs),
#if SEFL_FAULTS
        cmocka_unit_test(dropped),
#endif
        cmocka_unit_test(many_refusals),
        cmocka_unit_test(repeated),
        cmocka_unit_test(many_certificates),
        cmocka_unit_test(known_checkpoint),
        cmocka_unit_test(rotated),
        cmocka_unit_test(one_checkpoint_after_another),
#if SEFL_FAULTS
        cmocka_unit_test(rotation_fails),
#endif
        cmocka_unit_test(no_checkpoint),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, clean_up);
}
