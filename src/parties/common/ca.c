#define _GNU_SOURCE
#include "roles/ca.h"

#include "base/dir.h"
#include "base/hex.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder's own CA. */
typedef struct own_files {
    char cert[PATH_MAX], key[PATH_MAX];
} own_files;

static sefl_status own_files_of(own_files *out, const char *folder)
{
    SEFL_PASS(file_path(out->cert, "%s/ca.pem", folder));
    return file_path(out->key, "%s/ca.key", folder);
}

sefl_status ca_read(trust **out, const char *folder)
{
    char path[PATH_MAX];
    *out = NULL;
    SEFL_PASS(file_path(path, "%s/trust", folder));
    return trust_read(out, path);
}

sefl_status ca_edit(trust_edit *e, const char *folder)
{
    char path[PATH_MAX];
    SEFL_PASS(file_path(path, "%s/trust", folder));
    return trust_edit_begin(e, path);
}

sefl_status ca_check_owner(const char *folder)
{
    char path[PATH_MAX];
    struct stat sb;
    SEFL_PASS(file_path(path, "%s/trust", folder));
    if (stat(path, &sb) != 0 || sb.st_uid == geteuid())
        return SEFL_OK; /* no such file: ca_edit reports it */
    const struct passwd *owner = getpwuid(sb.st_uid);
    return sefl_fail(SEFL_EAUTH, "%s belongs to %s%.64s: run it as that user (sudo -u ...)", folder,
                     owner ? "" : "another user", owner ? owner->pw_name : "");
}

sefl_status ca_list_of(const trust *t, trust_role role, const uint8_t sign[SIGN_PUB_BYTES])
{
    const trust_self *self = &t->self;
    SEFL_NEED(!self->role || self->role == role, SEFL_EINVAL,
              "the trust list belongs to the %s \"%s\", and this is the %s: `ca` names another "
              "server's folder",
              trust_role_name(self->role), self->name, trust_role_name(role));
    SEFL_NEED(!self->role || memcmp(self->sign, sign, SIGN_PUB_BYTES) == 0, SEFL_EINVAL,
              "the trust list belongs to the %s \"%s\", which signs with another key than "
              "`sign_key`: `ca` or `sign_key` names another server's files",
              trust_role_name(self->role), self->name);
    return SEFL_OK;
}

/* ---- a new folder ---------------------------------------------------------------------------- */

static sefl_status fill_folder(const char *folder, const char *subject, unsigned days,
                               const char *sign_at)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    own_files own;
    sign_key *key = NULL;
    sefl_rng rng = rng_system();
    SEFL_TRY(file_path(path, "%s/issued", folder));
    SEFL_TRY(file_make_folder(path, 0700));
    SEFL_TRY(own_files_of(&own, folder));
    x509_subject s = { .name = subject, .days = days ? days : CA_DAYS };
    SEFL_TRY(x509_make(own.cert, own.key, &s, NULL, NULL));
    SEFL_TRY(sign_key_new(&key, &rng));
    SEFL_TRY(file_path(path, "%s/sign.key", folder));
    SEFL_TRY(sign_key_write(key, sign_at ? sign_at : path));
    SEFL_TRY(file_path(path, "%s/sign.pub", folder));
    SEFL_TRY(sign_pub_write(sign_key_pub(key), path));
    SEFL_TRY(file_path(path, "%s/trust", folder));
    SEFL_TRY(trust_create(path));
done:
    sign_key_free(key);
    return st;
}

/* Removes what fill_folder made in an empty folder; allocates nothing. */
static void empty_again(const char *folder)
{
    static const char *const files[] = { "ca.pem", "ca.key", "sign.key", "sign.pub", "trust" };
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        (void)unlinkat(dir, files[i], 0);
    (void)unlinkat(dir, "issued", AT_REMOVEDIR);
    close(dir);
}

static bool is_blank(const char *s)
{
    return s[strspn(s, " \t")] == 0;
}

/* Fills the folder in place and renames nothing, unlike provision: the folder may be a mount point,
 * or its parent may belong to another user. */
sefl_status ca_new(const char *folder, const char *name, unsigned days, const char *sign_at)
{
    sefl_status st = SEFL_OK;
    bool was_there = file_exists(folder), key_was_there = sign_at && file_exists(sign_at);
    char subject[65];
    SEFL_CHECK(!is_blank(name), SEFL_EINVAL, "a CA needs a name that identifies its operator");
    SEFL_CHECK(snprintf(subject, sizeof subject, "%s CA", name) < (int)sizeof subject, SEFL_EINVAL,
               "a CA's name has at most 61 characters, not \"%.80s\"", name);
    SEFL_TRY(file_make_folder(folder, 0700));
    SEFL_TRY(dir_check_free(folder));
    st = fill_folder(folder, subject, days, sign_at);
    if (st != SEFL_OK) {
        empty_again(folder);
        if (sign_at && !key_was_there)
            (void)unlink(sign_at);
    }
done:
    if (st != SEFL_OK && !was_there)
        (void)rmdir(folder);
    return st;
}

/* ---- servers and issuers --------------------------------------------------------------------- */

/* Reads the folder's CA: its PEM and its contents. */
static sefl_status own_ca(const char *folder, sefl_buf *pem, x509_info *info)
{
    own_files own;
    SEFL_PASS(own_files_of(&own, folder));
    return x509_info_file(info, pem, own.cert);
}

/* Adds an issuer. A known one keeps its state: only `ca restore` reactivates a revoked one. */
static sefl_status put_issuer(trust *t, sefl_span pem, trust_role role, const char *unit,
                              bool listed, int64_t now)
{
    sefl_status st = SEFL_OK;
    sefl_buf der = { 0 };
    x509_info info;
    trust_issuer i = { .role = role, .state = TRUST_ACTIVE, .listed = listed, .since = now };
    SEFL_TRY(x509_info_read(&info, pem, &der));
    SEFL_CHECK(info.is_ca, SEFL_EINVAL, "the certificate of \"%s\" is not a CA certificate",
               info.name);
    SEFL_CHECK(info.until > now, SEFL_EINVAL, "the CA \"%s\" has expired", info.name);
    SEFL_CHECK(!info.weak, SEFL_EINVAL,
               "the key of the CA \"%s\" is weak (P-256, RSA-2048 or better)", info.name);
    SEFL_CHECK(snprintf(i.unit, sizeof i.unit, "%s", unit) < (int)sizeof i.unit, SEFL_EINVAL,
               "an organisational unit has at most %d characters", TRUST_NAME_MAX);
    for (const char *c = unit; *c; c++) /* as net/x509_check.c compares */
        SEFL_CHECK(*c >= 0x20 && *c < 0x7f, SEFL_EINVAL,
                   "an organisational unit is compared as printable ASCII: \"%.64s\" would match "
                   "nobody",
                   unit);
    memcpy(i.key, info.fingerprint, sizeof i.key);
    memcpy(i.name, info.name, sizeof i.name);
    i.der = buf_span(&der);
    const trust_issuer *same = trust_find_issuer(t, i.key, role);
    if (same)
        i.state = same->state, i.since = same->since;
    SEFL_TRY(trust_issuer_put(t, &i));
done:
    buf_clear(&der);
    return st;
}

/* Refuses a CA that the list already has: a wrong --role would admit strangers. */
static sefl_status known_already(const trust_issuer *other, const x509_info *ca, trust_role role)
{
    char hex[17];
    hex_write(hex, ca->fingerprint, 8);
    const char *has = trust_role_name(other->role);
    if (other->role == role)
        return sefl_fail(
            SEFL_ESTATE,
            "the CA \"%s\" was revoked: if that was a mistake, undo it first with 'sefl "
            "ca restore FOLDER --issuer %s --role %s'",
            ca->name, hex, has);
    if (other->state == TRUST_REVOKED)
        return sefl_fail(
            SEFL_ESTATE,
            "the CA \"%s\" was revoked for the role %s: to trust it for %s anyway, give "
            "--also",
            ca->name, has, trust_role_name(role));
    return sefl_fail(
        SEFL_EEXIST,
        "the CA \"%s\" is already trusted for the role %s: if that was a mistake, undo "
        "it with 'sefl ca revoke FOLDER --issuer %s --role %s'; for both roles give "
        "--also",
        ca->name, has, hex, has);
}

sefl_status ca_trust_issuer(trust *t, const char *folder, sefl_span pem, const ca_issuer_config *c,
                            int64_t now)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    x509_info info, own;
    SEFL_TRY(x509_info_read(&info, pem, NULL));
    SEFL_CHECK(x509_count(pem) == 1, SEFL_EINVAL,
               "the file has more than one certificate, or is damaged: give one CA per file");
    SEFL_TRY(own_ca(folder, &b, &own));
    const trust_issuer *same = trust_find_issuer(t, info.fingerprint, c->role);
    SEFL_CHECK(!same || !same->listed, SEFL_EEXIST,
               "\"%s\" is this folder's own CA: only its listed members may connect", info.name);
    SEFL_CHECK(c->also || memcmp(own.fingerprint, info.fingerprint, TRUST_KEY) != 0, SEFL_EEXIST,
               "\"%s\" is this folder's own CA: to trust it for the role %s too, give --also",
               info.name, trust_role_name(c->role));
    for (size_t i = 0; i < t->issuers; i++) {
        const trust_issuer *is = &t->issuer[i];
        bool bad = is->role == c->role ? is->state == TRUST_REVOKED : !c->also && !same;
        if (bad && memcmp(is->key, info.fingerprint, TRUST_KEY) == 0)
            SEFL_TRY(known_already(is, &info, c->role));
    }
    SEFL_TRY(put_issuer(t, pem, c->role, c->unit ? c->unit : "", false, now));
done:
    buf_clear(&b);
    return st;
}

sefl_status ca_set_issuer(trust *t, const uint8_t key[TRUST_KEY], trust_role role, trust_state to,
                          int64_t now)
{
    trust_issuer *which[TRUST_CSP];
    unsigned roles = 0;
    for (trust_role r = TRUST_CLIENT; r <= TRUST_CSP; r++) {
        trust_issuer *is = !role || r == role ? trust_find_issuer(t, key, r) : NULL;
        if (is && is->state != to)
            which[roles++] = is;
    }
    SEFL_NEED(roles > 0, SEFL_ENOTFOUND, "this CA is not %s%s%s",
              to == TRUST_REVOKED ? "active" : "revoked", role ? " for the role " : "",
              role ? trust_role_name(role) : "");
    SEFL_NEED(roles == 1 || to == TRUST_REVOKED, SEFL_EINVAL,
              "this CA was revoked for %u roles: choose one with --role", roles);
    for (unsigned i = 0; i < roles; i++)
        which[i]->state = to, which[i]->since = now;
    return SEFL_OK;
}

sefl_status ca_server(trust *t, const char *folder, const ca_server_config *c, int64_t now)
{
    sefl_status st = SEFL_OK;
    sefl_buf pem = { 0 };
    own_files own;
    char sign[PATH_MAX];
    x509_info info;
    trust_self self = { .role = c->role };
    SEFL_CHECK(c->role == TRUST_AGGREGATOR || c->role == TRUST_CSP, SEFL_EINVAL,
               "a server is an aggregator or a csp");
    SEFL_CHECK(!t->self.role || t->self.role == c->role, SEFL_EEXIST,
               "this folder belongs to the %s \"%s\"", trust_role_name(t->self.role), t->self.name);
    SEFL_CHECK(!is_blank(c->name), SEFL_EINVAL, "a server needs a name");
    SEFL_CHECK(snprintf(self.name, sizeof self.name, "%s", c->name) < (int)sizeof self.name,
               SEFL_EINVAL, "a server's name has at most %d characters", TRUST_NAME_MAX);
    SEFL_TRY(file_path(sign, "%s/sign.pub", folder));
    SEFL_TRY(sign_pub_read(self.sign, sign));
    SEFL_TRY(own_files_of(&own, folder));
    x509_subject s = { .name = c->name,
                       .role = trust_role_name(c->role),
                       .hosts = c->hosts,
                       .days = c->days ? c->days : CA_SERVER_DAYS };
    SEFL_TRY(x509_make(c->cert, c->key, &s, own.cert, own.key));
    SEFL_TRY(x509_info_file(&info, &pem, c->cert));
    memcpy(self.tls, info.fingerprint, sizeof self.tls);
    if (c->role == TRUST_AGGREGATOR) {
        buf_reset(&pem);
        SEFL_TRY(x509_info_file(&info, &pem, own.cert));
        SEFL_TRY(put_issuer(t, buf_span(&pem), TRUST_CLIENT, "", true, now));
    }
    t->self = self;
done:
    buf_clear(&pem);
    return st;
}

sefl_status ca_server_renew(const trust *t, const char *folder, const char *cert, const char *hosts,
                            unsigned days, sefl_buf *pem)
{
    sefl_status st = SEFL_OK;
    sefl_buf old = { 0 }, same = { 0 };
    own_files own;
    x509_info info;
    SEFL_CHECK(t->self.role, SEFL_ESTATE, "no server certificate here yet ('sefl ca server')");
    SEFL_TRY(x509_info_file(&info, &old, cert));
    SEFL_CHECK(memcmp(info.fingerprint, t->self.tls, TRUST_KEY) == 0, SEFL_EINVAL,
               "%s is not the certificate of this folder's server", cert);
    if (!hosts) {
        SEFL_TRY(x509_hosts_read(&same, buf_span(&old)));
        SEFL_CHECK(same.n > 0, SEFL_EINVAL, "%s names no host: give --hosts", cert);
        SEFL_TRY(wr_u8(&same, 0));
    }
    SEFL_TRY(own_files_of(&own, folder));
    x509_subject s = { .name = t->self.name,
                       .role = trust_role_name(t->self.role),
                       .hosts = hosts ? hosts : (const char *)same.p,
                       .days = days ? days : CA_SERVER_DAYS };
    SEFL_TRY(x509_issue(pem, &s, (sefl_span){ 0 }, buf_span(&old), own.cert, own.key));
done:
    buf_clear(&old);
    buf_clear(&same);
    return st;
}

/* ---- sites ----------------------------------------------------------------------------------- */

sefl_status ca_token(trust *t, sefl_buf *text, const char *name, int64_t expires, int64_t now,
                     const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    token tk = { 0 };
    SEFL_CHECK(!trust_find_name(t, name), SEFL_EEXIST,
               "\"%s\" is already a member: revoke it first if its key is lost", name);
    SEFL_TRY(token_new(&tk, &t->self, name, expires, rng));
    SEFL_TRY(token_print(text, &tk));
    SEFL_TRY(token_list(t, &tk, now));
done:
    token_clear(&tk);
    return st;
}

static bool is_open(const trust_token *k, int64_t now)
{
    return k->state == TRUST_OPEN && now < k->expires;
}

const trust_token *ca_open_token(const trust *t, const char *name, int64_t now)
{
    for (size_t i = 0; i < t->tokens; i++)
        if (is_open(&t->token[i], now) && strcmp(t->token[i].name, name) == 0)
            return &t->token[i];
    return NULL;
}

static bool is_alike(const char *a, const char *b)
{
    return strcasecmp(a, b) == 0 && strcmp(a, b) != 0;
}

const char *ca_name_alike(const trust *t, const char *name, int64_t now)
{
    for (size_t i = 0; i < t->members; i++)
        if (t->member[i].state == TRUST_ACTIVE && is_alike(t->member[i].name, name))
            return t->member[i].name;
    for (size_t i = 0; i < t->tokens; i++)
        if (is_open(&t->token[i], now) && is_alike(t->token[i].name, name))
            return t->token[i].name;
    return NULL;
}

sefl_status ca_check(const trust *t, const enrol_claim *c, const enrol_proof *p, int64_t now)
{
    const trust_member *same = trust_find(t, c->key), *named = trust_find_name(t, c->name);
    SEFL_PASS(enrol_proof_check(p, c));
    SEFL_PASS(token_check(t, p->pub, c->name, c->key, now));
    SEFL_NEED(!same || same->state == TRUST_ACTIVE, SEFL_EAUTH, "this key was revoked");
    SEFL_NEED(!same || strcmp(same->name, c->name) == 0, SEFL_EAUTH,
              "this key is a member under the name \"%s\"", same->name);
    SEFL_NEED(!named || named == same, SEFL_EAUTH, "\"%s\" is a member with another key", c->name);
    return SEFL_OK;
}

sefl_status ca_check_request(const trust *t, const enrol_request *r, int64_t now)
{
    uint8_t asked[TRUST_KEY];
    SEFL_PASS(ca_check(t, &r->claim, &r->as, now));
    sefl_status st = x509_request_read(asked, r->csr);
    SEFL_PASS(st == SEFL_OK || st == SEFL_ENOMEM ? st : SEFL_EAUTH);
    SEFL_NEED(memcmp(asked, r->claim.key, TRUST_KEY) == 0, SEFL_EAUTH,
              "the certificate request is for another key than the claim");
    return SEFL_OK;
}

static sefl_status put_member(trust *t, const uint8_t key[TRUST_KEY], const char *name,
                              int64_t until, const uint8_t issuer[TRUST_KEY], int64_t now)
{
    trust_member m = { .role = TRUST_CLIENT, .state = TRUST_ACTIVE, .since = now, .until = until };
    memcpy(m.key, key, sizeof m.key);
    snprintf(m.name, sizeof m.name, "%s", name);
    if (issuer)
        memcpy(m.issuer, issuer, sizeof m.issuer);
    return trust_member_put(t, &m);
}

sefl_status ca_admit(trust *t, const enrol_claim *c, const enrol_proof *p, int64_t until,
                     const uint8_t issuer[TRUST_KEY], int64_t now)
{
    sefl_status st = put_member(t, c->key, c->name, until, issuer, now);
    if (st == SEFL_OK)
        token_use(t, p->pub, c->key, now);
    return st;
}

static bool was_active(trust_state s, int64_t changed, int64_t since)
{
    return s == TRUST_ACTIVE || changed >= since;
}

uint64_t ca_most_clients(const trust *t, int64_t since)
{
    uint64_t most = 0;
    bool any = false;
    for (size_t i = 0; i < t->issuers; i++)
        if (t->issuer[i].role == TRUST_CLIENT && !t->issuer[i].listed &&
            was_active(t->issuer[i].state, t->issuer[i].since, since))
            return UINT64_MAX;
    for (size_t i = 0; i < t->members; i++) {
        const trust_member *m = &t->member[i];
        if (m->role != TRUST_CLIENT || !m->name[0]) /* no name: listed because it was revoked */
            continue;
        any = true;
        most += was_active(m->state, m->since, since);
    }
    return any ? most : UINT64_MAX;
}

sefl_status ca_issued_path(char out[PATH_MAX], const char *folder, const uint8_t key[TRUST_KEY])
{
    char hex[HEX_CHARS(TRUST_KEY)];
    return file_path(out, "%s/issued/%s.pem", folder, hex_write(hex, key, TRUST_KEY));
}

/* Issues a client's certificate for the key of a request or of an earlier certificate, in issued/
 * and, as PEM, in out. until: its expiry. */
static sefl_status issue(const char *folder, sefl_buf *out, int64_t *until, const char *name,
                         sefl_span request, sefl_span earlier, unsigned days)
{
    own_files own;
    const size_t begin = out->n;
    char path[PATH_MAX];
    x509_info info;
    SEFL_PASS(own_files_of(&own, folder));
    x509_subject s = { .name = name, .role = "client", .days = days ? days : CA_CLIENT_DAYS };
    SEFL_PASS(x509_issue(out, &s, request, earlier, own.cert, own.key));
    sefl_span pem = span_of(out->p + begin, out->n - begin);
    SEFL_PASS(x509_info_read(&info, pem, NULL));
    SEFL_PASS(ca_issued_path(path, folder, info.fingerprint));
    SEFL_PASS(file_write_atomic(path, pem, 0644));
    *until = info.until;
    return SEFL_OK;
}

sefl_status ca_enrol(trust *t, const char *folder, sefl_buf *answer, const enrol_request *r,
                     const uint8_t approval[SIGN_BYTES], const sign_key *key,
                     const char *population, unsigned days, int64_t now)
{
    sefl_status st = SEFL_OK;
    sefl_buf cert = { 0 }, ca = { 0 };
    x509_info info;
    int64_t until;
    enrol_answer a = { .population = span_of_str(population) };
    SEFL_TRY(ca_check_request(t, r, now));
    SEFL_TRY(enrol_approved(approval, &r->claim, r->claim.servers.csp));
    SEFL_TRY(own_ca(folder, &ca, &info));
    SEFL_TRY(issue(folder, &cert, &until, r->claim.name, r->csr, (sefl_span){ 0 }, days));
    SEFL_TRY(ca_admit(t, &r->claim, &r->as, until, info.fingerprint, now));
    memcpy(a.csp, approval, SIGN_BYTES);
    SEFL_TRY(enrol_approve(a.as, &r->claim, key));
    a.certificate = buf_span(&cert), a.ca = buf_span(&ca);
    SEFL_TRY(enrol_answer_write(answer, &a));
done:
    buf_clear(&cert);
    buf_clear(&ca);
    return st;
}

sefl_status ca_sign(trust *t, const char *folder, sefl_buf *cert, const char *name,
                    sefl_span request, unsigned days, int64_t now)
{
    sefl_status st = SEFL_OK;
    sefl_buf ca = { 0 };
    x509_info info = { 0 };
    uint8_t key[TRUST_KEY];
    int64_t until = 0;
    SEFL_TRY(x509_request_read(key, request));
    SEFL_TRY(trust_name_check(name));
    const trust_member *same = trust_find(t, key), *named = trust_find_name(t, name);
    SEFL_CHECK(!same, SEFL_EEXIST, "this key is already a member, \"%s\" (or was revoked)",
               same->name);
    SEFL_CHECK(!named, SEFL_EEXIST, "\"%s\" is already a member: revoke it first", name);
    SEFL_CHECK(t->self.role, SEFL_ESTATE, "no server certificate here yet ('sefl ca server')");
    if (t->self.role == TRUST_AGGREGATOR) {
        SEFL_TRY(own_ca(folder, &ca, &info));
        SEFL_TRY(issue(folder, cert, &until, name, request, (sefl_span){ 0 }, days));
    }
    SEFL_TRY(put_member(t, key, name, until, info.fingerprint, now));
done:
    buf_clear(&ca);
    return st;
}

sefl_status ca_renew(trust *t, const char *folder, sefl_buf *pem, const uint8_t key[TRUST_KEY],
                     unsigned days)
{
    sefl_status st = SEFL_OK;
    sefl_buf old = { 0 };
    char path[PATH_MAX];
    x509_info info;
    trust_member *m = trust_find(t, key);
    SEFL_CHECK(m && m->state == TRUST_ACTIVE, SEFL_ENOTFOUND, "no such member, or it was revoked");
    SEFL_TRY(ca_issued_path(path, folder, key));
    SEFL_CHECK(file_exists(path), SEFL_ENOTFOUND,
               "\"%s\" has no certificate from this CA: its issuer must renew it", m->name);
    SEFL_TRY(x509_info_file(&info, &old, path));
    SEFL_CHECK(memcmp(info.fingerprint, key, TRUST_KEY) == 0, SEFL_EAUTH,
               "%s is the certificate of another key", path);
    SEFL_TRY(issue(folder, pem, &m->until, m->name, (sefl_span){ 0 }, buf_span(&old), days));
done:
    buf_clear(&old);
    return st;
}

sefl_status ca_revoke_key(trust *t, const uint8_t key[TRUST_KEY], int64_t now)
{
    trust_member *m = trust_find(t, key);
    if (!m) {
        trust_member gone = { .role = TRUST_CLIENT, .state = TRUST_REVOKED, .since = now };
        memcpy(gone.key, key, sizeof gone.key);
        return trust_member_put(t, &gone);
    }
    m->state = TRUST_REVOKED;
    m->since = now;
    /* the name is free again, and somebody may still have an older token for it */
    for (size_t i = 0; i < t->tokens; i++)
        if (t->token[i].state == TRUST_OPEN && strcmp(t->token[i].name, m->name) == 0)
            t->token[i].state = TRUST_CANCELLED;
    return SEFL_OK;
}

sefl_status ca_restore_key(trust *t, const uint8_t key[TRUST_KEY], int64_t now)
{
    trust_member *m = trust_find(t, key);
    SEFL_NEED(m && m->state == TRUST_REVOKED, SEFL_ENOTFOUND, "this key is not revoked");
    if (!m->name[0]) { /* listed because it was revoked */
        trust_member_drop(t, m);
        return SEFL_OK;
    }
    SEFL_NEED(!trust_find_name(t, m->name), SEFL_EEXIST,
              "\"%s\" is now a member with another key: revoke that one first", m->name);
    m->state = TRUST_ACTIVE;
    m->since = now;
    return SEFL_OK;
}
