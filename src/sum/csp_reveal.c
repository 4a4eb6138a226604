/* The opening at CSP. The order of things is the rule of one opening (noise/online.h):
 *     ledgers compared -> shares taken, erased from the pool -> charge durable -> sum decrypted -> reply
 *     computed -> journal->open: output and mark durable -> the round's key wiped -> the first byte of the
 *     output leaves
 * Shares that were taken are gone, whatever fails after that.
 * After the mark this file reads the output from the journal and repeats it, and nothing else. */
#include "base/alloc.h"
#include "base/ct.h"
#include "base/sha256.h"
#include "sum/csp_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct opening {
    csp *c;
    channel *ch;
    round_statement s;
    sefl_span envelope; /* of the statement, in the message's buffer */
    uint8_t *plain;     /* masked plain units */
    size_t plain_bytes;
    uint8_t *x; /* joint: shares, noise_value_bytes each */
    size_t x_bytes;
} opening;

sefl_status csp_no_skipped(csp *c, channel *ch, const csp_round *r)
{
    return csp_no(c, ch, LINK_NO_SKIPPED,
                  r->skip == CSP_SKIP_OLD_STATE ? CSP_OLD_STATE_TEXT
                  : r->skip == CSP_SKIP_EXPIRED ? CSP_EXPIRED_TEXT
                  : r->skip == CSP_SKIP_FEW     ? CSP_FEW_TEXT
                                                : NULL);
}

/* ---- what was kept --------------------------------------------------------------------------- */

/* The output of an opening, the bytes that were made durable, with their SHA-256. */
static sefl_status send_output(csp *c, channel *ch, sefl_span output,
                               const uint8_t digest[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    uint32_t kind = task_mode(c->c.task)->reply ? LINK_REPLY : LINK_PLAIN;
    SEFL_TRY(msg_begin(ch, kind, 0, output.n + SHA256_BYTES));
    SEFL_TRY(channel_send(ch, output.p, output.n));
    SEFL_TRY(channel_send(ch, digest, SHA256_BYTES));
    SEFL_TRY(channel_flush(ch));
done:
    return st;
}

/* Sealed tasks: CSP's signature on who is in the release; the same bytes every time. */
static sefl_status send_counted(csp *c, channel *ch, uint64_t round,
                                const uint8_t root[SHA256_BYTES], const uint8_t id[NOISE_ID])
{
    sefl_status st = SEFL_OK;
    counted_statement s = { .round = round };
    uint8_t bytes[COUNTED_STATEMENT_BYTES];
    envelope env = { .kind = SIGN_COUNTED, .content = span_of(bytes, sizeof bytes) };
    memcpy(s.task, c->c.task->id, sizeof s.task);
    memcpy(s.root, root, sizeof s.root);
    memcpy(s.id, id, sizeof s.id);
    counted_statement_write(bytes, &s);
    SEFL_TRY(envelope_sign(&env, SIGNER_CSP, c->c.key));
    buf_reset(&c->out);
    SEFL_TRY(envelope_write(&c->out, &env));
    SEFL_TRY(link_send(ch, LINK_COUNTED, buf_span(&c->out)));
done:
    return st;
}

static sefl_status send_kept(csp *c, channel *ch, uint64_t round, const ledger_head *theirs)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    sefl_buf output = { 0 };
    csp_set set = { 0 };
    uint8_t id[NOISE_ID], digest[SHA256_BYTES], is[SHA256_BYTES];
    size_t bytes;
    if (!csp_ledgers_equal(c, theirs))
        return csp_no_ledger(c, ch, theirs);
    st = j->kept(j->ctx, round, id, &output, digest);
    if (st == SEFL_ENOTFOUND) {
        st = csp_no(c, ch, LINK_NO_REVEALED, NULL);
        goto done;
    }
    if (st == SEFL_OK)
        st = task_output_bytes(&bytes, c->c.task);
    if (st == SEFL_OK && output.n != bytes)
        st = sefl_fail(SEFL_EIO, "%zu bytes stored of an output of %zu", output.n, bytes);
    if (st == SEFL_OK) {
        sha256_of(is, buf_span(&output));
        if (memcmp(is, digest, sizeof is) != 0)
            st = sefl_fail(SEFL_EIO, "the stored output has changed");
    }
    if (st == SEFL_OK && task_is_sealed(c->c.task))
        st = j->set_get(j->ctx, round, &set);
    if (st == SEFL_OK)
        st = csp_key_done(c, round); /* a crash may have come between the mark and this */
    if (st != SEFL_OK) {
        st = csp_fault(c, ch, st, "kept output");
        goto done;
    }
    log_info(c->c.log, "output sent again", lf_u64("round", round));
    SEFL_TRY(csp_answer_mark(c, ch, LINK_KEPT, span_of(id, sizeof id)));
    SEFL_TRY(send_output(c, ch, buf_span(&output), digest));
    if (task_is_sealed(c->c.task))
        SEFL_TRY(send_counted(c, ch, round, set.root, id));
done:
    csp_set_clear(&set);
    buf_clear(&output);
    return st;
}

/* ---- an opening ------------------------------------------------------------------------------- */

/* Receives the masked sum and decrypts it, piece by piece. */
static sefl_status receive_sum(opening *o)
{
    sefl_status st = SEFL_OK;
    csp *c = o->c;
    const ahe_params *p = &c->c.task->ahe;
    const size_t per = link_sum_units(p);
    ahe_dec *dec = NULL, *own = NULL;
    uint8_t *bytes = NULL, context[AHE_CONTEXT_BYTES];
    uint32_t index = 0;
    uint64_t t0 = csp_now(c), t1;
    size_t most = per * p->unit_bytes;
    SEFL_TRY(sefl_new(&bytes, most, 1));
    SEFL_TRY(sefl_new(&o->plain, o->plain_bytes, 1));
    task_context(context, c->c.task, o->s.round);
    if (task_is_sealed(c->c.task)) {
        dec = gather_dec(c); /* the kept clients' pads, and nothing else */
    } else {
        SEFL_TRY(ahe_dec_new(&own, p, c->c.sec, context));
        dec = own;
    }
    for (size_t u = 0; u < p->units; u += per) {
        size_t n = p->units - u < per ? p->units - u : per;
        SEFL_TRY(msg_recv(o->ch, LINK_SUM, ++index, bytes, n * p->unit_bytes, "masked sum"));
        c->times.receive += (t1 = csp_now(c)) - t0;
        SEFL_TRY(ahe_dec_units(p, dec, o->plain + u * p->plain_bytes, u, bytes, n, c->c.pool,
                               c->c.stop));
        c->times.decrypt += (t0 = csp_now(c)) - t1;
    }
done:
    ahe_dec_free(p, own);
    sefl_free(bytes);
    return st;
}

/* Output and mark durable: from here on the round is open. Then the first byte leaves. */
static sefl_status keep_and_send(opening *o, sefl_span output)
{
    sefl_status st = SEFL_OK;
    csp *c = o->c;
    const csp_store *j = c->c.journal;
    uint8_t id[NOISE_ID], digest[SHA256_BYTES];
    uint64_t began = csp_now(c);
    link_plain_id(id, o->s.attempt, o->s.set);
    sha256_of(digest, output);
    st = j->open(j->ctx, o->s.round, o->envelope, id, output, digest);
    if (st == SEFL_OK) {
        csp_set_live(c, 0, 0);
        st = csp_key_done(c, o->s.round);
    }
    c->times.store = csp_now(c) - began;
    if (st != SEFL_OK) {
        log_error(c->c.log, "opening not stored", lf_u64("round", o->s.round),
                  lf_str("why", sefl_last_error()));
        goto done;
    }
    began = csp_now(c);
    SEFL_TRY(send_output(c, o->ch, output, digest));
    if (task_is_sealed(c->c.task))
        SEFL_TRY(send_counted(c, o->ch, o->s.round, o->s.set, id));
    c->times.output = csp_now(c) - began;
done:
    return st;
}

/* The masked sum is complete: only now CSP draws its coins for the reply. */
static sefl_status make_reply(opening *o, uint8_t **reply, size_t *bytes)
{
    sefl_status st = SEFL_OK;
    csp *c = o->c;
    uint8_t slice[SHA256_BYTES];
    mode_csp in = { .round = o->s.round,
                    .attempt = o->s.attempt,
                    .plain = o->plain,
                    .slice = slice,
                    .shares = o->x };
    uint64_t began = csp_now(c);
    shares_slice_hash(slice, &o->s.slice);
    SEFL_TRY(task_output_bytes(bytes, c->c.task));
    SEFL_TRY(sefl_new(reply, *bytes, 1));
    SEFL_TRY(coins_for(c->c.coins, &in.rng, "reply", o->s.round, o->s.attempt));
    SEFL_TRY(task_mode(c->c.task)->reply(*reply, c->c.task, &in));
    c->times.compute = csp_now(c) - began;
done:
    return st;
}

static sefl_status run(opening *o)
{
    sefl_status st = SEFL_OK;
    csp *c = o->c;
    uint8_t *reply = NULL;
    size_t bytes = 0;
    o->plain_bytes = c->c.task->ahe.units * c->c.task->ahe.plain_bytes;
    SEFL_TRY(csp_answer_mark(c, o->ch, LINK_GO, span_of(NULL, 0)));
    SEFL_TRY(receive_sum(o));
    if (task_mode(c->c.task)->reply)
        SEFL_TRY(make_reply(o, &reply, &bytes));
    SEFL_TRY(keep_and_send(o, reply ? span_of(reply, bytes) : span_of(o->plain, o->plain_bytes)));
    log_info(c->c.log, "round opened", lf_u64("round", o->s.round), lf_u64("attempt", o->s.attempt),
             lf_u64("decrypt_ms", c->times.decrypt / 1000000),
             lf_u64("compute_ms", c->times.compute / 1000000),
             lf_u64("store_ms", c->times.store / 1000000));
done:
    if (reply)
        sefl_free_secret(reply, bytes);
    if (o->plain)
        sefl_free_secret(o->plain, o->plain_bytes);
    return st;
}

/* The shares that the statement names, out of the pool for ever. NO if they are not there. */
static sefl_status take_slice(opening *o, bool *ok)
{
    sefl_status st = SEFL_OK;
    csp *c = o->c;
    const task *t = c->c.task;
    noise_params p = task_noise_params(t, o->s.round, o->s.attempt);
    bool joint = task_mode(t)->shares;
    unsigned bytes = noise_value_bytes(&p);
    *ok = false;
    if (shares_slice_count(&o->s.slice) != (joint ? t->values : 0))
        return csp_no(c, o->ch, LINK_NO_SLICE, "a slice of another length than the vector");
    *ok = true;
    if (!joint)
        return SEFL_OK;
    SEFL_TRY(sefl_new(&o->x, t->values, bytes));
    o->x_bytes = t->values * bytes;
    if (!c->c.shares || shares_pool_take(c->c.shares, &o->s.slice, o->x, bytes) != SEFL_OK) {
        *ok = false;
        return csp_no(c, o->ch, LINK_NO_SLICE, c->c.shares ? sefl_last_error() : NULL);
    }
done:
    return st;
}

/* NO is answered if AS states more clients than there are. */
static sefl_status members_fit(csp *c, channel *ch, const round_statement *s, bool *ok)
{
    uint64_t most = UINT64_MAX;
    char why[120];
    *ok = true;
    if (!c->c.members)
        return SEFL_OK;
    sefl_status st = c->c.members(c->c.enrol_ctx, s->round, false, &most);
    if (st != SEFL_OK || s->clients > most)
        *ok = false;
    if (st != SEFL_OK)
        return csp_fault(c, ch, st, "members");
    if (*ok)
        return SEFL_OK;
    snprintf(why, sizeof why, "%" PRIu32 " clients are stated, %" PRIu64 " were approved",
             s->clients, most);
    return csp_no(c, ch, LINK_NO_MEMBERS, why);
}

sefl_status csp_on_reveal(csp *c, channel *ch, rd *r)
{
    sefl_status st = SEFL_OK;
    const csp_store *j = c->c.journal;
    const task *t = c->c.task;
    opening o = { .c = c, .ch = ch };
    ledger_head theirs, after;
    envelope env;
    csp_round now;
    bool ok;
    SEFL_TRY(ledger_head_read(r, &theirs));
    o.envelope = span_of(r->p, r->left);
    SEFL_TRY(envelope_read(&env, o.envelope));
    SEFL_TRY(csp_from_as(c, ch, &env, SIGN_STATEMENT, &ok));
    if (!ok)
        goto done;
    SEFL_TRY(round_statement_read(&o.s, env.content));
    if ((st = j->get(j->ctx, o.s.round, &now)) != SEFL_OK)
        return csp_fault(c, ch, st, "open");
    switch (now.state) {
    case CSP_NEW:
        return csp_no(c, ch, LINK_NO_HEADER, "a round whose header was never signed");
    case CSP_SKIPPED:
        return csp_no_skipped(c, ch, &now);
    case CSP_REVEALED:
        return send_kept(c, ch, o.s.round, &theirs);
    case CSP_SIGNED:
        break;
    }
    if (o.s.clients < t->threshold || o.s.clients > t->clients_max)
        return csp_no(c, ch, LINK_NO_FEW, NULL);
    if (task_is_sealed(t)) {
        const csp_set *set = gather_verdict(c, o.s.round);
        if (!set)
            return csp_no(c, ch, LINK_NO_ORDER, "SET comes first, on each stream");
        if (o.s.clients != set->kept_n || memcmp(o.s.set, set->root, sizeof o.s.set) != 0)
            return csp_no(c, ch, LINK_NO_ORDER, "the statement is not about the set that was kept");
    } else {
        SEFL_TRY(members_fit(c, ch, &o.s, &ok));
        if (!ok)
            goto done;
    }
    st = j->ledger.head_after(j->ledger.ctx, o.s.round, &after);
    if (st == SEFL_EBUDGET)
        return csp_no(c, ch, LINK_NO_BUDGET, sefl_last_error());
    if (st != SEFL_OK)
        return csp_fault(c, ch, st, "open");
    if (!ledger_head_equal(&after,
                           &theirs)) /* what AS has more is not this charge: nothing is written */
        return csp_no_ledger(c, ch, &theirs);
    SEFL_TRY(take_slice(&o, &ok));
    if (!ok)
        goto done;
    c->times = (csp_times){ 0 };
    uint64_t began = csp_now(c);
    st = j->charge(j->ctx, o.s.round);
    c->times.charge = csp_now(c) - began;
    if (st == SEFL_EBUDGET)
        st = csp_no(c, ch, LINK_NO_BUDGET, sefl_last_error());
    else if (st != SEFL_OK)
        st = csp_fault(c, ch, st, "open");
    else {
        st = run(&o);
        gather_drop(c); /* it served, or it is broken */
    }
done:
    if (o.x)
        sefl_free_secret(o.x, o.x_bytes);
    return st;
}
