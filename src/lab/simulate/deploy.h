/* deploy: predicts what one round of a deployed federation costs its servers, for any number of
 * clients: `sefl plan --deploy`.
 *
 *     SEFL_TRY(deploy_measure(&costs, federation));
 *     SEFL_TRY(deploy_make(&d, federation, &rates, &costs, &(deploy_ask){ .clients = 100000 }));
 *     d.in_bytes, d.as_cores, d.aggregators, deploy_parts[d.bottleneck].name, ...
 *
 * Measured on this machine: CSP's work for a head and for a pad (deploy_measure: a round of some
 * clients, as calibrate.h measures it, is too short to extrapolate), adding a partial sum, noise
 * and reveal, the step. Bytes follow from the task. The rest is from a measurement of whole
 * processes, which a plan cannot repeat (DEPLOY_*, docs/SCALING.md), or an assumption about the
 * machines. All clients of the round upload within one window. Needs crypto full and scheme pad:
 * SEFL_EINVAL otherwise.
 * Threads: pure functions.   Secrets: none. */
#ifndef SIMULATE_DEPLOY_H
#define SIMULATE_DEPLOY_H

#include "base/json.h"
#include "simulate/calibrate.h"

/* `sefl bench ingest`: processor time per upload at AS (TLS, hash, file, row, running sum), and in
 * PostgreSQL. */
#define DEPLOY_UPLOAD_MS      0.5
#define DEPLOY_UPLOAD_NS_BYTE 1.9
#define DEPLOY_DATABASE_MS    0.49
/* README: bytes of noise shares between the servers, per value. */
#define DEPLOY_NOISE_BYTES 1089
/* Assumed: an aggregator's machine, CSP's cores, the shared folder, and a commit, which is a sync
 * of the database's disk. No part should be used above DEPLOY_USE. */
#define DEPLOY_CORES         4
#define DEPLOY_NETWORK_BYTES 1.25e9 /* 10 Gbit per second */
#define DEPLOY_CSP_CORES     16
#define DEPLOY_FOLDER_BYTES  2e9 /* per second */
#define DEPLOY_COMMIT_MS     1.0
#define DEPLOY_USE           0.7
#define DEPLOY_CLIENTS_MAX   (UINT64_C(1) << 24) /* rounds.clients_max */

typedef enum deploy_part {
    DEPLOY_AS_CORES,
    DEPLOY_AS_NETWORK,
    DEPLOY_FOLDER,
    DEPLOY_DATABASE,
    DEPLOY_CSP,
    DEPLOY_CLIENTS, /* no server has much to do */
    DEPLOY_PARTS
} deploy_part;
typedef struct deploy_text {
    const char *name, *next; /* the part, and what to do if it is the bottleneck */
} deploy_text;
extern const deploy_text deploy_parts[DEPLOY_PARTS];

/* Processor seconds of CSP for one client. */
typedef struct deploy_costs {
    double head, pad;
} deploy_costs;

typedef struct deploy_ask {
    uint64_t clients;     /* uploads of the round */
    uint64_t aggregators; /* 0: as many as it needs */
    uint64_t window_s;
} deploy_ask;

typedef struct deploy {
    deploy_ask ask;
    uint64_t values, up_bytes;                        /* one upload */
    double in_bytes;                                  /* all of them */
    double as_seconds, database_seconds, csp_seconds; /* processor time of the round */
    double csp_after;   /* seconds after the close on CSP's cores, if no head came early */
    double after;       /* seconds after the close beside that: parts, noise, reveal, step */
    double heads_bytes; /* AS to CSP */
    double noise_bytes; /* noise shares, before the round */
    double link_bytes;  /* reveal */
    double lists_bytes; /* the leader's memory */
    uint64_t aggregators, need; /* used, and the least number that keeps every part below DEPLOY_USE
                                   as far as aggregators can */
    double use[DEPLOY_PARTS];   /* share of each part's capacity in the window */
    deploy_part bottleneck;
} deploy;

/* Takes about half a second of processor time. */
sefl_status deploy_measure(deploy_costs *out, const federation *s) SEFL_MUST_CHECK;
sefl_status deploy_make(deploy *out, const federation *s, const rates *r, const deploy_costs *c,
                        const deploy_ask *ask) SEFL_MUST_CHECK;
/* Appends one object. */
void deploy_json(json *j, const deploy *d);

#endif
