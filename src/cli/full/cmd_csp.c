/* sefl csp: the cryptography service provider of a federation. */
#include "cli/cli.h"
#include "cli/full/confine.h"
#include "cli/full/signals.h"
#include "cli/full/unlock.h"

#include "base/alloc.h"
#include "base/file.h"
#include "config/yaml/yaml.h"
#include "crypto/ahe/keyfile.h"
#include "roles/csp.h"

#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { O_CONFIG = 'c', O_STAY = 256, O_SETTING, NAME_MAX_BYTES = 48, OPTIONS_MAX = 40 };

typedef struct session {
    const char *file; /* csp.yml */
    char folder[PATH_MAX];
    sefl_log log;
    sefl_clock wall;
    _Atomic(csp_role *) role; /* NULL: not yet */
    const char *user;         /* to become; NULL: nobody else */
    atomic_bool ended;
    /* flags as they were given, to be set again over a file that is read again */
    size_t flags;
    const char *flag_key[SETTINGS_MAX];
    char *flag_value[SETTINGS_MAX];
} session;

/* ---- settings -------------------------------------------------------------------------------- */

/* tls.cert is --tls-cert, sign_key is --sign-key. */
static void flag_name(char out[NAME_MAX_BYTES], const char *key)
{
    snprintf(out, NAME_MAX_BYTES, "%s", key);
    for (char *p = out; *p; p++)
        if (*p == '.' || *p == '_')
            *p = '-';
}

static sefl_status keep_flag(session *s, const char *key, const char *value)
{
    sefl_status st = SEFL_OK;
    char here[PATH_MAX] = "", *copy = NULL;
    size_t n = strlen(value) + PATH_MAX + 2;
    bool relative = csp_setting_is_path(key) && *value && *value != '/';
    SEFL_CHECK(s->flags < SETTINGS_MAX, SEFL_EINVAL, "too many options");
    SEFL_TRY(sefl_new(&copy, n, 1));
    SEFL_CHECK(!relative || getcwd(here, sizeof here), SEFL_EIO, "no working folder");
    snprintf(copy, n, "%s%s%s", here, relative ? "/" : "", value);
    s->flag_key[s->flags] = key;
    s->flag_value[s->flags++] = copy;
    copy = NULL;
done:
    sefl_free(copy);
    return st;
}

static sefl_status read_settings(const session *s, settings *out)
{
    sefl_status st = SEFL_OK;
    char name[NAME_MAX_BYTES], origin[NAME_MAX_BYTES + 4];
    settings_init(out, csp_schema);
    if (s->file)
        SEFL_TRY(yaml_read(out, s->file));
    for (size_t i = 0; i < s->flags; i++) {
        flag_name(name, s->flag_key[i]);
        snprintf(origin, sizeof origin, "--%s", name);
        SEFL_TRY(settings_set_pair(out, span_of_str(s->flag_key[i]), span_of_str(s->flag_value[i]),
                                   origin));
    }
done:
    return st;
}

static sefl_status find_folder(session *s)
{
    const char *slash = s->file ? strrchr(s->file, '/') : NULL;
    size_t n = slash ? (size_t)(slash - s->file) : 0;
    if (n >= sizeof s->folder)
        return sefl_fail(SEFL_EINVAL, "%.64s...: the path is too long", s->file);
    snprintf(s->folder, sizeof s->folder, "%.*s", (int)n, s->file ? s->file : "");
    if (slash && slash == s->file)
        snprintf(s->folder, sizeof s->folder, "/.");
    return SEFL_OK;
}

/* ---- work -------------------------------------------------------------------------------------- */

/* The secret key, opened with key_lock, passphrase_file or what is typed. */
static sefl_status open_key(session *s, const csp_settings *c, paillier_sec **out)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    keyfile_info info;
    cli_unlock unlock = { .passphrase_file = c->passphrase_file, .key_file = c->key_lock };
    bool locked = true;
    SEFL_TRY(file_read(&file, c->key, KEYFILE_BYTES_MAX));
    SEFL_TRY(keyfile_info_read(&info, buf_span(&file)));
    SEFL_CHECK(info.secret, SEFL_EINVAL, "it is a public key; CSP needs the secret one");
    SEFL_TRY(cli_unlock_get(&unlock, info.by));
    SEFL_TRY(keyfile_sec_read(out, buf_span(&file), &unlock.lock, &locked));
    if (!locked)
        log_warn(&s->log, "the key cannot be locked in memory (ulimit -l)");
done:
    cli_unlock_clear(&unlock);
    buf_clear(&file);
    return st == SEFL_OK ? st : sefl_fail_at(st, "%s", c->key);
}

static void on_signal(void *ctx, int sig)
{
    session *s = ctx;
    settings set;
    csp_role *role = s->role;
    if (sig != SIGHUP)
        s->ended = true;
    if (sig != SIGHUP && role)
        csp_role_stop(role);
    if (sig != SIGHUP || !role)
        return;
    if (read_settings(s, &set) == SEFL_OK)
        (void)!log_level_parse(&s->log.level, settings_text(&set, "log"));
    else
        log_error(&s->log, "settings not read again", lf_str("why", sefl_last_error()));
    settings_clear(&set);
    csp_role_reload(role);
}

static sefl_status on_bound(void *ctx)
{
    const session *s = ctx;
    return confine_user(s->user);
}

static sefl_status work(session *s)
{
    sefl_status st = SEFL_OK;
    settings set;
    csp_settings cfg = { 0 };
    signals *sigs = NULL;
    paillier_sec *sec = NULL;
    csp_role *role = NULL;
    SEFL_TRY(read_settings(s, &set));
    SEFL_TRY(find_folder(s));
    SEFL_TRY(csp_settings_make(&cfg, &set, s->folder));
    s->wall = clock_wall();
    s->log = log_open(2, cfg.level, &s->wall);
    SEFL_TRY(open_key(s, &cfg, &sec));
    s->user = cfg.user;
    confine_warn(&s->log, cfg.user);
    SEFL_TRY(signals_start(&sigs, on_signal, s));
    SEFL_TRY(csp_role_new(
        &role, &(csp_role_options){
                   .settings = &cfg, .sec = sec, .log = &s->log, .ctx = s, .bound = on_bound }));
    s->role = role;
    if (s->ended) /* a signal came meanwhile */
        csp_role_stop(role);
    if (!csp_role_task(role)->claim)
        log_warn(&s->log, "no differential privacy claimed by this task");
    SEFL_TRY(csp_role_run(role));
done:
    signals_end(sigs);
    csp_role_free(role);
    paillier_sec_free(sec);
    csp_settings_clear(&cfg);
    settings_clear(&set);
    return st;
}

static int run(int argc, char **argv)
{
    static char names[OPTIONS_MAX][NAME_MAX_BYTES];
    struct option longopts[OPTIONS_MAX] = {
        { "config", required_argument, NULL, O_CONFIG },
        { "stay", no_argument, NULL, O_STAY },
    };
    session s = { 0 };
    sefl_status st = SEFL_OK;
    int rc = CLI_DONE, n = 2;
    for (int i = 0; csp_schema[i].key && n + 1 < OPTIONS_MAX; i++)
        if (strcmp(csp_schema[i].key, "stay") != 0) {
            flag_name(names[n], csp_schema[i].key);
            longopts[n] = (struct option){ names[n], required_argument, NULL, O_SETTING + i };
            n++;
        }
    opterr = 0;
    optind = 1;
    for (int c; rc == CLI_DONE && st == SEFL_OK &&
                (c = getopt_long(argc, argv, ":c:", longopts, NULL)) != -1;) {
        if (c == O_CONFIG)
            s.file = optarg;
        else if (c == O_STAY)
            st = keep_flag(&s, "stay", "true");
        else if (c >= O_SETTING)
            st = keep_flag(&s, csp_schema[c - O_SETTING].key, optarg);
        else
            rc = cli_bad_option(&cmd_csp, argc, argv, c, longopts);
    }
    if (rc == CLI_DONE && st == SEFL_OK && optind < argc)
        rc = cli_misuse(&cmd_csp, "it does not take \"%.64s\"", argv[optind]);
    else if (rc == CLI_DONE && st == SEFL_OK && !s.file && s.flags == 0)
        rc = cli_misuse(&cmd_csp, "which one? give -c csp.yml");
    if (rc == CLI_DONE && st == SEFL_OK) {
        confine_start();
        st = work(&s);
    }
    if (st != SEFL_OK)
        rc = cli_failed(&cmd_csp, st);
    for (size_t i = 0; i < s.flags; i++)
        sefl_free(s.flag_value[i]);
    return rc;
}

const cli_command cmd_csp = {
    .name = "csp",
    .summary = "run the cryptography service provider of a federation",
    .usage = "-c csp.yml [--stay] [options]",
    .details =
        "Holds the secret key, waits for the aggregation server (mutual TLS) and opens each round\n"
        "of the task once: never below the threshold, past the budget or while the two ledgers\n"
        "disagree. Ends with 0 when the task is over. SIGTERM stops in good order; started again,\n"
        "it goes on. SIGHUP reads certificates and log level again.\n"
        "  -c, --config FILE     csp.yml; its relative paths count from its folder\n"
        "  --stay                serve on when the task is over\n"
        "Each setting of the file is an option too, which comes first:\n"
        "  --listen ADDR:PORT    port 0: the system chooses\n"
        "  --tls-cert F, --tls-key F, --tls-peers F\n"
        "                        certificate, its key, the aggregation server's CA\n"
        "  --ca DIR              folder of 'sefl ca new': its trust list says who gets in\n"
        "  --sign-key F          this server's signing key\n"
        "  --key F               the sealed secret key; --key-lock F (a key file) or\n"
        "                        --passphrase-file F opens it, else the terminal is asked\n"
        "  --task F              the task, signed by both servers\n"
        "  --state DIR           journal\n"
        "  --ledger F            the population's privacy ledger\n"
        "  --threads N           0 (default): one a core\n"
        "  --user NAME           root becomes NAME when the port is bound\n"
        "  --ready-file F        written when it serves: host:port\n"
        "  --log LEVEL           debug, info (default), warn, error, off",
    .example = "sefl csp -c csp/csp.yml",
    .run = run,
};
