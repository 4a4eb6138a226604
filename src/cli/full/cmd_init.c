/* sefl init: a new file of settings, every key with its comment. */
#include "cli/cli.h"
#include "cli/full/config_kind.h"
#include "cli/output.h"

#include "base/file.h"
#include "base/suggest.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { O_FOR = 256, O_FORCE };

static const struct option longopts[] = {
    { "for", required_argument, NULL, O_FOR },
    { "force", no_argument, NULL, O_FORCE },
    { 0 },
};

static sefl_status work(const config_kind *k, const char *path, bool force)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    bool to_stdout = strcmp(path, "-") == 0;
    if (!to_stdout)
        SEFL_TRY(output_check(path, NULL, force));
    SEFL_TRY(config_kind_write(&b, k));
    if (to_stdout) {
        printf("%.*s", (int)b.n, (const char *)b.p);
        goto done;
    }
    SEFL_TRY(file_write_atomic(path, buf_span(&b), 0644));
    printf("%s: %s\n", path, k->about);
    if (k == config_kinds)
        printf("next:\n  sefl config check %s\n  sefl simulate -c %s\n", path, path);
    else
        printf("next:\n  sefl config check %s --for %s\n", path, k->name);
done:
    buf_clear(&b);
    return st;
}

static int run(int argc, char **argv)
{
    const config_kind *k = NULL;
    bool force = false;
    opterr = 0, optind = 1;
    for (int c; (c = getopt_long(argc, argv, ":", longopts, NULL)) != -1;) {
        if (c == O_FORCE)
            force = true;
        else if (c != O_FOR)
            return cli_bad_option(&cmd_init, argc, argv, c, longopts);
        else if (!(k = config_kind_find(optarg)))
            return cli_misuse(&cmd_init,
                              "--for is experiment, aggregator, csp, client, policy or task, not "
                              "\"%.32s\"",
                              optarg);
    }
    if (optind + 1 < argc)
        return cli_misuse(&cmd_init, "one file, not \"%.64s\" too", argv[optind + 1]);
    if (!k)
        k = optind < argc ? config_kind_of(argv[optind]) : config_kinds;
    sefl_status st = work(k, optind < argc ? argv[optind] : k->file, force);
    if (st == SEFL_OK)
        return CLI_DONE;
    cli_failed(&cmd_init, st);
    return CLI_FAILED;
}

const cli_command cmd_init = {
    .name = "init",
    .summary = "write a commented file of settings to begin with",
    .usage = "[FILE] [--for KIND] [--force]",
    .details = "FILE (experiment.yml; - is standard output) gets every key with its default and\n"
               "what it is for. Keys come from the tables that the program itself reads by.\n"
               "  --for KIND      experiment (default), aggregator, csp, client, policy or task;\n"
               "                  a FILE of such a name tells by itself\n"
               "  --force         write over a file that is there",
    .example = "sefl init experiment.yml",
    .run = run,
};
