/* http: what a client and AS say to each other beside bodies: paths, query parameters, header fields.
 * The server and the client of roles/ use these names and no others; tests/unit/protocol/
 * test_schema.c reviews each, so that no number computed from a client's text gets a place to
 * travel in.
 *
 * Threads: constants.   Secrets: none. */
#ifndef PROTOCOL_HTTP_H
#define PROTOCOL_HTTP_H

/* X(name, method, path, answer's body); N stands for a round, HASH for the BLAKE3 of an
 * update's units in 64 hex digits. */
#define HTTP_CALLS(X)                                                               \
    X(HEALTH, "GET", "/healthz", "ok")                                              \
    X(TASK, "GET", "/v1/task", "envelope of the task")                              \
    X(ROUND, "GET", "/v1/round", "round news, JSON")                                \
    X(ROUND_MODEL, "GET", "/v1/round/N/model", "safetensors")                       \
    X(MODEL, "GET", "/v1/model", "safetensors")                                     \
    X(VOCAB, "GET", "/v1/vocab", "word list")                                       \
    X(INIT, "GET", "/v1/init", "safetensors")                                       \
    X(UPDATE_STATE, "HEAD", "/v1/round/N/update/HASH", "nothing")                   \
    X(UPDATE, "PUT", "/v1/round/N/update/HASH", "envelope of the receipt")          \
    X(COUNTED, "GET", "/v1/round/N/counted", "CSP's envelope, the asker's path")    \
    X(VOUCHER, "POST", "/v1/voucher", "nothing")                                    \
    X(CERTIFICATE, "GET", "/v1/certificate", "the asker's newest certificate, PEM") \
    X(ENROL, "POST", "/v1/enroll", "answer of protocol/enrol.h")

/* X(name, where, field): of our own, in requests or answers. */
#define HTTP_FIELDS(X)                                                                            \
    X(AFTER, "query", "after")         /* /v1/round: highest round this client is done with */    \
    X(WAIT, "query", "wait")           /* /v1/round: seconds to wait, at most 60 */               \
    X(OFFSET, "header", "Sefl-Offset") /* bytes of a body that are there, or where these begin */ \
    X(TOTAL, "header", "Sefl-Total")   /* bytes of the whole body: the task's constant */         \
    X(VERSION, "header", "Sefl-Version") /* of the program's protocol, both ways: version.h */

#define HTTP_ENROL   "/v1/enroll" /* the one path that needs no certificate */
#define HTTP_VOUCHER "/v1/voucher"
#define HTTP_SKIPPED "skipped" /* in the sentence of a 404 of COUNTED: the round was skipped */
#define HTTP_AFTER   "after"
#define HTTP_WAIT    "wait"
#define HTTP_OFFSET  "Sefl-Offset"
#define HTTP_TOTAL   "Sefl-Total"
#define HTTP_VERSION "Sefl-Version"

#endif
