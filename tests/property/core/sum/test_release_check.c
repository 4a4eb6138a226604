/* Honest rounds never trip the release check: sums as large as honest clients can produce, with the
 * real laws of the noise (g44_release_vartime, dgauss, dp_quantise_plain), over noise modes, z,
 * numbers of clients and of values. With SEFL_SOAK=1 10^6 releases of 100 to 10,000 values, sizes
 * drawn log-uniformly, and 100 of 945,510. */
#include "base/alloc.h"
#include "base/clock.h"
#include "privacy/mechanism/dgauss.h"
#include "privacy/mechanism/quantise.h"
#include "sum/release_check.h"
#include "support/check.h"
#include "support/g44.h"

#include <math.h>
#include <string.h>

enum { LARGE = 945510, CLIENTS_MOST = 1000, PLAIN_CLIENTS = 3 };

typedef struct room {
    int64_t *sum, *out, *other, *zeros;
    float *v;
} room;

/* How close the releases came: the largest norm over bound, the weight slot over its range. */
static struct tally {
    unsigned long n;
    double values, norm, weight;
} tally[3]; /* by task_noise */

static double log_uniform(seeded *g, double least, double most)
{
    return least * pow(most / least, seeded_unit(g));
}

/* One client's integers: its sum of squares is S2, or the nearest value below that integers reach,
 * in one value, spread over all, or over random ones. The weight slot is that of a client with all
 * of its weight. */
static void largest_vector(int64_t *x, const task *t, seeded *g)
{
    const dp_grid *grid = &t->grid;
    uint64_t left = grid->s2, size[] = { 1, t->params, 1 + seeded_below(g, t->params) };
    size_t over = (size_t)size[seeded_below(g, 3)];
    memset(x, 0, t->values * sizeof *x);
    if (t->weights == TASK_CAPPED) {
        int64_t slot = (int64_t)ceil(DP_WEIGHT_SLOT_SHARE * grid->r);
        x[t->params] = slot, left -= (uint64_t)(slot * slot);
    }
    int64_t each = (int64_t)sqrt((double)left / (double)over);
    each = each < grid->value_max ? each : grid->value_max;
    for (size_t i = 0; i < over; i++)
        x[i] = i % 2 ? -each : each;
    left -= (uint64_t)(each * each) * over;
    for (size_t i = over; i < t->params && left > 0; i++) { /* what is left, value after value */
        int64_t v = (int64_t)sqrt((double)left);
        v = v < grid->value_max ? v : grid->value_max;
        v -= (uint64_t)(v * v) > left;
        x[i] = v, left -= (uint64_t)(v * v);
    }
}

static void with_noise(int64_t *out, const task *t, room *r, uint32_t clients, seeded *g)
{
    sefl_rng rng = seeded_rng(g);
    largest_vector(r->sum, t, g);
    for (size_t i = 0; i < t->values; i++) /* all of them are equal: the longest possible sum */
        r->sum[i] *= clients;
    if (t->noise == TASK_NOISE_JOINT) {
        CHECK_OK(g44_release_vartime(out, &t->grid, r->sum, t->values, &rng));
        for (unsigned j = 0; j < t->filter.b; j++) { /* the noise of round r - 1 - j */
            CHECK_OK(g44_release_vartime(r->other, &t->grid, r->zeros, t->values, &rng));
            for (size_t i = 0; i < t->values; i++)
                out[i] -= llround(t->filter.gamma[j] / 4096.0 * ((double)r->other[i] + 0.5));
        }
        return;
    }
    dgauss law;
    CHECK_OK(dgauss_for_grid(&law, &t->grid));
    CHECK_OK(dgauss_fill_vartime(&law, out, t->values, &rng)); /* AS's and CSP's */
    CHECK_OK(dgauss_fill_vartime(&law, r->other, t->values, &rng));
    for (size_t i = 0; i < t->values; i++)
        out[i] += r->other[i] + r->sum[i];
    for (unsigned j = 0; j < 2 * t->filter.b; j++) { /* each server's */
        CHECK_OK(dgauss_fill_vartime(&law, r->other, t->values, &rng));
        for (size_t i = 0; i < t->values; i++)
            out[i] -= llround(t->filter.gamma[j / 2] / 4096.0 * (double)r->other[i]);
    }
}

/* A filter of up to four lags that takes back up to all of the noise. */
static dp_filter draw_filter(seeded *g)
{
    dp_filter f = { .b = 1 + (unsigned)seeded_below(g, DP_FILTER_LAGS) };
    uint64_t left = DP_FILTER_ONE;
    for (unsigned j = 0; j < f.b; j++) {
        f.gamma[j] = (uint16_t)seeded_below(g, left + 1);
        left -= f.gamma[j];
    }
    return f;
}

static void without_noise(int64_t *out, const task *t, room *r, uint32_t clients, seeded *g)
{
    const pack *p = &t->ahe.pack;
    sefl_rng rng = seeded_rng(g);
    dp_plain_grid grid = { .clip = 1, .q = p->q, .value_max = p->value_max };
    dp_weight weight = { .items_cap = 5 };
    for (size_t i = 0; i < t->params; i++)
        r->v[i] = (float)(seeded_unit(g) - 0.5); /* far above the clip */
    memset(out, 0, t->values * sizeof *out);
    for (uint32_t k = 0; k < clients; k++) {
        weight.items = 1 + seeded_below(g, 5);
        CHECK_OK(dp_quantise_plain(r->sum, &grid, r->v, t->params,
                                   t->weights == TASK_CAPPED ? &weight : NULL, &rng));
        for (size_t i = 0; i < t->values; i++)
            out[i] += r->sum[i];
    }
}

static task draw_task(task_noise noise, size_t values, seeded *g, uint32_t *clients)
{
    task t = { .values = values, .params = values, .noise = noise, .clip = "1" };
    sefl_status st = SEFL_ERANGE;
    t.publish_count = seeded_below(g, 4) > 0;
    if (seeded_below(g, 4) == 0)
        t.weights = TASK_CAPPED, t.weight_cap = 5, t.params--;
    else if (noise != TASK_NOISE_NONE && seeded_below(g, 2) == 0)
        t.filter = draw_filter(g);
    *clients = 1 + (uint32_t)seeded_below(g, PLAIN_CLIENTS);
    if (noise == TASK_NOISE_NONE) {
        CHECK_OK(pack_init(&t.ahe.pack, &(pack_config){ .scheme = PACK_PAD,
                                                        .dimension = values,
                                                        .clip = PACK_ONE,
                                                        .clients = *clients }));
        t.clients_max = *clients;
        return t;
    }
    while (st == SEFL_ERANGE) { /* not every z has a grid for so many values and clients */
        *clients = (uint32_t)log_uniform(g, 1, CLIENTS_MOST);
        st = dp_grid_init(&t.grid, &(dp_grid_config){ .z = log_uniform(g, 0.01, 100),
                                                      .clip = 1,
                                                      .dim = values,
                                                      .clients = *clients });
    }
    CHECK_OK(st);
    t.clients_max = *clients;
    t.ahe.pack.q = t.grid.q, t.ahe.pack.h = t.grid.h;
    t.sigma_steps = noise == TASK_NOISE_OWN ? t.grid.z * sqrt((double)t.grid.s2) : 0;
    return t;
}

static void one(task_noise noise, size_t values, room *r, seeded *g)
{
    uint32_t clients;
    release_numbers n;
    task t = draw_task(noise, values, g, &clients);
    if (noise == TASK_NOISE_NONE)
        without_noise(r->out, &t, r, clients, g);
    else
        with_noise(r->out, &t, r, clients, g);
    if (release_check_sum(&n, &t, r->out, clients) != SEFL_OK)
        fail_msg("noise %d, %zu values, %u clients, z %g: %s", (int)noise, values, clients,
                 t.grid.z, sefl_last_error());
    struct tally *y = &tally[noise];
    y->n++, y->values += (double)values;
    y->norm = fmax(y->norm, n.norm / n.bound);
    if (t.weights == TASK_CAPPED)
        y->weight = fmax(y->weight, fmax(n.weight / n.weight_most, n.weight / n.weight_least));
}

static void honest_rounds(void **state)
{
    (void)state;
    static const char *const names[] = { "none", "joint", "own" };
    unsigned long small = test_count(600, 1000000), large = test_count(2, 100);
    room r = { 0 };
    seeded g;
    sefl_clock clock = clock_monotonic();
    uint64_t began = clock_ms(&clock);
    test_seed(&g, "honest releases");
    CHECK_OK(sefl_new(&r.sum, LARGE, sizeof *r.sum));
    CHECK_OK(sefl_new(&r.out, LARGE, sizeof *r.out));
    CHECK_OK(sefl_new(&r.other, LARGE, sizeof *r.other));
    CHECK_OK(sefl_new(&r.zeros, LARGE, sizeof *r.zeros));
    CHECK_OK(sefl_new(&r.v, LARGE, sizeof *r.v));
    for (unsigned long i = 0; i < small; i++)
        one((task_noise)(i % 3), (size_t)log_uniform(&g, 100, 10001), &r, &g);
    for (unsigned long i = 0; i < large; i++)
        one((task_noise)(i % 3), LARGE, &r, &g);
    for (size_t i = 0; i < 3; i++)
        printf("%s: %lu releases, %.3g values, norm at most %.4f of its bound, weight slot %.4f\n",
               names[i], tally[i].n, tally[i].values, tally[i].norm, tally[i].weight);
    printf("%lu releases, %.0f s\n", small + large, 1e-3 * (double)(clock_ms(&clock) - began));
    sefl_free(r.sum);
    sefl_free(r.out);
    sefl_free(r.other);
    sefl_free(r.zeros);
    sefl_free(r.v);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(honest_rounds) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
