#include "cli/options.h"
#include "cli/print.h"

#include "base/buf.h"
#include "base/cpu.h"
#include "base/json.h"
#include "build_info.h"
#include "model/nn/nn.h"
#include "sefl/sefl.h"

#include <gnu/libc-version.h>
#include <stdio.h>

#if !SEFL_CORE_ONLY
#include <gmp.h>
#include <sodium.h>
#endif
#ifdef SEFL_PG
#include "store/pg/pg.h"
#endif

typedef struct wish {
    bool json;
} wish;

static sefl_status say_json(const cli_library *libs, size_t n)
{
    const cpu_features *f = cpu_get();
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    json_fields(&j, lf_str("version", sefl_version()), lf_str("commit", SEFL_BUILD_COMMIT),
                lf_str("compiler", __VERSION__), lf_bool("core_only", SEFL_CORE_ONLY),
                lf_str("cpu", cpu_name()));
    json_key(&j, "cpu_features"), json_open(&j, '[');
#define FEATURE(name) \
    if (f->name)      \
        json_str(&j, #name);
    CPU_FEATURE_LIST(FEATURE)
#undef FEATURE
    json_close(&j, ']');
    json_key(&j, "libraries"), json_open(&j, '{');
    for (size_t i = 0; i < n; i++)
        json_fields(&j, lf_str(libs[i].name, libs[i].version));
    json_close(&j, '}');
    json_close(&j, '}');
    return print_json(&j);
}

static sefl_status work(void *options)
{
    const wish *w = options;
    char used[CPU_USED_BYTES];
    cli_library libs[8 + CLI_LIBRARIES_MAX] = {
        { "glibc", gnu_get_libc_version() },
        { "CBLAS", nn_blas_name() },
#if !SEFL_CORE_ONLY
        { "GMP", gmp_version },
        { "libsodium", sodium_version_string() },
#endif
#ifdef SEFL_PG
        { "PostgreSQL", pg_version() },
#endif
    };
    size_t n = 0;
    while (libs[n].name)
        n++;
    n += cli_libraries(libs + n);
    if (w->json)
        return say_json(libs, n);
    cpu_used(used);
    printf("sefl %s%s\n", sefl_version(), SEFL_CORE_ONLY ? " (core only)" : "");
    printf("commit      %s\n", SEFL_BUILD_COMMIT);
    printf("compiler    %s %s\n",
#ifdef __clang__
           "clang",
#else
           "gcc",
#endif
           __VERSION__);
    printf("cpu         %s\ncpu uses    %s\n", cpu_name(), used);
    for (size_t i = 0; i < n; i++)
        printf("%-11s %s\n", libs[i].name, libs[i].version);
    return SEFL_OK;
}

static const setting_def options[] = { OPTION_JSON(wish), { 0 } };

const cli_command cmd_version = {
    .name = "version",
    .example = "sefl version",
    CLI_OPTIONS(wish),
    CLI_WORK(work, NULL, NULL, 0),
};
