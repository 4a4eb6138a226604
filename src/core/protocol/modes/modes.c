/* The list of release modes, and lookups in it. */
#include "protocol/modes/mode.h"

#include "privacy/mechanism/quantise.h"
#include "protocol/task.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define DECLARE(NAME, name, text) extern const release_mode mode_##name;
RELEASE_MODES(DECLARE)

#define ADDRESS(NAME, name, text) [TASK_NOISE_##NAME] = &mode_##name,
const release_mode *const release_modes[RELEASE_MODE_COUNT] = { RELEASE_MODES(ADDRESS) };

/* RELEASE_MODE_COUNT for an unknown name */
static unsigned index_of(sefl_span name)
{
    unsigned i = 0;
    while (i < RELEASE_MODE_COUNT && (strlen(release_modes[i]->name) != name.n ||
                                      memcmp(release_modes[i]->name, name.p, name.n) != 0))
        i++;
    return i;
}

const release_mode *release_mode_named(sefl_span name)
{
    unsigned i = index_of(name);
    return i < RELEASE_MODE_COUNT ? release_modes[i] : NULL;
}

sefl_status release_modes_parse(uint32_t *set, const char *what, const char *list)
{
    uint32_t found = 0;
    for (size_t n; *list; list += n, list += strspn(list, ", ")) {
        n = strcspn(list, ", ");
        unsigned i = index_of(span_of(list, n));
        SEFL_NEED(i < RELEASE_MODE_COUNT || n == 0, SEFL_EINVAL, "%s has \"%.*s\": of %s", what,
                  (int)(n < 32 ? n : 32), list, RELEASE_MODE_WORDS);
        if (n > 0)
            found |= UINT32_C(1) << i;
    }
    SEFL_NEED(found, SEFL_EINVAL, "%s is empty, so the client would refuse every task", what);
    *set = found;
    return SEFL_OK;
}

void release_mode_text(char out[RELEASE_MODE_TEXT], const release_mode *m, bool sealed)
{
    snprintf(out, RELEASE_MODE_TEXT, "%s: %s; %s", m->name,
             sealed ? m->trust : "with paillier, both servers must be honest", m->price);
}

const release_mode *task_mode(const task *t)
{
    assert((unsigned)t->noise < RELEASE_MODE_COUNT);
    return release_modes[t->noise];
}

/* Without noise, the packing gives step and bound: q = C / 2^f exactly, so C is q * R. With unit
 * record the slot holds records_max vectors. */
dp_grid task_client_grid(const task *t)
{
    const pack *p = &t->ahe.pack;
    int64_t records = t->unit == TASK_UNIT_RECORD && t->records_max > 0 ? t->records_max : 1;
    if (task_mode(t)->noisy)
        return t->grid;
    return (dp_grid){ .clip = p->q * ((double)p->r_2p16 / 65536),
                      .q = p->q,
                      .value_max = p->value_max / records };
}

sefl_status task_quantise(int64_t *X, const task *t, const float *v, const dp_weight *weight,
                          const sefl_rng *coins)
{
    const dp_grid g = task_client_grid(t);
    if (task_mode(t)->noisy)
        return dp_quantise(X, NULL, &g, v, task_trained(t), weight, coins);
    return dp_quantise_plain(X, &(dp_plain_grid){ g.clip, g.q, g.value_max }, v, task_trained(t),
                             weight, coins);
}

double task_noise_gain(const task *t)
{
    double squares = 1;
    for (unsigned j = 0; j < t->filter.b; j++)
        squares += pow((double)t->filter.gamma[j] / DP_FILTER_ONE, 2);
    return sqrt(squares);
}

double task_noise_gain_most(const task *t)
{
    double sum = 1;
    for (unsigned j = 0; j < t->filter.b; j++)
        sum += (double)t->filter.gamma[j] / DP_FILTER_ONE;
    return sum;
}

void task_values(double *out, const task *t, const int64_t *w, size_t n)
{
    const bool coarse = task_mode(t)->coarse;
    const double step = coarse ? t->ahe.pack.h : t->ahe.pack.q, shift = coarse ? 0.5 : 0;
    for (size_t i = 0; i < n; i++)
        out[i] = ((double)w[i] + shift) * step;
}

double task_value(const task *t, int64_t w)
{
    double v;
    task_values(&v, t, &w, 1);
    return v;
}
