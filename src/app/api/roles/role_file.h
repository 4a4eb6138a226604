/* role_file: what a client and the servers of the public interface read from their files: settings
 * with the caller's overrides, and the log that the caller wants.
 *
 *     SEFL_TRY(role_file_open(&f, client_schema, path, o.settings));
 *     role_file_log(&f, &(role_log){ .write = o.log, .fd = o.log_fd, .level = o.log_level });
 *     SEFL_TRY(client_config_make(&cfg, &f.set));
 *     role_file_close(&f);
 *
 * Threads: one owner; role_file_reload may run beside users of the log.   Secrets: none. */
#ifndef API_ROLES_ROLE_FILE_H
#define API_ROLES_ROLE_FILE_H

#include "sefl/log.h"

#include "base/log.h"
#include "config/settings.h"

typedef struct role_log {
    void (*write)(void *ctx, sefl_log_level level, const char *json);
    void *ctx;
    int fd;
    const char *level; /* unless the settings have `log`; NULL: info */
} role_log;

typedef struct role_file {
    settings set;  /* of the file, then of the overrides */
    char *path;    /* NULL: only overrides */
    settings over; /* the overrides alone */
    sefl_log log;
    sefl_clock wall;
    role_log how;
    log_level usual;
} role_file;

/* Reads the settings; path may be NULL, overrides too (else "key=value" strings, then NULL). */
sefl_status role_file_open(role_file *f, const setting_def *schema, const char *path,
                           const char *const *overrides) SEFL_MUST_CHECK;
void role_file_close(role_file *f);

/* Opens f->log. f must not move from here on. SEFL_EINVAL for an unknown level. */
sefl_status role_file_log(role_file *f, const role_log *how) SEFL_MUST_CHECK;
/* Reads the file again for the log level alone; logs a failure. */
void role_file_reload(role_file *f);

#endif
