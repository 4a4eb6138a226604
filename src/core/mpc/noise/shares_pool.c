/* Sessions are a list, oldest first. In each, values before `taken` are zeros (their key stream is
 * never used again), and values before `picked` belong to an attempt of AS. taken may pass picked:
 * values that a slice skipped are lost. A session leaves the list, with its key, when its last
 * value is taken. */
#include "mpc/noise/shares_pool.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "crypto/prg/prg.h"
#include "crypto/secmem.h"

#include <pthread.h>
#include <string.h>

typedef struct batch {
    struct batch *next;
    uint8_t id[SHARES_ID];
    uint64_t n, picked, taken;
    unsigned bytes; /* per value */
    uint8_t *sealed;
    uint8_t *key; /* PRG_SEED bytes, locked */
} batch;

struct shares_pool {
    pthread_mutex_t lock;
    batch *first;
    uint64_t max;
    const sefl_rng *rng;
};

static uint64_t free_of(const batch *b)
{
    return b->n - (b->picked > b->taken ? b->picked : b->taken);
}

static void batch_free(batch *b)
{
    if (!b)
        return;
    sefl_free_secret(b->sealed, b->n * b->bytes);
    secmem_free(b->key);
    sefl_free(b);
}

static void unlink_batch(shares_pool *p, batch *b)
{
    batch **at = &p->first;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    batch_free(b);
}

static batch *shares_pool_find(const shares_pool *p, const uint8_t id[SHARES_ID])
{
    batch *b = p->first;
    while (b && memcmp(b->id, id, SHARES_ID) != 0)
        b = b->next;
    return b;
}

static void clear(shares_pool *p)
{
    while (p->first)
        unlink_batch(p, p->first);
}

sefl_status shares_pool_new(shares_pool **out, uint64_t max, const sefl_rng *rng)
{
    SEFL_PASS(sefl_new(out, 1, sizeof **out));
    (*out)->max = max ? max : SHARES_POOL_MAX;
    (*out)->rng = rng;
    pthread_mutex_init(&(*out)->lock, NULL);
    return SEFL_OK;
}

void shares_pool_free(shares_pool *p)
{
    if (!p)
        return;
    clear(p);
    pthread_mutex_destroy(&p->lock);
    sefl_free(p);
}

void shares_pool_clear(shares_pool *p)
{
    pthread_mutex_lock(&p->lock);
    clear(p);
    pthread_mutex_unlock(&p->lock);
}

/* ---- in ------------------------------------------------------------------------------------- */

/* XORs n bytes at `at` of the session's key stream. */
static void xor_stream(const batch *b, uint8_t *p, size_t n, uint64_t at)
{
    enum { STEP = 4096 };
    uint8_t stream[STEP];
    prg g;
    prg_init(&g, b->key, "shares pool");
    for (size_t i = 0; i < n; i += STEP) {
        size_t m = n - i < STEP ? n - i : STEP;
        prg_read(&g, stream, m, 0, at + i);
        for (size_t j = 0; j < m; j++)
            p[i + j] ^= stream[j];
    }
    prg_clear(&g);
    sefl_wipe(stream, sizeof stream);
}

static sefl_status batch_new(batch **out, const uint8_t id[SHARES_ID], const uint64_t *x, size_t n,
                             unsigned bits, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    batch *b = NULL;
    SEFL_TRY(sefl_new(&b, 1, sizeof *b));
    memcpy(b->id, id, SHARES_ID);
    b->bytes = bits / 8;
    b->n = n;
    SEFL_TRY(secmem_new(&b->key, PRG_SEED, NULL));
    SEFL_TRY(rng_fill(rng, b->key, PRG_SEED));
    SEFL_TRY(sefl_new(&b->sealed, n, b->bytes));
    for (size_t i = 0; i < n; i++)
        for (unsigned j = 0; j < b->bytes; j++)
            b->sealed[i * b->bytes + j] = (uint8_t)(x[i] >> (8 * j));
    xor_stream(b, b->sealed, n * b->bytes, 0);
    SEFL_HAND_OVER(out, b, batch_free);
}

sefl_status shares_pool_add(shares_pool *p, const uint8_t id[SHARES_ID], uint64_t *x, size_t n,
                            unsigned bits)
{
    sefl_status st = SEFL_OK;
    batch *b = NULL, **at = &p->first;
    uint64_t have = n;
    pthread_mutex_lock(&p->lock);
    SEFL_CHECK(n >= 1 && n <= SHARES_COUNT_MAX && n <= p->max && (bits == 32 || bits == 40),
               SEFL_EINVAL, "shares: %zu values of %u bits do not fit a pool of %llu values", n,
               bits, (unsigned long long)p->max);
    SEFL_CHECK(!shares_pool_find(p, id), SEFL_ESTATE,
               "shares: this session is already in the pool");
    SEFL_TRY(batch_new(&b, id, x, n, bits, p->rng));
    for (const batch *o = p->first; o; o = o->next)
        have += o->n;
    while (have > p->max && p->first) {
        have -= p->first->n;
        unlink_batch(p, p->first);
    }
    while (*at)
        at = &(*at)->next;
    *at = b;
done:
    pthread_mutex_unlock(&p->lock);
    sefl_wipe(x, n * sizeof *x);
    return st;
}

uint64_t shares_pool_have(shares_pool *p)
{
    uint64_t have = 0;
    pthread_mutex_lock(&p->lock);
    for (const batch *b = p->first; b; b = b->next)
        have += free_of(b);
    pthread_mutex_unlock(&p->lock);
    return have;
}

/* ---- out ------------------------------------------------------------------------------------ */

/* Collects the oldest free values from at most SLICE_PARTS_MAX sessions. */
static uint64_t gather(const shares_pool *p, shares_slice *out, uint64_t count)
{
    uint64_t got = 0;
    out->n = 0;
    for (const batch *b = p->first; b && got < count && out->n < SLICE_PARTS_MAX; b = b->next) {
        uint64_t n = free_of(b) < count - got ? free_of(b) : count - got;
        if (n == 0)
            continue;
        memcpy(out->part[out->n].id, b->id, SHARES_ID);
        out->part[out->n].first = b->n - free_of(b);
        out->part[out->n++].count = n;
        got += n;
    }
    return got;
}

sefl_status shares_pool_pick(shares_pool *p, shares_slice *out, uint64_t count)
{
    sefl_status st = SEFL_OK;
    uint64_t got;
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&p->lock);
    while ((got = gather(p, out, count)) < count && out->n == SLICE_PARTS_MAX)
        unlink_batch(p, shares_pool_find(p, out->part[0].id));
    SEFL_CHECK(got == count && count > 0, SEFL_ENOTFOUND,
               "the round needs %llu noise shares, but the pool has %llu",
               (unsigned long long)count, (unsigned long long)got);
    for (uint32_t i = 0; i < out->n; i++)
        shares_pool_find(p, out->part[i].id)->picked = out->part[i].first + out->part[i].count;
done:
    pthread_mutex_unlock(&p->lock);
    if (st != SEFL_OK)
        out->n = 0;
    return st;
}

/* Writes the low `bytes` bytes of values [first, first + n) in the clear, then erases everything up
 * to there. */
static void open_part(batch *b, uint8_t *x, unsigned bytes, uint64_t first, uint64_t n)
{
    uint8_t *at = b->sealed + first * b->bytes;
    xor_stream(b, at, n * b->bytes, first * b->bytes);
    for (uint64_t i = 0; i < n; i++)
        memcpy(x + i * bytes, at + i * b->bytes, bytes);
    sefl_wipe(b->sealed + b->taken * b->bytes, (first + n - b->taken) * b->bytes);
    b->taken = first + n;
}

/* Checks that every part is here, beyond its session's cursor and the slice's earlier parts. */
static sefl_status is_here(const shares_pool *p, const shares_slice *s, unsigned bytes)
{
    SEFL_NEED(s->n >= 1 && s->n <= SLICE_PARTS_MAX && bytes >= 1, SEFL_EINVAL,
              "a slice of %u parts with %u bytes per value is not valid", s->n, bytes);
    for (uint32_t i = 0; i < s->n; i++) {
        const batch *b = shares_pool_find(p, s->part[i].id);
        SEFL_NEED(b, SEFL_ENOTFOUND, "the pool does not have this session of noise shares");
        uint64_t cursor = b->taken, first = s->part[i].first, count = s->part[i].count;
        for (uint32_t j = 0; j < i; j++)
            if (memcmp(s->part[j].id, b->id, SHARES_ID) == 0)
                cursor = s->part[j].first + s->part[j].count;
        SEFL_NEED(count >= 1 && first >= cursor && first <= b->n && count <= b->n - first,
                  SEFL_ENOTFOUND, "these noise shares are used up, or were never made");
        SEFL_NEED(bytes <= b->bytes, SEFL_EINVAL,
                  "noise shares have %u bytes, but the round needs %u", b->bytes, bytes);
    }
    return SEFL_OK;
}

sefl_status shares_pool_take(shares_pool *p, const shares_slice *s, uint8_t *x, unsigned bytes)
{
    sefl_status st = SEFL_OK;
    pthread_mutex_lock(&p->lock);
    SEFL_TRY(is_here(p, s, bytes));
    for (uint32_t i = 0; i < s->n; i++) {
        open_part(shares_pool_find(p, s->part[i].id), x, bytes, s->part[i].first, s->part[i].count);
        x += s->part[i].count * bytes;
    }
    for (batch *b = p->first, *next; b; b = next) {
        next = b->next;
        if (b->taken == b->n)
            unlink_batch(p, b);
    }
done:
    pthread_mutex_unlock(&p->lock);
    return st;
}

void shares_pool_drop(shares_pool *p, const shares_slice *s)
{
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < s->n; i++) {
        batch *b = shares_pool_find(p, s->part[i].id);
        if (b)
            unlink_batch(p, b);
    }
    pthread_mutex_unlock(&p->lock);
}

/* ---- slices --------------------------------------------------------------------------------- */

uint64_t shares_slice_count(const shares_slice *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        n += s->part[i].count;
    return n;
}

size_t shares_slice_write(uint8_t out[SLICE_BYTES_MAX], const shares_slice *s)
{
    store_u32(out, s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        uint8_t *p = out + 4 + i * SLICE_PART;
        memcpy(p, s->part[i].id, SHARES_ID);
        store_u64(p + SHARES_ID, s->part[i].first);
        store_u64(p + SHARES_ID + 8, s->part[i].count);
    }
    return 4 + (size_t)s->n * SLICE_PART;
}

sefl_status shares_slice_read(rd *r, shares_slice *out)
{
    memset(out, 0, sizeof *out);
    uint32_t n;
    SEFL_PASS(rd_u32(r, &n));
    SEFL_NEED(n <= SLICE_PARTS_MAX, SEFL_EPROTO, "a slice of %u parts, at most %d", n,
              SLICE_PARTS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        SEFL_PASS(rd_raw(r, out->part[i].id, SHARES_ID));
        SEFL_PASS(rd_u64(r, &out->part[i].first));
        SEFL_PASS(rd_u64(r, &out->part[i].count));
        SEFL_NEED(out->part[i].count >= 1 && out->part[i].count <= SHARES_COUNT_MAX &&
                      out->part[i].first <= SHARES_COUNT_MAX - out->part[i].count,
                  SEFL_EPROTO, "part %u of a slice is empty or too long", i);
    }
    out->n = n;
    return SEFL_OK;
}

void shares_slice_hash(uint8_t out[SHA256_BYTES], const shares_slice *s)
{
    uint8_t bytes[SLICE_BYTES_MAX];
    sha256_of(out, span_of(bytes, shares_slice_write(bytes, s)));
}

/* ---- filling -------------------------------------------------------------------------------- */

typedef struct side {
    uint64_t count;
    unsigned bits; /* 0: 32 */
    shares_pool *pool;
    const sefl_rng *rng;
    bool garbles;
    uint64_t bytes; /* sent and received */
} side;

/* In sessions of at most SHARES_COUNT_MAX. */
static sefl_status fill_side(void *ctx, channel *ch)
{
    sefl_status st = SEFL_OK;
    side *s = ctx;
    shares_result made;
    uint64_t *x = NULL;
    size_t room = s->count < SHARES_COUNT_MAX ? s->count : SHARES_COUNT_MAX;
    SEFL_TRY(sefl_new(&x, room, sizeof *x));
    for (uint64_t done = 0; done < s->count;) {
        shares_params p = { .count = s->count - done < room ? s->count - done : room,
                            .bits = s->bits };
        SEFL_TRY(s->garbles ? shares_garble(&made, x, ch, &p, s->rng)
                            : shares_evaluate(&made, x, ch, &p, s->rng));
        SEFL_TRY(shares_pool_add(s->pool, made.id, x, p.count, s->bits ? s->bits : 32));
        done += p.count;
    }
done:
    s->bytes = ch->sent + ch->received;
    sefl_free_secret(x, room * sizeof *x);
    return st;
}

/* Adds the bytes exchanged to *bytes. */
static sefl_status fill_both(uint64_t *bytes, side as, side csp)
{
    enum { TIMEOUT_MS = 600000, ROOM = 4 << 20 };
    SEFL_PASS(channel_pair_run((channel_side){ fill_side, &as }, (channel_side){ fill_side, &csp },
                               TIMEOUT_MS, ROOM));
    *bytes += as.bytes;
    return SEFL_OK;
}

sefl_status shares_fill_pair(shares_pool *as, shares_pool *csp, uint64_t count,
                             const sefl_rng *as_rng, const sefl_rng *csp_rng)
{
    uint64_t bytes = 0;
    return fill_both(&bytes, (side){ .pool = as, .rng = as_rng, .count = count },
                     (side){ .pool = csp, .rng = csp_rng, .count = count, .garbles = true });
}

/* ---- both servers in one process ------------------------------------------------------------- */

sefl_status shares_twins_init(shares_twins *t, const sefl_coins *as_coins,
                              const sefl_coins *csp_coins)
{
    *t = (shares_twins){ .as_coins = as_coins, .csp_coins = csp_coins, .keys = rng_system() };
    SEFL_PASS(shares_pool_new(&t->as, 0, &t->keys));
    return shares_pool_new(&t->csp, 0, &t->keys);
}

void shares_twins_clear(shares_twins *t)
{
    shares_pool_free(t->as);
    shares_pool_free(t->csp);
    *t = (shares_twins){ 0 };
}

sefl_status shares_twins_wait(void *twins, uint64_t round, uint64_t attempt, uint64_t count)
{
    shares_twins *t = twins;
    sefl_rng as, csp;
    if (shares_pool_have(t->as) >= count)
        return SEFL_OK;
    SEFL_PASS(coins_for(t->as_coins, &as, "noise", round, attempt));
    SEFL_PASS(coins_for(t->csp_coins, &csp, "noise", round, attempt));
    return fill_both(
        &t->bytes, (side){ .pool = t->as, .rng = &as, .count = count, .bits = t->bits },
        (side){ .pool = t->csp, .rng = &csp, .count = count, .bits = t->bits, .garbles = true });
}
