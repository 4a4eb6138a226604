#include "net/allowlist.h"

#include "base/alloc.h"
#include "net/tls_inside.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

struct allowlist {
    _Atomic unsigned holders;
    trust *list;
    gnutls_x509_trust_list_t *by; /* one for each issuer of the list */
};

static sefl_status one_issuer(gnutls_x509_trust_list_t *out, const trust_issuer *i)
{
    sefl_status st = SEFL_OK;
    gnutls_x509_crt_t ca = NULL;
    GNUTLS_TRY(gnutls_x509_trust_list_init(out, 0), "trust list");
    GNUTLS_TRY(gnutls_x509_crt_init(&ca), "trust list");
    GNUTLS_READ(SEFL_EPROTO, gnutls_x509_crt_import(ca, &TLS_DATUM(i->der), GNUTLS_X509_FMT_DER),
                "trust list: a CA's certificate");
    SEFL_CHECK(gnutls_x509_trust_list_add_cas(*out, &ca, 1, 0) == 1, SEFL_ENOMEM,
               "trust list: out of memory");
    ca = NULL; /* the list's now */
done:
    gnutls_x509_crt_deinit(ca);
    return st;
}

sefl_status allowlist_new(allowlist **out, const trust *t)
{
    SEFL_MAKE(allowlist, g, out);
    atomic_init(&g->holders, 1);
    g->list = trust_hold(t);
    SEFL_TRY(sefl_new(&g->by, t->issuers, sizeof(gnutls_x509_trust_list_t)));
    for (size_t i = 0; i < t->issuers; i++)
        SEFL_TRY(one_issuer(&g->by[i], &t->issuer[i]));
    SEFL_HAND_OVER(out, g, allowlist_free);
}

allowlist *allowlist_hold(const allowlist *g)
{
    allowlist *mine = (allowlist *)(uintptr_t)g; /* only the count changes, and it is atomic */
    if (mine)
        atomic_fetch_add(&mine->holders, 1);
    return mine;
}

void allowlist_free(allowlist *g)
{
    if (!g || atomic_fetch_sub(&g->holders, 1) != 1)
        return;
    for (size_t i = 0; g->by && i < g->list->issuers; i++)
        if (g->by[i])
            gnutls_x509_trust_list_deinit(g->by[i], 1);
    sefl_free(g->by);
    trust_free(g->list);
    sefl_free(g);
}

const trust *allowlist_list(const allowlist *g)
{
    return g->list;
}

/* If the issuer has a unit, a certificate from another unit has no role here, with or without our
 * role entry. One from that unit needs no entry; an entry for another role stays and leads to a
 * refusal. */
static void map_role(x509_peer *p, gnutls_x509_crt_t crt, const trust_issuer *i)
{
    if (!i->unit[0])
        return;
    if (strcmp(i->unit, "*") != 0 && !x509_has_unit(crt, i->unit))
        p->role[0] = 0;
    else if (!p->role[0])
        strcpy(p->role, trust_role_name(i->role));
}

bool allowlist_chain(const allowlist *g, x509_peer *p, gnutls_x509_crt_t *crt, unsigned n,
                     const char *role)
{
    const trust *t = g->list;
    x509_peer best = *p;
    x509_judge(&best, X509_UNKNOWN_ISSUER, "not issued by a trusted CA");
    for (size_t i = 0; i < t->issuers; i++) {
        const trust_issuer *is = &t->issuer[i];
        x509_peer one = *p;
        bool good = x509_chain_good(&one, crt, n, g->by[i]);
        /* the issuer that vouches for it, even if it is refused */
        if (good || one.code == X509_EXPIRED || one.code == X509_NOT_YET)
            memcpy(one.issuer, is->key, sizeof one.issuer);
        if (good && is->state != TRUST_ACTIVE)
            good = x509_judge(&one, X509_WITHDRAWN, "its issuer is no longer trusted");
        else if (good && role && strcmp(trust_role_name(is->role), role) != 0)
            good =
                x509_judge(&one, X509_WRONG_ROLE, "its issuer is trusted only for the role \"%s\"",
                           trust_role_name(is->role));
        if (good) {
            memcpy(p->issuer, is->key, sizeof p->issuer);
            map_role(p, crt[0], is);
            return true;
        }
        if (best.code == X509_UNKNOWN_ISSUER)
            best = one; /* any other verdict is more precise */
    }
    *p = best;
    return false;
}

bool allowlist_member(const allowlist *g, x509_peer *p)
{
    const trust *t = g->list;
    const trust_member *m = trust_find(t, p->fingerprint);
    const trust_issuer *i = NULL;
    static const uint8_t nobody[32];
    p->listed = m != NULL;
    if (memcmp(p->issuer, nobody, sizeof nobody) != 0) {
        i = trust_find_issuer(t, p->issuer, trust_role_of(p->role));
        if (!i || i->state != TRUST_ACTIVE)
            return x509_judge(p, X509_WITHDRAWN, "its issuer is no longer trusted");
    }
    if (m && m->state != TRUST_ACTIVE)
        return x509_judge(p, X509_WITHDRAWN, "revoked");
    if (i && i->listed && (!m || m->role != i->role))
        return x509_judge(p, X509_NOT_LISTED, "not in this server's list of members");
    return true;
}

void allowlist_shown(const allowlist *g, x509_peer *p, sefl_span pem, const char *role)
{
    x509_check_pem(p, pem, NULL, &(x509_want){ .role = role, .allowlist = g });
}

bool allowlist_still(const allowlist *g, x509_peer *p)
{
    if (p->until < (int64_t)time(NULL))
        return x509_judge(p, X509_EXPIRED, "it has expired");
    return allowlist_member(g, p);
}
