/* The program sefl. */
#include "cli/cli.h"

#define SEFL(name)                    &cmd_##name
#define LAB(name)                     NULL
#define BOTH(name)                    &cmd_##name

#define ENTRY(program, name, summary) { CLI_##program, #name, summary, program(name) },
const cli_entry cli_commands[] = { CLI_COMMANDS(ENTRY){ 0 } };
const cli_program cli_this = CLI_SEFL;

size_t cli_libraries(cli_library out[CLI_LIBRARIES_MAX])
{
    (void)out;
    return 0;
}

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
