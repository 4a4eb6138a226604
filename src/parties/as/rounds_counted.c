/* Sealed tasks: proofs that an upload was counted (rounds.h). */
#include "roles/aggregator/rounds_inside.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "protocol/http.h"

#include <inttypes.h>
#include <string.h>

/* With tree_lock: loads the tree of this round and CSP's envelope. SEFL_ENOTFOUND gives the reason.
 * A tree costs one hash per client, so a client that asks about different older rounds gets only a
 * few trees (SEFL_EBUDGET). The tree of the newest round is free: rounds may be shorter than the
 * rate allows. */
static sefl_status load_tree(rounds *r, uint64_t round, const uint8_t asks[32])
{
    sefl_status st = SEFL_OK;
    const as_store *store = r->c.as.store;
    sefl_buf env = { 0 };
    as_verdict v = { 0 };
    round_entry *set = NULL;
    uint32_t n = 0;
    uint8_t seed[COUNTED_SEED];
    counted_tree *tree = NULL;
    as_row row;
    if (r->tree && r->tree_round == round)
        return SEFL_OK;
    st = store->row_get(store->ctx, round, &row);
    SEFL_CHECK(st != SEFL_OK || !row.skipped, SEFL_ENOTFOUND,
               "round %" PRIu64 " was " HTTP_SKIPPED ": nothing of it was revealed", round);
    st = store->get(store->ctx, AS_COUNTED, round, &env);
    SEFL_CHECK(st != SEFL_ENOTFOUND, SEFL_ENOTFOUND, "round %" PRIu64 " is not counted yet", round);
    SEFL_TRY(st);
    SEFL_CHECK(round >= r->tree_newest ||
                   buckets_take(r->tree_rate, asks, 1, clock_ms(r->c.as.mono)),
               SEFL_EBUDGET, "too many requests about different rounds: try again later");
    SEFL_TRY(as_store_verdict_get(store, round, &v));
    SEFL_TRY(rounds_uploads(r, round, &v, &set, &n));
    SEFL_TRY(as_store_tree(store, round, r->c.as.coins, seed));
    SEFL_TRY(counted_tree_new(&tree, &(counted_facts){ .task = r->c.as.task->id,
                                                       .round = round,
                                                       .tree_seed = seed,
                                                       .clients_max = r->c.as.task->clients_max,
                                                       .leaves = set,
                                                       .n = n }));
    SEFL_CHECK(memcmp(counted_tree_root(tree), v.root, sizeof v.root) == 0, SEFL_EPROTO,
               "journal: the clients of round %" PRIu64 " are not the counted ones", round);
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
    sefl_free(set);
    buf_clear(&env);
    return st;
}

sefl_status rounds_counted(rounds *r, uint64_t round, const uint8_t client[32], sefl_buf *out)
{
    sefl_status st = SEFL_OK;
    pthread_mutex_lock(&r->tree_lock);
    SEFL_CHECK(task_is_sealed(r->c.as.task), SEFL_ENOTFOUND,
               "the uploads of this task are not sealed: CSP does not sign which were counted");
    SEFL_TRY(load_tree(r, round, client));
    SEFL_TRY(wr_u32(out, (uint32_t)r->tree_envelope.n));
    SEFL_TRY(wr_raw(out, r->tree_envelope.p, r->tree_envelope.n));
    st = counted_tree_path(out, r->tree, client);
    if (st == SEFL_ENOTFOUND) /* CSP's signature and no path: it was not counted */
        st = SEFL_OK;
done:
    pthread_mutex_unlock(&r->tree_lock);
    return st;
}
