/* rounds: implements the round driver's ports (sum/as_rounds.h) for the aggregator. Uploads are
 * files and a running sum, models are files, and CSP is reached through TLS and lanes. The module
 * also answers clients' questions about rounds.
 *
 * One thread (rounds_run) runs the driver and owns the link to CSP. Uploads arrive on the server's
 * threads through rounds_admission; both use the driver's lock. Everything that must survive a
 * crash is in the journal (store/disk/as_disk.h) before the state machine receives it. So a killed
 * aggregator continues after a restart: the driver restores the state machine, and collect
 * recomputes the running sum from the acknowledged uploads.
 *
 * Threads: rounds_run has one owner; any thread may call the other functions.   Secrets: none. */
#ifndef ROLES_AGGREGATOR_ROUNDS_H
#define ROLES_AGGREGATOR_ROUNDS_H

#include "protocol/participant.h"
#include "roles/aggregator/collect.h"
#include "roles/aggregator/ingest.h"
#include "roles/aggregator/lanes.h"
#include "roles/aggregator/release.h"
#include "roles/audit/audit_log.h"
#include "roles/waiting.h"
#include "sum/as_rounds.h"

typedef struct rounds rounds;

typedef struct rounds_config {
    as_rounds_config as; /* for the driver; rounds_new sets its ctx, ports and callbacks */
    journal *journal;    /* the journal under as.store */
    journal *own;        /* several processes (share.h): this one's own connection; NULL: alone */
    uint64_t lease_ms;   /* several processes */
    releases *releases;
    audit_log *audit; /* NULL: none */
    csp_dial dial;
    lanes *lanes;     /* for joint noise, bound to each new link; NULL: no noise shares */
    unsigned threads; /* number of threads for the running sum */
    void *ctx;
    void (*changed)(void *ctx);                        /* the result of rounds_news has changed */
    void (*report)(void *ctx, const rounds_report *r); /* a round is over */
    void (*answered)(void *ctx);                       /* CSP has answered a request */
    /* CSP's verdict counts this client out of the round; may be NULL. */
    void (*counted_out)(void *ctx, uint64_t round, const uint8_t client[32], const char *why);
} rounds_config;

/* Continues from the journal's state; adds the open round's uploads to the running sum. */
sefl_status rounds_new(rounds **out, const rounds_config *c) SEFL_MUST_CHECK;
void rounds_free(rounds *r);

/* rounds_run calls as_rounds_run; rounds_stop ends it, the link and the lanes. */
sefl_status rounds_run(rounds *r) SEFL_MUST_CHECK;
void rounds_stop(rounds *r);

/* rounds_admission returns the callbacks for ingest_config.admission; rounds_set_ingest sets the
 * ingest to which rounds reports the open round. */
ingest_admission rounds_admission(rounds *r);
void rounds_set_ingest(rounds *r, ingest *in);

/* A site's enrolment or a client's voucher that AS forwards to CSP. A server thread queues it. The
 * driver's thread sends it when the link is free, and calls `answered` once CSP has answered; the
 * server then calls rounds_request_done again. None of these calls waits. */
typedef struct csp_request csp_request;

sefl_status rounds_enrol(rounds *r, csp_request **out, const enrol_claim *c,
                         const enrol_proof *p) SEFL_MUST_CHECK;
/* Queues the bytes of a verified voucher (roles/vouch.h). When CSP answers YES, the voucher's
 * key is stored in the journal (store/disk/upload_keys.h), even if the client has disconnected by
 * then. */
sefl_status rounds_vouch(rounds *r, csp_request **out, sefl_span bytes) SEFL_MUST_CHECK;
/* False if there is no answer yet. Otherwise *st is SEFL_OK (sig, which may be NULL, gets CSP's
 * signature for an enrolment), SEFL_EAUTH if CSP refused, or another failure if CSP is not
 * reachable now. */
bool rounds_request_done(rounds *r, const csp_request *e, sefl_status *st, uint8_t sig[SIGN_BYTES]);
/* Ends a request, answered or not; call it for every request. NULL is allowed. */
void rounds_request_end(rounds *r, csp_request *e);

/* Returns the news for a client that has finished round `after`. header is the storage of
 * out->header; the caller clears it. */
sefl_status rounds_news(rounds *r, uint64_t after, round_news *out,
                        sefl_buf *header) SEFL_MUST_CHECK;
/* True if a client that has finished round `after` would get news now. */
bool rounds_has_news(rounds *r, uint64_t after);

/* Appends the proof that an update was counted: u32 n, n bytes of CSP's envelope, then the client's
 * path (protocol/counted.h), which is empty if the update was not counted. SEFL_ENOTFOUND, with the
 * reason, if the round was skipped or is not counted yet, or if the task's uploads are not sealed.
 * SEFL_EBUDGET if this client has asked about too many different rounds. */
sefl_status rounds_counted(rounds *r, uint64_t round, const uint8_t client[32],
                           sefl_buf *out) SEFL_MUST_CHECK;

/* Returns the path and hash of the model that the current round starts from; SEFL_ENOTFOUND, with
 * the reason, for any other round. With latest, uses the latest release and ignores round. */
sefl_status rounds_model(rounds *r, uint64_t round, bool latest, char path[PATH_MAX],
                         uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;

/* Returns the round that released the latest model; 0: none did. */
uint64_t rounds_released(rounds *r);

agg_phase rounds_phase(rounds *r, uint64_t *round, uint32_t *clients);
/* What the operators have asked for. */
typedef struct rounds_hold {
    bool paused;          /* no round begins until an operator resumes the task, ... */
    bool by_csp;          /* ... CSP's operator */
    bool pausing;         /* the same, once the round in progress is over */
    bool ending;          /* the task ends with the round in progress */
    uint64_t deadline_ms; /* of the open round; 0: none is open */
    uint64_t commanded;   /* id of the order that the driver obeyed last; 0: none */
} rounds_hold;
rounds_hold rounds_held(rounds *r);
/* Passes an order of AS's operator to the driver. */
void rounds_command(rounds *r, const as_command *c);
/* True if this process runs the rounds: it is alone, or leads (share.h). */
bool rounds_leads(const rounds *r);
/* Since when the shared database does not answer, in seconds since 1970; 0: it does, or there is
 * none. Then the other functions here may wait for it. */
uint64_t rounds_away(const rounds *r);
/* The folder of this process's bodies in a round; NULL: it is alone. */
const char *rounds_bodies(const rounds *r);
/* Tells the rounds how many clients this one can count on (agg.h: EXPECT). */
void rounds_expect(rounds *r, uint64_t round, uint32_t clients);
/* Describes the open round, but not whom it waits for; false if no round is open. */
bool rounds_waiting(rounds *r, waiting_view *out);
/* The lengths of AS's queues. */
typedef struct rounds_queues {
    uint64_t requests;          /* for CSP, not sent yet */
    uint64_t unsummed;          /* updates that are not in the running sum yet */
    uint64_t rooms, rooms_most; /* places for updates in memory: in use, all */
} rounds_queues;
rounds_queues rounds_queues_of(rounds *r);
/* True if CSP answered the last message or ping. */
bool rounds_linked(rounds *r);
/* as_rounds_trouble; "" in a process that does not lead. */
void rounds_trouble(rounds *r, char out[AS_TROUBLE]);
bool rounds_over(rounds *r, agg_why *why);

#endif
