#include "mpc/ot/base.h"

#include "base/ct.h"
#include "base/sha256.h"
#include "base/span.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

enum {
    POINT = crypto_core_ristretto255_BYTES,
    SCALAR = crypto_core_ristretto255_SCALARBYTES,
    WIDE = crypto_core_ristretto255_HASHBYTES,
};

static sefl_status ready(void)
{
    return sodium_init() < 0 ? sefl_fail(SEFL_ECRYPTO, "libsodium does not start") : SEFL_OK;
}

static sefl_status random_scalar(uint8_t out[SCALAR], const sefl_rng *rng)
{
    uint8_t wide[crypto_core_ristretto255_NONREDUCEDSCALARBYTES];
    sefl_status st = rng_fill(rng, wide, sizeof wide);
    if (st == SEFL_OK)
        crypto_core_ristretto255_scalar_reduce(out, wide);
    sefl_wipe(wide, sizeof wide);
    return st;
}

/* An encoding of a group element has its top bit clear (RFC 9496, 4.3.1); libsodium before 1.0.19
 * does not look at that bit. The rest of the check is libsodium's. */
static bool top_bit_set(const uint8_t p[POINT])
{
    return p[POINT - 1] >= 0x80;
}

/* The library's answer on a point or a product: it decodes, it is not neutral. A peer's point may
 * fail, ours fail with probability 2^-250, so the answer reveals nothing about a scalar. */
static bool good(int rc)
{
    CT_PUBLIC(&rc, sizeof rc);
    return rc == 0;
}

/* H(i, j, r): a group element of unknown logarithm. */
static void hash_to_point(uint8_t out[POINT], const uint8_t session[OT_SESSION], uint32_t i,
                          uint8_t j, const uint8_t r[POINT])
{
    static const char domain[] = "sefl ot base point";
    uint8_t in[sizeof domain + OT_SESSION + 4 + 1 + POINT], wide[WIDE], *p = in;
    memcpy(p, domain, sizeof domain), p += sizeof domain;
    memcpy(p, session, OT_SESSION), p += OT_SESSION;
    store_u32(p, i), p += 4;
    *p++ = j;
    memcpy(p, r, POINT);
    crypto_hash_sha512(wide, in, sizeof in);
    crypto_core_ristretto255_from_hash(out, wide);
    sefl_wipe(in, sizeof in);
    sefl_wipe(wide, sizeof wide);
}

static void derive(uint8_t key[OT_KEY], const uint8_t session[OT_SESSION], uint32_t i, uint8_t j,
                   const uint8_t a[POINT], const uint8_t r[2][POINT], const uint8_t shared[POINT])
{
    uint8_t digest[SHA256_BYTES], tail[5];
    store_u32(tail, i);
    tail[4] = j;
    sha256_join(digest, span_of_str("sefl ot base key"), span_of(session, OT_SESSION),
                span_of(tail, sizeof tail), span_of(a, POINT), span_of(r, 2 * POINT),
                span_of(shared, POINT));
    memcpy(key, digest, OT_KEY);
    sefl_wipe(digest, sizeof digest);
}

sefl_status ot_base_send_coins(size_t n, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t a[SCALAR];
    for (size_t i = 0; i < n && st == SEFL_OK; i++)
        st = random_scalar(a, rng);
    sefl_wipe(a, sizeof a);
    return st;
}

sefl_status ot_base_send(channel *ch, uint8_t (*keys)[2][OT_KEY], size_t n,
                         const uint8_t session[OT_SESSION], const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t a[OT_BASE_MAX][SCALAR], points[OT_BASE_MAX][POINT];
    uint8_t r[OT_BASE_MAX][2][POINT], sum[POINT], h[POINT], shared[POINT];
    SEFL_CHECK(n <= OT_BASE_MAX, SEFL_EINVAL, "base OT: %zu transfers, at most %d", n, OT_BASE_MAX);
    SEFL_TRY(ready());
    for (size_t i = 0; i < n; i++) {
        SEFL_TRY(random_scalar(a[i], rng));
        SEFL_CHECK(good(crypto_scalarmult_ristretto255_base(points[i], a[i])), SEFL_ECRYPTO,
                   "base OT: drew the scalar zero");
    }
    CT_PUBLIC(points, n * POINT); /* sent */
    SEFL_TRY(msg_send(ch, OT_MSG_BASE_A, 0, points, n * POINT));
    SEFL_TRY(channel_flush(ch));
    SEFL_TRY(msg_recv(ch, OT_MSG_BASE_R, 0, r, n * 2 * POINT, "base OT, receiver's points"));
    for (size_t i = 0; i < n; i++)
        for (uint8_t j = 0; j < 2; j++) {
            hash_to_point(h, session, (uint32_t)i, 1 - j, r[i][1 - j]);
            SEFL_CHECK(!top_bit_set(r[i][j]) && good(crypto_core_ristretto255_add(sum, r[i][j], h)),
                       SEFL_EPROTO, "base OT %zu: not a group element", i);
            SEFL_CHECK(good(crypto_scalarmult_ristretto255(shared, a[i], sum)), SEFL_EPROTO,
                       "base OT %zu: the neutral element", i);
            derive(keys[i][j], session, (uint32_t)i, j, points[i], r[i], shared);
        }
done:
    if (st != SEFL_OK && n <= OT_BASE_MAX)
        sefl_wipe(keys, n * sizeof *keys);
    sefl_wipe(a, sizeof a);
    sefl_wipe(sum, sizeof sum);
    sefl_wipe(shared, sizeof shared);
    return st;
}

sefl_status ot_base_receive(channel *ch, uint8_t (*keys)[OT_KEY], const uint8_t *choice, size_t n,
                            const uint8_t session[OT_SESSION], const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t t[OT_BASE_MAX][SCALAR], points[OT_BASE_MAX][POINT], r[OT_BASE_MAX][2][POINT];
    uint8_t tg[POINT], h[POINT], wide[WIDE], shared[POINT];
    SEFL_CHECK(n <= OT_BASE_MAX, SEFL_EINVAL, "base OT: %zu transfers, at most %d", n, OT_BASE_MAX);
    SEFL_TRY(ready());
    for (size_t i = 0; i < n; i++) {
        SEFL_TRY(random_scalar(t[i], rng));
        SEFL_TRY(rng_fill(rng, wide, sizeof wide));
        crypto_core_ristretto255_from_hash(r[i][1], wide); /* the one not chosen; swapped below */
        SEFL_CHECK(good(crypto_scalarmult_ristretto255_base(tg, t[i])), SEFL_ECRYPTO,
                   "base OT: drew the scalar zero");
        hash_to_point(h, session, (uint32_t)i, 1 - choice[i], r[i][1]);
        CT_PUBLIC(h, POINT); /* the library only asks whether they decode: they always do */
        CT_PUBLIC(tg, POINT);
        SEFL_CHECK(good(crypto_core_ristretto255_sub(r[i][0], tg, h)), SEFL_ECRYPTO,
                   "base OT: own point does not decode");
        ct_swap_if(choice[i], r[i][0], r[i][1], POINT);
    }
    CT_PUBLIC(r, n * 2 * POINT); /* sent: a uniform pair for either choice */
    SEFL_TRY(msg_send(ch, OT_MSG_BASE_R, 0, r, n * 2 * POINT));
    SEFL_TRY(channel_flush(ch));
    SEFL_TRY(msg_recv(ch, OT_MSG_BASE_A, 0, points, n * POINT, "base OT, sender's points"));
    for (size_t i = 0; i < n; i++) {
        SEFL_CHECK(!top_bit_set(points[i]) &&
                       good(crypto_scalarmult_ristretto255(shared, t[i], points[i])),
                   SEFL_EPROTO, "base OT %zu: not a group element, or the neutral one", i);
        derive(keys[i], session, (uint32_t)i, choice[i], points[i], r[i], shared);
    }
done:
    if (st != SEFL_OK && n <= OT_BASE_MAX)
        sefl_wipe(keys, n * sizeof *keys);
    sefl_wipe(t, sizeof t);
    sefl_wipe(tg, sizeof tg);
    sefl_wipe(h, sizeof h); /* which of the points it belongs to is the choice */
    sefl_wipe(wide, sizeof wide);
    sefl_wipe(shared, sizeof shared);
    return st;
}
