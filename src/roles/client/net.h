/* client_net: the requests of a client, and what an answer of AS means for it.
 *
 * Each call gives a word: ANSWER_OK, ANSWER_AGAIN (the network or the server is in trouble: back
 * off, then the same again), ANSWER_OVER (this round is over for this client: late, limit, full,
 * refused bytes), ANSWER_REFUSED (this client is not let in: 401, 403; or the server's certificate
 * does not hold), ANSWER_UPGRADE (AS needs another version of this program: 426). `why` has AS's
 * own sentence, or ours. A status other than SEFL_OK is trouble on this machine (memory, disk).
 * Threads: one owner.   Secrets: none (ciphertexts). */
#ifndef ROLES_CLIENT_NET_H
#define ROLES_CLIENT_NET_H

#include "net/https_client.h"
#include "protocol/http.h"
#include "protocol/participant.h"
#include "roles/client/update.h"

typedef enum client_answer {
    ANSWER_OK,
    ANSWER_AGAIN,
    ANSWER_OVER,
    ANSWER_REFUSED,
    ANSWER_UPGRADE
} client_answer;

typedef struct client_reply {
    client_answer word;
    bool transport; /* no answer at all: it was the way there */
    bool late;      /* 410: the round has closed */
    bool not_there; /* 404 */
    char why[256];
} client_reply;

/* The answer's bytes, at most max, into out. */
sefl_status client_get(https_client *net, client_reply *a, sefl_buf *out, const http_target *t,
                       size_t max) SEFL_MUST_CHECK;

/* AS's news of the rounds after that one, at once or when there is something new, at most wait_s
 * later. n is written only with ANSWER_OK; it looks into scratch. SEFL_EPROTO for news that cannot
 * be read. */
sefl_status client_news(https_client *net, client_reply *a, round_news *n, sefl_buf *scratch,
                        uint64_t after, unsigned wait_s) SEFL_MUST_CHECK;

/* Sends at most 64 KiB; the bytes of the answer are ignored. */
sefl_status client_post(https_client *net, client_reply *a, const http_target *t, sefl_span bytes,
                        unsigned wait_s) SEFL_MUST_CHECK;

/* Like client_get, into a file; resumes. A file with another hash is deleted: ANSWER_AGAIN. */
sefl_status client_get_file(https_client *net, client_reply *a, const http_target *t,
                            const char *to, uint64_t max, const uint8_t hash[SHA256_BYTES],
                            const sefl_progress *progress) SEFL_MUST_CHECK;

/* Asks what AS has of this body: *offset. */
sefl_status client_ask(https_client *net, client_reply *a, uint64_t *offset, uint64_t round,
                       const client_body *body) SEFL_MUST_CHECK;

/* Sends the rest from *offset; follows AS to another offset. ANSWER_OK: `receipt` holds what it
 * answered, unchecked. */
sefl_status client_put(https_client *net, client_reply *a, sefl_buf *receipt, uint64_t offset,
                       uint64_t round, const char *file, const client_body *body,
                       const sefl_progress *progress) SEFL_MUST_CHECK;

/* SEFL_EAUTH unless AS signed that it has this body of this client for this round. */
sefl_status client_receipt_check(const task *t, sefl_span receipt, uint64_t round,
                                 const uint8_t client[32], const client_body *body) SEFL_MUST_CHECK;

#endif
