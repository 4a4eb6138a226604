/* Generates keys. GnuTLS 3.7 writes 33 bytes for a P-256 key whose first bit is set; RFC 5915
 * requires 32, so strict parsers refuse half of all such keys. We therefore write the file
 * ourselves: for this curve its DER has one layout (RFC 5958, RFC 5915),
 *
 *     SEQUENCE { 0, SEQUENCE { ecPublicKey, prime256v1 },
 *                OCTET STRING { SEQUENCE { 1, OCTET STRING d, [1] { BIT STRING 04 x y } } } }
 * */
#include "net/tls_inside.h"

#include "base/ct.h"

#include <string.h>

enum { P256 = 32 };

static const uint8_t before_d[] = { 0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06,
                                    0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
                                    0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
                                    0x04, 0x6d, 0x30, 0x6b, 0x02, 0x01, 0x01, 0x04, P256 };
static const uint8_t before_x[] = { 0xa1, 0x44, 0x03, 0x42, 0x00, 0x04 };

/* GnuTLS gives numbers without leading zeros, or with one. */
static bool put_number(uint8_t out[P256], const gnutls_datum_t *n)
{
    size_t extra = n->size > P256 ? n->size - P256 : 0, used = n->size - extra;
    if (extra > 1 || (extra == 1 && n->data[0] != 0))
        return false;
    memset(out, 0, P256);
    memcpy(out + P256 - used, n->data + extra, used);
    return true;
}

static void forget(gnutls_datum_t *d)
{
    if (d->data)
        gnutls_memset(d->data, 0, d->size);
    gnutls_free(d->data);
    *d = (gnutls_datum_t){ 0 };
}

sefl_status x509_key_new(gnutls_x509_privkey_t *key, sefl_buf *pem)
{
    sefl_status st = SEFL_OK;
    gnutls_ecc_curve_t curve;
    gnutls_datum_t x = { 0 }, y = { 0 }, d = { 0 }, text = { 0 };
    uint8_t der[sizeof before_d + P256 + sizeof before_x + (size_t)2 * P256], *at = der;
    *key = NULL;
    GNUTLS_TRY(gnutls_x509_privkey_init(key), "new key");
    GNUTLS_TRY(gnutls_x509_privkey_generate(*key, GNUTLS_PK_ECDSA,
                                            GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
               "new key");
    GNUTLS_TRY(gnutls_x509_privkey_export_ecc_raw(*key, &curve, &x, &y, &d), "new key");
    memcpy(at, before_d, sizeof before_d);
    at += sizeof before_d;
    bool good = curve == GNUTLS_ECC_CURVE_SECP256R1 && put_number(at, &d);
    at += P256;
    memcpy(at, before_x, sizeof before_x);
    at += sizeof before_x;
    good = good && put_number(at, &x) && put_number(at + P256, &y);
    SEFL_CHECK(good, SEFL_ECRYPTO, "new key: not on the requested curve");
    GNUTLS_TRY(gnutls_pem_base64_encode2(
                   "PRIVATE KEY", &(gnutls_datum_t){ .data = der, .size = sizeof der }, &text),
               "new key");
    SEFL_TRY(wr_raw(pem, text.data, text.size));
done:
    sefl_wipe(der, sizeof der);
    forget(&d);
    forget(&text);
    gnutls_free(x.data);
    gnutls_free(y.data);
    if (st != SEFL_OK && *key) {
        gnutls_x509_privkey_deinit(*key);
        *key = NULL;
    }
    return st;
}
