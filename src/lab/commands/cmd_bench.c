#include "bench/bench.h"

typedef struct wish {
    bench b;
    const char *name;
    bool list;
} wish;

static int list_benches(void *options)
{
    const wish *w = options;
    if (w->name || w->b.json)
        return cli_misuse(&cmd_bench,
                          "the benchmark's name comes first: sefl bench NAME [options]");
    for (const cli_command *const *c = bench_list; *c; c++) {
        sefl_buf text = { 0 };
        printf("%-8s %s\n", cli_word(*c), (*c)->summary);
        if (options_list(&text, *c, &cmd_bench) == SEFL_OK)
            printf("%.*s", (int)text.n, (const char *)text.p);
        buf_clear(&text);
    }
    return CLI_DONE;
}

static const setting_def options[] = {
    BENCH_OPTIONS,
    { "list", SETTING_FLAG, .help = "List the benchmarks and their options",
      SETTING_TO(wish, list) },
    { 0 },
};

const cli_command cmd_bench = {
    .name = "bench",
    .about = "Runs the benchmark NAME. Without NAME, lists the benchmarks and their options. 'sefl "
             "bench NAME --help' describes one benchmark.",
    .example = "sefl bench text --json",
    .commands = bench_list,
    CLI_OPTIONS(wish),
    CLI_RUN(list_benches, "[NAME]", NULL, offsetof(wish, name)),
};
