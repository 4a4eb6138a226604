/* task: the document that all parties of a federation agree on, and what follows from it.
 *
 * JSON (jansson), UTF-8, without floating-point numbers: decimals and 64-bit values are strings,
 * counts below 2^53 are integers; unknown, missing or repeated members are errors with the
 * member's path. Signed by both servers over its exact bytes; its id is the SHA-256 of those
 * bytes. A changed task is a new task, on the same ledger.
 *
 *     SEFL_TRY(task_read(&t, bytes));                       // parses and checks everything
 *     SEFL_TRY(task_open(&t, envelope bytes, &pinned));      // with both signatures first
 *     t.ahe, t.grid, t.terms                                 // derived; the same at every party
 *
 * Threads: read-only once made.   Secrets: none. */
#ifndef PROTOCOL_TASK_H
#define PROTOCOL_TASK_H

#include "base/buf.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/paillier.h"
#include "model/corpus/vocab.h"
#include "model/lm.h"
#include "model/optim.h"
#include "mpc/noise/noise.h"
#include "privacy/accountant/accountant.h"
#include "privacy/grid.h"
#include "privacy/mechanism/round.h"
#include "protocol/signed.h"

enum { TASK_ID = 32, TASK_NAME_MAX = 64, TASK_BYTES_MAX = 64 << 10 };

typedef enum task_noise { TASK_NOISE_NONE, TASK_NOISE_JOINT, TASK_NOISE_OWN } task_noise;
typedef enum task_sampling { TASK_ALL, TASK_OPEN, TASK_HIDDEN } task_sampling;
typedef enum task_weights { TASK_EQUAL, TASK_CAPPED } task_weights;
typedef enum task_unit { TASK_UNIT_CLIENT, TASK_UNIT_RECORD } task_unit;
typedef enum task_server { TASK_AVERAGE, TASK_MOMENTUM, TASK_ADAM } task_server;

typedef struct task {
    uint8_t id[TASK_ID]; /* SHA-256 of the document's bytes */
    char name[TASK_NAME_MAX + 1];
    char population[TASK_NAME_MAX + 1]; /* whose ledger */

    lm_config model; /* model.batch and .steps too */
    vocab_order order;
    uint8_t vocab_hash[SHA256_BYTES]; /* of the public word list, in its final order */
    uint8_t init_hash[SHA256_BYTES];  /* of the initial model's file */

    /* local training */
    optim_config optim;
    double lr, gradient_clip, dropout;
    uint32_t local_epochs; /* 0: local_steps counts */
    uint32_t local_steps;

    /* numbers and privacy */
    char clip[24], z[24]; /* decimals as written */
    task_noise noise;
    bool claim;            /* false: "claim": "none", no differential privacy claimed */
    double epsilon, delta; /* the target, where there is a claim */
    task_unit unit;
    uint32_t records_max; /* unit record: most records of one client and round */
    task_sampling sampling;
    double rate; /* 1 for TASK_ALL */
    task_weights weights;
    uint64_t weight_cap; /* words */

    /* rounds */
    uint64_t rounds;
    uint32_t clients_max; /* most clients in one sum */
    uint32_t enrolled;    /* clients in the population */
    uint32_t threshold;   /* L: never fewer in an opened sum */
    uint32_t enough;      /* over-selection: close when this many came; 0: at the deadline only */
    uint64_t deadline_ms, extend_ms;
    uint32_t extensions;
    uint64_t max_rounds_per_client;
    uint32_t patience; /* stop after so many rounds without improvement; 0: never */

    /* server step */
    task_server server;
    double server_lr;

    /* keys */
    ahe_pub *pub; /* owned */
    pinned servers;

    /* derived */
    size_t params;      /* values of the model */
    size_t values;      /* numbers in an update: params, and the weight slot if there is one */
    ahe_params ahe;     /* pack inside */
    dp_grid grid;       /* zeros without noise */
    bool publish_count; /* false under hidden sampling */
} task;

/* Parses, checks and derives. SEFL_EPROTO names the member; SEFL_EINVAL / SEFL_ERANGE for values
 * that do not fit together (threshold above clients_max, over-selection with an amplified claim,
 * joint noise below z = 0.25 that claims something, weak keys, ...). */
sefl_status task_read(task *out, sefl_span document) SEFL_MUST_CHECK;
void task_clear(task *t);

/* envelope_check(SIGN_TASK), then task_read; the keys named inside must be the pinned ones. */
sefl_status task_open(task *out, sefl_span envelope, const pinned *p) SEFL_MUST_CHECK;

/* The AHE context of a round: SHA-256("sefl context 1", task id, round u64). */
void task_context(uint8_t out[AHE_CONTEXT_BYTES], const task *t, uint64_t round);

/* What noise/noise.h wants for this round and attempt. store_dir is left NULL. */
noise_params task_noise_params(const task *t, uint64_t round, uint64_t attempt);

/* One release of this task as the accountant sees it (DP_NOISE_NONE without a claim). */
dp_event task_event(const task *t, uint64_t count);

/* ---- making one -------------------------------------------------------------------------- */

/* Keys of a new task as settings (config/settings.h): the schema of `sefl task new`. */
struct setting_def;
extern const struct setting_def task_schema[];
struct settings;

/* The document's bytes from settings, the public key and both servers' public signing keys.
 * Runs task_read over what it wrote. */
sefl_status task_make(sefl_buf *document, const struct settings *s, const ahe_pub *pub,
                      const pinned *servers) SEFL_MUST_CHECK;

/* Plain words for a data-protection officer: who can learn what, with which guarantee. */
sefl_status task_explain(sefl_buf *out, const task *t) SEFL_MUST_CHECK;

#endif
