/* A client's decisions, its owner's policy, and what it reads from AS about a round. */
#include "unit/core/protocol/task_sample.h"

#include "protocol/participant.h"

#include <stdlib.h>

static task t, sampled;
static seeded gen;
static sefl_rng rng;

static int setup(void **state)
{
    (void)state;
    sample_begin();
    test_seed(&gen, "member");
    rng = seeded_rng(&gen);
    CHECK_OK(sample_task(&t, "rounds.max_per_client=3", NULL));
    CHECK_OK(sample_task(&sampled, "privacy.sampling=open", "privacy.rate=0.5", NULL));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    task_clear(&t);
    task_clear(&sampled);
    sample_end();
    return 0;
}

static void header_of(sefl_buf *out, const task *task_, uint64_t round, uint64_t step,
                      const sign_key *second)
{
    uint8_t raw[HEADER_MAX];
    round_header h = { .round = round, .step_nano = step };
    memcpy(h.task, task_->id, 32);
    if (task_is_sealed(task_)) { /* nothing is sealed here: a key of the right length is enough */
        h.suite = task_->seal->id;
        h.key_bytes = (uint16_t)task_->seal->pub_bytes;
    }
    size_t bytes_n = round_header_write(raw, &h);
    envelope env = { .kind = SIGN_HEADER, .content = span_of(raw, bytes_n) };
    CHECK_OK(envelope_sign(&env, SIGNER_AS, sample_as));
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, second));
    out->n = 0;
    CHECK_OK(envelope_write(out, &env));
}

static sefl_buf header;

static void end_of(sefl_buf *out, const task *task_, const sign_key *key)
{
    uint8_t raw[END_BYTES];
    round_end e = { .round = 2, .model = { 7 } };
    memcpy(e.task, task_->id, 32);
    round_end_write(raw, &e);
    envelope env = { .kind = SIGN_END, .content = span_of(raw, sizeof raw) };
    CHECK_OK(envelope_sign(&env, SIGNER_AS, key));
    out->n = 0;
    CHECK_OK(envelope_write(out, &env));
}

static round_news news_of(const task *task_, round_word state, uint64_t round, uint64_t left)
{
    round_news n = { .state = state, .round = round, .left_ms = left };
    if (state == ROUND_OPEN) {
        header_of(&header, task_, round, task_->step_nano, sample_csp);
        n.header = buf_span(&header);
    }
    if (state == ROUND_OVER) {
        end_of(&header, task_, sample_as);
        n.header = buf_span(&header);
    }
    return n;
}

static sefl_status tell(participant *m, const task *task_, round_word state, uint64_t round,
                        bool drawn, uint64_t now)
{
    round_news n = news_of(task_, state, round, state == ROUND_OPEN ? 1000 : 0);
    return participant_on(
        m, &(participant_event){ .kind = PARTICIPANT_GOT_NEWS, .news = &n, .drawn = drawn }, now);
}

static sefl_status on(participant *m, participant_event_kind kind, uint64_t now)
{
    return participant_on(m, &(participant_event){ .kind = kind }, now);
}

static participant_order expect(participant *m, participant_order_kind kind, uint64_t round,
                                uint64_t now)
{
    participant_order o = participant_next(m, now);
    if (o.kind != kind || o.round != round)
        fail_msg("order %d of round %llu, not %d of %llu", o.kind, (unsigned long long)o.round,
                 kind, (unsigned long long)round);
    return o;
}

static participant *started(const task *task_)
{
    participant *m = NULL;
    CHECK_OK(participant_new(&m, task_, 0, &rng));
    return m;
}

static void test_rounds(void **state)
{
    (void)state;
    participant *m = started(&t);
    for (uint64_t r = 1; r <= 3; r++) {
        expect(m, PARTICIPANT_POLL, r - 1, 10);
        expect(m, PARTICIPANT_POLL, r - 1, 10); /* the same until something happens */
        CHECK_OK(tell(m, &t, ROUND_OPEN, r, true, 10));
        expect(m, PARTICIPANT_FETCH_MODEL, r, 20);
        CHECK_OK(on(m, PARTICIPANT_GOT_MODEL, 20));
        expect(m, PARTICIPANT_TRAIN, r, 30);
        CHECK_OK(on(m, PARTICIPANT_TRAINED, 40));
        expect(m, PARTICIPANT_UPLOAD, r, 40);
        expect(m, PARTICIPANT_UPLOAD, r, 5000); /* finished: AS decides whether it is late */
        CHECK_OK(on(m, PARTICIPANT_GOT_RECEIPT, 50));
    }
    /* max_rounds_per_client */
    CHECK_OK(tell(m, &t, ROUND_OPEN, 4, true, 60));
    assert_non_null(strstr(expect(m, PARTICIPANT_STOP, 3, 60).why, "as many rounds"));
    CHECK_STATUS(on(m, PARTICIPANT_GOT_MODEL, 60), SEFL_ESTATE);
    participant_free(m);
}

/* A refusal counts if the client's ledger has charged the round, but only once. */
static void test_charged_refusals(void **state)
{
    (void)state;
    participant *m = started(&t);
    const participant_event charged = { .kind = PARTICIPANT_REFUSED, .charged = true };
    CHECK_OK(tell(m, &t, ROUND_OPEN, 1, true, 10));
    CHECK_OK(participant_on(m, &charged, 10)); /* before UPLOAD: counted at the start */
    for (uint64_t r = 2; r <= 5; r++) {
        assert_false(participant_is_spent(m));
        CHECK_OK(tell(m, &t, ROUND_OPEN, r, true, 10));
        CHECK_OK(on(m, PARTICIPANT_GOT_MODEL, 20));
        CHECK_OK(on(m, PARTICIPANT_TRAINED, 30));
        if (r > 2)
            CHECK_OK(participant_on(m, &charged, 40));
        else
            CHECK_OK(on(m, PARTICIPANT_REFUSED, 40)); /* no byte has left */
    }
    assert_true(participant_is_spent(m));
    participant_free(m);
}

static void test_waits_and_ends(void **state)
{
    (void)state;
    participant *m = started(&t);
    CHECK_OK(tell(m, &t, ROUND_WAITING, 0, true, 100));
    participant_order o = expect(m, PARTICIPANT_SLEEP, 0, 100);
    assert_in_range(o.until_ms, 225, 350);
    expect(m, PARTICIPANT_POLL, 0, o.until_ms);
    CHECK_OK(tell(m, &t, ROUND_OPEN, 2, true, 400)); /* joins in mid-run */
    CHECK_OK(on(m, PARTICIPANT_REFUSED, 410));
    expect(m, PARTICIPANT_POLL, 2, 410);
    CHECK_OK(tell(m, &t, ROUND_OPEN, 2, true, 420)); /* that round again: done with it */
    expect(m, PARTICIPANT_SLEEP, 2, 420);
    CHECK_OK(tell(m, &t, ROUND_OPEN, 1, true, 1000)); /* an old one */
    expect(m, PARTICIPANT_SLEEP, 2, 1000);
    CHECK_OK(tell(m, &t, ROUND_CLOSED, 2, true, 2000));
    round_news over = news_of(&t, ROUND_OVER, 5, 0);
    strcpy(over.why, "all rounds are done");
    CHECK_OK(participant_on(m, &(participant_event){ .kind = PARTICIPANT_GOT_NEWS, .news = &over },
                            3000));
    assert_string_equal(participant_next(m, 3000).why, "all rounds are done");
    CHECK_STATUS(on(m, PARTICIPANT_FAILED, 3000), SEFL_ESTATE);
    assert_string_equal(participant_next(m, 3000).why, "all rounds are done");
    participant_free(m);

    /* nobody else can end it, however often they say so: the client waits */
    m = started(&t);
    over.header = span_of(NULL, 0);
    CHECK_STATUS(
        participant_on(m, &(participant_event){ .kind = PARTICIPANT_GOT_NEWS, .news = &over }, 0),
        SEFL_EPROTO);
    expect(m, PARTICIPANT_SLEEP, 0, 0);
    end_of(&header, &t, sample_csp);
    over.header = buf_span(&header);
    CHECK_STATUS(participant_on(
                     m, &(participant_event){ .kind = PARTICIPANT_GOT_NEWS, .news = &over }, 2000),
                 SEFL_EAUTH);
    expect(m, PARTICIPANT_SLEEP, 0, 2000);
    CHECK_OK(tell(m, &t, ROUND_OPEN, 1, true, 9000));
    expect(m, PARTICIPANT_FETCH_MODEL, 1, 9000);
    participant_free(m);

    m = started(&t);
    CHECK_OK(tell(m, &t, ROUND_OVER, 5, true, 0));
    assert_string_equal(expect(m, PARTICIPANT_STOP, 0, 0).why, "the task is over");
    participant_free(m);
}

/* A client that has used up its rounds (3) and stays polls until the task is over. */
static void test_stays(void **state)
{
    (void)state;
    participant *m = started(&t);
    participant_stay(m);
    for (uint64_t r = 1; r <= 3; r++) {
        assert_false(participant_is_spent(m));
        CHECK_OK(tell(m, &t, ROUND_OPEN, r, true, 0));
        CHECK_OK(on(m, PARTICIPANT_GOT_MODEL, 10));
        CHECK_OK(on(m, PARTICIPANT_TRAINED, 20));
        CHECK_OK(on(m, PARTICIPANT_GOT_RECEIPT, 30));
    }
    assert_true(participant_is_spent(m));
    CHECK_OK(tell(m, &t, ROUND_OPEN, 4, true, 100));
    expect(m, PARTICIPANT_POLL, 4, 100);
    CHECK_OK(tell(m, &t, ROUND_OPEN, 4, true, 200)); /* AS does not wait: pause */
    expect(m, PARTICIPANT_SLEEP, 4, 200);
    CHECK_OK(tell(m, &t, ROUND_OVER, 5, true, 1000));
    expect(m, PARTICIPANT_STOP, 4, 1000);
    participant_free(m);
}

/* AS's statement about the final model: its signature, the task, the round. */
static void test_end(void **state)
{
    (void)state;
    for (int bad = 0; bad < 5; bad++) {
        round_end e = { .round = bad == 1 ? t.rounds + 1 : 2, .model = { 7 } }, out;
        uint8_t bytes[END_BYTES];
        sefl_buf b = { 0 };
        memcpy(e.task, t.id, sizeof e.task);
        e.task[0] ^= bad == 2;
        round_end_write(bytes, &e);
        envelope env = { .kind = bad == 3 ? SIGN_RECEIPT : SIGN_END,
                         .content = span_of(bytes, sizeof bytes) };
        CHECK_OK(envelope_sign(&env, SIGNER_AS, bad == 4 ? sample_csp : sample_as));
        CHECK_OK(envelope_write(&b, &env));
        CHECK_STATUS(participant_end_check(&t, &out, buf_span(&b)), bad ? SEFL_EAUTH : SEFL_OK);
        assert_int_equal(out.round, bad ? 0 : 2);
        for (size_t n = 0; bad == 0 && n < b.n; n++)
            CHECK_STATUS(participant_end_check(&t, &out, span_of(b.p, n)), SEFL_EPROTO);
        buf_clear(&b);
    }
}

static void test_deadline(void **state)
{
    (void)state;
    participant *m = started(&t);
    CHECK_OK(tell(m, &t, ROUND_OPEN, 1, true, 0)); /* until 1000 */
    CHECK_OK(on(m, PARTICIPANT_GOT_MODEL, 10));
    expect(m, PARTICIPANT_TRAIN, 1, 999);
    expect(m, PARTICIPANT_POLL, 0, 1000); /* dropped; again if it was extended */
    CHECK_STATUS(on(m, PARTICIPANT_TRAINED, 1001), SEFL_ESTATE);
    CHECK_OK(tell(m, &t, ROUND_OPEN, 1, true, 1100));
    expect(m, PARTICIPANT_FETCH_MODEL, 1, 1100);
    CHECK_OK(on(m, PARTICIPANT_GOT_MODEL, 1110));
    expect(m, PARTICIPANT_TRAIN, 1, 1200);
    /* training went on past it without asking: the work is done, AS says whether it is late */
    CHECK_OK(on(m, PARTICIPANT_TRAINED, 9000));
    expect(m, PARTICIPANT_UPLOAD, 1, 9000);
    CHECK_OK(on(m, PARTICIPANT_REFUSED, 9010));
    expect(m, PARTICIPANT_POLL, 1, 9010);
    participant_free(m);

    m = started(&t); /* no time left */
    round_news n = news_of(&t, ROUND_OPEN, 1, 0);
    CHECK_OK(participant_on(
        m, &(participant_event){ .kind = PARTICIPANT_GOT_NEWS, .news = &n, .drawn = true }, 0));
    expect(m, PARTICIPANT_SLEEP, 0, 0);
    participant_free(m);
}

static void test_back_off(void **state)
{
    (void)state;
    participant *m = started(&t);
    uint64_t now = 0, pause = 1000;
    bool differs = false;
    for (int i = 0; i < 12; i++) {
        CHECK_OK(on(m, PARTICIPANT_FAILED, now));
        participant_order o = expect(m, PARTICIPANT_SLEEP, 0, now);
        assert_in_range(o.until_ms, now + pause / 2, now + pause);
        differs = differs || o.until_ms != now + pause / 2;
        expect(m, PARTICIPANT_POLL, 0, o.until_ms);
        now = o.until_ms;
        pause = pause < 256000 ? 2 * pause : pause;
    }
    assert_true(differs); /* jitter */
    CHECK_OK(tell(m, &t, ROUND_OPEN, 1, true, now));
    CHECK_OK(on(m, PARTICIPANT_FAILED, now)); /* success resets the back-off */
    assert_in_range(expect(m, PARTICIPANT_SLEEP, 1, now).until_ms, now + 500, now + 1000);
    participant_order o = participant_next(m, 5); /* the clock was set back: no sleep for hours */
    assert_int_equal(o.kind, PARTICIPANT_FETCH_MODEL);
    participant_free(m);
}

static void test_sampling(void **state)
{
    (void)state;
    /* open: skips the round */
    participant *m = started(&sampled);
    CHECK_OK(tell(m, &sampled, ROUND_OPEN, 1, false, 0));
    expect(m, PARTICIPANT_POLL, 1, 0);
    CHECK_OK(
        tell(m, &sampled, ROUND_OPEN, 1, true, 0)); /* the client does not draw the coin twice */
    expect(m, PARTICIPANT_SLEEP, 1, 0);
    CHECK_OK(tell(m, &sampled, ROUND_OPEN, 2, true, 1000));
    expect(m, PARTICIPANT_FETCH_MODEL, 2, 1000);
    expect(m, PARTICIPANT_POLL, 1, 2000); /* deadline; extended: the first coin still counts */
    CHECK_OK(tell(m, &sampled, ROUND_OPEN, 2, false, 2000));
    expect(m, PARTICIPANT_FETCH_MODEL, 2, 2000);
    participant_free(m);

    /* no sampling: no coin */
    m = started(&t);
    CHECK_OK(tell(m, &t, ROUND_OPEN, 1, false, 0));
    expect(m, PARTICIPANT_FETCH_MODEL, 1, 0);
    participant_free(m);
}

/* With rounds.separation, a client that has no turn waits for the next round. */
static void test_turns(void **state)
{
    (void)state;
    participant *m = NULL;
    task turns;
    CHECK_OK(sample_task(&turns, "rounds.separation=2", NULL));
    CHECK_OK(participant_new(&m, &turns, 0, &rng));
    CHECK_OK(tell(m, &turns, ROUND_OPEN, 1, false, 0));
    expect(m, PARTICIPANT_POLL, 1, 0);
    CHECK_OK(tell(m, &turns, ROUND_OPEN, 2, true, 0));
    expect(m, PARTICIPANT_FETCH_MODEL, 2, 0);
    participant_free(m);
    task_clear(&turns);
}

static void test_restore(void **state)
{
    (void)state;
    participant *m = NULL;
    CHECK_OK(participant_new(&m, &t, 2, &rng));
    participant_restore(m, 3, false); /* a finished body, no receipt */
    expect(m, PARTICIPANT_UPLOAD, 3, 0);
    CHECK_OK(on(m, PARTICIPANT_FAILED, 0));
    expect(m, PARTICIPANT_UPLOAD, 3, 1000000);
    CHECK_OK(on(m, PARTICIPANT_GOT_RECEIPT, 1000000));
    expect(m, PARTICIPANT_POLL, 3, 1000000);
    CHECK_OK(tell(m, &t, ROUND_OPEN, 4, true, 1000000));
    expect(m, PARTICIPANT_STOP, 3, 1000000); /* that was its third */
    participant_free(m);

    CHECK_OK(participant_new(&m, &t, 1, &rng));
    participant_restore(m, 3, true);
    CHECK_OK(tell(m, &t, ROUND_OPEN, 3, true, 0)); /* never again */
    expect(m, PARTICIPANT_SLEEP, 3, 0);
    participant_free(m);
}

static void test_headers(void **state)
{
    (void)state;
    round_header h;
    sign_key *stranger = NULL;
    CHECK_OK(sign_key_new(&stranger, &rng));
    header_of(&header, &t, 2, t.step_nano, sample_csp);
    CHECK_OK(participant_header_check(&t, &h, buf_span(&header), 2));
    assert_int_equal(h.round, 2);
    CHECK_STATUS(participant_header_check(&t, &h, buf_span(&header), 3), SEFL_EAUTH);
    CHECK_STATUS(participant_header_check(&sampled, &h, buf_span(&header), 2), SEFL_EAUTH);
    header_of(&header, &t, 6, t.step_nano, sample_csp); /* five rounds in all */
    CHECK_STATUS(participant_header_check(&t, &h, buf_span(&header), 6), SEFL_EAUTH);
    header_of(&header, &t, 2, t.step_nano + 1, sample_csp);
    CHECK_STATUS(participant_header_check(&t, &h, buf_span(&header), 2), SEFL_EAUTH);
    header_of(&header, &t, 2, t.step_nano, stranger);
    CHECK_STATUS(participant_header_check(&t, &h, buf_span(&header), 2), SEFL_EAUTH);
    assert_int_equal(h.round, 0);
    CHECK_STATUS(participant_header_check(&t, &h, span_of("x", 1), 2), SEFL_EPROTO);

    /* a client told so backs off and polls again, and never trains */
    participant *m = started(&t);
    round_news n = {
        .state = ROUND_OPEN, .round = 2, .left_ms = 1000, .header = buf_span(&header)
    };
    CHECK_STATUS(
        participant_on(
            m, &(participant_event){ .kind = PARTICIPANT_GOT_NEWS, .news = &n, .drawn = true }, 0),
        SEFL_EAUTH);
    expect(m, PARTICIPANT_SLEEP, 0, 0);
    expect(m, PARTICIPANT_POLL, 0, 1000);
    participant_free(m);
    sign_key_free(stranger);
}

/* Every phase with every event: expected ones follow the manual, others change nothing. */
static void test_every_phase_with_every_event(void **state)
{
    (void)state;
    static const bool known[5][PARTICIPANT_FAILED + 1] = {
        /* NEWS, MODEL, TRAINED, RECEIPT, REFUSED, FAILED */
        { true, false, false, false, false, true },  /* POLL */
        { false, true, false, false, true, true },   /* FETCH_MODEL */
        { false, false, true, false, true, true },   /* TRAIN */
        { false, false, false, true, true, true },   /* UPLOAD */
        { false, false, false, false, false, false } /* STOP */
    };
    static const participant_order_kind orders[5] = { PARTICIPANT_POLL, PARTICIPANT_FETCH_MODEL,
                                                      PARTICIPANT_TRAIN, PARTICIPANT_UPLOAD,
                                                      PARTICIPANT_STOP };
    for (int p = 0; p < 5; p++)
        for (int e = 0; e <= PARTICIPANT_FAILED; e++) {
            participant *m = NULL;
            round_news n = { .state = ROUND_WAITING };
            CHECK_OK(participant_new(&m, &t, 0, &rng));
            if (p == 4)
                CHECK_OK(tell(m, &t, ROUND_OVER, 0, true, 0));
            else if (p > 0)
                CHECK_OK(tell(m, &t, ROUND_OPEN, 1, true, 0));
            if (p == 2 || p == 3)
                CHECK_OK(on(m, PARTICIPANT_GOT_MODEL, 0));
            if (p == 3)
                CHECK_OK(on(m, PARTICIPANT_TRAINED, 0));
            assert_int_equal(participant_next(m, 0).kind, orders[p]);
            sefl_status st = participant_on(
                m, &(participant_event){ .kind = (participant_event_kind)e, .news = &n }, 0);
            if (st != (known[p][e] ? SEFL_OK : SEFL_ESTATE))
                fail_msg("event %d at %d: %s", e, p, sefl_status_name(st));
            if (!known[p][e])
                assert_int_equal(participant_next(m, 0).kind, orders[p]);
            participant_free(m);
        }
    participant *m = started(&t);
    CHECK_STATUS(on(m, (participant_event_kind)99, 0), SEFL_EINVAL);
    CHECK_STATUS(on(m, PARTICIPANT_GOT_NEWS, 0), SEFL_EINVAL);
    participant_free(m);
    TEST_FAULTS(FAULT_ALLOC, st = participant_new(&m, &t, 0, &rng), participant_free(m));
}

/* A server with arbitrary answers: the client trains a round at most once, and rounds only grow. */
static void test_random_walks(void **state)
{
    (void)state;
    static const participant_event_kind answer[] = { [PARTICIPANT_POLL] = PARTICIPANT_GOT_NEWS,
                                                     [PARTICIPANT_FETCH_MODEL] =
                                                         PARTICIPANT_GOT_MODEL,
                                                     [PARTICIPANT_TRAIN] = PARTICIPANT_TRAINED,
                                                     [PARTICIPANT_UPLOAD] =
                                                         PARTICIPANT_GOT_RECEIPT };
    unsigned long trained = 0, stopped = 0;
    for (unsigned long walk = 0; walk < test_count(500, 5000); walk++) {
        const task *task_ = walk % 2 == 0 ? &t : &sampled;
        participant *m = NULL;
        uint64_t now = 1000, encrypted = 0, sent = 0;
        CHECK_OK(participant_new(&m, task_, 0, &rng));
        for (int step = 0; step < 300; step++) {
            participant_order o = participant_next(m, now);
            uint64_t dice = seeded_below(&gen, 10);
            if (o.kind == PARTICIPANT_STOP) {
                stopped++;
                break;
            }
            if (o.kind == PARTICIPANT_SLEEP) {
                assert_true(o.until_ms > now && o.until_ms <= now + 256000);
                now = o.until_ms;
                continue;
            }
            if (o.kind == PARTICIPANT_TRAIN)
                assert_true(o.round > encrypted); /* never encrypted before */
            if (o.kind == PARTICIPANT_UPLOAD)
                assert_int_equal(o.round, encrypted); /* those bytes */
            now += seeded_below(&gen, 300);
            if (seeded_below(&gen, 30) == 0) { /* kill -9 */
                participant_free(m);
                CHECK_OK(participant_new(&m, task_, sent, &rng));
                if (encrypted > 0)
                    participant_restore(m, encrypted, o.kind != PARTICIPANT_UPLOAD);
                continue;
            }
            if (dice == 0) {
                CHECK_OK(on(m, PARTICIPANT_FAILED, now));
                continue;
            }
            if (dice == 1 && (o.kind == PARTICIPANT_UPLOAD || o.kind == PARTICIPANT_FETCH_MODEL)) {
                CHECK_OK(on(m, PARTICIPANT_REFUSED, now));
                continue;
            }
            uint64_t round = 1 + seeded_below(&gen, 5);
            round_news n = news_of(task_,
                                   dice < 8   ? ROUND_OPEN
                                   : dice < 9 ? ROUND_WAITING
                                              : ROUND_CLOSED,
                                   round, dice < 8 ? seeded_below(&gen, 2000) : 0);
            participant_event e = { .kind = answer[o.kind],
                                    .news = &n,
                                    .drawn = seeded_below(&gen, 2) };
            CHECK_OK(participant_on(m, &e, now));
            if (e.kind == PARTICIPANT_TRAINED)
                encrypted = o.round, trained++;
            if (e.kind == PARTICIPANT_GOT_RECEIPT)
                sent++;
            assert_true(task_->max_rounds_per_client == 0 || sent <= 3);
        }
        participant_free(m);
    }
    assert_true(trained > 100 && stopped > 0);
}

/* ---- the owner's policy ---------------------------------------------------------------------- */

static void refuses(const policy *p, const task *task_, sefl_status want, const char *rule)
{
    char text[64];
    const char *named = NULL;
    CHECK_STATUS(policy_check(p, task_, &named), want);
    assert_string_equal(named, rule);
    assert_non_null(
        strstr(sefl_last_error(), " (")); /* what would accept it, and what that means */
    snprintf(text, sizeof text, "policy: %s: ", rule);
    assert_int_equal(strncmp(sefl_last_error(), text, strlen(text)), 0);
}

static void test_policy(void **state)
{
    (void)state;
    task none, own;
    CHECK_OK(sample_task(&none, "privacy.noise=none", "privacy.claim=none", NULL));
    CHECK_OK(sample_task(&own, "privacy.noise=own", NULL));
    /* t: epsilon 8, joint, threshold 3, at most 3 of 5 rounds */
    policy good = { .epsilon_task = 8,
                    .epsilon_total = 8,
                    .threshold_min = 3,
                    .noise_modes = 1u << TASK_NOISE_JOINT,
                    .rounds_max = 3,
                    .servers = sample_servers },
           p, open = { 0 };
    CHECK_OK(policy_check(&good, &t, NULL));
    CHECK_OK(policy_check(&open, &t, NULL));
    CHECK_OK(policy_check(&open, &own, NULL));
    refuses(&open, &none, SEFL_EINVAL, "claim_none"); /* never silently */
    p = good, p.epsilon_task = 7.99;
    refuses(&p, &t, SEFL_EINVAL, "epsilon_per_task");
    p = good, p.epsilon_total = 7.99;
    refuses(&p, &t, SEFL_EINVAL, "epsilon_total");
    p = good, p.threshold_min = 4;
    refuses(&p, &t, SEFL_EINVAL, "clients_min");
    p = good, p.rounds_max = 2;
    refuses(&p, &t, SEFL_EINVAL, "rounds_max");
    refuses(&good, &sampled, SEFL_EINVAL, "rounds_max"); /* five rounds, no limit a client */
    refuses(&good, &own, SEFL_EINVAL, "noise_modes");
    p = good, p.servers.as[0] ^= 1;
    refuses(&p, &t, SEFL_EAUTH, "allowed_servers");
    p = good, p.servers.csp[31] ^= 1;
    refuses(&p, &t, SEFL_EAUTH, "allowed_servers");
    p = good, p.allow_no_claim = true, p.rounds_max = 0;
    refuses(&p, &none, SEFL_EINVAL, "noise_modes");
    p.noise_modes |= 1u << TASK_NOISE_NONE;
    CHECK_OK(policy_check(&p, &none, NULL));
    task_clear(&none);
    task_clear(&own);
}

/* ---- news ------------------------------------------------------------------------------------ */

static void test_news(void **state)
{
    (void)state;
    sefl_buf json = { 0 }, scratch = { 0 };
    round_news in = news_of(&t, ROUND_OPEN, 3, 12000), out;
    CHECK_OK(round_news_write(&json, &in));
    CHECK_OK(round_news_read(&out, &scratch, buf_span(&json)));
    assert_true(out.state == ROUND_OPEN && out.round == 3 && out.left_ms == 12000);
    assert_int_equal(out.header.n, in.header.n);
    assert_memory_equal(out.header.p, in.header.p, in.header.n);
    for (size_t n = 0; n + 1 < json.n; n++)
        CHECK_STATUS(round_news_read(&out, &scratch, span_of(json.p, n)), SEFL_EPROTO);
    json.n = scratch.n = 0;
    in = news_of(&t, ROUND_OVER, 5, 0);
    strcpy(in.why, "a \"quoted\" \\ \x01 reason");
    CHECK_OK(round_news_write(&json, &in));
    CHECK_OK(round_news_read(&out, &scratch, buf_span(&json)));
    assert_string_equal(out.why, "a \"quoted\" \\ ? reason");
    scratch.n = 0;
    static const char *const bad[] = {
        "{}",
        "[]",
        "null",
        "{\"state\":\"waiting\",\"round\":0,\"left_ms\":0,\"header\":\"\"}",
        "{\"state\":\"waiting\",\"round\":0,\"left_ms\":0,\"header\":\"\",\"why\":\"\",\"loss\":1}",
        "{\"state\":\"waiting\",\"round\":0.0,\"left_ms\":0,\"header\":\"\",\"why\":\"\"}",
        "{\"state\":\"waiting\",\"round\":-1,\"left_ms\":0,\"header\":\"\",\"why\":\"\"}",
        "{\"state\":\"over\",\"round\":1,\"round\":1,\"left_ms\":0,\"header\":\"\",\"why\":\"\"}",
        "{\"state\":\"waiting\",\"round\":0,\"left_ms\":5,\"header\":\"\",\"why\":\"\"}",
        "{\"state\":\"waiting\",\"round\":0,\"left_ms\":0,\"header\":\"AAAA\",\"why\":\"\"}",
        "{\"state\":\"open\",\"round\":1,\"left_ms\":0,\"header\":\"\",\"why\":\"\"}",
        "{\"state\":\"over\",\"round\":1,\"left_ms\":0,\"header\":\"\",\"why\":\"\"}",
        "{\"state\":\"open\",\"round\":0,\"left_ms\":9,\"header\":\"AAAA\",\"why\":\"\"}",
        "{\"state\":\"open\",\"round\":1,\"left_ms\":9,\"header\":\"A\",\"why\":\"\"}",
        "{\"state\":\"open\",\"round\":1,\"left_ms\":9,\"header\":\"A===\",\"why\":\"\"}",
        "{\"state\":\"ready\",\"round\":1,\"left_ms\":0,\"header\":\"\",\"why\":\"\"}",
        "{\"state\":1,\"round\":1,\"left_ms\":0,\"header\":\"\",\"why\":\"\"}",
        "{\"state\":\"over\",\"round\":1,\"left_ms\":0,\"header\":\"\",\"why\":\"\\u001b[31m\"}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sefl_status st = round_news_read(&out, &scratch, span_of_str(bad[i]));
        if (st != SEFL_EPROTO || scratch.n != 0)
            fail_msg("%s: %s", bad[i], sefl_status_name(st));
    }
    in = (round_news){ .state = ROUND_OVER, .round = 5, .header = span_of_str("the end") };
    buf_reset(&json);
    CHECK_OK(round_news_write(&json, &in));
    CHECK_OK(round_news_read(&out, &scratch, buf_span(&json)));
    assert_true(out.header.n == 7 && memcmp(out.header.p, "the end", 7) == 0);
    in = news_of(&t, ROUND_OPEN, 3, 1);
    in.header.n = 5000;
    CHECK_STATUS(round_news_write(&json, &in), SEFL_ERANGE);
    buf_clear(&json);
    buf_clear(&scratch);
}

static void test_news_faults(void **state)
{
    (void)state;
    sefl_buf json = { 0 }, scratch = { 0 };
    round_news in = news_of(&t, ROUND_OPEN, 3, 12000), out;
    CHECK_OK(round_news_write(&json, &in));
    TEST_FAULTS(FAULT_ALLOC, st = round_news_read(&out, &scratch, buf_span(&json));
                buf_clear(&scratch), (void)0);
    buf_clear(&json);
    buf_clear(&header);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_charged_refusals),
        cmocka_unit_test(test_waits_and_ends),
        cmocka_unit_test(test_stays),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_back_off),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_every_phase_with_every_event),
        cmocka_unit_test(test_random_walks),
        cmocka_unit_test(test_policy),
        cmocka_unit_test(test_news),
        cmocka_unit_test(test_news_faults),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
