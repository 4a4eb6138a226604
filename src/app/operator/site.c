#include "operator/site.h"

#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "config/example.h"
#include "config/yaml/yaml.h"
#include "net/https_client.h"
#include "protocol/enrol.h"
#include "protocol/http.h"
#include "roles/client/client_config.h"
#include "store/text_ledger.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { WAIT_S = 60, ERROR_SHOWN = 200 };

/* ---- files ------------------------------------------------------------------------------ */

static sefl_status site_put(dir_tree *d, const char *name, sefl_span bytes)
{
    return file_write_atomic(dir_in(d, "%s", name), bytes, 0644);
}

/* Keeps an existing client.yml; warns if it names another server than this enrolment. */
static void look_at_settings(char out[SITE_KEPT], const char *path, const host_port *server)
{
    settings s;
    host_port had;
    settings_init(&s, client_schema);
    if (yaml_read(&s, path) != SEFL_OK || !settings_given(&s, "server") ||
        address_read(&had, settings_text(&s, "server"), 1) != SEFL_OK)
        snprintf(out, SITE_KEPT, "%s already exists and is kept, but names no valid server", path);
    else if (had.port != server->port || strcasecmp(had.host, server->host) != 0)
        snprintf(
            out, SITE_KEPT,
            "%s already exists and is kept: it names server %s, but this enrolment is at %s:%u",
            path, settings_text(&s, "server"), server->host, server->port);
    settings_clear(&s);
}

static void look_at_ledger(char out[SITE_KEPT], const char *path, const char *text)
{
    ledger *l = NULL;
    if (text_ledger_open(&l, path, text) != SEFL_OK)
        snprintf(out, SITE_KEPT, "%s already exists and is kept, but a client cannot use it: %s",
                 path, sefl_last_error());
    ledger_close(l);
}

static sefl_status put_settings(dir_tree *d, const host_port *server, site_report *r)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char set[ADDRESS_HOST_MAX + 32];
    const char *client = dir_in(d, "client.yml"), *rules = dir_in(d, "policy.yml");
    snprintf(set, sizeof set, strchr(server->host, ':') ? "server=[%s]:%u" : "server=%s:%u",
             server->host, server->port);
    if (!file_exists(client)) {
        SEFL_TRY(example_brief(&b, "a client: 'sefl client -c client.yml'", client_schema, set));
        SEFL_TRY(file_write_atomic(client, buf_span(&b), 0644));
    } else {
        look_at_settings(r->kept_settings, client, server);
    }
    if (!file_exists(rules)) {
        buf_reset(&b);
        SEFL_TRY(example_write(&b, "policy.yml", POLICY_ABOUT, policy_schema, POLICY_CAUTIOUS));
        SEFL_TRY(file_write_atomic(rules, buf_span(&b), 0644));
    }
    SEFL_TRY(file_make_folder(dir_in(d, "text"), 0700));
done:
    buf_clear(&b);
    return st;
}

static sefl_status check_certificate(sefl_span cert, sefl_span ca, site_report *r)
{
    x509_info info, issuer;
    SEFL_PASS(x509_info_read(&info, cert, NULL));
    SEFL_PASS(x509_info_read(&issuer, ca, NULL));
    SEFL_NEED(issuer.is_ca, SEFL_EAUTH,
              "the file that came with the certificate is not a CA certificate");
    SEFL_NEED(memcmp(info.fingerprint, r->key, TRUST_KEY) == 0, SEFL_EAUTH,
              "the certificate is for another key than key.pem");
    SEFL_NEED(strcmp(info.role, "client") == 0, SEFL_EAUTH,
              "the certificate is for the role \"%s\", not for a client", info.role);
    SEFL_PASS(x509_issued_by(cert, ca));
    r->until = info.until;
    return SEFL_OK;
}

/* Writes the certificate last: it marks the folder as complete. */
static sefl_status install(dir_tree *d, const host_port *server, sefl_span cert, sefl_span ca,
                           site_report *r)
{
    SEFL_NEED(memcmp(r->as, r->csp, SIGN_PUB_BYTES) != 0, SEFL_EINVAL,
              "both signing keys are equal: the two servers must be different parties");
    SEFL_PASS(check_certificate(cert, ca, r));
    SEFL_PASS(site_put(d, "peers.pem", ca));
    SEFL_PASS(sign_pub_write(r->as, dir_in(d, "aggregator.pub")));
    SEFL_PASS(sign_pub_write(r->csp, dir_in(d, "csp.pub")));
    SEFL_PASS(put_settings(d, server, r));
    const char *path = dir_in(d, "ledger"), *text = dir_in(d, "text");
    if (!file_exists(path))
        SEFL_PASS(text_ledger_create(path, text));
    else /* it continues: the spent budget stays spent, whatever the population */
        look_at_ledger(r->kept_ledger, path, text);
    return site_put(d, "cert.pem", cert);
}

/* Makes a request for this folder's key; creates the key if it does not exist. */
static sefl_status own_request(dir_tree *d, const char *name, sefl_buf *der)
{
    const char *key = dir_in(d, "key.pem");
    SEFL_PASS(file_make_folder(d->root, 0700));
    SEFL_NEED(!file_exists(dir_in(d, "cert.pem")), SEFL_EEXIST,
              "%s already has a certificate: the site is enrolled", d->root);
    return file_exists(key) ? x509_request_for(der, key, name) : x509_request_make(der, key, name);
}

/* ---- enrolment -------------------------------------------------------------------------- */

static sefl_status read_tokens(token *as, token *csp, const site_config *c)
{
    sefl_clock wall = clock_wall();
    const int64_t now = (int64_t)(clock_ms(&wall) / 1000);
    if (token_parse(as, c->as_token) != SEFL_OK)
        return sefl_fail_at(SEFL_EINVAL, "the aggregator's token");
    if (token_parse(csp, c->csp_token) != SEFL_OK)
        return sefl_fail_at(SEFL_EINVAL, "the CSP's token");
    SEFL_NEED(as->role == TRUST_AGGREGATOR && csp->role == TRUST_CSP, SEFL_EINVAL,
              "enrolment needs a token from the aggregation server and one from the CSP: these are "
              "from the %s and the %s",
              trust_role_name(as->role), trust_role_name(csp->role));
    SEFL_NEED(strcmp(as->name, csp->name) == 0, SEFL_EINVAL,
              "the tokens are for different names: \"%s\" and \"%s\"", as->name, csp->name);
    SEFL_NEED(memcmp(as->sign, csp->sign, SIGN_PUB_BYTES) != 0, SEFL_EINVAL,
              "both tokens have the same signing key: the two servers must be different parties");
    SEFL_NEED(now < as->expires && now < csp->expires, SEFL_EAUTH,
              "the %s's token has expired: ask its operator for a new one",
              now < as->expires ? "CSP" : "aggregator");
    return SEFL_OK;
}

static sefl_status make_request(sefl_buf *out, dir_tree *d, const token *as, const token *csp,
                                enrol_claim *claim)
{
    sefl_status st = SEFL_OK;
    sefl_buf csr = { 0 };
    enrol_request q = { 0 };
    SEFL_TRY(own_request(d, as->name, &csr));
    SEFL_TRY(x509_request_read(q.claim.key, buf_span(&csr)));
    memcpy(q.claim.servers.as, as->sign, SIGN_PUB_BYTES);
    memcpy(q.claim.servers.csp, csp->sign, SIGN_PUB_BYTES);
    memcpy(q.claim.name, as->name, sizeof q.claim.name);
    SEFL_TRY(enrol_prove(&q.as, &q.claim, as));
    SEFL_TRY(enrol_prove(&q.csp, &q.claim, csp));
    q.csr = buf_span(&csr);
    SEFL_TRY(enrol_request_write(out, &q));
    *claim = q.claim;
done:
    buf_clear(&csr);
    return st;
}

/* Turns the server's answer into a status. refused: explains a 403. */
static sefl_status of_status(const https_reply *r, const char *refused)
{
    char words[ERROR_SHOWN];
    size_t n = 0;
    for (; n + 1 < sizeof words && n < r->body.n; n++)
        words[n] = r->body.p[n] >= 0x20 && r->body.p[n] < 0x7f ? (char)r->body.p[n] : ' ';
    while (n > 0 && words[n - 1] == ' ')
        n--;
    words[n] = 0;
    if (r->status == 429 || r->status == 503)
        return sefl_fail(SEFL_ETIMEOUT, "the server cannot answer now: %s", words);
    if (r->status != 403)
        return sefl_fail(SEFL_EPROTO, "the server answers %u: %s", r->status, words);
    return sefl_fail(SEFL_EAUTH, "the server answers 403: %s (%s)", words, refused);
}

/* Sends one request to AS. With our id it asks for a newer certificate; without one it posts the
 * enrolment request and recognises AS by the key in its token. */
static sefl_status ask(const site_config *c, const tls_id *id, const uint8_t *pin,
                       sefl_span request, const char *refused, https_reply *r)
{
    sefl_status st = SEFL_OK;
    https_client *web = NULL;
    char path[HTTP_PATH_MAX];
    SEFL_TRY(https_client_new(&web, &(https_client_config){ .host = c->server.host,
                                                            .port = c->server.port,
                                                            .id = id,
                                                            .pin = pin,
                                                            .proxy = c->proxy,
                                                            .headers = HTTP_VERSION_LINE,
                                                            .may_send = http_is_header }));
    SEFL_TRY(id ? https_get(web, http_path(path, &(http_target){ .call = HTTP_CERTIFICATE }),
                            X509_CERT_MAX, 0, r)
                : https_post(web, HTTP_ENROL_PATH, request, ENROL_ANSWER_MAX, WAIT_S, r));
    if (r->status != 200)
        SEFL_TRY(of_status(r, refused));
done:
    https_client_free(web);
    return st;
}

sefl_status site_enrol(const site_config *c, site_report *out)
{
    sefl_status st = SEFL_OK;
    token as = { 0 }, csp = { 0 };
    sefl_buf request = { 0 };
    https_reply r = { 0 };
    enrol_claim claim;
    enrol_answer a;
    site_report rep = { 0 };
    dir_tree d;
    SEFL_TRY(dir_root(&d, c->folder));
    SEFL_TRY(read_tokens(&as, &csp, c));
    SEFL_TRY(make_request(&request, &d, &as, &csp, &claim));
    SEFL_TRY(c->ask ? c->ask(c->ctx, buf_span(&request), &r.body)
                    : ask(c, NULL, as.tls, buf_span(&request),
                          "tokens are single-use, expire, and are valid for one name; the "
                          "operators' logs have the reason",
                          &r));
    SEFL_TRY(enrol_answer_read(&a, buf_span(&r.body)));
    SEFL_TRY(sefl_at(enrol_approved(a.csp, &claim, csp.sign), "the CSP's approval"));
    SEFL_TRY(sefl_at(enrol_approved(a.as, &claim, as.sign), "the aggregator's approval"));
    memcpy(rep.name, as.name, sizeof rep.name);
    memcpy(rep.key, claim.key, sizeof rep.key);
    memcpy(rep.as, as.sign, sizeof rep.as);
    memcpy(rep.csp, csp.sign, sizeof rep.csp);
    SEFL_TRY(install(&d, &c->server, a.certificate, a.ca, &rep));
    *out = rep;
done:
    token_clear(&as);
    token_clear(&csp);
    buf_clear(&request);
    https_reply_clear(&r);
    return st;
}

/* ---- by hand ---------------------------------------------------------------------------- */

sefl_status site_request(const char *folder, const char *name)
{
    sefl_status st = SEFL_OK;
    sefl_buf der = { 0 }, pem = { 0 };
    dir_tree d;
    SEFL_TRY(trust_name_check(name));
    SEFL_TRY(dir_root(&d, folder));
    SEFL_TRY(own_request(&d, name, &der));
    SEFL_TRY(x509_request_pem(&pem, buf_span(&der)));
    SEFL_TRY(site_put(&d, "csr.pem", buf_span(&pem)));
done:
    buf_clear(&der);
    buf_clear(&pem);
    return st;
}

static sefl_status own_key(dir_tree *d, uint8_t key[TRUST_KEY])
{
    sefl_status st = SEFL_OK;
    sefl_buf der = { 0 };
    SEFL_TRY(x509_request_for(&der, dir_in(d, "key.pem"), "x"));
    SEFL_TRY(x509_request_read(key, buf_span(&der)));
done:
    buf_clear(&der);
    return st;
}

sefl_status site_install(const site_config *c, site_report *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf cert = { 0 }, ca = { 0 };
    site_report rep = { 0 };
    x509_info info;
    dir_tree d;
    SEFL_TRY(dir_root(&d, c->folder));
    SEFL_CHECK(!file_exists(dir_in(&d, "cert.pem")), SEFL_EEXIST,
               "%s already has a certificate (to install a newer one for the same key: --renew "
               "--cert FILE)",
               c->folder);
    SEFL_TRY(own_key(&d, rep.key));
    SEFL_TRY(x509_info_file(&info, &ca, c->peers));
    SEFL_TRY(x509_info_file(&info, &cert, c->cert));
    SEFL_TRY(sign_pub_read(rep.as, c->as_key));
    SEFL_TRY(sign_pub_read(rep.csp, c->csp_key));
    snprintf(rep.name, sizeof rep.name, "%s", info.name);
    SEFL_TRY(install(&d, &c->server, buf_span(&cert), buf_span(&ca), &rep));
    *out = rep;
done:
    buf_clear(&cert);
    buf_clear(&ca);
    return st;
}

/* ---- a newer certificate ---------------------------------------------------------------- */

/* Fetches AS's certificate for the key of the installed one. */
static sefl_status fetch(const site_config *c, dir_tree *d, const x509_info *now, https_reply *r)
{
    sefl_status st = SEFL_OK;
    tls_id *id = NULL;
    sefl_clock wall = clock_wall();
    const bool expired = now->until < (int64_t)(clock_ms(&wall) / 1000);
    SEFL_TRY(tls_id_read(&id, dir_in(d, "cert.pem"), dir_in(d, "key.pem"), dir_in(d, "peers.pem")));
    SEFL_TRY(ask(c, id, NULL, (sefl_span){ 0 },
                 expired ? "the certificate has expired: ask AS's operator for a new one as a "
                           "file, and install it with --renew --cert FILE"
                         : "revoked or unknown: the operator's log has the reason",
                 r));
done:
    tls_id_free(id);
    return st;
}

sefl_status site_renew(const site_config *c, bool *fresh)
{
    sefl_status st = SEFL_OK;
    sefl_buf old = { 0 }, ca = { 0 };
    https_reply r = { 0 };
    x509_info now;
    site_report rep = { 0 };
    dir_tree d;
    *fresh = false;
    SEFL_TRY(dir_root(&d, c->folder));
    SEFL_TRY(x509_info_file(&now, &old, dir_in(&d, "cert.pem")));
    SEFL_TRY(file_read(&ca, dir_in(&d, "peers.pem"), X509_CERT_MAX));
    SEFL_TRY(own_key(&d, rep.key)); /* the installed certificate may be for another key */
    SEFL_TRY(c->cert ? file_read(&r.body, c->cert, X509_CERT_MAX) : fetch(c, &d, &now, &r));
    st = check_certificate(buf_span(&r.body), buf_span(&ca), &rep);
    SEFL_TRY(c->cert ? sefl_at(st, "%s", c->cert) : st);
    if (rep.until > now.until) {
        SEFL_TRY(site_put(&d, "cert.pem", buf_span(&r.body)));
        *fresh = true;
    }
done:
    https_reply_clear(&r);
    buf_clear(&old);
    buf_clear(&ca);
    return st;
}
