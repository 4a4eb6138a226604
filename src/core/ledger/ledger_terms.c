#include "store/ledger_terms.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static sefl_status wr_f64(sefl_buf *b, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return wr_u64(b, bits);
}

static sefl_status rd_f64(rd *r, double *out)
{
    uint64_t bits;
    sefl_status st = rd_u64(r, &bits);
    if (st == SEFL_OK)
        memcpy(out, &bits, sizeof bits);
    return st;
}

sefl_status ledger_terms_write(sefl_buf *b, const ledger_terms *t)
{
    SEFL_PASS(wr_raw(b, t->task, sizeof t->task));
    SEFL_PASS(wr_u8(b, (uint8_t)t->noise));
    SEFL_PASS(wr_u8(b, (uint8_t)t->unit));
    SEFL_PASS(wr_f64(b, t->z));
    SEFL_PASS(wr_f64(b, t->rate));
    SEFL_PASS(wr_u64(b, t->dim));
    SEFL_PASS(wr_f64(b, t->sigma_steps));
    SEFL_PASS(wr_u64(b, t->max_rounds_per_client));
    SEFL_PASS(wr_f64(b, t->epsilon_max));
    SEFL_PASS(wr_f64(b, t->delta));
    SEFL_PASS(wr_u64(b, t->separation));
    for (unsigned j = 0; j < DP_FILTER_LAGS; j++)
        SEFL_PASS(wr_u16(b, t->filter.gamma[j]));
    SEFL_PASS(wr_u64(b, t->horizon));
    SEFL_PASS(wr_f64(b, t->units));
    SEFL_PASS(wr_u64(b, t->turns));
    SEFL_PASS(wr_u64(b, t->turn_rounds));
    return wr_raw(b, t->list, sizeof t->list);
}

sefl_status ledger_terms_read(rd *r, ledger_terms *t)
{
    uint8_t noise, unit;
    SEFL_PASS(rd_raw(r, t->task, sizeof t->task));
    SEFL_PASS(rd_u8(r, &noise));
    SEFL_PASS(rd_u8(r, &unit));
    SEFL_NEED(unit <= LEDGER_UNIT_RECORD, SEFL_EPROTO, "task record: unit is %u", unit);
    t->noise = (dp_noise)noise, t->unit = (ledger_unit)unit;
    SEFL_PASS(rd_f64(r, &t->z));
    SEFL_PASS(rd_f64(r, &t->rate));
    SEFL_PASS(rd_u64(r, &t->dim));
    SEFL_PASS(rd_f64(r, &t->sigma_steps));
    SEFL_PASS(rd_u64(r, &t->max_rounds_per_client));
    SEFL_PASS(rd_f64(r, &t->epsilon_max));
    SEFL_PASS(rd_f64(r, &t->delta));
    SEFL_PASS(rd_u64(r, &t->separation));
    t->filter.b = 0;
    for (unsigned j = 0; j < DP_FILTER_LAGS; j++) {
        SEFL_PASS(rd_u16(r, &t->filter.gamma[j]));
        if (t->filter.gamma[j] > 0)
            t->filter.b = j + 1;
    }
    SEFL_PASS(rd_u64(r, &t->horizon));
    SEFL_PASS(rd_f64(r, &t->units));
    SEFL_PASS(rd_u64(r, &t->turns));
    SEFL_PASS(rd_u64(r, &t->turn_rounds));
    return rd_raw(r, t->list, sizeof t->list);
}

double ledger_terms_s(const ledger_terms *t, const ledger_use *use)
{
    const uint64_t n = t->horizon ? t->horizon : use->highest;
    const dp_turns turns = { t->max_rounds_per_client, t->separation };
    return (t->horizon ? dp_filter_s_of(&t->filter, n, use->rounds, use->count)
                       : dp_filter_s(&t->filter, n, &turns)) +
           dp_filter_slack(&t->filter, n, t->dim, t->z, t->units);
}

/* With a filter: all rounds are one release. There is no sampling, so one epsilon holds against
 * everybody. */
static dp_event filter_event(const ledger_terms *t, const ledger_use *use)
{
    const dp_event one = { .noise = t->noise,
                           .z = t->z,
                           .rate = 1,
                           .count = 1,
                           .dim = dp_law_of(t->noise)->uses_dim ? t->dim : 0,
                           .sigma_steps = t->sigma_steps };
    const uint64_t n = use->count == 0 ? 0 : t->horizon ? t->horizon : use->highest;
    return dp_filter_event(&one, n > 0 ? ledger_terms_s(t, use) : 1, n);
}

dp_event ledger_terms_event(const ledger_terms *t, const ledger_use *use, bool against_server)
{
    if (t->filter.b > 0)
        return filter_event(t, use);
    dp_event ev = { .noise = t->noise,
                    .z = t->z,
                    .rate = t->rate,
                    .count = use->count,
                    .dim = t->dim,
                    .sigma_steps = t->sigma_steps };
    if (against_server)
        ev.rate = 1;
    if (against_server && t->max_rounds_per_client && ev.count > t->max_rounds_per_client)
        ev.count = t->max_rounds_per_client;
    if (against_server && t->separation > 1) { /* by number: skipped rounds count, too */
        const uint64_t fit = dp_turns_in(&(dp_turns){ 0, t->separation }, use->highest);
        ev.count = fit < ev.count ? fit : ev.count;
    }
    if (t->turns > 0 && ev.count > 0) {
        const dp_record_turns turns = { .turns = t->turns, .rounds = t->turn_rounds };
        const uint64_t uses = dp_record_uses(&turns, use->lowest, use->highest);
        ev.count = uses < ev.count ? uses : ev.count;
    }
    return ev;
}

/* +0 and nothing else: a field without a meaning must not tell two equal tasks apart. */
static bool unused(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits == 0;
}

static sefl_status check_filter(const ledger_terms *t)
{
    SEFL_PASS(dp_filter_check(&t->filter));
    if (t->filter.b == 0) {
        SEFL_NEED(t->horizon == 0 && unused(t->units), SEFL_EINVAL,
                  "horizon and units must be 0 without a filter");
        return SEFL_OK;
    }
    SEFL_NEED(t->rate == 1, SEFL_EINVAL, "rate is %g: it must be 1 with a filter", t->rate);
    SEFL_NEED(t->dim > 0 && t->dim <= UINT64_C(1) << 32, SEFL_EINVAL,
              "dim is %" PRIu64 ": it must be in 1..2^32 with a filter", t->dim);
    SEFL_NEED(t->units >= 1 && isfinite(t->units), SEFL_EINVAL,
              "units is %g: it must be a finite number of at least 1 with a filter", t->units);
    SEFL_NEED(t->horizon <= DP_FILTER_ROUNDS_MAX, SEFL_EINVAL,
              "horizon is %" PRIu64 ": it must be at most %d", t->horizon, DP_FILTER_ROUNDS_MAX);
    return SEFL_OK;
}

static sefl_status check_turns(const ledger_terms *t)
{
    static const uint8_t none[LEDGER_HASH_BYTES];
    if (t->turns == 0) {
        SEFL_NEED(t->turn_rounds == 0 && memcmp(t->list, none, sizeof none) == 0, SEFL_EINVAL,
                  "turn_rounds and list must be 0 if records do not take turns");
        return SEFL_OK;
    }
    SEFL_NEED(t->unit == LEDGER_UNIT_RECORD && t->filter.b == 0 && t->separation == 0 &&
                  t->max_rounds_per_client == 0 && t->rate == 1,
              SEFL_EINVAL,
              "turns is %" PRIu64
              ": records take turns only if the unit is a record, the rate is 1, "
              "and there is no filter, no separation and no limit of rounds per client",
              t->turns);
    SEFL_NEED(t->turns < t->turn_rounds && t->turn_rounds <= UINT32_MAX, SEFL_EINVAL,
              "turns is %" PRIu64 ": it must be below the number of rounds (%" PRIu64 ")", t->turns,
              t->turn_rounds);
    return SEFL_OK;
}

sefl_status ledger_terms_round(const ledger_terms *t, uint64_t round)
{
    const uint64_t last = t->horizon ? t->horizon : DP_FILTER_ROUNDS_MAX;
    SEFL_NEED(round >= 1 || (t->filter.b == 0 && t->separation == 0 && t->turns == 0), SEFL_EINVAL,
              "round 0: the rounds of a task count from 1");
    SEFL_NEED(t->turns == 0 || round <= t->turn_rounds, SEFL_EINVAL,
              "round %" PRIu64 ": the task has %" PRIu64 " rounds", round, t->turn_rounds);
    SEFL_NEED(t->filter.b == 0 || round <= last, SEFL_EINVAL,
              "round %" PRIu64 " of a task with correlated noise: it must be at most %" PRIu64,
              round, last);
    return SEFL_OK;
}

sefl_status ledger_terms_check(const ledger_terms *t)
{
    const dp_law *law = dp_law_of(t->noise);
    SEFL_NEED(law, SEFL_EINVAL, "noise is %d: unknown", (int)t->noise);
    SEFL_PASS(check_filter(t));
    SEFL_PASS(check_turns(t));
    dp_event ev = ledger_terms_event(t, &(ledger_use){ 1, 1, 1, (uint64_t[]){ 1 } }, false);
    SEFL_PASS(dp_event_check(&ev));
    SEFL_NEED(law->released, SEFL_EINVAL,
              "noise is %s: real numbers are never released, only integers", law->name);
    SEFL_NEED(t->unit == LEDGER_UNIT_CLIENT || t->unit == LEDGER_UNIT_RECORD, SEFL_EINVAL,
              "unit is %d: unknown", (int)t->unit);
    SEFL_NEED(t->unit != LEDGER_UNIT_RECORD || t->rate == 1, SEFL_EINVAL,
              "rate is %g: it must be 1 for a record, whose privacy no sampling amplifies",
              t->rate);
    if (!law->claims) {
        SEFL_NEED(unused(t->z) && unused(t->rate) && unused(t->sigma_steps) && t->dim == 0 &&
                      unused(t->epsilon_max) && unused(t->delta) && t->max_rounds_per_client == 0 &&
                      t->unit == LEDGER_UNIT_CLIENT && t->separation == 0 && t->filter.b == 0 &&
                      t->turns == 0,
                  SEFL_EINVAL, "noise is none: the other terms have no meaning and must be 0");
        return SEFL_OK;
    }
    SEFL_NEED(law->uses_sigma_steps || unused(t->sigma_steps), SEFL_EINVAL,
              "sigma_steps is %g: it has no meaning for %s noise and must be 0", t->sigma_steps,
              law->name);
    SEFL_NEED(t->separation != 1, SEFL_EINVAL, "separation is 1: it must be 0 or above 1");
    SEFL_NEED(law->uses_dim || t->filter.b > 0 || t->dim == 0, SEFL_EINVAL,
              "dim is %" PRIu64 ": it has no meaning for %s noise and must be 0", t->dim,
              law->name);
    SEFL_PASS(dp_epsilon_check(t->epsilon_max));
    SEFL_PASS(dp_delta_check(t->delta));
    SEFL_NEED(t->z >= law->z_min, SEFL_EINVAL,
              "z (noise multiplier) is %g: below %g nothing is claimed for the %s noise, the "
              "task must say 'claim: none'",
              t->z, law->z_min, law->name);
    return SEFL_OK;
}

sefl_status ledger_terms_equal(bool *equal, const ledger_terms *a, const ledger_terms *b)
{
    sefl_status st = SEFL_OK;
    sefl_buf x = { 0 }, y = { 0 };
    SEFL_TRY(ledger_terms_write(&x, a));
    SEFL_TRY(ledger_terms_write(&y, b));
    *equal = x.n == y.n && memcmp(x.p, y.p, x.n) == 0;
done:
    buf_clear(&x);
    buf_clear(&y);
    return st;
}
