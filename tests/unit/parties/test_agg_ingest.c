/* The upload path against a real journal and spool, with an admission rule defined in this file:
 * every test runs without body_pool and with two rooms, fewer than there are concurrent uploads. */
#define _GNU_SOURCE
#include "agg_bodies.h"

#include "protocol/signed.h"
#include "roles/aggregator/ingest.h"
#include "store/journal/spool.h"
#include "support/folder.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VALUES = 2000, BODIES = 3, MOST = 3 };

/* ---- a role in small ------------------------------------------------------------------------- */

typedef struct world {
    bodies b;
    journal *j;
    sign_key *key;
    ingest *in;
    bool with_rooms;
    body_pool *body_pool;
    unsigned in_rooms; /* bodies that came in a room */
    pthread_mutex_t lock;
    uint64_t open; /* round; 0: none */
    uint64_t limit;
    round_entry taken[16];
    unsigned count;
    uint8_t *body[BODIES], hash[BODIES][32];
    uint64_t total;
} world;

static world w;
static const uint8_t task_id[32] = "a task";
static const uint8_t ann[32] = "ann", bob[32] = "bob", eve[32] = "eve";

static agg_verdict admit(void *ctx, const agg_upload *u)
{
    world *me = ctx;
    if (u->have)
        return memcmp(u->have_body, u->body, 32) == 0 ? AGG_HAVE : AGG_OTHER;
    if (u->round > me->open)
        return me->open ? AGG_EARLY : AGG_LATE;
    if (u->round < me->open)
        return AGG_LATE;
    if (u->bytes != me->total)
        return AGG_SIZE;
    return u->rounds_taken >= me->limit ? AGG_LIMIT : me->count == 16 ? AGG_FULL : AGG_ADMIT;
}

static bool has_body(void *ctx, const round_entry *m)
{
    world *me = ctx;
    for (unsigned i = 0; i < me->count; i++)
        if (memcmp(me->taken[i].body, m->body, 32) == 0)
            return true;
    return false;
}

static void took(void *ctx, uint64_t round, const round_entry *m, body_room *body)
{
    world *me = ctx;
    assert_int_equal(round, me->open);
    me->taken[me->count++] = *m;
    if (body) { /* the bytes match its name */
        uint8_t name[32];
        update_name_of(name, span_of(room_bytes(body), me->total));
        assert_memory_equal(name, m->body, sizeof name);
    }
    me->in_rooms += body != NULL;
    room_give(body);
}

static void open_round(uint64_t n)
{
    w.open = n;
    w.count = 0;
    ingest_only_round(w.in, n);
}

static void start(void)
{
    CHECK_OK(journal_open(&w.j, folder_path("state"), "aggregator", task_id));
    CHECK_OK(ingest_new(&w.in, &(ingest_config){ .task = task_id,
                                                 .ahe = &w.b.p,
                                                 .pub = w.b.pub,
                                                 .journal = w.j,
                                                 .key = w.key,
                                                 .admission = { .ctx = &w,
                                                                .lock = &w.lock,
                                                                .body_pool = w.body_pool,
                                                                .admit = admit,
                                                                .has_body = has_body,
                                                                .took = took },
                                                 .parts_most = MOST }));
}

static void stop(void)
{
    ingest_free(w.in);
    journal_close(w.j);
}

static int setup(void **state)
{
    sefl_rng rng = rng_system();
    if (folder_make(state) != 0)
        return -1;
    pthread_mutex_init(&w.lock, NULL);
    bodies_make(&w.b, "paillier", VALUES, 16);
    w.total = bodies_bytes(&w.b);
    w.limit = 1000;
    w.count = w.in_rooms = 0;
    w.open = 0;
    w.body_pool = NULL;
    if (w.with_rooms) {
        CHECK_OK(body_pool_new(&w.body_pool, w.total, 2 * (size_t)SPOOL_ROOM(w.total)));
        assert_int_equal(body_pool_most(w.body_pool), 2);
    }
    for (unsigned k = 0; k < BODIES; k++)
        w.body[k] = bodies_body(&w.b, k, w.hash[k]);
    CHECK_OK(sign_key_new(&w.key, &rng));
    start();
    return 0;
}

static int setup_rooms(void **state)
{
    w.with_rooms = true;
    return setup(state);
}

static int teardown(void **state)
{
    stop();
    if (w.with_rooms) {
        assert_int_equal(body_pool_taken(w.body_pool), 0);
        assert_true(w.in_rooms > 0);
    } else {
        assert_int_equal(w.in_rooms, 0);
    }
    body_pool_free(w.body_pool);
    sign_key_free(w.key);
    for (unsigned k = 0; k < BODIES; k++)
        sefl_free(w.body[k]);
    bodies_free(&w.b);
    return folder_remove(state);
}

/* ---- an upload ------------------------------------------------------------------------------- */

static ingest_ask ask_of(const uint8_t *client, uint64_t round, const uint8_t hash[32],
                         uint64_t offset)
{
    ingest_ask a = { .round = round,
                     .client = client,
                     .name = (const char *)client,
                     .offset = offset,
                     .total = w.total,
                     .length = w.total - offset };
    memcpy(a.body, hash, 32);
    return a;
}

/* Bytes [offset, until) in pieces; the status of the answer. until < total: the client disconnects
 * there. */
static unsigned put_part(const ingest_ask *a, const uint8_t *bytes, uint64_t until, size_t piece,
                         ingest_reply *r)
{
    upload *u;
    sefl_status st = SEFL_OK;
    ingest_begin(w.in, &u, a, r);
    if (!u)
        return r->status;
    for (uint64_t i = a->offset; i < until && st == SEFL_OK; i += piece)
        st = upload_bytes(u, span_of(bytes + i, until - i < piece ? until - i : piece));
    if (until == w.total || st != SEFL_OK)
        upload_end(u, r);
    upload_free(u);
    return r->status;
}

static unsigned put(const uint8_t *client, uint64_t round, unsigned k, size_t piece,
                    ingest_reply *r)
{
    ingest_ask a = ask_of(client, round, w.hash[k], 0);
    return put_part(&a, w.body[k], w.total, piece, r);
}

static void check_receipt(ingest_reply *r, const uint8_t *client, uint64_t round,
                          const uint8_t hash[32])
{
    envelope env;
    round_receipt got;
    CHECK_OK(envelope_read(&env, buf_span(&r->receipt)));
    CHECK_OK(envelope_check_one(&env, SIGN_RECEIPT, SIGNER_AS, sign_key_pub(w.key)));
    CHECK_OK(round_receipt_read(&got, env.content));
    assert_memory_equal(got.client, client, 32);
    assert_memory_equal(got.body, hash, 32);
    assert_memory_equal(got.task, task_id, 32);
    assert_int_equal(got.round, round);
    assert_int_equal(got.bytes, w.total);
    buf_clear(&r->receipt);
}

static uint64_t offset_of(const uint8_t *client, uint64_t round, const uint8_t hash[32])
{
    ingest_reply r;
    ingest_ask a = ask_of(client, round, hash, 0);
    ingest_offset(w.in, &a, &r);
    return r.status == 200 ? r.offset : UINT64_MAX;
}

static void check_file(const uint8_t *client, uint64_t round, unsigned k, bool there)
{
    sefl_buf path = { 0 }, bytes = { 0 };
    round_entry m;
    memcpy(m.client, client, 32);
    memcpy(m.body, w.hash[k], 32);
    CHECK_OK(ingest_body_path(w.j, &path, round, &m));
    CHECK_STATUS(file_read(&bytes, (const char *)path.p, w.total),
                 there ? SEFL_OK : SEFL_ENOTFOUND);
    if (there) {
        assert_int_equal(bytes.n, w.total);
        assert_memory_equal(bytes.p, w.body[k], w.total);
    }
    buf_clear(&path);
    buf_clear(&bytes);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void pieces_of_all_sizes(void **state)
{
    (void)state;
    static const size_t piece[] = { 1, 7, 4096, 1 << 20 };
    ingest_reply r;
    for (uint64_t round = 1; round <= 4; round++) {
        open_round(round);
        assert_int_equal(put(ann, round, 0, piece[round - 1], &r), 200);
        check_receipt(&r, ann, round, w.hash[0]);
        check_file(ann, round, 0, true);
        assert_int_equal(w.count, 1);
        assert_int_equal(put(ann, round, 0, piece[round - 1], &r), 200); /* again: its receipt */
        check_receipt(&r, ann, round, w.hash[0]);
        assert_int_equal(w.count, 1);
        assert_int_equal(offset_of(ann, round, w.hash[0]), w.total);
        assert_int_equal(put(ann, round, 1, 4096, &r), 409); /* another body of hers */
        assert_null(r.receipt.p);
        check_file(ann, round, 1, false);
        assert_int_equal(put(bob, round, 0, 4096, &r), 409); /* a copy of hers */
        assert_non_null(strstr(r.text, "another update"));
        assert_int_equal(put(bob, round, 1, 4096, &r), 200);
        check_receipt(&r, bob, round, w.hash[1]);
        assert_int_equal(w.count, 2);
        assert_int_equal(w.in_rooms, w.with_rooms ? 2 * round : 0);
    }
    assert_int_equal(ingest_count(w.in, INGEST_TAKEN), 8);
    assert_int_equal(ingest_count(w.in, INGEST_AGAIN), 4);
    assert_int_equal(ingest_count(w.in, INGEST_OTHER), 4);
    assert_int_equal(ingest_count(w.in, INGEST_COPIED), 4);
}

/* The journal grows by one row per update and stores no receipt: AS signs the same bytes again,
 * even after a restart and when the round is over. */
static void receipts_are_not_stored(void **state)
{
    (void)state;
    static const char *const files[] = { "journal.db", "journal.db-wal" };
    ingest_reply r, again;
    char path[600];
    open_round(8);
    assert_int_equal(put(ann, 8, 0, 4096, &r), 200);
    stop();
    start();
    open_round(9);
    assert_int_equal(put(ann, 8, 0, 4096, &again), 200);
    assert_int_equal(again.receipt.n, r.receipt.n);
    assert_memory_equal(again.receipt.p, r.receipt.p, r.receipt.n);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        sefl_buf b = { 0 };
        snprintf(path, sizeof path, "%s/%s", journal_folder(w.j), files[i]);
        CHECK_OK(file_read(&b, path, 1 << 24));
        if (memmem(b.p, b.n, r.receipt.p, r.receipt.n))
            fail_msg("%s holds a receipt of %zu bytes", files[i], r.receipt.n);
        buf_clear(&b);
    }
    buf_clear(&r.receipt);
    check_receipt(&again, ann, 8, w.hash[0]);
}

static void refusals(void **state)
{
    (void)state;
    ingest_reply r;
    ingest_ask a;
    open_round(20);
    assert_int_equal(put(ann, 19, 0, 4096, &r), 410);
    assert_int_equal(put(ann, 21, 0, 4096, &r), 425);
    assert_int_equal(offset_of(ann, 19, w.hash[0]), UINT64_MAX);

    a = ask_of(ann, 20, w.hash[0], 0); /* sizes */
    a.total++, a.length++;
    assert_int_equal(put_part(&a, w.body[0], 0, 1, &r), 413);
    a = ask_of(ann, 20, w.hash[0], 0);
    a.length--;
    assert_int_equal(put_part(&a, w.body[0], 0, 1, &r), 413);
    a = ask_of(ann, 20, w.hash[0], 0);
    a.offset = w.total + 1;
    assert_int_equal(put_part(&a, w.body[0], 0, 1, &r), 413);

    a = ask_of(ann, 20, w.hash[0], 100); /* nothing is here yet */
    assert_int_equal(put_part(&a, w.body[0], w.total, 4096, &r), 409);
    assert_int_equal(r.offset, 0);

    w.limit = 0;
    assert_int_equal(put(ann, 20, 0, 4096, &r), 409);
    w.limit = 1000;
    w.count = 16;
    assert_int_equal(put(eve, 20, 0, 4096, &r), 503);
    assert_int_equal(r.retry_s > 0, 1);
    open_round(20);

    uint8_t *bad = bodies_body(&w.b, 2, w.hash[2]); /* a unit in the middle */
    sefl_free(w.body[2]);
    w.body[2] = bad;
    size_t unit = w.b.p.units / 2;
    char want[64];
    bodies_spoil(&w.b, bad, unit);
    update_name_of(w.hash[2], span_of(bad, w.total));
    snprintf(want, sizeof want, "unit %zu of %zu: ", unit, w.b.p.units);
    assert_int_equal(put(ann, 20, 2, 4096, &r), 422);
    assert_memory_equal(r.text, want, strlen(want));
    assert_int_equal(offset_of(ann, 20, w.hash[2]), 0); /* its part is deleted */

    uint8_t other[32] = { 1 }; /* other bytes than the hash says */
    a = ask_of(ann, 20, other, 0);
    assert_int_equal(put_part(&a, w.body[0], w.total, 4096, &r), 422);
    assert_int_equal(offset_of(ann, 20, other), 0);
    assert_int_equal(w.count, 0);
    assert_int_equal(put(ann, 20, 0, 4096, &r), 200); /* and the client can still take part */
    buf_clear(&r.receipt);
    assert_int_equal(ingest_count(w.in, INGEST_NOT_CIPHER), 1);
    assert_int_equal(ingest_count(w.in, INGEST_HASH), 1);
}

static void broken_uploads_go_on(void **state)
{
    (void)state;
    ingest_reply r;
    const uint64_t cuts[] = { 1, 511, 512, 700, w.total - 1 };
    for (unsigned i = 0; i < 5; i++) {
        uint64_t round = 30 + i;
        open_round(round);
        ingest_ask a = ask_of(ann, round, w.hash[0], 0);
        put_part(&a, w.body[0], cuts[i], 97, &r);
        assert_int_equal(w.count, 0);
        check_file(ann, round, 0, false);
        if (i % 2) { /* the process dies in between */
            stop();
            start();
            open_round(round);
        }
        assert_int_equal(offset_of(ann, round, w.hash[0]), cuts[i]);
        assert_int_equal(offset_of(bob, round, w.hash[0]), 0); /* a part belongs to one client */
        a = ask_of(ann, round, w.hash[0], cuts[i] - 1);
#if SEFL_FAULTS
        fault_arm(FAULT_READ, 1); /* answered without reading the stored bytes */
#endif
        assert_int_equal(put_part(&a, w.body[0], w.total, 4096, &r), 409);
#if SEFL_FAULTS
        assert_false(fault_was_hit());
        fault_disarm();
#endif
        assert_int_equal(r.offset, cuts[i]);
        a = ask_of(ann, round, w.hash[0], cuts[i]);
        assert_int_equal(put_part(&a, w.body[0], w.total, 4096, &r), 200);
        check_receipt(&r, ann, round, w.hash[0]);
        check_file(ann, round, 0, true);
    }
}

/* A part whose earlier bytes are not a ciphertext (changed on disk, or left by a process that died
 * before it checked them) is refused when the upload resumes. */
static void earlier_bytes_are_checked_again(void **state)
{
    (void)state;
    ingest_reply r;
    sefl_buf path = { 0 };
    round_entry m;
    open_round(40);
    ingest_ask a = ask_of(ann, 40, w.hash[0], 0);
    put_part(&a, w.body[0], 4000, 4096, &r);
    memcpy(m.client, ann, 32);
    memcpy(m.body, w.hash[0], 32);
    CHECK_OK(ingest_body_path(w.j, &path, 40, &m));
    CHECK_OK(wr_fmt(&path, ".part"));
    CHECK_OK(wr_u8(&path, 0));
    uint8_t zeros[4000] = { 0 };
    FILE *f = fopen((const char *)path.p, "r+b");
    assert_non_null(f);
    assert_int_equal(fwrite(zeros, 1, sizeof zeros, f), sizeof zeros);
    fclose(f);
    a = ask_of(ann, 40, w.hash[0], 4000);
    assert_int_equal(put_part(&a, w.body[0], w.total, 4096, &r), 422);
    assert_int_equal(offset_of(ann, 40, w.hash[0]), 0);
    assert_int_equal(put(ann, 40, 0, 4096, &r), 200);
    check_receipt(&r, ann, 40, w.hash[0]);
    buf_clear(&path);
}

/* Durable but not in the journal: the process died in between. AS acknowledges the client's next
 * attempt without receiving a byte. */
static void a_body_without_its_row(void **state)
{
    (void)state;
    ingest_reply r;
    upload *u;
    open_round(50);
    ingest_ask a = ask_of(ann, 50, w.hash[0], 0);
    ingest_begin(w.in, &u, &a, &r);
    assert_non_null(u);
    CHECK_OK(upload_bytes(u, span_of(w.body[0], w.total)));
    upload_free(u); /* all bytes, but no end of the request */
    assert_int_equal(w.count, 0);
    assert_int_equal(offset_of(ann, 50, w.hash[0]), w.total);
    a = ask_of(ann, 50, w.hash[0], w.total);
    assert_int_equal(put_part(&a, w.body[0], w.total, 4096, &r), 200);
    check_receipt(&r, ann, 50, w.hash[0]);
    assert_int_equal(w.count, 1);
}

static void a_round_closes_in_between(void **state)
{
    (void)state;
    ingest_reply r;
    upload *u, *v;
    open_round(60);
    ingest_ask a = ask_of(ann, 60, w.hash[0], 0), b = ask_of(bob, 60, w.hash[1], 0);
    ingest_begin(w.in, &u, &a, &r);
    CHECK_OK(upload_bytes(u, span_of(w.body[0], w.total)));
    ingest_begin(w.in, &v, &b, &r);
    CHECK_OK(upload_bytes(v, span_of(w.body[1], 100)));
    open_round(0);
    assert_int_equal(w.body_pool ? body_pool_taken(w.body_pool) : 2, 2);
    upload_end(u, &r); /* complete, but too late */
    assert_int_equal(r.status, 410);
    assert_int_equal(w.body_pool ? body_pool_taken(w.body_pool) : 1, 1);
    assert_null(r.receipt.p);
    CHECK_STATUS(upload_bytes(v, span_of(w.body[1] + 100, 100)), SEFL_ESTATE);
    assert_int_equal(w.body_pool ? body_pool_taken(w.body_pool) : 0,
                     0); /* not only when the rooms are freed */
    upload_end(v, &r);
    assert_int_equal(r.status, 410);
    upload_free(u);
    upload_free(v);
    CHECK_OK(journal_round_wipe(w.j, 60));
    check_file(ann, 60, 0, false);
}

/* A reconnecting client takes over its upload; an abandoned one is deleted. */
static void later_connections_win(void **state)
{
    (void)state;
    ingest_reply r;
    upload *u, *v;
    open_round(70);
    ingest_ask a = ask_of(ann, 70, w.hash[0], 0);
    ingest_begin(w.in, &u, &a, &r);
    CHECK_OK(upload_bytes(u, span_of(w.body[0], 1000)));
    assert_int_equal(offset_of(ann, 70, w.hash[0]),
                     1000); /* even bytes that are not in the file yet */
    assert_int_equal(offset_of(ann, 70, w.hash[1]), 0);
    assert_int_equal(offset_of(bob, 70, w.hash[0]), 0);
    a = ask_of(ann, 70, w.hash[0], 1000);
    ingest_begin(w.in, &v, &a, &r);
    assert_non_null(v);
    CHECK_STATUS(upload_bytes(u, span_of(w.body[0] + 1000, 10)), SEFL_ESTATE);
    upload_end(u, &r);
    assert_int_equal(r.status, 409);
    upload_free(u);
    CHECK_OK(upload_bytes(v, span_of(w.body[0] + 1000, 1000)));
    upload_free(v);
    assert_int_equal(offset_of(ann, 70, w.hash[0]), 2000);
    assert_int_equal(put(ann, 70, 1, 4096, &r),
                     200); /* another body: the part of the first is deleted */
    check_receipt(&r, ann, 70, w.hash[1]);
    assert_int_equal(put(ann, 70, 0, 4096, &r), 409);
    check_file(ann, 70, 1, true);
}

typedef struct racer {
    pthread_t id;
    unsigned k, oks;
    const uint8_t *client;
} racer;

static void *race(void *arg)
{
    racer *me = arg;
    for (int i = 0; i < 20; i++) {
        ingest_reply r;
        unsigned status = put(me->client, 80, me->k, 1000, &r);
        if (status == 409 &&
            r.offset != UINT64_MAX) { /* bytes from another connection: continue after them */
            ingest_ask a = ask_of(me->client, 80, w.hash[me->k], r.offset);
            status = put_part(&a, w.body[me->k], w.total, 1000, &r);
        }
        me->oks += status == 200;
        buf_clear(&r.receipt);
    }
    return NULL;
}

/* Many concurrent connections of few clients: in any case one update per client, with its file. */
static void races(void **state)
{
    (void)state;
    racer r[6];
    open_round(80);
    for (unsigned i = 0; i < 6; i++) {
        r[i] = (racer){ .k = i % 2, .client = i < 3 ? ann : bob };
        assert_int_equal(pthread_create(&r[i].id, NULL, race, &r[i]), 0);
    }
    for (unsigned i = 0; i < 6; i++)
        pthread_join(r[i].id, NULL);
    assert_int_equal(w.count, 2);
    uint32_t rows;
    CHECK_OK(journal_update_count(w.j, 80, &rows));
    assert_int_equal(rows, 2);
    for (unsigned i = 0; i < 2; i++)
        check_file(w.taken[i].client, 80, memcmp(w.taken[i].body, w.hash[0], 32) == 0 ? 0 : 1,
                   true);
    assert_memory_not_equal(w.taken[0].body, w.taken[1].body, 32);
}

#if SEFL_FAULTS
/* The n-th write, sync or allocation fails: a clear refusal, no acknowledgement, and the next
 * attempt succeeds. */
static void failing_disks(void **state)
{
    (void)state;
    static const fault_kind kinds[] = { FAULT_WRITE, FAULT_SYNC, FAULT_ALLOC };
    ingest_reply r;
    uint64_t round = 100;
    for (unsigned k = 0; k < 3; k++)
        for (uint64_t nth = 1;; nth++) {
            open_round(++round);
            fault_arm(kinds[k], nth);
            unsigned status = put(ann, round, 0, 4096, &r);
            bool hit = fault_was_hit();
            fault_disarm();
            assert_int_equal(w.count, status == 200);
            if (status == 200)
                check_receipt(&r, ann, round, w.hash[0]);
            buf_clear(&r.receipt);
            if (!hit)
                break;
            if (status != 200)
                assert_int_equal(status, 503);
            uint64_t at = offset_of(ann, round, w.hash[0]);
            ingest_ask a = ask_of(ann, round, w.hash[0], at);
            assert_int_equal(put_part(&a, w.body[0], w.total, 4096, &r), 200);
            check_receipt(&r, ann, round, w.hash[0]);
            check_file(ann, round, 0, true);
            assert_int_equal(w.count, 1);
        }
}
#endif

/* ---- parts of clients that only a CA vouches for --------------------------------------------- */

/* All but the last byte, for the n-th key that this CA (NULL: none) created. */
static unsigned leave_part(const uint8_t *issuer, uint64_t round, unsigned n, ingest_reply *r)
{
    char key[32];
    memset(key, 0, sizeof key);
    snprintf(key, sizeof key, "made up %u %s", n, issuer ? (const char *)issuer : "");
    ingest_ask a = ask_of((const uint8_t *)key, round, w.hash[0], 0);
    a.issuer = issuer;
    *r = (ingest_reply){ 0 };
    return put_part(&a, w.body[0], w.total - 1, 4096, r);
}

/* Files NAME.part in the folders of a round. */
static unsigned parts_there(uint64_t round)
{
    sefl_buf path = { 0 };
    unsigned n = 0;
    CHECK_OK(journal_path(w.j, &path, round, "bodies"));
    DIR *d = opendir((const char *)path.p);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char one[600];
        size_t here;
        uint64_t bytes;
        snprintf(one, sizeof one, "%s/%s", (const char *)path.p, e->d_name);
        if (e->d_name[0] != '.') {
            CHECK_OK(spool_sweep(one, UINT64_MAX, &here, &bytes));
            n += (unsigned)here;
        }
    }
    closedir(d);
    buf_clear(&path);
    return n;
}

static bool not_this_one(void *ctx, const uint8_t client[32], const uint8_t *issuer)
{
    (void)client;
    return !issuer || memcmp(issuer, ctx, 32) != 0;
}

static void parts_of_an_issuer(void **state)
{
    (void)state;
    static uint8_t org[32] = "org", clinic[32] = "clinic";
    ingest_reply r;
    uint64_t before = ingest_count(w.in, INGEST_PARTS);
    open_round(90);
    for (unsigned i = 0; i < 10; i++) {
        unsigned status = leave_part(org, 90, i, &r);
        if (i < MOST)
            assert_int_equal(status, 0); /* accepted until it was interrupted */
        else
            assert_true(status == 503 && r.retry_s > 0);
    }
    assert_int_equal(ingest_count(w.in, INGEST_PARTS) - before, 10 - MOST);
    assert_int_equal(parts_there(90), MOST);
    assert_int_equal(leave_part(org, 90, 0, &r), 409); /* it continues its own part */
    for (unsigned i = 0; i < 10; i++)                  /* members have one each */
        assert_int_equal(leave_part(NULL, 90, i, &r), 0);
    assert_int_equal(leave_part(clinic, 90, 0, &r), 0); /* and others have their own share */
    assert_int_equal(parts_there(90), MOST + 11);

    stop(); /* the next process counts them */
    start();
    open_round(90);
    assert_int_equal(leave_part(org, 90, 20, &r), 503);
    assert_int_equal(leave_part(clinic, 90, 1, &r), 0);

    char key[32] = "made up 0 org"; /* a finished or refused part makes room */
    ingest_ask a = ask_of((const uint8_t *)key, 90, w.hash[0], w.total - 1);
    a.issuer = org;
    assert_int_equal(put_part(&a, w.body[0], w.total, 4096, &r), 200);
    buf_clear(&r.receipt);
    uint8_t *junk;
    CHECK_OK(sefl_new(&junk, w.total, 1));
    a = ask_of(eve, 90, w.hash[1], 0);
    a.issuer = org;
    assert_int_equal(put_part(&a, junk, w.total, 4096, &r), 422);
    sefl_free(junk);
    a = ask_of(bob, 90, w.hash[1], 0);
    a.issuer = org;
    assert_int_equal(put_part(&a, w.body[1], w.total - 1, 4096, &r), 0);

    /* its CA is revoked: its parts are deleted, except those that are arriving now */
    upload *u;
    a = ask_of(bob, 90, w.hash[1], w.total - 1);
    a.issuer = org;
    ingest_begin(w.in, &u, &a, &r);
    assert_non_null(u);
    unsigned all = parts_there(90);
    ingest_sweep(w.in, not_this_one, org);
    assert_int_equal(parts_there(90), all - (MOST - 1));
    upload_free(u);
    ingest_sweep(w.in, not_this_one, org);
    assert_int_equal(parts_there(90), all - MOST);
    check_file((const uint8_t *)key, 90, 0, true); /* what was acknowledged stays */

    open_round(91); /* a new round, a new share */
    assert_int_equal(leave_part(org, 91, 0, &r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_all_sizes),
        cmocka_unit_test(receipts_are_not_stored),
        cmocka_unit_test(refusals),
        cmocka_unit_test(broken_uploads_go_on),
        cmocka_unit_test(earlier_bytes_are_checked_again),
        cmocka_unit_test(a_body_without_its_row),
        cmocka_unit_test(a_round_closes_in_between),
        cmocka_unit_test(later_connections_win),
        cmocka_unit_test(races),
        cmocka_unit_test(parts_of_an_issuer),
#if SEFL_FAULTS
        cmocka_unit_test(failing_disks),
#endif
    };
    int bad = cmocka_run_group_tests_name("without body_pool", tests, setup, teardown);
    return bad + cmocka_run_group_tests_name("with body_pool", tests, setup_rooms, teardown);
}
