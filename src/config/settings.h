/* settings: what a run is told, as one list of key=value, whoever wrote it.
 *
 * The command line (`--set key=value`, `--set-file FILE` with one key=value a line) and, where it
 * is built in, the YAML reader all produce this list; one schema table says which keys exist, what
 * they may hold and what they default to. So every flavour of the program takes the same settings,
 * and every error names where the offending key was written:
 *
 *     static const setting_def schema[] = {
 *         { "model.block", SETTING_U64, "32", .min = 1, .max = 4096, .help = "Hankel block size" },
 *         { "model.kind", SETTING_WORD, "lstm", .words = "lstm transformer", .help = "..." },
 *         { 0 }
 *     };
 *     settings s;
 *     settings_init(&s, schema);
 *     SEFL_TRY(settings_set(&s, "model.block=16", "--set"));
 *     uint64_t block = settings_u64(&s, "model.block");
 *
 *     run.txt:3: unknown setting "model.blok"; did you mean "model.block"?
 *     --set: model.block wants a whole number from 1 to 4096, not "x"
 *
 * A later value replaces an earlier one. Numbers with a fraction stay decimal text
 * (SETTING_DECIMAL): whoever needs exactness parses it exactly.
 * Threads: one owner while it is filled, then shared.   Secrets: none belong here. */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include "base/span.h"

#include <stdbool.h>

typedef enum setting_type {
    SETTING_TEXT,    /* anything without control characters, up to 4096 bytes */
    SETTING_PATH,    /* such a text that names a file or folder (places.h) */
    SETTING_WORD,    /* one of `words` */
    SETTING_BOOL,    /* true or false */
    SETTING_U64,     /* whole number in [min, max] */
    SETTING_DECIMAL, /* [-]digits[.digits][e[+-]digits], at most 40 characters, in [min, max] */
} setting_type;

typedef struct setting_def {
    const char *key;
    setting_type type;
    const char *fallback; /* value when nobody says anything; NULL: must be given */
    const char *words;    /* SETTING_WORD: the choices, separated by spaces */
    uint64_t min, max;    /* numbers; max 0 means no upper limit */
    const char *help;
} setting_def;

enum { SETTINGS_MAX = 256 };

typedef struct settings {
    const setting_def *schema; /* ends with a NULL key */
    size_t count;
    char *value[SETTINGS_MAX]; /* NULL: fallback */
    char *origin[SETTINGS_MAX];
} settings;

/* Borrows the schema. At most SETTINGS_MAX keys. */
void settings_init(settings *s, const setting_def *schema);

/* "key=value"; white space around both is dropped. origin ("--set", "run.yml:3:5") goes into error
 * sentences. SEFL_EINVAL says what was wrong; then nothing changes. */
sefl_status settings_set(settings *s, const char *assignment, const char *origin) SEFL_MUST_CHECK;
sefl_status settings_set_pair(settings *s, sefl_span key, sefl_span value,
                              const char *origin) SEFL_MUST_CHECK;

/* A file of assignments, one a line; empty lines and lines that begin with # are skipped. */
sefl_status settings_set_file(settings *s, const char *path) SEFL_MUST_CHECK;

/* SEFL_EINVAL names every key that must be given and was not. */
sefl_status settings_complete(const settings *s) SEFL_MUST_CHECK;

/* Values by key; the key and its type must be in the schema (a broken call is an assert). */
const char *settings_text(const settings *s, const char *key);
uint64_t settings_u64(const settings *s, const char *key);
bool settings_bool(const settings *s, const char *key);
bool settings_given(const settings *s, const char *key);
/* Has it a fallback? */
bool settings_may_lack(const settings *s, const char *key);

void settings_clear(settings *s);

#endif
