#include "cli/full/daemon.h"

#include "cli/full/config_kind.h"
#include "cli/full/confine.h"
#include "cli/full/signals.h"
#include "config/yaml/yaml.h"

#include <signal.h>

const setting_def daemon_options[] = { DAEMON_CONFIG, { 0 } };

static sefl_status read_settings(const daemon *d, settings *out)
{
    settings_init(out, d->flags.schema);
    if (d->file)
        SEFL_PASS(config_kind_other(yaml_read(out, d->file), d->file, out->schema));
    return settings_overlay(out, &d->flags);
}

static log_level level_of(const daemon *d, const settings *s)
{
    log_level level = (log_level)settings_choice(s, "log");
    return level > d->least || settings_given(s, "log") ? level : d->least;
}

static void read_level(daemon *d)
{
    settings s;
    if (read_settings(d, &s) == SEFL_OK)
        d->log.level = level_of(d, &s);
    else
        log_error(&d->log, "settings not reloaded", lf_str("why", sefl_last_error()));
    settings_clear(&s);
}

static void on_signal(void *self, int sig)
{
    daemon *d = self;
    if (sig != SIGHUP)
        d->ended = true;
    void *role =
        d->role; /* work() sets role before it reads `ended`: one thread sees the other's value */
    if (role && sig == SIGHUP) {
        read_level(d);
        d->calls->reload(role);
    } else if (role) {
        d->calls->stop(role);
    }
}

sefl_status daemon_confine(daemon *d, const settings *set)
{
    d->user = settings_text(set, "user");
    SEFL_PASS(confine_memory(&d->log, settings_text(set, "memory_lock")));
    confine_warn(&d->log, d->user);
    confine_key(&d->log, settings_text(set, "tls.key"));
    confine_key(&d->log, settings_text(set, "sign_key"));
    return SEFL_OK;
}

sefl_status daemon_bound(void *self)
{
    return confine_user(((const daemon *)self)->user);
}

static bool goes_on(void *self, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    return !((daemon *)self)->ended;
}

static sefl_status work(daemon *d, daemon_start *start)
{
    sefl_status st = SEFL_OK;
    settings set;
    signals *sigs = NULL;
    void *role = NULL;
    SEFL_TRY(read_settings(d, &set));
    d->wall = clock_wall();
    d->log = log_open(2, level_of(d, &set), &d->wall);
    SEFL_TRY(signals_start(&sigs, on_signal, d)); /* before any other thread starts */
    d->going = (sefl_progress){ .report = goes_on, .self = d };
    st = start(d, &set, &role);
    if (st == SEFL_ECANCELLED && d->ended) { /* while it waited */
        log_info(&d->log, "stopped");
        st = SEFL_OK;
        goto done;
    }
    SEFL_TRY(st);
    d->role = role;
    if (d->ended) /* a signal arrived during the start */
        d->calls->stop(role);
    SEFL_TRY(d->calls->run(role));
done:
    signals_end(sigs);
    d->calls->free(role);
    settings_clear(&set);
    return st;
}

int daemon_run(void *self, const cli_command *c, daemon_start *start, const daemon_calls *calls)
{
    daemon *d = self;
    bool any = d->file != NULL;
    for (size_t i = 0; i < d->flags.count; i++)
        any = any || d->flags.value[i];
    if (!any)
        return cli_misuse(c, "no settings: pass -c %s.yml", c->name);
    d->calls = calls;
    confine_start();
    sefl_status st = work(d, start);
    if (st == SEFL_OK)
        return CLI_DONE;
    int rc = cli_failed(c, st);
    if (!d->role)
        return rc;
    return st == SEFL_EAUTH && d->refused ? d->refused : CLI_FAILED;
}
