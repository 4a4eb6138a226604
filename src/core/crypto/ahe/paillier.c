/* Keys: building, validating, reading, writing. Key generation is in paillier_keygen.c.
 *
 * A public key is checked in variable time (it is public) with GMP's mpz; a secret key only with
 * mpn_sec_* and our own constant-time code. Reading a secret key declassifies the result of each
 * check (a refused key is not used), N and hs (the public key). */
#include "crypto/ahe/paillier_internal.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/sha256.h"

#include <assert.h>
#include <string.h>

bool paillier_bits_ok(unsigned bits)
{
    return bits == 2048 || bits == 3072 || bits == 4096;
}

static sefl_status check_bits(unsigned bits, sefl_status code)
{
    SEFL_NEED(paillier_bits_ok(bits), code, "paillier key: %u bits; 2048, 3072 or 4096 are allowed",
              bits);
    return SEFL_OK;
}

/* ---- bytes and limbs ------------------------------------------------------------------------- */

void paillier_limbs(mp_limb_t *out, size_t limbs, const uint8_t *bytes, size_t n)
{
    uint8_t tmp[8];
    if (n == 8 * limbs) { /* whole limbs: every real key */
        for (size_t i = 0; i < limbs; i++)
            out[i] = load_u64(bytes + 8 * i);
        return;
    }
    for (size_t i = 0; i < limbs; i++) {
        size_t at = 8 * i, have = at >= n ? 0 : n - at < 8 ? n - at : 8;
        memset(tmp, 0, sizeof tmp);
        if (have > 0)
            memcpy(tmp, bytes + at, have);
        out[i] = load_u64(tmp);
    }
    sefl_wipe(tmp, sizeof tmp);
}

void paillier_bytes(uint8_t *out, size_t n, const mp_limb_t *in)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(in[i / 8] >> (8 * (i % 8)));
}

static uint64_t all_zero(const uint8_t *p, size_t n)
{
    uint64_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= p[i];
    return ct_is_zero_u64(any);
}

/* ---- public key ------------------------------------------------------------------------------ */

sefl_status paillier_pub_make(paillier_pub **out, unsigned bits, const uint8_t *n,
                              const uint8_t *hs)
{
    sefl_status st = SEFL_OK;
    paillier_pub *k = NULL;
    *out = NULL;
    assert(bits % 16 == 0 && bits <= PAILLIER_BITS_MAX && (n[0] & 1) && n[bits / 8 - 1] >= 0x80);
    SEFL_TRY(sefl_new(&k, 1, sizeof *k));
    k->bits = bits;
    k->limbs = (bits + 63) / 64;
    k->limbs2 = (2 * bits + 63) / 64;
    memcpy(k->n_bytes, n, bits / 8);
    memcpy(k->hs_bytes, hs, bits / 4);
    paillier_limbs(k->n, k->limbs, n, bits / 8);
    mp_limb_t sq[2 * N_LIMBS];
    mpn_sqr(sq, k->n, (mp_size_t)k->limbs);
    memcpy(k->n2, sq, k->limbs2 * sizeof *sq);
    SEFL_TRY(mont_init_vartime(&k->mod_n, (const uint64_t *)k->n, k->limbs, NULL, NULL));
    SEFL_TRY(mont_init_vartime(&k->mod_n2, (const uint64_t *)k->n2, k->limbs2, NULL, NULL));
    paillier_multiple_init(k);
    SEFL_HAND_OVER(out, k, paillier_pub_free);
}

void paillier_pub_free(paillier_pub *pub)
{
    if (!pub)
        return;
    mont_clear(&pub->mod_n);
    mont_clear(&pub->mod_n2);
    sefl_free(pub);
}

/* Checks the form of a public key. bits is one of the allowed sizes. Cheap tests come first: of
 * random odd numbers 3 in 4 fail the first of the three tests for small factors, 9 in 10 fail
 * before the last, which takes most of the time. */
static sefl_status check_pub(unsigned bits, const uint8_t *n, const uint8_t *hs)
{
    static const unsigned long below[] = { 53, 1000, 65536 };
    sefl_status st = SEFL_OK;
    mpz_t N, H, N2, t;
    mpz_inits(N, H, N2, t, NULL);
    SEFL_CHECK(n[bits / 8 - 1] >= 0x80, SEFL_EPROTO, "paillier key: N is shorter than %u bits",
               bits);
    SEFL_CHECK(n[0] & 1, SEFL_EPROTO, "paillier key: N is even");
    mpz_import(N, bits / 8, -1, 1, 0, 0, n);
    mpz_import(H, bits / 4, -1, 1, 0, 0, hs);
    mpz_mul(N2, N, N);
    SEFL_CHECK(mpz_cmp_ui(H, 0) != 0, SEFL_EPROTO, "paillier key: hs is 0");
    SEFL_CHECK(mpz_cmp_ui(H, 1) != 0, SEFL_EPROTO, "paillier key: hs is 1");
    SEFL_CHECK(mpz_cmp(H, N2) < 0, SEFL_EPROTO, "paillier key: hs is not below N^2");
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        mpz_primorial_ui(t, below[i]);
        mpz_gcd(t, t, N);
        SEFL_CHECK(mpz_cmp_ui(t, 1) == 0, SEFL_EPROTO, "paillier key: N has a factor below 2^16");
    }
    SEFL_CHECK(!mpz_perfect_power_p(N), SEFL_EPROTO, "paillier key: N is a perfect power");
    mpz_mul(t, H, H);
    mpz_mod(t, t, N2);
    SEFL_CHECK(mpz_cmp_ui(t, 1) != 0, SEFL_EPROTO, "paillier key: hs^2 is 1: no randomness");
    mpz_gcd(t, H, N);
    SEFL_CHECK(mpz_cmp_ui(t, 1) == 0, SEFL_EPROTO, "paillier key: hs has a common factor with N");
done:
    mpz_clears(N, H, N2, t, NULL);
    return st;
}

size_t paillier_pub_bytes(unsigned bits)
{
    return 2 + bits / 8 + bits / 4;
}

sefl_status paillier_pub_write(const paillier_pub *pub, sefl_buf *out)
{
    SEFL_PASS(buf_reserve(out, paillier_pub_bytes(pub->bits)));
    SEFL_PASS(wr_u16(out, (uint16_t)pub->bits));
    SEFL_PASS(wr_raw(out, pub->n_bytes, pub->bits / 8));
    return wr_raw(out, pub->hs_bytes, pub->bits / 4);
}

sefl_status paillier_pub_read(paillier_pub **out, sefl_span in)
{
    rd r = rd_over(in);
    uint16_t bits;
    sefl_span n, hs;
    *out = NULL;
    SEFL_PASS(rd_u16(&r, &bits));
    SEFL_PASS(check_bits(bits, SEFL_EPROTO));
    SEFL_PASS(rd_view(&r, &n, bits / 8));
    SEFL_PASS(rd_view(&r, &hs, bits / 4));
    SEFL_PASS(rd_end(&r));
    SEFL_PASS(check_pub(bits, n.p, hs.p));
    return paillier_pub_make(out, bits, n.p, hs.p);
}

void paillier_pub_fingerprint(const paillier_pub *pub, uint8_t out[PAILLIER_FINGERPRINT_BYTES])
{
    uint8_t bits[2] = { (uint8_t)pub->bits, (uint8_t)(pub->bits >> 8) };
    sha256_join(out, span_of(bits, 2), span_of(pub->n_bytes, pub->bits / 8),
                span_of(pub->hs_bytes, pub->bits / 4));
}

bool paillier_pub_equal(const paillier_pub *a, const paillier_pub *b)
{
    return a->bits == b->bits && memcmp(a->n_bytes, b->n_bytes, a->bits / 8) == 0 &&
           memcmp(a->hs_bytes, b->hs_bytes, a->bits / 4) == 0;
}

unsigned paillier_bits(const paillier_pub *pub)
{
    return pub->bits;
}

size_t paillier_plain_bytes(const paillier_pub *pub)
{
    return pub->bits / 8;
}

size_t paillier_cipher_bytes(const paillier_pub *pub)
{
    return pub->bits / 4;
}

const uint8_t *paillier_modulus(const paillier_pub *pub)
{
    return pub->n_bytes;
}

void paillier_negate(const paillier_pub *pub, uint8_t *m)
{
    size_t n = pub->bits / 8;
    uint64_t borrow = 0;
    uint8_t keep = (uint8_t)~ct_mask_u64(all_zero(m, n));
    for (size_t i = 0; i < n; i++) {
        uint64_t d = (uint64_t)pub->n_bytes[i] - m[i] - borrow;
        borrow = d >> 63;
        m[i] = (uint8_t)d & keep;
    }
}

sefl_status paillier_check_plain(const paillier_pub *pub, const uint8_t *m, size_t count)
{
    size_t n = pub->bits / 8;
    for (size_t i = 0; i < count; i++, m += n) {
        uint64_t below = 0;
        for (size_t k = 0; k < n; k++)
            below = ((uint64_t)m[k] - pub->n_bytes[k] - below) >> 63;
        CT_PUBLIC(&below, sizeof below); /* an error of the caller, which ends the work */
        SEFL_NEED(below, SEFL_ERANGE, "paillier: plaintext %zu is not below N", i);
    }
    return SEFL_OK;
}

void paillier_plain_factor(const paillier_pub *pub, uint8_t *out, const uint8_t *m)
{
    mp_limb_t a[N_LIMBS], t[2 * N_LIMBS], tmp[4 * N_LIMBS];
    mp_size_t n = (mp_size_t)pub->limbs;
    assert(mpn_sec_mul_itch(n, n) <= 4 * N_LIMBS);
    paillier_limbs(a, pub->limbs, m, pub->bits / 8);
    mpn_sec_mul(t, a, n, pub->n, n, tmp);
    mpn_sec_add_1(t, t, 2 * n, 1, tmp);
    paillier_bytes(out, pub->bits / 4, t);
    sefl_wipe(a, sizeof a);
    sefl_wipe(t, sizeof t);
    sefl_wipe(tmp, sizeof tmp);
}

/* ---- secret key ------------------------------------------------------------------------------ */

/* out = 1/a mod m (n limbs, m odd); 0 < a < m. a is spent. */
static sefl_status invert(mp_limb_t *out, mp_limb_t *a, const mp_limb_t *m, mp_size_t n)
{
    sefl_status st = SEFL_OK;
    mp_limb_t *tmp = NULL;
    size_t words = (size_t)mpn_sec_invert_itch(n);
    SEFL_TRY(sefl_new(&tmp, words, sizeof *tmp));
    int ok = mpn_sec_invert(out, a, m, n, (mp_bitcnt_t)(2 * 64 * n), tmp);
    CT_PUBLIC(&ok, sizeof ok); /* a key without this inverse is refused and never used */
    SEFL_CHECK(ok, SEFL_EINVAL, "paillier key: an inverse does not exist");
done:
    sefl_free_secret(tmp, words * sizeof *tmp);
    return st;
}

static void sec_digest(const paillier_sec *k, uint8_t out[SHA256_BYTES])
{
    const size_t at = offsetof(paillier_sec, digest), after = at + SHA256_BYTES;
    sha256_join(out, span_of(k, at), span_of((const uint8_t *)k + after, k->memory - after));
}

uint64_t paillier_sec_intact(const paillier_sec *sec)
{
    uint8_t now[SHA256_BYTES];
    sec_digest(sec, now);
    return ct_eq_bytes(now, sec->digest, sizeof now);
}

/* N = p*q as bits/8 bytes. */
static void modulus_of(uint8_t *nb, unsigned bits, const mp_limb_t *p, const mp_limb_t *q)
{
    mp_limb_t t[N_LIMBS], tmp[4 * N_LIMBS];
    mp_size_t n = (mp_size_t)((bits / 2 + 63) / 64);
    mpn_sec_mul(t, p, n, q, n, tmp);
    paillier_bytes(nb, bits / 8, t);
    CT_PUBLIC(nb, bits / 8); /* N is the public key, hs too */
    sefl_wipe(tmp, sizeof tmp);
}

sefl_status paillier_sec_make(paillier_sec **out, unsigned bits, const uint8_t *p, const uint8_t *q,
                              const uint8_t *hs)
{
    sefl_status st = SEFL_OK;
    paillier_sec *k = NULL;
    mp_limb_t t[N_LIMBS], u[N_LIMBS], tmp[4 * N_LIMBS];
    uint8_t nb[N_BYTES] = { 0 };
    *out = NULL;
    assert(bits % 16 == 0 && bits <= PAILLIER_BITS_MAX);
    mp_size_t n = (mp_size_t)((bits / 2 + 63) / 64), n2 = (mp_size_t)((bits + 63) / 64);
    const mont_kernel *single = mont_kernels()[0];
    size_t square = pair_memory((unsigned)n, NULL), half = mont_memory((unsigned)n, single);
    size_t words = (sizeof *k + 63) / 64 * 8; /* then p2, q2, p1, q1, n1 */
    size_t all = words + 2 * square + 2 * half + mont_memory((unsigned)n2, single);
    SEFL_TRY(sefl_new(&k, all, sizeof(uint64_t)));
    k->memory = all * sizeof(uint64_t);
    k->limbs = (unsigned)n;
    uint64_t *room = (uint64_t *)(void *)k + words;
    paillier_limbs(k->p, k->limbs, p, bits / 16);
    paillier_limbs(k->q, k->limbs, q, bits / 16);

    modulus_of(nb, bits, k->p, k->q);
    SEFL_CHECK(nb[bits / 8 - 1] >= 0x80, SEFL_EPROTO,
               "paillier secret key: p*q is shorter than %u bits", bits);
    SEFL_TRY(paillier_pub_make(&k->pub, bits, nb, hs));
    SEFL_TRY(pair_init(&k->p2, (const uint64_t *)k->p, k->limbs, NULL, room));
    SEFL_TRY(pair_init(&k->q2, (const uint64_t *)k->q, k->limbs, NULL, room + square));
    room += 2 * square;
    SEFL_TRY(mont_init(&k->p1, (const uint64_t *)k->p, k->limbs, single, room));
    SEFL_TRY(mont_init(&k->q1, (const uint64_t *)k->q, k->limbs, single, room + half));
    SEFL_TRY(mont_init_vartime(&k->n1, (const uint64_t *)k->pub->n, (unsigned)n2, single,
                               room + 2 * half));

    mpn_sec_sub_1(k->p_1, k->p, n, 1, tmp);
    mpn_sec_sub_1(k->q_1, k->q, n, 1, tmp);
    memset(t, 0, sizeof t);
    mpn_sec_mul(t, k->p_1, n, k->q_1, n, tmp);
    memcpy(k->phi, t, (size_t)n2 * sizeof *t);
    mont_inverse((uint64_t *)k->n_inv, (const uint64_t *)k->pub->n, (unsigned)n2);

    mpn_sub_n(t, k->p, k->q, n); /* -q mod p, and p mod q, because q < p < 2q */
    memcpy(u, t, (size_t)n * sizeof *t);
    SEFL_TRY(invert(k->hp, t, k->p, n));
    SEFL_TRY(invert(k->crt, u, k->q, n));
    mpn_sub_n(k->hq, k->q, k->crt, n);
    memcpy(t, k->phi, (size_t)n2 * sizeof *t);
    SEFL_TRY(invert(k->mu, t, k->pub->n, n2));
    mont_to(&k->p1, (uint64_t *)k->hp, (const uint64_t *)k->hp);
    mont_to(&k->q1, (uint64_t *)k->hq, (const uint64_t *)k->hq);
    mont_to(&k->q1, (uint64_t *)k->crt, (const uint64_t *)k->crt);
    mont_to(&k->n1, (uint64_t *)k->mu, (const uint64_t *)k->mu);
    sec_digest(k, k->digest);
    *out = k, k = NULL;
done:
    paillier_sec_free(k);
    sefl_wipe(t, sizeof t);
    sefl_wipe(u, sizeof u);
    sefl_wipe(tmp, sizeof tmp);
    return st;
}

void paillier_sec_free(paillier_sec *sec)
{
    if (!sec)
        return;
    paillier_pub_free(sec->pub);
    pair_clear(&sec->p2);
    pair_clear(&sec->q2);
    mont_clear(&sec->p1);
    mont_clear(&sec->q1);
    mont_clear(&sec->n1);
    sefl_free_secret(sec, sec->memory);
}

const paillier_pub *paillier_sec_pub(const paillier_sec *sec)
{
    return sec->pub;
}

sefl_span paillier_sec_memory(const paillier_sec *sec)
{
    return span_of(sec, sec->memory);
}

size_t paillier_sec_bytes(unsigned bits)
{
    return 2 + bits / 8 + bits / 4;
}

sefl_status paillier_sec_write(const paillier_sec *sec, sefl_buf *out)
{
    unsigned bits = sec->pub->bits;
    uint8_t *at;
    SEFL_PASS(buf_reserve(out, paillier_sec_bytes(bits)));
    SEFL_PASS(wr_u16(out, (uint16_t)bits));
    SEFL_PASS(buf_extend(out, &at, bits / 8));
    paillier_bytes(at, bits / 16, sec->p);
    paillier_bytes(at + bits / 16, bits / 16, sec->q);
    return wr_raw(out, sec->pub->hs_bytes, bits / 4);
}

#define VERIFY(ok, ...)                                                \
    do {                                                               \
        uint64_t ok_ = (ok);                                           \
        CT_PUBLIC(&ok_, sizeof ok_); /* a refused key is never used */ \
        SEFL_CHECK(ok_, SEFL_EPROTO, __VA_ARGS__);                     \
    } while (0)

/* Checks what a secret key must satisfy before it is built. Constant-time in p and q. nb: receives
 * N, bits/8 bytes. */
static sefl_status check_primes(unsigned bits, const uint8_t *p, const uint8_t *q, uint8_t *nb)
{
    sefl_status st = SEFL_OK;
    mp_limb_t a[P_LIMBS], b[P_LIMBS], d[P_LIMBS];
    mp_limb_t *tmp = NULL;
    size_t bytes = bits / 16, words = 0;
    mp_size_t n = (mp_size_t)(bits / 128);
    paillier_limbs(a, (size_t)n, p, bytes);
    paillier_limbs(b, (size_t)n, q, bytes);
    VERIFY(a[n - 1] >> 63 & b[n - 1] >> 63, "paillier secret key: a prime is too short");
    VERIFY(a[0] & a[0] >> 1 & b[0] & b[0] >> 1 & 1, "paillier secret key: p, q are not 3 mod 4");
    uint64_t borrow = mpn_sub_n(d, a, b, n);
    VERIFY(borrow ^ 1, "paillier secret key: p is not above q");
    uint64_t far = d[n - 1] | d[n - 2] >> 28; /* the 100 bits on top */
    VERIFY(ct_is_zero_u64(far) ^ 1, "paillier secret key: p and q are too close");
    modulus_of(nb, bits, a, b);
    SEFL_CHECK(nb[bits / 8 - 1] >= 0x80, SEFL_EPROTO,
               "paillier secret key: p*q is shorter than %u bits", bits);
    /* gcd(p-1, q-1) = 2: the halves are odd, one inverts modulo the other */
    mpn_rshift(a, a, n, 1);
    mpn_rshift(b, b, n, 1);
    words = (size_t)mpn_sec_invert_itch(n);
    SEFL_TRY(sefl_new(&tmp, words, sizeof *tmp));
    uint64_t coprime = (uint64_t)mpn_sec_invert(d, b, a, n, (mp_bitcnt_t)(128 * n), tmp);
    VERIFY(coprime, "paillier secret key: p-1 and q-1 have a common factor above 2");
done:
    sefl_free_secret(tmp, words * sizeof *tmp);
    sefl_wipe(a, sizeof a);
    sefl_wipe(b, sizeof b);
    sefl_wipe(d, sizeof d);
    return st;
}

sefl_status paillier_sec_read(paillier_sec **out, sefl_span in)
{
    sefl_status st = SEFL_OK;
    rd r = rd_over(in);
    uint16_t bits;
    sefl_span p, q, hs_in;
    uint8_t hs[C_BYTES], zero[N_BYTES], nb[N_BYTES];
    paillier_sec *k = NULL;
    *out = NULL;
    SEFL_TRY(rd_u16(&r, &bits));
    CT_PUBLIC(&bits, sizeof bits); /* the size is public */
    SEFL_TRY(check_bits(bits, SEFL_EPROTO));
    SEFL_TRY(rd_view(&r, &p, bits / 16));
    SEFL_TRY(rd_view(&r, &q, bits / 16));
    SEFL_TRY(rd_view(&r, &hs_in, bits / 4));
    SEFL_TRY(rd_end(&r));
    memcpy(hs, hs_in.p, bits / 4);
    CT_PUBLIC(hs, sizeof hs); /* part of the public key */
    SEFL_TRY(check_primes(bits, p.p, q.p, nb));
    SEFL_TRY(check_pub(bits, nb, hs));
    SEFL_TRY(paillier_sec_make(&k, bits, p.p, q.p, hs));
    /* decryption also fails its own check if p or q is not prime: that is not a fault of this
     * machine */
    st = paillier_decrypt(k, zero, hs, 1, NULL, NULL);
    SEFL_CHECK(st != SEFL_ECRYPTO, SEFL_EPROTO,
               "paillier secret key: hs does not belong to p and q");
    if (st != SEFL_OK)
        goto done;
    VERIFY(all_zero(zero, bits / 8), "paillier secret key: hs does not belong to p and q");
    SEFL_HAND_OVER(out, k, paillier_sec_free);
}
