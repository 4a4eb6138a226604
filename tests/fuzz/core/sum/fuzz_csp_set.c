/* What AS could send to CSP in a sealed round. The first byte says which of HELLO with TASK, KEY
 * and HEADER of round 1 the harness sends by itself (a set bit 0 to 2: not sent; bit 3: AS
 * acknowledges no output, bit 4: SET says that AS has acknowledged one before); the rest is a
 * list of messages (modulo 11):
 *     0 raw message: kind, length, bytes     1 KEY: round              2 HEADER: round, whose key
 *     3 EARLY: heads                         4 SET: stated count, heads, pieces
 *     5 REVEAL: round, how                     6 SUM of round 1          7 SKIP: round, reason
 *     8 AS charges a round                   9 VOUCH: which            10 raw bytes: length, bytes
 * Heads are a count and two bytes each: a client and the state of its head (valid, short, changed).
 * No crash, no hang. Whatever AS sends: a round is revealed at most once, charged, on a verdict
 * that was durable before CSP sent it, with enough clients, each of which signed a head for this
 * round; the round key is gone before the output leaves. */
#include "fuzz/sealed_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADS_MAX = 12 };

static z_world *w;
static sefl_buf sum;
static bool good_sent[Z_CLIENTS]; /* a whole, valid head of this client was sent */
static round_entry guess[HEADS_MAX];
static uint8_t mode;
static uint32_t guessed; /* the clients that the latest SET would keep */

static void said(void *ctx, uint32_t kind, sefl_span body)
{
    const csp_seen one = csp_seen_at(&w->m, 1);
    MUST(kind != LINK_PLAIN || !(mode & 8));
    if (!(mode & 8) && (kind == LINK_DIGEST || kind == LINK_KEPT))
        tape_ack(ctx, body);
    if (kind == LINK_DIGEST)
        MUST(!(mode & 16) && one.reveals == 1 && !one.has_key && one.charged);
    if (kind == LINK_VERDICT) {
        MUST(one.has_set && body.n >= 40);
        MUST(memcmp(body.p, one.set.root, 32) == 0);
        MUST(load_u32(body.p + 32) == one.set.kept_n && one.set.kept_n >= w->t.threshold);
    }
    if (kind == LINK_PLAIN || kind == LINK_COUNTED)
        MUST(one.reveals == 1 && !one.has_key && one.charged);
}

static void put_signed(sefl_buf *in, uint32_t kind, envelope *env)
{
    sefl_buf b = { 0 };
    MUST_OK(ledger_head_write(&b, &w->as_book.mark[w->as_book.n]));
    MUST_OK(envelope_sign(env, SIGNER_AS, w->as));
    MUST_OK(envelope_write(&b, env));
    tape_frame(in, kind, 0, buf_span(&b));
    buf_clear(&b);
}

static void put_header(sefl_buf *in, uint64_t round, bool spoiled)
{
    uint8_t bytes[HEADER_MAX];
    round_header h = w->header;
    h.round = round;
    h.key[0] ^= (uint8_t)spoiled;
    envelope env = { .kind = SIGN_HEADER,
                     .content = span_of(bytes, round_header_write(bytes, &h)) };
    put_signed(in, LINK_HEADER, &env);
}

/* One head as the two bytes say; true: whole and valid. */
static bool put_head(sefl_buf *out, rd *r, int *client, bool *brief)
{
    uint8_t *p, how;
    *client = tape_take(r) % Z_CLIENTS;
    how = tape_take(r);
    *brief = how % 4 == 1;
    MUST_OK(buf_extend(out, &p, *brief ? HEAD_PREFIX : Z_HEAD));
    if (*brief) {
        head_short(p, w->leaf[*client].client, w->leaf[*client].body);
        return false;
    }
    memcpy(p, w->head[*client], Z_HEAD);
    if (how % 4 < 2)
        return true;
    p[how % Z_HEAD] ^= how; /* never 0: it has a 2 or a 3 in it */
    return false;
}

static void put_early(sefl_buf *in, rd *r)
{
    sefl_buf b = { 0 };
    int client;
    bool brief;
    MUST_OK(wr_u64(&b, 1));
    for (unsigned n = tape_take(r) % HEADS_MAX; n > 0; n--)
        if (put_head(&b, r, &client, &brief))
            good_sent[client] = true;
    tape_frame(in, LINK_EARLY, 0, buf_span(&b));
    buf_clear(&b);
}

static void put_set(sefl_buf *in, rd *r)
{
    static const uint8_t none[SHA256_BYTES], one[SHA256_BYTES] = { 1 };
    sefl_buf b = { 0 }, heads = { 0 };
    unsigned more = tape_take(r), n = tape_take(r) % HEADS_MAX, piece = 1 + tape_take(r) % 4,
             at = 0;
    guessed = 0;
    MUST_OK(wr_u64(&b, 1));
    MUST_OK(wr_u32(&b, n + (more > 250 ? more : 0)));
    MUST_OK(wr_raw(&b, w->tree_seed, sizeof w->tree_seed));
    MUST_OK(wr_raw(&b, mode & 16 ? one : none, SHA256_BYTES));
    tape_frame(in, LINK_SET, 0, buf_span(&b));
    for (unsigned i = 0; i < n; i++) {
        int client;
        bool brief, good = put_head(&heads, r, &client, &brief);
        if (good)
            good_sent[client] = true;
        if ((good || (brief && good_sent[client])) && client != Z_STRANGER &&
            (guessed == 0 || memcmp(guess[guessed - 1].client, w->leaf[client].client, 32) < 0))
            guess[guessed++] = w->leaf[client];
        if ((i + 1) % piece == 0 || i + 1 == n) {
            tape_frame(in, LINK_HEADS, at++, buf_span(&heads));
            buf_reset(&heads);
        }
    }
    buf_clear(&b), buf_clear(&heads);
}

static void put_open(sefl_buf *in, uint64_t round, unsigned how)
{
    uint8_t bytes[STATEMENT_MAX];
    round_statement s = { .round = round, .attempt = 1 + how % 3, .clients = guessed };
    memcpy(s.task, w->t.id, 32);
    MUST_OK(counted_root(s.set, &(counted_facts){ .task = w->t.id,
                                                  .round = 1,
                                                  .tree_seed = w->tree_seed,
                                                  .clients_max = w->t.clients_max,
                                                  .leaves = guess,
                                                  .n = guessed < 9 ? guessed : 9 }));
    if (how & 0x80)
        s.clients += how;
    if (how & 0x40)
        s.set[0] ^= 1;
    envelope env = { .kind = SIGN_STATEMENT,
                     .content = span_of(bytes, round_statement_write(bytes, &s)) };
    put_signed(in, LINK_REVEAL, &env);
}

static void put_voucher(sefl_buf *in, unsigned how)
{
    sefl_buf b = { 0 };
    uint8_t spki[40] = { (uint8_t)how };
    voucher v = { .servers = w->t.servers, .serial = 1 + how % 4 };
    memcpy(v.key, sign_key_pub(w->upload[how % Z_CLIENTS]), 32);
    v.spki = span_of(spki, sizeof spki);
    v.signature = span_of("signed", 6);
    if (how & 0x40)
        v.servers.as[0] ^= 1;
    MUST_OK(voucher_write(&b, &v));
    tape_frame(in, LINK_VOUCH, 0, buf_span(&b));
    buf_clear(&b);
}

static void put_skip(sefl_buf *in, uint64_t round, uint8_t reason)
{
    link_order o = { .round = round, .what = LINK_ORDER_SKIP, .reason = reason };
    uint8_t bytes[LINK_ORDER_BYTES];
    memcpy(o.task, w->t.id, 32);
    link_order_write(bytes, &o);
    envelope env = { .kind = SIGN_ORDER, .content = span_of(bytes, sizeof bytes) };
    put_signed(in, LINK_SKIP, &env);
}

static void word(tape *t, rd *r)
{
    sefl_span rest;
    unsigned kind, n;
    switch (tape_take(r) % 11) {
    case 0:
        kind = tape_take(r), n = tape_take(r);
        if (rd_view(r, &rest, n < rd_left(r) ? n : rd_left(r)) == SEFL_OK)
            tape_frame(&t->in, LINK_HELLO - 1 + kind % (LINK_KINDS + 2), 0, rest);
        break;
    case 1:
        z_put_key(&t->in, tape_take(r) % 4);
        break;
    case 2:
        n = tape_take(r);
        put_header(&t->in, n % 4, n & 0x80);
        break;
    case 3:
        put_early(&t->in, r);
        break;
    case 4:
        put_set(&t->in, r);
        break;
    case 5:
        n = tape_take(r);
        put_open(&t->in, 1 + (n & 1), tape_take(r));
        break;
    case 6:
        MUST_OK(wr_raw(&t->in, sum.p, sum.n));
        break;
    case 7:
        n = tape_take(r) % 4;
        put_skip(&t->in, n, tape_take(r));
        break;
    case 8:
        (void)!z_charge(&w->as_book, 1 + tape_take(r) % 4);
        break;
    case 9:
        put_voucher(&t->in, tape_take(r));
        break;
    default:
        n = tape_take(r);
        if (rd_view(r, &rest, n < rd_left(r) ? n : rd_left(r)) == SEFL_OK)
            MUST_OK(wr_raw(&t->in, rest.p, rest.n));
    }
}

static void start(void)
{
    w = z_world_new();
    const ahe_params *p = &w->t.ahe;
    uint8_t *units = calloc(p->units, p->unit_bytes);
    MUST(units && p->units <= link_sum_units(p));
    tape_frame(&sum, LINK_SUM, 1, span_of(units, p->units * p->unit_bytes));
    free(units);
}

static void check_round(uint64_t n)
{
    const csp_seen r = csp_seen_at(&w->m, n);
    round_statement s;
    envelope env;
    if (r.r.state == CSP_REVEALED || r.r.state == CSP_SKIPPED)
        MUST(!r.has_key);
    if (r.r.state == CSP_SIGNED)
        MUST(r.has_key); /* nobody but its mark takes it */
    if (r.has_set) {
        MUST(n == 1 && r.set.kept_n >= w->t.threshold && r.set.kept_n <= w->t.clients_max);
        MUST(r.set.kept_n + r.set.refused_n == r.set.clients);
        for (uint32_t i = 0; i < r.set.kept_n; i++) {
            bool ok = false;
            for (int c = 0; c < Z_STRANGER; c++)
                ok |= good_sent[c] && memcmp(&r.set.kept[i], &w->leaf[c], sizeof w->leaf[c]) == 0;
            MUST(ok);
            MUST(i == 0 || memcmp(r.set.kept[i - 1].client, r.set.kept[i].client, 32) < 0);
        }
    }
    if (r.reveals == 0)
        return;
    MUST(r.reveals == 1 && r.has_set && z_charged(&w->csp_book, n));
    MUST_OK(envelope_read(&env, r.statement));
    MUST_OK(envelope_check_one(&env, SIGN_STATEMENT, SIGNER_AS, w->t.servers.as));
    MUST_OK(round_statement_read(&s, env.content));
    MUST(s.round == n && s.clients == r.set.kept_n);
    MUST(memcmp(s.set, r.set.root, 32) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tape t = { .said = said, .ctx = &t };
    channel ch = { .ops = &tape_ops, .self = &t };
    sefl_coins coins;
    if (!w)
        start();
    z_reset(w);
    memset(good_sent, 0, sizeof good_sent);
    guessed = 0;
    rd r = rd_over(span_of(data, size));
    const uint8_t how = mode = tape_take(&r);
    if (!(how & 1))
        z_put_hello(w, &t.in);
    if (!(how & 2))
        z_put_key(&t.in, 1);
    if (!(how & 4))
        put_header(&t.in, 1, false);
    for (int words = 0; rd_left(&r) > 0 && words < 24; words++)
        word(&t, &r);
    csp *c = z_csp(w, &coins);
    (void)!csp_serve(c, &ch);
    csp_free(c);
    for (uint64_t n = 1; n <= 4; n++)
        check_round(n);
    buf_clear(&t.in), buf_clear(&t.out);
    return 0;
}
