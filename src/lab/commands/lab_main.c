/* The program sefl-lab: the laboratory. */
#include "cli/cli.h"

#if !SEFL_CORE_ONLY
#include <openssl/crypto.h> /* `sefl bench ahe` compares with it */
#endif
#ifdef SEFL_MPI
#include "simulate/mpi/ranks_mpi.h"
#endif

#define SEFL(name)                    NULL
#define LAB(name)                     &cmd_##name
#define BOTH(name)                    &cmd_##name

#define ENTRY(program, name, summary) { CLI_##program, #name, summary, program(name) },
const cli_entry cli_commands[] = { CLI_COMMANDS(ENTRY){ 0 } };
const cli_program cli_this = CLI_LAB;

size_t cli_libraries(cli_library out[CLI_LIBRARIES_MAX])
{
    size_t n = 0;
    (void)out;
#if !SEFL_CORE_ONLY
    out[n++] = (cli_library){ "OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING) };
#endif
#ifdef SEFL_MPI
    out[n++] = (cli_library){ "MPI", ranks_mpi_version() };
#endif
    return n;
}

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
