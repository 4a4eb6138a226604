/* print: results of a command on stdout.
 *
 *     SEFL_TRY(print_fields(lf_u64("words", n), lf_str("order", name)));     // {"words":3,...}
 *
 *     json j = json_into(&buf);                   // an object with lists in it
 *     json_open(&j, '{');
 *     json_fields(&j, lf_u64("clients", n), lf_if(page, lf_str("page", page)));
 *     ...
 *     SEFL_TRY(print_json(&j));                   // ends the value, clears the buffer
 *
 * main.c checks once, at the end, that stdout took everything. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"

void print_line(const sefl_buf *b);
/* Prints what a call wrote into the buffer, if it succeeded, and empties it; returns st. */
sefl_status print_made(sefl_status st, sefl_buf *b) SEFL_MUST_CHECK;
/* Ends the value, prints it and clears its buffer. */
sefl_status print_json(json *j) SEFL_MUST_CHECK;
/* The same as a command's last act: reports a failure and returns the exit code. */
int print_json_end(const cli_command *c, json *j);

/* An object in a list (key NULL), or as a member of an open object. */
#define json_object(j, key, ...) print_object_in((j), (key), LOG_FIELDS(__VA_ARGS__))
void print_object_in(json *j, const char *key, const log_field *fields);
/* One object on one line. */
#define print_fields(...) print_object(LOG_FIELDS(__VA_ARGS__))
sefl_status print_object(const log_field *fields) SEFL_MUST_CHECK;

/* "12.3 MB"; "0 B" for a number that is not known: printf("%s", human_bytes(n).text). */
typedef struct human {
    char text[16];
} human;
human human_bytes(double bytes);

#endif
