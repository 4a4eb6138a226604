/* CSP. Design: as garbler.c, rule 1; and
 *  2. DEPTH chunks are under way: a chunk's first message leaves before the chunk DEPTH - 1 earlier
 *     is finished, so that the garbler never waits for us.
 *  3. Output bytes leave only after every coordinate is evaluated and the hook `open` has returned.
 *  4. After online only colours and digest are left. */
#include "base/alloc.h"
#include "base/ct.h"
#include "mpc/noise/session.h"

#include <string.h>

enum { DEPTH = 3 };

struct noise_evaluator {
    noise_session s;
    ot_receiver *ot;
    gc_evaluator *off, *on;
    noise_store *batch;
    uint8_t *colours;
    uint8_t digest[SHA256_BYTES];

    ot_block block[2];   /* offline: chunk c uses c % 2 */
    gc_label *in[DEPTH]; /* chunk c uses c % DEPTH */
    uint8_t *corrections, *tables;
    gc_label *out, *rows, *fold;
    uint64_t *digit;
    uint32_t *value;
    uint8_t *choice;
    size_t tables_bytes, rows_n, in_n, out_n;
};

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t batch_record(const noise_evaluator *e, size_t blocks)
{
    return blocks * e->s.wires_x * GC_LANES * GC_LABEL;
}

static sefl_status scratch(noise_evaluator *e)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &e->s;
    size_t blocks = s->chunk_blocks, copies = blocks * GC_LANES, off, on;
    SEFL_TRY(gc_table_bytes(&off, s->off, blocks));
    SEFL_TRY(gc_table_bytes(&on, s->on, blocks));
    e->tables_bytes = max_size(off, on);
    e->rows_n = copies * s->p.k + OT_GRAIN;
    e->in_n = copies * max_size(s->wires_r, s->p.k + s->wires_x);
    e->out_n = copies * max_size(s->p.k, s->wires_x);
    for (int i = 0; i < 2; i++)
        SEFL_TRY(ot_block_init(&e->block[i], noise_batch(s, blocks)));
    for (int i = 0; i < DEPTH; i++)
        SEFL_TRY(sefl_new(&e->in[i], e->in_n, sizeof *e->in[i]));
    SEFL_TRY(
        sefl_new(&e->corrections, ot_correction_bytes(s->p.ot_k, noise_batch(s, blocks), true), 1));
    SEFL_TRY(sefl_new(&e->tables, e->tables_bytes, 1));
    SEFL_TRY(sefl_new(&e->out, e->out_n, sizeof *e->out));
    SEFL_TRY(sefl_new(&e->rows, e->rows_n, sizeof *e->rows));
    SEFL_TRY(sefl_new(&e->fold, copies, sizeof *e->fold));
    SEFL_TRY(sefl_new(&e->digit, copies, sizeof *e->digit));
    SEFL_TRY(sefl_new(&e->value, copies, sizeof *e->value));
    SEFL_TRY(sefl_new(&e->choice, noise_bits_bytes(s, blocks), 1));
done:
    return st;
}

/* What the steps up to online live on. */
static void wipe_work(noise_evaluator *e)
{
    noise_session *s = &e->s;
    size_t copies = s->p.chunk;
    for (int i = 0; i < 2; i++)
        ot_block_clear(&e->block[i]);
    for (int i = 0; i < DEPTH; i++) {
        sefl_free_secret(e->in[i], e->in[i] ? e->in_n * sizeof *e->in[i] : 0);
        e->in[i] = NULL;
    }
    sefl_free(e->corrections);
    sefl_free(e->tables);
    sefl_free_secret(e->choice, e->choice ? noise_bits_bytes(s, s->chunk_blocks) : 0);
    sefl_free_secret(e->out, e->out ? e->out_n * sizeof *e->out : 0);
    sefl_free_secret(e->rows, e->rows ? e->rows_n * sizeof *e->rows : 0);
    sefl_free_secret(e->fold, e->fold ? copies * sizeof *e->fold : 0);
    sefl_free_secret(e->digit, e->digit ? copies * sizeof *e->digit : 0);
    sefl_free_secret(e->value, e->value ? copies * sizeof *e->value : 0);
    e->corrections = e->tables = e->choice = NULL;
    e->out = e->rows = e->fold = NULL;
    e->digit = NULL;
    e->value = NULL;
    noise_store_free(e->batch);
    ot_receiver_free(e->ot);
    gc_evaluator_free(e->off);
    gc_evaluator_free(e->on);
    e->batch = NULL;
    e->ot = NULL;
    e->off = e->on = NULL;
    prg_clear(&s->coins);
}

static void wipe(noise_evaluator *e)
{
    wipe_work(e);
    sefl_free_secret(e->colours, e->colours ? noise_bits_bytes(&e->s, e->s.blocks) : 0);
    e->colours = NULL;
    sefl_wipe(e->digest, sizeof e->digest);
}

/* The end of a step: a broken attempt keeps nothing. */
static sefl_status leave(noise_evaluator *e, sefl_status st)
{
    if (e->s.state == NOISE_BROKEN)
        wipe(e);
    return st;
}

void noise_evaluator_free(noise_evaluator *e)
{
    if (!e)
        return;
    wipe(e);
    noise_session_clear(&e->s);
    sefl_free_secret(e, sizeof *e);
}

sefl_status noise_evaluator_new(noise_evaluator **out, channel *ch, const noise_params *p,
                                const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    noise_evaluator *e = NULL;
    gc_label key;
    *out = NULL;
    SEFL_TRY(sefl_new(&e, 1, sizeof *e));
    SEFL_TRY(noise_session_open(&e->s, ch, p, 'E', rng));
    SEFL_TRY(scratch(e));
    SEFL_TRY(msg_recv(ch, NOISE_MSG_KEY, 0, &key, sizeof key, "noise hash key"));
    SEFL_TRY(noise_session_key(&e->s, &key));
    SEFL_TRY(ot_receiver_new(&e->ot, ch, e->s.p.ot_k, e->s.id, rng));
    SEFL_TRY(gc_evaluator_new(&e->off, e->s.off, &e->s.off_cfg));
    SEFL_TRY(gc_evaluator_new(&e->on, e->s.on, &e->s.on_cfg));
    e->s.state = NOISE_NEW;
    *out = e, e = NULL;
done:
    noise_evaluator_free(e);
    return st;
}

const uint8_t *noise_evaluator_id(const noise_evaluator *e)
{
    return e->s.id;
}

static sefl_status offline_extend(noise_evaluator *e, channel *ch, size_t c)
{
    noise_session *s = &e->s;
    size_t batch = noise_batch(s, noise_chunk_blocks(s, c));
    ot_receiver_extend(e->ot, &e->block[c % 2], c, batch, e->corrections);
    sefl_status st = msg_send(ch, NOISE_MSG_EXTEND, (uint32_t)c, e->corrections,
                              ot_correction_bytes(s->p.ot_k, batch, true));
    return st == SEFL_OK ? channel_flush(ch) : st;
}

static sefl_status offline_answer(noise_evaluator *e, channel *ch, size_t c)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &e->s;
    size_t blocks = noise_chunk_blocks(s, c), copies = blocks * GC_LANES;
    uint8_t seed[OT_KEY], answer[OT_CHECK_BYTES];
    const ot_block *b = &e->block[c % 2];
    SEFL_TRY(msg_recv(ch, NOISE_MSG_SEED, (uint32_t)c, seed, sizeof seed, "noise OT seed"));
    ot_receiver_answer(e->ot, answer, b, seed);
    SEFL_TRY(msg_send(ch, NOISE_MSG_CHECK, (uint32_t)c, answer, sizeof answer));
    SEFL_TRY(channel_flush(ch));
    ot_block_rows(b, (uint8_t *)e->in[c % DEPTH], copies * s->p.k, copies * s->wires_r);
done:
    return st;
}

static sefl_status offline_evaluate(noise_evaluator *e, channel *ch, size_t c)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &e->s;
    size_t blocks = noise_chunk_blocks(s, c), bytes;
    SEFL_TRY(gc_table_bytes(&bytes, s->off, blocks));
    SEFL_TRY(msg_recv(ch, NOISE_MSG_TABLES, (uint32_t)c, e->tables, bytes, "noise tables"));
    SEFL_TRY(gc_evaluate(e->off, e->out, e->tables, bytes, e->in[c % DEPTH], c * s->chunk_blocks,
                         blocks));
    SEFL_TRY(noise_store_put(e->batch, e->out, batch_record(e, blocks)));
done:
    return st;
}

sefl_status noise_evaluator_offline(noise_evaluator *e, channel *ch)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &e->s;
    SEFL_TRY(noise_session_enter(s, NOISE_NEW, "offline"));
    SEFL_TRY(noise_store_new(&e->batch, batch_record(e, s->chunk_blocks), s->chunks, s->p.store_dir,
                             &s->rng));
    SEFL_TRY(offline_extend(e, ch, 0));
    for (size_t c = 0; c < s->chunks; c++) {
        if (c + 1 < s->chunks)
            SEFL_TRY(offline_extend(e, ch, c + 1));
        if (c > 0)
            SEFL_TRY(offline_evaluate(e, ch, c - 1)); /* while the garbler works on c */
        SEFL_TRY(offline_answer(e, ch, c));
    }
    SEFL_TRY(offline_evaluate(e, ch, s->chunks - 1));
    s->state = NOISE_READY;
done:
    return leave(e, st);
}

static sefl_status online_choose(noise_evaluator *e, channel *ch, size_t c,
                                 const noise_digits *masked)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &e->s;
    size_t blocks = noise_chunk_blocks(s, c), bits = noise_bits_bytes(s, blocks);
    ot_block *b = &e->block[0];
    SEFL_TRY(noise_own_values(s, e->value, e->digit, masked, c, 1));
    noise_planes(e->choice, e->value, noise_chunk_coords(s, c), s->p.k, blocks);
    ot_receiver_again(e->ot, b, c, 0, noise_inputs(s, blocks));
    for (size_t i = 0; i < bits; i++)
        e->choice[i] ^= b->u[i];
    CT_PUBLIC(e->choice, bits); /* sent; the OT's own choice bits are a one-time pad */
    sha256_add(&s->choices, span_of(e->choice, bits));
    SEFL_TRY(msg_send(ch, NOISE_MSG_CHOICE, (uint32_t)c, e->choice, bits));
    SEFL_TRY(channel_flush(ch));
    ot_block_rows(b, (uint8_t *)e->rows, 0, blocks * GC_LANES * s->p.k);
    SEFL_TRY(noise_store_take(e->batch, e->out, batch_record(e, blocks)));
    noise_join(e->in[c % DEPTH], e->rows, e->out, s->p.k, s->wires_x, blocks);
done:
    return st;
}

static sefl_status online_evaluate(noise_evaluator *e, channel *ch, size_t c, sha256 *h)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &e->s;
    size_t blocks = noise_chunk_blocks(s, c), copies = blocks * GC_LANES, bytes;
    size_t bits = noise_bits_bytes(s, blocks);
    uint8_t *colours = e->colours + c * noise_bits_bytes(s, s->chunk_blocks);
    SEFL_TRY(gc_table_bytes(&bytes, s->on, blocks));
    SEFL_TRY(msg_recv(ch, NOISE_MSG_ONLINE, (uint32_t)c, e->tables, bytes, "noise online tables"));
    SEFL_TRY(gc_evaluate(e->on, e->out, e->tables, bytes, e->in[c % DEPTH], c * s->chunk_blocks,
                         blocks));
    gc_colours(colours, e->out, copies * s->p.k);
    noise_fold(e->fold, e->out, s->p.k, blocks);
    sha256_add(h, span_of(colours, bits));
    sha256_add(h, span_of(e->fold, copies * sizeof *e->fold));
done:
    return st;
}

sefl_status noise_evaluator_online(noise_evaluator *e, channel *ch, const noise_digits *masked,
                                   const noise_evaluator_hooks *hooks)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &e->s;
    uint8_t id[NOISE_ID];
    size_t total = noise_bits_bytes(s, s->blocks), ahead = 0;
    sha256 h;
    if (!hooks || !hooks->open)
        return sefl_fail(SEFL_EINVAL, "noise online: CSP wants the hook open");
    SEFL_TRY(noise_session_enter(s, NOISE_READY, "online"));
    SEFL_TRY(msg_send(ch, NOISE_MSG_BEGIN, 0, s->id, sizeof s->id));
    SEFL_TRY(msg_recv(ch, NOISE_MSG_BEGIN, 0, id, sizeof id, "noise begin"));
    SEFL_CHECK(memcmp(id, s->id, sizeof id) == 0, SEFL_EPROTO,
               "noise online: the peer holds another batch");
    SEFL_TRY(sefl_new(&e->colours, total, 1));
    noise_digest_begin(s, &h);
    for (size_t c = 0; c < s->chunks; c++) {
        for (; ahead < s->chunks && ahead < c + DEPTH; ahead++)
            SEFL_TRY(online_choose(e, ch, ahead, masked));
        SEFL_TRY(online_evaluate(e, ch, c, &h));
    }
    noise_digest_end(s, &h, e->digest);
    SEFL_TRY(hooks->open(hooks->ctx, s->id, span_of(e->colours, total), e->digest));
    wipe_work(e);
    s->state = NOISE_SENT;
done:
    return leave(e, st);
}

sefl_status noise_evaluator_output(noise_evaluator *e, channel *ch)
{
    noise_session *s = &e->s;
    if (s->state != NOISE_SENT)
        return noise_session_enter(s, NOISE_SENT, "output");
    return noise_output_send(ch, s->id, span_of(e->colours, noise_bits_bytes(s, s->blocks)),
                             e->digest);
}

noise_session *noise_evaluator_session(noise_evaluator *e)
{
    return &e->s;
}

unsigned noise_evaluator_holds(const noise_evaluator *e)
{
    static const prg none;
    bool work = e->ot || e->off || e->on || e->batch || e->block[0].columns ||
                e->block[1].columns || e->corrections || e->tables || e->choice || e->out ||
                e->rows || e->fold || e->digit || e->value ||
                memcmp(&e->s.coins.key, &none.key, sizeof none.key) != 0;
    for (int i = 0; i < DEPTH; i++)
        work |= e->in[i] != NULL;
    return (work ? NOISE_HOLDS_WORK : 0) | (e->colours ? NOISE_HOLDS_OUTPUT : 0);
}

void noise_evaluator_coins(noise_evaluator *e, uint8_t *bits, size_t c)
{
    const noise_session *s = &e->s;
    size_t blocks = noise_chunk_blocks(s, c);
    ot_receiver_again(e->ot, &e->block[0], c, 0, noise_batch(s, blocks));
    memcpy(bits, e->block[0].u + blocks * s->p.k * 2, blocks * s->wires_r * 2);
}
