#include "roles/pulse.h"

void pulse_heard(pulse *p, const sefl_clock *mono)
{
    const uint64_t now = clock_ms(mono);
    atomic_store(&p->heard_ms, now ? now : 1);
}

uint64_t pulse_away(const pulse *p, const sefl_clock *mono, const sefl_clock *wall)
{
    const uint64_t heard = atomic_load(&p->heard_ms), now = clock_ms(mono);
    if (heard == 0 || now < heard + PULSE_AWAY_MS)
        return 0;
    return (clock_ms(wall) - (now - heard)) / 1000;
}

void pulse_log(bool *away, uint64_t since, sefl_log *log)
{
    if (*away == (since > 0))
        return;
    *away = since > 0;
    if (*away)
        log_error(log, "the database does not answer", lf_u64("since", since));
    else
        log_info(log, "the database answers again");
}
