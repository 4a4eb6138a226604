#include "base/cpu.h"
#include "cli/options.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int flush_stdout(const char *what, int rc)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "sefl %s: cannot write to standard output\n", what);
        return rc == CLI_DONE ? CLI_FAILED : rc;
    }
    return rc;
}

int cli_other(const cli_entry *e, const char *const *argv)
{
    if (cli_this == CLI_SEFL)
        (void)!cli_start_lab(argv);
    else
        (void)!sefl_fail(SEFL_EINVAL, "this command is in the program sefl");
    fprintf(stderr, "sefl %s: %s\n", e->name, sefl_last_error());
    return cli_this == CLI_SEFL ? CLI_FAILED : CLI_MISUSE;
}

int cli_main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* beyond `ulimit -f` a write fails with an error */
    if (argc < 2) {
        char name[] = "help";
        options_run(&cmd_help, 1, (char *[]){ name, NULL });
        return CLI_MISUSE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        word = "help";
    else if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        word = "version";
    const cli_entry *e = cli_entry_find(word);
    if (!e)
        return cli_unknown(NULL, word);
    if (!e->command)
        return cli_other(e, (const char *const *)argv);
    if (cpu_unknown_word())
        fprintf(stderr,
                "sefl: SEFL_CPU: \"%.40s\" is not an instruction set; 'sefl version' lists them\n",
                cpu_unknown_word());
    const cli_command *c = e->command;
    argc--, argv++;
    if (c->commands && argc > 1 && argv[1][0] != '-') {
        const cli_command *parent = c;
        c = cli_find(parent, argv[1]);
        if (!c)
            return cli_unknown(parent, argv[1]);
        argc--, argv++;
    }
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            cli_print_help(c);
            return flush_stdout(c->name, CLI_DONE);
        }
    return flush_stdout(c->name, options_run(c, argc, argv));
}
