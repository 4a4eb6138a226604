/* What a client accepts and refuses, and how it continues after an interruption. */
#include "unit/parties/client_counted.h"
#include "unit/parties/client_scene.h"

#include "roles/client/proof.h"

/* Stopped in the middle of an upload; the next process sends the rest of the same bytes. */
static void same_bytes(const char *scheme)
{
    federation *s = begin(3, scheme, NULL, NULL);
    s->as.rounds = 1;
    s->as.cut_after = 1500;
    open_client(s);
    s->as.stop_at_cut = s->c;
    CHECK_OK(client_run(s->c));
    pthread_mutex_lock(&s->as.lock); /* client_stop has returned there */
    s->as.stop_at_cut = NULL;
    pthread_mutex_unlock(&s->as.lock);
    client_free(s->c);
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
    size_t n = head_bytes(s->as.t.seal);
    fake_name(&s->as, sent.hash, &s->as.body[1]);
    sha256_of(sent.head, span_of(s->as.body[1].p, n));
    assert_true(client_body_same(&sent, &body));
    assert_int_equal(charged(s), 1);
    receipts_are_kept(s, 1);
    end(s);
}

static void the_same_bytes_after_a_restart(void **state)
{
    (void)state;
    same_bytes("crypto.scheme=paillier");
    same_bytes("crypto.seal=xwing"); /* in the middle of the units */
    same_bytes("crypto.seal=x25519");
}

/* An old copy of the ledger would charge less: the receipts, or the mark alone, show it. */
static void an_old_ledger(void **state)
{
    (void)state;
    for (int of_mark = 0; of_mark < 2; of_mark++) {
        federation *s = begin(3, NULL, NULL, NULL);
        sefl_buf old = { 0 };
        CHECK_OK(file_read(&old, s->as.ledger, 1 << 20)); /* before the first charge */
        s->as.rounds = of_mark ? 1 : 2;
        s->as.cut_after = of_mark ? 1500 : 0;
        open_client(s);
        s->as.stop_at_cut = of_mark ? s->c : NULL;
        CHECK_OK(client_run(s->c));
        client_free(s->c);
        assert_int_equal(s->as.receipts, of_mark ? 0 : 2);
        assert_true(charged(s) > 0);
        open_client(s);
        client_free(s->c), s->c = NULL;
        CHECK_OK(file_write_atomic(s->as.ledger, buf_span(&old), 0600));
        unsigned puts = s->as.puts;
        open_client(s);
        CHECK_STATUS(client_run(s->c), SEFL_ESTATE);
        assert_non_null(strstr(sefl_last_error(), "uploaded to round 1. The ledger is an old"));
        assert_int_equal(s->as.puts, puts);
        buf_clear(&old);
        end(s);
    }
}

static void late_is_not_the_end(void **state)
{
    (void)state;
    federation *s = begin(3, "privacy.noise=none", "privacy.claim=none", NULL);
    put_text("policy.yml", "noise_modes: [none]\nclaim_none: true\n");
    s->as.late_round = 1;
    s->as.rounds = 2;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.receipts, 1);
    assert_non_null(strstr(log_of(s), "the server answers 410"));
    assert_null(strstr(log_of(s), "\"level\":\"warn\"")); /* others were faster: not a problem */
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

static void refused(federation *s, sefl_status want, const char *says)
{
    s->patience_ms = 1; /* one retry, not a day of retries */
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
        { "epsilon_per_task: 7.9\n", NULL, NULL,
          "policy.yml:1:1: policy: epsilon_per_task: the task" },
        { "epsilon_total: 7.9\n", NULL, NULL, "policy.yml:1:1: policy: epsilon_total: the task" },
        { "delta_max: 0.0000005\n", NULL, NULL, "policy.yml:1:1: policy: delta_max: the task" },
        { "{}\n", "privacy.delta=0.5", NULL,
          "policy.yml: policy: delta_max: the task's delta is 0.5" }, /* without an owner's rule */
        { "clients_min: 4\n", NULL, NULL, "policy.yml:1:1: policy: clients_min: the task" },
        { "noise_modes: [own]\n", NULL, NULL, "policy.yml:1:1: policy: noise_modes: the task" },
        { "noise_modes: [joint, own, none]\n", "privacy.noise=none", "privacy.claim=none",
          "policy.yml: policy: claim_none: the task claims no differential privacy" },
        { "clients_min: 1\nclaim_none: false\n", "privacy.noise=own", "privacy.claim=none",
          "policy.yml:2:1: policy: claim_none: the task" },
        { "claim_none: true\n", "privacy.noise=none", "privacy.claim=none",
          "policy.yml: policy: noise_modes: the task" },
        { "rounds_max: 4\n", NULL, NULL, "policy.yml:1:1: policy: rounds_max: the task" },
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
    federation *s = begin(3, NULL, NULL, NULL);
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

/* What other tasks have spent counts, including those of another population: the client refuses
 * before it trains. */
static void the_ledger_is_over_all_tasks(void **state)
{
    (void)state;
    federation *s = begin(3, "population=others", NULL, NULL);
    ledger *l = NULL;
    ledger_terms t = { .noise = DP_NOISE_JOINT,
                       .z = 1,
                       .rate = 1,
                       .dim = 1000,
                       .epsilon_max = 30,
                       .delta = 1e-6,
                       .task = { 1 } };
    ledger_total total = { 0 };
    CHECK_OK(ledger_open(&l, s->as.ledger, NULL, NULL));
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

/* A second ledger for the same text would lack the charges of the first. */
static void one_text_one_ledger(void **state)
{
    (void)state;
    federation *s = begin(3, "population=others", NULL, NULL);
    (void)unlink(folder_path("text.txt.sefl-ledger"));
    CHECK_OK(text_ledger_create(folder_path("ledger-before"), folder_path("text.txt")));
    refused(s, SEFL_ESTATE, "one text has one ledger");
}

static void not_drawn_stays_not_drawn(void **state)
{
    (void)state;
    federation *s = begin(3, "privacy.sampling=open", "privacy.rate=0.25", "rounds.threshold=2");
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

/* Its ledger has exactly the rounds for which its coin selected it, so no amplification applies. */
static void drawn_rounds_are_not_amplified(void **state)
{
    (void)state;
    federation *s = begin(3, "privacy.sampling=open", "privacy.rate=0.999", "rounds.threshold=2");
    ledger *l = NULL;
    ledger_total total = { 0 };
    s->as.rounds = 1;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(charged(s), 1);
    client_free(s->c);
    s->c = NULL;
    CHECK_OK(ledger_open_read(&l, s->as.ledger));
    CHECK_OK(ledger_spent(l, 1e-6, &total));
    assert_true(total.server.claimed && total.server.epsilon > 0);
    assert_true(total.others.epsilon == total.server.epsilon);
    ledger_close(l);
    end(s);
}

/* A model on which training diverges: the same steps, sizes, charge and receipt; the owner's log
 * says why the update is zeros. */
static void diverged_training_uploads_zeros(void **state)
{
    (void)state;
    federation *s =
        begin(3, "training.lr=1000000", "training.gradient_clip=0", "training.epochs=4");
    s->as.rounds = 2;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.receipts, 2);
    assert_int_equal(s->made, 2);
    assert_int_equal(s->nonzero, 0);
    assert_int_equal(charged(s), 2);
    assert_non_null(strstr(log_of(s), "no usable update of this model: zeros are uploaded"));
    client_free(s->c);
    s->c = NULL;
    receipts_are_kept(s, 2);
    end(s);
}

/* Stops the client once its log has these words; NULL: after 0.2 s. */
typedef struct stopper {
    federation *s;
    const char *words;
} stopper;

static void *stop_after(void *arg)
{
    const stopper *x = arg;
    const unsigned tries = x->words ? test_ms(1000) : 20;
    for (unsigned i = 0; i < tries && !(x->words && strstr(log_of(x->s), x->words)); i++)
        usleep(10000);
    client_stop(x->s->c);
    return NULL;
}

/* A header of an earlier round with valid signatures, after the coin of a later round was drawn:
 * the client would train although its own coin said no. */
static void an_old_round_said_again(void **state)
{
    (void)state;
    federation *s = begin(3, "privacy.sampling=open", "privacy.rate=0.7", "rounds.threshold=2");
    s->as.round = s->as.rounds = 2;
    s->as.left_ms = test_ms(600);
    s->as.replay = 1;
    open_client(s);
    client_store *st = store_of(s);
    CHECK_OK(client_store_draw(st, 2, false));
    client_store_close(st);
    pthread_t id;
    stopper after = { s, "not drawn" };
    assert_int_equal(pthread_create(&id, NULL, stop_after, &after), 0);
    CHECK_OK(client_run(s->c));
    pthread_join(id, NULL);
    assert_non_null(strstr(log_of(s), "the server announces an old round"));
    assert_int_equal(s->as.receipts + s->made + charged(s), 0); /* as the coin said */
    end(s);
}

/* The state folder is lost, the ledger is not: a charged update may have been sent, and is not made
 * again. */
static void a_charged_round_is_not_made_again(void **state)
{
    (void)state;
    federation *s = begin(3, NULL, NULL, NULL);
    s->as.rounds = 2;
    s->as.cut_after = 2000;
    open_client(s);
    s->as.stop_at_cut = s->c;
    CHECK_OK(client_run(s->c));
    pthread_mutex_lock(&s->as.lock);
    s->as.stop_at_cut = NULL;
    s->as.round = 1;
    pthread_mutex_unlock(&s->as.lock);
    client_free(s->c);
    s->c = NULL;
    assert_int_equal(s->made, 1);
    set(s, "state=another-folder");
    open_client(s);
    s->c->o.once = true;
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->made, 1);
    assert_int_equal(s->as.receipts, 0);
    assert_false(s->as.changed);
    assert_int_equal(charged(s), 1);
    assert_non_null(strstr(log_of(s), "already charged"));
    end(s);
}

/* A round whose upload continues after a restart counts once against max_rounds_per_client. */
static void a_restart_does_not_count_twice(void **state)
{
    (void)state;
    federation *s = begin(3, "rounds.max_per_client=2", NULL, NULL);
    set(s, "models_keep=none");
    s->as.rounds = 3;
    s->as.cut_after = 2000;
    open_client(s);
    s->as.stop_at_cut = s->c;
    CHECK_OK(client_run(s->c));
    pthread_mutex_lock(&s->as.lock);
    s->as.stop_at_cut = NULL;
    pthread_mutex_unlock(&s->as.lock);
    client_free(s->c);
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.receipts, 2); /* two, not one, not three */
    assert_int_equal(charged(s), 2);
    assert_non_null(strstr(log_of(s), "as many rounds as the task allows"));
    end(s);
}

/* An AS that takes whole bodies and calls them late gets no more of them than the task allows: the
 * client's own ledger counts. */
static void late_bodies_count(void **state)
{
    (void)state;
    for (int restart = 0; restart < 2; restart++) {
        federation *s = begin(3, "rounds.max_per_client=2", NULL, NULL);
        set(s, "models_keep=none");
        s->as.rounds = 5;
        s->as.late_bodies = 5;
        open_client(s);
        s->c->o.once = restart;
        CHECK_OK(client_run(s->c));
        if (restart) {
            assert_int_equal(charged(s), 1);
            client_free(s->c);
            open_client(s);
            CHECK_OK(client_run(s->c));
        }
        assert_int_equal(s->as.puts, 2);
        assert_int_equal(charged(s), 2);
        assert_int_equal(s->as.receipts, 0);
        assert_non_null(strstr(log_of(s), "as many rounds as the task allows"));
        end(s);
    }
}

static void refused_by_the_server(void **state)
{
    (void)state;
    static const struct {
        unsigned status;
        sefl_status st;
        const char *says;
        unsigned polls;
    } t[] = { { 403, SEFL_EAUTH, "refused for 0 hours: the server answers 403: not welcome", 2 },
              { 426, SEFL_EUNSUPPORTED, "the server answers 426: not welcome", 1 } };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        federation *s = begin(3, NULL, NULL, NULL);
        s->patience_ms = 1;
        s->as.refuse_polls = 100;
        s->as.refuse_status = t[i].status;
        open_client(s);
        CHECK_STATUS(client_run(s->c), t[i].st);
        assert_non_null(strstr(sefl_last_error(), t[i].says));
        assert_int_equal(s->as.polls, t[i].polls);
        end(s);
    }
}

static void stop_when_refused(void *ctx, const client_view *v)
{
    federation *s = ctx;
    if (strstr(v->doing, "REFUSED") && strstr(v->doing, "the server answers 403: not welcome"))
        client_stop(s->c);
}

/* In the middle of a task: the owner reads why on the screen and in status.json, and the exit is not
 * that of a task that is over. */
static void a_refusal_is_shown(void **state)
{
    (void)state;
    federation *s = begin(3, NULL, NULL, NULL);
    char path[PATH_MAX];
    sefl_buf b = { 0 };
    s->as.refuse_polls = 100;
    s->show = stop_when_refused, s->show_ctx = s;
    open_client(s);
    CHECK_STATUS(client_run(s->c), SEFL_EAUTH);
    assert_non_null(strstr(sefl_last_error(), "stopped while the server refused this client"));
    assert_non_null(strstr(sefl_last_error(), "403: not welcome"));
    CHECK_OK(file_path(path, "%s/status.json", s->cfg.state));
    CHECK_OK(file_read(&b, path, 4096));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, "\"healthy\":false"));
    assert_non_null(strstr((char *)b.p, "403: not welcome"));
    buf_clear(&b);
    end(s);
}

static void another_task_is_taken_up(void **state)
{
    (void)state;
    federation *s = begin(3, "rounds.count=4", NULL, NULL);
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

static void *stop_late(void *arg)
{
    sleep(20); /* only a client that waits forever is still there */
    client_stop(arg);
    return NULL;
}

/* AS gets another task while this client trains: round 1 again. */
static void swap_task(void *ctx, uint64_t round, const int64_t *X, size_t n)
{
    federation *s = ctx;
    (void)round, (void)X, (void)n;
    if (s->made++ > 0)
        return;
    sleep(1);
    pthread_mutex_lock(&s->as.lock);
    fake_task(&s->as, 3, words, "rounds.count=5", NULL, NULL);
    pthread_mutex_unlock(&s->as.lock);
}

static void an_update_is_for_one_task(void **state)
{
    (void)state;
    federation *s = begin(3, "rounds.count=4", NULL, NULL);
    pthread_t watch_dog;
    s->as.rounds = 1;
    open_client(s);
    s->c->o.observe = swap_task;
    assert_int_equal(pthread_create(&watch_dog, NULL, stop_late, s->c), 0);
    CHECK_OK(client_run(s->c));
    pthread_cancel(watch_dog);
    pthread_join(watch_dog, NULL);
    assert_int_equal(s->made, 2);
    assert_int_equal(s->as.puts, 1); /* of the new task only */
    assert_int_equal(s->as.receipts, 1);
    assert_int_equal(charged(s), 1);
    assert_non_null(strstr(log_of(s), "the server has another task"));
    end(s);
}

/* The new task is at a round number that this client has finished in the old task. */
static void another_task_with_lower_rounds(void **state)
{
    (void)state;
    federation *s = begin(3, "rounds.count=4", "privacy.noise=none", "privacy.claim=none");
    pthread_t watch_dog;
    put_text("policy.yml", "noise_modes: [none]\nclaim_none: true\n");
    s->as.rounds = 2;
    open_client(s);
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    assert_int_equal(s->as.receipts, 2);
    open_client(s);
    sefl_buf old = s->as.task_env;
    s->as.task_env = (sefl_buf){ 0 };
    fake_task(&s->as, 3, words, "rounds.count=5", "privacy.noise=none", "privacy.claim=none");
    s->as.next_env = s->as.task_env;
    s->as.task_env = old;
    s->as.round = s->as.rounds = 1;
    assert_int_equal(pthread_create(&watch_dog, NULL, stop_late, s->c), 0);
    CHECK_OK(client_run(s->c));
    pthread_cancel(watch_dog);
    pthread_join(watch_dog, NULL);
    assert_int_equal(s->as.receipts, 3);
    put_text("policy.yml", "{}\n");
    end(s);
}

/* ---- vouchers -------------------------------------------------------------------------------- */

static void vouched_for_at_every_start(void **state)
{
    (void)state;
    federation *s = begin(3, NULL, NULL, NULL);
    uint8_t key[32];
    s->as.rounds = 1;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.vouchers, 1);
    memcpy(key, s->as.upload_key, 32);
    client_free(s->c);
    s->as.rounds = 2;
    s->as.vouched = false;
    open_client(s);
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    s->c = NULL;
    assert_int_equal(s->as.vouchers, 2);
    assert_memory_equal(key, s->as.upload_key, 32); /* the same key */
    receipts_are_kept(s, 2);
    end(s);
}

/* AS has lost the voucher (an old copy of its journal): the client sends it again and resumes the
 * same bytes. */
static void a_voucher_that_was_forgotten(void **state)
{
    (void)state;
    federation *s = begin(3, NULL, NULL, NULL);
    s->as.rounds = 2;
    s->as.forget_voucher = 1;
    open_client(s);
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    s->c = NULL;
    assert_int_equal(s->as.vouchers, 2);
    assert_int_equal(s->as.receipts, 2);
    assert_int_equal(s->made, 2);
    receipts_are_kept(s, 2);
    end(s);
}

static void a_voucher_that_is_refused(void **state)
{
    (void)state;
    federation *s = begin(3, NULL, NULL, NULL);
    s->as.refuse_vouchers = 100;
    refused(s, SEFL_EAUTH, "refused for 0 hours: the server answers 403: not welcome");
    s = begin(3, NULL, NULL, NULL); /* CSP is unreachable for a while */
    s->as.rounds = 1;
    s->as.refuse_vouchers = 2;
    s->as.refuse_status = 503;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.vouchers, 3);
    assert_int_equal(s->as.receipts, 1);
    end(s);
    s = begin(3, "crypto.scheme=paillier", NULL, NULL); /* nothing is sealed: no voucher */
    s->as.rounds = 1;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.vouchers + s->as.counted, 0);
    assert_int_equal(s->as.receipts, 1);
    end(s);
}

/* A header with a key of another suite than the task's: the client seals nothing to it. */
static void a_round_key_of_another_suite(void **state)
{
    (void)state;
    pthread_t t;
    federation *s = begin(3, NULL, NULL, NULL);
    s->as.wrong_key = true;
    open_client(s);
    stopper after = { s, "header not accepted" };
    assert_int_equal(pthread_create(&t, NULL, stop_after, &after), 0);
    CHECK_OK(client_run(s->c));
    pthread_join(t, NULL);
    assert_non_null(strstr(log_of(s), "header not accepted"));
    assert_int_equal(s->made + s->as.models + s->as.puts, 0);
    end(s);
}

/* ---- counted --------------------------------------------------------------------------------- */

/* A task of any number of rounds. */
static federation *begin_long(void)
{
    put_text("policy.yml", "noise_modes: [none]\nclaim_none: true\n");
    return begin(3, "privacy.noise=none", "privacy.claim=none", NULL);
}

static client_counted outcome(const federation *s, uint64_t round)
{
    client_counted what = 0;
    sefl_status got = counted_read(s->cfg.state, s->as.t.id, &what, NULL, round);
    assert_true(got == SEFL_OK || got == SEFL_ENOTFOUND);
    return what;
}

static void counted_rounds_are_proven(void **state)
{
    (void)state;
    federation *s = begin_long();
    s->as.rounds = 3;
    s->as.busy_counted = 1; /* asked again */
    open_client(s);
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    s->c = NULL;
    for (uint64_t r = 1; r <= 3; r++)
        assert_int_equal(outcome(s, r), CLIENT_COUNTED);
    assert_int_equal(s->as.counted, 4);
    assert_null(strstr(log_of(s), "not counted"));
    put_text("policy.yml", "{}\n");
    end(s);
}

/* Three misses in a row end the client; a skipped round is not a miss, a counted one resets the
 * count. */
static void updates_that_are_not_counted(void **state)
{
    (void)state;
    federation *s = begin_long();
    s->as.rounds = 5;
    s->as.missed = 2;       /* rounds 1, 2 */
    s->as.none_counted = 1; /* round 3: no proof at all is a miss too */
    open_client(s);
    CHECK_STATUS(client_run(s->c), SEFL_EAUTH);
    assert_non_null(
        strstr(sefl_last_error(), "the last 3 updates of this client were not counted"));
    assert_non_null(strstr(sefl_last_error(), "ask both operators"));
    client_free(s->c);
    s->c = NULL;
    for (uint64_t r = 1; r <= 3; r++)
        assert_int_equal(outcome(s, r), CLIENT_MISSED);
    assert_int_equal(s->as.receipts, 3);
    assert_non_null(strstr(log_of(s), "update not counted"));
    end(s);

    s = begin_long();
    s->as.rounds = 5;
    s->as.missed = 2;
    s->as.skipped_ = 1;
    open_client(s);
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    s->c = NULL;
    assert_int_equal(outcome(s, 2), CLIENT_MISSED);
    assert_int_equal(outcome(s, 3), CLIENT_SKIPPED);
    assert_int_equal(outcome(s, 4), CLIENT_COUNTED);
    put_text("policy.yml", "{}\n");
    end(s);
}

/* Only AS says "skipped". If the next round starts from another model, the statement is false. */
static void a_skip_that_is_none(void **state)
{
    (void)state;
    federation *s = begin_long();
    s->as.rounds = 5;
    s->as.moves = true;
    s->as.skipped_ = 3;
    open_client(s);
    CHECK_STATUS(client_run(s->c), SEFL_EAUTH);
    client_free(s->c);
    s->c = NULL;
    for (uint64_t r = 1; r <= 3; r++)
        assert_int_equal(outcome(s, r), CLIENT_MISSED);
    assert_non_null(strstr(log_of(s), "but the next round starts from another model"));
    put_text("policy.yml", "{}\n");
    end(s);
}

/* Nor does it help AS not to answer: it does answer other requests. */
static void a_server_that_never_proves(void **state)
{
    (void)state;
    federation *s = begin_long();
    s->as.rounds = 6;
    s->as.busy_counted = 1000;
    open_client(s);
    CHECK_STATUS(client_run(s->c), SEFL_EAUTH);
    client_free(s->c);
    s->c = NULL;
    for (uint64_t r = 1; r <= 3; r++)
        assert_int_equal(outcome(s, r), CLIENT_MISSED);
    assert_int_equal(outcome(s, 4), 0);
    assert_int_equal(s->as.receipts, 4);
    assert_non_null(strstr(log_of(s), "no proof that the update was counted"));
    end(s);

    s = begin_long(); /* two rounds without an answer are tolerated */
    s->as.rounds = 4;
    s->as.busy_counted = 2;
    open_client(s);
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    s->c = NULL;
    for (uint64_t r = 1; r <= 4; r++)
        assert_int_equal(outcome(s, r), CLIENT_COUNTED);
    put_text("policy.yml", "{}\n");
    end(s);
}

/* The site enrols again in the same folder with another TLS key: a new upload key, and the client
 * does not ask for proofs that AS gives only to the former key. */
static void enrolled_anew(void **state)
{
    (void)state;
    uint8_t before[32];
    CHECK_OK(x509_make(folder_path("anew.pem"), folder_path("anew.key"),
                       &(x509_subject){ .name = "client-01", .role = "client", .days = 50 },
                       folder_path("ca.pem"), folder_path("ca.key")));
    federation *s = begin_long();
    s->as.rounds = 1;
    s->as.busy_counted = 1;
    open_client(s);
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    s->c = NULL;
    memcpy(before, s->as.upload_key, 32);
    s->as.rounds = 3;
    s->as.vouched = false;
    buf_reset(&s->as.voucher);
    set(s, "tls.cert=anew.pem"), set(s, "tls.key=anew.key");
    s->as.cut_after = 5000; /* in round 2: its update is finished, and part of it has left */
    open_client(s);
    s->as.stop_at_cut = s->c;
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    s->c = NULL;
    assert_memory_not_equal(before, s->as.upload_key, 32);
    assert_int_equal(outcome(s, 1), CLIENT_FORMER);
    assert_int_equal(s->as.receipts, 1);

    set(s, "tls.cert=me.pem"),
        set(s, "tls.key=me.key"); /* and back: that update belongs to the other key */
    s->as.stop_at_cut = NULL;
    s->as.round = 3;
    s->as.hash[0] = 0;
    s->as.vouched = false;
    buf_reset(&s->as.voucher);
    buf_reset(&s->as.part);
    open_client(s);
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    s->c = NULL;
    assert_non_null(strstr(log_of(s), "signed with another upload key"));
    assert_int_equal(s->as.receipts, 2);
    assert_int_equal(outcome(s, 2), 0);
    assert_int_equal(outcome(s, 3), CLIENT_COUNTED);
    assert_false(s->as.bad_head);
    put_text("policy.yml", "{}\n");
    end(s);
}

/* An answer with any changed byte, any other length, another round, client or update is not a
 * proof. */
static void a_proof_is_of_one_update(void **state)
{
    (void)state;
    federation *s = begin(3, NULL, NULL, NULL);
    sefl_buf b = { 0 };
    client_counted what;
    uint8_t units[32], other[32] = { 9 };
    const task *t = &s->as.t;
    s->as.rounds = 1;
    open_client(s);
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    s->c = NULL;
    CHECK_OK(counted_read(s->cfg.state, s->as.t.id, &what, &b, 1));
    fake_name(&s->as, units, &s->as.body[1]);
    CHECK_OK(client_counted_check(t, buf_span(&b), 1, me, units));
    CHECK_STATUS(client_counted_check(t, buf_span(&b), 2, me, units), SEFL_EAUTH);
    CHECK_STATUS(client_counted_check(t, buf_span(&b), 1, other, units), SEFL_EAUTH);
    CHECK_STATUS(client_counted_check(t, buf_span(&b), 1, me, other), SEFL_EAUTH);
    for (size_t i = 0; i < b.n; i++) {
        b.p[i] ^= 0x10;
        sefl_status got = client_counted_check(t, buf_span(&b), 1, me, units);
        if (got != SEFL_EAUTH && got != SEFL_EPROTO && got != SEFL_EUNSUPPORTED)
            fail_msg("byte %zu: %s", i, sefl_status_name(got));
        b.p[i] ^= 0x10;
        got = client_counted_check(t, span_of(b.p, i), 1, me, units);
        assert_true(got == SEFL_EAUTH || got == SEFL_EPROTO);
    }
    buf_clear(&b);
    end(s);
}

static void stops_while_it_waits(void **state)
{
    (void)state;
    federation *s = begin(3, NULL, NULL, NULL);
    pthread_t t;
    s->as.busy_task = 1000;
    open_client(s);
    client_reload(s->c); /* waiting states stay the same */
    sefl_clock clock = clock_monotonic();
    uint64_t before = clock_ms(&clock);
    stopper after = { s, NULL };
    assert_int_equal(pthread_create(&t, NULL, stop_after, &after), 0);
    CHECK_OK(client_run(s->c));
    pthread_join(t, NULL);
    assert_true(clock_ms(&clock) - before < test_ms(2000));
    assert_true(s->as.tasks < 4);
    end(s);
}

static void a_new_policy_counts_at_once(void **state)
{
    (void)state;
    federation *s = begin(3, NULL, NULL, NULL);
    open_client(s);
    put_text("policy.yml", "rounds_max: 2\n");
    client_reload(s->c);
    CHECK_STATUS(client_run(s->c), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "policy: rounds_max"));
    put_text("policy.yml", "rounds_max: many\n"); /* not a valid policy: the old one stays */
    client_reload(s->c);
    CHECK_STATUS(client_run(s->c), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "policy: rounds_max"));
    assert_non_null(strstr(log_of(s), "not reloaded"));
    assert_int_equal(s->made, 0);
    put_text("policy.yml", "{}\n");
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bytes_after_a_restart),
        cmocka_unit_test(an_old_ledger),
        cmocka_unit_test(late_is_not_the_end),
        cmocka_unit_test(every_rule_of_the_policy),
        cmocka_unit_test(a_task_must_be_signed_by_both),
        cmocka_unit_test(the_ledger_is_over_all_tasks),
        cmocka_unit_test(one_text_one_ledger),
        cmocka_unit_test(not_drawn_stays_not_drawn),
        cmocka_unit_test(drawn_rounds_are_not_amplified),
        cmocka_unit_test(diverged_training_uploads_zeros),
        cmocka_unit_test(an_old_round_said_again),
        cmocka_unit_test(a_charged_round_is_not_made_again),
        cmocka_unit_test(a_restart_does_not_count_twice),
        cmocka_unit_test(late_bodies_count),
        cmocka_unit_test(refused_by_the_server),
        cmocka_unit_test(a_refusal_is_shown),
        cmocka_unit_test(another_task_is_taken_up),
        cmocka_unit_test(an_update_is_for_one_task),
        cmocka_unit_test(another_task_with_lower_rounds),
        cmocka_unit_test(vouched_for_at_every_start),
        cmocka_unit_test(a_voucher_that_was_forgotten),
        cmocka_unit_test(a_voucher_that_is_refused),
        cmocka_unit_test(a_round_key_of_another_suite),
        cmocka_unit_test(counted_rounds_are_proven),
        cmocka_unit_test(updates_that_are_not_counted),
        cmocka_unit_test(a_skip_that_is_none),
        cmocka_unit_test(a_server_that_never_proves),
        cmocka_unit_test(enrolled_anew),
        cmocka_unit_test(a_proof_is_of_one_update),
        cmocka_unit_test(stops_while_it_waits),
        cmocka_unit_test(a_new_policy_counts_at_once),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
