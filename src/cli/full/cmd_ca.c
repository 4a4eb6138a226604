/* sefl ca: an operator's folder: its CA, its server's keys, and the list of whom the server lets in. */
#include "base/hex.h"
#include "cli/actions.h"
#include "cli/cli.h"
#include "cli/full/ca_print.h"

#include "base/clock.h"
#include "base/file.h"
#include "roles/ca.h"

#include <getopt.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    O_NAME = 256,
    O_DAYS,
    O_ROLE,
    O_HOSTS,
    O_OUT,
    O_HOURS,
    O_KEY,
    O_ISSUER,
    O_TOKEN,
    O_CERT,
    O_UNIT,
    O_CSR,
    O_SERVER,
    O_JSON,
    O_ALSO,
    O_END,
    PEM_MAX = 64 << 10,
};

static const struct option longopts[] = {
    { "name", required_argument, NULL, O_NAME },
    { "days", required_argument, NULL, O_DAYS },
    { "role", required_argument, NULL, O_ROLE },
    { "hosts", required_argument, NULL, O_HOSTS },
    { "out", required_argument, NULL, O_OUT },
    { "hours", required_argument, NULL, O_HOURS },
    { "key", required_argument, NULL, O_KEY },
    { "issuer", required_argument, NULL, O_ISSUER },
    { "token", required_argument, NULL, O_TOKEN },
    { "cert", required_argument, NULL, O_CERT },
    { "unit", required_argument, NULL, O_UNIT },
    { "csr", required_argument, NULL, O_CSR },
    { "server", required_argument, NULL, O_SERVER },
    { "json", no_argument, NULL, O_JSON },
    { "also", no_argument, NULL, O_ALSO },
    { 0 },
};

typedef struct wish {
    const char *folder;
    const char *text[O_END - O_NAME]; /* by option */
    unsigned days, hours;
    trust_role role;
    int64_t now;
} wish;

static const char *of(const wish *w, int option)
{
    return w->text[option - O_NAME];
}

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
    if (of(w, O_NAME)) {
        const trust_member *m = trust_find_name(t, of(w, O_NAME));
        SEFL_CHECK(m != NULL, SEFL_ENOTFOUND, "no active member \"%.64s\"", of(w, O_NAME));
        memcpy(key, m->key, TRUST_KEY);
        return SEFL_OK;
    }
    SEFL_CHECK(of(w, O_KEY) != NULL, SEFL_EINVAL, "whom? give --name or --key");
    SEFL_TRY(check_digits(of(w, O_KEY)));
    pick p = { .digits = of(w, O_KEY) };
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
    if (of(w, O_OUT))
        return file_write_new(of(w, O_OUT), bytes, mode);
    return fwrite(bytes.p, 1, bytes.n, stdout) == bytes.n && fflush(stdout) == 0
               ? SEFL_OK
               : sefl_fail(SEFL_EIO, "cannot write to stdout");
}

/* The result goes out before the list is changed: a token or certificate that no list knows opens
 * nothing, while a list that has let somebody in who got nothing must be mended by hand. What was
 * written is taken back if the list cannot be. No bytes: nothing to give (CSP issues none). */
static sefl_status give_and_commit(const wish *w, trust_edit *e, sefl_span bytes, mode_t mode)
{
    const char *out = of(w, O_OUT);
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

static sefl_status do_new(const wish *w)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(ca_new(w->folder, of(w, O_NAME), w->days, NULL));
    printf("%s: the CA of \"%s\", a signing key, and an empty trust list\n", w->folder,
           of(w, O_NAME));
    fprintf(stderr, "sefl: ca.key and sign.key stay on this machine. Next: sefl ca server %s\n",
            w->folder);
done:
    return st;
}

static sefl_status do_server(const wish *w)
{
    sefl_status st = SEFL_OK;
    trust_edit e = { .lock = -1 };
    sefl_buf dir = { 0 }, cert = { 0 }, key = { 0 }, pem = { 0 };
    char hex[2 * TRUST_KEY + 1];
    bool fresh = false;
    if (of(w, O_OUT))
        SEFL_TRY(wr_fmt(&dir, "%s%c", of(w, O_OUT), 0));
    else
        SEFL_TRY(ca_path(&dir, w->folder, "server"));
    SEFL_TRY(file_make_folder((const char *)dir.p, 0700));
    SEFL_TRY(ca_path(&cert, (const char *)dir.p, "cert.pem"));
    SEFL_TRY(ca_path(&key, (const char *)dir.p, "key.pem"));
    SEFL_TRY(ca_edit(&e, w->folder));
    fresh = !file_exists((const char *)cert.p) && !file_exists((const char *)key.p);
    SEFL_TRY(ca_server(e.t, w->folder,
                       &(ca_server_config){ .role = w->role,
                                            .name = of(w, O_NAME),
                                            .hosts = of(w, O_HOSTS),
                                            .days = w->days,
                                            .cert = (const char *)cert.p,
                                            .key = (const char *)key.p },
                       w->now));
    SEFL_TRY(trust_edit_commit(&e));
    ca_hex(hex, e.t->self.tls);
    printf("%s: certificate of the %s \"%s\" for %s\nTLS key   %s\n", (const char *)cert.p,
           trust_role_name(w->role), of(w, O_NAME), of(w, O_HOSTS), hex);
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
    return of(w, O_OUT) && file_exists(of(w, O_OUT))
               ? sefl_fail(SEFL_EEXIST, "%s exists already: nothing was changed", of(w, O_OUT))
               : SEFL_OK;
}

/* Two sites whose names look like one. */
static void note_alike(const wish *w, const trust *t)
{
    const char *other = ca_name_alike(t, of(w, O_NAME), w->now);
    if (other)
        fprintf(stderr, "sefl: \"%s\" and \"%s\" are two sites: capitals count in names\n",
                of(w, O_NAME), other);
}

static sefl_status do_token(const wish *w)
{
    sefl_status st = SEFL_OK;
    trust_edit e = { .lock = -1 };
    sefl_buf text = { 0 };
    sefl_rng rng = rng_system();
    int64_t expires = w->now + 3600 * (int64_t)(w->hours ? w->hours : CA_TOKEN_HOURS);
    char date[32];
    SEFL_TRY(check_out(w));
    SEFL_TRY(ca_edit(&e, w->folder));
    const bool second = ca_open_token(e.t, of(w, O_NAME), w->now) != NULL;
    SEFL_TRY(ca_token(e.t, &text, of(w, O_NAME), expires, w->now, &rng));
    SEFL_TRY(wr_u8(&text, '\n'));
    SEFL_TRY(give_and_commit(w, &e, buf_span(&text), 0600));
    ca_date(date, expires);
    fprintf(
        stderr,
        "sefl: the %s's token for \"%s\", good once until %s UTC. Whoever has it and the other\n"
        "      server's can join under that name: give it to the site itself, not through the "
        "other server\n",
        trust_role_name(e.t->self.role), of(w, O_NAME), date);
    if (second)
        fprintf(stderr,
                "sefl: \"%s\" has an open token already, and both are good: if the first is lost,\n"
                "      cancel it ('sefl ca list', 'sefl ca revoke --token')\n",
                of(w, O_NAME));
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

static sefl_status do_trust(const wish *w)
{
    sefl_status st = SEFL_OK;
    trust_edit e = { .lock = -1 };
    sefl_buf pem = { 0 };
    x509_info info;
    char before[TRUST_NAME_MAX + 1] = "";
    const char *unit = of(w, O_UNIT) ? of(w, O_UNIT) : "";
    SEFL_TRY(x509_info_file(&info, &pem, of(w, O_CERT)));
    SEFL_TRY(ca_edit(&e, w->folder));
    const trust_issuer *same = trust_find_issuer(e.t, info.fingerprint, w->role);
    const bool had = same != NULL, counting = is_counting(e.t);
    if (had)
        strcpy(before, same->unit);
    SEFL_TRY(ca_trust_issuer(
        e.t, w->folder, buf_span(&pem),
        &(ca_issuer_config){ .role = w->role, .unit = unit, .also = of(w, O_ALSO) != NULL },
        w->now));
    SEFL_TRY(trust_edit_commit(&e));
    printf("%s is trusted for the role %s", of(w, O_CERT), trust_role_name(w->role));
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
    SEFL_TRY(check_digits(of(w, O_ISSUER)));
    pick p = { .digits = of(w, O_ISSUER) };
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
    SEFL_TRY(check_digits(of(w, O_TOKEN)));
    pick p = { .digits = of(w, O_TOKEN) };
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
    const char *name = of(w, O_NAME);
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

static sefl_status do_revoke(const wish *w)
{
    sefl_status st = SEFL_OK;
    trust_edit e = { .lock = -1 };
    uint8_t key[TRUST_KEY];
    SEFL_TRY(ca_edit(&e, w->folder));
    if (of(w, O_ISSUER)) {
        SEFL_TRY(set_issuer(w, e.t, TRUST_REVOKED));
    } else if (of(w, O_TOKEN)) {
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
    const char *name = of(w, O_NAME);
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

static sefl_status do_restore(const wish *w)
{
    sefl_status st = SEFL_OK;
    trust_edit e = { .lock = -1 };
    uint8_t key[TRUST_KEY];
    SEFL_TRY(ca_edit(&e, w->folder));
    const bool counting = is_counting(e.t);
    if (of(w, O_ISSUER)) {
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

static sefl_status do_renew(const wish *w)
{
    sefl_status st = SEFL_OK;
    trust_edit e = { .lock = -1 };
    sefl_buf pem = { 0 };
    uint8_t key[TRUST_KEY];
    SEFL_TRY(check_out(w));
    SEFL_TRY(ca_edit(&e, w->folder));
    if (of(w, O_SERVER)) {
        SEFL_TRY(ca_server_renew(e.t, w->folder, of(w, O_SERVER), of(w, O_HOSTS), w->days, &pem));
    } else {
        SEFL_TRY(which_member(w, e.t, key));
        SEFL_TRY(ca_renew(e.t, w->folder, &pem, key, w->days));
        SEFL_TRY(trust_edit_commit(&e)); /* the site can fetch it, whatever becomes of our copy */
    }
    SEFL_TRY(give(w, buf_span(&pem), 0644));
    note_end(buf_span(&pem), w->days ? w->days : of(w, O_SERVER) ? CA_SERVER_DAYS : CA_CLIENT_DAYS);
    fprintf(
        stderr,
        of(w, O_SERVER)
            ? "sefl: put it in the place of %s and send the server SIGHUP\n"
            : "sefl: the site fetches it with 'sefl enroll --renew', or takes it from a file that\n"
              "      you send: 'sefl enroll --renew --cert FILE' (if its old one has expired)%s\n",
        of(w, O_SERVER) ? of(w, O_SERVER) : "");
done:
    trust_edit_end(&e);
    buf_clear(&pem);
    return st;
}

static sefl_status do_sign(const wish *w)
{
    sefl_status st = SEFL_OK;
    trust_edit e = { .lock = -1 };
    sefl_buf pem = { 0 }, der = { 0 }, cert = { 0 }, issued = { 0 };
    uint8_t key[TRUST_KEY];
    SEFL_TRY(check_out(w));
    SEFL_TRY(file_read(&pem, of(w, O_CSR), PEM_MAX));
    st = x509_request_from_pem(&der, buf_span(&pem));
    if (st == SEFL_OK)
        st = x509_request_read(key, buf_span(&der));
    if (st != SEFL_OK) {
        sefl_note_before("%s", of(w, O_CSR));
        goto done;
    }
    SEFL_TRY(ca_issued_path(&issued, w->folder, key));
    SEFL_TRY(ca_edit(&e, w->folder));
    SEFL_TRY(ca_sign(e.t, w->folder, &cert, of(w, O_NAME), buf_span(&der), w->days, w->now));
    st = give_and_commit(w, &e, buf_span(&cert), 0644);
    if (st != SEFL_OK && !e.in_force) { /* ca_sign has made it, for a key that had none */
        (void)unlink((const char *)issued.p);
        goto done;
    }
    fprintf(stderr, "sefl: \"%s\" is a member now%s\n", of(w, O_NAME),
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

static sefl_status do_export(const wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf path = { 0 }, bytes = { 0 }, to = { 0 };
    trust *t = NULL;
    char hex[2 * TRUST_KEY + 1], name[32];
    const char *dir = of(w, O_OUT);
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

static sefl_status do_list(const wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf path = { 0 };
    trust *t = NULL;
    SEFL_TRY(ca_path(&path, w->folder, "trust"));
    SEFL_TRY(trust_read(&t, (const char *)path.p));
    if (of(w, O_JSON))
        SEFL_TRY(ca_print_json(t, w->now));
    else
        ca_print_list(t, w->now);
done:
    trust_free(t);
    buf_clear(&path);
    return st;
}

/* ---- command line ----------------------------------------------------------------------------- */

static const struct action {
    const char *name;
    sefl_status (*run)(const wish *w);
    int needs[4]; /* options that must be given */
    int takes[8]; /* and those that may */
    bool reads;   /* changes nothing */
} actions[] = {
    { "new", do_new, { O_NAME }, { O_DAYS } },
    { "server", do_server, { O_ROLE, O_NAME, O_HOSTS }, { O_DAYS, O_OUT } },
    { "token", do_token, { O_NAME }, { O_HOURS, O_OUT } },
    { "list", do_list, { 0 }, { O_JSON }, .reads = true },
    { "revoke", do_revoke, { 0 }, { O_NAME, O_KEY, O_ISSUER, O_TOKEN, O_ROLE } },
    { "restore", do_restore, { 0 }, { O_NAME, O_KEY, O_ISSUER, O_ROLE } },
    { "renew", do_renew, { 0 }, { O_NAME, O_KEY, O_SERVER, O_HOSTS, O_DAYS, O_OUT } },
    { "trust-issuer", do_trust, { O_CERT, O_ROLE }, { O_UNIT, O_ALSO } },
    { "sign", do_sign, { O_CSR, O_NAME }, { O_DAYS, O_OUT } },
    { "export", do_export, { O_OUT }, { 0 }, .reads = true },
};
enum { ACTIONS = sizeof actions / sizeof *actions };

static const char *option_name(int o)
{
    for (const struct option *p = longopts; p->name; p++)
        if (p->val == o)
            return p->name;
    return "?";
}

static bool is_in(const int *list, size_t n, int o)
{
    for (size_t i = 0; i < n && list[i]; i++)
        if (list[i] == o)
            return true;
    return false;
}

static int take(wish *w, const struct action *a, int o)
{
    unsigned long long v = 0;
    if (!is_in(a->needs, 4, o) && !is_in(a->takes, 8, o))
        return cli_misuse(&cmd_ca, "%s does not take --%s", a->name, option_name(o));
    w->text[o - O_NAME] = optarg ? optarg : "";
    if ((o == O_DAYS && !cli_parse_u64(optarg, 1, 36500, &v)) ||
        (o == O_HOURS && !cli_parse_u64(optarg, 1, 8760, &v)))
        return cli_misuse(&cmd_ca, "--%s is a number from 1 to %d, not \"%.64s\"", option_name(o),
                          o == O_DAYS ? 36500 : 8760, optarg);
    if (o == O_DAYS)
        w->days = (unsigned)v;
    if (o == O_HOURS)
        w->hours = (unsigned)v;
    if (o == O_ROLE && !(w->role = trust_role_of(optarg)))
        return cli_misuse(&cmd_ca, "--role is client, aggregator or csp, not \"%.32s\"", optarg);
    return CLI_DONE;
}

/* Whom it is about is said once: of two, one would be done and the other silently not. */
static int take_one(const wish *w, const struct action *a)
{
    static const int whom[] = { O_NAME, O_KEY, O_ISSUER, O_TOKEN, O_SERVER };
    int n = 0;
    for (size_t i = 0; i < sizeof whom / sizeof *whom; i++)
        n += of(w, whom[i]) != NULL;
    if (n > 1)
        return cli_misuse(&cmd_ca, "%s: one at a time", a->name);
    return !w->role || of(w, O_ISSUER)
               ? CLI_DONE
               : cli_misuse(&cmd_ca, "%s: --role goes with --issuer", a->name);
}

/* Whoever changes the list owns it afterwards: a server that runs as somebody else could not read it,
 * and would go on with the one before. */
static sefl_status check_owner(const wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf path = { 0 };
    struct stat sb;
    SEFL_TRY(ca_path(&path, w->folder, "trust"));
    if (stat((const char *)path.p, &sb) != 0 || sb.st_uid == geteuid())
        goto done; /* not there: the action says so */
    const struct passwd *owner = getpwuid(sb.st_uid);
    SEFL_CHECK(false, SEFL_EAUTH, "%s belongs to %s%.64s: run it as that user (sudo -u ...)",
               w->folder, owner ? "" : "another user", owner ? owner->pw_name : "");
done:
    buf_clear(&path);
    return st;
}

static int run_action(const struct action *a, int argc, char **argv)
{
    sefl_clock wall = clock_wall();
    wish w = { .now = (int64_t)(clock_ms(&wall) / 1000) };
    int rc = CLI_DONE;
    opterr = 0, optind = 1;
    for (int o; rc == CLI_DONE && (o = getopt_long(argc, argv, ":", longopts, NULL)) != -1;)
        rc = o == '?' || o == ':' ? cli_bad_option(&cmd_ca, argc, argv, o, longopts)
                                  : take(&w, a, o);
    for (size_t i = 0; rc == CLI_DONE && i < 4 && a->needs[i]; i++)
        if (!of(&w, a->needs[i]))
            rc = cli_misuse(&cmd_ca, "%s wants --%s", a->name, option_name(a->needs[i]));
    if (rc == CLI_DONE && (a->run == do_revoke || a->run == do_restore || a->run == do_renew))
        rc = take_one(&w, a);
    if (rc == CLI_DONE && optind >= argc)
        rc = cli_misuse(&cmd_ca, "%s: which folder?", a->name);
    if (rc == CLI_DONE && optind + 1 < argc)
        rc = cli_misuse(&cmd_ca, "\"%.64s\" is one too many", argv[optind + 1]);
    if (rc != CLI_DONE)
        return rc;
    w.folder = argv[optind];
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 }); /* no key in a core file */
    sefl_status st = a->reads ? SEFL_OK : check_owner(&w);
    if (st == SEFL_OK)
        st = a->run(&w);
    return st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_ca, st);
}

static int run(int argc, char **argv)
{
    const char *names[ACTIONS + 1] = { 0 };
    size_t which;
    for (size_t i = 0; i < ACTIONS; i++)
        names[i] = actions[i].name;
    int rc = cli_action_pick(&cmd_ca, names, argc, argv, &which);
    return rc == CLI_DONE ? run_action(&actions[which], argc - 1, argv + 1) : rc;
}

const cli_command cmd_ca = {
    .name = "ca",
    .summary = "an operator's CA, and the list of whom its server lets in",
    .usage = "new|server|token|list|revoke|restore|renew|trust-issuer|sign|\n"
             "       export FOLDER ...",
    .details = "Each of the two operators has a FOLDER of its own: a CA, the server's signing\n"
               "key and the trust list that the running server (setting 'ca') looks at every\n"
               "second.\n"
               "  new FOLDER --name ORG [--days N]     CA, signing key, empty list; FOLDER must\n"
               "                                       be empty, and is so after a failure\n"
               "  server FOLDER --role aggregator|csp --name NAME --hosts H1,H2 [--days N]\n"
               "      [--out DIR]\n"
               "                                       the server's key and certificate, in DIR\n"
               "                                       or FOLDER/server\n"
               "  token FOLDER --name SITE [--hours N] [--out FILE]\n"
               "                                       lets one site in, once, within N hours\n"
               "                                       (48); the site needs one of each server\n"
               "                                       for 'sefl enroll'\n"
               "  list FOLDER [--json]                 issuers, members, tokens\n"
               "  revoke FOLDER --name SITE | --key HEX | --issuer HEX [--role ROLE] |\n"
               "      --token HEX\n"
               "                                       out within a second, open connections\n"
               "                                       too; a CA in all its roles, or in one\n"
               "  restore FOLDER --name SITE | --key HEX | --issuer HEX [--role ROLE]\n"
               "                                       takes a revocation back: in again, with\n"
               "                                       the same key\n"
               "  renew FOLDER --name SITE | --key HEX [--days N] [--out FILE]\n"
               "                                       a new certificate for the same key; the\n"
               "                                       old one is good until it expires\n"
               "  renew FOLDER --server cert.pem [--hosts H1,H2] [--days N] [--out FILE]\n"
               "                                       the same for the server's own, for the\n"
               "                                       hosts it had or for these\n"
               "  trust-issuer FOLDER --cert CA.pem --role client|aggregator|csp [--unit UNIT]\n"
               "      [--also]\n"
               "                                       another CA counts for that role (for a\n"
               "                                       second one, or FOLDER's own CA: --also);\n"
               "                                       UNIT: only certificates of this\n"
               "                                       organisational unit ('*': all), which\n"
               "                                       need no mark of ours\n"
               "  sign FOLDER --csr FILE --name SITE [--days N] [--out FILE]\n"
               "                                       a request that came by mail, from a site\n"
               "                                       you know\n"
               "  export FOLDER --out DIR              what the others need: CA and signing key,\n"
               "                                       public;\n"
               "                                       prints the digits that they compare",
    .example = "sefl ca token ops/as --name hospital-7 --hours 24",
    .words = "new server token list revoke restore renew trust-issuer sign export",
    .run = run,
};
