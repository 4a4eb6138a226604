/* rounds: the aggregator's side of the driver of rounds (sum/as_rounds.h): uploads as files and a
 * running sum, models as files, TLS and lanes to CSP; and the questions that clients ask about
 * rounds.
 *
 * One thread (rounds_run) runs the driver and owns the link to CSP. Uploads come in on the
 * server's threads through rounds_admission; both meet under the driver's lock. What must survive
 * is in the journal (sum/as_disk.h) before the machine learns of it. Killed at any point and
 * started again the aggregator goes on: the driver restores the machine, and the running sum is
 * made again from the acknowledged uploads.
 *
 * Threads: rounds_run has one owner; any thread may call the rest.   Secrets: none of its own. */
#ifndef ROLES_AGGREGATOR_ROUNDS_H
#define ROLES_AGGREGATOR_ROUNDS_H

#include "protocol/participant.h"
#include "roles/aggregator/collect.h"
#include "roles/aggregator/ingest.h"
#include "roles/aggregator/lanes.h"
#include "roles/aggregator/release.h"
#include "sum/as_rounds.h"

typedef struct rounds rounds;

typedef struct rounds_config {
    as_rounds_config as; /* the driver's; rounds_new sets ctx, ports and callbacks */
    journal *journal;    /* below as.store */
    releases *releases;
    csp_dial dial;
    lanes *lanes;     /* joint noise: they are bound to each link; NULL: no shares are made */
    unsigned threads; /* of the running sum */
    void *ctx;
    void (*changed)(void *ctx);                        /* what rounds_news says has changed */
    void (*report)(void *ctx, const rounds_report *r); /* a round is over */
    void (*answered)(void *ctx);                       /* a request has CSP's answer */
} rounds_config;

/* Continues where the journal left off; the open round's uploads go to the running sum. */
sefl_status rounds_new(rounds **out, const rounds_config *c) SEFL_MUST_CHECK;
void rounds_free(rounds *r);

/* as_rounds_run, as_rounds_stop. */
sefl_status rounds_run(rounds *r) SEFL_MUST_CHECK;
void rounds_stop(rounds *r);

/* What ingest_config.admission wants; and the ingest to be told which round is open. */
ingest_admission rounds_admission(rounds *r);
void rounds_set_ingest(rounds *r, ingest *in);

/* A site's enrolment or a client's voucher on its way to CSP. A thread of the server asks; the
 * driver's thread sends it when the link is free and calls `answered`; then the server looks
 * again. Nobody waits here. */
typedef struct csp_request csp_request;

sefl_status rounds_enrol(rounds *r, csp_request **out, const enrol_claim *c,
                         const enrol_proof *p) SEFL_MUST_CHECK;
/* A voucher that was checked (roles/csp/vouch.h), its bytes. With CSP's YES its key is in the
 * journal (sum/upload_keys.h), even if the client is gone by then. */
sefl_status rounds_vouch(rounds *r, csp_request **out, sefl_span bytes) SEFL_MUST_CHECK;
/* False: no answer yet. True: *st is SEFL_OK, for an enrolment with CSP's signature in sig (else
 * NULL); SEFL_EAUTH: CSP said no; else CSP cannot be asked now. */
bool rounds_request_done(rounds *r, const csp_request *e, sefl_status *st, uint8_t sig[SIGN_BYTES]);
/* Must follow, answered or not. NULL is fine. */
void rounds_request_end(rounds *r, csp_request *e);

/* What a client needs to know after round `after`. header: the bytes that out->header points
 * into; the caller clears it. */
sefl_status rounds_news(rounds *r, uint64_t after, round_news *out,
                        sefl_buf *header) SEFL_MUST_CHECK;
/* Would such a client get news now? */
bool rounds_has_news(rounds *r, uint64_t after);

/* The proof that an update was counted: u32 n, n bytes of CSP's envelope, the client's path
 * (protocol/counted.h), which is empty for one that was not counted. SEFL_ENOTFOUND with the
 * reason: the round was skipped, is not opened yet, or the task's uploads are not sealed.
 * SEFL_EBUDGET: this client has asked about too many rounds in turn. */
sefl_status rounds_counted(rounds *r, uint64_t round, const uint8_t client[32],
                           sefl_buf *out) SEFL_MUST_CHECK;

/* File and hash of the model that the present round starts from; SEFL_ENOTFOUND with the reason for
 * another round. latest: the latest release, whatever the round. */
sefl_status rounds_model(rounds *r, uint64_t round, bool latest, char path[PATH_MAX],
                         uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;

agg_phase rounds_phase(rounds *r, uint64_t *round, uint32_t *clients);
/* Did CSP answer the last message or ping? */
bool rounds_linked(rounds *r);
bool rounds_over(rounds *r, agg_why *why);

#endif
