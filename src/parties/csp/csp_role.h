/* csp_role: the cryptography service provider (CSP) as a process. It runs the state machine of
 * sum/csp.h on a TLS stream, with a journal and a ledger on disk.
 *
 *     settings_init(&s, csp_schema);
 *     SEFL_TRY(yaml_read(&s, "csp.yml"));                      // then options: settings_set
 *     SEFL_TRY(csp_settings_make(&cfg, &s));
 *     SEFL_TRY(csp_role_new(&r, &(csp_role_options){ .settings = &cfg, .root = root }));
 *     st = csp_role_run(r);           // until the task is over, or csp_role_stop
 *     csp_role_free(r);
 *
 * CSP listens and serves one AS at a time. AS needs a certificate with the role "aggregator" from
 * an issuer in the trust list of `ca` or, if there is no list, from a CA in tls.peers. CSP checks
 * the list several times a second and disconnects an AS that was revoked. When AS forwards a site's
 * enrolment, CSP checks it against the list's tokens and adds the site to the list.
 * state/counters.json and /metrics count refusals (roles/counters.h, roles/monitor.h).
 *
 * A sealed task needs `ca`: CSP accepts vouchers and heads only from clients in its list and
 * clients whose CA the list trusts for clients. It repeats this check for each head. CSP checks the
 * age of the round key (csp_expire) even when AS is not connected. It disconnects an AS that is in
 * the middle of a message when the key expires.
 *
 * A new verified connection replaces the current one, so a dead peer never blocks the next one. The
 * old connection's attempt is dropped unless its round is marked as revealed. CSP closes a stream
 * that is silent for link_silence seconds (protocol/link.h, "Waiting").
 *
 * After kill -9 at any moment, CSP continues from its store (sum/csp_store.h). If CSP's own disk
 * fails, the stream ends without telling AS a reason; the next connection reloads the ledger
 * (sum/account.h). After BYE for a finished task, csp_role_run returns SEFL_OK, or continues to
 * serve if `stay` is set.
 *
 * With the setting `tasks`, CSP serves the task that AS names in HELLO, if this folder has it
 * (csp_queue.c), and ends only after csp_role_stop.
 *
 * With the setting `store`, journal and ledger are in a PostgreSQL database that several processes
 * share. One of them is active, by a lease; csp_role_run of the others waits without listening, and
 * takes over when the lease expires (active.c). csp_role_run of a process that lost the lease
 * returns SEFL_ESTATE. The port is bound when the process becomes active, after `bound` was called.
 * Shares of the noise pool are in memory only: a new active process makes new ones with AS.
 *
 * csp_settings.c describes the settings; `sefl init csp.yml` writes a commented file.
 * Threads: one owner; any thread may call csp_role_stop and csp_role_reload.
 * Secrets: the caller's secret key, the signing key, and the secrets that sum/csp.h names. */
#ifndef ROLES_CSP_CSP_ROLE_H
#define ROLES_CSP_CSP_ROLE_H

#include "base/coins.h"
#include "base/log.h"
#include "config/address.h"
#include "config/settings.h"
#include "crypto/ahe/ahe.h"
#include "sum/csp.h"

extern const setting_def csp_schema[];

/* The contents of csp.yml. The `settings` that filled it own the strings; NULL: not given. */
typedef struct csp_settings {
    host_port listen, health; /* health.host "": no health page (roles/health.h) */
    host_port page, page_tls; /* host "": no page there (page/page.h) */
    const char *page_viewers;
    const char *cert, *tls_key, *peers;
    const char *ca; /* the operator's folder (roles/ca.h); NULL: tls.peers decides who connects */
    const char *sign_key, *task, *state, *ledger;
    const char *tasks; /* folder of tasks (roles/task_queue.h); NULL: only `task` */
    const char *key, *key_lock, *passphrase_file; /* the secret key file, and its lock */
    const char *store; /* postgresql://...; NULL: in `state` and `ledger` */
    const char *ready_file, *user;
    unsigned threads, link_silence_s, lease_s;
    bool stay;
} csp_settings;

/* Fills *out; SEFL_EINVAL if a setting is missing or wrong. s must outlive *out. */
sefl_status csp_settings_make(csp_settings *out, const settings *s) SEFL_MUST_CHECK;

typedef struct csp_role csp_role;

typedef struct csp_role_options {
    const csp_settings *settings; /* borrowed */
    const uint8_t *root;     /* root of the round keys, 32 bytes, borrowed; NULL for paillier */
    const ahe_sec *sec;      /* secret key of a paillier task, borrowed; else NULL */
    sefl_log *log;           /* NULL: silent */
    const sefl_coins *coins; /* NULL: the system's; the program passes NULL */
    const sefl_clock *wall;  /* NULL: the system's */
    const sefl_clock *boot;  /* as clock_boot; NULL: the system's */
    void *ctx;
    sefl_status (*bound)(
        void *ctx); /* called when the port is bound, before any file is opened; or NULL */
} csp_role_options;

/* Reads the task, keys and identity, opens the journal and ledger, and listens. */
sefl_status csp_role_new(csp_role **out, const csp_role_options *o) SEFL_MUST_CHECK;
void csp_role_free(csp_role *r);

/* Writes the ready file ("host:port" and a newline) and serves. If AS ended the task in an earlier
 * run of the process, returns at once (unless `stay` is set). */
sefl_status csp_role_run(csp_role *r) SEFL_MUST_CHECK;

void csp_role_stop(csp_role *r);
/* Reloads the certificates before the next connection; keeps the old ones if a file is wrong. */
void csp_role_reload(csp_role *r);

uint16_t csp_role_port(const csp_role *r);
/* Returns the times of the latest reveal. Call it only while no stream is served. */
const csp_times *csp_role_times(const csp_role *r);

#endif
