#include "cli/options.h"

#include "base/cpu.h"
#include "base/suggest.h"
#include "bench/bench.h"
#include "build_info.h"

#include <string.h>

static int list_benches(void)
{
    for (const bench_def *const *b = bench_list; *b; b++)
        printf("%-8s %s\n%s%s", (*b)->name, (*b)->summary, (*b)->options,
               *(*b)->options ? "\n" : "");
    return CLI_DONE;
}

static const setting_def options[] = {
    { "threads", SETTING_U64, "1", .min = 1, .max = 256, .help = "Number of threads",
      SETTING_TO(bench, threads) },
    { "seconds", SETTING_REAL, "0.5", .max = 3600, .arg = "S", .help = "Minimum seconds per case",
      SETTING_TO(bench, min_seconds) },
    { "json", SETTING_FLAG,
      .help = "Print each case as one JSON object; the member ratio compares the case with its "
              "floor: 1.0 is the best possible, and larger is worse",
      SETTING_TO(bench, json) },
    { "list", SETTING_FLAG, .help = "List the benchmarks and their options" },
    { 0 },
};

/* Moves the common options from argv to s; argv keeps the benchmark's own options. */
static int common_options(settings *s, int *argc, char **argv)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        char name[16]; /* longer than "--" and any common option */
        const size_t n = strcspn(argv[i], "=");
        snprintf(name, sizeof name, "%.*s", (int)n, argv[i]);
        const setting_def *d = strncmp(name, "--", 2) == 0 ? setting_find(options, name + 2) : NULL;
        if (!d) {
            argv[kept++] = argv[i];
            continue;
        }
        const char *value = argv[i][n]                ? argv[i] + n + 1
                            : d->type == SETTING_FLAG ? "true"
                                                      : argv[++i];
        if (!value)
            return cli_misuse(&cmd_bench, "option %s needs a value", name);
        if (settings_set_pair(s, span_of_str(d->key), span_of_str(value), name) != SEFL_OK)
            return cli_misuse(&cmd_bench, "%s", sefl_last_error());
    }
    argv[kept] = NULL;
    *argc = kept;
    return CLI_DONE;
}

static int unknown_benchmark(const char *word)
{
    const char *names[32] = { 0 };
    for (size_t i = 0; i < 31 && bench_list[i]; i++)
        names[i] = bench_list[i]->name;
    const char *near = suggest_name(word, names);
    return near ? cli_misuse(&cmd_bench, "unknown benchmark \"%.64s\"; did you mean '%s'?", word,
                             near)
                : cli_misuse(&cmd_bench, "unknown benchmark \"%.64s\"; 'sefl bench' lists them",
                             word);
}

static int run_one(const settings *s, int argc, char **argv)
{
    bench b = { .out = stdout };
    sefl_status st = settings_fill(s, &b);
    if (st == SEFL_OK && !(b.min_seconds > 0))
        return cli_misuse(&cmd_bench, "--seconds must be above 0");
    if (settings_bool(s, "list") || argc < 2) {
        if (argc > 1)
            return cli_misuse(&cmd_bench, "--list does not take the argument \"%.64s\"", argv[1]);
        return b.json ? cli_misuse(&cmd_bench, "--json needs the name of a benchmark")
                      : list_benches();
    }
    if (argv[1][0] == '-')
        return cli_misuse(&cmd_bench, "the benchmark's name comes first, not %.64s", argv[1]);
    const bench_def *const *def = bench_list;
    while (*def && strcmp((*def)->name, argv[1]) != 0)
        def++;
    if (!*def)
        return unknown_benchmark(argv[1]);
    b.name = (*def)->name;
    snprintf(b.head, sizeof b.head, "sefl bench %s  commit %s  %s", b.name, SEFL_BUILD_COMMIT,
             cpu_name());
    if (st == SEFL_OK)
        st = (*def)->run(&b, argc - 1, argv + 1);
    return st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_bench, st);
}

static int run(int argc, char **argv)
{
    settings s;
    settings_init(&s, options);
    int rc = common_options(&s, &argc, argv);
    if (rc == CLI_DONE)
        rc = run_one(&s, argc, argv);
    settings_clear(&s);
    return rc;
}

const cli_command cmd_bench = {
    .name = "bench",
    .summary = "measure this machine's speed and compare it with the best possible",
    .about = "Runs the benchmark NAME. Without NAME, lists the benchmarks and their options.",
    .options = options,
    .example = "sefl bench base --json",
    .actions = (const cli_action[]){ { "", "[NAME]" }, { 0 } },
    .run = run,
};
