/* yaml: reads a YAML file into settings (config/settings.h), following the schema table.
 *
 * Nested maps become keys with dots: `model: { block: 8 }` and `model.block: 8` mean model.block=8.
 * Values are scalars; for SETTING_TEXT, a sequence of scalars becomes one value, joined with
 * commas, and, where the schema allows it, a map of scalars one value "a=1,b=2". Aliases, anchors,
 * tags, several documents, duplicate keys and binary data are errors.
 * Every error names the file, line and column of the key, and suggests a name for an unknown key:
 *
 *     as.yml:7:3: unknown setting "model.blok"; did you mean "model.block"?
 *
 *     SEFL_TRY(yaml_read(&settings, "as.yml"));
 *
 * Paths (SETTING_PATH) are relative to the file's folder. A file with an error changes no setting.
 * The limits are 1 MiB and 16 levels of nesting.
 * Threads: the settings have one owner.   Secrets: never in settings. */
#ifndef CONFIG_YAML_YAML_H
#define CONFIG_YAML_YAML_H

#include "config/settings.h"

sefl_status yaml_read(settings *s, const char *path) SEFL_MUST_CHECK;
/* Reads bytes in memory instead (tests, fuzzing); errors show `name` as the file name. */
sefl_status yaml_read_over(settings *s, sefl_span bytes, const char *name) SEFL_MUST_CHECK;

#endif
