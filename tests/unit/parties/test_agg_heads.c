/* Sealed uploads against a real journal and spool: AS checks the head before it accepts a unit. */
#include "agg_bodies.h"

#include "protocol/head.h"
#include "protocol/signed.h"
#include "roles/aggregator/ingest.h"
#include "store/disk/upload_keys.h"
#include "store/journal/spool.h"
#include "support/folder.h"

#include <pthread.h>
#include <unistd.h>

enum { VALUES = 3000, CLIENTS = 3, ROUND = 7 };

static struct {
    bodies b;
    const seal_suite *seal;
    seal_key *csp;
    journal *j;
    sign_key *key, *upload[CLIENTS + 1];
    body_pool *body_pool;
    ingest *in;
    pthread_mutex_t lock;
    round_entry taken[16];
    unsigned count;
    size_t skip;
    uint64_t total;
} w;

static const uint8_t task_id[32] = "a task", other_task[32] = "another task";
static const uint8_t who[CLIENTS][32] = { "ann", "bob", "eve" };

static agg_verdict admit(void *ctx, const agg_upload *u)
{
    (void)ctx;
    if (u->have)
        return memcmp(u->have_body, u->body, 32) == 0 ? AGG_HAVE : AGG_OTHER;
    return u->round != ROUND ? AGG_LATE : u->bytes != w.total ? AGG_SIZE : AGG_ADMIT;
}

static bool has_body(void *ctx, const round_entry *m)
{
    (void)ctx;
    for (unsigned i = 0; i < w.count; i++)
        if (memcmp(w.taken[i].body, m->body, 32) == 0)
            return true;
    return false;
}

static void took(void *ctx, uint64_t round, const round_entry *m, body_room *body)
{
    uint8_t name[32];
    (void)ctx;
    assert_int_equal(round, ROUND);
    w.taken[w.count++] = *m;
    if (body) {
        update_name_of(name, span_of(room_bytes(body) + w.skip, w.total - w.skip));
        assert_memory_equal(name, m->body, sizeof name);
    }
    room_give(body);
}

/* Ann and Bob have vouched for their keys. */
static int setup(void **state)
{
    uint8_t seed[SEAL_SEED] = { 5 };
    sefl_rng rng = rng_system();
    if (folder_make(state) != 0)
        return -1;
    pthread_mutex_init(&w.lock, NULL);
    bodies_make(&w.b, "pad", VALUES, 16);
    w.seal = seal_suite_named("x25519");
    w.skip = head_bytes(w.seal);
    w.total = w.skip + bodies_bytes(&w.b);
    w.count = 0;
    CHECK_OK(seal_key_from(&w.csp, w.seal, seed));
    CHECK_OK(body_pool_new(&w.body_pool, w.total, 2 * (size_t)SPOOL_ROOM(w.total)));
    CHECK_OK(sign_key_new(&w.key, &rng));
    for (unsigned k = 0; k <= CLIENTS; k++)
        CHECK_OK(sign_key_new(&w.upload[k], &rng));
    CHECK_OK(journal_open(&w.j, folder_path("state"), "aggregator", task_id));
    for (unsigned k = 0; k < 2; k++)
        CHECK_OK(upload_key_put(w.j, who[k], 1, sign_key_pub(w.upload[k])));
    CHECK_OK(ingest_new(&w.in, &(ingest_config){ .task = task_id,
                                                 .seal = w.seal,
                                                 .ahe = &w.b.p,
                                                 .journal = w.j,
                                                 .key = w.key,
                                                 .admission = { .lock = &w.lock,
                                                                .body_pool = w.body_pool,
                                                                .admit = admit,
                                                                .has_body = has_body,
                                                                .took = took } }));
    ingest_only_round(w.in, ROUND);
    return 0;
}

static int teardown(void **state)
{
    ingest_free(w.in);
    journal_close(w.j);
    assert_int_equal(body_pool_taken(w.body_pool), 0);
    body_pool_free(w.body_pool);
    seal_key_free(w.csp);
    sign_key_free(w.key);
    for (unsigned k = 0; k <= CLIENTS; k++)
        sign_key_free(w.upload[k]);
    bodies_free(&w.b);
    return folder_remove(state);
}

/* ---- an upload ------------------------------------------------------------------------------- */

typedef struct made {
    const uint8_t *task, *client;
    uint64_t round;
    const sign_key *key;
} made;

/* Body k with a head as f says. */
static uint8_t *body_of(unsigned k, const made *f, uint8_t hash[32])
{
    uint8_t *units = bodies_body(&w.b, k, hash), *out, seed[HEAD_SEED] = { 3 };
    sefl_rng rng = rng_system();
    CHECK_OK(sefl_new(&out, w.total, 1));
    memcpy(out + w.skip, units, w.total - w.skip);
    sefl_free(units);
    head_facts h = { .suite = w.seal,
                     .task = f->task ? f->task : task_id,
                     .round = f->round ? f->round : ROUND,
                     .client = f->client ? f->client : who[k],
                     .units = hash };
    CHECK_OK(head_make(out, &h, seal_key_pub(w.csp), seed, f->key ? f->key : w.upload[k], &rng));
    return out;
}

static ingest_ask ask_of(unsigned k, const uint8_t hash[32], uint64_t offset)
{
    ingest_ask a = { .round = ROUND,
                     .client = who[k],
                     .name = (const char *)who[k],
                     .offset = offset,
                     .total = w.total,
                     .length = w.total - offset };
    memcpy(a.body, hash, 32);
    return a;
}

static uint64_t offset_here(unsigned k, const uint8_t hash[32])
{
    ingest_reply r;
    ingest_ask a = ask_of(k, hash, 0);
    ingest_offset(w.in, &a, &r);
    return r.offset;
}

/* Bytes [offset, until) in pieces; the status of the answer, 0 if interrupted. */
static unsigned put(unsigned k, const uint8_t hash[32], const uint8_t *body, uint64_t offset,
                    uint64_t until, size_t piece, ingest_reply *r)
{
    upload *u;
    sefl_status st = SEFL_OK;
    ingest_ask a = ask_of(k, hash, offset);
    ingest_begin(w.in, &u, &a, r);
    if (!u)
        return r->status;
    for (uint64_t i = offset; i < until && st == SEFL_OK; i += piece)
        st = upload_bytes(u, span_of(body + i, until - i < piece ? until - i : piece));
    if (until == w.total || st != SEFL_OK)
        upload_end(u, r);
    upload_free(u);
    buf_clear(&r->receipt);
    return r->status;
}

/* Only the head is sent: AS refuses it before a unit, and keeps nothing. */
static void refused(unsigned k, const uint8_t hash[32], const uint8_t *body, const char *says)
{
    static const size_t pieces[] = { 1, 71, 100, 4096 };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        ingest_reply r;
        uint64_t before = ingest_count(w.in, INGEST_HEAD);
        assert_int_equal(put(k, hash, body, 0, w.skip, pieces[i], &r), 422);
        if (!strstr(r.text, says))
            fail_msg("\"%s\" does not say \"%s\"", r.text, says);
        assert_int_equal(r.end, INGEST_HEAD);
        assert_int_equal(ingest_count(w.in, INGEST_HEAD), before + 1);
        assert_int_equal(offset_here(k, hash), 0);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void heads_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        const char *says;
    } changes[] = {
        { 0, "" },
        { 4, "" },
        { 6, "" },
        { 8, "another client" },
        { 39, "another client" },
        { 40, "another update" },
        { 71, "another update" },
        { 72, "" },
        { 110, "" },
        { 152, "" },
        { 215, "" },
    };
    uint8_t hash[32], *body = body_of(0, &(made){ 0 }, hash), other[32];
    ingest_reply r;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        body[changes[i].at] ^= 1;
        refused(0, hash, body, changes[i].says);
        body[changes[i].at] ^= 1;
    }
    memset(other, 1, sizeof other); /* the path names another update */
    refused(0, other, body, "another update");
    assert_int_equal(w.count, 0);
    const made made_so[] = {
        { .client = who[1], .key = w.upload[1] }, /* Bob's very own */
        { .client = who[1] },                     /* in Bob's name */
        { .key = w.upload[1] },
        { .key = w.upload[3] },
        { .round = ROUND + 1 },
        { .round = ROUND - 1 },
        { .task = other_task },
    };
    for (size_t i = 0; i < sizeof made_so / sizeof *made_so; i++) {
        uint8_t *bad = body_of(0, &made_so[i], hash);
        refused(0, hash, bad, "");
        sefl_free(bad);
    }
    assert_int_equal(w.count, 0);
    assert_int_equal(put(0, hash, body, 0, w.total, 4096, &r), 200); /* the valid one is accepted */
    assert_int_equal(w.count, 1);
    sefl_free(body);
}

static void pieces_of_all_sizes(void **state)
{
    (void)state;
    static const size_t pieces[] = { 1, 7, 215, 216, 217, 4096, 1 << 20 };
    uint8_t hash[32], *body = body_of(0, &(made){ 0 }, hash);
    ingest_reply r;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        sefl_buf path = { 0 }, got = { 0 };
        body[w.total - 1] ^= 1; /* other units than the head says: detected at the end */
        assert_int_equal(put(0, hash, body, 0, w.total, pieces[i], &r), 422);
        assert_int_equal(r.end, INGEST_HASH);
        body[w.total - 1] ^= 1;
        assert_int_equal(offset_here(0, hash), 0);
        if (i + 1 < sizeof pieces / sizeof *pieces)
            continue;
        assert_int_equal(put(0, hash, body, 0, w.total, pieces[i], &r), 200);
        CHECK_OK(ingest_body_path(w.j, &path, ROUND, &w.taken[0]));
        CHECK_OK(file_read(&got, (const char *)path.p, w.total));
        assert_int_equal(got.n, w.total);
        assert_memory_equal(got.p, body, w.total);
        buf_clear(&path);
        buf_clear(&got);
    }
    assert_int_equal(put(1, hash, body, 0, w.total, 4096, &r), 409); /* Bob has the same units */
    sefl_free(body);
}

/* Eve has no voucher: AS tells her before she sends a byte. A new voucher invalidates old heads. */
static void vouchers(void **state)
{
    (void)state;
    uint8_t hash[32], *body = body_of(2, &(made){ 0 }, hash);
    uint64_t bytes = ingest_bytes(w.in);
    ingest_reply r;
    assert_int_equal(put(2, hash, body, 0, w.total, 4096, &r), 403);
    assert_int_equal(r.end, INGEST_VOUCHER);
    assert_non_null(strstr(r.text, "no voucher"));
    assert_int_equal(ingest_bytes(w.in), bytes);
    CHECK_OK(upload_key_put(w.j, who[2], 5, sign_key_pub(w.upload[3])));
    refused(2, hash, body, "");
    CHECK_STATUS(upload_key_put(w.j, who[2], 4, sign_key_pub(w.upload[2])), SEFL_ESTATE);
    CHECK_STATUS(upload_key_put(w.j, who[2], 5, sign_key_pub(w.upload[2])), SEFL_ESTATE);
    CHECK_STATUS(upload_key_put(w.j, who[2], 6, sign_key_pub(w.upload[1])),
                 SEFL_ESTATE); /* Bob's */
    CHECK_OK(upload_key_put(w.j, who[2], 6, sign_key_pub(w.upload[2])));
    assert_int_equal(put(2, hash, body, 0, w.total, 4096, &r), 200);
    sefl_free(body);
}

/* Interrupted in the head, at its end, after it: AS checks the stored bytes again when the upload
 * resumes. */
static void broken_uploads_go_on(void **state)
{
    (void)state;
    uint8_t hash[32], *body = body_of(1, &(made){ 0 }, hash);
    const uint64_t places[] = { 50, w.skip - 1, w.skip, w.skip + 31, w.skip + 1000, w.total - 1 };
    const size_t n = sizeof places / sizeof *places;
    ingest_reply r;
    sefl_buf path = { 0 };
    round_entry m;
    memcpy(m.client, who[1], 32);
    memcpy(m.body, hash, 32);
    CHECK_OK(ingest_body_path(w.j, &path, ROUND, &m));
    path.p[path.n] = 0;
    for (size_t i = 0; i < n; i++) { /* a head that was changed on disk */
        char part[600];
        put(1, hash, body, 0, places[i], 4096, &r);
        assert_int_equal(offset_here(1, hash), places[i]);
        snprintf(part, sizeof part, "%s.part", (const char *)path.p);
        FILE *f = fopen(part, "r+b");
        assert_non_null(f);
        assert_int_equal(fseek(f, 20, SEEK_SET), 0);
        assert_int_equal(fputc(body[20] ^ 1, f), body[20] ^ 1);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(put(1, hash, body, places[i], w.total, 4096, &r), 422);
        assert_int_equal(r.end, INGEST_HEAD);
        assert_int_equal(offset_here(1, hash), 0);
    }
    for (size_t i = 0; i < n; i++) {
        put(1, hash, body, i ? places[i - 1] : 0, places[i], 4096, &r);
        assert_int_equal(offset_here(1, hash), places[i]);
    }
    assert_int_equal(put(1, hash, body, places[n - 1], w.total, 4096, &r), 200);
    buf_clear(&path);
    sefl_free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(heads_that_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(pieces_of_all_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(vouchers, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_uploads_go_on, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
