/* Admission: every kind of wrong certificate is refused on every path before a byte of a body is
 * read; revocation while connections are open; certificates of an organisation's own CA; the
 * enrolment path. */
#include "net_ids.h"
#include "net_raw.h"

#include "base/file.h"
#include "net/https_client.h"
#include "net/https_server.h"

#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic int begun, body_bytes, dropped, ended_closed, told[X509_VERDICTS];
static https_server *server;
static tls_id *as;
static trust *list;
static sefl_log logged;

/* ---- the server ---------------------------------------------------------------------------- */

static sefl_status take(https_request *r, sefl_span bytes)
{
    (void)r;
    body_bytes += (int)bytes.n;
    return SEFL_OK;
}

static void taken(https_request *r, sefl_status st)
{
    if (st == SEFL_ECLOSED)
        ended_closed++;
    https_answer_text(r, 200, "took %d of %s", body_bytes, x509_verdict_text(r->peer.code));
}

static void again(https_request *r)
{
    https_answer_text(r, 200, "woken");
}

static void drop(https_request *r)
{
    (void)r;
    dropped++;
}

static void begin(https_request *r)
{
    begun++;
    r->drop = drop;
    if (strcmp(r->path, "/park") == 0) {
        r->resume = again;
        https_park(r, UINT64_MAX / 2);
    } else if (r->body_bytes > 0) {
        r->body = take, r->end = taken;
    } else {
        https_answer_text(r, 200, "hello %s %s", r->peer.name, r->peer.role);
    }
}

static void refused(void *ctx, const x509_peer *p)
{
    (void)ctx;
    told[p->code]++;
}

/* ---- the list ------------------------------------------------------------------------------ */

static void pem(sefl_buf *out, const char *name)
{
    char path[300];
    net_path(path, name, ".pem");
    CHECK_OK(file_read(out, path, 1 << 16));
}

static void add_issuer(const char *ca, trust_role role, bool listed, const char *unit)
{
    sefl_buf b = { 0 }, der = { 0 };
    x509_info info;
    trust_issuer i = { .role = role, .state = TRUST_ACTIVE, .listed = listed };
    pem(&b, ca);
    CHECK_OK(x509_info_read(&info, buf_span(&b), &der));
    assert_true(info.is_ca);
    memcpy(i.key, info.fingerprint, sizeof i.key);
    snprintf(i.unit, sizeof i.unit, "%s", unit);
    i.der = buf_span(&der);
    CHECK_OK(trust_issuer_put(list, &i));
    buf_clear(&b), buf_clear(&der);
}

static void key_of(uint8_t out[32], const char *name)
{
    sefl_buf b = { 0 };
    x509_info info;
    pem(&b, name);
    CHECK_OK(x509_info_read(&info, buf_span(&b), NULL));
    memcpy(out, info.fingerprint, 32);
    buf_clear(&b);
}

static void set_member(const char *name, trust_state state)
{
    trust_member m = { .role = TRUST_CLIENT, .state = state };
    key_of(m.key, name);
    snprintf(m.name, sizeof m.name, "%s", name);
    CHECK_OK(trust_member_put(list, &m));
}

/* The server gets its own list, as if read from a file. */
static allowlist *snapshot(void)
{
    sefl_buf b = { 0 };
    trust *t;
    allowlist *g;
    CHECK_OK(trust_print(&b, list));
    CHECK_OK(trust_parse(&t, buf_span(&b)));
    CHECK_OK(allowlist_new(&g, t));
    trust_free(t);
    buf_clear(&b);
    return g;
}

static void apply(void)
{
    allowlist *g = snapshot();
    https_server_set_allowlist(server, g);
    allowlist_free(g);
}

/* ---- certificates that x509_make cannot create ----------------------------------------------- */

static gnutls_x509_privkey_t read_key(const char *name)
{
    gnutls_x509_privkey_t key;
    sefl_buf b = { 0 };
    char path[300];
    net_path(path, name, ".key");
    CHECK_OK(file_read(&b, path, 1 << 16));
    gnutls_x509_privkey_init(&key);
    assert_int_equal(gnutls_x509_privkey_import2(key, &(gnutls_datum_t){ b.p, (unsigned)b.n },
                                                 GNUTLS_X509_FMT_PEM, NULL, 0),
                     0);
    buf_clear(&b);
    return key;
}

/* As an organisation's CA would, with its own units (raw: as DER). bits != 0: an RSA key of this
 * size. */
static void org_cert_of(const char *name, sefl_span unit, unsigned raw, const char *ca,
                        unsigned bits)
{
    gnutls_x509_crt_t crt, issuer;
    gnutls_x509_privkey_t key, signer = read_key(ca);
    gnutls_datum_t out;
    sefl_buf b = { 0 };
    char path[300];
    pem(&b, ca);
    gnutls_x509_crt_init(&issuer);
    gnutls_x509_crt_import(issuer, &(gnutls_datum_t){ b.p, (unsigned)b.n }, GNUTLS_X509_FMT_PEM);
    gnutls_x509_privkey_init(&key);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, bits ? GNUTLS_PK_RSA : GNUTLS_PK_ECDSA,
                         bits ? bits : GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    gnutls_x509_crt_init(&crt);
    gnutls_x509_crt_set_version(crt, 3);
    gnutls_x509_crt_set_serial(crt, "\5", 1);
    gnutls_x509_crt_set_activation_time(crt, time(NULL) - 60);
    gnutls_x509_crt_set_expiration_time(crt, time(NULL) + 86400);
    assert_int_equal(gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME,
                                                   raw, unit.p, (unsigned)unit.n),
                     0);
    gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                  (unsigned)strlen(name));
    gnutls_x509_crt_set_key(crt, key);
    gnutls_x509_crt_set_basic_constraints(crt, 0, -1);
    gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE);
    gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_CLIENT, 0);
    assert_int_equal(gnutls_x509_crt_sign2(crt, issuer, signer, GNUTLS_DIG_SHA256, 0), 0);
    gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &out);
    net_path(path, name, ".pem");
    CHECK_OK(file_write_new(path, span_of(out.data, out.size), 0644));
    gnutls_free(out.data);
    gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &out);
    net_path(path, name, ".key");
    CHECK_OK(file_write_new(path, span_of(out.data, out.size), 0600));
    gnutls_free(out.data);
    gnutls_x509_crt_deinit(crt), gnutls_x509_crt_deinit(issuer);
    gnutls_x509_privkey_deinit(key), gnutls_x509_privkey_deinit(signer);
    buf_clear(&b);
}

static void org_cert(const char *name, const char *unit, const char *ca, unsigned bits)
{
    org_cert_of(name, span_of_str(unit), 0, ca, bits);
}

static int setup(void **state)
{
    int rc = folder_make_quick(state);
    int64_t now = (int64_t)time(NULL);
    net_ca("ca"), net_ca("csp-ca"), net_ca("org"), net_ca("foreign");
    net_cert("as", "aggregator", "127.0.0.1", "ca");
    net_cert("good", "client", NULL, "ca");
    net_cert("other", "client", NULL, "ca");
    net_cert("revoked", "client", NULL, "ca");
    net_cert("unlisted", "client", NULL, "ca");
    net_cert("stranger", "client", NULL, "foreign");
    net_cert("sybil", "client", NULL, "csp-ca"); /* CSP's CA cannot create clients */
    net_cert("wrong", "csp", "127.0.0.1", "ca");
    net_cert("server", "aggregator", "127.0.0.1", "ca");
    net_cert_at("old", "client", NULL, "ca", now - 20 * 86400, 10);
    net_cert_at("early", "client", NULL, "ca", now + 86400, 10);
    org_cert("doctor", "Radiology", "org", 0);
    org_cert("cook", "Kitchen", "org", 0);
    org_cert("nurse", "Radiology", "org", 0);
    org_cert("porter", "Radiology", "org", 0);
    org_cert("boss", "sefl aggregator", "org", 0);
    org_cert("marked", "sefl client", "org", 0); /* ... and not of the unit agreed on */
    org_cert("weak", "Radiology", "org", 1024);
    as = net_id("as", "ca");
    CHECK_OK(trust_new(&list));
    add_issuer("ca", TRUST_CLIENT, true, "");
    add_issuer("csp-ca", TRUST_CSP, false, "");
    add_issuer("org", TRUST_CLIENT, false, "Radiology");
    logged =
        log_open(open(folder_path("log"), O_WRONLY | O_CREAT | O_APPEND, 0600), LOG_INFO, NULL);
    assert_true(logged.fd >= 0);
    static const char *const members[] = { "good", "other", "old", "early", "wrong", "server" };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        set_member(members[i], TRUST_ACTIVE);
    set_member("revoked", TRUST_REVOKED);
    allowlist *g = snapshot();
    CHECK_OK(https_server_start(&server, &(https_server_config){ .id = as,
                                                                 .peer_role = "client",
                                                                 .allowlist = g,
                                                                 .open_path = "/v1/enroll",
                                                                 .open_max = 100,
                                                                 .body_max = 10000,
                                                                 .limits.per_issuer = 3,
                                                                 .begin = begin,
                                                                 .refused = refused,
                                                                 .log = &logged }));
    allowlist_free(g);
    return rc;
}

static int teardown(void **state)
{
    https_server_stop(server);
    close(logged.fd);
    tls_id_free(as);
    trust_free(list);
    return folder_remove(state);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void open_as(raw_tls *c, const char *name)
{
    char cert[300], key[300];
    net_path(cert, name ? name : "", ".pem");
    net_path(key, name ? name : "", ".key");
    assert_int_equal(raw_open(c, https_server_port(server), name ? cert : NULL, key, NULL), 0);
}

/* Only headers, which announce a body that is never sent. */
static const char *knock(const char *name, const char *line)
{
    static char answer[4096];
    char text[512];
    raw_tls c;
    open_as(&c, name);
    snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n", line);
    assert_true(raw_send(&c, text, strlen(text)));
    raw_read(&c, answer, sizeof answer, "\r\n\r\n");
    raw_close(&c);
    return answer;
}

static const struct {
    const char *name;
    x509_verdict_code code;
} wrong_ones[] = {
    { NULL, X509_NONE },           { "stranger", X509_UNKNOWN_ISSUER },
    { "revoked", X509_WITHDRAWN }, { "old", X509_EXPIRED },
    { "early", X509_NOT_YET },     { "unlisted", X509_NOT_LISTED },
    { "sybil", X509_WRONG_ROLE },  { "wrong", X509_WRONG_USE },
    { "server", X509_WRONG_ROLE }, { "cook", X509_WRONG_ROLE },
    { "boss", X509_WRONG_ROLE },   { "weak", X509_WEAK },
    { "marked", X509_WRONG_ROLE },
};

static const char *const lines[] = {
    "GET /healthz",  "GET /v1/task",  "GET /v1/round?after=0&wait=60",
    "GET /v1/model", "GET /v1/vocab", "HEAD /v1/round/1/update/00",
    "GET /v1/init",  "PUT /park",     "PUT /v1/round/1/update/00",
    "DELETE /x",     "GET /",         "PUT /v1/enroll",
};

static void refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_ones / sizeof *wrong_ones; i++)
        for (size_t j = 0; j < sizeof lines / sizeof *lines; j++) {
            int before = begun, counted = told[wrong_ones[i].code];
            const char *answer = knock(wrong_ones[i].name, lines[j]);
            if (!strstr(answer, " 403 "))
                fail_msg("%s, %s: %s", wrong_ones[i].name, lines[j], answer);
            assert_int_equal(begun, before); /* the handler is never called */
            if (told[wrong_ones[i].code] != counted + 1)
                fail_msg("%s: not counted as %s", wrong_ones[i].name,
                         x509_verdict_text(wrong_ones[i].code));
        }
    assert_int_equal(body_bytes, 0);
}

/* The answer does not reveal which of them it was. */
static void generic(void **state)
{
    char first[4096] = "";
    (void)state;
    for (size_t i = 0; i < sizeof wrong_ones / sizeof *wrong_ones; i++) {
        char one[4096];
        snprintf(one, sizeof one, "%s", knock(wrong_ones[i].name, "PUT /a"));
        char *date = strstr(one, "Date: ");
        if (date)
            memset(date, ' ', strcspn(date, "\r"));
        if (i == 0)
            strcpy(first, one);
        assert_string_equal(one, first);
    }
}

/* Lines of the log with both texts in them. */
static unsigned lines_with(const char *one, const char *two)
{
    sefl_buf b = { 0 };
    unsigned n = 0;
    CHECK_OK(file_read(&b, folder_path("log"), 1 << 22));
    CHECK_OK(wr_u8(&b, 0));
    for (char *line = (char *)b.p, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = 0;
        n += strstr(line, one) && strstr(line, two);
    }
    buf_clear(&b);
    return n;
}

/* "field":"all digits of this certificate's key" */
static const char *digits(const char *field, const char *name)
{
    static char out[100];
    uint8_t key[32];
    int n = snprintf(out, sizeof out, "\"%s\":\"", field);
    key_of(key, name);
    for (int i = 0; i < 32; i++)
        n += snprintf(out + n, sizeof out - (size_t)n, "%02x", key[i]);
    snprintf(out + n, sizeof out - (size_t)n, "\"");
    return out;
}

/* A refused peer that a CA vouches for: the log has enough to revoke the peer or its CA. */
static void said_who(void **state)
{
    (void)state;
    raw_tls c;
    char answer[4096];
    static const char big[] = "PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n";
    usleep(1100000); /* ignores the lines of earlier tests */
    for (size_t i = 0; i < sizeof wrong_ones / sizeof *wrong_ones; i++)
        if (wrong_ones[i].name && strcmp(wrong_ones[i].name, "weak") != 0) {
            knock(wrong_ones[i].name, "GET /a");
            if (lines_with("peer refused", digits("key", wrong_ones[i].name)) == 0)
                fail_msg("no key of %s in the log", wrong_ones[i].name);
        }
    char issuer[100];
    snprintf(issuer, sizeof issuer, "%s", digits("issuer", "ca"));
    assert_true(lines_with(digits("key", "old"), issuer) > 0); /* although its chain is invalid */
    assert_true(lines_with(digits("key", "early"), issuer) > 0);
    open_as(&c, "doctor");
    assert_true(raw_send(&c, big, sizeof big - 1));
    raw_read(&c, answer, sizeof answer, "\r\n\r\n");
    raw_close(&c);
    assert_non_null(strstr(answer, " 413 "));
    assert_int_equal(lines_with("\"reason\":\"body_too_large\"", digits("key", "doctor")), 1);
    assert_int_equal(lines_with("\"reason\":\"body_too_large\"", digits("issuer", "org")), 1);
}

/* A flood of strangers does not hide peers that a CA vouches for; the log reports how many lines
 * were dropped. */
static void flood_of_strangers(void **state)
{
    (void)state;
    unsigned before = lines_with("peer refused", digits("key", "revoked"));
    usleep(1100000); /* both buckets are full */
    for (int i = 0; i < 40 || (i < 4000 && lines_with("more refused", "\"known\":0") == 0); i++)
        knock(NULL, "GET /a");
    for (int i = 0; i < 5; i++)
        knock("revoked", "GET /a");
    assert_int_equal(lines_with("peer refused", digits("key", "revoked")) - before, 5);
    assert_true(lines_with("more refused", "\"known\":0") > 0);
}

/* Nor does one member hide another of the same CA. */
static void flood_of_a_member(void **state)
{
    (void)state;
    unsigned before = lines_with("peer refused", digits("key", "revoked"));
    usleep(1100000);
    for (int i = 0; i < 40; i++)
        knock("good", "GET /a/../b");
    for (int i = 0; i < 3; i++)
        knock("revoked", "GET /a");
    assert_int_equal(lines_with("peer refused", digits("key", "revoked")) - before, 3);
}

static void ask(raw_tls *c, const char *path, const char *want)
{
    char text[256], answer[4096];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    assert_true(raw_send(c, text, strlen(text)));
    raw_read(c, answer, sizeof answer, want);
    if (!strstr(answer, want))
        fail_msg("no \"%s\" in %s", want, answer);
}

static void good_ones(void **state)
{
    raw_tls c;
    (void)state;
    open_as(&c, "good");
    ask(&c, "/", "hello good client");
    raw_close(&c);
    open_as(&c, "doctor"); /* no SEFL mark: its unit gives it the role */
    ask(&c, "/", "hello doctor client");
    raw_close(&c);
}

/* True if it is admitted when this is the unit agreed on with its CA. */
static void with_unit(const char *name, const char *unit, bool in)
{
    uint8_t key[32];
    raw_tls c;
    key_of(key, "org");
    snprintf(trust_find_issuer(list, key, TRUST_CLIENT)->unit, TRUST_NAME_MAX + 1, "%s", unit);
    apply();
    open_as(&c, name);
    ask(&c, "/", in ? "hello" : " 403 ");
    raw_close(&c);
}

/* Units are compared as they are in the certificate, without the escapes of a text form. */
static void units(void **state)
{
    static const char *const odd[] = {
        "Radiology, North Wing",
        "R+D",
        "a;b",
        "a<b>",
        "#4",
        "a\\b",
        "\\",
        "a\"b\"",
        "a=b",
        " a",
        "a ",
        " ",
        ",",
        "\\2C",
        "?",
        "K??ln",
    };
    static const char *const other[] = { "Radiology", "R\\+D", "a?b", "a", "K?ln" };
    /* the same letters as BMPString and UniversalString; a NUL; a number; a unit that is no ASCII */
    static const uint8_t bmp[] = { 0x1e, 4, 0, 'R', 0, ',' };
    static const uint8_t universal[] = { 0x1c, 8, 0, 0, 0, 'R', 0, 0, 0, ',' };
    static const uint8_t nul[] = { 0x0c, 3, 'R', ',', 0 };
    static const uint8_t number[] = { 0x02, 2, 'R', ',' };
    static const uint8_t beyond[] = { 0x1e, 4, 1, 'R', 0, ',' };
    char name[32];
    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        snprintf(name, sizeof name, "odd-%zu", i);
        org_cert(name, odd[i], "org", 0);
        with_unit(name, odd[i], true);
        for (size_t j = 0; j < sizeof other / sizeof *other; j++)
            with_unit(name, other[j], false);
    }
    org_cert("koeln", "K\xc3\xb6ln", "org", 0);
    with_unit("koeln", "K??ln", false);
    with_unit("koeln", "K?ln", false);
    org_cert_of("bmp", span_of(bmp, sizeof bmp), 1, "org", 0);
    with_unit("bmp", "R,", true);
    org_cert_of("universal", span_of(universal, sizeof universal), 1, "org", 0);
    with_unit("universal", "R,", true);
    org_cert_of("nul", span_of(nul, sizeof nul), 1, "org", 0);
    with_unit("nul", "R,", false);
    org_cert_of("number", span_of(number, sizeof number), 1, "org", 0);
    with_unit("number", "R,", false);
    org_cert_of("beyond", span_of(beyond, sizeof beyond), 1, "org", 0);
    with_unit("beyond", "R,", false);
    /* the SEFL mark counts if no unit was agreed on, and never for another role */
    with_unit("marked", "", true);
    with_unit("marked", "*", true);
    with_unit("marked", "sefl client", true);
    with_unit("doctor", "", false);
    with_unit("doctor", "*", true);
    with_unit("boss", "", false);
    with_unit("boss", "*", false);
    with_unit("boss", "sefl aggregator", false);
    with_unit("doctor", "Radiology", true);
}

static void open_path(void **state)
{
    raw_tls c;
    char answer[4096];
    const char *text = "POST /v1/enroll HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    (void)state;
    body_bytes = 0;
    open_as(&c, NULL);
    assert_true(raw_send(&c, text, strlen(text)));
    raw_read(&c, answer, sizeof answer, "certificate");
    assert_non_null(strstr(answer, "took 5 of no certificate"));
    raw_close(&c);
    /* one request per connection: otherwise one stranger asks ten thousand times per second */
    open_as(&c, NULL);
    assert_true(raw_send(&c, text, strlen(text)));
    raw_read(&c, answer, sizeof answer, "certificate");
    assert_non_null(strstr(answer, "Connection: close"));
    raw_send(&c, text, strlen(text));
    raw_read(&c, answer, sizeof answer, "certificate");
    assert_null(strstr(answer, "took 5"));
    raw_close(&c);
    for (size_t i = 1; i < sizeof wrong_ones / sizeof *wrong_ones; i++) /* a bad one is worse */
        assert_non_null(strstr(knock(wrong_ones[i].name, "POST /v1/enroll"), " 403 "));
    assert_non_null(strstr(knock(NULL, "POST /v1/enroll/x"), " 403 "));
    assert_non_null(strstr(knock(NULL, "POST /v1/enrol"), " 403 "));
    open_as(&c, NULL);
    text = "POST /v1/enroll HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n";
    assert_true(raw_send(&c, text, strlen(text)));
    raw_read(&c, answer, sizeof answer, "\r\n\r\n");
    assert_non_null(strstr(answer, " 413 "));
    raw_close(&c);
    body_bytes = 0;
}

static bool is_closed(raw_tls *c)
{
    char rest[512];
    raw_read(c, rest, sizeof rest, NULL); /* ends when the peer closes, or after 5 s */
    return rest[0] == 0;
}

static void revocation(void **state)
{
    raw_tls idle, parked, sending, other;
    const char *head = "PUT /p HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nhalf";
    struct timespec t0, t1;
    (void)state;
    ended_closed = 0;
    int counted = told[X509_WITHDRAWN];
    open_as(&idle, "good"), open_as(&parked, "good"), open_as(&sending, "good");
    open_as(&other, "other");
    ask(&idle, "/", "hello good");
    ask(&other, "/", "hello other");
    int before = begun;
    const char *park = "GET /park HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_true(raw_send(&parked, park, strlen(park)));
    assert_true(raw_send(&sending, head, strlen(head)));
    for (int i = 0; i < 400 && (begun != before + 2 || body_bytes < 4); i++)
        usleep(5000);
    assert_int_equal(begun, before + 2);
    assert_int_equal(body_bytes, 4);
    set_member("good", TRUST_REVOKED);
    apply();
    clock_gettime(CLOCK_MONOTONIC, &t0);
    assert_true(is_closed(&idle));
    assert_true(is_closed(&parked));
    assert_true(is_closed(&sending));
    clock_gettime(CLOCK_MONOTONIC, &t1);
    assert_true(t1.tv_sec - t0.tv_sec < 4); /* closed, not timed out */
    assert_int_equal(told[X509_WITHDRAWN], counted + 3);
    assert_int_equal(body_bytes, 4);
    ask(&other, "/", "hello other"); /* nobody else is affected */
    assert_non_null(strstr(knock("good", "PUT /a"), " 403 "));
    raw_close(&idle), raw_close(&parked), raw_close(&sending), raw_close(&other);
    for (int i = 0; i < 400 && dropped != begun; i++)
        usleep(5000);
    assert_int_equal(dropped, begun);
    assert_int_equal(ended_closed, 1);
    set_member("good", TRUST_ACTIVE);
    apply();
    open_as(&idle, "good");
    ask(&idle, "/", "hello good");
    raw_close(&idle);
}

/* Revoking an issuer revokes the peers that it vouches for. */
static void issuer_revoked(void **state)
{
    raw_tls doctor, other;
    uint8_t key[32];
    (void)state;
    open_as(&doctor, "doctor"), open_as(&other, "other");
    ask(&doctor, "/", "hello doctor"), ask(&other, "/", "hello other");
    key_of(key, "org");
    trust_find_issuer(list, key, TRUST_CLIENT)->state = TRUST_REVOKED;
    apply();
    assert_true(is_closed(&doctor));
    ask(&other, "/", "hello other");
    raw_close(&doctor), raw_close(&other);
    assert_non_null(strstr(knock("doctor", "PUT /a"), " 403 "));
    trust_find_issuer(list, key, TRUST_CLIENT)->state = TRUST_ACTIVE;
    apply();
}

/* A new certificate for the same key; both are accepted, and one revocation ends both. */
static void renewal(void **state)
{
    char cert[300], ca[300], ca_key[300], key[300], key2[300];
    sefl_buf old = { 0 }, fresh = { 0 }, k = { 0 };
    x509_info a, b;
    raw_tls c;
    (void)state;
    net_path(ca, "ca", ".pem"), net_path(ca_key, "ca", ".key");
    pem(&old, "other");
    x509_subject s = { .name = "other", .role = "client", .days = 20 };
    CHECK_OK(x509_issue(&fresh, &s, (sefl_span){ 0 }, buf_span(&old), ca, ca_key));
    CHECK_OK(x509_info_read(&a, buf_span(&old), NULL));
    CHECK_OK(x509_info_read(&b, buf_span(&fresh), NULL));
    assert_memory_equal(a.fingerprint, b.fingerprint, 32);
    assert_true(b.until > a.until);
    net_path(cert, "other2", ".pem");
    net_path(key, "other", ".key"), net_path(key2, "other2", ".key");
    CHECK_OK(file_write_new(cert, buf_span(&fresh), 0644));
    CHECK_OK(file_read(&k, key, 1 << 16));
    CHECK_OK(file_write_new(key2, buf_span(&k), 0600));
    open_as(&c, "other");
    ask(&c, "/", "hello other"), raw_close(&c);
    open_as(&c, "other2");
    ask(&c, "/", "hello other"), raw_close(&c);
    set_member("other", TRUST_REVOKED);
    apply();
    assert_non_null(strstr(knock("other", "PUT /a"), " 403 "));
    assert_non_null(strstr(knock("other2", "PUT /a"), " 403 "));
    set_member("other", TRUST_ACTIVE);
    apply();
    buf_clear(&old), buf_clear(&fresh), buf_clear(&k);
}

static void requests(void **state)
{
    sefl_buf der = { 0 }, text = { 0 }, back = { 0 }, cert = { 0 };
    char ca[300], ca_key[300];
    uint8_t key[32];
    x509_info info;
    (void)state;
    net_path(ca, "ca", ".pem"), net_path(ca_key, "ca", ".key");
    CHECK_OK(x509_request_make(&der, folder_path("csr.key"), "whoever"));
    CHECK_STATUS(x509_request_make(&der, folder_path("csr.key"), "whoever"), SEFL_EEXIST);
    CHECK_OK(x509_request_read(key, buf_span(&der)));
    CHECK_OK(x509_request_pem(&text, buf_span(&der)));
    CHECK_OK(x509_request_from_pem(&back, buf_span(&text)));
    assert_int_equal(back.n, der.n);
    assert_memory_equal(back.p, der.p, der.n);
    x509_subject s = { .name = "site-1", .role = "client", .days = 5 };
    CHECK_OK(x509_issue(&cert, &s, buf_span(&der), (sefl_span){ 0 }, ca, ca_key));
    CHECK_OK(x509_info_read(&info, buf_span(&cert), NULL));
    assert_memory_equal(info.fingerprint, key, 32);
    assert_string_equal(info.name, "site-1"); /* the CA's name, not the requested one */
    assert_string_equal(info.role, "client");
    assert_false(info.is_ca);
    for (size_t i = 0; i < der.n; i++) { /* every changed byte breaks its form or its signature */
        der.p[i] ^= 1;
        if (x509_request_read(key, buf_span(&der)) == SEFL_OK)
            fail_msg("byte %zu of %zu changed and taken", i, der.n);
        der.p[i] ^= 1;
    }
    buf_clear(&der), buf_clear(&text), buf_clear(&back), buf_clear(&cert);
}

/* ---- the other server: one stream, refused in the handshake ------------------------------------- */

typedef struct stream {
    int fd;
    allowlist *allowlist;
    tls *t;
    sefl_status st;
} stream;

static void *accept_one(void *arg)
{
    stream *s = arg;
    s->st = tls_accept(
        &s->t, s->fd, as,
        &(tls_peer){ .role = "client", .allowlist = s->allowlist, .refused = refused }, 5000, NULL);
    return NULL;
}

static void streams(void **state)
{
    uint16_t port;
    stream s = { .allowlist = snapshot() };
    pthread_t thread;
    (void)state;
    CHECK_OK(tls_listen(&s.fd, "127.0.0.1", 0, &port));
    for (size_t i = 0; i < sizeof wrong_ones / sizeof *wrong_ones; i++) {
        char cert[300], key[300];
        const char *name = wrong_ones[i].name;
        raw_tls c;
        int counted = told[wrong_ones[i].code];
        net_path(cert, name ? name : "", ".pem"), net_path(key, name ? name : "", ".key");
        assert_int_equal(pthread_create(&thread, NULL, accept_one, &s), 0);
        raw_open(&c, port, name ? cert : NULL, key, NULL);
        pthread_join(thread, NULL);
        assert_int_equal(s.st, SEFL_EAUTH);
        assert_int_equal(told[wrong_ones[i].code], counted + 1);
        raw_close(&c);
    }
    allowlist_free(s.allowlist);
    close(s.fd);
}

/* A client without a certificate knows the server's key, and sends nothing to anybody else. */
static void pinned(void **state)
{
    https_client *c;
    https_reply r;
    uint8_t pin[32];
    (void)state;
    body_bytes = 0;
    memcpy(pin, tls_id_fingerprint(as), 32);
    https_client_config cfg = {
        .host = "127.0.0.1", .port = https_server_port(server), .pin = pin, .proxy = ""
    };
    CHECK_OK(https_client_new(&c, &cfg));
    CHECK_OK(https_post(c, "/v1/enroll", span_of_str("hello"), 1000, 0, &r));
    assert_int_equal(r.status, 200);
    https_reply_clear(&r);
    CHECK_OK(https_get(c, "/v1/task", 1000, 0, &r));
    assert_int_equal(r.status, 403);
    https_reply_clear(&r);
    https_client_free(c);
    pin[31] ^= 1;
    int before = begun;
    CHECK_OK(https_client_new(&c, &cfg));
    CHECK_STATUS(https_post(c, "/v1/enroll", span_of_str("hello"), 1000, 0, &r), SEFL_EAUTH);
    https_reply_clear(&r);
    https_client_free(c);
    assert_int_equal(begun, before);
    cfg.pin = NULL;
    CHECK_STATUS(https_client_new(&c, &cfg), SEFL_EINVAL);
}

static unsigned status_of(raw_tls *c, const char *path)
{
    char text[256], answer[4096];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    assert_true(raw_send(c, text, strlen(text)));
    raw_read(c, answer, sizeof answer, "\r\n\r\n");
    return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? (unsigned)strtoul(answer + 9, NULL, 10) : 0;
}

/* A CA whose members are not listed has a connection limit, for any number of names; it does not
 * affect others, nor those of its clients that the list has as members. */
static void places_of_an_issuer(void **state)
{
    (void)state;
    static const char *const who[] = { "doctor", "nurse", "doctor", "porter", "porter", "nurse" };
    raw_tls c[6], other[5], named;
    uint64_t before = https_server_count(server, HTTPS_EVENT_ISSUER_FULL);
    for (int i = 0; i < 6; i++) {
        open_as(&c[i], who[i]);
        assert_int_equal(status_of(&c[i], "/a"), i < 3 ? 200 : 429);
    }
    assert_int_equal(https_server_count(server, HTTPS_EVENT_ISSUER_FULL) - before, 3);
    for (int i = 0; i < 5; i++) { /* our own members */
        open_as(&other[i], "good");
        assert_int_equal(status_of(&other[i], "/a"), 200);
    }
    set_member("porter", TRUST_ACTIVE);
    apply();
    open_as(&named, "porter");
    assert_int_equal(status_of(&named, "/a"), 200);
    raw_close(&named);
    for (int i = 0; i < 6; i++)
        raw_close(&c[i]);
    for (int i = 0; i < 5; i++)
        raw_close(&other[i]);
    for (int i = 0; i < 500; i++) { /* and its connections are free again */
        open_as(&c[0], "nurse");
        unsigned status = status_of(&c[0], "/a");
        raw_close(&c[0]);
        if (status == 200)
            return;
        usleep(10000);
    }
    fail_msg("an issuer's places are not given back");
}

/* The server detects a peer that leaves while its request is parked, with or without an orderly
 * close. */
static void parked_and_gone(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        raw_tls c;
        for (int k = 0; k < 1000 && dropped < begun; k++)
            usleep(5000);
        int before = dropped, waiting = begun;
        const char get[] = "GET /park HTTP/1.1\r\nHost: x\r\n\r\n";
        open_as(&c, "good");
        assert_true(raw_send(&c, get, sizeof get - 1));
        for (int k = 0; k < 1000 && begun == waiting; k++)
            usleep(5000);
        usleep(1500000);
        assert_int_equal(dropped, before); /* it waits */
        if (i == 0)
            gnutls_bye(c.s, GNUTLS_SHUT_WR);
        raw_close(&c);
        for (int k = 0; k < 1000 && dropped == before; k++)
            usleep(5000);
        assert_int_equal(dropped, before + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(generic),
        cmocka_unit_test(good_ones),
        cmocka_unit_test(open_path),
        cmocka_unit_test(revocation),
        cmocka_unit_test(issuer_revoked),
        cmocka_unit_test(renewal),
        cmocka_unit_test(requests),
        cmocka_unit_test(streams),
        cmocka_unit_test(pinned),
        cmocka_unit_test(units),
        cmocka_unit_test(said_who),
        cmocka_unit_test(flood_of_strangers),
        cmocka_unit_test(flood_of_a_member),
        cmocka_unit_test(places_of_an_issuer),
        cmocka_unit_test(parked_and_gone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
