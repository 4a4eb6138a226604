#include "cli/print.h"

#include <stdio.h>

void print_line(const sefl_buf *b)
{
    if (b->n > 0)
        fwrite(b->p, 1, b->n, stdout);
    putchar('\n');
}

sefl_status print_json(json *j)
{
    sefl_status st = json_end(j);
    if (st == SEFL_OK)
        print_line(j->out);
    return st;
}

int print_json_end(const cli_command *c, json *j)
{
    sefl_status st = print_json(j);
    buf_clear(j->out);
    return st == SEFL_OK ? CLI_DONE : cli_failed(c, st);
}
