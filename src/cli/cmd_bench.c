#include "cli/cli.h"

#include "base/cpu.h"
#include "base/suggest.h"
#include "bench/bench.h"
#include "build_info.h"

#include <stdlib.h>
#include <string.h>

static int list_benches(void)
{
    for (size_t i = 0; bench_list[i]; i++) {
        printf("%-8s %s\n", bench_list[i]->name, bench_list[i]->summary);
        if (*bench_list[i]->options)
            printf("%s\n", bench_list[i]->options);
    }
    return CLI_DONE;
}

static const bench_def *find(const char *name)
{
    for (size_t i = 0; bench_list[i]; i++)
        if (strcmp(bench_list[i]->name, name) == 0)
            return bench_list[i];
    return NULL;
}

/* Takes the common options out of argv, leaves the benchmark's own. Returns 0, or CLI_MISUSE. */
static int common_options(bench *b, int *argc, char **argv)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        unsigned long long v;
        const char *value;
        char *end;
        bool threads = strncmp(argv[i], "--threads", 9) == 0;
        bool seconds = strncmp(argv[i], "--seconds", 9) == 0;
        if (strcmp(argv[i], "--json") == 0) {
            b->json = true;
            continue;
        }
        if ((!threads && !seconds) || (argv[i][9] != 0 && argv[i][9] != '=')) {
            argv[kept++] = argv[i];
            continue;
        }
        if (argv[i][9] == 0 && i + 1 == *argc)
            return cli_misuse(&cmd_bench, "option %.9s needs a value", argv[i]);
        value = argv[i][9] == '=' ? argv[i] + 10 : argv[++i];
        if (threads) {
            if (!cli_parse_u64(value, 1, 256, &v))
                return cli_misuse(&cmd_bench, "--threads wants 1 to 256, not \"%.32s\"", value);
            b->threads = (unsigned)v;
        } else {
            b->min_seconds = strtod(value, &end);
            if (end == value || *end || !(b->min_seconds > 0 && b->min_seconds <= 3600))
                return cli_misuse(&cmd_bench, "--seconds wants 0.001 to 3600, not \"%.32s\"",
                                  value);
        }
    }
    argv[kept] = NULL;
    *argc = kept;
    return 0;
}

static int run(int argc, char **argv)
{
    bench b = { .out = stdout, .threads = 1, .min_seconds = 0.5 };
    int rc = common_options(&b, &argc, argv);
    if (rc != 0)
        return rc;
    if (argc < 2 || strcmp(argv[1], "--list") == 0) {
        if (argc > 2 || b.json)
            return cli_misuse(&cmd_bench, "%.64s goes with the name of a benchmark",
                              argc > 2 ? argv[2] : "--json");
        return list_benches();
    }
    if (argv[1][0] == '-')
        return cli_misuse(&cmd_bench, "the benchmark's name comes first, not %.64s", argv[1]);
    const bench_def *def = find(argv[1]);
    if (!def) {
        const char *names[32] = { 0 };
        for (size_t i = 0; i < 31 && bench_list[i]; i++)
            names[i] = bench_list[i]->name;
        const char *near = suggest_name(argv[1], names);
        return near ? cli_misuse(&cmd_bench, "unknown benchmark \"%.64s\"; did you mean '%s'?",
                                 argv[1], near)
                    : cli_misuse(&cmd_bench, "unknown benchmark \"%.64s\"; 'sefl bench' lists them",
                                 argv[1]);
    }
    b.name = def->name;
    snprintf(b.head, sizeof b.head, "sefl bench %s  commit %s  %s", def->name, SEFL_BUILD_COMMIT,
             cpu_name());
    sefl_status st = def->run(&b, argc - 1, argv + 1);
    return st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_bench, st);
}

const cli_command cmd_bench = {
    .name = "bench",
    .summary = "measure this machine, beside the floor where there is one",
    .usage = "[NAME] [--threads N] [--seconds S] [--json] [options of NAME]",
    .details = "Without NAME: lists the benchmarks and their own options.\n"
               "  --threads N   threads to use (default 1)\n"
               "  --seconds S   time per case (default 0.5)\n"
               "  --json        one object a line: bench, case, value, unit, per_value, floor,\n"
               "                ratio, threads, commit, cpu; ratio 1.0 is the floor, larger is\n"
               "                worse",
    .example = "sefl bench base --json",
    .run = run,
};
