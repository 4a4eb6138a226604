/* experiment_args: the options that say which experiment, the same for simulate and plan. */
#ifndef CLI_FULL_EXPERIMENT_ARGS_H
#define CLI_FULL_EXPERIMENT_ARGS_H

#include "cli/cli.h"

#include "simulate/experiment.h"

enum { EXPERIMENT_SET = 256, EXPERIMENT_THREADS };

#define EXPERIMENT_OPTIONS                                     \
    { "config", required_argument, NULL, 'c' },                \
        { "set", required_argument, NULL, EXPERIMENT_SET },    \
    {                                                          \
        "threads", required_argument, NULL, EXPERIMENT_THREADS \
    }

typedef struct experiment_args {
    settings set;
    settings flags; /* go over the file's */
    const char *file;
    size_t runs; /* that the sweep asks for */
} experiment_args;

void experiment_args_init(experiment_args *a);
void experiment_args_clear(experiment_args *a);

/* Takes one option of getopt_long; false: not one of these. *rc: its exit code if it is wrong. */
bool experiment_args_take(experiment_args *a, const cli_command *cmd, int option, int *rc);
/* Reads the file; returns an exit code. */
int experiment_args_finish(experiment_args *a, const cli_command *cmd, int argc, char **argv);

#endif
