#include "agg_bodies.h"

#include "base/blake3.h"
#include "roles/aggregator/collect.h"
#include "store/journal/spool.h"
#include "support/folder.h"

#include <stdatomic.h>
#include <unistd.h>

static _Atomic bool hold; /* blocks the worker */
static char folder[256];  /* the worker's own copy: folder_path is for one thread */

enum { VALUES = 5000, BODIES = 5 };

static sefl_status path_of(void *ctx, sefl_buf *out, uint64_t round, const round_entry *m)
{
    sefl_status st = SEFL_OK;
    (void)ctx, (void)round;
    while (atomic_load(&hold))
        usleep(1000);
    SEFL_TRY(wr_fmt(out, "%s/body-%02x", folder, m->client[0]));
    SEFL_TRY(wr_u8(out, 0));
done:
    return st;
}

static void put(bodies *b, unsigned k, round_entry *m)
{
    char name[32];
    uint8_t *body = bodies_body(b, k, m->body);
    memset(m->client, 0, sizeof m->client);
    m->client[0] = (uint8_t)(0xf0 - k); /* not in the order of arrival */
    snprintf(name, sizeof name, "body-%02x", m->client[0]);
    folder_put(name, body, bodies_bytes(b));
    sefl_free(body);
}

static void check_sum(bodies *b, ahe_sum *sum, unsigned which)
{
    int64_t *v;
    CHECK_OK(sefl_new(&v, VALUES, sizeof *v));
    bodies_open(b, sum, which, v);
    for (size_t i = 0; i < VALUES; i++) {
        int64_t want = 0;
        for (unsigned k = 0; k < BODIES; k++)
            if (which >> k & 1)
                want += bodies_value(k, i);
        assert_int_equal(v[i], want);
    }
    sefl_free(v);
}

static void sums_are_exact(void **state)
{
    (void)state;
    static const char *const schemes[] = { "paillier", "pad" };
    for (size_t s = 0; s < 2; s++) {
        bodies b;
        collect *c;
        round_entry m[BODIES];
        ahe_sum *sum, *again;
        uint32_t given, summed;
        bodies_make(&b, schemes[s], VALUES, BODIES);
        CHECK_OK(collect_new(&c, &(collect_config){ .ahe = &b.p,
                                                    .pub = b.pub,
                                                    .front = UPDATE_SALT,
                                                    .clients_max = BODIES,
                                                    .threads = 2,
                                                    .path = path_of }));
        for (unsigned k = 0; k < BODIES; k++)
            put(&b, k, &m[k]);
        CHECK_STATUS(collect_add(c, 1, &m[0], false, NULL), SEFL_ESTATE);
        CHECK_STATUS(collect_close(c, 1, &sum, NULL), SEFL_ESTATE);
        collect_begin(c, 1);
        CHECK_STATUS(collect_close(c, 1, &sum, NULL), SEFL_ESTATE); /* empty */
        CHECK_STATUS(collect_add(c, 2, &m[0], false, NULL), SEFL_ESTATE);
        for (unsigned k = 0; k < BODIES; k++) {
            assert_false(collect_has_body(c, &m[k]));
            CHECK_OK(collect_add(c, 1, &m[k], k % 2 == 0, NULL));
            assert_true(collect_has_body(c, &m[k]));
            CHECK_STATUS(collect_add(c, 1, &m[k], false, NULL),
                         k + 1 < BODIES ? SEFL_EEXIST : SEFL_ERANGE);
        }
        CHECK_OK(collect_close(c, 1, &sum, NULL));
        collect_counts(c, &given, &summed);
        assert_int_equal(given, BODIES);
        assert_int_equal(summed, BODIES);
        CHECK_STATUS(collect_add(c, 1, &m[0], false, NULL), SEFL_ESTATE);
        check_sum(&b, sum, (1u << BODIES) - 1);
        CHECK_OK(collect_close(c, 1, &again, NULL));
        assert_ptr_equal(again, sum);
        collect_begin(c, 2); /* another round, other clients: nothing remains of the first */
        for (unsigned k = 1; k < 3; k++)
            CHECK_OK(collect_add(c, 2, &m[k], false, NULL));
        CHECK_OK(collect_close(c, 2, &sum, NULL));
        check_sum(&b, sum, 6);
        collect_free(c);
        bodies_free(&b);
    }
}

/* Body k in a room; NULL if none is free. */
static body_room *in_room(bodies *b, body_pool *rs, unsigned k)
{
    uint8_t hash[32], *body = bodies_body(b, k, hash);
    body_room *r = body_pool_take(rs);
    if (r)
        memcpy(room_bytes(r), body, bodies_bytes(b));
    sefl_free(body);
    return r;
}

/* Bodies in body_pool are not read: their files may be missing, unless the sum has to restart. */
static void from_rooms(void **state)
{
    (void)state;
    static const char *const schemes[] = { "paillier", "pad" };
    for (size_t s = 0; s < 2; s++) {
        bodies b;
        collect *c;
        body_pool *rs;
        round_entry m[BODIES];
        ahe_sum *sum;
        bodies_make(&b, schemes[s], VALUES, BODIES);
        size_t total = bodies_bytes(&b);
        CHECK_OK(body_pool_new(&rs, total, 3 * SPOOL_ROOM(total)));
        CHECK_OK(collect_new(&c, &(collect_config){ .ahe = &b.p,
                                                    .pub = b.pub,
                                                    .front = UPDATE_SALT,
                                                    .clients_max = BODIES,
                                                    .threads = 1,
                                                    .path = path_of,
                                                    .body_pool = rs }));
        for (unsigned k = 0; k < BODIES; k++)
            put(&b, k, &m[k]);
        unlink(folder_path("body-f0"));
        unlink(folder_path("body-ee"));
        collect_begin(c, 1);
        CHECK_OK(collect_add(c, 1, &m[0], false, in_room(&b, rs, 0)));
        CHECK_OK(collect_add(c, 1, &m[1], false, NULL));
        CHECK_OK(collect_add(c, 1, &m[2], false, in_room(&b, rs, 2)));
        CHECK_STATUS(collect_add(c, 1, &m[2], false, in_room(&b, rs, 2)), SEFL_EEXIST);
        CHECK_OK(collect_add(c, 1, &m[3], true, NULL));
        CHECK_OK(collect_close(c, 1, &sum, NULL));
        check_sum(&b, sum, 15);
        assert_int_equal(body_pool_taken(rs), 0);

        collect_begin(c, 2); /* abandoned while bodies wait in body_pool */
        atomic_store(&hold, true);
        CHECK_OK(collect_add(c, 2, &m[1], false, NULL));
        CHECK_OK(collect_add(c, 2, &m[0], false, in_room(&b, rs, 0)));
        CHECK_OK(collect_add(c, 2, &m[2], false, in_room(&b, rs, 2)));
        assert_int_equal(body_pool_taken(rs), 2);
        collect_begin(c, 3);
        assert_int_equal(body_pool_taken(rs), 0);
        atomic_store(&hold, false);

        for (unsigned k = 0; k < BODIES; k++)
            put(&b, k, &m[k]);
        m[1].body[0] ^= 1; /* spoils the sum: bodies from rooms are then read from their files */
        CHECK_OK(collect_add(c, 3, &m[0], false, in_room(&b, rs, 0)));
        CHECK_OK(collect_add(c, 3, &m[1], true, NULL));
        CHECK_STATUS(collect_close(c, 3, &sum, NULL), SEFL_ECRYPTO);
        assert_int_equal(body_pool_taken(rs), 0);
        CHECK_OK(collect_add(c, 3, &m[2], false, in_room(&b, rs, 2))); /* counted, not summed */
        assert_int_equal(body_pool_taken(rs), 0);
        collect_free(c);
        body_pool_free(rs);
        bodies_free(&b);
    }
}

/* A round that is abandoned while its bodies are being added leaves nothing. */
static void rounds_can_be_given_up(void **state)
{
    (void)state;
    bodies b;
    collect *c;
    round_entry m[BODIES];
    ahe_sum *sum;
    bodies_make(&b, "paillier", VALUES, BODIES);
    CHECK_OK(collect_new(&c, &(collect_config){ .ahe = &b.p,
                                                .pub = b.pub,
                                                .front = UPDATE_SALT,
                                                .clients_max = BODIES,
                                                .threads = 1,
                                                .path = path_of }));
    for (unsigned k = 0; k < BODIES; k++)
        put(&b, k, &m[k]);
    for (uint64_t round = 1; round < 50; round++) {
        collect_begin(c, round);
        for (unsigned k = 0; k < BODIES; k++)
            CHECK_OK(collect_add(c, round, &m[k], false, NULL));
        usleep((useconds_t)(round * 20));
    }
    collect_begin(c, 99);
    CHECK_OK(collect_add(c, 99, &m[3], true, NULL));
    CHECK_OK(collect_close(c, 99, &sum, NULL));
    check_sum(&b, sum, 8);
    collect_free(c);
    bodies_free(&b);
}

/* Refused clients: their bodies, after the head, are subtracted; if one cannot be read, the sum
 * restarts without it. */
static void bodies_are_taken_off(void **state)
{
    (void)state;
    enum { SKIP = 216 };
    bodies b;
    collect *c;
    round_entry m[BODIES], got;
    ahe_sum *sum;
    bodies_make(&b, "pad", VALUES, BODIES);
    for (unsigned lost = 0; lost < 2; lost++) {
        CHECK_OK(collect_new(&c, &(collect_config){ .ahe = &b.p,
                                                    .pub = b.pub,
                                                    .front = SKIP + UPDATE_SALT,
                                                    .clients_max = BODIES,
                                                    .threads = 2,
                                                    .path = path_of }));
        collect_begin(c, 1);
        for (unsigned k = 0; k < BODIES; k++) {
            char name[32];
            uint8_t *units, *body;
            put(&b, k, &m[k]); /* names and seeds */
            units = bodies_body(&b, k, m[k].body);
            CHECK_OK(sefl_new(&body, SKIP + bodies_bytes(&b), 1));
            memset(body, 0xaa, SKIP);
            memcpy(body + SKIP, units, bodies_bytes(&b));
            snprintf(name, sizeof name, "body-%02x", m[k].client[0]);
            folder_put(name, body, SKIP + bodies_bytes(&b));
            sefl_free(units);
            sefl_free(body);
            CHECK_OK(collect_add(c, 1, &m[k], k % 2 == 0, NULL));
        }
        for (unsigned k = 0; k < BODIES; k++) {
            assert_true(collect_entry(c, 1, k, &got));
            assert_memory_equal(&got, &m[k], sizeof got);
        }
        assert_false(collect_entry(c, 1, BODIES, &got));
        assert_false(collect_entry(c, 2, 0, &got));
        CHECK_STATUS(collect_take(c, 2, m[1].client, NULL), SEFL_ESTATE);
        CHECK_OK(collect_take(c, 1, m[1].client, NULL));
        CHECK_STATUS(collect_take(c, 1, m[1].client, NULL), SEFL_ENOTFOUND);
        if (lost) {
            char path[300];
            snprintf(path, sizeof path, "%s/body-%02x", folder, m[3].client[0]);
            assert_int_equal(truncate(path, SKIP + 5000), 0);
        }
        CHECK_OK(collect_take(c, 1, m[3].client, NULL));
        CHECK_OK(collect_close(c, 1, &sum, NULL));
        check_sum(&b, sum, 21);
        CHECK_STATUS(collect_take(c, 1, m[0].client, NULL), SEFL_ESTATE); /* it is lent */
        CHECK_STATUS(collect_take(c, 1, m[3].client, NULL), SEFL_ENOTFOUND);
        collect_free(c);
    }
    bodies_free(&b);
}

static bool stop_now(void *self, uint64_t done, uint64_t total)
{
    (void)self, (void)done, (void)total;
    return false;
}

static void damage_is_found(void **state)
{
    (void)state;
    bodies b;
    collect *c;
    round_entry m[BODIES];
    ahe_sum *sum;
    uint8_t byte = 7;
    bodies_make(&b, "pad", VALUES, BODIES);
    CHECK_OK(collect_new(&c, &(collect_config){ .ahe = &b.p,
                                                .pub = b.pub,
                                                .front = UPDATE_SALT,
                                                .clients_max = BODIES,
                                                .threads = 1,
                                                .path = path_of }));
    for (unsigned k = 0; k < 2; k++)
        put(&b, k, &m[k]);
    collect_begin(c, 1); /* a changed byte: the hash detects it */
    m[1].body[0] ^= 1;
    CHECK_OK(collect_add(c, 1, &m[0], true, NULL));
    CHECK_OK(collect_add(c, 1, &m[1], true, NULL));
    CHECK_STATUS(collect_close(c, 1, &sum, NULL), SEFL_ECRYPTO);
    assert_non_null(strstr(sefl_last_error(), "has changed"));
    assert_null(sum);
    m[1].body[0] ^= 1;
    folder_put("body-ef", &byte, 1); /* cut */
    collect_begin(c, 2);
    CHECK_OK(collect_add(c, 2, &m[0], false, NULL));
    CHECK_OK(collect_add(c, 2, &m[1], false, NULL));
    CHECK_STATUS(collect_close(c, 2, &sum, NULL), SEFL_ECRYPTO);
    unlink(folder_path("body-ef")); /* gone */
    collect_begin(c, 3);
    CHECK_OK(collect_add(c, 3, &m[1], false, NULL));
    CHECK_STATUS(collect_close(c, 3, &sum, NULL), SEFL_ECRYPTO);
    collect_begin(c, 4);
    atomic_store(&hold, true);
    CHECK_OK(collect_add(c, 4, &m[0], false, NULL));
    CHECK_STATUS(collect_close(c, 4, &sum, &(sefl_progress){ .report = stop_now }),
                 SEFL_ECANCELLED);
    atomic_store(&hold, false);
    CHECK_OK(collect_close(c, 4, &sum, NULL));
    check_sum(&b, sum, 1);
    collect_free(c);
    bodies_free(&b);
}

#if SEFL_FAULTS
/* A read that fails halfway through a body spoils the sum; the sum restarts and is correct, from
 * the files where a room was returned. */
static void failed_reads_are_made_good(void **state)
{
    (void)state;
    bodies b;
    collect *c;
    body_pool *rs;
    round_entry m[BODIES];
    ahe_sum *sum;
    bodies_make(&b, "paillier", VALUES, BODIES);
    CHECK_OK(body_pool_new(&rs, bodies_bytes(&b), BODY_POOL_BUDGET));
    CHECK_OK(collect_new(&c, &(collect_config){ .ahe = &b.p,
                                                .pub = b.pub,
                                                .front = UPDATE_SALT,
                                                .clients_max = BODIES,
                                                .threads = 1,
                                                .path = path_of }));
    for (unsigned k = 0; k < BODIES; k++)
        put(&b, k, &m[k]);
    for (uint64_t nth = 1; nth <= BODIES - 1; nth++) {
        body_room *first = in_room(&b, rs, 0);
        fault_arm(FAULT_READ, nth);
        collect_begin(c, nth);
        for (unsigned k = 0; k < BODIES; k++) /* read, not mapped */
            CHECK_OK(collect_add(c, nth, &m[k], true, k == 0 ? first : NULL));
        CHECK_OK(collect_close(c, nth, &sum, NULL));
        assert_true(fault_was_hit());
        fault_disarm();
        check_sum(&b, sum, (1u << BODIES) - 1);
    }
    collect_free(c);
    body_pool_free(rs);
    bodies_free(&b);
}
#endif

static int setup(void **state)
{
    if (folder_make(state) != 0)
        return -1;
    snprintf(folder, sizeof folder, "%s", folder_path("."));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(bodies_are_taken_off),
        cmocka_unit_test(from_rooms),
        cmocka_unit_test(rounds_can_be_given_up),
        cmocka_unit_test(damage_is_found),
#if SEFL_FAULTS
        cmocka_unit_test(failed_reads_are_made_good),
#endif
    };
    return cmocka_run_group_tests(tests, setup, folder_remove);
}
