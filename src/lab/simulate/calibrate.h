/* calibrate: measures how fast this machine runs the parts of an experiment.
 *
 *     SEFL_TRY(calibrate(&r, federation, pool, 8));                // takes about 8 seconds
 *     SEFL_TRY(rates_write(&buf, &r)); SEFL_TRY(rates_read(&r, "rates.txt"));
 *
 * First, clients train for some steps (work.h). Then the driver (servers.h) runs rounds with zero
 * updates of two sizes, from two numbers of clients. The timings separate the costs per round, per
 * client and per value; base/alloc.h counts the memory. The rates are valid only for this model,
 * scheme and key.
 * Threads: one owner.   Secrets: none. */
#ifndef SIMULATE_CALIBRATE_H
#define SIMULATE_CALIBRATE_H

#include "base/pool.h"
#include "simulate/federation.h"

/* X(name with its unit, meaning). Clients' rates are for one core, servers' rates for the pool. */
#define RATES_LIST(X)                                                             \
    X(train_us_token, "local training, per word of text")                         \
    X(round_ns_value, "a client's clipping and quantising, per value")            \
    X(encrypt_ms_update, "encryption, per update")                                \
    X(encrypt_ns_value, "encryption, per value")                                  \
    X(sum_ms_round, "closing a sum, per round")                                   \
    X(sum_ns_value, "adding an update, per value")                                \
    X(open_ms_client, "CSP decrypts a client's head, per client")                 \
    X(open_ns_value, "CSP expands a client's pad, per value")                     \
    X(release_ms_round, "from the sum to the released integers (2pc), per round") \
    X(release_ns_value, "the same, per value")                                    \
    X(link_bytes_round, "between the servers, per round")                         \
    X(link_bytes_value, "the same, per value")                                    \
    X(step_ms_round, "the server's step and writing the model file")              \
    X(eval_us_token, "validation, per word of text")                              \
    X(model_bytes, "size of a model file")                                        \
    X(program_bytes, "in memory: the program, its libraries and threads")         \
    X(tables_bytes, "in memory: the encryption's tables")                         \
    X(release_bytes_round, "in memory: the release (2pc), per round")             \
    X(release_bytes_value, "in memory: the release (2pc), per value")

typedef struct rates {
#define RATES_MEMBER(name, text) double name;
    RATES_LIST(RATES_MEMBER)
#undef RATES_MEMBER
} rates;

/* Measures all rates in about `seconds`. */
sefl_status calibrate(rates *out, const federation *s, pool *p, double seconds) SEFL_MUST_CHECK;

/* Appends two lines for each rate: a comment and "name=value". */
sefl_status rates_write(sefl_buf *out, const rates *r) SEFL_MUST_CHECK;
/* Reads a file in the format of rates_write. SEFL_EINVAL if a rate is missing. */
sefl_status rates_read(rates *out, const char *path) SEFL_MUST_CHECK;

/* Returns the number of words that a client with this text trains on in a round. */
uint64_t calibrate_words(const task *t, const corpus *text);

#endif
