/* Signatures by the keys of certificates over bytes of ours. The kind of key says how: always SHA-256 with
 * ECDSA and RSA, so that no peer chooses a weak hash, or one kind of padding for another. */
#include "base/file.h"
#include "net/tls_inside.h"

static sefl_status algorithm(gnutls_sign_algorithm_t *out, gnutls_pubkey_t key)
{
    unsigned bits = 0, exponent = 0;
    int pk = gnutls_pubkey_get_pk_algorithm(key, &bits);
    if (x509_key_weak(pk, bits))
        return sefl_fail(SEFL_EAUTH, "signature: a weak key (P-256, RSA-2048 or better)");
    if (x509_key_dear(key, &bits, &exponent))
        return sefl_fail(SEFL_EAUTH,
                         "signature: a key of %u bits and an exponent of %u are too much work",
                         bits, exponent);
    switch (pk) {
    case GNUTLS_PK_RSA:
        *out = GNUTLS_SIGN_RSA_SHA256;
        return SEFL_OK;
    case GNUTLS_PK_RSA_PSS:
        *out = GNUTLS_SIGN_RSA_PSS_SHA256;
        return SEFL_OK;
    case GNUTLS_PK_ECDSA:
        *out = GNUTLS_SIGN_ECDSA_SHA256;
        return SEFL_OK;
    case GNUTLS_PK_EDDSA_ED25519:
        *out = GNUTLS_SIGN_EDDSA_ED25519;
        return SEFL_OK;
    case GNUTLS_PK_EDDSA_ED448:
        *out = GNUTLS_SIGN_EDDSA_ED448;
        return SEFL_OK;
    default:
        return sefl_fail(SEFL_EAUTH, "signature: an unknown kind of key");
    }
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
    int rc = gnutls_privkey_import_x509_raw(key, &TLS_DATUM(buf_span(&pem)), GNUTLS_X509_FMT_PEM,
                                            NULL, 0);
    if (rc < 0)
        SEFL_TRY(tls_fail(SEFL_EPROTO, rc, key_path));
    GNUTLS_TRY(gnutls_pubkey_import_privkey(pub, key, 0, 0), key_path);
    st = algorithm(&how, pub);
    if (st != SEFL_OK)
        SEFL_TRY(sefl_fail_at(st, "%s", key_path));
    GNUTLS_TRY(gnutls_privkey_sign_data2(key, how, 0, &TLS_DATUM(bytes), &out), key_path);
    SEFL_TRY(wr_raw(sig, out.data, out.size));
done:
    gnutls_free(out.data);
    if (pub)
        gnutls_pubkey_deinit(pub);
    if (key)
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
    int rc = gnutls_pubkey_import(pub, &TLS_DATUM(spki), GNUTLS_X509_FMT_DER);
    if (rc < 0)
        SEFL_TRY(tls_fail(SEFL_EAUTH, rc, "signature: its public key"));
    SEFL_TRY(algorithm(&how, pub));
    rc = gnutls_pubkey_verify_data2(pub, how, 0, &TLS_DATUM(bytes), &TLS_DATUM(sig));
    if (rc < 0)
        SEFL_TRY(tls_fail(SEFL_EAUTH, rc, "signature"));
done:
    if (pub)
        gnutls_pubkey_deinit(pub);
    return st;
}

sefl_status x509_spki_read(sefl_buf *out, sefl_span pem)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_crt_t crt = NULL;
    gnutls_pubkey_t pub = NULL;
    gnutls_datum_t der = { 0 };
    GNUTLS_TRY(gnutls_x509_crt_init(&crt), "certificate");
    GNUTLS_TRY(gnutls_pubkey_init(&pub), "certificate");
    int rc = gnutls_x509_crt_import(crt, &TLS_DATUM(pem), GNUTLS_X509_FMT_PEM);
    if (rc >= 0)
        rc = gnutls_pubkey_import_x509(pub, crt, 0);
    if (rc >= 0)
        rc = gnutls_pubkey_export2(pub, GNUTLS_X509_FMT_DER, &der);
    if (rc < 0)
        SEFL_TRY(tls_fail(SEFL_EPROTO, rc, "certificate"));
    SEFL_TRY(wr_raw(out, der.data, der.size));
done:
    gnutls_free(der.data);
    if (pub)
        gnutls_pubkey_deinit(pub);
    if (crt)
        gnutls_x509_crt_deinit(crt);
    return st;
}
