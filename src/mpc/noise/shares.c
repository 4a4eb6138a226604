/* Both sides of a session. Order of messages (G: CSP, E: AS), for chunks 0, 1, 2, ...:
 *     E  hello, base OT                     G  hello, base OT, hash key
 *     E  corrections 0, corrections 1       G  seed 0
 *     E  answer 0, corrections 2            G  seed 1, tables 0
 *     E  answer 1, corrections 3            G  seed 2, tables 1           ...
 * Rules:
 *  1. Lane keys of a chunk are drawn after its check has passed, and leave with its tables.
 *  2. A chunk's labels are fixed by its corrections: nothing that E sends later changes them.
 *  3. E answers to nothing that comes after its check: tables and rows decide no message of E.
 * Sixteen values make a block; the last chunk is padded with values nobody looks at. */
#include "mpc/noise/shares.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/ct.h"
#include "base/sha256.h"
#include "crypto/prg/prg.h"
#include "mpc/garble/garble.h"
#include "mpc/ot/ext.h"

#include <string.h>

enum {
    MSG_HELLO = 0x53480001,
    MSG_KEY = 0x53480002,
    MSG_EXTEND = 0x53480003,
    MSG_SEED = 0x53480004,
    MSG_CHECK = 0x53480005,
    MSG_TABLES = 0x53480006,

    HELLO = 96 + 32, /* parameters, nonce */
    ALIGN = 128,
    CHUNK_MAX = 8192,
    DEPTH = 2, /* chunks under way */
    LANES = GC_LANES * GC_LABEL,
};

/* What both sides have. */
typedef struct session {
    shares_params p; /* defaults filled in */
    circuit *c;
    unsigned coins; /* a value */
    size_t chunks, chunk_blocks, blocks;
    uint64_t row_tweak;
    gc_config cfg;
    uint8_t *id;

    ot_block block[DEPTH]; /* chunk c uses c % DEPTH */
    gc_label *in, *out;
    gc_label *labels[DEPTH]; /* E: input labels of a chunk that was answered */
    uint8_t *corrections;
    uint8_t *message; /* lane keys, tables, rows */
    uint64_t *share;  /* of one chunk */
    size_t in_n, out_n, message_bytes;
} session;

/* ---- parameters ------------------------------------------------------------------------------ */

static sefl_status fill_params(shares_params *out, const shares_params *p)
{
    sefl_status st = SEFL_OK;
    shares_params q = *p;
    q.profile = q.profile ? q.profile : &sampler_g44;
    q.bits = q.bits ? q.bits : 32;
    q.ot_k = q.ot_k ? q.ot_k : OT_DEFAULT_K;
    q.chunk = q.chunk ? q.chunk : 1024;
    SEFL_TRY(sampler_check(q.profile));
    SEFL_CHECK(q.count >= 1 && q.count <= SHARES_COUNT_MAX, SEFL_EINVAL,
               "shares: %llu values, wanted 1 to %d", (unsigned long long)q.count,
               SHARES_COUNT_MAX);
    SEFL_CHECK(q.bits == 32 || q.bits == 40, SEFL_EINVAL, "shares: %u bits, wanted 32 or 40",
               q.bits);
    SEFL_CHECK(q.ot_k == 1 || q.ot_k == 2 || q.ot_k == 4 || q.ot_k == 8, SEFL_EINVAL,
               "shares: OT parameter %u, wanted 1, 2, 4 or 8", q.ot_k);
    SEFL_CHECK(q.chunk % ALIGN == 0 && q.chunk <= CHUNK_MAX, SEFL_EINVAL,
               "shares: chunks of %u, wanted a multiple of %d up to %d", q.chunk, ALIGN, CHUNK_MAX);
    *out = q;
done:
    return st;
}

static size_t blocks_of(const session *s, size_t c)
{
    size_t left = s->blocks - c * s->chunk_blocks;
    return left < s->chunk_blocks ? left : s->chunk_blocks;
}

static size_t transfers(const session *s, size_t blocks)
{
    return (blocks * GC_LANES * s->coins + OT_GRAIN - 1) / OT_GRAIN * OT_GRAIN;
}

static size_t corrections_bytes(const session *s, size_t blocks)
{
    return ot_correction_bytes(s->p.ot_k, transfers(s, blocks), true);
}

static sefl_status table_bytes(const session *s, size_t *bytes, size_t blocks)
{
    return gc_table_bytes(bytes, s->c, blocks);
}

/* ---- session --------------------------------------------------------------------------------- */

/* "SEFLshare" | version | role | K | ot_k | chunk u32 | count u64 | pair 32 | profile | zeros | nonce */
static sefl_status hello_write(uint8_t out[HELLO], const shares_params *p, char role,
                               const uint8_t nonce[32])
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { .max = HELLO - 32 };
    SEFL_TRY(wr_raw(&b, "SEFLshare", 9));
    SEFL_TRY(wr_u8(&b, 1));
    SEFL_TRY(wr_u8(&b, (uint8_t)role));
    SEFL_TRY(wr_u8(&b, (uint8_t)p->bits));
    SEFL_TRY(wr_u8(&b, (uint8_t)p->ot_k));
    SEFL_TRY(wr_u32(&b, p->chunk));
    SEFL_TRY(wr_u64(&b, p->count));
    SEFL_TRY(wr_raw(&b, p->pair, sizeof p->pair));
    SEFL_TRY(wr_u8(&b, (uint8_t)p->profile->kick_a));
    SEFL_TRY(wr_u8(&b, (uint8_t)p->profile->kick_m));
    SEFL_TRY(wr_u8(&b, (uint8_t)p->profile->columns));
    for (unsigned i = 0; i < p->profile->columns; i++)
        SEFL_TRY(wr_u8(&b, (uint8_t)p->profile->column[i]));
    memset(out, 0, HELLO);
    memcpy(out, b.p, b.n);
    memcpy(out + HELLO - 32, nonce, 32);
done:
    buf_clear(&b);
    return st;
}

static sefl_status hello(session *s, channel *ch, char role, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    enum { ROLE = 10, NONCE = HELLO - 32 };
    uint8_t mine[HELLO], theirs[HELLO], nonce[32];
    sha256 h;
    SEFL_TRY(rng_fill(rng, nonce, sizeof nonce));
    SEFL_TRY(hello_write(mine, &s->p, role, nonce));
    SEFL_TRY(msg_send(ch, MSG_HELLO, 0, mine, sizeof mine));
    SEFL_TRY(msg_recv(ch, MSG_HELLO, 0, theirs, sizeof theirs, "shares hello"));
    SEFL_CHECK(theirs[ROLE] == ('G' ^ 'E' ^ role), SEFL_EPROTO, "shares: the peer's role");
    SEFL_CHECK(memcmp(mine, theirs, ROLE) == 0 &&
                   memcmp(mine + ROLE + 1, theirs + ROLE + 1, NONCE - ROLE - 1) == 0,
               SEFL_EPROTO, "shares: the peers disagree on version, servers or parameters");
    SEFL_CHECK(memcmp(mine + NONCE, theirs + NONCE, 32) != 0, SEFL_EPROTO,
               "shares: the peer echoes our own nonce");
    sha256_init(&h);
    sha256_add(&h, span_of_str("sefl shares 1"));
    sha256_add(&h, span_of(role == 'G' ? mine : theirs, HELLO));
    sha256_add(&h, span_of(role == 'G' ? theirs : mine, HELLO));
    sha256_end(&h, s->id);
done:
    return st;
}

static void session_close(session *s)
{
    for (int i = 0; i < DEPTH; i++) {
        ot_block_clear(&s->block[i]);
        sefl_free_secret(s->labels[i], s->labels[i] ? s->in_n * sizeof *s->in : 0);
    }
    sefl_free_secret(s->in, s->in ? s->in_n * sizeof *s->in : 0);
    sefl_free_secret(s->out, s->out ? s->out_n * sizeof *s->out : 0);
    sefl_free_secret(s->share, s->share ? s->p.chunk * sizeof *s->share : 0);
    sefl_free(s->corrections);
    sefl_free_secret(s->message, s->message ? s->message_bytes : 0);
    circuit_free(s->c);
    *s = (session){ 0 };
}

static sefl_status session_open(session *s, uint8_t id[SHARES_ID], channel *ch,
                                const shares_params *p, char role, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    size_t tables;
    *s = (session){ .id = id };
    memset(id, 0, SHARES_ID);
    SEFL_TRY(fill_params(&s->p, p));
    SEFL_TRY(sampler_offline(&s->c, s->p.profile));
    s->coins = sampler_random_bits(s->p.profile);
    size_t padded = (s->p.count + ALIGN - 1) / ALIGN * ALIGN;
    s->chunks = (padded + s->p.chunk - 1) / s->p.chunk;
    s->chunk_blocks = s->p.chunk / GC_LANES;
    s->blocks = padded / GC_LANES;
    SEFL_TRY(gc_tweaks(&s->row_tweak, s->c, s->blocks)); /* rows come behind all ANDs */
    SEFL_TRY(table_bytes(s, &tables, s->chunk_blocks));
    s->message_bytes = LANES + tables + gc_row_bytes(s->c, s->chunk_blocks, s->p.bits);
    SEFL_CHECK(s->message_bytes <= CHANNEL_INBOX / 2 &&
                   corrections_bytes(s, s->chunk_blocks) <= CHANNEL_INBOX / 2,
               SEFL_EINVAL, "shares: chunks of %u values make messages that are too long",
               s->p.chunk);
    s->in_n = transfers(s, s->chunk_blocks);
    s->out_n = s->chunk_blocks * GC_LANES * s->c->outputs;
    for (int i = 0; i < DEPTH; i++) {
        SEFL_TRY(ot_block_init(&s->block[i], transfers(s, s->chunk_blocks)));
        if (role == 'E')
            SEFL_TRY(sefl_new(&s->labels[i], s->in_n, sizeof *s->in));
    }
    if (role == 'G')
        SEFL_TRY(sefl_new(&s->in, s->in_n, sizeof *s->in));
    SEFL_TRY(sefl_new(&s->out, s->out_n, sizeof *s->out));
    SEFL_TRY(sefl_new(&s->corrections, corrections_bytes(s, s->chunk_blocks), 1));
    SEFL_TRY(sefl_new(&s->message, s->message_bytes, 1));
    SEFL_TRY(sefl_new(&s->share, s->p.chunk, sizeof *s->share));
    SEFL_TRY(hello(s, ch, role, rng));
done:
    return st;
}

/* Those of chunk c that somebody looks at. */
static void keep_share(const session *s, uint64_t *x, size_t c)
{
    size_t first = c * s->p.chunk,
           n = s->p.count - first < s->p.chunk ? s->p.count - first : s->p.chunk;
    memcpy(x + first, s->share, n * sizeof *x);
}

/* ---- CSP ------------------------------------------------------------------------------------- */

typedef struct garbler {
    session s;
    gc_label delta;
    ot_sender *ot;
    gc_garbler *g;
    prg bits; /* own halves of the coins */
    uint8_t seed[DEPTH][OT_KEY];
    uint8_t *own;
    sefl_rng rng;
} garbler;

static sefl_status garbler_extend(garbler *g, channel *ch, size_t c)
{
    sefl_status st = SEFL_OK;
    session *s = &g->s;
    size_t blocks = blocks_of(s, c);
    uint8_t *seed = g->seed[c % DEPTH];
    SEFL_TRY(msg_recv(ch, MSG_EXTEND, (uint32_t)c, s->corrections, corrections_bytes(s, blocks),
                      "shares OT corrections"));
    SEFL_TRY(
        ot_sender_extend(g->ot, &s->block[c % DEPTH], c, transfers(s, blocks), s->corrections));
    SEFL_TRY(rng_fill(&g->rng, seed, OT_KEY));
    SEFL_TRY(msg_send(ch, MSG_SEED, (uint32_t)c, seed, OT_KEY));
    SEFL_TRY(channel_flush(ch));
done:
    return st;
}

static sefl_status garbler_chunk(garbler *g, channel *ch, size_t c)
{
    sefl_status st = SEFL_OK;
    session *s = &g->s;
    const ot_block *b = &s->block[c % DEPTH];
    size_t blocks = blocks_of(s, c), n = blocks * GC_LANES * s->coins, tables;
    uint8_t answer[OT_CHECK_BYTES];
    gc_label lanes[GC_LANES];
    SEFL_TRY(msg_recv(ch, MSG_CHECK, (uint32_t)c, answer, sizeof answer, "shares OT check"));
    SEFL_TRY(ot_sender_check(g->ot, b, g->seed[c % DEPTH], answer));
    SEFL_TRY(rng_fill(&g->rng, lanes, sizeof lanes)); /* rule 1 */
    CT_PUBLIC(lanes, sizeof lanes);                   /* they leave with the tables */
    gc_garbler_set_lanes(g->g, lanes);

    ot_block_rows(b, (uint8_t *)s->in, 0, transfers(s, blocks));
    prg_fill(&g->bits, g->own, n / 8);
    gc_encode(s->in, s->in, g->own, n, &g->delta);
    SEFL_TRY(table_bytes(s, &tables, blocks));
    memcpy(s->message, lanes, sizeof lanes);
    SEFL_TRY(
        gc_garble(g->g, s->message + LANES, tables, s->out, s->in, c * s->chunk_blocks, blocks));
    SEFL_TRY(gc_rows_garble(g->g, s->message + LANES + tables, s->share, s->out, s->p.bits,
                            s->row_tweak, c * s->chunk_blocks, blocks));
    SEFL_TRY(msg_send(ch, MSG_TABLES, (uint32_t)c, s->message,
                      LANES + tables + gc_row_bytes(s->c, blocks, s->p.bits)));
done:
    return st;
}

sefl_status shares_garble(uint8_t id[SHARES_ID], uint64_t *x, channel *ch, const shares_params *p,
                          const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    garbler g = { .rng = *rng };
    session *s = &g.s;
    uint8_t seed[PRG_SEED] = { 0 };
    size_t own_bytes = 0;
    SEFL_TRY(session_open(s, id, ch, p, 'G', rng));
    own_bytes = s->chunk_blocks * GC_LANES * s->coins / 8;
    SEFL_TRY(sefl_new(&g.own, own_bytes, 1));
    SEFL_TRY(gc_delta_draw(&g.delta, rng));
    SEFL_TRY(rng_fill(rng, seed, sizeof seed));
    prg_init(&g.bits, seed, "shares CSP bits");
    SEFL_TRY(rng_fill(rng, &s->cfg.hash_key, sizeof s->cfg.hash_key));
    SEFL_TRY(msg_send(ch, MSG_KEY, 0, &s->cfg.hash_key, sizeof s->cfg.hash_key));
    SEFL_TRY(ot_sender_new(&g.ot, ch, s->p.ot_k, (const uint8_t *)&g.delta, id, rng));
    SEFL_TRY(gc_garbler_new(&g.g, s->c, &s->cfg, &g.delta));
    SEFL_TRY(garbler_extend(&g, ch, 0));
    for (size_t c = 0; c < s->chunks; c++) {
        if (c + 1 < s->chunks)
            SEFL_TRY(garbler_extend(&g, ch, c + 1));
        SEFL_TRY(garbler_chunk(&g, ch, c));
        keep_share(s, x, c);
    }
    SEFL_TRY(channel_flush(ch));
done:
    if (st != SEFL_OK && s->p.count > 0)
        sefl_wipe(x, s->p.count * sizeof *x);
    gc_garbler_free(g.g);
    ot_sender_free(g.ot);
    sefl_free_secret(g.own, g.own ? own_bytes : 0);
    session_close(s);
    sefl_wipe(seed, sizeof seed);
    sefl_wipe(&g, sizeof g);
    return st;
}

/* ---- AS -------------------------------------------------------------------------------------- */

typedef struct evaluator {
    session s;
    ot_receiver *ot;
    gc_evaluator *e;
} evaluator;

static sefl_status evaluator_extend(evaluator *e, channel *ch, size_t c)
{
    session *s = &e->s;
    size_t blocks = blocks_of(s, c);
    ot_receiver_extend(e->ot, &s->block[c % DEPTH], c, transfers(s, blocks), s->corrections);
    sefl_status st =
        msg_send(ch, MSG_EXTEND, (uint32_t)c, s->corrections, corrections_bytes(s, blocks));
    return st == SEFL_OK ? channel_flush(ch) : st;
}

static sefl_status evaluator_answer(evaluator *e, channel *ch, size_t c)
{
    sefl_status st = SEFL_OK;
    session *s = &e->s;
    const ot_block *b = &s->block[c % DEPTH];
    uint8_t seed[OT_KEY], answer[OT_CHECK_BYTES];
    SEFL_TRY(msg_recv(ch, MSG_SEED, (uint32_t)c, seed, sizeof seed, "shares OT seed"));
    ot_receiver_answer(e->ot, answer, b, seed);
    SEFL_TRY(msg_send(ch, MSG_CHECK, (uint32_t)c, answer, sizeof answer));
    SEFL_TRY(channel_flush(ch));
    ot_block_rows(b, (uint8_t *)s->labels[c % DEPTH], 0, transfers(s, blocks_of(s, c)));
done:
    return st;
}

static sefl_status evaluator_chunk(evaluator *e, channel *ch, size_t c)
{
    sefl_status st = SEFL_OK;
    session *s = &e->s;
    size_t blocks = blocks_of(s, c), tables;
    gc_label lanes[GC_LANES];
    SEFL_TRY(table_bytes(s, &tables, blocks));
    SEFL_TRY(msg_recv(ch, MSG_TABLES, (uint32_t)c, s->message,
                      LANES + tables + gc_row_bytes(s->c, blocks, s->p.bits), "shares tables"));
    memcpy(lanes, s->message, sizeof lanes);
    gc_evaluator_set_lanes(e->e, lanes);
    SEFL_TRY(gc_evaluate(e->e, s->out, s->message + LANES, tables, s->labels[c % DEPTH],
                         c * s->chunk_blocks, blocks));
    gc_rows_evaluate(e->e, s->share, s->message + LANES + tables, s->out, s->p.bits, s->row_tweak,
                     c * s->chunk_blocks, blocks);
done:
    return st;
}

sefl_status shares_evaluate(uint8_t id[SHARES_ID], uint64_t *x, channel *ch, const shares_params *p,
                            const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    evaluator e = { 0 };
    session *s = &e.s;
    SEFL_TRY(session_open(s, id, ch, p, 'E', rng));
    SEFL_TRY(msg_recv(ch, MSG_KEY, 0, &s->cfg.hash_key, sizeof s->cfg.hash_key, "shares hash key"));
    SEFL_TRY(ot_receiver_new(&e.ot, ch, s->p.ot_k, id, rng));
    SEFL_TRY(gc_evaluator_new(&e.e, s->c, &s->cfg));
    for (size_t c = 0; c < DEPTH && c < s->chunks; c++)
        SEFL_TRY(evaluator_extend(&e, ch, c));
    for (size_t c = 0; c < s->chunks; c++) {
        SEFL_TRY(evaluator_answer(&e, ch, c));
        if (c + DEPTH < s->chunks)
            SEFL_TRY(evaluator_extend(&e, ch, c + DEPTH));
        if (c > 0) {
            SEFL_TRY(evaluator_chunk(&e, ch, c - 1)); /* while CSP works on c */
            keep_share(s, x, c - 1);
        }
    }
    SEFL_TRY(evaluator_chunk(&e, ch, s->chunks - 1));
    keep_share(s, x, s->chunks - 1);
done:
    if (st != SEFL_OK && s->p.count > 0)
        sefl_wipe(x, s->p.count * sizeof *x);
    gc_evaluator_free(e.e);
    ot_receiver_free(e.ot);
    session_close(s);
    sefl_wipe(&e, sizeof e);
    return st;
}
