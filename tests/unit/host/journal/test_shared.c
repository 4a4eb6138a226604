/* The tables of a round that several aggregators share: two processes are two connections. Only a
 * database server has them. */
#include "support/check.h"
#include "support/folder.h"
#include "support/store_place.h"

#include "store/journal/shared.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static const uint8_t task[32] = { 9 };
enum { ROUND = 3, COLLECTING = 2, CLOSED = 3, MANY = 40 };

typedef struct process {
    journal *j;
    uint64_t me;
    shared_rule rule;
    uint32_t first; /* number of its first client */
    atomic_uint taken;
    atomic_bool stop;
} process;

static void set_round(journal *j, unsigned state)
{
    CHECK_OK(journal_round_put(j, &(journal_round){ .round = ROUND, .state = state }));
}

static void open_two(process p[2], const char *name, uint64_t most, uint64_t ahead)
{
    for (int i = 0; i < 2; i++) {
        memset(&p[i], 0, sizeof p[i]);
        CHECK_OK(store_open(&p[i].j, folder_path(name), "aggregator", task));
        CHECK_OK(shared_open(p[i].j, &p[i].me));
        p[i].rule = (shared_rule){ .collecting = COLLECTING, .most = most, .ahead = ahead };
        p[i].first = 1000 * (uint32_t)i;
    }
    assert_true(p[0].me > 0 && p[1].me > p[0].me);
    set_round(p[0].j, COLLECTING);
}

static void close_two(process p[2])
{
    journal_close(p[0].j);
    journal_close(p[1].j);
}

static journal_update update_of(uint32_t client, uint32_t body)
{
    journal_update u = { .round = ROUND, .bytes = 100, .name = "c" };
    store_u32(u.client, client);
    store_u32(u.body, body);
    return u;
}

static sefl_status put(process *p, uint32_t client, uint32_t body)
{
    const journal_update u = update_of(client, body);
    return shared_put(p->j, &p->rule, p->me, &u);
}

static uint32_t count(process *p)
{
    uint32_t n;
    CHECK_OK(shared_count(p->j, ROUND, &n));
    return n;
}

/* ---- uploads --------------------------------------------------------------------------------- */

static void rows_have_rules(void **state)
{
    (void)state;
    process p[2];
    shared_known k;
    if (!store_is_pg())
        skip();
    open_two(p, "rules", 100, 4);
    CHECK_OK(put(&p[0], 1, 11));
    CHECK_STATUS(put(&p[1], 1, 12), SEFL_EEXIST); /* one per client, whichever process has it */
    CHECK_STATUS(put(&p[1], 2, 11), SEFL_EEXIST); /* a body once */
    CHECK_OK(put(&p[1], 2, 12));
    assert_int_equal(count(&p[0]), 2); /* a refused row uses no slot */
    journal_update u = update_of(1, 11), other = update_of(5, 12);
    CHECK_OK(shared_know(p[1].j, ROUND, u.client, u.body, &k));
    assert_true(k.have && !k.copied && k.rounds == 1 && k.last == ROUND && k.bytes == 100);
    assert_memory_equal(k.body, u.body, 32);
    CHECK_OK(shared_know(p[0].j, ROUND, other.client, other.body, &k));
    assert_true(!k.have && k.copied && k.rounds == 0 && k.last == 0);
    /* the latest round in which a client took part, for rounds.separation */
    for (uint64_t r = ROUND + 2; r <= ROUND + 4; r += 2) {
        journal_round row = { .round = r, .state = COLLECTING };
        journal_update more = update_of(1, (uint32_t)(20 + r));
        more.round = r;
        CHECK_OK(journal_round_put(p[0].j, &row));
        CHECK_OK(shared_put(p[0].j, &p[0].rule, p[0].me, &more));
        row.skipped = r > ROUND + 2; /* without a charge: it does not count */
        CHECK_OK(journal_round_put(p[0].j, &row));
    }
    CHECK_OK(shared_know(p[1].j, ROUND + 5, u.client, (const uint8_t[32]){ 99 }, &k));
    assert_true(!k.have && !k.copied && k.rounds == 2 && k.last == ROUND + 2);
    set_round(p[0].j, CLOSED);
    CHECK_STATUS(put(&p[0], 3, 13), SEFL_ESTATE);
    CHECK_STATUS(put(&p[1], 3, 13), SEFL_ESTATE);
    assert_int_equal(count(&p[1]), 2);
    close_two(p);
}

/* What a client did in earlier rounds, as journal_client_rounds tells it. */
static void earlier_rounds_count(void **state)
{
    (void)state;
    process p[2];
    shared_known k;
    uint64_t rounds, last;
    if (!store_is_pg())
        skip();
    open_two(p, "earlier", 100, 4);
    for (uint64_t r = 4; r <= 6; r++) {
        journal_update u = update_of(1, (uint32_t)r);
        u.round = r;
        CHECK_OK(journal_round_put(p[0].j, &(journal_round){ .round = r, .state = COLLECTING }));
        CHECK_OK(shared_put(p[r % 2].j, &p[r % 2].rule, p[r % 2].me, &u));
        CHECK_OK(journal_round_put(
            p[0].j, &(journal_round){ .round = r, .state = CLOSED, .skipped = r == 6 }));
        CHECK_OK(shared_know(p[1].j, 7, u.client, u.body, &k));
        CHECK_OK(journal_client_rounds(p[1].j, u.client, &rounds, &last));
        assert_true(k.rounds == rounds && k.last == last && last == (r < 6 ? r : 5));
        assert_true(!k.have && k.copied); /* that body was in another round */
    }
    close_two(p);
}

static void *put_many(void *arg)
{
    process *p = arg;
    for (uint32_t i = 0; i < MANY && !atomic_load(&p->stop); i++) {
        sefl_status st = put(p, p->first + i, p->first + i);
        if (st == SEFL_OK)
            atomic_fetch_add(&p->taken, 1);
        else if (st != SEFL_ERANGE && st != SEFL_ESTATE)
            return p; /* another failure */
    }
    return NULL;
}

static void put_both(process p[2], void (*meanwhile)(process p[2]))
{
    pthread_t t[2];
    void *why;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, put_many, &p[i]), 0);
    if (meanwhile)
        meanwhile(p);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], &why);
        assert_null(why);
    }
}

/* Both processes insert at once: together they get exactly the slots of the round. */
static void slots_are_exact(void **state)
{
    (void)state;
    process p[2];
    if (!store_is_pg())
        skip();
    for (uint64_t ahead = 1; ahead <= 16; ahead *= 4) {
        char name[32];
        snprintf(name, sizeof name, "slots-%u", (unsigned)ahead);
        open_two(p, name, MANY + 7, ahead);
        put_both(p, NULL);
        assert_int_equal(p[0].taken + p[1].taken, MANY + 7);
        assert_int_equal(count(&p[0]), MANY + 7);
        CHECK_STATUS(put(&p[0], 9999, 9999), SEFL_ERANGE);
        close_two(p);
    }
}

/* A process dies with slots in advance: the other one gets them. */
static void slots_come_back(void **state)
{
    (void)state;
    process p[2];
    if (!store_is_pg())
        skip();
    open_two(p, "dead", 10, 8);
    CHECK_OK(put(&p[0], 1, 1)); /* has 7 more */
    for (uint32_t i = 2; i <= 10; i++)
        CHECK_OK(put(&p[1], i, i));
    CHECK_STATUS(put(&p[1], 11, 11), SEFL_ERANGE);
    CHECK_STATUS(put(&p[0], 12, 12), SEFL_ERANGE); /* they are no longer its own */
    assert_int_equal(count(&p[0]), 10);
    close_two(p);
}

static uint32_t at_close;

static void close_round(process p[2])
{
    journal *leader;
    CHECK_OK(store_open(&leader, folder_path("closing"), "aggregator", task));
    while (atomic_load(&p[0].taken) + atomic_load(&p[1].taken) < 10)
        usleep(1000);
    set_round(leader, CLOSED);
    CHECK_OK(shared_count(leader, ROUND, &at_close));
    journal_close(leader);
}

/* The round closes while both insert: what is there then is the frozen set, and every row that a
 * process was told about is in it. */
static void closing_freezes(void **state)
{
    (void)state;
    process p[2];
    if (!store_is_pg())
        skip();
    open_two(p, "closing", 1000, 4);
    put_both(p, close_round);
    assert_int_equal(count(&p[0]), at_close);
    assert_int_equal(p[0].taken + p[1].taken, at_close);
    assert_true(at_close >= 10);
    close_two(p);
}

/* ---- partial sums ---------------------------------------------------------------------------- */

typedef struct seen {
    uint64_t holder[8], uploads[8];
    uint32_t clients[8];
    unsigned n;
    uint64_t makers, undone;
} seen;

static sefl_status see_holder(void *ctx, uint64_t holder, uint64_t uploads)
{
    seen *s = ctx;
    s->holder[s->n] = holder;
    s->uploads[s->n++] = uploads;
    return SEFL_OK;
}

static sefl_status see_upload(void *ctx, uint64_t holder, const uint8_t client[32],
                              const uint8_t body[32])
{
    seen *s = ctx;
    assert_memory_equal(client, body, 32); /* this test's clients name their bodies after them */
    s->holder[s->n] = holder;
    s->clients[s->n++] = load_u32(client);
    return SEFL_OK;
}

static sefl_status see_part(void *ctx, const shared_part *p)
{
    seen *s = ctx;
    s->n++;
    s->makers += p->maker;
    s->undone += p->maker == 0;
    return SEFL_OK;
}

static seen parts_of(process *p)
{
    seen s = { 0 };
    CHECK_OK(shared_parts(p->j, ROUND, see_part, &s));
    return s;
}

static void parts_are_made_once(void **state)
{
    (void)state;
    process p[2];
    shared_part a, b;
    bool found, still;
    seen s = { 0 };
    uint8_t hash[2][SHA256_BYTES] = { { 1 }, { 2 } };
    if (!store_is_pg())
        skip();
    open_two(p, "parts", 100, 1);
    CHECK_OK(put(&p[1], 7, 7));
    CHECK_OK(put(&p[0], 5, 5));
    CHECK_OK(put(&p[0], 3, 3));
    CHECK_OK(shared_holders(p[0].j, ROUND, see_holder, &s));
    assert_true(s.n == 2 && s.holder[0] == p[0].me && s.uploads[0] == 2 && s.uploads[1] == 1);
    s = (seen){ 0 };
    CHECK_OK(shared_uploads(p[1].j, ROUND, p[0].me, 0, see_upload, &s));
    assert_true(s.n == 2 && s.clients[0] == 5 && s.clients[1] == 3); /* in order of arrival */
    s = (seen){ 0 };
    CHECK_OK(shared_uploads(p[1].j, ROUND, p[0].me, 1, see_upload, &s));
    assert_true(s.n == 1 && s.clients[0] == 3);
    s = (seen){ 0 };
    CHECK_OK(shared_uploads(p[1].j, ROUND, 0, 0, see_upload, &s)); /* the set, by client */
    assert_true(s.n == 3 && s.clients[0] == 3 && s.clients[2] == 7 && s.holder[2] == p[1].me);

    set_round(p[0].j, CLOSED);
    CHECK_OK(shared_freeze(p[0].j, ROUND, 60000));
    CHECK_OK(shared_freeze(p[1].j, ROUND, 60000));
    assert_int_equal(parts_of(&p[0]).n, 2);
    CHECK_OK(shared_part_take(p[0].j, ROUND, p[0].me, 300, &a, &found));
    assert_true(found && a.holder == p[0].me && a.uploads == 2);
    CHECK_OK(shared_part_take(p[1].j, ROUND, p[1].me, 60000, &b, &found));
    assert_true(found && b.holder == p[1].me);
    CHECK_OK(shared_part_done(p[1].j, &b, p[1].me, hash[1]));
    CHECK_OK(shared_part_take(p[1].j, ROUND, p[1].me, 60000, &b, &found));
    assert_false(found); /* the other part is leased */
    CHECK_OK(shared_part_renew(p[0].j, &a, p[0].me, 300, &still));
    assert_true(still);
    usleep(400000); /* the lease expires */
    CHECK_OK(shared_part_take(p[1].j, ROUND, p[1].me, 60000, &b, &found));
    assert_true(found && b.holder == p[0].me && b.uploads == 2);
    CHECK_OK(shared_part_renew(p[0].j, &a, p[0].me, 300, &still));
    assert_false(still);
    CHECK_OK(shared_part_done(p[1].j, &b, p[1].me, hash[0]));
    CHECK_OK(shared_part_done(p[0].j, &a, p[0].me, hash[1])); /* too late: changes nothing */
    s = parts_of(&p[0]);
    assert_true(s.undone == 0 && s.makers == 2 * p[1].me);
    b.maker = p[1].me;
    CHECK_OK(shared_part_again(p[0].j, &b)); /* its file is gone */
    assert_int_equal(parts_of(&p[0]).undone, 1);
    CHECK_OK(shared_part_take(p[0].j, ROUND, p[0].me, 300, &a, &found));
    assert_true(found && a.holder == p[0].me && a.failures == 0);
    CHECK_OK(shared_part_failed(p[0].j, &a, p[0].me)); /* it cannot read a body: another tries */
    CHECK_OK(shared_part_take(p[1].j, ROUND, p[1].me, 60000, &b, &found));
    assert_true(found && b.holder == p[0].me && b.failures == 1);
    CHECK_OK(shared_part_failed(p[0].j, &a, p[0].me)); /* no longer its part */
    CHECK_OK(shared_part_take(p[0].j, ROUND, p[0].me, 300, &a, &found));
    assert_false(found);
    CHECK_OK(shared_part_take(p[1].j, ROUND, p[1].me, 60000, &b, &found));
    assert_true(found && b.failures == 1);
    CHECK_OK(shared_forget(p[0].j, ROUND));
    assert_int_equal(parts_of(&p[0]).n, 0);
    close_two(p);
}

static void questions_reach_the_leader(void **state)
{
    (void)state;
    process p[2];
    uint64_t id, asked;
    unsigned kind, status;
    bool done;
    sefl_buf b = { 0 };
    if (!store_is_pg())
        skip();
    open_two(p, "ask", 1, 1);
    CHECK_OK(shared_ask(p[1].j, 5, span_of_str("who?"), 60000, &id));
    CHECK_OK(shared_answered(p[1].j, id, &done, &status, &b));
    assert_false(done);
    CHECK_OK(shared_asked(p[0].j, 0, &asked, &kind, &b));
    assert_true(asked == id && kind == 5 && b.n == 4 && memcmp(b.p, "who?", 4) == 0);
    buf_reset(&b);
    CHECK_OK(shared_asked(p[0].j, asked, &asked, &kind, &b));
    assert_int_equal(asked, 0); /* none after it */
    CHECK_OK(shared_answer(p[0].j, id, 3, span_of_str("me")));
    CHECK_OK(shared_answered(p[1].j, id, &done, &status, &b));
    assert_true(done && status == 3 && b.n == 2);
    CHECK_OK(shared_answered(p[1].j, id, &done, &status, &b));
    assert_false(done); /* an answer is given once */
    CHECK_OK(shared_ask(p[1].j, 5, span_of_str("late"), 0, &id));
    usleep(5000);
    CHECK_OK(shared_asked(p[0].j, 0, &asked, &kind, &b));
    assert_int_equal(asked, 0);
    buf_clear(&b);
    close_two(p);
}

/* ---- owners ---------------------------------------------------------------------------------- */

static sefl_status open_for(journal **out, const char *name, const uint8_t owner[32])
{
    const char *folder = folder_path(name);
    const journal_place at = { .folder = folder,
                               .store = store_url(folder),
                               .root = store_root,
                               .owner = owner,
                               .owner_is = "task" };
    return journal_open_at(out, &at, "aggregator", owner);
}

/* A database serves one task; a refused process leaves nothing in it. */
static void one_owner(void **state)
{
    (void)state;
    const uint8_t first[32] = { 1 }, second[32] = { 2 };
    journal *a, *b, *c;
    uint64_t me;
    if (!store_is_pg())
        skip();
    CHECK_OK(open_for(&a, "owner", first));
    CHECK_OK(shared_open(a, &me));
    CHECK_STATUS(open_for(&b, "owner", second), SEFL_ESTATE);
    assert_null(b);
    assert_non_null(strstr(sefl_last_error(), "belongs to the task 0100000000000000..., not to "
                                              "0200000000000000..."));
    CHECK_OK(open_for(&c, "owner", first)); /* a second process of the same task */
    journal_close(c);
    journal_close(a);
    CHECK_STATUS(open_for(&b, "owner", second), SEFL_ESTATE); /* also when nobody uses it */
    CHECK_OK(
        store_open(&c, folder_path("owner"), "aggregator", first)); /* a tool that only looks */
    journal_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_rules),
        cmocka_unit_test(earlier_rounds_count),
        cmocka_unit_test(slots_are_exact),
        cmocka_unit_test(slots_come_back),
        cmocka_unit_test(closing_freezes),
        cmocka_unit_test(parts_are_made_once),
        cmocka_unit_test(questions_reach_the_leader),
        cmocka_unit_test(one_owner),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
