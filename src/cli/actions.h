/* actions: commands of the form `sefl NAME ACTION [PATH] [options]`, each action with options of
 * its own.
 *
 *     static const cli_action actions[] = { { "info", info_options, "a model file" }, { 0 } };
 *     int rc = cli_actions_parse(&cmd_model, actions, argc, argv, take, &o, &which, &path);
 *     if (rc != CLI_DONE)
 *         return rc;                                    // it was said why
 */
#ifndef CLI_ACTIONS_H
#define CLI_ACTIONS_H

#include "cli/cli.h"

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>

/* Entries of longopts. */
#define CLI_TAKES(name, code)               \
    {                                       \
        name, required_argument, NULL, code \
    }
#define CLI_FLAG(name, code)          \
    {                                 \
        name, no_argument, NULL, code \
    }

typedef struct cli_action {
    const char *name;
    const struct option *longopts;
    const char *path; /* what its one argument is, "a model file"; NULL: it takes none */
} cli_action;

/* Which of names (NULL ends them) is argv[1]? Says which there are, or which was meant: CLI_MISUSE. */
int cli_action_pick(const cli_command *c, const char *const *names, int argc, char **argv,
                    size_t *which);

/* One option of the action; CLI_DONE, or another exit code after saying why. */
typedef int cli_take_fn(void *ctx, int code, const char *value);

/* actions ends with a nameless one. *which: its index; *path: the argument, or NULL. */
int cli_actions_parse(const cli_command *c, const cli_action *actions, int argc, char **argv,
                      cli_take_fn *take, void *ctx, size_t *which, const char **path);

/* A whole number in [min, max] for --name, or says what is wanted: CLI_DONE or CLI_MISUSE. */
int cli_take_u32(const cli_command *c, const char *name, const char *value, uint32_t min,
                 uint32_t max, uint32_t *out);
int cli_take_u64(const cli_command *c, const char *name, const char *value, uint64_t min,
                 uint64_t max, uint64_t *out);

#endif
