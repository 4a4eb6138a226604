/* options: parses a command's arguments according to tables.
 *
 * A command has a table of actions (`sefl data split ...`) or a single action without a name (`sefl
 * report ...`). An action may have an argument. A table lists its options with their types, ranges,
 * defaults, help texts and target fields (config/settings.h). Parsing, error messages, `--help`,
 * the man page and the shell completion all use these tables.
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
 * Strings in the struct stay valid while the action runs; an unset string is NULL.
 * Threads: one (getopt).   Secrets: never on a command line. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/buf.h"
#include "cli/cli.h"
#include "config/settings.h"

/* Options that many commands have. In every command's struct their members are json and force. */
#define OPTION_JSON(type)                                                                    \
    {                                                                                        \
        "json", SETTING_FLAG, "", .help = "Print the result as JSON", SETTING_TO(type, json) \
    }
#define OPTION_FORCE(type)                                                                   \
    {                                                                                        \
        "force", SETTING_FLAG, "", .help = "Replace existing files", SETTING_TO(type, force) \
    }

/* The options --set and --set-file, for commands with a schema. */
#define OPTION_SET                                                                                \
    { "set", SETTING_TEXT, "", .arg = "KEY=VALUE", .help = "Set KEY to VALUE; may be repeated" }, \
    {                                                                                             \
        "set-file", SETTING_PATH, "", .help = "Read settings from FILE, one KEY=VALUE per line"   \
    }

/* A short option for a setting: --lr for training.lr. */
typedef struct cli_shortcut {
    const char *option, *key;
} cli_shortcut;

typedef struct cli_action {
    const char *name;  /* the word after the command; "": the command has no action words */
    const char *arg;   /* its argument: "FILE"; "[FILE]" is optional, "RUN..." may be repeated */
    const char *wants; /* name of the argument in error messages: "a model file" */
    const char *about; /* help text */
    const char *needs; /* names of required options, separated by spaces */
    const char *takes; /* names of optional ones; NULL: all other options of the command */
    size_t arg_at;     /* offset of the argument's const char *; for "RUN...", of a char ** */
    sefl_status (*work)(void *options);
    int (*run)(void *options); /* called instead of work; returns the exit code */
} cli_action;

/* Initialisers for a cli_command: the table `options` and the struct that it fills; settings. */
#define CLI_OPTIONS(type)          .options = options, .size = sizeof(type)
#define CLI_SETTINGS(type, member) .set_at = offsetof(type, member)
/* A command without action words. Argument: "RUN", "a folder", offsetof(...); or NULL, NULL, 0. */
#define CLI_RUN(fn, arg, wants, at)  CLI_ONLY(arg, wants, at, .run = (fn))
#define CLI_WORK(fn, arg, wants, at) CLI_ONLY(arg, wants, at, .work = (fn))
/* clang-format off */
#define CLI_ONLY(arg, wants, at, ...) \
    .actions = (const cli_action[]){ { "", (arg), (wants), .arg_at = (at), __VA_ARGS__ }, { 0 } }
/* clang-format on */

/* Parses argv (argv[0] is the command's name) and runs the action; returns the exit code. */
int options_run(const cli_command *c, int argc, char **argv);

/* Writes the help text of a command: usage, actions, options, settings. */
sefl_status options_help(sefl_buf *out, const cli_command *c) SEFL_MUST_CHECK;

/* Writes the help of the options that c has and its parent lacks. */
sefl_status options_list(sefl_buf *out, const cli_command *c,
                         const cli_command *parent) SEFL_MUST_CHECK;

/* Prints all options of the command for shell completion: " --out --json". */
void options_print_names(const cli_command *c);

/* True if name is one of the words, which are separated by spaces. words may be NULL. */
bool options_listed(const char *words, const char *name);

#endif
