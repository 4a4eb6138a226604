/* role_settings: the settings of a long-running role: a YAML file, and options of the same names
 * that override it (tls.cert is --tls-cert, sign_key is --sign-key).
 *
 *     role_settings rs = { .command = &cmd_client, .schema = client_schema, .extra = "once" };
 *     int rc = role_settings_parse(&rs, argc, argv);           // CLI_DONE: go on
 *     SEFL_TRY(role_settings_read(&rs, &settings));             // again after SIGHUP
 *     role_settings_clear(&rs);
 *
 * Relative paths in the file count from its folder, in options from the working folder. Settings of
 * type SETTING_FLAG are options without a value; `extra` is one more such option that is no setting.
 * Threads: read-only once parsed.   Secrets: none belong here. */
#ifndef CLI_FULL_ROLE_SETTINGS_H
#define CLI_FULL_ROLE_SETTINGS_H

#include "base/log.h"
#include "cli/cli.h"
#include "config/settings.h"

typedef struct role_settings {
    const cli_command *command;
    const setting_def *schema;
    const char *extra; /* NULL: none */

    bool extra_given;
    const char *file; /* NULL: options alone */
    settings flags;   /* what the options say */
} role_settings;

/* CLI_MISUSE or CLI_FAILED after it has said why. */
int role_settings_parse(role_settings *rs, int argc, char **argv);
sefl_status role_settings_read(const role_settings *rs, settings *out) SEFL_MUST_CHECK;
/* The log level of what was read; one that nobody has chosen is at least `least`. */
log_level role_settings_level(const settings *s, log_level least);
/* After SIGHUP: reads the level again. A file that cannot be read is said to the log. */
void role_settings_relog(const role_settings *rs, sefl_log *log, log_level least);
void role_settings_clear(role_settings *rs);

#endif
