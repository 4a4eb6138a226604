/* Sealed rounds over the link: vouchers, AS's signature on every order, and small readers. */
#include "link_sets.h"

/* ---- AS's TLS key alone ---------------------------------------------------------------------- */

/* A peer without AS's signing key gets no WELCOME, and without it CSP accepts no message, even if
 * the peer replays everything that AS has ever signed. */
static void a_thief_of_the_tls_key(void **state)
{
    (void)state;
    world *w = sealed_world();
    sefl_buf b = { 0 };
    connection c;
    verdict v;
    uint8_t reason[3];
    greet(&c, w); /* AS, in the middle of a round */
    round_header h = begin_round(&c, w, 1);
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_early(&c, 1, &b, reason, 3), LINK_EARLY);
    disconnect(&c);
    const unsigned calls = w->c.calls;
    struct {
        uint32_t kind, want;
        sefl_buf body;
    } ask[] = { { .kind = LINK_TASK, .want = LINK_NO_ORDER },
                { .kind = LINK_KEY, .want = LINK_NO_ORDER },
                { .kind = LINK_HEADER, .want = LINK_NO_ORDER },
                { .kind = LINK_VOUCH, .want = LINK_NO_ORDER },
                { .kind = LINK_EARLY, .want = LINK_NO_ORDER },
                { .kind = LINK_REVEAL, .want = LINK_NO_ORDER },
                { .kind = LINK_SKIP, .want = LINK_NO_ORDER },
                { .kind = LINK_ENROL, .want = LINK_NO_ORDER },
                { .kind = LINK_PING, .want = LINK_NO_ORDER },
                { .kind = LINK_BYE, .want = LINK_NO_ORDER },
                { .kind = LINK_SET }, /* 0: the stream ends, as with what lanes say */
                { .kind = LINK_LANE },
                { .kind = LINK_FILL },
                { .kind = LINK_SEED } };
    enum { ASKED = sizeof ask / sizeof ask[0] };
    for (size_t i = 0; i < ASKED; i++) /* what AS itself would send now */
        switch (ask[i].kind) {
        case LINK_TASK:
            CHECK_OK(wr_raw(&ask[i].body, w->envelope.p, w->envelope.n));
            break;
        case LINK_HEADER:
            put_header(&ask[i].body, w, &h, w->as);
            break;
        case LINK_REVEAL: {
            round_statement s = statement(w, 1, 1, 3);
            put_open(&ask[i].body, w, &s, w->as);
            break;
        }
        case LINK_SKIP:
            put_skip(&ask[i].body, w, 1);
            break;
        case LINK_BYE:
            CHECK_OK(wr_u8(&ask[i].body, 1));
            put_order(&ask[i].body, w, 0, LINK_ORDER_OVER, w->as);
            break;
        default:
            CHECK_OK(wr_u64(&ask[i].body, 1));
        }
    for (int forged = 0; forged < 3; forged++)
        for (size_t i = 0; i < ASKED; i++) {
            connect_(&c, w, NULL, false);
            put_hello(&b, w, &w->a.ledger, LINK_VERSION);
            sefl_span said = span_of(b.p, b.n - SIGN_BYTES);
            if (forged == 0) /* of another server, of AS for something else, none */
                CHECK_OK(sign_make(b.p + said.n, w->csp, SIGN_LINK, said));
            else if (forged == 1)
                CHECK_OK(sign_make(b.p + said.n, w->as, SIGN_ORDER, said));
            else
                memset(b.p + said.n, 0, SIGN_BYTES);
            assert_int_equal(say_buf(&c, LINK_HELLO, &b), LINK_NO_SIGNATURE);
            assert_int_equal(say(&c, ask[i].kind, buf_span(&ask[i].body)), ask[i].want);
            disconnect(&c);
        }
    assert_int_equal(w->c.calls, calls); /* nothing was written */
    assert_true(csp_seen_at(&w->c, 1).r.state == CSP_SIGNED && csp_seen_at(&w->c, 1).has_key &&
                !csp_seen_at(&w->c, 1).has_set && !c.over);
    assert_int_equal(w->book.charges, 0);
    greet(&c, w); /* AS continues where it was */
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
    disconnect(&c);
    for (size_t i = 0; i < ASKED; i++)
        buf_clear(&ask[i].body);
    buf_clear(&b);
    world_free(w);
}

/* ---- vouchers -------------------------------------------------------------------------------- */

static void put_voucher(sefl_buf *b, const world *w, uint8_t spki, uint8_t key, uint64_t serial,
                        uint8_t good)
{
    voucher v = { .servers = w->t.servers,
                  .serial = serial,
                  .spki = span_of(&spki, 1),
                  .signature = span_of(&good, 1) };
    memset(v.key, key, sizeof v.key);
    CHECK_OK(voucher_write(b, &v));
}

static void vouchers(void **state)
{
    (void)state;
    world *w = sealed_world();
    sefl_buf b = { 0 };
    connection c;
    csp_store j = csp_memory_store(&w->c);
    uint8_t client[32], key[32];
    uint64_t serial;
    sha256_of(client, span_of("\1", 1));
    greet(&c, w);
    put_voucher(&b, w, 1, 11, 5, 0); /* not a member, or an invalid signature */
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_NO_ENROL);
    CHECK_STATUS(j.voucher_get(j.ctx, client, &serial, key), SEFL_ENOTFOUND);
    put_voucher(&b, w, 1, 11, 5, 1);
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_YES);
    put_voucher(&b, w, 1, 11, 5, 1); /* again, as at every start of a client */
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_YES);
    put_voucher(&b, w, 1, 12, 5, 1); /* another key, not newer */
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_NO_ENROL);
    put_voucher(&b, w, 1, 12, 4, 1);
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_NO_ENROL);
    put_voucher(&b, w, 2, 11, 9, 1); /* another client's key */
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_NO_ENROL);
    CHECK_OK(j.voucher_get(j.ctx, client, &serial, key));
    assert_true(serial == 5 && key[0] == 11);
    put_voucher(&b, w, 1, 12, 6, 1);
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_YES);
    CHECK_OK(j.voucher_get(j.ctx, client, &serial, key));
    assert_true(serial == 6 && key[0] == 12);
    w->t.servers.as[0] ^= 1; /* of another federation */
    put_voucher(&b, w, 1, 13, 7, 1);
    w->t.servers.as[0] ^= 1;
    assert_int_equal(say_buf(&c, LINK_VOUCH, &b), LINK_NO_ENROL);
    assert_int_equal(say(&c, LINK_VOUCH, span_of("abc", 3)), LINK_NO_ENROL);
    assert_int_equal(say(&c, LINK_PING, span_of("", 0)), LINK_PONG);
    disconnect(&c);
    buf_clear(&b);
    world_free(w);
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* SKIP and BYE without AS's signature on them change nothing, and charge nothing. */
static void orders_are_signed(void **state)
{
    (void)state;
    static const char *const schemes[] = { "pad", "paillier" };
    for (int k = 0; k < 2; k++) {
        world *w = world_new(schemes[k], TASK_NOISE_NONE, SEALED_VALUES);
        sefl_buf b = { 0 };
        connection c;
        greet(&c, w);
        if (k == 0)
            begin_round(&c, w, 1);
        else
            sign_round(&c, w, 1);
        CHECK_OK(ledger_pay(&w->a.ledger, 1)); /* a skip would charge */
        unsigned calls = w->c.calls;
        uint8_t id = w->t.id[0];
        for (int i = 0; i < 3; i++) {
            const sign_key *key = i == 0 ? w->csp : w->as; /* another key */
            for (uint8_t what = LINK_ORDER_SKIP; what <= LINK_ORDER_OVER; what++) {
                if (what == LINK_ORDER_SKIP)
                    put_mark(&b, &w->a.ledger);
                else
                    CHECK_OK(wr_u8(&b, 1));
                if (i == 1)
                    w->t.id[0] ^= 1; /* of another task */
                put_order(&b, w, what == LINK_ORDER_SKIP, what, key);
                w->t.id[0] = id;
                if (i == 2)
                    b.p[b.n - 1] ^= 1; /* a bit of the signature */
                assert_int_equal(say_buf(&c, what == LINK_ORDER_SKIP ? LINK_SKIP : LINK_BYE, &b),
                                 i == 1 ? LINK_NO_TASK : LINK_NO_SIGNATURE);
            }
        }
        disconnect(&c);
        for (int i = 0; i < 4; i++) { /* none at all, cut off, or one of the other kind */
            greet(&c, w);
            if (i == 0)
                CHECK_OK(wr_u8(&b, 1));
            if (i == 1 || i == 3)
                put_mark(&b, &w->a.ledger);
            if (i == 1)
                CHECK_OK(wr_u64(&b, 1));
            if (i == 2)
                CHECK_OK(wr_u8(&b, 1));
            if (i >= 2)
                put_order(&b, w, 1, i == 2 ? LINK_ORDER_SKIP : LINK_ORDER_OVER, w->as);
            assert_int_equal(say_buf(&c, i % 2 == 0 ? LINK_BYE : LINK_SKIP, &b), 0);
            disconnect(&c);
            assert_int_equal(c.st, SEFL_EPROTO);
            assert_false(c.over);
        }
        assert_int_equal(w->c.calls, calls); /* nothing was written */
        assert_int_equal(w->book.charges, 0);
        assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_SIGNED);
        assert_false(csp_memory_at(&w->c, 0)->has[CSP_OVER]);

        /* a ledger that is ahead by another charge: nothing is charged before it is compared */
        mem_ledger fork = { 0 };
        CHECK_OK(ledger_pay(&fork, 2));
        greet(&c, w);
        put_mark(&b, &fork);
        put_order(&b, w, 1, LINK_ORDER_SKIP, w->as);
        assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_NO_LEDGER);
        assert_int_equal(w->c.calls, calls);
        assert_int_equal(w->book.charges, 0);
        put_skip(&b, w, 1);
        assert_int_equal(say_buf(&c, LINK_SKIP, &b), LINK_YES);
        assert_int_equal(w->book.charges, 1);
        CHECK_OK(wr_u8(&b, 1));
        put_order(&b, w, 0, LINK_ORDER_OVER, w->as);
        assert_int_equal(say_buf(&c, LINK_BYE, &b), LINK_YES);
        disconnect(&c);
        assert_true(c.over && csp_memory_at(&w->c, 0)->has[CSP_OVER]);
        buf_clear(&b);
        world_free(w);
    }
}

/* ---- small readers --------------------------------------------------------------------------- */

static void refusals_of_another_form(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        sefl_status st;
    } c[] = {
        { "", 0, SEFL_OK },
        { "\0\0\0\0\1", 5, SEFL_OK },
        { "\0\0\0\0\1\2\0\0\0\7", 10, SEFL_OK },
        { "\0\0\0\0\0", 5, SEFL_EPROTO },                      /* no reason */
        { "\3\0\0\0\1", 5, SEFL_EPROTO },                      /* no such head */
        { "\1\0\0\0\1\1\0\0\0\1", 10, SEFL_EPROTO },           /* twice */
        { "\1\0\0\0\1\0\0\0\0\1", 10, SEFL_EPROTO },           /* descending */
        { "\0\0\0\0", 4, SEFL_EPROTO },                        /* cut off */
        { "\0\0\0\0\1\1\0\0\0\1\2\0\0\0\1", 15, SEFL_EPROTO }, /* more than there is room */
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        head_refusal out[2];
        size_t n;
        rd r = rd_over(span_of(c[i].bytes, c[i].n));
        CHECK_STATUS(link_refusals_read(&r, out, 2, &n, 3), c[i].st);
        assert_int_equal(n, c[i].st == SEFL_OK ? c[i].n / 5 : 0);
    }
    uint8_t bytes[LINK_ORDER_BYTES + 1] = { [40] = LINK_ORDER_SKIP };
    link_order o;
    CHECK_OK(link_order_read(&o, span_of(bytes, LINK_ORDER_BYTES)));
    CHECK_STATUS(link_order_read(&o, span_of(bytes, LINK_ORDER_BYTES - 1)), SEFL_EPROTO);
    CHECK_STATUS(link_order_read(&o, span_of(bytes, LINK_ORDER_BYTES + 1)), SEFL_EPROTO);
    bytes[40] = 3;
    CHECK_STATUS(link_order_read(&o, span_of(bytes, LINK_ORDER_BYTES)), SEFL_EPROTO);
    bytes[40] = 0;
    CHECK_STATUS(link_order_read(&o, span_of(bytes, LINK_ORDER_BYTES)), SEFL_EPROTO);
    for (unsigned reason = HEAD_FORM; reason <= HEAD_NORM; reason++)
        assert_string_not_equal(head_reason_text(reason), head_reason_text(0));
}

/* Thousands of clients, many with the same first bytes. */
static void a_table_of_clients(void **state)
{
    (void)state;
    client_table t = { 0 };
    uint8_t client[32] = { 0 }, units[32] = { 0 };
    size_t at;
    assert_int_equal(client_table_find(&t, client), 0);
    for (int again = 0; again < 2; again++)
        for (uint32_t i = 0; i < 3000; i++) {
            store_u32(client, i % 7);
            store_u32(client + 20, i);
            store_u32(units, i + (uint32_t)again);
            CHECK_OK(client_table_put(&t, client, units, &at));
            assert_int_equal(at, i);
        }
    assert_int_equal(t.n, 3000);
    for (uint32_t i = 0; i < 3000; i++) {
        store_u32(client, i % 7);
        store_u32(client + 20, i);
        assert_int_equal(client_table_find(&t, client), i + 1);
        assert_int_equal(load_u32(t.leaf[i].body), i + 1);
    }
    store_u32(client + 20, 4711);
    assert_int_equal(client_table_find(&t, client), 0);
    client_table_clear(&t);
    TEST_FAULTS(FAULT_ALLOC, st = client_table_put(&t, client, units, &at), client_table_clear(&t));
    client_table_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thief_of_the_tls_key), cmocka_unit_test(vouchers),
        cmocka_unit_test(orders_are_signed),      cmocka_unit_test(refusals_of_another_form),
        cmocka_unit_test(a_table_of_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
