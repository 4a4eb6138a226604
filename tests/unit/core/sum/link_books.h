/* link_books: ledgers and AS's store in memory, which check what they are told, and coins that can
 * be replayed by name, for link_pair.h. */
#ifndef TESTS_LINK_BOOKS_H
#define TESTS_LINK_BOOKS_H

#ifdef LINK_PAIR_FUZZ /* a fuzz harness: no cmocka, small journals, a toy key, toy signatures */
#include "fuzz/toy_key.h"
#include "fuzz/toy_sign.h"
#include "seeded/seeded.h"
#include "support/must.h"

#include <stdio.h>
#include <stdlib.h>
#define CHECK_OK(call)                   MUST((call) == SEFL_OK)
#define assert_true(x)                   MUST(x)
#define assert_false(x)                  MUST(!(x))
#define assert_int_equal(a, b)           MUST((a) == (b))
#define assert_memory_not_equal(a, b, n) MUST(memcmp((a), (b), (n)) != 0)
#define test_seed(g, stream)             seeded_init((g), 1, (stream))
#else
#include "support/check.h"
#endif

#include "base/alloc.h"
#include "base/blake3.h"
#include "base/buf.h"
#include "crypto/ahe/paillier.h"
#include "protocol/head.h"
#include "sum/as_link.h"
#include "sum/csp.h"
#include "support/csp_seen.h"
#include "support/paillier_copy.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef LINK_PAIR_FUZZ
#define LINK_PAIR_CLIENTS 10
enum { W_VALUES = 10, W_MARKS = 24, W_MASKS = 4 };
#else
#ifndef LINK_PAIR_VALUES /* of the largest vector, and the most clients of a task */
#define LINK_PAIR_VALUES  300
#define LINK_PAIR_CLIENTS 10
#endif
enum { W_VALUES = LINK_PAIR_VALUES, W_MARKS = 64, W_MASKS = 64 };
#endif
enum { W_ROUNDS = 8, W_CLIENTS = 3, W_ALL = 5, W_COINS = 256 };

/* ---- ledger ---------------------------------------------------------------------------------- */

typedef struct mem_ledger {
    ledger_head mark[W_MARKS]; /* [0]: empty */
    uint64_t round[W_MARKS];   /* that the record charges */
    size_t n;                  /* records */
    uint64_t budget;           /* number of rounds that may be charged; 0: no limit */
    size_t charges;
} mem_ledger;

static inline void ledger_append(mem_ledger *l, uint64_t round)
{
    uint8_t bytes[48];
    ledger_head *m = &l->mark[l->n + 1];
    memcpy(bytes, l->mark[l->n].hash, 32);
    store_u64(bytes + 32, l->n + 1);
    store_u64(bytes + 40, round);
    sha256_of(m->hash, span_of(bytes, sizeof bytes));
    m->records = l->n + 1;
    l->round[++l->n] = round;
}

static inline bool ledger_charged(const mem_ledger *l, uint64_t round)
{
    for (size_t i = 1; i <= l->n; i++)
        if (l->round[i] == round)
            return true;
    return false;
}

static inline sefl_status ledger_may(const mem_ledger *l, uint64_t round)
{
    if (!ledger_charged(l, round) && l->budget > 0 && l->charges >= l->budget)
        return sefl_fail(SEFL_EBUDGET, "test: no budget for round %llu", (unsigned long long)round);
    return SEFL_OK;
}

/* The first charge of a task is two records. */
static inline sefl_status ledger_pay(mem_ledger *l, uint64_t round)
{
    sefl_status st = ledger_may(l, round);
    if (st != SEFL_OK || ledger_charged(l, round))
        return st;
    if (l->n == 0)
        ledger_append(l, 0);
    ledger_append(l, round);
    l->charges++;
    return SEFL_OK;
}

/* The head that ledger_pay would lead to. */
static inline sefl_status ledger_after(const mem_ledger *l, uint64_t round, ledger_head *out)
{
    mem_ledger copy = *l;
    sefl_status st = ledger_pay(&copy, round);
    *out = copy.mark[copy.n];
    return st;
}

static inline ledger_order ledger_look(const mem_ledger *l, const ledger_head *peer)
{
    if (peer->records > l->n)
        return LEDGER_PEER_AHEAD;
    if (memcmp(peer->hash, l->mark[peer->records].hash, 32) != 0)
        return LEDGER_FORKED;
    return peer->records == l->n ? LEDGER_SAME : LEDGER_PEER_BEHIND;
}

/* ---- journals -------------------------------------------------------------------------------- */

/* CSP's ledger; its journal is csp_memory. */
static inline sefl_status mb_charge(void *ctx, uint64_t round)
{
    return ledger_pay(ctx, round);
}

static inline sefl_status mb_after(void *ctx, uint64_t round, ledger_head *out)
{
    return ledger_after(ctx, round, out);
}

static inline sefl_status mb_ledger(void *ctx, ledger_head *out)
{
    const mem_ledger *l = ctx;
    *out = l->mark[l->n];
    return SEFL_OK;
}

static inline ledger_order mb_compare(void *ctx, const ledger_head *peer)
{
    return ledger_look(ctx, peer);
}

/* Charged, if charging it again would change nothing. */
static inline sefl_status mb_has(void *ctx, uint64_t round, bool *out)
{
    ledger_head now, after;
    sefl_status st = mb_ledger(ctx, &now);
    if (st == SEFL_OK)
        st = mb_after(ctx, round, &after);
    *out = st == SEFL_OK && ledger_head_equal(&now, &after);
    return st == SEFL_EBUDGET ? SEFL_OK : st;
}

static inline ledger_port mem_port(mem_ledger *l)
{
    return (ledger_port){ .ctx = l,
                          .head = mb_ledger,
                          .compare = mb_compare,
                          .head_after = mb_after,
                          .charge = mb_charge,
                          .has = mb_has };
}

typedef struct mem_as {
    mem_ledger ledger;
    struct {
        uint64_t round;
        as_mask m;
        uint8_t shares[SHA256_BYTES]; /* their hash, without the slice */
        bool replied;
        uint8_t digest[SHA256_BYTES];
    } mask[W_MASKS];
    size_t masks;
    sefl_buf shares; /* of shares_round */
    uint64_t shares_round;
    sefl_buf history[W_ROUNDS];
    bool lose; /* what was masked is gone */
    bool deaf; /* the store of histories does not answer */
    unsigned fail;
} mem_as;

static inline sefl_status as_hit(mem_as *m)
{
    return m->fail > 0 && --m->fail == 0 ? sefl_fail(SEFL_EIO, "test: disk") : SEFL_OK;
}

static inline sefl_status ma_mask(void *ctx, uint64_t round, const as_mask *now)
{
    mem_as *m = ctx;
    sefl_status st = as_hit(m);
    uint8_t shares[SHA256_BYTES];
    const bool joint = m->shares_round == round && m->shares.n > 0;
    if (st != SEFL_OK)
        return st;
    if (joint) {
        assert_true(memcmp(m->shares.p, now->slice, SHA256_BYTES) == 0); /* they come first */
        sha256_of(shares, span_of(m->shares.p + SHA256_BYTES, m->shares.n - SHA256_BYTES));
        memcpy(m->mask[m->masks].shares, shares, sizeof shares);
    }
    for (size_t i = 0; i < m->masks; i++) { /* no value twice */
        const as_mask *before = &m->mask[i].m;
        assert_false(m->mask[i].round == round && before->attempt >= now->attempt);
        assert_memory_not_equal(before->seed, now->seed, sizeof now->seed);
        if (joint || m->mask[i].round != round)
            assert_memory_not_equal(before->coins, now->coins, sizeof now->coins);
        else /* AS's noise is drawn once a round */
            assert_true(memcmp(before->coins, now->coins, sizeof now->coins) == 0);
        if (joint) {
            assert_memory_not_equal(before->slice, now->slice, sizeof now->slice);
            assert_memory_not_equal(m->mask[i].shares, shares, sizeof shares);
        }
    }
    assert_true(m->masks < W_MASKS);
    m->mask[m->masks].round = round;
    m->mask[m->masks].replied = false;
    m->mask[m->masks++].m = *now;
    return SEFL_OK;
}

static inline sefl_status ma_masked(void *ctx, uint64_t round, as_mask *out)
{
    mem_as *m = ctx;
    for (size_t i = m->masks; i-- > 0 && !m->lose;)
        if (m->mask[i].round == round)
            return *out = m->mask[i].m, SEFL_OK;
    return sefl_fail(SEFL_ENOTFOUND, "test: no mask");
}

static inline sefl_status ma_replied(void *ctx, uint64_t round, uint64_t attempt,
                                     const uint8_t digest[SHA256_BYTES])
{
    mem_as *m = ctx;
    sefl_status st = as_hit(m);
    for (size_t i = m->masks; st == SEFL_OK && i-- > 0;)
        if (m->mask[i].round == round && m->mask[i].m.attempt == attempt) {
            assert_false(m->mask[i].replied); /* once */
            m->mask[i].replied = true;
            memcpy(m->mask[i].digest, digest, SHA256_BYTES);
            return SEFL_OK;
        }
    return st != SEFL_OK ? st : sefl_fail(SEFL_ESTATE, "test: a reply without a mask");
}

static inline sefl_status ma_put(void *ctx, as_record what, uint64_t round, uint64_t attempt,
                                 sefl_span bytes)
{
    as_mask m = { 0 };
    if (what == AS_REPLY)
        return ma_replied(ctx, round, attempt, bytes.p + 8);
    if (what == AS_HISTORY) {
        assert_true(round < W_ROUNDS);
        SEFL_PASS(as_hit(ctx));
        buf_clear(&((mem_as *)ctx)->history[round]);
        return wr_raw(&((mem_as *)ctx)->history[round], bytes.p, bytes.n);
    }
    if (what == AS_SHARES) {
        mem_as *a = ctx;
        for (size_t i = 0; i < a->masks; i++) /* an answered reveal needs its shares */
            assert_false(a->mask[i].round == round && a->mask[i].replied);
        SEFL_PASS(as_hit(ctx));
        buf_clear(&a->shares);
        a->shares_round = round;
        return wr_raw(&a->shares, bytes.p, bytes.n);
    }
    assert_int_equal(what, AS_MASK);
    CHECK_OK(as_mask_read(&m, bytes));
    sefl_status st = ma_mask(ctx, round, &m);
    as_mask_clear(&m);
    return st;
}

static inline sefl_status ma_get(void *ctx, as_record what, uint64_t round, sefl_buf *out)
{
    mem_as *m = ctx;
    as_mask got = { 0 };
    sefl_status st = sefl_fail(SEFL_ENOTFOUND, "test: no reply");
    if (what == AS_HISTORY && m->deaf)
        return sefl_fail(SEFL_EIO, "test: the connection was lost");
    if (what == AS_HISTORY)
        return round < W_ROUNDS && m->history[round].n > 0
                   ? wr_raw(out, m->history[round].p, m->history[round].n)
                   : st;
    if (what == AS_SHARES)
        return m->shares_round == round && !m->lose ? wr_raw(out, m->shares.p, m->shares.n) : st;
    if (what == AS_MASK) {
        st = ma_masked(ctx, round, &got);
        if (st == SEFL_OK)
            st = as_mask_write(out, &got);
        as_mask_clear(&got);
        return st;
    }
    for (size_t i = m->masks; i-- > 0;)
        if (m->mask[i].round == round && m->mask[i].replied && !m->lose) {
            CHECK_OK(wr_u64(out, m->mask[i].m.attempt));
            return wr_raw(out, m->mask[i].digest, SHA256_BYTES);
        }
    return st;
}

static inline void ma_clear(mem_as *m)
{
    for (size_t i = 0; i < W_MASKS; i++)
        as_mask_clear(&m->mask[i].m);
    for (size_t i = 0; i < W_ROUNDS; i++)
        buf_clear(&m->history[i]);
    buf_clear(&m->shares);
    memset(m, 0, sizeof *m);
}

static inline as_store mem_as_journal(mem_as *m)
{
    return (as_store){ .ctx = m, .place = "test", .put = ma_put, .get = ma_get };
}

/* ---- coins that can be replayed by name ------------------------------------------------------ */

typedef struct named_coins {
    const char *who;
    uint64_t seed;
    seeded *gen[W_COINS];
    size_t n;
} named_coins;

static inline void named_init(seeded *g, const char *who, uint64_t seed, const char *purpose,
                              uint64_t round, uint64_t attempt)
{
    char name[96];
    snprintf(name, sizeof name, "%s %s %llu %llu", who, purpose, (unsigned long long)round,
             (unsigned long long)attempt);
    seeded_init(g, seed, name);
}

static inline sefl_status named_get(void *self, sefl_rng *out, const char *purpose, uint64_t round,
                                    uint64_t attempt)
{
    named_coins *c = self;
    assert_true(c->n < W_COINS);
    seeded *g = c->gen[c->n++] = malloc(sizeof *g);
    named_init(g, c->who, c->seed, purpose, round, attempt);
    *out = seeded_rng(g);
    return SEFL_OK;
}

static inline void named_clear(named_coins *c)
{
    while (c->n > 0)
        free(c->gen[--c->n]);
}

#endif
