/* ingest_plan: what the processes of `sefl bench ingest` share: ingest.c (the servers, the run) and
 * ingest_send.c (the generator).
 * Threads: none.   Secrets: none. */
#ifndef BENCH_ROUND_INGEST_PLAN_H
#define BENCH_ROUND_INGEST_PLAN_H

#include "bench/bench.h"

#include "crypto/ahe/ahe.h"
#include "crypto/seal/seal.h"
#include "crypto/sign.h"
#include "net/tls.h"

#define NUMBER "Sefl-Bench-Client" /* header: the sending client */

enum { BITS = 3072, ROUND = 1, CONNECTIONS_MAX = 256, TURNS = 5, PROCESSES_MAX = 8 };

typedef struct options {
    bench b;
    const char *scheme; /* NULL: both */
    size_t values;
    unsigned long updates, connections;
    const char *store; /* NULL: one server with a journal of its own */
    unsigned long processes;
} options;

/* Shared by all three processes. */
typedef struct plan {
    options o;
    const ahe_pub *pub;
    ahe_params p;
    const seal_suite *seal; /* NULL: no heads */
    size_t bytes;           /* of a body */
    char dir[112];
} plan;

/* A server process's report after each turn: totals since its start. */
typedef struct result {
    double cpu_s, peak_mb;
    uint64_t bodies;
} result;

/* An order to the generator: updates [first, end), spread over the servers. */
typedef struct order {
    uint16_t port[PROCESSES_MAX];
    unsigned ports;
    unsigned which; /* 0: AS, 1: the floor */
    unsigned long first, end;
} order;

extern const uint8_t ingest_task[32], ingest_round_seed[SEAL_SEED];

/* Returns DIR/NAME. */
const char *ingest_in(const plan *pl, char out[160], const char *name);
sefl_status ingest_identity(const plan *pl, tls_id **out, const char *name) SEFL_MUST_CHECK;
/* Client number i, and its upload key. */
void ingest_client(uint8_t client[32], unsigned long i);
sefl_status ingest_upload_key(sign_key **out, unsigned long i) SEFL_MUST_CHECK;
/* The generator: reads orders until the end of `in_fd`, carries them out and reports a status for
 * each. */
int ingest_generator(const plan *pl, int in_fd, int out_fd);

#endif
