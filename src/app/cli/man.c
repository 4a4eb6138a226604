#include "cli/man.h"

#include "base/buf.h"
#include "base/dir.h"
#include "base/file.h"
#include "cli/options.h"
#if !SEFL_CORE_ONLY
#include "cli/full/config_kind.h"
#include "config/example.h"
#endif
#include "sefl/sefl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- roff ------------------------------------------------------------------------------------ */

/* Appends text for roff: escapes a leading dot or quote and every backslash and hyphen. */
static sefl_status roff(sefl_buf *out, sefl_span text)
{
    bool start = true;
    for (size_t i = 0; i < text.n; i++) {
        const char c = (char)text.p[i];
        if (start && (c == '.' || c == '\''))
            SEFL_PASS(wr_fmt(out, "\\&"));
        if (c == '\\' || c == '-')
            SEFL_PASS(wr_fmt(out, "\\%c", c == '-' ? '-' : 'e'));
        else
            SEFL_PASS(wr_u8(out, (uint8_t)c));
        start = c == '\n';
    }
    return SEFL_OK;
}

static sefl_status words(sefl_buf *out, const char *text)
{
    return roff(out, span_of_str(text));
}

/* The title line and NAME: "sefl-csp" in section 1 with its summary. */
static sefl_status title(sefl_buf *out, const char *name, int section, const char *summary)
{
    SEFL_PASS(wr_fmt(out, ".TH "));
    for (const char *p = name; *p; p++)
        SEFL_PASS(wr_fmt(out, "%s%c", *p == '-' ? "\\" : "", toupper((unsigned char)*p)));
    SEFL_PASS(wr_fmt(out, " %d \"\" \"SEFL %s\" \"%s\"\n.SH NAME\n", section, sefl_version(),
                     section == 1 ? "User Commands" : "File Formats"));
    SEFL_PASS(words(out, name));
    SEFL_PASS(wr_fmt(out, " \\- "));
    SEFL_PASS(words(out, summary));
    return wr_fmt(out, "\n");
}

/* ---- commands -------------------------------------------------------------------------------- */

static sefl_status main_page(sefl_buf *out)
{
    SEFL_PASS(title(out, "sefl", 1, "secure federated learning"));
    SEFL_PASS(wr_fmt(out, ".SH SYNOPSIS\n.B sefl\n.I COMMAND\n[options]\n.SH COMMANDS\n"
                          "Each command has a page of its own, such as\n.BR sefl\\-demo (1).\n"));
    for (const cli_entry *e = cli_commands; e->name; e++) {
        if (e->program == CLI_LAB && e[-1].program != CLI_LAB)
            SEFL_PASS(wr_fmt(out, ".SH COMMANDS OF THE LABORATORY\n.B sefl\nstarts the program\n"
                                  ".BR sefl\\-lab ,\nwhich has these commands.\n"));
        SEFL_PASS(wr_fmt(out, ".TP\n.BR sefl\\-%s (1)\n", e->name));
        SEFL_PASS(words(out, e->summary));
        SEFL_PASS(wr_fmt(out, "\n"));
    }
    return wr_fmt(out,
                  ".SH EXIT STATUS\n0: success. 1: failure. 2: wrong usage.\n"
                  ".SH ENVIRONMENT\n.TP\n.B SEFL_CPU\nInstruction sets to use, such as aes,avx2; "
                  "portable uses none.\n");
}

static sefl_status lab_page(sefl_buf *out)
{
    SEFL_PASS(title(out, "sefl-lab", 1, "the laboratory of secure federated learning"));
    return wr_fmt(out, ".SH SYNOPSIS\n.B sefl\\-lab\n.I COMMAND\n[options]\n.SH DESCRIPTION\n"
                       "Runs the commands that\n.BR sefl (1)\nlists as those of the laboratory; "
                       "\"sefl COMMAND\" does the same.\n");
}

/* The help of a command and of the commands that it has, with their lines of up to 80 columns. */
static sefl_status describe(sefl_buf *out, const cli_command *c)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { 0 };
    SEFL_TRY(wr_fmt(out, ".SS sefl %s\n.nf\n.in 0\n", c->name));
    SEFL_TRY(options_help(&text, c));
    SEFL_TRY(roff(out, buf_span(&text)));
    SEFL_TRY(wr_fmt(out, "\nexample:\n  "));
    SEFL_TRY(words(out, c->example));
    SEFL_TRY(wr_fmt(out, "\n.in\n.fi\n"));
    for (size_t i = 0; c->commands && c->commands[i]; i++)
        SEFL_TRY(describe(out, c->commands[i]));
done:
    buf_clear(&text);
    return st;
}

static bool has_file(const cli_command *c)
{
#if SEFL_CORE_ONLY
    (void)c;
    return false;
#else
    return config_kind_find(c->name) != NULL;
#endif
}

static sefl_status command_page(sefl_buf *out, const cli_command *c)
{
    char name[64];
    snprintf(name, sizeof name, "sefl-%s", c->name);
    SEFL_PASS(title(out, name, 1, cli_summary(c)));
    SEFL_PASS(wr_fmt(out, ".SH DESCRIPTION\n"));
    SEFL_PASS(describe(out, c));
    SEFL_PASS(wr_fmt(out, ".SH SEE ALSO\n.BR sefl (1)"));
    if (has_file(c))
        SEFL_PASS(wr_fmt(out, ",\n.BR sefl\\-%s.yml (5)", c->name));
    return wr_fmt(out, "\n");
}

/* ---- settings files -------------------------------------------------------------------------- */

#if !SEFL_CORE_ONLY
static sefl_status key(sefl_buf *out, const setting_def *d)
{
    char values[EXAMPLE_VALUES];
    example_values(values, d);
    SEFL_PASS(wr_fmt(out, ".TP\n.B "));
    SEFL_PASS(words(out, d->key));
    SEFL_PASS(wr_fmt(out, "\n"));
    if (d->help && *d->help) {
        SEFL_PASS(words(out, d->help));
        SEFL_PASS(wr_fmt(out, "; "));
    }
    SEFL_PASS(words(out, values));
    if (!d->fallback)
        SEFL_PASS(wr_fmt(out, "; required"));
    else if (*d->fallback) {
        SEFL_PASS(wr_fmt(out, "; default "));
        SEFL_PASS(words(out, d->fallback));
    }
    return wr_fmt(out, "\n");
}

static sefl_status kind_page(sefl_buf *out, const config_kind *k)
{
    char name[64];
    snprintf(name, sizeof name, "sefl-%s.yml", k->name);
    SEFL_PASS(title(out, name, 5, k->about));
    SEFL_PASS(wr_fmt(out,
                     ".SH DESCRIPTION\n%s contains one key and value per line, in YAML; "
                     "\"a.b: 1\" is the same as \"a: { b: 1 }\".\n",
                     k->file));
    SEFL_PASS(wr_fmt(out,
                     "Relative paths start at the folder of the file.\n"
                     "\"sefl init \\- \\-\\-for %s\" prints a commented file, and\n"
                     "\"sefl config check FILE \\-\\-for %s\" checks one.\n.SH KEYS\n",
                     k->name, k->name));
    for (const setting_def *d = config_kind_schema(k); d->key; d++)
        if (!d->unlisted)
            SEFL_PASS(key(out, d));
    return wr_fmt(out, ".SH SEE ALSO\n.BR sefl (1),\n.BR sefl\\-config (1)\n");
}
#endif

/* ---- all pages ------------------------------------------------------------------------------- */

static sefl_status save(const char *path, sefl_buf *page)
{
    SEFL_PASS(file_write_atomic(path, buf_span(page), 0644));
    buf_reset(page);
    return SEFL_OK;
}

sefl_status man_write(const char *folder)
{
    sefl_status st = SEFL_OK;
    sefl_buf page = { 0 };
    dir_tree d;
    const bool lab = cli_this == CLI_LAB;
    SEFL_TRY(dir_root(&d, folder));
    SEFL_TRY(file_make_folder(folder, 0755));
    SEFL_TRY(lab ? lab_page(&page) : main_page(&page));
    SEFL_TRY(save(dir_in(&d, lab ? "sefl-lab.1" : "sefl.1"), &page));
    for (const cli_entry *e = cli_commands; e->name; e++)
        if (e->command && (!lab || e->program == CLI_LAB)) {
            SEFL_TRY(command_page(&page, e->command));
            SEFL_TRY(save(dir_in(&d, "sefl-%s.1", e->name), &page));
        }
#if !SEFL_CORE_ONLY
    for (const config_kind *k = config_kinds; k->name && !lab; k++) {
        SEFL_TRY(kind_page(&page, k));
        SEFL_TRY(save(dir_in(&d, "sefl-%s.yml.5", k->name), &page));
    }
#endif
done:
    buf_clear(&page);
    return st;
}
