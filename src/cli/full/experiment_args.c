#include "cli/full/experiment_args.h"

#include <getopt.h>

void experiment_args_init(experiment_args *a)
{
    *a = (experiment_args){ 0 };
    settings_init(&a->set, experiment_schema());
    settings_init(&a->flags, experiment_schema());
}

void experiment_args_clear(experiment_args *a)
{
    settings_clear(&a->set);
    settings_clear(&a->flags);
}

bool experiment_args_take(experiment_args *a, const cli_command *cmd, int option, int *rc)
{
    sefl_status st = SEFL_OK;
    if (option == 'c')
        a->file = optarg;
    else if (option == EXPERIMENT_SET)
        st = settings_set(&a->flags, optarg, "--set");
    else if (option == EXPERIMENT_THREADS)
        st = settings_set_pair(&a->flags, span_of_str("threads"), span_of_str(optarg), "--threads");
    else
        return false;
    if (st != SEFL_OK)
        *rc = cli_failed(cmd, st);
    return true;
}

int experiment_args_finish(experiment_args *a, const cli_command *cmd, int argc, char **argv)
{
    sefl_status st = SEFL_OK;
    if (optind < argc)
        return cli_misuse(cmd, "no argument \"%.64s\" is taken", argv[optind]);
    if (!a->file)
        return cli_misuse(cmd, "-c FILE says which experiment");
    if ((st = experiment_read(&a->set, a->file)) != SEFL_OK)
        return cli_failed(cmd, st);
    for (size_t i = 0; i < a->flags.count; i++)
        if (a->flags.value[i] &&
            (st = settings_set_pair(&a->set, span_of_str(a->flags.schema[i].key),
                                    span_of_str(a->flags.value[i]), a->flags.origin[i])) != SEFL_OK)
            return cli_failed(cmd, st);
    a->runs = experiment_runs(&a->set);
    if (a->runs == 0)
        return cli_misuse(cmd, "the sweep has more than %d runs", EXPERIMENT_RUNS_MAX);
    return CLI_DONE;
}
