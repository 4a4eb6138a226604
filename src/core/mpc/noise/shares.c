/* Both sides of a session. Order of messages (G: CSP, E: AS), for chunks 0, 1, 2, ...:
 *     E  hello, base OT                     G  hello, commitment, base OT, hash key
 *     E  corrections 0 to 3                 G  seeds 0 to 2
 *     E  answer 0, corrections 4            G  seed 3, tables 0
 *     E  answer 1, corrections 5            G  seed 4, tables 1           ...
 *     E  KEEP or AUDIT, signed              G  close: hashes, signature; AUDIT: the seed
 * Rules:
 *  1. Lane keys of a chunk are drawn after its check has passed, and sent with its tables.
 *  2. A chunk's labels are fixed by its corrections: nothing that E sends later changes them.
 *  3. E answers nothing that comes after its check: no message of E depends on tables or rows.
 *  4. Between hello and close each side's messages follow from one seed and from what the other
 *     sent; those of G, except its tables, from its seed alone. So two seeds give the whole session
 *     again, and shares_replay is the same code with a pair of channels in memory.
 *  5. E draws its coin after G's signature has arrived, and makes AUDIT durable (p.owe) before it
 *     sends it. G wipes its values and drops the session durably (p.drop) before it reveals its
 *     seed.
 * Sixteen values make a block; the last chunk is padded with values that are dropped. */
#include "mpc/noise/shares.h"

#include "base/alloc.h"
#include "base/blake3.h"
#include "base/ct.h"
#include "base/span.h"
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
    MSG_COMMIT = 0x53480007,
    MSG_CLOSE = 0x53480008,
    MSG_VERDICT = 0x53480009,
    MSG_SHOW = 0x5348000a,

    HELLO = AUDIT_HELLO, /* parameters 96, nonce 32 */
    ROLE = 10,
    NONCE = HELLO - 32,
    CHUNK_MAX = 8192,
    DEPTH = 4, /* chunks in flight */
    AHEAD = DEPTH - 1,
    LANES = GC_LANES * GC_LABEL,
};

/* A channel that hashes all messages. */
typedef struct tap {
    channel ch, *inner;
    blake3 out, in; /* of all but tables */
    blake3 tables;  /* in or out */
    bool at_tables; /* the next bytes are tables */
} tap;

/* State of both sides. */
typedef struct session {
    shares_params p; /* defaults filled in */
    tap *tap;
    uint8_t hello[2][HELLO]; /* CSP's, AS's */
    uint8_t commitment[AUDIT_HASH];
    prg coins; /* all coins of this side, from the hello on */
    sefl_rng rng;
    circuit *c;
    unsigned coin_bits; /* per value */
    size_t chunks, chunk_blocks, blocks;
    uint64_t row_tweak;
    gc_config cfg;
    uint8_t id[SHARES_ID];

    /* chunk c uses c % DEPTH */
    ot_block block[DEPTH];       /* E; G has the first alone */
    gc_label *labels[DEPTH];     /* E: input labels of a chunk that was answered */
    uint8_t *corrections[DEPTH]; /* G; E has the first alone */
    gc_label *in, *out;
    uint8_t *message; /* lane keys, tables, rows */
    uint64_t *share;  /* of one chunk */
    size_t in_n, out_n, message_bytes;
} session;

/* ---- parameters ------------------------------------------------------------------------------ */

static sefl_status fill_params(shares_params *out, const shares_params *p)
{
    shares_params q = *p;
    q.profile = q.profile ? q.profile : &sampler_g44;
    q.bits = q.bits ? q.bits : 32;
    q.ot_k = q.ot_k ? q.ot_k : OT_DEFAULT_K;
    q.chunk = q.chunk ? q.chunk : 512;
    SEFL_PASS(sampler_check(q.profile));
    SEFL_NEED(q.count >= 1 && q.count <= SHARES_COUNT_MAX, SEFL_EINVAL,
              "shares: %llu values: must be 1 to %d", (unsigned long long)q.count,
              SHARES_COUNT_MAX);
    SEFL_NEED(q.bits == 32 || q.bits == 40, SEFL_EINVAL, "shares: %u bits: must be 32 or 40",
              q.bits);
    SEFL_NEED(q.ot_k == 1 || q.ot_k == 2 || q.ot_k == 4 || q.ot_k == 8, SEFL_EINVAL,
              "shares: OT parameter %u: must be 1, 2, 4 or 8", q.ot_k);
    SEFL_NEED(q.chunk % SHARES_ALIGN == 0 && q.chunk <= CHUNK_MAX, SEFL_EINVAL,
              "shares: chunks of %u: must be a multiple of %d up to %d", q.chunk, SHARES_ALIGN,
              CHUNK_MAX);
    SEFL_NEED(q.audit == 0 || q.csp, SEFL_EINVAL, "shares: an audit needs CSP's signing key");
    SEFL_NEED((q.csp || q.as) == (q.sign != NULL), SEFL_EINVAL,
              "shares: a server with one signing key needs the other");
    *out = q;
    return SEFL_OK;
}

static size_t blocks_of(const session *s, size_t c)
{
    size_t left = s->blocks - c * s->chunk_blocks;
    return left < s->chunk_blocks ? left : s->chunk_blocks;
}

static size_t transfers(const session *s, size_t blocks)
{
    return (blocks * GC_LANES * s->coin_bits + OT_GRAIN - 1) / OT_GRAIN * OT_GRAIN;
}

static size_t corrections_bytes(const session *s, size_t blocks)
{
    return ot_correction_bytes(s->p.ot_k, transfers(s, blocks));
}

/* ---- a channel that hashes ------------------------------------------------------------------- */

static sefl_status tap_send(void *self, const void *p, size_t n)
{
    tap *t = self;
    blake3_add(t->at_tables ? &t->tables : &t->out, span_of(p, n));
    return channel_send(t->inner, p, n);
}

static sefl_status tap_recv(void *self, void *p, size_t n)
{
    tap *t = self;
    SEFL_PASS(channel_recv(t->inner, p, n));
    blake3_add(t->at_tables ? &t->tables : &t->in, span_of(p, n));
    return SEFL_OK;
}

static sefl_status tap_flush(void *self)
{
    return channel_flush(((tap *)self)->inner);
}

static sefl_status tap_new(tap **out, channel *inner)
{
    static const channel_ops ops = { tap_send, tap_recv, tap_flush };
    SEFL_PASS(sefl_new(out, 1, sizeof **out));
    tap *t = *out;
    t->inner = inner;
    t->ch = (channel){ .ops = &ops, .self = t };
    blake3_init(&t->out);
    blake3_init(&t->in);
    blake3_init(&t->tables);
    return SEFL_OK;
}

/* Ends the hashes. */
static void tap_seen(tap *t, audit_seen *seen, char role)
{
    blake3_end(&t->out, role == 'G' ? seen->own : seen->received);
    blake3_end(&t->in, role == 'G' ? seen->received : seen->own);
    blake3_end(&t->tables, seen->tables);
    CT_PUBLIC(seen, sizeof *seen); /* of bytes that the peer has */
}

/* ---- session --------------------------------------------------------------------------------- */

/* "SEFLshare" | version | role | K | ot_k | signed | chunk u32 | count u64 | pair 32 | profile |
 * zeros | nonce */
static void hello_write(uint8_t out[HELLO], const shares_params *p, char role, bool is_signed,
                        const uint8_t nonce[32])
{
    const sampler_profile *f = p->profile;
    const uint8_t first[] = { 'S',
                              'E',
                              'F',
                              'L',
                              's',
                              'h',
                              'a',
                              'r',
                              'e',
                              2,
                              (uint8_t)role,
                              (uint8_t)p->bits,
                              (uint8_t)p->ot_k,
                              is_signed };
    const uint8_t profile[] = { (uint8_t)f->kick_a, (uint8_t)f->kick_m, (uint8_t)f->columns };
    memset(out, 0, HELLO);
    memcpy(out, first, sizeof first);
    store_u32(out + 14, p->chunk);
    store_u64(out + 18, p->count);
    memcpy(out + 26, p->pair, sizeof p->pair);
    memcpy(out + 58, profile, sizeof profile);
    for (unsigned i = 0; i < f->columns; i++)
        out[61 + i] = (uint8_t)f->column[i];
    memcpy(out + NONCE, nonce, 32);
}

/* The parameters of a signed session with the usual profile; SEFL_EPROTO for any other hello. */
static sefl_status hello_read(shares_params *p, const uint8_t in[HELLO], char role)
{
    uint8_t again[HELLO];
    shares_params q = { .bits = in[11], .ot_k = in[12], .chunk = load_u32(in + 14) };
    q.count = load_u64(in + 18);
    memcpy(q.pair, in + 26, sizeof q.pair);
    bool ok = fill_params(p, &q) == SEFL_OK;
    if (ok)
        hello_write(again, p, role, true, in + NONCE);
    SEFL_NEED(ok && memcmp(again, in, HELLO) == 0, SEFL_EPROTO,
              "shares: the session has another version");
    return SEFL_OK;
}

static sefl_status hello(session *s, channel *ch, char role, const sefl_rng *rng)
{
    uint8_t *mine = s->hello[role == 'E'], *theirs = s->hello[role == 'G'], nonce[32];
    SEFL_PASS(rng_fill(rng, nonce, sizeof nonce));
    CT_PUBLIC(nonce, sizeof nonce); /* sent */
    hello_write(mine, &s->p, role, role == 'G' ? s->p.sign != NULL : s->p.csp != NULL, nonce);
    SEFL_PASS(msg_send(ch, MSG_HELLO, 0, mine, HELLO));
    SEFL_PASS(msg_recv(ch, MSG_HELLO, 0, theirs, HELLO, "shares hello"));
    SEFL_NEED(theirs[ROLE] == ('G' ^ 'E' ^ role), SEFL_EPROTO,
              "shares: both peers have the same role");
    SEFL_NEED(memcmp(mine, theirs, ROLE) == 0 &&
                  memcmp(mine + ROLE + 1, theirs + ROLE + 1, NONCE - ROLE - 1) == 0,
              SEFL_EPROTO, "shares: the peers disagree on version, servers or parameters");
    SEFL_NEED(memcmp(mine + NONCE, theirs + NONCE, 32) != 0, SEFL_EPROTO,
              "shares: the peer echoes our own nonce");
    audit_id(s->id, s->hello[0], s->hello[1]);
    return SEFL_OK;
}

static void session_close(session *s)
{
    for (int i = 0; i < DEPTH; i++) {
        ot_block_clear(&s->block[i]);
        sefl_free_secret(s->labels[i], s->in_n * sizeof *s->in);
        sefl_free(s->corrections[i]);
    }
    sefl_free_secret(s->in, s->in_n * sizeof *s->in);
    sefl_free_secret(s->out, s->out_n * sizeof *s->out);
    sefl_free_secret(s->share, s->p.chunk * sizeof *s->share);
    sefl_free_secret(s->message, s->message_bytes);
    circuit_free(s->c);
    sefl_free_secret(s->tap, sizeof *s->tap);
    sefl_wipe(s, sizeof *s);
}

/* p as fill_params gives it. After it, hello or a record sets the id. */
static sefl_status session_open(session *s, channel *ch, const shares_params *p, char role)
{
    size_t tables;
    *s = (session){ .p = *p };
    SEFL_PASS(tap_new(&s->tap, ch));
    SEFL_PASS(sampler_offline(&s->c, s->p.profile));
    s->coin_bits = sampler_random_bits(s->p.profile);
    size_t padded = (s->p.count + SHARES_ALIGN - 1) / SHARES_ALIGN * SHARES_ALIGN;
    s->chunks = (padded + s->p.chunk - 1) / s->p.chunk;
    s->chunk_blocks = s->p.chunk / GC_LANES;
    s->blocks = padded / GC_LANES;
    SEFL_PASS(gc_tweaks(&s->row_tweak, s->c, s->blocks)); /* rows come after all ANDs */
    SEFL_PASS(gc_table_bytes(&tables, s->c, s->chunk_blocks));
    s->message_bytes = LANES + tables + gc_row_bytes(s->c, s->chunk_blocks, s->p.bits);
    SEFL_NEED(s->message_bytes <= CHANNEL_INBOX / 2 &&
                  corrections_bytes(s, s->chunk_blocks) <= CHANNEL_INBOX / 2,
              SEFL_EINVAL, "shares: chunks of %u values make messages that are too long",
              s->p.chunk);
    s->in_n = transfers(s, s->chunk_blocks);
    s->out_n = s->chunk_blocks * GC_LANES * s->c->outputs;
    for (int i = 0; i < DEPTH; i++) {
        if (role == 'E' || i == 0)
            SEFL_PASS(ot_block_init(&s->block[i], transfers(s, s->chunk_blocks)));
        if (role == 'E')
            SEFL_PASS(sefl_new(&s->labels[i], s->in_n, sizeof *s->in));
        if (role == 'G' || i == 0)
            SEFL_PASS(sefl_new(&s->corrections[i], corrections_bytes(s, s->chunk_blocks), 1));
    }
    if (role == 'G')
        SEFL_PASS(sefl_new(&s->in, s->in_n, sizeof *s->in));
    SEFL_PASS(sefl_new(&s->out, s->out_n, sizeof *s->out));
    SEFL_PASS(sefl_new(&s->message, s->message_bytes, 1));
    return sefl_new(&s->share, s->p.chunk, sizeof *s->share);
}

/* All coins from here on. */
static void session_seed(session *s, const uint8_t seed[AUDIT_SEED], const char *name)
{
    prg_init(&s->coins, seed, name);
    s->rng = prg_rng(&s->coins);
}

/* Copies the values of chunk c, without the padding. */
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
    gc *g;
    prg bits; /* own halves of the coins */
    uint8_t check[DEPTH][OT_KEY];
    uint8_t *own;
    size_t own_bytes;
} garbler;

/* The seed is sent once the corrections are here; expanding waits for the answer, so that a
 * chunk's columns stay in the cache while they are checked, turned and garbled. */
static sefl_status garbler_extend(garbler *g, size_t c)
{
    session *s = &g->s;
    channel *ch = &s->tap->ch;
    uint8_t *seed = g->check[c % DEPTH];
    SEFL_PASS(msg_recv(ch, MSG_EXTEND, (uint32_t)c, s->corrections[c % DEPTH],
                       corrections_bytes(s, blocks_of(s, c)), "shares OT corrections"));
    SEFL_PASS(rng_fill(&s->rng, seed, OT_KEY));
    CT_PUBLIC(seed, OT_KEY); /* sent */
    SEFL_PASS(msg_send(ch, MSG_SEED, (uint32_t)c, seed, OT_KEY));
    return channel_flush(ch);
}

static sefl_status garbler_chunk(garbler *g, size_t c)
{
    session *s = &g->s;
    channel *ch = &s->tap->ch;
    ot_block *b = &s->block[0];
    size_t blocks = blocks_of(s, c), n = blocks * GC_LANES * s->coin_bits, tables;
    uint8_t answer[OT_CHECK_BYTES];
    gc_label lanes[GC_LANES];
    SEFL_PASS(msg_recv(ch, MSG_CHECK, (uint32_t)c, answer, sizeof answer, "shares OT check"));
    SEFL_PASS(ot_sender_extend(g->ot, b, c, transfers(s, blocks), s->corrections[c % DEPTH]));
    SEFL_PASS(ot_sender_check(g->ot, b, g->check[c % DEPTH], answer));
    SEFL_PASS(rng_fill(&s->rng, lanes, sizeof lanes)); /* rule 1 */
    CT_PUBLIC(lanes, sizeof lanes);                    /* they leave with the tables */
    gc_set_lanes(g->g, lanes);

    ot_block_rows(b, (uint8_t *)s->in, 0, transfers(s, blocks));
    prg_fill(&g->bits, g->own, n / 8);
    gc_encode(s->in, s->in, g->own, n, &g->delta);
    SEFL_PASS(gc_table_bytes(&tables, s->c, blocks));
    memcpy(s->message, lanes, sizeof lanes);
    SEFL_PASS(
        gc_garble(g->g, s->message + LANES, tables, s->out, s->in, c * s->chunk_blocks, blocks));
    SEFL_PASS(gc_rows_garble(g->g, s->message + LANES + tables, s->share, s->out, s->p.bits,
                             s->row_tweak, c * s->chunk_blocks, blocks));
    s->tap->at_tables = true;
    SEFL_PASS(msg_send(ch, MSG_TABLES, (uint32_t)c, s->message,
                       LANES + tables + gc_row_bytes(s->c, blocks, s->p.bits)));
    s->tap->at_tables = false;
    return SEFL_OK;
}

/* From after the hello to the last table. x: NULL in a replay. */
static sefl_status garble_all(garbler *g, uint64_t *x, const uint8_t seed[AUDIT_SEED])
{
    sefl_status st = SEFL_OK;
    session *s = &g->s;
    channel *ch = &s->tap->ch;
    uint8_t bits[PRG_SEED] = { 0 };
    session_seed(s, seed, SHARES_CSP_COINS);
    audit_commit(s->commitment, s->id, seed);
    CT_PUBLIC(s->commitment, sizeof s->commitment); /* sent */
    SEFL_TRY(msg_send(ch, MSG_COMMIT, 0, s->commitment, sizeof s->commitment));
    g->own_bytes = s->chunk_blocks * GC_LANES * s->coin_bits / 8;
    SEFL_TRY(sefl_new(&g->own, g->own_bytes, 1));
    SEFL_TRY(gc_delta_draw(&g->delta, &s->rng));
    SEFL_TRY(rng_fill(&s->rng, bits, sizeof bits));
    prg_init(&g->bits, bits, SHARES_CSP_BITS);
    SEFL_TRY(rng_fill(&s->rng, &s->cfg.hash_key, sizeof s->cfg.hash_key));
    CT_PUBLIC(&s->cfg.hash_key, sizeof s->cfg.hash_key); /* sent */
    SEFL_TRY(msg_send(ch, MSG_KEY, 0, &s->cfg.hash_key, sizeof s->cfg.hash_key));
    SEFL_TRY(ot_sender_new(&g->ot, ch, s->p.ot_k, (const uint8_t *)&g->delta, s->id, &s->rng));
    SEFL_TRY(gc_new(&g->g, s->c, &s->cfg, &g->delta));
    for (size_t c = 0; c < AHEAD && c < s->chunks; c++)
        SEFL_TRY(garbler_extend(g, c));
    for (size_t c = 0; c < s->chunks; c++) {
        if (c + AHEAD < s->chunks)
            SEFL_TRY(garbler_extend(g, c + AHEAD));
        SEFL_TRY(garbler_chunk(g, c));
        if (x)
            keep_share(s, x, c);
    }
done:
    sefl_wipe(bits, sizeof bits);
    return st;
}

static void garbler_clear(garbler *g)
{
    gc_free(g->g);
    ot_sender_free(g->ot);
    sefl_free_secret(g->own, g->own_bytes);
    session_close(&g->s);
    sefl_wipe(g, sizeof *g);
}

/* The message MSG_VERDICT. */
typedef struct verdict {
    uint8_t want, signature[SIGN_BYTES];
} verdict;
_Static_assert(sizeof(verdict) == 1 + SIGN_BYTES, "bytes alone, no padding");

/* Signs the messages and receives AS's decision. */
static sefl_status garbler_close(garbler *g, channel *ch, bool *audit)
{
    session *s = &g->s;
    struct {
        audit_seen seen;
        uint8_t signature[SIGN_BYTES];
    } close = { 0 };
    verdict v = { 0 };
    tap_seen(s->tap, &close.seen, 'G');
    if (s->p.sign)
        SEFL_PASS(audit_sign(close.signature, s->p.sign, s->id, s->commitment, &close.seen));
    SEFL_PASS(msg_send(ch, MSG_CLOSE, 0, &close, sizeof close));
    SEFL_PASS(msg_recv(ch, MSG_VERDICT, 0, &v, sizeof v, "shares verdict"));
    SEFL_NEED(v.want == VERDICT_KEEP || (v.want == VERDICT_AUDIT && s->p.sign), SEFL_EPROTO,
              "shares: AS sent %u, expected KEEP or AUDIT", v.want);
    if (s->p.as)
        SEFL_PASS(audit_decided(v.signature, s->p.as, s->id, v.want));
    *audit = v.want == VERDICT_AUDIT;
    return SEFL_OK;
}

sefl_status shares_garble(shares_result *out, uint64_t *x, channel *ch, const shares_params *p,
                          const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    garbler g = { 0 };
    shares_params q;
    uint8_t seed[AUDIT_SEED] = { 0 };
    bool audit = false;
    size_t n = 0;
    *out = (shares_result){ 0 };
    SEFL_TRY(fill_params(&q, p));
    n = q.count;
    SEFL_TRY(session_open(&g.s, ch, &q, 'G'));
    SEFL_TRY(hello(&g.s, ch, 'G', rng));
    memcpy(out->id, g.s.id, SHARES_ID);
    SEFL_TRY(q.draw ? q.draw(q.ctx, out->id, seed) : rng_fill(rng, seed, sizeof seed));
    SEFL_TRY(garble_all(&g, x, seed));
    SEFL_TRY(garbler_close(&g, ch, &audit));
    if (audit) { /* rule 5 */
        sefl_wipe(x, n * sizeof *x);
        if (q.drop)
            SEFL_TRY(q.drop(q.ctx, out->id));
        CT_PUBLIC(seed, sizeof seed); /* none of this session is used */
        SEFL_TRY(msg_send(ch, MSG_SHOW, 0, seed, sizeof seed));
        SEFL_TRY(channel_flush(ch));
    }
    out->outcome = audit ? SHARES_AUDITED : SHARES_KEPT;
done:
    if (st != SEFL_OK)
        sefl_wipe(x, n * sizeof *x);
    garbler_clear(&g);
    sefl_wipe(seed, sizeof seed);
    return st;
}

/* ---- AS -------------------------------------------------------------------------------------- */

typedef struct evaluator {
    session s;
    ot_receiver *ot;
    gc *e;
} evaluator;

static sefl_status evaluator_extend(evaluator *e, size_t c)
{
    session *s = &e->s;
    channel *ch = &s->tap->ch;
    size_t blocks = blocks_of(s, c);
    ot_receiver_extend(e->ot, &s->block[c % DEPTH], c, transfers(s, blocks), s->corrections[0]);
    SEFL_PASS(
        msg_send(ch, MSG_EXTEND, (uint32_t)c, s->corrections[0], corrections_bytes(s, blocks)));
    return channel_flush(ch);
}

static sefl_status evaluator_answer(evaluator *e, size_t c)
{
    session *s = &e->s;
    channel *ch = &s->tap->ch;
    const ot_block *b = &s->block[c % DEPTH];
    uint8_t seed[OT_KEY], answer[OT_CHECK_BYTES];
    SEFL_PASS(msg_recv(ch, MSG_SEED, (uint32_t)c, seed, sizeof seed, "shares OT seed"));
    ot_receiver_answer(e->ot, answer, b, seed);
    SEFL_PASS(msg_send(ch, MSG_CHECK, (uint32_t)c, answer, sizeof answer));
    SEFL_PASS(channel_flush(ch));
    ot_block_rows(b, (uint8_t *)s->labels[c % DEPTH], 0, transfers(s, blocks_of(s, c)));
    return SEFL_OK;
}

static sefl_status evaluator_chunk(evaluator *e, uint64_t *x, size_t c)
{
    session *s = &e->s;
    channel *ch = &s->tap->ch;
    size_t blocks = blocks_of(s, c), tables;
    gc_label lanes[GC_LANES];
    SEFL_PASS(gc_table_bytes(&tables, s->c, blocks));
    s->tap->at_tables = true;
    SEFL_PASS(msg_recv(ch, MSG_TABLES, (uint32_t)c, s->message,
                       LANES + tables + gc_row_bytes(s->c, blocks, s->p.bits), "shares tables"));
    s->tap->at_tables = false;
    if (!x)
        return SEFL_OK; /* a replay: only hash the tables */
    memcpy(lanes, s->message, sizeof lanes);
    gc_set_lanes(e->e, lanes);
    SEFL_PASS(gc_evaluate(e->e, s->out, s->message + LANES, tables, s->labels[c % DEPTH],
                          c * s->chunk_blocks, blocks));
    gc_rows_evaluate(e->e, s->share, s->message + LANES + tables, s->out, s->p.bits, s->row_tweak,
                     c * s->chunk_blocks, blocks);
    keep_share(s, x, c);
    return SEFL_OK;
}

static sefl_status evaluate_all(evaluator *e, uint64_t *x, const uint8_t seed[AUDIT_SEED])
{
    session *s = &e->s;
    channel *ch = &s->tap->ch;
    session_seed(s, seed, SHARES_AS_COINS);
    SEFL_PASS(
        msg_recv(ch, MSG_COMMIT, 0, s->commitment, sizeof s->commitment, "shares commitment"));
    SEFL_PASS(
        msg_recv(ch, MSG_KEY, 0, &s->cfg.hash_key, sizeof s->cfg.hash_key, "shares hash key"));
    SEFL_PASS(ot_receiver_new(&e->ot, ch, s->p.ot_k, s->id, &s->rng));
    SEFL_PASS(gc_new(&e->e, s->c, &s->cfg, NULL));
    for (size_t c = 0; c < DEPTH && c < s->chunks; c++)
        SEFL_PASS(evaluator_extend(e, c));
    for (size_t c = 0; c < s->chunks; c++) {
        SEFL_PASS(evaluator_answer(e, c));
        if (c + DEPTH < s->chunks)
            SEFL_PASS(evaluator_extend(e, c + DEPTH));
        if (c >= AHEAD)
            SEFL_PASS(evaluator_chunk(e, x, c - AHEAD)); /* while CSP works on the next */
    }
    for (size_t c = s->chunks < AHEAD ? 0 : s->chunks - AHEAD; c < s->chunks; c++)
        SEFL_PASS(evaluator_chunk(e, x, c));
    return SEFL_OK;
}

static void evaluator_clear(evaluator *e)
{
    gc_free(e->e);
    ot_receiver_free(e->ot);
    session_close(&e->s);
    sefl_wipe(e, sizeof *e);
}

/* Checks CSP's signature against what was received; only then draws the coin. */
static sefl_status evaluator_close(evaluator *e, audit_record *r, channel *ch, bool *audit,
                                   const sefl_rng *rng)
{
    session *s = &e->s;
    struct {
        audit_seen seen;
        uint8_t signature[SIGN_BYTES];
    } close = { 0 };
    uint64_t coin = 1;
    tap_seen(s->tap, &r->seen, 'E');
    SEFL_PASS(msg_recv(ch, MSG_CLOSE, 0, &close, sizeof close, "shares close"));
    SEFL_NEED(memcmp(&close.seen, &r->seen, sizeof r->seen) == 0, SEFL_EPROTO,
              "shares: CSP signed different messages than AS received");
    if (s->p.csp) {
        SEFL_PASS(audit_signed(close.signature, s->p.csp, s->id, s->commitment, &r->seen));
        memcpy(r->csp, s->p.csp, sizeof r->csp);
    }
    memcpy(r->signature, close.signature, sizeof r->signature);
    memcpy(r->commitment, s->commitment, sizeof r->commitment);
    memcpy(r->hello, s->hello, sizeof r->hello);
    if (s->p.audit > 0)
        SEFL_PASS(rng_below(rng, &coin, s->p.audit));
    CT_PUBLIC(&coin, sizeof coin); /* CSP learns it */
    *audit = coin == 0;
    return SEFL_OK;
}

sefl_status shares_judge(shares_result *out, const audit_record *r)
{
    audit_finding found = { 0 };
    audit_id(out->id, r->hello[0], r->hello[1]);
    out->outcome = SHARES_FAILED; /* not CSP's fault, unless the replay shows it */
    SEFL_PASS(shares_replay(&found, r));
    out->record = *r;
    out->found = found;
    out->outcome = found.verdict == AUDIT_HONEST ? SHARES_AUDITED : SHARES_CAUGHT;
    SEFL_NEED(found.verdict == AUDIT_HONEST, SEFL_ECRYPTO, "audit: %s", found.why);
    return SEFL_OK;
}

/* After AS sent AUDIT. */
static sefl_status evaluator_audit(shares_result *out, audit_record *r, channel *ch)
{
    out->outcome = SHARES_UNANSWERED;
    SEFL_PASS(msg_recv(ch, MSG_SHOW, 0, r->csp_seed, sizeof r->csp_seed, "shares seed"));
    return shares_judge(out, r);
}

sefl_status shares_evaluate(shares_result *out, uint64_t *x, channel *ch, const shares_params *p,
                            const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    evaluator e = { 0 };
    shares_params q;
    audit_record r = { 0 };
    verdict v = { 0 };
    bool audit = false;
    size_t n = 0;
    *out = (shares_result){ 0 };
    SEFL_TRY(fill_params(&q, p));
    n = q.count;
    SEFL_TRY(session_open(&e.s, ch, &q, 'E'));
    SEFL_TRY(hello(&e.s, ch, 'E', rng));
    memcpy(out->id, e.s.id, SHARES_ID);
    SEFL_TRY(rng_fill(rng, r.as_seed, sizeof r.as_seed));
    SEFL_TRY(evaluate_all(&e, x, r.as_seed));
    SEFL_TRY(evaluator_close(&e, &r, ch, &audit, rng));
    v.want = audit ? VERDICT_AUDIT : VERDICT_KEEP;
    if (q.sign)
        SEFL_TRY(audit_decide(v.signature, q.sign, out->id, v.want));
    if (audit) {
        sefl_wipe(x, n * sizeof *x);
        if (q.owe)
            SEFL_TRY(q.owe(q.ctx, &r, v.signature));
        out->outcome = SHARES_UNANSWERED; /* CSP may have read it even if the flush fails */
    }
    SEFL_TRY(msg_send(ch, MSG_VERDICT, 0, &v, sizeof v));
    SEFL_TRY(channel_flush(ch));
    evaluator_clear(&e); /* free the memory before a replay needs as much */
    if (audit)
        SEFL_TRY(evaluator_audit(out, &r, ch));
    else
        out->outcome = SHARES_KEPT;
done:
    if (st != SEFL_OK)
        sefl_wipe(x, n * sizeof *x);
    evaluator_clear(&e);
    sefl_wipe(&r, sizeof r);
    return st;
}

/* ---- again ----------------------------------------------------------------------------------- */

enum { REPLAY_MS = 600000, REPLAY_QUEUE = 4 << 20 };

typedef struct replayed {
    const audit_record *r;
    const shares_params *p;
    audit_seen *seen; /* what both sides must have sent */
} replayed;

static sefl_status replay_csp(void *ctx, channel *ch)
{
    sefl_status st = SEFL_OK;
    const replayed *a = ctx;
    garbler g = { 0 };
    SEFL_TRY(session_open(&g.s, ch, a->p, 'G'));
    audit_id(g.s.id, a->r->hello[0], a->r->hello[1]);
    SEFL_TRY(garble_all(&g, NULL, a->r->csp_seed));
    SEFL_TRY(channel_flush(ch));
    tap_seen(g.s.tap, a->seen, 'G');
done:
    garbler_clear(&g);
    return st;
}

static sefl_status replay_as(void *ctx, channel *ch)
{
    sefl_status st = SEFL_OK;
    const replayed *a = ctx;
    evaluator e = { 0 };
    SEFL_TRY(session_open(&e.s, ch, a->p, 'E'));
    audit_id(e.s.id, a->r->hello[0], a->r->hello[1]);
    SEFL_TRY(evaluate_all(&e, NULL, a->r->as_seed));
done:
    evaluator_clear(&e);
    return st;
}

static bool differ(const uint8_t a[AUDIT_HASH], const uint8_t b[AUDIT_HASH])
{
    return memcmp(a, b, AUDIT_HASH) != 0;
}

sefl_status shares_replay(audit_finding *out, const audit_record *r)
{
    shares_params p, other;
    audit_seen seen;
    uint8_t id[AUDIT_ID], commitment[AUDIT_HASH];
    *out = (audit_finding){ AUDIT_SHOWS_NOTHING, "the two hellos are from different sessions" };
    sefl_status st = hello_read(&p, r->hello[0], 'G');
    if (st == SEFL_OK)
        st = hello_read(&other, r->hello[1], 'E');
    if (st == SEFL_EPROTO ||
        memcmp(r->hello[0] + ROLE + 1, r->hello[1] + ROLE + 1, NONCE - ROLE - 1) != 0)
        return SEFL_OK;
    SEFL_PASS(st);
    audit_id(id, r->hello[0], r->hello[1]);
    out->why = "CSP's key has not signed this session";
    st = audit_signed(r->signature, r->csp, id, r->commitment, &r->seen);
    if (st == SEFL_EAUTH)
        return SEFL_OK;
    SEFL_PASS(st);
    out->why = "the seed is not the one that CSP committed to";
    audit_commit(commitment, id, r->csp_seed);
    if (differ(commitment, r->commitment))
        return SEFL_OK;
    replayed again = { r, &p, &seen };
    SEFL_PASS(channel_pair_run((channel_side){ replay_csp, &again },
                               (channel_side){ replay_as, &again }, REPLAY_MS, REPLAY_QUEUE));
    if (differ(seen.own, r->seen.own))
        *out = (audit_finding){ AUDIT_CHEATED, "CSP's messages do not follow from its seed" };
    else if (differ(seen.received, r->seen.received))
        out->why = "AS's messages do not follow from the seed in the record";
    else if (differ(seen.tables, r->seen.tables))
        *out = (audit_finding){ AUDIT_CHEATED, "CSP's tables are not those of the noise circuit" };
    else
        *out = (audit_finding){ AUDIT_HONEST, "CSP garbled the noise circuit correctly" };
    return SEFL_OK;
}

sefl_status shares_recorded(shares_params *p, const audit_record *r)
{
    return hello_read(p, r->hello[0], 'G');
}

sefl_status shares_named(uint8_t id[SHARES_ID], shares_params *filled, const shares_params *p,
                         const uint8_t csp_nonce[32], const uint8_t as_nonce[32])
{
    uint8_t both[2][HELLO];
    SEFL_PASS(fill_params(filled, p));
    hello_write(both[0], filled, 'G', false, csp_nonce);
    hello_write(both[1], filled, 'E', false, as_nonce);
    audit_id(id, both[0], both[1]);
    return SEFL_OK;
}
