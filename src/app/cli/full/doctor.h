/* doctor: checks whether this machine, with a role's settings file, can take part in a federation.
 *
 *     doctor d = { 0 };
 *     doctor_config(&d, path);                             // certificates, keys, ports, folders
 *     for (size_t i = 0; i < d.n; i++) show(&d.at[i]);
 *     settings_clear(&d.set);
 *
 * Every check adds a line: a status (ok; warn: it works, but not well; fail: it will not work), the
 * finding and, unless it is ok, a remedy. The doctor changes nothing. It binds a port briefly to
 * check that the port is free, and connects to each peer once without sending anything.
 * Threads: one owner.   Secrets: it reads the TLS key, the signing key and CSP's key to check
 * them. */
#ifndef CLI_FULL_DOCTOR_H
#define CLI_FULL_DOCTOR_H

#include "cli/full/config_kind.h"
#include "net/tls.h"

enum { DOCTOR_MAX = 64 };

typedef enum doctor_status { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL } doctor_status;

typedef struct doctor_line {
    doctor_status status;
    char name[24], says[512], remedy[200];
} doctor_line;

typedef struct doctor {
    const config_kind *k; /* kind of the file; NULL: derived from the file's name */
    settings set;         /* settings in the file */
    doctor_line at[DOCTOR_MAX];
    size_t n, count[3]; /* number of lines, in total and per status */
} doctor;

/* Adds a line. A remedy is ignored if the status is DOCTOR_OK. */
void doctor_add(doctor *d, doctor_status status, const char *name, const char *remedy,
                const char *fmt, ...) SEFL_PRINTF(5, 6);
#define doctor_ok(d, name, ...) doctor_add(d, DOCTOR_OK, name, "", __VA_ARGS__)

/* Adds the versions of the libraries. */
void doctor_libraries(doctor *d);
/* Checks that the role can listen on the address; if not, the line has the status `bad`. */
void doctor_port(doctor *d, const char *name, const char *address, doctor_status bad,
                 const char *remedy);
/* Checks everything that the role reads at its start: settings, files, certificate, task. False if
 * the settings are wrong. The caller clears d->set either way. */
bool doctor_settings(doctor *d, const char *path);
/* Runs doctor_settings, then checks the memory, the port and the peers. */
void doctor_config(doctor *d, const char *path);

/* Compares a client's clock with that of the AS at `server` (HOST:PORT), before anybody renews a
 * certificate. proxy: as the client's setting. Returns by how many seconds ours is ahead; 0: AS
 * does not answer. */
int64_t doctor_clock(doctor *d, const tls_id *id, const char *server, const char *proxy);

#endif
