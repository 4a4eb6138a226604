/* config_kind: the files that people write, each with its schema table and its own check.
 *
 *     const config_kind *k = config_kind_of("fed/csp/csp.yml");  // or config_kind_find("csp")
 *     SEFL_TRY(config_kind_read(k, &s, path));                   // each key alone, by the schema
 *     SEFL_TRY(config_kind_check(k, &s, path));                  // do they fit together?
 *     SEFL_TRY(config_kind_write(&out, k));                      // a new file, every key in it
 *
 * Threads: values.   Secrets: none. */
#ifndef CLI_FULL_CONFIG_KIND_H
#define CLI_FULL_CONFIG_KIND_H

#include "base/buf.h"
#include "config/settings.h"

typedef struct config_kind {
    const char *name;   /* "aggregator" */
    const char *file;   /* its usual name: "aggregator.yml" */
    const char *about;  /* one line */
    const char *active; /* keys that a new file sets (example.h); those without default too */
    const setting_def *schema;               /* NULL: experiment_schema() */
    sefl_status (*check)(const settings *s); /* rules over several keys, as the run checks them */
} config_kind;

#define CONFIG_KIND_WORDS "experiment aggregator csp client policy task"
/* --for KIND, for a struct with the member kind. */
#define CONFIG_KIND_OPTION(type)                                                      \
    {                                                                                 \
        "for", SETTING_WORD, "", CONFIG_KIND_WORDS, SETTING_TO(type, kind),           \
            .help = "Kind of the file, where its name (csp.yml, ...) does not tell; " \
                    "otherwise it is an experiment"                                   \
    }

/* Ends with a NULL name. The first is the usual one. */
extern const config_kind config_kinds[];

const setting_def *config_kind_schema(const config_kind *k);
const config_kind *config_kind_find(const char *name); /* NULL: none */
/* The kind whose file name the path ends in; the first one otherwise. */
const config_kind *config_kind_of(const char *path);

/* After a failure: adds that the kind was a guess, if the file's name tells none. Returns st. */
sefl_status config_kind_guessed(sefl_status st, const char *path);

/* After a failure to read a file with this schema: adds that the file's name tells another kind, if
 * it does. Returns st. */
sefl_status config_kind_other(sefl_status st, const char *path, const setting_def *schema);

/* SEFL_EINVAL with file, line and column. Initialises s; the caller clears it in any case. */
sefl_status config_kind_read(const config_kind *k, settings *s, const char *path) SEFL_MUST_CHECK;
/* The rules over several keys; the error has line and column of the key that it names. */
sefl_status config_kind_check(const config_kind *k, const settings *s,
                              const char *path) SEFL_MUST_CHECK;

sefl_status config_kind_write(sefl_buf *out, const config_kind *k) SEFL_MUST_CHECK;

#endif
