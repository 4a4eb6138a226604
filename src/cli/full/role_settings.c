#include "cli/full/role_settings.h"

#include "base/alloc.h"
#include "cli/full/config_kind.h"
#include "config/yaml/yaml.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { O_CONFIG = 'c', O_EXTRA = 256, O_SETTING, NAME_BYTES = 48, OPTIONS_MAX = 64 };

static void option_name(char out[NAME_BYTES], const char *key)
{
    snprintf(out, NAME_BYTES, "%s", key);
    for (char *p = out; *p; p++)
        if (*p == '.' || *p == '_')
            *p = '-';
}

static sefl_status keep(role_settings *rs, const setting_def *d, const char *value)
{
    sefl_status st = SEFL_OK;
    char here[PATH_MAX] = "", *copy = NULL;
    bool relative = d->type == SETTING_PATH && *value && *value != '/';
    size_t n = strlen(value) + PATH_MAX + 2;
    SEFL_CHECK(rs->flags < SETTINGS_MAX, SEFL_EINVAL, "too many options");
    SEFL_TRY(sefl_new(&copy, n, 1));
    SEFL_CHECK(!relative || getcwd(here, sizeof here), SEFL_EIO, "no working folder");
    snprintf(copy, n, "%s%s%s", here, relative ? "/" : "", value);
    rs->key[rs->flags] = d->key;
    rs->value[rs->flags++] = copy;
    copy = NULL;
done:
    sefl_free(copy);
    return st;
}

static sefl_status find_folder(role_settings *rs)
{
    const char *slash = rs->file ? strrchr(rs->file, '/') : NULL;
    size_t n = slash ? (size_t)(slash - rs->file) : 0;
    if (n >= sizeof rs->folder)
        return sefl_fail(SEFL_EINVAL, "%.64s...: the path is too long", rs->file);
    snprintf(rs->folder, sizeof rs->folder, "%.*s", (int)n, rs->file ? rs->file : "");
    if (slash && slash == rs->file)
        snprintf(rs->folder, sizeof rs->folder, "/.");
    return SEFL_OK;
}

int role_settings_parse(role_settings *rs, int argc, char **argv)
{
    char names[OPTIONS_MAX][NAME_BYTES];
    struct option longopts[OPTIONS_MAX] = { { "config", required_argument, NULL, O_CONFIG } };
    sefl_status st = SEFL_OK;
    int rc = CLI_DONE, n = 1;
    for (int i = 0; rs->schema[i].key && n + 2 < OPTIONS_MAX; i++, n++) {
        bool word = rs->schema[i].type != SETTING_BOOL;
        option_name(names[n], rs->schema[i].key);
        longopts[n] = (struct option){ names[n], word ? required_argument : no_argument, NULL,
                                       O_SETTING + i };
    }
    if (rs->extra)
        longopts[n] = (struct option){ rs->extra, no_argument, NULL, O_EXTRA };
    opterr = 0;
    optind = 1;
    for (int c; rc == CLI_DONE && st == SEFL_OK &&
                (c = getopt_long(argc, argv, ":c:", longopts, NULL)) != -1;) {
        if (c == O_CONFIG)
            rs->file = optarg;
        else if (c == O_EXTRA)
            rs->extra_given = true;
        else if (c >= O_SETTING)
            st = keep(rs, &rs->schema[c - O_SETTING], optarg ? optarg : "true");
        else
            rc = cli_bad_option(rs->command, argc, argv, c, longopts);
    }
    if (rc == CLI_DONE && st == SEFL_OK && optind < argc)
        rc = cli_misuse(rs->command, "it does not take \"%.64s\"", argv[optind]);
    else if (rc == CLI_DONE && st == SEFL_OK && !rs->file && rs->flags == 0)
        rc = cli_misuse(rs->command, "which one? give -c %s.yml", rs->command->name);
    if (rc == CLI_DONE && st == SEFL_OK)
        st = find_folder(rs);
    return st == SEFL_OK ? rc : cli_failed(rs->command, st);
}

sefl_status role_settings_read(const role_settings *rs, settings *out)
{
    sefl_status st = SEFL_OK;
    char name[NAME_BYTES], origin[NAME_BYTES + 4];
    settings_init(out, rs->schema);
    if (rs->file)
        SEFL_TRY(config_kind_other(yaml_read(out, rs->file), rs->file, rs->schema));
    for (size_t i = 0; i < rs->flags; i++) {
        option_name(name, rs->key[i]);
        snprintf(origin, sizeof origin, "--%s", name);
        SEFL_TRY(
            settings_set_pair(out, span_of_str(rs->key[i]), span_of_str(rs->value[i]), origin));
    }
done:
    return st;
}

log_level role_settings_level(const settings *s, log_level least)
{
    log_level level = LOG_INFO;
    (void)!log_level_parse(&level, settings_text(s, "log")); /* the schema has checked it */
    return level > least || settings_given(s, "log") ? level : least;
}

void role_settings_relog(const role_settings *rs, sefl_log *log, log_level least)
{
    settings s;
    if (role_settings_read(rs, &s) == SEFL_OK)
        log->level = role_settings_level(&s, least);
    else
        log_error(log, "settings not read again", lf_str("why", sefl_last_error()));
    settings_clear(&s);
}

void role_settings_clear(role_settings *rs)
{
    for (size_t i = 0; i < rs->flags; i++)
        sefl_free(rs->value[i]);
    rs->flags = 0;
}
