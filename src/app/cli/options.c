#include "cli/options.h"

#include "base/alloc.h"
#include "base/suggest.h"
#include "cli/interrupt.h"

#include <ctype.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { OPTIONS_MAX = 96, ACTIONS_MAX = 16, FIRST = 256, WIDTH = 80, COLUMN_MAX = 24 };

/* ---- the options of an action ---------------------------------------------------------------- */

typedef struct entry {
    char name[SETTING_OPTION_BYTES];
    const setting_def *def;
    bool is_setting; /* from the command's schema, not from its options */
} entry;

bool options_listed(const char *words, const char *name)
{
    return setting_word(words, name) >= 0;
}

static bool has_option(const cli_action *a, const char *name)
{
    return !a->takes || options_listed(a->needs, name) || options_listed(a->takes, name);
}

static void options_add(entry *out, size_t *n, const char *name, const setting_def *def,
                        bool is_setting)
{
    if (!def || *n == OPTIONS_MAX)
        return;
    entry *e = &out[(*n)++];
    setting_option(e->name, name);
    e->def = def;
    e->is_setting = is_setting;
}

static const setting_def *schema_of(const cli_command *c)
{
    return c->make_schema ? c->make_schema() : c->schema;
}

static size_t collect(entry out[OPTIONS_MAX], const cli_command *c, const cli_action *a)
{
    size_t n = 0;
    const setting_def *schema = schema_of(c);
    for (const setting_def *d = c->options; d && d->key; d++) {
        char name[SETTING_OPTION_BYTES];
        setting_option(name, d->key);
        if (has_option(a, name))
            options_add(out, &n, name, d, false);
    }
    for (const cli_shortcut *s = c->shortcuts; s && s->option; s++)
        options_add(out, &n, s->option, setting_find(schema, s->key), true);
    for (const setting_def *d = schema; c->every_setting && d && d->key; d++)
        options_add(out, &n, d->key, d, true);
    return n;
}

static bool is_flag(const entry *e)
{
    return e->def->type == SETTING_FLAG;
}

static const cli_action any_action = { .name = "" }; /* takes all options */

void options_print_names(const cli_command *c)
{
    entry e[OPTIONS_MAX];
    size_t n = collect(e, c, &any_action);
    for (size_t i = 0; i < n; i++)
        printf(" --%s", e[i].name);
}

/* ---- help ------------------------------------------------------------------------------------ */

/* Appends text to out, wrapped at WIDTH columns and indented by `indent`. at: the column that the
 * current line has reached. */
static sefl_status wrap(sefl_buf *out, size_t at, size_t indent, const char *text)
{
    bool fresh = true; /* at the beginning of a line of the text */
    size_t lead = 0;   /* extra indent after a line that begins with spaces */
    for (const char *p = text; *p;) {
        size_t blanks = strspn(p, " "), n = strcspn(p + blanks, " \n");
        if (fresh)
            lead = blanks ? blanks + 4 : 0;
        if (!fresh && at + blanks + n > WIDTH - 1) {
            SEFL_PASS(wr_fmt(out, "\n%*s", (int)(indent + lead), ""));
            at = indent + lead, p += blanks, blanks = 0;
        }
        SEFL_PASS(wr_fmt(out, "%.*s", (int)(blanks + n), p));
        at += blanks + n, p += blanks + n;
        fresh = false;
        if (*p == '\n') {
            SEFL_PASS(wr_fmt(out, p[1] == '\n' ? "\n" : "\n%*s", (int)indent, ""));
            at = indent, fresh = true, p++;
        }
    }
    return wr_fmt(out, "\n");
}

static const char *placeholder(const setting_def *d)
{
    static const char *const by_type[] = {
        [SETTING_TEXT] = "TEXT",         [SETTING_PATH] = "FILE",       [SETTING_WORD] = "WORD",
        [SETTING_CHOICE] = "WORD",       [SETTING_BOOL] = "true|false", [SETTING_U64] = "N",
        [SETTING_DECIMAL] = "X",         [SETTING_REAL] = "X",          [SETTING_LIST] = "TEXT",
        [SETTING_ADDRESS] = "HOST:PORT",
    };
    return d->arg ? d->arg : by_type[d->type];
}

/* "--out DIR", "-c, --config FILE", "--json". */
static void signature(char *out, size_t n, const entry *e)
{
    char letter[8] = "";
    if (e->def->letter)
        snprintf(letter, sizeof letter, "-%c, ", e->def->letter);
    snprintf(out, n, "%s--%.64s%s%s", letter, e->name, is_flag(e) ? "" : " ",
             is_flag(e) ? "" : placeholder(e->def));
}

/* Writes "a, b or c" for words that are separated by spaces. */
static sefl_status list_words(sefl_buf *out, const char *words)
{
    for (const char *p = words; *p;) {
        size_t n = strcspn(p, " ");
        const char *next = p + n + strspn(p + n, " ");
        const char *before = p == words ? "" : *next ? ", " : " or ";
        SEFL_PASS(wr_fmt(out, "%s%.*s", before, (int)n, p));
        p = next;
    }
    return SEFL_OK;
}

/* Writes the range and default of an option: " (1 to 1000; default 8)". */
static sefl_status limits(sefl_buf *out, const entry *e)
{
    const setting_def *d = e->def;
    const bool number =
        d->type == SETTING_U64 || d->type == SETTING_DECIMAL || d->type == SETTING_REAL;
    const bool none = (d->type == SETTING_U64 ? d->min > 0 : d->type == SETTING_REAL && !d->max) &&
                      d->fallback && strcmp(d->fallback, "0") == 0; /* 0 means "not set" */
    const bool says = d->fallback && *d->fallback && !is_flag(e) && !none;
    SEFL_PASS(wr_fmt(out, " ("));
    const size_t before = out->n;
    if (d->words)
        SEFL_PASS(list_words(out, d->words));
    else if (number && d->max > 0)
        SEFL_PASS(wr_fmt(out, "%" PRIu64 " to %" PRIu64, d->min, d->max));
    if (says)
        SEFL_PASS(wr_fmt(out, "%sdefault %s", out->n > before ? "; " : "", d->fallback));
    if (out->n > before)
        return wr_fmt(out, ")");
    out->n -= 2;
    return SEFL_OK;
}

static bool is_shared(const cli_command *c, const entry *e)
{
    size_t n = 0;
    for (const cli_action *a = c->actions; a->name; a++)
        n += has_option(a, e->name);
    return n > 1;
}

/* Writes the names of the actions that have the option: " [new, check]". */
static sefl_status list_actions(sefl_buf *out, const cli_command *c, const entry *e)
{
    size_t n = 0;
    for (const cli_action *a = c->actions; a->name; a++)
        if (has_option(a, e->name))
            SEFL_PASS(wr_fmt(out, "%s%s", n++ ? ", " : " [", a->name));
    return wr_fmt(out, "]");
}

/* Writes an option with its help text, range and, if several actions have it, their names. */
static sefl_status help_line(sefl_buf *out, const cli_command *c, const entry *e, const char *name,
                             size_t column)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { 0 };
    const size_t indent = column + 4;
    SEFL_TRY(wr_fmt(&text, "%s", e->def->help ? e->def->help : ""));
    SEFL_TRY(limits(&text, e));
    if (!e->is_setting && is_shared(c, e))
        SEFL_TRY(list_actions(&text, c, e));
    SEFL_TRY(wr_u8(&text, 0));
    text.p[0] = (uint8_t)toupper(text.p[0]);
    SEFL_TRY(wr_fmt(out, "  %-*s  ", (int)column, name));
    if (strlen(name) > column)
        SEFL_TRY(wr_fmt(out, "\n%*s", (int)indent, ""));
    SEFL_TRY(wrap(out, indent, indent, (const char *)text.p));
done:
    buf_clear(&text);
    return st;
}

static sefl_status help_options(sefl_buf *out, const cli_command *c, const entry *e, size_t n)
{
    char name[96];
    size_t column = 0;
    for (size_t i = 0; i < n; i++) {
        signature(name, sizeof name, &e[i]);
        if (strlen(name) > column && strlen(name) <= COLUMN_MAX)
            column = strlen(name);
    }
    for (size_t i = 0; i < n; i++) {
        signature(name, sizeof name, &e[i]);
        SEFL_PASS(help_line(out, c, &e[i], name, column));
    }
    return SEFL_OK;
}

sefl_status options_list(sefl_buf *out, const cli_command *c, const cli_command *parent)
{
    entry e[OPTIONS_MAX];
    size_t n = collect(e, c, &any_action), own = 0;
    for (size_t i = 0; i < n; i++)
        if (!setting_find(parent->options, e[i].def->key))
            e[own++] = e[i];
    return help_options(out, c, e, own);
}

static sefl_status help_settings(sefl_buf *out, const cli_command *c, const setting_def *schema)
{
    for (const setting_def *d = schema; d && d->key; d++)
        SEFL_PASS(
            help_line(out, c, &(entry){ .def = d, .is_setting = true }, d->key, COLUMN_MAX + 2));
    return SEFL_OK;
}

/* Writes "sefl data split PATH --out DIR [options]". */
static sefl_status help_usage(sefl_buf *out, const cli_command *c, const cli_action *a)
{
    sefl_status st = SEFL_OK;
    entry e[OPTIONS_MAX];
    char name[96];
    size_t n = collect(e, c, a), more = 0;
    sefl_buf line = { 0 };
    SEFL_TRY(wr_fmt(&line, "sefl %s%s%s", c->name, *a->name ? " " : "", a->name));
    if (a->arg)
        SEFL_TRY(wr_fmt(&line, " %s", a->arg));
    for (size_t i = 0; i < n; i++) {
        if (!options_listed(a->needs, e[i].name)) {
            more++;
            continue;
        }
        signature(name, sizeof name, &e[i]);
        if (e[i].def->letter)
            SEFL_TRY(wr_fmt(&line, " -%c %s", e[i].def->letter, placeholder(e[i].def)));
        else
            SEFL_TRY(wr_fmt(&line, " %s", name));
    }
    SEFL_TRY(wr_fmt(&line, "%s%c", more ? " [options]" : "", 0));
    SEFL_TRY(wr_fmt(out, "%s", a == c->actions ? "usage: " : "       "));
    SEFL_TRY(wrap(out, 7, 11, (const char *)line.p));
done:
    buf_clear(&line);
    return st;
}

/* Selects the options of an action that other actions share, or those that no other action has. */
static size_t select_options(entry e[OPTIONS_MAX], const cli_command *c, const cli_action *a,
                             bool shared)
{
    size_t n = collect(e, c, a), kept = 0;
    for (size_t i = 0; i < n; i++)
        if (is_shared(c, &e[i]) == shared)
            e[kept++] = e[i];
    return kept;
}

static sefl_status help_action(sefl_buf *out, const cli_command *c, const cli_action *a)
{
    entry e[OPTIONS_MAX];
    size_t own = select_options(e, c, a, false);
    if (own == 0 && !a->about)
        return SEFL_OK;
    SEFL_PASS(wr_fmt(out, "\n%s%s", a->name, *a->name ? ": " : ""));
    if (a->about)
        SEFL_PASS(wrap(out, strlen(a->name) + 2, *a->name ? 4 : 0, a->about));
    else
        SEFL_PASS(wr_fmt(out, "options:\n"));
    return help_options(out, c, e, own);
}

sefl_status options_help(sefl_buf *out, const cli_command *c)
{
    entry e[OPTIONS_MAX];
    for (const cli_action *a = c->actions; a->name; a++)
        SEFL_PASS(help_usage(out, c, a));
    if (c->about) {
        SEFL_PASS(wr_fmt(out, "\n"));
        SEFL_PASS(wrap(out, 0, 0, c->about));
    }
    for (const cli_action *a = c->actions; a->name; a++)
        SEFL_PASS(help_action(out, c, a));
    size_t shared = select_options(e, c, &any_action, true);
    if (shared > 0) {
        SEFL_PASS(wr_fmt(out, "\noptions of several actions:\n"));
        SEFL_PASS(help_options(out, c, e, shared));
    }
    if (c->list_settings) {
        SEFL_PASS(wr_fmt(out, "\nsettings for --set and --set-file:\n"));
        SEFL_PASS(help_settings(out, c, schema_of(c)));
    }
    if (c->notes) {
        SEFL_PASS(wr_fmt(out, "\n"));
        SEFL_PASS(wrap(out, 0, 0, c->notes));
    }
    return help_settings(out, c, c->noted);
}

/* ---- parsing --------------------------------------------------------------------------------- */

typedef struct parse {
    const cli_command *c;
    const cli_action *a;
    entry e[OPTIONS_MAX];
    size_t n;
    settings own;  /* values of the options */
    settings *set; /* values of --set and shortcuts, in the command's struct; NULL: no schema */
} parse;

static const char *who(const parse *p)
{
    return *p->a->name ? p->a->name : p->c->name;
}

/* True if some action of the command has this option. */
static bool any_has(const cli_command *c, const char *name)
{
    entry e[OPTIONS_MAX];
    const size_t n = collect(e, c, &any_action);
    for (size_t i = 0; i < n; i++)
        if (strcmp(e[i].name, name) == 0)
            return true;
    return false;
}

static int bad_option(const parse *p, int argc, char **argv, int opt)
{
    const char *names[OPTIONS_MAX + 1] = { 0 }, *near;
    const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
    char bare[64];
    if (opt == ':')
        return cli_misuse(p->c, "option %s needs a value", word);
    if (strncmp(word, "--", 2) != 0)
        return cli_misuse(p->c, "unknown option -%c", optopt);
    for (size_t i = 0; i < p->n; i++)
        names[i] = p->e[i].name;
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    near = suggest_name(bare, names);
    if (near && strcmp(near, bare) == 0)
        return cli_misuse(p->c, "option --%s takes no value", bare);
    if (any_has(p->c, bare))
        return cli_misuse(p->c, "%s does not take --%s", who(p), bare);
    return near ? cli_misuse(p->c, "unknown option %s; did you mean --%s?", word, near)
                : cli_misuse(p->c, "unknown option %s", word);
}

static sefl_status take(parse *p, const entry *e, const char *value)
{
    char origin[SETTING_OPTION_BYTES + 2];
    if (!e->is_setting && e->def->size == 0 && strcmp(e->name, "set") == 0)
        return settings_set(p->set, value, "--set");
    if (!e->is_setting && e->def->size == 0 && strcmp(e->name, "set-file") == 0)
        return settings_set_file(p->set, value);
    snprintf(origin, sizeof origin, "--%s", e->name);
    return settings_set_pair(e->is_setting ? p->set : &p->own, span_of_str(e->def->key),
                             span_of_str(value ? value : "true"), origin);
}

/* getopt accepts a unique beginning of a long option; a later version may have two options that
 * begin so. Returns the word if it is one, else NULL. */
static const char *abbreviated(const char *name, char *const *argv)
{
    const bool separate = optarg && optarg == argv[optind - 1];
    const char *word = argv[optind - 1 - separate];
    const bool whole = strncmp(word, "--", 2) != 0 || /* a letter */
                       (strncmp(word + 2, name, strlen(name)) == 0 &&
                        (!word[2 + strlen(name)] || word[2 + strlen(name)] == '='));
    return whole ? NULL : word;
}

static int take_options(parse *p, int argc, char **argv)
{
    struct option longopts[OPTIONS_MAX + 1] = { 0 };
    char letters[2 * OPTIONS_MAX + 2] = ":";
    for (size_t i = 0, n = 1; i < p->n; i++) {
        const bool flag = is_flag(&p->e[i]);
        const char letter = p->e[i].def->letter;
        longopts[i] = (struct option){ p->e[i].name, flag ? no_argument : required_argument, NULL,
                                       letter ? letter : FIRST + (int)i };
        if (letter)
            letters[n++] = letter, letters[n++] = flag ? 0 : ':';
    }
    opterr = 0, optind = 1;
    for (int c; (c = getopt_long(argc, argv, letters, longopts, NULL)) != -1;) {
        size_t i = c >= FIRST ? (size_t)(c - FIRST) : 0;
        while (c < FIRST && i < p->n && p->e[i].def->letter != c)
            i++;
        if (i == p->n)
            return bad_option(p, argc, argv, c);
        const char *part = abbreviated(p->e[i].name, argv);
        if (part)
            return cli_misuse(p->c, "unknown option %s; did you mean --%s?", part, p->e[i].name);
        sefl_status st = take(p, &p->e[i], optarg);
        if (st == SEFL_EINVAL)
            return cli_misuse(p->c, "%s", sefl_last_error());
        if (st != SEFL_OK)
            return cli_failed(p->c, st);
    }
    for (size_t i = 0; i < p->n; i++) {
        const char *key = p->e[i].def->key;
        if (options_listed(p->a->needs, p->e[i].name) &&
            (!settings_given(&p->own, key) || !*settings_text(&p->own, key)))
            return cli_misuse(p->c, "%s requires --%s", who(p), p->e[i].name);
    }
    return CLI_DONE;
}

static int take_arguments(const parse *p, void *to, int argc, char **argv)
{
    const char *arg = p->a->arg;
    const bool many = arg && arg[strlen(arg) - 1] == '.';
    char *at = (char *)to + p->a->arg_at;
    if (arg && *arg != '[' && optind == argc)
        return cli_misuse(p->c, "%s requires %s", who(p), p->a->wants);
    if (!many && optind + (arg != NULL) < argc)
        return cli_misuse(p->c, "%s does not take the argument \"%.64s\"", who(p),
                          argv[optind + (arg != NULL)]);
    char **first = argv + optind;
    if (many)
        memcpy(at, &first, sizeof first);
    else if (arg && optind < argc)
        memcpy(at, first, sizeof *first);
    return CLI_DONE;
}

/* Returns the action named by the first word. If there is none, reports it and returns NULL. */
static const cli_action *pick(const cli_command *c, const char *word, int *rc)
{
    const char *names[ACTIONS_MAX + 1] = { 0 };
    char all[256];
    size_t n = 0, len = 0;
    for (const cli_action *a = c->actions; a->name && n < ACTIONS_MAX; a++) {
        if (!*a->name || (word && strcmp(a->name, word) == 0))
            return a;
        names[n++] = a->name;
        len += (size_t)snprintf(all + len, sizeof all - len, "%s%s",
                                n == 1      ? ""
                                : a[1].name ? ", "
                                            : " or ",
                                a->name);
    }
    const char *near = word ? suggest_name(word, names) : NULL;
    *rc = !word  ? cli_misuse(c, "an action is required: %s", all)
          : near ? cli_misuse(c, "unknown action \"%.64s\"; did you mean '%s'?", word, near)
                 : cli_misuse(c, "unknown action \"%.64s\"; the actions are %s", word, all);
    return NULL;
}

static int run_action(const parse *p, void *to)
{
    const cli_command *c = p->c;
    int rc = CLI_DONE;
    sefl_status st = settings_fill(&p->own, to);
    if (st == SEFL_OK && c->prepare)
        st = c->prepare(c, p->a, to);
    if (st == SEFL_OK && p->a->run)
        rc = p->a->run(to);
    else if (st == SEFL_OK)
        st = p->a->work(to);
    if (st != SEFL_OK)
        rc = cli_failed(c, st);
    if (c->finish)
        c->finish(to);
    return st != SEFL_OK && c->never_misuse ? CLI_FAILED : rc;
}

int options_run(const cli_command *c, int argc, char **argv)
{
    static const setting_def none[] = { { 0 } };
    parse *p = NULL;
    char *to = NULL;
    int rc = CLI_DONE;
    const cli_action *a = pick(c, argv[1], &rc);
    if (!a)
        return rc;
    const int skip = *a->name ? 1 : 0;
    if (sefl_new(&p, 1, sizeof *p) != SEFL_OK || sefl_new(&to, 1, c->size) != SEFL_OK) {
        sefl_free(p);
        return cli_failed(c, SEFL_ENOMEM);
    }
    p->c = c, p->a = a;
    p->n = collect(p->e, c, a);
    settings_init(&p->own, c->options ? c->options : none);
    if (schema_of(c)) {
        p->set = (void *)(to + c->set_at);
        settings_init(p->set, schema_of(c));
    }
    if (c->interruptible)
        interrupt_catch();
    if (c->handles_keys)
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 }); /* no key in a core file */
    rc = take_options(p, argc - skip, argv + skip);
    if (rc == CLI_DONE)
        rc = take_arguments(p, to, argc - skip, argv + skip);
    if (rc == CLI_DONE)
        rc = run_action(p, to);
    if (p->set)
        settings_clear(p->set);
    settings_clear(&p->own);
    sefl_free(p);
    sefl_free(to);
    return rc;
}
