/* cli: the `sefl` program, with one file per subcommand. Results go to stdout, progress and errors
 * to stderr. The exit code is 0 for success, 1 for failure, 2 for wrong usage.
 *
 * To add a command, write cmd_NAME.c with its `const cli_command cmd_NAME` and add NAME to one of
 * the lists below. Parsing, help, the man page, completion and suggestions for mistyped words all
 * use the command's tables (options.h). A command may have commands of its own: `sefl bench` has
 * one for each benchmark (bench/bench.h). */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_MISUSE = 2,
    CLI_REFUSED =
        3 /* `sefl client`: the server refuses this client, or its update was not counted */
};

struct cli_action;
struct cli_shortcut;
struct setting_def;

typedef struct cli_command {
    const char *name;    /* "bench"; "bench round" for a command of `sefl bench` */
    const char *summary; /* one line */
    const char *about;   /* help text before the options, wrapped when printed; may be NULL */
    const char *notes;   /* help text after the options; may be NULL */
    const struct setting_def *noted; /* settings of another file, listed after notes; may be NULL */
    const char *example;             /* a working command line */

    const struct cli_command *const
        *commands;                     /* commands of its own; ends with NULL; may be NULL */
    const struct cli_action *actions;  /* ends with a NULL name; a name "" means no action word */
    const struct setting_def *options; /* for all actions; ends with a NULL key; may be NULL */
    size_t size;                       /* size of the struct that the options fill */

    /* Called before and after the action; may be NULL. finish is called even if prepare fails. */
    sefl_status (*prepare)(const struct cli_command *c, const struct cli_action *a, void *options);
    void (*finish)(void *options);

    /* The settings that --set, shortcuts and every_setting accept; NULL: none. */
    const struct setting_def *schema;
    const struct setting_def *(*make_schema)(void); /* for a schema that is not a constant */
    const struct cli_shortcut *shortcuts;           /* ends with a NULL option; may be NULL */
    bool every_setting; /* every setting of the schema is also an option */
    bool list_settings; /* --help lists the whole schema */
    size_t set_at;      /* offset of the `settings` in the struct */

    bool interruptible; /* SIGINT and SIGTERM stop it cleanly (interrupt.h) */
    bool handles_keys;  /* disables core dumps */
    bool never_misuse;  /* every failure after parsing has exit code 1 */
} cli_command;

/* Commands that need more libraries than libc, libm and CBLAS; their files are in
 * src/app/cli/full. */
#if SEFL_CORE_ONLY
#define CLI_FULL_COMMANDS(X)
#else
#define CLI_FULL_COMMANDS(X) \
    X(try)                   \
    X(key)                   \
    X(ca)                    \
    X(enroll)                \
    X(provision)             \
    X(operator)              \
    X(task)                  \
    X(status)                \
    X(logs)                  \
    X(aggregator)            \
    X(csp)                   \
    X(client)                \
    X(init)                  \
    X(config)                \
    X(simulate)              \
    X(plan)                  \
    X(compare)               \
    X(paper)                 \
    X(verify)                \
    X(audit)                 \
    X(doctor)
#endif

/* All commands, in the order of `sefl help`. */
#define CLI_COMMANDS(X)  \
    X(demo)              \
    X(report)            \
    X(train)             \
    X(model)             \
    X(data)              \
    X(privacy)           \
    CLI_FULL_COMMANDS(X) \
    X(bench)             \
    X(version)           \
    X(help)

#define CLI_DECLARE(name) extern const cli_command cmd_##name;
CLI_COMMANDS(CLI_DECLARE)
#undef CLI_DECLARE

/* Ends with NULL. */
extern const cli_command *const cli_commands[];

/* Returns the last word of the command's name: "round" for "bench round". */
const char *cli_word(const cli_command *c);

/* Returns the command of that name; NULL if there is none. parent: the command whose commands are
 * searched; NULL: the program. */
const cli_command *cli_find(const cli_command *parent, const char *word);

/* Reports an unknown command and suggests a similar name; returns CLI_MISUSE. */
int cli_unknown(const cli_command *parent, const char *word);

/* Prints the command's help to stdout. */
void cli_print_help(const cli_command *c);

/* Prints "sefl NAME: MESSAGE" and "try 'sefl NAME --help'" to stderr; returns CLI_MISUSE. */
int cli_misuse(const cli_command *c, const char *fmt, ...) SEFL_PRINTF(2, 3);

/* Prints "sefl NAME: " and the last error message to stderr; returns CLI_FAILED, or CLI_MISUSE for
 * SEFL_EINVAL. */
int cli_failed(const cli_command *c, sefl_status st);

/* Copies an untrusted string for a terminal: replaces control characters with '?' and keeps at most
 * n - 1 bytes. Returns out. cli_failed does this itself. */
const char *cli_plain(char *out, size_t n, const char *text);

#endif
