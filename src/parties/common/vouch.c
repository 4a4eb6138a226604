#include "roles/vouch.h"

#include "base/file.h"

#include <string.h>

sefl_status vouch_make(sefl_buf *out, const char *cert_path, const char *key_path,
                       const uint8_t upload_key[SIGN_PUB_BYTES], const pinned *servers,
                       uint64_t serial)
{
    sefl_status st = SEFL_OK;
    voucher v = { .servers = *servers, .serial = serial };
    sefl_buf pem = { 0 }, spki = { 0 }, bytes = { 0 }, sig = { 0 };
    memcpy(v.key, upload_key, sizeof v.key);
    SEFL_TRY(file_read(&pem, cert_path, VOUCHER_MAX));
    SEFL_TRY(sefl_at(x509_spki_read(&spki, buf_span(&pem)), "%s", cert_path));
    v.spki = buf_span(&spki);
    v.chain = buf_span(&pem);
    SEFL_TRY(voucher_to_sign(&bytes, &v));
    SEFL_TRY(x509_sign(&sig, key_path, buf_span(&bytes)));
    v.signature = buf_span(&sig);
    st = vouch_check(&v, servers);
    if (st == SEFL_EAUTH)
        st = sefl_fail(SEFL_EINVAL, "%s is not the key of %s", key_path, cert_path);
    SEFL_TRY(st);
    SEFL_TRY(voucher_write(out, &v));
done:
    buf_clear(&pem), buf_clear(&spki), buf_clear(&bytes), buf_clear(&sig);
    return st;
}

sefl_status vouch_check(const voucher *v, const pinned *servers)
{
    sefl_status st = SEFL_OK;
    sefl_buf bytes = { 0 };
    SEFL_CHECK(memcmp(v->servers.as, servers->as, sizeof servers->as) == 0 &&
                   memcmp(v->servers.csp, servers->csp, sizeof servers->csp) == 0,
               SEFL_EAUTH, "voucher: made for other servers");
    SEFL_TRY(voucher_to_sign(&bytes, v));
    st = x509_verify(v->spki, buf_span(&bytes), v->signature);
    if (st == SEFL_EAUTH)
        st = sefl_fail_at(st, "voucher");
done:
    buf_clear(&bytes);
    return st;
}

/* True if the member is an active client, and its issuer, if the list names one, is active too. */
static bool is_listed_client(const trust *t, const trust_member *m)
{
    static const uint8_t nobody[TRUST_KEY];
    if (m->role != TRUST_CLIENT || m->state != TRUST_ACTIVE)
        return false;
    if (memcmp(m->issuer, nobody, sizeof nobody) == 0)
        return true;
    const trust_issuer *i = trust_find_issuer(t, m->issuer, TRUST_CLIENT);
    return i && i->state == TRUST_ACTIVE;
}

sefl_status vouch_admit(x509_peer *who, const allowlist *g, const voucher *v)
{
    const trust_member *m = trust_find(allowlist_list(g), v->client);
    memset(who, 0, sizeof *who);
    if (m) {
        SEFL_NEED(is_listed_client(allowlist_list(g), m), SEFL_EAUTH,
                  "voucher of \"%s\": revoked, or not a client", m->name);
        memcpy(who->fingerprint, v->client, sizeof who->fingerprint);
        who->listed = true;
        return SEFL_OK;
    }
    SEFL_NEED(v->chain.n > 0, SEFL_EAUTH,
              "voucher: its key is not in the list of members, and it has no certificate");
    allowlist_shown(g, who, v->chain, "client");
    SEFL_NEED(who->code == X509_OK, SEFL_EAUTH, "voucher: %s", who->why);
    SEFL_NEED(memcmp(who->fingerprint, v->client, sizeof who->fingerprint) == 0, SEFL_EAUTH,
              "voucher: its certificate is another client's");
    return SEFL_OK;
}

bool vouch_still(const allowlist *g, const uint8_t client[32], const x509_peer *who)
{
    const trust_member *m = trust_find(allowlist_list(g), client);
    if (m)
        return is_listed_client(allowlist_list(g), m);
    if (!who || who->listed) /* a former member that the list no longer has */
        return false;
    x509_peer copy = *who;
    return allowlist_still(g, &copy);
}
