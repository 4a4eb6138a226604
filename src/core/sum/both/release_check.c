#include "sum/release_check.h"
#include "privacy/mechanism/quantise.h"
#include "protocol/modes/mode.h"

#include <math.h>
#include <string.h>

enum { SIGNALS_LEAST = 3, SIGNAL_TIMES = 4, SOME = 1024 };

/* The maximum number of grid vectors in the sum. */
static double vectors(const task *t, uint32_t clients)
{
    double m = t->publish_count ? clients : t->clients_max;
    return t->unit == TASK_UNIT_RECORD ? m * t->records_max : m;
}

/* m vectors that weigh `total` clients together: one of weight w has a norm of at most w C and what
 * rounding adds, with noise also of at most D. */
static double norm_bound(const task *t, double m, double total, double clip)
{
    const release_mode *mode = task_mode(t);
    double root = sqrt((double)t->values), far = root + 7.5;
    double honest = total * clip + m * t->ahe.pack.q * root;
    if (!mode->noisy)
        return honest;
    double noise = sqrt(mode->source->noises) * t->grid.z * t->grid.d_sens;
    double gain = task_noise_gain(t), most = task_noise_gain_most(t);
    return fmin(honest, m * t->grid.d_sens) +
           noise * sqrt(gain * gain * far * far + most * most * mode->norm_jumps);
}

/* The slot's total in clients, and the range of an honest one: each client rounds its weight to a
 * step of q. */
static void weigh(release_numbers *n, const task *t, double slot, double m, double clip)
{
    double one = DP_WEIGHT_SLOT_SHARE * clip;
    double beyond = m * t->ahe.pack.q + task_mode(t)->value_jumps * task_mode(t)->deviation(t);
    n->weight = slot / one;
    n->weight_least = -beyond / one;
    n->weight_most = m + beyond / one;
}

sefl_status release_check_sum(release_numbers *out, const task *t, const int64_t *w,
                              uint32_t clients)
{
    const release_mode *mode = task_mode(t);
    release_numbers n = { 0 };
    pack_nano nano;
    double squares = 0, m = vectors(t, clients), total = m, sd = mode->deviation(t);
    *out = n;
    SEFL_PASS(pack_decimal(&nano, t->clip));
    double clip = (double)nano / (double)PACK_ONE;
    for (size_t at = 0; at < t->values; at += SOME) {
        double v[SOME];
        size_t some = t->values - at < SOME ? t->values - at : SOME;
        task_values(v, t, w + at, some);
        for (size_t i = 0; i < some; i++) {
            squares += v[i] * v[i];
            n.largest = n.largest < fabs(v[i]) ? fabs(v[i]) : n.largest;
        }
    }
    n.norm = sqrt(squares);
    n.signal = sqrt(fmax(0, squares - sd * sd * (double)t->values));
    if (t->weights == TASK_CAPPED) {
        weigh(&n, t, task_value(t, w[task_trained(t)]), m, clip);
        total = fmax(0, fmin(m, n.weight - n.weight_least));
    }
    n.bound = norm_bound(t, m, total, clip);
    *out = n;
    SEFL_NEED(n.norm <= n.bound, SEFL_ERANGE, /* false for NAN */
              "the sum has a norm of %g; honest clients and the noise stay below %g", n.norm,
              n.bound);
    SEFL_NEED(n.weight >= n.weight_least && n.weight <= n.weight_most, SEFL_ERANGE,
              "the weights add up to %g clients; honest clients stay between %g and %g", n.weight,
              n.weight_least, n.weight_most);
    return SEFL_OK;
}

sefl_status release_check_loss(double loss)
{
    if (loss <= RELEASE_LOSS_MAX) /* false for NAN */
        return SEFL_OK;
    return sefl_fail(SEFL_ERANGE,
                     "the new model's validation loss is %g nats per token; at most %g is allowed",
                     loss, RELEASE_LOSS_MAX);
}

/* ---- signals --------------------------------------------------------------------------------- */

static double median_of(const release_signals *s)
{
    double v[RELEASE_SIGNALS] = { 0 };
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t k = i;
        for (; k > 0 && v[k - 1] > s->signal[i]; k--)
            v[k] = v[k - 1];
        v[k] = s->signal[i];
    }
    return (v[(s->n - 1) / 2] + v[s->n / 2]) / 2;
}

bool release_signals_add(release_signals *s, const task *t, uint64_t round, double signal,
                         double *median)
{
    bool warn = false;
    *median = 0;
    if (s->n > 0 && s->round[s->n - 1] >= round)
        return false;
    if (s->n >= SIGNALS_LEAST) {
        /* |R|^2 of noise alone deviates by var sqrt(2 d): that much may look like a signal */
        double floor = task_mode(t)->deviation(t) * sqrt(sqrt(2.0 * (double)t->values));
        *median = median_of(s);
        warn = signal > SIGNAL_TIMES * fmax(*median, floor);
    }
    if (s->n == RELEASE_SIGNALS) {
        s->n--;
        memmove(s->round, s->round + 1, s->n * sizeof *s->round);
        memmove(s->signal, s->signal + 1, s->n * sizeof *s->signal);
    }
    s->round[s->n] = round, s->signal[s->n] = signal, s->n++;
    return warn;
}
