/* The opening at CSP. The order of things is the rule of one opening (noise.h):
 *     charge durable -> sum decrypted -> result computed -> journal->open: output and mark durable
 *     -> the first byte of the output leaves
 * After the mark this file reads the output from the journal and repeats it, and nothing else. */
#include "base/alloc.h"
#include "base/ct.h"
#include "base/sha256.h"
#include "protocol/csp_internal.h"
#include "protocol/own_noise.h"
#include "protocol/unit_digits.h"

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
} opening;

static sefl_status no_skipped(csp *c, channel *ch, const csp_round *r)
{
    return csp_no(c, ch, LINK_NO_SKIPPED,
                  r->skip == CSP_SKIP_OLD_STATE ? CSP_OLD_STATE_TEXT : NULL);
}

sefl_status csp_on_prepare(csp *c, channel *ch, rd *r)
{
    sefl_status st = SEFL_OK;
    const csp_journal *j = c->c.journal;
    csp_round now;
    uint64_t round, attempt, began = csp_now(c);
    sefl_rng rng;
    SEFL_TRY(rd_u64(r, &round));
    SEFL_TRY(rd_u64(r, &attempt));
    SEFL_TRY(rd_end(r));
    if (c->c.task->noise != TASK_NOISE_JOINT)
        return csp_no(c, ch, LINK_NO_ORDER, "this task has no joint noise to prepare");
    if ((st = j->get(j->ctx, round, &now)) != SEFL_OK)
        return csp_fault(c, ch, st, "prepare");
    if (now.state == CSP_SKIPPED)
        return no_skipped(c, ch, &now);
    if (now.state != CSP_SIGNED)
        return csp_no(c, ch, LINK_NO_ORDER, "only a round that is signed and not open is prepared");
    csp_drop_attempt(c);
    noise_params p = task_noise_params(c->c.task, round, attempt);
    p.store_dir = c->c.store_dir;
    SEFL_TRY(coins_for(c->c.coins, &rng, "noise", round, attempt));
    SEFL_TRY(link_send(ch, LINK_YES, span_of(NULL, 0)));
    SEFL_TRY(noise_evaluator_new(&c->e, ch, &p, &rng));
    SEFL_TRY(noise_evaluator_offline(c->e, ch));
    c->e_round = round, c->e_attempt = attempt;
    c->times.offline = csp_now(c) - began;
    log_debug(c->c.log, "prepared", lf_u64("round", round), lf_u64("attempt", attempt));
done:
    return st;
}

/* ---- what was kept --------------------------------------------------------------------------- */

static sefl_status send_plain(channel *ch, sefl_span units)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(msg_begin(ch, LINK_PLAIN, 0, units.n));
    SEFL_TRY(channel_send(ch, units.p, units.n));
    SEFL_TRY(channel_flush(ch));
done:
    return st;
}

/* The output of an opening, with the bytes that were made durable. */
static sefl_status send_output(csp *c, channel *ch, uint64_t round, const uint8_t id[NOISE_ID],
                               sefl_span output, const uint8_t digest[SHA256_BYTES])
{
    noise_params p = task_noise_params(c->c.task, round, link_plain_attempt(id));
    switch (c->c.task->noise) {
    case TASK_NOISE_JOINT:
        return noise_output_send(ch, id, output, digest);
    case TASK_NOISE_OWN:
        return noise_own_send(ch, &p, output.p);
    case TASK_NOISE_NONE:
        break;
    }
    return send_plain(ch, output);
}

/* Bytes of an output. */
static sefl_status output_bytes(const csp *c, size_t *bytes)
{
    const task *t = c->c.task;
    noise_params p = task_noise_params(t, 1, 1);
    if (t->noise == TASK_NOISE_JOINT)
        return noise_output_bytes(bytes, &p);
    if (t->noise == TASK_NOISE_OWN)
        return noise_own_bytes(bytes, &p);
    *bytes = t->ahe.units * t->ahe.plain_bytes;
    return SEFL_OK;
}

static sefl_status send_kept(csp *c, channel *ch, uint64_t round, const ledger_mark *theirs)
{
    sefl_status st = SEFL_OK;
    const csp_journal *j = c->c.journal;
    sefl_buf output = { 0 };
    uint8_t id[NOISE_ID], digest[SHA256_BYTES], is[SHA256_BYTES];
    size_t bytes;
    if (!csp_ledgers_equal(c, theirs))
        return csp_no_ledger(c, ch, theirs);
    st = j->kept(j->ctx, round, id, &output, digest);
    if (st == SEFL_ENOTFOUND) {
        st = csp_no(c, ch, LINK_NO_OPENED, NULL);
        goto done;
    }
    if (st == SEFL_OK)
        st = output_bytes(c, &bytes);
    if (st == SEFL_OK && output.n != bytes)
        st = sefl_fail(SEFL_EIO, "%zu bytes stored of an output of %zu", output.n, bytes);
    if (st == SEFL_OK && c->c.task->noise != TASK_NOISE_JOINT) { /* joint: AS alone can check it */
        sha256_of(is, buf_span(&output));
        if (memcmp(is, digest, sizeof is) != 0)
            st = sefl_fail(SEFL_EIO, "the stored output has changed");
    }
    if (st != SEFL_OK) {
        st = csp_fault(c, ch, st, "kept output");
        goto done;
    }
    log_info(c->c.log, "output sent again", lf_u64("round", round));
    SEFL_TRY(csp_answer_mark(c, ch, LINK_KEPT, span_of(id, sizeof id)));
    SEFL_TRY(send_output(c, ch, round, id, buf_span(&output), digest));
done:
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
    ahe_dec *dec = NULL;
    uint8_t *bytes = NULL, context[AHE_CONTEXT_BYTES];
    uint32_t index = 0;
    uint64_t t0 = csp_now(c), t1;
    size_t most = per * p->sum_unit_bytes;
    SEFL_TRY(sefl_new(&bytes, most > p->sum_head_bytes ? most : p->sum_head_bytes, 1));
    SEFL_TRY(sefl_new(&o->plain, o->plain_bytes, 1));
    task_context(context, c->c.task, o->s.round);
    SEFL_TRY(ahe_dec_new(&dec, p, c->c.sec, context));
    if (p->sum_head_bytes > 0)
        SEFL_TRY(msg_recv(o->ch, LINK_SUM, 0, bytes, p->sum_head_bytes, "head of the masked sum"));
    SEFL_TRY(ahe_dec_head(p, dec, bytes, c->c.pool));
    for (size_t u = 0; u < p->units; u += per) {
        size_t n = p->units - u < per ? p->units - u : per;
        SEFL_TRY(msg_recv(o->ch, LINK_SUM, ++index, bytes, n * p->sum_unit_bytes, "masked sum"));
        c->times.receive += (t1 = csp_now(c)) - t0;
        SEFL_TRY(ahe_dec_units(p, dec, o->plain + u * p->plain_bytes, u, bytes, n, c->c.pool,
                               c->c.stop));
        c->times.decrypt += (t0 = csp_now(c)) - t1;
    }
done:
    ahe_dec_free(p, dec);
    sefl_free(bytes);
    return st;
}

/* Output and mark durable: from here on the round is open. */
static sefl_status keep(opening *o, const uint8_t id[NOISE_ID], sefl_span output,
                        const uint8_t digest[SHA256_BYTES])
{
    csp *c = o->c;
    const csp_journal *j = c->c.journal;
    uint64_t began = csp_now(c);
    sefl_status st = j->open(j->ctx, o->s.round, o->envelope, id, output, digest);
    c->times.store = csp_now(c) - began;
    if (st != SEFL_OK)
        log_error(c->c.log, "opening not stored", lf_u64("round", o->s.round),
                  lf_str("why", sefl_last_error()));
    return st;
}

static sefl_status keep_hook(void *ctx, const uint8_t id[NOISE_ID], sefl_span colours,
                             const uint8_t digest[SHA256_BYTES])
{
    return keep(ctx, id, colours, digest);
}

static sefl_status open_joint(opening *o)
{
    sefl_status st = SEFL_OK;
    csp *c = o->c;
    unit_digits d = { 0 };
    noise_evaluator_hooks hooks = { .ctx = o, .open = keep_hook };
    uint64_t began = csp_now(c);
    SEFL_TRY(unit_digits_init(&d, &c->c.task->ahe, o->plain, NULL));
    noise_digits from = unit_digits_of(&d);
    SEFL_TRY(noise_evaluator_online(c->e, o->ch, &from, &hooks));
    c->times.compute = csp_now(c) - began - c->times.store;
    began = csp_now(c);
    SEFL_TRY(noise_evaluator_output(c->e, o->ch));
    SEFL_TRY(channel_flush(o->ch));
    c->times.output = csp_now(c) - began;
done:
    unit_digits_clear(&d);
    return st;
}

/* Stores and sends a reply that needs nothing more from AS. */
static sefl_status keep_and_send(opening *o, sefl_span output)
{
    sefl_status st = SEFL_OK;
    csp *c = o->c;
    uint8_t id[NOISE_ID], digest[SHA256_BYTES];
    link_plain_id(id, o->s.attempt, o->s.set);
    sha256_of(digest, output);
    SEFL_TRY(keep(o, id, output, digest));
    uint64_t began = csp_now(c);
    SEFL_TRY(send_output(c, o->ch, o->s.round, id, output, digest));
    c->times.output = csp_now(c) - began;
done:
    return st;
}

static sefl_status open_own(opening *o)
{
    sefl_status st = SEFL_OK;
    csp *c = o->c;
    noise_params p = task_noise_params(c->c.task, o->s.round, o->s.attempt);
    own_noise own;
    noise_source source = own_noise_of(&own);
    unit_digits d = { 0 };
    uint8_t *reply = NULL;
    size_t bytes = 0;
    uint64_t began = csp_now(c);
    SEFL_TRY(noise_own_bytes(&bytes, &p));
    SEFL_TRY(sefl_new(&reply, bytes, 1));
    SEFL_TRY(own_noise_init(&own, c->c.task));
    SEFL_TRY(coins_for(c->c.coins, &own.rng, "own", o->s.round, o->s.attempt));
    SEFL_TRY(unit_digits_init(&d, &c->c.task->ahe, o->plain, NULL));
    noise_digits from = unit_digits_of(&d);
    SEFL_TRY(noise_own_make(reply, &p, &from, &source, &own.rng));
    c->times.compute = csp_now(c) - began;
    SEFL_TRY(keep_and_send(o, span_of(reply, bytes)));
done:
    unit_digits_clear(&d);
    if (reply)
        sefl_free_secret(reply, bytes);
    return st;
}

static sefl_status run(opening *o)
{
    sefl_status st = SEFL_OK;
    csp *c = o->c;
    o->plain_bytes = c->c.task->ahe.units * c->c.task->ahe.plain_bytes;
    SEFL_TRY(csp_answer_mark(c, o->ch, LINK_GO, span_of(NULL, 0)));
    SEFL_TRY(receive_sum(o));
    switch (c->c.task->noise) {
    case TASK_NOISE_JOINT:
        SEFL_TRY(open_joint(o));
        break;
    case TASK_NOISE_OWN:
        SEFL_TRY(open_own(o));
        break;
    case TASK_NOISE_NONE:
        SEFL_TRY(keep_and_send(o, span_of(o->plain, o->plain_bytes)));
        break;
    }
    log_info(c->c.log, "round opened", lf_u64("round", o->s.round), lf_u64("attempt", o->s.attempt),
             lf_u64("decrypt_ms", c->times.decrypt / 1000000),
             lf_u64("compute_ms", c->times.compute / 1000000),
             lf_u64("store_ms", c->times.store / 1000000));
done:
    if (o->plain)
        sefl_free_secret(o->plain, o->plain_bytes);
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

sefl_status csp_on_open(csp *c, channel *ch, rd *r)
{
    sefl_status st = SEFL_OK;
    const csp_journal *j = c->c.journal;
    const task *t = c->c.task;
    opening o = { .c = c, .ch = ch };
    ledger_mark theirs;
    envelope env;
    csp_round now;
    bool ok;
    SEFL_TRY(link_mark_read(r, &theirs));
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
        return no_skipped(c, ch, &now);
    case CSP_OPENED:
        return send_kept(c, ch, o.s.round, &theirs);
    case CSP_SIGNED:
        break;
    }
    if (o.s.clients < t->threshold || o.s.clients > t->clients_max)
        return csp_no(c, ch, LINK_NO_FEW, NULL);
    SEFL_TRY(members_fit(c, ch, &o.s, &ok));
    if (!ok)
        goto done;
    if (t->noise == TASK_NOISE_JOINT &&
        (!c->e || c->e_round != o.s.round || c->e_attempt != o.s.attempt))
        return csp_no(c, ch, LINK_NO_ORDER, "this attempt was not prepared");
    if ((st = csp_ledgers_fit(c, &theirs, &ok)) != SEFL_OK)
        return csp_fault(c, ch, st, "open");
    if (!ok)
        return csp_no_ledger(c, ch, &theirs);
    c->times = (csp_times){ .offline = c->times.offline };
    uint64_t began = csp_now(c);
    st = j->charge(j->ctx, o.s.round);
    c->times.charge = csp_now(c) - began;
    if (st == SEFL_EBUDGET)
        return csp_no(c, ch, LINK_NO_BUDGET, sefl_last_error());
    if (st != SEFL_OK)
        return csp_fault(c, ch, st, "open");
    if (!csp_ledgers_equal(c, &theirs)) /* what AS has more is not this charge; ours may stand */
        return csp_no_ledger(c, ch, &theirs);
    st = run(&o);
    csp_drop_attempt(c); /* it served, or it is broken */
done:
    return st;
}
