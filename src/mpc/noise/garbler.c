/* AS. Design:
 *  1. Every step enters through noise_session_enter, which marks the attempt broken; only the end
 *     of the step marks it fit for the next one. So no path resumes a step.
 *  2. Tables of a chunk leave after the chunk's OT check (offline) and are garbled after its
 *     correction bits have come (online).
 *  3. A record of the offline store is taken once; what output needs goes to a second store.
 *  4. After online only that store, Delta and one record's room are left; after output nothing. */
#include "base/alloc.h"
#include "base/ct.h"
#include "mpc/noise/session.h"

#include <string.h>

struct noise_garbler {
    noise_session s;
    gc_label delta;
    ot_sender *ot;
    gc_garbler *off, *on;
    prg bits; /* own halves of the random bits */
    noise_store *batch, *outputs;

    /* scratch for one chunk */
    ot_block block;
    uint8_t *corrections[2]; /* offline: chunk c uses c % 2 */
    uint8_t *tables, *choice, *record;
    gc_label *rows, *in, *out;
    uint64_t *digit;
    size_t tables_bytes, choice_bytes, record_bytes, rows_n, in_n, out_n;
};

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Offline record: zero labels of X, corrections of the input bits. */
static size_t batch_record(const noise_garbler *g, size_t blocks)
{
    return blocks * g->s.wires_x * GC_LANES * GC_LABEL +
           ot_correction_bytes(g->s.p.ot_k, noise_inputs(&g->s, blocks), false);
}

/* Output record: folds of the zero labels, v', decode bits. */
static size_t output_record(const noise_garbler *g, size_t blocks)
{
    return blocks * GC_LANES * (GC_LABEL + sizeof(uint32_t)) + noise_bits_bytes(&g->s, blocks);
}

static sefl_status scratch(noise_garbler *g)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &g->s;
    size_t blocks = s->chunk_blocks, copies = blocks * GC_LANES, off, on;
    SEFL_TRY(gc_table_bytes(&off, s->off, blocks));
    SEFL_TRY(gc_table_bytes(&on, s->on, blocks));
    g->tables_bytes = max_size(off, on);
    g->record_bytes = max_size(batch_record(g, blocks), output_record(g, blocks));
    g->rows_n = copies * max_size(s->wires_r, s->p.k) + OT_GRAIN;
    g->choice_bytes = max_size(noise_bits_bytes(s, blocks), blocks * s->wires_r * 2);
    g->in_n = copies * (s->p.k + s->wires_x);
    g->out_n = copies * max_size(s->p.k, s->wires_x);
    SEFL_TRY(ot_block_init(&g->block, noise_batch(s, blocks)));
    for (int i = 0; i < 2; i++)
        SEFL_TRY(sefl_new(&g->corrections[i],
                          ot_correction_bytes(s->p.ot_k, noise_batch(s, blocks), true), 1));
    SEFL_TRY(sefl_new(&g->tables, g->tables_bytes, 1));
    SEFL_TRY(sefl_new(&g->choice, g->choice_bytes, 1));
    SEFL_TRY(sefl_new(&g->record, g->record_bytes, 1));
    SEFL_TRY(sefl_new(&g->rows, g->rows_n, sizeof *g->rows));
    SEFL_TRY(sefl_new(&g->in, g->in_n, sizeof *g->in));
    SEFL_TRY(sefl_new(&g->out, g->out_n, sizeof *g->out));
    SEFL_TRY(sefl_new(&g->digit, copies, sizeof *g->digit));
done:
    return st;
}

/* What the steps up to online live on. */
static void wipe_work(noise_garbler *g)
{
    sefl_free_secret(g->digit, g->digit ? g->s.p.chunk * sizeof *g->digit : 0);
    for (int i = 0; i < 2; i++) {
        sefl_free(g->corrections[i]);
        g->corrections[i] = NULL;
    }
    sefl_free_secret(g->tables, g->tables ? g->tables_bytes : 0);
    sefl_free_secret(g->choice, g->choice ? g->choice_bytes : 0);
    sefl_free_secret(g->rows, g->rows ? g->rows_n * sizeof *g->rows : 0);
    sefl_free_secret(g->in, g->in ? g->in_n * sizeof *g->in : 0);
    sefl_free_secret(g->out, g->out ? g->out_n * sizeof *g->out : 0);
    g->digit = NULL;
    g->tables = g->choice = NULL;
    g->rows = g->in = g->out = NULL;
    ot_block_clear(&g->block);
    noise_store_free(g->batch);
    ot_sender_free(g->ot);
    gc_garbler_free(g->off);
    gc_garbler_free(g->on);
    g->batch = NULL;
    g->ot = NULL;
    g->off = g->on = NULL;
    prg_clear(&g->bits);
    prg_clear(&g->s.coins);
}

/* Everything. What is left is a session that answers SEFL_ESTATE. */
static void wipe(noise_garbler *g)
{
    wipe_work(g);
    sefl_free_secret(g->record, g->record ? g->record_bytes : 0);
    noise_store_free(g->outputs);
    g->record = NULL;
    g->outputs = NULL;
    sefl_wipe(&g->delta, sizeof g->delta);
}

/* The end of a step: an attempt that is broken or finished keeps nothing. */
static sefl_status leave(noise_garbler *g, sefl_status st)
{
    if (g->s.state == NOISE_BROKEN || g->s.state == NOISE_DONE)
        wipe(g);
    return st;
}

void noise_garbler_free(noise_garbler *g)
{
    if (!g)
        return;
    wipe(g);
    noise_session_clear(&g->s);
    sefl_free_secret(g, sizeof *g);
}

sefl_status noise_garbler_new(noise_garbler **out, channel *ch, const noise_params *p,
                              const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    noise_garbler *g = NULL;
    gc_label key;
    uint8_t seed[PRG_SEED] = { 0 };
    *out = NULL;
    SEFL_TRY(sefl_new(&g, 1, sizeof *g));
    SEFL_TRY(noise_session_open(&g->s, ch, p, 'G', rng));
    SEFL_TRY(scratch(g));
    SEFL_TRY(gc_delta_draw(&g->delta, rng));
    SEFL_TRY(rng_fill(rng, seed, sizeof seed));
    prg_init(&g->bits, seed, "noise AS bits");
    SEFL_TRY(rng_fill(rng, &key, sizeof key));
    SEFL_TRY(msg_send(ch, NOISE_MSG_KEY, 0, &key, sizeof key));
    SEFL_TRY(noise_session_key(&g->s, &key));
    SEFL_TRY(ot_sender_new(&g->ot, ch, g->s.p.ot_k, (const uint8_t *)&g->delta, g->s.id, rng));
    SEFL_TRY(gc_garbler_new(&g->off, g->s.off, &g->s.off_cfg, &g->delta));
    SEFL_TRY(gc_garbler_new(&g->on, g->s.on, &g->s.on_cfg, &g->delta));
    g->s.state = NOISE_NEW;
    *out = g, g = NULL;
done:
    sefl_wipe(seed, sizeof seed);
    noise_garbler_free(g);
    return st;
}

const uint8_t *noise_garbler_id(const noise_garbler *g)
{
    return g->s.id;
}

/* The evaluator sends those of the next chunk before its answer for this one. */
static sefl_status offline_corrections(noise_garbler *g, channel *ch, size_t c)
{
    size_t batch = noise_batch(&g->s, noise_chunk_blocks(&g->s, c));
    return msg_recv(ch, NOISE_MSG_EXTEND, (uint32_t)c, g->corrections[c % 2],
                    ot_correction_bytes(g->s.p.ot_k, batch, true), "noise OT corrections");
}

static sefl_status offline_chunk(noise_garbler *g, channel *ch, size_t c)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &g->s;
    uint32_t index = (uint32_t)c;
    size_t blocks = noise_chunk_blocks(s, c), batch = noise_batch(s, blocks);
    size_t inputs = blocks * GC_LANES * s->p.k, n = blocks * GC_LANES * s->wires_r, bytes;
    uint8_t seed[OT_KEY], answer[OT_CHECK_BYTES];
    SEFL_TRY(ot_sender_extend(g->ot, &g->block, c, batch, g->corrections[c % 2]));
    SEFL_TRY(rng_fill(&s->rng, seed, sizeof seed));
    SEFL_TRY(msg_send(ch, NOISE_MSG_SEED, index, seed, sizeof seed));
    SEFL_TRY(channel_flush(ch));

    ot_block_rows(&g->block, (uint8_t *)g->rows, inputs, n);
    prg_fill(&g->bits, g->choice, blocks * s->wires_r * 2);
    gc_encode(g->rows, g->rows, g->choice, n, &g->delta);
    SEFL_TRY(gc_table_bytes(&bytes, s->off, blocks));
    SEFL_TRY(gc_garble(g->off, g->tables, bytes, g->out, g->rows, c * s->chunk_blocks, blocks));

    if (c + 1 < s->chunks)
        SEFL_TRY(offline_corrections(g, ch, c + 1));
    SEFL_TRY(msg_recv(ch, NOISE_MSG_CHECK, index, answer, sizeof answer, "noise OT check"));
    SEFL_TRY(ot_sender_check(g->ot, &g->block, seed, answer));
    SEFL_TRY(msg_send(ch, NOISE_MSG_TABLES, index, g->tables, bytes));

    size_t labels = blocks * s->wires_x * GC_LANES * GC_LABEL;
    memcpy(g->record, g->out, labels);
    ot_sender_keep(g->ot, g->record + labels, g->corrections[c % 2], batch, 0,
                   noise_inputs(s, blocks));
    SEFL_TRY(noise_store_put(g->batch, g->record, batch_record(g, blocks)));
done:
    return st;
}

sefl_status noise_garbler_offline(noise_garbler *g, channel *ch)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &g->s;
    SEFL_TRY(noise_session_enter(s, NOISE_NEW, "offline"));
    SEFL_TRY(noise_store_new(&g->batch, batch_record(g, s->chunk_blocks), s->chunks, s->p.store_dir,
                             &s->rng));
    SEFL_TRY(offline_corrections(g, ch, 0));
    for (size_t c = 0; c < s->chunks; c++)
        SEFL_TRY(offline_chunk(g, ch, c));
    SEFL_TRY(channel_flush(ch));
    s->state = NOISE_READY;
done:
    return leave(g, st);
}

static sefl_status online_chunk(noise_garbler *g, channel *ch, size_t c, const noise_digits *mask,
                                const noise_garbler_hooks *hooks)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &g->s;
    uint32_t index = (uint32_t)c;
    size_t blocks = noise_chunk_blocks(s, c), copies = blocks * GC_LANES, bytes;
    size_t labels = copies * s->wires_x * GC_LABEL, bits = noise_bits_bytes(s, blocks);
    SEFL_TRY(msg_recv(ch, NOISE_MSG_CHOICE, index, g->choice, bits, "noise correction bits"));
    sha256_add(&s->choices, span_of(g->choice, bits));

    SEFL_TRY(noise_store_take(g->batch, g->record, batch_record(g, blocks)));
    SEFL_TRY(ot_sender_again(g->ot, &g->block, c, 0, noise_inputs(s, blocks), g->record + labels));
    ot_block_rows(&g->block, (uint8_t *)g->rows, 0, copies * s->p.k);
    gc_encode(g->rows, g->rows, g->choice, copies * s->p.k, &g->delta);
    noise_join(g->in, g->rows, (const gc_label *)g->record, s->p.k, s->wires_x, blocks);
    SEFL_TRY(gc_table_bytes(&bytes, s->on, blocks));
    SEFL_TRY(gc_garble(g->on, g->tables, bytes, g->out, g->in, c * s->chunk_blocks, blocks));

    /* what output will want: folds, v', decode bits */
    gc_label *fold = (gc_label *)g->record;
    uint32_t *v = (uint32_t *)(fold + copies);
    uint8_t *decode = (uint8_t *)(v + copies);
    noise_fold(fold, g->out, s->p.k, blocks);
    gc_colours(decode, g->out, copies * s->p.k);
    memset(v, 0, copies * sizeof *v);
    SEFL_TRY(noise_own_values(s, v, g->digit, mask, c, -1));
    SEFL_TRY(noise_store_put(g->outputs, g->record, output_record(g, blocks)));
    SEFL_TRY(hooks->keep(hooks->ctx, s->id, c * s->p.chunk, noise_chunk_coords(s, c),
                         span_of(decode, bits), v));
    if (c + 1 == s->chunks)
        SEFL_TRY(hooks->seal(hooks->ctx, s->id));
    SEFL_TRY(msg_send(ch, NOISE_MSG_ONLINE, index, g->tables, bytes));
done:
    return st;
}

sefl_status noise_garbler_online(noise_garbler *g, channel *ch, const noise_digits *mask,
                                 const noise_garbler_hooks *hooks)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &g->s;
    uint8_t id[NOISE_ID];
    if (!hooks || !hooks->keep || !hooks->seal)
        return sefl_fail(SEFL_EINVAL, "noise online: AS wants the hooks keep and seal");
    SEFL_TRY(noise_session_enter(s, NOISE_READY, "online"));
    SEFL_TRY(msg_send(ch, NOISE_MSG_BEGIN, 0, s->id, sizeof s->id));
    SEFL_TRY(msg_recv(ch, NOISE_MSG_BEGIN, 0, id, sizeof id, "noise begin"));
    SEFL_CHECK(memcmp(id, s->id, sizeof id) == 0, SEFL_EPROTO,
               "noise online: the peer holds another batch");
    SEFL_TRY(noise_store_new(&g->outputs, output_record(g, s->chunk_blocks), s->chunks,
                             s->p.store_dir, &s->rng));
    for (size_t c = 0; c < s->chunks; c++)
        SEFL_TRY(online_chunk(g, ch, c, mask, hooks));
    SEFL_TRY(channel_flush(ch));
    wipe_work(g);
    s->state = NOISE_SENT;
done:
    return leave(g, st);
}

sefl_status noise_garbler_output(noise_garbler *g, channel *ch, int32_t *w)
{
    sefl_status st = SEFL_OK;
    noise_session *s = &g->s;
    uint8_t *colours = NULL, theirs[SHA256_BYTES], ours[SHA256_BYTES], id[NOISE_ID];
    uint32_t *value = NULL;
    size_t total = noise_bits_bytes(s, s->blocks), at = 0, copies_max = s->p.chunk;
    bool untouched = false; /* nothing is consumed: one may try again */
    sha256 h;
    SEFL_TRY(noise_session_enter(s, NOISE_SENT, "output"));
    untouched = true;
    SEFL_TRY(sefl_new(&colours, total, 1));
    SEFL_TRY(sefl_new(&value, copies_max, sizeof *value));
    SEFL_TRY(noise_output_receive(ch, id, colours, total, theirs));
    SEFL_CHECK(memcmp(id, s->id, NOISE_ID) == 0, SEFL_EPROTO, "noise output: of another attempt");
    untouched = false;
    noise_digest_begin(s, &h);
    for (size_t c = 0; c < s->chunks; c++) {
        size_t blocks = noise_chunk_blocks(s, c), copies = blocks * GC_LANES;
        size_t bits = noise_bits_bytes(s, blocks), n = noise_chunk_coords(s, c);
        gc_label *fold = (gc_label *)g->record;
        const uint32_t *v = (const uint32_t *)(fold + copies);
        uint8_t *decode = (uint8_t *)(fold + copies) + copies * sizeof *v;
        SEFL_TRY(noise_store_take(g->outputs, g->record, output_record(g, blocks)));
        for (size_t i = 0; i < bits; i++)
            decode[i] ^= colours[at + i];
        noise_values(value, decode, copies, s->p.k);
        noise_fold_add(fold, value, copies, s->p.k, &g->delta);
        sha256_add(&h, span_of(colours + at, bits));
        sha256_add(&h, span_of(fold, copies * sizeof *fold));
        noise_results(w + c * s->p.chunk, value, v, n, &s->p);
        at += bits;
    }
    noise_digest_end(s, &h, ours);
    SEFL_CHECK(ct_eq_bytes(ours, theirs, SHA256_BYTES), SEFL_ECRYPTO,
               "noise output: the digest is wrong; the round must be skipped, the charge stands");
    s->state = NOISE_DONE;
done:
    if (st != SEFL_OK) {
        sefl_wipe(w, s->p.count * sizeof *w);
        if (untouched)
            s->state = NOISE_SENT;
    }
    sefl_free(colours);
    sefl_free_secret(value, value ? copies_max * sizeof *value : 0);
    return leave(g, st);
}

noise_session *noise_garbler_session(noise_garbler *g)
{
    return &g->s;
}

unsigned noise_garbler_holds(const noise_garbler *g)
{
    static const prg none;
    static const gc_label zero;
    bool work = g->ot || g->off || g->on || g->batch || g->block.columns || g->corrections[0] ||
                g->corrections[1] || g->tables || g->choice || g->rows || g->in || g->out ||
                g->digit || memcmp(&g->bits.key, &none.key, sizeof none.key) != 0 ||
                memcmp(&g->s.coins.key, &none.key, sizeof none.key) != 0;
    bool output = g->outputs || g->record || memcmp(&g->delta, &zero, sizeof zero) != 0;
    return (work ? NOISE_HOLDS_WORK : 0) | (output ? NOISE_HOLDS_OUTPUT : 0);
}

void noise_garbler_coins(const noise_garbler *g, uint8_t *bits, size_t c)
{
    const noise_session *s = &g->s;
    prg_read(&g->bits, bits, noise_chunk_blocks(s, c) * s->wires_r * 2, 0,
             c * s->chunk_blocks * s->wires_r * 2);
}
