/* client_net: sends a client's requests to AS and interprets the answers.
 *
 * Each call sets a->word to the outcome. `why` contains AS's message, or the client's own. A status
 * other than SEFL_OK is a failure on this machine (memory, disk).
 * Threads: one owner.   Secrets: none (ciphertexts). */
#ifndef ROLES_CLIENT_NET_H
#define ROLES_CLIENT_NET_H

#include "net/https_client.h"
#include "protocol/http.h"
#include "protocol/participant.h"
#include "roles/client/client_update.h"

typedef enum client_answer {
    ANSWER_OK,
    ANSWER_AGAIN,     /* the server fails: back off, then repeat; so with the next three */
    ANSWER_NONE,      /* the connection failed */
    ANSWER_NOT_NOW,   /* 503 */
    ANSWER_NOT_THERE, /* 404 */
    ANSWER_OVER,      /* the round is over for this client: limit, refused bytes */
    ANSWER_LATE,      /* 410: the round has closed */
    ANSWER_REFUSED,   /* the server refuses this client: 401, 403 */
    ANSWER_UNTRUSTED, /* the server's certificate is invalid */
    ANSWER_UPGRADE,   /* 426: the server requires another version of this program */
} client_answer;

typedef struct client_reply {
    client_answer word;
    char why[256];
} client_reply;

static inline bool client_no_answer(const client_reply *a)
{
    return a->word == ANSWER_NONE || a->word == ANSWER_UNTRUSTED;
}

/* Fetches t and appends the answer's bytes, at most max, to out. */
sefl_status client_get(https_client *net, client_reply *a, sefl_buf *out, const http_target *t,
                       size_t max) SEFL_MUST_CHECK;

/* Asks AS for news of the rounds after `after`. AS answers at once if there is news, otherwise
 * within wait_s. Fills n, which points into scratch, only on ANSWER_OK. SEFL_EPROTO for malformed
 * news. */
sefl_status client_news(https_client *net, client_reply *a, round_news *n, sefl_buf *scratch,
                        uint64_t after, unsigned wait_s) SEFL_MUST_CHECK;

/* Posts at most 64 KiB; ignores the body of the answer. */
sefl_status client_post(https_client *net, client_reply *a, const http_target *t, sefl_span bytes,
                        unsigned wait_s) SEFL_MUST_CHECK;

/* Downloads to a file, resuming a partial download. Deletes a file with a wrong hash and returns
 * ANSWER_AGAIN. */
sefl_status client_get_file(https_client *net, client_reply *a, const http_target *t,
                            const char *to, uint64_t max, const uint8_t hash[SHA256_BYTES],
                            const sefl_progress *progress) SEFL_MUST_CHECK;

/* Sets *offset to the number of bytes of this body that AS has. */
sefl_status client_ask(https_client *net, client_reply *a, uint64_t *offset, uint64_t round,
                       const client_body *body) SEFL_MUST_CHECK;

/* Sends the body from `offset` on, or from another offset if AS requests it. On ANSWER_OK,
 * `receipt` is AS's answer, not yet verified. */
sefl_status client_put(https_client *net, client_reply *a, sefl_buf *receipt, uint64_t offset,
                       uint64_t round, const char *file, const client_body *body,
                       const sefl_progress *progress) SEFL_MUST_CHECK;

/* SEFL_EAUTH unless AS signed that it has this client's body for this round. */
sefl_status client_receipt_check(const task *t, sefl_span receipt, uint64_t round,
                                 const uint8_t client[32], const client_body *body) SEFL_MUST_CHECK;

#endif
