/* Decryption, constant-time in the key and in the plaintext.
 *
 * With CRT [Pai99, section 7]: modulo p^2, c^(p-1) = 1 + m*(p-1)*N, because every power of hs has
 * order dividing p-1 there; so m mod p = L_p(c^(p-1)) * hp mod p with L_p(u) = (u-1)/p, the second
 * digit of u in base p (bn/pair.h), and hp = ((p-1)*q)^-1 = -1/q mod p. The same holds for q;
 * Garner's method combines both. Without CRT, for tests: m = L_N(c^phi) / phi mod N, four times the
 * work.
 *
 * Faults. A plaintext that is right modulo one prime only reveals N's factors to its reader
 * [BDL97]. So every call decrypts two extra ciphertexts, usually in idle lanes:
 *   1. 1 + K*N for a known K, a new one per call. Its plaintext must be K.
 *   2. the product of all, including the first. Its plaintext must be the sum of theirs modulo N.
 *      This detects a fault in one of them, and in several unless the errors cancel modulo p or q.
 * An error in the stored key may affect all plaintexts in the same linear way, which cancels in the
 * second test and usually shows in the first; the key's digest, which is compared after every call,
 * always detects it. Cost: two ciphertexts per call, two multiplications modulo N^2 for
 * each ciphertext. Time does not depend on what clients sent. */
#include "crypto/ahe/paillier_internal.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/fault.h"

#include <assert.h>
#include <string.h>

enum {
    SMALL_TMP = 4 * N_LIMBS,        /* what mpn_sec_mul needs at most */
    BATCHES = MONT_POW_BATCHES + 3, /* x, tmp, z and the exponentiation's own */
    MORE = 2,                       /* extra ciphertexts: see above */
    KERNEL_STACK = 32 * 1024,       /* the kernels' frames have up to 18 KiB */
};

/* The kernels leave c^(p-1) mod p^2 on the stack, from which gcd(. - 1, N) is p. */
static __attribute__((noinline)) void burn_stack(void)
{
    uint8_t room[KERNEL_STACK];
    sefl_wipe(room, sizeof room);
}

/* Without CRT: out = ((u - 1) / d) * h mod d, where d, the modulus of m, divides u - 1, inv = 1/d
 * mod 2^(64*limbs) and h is in Montgomery form. u: bytes. */
static void log_mod(const mont *m, mp_limb_t *out, const uint8_t *u, size_t bytes,
                    const mp_limb_t *inv, const mp_limb_t *h)
{
    mp_limb_t a[N_LIMBS], t[2 * N_LIMBS], tmp[SMALL_TMP];
    mp_size_t n = (mp_size_t)m->limbs;
    assert(mpn_sec_mul_itch(n, n) <= SMALL_TMP);
    paillier_limbs(a, (size_t)n, u, bytes); /* the low half determines the quotient */
    mpn_sec_sub_1(a, a, n, 1, tmp);
    mpn_sec_mul(t, a, n, inv, n, tmp);
    mont_mul(m, (uint64_t *)out, (const uint64_t *)t, (const uint64_t *)h);
    sefl_wipe(a, sizeof a);
    sefl_wipe(t, sizeof t);
    sefl_wipe(tmp, sizeof tmp);
}

/* m = mp modulo p and mq modulo q, below N (Garner). */
static void garner(const paillier_sec *k, uint8_t *m, mp_limb_t *mp, mp_limb_t *mq)
{
    mp_limb_t d[P_LIMBS], r[2 * P_LIMBS], tmp[SMALL_TMP];
    mp_size_t n = (mp_size_t)k->limbs;
    /* d = mq - mp mod q; mp < p < 2q */
    mp_limb_t less = mpn_sub_n(d, mp, k->q, n);
    mpn_cnd_add_n(less, d, d, k->q, n); /* mp mod q */
    less = mpn_sub_n(d, mq, d, n);
    mpn_cnd_add_n(less, d, d, k->q, n);
    mont_mul(&k->q1, (uint64_t *)d, (const uint64_t *)d, (const uint64_t *)k->crt);
    mpn_sec_mul(r, k->p, n, d, n, tmp);
    mp_limb_t carry = mpn_add_n(r, r, mp, n);
    mpn_sec_add_1(r + n, r + n, n, carry, tmp);
    paillier_bytes(m, k->pub->bits / 8, r);
    sefl_wipe(d, sizeof d);
    sefl_wipe(r, sizeof r);
    sefl_wipe(tmp, sizeof tmp);
}

typedef struct dec_job {
    const paillier_sec *k;
    uint8_t *m, *more_m;
    const uint8_t *c, *more_c; /* count, and MORE beside them */
    size_t count;
    uint64_t *scratch; /* BATCHES batches per thread */
    size_t scratch_words;
} dec_job;

/* Returns ciphertexts begin to end - 1 of a job as one array. room: for a piece that crosses the
 * end of the caller's. */
static const uint8_t *side_by_side(const dec_job *j, uint8_t *room, size_t begin, size_t end)
{
    size_t bytes = j->k->pub->bits / 4;
    if (end <= j->count)
        return j->c + begin * bytes;
    for (size_t i = begin; i < end; i++)
        memcpy(room + (i - begin) * bytes,
               i < j->count ? j->c + i * bytes : j->more_c + (i - j->count) * bytes, bytes);
    return room;
}

static sefl_status dec_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const dec_job *j = ctx;
    const paillier_sec *k = j->k;
    size_t bits = k->pub->bits;
    const size_t half = (size_t)k->limbs * 8; /* bytes of a number modulo p */
    uint8_t u[MONT_LANES_MAX][N_BYTES / 2], room[MONT_LANES_MAX * C_BYTES];
    mp_limb_t mp[MONT_LANES_MAX][P_LIMBS], mq[P_LIMBS];
    uint64_t *scratch = j->scratch + lane * j->scratch_words;
    unsigned count = (unsigned)(end - begin);
    const uint8_t *c = side_by_side(j, room, begin, end);
    /* c^(p-1) = 1 + L p: L is the second digit */
    pair_pow(&k->p2, NULL, u[0], sizeof u[0], half, c, bits / 4, count, (const uint64_t *)k->p_1,
             k->limbs, scratch);
    for (unsigned i = 0; i < count; i++) {
        paillier_limbs(mp[i], k->limbs, u[i], half);
        mont_mul(&k->p1, (uint64_t *)mp[i], (const uint64_t *)mp[i], (const uint64_t *)k->hp);
        if (fault_hit(FAULT_COMPUTE))
            mp[i][0] ^= 2; /* still right modulo q */
    }
    pair_pow(&k->q2, NULL, u[0], sizeof u[0], half, c, bits / 4, count, (const uint64_t *)k->q_1,
             k->limbs, scratch);
    for (unsigned i = 0; i < count; i++) {
        size_t at = begin + i;
        paillier_limbs(mq, k->limbs, u[i], half);
        mont_mul(&k->q1, (uint64_t *)mq, (const uint64_t *)mq, (const uint64_t *)k->hq);
        garner(k, at < j->count ? j->m + at * (bits / 8) : j->more_m + (at - j->count) * (bits / 8),
               mp[i], mq);
    }
    sefl_wipe(u, sizeof u);
    sefl_wipe(mp, sizeof mp);
    sefl_wipe(mq, sizeof mq);
    burn_stack();
    return SEFL_OK;
}

static sefl_status dec_piece_without_crt(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const dec_job *j = ctx;
    const paillier_sec *k = j->k;
    const paillier_pub *pub = k->pub;
    const mont *m = &pub->mod_n2;
    size_t bits = pub->bits, batch = mont_batch_words(m);
    uint8_t u[MONT_LANES_MAX][C_BYTES];
    mp_limb_t out[N_LIMBS];
    uint64_t *x = j->scratch + lane * j->scratch_words, *z = x + batch, *tmp = z + batch;
    unsigned count = (unsigned)(end - begin);
    mont_load(m, x, j->c + begin * (bits / 4), bits / 4, bits / 4, count);
    mont_to(m, x, x);
    mont_pow(m, z, x, (const uint64_t *)k->phi, pub->limbs, tmp);
    mont_mul(m, z, z, m->one);
    mont_store(m, u[0], sizeof u[0], bits / 4, z, count);
    for (unsigned i = 0; i < count; i++) {
        log_mod(&k->n1, out, u[i], bits / 4, k->n_inv, k->mu);
        paillier_bytes(j->m + (begin + i) * (bits / 8), bits / 8, out);
    }
    sefl_wipe(u, sizeof u);
    sefl_wipe(out, sizeof out);
    burn_stack();
    return SEFL_OK;
}

/* lanes: ciphertexts per call of piece; scratch: words per thread. */
static sefl_status paillier_dec_run(dec_job *j, size_t count, unsigned lanes, size_t scratch,
                                    pool_fn *piece, pool *workers, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    j->scratch_words = scratch;
    size_t words = j->scratch_words * pool_threads(workers);
    SEFL_TRY(sefl_new(&j->scratch, words, sizeof *j->scratch));
    SEFL_TRY(pool_run(workers, count, lanes, piece, j, progress));
done:
    sefl_free_secret(j->scratch, words * sizeof *j->scratch);
    return st;
}

/* ---- the test for faults --------------------------------------------------------------------- */

typedef struct product_job {
    const paillier_pub *pub;
    const uint8_t *c;
    uint64_t *acc; /* two batches per thread: the product so far, a factor */
} product_job;

/* Multiplies into the thread's product; the order of factors does not matter. */
static sefl_status product_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const product_job *j = ctx;
    const mont *m = &j->pub->mod_n2;
    size_t bytes = j->pub->bits / 4, batch = mont_batch_words(m);
    uint64_t *acc = j->acc + 2 * batch * lane, *x = acc + batch;
    uint8_t room[MONT_LANES_MAX * C_BYTES];
    for (size_t i = begin; i < end; i += m->lanes) {
        const uint8_t *c = j->c + i * bytes;
        if (end - i < m->lanes) { /* an idle lane multiplies by 1 */
            memset(room, 0, m->lanes * bytes);
            for (size_t l = 0; l < m->lanes; l++)
                room[l * bytes] = 1;
            memcpy(room, c, (end - i) * bytes);
            c = room;
        }
        mont_load(m, x, c, bytes, bytes, m->lanes);
        mont_to(m, x, x);
        mont_mul(m, acc, acc, x);
    }
    return SEFL_OK;
}

/* out = product of all c modulo N^2. Everything is public. */
static sefl_status product(const paillier_pub *pub, uint8_t *out, const uint8_t *c, size_t count,
                           pool *workers)
{
    enum { GRAIN = 64 };
    sefl_status st = SEFL_OK;
    const mont *m = &pub->mod_n2;
    product_job j = { .pub = pub, .c = c };
    size_t bytes = pub->bits / 4, batch = mont_batch_words(m), threads = pool_threads(workers);
    uint8_t lanes[MONT_LANES_MAX * C_BYTES];
    SEFL_TRY(sefl_new(&j.acc, 2 * batch * threads, sizeof *j.acc));
    for (size_t t = 0; t < threads; t++)
        mont_to(m, j.acc + 2 * batch * t, m->one);
    SEFL_TRY(pool_run(workers, count, GRAIN, product_piece, &j, NULL));
    for (size_t t = 1; t < threads; t++)
        mont_mul(m, j.acc, j.acc, j.acc + 2 * batch * t);
    uint64_t *z = j.acc, *x = z + batch;
    mont_mul(m, z, z, m->one);
    mont_store(m, lanes, bytes, bytes, z, m->lanes);
    mont_to(m, z, m->one);
    for (size_t l = 0; l < m->lanes; l++) {
        mont_load(m, x, lanes + l * bytes, bytes, bytes, 1);
        mont_to(m, x, x);
        mont_mul(m, z, z, x);
    }
    mont_mul(m, z, z, m->one);
    mont_store(m, out, bytes, bytes, z, 1);
done:
    sefl_free(j.acc);
    return st;
}

/* c = c * d mod N^2. */
static void multiply(const paillier_pub *pub, uint8_t *c, const uint8_t *d)
{
    const mont *m = &pub->mod_n2;
    size_t bytes = pub->bits / 4;
    uint64_t x[MONT_BATCH_MAX] __attribute__((aligned(64)));
    uint64_t y[MONT_BATCH_MAX] __attribute__((aligned(64)));
    mont_load(m, x, c, bytes, bytes, 1);
    mont_to(m, x, x);
    mont_load(m, y, d, bytes, bytes, 1);
    mont_mul(m, x, x, y);
    mont_store(m, c, bytes, bytes, x, 1);
}

/* 1 if the plaintexts and `more` add up to `total` modulo N. */
static uint64_t adds_up(const paillier_pub *pub, const uint8_t *m, size_t count,
                        const uint8_t *more, const uint8_t *total)
{
    mp_limb_t sum[N_LIMBS + 1] = { 0 }, x[N_LIMBS + 1] = { 0 }, d[N_LIMBS + 1], n[N_LIMBS + 1];
    mp_size_t limbs = (mp_size_t)pub->limbs + 1; /* a sum of two below N never leaves them */
    uint64_t differ = 0;
    memcpy(n, pub->n, pub->limbs * sizeof *n);
    n[pub->limbs] = 0;
    paillier_limbs(sum, pub->limbs, more, pub->bits / 8);
    for (size_t i = 0; i < count; i++) {
        paillier_limbs(x, pub->limbs, m + i * (pub->bits / 8), pub->bits / 8);
        mpn_add_n(sum, sum, x, limbs);
        mp_limb_t below = mpn_sub_n(d, sum, n, limbs);
        mpn_cnd_add_n(below, sum, d, n, limbs);
    }
    paillier_limbs(x, pub->limbs, total, pub->bits / 8);
    for (mp_size_t i = 0; i < limbs; i++)
        differ |= sum[i] ^ x[i];
    sefl_wipe(sum, sizeof sum);
    sefl_wipe(x, sizeof x);
    sefl_wipe(d, sizeof d);
    return ct_is_zero_u64(differ);
}

/* Reports progress without the two extra ciphertexts. */
typedef struct outer {
    const sefl_progress *whole;
    size_t count;
} outer;

static bool report(void *self, uint64_t done, uint64_t total)
{
    const outer *o = self;
    (void)total;
    return progress_report(o->whole, done < o->count ? done : o->count, o->count);
}

/* ---- both ways ------------------------------------------------------------------------------- */

sefl_status paillier_decrypt(const paillier_sec *sec, uint8_t *m, const uint8_t *c, size_t count,
                             pool *workers, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    const paillier_pub *pub = sec->pub;
    size_t bytes = pub->bits / 8;
    uint8_t more_c[MORE * C_BYTES], more_m[MORE * N_BYTES], known[N_BYTES] = { 0 };
    dec_job j = { .k = sec, .m = m, .c = c, .count = count, .more_m = more_m, .more_c = more_c };
    outer o = { progress, count };
    sefl_progress mine = { report, &o };
    if (count == 0)
        return SEFL_OK;
    SEFL_TRY(paillier_check(pub, c, count));
    SEFL_TRY(product(pub, more_c, c, count, workers));
    memcpy(known, more_c, bytes - 1); /* below N */
    paillier_plain_factor(pub, more_c + 2 * bytes, known);
    multiply(pub, more_c, more_c + 2 * bytes);
    SEFL_TRY(paillier_dec_run(&j, count + MORE, sec->p2.m.lanes, pair_scratch(&sec->p2), dec_piece,
                              workers, progress ? &mine : NULL));
    uint64_t ok = adds_up(pub, m, count, known, more_m);
    ok &= ct_eq_bytes(more_m + bytes, known, bytes) & paillier_sec_intact(sec);
    CT_PUBLIC(&ok, sizeof ok); /* only tells whether this machine computes correctly */
    SEFL_CHECK(ok, SEFL_ECRYPTO,
               "paillier: the plaintexts do not match their ciphertexts: this machine made an "
               "arithmetic error; nothing was sent");
done:
    sefl_wipe(more_m, sizeof more_m);
    if (st != SEFL_OK)
        sefl_wipe(m, count * bytes);
    return st;
}

sefl_status paillier_decrypt_without_crt(const paillier_sec *sec, uint8_t *m, const uint8_t *c,
                                         size_t count, pool *workers, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    dec_job j = { .k = sec, .m = m, .c = c, .count = count };
    SEFL_TRY(paillier_check(sec->pub, c, count));
    const mont *n2 = &sec->pub->mod_n2;
    SEFL_TRY(paillier_dec_run(&j, count, n2->lanes, BATCHES * mont_batch_words(n2),
                              dec_piece_without_crt, workers, progress));
done:
    if (st != SEFL_OK)
        sefl_wipe(m, count * (sec->pub->bits / 8));
    return st;
}
