/* Sealed rounds at AS: CSP's round key, vouchers, heads while they arrive, the frozen set and CSP's
 * verdict on it, CSP's signature on the counted clients. */
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

sefl_status as_link_key(as_link *l, round_header *h)
{
    const seal_suite *s = l->c.task->seal;
    uint64_t round;
    uint16_t suite;
    rd r;
    SEFL_PASS(must_be_sealed(l));
    buf_reset(&l->out);
    SEFL_PASS(wr_u64(&l->out, h->round));
    SEFL_PASS(as_ask(l, LINK_KEY, buf_span(&l->out), LINK_KEY, LINK_KEY, &r));
    SEFL_PASS(as_alive(l, rd_u64(&r, &round)));
    SEFL_PASS(as_alive(l, rd_u16(&r, &suite)));
    if (round != h->round || suite != s->id || r.left != s->pub_bytes)
        return as_alive(l, sefl_fail(SEFL_EPROTO, "CSP's key is for another round or suite"));
    h->suite = suite;
    h->key_bytes = (uint16_t)s->pub_bytes;
    memset(h->key, 0, sizeof h->key);
    memcpy(h->key, r.p, s->pub_bytes);
    return SEFL_OK;
}

sefl_status as_link_vouch(as_link *l, sefl_span bytes)
{
    sefl_status st = must_be_sealed(l);
    return st == SEFL_OK ? as_ask_simple(l, LINK_VOUCH, bytes, LINK_YES) : st;
}

/* ---- EARLY ----------------------------------------------------------------------------------- */

/* Sends one EARLY: `n` heads starting with number `first`. */
static sefl_status early_piece(as_link *l, uint64_t round, sefl_span heads, uint32_t first,
                               size_t n, head_refusal *refused, size_t *refused_n)
{
    size_t one = head_bytes(l->c.task->seal), got, next = 0, index;
    const uint8_t *p = heads.p + first * one;
    rd r;
    buf_reset(&l->out);
    SEFL_PASS(wr_u64(&l->out, round));
    SEFL_PASS(wr_raw(&l->out, p, n * one));
    SEFL_PASS(as_ask(l, LINK_EARLY, buf_span(&l->out), LINK_EARLY, LINK_EARLY, &r));
    head_refusal *mine = refused + *refused_n;
    SEFL_PASS(as_alive(l, link_refusals_read(&r, mine, n, &got, (uint32_t)n)));
    for (size_t i = 0; i < n; i++)
        if (next < got && mine[next].index == i)
            mine[next++].index += first;
        else
            SEFL_PASS(client_table_put(&l->early, p + i * one + 8, p + i * one + 40, &index));
    *refused_n += got;
    return SEFL_OK;
}

sefl_status as_link_early(as_link *l, uint64_t round, sefl_span heads, head_refusal *refused,
                          size_t *refused_n)
{
    size_t one = head_bytes(l->c.task->seal);
    *refused_n = 0;
    SEFL_PASS(must_be_sealed(l));
    SEFL_NEED(heads.n % one == 0 && heads.n / one <= LINK_SET_MAX, SEFL_EINVAL,
              "%zu bytes are not a whole number of %zu-byte heads", heads.n, one);
    if (l->early_round != round)
        as_forget_early(l);
    l->early_round = round;
    size_t count = heads.n / one, per = LINK_HEADS_PIECE / one;
    for (size_t i = 0; i < count; i += per)
        SEFL_PASS(early_piece(l, round, heads, (uint32_t)i, count - i < per ? count - i : per,
                              refused, refused_n));
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

/* Sends SET and all HEADS. Any failure, even of AS itself, leaves the stream out of step. */
static sefl_status send_set(as_link *l, const as_set *s)
{
    size_t one = head_bytes(l->c.task->seal);
    uint32_t index = 0;
    uint8_t *at;
    buf_reset(&l->out);
    SEFL_PASS(wr_u64(&l->out, s->round));
    SEFL_PASS(wr_u32(&l->out, s->clients));
    SEFL_PASS(wr_raw(&l->out, s->tree_seed, COUNTED_SEED));
    SEFL_PASS(link_send(l->ch, LINK_SET, buf_span(&l->out)));
    buf_reset(&l->out);
    for (uint32_t i = 0; i < s->clients; i++) {
        const round_entry *leaf = &s->leaves[i];
        bool brief = has_early(l, s, i);
        SEFL_PASS(buf_extend(&l->out, &at, brief ? HEAD_PREFIX : one));
        if (brief)
            head_short(at, leaf->client, leaf->body);
        else
            SEFL_PASS(s->head(s->ctx, i, at));
        if (l->out.n + one > LINK_HEADS_PIECE || i + 1 == s->clients) {
            SEFL_PASS(msg_send(l->ch, LINK_HEADS, index++, l->out.p, l->out.n));
            buf_reset(&l->out);
        }
    }
    return channel_flush(l->ch);
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

sefl_status as_link_set(as_link *l, const as_set *s, as_verdict *out, bool *few)
{
    sefl_status st = SEFL_OK;
    as_verdict v = { 0 };
    rd r;
    *out = v;
    if (few)
        *few = false;
    SEFL_TRY(must_be_sealed(l));
    SEFL_CHECK(s->clients >= 1 && s->clients <= LINK_SET_MAX, SEFL_EINVAL,
               "a set cannot have %u clients", s->clients);
    SEFL_CHECK(!l->dead, SEFL_ECLOSED, LINK_FAILED);
    SEFL_TRY(as_alive(l, send_set(l, s)));
    l->no = 0;
    st = as_answer(l, LINK_SET, LINK_VERDICT, LINK_VERDICT, &r);
    if (st != SEFL_OK) {
        as_forget_early(l); /* CSP has forgotten them too */
        if (few)
            *few = l->no == LINK_NO_FEW;
        goto done;
    }
    SEFL_TRY(as_alive(l, read_verdict(l, s, &r, &v)));
    *out = v, v = (as_verdict){ 0 };
done:
    as_verdict_clear(&v);
    return st;
}

/* ---- COUNTED --------------------------------------------------------------------------------- */

sefl_status as_receive_counted(as_link *l, uint64_t round, const uint8_t *root, const uint8_t *id,
                               sefl_buf *out)
{
    envelope env;
    counted_statement s;
    SEFL_PASS(link_recv(l->ch, &l->m));
    SEFL_NEED(l->m.kind == LINK_COUNTED, SEFL_EPROTO, "CSP sends %s, expected COUNTED",
              link_kind_name(l->m.kind));
    if (!root)
        return SEFL_OK;
    SEFL_PASS(envelope_read(&env, buf_span(&l->m.body)));
    SEFL_PASS(envelope_check_one(&env, SIGN_COUNTED, SIGNER_CSP, l->c.task->servers.csp));
    SEFL_PASS(counted_statement_read(&s, env.content));
    SEFL_NEED(s.round == round && memcmp(s.task, l->c.task->id, sizeof s.task) == 0 &&
                  memcmp(s.root, root, sizeof s.root) == 0 &&
                  (!id || memcmp(s.id, id, sizeof s.id) == 0),
              SEFL_EPROTO, "CSP signed another set than it kept");
    return out ? wr_raw(out, l->m.body.p, l->m.body.n) : SEFL_OK;
}
