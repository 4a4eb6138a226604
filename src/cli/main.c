#include "cli/cli.h"

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

int main(int argc, char **argv)
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
    if (cpu_unknown_word())
        fprintf(stderr,
                "sefl: SEFL_CPU: \"%.40s\" is not an instruction set; 'sefl version' lists them\n",
                cpu_unknown_word());
    const cli_command *c = cli_find(word);
    if (!c)
        return cli_unknown(word);
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            cli_print_help(c);
            return flush_stdout(c->name, CLI_DONE);
        }
    argc--, argv++;
    return flush_stdout(c->name, c->run ? c->run(argc, argv) : options_run(c, argc, argv));
}
