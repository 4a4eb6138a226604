/* Arbitrary settings: refused with line and column, or read into values that the schema allows. */
#include "config/yaml/yaml.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const setting_def schema[] = {
    { "model.block", SETTING_U64, "32", .min = 1, .max = 4096 },
    { "model.kind", SETTING_WORD, "lstm", .words = "lstm transformer" },
    { "tls.cert", SETTING_TEXT, "" },
    { "tls.peers.ca", SETTING_TEXT, "" },
    { "privacy.z", SETTING_DECIMAL, "1.0", .min = 0, .max = 100 },
    { "verbose", SETTING_BOOL, "false" },
    { "hosts", SETTING_TEXT, "" },
    { 0 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    settings s;
    settings_init(&s, schema);
    sefl_status st = yaml_read_over(&s, span_of(data, size), "fuzz.yml");
    if (st != SEFL_OK && strncmp(sefl_last_error(), "fuzz.yml:", 9) != 0)
        abort(); /* an error without line and column */
    for (size_t i = 0; i < s.count; i++)
        if (st != SEFL_OK && s.value[i])
            abort(); /* part of a file was accepted */
    uint64_t block = settings_u64(&s, "model.block");
    if (block < 1 || block > 4096 || strlen(settings_text(&s, "hosts")) > 4096)
        abort();
    settings_clear(&s);
    return 0;
}
