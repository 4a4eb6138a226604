#include "cli/full/role_settings.h"

#include "cli/full/config_kind.h"
#include "config/yaml/yaml.h"

#include <getopt.h>
#include <stdio.h>

enum { O_CONFIG = 'c', O_EXTRA = 256, O_SETTING, OPTIONS_MAX = 64 };

static sefl_status take(role_settings *rs, const setting_def *d, const char *value)
{
    char name[SETTING_OPTION_BYTES], origin[SETTING_OPTION_BYTES + 2];
    setting_option(name, d->key);
    snprintf(origin, sizeof origin, "--%s", name);
    return settings_set_pair(&rs->flags, span_of_str(d->key), span_of_str(value), origin);
}

int role_settings_parse(role_settings *rs, int argc, char **argv)
{
    char names[OPTIONS_MAX][SETTING_OPTION_BYTES];
    struct option longopts[OPTIONS_MAX] = { { "config", required_argument, NULL, O_CONFIG } };
    sefl_status st = SEFL_OK;
    int rc = CLI_DONE, n = 1;
    bool any = false;
    settings_init(&rs->flags, rs->schema);
    for (int i = 0; rs->schema[i].key && n + 2 < OPTIONS_MAX; i++, n++) {
        bool word = rs->schema[i].type != SETTING_FLAG;
        setting_option(names[n], rs->schema[i].key);
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
            st = take(rs, &rs->schema[c - O_SETTING], optarg ? optarg : "true"), any = true;
        else
            rc = cli_bad_option(rs->command, argc, argv, c, longopts);
    }
    if (rc == CLI_DONE && st == SEFL_OK && optind < argc)
        rc = cli_misuse(rs->command, "it does not take \"%.64s\"", argv[optind]);
    else if (rc == CLI_DONE && st == SEFL_OK && !rs->file && !any)
        rc = cli_misuse(rs->command, "which one? give -c %s.yml", rs->command->name);
    return st == SEFL_OK ? rc : cli_failed(rs->command, st);
}

sefl_status role_settings_read(const role_settings *rs, settings *out)
{
    sefl_status st = SEFL_OK;
    settings_init(out, rs->schema);
    if (rs->file)
        SEFL_TRY(config_kind_other(yaml_read(out, rs->file), rs->file, rs->schema));
    SEFL_TRY(settings_overlay(out, &rs->flags));
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
    settings_clear(&rs->flags);
}
