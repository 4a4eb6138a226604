/* Who took part: letters, reasons, restarts, retention, and a large federation. */
#include "support/check.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/sha256.h"
#include "roles/aggregator/turnout.h"
#include "store/journal/attendance.h"

#include <stdio.h>
#include <string.h>

static const uint8_t id[32] = "a task";
static task of; /* begin makes it */

static int begin(void **state)
{
    of = (task){ .enrolled = 10, .sampling = TASK_ALL, .separation = 1 };
    (void)state;
    return 0;
}

static journal *open_journal(const char *name)
{
    journal *j;
    CHECK_OK(journal_open(&j, folder_path(name), "aggregator", id));
    return j;
}

static turnout *open_turnout(journal *j)
{
    turnout *t;
    CHECK_OK(turnout_new(&t, j, &of, NULL));
    return t;
}

/* Client i has a key of bytes i. */
static const uint8_t *key_of(uint8_t i)
{
    static uint8_t key[32];
    memset(key, i, sizeof key);
    return key;
}

static void fetch(turnout *t, uint64_t round, uint8_t i)
{
    char name[8];
    snprintf(name, sizeof name, "c%u", i);
    turnout_fetched(t, round, key_of(i), name);
}

static void send(turnout *t, uint64_t round, uint8_t i, ingest_end end, const char *why)
{
    char name[8];
    snprintf(name, sizeof name, "c%u", i);
    turnout_upload(t, round, key_of(i), name, end, why);
}

static void close_round(turnout *t, journal *j, uint64_t round)
{
    CHECK_OK(journal_round_put(j, &(journal_round){ .round = round, .state = 1 }));
    turnout_close(t, round, TURNOUT_RELEASED);
}

static const char *grid(turnout *t, const page_grid_ask *ask)
{
    static char text[1 << 16];
    sefl_buf b = { 0 };
    CHECK_OK(turnout_grid(t, &b, ask));
    assert_true(b.n < sizeof text);
    snprintf(text, sizeof text, "%.*s", (int)b.n, (const char *)b.p);
    buf_clear(&b);
    return text;
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("%s is not in %s", part, text);
}

static const page_grid_ask all = { .rounds = 100, .clients = 200 };

static void check_letters(const char *g)
{
    static const char *const want[] = {
        "\"seen\":8,\"rounds\":[1,2]",
        "{\"name\":\"c1 / 01010101\",\"cells\":\"ad\"}",
        "{\"name\":\"c2 / 02020202\",\"cells\":\"a.\"}",
        "{\"name\":\"c3 / 03030303\",\"cells\":\"r.\"}",
        "{\"name\":\"c4 / 04040404\",\"cells\":\"x.\"}",
        "{\"name\":\"c5 / 05050505\",\"cells\":\"d.\"}",
        "{\"name\":\"c6 / 06060606\",\"cells\":\"l.\"}",
        "{\"name\":\"c7 / 07070707\",\"cells\":\"r.\"}",
        "{\"name\":\"c8 / 08080808\",\"cells\":\".d\"}",
        "\"c3 / 03030303\",\"reason\":\"unit 3 is no \\\"ciphertext\\\"\"}",
        "{\"round\":1,\"client\":\"c4 / 04040404\",\"reason\":\"seal does not open\"}",
        "{\"round\":1,\"client\":\"c5 / 05050505\",\"reason\":\"its upload broke off\"}",
        "{\"round\":1,\"client\":\"c7 / 07070707\",\"reason\":\"revoked\"}",
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        has(g, want[i]);
    assert_null(strstr(g, "another's"));              /* it arrived after all */
    assert_null(strstr(g, "\"round\":2,\"client\"")); /* the last round may still end well */
}

static void letters(void **state)
{
    (void)state;
    journal *j = open_journal("letters");
    turnout *t = open_turnout(j);
    has(grid(t, &all), "{\"enrolled\":10,\"seen\":0,\"rounds\":[],\"clients\":[],\"why\":[]");
    turnout_open(t, 1);
    for (uint8_t i = 1; i <= 7; i++)
        fetch(t, 1, i);
    send(t, 1, 1, INGEST_TAKEN, "accepted");
    send(t, 1, 1, INGEST_LATE, "late");                  /* an arrival is final */
    send(t, 1, 2, INGEST_HEAD, "the head is another's"); /* refused, then accepted */
    send(t, 1, 2, INGEST_TAKEN, "accepted");
    send(t, 1, 3, INGEST_NOT_CIPHER, "unit 3 is no \"ciphertext\"");
    send(t, 1, 4, INGEST_TAKEN, "accepted");
    turnout_counted_out(t, 1, key_of(4), "seal does not open");
    send(t, 1, 5, INGEST_CUT, "its upload broke off");
    send(t, 1, 6, INGEST_OFFSET, "no matter");
    send(t, 9, 6, INGEST_TAKEN, "another round");
    turnout_barred(t, key_of(7), "revoked");
    turnout_barred(t, key_of(99), "a stranger is not added");
    turnout_counts c = turnout_now(t, 1);
    assert_true(c.asked == 7 && c.arrived == 2 && c.dropped == 2 && c.refused == 3 && c.late == 0);
    close_round(t, j, 1);
    turnout_open(t, 2);
    send(t, 1, 6, INGEST_LATE, "late"); /* after the round */
    fetch(t, 2, 1);
    fetch(t, 2, 8);
    check_letters(grid(t, &all));
    close_round(t, j, 2);
    turnout_free(t);
    t = open_turnout(j); /* after a restart it shows the same, and why c1 and c8 have no update */
    const char *g = grid(t, &all);
    check_letters(g);
    has(g, "{\"round\":1,\"arrived\":2,\"late\":1,\"dropped\":1,\"refused\":3}");
    turnout_open(t, 3);
    has(grid(t, &all),
        "{\"round\":2,\"client\":\"c8 / 08080808\",\"reason\":\"fetched the model and "
        "sent no update in time\"}");
    g = grid(t, &(page_grid_ask){ .rounds = 2, .clients = 2, .worst = true });
    has(g, "\"clients\":[{\"name\":\"c3 / 03030303\""); /* it failed, and never arrived */
    g = grid(t, &(page_grid_ask){ .first = 1, .rounds = 1, .from = 4, .clients = 2 });
    has(g, "\"rounds\":[1],\"clients\":[{\"name\":\"c5 / 05050505\",\"cells\":\"d\"},{\"name\":"
           "\"c6 / 06060606\",\"cells\":\"l\"}]");
    g = grid(t, &(page_grid_ask){ .first = 500, .rounds = 5, .from = 500, .clients = 5 });
    has(g, "\"rounds\":[],\"clients\":[]");
    turnout_free(t);
    journal_close(j);
}

/* After a crash in an open round the journal's uploads show who had arrived. */
static void restart(void **state)
{
    (void)state;
    journal *j = open_journal("restart");
    turnout *t = open_turnout(j);
    journal_update u = { .round = 1, .name = "c1", .bytes = 5 };
    turnout_open(t, 1);
    fetch(t, 1, 1);
    fetch(t, 1, 2);
    memcpy(u.client, key_of(1), 32);
    CHECK_OK(journal_round_put(j, &(journal_round){ .round = 1 }));
    CHECK_OK(journal_update_put(j, &u));
    send(t, 1, 1, INGEST_TAKEN, "");
    turnout_free(t); /* nothing of the open round is written */
    t = open_turnout(j);
    turnout_open(t, 1);
    has(grid(t, &all), "\"clients\":[{\"name\":\"c1 / 01010101\",\"cells\":\"a\"}]");
    turnout_free(t);
    turnout_open(NULL, 1); /* no records */
    fetch(NULL, 1, 1);
    send(NULL, 1, 1, INGEST_TAKEN, "");
    turnout_close(NULL, 1, TURNOUT_RELEASED);
    assert_int_equal(turnout_now(NULL, 1).asked, 0);
    journal_close(j);
}

/* Whom the round waits for, and whom no more: "w1,w2 | l3 revoked,l4 2", and what it can count on. */
static void looks(turnout *t, uint64_t round, const trust *list, const char *want)
{
    char text[512];
    size_t n = 0;
    turnout_missing m;
    turnout_look(t, round, list, &m);
    for (int left = 0; left < 2; left++) {
        const view_sites *s = left ? &m.left : &m.waits;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%u:", left ? " | " : "", s->all);
        for (uint32_t i = 0; i < s->named; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, " %s%s%s%.0u", s->at[i].name,
                                  s->at[i].asked ? "+" : "", s->at[i].revoked ? "!" : "",
                                  s->at[i].missed);
    }
    snprintf(text + n, sizeof text - n, " | %u", m.expected);
    assert_string_equal(text, want);
}

static void tell(turnout *t, uint64_t round, uint8_t i, bool is_back)
{
    char name[8];
    snprintf(name, sizeof name, "c%u", i);
    assert_int_equal(turnout_told(t, round, key_of(i), name), is_back);
}

/* A list with a CA whose members are listed: c1 .. c4 and `more`, of which c4 may be revoked. */
static trust *list_of(bool revoked)
{
    trust *t;
    CHECK_OK(trust_new(&t));
    CHECK_OK(trust_issuer_put(t, &(trust_issuer){ .key = "ca",
                                                  .role = TRUST_CLIENT,
                                                  .state = TRUST_ACTIVE,
                                                  .listed = true,
                                                  .name = "own",
                                                  .der = span_of_str("a certificate") }));
    for (uint8_t i = 1; i <= 4; i++) {
        trust_member m = { .role = TRUST_CLIENT,
                           .state = i == 4 && revoked ? TRUST_REVOKED : TRUST_ACTIVE };
        memcpy(m.key, key_of(i), 32);
        snprintf(m.name, sizeof m.name, "c%u", i);
        CHECK_OK(trust_member_put(t, &m));
    }
    CHECK_OK(trust_token_put(
        t, &(trust_token){ .id = "t", .state = TRUST_OPEN, .expires = INT64_MAX, .name = "c5" }));
    return t;
}

static void missing(void **state)
{
    (void)state;
    journal *j = open_journal("missing");
    turnout *t = open_turnout(j);
    trust *list = list_of(false), *revoked = list_of(true);
    turnout_open(t, 1);
    looks(t, 1, NULL, "10: | 0: | 10"); /* the task's enrolled clients */
    looks(t, 1, list, "5: c1 c2 c3 c4 c5 | 0: | 5");
    looks(t, 1, revoked, "4: c1 c2 c3 c5 | 0: | 4");
    tell(t, 1, 1, false);
    for (uint8_t i = 1; i <= 4; i++) {
        fetch(t, 1, i);
        send(t, 1, i, INGEST_TAKEN, "");
    }
    looks(t, 1, NULL, "6: | 0: | 10");
    looks(t, 1, revoked, "1: c5 | 0: | 5"); /* c4's update is in the round */
    close_round(t, j, 1);
    for (uint64_t r = 2; r <= 3; r++) { /* c3 is dead; c5 never comes */
        turnout_open(t, r);
        tell(t, r, 1, false);
        tell(t, r, 2, false);
        looks(t, r, revoked,
              r == 2 ? "4: c1+ c2+ c3 c5"
                       "1"
                       " | 1: c4! | 4"
                     : "3: c1+ c2+ c31 | 2: c4!1 c52 | 3");
        send(t, r, 1, INGEST_TAKEN, "");
        send(t, r, 2, INGEST_TAKEN, "");
        close_round(t, j, r);
    }
    for (int again = 0; again < 2; again++) { /* the same after a restart */
        turnout_open(t, 4);
        looks(t, 4, revoked, "2: c1 c2 | 3: c32 c4!2 c53 | 2");
        looks(t, 4, NULL, "2: c1 c2 | 8: c32 c42 | 2");
        turnout_free(t);
        t = open_turnout(j);
    }
    turnout_open(t, 4);
    tell(t, 4, 3, true); /* it asks for news: the round waits for it */
    tell(t, 4, 3, false);
    looks(t, 4, revoked, "3: c1 c2 c3+2 | 2: c4!2 c53 | 3");
    looks(t, 9, revoked, "0: | 0: | 0"); /* no such round is open */
    of.sampling = TASK_OPEN;
    looks(t, 4, revoked, "0: | 2: c4!2 c53 | 3"); /* nobody knows who was drawn */
    turnout_free(t);
    trust_free(list), trust_free(revoked);
    journal_close(j);
}

/* A client counts as missing only for rounds in which it could have taken part. */
static void turns(void **state)
{
    (void)state;
    journal *j = open_journal("turns");
    of.separation = 5;
    turnout *t = open_turnout(j);
    uint32_t in_turn = 0;
    turnout_missing m;
    for (uint8_t i = 0; i < 40; i++)
        in_turn += task_is_turn(&of, key_of(i), 16);
    assert_true(in_turn > 1);
    for (uint64_t r = 1; r <= 15; r++) { /* three turns of each: all take part */
        turnout_open(t, r);
        for (uint8_t i = 0; i < 40; i++)
            if (task_is_turn(&of, key_of(i), r))
                send(t, r, i, INGEST_TAKEN, "");
        close_round(t, j, r);
    }
    for (int again = 0; again < 2; again++) { /* the same after a restart in an open round */
        turnout_open(t, 16);
        turnout_look(t, 16, NULL, &m);
        assert_true(m.expected == in_turn && m.waits.all == in_turn && m.left.all == 0);
        turnout_free(t);
        t = open_turnout(j);
    }
    turnout_free(t);
    journal_close(j);
}

/* Rounds that the operator dropped, or whose key CSP lost, say nothing about the sites. */
static void cut(void **state)
{
    (void)state;
    journal *j = open_journal("cut");
    turnout *t = open_turnout(j);
    of.enrolled = 2;
    for (uint64_t r = 1; r <= 4; r++) {
        turnout_open(t, r);
        if (r == 1)
            send(t, r, 1, INGEST_TAKEN, "");
        CHECK_OK(journal_round_put(j, &(journal_round){ .round = r, .state = 1 }));
        turnout_close(t, r, TURNOUT_CUT);
    }
    for (int again = 0; again < 2; again++) {
        turnout_open(t, 5);
        looks(t, 5, NULL, "2: c1 | 0: | 2"); /* and one that has not come yet */
        has(grid(t, &all), "\"cells\":\"a....\"");
        turnout_free(t);
        t = open_turnout(j);
    }
    turnout_open(t, 5);
    turnout_close(t, 5, TURNOUT_SKIPPED); /* at its deadline */
    turnout_open(t, 6);
    looks(t, 6, NULL, "2: c11 | 0: | 2");
    turnout_free(t);
    journal_close(j);
}

/* A site that asks for news and sends no update costs two deadlines, and then ever fewer. */
static void idle(void **state)
{
    (void)state;
    journal *j = open_journal("idle");
    turnout *t = open_turnout(j);
    turnout_missing m;
    of.enrolled = 2;
    for (uint64_t r = 1; r <= 17; r++) {
        turnout_open(t, r);
        tell(t, r, 1, false);
        turnout_told(t, r, key_of(2), "c2");
        turnout_look(t, r, NULL, &m);
        const bool waits = r <= 2 || r == 5 || r == 9 || r == 17;
        assert_int_equal(m.expected, waits ? 2 : 1);
        assert_int_equal(m.left.all, waits ? 0 : 1);
        send(t, r, 1, INGEST_TAKEN, "");
        if (r == 17)
            send(t, r, 2, INGEST_TAKEN, "");
        close_round(t, j, r);
    }
    turnout_open(t, 18);
    looks(t, 18, NULL, "2: c1 c2 | 0: | 2"); /* its update has come */
    turnout_free(t);
    journal_close(j);
}

/* No round waits for a site that has taken part in rounds.max_per_client rounds. */
static void spent(void **state)
{
    (void)state;
    journal *j = open_journal("spent");
    turnout *t = open_turnout(j);
    of.enrolled = 2, of.max_rounds_per_client = 2;
    for (uint64_t r = 1; r <= 4; r++) {
        turnout_open(t, r);
        send(t, r, 1, INGEST_TAKEN, "");
        if (r != 2)
            send(t, r, 2, INGEST_TAKEN, "");
        looks(t, r, NULL, r == 2 ? "1: c2 | 0: | 2" : "0: | 0: | 2");
        CHECK_OK(journal_round_put(j, &(journal_round){ .round = r, .state = 1 }));
        turnout_close(t, r, r == 1 ? TURNOUT_SKIPPED : TURNOUT_RELEASED); /* not charged */
        for (int again = 0; again < 2; again++) {
            turnout_open(t, r + 1);
            looks(t, r + 1, NULL,
                  r == 1   ? "2: c1 c2 | 0: | 2"
                  : r == 2 ? "2: c1 c21 | 0: | 2"
                  : r == 3 ? "1: c2 | 0: | 1"
                           : "0: | 0: | 0");
            turnout_free(t);
            t = open_turnout(j);
        }
    }
    turnout_free(t);
    journal_close(j);
}

static void damaged(void **state)
{
    (void)state;
    journal *j = open_journal("damaged");
    turnout *t;
    CHECK_OK(attendance_put(j, &(attendance){ .round = 1, .ended = TURNOUT_CUT + 1 }));
    CHECK_STATUS(turnout_new(&t, j, &of, NULL), SEFL_EPROTO);
    CHECK_OK(attendance_forget(j, 1));
    CHECK_OK(turnout_new(&t, j, &of, NULL));
    turnout_free(t);
    CHECK_OK(attendance_client_put(j, 1, key_of(1), "there is no client 0"));
    CHECK_STATUS(turnout_new(&t, j, &of, NULL), SEFL_EPROTO);
    CHECK_STATUS(attendance_client_put(j, 1, key_of(2), "its number is taken"), SEFL_EEXIST);
    CHECK_STATUS(attendance_client_put(j, 2, key_of(1), "it is listed"), SEFL_EEXIST);
    journal_close(j);
}

/* 10,000 clients and 1,000 rounds and a few more: size and memory of the answers are bounded. */
static void large(void **state)
{
    (void)state;
    enum { CLIENTS = 10000, ROUNDS = TURNOUT_ROUNDS + 20 };
    static uint8_t key[CLIENTS][32];
    journal *j = open_journal("large");
    turnout *t = open_turnout(j);
    for (uint32_t i = 0; i < CLIENTS; i++)
        sha256_of(key[i], span_of(&i, sizeof i));
    for (uint64_t r = 1; r <= ROUNDS; r++) {
        turnout_open(t, r);
        for (uint32_t i = (uint32_t)r % 7; i < CLIENTS; i += 7) /* each takes part in a seventh */
            turnout_upload(t, r, key[i], "site", i % 3 ? INGEST_TAKEN : INGEST_HASH, "bytes");
        close_round(t, j, r);
    }
    turnout_free(t);
    sefl_heap_mark();
    const size_t before = sefl_heap_live();
    t = open_turnout(j);
    turnout_open(t, ROUNDS);
    assert_true(sefl_heap_peak() - before < (8 << 20));
    sefl_heap_mark();
    const size_t idle = sefl_heap_live();
    for (int worst = 0; worst < 2; worst++) {
        sefl_buf b = { 0 };
        CHECK_OK(turnout_grid(t, &b,
                              &(page_grid_ask){ .rounds = PAGE_GRID_ROUNDS,
                                                .clients = PAGE_GRID_CLIENTS,
                                                .from = 5000,
                                                .worst = worst }));
        assert_true(b.n < (256 << 10));
        buf_clear(&b);
    }
    assert_true(sefl_heap_peak() - idle < (2 << 20));
    const char *g = grid(t, &(page_grid_ask){ .first = 10, .rounds = 20, .clients = 1 });
    has(g, "\"cells\":\"           "); /* rounds 10 to 20 are forgotten */
    has(g, "\"counts\":[{\"round\":21,");
    turnout_free(t);
    journal_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(letters, begin), cmocka_unit_test_setup(restart, begin),
        cmocka_unit_test_setup(missing, begin), cmocka_unit_test_setup(turns, begin),
        cmocka_unit_test_setup(cut, begin),     cmocka_unit_test_setup(idle, begin),
        cmocka_unit_test_setup(spent, begin),   cmocka_unit_test_setup(damaged, begin),
        cmocka_unit_test_setup(large, begin),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
