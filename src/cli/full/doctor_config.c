/* A role's file: what it names must be there, fit together and be nobody else's to read. */
#include "cli/full/doctor.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/full/confine.h"
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

static void full_path(char out[PATH_MAX], const char *folder, const char *value)
{
    bool plain = *value == '/' || !*folder;
    if (snprintf(out, PATH_MAX, "%s%s%s", plain ? "" : folder, plain ? "" : "/", value) >= PATH_MAX)
        out[0] = '\0';
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

static void check_files(doctor *d, const config_kind *k, const settings *s, const char *folder)
{
    char path[PATH_MAX];
    for (const setting_def *def = k->schema(); def->key; def++) {
        if (def->type != SETTING_PATH || !*settings_text(s, def->key) || listed(later, def->key))
            continue;
        full_path(path, folder, settings_text(s, def->key));
        check_file(d, def->key, path);
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

static void check_text(doctor *d, const config_kind *k, const settings *s, const char *key,
                       const char *folder)
{
    char path[PATH_MAX];
    corpus c = { 0 };
    corpus_file f = { .path = path };
    struct stat sb;
    if (!has_key(k, key) || !*settings_text(s, key))
        return;
    full_path(path, folder, settings_text(s, key));
    if (stat(path, &sb) != 0)
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
static void check_ledger(doctor *d, const settings *s, const char *folder)
{
    char path[PATH_MAX], text[PATH_MAX];
    struct stat sb;
    full_path(path, folder, settings_text(s, "ledger"));
    full_path(text, folder, settings_text(s, "text"));
    if (stat(path, &sb) != 0 || stat(text, &sb) != 0)
        return; /* check_files has said so */
    if (text_ledger_check(path, text) != SEFL_OK)
        doctor_add(d, DOCTOR_FAIL, "ledger", "docs/PRIVACY.md: one text, one ledger", "%s",
                   sefl_last_error());
}

/* ---- certificates -------------------------------------------------------------------------- */

static void check_certificate(doctor *d, const config_kind *k, const settings *s,
                              const char *folder)
{
    char cert[PATH_MAX], key[PATH_MAX], peers[PATH_MAX];
    tls_id *id = NULL;
    sefl_clock c = clock_wall();
    int64_t now = (int64_t)(clock_ns(&c) / 1000000000u);
    x509_peer own;
    full_path(cert, folder, settings_text(s, "tls.cert"));
    full_path(key, folder, settings_text(s, "tls.key"));
    full_path(peers, folder, settings_text(s, "tls.peers"));
    if (tls_id_read(&id, cert, key, peers) != SEFL_OK) {
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
static void check_hosts(doctor *d, const settings *s, const char *folder)
{
    char cert[PATH_MAX];
    sefl_buf pem = { 0 }, hosts = { 0 };
    x509_info info;
    full_path(cert, folder, settings_text(s, "tls.cert"));
    if (file_read(&pem, cert, X509_CERT_MAX) != SEFL_OK ||
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

/* "host:port" or "[address]:port". */
static bool split(char host[256], char port[8], const char *text)
{
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    if (n == 0 || n >= 256 || strlen(colon + 1) > 5)
        return false;
    if (text[0] == '[' && text[n - 1] == ']')
        text++, n -= 2;
    snprintf(host, 256, "%.*s", (int)n, text);
    snprintf(port, 8, "%s", colon + 1);
    return true;
}

static void check_peer(doctor *d, const char *key, const char *address)
{
    char host[256], port[8];
    int fd = -1;
    if (!split(host, port, address))
        return; /* the schema's check has said so */
    if (socket_dial(&fd, host, (uint16_t)atoi(port), socket_now_ms() + DIAL_MS) == SEFL_OK)
        doctor_add(d, DOCTOR_OK, key, NULL, "%s can be reached", address);
    else
        doctor_add(d, DOCTOR_WARN, key, "is it running? do name, port and firewalls allow it?",
                   "%s cannot be reached from here", address);
    if (fd >= 0)
        close(fd);
}

static void check_port(doctor *d, const char *address)
{
    char host[256], port[8];
    int fd = -1;
    uint16_t bound;
    if (!split(host, port, address) || strcmp(port, "0") == 0)
        return;
    if (tls_listen(&fd, host, (uint16_t)atoi(port), &bound) == SEFL_OK)
        doctor_add(d, DOCTOR_OK, "listen", NULL, "%s is free", address);
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
    char folder[PATH_MAX];
    const bool told = k != NULL;
    if (!told)
        k = config_kind_of(path);
    config_kind_folder(folder, path);
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
    check_files(d, k, &s, folder);
    if (strcmp(k->name, "csp") == 0 && !*settings_text(&s, "ca"))
        doctor_add(d, DOCTOR_WARN, "ca", "name the folder of 'sefl ca new'",
                   "not set: CSP then knows no clients and refuses a pad task");
    check_text(d, k, &s, "text", folder);
    check_text(d, k, &s, "valid", folder);
    check_text(d, k, &s, "data.path", folder);
    if (has_key(k, "text") && has_key(k, "ledger"))
        check_ledger(d, &s, folder);
    if (has_key(k, "tls.cert"))
        check_certificate(d, k, &s, folder);
    if (has_key(k, "tls.cert") && has_key(k, "listen"))
        check_hosts(d, &s, folder);
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
