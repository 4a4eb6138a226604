#include "cli/full/experiment_args.h"

#include "config/yaml/yaml.h"

const cli_shortcut experiment_shortcuts[] = {
    { "threads", "threads" }, { "device", "device" }, { "precision", "precision" }, { 0 }
};

sefl_status experiment_args_read(const cli_command *c, const cli_action *action, void *args)
{
    experiment_args *a = args;
    (void)c, (void)action;
    settings_init(&a->set, experiment_schema());
    SEFL_PASS(yaml_read(&a->set, a->file));
    SEFL_PASS(settings_overlay(&a->set, &a->flags));
    a->runs = experiment_runs(&a->set);
    SEFL_NEED(a->runs > 0, SEFL_EINVAL, "the sweep has more than %d runs", EXPERIMENT_RUNS_MAX);
    return SEFL_OK;
}

void experiment_args_clear(void *args)
{
    settings_clear(&((experiment_args *)args)->set);
}

sefl_status experiment_args_each(const experiment_args *a, experiment_fn *fn, void *ctx)
{
    for (size_t i = 0; i < a->runs; i++) {
        settings one;
        experiment e;
        SEFL_PASS(experiment_run(&one, &a->set, i));
        sefl_status st = experiment_make(&e, &one);
        if (st == SEFL_OK)
            st = fn(ctx, &one, &e);
        settings_clear(&one);
        SEFL_PASS(st);
    }
    return SEFL_OK;
}
