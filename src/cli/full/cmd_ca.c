/* sefl ca: an operator's folder: its CA, its server's keys, and the list of who may connect. */
#include "base/hex.h"
#include "cli/full/ca_print.h"
#include "cli/options.h"

#include "base/clock.h"
#include "base/file.h"
#include "roles/ca.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PEM_MAX = 64 << 10 };

typedef struct wish {
    const char *folder, *name, *role_word, *hosts, *out, *key, *issuer, *token, *cert, *unit, *csr;
    const char *server;
    unsigned days, hours; /* 0: the default of what is made */
    bool json, also;
    trust_role role;
    int64_t now;
} wish;

/* ---- helpers ---------------------------------------------------------------------------------- */

/* The one whose hex begins with `digits` (at least 8); a CA may come by once for each of its roles. */
typedef struct pick {
    const char *digits;
    uint8_t key[TRUST_KEY];
    unsigned found;
} pick;

static void pick_look(pick *p, const uint8_t key[TRUST_KEY])
{
    char hex[2 * TRUST_KEY + 1];
    ca_hex(hex, key);
    if (strncmp(hex, p->digits, strlen(p->digits)) == 0 &&
        (p->found == 0 || memcmp(p->key, key, TRUST_KEY) != 0)) {
        p->found++;
        memcpy(p->key, key, TRUST_KEY);
    }
}

static sefl_status pick_end(const pick *p, const char *what)
{
    sefl_status st = SEFL_OK;
    SEFL_CHECK(p->found > 0, SEFL_ENOTFOUND, "no %s begins with \"%.64s\"", what, p->digits);
    SEFL_CHECK(p->found == 1, SEFL_EINVAL, "%u %ss begin with \"%.64s\"", p->found, what,
               p->digits);
done:
    return st;
}

static sefl_status check_digits(const char *s)
{
    size_t n = strlen(s);
    return n >= 8 && n <= 2 * TRUST_KEY && hex_length(s) == n
               ? SEFL_OK
               : sefl_fail(SEFL_EINVAL,
                           "a key is 64 hex digits, or the first 8 of them or more: "
                           "not \"%.80s\"",
                           s);
}

/* --name or --key: a member's key. A whole key need not be in the list. */
static sefl_status which_member(const wish *w, const trust *t, uint8_t key[TRUST_KEY])
{
    sefl_status st = SEFL_OK;
    if (w->name) {
        const trust_member *m = trust_find_name(t, w->name);
        SEFL_CHECK(m != NULL, SEFL_ENOTFOUND, "no active member \"%.64s\"", w->name);
        memcpy(key, m->key, TRUST_KEY);
        return SEFL_OK;
    }
    SEFL_CHECK(w->key != NULL, SEFL_EINVAL, "whom? give --name or --key");
    SEFL_TRY(check_digits(w->key));
    pick p = { .digits = w->key };
    for (size_t i = 0; i < t->members; i++)
        pick_look(&p, t->member[i].key);
    if (p.found == 0 && hex_read(p.key, TRUST_KEY, p.digits))
        p.found = 1;
    SEFL_TRY(pick_end(&p, "member"));
    memcpy(key, p.key, TRUST_KEY);
done:
    return st;
}

/* Results go to --out, never over something, or to stdout. */
static sefl_status give(const wish *w, sefl_span bytes, mode_t mode)
{
    if (w->out)
        return file_write_new(w->out, bytes, mode);
    return fwrite(bytes.p, 1, bytes.n, stdout) == bytes.n && fflush(stdout) == 0
               ? SEFL_OK
               : sefl_fail(SEFL_EIO, "cannot write to stdout");
}

/* The result goes out before the list is changed: a token or certificate that no list knows opens
 * nothing, while a list that has let somebody in who got nothing must be mended by hand. What was
 * written is taken back if the list cannot be. No bytes: nothing to give (CSP issues none). */
static sefl_status give_and_commit(const wish *w, trust_edit *e, sefl_span bytes, mode_t mode)
{
    const char *out = w->out;
    sefl_status st = bytes.n > 0 ? give(w, bytes, mode) : SEFL_OK;
    if (st == SEFL_EEXIST) /* somebody else's by now */
        return st;
    if (st == SEFL_OK) {
        st = trust_edit_commit(e);
        if (st != SEFL_OK && !e->in_force && bytes.n > 0 && !out)
            st = sefl_fail_at(st, "what was printed is worth nothing");
    }
    if (st != SEFL_OK && !e->in_force && bytes.n > 0 && out)
        (void)unlink(out);
    return st;
}

/* A certificate never outlives its CA: one that has fewer days than it was to have is said. */
static void note_end(sefl_span pem, unsigned days)
{
    x509_info info;
    char date[32];
    if (x509_info_read(&info, pem, NULL) != SEFL_OK ||
        info.until - info.from >= (int64_t)days * 86400)
        return;
    ca_date(date, info.until);
    fprintf(stderr,
            "sefl: the certificate ends on %s UTC, not after %u days: its CA ends then, and\n"
            "      no certificate outlives its CA\n",
            date, days);
}

/* ---- actions ---------------------------------------------------------------------------------- */

static sefl_status do_new(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    SEFL_TRY(ca_new(w->folder, w->name, w->days, NULL));
    printf("%s: the CA of \"%s\", a signing key, and an empty trust list\n", w->folder, w->name);
    fprintf(stderr, "sefl: ca.key and sign.key stay on this machine. Next: sefl ca server %s\n",
            w->folder);
done:
    return st;
}

static sefl_status do_server(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    trust_edit e = { .lock = -1 };
    sefl_buf dir = { 0 }, cert = { 0 }, key = { 0 }, pem = { 0 };
    char hex[2 * TRUST_KEY + 1];
    bool fresh = false;
    if (w->out)
        SEFL_TRY(wr_fmt(&dir, "%s%c", w->out, 0));
    else
        SEFL_TRY(ca_path(&dir, w->folder, "server"));
    SEFL_TRY(file_make_folder((const char *)dir.p, 0700));
    SEFL_TRY(ca_path(&cert, (const char *)dir.p, "cert.pem"));
    SEFL_TRY(ca_path(&key, (const char *)dir.p, "key.pem"));
    SEFL_TRY(ca_edit(&e, w->folder));
    fresh = !file_exists((const char *)cert.p) && !file_exists((const char *)key.p);
    SEFL_TRY(ca_server(e.t, w->folder,
                       &(ca_server_config){ .role = w->role,
                                            .name = w->name,
                                            .hosts = w->hosts,
                                            .days = w->days,
                                            .cert = (const char *)cert.p,
                                            .key = (const char *)key.p },
                       w->now));
    SEFL_TRY(trust_edit_commit(&e));
    ca_hex(hex, e.t->self.tls);
    printf("%s: certificate of the %s \"%s\" for %s\nTLS key   %s\n", (const char *)cert.p,
           trust_role_name(w->role), w->name, w->hosts, hex);
    ca_hex(hex, e.t->self.sign);
    printf("signs as  %s\n", hex);
    if (file_read(&pem, (const char *)cert.p, PEM_MAX) == SEFL_OK)
        note_end(buf_span(&pem), w->days ? w->days : CA_SERVER_DAYS);
done:
    if (st != SEFL_OK && fresh &&
        !e.in_force) /* a key that the list does not know; the next try makes another */
        (void)unlink((const char *)cert.p), (void)unlink((const char *)key.p);
    trust_edit_end(&e);
    buf_clear(&dir);
    buf_clear(&cert);
    buf_clear(&key);
    buf_clear(&pem);
    return st;
}

/* Before anything is made. */
static sefl_status check_out(const wish *w)
{
    return w->out && file_exists(w->out)
               ? sefl_fail(SEFL_EEXIST, "%s exists already: nothing was changed", w->out)
               : SEFL_OK;
}

/* Two sites whose names look like one. */
static void note_alike(const wish *w, const trust *t)
{
    const char *other = ca_name_alike(t, w->name, w->now);
    if (other)
        fprintf(stderr, "sefl: \"%s\" and \"%s\" are two sites: capitals count in names\n", w->name,
                other);
}

static sefl_status do_token(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    trust_edit e = { .lock = -1 };
    sefl_buf text = { 0 };
    sefl_rng rng = rng_system();
    int64_t expires = w->now + 3600 * (int64_t)(w->hours ? w->hours : CA_TOKEN_HOURS);
    char date[32];
    SEFL_TRY(check_out(w));
    SEFL_TRY(ca_edit(&e, w->folder));
    const bool second = ca_open_token(e.t, w->name, w->now) != NULL;
    SEFL_TRY(ca_token(e.t, &text, w->name, expires, w->now, &rng));
    SEFL_TRY(wr_u8(&text, '\n'));
    SEFL_TRY(give_and_commit(w, &e, buf_span(&text), 0600));
    ca_date(date, expires);
    fprintf(
        stderr,
        "sefl: the %s's token for \"%s\", good once until %s UTC. Whoever has it and the other\n"
        "      server's can join under that name: give it to the site itself, not through the "
        "other server\n",
        trust_role_name(e.t->self.role), w->name, date);
    if (second)
        fprintf(stderr,
                "sefl: \"%s\" has an open token already, and both are good: if the first is lost,\n"
                "      cancel it ('sefl ca list', 'sefl ca revoke --token')\n",
                w->name);
    note_alike(w, e.t);
done:
    trust_edit_end(&e);
    buf_clear(&text);
    return st;
}

static void print_rule(const char *word, const char *unit)
{
    if (*unit)
        printf("%s those of the unit \"%s\"", word, unit);
    else
        printf("%s those with our mark of the role", word);
}

/* Does CSP know of every client? See ca_most_clients. */
static bool is_counting(const trust *t)
{
    bool all = t->self.role == TRUST_CSP;
    for (size_t i = 0; i < t->issuers; i++)
        all = all && (t->issuer[i].role != TRUST_CLIENT || t->issuer[i].listed ||
                      t->issuer[i].state != TRUST_ACTIVE);
    return all;
}

static void note_count(bool before, const trust *t)
{
    if (before && !is_counting(t))
        fprintf(stderr,
                "sefl: from now on this CSP cannot tell how many clients there are, and believes\n"
                "      the aggregator's number: whoever has a certificate of this CA is one\n");
}

static sefl_status do_trust(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    trust_edit e = { .lock = -1 };
    sefl_buf pem = { 0 };
    x509_info info;
    char before[TRUST_NAME_MAX + 1] = "";
    const char *unit = w->unit ? w->unit : "";
    SEFL_TRY(x509_info_file(&info, &pem, w->cert));
    SEFL_TRY(ca_edit(&e, w->folder));
    const trust_issuer *same = trust_find_issuer(e.t, info.fingerprint, w->role);
    const bool had = same != NULL, counting = is_counting(e.t);
    if (had)
        strcpy(before, same->unit);
    SEFL_TRY(ca_trust_issuer(e.t, w->folder, buf_span(&pem),
                             &(ca_issuer_config){ .role = w->role, .unit = unit, .also = w->also },
                             w->now));
    SEFL_TRY(trust_edit_commit(&e));
    printf("%s is trusted for the role %s", w->cert, trust_role_name(w->role));
    if (had && strcmp(before, unit) != 0) { /* others get in than before */
        print_rule("; its certificates that count were", before);
        print_rule(", and are now", unit);
    }
    printf("\n");
    note_count(counting, e.t);
done:
    trust_edit_end(&e);
    buf_clear(&pem);
    return st;
}

static sefl_status set_issuer(const wish *w, trust *t, trust_state to)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(check_digits(w->issuer));
    pick p = { .digits = w->issuer };
    for (size_t i = 0; i < t->issuers; i++)
        pick_look(&p, t->issuer[i].key);
    SEFL_TRY(pick_end(&p, "issuer"));
    SEFL_TRY(ca_set_issuer(t, p.key, w->role, to, w->now));
done:
    return st;
}

static sefl_status revoke_token(const wish *w, trust *t)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(check_digits(w->token));
    pick p = { .digits = w->token };
    for (size_t i = 0; i < t->tokens; i++)
        pick_look(&p, t->token[i].id);
    SEFL_TRY(pick_end(&p, "token"));
    trust_token *k = trust_find_token(t, p.key);
    SEFL_CHECK(k->state == TRUST_OPEN, SEFL_ESTATE, "this token is used or cancelled already");
    k->state = TRUST_CANCELLED;
done:
    return st;
}

/* Somebody who has not come yet is no member: what there is to revoke is a token. */
static sefl_status no_token_instead(const wish *w, const trust *t)
{
    sefl_status st = SEFL_OK;
    const char *name = w->name;
    const trust_token *k = name ? ca_open_token(t, name, w->now) : NULL;
    char hex[2 * TRUST_KEY + 1] = "";
    if (k)
        ca_hex(hex, k->id);
    SEFL_CHECK(!k || trust_find_name(t, name), SEFL_ENOTFOUND,
               "no active member \"%.64s\", but an open token of that name: 'sefl ca revoke "
               "FOLDER --token %.16s' cancels it",
               name, hex);
done:
    return st;
}

static sefl_status do_revoke(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    trust_edit e = { .lock = -1 };
    uint8_t key[TRUST_KEY];
    SEFL_TRY(ca_edit(&e, w->folder));
    if (w->issuer) {
        SEFL_TRY(set_issuer(w, e.t, TRUST_REVOKED));
    } else if (w->token) {
        SEFL_TRY(revoke_token(w, e.t));
    } else {
        SEFL_TRY(no_token_instead(w, e.t));
        SEFL_TRY(which_member(w, e.t, key));
        SEFL_TRY(ca_revoke_key(e.t, key, w->now));
    }
    SEFL_TRY(trust_edit_commit(&e));
    printf("revoked; a running server notices within a second\n");
done:
    trust_edit_end(&e);
    return st;
}

/* --name: of a revoked member; two of that name (keys were lost twice) need --key. */
static sefl_status which_revoked(const wish *w, const trust *t, uint8_t key[TRUST_KEY])
{
    sefl_status st = SEFL_OK;
    const char *name = w->name;
    unsigned found = 0;
    if (!name)
        return which_member(w, t, key);
    for (size_t i = 0; i < t->members; i++) {
        if (t->member[i].state != TRUST_REVOKED || strcmp(t->member[i].name, name) != 0)
            continue;
        found++;
        memcpy(key, t->member[i].key, TRUST_KEY);
    }
    SEFL_CHECK(found > 0, SEFL_ENOTFOUND, "no revoked member \"%.64s\"", name);
    SEFL_CHECK(found == 1, SEFL_EINVAL, "%u revoked keys were \"%.64s\": which? give --key", found,
               name);
done:
    return st;
}

static sefl_status do_restore(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    trust_edit e = { .lock = -1 };
    uint8_t key[TRUST_KEY];
    SEFL_TRY(ca_edit(&e, w->folder));
    const bool counting = is_counting(e.t);
    if (w->issuer) {
        SEFL_TRY(set_issuer(w, e.t, TRUST_ACTIVE));
    } else {
        SEFL_TRY(which_revoked(w, e.t, key));
        SEFL_TRY(ca_restore_key(e.t, key, w->now));
    }
    SEFL_TRY(trust_edit_commit(&e));
    printf("restored; a running server notices within a second\n");
    note_count(counting, e.t);
done:
    trust_edit_end(&e);
    return st;
}

static sefl_status do_renew(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    trust_edit e = { .lock = -1 };
    sefl_buf pem = { 0 };
    uint8_t key[TRUST_KEY];
    SEFL_TRY(check_out(w));
    SEFL_TRY(ca_edit(&e, w->folder));
    if (w->server) {
        SEFL_TRY(ca_server_renew(e.t, w->folder, w->server, w->hosts, w->days, &pem));
    } else {
        SEFL_TRY(which_member(w, e.t, key));
        SEFL_TRY(ca_renew(e.t, w->folder, &pem, key, w->days));
        SEFL_TRY(trust_edit_commit(&e)); /* the site can fetch it, whatever becomes of our copy */
    }
    SEFL_TRY(give(w, buf_span(&pem), 0644));
    note_end(buf_span(&pem), w->days ? w->days : w->server ? CA_SERVER_DAYS : CA_CLIENT_DAYS);
    fprintf(
        stderr,
        w->server
            ? "sefl: put it in the place of %s and send the server SIGHUP\n"
            : "sefl: the site fetches it with 'sefl enroll --renew', or takes it from a file that\n"
              "      you send: 'sefl enroll --renew --cert FILE' (if its old one has expired)%s\n",
        w->server ? w->server : "");
done:
    trust_edit_end(&e);
    buf_clear(&pem);
    return st;
}

static sefl_status do_sign(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    trust_edit e = { .lock = -1 };
    sefl_buf pem = { 0 }, der = { 0 }, cert = { 0 }, issued = { 0 };
    uint8_t key[TRUST_KEY];
    SEFL_TRY(check_out(w));
    SEFL_TRY(file_read(&pem, w->csr, PEM_MAX));
    st = x509_request_from_pem(&der, buf_span(&pem));
    if (st == SEFL_OK)
        st = x509_request_read(key, buf_span(&der));
    if (st != SEFL_OK) {
        sefl_note_before("%s", w->csr);
        goto done;
    }
    SEFL_TRY(ca_issued_path(&issued, w->folder, key));
    SEFL_TRY(ca_edit(&e, w->folder));
    SEFL_TRY(ca_sign(e.t, w->folder, &cert, w->name, buf_span(&der), w->days, w->now));
    st = give_and_commit(w, &e, buf_span(&cert), 0644);
    if (st != SEFL_OK && !e.in_force) { /* ca_sign has made it, for a key that had none */
        (void)unlink((const char *)issued.p);
        goto done;
    }
    fprintf(stderr, "sefl: \"%s\" is a member now%s\n", w->name,
            cert.n > 0 ? "" : " (the aggregation server's CA makes its certificate)");
    note_alike(w, e.t);
    if (cert.n > 0)
        note_end(buf_span(&cert), w->days ? w->days : CA_CLIENT_DAYS);
done:
    trust_edit_end(&e);
    buf_clear(&pem);
    buf_clear(&der);
    buf_clear(&cert);
    buf_clear(&issued);
    return st;
}

static sefl_status do_export(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    sefl_buf path = { 0 }, bytes = { 0 }, to = { 0 };
    trust *t = NULL;
    char hex[2 * TRUST_KEY + 1], name[32];
    const char *dir = w->out;
    SEFL_TRY(ca_path(&path, w->folder, "trust"));
    SEFL_TRY(trust_read(&t, (const char *)path.p));
    SEFL_CHECK(t->self.role, SEFL_ESTATE, "no server's certificate was made here yet");
    SEFL_TRY(file_make_folder(dir, 0755));
    SEFL_TRY(ca_path(&path, w->folder, "ca.pem"));
    SEFL_TRY(file_read(&bytes, (const char *)path.p, PEM_MAX));
    snprintf(name, sizeof name, "%s-ca.pem", trust_role_name(t->self.role));
    SEFL_TRY(ca_path(&to, dir, name));
    SEFL_TRY(file_write_atomic((const char *)to.p, buf_span(&bytes), 0644));
    printf("%s\n", (const char *)to.p);
    buf_reset(&bytes);
    SEFL_TRY(ca_path(&path, w->folder, "sign.pub"));
    SEFL_TRY(file_read(&bytes, (const char *)path.p, PEM_MAX));
    snprintf(name, sizeof name, "%s.pub", trust_role_name(t->self.role));
    SEFL_TRY(ca_path(&to, dir, name));
    SEFL_TRY(file_write_atomic((const char *)to.p, buf_span(&bytes), 0644));
    ca_hex(hex, t->self.sign);
    printf("%s\nsigns as  %s\n", (const char *)to.p, hex);
    ca_hex(hex, t->self.tls);
    printf("TLS key   %s\n", hex);
done:
    buf_clear(&path);
    buf_clear(&bytes);
    buf_clear(&to);
    trust_free(t);
    return st;
}

/* ---- the list --------------------------------------------------------------------------------- */

static sefl_status do_list(void *options)
{
    sefl_status st = SEFL_OK;
    const wish *w = options;
    sefl_buf path = { 0 };
    trust *t = NULL;
    SEFL_TRY(ca_path(&path, w->folder, "trust"));
    SEFL_TRY(trust_read(&t, (const char *)path.p));
    if (w->json)
        SEFL_TRY(ca_print_json(t, w->now));
    else
        ca_print_list(t, w->now);
done:
    trust_free(t);
    buf_clear(&path);
    return st;
}

/* ---- command line ----------------------------------------------------------------------------- */

/* The server of FOLDER must be able to read a list that it did not write itself. Otherwise it would
 * go on with the list it has. */
static sefl_status check_owner(const wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf path = { 0 };
    struct stat sb;
    SEFL_TRY(ca_path(&path, w->folder, "trust"));
    if (stat((const char *)path.p, &sb) != 0 || sb.st_uid == geteuid())
        goto done; /* not there: the action reports it */
    const struct passwd *owner = getpwuid(sb.st_uid);
    SEFL_CHECK(false, SEFL_EAUTH, "%s belongs to %s%.64s: run it as that user (sudo -u ...)",
               w->folder, owner ? "" : "another user", owner ? owner->pw_name : "");
done:
    buf_clear(&path);
    return st;
}

/* The action concerns exactly one: with two, one would silently be left out. */
static sefl_status check_one(const wish *w)
{
    const char *const about[] = { w->name, w->key, w->issuer, w->token, w->server };
    int n = 0;
    for (size_t i = 0; i < sizeof about / sizeof *about; i++)
        n += about[i] != NULL;
    if (n > 1)
        return sefl_fail(SEFL_EINVAL, "name one at a time: --name, --key, --issuer, --token or "
                                      "--server");
    return !w->role || w->issuer ? SEFL_OK : sefl_fail(SEFL_EINVAL, "--role goes with --issuer");
}

static sefl_status prepare(const cli_action *a, void *options)
{
    sefl_status st = SEFL_OK;
    wish *w = options;
    sefl_clock wall = clock_wall();
    const bool reads = a->work == do_list || a->work == do_export;
    const bool one = a->work == do_revoke || a->work == do_restore || a->work == do_renew;
    w->now = (int64_t)(clock_ms(&wall) / 1000);
    w->role = w->role_word ? trust_role_of(w->role_word) : 0;
    if (one)
        SEFL_TRY(check_one(w));
    if (!reads)
        SEFL_TRY(check_owner(w));
done:
    return st;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "name", SETTING_TEXT, "", TO(name),
      .help = "Name of the organisation (new), of the server (server) or of the site" },
    { "key", SETTING_TEXT, "", TO(key), .arg = "HEX",
      .help = "Key of a member: its first 8 hex digits or more" },
    { "issuer", SETTING_TEXT, "", TO(issuer), .arg = "HEX",
      .help = "A CA of the list: the first 8 hex digits of its key or more" },
    { "token", SETTING_TEXT, "", TO(token), .arg = "HEX",
      .help = "An unused token: the first 8 hex digits of its id or more" },
    { "server", SETTING_PATH, "", TO(server), .help = "The server's own certificate" },
    { "role", SETTING_WORD, "", "client aggregator csp", TO(role_word),
      .help = "Role of the certificate; with --issuer, the role that is revoked or restored" },
    { "hosts", SETTING_TEXT, "", TO(hosts), .arg = "H1,H2",
      .help = "Host names and addresses of the server; renew keeps the old ones without it" },
    { "days", SETTING_U64, "0", TO(days), .min = 1, .max = 36500,
      .help = "How long the certificate is valid" },
    { "hours", SETTING_U64, "0", TO(hours), .min = 1, .max = 8760,
      .help = "How long the token is valid; without it 48" },
    { "cert", SETTING_PATH, "", TO(cert), .help = "Certificate of the other CA" },
    { "unit", SETTING_TEXT, "", TO(unit),
      .help = "Accept only certificates of this organisational unit, or of any unit with '*'; they "
              "need no mark of the role" },
    { "also", SETTING_FLAG, TO(also),
      .help = "Allow a second CA for the role, or FOLDER's own CA" },
    { "csr", SETTING_PATH, "", TO(csr), .help = "Certificate request of a site that you know" },
    { "out", SETTING_PATH, "", TO(out),
      .help = "Where to write the result; without it standard output, for a server FOLDER/server" },
    OPTION_JSON(wish),
    { 0 },
};

#define FOLDER "FOLDER", "a folder"
#define AT     offsetof(wish, folder)
static const cli_action actions[] = {
    { "new", FOLDER,
      "Makes a CA, a signing key and an empty trust list. FOLDER must be empty; after a failure it "
      "is empty again.",
      "name", "days", AT, do_new },
    { "server", FOLDER, "Makes the server's key and certificate.", "role name hosts", "days out",
      AT, do_server },
    { "token", FOLDER,
      "Makes a token with which one site can enrol once. The site needs one token of each server "
      "for 'sefl enroll'.",
      "name", "hours out", AT, do_token },
    { "list", FOLDER, "Prints issuers, members and tokens.", NULL, "json", AT, do_list },
    { "revoke", FOLDER,
      "Revokes a member, a CA (in all its roles or in one) or a token. A running server closes "
      "open "
      "connections within a second.",
      NULL, "name key issuer token role", AT, do_revoke },
    { "restore", FOLDER, "Takes a revocation back; the member's key stays the same.", NULL,
      "name key issuer role", AT, do_restore },
    { "renew", FOLDER,
      "Makes a new certificate for the same key, of a site or with --server of the server itself. "
      "The old one stays valid until it expires.",
      NULL, "name key server hosts days out", AT, do_renew },
    { "trust-issuer", FOLDER, "Accepts certificates of another CA for one role.", "cert role",
      "unit also", AT, do_trust },
    { "sign", FOLDER, "Signs a certificate request of a site.", "csr name", "days out", AT,
      do_sign },
    { "export", FOLDER,
      "Writes what the others need, the CA and the public signing key, into a new folder and "
      "prints "
      "the digits that they compare.",
      "out", "", AT, do_export },
    { 0 },
};

const cli_command cmd_ca = {
    .name = "ca",
    .summary = "an operator's CA and the list of who may connect to its server",
    .about =
        "Each of the two operators has a FOLDER: a CA, the server's signing key and the trust "
        "list. The running server (its setting 'ca') reads changes of the list within a second.",
    .example = "sefl ca token ops/as --name hospital-7 --hours 24",
    CLI_OPTIONS(wish),
    .actions = actions,
    .prepare = prepare,
    .handles_keys = true,
};
