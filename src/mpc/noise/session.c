#include "mpc/noise/session.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cpu.h"
#include "base/ct.h"
#include "mpc/noise/round.h"

#include <assert.h>
#include <string.h>

enum { HELLO_VERSION = 2, CHUNK_ALIGN = 128 };

static sefl_status fill_params(noise_params *out, const noise_params *p)
{
    sefl_status st = SEFL_OK;
    noise_params q = *p;
    if (!q.profile)
        q.profile = &sampler_g44;
    if (q.ot_k == 0)
        q.ot_k = OT_DEFAULT_K;
    if (q.chunk == 0)
        q.chunk = 1024;
    SEFL_TRY(sampler_check(q.profile));
    SEFL_CHECK(q.count >= 1 && q.count <= (uint64_t)1 << 32, SEFL_EINVAL,
               "noise: %llu coordinates, wanted 1 to 2^32", (unsigned long long)q.count);
    SEFL_CHECK(q.k >= sampler_bits(q.profile) && q.k <= SAMPLER_MAX_RING && q.t <= 62 &&
                   q.g <= 62 && q.k + q.t + q.g <= 62,
               SEFL_EINVAL, "noise: k = %u, t = %u, g = %u: wanted %u <= k <= %u, k + t + g <= 62",
               q.k, q.t, q.g, sampler_bits(q.profile), SAMPLER_MAX_RING);
    SEFL_CHECK(q.ot_k == 1 || q.ot_k == 2 || q.ot_k == 4 || q.ot_k == 8, SEFL_EINVAL,
               "noise: OT parameter %u, wanted 1, 2, 4 or 8", q.ot_k);
    SEFL_CHECK(q.chunk % CHUNK_ALIGN == 0 && q.chunk <= 1 << 16, SEFL_EINVAL,
               "noise: chunks of %u, wanted a multiple of %d up to 65536", q.chunk, CHUNK_ALIGN);
    *out = q;
done:
    return st;
}

/* Both peers may have a chunk's messages under way at once; neither may need more than the other
 * takes in while it sends (channel.h). */
static sefl_status check_sizes(const noise_session *s)
{
    sefl_status st = SEFL_OK;
    const size_t most = CHANNEL_INBOX / 2;
    size_t corrections = ot_correction_bytes(s->p.ot_k, noise_batch(s, s->chunk_blocks), true);
    size_t off, on;
    SEFL_TRY(gc_table_bytes(&off, s->off, s->chunk_blocks));
    SEFL_TRY(gc_table_bytes(&on, s->on, s->chunk_blocks));
    SEFL_CHECK(corrections <= most && off <= most && on <= most, SEFL_EINVAL,
               "noise: chunks of %u coordinates have messages of %zu bytes of OT corrections, %zu "
               "and %zu of tables; at most %zu each",
               s->p.chunk, corrections, off, on, most);
done:
    return st;
}

static void layout(noise_session *s)
{
    size_t padded = (s->p.count + CHUNK_ALIGN - 1) / CHUNK_ALIGN * CHUNK_ALIGN;
    s->chunks = (padded + s->p.chunk - 1) / s->p.chunk;
    s->chunk_blocks = s->p.chunk / GC_LANES;
    s->blocks = padded / GC_LANES;
}

size_t noise_chunk_blocks(const noise_session *s, size_t c)
{
    size_t left = s->blocks - c * s->chunk_blocks;
    return left < s->chunk_blocks ? left : s->chunk_blocks;
}

size_t noise_chunk_coords(const noise_session *s, size_t c)
{
    size_t left = s->p.count - c * s->p.chunk;
    return left < s->p.chunk ? left : s->p.chunk;
}

static size_t grain(size_t n)
{
    return (n + OT_GRAIN - 1) / OT_GRAIN * OT_GRAIN;
}

size_t noise_batch(const noise_session *s, size_t blocks)
{
    return grain(blocks * GC_LANES * (s->p.k + s->wires_r));
}

size_t noise_inputs(const noise_session *s, size_t blocks)
{
    return grain(blocks * GC_LANES * s->p.k);
}

size_t noise_bits_bytes(const noise_session *s, size_t blocks)
{
    return blocks * s->p.k * 2;
}

/* ---- hello ---- */

/* Everything both sides must agree on, 128 bytes, then the sender's nonce. */
static sefl_status hello_write(uint8_t out[NOISE_HELLO_BYTES], const noise_params *p, char role,
                               const uint8_t nonce[32])
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { .max = NOISE_HELLO_BYTES };
    SEFL_TRY(wr_raw(&b, "SEFLnoise", 9));
    SEFL_TRY(wr_u8(&b, HELLO_VERSION));
    SEFL_TRY(wr_u8(&b, (uint8_t)role));
    SEFL_TRY(wr_u8(&b, 0));
    SEFL_TRY(wr_raw(&b, p->task, sizeof p->task));
    SEFL_TRY(wr_u64(&b, p->round));
    SEFL_TRY(wr_u64(&b, p->attempt));
    SEFL_TRY(wr_u64(&b, p->count));
    SEFL_TRY(wr_u8(&b, (uint8_t)p->k));
    SEFL_TRY(wr_u8(&b, (uint8_t)p->t));
    SEFL_TRY(wr_u8(&b, (uint8_t)p->g));
    SEFL_TRY(wr_u8(&b, (uint8_t)p->ot_k));
    SEFL_TRY(wr_u32(&b, p->chunk));
    SEFL_TRY(wr_u8(&b, (uint8_t)p->profile->kick_a));
    SEFL_TRY(wr_u8(&b, (uint8_t)p->profile->kick_m));
    SEFL_TRY(wr_u8(&b, (uint8_t)p->profile->columns));
    for (unsigned c = 0; c < p->profile->columns; c++)
        SEFL_TRY(wr_u8(&b, (uint8_t)p->profile->column[c]));
    memset(out, 0, NOISE_HELLO_BYTES);
    memcpy(out, b.p, b.n);
    memcpy(out + 128, nonce, 32);
done:
    buf_clear(&b);
    return st;
}

/* The peer's hello must be ours with the other role; says which field is not. */
static sefl_status hello_check(const uint8_t mine[NOISE_HELLO_BYTES],
                               const uint8_t theirs[NOISE_HELLO_BYTES])
{
    static const struct {
        const char *name;
        uint8_t at, n;
    } field[] = {
        { "protocol", 0, 9 },
        { "version", 9, 1 },
        { "padding", 11, 1 },
        { "task", 12, 32 },
        { "round", 44, 8 },
        { "attempt", 52, 8 },
        { "count of coordinates", 60, 8 },
        { "ring width", 68, 1 },
        { "fraction bits", 69, 1 },
        { "guard bits", 70, 1 },
        { "OT parameter", 71, 1 },
        { "chunk", 72, 4 },
        { "sampler profile", 76, 52 },
    };
    sefl_status st = SEFL_OK;
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        SEFL_CHECK(memcmp(mine + field[i].at, theirs + field[i].at, field[i].n) == 0, SEFL_EPROTO,
                   "noise: peers disagree on the %s", field[i].name);
    SEFL_CHECK(theirs[10] == ('G' ^ 'E' ^ mine[10]), SEFL_EPROTO,
               "noise: the peer has the same role");
    SEFL_CHECK(memcmp(mine + 128, theirs + 128, 32) != 0, SEFL_EPROTO,
               "noise: the peer echoes our own nonce");
done:
    return st;
}

sefl_status noise_session_open(noise_session *s, channel *ch, const noise_params *p, char role,
                               const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t mine[NOISE_HELLO_BYTES], theirs[NOISE_HELLO_BYTES], nonce[32], seed[PRG_SEED] = { 0 };
    sha256 h;
    SEFL_TRY(fill_params(&s->p, p));
    s->rng = *rng;
    s->state = NOISE_BROKEN;
    sha256_init(&s->choices);
    s->wires_r = sampler_random_bits(s->p.profile);
    s->wires_x = sampler_bits(s->p.profile);
    layout(s);
    SEFL_TRY(sampler_offline(&s->off, s->p.profile));
    SEFL_TRY(sampler_online(&s->on, s->p.profile, s->p.k));
    SEFL_TRY(check_sizes(s));
    SEFL_TRY(rng_fill(rng, seed, sizeof seed));
    prg_init(&s->coins, seed, role == 'G' ? "noise AS coins" : "noise CSP coins");
    SEFL_TRY(rng_fill(rng, nonce, sizeof nonce));
    SEFL_TRY(hello_write(mine, &s->p, role, nonce));
    SEFL_TRY(msg_send(ch, NOISE_MSG_HELLO, 0, mine, sizeof mine));
    SEFL_TRY(msg_recv(ch, NOISE_MSG_HELLO, 0, theirs, sizeof theirs, "noise hello"));
    SEFL_TRY(hello_check(mine, theirs));
    sha256_init(&h);
    sha256_add(&h, span_of_str("sefl noise session 1"));
    sha256_add(&h, span_of(role == 'G' ? mine : theirs, NOISE_HELLO_BYTES));
    sha256_add(&h, span_of(role == 'G' ? theirs : mine, NOISE_HELLO_BYTES));
    sha256_end(&h, s->id);
done:
    sefl_wipe(seed, sizeof seed);
    return st;
}

sefl_status noise_session_key(noise_session *s, const gc_label *hash_key)
{
    sefl_status st = SEFL_OK;
    uint64_t tweaks, more;
    SEFL_TRY(gc_tweaks(&tweaks, s->off, s->blocks));
    SEFL_TRY(gc_tweaks(&more, s->on, s->blocks));
    SEFL_CHECK(more <= UINT64_MAX - tweaks, SEFL_ERANGE, "noise: too many gates");
    s->off_cfg = (gc_config){ .hash_key = *hash_key, .tweak_base = 0 };
    s->on_cfg = (gc_config){ .hash_key = *hash_key, .tweak_base = tweaks };
done:
    return st;
}

void noise_session_clear(noise_session *s)
{
    circuit_free(s->off);
    circuit_free(s->on);
    prg_clear(&s->coins);
    *s = (noise_session){ .state = NOISE_BROKEN };
}

sefl_status noise_session_enter(noise_session *s, noise_state want, const char *step)
{
    static const char *const is[] = { "not prepared", "prepared", "already run", "finished",
                                      "broken and cannot be resumed" };
    if (s->state != want)
        return sefl_fail(
            SEFL_ESTATE, "noise %s: attempt %llu of round %llu is %s; begin a new attempt", step,
            (unsigned long long)s->p.attempt, (unsigned long long)s->p.round, is[s->state]);
    s->state = NOISE_BROKEN;
    return SEFL_OK;
}

/* ---- bits, folds, values ---- */

void noise_planes(uint8_t *bits, const uint32_t *value, size_t n, unsigned k, size_t blocks)
{
    uint32_t plane[32], v = 0;
    for (size_t b = 0; b < blocks; b++) {
        memset(plane, 0, sizeof plane);
        for (unsigned lane = 0; lane < GC_LANES; lane++) {
            v = GC_LANES * b + lane < n ? value[GC_LANES * b + lane] : 0;
            for (unsigned w = 0; w < 32; w++)
                plane[w] |= (v >> w & 1) << lane;
        }
        for (unsigned w = 0; w < k; w++) {
            bits[2 * (b * k + w)] = (uint8_t)plane[w];
            bits[2 * (b * k + w) + 1] = (uint8_t)(plane[w] >> 8);
        }
    }
    sefl_wipe(plane, sizeof plane);
    sefl_wipe(&v, sizeof v);
}

void noise_values(uint32_t *value, const uint8_t *bits, size_t n, unsigned k)
{
    uint32_t v[GC_LANES];
    for (size_t b = 0; b * GC_LANES < n; b++) {
        memset(v, 0, sizeof v);
        for (unsigned w = 0; w < k; w++) {
            uint32_t plane = bits[2 * (b * k + w)] | (uint32_t)bits[2 * (b * k + w) + 1] << 8;
            for (unsigned lane = 0; lane < GC_LANES; lane++)
                v[lane] |= (plane >> lane & 1) << w;
        }
        size_t m = n - b * GC_LANES < GC_LANES ? n - b * GC_LANES : GC_LANES;
        memcpy(value + b * GC_LANES, v, m * sizeof *v);
    }
    sefl_wipe(v, sizeof v);
}

/* a * x in GF(2^64). */
static inline uint64_t times_x(uint64_t a)
{
    return a << 1 ^ (0x1b & (0 - (a >> 63)));
}

static inline __attribute__((always_inline)) void fold_body(gc_label *fold, const gc_label *labels,
                                                            unsigned k, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++) {
        uint64_t acc[2 * GC_LANES] = { 0 };
        for (unsigned w = k; w-- > 0;) {
            const uint64_t *l = labels[(b * k + w) * GC_LANES].w; /* 16 labels in a row */
            for (unsigned i = 0; i < 2 * GC_LANES; i++)
                acc[i] = times_x(acc[i]) ^ l[i];
        }
        memcpy(fold + b * GC_LANES, acc, sizeof acc);
    }
}

/* The same loop on wider registers. */
#if defined(__x86_64__)
#if !defined(__clang__)
#define VECTOR __attribute__((optimize("O3")))
#else
#define VECTOR
#endif
__attribute__((target("avx2"))) VECTOR static void fold_avx2(gc_label *fold, const gc_label *labels,
                                                             unsigned k, size_t blocks)
{
    fold_body(fold, labels, k, blocks);
}
#endif

void noise_fold(gc_label *fold, const gc_label *labels, unsigned k, size_t blocks)
{
#if defined(__x86_64__)
    if (cpu_get()->avx2) {
        fold_avx2(fold, labels, k, blocks);
        return;
    }
#endif
    fold_body(fold, labels, k, blocks);
}

void noise_fold_add(gc_label *fold, const uint32_t *value, size_t n, unsigned k,
                    const gc_label *delta)
{
    uint64_t power[32][2]; /* delta * x^w */
    assert(k <= 32);
    for (unsigned w = 0; w < k; w++)
        for (unsigned h = 0; h < 2; h++)
            power[w][h] = w == 0 ? delta->w[h] : times_x(power[w - 1][h]);
    for (size_t i = 0; i < n; i++) {
        uint64_t lo = 0, hi = 0;
        for (unsigned w = 0; w < k; w++) {
            uint64_t mask = 0 - (uint64_t)(value[i] >> w & 1);
            lo ^= power[w][0] & mask;
            hi ^= power[w][1] & mask;
        }
        fold[i].w[0] ^= lo;
        fold[i].w[1] ^= hi;
    }
    sefl_wipe(power, sizeof power);
}

void noise_join(gc_label *in, const gc_label *n, const gc_label *x, unsigned k, unsigned wires_x,
                size_t blocks)
{
    for (size_t b = 0; b < blocks; b++) {
        gc_label *to = in + b * (k + wires_x) * GC_LANES;
        memcpy(to, n + b * k * GC_LANES, k * GC_LANES * sizeof *to);
        memcpy(to + k * GC_LANES, x + b * wires_x * GC_LANES, wires_x * GC_LANES * sizeof *to);
    }
}

sefl_status noise_own_values(noise_session *s, uint32_t *out, uint64_t *digit,
                             const noise_digits *from, size_t c, int sign)
{
    size_t n = noise_chunk_coords(s, c);
    uint32_t ring = s->p.k == 32 ? UINT32_MAX : ((uint32_t)1 << s->p.k) - 1;
    int32_t jump[JUMP_GROUP];
    sefl_status st = from->get(from->ctx, digit, c * s->p.chunk, n);
    if (st != SEFL_OK)
        return st;
    noise_round(out, digit, n, s->p.k, s->p.t, s->p.g, &s->coins);
    for (size_t at = 0; at < n; at += JUMP_GROUP) {
        size_t m = n - at < JUMP_GROUP ? n - at : JUMP_GROUP;
        noise_jumps(jump, m, &s->coins);
        for (size_t i = 0; i < m; i++)
            out[at + i] = (out[at + i] + (uint32_t)sign * (uint32_t)jump[i]) & ring;
    }
    sefl_wipe(jump, sizeof jump);
    return SEFL_OK;
}

/* ---- output ---- */

void noise_digest_begin(const noise_session *s, sha256 *h)
{
    uint8_t tail[24];
    store_u64(tail, s->p.round);
    store_u64(tail + 8, s->p.attempt);
    store_u64(tail + 16, s->p.count);
    sha256_init(h);
    sha256_add(h, span_of_str("sefl noise output 1"));
    sha256_add(h, span_of(s->id, sizeof s->id));
    sha256_add(h, span_of(s->p.task, sizeof s->p.task));
    sha256_add(h, span_of(tail, sizeof tail));
}

void noise_digest_end(noise_session *s, sha256 *h, uint8_t out[SHA256_BYTES])
{
    uint8_t choices[SHA256_BYTES];
    sha256_end(&s->choices, choices);
    sha256_add(h, span_of(choices, sizeof choices));
    sha256_end(h, out);
}

void noise_results(int32_t *w, const uint32_t *z, const uint32_t *v, size_t n,
                   const noise_params *p)
{
    uint32_t offset = (sampler_mean_twice(p->profile) + 1) / 2, up = 32 - p->k;
    for (size_t i = 0; i < n; i++)
        w[i] = (int32_t)((z[i] - v[i] - offset) << up) >> up; /* arithmetic shift: sign */
}

sefl_status noise_output_bytes(size_t *bytes, const noise_params *p)
{
    noise_session s = { 0 };
    sefl_status st = SEFL_OK;
    *bytes = 0;
    SEFL_TRY(fill_params(&s.p, p));
    layout(&s);
    *bytes = noise_bits_bytes(&s, s.blocks);
done:
    return st;
}

sefl_status noise_output_send(channel *ch, const uint8_t id[NOISE_ID], sefl_span colours,
                              const uint8_t digest[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(msg_begin(ch, NOISE_MSG_OUTPUT, 0, NOISE_ID + colours.n + SHA256_BYTES));
    SEFL_TRY(channel_send(ch, id, NOISE_ID));
    SEFL_TRY(channel_send(ch, colours.p, colours.n));
    SEFL_TRY(channel_send(ch, digest, SHA256_BYTES));
    SEFL_TRY(channel_flush(ch));
done:
    return st;
}

sefl_status noise_output_receive(channel *ch, uint8_t id[NOISE_ID], uint8_t *colours, size_t n,
                                 uint8_t digest[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(msg_expect(ch, NOISE_MSG_OUTPUT, 0, NOISE_ID + n + SHA256_BYTES, "noise output"));
    SEFL_TRY(channel_recv(ch, id, NOISE_ID));
    SEFL_TRY(channel_recv(ch, colours, n));
    SEFL_TRY(channel_recv(ch, digest, SHA256_BYTES));
done:
    return st;
}

sefl_status noise_output_decode(int32_t *w, const noise_params *p, const uint8_t got[NOISE_ID],
                                sefl_span colours, const uint8_t kept[NOISE_ID], sefl_span decode,
                                const uint32_t *v)
{
    sefl_status st = SEFL_OK;
    noise_session s = { 0 };
    uint8_t bits[2 * 32] = { 0 };
    uint32_t z[GC_LANES] = { 0 };
    size_t per_block;
    SEFL_TRY(fill_params(&s.p, p));
    memset(w, 0, s.p.count * sizeof *w);
    layout(&s);
    per_block = noise_bits_bytes(&s, 1);
    SEFL_CHECK(memcmp(got, kept, NOISE_ID) == 0, SEFL_ESTATE,
               "noise output: of another attempt than the decode bits");
    SEFL_CHECK(colours.n == s.blocks * per_block && decode.n == colours.n, SEFL_EINVAL,
               "noise output: %zu and %zu bytes, wanted %zu", colours.n, decode.n,
               s.blocks * per_block);
    for (size_t b = 0; b * GC_LANES < s.p.count; b++) {
        size_t at = b * GC_LANES, n = s.p.count - at < GC_LANES ? s.p.count - at : GC_LANES;
        for (size_t i = 0; i < per_block; i++)
            bits[i] = colours.p[b * per_block + i] ^ decode.p[b * per_block + i];
        noise_values(z, bits, n, s.p.k);
        noise_results(w + at, z, v + at, n, &s.p);
    }
done:
    sefl_wipe(bits, sizeof bits);
    sefl_wipe(z, sizeof z);
    return st;
}

/* ---- hooks that do nothing ---- */

static sefl_status keep_none(void *ctx, const uint8_t id[NOISE_ID], size_t first, size_t n,
                             sefl_span decode, const uint32_t *v)
{
    (void)ctx, (void)id, (void)first, (void)n, (void)decode, (void)v;
    return SEFL_OK;
}

static sefl_status seal_none(void *ctx, const uint8_t id[NOISE_ID])
{
    (void)ctx, (void)id;
    return SEFL_OK;
}

static sefl_status open_none(void *ctx, const uint8_t id[NOISE_ID], sefl_span colours,
                             const uint8_t digest[SHA256_BYTES])
{
    (void)ctx, (void)id, (void)colours, (void)digest;
    return SEFL_OK;
}

const noise_garbler_hooks noise_garbler_hooks_none = { .keep = keep_none, .seal = seal_none };
const noise_evaluator_hooks noise_evaluator_hooks_none = { .open = open_none };
