/* counters: CSP's refusals, one number for each reason, in a JSON file. (AS counts more:
 * aggregator/tally.h, which uses the same names.)
 *
 *     counters_add(&c, COUNT_ENROL_TOKEN);
 *     counters_peer(&c, p->code);                       // a certificate
 *     SEFL_TRY(counters_write(&c, "state/counters.json"));  // once a second; if anything changed
 *
 * The peer never learns the reason. The log has the sentence, this file the sums since the start.
 * Threads: any may add; one writes.   Secrets: none; no names. */
#ifndef ROLES_COUNTERS_H
#define ROLES_COUNTERS_H

#include "net/x509.h"

#include <stdatomic.h>
#include <stdbool.h>

/* X(name, key in the file). The first ones: x509_verdict_code, in its order, without X509_OK. */
#define COUNTER_LIST(X)                                  \
    X(PEER_NONE, "certificate.no_certificate")           \
    X(PEER_UNKNOWN_ISSUER, "certificate.unknown_issuer") \
    X(PEER_EXPIRED, "certificate.expired")               \
    X(PEER_NOT_YET, "certificate.not_yet_valid")         \
    X(PEER_WEAK, "certificate.weak")                     \
    X(PEER_WRONG_ROLE, "certificate.wrong_role")         \
    X(PEER_MALFORMED, "certificate.malformed")           \
    X(PEER_WRONG_USE, "certificate.wrong_use")           \
    X(PEER_WRONG_HOST, "certificate.wrong_host")         \
    X(PEER_WRONG_KEY, "certificate.wrong_key")           \
    X(PEER_REVOKED, "certificate.revoked")               \
    X(PEER_NOT_LISTED, "certificate.not_enrolled")       \
    X(ENROLLED, "enrol.enrolled")                        \
    X(ENROL_TOKEN, "enrol.refused")                      \
    X(NOISE_CHECK, "noise.check_failed")                 \
    X(TRUST_UNREADABLE, "trust_list_unreadable")         \
    X(TRUST_OLDER, "trust_list_older")

typedef enum counter {
#define COUNTER_ENUM(name, key) COUNT_##name,
    COUNTER_LIST(COUNTER_ENUM)
#undef COUNTER_ENUM
        COUNTERS
} counter;

typedef struct counters {
    _Atomic uint64_t n[COUNTERS];
    _Atomic bool changed;
} counters;

const char *counter_key(counter c);
void counters_add(counters *c, counter which);
/* X509_OK counts nothing. */
void counters_peer(counters *c, x509_verdict_code code);
/* Writes the file if something has changed since the last time; replaced whole. */
sefl_status counters_write(counters *c, const char *path) SEFL_MUST_CHECK;

#endif
