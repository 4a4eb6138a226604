/* What CSP could answer in a sealed round. AS asks for the key and the header, sends early heads
 * and the set, and reveals; the input is a list of answers, selected by their first byte (modulo
 * 10):
 *     0 raw message: kind, length, bytes    1 WELCOME and YES         2 KEY: how
 *     3 HEADER with both signatures         4 EARLY: refusals         5 VERDICT: how, refusals
 *     6 GO                                  7 PLAIN                   8 COUNTED: how
 *     9 NO: code
 * Refusals are a count and two bytes each: index, reason. No crash, no hang. What AS accepts is
 * valid: refusals in ascending order of index with a reason, a verdict on enough clients whose root
 * is that of the kept ones, a signature by CSP on that root and this reveal. */
#include "fuzz/sealed_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ASKED = 4 }; /* clients in the set; two of them come early */

static z_world *w;

/* ---- answers ---------------------------------------------------------------------------------------- */

static uint32_t put_refusals(sefl_buf *b, rd *r, bool out[ASKED])
{
    uint32_t n = tape_take(r) % 5;
    memset(out, 0, ASKED * sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t index = tape_take(r) % 6, reason = tape_take(r) % 10;
        MUST_OK(wr_u32(b, index));
        MUST_OK(wr_u8(b, reason));
        if (index < ASKED)
            out[index] = true;
    }
    return n;
}

/* The root of those that are not out. */
static uint32_t root_of(uint8_t root[32], const bool out[ASKED])
{
    round_entry kept[ASKED];
    uint32_t n = 0;
    for (int i = 0; i < ASKED; i++)
        if (!out[i])
            kept[n++] = w->leaf[i];
    MUST_OK(counted_root(root, &(counted_facts){ .task = w->t.id,
                                                 .round = 1,
                                                 .tree_seed = w->tree_seed,
                                                 .clients_max = w->t.clients_max,
                                                 .leaves = kept,
                                                 .n = n }));
    return n;
}

static void put_header(sefl_buf *b)
{
    uint8_t bytes[HEADER_MAX];
    envelope env = { .kind = SIGN_HEADER,
                     .content = span_of(bytes, round_header_write(bytes, &w->header)) };
    MUST_OK(envelope_sign(&env, SIGNER_AS, w->as));
    MUST_OK(envelope_sign(&env, SIGNER_CSP, w->csp));
    MUST_OK(ledger_head_write(b, &w->as_book.mark[w->as_book.n]));
    MUST_OK(envelope_write(b, &env));
}

static void put_verdict(sefl_buf *b, rd *r, uint8_t root[32])
{
    sefl_buf list = { 0 };
    bool out[ASKED];
    unsigned how = tape_take(r);
    uint32_t n = put_refusals(&list, r, out), kept = root_of(root, out);
    if (how & 1)
        root[how % 32] ^= 1;
    MUST_OK(wr_raw(b, root, 32));
    MUST_OK(wr_u32(b, how & 2 ? how : kept));
    MUST_OK(wr_u32(b, how & 4 ? how : n));
    MUST_OK(wr_raw(b, list.p, list.n));
    buf_clear(&list);
}

static void put_counted(sefl_buf *b, unsigned how, const uint8_t root[32])
{
    counted_statement s = { .round = 1 + (how & 1) };
    uint8_t bytes[COUNTED_STATEMENT_BYTES];
    envelope env = { .kind = how & 2 ? SIGN_RECEIPT : SIGN_COUNTED,
                     .content = span_of(bytes, sizeof bytes) };
    memcpy(s.task, w->t.id, 32);
    memcpy(s.root, root, 32);
    s.root[0] ^= (how & 4) != 0;
    link_plain_id(s.id, 1 + (how & 8), root);
    counted_statement_write(bytes, &s);
    MUST_OK(envelope_sign(&env, how & 16 ? SIGNER_AS : SIGNER_CSP, how & 32 ? w->as : w->csp));
    MUST_OK(envelope_write(b, &env));
}

static void word(tape *t, rd *r, uint8_t root[32])
{
    sefl_buf b = { 0 };
    sefl_span rest;
    const ahe_params *p = &w->t.ahe;
    const ledger_head *mark = &w->as_book.mark[w->as_book.n];
    bool out[ASKED];
    unsigned kind, n;
    switch (tape_take(r) % 10) {
    case 0:
        kind = tape_take(r), n = tape_take(r);
        if (rd_view(r, &rest, n < rd_left(r) ? n : rd_left(r)) == SEFL_OK)
            tape_frame(&t->in, LINK_HELLO - 1 + kind % (LINK_KINDS + 2), 0, rest);
        break;
    case 1:
        MUST_OK(wr_u16(&b, LINK_VERSION));
        MUST_OK(ledger_head_write(&b, mark));
        for (int i = 0; i < 3; i++)
            MUST_OK(wr_u64(&b, 0));
        MUST_OK(wr_raw(&b, w->tree_seed, LINK_PAIR));
        tape_frame(&t->in, LINK_WELCOME, 0, buf_span(&b));
        tape_frame(&t->in, LINK_YES, 0, span_of(NULL, 0));
        break;
    case 2:
        n = tape_take(r);
        MUST_OK(wr_u64(&b, 1 + (n & 1)));
        MUST_OK(wr_u16(&b, (uint16_t)(w->t.seal->id + (n & 2))));
        MUST_OK(wr_raw(&b, w->header.key, w->header.key_bytes - (n >> 2) % 3));
        tape_frame(&t->in, LINK_KEY, 0, buf_span(&b));
        break;
    case 3:
        put_header(&b);
        tape_frame(&t->in, LINK_HEADER, 0, buf_span(&b));
        break;
    case 4:
        (void)put_refusals(&b, r, out);
        tape_frame(&t->in, LINK_EARLY, 0, buf_span(&b));
        break;
    case 5:
        put_verdict(&b, r, root);
        tape_frame(&t->in, LINK_VERDICT, 0, buf_span(&b));
        break;
    case 6:
        MUST_OK(ledger_head_write(&b, mark));
        MUST_OK(wr_u8(&b, 0)); /* lags */
        tape_frame(&t->in, LINK_GO, 0, buf_span(&b));
        break;
    case 7: {
        uint8_t *units = calloc(p->units + 1, p->plain_bytes + 32);
        size_t bytes = p->units * p->plain_bytes;
        MUST(units);
        memset(units, tape_take(r), bytes);
        sha256_of(units + bytes, span_of(units, bytes));
        tape_frame(&t->in, LINK_DIGEST, 0, span_of(units + bytes, 32));
        tape_frame(&t->in, LINK_PLAIN, 0, span_of(units, bytes));
        free(units);
        break;
    }
    case 8:
        put_counted(&b, tape_take(r), root);
        tape_frame(&t->in, LINK_COUNTED, 0, buf_span(&b));
        break;
    default:
        MUST_OK(wr_u16(&b, tape_take(r)));
        MUST_OK(wr_raw(&b, "no", 2));
        tape_frame(&t->in, LINK_NO, 0, buf_span(&b));
    }
    buf_clear(&b);
}

/* ---- questions -------------------------------------------------------------------------------------- */

static sefl_status no_put(void *ctx, as_record what, uint64_t round, uint64_t attempt,
                          sefl_span bytes)
{
    (void)ctx, (void)what, (void)round, (void)attempt, (void)bytes;
    return SEFL_OK;
}

static sefl_status no_get(void *ctx, as_record what, uint64_t round, sefl_buf *out)
{
    (void)ctx, (void)what, (void)round, (void)out;
    return sefl_fail(SEFL_ENOTFOUND, "test: no record");
}

static sefl_status head_of(void *ctx, uint32_t i, uint8_t *out)
{
    (void)ctx;
    memcpy(out, w->head[i], Z_HEAD);
    return SEFL_OK;
}

static void check_refusals(const head_refusal *r, size_t n, uint32_t of)
{
    for (size_t i = 0; i < n; i++) {
        MUST(r[i].index < of && (i == 0 || r[i].index > r[i - 1].index));
        MUST(r[i].reason > HEAD_KEPT); /* an unknown code is a refusal too */
    }
}

static void ask_open(as_link *l, const as_verdict *v)
{
    const as_store j = { .put = no_put, .get = no_get };
    const ahe_params *p = &w->t.ahe;
    sefl_buf counted = { 0 };
    counted_statement s;
    envelope env;
    int64_t got[Z_VALUES];
    ahe_sum *sum;
    bool kept;
    uint8_t *units = calloc(p->units, p->unit_bytes);
    MUST(units);
    MUST_OK(ahe_sum_new(&sum, p, NULL));
    for (uint32_t i = 0; i < v->kept; i++) {
        MUST_OK(ahe_sum_begin(p, sum));
        MUST_OK(ahe_sum_add_units(p, sum, 0, units, p->units, NULL));
    }
    MUST_OK(ahe_sum_close(p, sum));
    as_reveal o = {
        .round = 1, .attempt = 1, .clients = v->kept, .sum = sum, .store = &j, .counted = &counted
    };
    memcpy(o.set, v->root, 32);
    if (as_link_reveal(l, &o, &kept, got) == SEFL_OK) {
        MUST_OK(envelope_read(&env, buf_span(&counted)));
        MUST_OK(envelope_check_one(&env, SIGN_COUNTED, SIGNER_CSP, w->t.servers.csp));
        MUST_OK(counted_statement_read(&s, env.content));
        MUST(s.round == 1 && memcmp(s.root, v->root, 32) == 0);
    }
    ahe_sum_free(p, sum);
    buf_clear(&counted);
    free(units);
}

static void talk(as_link *l)
{
    round_header h = w->header;
    head_refusal refused[2];
    size_t n = 0;
    sefl_buf both = { 0 };
    as_verdict v;
    bool out[ASKED] = { false };
    uint8_t root[32];
    memset(h.key, 0, sizeof h.key);
    h.suite = 0, h.key_bytes = 0;
    if (as_link_key(l, &h) == SEFL_OK)
        MUST(h.suite == w->t.seal->id && h.key_bytes == w->t.seal->pub_bytes);
    if (as_link_header(l, &both, &w->header) == SEFL_OK)
        MUST(both.n > 0);
    if (as_link_early(l, 1, span_of(w->head, 2 * Z_HEAD), refused, &n) == SEFL_OK)
        check_refusals(refused, n, 2);
    if (as_link_set(l,
                    &(as_set){ .round = 1,
                               .clients = ASKED,
                               .leaves = w->leaf,
                               .tree_seed = w->tree_seed,
                               .head = head_of },
                    &v) == SEFL_OK) {
        check_refusals(v.refused, v.refused_n, ASKED);
        MUST(v.kept + v.refused_n == ASKED && v.kept >= w->t.threshold);
        for (uint32_t i = 0; i < v.refused_n; i++)
            out[v.refused[i].index] = true;
        MUST(root_of(root, out) == v.kept && memcmp(root, v.root, 32) == 0);
        ask_open(l, &v);
        as_verdict_clear(&v);
    }
    buf_clear(&both);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tape t = { 0 };
    channel ch = { .ops = &tape_ops, .self = &t };
    sefl_coins coins;
    uint8_t root[32] = { 0 };
    as_link *l;
    if (!w)
        w = z_world_new();
    z_reset(w);
    MUST_OK(z_charge(&w->as_book, 1));
    rd r = rd_over(span_of(data, size));
    for (int words = 0; rd_left(&r) > 0 && words < 32; words++)
        word(&t, &r, root);
    coins = (sefl_coins){ .get = z_coins_get, .self = &w->coins };
    if (as_link_new(&l, &ch,
                    &(as_link_config){ .task = &w->t,
                                       .envelope = buf_span(&w->envelope),
                                       .key = w->as,
                                       .coins = &coins,
                                       .ledger = z_port(&w->as_book) }) == SEFL_OK) {
        talk(l);
        as_link_free(l);
    }
    buf_clear(&t.in), buf_clear(&t.out);
    return 0;
}
