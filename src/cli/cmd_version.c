#include "cli/cli.h"
#include "cli/print.h"

#include "base/buf.h"
#include "base/cpu.h"
#include "base/json.h"
#include "build_info.h"
#include "model/nn/nn.h"
#include "sefl/sefl.h"

#include <getopt.h>
#include <gnu/libc-version.h>
#include <stdio.h>

#if !SEFL_CORE_ONLY
#include <gmp.h>
#include <openssl/crypto.h>
#include <sodium.h>
#endif

typedef struct library {
    const char *name, *version;
} library;

static size_t libraries(library *out)
{
    size_t n = 0;
    out[n++] = (library){ "glibc", gnu_get_libc_version() };
    out[n++] = (library){ "CBLAS", nn_blas_name() };
#if !SEFL_CORE_ONLY
    out[n++] = (library){ "GMP", gmp_version };
    out[n++] = (library){ "OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING) };
    out[n++] = (library){ "libsodium", sodium_version_string() };
#endif
    return n;
}

static int say_json(const library *libs, size_t n)
{
    const cpu_features *f = cpu_get();
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "version"), json_str(&j, sefl_version());
    json_key(&j, "commit"), json_str(&j, SEFL_BUILD_COMMIT);
    json_key(&j, "compiler"), json_str(&j, __VERSION__);
    json_key(&j, "core_only"), json_bool(&j, SEFL_CORE_ONLY);
    json_key(&j, "cpu"), json_str(&j, cpu_name());
    json_key(&j, "cpu_features"), json_open(&j, '[');
#define FEATURE(name) \
    if (f->name)      \
        json_str(&j, #name);
    CPU_FEATURE_LIST(FEATURE)
#undef FEATURE
    json_close(&j, ']');
    json_key(&j, "libraries"), json_open(&j, '{');
    for (size_t i = 0; i < n; i++)
        json_key(&j, libs[i].name), json_str(&j, libs[i].version);
    json_close(&j, '}');
    json_close(&j, '}');
    return print_json_end(&cmd_version, &j);
}

static int run(int argc, char **argv)
{
    static const struct option longopts[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
    bool as_json = false;
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":", longopts, NULL)) != -1;) {
        if (c != 'j')
            return cli_bad_option(&cmd_version, argc, argv, c, longopts);
        as_json = true;
    }
    if (optind < argc)
        return cli_misuse(&cmd_version, "no argument \"%.64s\" is taken", argv[optind]);

    library libs[8];
    size_t n = libraries(libs);
    if (as_json)
        return say_json(libs, n);

    const cpu_features *f = cpu_get();
    printf("sefl %s%s\n", sefl_version(), SEFL_CORE_ONLY ? " (core only)" : "");
    printf("commit      %s\n", SEFL_BUILD_COMMIT);
    printf("compiler    %s %s\n",
#ifdef __clang__
           "clang",
#else
           "gcc",
#endif
           __VERSION__);
    printf("cpu         %s\n", cpu_name());
    printf("cpu uses   ");
    unsigned used = 0;
#define FEATURE(name) \
    if (f->name)      \
        used++, printf(" " #name);
    CPU_FEATURE_LIST(FEATURE)
#undef FEATURE
    printf("%s\n", used ? "" : " nothing beyond plain C");
    for (size_t i = 0; i < n; i++)
        printf("%-11s %s\n", libs[i].name, libs[i].version);
    return CLI_DONE;
}

const cli_command cmd_version = {
    .name = "version",
    .summary = "version, commit, compiler, CPU features in use, libraries",
    .usage = "[--json]",
    .details = "  --json   one JSON object",
    .example = "sefl version",
    .run = run,
};
