/* options: what may follow a command's name, described once.
 *
 * A command has a table of actions (`sefl data split ...`) or a single action without a name
 * (`sefl report ...`). An action has an argument and a table of options (config/settings.h: name,
 * type, range, default, one sentence, and the field that receives the value). Parsing, error
 * sentences, `--help`, the man page and the completion all read these tables.
 *
 *     typedef struct wish { const char *path, *out; uint32_t clients; bool json; } wish;
 *     #define TO(member) SETTING_TO(wish, member)
 *     static const setting_def options[] = {
 *         { "out", SETTING_PATH, "", TO(out), .arg = "DIR", .help = "Folder to write to" },
 *         { "clients", SETTING_U64, "8", TO(clients), .min = 1, .max = 1000, .help = "Clients" },
 *         OPTION_JSON(wish), { 0 }
 *     };
 *     static const cli_action actions[] = {
 *         { "split", "PATH", "a file or folder", "Splits the text.", "out", "clients json",
 *           offsetof(wish, path), .work = split }, { 0 }
 *     };
 *     const cli_command cmd_data = { .name = "data", .size = sizeof(wish), .options = options,
 *                                    .actions = actions, ... };
 *
 * Texts in the struct live as long as the action runs; a text that was not given is NULL.
 * Threads: one (getopt).   Secrets: none belong on a command line. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/buf.h"
#include "cli/cli.h"
#include "config/settings.h"

/* Options that many commands have, with the same field name in every struct. */
#define OPTION_JSON(type)                                                                 \
    {                                                                                     \
        "json", SETTING_FLAG, "", .help = "Print one JSON object", SETTING_TO(type, json) \
    }
#define OPTION_FORCE(type)                                                                   \
    {                                                                                        \
        "force", SETTING_FLAG, "", .help = "Replace existing files", SETTING_TO(type, force) \
    }

/* --set and --set-file, for a command with a schema. */
#define OPTION_SET                                                                              \
    { "set", SETTING_TEXT, "", .arg = "KEY=VALUE",                                              \
      .help = "Change one setting; may be repeated" },                                          \
    {                                                                                           \
        "set-file", SETTING_PATH, "", .help = "Read settings from FILE, one KEY=VALUE per line" \
    }

/* An option that stands for a setting: --lr for training.lr. */
typedef struct cli_shortcut {
    const char *option, *key;
} cli_shortcut;

typedef struct cli_action {
    const char *name; /* the word behind the command; "": the command has no such word */
    const char *arg;  /* its argument: "FILE"; "[FILE]" may be left out, "RUN..." may be repeated */
    const char *wants; /* the argument in a sentence: "a model file" */
    const char *about; /* sentences */
    const char *needs; /* names of options that must be given, separated by spaces */
    const char *takes; /* and of those that may be given; NULL: all others of the command */
    size_t arg_at;     /* offset of the argument's const char *; "RUN...": of a char ** */
    sefl_status (*work)(void *options);
    int (*run)(void *options); /* in place of work: returns the exit code */
} cli_action;

/* Parts of a cli_command: the table `options` that fills a struct; the settings in its member. */
#define CLI_OPTIONS(type)          .options = options, .size = sizeof(type)
#define CLI_SETTINGS(type, member) .set_at = offsetof(type, member)
/* A command without action words. argument: "RUN", "a folder", offsetof(...), or 0, 0, 0. */
#define CLI_RUN(fn, arg, wants, at)  CLI_ONLY(arg, wants, at, .run = (fn))
#define CLI_WORK(fn, arg, wants, at) CLI_ONLY(arg, wants, at, .work = (fn))
/* clang-format off */
#define CLI_ONLY(arg, wants, at, ...) \
    .actions = (const cli_action[]){ { "", (arg), (wants), .arg_at = (at), __VA_ARGS__ }, { 0 } }
/* clang-format on */

/* Parses argv (argv[0] is the command's name) and runs the action; returns the exit code. */
int options_run(const cli_command *c, int argc, char **argv);

/* The help text of a command: usage, actions, options, example. */
sefl_status options_help(sefl_buf *out, const cli_command *c) SEFL_MUST_CHECK;

/* Prints every option of the command, for the completion: " --out --json". */
void options_print_names(const cli_command *c);

/* Is the name one of the words, which are separated by spaces? words may be NULL. */
bool options_listed(const char *words, const char *name);

/* Appends text to out, wrapped at 80 columns; every line is indented by `indent`. `at`: the column
 * that the current line has reached. */
sefl_status options_wrap(sefl_buf *out, size_t at, size_t indent, const char *text) SEFL_MUST_CHECK;

#endif
