#include "cli/man.h"
#include "cli/options.h"

#include "sefl/sefl.h"

#include <stdio.h>
#include <string.h>

static void list_commands(void)
{
    printf("sefl %s: secure federated learning\n\n"
           "usage: sefl COMMAND [options]\n\ncommands:\n",
           sefl_version());
    for (const cli_entry *e = cli_commands; e->name; e++) {
        if (e->program == CLI_LAB && e[-1].program != CLI_LAB)
            printf("\ncommands of the laboratory (program sefl-lab):\n");
        printf("  %-10s %s\n", e->name, e->summary);
    }
    printf("\n'sefl COMMAND --help' describes a command and shows an example.\n");
}

static void complete_options(const cli_command *c, int indent)
{
    printf("%*s%s) options='--help", indent, "", cli_word(c));
    options_print_names(c);
    printf("'");
}

static void complete_command(const cli_command *c)
{
    complete_options(c, 4);
    printf(c == &cmd_help ? " actions=$commands'" : " actions='");
    for (size_t i = 0; c->commands && c->commands[i]; i++)
        printf("%s ", cli_word(c->commands[i]));
    for (const cli_action *a = c->actions; a->name; a++)
        printf("%s ", a->name);
    printf("'");
    if (c->commands)
        printf("\n        case ${COMP_WORDS[2]} in\n");
    for (size_t i = 0; c->commands && c->commands[i]; i++) {
        complete_options(c->commands[i], 8);
        printf(" ;;\n");
    }
    printf(c->commands ? "        esac ;;\n" : " ;;\n");
}

/* `sefl` writes the script, with the cases of the laboratory's commands from sefl-lab if it is
 * there; sefl-lab writes those cases and the end of the script. */
static void completion(void)
{
    if (cli_this == CLI_SEFL) {
        printf("# bash completion for sefl, written by 'sefl help --completion'\n_sefl()\n{\n"
               "    local cur=${COMP_WORDS[COMP_CWORD]} commands actions= options=\n"
               "    commands='");
        for (const cli_entry *e = cli_commands; e->name; e++)
            printf("%s ", e->name);
        printf("'\n    case ${COMP_WORDS[1]} in\n");
    }
    for (const cli_entry *e = cli_commands; e->name; e++)
        if (e->command && (cli_this == CLI_SEFL || e->program == CLI_LAB))
            complete_command(e->command);
    if (cli_this == CLI_SEFL && fflush(stdout) == 0)
        (void)!cli_start_lab((const char *[]){ "sefl", "help", "--completion", NULL });
    printf("    esac\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$commands\" -- \"$cur\")\n"
           "    elif [[ $cur == -* ]]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
           "    elif [ \"$COMP_CWORD\" -eq 2 ]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$actions\" -- \"$cur\")\n"
           "    fi\n}\ncomplete -o default -F _sefl sefl sefl-lab\n");
}

typedef struct wish {
    const char *command, *man;
    bool completion;
} wish;

static int cmd_help_run(void *options)
{
    const wish *w = options;
    const cli_entry *e = w->command ? cli_entry_find(w->command) : NULL;
    if (w->command && !e)
        return cli_unknown(NULL, w->command);
    if (w->man) {
        sefl_status st = man_write(w->man);
        return st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_help, st);
    }
    if (w->completion)
        completion();
    else if (e && e->command)
        cli_print_help(e->command);
    else if (e)
        return cli_other(e, (const char *[]){ "sefl", e->name, "--help", NULL });
    else
        list_commands();
    return CLI_DONE;
}

static const setting_def options[] = {
    { "man", SETTING_PATH, "", .arg = "FOLDER", .help = "Write all manual pages into FOLDER",
      SETTING_TO(wish, man) },
    { "completion", SETTING_FLAG, .help = "Print a completion script for bash",
      SETTING_TO(wish, completion) },
    { 0 },
};

const cli_command cmd_help = {
    .name = "help",
    .example = "sefl help bench",
    CLI_OPTIONS(wish),
    CLI_RUN(cmd_help_run, "[COMMAND]", NULL, offsetof(wish, command)),
};
