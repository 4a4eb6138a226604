#include "cli/cli.h"

#include "base/suggest.h"

#include <stdio.h>
#include <string.h>

static int unknown(const char *word)
{
    const char *names[64] = { 0 };
    for (size_t i = 0; i < 63 && cli_commands[i]; i++)
        names[i] = cli_commands[i]->name;
    const char *near = suggest_name(word, names);
    if (near)
        fprintf(stderr, "sefl: unknown command \"%.64s\"; did you mean '%s'?\n", word, near);
    else
        fprintf(stderr, "sefl: unknown command \"%.64s\"; 'sefl help' lists them\n", word);
    return CLI_MISUSE;
}

static int flush_stdout(const char *what, int rc)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "sefl %s: cannot write the result to standard output\n", what);
        return rc == CLI_DONE ? CLI_FAILED : rc;
    }
    return rc;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        char name[] = "help";
        cmd_help.run(1, (char *[]){ name, NULL });
        return CLI_MISUSE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        word = "help";
    else if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        word = "version";
    const cli_command *c = cli_find(word);
    if (!c)
        return unknown(word);
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            cli_print_help(c);
            return flush_stdout(c->name, CLI_DONE);
        }
    return flush_stdout(c->name, c->run(argc - 1, argv + 1));
}
