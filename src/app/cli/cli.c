#include "cli/cli.h"

#include "base/suggest.h"
#include "cli/options.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COMMANDS_MAX = 64 }; /* of which cli_unknown chooses */

const char *cli_word(const cli_command *c)
{
    const char *space = strrchr(c->name, ' ');
    return space ? space + 1 : c->name;
}

const cli_command *cli_find(const cli_command *parent, const char *word)
{
    const cli_command *const *c = parent->commands;
    while (*c && strcmp(cli_word(*c), word) != 0)
        c++;
    return *c;
}

const cli_entry *cli_entry_find(const char *word)
{
    for (const cli_entry *e = cli_commands; e->name; e++)
        if (strcmp(e->name, word) == 0)
            return e;
    return NULL;
}

const char *cli_summary(const cli_command *c)
{
    return c->summary ? c->summary : cli_entry_find(c->name)->summary;
}

sefl_status cli_start_lab(const char *const *argv)
{
    char path[PATH_MAX + 16];
    const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    SEFL_NEED(n > 0 && n < PATH_MAX, SEFL_EIO,
              "cannot find this program's file: /proc/self/exe: %s", strerror(errno));
    path[n] = 0;
    strcpy(strrchr(path, '/') + 1, "sefl-lab");
    execv(path, (char *const *)(uintptr_t)argv); /* execv changes nothing there */
    const sefl_status st = errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO;
    return sefl_fail(st, "a command of the laboratory: cannot start %s: %s%s", path,
                     strerror(errno), st == SEFL_ENOTFOUND ? " (Debian package sefl-lab)" : "");
}

int cli_unknown(const cli_command *parent, const char *word)
{
    const char *names[COMMANDS_MAX + 1] = { 0 };
    for (size_t i = 0;
         i < COMMANDS_MAX && (parent ? !!parent->commands[i] : !!cli_commands[i].name); i++)
        names[i] = parent ? cli_word(parent->commands[i]) : cli_commands[i].name;
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
    printf("sefl %s: %s\n\n", c->name, cli_summary(c));
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
