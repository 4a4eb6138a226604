#include "cli/cli.h"

#include "base/suggest.h"
#include "cli/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { COMMANDS_MAX = 64 }; /* of which cli_unknown chooses */

#define ENTRY(name) &cmd_##name,
const cli_command *const cli_commands[] = { CLI_COMMANDS(ENTRY) NULL };
#undef ENTRY

const char *cli_word(const cli_command *c)
{
    const char *space = strrchr(c->name, ' ');
    return space ? space + 1 : c->name;
}

const cli_command *cli_find(const cli_command *parent, const char *word)
{
    const cli_command *const *c = parent ? parent->commands : cli_commands;
    while (*c && strcmp(cli_word(*c), word) != 0)
        c++;
    return *c;
}

int cli_unknown(const cli_command *parent, const char *word)
{
    const cli_command *const *c = parent ? parent->commands : cli_commands;
    const char *names[COMMANDS_MAX + 1] = { 0 };
    for (size_t i = 0; i < COMMANDS_MAX && c[i]; i++)
        names[i] = cli_word(c[i]);
    const char *near = suggest_name(word, names);
    fprintf(stderr, "sefl%s%s: unknown command \"%.64s\"; ", parent ? " " : "",
            parent ? parent->name : "", word);
    if (near)
        fprintf(stderr, "did you mean '%s'?\n", near);
    else
        fprintf(stderr, "'sefl %s' lists them\n", parent ? parent->name : "help");
    return CLI_MISUSE;
}

void cli_print_help(const cli_command *c)
{
    sefl_buf text = { 0 };
    printf("sefl %s: %s\n\n", c->name, c->summary);
    if (options_help(&text, c) == SEFL_OK)
        printf("%.*s", (int)text.n, (const char *)text.p);
    printf("\nexample:\n  %s\n", c->example);
    buf_clear(&text);
}

int cli_misuse(const cli_command *c, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "sefl %s: ", c->name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\ntry 'sefl %s --help'\n", c->name);
    return CLI_MISUSE;
}

const char *cli_plain(char *out, size_t n, const char *text)
{
    size_t i = 0;
    for (; i + 1 < n && text[i]; i++) {
        const unsigned char c = (unsigned char)text[i];
        /* C1 controls are U+0080 to U+009F: 0xc2 and the second byte in UTF-8 */
        const bool c1 = c >= 0x80 && c < 0xa0 && i > 0 && (unsigned char)text[i - 1] == 0xc2;
        out[i] = c < 32 || c == 127 ? '?' : text[i];
        if (c1)
            out[i - 1] = out[i] = '?';
    }
    out[i] = 0;
    return out;
}

int cli_failed(const cli_command *c, sefl_status st)
{
    const char *why = sefl_last_error();
    char plain[1024];
    fprintf(stderr, "sefl %s: %s\n", c->name,
            cli_plain(plain, sizeof plain, *why ? why : sefl_status_text(st)));
    return st == SEFL_EINVAL ? CLI_MISUSE : CLI_FAILED;
}
