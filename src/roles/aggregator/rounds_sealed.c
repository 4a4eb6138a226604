/* Sealed tasks: heads to CSP while clients upload (EARLY), the frozen set (SET), CSP's verdict,
 * and the proofs of being counted (rounds.h). */
#include "roles/aggregator/rounds_inside.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/fault.h"
#include "protocol/head.h"
#include "protocol/http.h"
#include "sum/upload_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EARLY_MS = 200, EARLY_HEADS = 256, REFUSED_NAMED = 20, REFUSED_MANY = 100 };

/* ---- heads ---------------------------------------------------------------------------------- */

/* The head in front of an acknowledged body: head_bytes(task.seal). */
static sefl_status read_head(rounds *r, uint64_t round, const round_entry *m, uint8_t *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf path = { 0 };
    int fd = -1;
    size_t want = head_bytes(r->c.task->seal);
    SEFL_TRY(ingest_body_path(r->c.journal, &path, round, m));
    fd = open((const char *)path.p, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "cannot open %s: %s", (const char *)path.p, strerror(errno));
    for (size_t at = 0; at < want;) {
        ssize_t got = fault_hit(FAULT_READ) ? (errno = EIO, -1) : read(fd, out + at, want - at);
        if (got < 0 && errno == EINTR)
            continue;
        SEFL_CHECK(got > 0, SEFL_EIO, "cannot read %s: %s", (const char *)path.p,
                   got < 0 ? strerror(errno) : "it is shorter than it was");
        at += (size_t)got;
    }
done:
    if (fd >= 0)
        close(fd);
    buf_clear(&path);
    return st;
}

/* The next heads that CSP does not have on this link, in the order of arrival. One that cannot be
 * read now is left to the SET. */
static sefl_status gather_heads(rounds *r, uint64_t round, sefl_buf *heads, round_entry *of,
                                uint32_t *n)
{
    sefl_status st = SEFL_OK;
    size_t each = head_bytes(r->c.task->seal);
    round_entry m;
    for (*n = 0; *n < EARLY_HEADS && collect_entry(r->collect, round, r->early, &m); r->early++) {
        uint8_t *p;
        SEFL_TRY(buf_extend(heads, &p, each));
        if (read_head(r, round, &m, p) == SEFL_OK)
            of[(*n)++] = m;
        else
            heads->n -= each;
    }
done:
    return st;
}

/* Why CSP does not take a head; a few of them by name. */
static void log_refused(rounds *r, uint64_t round, const char *when, const uint8_t client[32],
                        unsigned reason)
{
    journal_update u;
    bool known = journal_update_get(r->c.journal, round, client, &u) == SEFL_OK;
    log_warn(r->c.log, "CSP refuses a client's head", lf_u64("round", round), lf_str("at", when),
             lf_key("key", client), lf_str("name", known ? u.name : ""),
             lf_str("why", head_reason_text(reason)));
}

/* CSP has lost a voucher that we have: the client is asked for it with its next upload. */
static void forget_voucher(rounds *r, const uint8_t client[32], unsigned reason)
{
    if (reason == HEAD_VOUCHER && upload_key_forget(r->c.journal, client) != SEFL_OK)
        log_error(r->c.log, "voucher not forgotten", lf_str("why", sefl_last_error()));
}

sefl_status rounds_early(rounds *r, uint64_t *wait_ms)
{
    sefl_status st = SEFL_OK;
    sefl_buf heads = { 0 };
    round_entry *of = NULL;
    head_refusal *refused = NULL;
    uint32_t n = 0, given, summed;
    size_t refused_n = 0;
    uint64_t round, now = clock_ms(r->c.mono);
    *wait_ms = UINT64_MAX;
    if (!r->link || !task_is_sealed(r->c.task) || rounds_phase(r, &round, NULL) != AGG_COLLECTING)
        return SEFL_OK;
    if (r->early_round != round)
        r->early_round = round, r->early = 0;
    collect_counts(r->collect, &given, &summed);
    if (r->early >= given)
        return SEFL_OK;
    if (now < r->early_at_ms) { /* together they are cheaper */
        *wait_ms = r->early_at_ms - now;
        return SEFL_OK;
    }
    SEFL_TRY(sefl_new(&of, EARLY_HEADS, sizeof *of));
    SEFL_TRY(sefl_new(&refused, EARLY_HEADS, sizeof *refused));
    SEFL_TRY(gather_heads(r, round, &heads, of, &n));
    st = n == 0 ? SEFL_OK : as_link_early(r->link, round, buf_span(&heads), refused, &refused_n);
    if (st != SEFL_OK && !as_link_dead(r->link)) { /* the SET brings them all */
        log_warn(r->c.log, "CSP takes no heads early", lf_u64("round", round),
                 lf_str("why", sefl_last_error()));
        st = SEFL_OK;
    }
    if (st != SEFL_OK) {
        st = rounds_link_down(r, "early");
        goto done;
    }
    for (size_t i = 0; i < refused_n; i++) {
        if (i < REFUSED_NAMED)
            log_refused(r, round, "upload", of[refused[i].index].client, refused[i].reason);
        forget_voucher(r, of[refused[i].index].client, refused[i].reason);
    }
    now = clock_ms(r->c.mono);
    r->early_at_ms = now + (n == EARLY_HEADS ? 0 : EARLY_MS);
    r->ping_at_ms = now + r->c.ping_ms;
    *wait_ms = 0;
done:
    sefl_free(of);
    sefl_free(refused);
    buf_clear(&heads);
    return st;
}

/* ---- the set -------------------------------------------------------------------------------- */

sefl_status rounds_tree_seed(rounds *r, uint64_t round, uint8_t seed[COUNTED_SEED])
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    sefl_rng rng;
    st = journal_fact_get(r->c.journal, round, "tree", &b);
    if (st == SEFL_ENOTFOUND) {
        SEFL_TRY(coins_for(r->c.coins, &rng, "tree", round, 0));
        SEFL_TRY(rng_fill(&rng, seed, COUNTED_SEED));
        SEFL_TRY(journal_fact_put(r->c.journal, round, "tree", span_of(seed, COUNTED_SEED)));
        goto done;
    }
    SEFL_TRY(st);
    SEFL_CHECK(b.n == COUNTED_SEED, SEFL_EPROTO, "journal: tree seed of round %" PRIu64, round);
    memcpy(seed, b.p, COUNTED_SEED);
done:
    buf_clear(&b);
    return st;
}

sefl_status rounds_verdict(rounds *r, uint64_t round, as_verdict *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    as_verdict v = { 0 };
    *out = (as_verdict){ 0 };
    SEFL_TRY(journal_fact_get(r->c.journal, round, "verdict", &b));
    rd in = rd_over(buf_span(&b));
    SEFL_TRY(rd_raw(&in, v.root, sizeof v.root));
    SEFL_TRY(rd_u32(&in, &v.kept));
    SEFL_TRY(rd_u32(&in, &v.refused_n));
    SEFL_CHECK(v.refused_n == rd_left(&in) / 5, SEFL_EPROTO, "journal: verdict of round %" PRIu64,
               round);
    SEFL_TRY(sefl_new(&v.refused, v.refused_n ? v.refused_n : 1, sizeof *v.refused));
    for (uint32_t i = 0; i < v.refused_n; i++) {
        SEFL_TRY(rd_u32(&in, &v.refused[i].index));
        SEFL_TRY(rd_u8(&in, &v.refused[i].reason));
    }
    SEFL_TRY(rd_end(&in));
    *out = v, v = (as_verdict){ 0 };
done:
    as_verdict_clear(&v);
    buf_clear(&b);
    return st;
}

static sefl_status verdict_bytes(sefl_buf *b, const as_verdict *v)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(wr_raw(b, v->root, sizeof v->root));
    SEFL_TRY(wr_u32(b, v->kept));
    SEFL_TRY(wr_u32(b, v->refused_n));
    for (uint32_t i = 0; i < v->refused_n; i++) {
        SEFL_TRY(wr_u32(b, v->refused[i].index));
        SEFL_TRY(wr_u8(b, v->refused[i].reason));
    }
done:
    return st;
}

/* Durable before anything rests on it; CSP may not change its mind (SEFL_ECRYPTO). */
static sefl_status keep_verdict(rounds *r, uint64_t round, const as_verdict *v, bool *is_new)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 }, before = { 0 };
    SEFL_TRY(verdict_bytes(&b, v));
    st = journal_fact_get(r->c.journal, round, "verdict", &before);
    *is_new = st == SEFL_ENOTFOUND;
    if (*is_new)
        st = journal_fact_put(r->c.journal, round, "verdict", buf_span(&b));
    SEFL_TRY(st);
    SEFL_CHECK(*is_new || (b.n == before.n && memcmp(b.p, before.p, b.n) == 0), SEFL_ECRYPTO,
               "CSP's verdict about round %" PRIu64 " is another than before", round);
done:
    buf_clear(&b);
    buf_clear(&before);
    return st;
}

/* The acknowledged updates of a round, by rising client; without those that a verdict refused, if
 * there is one. */
typedef struct leaves {
    counted_leaf *at;
    uint32_t n, space;
    uint32_t index;      /* of the next one in the set */
    const as_verdict *v; /* NULL: all */
    uint32_t skipped;
} leaves;

static sefl_status take_leaf(void *ctx, const journal_update *u)
{
    sefl_status st = SEFL_OK;
    leaves *l = ctx;
    uint32_t index = l->index++;
    if (l->v && l->skipped < l->v->refused_n && l->v->refused[l->skipped].index == index) {
        l->skipped++;
        return SEFL_OK;
    }
    if (l->n == l->space) {
        uint32_t space = l->space ? 2 * l->space : 64;
        SEFL_TRY(sefl_grow(&l->at, l->space * sizeof *l->at, space * sizeof *l->at));
        l->space = space;
    }
    memcpy(l->at[l->n].client, u->client, 32);
    memcpy(l->at[l->n].units, u->body, 32);
    l->n++;
done:
    return st;
}

typedef struct head_source {
    rounds *r;
    uint64_t round;
    const leaves *l;
    bool lost; /* a head cannot be read: no later attempt has it either */
} head_source;

static sefl_status give_head(void *ctx, uint32_t i, uint8_t *out)
{
    head_source *s = ctx;
    round_entry m;
    memcpy(m.client, s->l->at[i].client, sizeof m.client);
    memcpy(m.body, s->l->at[i].units, sizeof m.body);
    sefl_status st = read_head(s->r, s->round, &m, out);
    s->lost = s->lost || st != SEFL_OK;
    return st;
}

static void log_verdict(rounds *r, uint64_t round, const leaves *l, const as_verdict *v)
{
    for (uint32_t i = 0; i < v->refused_n; i++) {
        const uint8_t *client = l->at[v->refused[i].index].client;
        if (i < REFUSED_NAMED)
            log_refused(r, round, "set", client, v->refused[i].reason);
        forget_voucher(r, client, v->refused[i].reason);
    }
    if ((uint64_t)v->refused_n * REFUSED_MANY > l->n)
        log_error(r->c.log,
                  "CSP refuses more than 1 in 100 clients: do both lists have the same "
                  "clients? (docs/OPERATING.md, incidents)",
                  lf_u64("round", round), lf_u64("refused", v->refused_n), lf_u64("clients", l->n));
}

static bool keep_waiting(void *self, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    return !rounds_stopping(self);
}

/* The refused bodies leave the sum; those that have left before are not in it. */
static sefl_status take_off(rounds *r, uint64_t round, const leaves *l, const as_verdict *v)
{
    sefl_status st = SEFL_OK;
    for (uint32_t i = 0; i < v->refused_n; i++) {
        st = collect_take(r->collect, round, l->at[v->refused[i].index].client,
                          &(sefl_progress){ .report = keep_waiting, .self = r });
        if (st != SEFL_ENOTFOUND)
            SEFL_TRY(st);
    }
    st = SEFL_OK;
done:
    return st;
}

sefl_status rounds_set(rounds *r, uint64_t round, as_reveal *open, bool *few, bool *lost)
{
    sefl_status st = SEFL_OK;
    leaves l = { 0 };
    head_source from = { .r = r, .round = round, .l = &l };
    as_verdict v = { 0 };
    uint8_t seed[COUNTED_SEED];
    bool is_new;
    *few = *lost = false;
    SEFL_TRY(journal_updates(r->c.journal, round, take_leaf, &l));
    SEFL_TRY(rounds_tree_seed(r, round, seed));
    as_set set = { .round = round,
                   .clients = l.n,
                   .leaves = l.at,
                   .tree_seed = seed,
                   .head = give_head,
                   .ctx = &from };
    st = as_link_set(r->link, &set, &v, few);
    *lost = from.lost;
    SEFL_TRY(st);
    SEFL_TRY(keep_verdict(r, round, &v, &is_new));
    if (is_new)
        log_verdict(r, round, &l, &v);
    if (as_link_peer(r->link)->opened < round) /* else the sum is not needed any more */
        SEFL_TRY(take_off(r, round, &l, &v));
    open->clients = v.kept;
    memcpy(open->set, v.root, sizeof open->set);
done:
    sefl_wipe(seed, sizeof seed);
    as_verdict_clear(&v);
    sefl_free(l.at);
    return st;
}

uint32_t rounds_kept(rounds *r, uint64_t round, uint32_t *refused)
{
    as_verdict v;
    *refused = 0;
    if (task_is_sealed(r->c.task) && rounds_verdict(r, round, &v) == SEFL_OK) {
        uint32_t kept = v.kept;
        *refused = v.refused_n;
        as_verdict_clear(&v);
        return kept;
    }
    pthread_mutex_lock(&r->lock);
    uint32_t n = agg_remember(r->a).clients;
    pthread_mutex_unlock(&r->lock);
    return n;
}

/* ---- counted -------------------------------------------------------------------------------- */

/* With tree_lock: the tree of this round, and CSP's envelope. SEFL_ENOTFOUND says why. A tree costs a hash
 * for each client: one that asks for older rounds in turn has a few of them made (SEFL_EBUDGET). That of the
 * newest round is anybody's: rounds may be shorter than the pace of the rate, and somebody asks first. */
static sefl_status load_tree(rounds *r, uint64_t round, const uint8_t asks[32])
{
    sefl_status st = SEFL_OK;
    sefl_buf env = { 0 };
    as_verdict v = { 0 };
    leaves l = { .v = &v };
    uint8_t seed[COUNTED_SEED];
    counted_tree *tree = NULL;
    journal_round row;
    if (r->tree && r->tree_round == round)
        return SEFL_OK;
    st = journal_round_get(r->c.journal, round, &row);
    SEFL_CHECK(st != SEFL_OK || !row.skipped, SEFL_ENOTFOUND,
               "round %" PRIu64 " was " HTTP_SKIPPED ": nothing of it was opened", round);
    st = journal_fact_get(r->c.journal, round, "counted", &env);
    SEFL_CHECK(st != SEFL_ENOTFOUND, SEFL_ENOTFOUND, "round %" PRIu64 " is not counted yet", round);
    SEFL_TRY(st);
    SEFL_CHECK(round >= r->tree_newest || buckets_take(r->tree_rate, asks, 1, clock_ms(r->c.mono)),
               SEFL_EBUDGET, "too many rounds asked about: later");
    SEFL_TRY(rounds_verdict(r, round, &v));
    SEFL_TRY(journal_updates(r->c.journal, round, take_leaf, &l));
    SEFL_TRY(rounds_tree_seed(r, round, seed));
    SEFL_TRY(counted_tree_new(&tree, &(counted_facts){ .task = r->c.task->id,
                                                       .round = round,
                                                       .tree_seed = seed,
                                                       .clients_max = r->c.task->clients_max,
                                                       .leaves = l.at,
                                                       .n = l.n }));
    SEFL_CHECK(memcmp(counted_tree_root(tree), v.root, sizeof v.root) == 0, SEFL_EPROTO,
               "journal: the clients of round %" PRIu64 " are not those that were counted", round);
    counted_tree_free(r->tree);
    buf_clear(&r->tree_envelope);
    r->tree = tree, tree = NULL;
    r->tree_envelope = env, env = (sefl_buf){ 0 };
    r->tree_round = round;
    r->tree_newest = round > r->tree_newest ? round : r->tree_newest;
done:
    sefl_wipe(seed, sizeof seed);
    counted_tree_free(tree);
    as_verdict_clear(&v);
    sefl_free(l.at);
    buf_clear(&env);
    return st;
}

sefl_status rounds_counted(rounds *r, uint64_t round, const uint8_t client[32], sefl_buf *out)
{
    sefl_status st = SEFL_OK;
    pthread_mutex_lock(&r->tree_lock);
    SEFL_CHECK(task_is_sealed(r->c.task), SEFL_ENOTFOUND,
               "the uploads of this task are not sealed: nobody signs who was counted");
    SEFL_TRY(load_tree(r, round, client));
    SEFL_TRY(wr_u32(out, (uint32_t)r->tree_envelope.n));
    SEFL_TRY(wr_raw(out, r->tree_envelope.p, r->tree_envelope.n));
    st = counted_tree_path(out, r->tree, client);
    if (st == SEFL_ENOTFOUND) /* CSP's word, and no path: it was not counted */
        st = SEFL_OK;
done:
    pthread_mutex_unlock(&r->tree_lock);
    return st;
}
