/* Running products. With K factors in, a position holds (c_1 * ... * c_K) * R^(1-K): it starts as
 * R, and each mont_mul by a ciphertext in ordinary form multiplies by c/R. So an addition is one
 * multiplication, and one factor R^(K+1), the same for all positions, puts the finished product
 * into Montgomery form. Ciphertexts and keys here are public: variable-time code is fine. */
#include "crypto/ahe/paillier_internal.h"

#include "base/alloc.h"
#include "base/ct.h"

#include <string.h>

struct paillier_sum {
    const paillier_pub *pub;
    size_t positions, batches;
    uint64_t *product;        /* (batches, batch words) */
    uint32_t *count;          /* factors so far, per position */
    uint64_t *fix;            /* batch: R^(K+1); set by close */
    uint8_t neutral[C_BYTES]; /* R mod N^2: a lane multiplied by it stays */
    bool closed;
};

/* ---- checks on arrival ----------------------------------------------------------------------- */

/* Sets *maybe if c looks like a multiple of N. */
static sefl_status check_range(const paillier_pub *pub, const uint8_t *c, size_t index, bool *maybe)
{
    mp_limb_t x[2 * N_LIMBS];
    paillier_limbs(x, pub->limbs2, c, pub->bits / 4);
    SEFL_NEED(!mpn_zero_p(x, (mp_size_t)pub->limbs2), SEFL_EPROTO,
              "paillier: ciphertext %zu is zero", index);
    SEFL_NEED(mpn_cmp(x, pub->n2, (mp_size_t)pub->limbs2) < 0, SEFL_EPROTO,
              "paillier: ciphertext %zu is not below N^2", index);
    *maybe = paillier_maybe_multiple_vartime(pub, x);
    return SEFL_OK;
}

sefl_status paillier_check(const paillier_pub *pub, const uint8_t *c, size_t count)
{
    uint64_t tmp[2 * MONT_BATCH_MAX] __attribute__((aligned(64)));
    const mont *m = &pub->mod_n;
    size_t bytes = pub->bits / 4;
    for (size_t i = 0; i < count; i += m->lanes) {
        unsigned k = count - i < m->lanes ? (unsigned)(count - i) : m->lanes;
        bool any = false, maybe;
        for (unsigned lane = 0; lane < k; lane++) {
            SEFL_PASS(check_range(pub, c + (i + lane) * bytes, i + lane, &maybe));
            any = any || maybe;
        }
        unsigned bad = any ? mont_multiples(m, c + i * bytes, bytes, bytes, k, tmp) : 0;
        SEFL_NEED(bad == 0, SEFL_EPROTO, "paillier: ciphertext %zu is a multiple of N",
                  i + (size_t)__builtin_ctz(bad | 256));
    }
    return SEFL_OK;
}

/* ---- sums ------------------------------------------------------------------------------------ */

sefl_status paillier_sum_new(paillier_sum **out, const paillier_pub *pub, size_t positions)
{
    sefl_status st = SEFL_OK;
    const mont *m = &pub->mod_n2;
    size_t batch = mont_batch_words(m);
    paillier_sum *s = NULL;
    SEFL_TRY(sefl_make(out, &s));
    s->pub = pub;
    s->positions = positions;
    s->batches = (positions + m->lanes - 1) / m->lanes;
    SEFL_TRY(sefl_new(&s->product, s->batches, batch * sizeof *s->product));
    SEFL_TRY(sefl_new(&s->count, positions, sizeof *s->count));
    SEFL_TRY(sefl_new(&s->fix, batch, sizeof *s->fix));
    mont_to(m, s->fix, m->one);
    mont_store(m, s->neutral, 0, pub->bits / 4, s->fix, 1);
    for (size_t i = 0; i < s->batches; i++)
        memcpy(s->product + i * batch, s->fix, batch * sizeof *s->fix);
    SEFL_HAND_OVER(out, s, paillier_sum_free);
}

void paillier_sum_free(paillier_sum *s)
{
    if (!s)
        return;
    sefl_free(s->product);
    sefl_free(s->count);
    sefl_free(s->fix);
    sefl_free(s);
}

typedef struct sum_job {
    const paillier_sum *s;
    uint64_t *product; /* add */
    uint8_t *out;      /* write */
    const uint8_t *in; /* ciphertexts, or plain integers, or NULL */
    size_t first, count;
    uint64_t *scratch; /* two batches per thread */
} sum_job;

/* The part [*from, *to) of batch b's lanes that the job covers; the batch's first lane is number
 * b * lanes - first of the job. */
static void lanes_of(const sum_job *j, size_t b, unsigned *from, unsigned *to)
{
    size_t lanes = j->s->pub->mod_n2.lanes, begin = b * lanes, end = j->first + j->count;
    *from = j->first > begin ? (unsigned)(j->first - begin) : 0;
    *to = (unsigned)(end - begin < lanes ? end - begin : lanes);
}

static sefl_status add_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const sum_job *j = ctx;
    const mont *m = &j->s->pub->mod_n2;
    size_t bytes = j->s->pub->bits / 4, batch = mont_batch_words(m);
    uint64_t *x = j->scratch + 2 * lane * batch;
    uint8_t edge[MONT_LANES_MAX][C_BYTES];
    size_t b0 = j->first / m->lanes;
    for (size_t b = b0 + begin; b < b0 + end; b++) {
        unsigned from, to;
        lanes_of(j, b, &from, &to);
        if (to - from == m->lanes) {
            mont_load(m, x, j->in + (b * m->lanes - j->first) * bytes, bytes, bytes, m->lanes);
        } else {
            for (unsigned i = 0; i < m->lanes; i++)
                memcpy(edge[i],
                       i < from || i >= to ? j->s->neutral
                                           : j->in + (b * m->lanes + i - j->first) * bytes,
                       bytes);
            mont_load(m, x, edge[0], sizeof edge[0], bytes, m->lanes);
        }
        uint64_t *p = j->product + b * batch;
        mont_mul(m, p, p, x);
    }
    return SEFL_OK;
}

static sefl_status paillier_sum_run(sum_job *j, pool_fn *fn, pool *workers)
{
    sefl_status st = SEFL_OK;
    const mont *m = &j->s->pub->mod_n2;
    size_t words = 2 * (size_t)pool_threads(workers) * mont_batch_words(m);
    if (j->count == 0)
        return SEFL_OK;
    size_t b0 = j->first / m->lanes, b1 = (j->first + j->count - 1) / m->lanes + 1;
    SEFL_TRY(sefl_new(&j->scratch, words, sizeof *j->scratch));
    SEFL_TRY(pool_run(workers, b1 - b0, 32, fn, j, NULL));
done:
    sefl_free_secret(j->scratch, words * sizeof *j->scratch);
    return st;
}

static sefl_status check_span(const paillier_sum *s, size_t first, size_t count)
{
    return first <= s->positions && count <= s->positions - first
               ? SEFL_OK
               : sefl_fail(SEFL_ERANGE, "paillier sum: positions %zu + %zu of %zu", first, count,
                           s->positions);
}

sefl_status paillier_sum_add(paillier_sum *s, size_t first, const uint8_t *c, size_t count,
                             pool *workers)
{
    sum_job j = { .s = s, .product = s->product, .in = c, .first = first, .count = count };
    SEFL_NEED(!s->closed, SEFL_ESTATE, "paillier sum: closed");
    SEFL_PASS(check_span(s, first, count));
    SEFL_PASS(paillier_sum_run(&j, add_piece, workers));
    for (size_t i = 0; i < count; i++)
        s->count[first + i]++;
    return SEFL_OK;
}

/* Every thread's first batch of scratch collects the product of the batches it was given. */
static sefl_status product_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const sum_job *j = ctx;
    const mont *m = &j->s->pub->mod_n2;
    size_t batch = mont_batch_words(m);
    uint64_t *acc = j->scratch + lane * batch;
    for (size_t b = begin; b < end; b++)
        mont_mul(m, acc, acc, j->s->product + b * batch);
    return SEFL_OK;
}

/* One gcd for all positions: of N and the product of all of them. */
static sefl_status check_units(const paillier_sum *s, pool *workers)
{
    sefl_status st = SEFL_OK;
    const mont *m = &s->pub->mod_n2;
    size_t batch = mont_batch_words(m), bytes = s->pub->bits / 4;
    unsigned threads = pool_threads(workers);
    uint8_t out[MONT_LANES_MAX][C_BYTES];
    sum_job j = { .s = s };
    mpz_t all, n, x;
    mpz_inits(all, n, x, NULL);
    SEFL_TRY(sefl_new(&j.scratch, threads * batch, sizeof *j.scratch));
    for (unsigned t = 0; t < threads; t++)
        mont_to(m, j.scratch + t * batch, m->one);
    SEFL_TRY(pool_run(workers, s->batches, 64, product_piece, &j, NULL));
    mpz_import(n, bytes / 2, -1, 1, 0, 0, s->pub->n_bytes);
    mpz_set_ui(all, 1);
    for (unsigned t = 0; t < threads; t++) {
        mont_store(m, out[0], sizeof out[0], bytes, j.scratch + t * batch, m->lanes);
        for (unsigned i = 0; i < m->lanes; i++) {
            mpz_import(x, bytes, -1, 1, 0, 0, out[i]);
            mpz_mul(all, all, x);
            mpz_mod(all, all, n);
        }
    }
    mpz_gcd(x, all, n);
    SEFL_CHECK(mpz_cmp_ui(x, 1) == 0, SEFL_ECRYPTO,
               "paillier sum: a ciphertext has a common factor with N");
done:
    sefl_free(j.scratch);
    mpz_clears(all, n, x, NULL);
    return st;
}

sefl_status paillier_sum_close(paillier_sum *s, pool *workers)
{
    sefl_status st = SEFL_OK;
    const mont *m = &s->pub->mod_n2;
    size_t words = MONT_POW_BATCHES * mont_batch_words(m);
    uint64_t *scratch = NULL;
    SEFL_CHECK(!s->closed, SEFL_ESTATE, "paillier sum: closed already");
    for (size_t i = 1; i < s->positions; i++)
        SEFL_CHECK(s->count[i] == s->count[0], SEFL_ESTATE,
                   "paillier sum: position %zu has %u ciphertexts, position 0 has %u", i,
                   s->count[i], s->count[0]);
    SEFL_TRY(check_units(s, workers));
    SEFL_TRY(sefl_new(&scratch, words, sizeof *scratch));
    uint64_t k = s->positions ? s->count[0] : 0;
    mont_pow(m, s->fix, m->rr, &k, 1, scratch); /* rr is R in Montgomery form: R^k * R */
    s->closed = true;
done:
    sefl_free(scratch);
    return st;
}

static sefl_status write_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const sum_job *j = ctx;
    const mont *m = &j->s->pub->mod_n2;
    size_t bytes = j->s->pub->bits / 4, batch = mont_batch_words(m);
    uint64_t *x = j->scratch + 2 * lane * batch, *y = x + batch;
    uint8_t tmp[MONT_LANES_MAX][C_BYTES];
    size_t b0 = j->first / m->lanes;
    for (size_t b = b0 + begin; b < b0 + end; b++) {
        unsigned from, to;
        lanes_of(j, b, &from, &to);
        mont_mul(m, x, j->s->product + b * batch, j->s->fix);
        if (j->in) {
            memset(tmp, 0, sizeof tmp);
            for (unsigned i = from; i < to; i++)
                paillier_plain_factor(j->s->pub, tmp[i],
                                      j->in + (b * m->lanes + i - j->first) * (bytes / 2));
            mont_load(m, y, tmp[0], sizeof tmp[0], bytes, m->lanes);
            mont_mul(m, x, x, y);
        } else {
            mont_mul(m, x, x, m->one);
        }
        mont_store(m, tmp[0], sizeof tmp[0], bytes, x, m->lanes);
        for (unsigned i = from; i < to; i++)
            memcpy(j->out + (b * m->lanes + i - j->first) * bytes, tmp[i], bytes);
    }
    sefl_wipe(tmp, sizeof tmp);
    return SEFL_OK;
}

sefl_status paillier_sum_write(const paillier_sum *s, uint8_t *out, size_t first, size_t count,
                               const uint8_t *plain, pool *workers)
{
    sum_job j = { .s = s, .out = out, .in = plain, .first = first, .count = count };
    SEFL_NEED(s->closed, SEFL_ESTATE, "paillier sum: not closed yet");
    SEFL_PASS(check_span(s, first, count));
    if (plain)
        SEFL_PASS(paillier_check_plain(s->pub, plain, count));
    return paillier_sum_run(&j, write_piece, workers);
}

void paillier_add(const paillier_pub *pub, uint8_t *sum, const uint8_t *c, size_t count)
{
    uint64_t x[MONT_BATCH_MAX] __attribute__((aligned(64)));
    uint64_t y[MONT_BATCH_MAX] __attribute__((aligned(64)));
    const mont *m = &pub->mod_n2;
    const size_t bytes = pub->bits / 4;
    for (size_t i = 0; i < count; i += m->lanes) {
        unsigned k = count - i < m->lanes ? (unsigned)(count - i) : m->lanes;
        mont_load(m, x, sum + i * bytes, bytes, bytes, k);
        mont_load(m, y, c + i * bytes, bytes, bytes, k);
        mont_mul(m, x, x, y);
        mont_mul(m, x, x, m->rr); /* takes out the factor 1/R */
        mont_store(m, sum + i * bytes, bytes, bytes, x, k);
    }
}
