#define _GNU_SOURCE
#include "operator/provision_ids.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "roles/ca.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DAYS = 90, RING = 4, PEM_MAX = 64 << 10 };

typedef struct ids {
    const char *root;
    char path[RING][PATH_MAX];
    unsigned next;
    int64_t now;
    sefl_rng rng;
    trust_edit as, csp;
    sign_key *as_key, *csp_key;
    sefl_buf as_ca, csp_ca; /* PEM */
} ids;

/* A path below the root; valid until the fourth next call. */
static const char *in(ids *s, const char *fmt, ...)SEFL_PRINTF(2, 3);
static const char *in(ids *s, const char *fmt, ...)
{
    char *p = s->path[s->next++ % RING];
    va_list ap;
    int n = snprintf(p, PATH_MAX, "%s/", s->root);
    va_start(ap, fmt);
    vsnprintf(p + n, (size_t)(PATH_MAX - n), fmt, ap);
    va_end(ap);
    return p;
}

static sefl_status make_operators(ids *s)
{
    static const char hosts[] = "localhost,127.0.0.1,::1";
    sefl_status st = SEFL_OK;
    SEFL_TRY(
        ca_new(in(s, "ca/aggregator"), "trial aggregator", DAYS, in(s, "aggregator/sign.key")));
    SEFL_TRY(ca_new(in(s, "ca/csp"), "trial csp", DAYS, in(s, "csp/sign.key")));
    SEFL_TRY(sign_key_read(&s->as_key, in(s, "aggregator/sign.key")));
    SEFL_TRY(sign_key_read(&s->csp_key, in(s, "csp/sign.key")));
    SEFL_TRY(file_read(&s->as_ca, in(s, "ca/aggregator/ca.pem"), PEM_MAX));
    SEFL_TRY(file_read(&s->csp_ca, in(s, "ca/csp/ca.pem"), PEM_MAX));
    SEFL_TRY(ca_edit(&s->as, in(s, "ca/aggregator")));
    SEFL_TRY(ca_edit(&s->csp, in(s, "ca/csp")));
    ca_server_config c = { .role = TRUST_AGGREGATOR,
                           .name = "aggregator",
                           .hosts = hosts,
                           .days = DAYS,
                           .cert = in(s, "aggregator/cert.pem"),
                           .key = in(s, "aggregator/key.pem") };
    SEFL_TRY(ca_server(s->as.t, in(s, "ca/aggregator"), &c, s->now));
    c = (ca_server_config){ .role = TRUST_CSP,
                            .name = "csp",
                            .hosts = hosts,
                            .days = DAYS,
                            .cert = in(s, "csp/cert.pem"),
                            .key = in(s, "csp/key.pem") };
    SEFL_TRY(ca_server(s->csp.t, in(s, "ca/csp"), &c, s->now));
    SEFL_TRY(ca_trust_issuer(s->as.t, in(s, "ca/aggregator"), buf_span(&s->csp_ca),
                             &(ca_issuer_config){ .role = TRUST_CSP }, s->now));
    SEFL_TRY(ca_trust_issuer(s->csp.t, in(s, "ca/csp"), buf_span(&s->as_ca),
                             &(ca_issuer_config){ .role = TRUST_AGGREGATOR }, s->now));
done:
    return st;
}

/* Whom the servers dial and, without a trust list, let in. */
static sefl_status write_public(ids *s)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(file_write_new(in(s, "csp/peers.pem"), buf_span(&s->as_ca), 0644));
    /* two files: whoever runs CSP's CA must not be able to enrol clients at AS */
    SEFL_TRY(file_write_new(in(s, "aggregator/peers.pem"), buf_span(&s->as_ca), 0644));
    SEFL_TRY(file_write_new(in(s, "aggregator/csp_peers.pem"), buf_span(&s->csp_ca), 0644));
    SEFL_TRY(sign_pub_write(sign_key_pub(s->as_key), in(s, "public/aggregator.pub")));
    SEFL_TRY(sign_pub_write(sign_key_pub(s->csp_key), in(s, "public/csp.pub")));
done:
    return st;
}

/* Each operator gives a token; as the site would get it. */
static sefl_status give_token(ids *s, trust *t, const char *name, token *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { 0 };
    SEFL_TRY(ca_token(t, &text, name, s->now + 3600 * CA_TOKEN_HOURS, s->now, &s->rng));
    SEFL_TRY(token_parse(out, buf_span(&text)));
done:
    buf_clear(&text);
    return st;
}

static sefl_status make_client(ids *s, const char *name)
{
    sefl_status st = SEFL_OK;
    token as = { 0 }, csp = { 0 };
    sefl_buf csr = { 0 }, bytes = { 0 };
    enrol_request q = { 0 };
    enrol_answer a;
    uint8_t approval[SIGN_BYTES];
    SEFL_TRY(give_token(s, s->as.t, name, &as));
    SEFL_TRY(give_token(s, s->csp.t, name, &csp));
    /* the site */
    SEFL_TRY(x509_request_make(&csr, in(s, "clients/%s/key.pem", name), name));
    SEFL_TRY(x509_request_read(q.claim.key, buf_span(&csr)));
    memcpy(q.claim.servers.as, as.sign, SIGN_PUB_BYTES);
    memcpy(q.claim.servers.csp, csp.sign, SIGN_PUB_BYTES);
    memcpy(q.claim.name, as.name, sizeof q.claim.name);
    SEFL_TRY(enrol_prove(&q.as, &q.claim, &as));
    SEFL_TRY(enrol_prove(&q.csp, &q.claim, &csp));
    q.csr = buf_span(&csr);
    /* CSP, then AS */
    SEFL_TRY(ca_check(s->csp.t, &q.claim, &q.csp, s->now));
    SEFL_TRY(ca_admit(s->csp.t, &q.claim, &q.csp, 0, NULL, s->now));
    SEFL_TRY(enrol_approve(approval, &q.claim, s->csp_key));
    SEFL_TRY(ca_enrol(s->as.t, in(s, "ca/aggregator"), &bytes, &q, approval, s->as_key, "trial",
                      DAYS, s->now));
    /* the site again */
    SEFL_TRY(enrol_answer_read(&a, buf_span(&bytes)));
    SEFL_TRY(enrol_approved(a.csp, &q.claim, csp.sign));
    SEFL_TRY(file_write_new(in(s, "clients/%s/cert.pem", name), a.certificate, 0644));
    SEFL_TRY(file_write_new(in(s, "clients/%s/peers.pem", name), a.ca, 0644));
    SEFL_TRY(sign_pub_write(as.sign, in(s, "clients/%s/aggregator.pub", name)));
    SEFL_TRY(sign_pub_write(csp.sign, in(s, "clients/%s/csp.pub", name)));
done:
    token_clear(&as);
    token_clear(&csp);
    buf_clear(&csr);
    buf_clear(&bytes);
    return st;
}

sefl_status provision_identities(const char *root, uint32_t clients, unsigned width)
{
    sefl_status st = SEFL_OK;
    ids *s = NULL;
    sefl_clock wall = clock_wall();
    char name[32];
    SEFL_TRY(sefl_new(&s, 1, sizeof *s));
    s->root = root;
    s->as.lock = s->csp.lock = -1;
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
