/* cli: the programs `sefl` and `sefl-lab` (the laboratory), with one file per command. Results go
 * to stdout, progress and errors to stderr. The exit code is 0 for success, 1 for failure, 2 for
 * wrong usage.
 *
 * To add a command, write cmd_NAME.c with its `const cli_command cmd_NAME` and add a line to the
 * list below. Parsing, help, the man page, completion and suggestions for mistyped words all use
 * the command's tables (options.h). A command may have commands of its own: `sefl bench` has one
 * for each benchmark (bench/bench.h).
 *
 * `sefl COMMAND` works for all commands: for those of the laboratory, `sefl` becomes `sefl-lab`,
 * from its own folder. */
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
    const char *summary; /* one line; NULL: in CLI_COMMANDS */
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

typedef enum cli_program { CLI_SEFL, CLI_LAB, CLI_BOTH } cli_program;

/* Commands that need more libraries than libc, libm and CBLAS; their files are in `full`. */
#if SEFL_CORE_ONLY
#define CLI_FULL_COMMANDS(X)
#define CLI_FULL_LAB_COMMANDS(X)
#else
/* clang-format off */
#define CLI_FULL_COMMANDS(X)                                                                       \
    X(SEFL, try, "federate your own raw text on this machine")                                     \
    X(SEFL, key, "create, show or check CSP's secret key; create a signing key")                   \
    X(SEFL, ca, "manage an operator's CA and its server's trust list")                             \
    X(SEFL, enroll, "join a federation: get a key, a certificate and the servers' keys")           \
    X(SEFL, provision, "create a trial federation, on one machine or on several")                  \
    X(SEFL, operator, "set up one organisation's server: keys, card, tokens, tasks")               \
    X(SEFL, task, "create, sign, show, check, queue, pause, resume and end a task")                \
    X(SEFL, status, "show what the servers and clients on this machine are doing")                 \
    X(SEFL, logs, "show the logs of servers and clients, merged by time")                          \
    X(SEFL, aggregator, "run the aggregation server of a federation")                              \
    X(SEFL, csp, "run the cryptography service provider of a federation")                          \
    X(SEFL, client, "take part in a federation with the data on this machine")                     \
    X(SEFL, init, "write a commented settings file to start from")                                 \
    X(SEFL, config, "check a settings file, or list the keys that it can contain")                 \
    X(SEFL, verify, "replay audit logs, ledgers, models and receipts")                             \
    X(SEFL, audit, "replay the record of an audited noise session")                                \
    X(SEFL, doctor, "check this machine, and a settings file with all the files it names")
#define CLI_FULL_LAB_COMMANDS(X)                                                                   \
    X(LAB, simulate, "run a whole federation in one process, from an experiment file")             \
    X(LAB, plan, "predict the cost and the epsilon of an experiment before it runs")               \
    X(LAB, compare, "show runs side by side: perplexity, epsilon, seconds, bytes")                 \
    X(LAB, paper, "repeat the paper's evaluation and draw its figures")                            \
    X(LAB, sum, "compute a secure sum of random vectors, beside the plain sum")                 
#endif

/* All commands, in the order of `sefl help`: program, name, summary. */
#define CLI_COMMANDS(X)                                                                            \
    X(SEFL, demo, "run a whole secure federation on this machine")                                 \
    X(SEFL, report, "summarise runs and write an HTML report")                                     \
    X(SEFL, model, "create, inspect, evaluate and convert models; generate text")                  \
    X(SEFL, data, "count and split training text; build vocabularies")                             \
    X(SEFL, privacy, "plan a privacy budget, create a ledger, or show what it has spent")          \
    CLI_FULL_COMMANDS(X)                                                                           \
    X(BOTH, version, "print version, commit, compiler, CPU features and libraries")                \
    X(BOTH, help, "list the commands, or describe one command")                                    \
    CLI_FULL_LAB_COMMANDS(X)                                                                       \
    X(LAB, train, "train a language model on this machine, without a federation")                  \
    X(LAB, synth, "generate training text whose best possible perplexity is known")                \
    X(LAB, bench, "measure this machine's speed and compare it with the best possible")
/* clang-format on */

#define CLI_DECLARE(program, name, summary) extern const cli_command cmd_##name;
CLI_COMMANDS(CLI_DECLARE)
#undef CLI_DECLARE

typedef struct cli_entry {
    cli_program program;
    const char *name, *summary;
    const cli_command *command; /* NULL: only the other program has it */
} cli_entry;

/* In main.c and lab_main.c: all commands, up to a NULL name; the program that runs. */
extern const cli_entry cli_commands[];
extern const cli_program cli_this;
int cli_main(int argc, char **argv);

/* A library of this program that `sefl version` shows. */
typedef struct cli_library {
    const char *name, *version;
} cli_library;
enum { CLI_LIBRARIES_MAX = 4 };
/* Fills in the libraries that only this program uses; returns their number. */
size_t cli_libraries(cli_library out[CLI_LIBRARIES_MAX]);

/* Returns the entry of that name; NULL if there is none. */
const cli_entry *cli_entry_find(const char *word);
const char *cli_summary(const cli_command *c);

/* Becomes sefl-lab, the file in the folder of this program, with these arguments: a NULL ends
 * them, and the first is the name of the program. Returns only if that fails. */
sefl_status cli_start_lab(const char *const *argv) SEFL_MUST_CHECK;
/* Runs a command that only the other program has: returns the exit code if that fails. */
int cli_other(const cli_entry *e, const char *const *argv);

/* Returns the last word of the command's name: "round" for "bench round". */
const char *cli_word(const cli_command *c);

/* Returns the command of that name among those of the parent; NULL if there is none. */
const cli_command *cli_find(const cli_command *parent, const char *word);

/* Reports an unknown command of the parent (NULL: of the programs) and suggests a similar name;
 * returns CLI_MISUSE. */
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
