/* experiment_args: the options that say which experiment, the same for simulate and plan. */
#ifndef CLI_FULL_EXPERIMENT_ARGS_H
#define CLI_FULL_EXPERIMENT_ARGS_H

#include "cli/options.h"
#include "simulate/experiment.h"

typedef struct experiment_args {
    const char *file;
    settings flags; /* what --set and its like say */
    settings set;   /* the file, overridden by the flags */
    size_t runs;    /* of the sweep */
} experiment_args;

/* -c FILE, --set and --set-file, for a struct that begins with an experiment_args. */
#define EXPERIMENT_OPTIONS                                                                   \
    { "config",                                                                              \
      SETTING_PATH,                                                                          \
      "",                                                                                    \
      .letter = 'c',                                                                         \
      SETTING_TO(experiment_args, file),                                                     \
      .help = "The experiment; 'sefl init' writes one, docs/SIMULATION.md lists the keys" }, \
        OPTION_SET
extern const cli_shortcut experiment_shortcuts[];

/* Reads the file; exit code. */
int experiment_args_read(experiment_args *a, const cli_command *c);
void experiment_args_clear(experiment_args *a);

#endif
