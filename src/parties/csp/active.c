/* With the setting `store`, several CSP processes may share one database, and one of them is
 * active: the holder of the lease "csp". The others wait, and do not even listen, so that a load
 * balancer or AS finds only the active one. Every write of the active process checks its fencing
 * number in its own transaction (journal_guard): the charge, the mark "revealed", the key of a
 * round. So a process that was stopped, or cut off from the database, can neither charge nor
 * reveal after another one took over. The thread here renews the lease; losing it ends the
 * process. */
#include "roles/csp/csp_inside.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/ct.h"
#include "base/sha256.h"

#include <stdio.h>
#include <unistd.h>

enum { NAP_MS = 50, POLL_MS = 250 };

sefl_status csp_journal_open(csp_role *r, journal **out, const uint8_t *id)
{
    const csp_settings *c = r->o.settings;
    journal_place at = { .folder = c->state, .store = c->store, .going = &r->running };
    uint8_t root[SHA256_BYTES], owner[SHA256_BYTES];
    sha256 h;
    if (c->store) {
        SEFL_NEED(r->o.root != NULL, SEFL_EINVAL,
                  "a Paillier key keeps its state in the folder: remove the setting");
        sha256_init(&h);
        sha256_add(&h, span_of_str("sefl csp store 1"));
        sha256_add(&h, span_of(r->o.root, 32));
        sha256_end(&h, root);
        sefl_wipe(&h, sizeof h);
        at.root = root;
        sha256_of(owner, span_of(sign_key_pub(r->key), SIGN_PUB_BYTES));
        at.owner = owner;
        at.owner_is = "CSP with the signing key";
    }
    sefl_status st = journal_open_at(out, &at, "csp", id);
    if (st == SEFL_OK && r->lease.fence > 0)
        journal_guard(*out, &r->lease);
    sefl_wipe(root, sizeof root);
    return st;
}

uint64_t csp_away(const csp_role *r)
{
    return pulse_away(&r->pulse, &r->clock, &r->wall);
}

static void *renew(void *arg)
{
    csp_role *r = arg;
    const uint64_t every = r->lease.ttl_ms / 5;
    uint64_t due = clock_ms(&r->clock) + every, ask_ms = 0;
    lease_info info;
    while (!atomic_load(&r->lease_end)) {
        clock_pause_ms(NAP_MS);
        if (clock_ms(&r->clock) >= ask_ms) {
            if (lease_look(r->lease_journal, r->lease.name, &info) == SEFL_OK)
                pulse_heard(&r->pulse, &r->clock);
            ask_ms = clock_ms(&r->clock) + PULSE_EVERY_MS;
        }
        if (clock_ms(&r->clock) < due)
            continue;
        due = clock_ms(&r->clock) + every;
        sefl_status st = lease_renew(r->lease_journal, &r->lease);
        if (st == SEFL_ESTATE) {
            log_error(r->o.log, "another process is the active CSP now: this one ends",
                      lf_str("why", sefl_last_error()));
            atomic_store(&r->lease_lost, true);
            csp_role_stop(r);
            return NULL;
        }
        if (st != SEFL_OK) /* writes fail too until the database is back */
            log_warn(r->o.log, "the lease was not renewed", lf_str("why", sefl_last_error()));
    }
    return NULL;
}

sefl_status csp_active_wait(csp_role *r)
{
    char host[65] = "", who[100];
    bool said = false;
    sefl_status st;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    snprintf(who, sizeof who, "%s:%ld", host, (long)getpid());
    SEFL_PASS(csp_journal_open(r, &r->lease_journal, NULL));
    while ((st = lease_take(r->lease_journal, "csp", who, 1000 * (uint64_t)r->o.settings->lease_s,
                            &r->lease)) != SEFL_OK) {
        if (st != SEFL_ESTATE)
            log_warn(r->o.log, "the lease was not taken", lf_str("why", sefl_last_error()));
        else if (!said)
            log_info(r->o.log, "standby: waiting for the lease", lf_str("why", sefl_last_error()));
        said = true;
        for (unsigned ms = 0; ms < POLL_MS && !atomic_load(&r->stop); ms += NAP_MS)
            clock_pause_ms(NAP_MS);
        if (atomic_load(&r->stop))
            return SEFL_OK;
    }
    log_info(r->o.log, "active", lf_u64("fence", r->lease.fence));
    pulse_heard(&r->pulse, &r->clock);
    SEFL_PASS(thread_start(&r->renewer, renew, r));
    r->renewing = true;
    return SEFL_OK;
}

void csp_active_end(csp_role *r)
{
    if (r->renewing) {
        atomic_store(&r->lease_end, true);
        pthread_join(r->renewer, NULL);
        r->renewing = false;
    }
    if (r->lease_journal && r->lease.fence > 0 && !atomic_load(&r->lease_lost) &&
        lease_release(r->lease_journal, &r->lease) != SEFL_OK)
        log_warn(r->o.log, "the lease was not released: others wait until it expires",
                 lf_str("why", sefl_last_error()));
    journal_close(r->lease_journal);
    r->lease_journal = NULL;
}
