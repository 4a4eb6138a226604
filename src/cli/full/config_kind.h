/* config_kind: the files that people write, each with its schema table, its paths and its own check.
 *
 *     const config_kind *k = config_kind_of("fed/csp/csp.yml");    // by its name; or config_kind_find("csp")
 *     SEFL_TRY(config_kind_read(k, &s, path));                      // schema, then what fits together
 *     SEFL_TRY(config_kind_write(&out, k));                         // every key, with its comment
 *
 * What config_kind_write makes comes from the tables alone: a key that is added there is in it. Lines
 * "# text" are prose, lines "#key: value" are settings at their default: without the # they are read.
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
    const setting_def *(*schema)(void);
    /* What a schema cannot say. */
    sefl_status (*check)(settings *s);
} config_kind;

/* Ends with a NULL name. The first is the usual one. */
extern const config_kind config_kinds[];

const config_kind *config_kind_find(const char *name); /* NULL: none */
/* The kind whose file name the path ends in; the first one otherwise. */
const config_kind *config_kind_of(const char *path);

/* After a failure to read a file whose kind was guessed from its name: where the name tells none, the
 * sentence says as what it was read. Returns st. */
sefl_status config_kind_guessed(sefl_status st, const char *path);

/* After a failure to read a file with this schema: where the name tells that it is of another kind, the
 * sentence says so. Returns st. */
sefl_status config_kind_other(sefl_status st, const char *path, const setting_def *schema);

/* SEFL_EINVAL with file, line and column. s is initialised here, the caller clears it in any case. */
sefl_status config_kind_read(const config_kind *k, settings *s, const char *path) SEFL_MUST_CHECK;
/* "folder of the path" into out (PATH_MAX bytes). */
void config_kind_folder(char *out, const char *path);

sefl_status config_kind_write(sefl_buf *out, const config_kind *k) SEFL_MUST_CHECK;

#endif
