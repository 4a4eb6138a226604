/* counters: counts CSP's refusals by reason, for a JSON file and for /metrics (roles/monitor.h).
 * AS's file has the same names and more (aggregator/tally.h).
 *
 *     counters_add(&c, COUNT_ENROL_TOKEN);
 *     counters_peer(&c, p->code);                       // a refused certificate
 *     SEFL_TRY(counters_write(&c, "state/counters.json"));  // once a second
 *
 * A refused peer never learns the reason; the log shows it. Counts start with the process.
 * Threads: any may add; one writes.   Secrets: none; the file contains no names. */
#ifndef ROLES_COUNTERS_H
#define ROLES_COUNTERS_H

#include "base/json.h"
#include "net/x509.h"
#include "roles/monitor.h"

#include <stdatomic.h>
#include <stdbool.h>

/* X(name, key in the file) */
#define COUNTER_LIST(X)                          \
    X(ENROLLED, "enrol.enrolled")                \
    X(ENROL_TOKEN, "enrol.refused")              \
    X(NOISE_CHECK, "noise.check_failed")         \
    X(TRUST_UNREADABLE, "trust_list_unreadable") \
    X(TRUST_OLDER, "trust_list_older")

typedef enum counter {
#define COUNTER_ENUM(name, key) COUNT_##name,
    COUNTER_LIST(COUNTER_ENUM)
#undef COUNTER_ENUM
        COUNTERS
} counter;

typedef struct counters {
    _Atomic uint64_t n[COUNTERS];
    _Atomic uint64_t certificates[X509_VERDICTS]; /* refusals by reason: "certificate.expired" */
    _Atomic bool changed;
} counters;

/* Writes one counter; spaces in its name become underscores. */
void counters_put(json *j, const char *group, const char *name, uint64_t n);
/* Writes the counters of refused certificates. */
void counters_put_peers(json *j, const _Atomic uint64_t certificates[X509_VERDICTS]);
void counters_add(counters *c, counter which);
void counters_peer(counters *c, x509_verdict_code code);
/* Writes the family with the counters whose key begins with this prefix, without it. */
void counters_show(prom *p, monitor_id id, const char *label, const counters *c,
                   const char *prefix);
/* Replaces the file if a counter has changed since the last call. */
sefl_status counters_write(counters *c, const char *path) SEFL_MUST_CHECK;

#endif
