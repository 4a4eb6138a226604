#include "roles/waiting.h"

#include <inttypes.h>
#include <stdio.h>

bool waiting_due(waiting *w, const waiting_view *v, uint64_t now_ms)
{
    if (w->round != v->round)
        *w = (waiting){ .round = v->round, .since_ms = now_ms };
    if (now_ms - w->since_ms < WAITING_EVERY_MS ||
        (w->told && w->arrived == v->arrived && w->waits == v->waits && w->linked == v->linked))
        return false;
    w->since_ms = now_ms;
    w->told = true, w->arrived = v->arrived, w->waits = v->waits, w->linked = v->linked;
    return true;
}

void waiting_log(const waiting_view *v, sefl_log *log)
{
    log_info(log, "waiting for updates", lf_u64("round", v->round), lf_u64("arrived", v->arrived),
             lf_u64("needed", v->needed), lf_if(v->enough > 0, lf_u64("closes_at", v->enough)),
             lf_if(*v->who, lf_str("waits_for", v->who)),
             lf_if(v->left > 0, lf_u64("left_out", v->left)), lf_u64("left_s", v->left_ms / 1000),
             lf_bool("csp", v->linked));
}

void waiting_line(char out[WAITING_LINE], const waiting_view *v)
{
    size_t n = 0;
#define ADD(...) n += (size_t)snprintf(out + n, WAITING_LINE - n, __VA_ARGS__)
    ADD("round %" PRIu64 "/%" PRIu64 "  %u update%s, %u needed", v->round, v->rounds, v->arrived,
        v->arrived == 1 ? "" : "s", v->needed);
    if (v->enough > 0)
        ADD(", closes at %u", v->enough);
    ADD("; %" PRIu64 " s left", v->left_ms / 1000 + (v->left_ms % 1000 > 0));
    if (v->extensions > 0)
        ADD(" (extended %u times)", v->extensions);
    if (*v->who)
        ADD("; waits for %s", v->who);
    if (!v->linked)
        ADD("; no link to CSP");
#undef ADD
}
