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

sefl_status print_object(const log_field *fields)
{
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    log_fields_json(&j, fields);
    json_close(&j, '}');
    sefl_status st = print_json(&j);
    buf_clear(&b);
    return st;
}

void human_bytes(char out[16], uint64_t bytes)
{
    static const char *const unit[] = { "B", "kB", "MB", "GB", "TB" };
    double x = (double)bytes;
    unsigned u = 0;
    for (; x >= 1000 && u < 4; u++)
        x /= 1000;
    snprintf(out, 16, u == 0 ? "%.0f %s" : "%.1f %s", x, unit[u]);
}
