/* Sealed tasks: heads to CSP while clients upload (EARLY), then the set (SET) and CSP's verdict. */
#include "sum/as_rounds_internal.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "protocol/head.h"

#include <inttypes.h>
#include <string.h>

enum { EARLY_MS = 200, EARLY_HEADS = 256, REFUSED_NAMED = 20, REFUSED_MANY = 100 };

/* ---- EARLY ----------------------------------------------------------------------------------- */

/* Collects the next heads that CSP does not have on this link, in the order of arrival. Leaves an
 * unreadable head to the SET. */
static sefl_status gather_heads(as_rounds *r, sefl_buf *heads, round_entry *of, uint32_t *n)
{
    const as_uploads *u = r->c.uploads;
    size_t each = head_bytes(r->t->seal);
    round_entry e;
    for (*n = 0; *n < EARLY_HEADS && u->arrived(r->c.ctx, r->early_round, r->early, &e);
         r->early++) {
        uint8_t *p;
        SEFL_PASS(buf_extend(heads, &p, each));
        if (u->head(r->c.ctx, r->early_round, &e, p) == SEFL_OK)
            of[(*n)++] = e;
        else
            heads->n -= each;
    }
    return SEFL_OK;
}

/* True if CSP lacks heads of the current round. */
static bool has_heads(as_rounds *r)
{
    round_entry e;
    if (!r->link || !task_is_sealed(r->t) || !r->c.uploads->arrived)
        return false;
    pthread_mutex_lock(&r->lock);
    uint64_t round = agg_round(r->a);
    agg_phase phase = agg_get_phase(r->a);
    pthread_mutex_unlock(&r->lock);
    if (phase != AGG_COLLECTING && phase != AGG_FREEZING)
        return false;
    if (r->early_round != round)
        r->early_round = round, r->early = 0;
    return r->c.uploads->arrived(r->c.ctx, round, r->early, &e);
}

/* Sends one EARLY with *n heads; reports a failed stream with as_rounds_link_down. */
static sefl_status send_some(as_rounds *r, uint32_t *n)
{
    sefl_status st = SEFL_OK;
    sefl_buf heads = { 0 };
    round_entry *of = NULL;
    head_refusal *refused = NULL;
    size_t refused_n = 0;
    SEFL_TRY(sefl_new(&of, EARLY_HEADS, sizeof *of));
    SEFL_TRY(sefl_new(&refused, EARLY_HEADS, sizeof *refused));
    SEFL_TRY(gather_heads(r, &heads, of, n));
    if (*n > 0)
        st = as_link_early(r->link, r->early_round, buf_span(&heads), refused, &refused_n);
    if (st != SEFL_OK && as_link_dead(r->link)) {
        st = as_rounds_link_down(r, "early");
        goto done;
    }
    if (st != SEFL_OK) /* the SET sends them all */
        log_warn(r->c.log, "CSP refuses heads before the set", lf_u64("round", r->early_round),
                 lf_str("why", sefl_last_error()));
    for (size_t i = 0; r->c.uploads->refused && i < refused_n; i++)
        r->c.uploads->refused(r->c.ctx, r->early_round, "upload", &refused[i],
                              of[refused[i].index].client, i < REFUSED_NAMED);
    as_rounds_linked_now(r);
    st = SEFL_OK;
done:
    sefl_free(of);
    sefl_free(refused);
    buf_clear(&heads);
    return st;
}

sefl_status as_rounds_early(as_rounds *r, uint64_t *wait_ms)
{
    uint32_t n = 0;
    uint64_t now = clock_ms(r->c.mono);
    *wait_ms = UINT64_MAX;
    if (!has_heads(r))
        return SEFL_OK;
    if (now < r->early_at_ms) { /* one message for several heads is cheaper */
        *wait_ms = r->early_at_ms - now;
        return SEFL_OK;
    }
    sefl_status st = send_some(r, &n);
    r->early_at_ms = clock_ms(r->c.mono) + (n == EARLY_HEADS ? 0 : EARLY_MS);
    *wait_ms = 0;
    return st;
}

sefl_status as_rounds_send_heads(as_rounds *r)
{
    sefl_status st = SEFL_OK;
    uint32_t n;
    while (st == SEFL_OK && has_heads(r))
        st = send_some(r, &n);
    return st;
}

/* ---- SET ------------------------------------------------------------------------------------- */

typedef struct head_source {
    as_rounds *r;
    uint64_t round;
    const round_entry *set;
    bool lost; /* a head is gone for good */
} head_source;

static sefl_status give_head(void *ctx, uint32_t i, uint8_t *out)
{
    head_source *s = ctx;
    const as_rounds_config *c = &s->r->c;
    sefl_status st = c->uploads->head(c->ctx, s->round, &s->set[i], out);
    s->lost = s->lost || st == SEFL_ECRYPTO || st == SEFL_ENOTFOUND;
    return st;
}

static void tell_refused(as_rounds *r, uint64_t round, const round_entry *set, uint32_t n,
                         const as_verdict *v)
{
    for (uint32_t i = 0; r->c.uploads->refused && i < v->refused_n; i++)
        r->c.uploads->refused(r->c.ctx, round, "set", &v->refused[i],
                              set[v->refused[i].index].client, i < REFUSED_NAMED);
    if ((uint64_t)v->refused_n * REFUSED_MANY > n)
        log_error(r->c.log,
                  "CSP refuses more than 1 in 100 clients: do both lists have the same "
                  "clients? (docs/OPERATING.md, incidents)",
                  lf_u64("round", round), lf_u64("refused", v->refused_n), lf_u64("clients", n));
}

/* Subtracts refused uploads from the sum, unless that was done before. */
static sefl_status take_off(as_rounds *r, uint64_t round, const round_entry *set,
                            const as_verdict *v)
{
    sefl_status st = SEFL_OK;
    for (uint32_t i = 0; i < v->refused_n; i++) {
        SEFL_NEED(r->c.uploads->take_off, SEFL_ECRYPTO,
                  "round %" PRIu64 ": CSP refuses an upload: %s", round,
                  head_reason_text(v->refused[i].reason));
        st = r->c.uploads->take_off(r->c.ctx, round, set[v->refused[i].index].client);
        SEFL_PASS(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    }
    return SEFL_OK;
}

sefl_status as_rounds_set(as_rounds *r, as_reveal *o, as_outcome *outcome)
{
    sefl_status st = SEFL_OK;
    round_entry *set = NULL;
    as_verdict v = { 0 };
    uint8_t seed[COUNTED_SEED], replied[SHA256_BYTES];
    uint32_t n;
    bool is_new, again;
    *outcome = AS_GOT;
    SEFL_TRY(r->c.uploads->set(r->c.ctx, o->round, &set, &n));
    SEFL_TRY(as_store_tree(r->store, o->round, r->c.coins, seed));
    st = as_store_reply(r->store, o->round, replied);
    again = st == SEFL_OK;
    SEFL_TRY(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    head_source from = { .r = r, .round = o->round, .set = set };
    st = as_link_set(r->link,
                     &(as_set){ .round = o->round,
                                .clients = n,
                                .leaves = set,
                                .tree_seed = seed,
                                .replied = again ? replied : NULL,
                                .head = give_head,
                                .ctx = &from },
                     &v);
    *outcome = from.lost ? AS_LOST : as_link_outcome(r->link, st);
    SEFL_TRY(st);
    SEFL_TRY(as_store_verdict(r->store, o->round, &v, &is_new));
    if (is_new)
        tell_refused(r, o->round, set, n, &v);
    if (as_link_peer(r->link)->revealed < o->round) /* else the sum is no longer needed */
        SEFL_TRY(take_off(r, o->round, set, &v));
    o->clients = v.kept;
    memcpy(o->set, v.root, sizeof o->set);
done:
    if (*outcome == AS_GOT)
        *outcome = as_outcome_of(st);
    sefl_wipe(seed, sizeof seed);
    as_verdict_clear(&v);
    sefl_free(set);
    return st;
}
