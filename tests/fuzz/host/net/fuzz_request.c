/* Any bytes as a certificate request, as DER or, if they contain "-----BEGIN", as PEM; then as a
 * certificate to describe or verify; then as a public key that has signed (all of these for some
 * inputs only: fuzz/some.h). An accepted request is signed by its key; the fields of a certificate
 * are terminated and printable. */
#include "fuzz/some.h"
#include "net/allowlist.h"
#include "net/x509.h"
#include "support/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *s, size_t room)
{
    MUST(memchr(s, 0, room));
    for (; *s; s++)
        MUST(*s >= 0x20 && *s < 0x7f);
}

static bool begins(const uint8_t *p, size_t n)
{
    for (; n >= 10; p++, n--)
        if (p[0] == '-' && memcmp(p, "-----BEGIN", 10) == 0)
            return true;
    return false;
}

/* An allowlist that trusts nobody. */
static allowlist *nobody(void)
{
    static allowlist *g;
    trust *t = NULL;
    if (!g) {
        MUST(trust_new(&t) == SEFL_OK && allowlist_new(&g, t) == SEFL_OK);
        trust_free(t);
    }
    return g;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t key[32] = { 0 }, again[32];
    sefl_buf der = { 0 }, pem = { 0 };
    x509_info info;
    sefl_span in = span_of(data, size);
    bool all = some(data, size, 16), pem_text = begins(data, size);
    if ((all || !pem_text) && x509_request_read(key, in) == SEFL_OK) {
        MUST(size <= X509_REQUEST_MAX);
        MUST(x509_request_pem(&pem, in) == SEFL_OK);
        MUST(x509_request_from_pem(&der, buf_span(&pem)) == SEFL_OK);
        MUST(x509_request_read(again, buf_span(&der)) == SEFL_OK);
        MUST(memcmp(key, again, sizeof key) == 0);
    }
    buf_reset(&der);
    if ((all || pem_text) && x509_request_from_pem(&der, in) == SEFL_OK)
        (void)!x509_request_read(key, buf_span(&der));
    buf_reset(&der);
    if ((all || pem_text) && x509_info_read(&info, in, &der) == SEFL_OK) {
        check_text(info.name, sizeof info.name);
        check_text(info.role, sizeof info.role);
        (void)!x509_issued_by(in, in);
        buf_reset(&pem);
        if (x509_spki_read(&pem, in) == SEFL_OK)
            MUST(x509_verify(buf_span(&pem), in, span_of(key, sizeof key)) != SEFL_OK);
        buf_reset(&pem);
        if (x509_hosts_read(&pem, in) == SEFL_OK) {
            MUST(wr_u8(&pem, 0) == SEFL_OK);
            check_text((const char *)pem.p, pem.n);
        }
    }
    if (all || !pem_text)
        MUST(x509_verify(in, span_of(data, size / 2), span_of(data, size)) != SEFL_OK);
    if (all || pem_text) {
        x509_peer p;
        allowlist_shown(nobody(), &p, in, "client");
        MUST(p.code != X509_OK);
        check_text(p.name, sizeof p.name);
        check_text(p.why, sizeof p.why);
    }
    buf_clear(&der);
    buf_clear(&pem);
    return 0;
}
