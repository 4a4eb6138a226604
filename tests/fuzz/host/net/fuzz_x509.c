/* Any bytes as a peer's certificate chain: a varint length and that many bytes of DER for each.
 * Nothing is ever accepted, since the trusted CA was created a moment ago; what the log gets is
 * printable and terminated. */
#include "base/span.h"
#include "net/tls_inside.h"
#include "support/must.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static gnutls_x509_trust_list_t fresh_trust(void)
{
    gnutls_x509_trust_list_t cas;
    gnutls_x509_crt_t ca;
    gnutls_x509_privkey_t key;
    MUST(gnutls_x509_trust_list_init(&cas, 0) == 0);
    MUST(gnutls_x509_crt_init(&ca) == 0 && gnutls_x509_privkey_init(&key) == 0);
    MUST(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                      GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0) == 0);
    gnutls_x509_crt_set_version(ca, 3);
    gnutls_x509_crt_set_serial(ca, "\1", 1);
    gnutls_x509_crt_set_activation_time(ca, 0);
    gnutls_x509_crt_set_expiration_time(ca, time(NULL) + 86400);
    gnutls_x509_crt_set_dn(ca, "CN=ca", NULL);
    gnutls_x509_crt_set_basic_constraints(ca, 1, -1);
    gnutls_x509_crt_set_key(ca, key);
    MUST(gnutls_x509_crt_sign2(ca, ca, key, GNUTLS_DIG_SHA256, 0) == 0);
    MUST(gnutls_x509_trust_list_add_cas(cas, &ca, 1, 0) == 1);
    gnutls_x509_privkey_deinit(key);
    return cas;
}

static void check_text(const char *s, size_t room)
{
    MUST(memchr(s, 0, room));
    for (; *s; s++)
        MUST(*s >= 0x20 && *s < 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gnutls_x509_trust_list_t cas;
    gnutls_datum_t der[X509_CHAIN_MAX + 2];
    unsigned n = 0;
    x509_peer p;
    rd r = rd_over(span_of(data, size));
    sefl_span one;
    if (!cas)
        cas = fresh_trust();
    while (n < X509_CHAIN_MAX + 2 && rd_bytes(&r, &one, 1 << 16) == SEFL_OK) {
        uint8_t *copy = malloc(one.n ? one.n : 1); /* at its exact size, for ASan */
        MUST(copy);
        if (one.n > 0)
            memcpy(copy, one.p, one.n);
        der[n++] = (gnutls_datum_t){ copy, (unsigned)one.n };
    }
    const x509_want want = { .role = "client", .host = "127.0.0.1", .server = n % 2 };
    x509_check_chain(&p, der, n, cas, &want);
    MUST(p.code != X509_OK);
    check_text(p.name, sizeof p.name);
    check_text(p.role, sizeof p.role);
    check_text(p.why, sizeof p.why);
    for (unsigned i = 0; i < n; i++)
        free(der[i].data);
    return 0;
}
