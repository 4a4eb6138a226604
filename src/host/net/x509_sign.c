/* Signs our own bytes with certificates' keys. The kind of key determines the algorithm: always
 * SHA-256 with ECDSA and RSA, so that no peer can choose a weak hash or another padding. */
#include "base/file.h"
#include "net/tls_inside.h"

static sefl_status algorithm(gnutls_sign_algorithm_t *out, gnutls_pubkey_t key)
{
    static const struct {
        int key;
        gnutls_sign_algorithm_t sign;
    } by_key[] = {
        { GNUTLS_PK_RSA, GNUTLS_SIGN_RSA_SHA256 },
        { GNUTLS_PK_RSA_PSS, GNUTLS_SIGN_RSA_PSS_SHA256 },
        { GNUTLS_PK_ECDSA, GNUTLS_SIGN_ECDSA_SHA256 },
        { GNUTLS_PK_EDDSA_ED25519, GNUTLS_SIGN_EDDSA_ED25519 },
        { GNUTLS_PK_EDDSA_ED448, GNUTLS_SIGN_EDDSA_ED448 },
    };
    unsigned bits = 0, exponent = 0;
    int pk = gnutls_pubkey_get_pk_algorithm(key, &bits);
    SEFL_NEED(!x509_key_weak(pk, bits), SEFL_EAUTH,
              "signature: a weak key (P-256, RSA-2048 or better)");
    SEFL_NEED(!x509_key_dear(key, &bits, &exponent), SEFL_EAUTH,
              "signature: a %u-bit key with a %u-bit exponent costs too much to verify", bits,
              exponent);
    for (size_t i = 0; i < sizeof by_key / sizeof *by_key; i++)
        if (by_key[i].key == pk) {
            *out = by_key[i].sign;
            return SEFL_OK;
        }
    return sefl_fail(SEFL_EAUTH, "signature: an unknown kind of key");
}

sefl_status x509_sign(sefl_buf *sig, const char *key_path, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    gnutls_privkey_t key = NULL;
    gnutls_pubkey_t pub = NULL;
    gnutls_sign_algorithm_t how;
    gnutls_datum_t out = { 0 };
    sefl_buf pem = { 0 };
    SEFL_TRY(file_read(&pem, key_path, X509_PEM_MAX));
    GNUTLS_TRY(gnutls_privkey_init(&key), key_path);
    GNUTLS_TRY(gnutls_pubkey_init(&pub), key_path);
    GNUTLS_READ(SEFL_EPROTO,
                gnutls_privkey_import_x509_raw(key, &TLS_DATUM(buf_span(&pem)), GNUTLS_X509_FMT_PEM,
                                               NULL, 0),
                key_path);
    GNUTLS_TRY(gnutls_pubkey_import_privkey(pub, key, 0, 0), key_path);
    SEFL_TRY(sefl_at(algorithm(&how, pub), "%s", key_path));
    GNUTLS_TRY(gnutls_privkey_sign_data2(key, how, 0, &TLS_DATUM(bytes), &out), key_path);
    SEFL_TRY(tls_put_datum(sig, &out));
done:
    gnutls_pubkey_deinit(pub);
    gnutls_privkey_deinit(key);
    buf_clear(&pem);
    return st;
}

sefl_status x509_verify(sefl_span spki, sefl_span bytes, sefl_span sig)
{
    sefl_status st = SEFL_OK;
    gnutls_pubkey_t pub = NULL;
    gnutls_sign_algorithm_t how;
    GNUTLS_TRY(gnutls_pubkey_init(&pub), "signature");
    GNUTLS_READ(SEFL_EAUTH, gnutls_pubkey_import(pub, &TLS_DATUM(spki), GNUTLS_X509_FMT_DER),
                "signature: its public key");
    SEFL_TRY(algorithm(&how, pub));
    GNUTLS_READ(SEFL_EAUTH,
                gnutls_pubkey_verify_data2(pub, how, 0, &TLS_DATUM(bytes), &TLS_DATUM(sig)),
                "signature");
done:
    gnutls_pubkey_deinit(pub);
    return st;
}

sefl_status x509_spki_read(sefl_buf *out, sefl_span pem)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_crt_t crt = NULL;
    gnutls_pubkey_t pub = NULL;
    gnutls_datum_t der = { 0 };
    SEFL_TRY(x509_crt_read(&crt, pem));
    GNUTLS_TRY(gnutls_pubkey_init(&pub), "certificate");
    GNUTLS_READ(SEFL_EPROTO, gnutls_pubkey_import_x509(pub, crt, 0), "certificate");
    GNUTLS_READ(SEFL_EPROTO, gnutls_pubkey_export2(pub, GNUTLS_X509_FMT_DER, &der), "certificate");
    SEFL_TRY(tls_put_datum(out, &der));
done:
    gnutls_pubkey_deinit(pub);
    gnutls_x509_crt_deinit(crt);
    return st;
}
