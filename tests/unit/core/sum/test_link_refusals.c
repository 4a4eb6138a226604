/* What CSP refuses, question by question. */
#include "link_say.h"

static const uint32_t asked[] = { LINK_HELLO, LINK_TASK, LINK_HEADER, LINK_REVEAL,
                                  LINK_SKIP,  LINK_PING, LINK_BYE };

/* ---- order and form -------------------------------------------------------------------------- */

static void words_out_of_order(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_JOINT, 40);
    sefl_buf b = { 0 };
    connection c;
    connect_(&c, w, NULL, false);
    for (size_t i = 1; i < sizeof asked / sizeof asked[0]; i++)
        assert_int_equal(say(&c, asked[i], span_of("", 0)), LINK_NO_ORDER);
    put_hello(&b, w, &w->a.ledger, LINK_VERSION);
    assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_WELCOME);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        if (asked[i] != LINK_TASK && asked[i] != LINK_PING && asked[i] != LINK_BYE)
            assert_int_equal(say(&c, asked[i], span_of("", 0)), LINK_NO_ORDER);
    assert_int_equal(say(&c, LINK_PING, span_of("", 0)), LINK_PONG);
    assert_int_equal(say(&c, LINK_TASK, buf_span(&w->envelope)), LINK_YES);
    assert_int_equal(say(&c, LINK_TASK, buf_span(&w->envelope)), LINK_NO_ORDER);
    put_hello(&b, w, &w->a.ledger, LINK_VERSION);
    assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_NO_ORDER);
    assert_int_equal(say(&c, LINK_BYE, span_of("\0", 1)), 0);
    disconnect(&c);
    CHECK_OK(c.st);
    assert_false(c.over);
    buf_clear(&b);
    world_free(w);
}

/* CSP's own messages, unknown messages, invalid frames: the stream ends with a reason. */
static void words_that_end_the_stream(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_JOINT, 40);
    connection c;
    static const uint32_t bad[] = { LINK_WELCOME,   LINK_YES,
                                    LINK_GO,        LINK_KEPT,
                                    LINK_PONG,      LINK_NO,
                                    LINK_SUM,       LINK_PLAIN,
                                    LINK_HELLO - 1, LINK_HELLO + LINK_KINDS,
                                    LINK_APPROVED,  LINK_LANE,
                                    LINK_FILL,      LINK_SEED,
                                    LINK_DIGEST,    0,
                                    0xffffffff };
    for (int greeted = 0; greeted < 2; greeted++)
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            if (greeted)
                greet(&c, w);
            else
                connect_(&c, w, NULL, false);
            assert_int_equal(say(&c, bad[i], span_of("", 0)), 0);
            disconnect(&c);
            assert_int_equal(c.st, SEFL_EPROTO);
        }
    for (int i = 0; i < 3; i++) { /* index, length, a body that never comes */
        uint8_t frame[MSG_HEADER] = { 0 };
        greet(&c, w);
        store_u32(frame, LINK_PING);
        store_u32(frame + 4, i == 0);
        store_u64(frame + 8, i == 1 ? LINK_BODY_MAX + 1 : i == 2 ? 5 : 0);
        CHECK_OK(channel_send(&c.wire[0].inner, frame, sizeof frame));
        CHECK_OK(channel_flush(&c.wire[0].inner));
        disconnect(&c);
        assert_int_equal(c.st, i == 2 ? SEFL_ECLOSED : SEFL_EPROTO);
    }
    greet(&c, w);
    assert_int_equal(say(&c, LINK_BYE, span_of("\2", 1)), 0);
    disconnect(&c);
    assert_int_equal(c.st, SEFL_EPROTO);
    world_free(w);
}

/* Every question truncated at every length, or a byte too long: the stream ends and nothing has
 * changed. */
static void questions_of_another_length(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_NONE, 40);
    sefl_buf b = { 0 };
    for (size_t q = 0; q < sizeof asked / sizeof asked[0]; q++) {
        size_t whole = 0;
        for (size_t n = 0;; n++) {
            connection c;
            world_reset(w);
            buf_reset(&b);
            if (asked[q] == LINK_HELLO)
                connect_(&c, w, NULL, false);
            else if (asked[q] == LINK_TASK) {
                connect_(&c, w, NULL, false);
                put_hello(&b, w, &w->a.ledger, LINK_VERSION);
                assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_WELCOME);
            } else {
                greet(&c, w);
                if (asked[q] != LINK_HEADER)
                    sign_round(&c, w, 1);
            }
            round_header h = world_header(w, 1);
            round_statement s = statement(w, 1, 1, 3);
            buf_reset(&b);
            switch (asked[q]) {
            case LINK_HELLO:
                put_hello(&b, w, &w->a.ledger, LINK_VERSION);
                break;
            case LINK_TASK:
                CHECK_OK(wr_raw(&b, w->envelope.p, w->envelope.n));
                break;
            case LINK_HEADER:
                put_header(&b, w, &h, w->as);
                break;
            case LINK_REVEAL:
                put_open(&b, w, &s, w->as);
                break;
            case LINK_SKIP:
                put_skip(&b, w, 1);
                break;
            case LINK_BYE:
                CHECK_OK(wr_u8(&b, 0));
                break;
            }
            whole = b.n;
            CHECK_OK(wr_u8(&b, 0));
            if (n == whole) { /* that one is valid */
                disconnect(&c);
                continue;
            }
            unsigned calls = w->c.calls;
            assert_int_equal(say(&c, asked[q], span_of(b.p, n)), 0);
            disconnect(&c);
            assert_int_equal(c.st, SEFL_EPROTO);
            assert_int_equal(w->c.calls, calls);
            buf_reset(&b);
            if (n > whole)
                break;
        }
    }
    buf_clear(&b);
    world_free(w);
}

/* ---- HELLO and TASK -------------------------------------------------------------------------- */

static void another_version_or_task(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_NONE, 40);
    sefl_buf b = { 0 };
    connection c;
    connect_(&c, w, NULL, false);
    put_hello(&b, w, &w->a.ledger, LINK_VERSION + 1);
    assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_NO_VERSION);
    put_hello(&b, w, &w->a.ledger, LINK_VERSION);
    b.p[4 + LEDGER_HEAD_BYTES] ^= 1;
    assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_NO_TASK);
    for (int i = 0; i < 2;
         i++) { /* AS's TLS key alone: the ledger's head changed, or the signature */
        put_hello(&b, w, &w->a.ledger, LINK_VERSION);
        b.p[i == 0 ? 4 : b.n - 1] ^= 1;
        assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_NO_SIGNATURE);
        assert_int_equal(say(&c, LINK_TASK, buf_span(&w->envelope)), LINK_NO_ORDER);
    }
    put_hello(&b, w, &w->a.ledger, LINK_VERSION);
    assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_WELCOME);

    envelope env;
    CHECK_OK(envelope_read(&env, buf_span(&w->envelope)));
    envelope other = { .kind = SIGN_TASK, .content = span_of_str("{\"a task\": \"of somebody\"}") };
    CHECK_OK(envelope_sign(&other, SIGNER_AS, w->as));
    CHECK_OK(envelope_sign(&other, SIGNER_CSP, w->csp));
    CHECK_OK(envelope_write(&b, &other));
    assert_int_equal(say_buf(&c, LINK_TASK, &b), LINK_NO_TASK);
    for (unsigned i = 0; i < 2; i++) { /* one signature missing, one wrong */
        envelope one = env;
        one.count = 1;
        one.by[0] = env.by[i];
        CHECK_OK(envelope_write(&b, &one));
        assert_int_equal(say_buf(&c, LINK_TASK, &b), LINK_NO_SIGNATURE);
        one = env;
        one.by[i].sig[5] ^= 4;
        CHECK_OK(envelope_write(&b, &one));
        assert_int_equal(say_buf(&c, LINK_TASK, &b), LINK_NO_SIGNATURE);
    }
    assert_int_equal(say(&c, LINK_TASK, buf_span(&w->envelope)), LINK_YES);
    disconnect(&c);
    buf_clear(&b);
    world_free(w);
}

static unsigned readable; /* so many more times */

static ledger_order compare_once(void *ctx, const ledger_head *peer)
{
    return readable > 0 && readable-- ? ledger_look(ctx, peer)
                                      : (sefl_note("test: disk"), LEDGER_UNREADABLE);
}

/* A ledger that CSP cannot read for a moment is no other history: FAULT, and AS tries again. */
static void a_ledger_that_cannot_be_read(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_NONE, 40);
    csp_store store = csp_memory_store(&w->c);
    mem_ledger other = { 0 };
    sefl_buf b = { 0 };
    connection c;
    world_sum(w, 1);
    store.ledger.compare = compare_once;
    w->disk = &store;
    CHECK_OK(ledger_pay(&other, 9));
    for (unsigned n = 0; n < 4; n++) { /* at HELLO, for the words of a NO, at HEADER, at SKIP */
        round_header h = world_header(w, 1);
        readable = n;
        connect_(&c, w, NULL, false);
        put_hello(&b, w, n == 1 ? &other : &w->a.ledger, LINK_VERSION);
        assert_int_equal(say_buf(&c, LINK_HELLO, &b), n < 2 ? LINK_NO_FAULT : LINK_WELCOME);
        if (n >= 2) {
            assert_int_equal(say(&c, LINK_TASK, buf_span(&w->envelope)), LINK_YES);
            readable = n - 2;
            put_header(&b, w, &h, w->as);
            assert_int_equal(say_buf(&c, LINK_HEADER, &b), n == 2 ? LINK_NO_FAULT : LINK_HEADER);
        }
        if (n == 3) {
            put_skip(&b, w, 1);
            assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_NO_FAULT);
        }
        disconnect(&c);
    }
    buf_clear(&b);
    world_free(w);
}

/* The allowed differences of two ledgers, and all others. */
static void ledgers_that_differ(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_NONE, 40);
    sefl_buf b = { 0 };
    connection c;
    mem_ledger fork = { 0 };
    world_sum(w, 1);

    CHECK_OK(ledger_pay(&w->a.ledger, 1)); /* AS ahead, no round to reveal */
    connect_(&c, w, NULL, false);
    put_hello(&b, w, &w->a.ledger, LINK_VERSION);
    assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_NO_LEDGER);
    disconnect(&c);

    w->a.ledger = (mem_ledger){ 0 };
    greet(&c, w);
    sign_round(&c, w, 1);
    disconnect(&c);
    CHECK_OK(
        ledger_pay(&w->a.ledger, 1)); /* AS ahead by the charge of the round to reveal: allowed */
    greet(&c, w);
    sign_round(&c, w, 1);
    disconnect(&c);

    CHECK_OK(ledger_pay(&w->a.ledger, 2)); /* by two charges */
    connect_(&c, w, NULL, false);
    put_hello(&b, w, &w->a.ledger, LINK_VERSION);
    assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_NO_LEDGER);
    disconnect(&c);

    w->a.ledger = (mem_ledger){ 0 };
    CHECK_OK(ledger_pay(&w->book, 1)); /* CSP ahead */
    connect_(&c, w, NULL, false);
    put_hello(&b, w, &w->a.ledger, LINK_VERSION);
    assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_NO_LEDGER);
    CHECK_OK(ledger_pay(&fork, 9)); /* two histories */
    put_hello(&b, w, &fork, LINK_VERSION);
    assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_NO_LEDGER);
    disconnect(&c);

    /* equal at HELLO, and not at the questions after it */
    world_reset(w);
    greet(&c, w);
    w->a.ledger = fork;
    round_header h = world_header(w, 1);
    put_header(&b, w, &h, w->as);
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_LEDGER);
    assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_NEW);
    w->a.ledger = (mem_ledger){ 0 };
    sign_round(&c, w, 1);
    round_statement s = statement(w, 1, 1, 3);
    put_open(&b, w, &s, w->as); /* AS has not charged: CSP would be ahead */
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_LEDGER);
    assert_int_equal(csp_seen_at(&w->c, 1).reveals, 0);
    disconnect(&c);

    /* AS charged, the reveal never came: SKIP charges CSP too */
    world_reset(w);
    greet(&c, w);
    sign_round(&c, w, 1);
    put_skip(&b, w, 2);
    assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_NO_HEADER);
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    put_skip(&b, w, 1);
    assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
    assert_int_equal(w->book.charges, 1);
    assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_SKIPPED);
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_SKIPPED);
    CHECK_OK(ledger_pay(&w->a.ledger, 2));
    put_skip(&b, w, 1);
    assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_NO_LEDGER);
    disconnect(&c);
    buf_clear(&b);
    world_free(w);
}

/* ---- HEADER, REVEAL -------------------------------------------------------------------------- */

static void headers_that_are_not_signed(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_NONE, 40);
    sefl_buf b = { 0 };
    connection c;
    round_header h = world_header(w, 1), other = h;
    greet(&c, w);
    put_header(&b, w, &h, w->csp); /* not AS's key */
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_SIGNATURE);
    put_header(&b, w, &h, w->as);
    b.p[b.n - 1] ^= 1;
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_SIGNATURE);
    other.task[3] ^= 1;
    put_header(&b, w, &other, w->as);
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_TASK);
    static const uint64_t wrong[] = { 2, 7, UINT64_MAX };
    for (size_t i = 0; i < 3; i++) {
        other = world_header(w, wrong[i]);
        put_header(&b, w, &other, w->as);
        assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_HEADER);
    }
    sign_round(&c, w, 1);
    sign_round(&c, w, 1); /* exactly the same again */
    other = h;
    other.model[7] ^= 1;
    put_header(&b, w, &other, w->as);
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_HEADER);
    other = h;
    other.step_nano++;
    put_header(&b, w, &other, w->as);
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_HEADER);
    other = world_header(w, 2); /* round 1 is not revealed yet */
    put_header(&b, w, &other, w->as);
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_HEADER);
    for (uint64_t r = 1; r <= w->t.rounds; r++) { /* up to the task's last round */
        if (r > 1)
            sign_round(&c, w, r);
        put_skip(&b, w, r);
        assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
    }
    other = world_header(w, w->t.rounds + 1);
    put_header(&b, w, &other, w->as);
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_HEADER);
    disconnect(&c);

    world_reset(w); /* past the budget */
    w->book.budget = 1;
    CHECK_OK(ledger_pay(&w->book, 9));
    CHECK_OK(ledger_pay(&w->a.ledger, 9));
    greet(&c, w);
    put_header(&b, w, &h, w->as);
    assert_int_equal(say_buf(&c, LINK_HEADER, &b), LINK_NO_BUDGET);
    disconnect(&c);
    buf_clear(&b);
    world_free(w);
}

/* AS claims more clients than CSP's operator has approved. */
static void more_than_were_approved(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_JOINT, 40);
    sefl_buf b = { 0 };
    connection c;
    round_statement s;
    w->members = 3;
    greet(&c, w);
    sign_round(&c, w, 1);
    assert_int_equal(w->began, 1);
    s = statement(w, 1, 1, 4);
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_MEMBERS);
    s = statement(w, 1, 1, 3);
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_LEDGER); /* only AS has not charged */
    disconnect(&c);
    w->members = UINT64_MAX; /* with an unreadable list nothing is revealed */
    greet(&c, w);
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_FAULT);
    disconnect(&c);
    assert_int_equal(w->book.charges, 0);
    assert_int_equal(csp_seen_at(&w->c, 1).reveals, 0);
    buf_clear(&b);
    world_free(w);
}

static void openings_that_are_refused(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_JOINT, 40);
    sefl_buf b = { 0 };
    connection c;
    greet(&c, w);
    round_statement s = statement(w, 1, 1, 3);
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_HEADER); /* never signed */
    sign_round(&c, w, 1);
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_LEDGER); /* AS has not charged */
    mem_ledger before = w->a.ledger;
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_SLICE); /* no shares named */
    w->a.ledger = before;
    put_open(&b, w, &s, w->csp);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_SIGNATURE);
    for (size_t bit = 0; bit < 8 * STATEMENT_FIXED; bit += 37) { /* what AS signed, changed */
        put_open(&b, w, &s, w->as);
        b.p[LEDGER_HEAD_BYTES + 13 + bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_SIGNATURE);
    }
    s.task[0] ^= 1;
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_TASK);
    static const uint32_t counts[] = { 0, 1, 11, UINT32_MAX };
    for (size_t i = 0; i < 4; i++) {
        s = statement(w, 1, 1, counts[i]);
        put_open(&b, w, &s, w->as);
        assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_FEW);
    }
    s = statement(w, 2, 1, 3);
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_HEADER); /* wrong round */
    put_skip(&b, w, 1);
    assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
    s = statement(w, 1, 1, 3);
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_SKIPPED);
    disconnect(&c);
    assert_int_equal(w->book.charges, 0);
    assert_int_equal(csp_seen_at(&w->c, 1).reveals, 0);
    buf_clear(&b);
    world_free(w);
}

/* CSP may close the stream at the first wrong byte, before all are sent. */
static void sent(sefl_status st)
{
    assert_true(st == SEFL_OK || st == SEFL_ECLOSED);
}

/* After GO: wrong pieces of the sum. Nothing is revealed, and the next attempt succeeds. */
static void sums_in_wrong_pieces(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_NONE, 40);
    sefl_buf b = { 0 };
    connection c;
    bool kept;
    int64_t got[W_VALUES];
    const ahe_params *p = &w->t.ahe;
    uint8_t *bytes = calloc(ahe_body_bytes(p) + 1, 1);
    memset(bytes, 0xff, ahe_body_bytes(p)); /* not a ciphertext at all */
    world_sum(w, 1);
    for (int i = 0; i < 6; i++) {
        const uint32_t index = 1;
        const size_t n = p->unit_bytes;
        world_reset(w);
        greet(&c, w);
        sign_round(&c, w, 1);
        CHECK_OK(ledger_pay(&w->a.ledger, 1));
        round_statement s = statement(w, 1, 1, 3);
        put_open(&b, w, &s, w->as);
        assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_GO);
        channel *raw = &c.wire[0].inner;
        switch (i) {
        case 0:
            sent(msg_send(raw, LINK_SUM, index + 1, bytes, n));
            break;
        case 1:
            sent(msg_send(raw, LINK_SUM, index, bytes, n + 1));
            break;
        case 2:
            sent(msg_send(raw, LINK_SUM, index, bytes, n - 1));
            break;
        case 3:
            sent(msg_send(raw, LINK_PING, 0, bytes, 0));
            break;
        case 4:
            sent(msg_begin(raw, LINK_SUM, index, UINT64_MAX));
            break;
        default: /* right sizes, but not a ciphertext */
            sent(msg_send(raw, LINK_SUM, 1, bytes, p->units * n));
        }
        (void)!channel_flush(raw);
        link_msg m = { 0 };
        assert_int_not_equal(link_recv(&c.ch[0], &m), SEFL_OK);
        buf_clear(&m.body);
        disconnect(&c);
        assert_int_equal(c.st, SEFL_EPROTO);
        assert_int_equal(csp_seen_at(&w->c, 1).reveals, 0);
        connect_(&c, w, NULL, false);
        CHECK_OK(world_round(w, &c, 1, &kept, got));
        disconnect(&c);
        assert_false(kept);
        assert_memory_equal(got, w->total, w->t.values * sizeof *got);
    }
    free(bytes);
    buf_clear(&b);
    world_free(w);
}

/* The budget runs out between header and reveal. */
static void budget_at_the_opening(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_NONE, 40);
    sefl_buf b = { 0 };
    connection c;
    greet(&c, w);
    sign_round(&c, w, 1);
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    w->book.budget = 1, w->book.charges = 1;
    round_statement s = statement(w, 1, 1, 3);
    put_open(&b, w, &s, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_BUDGET);
    disconnect(&c);
    buf_clear(&b);
    world_free(w);
}

/* Which shares a REVEAL may name: complete, present, not passed yet; GO erases them, whatever
 * happens afterwards. */
static void slices_are_taken_once(void **state)
{
    (void)state;
    enum { VALUES = 40, MADE = 200 };
    world *w = world_new("paillier", TASK_NOISE_JOINT, VALUES);
    sefl_rng rng = rng_system();
    sefl_buf b = { 0 };
    connection c;
    uint8_t id[SHARES_ID] = { 7 };
    uint64_t x[MADE] = { 0 };
    CHECK_OK(shares_pool_new(&w->shares[1], 0, &rng));
    CHECK_OK(shares_pool_add(w->shares[1], id, x, MADE, 32));
    greet(&c, w);
    sign_round(&c, w, 1);
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    static const struct {
        uint64_t first, count;
        uint8_t id;
    } bad[] = { { 0, VALUES - 1, 7 },
                { 0, VALUES + 1, 7 },
                { MADE - VALUES + 1, VALUES, 7 },
                { 0, VALUES, 8 },
                { 1 << 23, VALUES, 7 } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        round_statement s = statement(w, 1, 1, 3);
        s.slice.n = 1;
        s.slice.part[0].first = bad[i].first, s.slice.part[0].count = bad[i].count;
        s.slice.part[0].id[0] = bad[i].id;
        put_open(&b, w, &s, w->as);
        assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_SLICE);
    }
    assert_int_equal(w->book.charges, 0);
    assert_int_equal(shares_pool_have(w->shares[1]), MADE);
    for (unsigned i = 0; i < MADE / VALUES; i++) { /* the stream breaks after GO, every time */
        round_statement s = statement(w, 1, 1 + i, 3);
        s.slice.n = 1;
        memcpy(s.slice.part[0].id, id, sizeof id);
        s.slice.part[0].first = i * VALUES, s.slice.part[0].count = VALUES;
        put_open(&b, w, &s, w->as);
        assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_GO);
        disconnect(&c);
        greet(&c, w);
        sign_round(&c, w, 1);
        put_open(&b, w, &s, w->as);
        assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_NO_SLICE);
        assert_int_equal(shares_pool_have(w->shares[1]), MADE - (i + 1) * VALUES);
    }
    disconnect(&c);
    assert_int_equal(w->book.charges, 1);
    buf_clear(&b);
    shares_pool_free(w->shares[1]);
    world_free(w);
}

/* ---- the machine alone ----------------------------------------------------------------------- */

/* Gives the state machine one message; returns the kind of its first reply, the code of a NO, or 0
 * for no reply. */
static uint32_t tell(csp *c, uint32_t kind, uint32_t index, sefl_buf *body, sefl_status want)
{
    csp_replies out = { 0 };
    const link_msg m = { .kind = kind, .index = index, .body = *body };
    assert_int_equal(csp_on(c, &m, &out), want);
    const link_msg *first = &out.m[0];
    uint32_t got = out.n == 0               ? 0
                   : first->kind == LINK_NO ? (uint32_t)(first->body.p[0] | first->body.p[1] << 8)
                                            : first->kind;
    csp_replies_clear(&out);
    buf_reset(body);
    return got;
}

/* csp_on needs no channel: messages in, replies out. */
static void machine_without_a_channel(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_NONE, 40);
    csp_store store = csp_memory_store(&w->c);
    sefl_buf b = { 0 };
    csp *c;
    CHECK_OK(csp_new(&c, &(csp_config){ .task = &w->t,
                                        .envelope = buf_span(&w->envelope),
                                        .sec = w->sec,
                                        .key = w->csp,
                                        .store = &store,
                                        .coins = &w->named[1],
                                        .pool = w->pool }));
    assert_int_equal(tell(c, LINK_PING, 0, &b, SEFL_OK), LINK_NO_ORDER);
    assert_int_equal(tell(c, LINK_SUM, 1, &b, SEFL_EPROTO), 0);
    assert_int_equal(tell(c, LINK_SET, 0, &b, SEFL_EPROTO), 0);
    put_hello(&b, w, &w->a.ledger, LINK_VERSION);
    assert_int_equal(tell(c, LINK_HELLO, 0, &b, SEFL_OK), LINK_WELCOME);
    CHECK_OK(wr_raw(&b, w->envelope.p, w->envelope.n));
    assert_int_equal(tell(c, LINK_TASK, 0, &b, SEFL_OK), LINK_YES);
    round_header h = world_header(w, 1);
    put_header(&b, w, &h, w->as);
    assert_int_equal(tell(c, LINK_HEADER, 0, &b, SEFL_OK), LINK_HEADER);
    round_statement said = statement(w, 1, 1, 3);
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    put_open(&b, w, &said, w->as);
    assert_int_equal(tell(c, LINK_REVEAL, 0, &b, SEFL_OK), LINK_GO);
    assert_int_equal(w->book.charges, 1);                        /* before GO */
    assert_int_equal(tell(c, LINK_PING, 0, &b, SEFL_EPROTO), 0); /* a piece of the sum is due */
    w->c.fail = 1;
    csp_restart(c);
    put_hello(&b, w, &w->a.ledger, LINK_VERSION);
    assert_int_equal(tell(c, LINK_HELLO, 0, &b, SEFL_OK), LINK_WELCOME);
    CHECK_OK(wr_raw(&b, w->envelope.p, w->envelope.n));
    assert_int_equal(tell(c, LINK_TASK, 0, &b, SEFL_OK), LINK_YES);
    put_open(&b, w, &said, w->as); /* a fault of CSP's store: reported, and the stream ends */
    assert_int_equal(tell(c, LINK_REVEAL, 0, &b, SEFL_EIO), LINK_NO_FAULT);
    assert_int_equal(csp_seen_at(&w->c, 1).reveals, 0);
    assert_false(csp_is_done(c));
    CHECK_OK(wr_u8(&b, 0));
    assert_int_equal(tell(c, LINK_BYE, 0, &b, SEFL_OK), 0);
    assert_true(csp_is_done(c));
    csp_free(c);
    buf_clear(&b);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_out_of_order),           cmocka_unit_test(words_that_end_the_stream),
        cmocka_unit_test(questions_of_another_length),  cmocka_unit_test(another_version_or_task),
        cmocka_unit_test(a_ledger_that_cannot_be_read), cmocka_unit_test(ledgers_that_differ),
        cmocka_unit_test(headers_that_are_not_signed),  cmocka_unit_test(openings_that_are_refused),
        cmocka_unit_test(slices_are_taken_once),        cmocka_unit_test(more_than_were_approved),
        cmocka_unit_test(sums_in_wrong_pieces),         cmocka_unit_test(budget_at_the_opening),
        cmocka_unit_test(machine_without_a_channel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
