/* config_kind: the kinds of settings files, each with its schema table and its own check.
 *
 *     const config_kind *k = config_kind_of("fed/csp/csp.yml");  // or config_kind_find("csp")
 *     SEFL_TRY(config_kind_read(k, &s, path));                   // checks each key with the schema
 *     SEFL_TRY(config_kind_check(k, &s, path));                  // checks them together
 *     SEFL_TRY(config_kind_write(&out, k, false));               // a new file with every key
 *
 * Threads: any; the kinds are constants.   Secrets: none. */
#ifndef CLI_FULL_CONFIG_KIND_H
#define CLI_FULL_CONFIG_KIND_H

#include "base/buf.h"
#include "config/settings.h"

typedef struct config_kind {
    const char *name;   /* "aggregator" */
    const char *file;   /* usual file name: "aggregator.yml" */
    const char *about;  /* description in one line */
    const char *active; /* keys that a new file sets, besides those without a default (example.h) */
    const char *unit;   /* the same for a file that the systemd unit reads; NULL: it reads none */
    const setting_def *schema;               /* NULL: experiment_schema() */
    sefl_status (*check)(const settings *s); /* checks rules across keys, as the role does */
} config_kind;

#define CONFIG_KIND_WORDS "experiment aggregator csp client policy task"
/* The option --for KIND, for a struct with the member `kind`. */
#define CONFIG_KIND_OPTION(type)                                                                 \
    {                                                                                            \
        "for", SETTING_WORD, "", CONFIG_KIND_WORDS, SETTING_TO(type, kind),                      \
            .help = "Kind of file; by default, its name decides (csp.yml, ...), else experiment" \
    }

/* All kinds. Ends with a NULL name; the first is the default. */
extern const config_kind config_kinds[];

const setting_def *config_kind_schema(const config_kind *k);
const config_kind *config_kind_find(const char *name); /* NULL: unknown name */
/* Returns the kind whose usual file name ends the path, or the first kind. */
const config_kind *config_kind_of(const char *path);

/* After a failure: if the file name does not determine the kind, adds to the message that the kind
 * is a guess. Returns st. */
sefl_status config_kind_guessed(sefl_status st, const char *path);

/* After a failure to read a file with this schema: if the file name belongs to another kind, adds a
 * note about it to the message. Returns st. */
sefl_status config_kind_other(sefl_status st, const char *path, const setting_def *schema);

/* Reads the file; SEFL_EINVAL with the file, line and column of an error. Initialises s; the caller
 * clears it even after a failure. */
sefl_status config_kind_read(const config_kind *k, settings *s, const char *path) SEFL_MUST_CHECK;
/* Checks the rules across keys; the message shows the line and column of the key it names. */
sefl_status config_kind_check(const config_kind *k, const settings *s,
                              const char *path) SEFL_MUST_CHECK;

/* unit: the file is for the systemd unit, which passes the keys as options. SEFL_EINVAL if the kind
 * has no unit. */
sefl_status config_kind_write(sefl_buf *out, const config_kind *k, bool unit) SEFL_MUST_CHECK;

#endif
