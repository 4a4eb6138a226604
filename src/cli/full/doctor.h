/* doctor: can this machine, with a role's file on it, take part in a federation?
 *
 *     doctor d = { 0 };
 *     doctor_config(&d, path);                             // certificates, keys, ports, folders
 *     for (size_t i = 0; i < d.n; i++) show(&d.at[i]);
 *     settings_clear(&d.set);
 *
 * Every check is a line: ok, warn (it works, but ...) or fail (it will not work), the finding, and
 * a remedy for the last two. The doctor changes nothing. It binds a port for a moment to see that
 * it is free, and dials each peer once without sending anything.
 * Threads: one owner.   Secrets: it reads the TLS key and the signing key to see that they fit. */
#ifndef CLI_FULL_DOCTOR_H
#define CLI_FULL_DOCTOR_H

#include "cli/full/config_kind.h"

enum { DOCTOR_MAX = 64 };

typedef enum doctor_status { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL } doctor_status;

typedef struct doctor_line {
    doctor_status status;
    char name[24], says[512], remedy[200];
} doctor_line;

typedef struct doctor {
    const config_kind *k; /* of the file; NULL: its name tells */
    settings set;         /* what the file says */
    doctor_line at[DOCTOR_MAX];
    size_t n, count[3]; /* of each status */
} doctor;

void doctor_ok(doctor *d, const char *name, const char *fmt, ...) SEFL_PRINTF(3, 4);
/* status: DOCTOR_WARN or DOCTOR_FAIL. */
void doctor_bad(doctor *d, doctor_status status, const char *name, const char *remedy,
                const char *fmt, ...) SEFL_PRINTF(5, 6);

/* Versions. */
void doctor_libraries(doctor *d);
/* Is the address free to listen on? bad: the status if it is not. */
void doctor_port(doctor *d, const char *name, const char *address, doctor_status bad,
                 const char *remedy);
/* Checks what the role reads at its start: settings, files, certificate, task. False if the
 * settings are wrong. The caller clears d->set in any case. */
bool doctor_settings(doctor *d, const char *path);
/* doctor_settings, then memory, port and peers of this machine. */
void doctor_config(doctor *d, const char *path);

#endif
