#include "api/roles/role_file.h"

#include "base/alloc.h"
#include "config/yaml/yaml.h"

static sefl_status read_settings(const role_file *f, settings *out)
{
    settings_init(out, f->over.schema);
    if (f->path)
        SEFL_PASS(yaml_read(out, f->path));
    return settings_overlay(out, &f->over);
}

sefl_status role_file_open(role_file *f, const setting_def *schema, const char *path,
                           const char *const *overrides)
{
    *f = (role_file){ .wall = clock_wall() };
    settings_init(&f->set, schema);
    settings_init(&f->over, schema);
    if (path)
        SEFL_PASS(sefl_strdup(&f->path, path));
    for (; overrides && *overrides; overrides++)
        SEFL_PASS(settings_set(&f->over, *overrides, "option"));
    return read_settings(f, &f->set);
}

void role_file_close(role_file *f)
{
    settings_clear(&f->set);
    settings_clear(&f->over);
    sefl_free(f->path);
    *f = (role_file){ 0 };
}

/* ---- log ------------------------------------------------------------------------------------- */

static void on_line(void *ctx, log_level level, const char *line)
{
    const role_file *f = ctx;
    f->how.write(f->how.ctx, (sefl_log_level)level, line);
}

static log_level level_of(const role_file *f, const settings *s)
{
    return settings_given(s, "log") ? (log_level)settings_choice(s, "log") : f->usual;
}

/* Reads a level as the setting `log` would; NULL: its default. */
static sefl_status usual_level(role_file *f, const char *level)
{
    settings s;
    settings_init(&s, f->set.schema);
    sefl_status st = level ? settings_setf(&s, "log_level", "log=%s", level) : SEFL_OK;
    if (st == SEFL_OK)
        f->usual = (log_level)settings_choice(&s, "log");
    settings_clear(&s);
    return st;
}

sefl_status role_file_log(role_file *f, const role_log *how)
{
    f->how = *how;
    SEFL_PASS(usual_level(f, how->level));
    if (how->write)
        f->log = (sefl_log){ .json = true, .clock = &f->wall, .write = on_line, .ctx = f };
    else
        f->log = log_open(how->fd, LOG_OFF, &f->wall);
    f->log.level = how->write || how->fd > 0 ? level_of(f, &f->set) : LOG_OFF;
    return SEFL_OK;
}

void role_file_reload(role_file *f)
{
    settings s;
    if (!f->how.write && f->how.fd <= 0)
        return;
    sefl_status st = read_settings(f, &s);
    if (st == SEFL_OK)
        f->log.level = level_of(f, &s);
    else
        log_error(&f->log, "settings not reloaded", lf_str("why", sefl_last_error()));
    settings_clear(&s);
}
