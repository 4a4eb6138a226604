/* print: prints the results of a command to stdout.
 *
 *     SEFL_TRY(print_fields(lf_u64("words", n), lf_str("order", name)));     // {"words":3,...}
 *
 *     json j = json_into(&buf);                   // an object that contains lists
 *     json_open(&j, '{');
 *     json_fields(&j, lf_u64("clients", n), lf_if(page, lf_str("page", page)));
 *     ...
 *     SEFL_TRY(print_json(&j));                   // prints the value, clears the buffer
 *
 * main.c checks for write errors on stdout once, at the end. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"

/* Prints the buffer and a newline if st is SEFL_OK, and clears the buffer; returns st. */
sefl_status print_made(sefl_status st, sefl_buf *b) SEFL_MUST_CHECK;
/* Completes the value, prints it and clears its buffer. */
sefl_status print_json(json *j) SEFL_MUST_CHECK;
/* Calls print_json at the end of a command: reports a failure and returns the exit code. */
int print_json_end(const cli_command *c, json *j);

/* Writes an object as an item of a list (key NULL) or as a member of an open object. */
#define json_object(j, key, ...) print_object_in((j), (key), LOG_FIELDS(__VA_ARGS__))
void print_object_in(json *j, const char *key, const log_field *fields);
/* Prints one object on one line. */
#define print_fields(...) print_object(LOG_FIELDS(__VA_ARGS__))
sefl_status print_object(const log_field *fields) SEFL_MUST_CHECK;

/* Formats a size as "12.3 MB", and NAN or infinity as "0 B": printf("%s", human_bytes(n).text). */
typedef struct human {
    char text[16];
} human;
human human_bytes(double bytes);

#endif
