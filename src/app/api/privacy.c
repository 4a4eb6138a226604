#include "sefl/privacy.h"

#include "api/sized.h"
#include "privacy/dp_plan.h"
#include "store/ledger.h"

#include <stdio.h>

sefl_status sefl_privacy_compute(sefl_privacy_claim *out, const sefl_privacy_plan *plan)
{
    sefl_privacy_plan in;
    SEFL_PASS(sized_in(&in, sizeof in, plan));
    SEFL_NEED(in.noise == SEFL_NOISE_JOINT || in.noise == SEFL_NOISE_OWN, SEFL_EINVAL,
              "plan: unknown noise %d", (int)in.noise);
    SEFL_NEED(in.neighbours == SEFL_ZERO_OUT || in.neighbours == SEFL_REPLACE, SEFL_EINVAL,
              "plan: unknown neighbours %d", (int)in.neighbours);
    SEFL_NEED(in.reserved == 0, SEFL_EUNSUPPORTED,
              "plan: this program was compiled for version 0.2 and plans with sampling that the "
              "servers do not see: no claim rests on that any more");
    SEFL_NEED((in.z > 0) != (in.epsilon > 0), SEFL_EINVAL,
              "plan: set either z or epsilon, above 0");
    dp_plan p = { .source = in.noise == SEFL_NOISE_JOINT ? DP_SOURCE_JOINT : DP_SOURCE_OWN,
                  .clients = in.clients,
                  .rounds = in.rounds,
                  .dim = in.values,
                  .max_rounds = in.max_rounds_per_client,
                  .rate = in.rate,
                  .delta = in.delta,
                  .z = in.z,
                  .epsilon = in.epsilon,
                  .public_count = in.public_count != 0 };
    SEFL_PASS(dp_plan_compute(&p));
    const dp_claim *server = &p.server[in.neighbours], *others = &p.others[in.neighbours];
    return sized_out(out,
                     &(sefl_privacy_claim){
                         .claimed = server->claimed,
                         .z = p.z,
                         .epsilon_server = server->epsilon,
                         .epsilon_others = others->epsilon,
                         .noise_over_signal = in.clients > 0 ? p.noise_over_signal : 0,
                         .clients_for_signal = p.least_cohort,
                         .why_not = server->claimed ? NULL : server->why_not,
                     },
                     sizeof *out);
}

sefl_status sefl_ledger_read(sefl_ledger_status *out, const char *path, double delta)
{
    sefl_status st = SEFL_OK;
    ledger *l = NULL;
    ledger_total t;
    sefl_ledger_status r = { 0 };
    SEFL_TRY(ledger_open_read(&l, path));
    SEFL_TRY(ledger_spent(l, delta, &t));
    r.tasks = t.tasks, r.rounds = t.rounds, r.delta = t.delta;
    r.claimed = t.server.claimed;
    r.unit = (sefl_unit)t.unit;
    r.epsilon_server = t.server.epsilon, r.epsilon_others = t.others.epsilon;
    if (!r.claimed)
        snprintf(r.why_not, sizeof r.why_not, "%s", t.server.why_not);
    SEFL_TRY(sized_out(out, &r, sizeof r));
done:
    ledger_close(l);
    return st;
}
