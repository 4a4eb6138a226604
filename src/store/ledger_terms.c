#include "store/ledger_terms.h"

#include <inttypes.h>
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
    SEFL_PASS(wr_u8(b, t->hidden));
    SEFL_PASS(wr_u8(b, (uint8_t)t->unit));
    SEFL_PASS(wr_f64(b, t->z));
    SEFL_PASS(wr_f64(b, t->rate));
    SEFL_PASS(wr_u64(b, t->dim));
    SEFL_PASS(wr_f64(b, t->sigma_steps));
    SEFL_PASS(wr_u64(b, t->max_rounds_per_client));
    SEFL_PASS(wr_f64(b, t->epsilon_max));
    return wr_f64(b, t->delta);
}

sefl_status ledger_terms_read(rd *r, ledger_terms *t)
{
    uint8_t noise, hidden, unit;
    SEFL_PASS(rd_raw(r, t->task, sizeof t->task));
    SEFL_PASS(rd_u8(r, &noise));
    SEFL_PASS(rd_u8(r, &hidden));
    SEFL_NEED(hidden <= 1, SEFL_EPROTO, "task record: hidden is %u", hidden);
    SEFL_PASS(rd_u8(r, &unit));
    SEFL_NEED(unit <= LEDGER_UNIT_RECORD, SEFL_EPROTO, "task record: unit is %u", unit);
    t->noise = (dp_noise)noise, t->hidden = hidden, t->unit = (ledger_unit)unit;
    SEFL_PASS(rd_f64(r, &t->z));
    SEFL_PASS(rd_f64(r, &t->rate));
    SEFL_PASS(rd_u64(r, &t->dim));
    SEFL_PASS(rd_f64(r, &t->sigma_steps));
    SEFL_PASS(rd_u64(r, &t->max_rounds_per_client));
    SEFL_PASS(rd_f64(r, &t->epsilon_max));
    return rd_f64(r, &t->delta);
}

dp_event ledger_terms_event(const ledger_terms *t, uint64_t rounds, bool against_server)
{
    dp_event ev = { .noise = t->noise,
                    .z = t->z,
                    .rate = t->rate,
                    .count = rounds,
                    .dim = t->dim,
                    .sigma_steps = t->sigma_steps };
    if (against_server && !t->hidden)
        ev.rate = 1;
    if (against_server && t->max_rounds_per_client && rounds > t->max_rounds_per_client)
        ev.count = t->max_rounds_per_client;
    return ev;
}

/* +0 and nothing else: a field without a meaning must not tell two equal tasks apart. */
static bool unused(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits == 0;
}

sefl_status ledger_terms_check(const ledger_terms *t)
{
    dp_event ev = ledger_terms_event(t, 1, false);
    SEFL_PASS(dp_event_check(&ev));
    const dp_law *law = dp_law_of(t->noise);
    SEFL_NEED(law->released, SEFL_EINVAL,
              "noise is %s: real numbers are never released, only integers", law->name);
    SEFL_NEED(t->unit == LEDGER_UNIT_CLIENT || t->unit == LEDGER_UNIT_RECORD, SEFL_EINVAL,
              "unit is %d: unknown", (int)t->unit);
    if (!law->claims) {
        SEFL_NEED(unused(t->z) && unused(t->rate) && unused(t->sigma_steps) && t->dim == 0 &&
                      unused(t->epsilon_max) && unused(t->delta) && !t->hidden &&
                      t->max_rounds_per_client == 0 && t->unit == LEDGER_UNIT_CLIENT,
                  SEFL_EINVAL, "noise is none: the other terms have no meaning and must be 0");
        return SEFL_OK;
    }
    SEFL_NEED(law->uses_sigma_steps || unused(t->sigma_steps), SEFL_EINVAL,
              "sigma_steps is %g: it has no meaning for %s noise and must be 0", t->sigma_steps,
              law->name);
    SEFL_NEED(law->uses_dim || t->dim == 0, SEFL_EINVAL,
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
