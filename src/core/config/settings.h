/* settings: stores a program's settings as key=value pairs and checks them against a schema table.
 *
 * The values come from the command line (options, `--set key=value`, `--set-file FILE`) and, in
 * builds with the YAML reader, from YAML files. The schema describes each setting once: key, type,
 * default, range, help text, and the struct field that receives the value. Parsing, `--help`, `sefl
 * init`, `sefl config` and the tables in docs/ all use this table:
 *
 *     static const setting_def schema[] = {
 *         { "model.block", SETTING_U64, "32", SETTING_TO(run, block), .min = 1, .max = 4096,
 *           .help = "Hankel block size" },
 *         { "state", SETTING_PATH, NULL, SETTING_TO(run, state), .arg = "FOLDER", .help = "..." },
 *         { 0 }
 *     };
 *     settings s;
 *     settings_init(&s, schema);
 *     SEFL_TRY(settings_set(&s, "model.block=16", "--set"));
 *     SEFL_TRY(settings_fill(&s, &run));                     // run.block is 16
 *     uint64_t block = settings_u64(&s, "model.block");      // the same value by key
 *
 *     run.txt:3: unknown setting "model.blok"; did you mean "model.block"?
 *     --set: model.block must be a whole number from 1 to 4096, not "x"
 *
 * A later value replaces an earlier one, except that SETTING_LIST collects all values.
 * Threads: one owner while values are set, then shared.   Secrets: never in settings. */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

/* The valid values of a setting, and the type of the field that settings_fill writes. String fields
 * point into the settings object; an empty string becomes NULL. */
typedef enum setting_type {
    SETTING_TEXT,    /* const char *: no control characters, at most 4096 bytes (`map`: 1 MiB) */
    SETTING_PATH,    /* const char *: a string that names a file or folder (settings_resolve) */
    SETTING_WORD,    /* const char *: one of `words` */
    SETTING_CHOICE,  /* an enum or unsigned: the index of the value in `words`, from 0 */
    SETTING_BOOL,    /* bool: true or false */
    SETTING_FLAG,    /* bool: true or false; its option takes no value; false by default */
    SETTING_U64,     /* an unsigned integer of any size: a whole number in [min, max], or one of
                      * `words` */
    SETTING_DECIMAL, /* const char *: [-]digits[.digits][e[+-]digits], at most 40 characters, in
                      * [min, max]; kept exactly as written */
    SETTING_REAL,    /* double: what SETTING_DECIMAL accepts, rounded to the nearest double */
    SETTING_ADDRESS, /* host_port (config/address.h): host:port, with a port of at least min */
    SETTING_LIST,    /* const char *: one string per occurrence, each with its terminator; an
                      * empty string ends the list */
} setting_type;

typedef struct setting_def {
    const char *key;
    setting_type type;
    const char *fallback; /* default value; NULL: required (but a FLAG defaults to false) */
    const char *words;    /* WORD, CHOICE, U64: the choices, separated by spaces */
    uint64_t min, max;    /* range of a number; max 0: only the field's size limits the value */
    const char *help;     /* help text without a full stop */
    const char *arg;      /* name of the value in --help: FILE, HOST:PORT; NULL: depends on type */
    const char *example;  /* value that a new file shows if there is no default */
    const char *was;      /* former names of the key, separated by spaces */
    const char *gone;     /* keys, and words of this setting, that are refused; by spaces ... */
    const char *instead;  /* ... and the sentence that says what to use instead */
    char letter;          /* short option; 0: none */
    bool lines;           /* TEXT: newlines and tabs are allowed */
    bool map;             /* TEXT: a list of pairs, "a=1,b=2"; in YAML also a map */
    bool secret;          /* PATH: only the owner may read the file */
    bool created;         /* PATH: the program creates it when it first needs it */
    const char *runs_in;  /* TEXT: a shell command; the PATH setting that names its folder */
    bool unlisted;        /* lists of keys and new files leave it out */
    size_t at, size;      /* SETTING_TO; size 0: no field */
} setting_def;

/* Initialises a setting_def's `at` and `size` with the struct field that receives the value. */
#define SETTING_TO(type, member) .at = offsetof(type, member), .size = sizeof(((type *)0)->member)

/* Makes an entry from a row of a list that several schemas share (model/lm_settings.h). TO(member)
 * is SETTING_TO for the struct that the schema fills. */
/* clang-format off */
#define SETTING_ROW(name, kind, member, value, least, most, choices, ...)                          \
    { name, SETTING_##kind, value, .words = choices, .min = least, .max = most, TO(member),        \
      .help = __VA_ARGS__ },
/* clang-format on */

enum { SETTINGS_MAX = 256 };

typedef struct settings {
    const setting_def *schema; /* ends with a NULL key */
    size_t count;
    char *value[SETTINGS_MAX]; /* NULL: fallback */
    char *origin[SETTINGS_MAX];
} settings;

/* The schema, of at most SETTINGS_MAX keys, must outlive the settings. */
void settings_init(settings *s, const setting_def *schema);

/* Sets one value from "key=value"; white space around the key and the value is allowed. Errors
 * begin with `origin` ("--set", "run.yml:3:5"). If it returns SEFL_EINVAL, nothing has changed. */
sefl_status settings_set(settings *s, const char *assignment, const char *origin) SEFL_MUST_CHECK;
/* Calls settings_set with a formatted string: settings_setf(&s, "demo", "clients=%u", 8). */
sefl_status settings_setf(settings *s, const char *origin, const char *fmt, ...)
    SEFL_PRINTF(3, 4) SEFL_MUST_CHECK;
sefl_status settings_set_pair(settings *s, sefl_span key, sefl_span value,
                              const char *origin) SEFL_MUST_CHECK;

/* Reads a file of assignments, one per line. Skips empty lines and lines that begin with #. */
sefl_status settings_set_file(settings *s, const char *path) SEFL_MUST_CHECK;

/* Copies to s every value that is set in `over`. Both must have the same schema. */
sefl_status settings_overlay(settings *s, const settings *over) SEFL_MUST_CHECK;

/* Puts `folder` before every relative path (SETTING_PATH) that is set. A command that is set
 * without its folder (runs_in) gets this one. NULL or "" changes nothing: paths stay relative to
 * the working folder. yaml_read passes the folder of the YAML file. */
sefl_status settings_resolve(settings *s, const char *folder) SEFL_MUST_CHECK;

/* SEFL_EINVAL if required keys are not set; the message names them all. */
sefl_status settings_complete(const settings *s) SEFL_MUST_CHECK;
/* Calls settings_complete, then writes every field that the schema names (SETTING_TO). The settings
 * must outlive the struct that they fill. */
sefl_status settings_fill(const settings *s, void *out) SEFL_MUST_CHECK;

/* Return a key's value; settings_given returns whether it was set. The schema must list the key
 * with this type (assert). */
const char *settings_text(const settings *s, const char *key);
uint64_t settings_u64(const settings *s, const char *key);
bool settings_bool(const settings *s, const char *key);
unsigned settings_choice(const settings *s, const char *key); /* the index of a value in `words` */
bool settings_given(const settings *s, const char *key);
/* True if the value is this word. */
bool settings_is(const settings *s, const char *key, const char *word);
/* Returns where the value was set ("run.yml:3:5", "--set"), or the key itself for a default. Error
 * messages about the value begin with this string. */
const char *settings_origin(const settings *s, const char *key);

void settings_clear(settings *s);

/* Returns the schema's entry for the key; NULL if there is none. */
const setting_def *setting_find(const setting_def *schema, const char *key);

/* Returns the index of `word` in `words` (separated by spaces; may be NULL), or -1 if it is not
 * there. */
int setting_word(const char *words, const char *word);
enum { SETTING_WORD_BYTES = 32 };
/* Writes the i-th of the words; returns out. */
char *setting_word_at(char out[SETTING_WORD_BYTES], const char *words, unsigned i);

enum { SETTING_OPTION_BYTES = 48 };
/* Writes the option name for a key: tls.csp_peers becomes tls-csp-peers. */
void setting_option(char out[SETTING_OPTION_BYTES], const char *key);

#endif
