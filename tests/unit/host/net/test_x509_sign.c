/* Signatures of certificate keys over our bytes: every kind of key signs and verifies; changed
 * bytes, foreign keys, weak keys and other hashes are refused. For signatures of another
 * implementation see tests/unit/parties/test_vouch.c. */
#include "net_ids.h"

#include "base/file.h"
#include "base/sha256.h"
#include "net/x509.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>

/* A key of this kind in KIND.key; its SPKI. */
static void make_key(const char *kind, gnutls_pk_algorithm_t pk, unsigned bits, sefl_buf *spki)
{
    gnutls_x509_privkey_t key;
    gnutls_privkey_t priv;
    gnutls_pubkey_t pub;
    gnutls_datum_t pem, der;
    char path[300];
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(key, pk, bits, 0), 0);
    assert_int_equal(
        gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &pem),
        0);
    net_path(path, kind, ".key");
    CHECK_OK(file_write_new(path, span_of(pem.data, pem.size), 0600));
    assert_int_equal(gnutls_privkey_init(&priv), 0);
    assert_int_equal(gnutls_pubkey_init(&pub), 0);
    assert_int_equal(gnutls_privkey_import_x509(priv, key, 0), 0);
    assert_int_equal(gnutls_pubkey_import_privkey(pub, priv, 0, 0), 0);
    assert_int_equal(gnutls_pubkey_export2(pub, GNUTLS_X509_FMT_DER, &der), 0);
    buf_reset(spki);
    CHECK_OK(wr_raw(spki, der.data, der.size));
    gnutls_free(pem.data);
    gnutls_free(der.data);
    gnutls_pubkey_deinit(pub);
    gnutls_privkey_deinit(priv);
    gnutls_x509_privkey_deinit(key);
}

static const struct kind {
    const char *name;
    gnutls_pk_algorithm_t pk;
    unsigned bits;
    bool weak;
} kinds[] = {
    { "p256", GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), false },
    { "p384", GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP384R1), false },
    { "p521", GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP521R1), false },
    { "rsa", GNUTLS_PK_RSA, 2048, false },
    { "rsa-pss", GNUTLS_PK_RSA_PSS, 2048, false },
    { "ed25519", GNUTLS_PK_EDDSA_ED25519, 256, false },
    { "ed448", GNUTLS_PK_EDDSA_ED448, 456, false },
    { "rsa-1024", GNUTLS_PK_RSA, 1024, true },
    { "p192", GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP192R1), true },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void every_kind(void **state)
{
    sefl_buf spki[KINDS] = { 0 }, sig[KINDS] = { 0 };
    uint8_t text[] = "some bytes";
    sefl_span in = span_of(text, sizeof text);
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        char path[300];
        make_key(kinds[i].name, kinds[i].pk, kinds[i].bits, &spki[i]);
        net_path(path, kinds[i].name, ".key");
        CHECK_STATUS(x509_sign(&sig[i], path, in), kinds[i].weak ? SEFL_EAUTH : SEFL_OK);
    }
    for (int i = 0; i < KINDS; i++)
        for (int k = 0; k < KINDS; k++)
            CHECK_STATUS(x509_verify(buf_span(&spki[i]), in, buf_span(&sig[k])),
                         i == k && !kinds[i].weak ? SEFL_OK : SEFL_EAUTH);
    for (int i = 0; i < KINDS && !kinds[i].weak; i++) {
        sefl_span key = buf_span(&spki[i]), s = buf_span(&sig[i]);
        for (size_t at = 0; at < sizeof text; at++) {
            text[at] ^= 1;
            CHECK_STATUS(x509_verify(key, in, s), SEFL_EAUTH);
            text[at] ^= 1;
        }
        for (size_t at = 0; at < s.n; at += 7) {
            sig[i].p[at] ^= 4;
            CHECK_STATUS(x509_verify(key, in, s), SEFL_EAUTH);
            sig[i].p[at] ^= 4;
        }
        CHECK_STATUS(x509_verify(key, in, span_of(s.p, s.n - 1)), SEFL_EAUTH);
        CHECK_STATUS(x509_verify(key, in, span_of(s.p, 0)), SEFL_EAUTH);
        CHECK_STATUS(x509_verify(span_of(key.p, key.n - 1), in, s), SEFL_EAUTH);
        CHECK_STATUS(x509_verify(span_of(key.p, 0), in, s), SEFL_EAUTH);
    }
    for (int i = 0; i < KINDS; i++)
        buf_clear(&spki[i]), buf_clear(&sig[i]);
}

/* A valid signature with another hash is refused. */
static void other_hashes(void **state)
{
    static const gnutls_sign_algorithm_t others[] = { GNUTLS_SIGN_RSA_SHA1, GNUTLS_SIGN_RSA_SHA384,
                                                      GNUTLS_SIGN_RSA_PSS_SHA256 };
    sefl_buf spki = { 0 };
    char path[300];
    sefl_buf pem = { 0 };
    gnutls_privkey_t key;
    gnutls_datum_t in = { .data = (unsigned char[]){ 'a' }, .size = 1 }, sig;
    (void)state;
    make_key("hashes", GNUTLS_PK_RSA, 2048, &spki);
    net_path(path, "hashes", ".key");
    CHECK_OK(file_read(&pem, path, 1 << 16));
    assert_int_equal(gnutls_privkey_init(&key), 0);
    assert_int_equal(gnutls_privkey_import_x509_raw(
                         key, &(gnutls_datum_t){ .data = pem.p, .size = (unsigned)pem.n },
                         GNUTLS_X509_FMT_PEM, NULL, 0),
                     0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(gnutls_privkey_sign_data2(key, others[i], 0, &in, &sig), 0);
        CHECK_STATUS(x509_verify(buf_span(&spki), span_of("a", 1), span_of(sig.data, sig.size)),
                     SEFL_EAUTH);
        gnutls_free(sig.data);
    }
    gnutls_privkey_deinit(key);
    buf_clear(&spki), buf_clear(&pem);
}

/* SPKI of a certificate: what its fingerprint is the hash of. */
static void spki(void **state)
{
    sefl_buf pem = { 0 }, der = { 0 };
    x509_info info;
    uint8_t hash[32];
    (void)state;
    net_ca("ca");
    net_cert("site", "client", NULL, "ca");
    CHECK_OK(x509_info_file(&info, &pem, folder_path("site.pem")));
    CHECK_OK(x509_spki_read(&der, buf_span(&pem)));
    sha256_of(hash, buf_span(&der));
    assert_memory_equal(hash, info.fingerprint, 32);
    CHECK_STATUS(x509_spki_read(&der, span_of("no", 2)), SEFL_EPROTO);
    buf_clear(&pem), buf_clear(&der);
}

static void bad_files(void **state)
{
    sefl_buf sig = { 0 };
    (void)state;
    assert_int_not_equal(x509_sign(&sig, folder_path("none.key"), span_of("a", 1)), SEFL_OK);
    CHECK_OK(file_write_new(folder_path("text.key"), span_of("text", 4), 0600));
    CHECK_STATUS(x509_sign(&sig, folder_path("text.key"), span_of("a", 1)), SEFL_EPROTO);
    assert_int_equal(sig.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind),
        cmocka_unit_test(other_hashes),
        cmocka_unit_test(spki),
        cmocka_unit_test(bad_files),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
