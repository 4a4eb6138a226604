#include "base/alloc.h"
#include "base/file.h"
#include "base/hex.h"
#include "roles/audit/audit_log.h"
#include "roles/audit/verify_inside.h"
#include "roles/client/charges.h"
#include "roles/task_queue.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOLD_MAX = 20, /* findings of one check that are shown */
    TASK_FILE_MAX = TASK_BYTES_MAX + 4096,
    RECEIPTS_MAX = 1 << 30
};

sefl_status verify_new(verify **out, const verify_config *c)
{
    SEFL_MAKE(verify, v, out);
    v->c = *c;
    v->logs[VERIFY_AGGREGATOR].role = VERIFY_AGGREGATOR;
    v->logs[VERIFY_CSP].role = VERIFY_CSP;
    SEFL_HAND_OVER(out, v, verify_free);
}

void verify_free(verify *v)
{
    if (!v)
        return;
    for (size_t i = 0; i < v->n_tasks; i++)
        task_clear(&v->tasks[i].t);
    for (size_t i = 0; i < 2; i++) {
        sefl_free(v->logs[i].rounds);
        sefl_free(v->logs[i].served);
        sefl_free(v->logs[i].audits);
        for (size_t k = 0; k < v->logs[i].n_files; k++)
            sefl_free(v->logs[i].files[k]);
        sefl_free(v->logs[i].files);
        for (size_t k = 0; k < VERIFY_PROCESSES; k++) {
            sefl_free(v->logs[i].current[k]);
            sefl_free(v->logs[i].ledgers[k]);
        }
    }
    for (size_t i = 0; i < v->n_files; i++)
        sefl_free(v->receipt_files[i]);
    for (size_t i = 0; i < v->n_clients; i++)
        sefl_free(v->client_models[i]);
    sefl_free(v->client_models);
    sefl_free(v->receipt_files);
    sefl_free(v->receipts);
    sefl_free(v->tasks);
    sefl_free(v);
}

size_t verify_wrong(const verify *v)
{
    return v->wrong;
}

void verify_say(verify *v, verify_verdict verdict, const char *what, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    if (verdict == VERIFY_WRONG) {
        v->wrong++;
        if (++v->told > TOLD_MAX)
            return;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    v->c.say(v->c.ctx, verdict, what, text);
    if (verdict == VERIFY_WRONG && v->told == TOLD_MAX)
        v->c.say(v->c.ctx, VERIFY_NOTE, what, "further findings of this check are not shown");
}

void verify_failed(verify *v, const char *what)
{
    char text[400];
    const char *said = sefl_last_error(), *name = strstr(said, what);
    if (name) /* the file's name comes first in any case */
        said = name + strlen(what) + strspn(name + strlen(what), ": ");
    snprintf(text, sizeof text, "%s", said);
    verify_say(v, VERIFY_WRONG, what, "%s", text);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

const verify_task *verify_find_task(const verify *v, const uint8_t id[TASK_ID], verify_role role)
{
    const verify_task *any = NULL;
    for (size_t i = 0; i < v->n_tasks; i++)
        if (memcmp(v->tasks[i].t.id, id, TASK_ID) == 0) {
            if (v->tasks[i].role == role)
                return &v->tasks[i];
            any = &v->tasks[i];
        }
    return any;
}

void verify_keys(verify *v, const task *t)
{
    char as[HEX_CHARS(SIGN_PUB_BYTES)], csp[HEX_CHARS(SIGN_PUB_BYTES)];
    v->keys = t->servers, v->has_keys = true;
    verify_say(v, VERIFY_NOTE, "keys", "aggregator %s, CSP %s: compare them with the minutes",
               hex_write(as, v->keys.as, SIGN_PUB_BYTES),
               hex_write(csp, v->keys.csp, SIGN_PUB_BYTES));
}

/* Reads a task and checks its signatures with the keys that it names. one: the file is not one of a
 * folder of tasks, where a server leaves out a task that is wrong. */
static sefl_status add_task(verify *v, const char *path, verify_role role, bool one,
                            verify_task **out)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    envelope env;
    *out = NULL;
    SEFL_TRY(sefl_room(&v->tasks, &v->room_tasks, v->n_tasks + 1, sizeof *v->tasks));
    verify_task *t = &v->tasks[v->n_tasks];
    *t = (verify_task){ .role = role };
    if (file_read_plain(&b, path, TASK_FILE_MAX) != SEFL_OK ||
        envelope_read(&env, buf_span(&b)) != SEFL_OK || task_read(&t->t, env.content) != SEFL_OK ||
        envelope_check(&env, SIGN_TASK, &t->t.servers) != SEFL_OK) {
        if (one)
            verify_failed(v, path);
        else
            verify_say(v, VERIFY_NOTE, path, "left out, as the server does: %s", sefl_last_error());
        task_clear(&t->t);
        goto done;
    }
    v->n_tasks++;
    verify_say(v, VERIFY_OK, path, "both servers signed it");
    *out = t;
done:
    buf_clear(&b);
    return st;
}

sefl_status verify_trust(verify *v, const char *path)
{
    verify_task *t;
    SEFL_PASS(add_task(v, path, VERIFY_CSP, true, &t));
    if (t)
        verify_keys(v, &t->t);
    return SEFL_OK;
}

/* A folder of tasks (roles/task_queue.h); AS keeps the models of each in a folder of its own. */
static sefl_status add_tasks(verify *v, const verify_files *f)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX], id[HEX_CHARS(8)];
    verify_task *t;
    DIR *d = opendir(f->tasks);
    if (!d)
        return SEFL_OK;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        SEFL_TRY(file_path(path, "%s/%s/" TASK_QUEUE_FILE, f->tasks, e->d_name));
        if (!file_exists(path))
            continue;
        SEFL_TRY(add_task(v, path, f->role, false, &t));
        if (!t || !f->models)
            continue;
        t->keep = f->keep, t->every = f->every;
        SEFL_TRY(file_path(t->init, "%s/%s/init.safetensors", f->tasks, e->d_name));
        SEFL_TRY(file_path(t->models, "%s/%s-%s", f->models, e->d_name, hex_write(id, t->t.id, 8)));
    }
done:
    closedir(d);
    return st;
}

static sefl_status add_task_of(verify *v, const verify_files *f)
{
    verify_task *t;
    if (f->tasks)
        return add_tasks(v, f);
    if (!f->task)
        return SEFL_OK;
    SEFL_PASS(add_task(v, f->task, f->role, true, &t));
    if (t && f->models && f->init) {
        t->keep = f->keep, t->every = f->every;
        SEFL_PASS(file_path(t->init, "%s", f->init));
        SEFL_PASS(file_path(t->models, "%s", f->models));
    }
    return SEFL_OK;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

verify_round *verify_find_round(const verify_log *l, const uint8_t id[TASK_ID], uint64_t round,
                                size_t *hint)
{
    const size_t from = hint && *hint < l->n ? *hint : 0;
    for (size_t i = 0; i < l->n; i++) {
        /* with a hint forwards from there, otherwise backwards from the latest */
        const size_t at = hint ? (from + i) % l->n : l->n - 1 - i;
        if (l->rounds[at].round == round && memcmp(l->rounds[at].task, id, TASK_ID) == 0) {
            if (hint)
                *hint = at + 1;
            return &l->rounds[at];
        }
        if (!hint && l->rounds[at].round < round && memcmp(l->rounds[at].task, id, TASK_ID) == 0)
            return NULL; /* rounds grow */
    }
    return NULL;
}

/* ---- receipts -------------------------------------------------------------------------------- */

static int receipt_order(const void *a, const void *b)
{
    const verify_receipt *x = a, *y = b;
    int c = memcmp(x->task, y->task, sizeof x->task);
    if (c == 0)
        c = (x->round > y->round) - (x->round < y->round);
    return c != 0 ? c : memcmp(&x->who, &y->who, sizeof x->who);
}

verify_receipt *verify_find_receipt(const verify *v, const uint8_t id[TASK_ID], uint64_t round,
                                    const round_entry *who)
{
    verify_receipt key = { .round = round, .who = *who };
    memcpy(key.task, id, sizeof key.task);
    return v->n_receipts == 0
               ? NULL
               : bsearch(&key, v->receipts, v->n_receipts, sizeof key, receipt_order);
}

static sefl_status read_receipt(verify_receipt *out, sefl_span bytes, const uint8_t *pub)
{
    envelope env;
    round_receipt c;
    SEFL_PASS(envelope_read(&env, bytes));
    SEFL_PASS(envelope_check_one(&env, SIGN_RECEIPT, SIGNER_AS, pub));
    SEFL_PASS(round_receipt_read(&c, env.content));
    out->round = c.round;
    memcpy(out->task, c.task, sizeof out->task);
    memcpy(out->who.client, c.client, sizeof c.client);
    memcpy(out->who.body, c.body, sizeof c.body);
    return SEFL_OK;
}

static sefl_status add_receipts(verify *v, const char *path, sefl_span bytes, const uint8_t *pub)
{
    rd r = rd_over(bytes);
    bool more = true;
    uint64_t n = 0;
    while (more) {
        sefl_span env = { 0 };
        verify_receipt one = { .number = n + 1, .file = v->n_files - 1 };
        sefl_status st = receipts_next(&r, &env, &more);
        const bool ends = st != SEFL_OK;
        if (st == SEFL_OK && more)
            st = read_receipt(&one, env, pub);
        if (st != SEFL_OK)
            verify_say(v, VERIFY_WRONG, path, "receipt %" PRIu64 ": %s", n + 1, sefl_last_error());
        if (ends)
            break;
        if (st == SEFL_OK && more) {
            SEFL_PASS(
                sefl_room(&v->receipts, &v->room_receipts, v->n_receipts + 1, sizeof *v->receipts));
            v->receipts[v->n_receipts++] = one;
        }
        n += more;
    }
    return SEFL_OK;
}

static sefl_status read_receipts(verify *v, const char *path, const char *pub)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    uint8_t key[SIGN_PUB_BYTES];
    if (!file_exists(path))
        return SEFL_OK; /* it has taken part in no round */
    SEFL_TRY(sign_pub_read(key, pub));
    SEFL_TRY(file_read_plain(&b, path, RECEIPTS_MAX));
    SEFL_TRY(
        sefl_room(&v->receipt_files, &v->room_files, v->n_files + 1, sizeof *v->receipt_files));
    SEFL_TRY(sefl_strdup(&v->receipt_files[v->n_files], path));
    v->n_files++;
    SEFL_TRY(add_receipts(v, path, buf_span(&b), key));
done:
    buf_clear(&b);
    return st;
}

/* ---- a client's ledger ----------------------------------------------------------------------- */

/* The rounds that a client has uploaded to, before its ledger is read: it charges first. */
typedef struct uploaded {
    verify_receipt *at;
    size_t n, room;
} uploaded;

static sefl_status add_mark(void *ctx, const char *mark, const uint8_t of[TASK_ID], uint64_t round)
{
    uploaded *u = ctx;
    (void)mark;
    SEFL_PASS(sefl_room(&u->at, &u->room, u->n + 1, sizeof *u->at));
    u->at[u->n] = (verify_receipt){ .round = round };
    memcpy(u->at[u->n++].task, of, TASK_ID);
    return SEFL_OK;
}

static sefl_status need_charges(verify *v, const verify_client_files *f, const uploaded *u)
{
    ledger *book = NULL;
    size_t missing = 0;
    sefl_status st = ledger_open_read(&book, f->ledger);
    if (st == SEFL_ENOTFOUND) {
        if (u->n > 0)
            verify_say(v, VERIFY_WRONG, f->ledger,
                       "it is missing, and %s shows that the client uploaded to round %" PRIu64,
                       f->state, u->at[0].round);
        return SEFL_OK;
    }
    if (st != SEFL_OK) {
        verify_failed(v, f->ledger);
        return st == SEFL_ENOMEM ? st : SEFL_OK;
    }
    for (size_t i = 0; i < u->n; i++) {
        const verify_receipt *r = &u->at[i];
        if (ledger_has(book, r->task, r->round))
            continue;
        missing++;
        if (r->number > 0)
            verify_say(v, VERIFY_WRONG, f->ledger,
                       "round %" PRIu64 " is not charged, and receipt %" PRIu64
                       " in %s is of it: an old copy",
                       r->round, r->number, f->state);
        else
            verify_say(v, VERIFY_WRONG, f->ledger,
                       "round %" PRIu64 " is not charged, and a mark in %s is of it: an old copy",
                       r->round, f->state);
    }
    ledger_close(book);
    if (missing == 0 && u->n > 0)
        verify_say(v, VERIFY_OK, f->ledger, "every round that the client uploaded to is charged");
    return SEFL_OK;
}

sefl_status verify_client(verify *v, const verify_client_files *f)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    uploaded u = { 0 };
    const size_t first = v->n_receipts;
    v->told = 0;
    SEFL_TRY(file_path(path, "%s/receipts", f->state));
    SEFL_TRY(read_receipts(v, path, f->pub));
    SEFL_TRY(sefl_room(&u.at, &u.room, v->n_receipts - first + 1, sizeof *u.at));
    for (size_t i = first; i < v->n_receipts; i++)
        u.at[u.n++] = v->receipts[i];
    if (f->ledger && file_exists(f->state)) {
        SEFL_TRY(charges_of_marks(f->state, &u, add_mark));
        SEFL_TRY(need_charges(v, f, &u));
    }
    if (v->n_receipts > 0)
        qsort(v->receipts, v->n_receipts, sizeof *v->receipts, receipt_order);
done:
    sefl_free(u.at);
    return st;
}

/* With AS's log: every receipt of a task that AS serves must be in it, unless the log does not show
 * yet that the receipt's round closed: AS writes the uploads of a round at the latest when it
 * closes the round, so the log of a running AS may be older than a receipt. */
static void find_receipts(verify *v)
{
    const verify_log *l = &v->logs[VERIFY_AGGREGATOR];
    size_t found = 0, missing = 0;
    v->told = 0;
    if (v->n_receipts > 0)
        verify_say(v, VERIFY_OK, "receipts", "the aggregator signed %zu receipts of %zu clients",
                   v->n_receipts, v->n_files);
    if (!l->there || l->broken || v->n_receipts == 0)
        return;
    for (size_t i = 0; i < v->n_receipts; i++) {
        const verify_receipt *r = &v->receipts[i];
        found += r->found;
        if (r->found || !verify_serves(v, l, r->task))
            continue;
        const uint64_t last = verify_last_round(l, r->task);
        const verify_round *at = verify_find_round(l, r->task, r->round, NULL);
        if (r->round == last + 1 || (r->round > last && verify_grew(l)) ||
            (r->round == last && at && at->closed == 0 && at->ended == 0)) {
            verify_say(v, VERIFY_NOTE, v->receipt_files[r->file],
                       "receipt %" PRIu64 ": %s does not show the close of round %" PRIu64 " yet",
                       r->number, l->path, r->round);
            continue;
        }
        missing++;
        verify_say(v, VERIFY_WRONG, v->receipt_files[r->file],
                   "receipt %" PRIu64 ": %s has no such upload in round %" PRIu64, r->number,
                   l->path, r->round);
    }
    if (missing == 0)
        verify_say(v, VERIFY_OK, "receipts", "the aggregator's log has %zu of these uploads",
                   found);
}

/* ---- a server -------------------------------------------------------------------------------- */

/* A server that has signed its log or charged a round must have one. */
static void no_log(verify *v, const verify_log *l, const char *ledger_path)
{
    ledger *b = NULL;
    uint64_t rounds = 0;
    bool ran = file_exists(l->head);
    if (!ran && ledger_path && ledger_open_read(&b, ledger_path) == SEFL_OK)
        ran = ledger_task(b, 0, &rounds) != NULL;
    ledger_close(b);
    verify_say(v, ran ? VERIFY_WRONG : VERIFY_NOTE, l->path,
               ran ? "the log is not there" : "not there: this server has served no task yet");
}

sefl_status verify_server(verify *v, const verify_files *f)
{
    verify_log *l = &v->logs[f->role];
    char audits[PATH_MAX];
    const size_t first = v->n_tasks;
    v->told = 0;
    SEFL_NEED(l->n_processes == 0 || f->role == VERIFY_CSP, SEFL_EINVAL,
              "two folders of aggregators: pass one (the logs of several are not joined)");
    SEFL_NEED(l->n_processes < VERIFY_PROCESSES, SEFL_EINVAL,
              "too many folders of CSP's processes");
    SEFL_PASS(add_task_of(v, f));
    SEFL_PASS(file_path(l->path, "%s/" AUDIT_LOG_NAME, f->state));
    SEFL_PASS(file_path(l->head, "%s/" AUDIT_HEAD_NAME, f->state));
    if (!file_exists(l->path)) {
        no_log(v, l, f->ledger);
        return SEFL_OK;
    }
    SEFL_PASS(sefl_strdup(&l->current[l->n_processes++], l->path));
    SEFL_PASS(verify_read_log(v, l));
    if (f->ledger)
        SEFL_PASS(sefl_strdup(&l->ledgers[l->n_ledgers++], f->ledger));
    if (f->role == VERIFY_AGGREGATOR)
        SEFL_PASS(verify_ledger(v, l));
    SEFL_PASS(file_path(audits, "%s/audits", f->state));
    if (f->role == VERIFY_AGGREGATOR)
        SEFL_PASS(verify_audits(v, l, audits));
    for (size_t i = first; i < v->n_tasks; i++)
        if (v->tasks[i].role == f->role && v->tasks[i].models[0])
            SEFL_PASS(verify_models(v, l, &v->tasks[i]));
    return SEFL_OK;
}

/* CSP's charge and its reveal may be in the logs of two processes. */
static void check_charges(verify *v, const verify_log *l)
{
    v->told = 0;
    for (size_t i = 0; i < l->n && !l->broken; i++) {
        const verify_round *r = &l->rounds[i];
        if (r->revealed > 0 && r->charged == 0)
            verify_say(v, VERIFY_WRONG, verify_file_of(l, r->revealed),
                       "line %" PRIu64 " (revealed): round %" PRIu64
                       " was revealed and not charged",
                       verify_line_of(r->revealed), r->round);
    }
}

sefl_status verify_finish(verify *v)
{
    const verify_log *csp = &v->logs[VERIFY_CSP];
    if (csp->there) {
        check_charges(v, csp);
        SEFL_PASS(verify_ledger(v, csp));
    }
    verify_both(v);
    find_receipts(v);
    verify_kept_models(v);
    return SEFL_OK;
}
