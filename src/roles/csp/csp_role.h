/* csp: the cryptography service provider as a process: sum/csp.h on a TLS stream, with a journal
 * and a ledger on disk.
 *
 *     settings_init(&s, csp_schema);
 *     SEFL_TRY(yaml_read(&s, "csp.yml"));                      // flags may follow: settings_set
 *     SEFL_TRY(csp_settings_make(&cfg, &s));
 *     SEFL_TRY(csp_role_new(&r, &(csp_role_options){ .settings = &cfg, .root = root, .log = &lg }));
 *     st = csp_role_run(r);           // until the task is over, or somebody calls csp_role_stop
 *     csp_role_free(r);
 *
 * It listens, and serves one AS at a time: whoever shows a certificate of the role "aggregator" from an
 * issuer in the trust list of `ca` (without: from a CA in tls.peers). The list is looked at several times
 * a second: an AS that was revoked is cut off. Sites that AS brings for enrolment are checked against
 * the list's tokens and become members of it. state/counters.json counts refusals (roles/counters.h).
 *
 * A task with sealed updates needs `ca`: CSP takes vouchers and heads only of the clients in its list, and of
 * those that a CA vouches for which the list trusts for clients; both are asked again for each head. While
 * no aggregator is there CSP still looks after the age of the round's key (csp_expire); one that is there and
 * in the middle of a message when the key expires is put out.
 *
 * A new verified connection takes the place of the present one, whose attempt is dropped
 * if it is not marked open yet: a dead peer never blocks the next. A stream on which nothing came for
 * link_silence seconds is closed (protocol/link.h, "Waiting").
 *
 * kill -9 at any moment: what the journal says holds (sum/csp.h). A fault of our own disk ends the
 * stream (AS is told no more than that); the next connection finds the ledger read anew (sum/account.h).
 *
 * After BYE of a finished task csp_role_run returns SEFL_OK (`stay`: it serves on).
 *
 * Its settings, with their meanings: settings.c, or `sefl init csp.yml`.
 * Threads: one owner; csp_role_stop and csp_role_reload from any thread.
 * Secrets: the secret key (the caller's), the signing key, what sum/csp.h names. */
#ifndef ROLES_CSP_H
#define ROLES_CSP_H

#include "base/coins.h"
#include "base/log.h"
#include "config/address.h"
#include "config/settings.h"
#include "crypto/ahe/ahe.h"
#include "sum/csp.h"

extern const setting_def csp_schema[];

/* What csp.yml says. The texts belong to the settings that filled it; NULL: not given. */
typedef struct csp_settings {
    host_port listen, health; /* health.host "": no such page (roles/health.h) */
    const char *cert, *tls_key, *peers;
    const char *ca; /* the operator's folder (roles/ca.h); NULL: tls.peers says who gets in */
    const char *sign_key, *task, *state, *ledger;
    const char *key, *key_lock, *passphrase_file; /* the secret key and what opens it */
    const char *ready_file, *user;
    unsigned threads, link_silence_s;
    bool stay;
} csp_settings;

/* SEFL_EINVAL names what is missing or wrong. s must outlive *out. */
sefl_status csp_settings_make(csp_settings *out, const settings *s) SEFL_MUST_CHECK;

typedef struct csp_role csp_role;

typedef struct csp_role_options {
    const csp_settings *settings; /* borrowed */
    const uint8_t *root;          /* of the round keys, 32 bytes, borrowed; NULL for paillier */
    const ahe_sec *sec;           /* of a paillier task, borrowed; else NULL */
    sefl_log *log;                /* NULL: silent */
    const sefl_coins *coins;      /* NULL: the system's, and nothing else in the program */
    const sefl_clock *wall;       /* NULL: the system's */
    void *ctx;
    sefl_status (*bound)(void *ctx); /* the port is bound, no file is open yet; may be NULL */
} csp_role_options;

/* Reads task, keys and identity, opens journal and ledger, listens. */
sefl_status csp_role_new(csp_role **out, const csp_role_options *o) SEFL_MUST_CHECK;
void csp_role_free(csp_role *r);

/* Writes the ready file ("host:port", a line) and serves. A task that AS has ended in an earlier life of
 * the process is over at once (unless it is to stay). */
sefl_status csp_role_run(csp_role *r) SEFL_MUST_CHECK;

void csp_role_stop(csp_role *r);
/* Certificates are read again before the next connection; a file that is wrong keeps the old ones. */
void csp_role_reload(csp_role *r);

uint16_t csp_role_port(const csp_role *r);
const task *csp_role_task(const csp_role *r);
/* Of the latest opening; only while nothing is served. */
const csp_times *csp_role_times(const csp_role *r);

#endif
