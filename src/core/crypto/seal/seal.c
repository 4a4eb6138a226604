/* HPKE: a table of two KEMs, and one key schedule. Names are those of RFC 9180; X-Wing's are
 * those of its draft (draft-connolly-cfrg-xwing-kem). */
#include "crypto/seal/seal.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "crypto/seal/keccak.h"
#include "crypto/seal/mlkem.h"
#include "crypto/secmem.h"

#include <sodium.h>
#include <string.h>

enum { X = 32, HASH = 32, AEAD_KEY = 32, AEAD_NONCE = 12, KDF_HKDF_SHA256 = 1, AEAD_CHACHA = 3 };

typedef struct xwing_key {
    mlkem_key m;
    uint8_t x[X];
} xwing_key;

struct seal_key {
    const seal_suite *suite;
    uint8_t pub[SEAL_PUB_MAX];
    union {
        uint8_t x[X];
        xwing_key wing;
    };
};

/* What a KEM does. shared: HASH bytes. */
typedef struct kem {
    seal_suite suite;
    sefl_status (*derive)(seal_key *key, const uint8_t seed[SEAL_SEED]);
    sefl_status (*encap)(uint8_t *shared, uint8_t *enc, const uint8_t *pub, const sefl_rng *rng);
    sefl_status (*decap)(uint8_t *shared, const uint8_t *enc, const seal_key *key);
} kem;

/* ---- HKDF with labels ------------------------------------------------------------------------ */

typedef struct suite_id {
    uint8_t b[10];
    size_t n;
} suite_id;

static void hmac_add(crypto_auth_hmacsha256_state *h, const void *p, size_t n)
{
    (void)crypto_auth_hmacsha256_update(h, p, n);
}

static void hmac_label(crypto_auth_hmacsha256_state *h, const suite_id *id, const char *label)
{
    hmac_add(h, "HPKE-v1", 7);
    hmac_add(h, id->b, id->n);
    hmac_add(h, label, strlen(label));
}

static void extract(uint8_t out[HASH], const suite_id *id, sefl_span salt, const char *label,
                    sefl_span ikm)
{
    crypto_auth_hmacsha256_state h;
    (void)crypto_auth_hmacsha256_init(&h, salt.p ? salt.p : (const uint8_t *)"", salt.n);
    hmac_label(&h, id, label);
    hmac_add(&h, ikm.p, ikm.n);
    (void)crypto_auth_hmacsha256_final(&h, out);
    sefl_wipe(&h, sizeof h);
}

/* Writes at most one block: n <= HASH. info and more are concatenated. */
static void expand(uint8_t *out, size_t n, const suite_id *id, const uint8_t prk[HASH],
                   const char *label, sefl_span info, sefl_span more)
{
    crypto_auth_hmacsha256_state h;
    uint8_t block[HASH], length[2] = { 0, (uint8_t)n }, one = 1;
    (void)crypto_auth_hmacsha256_init(&h, prk, HASH);
    hmac_add(&h, length, sizeof length);
    hmac_label(&h, id, label);
    hmac_add(&h, info.p, info.n);
    hmac_add(&h, more.p, more.n);
    hmac_add(&h, &one, 1);
    (void)crypto_auth_hmacsha256_final(&h, block);
    memcpy(out, block, n);
    sefl_wipe(block, sizeof block);
    sefl_wipe(&h, sizeof h);
}

static const sefl_span none = { .p = (const uint8_t *)"", .n = 0 };

/* ---- DHKEM(X25519) --------------------------------------------------------------------------- */

static const suite_id dhkem = { .b = { 'K', 'E', 'M', 0x00, 0x20 }, .n = 5 };

static void x25519_scalar(uint8_t out[X], const uint8_t seed[SEAL_SEED])
{
    uint8_t prk[HASH];
    extract(prk, &dhkem, none, "dkp_prk", span_of(seed, SEAL_SEED));
    expand(out, X, &dhkem, prk, "sk", none, none);
    sefl_wipe(prk, sizeof prk);
}

static sefl_status x25519_derive(seal_key *key, const uint8_t seed[SEAL_SEED])
{
    x25519_scalar(key->x, seed);
    (void)crypto_scalarmult_curve25519_base(key->pub, key->x); /* cannot fail */
    return SEFL_OK;
}

/* SEFL_EPROTO for a point of small order. */
static sefl_status x25519_dh(uint8_t out[X], const uint8_t scalar[X], const uint8_t point[X])
{
    int bad = crypto_scalarmult_curve25519(out, scalar, point);
    CT_PUBLIC(&bad, sizeof bad); /* a property of the point, which is public */
    SEFL_NEED(bad == 0, SEFL_EPROTO, "X25519 key: the point has small order");
    return SEFL_OK;
}

static void x25519_shared(uint8_t *shared, uint8_t dh[X], const uint8_t *enc, const uint8_t *pub)
{
    uint8_t prk[HASH];
    extract(prk, &dhkem, none, "eae_prk", span_of(dh, X));
    expand(shared, HASH, &dhkem, prk, "shared_secret", span_of(enc, X), span_of(pub, X));
    sefl_wipe(prk, sizeof prk);
}

static sefl_status x25519_encap(uint8_t *shared, uint8_t *enc, const uint8_t *pub,
                                const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t seed[SEAL_SEED], scalar[X], dh[X];
    SEFL_TRY(rng_fill(rng, seed, sizeof seed));
    CT_SECRET(seed, sizeof seed);
    x25519_scalar(scalar, seed);
    (void)crypto_scalarmult_curve25519_base(enc, scalar);
    SEFL_TRY(x25519_dh(dh, scalar, pub));
    x25519_shared(shared, dh, enc, pub);
done:
    sefl_wipe(seed, sizeof seed);
    sefl_wipe(scalar, sizeof scalar);
    sefl_wipe(dh, sizeof dh);
    return st;
}

static sefl_status x25519_decap(uint8_t *shared, const uint8_t *enc, const seal_key *key)
{
    sefl_status st = SEFL_OK;
    uint8_t dh[X];
    SEFL_TRY(x25519_dh(dh, key->x, enc));
    x25519_shared(shared, dh, enc, key->pub);
done:
    sefl_wipe(dh, sizeof dh);
    return st;
}

/* ---- X-Wing ---------------------------------------------------------------------------------- */

static void xwing_shared(uint8_t *shared, const uint8_t m[MLKEM_SHARED], const uint8_t x[X],
                         const uint8_t *enc_x, const uint8_t *pub_x)
{
    keccak k;
    keccak_init(&k, KECCAK_SHA3_256);
    keccak_add(&k, m, MLKEM_SHARED);
    keccak_add(&k, x, X);
    keccak_add(&k, enc_x, X);
    keccak_add(&k, pub_x, X);
    keccak_add(&k, "\\.//^\\", 6);
    keccak_get(&k, shared, HASH);
    keccak_clear(&k);
}

static sefl_status xwing_derive(seal_key *key, const uint8_t seed[SEAL_SEED])
{
    keccak k;
    uint8_t both[MLKEM_SEED];
    keccak_init(&k, KECCAK_SHAKE256);
    keccak_add(&k, seed, SEAL_SEED);
    keccak_get(&k, both, sizeof both);
    keccak_get(&k, key->wing.x, X);
    mlkem_key_from(&key->wing.m, both, key->pub);
    (void)crypto_scalarmult_curve25519_base(key->pub + MLKEM_PUB, key->wing.x);
    keccak_clear(&k);
    sefl_wipe(both, sizeof both);
    return SEFL_OK;
}

static sefl_status xwing_encap(uint8_t *shared, uint8_t *enc, const uint8_t *pub,
                               const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t coins[MLKEM_COINS + X], m[MLKEM_SHARED], dh[X];
    mlkem_pub p;
    SEFL_TRY(mlkem_pub_from(&p, pub));
    SEFL_TRY(rng_fill(rng, coins, sizeof coins));
    CT_SECRET(coins, sizeof coins);
    mlkem_encap(enc, m, &p, coins);
    (void)crypto_scalarmult_curve25519_base(enc + MLKEM_CIPHER, coins + MLKEM_COINS);
    SEFL_TRY(x25519_dh(dh, coins + MLKEM_COINS, pub + MLKEM_PUB));
    xwing_shared(shared, m, dh, enc + MLKEM_CIPHER, pub + MLKEM_PUB);
done:
    sefl_wipe(coins, sizeof coins);
    sefl_wipe(m, sizeof m);
    sefl_wipe(dh, sizeof dh);
    return st;
}

static sefl_status xwing_decap(uint8_t *shared, const uint8_t *enc, const seal_key *key)
{
    sefl_status st = SEFL_OK;
    uint8_t m[MLKEM_SHARED], dh[X];
    SEFL_TRY(x25519_dh(dh, key->wing.x, enc + MLKEM_CIPHER));
    mlkem_decap(m, &key->wing.m, enc);
    xwing_shared(shared, m, dh, enc + MLKEM_CIPHER, key->pub + MLKEM_PUB);
done:
    sefl_wipe(m, sizeof m);
    sefl_wipe(dh, sizeof dh);
    return st;
}

/* ---- the two --------------------------------------------------------------------------------- */

static const kem kems[] = {
    { { "x25519", 0x0020, X, X }, x25519_derive, x25519_encap, x25519_decap },
    { { "xwing", 0x647a, MLKEM_PUB + X, MLKEM_CIPHER + X },
      xwing_derive,
      xwing_encap,
      xwing_decap },
};
enum { KEMS = sizeof kems / sizeof kems[0] };

const seal_suite *seal_suite_named(const char *name)
{
    for (size_t i = 0; i < KEMS; i++)
        if (strcmp(kems[i].suite.name, name) == 0)
            return &kems[i].suite;
    return NULL;
}

const seal_suite *seal_suite_of(uint16_t id)
{
    for (size_t i = 0; i < KEMS; i++)
        if (kems[i].suite.id == id)
            return &kems[i].suite;
    return NULL;
}

/* A suite is the first member of its kem. */
static const kem *kem_of(const seal_suite *s)
{
    return (const kem *)(const void *)s;
}

/* ---- keys ------------------------------------------------------------------------------------ */

sefl_status seal_key_from(seal_key **out, const seal_suite *s, const uint8_t seed[SEAL_SEED])
{
    sefl_status st = SEFL_OK;
    seal_key *k = NULL;
    *out = NULL;
    SEFL_TRY(secmem_new(&k, sizeof *k, NULL));
    k->suite = s;
    SEFL_TRY(kem_of(s)->derive(k, seed));
    CT_PUBLIC(k->pub, s->pub_bytes); /* it is published */
    SEFL_HAND_OVER(out, k, seal_key_free);
}

void seal_key_free(seal_key *key)
{
    secmem_free(key);
}

sefl_span seal_key_pub(const seal_key *key)
{
    return span_of(key->pub, key->suite->pub_bytes);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* RFC 9180, 5.1: base mode, no pre-shared key. */
static void schedule(uint8_t key[AEAD_KEY], uint8_t nonce[AEAD_NONCE], uint16_t kem_id,
                     const uint8_t shared[HASH], sefl_span info)
{
    uint8_t context[1 + 2 * HASH] = { 0 }, secret[HASH];
    suite_id id = { .b = { 'H', 'P', 'K', 'E', (uint8_t)(kem_id >> 8), (uint8_t)kem_id, 0,
                           KDF_HKDF_SHA256, 0, AEAD_CHACHA },
                    .n = 10 };
    sefl_span all = span_of(context, sizeof context);
    extract(context + 1, &id, none, "psk_id_hash", none);
    extract(context + 1 + HASH, &id, none, "info_hash", info);
    extract(secret, &id, span_of(shared, HASH), "secret", none);
    expand(key, AEAD_KEY, &id, secret, "key", all, none);
    expand(nonce, AEAD_NONCE, &id, secret, "base_nonce", all, none);
    sefl_wipe(secret, sizeof secret);
}

sefl_status seal_make(uint8_t *enc, uint8_t *sealed, const seal_suite *s, sefl_span pub,
                      sefl_span info, sefl_span ad, sefl_span text, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t shared[HASH], key[AEAD_KEY], nonce[AEAD_NONCE];
    SEFL_CHECK(pub.n == s->pub_bytes, SEFL_EPROTO, "%s key: %zu bytes, not %zu", s->name, pub.n,
               s->pub_bytes);
    SEFL_TRY(kem_of(s)->encap(shared, enc, pub.p, rng));
    schedule(key, nonce, s->id, shared, info);
    (void)crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, text.p, text.n, ad.p, ad.n, NULL,
                                                    nonce, key);
    CT_PUBLIC(enc, s->enc_bytes); /* both leave */
    CT_PUBLIC(sealed, text.n + SEAL_TAG);
done:
    sefl_wipe(shared, sizeof shared);
    sefl_wipe(key, sizeof key);
    sefl_wipe(nonce, sizeof nonce);
    return st;
}

sefl_status seal_open(uint8_t *text, const seal_key *k, const uint8_t *enc, sefl_span info,
                      sefl_span ad, sefl_span sealed)
{
    sefl_status st = SEFL_OK;
    uint8_t shared[HASH], key[AEAD_KEY], nonce[AEAD_NONCE];
    if (sealed.n >= SEAL_TAG)
        memset(text, 0, sealed.n - SEAL_TAG);
    SEFL_CHECK(sealed.n >= SEAL_TAG, SEFL_EAUTH, "sealed message: %zu bytes are too few", sealed.n);
    SEFL_CHECK(kem_of(k->suite)->decap(shared, enc, k) == SEFL_OK, SEFL_EAUTH,
               "the message is not sealed to a key of this suite");
    schedule(key, nonce, k->suite->id, shared, info);
    /* libsodium branches on the tag comparison, which is public: it is our result. The
     * cipher itself is checked with a secret key in seal_make. */
    CT_PUBLIC(key, sizeof key);
    CT_PUBLIC(nonce, sizeof nonce);
    int bad = crypto_aead_chacha20poly1305_ietf_decrypt(text, NULL, NULL, sealed.p, sealed.n, ad.p,
                                                        ad.n, nonce, key);
    SEFL_CHECK(bad == 0, SEFL_EAUTH, "the sealed message does not open under this key");
done:
    if (st != SEFL_OK && sealed.n >= SEAL_TAG)
        memset(text, 0, sealed.n - SEAL_TAG);
    sefl_wipe(shared, sizeof shared);
    sefl_wipe(key, sizeof key);
    sefl_wipe(nonce, sizeof nonce);
    return st;
}
