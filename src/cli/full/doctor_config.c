/* A role's file: what it names must be there, fit together and be nobody else's to read. */
#include "cli/full/doctor.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/full/confine.h"
#include "config/address.h"
#include "crypto/secmem.h"
#include "net/socket.h"
#include "net/tls.h"
#include "roles/client/text.h"
#include "roles/own_cert.h"
#include "store/text_ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIAL_MS = 3000 };

/* Files that are made when they are first needed. */
static const char *const later[] = { "state", "models", "ready_file", NULL };
static const char *const secret[] = { "tls.key",  "sign_key",        "key",
                                      "key_lock", "passphrase_file", NULL };

static bool listed(const char *const *list, const char *key)
{
    for (; *list; list++)
        if (strcmp(*list, key) == 0)
            return true;
    return false;
}

static bool has_key(const config_kind *k, const char *key)
{
    for (const setting_def *d = k->schema(); d->key; d++)
        if (strcmp(d->key, key) == 0)
            return true;
    return false;
}

/* ---- files --------------------------------------------------------------------------------- */

static void check_file(doctor *d, const char *key, const char *path)
{
    struct stat sb;
    char remedy[160];
    if (stat(path, &sb) != 0) {
        snprintf(remedy, sizeof remedy, "put it there, or change `%s`", key);
        doctor_add(d, DOCTOR_FAIL, key, remedy, "%s: %s", path, strerror(errno));
    } else if (access(path, R_OK) != 0) {
        doctor_add(d, DOCTOR_FAIL, key, "let the user that runs the role read it",
                   "%s cannot be read", path);
    } else if (listed(secret, key) && (sb.st_mode & 077)) {
        snprintf(remedy, sizeof remedy, "chmod 600 it");
        doctor_add(d, DOCTOR_WARN, key, remedy, "%s may be read by others (mode %03o)", path,
                   (unsigned)(sb.st_mode & 0777));
    } else {
        doctor_add(d, DOCTOR_OK, key, NULL, "%s", path);
    }
}

static void check_files(doctor *d, const config_kind *k, const settings *s)
{
    for (const setting_def *def = k->schema(); def->key; def++) {
        if (def->type != SETTING_PATH || !*settings_text(s, def->key) || listed(later, def->key))
            continue;
        check_file(d, def->key, settings_text(s, def->key));
    }
}

/* ---- text ---------------------------------------------------------------------------------- */

/* Reads all of it, as the role will, under some word list: is it there, is it text? */
static sefl_status read_text(corpus *out, const config_kind *k, const char *key,
                             const corpus_file *f)
{
    sefl_status st = SEFL_OK;
    vocab *words = NULL;
    corpus_paths paths = { 0 };
    corpus_file one = *f;
    SEFL_TRY(vocab_new(&words));
    SEFL_TRY(vocab_count(words, span_of_str("a")));
    SEFL_TRY(vocab_finish(words, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    if (strcmp(k->name, "client") == 0)
        SEFL_TRY(client_text_read(out, words, f, NULL));
    else if (strcmp(key, "valid") == 0)
        SEFL_TRY(corpus_read(out, words, f, NULL));
    else {
        SEFL_TRY(corpus_paths_find(&paths, f->path));
        for (int i = CORPUS_SPLITS; i-- > 0;) { /* the training text last: it is counted */
            corpus_clear(out);
            one.path = paths.path[i];
            if (one.path)
                SEFL_TRY(corpus_read(out, words, &one, NULL));
        }
    }
done:
    corpus_paths_clear(&paths);
    vocab_free(words);
    return st;
}

static void check_text(doctor *d, const config_kind *k, const settings *s, const char *key)
{
    corpus c = { 0 };
    corpus_file f = { 0 };
    struct stat sb;
    if (!has_key(k, key) || !*settings_text(s, key))
        return;
    f.path = settings_text(s, key);
    if (stat(f.path, &sb) != 0)
        return; /* check_files has said so */
    if (has_key(k, "text_format")) {
        f.field = settings_text(s, "text_field");
        if (strcmp(settings_text(s, "text_format"), "guess") != 0 &&
            corpus_format_parse(&f.format, settings_text(s, "text_format")) != SEFL_OK)
            return; /* the schema has refused such a word */
    }
    if (read_text(&c, k, key, &f) != SEFL_OK)
        doctor_add(d, DOCTOR_FAIL, key,
                   "put text there: UTF-8, in .txt, .tokens, .jsonl, .ndjson or .csv files", "%s",
                   sefl_last_error());
    else
        doctor_add(d, DOCTOR_OK, key, NULL, "%zu words in %zu lines, all UTF-8", c.tokens - c.lines,
                   c.lines);
    corpus_clear(&c);
}

/* A client's ledger is that of its text. */
static void check_ledger(doctor *d, const settings *s)
{
    const char *path = settings_text(s, "ledger"), *text = settings_text(s, "text");
    struct stat sb;
    if (stat(path, &sb) != 0 || stat(text, &sb) != 0)
        return; /* check_files has said so */
    if (text_ledger_check(path, text) != SEFL_OK)
        doctor_add(d, DOCTOR_FAIL, "ledger", "docs/PRIVACY.md: one text, one ledger", "%s",
                   sefl_last_error());
}

/* ---- certificates -------------------------------------------------------------------------- */

static void check_certificate(doctor *d, const config_kind *k, const settings *s)
{
    tls_id *id = NULL;
    sefl_clock c = clock_wall();
    int64_t now = (int64_t)(clock_ns(&c) / 1000000000u);
    x509_peer own;
    if (tls_id_read(&id, settings_text(s, "tls.cert"), settings_text(s, "tls.key"),
                    settings_text(s, "tls.peers")) != SEFL_OK) {
        doctor_add(d, DOCTOR_FAIL, "certificate",
                   "certificate, key and CA must be PEM and belong together", "%s",
                   sefl_last_error());
        return;
    }
    int64_t days = (tls_id_expires(id) - now) / 86400;
    if (strcmp(tls_id_role(id), k->name) != 0)
        doctor_add(d, DOCTOR_FAIL, "certificate",
                   "have it issued for the role: OU \"sefl ROLE\" in the subject",
                   "\"%s\" is for the role \"%s\", this file is a %s's", tls_id_name(id),
                   tls_id_role(id), k->name);
    else if (tls_id_expires(id) <= now)
        doctor_add(d, DOCTOR_FAIL, "certificate", "renew it with the same key: the identity stays",
                   "\"%s\" expired %" PRId64 " days ago", tls_id_name(id), -days);
    else if (days < OWN_CERT_SOON_DAYS)
        doctor_add(d, DOCTOR_WARN, "certificate", "renew it with the same key: the identity stays",
                   "\"%s\" expires in %" PRId64 " days", tls_id_name(id), days);
    else
        doctor_add(d, DOCTOR_OK, "certificate", NULL, "\"%s\", role %s, %" PRId64 " more days",
                   tls_id_name(id), tls_id_role(id), days);
    tls_id_check_own(id, &own, strcmp(k->name, "client") != 0);
    if (own.code == X509_OK)
        doctor_add(d, DOCTOR_OK, "chain", NULL, "issued by a CA of tls.peers");
    else if (own.code == X509_UNKNOWN_ISSUER)
        doctor_add(d, strcmp(k->name, "csp") == 0 ? DOCTOR_OK : DOCTOR_WARN, "chain",
                   strcmp(k->name, "csp") == 0 ? NULL
                                               : "peers must know that CA: ask whoever runs them",
                   "issued by a CA that is not in tls.peers; peers decide");
    else
        doctor_add(d, DOCTOR_FAIL, "chain", "peers will refuse it: have a new one issued", "%s",
                   own.why);
    tls_id_free(id);
}

/* Whoever dials compares the name with those in the certificate: one without any fits nobody. */
static void check_hosts(doctor *d, const settings *s)
{
    sefl_buf pem = { 0 }, hosts = { 0 };
    x509_info info;
    if (file_read(&pem, settings_text(s, "tls.cert"), X509_CERT_MAX) != SEFL_OK ||
        x509_info_read(&info, buf_span(&pem), NULL) != SEFL_OK)
        ; /* check_certificate has said so */
    else if (x509_hosts_read(&hosts, buf_span(&pem)) != SEFL_OK)
        doctor_add(d, DOCTOR_FAIL, "hosts", "have it issued anew", "%s", sefl_last_error());
    else if (hosts.n == 0 && strchr(info.name, '.')) /* GnuTLS looks there, others no more */
        doctor_add(d, DOCTOR_WARN, "hosts", "have it issued with the host as alternative name",
                   "the certificate has its host, %s, in the common name alone", info.name);
    else if (hosts.n == 0)
        doctor_add(d, DOCTOR_FAIL, "hosts",
                   "have it issued with them: 'sefl ca renew FOLDER --server FILE --hosts NAME'",
                   "the certificate names no host: whoever dials will refuse it");
    else
        doctor_add(d, DOCTOR_OK, "hosts", NULL, "the certificate is for %.*s", (int)hosts.n,
                   (const char *)hosts.p);
    buf_clear(&pem);
    buf_clear(&hosts);
}

/* ---- ports and peers ----------------------------------------------------------------------- */

static void check_peer(doctor *d, const char *key, const char *text)
{
    host_port a;
    int fd = -1;
    if (address_read(&a, text, 1) == SEFL_OK &&
        socket_dial(&fd, a.host, a.port, socket_now_ms() + DIAL_MS) == SEFL_OK)
        doctor_add(d, DOCTOR_OK, key, NULL, "%s can be reached", text);
    else
        doctor_add(d, DOCTOR_WARN, key, "is it running? do name, port and firewalls allow it?",
                   "%s cannot be reached from here", text);
    if (fd >= 0)
        close(fd);
}

static void check_port(doctor *d, const char *text)
{
    host_port a;
    int fd = -1;
    uint16_t bound;
    if (address_read(&a, text, 1) != SEFL_OK) /* port 0: the system chooses a free one */
        return;
    if (tls_listen(&fd, a.host, a.port, &bound) == SEFL_OK)
        doctor_add(d, DOCTOR_OK, "listen", NULL, "%s is free", text);
    else
        doctor_add(d, DOCTOR_FAIL, "listen",
                   "does the role run already? else free the port or change `listen`", "%s",
                   sefl_last_error());
    if (fd >= 0)
        close(fd);
}

/* The very check that the role makes at its start. */
static void check_memory(doctor *d, const char *memory_lock)
{
    if (confine_memory(NULL, memory_lock) != SEFL_OK)
        doctor_add(
            d, DOCTOR_FAIL, "memory_lock",
            "LimitMEMLOCK=64M of the service, ulimit -l 65536 in a shell; or memory_lock: try",
            "required, but keys cannot be locked in memory: the role will not start");
    secmem_require(false); /* the doctor itself holds no key */
}

void doctor_config(doctor *d, const config_kind *k, const char *path)
{
    settings s;
    const bool told = k != NULL;
    if (!told)
        k = config_kind_of(path);
    sefl_status st = config_kind_read(k, &s, path);
    if (!told)
        st = config_kind_guessed(st, path);
    if (st != SEFL_OK) {
        doctor_add(d, DOCTOR_FAIL, "settings",
                   "correct the file: 'sefl config keys' lists what may stand there", "%s",
                   sefl_last_error());
        settings_clear(&s);
        return;
    }
    doctor_add(d, DOCTOR_OK, "settings", NULL, "%s: %s", path, k->about);
    check_files(d, k, &s);
    if (strcmp(k->name, "csp") == 0 && !*settings_text(&s, "ca"))
        doctor_add(d, DOCTOR_WARN, "ca", "name the folder of 'sefl ca new'",
                   "not set: CSP then knows no clients and refuses a pad task");
    check_text(d, k, &s, "text");
    check_text(d, k, &s, "valid");
    check_text(d, k, &s, "data.path");
    if (has_key(k, "text") && has_key(k, "ledger"))
        check_ledger(d, &s);
    if (has_key(k, "tls.cert"))
        check_certificate(d, k, &s);
    if (has_key(k, "tls.cert") && has_key(k, "listen"))
        check_hosts(d, &s);
    if (has_key(k, "memory_lock"))
        check_memory(d, settings_text(&s, "memory_lock"));
    if (has_key(k, "listen"))
        check_port(d, settings_text(&s, "listen"));
    if (has_key(k, "csp"))
        check_peer(d, "csp", settings_text(&s, "csp"));
    if (has_key(k, "server"))
        check_peer(d, "server", settings_text(&s, "server"));
    settings_clear(&s);
}
