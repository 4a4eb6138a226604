/* Checks a role's settings file: what it names must exist and fit together, and only the owner may
 * read its secrets. */
#include "cli/full/doctor.h"

#include "base/alloc.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/full/confine.h"
#include "cli/full/unlock.h"
#include "config/address.h"
#include "crypto/keyfile.h"
#include "crypto/secmem.h"
#include "model/engine/engine.h"
#include "net/socket.h"
#include "net/tls.h"
#include "roles/aggregator/release.h"
#include "roles/ca.h"
#include "roles/client/client_config.h"
#include "roles/client/text.h"
#include "roles/own_cert.h"
#include "roles/own_task.h"
#include "roles/task_queue.h"
#include "store/journal/journal.h"
#include "store/text_ledger.h"
#include "trust/trust.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIAL_MS = 3000 };

/* Returns a key's value; NULL if the kind has no such key or it is empty. */
static const char *value_of(const doctor *d, const char *key)
{
    const char *v = setting_find(d->set.schema, key) ? settings_text(&d->set, key) : "";
    return *v ? v : NULL;
}

static bool is_role(const doctor *d, const char *name)
{
    return strcmp(d->k->name, name) == 0;
}

/* True if the call succeeded; adds a line with the last error if it failed. */
static bool passed(doctor *d, sefl_status st, const char *key, const char *remedy)
{
    if (st != SEFL_OK)
        doctor_add(d, DOCTOR_FAIL, key, remedy, "%s", sefl_last_error());
    return st == SEFL_OK;
}

/* ---- files ------------------------------------------------------------------------------ */

/* True if the ledger is in a store that processes share: the first of them brings it along. */
static bool has_shared_ledger(const doctor *d)
{
    return value_of(d, "store") != NULL;
}

static void check_file(doctor *d, const setting_def *def)
{
    const char *key = def->key, *path = value_of(d, key);
    struct stat sb;
    if (has_shared_ledger(d) && strcmp(key, "ledger") == 0 && !file_exists(path))
        doctor_ok(d, key, "%s: not here yet; the process copies the ledger of the store", path);
    else if (stat(path, &sb) != 0)
        doctor_add(d, DOCTOR_FAIL, key, "put the file there, or change the setting", "%s: %s", path,
                   strerror(errno));
    else if (access(path, R_OK) != 0)
        doctor_add(d, DOCTOR_FAIL, key, "let the user who runs this role read it",
                   "%s cannot be read", path);
    else if (def->secret && (sb.st_mode & 077))
        doctor_add(d, DOCTOR_WARN, key, "run chmod 600", "other users can read %s (mode %03o)",
                   path, (unsigned)(sb.st_mode & 0777));
    else
        doctor_ok(d, key, "%s", path);
}

/* Checks the place of a file or folder that the role creates. */
static void check_created(doctor *d, const setting_def *def)
{
    char parent[PATH_MAX];
    const char *path = value_of(d, def->key);
    const bool folder = def->arg && strcmp(def->arg, "FOLDER") == 0;
    struct stat sb;
    snprintf(parent, sizeof parent, "%s", path);
    if (folder && stat(path, &sb) == 0 && !S_ISDIR(sb.st_mode))
        doctor_add(d, DOCTOR_FAIL, def->key, "name a folder", "%s exists and is not a folder",
                   path);
    else if (!folder && access(dirname(parent), F_OK) != 0)
        doctor_add(d, DOCTOR_FAIL, def->key, "create the folder, or change the setting",
                   "cannot create %s: %s", path, strerror(errno));
}

static void check_files(doctor *d)
{
    for (const setting_def *def = d->set.schema; def->key; def++)
        if (def->type == SETTING_PATH && value_of(d, def->key))
            def->created ? check_created(d, def) : check_file(d, def);
}

/* ---- text ------------------------------------------------------------------------------- */

/* Reads all of the text as the role will, with any word list, to check that it exists and is
 * text. */
static sefl_status read_text(corpus *out, const doctor *d, const char *key, const corpus_file *f)
{
    sefl_status st = SEFL_OK;
    vocab *words = NULL;
    corpus_paths paths = { 0 };
    corpus_file one = *f;
    SEFL_TRY(vocab_new(&words, VOCAB_WORDS));
    SEFL_TRY(vocab_count(words, span_of_str("a")));
    SEFL_TRY(vocab_finish(words, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    if (is_role(d, "client"))
        SEFL_TRY(client_text_read(out, words, f, NULL));
    else if (strcmp(key, "valid") == 0)
        SEFL_TRY(corpus_read(out, words, f, NULL));
    else {
        SEFL_TRY(corpus_paths_find(&paths, f->path));
        for (int i = CORPUS_SPLITS;
             i-- > 0;) { /* the training text last: check_text prints its counts */
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

static void check_text(doctor *d, const char *key)
{
    corpus c = { 0 };
    corpus_file f = { .path = value_of(d, key), .field = value_of(d, "text_field") };
    if (!f.path || !file_exists(f.path))
        return; /* check_files has reported it */
    if (setting_find(d->set.schema, "text_format"))
        f.format = (corpus_format)settings_choice(&d->set, "text_format");
    if (passed(d, read_text(&c, d, key, &f), key,
               "put text there: UTF-8, in .txt, .tokens, .jsonl, .ndjson or .csv files"))
        doctor_ok(d, key, "%zu words in %zu lines, all UTF-8", c.tokens - c.lines, c.lines);
    corpus_clear(&c);
}

/* Opens the GPU as a client will, with any model. */
static void check_device(doctor *d)
{
    engine *e = NULL;
    const lm_config model = { .vocab = 16 };
    if (strcmp(value_of(d, "device"), "cpu") == 0)
        return;
    if (passed(d,
               engine_new(&e, &(engine_config){ .device = value_of(d, "device"),
                                                .precision = value_of(d, "precision"),
                                                .model = &model }),
               "device", "set device: auto, which uses a GPU if there is one"))
        doctor_ok(d, "device", "%s", engine_name(e));
    engine_free(e);
}

/* Checks the grammar of a shell command without running it. */
static void check_trainer(doctor *d, const char *command)
{
    const char *path = getenv("PATH");
    sefl_buf text = { 0 }, search = { 0 };
    if (wr_fmt(&text, "TRAINER=%s%c", command, 0) == SEFL_OK &&
        wr_fmt(&search, "PATH=%s%c", path ? path : "/usr/bin:/bin", 0) == SEFL_OK) {
        const char *env[] = { (const char *)text.p, (const char *)search.p, NULL };
        sefl_status st = child_run(&(child_job){ .command = "printf '%s\\n' \"$TRAINER\" | sh -n",
                                                 .environment = env,
                                                 .timeout_ms = 5000 });
        if (passed(d, st, "trainer", "correct the command: it is for sh"))
            doctor_ok(d, "trainer", "%s", command);
    }
    buf_clear(&text);
    buf_clear(&search);
}

/* Connects to the database that processes share. */
static void check_store(doctor *d)
{
    const char *url = value_of(d, "store");
    if (url && passed(d, journal_reach_store(url), "store",
                      "start the server, or correct the URL (docs/OPERATING.md)"))
        doctor_ok(d, "store", "the server answers, and keeps what it acknowledges");
}

/* Checks that a client's ledger belongs to its text. */
static void check_ledger(doctor *d)
{
    const char *path = value_of(d, "ledger"), *text = value_of(d, "text");
    if (path && text && file_exists(path) && file_exists(text))
        passed(d, text_ledger_check(path, text), "ledger", "docs/PRIVACY.md: one text, one ledger");
}

/* ---- the task --------------------------------------------------------------------------- */

/* Checks that a server's ledger belongs to the task's population. */
static void check_population(doctor *d, const task *t)
{
    ledger *book = NULL;
    const char *path = value_of(d, "ledger"), *remedy = "name the ledger of this population";
    if (has_shared_ledger(d) && !file_exists(path))
        return;
    if (passed(d, ledger_open_read(&book, path), "ledger", remedy) &&
        strcmp(ledger_population(book), t->population) != 0)
        doctor_add(d, DOCTOR_FAIL, "ledger", remedy,
                   "%s is the ledger of \"%s\", the task's population is \"%s\"", path,
                   ledger_population(book), t->population);
    ledger_close(book);
}

/* Opens CSP's key with the lock that the settings name. Without one CSP asks for a passphrase. */
static void check_lock(doctor *d, const task *t)
{
    csp_settings c;
    csp_key key = { 0 };
    if (csp_settings_make(&c, &d->set) == SEFL_OK && (c.key_lock || c.passphrase_file) &&
        passed(d, cli_unlock_csp(&key, &c), c.key_lock ? "key_lock" : "passphrase_file",
               "name the file that 'sefl key new' locked this key with") &&
        t->pub && !paillier_pub_equal(paillier_sec_pub(key.sec), t->pub))
        doctor_add(d, DOCTOR_FAIL, "key", "name the key that the task was created with",
                   "the task's public key does not belong to %s", c.key);
    csp_key_clear(&key);
}

/* The task decides which kind of key CSP needs and whether it needs a list of clients. */
static void check_csp_key(doctor *d, const task *t)
{
    sefl_buf file = { 0 };
    keyfile_info info = { 0 };
    const char *path = value_of(d, "key");
    const char *remedy = "name the file that 'sefl key new' wrote for this task";
    sefl_status st = file_read(&file, path, KEYFILE_BYTES_MAX);
    if (st == SEFL_OK)
        st = keyfile_info_read(&info, buf_span(&file));
    if (!passed(d, st, "key", remedy))
        ;
    else if (!info.secret || (info.kind == KEYFILE_ROOT) != (t->pub == NULL))
        doctor_add(d, DOCTOR_FAIL, "key", remedy, "%s: this task needs %s", path,
                   t->pub ? "the secret key of a Paillier pair" : "a root ('sefl key new')");
    else
        check_lock(d, t);
    if (!value_of(d, "ca"))
        doctor_add(d, task_is_sealed(t) ? DOCTOR_FAIL : DOCTOR_WARN, "ca",
                   "name the folder of 'sefl ca new'",
                   task_is_sealed(t) ? "not set: CSP knows no clients and refuses a pad task"
                                     : "not set: certificates cannot be revoked");
    buf_clear(&file);
}

static void check_released(doctor *d, const task *t, const release_files *f)
{
    const char *const keys[] = { "init", "vocab", "valid" };
    const char *const paths[] = { f->init, f->vocab, f->valid };
    vocab *words = NULL;
    corpus valid = { 0 };
    const char *wrong = value_of(d, "task") ? "task" : "tasks";
    sefl_status st = releases_check(&(releases_config){ .task = t, .files = *f }, &words, &valid);
    for (size_t i = 0; i < 3 && st != SEFL_OK; i++) /* the file that the message names */
        if (value_of(d, "task") && paths[i] && strstr(sefl_last_error(), paths[i]))
            wrong = keys[i];
    passed(d, st, wrong, "name the files that the task was created from");
    corpus_clear(&valid);
    vocab_free(words);
}

/* Reads a task as the server does: signatures, own key, and the files whose hashes it contains,
 * which are in `folder` or, if that is NULL, in the settings. */
static void check_task(doctor *d, const sign_key *key, const char *path, const char *folder)
{
    task t = { 0 };
    sefl_buf bytes = { 0 };
    char at[3][PATH_MAX] = { { 0 } };
    const bool is_csp = is_role(d, "csp");
    release_files f = { .init = value_of(d, "init"),
                        .vocab = value_of(d, "vocab"),
                        .valid = value_of(d, "valid") };
    if (passed(d, own_task_read(&t, &bytes, path, key, is_csp ? OWN_TASK_CSP : OWN_TASK_AGGREGATOR),
               folder ? "tasks" : "task", "both servers must sign the task: 'sefl task sign'")) {
        if (folder && file_path(at[0], "%s/init.safetensors", folder) == SEFL_OK &&
            file_path(at[1], "%s/vocab.txt", folder) == SEFL_OK &&
            file_path(at[2], "%s/valid.txt", folder) == SEFL_OK)
            f = (release_files){ .init = at[0],
                                 .vocab = t.external ? NULL : at[1],
                                 .valid = t.has_valid ? at[2] : NULL };
        check_population(d, &t);
        is_csp ? check_csp_key(d, &t) : check_released(d, &t, &f);
        if (folder)
            doctor_ok(d, "tasks", "%s: %s", folder, t.name);
    }
    task_clear(&t);
    buf_clear(&bytes);
}

/* Checks every task of the folder; the server leaves the bad ones out. */
static void check_folder(doctor *d, const sign_key *key)
{
    char folder[PATH_MAX], path[PATH_MAX];
    struct stat sb;
    DIR *all = opendir(value_of(d, "tasks"));
    for (struct dirent *e; all && (e = readdir(all)) != NULL;)
        if (e->d_name[0] != '.' &&
            file_path(folder, "%s/%s", value_of(d, "tasks"), e->d_name) == SEFL_OK &&
            stat(folder, &sb) == 0 && S_ISDIR(sb.st_mode) &&
            file_path(path, "%s/%s", folder, TASK_QUEUE_FILE) == SEFL_OK)
            check_task(d, key, path, folder);
    if (all)
        closedir(all);
}

static void check_tasks(doctor *d)
{
    sign_key *key = NULL;
    trust *list = NULL;
    const char *ca = value_of(d, "ca");
    if (passed(d, sign_key_read(&key, value_of(d, "sign_key")), "sign_key",
               "name the file that 'sefl key sign' wrote")) {
        if (ca && ca_read(&list, ca) == SEFL_OK) /* check_named reports a failure */
            passed(d,
                   ca_list_of(list, is_role(d, "csp") ? TRUST_CSP : TRUST_AGGREGATOR,
                              sign_key_pub(key)),
                   "ca", "name the folder of this server's CA");
        value_of(d, "task") ? check_task(d, key, value_of(d, "task"), NULL) : check_folder(d, key);
    }
    trust_free(list);
    sign_key_free(key);
}

/* Checks a client's policy file, a server's trust list and the user to switch to. */
static void check_named(doctor *d)
{
    const char *rules = value_of(d, "policy"), *ca = value_of(d, "ca"), *user = value_of(d, "user");
    policy p;
    trust *list = NULL;
    if (rules)
        passed(d, policy_read(&p, rules, &(pinned){ 0 }), "policy", "correct this file");
    if (ca)
        passed(d, ca_read(&list, ca), "ca", "name the folder of 'sefl ca new'");
    if (user && !getpwnam(user))
        doctor_add(d, DOCTOR_FAIL, "user", "add the user, or change `user`",
                   "there is no user \"%s\"", user);
    trust_free(list);
}

/* ---- certificates ----------------------------------------------------------------------- */

static void check_chain(doctor *d, const tls_id *id)
{
    x509_peer own;
    tls_id_check_own(id, &own, !is_role(d, "client"));
    if (own.code == X509_OK)
        doctor_ok(d, "chain", "issued by a CA of tls.peers");
    else if (own.code != X509_UNKNOWN_ISSUER)
        doctor_add(d, DOCTOR_FAIL, "chain", "peers will refuse it: have a new one issued", "%s",
                   own.why);
    else
        doctor_add(d, is_role(d, "csp") ? DOCTOR_OK : DOCTOR_WARN, "chain",
                   "peers must trust that CA: ask their operators",
                   "issued by a CA that is not in tls.peers; the peers decide whether to trust it");
}

static void check_certificate(doctor *d)
{
    static const char renew[] = "renew it with the same key to keep the identity";
    tls_id *id = NULL;
    sefl_clock c = clock_wall();
    if (!passed(d,
                tls_id_read(&id, value_of(d, "tls.cert"), value_of(d, "tls.key"),
                            value_of(d, "tls.peers")),
                "certificate", "certificate, key and CA must be PEM files that belong together"))
        return;
    const char *name = tls_id_name(id);
    const int64_t ahead =
        is_role(d, "client") ? doctor_clock(d, id, value_of(d, "server"), value_of(d, "proxy")) : 0;
    const int64_t left = tls_id_expires(id) - (int64_t)(clock_ns(&c) / 1000000000u) + ahead;
    const int64_t days = left / 86400;
    if (!is_role(d, tls_id_role(id)))
        doctor_add(d, DOCTOR_FAIL, "certificate",
                   "have it issued for the role: OU \"sefl ROLE\" in the subject",
                   "\"%s\" is for the role \"%s\", but this is the file of a %s", name,
                   tls_id_role(id), d->k->name);
    else if (left <= 0)
        doctor_add(d, DOCTOR_FAIL, "certificate", renew, "\"%s\" expired %" PRId64 " days ago",
                   name, -days);
    else if (days < OWN_CERT_SOON_DAYS)
        doctor_add(d, DOCTOR_WARN, "certificate", renew, "\"%s\" expires in %" PRId64 " days", name,
                   days);
    else
        doctor_ok(d, "certificate", "\"%s\", role %s, %" PRId64 " more days", name, d->k->name,
                  days);
    check_chain(d, id);
    tls_id_free(id);
}

/* A client compares the server's name with the names in the certificate; without any it refuses. */
static void check_hosts(doctor *d)
{
    sefl_buf pem = { 0 }, hosts = { 0 };
    x509_info info;
    if (file_read(&pem, value_of(d, "tls.cert"), X509_CERT_MAX) != SEFL_OK ||
        x509_info_read(&info, buf_span(&pem), NULL) != SEFL_OK)
        ; /* check_certificate has reported it */
    else if (!passed(d, x509_hosts_read(&hosts, buf_span(&pem)), "hosts",
                     "have a new certificate issued"))
        ;
    else if (hosts.n == 0 && strchr(info.name, '.')) /* GnuTLS looks there, others do not */
        doctor_add(d, DOCTOR_WARN, "hosts",
                   "have it issued with the host as a subject alternative name",
                   "the certificate has its host, %s, only in the common name", info.name);
    else if (hosts.n == 0)
        doctor_add(d, DOCTOR_FAIL, "hosts",
                   "have it issued with them: 'sefl ca renew FOLDER --server FILE --hosts NAME'",
                   "the certificate names no host: every client will refuse it");
    else
        doctor_ok(d, "hosts", "the certificate is for %.*s", (int)hosts.n, (const char *)hosts.p);
    buf_clear(&pem);
    buf_clear(&hosts);
}

/* ---- ports and peers -------------------------------------------------------------------- */

static void check_peer(doctor *d, const char *key)
{
    host_port a;
    int fd = -1;
    const char *text = value_of(d, key);
    if (!text)
        return;
    if (address_read(&a, text, 1) == SEFL_OK &&
        socket_dial(&fd, a.host, a.port, socket_now_ms() + DIAL_MS) == SEFL_OK)
        doctor_ok(d, key, "%s can be reached", text);
    else
        doctor_add(d, DOCTOR_WARN, key, "is it running? check name, port and firewalls",
                   "%s cannot be reached from here", text);
    if (fd >= 0)
        close(fd);
}

void doctor_port(doctor *d, const char *name, const char *address, doctor_status bad,
                 const char *remedy)
{
    host_port a;
    int fd = -1;
    uint16_t bound;
    if (address_read(&a, address, 1) != SEFL_OK) /* port 0: the system chooses a free one */
        return;
    if (tls_listen(&fd, a.host, a.port, &bound) == SEFL_OK)
        doctor_ok(d, name, "%s is free", address);
    else
        doctor_add(d, bad, name, remedy, "%s", sefl_last_error());
    if (fd >= 0)
        close(fd);
}

/* The same check that the role makes when it starts. */
static void check_memory(doctor *d, const char *memory_lock)
{
    if (confine_memory(NULL, memory_lock) != SEFL_OK)
        doctor_add(d, DOCTOR_FAIL, "memory_lock",
                   "LimitMEMLOCK=64M in the service's unit, ulimit -l 65536 in a shell; or "
                   "memory_lock: try",
                   "required, but keys cannot be locked in memory: the server will not start");
    secmem_require(false); /* the doctor itself keeps no key */
}

bool doctor_settings(doctor *d, const char *path)
{
    const bool told = d->k;
    const size_t before = d->count[DOCTOR_FAIL];
    if (!told)
        d->k = config_kind_of(path);
    sefl_status st = config_kind_read(d->k, &d->set, path);
    if (st == SEFL_OK)
        check_files(d);
    const bool all_there = d->count[DOCTOR_FAIL] == before;
    if (st == SEFL_OK && all_there)
        st = config_kind_check(d->k, &d->set, path);
    if (!told)
        st = config_kind_guessed(st, path);
    if (!passed(d, st, "settings", "correct the file: 'sefl config keys' lists its keys"))
        return false;
    doctor_ok(d, "settings", "%s", d->k->about);
    if (value_of(d, "trainer"))
        check_trainer(d, value_of(d, "trainer")); /* which may train on anything */
    else
        check_text(d, "text");
    check_text(d, "valid");
    check_text(d, "data.path");
    if (is_role(d, "client") && !value_of(d, "trainer"))
        check_device(d);
    check_ledger(d);
    if (!all_there)
        return true;
    check_named(d);
    if (value_of(d, "tls.cert"))
        check_certificate(d);
    if (value_of(d, "tls.cert") && value_of(d, "listen"))
        check_hosts(d);
    if (value_of(d, "task") || value_of(d, "tasks"))
        check_tasks(d);
    return true;
}

void doctor_config(doctor *d, const char *path)
{
    if (!doctor_settings(d, path))
        return;
    check_store(d);
    if (value_of(d, "memory_lock"))
        check_memory(d, value_of(d, "memory_lock"));
    if (value_of(d, "listen"))
        doctor_port(d, "listen", value_of(d, "listen"), DOCTOR_FAIL,
                    "is the role already running? otherwise free the port or change `listen`");
    check_peer(d, "csp");
    check_peer(d, "server");
}
