/* How AS handles answers that an honest CSP would not send. */
#include "link_pair.h"

static void put_mark(sefl_buf *b, const mem_ledger *l)
{
    CHECK_OK(ledger_head_write(b, &l->mark[l->n]));
}

/* A CSP that sends these bytes, whatever AS asks. */
typedef struct parrot {
    sefl_buf bytes;
    size_t at;
} parrot;

static sefl_status parrot_send(void *self, const void *p, size_t n)
{
    (void)self, (void)p, (void)n;
    return SEFL_OK;
}
static sefl_status parrot_recv(void *self, void *p, size_t n)
{
    parrot *x = self;
    if (x->bytes.n - x->at < n)
        return sefl_fail(SEFL_ECLOSED, "test: the end");
    memcpy(p, x->bytes.p + x->at, n);
    x->at += n;
    return SEFL_OK;
}
static sefl_status parrot_flush(void *self)
{
    (void)self;
    return SEFL_OK;
}
static const channel_ops parrot_ops = { parrot_send, parrot_recv, parrot_flush };

static void answer(parrot *x, uint32_t kind, sefl_span body)
{
    CHECK_OK(wr_u32(&x->bytes, kind));
    CHECK_OK(wr_u32(&x->bytes, 0));
    CHECK_OK(wr_u64(&x->bytes, body.n));
    CHECK_OK(wr_raw(&x->bytes, body.p, body.n));
}

static void welcome(parrot *x, unsigned version, const mem_ledger *l, uint64_t opened)
{
    sefl_buf b = { 0 };
    CHECK_OK(wr_u16(&b, (uint16_t)version));
    put_mark(&b, l);
    CHECK_OK(wr_u64(&b, opened));
    CHECK_OK(wr_u64(&b, opened));
    CHECK_OK(wr_u64(&b, 0));
    CHECK_OK(wr_raw(&b, (const uint8_t[LINK_PAIR]){ 0 }, LINK_PAIR));
    answer(x, LINK_WELCOME, buf_span(&b));
    answer(x, LINK_YES, span_of("", 0));
    buf_clear(&b);
}

typedef struct as_case {
    world *w;
    parrot x;
    channel ch;
    as_store journal;
    as_link_config cfg;
} as_case;

static void as_begin(as_case *a, world *w)
{
    *a = (as_case){ .w = w };
    a->ch = (channel){ .ops = &parrot_ops, .self = &a->x };
    a->journal = mem_as_journal(&w->a);
    a->cfg = world_as(w);
}

static void answers_that_as_refuses(void **state)
{
    (void)state;
    world *w = world_new("paillier", TASK_NOISE_NONE, 40);
    as_case a;
    as_link *l;
    mem_ledger other = { 0 };
    sefl_buf b = { 0 }, both = { 0 };
    round_header h = world_header(w, 1);
    int64_t got[W_VALUES];
    bool kept;
    static const sefl_status want[] = { SEFL_EAUTH, SEFL_EAUTH, SEFL_EPROTO, SEFL_OK };
    world_sum(w, 1);

    as_begin(&a, w); /* another version */
    welcome(&a.x, LINK_VERSION + 1, &w->a.ledger, 0);
    CHECK_STATUS(as_link_new(&l, &a.ch, &a.cfg), SEFL_EUNSUPPORTED);
    buf_clear(&a.x.bytes);

    CHECK_OK(ledger_pay(&other, 9)); /* CSP's ledger is ahead, forked, or too far behind */
    as_begin(&a, w);
    welcome(&a.x, LINK_VERSION, &other, 0);
    CHECK_STATUS(as_link_new(&l, &a.ch, &a.cfg), SEFL_ESTATE);
    buf_clear(&a.x.bytes);
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    as_begin(&a, w);
    welcome(&a.x, LINK_VERSION, &other, 0);
    CHECK_STATUS(as_link_new(&l, &a.ch, &a.cfg), SEFL_ESTATE);
    buf_clear(&a.x.bytes);
    CHECK_OK(ledger_pay(&w->a.ledger, 2));
    as_begin(&a, w);
    welcome(&a.x, LINK_VERSION, &(mem_ledger){ 0 }, 0);
    CHECK_STATUS(as_link_new(&l, &a.ch, &a.cfg), SEFL_ESTATE);
    buf_clear(&a.x.bytes);
    w->a.ledger = (mem_ledger){ 0 };

    for (int i = 0; i < 4; i++) { /* a header that CSP did not sign, or another one */
        uint8_t bytes[HEADER_MAX];
        round_header wrong = h;
        wrong.model[1] = i == 2;
        size_t bytes_n = round_header_write(bytes, &wrong);
        envelope env = { .kind = SIGN_HEADER, .content = span_of(bytes, bytes_n) };
        CHECK_OK(envelope_sign(&env, SIGNER_AS, w->as));
        if (i > 0)
            CHECK_OK(envelope_sign(&env, SIGNER_CSP, i == 1 ? w->as : w->csp));
        put_mark(&b, &w->a.ledger);
        CHECK_OK(envelope_write(&b, &env));
        as_begin(&a, w);
        welcome(&a.x, LINK_VERSION, &w->a.ledger, 0);
        answer(&a.x, LINK_HEADER, buf_span(&b));
        CHECK_OK(as_link_new(&l, &a.ch, &a.cfg));
        CHECK_STATUS(as_link_header(l, &both, &h), want[i]);
        assert_int_equal(as_link_dead(l), i < 3);
        assert_int_equal(both.n > 0, i == 3);
        as_link_free(l);
        buf_clear(&a.x.bytes);
        buf_reset(&b);
    }

    /* GO for a revealed round; GO and then nothing; a KEPT of another mask */
    as_reveal o = { .round = 1, .attempt = 1, .clients = 3, .sum = w->sum };
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    put_mark(&b, &w->a.ledger);
    CHECK_OK(wr_u8(&b, 0)); /* no lags */
    as_begin(&a, w);
    o.store = &a.journal;
    welcome(&a.x, LINK_VERSION, &w->a.ledger, 1);
    answer(&a.x, LINK_GO, buf_span(&b));
    CHECK_OK(as_link_new(&l, &a.ch, &a.cfg));
    CHECK_STATUS(as_link_reveal(l, &o, &kept, got), SEFL_EPROTO);
    assert_int_equal(w->a.masks, 0);
    as_link_free(l);
    buf_clear(&a.x.bytes);

    as_begin(&a, w);
    o.store = &a.journal;
    welcome(&a.x, LINK_VERSION, &w->a.ledger, 0);
    answer(&a.x, LINK_GO, buf_span(&b));
    CHECK_OK(as_link_new(&l, &a.ch, &a.cfg));
    CHECK_STATUS(as_link_reveal(l, &o, &kept, got), SEFL_ECLOSED);
    assert_int_equal(w->a.masks, 1);
    assert_true(as_link_dead(l));
    CHECK_STATUS(as_link_ping(l), SEFL_ECLOSED);
    as_link_free(l);
    buf_clear(&a.x.bytes);

    as_begin(&a, w); /* the same attempt once more: no mask is drawn for it */
    o.store = &a.journal;
    welcome(&a.x, LINK_VERSION, &w->a.ledger, 0);
    CHECK_OK(as_link_new(&l, &a.ch, &a.cfg));
    CHECK_STATUS(as_link_reveal(l, &o, &kept, got), SEFL_EINVAL);
    as_link_free(l);
    buf_clear(&a.x.bytes);

    /* CSP's refusals, their status here, and what they mean */
    static const struct {
        unsigned code;
        sefl_status st;
        as_outcome outcome;
    } no[] = {
        { LINK_NO_BUDGET, SEFL_EBUDGET, AS_BUDGET },   { LINK_NO_FEW, SEFL_ESTATE, AS_APART },
        { LINK_NO_MEMBERS, SEFL_ESTATE, AS_APART },    { LINK_NO_REVEALED, SEFL_ESTATE, AS_LOST },
        { LINK_NO_SKIPPED, SEFL_ESTATE, AS_LOST },     { LINK_NO_CHECKS, SEFL_ESTATE, AS_SPOILED },
        { LINK_NO_FAULT, SEFL_EIO, AS_AGAIN },         { LINK_NO_LEDGER, SEFL_ESTATE, AS_APART },
        { LINK_NO_SIGNATURE, SEFL_EAUTH, AS_REFUSED }, { LINK_NO_TASK, SEFL_EAUTH, AS_REFUSED },
        { LINK_NO_VERSION, SEFL_EAUTH, AS_REFUSED },   { 4711, SEFL_ESTATE, AS_APART }
    };
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        uint8_t body[12] = { (uint8_t)no[i].code, (uint8_t)(no[i].code >> 8), 'a', 27, '[', 'J' };
        as_begin(&a, w);
        o.store = &a.journal;
        o.attempt = 2;
        welcome(&a.x, LINK_VERSION, &w->a.ledger, 0);
        answer(&a.x, LINK_NO, span_of(body, 6));
        CHECK_OK(as_link_new(&l, &a.ch, &a.cfg));
        CHECK_STATUS(as_link_reveal(l, &o, &kept, got), no[i].st);
        assert_null(strchr(sefl_last_error(), 27));
        assert_int_equal(as_link_outcome(l, no[i].st), no[i].outcome);
        assert_int_equal(as_link_dead(l), no[i].code == LINK_NO_FAULT); /* CSP ends the stream */
        as_link_free(l);
        buf_clear(&a.x.bytes);
    }
    buf_clear(&b);
    buf_clear(&both);
    world_free(w);
}

/* ---- sealed rounds --------------------------------------------------------------------------- */

/* A root over these leaves, as CSP would compute it. */
static void root_of(uint8_t root[32], const world *w, const round_entry *leaves, uint32_t n)
{
    CHECK_OK(counted_root(root, &(counted_facts){ .task = w->t.id,
                                                  .round = 1,
                                                  .tree_seed = w->tree_seed,
                                                  .clients_max = w->t.clients_max,
                                                  .leaves = leaves,
                                                  .n = n }));
}

/* Keys and verdicts that do not belong to this round and set. */
static void sealed_answers_that_as_refuses(void **state)
{
    (void)state;
    world *w = world_new("pad", TASK_NOISE_NONE, 40);
    as_case a;
    as_link *l;
    sefl_buf b = { 0 };
    world_sum(w, 1);
    for (int i = 0; i < 5; i++) { /* KEY of another round, suite, length */
        uint8_t key[33] = { 9 };
        round_header h = world_header(w, 1);
        CHECK_OK(wr_u64(&b, i == 1 ? 2 : 1));
        CHECK_OK(wr_u16(&b, i == 2 ? 0x647a : 0x0020));
        CHECK_OK(wr_raw(&b, key, i == 3 ? 31 : i == 4 ? 33 : 32));
        as_begin(&a, w);
        welcome(&a.x, LINK_VERSION, &w->a.ledger, 0);
        answer(&a.x, LINK_KEY, buf_span(&b));
        CHECK_OK(as_link_new(&l, &a.ch, &a.cfg));
        CHECK_STATUS(as_link_key(l, &h), i == 0 ? SEFL_OK : SEFL_EPROTO);
        assert_int_equal(as_link_dead(l), i > 0);
        assert_int_equal(h.key_bytes, i == 0 ? 32 : 0);
        as_link_free(l);
        buf_clear(&a.x.bytes);
        buf_reset(&b);
    }
    w_heads x = { .w = w, .h = world_header(w, 1) };
    seal_key *key;
    CHECK_OK(seal_key_from(&key, w->t.seal, (const uint8_t[32]){ 1 }));
    x.h.key_bytes = 32;
    memcpy(x.h.key, seal_key_pub(key).p, 32);
    seal_key_free(key);
    round_entry leaves[W_CLIENTS], two[2];
    assert_int_equal(w->t.threshold, 2); /* of case 3 */
    as_set set = world_set(&x, leaves);
    two[0] = leaves[0], two[1] = leaves[2];
    for (int i = 0; i < 10; i++) {
        uint8_t root[32];
        as_verdict v;
        uint32_t kept = i == 2 ? 2 : i == 3 ? 1 : i == 4 ? 4 : i == 9 ? 2 : 3;
        uint32_t refused = i == 2 || i == 9 ? 1 : i == 3 ? 2 : 0;
        /* case 3 is right but for the threshold: CSP would decrypt a sum over one client, and under
         * `none` what AS releases would be that client's update */
        root_of(root, w, i == 2 ? two : leaves, i == 2 ? 2 : i == 3 ? 1 : 3);
        if (i == 1) /* a root over others */
            root[0] ^= 1;
        CHECK_OK(wr_raw(&b, root, i == 5 ? 31 : 32));
        CHECK_OK(wr_u32(&b, kept));
        CHECK_OK(wr_u32(&b, i == 6 ? 1 : refused));
        for (uint32_t k = 0; k < refused; k++) {
            CHECK_OK(wr_u32(&b, 1 + k));
            CHECK_OK(wr_u8(&b, HEAD_SEAL));
        }
        if (i == 7)
            CHECK_OK(wr_u8(&b, 0));
        as_begin(&a, w);
        welcome(&a.x, LINK_VERSION, &w->a.ledger, 0);
        answer(&a.x, i == 8 ? LINK_YES : LINK_VERDICT, buf_span(&b));
        CHECK_OK(as_link_new(&l, &a.ch, &a.cfg));
        bool good = i == 0 || i == 2;
        CHECK_STATUS(as_link_set(l, &set, &v), good ? SEFL_OK : SEFL_EPROTO);
        if (i == 3)
            assert_string_equal(sefl_last_error(), "CSP keeps 1 and refuses 2 of 3 clients");
        assert_int_equal(as_link_dead(l), !good);
        assert_int_equal(v.kept, good ? kept : 0);
        as_verdict_clear(&v);
        as_link_free(l);
        buf_clear(&a.x.bytes);
        buf_reset(&b);
    }
    buf_clear(&b);
    world_free(w);
}

/* What CSP must sign at the mark: who is in the sum of this round and reveal. */
static void counted_that_as_refuses(void **state)
{
    (void)state;
    world *w = world_new("pad", TASK_NOISE_NONE, 40);
    sefl_buf b = { 0 }, counted = { 0 };
    const size_t plain = w->t.ahe.units * w->t.ahe.plain_bytes;
    uint8_t *units = calloc(plain + 32, 1); /* and their digest */
    int64_t got[W_VALUES];
    world_sum(w, 1);
    for (int i = 0; i < 8; i++) {
        as_case a;
        as_link *l;
        bool kept;
        counted_statement s = { .round = i == 1 ? 2 : 1 };
        uint8_t bytes[COUNTED_STATEMENT_BYTES];
        envelope env = { .kind = i == 6 ? SIGN_STATEMENT : SIGN_COUNTED,
                         .content = span_of(bytes, sizeof bytes) };
        as_reveal o = {
            .round = 1, .attempt = 1, .clients = 3, .sum = w->sum, .counted = &counted
        };
        memset(o.set, 7, sizeof o.set);
        memcpy(s.task, w->t.id, 32);
        memcpy(s.root, o.set, 32);
        link_plain_id(s.id, i == 2 ? 2 : 1, o.set);
        s.root[0] ^= i == 3;
        s.task[0] ^= i == 4;
        counted_statement_write(bytes, &s);
        CHECK_OK(envelope_sign(&env, SIGNER_CSP, i == 5 ? w->as : w->csp));
        world_reset(w);
        CHECK_OK(ledger_pay(&w->a.ledger, 1));
        w->attempt = 1;
        as_begin(&a, w);
        o.store = &a.journal;
        welcome(&a.x, LINK_VERSION, &w->a.ledger, 0);
        buf_reset(&b);
        put_mark(&b, &w->a.ledger);
        CHECK_OK(wr_u8(&b, 0));
        answer(&a.x, LINK_GO, buf_span(&b));
        sha256_of(units + plain, span_of(units, plain));
        answer(&a.x, LINK_DIGEST, span_of(units + plain, 32));
        answer(&a.x, LINK_PLAIN, span_of(units, plain));
        buf_reset(&b);
        CHECK_OK(envelope_write(&b, &env));
        answer(&a.x, i == 7 ? LINK_PONG : LINK_COUNTED, buf_span(&b));
        CHECK_OK(as_link_new(&l, &a.ch, &a.cfg));
        buf_reset(&counted);
        sefl_status st = as_link_reveal(l, &o, &kept, got);
        CHECK_STATUS(st, i == 0 ? SEFL_OK : i == 5 || i == 6 ? SEFL_EAUTH : SEFL_EPROTO);
        assert_int_equal(as_link_dead(l), i > 0);
        assert_int_equal(counted.n, i == 0 ? b.n : 0);
        for (size_t k = 0; i > 0 && k < w->t.values; k++)
            assert_int_equal(got[k], 0);
        as_link_free(l);
        buf_clear(&a.x.bytes);
    }
    free(units);
    buf_clear(&b);
    buf_clear(&counted);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_that_as_refuses),
        cmocka_unit_test(sealed_answers_that_as_refuses),
        cmocka_unit_test(counted_that_as_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
