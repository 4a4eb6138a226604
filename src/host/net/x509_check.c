/* Design. A peer gets one verdict, the first that applies in this order: no certificate, malformed,
 * weak, chain (unknown issuer, dates), use, role, pinned key, host, revoked, not enrolled. Weakness
 * comes first, since a weak signature makes the rest meaningless. A name from an unknown issuer
 * proves nothing, but the log shows it. */
#include "net/tls_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A stranger's certificate makes us compute with a key of its choice: n^2 work for each bit of the
 * exponent. Real keys have the exponent 65537. */
enum { RSA_BITS_MAX = 8192, RSA_EXPONENT_BITS_MAX = 32 };

/* Parts of a subject: GnuTLS finds each by counting from the first. */
enum { RDNS_MAX = 32, AVAS_MAX = 16 };

const char *x509_verdict_text(x509_verdict_code c)
{
    static const char *const text[X509_VERDICTS] = {
        [X509_OK] = "ok",
        [X509_NONE] = "no certificate",
        [X509_UNKNOWN_ISSUER] = "unknown issuer",
        [X509_EXPIRED] = "expired",
        [X509_NOT_YET] = "not yet valid",
        [X509_WEAK] = "weak",
        [X509_WRONG_ROLE] = "wrong role",
        [X509_MALFORMED] = "malformed",
        [X509_WRONG_USE] = "wrong use",
        [X509_WRONG_HOST] = "wrong host",
        [X509_WRONG_KEY] = "wrong key",
        [X509_WITHDRAWN] = "revoked",
        [X509_NOT_LISTED] = "not enrolled",
    };
    return (unsigned)c < X509_VERDICTS ? text[c] : "?";
}

bool x509_judge(x509_peer *p, x509_verdict_code code, const char *fmt, ...)
{
    int n = 0;
    va_list ap;
    p->code = code;
    if (p->name[0])
        n = snprintf(p->why, sizeof p->why, "certificate of \"%s\": ", p->name);
    else if (code != X509_NONE)
        n = snprintf(p->why, sizeof p->why, "certificate: ");
    va_start(ap, fmt);
    vsnprintf(p->why + n, sizeof p->why - (size_t)n, fmt, ap);
    va_end(ap);
    return false;
}

/* Peers choose these bytes and people read them. */
static void printable(char *s)
{
    for (; *s; s++)
        if (*s < 0x20 || *s >= 0x7f || *s == '"' || *s == '\\')
            *s = '?';
}

/* Iterates over the attributes of a subject; a subject with more than RDNS_MAX parts counts as
 * empty. */
typedef struct dn_walk {
    gnutls_x509_dn_t dn;
    int rdn, ava;
} dn_walk;

static dn_walk dn_begin(gnutls_x509_crt_t crt)
{
    dn_walk w = { .rdn = RDNS_MAX };
    gnutls_x509_ava_st a;
    if (gnutls_x509_crt_get_subject(crt, &w.dn) == 0 &&
        gnutls_x509_dn_get_rdn_ava(w.dn, RDNS_MAX, 0, &a) < 0)
        w.rdn = 0;
    return w;
}

/* Copies the characters of a DirectoryString without the escapes that GnuTLS adds (RFC 4514); a
 * character beyond ASCII becomes DEL, which our own names never contain. False if the value is not
 * text, has a NUL, or does not fit. */
static bool ava_text(char *out, size_t room, const gnutls_x509_ava_st *a)
{
    /* bytes per character, by ASN.1 tag (X.680) */
    static const uint8_t bytes[] = { [12] = 1 /* UTF8String */,      [18] = 1 /* NumericString */,
                                     [19] = 1 /* PrintableString */, [20] = 1 /* TeletexString */,
                                     [22] = 1 /* IA5String */,       [26] = 1 /* VisibleString */,
                                     [28] = 4 /* UniversalString */, [30] = 2 /* BMPString */ };
    size_t wide = a->value_tag < sizeof bytes ? bytes[a->value_tag] : 0;
    size_t n = wide ? a->value.size / wide : room;
    if (n >= room || n * wide != a->value.size)
        return false;
    for (size_t i = 0; i < n; i++) {
        const unsigned char *c = a->value.data + i * wide;
        unsigned long v = 0;
        for (size_t k = 0; k < wide; k++)
            v = v << 8 | c[k];
        if (v == 0)
            return false;
        out[i] = v < 0x80 ? (char)v : (char)0x7f;
    }
    out[n] = 0;
    return true;
}

/* Finds the next attribute with this OID; false if there is none. Skips values that are not text or
 * do not fit. */
static bool dn_next(dn_walk *w, const char *oid, char *out, size_t room)
{
    gnutls_x509_ava_st a;
    while (w->rdn < RDNS_MAX) {
        if (w->ava == AVAS_MAX || gnutls_x509_dn_get_rdn_ava(w->dn, w->rdn, w->ava++, &a) < 0)
            w->rdn++, w->ava = 0;
        else if (a.oid.size == strlen(oid) + 1 && memcmp(a.oid.data, oid, a.oid.size) == 0 &&
                 ava_text(out, room, &a))
            return true;
    }
    out[0] = 0;
    return false;
}

sefl_status x509_describe(x509_peer *p, gnutls_x509_crt_t crt)
{
    char unit[64];
    size_t n = sizeof p->fingerprint;
    memset(p, 0, sizeof *p);
    int rc = gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA256, p->fingerprint, &n);
    if (rc < 0 || n != sizeof p->fingerprint)
        return tls_fail(SEFL_EPROTO, rc < 0 ? rc : GNUTLS_E_INTERNAL_ERROR, "certificate: key");
    p->until = (int64_t)gnutls_x509_crt_get_expiration_time(crt);
    dn_walk names = dn_begin(crt), units = names;
    (void)dn_next(&names, GNUTLS_OID_X520_COMMON_NAME, p->name, sizeof p->name);
    printable(p->name);
    while (dn_next(&units, GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME, unit, sizeof unit)) {
        if (strncmp(unit, "sefl ", 5) == 0 && strlen(unit + 5) < sizeof p->role) {
            if (p->role[0]) { /* two roles count as none */
                p->role[0] = 0;
                break;
            }
            strcpy(p->role, unit + 5);
            printable(p->role);
        }
    }
    return SEFL_OK;
}

bool x509_key_weak(int pk, unsigned bits)
{
    bool rsa = pk == GNUTLS_PK_RSA || pk == GNUTLS_PK_RSA_PSS;
    bool curve =
        pk == GNUTLS_PK_ECDSA || pk == GNUTLS_PK_EDDSA_ED25519 || pk == GNUTLS_PK_EDDSA_ED448;
    return (!rsa || bits < 2048) && (!curve || bits < 255);
}

/* Returns the number of bits of a big-endian number without leading zeros. */
static unsigned bits_of(const gnutls_datum_t *d)
{
    unsigned top = 0;
    for (unsigned v = d->size ? d->data[0] : 0; v; v >>= 1)
        top++;
    return d->size ? 8 * (d->size - 1) + top : 0;
}

bool x509_key_dear(gnutls_pubkey_t key, unsigned *bits, unsigned *exponent)
{
    gnutls_datum_t m = { 0 }, e = { 0 };
    int pk = gnutls_pubkey_get_pk_algorithm(key, bits);
    *exponent = 0;
    if (pk != GNUTLS_PK_RSA && pk != GNUTLS_PK_RSA_PSS)
        return *bits > RSA_BITS_MAX; /* GnuTLS knows only cheap curves */
    if (gnutls_pubkey_export_rsa_raw2(key, &m, &e, GNUTLS_EXPORT_FLAG_NO_LZ) < 0)
        return true;
    *bits = bits_of(&m);
    *exponent = bits_of(&e);
    gnutls_free(m.data);
    gnutls_free(e.data);
    return *bits > RSA_BITS_MAX || *exponent > RSA_EXPONENT_BITS_MAX;
}

/* False: a verdict is in p. */
static bool is_affordable(x509_peer *p, gnutls_x509_crt_t crt)
{
    gnutls_pubkey_t key = NULL;
    unsigned bits = 0, exponent = 0;
    bool dear = gnutls_pubkey_init(&key) < 0 || gnutls_pubkey_import_x509(key, crt, 0) < 0 ||
                x509_key_dear(key, &bits, &exponent);
    gnutls_pubkey_deinit(key);
    return !dear ||
           x509_judge(p, X509_WEAK, "key of %u bits, exponent of %u bits (RSA: at most %d and %d)",
                      bits, exponent, RSA_BITS_MAX, RSA_EXPONENT_BITS_MAX);
}

bool x509_shown_affordable(x509_peer *p, gnutls_session_t s)
{
    gnutls_x509_crt_t crt = NULL;
    unsigned n = 0;
    const gnutls_datum_t *der = gnutls_certificate_get_peers(s, &n);
    memset(p, 0, sizeof *p);
    if (!der || n == 0)
        return true; /* no key to verify a signature with: GnuTLS itself refuses */
    bool read = gnutls_x509_crt_init(&crt) >= 0 &&
                gnutls_x509_crt_import(crt, der, GNUTLS_X509_FMT_DER) >= 0 &&
                x509_describe(p, crt) == SEFL_OK;
    bool good = read ? is_affordable(p, crt) : x509_judge(p, X509_MALFORMED, "it cannot be parsed");
    gnutls_x509_crt_deinit(crt);
    return good;
}

bool x509_has_unit(gnutls_x509_crt_t crt, const char *unit)
{
    char got[65];
    dn_walk w = dn_begin(crt);
    while (dn_next(&w, GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME, got, sizeof got))
        if (strcmp(got, unit) == 0)
            return true;
    return false;
}

/* Checks key and signature of the certificate itself; CAs in the trust list are the operator's
 * choice. */
static bool is_weak(x509_peer *p, gnutls_x509_crt_t crt)
{
    unsigned bits = 0;
    int pk = gnutls_x509_crt_get_pk_algorithm(crt, &bits);
    int sign = gnutls_x509_crt_get_signature_algorithm(crt);
    const char *name = pk >= 0 ? gnutls_pk_get_name((gnutls_pk_algorithm_t)pk) : NULL;
    if (x509_key_weak(pk, bits))
        return !x509_judge(p, X509_WEAK, "%s key of %u bits (P-256, RSA-2048 or better)",
                           name ? name : "unknown", bits);
    gnutls_digest_algorithm_t hash =
        sign >= 0 ? gnutls_sign_get_hash_algorithm((gnutls_sign_algorithm_t)sign) : GNUTLS_DIG_NULL;
    bool edwards = sign == GNUTLS_SIGN_EDDSA_ED25519 || sign == GNUTLS_SIGN_EDDSA_ED448;
    if (edwards || gnutls_hash_get_len(hash) >= 32)
        return false;
    const char *text = sign >= 0 ? gnutls_sign_get_name((gnutls_sign_algorithm_t)sign) : NULL;
    return !x509_judge(p, X509_WEAK, "signed with %s (SHA-256 or better)",
                       text ? text : "an unknown algorithm");
}

/* Unlike GnuTLS' own check: a certificate that states no purpose has none. */
static bool has_purpose(gnutls_x509_crt_t crt, const char *oid)
{
    for (unsigned i = 0; i < 16; i++) {
        char got[64];
        size_t n = sizeof got;
        int rc = gnutls_x509_crt_get_key_purpose_oid(crt, i, got, &n, NULL);
        if (rc == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            return false;
        if (rc >= 0 && strcmp(got, oid) == 0)
            return true;
    }
    return false;
}

static bool is_use_right(gnutls_x509_crt_t crt, bool server)
{
    unsigned usage = 0;
    int rc = gnutls_x509_crt_get_key_usage(crt, &usage, NULL);
    if (rc >= 0 && !(usage & GNUTLS_KEY_DIGITAL_SIGNATURE))
        return false;
    return has_purpose(crt, server ? GNUTLS_KP_TLS_WWW_SERVER : GNUTLS_KP_TLS_WWW_CLIENT);
}

static bool judge_date(x509_peer *p, x509_verdict_code code, const char *what, time_t t)
{
    struct tm tm;
    char date[32];
    if (!gmtime_r(&t, &tm) || strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &tm) == 0)
        strcpy(date, "?");
    return x509_judge(p, code, "%s %s", what, date);
}

static const char too_early[] = "check both clocks: it is valid from";

static bool chain_good(x509_peer *p, gnutls_x509_crt_t *crt, unsigned n,
                       gnutls_x509_trust_list_t cas, unsigned flags)
{
    unsigned status = 0;
    int rc = gnutls_x509_trust_list_verify_crt2(cas, crt, n, NULL, 0, flags, &status, NULL);
    if (rc < 0)
        return x509_judge(p, X509_MALFORMED, "%s", gnutls_strerror(rc));
    if (status == 0)
        return true;
    /* an old certificate from an unknown issuer has both bits set: it counts as "unknown issuer" */
    if (status & (GNUTLS_CERT_SIGNER_NOT_FOUND | GNUTLS_CERT_SIGNER_NOT_CA |
                  GNUTLS_CERT_SIGNATURE_FAILURE | GNUTLS_CERT_SIGNER_CONSTRAINTS_FAILURE))
        return x509_judge(p, X509_UNKNOWN_ISSUER, "not issued by a trusted CA");
    if (status & GNUTLS_CERT_INSECURE_ALGORITHM)
        return x509_judge(p, X509_WEAK, "a weak algorithm in its chain");
    if (status & GNUTLS_CERT_NOT_ACTIVATED)
        return judge_date(p, X509_NOT_YET, too_early, gnutls_x509_crt_get_activation_time(crt[0]));
    if (status & GNUTLS_CERT_EXPIRED)
        return judge_date(p, X509_EXPIRED, "it, or its CA, has expired; its own date:",
                          gnutls_x509_crt_get_expiration_time(crt[0]));
    return x509_judge(p, X509_MALFORMED, "refused (GnuTLS status 0x%x)", status);
}

bool x509_chain_good(x509_peer *p, gnutls_x509_crt_t *crt, unsigned n, gnutls_x509_trust_list_t cas)
{
    return chain_good(p, crt, n, cas, 0);
}

/* If the key itself is pinned, its certificate needs no issuer, only valid dates. */
static bool is_time_right(x509_peer *p, gnutls_x509_crt_t crt)
{
    time_t now = time(NULL), from = gnutls_x509_crt_get_activation_time(crt);
    if (now < from)
        return judge_date(p, X509_NOT_YET, too_early, from);
    return now <= p->until || judge_date(p, X509_EXPIRED, "it has expired:", (time_t)p->until);
}

static bool is_vouched_for(x509_peer *p, gnutls_x509_crt_t *crt, unsigned n,
                           gnutls_x509_trust_list_t cas, const x509_want *want)
{
    if (want->pin_only)
        return want->any_date || is_time_right(p, crt[0]);
    return want->allowlist
               ? allowlist_chain(want->allowlist, p, crt, n, want->role)
               : chain_good(p, crt, n, cas,
                            want->any_date ? GNUTLS_VERIFY_DISABLE_TIME_CHECKS |
                                                 GNUTLS_VERIFY_DISABLE_TRUSTED_TIME_CHECKS
                                           : 0);
}

static bool is_host_right(gnutls_x509_crt_t crt, const char *host)
{
    uint8_t ip[16];
    unsigned n = x509_address(ip, host);
    return (n > 0 ? gnutls_x509_crt_check_ip(crt, ip, n, 0)
                  : gnutls_x509_crt_check_hostname2(crt, host, 0)) != 0;
}

/* Always fills p with a verdict. */
static void check_imported(x509_peer *p, gnutls_x509_crt_t *crt, unsigned n,
                           gnutls_x509_trust_list_t cas, const x509_want *want)
{
    if (x509_describe(p, crt[0]) != SEFL_OK) {
        x509_judge(p, X509_MALFORMED, "its key cannot be parsed");
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        if (!is_affordable(p, crt[i]))
            return;
        /* a self-signed certificate at the end of the chain does not vouch for the others */
        if (i > 0 && gnutls_x509_crt_check_issuer(crt[i], crt[i]))
            continue;
        if (is_weak(p, crt[i]))
            return;
    }
    if (!is_vouched_for(p, crt, n, cas, want))
        return;
    if (!is_use_right(crt[0], want->server)) {
        x509_judge(p, X509_WRONG_USE, "not for %s authentication",
                   want->server ? "server" : "client");
    } else if (want->role && !p->role[0]) {
        x509_judge(p, X509_WRONG_ROLE,
                   "none of its organisational units allows the role \"%s\" here", want->role);
    } else if (want->role && strcmp(p->role, want->role) != 0) {
        x509_judge(p, X509_WRONG_ROLE, "role \"%s\" instead of \"%s\"", p->role, want->role);
    } else if (want->fingerprint &&
               memcmp(want->fingerprint, p->fingerprint, sizeof p->fingerprint) != 0) {
        x509_judge(p, X509_WRONG_KEY, "not the pinned key");
    } else if (want->host && !is_host_right(crt[0], want->host)) {
        x509_judge(p, X509_WRONG_HOST, "not for host \"%.80s\"", want->host);
    } else if (!want->allowlist || allowlist_member(want->allowlist, p)) {
        p->code = X509_OK;
    }
}

void x509_check_chain(x509_peer *p, const gnutls_datum_t *der, unsigned n,
                      gnutls_x509_trust_list_t cas, const x509_want *want)
{
    gnutls_x509_crt_t crt[X509_CHAIN_MAX] = { 0 };
    int rc = 0;
    memset(p, 0, sizeof *p);
    if (!der || n == 0) {
        x509_judge(p, X509_NONE, "the peer presented no certificate");
        return;
    }
    if (n > X509_CHAIN_MAX) {
        x509_judge(p, X509_MALFORMED, "the chain has %u certificates (at most %d)", n,
                   X509_CHAIN_MAX);
        return;
    }
    for (unsigned i = 0; i < n && rc >= 0; i++) {
        rc = gnutls_x509_crt_init(&crt[i]);
        if (rc >= 0)
            rc = gnutls_x509_crt_import(crt[i], &der[i], GNUTLS_X509_FMT_DER);
    }
    if (rc < 0)
        x509_judge(p, X509_MALFORMED, "%s", gnutls_strerror(rc));
    else
        check_imported(p, crt, n, cas, want);
    for (unsigned i = 0; i < n; i++)
        gnutls_x509_crt_deinit(crt[i]);
}

void x509_check_pem(x509_peer *p, sefl_span pem, gnutls_x509_trust_list_t cas,
                    const x509_want *want)
{
    gnutls_x509_crt_t crt[X509_CHAIN_MAX];
    unsigned n = X509_CHAIN_MAX;
    memset(p, 0, sizeof *p);
    if (pem.n == 0) {
        x509_judge(p, X509_NONE, "the peer presented no certificate");
        return;
    }
    int rc = gnutls_x509_crt_list_import(crt, &n, &TLS_DATUM(pem), GNUTLS_X509_FMT_PEM,
                                         GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
    if (rc <= 0) {
        x509_judge(p, X509_MALFORMED, "%s", rc < 0 ? gnutls_strerror(rc) : "none in this text");
        return;
    }
    check_imported(p, crt, (unsigned)rc, cas, want);
    for (int i = 0; i < rc; i++)
        gnutls_x509_crt_deinit(crt[i]);
}

void x509_check_session(x509_peer *p, gnutls_session_t s, gnutls_x509_trust_list_t cas,
                        const x509_want *want)
{
    unsigned n = 0;
    const gnutls_datum_t *der = NULL;
    if (gnutls_certificate_type_get(s) == GNUTLS_CRT_X509)
        der = gnutls_certificate_get_peers(s, &n);
    x509_check_chain(p, der, n, cas, want);
}
