/* Decryption, constant-time in the key and in the plaintext.
 *
 * With CRT [Pai99, section 7]: modulo p^2, c^(p-1) = 1 + m*(p-1)*N, because every power of hs has
 * order dividing p-1 there; so m mod p = L_p(c^(p-1)) * hp mod p with L_p(u) = (u-1)/p and
 * hp = ((p-1)*q)^-1 = -1/q mod p. The same for q, then Garner.
 * Without: m = L_N(c^phi) / phi mod N. */
#include "crypto/ahe/paillier_internal.h"

#include "base/alloc.h"
#include "base/ct.h"

#include <assert.h>
#include <string.h>

enum {
    SMALL_TMP = 4 * N_LIMBS,        /* what mpn_sec_mul needs at most */
    BATCHES = MONT_POW_BATCHES + 3, /* x, tmp, z and the exponentiation's own */
};

/* out = ((u - 1) / d) * h mod d, where d, the modulus of m, divides u - 1, inv = 1/d mod
 * 2^(64*limbs) and h is in Montgomery form. u: bytes. */
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
    uint8_t *m;
    const uint8_t *c;
    uint64_t *scratch; /* BATCHES batches a thread */
    size_t scratch_words;
} dec_job;

/* u = c^e mod m's modulus, ordinary form, for `count` ciphertexts. */
static void power(const mont *m, uint8_t *u, size_t u_stride, size_t u_bytes, const uint8_t *c,
                  size_t c_bytes, unsigned count, const mp_limb_t *e, unsigned exp_limbs,
                  uint64_t *scratch)
{
    size_t batch = mont_batch_words(m);
    uint64_t *x = scratch, *z = x + batch, *tmp = z + batch;
    mont_load_wide(m, x, c, c_bytes, c_bytes, count, tmp);
    mont_pow(m, z, x, (const uint64_t *)e, exp_limbs, tmp);
    mont_mul(m, z, z, m->one);
    mont_store(m, u, u_stride, u_bytes, z, count);
}

static sefl_status dec_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const dec_job *j = ctx;
    const paillier_sec *k = j->k;
    size_t bits = k->pub->bits;
    uint8_t u[MONT_LANES_MAX][N_BYTES];
    mp_limb_t mp[MONT_LANES_MAX][P_LIMBS], mq[P_LIMBS];
    uint64_t *scratch = j->scratch + lane * j->scratch_words;
    unsigned count = (unsigned)(end - begin);
    const uint8_t *c = j->c + begin * (bits / 4);
    power(&k->p2, u[0], sizeof u[0], bits / 8, c, bits / 4, count, k->p_1, k->limbs, scratch);
    for (unsigned i = 0; i < count; i++)
        log_mod(&k->p1, mp[i], u[i], bits / 8, k->p_inv, k->hp);
    power(&k->q2, u[0], sizeof u[0], bits / 8, c, bits / 4, count, k->q_1, k->limbs, scratch);
    for (unsigned i = 0; i < count; i++) {
        log_mod(&k->q1, mq, u[i], bits / 8, k->q_inv, k->hq);
        garner(k, j->m + (begin + i) * (bits / 8), mp[i], mq);
    }
    sefl_wipe(u, sizeof u);
    sefl_wipe(mp, sizeof mp);
    sefl_wipe(mq, sizeof mq);
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
    return SEFL_OK;
}

static sefl_status decrypt(const paillier_sec *k, const mont *widest, pool_fn *piece, uint8_t *m,
                           const uint8_t *c, size_t count, pool *workers,
                           const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    dec_job j = { .k = k, .m = m, .c = c };
    size_t words = 0;
    SEFL_TRY(paillier_check(k->pub, c, count));
    j.scratch_words = BATCHES * mont_batch_words(widest);
    words = j.scratch_words * pool_threads(workers);
    SEFL_TRY(sefl_new(&j.scratch, words, sizeof *j.scratch));
    SEFL_TRY(pool_run(workers, count, widest->lanes, piece, &j, progress));
done:
    sefl_free_secret(j.scratch, words * sizeof *j.scratch);
    if (st != SEFL_OK)
        sefl_wipe(m, count * (k->pub->bits / 8));
    return st;
}

sefl_status paillier_decrypt(const paillier_sec *sec, uint8_t *m, const uint8_t *c, size_t count,
                             pool *workers, const sefl_progress *progress)
{
    return decrypt(sec, &sec->p2, dec_piece, m, c, count, workers, progress);
}

sefl_status paillier_decrypt_without_crt(const paillier_sec *sec, uint8_t *m, const uint8_t *c,
                                         size_t count, pool *workers, const sefl_progress *progress)
{
    return decrypt(sec, &sec->pub->mod_n2, dec_piece_without_crt, m, c, count, workers, progress);
}
