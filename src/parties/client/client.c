#include "roles/client/charges.h"
#include "roles/client/client_inside.h"

#include "base/alloc.h"
#include "base/cond.h"
#include "base/file.h"
#include "model/lm.h"
#include "protocol/http.h"
#include "roles/client/text.h"
#include "roles/health.h"
#include "sum/terms.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { BACKOFF_MS = 500, BACKOFF_MAX_MS = 60000, IDLE_MAX_MS = 10000, VOCAB_MAX = 256 << 20 };

/* ---- time and talk --------------------------------------------------------------------------- */

uint64_t client_now(const client *c)
{
    return clock_ms(&c->clock);
}

bool client_stopped(const client *c)
{
    return atomic_load(&c->stop);
}

void client_wait(client *c, uint64_t until_ms)
{
    uint64_t now;
    pthread_mutex_lock(&c->lock);
    while (!c->stop && (now = client_now(c)) < until_ms)
        cond_wait_ms(&c->wake, &c->lock, until_ms - now);
    pthread_mutex_unlock(&c->lock);
}

log_field client_privacy(const client *c)
{
    return lf_str("privacy", c->t.claim ? "claimed by the task" : CLIENT_NO_CLAIM);
}

static void show(client *c)
{
    if (c->o.show)
        c->o.show(c->o.show_ctx, &c->view);
}

/* Writes status.json, for `sefl status` on the owner's machine. */
static void save_status(client *c, const char *doing)
{
    sefl_buf b = { 0 };
    unsigned status;
    server_view v = server_view_none();
    v.role = "client", v.phase = doing, v.round = c->view.round;
    v.healthy = view_yes(c->refused_ms == 0), v.paused = view_yes(c->paused);
    if (c->has_task)
        health_task(&v, &c->t);
    if (*c->control.state && health_write(&b, &status, &v) == SEFL_OK)
        control_status(&c->control, buf_span(&b), c->o.log);
    buf_clear(&b);
}

void client_show_doing(client *c, const char *doing)
{
    c->view.doing = doing;
    c->view.done = c->view.total = 0;
    show(c);
    save_status(c, doing);
}

void client_end_round(client *c, const client_body *body, const char *why)
{
    if (c->o.ended)
        c->o.ended(c->o.show_ctx, &(client_end){ .round = client_store_mark(c->store)->round,
                                                 .body = body,
                                                 .ms = client_now(c) - c->began_ms,
                                                 .why = why });
}

static bool on_progress(void *self, uint64_t done_so_far, uint64_t total)
{
    client *c = self;
    c->view.done = done_so_far, c->view.total = total;
    show(c);
    return !client_stopped(c);
}

sefl_progress client_progress(client *c)
{
    return (sefl_progress){ .report = on_progress, .self = c };
}

void client_stop(client *c)
{
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    if (c->net)
        https_client_interrupt(c->net);
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
}

void client_reload(client *c)
{
    atomic_store(&c->reload, true); /* checked before the next step */
}

void client_use_port(client *c, const train_port *port)
{
    c->port = port;
}

const char *client_over(const client *c)
{
    return c->over;
}

/* ---- start and end --------------------------------------------------------------------------- */

/* Reads identity and policy and makes the connection; keeps the old ones if anything is wrong. */
static sefl_status read_files(client *c)
{
    sefl_status st = SEFL_OK;
    const client_config *f = c->cfg;
    tls_id *id = NULL;
    https_client *net = NULL;
    policy rules;
    SEFL_TRY(policy_read(&rules, f->policy, &f->servers));
    SEFL_TRY(tls_id_read(&id, f->cert, f->key, f->peers));
    SEFL_CHECK(!c->id || memcmp(tls_id_fingerprint(id), c->me, 32) == 0, SEFL_EAUTH,
               "%s has another key than before: restart the client", f->cert);
    SEFL_TRY(https_client_new(
        &net, &(https_client_config){ .host = f->server.host,
                                      .port = f->server.port,
                                      .id = id,
                                      .proxy = f->proxy,
                                      .headers = HTTP_VERSION_LINE,
                                      .may_send = http_is_header,
                                      .number_field = http_field_name(HTTP_OFFSET_FIELD) }));
    pthread_mutex_lock(&c->lock);
    https_client *old = c->net;
    tls_id *old_id = c->id;
    c->net = net, net = NULL;
    c->id = id, id = NULL;
    memcpy(c->me, tls_id_fingerprint(c->id), sizeof c->me);
    pthread_mutex_unlock(&c->lock);
    https_client_free(old);
    tls_id_free(old_id);
    c->rules = rules;
done:
    https_client_free(net);
    tls_id_free(id);
    return st;
}

sefl_status client_new(client **out, const client_options *o)
{
    SEFL_MAKE(client, c, out);
    c->o = *o;
    c->cfg = o->config;
    c->coins = o->coins ? *o->coins : coins_system();
    c->clock = clock_monotonic();
    pthread_mutex_init(&c->lock, NULL);
    cond_init(&c->wake);
    SEFL_TRY(coins_for(&c->coins, &c->jitter, "jitter", 0, 0));
    SEFL_TRY(pool_new(&c->pool, c->cfg->threads));
    SEFL_TRY(read_files(c));
    SEFL_TRY(control_open(&c->control, c->cfg->state));
    SEFL_HAND_OVER(out, c, client_free);
}

static void drop_task(client *c)
{
    participant_free(c->m);
    client_update_free(c->update);
    builtin_free(c->builtin);
    corpus_clear(&c->text);
    corpus_clear(&c->held);
    record_list_clear(&c->list);
    buf_clear(&c->news);
    vocab_free(c->words);
    upload_key_clear(&c->upload);
    client_store_close(c->store);
    ledger_close(c->book);
    if (c->has_task)
        task_clear(&c->t);
    c->m = NULL, c->update = NULL, c->builtin = NULL, c->words = NULL, c->store = NULL,
    c->book = NULL;
    c->has_task = c->vouched = false;
    c->header = (round_header){ 0 };
    c->end = (round_end){ 0 };
    memset(c->judged, 0, sizeof c->judged);
    c->unproven = 0, c->asked_in = 0;
}

void client_free(client *c)
{
    if (!c)
        return;
    drop_task(c);
    control_close(&c->control);
    https_client_free(c->net);
    tls_id_free(c->id);
    pool_free(c->pool);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    sefl_free(c);
}

static sefl_status policy_allows(const client *c)
{
    const char *rule = NULL;
    sefl_status st = policy_check(&c->rules, &c->t, &rule);
    if (st == SEFL_EINVAL) /* a rule of the policy file; SEFL_EAUTH: the servers of client.yml */
        policy_note_line(c->cfg->policy, rule);
    return st;
}

/* Compares our clock with AS's, and warns of the end of our certificate by AS's clock: a wrong
 * clock is no reason to renew it. */
static void look_at_clock(client *c)
{
    sefl_clock wall = clock_wall();
    const int64_t now = (int64_t)(clock_ms(&wall) / 1000);
    char text[CLOCK_APART_TEXT];
    int64_t ahead;
    if (!https_ahead(c->net, &ahead)) {
        ahead = 0;
        if (!c->asked)
            return; /* the first answer may tell */
    }
    if (!clock_apart_text(text, ahead))
        c->clock_said = false;
    else if (!c->clock_said) {
        c->clock_said = true;
        log_error(c->o.log, text, lf_i64("ahead_s", ahead));
    }
    (void)own_cert_look(&c->own, tls_id_expires(c->id), now - ahead, c->o.log);
}

static sefl_status reload_if_asked(client *c)
{
    sefl_status st = SEFL_OK;
    look_at_clock(c);
    if (!atomic_exchange(&c->reload, false))
        return SEFL_OK;
    st = read_files(c);
    if (st != SEFL_OK) { /* keep the old ones */
        log_error(c->o.log, "not reloaded", lf_str("why", sefl_last_error()));
        return SEFL_OK;
    }
    log_info(c->o.log, "reloaded", lf_str("policy", c->cfg->policy));
    memset(c->passed, 0, sizeof c->passed); /* the new policy may allow it */
    return c->has_task ? policy_allows(c) : SEFL_OK;
}

/* ---- the task -------------------------------------------------------------------------------- */

sefl_status client_goes_on(client *c, const client_reply *a)
{
    uint64_t now = client_now(c);
    uint64_t patience = c->o.patience_ms ? c->o.patience_ms : CLIENT_PATIENCE_MS;
    if (a->word == ANSWER_UPGRADE)
        return sefl_fail(SEFL_EUNSUPPORTED, "%s", a->why);
    if (a->word != ANSWER_REFUSED)
        return SEFL_OK;
    if (c->refused_ms == 0)
        c->refused_ms = now;
    snprintf(c->refused, sizeof c->refused, "%s", a->why);
    if (now - c->refused_ms < patience)
        return SEFL_OK;
    return sefl_fail(SEFL_EAUTH,
                     "refused for %" PRIu64
                     " hours: %s; ask the server's operator, then restart the client",
                     patience / 3600000, a->why);
}

static const struct {
    log_level level;
    const char *event, *doing;
} kinds[ANSWER_UPGRADE + 1] = {
    [ANSWER_NONE] = { LOG_WARN, "cannot reach the server", "waiting for the server" },
    [ANSWER_REFUSED] = { LOG_ERROR, "refused; trying again", "REFUSED, trying again" },
    /* an intermediary, a wrong tls.peers, or a wrong clock */
    [ANSWER_UNTRUSTED] = { LOG_ERROR, "the server's certificate is not valid here",
                           "the server's certificate is not valid here, trying again" },
    [ANSWER_NOT_NOW] = { LOG_INFO, "no task for this client now", "waiting for a task" },
};

static client_answer kind_of(const client_reply *a)
{
    return kinds[a->word].event ? a->word : ANSWER_NONE;
}

static bool is_refusal(const client_reply *a)
{
    return a->word == ANSWER_REFUSED || a->word == ANSWER_UNTRUSTED;
}

/* An invalid certificate may mean that our own clock is wrong: AS's tells. */
void client_explain(client *c, client_reply *a)
{
    char text[CLOCK_APART_TEXT], path[HTTP_PATH_MAX];
    int64_t ahead;
    c->asked = true;
    if (!is_refusal(a) || client_stopped(c))
        return;
    if (a->word == ANSWER_UNTRUSTED &&
        https_ask_date(c->net, http_path(path, &(http_target){ .call = HTTP_TASK })) != SEFL_OK)
        return;
    if (https_ahead(c->net, &ahead) && clock_apart_text(text, ahead))
        snprintf(a->why, sizeof a->why, "%s", text);
}

void client_waits_for(client *c, const client_reply *a)
{
    const bool says = is_refusal(a);
    snprintf(c->waits, sizeof c->waits, "%s%s%s", kinds[kind_of(a)].doing, says ? ": " : "",
             says ? a->why : "");
}

void client_is_welcome(client *c)
{
    c->refused_ms = 0;
    c->waits[0] = 0;
}

/* Backs off while there is no participant yet: the same rule, longer each time, with jitter. */
static sefl_status back_off(client *c, unsigned failures, const client_reply *a)
{
    const client_answer i = kind_of(a);
    uint64_t ms = (uint64_t)BACKOFF_MS << (failures < 7 ? failures : 7), part;
    const bool idle = a->word == ANSWER_NOT_NOW;
    uint64_t most = idle ? IDLE_MAX_MS : BACKOFF_MAX_MS;
    SEFL_PASS(client_goes_on(c, a));
    ms = ms < most ? ms : most;
    SEFL_PASS(rng_below(&c->jitter, &part, ms / 2 + 1));
    if (!idle || !c->idle) /* it may wait for weeks: one line is enough */
        LOG_AT(c->o.log, kinds[i].level, kinds[i].event, lf_str("why", a->why),
               lf_u64("wait_ms", ms / 2 + part));
    c->idle = idle;
    client_waits_for(c, a);
    client_show_doing(c, c->waits);
    client_wait(c, client_now(c) + ms / 2 + part);
    return SEFL_OK;
}

sefl_status client_fetch(client *c, sefl_status (*attempt)(client *c, client_reply *a),
                         const char *doing, unsigned tries)
{
    client_reply a;
    for (unsigned failures = 0;; failures++) {
        SEFL_NEED(!client_stopped(c), SEFL_ECANCELLED, "stopped");
        SEFL_PASS(reload_if_asked(c));
        client_show_doing(c, doing);
        SEFL_PASS(attempt(c, &a));
        client_explain(c, &a);
        if (a.word == ANSWER_OK)
            return SEFL_OK;
        SEFL_NEED(tries == 0 || failures + 1 < tries, SEFL_EIO, "%s", a.why);
        SEFL_PASS(back_off(c, failures, &a));
    }
}

/* A task that both pinned servers did not sign may be garbled or another's: the client tries
 * again. */
static sefl_status look_at_signatures(const client *c, client_reply *a, sefl_span bytes)
{
    envelope env;
    sefl_status st = envelope_read(&env, bytes);
    if (st == SEFL_OK)
        st = envelope_check(&env, SIGN_TASK, &c->cfg->servers);
    if (!client_is_bad(st))
        return st;
    a->word = ANSWER_REFUSED;
    snprintf(a->why, sizeof a->why, "the task is refused: %.230s", sefl_last_error());
    return SEFL_OK;
}

static sefl_status get_task(client *c, client_reply *a)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(client_get(c->net, a, &b, &(http_target){ .call = HTTP_TASK }, ENVELOPE_CONTENT_MAX));
    if (a->word == ANSWER_OK)
        SEFL_TRY(look_at_signatures(c, a, buf_span(&b)));
    if (a->word == ANSWER_OK || a->word == ANSWER_NOT_NOW)
        client_is_welcome(c);
    if (a->word == ANSWER_OK) {
        SEFL_TRY(sefl_at(task_open(&c->t, buf_span(&b), &c->cfg->servers), "the task is refused"));
        c->has_task = true;
    }
    if (c->has_task && memcmp(c->t.id, c->passed, TASK_ID) == 0) {
        drop_task(c);
        a->word = ANSWER_NOT_NOW;
        snprintf(a->why, sizeof a->why, "the server still has the last task");
    }
done:
    buf_clear(&b);
    return st;
}

bool client_is_turn(const client *c, uint64_t round)
{
    return task_is_turn(&c->t, c->me, round) &&
           !ledger_has_near(c->book, c->t.id, round, c->t.separation);
}

sefl_status client_budget(client *c, uint64_t round)
{
    SEFL_NEED(
        !ledger_has_near(c->book, c->t.id, round, c->t.separation), SEFL_ESTATE,
        "round %" PRIu64 " is less than %" PRIu64 " rounds (rounds.separation) away from a "
        "round that this client's own ledger has charged: the client does not take part in it",
        round, c->t.separation);
    if (c->rules.epsilon_total > 0 && c->t.claim)
        SEFL_PASS(sefl_at(ledger_allows(c->book, &c->terms, round, c->rules.epsilon_total),
                          "policy: epsilon_total: this client's own ledger"));
    return sefl_at(ledger_may_charge(c->book, &c->terms, round),
                   "this text's own ledger, over all tasks of all populations");
}

static sefl_status open_ledger(client *c)
{
    sefl_status st = text_ledger_open(&c->book, c->cfg->ledger, c->cfg->text);
    if (st == SEFL_ENOTFOUND && !file_exists(c->cfg->ledger))
        sefl_note_before("this client's ledger is missing ('sefl enroll' created it): restore it, "
                         "or set `ledger` to its path");
    return st;
}

/* Opens the upload key. A finished update signed with an earlier key is dropped: no server accepts
 * it. */
static sefl_status open_upload_key(client *c)
{
    sefl_clock wall = clock_wall();
    uint64_t now = clock_ms(&wall);
    sefl_rng rng;
    const client_mark *mark = client_store_mark(c->store);
    SEFL_PASS(coins_for(&c->coins, &rng, "upload key", 0, now));
    SEFL_PASS(upload_key_open(&c->upload, client_store_path(c->store, CLIENT_UPLOAD_KEY), c->me,
                              now, &rng));
    if (!c->upload.made)
        return SEFL_OK;
    log_info(c->o.log, "upload key created", lf_u64("serial", c->upload.serial));
    if (mark->phase == CLIENT_FINISHED) {
        log_warn(c->o.log, "dropped a finished update that was signed with another upload key",
                 lf_u64("round", mark->round));
        SEFL_PASS(client_store_drop(c->store));
    }
    return SEFL_OK;
}

static sefl_status accept_task(client *c)
{
    SEFL_PASS(policy_allows(c));
    c->terms = terms_of_client(&c->t);
    SEFL_PASS(open_ledger(c));
    if (ledger_rounds(c->book, c->t.id) == 0) /* refuse a task that cannot even begin */
        SEFL_PASS(client_budget(c, 1));
    SEFL_PASS(client_store_open(&c->store, c->cfg->state, c->t.id, head_bytes(c->t.seal)));
    SEFL_PASS(
        charges_check(c->book, c->cfg->ledger, client_store_receipts(c->store), c->cfg->state));
    if (task_is_sealed(&c->t))
        SEFL_PASS(open_upload_key(c));
    c->view = (client_view){ .rounds = c->t.rounds, .no_claim = !c->t.claim, .doing = "" };
    log_info(c->o.log, "task accepted", lf_str("name", c->t.name), lf_hash("task", c->t.id),
             lf_u64("rounds", c->t.rounds), client_privacy(c));
    if (client_store_lost(c->store))
        log_error(c->o.log,
                  "a finished update was lost or changed on disk: it is not computed again",
                  lf_u64("round", client_store_mark(c->store)->round));
    return SEFL_OK;
}

static sefl_status get_words(client *c, client_reply *a)
{
    sefl_progress p = client_progress(c);
    return client_get_file(c->net, a, &(http_target){ .call = HTTP_VOCAB },
                           client_store_path(c->store, CLIENT_VOCAB), VOCAB_MAX, c->t.vocab_hash,
                           &p);
}

/* Tells the owner, in the client's own log, if the vocabulary does not fit the text. */
static void look_at_unknown(const client *c)
{
    const size_t words = c->text.tokens - c->text.lines; /* without <eos> */
    char share[16];
    if (c->text.unknown <= words / 10)
        return;
    snprintf(share, sizeof share, "%.0f %%", 100 * (double)c->text.unknown / (double)words);
    log_warn(c->o.log,
             "many words of the text are not in the task's vocabulary: the model cannot learn them",
             lf_str("unknown", share),
             lf_str("do",
                    "check text_format, and the letter case of the text, or ask the operators "
                    "for a vocabulary from public text of your field"));
}

static sefl_status read_one(client *c, corpus *out, const char *path)
{
    sefl_progress p = client_progress(c);
    return client_text_read(
        out, c->words,
        &(corpus_file){ .path = path, .format = c->cfg->text_format, .field = c->cfg->text_field },
        &p);
}

/* Reads or holds out the text on which models are evaluated. */
static sefl_status read_held(client *c)
{
    if (!c->cfg->eval)
        return SEFL_OK;
    if (!c->cfg->eval_text)
        return client_hold_out(&c->text, &c->held, c->cfg->eval_share);
    SEFL_PASS(read_one(c, &c->held, c->cfg->eval_text));
    SEFL_NEED(c->held.tokens >= 2 * LM_EVAL_BATCH, SEFL_EINVAL,
              "eval_text: %s has %zu words: too few to evaluate a model", c->cfg->eval_text,
              c->held.tokens);
    return SEFL_OK;
}

/* Gets the built-in training ready: its words and its text. */
static sefl_status read_text(client *c)
{
    SEFL_PASS(vocab_read(&c->words, client_store_path(c->store, CLIENT_VOCAB),
                         &(vocab_settings){ .order = VOCAB_APPEARANCE, .kind = c->t.kind }));
    client_show_doing(c, "reading the text");
    SEFL_PASS(read_one(c, &c->text, c->cfg->text));
    look_at_unknown(c);
    SEFL_PASS(read_held(c));
    SEFL_PASS(client_open_records(c));
    return builtin_new(&c->builtin, &(builtin_config){ .task = &c->t,
                                                       .words = c->words,
                                                       .text = &c->text,
                                                       .pool = c->pool,
                                                       .device = c->cfg->device,
                                                       .precision = c->cfg->precision,
                                                       .log = c->o.log });
}

static sefl_status choose_port(client *c, train_port *out)
{
    const client_config *f = c->cfg;
    SEFL_NEED(!f->eval || (!c->port && !c->t.external), SEFL_EINVAL,
              "eval is own, but this client's training is not built in: its program chooses its "
              "data itself; set eval: none");
    if (c->port) {
        *out = *c->port;
    } else if (f->trainer) {
        c->hook = (hook){ .command = f->trainer,
                          .runs_in = f->trainer_folder,
                          .folder = f->state,
                          .text = f->text,
                          .timeout_s = f->trainer_timeout,
                          .memory_mib = f->trainer_memory };
        snprintf(c->hook.who, sizeof c->hook.who, "%s", tls_id_name(c->id));
        SEFL_PASS(hook_open(&c->hook));
        log_info(c->o.log, "trains", lf_str("device", HOOK_DEVICE));
        *out = hook_port(&c->hook);
    } else {
        SEFL_NEED(!c->t.external, SEFL_EINVAL,
                  "the task's model is external: set `trainer` to the command that trains it, or "
                  "use the library (docs/LIBRARY.md)");
        SEFL_PASS(read_text(c));
        *out = builtin_port(c->builtin);
    }
    return SEFL_OK;
}

static sefl_status get_ready(client *c)
{
    train_port port;
    if (!c->t.external)
        SEFL_PASS(client_fetch(c, get_words, "fetching the vocabulary", 0));
    SEFL_PASS(choose_port(c, &port));
    SEFL_PASS(
        client_update_new(&c->update, &(client_update_config){ .task = &c->t,
                                                               .port = port,
                                                               .upload_key = c->upload.key,
                                                               .coins = &c->coins,
                                                               .pool = c->pool,
                                                               .observe = c->o.observe,
                                                               .observe_ctx = c->o.observe_ctx }));
    const client_mark *mark = client_store_mark(c->store);
    /* an update without a receipt counts once the receipt arrives */
    bool under_way = mark->phase == CLIENT_FINISHED && ledger_has(c->book, c->t.id, mark->round);
    SEFL_PASS(
        participant_new(&c->m, &c->t, ledger_rounds(c->book, c->t.id) - under_way, &c->jitter));
    if (client_wants_models(c))
        participant_stay(c->m);
    if (mark->phase == CLIENT_FINISHED || mark->phase == CLIENT_DONE)
        participant_restore(c->m, mark->round, mark->phase == CLIENT_DONE);
    c->view.round = mark->round;
    return SEFL_OK;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* With `stay`, a final model that cannot be had does not keep the client from the next task. */
static sefl_status finish_task(client *c)
{
    sefl_status st = client_models_final(c);
    if (st == SEFL_OK || client_stopped(c) || !c->cfg->stay || c->o.once)
        return st;
    log_error(c->o.log, "no final model here: waiting for the next task", lf_hash("task", c->t.id),
              lf_str("why", sefl_last_error()));
    return SEFL_OK;
}

static sefl_status work_on_task(client *c, bool *again)
{
    uint64_t before = c->rounds_seen;
    *again = false;
    while (!*again) {
        SEFL_NEED(!client_stopped(c), SEFL_ECANCELLED, "stopped");
        SEFL_PASS(reload_if_asked(c));
        participant_order order = participant_next(c->m, client_now(c));
        if (order.kind == PARTICIPANT_STOP) {
            log_info(c->o.log, "task over", lf_str("why", order.why), client_privacy(c));
            snprintf(c->over, sizeof c->over, "%s", order.why);
            return finish_task(c);
        }
        SEFL_PASS(client_obey(c, &order, again));
        if (c->o.once && c->rounds_seen > before) {
            snprintf(c->over, sizeof c->over, "one round is over");
            break;
        }
    }
    return SEFL_OK;
}

static sefl_status take_part(client *c, bool *again)
{
    SEFL_PASS(accept_task(c));
    SEFL_PASS(get_ready(c));
    return work_on_task(c, again);
}

/* `stay`: the task is over, or the owner's policy, ledger or settings refuse it: waits for another
 * one. */
static void pass_task(client *c, sefl_status st)
{
    if (st != SEFL_OK)
        log_error(c->o.log, "task refused: waiting for another", lf_hash("task", c->t.id),
                  lf_str("why", sefl_last_error()));
    memcpy(c->passed, c->t.id, sizeof c->passed);
}

sefl_status client_run(client *c)
{
    sefl_status st = SEFL_OK;
    bool again = true;
    while (again) {
        SEFL_TRY(client_fetch(c, get_task, "fetching the task", 0));
        again = false;
        st = take_part(c, &again);
        if (again) {
            log_info(c->o.log, "the server has another task", lf_hash("before", c->t.id));
            client_end_round(c, NULL, "the server has another task");
        } else if (c->cfg->stay && !c->o.once && !client_stopped(c) &&
                   (st == SEFL_OK || st == SEFL_EINVAL || st == SEFL_EBUDGET)) {
            pass_task(c, st);
            st = SEFL_OK;
            again = true;
        } else if (st == SEFL_OK && *c->over) {
            save_status(c, CLIENT_OVER);
        }
        SEFL_TRY(st);
        drop_task(c);
    }
done:
    drop_task(c);
    if (client_stopped(c) && c->refused_ms != 0)
        return sefl_fail(SEFL_EAUTH,
                         "stopped while the server refused this client: %s; ask its "
                         "operator",
                         c->refused);
    return client_stopped(c) ? SEFL_OK : st;
}
