#include "operator/provision_ids.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "operator/site.h"
#include "roles/ca.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DAYS = 90 };

typedef struct ids {
    dir_tree at;
    int64_t now;
    sefl_rng rng;
    trust_edit as, csp;
    sign_key *as_key, *csp_key;
    sefl_buf as_ca, csp_ca; /* PEM */
} ids;

/* One operator's folder, with the server's signing key and certificate. */
static sefl_status make_operator(ids *s, trust_role role, const char *name, trust_edit *list,
                                 sign_key **key, sefl_buf *ca)
{
    char subject[32];
    const char *folder = dir_in(&s->at, "ca/%s", name);
    snprintf(subject, sizeof subject, "trial %s", name);
    SEFL_PASS(ca_new(folder, subject, DAYS, dir_in(&s->at, "%s/sign.key", name)));
    SEFL_PASS(sign_key_read(key, dir_in(&s->at, "%s/sign.key", name)));
    SEFL_PASS(file_read(ca, dir_in(&s->at, "ca/%s/ca.pem", name), X509_CERT_MAX));
    SEFL_PASS(ca_edit(list, folder));
    return ca_server(list->t, folder,
                     &(ca_server_config){ .role = role,
                                          .name = name,
                                          .hosts = "localhost,127.0.0.1,::1",
                                          .days = DAYS,
                                          .cert = dir_in(&s->at, "%s/cert.pem", name),
                                          .key = dir_in(&s->at, "%s/key.pem", name) },
                     s->now);
}

static sefl_status make_operators(ids *s)
{
    SEFL_PASS(make_operator(s, TRUST_AGGREGATOR, "aggregator", &s->as, &s->as_key, &s->as_ca));
    SEFL_PASS(make_operator(s, TRUST_CSP, "csp", &s->csp, &s->csp_key, &s->csp_ca));
    SEFL_PASS(ca_trust_issuer(s->as.t, dir_in(&s->at, "ca/aggregator"), buf_span(&s->csp_ca),
                              &(ca_issuer_config){ .role = TRUST_CSP }, s->now));
    return ca_trust_issuer(s->csp.t, dir_in(&s->at, "ca/csp"), buf_span(&s->as_ca),
                           &(ca_issuer_config){ .role = TRUST_AGGREGATOR }, s->now);
}

/* The CAs that the servers accept, and their public signing keys. */
static sefl_status write_public(ids *s)
{
    SEFL_PASS(file_write_new(dir_in(&s->at, "csp/peers.pem"), buf_span(&s->as_ca), 0644));
    /* two files: the operator of CSP's CA must not be able to enrol clients at AS */
    SEFL_PASS(file_write_new(dir_in(&s->at, "aggregator/peers.pem"), buf_span(&s->as_ca), 0644));
    SEFL_PASS(
        file_write_new(dir_in(&s->at, "aggregator/csp_peers.pem"), buf_span(&s->csp_ca), 0644));
    SEFL_PASS(sign_pub_write(sign_key_pub(s->as_key), dir_in(&s->at, "public/aggregator.pub")));
    return sign_pub_write(sign_key_pub(s->csp_key), dir_in(&s->at, "public/csp.pub"));
}

/* Both servers, as a site's request reaches them: CSP approves, then AS issues. */
static sefl_status serve(void *ctx, sefl_span request, sefl_buf *answer)
{
    ids *s = ctx;
    enrol_request q;
    uint8_t approval[SIGN_BYTES];
    SEFL_PASS(enrol_request_read(&q, request));
    SEFL_PASS(ca_check(s->csp.t, &q.claim, &q.csp, s->now));
    SEFL_PASS(ca_admit(s->csp.t, &q.claim, &q.csp, 0, NULL, s->now));
    SEFL_PASS(enrol_approve(approval, &q.claim, s->csp_key));
    return ca_enrol(s->as.t, dir_in(&s->at, "ca/aggregator"), answer, &q, approval, s->as_key,
                    "trial", DAYS, s->now);
}

static sefl_status make_client(ids *s, const char *name)
{
    sefl_status st = SEFL_OK;
    sefl_buf as = { 0 }, csp = { 0 };
    site_report report;
    const int64_t expires = s->now + 3600 * CA_TOKEN_HOURS;
    SEFL_TRY(ca_token(s->as.t, &as, name, expires, s->now, &s->rng));
    SEFL_TRY(ca_token(s->csp.t, &csp, name, expires, s->now, &s->rng));
    SEFL_TRY(site_enrol(&(site_config){ .folder = dir_in(&s->at, "clients/%s", name),
                                        .as_token = buf_span(&as),
                                        .csp_token = buf_span(&csp),
                                        .ask = serve,
                                        .ctx = s },
                        &report));
done:
    buf_clear(&as);
    buf_clear(&csp);
    return st;
}

sefl_status provision_identities(const char *root, uint32_t clients, unsigned width)
{
    sefl_status st = SEFL_OK;
    ids *s = NULL;
    sefl_clock wall = clock_wall();
    char name[32];
    SEFL_TRY(sefl_new(&s, 1, sizeof *s));
    s->as.lock = s->csp.lock = -1;
    SEFL_TRY(dir_root(&s->at, root));
    s->rng = rng_system();
    s->now = (int64_t)(clock_ms(&wall) / 1000);
    SEFL_TRY(make_operators(s));
    SEFL_TRY(write_public(s));
    for (uint32_t i = 0; i < clients; i++) {
        snprintf(name, sizeof name, "client-%0*" PRIu32, (int)width, i + 1);
        SEFL_TRY(make_client(s, name));
    }
    SEFL_TRY(trust_edit_commit(&s->as));
    SEFL_TRY(trust_edit_commit(&s->csp));
done:
    if (s) {
        trust_edit_end(&s->as);
        trust_edit_end(&s->csp);
        sign_key_free(s->as_key);
        sign_key_free(s->csp_key);
        buf_clear(&s->as_ca);
        buf_clear(&s->csp_ca);
    }
    sefl_free(s);
    return st;
}
