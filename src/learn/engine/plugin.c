#define _GNU_SOURCE /* secure_getenv */
#include "base/file.h"
#include "model/engine/engine_inside.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLUGIN "libsefl_cuda.so"

/* Finds the plugin's file; a bare name stands for a search of the library path. */
static void plugin_find(char out[PATH_MAX])
{
    static const char *const places[] = { "", "../lib/sefl/" };
    const char *given = secure_getenv("SEFL_CUDA_PLUGIN");
    char program[PATH_MAX];
    if (given && *given) {
        snprintf(out, PATH_MAX, "%s%s", strchr(given, '/') ? "" : "./", given);
        return;
    }
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    char *name = strrchr(program, '/');
    for (size_t i = 0; name && i < sizeof places / sizeof places[0]; i++) {
        name[1] = 0;
        if (snprintf(out, PATH_MAX, "%s%s" PLUGIN, program, places[i]) < PATH_MAX &&
            file_exists(out))
            return;
    }
    snprintf(out, PATH_MAX, PLUGIN);
}

/* Refuses a file that another user may have written: the plugin runs inside this program. */
static sefl_status check_owner(const char *path)
{
    struct stat file, program;
    if (!strchr(path, '/') || stat(path, &file) != 0)
        return SEFL_OK; /* in the library path, or absent: dlopen says so */
    SEFL_NEED(
        file.st_uid == 0 || file.st_uid == geteuid() ||
            (stat("/proc/self/exe", &program) == 0 && file.st_uid == program.st_uid),
        SEFL_EUNSUPPORTED,
        "the GPU plugin %s belongs to user %u: it must belong to root, to the program's owner "
        "or to the user who runs the program",
        path, (unsigned)file.st_uid);
    SEFL_NEED(!(file.st_mode & S_IWOTH), SEFL_EUNSUPPORTED,
              "the GPU plugin %s can be written by every user: run chmod o-w on it", path);
    return SEFL_OK;
}

/* Reads the plugin's table and checks its version. */
static sefl_status check(const engine_ops **out, void *handle, const char *path)
{
    engine_entry *entry = NULL;
    void *symbol = dlsym(handle, ENGINE_SYMBOL);
    SEFL_NEED(symbol, SEFL_EUNSUPPORTED, "%s is not a GPU plugin of sefl: it has no symbol %s",
              path, ENGINE_SYMBOL);
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from object to function */
    const engine_ops *ops = entry();
    SEFL_NEED(
        ops && ops->abi == ENGINE_ABI && ops->size == sizeof *ops, SEFL_EUNSUPPORTED,
        "%s has another version than this program (interface %u with %u bytes instead of %d with "
        "%zu): build both from the same source",
        path, ops ? ops->abi : 0, ops ? ops->size : 0, ENGINE_ABI, sizeof *ops);
    *out = ops;
    return SEFL_OK;
}

sefl_status engine_plugin(const engine_ops **out)
{
    char path[PATH_MAX];
    *out = NULL;
    plugin_find(path);
    SEFL_PASS(check_owner(path));
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *why = handle ? "" : dlerror();
    SEFL_NEED(!strstr(why, PLUGIN ": cannot open shared object") || strchr(path, '/'),
              SEFL_EUNSUPPORTED,
              "the GPU plugin " PLUGIN " is not installed (scripts/build-cuda builds it on a "
              "machine with nvcc)");
    SEFL_NEED(handle, SEFL_EUNSUPPORTED, "cannot open the GPU plugin: %s", why);
    sefl_status st = check(out, handle, path);
    if (st != SEFL_OK)
        dlclose(handle);
    return st;
}
