#include "cli/actions.h"

#include "base/suggest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ACTIONS_MAX = 16 };

/* "a, b or c" */
static void list(char *out, size_t cap, const char *const *names)
{
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; names[i] && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s%s",
                              i == 0         ? ""
                              : names[i + 1] ? ", "
                                             : " or ",
                              names[i]);
}

int cli_action_pick(const cli_command *c, const char *const *names, int argc, char **argv,
                    size_t *which)
{
    char all[256];
    list(all, sizeof all, names);
    if (argc < 2)
        return cli_misuse(c, "an action is wanted: %s", all);
    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], argv[1]) == 0) {
            *which = i;
            return CLI_DONE;
        }
    const char *near = suggest_name(argv[1], names);
    return near ? cli_misuse(c, "unknown action \"%.64s\"; did you mean '%s'?", argv[1], near)
                : cli_misuse(c, "unknown action \"%.64s\"; %s", argv[1], all);
}

int cli_actions_parse(const cli_command *c, const cli_action *actions, int argc, char **argv,
                      cli_take_fn *take, void *ctx, size_t *which, const char **path)
{
    const char *names[ACTIONS_MAX + 1] = { 0 };
    *path = NULL;
    for (size_t i = 0; i < ACTIONS_MAX && actions[i].name; i++)
        names[i] = actions[i].name;
    int picked = cli_action_pick(c, names, argc, argv, which);
    if (picked != CLI_DONE)
        return picked;
    const cli_action *a = &actions[*which];
    argc--, argv++;
    opterr = 0;
    for (int code; (code = getopt_long(argc, argv, ":", a->longopts, NULL)) != -1;) {
        if (code == '?' || code == ':')
            return cli_bad_option(c, argc, argv, code, a->longopts);
        int rc = take(ctx, code, optarg);
        if (rc != CLI_DONE)
            return rc;
    }
    if (a->path && optind == argc)
        return cli_misuse(c, "%s wants %s", a->name, a->path);
    if (a->path)
        *path = argv[optind++];
    if (optind < argc)
        return cli_misuse(c, "no argument \"%.64s\" is taken", argv[optind]);
    return CLI_DONE;
}

int cli_take_u64(const cli_command *c, const char *name, const char *value, uint64_t min,
                 uint64_t max, uint64_t *out)
{
    unsigned long long v;
    if (cli_parse_u64(value, min, max, &v)) {
        *out = v;
        return CLI_DONE;
    }
    if (max == UINT64_MAX)
        return cli_misuse(c, "--%s is a whole number below 2^64, not \"%.64s\"", name, value);
    return cli_misuse(c, "--%s is a number from %" PRIu64 " to %" PRIu64 ", not \"%.64s\"", name,
                      min, max, value);
}

int cli_take_u32(const cli_command *c, const char *name, const char *value, uint32_t min,
                 uint32_t max, uint32_t *out)
{
    uint64_t v = 0;
    int rc = cli_take_u64(c, name, value, min, max, &v);
    if (rc == CLI_DONE)
        *out = (uint32_t)v;
    return rc;
}
