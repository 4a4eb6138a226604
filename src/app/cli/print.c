#include "cli/print.h"

#include <math.h>
#include <stdio.h>

sefl_status print_made(sefl_status st, sefl_buf *b)
{
    if (st == SEFL_OK && b->n > 0)
        fwrite(b->p, 1, b->n, stdout);
    if (st == SEFL_OK)
        putchar('\n');
    buf_clear(b);
    return st;
}

sefl_status print_json(json *j)
{
    return print_made(json_end(j), j->out);
}

int print_json_end(const cli_command *c, json *j)
{
    sefl_status st = print_json(j);
    return st == SEFL_OK ? CLI_DONE : cli_failed(c, st);
}

void print_object_in(json *j, const char *key, const log_field *fields)
{
    if (key)
        json_key(j, key);
    json_open(j, '{');
    log_fields_json(j, fields);
    json_close(j, '}');
}

sefl_status print_object(const log_field *fields)
{
    sefl_buf b = { 0 };
    json j = json_into(&b);
    print_object_in(&j, NULL, fields);
    return print_json(&j);
}

human human_bytes(double bytes)
{
    human out;
    static const char *const unit[] = { "B", "kB", "MB", "GB", "TB" };
    double x = isfinite(bytes) ? bytes : 0;
    unsigned u = 0;
    for (; x >= 999.95 && u < 4; u++)
        x /= 1000;
    snprintf(out.text, sizeof out.text, u == 0 ? "%.0f %s" : "%.1f %s", x, unit[u]);
    return out;
}
