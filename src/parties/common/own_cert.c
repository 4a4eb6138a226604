#include "roles/own_cert.h"

#include <inttypes.h>
#include <stdio.h>

enum { DAY_S = 86400 };

bool own_cert_look(own_cert *o, int64_t ends, int64_t now, sefl_log *log)
{
    bool again = ends != o->ends || now < o->said || now - o->said >= DAY_S;
    if (!again || ends - now >= (int64_t)OWN_CERT_SOON_DAYS * DAY_S)
        return false;
    o->ends = ends, o->said = now;
    if (ends <= now)
        log_error(log,
                  "own certificate has expired, and peers refuse it: renew it with the same key",
                  lf_u64("days_ago", (uint64_t)(now - ends) / DAY_S));
    else
        log_warn(log, "own certificate expires soon: renew it with the same key",
                 lf_u64("days", (uint64_t)(ends - now) / DAY_S));
    return true;
}

bool clock_apart_text(char out[CLOCK_APART_TEXT], int64_t ahead_s)
{
    const int64_t s = ahead_s < 0 ? -ahead_s : ahead_s;
    const bool days = s >= 2 * DAY_S, hours = s >= 2 * 3600;
    snprintf(out, CLOCK_APART_TEXT,
             "this machine's clock is %" PRId64 " %s %s the server's: set it (NTP)",
             days    ? s / DAY_S
             : hours ? s / 3600
                     : s,
             days    ? "days"
             : hours ? "hours"
                     : "seconds",
             ahead_s > 0 ? "ahead of" : "behind");
    return s > CLOCK_APART_S;
}
