/* experiment_args: the options of `sefl simulate` and `sefl plan` that select an experiment. */
#ifndef CLI_FULL_EXPERIMENT_ARGS_H
#define CLI_FULL_EXPERIMENT_ARGS_H

#include "cli/options.h"
#include "simulate/experiment.h"

typedef struct experiment_args {
    const char *file;
    settings flags; /* settings from --set, --set-file and shortcuts */
    settings set;   /* the file, overridden by the flags */
    size_t runs;    /* number of runs in the sweep */
} experiment_args;

/* The options -c FILE, --set and --set-file, for a struct that begins with an experiment_args. */
#define EXPERIMENT_OPTIONS                                                                      \
    { "config",                                                                                 \
      SETTING_PATH,                                                                             \
      "",                                                                                       \
      .letter = 'c',                                                                            \
      SETTING_TO(experiment_args, file),                                                        \
      .help = "Experiment file; 'sefl init' writes one, and docs/SETTINGS.md lists the keys" }, \
        OPTION_SET
/* The part of a cli_command that both commands share; `call` is .run = ... or .work = ... */
/* clang-format off */
#define EXPERIMENT_COMMAND(type, call)                                                       \
    CLI_OPTIONS(type), CLI_SETTINGS(experiment_args, flags), CLI_ONLY(NULL, NULL, 0,         \
        .needs = "config", call), .make_schema = experiment_schema,                          \
    .shortcuts = experiment_shortcuts, .prepare = experiment_args_read,                      \
    .finish = experiment_args_clear
/* clang-format on */
extern const cli_shortcut experiment_shortcuts[];

/* Reads the experiment file and applies the options; *args begins with an experiment_args. */
sefl_status experiment_args_read(const cli_command *c, const cli_action *a,
                                 void *args) SEFL_MUST_CHECK;
void experiment_args_clear(void *args);

/* Calls fn for each run of the sweep, with that run's settings and its experiment. */
typedef sefl_status experiment_fn(void *ctx, settings *one, experiment *e);
sefl_status experiment_args_each(const experiment_args *a, experiment_fn *fn,
                                 void *ctx) SEFL_MUST_CHECK;

#endif
