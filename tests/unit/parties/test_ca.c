/* An operator's folder: both operators and a site, without servers; refusals, and that a memory or
 * disk failure changes nothing. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "net/allowlist.h"
#include "roles/ca.h"
#include "roles/counters.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static sefl_status ca_path(sefl_buf *out, const char *folder, const char *name)
{
    buf_reset(out);
    return wr_fmt(out, "%s/%s%c", folder, name, 0);
}

static char as_dir[300], csp_dir[300];
static sign_key *as_key, *csp_key;
static int64_t now;
static sefl_rng rng;

static sefl_status trust_ca(trust *t, const char *dir, const sefl_buf *pem, trust_role role,
                            const char *unit)
{
    ca_issuer_config c = { .role = role, .unit = unit };
    return ca_trust_issuer(t, dir, buf_span(pem), &c, now);
}

/* A server's certificate is renewed for the hosts it had, or for others; never for none. */
static void renewed_hosts(const trust *t, const char *dir, const char *cert)
{
    static const char hosts[] = "as.example,192.0.2.7,2001:db8::7";
    sefl_buf pem = { 0 }, got = { 0 };
    const char *few = folder_put("few.pem", "", 0), *none = folder_put("none.pem", "", 0);
    CHECK_OK(ca_server_renew(t, dir, cert, hosts, 5, &pem));
    CHECK_OK(file_write_atomic(few, buf_span(&pem), 0644));
    buf_reset(&pem);
    CHECK_OK(ca_server_renew(t, dir, few, NULL, 5, &pem));
    CHECK_OK(x509_hosts_read(&got, buf_span(&pem)));
    assert_int_equal(got.n, strlen(hosts));
    assert_memory_equal(got.p, hosts, got.n);
    buf_reset(&pem);
    CHECK_STATUS(ca_server_renew(t, dir, few, "", 5, &pem), SEFL_EINVAL);
    /* one without hosts, as an earlier version could issue */
    sefl_buf old = { 0 }, ca = { 0 }, key = { 0 };
    CHECK_OK(file_read(&old, cert, 1 << 16));
    CHECK_OK(ca_path(&ca, dir, "ca.pem"));
    CHECK_OK(ca_path(&key, dir, "ca.key"));
    x509_subject s = { .name = "as", .role = "aggregator", .days = 5 };
    CHECK_OK(x509_issue(&pem, &s, (sefl_span){ 0 }, buf_span(&old), (const char *)ca.p,
                        (const char *)key.p));
    CHECK_OK(file_write_atomic(none, buf_span(&pem), 0644));
    buf_reset(&got);
    CHECK_OK(x509_hosts_read(&got, buf_span(&pem)));
    assert_int_equal(got.n, 0);
    CHECK_STATUS(ca_server_renew(t, dir, none, NULL, 5, &pem), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "names no host"));
    TEST_FAULTS(FAULT_ALLOC, st = ca_server_renew(t, dir, few, NULL, 5, &pem), (void)0);
    buf_clear(&pem), buf_clear(&got), buf_clear(&old), buf_clear(&ca), buf_clear(&key);
}

static void make(const char *dir, trust_role role, const char *name, sign_key **key)
{
    trust_edit e;
    sefl_buf path = { 0 }, cert = { 0 }, pem = { 0 };
    CHECK_OK(ca_new(dir, name, 30, NULL));
    CHECK_STATUS(ca_new(dir, name, 30, NULL), SEFL_EEXIST);
    CHECK_OK(ca_path(&path, dir, "sign.key"));
    CHECK_OK(sign_key_read(key, (const char *)path.p));
    CHECK_OK(ca_path(&cert, dir, "server.pem"));
    CHECK_OK(ca_path(&path, dir, "server.key"));
    CHECK_OK(ca_edit(&e, dir));
    ca_server_config c = { .role = role,
                           .name = name,
                           .hosts = "localhost",
                           .days = 20,
                           .cert = (const char *)cert.p,
                           .key = (const char *)path.p };
    CHECK_OK(ca_server(e.t, dir, &c, now));
    assert_int_equal(e.t->self.role, role);
    assert_memory_equal(e.t->self.sign, sign_key_pub(*key), SIGN_PUB_BYTES);
    assert_int_equal(e.t->issuers, role == TRUST_AGGREGATOR);
    CHECK_OK(trust_edit_commit(&e));
    /* renewed: the same key */
    x509_info a, b;
    CHECK_OK(ca_server_renew(e.t, dir, (const char *)cert.p, "localhost", 25, &pem));
    CHECK_OK(x509_info_read(&b, buf_span(&pem), NULL));
    buf_clear(&pem);
    CHECK_OK(file_read(&pem, (const char *)cert.p, 1 << 16));
    CHECK_OK(x509_info_read(&a, buf_span(&pem), NULL));
    assert_memory_equal(a.fingerprint, b.fingerprint, 32);
    assert_true(b.until > a.until);
    CHECK_STATUS(trust_ca(e.t, dir, &pem, TRUST_CLIENT, ""), SEFL_EINVAL);
    renewed_hosts(e.t, dir, (const char *)cert.p);
    trust_edit_end(&e);
    buf_clear(&path), buf_clear(&cert), buf_clear(&pem);
}

static int setup(void **state)
{
    int rc = folder_make_quick(state);
    rng = rng_system();
    now = (int64_t)time(NULL);
    snprintf(as_dir, sizeof as_dir, "%s", folder_path("as"));
    snprintf(csp_dir, sizeof csp_dir, "%s", folder_path("csp"));
    make(as_dir, TRUST_AGGREGATOR, "Alpha", &as_key);
    make(csp_dir, TRUST_CSP, "Beta", &csp_key);
    return rc;
}

static int teardown(void **state)
{
    sign_key_free(as_key), sign_key_free(csp_key);
    return folder_remove(state);
}

/* ---- a site ---------------------------------------------------------------------------------- */

typedef struct applicant {
    sefl_buf csr;
    enrol_request q;
} applicant;

static void get_token(token *out, trust *t, const char *name, int64_t expires)
{
    sefl_buf text = { 0 };
    CHECK_OK(ca_token(t, &text, name, expires, now, &rng));
    CHECK_OK(token_parse(out, buf_span(&text)));
    buf_clear(&text);
}

static void apply(applicant *a, const char *name, const token *as, const token *csp)
{
    static int n;
    char key[32];
    snprintf(key, sizeof key, "key-%d", n++);
    *a = (applicant){ 0 };
    CHECK_OK(x509_request_make(&a->csr, folder_path(key), "whatever"));
    CHECK_OK(x509_request_read(a->q.claim.key, buf_span(&a->csr)));
    memcpy(a->q.claim.servers.as, as->sign, 32);
    memcpy(a->q.claim.servers.csp, csp->sign, 32);
    snprintf(a->q.claim.name, sizeof a->q.claim.name, "%s", name);
    CHECK_OK(enrol_prove(&a->q.as, &a->q.claim, as));
    CHECK_OK(enrol_prove(&a->q.csp, &a->q.claim, csp));
    a->q.csr = buf_span(&a->csr);
}

static sefl_status enrol(trust *as, trust *csp, const applicant *a, sefl_buf *answer)
{
    sefl_status st = SEFL_OK;
    uint8_t approval[SIGN_BYTES];
    SEFL_TRY(ca_check(csp, &a->q.claim, &a->q.csp, now));
    SEFL_TRY(ca_admit(csp, &a->q.claim, &a->q.csp, 0, NULL, now));
    SEFL_TRY(enrol_approve(approval, &a->q.claim, csp_key));
    SEFL_TRY(ca_enrol(as, as_dir, answer, &a->q, approval, as_key, "us", 10, now));
done:
    return st;
}

static void a_site_joins(void **state)
{
    trust_edit as, csp;
    token t1, t2, t3;
    applicant a, thief;
    sefl_buf answer = { 0 }, again = { 0 }, pem = { 0 };
    enrol_answer got;
    x509_info info, newer;
    allowlist *g;
    (void)state;
    CHECK_OK(ca_edit(&as, as_dir));
    CHECK_OK(ca_edit(&csp, csp_dir));
    get_token(&t1, as.t, "site-1", now + 100);
    get_token(&t2, csp.t, "site-1", now + 100);
    apply(&a, "site-1", &t1, &t2);
    CHECK_OK(enrol(as.t, csp.t, &a, &answer));
    CHECK_OK(enrol_answer_read(&got, buf_span(&answer)));
    CHECK_OK(enrol_approved(got.csp, &a.q.claim, t2.sign));
    CHECK_OK(enrol_approved(got.as, &a.q.claim, t1.sign));
    CHECK_OK(x509_info_read(&info, got.certificate, NULL));
    CHECK_OK(x509_issued_by(got.certificate, got.ca));
    assert_string_equal(info.name, "site-1"); /* the token's name, not the request's */
    assert_string_equal(info.role, "client");
    assert_int_equal(trust_count(as.t, TRUST_CLIENT), 1);
    assert_int_equal(trust_count(csp.t, TRUST_CLIENT), 1);
    /* the answer was lost: the same again */
    CHECK_OK(enrol(as.t, csp.t, &a, &again));
    assert_int_equal(trust_count(as.t, TRUST_CLIENT), 1);
    /* another key with the same tokens */
    apply(&thief, "site-1", &t1, &t2);
    CHECK_STATUS(enrol(as.t, csp.t, &thief, &again), SEFL_EAUTH);
    /* the name is in use until it is revoked */
    CHECK_STATUS(ca_token(as.t, &again, "site-1", now + 100, now, &rng), SEFL_EEXIST);
    CHECK_OK(allowlist_new(&g, as.t));
    x509_peer p = { .role = "client", .until = now + 10 };
    memcpy(p.fingerprint, info.fingerprint, 32);
    memcpy(p.issuer, as.t->issuer[0].key, 32);
    assert_true(allowlist_still(g, &p));
    allowlist_free(g);
    CHECK_OK(ca_renew(as.t, as_dir, &pem, info.fingerprint, 20));
    CHECK_OK(x509_info_read(&newer, buf_span(&pem), NULL));
    assert_memory_equal(newer.fingerprint, info.fingerprint, 32);
    assert_true(newer.until > info.until);
    assert_int_equal(trust_find(as.t, info.fingerprint)->until, newer.until);
    CHECK_OK(ca_revoke_key(as.t, info.fingerprint, now));
    CHECK_OK(allowlist_new(&g, as.t));
    assert_false(allowlist_still(g, &p));
    assert_int_equal(p.code, X509_WITHDRAWN);
    allowlist_free(g);
    CHECK_STATUS(ca_renew(as.t, as_dir, &pem, info.fingerprint, 20), SEFL_ENOTFOUND);
    CHECK_STATUS(enrol(as.t, csp.t, &a, &again), SEFL_EAUTH); /* a revoked key stays refused */
    /* a mistake: restored, with the same key and certificates */
    CHECK_OK(ca_restore_key(as.t, info.fingerprint, now));
    CHECK_STATUS(ca_restore_key(as.t, info.fingerprint, now), SEFL_ENOTFOUND);
    CHECK_OK(allowlist_new(&g, as.t));
    p.code = X509_OK;
    assert_true(allowlist_still(g, &p));
    allowlist_free(g);
    CHECK_OK(ca_renew(as.t, as_dir, &pem, info.fingerprint, 20));
    CHECK_OK(ca_revoke_key(as.t, info.fingerprint, now));
    get_token(&t3, as.t, "site-1", now + 100);
    /* keys of others can be revoked too */
    uint8_t other[TRUST_KEY] = { 9 };
    CHECK_OK(ca_revoke_key(as.t, other, now));
    assert_int_equal(trust_find(as.t, other)->state, TRUST_REVOKED);
    CHECK_OK(ca_restore_key(as.t, other, now)); /* it was not a member, and still is not */
    assert_null(trust_find(as.t, other));
    /* not once the name belongs to another key */
    trust_member heir = *trust_find(as.t, info.fingerprint);
    heir.state = TRUST_ACTIVE;
    heir.key[0] ^= 1;
    CHECK_OK(trust_member_put(as.t, &heir));
    CHECK_STATUS(ca_restore_key(as.t, info.fingerprint, now), SEFL_EEXIST);
    trust_member_drop(as.t, trust_find(as.t, heir.key));
    assert_null(trust_find(as.t, heir.key));
    CHECK_OK(ca_restore_key(as.t, info.fingerprint, now));
    trust_edit_end(&as), trust_edit_end(&csp);
    buf_clear(&a.csr), buf_clear(&thief.csr);
    buf_clear(&answer), buf_clear(&again), buf_clear(&pem);
}

static void refusals(void **state)
{
    trust_edit as, csp;
    token t1, t2, old;
    applicant a, b;
    sefl_buf answer = { 0 };
    uint8_t approval[SIGN_BYTES];
    (void)state;
    CHECK_OK(ca_edit(&as, as_dir));
    CHECK_OK(ca_edit(&csp, csp_dir));
    get_token(&t1, as.t, "site-2", now + 100);
    get_token(&t2, csp.t, "site-2", now + 100);
    get_token(&old, csp.t, "site-2", now);
    apply(&a, "site-2", &t1, &old); /* expired at CSP */
    CHECK_STATUS(enrol(as.t, csp.t, &a, &answer), SEFL_EAUTH);
    buf_clear(&a.csr);
    apply(&a, "site-2", &t1, &t2);
    /* each server's token counts only at that server */
    CHECK_STATUS(ca_check(as.t, &a.q.claim, &a.q.csp, now), SEFL_EAUTH);
    CHECK_STATUS(ca_check(csp.t, &a.q.claim, &a.q.as, now), SEFL_EAUTH);
    /* without CSP's approval, or with that of another claim, AS issues nothing */
    memset(approval, 0, sizeof approval);
    CHECK_STATUS(ca_enrol(as.t, as_dir, &answer, &a.q, approval, as_key, "us", 10, now),
                 SEFL_EAUTH);
    apply(&b, "site-2", &t1, &t2);
    CHECK_OK(enrol_approve(approval, &b.q.claim, csp_key));
    CHECK_STATUS(ca_enrol(as.t, as_dir, &answer, &a.q, approval, as_key, "us", 10, now),
                 SEFL_EAUTH);
    /* a request for a certificate of another key */
    CHECK_OK(enrol_approve(approval, &a.q.claim, csp_key));
    a.q.csr = b.q.csr;
    CHECK_STATUS(ca_enrol(as.t, as_dir, &answer, &a.q, approval, as_key, "us", 10, now),
                 SEFL_EAUTH);
    a.q.csr = buf_span(&a.csr);
    assert_int_equal(answer.n, 0);
    assert_null(trust_find(as.t, a.q.claim.key));
    /* CSP's operator issues no client certificates; it records the member */
    CHECK_OK(ca_sign(csp.t, csp_dir, &answer, "site-3", a.q.csr, 10, now));
    assert_int_equal(answer.n, 0);
    CHECK_STATUS(ca_sign(csp.t, csp_dir, &answer, "site-4", a.q.csr, 10, now), SEFL_EEXIST);
    CHECK_OK(ca_sign(as.t, as_dir, &answer, "site-3", a.q.csr, 10, now));
    assert_true(answer.n > 0);
    CHECK_STATUS(ca_sign(as.t, as_dir, &answer, "two words", b.q.csr, 10, now), SEFL_EINVAL);
    trust_edit_end(&as), trust_edit_end(&csp);
    buf_clear(&a.csr), buf_clear(&b.csr), buf_clear(&answer);
}

/* Number of clients that CSP's operator has approved. */
static void members_are_counted(void **state)
{
    trust *t;
    trust_member m = { .role = TRUST_CLIENT, .state = TRUST_ACTIVE, .since = 100 };
    trust_issuer is = {
        .role = TRUST_AGGREGATOR, .state = TRUST_ACTIVE, .since = 100, .der = span_of_str("any")
    };
    (void)state;
    CHECK_OK(trust_new(&t));
    assert_true(ca_most_clients(t, 0) == UINT64_MAX); /* no list is kept */
    is.key[0] = 7;
    CHECK_OK(trust_issuer_put(t, &is));
    for (uint8_t i = 0; i < 5; i++) {
        m.key[0] = i;
        snprintf(m.name, sizeof m.name, "site-%u", i);
        CHECK_OK(trust_member_put(t, &m));
    }
    assert_int_equal(ca_most_clients(t, 0), 5);
    CHECK_OK(ca_revoke_key(t, trust_find_name(t, "site-3")->key, 200));
    assert_int_equal(ca_most_clients(t, 201), 4); /* before the round */
    assert_int_equal(ca_most_clients(t, 200), 5); /* in it */
    assert_int_equal(ca_most_clients(t, 0), 5);
    uint8_t other[TRUST_KEY] = { 99 };
    CHECK_OK(ca_revoke_key(t, other, 300)); /* never a member */
    assert_int_equal(ca_most_clients(t, 201), 4);
    is.role = TRUST_CLIENT; /* an organisation's CA: any client that it vouches for */
    CHECK_OK(trust_issuer_put(t, &is));
    assert_true(ca_most_clients(t, 201) == UINT64_MAX);
    is.state = TRUST_REVOKED, is.since = 250;
    CHECK_OK(trust_issuer_put(t, &is));
    assert_true(ca_most_clients(t, 250) == UINT64_MAX);
    assert_int_equal(ca_most_clients(t, 251), 4);
    trust_free(t);
}

/* PEM of a CA with an RSA key. */
static void rsa_ca(sefl_buf *out, unsigned bits)
{
    gnutls_x509_crt_t crt;
    gnutls_x509_privkey_t key;
    gnutls_datum_t d;
    gnutls_x509_crt_init(&crt), gnutls_x509_privkey_init(&key);
    assert_int_equal(gnutls_x509_privkey_generate(key, GNUTLS_PK_RSA, bits, 0), 0);
    gnutls_x509_crt_set_version(crt, 3);
    gnutls_x509_crt_set_serial(crt, "\1", 1);
    gnutls_x509_crt_set_activation_time(crt, (time_t)now - 60);
    gnutls_x509_crt_set_expiration_time(crt, (time_t)now + 86400);
    gnutls_x509_crt_set_key(crt, key);
    gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, "Hospital CA", 11);
    gnutls_x509_crt_set_basic_constraints(crt, 1, 0);
    assert_int_equal(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &d), 0);
    CHECK_OK(wr_raw(out, d.data, d.size));
    gnutls_free(d.data);
    gnutls_x509_crt_deinit(crt), gnutls_x509_privkey_deinit(key);
}

static void which_issuers(void **state)
{
    (void)state;
    static const char *const units[] = { "Radiologie K\xc3\xb6ln", "a\nb", "\x7f" };
    trust_edit e;
    sefl_buf path = { 0 }, own = { 0 }, weak = { 0 }, good = { 0 };
    CHECK_OK(ca_path(&path, as_dir, "ca.pem"));
    CHECK_OK(file_read(&own, (const char *)path.p, 1 << 16));
    rsa_ca(&weak, 1024);
    rsa_ca(&good, 2048);
    CHECK_OK(ca_edit(&e, as_dir));
    /* our own CA stays one whose members are listed */
    CHECK_STATUS(trust_ca(e.t, as_dir, &own, TRUST_CLIENT, ""), SEFL_EEXIST);
    assert_non_null(strstr(sefl_last_error(), "own CA"));
    CHECK_STATUS(trust_ca(e.t, as_dir, &weak, TRUST_CLIENT, ""), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "weak"));
    /* of two certificates, the second would be ignored */
    sefl_buf two = { 0 };
    CHECK_OK(wr_raw(&two, good.p, good.n));
    CHECK_OK(wr_raw(&two, own.p, own.n));
    CHECK_STATUS(trust_ca(e.t, as_dir, &two, TRUST_CSP, ""), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "more than one certificate"));
    CHECK_OK(wr_raw(&two, "-----BEGIN CERTIFICATE-----\n", 28)); /* cut off */
    CHECK_STATUS(trust_ca(e.t, as_dir, &two, TRUST_CSP, ""), SEFL_EINVAL);
    assert_int_equal(e.t->issuers, 1);
    buf_clear(&two);
    /* a unit that no certificate can have */
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        CHECK_STATUS(trust_ca(e.t, as_dir, &good, TRUST_CLIENT, units[i]), SEFL_EINVAL);
        assert_non_null(strstr(sefl_last_error(), "printable ASCII"));
    }
    CHECK_OK(trust_ca(e.t, as_dir, &good, TRUST_CLIENT, "Radiology, 2nd floor"));
    /* only restore brings back a revoked CA, not a new role or rule */
    trust_issuer *is = &e.t->issuer[e.t->issuers - 1];
    is->state = TRUST_REVOKED, is->since = now - 5;
    CHECK_STATUS(trust_ca(e.t, as_dir, &good, TRUST_CLIENT, ""), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "sefl ca restore"));
    CHECK_STATUS(trust_ca(e.t, as_dir, &good, TRUST_CSP, ""), SEFL_ESTATE);
    assert_int_equal(is->state, TRUST_REVOKED);
    assert_string_equal(is->unit, "Radiology, 2nd floor");
    is->state = TRUST_ACTIVE;
    CHECK_OK(trust_ca(e.t, as_dir, &good, TRUST_CLIENT, "Surgery"));
    assert_string_equal(is->unit, "Surgery");
    assert_true(is->since == now - 5); /* of its state, which is the same */
    trust_edit_end(&e);
    buf_clear(&path), buf_clear(&own), buf_clear(&weak), buf_clear(&good);
}

/* One CA, one role, unless requested explicitly; a mistake can be undone, and only the mistake. */
static void one_role(void **state)
{
    (void)state;
    trust_edit e;
    sefl_buf path = { 0 }, own = { 0 }, other = { 0 };
    ca_issuer_config both = { .role = TRUST_AGGREGATOR, .also = true };
    CHECK_OK(ca_path(&path, csp_dir, "ca.pem"));
    CHECK_OK(file_read(&own, (const char *)path.p, 1 << 16));
    CHECK_OK(ca_path(&path, as_dir, "ca.pem"));
    CHECK_OK(file_read(&other, (const char *)path.p, 1 << 16));
    CHECK_OK(ca_edit(&e, csp_dir));
    CHECK_STATUS(trust_ca(e.t, csp_dir, &own, TRUST_AGGREGATOR, ""), SEFL_EEXIST);
    assert_non_null(strstr(sefl_last_error(), "own CA"));
    assert_int_equal(e.t->issuers, 0);
    CHECK_OK(trust_ca(e.t, csp_dir, &other, TRUST_CLIENT, "")); /* a mistake */
    uint8_t key[TRUST_KEY];
    memcpy(key, e.t->issuer[0].key, sizeof key);
    CHECK_STATUS(trust_ca(e.t, csp_dir, &other, TRUST_AGGREGATOR, ""), SEFL_EEXIST);
    assert_non_null(strstr(sefl_last_error(), "--role client'; for both roles give --also"));
    CHECK_STATUS(ca_set_issuer(e.t, key, TRUST_AGGREGATOR, TRUST_REVOKED, now), SEFL_ENOTFOUND);
    CHECK_OK(ca_set_issuer(e.t, key, TRUST_CLIENT, TRUST_REVOKED, now));
    CHECK_STATUS(trust_ca(e.t, csp_dir, &other, TRUST_AGGREGATOR, ""), SEFL_ESTATE);
    CHECK_OK(ca_trust_issuer(e.t, csp_dir, buf_span(&other), &both, now));
    assert_int_equal(trust_find_issuer(e.t, key, TRUST_CLIENT)->state, TRUST_REVOKED);
    assert_int_equal(trust_find_issuer(e.t, key, TRUST_AGGREGATOR)->state, TRUST_ACTIVE);
    /* revoked in every role at once; restored one role at a time */
    CHECK_OK(ca_set_issuer(e.t, key, 0, TRUST_REVOKED, now + 1));
    assert_true(trust_find_issuer(e.t, key, TRUST_CLIENT)->since ==
                now); /* it was revoked already */
    assert_true(trust_find_issuer(e.t, key, TRUST_AGGREGATOR)->since == now + 1);
    CHECK_STATUS(ca_set_issuer(e.t, key, 0, TRUST_REVOKED, now), SEFL_ENOTFOUND);
    CHECK_STATUS(ca_trust_issuer(e.t, csp_dir, buf_span(&other), &both, now), SEFL_ESTATE);
    CHECK_STATUS(ca_set_issuer(e.t, key, 0, TRUST_ACTIVE, now), SEFL_EINVAL);
    CHECK_OK(ca_set_issuer(e.t, key, TRUST_AGGREGATOR, TRUST_ACTIVE, now));
    assert_int_equal(trust_find_issuer(e.t, key, TRUST_CLIENT)->state, TRUST_REVOKED);
    assert_int_equal(trust_find_issuer(e.t, key, TRUST_AGGREGATOR)->state, TRUST_ACTIVE);
    CHECK_OK(ca_set_issuer(e.t, key, 0, TRUST_ACTIVE, now)); /* one is left */
    trust_edit_end(&e);
    buf_clear(&path), buf_clear(&own), buf_clear(&other);
}

/* A server does not start with the list of another. */
static void whose_list(void **state)
{
    (void)state;
    trust_edit e;
    trust *none;
    CHECK_OK(ca_edit(&e, as_dir));
    CHECK_OK(ca_list_of(e.t, TRUST_AGGREGATOR, sign_key_pub(as_key)));
    CHECK_STATUS(ca_list_of(e.t, TRUST_CSP, sign_key_pub(as_key)), SEFL_EINVAL);
    CHECK_STATUS(ca_list_of(e.t, TRUST_AGGREGATOR, sign_key_pub(csp_key)), SEFL_EINVAL);
    trust_edit_end(&e);
    CHECK_OK(trust_new(&none));
    CHECK_OK(ca_list_of(none, TRUST_CSP, sign_key_pub(csp_key)));
    trust_free(none);
}

/* The operator has revoked its own CA: a new server key does not admit its clients again. */
static void own_ca_stays_revoked(void **state)
{
    (void)state;
    trust_edit e;
    ca_server_config c = { .role = TRUST_AGGREGATOR,
                           .name = "Alpha",
                           .hosts = "localhost",
                           .cert = folder_path("again.pem"),
                           .key = folder_path("again.key") };
    CHECK_OK(ca_edit(&e, as_dir));
    e.t->issuer[0].state = TRUST_REVOKED;
    CHECK_OK(ca_server(e.t, as_dir, &c, now));
    assert_int_equal(e.t->issuers, 1);
    assert_int_equal(e.t->issuer[0].state, TRUST_REVOKED);
    assert_true(e.t->issuer[0].listed);
    trust_edit_end(&e);
}

/* A certificate is never renewed for another key, whatever is in issued/. */
static void renewal_keeps_the_key(void **state)
{
    (void)state;
    trust_edit e;
    sefl_buf csr[2] = { 0 }, cert = { 0 }, pem = { 0 };
    char path[PATH_MAX];
    uint8_t key[2][TRUST_KEY];
    CHECK_OK(ca_edit(&e, as_dir));
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "swap-b" : "swap-a";
        CHECK_OK(x509_request_make(&csr[i], folder_path(name), name));
        CHECK_OK(x509_request_read(key[i], buf_span(&csr[i])));
        buf_reset(&cert);
        CHECK_OK(ca_sign(e.t, as_dir, &cert, name, buf_span(&csr[i]), 10, now));
    }
    CHECK_OK(ca_renew(e.t, as_dir, &pem, key[0], 20));
    CHECK_OK(ca_issued_path(path, as_dir, key[0]));
    CHECK_OK(file_write_atomic(path, buf_span(&cert), 0644)); /* b's for a */
    buf_reset(&pem);
    CHECK_STATUS(ca_renew(e.t, as_dir, &pem, key[0], 20), SEFL_EAUTH);
    assert_int_equal(pem.n, 0);
    trust_edit_end(&e);
    buf_clear(&csr[0]), buf_clear(&csr[1]), buf_clear(&cert), buf_clear(&pem);
}

/* An unused token for a name is cancelled when the member of that name is revoked. */
static void old_tokens_of_a_name(void **state)
{
    (void)state;
    trust_edit e;
    token used, lost, fresh;
    applicant a, thief, again;
    CHECK_OK(ca_edit(&e, csp_dir));
    get_token(&used, e.t, "site-old", now + 1000);
    get_token(&lost, e.t, "site-old", now + 1000);
    apply(&a, "site-old", &used, &used);
    CHECK_OK(ca_check(e.t, &a.q.claim, &a.q.csp, now));
    CHECK_OK(ca_admit(e.t, &a.q.claim, &a.q.csp, 0, NULL, now));
    CHECK_OK(ca_revoke_key(e.t, a.q.claim.key, now));
    apply(&thief, "site-old", &lost, &lost);
    CHECK_STATUS(ca_check(e.t, &thief.q.claim, &thief.q.csp, now), SEFL_EAUTH);
    assert_non_null(strstr(sefl_last_error(), "cancelled"));
    get_token(&fresh, e.t, "site-old", now + 1000);
    apply(&again, "site-old", &fresh, &fresh);
    CHECK_OK(ca_check(e.t, &again.q.claim, &again.q.csp, now));
    trust_edit_end(&e);
    buf_clear(&a.csr), buf_clear(&thief.csr), buf_clear(&again.csr);
    token_clear(&used), token_clear(&lost), token_clear(&fresh);
}

/* A used token does not replace a renewal by the operator: at either server its key may repeat the
 * request for an hour. */
static void repeats_end(void **state)
{
    (void)state;
    trust_edit as, csp;
    token t1, t2;
    applicant a;
    sefl_buf answer = { 0 };
    uint8_t approval[SIGN_BYTES];
    const int64_t began = now;
    CHECK_OK(ca_edit(&as, as_dir));
    CHECK_OK(ca_edit(&csp, csp_dir));
    get_token(&t1, as.t, "site-r", now + 48 * 3600);
    get_token(&t2, csp.t, "site-r", now + 48 * 3600);
    apply(&a, "site-r", &t1, &t2);
    CHECK_OK(enrol(as.t, csp.t, &a, &answer));
    now = began + TOKEN_REPEAT_S - 1;
    CHECK_OK(enrol(as.t, csp.t, &a, &answer));
    now = began + TOKEN_REPEAT_S;
    size_t before = answer.n;
    CHECK_STATUS(ca_check(csp.t, &a.q.claim, &a.q.csp, now), SEFL_EAUTH);
    CHECK_OK(enrol_approve(approval, &a.q.claim, csp_key));
    CHECK_STATUS(ca_enrol(as.t, as_dir, &answer, &a.q, approval, as_key, "us", 10, now),
                 SEFL_EAUTH);
    assert_int_equal(answer.n, before);
    assert_non_null(trust_find_name(as.t, "site-r")); /* it stays a member */
    now = began;
    trust_edit_end(&as), trust_edit_end(&csp);
    buf_clear(&a.csr), buf_clear(&answer);
    token_clear(&t1), token_clear(&t2);
}

static void faults(void **state)
{
    trust_edit as;
    token t1, t2;
    applicant a;
    sefl_buf answer = { 0 };
    uint8_t approval[SIGN_BYTES];
    trust *csp;
    allowlist *g = NULL;
    (void)state;
    CHECK_OK(ca_edit(&as, as_dir));
    sefl_buf path = { 0 };
    CHECK_OK(ca_path(&path, csp_dir, "trust"));
    CHECK_OK(trust_read(&csp, (const char *)path.p));
    get_token(&t1, as.t, "site-9", now + 100);
    get_token(&t2, csp, "site-9", now + 100);
    apply(&a, "site-9", &t1, &t2);
    CHECK_OK(enrol_approve(approval, &a.q.claim, csp_key));
    TEST_FAULTS(FAULT_ALLOC,
                st = ca_enrol(as.t, as_dir, &answer, &a.q, approval, as_key, "us", 10, now),
                buf_clear(&answer));
    buf_clear(&answer);
    TEST_FAULTS(FAULT_WRITE,
                st = ca_enrol(as.t, as_dir, &answer, &a.q, approval, as_key, "us", 10, now),
                buf_clear(&answer));
    TEST_FAULTS(FAULT_ALLOC, st = allowlist_new(&g, as.t), allowlist_free(g));
    TEST_FAULTS(FAULT_WRITE, st = trust_edit_commit(&as), (void)0);
    trust_edit_end(&as);
    trust_free(csp);
    buf_clear(&a.csr), buf_clear(&answer), buf_clear(&path);
}

/* After a failure a new folder does not exist or is as empty as before, so the next attempt can
 * succeed. */
static sefl_status new_or_nothing(const char *dir, bool there)
{
    sefl_status st = ca_new(dir, "Gamma", 30, NULL);
    if (st != SEFL_OK && there)
        assert_int_equal(rmdir(dir), 0), assert_int_equal(mkdir(dir, 0700), 0);
    else if (st != SEFL_OK)
        assert_false(file_exists(dir));
    return st;
}

static void a_new_folder_or_nothing(void **state)
{
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_RANDOM, FAULT_WRITE, FAULT_SYNC };
    char dir[300], key[300];
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        snprintf(key, sizeof key, "new-%u", i);
        snprintf(dir, sizeof dir, "%s", folder_path(key));
        if (i % 2)
            assert_int_equal(mkdir(dir, 0700), 0);
        TEST_FAULTS(kinds[i / 2], st = new_or_nothing(dir, i % 2), (void)0);
    }
    /* a signing key elsewhere is removed too, unless it existed before */
    snprintf(dir, sizeof dir, "%s", folder_path("apart"));
    snprintf(key, sizeof key, "%s", folder_put("theirs.key", "x", 1));
    CHECK_STATUS(ca_new(dir, "Gamma", 30, key), SEFL_EEXIST);
    assert_true(file_exists(key));
    assert_false(file_exists(dir));
    snprintf(key, sizeof key, "%s", folder_path("ours.key"));
    TEST_FAULTS(FAULT_WRITE,
                (st = ca_new(dir, "Gamma", 30, key),
                 assert_true(st == SEFL_OK || (!file_exists(key) && !file_exists(dir)))),
                (void)0);
}

static void counts(void **state)
{
    counters c = { 0 };
    sefl_buf b = { 0 };
    char path[300];
    (void)state;
    snprintf(path, sizeof path, "%s", folder_path("counters.json"));
    CHECK_OK(counters_write(&c, path));
    assert_false(file_exists(path)); /* nothing happened */
    counters_peer(&c, X509_OK);
    counters_peer(&c, X509_WITHDRAWN);
    counters_peer(&c, X509_WITHDRAWN);
    counters_peer(&c, X509_NONE);
    counters_add(&c, COUNT_ENROLLED);
    CHECK_OK(counters_write(&c, path));
    CHECK_OK(file_read(&b, path, 4096));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, "\"certificate.revoked\":2"));
    assert_non_null(strstr((char *)b.p, "\"certificate.no_certificate\":1"));
    assert_non_null(strstr((char *)b.p, "\"enrol.enrolled\":1"));
    assert_non_null(strstr((char *)b.p, "\"certificate.weak\":0"));
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_site_joins),
                                        cmocka_unit_test(refusals),
                                        cmocka_unit_test(members_are_counted),
                                        cmocka_unit_test(which_issuers),
                                        cmocka_unit_test(whose_list),
                                        cmocka_unit_test(one_role),
                                        cmocka_unit_test(own_ca_stays_revoked),
                                        cmocka_unit_test(old_tokens_of_a_name),
                                        cmocka_unit_test(renewal_keeps_the_key),
                                        cmocka_unit_test(repeats_end),
                                        cmocka_unit_test(faults),
                                        cmocka_unit_test(a_new_folder_or_nothing),
                                        cmocka_unit_test(counts) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
