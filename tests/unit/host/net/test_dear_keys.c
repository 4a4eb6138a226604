/* A connecting peer chooses the key that verifies its signature. An RSA key with a long modulus and
 * a long exponent costs the attacker nothing (any two numbers will do) and costs the verifier
 * seconds to hours: it is refused, with a reason, before GnuTLS computes with it. */
#include "net_ids.h"
#include "net_raw.h"

#include "net/https_server.h"

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdatomic.h>

enum { MOST = 16384 / 8 };

static tls_id *as, *csp;
static unsigned key_bytes;
static gnutls_pcert_st shown;
static gnutls_privkey_t signer;

/* ---- an invalid key in a certificate of a valid CA
 * -------------------------------------------- */

static gnutls_pubkey_t dear_key(unsigned bits, unsigned exponent_bits)
{
    uint8_t m[MOST], e[MOST];
    gnutls_pubkey_t key;
    memset(m, 0xf7, sizeof m);
    memset(e, 0xb5, sizeof e);
    key_bytes = bits / 8;
    gnutls_datum_t md = { m, key_bytes }, ed = { e, exponent_bits / 8 };
    gnutls_pubkey_init(&key);
    assert_int_equal(gnutls_pubkey_import_rsa_raw(key, &md, &ed), 0);
    return key;
}

static void show(unsigned bits, unsigned exponent_bits)
{
    gnutls_pubkey_t key = dear_key(bits, exponent_bits);
    gnutls_x509_crt_t crt, ca;
    gnutls_x509_privkey_t ca_key;
    gnutls_datum_t d;
    gnutls_x509_crt_init(&crt), gnutls_x509_crt_init(&ca);
    gnutls_x509_privkey_init(&ca_key);
    assert_int_equal(gnutls_load_file(folder_path("ca-as.pem"), &d), 0);
    assert_int_equal(gnutls_x509_crt_import(ca, &d, GNUTLS_X509_FMT_PEM), 0);
    gnutls_free(d.data);
    assert_int_equal(gnutls_load_file(folder_path("ca-as.key"), &d), 0);
    assert_int_equal(gnutls_x509_privkey_import(ca_key, &d, GNUTLS_X509_FMT_PEM), 0);
    gnutls_free(d.data);
    gnutls_x509_crt_set_version(crt, 3);
    gnutls_x509_crt_set_serial(crt, "\1", 1);
    gnutls_x509_crt_set_activation_time(crt, time(NULL) - 60);
    gnutls_x509_crt_set_expiration_time(crt, time(NULL) + 3600);
    assert_int_equal(gnutls_x509_crt_set_pubkey(crt, key), 0);
    gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, "dear", 4);
    gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_CLIENT, 0);
    assert_int_equal(gnutls_x509_crt_sign2(crt, ca, ca_key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_pcert_import_x509(&shown, crt, 0), 0);
    gnutls_x509_crt_deinit(crt), gnutls_x509_crt_deinit(ca);
    gnutls_x509_privkey_deinit(ca_key);
    gnutls_pubkey_deinit(key);
}

/* Any bytes of the right length. */
static int sign_badly(gnutls_privkey_t key, gnutls_sign_algorithm_t how, void *ctx, unsigned flags,
                      const gnutls_datum_t *data, gnutls_datum_t *out)
{
    (void)key, (void)how, (void)ctx, (void)flags, (void)data;
    out->data = gnutls_malloc(key_bytes);
    out->size = key_bytes;
    memset(out->data, 0x5a, key_bytes);
    return 0;
}

static int about(gnutls_privkey_t key, unsigned what, void *ctx)
{
    (void)key, (void)ctx;
    if (what == GNUTLS_PRIVKEY_INFO_PK_ALGO)
        return GNUTLS_PK_RSA;
    if (what == GNUTLS_PRIVKEY_INFO_PK_ALGO_BITS)
        return (int)(8 * key_bytes);
    return what & GNUTLS_PRIVKEY_INFO_HAVE_SIGN_ALGO ? 1 : -1;
}

static int offer(gnutls_session_t s, const struct gnutls_cert_retr_st *info,
                 gnutls_pcert_st **certs, unsigned *n, gnutls_ocsp_data_st **ocsp, unsigned *ocsp_n,
                 gnutls_privkey_t *key, unsigned *flags)
{
    (void)s, (void)info;
    *certs = &shown, *n = 1, *key = signer;
    *ocsp = NULL, *ocsp_n = 0, *flags = 0;
    return 0;
}

/* Connects, presents it, and waits until the server closes the connection. */
static void dial(uint16_t port)
{
    raw_tls c = { .fd = raw_connect(port) };
    char answer[512];
    int rc;
    assert_true(c.fd >= 0);
    gnutls_certificate_allocate_credentials(&c.cred);
    gnutls_certificate_set_retrieve_function3(c.cred, offer);
    gnutls_init(&c.s, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL);
    gnutls_priority_set_direct(c.s, "NORMAL:-VERS-ALL:+VERS-TLS1.3", NULL);
    gnutls_credentials_set(c.s, GNUTLS_CRD_CERTIFICATE, c.cred);
    gnutls_transport_set_int(c.s, c.fd);
    do
        rc = gnutls_handshake(c.s);
    while (rc < 0 && !gnutls_error_is_fatal(rc));
    assert_int_equal(rc, 0); /* the client's side finishes before the server verifies it */
    assert_int_equal(raw_read(&c, answer, sizeof answer, NULL), 0);
    raw_close(&c);
}

static int set_up(void **state)
{
    folder_make(state);
    net_ca("ca-as");
    net_ca("ca-csp");
    net_cert("as", "aggregator", "127.0.0.1", "ca-as");
    net_cert("csp", "csp", "127.0.0.1", "ca-csp");
    as = net_id("as", "ca-as");
    csp = net_id("csp", "ca-as");
    key_bytes = MOST; /* GnuTLS asks once */
    gnutls_privkey_init(&signer);
    return gnutls_privkey_import_ext4(signer, NULL, NULL, sign_badly, NULL, NULL, about, 0);
}

static int tear_down(void **state)
{
    gnutls_privkey_deinit(signer);
    tls_id_free(as);
    tls_id_free(csp);
    return folder_remove(state);
}

/* ---- the servers
 * ------------------------------------------------------------------------------ */

static const struct {
    unsigned bits, exponent;
    const char *why;
} cases[] = {
    { 4096, 4096, "key of 4096 bits, exponent of 4096 bits" },
    { 2048, 64, "key of 2048 bits, exponent of 64 bits" },
    { MOST * 8, 16, "key of 16384 bits, exponent of 16 bits" },
};

static atomic_int told;
static x509_peer last;

static void refused(void *ctx, const x509_peer *p)
{
    (void)ctx;
    last = *p;
    told++;
}

static void nobody_comes(https_request *r)
{
    (void)r;
    fail();
}

static void at_the_web_server(void **state)
{
    (void)state;
    https_server *s;
    CHECK_OK(https_server_start(
        &s, &(https_server_config){
                .id = as, .peer_role = "client", .begin = nobody_comes, .refused = refused }));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        told = 0;
        show(cases[i].bits, cases[i].exponent);
        dial(https_server_port(s));
        gnutls_pcert_deinit(&shown);
        assert_int_equal(told, 1);
        assert_int_equal(last.code, X509_WEAK);
        if (!strstr(last.why, cases[i].why))
            fail_msg("\"%s\" does not say \"%s\"", last.why, cases[i].why);
    }
    https_server_stop(s);
}

static uint16_t link_port;

static void *dial_link(void *arg)
{
    dial(link_port);
    return arg;
}

static void at_the_link(void **state)
{
    (void)state;
    int fd;
    tls *t;
    tls_peer want = { .role = "aggregator", .refused = refused };
    CHECK_OK(tls_listen(&fd, "127.0.0.1", 0, &link_port));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pthread_t thread;
        told = 0;
        show(cases[i].bits, cases[i].exponent);
        assert_int_equal(pthread_create(&thread, NULL, dial_link, NULL), 0);
        CHECK_STATUS(tls_accept(&t, fd, csp, &want, 10000, NULL), SEFL_EAUTH);
        if (!strstr(sefl_last_error(), cases[i].why))
            fail_msg("\"%s\" does not say \"%s\"", sefl_last_error(), cases[i].why);
        pthread_join(thread, NULL);
        gnutls_pcert_deinit(&shown);
        assert_int_equal(told, 1);
        assert_int_equal(last.code, X509_WEAK);
    }
    close(fd);
}

/* A request for a certificate, whose signature would be checked as well. */
static void in_a_request(void **state)
{
    (void)state;
    gnutls_pubkey_t key = dear_key(4096, 4096);
    gnutls_x509_crq_t crq;
    gnutls_x509_privkey_t other;
    gnutls_datum_t d;
    uint8_t fingerprint[32];
    gnutls_x509_crq_init(&crq), gnutls_x509_privkey_init(&other);
    assert_int_equal(gnutls_load_file(folder_path("ca-as.key"), &d), 0);
    assert_int_equal(gnutls_x509_privkey_import(other, &d, GNUTLS_X509_FMT_PEM), 0);
    gnutls_free(d.data);
    gnutls_x509_crq_set_version(crq, 1);
    gnutls_x509_crq_set_dn_by_oid(crq, GNUTLS_OID_X520_COMMON_NAME, 0, "dear", 4);
    assert_int_equal(gnutls_x509_crq_set_pubkey(crq, key), 0);
    assert_int_equal(gnutls_x509_crq_sign2(crq, other, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crq_export2(crq, GNUTLS_X509_FMT_DER, &d), 0);
    CHECK_STATUS(x509_request_read(fingerprint, span_of(d.data, d.size)), SEFL_EAUTH);
    assert_non_null(strstr(sefl_last_error(), "costs too much to verify"));
    gnutls_free(d.data);
    gnutls_x509_crq_deinit(crq);
    gnutls_x509_privkey_deinit(other);
    gnutls_pubkey_deinit(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_the_web_server),
        cmocka_unit_test(at_the_link),
        cmocka_unit_test(in_a_request),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
