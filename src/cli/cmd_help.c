#include "cli/cli.h"

#include "bench/bench.h"
#include "sefl/sefl.h"

#include <stdio.h>
#include <string.h>

static void list_commands(void)
{
    printf("sefl %s: secure federated learning for language models\n\n"
           "usage: sefl COMMAND [options]\n\ncommands:\n",
           sefl_version());
    for (size_t i = 0; cli_commands[i]; i++)
        printf("  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    printf("\n'sefl COMMAND --help' says more, with an example.\n");
}

/* Text for roff: a leading dot or quote and every backslash and hyphen are escaped. */
static void roff(const char *s)
{
    for (bool start = true; *s; s++) {
        if (start && (*s == '.' || *s == '\''))
            fputs("\\&", stdout);
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '-')
            fputs("\\-", stdout);
        else
            putchar(*s);
        start = *s == '\n';
    }
}

static void man_page(void)
{
    printf(".TH SEFL 1 \"\" \"SEFL %s\" \"User Commands\"\n.SH NAME\n"
           "sefl \\- secure federated learning for language models\n"
           ".SH SYNOPSIS\n.B sefl\n.I COMMAND\n[options]\n.SH COMMANDS\n",
           sefl_version());
    for (size_t i = 0; cli_commands[i]; i++) {
        const cli_command *c = cli_commands[i];
        printf(".SS sefl %s\n", c->name);
        roff(c->summary);
        printf(".\n.PP\n.nf\n.in 0\nusage: sefl %s ", c->name);
        roff(c->usage);
        printf("\n.in\n.fi\n");
        if (*c->details) {
            printf(".PP\n.nf\n.in 0\n"); /* lines of up to 80 columns as they are */
            roff(c->details);
            printf("\n.in\n.fi\n");
        }
        printf(".PP\n.nf\n.in 0\nexample:\n  ");
        roff(c->example);
        printf("\n.in\n.fi\n");
    }
    printf(".SH EXIT STATUS\n0: done. 1: failed. 2: wrong usage.\n"
           ".SH ENVIRONMENT\n.TP\n.B SEFL_CPU\nInstruction sets to use, such as aes,avx2; "
           "portable uses none.\n");
}

/* Every --word of a text once; `seen` is what was printed before. */
static void print_options(const char *text, char *seen, size_t cap)
{
    for (const char *p = text; (p = strstr(p, "--")) != NULL;) {
        size_t n = 2 + strspn(p + 2, "abcdefghijklmnopqrstuvwxyz0123456789-");
        char word[64];
        snprintf(word, sizeof word, " %.*s ", (int)n, p);
        if (n > 2 && (p == text || strchr(" [(\n", p[-1])) && !strstr(seen, word) &&
            strlen(seen) + n + 3 < cap) {
            strcat(seen, word);
            printf(" %.*s", (int)n, p);
        }
        p += n;
    }
}

static void completion(void)
{
    printf("# bash completion for sefl, written by 'sefl help --completion'\n_sefl()\n{\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} commands actions= options=\n    commands='");
    for (size_t i = 0; cli_commands[i]; i++)
        printf("%s%s", i ? " " : "", cli_commands[i]->name);
    printf("'\n    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        const cli_command *c = cli_commands[i];
        char seen[2048] = " --help ";
        printf("    %s) options='--help", c->name);
        print_options(c->usage, seen, sizeof seen);
        print_options(c->details, seen, sizeof seen);
        printf("'");
        if (c == &cmd_help)
            printf(" actions=$commands");
        else if (c == &cmd_bench) {
            printf(" actions='");
            for (size_t b = 0; bench_list[b]; b++)
                printf("%s%s", b ? " " : "", bench_list[b]->name);
            printf("'");
        } else if (c->actions)
            printf(" actions='%s'", c->actions);
        printf(" ;;\n");
    }
    printf("    esac\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$commands\" -- \"$cur\")\n"
           "    elif [[ $cur == -* ]]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
           "    elif [ \"$COMP_CWORD\" -eq 2 ]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$actions\" -- \"$cur\")\n"
           "    fi\n}\ncomplete -o default -F _sefl sefl\n");
}

static int run(int argc, char **argv)
{
    if (argc == 1) {
        list_commands();
        return CLI_DONE;
    }
    if (argc > 2)
        return cli_misuse(&cmd_help, "one command at a time, not \"%.64s\" too", argv[2]);
    if (strcmp(argv[1], "--man") == 0) {
        man_page();
        return CLI_DONE;
    }
    if (strcmp(argv[1], "--completion") == 0) {
        completion();
        return CLI_DONE;
    }
    const cli_command *c = cli_find(argv[1]);
    if (!c)
        return cli_unknown(argv[1]);
    cli_print_help(c);
    return CLI_DONE;
}

const cli_command cmd_help = {
    .name = "help",
    .summary = "list the commands, or explain one",
    .usage = "[COMMAND | --man | --completion]",
    .details = "  --man          the manual page, as roff\n"
               "  --completion   completion for bash",
    .example = "sefl help bench",
    .run = run,
};
