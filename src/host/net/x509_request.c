/* Certificate requests, and the contents of certificates. */
#include "base/file.h"
#include "net/tls_inside.h"

#include <string.h>
#include <unistd.h>

static sefl_status request_of(sefl_buf *der, gnutls_x509_privkey_t key, const char *name)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_crq_t crq = NULL;
    gnutls_datum_t out = { 0 };
    GNUTLS_TRY(gnutls_x509_crq_init(&crq), "request");
    GNUTLS_TRY(gnutls_x509_crq_set_version(crq, 1), "request");
    GNUTLS_TRY(gnutls_x509_crq_set_dn_by_oid(crq, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                             (unsigned)strlen(name)),
               "request: name");
    GNUTLS_TRY(gnutls_x509_crq_set_key(crq, key), "request: key");
    GNUTLS_TRY(gnutls_x509_crq_sign2(crq, key, GNUTLS_DIG_SHA256, 0), "request: signature");
    GNUTLS_TRY(gnutls_x509_crq_export2(crq, GNUTLS_X509_FMT_DER, &out), "request");
    SEFL_TRY(tls_put_datum(der, &out));
done:
    gnutls_x509_crq_deinit(crq);
    return st;
}

sefl_status x509_request_make(sefl_buf *der, const char *key_path, const char *name)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_privkey_t key = NULL;
    sefl_buf pem = { 0 };
    SEFL_CHECK(!file_exists(key_path), SEFL_EEXIST, "%s exists already", key_path);
    SEFL_TRY(x509_key_new(&key, &pem));
    SEFL_TRY(request_of(der, key, name));
    SEFL_TRY(file_write_new(key_path, buf_span(&pem), 0600));
done:
    buf_clear(&pem);
    gnutls_x509_privkey_deinit(key);
    return st;
}

sefl_status x509_request_for(sefl_buf *der, const char *key_path, const char *name)
{
    gnutls_x509_privkey_t key = NULL;
    sefl_status st = x509_privkey_read(&key, key_path);
    if (st == SEFL_OK)
        st = request_of(der, key, name);
    gnutls_x509_privkey_deinit(key);
    return st;
}

sefl_status x509_request_read(uint8_t fingerprint[32], sefl_span der)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_crq_t crq = NULL;
    gnutls_pubkey_t key = NULL;
    unsigned bits = 0, exponent = 0;
    size_t n = 32;
    SEFL_CHECK(der.n >= 1 && der.n <= X509_REQUEST_MAX, SEFL_EPROTO,
               "request: %zu bytes, at most %d", der.n, X509_REQUEST_MAX);
    GNUTLS_TRY(gnutls_x509_crq_init(&crq), "request");
    GNUTLS_READ(SEFL_EPROTO, gnutls_x509_crq_import(crq, &TLS_DATUM(der), GNUTLS_X509_FMT_DER),
                "request");
    int rc = gnutls_x509_crq_get_pk_algorithm(crq, &bits);
    SEFL_CHECK(rc >= 0 && !x509_key_weak(rc, bits), SEFL_EAUTH,
               "request: a weak key (P-256, RSA-2048 or better)");
    GNUTLS_TRY(gnutls_pubkey_init(&key), "request");
    rc = gnutls_pubkey_import_x509_crq(key, crq, 0);
    SEFL_CHECK(rc >= 0 && !x509_key_dear(key, &bits, &exponent), SEFL_EAUTH,
               "request: a %u-bit key with a %u-bit exponent costs too much to verify", bits,
               exponent);
    GNUTLS_READ(SEFL_EAUTH, gnutls_x509_crq_verify(crq, 0), "request: not signed by its key");
    rc = gnutls_x509_crq_get_key_id(crq, GNUTLS_KEYID_USE_SHA256, fingerprint, &n);
    if (rc < 0 || n != 32)
        SEFL_TRY(tls_fail(SEFL_EPROTO, rc < 0 ? rc : GNUTLS_E_INTERNAL_ERROR, "request: key"));
done:
    gnutls_pubkey_deinit(key);
    gnutls_x509_crq_deinit(crq);
    return st;
}

sefl_status x509_request_pem(sefl_buf *out, sefl_span der)
{
    gnutls_datum_t text = { 0 };
    GNUTLS_NEED(SEFL_EPROTO,
                gnutls_pem_base64_encode2("NEW CERTIFICATE REQUEST", &TLS_DATUM(der), &text),
                "request");
    return tls_put_datum(out, &text);
}

sefl_status x509_request_from_pem(sefl_buf *der, sefl_span pem)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_crq_t crq = NULL;
    gnutls_datum_t out = { 0 };
    GNUTLS_TRY(gnutls_x509_crq_init(&crq), "request");
    GNUTLS_READ(SEFL_EPROTO, gnutls_x509_crq_import(crq, &TLS_DATUM(pem), GNUTLS_X509_FMT_PEM),
                "request");
    GNUTLS_TRY(gnutls_x509_crq_export2(crq, GNUTLS_X509_FMT_DER, &out), "request");
    SEFL_TRY(tls_put_datum(der, &out));
done:
    gnutls_x509_crq_deinit(crq);
    return st;
}

sefl_status x509_info_read(x509_info *out, sefl_span pem, sefl_buf *der)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_crt_t crt = NULL;
    gnutls_datum_t bytes = { 0 };
    unsigned bits = 0;
    x509_peer p;
    *out = (x509_info){ 0 };
    SEFL_TRY(x509_crt_read(&crt, pem));
    SEFL_TRY(x509_describe(&p, crt));
    memcpy(out->fingerprint, p.fingerprint, sizeof out->fingerprint);
    memcpy(out->name, p.name, sizeof out->name);
    memcpy(out->role, p.role, sizeof out->role);
    out->from = (int64_t)gnutls_x509_crt_get_activation_time(crt);
    out->until = p.until;
    out->is_ca = gnutls_x509_crt_get_ca_status(crt, NULL) > 0;
    int rc = gnutls_x509_crt_get_pk_algorithm(crt, &bits);
    out->weak = rc < 0 || x509_key_weak(rc, bits);
    if (der) {
        GNUTLS_TRY(gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_DER, &bytes), "certificate");
        SEFL_TRY(tls_put_datum(der, &bytes));
    }
done:
    gnutls_x509_crt_deinit(crt);
    return st;
}

sefl_status x509_info_file(x509_info *out, sefl_buf *pem, const char *path)
{
    SEFL_PASS(file_read(pem, path, X509_PEM_MAX));
    return sefl_at(x509_info_read(out, buf_span(pem), NULL), "%s", path);
}

unsigned x509_count(sefl_span pem)
{
    gnutls_x509_crt_t *list = NULL;
    unsigned n = 0;
    if (gnutls_x509_crt_list_import2(&list, &n, &TLS_DATUM(pem), GNUTLS_X509_FMT_PEM, 0) < 0)
        return 0;
    for (unsigned i = 0; i < n; i++)
        gnutls_x509_crt_deinit(list[i]);
    gnutls_free(list);
    return n;
}

sefl_status x509_issued_by(sefl_span cert_pem, sefl_span ca_pem)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_trust_list_t cas = NULL;
    gnutls_x509_crt_t crt = NULL;
    x509_peer p = { 0 };
    SEFL_TRY(x509_crt_read(&crt, cert_pem));
    GNUTLS_TRY(gnutls_x509_trust_list_init(&cas, 0), "certificate");
    GNUTLS_READ(SEFL_EPROTO,
                gnutls_x509_trust_list_add_trust_mem(cas, &TLS_DATUM(ca_pem), NULL,
                                                     GNUTLS_X509_FMT_PEM, 0, 0),
                "certificate");
    SEFL_TRY(x509_describe(&p, crt));
    SEFL_CHECK(x509_chain_good(&p, &crt, 1, cas), SEFL_EAUTH, "%s", p.why);
done:
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_trust_list_deinit(cas, 1);
    return st;
}
