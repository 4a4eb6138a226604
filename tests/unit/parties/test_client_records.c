/* Records that take turns, in real clients: whatever is killed, restored or put in another order, no
 * record is used in more rounds than the task allows. */
#include "unit/parties/client_scene.h"

#include "base/hex.h"
#include "model/layout.h"

#include <signal.h>
#include <sys/wait.h>

enum { ROUNDS = 6, TURNS = 2, MOST = 4, RECORDS = 6, EMBED = 8 };

/* Each record has a word that no other has: the gradient reaches its row of the embedding (dense:
 * model.block=1) if and only if the round uses the record. */
static const char *const own_word[RECORDS] = { "cat", "dog", "mat", "sat", "ran", "on" };

/* The records of a text, by their numbers in own_word. */
static void write_text(const char *records)
{
    char text[512] = "";
    for (const char *r = records; *r; r++) {
        const char *w = own_word[*r - '0'];
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s the %s and a %s %s\n", w, w,
                 w, w);
    }
    put_text("text.txt", text);
}

/* A task whose records take `turns` turns in ROUNDS rounds. */
static federation *scene(unsigned turns, unsigned most)
{
    sefl_buf doc = { 0 };
    char a[64], b[64], vocab_sha[96] = "vocab.sha256=";
    uint8_t hash[32];
    federation *s = begin(3, NULL, NULL, NULL);
    vocab_hash(words, hash);
    hex_write(vocab_sha + strlen(vocab_sha), hash, sizeof hash);
    snprintf(a, sizeof a, "privacy.records_max=%u", most);
    snprintf(b, sizeof b, "privacy.record_turns=%u", turns);
    CHECK_OK(sample_document(&doc, vocab_sha, "model.vocab=12", "model.batch=2", "model.steps=5",
                             "model.block=1", "training.lr=1", "crypto.scheme=pad",
                             "rounds.count=6", "privacy.unit=record", a, b, "privacy.epsilon=100",
                             NULL));
    fake_sign(&s->as, 3, buf_span(&doc));
    fake_model(&s->as, words);
    s->as.rounds = ROUNDS;
    buf_clear(&doc);
    return s;
}

/* ---- which records an update used ------------------------------------------------------------ */

/* Records by round, of all processes: one line each, "round records". */
static int uses_fd;

static void note_uses(void *ctx, uint64_t round, const int64_t *X, size_t n)
{
    const federation *s = ctx;
    char line[64];
    int at = snprintf(line, sizeof line, "%llu ", (unsigned long long)round);
    const layout_tensor *rows = layout_find(&s->as.t.layout, "encoder.weight");
    assert_true(rows && rows->block == 1 && rows->count == 12 * EMBED &&
                rows->update_offset + rows->count <= n);
    for (size_t i = 0; i < RECORDS; i++) {
        const uint32_t row = vocab_id(words, span_of_str(own_word[i]));
        bool used = false;
        for (size_t k = 0; k < EMBED; k++)
            used = used || X[rows->update_offset + row * EMBED + k] != 0;
        if (used)
            line[at++] = (char)('0' + i);
    }
    line[at++] = '\n';
    assert_true(write(uses_fd, line, (size_t)at) == at);
}

static const char *uses_path(void)
{
    return folder_path("uses");
}

static void open_uses(void)
{
    (void)unlink(uses_path());
    uses_fd = open(uses_path(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    assert_true(uses_fd >= 0);
}

/* Every attempt of a round used the records of its places; returns the number of rounds. */
static unsigned check_uses(const federation *s, const char *records)
{
    sefl_buf b = { 0 };
    const dp_record_turns turns = task_record_turns(&s->as.t);
    char seen[ROUNDS + 1][RECORDS + 1] = { "" };
    unsigned used[RECORDS] = { 0 }, rounds = 0;
    bool begun[ROUNDS + 1] = { false };
    CHECK_OK(file_read(&b, uses_path(), 1 << 16));
    CHECK_OK(wr_u8(&b, 0));
    for (char *at = (char *)b.p; *at; at = strchr(at, '\n') + 1) {
        char line[RECORDS + 1] = "";
        const unsigned long round = strtoul(at, NULL, 10);
        assert_true(round >= 1 && round <= ROUNDS);
        (void)sscanf(strchr(at, ' '), " %6[0-9]", line);
        if (strchr(at, ' ')[1] == '\n')
            *line = 0;
        assert_true(!begun[round] || strcmp(seen[round], line) == 0);
        begun[round] = true;
        strcpy(seen[round], line);
    }
    for (unsigned r = 1; r <= ROUNDS; r++) {
        if (!begun[r])
            continue;
        const dp_record_places p = dp_record_round(&turns, strlen(records), r);
        assert_int_equal(strlen(seen[r]), p.count);
        for (uint64_t i = 0; i < p.count; i++)
            assert_non_null(strchr(seen[r], records[dp_record_place(&p, i)]));
        for (const char *i = seen[r]; *i; i++)
            used[*i - '0']++;
        rounds++;
    }
    for (size_t i = 0; i < RECORDS; i++)
        assert_true(used[i] <= s->as.t.record_turns);
    buf_clear(&b);
    return rounds;
}

static void make_client(federation *s)
{
    configure(s);
    s->from = coins_system();
    CHECK_OK(client_new(&s->c, &(client_options){ .config = &s->cfg,
                                                  .log = &s->log,
                                                  .coins = &s->from,
                                                  .show = s->show,
                                                  .show_ctx = s,
                                                  .observe = note_uses,
                                                  .observe_ctx = s }));
}

static sefl_status run_client(federation *s)
{
    make_client(s);
    const sefl_status st = client_run(s->c);
    client_free(s->c);
    s->c = NULL;
    return st;
}

/* The file with the list of the records. */
static const char *list_of(const federation *s)
{
    static char path[600];
    char id[17];
    snprintf(path, sizeof path, "%s.records-%s", s->as.ledger, hex_write(id, s->as.t.id, 8));
    return path;
}

/* ---- the tests ------------------------------------------------------------------------------- */

/* Sites of all sizes; every round uploads, and is charged, also one without a record. */
static void sites_of_different_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *records;
        unsigned turns, most;
        const char *warns;
    } sites[] = {
        { "0", 1, 1, "too few records" },
        { "01", 2, 4, "too few records" },
        { "012", 2, 4, NULL },
        { "01234", 5, 5, NULL },
        { "012345", 2, 4, NULL },
        { "543210", 4, 2, NULL },
        { "01234", 6, 4, NULL },
        { "012345", 1, 1, NULL },
    };
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        write_text(sites[i].records);
        open_uses();
        federation *s = scene(sites[i].turns, sites[i].most);
        CHECK_OK(run_client(s));
        assert_int_equal(s->as.receipts, ROUNDS);
        assert_int_equal(check_uses(s, sites[i].records), ROUNDS);
        assert_int_equal(charged(s), ROUNDS);
        const char *warns = strstr(log_of(s), "\"level\":\"warn\"");
        assert_true(sites[i].warns ? warns && strstr(warns, sites[i].warns) : !warns);
        close(uses_fd);
        end(s);
    }
}

static _Noreturn void child(federation *s)
{
    alarm(60);
    make_client(s);
    _exit(client_run(s->c) == SEFL_OK ? 0 : 1);
}

/* kill -9 at many moments, and the text in another order at each start: the order that counts is
 * that of the client which wrote the list. */
static void killed_and_shuffled(void **state)
{
    (void)state;
    static const char *const orders[] = { "012345", "543210", "201543", "315042" };
    seeded gen;
    const char *order = orders[0];
    unsigned died = 0, runs = 0;
    test_seed(&gen, "kill records");
    const unsigned kills = test_count(12, 200);
    write_text(orders[0]);
    open_uses();
    federation *s = scene(TURNS, MOST);
    for (;; runs++) {
        int status = 0;
        const bool listed = file_exists(list_of(s));
        write_text(orders[runs % 4]);
        order = listed ? order : orders[runs % 4];
        pthread_mutex_lock(&s->as.lock); /* no server thread holds it while we fork */
        const pid_t pid = fork();
        if (pid == 0)
            child(s);
        pthread_mutex_unlock(&s->as.lock);
        assert_true(pid > 0);
        if (runs < kills) {
            usleep((useconds_t)seeded_below(&gen, 4000u << seeded_below(&gen, 5)));
            kill(pid, SIGKILL);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        fake_quiet(&s->as);
        if (WIFEXITED(status)) {
            if (WEXITSTATUS(status) != 0)
                fail_msg("the client gave up:\n%s", log_of(s));
            break;
        }
        died++;
    }
    print_message("%u killed of %u\n", died, runs + 1);
    assert_int_equal(s->as.receipts, ROUNDS);
    assert_false(s->as.uncharged);
    assert_true(check_uses(s, order) == ROUNDS);
    close(uses_fd);
    end(s);
}

/* Runs the client until it has receipts for `rounds` rounds. */
static void run_until(federation *s, unsigned rounds)
{
    s->as.rounds = rounds;
    CHECK_OK(run_client(s));
    assert_int_equal(s->as.receipts, rounds);
    s->as.rounds = ROUNDS;
}

/* The state folder, and then the ledger too, are put back to an older copy. The list of the records
 * is in neither: every record keeps its turns. */
static void restored_copies(void **state)
{
    (void)state;
    char copy[600];
    for (int with_ledger = 0; with_ledger < 2; with_ledger++) {
        write_text("012345");
        open_uses();
        federation *s = scene(TURNS, MOST);
        run_until(s, 2);
        snprintf(copy, sizeof copy, "%s.copy", s->cfg.state);
        folder_copy(copy, s->cfg.state);
        folder_copy(folder_path("ledger.copy"), s->as.ledger);
        run_until(s, 4);
        folder_copy(s->cfg.state, copy);
        if (with_ledger)
            folder_copy(s->as.ledger, folder_path("ledger.copy"));
        write_text("350142");
        CHECK_OK(run_client(s));
        assert_int_equal(check_uses(s, "012345"), ROUNDS);
        assert_int_equal(charged(s), with_ledger ? ROUNDS - 2 : ROUNDS);
        close(uses_fd);
        end(s);
    }
}

static void takes_no_part(federation *s, const char *why)
{
    const unsigned before = s->as.receipts;
    CHECK_STATUS(run_client(s), SEFL_EINVAL);
    if (!strstr(sefl_last_error(), why))
        fail_msg("\"%s\" does not say \"%s\"", sefl_last_error(), why);
    assert_int_equal(s->as.receipts, before);
}

/* With another text, without the list or with another one, the client takes no part. */
static void another_text(void **state)
{
    (void)state;
    char kept[700];
    write_text("012345");
    open_uses();
    federation *s = scene(TURNS, MOST);
    run_until(s, 3);
    write_text("01234");
    takes_no_part(s, "1 of the 6 records");
    write_text("012344");
    takes_no_part(s, "1 of the 6 records");
    write_text("543210");
    snprintf(kept, sizeof kept, "%s.kept", list_of(s));
    assert_int_equal(rename(list_of(s), kept), 0);
    takes_no_part(s, "is missing");
    folder_copy(list_of(s), s->as.ledger);
    takes_no_part(s, "no part");
    folder_copy(list_of(s), kept);
    CHECK_OK(run_client(s));
    assert_int_equal(s->as.receipts, ROUNDS);
    assert_int_equal(check_uses(s, "012345"), ROUNDS);
    close(uses_fd);
    end(s);
}

static const char *stop_at;

static void stop_when(void *ctx, const client_view *v)
{
    federation *s = ctx;
    if (strcmp(v->doing, stop_at) == 0)
        client_stop(s->c);
}

/* Runs the client until it shows this. */
static void run_to(federation *s, const char *doing)
{
    stop_at = doing;
    s->show = stop_when;
    CHECK_OK(run_client(s));
    s->show = NULL;
}

/* Until the client begins its first update, its text may change. */
static void another_text_before_the_first_update(void **state)
{
    (void)state;
    open_uses();
    write_text("01");
    federation *s = scene(TURNS, MOST);
    run_to(s, "waiting");
    write_text("0124");
    run_to(s, "fetching the model");
    assert_false(file_exists(list_of(s)));
    write_text("543210");
    run_to(s, "uploading"); /* the update is made: the list is there, without a charge */
    assert_int_equal(charged(s), 0);
    assert_true(file_exists(list_of(s)));
    write_text("54321");
    takes_no_part(s, "1 of the 6 records");
    write_text("012345");
    CHECK_OK(run_client(s));
    assert_int_equal(s->as.receipts, ROUNDS);
    assert_int_equal(check_uses(s, "543210"), ROUNDS);
    close(uses_fd);
    end(s);
}

/* The owner deletes the list while an update is made and not charged: the update is never uploaded
 * under the new list. */
static void an_update_of_another_list(void **state)
{
    (void)state;
    open_uses();
    write_text("012345");
    federation *s = scene(TURNS, MOST);
    run_to(s, "uploading");
    assert_int_equal(charged(s), 0);
    assert_int_equal(unlink(list_of(s)), 0);
    close(uses_fd);
    open_uses();
    write_text("453210");
    run_to(s, "waiting");
    assert_int_equal(s->as.receipts, 0);
    assert_int_equal(charged(s), 0);
    assert_non_null(strstr(log_of(s), "another list of the task's records"));
    s->as.round = 2;
    CHECK_OK(run_client(s));
    assert_int_equal(s->as.receipts, ROUNDS - 1);
    assert_int_equal(charged(s), ROUNDS - 1);
    assert_int_equal(check_uses(s, "453210"), ROUNDS - 1);
    close(uses_fd);
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sites_of_different_sizes),
        cmocka_unit_test(killed_and_shuffled),
        cmocka_unit_test(restored_copies),
        cmocka_unit_test(another_text),
        cmocka_unit_test(another_text_before_the_first_update),
        cmocka_unit_test(an_update_of_another_list),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
