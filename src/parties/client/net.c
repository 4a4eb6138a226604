#include "roles/client/net.h"

#include "base/file.h"
#include "protocol/round.h"
#include "protocol/signed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OFFSETS_MAX = 8, ERROR_MAX = 4096, NEWS_MAX = 64 << 10 };

/* Copies the server's message, as far as it is one printable line. */
static void sentence(char out[256], unsigned status, const sefl_buf *body)
{
    size_t n = (size_t)snprintf(out, 256, "the server answers %u", status);
    size_t len = 0;
    while (len < body->n && len < 180 && body->p[len] >= 0x20 && body->p[len] < 0x7f)
        len++;
    if (len > 0)
        snprintf(out + n, 256 - n, ": %.*s", (int)len, (const char *)body->p);
}

static client_answer word_of(unsigned status)
{
    switch (status) {
    case 200:
    case 206:
        return ANSWER_OK;
    case 401:
    case 403:
        return ANSWER_REFUSED;
    case 426:
        return ANSWER_UPGRADE;
    case 404:
        return ANSWER_NOT_THERE;
    case 410:
        return ANSWER_LATE;
    case 503:
        return ANSWER_NOT_NOW;
    case 409: /* this client has another body in this round, or has used up its rounds */
    case 413: /* not the size that this task has */
    case 422: /* not a ciphertext */
        return ANSWER_OVER;
    default: /* 5xx, 425 (not open yet), 429, and answers from a proxy */
        return ANSWER_AGAIN;
    }
}

/* Translates the result of a call: a transport failure is the network's, not ours. SEFL_EINVAL:
 * certificate and key do not match, as for a moment while they are renewed. */
static sefl_status settle(client_reply *a, sefl_status st, const https_reply *r)
{
    *a = (client_reply){ .word = ANSWER_OK };
    if (st == SEFL_EIO || st == SEFL_ETIMEOUT || st == SEFL_ECLOSED || st == SEFL_EAUTH ||
        st == SEFL_EPROTO || st == SEFL_ERANGE || st == SEFL_EINVAL) {
        a->word = st == SEFL_EAUTH ? ANSWER_UNTRUSTED : ANSWER_NONE;
        snprintf(a->why, sizeof a->why, "%.255s", sefl_last_error());
        return SEFL_OK;
    }
    if (st != SEFL_OK)
        return st;
    a->word = word_of(r->status);
    if (a->word != ANSWER_OK)
        sentence(a->why, r->status, &r->body);
    return SEFL_OK;
}

static sefl_status net_get(https_client *net, client_reply *a, sefl_buf *out, const char *path,
                           size_t max, unsigned wait_s)
{
    sefl_status st = SEFL_OK;
    https_reply r = { 0 };
    st = https_get(net, path, max, wait_s, &r);
    SEFL_TRY(settle(a, st, &r));
    if (a->word == ANSWER_OK)
        SEFL_TRY(wr_raw(out, r.body.p, r.body.n));
done:
    https_reply_clear(&r);
    return st;
}

sefl_status client_get(https_client *net, client_reply *a, sefl_buf *out, const http_target *t,
                       size_t max)
{
    char path[HTTP_PATH_MAX];
    return net_get(net, a, out, http_path(path, t), max, 0);
}

sefl_status client_news(https_client *net, client_reply *a, round_news *n, sefl_buf *scratch,
                        uint64_t after, unsigned wait_s)
{
    sefl_status st = SEFL_OK;
    sefl_buf json = { 0 };
    char path[HTTP_PATH_MAX], query[2 * HTTP_PATH_MAX];
    http_path(path, &(http_target){ .call = HTTP_ROUND });
    snprintf(query, sizeof query, "%s?%s=%" PRIu64 "&%s=%u", path,
             http_field_name(HTTP_AFTER_FIELD), after, http_field_name(HTTP_WAIT_FIELD), wait_s);
    SEFL_TRY(net_get(net, a, &json, query, NEWS_MAX, wait_s + 10));
    buf_reset(scratch);
    if (a->word == ANSWER_OK)
        SEFL_TRY(round_news_read(n, scratch, buf_span(&json)));
done:
    buf_clear(&json);
    return st;
}

sefl_status client_post(https_client *net, client_reply *a, const http_target *t, sefl_span bytes,
                        unsigned wait_s)
{
    https_reply r = { 0 };
    char path[HTTP_PATH_MAX];
    sefl_status st = https_post(net, http_path(path, t), bytes, ERROR_MAX, wait_s, &r);
    st = settle(a, st, &r);
    https_reply_clear(&r);
    return st;
}

sefl_status client_get_file(https_client *net, client_reply *a, const http_target *t,
                            const char *to, uint64_t max, const uint8_t hash[SHA256_BYTES],
                            const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    https_reply r = { 0 };
    char path[HTTP_PATH_MAX];
    uint8_t there[SHA256_BYTES];
    *a = (client_reply){ .word = ANSWER_OK };
    if (file_exists(to)) { /* fetched before a restart */
        SEFL_TRY(file_sha256(there, NULL, to));
        if (memcmp(there, hash, SHA256_BYTES) == 0)
            goto done;
        SEFL_CHECK(unlink(to) == 0, SEFL_EIO, "cannot delete %s", to);
    }
    st = https_get_file(net, http_path(path, t), to, max, progress, &r);
    SEFL_TRY(settle(a, st, &r));
    if (a->word != ANSWER_OK)
        goto done;
    SEFL_TRY(file_sha256(there, NULL, to));
    if (memcmp(there, hash, SHA256_BYTES) != 0) {
        (void)unlink(to);
        a->word = ANSWER_AGAIN;
        snprintf(a->why, sizeof a->why, "%s: not the bytes that the servers signed", path);
    }
done:
    https_reply_clear(&r);
    return st;
}

/* ---- upload ---------------------------------------------------------------------------------- */

static char *update_path(char out[HTTP_PATH_MAX], http_call call, uint64_t round,
                         const client_body *body)
{
    http_target t = { .call = call, .round = round };
    memcpy(t.hash, body->hash, sizeof t.hash);
    return http_path(out, &t);
}

sefl_status client_ask(https_client *net, client_reply *a, uint64_t *offset, uint64_t round,
                       const client_body *body)
{
    sefl_status st = SEFL_OK;
    https_reply r = { 0 };
    char path[HTTP_PATH_MAX];
    *offset = 0;
    st = https_head(net, update_path(path, HTTP_UPDATE_STATE, round, body), NULL, &r);
    SEFL_TRY(settle(a, st, &r));
    if (a->word == ANSWER_NOT_THERE) /* AS has none of it */
        a->word = ANSWER_OK;
    else if (a->word == ANSWER_OK && r.number <= body->bytes)
        *offset = r.number;
done:
    https_reply_clear(&r);
    return st;
}

sefl_status client_put(https_client *net, client_reply *a, sefl_buf *receipt, uint64_t offset,
                       uint64_t round, const char *file, const client_body *body,
                       const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    https_reply r = { 0 };
    char path[HTTP_PATH_MAX], headers[128];
    update_path(path, HTTP_UPDATE, round, body);
    for (int i = 0;; i++) {
        https_reply_clear(&r);
        snprintf(headers, sizeof headers, "%s: %" PRIu64 "\n%s: %" PRIu64 "\n",
                 http_field_name(HTTP_OFFSET_FIELD), offset, http_field_name(HTTP_TOTAL_FIELD),
                 body->bytes);
        st = https_put_file(net, path, file, offset, headers, progress, &r);
        SEFL_TRY(settle(a, st, &r));
        bool elsewhere = r.status == 409 && r.number <= body->bytes && r.number != offset;
        if (elsewhere && i == OFFSETS_MAX)
            a->word = ANSWER_AGAIN; /* it keeps changing its offset: try later */
        if (!elsewhere || i == OFFSETS_MAX)
            break;
        offset = r.number;
    }
    if (a->word == ANSWER_OK)
        SEFL_TRY(wr_raw(receipt, r.body.p, r.body.n));
done:
    https_reply_clear(&r);
    return st;
}

sefl_status client_receipt_check(const task *t, sefl_span receipt, uint64_t round,
                                 const uint8_t client[32], const client_body *body)
{
    envelope env;
    round_receipt r;
    SEFL_PASS(envelope_read(&env, receipt));
    SEFL_PASS(envelope_check_one(&env, SIGN_RECEIPT, SIGNER_AS, t->servers.as));
    SEFL_PASS(round_receipt_read(&r, env.content));
    SEFL_NEED(memcmp(r.task, t->id, TASK_ID) == 0 && r.round == round, SEFL_EAUTH,
              "the receipt is for another task or round");
    SEFL_NEED(memcmp(r.client, client, 32) == 0, SEFL_EAUTH, "the receipt is another client's");
    SEFL_NEED(memcmp(r.body, body->hash, sizeof r.body) == 0 && r.bytes == body->bytes, SEFL_EAUTH,
              "the receipt is for other bytes");
    return SEFL_OK;
}
