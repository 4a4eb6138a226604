/* An aggregation server for tests of the client: one client, rounds that open one after another,
 * and injected errors. It checks what a server can see: the order of requests, the same bytes after
 * an interruption, the charge in the client's ledger before the first byte of a body, vouchers and
 * heads. It acts as CSP too: round keys, proofs of being counted. */
#ifndef FAKE_AS_H
#define FAKE_AS_H

#include "support/check.h"
#include "support/folder.h"
#include "unit/core/protocol/task_sample.h"

#include "base/alloc.h"
#include "base/file.h"
#include "model/model_open.h"
#include "net/https_server.h"
#include "net/x509.h"
#include "protocol/participant.h"
#include "roles/client/client.h"
#include "store/ledger.h"

#include "protocol/counted.h"
#include "protocol/http.h"
#include "protocol/update.h"
#include "protocol/version.h"
#include "roles/vouch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FAKE_ROUNDS = 8, FAKE_SHORT_MS = 2000 };

typedef struct fake_as {
    pthread_mutex_t lock;
    https_server *server;
    tls_id *id;
    sefl_buf task_env, vocab;
    task t;
    char model[2][512], ledger[512]; /* the second model is that of even rounds, if `moves` */
    uint8_t model_hash[2][32];
    bool moves; /* every round has another model than the one before */

    uint64_t rounds, round; /* the last one, the present one */
    uint64_t left_ms;

    /* trouble: how many times from now on */
    unsigned busy_task, bad_header, bad_model, bad_receipt;
    unsigned cut_after;  /* the next body is cut after this many bytes; 0: no */
    unsigned late_round; /* this one is answered with 410 */
    unsigned
        late_bodies; /* complete bodies that are answered with 410: this AS may have read them */
    unsigned replay; /* polls that are answered with the header of round 1 in any case */
    unsigned refuse_task, refuse_polls, refuse_updates; /* with refuse_status */
    unsigned refuse_status;                             /* 0: 403 */
    unsigned garbled_task;
    unsigned refuse_vouchers;                              /* with refuse_status */
    unsigned forget_voucher;                               /* before an update is read */
    unsigned busy_counted, missed, none_counted, skipped_; /* answers to COUNTED, in this order */
    bool wrong_key;      /* the round key has another suite than the task */
    unsigned slow_model; /* the model comes when the deadline of this round has passed */
    bool no_end;         /* released no round: signs round 0 */
    unsigned bare_end;   /* says "over" without the statement about the end */
    unsigned bad_end;    /* the statement about the end is CSP's */
    unsigned bad_final;  /* answers to the final model */
    bool other_final;    /* the final model is that of odd rounds */
    uint64_t end_round;  /* the round that the end names; 0: the last one */
    bool ends_alone;     /* a round ends when the client asks for a later one */
    client *stop_at_cut; /* stopped when the body is cut */
    sefl_buf next_env;   /* served from the second time on that the task is asked for ... */
    bool next_at_final;  /* ... or once the final model is asked for */

    /* what came */
    unsigned under_way; /* requests */
    unsigned tasks, polls, models, heads, puts, receipts, resumed, vouchers, counted;
    unsigned finals, ranged; /* requests for the final model; of them, for the rest of it */
    bool vouched;
    uint8_t upload_key[32];
    sefl_buf voucher;
    char hash[65];
    uint64_t total, put_round;
    uintptr_t put; /* number of the PUT that may write: that of a dead client must not continue */
    sefl_buf part;
    sefl_buf body[FAKE_ROUNDS];
    bool uncharged; /* a byte of a body came before its charge */
    bool changed;   /* another hash for the same round */
    bool bad_head;  /* not of this client, these units, or not signed with the key vouched for */
} fake_as;

static inline bool take(unsigned *n)
{
    bool now = *n > 0;
    *n -= now;
    return now;
}

static inline bool second_model(const fake_as *f, uint64_t round)
{
    return f->moves && round % 2 == 0;
}

static inline bool refuses(const fake_as *f, https_request *r, unsigned *times)
{
    bool now = take(times);
    if (now)
        https_answer_text(r, f->refuse_status ? f->refuse_status : 403, "not welcome");
    return now;
}

static inline void fake_header(fake_as *f, sefl_buf *out, uint64_t round, bool good)
{
    uint8_t bytes[HEADER_MAX];
    round_header h = { .round = round, .step_nano = f->t.step_nano };
    memcpy(h.task, f->t.id, 32);
    memcpy(h.model, f->model_hash[second_model(f, round)], 32);
    if (f->t.seal) {
        static const uint8_t seed[SEAL_SEED] = { 5 };
        const seal_suite *suite = f->wrong_key ? seal_suite_named("x25519") : f->t.seal;
        seal_key *key = NULL;
        CHECK_OK(seal_key_from(&key, suite, seed));
        h.suite = suite->id;
        h.key_bytes = (uint16_t)suite->pub_bytes;
        memcpy(h.key, seal_key_pub(key).p, suite->pub_bytes);
        seal_key_free(key);
    }
    size_t bytes_n = round_header_write(bytes, &h);
    envelope env = { .kind = SIGN_HEADER, .content = span_of(bytes, bytes_n) };
    CHECK_OK(envelope_sign(&env, SIGNER_AS, sample_as));
    if (good)
        CHECK_OK(envelope_sign(&env, SIGNER_CSP, sample_csp));
    CHECK_OK(envelope_write(out, &env));
}

/* The final model is that of even rounds. */
static inline void fake_final(fake_as *f, sefl_buf *out, bool good)
{
    uint8_t bytes[END_BYTES];
    round_end e = { .round = f->no_end ? 0 : f->end_round ? f->end_round : f->rounds };
    memcpy(e.task, f->t.id, 32);
    memcpy(e.model, f->model_hash[!f->other_final], 32);
    round_end_write(bytes, &e);
    envelope env = { .kind = SIGN_END, .content = span_of(bytes, sizeof bytes) };
    CHECK_OK(envelope_sign(&env, good ? SIGNER_AS : SIGNER_CSP, good ? sample_as : sample_csp));
    CHECK_OK(envelope_write(out, &env));
}

static inline void fake_poll(fake_as *f, https_request *r)
{
    sefl_buf header = { 0 }, json = { 0 };
    const char *after = https_query(r, "after");
    f->polls++;
    if (refuses(f, r, &f->refuse_polls))
        return;
    round_news n = { .state = ROUND_OVER, .why = "all rounds are done" };
    if (f->ends_alone && after && strtoull(after, NULL, 10) >= f->round)
        f->round++;
    bool bare = f->round > f->rounds && take(&f->bare_end);
    if (f->round > f->rounds) {
        fake_final(f, &header, !take(&f->bad_end));
        n.header = buf_span(&header);
    } else if (f->round <= f->rounds) {
        bool old = take(&f->replay);
        bool open = old || (after && strtoull(after, NULL, 10) < f->round);
        n = (round_news){ .state = open ? ROUND_OPEN : ROUND_WAITING,
                          .round = old ? 1 : f->round,
                          .left_ms = f->slow_model ? test_ms(FAKE_SHORT_MS) : f->left_ms };
        if (open) {
            fake_header(f, &header, n.round, !take(&f->bad_header));
            n.header = buf_span(&header);
        }
    }
    CHECK_OK(round_news_write(&json, &n));
    if (bare) {
        buf_reset(&json);
        CHECK_OK(wr_fmt(&json, "{\"state\":\"over\",\"round\":0,\"left_ms\":0,\"header\":\"\","
                               "\"why\":\"all rounds are done\"}"));
    }
    https_answer(r, 200, "application/json", NULL, buf_span(&json));
    buf_clear(&header);
    buf_clear(&json);
}

/* The name of a body. */
static inline void fake_name(const fake_as *f, uint8_t out[32], const sefl_buf *body)
{
    size_t n = head_bytes(f->t.seal);
    n = n < body->n ? n : body->n;
    update_name_of(out, span_of(body->p + n, body->n - n));
}

static inline void fake_look_at_head(fake_as *f, const sefl_buf *body, uint64_t round,
                                     const uint8_t client_[32])
{
    head h;
    uint8_t units[32];
    if (!f->t.seal)
        return;
    fake_name(f, units, body);
    size_t n = head_bytes(f->t.seal);
    if (body->n != task_body_bytes(&f->t) ||
        head_read(&h, f->t.seal, span_of(body->p, n)) != SEFL_OK ||
        head_check(&h, f->t.id, round, f->upload_key) != SEFL_OK ||
        memcmp(h.client, client_, 32) != 0 || memcmp(h.units, units, 32) != 0)
        f->bad_head = true;
}

static inline void fake_receipt(fake_as *f, https_request *r, uint64_t round)
{
    sefl_buf b = { 0 }, *body = round == f->round ? &f->part : &f->body[round];
    uint8_t bytes[RECEIPT_BYTES];
    round_receipt rc = { .round = round, .bytes = body->n };
    memcpy(rc.task, f->t.id, 32);
    memcpy(rc.client, r->peer.fingerprint, 32);
    fake_name(f, rc.body, body);
    fake_look_at_head(f, body, round, r->peer.fingerprint);
    bool forged = take(&f->bad_receipt);
    if (forged)
        rc.client[0] ^= 1;
    round_receipt_write(bytes, &rc);
    envelope env = { .kind = SIGN_RECEIPT, .content = span_of(bytes, sizeof bytes) };
    CHECK_OK(envelope_sign(&env, SIGNER_AS, sample_as));
    CHECK_OK(envelope_write(&b, &env));
    https_answer(r, 200, "application/octet-stream", NULL, buf_span(&b));
    buf_clear(&b);
    if (!forged && round == f->round) {
        f->receipts++;
        buf_clear(&f->body[f->round]); /* of another task */
        f->body[f->round] = f->part;
        f->part = (sefl_buf){ 0 };
        f->hash[0] = 0;
        f->round++;
    }
}

static inline sefl_status fake_body(https_request *r, sefl_span bytes)
{
    fake_as *f = r->server_ctx;
    sefl_status st = SEFL_OK;
    ledger *l = NULL;
    pthread_mutex_lock(&f->lock);
    if ((uintptr_t)r->state != f->put || f->put_round != f->round) {
        pthread_mutex_unlock(&f->lock);
        return sefl_fail(SEFL_ESTATE, "another request goes on with this body");
    }
    if (ledger_open_read(&l, f->ledger) != SEFL_OK || !ledger_has(l, f->t.id, f->round))
        f->uncharged = true;
    ledger_close(l);
    if (f->cut_after && f->part.n + bytes.n >= f->cut_after) {
        bytes.n = f->cut_after > f->part.n ? f->cut_after - f->part.n : 0;
        f->cut_after = 0;
        st = sefl_fail(SEFL_EIO, "cut");
    }
    CHECK_OK(wr_raw(&f->part, bytes.p, bytes.n));
    if (st != SEFL_OK && f->stop_at_cut)
        client_stop(f->stop_at_cut);
    pthread_mutex_unlock(&f->lock);
    return st;
}

static inline void fake_end(https_request *r, sefl_status st)
{
    fake_as *f = r->server_ctx;
    pthread_mutex_lock(&f->lock);
    if (st != SEFL_OK || (uintptr_t)r->state != f->put)
        https_answer_text(r, 503, "the disk is full");
    else if (f->put_round < f->round)
        fake_receipt(f, r, f->put_round);
    else if (f->part.n < f->total)
        https_answer_text(r, 503, "not all of it");
    else if (take(&f->late_bodies)) {
        f->round++;
        f->hash[0] = 0;
        buf_reset(&f->part);
        https_answer_text(r, 410, "the round is over");
    } else
        fake_receipt(f, r, f->round);
    pthread_mutex_unlock(&f->lock);
}

static inline bool fake_has(const fake_as *f, uint64_t round, const char *hash)
{
    uint8_t h[32];
    char hex[65];
    fake_name(f, h, &f->body[round]);
    for (int i = 0; i < 32; i++)
        snprintf(hex + (ptrdiff_t)2 * i, 3, "%02x", h[i]);
    return strcmp(hex, hash) == 0;
}

static inline void fake_update(fake_as *f, https_request *r, uint64_t round, const char *hash)
{
    char headers[64];
    const char *offset = https_header(r, "Sefl-Offset"), *total = https_header(r, "Sefl-Total");
    bool asks = strcmp(r->method, "HEAD") == 0;
    *(asks ? &f->heads : &f->puts) += 1;
    if (refuses(f, r, &f->refuse_updates))
        return;
    if (take(&f->forget_voucher))
        f->vouched = false;
    if (f->t.seal && !f->vouched) {
        https_answer_text(r, 403, "no voucher");
        return;
    }
    if (f->late_round == f->round) {
        f->late_round = 0;
        f->round++;
        https_answer_text(r, 410, "the round is over");
        return;
    }
    size_t have = f->part.n;
    if (round != f->round) {
        if (round > f->round || !fake_has(f, round, hash)) {
            https_answer_text(r, 410, "the round is over");
            return;
        }
        have = f->body[round].n; /* the same body again: its receipt again */
    } else {
        if (f->hash[0] && strcmp(f->hash, hash) != 0)
            f->changed = true;
        if (!f->hash[0] || strcmp(f->hash, hash) != 0)
            buf_reset(&f->part); /* one part a client and round */
        have = f->part.n;
        snprintf(f->hash, sizeof f->hash, "%s", hash);
    }
    snprintf(headers, sizeof headers, "Sefl-Offset: %zu\n", have);
    if (asks) {
        https_answer(r, 200, "text/plain", headers, span_of(NULL, 0));
    } else if (!offset || !total || strtoull(offset, NULL, 10) != have) {
        https_answer(r, 409, "text/plain", headers, span_of_str("another offset"));
    } else {
        f->total = strtoull(total, NULL, 10);
        f->put_round = round;
        f->resumed += have > 0;
        r->state = (void *)++f->put;
        r->body = fake_body, r->end = fake_end;
    }
}

static inline sefl_status fake_voucher_body(https_request *r, sefl_span bytes)
{
    fake_as *f = r->server_ctx;
    pthread_mutex_lock(&f->lock);
    sefl_status st = wr_raw(&f->voucher, bytes.p, bytes.n);
    pthread_mutex_unlock(&f->lock);
    return st;
}

static inline void fake_voucher_end(https_request *r, sefl_status st)
{
    fake_as *f = r->server_ctx;
    voucher v;
    pthread_mutex_lock(&f->lock);
    if (st == SEFL_OK)
        st = voucher_read(&v, buf_span(&f->voucher));
    if (st == SEFL_OK)
        st = vouch_check(&v, &sample_servers);
    if (st != SEFL_OK || memcmp(v.client, r->peer.fingerprint, 32) != 0 || v.serial == 0) {
        https_answer_text(r, 403, "not this client's word");
    } else {
        f->vouched = true;
        memcpy(f->upload_key, v.key, 32);
        https_answer_text(r, 200, "taken");
    }
    pthread_mutex_unlock(&f->lock);
}

/* CSP's envelope and this client's path, or what the test requested. */
static inline void fake_counted(fake_as *f, https_request *r, uint64_t round)
{
    sefl_buf out = { 0 }, env_bytes = { 0 };
    uint8_t bytes[COUNTED_STATEMENT_BYTES], seed[COUNTED_SEED] = { 3 };
    round_entry leaf = { .client = { 0 } };
    counted_statement s = { .round = round };
    f->counted++;
    if (take(&f->busy_counted)) {
        https_answer_text(r, 503, "later");
        return;
    }
    bool missed = take(&f->missed);
    if (!missed && take(&f->none_counted)) {
        https_answer_text(r, 404, "there is no proof of this round");
        return;
    }
    if (!missed && take(&f->skipped_)) {
        https_answer_text(r, 404, "the round was " HTTP_SKIPPED);
        return;
    }
    memcpy(leaf.client, r->peer.fingerprint, 32);
    if (round < FAKE_ROUNDS)
        fake_name(f, leaf.body, &f->body[round]);
    leaf.body[0] ^= missed;
    counted_facts facts = { .task = f->t.id,
                            .round = round,
                            .tree_seed = seed,
                            .clients_max = f->t.clients_max,
                            .leaves = &leaf,
                            .n = 1 };
    memcpy(s.task, f->t.id, 32);
    CHECK_OK(counted_root(s.root, &facts));
    counted_statement_write(bytes, &s);
    envelope env = { .kind = SIGN_COUNTED, .content = span_of(bytes, sizeof bytes) };
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, sample_csp));
    CHECK_OK(envelope_write(&env_bytes, &env));
    CHECK_OK(wr_u32(&out, (uint32_t)env_bytes.n));
    CHECK_OK(wr_raw(&out, env_bytes.p, env_bytes.n));
    counted_tree *tree;
    CHECK_OK(counted_tree_new(&tree, &facts));
    CHECK_OK(counted_tree_path(&out, tree, leaf.client));
    counted_tree_free(tree);
    https_answer(r, 200, "application/octet-stream", NULL, buf_span(&out));
    buf_clear(&out);
    buf_clear(&env_bytes);
}

static inline void fake_resume_model(https_request *r)
{
    const fake_as *f = r->server_ctx;
    https_answer_file(r, f->model[second_model(f, f->round)], "application/octet-stream", "m");
}

static inline void fake_drop(https_request *r)
{
    fake_as *f = r->server_ctx;
    pthread_mutex_lock(&f->lock);
    f->under_way--;
    pthread_mutex_unlock(&f->lock);
}

/* Waits until no request is in progress, so that the test can read and change state safely. */
static inline void fake_quiet(fake_as *f)
{
    for (unsigned i = 0; i < test_ms(5000); i++) {
        pthread_mutex_lock(&f->lock);
        bool quiet = f->under_way == 0;
        pthread_mutex_unlock(&f->lock);
        if (quiet)
            return;
        usleep(1000);
    }
    fail_msg("a request does not end");
}

static inline void fake_next(fake_as *f)
{
    if (f->next_env.n == 0)
        return;
    buf_clear(&f->task_env);
    f->task_env = f->next_env;
    f->next_env = (sefl_buf){ 0 };
}

static inline void fake_begin(https_request *r)
{
    fake_as *f = r->server_ctx;
    char hash[65] = "", tail[16] = "";
    unsigned long long n = 0;
    pthread_mutex_lock(&f->lock);
    f->under_way++;
    r->drop = fake_drop;
    if (strcmp(r->path, "/v1/task") == 0) {
        f->tasks++;
        if (refuses(f, r, &f->refuse_task)) {
        } else if (take(&f->busy_task))
            https_answer_text(r, 503, "starting");
        else if (take(&f->garbled_task))
            https_answer_text(r, 200, "what a broken cache makes of a task");
        else
            https_answer(r, 200, "application/octet-stream", NULL, buf_span(&f->task_env));
        if (!f->next_at_final)
            fake_next(f);
    } else if (strcmp(r->path, "/healthz") == 0) {
        https_answer_text(r, 200, "ok");
    } else if (strcmp(r->path, "/v1/vocab") == 0) {
        https_answer(r, 200, "text/plain", NULL, buf_span(&f->vocab));
    } else if (strcmp(r->path, "/v1/model") == 0) {
        f->finals++;
        fake_next(f);
        f->ranged += https_header(r, "Range") != NULL;
        if (take(&f->bad_final))
            https_answer(r, 200, "application/octet-stream", "ETag: \"x\"\n",
                         span_of_str("nonsense"));
        else
            https_answer_file(r, f->model[!f->other_final], "application/octet-stream",
                              f->other_final ? "o" : "m");
    } else if (strcmp(r->path, "/v1/round") == 0) {
        fake_poll(f, r);
    } else if (sscanf(r->path, "/v1/round/%llu/update/%64[0-9a-f]", &n, hash) == 2) {
        fake_update(f, r, n, hash);
    } else if (strcmp(r->path, "/v1/voucher") == 0 && strcmp(r->method, "POST") == 0) {
        f->vouchers++;
        buf_reset(&f->voucher);
        if (!refuses(f, r, &f->refuse_vouchers))
            r->body = fake_voucher_body, r->end = fake_voucher_end;
    } else if (sscanf(r->path, "/v1/round/%llu/%15s", &n, tail) == 2 &&
               strcmp(tail, "counted") == 0) {
        fake_counted(f, r, n);
    } else if (sscanf(r->path, "/v1/round/%llu/%15s", &n, tail) == 2 &&
               strcmp(tail, "model") == 0) {
        f->models++;
        if (take(&f->bad_model))
            https_answer(r, 200, "application/octet-stream", "ETag: \"x\"\n",
                         span_of_str("nonsense"));
        else if (take(&f->slow_model)) {
            struct timespec now;
            clock_gettime(CLOCK_MONOTONIC, &now);
            r->resume = fake_resume_model;
            https_park(r, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 +
                              test_ms(FAKE_SHORT_MS) + 500);
        } else
            https_answer_file(r, f->model[second_model(f, f->round)], "application/octet-stream",
                              "m");
    } else {
        https_answer_text(r, 404, "no such thing");
    }
    pthread_mutex_unlock(&f->lock);
}

static inline void fake_model(fake_as *f, const vocab *words)
{
    for (unsigned i = 0; i < 2; i++) {
        lm *m = NULL;
        sefl_buf b = { 0 };
        CHECK_OK(lm_new(&m, &f->t.model, NULL));
        lm_init(m, 1 + i);
        model_meta meta = { .cfg = *lm_get_config(m) };
        model_meta_set_vocab(&meta, words);
        snprintf(f->model[i], sizeof f->model[i], "%s", folder_path(i ? "as-model-2" : "as-model"));
        CHECK_OK(model_write(f->model[i], &meta, lm_theta(m)));
        CHECK_OK(file_read(&b, f->model[i], 1 << 20));
        sha256_of(f->model_hash[i], buf_span(&b));
        buf_clear(&b);
        lm_free(m);
    }
}

/* Signs a task's document; `signers`: bit 0 AS, bit 1 CSP. */
static inline void fake_sign(fake_as *f, unsigned signers, sefl_span doc)
{
    task_clear(&f->t);
    CHECK_OK(task_read(&f->t, doc));
    envelope env = { .kind = SIGN_TASK, .content = doc };
    if (signers & 1)
        CHECK_OK(envelope_sign(&env, SIGNER_AS, sample_as));
    if (signers & 2)
        CHECK_OK(envelope_sign(&env, SIGNER_CSP, sample_csp));
    buf_reset(&f->task_env);
    CHECK_OK(envelope_write(&f->task_env, &env));
}

/* Signs a task made of these settings. */
static inline void fake_task(fake_as *f, unsigned signers, const vocab *words, const char *a,
                             const char *b, const char *c)
{
    sefl_buf doc = { 0 };
    uint8_t h[32];
    char vocab_sha[96], vocab_n[48];
    int n = snprintf(vocab_sha, sizeof vocab_sha, "vocab.sha256=");
    vocab_hash(words, h);
    for (int i = 0; i < 32; i++)
        n += snprintf(vocab_sha + n, sizeof vocab_sha - (size_t)n, "%02x", h[i]);
    snprintf(vocab_n, sizeof vocab_n, "model.vocab=%u", vocab_size(words));
    CHECK_OK(sample_document(&doc, vocab_sha, vocab_n, "model.batch=2", "model.steps=5",
                             "training.lr=1", "population=testers", "crypto.scheme=pad",
                             a ? a : "name=sample", b ? b : "name=sample", c ? c : "name=sample",
                             NULL));
    fake_sign(f, signers, buf_span(&doc));
    buf_clear(&doc);
}

static inline void fake_start(fake_as *f)
{
    pthread_mutex_init(&f->lock, NULL);
    CHECK_OK(
        tls_id_read(&f->id, folder_path("as.pem"), folder_path("as.key"), folder_path("ca.pem")));
    CHECK_OK(https_server_start(
        &f->server, &(https_server_config){ .id = f->id,
                                            .peer_role = "client",
                                            .body_max = 64 << 20,
                                            .begin = fake_begin,
                                            .headers = "Sefl-Version: " VERSION_TEXT "\n",
                                            .ctx = f }));
}

static inline void fake_stop(fake_as *f)
{
    https_server_stop(f->server);
    tls_id_free(f->id);
    task_clear(&f->t);
    buf_clear(&f->task_env);
    buf_clear(&f->vocab);
    buf_clear(&f->part);
    buf_clear(&f->voucher);
    for (int i = 0; i < FAKE_ROUNDS; i++)
        buf_clear(&f->body[i]);
}

#endif
