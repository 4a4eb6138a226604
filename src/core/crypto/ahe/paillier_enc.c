/* Encryption with fixed-base tables.
 *
 * r is cut into windows of W bits; row v of window i holds hs^(v * 2^(W*i)) in Montgomery form.
 * hs^r is the product of one row per window, and the last multiplication, by 1 + m*N in ordinary
 * form, also leaves Montgomery form: ceil(|r|/W) multiplications in all, each for a whole batch of
 * ciphertexts whose rows are gathered into lanes; a multiplication prefetches the rows of the next
 * one.
 *
 * The row read depends on r, so an observer of this machine's caches could learn r (_vartime).
 */
#include "crypto/ahe/paillier_internal.h"

#include "base/alloc.h"
#include "base/ct.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

enum { WINDOW_MAX = 12, TABLE_MAX = 96 << 20 };
#define BUILD_S 1.2

struct paillier_enc {
    const paillier_pub *pub;
    unsigned exp_bits, window, windows;
    size_t row_words;
    uint64_t *table; /* (windows, 2^window, row_words) */
};

static unsigned windows_of(unsigned exp_bits, unsigned window)
{
    return (exp_bits + window - 1) / window;
}

static size_t row_words(const mont *m)
{
    return (size_t)(m->words + 7) / 8 * 8; /* whole cache lines */
}

static size_t table_bytes(const mont *m, unsigned exp_bits, unsigned window)
{
    return ((size_t)windows_of(exp_bits, window) << window) * row_words(m) * 8;
}

/* The window with the fewest multiplications for building and `uses` encryptions together, among
 * those whose table fits in TABLE_MAX bytes and takes about BUILD_S seconds on one thread at most.
 */
static unsigned choose_window(const mont *m, unsigned exp_bits, size_t uses)
{
    unsigned best = 1;
    double least = 0, count = uses ? (double)uses : 1e6;
    /* seconds per multiplication, as measured: 0.07 ns per pair of digits and lane with IFMA, 0.6
     * ns per pair of limbs otherwise (each pair twice: product and reduction) */
    double mul = (double)m->words * m->words * 2 * (m->lanes > 1 ? 0.07e-9 : 0.6e-9);
    for (unsigned w = 1; w <= WINDOW_MAX && w <= exp_bits; w++) {
        double n = windows_of(exp_bits, w);
        double cost = n * (double)(1u << w) + n * count;
        bool fits =
            table_bytes(m, exp_bits, w) <= TABLE_MAX && n * (double)(1u << w) * mul <= BUILD_S;
        if (w == 1 || (fits && cost < least))
            best = w, least = cost;
    }
    return best;
}

typedef struct build_job {
    paillier_enc *e;
    uint64_t *scratch; /* two batches per thread */
    uint64_t *base;    /* (windows, row_words): hs^(2^(W*i)) */
} build_job;

/* Rows of windows begin..end-1, at most one batch of windows. */
static sefl_status build_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    build_job *j = ctx;
    paillier_enc *e = j->e;
    const mont *m = &e->pub->mod_n2;
    size_t batch = mont_batch_words(m);
    uint64_t *g = j->scratch + 2 * lane * batch, *x = g + batch;
    const uint64_t *from[MONT_LANES_MAX];
    uint64_t *to[MONT_LANES_MAX];
    unsigned count = (unsigned)(end - begin);
    for (unsigned i = 0; i < m->lanes; i++)
        from[i] = j->base + (begin + (i < count ? i : 0)) * e->row_words;
    mont_gather(m, g, from);
    mont_to(m, x, m->one);
    for (size_t v = 0; v < (size_t)1 << e->window; v++) {
        for (unsigned i = 0; i < count; i++)
            to[i] = e->table + (((begin + i) << e->window) + v) * e->row_words;
        mont_scatter(m, to, x, count);
        mont_mul(m, x, x, g);
    }
    return SEFL_OK;
}

sefl_status paillier_enc_new_window(paillier_enc **out, const paillier_pub *pub, unsigned window,
                                    pool *workers, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    const mont *m = &pub->mod_n2;
    size_t batch = mont_batch_words(m);
    paillier_enc *e = NULL;
    build_job j = { 0 };
    *out = NULL;
    assert(window >= 1 && window <= WINDOW_MAX);
    SEFL_TRY(sefl_new(&e, 1, sizeof *e));
    e->pub = pub;
    e->exp_bits = pub->bits / 2;
    e->window = window;
    e->windows = windows_of(e->exp_bits, window);
    e->row_words = row_words(m);
    SEFL_TRY(sefl_new(&e->table, (size_t)e->windows << window, e->row_words * 8));
    SEFL_TRY(sefl_new(&j.base, e->windows, e->row_words * 8));
    SEFL_TRY(sefl_new(&j.scratch, 2 * (size_t)pool_threads(workers), batch * 8));
    j.e = e;
    uint64_t *x = j.scratch;
    mont_load(m, x, pub->hs_bytes, 0, pub->bits / 4, m->lanes);
    mont_to(m, x, x);
    for (unsigned i = 0; i < e->windows; i++) {
        uint64_t *row = j.base + i * e->row_words;
        mont_scatter(m, &row, x, 1);
        for (unsigned k = 0; k < window && i + 1 < e->windows; k++)
            mont_sqr(m, x, x);
    }
    SEFL_TRY(pool_run(workers, e->windows, m->lanes, build_piece, &j, progress));
    *out = e, e = NULL;
done:
    sefl_free(j.base);
    sefl_free(j.scratch);
    paillier_enc_free(e);
    return st;
}

sefl_status paillier_enc_new(paillier_enc **out, const paillier_pub *pub, size_t uses,
                             pool *workers, const sefl_progress *progress)
{
    unsigned window = choose_window(&pub->mod_n2, pub->bits / 2, uses);
    return paillier_enc_new_window(out, pub, window, workers, progress);
}

void paillier_enc_free(paillier_enc *e)
{
    if (e)
        sefl_free(e->table);
    sefl_free(e);
}

unsigned paillier_enc_window(const paillier_enc *e)
{
    return e->window;
}

unsigned paillier_enc_products(const paillier_enc *e)
{
    return e->windows; /* windows - 1 rows on top of the first, and 1 + m*N */
}

size_t paillier_enc_table_bytes(const paillier_enc *e)
{
    return table_bytes(&e->pub->mod_n2, e->exp_bits, e->window);
}

/* ---- encryption ------------------------------------------------------------------------------ */

typedef struct enc_job {
    const paillier_enc *e;
    uint8_t *out;
    const uint8_t *m;
    const uint8_t *seed;
    uint64_t first;
    uint64_t *scratch; /* two batches per thread */
} enc_job;

static const uint64_t *row_vartime(const paillier_enc *e, const uint8_t *r, unsigned i)
{
    size_t at = (size_t)i * e->window / 8; /* r has four spare zero bytes on top */
    uint32_t v = load_u32(r + at) >> ((size_t)i * e->window % 8);
    v &= ((uint32_t)1 << e->window) - 1;
    return e->table + (((size_t)i << e->window) + v) * e->row_words;
}

static void rows_vartime(const paillier_enc *e, const uint64_t **rows, unsigned lanes,
                         const uint8_t (*r)[N_BYTES / 2 + 8], unsigned i)
{
    for (unsigned lane = 0; lane < lanes; lane++)
        rows[lane] = row_vartime(e, r[lane], i);
}

static sefl_status enc_piece_vartime(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const enc_job *j = ctx;
    const paillier_enc *e = j->e;
    const mont *m = &e->pub->mod_n2;
    size_t batch = mont_batch_words(m), bits = e->pub->bits;
    uint64_t *acc = j->scratch + 2 * lane * batch, *x = acc + batch;
    uint8_t r[MONT_LANES_MAX][N_BYTES / 2 + 8] = { 0 };
    uint8_t plain[MONT_LANES_MAX][C_BYTES];
    const uint64_t *rows[MONT_LANES_MAX];
    unsigned count = (unsigned)(end - begin);
    for (unsigned i = 0; i < count; i++) {
        uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];
        store_u64(nonce, j->first + begin + i);
        crypto_stream_chacha20(r[i], bits / 16, nonce, j->seed);
        paillier_plain_factor(e->pub, plain[i], j->m + (begin + i) * (bits / 8));
    }
    const uint8_t(*coins)[N_BYTES / 2 + 8] = (const uint8_t(*)[N_BYTES / 2 + 8]) r;
    rows_vartime(e, rows, m->lanes, coins, 0);
    mont_gather(m, acc, rows);
    rows_vartime(e, rows, m->lanes, coins, 1 % e->windows);
    for (unsigned i = 1; i < e->windows; i++) {
        mont_gather(m, x, rows);
        rows_vartime(e, rows, m->lanes, coins, (i + 1) % e->windows);
        mont_mul_fetch(m, acc, acc, x, rows);
    }
    mont_load(m, x, plain[0], sizeof plain[0], bits / 4, count);
    mont_mul(m, acc, acc, x);
    mont_store(m, j->out + begin * (bits / 4), bits / 4, bits / 4, acc, count);
    sefl_wipe(r, sizeof r);
    sefl_wipe(plain, sizeof plain);
    return SEFL_OK;
}

sefl_status paillier_encrypt_vartime(const paillier_enc *e, uint8_t *out, const uint8_t *m,
                                     size_t count, const uint8_t seed[PAILLIER_SEED_BYTES],
                                     uint64_t first, pool *workers, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    size_t batch = mont_batch_words(&e->pub->mod_n2);
    size_t words = 2 * (size_t)pool_threads(workers) * batch;
    enc_job j = { .e = e, .out = out, .m = m, .seed = seed, .first = first };
    SEFL_TRY(paillier_check_plain(e->pub, m, count));
    SEFL_TRY(sefl_new(&j.scratch, words, sizeof *j.scratch));
    SEFL_TRY(pool_run(workers, count, e->pub->mod_n2.lanes, enc_piece_vartime, &j, progress));
done:
    sefl_free_secret(j.scratch, words * sizeof *j.scratch);
    return st;
}
