#include "crypto/sign.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/random.h"
#include "crypto/secmem.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

_Static_assert((int)SIGN_PUB_BYTES == (int)crypto_sign_PUBLICKEYBYTES &&
                   (int)SIGN_BYTES == (int)crypto_sign_BYTES &&
                   (int)SIGN_SEED_BYTES == (int)crypto_sign_SEEDBYTES,
               "sizes of Ed25519");

struct sign_key { /* in locked memory, whole */
    uint8_t seed[SIGN_SEED_BYTES];
    uint8_t secret[crypto_sign_SECRETKEYBYTES]; /* seed and public key, in libsodium's format */
    uint8_t pub[SIGN_PUB_BYTES];
};

enum {
    BASE64 = 44, /* digits of a seed, padding included */
    FILE_MAX = 4096,
};

static const char begin_line[] = "-----BEGIN SEFL SIGNING KEY-----\n";
static const char end_line[] = "-----END SEFL SIGNING KEY-----\n";

/* ---- keys ------------------------------------------------------------------------------------ */

static void from_seed(sign_key *k)
{
    crypto_sign_seed_keypair(k->pub, k->secret, k->seed);
    CT_PUBLIC(k->pub, sizeof k->pub); /* the public half */
}

sefl_status sign_key_new(sign_key **out, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    sign_key *k = NULL;
    *out = NULL;
    SEFL_TRY(secmem_new(&k, sizeof *k, NULL));
    SEFL_TRY(rng_fill(rng, k->seed, sizeof k->seed));
    CT_SECRET(k->seed, sizeof k->seed);
    from_seed(k);
    SEFL_HAND_OVER(out, k, sign_key_free);
}

sefl_status sign_key_from(sign_key **out, const uint8_t seed[SIGN_SEED_BYTES])
{
    SEFL_PASS(secmem_new(out, sizeof **out, NULL));
    memcpy((*out)->seed, seed, SIGN_SEED_BYTES);
    from_seed(*out);
    return SEFL_OK;
}

void sign_key_free(sign_key *key)
{
    secmem_free(key);
}

const uint8_t *sign_key_pub(const sign_key *key)
{
    return key->pub;
}

void sign_key_derive(const sign_key *key, const char *purpose, uint8_t out[32])
{
    crypto_generichash(out, 32, (const uint8_t *)purpose, strlen(purpose), key->seed,
                       sizeof key->seed);
}

/* ---- files ----------------------------------------------------------------------------------- */

sefl_status sign_key_write(const sign_key *key, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { .max = FILE_MAX };
    char base64[BASE64 + 1];
    sodium_bin2base64(base64, sizeof base64, key->seed, sizeof key->seed,
                      sodium_base64_VARIANT_ORIGINAL);
    SEFL_TRY(buf_reserve(&text, 256));
    SEFL_TRY(wr_raw(&text, begin_line, sizeof begin_line - 1));
    SEFL_TRY(wr_raw(&text, base64, BASE64));
    SEFL_TRY(wr_u8(&text, '\n'));
    SEFL_TRY(wr_raw(&text, end_line, sizeof end_line - 1));
    SEFL_TRY(file_write_new(path, buf_span(&text), 0600));
done:
    sefl_wipe(base64, sizeof base64);
    buf_clear(&text);
    return st;
}

sefl_status sign_key_read(sign_key **out, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { .max = FILE_MAX + 1 };
    sign_key *k = NULL;
    sefl_span digits;
    size_t n = 0;
    char again[BASE64 + 1] = "";

    *out = NULL;
    SEFL_TRY(file_read(&text, path, FILE_MAX));
    SEFL_TRY(secmem_new(&k, sizeof *k, NULL));
    rd r = rd_over(buf_span(&text));
    SEFL_CHECK(rd_expect(&r, begin_line, sizeof begin_line - 1, "a signing key") == SEFL_OK &&
                   rd_view(&r, &digits, BASE64) == SEFL_OK &&
                   rd_expect(&r, "\n", 1, "a signing key") == SEFL_OK &&
                   rd_expect(&r, end_line, sizeof end_line - 1, "a signing key") == SEFL_OK &&
                   rd_end(&r) == SEFL_OK,
               SEFL_EPROTO, "%s: not a signing key of sefl ('sefl ca new' writes sign.key)", path);
    int rc = sodium_base642bin(k->seed, sizeof k->seed, (const char *)digits.p, digits.n, NULL, &n,
                               NULL, sodium_base64_VARIANT_ORIGINAL);
    SEFL_CHECK(rc == 0 && n == sizeof k->seed, SEFL_EPROTO, "%s: its text is not base64", path);
    /* one key, one text */
    sodium_bin2base64(again, sizeof again, k->seed, sizeof k->seed, sodium_base64_VARIANT_ORIGINAL);
    SEFL_CHECK(ct_eq_bytes(again, digits.p, BASE64), SEFL_EPROTO, "%s: its text is not base64",
               path);
    from_seed(k);
    *out = k, k = NULL;
done:
    sefl_wipe(again, sizeof again);
    sign_key_free(k);
    buf_clear(&text);
    return st;
}

sefl_status sign_pub_write(const uint8_t pub[SIGN_PUB_BYTES], const char *path)
{
    char text[2 * SIGN_PUB_BYTES + 2];
    hex_write(text, pub, SIGN_PUB_BYTES);
    text[sizeof text - 2] = '\n';
    return file_write_atomic(path, span_of(text, sizeof text - 1), 0644);
}

sefl_status sign_pub_read(uint8_t pub[SIGN_PUB_BYTES], const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { .max = FILE_MAX + 1 };
    memset(pub, 0, SIGN_PUB_BYTES);
    SEFL_TRY(file_read(&text, path, FILE_MAX));
    if (text.n > 0 && text.p[text.n - 1] == '\n')
        text.n--;
    SEFL_CHECK(hex_read_any(pub, SIGN_PUB_BYTES, buf_span(&text)), SEFL_EPROTO,
               "%s: not a public signing key, which is 64 hex digits and a line feed ('sefl ca "
               "export' writes aggregator.pub and csp.pub)",
               path);
done:
    buf_clear(&text);
    return st;
}

/* ---- signatures ------------------------------------------------------------------------------ */

const char *sign_kind_name(sign_kind kind)
{
    static const char *const names[] = {
        [SIGN_TASK] = "task",
        [SIGN_HEADER] = "round header",
        [SIGN_RECEIPT] = "receipt",
        [SIGN_STATEMENT] = "statement",
        [SIGN_ENROLMENT] = "enrolment",
        [SIGN_APPROVAL] = "approval",
        [SIGN_UPLOAD] = "upload",
        [SIGN_COUNTED] = "counted",
        [SIGN_SESSION] = "noise session",
        [SIGN_ORDER] = "order",
        [SIGN_VERDICT] = "noise verdict",
        [SIGN_LINK] = "link",
        [SIGN_END] = "end",
        [SIGN_AUDIT] = "audit log",
    };
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

/* Builds "sefl <kind> 1\n" and the bytes, in one piece for Ed25519. */
static sefl_status message(sefl_buf *out, sign_kind kind, sefl_span bytes)
{
    const char *name = sign_kind_name(kind);
    SEFL_NEED(name != NULL, SEFL_EINVAL, "a signature of unknown kind %d", (int)kind);
    SEFL_PASS(buf_reserve(out, bytes.n + 32));
    SEFL_PASS(wr_fmt(out, "sefl %s 1\n", name));
    return wr_raw(out, bytes.p, bytes.n);
}

sefl_status sign_make(uint8_t sig[SIGN_BYTES], const sign_key *key, sign_kind kind, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    sefl_buf m = { 0 };
    memset(sig, 0, SIGN_BYTES);
    SEFL_TRY(message(&m, kind, bytes));
    int rc = crypto_sign_detached(sig, NULL, m.p, m.n, key->secret);
    CT_PUBLIC(sig, SIGN_BYTES); /* signatures are public */
    SEFL_CHECK(rc == 0, SEFL_ECRYPTO, "signing a %s failed", sign_kind_name(kind));
done:
    buf_clear(&m);
    return st;
}

sefl_status sign_check(const uint8_t sig[SIGN_BYTES], const uint8_t pub[SIGN_PUB_BYTES],
                       sign_kind kind, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    sefl_buf m = { 0 };
    SEFL_CHECK(sodium_init() >= 0, SEFL_ECRYPTO, "libsodium failed to start on this machine");
    SEFL_TRY(message(&m, kind, bytes));
    SEFL_CHECK(crypto_sign_verify_detached(sig, m.p, m.n, pub) == 0, SEFL_EAUTH,
               "the signature on this %s is not valid", sign_kind_name(kind));
done:
    buf_clear(&m);
    return st;
}
