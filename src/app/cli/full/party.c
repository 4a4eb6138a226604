#include "cli/full/party.h"

#include "base/alloc.h"
#include "base/file.h"
#include "cli/full/config_kind.h"
#include "config/yaml/yaml.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const roles[PARTY_ROLES] = { "aggregator", "csp", "client" };

const char *party_role_name(party_role r)
{
    return roles[r];
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- one file -------------------------------------------------------------------------------- */

/* A relative path in the file is relative to the file's folder, which yaml_read has put before. */
static sefl_status take(char out[PATH_MAX], const settings *s, const char *key)
{
    const char *path = settings_text(s, key);
    return *path ? file_path(out, "%s", path) : SEFL_OK;
}

static sefl_status fill(party *p, const settings *s)
{
    SEFL_NEED(*settings_text(s, "state"), SEFL_EINVAL, "%s does not set `state`", p->config);
    SEFL_PASS(take(p->state, s, "state"));
    SEFL_PASS(take(p->ledger, s, "ledger"));
    if (p->role == PARTY_CLIENT) {
        SEFL_PASS(take(p->models, s, "models"));
        return *p->models ? SEFL_OK : file_path(p->models, "%s/models", p->state);
    }
    SEFL_PASS(take(p->task, s, "task"));
    const char *health = settings_text(s, "health");
    return *health ? address_read(&p->health, health, 0) : SEFL_OK;
}

sefl_status party_read(party *out, const char *config)
{
    settings s;
    const config_kind *k = config_kind_of(config);
    unsigned role = 0;
    *out = (party){ 0 };
    while (role < PARTY_ROLES && strcmp(k->name, roles[role]) != 0)
        role++;
    SEFL_NEED(role < PARTY_ROLES, SEFL_EINVAL,
              "%s: the name of a settings file ends with aggregator.yml, csp.yml or client.yml",
              config);
    out->role = (party_role)role;
    snprintf(out->name, sizeof out->name, "%s", roles[role]);
    SEFL_PASS(file_path(out->config, "%s", config));
    settings_init(&s, config_kind_schema(k));
    sefl_status st = yaml_read(&s, config); /* it need not be complete: options may set the rest */
    if (st == SEFL_OK)
        st = fill(out, &s);
    settings_clear(&s);
    return st;
}

/* ---- folders --------------------------------------------------------------------------------- */

/* Adds a party if the file exists; its name is that of its folder if `named`. */
static sefl_status party_add(party_list *l, const char *folder, party_role role, const char *name)
{
    char path[PATH_MAX];
    SEFL_PASS(file_path(path, "%s/%s.yml", folder, roles[role]));
    if (!file_exists(path))
        return SEFL_OK;
    SEFL_PASS(file_need_plain(path));
    SEFL_PASS(sefl_room(&l->at, &l->room, l->n + 1, sizeof *l->at));
    SEFL_PASS(party_read(&l->at[l->n], path));
    if (name)
        snprintf(l->at[l->n].name, sizeof l->at[l->n].name, "%s", name);
    l->n++;
    return SEFL_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const party *)a)->name, ((const party *)b)->name);
}

static sefl_status add_clients(party_list *l, const char *folder)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    const size_t first = l->n;
    DIR *d = opendir(folder);
    if (!d)
        return SEFL_OK;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        SEFL_TRY(file_path(path, "%s/%s", folder, e->d_name));
        SEFL_TRY(party_add(l, path, PARTY_CLIENT, e->d_name));
    }
    if (l->n > first)
        qsort(l->at + first, l->n - first, sizeof *l->at, by_name);
done:
    closedir(d);
    return st;
}

/* Looks at the folder of one party, or of a federation. */
static sefl_status party_look(party_list *l, const char *folder)
{
    char path[PATH_MAX];
    for (int r = 0; r < PARTY_ROLES; r++)
        SEFL_PASS(party_add(l, folder, (party_role)r, NULL));
    for (int r = 0; r < PARTY_CLIENT; r++) {
        SEFL_PASS(file_path(path, "%s/%s", folder, roles[r]));
        SEFL_PASS(party_add(l, path, (party_role)r, NULL));
    }
    SEFL_PASS(file_path(path, "%s/clients", folder));
    return add_clients(l, path);
}

static sefl_status look_in_run(party_list *l, const char *folder)
{
    char path[PATH_MAX];
    SEFL_PASS(file_path(l->folder, "%s", folder));
    SEFL_PASS(party_look(l, folder));
    if (l->n > 0)
        return SEFL_OK;
    SEFL_PASS(file_path(path, "%s/federation", folder));
    return party_look(l, path);
}

static bool has_parties(const char *run)
{
    party_list l = { 0 };
    const bool has = look_in_run(&l, run) == SEFL_OK && l.n > 0;
    party_clear(&l);
    return has;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Finds the newest folder in ./runs that has parties: a simulation has none. */
static bool newest_run(char out[PATH_MAX])
{
    struct timespec best = { 0 };
    bool any = false;
    DIR *d = opendir("runs");
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char path[PATH_MAX];
        struct stat s;
        if (e->d_name[0] == '.' || file_path(path, "runs/%s", e->d_name) != SEFL_OK ||
            stat(path, &s) != 0 || !S_ISDIR(s.st_mode))
            continue;
        if ((!any || is_newer(&s.st_mtim, &best)) && has_parties(path))
            best = s.st_mtim, any = true, memcpy(out, path, sizeof path);
    }
    if (d)
        closedir(d);
    return any;
}

sefl_status party_find(party_list *l, const char *where)
{
    struct stat s;
    char run[PATH_MAX];
    const char *folder = where ? where : ".";
    SEFL_NEED(stat(folder, &s) == 0, SEFL_ENOTFOUND,
              "%s does not exist: pass a settings file or a folder", folder);
    if (!S_ISDIR(s.st_mode)) {
        const char *name = base_name(folder);
        SEFL_PASS(file_path(l->folder, "%.*s", name > folder ? (int)(name - folder) - 1 : 1,
                            name > folder ? folder : "."));
        SEFL_PASS(sefl_room(&l->at, &l->room, 1, sizeof *l->at));
        SEFL_PASS(party_read(l->at, folder));
        l->n = 1;
        return SEFL_OK;
    }
    SEFL_PASS(look_in_run(l, folder));
    if (l->n == 0 && !where && newest_run(run))
        SEFL_PASS(look_in_run(l, run));
    SEFL_NEED(l->n > 0, SEFL_ENOTFOUND,
              "%s has no settings file of a server or client: pass -c FILE, or a folder of 'sefl "
              "provision', 'sefl demo' or 'sefl try'",
              where ? where : "this folder");
    return SEFL_OK;
}

void party_clear(party_list *l)
{
    sefl_free(l->at);
    *l = (party_list){ 0 };
}
