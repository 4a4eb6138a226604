/* What a malicious aggregation server obtains. The known attacks against the real CSP, with real
 * cryptography, at z = 1 and 20,480 values: one client's body 32,767 times under a stated count of
 * three, bodies scaled, dropped, doubled, foreign or made up, sets of fewer clients than claimed.
 *
 * Where CSP answers at all, AS has the noisy sum over the signed clients of the set and an offset
 * that it knows itself: without the offset, what remains is that sum with CSP's noise (this AS adds
 * none of its own), and it reveals nothing about any single update. The last test is the control: a
 * cheating AS under `paillier` reads the victim's update in one round, as docs/THREATS.md says. */
#define LINK_PAIR_VALUES  20480
#define LINK_PAIR_CLIENTS 32767
#include "unit/core/sum/link_rounds.h"
#include "unit/core/sum/link_sets.h"

#include "mpc/noise/online.h"
#include "protocol/modes/mode.h"
#include "support/digits.h"
#include "support/folder.h"

#include <math.h>

enum { D = LINK_PAIR_VALUES, MOST = LINK_PAIR_CLIENTS, LEAST = 3 };
#define TELLS_NOTHING 0.05

typedef struct federation {
    world *w;
    unsigned runs;
    size_t n;           /* slots: D, padded to whole units */
    int64_t *x[W_ALL];  /* the updates, as long as the clip allows */
    uint64_t *c[W_ALL]; /* the bodies' slots: what AS holds */
    uint64_t *other[2]; /* client 0's in another round, and in another task */
} federation;

static uint64_t *body_slots(const federation *s, const uint8_t *body)
{
    uint64_t *out = malloc(s->n * sizeof *out);
    ahe_plain_digits(&s->w->t.ahe, out, body, s->w->t.ahe.units);
    return out;
}

/* Client i's body for a round; its seed and name are the client's from then on. */
static uint64_t *upload(federation *s, int i, uint64_t round, seeded *gen)
{
    world *w = s->w;
    const ahe_params *p = &w->t.ahe;
    w_client *me = &w->client[i];
    sefl_rng rng = seeded_rng(gen);
    uint8_t context[AHE_CONTEXT_BYTES];
    ahe_upload *up;
    free(me->body);
    me->body = malloc(ahe_body_bytes(p));
    task_upload_context(context, &w->t, round, me->id);
    CHECK_OK(ahe_upload_new(&up, p, w->enc, context, &rng));
    ahe_upload_seed(p, up, &me->seed);
    CHECK_OK(ahe_upload_units(p, up, me->body, s->x[i], p->units, NULL, NULL));
    ahe_upload_free(p, up);
    blake3_of(me->units, span_of(me->body, ahe_body_bytes(p)));
    return body_slots(s, me->body);
}

/* Signs at random, every value as large as the norm allows. */
static int64_t *longest_update(const task *t, size_t n, seeded *gen)
{
    int64_t *x = calloc(n, sizeof *x), each = (int64_t)sqrt((double)t->grid.s2 / D);
    for (size_t k = 0; k < D; k++)
        x[k] = seeded_below(gen, 2) ? each : -each;
    return x;
}

static federation federation_new(task_noise noise)
{
    federation s = { .w = world_new("pad", noise, D) };
    world *w = s.w;
    seeded gen;
    test_seed(&gen, "attacks");
    w->t.threshold = LEAST;
    s.n = w->t.ahe.units * w->t.ahe.unit_values;
    CHECK_OK(ahe_enc_new(&w->enc, NULL, &w->t.ahe, NULL, NULL));
    for (int i = 0; i < W_ALL; i++)
        s.x[i] = longest_update(&w->t, s.n, &gen);
    s.other[0] = upload(&s, 0, 2, &gen);
    w->t.id[0] ^= 1;
    s.other[1] = upload(&s, 0, 1, &gen);
    w->t.id[0] ^= 1;
    for (int i = 0; i < W_ALL; i++)
        s.c[i] = upload(&s, i, 1, &gen);
    return s;
}

static void federation_free(federation *s)
{
    for (int i = 0; i < W_ALL; i++)
        free(s->x[i]), free(s->c[i]);
    free(s->other[0]), free(s->other[1]);
    world_free(s->w);
}

/* ---- measures -------------------------------------------------------------------------------- */

static double correlation(const double *a, const int64_t *x)
{
    double ma = 0, mx = 0, aa = 0, xx = 0, ax = 0;
    for (size_t i = 0; i < D; i++)
        ma += a[i] / D, mx += (double)x[i] / D;
    for (size_t i = 0; i < D; i++) {
        double p = a[i] - ma, q = (double)x[i] - mx;
        aa += p * p, xx += q * q, ax += p * q;
    }
    return ax / sqrt(aa * xx);
}

static double largest_correlation(const federation *s, const double *a)
{
    double most = 0;
    for (int i = 0; i < W_ALL; i++)
        most = fmax(most, fabs(correlation(a, s->x[i])));
    return most;
}

/* ---- a malicious aggregation server ---------------------------------------------------------- */

/* AS's driver with a sum of the attacker's choice, and both servers' ledgers. */
typedef struct attack {
    world_run x; /* first */
    as_memory memory;
    account *books[2]; /* AS, CSP */
} attack;

/* Keeps the shares and the mask, which take_off needs after the round, and the digest, which the
 * wires look for. */
static sefl_status keep_mask(void *me, as_record what, uint64_t round, uint64_t attempt,
                             sefl_span bytes)
{
    world *w = ((attack *)me)->x.w;
    if (what != AS_SHARES && what != AS_MASK && what != AS_REPLY)
        return SEFL_OK;
    w->attempt = attempt;
    return ma_put(&w->a, what, round, attempt, bytes);
}

/* Reveals round 1: the heads and the count of the clients in `set`, and this sum. CSP charges
 * once. */
static void attack_run(attack *m, world *w, unsigned set, ahe_sum *sum, int64_t *got)
{
    static unsigned ledgers;
    as_run *run = &m->x.run;
    ledger_total total;
    snprintf(w->t.population, sizeof w->t.population, "people");
    m->memory = (as_memory){ 0 };
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "ledger-%u", ++ledgers);
        CHECK_OK(ledger_create(folder_path(name), w->t.population));
        CHECK_OK(account_open(&m->books[i], NULL, folder_path(name), &w->t));
    }
    w->c.ledger = account_port(m->books[1]);
    world_run_init(&m->x, w);
    m->x.who = set;
    run->under = as_memory_store(&m->memory);
    run->c.account = m->books[0];
    run->put = keep_mask;
    run->up.closed = sum;
    run->w = got;
    CHECK_OK(as_run_until(run, 2, AGG_SIGNING));
    CHECK_OK(account_spent(m->books[1], 0, &total));
    assert_int_equal(total.rounds, 1);
}

static void attack_end(attack *m)
{
    m->x.w->c.ledger = mem_port(&m->x.w->book);
    account_close(m->books[0]);
    account_close(m->books[1]);
    as_memory_clear(&m->memory);
}

/* A sum that contains these slots, whatever they are. */
static ahe_sum *sum_of(const federation *s, const uint64_t *slot)
{
    const ahe_params *p = &s->w->t.ahe;
    uint8_t *units = calloc(1, ahe_body_bytes(p));
    int64_t *v = malloc(s->n * sizeof *v);
    ahe_sum *sum;
    for (size_t i = 0; i < s->n; i++)
        v[i] = (int64_t)slot[i];
    ahe_plain_add(p, units, v, p->units);
    CHECK_OK(ahe_sum_new(&sum, p, NULL));
    CHECK_OK(ahe_sum_begin(p, sum));
    CHECK_OK(ahe_sum_add_units(p, sum, 0, units, p->units, NULL));
    CHECK_OK(ahe_sum_close(p, sum));
    free(units), free(v);
    return sum;
}

static sefl_status no_noise(void *ctx, int64_t *e, size_t first, size_t n)
{
    (void)ctx, (void)first;
    memset(e, 0, n * sizeof *e);
    return SEFL_OK;
}

/* CSP's reply without mask and offset, and without noise from AS. */
static void take_off(const federation *s, const uint64_t *offset, double *out)
{
    world *w = s->w;
    const ahe_params *p = &w->t.ahe;
    const as_mask *m = &w->a.mask[w->a.masks - 1].m;
    const uint64_t low = ((uint64_t)1 << p->pack.w) - 1;
    uint8_t *plain = malloc(p->units * p->plain_bytes);
    int64_t *got = malloc(D * sizeof *got);
    CHECK_OK(ahe_mask_units(p, plain, 0, p->units, m->seed));
    uint64_t *v = body_slots(s, plain);
    for (size_t i = 0; i < s->n; i++)
        v[i] = (v[i] + offset[i]) & low;
    noise_params np = task_noise_params(&w->t, 1, m->attempt);
    memcpy(np.slice, m->slice, sizeof np.slice);
    noise_taken x = { w->a.shares.p + SHA256_BYTES, noise_value_bytes(&np) };
    noise_source add =
        task_mode(&w->t)->shares ? noise_taken_of(&x) : (noise_source){ .get = no_noise };
    noise_digits mask = noise_digits_of(v);
    CHECK_OK(noise_reply_finish(got, &np, csp_seen_at(&w->c, 1).output, &mask, &add, NULL, NULL,
                                m->coins));
    for (size_t i = 0; i < D; i++) /* in fine steps */
        out[i] = task_value(&w->t, got[i]) / p->pack.q;
    free(plain), free(v), free(got);
}

/* Reveals round 1 with the heads of `set` and these slots as the sum, and inspects what AS
 * obtains. */
static void mount(federation *s, const char *name, unsigned set, const uint64_t *slot)
{
    world *w = s->w;
    attack m;
    uint64_t *offset = malloc(s->n * sizeof *offset);
    int64_t *honest = malloc(D * sizeof *honest), *total = calloc(D, sizeof *total);
    double *got = malloc(D * sizeof *got), *raw = malloc(D * sizeof *raw), var = 0, mean = 0;
    ahe_sum *sum = sum_of(s, slot);

    world_reset(w);
    w->coins[0].seed = w->coins[1].seed = ++s->runs; /* different noise every time */
    memcpy(offset, slot, s->n * sizeof *offset);
    for (int i = 0; i < W_ALL; i++)
        if (set >> i & 1) {
            for (size_t k = 0; k < s->n; k++)
                offset[k] -= s->c[i][k];
            for (size_t k = 0; k < D; k++)
                total[k] += s->x[i][k];
        }
    attack_run(&m, w, set, sum, honest);
    assert_int_equal(csp_seen_at(&w->c, 1).set.kept_n, __builtin_popcount(set));

    for (size_t i = 0; i < D; i++)
        raw[i] = (double)honest[i];
    take_off(s, offset, got);
    attack_end(&m);
    double worst = largest_correlation(s, got), as_it_came = largest_correlation(s, raw);
    print_message("%s: correlation %.4f, as it came %.4f\n", name, worst, as_it_came);
    assert_true(worst < TELLS_NOTHING);
    assert_true(as_it_came < TELLS_NOTHING);

    /* it is the sum over the whole set with the noise that the task promises, all from CSP */
    for (size_t i = 0; i < D; i++)
        mean += (got[i] - (double)total[i]) / D;
    for (size_t i = 0; i < D; i++)
        var += (got[i] - (double)total[i] - mean) * (got[i] - (double)total[i] - mean) / (D - 1);
    double sigma = sqrt((double)w->t.grid.s2); /* z = 1 */
    assert_true(fabs(mean) < 6 * sigma / sqrt(D));
    assert_true(fabs(var / (sigma * sigma) - 1) < 6 * sqrt(2.0 / D));
    ahe_sum_free(&w->t.ahe, sum);
    free(offset), free(honest), free(total), free(got), free(raw);
}

/* slot = the sum of times[i] c[i]. */
static void combine(const federation *s, uint64_t *slot, const int64_t times[W_ALL])
{
    memset(slot, 0, s->n * sizeof *slot);
    for (int i = 0; i < W_ALL; i++)
        for (size_t k = 0; k < s->n; k++)
            slot[k] += (uint64_t)times[i] * s->c[i][k];
}

static void sums_of_its_choice(task_noise noise)
{
    static const struct {
        const char *name;
        unsigned set;
        int64_t times[W_ALL];
    } a[] = {
        { "nothing", 7, { 1, 1, 1 } },
        { "one body 32,767 times", 7, { MOST } },
        { "one body a million times more than the others", 7, { 1000000, 1, 1 } },
        { "one body, the others dropped", 7, { 1 } },
        { "all dropped", 7, { 0 } },
        { "all doubled", 7, { 2, 2, 2 } },
        { "one doubled", 7, { 2, 1, 1 } },
        { "one taken off", 7, { -1, 1, 1 } },
        { "a body that is not in the set", 7, { 1, 1, 1, MOST } },
        { "half of the modulus", 7, { (int64_t)1 << 27, 1, 1 } },
        { "everybody but the victim is AS", 25, { MOST } },
    };
    federation s = federation_new(noise);
    uint64_t *slot = malloc(s.n * sizeof *slot);
    for (size_t i = 0; i < sizeof a / sizeof a[0]; i++) {
        combine(&s, slot, a[i].times);
        mount(&s, a[i].name, a[i].set, slot);
    }
    /* foreign bodies: the victim's of another round, of another task, and noise of AS's own */
    const char *const foreign[] = { "another round's body", "another task's body", "made up" };
    seeded gen;
    test_seed(&gen, "made up");
    for (int i = 0; i < 3; i++) {
        combine(&s, slot, (const int64_t[W_ALL]){ 0, 1, 1 });
        for (size_t k = 0; k < s.n; k++)
            slot[k] += i < 2 ? MOST * s.other[i][k] : seeded_u64(&gen);
        mount(&s, foreign[i], 7, slot);
    }
    free(slot);
    federation_free(&s);
}

static void sums_of_its_choice_joint(void **state)
{
    (void)state;
    sums_of_its_choice(TASK_NOISE_JOINT);
}

static void sums_of_its_choice_own(void **state)
{
    (void)state;
    sums_of_its_choice(TASK_NOISE_OWN);
}

/* ---- sets of missing clients ----------------------------------------------------------------- */

static void nothing_came_of_it(const world *w)
{
    assert_int_equal(w->book.charges, 0);
    assert_false(csp_seen_at(&w->c, 1).has_set);
    assert_int_equal(csp_seen_at(&w->c, 1).reveals, 0);
}

/* One head 32,767 times, in as many pieces as needed. */
static uint32_t one_head_often(connection *c, const world *w, const round_header *h, uint32_t times)
{
    const size_t bytes = head_bytes(w->t.seal), per = LINK_HEADS_PIECE / bytes;
    sefl_buf b = { 0 }, heads = { 0 };
    link_msg m = { 0 };
    uint32_t got = 0, index = 0;
    put_set(&b, w, 1, times);
    CHECK_OK(link_send(&c->wire[0].inner, LINK_SET, buf_span(&b)));
    for (size_t i = 0; i < per; i++)
        if (i == 0)
            put_head(&heads, w, 0, h);
        else
            CHECK_OK(wr_raw(&heads, (const uint8_t[HEAD_MAX]){ 0 }, bytes));
    for (size_t i = 1; i < per; i++)
        memcpy(heads.p + i * bytes, heads.p, bytes);
    for (uint32_t left = times; left > 0; index++) {
        uint32_t n = left < per ? left : (uint32_t)per;
        CHECK_OK(msg_send(&c->wire[0].inner, LINK_HEADS, index, heads.p, n * bytes));
        left -= n;
    }
    CHECK_OK(channel_flush(&c->wire[0].inner));
    if (link_recv(&c->ch[0], &m) == SEFL_OK)
        got = m.kind == LINK_NO ? (uint32_t)(m.body.p[0] | m.body.p[1] << 8) : m.kind;
    buf_clear(&m.body);
    buf_clear(&b);
    buf_clear(&heads);
    return got;
}

/* A member controlled by AS puts its name over a copy of the victim's sealed seed, and signs
 * that. */
static void put_copy(sefl_buf *b, const world *w, int victim, int thief, const round_header *h,
                     bool sign)
{
    const size_t bytes = head_bytes(w->t.seal), before = bytes - SIGN_BYTES;
    uint8_t copy[HEAD_MAX], signed_[40 + HEAD_MAX];
    world_head(w, victim, h, copy);
    memcpy(copy + 8, w->client[thief].id, 32);
    memcpy(signed_, w->t.id, 32);
    store_u64(signed_ + 32, h->round);
    memcpy(signed_ + 40, copy, before);
    if (sign)
        CHECK_OK(sign_make(copy + before, w->client[thief].key, SIGN_UPLOAD,
                           span_of(signed_, 40 + before)));
    CHECK_OK(wr_raw(b, copy, bytes));
}

/* NO FEW has ended the round without a charge; resets the round. */
static round_header once_more(connection *c, world *w)
{
    nothing_came_of_it(w);
    assert_int_equal(csp_seen_at(&w->c, 1).r.state, CSP_SKIPPED);
    assert_false(csp_seen_at(&w->c, 1).has_key);
    disconnect(c);
    world_reset(w);
    greet(c, w);
    return begin_round(c, w, 1);
}

static void sets_that_are_not_there(void **state)
{
    (void)state;
    federation s = federation_new(TASK_NOISE_OWN);
    world *w = s.w;
    sefl_buf b = { 0 };
    connection c;
    verdict v;
    world_reset(w);
    greet(&c, w);
    round_header h = begin_round(&c, w, 1), x;

    /* one client, any number of times */
    for (int i = 0; i < 3; i++)
        put_head(&b, w, 0, &h);
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_NO_FEW);
    h = once_more(&c, w);
    assert_int_equal(one_head_often(&c, w, &h, MOST), LINK_NO_FEW);
    h = once_more(&c, w);

    /* L - 1 clients, and copies of the first under other names, with their signatures or not */
    for (int sign = 0; sign < 2; sign++) {
        put_heads(&b, w, &h, 2);
        for (int thief = 2; thief < W_ALL; thief++)
            put_copy(&b, w, 0, thief, &h, sign);
        assert_int_equal(say_set(&c, w, 1, W_ALL, &b, &v), LINK_NO_FEW);
        h = once_more(&c, w);
    }

    /* L - 1 clients and a head of another round, then of another task */
    for (int i = 0; i < 2; i++) {
        x = h;
        x.round = i == 0 ? 2 : 1;
        w->t.id[0] ^= (uint8_t)i;
        uint8_t foreign[HEAD_MAX];
        world_head(w, 2, &x, foreign);
        w->t.id[0] ^= (uint8_t)i;
        put_heads(&b, w, &h, 2);
        CHECK_OK(wr_raw(&b, foreign, head_bytes(w->t.seal)));
        assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_NO_FEW);
        h = once_more(&c, w);
    }

    /* three heads, and a count of five: the rest never comes */
    put_set(&b, w, 1, 5);
    CHECK_OK(link_send(&c.wire[0].inner, LINK_SET, buf_span(&b)));
    buf_reset(&b);
    put_heads(&b, w, &h, 3);
    CHECK_OK(msg_send(&c.wire[0].inner, LINK_HEADS, 0, b.p, b.n));
    buf_reset(&b);
    CHECK_OK(ledger_pay(&w->a.ledger, 1));
    round_statement st = statement(w, 1, 1, 5);
    put_open(&b, w, &st, w->as);
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), 0);
    disconnect(&c);
    assert_int_equal(c.st, SEFL_EPROTO);
    nothing_came_of_it(w);

    /* a verdict over three clients, and a reveal of other clients */
    greet(&c, w);
    put_heads(&b, w, &h, 3);
    assert_int_equal(say_set(&c, w, 1, 3, &b, &v), LINK_VERDICT);
    assert_int_equal(v.kept, 3);
    for (int i = 0; i < 4; i++) {
        st = statement(w, 1, 1, i == 0 ? 2 : i == 1 ? 4 : i == 2 ? MOST : 3);
        memcpy(st.set, v.root, 32);
        st.set[7] ^= i == 3;
        put_open(&b, w, &st, w->as);
        assert_int_equal(say_buf(&c, LINK_REVEAL, &b), i == 0 ? LINK_NO_FEW : LINK_NO_ORDER);
        assert_int_equal(w->book.charges, 0);
    }
    st = statement(w, 1, 1, 3);
    memcpy(st.set, v.root, 32);
    put_open(&b, w, &st, w->as); /* what it may reveal */
    assert_int_equal(say_buf(&c, LINK_REVEAL, &b), LINK_GO);
    disconnect(&c);
    assert_int_equal(csp_seen_at(&w->c, 1).reveals, 0); /* no sum came */
    buf_clear(&b);
    federation_free(&s);
}

/* ---- control: the same attack under paillier ------------------------------------------------- */

/* c = the ciphertexts of `times` copies. */
static void multiply(const paillier_pub *pub, uint8_t *c, size_t count, uint32_t times)
{
    const size_t bytes = count * paillier_cipher_bytes(pub);
    uint8_t *one = malloc(bytes);
    memcpy(one, c, bytes);
    for (int bit = 30 - __builtin_clz(times); bit >= 0; bit--) {
        paillier_sum *sum;
        CHECK_OK(paillier_sum_new(&sum, pub, count));
        CHECK_OK(paillier_sum_add(sum, 0, c, count, NULL));
        CHECK_OK(paillier_sum_add(sum, 0, c, count, NULL));
        if (times >> bit & 1)
            CHECK_OK(paillier_sum_add(sum, 0, one, count, NULL));
        CHECK_OK(paillier_sum_close(sum, NULL));
        CHECK_OK(paillier_sum_write(sum, c, 0, count, NULL, NULL));
        paillier_sum_free(sum);
    }
    free(one);
}

/* A cheating AS reads an update: this shows why `paillier` needs an AS that follows the protocol,
 * and that the tests above can fail. */
static void paillier_needs_an_honest_server(void **state)
{
    (void)state;
    for (task_noise noise = TASK_NOISE_JOINT; noise <= TASK_NOISE_OWN; noise++) {
        world *w = world_new("paillier", noise, D);
        const ahe_params *p = &w->t.ahe;
        seeded gen;
        test_seed(&gen, "attacks");
        sefl_rng rng = seeded_rng(&gen);
        size_t n = p->units * p->unit_values;
        int64_t *x = longest_update(&w->t, n, &gen), *got = malloc(D * sizeof *got);
        double *a = malloc(D * sizeof *a);
        uint8_t *body = malloc(ahe_body_bytes(p)), context[AHE_CONTEXT_BYTES];
        ahe_upload *up;
        attack m;
        w->t.threshold = LEAST;
        CHECK_OK(ahe_enc_new(&w->enc, w->t.pub, p, NULL, NULL));
        task_upload_context(context, &w->t, 1, w->client[0].id);
        CHECK_OK(ahe_upload_new(&up, p, w->enc, context, &rng));
        CHECK_OK(ahe_upload_units(p, up, body, x, p->units, NULL, NULL));
        ahe_upload_free(p, up);
        multiply(w->t.pub, body, p->units, MOST);
        CHECK_OK(ahe_sum_new(&w->sum, p, w->t.pub));
        CHECK_OK(ahe_sum_begin(p, w->sum));
        CHECK_OK(ahe_sum_add_units(p, w->sum, 0, body, p->units, NULL));
        CHECK_OK(ahe_sum_close(p, w->sum));

        attack_run(&m, w, 7, w->sum, got); /* of three clients, as AS claims */
        attack_end(&m);
        for (size_t i = 0; i < D; i++)
            a[i] = (double)got[i];
        double r = correlation(a, x);
        print_message("paillier, one body 32,767 times: correlation %.4f\n", r);
        assert_true(r > 0.99);
        free(x), free(got), free(a), free(body);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_its_choice_joint),
        cmocka_unit_test(sums_of_its_choice_own),
        cmocka_unit_test(sets_that_are_not_there),
        cmocka_unit_test(paillier_needs_an_honest_server),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
