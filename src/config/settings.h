/* settings: what a run is told, as one list of key=value.
 *
 * The command line (options, `--set key=value`, `--set-file FILE`) and, where it is built in, the
 * YAML reader all fill this list. One schema table describes each setting once: key, type, default,
 * range, one sentence, and the field of a struct that receives the value. Parsing, `--help`, `sefl
 * init`, `sefl config` and the tables in docs/ come from that table:
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
 *     uint64_t block = settings_u64(&s, "model.block");      // the same without a field
 *
 *     run.txt:3: unknown setting "model.blok"; did you mean "model.block"?
 *     --set: model.block wants a whole number from 1 to 4096, not "x"
 *
 * A later value replaces an earlier one (SETTING_LIST: is added to it).
 * Threads: one owner while it is filled, then shared.   Secrets: none belong here. */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

/* What a value may be, and the type of the field that settings_fill writes. Texts in the fields
 * point into the settings object; an empty text is NULL there. */
typedef enum setting_type {
    SETTING_TEXT,    /* const char *: no control characters, at most 4096 bytes */
    SETTING_PATH,    /* const char *: such a text that names a file or folder (settings_resolve) */
    SETTING_WORD,    /* const char *: one of `words` */
    SETTING_CHOICE,  /* an enum or unsigned: the place of the value in `words`, from 0 */
    SETTING_BOOL,    /* bool: true or false */
    SETTING_FLAG,    /* bool: the same, but an option of it takes no value; default false */
    SETTING_U64,     /* an unsigned integer of any size: whole number in [min, max] */
    SETTING_DECIMAL, /* const char *: [-]digits[.digits][e[+-]digits], at most 40 characters, in
                      * [min, max]; the text stays exact */
    SETTING_REAL,    /* double: the same text, as the nearest double */
    SETTING_ADDRESS, /* host_port (config/address.h): host:port, the port at least min */
    SETTING_LIST,    /* const char *: texts, one for each time it was given, each with its
                      * terminator; an empty one ends the list */
} setting_type;

typedef struct setting_def {
    const char *key;
    setting_type type;
    const char *fallback; /* value when none is given; NULL: must be given (but a FLAG is false) */
    const char *words;    /* WORD, CHOICE: the choices, separated by spaces */
    uint64_t min, max;    /* numbers; max 0: no upper limit but that of the field */
    const char *help;     /* one sentence, without a full stop */
    const char *arg;      /* what --help calls the value: FILE, HOST:PORT; NULL: by its type */
    const char *example;  /* a value that a new file shows where there is no default */
    const char *was;      /* older names of the key, separated by spaces */
    char letter;          /* short option; 0: none */
    bool lines;           /* TEXT: may also hold line ends and tabs */
    size_t at, size;      /* SETTING_TO; size 0: no field */
} setting_def;

/* The field that receives the value. */
#define SETTING_TO(type, member) .at = offsetof(type, member), .size = sizeof(((type *)0)->member)

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
/* The same from a format: settings_setf(&s, "demo", "clients=%u", 8). */
sefl_status settings_setf(settings *s, const char *origin, const char *fmt, ...)
    SEFL_PRINTF(3, 4) SEFL_MUST_CHECK;
sefl_status settings_set_pair(settings *s, sefl_span key, sefl_span value,
                              const char *origin) SEFL_MUST_CHECK;

/* A file of assignments, one per line; empty lines and lines that begin with # are skipped. */
sefl_status settings_set_file(settings *s, const char *path) SEFL_MUST_CHECK;

/* What `over` was given replaces what s holds. Both have the same schema. */
sefl_status settings_overlay(settings *s, const settings *over) SEFL_MUST_CHECK;

/* Puts `folder` before every relative path (SETTING_PATH) that was given. NULL or "" changes
 * nothing: paths count from the working folder. yaml_read does this with the folder of its file.
 * */
sefl_status settings_resolve(settings *s, const char *folder) SEFL_MUST_CHECK;

/* SEFL_EINVAL names every key that must be given and was not. */
sefl_status settings_complete(const settings *s) SEFL_MUST_CHECK;
/* Writes every field that the schema binds (SETTING_TO) after settings_complete. The settings must
 * outlive what they fill. */
sefl_status settings_fill(const settings *s, void *out) SEFL_MUST_CHECK;

/* Values by key; the key and its type must be in the schema (a broken call is an assert). */
const char *settings_text(const settings *s, const char *key);
uint64_t settings_u64(const settings *s, const char *key);
double settings_real(const settings *s, const char *key); /* REAL or DECIMAL */
bool settings_bool(const settings *s, const char *key);
bool settings_given(const settings *s, const char *key);
/* Where the value was written ("run.yml:3:5", "--set"), or the key itself where it is the default:
 * the first word of a sentence about it. */
const char *settings_origin(const settings *s, const char *key);

void settings_clear(settings *s);

/* One value alone: SEFL_EINVAL says what is wrong with it. */
sefl_status setting_check(const setting_def *d, const char *value,
                          const char *origin) SEFL_MUST_CHECK;
/* The entry of a key; NULL: there is none. */
const setting_def *setting_find(const setting_def *schema, const char *key);

/* The place of a word in a list of words, separated by spaces, from 0; -1: it is not there. words
 * may be NULL. */
int setting_word(const char *words, const char *word);

enum { SETTING_OPTION_BYTES = 48 };
/* The name of its option: tls.csp_peers is tls-csp-peers. */
void setting_option(char out[SETTING_OPTION_BYTES], const char *key);

/* Digits only, the whole text; false if it is something else or too large. */
bool number_u64(const char *text, uint64_t *out);
/* [-]digits[.digits][e[+-]digits], the whole text; false also for what a double cannot hold. */
bool number_real(const char *text, double *out);

#endif
