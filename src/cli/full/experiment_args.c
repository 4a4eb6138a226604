#include "cli/full/experiment_args.h"

const cli_shortcut experiment_shortcuts[] = { { "threads", "threads" }, { 0 } };

int experiment_args_read(experiment_args *a, const cli_command *c)
{
    settings_init(&a->set, experiment_schema());
    sefl_status st = experiment_read(&a->set, a->file);
    if (st == SEFL_OK)
        st = settings_overlay(&a->set, &a->flags);
    if (st != SEFL_OK)
        return cli_failed(c, st);
    a->runs = experiment_runs(&a->set);
    return a->runs > 0 ? CLI_DONE
                       : cli_misuse(c, "the sweep has more than %d runs", EXPERIMENT_RUNS_MAX);
}

void experiment_args_clear(experiment_args *a)
{
    settings_clear(&a->set);
}
