#include "net_ids.h"

#include "base/file.h"
#include "net/tls_inside.h"

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BIG = 20 << 20 };

static const tls_peer want_as = { .role = "aggregator" }, want_csp = { .role = "csp" };
static const tls_limits quick = { .connect_ms = 3000, .idle_ms = 5000 };
static tls_id *as, *csp;
static gnutls_certificate_credentials_t updater;
static int listener;
static uint16_t port;

/* ---- one side in a thread ---------------------------------------------------------------- */

typedef struct side {
    const tls_id *id;
    const char *host;
    tls_peer want;
    tls_limits lim;
    sefl_status (*then)(channel *ch, void *arg);
    void *arg;
    sefl_status st;
    char why[600];
    pthread_t thread;
} side;

static void *dial_thread(void *p)
{
    side *s = p;
    tls *t;
    s->st = tls_dial(&t, s->host, port, s->id, &s->want, &s->lim);
    if (s->st == SEFL_OK && s->then)
        s->st = s->then(tls_channel(t), s->arg);
    snprintf(s->why, sizeof s->why, "%s", s->st == SEFL_OK ? "" : sefl_last_error());
    tls_close(t);
    return NULL;
}

static void dial_begin(side *s)
{
    assert_int_equal(pthread_create(&s->thread, NULL, dial_thread, s), 0);
}

static side dial_as(sefl_status (*then)(channel *, void *), void *arg)
{
    return (side){
        .id = as, .host = "127.0.0.1", .want = want_csp, .lim = quick, .then = then, .arg = arg
    };
}

static sefl_status one_byte(channel *ch, void *arg)
{
    uint8_t x;
    (void)arg;
    return channel_recv(ch, &x, 1);
}

/* ---- identities -------------------------------------------------------------------------- */

static void identities_have_names(void **state)
{
    (void)state;
    assert_string_equal(tls_id_name(as), "as");
    assert_string_equal(tls_id_role(as), "aggregator");
    assert_string_equal(tls_id_role(csp), "csp");
    assert_memory_not_equal(tls_id_fingerprint(as), tls_id_fingerprint(csp), 32);
    assert_in_range(tls_id_expires(as) - time(NULL), 9 * 86400, 10 * 86400);
    struct stat sb;
    assert_int_equal(stat(as->key_path, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
}

static void says(const char *part)
{
    if (!strstr(sefl_last_error(), part))
        fail_msg("\"%s\" does not say \"%s\"", sefl_last_error(), part);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    tls_id *id;
    x509_info info;
    sefl_buf pem = { 0 };
    char cert[300], key[300], ca[300];
    net_path(cert, "as", ".pem");
    net_path(key, "csp", ".key");
    net_path(ca, "ca-as", ".pem");
    CHECK_STATUS(tls_id_read(&id, cert, key, ca), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "is not the key of"));
    CHECK_STATUS(tls_id_read(&id, cert, "/nonexistent", ca), SEFL_ENOTFOUND);
    net_path(key, "as", ".key");
    CHECK_STATUS(tls_id_read(&id, folder_put("bad.pem", "nonsense", 8), key, ca), SEFL_EPROTO);
    says("bad.pem: not a PEM file");
    CHECK_STATUS(tls_id_read(&id, cert, folder_put("bad.key", "nonsense", 8), ca), SEFL_EPROTO);
    says("bad.key: not a PEM file");
    CHECK_STATUS(tls_id_read(&id, cert, cert, ca), SEFL_EPROTO); /* mixed up */
    says("not a PEM file of the required kind");
    CHECK_STATUS(tls_id_read(&id, cert, key, folder_put("bad.ca", "nonsense", 8)), SEFL_EPROTO);
    says("bad.ca: not a PEM file");
    CHECK_STATUS(x509_info_file(&info, &pem, folder_path("bad.ca")), SEFL_EPROTO);
    says("bad.ca: certificate: not a PEM file");
    buf_clear(&pem);
    assert_null(id);
}

static void certificates_are_not_replaced(void **state)
{
    (void)state;
    char cert[300], key[300];
    const x509_subject s = { .name = "x", .days = 1 };
    net_path(cert, "ca-as", ".pem");
    net_path(key, "fresh", ".key");
    CHECK_STATUS(x509_make(cert, key, &s, NULL, NULL), SEFL_EEXIST);
    assert_int_equal(access(key, F_OK), -1);
    net_path(cert, "fresh", ".pem");
    net_path(key, "ca-as", ".key");
    CHECK_STATUS(x509_make(cert, key, &s, NULL, NULL), SEFL_EEXIST);
}

/* RFC 5915: as many bytes as the curve has, whatever the number is. (Half of all keys have the first bit
 * set, for which GnuTLS 3.7 would write one more.) */
static void keys_have_one_length(void **state)
{
    (void)state;
    unsigned high = 0;
    for (unsigned i = 0; i < 24; i++) {
        const char *path = folder_path("length.key");
        sefl_buf der = { 0 }, file = { 0 };
        gnutls_datum_t key = { 0 };
        CHECK_OK(x509_request_make(&der, path, "a"));
        CHECK_OK(file_read(&file, path, 4096));
        gnutls_datum_t pem = { .data = file.p, .size = (unsigned)file.n };
        assert_int_equal(gnutls_pem_base64_decode2("PRIVATE KEY", &pem, &key), 0);
        assert_int_equal(key.size, 138);
        assert_int_equal(key.data[34], 4); /* OCTET STRING */
        assert_int_equal(key.data[35], 32);
        high += key.data[36] >> 7;
        gnutls_free(key.data);
        buf_clear(&der);
        CHECK_OK(x509_request_for(&der, path, "a")); /* it can be read, and belongs to itself */
        uint8_t fingerprint[32];
        CHECK_OK(x509_request_read(fingerprint, buf_span(&der)));
        buf_clear(&der);
        buf_clear(&file);
        assert_int_equal(unlink(path), 0);
    }
    assert_true(high > 0 && high < 24); /* by chance not so: once in eight million runs */
}

static void subjects_are_checked(void **state)
{
    (void)state;
    char cert[300], key[300], ca[300], ca_key[300], ca2_key[300];
    net_path(cert, "fresh", ".pem");
    net_path(key, "fresh", ".key");
    net_path(ca, "ca-as", ".pem");
    net_path(ca_key, "ca-as", ".key");
    net_path(ca2_key, "ca-csp", ".key");
    const x509_subject bad[] = {
        { .name = "", .days = 1, .role = "client" },
        { .name = "a\nb", .days = 1, .role = "client" },
        { .name = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          .days = 1,
          .role = "client" },
        { .name = "a", .days = 0, .role = "client" },
        { .name = "a", .days = 1, .role = "boss" },
        { .name = "a", .days = 1, .role = "client", .hosts = "a b/c" },
        { .name = "a", .days = 1, .role = "csp", .hosts = "" },
        { .name = "a", .days = 1, .role = "csp", .hosts = ", " },
        { .name = "a", .days = 1 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(x509_make(cert, key, &bad[i], ca, ca_key), SEFL_EINVAL);
    const x509_subject good = { .name = "a", .days = 1, .role = "client" };
    CHECK_STATUS(x509_make(cert, key, &good, NULL, NULL), SEFL_EINVAL);
    CHECK_STATUS(x509_make(cert, key, &good, ca, ca2_key), SEFL_EINVAL);
    assert_int_equal(access(key, F_OK), -1);
    TEST_FAULTS(FAULT_WRITE, st = x509_make(cert, key, &good, ca, ca_key), (void)0);
    unlink(cert), unlink(key);
    TEST_FAULTS(FAULT_ALLOC, st = x509_make(cert, key, &good, ca, ca_key), (void)0);
    tls_id *id = NULL;
    TEST_FAULTS(FAULT_ALLOC, st = tls_id_read(&id, cert, key, ca), tls_id_free(id));
    unlink(cert), unlink(key);
}

/* ---- admission ---------------------------------------------------------------------------- */

/* The listener (CSP) verifies a connecting peer with this identity. */
static void refused_with(const char *name, const char *word)
{
    tls_id *id = net_id(name, "ca-csp");
    side s = dial_as(one_byte, NULL);
    tls *t;
    s.id = id;
    dial_begin(&s);
    CHECK_STATUS(tls_accept(&t, listener, csp, &want_as, 3000, &quick), SEFL_EAUTH);
    if (!strstr(sefl_last_error(), word))
        fail_msg("\"%s\" does not say \"%s\"", sefl_last_error(), word);
    assert_null(t);
    pthread_join(s.thread, NULL);
    if (s.st != SEFL_EAUTH && s.st != SEFL_ECLOSED)
        fail_msg("dialler: %s", s.why);
    tls_id_free(id);
}

/* The protocol name at both ends; NULL names: not negotiated. */
static void protocols(const char *dialled, const char *first, const char *second,
                      const char *agreed)
{
    side s = dial_as(one_byte, NULL);
    tls_peer want = want_as;
    tls *t;
    s.want.protocols[0] = dialled;
    want.protocols[0] = first, want.protocols[1] = second;
    dial_begin(&s);
    sefl_status st = tls_accept(&t, listener, csp, &want, 3000, &quick);
    if (agreed) {
        CHECK_OK(st);
        assert_string_equal(tls_protocol(t), agreed);
        CHECK_OK(channel_send(tls_channel(t), "x", 1));
        CHECK_OK(channel_flush(tls_channel(t)));
    } else if (first) {
        assert_int_not_equal(st, SEFL_OK);
        assert_null(t);
    }
    pthread_join(s.thread, NULL);
    tls_close(t);
    assert_int_equal(s.st == SEFL_OK, agreed != NULL);
    if (!agreed && s.st != SEFL_EPROTO && s.st != SEFL_ECLOSED)
        fail_msg("dialler: %s", s.why);
}

static void streams_have_names(void **state)
{
    (void)state;
    protocols("lane", "link", "lane", "lane");
    protocols("link", "link", "lane", "link");
    protocols("link", "link", NULL, "link");
    protocols("lane", "link", NULL, NULL); /* not served here */
    protocols("links", "link", "lane", NULL);
    protocols(NULL, "link", "lane", NULL); /* a peer that names none */
    protocols("link", NULL, NULL, NULL); /* a listener without a name: the connecting side leaves */
    protocols(NULL, NULL, NULL, "");
}

static void make_weak(const char *name, gnutls_pk_algorithm_t pk, unsigned bits,
                      gnutls_digest_algorithm_t dig)
{
    char path[300], ca_cert[300], ca_key[300];
    gnutls_x509_crt_t crt, ca;
    gnutls_x509_privkey_t key, signer;
    gnutls_datum_t d;
    net_path(ca_cert, "ca-as", ".pem");
    net_path(ca_key, "ca-as", ".key");
    gnutls_x509_crt_init(&crt), gnutls_x509_crt_init(&ca);
    gnutls_x509_privkey_init(&key), gnutls_x509_privkey_init(&signer);
    assert_int_equal(gnutls_load_file(ca_cert, &d), 0);
    assert_int_equal(gnutls_x509_crt_import(ca, &d, GNUTLS_X509_FMT_PEM), 0);
    gnutls_free(d.data);
    assert_int_equal(gnutls_load_file(ca_key, &d), 0);
    assert_int_equal(gnutls_x509_privkey_import(signer, &d, GNUTLS_X509_FMT_PEM), 0);
    gnutls_free(d.data);
    assert_int_equal(gnutls_x509_privkey_generate(key, pk, bits, 0), 0);
    gnutls_x509_crt_set_version(crt, 3);
    gnutls_x509_crt_set_serial(crt, "\1", 1);
    gnutls_x509_crt_set_activation_time(crt, time(NULL) - 60);
    gnutls_x509_crt_set_expiration_time(crt, time(NULL) + 3600);
    gnutls_x509_crt_set_key(crt, key);
    gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                  (unsigned)strlen(name));
    gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME, 0,
                                  "sefl aggregator", 15);
    gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE);
    gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_CLIENT, 0);
    assert_int_equal(gnutls_x509_crt_sign2(crt, ca, signer, dig, 0), 0);
    net_path(path, name, ".pem");
    gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &d);
    FILE *f = fopen(path, "w");
    fwrite(d.data, 1, d.size, f), fclose(f), gnutls_free(d.data);
    net_path(path, name, ".key");
    gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &d);
    f = fopen(path, "w");
    fwrite(d.data, 1, d.size, f), fclose(f), gnutls_free(d.data);
    gnutls_x509_crt_deinit(crt), gnutls_x509_crt_deinit(ca);
    gnutls_x509_privkey_deinit(key), gnutls_x509_privkey_deinit(signer);
}

static void diallers_are_judged(void **state)
{
    (void)state;
    int64_t now = time(NULL);
    net_ca("ca-foreign");
    net_cert("foreign", "aggregator", NULL, "ca-foreign");
    net_cert("a-client", "client", NULL, "ca-as");
    net_cert("a-csp", "csp", NULL, "ca-as");
    net_cert_at("old", "aggregator", NULL, "ca-as", now - 2 * 86400, 1);
    net_cert_at("early", "aggregator", NULL, "ca-as", now + 86400, 1);
    make_weak("short", GNUTLS_PK_RSA, 1024, GNUTLS_DIG_SHA256);
    make_weak("sha1", GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1),
              GNUTLS_DIG_SHA1);
    refused_with("foreign", "not issued by a trusted CA");
    refused_with("a-client", "role \"client\" instead of \"aggregator\"");
    refused_with("a-csp", "not for client authentication");
    refused_with("old", "has expired");
    refused_with("early", "valid from");
    refused_with("short", "RSA key of 1024 bits");
    refused_with("sha1", "SHA1");
}

static void listeners_are_judged(void **state)
{
    (void)state;
    static const struct {
        const char *name, *role, *hosts, *ca, *dial, *word;
    } c[] = {
        { "l-foreign", "csp", "127.0.0.1", "ca-foreign", "127.0.0.1",
          "not issued by a trusted CA" },
        { "l-role", "aggregator", "127.0.0.1", "ca-csp", "127.0.0.1", "role \"aggregator\"" },
        { "l-use", "client", "127.0.0.1", "ca-csp", "127.0.0.1", "not for server" },
        { "l-host", "csp", "csp.example,192.0.2.1", "ca-csp", "127.0.0.1", "not for host" },
        { "l-name", "csp", "127.0.0.1", "ca-csp", "localhost", "not for host \"localhost\"" },
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        net_cert(c[i].name, c[i].role, c[i].hosts, c[i].ca);
        tls_id *id = net_id(c[i].name, "ca-as");
        side s = dial_as(NULL, NULL);
        tls *t;
        s.host = c[i].dial;
        dial_begin(&s);
        /* it learns this from an alert */
        CHECK_STATUS(tls_accept(&t, listener, id, &want_as, 3000, &quick), SEFL_EAUTH);
        pthread_join(s.thread, NULL);
        CHECK_STATUS(s.st, SEFL_EAUTH);
        if (!strstr(s.why, c[i].word))
            fail_msg("\"%s\" does not say \"%s\"", s.why, c[i].word);
        tls_id_free(id);
    }
}

static void keys_can_be_pinned(void **state)
{
    (void)state;
    tls *t;
    for (int right = 0; right < 2; right++) {
        side s = dial_as(one_byte, NULL);
        s.want.fingerprint = tls_id_fingerprint(right ? csp : as);
        dial_begin(&s);
        sefl_status st = tls_accept(&t, listener, csp, &want_as, 3000, &quick);
        if (right) {
            CHECK_OK(st);
            assert_string_equal(tls_peer_info(t)->name, "as");
            assert_memory_equal(tls_peer_info(t)->fingerprint, tls_id_fingerprint(as), 32);
            CHECK_OK(channel_send(tls_channel(t), "x", 1));
            CHECK_OK(channel_flush(tls_channel(t)));
            tls_close(t);
        }
        pthread_join(s.thread, NULL);
        CHECK_STATUS(s.st, right ? SEFL_OK : SEFL_EAUTH);
        if (!right)
            assert_non_null(strstr(s.why, "pinned"));
    }
}

/* A plain GnuTLS client: no certificate, or an old version. */
typedef struct raw_client {
    const char *priority;
    const char *garbage;
    int rc;
    pthread_t thread;
} raw_client;

static void *raw_thread(void *p)
{
    raw_client *c = p;
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char x[64];
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0)
        abort();
    if (c->garbage) {
        (void)!write(fd, c->garbage, strlen(c->garbage));
        while (read(fd, x, sizeof x) > 0)
            ;
        close(fd);
        return NULL;
    }
    gnutls_session_t s;
    gnutls_certificate_credentials_t cred;
    gnutls_certificate_allocate_credentials(&cred);
    gnutls_init(&s, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL);
    gnutls_priority_set_direct(s, c->priority, NULL);
    gnutls_credentials_set(s, GNUTLS_CRD_CERTIFICATE, cred);
    gnutls_transport_set_int(s, fd);
    c->rc = gnutls_handshake(s);
    if (c->rc == 0)
        c->rc = (int)gnutls_record_recv(s, x, 1);
    gnutls_deinit(s);
    gnutls_certificate_free_credentials(cred);
    close(fd);
    return NULL;
}

static void strangers_are_refused(void **state)
{
    (void)state;
    static const struct {
        raw_client c;
        sefl_status st;
        const char *word;
    } t[] = {
        { { .priority = "NORMAL:-VERS-ALL:+VERS-TLS1.3" }, SEFL_EAUTH, "no certificate" },
        { { .priority = "NORMAL:-VERS-ALL:+VERS-TLS1.2" }, SEFL_EPROTO, "TLS 1.3" },
        { { .garbage = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" }, SEFL_EPROTO, "" },
        { { .garbage = "\x16\x03\x01\x40\x00garbage garbage" }, SEFL_EIO, "in time" },
        { { .garbage = "\x16\x03\x01\xff\xffgarbage garbage" }, SEFL_EPROTO, "" },
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        raw_client c = t[i].c;
        tls *got;
        assert_int_equal(pthread_create(&c.thread, NULL, raw_thread, &c), 0);
        const tls_limits lim = { .connect_ms = t[i].st == SEFL_EIO ? 100 : 3000 };
        CHECK_STATUS(tls_accept(&got, listener, csp, &want_as, 3000, &lim), t[i].st);
        if (!strstr(sefl_last_error(), t[i].word))
            fail_msg("%zu: \"%s\" does not say \"%s\"", i, sefl_last_error(), t[i].word);
        pthread_join(c.thread, NULL);
        if (c.priority)
            assert_true(c.rc < 0);
    }
}

/* Twenty silent or half-finished peers, and the expected one. */
static void silent_strangers_block_nobody(void **state)
{
    (void)state;
    int fd[20];
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
    side s = dial_as(one_byte, NULL);
    tls *t;
    const tls_limits lim = { .connect_ms = 20000 };
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 20; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fd[i], (struct sockaddr *)&a, sizeof a), 0);
        if (i % 2)
            assert_int_equal(write(fd[i], "\x16\x03\x01\x40\x00", 5), 5);
    }
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    dial_begin(&s);
    CHECK_OK(tls_accept(&t, listener, csp, &want_as, 3000, &lim));
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_in_range(after.tv_sec - before.tv_sec, 0, 4);
    CHECK_OK(channel_send(tls_channel(t), "x", 1));
    CHECK_OK(channel_flush(tls_channel(t)));
    pthread_join(s.thread, NULL);
    CHECK_OK(s.st);
    tls_close(t);
    for (int i = 0; i < 20; i++)
        close(fd[i]);
}

/* ---- the stream -------------------------------------------------------------------------- */

/* Both ends send first and read afterwards: more than the kernel buffers, less than the inbox. */
static sefl_status swap(channel *ch, void *arg)
{
    sefl_status st = SEFL_OK;
    uint8_t *p = malloc(BIG), fill = *(uint8_t *)arg;
    unsigned sum = 0;
    memset(p, fill, BIG);
    SEFL_TRY(channel_send(ch, p, BIG));
    SEFL_TRY(channel_recv(ch, p, 3));
    SEFL_TRY(channel_recv(ch, p + 3, BIG - 3));
    for (size_t i = 0; i < BIG; i++)
        sum += p[i];
    SEFL_CHECK(sum == (3u - fill) * BIG, SEFL_EPROTO, "sum %u", sum);
done:
    free(p);
    return st;
}

static void both_ends_may_send_at_once(void **state)
{
    (void)state;
    uint8_t one = 1, two = 2;
    side s = dial_as(swap, &one);
    tls *t;
    dial_begin(&s);
    CHECK_OK(tls_accept(&t, listener, csp, &want_as, 3000, &quick));
    CHECK_OK(swap(tls_channel(t), &two));
    pthread_join(s.thread, NULL);
    CHECK_OK(s.st);
    tls_close(t);
}

/* Small and large sends in any order arrive in that order. */
static sefl_status sends_of_all_sizes(channel *ch, void *arg)
{
    size_t *total = arg;
    sefl_status st = SEFL_OK;
    seeded g, sizes;
    seeded_init(&g, 1, "bytes");
    seeded_init(&sizes, 1, "sizes");
    uint8_t *buf = malloc(1 << 18);
    for (int i = 0; i < 400; i++) {
        size_t n = (size_t)seeded_below(&sizes, (uint64_t)1 << seeded_below(&sizes, 18)) + 1;
        seeded_fill(&g, buf, n);
        *total += n;
        SEFL_TRY(channel_send(ch, buf, n));
        if (seeded_below(&sizes, 10) == 0)
            SEFL_TRY(channel_flush(ch));
    }
    SEFL_TRY(channel_flush(ch));
done:
    free(buf);
    return st;
}

static void order_is_kept(void **state)
{
    (void)state;
    size_t sent = 0, total = 0;
    side s = dial_as(sends_of_all_sizes, &sent);
    tls *t;
    seeded g, sizes;
    uint8_t *got = malloc(1 << 18), *want = malloc(1 << 18), rest;
    seeded_init(&g, 1, "bytes");
    seeded_init(&sizes, 2, "other sizes");
    dial_begin(&s);
    CHECK_OK(tls_accept(&t, listener, csp, &want_as, 3000, &quick));
    for (int i = 0; i < 100; i++) {
        size_t n = (size_t)seeded_below(&sizes, (uint64_t)1 << seeded_below(&sizes, 18)) + 1;
        seeded_fill(&g, want, n);
        CHECK_OK(channel_recv(tls_channel(t), got, n));
        assert_memory_equal(got, want, n);
        total += n;
    }
    sefl_status st;
    while ((st = channel_recv(tls_channel(t), &rest, 1)) == SEFL_OK) {
        seeded_fill(&g, want, 1);
        assert_int_equal(rest, want[0]);
        total++;
    }
    CHECK_STATUS(st, SEFL_ECLOSED);
    pthread_join(s.thread, NULL);
    CHECK_OK(s.st);
    assert_int_equal(total, sent);
    tls_close(t);
    free(got), free(want);
}

static void silence_and_closing_end_a_wait(void **state)
{
    (void)state;
    tls *t;
    uint8_t x;
    const tls_limits lim = { .connect_ms = 3000, .idle_ms = 50 };
    side s = dial_as(one_byte, NULL);
    CHECK_STATUS(tls_accept(&t, listener, csp, &want_as, 20, NULL), SEFL_ETIMEOUT);
    dial_begin(&s);
    CHECK_OK(tls_accept(&t, listener, csp, &want_as, 3000, &lim));
    CHECK_STATUS(channel_recv(tls_channel(t), &x, 1), SEFL_ETIMEOUT);
    CHECK_STATUS(channel_send(tls_channel(t), &x, 1), SEFL_ECLOSED); /* dead now */
    tls_close(t);
    pthread_join(s.thread, NULL);
    CHECK_STATUS(s.st, SEFL_ECLOSED);
}

/* A peer that reads nothing: the send ends too. */
static sefl_status sleep_a_while(channel *ch, void *arg)
{
    (void)ch;
    while (!*(_Atomic int *)arg)
        usleep(10000);
    return SEFL_OK;
}

static void a_peer_that_takes_nothing(void **state)
{
    (void)state;
    tls *t;
    _Atomic int over = 0;
    const tls_limits lim = { .connect_ms = 3000, .idle_ms = 100 };
    side s = dial_as(sleep_a_while, &over);
    void *p = calloc(1, BIG);
    dial_begin(&s);
    CHECK_OK(tls_accept(&t, listener, csp, &want_as, 3000, &lim));
    CHECK_STATUS(channel_send(tls_channel(t), p, BIG), SEFL_ETIMEOUT);
    over = 1;
    pthread_join(s.thread, NULL);
    tls_close(t);
    free(p);
}

/* Computes for arg milliseconds, then answers one byte. */
static sefl_status answer_late(channel *ch, void *arg)
{
    uint8_t x;
    sefl_status st = channel_recv(ch, &x, 1);
    usleep(1000 * *(unsigned *)arg);
    if (st == SEFL_OK)
        st = channel_send(ch, &x, 1);
    return st == SEFL_OK ? channel_flush(ch) : st;
}

/* A computing peer sends heartbeats, so it may take longer than the silence limit, but not forever.
 * A link that carries nothing is detected. */
static void a_silent_link_is_no_slow_peer(void **state)
{
    (void)state;
    enum { SILENT = 600 };
    static const struct {
        const char *what;
        unsigned beats, takes, idle;
        sefl_status st;
        const char *why;
    } t[] = { { "slow", SILENT, SILENT * 3 / 2, 20000, SEFL_OK, "" },
              { "silent", 0, SILENT * 3 / 2, 20000, SEFL_ETIMEOUT, "peer was silent for 600 ms" },
              { "too slow", SILENT, 2 * SILENT, SILENT * 3 / 2, SEFL_ETIMEOUT,
                "made no progress" } };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        tls *c;
        uint8_t x = 7;
        unsigned takes = t[i].takes;
        side s = dial_as(answer_late, &takes);
        const tls_limits lim = { .connect_ms = 3000, .idle_ms = t[i].idle, .silent_ms = SILENT };
        s.lim.silent_ms = t[i].beats;
        dial_begin(&s);
        CHECK_OK(tls_accept(&c, listener, csp, &want_as, 3000, &lim));
        CHECK_OK(channel_send(tls_channel(c), &x, 1));
        sefl_status st = channel_recv(tls_channel(c), &x, 1);
        if (st != t[i].st || (st != SEFL_OK && !strstr(sefl_last_error(), t[i].why)))
            fail_msg("%s: %s: %s", t[i].what, sefl_status_name(st), sefl_last_error());
        pthread_join(s.thread, NULL);
        tls_close(c);
    }
}

static void *interrupt_soon(void *p)
{
    usleep(50000);
    tls_interrupt(p);
    return NULL;
}

static void a_wait_can_be_interrupted(void **state)
{
    (void)state;
    tls *t;
    uint8_t x;
    pthread_t th;
    side s = dial_as(one_byte, NULL);
    dial_begin(&s);
    CHECK_OK(tls_accept(&t, listener, csp, &want_as, 3000, &quick));
    assert_int_equal(pthread_create(&th, NULL, interrupt_soon, t), 0);
    CHECK_STATUS(channel_recv(tls_channel(t), &x, 1), SEFL_ECLOSED);
    assert_non_null(strstr(sefl_last_error(), "on request"));
    pthread_join(th, NULL);
    tls_close(t);
    pthread_join(s.thread, NULL);
    CHECK_STATUS(s.st, SEFL_ECLOSED);
}

static void nobody_listens(void **state)
{
    (void)state;
    tls *t;
    int fd;
    uint16_t p;
    CHECK_OK(tls_listen(&fd, "::1", 0, &p));
    close(fd);
    CHECK_STATUS(tls_dial(&t, "::1", p, as, &want_csp, &quick), SEFL_EIO);
    assert_non_null(strstr(sefl_last_error(), "cannot reach"));
    CHECK_STATUS(tls_dial(&t, "no such host", p, as, &want_csp, &quick), SEFL_EIO);
    CHECK_STATUS(tls_listen(&fd, "192.0.2.1", 0, &p), SEFL_EIO);
}

static void both_families_in_one_listener(void **state)
{
    (void)state;
    static const char *const hosts[] = { "127.0.0.1", "::1", "localhost" };
    int first = listener;
    uint16_t first_port = port;
    net_cert("csp6", "csp", "127.0.0.1, ::1,localhost", "ca-csp");
    tls_id *id = net_id("csp6", "ca-as");
    CHECK_OK(tls_listen(&listener, "::", 0, &port));
    for (size_t i = 0; i < 3; i++) {
        side s = dial_as(one_byte, NULL);
        tls *t;
        s.host = hosts[i];
        dial_begin(&s);
        CHECK_OK(tls_accept(&t, listener, id, &want_as, 3000, &quick));
        CHECK_OK(channel_send(tls_channel(t), "x", 1));
        CHECK_OK(channel_flush(tls_channel(t)));
        tls_close(t);
        pthread_join(s.thread, NULL);
        CHECK_OK(s.st);
    }
    tls_id_free(id);
    close(listener);
    listener = first, port = first_port;
}

/* A TLS control message and the data after it arrive together: both are processed. */
static void *update_thread(void *arg)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1, rc;
    bool ask = *(bool *)arg;
    char x;
    gnutls_session_t s;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0)
        abort();
    gnutls_init(&s, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL);
    gnutls_priority_set_direct(s, "NORMAL:-VERS-ALL:+VERS-TLS1.3", NULL);
    gnutls_credentials_set(s, GNUTLS_CRD_CERTIFICATE, updater);
    gnutls_transport_set_int(s, fd);
    while ((rc = gnutls_handshake(s)) < 0 && !gnutls_error_is_fatal(rc))
        ;
    if (rc != 0 || gnutls_record_recv(s, &x, 1) != 1) /* the other side is in its loop now */
        abort();
    setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
    if (gnutls_session_key_update(s, ask ? GNUTLS_KU_PEER : 0) != 0 ||
        gnutls_record_send(s, "hello", 5) != 5)
        abort();
    on = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
    while (read(fd, &x, 1) > 0) /* until the other side has seen enough */
        ;
    gnutls_deinit(s);
    close(fd);
    return NULL;
}

static void key_updates_hide_nothing(void **state)
{
    (void)state;
    gnutls_certificate_allocate_credentials(&updater);
    assert_int_equal(gnutls_certificate_set_x509_key_file(updater, as->cert_path, as->key_path,
                                                          GNUTLS_X509_FMT_PEM),
                     0);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        bool ask = i == 1;
        char got[5];
        tls *t;
        assert_int_equal(pthread_create(&thread, NULL, update_thread, &ask), 0);
        CHECK_OK(tls_accept(&t, listener, csp, &want_as, 3000, &quick));
        CHECK_OK(channel_send(tls_channel(t), "x", 1));
        CHECK_OK(channel_recv(tls_channel(t), got, 5));
        assert_memory_equal(got, "hello", 5);
        tls_close(t);
        pthread_join(thread, NULL);
    }
    gnutls_certificate_free_credentials(updater);
}

static int set_up(void **state)
{
    if (folder_make(state) != 0)
        return -1;
    net_ca("ca-as");
    net_ca("ca-csp");
    net_cert("as", "aggregator", "127.0.0.1", "ca-as");
    net_cert("csp", "csp", "127.0.0.1", "ca-csp");
    as = net_id("as", "ca-csp");
    csp = net_id("csp", "ca-as");
    CHECK_OK(tls_listen(&listener, "127.0.0.1", 0, &port));
    return 0;
}

static int tear_down(void **state)
{
    close(listener);
    tls_id_free(as);
    tls_id_free(csp);
    return folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identities_have_names),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(certificates_are_not_replaced),
        cmocka_unit_test(keys_have_one_length),
        cmocka_unit_test(subjects_are_checked),
        cmocka_unit_test(diallers_are_judged),
        cmocka_unit_test(listeners_are_judged),
        cmocka_unit_test(keys_can_be_pinned),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(silent_strangers_block_nobody),
        cmocka_unit_test(both_ends_may_send_at_once),
        cmocka_unit_test(order_is_kept),
        cmocka_unit_test(silence_and_closing_end_a_wait),
        cmocka_unit_test(a_peer_that_takes_nothing),
        cmocka_unit_test(a_silent_link_is_no_slow_peer),
        cmocka_unit_test(a_wait_can_be_interrupted),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(both_families_in_one_listener),
        cmocka_unit_test(key_updates_hide_nothing),
        cmocka_unit_test(streams_have_names),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
