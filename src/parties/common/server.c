#include "roles/server.h"

#include "base/file.h"
#include "config/address.h"
#include "net/web_server.h"
#include "roles/ca.h"

#include <unistd.h>

sefl_status server_read_list(allowlist **out, bool *older, trust_watch *w, bool first,
                             trust_role role, const sign_key *key, sefl_log *log)
{
    sefl_status st = SEFL_OK;
    trust *t = NULL;
    *out = NULL, *older = false;
    if (!trust_watch_changed(w) && !first)
        return SEFL_OK;
    SEFL_TRY(trust_read(&t, w->path));
    SEFL_TRY(ca_list_of(t, role, sign_key_pub(key)));
    SEFL_TRY(allowlist_new(out, t));
    log_info(log, "trust list read", lf_u64("change", t->change),
             lf_u64("members", trust_count(t, TRUST_CLIENT)));
    *older = !trust_watch_good(w, t->change);
    if (*older)
        log_error(log, "the trust list is older than a previous one: later revocations are undone",
                  lf_u64("change", t->change), lf_u64("before", w->change));
done:
    trust_free(t);
    return st;
}

sefl_status server_check_tasks(const settings *s)
{
    const bool one = *settings_text(s, "task"), many = *settings_text(s, "tasks");
    SEFL_NEED(one != many, SEFL_EINVAL,
              one ? "%s: both task and tasks are set: set only one"
                  : "%s is not set: set it to a file, or `tasks` to a "
                    "folder of tasks",
              settings_origin(s, one ? "tasks" : "task"));
    return SEFL_OK;
}

sefl_status server_check_page(const host_port *local, const host_port *remote, const settings *s)
{
    if (*local->host)
        SEFL_PASS(
            sefl_at(web_server_check_loopback(local->host), "%s", settings_origin(s, "page")));
    SEFL_NEED(!*remote->host || *settings_text(s, "page_viewers"), SEFL_EINVAL,
              "%s: page_viewers is not set: page_tls needs the list of certificates that may see "
              "the page",
              settings_origin(s, "page_tls"));
    return SEFL_OK;
}

void server_say_task(const task *t, const char *folder, sefl_log *log)
{
    log_info(log, "serving a task", lf_str("folder", folder), lf_str("name", t->name),
             lf_hash("task", t->id));
    if (!t->claim)
        log_warn(log, "this task claims no differential privacy");
}

sefl_status server_announce(const char *ready_file, const char *host, uint16_t port, const task *t,
                            sefl_log *log)
{
    sefl_status st = SEFL_OK;
    sefl_buf line = { 0 };
    SEFL_TRY(address_write(&line, host, port));
    SEFL_TRY(wr_fmt(&line, "\n"));
    if (ready_file)
        SEFL_TRY(file_write_atomic(ready_file, buf_span(&line), 0644));
    if (t && !t->claim)
        log_warn(log, "this task claims no differential privacy");
    log_info(log, "ready", lf_str("host", host), lf_u64("port", port),
             t ? lf_hash("task", t->id) : lf_str("task", ""));
done:
    buf_clear(&line);
    return st;
}

void server_forget_ready(const char *ready_file)
{
    if (ready_file)
        (void)!unlink(ready_file);
}
