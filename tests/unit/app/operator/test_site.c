/* A site's folder without servers: installing a newer certificate from a file, even after the old
 * one has expired, and the certificates that are refused. */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "operator/site.h"
#include "roles/ca.h"

#include <string.h>
#include <time.h>

static char as_dir[300], csp_dir[300], site_dir[300];
static int64_t now;

static const char *in(const char *dir, const char *name)
{
    static char out[32][400];
    static unsigned next;
    char *p = out[next++ % 32];
    snprintf(p, sizeof out[0], "%s/%s", dir, name);
    return p;
}

/* In the test's own folder; longer than folder_path keeps it. */
static const char *here(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s", folder_path(""));
    return in(path, name);
}

static void make_operator(char out[300], const char *name, trust_role role)
{
    trust_edit e;
    snprintf(out, 300, "%s", folder_path(name));
    CHECK_OK(ca_new(out, name, 1000, NULL));
    CHECK_OK(ca_edit(&e, out));
    ca_server_config c = { .role = role,
                           .name = name,
                           .hosts = "localhost",
                           .cert = in(out, "server.pem"),
                           .key = in(out, "server.key") };
    CHECK_OK(ca_server(e.t, out, &c, now));
    CHECK_OK(trust_edit_commit(&e));
    trust_edit_end(&e);
}

/* A certificate by the CA of `dir` for the key of an earlier one, in FOLDER/name. */
static const char *certificate(const char *dir, const char *earlier, const char *role, int64_t from,
                               unsigned days, const char *name)
{
    sefl_buf old = { 0 }, pem = { 0 };
    x509_subject s = { .name = "ward", .role = role, .from = from, .days = days };
    CHECK_OK(file_read(&old, earlier, 1 << 16));
    CHECK_OK(x509_issue(&pem, &s, (sefl_span){ 0 }, buf_span(&old), in(dir, "ca.pem"),
                        in(dir, "ca.key")));
    CHECK_OK(file_write_atomic(folder_path(name), buf_span(&pem), 0644));
    buf_clear(&old), buf_clear(&pem);
    return here(name);
}

static void put(const char *path, const char *from)
{
    sefl_buf b = { 0 };
    CHECK_OK(file_read(&b, from, 1 << 16));
    CHECK_OK(file_write_atomic(path, buf_span(&b), 0644));
    buf_clear(&b);
}

static site_config parts(const char *cert)
{
    return (site_config){ .folder = site_dir,
                          .cert = cert,
                          .peers = in(as_dir, "ca.pem"),
                          .as_key = in(as_dir, "sign.pub"),
                          .csp_key = in(csp_dir, "sign.pub"),
                          .server = { "as.example", 7000 } };
}

static int setup(void **state)
{
    int rc = folder_make_quick(state);
    trust_edit e;
    sefl_buf pem = { 0 }, der = { 0 }, cert = { 0 };
    site_report rep;
    now = (int64_t)time(NULL);
    make_operator(as_dir, "as", TRUST_AGGREGATOR);
    make_operator(csp_dir, "csp", TRUST_CSP);
    snprintf(site_dir, sizeof site_dir, "%s", folder_path("site"));
    CHECK_OK(site_request(site_dir, "ward"));
    CHECK_OK(file_read(&pem, in(site_dir, "csr.pem"), 1 << 16));
    CHECK_OK(x509_request_from_pem(&der, buf_span(&pem)));
    CHECK_OK(ca_edit(&e, as_dir));
    CHECK_OK(ca_sign(e.t, as_dir, &cert, "ward", buf_span(&der), 10, now));
    trust_edit_end(&e);
    CHECK_OK(file_write_new(here("signed.pem"), buf_span(&cert), 0644));
    site_config p = parts(here("signed.pem"));
    CHECK_OK(site_install(&p, &rep));
    buf_clear(&pem), buf_clear(&der), buf_clear(&cert);
    return rc;
}

static void same(const char *path)
{
    sefl_buf a = { 0 }, b = { 0 };
    CHECK_OK(file_read(&a, in(site_dir, "cert.pem"), 1 << 16));
    CHECK_OK(file_read(&b, path, 1 << 16));
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.p, b.p, a.n);
    buf_clear(&a), buf_clear(&b);
}

static sefl_status renew_from(const char *path, bool *fresh)
{
    site_config c = parts(path);
    return site_renew(&c, fresh);
}

static int64_t until_of(const char *path)
{
    sefl_buf pem = { 0 };
    x509_info info;
    CHECK_OK(x509_info_file(&info, &pem, path));
    buf_clear(&pem);
    return info.until;
}

static void from_a_file(void **state)
{
    static const int64_t day = 86400;
    char mine[400], cert[400], next[400];
    bool fresh;
    (void)state;
    snprintf(mine, sizeof mine, "%s", here("signed.pem"));
    snprintf(cert, sizeof cert, "%s", in(site_dir, "cert.pem"));
    /* its certificate expired long ago */
    const char *old = certificate(as_dir, mine, "client", now - 20 * day, 10, "old.pem");
    put(cert, old);
    snprintf(next, sizeof next, "%s", certificate(as_dir, mine, "client", 0, 30, "next.pem"));
    CHECK_OK(renew_from(next, &fresh));
    assert_true(fresh);
    assert_true(until_of(cert) > now + 29 * day);
    same(next);
    /* the same again, an earlier one, an expired one: nothing newer */
    CHECK_OK(renew_from(next, &fresh));
    assert_false(fresh);
    CHECK_OK(renew_from(mine, &fresh));
    assert_false(fresh);
    CHECK_STATUS(renew_from(old, &fresh), SEFL_EAUTH);
    /* of another key, another CA, another role; no certificate at all */
    CHECK_STATUS(
        renew_from(certificate(as_dir, in(as_dir, "server.pem"), "client", 0, 50, "other.pem"),
                   &fresh),
        SEFL_EAUTH);
    assert_non_null(strstr(sefl_last_error(), "another key"));
    CHECK_STATUS(renew_from(certificate(csp_dir, mine, "client", 0, 50, "ca2.pem"), &fresh),
                 SEFL_EAUTH);
    CHECK_STATUS(renew_from(certificate(as_dir, mine, "aggregator", 0, 50, "role.pem"), &fresh),
                 SEFL_EAUTH);
    CHECK_STATUS(renew_from(folder_put("junk.pem", "junk", 4), &fresh), SEFL_EPROTO);
    CHECK_STATUS(renew_from(folder_path("nothing"), &fresh), SEFL_ENOTFOUND);
    same(next);
    /* a certificate in place that is not even ours is replaced by one that is */
    put(cert, here("other.pem"));
    CHECK_STATUS(renew_from(here("other.pem"), &fresh), SEFL_EAUTH);
    CHECK_OK(renew_from(certificate(as_dir, mine, "client", 0, 60, "60.pem"), &fresh));
    assert_true(fresh);
    TEST_FAULTS(FAULT_ALLOC, st = renew_from(next, &fresh), (void)0);
    site_config p = parts(next);
    site_report rep;
    CHECK_STATUS(site_install(&p, &rep), SEFL_EEXIST);
    assert_non_null(strstr(sefl_last_error(), "--renew --cert"));
}

/* Enrolling again in a folder that has settings and a ledger: both are kept, with a warning if they
 * do not match. */
static site_report again(const char *host, uint16_t port)
{
    site_config p = parts(here("signed.pem"));
    site_report rep;
    snprintf(p.server.host, sizeof p.server.host, "%s", host), p.server.port = port;
    assert_int_equal(remove(in(site_dir, "cert.pem")), 0);
    CHECK_OK(site_install(&p, &rep));
    return rep;
}

static void what_is_kept(void **state)
{
    sefl_buf b = { 0 };
    (void)state;
    site_report rep = again("as.example", 7000);
    assert_string_equal(rep.kept_settings, "");
    assert_string_equal(rep.kept_ledger, "");
    rep = again("AS.example", 7000);
    assert_string_equal(rep.kept_settings, "");
    rep = again("as.example", 7001);
    assert_non_null(strstr(rep.kept_settings, "client.yml"));
    assert_non_null(strstr(rep.kept_settings, "names server as.example:7000"));
    assert_non_null(strstr(rep.kept_settings, "as.example:7001"));
    assert_string_equal(rep.kept_ledger, "");
    rep = again("new.example", 7000);
    assert_non_null(strstr(rep.kept_settings, "new.example:7000"));
    assert_string_equal(rep.kept_ledger, ""); /* of the text, whatever the population */
    CHECK_OK(file_read(&b, in(site_dir, "client.yml"), 1 << 16));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((const char *)b.p, "\nserver: as.example:7000\n"));
    CHECK_OK(file_write_atomic(in(site_dir, "client.yml"), span_of_str("server: x\n"), 0644));
    CHECK_OK(file_write_atomic(in(site_dir, "ledger"), span_of_str("junk"), 0600));
    rep = again("as.example", 7000);
    assert_non_null(strstr(rep.kept_settings, "names no valid server"));
    assert_non_null(strstr(rep.kept_ledger, "a client cannot use it"));
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept),
        cmocka_unit_test(from_a_file),
    };
    return cmocka_run_group_tests(tests, setup, folder_remove);
}
