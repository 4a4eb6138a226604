#define _GNU_SOURCE
#include "operator/organisation.h"

#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "config/example.h"
#include "operator/secret.h"
#include "operator/task_file.h"
#include "roles/aggregator/aggregator.h"
#include "roles/ca.h"
#include "roles/csp/csp_role.h"
#include "store/ledger.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int64_t now_s(void)
{
    sefl_clock wall = clock_wall();
    return (int64_t)(clock_ms(&wall) / 1000);
}

/* ---- init ------------------------------------------------------------------------------- */

typedef struct founding {
    const org_config *c;
    dir_tree at; /* the folder being built */
    trust_edit list;
    int64_t now;
    bool locked; /* the lock outside the folder exists */
    org_report report;
} founding;

static sefl_status make_ca(founding *f)
{
    const char *ca = dir_in(&f->at, "ca");
    SEFL_PASS(ca_new(ca, f->c->name, CA_DAYS, NULL));
    SEFL_PASS(ca_edit(&f->list, ca));
    SEFL_PASS(file_make_folder(dir_in(&f->at, "tls"), 0700));
    return ca_server(f->list.t, ca,
                     &(ca_server_config){ .role = f->c->role,
                                          .name = trust_role_name(f->c->role),
                                          .hosts = f->c->at.host,
                                          .days = ORG_SERVER_DAYS,
                                          .cert = dir_in(&f->at, "tls/cert.pem"),
                                          .key = dir_in(&f->at, "tls/key.pem") },
                     f->now);
}

static sefl_status make_token(founding *f, const char *site)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { 0 };
    const sefl_rng rng = rng_system();
    SEFL_TRY(trust_name_check(site));
    SEFL_CHECK(!ca_open_token(f->list.t, site, f->now), SEFL_EINVAL,
               "the site \"%s\" is named twice", site);
    SEFL_TRY(ca_token(f->list.t, &text, site, f->report.token_until, f->now, &rng));
    SEFL_TRY(wr_u8(&text, '\n'));
    SEFL_TRY(file_write_new(dir_in(&f->at, "tokens/%s", site), buf_span(&text), 0600));
    f->report.tokens++;
done:
    buf_clear(&text);
    return st;
}

static sefl_status make_tokens(founding *f)
{
    char site[TRUST_NAME_MAX + 2];
    f->report.token_until = f->now + 3600 * CA_TOKEN_HOURS;
    SEFL_PASS(file_make_folder(dir_in(&f->at, "tokens"), 0700));
    for (const char *p = f->c->sites; p && *p;) {
        const size_t n = strcspn(p, ",");
        snprintf(site, sizeof site, "%.*s", (int)n, p);
        SEFL_PASS(make_token(f, site));
        p += n + (p[n] == ',');
    }
    return trust_edit_commit(&f->list);
}

static sefl_status make_card(founding *f)
{
    sefl_status st = SEFL_OK;
    sefl_buf ca = { 0 }, bytes = { 0 };
    const trust_self *self = &f->list.t->self;
    card c = { .role = f->c->role, .at = f->c->at }, again;
    snprintf(c.name, sizeof c.name, "%s", f->c->name);
    snprintf(c.population, sizeof c.population, "%s", f->c->population);
    memcpy(c.sign, self->sign, sizeof c.sign);
    memcpy(c.tls, self->tls, sizeof c.tls);
    SEFL_TRY(file_read(&ca, dir_in(&f->at, "ca/ca.pem"), X509_CERT_MAX));
    c.ca = buf_span(&ca);
    SEFL_TRY(card_write(&bytes, &c));
    SEFL_TRY(card_parse(&again, buf_span(&bytes))); /* as the other operator will */
    SEFL_TRY(
        file_write_new(dir_in(&f->at, "%s.card", trust_role_name(c.role)), buf_span(&bytes), 0644));
    card_digits(f->report.digits, buf_span(&bytes));
    memcpy(f->report.sign, c.sign, sizeof c.sign);
done:
    buf_clear(&ca);
    buf_clear(&bytes);
    return st;
}

/* Writes a settings file: the schema's examples and `set`. */
static sefl_status write_settings(const char *path, const char *about, const setting_def *schema,
                                  const sefl_buf *set)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { 0 };
    SEFL_TRY(example_brief(&text, about, schema, (const char *)set->p));
    SEFL_TRY(file_write_atomic(path, buf_span(&text), 0644));
done:
    buf_clear(&text);
    return st;
}

/* Appends the settings that both servers have. */
static sefl_status common_settings(sefl_buf *set, const host_port *at)
{
    return wr_fmt(set,
                  "listen=%s:%u tls.cert=tls/cert.pem tls.key=tls/key.pem ca=ca "
                  "sign_key=ca/sign.key tasks=tasks ready_file",
                  strchr(at->host, ':') ? "[::]" : "0.0.0.0", at->port);
}

static sefl_status make_csp(founding *f)
{
    sefl_status st = SEFL_OK;
    sefl_buf set = { 0 };
    const char *lock = f->c->lock;
    SEFL_TRY(secret_new(dir_in(&f->at, "key.key"), lock ? lock : dir_in(&f->at, "key.lock"), NULL));
    f->locked = lock != NULL;
    SEFL_TRY(common_settings(&set, &f->c->at));
    SEFL_TRY(wr_fmt(&set, " tls.peers=aggregator-ca.pem key=key.key key_lock=%s%c",
                    lock ? lock : "key.lock", 0));
    SEFL_TRY(write_settings(dir_in(&f->at, "csp.yml"),
                            "the cryptography service provider: 'sefl csp -c csp.yml'", csp_schema,
                            &set));
done:
    buf_clear(&set);
    return st;
}

static sefl_status check_config(const org_config *c)
{
    SEFL_NEED(c->role == TRUST_AGGREGATOR || c->role == TRUST_CSP, SEFL_EINVAL,
              "the role must be aggregator or csp");
    SEFL_NEED(*c->name && strlen(c->name) <= TRUST_NAME_MAX, SEFL_EINVAL,
              "the organisation's name must have 1 to %d characters", TRUST_NAME_MAX);
    SEFL_NEED(c->at.port > 0 && address_is_host(c->at.host), SEFL_EINVAL,
              "\"%s\" is neither a host name nor an address", c->at.host);
    SEFL_NEED(!c->lock || c->role == TRUST_CSP, SEFL_EINVAL, "only CSP has a key with a lock");
    SEFL_NEED(!c->lock || (c->lock[0] == '/' && !strpbrk(c->lock, " \"'#\n")), SEFL_EINVAL,
              "the lock \"%s\" must have an absolute path without blanks, because csp.yml names it",
              c->lock);
    return SEFL_OK;
}

static sefl_status found(founding *f)
{
    SEFL_PASS(file_new_folder(f->at.root, 0700));
    SEFL_PASS(file_make_folder(dir_in(&f->at, "tasks"), 0755));
    SEFL_PASS(make_ca(f));
    SEFL_PASS(make_tokens(f));
    SEFL_PASS(ledger_create(dir_in(&f->at, "ledger"), f->c->population));
    SEFL_PASS(make_card(f));
    return f->c->role == TRUST_CSP ? make_csp(f) : SEFL_OK;
}

sefl_status org_init(const org_config *c, org_report *out)
{
    sefl_status st = SEFL_OK;
    founding f = { .c = c, .now = now_s(), .list.lock = -1 };
    char root[PATH_MAX];
    bool begun = false;
    SEFL_TRY(check_config(c));
    SEFL_TRY(dir_root(&f.at, c->folder));
    SEFL_TRY(file_path(root, "%s.tmp-%ld", f.at.root, (long)getpid()));
    SEFL_TRY(dir_root(&f.at, root));
    SEFL_TRY(dir_check_free(c->folder));
    begun = true;
    SEFL_TRY(found(&f));
    SEFL_CHECK(rename(root, c->folder) == 0, SEFL_EIO, "%s: %s", c->folder, strerror(errno));
    begun = false;
    *out = f.report;
done:
    trust_edit_end(&f.list);
    if (begun)
        dir_remove(root);
    if (begun && f.locked)
        (void)unlink(c->lock);
    return st;
}

/* ---- the other operator ----------------------------------------------------------------- */

sefl_status org_card(card *out, sefl_buf *bytes, uint8_t digits[SHA256_BYTES], const char *path)
{
    SEFL_PASS(file_read(bytes, path, CARD_MAX));
    SEFL_PASS(sefl_at(card_parse(out, buf_span(bytes)), "%s", path));
    card_digits(digits, buf_span(bytes));
    return SEFL_OK;
}

/* Reads the folder's own card. */
static sefl_status own_card(card *out, sefl_buf *bytes, dir_tree *d)
{
    uint8_t digits[SHA256_BYTES];
    const char *as = dir_in(d, "aggregator.card"), *csp_card = dir_in(d, "csp.card");
    const char *path = file_exists(dir_in(d, "csp.yml")) ? csp_card : as;
    SEFL_NEED(file_exists(path), SEFL_ENOTFOUND,
              "%s has no card: 'sefl operator init' creates such a folder", d->root);
    return org_card(out, bytes, digits, path);
}

static sefl_status check_peer(dir_tree *d, const card *own, const card *peer)
{
    uint8_t had[SIGN_PUB_BYTES];
    const char *name = trust_role_name(peer->role), *pub = dir_in(d, "%s.pub", name);
    SEFL_NEED(peer->role != own->role, SEFL_EINVAL,
              "the card is of another %s, and so is this folder: the two servers have different "
              "roles",
              name);
    SEFL_NEED(memcmp(peer->sign, own->sign, SIGN_PUB_BYTES) != 0, SEFL_EINVAL,
              "the card has this folder's own signing key: the servers must be different parties");
    SEFL_NEED(strcmp(peer->population, own->population) == 0, SEFL_EINVAL,
              "the card is for the population \"%s\", but this folder for \"%s\": both operators "
              "must use the same --population",
              peer->population, own->population);
    if (!file_exists(pub))
        return SEFL_OK;
    SEFL_PASS(sign_pub_read(had, pub));
    SEFL_NEED(memcmp(had, peer->sign, sizeof had) == 0, SEFL_EEXIST,
              "%s trusts another %s already (docs/OPERATING.md, section 13, replaces one)", d->root,
              name);
    return SEFL_OK;
}

static sefl_status write_aggregator(dir_tree *d, const card *own, const card *peer)
{
    sefl_status st = SEFL_OK;
    sefl_buf set = { 0 };
    SEFL_TRY(common_settings(&set, &own->at));
    SEFL_TRY(wr_fmt(&set, " csp="));
    SEFL_TRY(address_write(&set, peer->at.host, peer->at.port));
    SEFL_TRY(wr_fmt(&set, " tls.peers=ca/ca.pem tls.csp_peers=csp-ca.pem%c", 0));
    SEFL_TRY(write_settings(dir_in(d, "aggregator.yml"),
                            "the aggregation server: 'sefl aggregator -c aggregator.yml'",
                            aggregator_schema, &set));
done:
    buf_clear(&set);
    return st;
}

/* Writes PEER.pub last: it marks the other operator as trusted. */
static sefl_status install_peer(dir_tree *d, const card *own, const card *peer)
{
    sefl_status st = SEFL_OK;
    const char *ca = dir_in(d, "ca"), *name = trust_role_name(peer->role);
    trust_edit e = { .lock = -1 };
    SEFL_TRY(ca_check_owner(ca));
    SEFL_TRY(ca_edit(&e, ca));
    SEFL_TRY(
        ca_trust_issuer(e.t, ca, peer->ca, &(ca_issuer_config){ .role = peer->role }, now_s()));
    SEFL_TRY(trust_edit_commit(&e));
    SEFL_TRY(file_write_atomic(dir_in(d, "%s-ca.pem", name), peer->ca, 0644));
    if (peer->role == TRUST_CSP && !file_exists(dir_in(d, "aggregator.yml")))
        SEFL_TRY(write_aggregator(d, own, peer));
    SEFL_TRY(sign_pub_write(peer->sign, dir_in(d, "%s.pub", name)));
done:
    trust_edit_end(&e);
    return st;
}

sefl_status org_trust(const char *folder, const char *path, const uint8_t digits[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    sefl_buf own_bytes = { 0 }, bytes = { 0 };
    card own, peer;
    uint8_t has[SHA256_BYTES];
    dir_tree d;
    SEFL_TRY(dir_root(&d, folder));
    SEFL_TRY(own_card(&own, &own_bytes, &d));
    SEFL_TRY(org_card(&peer, &bytes, has, path));
    SEFL_CHECK(memcmp(has, digits, sizeof has) == 0, SEFL_EAUTH,
               "%s has other digits than the ones you compared: somebody may have replaced the "
               "card on its way. Get it again, and compare the digits by voice",
               path);
    SEFL_TRY(sefl_at(check_peer(&d, &own, &peer), "%s", path));
    SEFL_TRY(install_peer(&d, &own, &peer));
done:
    buf_clear(&own_bytes);
    buf_clear(&bytes);
    return st;
}

/* ---- CSP signs -------------------------------------------------------------------------- */

static sefl_status check_task(dir_tree *d, const card *own, const envelope *env, const task *t)
{
    uint8_t as[SIGN_PUB_BYTES];
    const char *pub = dir_in(d, "aggregator.pub");
    SEFL_NEED(own->role == TRUST_CSP, SEFL_EINVAL,
              "%s is AS's folder: AS signs first ('sefl operator task'), CSP's operator second",
              d->root);
    SEFL_NEED(file_exists(pub), SEFL_ESTATE,
              "%s does not trust an aggregation server yet: pass its card with --peer", d->root);
    SEFL_PASS(sign_pub_read(as, pub));
    SEFL_NEED(memcmp(t->servers.as, as, sizeof as) == 0 &&
                  memcmp(t->servers.csp, own->sign, sizeof as) == 0,
              SEFL_EAUTH, "the task is for other servers than the two of this federation");
    SEFL_NEED(strcmp(t->population, own->population) == 0, SEFL_EINVAL,
              "the task is for the population \"%s\", but this folder for \"%s\"", t->population,
              own->population);
    return envelope_check_one(env, SIGN_TASK, SIGNER_AS, as);
}

sefl_status org_sign(const char *folder, const char *path,
                     sefl_status (*agree)(void *ctx, const task *t), void *ctx,
                     char signed_path[PATH_MAX])
{
    sefl_status st = SEFL_OK;
    sefl_buf own_bytes = { 0 }, file = { 0 }, out = { 0 };
    sign_key *key = NULL;
    card own;
    envelope env;
    task t = { 0 };
    dir_tree d;
    char name[TASK_FILE_NAME];
    SEFL_TRY(dir_root(&d, folder));
    SEFL_TRY(own_card(&own, &own_bytes, &d));
    SEFL_TRY(task_file_load(&file, &env, &t, path));
    SEFL_TRY(sefl_at(check_task(&d, &own, &env, &t), "%s", path));
    SEFL_TRY(sefl_at(agree(ctx, &t), "the task was not signed"));
    SEFL_TRY(sign_key_read(&key, dir_in(&d, "ca/sign.key")));
    SEFL_TRY(task_file_sign(&out, &env, &t, SIGNER_CSP, key));
    task_file_name(name, &t);
    SEFL_TRY(file_make_folder(dir_in(&d, "tasks/%s", name), 0755));
    SEFL_TRY(file_write_new(dir_in(&d, "tasks/%s/task.signed", name), buf_span(&out), 0644));
    snprintf(signed_path, PATH_MAX, "%s/tasks/%s/task.signed", folder, name);
done:
    sign_key_free(key);
    task_clear(&t);
    buf_clear(&own_bytes);
    buf_clear(&file);
    buf_clear(&out);
    return st;
}
