/* cli: the `sefl` program. One file per subcommand, one table of them; results on stdout, talk on
 * stderr; exit 0 done, 1 failed, 2 misuse.
 *
 * A new command: write cmd_NAME.c with its `const cli_command cmd_NAME`, add NAME to one of the
 * lists below. Help, man page, completion and the suggestion for a typing error come from the
 * table. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_MISUSE = 2 };

typedef struct cli_command {
    const char *name;
    const char *summary; /* one line */
    const char *usage;   /* what follows the name: "NAME [--json]" */
    const char *details; /* options and what they do, a line each; ends without a newline */
    const char *example; /* a command line that works */
    const char *actions; /* words that may follow the name, for completion; NULL: none */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns an exit code */
} cli_command;

/* Commands that need more than libc, libm and CBLAS: their files are in src/cli/full. */
#if SEFL_CORE_ONLY
#define CLI_FULL_COMMANDS(X)
#else
#define CLI_FULL_COMMANDS(X) \
    X(key)                   \
    X(ca)                    \
    X(enroll)                \
    X(provision)             \
    X(task)                  \
    X(aggregator)            \
    X(csp)                   \
    X(client)                \
    X(init)                  \
    X(config)                \
    X(simulate)              \
    X(plan)                  \
    X(compare)               \
    X(audit)                 \
    X(doctor)
#endif

/* Order of `sefl help`. */
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

/* NULL if there is none of that name. */
const cli_command *cli_find(const char *name);

/* Says that there is no such command, with the one that was meant; returns CLI_MISUSE. */
int cli_unknown(const char *word);

/* Prints the command's help to stdout. */
void cli_print_help(const cli_command *c);

/* "sefl NAME: sentence", "try 'sefl NAME --help'" to stderr; returns CLI_MISUSE. */
int cli_misuse(const cli_command *c, const char *fmt, ...) SEFL_PRINTF(2, 3);

/* Unknown or incomplete option as getopt_long reports it (opterr off, optstring begins with ':');
 * returns CLI_MISUSE. longopts' names are used for a suggestion. */
struct option;
int cli_bad_option(const cli_command *c, int argc, char **argv, int opt,
                   const struct option *longopts);

/* "sefl: sentence of the last error" to stderr; returns CLI_FAILED, or CLI_MISUSE for
 * SEFL_EINVAL. */
int cli_failed(const cli_command *c, sefl_status st);

/* Text of a stranger for the terminal: control characters become '?'; cut to n - 1 bytes. Gives out
 * back. cli_failed does this to what it prints. */
const char *cli_plain(char *out, size_t n, const char *text);

/* A whole decimal number in [min, max], nothing behind it. */
bool cli_parse_u64(const char *text, unsigned long long min, unsigned long long max,
                   unsigned long long *out);

#endif
