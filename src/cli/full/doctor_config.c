/* A role's file: what it names must exist, fit together and be readable by its owner alone. */
#include "cli/full/doctor.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/full/confine.h"
#include "config/address.h"
#include "crypto/keyfile.h"
#include "crypto/secmem.h"
#include "net/socket.h"
#include "net/tls.h"
#include "roles/aggregator/release.h"
#include "roles/client/config.h"
#include "roles/client/text.h"
#include "roles/own_cert.h"
#include "roles/own_task.h"
#include "store/text_ledger.h"
#include "trust/trust.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIAL_MS = 3000 };

/* The file under examination: its kind and its settings. */
typedef struct look {
    doctor *d;
    const config_kind *k;
    const settings *s;
} look;

/* A key's value; NULL: the kind has no such key, or it is empty. */
static const char *value_of(const look *l, const char *key)
{
    const char *v = setting_find(l->s->schema, key) ? settings_text(l->s, key) : "";
    return *v ? v : NULL;
}

static bool is_role(const look *l, const char *name)
{
    return strcmp(l->k->name, name) == 0;
}

static bool listed(const char *const *list, const char *key)
{
    while (*list && strcmp(*list, key) != 0)
        list++;
    return *list != NULL;
}

/* Adds one line about a setting: the last error, or that all is well. */
static void judge(const look *l, sefl_status st, const char *key, const char *remedy,
                  const char *good)
{
    if (st != SEFL_OK)
        doctor_add(l->d, DOCTOR_FAIL, key, remedy, "%s", sefl_last_error());
    else if (good)
        doctor_add(l->d, DOCTOR_OK, key, NULL, "%s", good);
}

/* ---- files ------------------------------------------------------------------------------ */

static void check_file(const look *l, const char *key, const char *path)
{
    static const char *const secret[] = { "tls.key",  "sign_key",        "key",
                                          "key_lock", "passphrase_file", NULL };
    struct stat sb;
    char remedy[160];
    if (stat(path, &sb) != 0) {
        snprintf(remedy, sizeof remedy, "put it there, or change `%s`", key);
        doctor_add(l->d, DOCTOR_FAIL, key, remedy, "%s: %s", path, strerror(errno));
    } else if (access(path, R_OK) != 0) {
        doctor_add(l->d, DOCTOR_FAIL, key, "let the user that runs the role read it",
                   "%s cannot be read", path);
    } else if (listed(secret, key) && (sb.st_mode & 077)) {
        doctor_add(l->d, DOCTOR_WARN, key, "chmod 600 it", "%s may be read by others (mode %03o)",
                   path, (unsigned)(sb.st_mode & 0777));
    } else {
        doctor_add(l->d, DOCTOR_OK, key, NULL, "%s", path);
    }
}

static void check_files(const look *l)
{
    /* the role makes these when it first needs them */
    static const char *const later[] = { "state", "models", "ready_file", NULL };
    for (const setting_def *def = l->s->schema; def->key; def++)
        if (def->type == SETTING_PATH && value_of(l, def->key) && !listed(later, def->key))
            check_file(l, def->key, value_of(l, def->key));
}

/* ---- text ------------------------------------------------------------------------------- */

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

static void check_text(const look *l, const char *key)
{
    corpus c = { 0 };
    corpus_file f = { .path = value_of(l, key), .field = value_of(l, "text_field") };
    const char *format = value_of(l, "text_format");
    char good[96];
    if (!f.path || !file_exists(f.path))
        return; /* check_files has reported it */
    if (format && strcmp(format, "guess") != 0 && corpus_format_parse(&f.format, format) != SEFL_OK)
        return; /* the schema has refused such a word */
    sefl_status st = read_text(&c, l->k, key, &f);
    snprintf(good, sizeof good, "%zu words in %zu lines, all UTF-8", c.tokens - c.lines, c.lines);
    judge(l, st, key, "put text there: UTF-8, in .txt, .tokens, .jsonl, .ndjson or .csv files",
          good);
    corpus_clear(&c);
}

/* ---- what a role reads at its start ----------------------------------------------------- */

/* A client's ledger belongs to its text. */
static void check_ledger(const look *l)
{
    const char *path = value_of(l, "ledger"), *text = value_of(l, "text");
    if (path && text && file_exists(path) && file_exists(text))
        judge(l, text_ledger_check(path, text), "ledger", "docs/PRIVACY.md: one text, one ledger",
              NULL);
}

/* A server's ledger belongs to the task's population. */
static void check_population(const look *l, const task *t)
{
    const char *path = value_of(l, "ledger");
    ledger *book = NULL;
    sefl_status st = ledger_open_read(&book, path);
    if (st == SEFL_OK && strcmp(ledger_population(book), t->population) != 0)
        st = sefl_fail(SEFL_ESTATE, "%s is the ledger of \"%s\", the task's population is \"%s\"",
                       path, ledger_population(book), t->population);
    judge(l, st, "ledger", "name the ledger of this population", NULL);
    ledger_close(book);
}

/* The kind of CSP's key, and its need of a list of clients, depend on the task. */
static void check_csp_key(const look *l, const task *t)
{
    sefl_buf file = { 0 };
    keyfile_info info;
    const char *path = value_of(l, "key");
    sefl_status st = file_read(&file, path, KEYFILE_BYTES_MAX);
    if (st == SEFL_OK)
        st = keyfile_info_read(&info, buf_span(&file));
    if (st == SEFL_OK && (!info.secret || (info.kind == KEYFILE_ROOT) != (t->pub == NULL)))
        st = sefl_fail(SEFL_EINVAL, "%s: this task needs %s", path,
                       t->pub ? "the secret key of a Paillier pair" : "a root ('sefl key new')");
    judge(l, st, "key", "name the file that 'sefl key new' made for this task", NULL);
    if (!value_of(l, "ca"))
        doctor_add(l->d, task_is_sealed(t) ? DOCTOR_FAIL : DOCTOR_WARN, "ca",
                   "name the folder of 'sefl ca new'",
                   task_is_sealed(t) ? "not set: CSP then knows no clients and refuses a pad task"
                                     : "not set: certificates cannot be revoked");
    buf_clear(&file);
}

static void check_released(const look *l, const task *t)
{
    vocab *words = NULL;
    corpus valid = { 0 };
    sefl_status st = releases_check(&(releases_config){ .task = t,
                                                        .init = value_of(l, "init"),
                                                        .vocab = value_of(l, "vocab"),
                                                        .valid = value_of(l, "valid") },
                                    &words, &valid);
    judge(l, st, "task", "give the files from which the task was made", NULL);
    corpus_clear(&valid);
    vocab_free(words);
}

/* Reads the task as the server does: signatures, own key, and the files whose hashes it holds. */
static void check_task(const look *l)
{
    task t = { 0 };
    sefl_buf bytes = { 0 };
    sign_key *key = NULL;
    bool csp = is_role(l, "csp");
    sefl_status st = sign_key_read(&key, value_of(l, "sign_key"));
    judge(l, st, "sign_key", "name the file that 'sefl key sign' made", NULL);
    if (st == SEFL_OK) {
        st = own_task_read(&t, &bytes, value_of(l, "task"), key,
                           csp ? OWN_TASK_CSP : OWN_TASK_AGGREGATOR);
        judge(l, st, "task", "both servers must sign the task: 'sefl task sign'", NULL);
    }
    if (st == SEFL_OK) {
        check_population(l, &t);
        csp ? check_csp_key(l, &t) : check_released(l, &t);
    }
    task_clear(&t);
    buf_clear(&bytes);
    sign_key_free(key);
}

/* The policy file of a client, the trust list of a server, the user to become. */
static void check_named(const look *l)
{
    const char *rules = value_of(l, "policy"), *ca = value_of(l, "ca"), *user = value_of(l, "user");
    char path[PATH_MAX];
    policy p;
    trust *list = NULL;
    if (rules)
        judge(l, policy_read(&p, rules, &(pinned){ 0 }), "policy", "correct that file", NULL);
    if (ca && snprintf(path, sizeof path, "%s/trust", ca) < (int)sizeof path)
        judge(l, trust_read(&list, path), "ca", "name the folder of 'sefl ca new'", NULL);
    if (user && !getpwnam(user))
        doctor_add(l->d, DOCTOR_FAIL, "user", "add the user, or change `user`",
                   "there is no user \"%s\"", user);
    trust_free(list);
}

/* ---- certificates ----------------------------------------------------------------------- */

static void check_certificate(const look *l)
{
    doctor *d = l->d;
    const config_kind *k = l->k;
    const settings *s = l->s;
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
                                               : "peers must know that CA: ask their operators",
                   "issued by a CA that is not in tls.peers; peers decide");
    else
        doctor_add(d, DOCTOR_FAIL, "chain", "peers will refuse it: have a new one issued", "%s",
                   own.why);
    tls_id_free(id);
}

/* A client compares the server's name with those in the certificate; without any it refuses. */
static void check_hosts(const look *l)
{
    doctor *d = l->d;
    const settings *s = l->s;
    sefl_buf pem = { 0 }, hosts = { 0 };
    x509_info info;
    if (file_read(&pem, settings_text(s, "tls.cert"), X509_CERT_MAX) != SEFL_OK ||
        x509_info_read(&info, buf_span(&pem), NULL) != SEFL_OK)
        ; /* check_certificate has reported it */
    else if (x509_hosts_read(&hosts, buf_span(&pem)) != SEFL_OK)
        doctor_add(d, DOCTOR_FAIL, "hosts", "have it issued anew", "%s", sefl_last_error());
    else if (hosts.n == 0 && strchr(info.name, '.')) /* GnuTLS looks there, others do not */
        doctor_add(d, DOCTOR_WARN, "hosts", "have it issued with the host as alternative name",
                   "the certificate has its host, %s, in the common name alone", info.name);
    else if (hosts.n == 0)
        doctor_add(d, DOCTOR_FAIL, "hosts",
                   "have it issued with them: 'sefl ca renew FOLDER --server FILE --hosts NAME'",
                   "the certificate names no host: every client will refuse it");
    else
        doctor_add(d, DOCTOR_OK, "hosts", NULL, "the certificate is for %.*s", (int)hosts.n,
                   (const char *)hosts.p);
    buf_clear(&pem);
    buf_clear(&hosts);
}

/* ---- ports and peers -------------------------------------------------------------------- */

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

bool doctor_settings(doctor *d, const config_kind *k, settings *s, const char *path)
{
    const look l = { d, k ? k : config_kind_of(path), s };
    const size_t before = d->count[DOCTOR_FAIL];
    sefl_status st = config_kind_read(l.k, s, path);
    if (st == SEFL_OK)
        check_files(&l);
    bool all_there = d->count[DOCTOR_FAIL] == before;
    if (st == SEFL_OK && all_there)
        st = config_kind_check(l.k, s, path);
    if (!k)
        st = config_kind_guessed(st, path);
    judge(&l, st, "settings", "correct the file: 'sefl config keys' lists its keys", l.k->about);
    if (st != SEFL_OK)
        return false;
    check_text(&l, "text");
    check_text(&l, "valid");
    check_text(&l, "data.path");
    check_ledger(&l);
    if (!all_there)
        return true;
    check_named(&l);
    if (value_of(&l, "tls.cert"))
        check_certificate(&l);
    if (value_of(&l, "tls.cert") && value_of(&l, "listen"))
        check_hosts(&l);
    if (value_of(&l, "task"))
        check_task(&l);
    return true;
}

void doctor_config(doctor *d, const config_kind *k, const char *path)
{
    settings s;
    const look l = { d, k, &s };
    if (doctor_settings(d, k, &s, path)) {
        if (value_of(&l, "memory_lock"))
            check_memory(d, value_of(&l, "memory_lock"));
        if (value_of(&l, "listen"))
            check_port(d, value_of(&l, "listen"));
        if (value_of(&l, "csp"))
            check_peer(d, "csp", value_of(&l, "csp"));
        if (value_of(&l, "server"))
            check_peer(d, "server", value_of(&l, "server"));
    }
    settings_clear(&s);
}
