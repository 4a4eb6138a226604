/* What AS could send to CSP. Signatures would stop a fuzzer at once, so the input is a list of
 * messages, some of which the harness signs and frames; the first byte selects the message (modulo
 * 12):
 *     0 raw message: kind, length, bytes      1 HELLO     2 TASK     3 HEADER: round, model byte
 *     4 REVEAL: round, attempt, clients         5 SKIP: round           6 raw bytes: length, bytes
 *     7 AS charges a round                    8 the masked sum of round 1     9 BYE: byte
 *     10 ENROL: how (0: valid, 1: changed at the position in the next byte, 2: of other servers)
 *     11 AS acknowledges no output (else it does, at once)
 * No crash, no hang. Whatever AS sends: at most one reveal per round, charged, of enough clients,
 * under a signed header that never changes; no output byte before the mark and ACK; CSP approves only sites
 * that it was asked about, and AS asks only about valid claims. */
#define LINK_PAIR_FUZZ
#include "unit/core/sum/link_pair.h"

#include "fuzz/tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static world *w;
static sefl_buf sum;      /* the masked sum, framed */
static sefl_buf enrol[2]; /* valid claims: for our servers, for others */
static unsigned enrolled; /* admitted sites */
static bool acks;

static void said(void *ctx, uint32_t kind, sefl_span body)
{
    MUST(kind != LINK_PLAIN || acks);
    if (acks && (kind == LINK_DIGEST || kind == LINK_KEPT))
        tape_ack(ctx, body);
    if (kind == LINK_PLAIN || kind == LINK_DIGEST) {
        csp_highest top;
        csp_store j = csp_memory_store(&w->c);
        CHECK_OK(csp_store_highest(&j, &top));
        MUST(top.revealed > 0 && csp_seen_at(&w->c, top.revealed).reveals == 1);
    }
    if (kind == LINK_APPROVED)
        MUST(enrolled-- > 0);
}

static sefl_status let_in(void *ctx, const enrol_claim *c, const enrol_proof *p)
{
    (void)ctx;
    MUST(memcmp(&c->servers, &w->t.servers, sizeof c->servers) == 0 && trust_name_ok(c->name));
    CHECK_OK(enrol_proof_check(p, c));
    enrolled++;
    return SEFL_OK;
}

static void start_enrol(void)
{
    token t = { .role = TRUST_CSP, .seed = { 9 }, .name = "site" };
    enrol_claim c = { .key = { 1 }, .servers = w->t.servers, .name = "site" };
    enrol_proof p;
    for (int other = 0; other < 2; other++) {
        c.servers.as[0] ^= (uint8_t)other;
        CHECK_OK(enrol_prove(&p, &c, &t));
        CHECK_OK(enrol_question_write(&enrol[other], &c, &p));
    }
}

static void start(void)
{
    w = world_new("paillier", TASK_NOISE_NONE, W_VALUES);
    world_sum(w, 1);
    const ahe_params *p = &w->t.ahe;
    uint8_t *bytes = calloc(p->units, p->unit_bytes), seed[AHE_SEED_BYTES] = { 1 };
    MUST(p->units <= link_sum_units(p));
    CHECK_OK(ahe_sum_write_units(p, w->sum, bytes, 0, p->units, seed, NULL));
    tape_frame(&sum, LINK_SUM, 1, span_of(bytes, p->units * p->unit_bytes));
    free(bytes);
    start_enrol();
}

static void put_order(sefl_buf *b, uint64_t round, uint8_t what, uint8_t reason)
{
    link_order o = { .round = round, .what = what, .reason = reason };
    uint8_t bytes[LINK_ORDER_BYTES];
    envelope env = { .kind = SIGN_ORDER, .content = span_of(bytes, sizeof bytes) };
    memcpy(o.task, w->t.id, 32);
    link_order_write(bytes, &o);
    CHECK_OK(envelope_sign(&env, SIGNER_AS, w->as));
    CHECK_OK(envelope_write(b, &env));
}

static void word(tape *t, rd *r, mem_ledger *as)
{
    sefl_buf b = { 0 };
    envelope env = { 0 };
    uint8_t bytes[HEADER_MAX + STATEMENT_MAX], signature[SIGN_BYTES];
    sefl_span rest;
    const ledger_head *mark = &as->mark[as->n];
    unsigned which = tape_take(r) % 12, kind, n;
    switch (which) {
    case 0:
        kind = tape_take(r), n = tape_take(r);
        if (rd_view(r, &rest, n < rd_left(r) ? n : rd_left(r)) == SEFL_OK)
            tape_frame(&t->in, LINK_HELLO - 1 + kind % (LINK_KINDS + 2), 0, rest);
        break;
    case 1:
        CHECK_OK(wr_u16(&b, LINK_VERSION));
        CHECK_OK(wr_u16(&b, LINK_VERSION));
        CHECK_OK(ledger_head_write(&b, mark));
        CHECK_OK(wr_raw(&b, w->t.id, 32));
        CHECK_OK(wr_u64(&b, 0));
        CHECK_OK(sign_make(signature, w->as, SIGN_LINK, buf_span(&b)));
        CHECK_OK(wr_raw(&b, signature, sizeof signature));
        tape_frame(&t->in, LINK_HELLO, 0, buf_span(&b));
        break;
    case 2:
        tape_frame(&t->in, LINK_TASK, 0, buf_span(&w->envelope));
        break;
    case 3: {
        round_header h = world_header(w, tape_take(r));
        h.model[1] = tape_take(r) % 3;
        size_t header = round_header_write(bytes, &h);
        env = (envelope){ .kind = SIGN_HEADER, .content = span_of(bytes, header) };
        break;
    }
    case 4: {
        round_statement s = { .round = tape_take(r),
                              .attempt = tape_take(r),
                              .clients = tape_take(r) };
        memcpy(s.task, w->t.id, 32);
        size_t n_bytes = round_statement_write(bytes, &s);
        env = (envelope){ .kind = SIGN_STATEMENT, .content = span_of(bytes, n_bytes) };
        break;
    }
    case 5:
        CHECK_OK(ledger_head_write(&b, mark));
        kind = tape_take(r);
        put_order(&b, kind, LINK_ORDER_SKIP, tape_take(r));
        tape_frame(&t->in, LINK_SKIP, 0, buf_span(&b));
        break;
    case 11:
        acks = false;
        break;
    case 6:
        n = tape_take(r);
        if (rd_view(r, &rest, n < rd_left(r) ? n : rd_left(r)) == SEFL_OK)
            CHECK_OK(wr_raw(&t->in, rest.p, rest.n));
        break;
    case 7:
        if (as->n + 2 < W_MARKS)
            CHECK_OK(ledger_pay(as, 1 + tape_take(r) % 6));
        break;
    case 8:
        CHECK_OK(wr_raw(&t->in, sum.p, sum.n));
        break;
    case 10:
        kind = tape_take(r) % 3;
        CHECK_OK(wr_raw(&b, enrol[kind == 2].p, enrol[kind == 2].n));
        if (kind == 1)
            b.p[tape_take(r) % b.n] ^= 1;
        tape_frame(&t->in, LINK_ENROL, 0, buf_span(&b));
        break;
    default:
        n = tape_take(r);
        CHECK_OK(wr_u8(&b, (uint8_t)n));
        if (n == 1)
            put_order(&b, 0, LINK_ORDER_OVER, 0);
        tape_frame(&t->in, LINK_BYE, 0, buf_span(&b));
    }
    if (env.content.n > 0) {
        CHECK_OK(ledger_head_write(&b, mark));
        CHECK_OK(envelope_sign(&env, SIGNER_AS, w->as));
        CHECK_OK(envelope_write(&b, &env));
        tape_frame(&t->in, which == 3 ? LINK_HEADER : LINK_REVEAL, 0, buf_span(&b));
    }
    buf_clear(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!w)
        start();
    world_reset(w);
    tape t = { .said = said, .ctx = &t };
    channel ch = { .ops = &tape_ops, .self = &t };
    csp_store j = csp_memory_store(&w->c);
    mem_ledger as = { 0 };
    csp *c;
    rd r = rd_over(span_of(data, size));
    acks = true;
    for (int words = 0; rd_left(&r) > 0 && words < 64; words++)
        word(&t, &r, &as);
    CHECK_OK(csp_new(&c, &(csp_config){ .task = &w->t,
                                        .envelope = buf_span(&w->envelope),
                                        .sec = w->sec,
                                        .key = w->csp,
                                        .store = &j,
                                        .coins = &w->named[1],
                                        .enrol = let_in }));
    enrolled = 0;
    sefl_status st = csp_serve(c, &ch);
    (void)st;
    csp_free(c);
    for (uint64_t n = 1; n < W_ROUNDS; n++) {
        round_statement s;
        envelope env;
        if (csp_seen_at(&w->c, n).reveals == 0)
            continue;
        MUST(csp_seen_at(&w->c, n).reveals == 1 && ledger_charged(&w->book, n));
        CHECK_OK(envelope_read(&env, csp_seen_at(&w->c, n).statement));
        CHECK_OK(envelope_check_one(&env, SIGN_STATEMENT, SIGNER_AS, w->t.servers.as));
        CHECK_OK(round_statement_read(&s, env.content));
        MUST(s.round == n && s.clients >= w->t.threshold && s.clients <= w->t.clients_max);
        MUST(n == 1 || csp_seen_at(&w->c, n - 1).r.state == CSP_REVEALED ||
             csp_seen_at(&w->c, n - 1).r.state == CSP_SKIPPED);
    }
    tape_clear(&t);
    return 0;
}
