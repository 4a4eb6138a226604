/* Compares the records of a server with each other, and those of the two servers (verify.h). */
#include "roles/audit/verify_inside.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the ledger ------------------------------------------------------------------------------ */

bool verify_has_task(const verify_log *l, const uint8_t id[TASK_ID])
{
    for (size_t i = 0; i < l->n; i++)
        if (memcmp(l->rounds[i].task, id, TASK_ID) == 0)
            return true;
    return false;
}

uint64_t verify_last_round(const verify_log *l, const uint8_t id[TASK_ID])
{
    uint64_t last = 0;
    for (size_t i = 0; i < l->n; i++)
        if (memcmp(l->rounds[i].task, id, TASK_ID) == 0)
            last = l->rounds[i].round;
    return last;
}

bool verify_serves(const verify *v, const verify_log *l, const uint8_t id[TASK_ID])
{
    for (size_t i = 0; i < l->n_served; i++)
        if (memcmp(l->served[i].id, id, TASK_ID) == 0)
            return true;
    return verify_find_task(v, id, l->role) != NULL;
}

bool verify_grew(const verify_log *l)
{
    struct stat sb;
    for (size_t i = 0; i < l->n_processes; i++) /* smaller: a new file has begun */
        if (stat(l->current[i], &sb) == 0 && (uint64_t)sb.st_size != l->sizes[i])
            return true;
    return false;
}

bool verify_is_newer(const verify_log *l, const uint8_t id[TASK_ID], uint64_t round)
{
    bool open = false;
    if (l->n > 0) {
        const verify_round *latest = &l->rounds[l->n - 1];
        open =
            latest->ended == 0 && latest->round == round && memcmp(latest->task, id, TASK_ID) == 0;
    }
    return (open || round > verify_last_round(l, id)) && verify_grew(l);
}

/* Each charge in the log must be a record of the ledger. */
static void charges_of_log(verify *v, const verify_log *l, const ledger *b, const char *path)
{
    for (size_t i = 0; i < l->n; i++) {
        const verify_round *r = &l->rounds[i];
        if (r->charged == 0)
            continue;
        ledger_order o = ledger_compare(b, &r->ledger);
        if (!ledger_has(b, r->task, r->round))
            verify_say(v, VERIFY_WRONG, path,
                       "record %" PRIu64 " is missing: %s line %" PRIu64 " charged round %" PRIu64,
                       r->ledger.records - 1, verify_file_of(l, r->charged),
                       verify_line_of(r->charged), r->round);
        else if (o != LEDGER_SAME && o != LEDGER_PEER_BEHIND)
            verify_say(v, VERIFY_WRONG, path,
                       "record %" PRIu64 " is not the charge of round %" PRIu64
                       " that %s has in line %" PRIu64,
                       r->ledger.records - 1, r->round, verify_file_of(l, r->charged),
                       verify_line_of(r->charged));
    }
}

/* Each charge of a task that the server serves must be in the log, except one whose entry the
 * server could not write any more. */
static void charges_of_ledger(verify *v, const verify_log *l, const ledger *b, const char *path)
{
    uint64_t rounds = 0, last = 0;
    const ledger_terms *t;
    for (size_t i = 0; (t = ledger_task(b, i, &rounds)) != NULL; i++) {
        if (!verify_serves(v, l, t->task)) {
            if (rounds > 0)
                verify_say(v, VERIFY_NOTE, path,
                           "%" PRIu64 " rounds are charged of a task that neither the log nor "
                           "this folder names: not compared",
                           rounds);
            continue;
        }
        last = verify_last_round(l, t->task);
        for (uint64_t round = 1, found = 0; found < rounds && round < UINT32_MAX; round++) {
            if (!ledger_has(b, t->task, round))
                continue;
            found++;
            const verify_round *r = verify_find_round(l, t->task, round, NULL);
            if (r && r->charged > 0)
                continue;
            const bool open =
                (r && round == last && r->ended == 0) || (round > last && verify_grew(l));
            verify_say(v, open ? VERIFY_NOTE : VERIFY_WRONG, path,
                       open ? "round %" PRIu64 " is charged; the entry in the log follows"
                            : "round %" PRIu64 " is charged, and the log has no entry about it",
                       round);
        }
    }
}

/* Opens the longest ledger of a server's processes; its number is *at. The others must be
 * beginnings of it: a process keeps its copy up to date while it is active. */
static ledger *longest(verify *v, const verify_log *l, size_t *at)
{
    ledger *all[VERIFY_PROCESSES] = { 0 }, *best;
    ledger_head h, most = { 0 };
    *at = 0;
    for (size_t i = 0; i < l->n_ledgers; i++) {
        if (ledger_open_read(&all[i], l->ledgers[i]) != SEFL_OK) {
            verify_failed(v, l->ledgers[i]);
            all[i] = NULL;
            continue;
        }
        ledger_get_head(all[i], &h);
        if (!all[*at] || h.records > most.records)
            *at = i, most = h;
    }
    best = all[*at];
    for (size_t i = 0; i < l->n_ledgers; i++) {
        if (i == *at || !all[i])
            continue;
        ledger_get_head(all[i], &h);
        const ledger_order o = ledger_compare(best, &h);
        const bool is = o == LEDGER_SAME || o == LEDGER_PEER_BEHIND;
        verify_say(v, is ? VERIFY_OK : VERIFY_WRONG, l->ledgers[i],
                   is ? "%" PRIu64 " records, the beginning of %s"
                      : "its %" PRIu64 " records are not the beginning of %s",
                   h.records, l->ledgers[*at]);
        ledger_close(all[i]);
    }
    return best;
}

sefl_status verify_ledger(verify *v, const verify_log *l)
{
    ledger_head h;
    uint64_t rounds = 0, sum = 0;
    const size_t before = v->wrong;
    size_t at;
    v->told = 0;
    ledger *b = longest(v, l, &at);
    const char *path = l->ledgers[at];
    if (!b)
        return SEFL_OK;
    if (!l->broken) {
        charges_of_log(v, l, b, path);
        charges_of_ledger(v, l, b, path);
    }
    ledger_get_head(b, &h);
    for (size_t i = 0; ledger_task(b, i, &rounds) != NULL; i++)
        sum += rounds;
    if (v->wrong == before)
        verify_say(v, VERIFY_OK, path, "%" PRIu64 " records, %" PRIu64 " rounds charged%s",
                   h.records, sum, l->broken ? "; not compared with the log" : ", as in the log");
    ledger_close(b);
    return SEFL_OK;
}

/* ---- both servers ---------------------------------------------------------------------------- */

static void contradict(verify *v, const verify_log *as, uint64_t line, const verify_log *csp,
                       uint64_t other, const char *what, uint64_t round)
{
    verify_say(v, VERIFY_WRONG, verify_file_of(as, line),
               "line %" PRIu64 " contradicts %s line %" PRIu64 ": %s of round %" PRIu64,
               verify_line_of(line), verify_file_of(csp, other), verify_line_of(other), what,
               round);
}

static void compare_round(verify *v, const verify_log *as, const verify_round *a,
                          const verify_log *csp, const verify_round *c)
{
    static const uint8_t none[SHA256_BYTES];
    if (a->opened && c->opened && memcmp(a->header, c->header, sizeof a->header) != 0)
        contradict(v, as, a->opened, csp, c->opened, "the header", a->round);
    if (a->charged && c->charged && !ledger_head_equal(&a->ledger, &c->ledger))
        contradict(v, as, a->charged, csp, c->charged, "the ledger after the charge", a->round);
    if (a->has_root && c->has_root && memcmp(a->root, c->root, sizeof a->root) != 0)
        contradict(v, as, a->closed, csp, c->opened, "the counted clients", a->round);
    if (a->closed && c->revealed && !a->has_root && memcmp(a->set, c->set, sizeof a->set) != 0 &&
        (a->replied || !verify_is_newer(as, a->task, a->round))) /* AS's log ends at the close */
        contradict(v, as, a->closed, csp, c->revealed, "the set", a->round);
    if (c->revealed && memcmp(a->id, none, sizeof none) != 0 &&
        memcmp(a->id, c->id, sizeof a->id) != 0)
        contradict(v, as, a->revealed, csp, c->revealed, "the reveal", a->round);
    if (a->replied && !c->revealed && c->ended && c->skipped)
        contradict(v, as, a->replied, csp, c->ended, "the output, which CSP skipped,", a->round);
    if (c->revealed && a->replied &&
        (a->attempt != c->attempt || memcmp(a->digest, c->digest, sizeof a->digest) != 0))
        contradict(v, as, a->replied, csp, c->revealed, "the output of the reveal", a->round);
}

/* The rounds of one log that the other lacks; the last one may be under way. */
static void find_missing(verify *v, const verify_log *of, const verify_log *in)
{
    size_t hint = 0;
    for (size_t i = 0; i < of->n; i++) {
        const verify_round *r = &of->rounds[i];
        const uint64_t line = r->revealed ? r->revealed : r->opened;
        const verify_round *other = verify_find_round(in, r->task, r->round, &hint);
        if (r->revealed == 0 || (other && (other->revealed > 0 || other->ended > 0)))
            continue;
        if (i + 1 == of->n || verify_is_newer(in, r->task, r->round))
            verify_say(v, VERIFY_NOTE, in->path,
                       "round %" PRIu64 " is not revealed yet; it is in the other server's log",
                       r->round);
        else
            verify_say(v, VERIFY_WRONG, in->path,
                       "round %" PRIu64 " is missing: %s line %" PRIu64 " revealed it", r->round,
                       verify_file_of(of, line), verify_line_of(line));
    }
}

void verify_both(verify *v)
{
    const verify_log *as = &v->logs[VERIFY_AGGREGATOR], *csp = &v->logs[VERIFY_CSP];
    const size_t before = v->wrong;
    size_t hint = 0, both = 0;
    v->told = 0;
    if (!as->there || !csp->there || as->broken || csp->broken)
        return;
    for (size_t i = 0; i < as->n; i++) {
        const verify_round *c =
            verify_find_round(csp, as->rounds[i].task, as->rounds[i].round, &hint);
        if (!c)
            continue;
        both++;
        compare_round(v, as, &as->rounds[i], csp, c);
    }
    find_missing(v, as, csp);
    find_missing(v, csp, as);
    if (v->wrong == before)
        verify_say(v, VERIFY_OK, "both servers", "their logs agree on %zu rounds", both);
}
