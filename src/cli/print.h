/* print: a result of --json, a line on stdout.
 *
 *     json j = json_into(&buf);
 *     ...
 *     SEFL_TRY(print_json(&j));                 // ends the value; nothing is printed if it failed
 *
 * That stdout took it is asked once, at the program's end (main.c). */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include "base/json.h"
#include "cli/cli.h"

void print_line(const sefl_buf *b);
sefl_status print_json(json *j) SEFL_MUST_CHECK;
/* The same as a command's last act: clears the buffer, says what went wrong, gives the exit code. */
int print_json_end(const cli_command *c, json *j);

#endif
