#include "base/alloc.h"
#include "base/file.h"
#include "net/tls_inside.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS_MAX = 32, SKEW_S = 3600 };

sefl_status tls_fail(sefl_status code, int rc, const char *what)
{
    if (rc == GNUTLS_E_MEMORY_ERROR)
        return sefl_fail(SEFL_ENOMEM, "%s: out of memory", what);
    if (rc == GNUTLS_E_BASE64_UNEXPECTED_HEADER_ERROR || rc == GNUTLS_E_NO_CERTIFICATE_FOUND ||
        rc == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
        return sefl_fail(
            code,
            "%s: not a PEM file of the required kind (certificate: -----BEGIN CERTIFICATE-----, "
            "key: -----BEGIN PRIVATE KEY-----, request: -----BEGIN NEW CERTIFICATE REQUEST-----). "
            "Give the right file, or convert a DER file with openssl",
            what);
    if (rc == GNUTLS_E_BASE64_DECODING_ERROR || rc == GNUTLS_E_ASN1_DER_ERROR ||
        rc == GNUTLS_E_ASN1_TAG_ERROR || rc == GNUTLS_E_ASN1_DER_OVERFLOW)
        return sefl_fail(code, "%s: damaged (%s). Create or copy it again", what,
                         gnutls_strerror(rc));
    if (rc == GNUTLS_E_DECRYPTION_FAILED)
        return sefl_fail(
            code,
            "%s: encrypted with a passphrase, which a server cannot enter at start. Remove it "
            "(openssl pkey -in OLD -out NEW) and protect the file with mode 0600",
            what);
    return sefl_fail(code, "%s: %s", what, gnutls_strerror(rc));
}

sefl_status tls_put_datum(sefl_buf *out, gnutls_datum_t *d)
{
    sefl_status st = wr_raw(out, d->data, d->size);
    gnutls_free(d->data);
    d->data = NULL;
    return st;
}

unsigned x509_address(uint8_t out[16], const char *host)
{
    return inet_pton(AF_INET, host, out) == 1 ? 4 : inet_pton(AF_INET6, host, out) == 1 ? 16 : 0;
}

static sefl_status check_subject(const x509_subject *s)
{
    size_t n = s->name ? strlen(s->name) : 0;
    SEFL_NEED(n >= 1 && n <= 64, SEFL_EINVAL, "certificate: a name has 1 to 64 characters, not %zu",
              n);
    for (size_t i = 0; i < n; i++)
        SEFL_NEED(s->name[i] >= 0x20 && s->name[i] < 0x7f, SEFL_EINVAL,
                  "certificate: character %zu of the name is not printable ASCII", i + 1);
    SEFL_NEED(!s->role || trust_role_of(s->role), SEFL_EINVAL,
              "certificate: no such role \"%.32s\" (aggregator, csp, client)", s->role);
    SEFL_NEED(s->days >= 1 && s->days <= 36525, SEFL_EINVAL,
              "certificate: %u days, must be 1 to 36525", s->days);
    return SEFL_OK;
}

static bool is_host_name(const char *s)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    return *s && strspn(s, allowed) == strlen(s) && strlen(s) <= 253;
}

static sefl_status set_hosts(gnutls_x509_crt_t crt, const char *hosts)
{
    sefl_status st = SEFL_OK;
    char *copy = NULL, *rest = NULL;
    unsigned n = 0;
    if (!hosts)
        return SEFL_OK;
    SEFL_TRY(sefl_strdup(&copy, hosts));
    for (char *h = strtok_r(copy, ", ", &rest); h; h = strtok_r(NULL, ", ", &rest)) {
        uint8_t ip[16];
        unsigned ip_n = x509_address(ip, h);
        SEFL_CHECK(++n <= HOSTS_MAX, SEFL_EINVAL, "certificate: more than %d hosts", HOSTS_MAX);
        SEFL_CHECK(ip_n > 0 || is_host_name(h), SEFL_EINVAL,
                   "certificate: \"%.64s\" is not a host name or address", h);
        GNUTLS_TRY(gnutls_x509_crt_set_subject_alt_name(
                       crt, ip_n ? GNUTLS_SAN_IPADDRESS : GNUTLS_SAN_DNSNAME,
                       ip_n ? (const void *)ip : h, ip_n ? ip_n : (unsigned)strlen(h),
                       GNUTLS_FSAN_APPEND),
                   "certificate: host");
    }
    SEFL_CHECK(n > 0, SEFL_EINVAL, "certificate: \"%.64s\" names no host", hosts);
done:
    sefl_free(copy);
    return st;
}

/* True if the text is printable and has no comma, our separator. */
static bool is_plain(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] < 0x21 || s[i] > 0x7e || s[i] == ',')
            return false;
    return n > 0;
}

/* Appends one SAN entry in the form that set_hosts reads. Ignores entries of other kinds (mail,
 * URI). */
static sefl_status add_host(sefl_buf *out, int kind, const char *san, size_t n)
{
    char ip[INET6_ADDRSTRLEN] = "";
    if (kind == GNUTLS_SAN_IPADDRESS && (n == 4 || n == 16))
        san = inet_ntop(n == 4 ? AF_INET : AF_INET6, san, ip, sizeof ip);
    else if (kind != GNUTLS_SAN_DNSNAME)
        return SEFL_OK;
    SEFL_NEED(san && (san == ip || is_plain(san, n)), SEFL_EPROTO,
              "certificate: a host name is not printable or contains a comma");
    return wr_fmt(out, "%s%s", out->n > 0 ? "," : "", san);
}

sefl_status x509_hosts_read(sefl_buf *out, sefl_span pem)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_crt_t crt = NULL;
    sefl_buf hosts = { 0 };
    char san[256]; /* a host name has at most 253 characters */
    SEFL_TRY(x509_crt_read(&crt, pem));
    for (unsigned i = 0;; i++) {
        size_t n = sizeof san - 1;
        int rc = gnutls_x509_crt_get_subject_alt_name(crt, i, san, &n, NULL);
        if (rc == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            break;
        if (rc == GNUTLS_E_SHORT_MEMORY_BUFFER)
            continue;
        if (rc < 0)
            SEFL_TRY(tls_fail(SEFL_EPROTO, rc, "certificate: hosts"));
        san[n] = 0;
        SEFL_TRY(add_host(&hosts, rc, san, n));
    }
    SEFL_TRY(wr_raw(out, hosts.p, hosts.n));
done:
    buf_clear(&hosts);
    gnutls_x509_crt_deinit(crt);
    return st;
}

sefl_status x509_crt_read(gnutls_x509_crt_t *out, sefl_span pem)
{
    GNUTLS_PASS(gnutls_x509_crt_init(out), "certificate");
    GNUTLS_NEED(SEFL_EPROTO, gnutls_x509_crt_import(*out, &TLS_DATUM(pem), GNUTLS_X509_FMT_PEM),
                "certificate");
    return SEFL_OK;
}

sefl_status x509_privkey_read(gnutls_x509_privkey_t *out, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf pem = { 0 };
    SEFL_TRY(file_read(&pem, path, X509_PEM_MAX));
    GNUTLS_TRY(gnutls_x509_privkey_init(out), path);
    GNUTLS_READ(
        SEFL_EPROTO,
        gnutls_x509_privkey_import2(*out, &TLS_DATUM(buf_span(&pem)), GNUTLS_X509_FMT_PEM, NULL, 0),
        path);
done:
    buf_clear(&pem);
    return st;
}

static sefl_status read_ca(gnutls_x509_crt_t *crt, gnutls_x509_privkey_t *key,
                           const char *cert_path, const char *key_path)
{
    sefl_status st = SEFL_OK;
    sefl_buf pem = { 0 };
    uint8_t a[32], c[32];
    size_t an = sizeof a, cn = sizeof c;
    SEFL_TRY(file_read(&pem, cert_path, X509_PEM_MAX));
    SEFL_TRY(sefl_at(x509_crt_read(crt, buf_span(&pem)), "%s", cert_path));
    SEFL_TRY(x509_privkey_read(key, key_path));
    SEFL_CHECK(gnutls_x509_crt_get_ca_status(*crt, NULL) > 0, SEFL_EINVAL, "%s is not a CA",
               cert_path);
    GNUTLS_TRY(gnutls_x509_crt_get_key_id(*crt, GNUTLS_KEYID_USE_SHA256, a, &an), cert_path);
    GNUTLS_TRY(gnutls_x509_privkey_get_key_id(*key, GNUTLS_KEYID_USE_SHA256, c, &cn), key_path);
    SEFL_CHECK(memcmp(a, c, sizeof a) == 0, SEFL_EINVAL, "%s is not the key of %s", key_path,
               cert_path);
done:
    buf_clear(&pem);
    return st;
}

static sefl_status put_name(gnutls_x509_crt_t crt, const char *oid, const char *text)
{
    GNUTLS_PASS(gnutls_x509_crt_set_dn_by_oid(crt, oid, 0, text, (unsigned)strlen(text)),
                "certificate: subject");
    return SEFL_OK;
}

/* Sets everything except key and signature. ca: the issuer, or crt itself. */
static sefl_status fill(gnutls_x509_crt_t crt, const x509_subject *s, gnutls_x509_crt_t ca)
{
    uint8_t serial[16], id[20];
    size_t id_n = sizeof id;
    char unit[32];
    time_t from = s->from ? (time_t)s->from : time(NULL) - SKEW_S;
    time_t until = from + (time_t)s->days * 86400;
    bool own = ca == crt;
    const char *role = s->role ? s->role : "";
    GNUTLS_PASS(gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof serial), "certificate: serial number");
    serial[0] = (serial[0] & 0x7f) | 0x40; /* positive, and always 16 bytes */
    if (!own && until > gnutls_x509_crt_get_expiration_time(ca))
        until = gnutls_x509_crt_get_expiration_time(ca);
    GNUTLS_PASS(gnutls_x509_crt_set_version(crt, 3), "certificate: version");
    GNUTLS_PASS(gnutls_x509_crt_set_serial(crt, serial, sizeof serial), "certificate: serial");
    GNUTLS_PASS(gnutls_x509_crt_set_activation_time(crt, from), "certificate: date");
    GNUTLS_PASS(gnutls_x509_crt_set_expiration_time(crt, until), "certificate: date");
    if (s->role) {
        snprintf(unit, sizeof unit, "sefl %s", s->role);
        SEFL_PASS(put_name(crt, GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME, unit));
    }
    SEFL_PASS(put_name(crt, GNUTLS_OID_X520_COMMON_NAME, s->name));
    GNUTLS_PASS(gnutls_x509_crt_get_key_id(crt, 0, id, &id_n), "certificate: key id");
    GNUTLS_PASS(gnutls_x509_crt_set_subject_key_id(crt, id, id_n), "certificate: key id");
    if (own) {
        GNUTLS_PASS(gnutls_x509_crt_set_basic_constraints(crt, 1, 0), "certificate: CA");
        GNUTLS_PASS(
            gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN),
            "certificate: usage");
        return SEFL_OK;
    }
    id_n = sizeof id;
    GNUTLS_PASS(gnutls_x509_crt_get_key_id(ca, 0, id, &id_n), "certificate: issuer");
    GNUTLS_PASS(gnutls_x509_crt_set_authority_key_id(crt, id, id_n), "certificate: issuer");
    GNUTLS_PASS(gnutls_x509_crt_set_basic_constraints(crt, 0, -1), "certificate: no CA");
    GNUTLS_PASS(gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE),
                "certificate: usage");
    /* AS serves clients and dials CSP; CSP only serves; clients only dial */
    if (strcmp(role, "client") != 0)
        GNUTLS_PASS(gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0),
                    "certificate: purpose");
    if (strcmp(role, "csp") != 0)
        GNUTLS_PASS(gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_CLIENT, 0),
                    "certificate: purpose");
    return set_hosts(crt, s->hosts);
}

/* Completes a certificate whose key is set, and signs it: with `own`, its own key, or as the CA. */
static sefl_status x509_finish(sefl_buf *out, gnutls_x509_crt_t crt, const x509_subject *s,
                               gnutls_x509_privkey_t own, const char *ca_cert, const char *ca_key)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_crt_t ca = NULL;
    gnutls_x509_privkey_t signer = NULL;
    gnutls_datum_t pem = { 0 };
    if (!own)
        SEFL_TRY(read_ca(&ca, &signer, ca_cert, ca_key));
    SEFL_TRY(fill(crt, s, own ? crt : ca));
    GNUTLS_TRY(gnutls_x509_crt_sign2(crt, own ? crt : ca, own ? own : signer, GNUTLS_DIG_SHA256, 0),
               "certificate: signature");
    GNUTLS_TRY(gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &pem), "certificate");
    SEFL_TRY(tls_put_datum(out, &pem));
done:
    gnutls_x509_crt_deinit(ca);
    gnutls_x509_privkey_deinit(signer);
    return st;
}

sefl_status x509_make(const char *cert_path, const char *key_path, const x509_subject *s,
                      const char *ca_cert, const char *ca_key)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_crt_t crt = NULL;
    gnutls_x509_privkey_t key = NULL;
    sefl_buf key_pem = { 0 }, pem = { 0 };
    bool own = !s->role;
    SEFL_TRY(check_subject(s));
    SEFL_CHECK(own == !ca_cert && own == !ca_key, SEFL_EINVAL,
               own ? "certificate: a CA signs itself" : "certificate: a CA must sign it");
    SEFL_CHECK(!file_exists(cert_path), SEFL_EEXIST, "%s exists already", cert_path);
    SEFL_CHECK(!file_exists(key_path), SEFL_EEXIST, "%s exists already", key_path);
    GNUTLS_TRY(gnutls_x509_crt_init(&crt), "certificate");
    SEFL_TRY(x509_key_new(&key, &key_pem));
    GNUTLS_TRY(gnutls_x509_crt_set_key(crt, key), "certificate: key");
    SEFL_TRY(x509_finish(&pem, crt, s, own ? key : NULL, ca_cert, ca_key));
    SEFL_TRY(file_write_new(key_path, buf_span(&key_pem), 0600));
    st = file_write_new(cert_path, buf_span(&pem), 0644);
    if (st != SEFL_OK)
        unlink(key_path); /* ours, and of no use */
done:
    buf_clear(&key_pem);
    buf_clear(&pem);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
    return st;
}

/* Imports the key of a request that its owner signed, or of an earlier certificate. */
static sefl_status key_of(gnutls_pubkey_t key, sefl_span request, sefl_span earlier)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_crq_t crq = NULL;
    gnutls_x509_crt_t crt = NULL;
    uint8_t fingerprint[32];
    if (request.n > 0) {
        SEFL_TRY(x509_request_read(fingerprint, request));
        GNUTLS_TRY(gnutls_x509_crq_init(&crq), "request");
        GNUTLS_TRY(gnutls_x509_crq_import(crq, &TLS_DATUM(request), GNUTLS_X509_FMT_DER),
                   "request");
        GNUTLS_TRY(gnutls_pubkey_import_x509_crq(key, crq, 0), "request: key");
    } else {
        SEFL_TRY(x509_crt_read(&crt, earlier));
        GNUTLS_TRY(gnutls_pubkey_import_x509(key, crt, 0), "certificate: key");
    }
done:
    gnutls_x509_crq_deinit(crq);
    gnutls_x509_crt_deinit(crt);
    return st;
}

sefl_status x509_issue(sefl_buf *out, const x509_subject *s, sefl_span request, sefl_span earlier,
                       const char *ca_cert, const char *ca_key)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_crt_t crt = NULL;
    gnutls_pubkey_t key = NULL;
    SEFL_TRY(check_subject(s));
    SEFL_CHECK(s->role != NULL && (request.n == 0) != (earlier.n == 0), SEFL_EINVAL,
               "certificate: it needs a role and either a request or an earlier certificate");
    GNUTLS_TRY(gnutls_x509_crt_init(&crt), "certificate");
    GNUTLS_TRY(gnutls_pubkey_init(&key), "certificate");
    SEFL_TRY(key_of(key, request, earlier));
    GNUTLS_TRY(gnutls_x509_crt_set_pubkey(crt, key), "certificate: key");
    SEFL_TRY(x509_finish(out, crt, s, NULL, ca_cert, ca_key));
done:
    gnutls_x509_crt_deinit(crt);
    gnutls_pubkey_deinit(key);
    return st;
}
