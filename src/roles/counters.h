/* counters: how often a server refused whom, and why: one number for each reason, in a JSON file.
 *
 *     counters_add(&c, COUNT_ENROL_TOKEN);
 *     counters_peer(&c, p->code);                       // a certificate
 *     SEFL_TRY(counters_write(&c, "state/counters.json"));      // once a second; only what has changed
 *
 * The peer never learns the reason; the log has the sentence, this file the sums since the start.
 * Threads: any may add; one writes.   Secrets: none; no names. */
#ifndef ROLES_COUNTERS_H
#define ROLES_COUNTERS_H

#include "net/x509.h"

#include <stdatomic.h>
#include <stdbool.h>

/* X(name, key in the file). The first ones: x509_verdict_code, in its order, without X509_OK. */
#define COUNTER_LIST(X)                               \
    X(PEER_NONE, "peer_no_certificate")               \
    X(PEER_UNKNOWN_ISSUER, "peer_unknown_issuer")     \
    X(PEER_EXPIRED, "peer_expired")                   \
    X(PEER_NOT_YET, "peer_not_yet_valid")             \
    X(PEER_WEAK, "peer_weak")                         \
    X(PEER_WRONG_ROLE, "peer_wrong_role")             \
    X(PEER_MALFORMED, "peer_malformed")               \
    X(PEER_WRONG_USE, "peer_wrong_use")               \
    X(PEER_WRONG_HOST, "peer_wrong_host")             \
    X(PEER_WRONG_KEY, "peer_wrong_key")               \
    X(PEER_REVOKED, "peer_revoked")                   \
    X(PEER_NOT_LISTED, "peer_not_enrolled")           \
    X(ENROLLED, "enrolled")                           \
    X(ENROL_FORM, "enrolment_malformed")              \
    X(ENROL_TOKEN, "enrolment_token_refused")         \
    X(ENROL_CSP, "enrolment_refused_by_csp")          \
    X(ENROL_RATE, "enrolment_too_many")               \
    X(ENROL_UNAVAILABLE, "enrolment_csp_unavailable") \
    X(TRUST_UNREADABLE, "trust_list_unreadable")

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
