/* Sealed rounds at AS: CSP's round key, vouchers, heads while they arrive, the frozen set and CSP's
 * verdict on it. */
#include "base/alloc.h"
#include "protocol/head.h"
#include "sum/as_internal.h"

#include <string.h>

void as_forget_early(as_link *l)
{
    client_table_clear(&l->early);
    l->early_round = 0;
}

static sefl_status must_be_sealed(const as_link *l)
{
    return task_is_sealed(l->c.task)
               ? SEFL_OK
               : sefl_fail(SEFL_ESTATE, "the uploads of this task are not sealed");
}

/* ---- KEY and VOUCH --------------------------------------------------------------------------- */

sefl_status as_link_key(as_link *l, round_header *h)
{
    SEFL_PASS(must_be_sealed(l));
    SEFL_PASS(as_begin(l));
    l->header = h;
    SEFL_PASS(wr_u64(&l->out.body, h->round));
    return as_ask(l, LINK_KEY);
}

sefl_status as_on_key(as_link *l, rd *r)
{
    const seal_suite *s = l->c.task->seal;
    round_header *h = l->header;
    uint64_t round;
    uint16_t suite;
    SEFL_PASS(rd_u64(r, &round));
    SEFL_PASS(rd_u16(r, &suite));
    SEFL_NEED(round == h->round && suite == s->id && r->left == s->pub_bytes, SEFL_EPROTO,
              "CSP's key is for another round or suite");
    h->suite = suite;
    h->key_bytes = (uint16_t)s->pub_bytes;
    memset(h->key, 0, sizeof h->key);
    memcpy(h->key, r->p, s->pub_bytes);
    return SEFL_OK;
}

sefl_status as_link_vouch(as_link *l, sefl_span bytes)
{
    SEFL_PASS(must_be_sealed(l));
    SEFL_PASS(as_begin(l));
    SEFL_PASS(wr_raw(&l->out.body, bytes.p, bytes.n));
    return as_ask(l, LINK_VOUCH);
}

/* ---- EARLY ----------------------------------------------------------------------------------- */

/* Writes the next EARLY to l->out. */
static sefl_status put_early(as_link *l)
{
    as_heading *e = &l->heading;
    size_t one = head_bytes(l->c.task->seal), left = e->heads.n / one - e->at;
    e->n = left < LINK_HEADS_PIECE / one ? left : LINK_HEADS_PIECE / one;
    buf_reset(&l->out.body);
    SEFL_PASS(wr_u64(&l->out.body, l->early_round));
    return wr_raw(&l->out.body, e->heads.p + e->at * one, e->n * one);
}

sefl_status as_link_early(as_link *l, uint64_t round, sefl_span heads, head_refusal *refused,
                          size_t *refused_n)
{
    size_t one = head_bytes(l->c.task->seal);
    *refused_n = 0;
    SEFL_PASS(must_be_sealed(l));
    SEFL_NEED(heads.n % one == 0 && heads.n / one <= LINK_SET_MAX, SEFL_EINVAL,
              "%zu bytes are not a whole number of %zu-byte heads", heads.n, one);
    SEFL_PASS(as_begin(l));
    if (l->early_round != round)
        as_forget_early(l);
    l->early_round = round;
    if (heads.n == 0)
        return SEFL_OK;
    l->heading = (as_heading){ .heads = heads, .refused = refused, .refused_n = refused_n };
    SEFL_PASS(put_early(l));
    return as_ask(l, LINK_EARLY);
}

sefl_status as_on_early(as_link *l, rd *r)
{
    as_heading *e = &l->heading;
    size_t one = head_bytes(l->c.task->seal), got, next = 0, index;
    const uint8_t *p = e->heads.p + e->at * one;
    head_refusal *mine = e->refused + *e->refused_n;
    SEFL_PASS(link_refusals_read(r, mine, e->n, &got, (uint32_t)e->n));
    for (size_t i = 0; i < e->n; i++)
        if (next < got && mine[next].index == i)
            mine[next++].index += (uint32_t)e->at;
        else
            SEFL_PASS(client_table_put(&l->early, p + i * one + 8, p + i * one + 40, &index));
    *e->refused_n += got;
    e->at += e->n;
    if (e->at * one == e->heads.n)
        return SEFL_OK;
    SEFL_PASS(put_early(l));
    as_queue(l, LINK_EARLY);
    return SEFL_OK;
}

/* ---- SET and VERDICT ------------------------------------------------------------------------- */

static bool has_early(const as_link *l, const as_set *s, uint32_t i)
{
    if (l->early_round != s->round)
        return false;
    size_t at = client_table_find(&l->early, s->leaves[i].client);
    return at > 0 && memcmp(l->early.leaf[at - 1].body, s->leaves[i].body, 32) == 0;
}

sefl_status as_next_heads(as_link *l, const link_msg **out)
{
    as_setting *q = &l->setting;
    size_t one = head_bytes(l->c.task->seal);
    sefl_buf *b = &l->out.body;
    uint8_t *at;
    if (q->next == q->s->clients) {
        l->phase = AS_WAIT;
        return SEFL_OK;
    }
    l->out.index = l->out.kind == LINK_HEADS ? l->out.index + 1 : 0;
    l->out.kind = LINK_HEADS;
    buf_reset(b);
    for (; q->next < q->s->clients && b->n + one <= LINK_HEADS_PIECE; q->next++) {
        const round_entry *leaf = &q->s->leaves[q->next];
        bool brief = has_early(l, q->s, q->next);
        SEFL_PASS(buf_extend(b, &at, brief ? HEAD_PREFIX : one));
        if (brief)
            head_short(at, leaf->client, leaf->body);
        else
            SEFL_PASS(q->s->head(q->s->ctx, q->next, at));
    }
    *out = &l->out;
    return SEFL_OK;
}

/* Checks the verdict's root: the root over the leaves that CSP kept. */
static sefl_status check_root(const as_link *l, const as_set *s, const as_verdict *v)
{
    sefl_status st = SEFL_OK;
    round_entry *kept = NULL;
    uint8_t root[SHA256_BYTES];
    uint32_t n = 0, next = 0;
    SEFL_TRY(sefl_new(&kept, s->clients, sizeof *kept));
    for (uint32_t i = 0; i < s->clients; i++)
        if (next < v->refused_n && v->refused[next].index == i)
            next++;
        else
            kept[n++] = s->leaves[i];
    SEFL_TRY(counted_root(root, &(counted_facts){ .task = l->c.task->id,
                                                  .round = s->round,
                                                  .tree_seed = s->tree_seed,
                                                  .clients_max = l->c.task->clients_max,
                                                  .leaves = kept,
                                                  .n = n }));
    SEFL_CHECK(memcmp(root, v->root, sizeof root) == 0, SEFL_EPROTO,
               "the root in CSP's verdict does not match the clients that CSP kept");
done:
    sefl_free(kept);
    return st;
}

static sefl_status read_verdict(as_link *l, const as_set *s, rd *r, as_verdict *v)
{
    size_t n;
    SEFL_PASS(rd_raw(r, v->root, sizeof v->root));
    SEFL_PASS(rd_u32(r, &v->kept));
    SEFL_PASS(rd_u32(r, &v->refused_n));
    SEFL_NEED(v->kept <= s->clients && v->refused_n == s->clients - v->kept &&
                  v->kept >= l->c.task->threshold,
              SEFL_EPROTO, "CSP keeps %u and refuses %u of %u clients", v->kept, v->refused_n,
              s->clients);
    SEFL_PASS(sefl_new(&v->refused, v->refused_n, sizeof *v->refused));
    SEFL_PASS(link_refusals_read(r, v->refused, v->refused_n, &n, s->clients));
    SEFL_NEED(n == v->refused_n, SEFL_EPROTO, "CSP names %zu of %u refused clients", n,
              v->refused_n);
    return check_root(l, s, v);
}

sefl_status as_link_set(as_link *l, const as_set *s, as_verdict *out)
{
    static const uint8_t none[SHA256_BYTES];
    *out = (as_verdict){ 0 };
    SEFL_PASS(must_be_sealed(l));
    SEFL_NEED(s->clients >= 1 && s->clients <= LINK_SET_MAX, SEFL_EINVAL,
              "a set cannot have %u clients", s->clients);
    SEFL_PASS(as_begin(l));
    l->setting = (as_setting){ .s = s, .out = out };
    SEFL_PASS(wr_u64(&l->out.body, s->round));
    SEFL_PASS(wr_u32(&l->out.body, s->clients));
    SEFL_PASS(wr_raw(&l->out.body, s->tree_seed, COUNTED_SEED));
    SEFL_PASS(wr_raw(&l->out.body, s->replied ? s->replied : none, SHA256_BYTES));
    return as_ask(l, LINK_SET);
}

sefl_status as_on_verdict(as_link *l, rd *r)
{
    as_verdict v = { 0 };
    sefl_status st = read_verdict(l, l->setting.s, r, &v);
    if (st == SEFL_OK)
        *l->setting.out = v;
    else
        as_verdict_clear(&v);
    return st;
}
