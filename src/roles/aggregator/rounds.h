/* rounds: carries out what sum/agg.h decides, durably, one order after the other. In a sealed
 * task it also brings heads to CSP while clients upload, and takes bodies whose heads CSP refuses
 * off the sum.
 *
 * One thread (rounds_run) owns the link to CSP: it dials (agg.h says when), gets headers signed,
 * freezes, charges, opens, releases, skips, and pings when there is nothing to do. Uploads come in
 * on the server's threads through rounds_admission; both meet under one lock. What must survive is in
 * the journal before the machine is told:
 *
 *     fact 0 "agg"        the machine's memory (agg_remember), after every change
 *     fact 0 "model"      round and hash of the latest release (0: the initial model)
 *     fact 0 "signals"    round u64 and signal f64 of the latest releases (sum/release_check.h)
 *     fact N "header"     the header of round N, signed by both
 *     fact N "blocked"    the sentence with which the release check blocked round N
 *     file N "set"        the frozen set: client 32, body 32, by rising client
 *     fact N "tree"       sealed tasks: the tree seed of round N (protocol/counted.h), drawn once
 *     fact N "verdict"    sealed tasks: what CSP said about the set: root 32, kept u32, refused u32, then
 *                         index u32 and reason u8 of each refused
 *     fact N "counted"    sealed tasks: CSP's signature on those who are in the sum
 *     row N               phase, times, set's hash, model's hash (store/journal/journal.h)
 *     secret N "release"  the released integers, before anything of them is published
 *
 * Killed at any point and started again it goes on: the memory says which order comes next, every
 * order may be carried out twice, and the running sum is made again from the acknowledged bodies.
 *
 * Threads: rounds_run has one owner; the rest may be called from any.   Secrets: the integers
 * between opening and release. */
#ifndef ROLES_AGGREGATOR_ROUNDS_H
#define ROLES_AGGREGATOR_ROUNDS_H

#include "protocol/participant.h"
#include "roles/aggregator/collect.h"
#include "roles/aggregator/ingest.h"
#include "roles/aggregator/lanes.h"
#include "roles/aggregator/release.h"
#include "roles/aggregator/report.h"
#include "sum/account.h"
#include "sum/agg.h"
#include "sum/as_link.h"

typedef struct rounds rounds;

/* How the stream to CSP is made. */
typedef struct rounds_dial {
    void *ctx;
    sefl_status (*dial)(void *ctx, channel **out);
    void (*hang_up)(void *ctx);   /* closes what dial made; nothing there is fine */
    void (*interrupt)(void *ctx); /* from another thread: whatever waits fails soon */
} rounds_dial;

typedef struct rounds_config {
    const task *task;
    sefl_span envelope; /* the signed task, as stored */
    const sign_key *key;
    journal *journal;
    const as_store *as_store;
    account *account;        /* our ledger */
    const sefl_coins *coins; /* as_link.h's purposes, and "journal release" */
    releases *releases;
    rounds_dial dial;
    lanes *lanes;        /* joint noise: they are bound to each link; NULL: no shares are made */
    shares_pool *shares; /* that they fill */
    pool *pool;          /* of the link and the release */
    unsigned threads;    /* of the running sum */
    const sefl_clock *wall, *mono;
    sefl_log *log;
    unsigned ping_ms; /* 0: 10 s */
    void *ctx;
    void (*changed)(void *ctx);                        /* what rounds_news says has changed */
    void (*report)(void *ctx, const rounds_report *r); /* a round is over */
    void (*answered)(void *ctx);                       /* an errand has CSP's answer */
} rounds_config;

/* Takes up where the journal left off; the open round's bodies go to the running sum. */
sefl_status rounds_new(rounds **out, const rounds_config *c) SEFL_MUST_CHECK;
void rounds_free(rounds *r);

/* Until the task is over (SEFL_OK), rounds_stop (SEFL_ECANCELLED), or something that cannot be made
 * good: a journal that cannot be written, ledgers that disagree. */
sefl_status rounds_run(rounds *r) SEFL_MUST_CHECK;
void rounds_stop(rounds *r);

/* What ingest_config.admission wants; and the ingest to be told which round is open. */
ingest_admission rounds_admission(rounds *r);
void rounds_set_ingest(rounds *r, ingest *in);

/* A site's enrolment or a client's voucher on its way to CSP: asked by a thread of the server,
 * carried by the driver's when the link is free, looked at again after `answered` was called.
 * Nobody waits here. */
typedef struct rounds_errand rounds_errand;

sefl_status rounds_enrol(rounds *r, rounds_errand **out, const enrol_claim *c,
                         const enrol_proof *p) SEFL_MUST_CHECK;
/* A voucher that was checked (roles/csp/vouch.h), its bytes. With CSP's YES its key is in the journal
 * (sum/upload_keys.h), whether or not somebody still waits. */
sefl_status rounds_vouch(rounds *r, rounds_errand **out, sefl_span bytes) SEFL_MUST_CHECK;
/* False: no answer yet. True: *st is SEFL_OK, for an enrolment with CSP's signature in sig (else
 * NULL); SEFL_EAUTH: CSP said no; else CSP cannot be asked now. */
bool rounds_errand_done(rounds *r, const rounds_errand *e, sefl_status *st,
                        uint8_t sig[SIGN_BYTES]);
/* Must follow, answered or not. NULL is fine. */
void rounds_errand_end(rounds *r, rounds_errand *e);

/* What a client that has done with round `after` is to know. header: bytes that out->header looks
 * into; the caller clears it. */
sefl_status rounds_news(rounds *r, uint64_t after, round_news *out,
                        sefl_buf *header) SEFL_MUST_CHECK;
/* Is there something that such a client waits for? */
bool rounds_has_news(rounds *r, uint64_t after);

/* The proof that an update was counted: u32 n, n bytes of CSP's envelope, the client's path
 * (protocol/counted.h), which is empty for one that was not counted. SEFL_ENOTFOUND with the
 * reason: the round was skipped, is not opened yet, or the task's uploads are not sealed. SEFL_EBUDGET: this
 * client has asked about too many rounds in turn. */
sefl_status rounds_counted(rounds *r, uint64_t round, const uint8_t client[32],
                           sefl_buf *out) SEFL_MUST_CHECK;

/* File and hash of the model that the present round starts from; SEFL_ENOTFOUND with the reason for
 * another round. latest: whatever was released last. */
sefl_status rounds_model(rounds *r, uint64_t round, bool latest, sefl_buf *path,
                         uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;

agg_phase rounds_phase(rounds *r, uint64_t *round, uint32_t *clients);
/* Is CSP there, as far as the last message or ping over the link tells? */
bool rounds_linked(rounds *r);
bool rounds_over(rounds *r, agg_why *why);

#endif
