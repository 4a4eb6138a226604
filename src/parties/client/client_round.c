/* Carries out the orders of protocol/participant.h. Every handler ends with one event for the
 * participant, or with a status that ends the client; SEFL_ECANCELLED is a stop. */
#include "roles/client/client_inside.h"
#include "roles/client/proof.h"

#include "base/ct.h"
#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { POLL_S = 30, SAME_TASK_MS = 1000, ASK_AGAIN_MS = 5000 };

#define END_REFUSED "the end of the task lacks the aggregator's signature: it counts as no answer"

static sefl_status tell(client *c, participant_event_kind kind)
{
    return participant_on(c->m, &(participant_event){ .kind = kind }, client_now(c));
}

/* The round is over for this client. LOG_INFO: it closed early, as happens when a round needs fewer
 * clients than there are. */
static sefl_status leave_round(client *c, log_level level, const char *why)
{
    const uint64_t round = client_store_mark(c->store)->round;
    LOG_AT(c->o.log, level, "round continues without this client", lf_u64("round", round),
           lf_str("why", why), client_privacy(c));
    client_end_round(c, NULL, why);
    SEFL_PASS(client_store_drop(c->store));
    c->rounds_seen++;
    return participant_on(c->m,
                          &(participant_event){ .kind = PARTICIPANT_REFUSED,
                                                .charged = ledger_has(c->book, c->t.id, round) },
                          client_now(c));
}

/* Logs a failure that may be temporary, with the current message, and backs off. */
static sefl_status try_later(client *c, log_level level, const char *what, uint64_t round)
{
    LOG_AT(c->o.log, level, what, lf_u64("round", round), lf_str("why", sefl_last_error()));
    snprintf(c->waits, sizeof c->waits, "waiting: %s", what);
    return tell(c, PARTICIPANT_FAILED);
}

/* Handles an answer other than ANSWER_OK: backs off, leaves the round, or ends. */
static sefl_status not_ok(client *c, client_reply *a, bool in_round)
{
    SEFL_NEED(!client_stopped(c), SEFL_ECANCELLED, "stopped");
    client_explain(c, a);
    SEFL_PASS(client_goes_on(c, a));
    const bool late = a->word == ANSWER_LATE;
    if ((late || a->word == ANSWER_OVER) && in_round)
        return leave_round(c, late ? LOG_INFO : LOG_WARN, a->why);
    if (client_no_answer(a) || a->word == ANSWER_NOT_NOW)
        c->recheck = true; /* it may come back with another task */
    log_warn(c->o.log, "try again later", lf_str("why", a->why));
    client_waits_for(c, a);
    return tell(c, PARTICIPANT_FAILED);
}

/* ---- another task? --------------------------------------------------------------------------- */

sefl_status client_same_task(client *c, client_reply *a, bool *same)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    task t = { 0 };
    *same = false;
    SEFL_TRY(client_get(c->net, a, &b, &(http_target){ .call = HTTP_TASK }, ENVELOPE_CONTENT_MAX));
    if (a->word == ANSWER_OK && task_open(&t, buf_span(&b), &c->cfg->servers) != SEFL_OK) {
        a->word = ANSWER_AGAIN;
        snprintf(a->why, sizeof a->why, "cannot parse the task: %.200s", sefl_last_error());
    }
    if (a->word == ANSWER_OK)
        *same = memcmp(t.id, c->t.id, TASK_ID) == 0;
done:
    task_clear(&t);
    buf_clear(&b);
    return st;
}

/* *same: AS still serves our task. It may have got another task, whose rounds have the same
 * numbers. If AS does not answer, neither is set, and the participant backs off. */
static sefl_status look_for_another_task(client *c, bool *same, bool *new_task)
{
    client_reply a;
    *new_task = false;
    SEFL_PASS(client_same_task(c, &a, same));
    if (a.word != ANSWER_OK)
        return not_ok(c, &a, false);
    c->recheck = false;
    *new_task = !*same;
    return SEFL_OK;
}

/* ---- news ------------------------------------------------------------------------------------ */

/* Flips this client's sampling coin, once per round, and stores it. */
static sefl_status draw(client *c, uint64_t round, bool *drawn)
{
    const client_mark *mark = client_store_mark(c->store);
    uint8_t coin[8];
    sefl_rng rng;
    *drawn = true;
    if (mark->round == round) {
        *drawn = mark->drawn;
        return SEFL_OK;
    }
    if (c->t.sampling != TASK_ALL && c->t.rate < 1) {
        SEFL_PASS(coins_for(&c->coins, &rng, "sampling", round, 0));
        SEFL_PASS(rng_fill(&rng, coin, sizeof coin));
        *drawn = load_u64(coin) < (uint64_t)(c->t.rate * 18446744073709551616.0);
    } else {
        *drawn = client_is_turn(c, round);
    }
    return client_store_draw(c->store, round, *drawn);
}

static uint64_t from_now(const client *c, uint64_t ms)
{
    uint64_t now = client_now(c);
    return ms < UINT64_MAX - now ? now + ms : UINT64_MAX;
}

/* Asks AS for news of the rounds after `after`. *told: n has it; otherwise the participant backs
 * off. */
static sefl_status ask_news(client *c, round_news *n, uint64_t after, bool *told)
{
    client_reply a;
    sefl_status st = client_news(c->net, &a, n, &c->news, after, POLL_S);
    *told = st == SEFL_OK && a.word == ANSWER_OK;
    if (st == SEFL_EPROTO)
        return try_later(c, LOG_WARN, "cannot parse the round news", after + 1);
    if (*told)
        client_is_welcome(c);
    return st != SEFL_OK || *told ? st : not_ok(c, &a, false);
}

/* Begins an open round that is new to this client: draws its coin. *good: its header is valid. */
static sefl_status begin_round(client *c, const round_news *n, bool *drawn, bool *good)
{
    round_header h;
    sefl_status st = participant_header_check(&c->t, &h, n->header, n->round);
    *good = st == SEFL_OK;
    if (client_is_bad(st)) {
        c->recheck = true;
        return try_later(c, LOG_ERROR, "header not accepted", n->round);
    }
    SEFL_PASS(st);
    c->header = h;
    SEFL_PASS(draw(c, n->round, drawn));
    c->began_ms = client_now(c);
    c->deadline_ms = from_now(c, n->left_ms);
    c->view.round = n->round;
    log_info(c->o.log, "round open", lf_u64("round", n->round), lf_u64("left_ms", n->left_ms),
             client_privacy(c));
    if (!*drawn) {
        log_info(c->o.log, c->t.separation > 1 ? "not this client's turn" : "not drawn",
                 lf_u64("round", n->round));
        SEFL_PASS(client_store_drop(c->store));
        c->rounds_seen++;
    }
    return SEFL_OK;
}

/* Checks AS's signature under the end of the task, and remembers which model is the final one: a
 * round after the final release started from that model, as both servers signed. *good: the task is
 * over; otherwise the participant backs off. */
static sefl_status on_end(client *c, const round_news *n, bool *good)
{
    sefl_status st = participant_end_check(&c->t, &c->end, n->header);
    *good = st == SEFL_OK;
    if (client_is_bad(st))
        return try_later(c, LOG_ERROR, END_REFUSED, n->round);
    if (st == SEFL_OK && c->end.round > 0 && c->end.round < c->header.round &&
        memcmp(c->end.model, c->header.model, sizeof c->end.model) != 0) {
        log_error(c->o.log, "another model as the final one than both servers signed: not kept",
                  lf_u64("round", c->end.round), lf_u64("signed", c->header.round));
        c->end = (round_end){ 0 };
    }
    return st;
}

static sefl_status on_news(client *c, const round_news *n)
{
    participant_event e = { .kind = PARTICIPANT_GOT_NEWS, .news = n, .drawn = true };
    const client_mark *mark = client_store_mark(c->store);
    bool good = true;
    if (n->state == ROUND_OPEN && n->round < mark->round) {
        /* the header may be a valid old one, replayed. Rounds only increase: the coin and the
         * attempts on disk belong to a later round. */
        log_error(c->o.log, "the server announces an old round", lf_u64("round", n->round),
                  lf_u64("begun", mark->round));
        return tell(c, PARTICIPANT_FAILED);
    }
    e.checked = n->state == ROUND_OVER; /* poll_round: on_end */
    if (n->state == ROUND_OPEN && mark->phase != CLIENT_FINISHED && !participant_is_spent(c->m) &&
        !(n->round == mark->round && mark->phase == CLIENT_DONE))
        SEFL_PASS(begin_round(c, n, &e.drawn, &good));
    return good ? participant_on(c->m, &e, client_now(c)) : SEFL_OK;
}

/* done: the highest round that the participant has dealt with. */
static sefl_status poll_round(client *c, uint64_t done, bool *new_task)
{
    round_news n;
    const client_mark *mark = client_store_mark(c->store);
    uint64_t after = mark->phase == CLIENT_DONE || mark->round == 0 ? mark->round : mark->round - 1;
    if (participant_is_spent(c->m) && done > after) /* this client only waits for the end */
        after = done;
    bool same = true, told = false, good = true;
    client_show_doing(c, c->paused ? "waiting: the task is paused" : "waiting");
    if (c->recheck)
        SEFL_PASS(look_for_another_task(c, &same, new_task));
    if (same)
        SEFL_PASS(ask_news(c, &n, after, &told));
    if (!told)
        return SEFL_OK;
    if (n.state == ROUND_PAUSED && !c->paused)
        log_info(c->o.log, "the task is paused by an operator: waiting");
    c->paused = n.state == ROUND_PAUSED;
    if (n.round < mark->round)
        c->recheck =
            true; /* rounds only increase: it is another task, or an old copy of AS's state */
    if (n.state == ROUND_OVER)
        SEFL_PASS(on_end(c, &n, &good));
    if (!good)
        return SEFL_OK;
    SEFL_PASS(client_ask_counted(c, &n));
    return on_news(c, &n);
}

/* ---- model and training ---------------------------------------------------------------------- */

/* A download is useless after the round's deadline. */
static bool in_time(void *self, uint64_t done_so_far, uint64_t total)
{
    client *c = self;
    sefl_progress p = client_progress(c);
    return progress_report(&p, done_so_far, total) && client_now(c) < c->deadline_ms;
}

uint64_t client_model_max(const client *c)
{
    /* the initial model of an external task may be of another program: dense, and in doubles */
    return c->t.external ? (uint64_t)c->t.layout.dense * 8 + (16 << 20)
                         : (uint64_t)c->t.params * 4 + (1 << 20);
}

static sefl_status fetch_model(client *c, uint64_t round)
{
    client_reply a;
    sefl_progress p = { .report = in_time, .self = c };
    client_show_doing(c, "fetching the model");
    SEFL_PASS(client_budget(c, round)); /* before any work */
    SEFL_PASS(client_vouch(c, &a));
    if (a.word != ANSWER_OK)
        return not_ok(c, &a, true);
    sefl_status st = client_get_file(
        c->net, &a, &(http_target){ .call = HTTP_ROUND_MODEL, .round = round },
        client_store_path(c->store, CLIENT_MODEL), client_model_max(c), c->header.model, &p);
    if (st == SEFL_ECANCELLED && !client_stopped(c)) {
        log_warn(c->o.log, "try again later",
                 lf_str("why", "the round's deadline passed during the download of its model"));
        return tell(c, PARTICIPANT_FAILED);
    }
    SEFL_PASS(st);
    if (a.word ==
        ANSWER_NOT_THERE) /* AS has gone on: the round closed early, or an operator dropped it */
        return leave_round(c, LOG_INFO, a.why);
    if (a.word != ANSWER_OK)
        return not_ok(c, &a, true);
    SEFL_PASS(client_models_round(c, round));
    return tell(c, PARTICIPANT_GOT_MODEL);
}

/* True if the round that we train for is still open. The deadline that we know has passed, but AS
 * may have extended it. If AS does not answer, we ask again later. */
static bool still_open(client *c)
{
    client_reply a;
    round_news n = { 0 };
    uint64_t round = client_store_mark(c->store)->round, began = client_now(c);
    bool told =
        client_news(c->net, &a, &n, &c->news, round - 1, 0) == SEFL_OK && a.word == ANSWER_OK;
    bool open = !told || (n.state == ROUND_OPEN && n.round == round);
    uint64_t later =
        told ? n.left_ms : 4 * (client_now(c) - began); /* most of the time it trains */
    c->deadline_ms = from_now(c, later > ASK_AGAIN_MS ? later : ASK_AGAIN_MS);
    if (told && open)
        log_info(c->o.log, "round continues", lf_u64("round", round), lf_u64("left_ms", n.left_ms));
    return open;
}

/* Training stops when its round has closed: AS would refuse the update. */
static bool wanted_still(void *self, uint64_t done_so_far, uint64_t total)
{
    client *c = self;
    sefl_progress p = client_progress(c);
    return progress_report(&p, done_so_far, total) &&
           (client_now(c) < c->deadline_ms || still_open(c));
}

static sefl_status client_round_train(client *c, uint64_t round)
{
    sefl_status st = SEFL_OK;
    client_body body;
    sefl_progress p = { .report = wanted_still, .self = c };
    uint64_t now = client_now(c);
    client_show_doing(c, "training");
    if (ledger_has(c->book, c->t.id, round)) /* only finished bodies are charged: lost its mark */
        return leave_round(c, LOG_WARN,
                           "this round is already charged and its update is missing: parts of it "
                           "may have been sent, so the client does not compute it again");
    SEFL_PASS(record_list_keep(&c->list)); /* from here on the records have their turns */
    SEFL_PASS(client_store_begin(c->store, c->terms.list));
    const char *path = client_store_path(c->store, CLIENT_BODY);
    const train_job job = { .task = &c->t,
                            .round = round,
                            .client = c->me,
                            .attempt = client_store_mark(c->store)->attempt,
                            .model = client_store_path(c->store, CLIENT_MODEL),
                            .text = &c->text,
                            .eos = c->words ? vocab_eos(c->words) : 0,
                            .list = c->list.record ? &c->list : NULL,
                            .words =
                                c->t.external ? NULL : client_store_path(c->store, CLIENT_VOCAB),
                            .left_ms = c->deadline_ms > now ? c->deadline_ms - now : 0,
                            .progress = &p };
    if (file_exists(path)) /* complete; only the sync of its name failed */
        st = client_body_of(&body, path, head_bytes(c->t.seal));
    else
        st = client_update_make(c->update, &body, path, &c->header, &job);
    if (st == SEFL_ECANCELLED && !client_stopped(c))
        return leave_round(c, LOG_INFO, "the round closed while this client trained");
    if (st == SEFL_EIO) /* a full disk may have room later; with new coins */
        return try_later(c, LOG_ERROR, "update not written", round);
    SEFL_PASS(st);
    if (client_update_diverged(c->update))
        log_warn(c->o.log,
                 c->t.unit == TASK_UNIT_RECORD
                     ? "training diverged on this model for some records: they count as zeros"
                     : "no usable update of this model: zeros are uploaded",
                 lf_u64("round", round), lf_str("why", client_update_why(c->update)));
    SEFL_PASS(client_store_finish(c->store, &body));
    log_debug(c->o.log, "update finished", lf_u64("round", round), lf_u64("bytes", body.bytes),
              lf_hash("body", body.hash));
    return tell(c, PARTICIPANT_TRAINED);
}

/* ---- upload ---------------------------------------------------------------------------------- */

static sefl_status keep_receipt(client *c, uint64_t round, sefl_span receipt,
                                const client_body *body)
{
    sefl_status st = client_receipt_check(&c->t, receipt, round, c->me, body);
    if (client_is_bad(st))
        return try_later(c, LOG_ERROR, "receipt not accepted", round);
    SEFL_PASS(st);
    SEFL_PASS(client_store_receipt(c->store, receipt));
    c->rounds_seen++;
    uint64_t ms = client_now(c) - c->began_ms;
    log_info(c->o.log, "round done", lf_u64("round", round), lf_u64("bytes", body->bytes),
             lf_hash("body", body->hash), lf_u64("ms", ms), client_privacy(c));
    c->view.bytes = body->bytes, c->view.ms = ms;
    client_show_doing(c, CLIENT_ROUND_DONE);
    client_end_round(c, body, NULL);
    return tell(c, PARTICIPANT_GOT_RECEIPT);
}

static sefl_status upload(client *c, uint64_t round, bool *new_task)
{
    sefl_status st = SEFL_OK;
    client_reply a;
    sefl_buf receipt = { 0 };
    uint64_t offset = 0;
    const char *file = client_store_path(c->store, CLIENT_BODY);
    const client_body *body = &client_store_mark(c->store)->body;
    sefl_progress p = client_progress(c);
    bool go = true;
    client_show_doing(c, "uploading");
    /* another task would count this body as its own and spoil its sum; servers do not switch tasks
     * within a second of the header */
    if (client_now(c) - c->began_ms >= SAME_TASK_MS)
        SEFL_TRY(look_for_another_task(c, &go, new_task));
    if (!go)
        goto done;
    SEFL_TRY(client_budget(c, round));
    SEFL_TRY(client_ask(c->net, &a, &offset, round, body));
    bool refused = a.word == ANSWER_REFUSED && !c->vouched;
    if (refused || (a.word == ANSWER_OK && offset < body->bytes)) /* a receipt needs no voucher */
        SEFL_TRY(client_vouch(c, &a));
    if (refused && a.word == ANSWER_OK)
        SEFL_TRY(client_ask(c->net, &a, &offset, round, body));
    if (a.word == ANSWER_OK) {
        /* durable before the first byte of the body leaves */
        SEFL_TRY(ledger_charge(c->book, &c->terms, round, NULL));
        SEFL_TRY(client_store_charged(c->store));
        SEFL_TRY(client_put(c->net, &a, &receipt, offset, round, file, body, &p));
    }
    if (a.word == ANSWER_REFUSED)
        c->vouched = false; /* "no voucher": post it again before the next attempt */
    st = a.word == ANSWER_OK ? keep_receipt(c, round, buf_span(&receipt), body)
                             : not_ok(c, &a, true);
done:
    buf_clear(&receipt);
    return st;
}

sefl_status client_obey(client *c, const participant_order *order, bool *new_task)
{
    *new_task = false;
    switch (order->kind) {
    case PARTICIPANT_POLL:
        return poll_round(c, order->round, new_task);
    case PARTICIPANT_FETCH_MODEL:
        return fetch_model(c, order->round);
    case PARTICIPANT_TRAIN:
        return client_round_train(c, order->round);
    case PARTICIPANT_UPLOAD:
        return upload(c, order->round, new_task);
    case PARTICIPANT_SLEEP:
        client_show_doing(c, *c->waits ? c->waits : "waiting");
        client_wait(c, order->until_ms);
        break;
    case PARTICIPANT_STOP:
        break;
    }
    return SEFL_OK;
}
