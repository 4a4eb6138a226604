/* http: the HTTP calls clients make to AS, and the query and header fields that go with them.
 *
 *     char path[HTTP_PATH_MAX];
 *     http_path(path, &(http_target){ .call = HTTP_ROUND_MODEL, .round = 3 }); // /v1/round/3/model
 *     http_found f = http_find(&target, "GET", "/v1/round/3/model");           // the reverse
 *
 * AS and clients use only the two lists below: AS dispatches with http_find, clients build every
 * path with http_path, and both get field names from http_field_name.
 * tests/unit/core/protocol/test_schema.c checks that no field can carry a number computed from a
 * client's text, and finds any path or field name in the sources that is not in these lists.
 *
 * Threads: any.   Secrets: none. */
#ifndef PROTOCOL_HTTP_H
#define PROTOCOL_HTTP_H

#include "protocol/version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEALTH_PATH  "/healthz" /* also on the local page: roles/health.h */
#define HTTP_ENROL_PATH   "/v1/enroll"
#define HTTP_VERSION_NAME "Sefl-Version"

/* X(name, method, path, body of the answer); N is a round, HASH an update's name
 * (crypto/update_name.h) in 64 hex digits. AS answers HEAD wherever it answers GET. Only ENROL
 * works without a certificate. */
#define HTTP_CALLS(X)                                                               \
    X(HEALTH, "GET", HTTP_HEALTH_PATH, "ok")                                        \
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
    X(ENROL, "POST", HTTP_ENROL_PATH, "answer of protocol/enrol.h")

/* X(name, where, field): the fields that SEFL adds to requests and answers. */
#define HTTP_FIELDS(X)                                                                           \
    X(AFTER, "query", "after")              /* ROUND: highest round this client has completed */ \
    X(WAIT, "query", "wait")                /* ROUND: seconds to wait, at most 60 */             \
    X(OFFSET, "header", "Sefl-Offset")      /* bytes that AS has, or offset of this part */      \
    X(TOTAL, "header", "Sefl-Total")        /* bytes of the whole body: the task's constant */   \
    X(VERSION, "header", HTTP_VERSION_NAME) /* the sender's protocol version (version.h) */

typedef enum http_call {
#define HTTP_CALL_ENUM(name, method, path, answer) HTTP_##name,
    HTTP_CALLS(HTTP_CALL_ENUM)
#undef HTTP_CALL_ENUM
        HTTP_CALLS_N
} http_call;

typedef enum http_field {
#define HTTP_FIELD_ENUM(name, where, field) HTTP_##name##_FIELD,
    HTTP_FIELDS(HTTP_FIELD_ENUM)
#undef HTTP_FIELD_ENUM
        HTTP_FIELDS_N
} http_field;

/* The header line that every request and every answer carries. */
#define HTTP_VERSION_LINE HTTP_VERSION_NAME ": " VERSION_TEXT "\n"
/* AS's 404 answer to COUNTED contains this word if the round was skipped. */
#define HTTP_SKIPPED "skipped"

enum { HTTP_PATH_MAX = 160 };

typedef struct http_target {
    http_call call;
    uint64_t round;   /* if the path contains N */
    uint8_t hash[32]; /* if the path contains HASH */
} http_target;

typedef enum http_found { HTTP_FOUND, HTTP_NO_PATH, HTTP_NO_METHOD } http_found;

/* Finds the call. HTTP_NO_METHOD: the path is in the list, but not with this method. A round is at
 * least 1 and has no leading zeros; hex digits are lower case. */
http_found http_find(http_target *out, const char *method, const char *path);

/* Writes the path of a call; returns out. */
char *http_path(char out[HTTP_PATH_MAX], const http_target *t);

const char *http_field_name(http_field f);
bool http_field_is_query(http_field f); /* otherwise a header */
/* True if the list has a header of this name. Clients send no other (https_client_config). */
bool http_is_header(const char *name, size_t n);

/* Reads at most 19 digits, without a sign or leading zeros. Returns false for anything else. */
bool http_number_read(uint64_t *out, const char *text, size_t n);

#endif
