/* Reads a server's log and checks what its entries say (verify.h). The chain is checked by
 * audit_read.h; a broken chain ends the reading, because nothing after it proves anything. */
#include "base/alloc.h"
#include "base/file.h"
#include "crypto/sign.h"
#include "protocol/counted.h"
#include "protocol/link.h"
#include "roles/audit/audit_log.h"
#include "roles/audit/verify_inside.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One entry, its log, and the round that it is about (NULL: none). */
typedef struct reading {
    verify *v;
    verify_log *l;
    const audit_entry *e;
    verify_round *r;
} reading;

/* ---- findings -------------------------------------------------------------------------------- */

/* An entry that is wrong: names the line. */
static void SEFL_PRINTF(2, 3) wrong(const reading *x, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    verify_say(x->v, VERIFY_WRONG, x->l->path, "line %" PRIu64 " (%s): %s", x->l->line, x->e->kind,
               text);
}

/* The present line, for a member of verify_round. */
static uint64_t here(const reading *x)
{
    return x->l->line | (uint64_t)(x->l->n_files - 1) << VERIFY_FILE_SHIFT;
}

/* The entry is of the present process. */
static bool same_process(const reading *x, uint64_t before)
{
    return before == 0 || before >> VERIFY_FILE_SHIFT >= x->l->first_file;
}

static void contradicts(const reading *x, uint64_t before)
{
    const char *file = verify_file_of(x->l, before);
    const bool other = strcmp(file, x->l->path) != 0;
    wrong(x, "it contradicts line %" PRIu64 "%s%s about round %" PRIu64, verify_line_of(before),
          other ? " of " : "", other ? file : "", x->r->round);
}

/* A second entry about the same step must say the same. There is one after a restart, from another
 * process, and after a write that failed or whose answer was lost: a server logs it first. */
static bool must_repeat(const reading *x, uint64_t before, bool same)
{
    if (before > 0 && !same)
        contradicts(x, before);
    return before == 0 || same;
}

static bool same_hash(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES])
{
    return memcmp(a, b, SHA256_BYTES) == 0;
}

static bool is_word(sefl_span text, const char *word)
{
    return text.n == strlen(word) && memcmp(text.p, word, text.n) == 0;
}

/* ---- signed bytes in an entry ---------------------------------------------------------------- */

/* Reads an envelope; bytes owns what it points into. */
static bool get_envelope(const reading *x, const char *key, sefl_buf *bytes, envelope *env)
{
    if (audit_bytes(x->e, key, bytes) == SEFL_OK && envelope_read(env, buf_span(bytes)) == SEFL_OK)
        return true;
    wrong(x, "%s", sefl_last_error());
    return false;
}

/* ---- the kinds ------------------------------------------------------------------------------- */

/* Signatures are checked with v->keys: those of --task, of the log's first task that is known, or
 * else of any task in the folder. So an entry that names an unknown task switches off no check. */
static void need_keys(const reading *x)
{
    verify *v = x->v;
    if (v->has_keys)
        return;
    if (x->l->task)
        verify_keys(v, &x->l->task->t);
    else if (v->n_tasks > 0)
        verify_keys(v, &v->tasks[0].t);
    else
        wrong(x, "no task is known, so nobody's signature can be checked: pass --task");
}

/* The log names the task: its rounds and charges must be in it. */
static void serve(const reading *x, const uint8_t id[TASK_ID])
{
    verify_log *l = x->l;
    for (size_t i = 0; i < l->n_served; i++)
        if (memcmp(l->served[i].id, id, TASK_ID) == 0)
            return;
    if (sefl_room(&l->served, &l->room_served, l->n_served + 1, sizeof *l->served) != SEFL_OK) {
        verify_failed(x->v, l->path);
        return;
    }
    memcpy(l->served[l->n_served++].id, id, TASK_ID);
}

static void on_started(const reading *x)
{
    verify_log *l = x->l;
    uint8_t id[TASK_ID];
    if (!audit_hash(x->e, "task", id)) {
        wrong(x, "it names no task");
        return;
    }
    l->restarted = true;
    l->owed = l->line, l->owed_round = 0;
    serve(x, id);
    if (l->has_id && memcmp(id, l->id, sizeof id) == 0)
        return;
    memcpy(l->id, id, sizeof id);
    l->has_id = true;
    l->has_latest = false;
    l->latest_round = 0;
    l->set_n = 0, l->set_round = 0;
    l->task = verify_find_task(x->v, id, l->role);
    need_keys(x);
    if (!l->task) {
        verify_say(x->v, VERIFY_NOTE, l->path,
                   "line %" PRIu64 ": the task that begins here is not in this folder, so its "
                   "models are not checked (--task)",
                   l->line);
        return;
    }
    if (memcmp(&x->v->keys, &l->task->t.servers, sizeof x->v->keys) != 0)
        wrong(x, "its task names other servers' keys than the task before it, or than --task");
    l->has_latest = true;
    memcpy(l->latest, l->task->t.init_hash, sizeof l->latest);
    for (size_t i = 0; i < l->n; i++) /* the servers return to an earlier task */
        if (memcmp(l->rounds[i].task, id, sizeof id) == 0 && l->rounds[i].released > 0) {
            memcpy(l->latest, l->rounds[i].made, sizeof l->latest);
            l->latest_round = l->rounds[i].round;
        }
}

/* The server found neither the log nor audit.head when it started. */
static void on_lost(const reading *x)
{
    uint64_t n = 0;
    (void)audit_number(x->e, "checkpoint", &n);
    wrong(x, "the log before it is lost, up to checkpoint %" PRIu64, n);
}

/* The server signs its log after each start and each round, before the next round's entries. */
static void need_checkpoint(const reading *x)
{
    verify_log *l = x->l;
    if (l->owed == 0 || (l->owed_round > 0 && l->owed_round == x->r->round) ||
        strcmp(x->e->kind, "resumed") == 0)
        return;
    wrong(x, "the checkpoint is missing that follows line %" PRIu64, l->owed);
    l->owed = 0;
}

static void end_round(const reading *x)
{
    x->r->ended = here(x);
    x->l->owed = x->l->line;
    x->l->owed_round = x->r->round;
}

static void on_opened(const reading *x)
{
    sefl_buf b = { 0 };
    envelope env = { 0 };
    round_header h;
    uint8_t hash[SHA256_BYTES];
    bool as = x->l->role == VERIFY_AGGREGATOR;
    if (as ? !get_envelope(x, "header", &b, &env) : audit_bytes(x->e, "header", &b) != SEFL_OK)
        goto done;
    sefl_span content = as ? env.content : buf_span(&b); /* CSP's signature is in AS's log */
    if (round_header_read(&h, content) != SEFL_OK)
        wrong(x, "%s", sefl_last_error());
    else if (as && envelope_check(&env, SIGN_HEADER, &x->v->keys) != SEFL_OK)
        wrong(x, "%s", sefl_last_error());
    else if (h.round != x->r->round || memcmp(h.task, x->l->id, TASK_ID) != 0)
        wrong(x, "the header is of another round or task");
    else if (as && x->l->has_latest && !same_hash(h.model, x->l->latest))
        wrong(x, "the round begins with another model than round %" PRIu64 " released",
              x->l->latest_round);
    sha256_of(hash, content);
    /* a header that CSP did not sign before it stopped may be replaced */
    if (as || (!x->l->restarted && same_process(x, x->r->opened)))
        (void)must_repeat(x, x->r->opened, same_hash(hash, x->r->header));
    memcpy(x->r->header, hash, sizeof hash);
    memcpy(x->r->model, h.model, sizeof h.model);
    x->r->opened = here(x);
done:
    buf_clear(&b);
}

static void on_upload(const reading *x)
{
    verify_log *l = x->l;
    round_entry who;
    if (!audit_hash(x->e, "client", who.client) || !audit_hash(x->e, "body", who.body)) {
        wrong(x, "it names no client or no body");
        return;
    }
    if (l->set_round != x->r->round)
        l->set_n = 0, l->set_round = x->r->round;
    if (x->r->opened == 0 || (x->r->closed > 0 && !l->restarted))
        wrong(x, "round %" PRIu64 " is not open", x->r->round);
    if (sefl_room(&l->set, &l->set_room, l->set_n + 1, sizeof *l->set) != SEFL_OK) {
        verify_failed(x->v, l->path);
        return;
    }
    l->set[l->set_n++] = who;
    verify_receipt *r = verify_find_receipt(x->v, l->id, x->r->round, &who);
    if (r)
        r->found = true;
}

/* Removes the uploads that a restart repeated. */
static void unite_set(const reading *x)
{
    verify_log *l = x->l;
    size_t n = 0;
    if (l->set_n > 0)
        qsort(l->set, l->set_n, sizeof *l->set, round_entry_order);
    for (size_t i = 0; i < l->set_n; i++) {
        if (n > 0 && memcmp(l->set[n - 1].client, l->set[i].client, 32) == 0) {
            if (memcmp(l->set[n - 1].body, l->set[i].body, 32) != 0)
                wrong(x, "round %" PRIu64 " has two different uploads of one client", x->r->round);
            continue;
        }
        l->set[n++] = l->set[i];
    }
    l->set_n = n;
}

static void on_closed(const reading *x)
{
    verify_log *l = x->l;
    uint64_t clients = 0;
    uint8_t set[SHA256_BYTES], is[SHA256_BYTES];
    if (!audit_number(x->e, "clients", &clients) || !audit_hash(x->e, "set", set)) {
        wrong(x, "it lacks the number of clients or the hash of the set");
        return;
    }
    if (l->set_round != x->r->round)
        l->set_n = 0, l->set_round = x->r->round;
    unite_set(x);
    if (l->set_n != clients)
        wrong(x, "round %" PRIu64 " closed with %" PRIu64 " uploads, and the log has %zu",
              x->r->round, clients, l->set_n);
    else if (round_set_hash(is, l->id, x->r->round, l->set, (uint32_t)l->set_n) != SEFL_OK ||
             !same_hash(is, set))
        wrong(x, "its set is not that of the uploads of round %" PRIu64, x->r->round);
    if (x->r->closed == 0)
        l->uploads += l->set_n;
    if (must_repeat(x, x->r->closed, same_hash(set, x->r->set)))
        x->r->closed = here(x);
    memcpy(x->r->set, set, sizeof set);
}

static void on_verdict(const reading *x)
{
    uint8_t root[SHA256_BYTES];
    if (!audit_hash(x->e, "root", root)) {
        wrong(x, "it lacks the root of the counted clients");
        return;
    }
    (void)must_repeat(x, x->r->has_root ? x->r->opened : 0, same_hash(root, x->r->root));
    memcpy(x->r->root, root, sizeof root);
    x->r->has_root = true;
}

static void on_charged(const reading *x)
{
    ledger_head h;
    if (!audit_number(x->e, "records", &h.records) || !audit_hash(x->e, "ledger", h.hash)) {
        wrong(x, "it lacks the ledger's head");
        return;
    }
    /* a repeated attempt charges nothing */
    if (x->r->charged > 0 && !ledger_head_equal(&h, &x->r->ledger))
        contradicts(x, x->r->charged);
    if (x->r->charged == 0)
        x->r->charged = here(x);
    x->r->ledger = h;
}

/* CSP's statement about the counted clients, in AS's log. */
static void on_counted(const reading *x)
{
    sefl_buf b = { 0 };
    envelope env;
    counted_statement s;
    if (!get_envelope(x, "statement", &b, &env))
        goto done;
    if (counted_statement_read(&s, env.content) != SEFL_OK ||
        envelope_check_one(&env, SIGN_COUNTED, SIGNER_CSP, x->v->keys.csp) != SEFL_OK)
        wrong(x, "%s", sefl_last_error());
    else if (s.round != x->r->round || memcmp(s.task, x->l->id, TASK_ID) != 0)
        wrong(x, "the statement is about another round or task");
    else if (!x->r->has_root || !same_hash(s.root, x->r->root))
        wrong(x, "CSP signed other counted clients than those of its verdict");
    else
        memcpy(x->r->id, s.id, sizeof s.id);
done:
    buf_clear(&b);
}

/* A round has one reveal: an entry may repeat, after a failure or a restart, but it has the attempt
 * and the digest of the same output. */
static bool same_reveal(const reading *x, uint64_t before, uint64_t attempt,
                        const uint8_t digest[SHA256_BYTES])
{
    const bool same = attempt == x->r->attempt && same_hash(digest, x->r->digest);
    x->r->attempt = attempt;
    memcpy(x->r->digest, digest, SHA256_BYTES);
    return must_repeat(x, before, same);
}

/* AS: the reply of CSP that it used. */
static void on_replied(const reading *x)
{
    uint64_t attempt;
    uint8_t digest[SHA256_BYTES];
    if (!audit_number(x->e, "attempt", &attempt) || !audit_hash(x->e, "digest", digest)) {
        wrong(x, "it lacks the attempt or the digest of the reply");
        return;
    }
    (void)same_reveal(x, x->r->replied, attempt, digest);
    x->r->replied = here(x);
}

static void on_revealed(const reading *x)
{
    sefl_buf b = { 0 };
    envelope env;
    round_statement s;
    uint8_t digest[SHA256_BYTES];
    if (x->l->role == VERIFY_AGGREGATOR) {
        if (x->r->charged == 0) /* CSP: verify_finish */
            wrong(x, "round %" PRIu64 " was revealed and not charged", x->r->round);
        if (x->r->replied == 0)
            wrong(x, "no entry says which reply of CSP to round %" PRIu64 " was used", x->r->round);
        x->r->revealed = here(x);
        return;
    }
    if (!get_envelope(x, "statement", &b, &env))
        goto done;
    if (round_statement_read(&s, env.content) != SEFL_OK ||
        envelope_check_one(&env, SIGN_STATEMENT, SIGNER_AS, x->v->keys.as) != SEFL_OK)
        wrong(x, "%s", sefl_last_error());
    else if (s.round != x->r->round || memcmp(s.task, x->l->id, TASK_ID) != 0)
        wrong(x, "the statement is about another round or task");
    else if (x->r->has_root && !same_hash(s.set, x->r->root))
        wrong(x, "AS's statement is about other clients than those of the verdict");
    else if (!audit_hash(x->e, "digest", digest))
        wrong(x, "it lacks the digest of the output");
    else if (same_reveal(x, x->r->revealed, s.attempt, digest))
        link_plain_id(x->r->id, s.attempt, s.set);
    memcpy(x->r->set, s.set, sizeof s.set);
    x->r->revealed = here(x);
    end_round(x);
done:
    buf_clear(&b);
}

static void on_released(const reading *x)
{
    verify_log *l = x->l;
    verify_round *r = x->r;
    uint8_t from[SHA256_BYTES], made[SHA256_BYTES];
    uint64_t from_round = 0;
    if (!audit_hash(x->e, "from_model", from) || !audit_hash(x->e, "model", made) ||
        !audit_number(x->e, "from", &from_round)) {
        wrong(x, "it lacks the hash of a model");
        return;
    }
    if (r->revealed == 0)
        wrong(x, "round %" PRIu64 " was released and not revealed", r->round);
    if (!same_hash(from, r->model))
        wrong(x, "it continues another model than the one that the round began with");
    if (must_repeat(x, r->released, same_hash(made, r->made)))
        r->released = here(x);
    end_round(x);
    memcpy(r->made, made, sizeof made);
    r->from = from_round;
    r->has_integers = audit_hash(x->e, "integers", r->integers);
    r->has_optimiser = audit_hash(x->e, "optimiser", r->optimiser);
    memcpy(l->latest, made, sizeof made);
    l->latest_round = r->round;
}

static void on_ended(const reading *x)
{
    if (x->r->ended == 0 && x->r->closed == 0 && x->l->set_round == x->r->round) {
        unite_set(x);
        x->l->uploads += x->l->set_n;
    }
    end_round(x);
    x->r->skipped = strcmp(x->e->kind, "skipped") == 0;
    if (x->r->skipped && x->l->role == VERIFY_CSP && x->r->revealed > 0)
        contradicts(x, x->r->revealed);
    if (!x->r->skipped && x->r->charged == 0) /* blocked */
        wrong(x, "round %" PRIu64 " was blocked and not charged", x->r->round);
}

/* How CSP found the last round when it started. */
static void on_resumed(const reading *x)
{
    sefl_span state = { 0 };
    (void)audit_text(x->e, "state", &state);
    x->r->ended = here(x);
    x->r->skipped = is_word(state, "skipped");
}

static void on_checkpoint(const reading *x)
{
    sefl_buf sig = { 0 };
    uint8_t bytes[AUDIT_SIGNED_BYTES];
    const pinned *k = &x->v->keys;
    audit_signed_bytes(bytes, x->e->n - 1, x->e->prev);
    x->l->checkpoints++;
    x->l->after = 0;
    if (audit_bytes(x->e, "signature", &sig) != SEFL_OK || sig.n != SIGN_BYTES)
        wrong(x, "it has no signature");
    else if (sign_check(sig.p, x->l->role == VERIFY_AGGREGATOR ? k->as : k->csp, SIGN_AUDIT,
                        span_of(bytes, sizeof bytes)) != SEFL_OK)
        wrong(x, "the server did not sign it: %s", sefl_last_error());
    else
        x->l->owed = 0;
    buf_clear(&sig);
}

static void on_refused(const reading *x)
{
    static const char certificate[] = "certificate.";
    sefl_span by, reason, who; /* without a certificate there is no key: who is empty */
    x->l->refusals++;
    if (!audit_text(x->e, "by", &by) || !audit_text(x->e, "reason", &reason))
        wrong(x, "it does not say who refused, or why");
    else if (reason.n > sizeof certificate - 1 &&
             memcmp(reason.p, certificate, sizeof certificate - 1) == 0 &&
             !audit_text(x->e, "key", &who) && !audit_text(x->e, "client", &who))
        wrong(x, "it names no key");
}

/* AS audited a noise session; verify_audits compares the record. */
static void on_audited(const reading *x)
{
    verify_log *l = x->l;
    verify_audit a = { .line = here(x) };
    sefl_span outcome = { 0 };
    (void)audit_text(x->e, "outcome", &outcome);
    a.is_unanswered = is_word(outcome, "unanswered");
    a.is_honest = is_word(outcome, "honest");
    if (!audit_hash(x->e, "session", a.session) ||
        (!a.is_unanswered && !audit_hash(x->e, "record", a.record)) ||
        (!a.is_unanswered && !a.is_honest && !is_word(outcome, "caught")))
        wrong(x, "it lacks the session, the outcome or the hash of the record");
    else if (sefl_room(&l->audits, &l->room_audits, l->n_audits + 1, sizeof a) != SEFL_OK)
        verify_failed(x->v, l->path);
    else
        l->audits[l->n_audits++] = a;
}

enum { AS = 1, CSP = 2, BOTH = 3 };

/* of_round: the entry is about a round. */
static const struct kind {
    const char *name;
    unsigned roles;
    bool of_round;
    void (*on)(const reading *x);
} kinds[] = {
    { "started", BOTH, false, on_started },  { "round_opened", BOTH, true, on_opened },
    { "upload", AS, true, on_upload },       { "round_closed", AS, true, on_closed },
    { "verdict", BOTH, true, on_verdict },   { "charged", BOTH, true, on_charged },
    { "replied", AS, true, on_replied },     { "counted", AS, true, on_counted },
    { "revealed", BOTH, true, on_revealed }, { "released", AS, true, on_released },
    { "blocked", AS, true, on_ended },       { "skipped", BOTH, true, on_ended },
    { "resumed", CSP, true, on_resumed },    { "checkpoint", BOTH, false, on_checkpoint },
    { "refused", BOTH, false, on_refused },  { "audited", AS, false, on_audited },
    { "log_lost", BOTH, false, on_lost },
};

/* Finds or adds the round of an entry; rounds of a task only grow. */
static sefl_status round_of(const reading *x, verify_round **out)
{
    verify_log *l = x->l;
    uint64_t round = 0;
    size_t at = l->n;
    *out = NULL;
    if (!l->has_id || !audit_number(x->e, "round", &round) || round == 0) {
        wrong(x, "it belongs to no round of a task");
        return SEFL_OK;
    }
    *out = verify_find_round(l, l->id, round, NULL);
    if (*out) {
        (*out)->process = l->n_processes;
        return SEFL_OK;
    }
    SEFL_PASS(sefl_room(&l->rounds, &l->room, l->n + 1, sizeof *l->rounds));
    while (at > 0 && memcmp(l->rounds[at - 1].task, l->id, TASK_ID) == 0 &&
           l->rounds[at - 1].round > round) /* another process had later ones */
        at--;
    memmove(&l->rounds[at + 1], &l->rounds[at], (l->n - at) * sizeof *l->rounds);
    l->n++;
    *out = &l->rounds[at];
    **out = (verify_round){ .round = round, .process = l->n_processes };
    memcpy((*out)->task, l->id, sizeof l->id);
    l->restarted = false;
    return SEFL_OK;
}

static sefl_status on_entry(verify *v, verify_log *l, const audit_entry *e)
{
    reading x = { .v = v, .l = l, .e = e };
    l->after++;
    if (strcmp(e->kind, "started") != 0 && strcmp(e->kind, "resumed") != 0 &&
        strcmp(e->kind, "checkpoint") != 0)
        l->acted = true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, e->kind) != 0)
            continue;
        if (!(kinds[i].roles & (l->role == VERIFY_AGGREGATOR ? AS : CSP))) {
            wrong(&x, "this server writes no such entry");
            return SEFL_OK;
        }
        if (kinds[i].of_round)
            SEFL_PASS(round_of(&x, &x.r));
        if (x.r)
            need_checkpoint(&x);
        if (!kinds[i].of_round || x.r)
            kinds[i].on(&x);
        return SEFL_OK;
    }
    return SEFL_OK; /* "stopped", "enrolled", or a kind of a later version: the chain is right */
}

/* ---- the file -------------------------------------------------------------------------------- */

/* audit.head is a copy of one of the lines. */
static sefl_status read_head(verify *v, const verify_log *l, sefl_buf *bytes, uint64_t *n)
{
    audit_entry e = { 0 };
    *n = 0;
    sefl_status st = file_read_plain(bytes, l->head, AUDIT_LINE_MAX);
    if (st == SEFL_ENOTFOUND) { /* sum_up */
        buf_reset(bytes);
        return SEFL_OK;
    }
    SEFL_PASS(st);
    bool ends = bytes->n > 0 && bytes->p[bytes->n - 1] == '\n';
    bytes->n -= ends;
    if (!ends || audit_entry_read(&e, buf_span(bytes)) != SEFL_OK)
        verify_say(v, VERIFY_WRONG, l->head, "%s",
                   ends ? sefl_last_error() : "it was changed: it is not one line");
    else
        *n = e.n;
    audit_entry_clear(&e);
    return SEFL_OK;
}

static void compare_head(verify *v, const verify_log *l, sefl_span line, const sefl_buf *head)
{
    if (line.n != head->n || memcmp(line.p, head->p, head->n) != 0)
        verify_say(v, VERIFY_WRONG, l->path,
                   "line %" PRIu64 ": it is not the checkpoint that %s contains", l->line, l->head);
}

/* The server writes audit.head when it has started, before the entries of the first round. */
static void sum_up(verify *v, const verify_log *l, uint64_t head_n, size_t rest)
{
    const uint64_t before = l->lines > l->line ? l->lines - l->line : 0; /* in older files */

    if (!file_exists(l->head))
        verify_say(v, l->acted ? VERIFY_WRONG : VERIFY_NOTE, l->head,
                   l->acted ? "it is missing: the log may lack its end"
                            : "not there: the server has not served a round yet");
    if (head_n > l->lines)
        verify_say(v, VERIFY_WRONG, l->path,
                   "line %" PRIu64 " is missing: the log ends with line %" PRIu64
                   ", but %s is line %" PRIu64 " of it",
                   l->line + 1, l->line, l->head, head_n - before);
    if (rest > 0)
        verify_say(v, VERIFY_NOTE, l->path,
                   "line %" PRIu64 " is incomplete (%zu bytes): the server is writing it, or died",
                   l->line + 1, rest);
    if (l->after > 0)
        verify_say(v, VERIFY_NOTE, l->path,
                   "the last %" PRIu64 " entries follow the last checkpoint: nothing would show if "
                   "they were cut off",
                   l->after);
}

/* The rounds about which the present file has an entry. */
static size_t rounds_in_file(const verify_log *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += l->rounds[i].process == l->n_processes;
    return n;
}

/* Forgets what is about another file. */
static void begin_file(verify_log *l)
{
    l->first_file = l->n_files;
    l->task = NULL;
    l->has_id = l->restarted = l->acted = l->has_latest = false;
    l->line = l->owed = l->owed_round = l->latest_round = l->set_round = 0;
    l->lines = l->checkpoints = l->uploads = l->refusals = l->after = 0;
}

/* Lines are now of this file, which findings name. */
static sefl_status enter_file(verify_log *l, const char *path)
{
    if (l->n_files > l->first_file && strcmp(l->files[l->n_files - 1], path) == 0)
        return SEFL_OK;
    SEFL_PASS(sefl_room(&l->files, &l->room_files, l->n_files + 1, sizeof *l->files));
    SEFL_PASS(sefl_strdup(&l->files[l->n_files], path));
    l->n_files++;
    return file_path(l->path, "%s", path);
}

sefl_status verify_read_log(verify *v, verify_log *l)
{
    sefl_status st = SEFL_OK;
    audit_reader *r = NULL;
    audit_entry e = { 0 };
    sefl_buf head = { 0 };
    uint64_t head_n = 0;
    bool more = true;
    const size_t before = v->wrong;
    begin_file(l);
    SEFL_TRY(read_head(v, l, &head, &head_n)); /* first: the log only grows */
    SEFL_TRY(audit_reader_open(&r, l->path));
    l->there = true;
    while (more) {
        if (audit_reader_next(r, &e, &more) != SEFL_OK) {
            verify_failed(v, audit_reader_path(r));
            l->broken = true;
            break;
        }
        if (!more)
            break;
        l->line = audit_reader_line_number(r);
        SEFL_TRY(enter_file(l, audit_reader_path(r)));
        SEFL_TRY(on_entry(v, l, &e));
        if (e.n == head_n)
            compare_head(v, l, audit_reader_line(r), &head);
        if (e.n % 4096 == 0)
            SEFL_CHECK(progress_report(v->c.progress, audit_reader_at(r), audit_reader_size(r)),
                       SEFL_ECANCELLED, "stopped");
    }
    l->lines = audit_reader_lines(r);
    SEFL_TRY(file_path(l->path, "%s", audit_reader_path(r)));
    l->line = audit_reader_line_number(r);
    l->sizes[l->n_processes - 1] = audit_reader_size(r);
    if (!l->broken)
        sum_up(v, l, head_n, audit_reader_rest(r));
    if (v->wrong == before)
        verify_say(v, VERIFY_OK, l->path,
                   "%" PRIu64 " entries, %zu rounds, %" PRIu64 " uploads, %" PRIu64
                   " refusals, %" PRIu64 " signed checkpoints",
                   l->lines, rounds_in_file(l), l->uploads, l->refusals, l->checkpoints);
done:
    audit_reader_close(r);
    audit_entry_clear(&e);
    buf_clear(&head);
    sefl_free(l->set), l->set = NULL;
    l->set_n = l->set_room = 0;
    return st;
}
