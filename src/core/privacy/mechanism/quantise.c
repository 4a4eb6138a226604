#include "privacy/mechanism/quantise.h"

#include "base/ct.h"
#include "base/span.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

enum { CHUNK = 512, ATTEMPTS_MAX = 20000 };

typedef unsigned __int128 u128;

/* |X_i| <= most, in integers: -INT64_MIN has no place to go */
static bool within(const int64_t *X, size_t n, int64_t most)
{
    for (size_t i = 0; i < n; i++)
        if (X[i] > most || X[i] < -most)
            return false;
    return true;
}

static u128 squares(const int64_t *X, size_t n)
{
    u128 sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (u128)((__int128)X[i] * X[i]);
    return sum;
}

sefl_status dp_norm(double *out, const float *v, size_t n)
{
    double total = 0;
    for (size_t at = 0; at < n; at += 1024) {
        size_t end = n - at < 1024 ? n : at + 1024;
        double part = 0;
        for (size_t i = at; i < end; i++)
            part += (double)v[i] * v[i];
        if (!isfinite(part)) {
            for (size_t i = at; i < end; i++)
                if (!isfinite(v[i]))
                    return sefl_fail(SEFL_EINVAL, "update: coordinate %zu is %f", i, (double)v[i]);
        }
        total += part;
    }
    *out = sqrt(total);
    return SEFL_OK;
}

/* x to floor(x) or floor(x) + 1 with mean x; coin is 64 random bits */
static int64_t round_one(double x, uint64_t coin)
{
    double low = floor(x), part = x - low; /* exact, but 1 for a tiny negative x */
    int64_t i = (int64_t)low;
    if (part >= 1)
        return i + 1;
    return i + (coin < (uint64_t)(part * 18446744073709551616.0));
}

typedef struct pass {
    int64_t value_max;
    const float *v;
    size_t n;
    double scale; /* from v to grid steps */
    bool has_slot;
    double slot; /* in grid steps */
} pass;

static sefl_status one_pass(int64_t *X, uint64_t *clipped, const pass *p, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t coins[8 * CHUNK];
    double most = (double)p->value_max;
    size_t total = p->n + p->has_slot;
    *clipped = 0;
    for (size_t at = 0; at < total; at += CHUNK) {
        size_t m = total - at < CHUNK ? total - at : CHUNK;
        SEFL_TRY(rng_fill(rng, coins, 8 * m));
        for (size_t j = 0; j < m; j++) {
            size_t i = at + j;
            double x = i < p->n ? p->v[i] * p->scale : p->slot;
            if (!(fabs(x) <= most)) {
                SEFL_CHECK(!isnan(x), SEFL_EINVAL,
                           "update: coordinate %zu is not a number of steps", i);
                x = x > 0 ? most : -most;
                ++*clipped;
            }
            X[i] = round_one(x, load_u64(coins + 8 * j));
        }
    }
done:
    sefl_wipe(coins, total < CHUNK ? 8 * total : sizeof coins);
    return st;
}

/* The update before quantising: v is multiplied by factor, the slot carries w times its share. */
typedef struct measure {
    double norm, factor, w;
} measure;

static sefl_status measure_of(measure *out, double clip, const float *v, size_t n,
                              const dp_weight *weight)
{
    const bool bit = weight && weight->scale > 0;
    const double scale = bit ? weight->scale : 1;
    double norm, share = weight ? sqrt(1 - DP_WEIGHT_SLOT_SHARE * DP_WEIGHT_SLOT_SHARE) : 1, w = 1;
    SEFL_PASS(dp_norm(&norm, v, n));
    norm *= scale;
    SEFL_NEED(isfinite(norm), SEFL_EINVAL, "update: its norm is not finite in units of the clip");
    const double most = share * clip;
    if (weight && !bit) {
        SEFL_NEED(weight->items_cap > 0, SEFL_EINVAL, "items_cap is 0: it must be at least 1");
        uint64_t items = weight->items < weight->items_cap ? weight->items : weight->items_cap;
        w = (double)items / (double)weight->items_cap;
    }
    *out = (measure){ norm, (norm > most ? most / norm : 1) * w * scale, w };
    if (bit)
        out->w = norm > most ? -1 : 1;
    return SEFL_OK;
}

/* The pass over v that these numbers give on a grid of step q. */
static pass pass_of(const measure *m, double clip, double q, int64_t value_max, const float *v,
                    size_t n, const dp_weight *weight)
{
    return (pass){ .value_max = value_max,
                   .v = v,
                   .n = n,
                   .scale = m->factor / q,
                   .has_slot = weight != NULL,
                   .slot = weight ? m->w * DP_WEIGHT_SLOT_SHARE * clip / q : 0 };
}

sefl_status dp_quantise(int64_t *X, dp_quantise_info *info, const dp_grid *grid, const float *v,
                        size_t n, const dp_weight *weight, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    size_t total = n + (weight != NULL);
    uint64_t clipped;
    measure m;
    SEFL_CHECK(grid->dim == total, SEFL_EINVAL, "update: %zu values do not fit a grid of %" PRIu64,
               total, grid->dim);
    SEFL_TRY(measure_of(&m, grid->clip, v, n, weight));
    for (unsigned attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
        if (attempt > 2) /* once more with new coins, then a little smaller each time */
            m.factor *= 0.999, m.w *= 0.999;
        pass p = pass_of(&m, grid->clip, grid->q, grid->value_max, v, n, weight);
        SEFL_TRY(one_pass(X, &clipped, &p, rng));
        if (within(X, total, grid->value_max) && squares(X, total) <= grid->s2) {
            if (info)
                *info = (dp_quantise_info){ m.norm, m.factor, attempt, clipped };
            goto done;
        }
    }
    st = sefl_fail(SEFL_ESTATE, "quantising: no vector within the bound in %d attempts",
                   ATTEMPTS_MAX);
done:
    if (st != SEFL_OK)
        sefl_wipe(X, total * sizeof *X);
    return st;
}

sefl_status dp_quantise_plain(int64_t *X, const dp_plain_grid *grid, const float *v, size_t n,
                              const dp_weight *weight, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    size_t total = n + (weight != NULL);
    uint64_t clipped;
    measure m;
    SEFL_CHECK(grid->q > 0 && grid->clip > 0 && grid->value_max > 0, SEFL_EINVAL,
               "quantising: the grid has no clip, step or bound");
    SEFL_TRY(measure_of(&m, grid->clip, v, n, weight));
    pass p = pass_of(&m, grid->clip, grid->q, grid->value_max, v, n, weight);
    SEFL_TRY(one_pass(X, &clipped, &p, rng)); /* value_max is whole: no rounding passes it */
done:
    if (st != SEFL_OK)
        sefl_wipe(X, total * sizeof *X);
    return st;
}

sefl_status dp_add_record(int64_t *sum, int64_t *record, size_t n, int64_t sum_max)
{
    sefl_status st = SEFL_OK;
    for (size_t i = 0; i < n; i++) {
        int64_t s;
        SEFL_CHECK(!__builtin_add_overflow(sum[i], record[i], &s) && s <= sum_max && s >= -sum_max,
                   SEFL_ERANGE, "records: coordinate %zu of the sum would exceed %" PRId64, i,
                   sum_max);
    }
    for (size_t i = 0; i < n; i++)
        sum[i] += record[i];
done:
    sefl_wipe(record, n * sizeof *record);
    return st;
}

double dp_weight_total(double slot_sum, double clip, double least)
{
    double total = slot_sum / (DP_WEIGHT_SLOT_SHARE * clip);
    return total > least ? total : least;
}

double dp_norm_share(double slot_sum, double clip, double n)
{
    const double share = (slot_sum / (DP_WEIGHT_SLOT_SHARE * clip) / n + 1) / 2;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}
