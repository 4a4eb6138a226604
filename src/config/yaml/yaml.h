/* yaml: a YAML file as settings (config/settings.h): walks libyaml's events by the schema table.
 *
 * Nested maps become keys with points: `model: { block: 8 }` is model.block=8. Values are scalars;
 * a sequence of scalars becomes one value with commas where the schema's type is SETTING_TEXT.
 * Aliases, anchors, tags, several documents, duplicate keys and binary are errors. Every error
 * names file, line and column of the key; unknown keys come with a suggestion:
 *
 *     as.yml:7:3: unknown setting "model.blok"; did you mean "model.block"?
 *
 *     SEFL_TRY(yaml_read(&settings, "as.yml"));
 *
 * Relative paths (SETTING_PATH) count from the file's folder. A file counts whole or not at all. It
 * has at most 1 MiB and depth 16. A key may also be written with its points (`model.block: 8`).
 * Threads: one owner of the settings.   Secrets: none belong here. */
#ifndef CONFIG_YAML_YAML_H
#define CONFIG_YAML_YAML_H

#include "config/settings.h"

sefl_status yaml_read(settings *s, const char *path) SEFL_MUST_CHECK;
/* The same over bytes in memory (tests, fuzzing); messages call them `name`. */
sefl_status yaml_read_over(settings *s, sefl_span bytes, const char *name) SEFL_MUST_CHECK;

#endif
