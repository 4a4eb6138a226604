#include "cli/cli.h"

#include "base/suggest.h"
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY(name) &cmd_##name,
const cli_command *const cli_commands[] = { CLI_COMMANDS(ENTRY) NULL };
#undef ENTRY

const cli_command *cli_find(const char *name)
{
    for (size_t i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    return NULL;
}

int cli_unknown(const char *word)
{
    const char *names[sizeof cli_commands / sizeof cli_commands[0]] = { 0 };
    for (size_t i = 0; cli_commands[i]; i++)
        names[i] = cli_commands[i]->name;
    const char *near = suggest_name(word, names);
    if (near)
        fprintf(stderr, "sefl: unknown command \"%.64s\"; did you mean '%s'?\n", word, near);
    else
        fprintf(stderr, "sefl: unknown command \"%.64s\"; 'sefl help' lists them\n", word);
    return CLI_MISUSE;
}

void cli_print_help(const cli_command *c)
{
    sefl_buf text = { 0 };
    printf("sefl %s: %s\n\n", c->name, c->summary);
    if (c->actions && options_help(&text, c) == SEFL_OK)
        printf("%.*s", (int)text.n, (const char *)text.p);
    else if (c->usage)
        printf("usage: sefl %s %s\n\n%s\n", c->name, c->usage, c->details);
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

int cli_bad_option(const cli_command *c, int argc, char **argv, int opt,
                   const struct option *longopts)
{
    const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
    if (opt == ':')
        return cli_misuse(c, "option %s needs a value", word);
    if (strncmp(word, "--", 2) == 0) {
        const char *names[33] = { 0 };
        char bare[64];
        for (size_t n = 0; n < 32 && longopts[n].name; n++)
            names[n] = longopts[n].name;
        snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word + 2, "="), word + 2);
        const char *near = suggest_name(bare, names);
        if (near && strcmp(near, bare) == 0)
            return cli_misuse(c, "option --%s takes no value", bare);
        if (near)
            return cli_misuse(c, "unknown option %s; did you mean --%s?", word, near);
        return cli_misuse(c, "unknown option %s", word);
    }
    return cli_misuse(c, "unknown option -%c", optopt);
}

const char *cli_plain(char *out, size_t n, const char *text)
{
    size_t i = 0;
    for (; i + 1 < n && text[i]; i++) {
        const unsigned char c = (unsigned char)text[i];
        /* C1 controls are U+0080 to U+009F, in UTF-8 0xc2 and the second byte */
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

bool cli_parse_u64(const char *text, unsigned long long min, unsigned long long max,
                   unsigned long long *out)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno != 0 || *end != 0 || v < min || v > max)
        return false;
    *out = v;
    return true;
}
