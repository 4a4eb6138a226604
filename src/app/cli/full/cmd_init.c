#include "cli/full/config_kind.h"
#include "cli/options.h"
#include "cli/output.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

typedef struct wish {
    const char *file, *kind;
    bool force, unit;
} wish;

static sefl_status work(void *options)
{
    const wish *w = options;
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    const config_kind *k = w->kind   ? config_kind_find(w->kind)
                           : w->file ? config_kind_of(w->file)
                                     : config_kinds;
    const char *path = w->file ? w->file : k->file;
    const bool to_stdout = strcmp(path, "-") == 0;
    if (!to_stdout)
        SEFL_TRY(output_check(path, NULL, w->force));
    SEFL_TRY(config_kind_write(&b, k, w->unit));
    if (to_stdout) {
        printf("%.*s", (int)b.n, (const char *)b.p);
        goto done;
    }
    SEFL_TRY(file_write_atomic(path, buf_span(&b), 0644));
    printf("%s: %s\n", path, k->about);
    if (k == config_kinds)
        printf("next:\n  sefl config check %s\n  sefl simulate -c %s\n", path, path);
    else
        printf("next:\n  sefl config check %s --for %s\n", path, k->name);
done:
    buf_clear(&b);
    return st;
}

static const setting_def options[] = {
    CONFIG_KIND_OPTION(wish),
    { "unit", SETTING_FLAG, "", SETTING_TO(wish, unit),
      .help = "Write the file for the systemd unit of a server: its folders, and its keys as "
              "credentials" },
    OPTION_FORCE(wish),
    { 0 },
};

const cli_command cmd_init = {
    .name = "init",
    .about = "Writes FILE with every key, its default and its meaning. The default FILE is "
             "experiment.yml; - means standard output.",
    .example = "sefl init experiment.yml",
    .never_misuse = true,
    CLI_OPTIONS(wish),
    CLI_WORK(work, "[FILE]", "a file to write", offsetof(wish, file)),
};
