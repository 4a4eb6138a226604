/* audit FOLDER [STORE SHARED]: inspects the files of a provisioned federation after its processes have
 * ended (STORE: the URL of the database that its aggregators share, SHARED: their folder), and checks the guarantees that no crash may break:
 *
 *   sets       for every frozen round, the hash of the acknowledged updates is that of the frozen set,
 *              which AS signed to CSP: every acknowledged update is in the sum, once, and nothing else
 *              (sealed tasks: those that CSP kept are acknowledged updates, with those that it refused they
 *              are all of them, and the root that AS signed to CSP is theirs)
 *   receipts   each receipt that a client holds (checked: AS's signature) is one of those updates
 *   proofs     what a client stored as counted was kept by CSP, and what it stored as missed was not
 *   reveals    CSP revealed a round once, under one attempt id, no id twice; a round with a model is
 *              revealed; a revealed one is charged in both ledgers
 *   models     the model that a header names is the file that the latest release left
 *   ledgers    AS's and CSP's are the same bytes
 *
 * Prints one line: rounds R released A skipped B receipts C blocked D. Exit 1 with the first broken promise. */
#include "base/file.h"
#include "protocol/counted.h"
#include "protocol/round.h"
#include "protocol/task.h"
#include "roles/client/receipts.h"
#include "roles/client/store.h"
#include "store/disk/csp_disk.h"
#include "store/journal/journal.h"
#include "store/ledger.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS_MAX = 1024, ROUNDS_MAX = 4096 };

typedef struct audit {
    const char *folder;
    const char *store, *shared; /* NULL: AS is one process */
    task t;
    pinned servers;
    journal *as, *csp;
    ledger *as_ledger, *csp_ledger;
    round_entry member[MEMBERS_MAX];
    uint32_t members;
    uint8_t latest[SHA256_BYTES]; /* of the model that the next round starts from */
    bool swept;                   /* that model was deleted: its hash is not known here */
    uint8_t id[ROUNDS_MAX][NOISE_ID];
    round_entry kept[MEMBERS_MAX]; /* by CSP, of a sealed round */
    uint32_t kept_n;
    uint64_t rounds, opened, released, skipped, blocked, receipts;
} audit;

static const char *at(const audit *a, const char *name)
{
    static char path[4][PATH_MAX];
    static unsigned next;
    char *p = path[next++ % 4];
    snprintf(p, PATH_MAX, "%s/%s", a->folder, name);
    return p;
}

/* ---- one round ------------------------------------------------------------------------------ */

static sefl_status take_member(void *ctx, const journal_update *u)
{
    audit *a = ctx;
    if (a->members == MEMBERS_MAX)
        return sefl_fail(SEFL_ERANGE, "too many updates");
    memcpy(a->member[a->members].client, u->client, 32);
    memcpy(a->member[a->members++].body, u->body, 32);
    return SEFL_OK;
}

static sefl_status check_set(audit *a, const journal_round *r)
{
    sefl_status st = SEFL_OK;
    uint8_t hash[SHA256_BYTES];
    a->members = 0;
    SEFL_TRY(journal_updates(a->as, r->round, take_member, a));
    if (!r->has_set)
        goto done;
    SEFL_TRY(round_set_hash(hash, a->t.id, r->round, a->member, a->members));
    SEFL_CHECK(memcmp(hash, r->set, sizeof hash) == 0, SEFL_ESTATE,
               "round %" PRIu64 ": the frozen set is not that of the %u acknowledged updates",
               r->round, a->members);
done:
    return st;
}

static sefl_status take_kept(void *ctx, const journal_update *u)
{
    audit *a = ctx;
    if (a->kept_n == MEMBERS_MAX)
        return sefl_fail(SEFL_ERANGE, "too many updates");
    memcpy(a->kept[a->kept_n].client, u->client, 32);
    memcpy(a->kept[a->kept_n++].body, u->body, 32);
    return SEFL_OK;
}

/* The set of a sealed round: CSP's verdict is about the acknowledged updates, and its root is theirs. */
static sefl_status check_verdict(audit *a, const journal_round *r, const round_statement *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf seed = { 0 }, set = { 0 };
    static round_entry leaf[MEMBERS_MAX];
    uint8_t root[SHA256_BYTES];
    a->kept_n = 0;
    SEFL_TRY(journal_updates(a->csp, r->round, take_kept, a));
    SEFL_TRY(journal_fact_get(a->csp, r->round, "set", &set));
    SEFL_CHECK(
        set.n >= 76 && load_u32(set.p + 64) == a->members && load_u32(set.p + 68) == a->kept_n &&
            load_u32(set.p + 72) == a->members - a->kept_n,
        SEFL_ESTATE, "round %" PRIu64 ": CSP decided about another number of updates", r->round);
    for (uint32_t i = 0, k = 0; i < a->kept_n; i++, k++) { /* both sorted by client */
        while (k < a->members && memcmp(a->member[k].client, a->kept[i].client, 32) != 0)
            k++;
        SEFL_CHECK(k < a->members && memcmp(a->member[k].body, a->kept[i].body, 32) == 0,
                   SEFL_ESTATE, "round %" PRIu64 ": CSP kept an update that AS does not have",
                   r->round);
        memcpy(leaf[i].client, a->kept[i].client, 32);
        memcpy(leaf[i].body, a->kept[i].body, 32);
    }
    SEFL_TRY(journal_fact_get(a->as, r->round, "tree", &seed));
    SEFL_CHECK(seed.n == COUNTED_SEED, SEFL_EPROTO, "round %" PRIu64 ": no tree seed", r->round);
    SEFL_TRY(counted_root(root, &(counted_facts){ .task = a->t.id,
                                                  .round = r->round,
                                                  .tree_seed = seed.p,
                                                  .clients_max = a->t.clients_max,
                                                  .leaves = leaf,
                                                  .n = a->kept_n }));
    SEFL_CHECK(memcmp(root, set.p + 32, 32) == 0 && memcmp(root, s->set, 32) == 0, SEFL_ESTATE,
               "round %" PRIu64 ": the root is not that of the updates that were kept", r->round);
done:
    buf_clear(&seed);
    buf_clear(&set);
    return st;
}

/* What CSP knows about a revealed round. */
static sefl_status check_opening(audit *a, const journal_round *r)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    envelope env;
    round_statement s;
    uint8_t id[NOISE_ID];
    SEFL_TRY(journal_fact_get(a->csp, r->round, "reveal", &b)); /* id, digest, statement */
    SEFL_CHECK(b.n > NOISE_ID + SHA256_BYTES, SEFL_EPROTO, "round %" PRIu64 ": no attempt id",
               r->round);
    memcpy(id, b.p, sizeof id);
    SEFL_TRY(
        envelope_read(&env, span_of(b.p + NOISE_ID + SHA256_BYTES, b.n - NOISE_ID - SHA256_BYTES)));
    SEFL_TRY(envelope_check_one(&env, SIGN_STATEMENT, SIGNER_AS, a->servers.as));
    SEFL_TRY(round_statement_read(&s, env.content));
    SEFL_CHECK(memcmp(s.task, a->t.id, 32) == 0 && s.round == r->round, SEFL_ESTATE,
               "round %" PRIu64 ": a statement about something else", r->round);
    if (task_is_sealed(&a->t))
        SEFL_TRY(check_verdict(a, r, &s));
    else
        memcpy(a->kept, a->member, sizeof a->kept), a->kept_n = a->members;
    SEFL_CHECK(r->has_set && s.clients == a->kept_n &&
                   (task_is_sealed(&a->t) || memcmp(s.set, r->set, 32) == 0),
               SEFL_ESTATE, "round %" PRIu64 ": CSP revealed another set than the frozen one",
               r->round);
    SEFL_CHECK(s.clients >= a->t.threshold, SEFL_ESTATE,
               "round %" PRIu64 ": revealed with %u clients, below the threshold", r->round,
               s.clients);
    for (uint64_t i = 0; i < a->opened && a->t.noise == TASK_NOISE_JOINT; i++)
        SEFL_CHECK(memcmp(a->id[i], id, NOISE_ID) != 0, SEFL_ESTATE,
                   "round %" PRIu64 ": an attempt id for the second time", r->round);
    memcpy(a->id[a->opened++], id, NOISE_ID);
    SEFL_CHECK(ledger_has(a->as_ledger, a->t.id, r->round) &&
                   ledger_has(a->csp_ledger, a->t.id, r->round),
               SEFL_ESTATE, "round %" PRIu64 " was revealed and is not charged", r->round);
done:
    buf_clear(&b);
    return st;
}

static sefl_status file_hash(uint8_t out[SHA256_BYTES], const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(file_read(&b, path, 1 << 30));
    sha256_of(out, buf_span(&b));
done:
    buf_clear(&b);
    return st;
}

static sefl_status check_header(audit *a, uint64_t round)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    round_header h;
    SEFL_TRY(journal_fact_get(a->csp, round, "header", &b));
    SEFL_TRY(round_header_read(&h, buf_span(&b)));
    SEFL_CHECK(a->swept || memcmp(h.model, a->latest, sizeof h.model) == 0, SEFL_ESTATE,
               "round %" PRIu64 ": its header names another model than the latest release", round);
done:
    buf_clear(&b);
    return st;
}

static sefl_status check_round(audit *a, uint64_t round)
{
    sefl_status st = SEFL_OK;
    journal_round ours, theirs;
    sefl_buf why = { 0 };
    char name[80];
    SEFL_TRY(journal_round_get(a->as, round, &ours));
    SEFL_TRY(check_set(a, &ours));
    SEFL_TRY(journal_round_get(a->csp, round, &theirs));
    SEFL_TRY(check_header(a, round));
    if (theirs.state == CSP_REVEALED)
        SEFL_TRY(check_opening(a, &ours));
    else
        SEFL_CHECK(theirs.state == CSP_SKIPPED && !ledger_has(a->csp_ledger, a->t.id, round),
                   SEFL_ESTATE, "round %" PRIu64 ": state %u at CSP, or charged and not revealed",
                   round, theirs.state);
    snprintf(name, sizeof name, "aggregator/models/round-%" PRIu64 ".safetensors", round);
    if (file_exists(at(a, name))) {
        SEFL_CHECK(theirs.state == CSP_REVEALED && !ours.skipped, SEFL_ESTATE,
                   "round %" PRIu64 " has a model and was not revealed", round);
        SEFL_TRY(file_hash(a->latest, at(a, name)));
        a->swept = false;
        a->released++;
    } else if (journal_fact_get(a->as, round, "blocked", &why) == SEFL_OK) {
        SEFL_CHECK(theirs.state == CSP_REVEALED && !ours.skipped, SEFL_ESTATE,
                   "round %" PRIu64 " was blocked and not revealed", round);
        a->blocked++;
    } else if (ours.skipped) {
        a->skipped++;
    } else { /* models_keep: deleted, if a later one is there */
        SEFL_CHECK(theirs.state == CSP_REVEALED, SEFL_ESTATE,
                   "round %" PRIu64 " has neither model nor skip", round);
        a->swept = true;
        a->released++;
    }
done:
    buf_clear(&why);
    return st;
}

/* ---- receipts ------------------------------------------------------------------------------- */

static sefl_status check_receipt(audit *a, const char *path, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    envelope env;
    round_receipt r;
    journal_update u;
    SEFL_TRY(envelope_read(&env, bytes));
    SEFL_TRY(envelope_check_one(&env, SIGN_RECEIPT, SIGNER_AS, a->servers.as));
    SEFL_TRY(round_receipt_read(&r, env.content));
    SEFL_CHECK(memcmp(r.task, a->t.id, 32) == 0, SEFL_ESTATE, "%s: of another task", path);
    SEFL_TRY(journal_update_get(a->as, r.round, r.client, &u));
    SEFL_CHECK(memcmp(u.body, r.body, 32) == 0 && u.bytes == r.bytes, SEFL_ESTATE,
               "%s: AS has another body of this client", path);
    a->receipts++;
done:
    return st;
}

/* What the client's store says of its rounds: state/counted, as roles/client/store.h has it. */
static sefl_status check_proofs(audit *a, const char *folder, const char *path)
{
    sefl_status st = SEFL_OK;
    receipts *r = NULL, *counted = NULL;
    sefl_buf b = { 0 };
    envelope env;
    round_receipt rc;
    journal_update u;
    uint8_t of[RECEIPTS_TASK];
    uint64_t round;
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%.4000s/state/counted", folder);
    SEFL_TRY(receipts_open(&r, path));
    SEFL_TRY(receipts_open(&counted, name));
    for (size_t i = 0; i < receipts_count(counted); i++) {
        buf_reset(&b);
        SEFL_TRY(receipts_at(counted, i, of, &round, &b));
        SEFL_CHECK(b.n >= 1, SEFL_EPROTO, "%s: no outcome", name);
        uint8_t what = b.p[0];
        buf_reset(&b);
        SEFL_TRY(receipts_find(r, &b, of, round));
        SEFL_TRY(envelope_read(&env, buf_span(&b)));
        SEFL_TRY(round_receipt_read(&rc, env.content));
        st = journal_update_get(a->csp, round, rc.client, &u);
        bool kept = st == SEFL_OK && memcmp(u.body, rc.body, 32) == 0;
        SEFL_TRY(st == SEFL_ENOTFOUND ? SEFL_OK : st);
        SEFL_CHECK(what == CLIENT_SKIPPED || kept == (what == CLIENT_COUNTED), SEFL_ESTATE,
                   "%s: round %" PRIu64 ": outcome %u, and CSP %s it", name, round, what,
                   kept ? "kept" : "did not keep");
    }
done:
    receipts_close(r);
    receipts_close(counted);
    buf_clear(&b);
    return st;
}

static sefl_status each_in(audit *a, const char *folder,
                           sefl_status (*fn)(audit *, const char *path))
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    DIR *d = opendir(folder);
    for (struct dirent *e; d && st == SEFL_OK && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.' || strstr(e->d_name, ".tmp-"))
            continue;
        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < sizeof path)
            st = fn(a, path);
    }
    if (d)
        closedir(d);
    return st;
}

static sefl_status check_client(audit *a, const char *client)
{
    sefl_status st = SEFL_OK;
    receipts *r = NULL;
    sefl_buf b = { 0 };
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.4000s/state/receipts", client);
    if (!file_exists(path))
        return SEFL_OK; /* the client never ran */
    SEFL_TRY(receipts_open(&r, path));
    for (size_t i = 0; i < receipts_count(r); i++) {
        buf_reset(&b);
        SEFL_TRY(receipts_at(r, i, NULL, NULL, &b));
        SEFL_TRY(check_receipt(a, path, buf_span(&b)));
    }
    receipts_close(r);
    r = NULL;
    if (task_is_sealed(&a->t))
        SEFL_TRY(check_proofs(a, client, path));
done:
    receipts_close(r);
    buf_clear(&b);
    return st;
}

/* ---- all of it -------------------------------------------------------------------------------- */

static sefl_status open_all(audit *a)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(sign_pub_read(a->servers.as, at(a, "public/aggregator.pub")));
    SEFL_TRY(sign_pub_read(a->servers.csp, at(a, "public/csp.pub")));
    SEFL_TRY(file_read(&b, at(a, "public/task.signed"), 1 << 20));
    SEFL_TRY(task_open(&a->t, buf_span(&b), &a->servers));
    if (a->store)
        SEFL_TRY(journal_open_at(
            &a->as,
            &(journal_place){ .folder = a->shared, .store = a->store, .root = a->t.id /* none */ },
            "aggregator", a->t.id));
    else
        SEFL_TRY(journal_open(&a->as, at(a, "aggregator/state"), "aggregator", a->t.id));
    const uint8_t none[32] = { 0 }; /* no sealed file is opened */
    SEFL_TRY(journal_open_at(&a->csp,
                             &(journal_place){ .folder = at(a, "csp/state"),
                                               .store = getenv("SEFL_AUDIT_CSP_STORE"),
                                               .root = none },
                             "csp", a->t.id));
    SEFL_TRY(ledger_open_read(&a->as_ledger, at(a, "aggregator/ledger")));
    SEFL_TRY(ledger_open_read(&a->csp_ledger, at(a, "csp/ledger")));
    memcpy(a->latest, a->t.init_hash, sizeof a->latest);
done:
    buf_clear(&b);
    return st;
}

static sefl_status run(audit *a)
{
    sefl_status st = SEFL_OK;
    journal_round last;
    sefl_buf ours = { 0 }, theirs = { 0 };
    SEFL_TRY(open_all(a));
    SEFL_TRY(journal_round_last(a->csp, &last));
    SEFL_CHECK(last.round < ROUNDS_MAX, SEFL_ERANGE, "%" PRIu64 " rounds", last.round);
    for (a->rounds = 1; a->rounds <= last.round; a->rounds++)
        SEFL_TRY(check_round(a, a->rounds));
    a->rounds--;
    SEFL_CHECK(!a->swept, SEFL_ESTATE, "the latest released model is not there");
    SEFL_TRY(each_in(a, at(a, "clients"), check_client));
    SEFL_TRY(file_read(&ours, at(a, "aggregator/ledger"), 1 << 28));
    SEFL_TRY(file_read(&theirs, at(a, "csp/ledger"), 1 << 28));
    SEFL_CHECK(ours.n == theirs.n && memcmp(ours.p, theirs.p, ours.n) == 0, SEFL_ESTATE,
               "the ledgers differ (%zu and %zu bytes)", ours.n, theirs.n);
done:
    buf_clear(&ours);
    buf_clear(&theirs);
    ledger_close(a->as_ledger);
    ledger_close(a->csp_ledger);
    journal_close(a->as);
    journal_close(a->csp);
    task_clear(&a->t);
    return st;
}

int main(int argc, char **argv)
{
    static audit a;
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: audit FOLDER [STORE SHARED]\n");
        return 2;
    }
    a.folder = argv[1];
    a.store = argc == 4 ? argv[2] : NULL;
    a.shared = argc == 4 ? argv[3] : NULL;
    if (run(&a) != SEFL_OK) {
        fprintf(stderr, "audit: %s\n", sefl_last_error());
        return 1;
    }
    printf("rounds %" PRIu64 " released %" PRIu64 " skipped %" PRIu64 " receipts %" PRIu64
           " blocked %" PRIu64 "\n",
           a.rounds, a.released, a.skipped, a.receipts, a.blocked);
    return 0;
}
