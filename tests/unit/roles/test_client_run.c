/* The client against a server in this process, over real mutual TLS. */
#include "unit/roles/fake_as.h"

#include "roles/client_inside.h"
#include "unit/roles/update_fixture.h"

#include <fcntl.h>

static vocab *words;
static uint8_t me[32];

static void put_text(const char *name, const char *text)
{
    folder_put(name, text, strlen(text));
}

static int setup(void **state)
{
    int rc = folder_make(state);
    sample_begin();
    CHECK_OK(x509_make(folder_path("ca.pem"), folder_path("ca.key"),
                       &(x509_subject){ .name = "CA", .days = 10 }, NULL, NULL));
    CHECK_OK(x509_make(
        folder_path("as.pem"), folder_path("as.key"),
        &(x509_subject){
            .name = "as", .role = "aggregator", .hosts = "127.0.0.1,localhost", .days = 5 },
        folder_path("ca.pem"), folder_path("ca.key")));
    CHECK_OK(x509_make(folder_path("me.pem"), folder_path("me.key"),
                       &(x509_subject){ .name = "client-01", .role = "client", .days = 5 },
                       folder_path("ca.pem"), folder_path("ca.key")));
    CHECK_OK(sign_pub_write(sample_servers.as, folder_path("as.pub")));
    CHECK_OK(sign_pub_write(sample_servers.csp, folder_path("csp.pub")));
    put_text("text.txt", fixture_text);
    put_text("policy.yml", "{}\n");
    CHECK_OK(vocab_read_over(&words, span_of_str(fixture_words), "words",
                             &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    tls_id *id = NULL;
    CHECK_OK(tls_id_read(&id, folder_path("me.pem"), folder_path("me.key"), folder_path("ca.pem")));
    memcpy(me, tls_id_fingerprint(id), 32);
    tls_id_free(id);
    return rc;
}

static int teardown(void **state)
{
    vocab_free(words);
    sample_end();
    return folder_remove(state);
}

/* ---- one federation of two ------------------------------------------------------------------- */

typedef struct scene {
    fake_as as;
    settings set;
    client_config cfg;
    client *c;
    sefl_log log;
    char log_path[512];
    test_coins coins;
    sefl_coins from;
    unsigned made;    /* updates, as the observer saw them */
    unsigned nonzero; /* of them */
    int64_t largest;
} scene;

static unsigned scenes;

static void watch(void *ctx, uint64_t round, const int64_t *X, size_t n)
{
    scene *s = ctx;
    bool any = false;
    (void)round;
    for (size_t i = 0; i < n; i++) {
        any = any || X[i] != 0;
        s->largest = X[i] > s->largest ? X[i] : s->largest;
    }
    s->made++;
    s->nonzero += any;
}

static void open_client(scene *s)
{
    client_config_clear(&s->cfg);
    CHECK_OK(client_config_make(&s->cfg, &s->set, folder_path("")));
    s->from = test_coins_of(&s->coins);
    s->coins.n = 0, s->coins.repeated = false;
    CHECK_OK(client_new(&s->c, &(client_options){ .config = &s->cfg,
                                                  .log = &s->log,
                                                  .coins = &s->from,
                                                  .observe = watch,
                                                  .observe_ctx = s }));
}

static void set(scene *s, const char *assignment)
{
    CHECK_OK(settings_set(&s->set, assignment, "test"));
}

/* Settings of the task in a, b, c. The client is not opened yet. */
static scene *begin(unsigned signers, const char *a, const char *b, const char *c)
{
    scene *s = NULL;
    char line[600];
    CHECK_OK(sefl_new(&s, 1, sizeof *s));
    scenes++;
    s->as.rounds = 3, s->as.round = 1, s->as.left_ms = 60000;
    fake_task(&s->as, signers, words, a, b, c);
    fake_model(&s->as, words);
    CHECK_OK(wr_raw(&s->as.vocab, fixture_words, strlen(fixture_words)));
    snprintf(line, sizeof line, "ledger-%u", scenes);
    snprintf(s->as.ledger, sizeof s->as.ledger, "%s", folder_path(line));
    CHECK_OK(ledger_create(s->as.ledger, "testers"));
    fake_start(&s->as);
    settings_init(&s->set, client_schema);
    snprintf(line, sizeof line, "server=127.0.0.1:%u", https_server_port(s->as.server));
    set(s, line);
    set(s, "proxy=none");
    set(s, "tls.cert=me.pem"), set(s, "tls.key=me.key"), set(s, "tls.peers=ca.pem");
    set(s, "aggregator_key=as.pub"), set(s, "csp_key=csp.pub");
    set(s, "policy=policy.yml"), set(s, "text=text.txt"), set(s, "threads=1");
    snprintf(line, sizeof line, "state=state-%u", scenes);
    set(s, line);
    snprintf(line, sizeof line, "ledger=ledger-%u", scenes);
    set(s, line);
    snprintf(line, sizeof line, "log-%u", scenes);
    snprintf(s->log_path, sizeof s->log_path, "%s", folder_path(line));
    int fd = open(s->log_path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    s->log = (sefl_log){ .level = LOG_DEBUG, .fd = fd, .json = true };
    return s;
}

static void end(scene *s)
{
    client_free(s->c);
    fake_stop(&s->as);
    client_config_clear(&s->cfg);
    settings_clear(&s->set);
    close(s->log.fd);
    sefl_free(s);
}

static char *log_of(scene *s)
{
    static sefl_buf b;
    buf_clear(&b);
    CHECK_OK(file_read(&b, s->log_path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    return (char *)b.p;
}

static uint64_t charged(const scene *s)
{
    ledger *l = NULL;
    uint64_t n = 0;
    CHECK_OK(ledger_open_read(&l, s->as.ledger));
    if (!ledger_task(l, 0, &n))
        n = 0;
    ledger_close(l);
    return n;
}

static client_store *store_of(const scene *s)
{
    client_store *st = NULL;
    CHECK_OK(client_store_open(&st, s->cfg.state, s->as.t.id));
    return st;
}

static void receipts_are_kept(const scene *s, uint64_t rounds)
{
    client_store *st = store_of(s);
    sefl_buf b = { 0 };
    for (uint64_t r = 1; r <= rounds; r++) {
        client_body body = { .bytes = s->as.body[r].n };
        sha256_of(body.hash, buf_span(&s->as.body[r]));
        buf_reset(&b);
        CHECK_OK(client_store_receipt_read(st, &b, r));
        CHECK_OK(client_receipt_check(&s->as.t, buf_span(&b), r, me, &body));
        assert_int_equal(body.bytes, ahe_body_bytes(&s->as.t.ahe));
    }
    assert_int_equal(client_store_mark(st)->phase, CLIENT_DONE);
    buf_clear(&b);
    client_store_close(st);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void a_task_from_begin_to_end_with_trouble(void **state)
{
    (void)state;
    scene *s = begin(3, "privacy.epsilon=20", NULL, NULL);
    s->as.busy_task = 1;
    s->as.bad_header = 1;
    s->as.bad_model = 1;
    s->as.bad_receipt = 1;
    s->as.cut_after = 3000;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.receipts, 3);
    assert_int_equal(s->made, 3); /* whatever broke, each round was encrypted once */
    assert_int_equal(s->nonzero, 3);
    assert_int_equal(s->as.resumed, 2); /* after the cut; and nothing more to send for the receipt */
    assert_false(s->as.uncharged);
    assert_false(s->as.changed);
    assert_false(s->coins.repeated);
    assert_int_equal(charged(s), 3);
    assert_int_equal(s->as.models, 4);
    receipts_are_kept(s, 3);
    char *log = log_of(s);
    static const char *const said[] = { "header not accepted",
                                        "receipt not accepted",
                                        "starting",
                                        "other bytes than the ones that were signed",
                                        "round done",
                                        "task over" };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(log, said[i]))
            fail_msg("the log does not say \"%s\":\n%s", said[i], log);
    /* nothing of the text, and no value of an update */
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)s->largest);
    assert_true(s->largest > 1000);
    static const char *const secret[] = { "zanzibar", "cat", "mat ", "loss", "norm", "tokens" };
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        if (strstr(log, secret[i]))
            fail_msg("the log says \"%s\"", secret[i]);
    assert_null(strstr(log, number));
    end(s);
}

/* Stopped in the middle of an upload; the next process sends the rest of the same bytes. */
static void the_same_bytes_after_a_restart(void **state)
{
    (void)state;
    scene *s = begin(3, "crypto.scheme=paillier", NULL, NULL);
    s->as.rounds = 1;
    s->as.cut_after = 2000;
    open_client(s);
    s->as.stop_at_cut = s->c;
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    s->as.stop_at_cut = NULL;
    assert_int_equal(s->as.receipts, 0);
    client_store *st = store_of(s);
    assert_int_equal(client_store_mark(st)->phase, CLIENT_FINISHED);
    client_body body = client_store_mark(st)->body;
    client_store_close(st);
    assert_int_equal(charged(s), 1);

    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->made, 1); /* not encrypted again */
    assert_int_equal(s->as.receipts, 1);
    assert_int_equal(s->as.resumed, 1);
    assert_false(s->as.changed);
    client_body sent = { .bytes = s->as.body[1].n };
    sha256_of(sent.hash, buf_span(&s->as.body[1]));
    assert_memory_equal(&sent, &body, sizeof body);
    assert_int_equal(charged(s), 1);
    receipts_are_kept(s, 1);
    end(s);
}

static void late_is_not_the_end(void **state)
{
    (void)state;
    scene *s = begin(3, "privacy.noise=none", "privacy.claim=none", NULL);
    put_text("policy.yml", "noise_modes: [none]\nclaim_none: true\n");
    s->as.late_round = 1;
    s->as.rounds = 2;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.receipts, 1);
    assert_non_null(strstr(log_of(s), "the server answers 410"));
    assert_non_null(strstr(log_of(s), "no differential privacy claimed"));
    client_store *st = store_of(s);
    sefl_buf b = { 0 };
    CHECK_STATUS(client_store_receipt_read(st, &b, 1), SEFL_ENOTFOUND);
    CHECK_OK(client_store_receipt_read(st, &b, 2));
    buf_clear(&b);
    client_store_close(st);
    put_text("policy.yml", "{}\n");
    end(s);
}

static void refused(scene *s, sefl_status want, const char *says)
{
    open_client(s);
    CHECK_STATUS(client_run(s->c), want);
    if (!strstr(sefl_last_error(), says))
        fail_msg("\"%s\" does not say \"%s\"", sefl_last_error(), says);
    assert_int_equal(s->as.puts + s->as.heads + s->as.models + s->made, 0);
    assert_int_equal(charged(s), 0);
    end(s);
}

static void every_rule_of_the_policy(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *a, *b, *rule;
    } rules[] = {
        { "epsilon_per_task: 7.9\n", NULL, NULL, "policy: epsilon_per_task" },
        { "epsilon_total: 7.9\n", NULL, NULL, "policy: epsilon_total" },
        { "clients_min: 4\n", NULL, NULL, "policy: clients_min" },
        { "noise_modes: [own]\n", NULL, NULL, "policy: noise_modes" },
        { "noise_modes: [joint, own, none]\n", "privacy.noise=none", "privacy.claim=none",
          "policy: claim_none" },
        { "claim_none: true\n", "privacy.noise=none", "privacy.claim=none", "policy: noise_modes" },
        { "rounds_max: 4\n", NULL, NULL, "policy: rounds_max" },
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        put_text("policy.yml", rules[i].policy);
        refused(begin(3, rules[i].a, rules[i].b, NULL), SEFL_EINVAL, rules[i].rule);
    }
    put_text("policy.yml", "{}\n");
}

static void a_task_must_be_signed_by_both(void **state)
{
    (void)state;
    for (unsigned signers = 0; signers < 3; signers++)
        refused(begin(signers, NULL, NULL, NULL), SEFL_EAUTH, "the task is refused");
    /* signed, then changed */
    scene *s = begin(3, NULL, NULL, NULL);
    s->as.task_env.p[s->as.task_env.n / 2] ^= 1;
    refused(s, SEFL_EAUTH, "the task is refused");
    /* another CSP than the pinned one */
    s = begin(3, NULL, NULL, NULL);
    uint8_t other[32];
    memcpy(other, sample_servers.csp, 32);
    other[5] ^= 1;
    CHECK_OK(sign_pub_write(other, folder_path("other.pub")));
    set(s, "csp_key=other.pub");
    refused(s, SEFL_EAUTH, "the task is refused");
}

/* What other tasks have spent counts: refused before anything is trained. */
static void the_ledger_is_over_all_tasks(void **state)
{
    (void)state;
    scene *s = begin(3, NULL, NULL, NULL);
    ledger *l = NULL;
    ledger_terms t = { .noise = DP_NOISE_JOINT,
                       .z = 1,
                       .rate = 1,
                       .dim = 1000,
                       .epsilon_max = 30,
                       .delta = 1e-6,
                       .task = { 1 } };
    ledger_total total = { 0 };
    CHECK_OK(ledger_open(&l, s->as.ledger, "testers", NULL));
    for (uint64_t r = 1; total.server.epsilon < 6; r++) {
        CHECK_OK(ledger_charge(l, &t, r, NULL));
        CHECK_OK(ledger_spent(l, 1e-6, &total));
    }
    ledger_close(l);
    put_text("policy.yml", "epsilon_total: 8\n");
    open_client(s);
    CHECK_STATUS(client_run(s->c), SEFL_EBUDGET);
    assert_non_null(strstr(sefl_last_error(), "policy: epsilon_total"));
    assert_int_equal(s->as.puts + s->as.models + s->made, 0);
    put_text("policy.yml", "{}\n");
    end(s);
}

static void not_drawn_stays_not_drawn(void **state)
{
    (void)state;
    scene *s = begin(3, "privacy.sampling=open", "privacy.rate=0.25", "rounds.threshold=2");
    s->as.rounds = 1;
    open_client(s);
    /* find a seed by the round's name: the coin of round k decides */
    unsigned drawn_round = 0, missed_round = 0;
    for (uint64_t r = 1; r <= s->as.t.rounds; r++) {
        sefl_rng rng;
        uint8_t coin[8];
        CHECK_OK(coins_for(&s->from, &rng, "sampling", r, 0));
        CHECK_OK(rng_fill(&rng, coin, 8));
        *(load_u64(coin) < UINT64_MAX / 4 ? &drawn_round : &missed_round) = (unsigned)r;
    }
    s->coins.n = 0;
    assert_true(missed_round > 0);
    s->as.round = s->as.rounds = missed_round;
    s->c->o.once = true;
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->made + s->as.puts + s->as.models, 0);
    assert_int_equal(charged(s), 0);
    client_free(s->c);
    client_store *st = store_of(s);
    assert_int_equal(client_store_mark(st)->round, missed_round);
    assert_false(client_store_mark(st)->drawn);
    client_store_close(st);
    s->c = NULL;
    (void)drawn_round;
    end(s);
}

static void hidden_sampling_uploads_zeros(void **state)
{
    (void)state;
    scene *s = begin(3, "privacy.sampling=hidden", "privacy.rate=0.05", NULL);
    s->as.rounds = 1;
    s->as.left_ms = 600;
    open_client(s);
    sefl_clock clock = clock_monotonic();
    uint64_t before = clock_ms(&clock);
    CHECK_OK(client_run(s->c));
    uint64_t took = clock_ms(&clock) - before;
    assert_true(took >= 300); /* not before half of the time is over */
    assert_int_equal(s->as.receipts, 1);
    assert_int_equal(s->as.models, 1); /* fetched like everybody's */
    assert_int_equal(s->made, 1);
    assert_int_equal(s->nonzero, 0);
    assert_int_equal(charged(s), 1);
    assert_null(strstr(log_of(s), "not drawn"));
    end(s);
}

static void refused_by_the_server(void **state)
{
    (void)state;
    scene *s = begin(3, NULL, NULL, NULL);
    s->as.refuse_polls = 1;
    open_client(s);
    CHECK_STATUS(client_run(s->c), SEFL_EAUTH);
    assert_non_null(strstr(sefl_last_error(), "refuses this client"));
    end(s);
}

static void another_task_is_taken_up(void **state)
{
    (void)state;
    scene *s = begin(3, "rounds.count=4", NULL, NULL);
    s->as.rounds = 1;
    open_client(s);
    s->c->o.once = true;
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    /* the server now has a new task; the old one's header is no longer good for a running client */
    open_client(s);
    sefl_buf old = s->as.task_env;
    s->as.task_env = (sefl_buf){ 0 };
    fake_task(&s->as, 3, words, "rounds.count=5", NULL, NULL);
    sefl_buf fresh = s->as.task_env;
    s->as.task_env = old;
    s->as.round = s->as.rounds = 2;
    s->as.next_env = fresh;
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.receipts, 2);
    assert_non_null(strstr(log_of(s), "the server has another task"));
    end(s);
}

static void *stop_soon(void *arg)
{
    usleep(200000);
    client_stop(arg);
    return NULL;
}

static void stops_while_it_waits(void **state)
{
    (void)state;
    scene *s = begin(3, NULL, NULL, NULL);
    pthread_t t;
    s->as.busy_task = 1000;
    open_client(s);
    sefl_clock clock = clock_monotonic();
    uint64_t before = clock_ms(&clock);
    assert_int_equal(pthread_create(&t, NULL, stop_soon, s->c), 0);
    CHECK_OK(client_run(s->c));
    pthread_join(t, NULL);
    assert_true(clock_ms(&clock) - before < 2000);
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_from_begin_to_end_with_trouble),
        cmocka_unit_test(the_same_bytes_after_a_restart),
        cmocka_unit_test(late_is_not_the_end),
        cmocka_unit_test(every_rule_of_the_policy),
        cmocka_unit_test(a_task_must_be_signed_by_both),
        cmocka_unit_test(the_ledger_is_over_all_tasks),
        cmocka_unit_test(not_drawn_stays_not_drawn),
        cmocka_unit_test(hidden_sampling_uploads_zeros),
        cmocka_unit_test(refused_by_the_server),
        cmocka_unit_test(another_task_is_taken_up),
        cmocka_unit_test(stops_while_it_waits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
