#include "operator/provision_ids.h"

#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "operator/site.h"
#include "roles/ca.h"

#include <inttypes.h>
#include <stdio.h>

enum { DAYS = 90 };

/* One operator: its trust list, its server's signing key and its CA (PEM). */
typedef struct party {
    trust_role role; /* role of its server */
    const char *hosts;
    trust_edit list;
    sign_key *key;
    sefl_buf ca;
} party;

typedef struct ids {
    dir_tree at;
    int64_t now;
    sefl_rng rng;
    party as, csp;
} ids;

/* Creates the folder ca/NAME, and the server's signing key and certificate in NAME. */
static sefl_status make_operator(ids *s, party *o)
{
    char subject[32];
    const char *name = trust_role_name(o->role), *folder = dir_in(&s->at, "ca/%s", name);
    snprintf(subject, sizeof subject, "trial %s", name);
    SEFL_PASS(ca_new(folder, subject, DAYS, dir_in(&s->at, "%s/sign.key", name)));
    SEFL_PASS(sign_key_read(&o->key, dir_in(&s->at, "%s/sign.key", name)));
    SEFL_PASS(sign_pub_write(sign_key_pub(o->key), dir_in(&s->at, "public/%s.pub", name)));
    SEFL_PASS(file_read(&o->ca, dir_in(&s->at, "ca/%s/ca.pem", name), X509_CERT_MAX));
    SEFL_PASS(ca_edit(&o->list, folder));
    return ca_server(o->list.t, folder,
                     &(ca_server_config){ .role = o->role,
                                          .name = name,
                                          .hosts = o->hosts,
                                          .days = DAYS,
                                          .cert = dir_in(&s->at, "%s/cert.pem", name),
                                          .key = dir_in(&s->at, "%s/key.pem", name) },
                     s->now);
}

/* Makes the operator trust the other's CA for the role of the other's server. */
static sefl_status trust_other(ids *s, party *o, const party *other)
{
    return ca_trust_issuer(o->list.t, dir_in(&s->at, "ca/%s", trust_role_name(o->role)),
                           buf_span(&other->ca), &(ca_issuer_config){ .role = other->role },
                           s->now);
}

/* Writes the CAs that the servers accept. */
static sefl_status write_peers(ids *s)
{
    SEFL_PASS(file_write_new(dir_in(&s->at, "csp/peers.pem"), buf_span(&s->as.ca), 0644));
    /* two files: the operator of CSP's CA must not be able to enrol clients at AS */
    SEFL_PASS(file_write_new(dir_in(&s->at, "aggregator/peers.pem"), buf_span(&s->as.ca), 0644));
    return file_write_new(dir_in(&s->at, "aggregator/csp_peers.pem"), buf_span(&s->csp.ca), 0644);
}

/* Handles a site's request as both servers do: CSP approves, then AS issues. */
static sefl_status serve(void *ctx, sefl_span request, sefl_buf *answer)
{
    ids *s = ctx;
    enrol_request q;
    uint8_t approval[SIGN_BYTES];
    SEFL_PASS(enrol_request_read(&q, request));
    SEFL_PASS(ca_check(s->csp.list.t, &q.claim, &q.csp, s->now));
    SEFL_PASS(ca_admit(s->csp.list.t, &q.claim, &q.csp, 0, NULL, s->now));
    SEFL_PASS(enrol_approve(approval, &q.claim, s->csp.key));
    return ca_enrol(s->as.list.t, dir_in(&s->at, "ca/aggregator"), answer, &q, approval, s->as.key,
                    "trial", DAYS, s->now);
}

static sefl_status make_client(ids *s, const char *name)
{
    sefl_status st = SEFL_OK;
    sefl_buf as = { 0 }, csp = { 0 };
    site_report report;
    const int64_t expires = s->now + 3600 * CA_TOKEN_HOURS;
    SEFL_TRY(ca_token(s->as.list.t, &as, name, expires, s->now, &s->rng));
    SEFL_TRY(ca_token(s->csp.list.t, &csp, name, expires, s->now, &s->rng));
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

static void party_clear(party *o)
{
    trust_edit_end(&o->list);
    sign_key_free(o->key);
    buf_clear(&o->ca);
}

sefl_status provision_identities(const char *root, const char *as_hosts, const char *csp_hosts,
                                 uint32_t clients, unsigned width)
{
    sefl_status st = SEFL_OK;
    sefl_clock wall = clock_wall();
    ids s = { .now = (int64_t)(clock_ms(&wall) / 1000),
              .rng = rng_system(),
              .as = { .role = TRUST_AGGREGATOR, .hosts = as_hosts },
              .csp = { .role = TRUST_CSP, .hosts = csp_hosts } };
    char name[32];
    SEFL_TRY(dir_root(&s.at, root));
    SEFL_TRY(make_operator(&s, &s.as));
    SEFL_TRY(make_operator(&s, &s.csp));
    SEFL_TRY(trust_other(&s, &s.as, &s.csp));
    SEFL_TRY(trust_other(&s, &s.csp, &s.as));
    SEFL_TRY(write_peers(&s));
    for (uint32_t i = 0; i < clients; i++) {
        snprintf(name, sizeof name, "client-%0*" PRIu32, (int)width, i + 1);
        SEFL_TRY(make_client(&s, name));
    }
    SEFL_TRY(trust_edit_commit(&s.as.list));
    SEFL_TRY(trust_edit_commit(&s.csp.list));
done:
    party_clear(&s.as);
    party_clear(&s.csp);
    return st;
}
