/* Design:
 *  1. as_ask sends a question and returns its answer. NO becomes a status and leaves the link
 *     usable; any other failure marks it dead.
 *  2. After GO nothing can be undone: any failure, even of AS itself, ends the stream.
 *  3. AS reads a kept output to its end before it checks it, so that it can skip a lost round on
 *     the same stream. */
#include "sum/as_link.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "sum/as_internal.h"

#include <stdio.h>
#include <string.h>

static uint64_t now(const as_link *l)
{
    return l->c.clock ? clock_ns(l->c.clock) : 0;
}

sefl_status as_alive(as_link *l, sefl_status st)
{
    l->dead |= st != SEFL_OK;
    return st;
}

/* ---- questions and answers ------------------------------------------------------------------- */

static sefl_status of_no(unsigned code, uint32_t question)
{
    static const sefl_status others[] = {
        [LINK_NO_VERSION] = SEFL_EUNSUPPORTED,
        [LINK_NO_TASK] = SEFL_EAUTH,
        [LINK_NO_SIGNATURE] = SEFL_EAUTH,
        [LINK_NO_ENROL] = SEFL_EAUTH,
        [LINK_NO_BUDGET] = SEFL_EBUDGET,
        [LINK_NO_KEY] = SEFL_ECRYPTO, /* lost round */
        [LINK_NO_SLICE] = SEFL_EIO,
        [LINK_NO_FAULT] = SEFL_EIO,
    };
    if (code == LINK_NO_REVEALED || code == LINK_NO_SKIPPED) /* never again */
        return question == LINK_REVEAL || question == LINK_SET ? SEFL_ECRYPTO : SEFL_ESTATE;
    sefl_status st = code < sizeof others / sizeof *others ? others[code] : SEFL_OK;
    return st != SEFL_OK ? st : SEFL_ESTATE;
}

/* Turns NO into a status with CSP's message, without control characters. */
static sefl_status said_no(as_link *l, uint32_t question, rd *r)
{
    uint16_t code;
    char words[200];
    size_t n = 0;
    SEFL_PASS(as_alive(l, rd_u16(r, &code)));
    for (; n + 1 < sizeof words && n < r->left; n++)
        words[n] = r->p[n] >= 0x20 && r->p[n] < 0x7f ? (char)r->p[n] : '?';
    words[n] = '\0';
    l->no = code;
    l->ended |= code == LINK_NO_CHECKS;
    bool more = n > 0 && strcmp(words, link_no_text(code)) != 0;
    return sefl_fail(of_no(code, question), "CSP refused %s: %s%s%s", link_kind_name(question),
                     link_no_text(code), more ? ": " : "", more ? words : "");
}

sefl_status as_ask(as_link *l, uint32_t question, sefl_span body, uint32_t want, uint32_t or, rd *r)
{
    SEFL_NEED(!l->dead, SEFL_ECLOSED, LINK_FAILED);
    SEFL_PASS(as_alive(l, link_send(l->ch, question, body)));
    return as_answer(l, question, want, or, r);
}

sefl_status as_answer(as_link *l, uint32_t question, uint32_t want, uint32_t or, rd *r)
{
    SEFL_PASS(as_alive(l, link_recv(l->ch, &l->m)));
    *r = rd_over(buf_span(&l->m.body));
    if (l->m.kind == LINK_NO)
        return said_no(l, question, r);
    if (l->m.kind == want || l->m.kind == or)
        return SEFL_OK;
    return as_alive(l, sefl_fail(SEFL_EPROTO, "CSP answers %s with %s", link_kind_name(question),
                                 link_kind_name(l->m.kind)));
}

sefl_status as_ask_simple(as_link *l, uint32_t question, sefl_span body, uint32_t want)
{
    rd r;
    SEFL_PASS(as_ask(l, question, body, want, want, &r));
    return as_alive(l, rd_end(&r));
}

/* Writes our ledger's head to the start of l->out. */
static sefl_status put_mark(as_link *l)
{
    ledger_head ours;
    sefl_status st = l->c.ledger.head(l->c.ledger.ctx, &ours);
    buf_reset(&l->out);
    return st == SEFL_OK ? ledger_head_write(&l->out, &ours) : st;
}

static sefl_status compare_mark(as_link *l, rd *r, bool equal)
{
    ledger_head ours, theirs;
    SEFL_PASS(ledger_head_read(r, &theirs));
    SEFL_PASS(l->c.ledger.head(l->c.ledger.ctx, &ours));
    ledger_order v = l->c.ledger.compare(l->c.ledger.ctx, &theirs);
    bool fit = v == LEDGER_SAME || (!equal && v == LEDGER_PEER_BEHIND &&
                                    ours.records - theirs.records <= LEDGER_CHARGE_RECORDS);
    SEFL_NEED(fit, SEFL_ESTATE, "the two ledgers do not agree: ours has %llu records, CSP's %llu%s",
              (unsigned long long)ours.records, (unsigned long long)theirs.records,
              v == LEDGER_FORKED ? ", of another history" : "");
    l->peer.behind = v == LEDGER_PEER_BEHIND;
    return SEFL_OK;
}

/* Reads CSP's ledger head. It must equal ours or, unless `equal`, lack our last charge. */
static sefl_status check_mark(as_link *l, rd *r, bool equal)
{
    return as_alive(l, compare_mark(l, r, equal));
}

sefl_status as_link_new(as_link **out, channel *ch, const as_link_config *cfg)
{
    SEFL_MAKE(as_link, l, out);
    ledger_head ours;
    uint16_t version;
    uint8_t signature[SIGN_BYTES];
    rd r;
    l->c = *cfg;
    l->ch = ch;
    SEFL_TRY(l->c.ledger.head(l->c.ledger.ctx, &ours));
    SEFL_TRY(wr_u16(&l->out, LINK_VERSION_LOWEST));
    SEFL_TRY(wr_u16(&l->out, LINK_VERSION));
    SEFL_TRY(ledger_head_write(&l->out, &ours));
    SEFL_TRY(wr_raw(&l->out, cfg->task->id, TASK_ID));
    SEFL_TRY(sign_make(signature, cfg->key, SIGN_LINK, buf_span(&l->out)));
    SEFL_TRY(wr_raw(&l->out, signature, sizeof signature));
    SEFL_TRY(as_ask(l, LINK_HELLO, buf_span(&l->out), LINK_WELCOME, LINK_WELCOME, &r));
    SEFL_TRY(rd_u16(&r, &version));
    SEFL_CHECK(version >= LINK_VERSION_LOWEST && version <= LINK_VERSION, SEFL_EUNSUPPORTED,
               "CSP chose version %u of the link", version);
    SEFL_TRY(check_mark(l, &r, false));
    SEFL_TRY(rd_u64(&r, &l->peer.signed_));
    SEFL_TRY(rd_u64(&r, &l->peer.revealed));
    SEFL_TRY(rd_u64(&r, &l->peer.skipped));
    SEFL_TRY(rd_raw(&r, l->peer.pair, sizeof l->peer.pair));
    SEFL_TRY(rd_end(&r));
    SEFL_TRY(as_ask_simple(l, LINK_TASK, cfg->envelope, LINK_YES));
    SEFL_HAND_OVER(out, l, as_link_free);
}

void as_link_free(as_link *l)
{
    if (!l)
        return;
    client_table_clear(&l->early);
    buf_clear(&l->m.body);
    buf_clear(&l->out);
    sefl_free(l);
}

const as_peer *as_link_peer(const as_link *l)
{
    return &l->peer;
}

bool as_link_ended(const as_link *l)
{
    return l->ended;
}

bool as_link_dead(const as_link *l)
{
    return l->dead || l->ch->dead;
}

const as_times *as_link_times(const as_link *l)
{
    return &l->times;
}

sefl_status as_link_header(as_link *l, sefl_buf *both, const round_header *h)
{
    uint8_t bytes[HEADER_MAX];
    size_t n = round_header_write(bytes, h);
    envelope env = { .kind = SIGN_HEADER, .content = span_of(bytes, n) }, got;
    rd r;
    SEFL_PASS(put_mark(l));
    SEFL_PASS(envelope_sign(&env, SIGNER_AS, l->c.key));
    SEFL_PASS(envelope_write(&l->out, &env));
    SEFL_PASS(as_ask(l, LINK_HEADER, buf_span(&l->out), LINK_HEADER, LINK_HEADER, &r));
    SEFL_PASS(check_mark(l, &r, false));
    sefl_span rest = span_of(r.p, r.left);
    SEFL_PASS(as_alive(l, envelope_read(&got, rest)));
    SEFL_PASS(as_alive(l, envelope_check(&got, SIGN_HEADER, &l->c.task->servers)));
    if (got.content.n != n || memcmp(got.content.p, bytes, n) != 0)
        return as_alive(l, sefl_fail(SEFL_EPROTO, "CSP signed another header than AS sent"));
    return wr_raw(both, rest.p, rest.n);
}

sefl_status as_link_ping(as_link *l)
{
    return as_ask_simple(l, LINK_PING, span_of(NULL, 0), LINK_PONG);
}

sefl_status as_link_enrol(as_link *l, uint8_t sig[SIGN_BYTES], const enrol_claim *c,
                          const enrol_proof *p)
{
    rd r;
    buf_reset(&l->out);
    SEFL_PASS(enrol_question_write(&l->out, c, p));
    SEFL_PASS(as_ask(l, LINK_ENROL, buf_span(&l->out), LINK_APPROVED, LINK_APPROVED, &r));
    SEFL_PASS(as_alive(l, rd_raw(&r, sig, SIGN_BYTES)));
    SEFL_PASS(as_alive(l, rd_end(&r)));
    if (enrol_approved(sig, c, l->c.task->servers.csp) != SEFL_OK)
        return as_alive(l, sefl_fail(SEFL_EPROTO, "CSP's approval has an invalid signature"));
    return SEFL_OK;
}

/* Appends AS's signed order to l->out. */
static sefl_status put_order(as_link *l, uint64_t round, uint8_t what, uint8_t reason)
{
    link_order o = { .round = round, .what = what, .reason = reason };
    uint8_t bytes[LINK_ORDER_BYTES];
    envelope env = { .kind = SIGN_ORDER, .content = span_of(bytes, sizeof bytes) };
    memcpy(o.task, l->c.task->id, sizeof o.task);
    link_order_write(bytes, &o);
    SEFL_PASS(envelope_sign(&env, SIGNER_AS, l->c.key));
    return envelope_write(&l->out, &env);
}

sefl_status as_link_skip(as_link *l, uint64_t round, unsigned reason)
{
    SEFL_NEED(reason <= UINT8_MAX, SEFL_EINVAL, "a reason of %u, at most 255", reason);
    SEFL_PASS(put_mark(l));
    SEFL_PASS(put_order(l, round, LINK_ORDER_SKIP, (uint8_t)reason));
    as_forget_early(l);
    return as_ask_simple(l, LINK_SKIP, buf_span(&l->out), LINK_YES);
}

sefl_status as_link_bye(as_link *l, bool over)
{
    sefl_status st = SEFL_OK;
    SEFL_NEED(!l->dead, SEFL_ECLOSED, LINK_FAILED);
    buf_reset(&l->out);
    SEFL_TRY(wr_u8(&l->out, over));
    if (over)
        SEFL_TRY(put_order(l, 0, LINK_ORDER_OVER, 0));
    /* CSP must learn that the task has ended: only its YES confirms that */
    st = over ? as_ask_simple(l, LINK_BYE, buf_span(&l->out), LINK_YES)
              : link_send(l->ch, LINK_BYE, buf_span(&l->out));
done:
    l->dead = true;
    return st;
}

/* ---- the reveal ------------------------------------------------------------------------------ */

typedef struct one_reveal {
    as_link *l;
    const as_reveal *o;
    const task *t;
    int64_t *w;
    shares_slice slice;
    as_mask m;
} one_reveal;

static sefl_status lost(const char *why)
{
    return sefl_fail(SEFL_ECRYPTO, "%s: AS must skip the round, and its charge stands", why);
}

/* Writes the masked sum with all threads and sends it. */
static sefl_status send_sum(one_reveal *op)
{
    sefl_status st = SEFL_OK;
    as_link *l = op->l;
    const ahe_params *p = &op->t->ahe;
    const size_t per = link_sum_units(p);
    size_t most = per * p->unit_bytes;
    uint8_t *bytes = NULL;
    uint32_t index = 0;
    uint64_t t0 = now(l), t1;
    SEFL_TRY(sefl_new(&bytes, most, 1));
    for (size_t u = 0; u < p->units; u += per) {
        size_t n = p->units - u < per ? p->units - u : per;
        SEFL_TRY(ahe_sum_write_units(p, op->o->sum, bytes, u, n, op->m.seed, l->c.pool));
        l->times.write += (t1 = now(l)) - t0;
        SEFL_TRY(msg_send(l->ch, LINK_SUM, ++index, bytes, n * p->unit_bytes));
        SEFL_TRY(channel_flush(l->ch)); /* CSP works on it while we write the next */
        l->times.send += (t0 = now(l)) - t1;
    }
done:
    sefl_free(bytes);
    return st;
}

/* Receives CSP's output and checks its digest. */
static sefl_status receive_output(one_reveal *op, sefl_buf *output, uint8_t digest[SHA256_BYTES])
{
    channel *ch = op->l->ch;
    uint32_t kind = task_mode(op->t)->reply ? LINK_REPLY : LINK_PLAIN;
    uint8_t *to, is[SHA256_BYTES];
    size_t bytes;
    SEFL_PASS(task_output_bytes(&bytes, op->t));
    SEFL_PASS(buf_extend(output, &to, bytes));
    SEFL_PASS(msg_expect(ch, kind, 0, bytes + SHA256_BYTES, "CSP's output"));
    SEFL_PASS(channel_recv(ch, to, bytes));
    SEFL_PASS(channel_recv(ch, digest, SHA256_BYTES));
    sha256_of(is, buf_span(output));
    SEFL_NEED(memcmp(is, digest, sizeof is) == 0, SEFL_EPROTO, "CSP's output has changed");
    return SEFL_OK;
}

/* Computes w from the output that answers op->m. */
static sefl_status finish(one_reveal *op, sefl_span output, const uint8_t digest[SHA256_BYTES])
{
    const as_mask *m = &op->m;
    mode_as in = { .round = op->o->round,
                   .attempt = m->attempt,
                   .seed = m->seed,
                   .coins = m->coins,
                   .pool = op->l->c.pool,
                   .slice = m->slice,
                   .shares = buf_span(&m->x) };
    uint64_t began = now(op->l);
    sefl_status st = as_store_replied(op->o->store, op->o->round, op->m.attempt, digest);
    if (st == SEFL_ESTATE)
        return lost("CSP sends a different output than before");
    if (st == SEFL_OK)
        st = task_mode(op->t)->finish(op->w, op->t, output, &in);
    op->l->times.finish = now(op->l) - began;
    return st;
}

/* GO: mask, send, finish. */
static sefl_status run(one_reveal *op)
{
    sefl_status st = SEFL_OK;
    as_link *l = op->l;
    const as_reveal *o = op->o;
    uint8_t digest[SHA256_BYTES];
    sefl_buf output = { 0 };
    sefl_rng rng;
    uint64_t began = now(l), sent = l->ch->sent, received = l->ch->received;
    SEFL_TRY(coins_for(l->c.coins, &rng, "mask", o->round, o->attempt));
    SEFL_TRY(rng_fill(&rng, op->m.seed, sizeof op->m.seed));
    SEFL_TRY(rng_fill(&rng, op->m.coins, sizeof op->m.coins));
    op->m.attempt = o->attempt;
    memcpy(op->m.set, o->set, sizeof op->m.set);
    SEFL_TRY(as_store_mask(o->store, o->round, &op->m));
    l->times.mask = now(l) - began;
    SEFL_TRY(send_sum(op));
    began = now(l);
    SEFL_TRY(receive_output(op, &output, digest));
    l->times.wait = now(l) - began;
    SEFL_TRY(finish(op, buf_span(&output), digest));
    l->times.sent = l->ch->sent - sent;
    l->times.received = l->ch->received - received;
done:
    buf_clear(&output);
    return st;
}

/* KEPT: finishes the stored output with the mask of that attempt from our store. */
static sefl_status fetch(one_reveal *op, const uint8_t id[NOISE_ID])
{
    sefl_status st = SEFL_OK;
    const as_reveal *o = op->o;
    uint8_t want[NOISE_ID], digest[SHA256_BYTES];
    sefl_buf output = { 0 };
    SEFL_TRY(as_alive(op->l, receive_output(op, &output, digest)));
    as_mask_clear(&op->m);
    st = as_store_masked(o->store, o->round, &op->m);
    link_plain_id(want, op->m.attempt, o->set);
    if (st == SEFL_ENOTFOUND || (st == SEFL_OK && memcmp(id, want, NOISE_ID) != 0))
        st = lost("CSP has revealed a sum whose mask is not here (this server's state is damaged, "
                  "or an old copy)");
    SEFL_TRY(st);
    st = finish(op, buf_span(&output), digest);
    if (st == SEFL_EPROTO)
        st = lost(sefl_last_error());
done:
    buf_clear(&output);
    return st;
}

/* joint: takes shares that only this attempt uses. */
static sefl_status take_shares(one_reveal *op)
{
    sefl_status st = SEFL_OK;
    as_link *l = op->l;
    noise_params p = task_noise_params(op->t, op->o->round, op->o->attempt);
    shares_pool *shares = l->c.shares;
    const uint64_t count = op->t->values;
    uint8_t *x;
    buf_clear(&op->m.x);
    SEFL_NEED(shares, SEFL_EINVAL, "joint noise needs a pool of noise shares");
    do {
        if (shares_pool_have(shares) < count) {
            SEFL_NEED(l->c.shares_wait, SEFL_ESTATE,
                      "there are no noise shares, and no lane makes them");
            SEFL_PASS(l->c.shares_wait(l->c.shares_ctx, op->o->round, op->o->attempt, count));
        }
        st = shares_pool_pick(shares, &op->slice, count);
    } while (st == SEFL_ENOTFOUND && shares_pool_have(shares) < count);
    SEFL_PASS(st);
    shares_slice_hash(op->m.slice, &op->slice);
    SEFL_PASS(buf_extend(&op->m.x, &x, count * noise_value_bytes(&p)));
    return shares_pool_take(shares, &op->slice, x, noise_value_bytes(&p));
}

/* Checks, before AS draws a mask, that the attempt number is new. */
static sefl_status check_attempt(const as_reveal *o)
{
    as_mask m = { 0 };
    sefl_status st = as_store_masked(o->store, o->round, &m);
    uint64_t used = m.attempt;
    as_mask_clear(&m);
    if (st == SEFL_ENOTFOUND)
        return SEFL_OK;
    if (st == SEFL_OK && o->attempt <= used)
        return sefl_fail(
            SEFL_EINVAL, "round %llu: attempt %llu, but attempt %llu already has a mask",
            (unsigned long long)o->round, (unsigned long long)o->attempt, (unsigned long long)used);
    return st;
}

static sefl_status put_statement(as_link *l, const one_reveal *op)
{
    const as_reveal *o = op->o;
    round_statement s = {
        .round = o->round, .attempt = o->attempt, .clients = o->clients, .slice = op->slice
    };
    uint8_t bytes[STATEMENT_MAX];
    envelope env = { .kind = SIGN_STATEMENT };
    memcpy(s.task, l->c.task->id, sizeof s.task);
    memcpy(s.set, o->set, sizeof s.set);
    env.content = span_of(bytes, round_statement_write(bytes, &s));
    SEFL_PASS(put_mark(l));
    SEFL_PASS(envelope_sign(&env, SIGNER_AS, l->c.key));
    return envelope_write(&l->out, &env);
}

/* Sends REVEAL. If CSP does not have the named shares (it lost them, or never got them), tries
 * others. */
static sefl_status ask_reveal(one_reveal *op, bool shares, rd *r)
{
    enum { TRIES = 3 };
    sefl_status st = SEFL_OK;
    as_link *l = op->l;
    for (int i = 0; i < TRIES; i++) {
        if (shares)
            SEFL_PASS(take_shares(op));
        l->no = 0;
        SEFL_PASS(put_statement(l, op));
        st = as_ask(l, LINK_REVEAL, buf_span(&l->out), LINK_GO, LINK_KEPT, r);
        if (!shares || l->no != LINK_NO_SLICE)
            break;
        log_warn(l->c.log, "CSP does not have these noise shares", lf_u64("round", op->o->round));
        shares_pool_drop(l->c.shares, &op->slice);
    }
    return st;
}

/* Sealed tasks: reads COUNTED after the output, even after an unusable output (`st`), if the stream
 * is in step. */
static sefl_status read_counted(one_reveal *op, sefl_status st, const uint8_t *id)
{
    as_link *l = op->l;
    const as_reveal *o = op->o;
    char why[200] = "";
    if (!task_is_sealed(op->t) || l->dead)
        return st;
    if (st != SEFL_OK)
        snprintf(why, sizeof why, "%s", sefl_last_error());
    as_forget_early(l);
    sefl_status second = st == SEFL_OK ? as_receive_counted(l, o->round, o->set, id, o->counted)
                                       : as_receive_counted(l, o->round, NULL, NULL, NULL);
    if (st == SEFL_OK || second != SEFL_OK)
        return as_alive(l, second);
    return sefl_fail(st, "%s", why);
}

sefl_status as_link_reveal(as_link *l, const as_reveal *o, bool *kept, int64_t *w)
{
    sefl_status st = SEFL_OK;
    const task *t = l->c.task;
    one_reveal op = { .l = l, .o = o, .t = t, .w = w };
    uint8_t id[NOISE_ID];
    bool there_already = l->peer.revealed >= o->round;
    rd r;
    *kept = false;
    l->times = (as_times){ 0 };
    if (!there_already) {
        SEFL_CHECK(o->sum, SEFL_EINVAL, "round %llu is not revealed yet: the reveal needs its sum",
                   (unsigned long long)o->round);
        SEFL_TRY(check_attempt(o));
    }
    uint64_t began = now(l);
    SEFL_TRY(ask_reveal(&op, task_mode(t)->shares && !there_already, &r));
    SEFL_TRY(check_mark(l, &r, true));
    l->times.ask = now(l) - began;
    if (l->m.kind == LINK_KEPT) {
        *kept = true;
        SEFL_TRY(as_alive(l, rd_raw(&r, id, sizeof id)));
        SEFL_TRY(as_alive(l, rd_end(&r)));
        st = fetch(&op, id);
        SEFL_TRY(read_counted(&op, st, id));
    } else {
        st = rd_end(&r);
        if (st == SEFL_OK && there_already)
            st = sefl_fail(SEFL_EPROTO, "CSP would reveal round %llu again",
                           (unsigned long long)o->round);
        if (st == SEFL_OK)
            st = run(&op);
        link_plain_id(id, o->attempt, o->set);
        if (st == SEFL_OK || st == SEFL_ECRYPTO)
            st = read_counted(&op, st, id);
        if (st != SEFL_ECRYPTO) /* there the output is read: the stream is in step */
            (void)!as_alive(l, st);
        SEFL_TRY(st);
    }
    l->peer.revealed = l->peer.revealed > o->round ? l->peer.revealed : o->round;
done:
    if (st != SEFL_OK)
        sefl_wipe(w, t->values * sizeof *w);
    as_mask_clear(&op.m);
    return st;
}
