#include "support/check.h"
#include "support/folder.h"
#include "unit/parties/client_counted.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/hex.h"
#include "config/yaml/yaml.h"
#include "roles/client/client_config.h"
#include "roles/client/store.h"
#include "roles/client/text.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 3 }; /* bytes before a body's units */

static const uint8_t task_a[32] = { 0xaa, 1 }, task_b[32] = { 0xbb, 2 };

static char state_folder[256];

static client_store *open_store(const uint8_t *id)
{
    client_store *s = NULL;
    snprintf(state_folder, sizeof state_folder, "%s", folder_path("state"));
    CHECK_OK(client_store_open(&s, state_folder, id, HEAD));
    return s;
}

static client_store *reopen(client_store *s, const uint8_t *id)
{
    client_store_close(s); /* equivalent to a crash: nothing is written here */
    return open_store(id);
}

static void put(client_store *s, client_file f, const char *text)
{
    CHECK_OK(file_write_atomic(client_store_path(s, f), span_of_str(text), 0600));
}

static void in_state(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", state_folder, name);
    CHECK_OK(file_write_atomic(path, span_of_str(text), 0600));
}

static bool is_there(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", state_folder, name);
    return file_exists(path);
}

static void a_round_from_coin_to_receipt(void **state)
{
    (void)state;
    const uint8_t list[SHA256_BYTES] = { 7, 8, 9 };
    client_store *s = open_store(task_a), *second = NULL;
    sefl_buf b = { 0 };
    client_body body;
    CHECK_STATUS(client_store_open(&second, state_folder, task_a, HEAD), SEFL_ESTATE);
    assert_int_equal(client_store_mark(s)->phase, CLIENT_NOWHERE);
    CHECK_STATUS(client_store_begin(s, NULL), SEFL_ESTATE);
    CHECK_STATUS(client_store_drop(s), SEFL_ESTATE);

    CHECK_OK(client_store_draw(s, 3, true));
    s = reopen(s, task_a);
    assert_int_equal(client_store_mark(s)->round, 3);
    assert_true(client_store_mark(s)->drawn);
    CHECK_STATUS(client_store_draw(s, 3, false), SEFL_ESTATE); /* one coin a round */
    CHECK_STATUS(client_store_draw(s, 2, false), SEFL_ESTATE);

    /* died while encrypting: attempt numbers never repeat, the model stays, an unfinished file is
     * deleted */
    CHECK_OK(client_store_begin(s, NULL));
    assert_int_equal(client_store_mark(s)->attempt, 1);
    put(s, CLIENT_MODEL, "model");
    in_state("model-3.part", "half");
    in_state("round-3.body.tmp-17", "half");
    in_state("round-2.body", "old");
    in_state("model-2", "old");
    in_state("model-30", "other");
    s = reopen(s, task_a);
    assert_false(is_there("round-3.body.tmp-17"));
    assert_false(is_there("round-2.body"));
    assert_false(is_there("model-2"));
    assert_false(is_there("model-30"));
    assert_true(is_there("model-3"));
    assert_true(is_there("model-3.part"));
    assert_int_equal(client_store_mark(s)->phase, CLIENT_MAKING);
    CHECK_OK(client_store_begin(s, NULL));
    assert_int_equal(client_store_mark(s)->attempt, 2);

    /* the next attempt may be of another list of records */
    assert_int_equal(client_store_mark(s)->list[0], 0);
    CHECK_OK(client_store_begin(s, list));
    s = reopen(s, task_a);
    assert_memory_equal(client_store_mark(s)->list, list, sizeof list);

    /* died between the complete file and its mark: these bytes are the update */
    put(s, CLIENT_BODY, "the body");
    s = reopen(s, task_a);
    assert_int_equal(client_store_mark(s)->phase, CLIENT_FINISHED);
    CHECK_OK(client_body_of(&body, client_store_path(s, CLIENT_BODY), HEAD));
    assert_memory_equal(&client_store_mark(s)->body, &body, sizeof body);
    assert_int_equal(body.bytes, 8);
    CHECK_STATUS(client_store_begin(s, NULL), SEFL_ESTATE); /* never encrypted twice */
    CHECK_STATUS(client_store_finish(s, &body), SEFL_ESTATE);
    s = reopen(s, task_a);
    assert_int_equal(client_store_mark(s)->phase, CLIENT_FINISHED);
    assert_false(client_store_lost(s));

    CHECK_OK(client_store_receipt(s, span_of_str("receipt")));
    assert_false(is_there("round-3.body"));
    s = reopen(s, task_a);
    assert_int_equal(client_store_mark(s)->phase, CLIENT_DONE);
    CHECK_STATUS(client_store_receipt(s, span_of_str("again")), SEFL_ESTATE);
    CHECK_OK(client_store_receipt_read(s, &b, 3));
    assert_int_equal(b.n, 7);
    CHECK_STATUS(client_store_receipt_read(s, &b, 4), SEFL_ENOTFOUND);
    buf_clear(&b);

    CHECK_OK(client_store_draw(s, 5, false));
    assert_false(client_store_mark(s)->drawn);
    assert_int_equal(client_store_mark(s)->attempt, 0);
    CHECK_OK(client_store_drop(s));
    s = reopen(s, task_a);
    client_store_close(s);
}

static void a_body_that_changed_is_not_made_again(void **state)
{
    (void)state;
    /* units, head, length, shorter than a head, missing */
    static const char *const left[] = { "whol3", "wHole", "whole.", "wh", NULL };
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        const uint8_t *id = i % 2 ? task_a : task_b;
        client_store *s = open_store(id);
        client_body body;
        CHECK_OK(client_store_draw(s, 9 + i, true));
        CHECK_OK(client_store_begin(s, NULL));
        put(s, CLIENT_BODY, "whole");
        CHECK_OK(client_body_of(&body, client_store_path(s, CLIENT_BODY), HEAD));
        CHECK_OK(client_store_finish(s, &body));
        if (left[i])
            put(s, CLIENT_BODY, left[i]);
        else
            unlink(client_store_path(s, CLIENT_BODY));
        s = reopen(s, id);
        assert_true(client_store_lost(s));
        assert_int_equal(client_store_mark(s)->phase, CLIENT_DONE);
        assert_false(file_exists(client_store_path(s, CLIENT_BODY)));
        CHECK_STATUS(client_store_begin(s, NULL), SEFL_ESTATE);
        client_store_close(s);
    }
}

static void another_task_begins_anew(void **state)
{
    (void)state;
    static const uint8_t old[32] = { 0xee, 1 }, new[32] = { 0xee, 2 };
    client_store *s = open_store(old);
    client_body body;
    CHECK_OK(client_store_draw(s, 20, true));
    CHECK_OK(client_store_begin(s, NULL));
    put(s, CLIENT_BODY, "body");
    CHECK_OK(client_body_of(&body, client_store_path(s, CLIENT_BODY), HEAD));
    CHECK_OK(client_store_finish(s, &body));
    s = reopen(s, new);
    assert_int_equal(client_store_mark(s)->round, 0);
    assert_int_equal(client_store_mark(s)->phase, CLIENT_NOWHERE);
    assert_false(is_there("round-20.body"));
    CHECK_OK(client_store_draw(s, 1, false));
    /* and back: its body is gone, and its coin stays */
    s = reopen(s, old);
    assert_true(client_store_lost(s));
    assert_int_equal(client_store_mark(s)->round, 20);
    assert_int_equal(client_store_mark(s)->phase, CLIENT_DONE);
    CHECK_STATUS(client_store_draw(s, 20, true), SEFL_ESTATE);
    CHECK_OK(client_store_draw(s, 21, true));
    s = reopen(s, new);
    assert_int_equal(client_store_mark(s)->round, 1);
    assert_int_equal(client_store_mark(s)->phase, CLIENT_DRAWN);
    assert_false(client_store_mark(s)->drawn);
    CHECK_STATUS(client_store_draw(s, 1, true), SEFL_ESTATE);
    client_store_close(s);
    in_state("mark", "of an earlier version");
    CHECK_STATUS(client_store_open(&s, state_folder, new, HEAD), SEFL_ESTATE);
    char path[512];
    snprintf(path, sizeof path, "%s/mark", state_folder);
    unlink(path);
}

static void a_damaged_mark_is_no_fresh_start(void **state)
{
    (void)state;
    client_store *s = open_store(task_a);
    sefl_buf b = { 0 };
    char path[512], id[HEX_CHARS(32)];
    CHECK_OK(client_store_draw(s, 30, true));
    snprintf(path, sizeof path, "%s/mark-%s", state_folder, hex_write(id, task_a, 32));
    client_store_close(s);
    CHECK_OK(file_read(&b, path, 4096));
    for (size_t i = 0; i < b.n; i += 7) {
        b.p[i] ^= 4;
        CHECK_OK(file_write_atomic(path, buf_span(&b), 0600));
        CHECK_STATUS(client_store_open(&s, state_folder, task_a, HEAD), SEFL_EPROTO);
        b.p[i] ^= 4;
    }
    CHECK_OK(file_write_atomic(path, span_of(b.p, b.n - 1), 0600));
    CHECK_STATUS(client_store_open(&s, state_folder, task_a, HEAD), SEFL_EPROTO);
    CHECK_OK(file_write_atomic(path, buf_span(&b), 0600));
    client_store_close(open_store(task_a));
    buf_clear(&b);
}

static sefl_status whole_round(uint64_t round)
{
    sefl_status st = SEFL_OK;
    client_store *s = NULL;
    client_body body;
    SEFL_TRY(client_store_open(&s, state_folder, task_a, HEAD));
    if (client_store_mark(s)->round < round)
        SEFL_TRY(client_store_draw(s, round, true));
    if (client_store_mark(s)->phase < CLIENT_FINISHED) {
        SEFL_TRY(client_store_begin(s, NULL));
        SEFL_TRY(
            file_write_atomic(client_store_path(s, CLIENT_BODY), span_of_str("head, x"), 0600));
        SEFL_TRY(client_body_of(&body, client_store_path(s, CLIENT_BODY), HEAD));
        SEFL_TRY(client_store_finish(s, &body));
    }
    if (client_store_mark(s)->phase == CLIENT_FINISHED)
        SEFL_TRY(client_store_receipt(s, span_of_str("r")));
    for (uint64_t r = 1; r != 0;) {
        unsigned misses;
        SEFL_TRY(client_store_uncounted(s, UINT64_MAX, &r));
        if (r != 0)
            SEFL_TRY(client_store_counted(s, r, CLIENT_COUNTED, span_of_str("c"), &misses));
    }
done:
    client_store_close(s);
    return st;
}

/* Number of files and folders below state. */
static unsigned things(void)
{
    unsigned n = 0;
    char path[512];
    DIR *d = opendir(state_folder), *below;
    for (struct dirent *e; (e = readdir(d)) != NULL; n++) {
        snprintf(path, sizeof path, "%s/%.200s", state_folder, e->d_name);
        if (e->d_name[0] != '.' && (below = opendir(path)) != NULL) {
            while (readdir(below))
                n++;
            closedir(below);
        }
    }
    closedir(d);
    return n;
}

/* After a hundred rounds there are no more files than after the first, and every receipt can be
 * read. */
static void receipts_are_one_file(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    CHECK_OK(whole_round(1000));
    unsigned before = things();
    for (uint64_t r = 1001; r < 1100; r++)
        CHECK_OK(whole_round(r));
    assert_int_equal(things(), before);
    client_store *s = open_store(task_a);
    for (uint64_t r = 1000; r < 1100; r++) {
        buf_reset(&b);
        CHECK_OK(client_store_receipt_read(s, &b, r));
        assert_int_equal(b.n, 1);
    }
    s = reopen(s, task_b);
    CHECK_STATUS(client_store_receipt_read(s, &b, 1000), SEFL_ENOTFOUND);
    client_store_close(s);
    buf_clear(&b);
}

static void a_receipt(client_store *s, uint64_t round)
{
    client_body body;
    CHECK_OK(client_store_draw(s, round, true));
    CHECK_OK(client_store_begin(s, NULL));
    put(s, CLIENT_BODY, "body");
    CHECK_OK(client_body_of(&body, client_store_path(s, CLIENT_BODY), HEAD));
    CHECK_OK(client_store_finish(s, &body));
    CHECK_OK(client_store_receipt(s, span_of_str("r")));
}

static uint64_t uncounted(const client_store *s, uint64_t before)
{
    uint64_t round;
    CHECK_OK(client_store_uncounted(s, before, &round));
    return round;
}

static unsigned keep(client_store *s, uint64_t round, client_counted what, const char *proof)
{
    unsigned misses;
    CHECK_OK(client_store_counted(s, round, what, span_of_str(proof), &misses));
    return misses;
}

/* Which receipts still need a proof, and the outcome of the others, across restarts. */
static void what_became_of_receipts(void **state)
{
    (void)state;
    static const uint8_t task_c[32] = { 0xcc }, task_d[32] = { 0xdd };
    client_store *s = open_store(task_c);
    client_counted what;
    sefl_buf b = { 0 };
    unsigned misses;
    assert_int_equal(uncounted(s, UINT64_MAX), 0);
    a_receipt(s, 2);
    a_receipt(s, 4);
    a_receipt(s, 5);
    assert_int_equal(uncounted(s, 2), 0); /* its round is not over yet */
    assert_int_equal(uncounted(s, 3), 2);
    assert_int_equal(uncounted(s, UINT64_MAX), 2);
    CHECK_STATUS(counted_read(state_folder, task_c, &what, NULL, 2), SEFL_ENOTFOUND);

    assert_int_equal(keep(s, 2, CLIENT_MISSED, "no path"), 1);
    CHECK_STATUS(client_store_counted(s, 2, CLIENT_COUNTED, span_of_str(""), &misses), SEFL_ESTATE);
    s = reopen(s, task_c);
    assert_int_equal(uncounted(s, UINT64_MAX), 4);
    assert_int_equal(keep(s, 4, CLIENT_SKIPPED, ""),
                     1); /* neither a miss nor a reset of the count */
    assert_int_equal(keep(s, 5, CLIENT_MISSED, ""), 2);
    assert_int_equal(uncounted(s, UINT64_MAX), 0);
    s = reopen(s, task_c);
    a_receipt(s, 6);
    assert_int_equal(keep(s, 6, CLIENT_MISSED, ""), 3); /* counted over restarts */

    s = reopen(s, task_d); /* another task: nothing from the first one */
    assert_int_equal(uncounted(s, UINT64_MAX), 0);
    a_receipt(s, 1);
    assert_int_equal(uncounted(s, UINT64_MAX), 1);
    assert_int_equal(keep(s, 1, CLIENT_MISSED, ""), 1);

    s = reopen(s, task_c);
    a_receipt(s, 7);
    a_receipt(s, 8);
    assert_int_equal(uncounted(s, 8), 7);
    assert_int_equal(keep(s, 7, CLIENT_COUNTED, "proof"), 0);
    assert_int_equal(keep(s, 8, CLIENT_MISSED, ""), 1);
    CHECK_OK(counted_read(state_folder, task_c, &what, &b, 7));
    assert_int_equal(what, CLIENT_COUNTED);
    assert_int_equal(b.n, 5);
    assert_memory_equal(b.p, "proof", 5);
    CHECK_OK(counted_read(state_folder, task_c, &what, NULL, 4));
    assert_int_equal(what, CLIENT_SKIPPED);
    CHECK_STATUS(counted_read(state_folder, task_c, &what, NULL, 3), SEFL_ENOTFOUND);
    buf_clear(&b);
    client_store_close(s);
}

/* Opening reads all records: if each run added one, the fault test would never reach the last
 * read. */
static void few_receipts(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/receipts", state_folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/counted", state_folder);
    unlink(path);
}

static void faults_leave_a_state_that_goes_on(void **state)
{
    (void)state;
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC, FAULT_READ };
    uint64_t round = 100;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        TEST_FAULTS(kinds[k], few_receipts(); st = whole_round(++round), {
            CHECK_OK(whole_round(round));
            assert_true(true);
        });
}

/* ---- text ------------------------------------------------------------------------------------ */

static void text_of_many_files(void **state)
{
    (void)state;
    vocab *v = NULL;
    corpus one = { 0 }, c = { 0 };
    char dir[512];
    CHECK_OK(vocab_read_over(&v, span_of_str("<unk>\n<eos>\na\nb\nc\n"), "w",
                             &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    snprintf(dir, sizeof dir, "%s", folder_path("notes"));
    assert_int_equal(mkdir(dir, 0700), 0);
    CHECK_STATUS(client_text_read(&c, v, &(corpus_file){ .path = dir }, NULL), SEFL_ENOTFOUND);
    folder_put("notes/2.txt", "b c\nc\n", 6);
    folder_put("notes/10.txt", "a a\n", 4); /* by bytes: before 2.txt */
    folder_put("notes/3.jsonl", "{\"text\":\"a\\nb\"}\n", 15);
    folder_put("notes/.hidden.txt", "c\n", 2);
    folder_put("notes/readme", "c\n", 2);
    CHECK_OK(client_text_read(&c, v, &(corpus_file){ .path = dir }, NULL));
    const uint32_t want[] = { 2, 2, 1, 3, 4, 1, 4, 1, 2, 1, 3, 1 };
    const size_t lines[] = { 0, 3, 6, 8, 10, 12 }, docs[] = { 0, 1, 2, 3, 5 };
    assert_int_equal(c.tokens, 12);
    assert_memory_equal(c.token, want, sizeof want);
    assert_int_equal(c.lines, 5);
    assert_memory_equal(c.line, lines, sizeof lines);
    assert_int_equal(c.docs, 4);
    assert_memory_equal(c.doc, docs, sizeof docs);
    corpus_clear(&c);
    TEST_FAULTS(FAULT_ALLOC, st = client_text_read(&c, v, &(corpus_file){ .path = dir }, NULL),
                corpus_clear(&c));
    const char *train = folder_put("notes/train.txt", "c\n", 2);
    CHECK_OK(client_text_read(&one, v, &(corpus_file){ .path = train }, NULL));
    CHECK_OK(client_text_read(&c, v, &(corpus_file){ .path = dir }, NULL));
    assert_int_equal(one.tokens, 2);
    assert_int_equal(c.tokens, 2);
    CHECK_STATUS(client_text_read(&c, v, &(corpus_file){ .path = folder_path("nowhere") }, NULL),
                 SEFL_ENOTFOUND);
    corpus_clear(&c);
    corpus_clear(&one);
    vocab_free(v);
}

/* ---- configuration --------------------------------------------------------------------------- */

static void configuration_from_yaml(void **state)
{
    (void)state;
    settings s;
    client_config c;
    uint8_t pub[32] = { 1 };
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_path(""));
    CHECK_OK(sign_pub_write(pub, folder_path("aggregator.pub")));
    static const char text[] = "server: as.example:7000\n"
                               "tls: { cert: cert.pem, key: /abs/key.pem, peers: peers.pem }\n"
                               "aggregator_key: aggregator.pub\n"
                               "csp_key: csp.pub\n"
                               "policy: policy.yml\ntext: text\nstate: state\nledger: ledger\n";
    const char *yml = folder_put("client.yml", text, sizeof text - 1);
    settings_init(&s, client_schema);
    CHECK_OK(yaml_read(&s, yml));
    CHECK_STATUS(client_config_make(&c, &s), SEFL_ENOTFOUND);
    assert_non_null(strstr(sefl_last_error(), "csp_key"));
    CHECK_OK(sign_pub_write(pub, folder_path("csp.pub")));
    CHECK_STATUS(client_config_make(&c, &s), SEFL_EINVAL); /* one key for both */
    pub[0] = 2;
    unlink(folder_path("csp.pub"));
    CHECK_OK(sign_pub_write(pub, folder_path("csp.pub")));
    CHECK_OK(client_config_make(&c, &s));
    assert_string_equal(c.server.host, "as.example");
    assert_int_equal(c.server.port, 7000);
    assert_null(c.proxy);
    assert_string_equal(c.key, "/abs/key.pem");
    assert_true(strncmp(c.text, folder, strlen(folder)) == 0);
    assert_int_equal(c.servers.csp[0], 2);
    TEST_FAULTS(FAULT_ALLOC, st = client_config_make(&c, &s), (void)0);
    CHECK_OK(settings_set(&s, "proxy=none", "--proxy"));
    CHECK_OK(client_config_make(&c, &s));
    assert_string_equal(c.proxy, "");
    settings_clear(&s);
}

static void policies(void **state)
{
    (void)state;
    policy p;
    pinned servers = { .as = { 1 }, .csp = { 2 } };
    const char *empty = folder_put("p1.yml", "{}\n", 3);
    CHECK_OK(policy_read(&p, empty, &servers));
    assert_true(p.noise_modes == (1u << TASK_NOISE_JOINT | 1u << TASK_NOISE_OWN) &&
                !p.allow_no_claim);
    assert_true(p.epsilon_task == 0 && p.epsilon_total == 0 && p.rounds_max == 0);
    assert_int_equal(p.servers.csp[0], 2);
    static const char text[] = "epsilon_per_task: 3\nepsilon_total: 8.5\nclients_min: 5\n"
                               "noise_modes: [joint, none]\nclaim_none: true\nrounds_max: 40\n";
    CHECK_OK(policy_read(&p, folder_put("p2.yml", text, sizeof text - 1), &servers));
    assert_true(p.epsilon_task == 3 && p.epsilon_total == 8.5);
    assert_int_equal(p.threshold_min, 5);
    assert_true(p.noise_modes == (1u << TASK_NOISE_JOINT | 1u << TASK_NOISE_NONE) &&
                p.allow_no_claim);
    assert_int_equal(p.rounds_max, 40);
    static const char *const bad[] = { "noise_modes: [joint, loud]\n", "noise_modes: []\n",
                                       "epsilon_total: -1\n", "epsilon_totl: 1\n",
                                       "clients_min: many\n" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *f = folder_put("p3.yml", bad[i], strlen(bad[i]));
        sefl_status st = policy_read(&p, f, &servers);
        if (st == SEFL_OK)
            fail_msg("taken: %s", bad[i]);
        assert_non_null(strstr(sefl_last_error(), "p3.yml"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_from_coin_to_receipt),
        cmocka_unit_test(a_body_that_changed_is_not_made_again),
        cmocka_unit_test(another_task_begins_anew),
        cmocka_unit_test(a_damaged_mark_is_no_fresh_start),
        cmocka_unit_test(faults_leave_a_state_that_goes_on),
        cmocka_unit_test(receipts_are_one_file),
        cmocka_unit_test(what_became_of_receipts),
        cmocka_unit_test(text_of_many_files),
        cmocka_unit_test(configuration_from_yaml),
        cmocka_unit_test(policies),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
