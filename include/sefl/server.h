/* server: runs one of the two servers of a federation inside a program.
 *
 *     sefl_aggregator *as = NULL;                          // on AS's machine
 *     sefl_status st = sefl_aggregator_open(&as, "aggregator.yml", NULL);
 *     if (st == SEFL_OK)
 *         st = sefl_aggregator_run(as);                    // until the task is over, or stop
 *     sefl_aggregator_close(as);
 *
 * and the same with sefl_csp on the machine of the other operator. The two servers must belong to
 * two parties that do not collude; running both in one process protects nobody and is for tests.
 * `sefl provision` writes the configuration of both, and `sefl task` the task that both sign.
 *
 * A secure sum needs no machine learning. Let the task have one external tensor of n values and the
 * server step `average`: in every round each client submits any vector of n values (client.h), and
 * the next round's values are the previous ones plus the average of the clients' changes. AS and
 * CSP add the vectors under encryption and add the noise jointly; neither sees a client's vector.
 *
 * Threads: one owner per server. Any thread may call stop, reload and port, but not after close has
 * begun. Callbacks run on the library's threads; they may call only stop. The library handles no
 * signals; ignore SIGPIPE. Secrets: the keys of the configuration; CSP's secret key is in locked
 * memory. After a crash, a new process continues from the state folder. */
#ifndef SEFL_SERVER_H
#define SEFL_SERVER_H

#include "sefl/log.h"
#include "sefl/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sefl_aggregator sefl_aggregator;
typedef struct sefl_csp sefl_csp;

/* The result of a round, in public numbers. */
typedef struct sefl_round_result {
    uint64_t round, rounds;
    int skipped;           /* too few clients: nothing was revealed */
    int blocked;           /* revealed and charged, but the release check blocked the sum */
    int64_t clients;       /* clients in the sum; -1: not public in this task */
    double epsilon_server; /* privacy spent so far, against a server; -1: no claim */
    double epsilon_others; /* against everybody else; -1: no claim */
    double perplexity;     /* on the public validation text; -1: there is none */
    double seconds;        /* since the round opened */
} sefl_round_result;

/* Options; zero is the default of each. Set size to sizeof(sefl_server_options). */
typedef struct sefl_server_options {
    size_t size;
    void *ctx; /* passed to the callbacks */
    /* Gets each log event as one JSON object without a newline; see log.h. */
    void (*log)(void *ctx, sefl_log_level level, const char *json);
    int log_fd;            /* without `log`: descriptor for the log (log.h); 0: no log */
    const char *log_level; /* minimum level unless the file has `log`; NULL: "info" */
    /* Settings that override the file: "key=value" strings, then NULL. Paths are relative to the
     * working folder. */
    const char *const *settings;
    void (*round)(void *ctx, const sefl_round_result *r); /* AS only: after each round */
} sefl_server_options;

/* Reads the configuration, the task and the keys, resumes from the state folder, and listens.
 * options: NULL for the defaults. *out is NULL on failure. */
SEFL_API sefl_status sefl_aggregator_open(sefl_aggregator **out, const char *path,
                                          const sefl_server_options *options);
/* Serves until the task is over or sefl_aggregator_stop is called: SEFL_OK. With the setting
 * `tasks`, it serves one task after the other until it is stopped. */
SEFL_API sefl_status sefl_aggregator_run(sefl_aggregator *a);
SEFL_API void sefl_aggregator_stop(sefl_aggregator *a);
/* Reloads the certificates; keeps the old ones if a file is wrong. */
SEFL_API void sefl_aggregator_reload(sefl_aggregator *a);
/* Returns the port that it listens on (`listen: host:0` lets the system choose one). */
SEFL_API unsigned sefl_aggregator_port(const sefl_aggregator *a);
/* Frees the server; NULL is fine. It must not be running. */
SEFL_API void sefl_aggregator_close(sefl_aggregator *a);

/* The same for CSP. The file that unlocks its key is a setting (`key_lock` or `passphrase_file`);
 * the library never prompts. */
SEFL_API sefl_status sefl_csp_open(sefl_csp **out, const char *path,
                                   const sefl_server_options *options);
SEFL_API sefl_status sefl_csp_run(sefl_csp *s);
SEFL_API void sefl_csp_stop(sefl_csp *s);
SEFL_API void sefl_csp_reload(sefl_csp *s);
SEFL_API unsigned sefl_csp_port(const sefl_csp *s);
SEFL_API void sefl_csp_close(sefl_csp *s);

#ifdef __cplusplus
}
#endif
#endif
