#include "base/alloc.h"
#include "base/file.h"
#include "net/tls_inside.h"

#include <stdatomic.h>

/* Parses the chain twice: for GnuTLS's own selection of a certificate (cred), and for a retrieve
 * function (chain, key). */
static sefl_status take_own(tls_id *id, const sefl_buf *cert, const sefl_buf *key)
{
    sefl_status st = SEFL_OK;
    gnutls_datum_t c = { cert->p, (unsigned)cert->n }, k = { key->p, (unsigned)key->n };
    gnutls_x509_crt_t *list = NULL;
    unsigned n = 0;
    GNUTLS_READ(SEFL_EPROTO,
                gnutls_x509_crt_list_import2(&list, &n, &c, GNUTLS_X509_FMT_PEM,
                                             GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED),
                id->cert_path);
    SEFL_CHECK(n >= 1 && n <= X509_CHAIN_MAX, SEFL_EINVAL, "%s: %u certificates, at most %d",
               id->cert_path, n, X509_CHAIN_MAX);
    SEFL_TRY(x509_describe(&id->self, list[0]));
    for (; id->chain_n < n; id->chain_n++)
        GNUTLS_READ(SEFL_EPROTO,
                    gnutls_pcert_import_x509(&id->chain[id->chain_n], list[id->chain_n], 0),
                    id->cert_path);
    GNUTLS_TRY(gnutls_privkey_init(&id->key), id->key_path);
    GNUTLS_READ(SEFL_EPROTO,
                gnutls_privkey_import_x509_raw(id->key, &k, GNUTLS_X509_FMT_PEM, NULL, 0),
                id->key_path);
    int rc = gnutls_certificate_set_x509_key_mem2(id->cred, &c, &k, GNUTLS_X509_FMT_PEM, NULL, 0);
    SEFL_CHECK(rc != GNUTLS_E_CERTIFICATE_KEY_MISMATCH, SEFL_EINVAL, "%s is not the key of %s",
               id->key_path, id->cert_path);
    GNUTLS_READ(SEFL_EPROTO, rc, id->cert_path);
done:
    for (unsigned i = 0; i < n; i++)
        gnutls_x509_crt_deinit(list[i]);
    gnutls_free(list);
    return st;
}

static sefl_status take_trust(tls_id *id, const sefl_buf *ca)
{
    gnutls_datum_t c = { ca->p, (unsigned)ca->n };
    GNUTLS_PASS(gnutls_x509_trust_list_init(&id->trust, 0), id->ca_path);
    int rc = gnutls_x509_trust_list_add_trust_mem(id->trust, &c, NULL, GNUTLS_X509_FMT_PEM,
                                                  GNUTLS_TL_NO_DUPLICATES, 0);
    GNUTLS_NEED(SEFL_EPROTO, rc, id->ca_path);
    SEFL_NEED(rc > 0, SEFL_EPROTO, "%s: contains no CA certificate", id->ca_path);
    return SEFL_OK;
}

sefl_status tls_id_read(tls_id **out, const char *cert, const char *key, const char *peers_ca)
{
    sefl_status st = SEFL_OK;
    tls_id *id = NULL;
    sefl_buf cb = { 0 }, kb = { 0 }, pb = { 0 };
    SEFL_TRY(sefl_make(out, &id));
    atomic_init(&id->holders, 1);
    SEFL_TRY(sefl_strdup(&id->cert_path, cert));
    SEFL_TRY(sefl_strdup(&id->key_path, key));
    SEFL_TRY(sefl_strdup(&id->ca_path, peers_ca));
    SEFL_TRY(file_read(&cb, cert, X509_PEM_MAX));
    SEFL_TRY(file_read(&kb, key, X509_PEM_MAX));
    SEFL_TRY(file_read(&pb, peers_ca, X509_PEM_MAX));
    GNUTLS_TRY(gnutls_certificate_allocate_credentials(&id->cred), "TLS");
    GNUTLS_READ(SEFL_EUNSUPPORTED, gnutls_priority_init(&id->priority, TLS_PRIORITY, NULL),
                "TLS 1.3");
    SEFL_TRY(take_own(id, &cb, &kb));
    SEFL_TRY(take_trust(id, &pb));
    *out = id, id = NULL;
done:
    buf_clear(&cb);
    buf_clear(&kb);
    buf_clear(&pb);
    tls_id_free(id);
    return st;
}

tls_id *tls_id_hold(const tls_id *id)
{
    tls_id *mine = (tls_id *)(uintptr_t)id; /* only the count changes, and it is atomic */
    atomic_fetch_add(&mine->holders, 1);
    return mine;
}

void tls_id_free(tls_id *id)
{
    if (!id || atomic_fetch_sub(&id->holders, 1) != 1)
        return;
    for (unsigned i = 0; i < id->chain_n; i++)
        gnutls_pcert_deinit(&id->chain[i]);
    gnutls_privkey_deinit(id->key);
    gnutls_certificate_free_credentials(id->cred);
    gnutls_x509_trust_list_deinit(id->trust, 1);
    gnutls_priority_deinit(id->priority);
    sefl_free(id->cert_path);
    sefl_free(id->key_path);
    sefl_free(id->ca_path);
    sefl_free(id);
}

const uint8_t *tls_id_fingerprint(const tls_id *id)
{
    return id->self.fingerprint;
}

const char *tls_id_name(const tls_id *id)
{
    return id->self.name;
}

const char *tls_id_role(const tls_id *id)
{
    return id->self.role;
}

int64_t tls_id_expires(const tls_id *id)
{
    return id->self.until;
}

void tls_id_check_own(const tls_id *id, x509_peer *out, bool server)
{
    gnutls_datum_t der[X509_CHAIN_MAX];
    for (unsigned i = 0; i < id->chain_n; i++)
        der[i] = id->chain[i].cert;
    x509_check_chain(out, der, id->chain_n, id->trust, &(x509_want){ .server = server });
}
