/* Design:
 *  1. One question is in progress at a time. The table `answers` says which message answers it.
 *  2. NO becomes a status and leaves the link usable; so does an unusable output of a reveal that
 *     has arrived completely. Any other failed answer marks the link dead.
 *  3. Once a question's first piece (HEADS, SUM) may have left, nothing can be undone: until CSP's
 *     VERDICT or DIGEST any failure, even of AS itself, ends the stream.
 *  4. `drive` is the only code that uses the channel. */
#include "sum/as_link.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "sum/as_internal.h"

#include <string.h>

uint64_t as_now(const as_link *l)
{
    return l->c.clock ? clock_ns(l->c.clock) : 0;
}

/* ---- ledgers --------------------------------------------------------------------------------- */

sefl_status as_put_mark(as_link *l)
{
    ledger_head ours;
    SEFL_PASS(l->c.ledger.head(l->c.ledger.ctx, &ours));
    return ledger_head_write(&l->out.body, &ours);
}

sefl_status as_check_mark(as_link *l, rd *r, bool equal)
{
    ledger_head ours, theirs;
    SEFL_PASS(ledger_head_read(r, &theirs));
    SEFL_PASS(l->c.ledger.head(l->c.ledger.ctx, &ours));
    ledger_order v = l->c.ledger.compare(l->c.ledger.ctx, &theirs);
    if (v == LEDGER_UNREADABLE)
        return SEFL_EIO;
    bool fit = v == LEDGER_SAME || (!equal && v == LEDGER_PEER_BEHIND &&
                                    ours.records - theirs.records <= LEDGER_CHARGE_RECORDS);
    if (!fit)
        l->outcome = AS_APART;
    SEFL_NEED(fit, SEFL_ESTATE, "the two ledgers do not agree: ours has %llu records, CSP's %llu%s",
              (unsigned long long)ours.records, (unsigned long long)theirs.records,
              v == LEDGER_FORKED ? ", of another history" : "");
    l->peer.behind = v == LEDGER_PEER_BEHIND;
    return SEFL_OK;
}

/* ---- short answers --------------------------------------------------------------------------- */

static sefl_status on_welcome(as_link *l, rd *r)
{
    uint16_t version;
    SEFL_PASS(rd_u16(r, &version));
    SEFL_NEED(version >= LINK_VERSION_LOWEST && version <= LINK_VERSION, SEFL_EUNSUPPORTED,
              "CSP chose version %u of the link", version);
    SEFL_PASS(as_check_mark(l, r, false));
    SEFL_PASS(rd_u64(r, &l->peer.signed_));
    SEFL_PASS(rd_u64(r, &l->peer.revealed));
    SEFL_PASS(rd_u64(r, &l->peer.skipped));
    SEFL_PASS(rd_raw(r, l->peer.pair, sizeof l->peer.pair));
    SEFL_PASS(rd_end(r));
    buf_reset(&l->out.body);
    SEFL_PASS(wr_raw(&l->out.body, l->c.envelope.p, l->c.envelope.n));
    as_queue(l, LINK_TASK);
    return SEFL_OK;
}

static sefl_status on_header(as_link *l, rd *r)
{
    envelope got;
    SEFL_PASS(as_check_mark(l, r, false));
    sefl_span rest = span_of(r->p, r->left);
    SEFL_PASS(envelope_read(&got, rest));
    SEFL_PASS(envelope_check(&got, SIGN_HEADER, &l->c.task->servers));
    SEFL_NEED(got.content.n == l->sent_n && memcmp(got.content.p, l->sent, l->sent_n) == 0,
              SEFL_EPROTO, "CSP signed another header than AS sent");
    return wr_raw(l->both, rest.p, rest.n);
}

static sefl_status on_approved(as_link *l, rd *r)
{
    SEFL_PASS(rd_raw(r, l->signature, SIGN_BYTES));
    SEFL_PASS(rd_end(r));
    SEFL_NEED(enrol_approved(l->signature, l->claim, l->c.task->servers.csp) == SEFL_OK,
              SEFL_EPROTO, "CSP's approval has an invalid signature");
    return SEFL_OK;
}

/* YES, PONG. */
static sefl_status on_empty(as_link *l, rd *r)
{
    (void)l;
    return rd_end(r);
}

/* ---- outcomes -------------------------------------------------------------------------------- */

/* What CSP's NO means. */
static as_outcome of_no(unsigned code, uint32_t question)
{
    static const as_outcome others[] = {
        [LINK_NO_VERSION] = AS_REFUSED,   [LINK_NO_TASK] = AS_REFUSED,
        [LINK_NO_SIGNATURE] = AS_REFUSED, [LINK_NO_ENROL] = AS_REFUSED,
        [LINK_NO_BUDGET] = AS_BUDGET,     [LINK_NO_KEY] = AS_LOST,
        [LINK_NO_REVEALED] = AS_LOST,     [LINK_NO_SKIPPED] = AS_LOST,
        [LINK_NO_SLICE] = AS_AGAIN,       [LINK_NO_FAULT] = AS_AGAIN,
        [LINK_NO_CLOCK] = AS_AGAIN, /* until someone has set a clock */
        [LINK_NO_PAUSED] = AS_PAUSED,     [LINK_NO_ENDED] = AS_ENDED,
        [LINK_NO_CHECKS] = AS_SPOILED,
    };
    if (code == LINK_NO_FEW && question == LINK_SET)
        return AS_LOST;
    if (code == LINK_NO_REVEALED && question == LINK_KEY) /* only AS itself reveals a round */
        return AS_APART;
    as_outcome o = code < sizeof others / sizeof *others ? others[code] : AS_GOT;
    return o != AS_GOT ? o : AS_APART;
}

as_outcome as_outcome_of(sefl_status st)
{
    static const as_outcome others[] = {
        [SEFL_EIO] = AS_AGAIN,      [SEFL_ENOMEM] = AS_AGAIN,   [SEFL_ECLOSED] = AS_AGAIN,
        [SEFL_ETIMEOUT] = AS_AGAIN, [SEFL_EPROTO] = AS_REFUSED, [SEFL_EBUDGET] = AS_BUDGET,
        [SEFL_ECRYPTO] = AS_LOST, /* what AS stored for the round is damaged */
    };
    as_outcome o = (size_t)st < sizeof others / sizeof *others ? others[st] : AS_GOT;
    return o != AS_GOT || st == SEFL_OK ? o : AS_FATAL;
}

as_outcome as_link_outcome(const as_link *l, sefl_status st)
{
    as_outcome own = as_outcome_of(st);
    if (st != SEFL_OK && l->outcome != AS_GOT)
        return l->outcome;
    return own == AS_FATAL && st != SEFL_ECANCELLED && as_link_dead(l) ? AS_REFUSED : own;
}

/* Turns NO into a status with CSP's message, without control characters. */
static sefl_status on_no(as_link *l, rd *r)
{
    uint16_t code;
    char words[200];
    size_t n = 0;
    SEFL_PASS(rd_u16(r, &code));
    for (; n + 1 < sizeof words && n < r->left; n++)
        words[n] = r->p[n] >= 0x20 && r->p[n] < 0x7f ? (char)r->p[n] : '?';
    words[n] = '\0';
    const as_outcome no = of_no(code, l->asked);
    const sefl_status st = no == AS_AGAIN     ? SEFL_EIO
                           : no == AS_REFUSED ? SEFL_EAUTH
                           : no == AS_BUDGET  ? SEFL_EBUDGET
                                              : SEFL_ESTATE;
    l->in_step = code != LINK_NO_FAULT || l->asked == LINK_ENROL; /* else CSP ends the stream */
    bool more = n > 0 && strcmp(words, link_no_text(code)) != 0;
    sefl_note("CSP refused %s: %s%s%s", link_kind_name(l->asked), link_no_text(code),
              more ? ": " : "", more ? words : "");
    if (l->asked == LINK_SET)
        as_forget_early(l); /* CSP has forgotten them too */
    if (code == LINK_NO_SLICE && l->revealing.shares)
        return as_other_shares(l, st);
    l->outcome = no;
    return st;
}

/* ---- the machine ----------------------------------------------------------------------------- */

/* What CSP may answer to each question; NO too, except to ACK and COUNTED. */
static const struct answer {
    uint32_t asked, kind, other;
    sefl_status (*on)(as_link *l, rd *body);
} answers[] = {
    { LINK_HELLO, LINK_WELCOME, 0, on_welcome },
    { LINK_TASK, LINK_YES, 0, on_empty },
    { LINK_KEY, LINK_KEY, 0, as_on_key },
    { LINK_HEADER, LINK_HEADER, 0, on_header },
    { LINK_VOUCH, LINK_YES, 0, on_empty },
    { LINK_EARLY, LINK_EARLY, 0, as_on_early },
    { LINK_SET, LINK_VERDICT, 0, as_on_verdict },
    { LINK_REVEAL, LINK_GO, LINK_KEPT, as_on_reveal },
    { LINK_SUM, LINK_DIGEST, 0, as_on_digest },
    { LINK_ACK, LINK_REPLY, LINK_PLAIN, as_on_output },
    { LINK_COUNTED, LINK_COUNTED, 0, as_on_counted },
    { LINK_SKIP, LINK_YES, 0, on_empty },
    { LINK_ENROL, LINK_APPROVED, 0, on_approved },
    { LINK_PING, LINK_PONG, 0, on_empty },
    { LINK_BYE, LINK_YES, 0, on_empty },
};

sefl_status as_begin(as_link *l)
{
    l->outcome = AS_GOT;
    SEFL_NEED(!l->dead, SEFL_ECLOSED, "the link to CSP has already failed");
    SEFL_NEED(l->phase == AS_IDLE, SEFL_ESTATE, "CSP has not answered %s yet",
              link_kind_name(l->asked));
    buf_reset(&l->out.body);
    return SEFL_OK;
}

void as_queue(as_link *l, uint32_t question)
{
    l->asked = l->out.kind = question;
    l->out.index = 0;
    l->phase = AS_ASK;
}

sefl_status as_end(as_link *l, sefl_status st)
{
    l->phase = AS_IDLE;
    l->dead |= l->asked == LINK_BYE;
    as_reveal_end(l, st);
    return st;
}

sefl_status as_link_next(as_link *l, const link_msg **out)
{
    sefl_status st = SEFL_OK;
    *out = NULL;
    if (l->phase == AS_ASK) {
        *out = &l->out;
        l->phase = l->asked == LINK_SET ? AS_HEADS : l->asked == LINK_REVEAL ? AS_SHARING : AS_WAIT;
        if (l->asked == LINK_BYE && l->out.body.p[0] == 0) /* not over: it gets no answer */
            return as_end(l, SEFL_OK);
    } else if (l->phase == AS_HEADS) {
        st = as_next_heads(l, out);
    } else if (l->phase == AS_SHARING) {
        l->phase = AS_WAIT;
        st = l->revealing.first ? as_keep_shares(l) : SEFL_OK;
    } else if (l->phase == AS_SUM) {
        st = as_next_sum(l, out);
    }
    l->dead |= st != SEFL_OK;
    return st == SEFL_OK ? SEFL_OK : as_end(l, st);
}

static sefl_status answered(as_link *l, const link_msg *in)
{
    const struct answer *a = answers;
    rd r = rd_over(buf_span(&in->body));
    SEFL_NEED(l->phase == AS_WAIT && in->index == 0, SEFL_EPROTO, "CSP sends %s unasked",
              link_kind_name(in->kind));
    while (a->asked != l->asked)
        a++;
    l->phase = AS_IDLE; /* unless the handler continues */
    l->got = in->kind;
    if (in->kind == LINK_NO && l->asked != LINK_ACK && l->asked != LINK_COUNTED)
        return on_no(l, &r);
    SEFL_NEED(in->kind == a->kind || (a->other && in->kind == a->other), SEFL_EPROTO,
              "CSP answers %s with %s", link_kind_name(l->asked), link_kind_name(in->kind));
    return a->on(l, &r);
}

sefl_status as_link_on(as_link *l, const link_msg *in)
{
    l->in_step = false;
    sefl_status st = answered(l, in);
    l->dead |= st != SEFL_OK && !l->in_step;
    return st != SEFL_OK || l->phase == AS_IDLE ? as_end(l, st) : SEFL_OK;
}

bool as_link_is_idle(const as_link *l)
{
    return l->phase == AS_IDLE;
}

/* ---- the loop over a channel ----------------------------------------------------------------- */

static sefl_status receive(as_link *l)
{
    uint32_t kind;
    size_t bytes;
    if (l->asked != LINK_ACK)
        return link_recv(l->ch, &l->in);
    SEFL_PASS(as_output_form(l, &kind, &bytes));
    return link_recv_piece(l->ch, &l->in, kind, bytes);
}

static sefl_status drive(as_link *l)
{
    const link_msg *out;
    while (!as_link_is_idle(l)) {
        SEFL_PASS(as_link_next(l, &out));
        sefl_status st = out ? link_send_msg(l->ch, out) : receive(l);
        if (st != SEFL_OK) {
            l->dead = true;
            return as_end(l, st);
        }
        if (!out)
            SEFL_PASS(as_link_on(l, &l->in));
    }
    return SEFL_OK;
}

sefl_status as_ask(as_link *l, uint32_t question)
{
    as_queue(l, question);
    return l->ch ? drive(l) : SEFL_OK;
}

/* ---- the object ------------------------------------------------------------------------------ */

sefl_status as_link_new(as_link **out, channel *ch, const as_link_config *cfg)
{
    SEFL_MAKE(as_link, l, out);
    uint8_t signature[SIGN_BYTES];
    sefl_buf *b = &l->out.body;
    l->c = *cfg;
    l->ch = ch;
    SEFL_TRY(wr_u16(b, LINK_VERSION_LOWEST));
    SEFL_TRY(wr_u16(b, LINK_VERSION));
    SEFL_TRY(as_put_mark(l));
    SEFL_TRY(wr_raw(b, cfg->task->id, TASK_ID));
    SEFL_TRY(wr_u64(b, cfg->wall ? clock_ms(cfg->wall) : 0));
    const size_t said = b->n;
    if (ch)
        SEFL_TRY(wr_raw(b, ch->binding, ch->binding_n)); /* both ends have it: it is not sent */
    SEFL_TRY(sign_make(signature, cfg->key, SIGN_LINK, buf_span(b)));
    b->n = said;
    SEFL_TRY(wr_raw(b, signature, sizeof signature));
    SEFL_TRY(as_ask(l, LINK_HELLO));
    SEFL_HAND_OVER(out, l, as_link_free);
}

void as_link_free(as_link *l)
{
    if (!l)
        return;
    as_reveal_end(l, SEFL_ECANCELLED);
    client_table_clear(&l->early);
    buf_clear(&l->in.body);
    buf_clear(&l->out.body);
    sefl_free(l);
}

const as_peer *as_link_peer(const as_link *l)
{
    return &l->peer;
}

bool as_link_dead(const as_link *l)
{
    return l->dead || (l->ch && l->ch->dead);
}

const as_times *as_link_times(const as_link *l)
{
    return &l->times;
}

/* ---- short questions ------------------------------------------------------------------------- */

sefl_status as_link_header(as_link *l, sefl_buf *both, const round_header *h)
{
    SEFL_PASS(as_begin(l));
    l->both = both;
    l->sent_n = round_header_write(l->sent, h);
    envelope env = { .kind = SIGN_HEADER, .content = span_of(l->sent, l->sent_n) };
    SEFL_PASS(as_put_mark(l));
    SEFL_PASS(envelope_sign(&env, SIGNER_AS, l->c.key));
    SEFL_PASS(envelope_write(&l->out.body, &env));
    return as_ask(l, LINK_HEADER);
}

sefl_status as_link_ping(as_link *l)
{
    SEFL_PASS(as_begin(l));
    return as_ask(l, LINK_PING);
}

sefl_status as_link_enrol(as_link *l, uint8_t sig[SIGN_BYTES], const enrol_claim *c,
                          const enrol_proof *p)
{
    SEFL_PASS(as_begin(l));
    l->signature = sig, l->claim = c;
    SEFL_PASS(enrol_question_write(&l->out.body, c, p));
    return as_ask(l, LINK_ENROL);
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
    return envelope_write(&l->out.body, &env);
}

sefl_status as_link_skip(as_link *l, uint64_t round, unsigned reason)
{
    SEFL_NEED(reason <= UINT8_MAX, SEFL_EINVAL, "a reason of %u, at most 255", reason);
    SEFL_PASS(as_begin(l));
    SEFL_PASS(as_put_mark(l));
    SEFL_PASS(put_order(l, round, LINK_ORDER_SKIP, (uint8_t)reason));
    as_forget_early(l);
    return as_ask(l, LINK_SKIP);
}

sefl_status as_link_bye(as_link *l, bool over)
{
    sefl_status st = SEFL_OK;
    SEFL_PASS(as_begin(l));
    l->asked = LINK_BYE; /* the link ends, whatever happens */
    SEFL_TRY(wr_u8(&l->out.body, over));
    if (over)
        SEFL_TRY(put_order(l, 0, LINK_ORDER_OVER, 0));
    return as_ask(l, LINK_BYE);
done:
    return as_end(l, st);
}
