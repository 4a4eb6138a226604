#include "roles/client_net.h"

#include "base/file.h"
#include "protocol/http.h"
#include "protocol/round.h"
#include "protocol/signed.h"
#include "protocol/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OFFSETS_MAX = 8, ERROR_MAX = 4096, PATH_ROOM = 160 };

/* The sentence of a server, as far as it is one line of print. */
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
    case 409: /* another body of this client and round; or its rounds are used up */
    case 410: /* late */
    case 413: /* not the size that this task has */
    case 422: /* not a ciphertext */
        return ANSWER_OVER;
    default: /* 5xx, 425 (not open yet), 429, and a proxy's own answers */
        return ANSWER_AGAIN;
    }
}

/* What came of a call: a transport failure is the network's trouble, not ours. SEFL_EINVAL: certificate
 * and key do not fit together, as for a moment while they are renewed. */
static sefl_status settle(client_reply *a, sefl_status st, const https_reply *r)
{
    *a = (client_reply){ .word = ANSWER_OK };
    if (st == SEFL_EIO || st == SEFL_ETIMEOUT || st == SEFL_ECLOSED || st == SEFL_EAUTH ||
        st == SEFL_EPROTO || st == SEFL_ERANGE || st == SEFL_EINVAL) {
        a->word = st == SEFL_EAUTH ? ANSWER_REFUSED : ANSWER_AGAIN;
        a->transport = true;
        snprintf(a->why, sizeof a->why, "%.255s", sefl_last_error());
        return SEFL_OK;
    }
    if (st != SEFL_OK)
        return st;
    a->word = word_of(r->status);
    a->late = r->status == 410;
    if (a->word != ANSWER_OK)
        sentence(a->why, r->status, &r->body);
    return SEFL_OK;
}

sefl_status client_get(https_client *net, client_reply *a, sefl_buf *out, const char *path,
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

sefl_status client_get_file(https_client *net, client_reply *a, const char *path, const char *to,
                            uint64_t max, const uint8_t hash[SHA256_BYTES],
                            const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    https_reply r = { 0 };
    client_body file;
    *a = (client_reply){ .word = ANSWER_OK };
    if (file_exists(to)) { /* fetched before a restart */
        SEFL_TRY(client_body_of(&file, to));
        if (memcmp(file.hash, hash, SHA256_BYTES) == 0)
            goto done;
        SEFL_CHECK(unlink(to) == 0, SEFL_EIO, "cannot delete %s", to);
    }
    st = https_get_file(net, path, to, max, progress, &r);
    SEFL_TRY(settle(a, st, &r));
    if (a->word != ANSWER_OK)
        goto done;
    SEFL_TRY(client_body_of(&file, to));
    if (memcmp(file.hash, hash, SHA256_BYTES) != 0) {
        (void)unlink(to);
        a->word = ANSWER_AGAIN;
        snprintf(a->why, sizeof a->why, "%s: other bytes than the ones that were signed", path);
    }
done:
    https_reply_clear(&r);
    return st;
}

/* ---- upload ---------------------------------------------------------------------------------- */

static void update_path(char out[PATH_ROOM], uint64_t round, const client_name *name)
{
    int n = snprintf(out, PATH_ROOM, "/v1/round/%" PRIu64 "/update/", round);
    for (int i = 0; i < CONTENT_BYTES; i++)
        n += snprintf(out + n, PATH_ROOM - (size_t)n, "%02x", name->hash[i]);
}

/* AS's version, from its last answer; before there was one it is asked for nothing in particular. */
static sefl_status knows_blake3(https_client *net, client_reply *a, bool *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf nothing = { 0 };
    version_number v;
    *a = (client_reply){ .word = ANSWER_OK };
    *out = false;
    if (!https_client_heard(net))
        SEFL_TRY(client_get(net, a, &nothing, "/healthz", ERROR_MAX, 0));
    const char *said = https_client_heard(net);
    if (a->word == ANSWER_OK && said && *said && version_read(&v, said) == SEFL_OK)
        *out = v.major == VERSION_MAJOR && v.minor >= VERSION_MINOR_BLAKE3;
done:
    buf_clear(&nothing);
    return st;
}

sefl_status client_name_of(https_client *net, client_reply *a, client_name *out, const char *file,
                           const client_body *body)
{
    sefl_status st = SEFL_OK;
    client_body there;
    uint8_t content[CONTENT_BYTES];
    bool knows;
    *out = (client_name){ .kind = CONTENT_SHA256, .body = *body };
    memcpy(out->hash, body->hash, sizeof out->hash);
    SEFL_TRY(knows_blake3(net, a, &knows));
    if (!knows)
        goto done;
    SEFL_TRY(client_body_content(&there, content, file));
    SEFL_CHECK(there.bytes == body->bytes && memcmp(there.hash, body->hash, sizeof there.hash) == 0,
               SEFL_EIO, "%s has changed since it was finished", file);
    out->kind = CONTENT_BLAKE3;
    memcpy(out->hash, content, sizeof out->hash);
done:
    return st;
}

/* The line that says so; none means SHA-256. */
static const char *hash_line(const client_name *name)
{
    return name->kind == CONTENT_BLAKE3 ? HTTP_HASH ": blake3\n" : "";
}

sefl_status client_ask(https_client *net, client_reply *a, uint64_t *offset, uint64_t round,
                       const client_name *name)
{
    sefl_status st = SEFL_OK;
    https_reply r = { 0 };
    char path[PATH_ROOM];
    *offset = 0;
    update_path(path, round, name);
    st = https_head(net, path, hash_line(name), &r);
    SEFL_TRY(settle(a, st, &r));
    if (r.status == 404) /* nothing of it there */
        a->word = ANSWER_OK;
    else if (a->word == ANSWER_OK && r.offset <= name->body.bytes)
        *offset = r.offset;
done:
    https_reply_clear(&r);
    return st;
}

sefl_status client_put(https_client *net, client_reply *a, sefl_buf *receipt, uint64_t offset,
                       uint64_t round, const char *file, const client_name *name,
                       const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    https_reply r = { 0 };
    char path[PATH_ROOM], headers[128];
    update_path(path, round, name);
    for (int i = 0;; i++) {
        https_reply_clear(&r);
        r = (https_reply){ .offset = UINT64_MAX };
        snprintf(headers, sizeof headers,
                 HTTP_OFFSET ": %" PRIu64 "\n" HTTP_TOTAL ": %" PRIu64 "\n%s", offset,
                 name->body.bytes, hash_line(name));
        st = https_put_file(net, path, file, offset, headers, progress, &r);
        SEFL_TRY(settle(a, st, &r));
        bool elsewhere = r.status == 409 && r.offset <= name->body.bytes && r.offset != offset;
        if (elsewhere && i == OFFSETS_MAX)
            a->word = ANSWER_AGAIN; /* it cannot make up its mind: later */
        if (!elsewhere || i == OFFSETS_MAX)
            break;
        offset = r.offset;
    }
    if (a->word == ANSWER_OK)
        SEFL_TRY(wr_raw(receipt, r.body.p, r.body.n));
done:
    https_reply_clear(&r);
    return st;
}

sefl_status client_receipt_check(const task *t, sefl_span receipt, uint64_t round,
                                 const uint8_t client[32], const client_name *name)
{
    sefl_status st = SEFL_OK;
    envelope env;
    round_receipt r;
    SEFL_TRY(envelope_read(&env, receipt));
    SEFL_TRY(envelope_check_one(&env, SIGN_RECEIPT, SIGNER_AS, t->servers.as));
    SEFL_TRY(round_receipt_read(&r, env.content));
    SEFL_CHECK(memcmp(r.task, t->id, TASK_ID) == 0 && r.round == round, SEFL_EAUTH,
               "the receipt is of another task or round");
    SEFL_CHECK(memcmp(r.client, client, 32) == 0, SEFL_EAUTH, "the receipt is another client's");
    bool ours = memcmp(r.body, name->hash, sizeof r.body) == 0 ||
                memcmp(r.body, name->body.hash, sizeof r.body) == 0;
    SEFL_CHECK(ours && r.bytes == name->body.bytes, SEFL_EAUTH, "the receipt is for other bytes");
done:
    return st;
}
