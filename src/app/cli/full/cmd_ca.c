#include "base/hex.h"
#include "cli/full/ca_print.h"
#include "cli/options.h"

#include "base/clock.h"
#include "base/file.h"
#include "roles/ca.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct wish {
    const char *folder, *name, *role_word, *hosts, *out, *key, *issuer, *token, *cert_file, *unit,
        *csr;
    const char *server;
    unsigned days, hours;
    bool json, also;
    trust_role role;
    int64_t now;
    trust_edit e; /* the list, locked if the action changes it */
    sefl_buf pem, der, cert;
    char path[PATH_MAX], to[PATH_MAX];
} wish;

/* ---- helpers --------------------------------------------------------------------------------- */

/* Finds the key whose hex begins with `digits` (at least 8) among n entries, each of which begins
 * with its key. A CA has one entry per role. */
static sefl_status pick(uint8_t out[TRUST_KEY], const char *digits, const char *what,
                        const void *list, size_t stride, size_t n)
{
    const size_t len = strlen(digits);
    unsigned found = 0;
    char hex[HEX_CHARS(TRUST_KEY)];
    SEFL_NEED(len >= 8 && len <= 2 * TRUST_KEY && hex_length(digits) == len, SEFL_EINVAL,
              "a key is 64 hex digits, or at least the first 8 of them, not \"%.80s\"", digits);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *k = (const uint8_t *)list + i * stride;
        if (strncmp(hex_write(hex, k, TRUST_KEY), digits, len) != 0 ||
            (found > 0 && memcmp(out, k, TRUST_KEY) == 0))
            continue;
        found++;
        memcpy(out, k, TRUST_KEY);
    }
    SEFL_NEED(found > 0, SEFL_ENOTFOUND, "no %s begins with \"%.64s\"", what, digits);
    SEFL_NEED(found == 1, SEFL_EINVAL, "%u %ss begin with \"%.64s\"", found, what, digits);
    return SEFL_OK;
}

/* Finds the key of a member in this state by --name or --key. A full key need not be in the
 * list. */
static sefl_status which_member(const wish *w, uint8_t key[TRUST_KEY], trust_state state)
{
    const trust *t = w->e.t;
    unsigned found = 0;
    SEFL_NEED(w->name || w->key, SEFL_EINVAL, "no member given: pass --name or --key");
    if (w->key && hex_read(key, TRUST_KEY, w->key))
        return SEFL_OK;
    if (w->key)
        return pick(key, w->key, "member", t->member, sizeof *t->member, t->members);
    for (const trust_member *m = t->member; m < t->member + t->members; m++)
        if (m->state == state && strcmp(m->name, w->name) == 0) {
            found++;
            memcpy(key, m->key, TRUST_KEY);
        }
    SEFL_NEED(found > 0, SEFL_ENOTFOUND, "no %s member \"%.64s\"",
              state == TRUST_ACTIVE ? "active" : "revoked", w->name);
    SEFL_NEED(found == 1, SEFL_EINVAL, "%u revoked keys have the name \"%.64s\": pass --key", found,
              w->name);
    return SEFL_OK;
}

/* Writes the result to stdout, or to --out, which must not exist. */
static sefl_status give(const wish *w, sefl_span bytes, mode_t mode)
{
    if (w->out)
        return file_write_new(w->out, bytes, mode);
    SEFL_NEED(fwrite(bytes.p, 1, bytes.n, stdout) == bytes.n && fflush(stdout) == 0, SEFL_EIO,
              "cannot write to stdout");
    return SEFL_OK;
}

/* Writes the result before the list changes: a token or certificate that is not in the list admits
 * nobody, while an operator would have to repair a list that admits a site without a certificate.
 * If the list cannot be written, the result is removed. No bytes: nothing to write (CSP issues no
 * certificates). */
static sefl_status give_and_commit(wish *w, sefl_span bytes, mode_t mode)
{
    if (bytes.n == 0)
        return trust_edit_commit(&w->e);
    sefl_status st = give(w, bytes, mode);
    const bool given = st == SEFL_OK;
    if (st == SEFL_EEXIST) /* another program has created the file */
        return st;
    if (given)
        st = trust_edit_commit(&w->e);
    if (st == SEFL_OK || w->e.in_force)
        return st;
    if (w->out)
        (void)unlink(w->out);
    return given && !w->out ? sefl_fail_at(st, "discard what was printed: it is not valid") : st;
}

/* A certificate never outlives its CA: reports one that is valid for fewer days than requested. */
static void note_end(sefl_span pem, unsigned days)
{
    x509_info info;
    char date[32];
    if (x509_info_read(&info, pem, NULL) != SEFL_OK ||
        info.until - info.from >= (int64_t)days * 86400)
        return;
    ca_date(date, info.until);
    fprintf(
        stderr,
        "sefl: the certificate expires on %s UTC, not after %u days, because its CA expires then\n",
        date, days);
}

/* Prints the keys that the other parties compare. */
static void print_keys(const trust *t)
{
    char tls[HEX_CHARS(TRUST_KEY)], sign[HEX_CHARS(TRUST_KEY)];
    printf("TLS key   %s\nsigns as  %s\n", hex_write(tls, t->self.tls, TRUST_KEY),
           hex_write(sign, t->self.sign, TRUST_KEY));
}

/* ---- actions --------------------------------------------------------------------------------- */

static sefl_status do_new(void *options)
{
    const wish *w = options;
    SEFL_PASS(ca_new(w->folder, w->name, w->days, NULL));
    printf("%s: the CA of \"%s\", a signing key, and an empty trust list\n", w->folder, w->name);
    fprintf(stderr, "sefl: ca.key and sign.key stay on this machine. Next: sefl ca server %s\n",
            w->folder);
    return SEFL_OK;
}

static sefl_status do_server(void *options)
{
    wish *w = options;
    const char *cert = w->path, *key = w->to;
    char dir[PATH_MAX];
    SEFL_PASS(file_path(dir, "%s%s", w->out ? w->out : w->folder, w->out ? "" : "/server"));
    SEFL_PASS(file_make_folder(dir, 0700));
    SEFL_PASS(file_path(w->path, "%s/cert.pem", dir));
    SEFL_PASS(file_path(w->to, "%s/key.pem", dir));
    const bool fresh = !file_exists(cert) && !file_exists(key);
    sefl_status st = ca_server(w->e.t, w->folder,
                               &(ca_server_config){ .role = w->role,
                                                    .name = w->name,
                                                    .hosts = w->hosts,
                                                    .days = w->days,
                                                    .cert = cert,
                                                    .key = key },
                               w->now);
    if (st == SEFL_OK)
        st = trust_edit_commit(&w->e);
    if (st != SEFL_OK && fresh && !w->e.in_force) { /* the list does not have this key */
        (void)unlink(cert);
        (void)unlink(key);
    }
    SEFL_PASS(st);
    printf("%s: certificate of the %s \"%s\" for %s\n", cert, trust_role_name(w->role), w->name,
           w->hosts);
    print_keys(w->e.t);
    if (file_read(&w->pem, cert, X509_CERT_MAX) == SEFL_OK)
        note_end(buf_span(&w->pem), w->days);
    return SEFL_OK;
}

/* Warns about two sites whose names differ only in upper and lower case. */
static void note_alike(const wish *w)
{
    const char *other = ca_name_alike(w->e.t, w->name, w->now);
    if (other)
        fprintf(stderr, "sefl: \"%s\" and \"%s\" are different sites: names are case-sensitive\n",
                w->name, other);
}

static sefl_status do_token(void *options)
{
    wish *w = options;
    sefl_rng rng = rng_system();
    int64_t expires = w->now + 3600 * (int64_t)(w->hours ? w->hours : CA_TOKEN_HOURS);
    char date[32];
    const bool second = ca_open_token(w->e.t, w->name, w->now) != NULL;
    SEFL_PASS(ca_token(w->e.t, &w->cert, w->name, expires, w->now, &rng));
    SEFL_PASS(wr_u8(&w->cert, '\n'));
    SEFL_PASS(give_and_commit(w, buf_span(&w->cert), 0600));
    ca_date(date, expires);
    fprintf(
        stderr,
        "sefl: the %s's token for \"%s\", valid once until %s UTC. Anyone with this token and the\n"
        "      other server's can join under that name: give it to the site directly, not through\n"
        "      the other server\n",
        trust_role_name(w->e.t->self.role), w->name, date);
    if (second)
        fprintf(
            stderr,
            "sefl: \"%s\" already has an open token, and both are valid: if the first is lost,\n"
            "      cancel it ('sefl ca list', 'sefl ca revoke --token')\n",
            w->name);
    note_alike(w);
    return SEFL_OK;
}

static void print_rule(const char *word, const char *unit)
{
    if (*unit)
        printf("%s those of the unit \"%s\"", word, unit);
    else
        printf("%s those with the role's OU", word);
}

/* True if CSP knows every client: see ca_most_clients. */
static bool is_counting(const trust *t)
{
    for (const trust_issuer *i = t->issuer; i < t->issuer + t->issuers; i++)
        if (i->role == TRUST_CLIENT && !i->listed && i->state == TRUST_ACTIVE)
            return false;
    return t->self.role == TRUST_CSP;
}

static void note_count(bool before, const trust *t)
{
    if (before && !is_counting(t))
        fprintf(
            stderr,
            "sefl: from now on this CSP cannot count the clients and relies on the aggregator's\n"
            "      number: anyone with a certificate from this CA is a client\n");
}

static sefl_status do_trust(void *options)
{
    wish *w = options;
    x509_info info;
    char before[TRUST_NAME_MAX + 1] = "";
    const char *unit = w->unit ? w->unit : "";
    SEFL_PASS(x509_info_file(&info, &w->pem, w->cert_file));
    const trust_issuer *same = trust_find_issuer(w->e.t, info.fingerprint, w->role);
    const bool had = same != NULL, counting = is_counting(w->e.t);
    if (had)
        strcpy(before, same->unit);
    SEFL_PASS(ca_trust_issuer(w->e.t, w->folder, buf_span(&w->pem),
                              &(ca_issuer_config){ .role = w->role, .unit = unit, .also = w->also },
                              w->now));
    SEFL_PASS(trust_edit_commit(&w->e));
    printf("%s is trusted for the role %s", w->cert_file, trust_role_name(w->role));
    if (had && strcmp(before, unit) != 0) { /* it now accepts other certificates */
        print_rule("; it accepted", before);
        print_rule(" and now accepts", unit);
    }
    printf("\n");
    note_count(counting, w->e.t);
    return SEFL_OK;
}

static sefl_status set_issuer(const wish *w, trust_state to)
{
    const trust *t = w->e.t;
    uint8_t key[TRUST_KEY];
    SEFL_PASS(pick(key, w->issuer, "issuer", t->issuer, sizeof *t->issuer, t->issuers));
    return ca_set_issuer(w->e.t, key, w->role, to, w->now);
}

static sefl_status revoke_token(const wish *w)
{
    trust *t = w->e.t;
    uint8_t id[TRUST_KEY];
    SEFL_PASS(pick(id, w->token, "token", t->token, sizeof *t->token, t->tokens));
    trust_token *k = trust_find_token(t, id);
    SEFL_NEED(k->state == TRUST_OPEN, SEFL_ESTATE, "this token is already used or cancelled");
    k->state = TRUST_CANCELLED;
    return SEFL_OK;
}

static sefl_status revoke_member(const wish *w)
{
    trust *t = w->e.t;
    uint8_t key[TRUST_KEY];
    const trust_token *k = w->name ? ca_open_token(t, w->name, w->now) : NULL;
    char hex[HEX_CHARS(TRUST_KEY)] = "";
    if (k)
        hex_write(hex, k->id, TRUST_KEY);
    SEFL_NEED(!k || trust_find_name(t, w->name), SEFL_ENOTFOUND,
              "no active member \"%.64s\", but an open token for that name: 'sefl ca revoke FOLDER "
              "--token %.16s' cancels it",
              w->name, hex);
    SEFL_PASS(which_member(w, key, TRUST_ACTIVE));
    return ca_revoke_key(t, key, w->now);
}

static sefl_status do_revoke(void *options)
{
    wish *w = options;
    SEFL_PASS(w->issuer  ? set_issuer(w, TRUST_REVOKED)
              : w->token ? revoke_token(w)
                         : revoke_member(w));
    SEFL_PASS(trust_edit_commit(&w->e));
    printf("revoked; a running server applies it within a second\n");
    return SEFL_OK;
}

static sefl_status do_restore(void *options)
{
    wish *w = options;
    uint8_t key[TRUST_KEY];
    const bool counting = is_counting(w->e.t);
    if (w->issuer) {
        SEFL_PASS(set_issuer(w, TRUST_ACTIVE));
    } else {
        SEFL_PASS(which_member(w, key, TRUST_REVOKED));
        SEFL_PASS(ca_restore_key(w->e.t, key, w->now));
    }
    SEFL_PASS(trust_edit_commit(&w->e));
    printf("restored; a running server applies it within a second\n");
    note_count(counting, w->e.t);
    return SEFL_OK;
}

static sefl_status do_renew(void *options)
{
    wish *w = options;
    sefl_buf *pem = &w->pem;
    uint8_t key[TRUST_KEY];
    if (w->server) {
        SEFL_PASS(ca_server_renew(w->e.t, w->folder, w->server, w->hosts, w->days, pem));
    } else {
        SEFL_PASS(which_member(w, key, TRUST_ACTIVE));
        SEFL_PASS(ca_renew(w->e.t, w->folder, pem, key, w->days));
        SEFL_PASS(trust_edit_commit(&w->e)); /* the site can fetch it even if our copy fails */
    }
    SEFL_PASS(give(w, buf_span(pem), 0644));
    note_end(buf_span(pem), w->days);
    if (w->server)
        fprintf(stderr, "sefl: replace %s with the new certificate and send SIGHUP to the server\n",
                w->server);
    else
        fprintf(stderr, "sefl: the site fetches it with 'sefl enroll --renew'. If the old "
                        "certificate has expired,\n"
                        "      send the site this file for 'sefl enroll --renew --cert FILE'\n");
    return SEFL_OK;
}

static sefl_status read_request(wish *w, uint8_t key[TRUST_KEY])
{
    SEFL_PASS(x509_request_from_pem(&w->der, buf_span(&w->pem)));
    return x509_request_read(key, buf_span(&w->der));
}

static sefl_status do_sign(void *options)
{
    wish *w = options;
    const sefl_buf *cert = &w->cert;
    uint8_t key[TRUST_KEY];
    SEFL_PASS(file_read(&w->pem, w->csr, X509_CERT_MAX));
    SEFL_PASS(sefl_at(read_request(w, key), "%s", w->csr));
    SEFL_PASS(ca_issued_path(w->path, w->folder, key));
    SEFL_PASS(ca_sign(w->e.t, w->folder, &w->cert, w->name, buf_span(&w->der), w->days, w->now));
    sefl_status st = give_and_commit(w, buf_span(cert), 0644);
    if (st != SEFL_OK && !w->e.in_force) { /* ca_sign created it for a key that had none */
        (void)unlink(w->path);
        return st;
    }
    fprintf(stderr, "sefl: \"%s\" is a member now%s\n", w->name,
            cert->n > 0 ? "" : " (the aggregation server's CA issues its certificate)");
    note_alike(w);
    if (cert->n > 0)
        note_end(buf_span(cert), w->days);
    return st;
}

/* Copies a public file of FOLDER to --out and names it after the server's role. */
static sefl_status export_one(wish *w, const char *file, const char *ending)
{
    SEFL_PASS(file_path(w->path, "%s/%s", w->folder, file));
    SEFL_PASS(file_path(w->to, "%s/%s%s", w->out, trust_role_name(w->e.t->self.role), ending));
    buf_reset(&w->pem);
    SEFL_PASS(file_read(&w->pem, w->path, X509_CERT_MAX));
    SEFL_PASS(file_write_atomic(w->to, buf_span(&w->pem), 0644));
    printf("%s\n", w->to);
    return SEFL_OK;
}

static sefl_status do_export(void *options)
{
    wish *w = options;
    SEFL_NEED(w->e.t->self.role, SEFL_ESTATE,
              "this folder has no server certificate yet: run 'sefl ca server'");
    SEFL_PASS(file_make_folder(w->out, 0755));
    SEFL_PASS(export_one(w, "ca.pem", "-ca.pem"));
    SEFL_PASS(export_one(w, "sign.pub", ".pub"));
    print_keys(w->e.t);
    return SEFL_OK;
}

static sefl_status do_list(void *options)
{
    const wish *w = options;
    return w->json ? ca_print_json(w->e.t, w->now) : ca_print_list(w->e.t, w->now);
}

/* ---- command line ---------------------------------------------------------------------------- */

/* The action uses only one of these and would silently ignore a second one. */
static sefl_status check_one(const wish *w)
{
    const char *const about[] = { w->name, w->key, w->issuer, w->token, w->server };
    int n = 0;
    for (size_t i = 0; i < sizeof about / sizeof *about; i++)
        n += about[i] != NULL;
    SEFL_NEED(n <= 1, SEFL_EINVAL,
              "give only one of --name, --key, --issuer, --token and --server");
    SEFL_NEED(!w->role || w->issuer, SEFL_EINVAL, "--role requires --issuer");
    return SEFL_OK;
}

static sefl_status prepare(const cli_command *c, const cli_action *a, void *options)
{
    wish *w = options;
    (void)c;
    sefl_clock wall = clock_wall();
    w->e.lock = -1;
    w->now = (int64_t)(clock_ms(&wall) / 1000);
    w->role = w->role_word ? trust_role_of(w->role_word) : 0;
    if (w->days == 0)
        w->days = a->work == do_new                   ? CA_DAYS
                  : a->work == do_server || w->server ? CA_SERVER_DAYS
                                                      : CA_CLIENT_DAYS;
    if (a->work == do_revoke || a->work == do_restore || a->work == do_renew)
        SEFL_PASS(check_one(w));
    if (a->work == do_list || a->work == do_export)
        return ca_read(&w->e.t, w->folder);
    SEFL_PASS(ca_check_owner(w->folder));
    SEFL_NEED(a->work == do_server || !w->out || !file_exists(w->out), SEFL_EEXIST,
              "%s already exists: nothing was changed", w->out);
    return a->work == do_new ? SEFL_OK : ca_edit(&w->e, w->folder);
}

static void cmd_ca_finish(void *options)
{
    wish *w = options;
    trust_edit_end(&w->e);
    buf_clear(&w->pem);
    buf_clear(&w->der);
    buf_clear(&w->cert);
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "name", SETTING_TEXT, "", TO(name),
      .help =
          "Name of the organisation (new), of the server (server) or of the site (other actions)" },
    { "key", SETTING_TEXT, "", TO(key), .arg = "HEX",
      .help = "Member whose key begins with these hex digits (8 or more)" },
    { "issuer", SETTING_TEXT, "", TO(issuer), .arg = "HEX",
      .help = "CA whose key begins with these hex digits (8 or more)" },
    { "token", SETTING_TEXT, "", TO(token), .arg = "HEX",
      .help = "Unused token whose id begins with these hex digits (8 or more)" },
    { "server", SETTING_PATH, "", TO(server), .help = "Certificate of the server to renew" },
    { "role", SETTING_WORD, "", "client aggregator csp", TO(role_word),
      .help = "Role that the certificate allows; with --issuer, the role to revoke or restore" },
    { "hosts", SETTING_TEXT, "", TO(hosts), .arg = "H1,H2",
      .help = "Host names and addresses of the server; by default, renew keeps the current ones" },
    { "days", SETTING_U64, "0", TO(days), .min = 1, .max = 36500,
      .help = "Number of days for which the certificate is valid" },
    { "hours", SETTING_U64, "0", TO(hours), .min = 1, .max = 8760,
      .help = "Number of hours for which the token is valid; default 48" },
    { "cert", SETTING_PATH, "", TO(cert_file), .help = "Certificate of the CA to trust" },
    { "unit", SETTING_TEXT, "", TO(unit),
      .help = "Organisational unit (OU) that the CA's certificates must have, if it is not the one "
              "of the role; '*' accepts any unit" },
    { "also", SETTING_FLAG, TO(also),
      .help = "Allow a CA that already has another role, or the CA in FOLDER itself" },
    { "csr", SETTING_PATH, "", TO(csr), .help = "Certificate request of a site that you trust" },
    { "out", SETTING_PATH, "", TO(out),
      .help = "File or folder to write; default: FOLDER/server for server, else standard output" },
    OPTION_JSON(wish),
    { 0 },
};

#define FOLDER "FOLDER", "a folder"
#define AT     offsetof(wish, folder)
static const cli_action actions[] = {
    { "new", FOLDER,
      "Creates a CA, a signing key and an empty trust list. FOLDER must be empty or not exist; if "
      "the command fails, it leaves nothing there.",
      "name", "days", AT, do_new },
    { "server", FOLDER, "Creates the server's TLS key and certificate.", "role name hosts",
      "days out", AT, do_server },
    { "token", FOLDER,
      "Creates a token that lets one site enrol once. The site needs a token from each server for "
      "'sefl enroll'.",
      "name", "hours out", AT, do_token },
    { "list", FOLDER, "Prints all issuers, members and tokens.", NULL, "json", AT, do_list },
    { "revoke", FOLDER,
      "Revokes a member, a token, or a CA in one role or in all roles. A running server closes the "
      "affected connections within a second.",
      NULL, "name key issuer token role", AT, do_revoke },
    { "restore", FOLDER, "Undoes a revocation; the member keeps its key.", NULL,
      "name key issuer role", AT, do_restore },
    { "renew", FOLDER,
      "Issues a new certificate for a site's existing key or, with --server, for the server's own "
      "key. The old certificate stays valid until it expires.",
      NULL, "name key server hosts days out", AT, do_renew },
    { "trust-issuer", FOLDER, "Accepts the certificates of another CA for one role.", "cert role",
      "unit also", AT, do_trust },
    { "sign", FOLDER, "Signs a site's certificate request.", "csr name", "days out", AT, do_sign },
    { "export", FOLDER,
      "Writes the CA certificate and the public signing key, which the other parties need, to a "
      "folder, and prints the digits by which they can compare the keys.",
      "out", "", AT, do_export },
    { 0 },
};

const cli_command cmd_ca = {
    .name = "ca",
    .about = "Each of the two operators has a FOLDER with a CA, the server's signing key and the "
             "trust list. A running server applies changes to the list within a second.",
    .example = "sefl ca token ops/as --name hospital-7 --hours 24",
    CLI_OPTIONS(wish),
    .actions = actions,
    .prepare = prepare,
    .finish = cmd_ca_finish,
    .handles_keys = true,
};
